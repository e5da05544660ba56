"""Write the tables and figures of experiments for the documentation: ``python -m benchmarks.results_page FOLDER``.

With ``--merge`` the methods in FOLDER replace those of the same name in the documentation, and the others stay: where
only some methods have changed, only they need to run again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import numpy as np
import pandas as pd

from benchmarks.claims import EXPERIMENTS, read_experiment
from srosr.experiments.protocol_file import load_protocol
from srosr.experiments.result_tables import TABLES, read_table, write_table
from srosr.experiments.statistics import find_levels, mean_interval, values_at
from srosr.experiments.trial import METRICS
from srosr.reports.experiment_figures import draw_sections

DOCS = Path(__file__).parent.parent / "docs" / "results"
FIGURES = {
    "openness-f": "F-measure against openness",
    "openness-accuracy": "accuracy against openness",
    "methods-f": "F-measure of every method",
    "methods-accuracy": "accuracy of every method",
    "trade": "recognition, rejection and accuracy",
    "ranking-auroc": "AUROC at the largest openness",
    "ranking-oscr": "OSCR at the largest openness",
    "errors-0": "the two kinds of errors",
    "confusion-0": "confusion in the first trial",
    "target": "thresholds for target rates",
    "coverage": "known samples rejected against the target",
}
OURS = "calibrated"
SHOWN = {"f": "F", "accuracy": "accuracy", "auroc": "AUROC", "oscr": "OSCR", "known_rejected": "known rejected"}
BEST_MARKED = ("f", "accuracy", "auroc", "oscr")
ALWAYS_SHOWN = ("openness-f", "openness-accuracy")


def summarize_results(results: pd.DataFrame) -> pd.DataFrame:
    """Return mean, half width of the 95 % interval and number of trials of every method, openness and metric."""
    rows = []
    for keys, part in results.groupby(["metric", "n_unknown", "openness", "method"], sort=True):
        values = part["value"].dropna()
        interval = mean_interval(values)
        rows.append((*keys, interval.mean, interval.half_width, len(values)))
    return pd.DataFrame(rows, columns=["metric", "n_unknown", "openness", "method", "mean", "half_width", "trials"])


def format_table(results: pd.DataFrame) -> str:
    """Return the table at the largest openness, methods ordered by F-measure, the best of a column in bold."""
    last = find_levels(results, "f")[-1]
    means = {m: values_at(results, m, last).apply(mean_interval) for m in SHOWN}
    trials = values_at(results, "f", last).count()
    full = trials[trials == trials.max()].index
    # Equal up to rounding is equal: one score with two thresholds has one AUROC.
    least = {m: max(means[m][name].mean for name in full) - 1e-12 for m in BEST_MARKED}
    order = sorted(means["f"].index, key=lambda name: -means["f"][name].mean)
    lines = [f"| method | {' | '.join(SHOWN.values())} | trials |", "|---" * (len(SHOWN) + 2) + "|"]
    for name in order:
        cells = []
        for m in SHOWN:
            text = f"{means[m][name].mean:.3f}"
            cells.append(f"**{text}**" if name in full and means[m][name].mean >= least.get(m, np.inf) else text)
        lines.append(f"| {name} | {' | '.join(cells)} | {trials[name]} |")
    return "\n".join(lines)


def describe_trials(counts: pd.Series) -> str:
    """Return the number of trials in words, given the number of each method."""
    most = counts.max()
    if most == 1:
        return "one trial"
    fewer = ", or as many as the last column says" if counts.min() < most else ""
    return f"means over {most} trials{fewer}"


def copy_experiment(folder: Path, there: Path) -> None:
    """Copy the tables and figures of one experiment."""
    there.mkdir(parents=True, exist_ok=True)
    for table in ("results.parquet", "times.parquet"):
        shutil.copyfile(folder / table, there / table)
    copy_figures(folder, there)


def copy_figures(folder: Path, there: Path) -> None:
    """Copy the figures of one experiment."""
    for figure in FIGURES:
        source = folder / "figures" / f"{figure}.png"
        if source.exists():
            shutil.copyfile(source, there / f"{figure}.png")


def merge_experiment(name: str, folder: Path, there: Path) -> list[str]:
    """Replace the rows of the methods that ``folder`` has, and draw the figures of all methods again.

    Figures of one method or of thresholds for target rates need more than the tables: they are copied if ours has run.
    Returns which methods have fewer trials than before.
    """
    results = merge_rows(name, *(read_experiment(place / "results.parquet") for place in (there, folder)))
    old, new = (read_table(place / "times.parquet", "times") for place in (there, folder))
    times = merge_rows(name, old, new)
    before, after = (table.groupby("method")["trial"].nunique() for table in (old, times))
    lost = [f"{name}: {m} has {after[m]} trials, {n} before" for m, n in before.items() if after[m] < n]
    if OURS in set(new["method"]):
        copy_figures(folder, there)
    write_table(there / "results.parquet", "results", results)
    write_table(there / "times.parquet", "times", times)
    coverage, methods = pd.DataFrame(columns=list(TABLES["coverage"])), list(dict.fromkeys(results["method"]))
    for section in draw_sections(results, coverage, {}, methods=methods):
        for drawing in section.drawings:
            if (figure := drawing.name.removeprefix("figure-")) in FIGURES:
                (there / f"{figure}.png").write_bytes(drawing.png)
    return lost


def merge_rows(name: str, old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``new`` and those of ``old`` for all other methods, in the order of a run."""
    rows = pd.concat([old[~old["method"].isin(new["method"])], new])
    methods = {setting.name: rank for rank, setting in enumerate(load_protocol(name).methods)}
    ranks = {"method": methods, "metric": {metric: rank for rank, metric in enumerate(METRICS)}}
    order = [column for column in ("trial", "n_unknown", "method", "metric") if column in rows]
    return rows.sort_values(order, key=lambda c: c.map(ranks[c.name]) if c.name in ranks else c, ignore_index=True)


def write_section(name: str, there: Path) -> str:
    """Write the summary of one experiment and return its section in Markdown."""
    protocol, results = load_protocol(name), read_experiment(there / "results.parquet")
    times = read_table(there / "times.parquet", "times")
    summarize_results(results).to_csv(there / "summary.csv", index=False, float_format="%.6f")
    drawn = [(figure, caption) for figure, caption in FIGURES.items() if (there / f"{figure}.png").exists()]
    last = find_levels(results, "f")[-1]
    counted = describe_trials(values_at(results, "f", last).count())
    spent = times[["fit_seconds", "predict_seconds", "measure_seconds"]].sum().sum()
    share = times["coding_seconds"].sum() / spent
    shown = " ".join(f"![{caption}]({name}/{figure}.png)" for figure, caption in drawn if figure in ALWAYS_SHOWN)
    others = ", ".join(f"[{caption}]({name}/{figure}.png)" for figure, caption in drawn if figure not in ALWAYS_SHOWN)
    about = " ".join(protocol.about.split())
    return f"""## {protocol.title}

{about}

Openness {100 * last.openness:.2f} %, {last.n_unknown} unknown classes; {counted}.
All levels, with half widths of 95 % intervals, are in [summary.csv]({name}/summary.csv), all values in
`{name}/results.parquet`.
Computed in {spent / 60:.0f} minutes on one core, {100 * (1 - share):.0f} % of it not sparse coding.

{format_table(results)}

{shown}

More: {others}.
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=DOCS, help="[default: docs/results]")
@click.option("--merge", is_flag=True, help="Keep experiments and methods that FOLDER does not have.")
def main(folder: Path, out: Path, merge: bool) -> None:
    """Copy tables and figures of the experiments in FOLDER and write tables.md, which shows them."""
    names = [name for name in EXPERIMENTS if (folder / name / "results.parquet").exists()]
    if not names:
        raise click.ClickException(f"{folder} has no results of {', '.join(EXPERIMENTS)}.")
    for name in names:
        if merge and (out / name / "results.parquet").exists():
            for line in merge_experiment(name, folder / name, out / name):
                click.echo(line)
        else:
            copy_experiment(folder / name, out / name)
    shown = [name for name in EXPERIMENTS if name in names or (merge and (out / name / "results.parquet").exists())]
    parts = [write_section(name, out / name) for name in shown]
    command = "python -m benchmarks.results_page srosr-results"
    head = f"""# Tables and figures

Written by `{command}`; read [README.md](README.md) first. The methods are
explained in [rivals.md](../rivals.md), the metrics in [metrics.md](../metrics.md).
"""
    (out / "tables.md").write_text("\n".join([head, *parts]), encoding="utf-8")
    click.echo(f"{', '.join(names)}: {out / 'tables.md'}")


if __name__ == "__main__":
    main()

"""The paper's claims against the results of its experiments: ``python -m benchmarks.claims srosr-results``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

from benchmarks import report
from srosr.experiments.protocol_file import load_protocol
from srosr.experiments.result_tables import read_results, read_table
from srosr.experiments.statistics import Interval, mean_interval

EXPERIMENTS = ("yaleb", "mnist", "mnist-full", "uiuc", "caltech256", "caltech256-clip", "caltech101")
RULES = ("paper", "paper-5-percent", "paper-lasso", "calibrated", "calibrated-f")
"""The paper's rule: with its codes and threshold, with a threshold as all others have, with our codes; and ours."""
RIVALS = ("w-svm", "w-svm-original", "sci", "ratio", "naive")
OURS = ("calibrated", "calibrated-f")
LASSO_RULES = ("paper-lasso", "calibrated", "calibrated-f")
LASSO_RIVALS = ("sci-lasso", "ratio-lasso", "naive-lasso")
"""Rules on our codes meet the others on our codes too, in all trials: on MNIST those at the paper's ε have few."""
METRICS = {"f": "F", "accuracy": "accuracy"}


def paired(results: pd.DataFrame, metric: str, one: str, other: str) -> pd.DataFrame:
    """Differences one − other: a row a trial that both have, a column a level of openness."""
    values = results[results["metric"] == metric]
    a, b = (
        values[values["method"] == name].pivot(index="trial", columns="openness", values="value")
        for name in (one, other)
    )
    return (a - b).dropna()


def verdicts(differences: pd.DataFrame) -> tuple[int, int, int]:
    """At how many levels one is ahead, behind, and neither, by the 95 % interval of the mean."""
    intervals = [mean_interval(differences[level]) for level in differences]
    ahead = sum(i.low > 0 for i in intervals)
    behind = sum(i.high < 0 for i in intervals)
    return ahead, behind, len(intervals) - ahead - behind


def slope(differences: pd.DataFrame) -> Interval:
    """Change of a difference for one point of openness (1 %), a straight line in every trial."""
    openness = 100 * np.asarray(differences.columns, dtype=float)
    centred = openness - openness.mean()
    slopes = differences.to_numpy() @ centred / (centred @ centred)
    return mean_interval(slopes)


def _text(interval: Interval, digits: int = 3) -> str:
    mean = f"{interval.mean:+.{digits}f}"
    return mean if np.isnan(interval.half_width) else f"{mean} ± {interval.half_width:.{digits}f}"


def pairs(there: Iterable[str]) -> list[tuple[str, str]]:
    """Each rule and each rival that it is held against, of the methods that are there."""
    met = [(rule, rival) for rule in RULES for rival in (*RIVALS, *(LASSO_RIVALS if rule in LASSO_RULES else ()))]
    met += [(rule, rival) for rule in OURS for rival in ("paper", "paper-lasso")]
    return [pair for pair in met if set(pair) <= set(there)]


def ahead_table(out: Any, results: pd.DataFrame) -> Any:
    """For each rule, rival and metric: levels ahead, behind and even, and the mean difference over all levels."""
    headings = [f"{label}: {what}" for label in METRICS.values() for what in ("levels + / − / =", "mean difference")]
    table = report.new_table(out, "method", "against", "trials", *headings)
    for rule, rival in pairs(results["method"].unique()):
        row, n = [], 0
        for metric in METRICS:
            differences = paired(results, metric, rule, rival)
            n = len(differences)
            row += ["{} / {} / {}".format(*verdicts(differences)), _text(mean_interval(differences.mean(axis=1)))]
        table.add_row(rule, rival, str(n), *row)
    return table


def course(results: pd.DataFrame, metric: str, method: str) -> tuple[Interval, Interval, Interval]:
    """A metric at the smallest and at the largest openness, and the change between them."""
    values = results[(results["metric"] == metric) & (results["method"] == method)]
    table = values.pivot(index="trial", columns="openness", values="value")
    first, last = table[table.columns[0]], table[table.columns[-1]]
    return mean_interval(first), mean_interval(last), mean_interval(last - first)


def epsilon_methods(experiment: str) -> list[str]:
    """The methods of an experiment that are on codes within some epsilon of a sample, as the paper's are."""
    settings = load_protocol(experiment).methods
    return [setting.name for setting in settings if setting.parameters.get("problem", {}).get("name") == "bpdn"]


def time_text(times: pd.DataFrame, epsilon: Iterable[str]) -> str:
    """Minutes of one core: of all methods, of those on codes at the paper's epsilon, and of the longest trial."""
    spent = times[["fit_seconds", "predict_seconds", "measure_seconds"]].sum(axis=1) / 60
    hard = spent[times["method"].isin(list(epsilon))]
    text = f"{spent.sum():.1f} minutes of one core"
    if hard.empty:
        return f"{text}."
    longest = hard.groupby(times["trial"]).sum().max()
    return f"{text}, {hard.sum():.1f} of them for methods on codes at the paper's epsilon, up to {longest:.1f} a trial."


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(folder: Path) -> None:
    """Print, for each experiment in FOLDER, what its results say of the paper's claims.

    "+ / − / =": at how many levels of openness the method is ahead, behind, or neither, by the 95 % interval of the
    paired difference over trials. Differences are means over all levels.
    """
    out = report.console()
    found = 0
    for name in EXPERIMENTS:
        path = folder / name / "results.parquet"
        if not path.exists():
            continue
        found += 1
        results = read_results(path)
        n_trials = results["trial"].nunique()
        out.print(f"\n{name}: {n_trials} {'trial' if n_trials == 1 else 'trials'}", style="bold")
        if (times := folder / name / "times.parquet").exists():
            out.print(time_text(read_table(times, "times"), epsilon_methods(name)))
        report.show(out, "1. Ahead of W-SVM, SCI, ratio and naive", ahead_table(out, results))
        report.show(
            out,
            "2. Both tails ahead of the matched one alone",
            _fused_table(out, results),
        )
        report.show(out, "3. Margins as openness grows: change for one point (1 %)", _slope_table(out, results))
        report.show(out, "4. Accuracy, recognition and rejection, from the smallest to the largest openness",
                    _course_table(out, results))  # fmt: skip
        if OURS[0] in set(results["method"]):
            report.show(out, "5. Ours by AUROC and OSCR, against the best of the others", _ranking_table(out, results))
        if LASSO_RIVALS[0] in set(results["method"]):
            report.show(out, "6. Codes at the paper's epsilon against Lasso codes, AUROC on the same trials",
                        _codes_table(out, results))  # fmt: skip
    if not found:
        raise click.ClickException(f"{folder} has no results of {', '.join(EXPERIMENTS)}.")


def _fused_table(out: Any, results: pd.DataFrame) -> Any:
    table = report.new_table(out, "fused", "matched", "trials", "F", "levels", "accuracy", "levels", "AUROC", "OSCR")
    for one, other in (("paper", "matched"), ("paper-lasso", "matched-lasso")):
        if not {one, other} <= set(results["method"]):
            continue
        cells, n = [], 0
        for metric in ("f", "accuracy", "auroc", "oscr"):
            differences = paired(results, metric, one, other)
            n = len(differences)
            cells.append(_text(mean_interval(differences.mean(axis=1))))
            if metric in METRICS:
                cells.append("{} / {} / {}".format(*verdicts(differences)))
        table.add_row(one, other, str(n), *cells)
    return table


def _slope_table(out: Any, results: pd.DataFrame) -> Any:
    table = report.new_table(out, "method", "against", "F", "accuracy")
    for rule, rival in pairs(results["method"].unique()):
        table.add_row(rule, rival, *(_text(slope(paired(results, m, rule, rival)), 4) for m in METRICS))
    return table


def _course_table(out: Any, results: pd.DataFrame) -> Any:
    table = report.new_table(out, "method", "accuracy", "change", "recognition", "rejection", "F", "change")
    for method in (*RULES, "matched", "matched-lasso", *RIVALS, *LASSO_RIVALS):
        if method not in set(results["method"]):
            continue
        cells = []
        for metric in ("accuracy", "recognition_accuracy", "rejection_accuracy", "f"):
            first, last, change = course(results, metric, method)
            cells.append(f"{first.mean:.3f} → {last.mean:.3f}")
            if metric in METRICS:
                cells.append(_text(change))
        table.add_row(method, *cells)
    return table


def _ranking_table(out: Any, results: pd.DataFrame) -> Any:
    """Ours against the best method of others that has all trials, at the largest openness and over all levels."""
    table = report.new_table(out, "metric", "ours", "best other", "its mean", "difference", "over all levels")
    trials = results.groupby("method")["trial"].nunique()
    others = [name for name in trials.index if trials[name] == trials.max() and name not in OURS]
    for metric in ("auroc", "oscr"):
        means = {name: course(results, metric, name)[1].mean for name in (*others, OURS[0])}
        best = max(others, key=lambda name: means[name])
        differences = paired(results, metric, OURS[0], best)
        last = mean_interval(differences[differences.columns[-1]])
        whole = mean_interval(differences.mean(axis=1))
        table.add_row(metric, f"{means[OURS[0]]:.3f}", best, f"{means[best]:.3f}", _text(last), _text(whole))
    return table


def _codes_table(out: Any, results: pd.DataFrame) -> Any:
    """At the largest openness, in the trials that both have."""
    table = report.new_table(out, "method", "trials", "epsilon", "Lasso", "difference")
    values = results[results["metric"] == "auroc"]
    last = values[values["openness"] == values["openness"].max()]
    by_trial = last.pivot(index="trial", columns="method", values="value")
    for method in ("paper", "matched", "sci", "ratio", "naive"):
        if {method, f"{method}-lasso"} <= set(by_trial):
            both = by_trial[[method, f"{method}-lasso"]].dropna()
            one, other = both[method], both[f"{method}-lasso"]
            difference = _text(mean_interval(one - other))
            table.add_row(method, str(len(both)), f"{one.mean():.3f}", f"{other.mean():.3f}", difference)
    return table


if __name__ == "__main__":
    main()

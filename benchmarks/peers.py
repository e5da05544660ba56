"""srosr compared with what users of other packages do today, on the same splits: ``python -m benchmarks.peers``."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.accuracy import _chosen, _progress, fewer
from benchmarks.methods import TARGET_REJECTION, assess
from benchmarks.peer_methods.checks import estimator_checks
from benchmarks.peer_methods.contestants import CONTESTANTS, OURS
from benchmarks.peer_methods.recipes import Prepared
from benchmarks.peer_methods.scalings import SCALINGS
from benchmarks.problems import Unavailable
from benchmarks.standings import Record, Summary, difference, summarize
from benchmarks.trials import TRIALS, Trial, TrialSet, _one_pool

RESULTS = Path(__file__).parent / "results"
N_TRIALS = 10
QUICK_TRIALS = 2
PACKAGES = ("srosr", "scikit-learn", "numpy", "scipy", "pyod", "torchosr", "torch", "EVM", "libmr")
"""Distributions whose versions are recorded with the results."""
METRICS = {"auroc": "AUROC", "oscr": "OSCR", "f": "F"}
CHOSEN_BY = {"auroc": "oscr", "oscr": "oscr", "f": "f", "false_rejection": "f", "fit_seconds": "oscr"}
"""The metric whose mean over the trials chooses the scaling for each column: OSCR for scores, F for labels."""


def digits(seed: int) -> Trial:
    """Draw six known digits of scikit-learn's, 100 training pictures each; 70 test pictures of each of the ten."""
    from srosr.datasets.registry import load_digits_bundled

    data = load_digits_bundled()
    return _one_pool(data.X, np.asarray(data.y), seed, 6, 4, 100, 70)


SETS: dict[str, TrialSet] = {
    "digits": TrialSet("scikit-learn's digits, 6/4, 100 per class", False, digits),
    **{name: TRIALS[name] for name in ("yaleb", "usps", "letter", "uiuc", "orl", "coil20", "clip", "mnist")},
}
"""Data sets by name; the first is bundled, the others need files."""
USUAL = ("digits", "yaleb", "letter", "uiuc", "orl")


# -- measuring -------------------------------------------------------------------------------------------


def run_trial(name: str, seed: int, contestants: Sequence[str], quick: bool = False) -> dict[str, list[Record]]:
    """Run all contestants on one trial under each of their scalings, all on one thread.

    Returns
    -------
    dict
        ``records`` and ``failed``; a contestant that fails does not affect the others.
    """
    trial = SETS[name].draw(seed)
    if quick:
        trial = fewer(trial, seed)
    out: dict[str, list[Record]] = {"records": [], "failed": []}
    for scaling, scaled in SCALINGS.items():
        prepared = Prepared(scaled(trial), seed)
        for key in contestants:
            contestant = CONTESTANTS[key]
            if scaling not in contestant.scalings:
                continue
            where = {"set": name, "seed": seed, "method": key, "scaling": scaling}
            try:
                with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
                    warnings.simplefilter("always")
                    measured = assess(trial, contestant.recipe(prepared))
            except Exception as error:
                out["failed"].append(where | {"error": f"{type(error).__name__}: {error}".splitlines()[0]})
                continue
            record = where | measured
            if caught:
                record["warnings"] = dict(Counter(w.category.__name__ for w in caught))
            out["records"].append(record)
    return out


def _results(work: Sequence[tuple], jobs: int) -> Iterator[dict[str, list[Record]]]:
    if jobs == 1:
        yield from (run_trial(*each) for each in work)
    else:
        yield from Parallel(jobs, return_as="generator_unordered")(delayed(run_trial)(*each) for each in work)


# -- summing up ------------------------------------------------------------------------------------------


def best_scaling(records: Sequence[Record], metric: str) -> dict[str, str]:
    """Return, for each method of one set, the scaling with the best mean of a metric, among those with most trials.

    The choice is made on the test samples, which no user could do: it favors methods with more than one scaling.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for r in records:
        found.setdefault(r["method"], {}).setdefault(r["scaling"], []).append(r[metric])
    return {m: max(ways, key=lambda way: (len(ways[way]), np.mean(ways[way]))) for m, ways in found.items()}


def summarize_set(records: Sequence[Record], contestants: Sequence[str]) -> list[dict[str, Any]]:
    """Return a line for each method of one set, at its best scalings: means, half-widths, differences to ours."""
    chosen = {metric: best_scaling(records, metric) for metric in set(CHOSEN_BY.values())}

    def rows(method: str, metric: str) -> list[Record]:
        scaling = chosen[CHOSEN_BY[metric]].get(method)
        return [r for r in records if (r["method"], r["scaling"]) == (method, scaling)]

    lines = []
    for method in contestants:
        if not rows(method, "oscr"):
            continue
        line: dict[str, Any] = {"method": method, "scaling": {m: ways[method] for m, ways in chosen.items()}}
        line["trials"] = len(rows(method, "oscr"))
        for metric in CHOSEN_BY:
            line[metric] = _entry(summarize(r[metric] for r in rows(method, metric)))
        for metric in METRICS:
            ours = rows(OURS, metric) if method != OURS else []
            line[f"ours_minus_{metric}"] = _entry(difference(ours, rows(method, metric), metric))
        lines.append(line)
    return lines


def _entry(s: Summary | None) -> dict[str, float] | None:
    return None if s is None else {"mean": s.mean, "half": s.half}


def summarize_all(by_set: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the means of each method over the sets, and on how many sets ours is ahead, behind or undecided.

    Ahead and behind are decided by the 95 % interval of the paired difference. A method is averaged over the sets on
    which it ran.
    """
    methods = list(dict.fromkeys(line["method"] for lines in by_set.values() for line in lines))
    out = []
    for method in methods:
        mine = {name: _line(lines, method) for name, lines in by_set.items()}
        there = {name: line for name, line in mine.items() if line is not None}
        entry: dict[str, Any] = {"method": method, "sets": list(there)}
        for metric in (*METRICS, "false_rejection"):
            values = [line[metric]["mean"] for line in there.values() if line[metric] is not None]
            entry[metric] = float(np.mean(values)) if values else None
        entry["verdicts"] = {
            metric: dict(Counter(_verdict(line[f"ours_minus_{metric}"]) for line in there.values()))
            for metric in METRICS
            if method != OURS
        }
        out.append(entry)
    return out


def _line(lines: Sequence[dict[str, Any]], method: str) -> dict[str, Any] | None:
    return next((line for line in lines if line["method"] == method), None)


def _verdict(paired: dict[str, float] | None) -> str:
    if paired is None or not math.isfinite(paired["half"]):
        return "undecided"
    if paired["mean"] - paired["half"] > 0:
        return "ahead"
    return "behind" if paired["mean"] + paired["half"] < 0 else "undecided"


# -- tables ----------------------------------------------------------------------------------------------


def _cell(entry: dict[str, float] | None, digits: int = 3, sign: str = "") -> str:
    if entry is None:
        return "–"
    half = "" if not math.isfinite(entry["half"]) else f" ±{entry['half']:.{digits}f}"
    return f"{entry['mean']:{sign}.{digits}f}{half}"


def _scaling(of: dict[str, str]) -> str:
    return " / ".join(dict.fromkeys((of["oscr"], of["f"])))


def set_table(out: Console, lines: Sequence[dict[str, Any]]) -> Table:
    """Return a table with a line for each method of one set."""
    columns = ["method", "scaling", *METRICS.values(), "known rejected", "fit s", "ours − method, AUROC", "OSCR", "F"]
    table = report.new_table(out, *columns, texts=("scaling",))
    for line in lines:
        cells = [
            line["method"],
            _scaling(line["scaling"]),
            *(_cell(line[m]) for m in METRICS),
            _cell(line["false_rejection"]),
        ]
        cells.append("–" if line["fit_seconds"] is None else f"{line['fit_seconds']['mean']:.2g}")
        table.add_row(*cells, *(_cell(line[f"ours_minus_{m}"], sign="+") for m in METRICS))
    return table


def overall_table(out: Console, lines: Sequence[dict[str, Any]], n_sets: int) -> Table:
    """Return a table of means over the sets, and of the sets on which ours is ahead, undecided and behind."""
    columns = [
        "method",
        "sets",
        *METRICS.values(),
        "known rejected",
        *(f"ahead/undecided/behind, {m}" for m in METRICS.values()),
    ]
    table = report.new_table(out, *columns)
    for line in lines:
        values = (line[m] for m in (*METRICS, "false_rejection"))
        counts = []
        for metric in METRICS:
            verdict = line["verdicts"].get(metric)
            parts = ("ahead", "undecided", "behind")
            counts.append("" if verdict is None else "/".join(str(verdict.get(part, 0)) for part in parts))
        cells = ("–" if v is None else f"{v:.3f}" for v in values)
        table.add_row(line["method"], f"{len(line['sets'])} of {n_sets}", *cells, *counts)
    return table


LEGEND = (
    "Means over the trials with half of the 95 % t-interval; differences are paired by trial. Known rejected: share of "
    f"known test samples rejected, with a target of {TARGET_REJECTION:g}: srosr and PyOD by their own means, logistic "
    "regression and EVM, which have none, by a quantile of held-out known samples; torchosr has its own threshold. "
    "Scaling: raw, unit length or standardized, whichever has the best mean OSCR (for AUROC and OSCR) / best mean F "
    "(for F and known rejected) on the test samples, a choice that favors all but srosr, which takes the features as "
    "they are. No method saw an unknown sample in training or for its threshold. Fit s: one thread."
)


# -- the command -----------------------------------------------------------------------------------------


def _versions() -> dict[str, str | None]:
    out: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            out[name] = None
    if out["srosr"] is None:
        import srosr

        out["srosr"] = srosr.__version__
    return out


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help=f"Only {QUICK_TRIALS} trials of the bundled digits with few test samples.")
@click.option("--sets", metavar="SETS", help=f"Comma-separated sets: {', '.join(SETS)}.  [{','.join(USUAL)}]")
@click.option("--trials", type=click.IntRange(1), help=f"Trials of each set.  [{N_TRIALS}, quick: {QUICK_TRIALS}]")
@click.option(
    "--methods",
    "names",
    metavar="METHODS",
    help="Comma-separated methods, named as in the tables.  [all but slow ones]",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Trials to run at once, one process each."
)
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the records go.  [peers.json or peers-quick.json in benchmarks/results]",
)
@click.option("--checks", is_flag=True, help="Measure nothing: run scikit-learn's estimator checks on ours and PyOD's.")
@click.option(
    "--show",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Measure nothing: print the tables of a saved file.",
)
def main(
    quick: bool,
    sets: str | None,
    trials: int | None,
    names: str | None,
    jobs: int,
    path: Path | None,
    checks: bool,
    show: Path | None,
) -> None:
    """Compare srosr with what users of other packages do, on the same open set trials.

    Packages that are not installed, and sets whose files are not under SROSR_DATA_DIR, are skipped, with the reason.
    """
    out = report.console()
    if show is not None:
        print_tables(out, json.loads(show.read_text()))
        return
    if checks:
        print_checks(out)
        return
    started, err = time.perf_counter(), Console(stderr=True)
    chosen = _chosen(sets or ("digits" if quick else ",".join(USUAL)), SETS, "--sets")
    by_lower = {key.lower(): key for key in CONTESTANTS}
    usual = None if names is None else _chosen(names, by_lower, "--methods")
    wanted = [key for key in CONTESTANTS if (not CONTESTANTS[key].extra if usual is None else key.lower() in usual)]
    n_trials = trials or (QUICK_TRIALS if quick else N_TRIALS)
    content: dict[str, Any] = {
        "environment": report.environment([]) | {"versions": _versions()},
        "settings": {"quick": quick, "trials": n_trials, "target_rejection": TARGET_REJECTION},
        "records": [],
        "failed": [],
        "skipped": [],
        "seconds": 0.0,
    }
    reasons = {key: CONTESTANTS[key].skip_reason() for key in wanted}
    contestants = [key for key in wanted if reasons[key] is None]
    content["skipped"] += [{"method": key, "reason": reason} for key, reason in reasons.items() if reason is not None]
    path = path or RESULTS / f"peers{'-quick' if quick else ''}.json"
    available = []
    for name in chosen:
        try:
            SETS[name].draw(0)
            available.append(name)
        except Unavailable as reason:
            content["skipped"].append({"set": name, "reason": str(reason)})
    # Seed by seed, so that an interrupted run has the same number of trials for each set.
    work = [(name, seed, contestants, quick) for seed in range(n_trials) for name in available]
    with _progress(err, "peers", len(work)) as tick:
        for result in _results(work, jobs):
            for key in ("records", "failed"):
                content[key] += result[key]
            content["seconds"] = time.perf_counter() - started
            report.write_json(path, content)
            tick()
    if not content["records"]:
        for entry in content["skipped"]:
            out.print(f"skipped {entry.get('method') or entry.get('set')}: {entry['reason']}", markup=False)
        out.print("Nothing was measured and nothing was written: no data set was found.")
        sys.exit(1)
    print_tables(out, content)
    out.print(f"{len(content['records'])} records in {path.name}, {content['seconds']:.0f} s")


def print_checks(out: Console) -> None:
    """Print how many estimator checks passed and failed, with the names of the latter."""
    lines = estimator_checks()
    table = report.new_table(out, "estimator", "passed", "failed", "skipped")
    for line in lines:
        table.add_row(line["estimator"], *(str(line[key]) for key in ("passed", "failed", "skipped")))
    report.show(out, f"Estimator checks of scikit-learn {metadata.version('scikit-learn')}", table)
    for line in lines:
        if line["names"]:
            out.print(f"{line['estimator']} fails: {', '.join(line['names'])}")


def print_tables(out: Console, content: dict[str, Any]) -> None:
    """Print versions, a table per set, means over the sets, and what was skipped or failed."""
    versions = content["environment"]["versions"]
    out.print("Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items() if version))
    records = sorted(content["records"], key=lambda r: r["seed"])
    order = [key for key in CONTESTANTS if any(r["method"] == key for r in records)]
    by_set = {}
    for name in (key for key in SETS if any(r["set"] == key for r in records)):
        by_set[name] = summarize_set([r for r in records if r["set"] == name], order)
        n_trials = len({r["seed"] for r in records if r["set"] == name})
        title = f"{SETS[name].title} (known/unknown classes): {n_trials} trials"
        report.show(out, title, set_table(out, by_set[name]))
    plural = "s" if len(by_set) > 1 else ""
    report.show(out, f"Means over {len(by_set)} set{plural}", overall_table(out, summarize_all(by_set), len(by_set)))
    out.print(LEGEND)
    for entry in content["skipped"]:
        out.print(f"skipped {entry.get('method') or entry.get('set')}: {entry['reason']}", markup=False)
    for text, n in Counter(f"{f['set']}, {f['method']}: {f['error']}" for f in content["failed"]).items():
        out.print(f"failed {n} times: {text}", markup=False)


if __name__ == "__main__":
    main()

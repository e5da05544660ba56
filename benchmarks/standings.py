"""Means, paired differences and tables of the accuracy benchmark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from benchmarks import report
from benchmarks.methods import EVIDENCE, RIVALS, TARGET_REJECTION
from benchmarks.trials import TrialSet

Record = dict[str, Any]

METRICS = {"auroc": "AUROC", "oscr": "OSCR", "f": "F", "accuracy": "accuracy"}
SMALLER_IS_BETTER = frozenset({"fpr95", "fit_seconds", "predict_seconds"})
HIDDEN_BELOW = {"fit s": 168, "predict s": 168, "known rejected": 150, "accuracy": 135}
"""Terminal width below which a column is only in the JSON."""
COVERAGE_MARGIN = 0.02
"""How far the mean false rejection may be from the target."""
LEGEND = (
    "Mean ± standard error over the trials; * marks the largest mean of a column. Known rejected: share of known test "
    f"samples rejected, with a target of {TARGET_REJECTION:g}. The last column is calibrated minus the method in AUROC "
    "on the same trials, with a 95 % t-interval. A single kind of evidence has no threshold, hence no F. Times are for "
    "one thread."
)


@dataclass(frozen=True)
class Summary:
    """Mean over trials with its standard error (NaN for one trial) and the half-width of its 95 % t-interval."""

    n: int
    mean: float
    error: float
    half: float
    least: float
    most: float


def summarize(values: Iterable[float | None]) -> Summary | None:
    """Summarize the values that are not None; return None if there are none.

    Examples
    --------
    >>> s = summarize([1.0, 2.0, 3.0, None])
    >>> s.n, s.mean, round(s.error, 4), round(s.half, 4)
    (3, 2.0, 0.5774, 2.4841)
    """
    found = np.array([v for v in values if v is not None], dtype=np.float64)
    n = len(found)
    if not n:
        return None
    error = float(found.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    half = float(stats.t.ppf(0.975, n - 1) * error) if n > 1 else math.nan
    return Summary(n, float(found.mean()), error, half, float(found.min()), float(found.max()))


def by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group the records of one set by method, in order of appearance."""
    out: dict[str, list[Record]] = {}
    for r in records:
        out.setdefault(r["method"], []).append(r)
    return out


def difference(ours: Sequence[Record], others: Sequence[Record], metric: str = "auroc") -> Summary | None:
    """Summarize our values minus the other method's over the trials that both have."""
    theirs = {r["seed"]: r[metric] for r in others if r[metric] is not None}
    return summarize(r[metric] - theirs[r["seed"]] for r in ours if r[metric] is not None and r["seed"] in theirs)


def _plus_minus(s: Summary | None, digits: int = 4) -> str:
    if s is None:
        return "–"
    return f"{s.mean:.{digits}f}" + ("" if math.isnan(s.error) else f" ±{s.error:.{digits}f}")


def _interval(s: Summary | None) -> str:
    if s is None:
        return "–"
    if math.isnan(s.half):
        return f"{s.mean:+.4f}"
    return f"{s.mean:+.4f} [{s.mean - s.half:+.4f}, {s.mean + s.half:+.4f}]"


def _seconds(s: Summary | None) -> str:
    return "–" if s is None else f"{s.mean:.3g}"


def set_table(out: Console, records: Sequence[Record]) -> Table:
    """Return a table with a line for each method of one set."""
    methods = by_method(records)
    means = {name: {metric: summarize(r[metric] for r in rows) for metric in METRICS} for name, rows in methods.items()}
    top = {metric: max((m[metric].mean for m in means.values() if m[metric]), default=None) for metric in METRICS}
    columns = ["method", *METRICS.values(), "known rejected", "fit s", "predict s", "calibrated − method"]
    columns = [column for column in columns if out.width >= HIDDEN_BELOW.get(column, 0)]
    table = report.new_table(out, *columns)
    for name, rows in methods.items():
        cells = {"method": name}
        for metric, column in METRICS.items():
            mean = means[name][metric]
            cells[column] = _plus_minus(mean) + (" *" if mean and mean.mean == top[metric] else "  ")
        cells["known rejected"] = _plus_minus(summarize(r["false_rejection"] for r in rows), 3)
        cells["fit s"] = _seconds(summarize(r["fit_seconds"] for r in rows))
        cells["predict s"] = _seconds(summarize(r["predict_seconds"] for r in rows))
        ours = methods.get("calibrated")
        paired = ours is not None and name != "calibrated"
        cells["calibrated − method"] = _interval(difference(ours, rows)) if paired else ""
        table.add_row(*(cells[column] for column in columns))
    return table


def set_title(drawn: TrialSet, trials: Sequence[Record]) -> str:
    """Return the title of the table of one set: its role, sizes, and the unknown rows that no method can reject."""
    part = "designed on" if drawn.designed else "confirmed on"
    sizes = {key: _range(t[key] for t in trials) for key in ("n_train", "n_known", "n_unknown")}
    repeated = summarize(t["repeated_share"] for t in trials)
    share = 0.0 if repeated is None else repeated.mean
    return (
        f"{drawn.title} ({part}): {len(trials)} trial{'s' if len(trials) > 1 else ''}, {sizes['n_train']} training "
        f"samples, test {sizes['n_known']} known and {sizes['n_unknown']} unknown; {report.percent(share)} of the "
        "unknown rows equal a training row"
    )


def _range(values: Iterable[int]) -> str:
    found = list(values)
    return str(found[0]) if len(set(found)) == 1 else f"{min(found)}–{max(found)}"


def _best(ours: Sequence[Record], methods: dict[str, list[Record]], among: Callable[[str], bool]) -> dict[str, Any]:
    """Return the best of some methods by mean AUROC, and how far ours is ahead of it."""
    means = {name: summarize(r["auroc"] for r in rows) for name, rows in methods.items() if among(name)}
    names = {name: s.mean for name, s in means.items() if s is not None}
    if not names:
        return {"name": None, "auroc": None, "ahead": None, "half": None}
    name = max(names, key=names.__getitem__)
    ahead = difference(ours, methods[name])
    return {
        "name": name,
        "auroc": names[name],
        "ahead": None if ahead is None else ahead.mean,
        "half": None if ahead is None else ahead.half,
    }


def overview(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return, for each set, the mean AUROC of our default rule, its best single evidence and its best rival."""
    lines = []
    for name in dict.fromkeys(r["set"] for r in records):
        methods = by_method([r for r in records if r["set"] == name])
        ours = methods.get("calibrated")
        mean = summarize(r["auroc"] for r in ours) if ours else None
        if ours is None or mean is None:
            continue
        evidence = _best(ours, methods, lambda method: method.startswith(EVIDENCE))
        rival = _best(ours, methods, lambda method: method in RIVALS)
        lines.append({"set": name, "auroc": mean.mean, "evidence": evidence, "rival": rival})
    return lines


def overview_table(out: Console, lines: Sequence[dict[str, Any]]) -> Table:
    """Return the overview as a table."""
    columns = ("set", "calibrated", "best evidence", "AUROC", "ahead", "best rival", "AUROC", "ahead")
    table = report.new_table(out, *columns, texts=("best evidence", "best rival"))
    for line in lines:
        cells = [line["set"], f"{line['auroc']:.4f}"]
        for best in (line["evidence"], line["rival"]):
            if best["name"] is None:
                cells += ["–", "–", "–"]
                continue
            half = best["half"]
            margin = "" if half is None or math.isnan(half) else f" ±{half:.4f}"
            ahead = "–" if best["ahead"] is None else f"{best['ahead']:+.4f}{margin}"
            cells += [best["name"].removeprefix(EVIDENCE), f"{best['auroc']:.4f}", ahead]
        table.add_row(*cells)
    return table


def grid(records: Sequence[Record], metric: str) -> dict[str, dict[str, Summary]]:
    """Summarize a metric by method and set, with methods ordered by mean rank, best first.

    Single kinds of evidence and methods without the metric are left out. Methods are ranked on the sets that all of
    them have.
    """
    cells: dict[str, dict[str, Summary]] = {}
    for r in records:
        if not r["method"].startswith(EVIDENCE):
            cells.setdefault(r["method"], {})
    names = list(dict.fromkeys(r["set"] for r in records))
    for method, row in cells.items():
        for name in names:
            s = summarize(r[metric] for r in records if (r["method"], r["set"]) == (method, name))
            if s is not None:
                row[name] = s
    cells = {method: row for method, row in cells.items() if row}
    ranks = mean_ranks(cells, metric)
    return dict(sorted(cells.items(), key=lambda item: ranks[item[0]]))


def mean_ranks(cells: dict[str, dict[str, Summary]], metric: str) -> dict[str, float]:
    """Return the mean rank of each method over the sets that all of them have; 1 is best, and ties share a rank."""
    shared = set.intersection(*(set(row) for row in cells.values())) if cells else set()
    if not shared:
        return dict.fromkeys(cells, math.nan)
    values = np.array([[_loss(row[name].mean, metric) for name in sorted(shared)] for row in cells.values()])
    return dict(zip(cells, stats.rankdata(values, axis=0).mean(axis=1).tolist(), strict=True))


def _loss(value: float, metric: str) -> float:
    """Return a number that is smaller for a better method; false rejection should be neither below nor above target."""
    if metric == "false_rejection":
        return abs(value - TARGET_REJECTION)
    return value if metric in SMALLER_IS_BETTER else -value


def best_of(cells: dict[str, dict[str, Summary]], name: str, metric: str) -> float:
    """Return the best mean on a set."""
    return min((row[name].mean for row in cells.values() if name in row), key=lambda mean: _loss(mean, metric))


def grid_table(out: Console, records: Sequence[Record], metric: str) -> Table:
    """Return a table of all methods on all sets."""
    cells, names = grid(records, metric), list(dict.fromkeys(r["set"] for r in records))
    ranks = mean_ranks(cells, metric)
    table = report.new_table(out, "method", *names, "mean rank")
    for method, row in cells.items():
        texts = []
        for name in names:
            mark = "*" if name in row and row[name].mean == best_of(cells, name, metric) else " "
            texts.append(f"{row[name].mean:.4f}{mark}" if name in row else "–")
        rank = ranks[method]
        table.add_row(method, *texts, "–" if math.isnan(rank) else f"{rank:.1f}")
    return table


def coverage(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return, for each set, the share of known test samples rejected and the target."""
    lines = []
    for name in dict.fromkeys(r["set"] for r in records):
        s = summarize(r["false_rejection"] for r in records if r["set"] == name)
        if s is not None:
            lines.append(
                {
                    "set": name,
                    "trials": s.n,
                    "target": TARGET_REJECTION,
                    "mean": s.mean,
                    "error": s.error,
                    "least": s.least,
                    "most": s.most,
                    "met": abs(s.mean - TARGET_REJECTION) <= COVERAGE_MARGIN,
                }
            )
    return lines


def coverage_table(out: Console, lines: Sequence[dict[str, Any]]) -> Table:
    """Return the coverage as a table."""
    columns = (
        "set",
        "trials",
        "target",
        "known rejected",
        "std. error",
        "least",
        "most",
        f"within {COVERAGE_MARGIN:g}",
    )
    table = report.new_table(out, *columns)
    for line in lines:
        error = "–" if math.isnan(line["error"]) else f"{line['error']:.4f}"
        numbers = (f"{line[key]:.4f}" for key in ("least", "most"))
        verdict = "yes" if line["met"] else "NO"
        cells = (line["set"], str(line["trials"]), f"{line['target']:g}", f"{line['mean']:.4f}", error)
        table.add_row(*cells, *numbers, verdict)
    return table


def rules_table(out: Console, records: Sequence[Record]) -> Table:
    """Return a table of the paper's rule and the matched tail alone: F, accuracy and the paired difference."""
    methods = by_method(records)
    table = report.new_table(out, "rule", "F", "accuracy", "known rejected", "AUROC", "fit s", "predict s")
    for name, rows in methods.items():
        cells = [_plus_minus(summarize(r[key] for r in rows)) for key in ("f", "accuracy", "false_rejection", "auroc")]
        cells += [_seconds(summarize(r[key] for r in rows)) for key in ("fit_seconds", "predict_seconds")]
        table.add_row(name, *cells)
    if {"paper", "matched"} <= set(methods):
        keys = ("f", "accuracy", "false_rejection", "auroc")
        cells = [_interval(difference(methods["paper"], methods["matched"], key)) for key in keys]
        table.add_row("paper − matched", *cells, "", "")
    return table

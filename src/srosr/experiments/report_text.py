"""What a report says in words and tables: who is best and by how much, and where numbers cannot tell.

Two methods can be told apart when the 95 % interval of their paired difference over trials leaves out zero. Everything
here turns tables into text; :mod:`srosr.experiments.report` puts it into a page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .method_strokes import OURS, in_order
from .metric_info import METRIC_INFO, Metric
from .statistics import Level, compare, levels, paired_differences, summarise, values_at, values_averaged

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BEST",
    "EVEN",
    "HEADLINE_METRICS",
    "Cell",
    "Column",
    "Outcome",
    "averaged_or_none",
    "capital",
    "column_of",
    "headline",
    "interval_text",
    "judged",
    "level_text",
    "listed",
    "number",
    "paired_cells",
    "ranked",
    "trials_of",
]

#: Metrics of the headline and of the first table.
HEADLINE_METRICS = ("f", "accuracy", "auroc", "oscr")
BEST, EVEN = "best", "even"


@dataclass(frozen=True)
class Cell:
    """A cell of a table: a mean, half the width of its interval, a mark (best, even or none) and a remark."""

    mean: str
    half_width: str = ""
    mark: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Column:
    """A metric of all methods, at one openness or averaged over all."""

    label: str
    cells: dict[str, Cell]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Methods by one metric.

    Attributes
    ----------
    summary : DataFrame
        Of every method with a value, the best first.
    best : list of str
        The method with the best mean, and those with the very same.
    even : list of str
        Methods that the trials cannot tell from the best.
    versus : DataFrame
        The best against the others, as :func:`paired_differences` has it; a positive difference is better, whichever
        way the metric is good.
    """

    summary: pd.DataFrame
    best: list[str]
    even: list[str]
    versus: pd.DataFrame


def judged(values: pd.DataFrame, better: int) -> Outcome | None:
    """Who is best, and who cannot be told from the best; None where there is no value.

    A method with less than half the trials of another cannot be best: it may have met the easy ones.

    Parameters
    ----------
    values : DataFrame
        A row a trial, a column a method.
    better : {1, -1}
        Whether larger or smaller values are better.
    """
    values = better * values[sorted(values.columns)]
    summary = summarise(values).sort_values("mean", ascending=False, kind="stable")
    if summary.empty:
        return None
    able = summary[2 * summary["n"] >= summary["n"].max()]
    top = able.iloc[0]
    best = [str(name) for name in able.index[np.isclose(able["mean"], top["mean"], rtol=0, atol=1e-12)]]
    versus = paired_differences(values, best[0])
    # Without an interval, or with one that holds zero, nothing is shown to be better.
    even = [str(name) for name in versus.index if not versus.at[name, "low"] > 0 and name not in best]
    return Outcome(summary.assign(mean=better * summary["mean"]), best, even, versus)


def column_of(values: pd.DataFrame, metric: str, label: str, trials: dict[str, int]) -> Column:
    """A column of a table: mean ± half the interval of each method, the best and those even with it marked.

    Parameters
    ----------
    values : DataFrame
        A row a trial, a column a method.
    metric : str
    label : str
    trials : dict of str to int
        Trials that each method has; a cell with fewer says so.
    """
    better = METRIC_INFO.get(metric, Metric(metric, 0)).better
    outcome = judged(values, better or 1)
    cells: dict[str, Cell] = {}
    if outcome is None:
        return Column(label, cells)
    told_apart = better and outcome.summary["n"].max() > 1
    for name, row in outcome.summary.iterrows():
        mark = ""
        if better and name in outcome.best and len(outcome.summary) > 1:
            mark = BEST
        elif told_apart and name in outcome.even:
            mark = EVEN
        n = int(row["n"])
        cells[str(name)] = Cell(
            number(row["mean"]),
            "" if math.isnan(row["half_width"]) else number(row["half_width"]),
            mark,
            f"{n} trials" if n < trials.get(str(name), n) else "",
        )
    return Column(label, cells)


def headline(results: pd.DataFrame, ours: str = OURS) -> list[tuple[str, str]]:
    """What the run comes to at the largest openness: a pair of metric and sentence for each of the four main metrics.

    Parameters
    ----------
    results : DataFrame
    ours : str
    """
    said = []
    for metric in HEADLINE_METRICS:
        steps = levels(results, metric)
        if steps:
            outcome = judged(values_at(results, metric, steps[-1]), 1)
            assert outcome is not None  # a level is there because a value is
            said.append((capital(METRIC_INFO[metric].label), _sentence(outcome, ours)))
    return said


def _sentence(outcome: Outcome, ours: str) -> str:
    summary, best = outcome.summary, outcome.best
    leader = best[0] if ours not in best else ours
    value = _mean(summary, leader)
    if len(summary) == 1:
        return f"{leader}, the only method with results, has {value}."
    shared = f", the same as {listed([name for name in best if name != leader])}" if len(best) > 1 else ""
    if summary["n"].max() < 2:
        text = f"{leader} is highest with {value}{shared}, but one trial cannot tell methods apart."
        return text + _place(outcome, ours, leader)
    text = f"{leader} has the highest mean, {value}{shared}"
    rest = [name for name in map(str, summary.index) if name not in best]
    if outcome.even:
        text += f", but is not distinguishable from {listed(sorted(outcome.even, key=rest.index), 3)}"
        nearest = min(outcome.even, key=rest.index)
        text += f" ({_gap(outcome, nearest)}{' to ' + nearest if len(outcome.even) > 1 else ''})."
    elif rest:
        # Those with few trials may have a higher mean, of trials that were easier.
        next_best = next((name for name in rest if summary.at[name, "mean"] <= summary.at[leader, "mean"]), rest[0])
        text += f": ahead of {next_best}, the next, by {_gap(outcome, next_best)}."
    else:
        text += "."
    return text + _place(outcome, ours, leader)


def _place(outcome: Outcome, ours: str, leader: str) -> str:
    """Where ours is, if it is not first."""
    summary = outcome.summary
    if ours == leader:
        return ""
    if ours not in summary.index:
        return f" {ours} has no result."
    place = 1 + int((summary["mean"] > summary.at[ours, "mean"]).sum())
    text = f" {ours} is {_ordinal(place)} of {len(summary)} with {_mean(summary, ours)}"
    if summary["n"].max() < 2:
        return text + "."
    if ours in outcome.even:
        return text + ", not distinguishable from the first."
    return text + f", behind by {_gap(outcome, ours)}."


def _mean(summary: pd.DataFrame, name: str) -> str:
    n, most = int(summary.at[name, "n"]), int(summary["n"].max())
    few = f" (in {n} of {most} trials)" if n < most else ""
    return interval_text(summary.at[name, "mean"], summary.at[name, "half_width"]) + few


def _gap(outcome: Outcome, other: str) -> str:
    """The paired difference of the best to another method."""
    row = outcome.versus.loc[other]
    if math.isnan(row["low"]):
        return f"{number(row['difference'])} in the one trial they share"
    return f"{number(row['difference'])} [{number(row['low'])}, {number(row['high'])}] over {int(row['n'])} trials"


def paired_cells(values: pd.DataFrame, ours: str) -> dict[str, dict[str, Any]]:
    """Ours against each other method, as text.

    Parameters
    ----------
    values : DataFrame
        A row a trial, a column a method.
    ours : str

    Returns
    -------
    cells : dict of str to dict
        By method: difference, p, p_holm, outcomes (won/tied/lost) and n; verdict is "▲" or "▼" where the corrected
        p-value is below 0.05 and ours is above or below, "" elsewhere.
    """
    if ours not in values.columns or values[ours].notna().sum() == 0:
        return {}
    cells = {}
    for name, row in compare(values, ours).iterrows():
        sure = row["p_holm"] < 0.05 and row["difference"] != 0
        interval = "" if math.isnan(row["low"]) else f" [{number(row['low'])}, {number(row['high'])}]"
        cells[str(name)] = {
            "difference": number(row["difference"], signed=True) + interval,
            "p": _p(row["p"]),
            "p_holm": _p(row["p_holm"]),
            "outcomes": f"{int(row['larger'])}/{int(row['ties'])}/{int(row['smaller'])}",
            "n": int(row["n"]),
            "verdict": ("▲" if row["difference"] > 0 else "▼") if sure else "",
        }
    return cells


def trials_of(results: pd.DataFrame) -> dict[str, int]:
    """In how many trials each method has any value."""
    there = results[results["value"].notna()]
    return {str(name): int(n) for name, n in there.groupby("method")["trial"].nunique().items()}


def ranked(results: pd.DataFrame, methods: Sequence[str], ours: str = OURS) -> list[str]:
    """Methods in the order of the tables: by F-measure at the largest openness, those without it last."""
    steps = levels(results, "f")
    order: list[str] = []
    if steps and (outcome := judged(values_at(results, "f", steps[-1]), 1)):
        order = [str(name) for name in outcome.summary.index if name in methods]
    return order + [name for name in in_order(methods, ours) if name not in order]


# -- numbers and lists as text ------------------------------------------------------------------------------


def number(value: float, digits: int = 3, *, signed: bool = False) -> str:
    """A number with a true minus sign; zero has no sign."""
    if math.isnan(value):
        return "–"
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", "−")


def interval_text(mean: float, half_width: float) -> str:
    """Mean ± half the interval, or the mean alone where one trial gives no interval."""
    return number(mean) if math.isnan(half_width) else f"{number(mean)} ± {number(half_width)}"


def capital(text: str) -> str:
    """Text with a capital at its beginning; the rest stays."""
    return text[:1].upper() + text[1:]


def level_text(level: Level) -> str:
    """An openness in words."""
    few = {0: "no unknown class", 1: "1 unknown class"}
    classes = few.get(level.n_unknown, f"{level.n_unknown} unknown classes")
    return f"openness {100 * level.openness:.3g}\N{NO-BREAK SPACE}% ({classes})"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names as an English list, the last ones counted where there are many."""
    names = list(names)
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""


def averaged_or_none(results: pd.DataFrame, metric: str) -> pd.DataFrame | None:
    """Values averaged over levels; None where there is one level at most, and nothing to average."""
    return values_averaged(results, metric) if len(levels(results, metric)) > 1 else None


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"

"""What a report says in words and tables: who is best and by how much, and where numbers cannot tell.

Two methods can be told apart when the 95 % interval of their paired difference over trials leaves out zero. A method
with few trials is never called best, its trials may be the easy ones; where it is ahead of the best in the trials that
both have, that is said. Everything here turns tables into text; :mod:`srosr.reports.experiment_page` puts it
into a page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.messages import count_of, join_names
from .._support.number_format import capital, interval_text, number, ordinal, p_text
from ..experiments import (
    LEAST_FOR_INTERVAL,
    METRIC_INFO,
    Metric,
    compare,
    levels,
    paired_differences,
    summarise,
    values_at,
    values_averaged,
)
from .method_styles import OURS, in_order

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "AHEAD",
    "BEST",
    "EVEN",
    "HEADLINE_METRICS",
    "Cell",
    "Column",
    "Outcome",
    "averaged_or_none",
    "column_of",
    "few_trials",
    "headline",
    "judged",
    "paired_cells",
    "ranked",
    "trials_of",
]

#: Metrics of the headline and of the first table.
HEADLINE_METRICS = ("f", "accuracy", "auroc", "oscr")
BEST, EVEN, AHEAD = "best", "even", "ahead"
#: Fewer trials than these hardly tell methods apart.
ENOUGH_TRIALS = 5


@dataclass(frozen=True)
class Cell:
    """A cell of a table: a mean, half the width of its interval, a mark (best, even, ahead or none) and a remark."""

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
    able : list of str
        Methods with half of the most trials or more: the others cannot be best.
    best : list of str
        The able method with the best mean, and those with the very same; ours first.
    even : list of str
        Methods that the trials cannot tell from the best.
    ahead : list of str
        Methods that are better than the best in the trials that both have, though they cannot be best themselves.
    versus : DataFrame
        The best against the others, as :func:`paired_differences` has it; a positive difference is better, whichever
        way the metric is good.
    """

    summary: pd.DataFrame
    able: list[str]
    best: list[str]
    even: list[str]
    ahead: list[str]
    versus: pd.DataFrame


def judged(values: pd.DataFrame, better: int, ours: str | None = OURS) -> Outcome | None:
    """Who is best, who cannot be told from the best and who is ahead of it; None where there is no value.

    A method with less than half the trials of another cannot be best: it may have met the easy ones.

    Parameters
    ----------
    values : DataFrame
        A row a trial, a column a method.
    better : {1, -1}
        Whether larger or smaller values are better.
    ours : str, optional
        Of several best, the one that others are compared with.
    """
    values = better * values[sorted(values.columns)]
    summary = summarise(values).sort_values("mean", ascending=False, kind="stable")
    if summary.empty:
        return None
    able = summary[2 * summary["n"] >= summary["n"].max()]
    same = np.isclose(able["mean"], able["mean"].iloc[0], rtol=0, atol=1e-12)
    best = sorted(map(str, able.index[same]), key=lambda name: (name != ours, name))
    versus = paired_differences(values, best[0])
    even, ahead = [], []
    for name, low, high in zip(map(str, versus.index), versus["low"], versus["high"], strict=True):
        if name in best:
            continue
        if high < 0:
            ahead.append(name)
        elif not low > 0:  # the interval holds zero, or there are too few trials for one
            even.append(name)
    return Outcome(summary.assign(mean=better * summary["mean"]), [*map(str, able.index)], best, even, ahead, versus)


def column_of(values: pd.DataFrame, metric: str, label: str, trials: dict[str, int]) -> Column:
    """A column of a table: mean ± half the interval of each method, marked where best, even with it or ahead of it.

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
    told_apart = better and outcome.summary["n"].max() >= LEAST_FOR_INTERVAL
    for name, row in outcome.summary.iterrows():
        mark = ""
        if better and name in outcome.best and len(outcome.summary) > 1:
            mark = BEST
        elif told_apart and name in outcome.even:
            mark = EVEN
        elif told_apart and name in outcome.ahead:
            mark = AHEAD
        n = int(row["n"])
        cells[str(name)] = Cell(
            number(row["mean"]),
            "" if math.isnan(row["half_width"]) else number(row["half_width"]),
            mark,
            _count(n) if n < trials.get(str(name), n) else "",
        )
    return Column(label, cells)


def headline(results: pd.DataFrame, ours: str | None = OURS) -> list[tuple[str, str]]:
    """What the run comes to at the largest openness: a pair of metric and sentence for each of the four main metrics.

    Parameters
    ----------
    results : DataFrame
    ours : str, optional
        The method whose place is told; None tells of none.
    """
    said = []
    for metric in HEADLINE_METRICS:
        steps = levels(results, metric)
        if steps:
            outcome = judged(values_at(results, metric, steps[-1]), 1, ours)
            assert outcome is not None  # a level is there because a value is
            said.append((capital(METRIC_INFO[metric].label), _sentence(outcome, ours)))
    return said


def _sentence(outcome: Outcome, ours: str | None) -> str:
    summary, best = outcome.summary, outcome.best
    leader, value = best[0], _mean(summary, best[0])
    if len(summary) == 1:
        return f"{leader}, the only method with results, has {value}."
    shared = f", the same as {join_names(best[1:], 6)}" if best[1:] else ""
    if summary["n"].max() < LEAST_FOR_INTERVAL:
        trials = _few(summary["n"].max())
        text = f"{leader} is highest with {value}{shared}, but {trials} cannot tell methods apart."
        return text + _place(outcome, ours)
    text = f"{leader} has the highest mean{_among(outcome)}, {value}{shared}"
    rest = [name for name in map(str, summary.index) if name in outcome.versus.index and name not in best]
    behind = [name for name in rest if name not in outcome.even and name not in outcome.ahead]
    if outcome.even:
        text += f", but is not distinguishable from {join_names(sorted(outcome.even, key=rest.index), 3)}"
        nearest = min(outcome.even, key=rest.index)
        text += f" ({_gap(outcome, nearest)}{' to ' + nearest if len(outcome.even) > 1 else ''})"
    elif behind:
        # Those with few trials may have a higher mean, of trials that were easier.
        lower = [name for name in behind if summary.at[name, "mean"] <= summary.at[leader, "mean"]]
        text += f": ahead of {lower[0]}, the next," if lower else f": ahead of {behind[0]}"
        text += f" by {_gap(outcome, (lower or behind)[0])}"
    if outcome.ahead:
        text += f"; {_overtaken(outcome)}"
    return f"{text}." + _place(outcome, ours)


def _among(outcome: Outcome) -> str:
    """Of whom the best has the highest mean, where a method with few trials has a higher one."""
    summary, top = outcome.summary, outcome.summary.at[outcome.best[0], "mean"]
    if not any(mean > top + 1e-12 for name, mean in summary["mean"].items() if name not in outcome.able):
        return ""
    return f" of those with {_trials_of_the_able(outcome)}"


def _trials_of_the_able(outcome: Outcome) -> str:
    most = int(outcome.summary["n"].max())
    alike = bool((outcome.summary.loc[outcome.able, "n"] == most).all())
    return f"{most} trials" if alike else f"at least {(most + 1) // 2} trials"


def _overtaken(outcome: Outcome) -> str:
    """Who is ahead of the best in the trials that both have, the furthest first, and by how much."""
    names = sorted(outcome.ahead, key=lambda name: (float(outcome.versus.at[name, "difference"]), name))
    few = {name: f" ({_count(outcome.summary.at[name, 'n'])} only)" for name in names if name not in outcome.able}
    told, gap = join_names([name + few.get(name, "") for name in names], 3), _gap(outcome, names[0], ahead=True)
    return f"{told} is ahead of it by {gap}" if len(names) == 1 else f"{told} are ahead of it, {names[0]} by {gap}"


def _place(outcome: Outcome, ours: str | None) -> str:
    """Where ours is, if it is not first."""
    summary, able = outcome.summary, outcome.able
    if ours is None or ours in outcome.best:
        return ""
    if ours not in summary.index:
        return f" {ours} has no result."
    if ours not in able:
        text = f" {ours} has {_mean(summary, ours)}"
    else:
        place = 1 + int((summary.loc[able, "mean"] > summary.at[ours, "mean"]).sum())
        all_able = len(able) == len(summary)
        of = f"{len(able)}" if all_able else f"the {len(able)} with {_trials_of_the_able(outcome)},"
        text = f" {ours} is {ordinal(place)} of {of} with {_mean(summary, ours)}"
    if summary["n"].max() < LEAST_FOR_INTERVAL:
        return text + "."
    if ours in outcome.even:
        return text + f", not distinguishable from {outcome.best[0]}."
    if ours in outcome.ahead:
        return text + f", and is ahead of {outcome.best[0]} in the trials they share."
    if ours not in outcome.versus.index:
        return text + f", without a trial in common with {outcome.best[0]}."
    return text + f", behind by {_gap(outcome, ours)}."


def _mean(summary: pd.DataFrame, name: str) -> str:
    n, most = int(summary.at[name, "n"]), int(summary["n"].max())
    few = f" (in {n} of {most} trials)" if n < most else ""
    return interval_text(summary.at[name, "mean"], summary.at[name, "half_width"]) + few


def _gap(outcome: Outcome, other: str, *, ahead: bool = False) -> str:
    """The paired difference of the best to another method; or of another, which is ahead, to the best."""
    row = outcome.versus.loc[other]
    if math.isnan(row["low"]):
        return f"{number(row['difference'])} in the {_few(row['n'])} they share"
    if ahead:
        by = f"{number(-row['difference'])} [{number(-row['high'])}, {number(-row['low'])}]"
        return f"{by} over the {int(row['n'])} trials they share"
    return f"{number(row['difference'])} [{number(row['low'])}, {number(row['high'])}] over {int(row['n'])} trials"


def _count(n: float) -> str:
    return count_of(int(n), "trial")


def _few(n: float) -> str:
    return "one trial" if n == 1 else "two trials" if n == 2 else f"{int(n)} trials"


def few_trials(most: int) -> str:
    """A sentence on what so few trials are worth; empty where there are enough, or none."""
    if not 0 < most < ENOUGH_TRIALS:
        return ""
    return f"Only {_few(most)}: so few hardly tell methods apart, and more may turn the order round."


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
            "p": p_text(row["p"]),
            "p_holm": p_text(row["p_holm"]),
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


def averaged_or_none(results: pd.DataFrame, metric: str) -> pd.DataFrame | None:
    """Values averaged over levels; None where there is one level at most, and nothing to average."""
    return values_averaged(results, metric) if len(levels(results, metric)) > 1 else None

"""The sentences and tables of an experiment report: which method is best, by how much, and how certain that is.

Two methods are distinguishable if the 95 % interval of their paired difference over trials does not contain zero. A
method with few trials is never called best, since its trials may be the easy ones; if it is ahead of the best method in
their common trials, the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.messages import (
    capitalize,
    count_of,
    format_duration,
    format_mean,
    format_number,
    format_ordinal,
    format_p_value,
    format_seconds,
    join_names,
)
from ..experiments.result_tables import METRIC_INFO, Metric
from ..experiments.statistics import (
    LEAST_FOR_INTERVAL,
    average_over_levels,
    compare_methods,
    find_levels,
    paired_differences,
    summarize,
    values_at,
)
from .method_styles import OURS, order_methods

if TYPE_CHECKING:
    import pandas as pd

#: Metrics of the headline and of the first table.
HEADLINE_METRICS = ("f", "accuracy", "auroc", "oscr")
BEST, EVEN, AHEAD = "best", "even", "ahead"
#: With fewer trials, methods are hardly distinguishable.
ENOUGH_TRIALS = 5


@dataclass(frozen=True)
class Cell:
    """A cell of a table: mean, half width of its interval, mark (best, even, ahead or none) and remark."""

    mean: str
    half_width: str = ""
    mark: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: one metric of all methods."""

    label: str
    cells: dict[str, Cell]


@dataclass(frozen=True, eq=False)
class MetricRanking:
    """The ranking of methods by one metric.

    Attributes
    ----------
    summary : DataFrame
        Every method with a value, best first.
    able : list of str
        Methods with at least half of the largest number of trials; the others cannot be best.
    best : list of str
        The able method with the best mean and those with an equal mean, ours first.
    even : list of str
        Methods that are not distinguishable from the best.
    ahead : list of str
        Methods that are better than the best in their common trials but cannot be best themselves.
    versus : DataFrame
        The best against the others, from :func:`paired_differences`; a positive difference is always better.
    """

    summary: pd.DataFrame
    able: list[str]
    best: list[str]
    even: list[str]
    ahead: list[str]
    versus: pd.DataFrame


def rank_by_metric(values: pd.DataFrame, better: int, ours: str | None = OURS) -> MetricRanking | None:
    """Rank methods by one metric, with a row of values per trial; return None if there is no value.

    ``better`` is 1 if larger values are better, -1 if smaller ones are. Of several equally good methods, the others are
    compared with ``ours``.
    """
    values = better * values[sorted(values.columns)]
    summary = summarize(values).sort_values("mean", ascending=False, kind="stable")
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
        elif not low > 0:  # the interval contains zero, or there are too few trials for one
            even.append(name)
    return MetricRanking(
        summary.assign(mean=better * summary["mean"]), [*map(str, able.index)], best, even, ahead, versus
    )


def build_column(values: pd.DataFrame, metric: str, label: str, trials: dict[str, int]) -> Column:
    """Return a column of a table: mean and half width of each method, with marks for best, even and ahead.

    A cell with fewer trials than its method has (``trials``) has a remark.
    """
    better = METRIC_INFO.get(metric, Metric(metric, 0)).better
    ranking = rank_by_metric(values, better or 1)
    cells: dict[str, Cell] = {}
    if ranking is None:
        return Column(label, cells)
    told_apart = better and ranking.summary["n"].max() >= LEAST_FOR_INTERVAL
    for name, row in ranking.summary.iterrows():
        mark = ""
        if better and name in ranking.best and len(ranking.summary) > 1:
            mark = BEST
        elif told_apart and name in ranking.even:
            mark = EVEN
        elif told_apart and name in ranking.ahead:
            mark = AHEAD
        n = int(row["n"])
        cells[str(name)] = Cell(
            format_number(row["mean"]),
            "" if math.isnan(row["half_width"]) else format_number(row["half_width"]),
            mark,
            _format_trials(n) if n < trials.get(str(name), n) else "",
        )
    return Column(label, cells)


def write_headline(results: pd.DataFrame, ours: str | None = OURS) -> list[tuple[str, str]]:
    """Return a (metric, sentence) pair for each main metric at the largest openness, with the rank of ours."""
    said = []
    for metric in HEADLINE_METRICS:
        steps = find_levels(results, metric)
        if steps:
            ranking = rank_by_metric(values_at(results, metric, steps[-1]), 1, ours)
            assert ranking is not None  # a level is there because a value is
            said.append((capitalize(METRIC_INFO[metric].label), _write_sentence(ranking, ours)))
    return said


def _write_sentence(ranking: MetricRanking, ours: str | None) -> str:
    summary, best = ranking.summary, ranking.best
    leader, value = best[0], _format_own_mean(summary, best[0])
    if len(summary) == 1:
        return f"{leader}, the only method with results, has {value}."
    shared = f", the same as {join_names(best[1:], 6)}" if best[1:] else ""
    if summary["n"].max() < LEAST_FOR_INTERVAL:
        trials = _spell_trials(summary["n"].max())
        text = f"{leader} is highest with {value}{shared}, but {trials} cannot separate methods."
        return text + _describe_place(ranking, ours)
    text = f"{leader} has the highest mean{_qualify_best(ranking)}, {value}{shared}"
    rest = [name for name in map(str, summary.index) if name in ranking.versus.index and name not in best]
    behind = [name for name in rest if name not in ranking.even and name not in ranking.ahead]
    if ranking.even:
        text += f", but is not distinguishable from {join_names(sorted(ranking.even, key=rest.index), 3)}"
        closest = min(ranking.even, key=rest.index)
        text += f" ({_format_gap(ranking, closest)}{' to ' + closest if len(ranking.even) > 1 else ''})"
    elif behind:
        # Methods with few trials may have a higher mean over easier trials.
        lower = [name for name in behind if summary.at[name, "mean"] <= summary.at[leader, "mean"]]
        text += f": ahead of {lower[0]}, the next," if lower else f": ahead of {behind[0]}"
        text += f" by {_format_gap(ranking, (lower or behind)[0])}"
    if ranking.ahead:
        text += f"; {_describe_ahead(ranking)}"
    return f"{text}." + _describe_place(ranking, ours)


def _qualify_best(ranking: MetricRanking) -> str:
    """Return among which methods the best has the highest mean, if a method with few trials has a higher one."""
    summary, top = ranking.summary, ranking.summary.at[ranking.best[0], "mean"]
    if not any(mean > top + 1e-12 for name, mean in summary["mean"].items() if name not in ranking.able):
        return ""
    return f" of those with {_format_able_trials(ranking)}"


def _format_able_trials(ranking: MetricRanking) -> str:
    most = int(ranking.summary["n"].max())
    alike = bool((ranking.summary.loc[ranking.able, "n"] == most).all())
    return f"{most} trials" if alike else f"at least {(most + 1) // 2} trials"


def _describe_ahead(ranking: MetricRanking) -> str:
    """Return which methods are ahead of the best in their common trials, and by how much."""
    names = sorted(ranking.ahead, key=lambda name: (float(ranking.versus.at[name, "difference"]), name))
    few = {
        name: f" ({_format_trials(ranking.summary.at[name, 'n'])} only)" for name in names if name not in ranking.able
    }
    joined = join_names([name + few.get(name, "") for name in names], 3)
    gap = _format_gap(ranking, names[0], ahead=True)
    return f"{joined} is ahead of it by {gap}" if len(names) == 1 else f"{joined} are ahead of it, {names[0]} by {gap}"


def _describe_place(ranking: MetricRanking, ours: str | None) -> str:
    """Return the rank of our method, if it is not first."""
    summary, able = ranking.summary, ranking.able
    if ours is None or ours in ranking.best:
        return ""
    if ours not in summary.index:
        return f" {ours} has no result."
    if ours not in able:
        text = f" {ours} has {_format_own_mean(summary, ours)}"
    else:
        place = 1 + int((summary.loc[able, "mean"] > summary.at[ours, "mean"]).sum())
        all_able = len(able) == len(summary)
        of = f"{len(able)}" if all_able else f"the {len(able)} with {_format_able_trials(ranking)},"
        text = f" {ours} is {format_ordinal(place)} of {of} with {_format_own_mean(summary, ours)}"
    if summary["n"].max() < LEAST_FOR_INTERVAL:
        return text + "."
    if ours in ranking.even:
        return text + f", not distinguishable from {ranking.best[0]}."
    if ours in ranking.ahead:
        return text + f", and is ahead of {ranking.best[0]} in their common trials."
    if ours not in ranking.versus.index:
        return text + f", without a trial in common with {ranking.best[0]}."
    return text + f", behind by {_format_gap(ranking, ours)}."


def _format_own_mean(summary: pd.DataFrame, name: str) -> str:
    n, most = int(summary.at[name, "n"]), int(summary["n"].max())
    few = f" (in {n} of {most} trials)" if n < most else ""
    return format_mean(summary.at[name, "mean"], summary.at[name, "half_width"]) + few


def _format_gap(ranking: MetricRanking, other: str, *, ahead: bool = False) -> str:
    """Return the paired difference between the best and another method, positive for the one that is ahead."""
    row = ranking.versus.loc[other]
    if math.isnan(row["low"]):
        return f"{format_number(row['difference'])} in their {_spell_trials(row['n'])} in common"
    if ahead:
        by = f"{format_number(-row['difference'])} [{format_number(-row['high'])}, {format_number(-row['low'])}]"
        return f"{by} over their {int(row['n'])} common trials"
    by = f"{format_number(row['difference'])} [{format_number(row['low'])}, {format_number(row['high'])}]"
    return f"{by} over {int(row['n'])} trials"


def _format_trials(n: float) -> str:
    return count_of(int(n), "trial")


def _spell_trials(n: float) -> str:
    return "one trial" if n == 1 else "two trials" if n == 2 else f"{int(n)} trials"


def describe_few_trials(most: int) -> str:
    """Return a warning about few trials; empty if there are enough or none."""
    if not 0 < most < ENOUGH_TRIALS:
        return ""
    return (
        f"With only {_spell_trials(most)}, methods are hardly distinguishable, and more trials may change their order."
    )


def format_comparison(values: pd.DataFrame, ours: str) -> dict[str, dict[str, Any]]:
    """Return the comparison of our method with each other one, as text.

    By method: difference, p, p_holm, outcomes (won/tied/lost) and n; verdict is "▲" or "▼" if the corrected p-value is
    below 0.05 and ours is above or below, otherwise "".
    """
    if ours not in values.columns or values[ours].notna().sum() == 0:
        return {}
    cells = {}
    for name, row in compare_methods(values, ours).iterrows():
        sure = row["p_holm"] < 0.05 and row["difference"] != 0
        interval = "" if math.isnan(row["low"]) else f" [{format_number(row['low'])}, {format_number(row['high'])}]"
        cells[str(name)] = {
            "difference": format_number(row["difference"], signed=True) + interval,
            "p": format_p_value(row["p"]),
            "p_holm": format_p_value(row["p_holm"]),
            "outcomes": f"{int(row['larger'])}/{int(row['ties'])}/{int(row['smaller'])}",
            "n": int(row["n"]),
            "verdict": ("▲" if row["difference"] > 0 else "▼") if sure else "",
        }
    return cells


def count_trials(results: pd.DataFrame) -> dict[str, int]:
    """Return the number of trials in which each method has a value."""
    there = results[results["value"].notna()]
    return {str(name): int(n) for name, n in there.groupby("method")["trial"].nunique().items()}


def order_by_f_measure(results: pd.DataFrame, methods: Sequence[str]) -> list[str]:
    """Return methods in the order of the tables: by F-measure at the largest openness, those without it last."""
    steps = find_levels(results, "f")
    order: list[str] = []
    if steps and (ranking := rank_by_metric(values_at(results, "f", steps[-1]), 1)):
        order = [str(name) for name in ranking.summary.index if name in methods]
    return order + [name for name in order_methods(methods) if name not in order]


def average_if_several(results: pd.DataFrame, metric: str) -> pd.DataFrame | None:
    """Return values averaged over levels, or None if there is at most one level."""
    return average_over_levels(results, metric) if len(find_levels(results, metric)) > 1 else None


# -- times --------------------------------------------------------------------------------------------------


def sum_times(times: pd.DataFrame) -> tuple[float, float]:
    """Return the seconds of fitting, predicting and measuring in all, and the share of coding in them.

    Rows without the time of a fit, because the fit failed or its process died, do not count. The share is NaN if there
    is no time at all.
    """
    whole = times[times["fit_seconds"].notna()]
    spent = sum(float(whole[f"{kind}_seconds"].sum()) for kind in ("fit", "predict", "measure"))
    # The clocks are read at different moments.
    return spent, min(float(whole["coding_seconds"].sum()) / spent, 1.0) if spent > 0 else math.nan


def tabulate_times(times: pd.DataFrame, methods: Sequence[str]) -> dict[str, Any]:
    """Return mean seconds per trial and the share of coding of each method that has times, as text."""
    rows = []
    for name in methods:
        own = times[(times["method"] == name) & times["fit_seconds"].notna()]
        if own.empty:
            continue
        spent, share = sum_times(own)
        kinds = ("fit", "predict", "measure")
        row = {kind: format_seconds(float(own[f"{kind}_seconds"].sum()) / len(own)) for kind in kinds}
        row |= {"method": name, "all": format_duration(spent)}
        row |= {"coding": _format_share(share), "rest": _format_share(1.0 - share)}
        rows.append(row)
    return {"rows": rows, "total": format_duration(sum_times(times)[0])}


def _format_share(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.0f} %"

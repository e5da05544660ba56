r"""Which method to take, by the results of a comparison: the rule, the evidence, and what it is worth.

The rule has no favourite and nothing to tune: of the methods that finished every trial, the one with the highest mean.
Which others the trials cannot tell from it is said beside it, and the quickest of these to predict where it is at least
`QUICKER` times as quick. Two methods can be told apart where Wilcoxon's signed-rank test of their paired differences,
with Holm's correction for the number of methods, is below `SIGNIFICANCE`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.messages import join_names
from .._support.number_format import interval_text, number
from ..classifiers import SROSRClassifier
from ..experiments import (
    LEAST_FOR_INTERVAL,
    METRIC_INFO,
    SIGNIFICANCE,
    Interval,
    MethodSetting,
    compare,
    make,
    mean_interval,
    sharing,
    usual_rounds,
)
from ..rivals import SparseRejection

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CRITERIA", "Recommendation", "Rival", "Standing", "recommend", "rule_text", "standings"]

#: Metrics that methods can be ranked by, all of them better where larger; the first is usual: it has no threshold in
#: it, and both naming and refusing.
CRITERIA = ("oscr", "auroc", "f", "accuracy")
#: So much quicker a method has to be to be worth a word: times of one run are no better than that.
QUICKER = 2.0
#: With fewer classes than these, strangers are of few kinds.
FEW_CLASSES = 6


@dataclass(frozen=True)
class Standing:
    """What a method came to.

    Attributes
    ----------
    method : str
    n_trials : int
        Trials that it finished: in which it has the metric that methods are ranked by.
    values : dict of str to Interval
        By metric, over these trials.
    fit_seconds, predict_seconds : float
        Means over trials, as if the method were alone; NaN where no time was taken.
    """

    method: str
    n_trials: int
    values: dict[str, Interval]
    fit_seconds: float
    predict_seconds: float


@dataclass(frozen=True)
class Rival:
    """The best method against another, over the trials: difference, its 95 % interval, and the corrected p-value."""

    method: str
    difference: float
    low: float
    high: float
    p_holm: float

    @property
    def even(self) -> bool:
        """Whether the trials cannot tell the two apart."""
        return not self.p_holm < SIGNIFICANCE


@dataclass(frozen=True)
class Recommendation:
    """What to take.

    Attributes
    ----------
    method : str
        The method that is recommended.
    by : str
        The metric, one of `CRITERIA`.
    n_trials : int
    rivals : tuple of Rival
        It against each other method that finished every trial, the nearest first.
    unfinished : tuple of str
        Methods that failed in a trial, and are not recommended.
    sentences : tuple of str
        The recommendation, and its evidence.
    cautions : tuple of str
        Why it may not hold.
    """

    method: str
    by: str
    n_trials: int
    rivals: tuple[Rival, ...]
    unfinished: tuple[str, ...]
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]


def rule_text(by: str) -> str:
    """The rule in a sentence."""
    return (
        f"Rule: the highest mean {METRIC_INFO[by].label} of the methods that finished every trial. Methods are told "
        f"apart by Wilcoxon's signed-rank test of paired differences, with Holm's correction, at "
        f"{100 * SIGNIFICANCE:g} %; intervals elsewhere are not corrected and set more of them apart."
    )


def standings(
    results: pd.DataFrame, times: pd.DataFrame, settings: Iterable[MethodSetting], by: str = CRITERIA[0]
) -> list[Standing]:
    """All methods with results, the one with the highest mean first.

    Parameters
    ----------
    results, times : DataFrame
        Tables of an experiment with one level of openness in a trial.
    settings : iterable of MethodSetting
        Of the methods; they say which share their work.
    by : str
    """
    there = results[results["value"].notna()]
    seconds = _alone(times, list(settings))
    out = []
    for method, own in there.groupby("method"):
        values = {str(metric): mean_interval(part["value"]) for metric, part in own.groupby("metric")}
        if by in values:
            name = str(method)
            finished = int(own.loc[own["metric"] == by, "trial"].nunique())
            out.append(Standing(name, finished, values, *seconds.get(name, (math.nan, math.nan))))
    return sorted(out, key=lambda s: (-s.values[by].mean, s.method))


def recommend(
    results: pd.DataFrame,
    ranking: Sequence[Standing],
    by: str = CRITERIA[0],
    *,
    n_classes: int | None = None,
    folds: int | None = None,
) -> Recommendation | None:
    """The method to take; None where no method finished a trial.

    Parameters
    ----------
    results : DataFrame
    ranking : sequence of Standing
        By the same metric, as :func:`standings` has it.
    by : str
        One of `CRITERIA`.
    n_classes, folds : int, optional
        Of the comparison, for cautions.

    Examples
    --------
    >>> import pandas as pd
    >>> from srosr.reports.recommendation import recommend, standings
    >>> rows = [(t, m, "oscr", v + t / 100) for t in range(10) for m, v in (("a", 0.8), ("b", 0.7))]
    >>> results = pd.DataFrame(rows, columns=["trial", "method", "metric", "value"])
    >>> times = pd.DataFrame(columns=["trial", "method", "fit_seconds", "predict_seconds"])
    >>> recommend(results, standings(results, times, [])).sentences[0]
    'Recommended: a. OSCR 0.845 ± 0.022 over 10 trials, the highest mean of 2 methods.'
    """
    n_trials = int(results["trial"].nunique())
    able = [s for s in ranking if s.n_trials == n_trials]
    if not able:
        # Each failed somewhere: those that failed least, compared in the trials they share.
        n_trials = max((s.n_trials for s in ranking), default=0)
        able = [s for s in ranking if s.n_trials == n_trials]
    if not able:
        return None
    best, most = able[0], n_trials
    rows = results[(results["metric"] == by) & results["method"].isin([s.method for s in able])]
    versus = compare(rows.pivot(index="trial", columns="method", values="value").astype(np.float64), best.method)
    rivals = tuple(
        Rival(str(name), *(float(row[key]) for key in ("difference", "low", "high", "p_holm")))
        for name, row in versus.loc[[s.method for s in able[1:]]].iterrows()
    )
    return Recommendation(
        best.method,
        by,
        most,
        rivals,
        tuple(s.method for s in ranking if s.n_trials < most),
        tuple(_sentences(able, by, rivals)),
        tuple(_cautions(most, len(rivals), n_classes, folds)),
    )


def _sentences(able: Sequence[Standing], by: str, rivals: Sequence[Rival]) -> list[str]:
    best, n_able = able[0], len(able)
    value, label = best.values[by], METRIC_INFO[by].label
    trials = "one trial" if value.n == 1 else f"{value.n} trials"
    first = f"Recommended: {best.method}. {label} {interval_text(value.mean, value.half_width)} over {trials}"
    if n_able == 1:
        return [f"{first}; no other method finished."]
    out = [f"{first}, the highest mean of {n_able} methods."]
    if value.n < LEAST_FOR_INTERVAL:
        return out
    ahead = [r for r in rivals if not r.even]
    even = [r.method for r in rivals if r.even]
    name = best.method
    if ahead:
        near = ahead[0]
        gap = f"by {number(near.difference)} [{number(near.low)}, {number(near.high)}]"
        others = "" if len(ahead) == 1 else f" and of {len(ahead) - 1} more"
        out.append(f"{name} is ahead of {near.method} {gap}{others}.")
    if even:
        text = f"By the corrected test not distinguishable from {name}: {join_names(even, 8)}"
        quickest = min((s for s in able if s.method in even), key=lambda s: (s.predict_seconds, s.method))
        if QUICKER * quickest.predict_seconds <= best.predict_seconds:
            which = "it is" if len(even) == 1 else f"the quickest of them to predict is {quickest.method},"
            text += f"; {which} {best.predict_seconds / quickest.predict_seconds:.0f} times as quick"
        out.append(f"{text}.")
    return out


def _cautions(n_trials: int, n_rivals: int, n_classes: int | None, folds: int | None) -> list[str]:
    out = []
    if n_rivals and n_rivals * 2.0 ** (1 - n_trials) >= SIGNIFICANCE:
        more = "" if folds is None else f"; --rounds {usual_rounds(folds, n_rivals + 1)} can"
        trials = "One trial" if n_trials == 1 else f"{n_trials} trials"
        out.append(f"{trials} cannot tell {n_rivals + 1} methods apart, whatever they find{more}.")
    if n_classes is not None and n_classes < FEW_CLASSES:
        out.append(f"With {n_classes} classes strangers are of few kinds; those that are met later may be of others.")
    if n_trials > 1:
        out.append("Trials share samples, so intervals and tests are approximate.")
    if n_rivals:
        out.append(
            "The best is chosen by the same trials, so its mean is a little too high, and methods that are as good as "
            "it are found to be behind more often than the test says."
        )
    return out


def _alone(times: pd.DataFrame, settings: list[MethodSetting]) -> dict[str, tuple[float, float]]:
    """Mean seconds to fit and to predict of each method, as if it were alone.

    Methods that share codes have the seconds of whichever came first in a trial, which computed them.
    """
    fits = {s.name: group for group in map(_names, sharing(settings)) for s in settings if s.name in group}
    coded = tuple(s.name for s in settings if isinstance(make(s, 0), (SROSRClassifier, SparseRejection)))
    out: dict[str, tuple[float, float]] = {}
    for method in times["method"].unique():
        mine = set(times.loc[times["method"] == method, "trial"])
        seconds: list[Any] = []
        for column, group in (
            ("fit_seconds", fits.get(method, (method,))),
            ("predict_seconds", coded if method in coded else (method,)),
        ):
            rows = times[times["method"].isin(group) & times["trial"].isin(mine)]
            seconds.append(float(rows.groupby("trial")[column].max().astype(np.float64).mean()))
        out[str(method)] = seconds[0], seconds[1]
    return out


def _names(settings: Iterable[MethodSetting]) -> tuple[str, ...]:
    return tuple(s.name for s in settings)

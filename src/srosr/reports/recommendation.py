"""The recommendation of a method from the results of a comparison, with its evidence and its limits.

The rule has nothing to tune: of the methods that finished every trial, it takes the one with the highest mean. The text
also names the methods that are not distinguishable from it, and the fastest of these to predict if it is at least
`QUICKER` times as fast. Two methods are distinguishable if the p-value of Wilcoxon's signed-rank test of their paired
differences, with Holm's correction for the number of methods, is below `SIGNIFICANCE`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._support.messages import format_mean, format_number, join_names
from ..classifiers.srosr_classifier import SROSRClassifier
from ..experiments.comparison_protocol import SIGNIFICANCE, choose_rounds
from ..experiments.protocol import MethodSetting
from ..experiments.result_tables import METRIC_INFO
from ..experiments.statistics import LEAST_FOR_INTERVAL, MeanInterval, compare_methods, mean_interval
from ..experiments.trial_methods import group_by_fit, make_classifier
from ..rivals.sparse_rejection import SparseRejection

if TYPE_CHECKING:
    import pandas as pd

#: Metrics that methods can be ranked by; larger is better. The first is the default: it measures both classification
#: and rejection and does not depend on a threshold.
CRITERIA = ("oscr", "auroc", "f", "accuracy")
#: How many times as fast a method must be to be mentioned; the times of one run are not more precise.
QUICKER = 2.0
#: With fewer classes, the simulated unknowns are of few kinds.
FEW_CLASSES = 6


@dataclass(frozen=True)
class Standing:
    """The results of a method.

    ``n_trials`` have a value of the metric that methods are ranked by; ``values`` are means by metric over these
    trials, and the seconds means over trials as if the method ran alone, NaN if no time was recorded.
    """

    method: str
    n_trials: int
    values: dict[str, MeanInterval]
    fit_seconds: float
    predict_seconds: float


@dataclass(frozen=True)
class PairedComparison:
    """The best method against another: paired difference, its 95 % interval, and the corrected p-value."""

    method: str
    difference: float
    low: float
    high: float
    p_holm: float

    @property
    def even(self) -> bool:
        """Whether the two are not distinguishable."""
        return not self.p_holm < SIGNIFICANCE


@dataclass(frozen=True)
class Recommendation:
    """What to take, and why.

    ``rivals`` are the other methods that finished every trial, the nearest first; ``unfinished`` ones failed in a trial
    and are not recommended. ``sentences`` hold the evidence, ``cautions`` why it may not hold.
    """

    method: str
    n_trials: int
    rivals: tuple[PairedComparison, ...]
    unfinished: tuple[str, ...]
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]


def describe_rule(by: str) -> str:
    """Return the rule in two sentences."""
    return (
        f"Rule: the highest mean {METRIC_INFO[by].label} of the methods that finished every trial. Methods are "
        f"compared by Wilcoxon's signed-rank test of paired differences, with Holm's correction, at "
        f"{100 * SIGNIFICANCE:g} %; intervals elsewhere are not corrected, and the two can disagree."
    )


def rank_standings(
    results: pd.DataFrame, times: pd.DataFrame, settings: Iterable[MethodSetting], by: str = CRITERIA[0]
) -> list[Standing]:
    """Return the results of all methods, highest mean first.

    The tables are those of an experiment with one level of openness per trial; the settings determine which fits are
    shared.
    """
    there = results[results["value"].notna()]
    seconds = _estimate_solo_times(times, list(settings))
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
    """Return the recommended method, or None if no method finished a trial.

    The ranking is that of :func:`rank_standings` by the same metric, one of `CRITERIA`; classes and folds of the
    comparison are for the cautions.

    Examples
    --------
    >>> import pandas as pd
    >>> from srosr.reports.recommendation import rank_standings, recommend
    >>> rows = [(t, m, "oscr", v + t / 100) for t in range(10) for m, v in (("a", 0.8), ("b", 0.7))]
    >>> results = pd.DataFrame(rows, columns=["trial", "method", "metric", "value"])
    >>> times = pd.DataFrame(columns=["trial", "method", "fit_seconds", "predict_seconds"])
    >>> recommend(results, rank_standings(results, times, [])).sentences[0]
    'Recommended: a. OSCR 0.845 ± 0.022 over 10 trials, the highest mean of 2 methods.'
    """
    n_trials = int(results["trial"].nunique())
    able = [s for s in ranking if s.n_trials == n_trials]
    if not able:
        # Every method failed somewhere: compare those with the fewest failures in their common trials.
        n_trials = max((s.n_trials for s in ranking), default=0)
        able = [s for s in ranking if s.n_trials == n_trials]
    if not able:
        return None
    best = able[0]
    rows = results[(results["metric"] == by) & results["method"].isin([s.method for s in able])]
    versus = compare_methods(
        rows.pivot(index="trial", columns="method", values="value").astype(np.float64), best.method
    )
    rivals = tuple(
        PairedComparison(str(name), *(float(row[key]) for key in ("difference", "low", "high", "p_holm")))
        for name, row in versus.loc[[s.method for s in able[1:]]].iterrows()
    )
    return Recommendation(
        best.method,
        n_trials,
        rivals,
        tuple(s.method for s in ranking if s.n_trials < n_trials),
        tuple(_write_sentences(able, by, rivals)),
        tuple(_write_cautions(n_trials, len(rivals), n_classes, folds)),
    )


def _write_sentences(able: Sequence[Standing], by: str, rivals: Sequence[PairedComparison]) -> list[str]:
    best, n_able = able[0], len(able)
    value, label = best.values[by], METRIC_INFO[by].label
    trials = "one trial" if value.n == 1 else f"{value.n} trials"
    first = f"Recommended: {best.method}. {label} {format_mean(value.mean, value.half_width)} over {trials}"
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
        gap = f"by {format_number(near.difference)} [{format_number(near.low)}, {format_number(near.high)}]"
        others = "" if len(ahead) == 1 else f" and of {len(ahead) - 1} more"
        out.append(f"{name} is ahead of {near.method} {gap}{others}.")
    if even:
        text = f"Not distinguishable from {name} by the corrected test: {join_names(even, 8)}"
        quickest = min((s for s in able if s.method in even), key=lambda s: (s.predict_seconds, s.method))
        if QUICKER * quickest.predict_seconds <= best.predict_seconds:
            which = "it predicts" if len(even) == 1 else f"of these, {quickest.method} predicts fastest,"
            text += f"; {which} {best.predict_seconds / quickest.predict_seconds:.0f} times as fast"
        out.append(f"{text}.")
    return out


def _write_cautions(n_trials: int, n_rivals: int, n_classes: int | None, folds: int | None) -> list[str]:
    out = []
    if n_rivals and n_rivals * 2.0 ** (1 - n_trials) >= SIGNIFICANCE:
        more = "" if folds is None else f"; --rounds {choose_rounds(folds, n_rivals + 1)} can"
        trials = "One trial" if n_trials == 1 else f"{n_trials} trials"
        out.append(f"{trials} cannot separate {n_rivals + 1} methods, whatever the results{more}.")
    if n_classes is not None and n_classes < FEW_CLASSES:
        out.append(f"With {n_classes} classes the simulated unknowns are of few kinds; real ones may differ from them.")
    if n_trials > 1:
        out.append("Trials share samples, so intervals and tests are approximate.")
    if n_rivals:
        out.append(
            "The best method is chosen on the same trials, so its mean is slightly too high, and equally good methods "
            "are found to be behind more often than the test says."
        )
    return out


def _estimate_solo_times(times: pd.DataFrame, settings: list[MethodSetting]) -> dict[str, tuple[float, float]]:
    """Return the mean seconds to fit and to predict of each method, as if it ran alone.

    Methods that share codes get the time of the first one in a trial, which computed the codes.
    """
    fits = {s.name: [one.name for one in group] for group in group_by_fit(settings) for s in group}
    coded = [s.name for s in settings if isinstance(make_classifier(s, 0), (SROSRClassifier, SparseRejection))]
    out = {}
    for method, own in times.groupby("method"):
        seconds = []
        for column, sharing in (
            ("fit_seconds", fits.get(method, [method])),
            ("predict_seconds", coded if method in coded else [method]),
        ):
            rows = times[times["method"].isin(sharing) & times["trial"].isin(own["trial"])]
            seconds.append(float(rows.groupby("trial")[column].max().astype(np.float64).mean()))
        out[str(method)] = seconds[0], seconds[1]
    return out

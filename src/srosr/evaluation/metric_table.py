"""All metrics of one set of predictions, with their meaning and 95 % confidence intervals.

Shares of samples have Wilson's interval. The other metrics are measured again on resamples (bootstrap). Known and
unknown samples are drawn separately, as many of each as there are, so that their proportion does not change. A resample
is a vector of sample weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from ..metrics.accuracy import harmonic_normalized_accuracy, normalized_accuracy, youden_j
from ..metrics.f_measure import open_set_f_measure
from ..metrics.oscr import ccr_at_fpr, oscr_area
from ..metrics.ranking import fpr_at_tpr, open_set_aupr, open_set_auroc
from ..metrics.unknown_classes import openness

KNOWN, UNKNOWN, BOTH = "known", "unknown", "both"
#: The class number of unknown and of rejected samples.
NONE = -1
CONFIDENCE = 0.95
#: The least number of known, and of unknown, samples for a bootstrap interval.
LEAST = 10
SEED = 0
# At most _RESAMPLES resamples, at least _FEWEST, and in between so many that they draw _WORK samples in all.
_RESAMPLES, _WORK, _FEWEST = 500, 5e7, 100
_NORMAL_QUANTILE = 1.959963984540054  # of (1 + 0.95) / 2


@dataclass(frozen=True)
class MetricKind:
    """A metric: its label, meaning and direction, and the samples that it needs."""

    label: str
    meaning: str
    #: 1 if larger is better, -1 if smaller is, 0 for one side of a trade-off.
    better: int = 1
    needs: str = ""
    #: Whether it is a share of samples, shown in percent.
    is_share: bool = False


#: By the names that experiments use too, in the order in which they are shown.
MEASURES: dict[str, MetricKind] = {
    "accuracy": MetricKind("open set accuracy", "right answers, counting rejections of unknown samples", 1, "", True),
    "recognition_accuracy": MetricKind("recognition accuracy", "known samples accepted as their class", 0, KNOWN, True),
    "rejection_accuracy": MetricKind("rejection accuracy", "unknown samples rejected", 0, UNKNOWN, True),
    "known_rejected": MetricKind("known rejected", "known samples rejected: the false rejection rate", 0, KNOWN, True),
    "closed_set_accuracy": MetricKind("closed-set accuracy", "known samples with the right candidate", 1, KNOWN, True),
    "f": MetricKind("F-measure", "Scheirer et al.: recognized against missed known and accepted unknown", 1, KNOWN),
    "f_micro": MetricKind("micro F-measure", "all known classes pooled; a confusion counts in both classes", 1, KNOWN),
    "f_macro": MetricKind("macro F-measure", "mean precision and mean recall over classes of any size", 1, KNOWN),
    "normalized_accuracy": MetricKind("normalized accuracy", "mean of recognition and rejection accuracy", 1, BOTH),
    "harmonic_normalized_accuracy": MetricKind("harmonic accuracy", "harmonic mean of the two", 1, BOTH),
    "youden_j": MetricKind("Youden's J", "share of unknown rejected minus share of known rejected", 1, BOTH),
    "auroc": MetricKind("AUROC", "probability that an unknown sample scores above a known one", 1, BOTH),
    "aupr_unknown": MetricKind("AUPR, unknown", "average precision of detecting unknown samples", 1, BOTH),
    "aupr_known": MetricKind("AUPR, known", "average precision of detecting known samples", 1, BOTH),
    "fpr95": MetricKind("FPR at 95 % TPR", "unknown accepted at the threshold that accepts 95 % of known", -1, BOTH),
    "oscr": MetricKind("OSCR area", "as AUROC, where the known sample also has the right candidate", 1, BOTH),
    "ccr_at_fpr_1": MetricKind("CCR at 1 % FPR", "known recognized where 1 % of unknown are accepted", 1, BOTH),
    "ccr_at_fpr_10": MetricKind("CCR at 10 % FPR", "known recognized where 10 % of unknown are accepted", 1, BOTH),
    "openness": MetricKind("openness", "of the problem, 0 without unknown labels; each of them is a class", 0, ""),
}  # fmt: skip
_MISSING = {KNOWN: "there are no known samples", UNKNOWN: "there are no unknown samples"}


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Measure:
    """The value of a metric; if there is none, `value` is None and `remark` is the reason."""

    name: str
    kind: MetricKind
    value: float | None
    interval: Interval | None = None
    #: "Wilson", "bootstrap" or None.
    way: str | None = None
    remark: str = ""


def compute_measures(
    true: IntArray,
    answered: IntArray,
    candidate: IntArray,
    score: Array,
    *,
    n_classes: int,
    n_unknown_labels: int,
    seed: int = SEED,
) -> dict[str, Measure]:
    """Return all metrics of predictions.

    Class numbers are −1 in `true` for unknown samples and in `answered` for rejected ones; scores have no NaN. The seed
    is that of the resamples for intervals.
    """
    unknown = true == NONE
    shares = _count_shares(true, answered, candidate)
    values = compute_values(true, answered, candidate, score) | {
        "openness": openness(n_classes, n_classes, n_classes + n_unknown_labels)
    }
    # Metrics of sorted scores are faster.
    order = np.argsort(score, kind="stable")
    ordered = (true[order], answered[order], candidate[order], score[order])
    intervals = bootstrap(lambda weight: compute_values(*ordered, weight), unknown[order], seed)
    found = {}
    for name, kind in MEASURES.items():
        absent = KNOWN if unknown.all() and kind.needs in (KNOWN, BOTH) else UNKNOWN
        if name in shares:
            successes, n = shares[name]
            found[name] = Measure(name, kind, successes / n, wilson(successes, n), "Wilson")
        elif name not in values:
            found[name] = Measure(name, kind, None, remark=_MISSING[absent])
        else:
            interval = intervals.get(name)
            found[name] = Measure(name, kind, values[name], interval, None if interval is None else "bootstrap")
    return found


def _count_shares(true: IntArray, answered: IntArray, candidate: IntArray) -> dict[str, tuple[int, int]]:
    """Return (successes, samples) of the metrics that are shares of samples."""
    unknown = true == NONE
    counted = {
        "accuracy": (answered == true, np.ones(len(true), dtype=bool)),
        "recognition_accuracy": (answered == true, ~unknown),
        "rejection_accuracy": (answered == true, unknown),
        "known_rejected": (answered == NONE, ~unknown),
        "closed_set_accuracy": (candidate == true, ~unknown),
    }
    return {
        name: (int(np.count_nonzero(which & among)), int(np.count_nonzero(among)))
        for name, (which, among) in counted.items()
        if among.any()
    }


def compute_values(
    true: IntArray, answered: IntArray, candidate: IntArray, score: Array, weight: IntArray | None = None
) -> dict[str, float]:
    """Return all metrics that are not shares of samples and can be computed, with an optional weight per sample."""
    if weight is not None:
        counted = np.flatnonzero(weight)
        true, answered, candidate = true[counted], answered[counted], candidate[counted]
        score, weight = score[counted], weight[counted]
    unknown = true == NONE
    given: dict[str, Any] = {"unknown_label": NONE, "sample_weight": weight}
    values: dict[str, float] = {}
    if not unknown.all():
        values |= {
            "f": open_set_f_measure(true, answered, **given),
            "f_micro": open_set_f_measure(true, answered, variant="micro", **given),
            "f_macro": open_set_f_measure(true, answered, variant="macro", **given),
        }
    if not unknown.all() and unknown.any():
        values |= {
            "normalized_accuracy": normalized_accuracy(true, answered, **given),
            "harmonic_normalized_accuracy": harmonic_normalized_accuracy(true, answered, **given),
            "youden_j": youden_j(true, answered, **given),
            "auroc": open_set_auroc(true, score, **given),
            "aupr_unknown": open_set_aupr(true, score, positive="unknown", **given),
            "aupr_known": open_set_aupr(true, score, positive="known", **given),
            "fpr95": fpr_at_tpr(true, score, tpr=0.95, **given),
            "oscr": oscr_area(true, candidate, score, **given),
            "ccr_at_fpr_1": ccr_at_fpr(true, candidate, score, fpr=0.01, **given),
            "ccr_at_fpr_10": ccr_at_fpr(true, candidate, score, fpr=0.1, **given),
        }
    return values


def wilson(successes: int, n: int) -> Interval:
    r"""Return Wilson's 95 % interval of a share, the successes among n > 0 samples.

    .. math::
        \frac{\hat p + \frac{z^2}{2n} \pm z\sqrt{\frac{\hat p(1-\hat p)}{n} + \frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}

    References
    ----------
    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.

    Examples
    --------
    >>> from srosr.evaluation.metric_table import wilson
    >>> [round(end, 3) for end in wilson(9, 10)]
    [0.596, 0.982]
    """
    share, z2 = successes / n, _NORMAL_QUANTILE**2
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _NORMAL_QUANTILE * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # The formula gives 0 and 1 there, up to rounding.
    return Interval(0.0 if successes == 0 else center - half, 1.0 if successes == n else center + half)


def bootstrap(
    measure: Callable[[IntArray], dict[str, float]], unknown: AnyArray, seed: int = SEED
) -> dict[str, Interval]:
    """Return 95 % intervals of metrics, from the percentiles of resamples.

    ``measure`` returns metrics by name, given the weight of each sample. There are no intervals for fewer than ten
    known or one to nine unknown samples, and none for a metric that is the same in every resample, which says too
    little about its uncertainty.
    """
    strata = [rows for rows in (np.flatnonzero(~unknown), np.flatnonzero(unknown)) if len(rows)]
    if unknown.all() or min(map(len, strata)) < LEAST:
        return {}
    rng = np.random.default_rng(seed)
    drawn: dict[str, list[float]] = {}
    for _ in range(int(np.clip(_WORK / len(unknown), _FEWEST, _RESAMPLES))):
        weight: IntArray = np.zeros(len(unknown), dtype=np.int64)
        for rows in strata:
            weight[rows] = np.bincount(rng.integers(0, len(rows), len(rows)), minlength=len(rows))
        for name, value in measure(weight).items():
            drawn.setdefault(name, []).append(value)
    tail = 50 * (1 - CONFIDENCE)
    ends = {name: np.percentile(values, [tail, 100 - tail]) for name, values in drawn.items()}
    return {name: Interval(float(low), float(high)) for name, (low, high) in ends.items() if high - low > 1e-12}

r"""95 % confidence intervals of metrics.

Shares of samples have Wilson's interval. The other metrics are measured again on resamples (bootstrap). Known and
unknown samples are drawn separately, as many of each as there are, so that their proportion does not change. A resample
is a vector of sample weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._support.array_types import AnyArray, IntArray

CONFIDENCE = 0.95
#: The least number of known, and of unknown, samples for a bootstrap interval.
LEAST = 10
SEED = 0
# At most _RESAMPLES resamples, at least _FEWEST, and in between so many that they draw _WORK samples in all.
_RESAMPLES, _WORK, _FEWEST = 500, 5e7, 100
_NORMAL_QUANTILE = 1.959963984540054  # of (1 + 0.95) / 2


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


def wilson(successes: int, n: int) -> Interval:
    r"""Return Wilson's 95 % interval of a share, the successes among n > 0 samples.

    .. math::
        \frac{\hat p + \frac{z^2}{2n} \pm z\sqrt{\frac{\hat p(1-\hat p)}{n} + \frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}

    References
    ----------
    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.

    Examples
    --------
    >>> from srosr.evaluation.intervals import wilson
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

r"""The rules that turn evidence into an unknown score in [0, 1].

- ``paper``: :math:`S = G_m(r_m - u_m) + w\,G_{nm}(-r_{nm} - u_{nm})` with the tails of the candidate class; the unknown
  score is :math:`S/(1 + w)`, so that the paper's threshold :math:`\delta = c(1 + w)` becomes c.
- ``matched``: the same with w = 0.
- ``calibrated``: the distribution function of the fused score over held-out known samples: one minus a p-value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._support.array_types import Array, IntArray
from ..evidence.table import EVIDENCE
from ..tails.error_distribution import SplicedDistribution
from ..tails.gpd import GPDTail, fit_tail
from .cross_test import CrossTest
from .fusion import Fusion

#: A class with fewer training samples than this shares the tails of all classes.
MIN_SAMPLES = 10
_MATCHED, _NONMATCHED = EVIDENCE.index("matched"), EVIDENCE.index("nonmatched")


@dataclass(frozen=True)
class TailRule:
    """The rule of the paper: matched and non-matched tails of every class, and the weight of the second.

    Attributes
    ----------
    matched, nonmatched : tuple of GPDTail
        Upper tails of :math:`r_m` and of :math:`-r_{nm}`, one a class.
    pooled : tuple of bool
        Which classes share the tails of all classes.
    weight : float
    """

    matched: tuple[GPDTail, ...]
    nonmatched: tuple[GPDTail, ...]
    pooled: tuple[bool, ...]
    weight: float

    def probabilities(self, values: Array, candidate: IntArray) -> tuple[Array, Array]:
        """Compute the tail probabilities :math:`G_m` and :math:`G_{nm}` of the candidate class, both in [0, 1]."""
        # The mean over the other classes becomes the sum to which the tails were fitted.
        errors = values[:, _MATCHED], -values[:, _NONMATCHED] * (len(self.matched) - 1)
        out = np.empty((2, len(values)))
        for row, tails, error in zip(out, (self.matched, self.nonmatched), errors, strict=True):
            for k in np.unique(candidate):
                own = candidate == k
                row[own] = tails[k].cdf(error[own])
        return out[0], out[1]

    def score(self, values: Array, candidate: IntArray) -> Array:
        """Compute the unknown score, :math:`S/(1 + w)`."""
        matched, nonmatched = self.probabilities(values, candidate)
        return (matched + self.weight * nonmatched) / (1.0 + self.weight)

    def log_p_value(self, values: Array, candidate: IntArray) -> Array:
        """Compute the logarithm of one minus the unknown score."""
        with np.errstate(divide="ignore"):
            return np.log1p(-self.score(values, candidate))


def fit_tails(known: CrossTest, sizes: IntArray, tail_size: float | str, weight: float) -> TailRule:
    """Fit tails to the matched errors and to the sums of non-matched errors of every class.

    There must be a row. ``sizes`` counts the training samples of each class; below ten, it shares the tails of all.
    """

    def fit_pair(rows: CrossTest) -> tuple[GPDTail, GPDTail]:
        return (
            fit_tail(rows.matched, tail_size, groups=rows.sample, warn=False),
            fit_tail(-rows.nonmatched, tail_size, groups=rows.sample, warn=False),
        )

    pooled = tuple(bool(n < MIN_SAMPLES) or not (known.truth == k).any() for k, n in enumerate(sizes))
    shared = fit_pair(known) if any(pooled) else None
    pairs = []
    for k, share in enumerate(pooled):
        pairs.append(shared if share and shared is not None else fit_pair(known[known.truth == k]))
    return TailRule(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), pooled, weight)


@dataclass(frozen=True)
class CalibratedRule:
    """The calibrated rule: the fused score and its distribution.

    Attributes
    ----------
    fusion : Fusion
    simulated : Fusion
        The same weights, with the scales of samples coded with classes left out.
    distribution : SplicedDistribution
        Of the fused score over held-out known samples; over simulated unknowns where there are no such samples.
    recalibrated : SplicedDistribution or None
        Of the fused score over samples collected after the fit, which then takes the place of ``distribution``.
    """

    fusion: Fusion
    simulated: Fusion
    distribution: SplicedDistribution
    recalibrated: SplicedDistribution | None = None

    @property
    def current(self) -> SplicedDistribution:
        """The distribution behind the unknown score."""
        return self.distribution if self.recalibrated is None else self.recalibrated

    def score(self, values: Array, candidate: IntArray | None = None) -> Array:
        """Compute the unknown score: the share of known samples with a smaller fused score."""
        return self.current.cdf(self.fusion.score(values))

    def log_p_value(self, values: Array, candidate: IntArray | None = None) -> Array:
        """Compute the logarithm of one minus the unknown score; it still ranks where the score has reached 1."""
        return self.current.logsf(self.fusion.score(values))

r"""How far a measure may be off because other samples could have been met: 95 % intervals.

Shares of samples have Wilson's interval. Everything else is measured again on samples drawn anew from those there are
(bootstrap): known and unknown ones by themselves, as many of each as before, so that what depends on their proportion
keeps it. The scores are sorted once; a resample is a vector of weights, so that it costs no more than a few sums.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray

__all__ = ["CONFIDENCE", "LEAST", "SEED", "Interval", "Weighted", "bootstrap", "wilson"]

CONFIDENCE = 0.95
#: Of fewer known, or unknown, samples no resample tells anything.
LEAST = 10
SEED = 0
# Resamples: this many, or as many as draw this many samples in all, but not fewer than the last.
_RESAMPLES, _WORK, _FEWEST = 500, 5e7, 100
_NORMAL_QUANTILE = 1.959963984540054  # of (1 + 0.95) / 2


class Interval(NamedTuple):
    """Ends of an interval."""

    low: float
    high: float


def wilson(successes: int, n: int) -> Interval:
    r"""Wilson's 95 % interval of a share.

    .. math::
        \frac{\hat p + \frac{z^2}{2n} \pm z\sqrt{\frac{\hat p(1-\hat p)}{n} + \frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}

    Parameters
    ----------
    successes, n : int
        n is at least 1.

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
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _NORMAL_QUANTILE * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # The formula meets 0 and 1 there, but for rounding.
    return Interval(0.0 if successes == 0 else centre - half, 1.0 if successes == n else centre + half)


class Weighted:
    """Measures of samples that count several times, or not at all.

    Parameters
    ----------
    true, answered, candidate : ndarray of int (n_samples,)
        Class numbers; −1 in `true` for unknown samples, in `answered` for refused ones.
    score : ndarray (n_samples,)
        Unknown scores, none of them NaN.
    """

    def __init__(self, true: IntArray, answered: IntArray, candidate: IntArray, score: Array) -> None:
        order = np.argsort(score, kind="stable")
        true, answered, candidate, score = true[order], answered[order], candidate[order], score[order]
        self.unknown: AnyArray = true < 0
        self._known = ~self.unknown
        self._named = self._known & (candidate == true)
        self._refused = answered < 0
        self._right = self._known & (answered == true)
        self._first = np.flatnonzero(np.append(True, score[1:] > score[:-1]))
        # -1 counts in a bin of its own, behind the classes.
        self._n_classes = int(max(true.max(), answered.max(), candidate.max())) + 1
        self._true, self._answered = (
            np.where(true < 0, self._n_classes, true),
            np.where(self._refused, self._n_classes, answered),
        )

    def measures(self, weight: Array) -> dict[str, float]:
        """All measures that have no Wilson interval, by name, with a weight a sample (those of the lowest score first).

        What needs unknown samples, or known ones, is not there where their weights are all 0.
        """
        n_known, n_unknown = float(weight[self._known].sum()), float(weight[self.unknown].sum())
        found: dict[str, float] = {}
        if n_known:
            found |= self._f_measures(weight, n_known)
        if n_known and n_unknown:
            found |= self._of_answers(weight, n_known, n_unknown) | self._of_scores(weight, n_known, n_unknown)
        return found

    def _f_measures(self, weight: Array, n_known: float) -> dict[str, float]:
        right = float(weight[self._right].sum())
        accepted = float(weight[~self._refused].sum())
        strangers = float(weight[self.unknown & ~self._refused].sum())
        bins = self._n_classes + 1
        of_class, answered, hits = (
            np.bincount(codes, weights, minlength=bins)[:-1]
            for codes, weights in (
                (self._true, weight),
                (self._answered, weight),
                (self._true, np.where(self._right, weight, 0.0)),
            )
        )
        met = (of_class > 0) | (answered > 0)
        precision, recall = (
            float(np.divide(hits, whole, out=np.zeros(len(hits)), where=whole > 0)[met].mean())
            for whole in (answered, of_class)
        )
        return {
            "f": 2 * right / (right + strangers + n_known),
            "f_micro": 2 * right / (accepted + n_known),
            "f_macro": 2 * precision * recall / (precision + recall) if right else 0.0,
        }

    def _of_answers(self, weight: Array, n_known: float, n_unknown: float) -> dict[str, float]:
        aks = float(weight[self._right].sum()) / n_known
        aus = float(weight[self.unknown & self._refused].sum()) / n_unknown
        lost = float(weight[self._known & self._refused].sum()) / n_known
        return {
            "normalised_accuracy": (aks + aus) / 2,
            "harmonic_normalised_accuracy": 2 * aks * aus / (aks + aus) if aks * aus else 0.0,
            "youden_j": aus - lost,
        }

    def _of_scores(self, weight: Array, n_known: float, n_unknown: float) -> dict[str, float]:
        known, named, unknown = (
            np.add.reduceat(np.where(which, weight, 0.0), self._first)
            for which in (self._known, self._named, self.unknown)
        )
        accepted, rights, false = np.cumsum(known), np.cumsum(named), np.cumsum(unknown)
        lower = np.append(0.0, rights[:-1])
        last = np.searchsorted(false, np.array([0.01, 0.1]) * n_unknown * (1 + 1e-12), side="right")
        at = np.append(0.0, rights)[last] / n_known
        return {
            "auroc": float(unknown @ (accepted - known / 2)) / (n_known * n_unknown),
            "aupr_unknown": _average_precision(unknown[::-1], known[::-1]),
            "aupr_known": _average_precision(known, unknown),
            "fpr95": float(false[np.searchsorted(accepted, 0.95 * n_known * (1 - 1e-12))]) / n_unknown,
            "oscr": float(unknown @ (rights + lower)) / (2 * n_known * n_unknown),
            "ccr_at_fpr_1": float(at[0]),
            "ccr_at_fpr_10": float(at[1]),
        }


def _average_precision(wanted: Array, others: Array) -> float:
    found, taken = np.cumsum(wanted), np.cumsum(wanted + others)
    precision = np.divide(found, taken, out=np.zeros(len(taken)), where=taken > 0)
    return float(wanted @ precision) / float(found[-1])


def bootstrap(samples: Weighted, seed: int = SEED) -> dict[str, Interval]:
    """95 % intervals of all that `samples` measures, by the percentiles of resamples.

    Nothing where there are fewer than ten known samples, or one to nine unknown ones; and nothing for a measure that is
    the same in every resample, for then there is too little to tell how far it may be off.

    Parameters
    ----------
    samples : Weighted
    seed : int
    """
    unknown, known = np.flatnonzero(samples.unknown), np.flatnonzero(~samples.unknown)
    if len(known) < LEAST or 0 < len(unknown) < LEAST:
        return {}
    n = len(known) + len(unknown)
    rng = np.random.default_rng(seed)
    drawn: dict[str, list[float]] = {}
    for _ in range(int(np.clip(_WORK / n, _FEWEST, _RESAMPLES))):
        weight = np.zeros(n)
        for stratum in (known, unknown):
            if len(stratum):
                weight[stratum] = np.bincount(rng.integers(0, len(stratum), len(stratum)), minlength=len(stratum))
        for name, value in samples.measures(weight).items():
            drawn.setdefault(name, []).append(value)
    tail = 50 * (1 - CONFIDENCE)
    ends = {name: np.percentile(values, [tail, 100 - tail]) for name, values in drawn.items()}
    return {name: Interval(float(low), float(high)) for name, (low, high) in ends.items() if high - low > 1e-12}

r"""Conformal p-values: how many calibration samples are at least as strange as a new one.

With n calibration samples that a model was not fitted to, of scores :math:`s_i`, the p-value of a new sample is

.. math:: p = \frac{1 + \#\{i : s_i \ge s\}}{n + 1}.

If the new sample is known, so that it is exchangeable with the calibration samples, then
:math:`P(p \le \alpha) \le \alpha` for every :math:`\alpha`, whatever the model and the distribution. Scores of held-out
training samples give such p-values approximately.

- *By class* (Mondrian): the calibration samples are those of one class, and the bound holds for each class. Classes
  with too few of them share theirs; the bound then holds for these classes together. (If even these are too few, they
  are compared with all calibration samples, and it is approximate.)
- *By group* (of a person, patient or device): samples of one group depend on each other, groups do not. A group counts
  as one, divided among its samples, and the new sample's group as one more. The bound holds for a sample of a new
  group.

References
----------
V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", Springer 2005.

Y. Lee, R. F. Barber, R. Willett, "Distribution-free inference with hierarchical data", 2023.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray


@dataclass(frozen=True, eq=False)
class CalibrationSplit:
    """Scores of samples that a model was not fitted to, or of held-out training samples.

    Attributes
    ----------
    scores : ndarray (n,)
        Unknown scores.
    candidate, truth : ndarray of int (n,)
        Numbers of the candidate and of the true class.
    class_scores : ndarray (n,) or None
        How little each sample resembles its true class, see :meth:`srosr.SROSRClassifier.class_p_values`.
    groups : ndarray of int (n,) or None
        Number of the group of each sample.
    exact : bool
        Whether the model was fitted without any of the samples, and each counts the same, so that guarantees hold.
    labeled : bool
        Whether the true classes are known; else ``truth`` repeats ``candidate``.
    fresh : bool
        Whether the samples were collected after the fit, so that they stand for themselves: no class has to be there.
    source : str
        What the samples are, in words.
    """

    scores: Array
    candidate: IntArray
    truth: IntArray
    class_scores: Array | None = None
    groups: IntArray | None = None
    exact: bool = True
    labeled: bool = True
    fresh: bool = False
    source: str = "samples of the calibration split"

    def __len__(self) -> int:
        return len(self.scores)

    def compute_weights(self, rows: AnyArray | None = None) -> Array:
        """Return the weight of each sample, or of some: one, or the share of one that a sample has of its group."""
        groups = self.groups if rows is None or self.groups is None else self.groups[rows]
        if groups is None:
            return np.ones(len(self) if rows is None else len(self.scores[rows]))
        _, number, counts = np.unique(groups, return_inverse=True, return_counts=True)
        return 1.0 / counts[number]


def conformal_p_values(scores: Array, calibration: Array, weights: Array | None = None) -> Array:
    """Return the conformal p-values of new scores, of any shape; a score that is NaN counts as the largest.

    Parameters
    ----------
    scores : ndarray
    calibration : ndarray (n,)
        Scores of the calibration samples.
    weights : ndarray (n,), optional
        Their weights; one by default. A new sample has weight one.

    Examples
    --------
    >>> import numpy as np
    >>> conformal_p_values(np.array([0.5, 3.0, 9.0]), np.array([1.0, 2.0, 3.0]))
    array([1.  , 0.5 , 0.25])
    """
    return _RankedScores(calibration, weights).compute(scores)


class _RankedScores:
    """Calibration scores in order, with the weight of those from each place on."""

    def __init__(self, calibration: Array, weights: Array | None = None) -> None:
        order = np.argsort(calibration, kind="stable")
        self._ordered = calibration[order]
        each = np.ones(len(order)) if weights is None else weights[order]
        self._above = np.append(np.cumsum(each[::-1])[::-1], 0.0)

    def compute(self, scores: Array) -> Array:
        """Return the p-values of new scores."""
        places = np.searchsorted(self._ordered, np.where(np.isnan(scores), np.inf, scores), side="left")
        out: Array = (1.0 + self._above[places]) / (1.0 + self._above[0])
        return out


def count_needed(target: float) -> int:
    """Return the fewest held-out samples that resolve a rejection rate: :math:`n \\ge 1/\\alpha - 1`.

    Examples
    --------
    >>> count_needed(0.05), count_needed(1e-320) > 10**18
    (19, True)
    """
    # The quotient is infinite for the smallest numbers that a float can be.
    return math.ceil(min(1.0 / target - 1.0 - 1e-9, sys.maxsize))


def count_units(split: CalibrationSplit, rows: AnyArray) -> int:
    """Return how many samples, or groups where there are groups, some rows have."""
    return len(rows) if split.groups is None else len(np.unique(split.groups[rows]))


def find_own_classes(split: CalibrationSplit, members: IntArray, n_classes: int, needed: int) -> list[int]:
    """Return the classes with enough calibration samples of their own; ``members`` numbers the class of each."""
    found = (np.flatnonzero(members == k) for k in range(n_classes))
    return [k for k, rows in enumerate(found) if count_units(split, rows) >= needed]


def p_values_by_candidate(
    scores: Array, candidate: IntArray, split: CalibrationSplit, n_classes: int, needed: int
) -> Array:
    """Return p-values against the calibration samples with the same candidate.

    Candidates with too few of them share theirs; if these are too few together, all calibration samples are taken.
    """
    own = find_own_classes(split, split.candidate, n_classes, needed)
    out = np.empty(len(scores))
    for classes in (*([k] for k in own), [k for k in range(n_classes) if k not in own]):
        rows, members = np.isin(candidate, classes), np.flatnonzero(np.isin(split.candidate, classes))
        if count_units(split, members) < needed:  # even together: all calibration samples stand for them
            members = np.arange(len(split))
        out[rows] = conformal_p_values(scores[rows], split.scores[members], split.compute_weights(members))
    return out


class ClassComparison:
    """The calibration samples of each class, prepared once to compare many new samples with them.

    Classes with too few of them are compared with the samples of all such classes, or with all calibration samples if
    even these are too few; that is no longer exact.
    """

    def __init__(self, split: CalibrationSplit, n_classes: int, needed: int) -> None:
        assert split.class_scores is not None
        own = find_own_classes(split, split.truth, n_classes, needed)
        self._parts: list[tuple[list[int], _RankedScores]] = []
        for classes in (*([k] for k in own), [k for k in range(n_classes) if k not in own]):
            if not classes:
                continue
            members = np.flatnonzero(np.isin(split.truth, classes))
            if count_units(split, members) < needed:
                members = np.arange(len(split))
            ranked = _RankedScores(split.class_scores[members], split.compute_weights(members))
            self._parts.append((classes, ranked))

    def compute(self, class_scores: Array) -> Array:
        """Return the p-value of each class, (n_samples, n_classes)."""
        out = np.empty(class_scores.shape)
        for classes, ranked in self._parts:
            out[:, classes] = ranked.compute(class_scores[:, classes])
        return out


def select_discoveries(p_values: Array, rate: float) -> AnyArray:
    r"""Return which hypotheses are rejected at a false discovery rate: how many of those called unknown are known.

    The procedure of Benjamini and Hochberg on conformal p-values: of m samples the k with the smallest p-values are
    rejected, k being the largest number for which :math:`p_{(k)} \le \alpha k/m`. The p-values of the known samples of
    the batch come from the same calibration samples and so depend on each other, but positively; the expected share of
    known samples among the rejected ones is then still at most :math:`\alpha`, times the share of known samples in the
    batch.

    References
    ----------
    Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", J. R. Stat. Soc. B, 1995.

    S. Bates, E. Candès, L. Lei, Y. Romano, M. Sesia, "Testing for outliers with conformal p-values", Ann. Stat., 2023.

    Examples
    --------
    >>> import numpy as np
    >>> select_discoveries(np.array([0.02, 0.9, 0.04, 0.2]), 0.1)
    array([ True, False,  True, False])
    """
    n = len(p_values)
    if n == 0:
        return np.zeros(0, np.bool_)
    ordered = np.sort(p_values)
    # The p-values are multiples of 1/(n + 1), and a bound may be one too: it is met within rounding.
    met = np.flatnonzero(ordered <= rate * np.arange(1, n + 1) / n * (1.0 + 1e-12))
    return p_values <= ordered[met[-1]] if len(met) else np.zeros(n, np.bool_)

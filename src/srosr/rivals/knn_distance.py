"""The distance to the k-th nearest training sample as the unknown score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.parameter_checks import check_count
from .cross_fitted import ComparingClassifier, Learned, Model, SamplesOfClasses, Tuned

# Squared distances that differ by less than this share are equal: they are right to about nine digits.
_EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Neighbors(SamplesOfClasses):
    """The class number of each training sample, sorted, and k."""

    n_neighbors: int

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        starts = self.starts
        last = min(self.n_neighbors, inputs.shape[1]) - 1
        reach = np.partition(inputs, last, axis=1)[:, last]
        # All samples as near as the k-th vote: the order of equal distances is arbitrary.
        votes = np.add.reduceat(inputs <= (1.0 + _EQUAL) * reach[:, None], starts, axis=1, dtype=np.int64)
        distance = np.sqrt(reach)
        nearest = np.sqrt(np.minimum.reduceat(inputs, starts, axis=1))
        both = nearest + distance[:, None]
        scores = votes - np.divide(nearest, both, out=np.zeros_like(both), where=both > 0)
        return scores.argmax(axis=1), distance, scores

    def is_sound(self, n_classes: int) -> bool:
        return super().is_sound(n_classes) and isinstance(self.n_neighbors, int) and self.n_neighbors >= 1


@dataclass(eq=False, repr=False, kw_only=True)
class KNNDistance(ComparingClassifier):
    r"""Distance to the k-th nearest training sample.

    The unknown score of a sample is its Euclidean distance :math:`r_k` to the k-th nearest training sample of any
    class. Its candidate is the class of most of the k nearest; among several, the one with the nearest sample. The
    method assumes only that known samples are dense and unknown ones are not near them: it has no model of a class, and
    a distance has to mean the same everywhere.

    The score of class c is :math:`v_c - d_c/(d_c + r_k)`, its votes minus a fraction that grows with the distance
    :math:`d_c` to its nearest sample; the candidate has the largest. All samples as near as the k-th vote, so equal
    distances can give more than k votes.

    Parameters
    ----------
    n_neighbors : int, default 1
        k. One works for classes of any size; more tolerate single odd or mislabeled training samples, but the fifth
        neighbor of a class of four samples is of another class. At most the number of samples is used.
    threshold : float or {"risk", "f", "youden"}, optional
        Threshold on the unknown score :math:`r_k`, at least 0. The references choose it so that 95 % of the known
        samples are accepted, which is ``target_rejection=0.05``.
    normalize : bool, default False
        Scale samples to unit length, as Sun et al. do; distances are then at most 2.
    cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.
    samples_ : ndarray (n_samples, n_features)
        The training samples, class by class.

    References
    ----------
    Y. Sun, Y. Ming, X. Zhu, Y. Li, "Out-of-distribution detection with deep nearest neighbors", ICML 2022.

    S. Ramaswamy, R. Rastogi, K. Shim, "Efficient algorithms for mining outliers from large data sets", SIGMOD 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import KNNDistance
    >>> X, y = np.array([[0.0], [1.0], [8.0], [9.0]]), ["a", "a", "b", "b"]
    >>> clf = KNNDistance(n_neighbors=2, threshold=3.0).fit(X, y)
    >>> clf.predict([[2.0], [4.0]]).tolist(), clf.unknown_score([[2.0], [4.0]]).tolist()
    (['a', 'unknown'], [2.0, 4.0])
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    model_type: ClassVar[type[Model]] = Neighbors
    _checks: ClassVar = {"n_neighbors": check_count}

    n_neighbors: int = field(default=1, kw_only=False)

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        order = np.argsort(members, kind="stable")
        return Neighbors(members[order], int(self.n_neighbors)), rows[order]

"""OSNN, the nearest neighbours distance ratio open set classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._support.array_types import Array, IntArray
from .cross_fitted import ComparingClassifier, Model, Shape, are_classes, class_starts

__all__ = ["OSNN"]


@dataclass(frozen=True, eq=False)
class NearestOfClass(Model):
    """The class number of each training sample, sorted."""

    members: IntArray

    def judge(self, related: Array) -> tuple[IntArray, Array, Array]:
        starts = class_starts(self.members)
        nearest = np.sqrt(np.minimum.reduceat(related, starts, axis=1))
        two = np.partition(nearest, 1, axis=1)
        # Two classes at distance zero say nothing: the ratio of equals is one.
        ratio = np.divide(two[:, 0], two[:, 1], out=np.ones(len(two)), where=two[:, 1] > 0)
        return nearest.argmin(axis=1), ratio, -nearest

    @staticmethod
    def shapes(n_classes: int, n_columns: int) -> dict[str, Shape]:
        return {"members": (n_columns,)}

    def is_sound(self, n_classes: int) -> bool:
        return are_classes(self.members, n_classes)


class OSNN(ComparingClassifier):
    r"""Nearest neighbours distance ratio (OSNN).

    With t the nearest training sample and u the nearest one of another class than t's, a sample s is of the class of t
    if :math:`R = d(s, t)/d(s, u) \le T`, else unknown. The ratio is small where one class is clearly nearer than all
    others and tends to one between classes and far from all of them: what lies far away is refused for every T < 1.

    Parameters
    ----------
    threshold : float or {"risk", "f", "youden"}, optional
        On the unknown score R (the paper's T). The paper chooses T on pretended strangers so that the mean of the
        accuracies on known and on unknown samples is largest, which is ``threshold="risk"``.
    normalize, cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.
    samples_ : ndarray (n_samples, n_features)
        The training samples, class by class.

    References
    ----------
    P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.rivals import OSNN
    >>> X, y = np.array([[0.0], [1.0], [8.0], [9.0]]), ["a", "a", "b", "b"]
    >>> clf = OSNN(threshold=0.5).fit(X, y)
    >>> clf.predict([[2.0], [4.0]]).tolist(), clf.unknown_score([[2.0], [4.0]]).round(3).tolist()
    (['a', 'unknown'], [0.167, 0.75])
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    _no_original_threshold: ClassVar[str] = 'the paper chooses T on pretended strangers, which is threshold="risk".'
    model_type: ClassVar[type[Model]] = NearestOfClass

    def _learn(
        self, related: Array, rows: IntArray, members: IntArray, tuned: dict[str, Any]
    ) -> tuple[Model, IntArray | None]:
        order = np.argsort(members, kind="stable")
        return NearestOfClass(members[order]), rows[order]

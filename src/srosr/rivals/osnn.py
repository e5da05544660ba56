"""OSNN, the nearest neighbor distance ratio open set classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._support.array_types import Array, IntArray
from .cross_fitted import ComparingClassifier, Learned, Model, SamplesOfClasses, Tuned


@dataclass(frozen=True, eq=False)
class NearestOfClass(SamplesOfClasses):
    """The class number of each training sample, sorted."""

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        nearest = np.sqrt(np.minimum.reduceat(inputs, self.starts, axis=1))
        two = np.partition(nearest, 1, axis=1)
        # Two classes at distance zero are equally near: their ratio is one.
        ratio = np.divide(two[:, 0], two[:, 1], out=np.ones(len(two)), where=two[:, 1] > 0)
        return nearest.argmin(axis=1), ratio, -nearest


class OSNN(ComparingClassifier):
    r"""Nearest neighbor distance ratio (OSNN).

    With t the nearest training sample and u the nearest one of another class than t's, a sample s gets the class of t
    if :math:`R = d(s, t)/d(s, u) \le T` and is unknown otherwise. The ratio is small if one class is clearly nearer
    than all others, and tends to one between classes and far from all of them: samples far away are rejected for every
    T < 1.

    Parameters
    ----------
    threshold : float or {"risk", "f", "youden"}, optional
        Threshold on the unknown score R, the paper's T. The paper chooses T on simulated unknowns to maximize the mean
        of the accuracies on known and on unknown samples, which is ``threshold="risk"``.
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
    >>> from srosr import OSNN
    >>> X, y = np.array([[0.0], [1.0], [8.0], [9.0]]), ["a", "a", "b", "b"]
    >>> clf = OSNN(threshold=0.5).fit(X, y)
    >>> clf.predict([[2.0], [4.0]]).tolist(), clf.unknown_score([[2.0], [4.0]]).round(3).tolist()
    (['a', 'unknown'], [0.167, 0.75])
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    _no_original_threshold: ClassVar[str] = 'the paper chooses T on simulated unknowns, which is threshold="risk".'
    model_type: ClassVar[type[Model]] = NearestOfClass

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        order = np.argsort(members, kind="stable")
        return NearestOfClass(members[order]), rows[order]

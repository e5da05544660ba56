"""The Mahalanobis distance to the nearest class mean as the unknown score."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._support.array_types import Array, IntArray
from ..exceptions import SROSRWarning, warn
from .cross_fitted import CrossFittedClassifier, Learned, Model, Tuned
from .distances import decompose_covariance, find_ledoit_wolf_shrinkage, squared_distances

#: Least shrinkage: without any, a deviation that no training sample has would be infinitely far.
MIN_SHRINKAGE = 1e-8


@dataclass(frozen=True, eq=False)
class WhitenedMeans(Model):
    r"""Class means after whitening :math:`z \mapsto (z - V\,\mathrm{diag}(h)V^\top z)/\sqrt a`, z from the center."""

    shapes: ClassVar = {
        "centre": ("columns",), "directions": (-1, "columns"), "taken": (-1,), "means": ("classes", "columns"),
    }  # fmt: skip

    centre: Array  # spelled as in model files
    #: Rows of :math:`V^\top`, orthonormal.
    directions: Array
    #: h, at least 0 and below 1.
    taken: Array
    #: :math:`\sqrt a`.
    spread: float
    #: Whitened.
    means: Array

    def whiten(self, inputs: Array) -> Array:
        """Return samples from the center, scaled so that the covariance is the identity."""
        Z = inputs - self.centre
        return (Z - (Z @ self.directions.T * self.taken) @ self.directions) / self.spread

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        distances = squared_distances(self.whiten(inputs), self.means)
        return distances.argmin(axis=1), distances.min(axis=1), -distances

    def is_sound(self, n_classes: int) -> bool:
        taken = len(self.taken) == len(self.directions) and bool(((self.taken >= 0) & (self.taken <= 1)).all())
        return self.spread > 0 and taken


class Mahalanobis(CrossFittedClassifier):
    r"""Mahalanobis distance to the nearest class mean.

    With class means :math:`\mu_c` and one covariance for all classes, the unknown score is

    .. math:: \min_c\,(x - \mu_c)^\top\Sigma^{-1}(x - \mu_c),
              \qquad \Sigma = (1 - \delta)S + \delta\frac{\operatorname{tr} S}{d}I,
              \qquad S = \frac1n\sum_i (x_i - \mu_{y_i})(x_i - \mu_{y_i})^\top,

    and the candidate is the class of the minimum. The method assumes that classes are Gaussian clouds of one shape. Lee
    et al. use S itself, which is singular if there are fewer samples than features; the shrinkage :math:`\delta` is
    that of Ledoit and Wolf, and at least 1e-8. The work grows with the smaller of the numbers of samples and features,
    never with the square of the larger.

    If all samples equal their class mean, as with one sample per class, there is no covariance: :math:`\Sigma = I`, the
    score is the squared Euclidean distance to the nearest mean, and a warning says so. Features that are constant
    within classes do no harm: shrinkage gives them a variance.

    Parameters
    ----------
    threshold : float or {"risk", "f", "youden"}, optional
        Threshold on the unknown score, a squared distance; the paper has none of its own.
    normalize, cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.

    Warns
    -----
    SROSRWarning
        If the covariance within classes is zero.

    References
    ----------
    K. Lee, K. Lee, H. Lee, J. Shin, "A simple unified framework for detecting out-of-distribution samples and
    adversarial attacks", NeurIPS 2018.

    O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices", Journal of
    Multivariate Analysis 88, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import Mahalanobis
    >>> X = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> clf = Mahalanobis(threshold=12.0).fit(np.concatenate([X, X + 10.0]), 4 * ["a"] + 4 * ["b"])
    >>> clf.predict([[4.0, 0.0], [0.0, 4.0]]).tolist()
    ['a', 'unknown']
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    model_type: ClassVar[type[Model]] = WhitenedMeans

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        return fit_whitened_means(inputs[rows], members), None


def fit_whitened_means(X: Array, members: IntArray) -> WhitenedMeans:
    """Fit class means and one covariance of all classes, shrunk; without one, warn and take the identity."""
    means = np.stack([X[members == c].mean(axis=0) for c in range(members.max() + 1)])
    center, n_features = X.mean(axis=0), X.shape[1]
    deviations = X - means[members]
    directions, variances = decompose_covariance(deviations)
    total = float(variances.sum())
    # Equal samples minus their mean leave rounding errors, not deviations.
    if np.sqrt(total) <= 1e-14 * np.abs(X).max() * np.sqrt(n_features):
        warn(
            "every training sample equals the mean of its class, so there is no covariance: distances are "
            "Euclidean. A covariance needs several different samples per class.",
            SROSRWarning,
        )
        return WhitenedMeans(center, np.empty((0, n_features)), np.empty(0), 1.0, means - center)
    share = max(find_ledoit_wolf_shrinkage(deviations, variances), MIN_SHRINKAGE)
    floor = share * total / n_features
    taken = 1.0 - np.sqrt(floor / ((1.0 - share) * variances + floor))
    plain = WhitenedMeans(center, directions, taken, float(np.sqrt(floor)), means)
    return replace(plain, means=plain.whiten(means))

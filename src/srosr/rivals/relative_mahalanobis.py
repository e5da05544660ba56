"""The Mahalanobis distance to the nearest class, relative to that to all samples, as the unknown score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._support.array_types import Array, IntArray
from .cross_fitted import CrossFittedClassifier, Learned, Model, Tuned
from .mahalanobis import WhitenedMeans, fit_whitened_means


@dataclass(frozen=True, eq=False)
class RelativeMeans(WhitenedMeans):
    r"""Whitened class means, and axes A between them: after whitening, :math:`\Sigma_0^{-1} = I - A^\top A`."""

    shapes: ClassVar = WhitenedMeans.shapes | {"axes": ("classes", "columns")}

    axes: Array

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        white = self.whiten(inputs)
        # The squared length of the whitened sample is a part of both distances, and left out.
        to_classes = np.square(self.means).sum(axis=1) - 2.0 * white @ self.means.T
        relative = to_classes + np.square(white @ self.axes.T).sum(axis=1)[:, None]
        return to_classes.argmin(axis=1), relative.min(axis=1), -relative


class RelativeMahalanobis(CrossFittedClassifier):
    r"""Relative Mahalanobis distance (RMDS): that to the nearest class minus that to all samples taken as one class.

    With class means :math:`\mu_c`, the mean :math:`\mu_0` of all samples, the covariance S within classes and the
    covariance B of the means of the :math:`n_c` samples of each class, the unknown score is

    .. math:: \min_c\,(x - \mu_c)^\top\Sigma^{-1}(x - \mu_c) - (x - \mu_0)^\top\Sigma_0^{-1}(x - \mu_0),

    .. math:: \Sigma = (1 - \delta)S + \delta\frac{\operatorname{tr} S}{d}I, \qquad \Sigma_0 = \Sigma + B,
              \qquad B = \sum_c \frac{n_c}n(\mu_c - \mu_0)(\mu_c - \mu_0)^\top,

    and the candidate is the class of the minimum. Along directions in which class means do not differ, both distances
    are the same and cancel: only the directions that tell classes apart count. The method assumes Gaussian classes of
    one shape, and that an unknown sample differs from known ones as these do from each other; one that differs from all
    of them in the same way gets a low score, which :class:`Mahalanobis` would reject.

    The paper's :math:`\Sigma_0` is the covariance of all samples, which is :math:`S + B`. Here the part within classes
    is shrunk as for :class:`Mahalanobis`, so that there may be fewer samples than features; a shrinkage of its own for
    :math:`S + B` would leave differences in directions that no training sample has. If all samples equal their class
    mean, as with one sample per class, :math:`\Sigma = I`, and a warning says so.

    Parameters
    ----------
    threshold : float or {"risk", "f", "youden"}, optional
        Threshold on the unknown score, any number; the paper has none of its own.
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
    J. Ren, S. Fort, J. Liu, A. G. Roy, S. Padhy, B. Lakshminarayanan, "A simple fix to Mahalanobis distance for
    improving near-OOD detection", ICML workshop on uncertainty and robustness in deep learning, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import RelativeMahalanobis
    >>> X = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> clf = RelativeMahalanobis(threshold=0.0).fit(np.concatenate([X, X + [0.0, 10.0]]), 4 * ["a"] + 4 * ["b"])
    >>> clf.predict([[4.0, 0.0], [0.0, 5.0], [4.0, 10.0]]).tolist()
    ['a', 'unknown', 'b']
    """

    model_type: ClassVar[type[Model]] = RelativeMeans

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        plain = fit_whitened_means(inputs[rows], members)
        shares = np.bincount(members) / len(members)
        left, sizes, right = np.linalg.svd(np.sqrt(shares)[:, None] * plain.means, full_matrices=False)
        axes = (left * (sizes / np.hypot(1.0, sizes))) @ right
        return RelativeMeans(**vars(plain), axes=axes), None

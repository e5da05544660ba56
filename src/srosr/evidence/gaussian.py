r"""Gaussian classes with one common covariance: squared Mahalanobis distances, from ridge scores alone.

Let :math:`m_k` be the mean of the :math:`n_k` atoms of class k and :math:`S + cI` the scatter of the atoms about the
means of their classes, regularized. With the scores :math:`f = Y^T(G + cI)^{-1}\rho` of ridge regression on the inner
products and :math:`Q = Y^T(G + cI)^{-1}Y`, the matrix inversion lemma gives

.. math:: (y - m_k)^T(S + cI)^{-1}(y - m_k) = b(y) + (f - e_k)^T(cQ)^{-1}(f - e_k) - \frac1{n_k},

where :math:`b(y)` is the same for all classes and :math:`e_k` is the k-th unit vector. One class of all atoms gives the
*background*, :math:`b(y) + (\sum_k f_k - 1)^2/(c\sum_{kl}Q_{kl}) - 1/N`. In the relative distance, the smallest class
distance minus that of the background, :math:`b(y)` cancels. So neither features nor a covariance are needed, any kernel
will do, and held-out values come from those of the ridge scores.

References
----------
J. Ren, S. Fort, J. Liu, A. G. Roy, S. Padhy, B. Lakshminarayanan, "A simple fix to Mahalanobis distance for improving
near-OOD detection", 2021 (the relative distance). J. H. Friedman, "Regularized discriminant analysis", JASA 84, 1989.
"""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array, IntArray
from .ridge import invert_positive

#: The regularization c, relative to the mean squared length of the atoms.
GAUSSIAN_PENALTY = 0.1


class GaussianClasses:
    """Squared distances to Gaussian classes and to the background, from ridge scores.

    Parameters
    ----------
    totals : ndarray (n_classes, n_classes)
        The matrix Q.
    penalty : float
        c.
    sizes : ndarray of int (n_classes,)
        Samples of each class.
    """

    def __init__(self, totals: Array, penalty: float, sizes: IntArray) -> None:
        self.inverse = np.ascontiguousarray(invert_positive((0.5 * penalty) * (totals + totals.T)))
        self.scale, self.sizes = penalty * totals.sum(), sizes

    def measure(self, scores: Array) -> tuple[Array, Array]:
        """Return squared distances to the classes, (n_samples, n_classes), and to the background, both less b(y).

        ``scores`` are the ridge scores f of the samples.
        """
        image = scores @ self.inverse
        squares = np.einsum("ij,ij->i", image, scores)[:, None] - 2.0 * image
        squares = squares + np.diagonal(self.inverse) - 1.0 / self.sizes
        background = (scores.sum(axis=1) - 1.0) ** 2 / self.scale - 1.0 / self.sizes.sum()
        return squares, background

"""Principal directions of few or many samples, and how far to shrink their covariance."""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array
from .distances import project_to_span


def decompose_covariance(deviations: Array) -> tuple[Array, Array]:
    """Return principal directions (as rows) of deviations and the variances along them, ascending.

    With fewer samples than features these are the directions of their span: the work grows with the smaller of the two
    numbers, never with the square of the larger.
    """
    coordinates, basis = project_to_span(deviations)
    variances, vectors = np.linalg.eigh(coordinates.T @ coordinates / len(deviations))
    return vectors.T if basis is None else vectors.T @ basis.T, np.maximum(variances, 0.0)


def find_ledoit_wolf_shrinkage(deviations: Array, variances: Array) -> float:
    r"""Return how far to shrink the covariance S of deviations :math:`z_i` to a multiple of the identity.

    .. math:: \delta = \min\left(1, \frac{\frac1n\left(\frac1n\sum_i\|z_i\|^4 - \|S\|_F^2\right)}
                                       {\|S\|_F^2 - (\operatorname{tr} S)^2/d}\right)

    ``variances`` are the eigenvalues of S, without some or all that are zero.
    """
    # The formula has no unit; fourth powers of large or small features would not be finite.
    total = float(variances.sum())
    lengths, variances = np.einsum("ij,ij->i", deviations, deviations) / total, variances / total
    squared = float(np.square(variances).sum())
    noise = (float(np.square(lengths).mean()) - squared) / len(deviations)
    structure = squared - 1.0 / deviations.shape[1]
    if noise <= 0.0:
        return 0.0
    return 1.0 if noise >= structure else noise / structure

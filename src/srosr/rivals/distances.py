"""Squared distances between samples, coordinates in which few samples of many features keep them, and covariances."""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array

# Squared distances below this share of the squared lengths lose digits in a matrix product.
_CLOSE = 1e-6
# Pairs whose differences are computed at once.
_PAIRS = 4096


def squared_distances(X: Array, samples: Array) -> Array:
    """Return squared Euclidean distances (n_samples, n_training), by a matrix product and, if small, by differences.

    Equal samples are at distance zero, and small distances are right to nine digits or better.
    """
    center = samples.mean(axis=0)
    X, samples = X - center, samples - center
    with np.errstate(over="ignore", invalid="ignore"):
        ours, theirs = (np.einsum("ij,ij->i", A, A) for A in (X, samples))
        out = X @ samples.T
        out *= -2.0
        out += ours[:, None]
        out += theirs
    out[~np.isfinite(ours)] = np.inf  # too far away for a square
    step = max(1, _PAIRS // max(len(samples), 1))
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        i, j = np.nonzero(out[rows] <= _CLOSE * (ours[rows, None] + theirs))
        for first in range(0, len(i), _PAIRS):
            part = slice(first, first + _PAIRS)
            out[start + i[part], j[part]] = np.square(X[start + i[part]] - samples[j[part]]).sum(axis=1)
    return out


def project_to_span(X: Array) -> tuple[Array, Array | None]:
    """Express samples in an orthonormal basis Q of their span, if there are fewer samples than features.

    Everything that depends on inner products alone is the same in these coordinates, and a direction :math:`w` in them
    is the direction :math:`Qw` of the features. Returns coordinates and Q, with ``X == coordinates @ Q.T``; or X and
    None if there are enough samples.

    Examples
    --------
    >>> import numpy as np
    >>> coordinates, basis = project_to_span(np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]]))
    >>> coordinates.shape, np.round(coordinates @ basis.T, 12).tolist()
    ((2, 2), [[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
    """
    if X.shape[1] <= len(X):
        return X, None
    basis, coordinates = np.linalg.qr(X.T)
    return np.ascontiguousarray(coordinates.T), basis


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

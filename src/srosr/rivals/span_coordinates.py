"""Coordinates of few samples of many features in their own span."""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array


def project_to_span(X: Array) -> tuple[Array, Array | None]:
    r"""Express samples in an orthonormal basis of their span, if there are fewer samples than features.

    Everything that depends on inner products alone is the same in these coordinates, and a direction :math:`w` in them
    is the direction :math:`Qw` of the features.

    Parameters
    ----------
    X : ndarray (n_samples, n_features)

    Returns
    -------
    coordinates : ndarray (n_samples, min(n_samples, n_features))
        ``X`` itself if there are enough samples.
    basis : ndarray (n_features, n_samples) or None
        Q, with ``X == coordinates @ basis.T``; None for ``X`` itself.

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

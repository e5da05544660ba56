"""Few samples of many features, by coordinates in their own span."""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array

__all__ = ["in_own_span"]


def in_own_span(X: Array) -> tuple[Array, Array | None]:
    r"""Samples in an orthonormal basis of their span, where they are fewer than their features.

    What depends on inner products alone is the same in these coordinates, and a direction :math:`w` of theirs is
    :math:`Qw` of the features.

    Parameters
    ----------
    X : ndarray (n_samples, n_features)

    Returns
    -------
    coordinates : ndarray (n_samples, min(n_samples, n_features))
        ``X`` itself where there are samples enough.
    basis : ndarray (n_features, n_samples) or None
        Q, with ``X == coordinates @ basis.T``; None for ``X`` itself.

    Examples
    --------
    >>> import numpy as np
    >>> coordinates, basis = in_own_span(np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]]))
    >>> coordinates.shape, np.round(coordinates @ basis.T, 12).tolist()
    ((2, 2), [[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
    """
    if X.shape[1] <= len(X):
        return X, None
    basis, coordinates = np.linalg.qr(X.T)
    return np.ascontiguousarray(coordinates.T), basis

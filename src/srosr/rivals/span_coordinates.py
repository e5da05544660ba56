"""Coordinates of few samples of many features in their own span."""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array


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

"""Distances to the nearest atom of each class.

Squared distances from inner products are good to rounding of the squared lengths; below that the distance is zero, so
that a copy of an atom is at distance zero however the products were computed.

References
----------
Y. Sun, Y. Ming, X. Zhu, Y. Li, "Out-of-distribution detection with deep nearest neighbors", ICML 2022 (the distance to
neighbors of unit length as a score for unknown samples).
"""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array, IntArray

# Squared distances below this, relative to the squared length of the sample, are rounding.
_ROUNDING = 1e-13


def measure_nearest(squared_distances: Array, squares: Array, starts: IntArray) -> Array:
    """Return the distance to the nearest atom of each class, (n_samples, n_classes).

    ``squares`` has the squared lengths of the samples, ``starts`` the number of the first atom of each class; atoms are
    sorted by class.
    """
    least = np.minimum.reduceat(squared_distances, starts, axis=1)
    return np.sqrt(np.where(least > _ROUNDING * squares[:, None], least, 0.0))


def measure_nearest_without(
    squared_distances: Array, squares: Array, left_out: IntArray, class_of: IntArray, classes: IntArray
) -> Array:
    """Return the distance to the nearest atom of each of some classes without the atoms ``left_out``.

    ``squared_distances`` has one column an atom, ``class_of`` the number of its class.
    """
    kept = np.delete(np.arange(len(class_of)), left_out)
    starts = np.searchsorted(class_of[kept], classes)
    return measure_nearest(squared_distances.take(kept, axis=1), squares, starts)

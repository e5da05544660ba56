"""Distances to the nearest atom of each class.

Squared distances from inner products are good to rounding of the squared lengths; below that the distance is zero, so
that a copy of an atom is at distance zero. Rounding is that of double precision, or of single precision for the
standardized columns of very many atoms, which are stored so.

References
----------
Y. Sun, Y. Ming, X. Zhu, Y. Li, "Out-of-distribution detection with deep nearest neighbors", ICML 2022 (the distance to
neighbors of unit length as a score for unknown samples).
"""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array, IntArray
from .ridge import compute_squared_distances

#: Squared distances below this, relative to the squared length of the sample, are rounding: some hundred units in the
#: last place of double, or of single precision.
DOUBLE_ROUNDING = 1e-13
SINGLE_ROUNDING = 5e-5


def measure_nearest(squared_distances: Array, squares: Array, starts: IntArray) -> Array:
    """Return the distance to the nearest atom of each class, (n_samples, n_classes).

    ``squares`` has the squared lengths of the samples, ``starts`` the number of the first atom of each class; atoms are
    sorted by class.
    """
    least = np.minimum.reduceat(squared_distances, starts, axis=1)
    return np.sqrt(np.where(least > DOUBLE_ROUNDING * squares[:, None], least, 0.0))


class NearestInBlocks:
    """Distances to the nearest atom of each class, with the atoms compared block by block.

    Parameters
    ----------
    squares : ndarray (n_samples,)
        Squared lengths of the samples.
    n_classes : int
    class_of : ndarray of int (n_atoms,)
        Numbers of the classes of the atoms, sorted.
    is_single : bool
        Whether rounding is that of single precision; squared lengths are then those of the rounded rows.
    """

    def __init__(self, squares: Array, n_classes: int, class_of: IntArray, *, is_single: bool = False) -> None:
        self.squares, self.class_of = squares, class_of
        self._rounding = SINGLE_ROUNDING if is_single else DOUBLE_ROUNDING
        self._least = np.full((len(squares), n_classes), np.inf)

    def lower(self, products: Array, atom_squares: Array, tile: slice, without: IntArray | None = None) -> None:
        """Take a tile of atoms into account, by inner products and squared lengths, without some of them."""
        distances = compute_squared_distances(products, self.squares, atom_squares)
        if without is not None:
            distances[:, without] = np.inf
        classes, starts = np.unique(self.class_of[tile], return_index=True)
        least = np.minimum.reduceat(distances, starts, axis=1)
        self._least[:, classes] = np.minimum(self._least[:, classes], least)

    def finish(self) -> Array:
        """Return the distances, (n_samples, n_classes); infinite for a class without an atom."""
        return np.sqrt(np.where(self._least > self._rounding * self.squares[:, None], self._least, 0.0))


def measure_nearest_without(
    squared_distances: Array, squares: Array, left_out: IntArray, class_of: IntArray, classes: IntArray
) -> Array:
    """Return the distance to the nearest atom of each of some classes without the atoms ``left_out``.

    ``squared_distances`` has one column an atom, ``class_of`` the number of its class.
    """
    kept = np.delete(np.arange(len(class_of)), left_out)
    starts = np.searchsorted(class_of[kept], classes)
    return measure_nearest(squared_distances.take(kept, axis=1), squares, starts)

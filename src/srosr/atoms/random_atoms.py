"""``RandomAtoms``: samples drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from .atom_sampler import AtomSampler


class RandomAtoms(AtomSampler):
    """Draw the atoms of each class at random from its samples.

    Parameters
    ----------
    n_atoms : float, int or mapping, default 0.25
        A share of each class, a number a class, or a number for each class; see :class:`SelectAtoms`.
    normalize : bool, default True
        No effect here.
    random_state : int, RandomState or None

    Attributes
    ----------
    sample_indices_ : ndarray of int (n_atoms,)
        Rows of X that are atoms.
    nearest_indices_ : ndarray of int (n_atoms,)
        The same.

    See Also
    --------
    SelectAtoms : Samples chosen by the open set risk.

    Examples
    --------
    >>> from srosr import RandomAtoms
    >>> sampler = RandomAtoms(1, random_state=0)
    >>> X_res, y_res = sampler.fit_resample([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]], ["a", "a", "b"])
    >>> y_res.tolist(), len(sampler.sample_indices_)
    (['a', 'b'], 2)
    """

    def _find_atoms(self, rows: Array, class_of: IntArray, counts: IntArray, rng: Any) -> IntArray:
        starts = np.searchsorted(class_of, np.arange(len(counts)))
        sizes = np.bincount(class_of)
        parts = [
            start + np.sort(rng.permutation(size)[:count])
            for start, size, count in zip(starts, sizes, counts, strict=True)
        ]
        return np.concatenate(parts)

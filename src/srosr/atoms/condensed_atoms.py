"""``CondensedAtoms``: condensed nearest neighbors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .atom_sampler import AtomSampler, compute_row_distances

#: Passes over the samples.
N_PASSES = 10


class CondensedAtoms(AtomSampler):
    """Keep samples that the nearest of those kept so far would give a wrong class.

    One sample of each class is kept first. Then the samples are visited in random order, again and again, until all
    have the class of their nearest atom or their class has its number of atoms. A class that has fewer by then is
    filled up at random.

    Parameters
    ----------
    n_atoms : float, int or mapping, default 0.25
        A share of each class, a number a class, or a number for each class; see :class:`SelectAtoms`.
    normalize : bool, default True
        Compare samples at unit length.
    random_state : int, RandomState or None

    Attributes
    ----------
    sample_indices_ : ndarray of int (n_atoms,)
        Rows of X that are atoms.
    nearest_indices_ : ndarray of int (n_atoms,)
        The same.

    References
    ----------
    P. E. Hart, "The condensed nearest neighbor rule", IEEE Transactions on Information Theory 14, 1968.

    Examples
    --------
    >>> from srosr import CondensedAtoms
    >>> X, y = [[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]
    >>> CondensedAtoms(1, normalize=False, random_state=0).fit_resample(X, y)[1].tolist()
    [0, 1]
    """

    def _find_atoms(self, rows: Array, class_of: IntArray, counts: IntArray, rng: Any) -> IntArray:
        order = rng.permutation(len(rows))
        kept = _Kept(rows, class_of, counts)
        for k in range(len(counts)):
            kept.add(order[class_of[order] == k][0])
        for _ in range(N_PASSES):
            n_kept = kept.flags.sum()
            for i in order:
                if kept.is_open(i) and kept.label[i] != class_of[i]:
                    kept.add(i)
            if kept.flags.sum() == n_kept:
                break
        for i in order:
            if kept.is_open(i):
                kept.flag(i)
        return np.flatnonzero(kept.flags)


class _Kept:
    """The samples kept so far, and the class of the nearest of them for every sample."""

    def __init__(self, rows: Array, class_of: IntArray, counts: IntArray) -> None:
        self.rows, self.class_of, self.left = rows, class_of, counts.copy()
        self.flags: AnyArray = np.zeros(len(rows), np.bool_)
        self.label: IntArray = np.full(len(rows), -1)
        self.distance: Array = np.full(len(rows), np.inf)

    def is_open(self, i: int) -> bool:
        """Return whether a sample may still be kept."""
        return not self.flags[i] and self.left[self.class_of[i]] > 0

    def flag(self, i: int) -> None:
        self.flags[i] = True
        self.left[self.class_of[i]] -= 1

    def add(self, i: int) -> None:
        """Keep a sample and compare all samples with it."""
        self.flag(i)
        distance = compute_row_distances(self.rows, self.rows[i : i + 1])[:, 0]
        nearer = distance < self.distance
        self.distance[nearer] = distance[nearer]
        self.label[nearer] = self.class_of[i]

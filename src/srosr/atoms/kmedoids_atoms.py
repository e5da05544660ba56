"""``KMedoidsAtoms``: the most central samples, class by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from ..dictionary.dictionary import split_range
from .atom_sampler import AtomSampler, compute_row_distances
from .kmeans_atoms import find_centers

# Distances computed at a time.
_DISTANCES = 2**20
#: Rounds of assigning samples to medoids and finding medoids.
N_ROUNDS = 20


class KMedoidsAtoms(AtomSampler):
    """Take the medoids of clusters, class by class, as atoms.

    A medoid is the sample of a cluster with the smallest sum of distances to the others. Clusters start as those of
    k-means; then samples go to their nearest medoid and medoids are found again, until nothing changes.

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
    L. Kaufman, P. J. Rousseeuw, "Finding groups in data", 1990. H.-S. Park, C.-H. Jun, "A simple and fast algorithm for
    k-medoids clustering", Expert Systems with Applications 36, 2009 (the alternation).

    Examples
    --------
    >>> from srosr import KMedoidsAtoms
    >>> X, y = [[0.0], [1.0], [9.0], [20.0], [21.0], [29.0]], [0, 0, 0, 1, 1, 1]
    >>> KMedoidsAtoms(1, normalize=False, random_state=0).fit_resample(X, y)[0].ravel().tolist()
    [1.0, 21.0]
    """

    def _find_atoms(self, rows: Array, class_of: IntArray, counts: IntArray, rng: Any) -> IntArray:
        starts = np.searchsorted(class_of, np.arange(len(counts)))
        parts = [
            start + _find_medoids(rows[class_of == k], int(count), rng)
            for k, (start, count) in enumerate(zip(starts, counts, strict=True))
        ]
        return np.concatenate(parts)


def _find_medoids(rows: Array, count: int, rng: Any) -> IntArray:
    """Return the numbers of the medoids, sorted."""
    if count >= len(rows):
        return np.arange(len(rows))
    cluster = _find_nearest(rows, find_centers(rows, count, rng))
    medoids = _find_central(rows, cluster)
    for _ in range(N_ROUNDS):
        cluster = _find_nearest(rows, rows[medoids])
        found = _find_central(rows, cluster)
        if np.array_equal(found, medoids):
            break
        medoids = found
    # Copies of a sample share a cluster: other samples make up for those that are missing.
    others = rng.permutation(np.setdiff1d(np.arange(len(rows)), medoids))
    return np.sort(np.concatenate([medoids, others[: count - len(medoids)]]))


def _split(n: int, width: int) -> list[slice]:
    """Split n rows into blocks whose distances to so many others fit into memory."""
    return split_range(0, n, max(_DISTANCES // width, 1))


def _find_nearest(rows: Array, centers: Array) -> IntArray:
    """Return for each row the number of the nearest center."""
    parts = [compute_row_distances(rows[block], centers).argmin(axis=1) for block in _split(len(rows), len(centers))]
    return np.concatenate(parts)


def _find_central(rows: Array, cluster: IntArray) -> IntArray:
    """Return for each cluster the row with the smallest sum of distances to the others, sorted."""
    out = []
    for number in np.unique(cluster):
        own = np.flatnonzero(cluster == number)
        members, blocks = rows[own], _split(len(own), len(own))
        sums = [np.sqrt(compute_row_distances(members, rows[own[block]])).sum(axis=0) for block in blocks]
        out.append(own[np.concatenate(sums).argmin()])
    return np.unique(out)

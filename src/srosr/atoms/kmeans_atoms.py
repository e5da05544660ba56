"""``KMeansAtoms``: the centers of k-means, class by class."""

from __future__ import annotations

import warnings
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .._support.array_types import Array, IntArray
from ..dictionary.dictionary import normalize_rows
from .atom_sampler import AtomSampler

_filtering = Lock()


def _find_centers(rows: Array, count: int, rng: Any, max_iter: int = 300) -> Array:
    """Return the centers of k-means, or the rows themselves where there are no more than ``count``."""
    if count >= len(rows):
        return rows.copy()
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # The filters of warnings belong to the whole process: one thread at a time changes them.
    with _filtering, warnings.catch_warnings():
        # Fewer different samples than centers: some centers are the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans = KMeans(count, n_init=1, max_iter=max_iter, random_state=rng.randint(2**31 - 1)).fit(rows)
    return kmeans.cluster_centers_


def find_class_centers(
    rows: Array, class_of: IntArray, counts: IntArray, rng: Any, *, normalize: bool, max_iter: int = 300
) -> Array:
    """Return the centers of all classes, class by class; at unit length if the rows are."""
    # One thread: with several the centers are sums in an order that changes from run to run.
    with threadpool_limits(1, user_api="openmp"):
        parts = [_find_centers(rows[class_of == k], int(count), rng, max_iter) for k, count in enumerate(counts)]
    centers = np.concatenate(parts)
    return normalize_rows(centers) if normalize else centers


class KMeansAtoms(AtomSampler):
    """Take the centers of k-means, class by class, as atoms.

    Parameters
    ----------
    n_atoms : float, int or mapping, default 0.25
        A share of each class, a number a class, or a number for each class; see :class:`SelectAtoms`.
    normalize : bool, default True
        Scale samples to unit length first, and centers afterward.
    random_state : int, RandomState or None
        Seed of the first centers.

    Attributes
    ----------
    sample_indices_ : None
        The atoms are no samples.
    nearest_indices_ : ndarray of int (n_atoms,)
        For each atom the nearest sample of its class, as a row of X.

    See Also
    --------
    LearnAtoms : Moves such centers until the open set risk is small.

    Examples
    --------
    >>> from srosr import KMeansAtoms
    >>> X = [[1.0, 0.1], [1.0, -0.1], [-0.1, 1.0], [0.1, 1.0]]
    >>> atoms, labels = KMeansAtoms(1, random_state=0).fit_resample(X, ["a", "a", "b", "b"])
    >>> atoms.round(3).tolist(), labels.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], ['a', 'b'])
    """

    def _find_atoms(self, rows: Array, class_of: IntArray, counts: IntArray, rng: Any) -> Array:
        return find_class_centers(rows, class_of, counts, rng, normalize=self.normalize)

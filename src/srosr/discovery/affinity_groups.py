r"""From the affinity of samples to groups: HDBSCAN on spectral embeddings, of which modularity chooses one.

The rows of the leading eigenvectors of :math:`D^{-1/2} W D^{-1/2}`, scaled to unit length, are points; samples of one
group lie close together. How many eigenvectors to take depends on the number of groups, which is not known. So HDBSCAN
runs with several numbers of them, for each of several affinities, and for each result

1. groups are merged while that increases the scaled modularity (below);
2. a noise sample with most of its affinity to one group joins it.

The result of largest scaled modularity by the first affinity is returned. With the share :math:`e_g` of all affinity
that the samples of a group have, and the share :math:`s_g` that they have with each other, it is

.. math:: Q = \frac{\sum_g (s_g - e_g^2)}{\sqrt{1 - \sum_g e_g^2}},

the geometric mean of the modularity, which for few groups favors splitting them, and of the assortativity, the
modularity relative to its largest possible value, which favors few groups.

References
----------
A. Ng, M. Jordan, Y. Weiss, "On spectral clustering: analysis and an algorithm", NIPS 2001.

R. Campello, D. Moulavi, J. Sander, "Density-based clustering based on hierarchical density estimates", PAKDD 2013.

M. Newman, "Mixing patterns in networks", Phys. Rev. E 67, 2003; "Modularity and community structure in networks", PNAS
103, 2006.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg, sparse

from .._support.array_types import Array, IntArray
from .._support.threads import one_blas_thread

#: Numbers of eigenvectors that are tried.
N_EIGENVECTORS = (3, 4, 6, 8, 12, 16, 24, 32, 48)
#: Neighbors from which HDBSCAN estimates the density.
MIN_SAMPLES = 4
#: Share of the affinity of a noise sample that must go to one group for it to join.
JOINING_SHARE = 0.5
#: The label of noise, as HDBSCAN gives it.
NOISE = -1
# Up to this many samples all eigenvectors are computed by a dense solver.
_DENSE = 1500
_ROUNDS = 20


def find_groups(affinities: Sequence[sparse.csr_array], min_size: int, rng: np.random.RandomState) -> IntArray:
    """Return the group of every sample, `NOISE` for samples of none; the first affinity decides among results."""
    n = affinities[0].shape[0]
    numbers = [m for m in N_EIGENVECTORS if m <= n // 4] or [2]
    best, highest = np.full(n, NOISE), 0.0
    for affinity in affinities:
        vectors = embed(affinity, max(numbers), rng)
        for m in numbers:
            labels = _join_noise(affinity, _merge_groups(affinity, _run_hdbscan(vectors[:, :m], min_size)))
            modularity = measure_modularity(affinities[0], labels)
            if modularity > highest:
                best, highest = labels, modularity
    return best


def embed(affinity: sparse.csr_array, m: int, rng: np.random.RandomState) -> Array:
    """Return the eigenvectors of the ``m`` largest eigenvalues of the normalized affinity, the largest first."""
    from scipy.sparse.linalg import eigsh

    n = affinity.shape[0]
    factors = 1.0 / np.sqrt(_sum_rows(affinity) + 1e-9)
    normalized = sparse.diags_array(factors) @ affinity @ sparse.diags_array(factors)
    # Where eigenvalues are equal, last bits decide which vectors span their space: one thread, whatever the machine.
    with one_blas_thread():
        if n <= _DENSE:
            vectors = linalg.eigh(normalized.toarray(), subset_by_index=(n - m, n - 1))[1]
            return np.asarray(vectors[:, ::-1], dtype=np.float64)
        values, vectors = eigsh(normalized, m, which="LA", v0=rng.uniform(0.5, 1.5, n), ncv=min(n, 4 * m))
        return np.asarray(vectors[:, np.argsort(-values)], dtype=np.float64)


def _run_hdbscan(vectors: Array, min_size: int) -> IntArray:
    from sklearn.cluster import HDBSCAN

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    points = vectors / np.maximum(lengths, np.finfo(np.float64).tiny)
    engine = HDBSCAN(min_cluster_size=min_size, min_samples=min(MIN_SAMPLES, min_size), copy=True)
    return np.asarray(engine.fit(points).labels_, dtype=np.int64)


def measure_modularity(affinity: sparse.csr_array, labels: IntArray) -> float:
    """Return the scaled modularity of groups, noise left out."""
    if (labels < 0).all():
        return 0.0
    between, sums = _sum_groups(affinity, labels)
    return float(_scale_modularity(np.trace(between), sums @ sums, float(affinity.sum())))


def _scale_modularity(within: Any, squares: Any, total: float) -> Any:
    """Return the scaled modularity from the affinity within groups and the squared sums of the groups."""
    expected = squares / total**2
    return (within / total - expected) / np.sqrt(np.maximum(1.0 - expected, np.finfo(np.float64).eps))


def measure_tightness(affinity: sparse.csr_array, labels: IntArray) -> Array:
    r"""Return how much more of the affinity of each group stays within it than in a random group of its size.

    With the share :math:`s = W_{gg} / d_g` and the expected share :math:`e = d_g / w` it is :math:`(s - e) / (1 - e)`,
    at least 0: 1 for a group without any affinity to other samples.
    """
    between, sums = _sum_groups(affinity, labels)
    expected = sums / float(affinity.sum())
    share = np.diagonal(between) / np.maximum(sums, np.finfo(np.float64).tiny)
    return np.clip((share - expected) / np.maximum(1.0 - expected, np.finfo(np.float64).tiny), 0.0, 1.0)


def _merge_groups(affinity: sparse.csr_array, labels: IntArray) -> IntArray:
    """Merge the two groups whose union increases the scaled modularity most, until no union does."""
    if labels.max() < 1:
        return labels
    groups = _indicate_groups(labels)
    between, sums = sparse.coo_array(groups.T @ (affinity @ groups)), np.asarray(groups.T @ _sum_rows(affinity)).ravel()
    total, target, n = float(affinity.sum()), np.arange(len(sums)), len(sums)
    # Pairs of groups with affinity between them; the union of others never increases the modularity.
    upper = between.row < between.col
    low, high, linked = between.row[upper].astype(np.int64), between.col[upper].astype(np.int64), between.data[upper]
    within, squares = float(between.data[between.row == between.col].sum()), float(sums @ sums)
    while len(linked):
        after = _scale_modularity(within + 2.0 * linked, squares + 2.0 * sums[low] * sums[high], total)
        if after.max() <= _scale_modularity(within, squares, total):
            break
        equal = np.flatnonzero(after == after.max())
        best = int(equal[np.argmin(low[equal] * n + high[equal])])
        i, j = int(low[best]), int(high[best])
        within, squares = within + 2.0 * linked[best], squares + 2.0 * sums[i] * sums[j]
        sums[i] += sums[j]
        target[target == j] = i
        touched = (low == i) | (high == i) | (low == j) | (high == j)
        other = np.where((low[touched] == i) | (low[touched] == j), high[touched], low[touched])
        joined = np.bincount(other, weights=linked[touched], minlength=n)
        joined[[i, j]] = 0.0
        others = np.flatnonzero(joined)
        low = np.concatenate([low[~touched], np.minimum(others, i)])
        high = np.concatenate([high[~touched], np.maximum(others, i)])
        linked = np.concatenate([linked[~touched], joined[others]])
    merged = np.unique(target, return_inverse=True)[1]
    return np.where(labels >= 0, merged[np.maximum(labels, 0)], NOISE)


def _join_noise(affinity: sparse.csr_array, labels: IntArray) -> IntArray:
    """Let noise samples join the group that has most of their affinity, and then others through them."""
    labels = labels.copy()
    sums = np.maximum(_sum_rows(affinity), np.finfo(np.float64).tiny)
    for _ in range(_ROUNDS if (labels >= 0).any() else 0):
        noise = np.flatnonzero(labels < 0)
        if not len(noise):
            break
        toward = sparse.csr_array(affinity[noise] @ _indicate_groups(labels))
        joins = toward.max(axis=1).toarray().ravel() > JOINING_SHARE * sums[noise]
        if not joins.any():
            break
        labels[noise[joins]] = np.asarray(toward[joins].argmax(axis=1)).ravel()
    return labels


def _sum_groups(affinity: sparse.csr_array, labels: IntArray) -> tuple[Array, Array]:
    """Return the affinity between groups, and the sum of the affinities of each group to all samples."""
    groups = _indicate_groups(labels)
    return (groups.T @ (affinity @ groups)).toarray(), np.asarray(groups.T @ _sum_rows(affinity)).ravel()


def _indicate_groups(labels: IntArray) -> sparse.csr_array:
    """Return a matrix with a one for each sample in the column of its group."""
    inside = np.flatnonzero(labels >= 0)
    shape = (len(labels), int(labels.max()) + 1)
    return sparse.csr_array((np.ones(len(inside)), (inside, labels[inside])), shape=shape)


def _sum_rows(affinity: sparse.csr_array) -> Array:
    return np.asarray(affinity.sum(axis=1), dtype=np.float64).ravel()

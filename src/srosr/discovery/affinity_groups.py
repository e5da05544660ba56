r"""The affinity of samples, and from it groups: HDBSCAN on spectral embeddings, of which modularity chooses one.

Affinity says who helps to reconstruct whom, and who is among the nearest neighbors of whom. Each sample is coded over
the others, as in sparse subspace clustering: samples of one class lie near a subspace that they span together, so a
code uses its own class. With the absolute codes :math:`C`, cut to the largest entries of each row and scaled to unit
sums, and the affinity :math:`N` of mutual nearest neighbors, scaled alike,

.. math:: W = \tfrac12 (C + C^T) + \tfrac{w}{2} (N + N^T).

There are two of them: one in which the codes dominate and one in which more neighbors do, for classes that are compact
rather than spread over a subspace. Everything is computed from inner products in the space of a kernel, as codes of a
model are.

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
E. Elhamifar, R. Vidal, "Sparse subspace clustering: algorithm, theory, and applications", IEEE TPAMI 35, 2013.

L. Zelnik-Manor, P. Perona, "Self-tuning spectral clustering", NIPS 2004.

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
from ..coding.encode import sparse_encode
from ..coding.problems import Lasso
from ..dictionary.dictionary import Dictionary, split_range

# All constants were chosen on digits, USPS, Letter, COIL-20, Yale B, ORL, Caltech-101 and UIUC attributes, with seeds
# that no reported table uses.
#: Weight of the Lasso relative to the squared length of a sample: that of the classifier's default problem.
PENALTY = 0.02
#: Parts of the samples; each part is coded over the others, so that no sample is its own atom.
N_PARTS = 10
#: Largest number of atoms of a part; of more samples a part is coded over a random choice.
MOST_ATOMS = 4096
#: Largest entries of a code that count.
N_ENTRIES = 4
#: Nearest neighbors of a sample, and the weight of their affinity beside that of the codes, in the two affinities.
NEIGHBORS = ((5, 0.125), (10, 4.0))
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
# Similarities held at once, in bytes.
_HELD_BYTES = 64 * 2**20


def compute_affinities(
    dictionary: Dictionary, rng: np.random.RandomState, *, n_jobs: int | None = None, device: Any = "cpu"
) -> list[sparse.csr_array]:
    """Return the symmetric affinities of the atoms of a dictionary, each (n_atoms, n_atoms) with a zero diagonal.

    The codes dominate the first, the neighbors the second. The atoms must be different and not zero.
    """
    codes = symmetrize(keep_largest(code_over_others(dictionary, rng, n_jobs=n_jobs, device=device), N_ENTRIES))
    counts = [min(k, dictionary.n_atoms - 1) for k, _ in NEIGHBORS]
    with one_blas_thread():
        places, distances = find_neighbors(dictionary, max(counts))
    return [
        codes + weight * symmetrize(weigh_neighbors(places[:, :k], distances[:, :k]))
        for k, (_, weight) in zip(counts, NEIGHBORS, strict=True)
    ]


def code_over_others(
    dictionary: Dictionary, rng: np.random.RandomState, *, n_jobs: int | None = None, device: Any = "cpu"
) -> sparse.csr_array:
    """Return the absolute codes of the atoms over the atoms of other parts, (n_atoms, n_atoms)."""
    n = dictionary.n_atoms
    n_parts = min(N_PARTS, n)
    part = rng.permutation(n) % n_parts
    problem = Lasso(PENALTY * float(np.median(dictionary.squared_norms)))
    rows = np.asarray(dictionary.rows)
    found = []
    for k in range(n_parts):
        own, others = np.flatnonzero(part == k), np.flatnonzero(part != k)
        if len(others) > MOST_ATOMS:
            others = np.sort(rng.permutation(others)[:MOST_ATOMS])
        # The rows are scaled already, and scaling them again changes nothing.
        codes = sparse_encode(rows[own], dictionary.subset(others), problem, n_jobs=n_jobs, device=device).codes.tocoo()
        found.append((own[codes.row], others[codes.col], np.abs(codes.data)))
    own, others, values = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return sparse.csr_array((values, (own, others)), shape=(n, n))


def find_neighbors(dictionary: Dictionary, k: int) -> tuple[IntArray, Array]:
    """Return the ``k`` nearest other atoms of each atom and their squared distances, (n_atoms, k), nearest first."""
    n, squares = dictionary.n_atoms, dictionary.squared_norms
    places, distances = np.empty((n, k), np.int64), np.empty((n, k))
    for block in split_range(0, n, max(1, _HELD_BYTES // (8 * n))):
        squared = squares[block, None] + squares - 2.0 * dictionary.block(block, slice(None))
        squared[np.arange(len(squared)), np.arange(n)[block]] = np.inf
        nearest = np.argpartition(squared, k - 1, axis=1)[:, :k]
        found = np.take_along_axis(squared, nearest, axis=1)
        order = np.argsort(found, axis=1, kind="stable")
        places[block] = np.take_along_axis(nearest, order, axis=1)
        distances[block] = np.maximum(np.take_along_axis(found, order, axis=1), 0.0)
    return places, distances


def weigh_neighbors(places: IntArray, distances: Array) -> sparse.csr_array:
    r"""Return the affinity of mutual nearest neighbors, :math:`\exp(-d_{ij}^2 / (\sigma_i \sigma_j))`.

    Takes the neighbors and squared distances of :func:`find_neighbors`; :math:`\sigma_i` is the largest distance of an
    atom to one of its neighbors. Pairs of which only one is a neighbor of the other have affinity zero.
    """
    n, k = places.shape
    scale = np.sqrt(distances[:, -1])
    scales = np.maximum(scale[:, None] * scale[places], np.finfo(np.float64).tiny)
    values = np.exp(-distances / scales).ravel()
    pairs = sparse.csr_array((values, (np.repeat(np.arange(n), k), places.ravel())), shape=(n, n))
    return sparse.csr_array(pairs.minimum(pairs.T))


def keep_largest(values: sparse.csr_array, most: int) -> sparse.csr_array:
    """Return the ``most`` largest entries of every row."""
    rows = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
    order = np.lexsort((-values.data, rows))
    kept = order[_count_from_start(values.indptr) < most]
    return sparse.csr_array((values.data[kept], (rows[kept], values.indices[kept])), shape=values.shape)


def symmetrize(values: sparse.csr_array) -> sparse.csr_array:
    """Return the mean of a non-negative matrix, its rows scaled to sum to one, and its transpose; zero rows stay."""
    sums = np.asarray(values.sum(axis=1)).ravel()
    scaled = sparse.diags_array(1.0 / np.where(sums > 0, sums, 1.0)) @ values
    return sparse.csr_array(0.5 * (scaled + scaled.T))


def _count_from_start(indptr: IntArray) -> IntArray:
    """Return the place of each entry within its row."""
    counts = np.diff(indptr)
    return np.arange(indptr[-1]) - np.repeat(indptr[:-1], counts)


def measure_centrality(
    dictionary: Dictionary, members: IntArray, rng: np.random.RandomState, most: int = 2048
) -> Array:
    r"""Return the negative squared distance of atoms to the mean of their group, up to a constant.

    In the space of the kernel it is :math:`2 \operatorname{mean}_j k(x_i, x_j) - k(x_i, x_i)`; for a large group the
    mean is over a random choice of ``most`` members.
    """
    some = members if len(members) <= most else np.sort(rng.permutation(members)[:most])
    sums = np.concatenate([
        dictionary.block(members[part], some).sum(axis=1) for part in split_range(0, len(members), most)
    ])  # fmt: skip
    return 2.0 * sums / len(some) - dictionary.squared_norms[members]


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

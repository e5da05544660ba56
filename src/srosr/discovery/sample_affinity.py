r"""The affinity of samples: who helps to reconstruct whom, and who is among the nearest neighbors of whom.

Each sample is coded over the others, as in sparse subspace clustering: samples of one class lie near a subspace that
they span together, so a code uses its own class. With the absolute codes :math:`C`, cut to the largest entries of each
row and scaled to unit sums, and the affinity :math:`N` of mutual nearest neighbors, scaled alike,

.. math:: W = \tfrac12 (C + C^T) + \tfrac{w}{2} (N + N^T).

There are two of them: one in which the codes dominate and one in which more neighbors do, for classes that are compact
rather than spread over a subspace. Everything is computed from inner products in the space of a kernel, as codes of a
model are.

References
----------
E. Elhamifar, R. Vidal, "Sparse subspace clustering: algorithm, theory, and applications", IEEE TPAMI 35, 2013.

L. Zelnik-Manor, P. Perona, "Self-tuning spectral clustering", NIPS 2004.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

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

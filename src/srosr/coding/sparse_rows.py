"""Sparse rows: the codes and dual points of a chunk of samples inside the coder."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._support.array_types import Array, IntArray

# Share of entries that are not zero from which on products with dense rows are faster.
_DENSE = 0.1


class SparseRows(NamedTuple):
    """The arrays of a CSR matrix, without SciPy's checks at every step."""

    indptr: IntArray
    indices: IntArray
    data: Array
    shape: tuple[int, ...]

    @property
    def counts(self) -> IntArray:
        """The number of entries of each row."""
        return self.indptr[1:] - self.indptr[:-1]

    @property
    def is_dense(self) -> bool:
        """Whether products with dense rows are faster."""
        return len(self.data) > _DENSE * self.shape[0] * self.shape[1]

    def csr(self) -> sparse.csr_array:
        """Return the rows as a SciPy array."""
        return sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    def toarray(self) -> Array:
        """Return the rows as a dense array."""
        out = np.zeros(self.shape)
        out[np.repeat(np.arange(self.shape[0]), self.counts), self.indices] = self.data
        return out

    def take(self, rows: IntArray) -> SparseRows:
        """Return some of the rows."""
        counts = self.counts[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        entries = np.repeat(self.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        return SparseRows(indptr, self.indices[entries], self.data[entries], (len(rows), self.shape[1]))


def to_sparse_rows(dense: Array) -> SparseRows:
    """Return dense rows as sparse ones."""
    n_rows, n = dense.shape
    flat = np.flatnonzero(dense)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(dense, axis=1))])
    return SparseRows(indptr, flat % max(n, 1), dense.ravel()[flat], (n_rows, n))


def place_rows(shape: tuple[int, ...], *parts: tuple[IntArray, SparseRows]) -> SparseRows:
    """Return rows of a shape that consist of parts, each with the rows it goes to; other rows are empty."""
    if len(parts) == 1 and len(parts[0][0]) == shape[0] and (np.diff(parts[0][0]) > 0).all():
        return parts[0][1]
    counts = np.zeros(shape[0], np.int64)
    for rows, part in parts:
        counts[rows] = part.counts
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.empty(indptr[-1], np.int64)
    data = np.empty(indptr[-1])
    for rows, part in parts:
        to = np.repeat(indptr[rows] - part.indptr[:-1], part.counts) + np.arange(part.indptr[-1])
        indices[to] = part.indices
        data[to] = part.data
    return SparseRows(indptr, indices, data, shape)


def stack_rows(parts: list[SparseRows]) -> SparseRows:
    """Return the rows of all parts, one below the other."""
    counts = np.concatenate([part.counts for part in parts])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices, data = np.concatenate([p.indices for p in parts]), np.concatenate([p.data for p in parts])
    return SparseRows(indptr, indices, data, (len(counts), parts[0].shape[1]))

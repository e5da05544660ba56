"""Products with the Gram matrix, with or without the matrix.

Certificates and large dictionaries need :math:`Gx` for many codes x, and small blocks of G; neither needs all of it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy import sparse

from .._support.array_types import Array, IntArray
from .._support.compiled import loop
from ..dictionary.dictionary import Dictionary, split_range, widen
from .sparse_rows import SparseRows

# Bytes one block of Gram columns may take.
_BLOCK_BYTES = 128 * 2**20
# Atoms that are multiplied at a time.
_TILE = 2048


class Products(Protocol):
    """The interface of a Gram matrix."""

    lengths: Array
    """Lengths of the atoms, 1 for zero atoms."""
    largest_square: float
    """The largest squared length of an atom."""

    def times(self, codes: SparseRows) -> Array:
        """Return ``codes @ G`` for codes (n, N)."""
        ...

    def block(self, rows: IntArray, columns: IntArray) -> Array:
        """Return ``G[rows][:, columns]``."""
        ...


def _lengths(squares: Array) -> Array:
    return np.sqrt(np.where(squares > 0, squares, 1.0))


@loop(fastmath={"contract", "nsz"})
def _add_products(indptr, indices, data, gram, out):
    """Add the product of CSR codes and the Gram matrix to ``out``, without holding Python's lock as SciPy does."""
    n = gram.shape[1]
    for r in range(out.shape[0]):
        i = indptr[r]
        while i + 2 <= indptr[r + 1]:
            a, b = data[i], data[i + 1]
            p, q = indices[i], indices[i + 1]
            for j in range(n):
                out[r, j] += a * gram[p, j] + b * gram[q, j]
            i += 2
        if i < indptr[r + 1]:
            a = data[i]
            p = indices[i]
            for j in range(n):
                out[r, j] += a * gram[p, j]


class StoredGram:
    """A Gram matrix in memory."""

    def __init__(self, gram: Array) -> None:
        self.gram = gram
        self.lengths = _lengths(np.diagonal(gram))
        self.largest_square = float(np.diagonal(gram).max())

    def times(self, codes: SparseRows) -> Array:
        """Return ``codes @ G``."""
        if codes.is_dense:
            return codes.toarray() @ self.gram
        out = np.zeros(codes.shape)
        _add_products(codes.indptr, codes.indices, codes.data, self.gram, out)
        return out

    def block(self, rows: IntArray, columns: IntArray) -> Array:
        """Return ``G[rows][:, columns]``."""
        return self.gram[np.ix_(rows, columns)]


class OnDemandGram:
    """A Gram matrix whose columns are computed when they are needed and not kept."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        squares = dictionary.squared_norms
        self.lengths = _lengths(squares)
        self.largest_square = float(squares.max())

    def times(self, codes: SparseRows) -> Array:
        """Return ``codes @ G``."""
        atoms = self.dictionary.linear_atoms
        columns = sparse.csc_array(codes.csr())
        used = np.flatnonzero(np.diff(columns.indptr))
        out = np.zeros(codes.shape)
        if atoms is not None:
            images = codes.csr() @ atoms if len(used) == len(atoms) else columns[:, used] @ widen(atoms[used])
            for tile in split_range(0, len(atoms), _TILE):
                np.matmul(images, widen(atoms[tile]).T, out=out[:, tile])
            return out
        size = max(1, _BLOCK_BYTES // (8 * self.dictionary.n_atoms))
        for start in range(0, len(used), size):
            part = used[start : start + size]
            out += columns[:, part] @ self.dictionary.columns(part).T
        return out

    def block(self, rows: IntArray, columns: IntArray) -> Array:
        """Return ``G[rows][:, columns]``."""
        return self.dictionary.block(rows, columns)

"""Orthogonal matching pursuit over Gram quantities."""

from __future__ import annotations

import numpy as np

from ..._support.array_types import Array, IntArray
from ..._support.compiled import entry_point
from ..batch import Batch
from ..problems import OMP
from ..products import Products
from ..sparse_rows import SparseRows, to_sparse_rows
from .active_set import correlate
from .block_inverse import append, make_inverse, multiply
from .solver import Solution, Solver

# Correlation, relative to the lengths of sample and atom, below which nothing is left to explain.
_NOTHING_LEFT = 1e-10
_DEPENDENT = 1e-10


@entry_point()
def pursue_batch(gram, corr, squared_norms, n_nonzero, stop):
    """Return the codes of every row of ``corr`` in CSR form, and the number of atoms chosen."""
    n_samples, n = corr.shape
    most = min(n_nonzero, n)
    indptr = np.zeros(n_samples + 1, np.int64)
    indices = np.empty(n_samples * most, np.int64)
    data = np.empty(n_samples * most)
    chosen = np.zeros(n_samples, np.int64)
    atoms = np.empty(most, np.int64)
    g, u, x, c = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    left = np.empty(n)
    barred = np.zeros(n, np.bool_)
    used = 0
    for b in range(n_samples):
        if stop[0] != 0:
            break
        barred[:] = False
        inverse, counts = make_inverse(most)
        left[:] = corr[b]
        k = 0
        while k < most:
            best, who = 0.0, -1
            for j in range(n):
                if not barred[j] and gram[j, j] > 0.0:
                    t = abs(left[j]) / np.sqrt(gram[j, j])
                    if t > best:
                        best, who = t, j
            if who < 0 or best <= _NOTHING_LEFT * np.sqrt(squared_norms[b]):
                break
            barred[who] = True
            for i in range(k):
                g[i] = gram[who, atoms[i]]
            multiply(inverse, counts, k, g, u)
            schur = gram[who, who]
            for i in range(k):
                schur -= g[i] * u[i]
            if schur <= _DEPENDENT * gram[who, who]:
                continue
            append(inverse, counts, k, u, schur)
            atoms[k] = who
            k += 1
            for i in range(k):
                c[i] = corr[b, atoms[i]]
            multiply(inverse, counts, k, c, x)
            correlate(gram, corr[b], atoms, x, k, left)
            for i in range(k):
                c[i] = left[atoms[i]]
            multiply(inverse, counts, k, c, u)
            for i in range(k):
                x[i] += u[i]
        order = np.argsort(atoms[:k])
        for i in range(k):
            indices[used] = atoms[order[i]]
            data[used] = x[order[i]]
            used += 1
        indptr[b + 1] = used
        chosen[b] = k
    return indptr, indices[:used].copy(), data[:used].copy(), chosen


def pursue_on_demand(
    products: Products, cross: Array, squared_norms: Array, n_nonzero: int, stop: np.ndarray
) -> SparseRows:
    """Return codes over a dictionary too large for a Gram matrix: all samples choose their next atom together."""
    codes = np.zeros(cross.shape)
    chosen: list[IntArray] = [np.empty(0, np.int64) for _ in cross]
    open_ = np.ones(len(cross), dtype=bool)
    left = cross / products.lengths
    barred = np.zeros(cross.shape, dtype=bool)
    most = min(n_nonzero, cross.shape[1])
    while not stop[0]:
        score = np.where(barred, 0.0, np.abs(left))
        best = score.argmax(axis=1)
        open_ &= score.max(axis=1) > _NOTHING_LEFT * np.sqrt(squared_norms)
        open_ &= [len(support) < most for support in chosen]
        if not open_.any():
            break
        for i in np.flatnonzero(open_):
            barred[i, best[i]] = True
            support = np.append(chosen[i], best[i])
            inner = products.block(support, support)
            u = np.linalg.solve(inner[:-1, :-1], inner[:-1, -1])
            if inner[-1, -1] - inner[:-1, -1] @ u <= _DEPENDENT * inner[-1, -1]:
                continue
            chosen[i] = support
            codes[i, support] = np.linalg.solve(inner, cross[i, support])
        left = (cross - products.times(to_sparse_rows(codes))) / products.lengths
    return to_sparse_rows(codes)


class Pursuit(Solver):
    """Orthogonal matching pursuit with the whole Gram matrix."""

    @classmethod
    def supports(cls, batch: Batch) -> bool:
        """Return whether the problem is OMP and the Gram matrix is there."""
        return isinstance(batch.problem, OMP) and batch.gram is not None

    @classmethod
    def cost(cls, batch: Batch) -> float:
        """Count, for each atom chosen, the correlations of all atoms."""
        assert isinstance(batch.problem, OMP)
        return batch.n_samples * batch.n_atoms * batch.problem.n_nonzero**2

    def solve(self, cross: Array, squared_norms: Array) -> Solution:
        """Pursue a chunk of samples one after the other."""
        batch, problem = self.batch, self.batch.problem
        assert isinstance(problem, OMP)
        indptr, indices, data, chosen = pursue_batch(batch.gram, cross, squared_norms, problem.n_nonzero, batch.stop)
        return Solution(SparseRows(indptr, indices, data, cross.shape), chosen, np.zeros(len(cross), dtype=bool))


class OnDemandPursuit(Pursuit):
    """Orthogonal matching pursuit without a Gram matrix."""

    @classmethod
    def supports(cls, batch: Batch) -> bool:
        """Return whether the problem is OMP."""
        return isinstance(batch.problem, OMP)

    @classmethod
    def cost(cls, batch: Batch) -> float:
        """Count the products with features instead of Gram entries."""
        return super().cost(batch) + batch.n_samples * batch.n_atoms * batch.dictionary.n_features

    def solve(self, cross: Array, squared_norms: Array) -> Solution:
        """Pursue a chunk of samples together."""
        batch, problem = self.batch, self.batch.problem
        assert isinstance(problem, OMP)
        codes = pursue_on_demand(batch.products, cross, squared_norms, problem.n_nonzero, batch.stop)
        return Solution(codes, codes.counts, np.zeros(len(cross), dtype=bool))

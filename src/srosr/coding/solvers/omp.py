"""Orthogonal matching pursuit over Gram quantities."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..._support.array_types import Array, IntArray
from ..products import Products
from ..sparse_rows import Rows, rows_of
from .active_set import correlations
from .block_inverse import append, new_inverse, times

# Correlation, relative to the lengths of sample and atom, below which nothing is left to explain.
_NOTHING_LEFT = 1e-10
_DEPENDENT = 1e-10


@njit(cache=True, nogil=True, error_model="numpy")
def pursue_batch(gram, corr, squared_norms, n_nonzero, stop):
    """Codes of every row of ``corr`` in CSR form, and the number of atoms chosen."""
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
        inverse, counts = new_inverse(most)
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
            times(inverse, counts, k, g, u)
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
            times(inverse, counts, k, c, x)
            correlations(gram, corr[b], atoms, x, k, left)
            for i in range(k):
                c[i] = left[atoms[i]]
            times(inverse, counts, k, c, u)
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


def pursue_on_demand(products: Products, cross: Array, squared_norms: Array, n_nonzero: int, stop: np.ndarray) -> Rows:
    """The same for dictionaries too large for a Gram matrix: all samples choose their next atom together."""
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
        left = (cross - products.times(rows_of(codes))) / products.lengths
    return rows_of(codes)

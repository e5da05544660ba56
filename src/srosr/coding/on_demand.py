"""Large dictionaries: the same homotopy on the few atoms that matter, without an N x N Gram matrix.

A sample is coded over a small set of atoms whose Gram block is computed for it; then the correlations of *all* atoms
with the residual are computed, for a whole batch of samples as matrix products, and atoms that violate the optimality
conditions join the set. When none does, the code is optimal for the whole dictionary.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._types import Array, IntArray
from . import homotopy
from .problems import BPDN, Problem
from .products import Products
from .safe import solve_safely
from .spectrum import Spectrum

# Atoms a sample starts with, and at most gets at a time.
_FIRST = 96
_MORE = 128
_ROUNDS = 200


def walk_on_demand(
    products: Products,
    cross: Array,
    squared_norms: Array,
    problem: Problem,
    max_steps: int,
    stop: np.ndarray,
) -> tuple[sparse.csr_array, IntArray, IntArray]:
    """Codes of a batch for Lasso or BPDN, with steps and endings as in :mod:`.homotopy`."""
    n_samples, n = cross.shape
    is_bpdn = isinstance(problem, BPDN)
    goal = problem.epsilon if isinstance(problem, BPDN) else problem.alpha  # type: ignore[attr-defined]
    steps = np.zeros(n_samples, np.int64)
    endings = np.full(n_samples, homotopy.STOPPED, np.int64)
    count = min(_FIRST, n)
    sets = [np.sort(np.argpartition(np.abs(c), n - count)[n - count :]) for c in cross]
    grams = [products.block(atoms, atoms) for atoms in sets]
    supports: list[IntArray] = [np.empty(0, np.int64)] * n_samples
    values: list[Array] = [np.empty(0)] * n_samples
    left = np.arange(n_samples)
    for _ in range(_ROUNDS):
        if len(left) == 0 or stop[0] != 0:
            break
        for i in left:
            local, x, _, done, endings[i] = homotopy.walk(
                grams[i],
                float(np.diagonal(grams[i]).max()),
                cross[i, sets[i]],
                squared_norms[i],
                is_bpdn,
                goal,
                max_steps,
                stop,
                homotopy.new_desk(len(sets[i])),
            )
            if endings[i] == homotopy.LOST:
                full = solve_safely(Spectrum(grams[i]), cross[i, sets[i]], float(squared_norms[i]), problem)[0]
                local = np.flatnonzero(full)
                x = full[local]
                endings[i] = homotopy.REACHED
            steps[i] += done
            supports[i], values[i] = sets[i][local], x
        residual_corr = cross[left] - products.times(_csr(left, supports, values, n))
        remaining = []
        for row, i in enumerate(left):
            size = np.abs(residual_corr[row])
            level = size[sets[i]].max() if is_bpdn else goal
            slack = 1e-9 * level + 4e-15 * (np.abs(cross[i]).max() + np.abs(values[i]).sum())
            size[sets[i]] = 0.0
            late = np.flatnonzero(size > level + slack)
            if len(late) == 0 or endings[i] in (homotopy.OUT_OF_STEPS, homotopy.STOPPED):
                continue
            if len(late) > _MORE:
                late = late[np.argpartition(size[late], len(late) - _MORE)[-_MORE:]]
            grams[i] = _extended(products, grams[i], sets[i], late)
            sets[i] = np.concatenate([sets[i], late])
            remaining.append(i)
        left = np.array(remaining, dtype=np.int64)
    else:
        endings[left] = homotopy.LOST
    return _csr(np.arange(n_samples), supports, values, n), steps, endings


def _extended(products: Products, gram: Array, atoms: IntArray, new: IntArray) -> Array:
    cross = products.block(atoms, new)
    return np.block([[gram, cross], [cross.T, products.block(new, new)]])


def _csr(rows: IntArray, supports: list[IntArray], values: list[Array], n: int) -> sparse.csr_array:
    counts = [len(supports[i]) for i in rows]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.concatenate([supports[i] for i in rows]) if len(rows) else np.empty(0, np.int64)
    data = np.concatenate([values[i] for i in rows]) if len(rows) else np.empty(0)
    out = sparse.csr_array((data, indices, indptr), shape=(len(rows), n))
    out.sort_indices()
    return out

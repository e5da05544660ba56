"""The working set of a homotopy: the inactive atoms that are looked at in every step, and room to work on them."""

from __future__ import annotations

import numpy as np
from numba import njit

from .block_inverse import new_inverse

# Working set: half as many atoms as are active, within these bounds.
_EXTRA_MIN, _EXTRA_MAX = 32, 128
# Active atoms there is room for at first.
_ATOMS = 64


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def largest(values):
    """The largest size of a finite vector's entries."""
    top = 0.0
    for j in range(values.shape[0]):
        top = max(top, abs(values[j]))
    return top


@njit(cache=True, nogil=True, error_model="numpy")
def promising(residual_corr, top, atoms, k, histogram):
    """A bound on |correlation| that about the wanted number of inactive atoms exceed, and how many do."""
    bins = histogram.shape[0] - 1
    scale = bins / top if top > 0.0 else 0.0
    if not np.isfinite(scale):
        scale = 0.0
    for b in range(bins + 1):
        histogram[b] = 0
    for j in range(residual_corr.shape[0]):
        histogram[int(abs(residual_corr[j]) * scale)] += 1
    for i in range(k):
        histogram[int(abs(residual_corr[atoms[i]]) * scale)] -= 1
    extra = min(max(k // 2, _EXTRA_MIN), _EXTRA_MAX)
    count = histogram[bins]
    b = bins - 1
    while b >= 0 and (count == 0 or count + histogram[b] <= extra):
        count += histogram[b]
        b -= 1
    bound = (b + 1) / scale if scale > 0.0 else 0.0
    return bound * (1.0 - 1e-12), min(count, 2 * extra)


@njit(cache=True, nogil=True, error_model="numpy")
def working_set(gram, residual_corr, active, atoms, k, bound, count, too_high, work, work_corr, late, masked, block):
    """Collect inactive atoms above the bound and their Gram block; returns how many, and the level of the late ones."""
    w = 0
    late_level = 0.0
    # Late ones first: where many atoms tie, duplicates say, the others may fill the set.
    for wanted in (1.0, 0.0):
        for j in range(residual_corr.shape[0]):
            t = abs(residual_corr[j])
            if t >= bound and not active[j] and w < count and (t > too_high) == (wanted > 0.0):
                work[w] = j
                work_corr[w] = residual_corr[j]
                masked[w] = False
                late[w] = wanted
                if wanted > 0.0:
                    late_level = max(late_level, t)
                w += 1
    for i in range(k):
        atom = atoms[i]
        for j in range(w):
            block[i, j] = gram[atom, work[j]]
    return w, late_level


@njit(cache=True, nogil=True, error_model="numpy")
def resized(array, size, used):
    out = np.empty(size, array.dtype)
    out[:used] = array[:used]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def resized_rows(array, rows, columns, used_rows, used_columns):
    out = np.empty((rows, columns), array.dtype)
    for i in range(used_rows):
        out[i, :used_columns] = array[i, :used_columns]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def new_desk(n):
    """Room for walks over n atoms: Gram of active atoms (rows) against the working set (columns) and, its lower half,
    among themselves, the inverse of the latter, all correlations, which atoms are active, and a histogram. A walk that
    needs more makes its own."""
    return (
        np.empty((_ATOMS, 2 * _EXTRA_MIN + _EXTRA_MAX)),
        np.empty((_ATOMS, _ATOMS)),
        new_inverse(_ATOMS)[0],
        np.empty(n),
        np.empty(n, np.bool_),
        np.empty(129, np.int64),
    )

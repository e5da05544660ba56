"""The working set of a homotopy: the inactive atoms, its candidates, that are looked at in every step."""

from __future__ import annotations

import numpy as np

from ..._support.compiled import leaf
from .workspace import CORR, LATE, MASKED

# Half as many candidates as there are active atoms, within these bounds.
_EXTRA_MIN, _EXTRA_MAX = 32, 128


@leaf(fastmath=True)
def find_largest(values):
    """Return the largest absolute value of a finite vector."""
    top = 0.0
    for j in range(values.shape[0]):
        if abs(values[j]) > top:
            top = abs(values[j])
    return top


@leaf()
def find_bound(residual_corr, top, atoms, k, histogram):
    """Return a bound on |correlation| that about the wanted number of inactive atoms exceed, and how many do."""
    bins = histogram.shape[0] - 1
    scale = bins / top if top > 0.0 else 0.0
    if not scale < np.inf:
        scale = 0.0
    for b in range(bins + 1):
        histogram[b] = 0
    for j in range(residual_corr.shape[0]):
        histogram[int(abs(residual_corr[j]) * scale)] += 1
    for i in range(k):
        histogram[int(abs(residual_corr[atoms[i]]) * scale)] -= 1
    extra = k // 2
    if extra < _EXTRA_MIN:
        extra = _EXTRA_MIN
    elif extra > _EXTRA_MAX:
        extra = _EXTRA_MAX
    count = histogram[bins]
    b = bins - 1
    while b >= 0 and (count == 0 or count + histogram[b] <= extra):
        count += histogram[b]
        b -= 1
    bound = (b + 1) / scale if scale > 0.0 else 0.0
    return bound * (1.0 - 1e-12), count if count < 2 * extra else 2 * extra


@leaf()
def choose_candidates(gram, bound, count, too_high, path, ws):
    """Fill the working set with inactive atoms above the bound, and their Gram block.

    Those above ``too_high`` are late and come first: where many atoms tie, such as duplicates, others may fill the set.
    """
    residual_corr, work, k = ws.residual_corr, ws.work, path.k
    w = 0
    late_level = 0.0
    for wanted in (1.0, 0.0):
        for j in range(residual_corr.shape[0]):
            t = abs(residual_corr[j])
            if t >= bound and not ws.active[j] and w < count and (t > too_high) == (wanted > 0.0):
                ws.candidates[w] = j
                work[CORR, w] = residual_corr[j]
                work[MASKED, w] = 0.0
                work[LATE, w] = wanted
                if wanted > 0.0 and t > late_level:
                    late_level = t
                w += 1
    for i in range(k):
        atom = ws.atoms[i]
        for j in range(w):
            ws.block[i, j] = gram[atom, ws.candidates[j]]
    path.w = w
    path.late_level = late_level

"""What a homotopy path needs rarely. It asks for it, so that this is compiled only where it is needed."""

from __future__ import annotations

import numpy as np

from ..._support.compiled import entry_point, loop
from .active_set import correlate, settle
from .block_inverse import append, make_inverse, multiply
from .working_set import find_largest
from .workspace import DIRECTION, SIGN, TARGET, E, G, U, X


@entry_point()
def invert_afresh(gram, corr, path, ws):
    """Compute the inverse of G_AA anew and settle x with it.

    Returns the inverse, its counts and the largest error left: the old ones where there is no numerical inverse.
    """
    k, atoms, v = path.k, ws.atoms, ws.vectors
    inverse, counts = make_inverse(atoms.shape[0])
    u = np.empty(k)
    g = np.empty(k)
    for m in range(k):
        for i in range(m):
            g[i] = gram[atoms[m], atoms[i]]
        multiply(inverse, counts, m, g, u)
        schur = gram[atoms[m], atoms[m]]
        for i in range(m):
            schur -= g[i] * u[i]
        if schur <= 1e-14 * gram[atoms[m], atoms[m]]:
            return ws.inverse, ws.counts, path.error
        append(inverse, counts, m, u, schur)
    error = settle(
        gram, ws.own, corr, v[TARGET], atoms, inverse, counts, k, 0.0, v[X], ws.residual_corr, v[G], v[U], v[E]
    )
    return inverse, counts, error


@entry_point()
def settle_low(gram, corr, path, ws):
    """Settle x where the level drowns in the rounding of c - Gx: least squares and slope apart.

    c - G(fit - level slope) is the sum of c - G fit, zero but for atoms that can still lessen the residual, and of
    level times G slope, which is exact relative to the level. Returns the rounding of the sum.
    """
    k, level, v, out = path.k, path.level, ws.vectors, ws.residual_corr
    x, sign, target = v[X], v[SIGN], v[TARGET]
    slope = np.empty(k)
    tilt = np.empty_like(out)
    for i in range(k):
        target[i] = 0.0
    settle(gram, ws.own, corr, target, ws.atoms, ws.inverse, ws.counts, k, 0.0, x, out, v[G], v[U], v[E])
    for i in range(k):
        target[i] = -sign[i]
    nothing = np.zeros_like(out)
    settle(gram, ws.own, nothing, target, ws.atoms, ws.inverse, ws.counts, k, 0.0, slope, tilt, v[G], v[U], v[E])
    for j in range(out.shape[0]):
        if abs(out[j]) <= path.noise:
            out[j] = 0.0
        out[j] -= level * tilt[j]
    size = 1.0
    for i in range(k):
        x[i] -= level * slope[i]
        size += path.longest * abs(slope[i])
    return level * (1e-7 + 2e-15 * size)


@loop()
def is_last_piece(gram, corr, path, ws):
    """Return whether the rest of the path, to level zero, is one piece.

    No coefficient may change its sign on it, and at its end no atom may have anything in common with the residual.
    """
    k, level = path.k, path.level
    x, sign, direction, u = ws.vectors[X], ws.vectors[SIGN], ws.vectors[DIRECTION], ws.vectors[U]
    multiply(ws.inverse, ws.counts, k, sign, direction)
    size = 0.0
    for i in range(k):
        size = max(size, abs(x[i]))
    for i in range(k):
        if not sign[i] * (x[i] + level * direction[i]) >= -1e-12 * size:
            return False
    for i in range(k):
        u[i] = x[i] + level * direction[i]
    correlate(gram, corr, ws.atoms, u, k, ws.residual_corr)
    return find_largest(ws.residual_corr) <= 1e-3 * level + 10.0 * path.noise

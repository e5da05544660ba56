"""Linear algebra over the active atoms of a homotopy, from Gram entries and the inverse of G_AA."""

from __future__ import annotations

import numpy as np
from numba import njit

from .block_inverse import append, combine_half, new_inverse, times

# An atom whose squared distance to the span of the active ones is below this share of its squared length counts
# as dependent on them.
_DEPENDENT = 1e-10
# Below this share the distance is computed again, more carefully.
_CLOSE = 1e-4
# Rounding of a Gram entry, with a margin, relative to the longest atom.
_ROUNDING = 32 * 2.2e-16


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def correlations(gram, corr, atoms, x, k, out):
    """out = corr - sum over i < k of x[i] * gram[atoms[i]]: what the residual has in common with every atom.

    Rows are indexed, here and below, not sliced: a slice of the shared Gram matrix counts a reference to it, and
    threads would wait for each other at that counter.
    """
    n = corr.shape[0]
    for j in range(n):
        out[j] = corr[j]
    i = 0
    while i + 4 <= k:
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        ra, rb, rc, rd = atoms[i], atoms[i + 1], atoms[i + 2], atoms[i + 3]
        for j in range(n):
            out[j] -= a * gram[ra, j] + b * gram[rb, j] + c * gram[rc, j] + d * gram[rd, j]
        i += 4
    while i < k:
        a = x[i]
        ra = atoms[i]
        for j in range(n):
            out[j] -= a * gram[ra, j]
        i += 1


@njit(cache=True, nogil=True, error_model="numpy")
def gain(own, k, g, squared_length):
    """Atom k joins the active ones: its row of G_AA, of which the lower half is kept."""
    for i in range(k):
        own[k, i] = g[i]
    own[k, k] = squared_length


@njit(cache=True, nogil=True, error_model="numpy")
def lose(own, k, leaving):
    """An atom leaves, and the last of k takes its place."""
    last = k - 1
    for j in range(leaving):
        own[leaving, j] = own[last, j]
    for j in range(leaving + 1, last):
        own[j, leaving] = own[last, j]
    own[leaving, leaving] = own[last, last]


@njit(cache=True, nogil=True, error_model="numpy")
def _miss(own, k, x, rhs, out):
    """out = rhs - G_AA x."""
    combine_half(own, x, k, out)
    for i in range(k):
        out[i] = rhs[i] - out[i]


@njit(cache=True, nogil=True, error_model="numpy")
def independence(own, longest, inverse, counts, k, squared_length, g, u):
    """Squared distance of an atom to the span of the active ones, 0 where rounding hides it; u its coordinates.

    ``g`` are its similarities to them.

    Short distances are computed anew to second order, :math:`g_{jj} - 2g^Tu + u^TGu` with refined u. What the rounding
    of the Gram entries leaves uncertain, :math:`(1 + \\|u\\|_1)^2` times that of an entry, counts as nothing.
    """
    times(inverse, counts, k, g, u)
    schur = squared_length
    for i in range(k):
        schur -= g[i] * u[i]
    if schur > _CLOSE * squared_length:
        return schur
    e = np.empty(k)
    step = np.empty(k)
    for attempt in range(2):
        if attempt == 1:
            times(inverse, counts, k, e, step)
            for i in range(k):
                u[i] += step[i]
        _miss(own, k, u, g, e)
    size = 1.0
    schur = squared_length
    for i in range(k):
        schur -= u[i] * (g[i] + e[i])
        size += abs(u[i])
    if schur <= max(_DEPENDENT * squared_length, _ROUNDING * size * size * longest):
        return 0.0
    return schur


@njit(cache=True, nogil=True, error_model="numpy")
def inverse_from_scratch(gram, atoms, k, capacity):
    """The inverse of G_AA, and whether it exists numerically."""
    inverse, counts = new_inverse(capacity)
    u = np.empty(k)
    g = np.empty(k)
    for m in range(k):
        for i in range(m):
            g[i] = gram[atoms[m], atoms[i]]
        times(inverse, counts, m, g, u)
        schur = gram[atoms[m], atoms[m]]
        for i in range(m):
            schur -= g[i] * u[i]
        if schur <= 1e-14 * gram[atoms[m], atoms[m]]:
            return inverse, counts, False
        append(inverse, counts, m, u, schur)
    return inverse, counts, True


@njit(cache=True, nogil=True, error_model="numpy")
def settle(gram, own, full, target, atoms, inverse, counts, k, enough, x, out, g, u):
    """Find x such that out = full - Gx equals target on the active atoms, refined until the error is small enough.

    Returns the largest error left. The refinement looks at active atoms alone, all others are computed once.
    """
    e = np.empty(k)
    for i in range(k):
        g[i] = full[atoms[i]] - target[i]
    times(inverse, counts, k, g, x)
    error = 0.0
    for attempt in range(3):
        _miss(own, k, x, g, e)
        error = 0.0
        for i in range(k):
            error = max(error, abs(e[i]))
        if error <= enough or attempt == 2:
            break
        times(inverse, counts, k, e, u)
        for i in range(k):
            x[i] += u[i]
    correlations(gram, full, atoms, x, k, out)
    return error


@njit(cache=True, nogil=True, error_model="numpy")
def settle_low(gram, own, corr, sign, atoms, inverse, counts, k, longest, level, noise, x, out):
    """The same where the level drowns in the rounding of c - Gx: least squares and slope apart.

    c - G(fit - level slope) is the sum of c - G fit, zero but for atoms that can still lessen the residual, and of
    level times G slope, which is exact relative to the level. Returns the rounding of the sum.
    """
    g = np.empty(k)
    u = np.empty(k)
    slope = np.empty(k)
    tilt = np.empty_like(out)
    settle(gram, own, corr, np.zeros(k), atoms, inverse, counts, k, 0.0, x, out, g, u)
    settle(gram, own, np.zeros_like(out), -sign[:k], atoms, inverse, counts, k, 0.0, slope, tilt, g, u)
    for j in range(out.shape[0]):
        if abs(out[j]) <= noise:
            out[j] = 0.0
        out[j] -= level * tilt[j]
    size = 1.0
    for i in range(k):
        x[i] -= level * slope[i]
        size += longest * abs(slope[i])
    return level * (1e-7 + 2e-15 * size)


@njit(cache=True, nogil=True, error_model="numpy")
def _refined(own, inverse, counts, k, rhs, out):
    """out = G_AA^-1 rhs with two rounds of iterative refinement."""
    e = np.empty(k)
    step = np.empty(k)
    times(inverse, counts, k, rhs, out)
    for _ in range(2):
        _miss(own, k, out, rhs, e)
        times(inverse, counts, k, e, step)
        for i in range(k):
            out[i] += step[i]


@njit(cache=True, nogil=True, error_model="numpy")
def finish(own, corr, squared_norm, unreachable, epsilon2, level, atoms, sign, inverse, counts, k, x, dual):
    """BPDN's last piece in closed form, at epsilon to rounding; ``dual`` is the slope of the piece."""
    c = np.empty(k)
    fit = np.empty(k)
    for i in range(k):
        c[i] = corr[atoms[i]]
    _refined(own, inverse, counts, k, c, fit)
    _refined(own, inverse, counts, k, sign, dual)
    if unreachable:
        largest = 0.0
        for i in range(k):
            largest = max(largest, abs(fit[i]))
        for i in range(k):  # what ends in zero carries rounding
            x[i] = fit[i] if abs(fit[i]) > 1e-14 * largest else 0.0
        return
    # residual^2(level) = residual^2(0) + level^2 * sign.dual
    floor2 = squared_norm
    curve = 0.0
    for i in range(k):
        floor2 -= c[i] * fit[i]
        curve += sign[i] * dual[i]
    if curve > 0.0 and epsilon2 > floor2:
        exact = np.sqrt((epsilon2 - floor2) / curve)
        if abs(exact - level) <= 1e-3 * level:
            for i in range(k):
                x[i] = fit[i] - exact * dual[i]

"""Linear algebra over the active atoms of a homotopy, from Gram entries and the inverse of G_AA."""

from __future__ import annotations

from ..._support.compiled import leaf, part
from .block_inverse import combine_half, multiply

# An atom whose squared distance to the span of the active ones is below this share of its squared length counts
# as dependent on them.
_DEPENDENT = 1e-10
# Below this share the distance is computed again, more carefully.
_CLOSE = 1e-4
# Rounding of a Gram entry, with a margin, relative to the longest atom.
_ROUNDING = 32 * 2.2e-16


@leaf(fastmath={"contract", "nsz"})
def correlate(gram, corr, atoms, x, k, out):
    """Compute out = corr - sum over i < k of x[i] * gram[atoms[i]], the correlations of the residual with all atoms.

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


@leaf()
def gain(own, k, g, squared_length):
    """Add the row of atom k to G_AA, of which the lower half is kept."""
    for i in range(k):
        own[k, i] = g[i]
    own[k, k] = squared_length


@leaf()
def lose(own, k, leaving):
    """Remove an atom from G_AA; the last of k takes its place."""
    last = k - 1
    for j in range(leaving):
        own[leaving, j] = own[last, j]
    for j in range(leaving + 1, last):
        own[j, leaving] = own[last, j]
    own[leaving, leaving] = own[last, last]


@leaf()
def solve(own, inverse, counts, k, g, begun, refinements, enough, x, e, step):
    """Compute x = G_AA^-1 g and refine it until the error e = g - G_AA x is small enough; returns the largest one.

    With a negative ``enough`` it is refined so many times whatever the error, and the last one is not computed.

    Where the solution has ``begun`` (1, else 0) x holds the product with the inverse already. Without refinements (-1)
    no error is computed. These are floats: with integers Numba would compile this anew for each. ``step`` is scratch.
    """
    if begun == 0.0:
        for i in range(k):
            x[i] = 0.0
            e[i] = g[i]
    improve = begun == 0.0
    rounds = 0.0
    error = 0.0
    while True:
        if improve:
            multiply(inverse, counts, k, e, step)
            for i in range(k):
                x[i] += step[i]
        if rounds > refinements or (rounds == refinements and enough < 0.0):
            return error
        combine_half(own, x, k, e)
        error = 0.0
        for i in range(k):
            e[i] = g[i] - e[i]
            if abs(e[i]) > error:
                error = abs(e[i])
        if error <= enough or rounds == refinements:
            return error
        improve = True
        rounds += 1.0


@leaf()
def compute_distance(g, u, k, squared_length):
    """Return the squared distance of an atom to the span of the active ones, from its coordinates u."""
    schur = squared_length
    for i in range(k):
        schur -= g[i] * u[i]
    return schur


@leaf()
def refine_distance(g, u, e, k, squared_length, longest):
    """Return the squared distance to second order, 0 where rounding hides it."""
    size = 1.0
    schur = squared_length
    for i in range(k):
        schur -= u[i] * (g[i] + e[i])
        size += abs(u[i])
    if schur <= _DEPENDENT * squared_length or schur <= _ROUNDING * size * size * longest:
        return 0.0
    return schur


@part()
def measure_independence(own, longest, inverse, counts, k, squared_length, g, u, e, step):
    """Return the squared distance of an atom to the span of the active ones, 0 where rounding hides it.

    ``g`` holds its Gram entries with them, ``u`` receives its coordinates; ``e`` and ``step`` are scratch.

    Short distances are computed anew to second order, :math:`g_{jj} - 2g^Tu + u^TGu` with refined u. What the rounding
    of the Gram entries leaves uncertain, :math:`(1 + \\|u\\|_1)^2` times that of an entry, counts as nothing.
    """
    solve(own, inverse, counts, k, g, 0.0, -1.0, 0.0, u, e, step)
    schur = compute_distance(g, u, k, squared_length)
    if schur <= _CLOSE * squared_length:
        solve(own, inverse, counts, k, g, 1.0, 1.0, 0.0, u, e, step)
        schur = refine_distance(g, u, e, k, squared_length, longest)
    return schur


@part()
def settle(gram, own, full, target, atoms, inverse, counts, k, enough, x, out, g, u, e):
    """Find x such that out = full - Gx equals target on the active atoms, refined until the error is small enough.

    Returns the largest error left. The refinement looks at active atoms alone, all others are computed once. ``g``,
    ``u`` and ``e`` are scratch.
    """
    for i in range(k):
        g[i] = full[atoms[i]] - target[i]
    error = solve(own, inverse, counts, k, g, 0.0, 2.0, enough, x, e, u)
    correlate(gram, full, atoms, x, k, out)
    return error

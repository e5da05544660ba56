r"""The inverse of a Gram block that gains and loses one atom at a time.

Gaining atom j with :math:`u = G_{AA}^{-1}g` and squared distance :math:`\delta = g_{jj} - g^Tu` to the span of A adds
:math:`ww^T/\delta`, :math:`w = (-u, 1)`; losing atom i subtracts :math:`hh^T/h_i`, h its column. Writing each of
these into the matrix would read and write all of it at every step. So they wait, as vectors, and are written
together: a product with the inverse costs one reading of the matrix, and the matrix is written once in `WAIT` steps.

An inverse is a pair of arrays (compiled code passes them faster than an object): ``table``, whose first rows are the
matrix and whose last `WAIT` rows are the waiting vectors with their weights in the last column, and ``counts``, the
size of the matrix and the number of vectors that wait.
"""

from __future__ import annotations

import numpy as np

from ..._support.compiled import inner, leaf, part

# Updates that wait, and the size below which none does: a small matrix is in the nearest cache anyway.
WAIT = 16
_SMALL = 48
# The size from which a product reads one half of the matrix: the whole no longer stays in the nearer caches.
_LARGE = 192


@leaf(fastmath={"contract", "nsz"})
def combine(rows, coef, k, n, out):
    """Compute out[:n] = sum over i < k of coef[i] * rows[i, :n], four rows at a time."""
    for j in range(n):
        out[j] = 0.0
    i = 0
    while i + 4 <= k:
        a, b, c, d = coef[i], coef[i + 1], coef[i + 2], coef[i + 3]
        ra, rb, rc, rd = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for j in range(n):
            out[j] += a * ra[j] + b * rb[j] + c * rc[j] + d * rd[j]
        i += 4
    while i < k:
        a = coef[i]
        ra = rows[i]
        for j in range(n):
            out[j] += a * ra[j]
        i += 1


@inner()
def make_inverse(capacity):
    """Make the inverse of no atom, with room for some: table and counts."""
    return np.empty((capacity + WAIT, capacity + 8)), np.zeros(2, np.int64)


@inner()
def enlarge_inverse(table, counts, capacity):
    """Return the same table with room for more atoms."""
    old = table.shape[0] - WAIT
    out = np.empty((capacity + WAIT, capacity + 8))
    for i in range(counts[0]):
        for j in range(counts[0]):
            out[i, j] = table[i, j]
    for p in range(counts[1]):
        for j in range(old):
            out[capacity + p, j] = table[old + p, j]
        out[capacity + p, -1] = table[old + p, -1]
    return out


@leaf(fastmath={"contract", "nsz", "reassoc"})
def combine_half(rows, coef, n, out):
    """Compute out[:n] = rows[:n, :n] @ coef[:n] of a symmetric matrix, of which the lower half is read."""
    for j in range(n):
        out[j] = 0.0
    i = 0
    while i + 4 <= n:
        a, b, c, d = coef[i], coef[i + 1], coef[i + 2], coef[i + 3]
        ra, rb, rc, rd = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        ta, tb, tc, td = 0.0, 0.0, 0.0, 0.0
        for j in range(i):
            t = coef[j]
            ta += ra[j] * t
            tb += rb[j] * t
            tc += rc[j] * t
            td += rd[j] * t
            out[j] += a * ra[j] + b * rb[j] + c * rc[j] + d * rd[j]
        out[i] += ta
        out[i + 1] += tb
        out[i + 2] += tc
        out[i + 3] += td
        for p in range(i, i + 4):
            for q in range(i, i + 4):
                out[p] += (rows[p, q] if q < p else rows[q, p]) * coef[q]
        i += 4
    for p in range(i, n):
        t = 0.0
        for j in range(i):
            t += rows[p, j] * coef[j]
            out[j] += rows[p, j] * coef[p]
        for q in range(i, n):
            t += (rows[p, q] if q < p else rows[q, p]) * coef[q]
        out[p] += t


@part()
def multiply(table, counts, k, g, out):
    """Compute out[:k] = inverse @ g[:k]."""
    n = counts[0]
    if n < _LARGE:
        combine(table, g, n, n, out)
    else:
        combine_half(table, g, n, out)
    _add_waiting(table, n, counts[1], k, g, out)


@leaf(fastmath={"contract", "nsz", "reassoc"})
def _add_waiting(table, n, count, k, g, out):
    """Add the product of the waiting updates with g to that of the matrix, of size n."""
    for i in range(n, k):
        out[i] = 0.0
    first = table.shape[0] - WAIT
    for p in range(count):
        w = table[first + p]
        t = 0.0
        for i in range(k):
            t += w[i] * g[i]
        t *= w[-1]
        for i in range(k):
            out[i] += t * w[i]


@leaf(fastmath={"contract", "nsz"})
def write_if_due(table, counts, k):
    """Write the waiting updates into the matrix, now of size k, if it is small or no more can wait."""
    n, count = counts[0], counts[1]
    if count == 0 or (count < WAIT and k >= _SMALL):
        return
    first = table.shape[0] - WAIT
    for i in range(k):
        row = table[i]
        for j in range(n if i < n else 0, k):
            row[j] = 0.0
        p = first
        while p + 4 <= first + count:
            wa, wb, wc, wd = table[p], table[p + 1], table[p + 2], table[p + 3]
            a, b, c, d = wa[-1] * wa[i], wb[-1] * wb[i], wc[-1] * wc[i], wd[-1] * wd[i]
            for j in range(k):
                row[j] += a * wa[j] + b * wb[j] + c * wc[j] + d * wd[j]
            p += 4
        while p < first + count:
            wa = table[p]
            a = wa[-1] * wa[i]
            for j in range(k):
                row[j] += a * wa[j]
            p += 1
    counts[0] = k
    counts[1] = 0


@part()
def append(table, counts, k, u, schur):
    """Gain an atom: u = inverse @ g its coordinates, schur its squared distance; the size becomes k + 1."""
    begin_append(table, counts, k, u, schur)
    write_if_due(table, counts, k + 1)


@part()
def remove(table, counts, k, i, column):
    """Lose atom i of k; the last takes its place. ``column`` returns its column over its own entry, for the others."""
    begin_remove(table, counts, k, i, column)
    write_if_due(table, counts, k - 1)


@leaf()
def begin_append(table, counts, k, u, schur):
    """Gain an atom, as in `append`; the update may have to be written."""
    if k < _SMALL and counts[1] == 0:
        r = 1.0 / schur
        for i in range(k):
            f = u[i] * r
            row = table[i]
            for j in range(k):
                row[j] += f * u[j]
            row[k] = -f
            table[k, i] = -f
        table[k, k] = r
        counts[0] = k + 1
        return
    first = table.shape[0] - WAIT
    p = counts[1]
    for q in range(p):
        table[first + q, k] = 0.0
    w = table[first + p]
    for i in range(k):
        w[i] = -u[i]
    w[k] = 1.0
    w[-1] = 1.0 / schur
    counts[1] = p + 1


@leaf()
def begin_remove(table, counts, k, i, column):
    """Lose an atom, as in `remove`; the update may have to be written."""
    first = table.shape[0] - WAIT
    n, count = counts[0], counts[1]
    last = k - 1
    for j in range(k):
        column[j] = table[i, j] if i < n and j < n else 0.0
    for p in range(first, first + count):
        w = table[p]
        t = w[-1] * w[i]
        for j in range(k):
            column[j] += t * w[j]
    pivot = column[i]
    w = table[first + count]
    for j in range(k):
        w[j] = column[j]
    w[-1] = -1.0 / pivot
    # The last atom moves to place i, in the matrix and in all that waits.
    if i < n:
        if last < n:
            corner = table[last, last]
            for j in range(n):
                table[i, j] = table[last, j]
                table[j, i] = table[j, last]
            table[i, i] = corner
        else:
            for j in range(n):
                table[i, j] = 0.0
                table[j, i] = 0.0
    for p in range(first, first + count + 1):
        table[p, i] = table[p, last]
    column[i] = column[last]
    for j in range(last):
        column[j] /= pivot
    counts[0] = n if n < last else last
    counts[1] = count + 1

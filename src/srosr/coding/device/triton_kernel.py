r"""The block active set method as a Triton kernel: a program takes one sample after another.

The algorithm is that of :mod:`.block_active_set`, which says what is computed and why; this file says how. Active atoms
sit in K slots. The inverse H is a K×K table of the program in memory, of which the cache holds what is used; a slot
whose atom has left is a row and a column of zeros, so nothing is ever moved. Coefficients, levels and, at the end, the
correlations of all atoms are in double precision. The table and the rows of the Gram matrix are in single precision
until the active set is found (*coarse*): since each round starts from the true correlations it corrects what H has
wrong. Samples that lose their way like this are solved in double precision throughout (``FINE``).
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _apply(table, vector, scratch, last, K: tl.constexpr, ROWS: tl.constexpr):
    """Return the product of the inverse, which is symmetric and has so many rows, and a vector."""
    ks = tl.arange(0, K)
    tl.debug_barrier()
    tl.store(scratch + ks, vector)
    tl.debug_barrier()
    total = tl.zeros([K], vector.dtype)
    for first in range(0, last, ROWS):
        rows = first + tl.arange(0, ROWS)
        here = (rows[:, None] < last) & (ks[None, :] < last)
        tile = tl.load(table + rows[:, None] * K + ks[None, :], mask=here, other=0.0)
        total += tl.sum(tile * tl.load(scratch + rows)[:, None], 0)
    return total


@triton.jit
def _update(table, vector, factor, gone, scratch, last, new_last, K: tl.constexpr, ROWS: tl.constexpr):
    """Add a multiple of a vector times itself to the inverse, which may grow, and clear the row and column ``gone``."""
    ks = tl.arange(0, K)
    tl.debug_barrier()
    tl.store(scratch + ks, vector)
    tl.debug_barrier()
    for first in range(0, new_last, ROWS):
        rows = first + tl.arange(0, ROWS)
        at = table + rows[:, None] * K + ks[None, :]
        tile = tl.load(at, mask=(rows[:, None] < last) & (ks[None, :] < last), other=0.0)
        tile += tl.load(scratch + rows)[:, None] * (vector * factor)[None, :]
        tile = tl.where((rows[:, None] == gone) | (ks[None, :] == gone), 0.0, tile)
        tl.store(at, tile, mask=(rows[:, None] < new_last) & (ks[None, :] < new_last))
    tl.debug_barrier()


@triton.jit
def _drop(table, slot, scratch, last, K: tl.constexpr, ROWS: tl.constexpr):
    """Remove the row and the column of a slot from the inverse."""
    ks = tl.arange(0, K)
    h = tl.load(table + slot * K + ks, mask=ks < last, other=0.0)
    pivot = tl.load(table + slot * K + slot)
    _update(table, h, -1.0 / pivot, slot, scratch, last, last, K, ROWS)


@triton.jit
def _correlate(
    gram, atoms, weights, cross, residual_corr, n, ld, last, BLOCK: tl.constexpr, ROWS: tl.constexpr, TYPE: tl.constexpr
):
    """Write the correlations of all atoms with the residual, from rows of the Gram matrix in a precision."""
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], TYPE)
        for first in range(0, last, ROWS):
            rows = first + tl.arange(0, ROWS)
            which = tl.load(atoms + rows).to(tl.int64)
            weight = tl.load(weights + rows).to(TYPE)
            tile = tl.load(gram + which[:, None] * ld + at[None, :], mask=(at < ld)[None, :], other=0.0)
            total += tl.sum(tile * weight[:, None], 0)
        r = tl.load(cross + at, mask=at < n, other=0.0) - total.to(tl.float64)
        tl.store(residual_corr + at, r, mask=at < n)


@triton.jit
def _find_largest(values, n, BLOCK: tl.constexpr):
    """Return the largest absolute value of a vector in memory, and where it is."""
    lanes = tl.arange(0, BLOCK)
    best = tl.zeros([BLOCK], tl.float64)
    who = lanes
    for start in range(0, n, BLOCK):
        at = start + lanes
        size = tl.abs(tl.load(values + at, mask=at < n, other=0.0))
        who = tl.where(size > best, at, who)
        best = tl.maximum(best, size)
    top, lane = tl.max(best, 0, return_indices=True)
    return top, tl.sum(tl.where(lanes == lane, who, 0), 0)


# Numbers of samples and atoms are not compiled for, nor where samples begin: each would make more kernels.
@triton.jit(do_not_specialize=["cross", "ld_cross", "squares", "n_samples", "n", "max_passes"])
def follow_samples(
    gram, fine_gram, gram_step, ld,  # (N, ld) with zeros behind n, or one a sample, so many numbers apart
    cross, ld_cross, squares,  # (n, ld_cross), (n,)
    atoms_out, x_out, info_out, level_out,  # (n, K) int32, (n, K), (n, 5) int64, (n,)
    residual_corr, table, scratch,  # (programs, n), (programs, K, K), (programs, K)
    settings,  # goal, ratio, coarse_slack, fine_slack, dependent, fit: as arguments they would lose digits
    n_samples, n, max_passes,
    AT_RESIDUAL: tl.constexpr, FINE: tl.constexpr,
    BLOCK: tl.constexpr, K: tl.constexpr, ADDED: tl.constexpr, ROWS: tl.constexpr, GRAM_ROWS: tl.constexpr,
):  # fmt: skip
    """Solve the Lasso, or BPDN if ``AT_RESIDUAL``, for the samples of a program."""
    program = tl.program_id(0).to(tl.int64)
    for sample in range(tl.program_id(0), n_samples, tl.num_programs(0)):
        b = program * 0 + sample  # in 64 bits
        _follow_sample(
            gram + b * gram_step, fine_gram + b * gram_step, ld, cross + b * ld_cross, squares + b,
            atoms_out + b * K, x_out + b * K, info_out + b * 5, level_out + b,
            residual_corr + program * n, table + program * K * K, scratch + program * K,
            settings, n, max_passes, AT_RESIDUAL, FINE, BLOCK, K, ADDED, ROWS, GRAM_ROWS,
        )  # fmt: skip


@triton.jit
def _join_atoms(
    gram, ld, cross, residual_corr, n, table, scratch, best, j, used, atoms, x, s, r_active, c_active, last, level,
    slack, dependent, status, steps, entries,
    BLOCK: tl.constexpr, K: tl.constexpr, ADDED: tl.constexpr, ROWS: tl.constexpr, TYPE: tl.constexpr,
):  # fmt: skip
    """Let the atoms join that violate optimality most, of which the first is given; return the new state."""
    ks = tl.arange(0, K)
    zero = level * 0.0  # a scalar in double precision
    turns = 0
    fresh = 0
    while turns < ADDED:
        if best <= level * (1.0 + slack):
            turns = ADDED
        else:
            r_j = tl.load(residual_corr + j)
            tl.debug_barrier()
            tl.store(residual_corr + j, zero)  # an atom has one turn
            c_j = tl.load(cross + j)
            sign = tl.where(r_j > 0.0, zero + 1.0, zero - 1.0)
            row = gram + j.to(tl.int64) * ld
            g = tl.load(row + atoms, mask=used, other=0.0).to(TYPE)
            own = tl.load(row + j).to(TYPE)
            u = _apply(table, g, scratch, last, K, ROWS)
            entries += last.to(tl.int64) * last
            schur = own - tl.sum(g * u, 0)
            slot = tl.min(tl.where(used, K, ks), 0)
            start = zero
            turns += 1
            joins = 1
            if schur <= dependent * own:
                # It depends on the active atoms, and joins only if it makes the code shorter.
                joins = 0
                if tl.abs(tl.sum(u.to(tl.float64) * s, 0)) > 1.0 + slack:
                    turns = ADDED  # this round, or the next one, is for this atom alone
                    if fresh == 0:
                        # x moves along the null vector until an atom leaves, whose place it takes.
                        d = u.to(tl.float64) * (-sign)
                        # Only one without which the new atom is independent: what u has at others is rounding.
                        diagonal = tl.load(table + ks * (K + 1), mask=used, other=0.0)
                        meets = used & (d * s < 0.0) & (u * u > dependent * own * diagonal)
                        t = tl.where(meets, -x / tl.where(meets, d, 1.0), float("inf"))
                        shortest, p = tl.min(t, 0, return_indices=True)
                        if shortest < 1e300:
                            slot = p
                            x = tl.where(used, x + shortest * d, 0.0)
                            _drop(table, p, scratch, last, K, ROWS)
                            used = used & (ks != p)
                            g = tl.where(used, g, 0.0)
                            u = _apply(table, g, scratch, last, K, ROWS)
                            entries += 3 * last.to(tl.int64) * last
                            schur = own - tl.sum(g * u, 0)
                            start = sign * shortest
                            steps += 1
                            joins = (schur > dependent * own).to(tl.int32)
                        if joins == 0:
                            status = 2
            if joins == 1:
                if slot >= K:
                    status = 4
                    turns = ADDED
                else:
                    at = ks == slot
                    more = tl.maximum(last, slot + 1)
                    _update(table, tl.where(at, -1.0, u), 1.0 / schur, -1, scratch, last, more, K, ROWS)
                    last = more
                    entries += 2 * last.to(tl.int64) * last
                    atoms = tl.where(at, j.to(tl.int32), atoms)
                    used = used | at
                    x = tl.where(at, start, x)
                    s = tl.where(at, sign, s)
                    r_active = tl.where(at, r_j, r_active)
                    c_active = tl.where(at, c_j, c_active)
                    steps += 1
                    fresh = 1
            if turns < ADDED:
                tl.debug_barrier()
                best, j = _find_largest(residual_corr, n, BLOCK)
    return used, atoms, x, s, r_active, c_active, last, status, steps, entries


@triton.jit
def _move(
    table, scratch, used, x, s, r_active, last, level, steps, entries,
    K: tl.constexpr, ROWS: tl.constexpr, TYPE: tl.constexpr,
):  # fmt: skip
    """Move x to the optimum on the active set; atoms whose sign would change leave on the way."""
    ks = tl.arange(0, K)
    rho = tl.where(used, r_active - level * s, 0.0).to(TYPE)
    moving = 1
    while moving == 1:
        d = _apply(table, rho, scratch, last, K, ROWS).to(tl.float64)
        entries += last.to(tl.int64) * last
        bad = used & (s * (x + d) < 0.0)
        t = tl.where(bad, x / tl.where(bad, -d, 1.0), 2.0)
        shortest, p = tl.min(t, 0, return_indices=True)
        x = tl.where(used, x + tl.minimum(shortest, 1.0) * d, 0.0)
        if shortest > 1.0:
            moving = 0
        else:
            _drop(table, p, scratch, last, K, ROWS)
            entries += 2 * last.to(tl.int64) * last
            used = used & (ks != p)
            x = tl.where(used, x, 0.0)
            rho = tl.where(used, rho * (1.0 - shortest).to(TYPE), 0.0)
            steps += 1
    return used, x, steps, entries


@triton.jit
def _end_level(
    table, scratch, x, s, c_active, r_active, square, goal, ratio, level, lowest, fine, last,
    AT_RESIDUAL: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr, TYPE: tl.constexpr,
):  # fmt: skip
    """Return the level after one that is solved, whether the sample is, and whether finer arithmetic is due."""
    status = fine * 0
    refine = fine * 0
    if AT_RESIDUAL:
        left = square - tl.sum(x * (c_active + r_active), 0) - goal * goal
        if (fine == 1) & (tl.abs(left) <= 2e-10 * tl.maximum(goal * goal, 1e-6 * square)):
            status = 1
        else:
            signs = s.to(TYPE)
            rate = tl.sum(signs * _apply(table, signs, scratch, last, K, ROWS), 0).to(tl.float64)
            change = tl.where(rate > 0.0, left / tl.where(rate > 0.0, rate, 1.0), level * level)
            wanted = tl.sqrt(tl.maximum(level * level - change, 0.0))
            refine = ((wanted >= level * ratio) & (tl.abs(left) <= 0.1 * goal * goal)).to(tl.int32)
            level = tl.maximum(wanted, level * ratio)
            if level <= lowest:
                status = 3
    else:
        if level > lowest:
            level = tl.maximum(lowest, level * ratio)
        else:
            refine = 1
            status = fine
    return level, status, refine


@triton.jit
def _follow_sample(
    gram, fine_gram, ld, cross, squares, atoms_out, x_out, info_out, level_out, residual_corr, table, scratch,
    settings, n, max_passes,
    AT_RESIDUAL: tl.constexpr, FINE: tl.constexpr,
    BLOCK: tl.constexpr, K: tl.constexpr, ADDED: tl.constexpr, ROWS: tl.constexpr, GRAM_ROWS: tl.constexpr,
):  # fmt: skip
    """Solve the problem of one sample."""
    TYPE: tl.constexpr = tl.float64 if FINE else tl.float32
    goal = tl.load(settings)
    ratio = tl.load(settings + 1)
    slack = tl.load(settings + 2)
    fine_slack = tl.load(settings + 3)
    dependent = tl.load(settings + 4).to(TYPE)
    final_fit = tl.load(settings + 5)
    ks = tl.arange(0, K)
    tl.debug_barrier()
    _correlate(fine_gram, atoms_out, x_out, cross, residual_corr, n, ld, 0, BLOCK, GRAM_ROWS, tl.float64)
    tl.debug_barrier()
    square = tl.load(squares)
    used = ks < 0
    atoms = tl.zeros([K], tl.int32)
    x = tl.zeros([K], tl.float64)
    s = tl.zeros([K], tl.float64)
    r_active = tl.zeros([K], tl.float64)
    c_active = tl.zeros([K], tl.float64)
    last = tl.program_id(0) * 0  # behind the last slot in use
    top, j = _find_largest(residual_corr, n, BLOCK)
    best = top
    before = top * 1e300
    lowest = top * 0.0 + goal
    if AT_RESIDUAL:
        lowest = top * 1e-9
    level = tl.maximum(lowest, top * ratio)
    fine = last * 0
    if FINE:
        fine = last * 0 + 1
        slack = fine_slack
    fit = slack  # how nearly x has to solve the equations of the active set
    done = top <= goal
    if AT_RESIDUAL:
        done = square <= goal * goal
    status = done.to(tl.int32)
    passes = 0
    steps = 0
    gram_rows = last.to(tl.int64)  # that were read
    entries = last.to(tl.int64)  # of the table, that were read or written
    while status == 0:
        error = tl.max(tl.where(used, tl.abs(r_active - level * s), 0.0), 0)
        rounding = 1e-14 * top
        moves = 1
        if (best <= level * (1.0 + slack) + rounding) & (error <= fit * level + rounding):
            level, status, refine = _end_level(
                table, scratch, x, s, c_active, r_active, square, goal, ratio, level, lowest, fine, last,
                AT_RESIDUAL, K, ROWS, TYPE,
            )  # fmt: skip
            if (refine == 1) & (fine == 0):
                fine = 1
                slack = fine_slack
                fit = final_fit
                moves = 0
        else:
            missed = passes >= max_passes
            if FINE:  # a move that misses its goal: the inverse is no longer one
                missed = missed | (error > tl.maximum(0.01 * before, slack * level + rounding))
            status = missed.to(tl.int32) * 2
        if (status == 0) & (moves == 1):
            used, atoms, x, s, r_active, c_active, last, status, steps, entries = _join_atoms(
                gram, ld, cross, residual_corr, n, table, scratch, best, j, used, atoms, x, s, r_active, c_active, last,
                level, slack, dependent, status, steps, entries, BLOCK, K, ADDED, ROWS, TYPE,
            )  # fmt: skip
        before = tl.max(tl.where(used, tl.abs(r_active - level * s), 0.0), 0)
        if (status == 0) & (moves == 1):
            used, x, steps, entries = _move(
                table, scratch, used, x, s, r_active, last, level, steps, entries, K, ROWS, TYPE
            )
        if status == 0:
            s = tl.where(used, s, 0.0)
            atoms = tl.where(used, atoms, 0)
            tl.store(atoms_out + ks, atoms)
            tl.store(x_out + ks, x)
            last = tl.max(tl.where(used, ks + 1, 0), 0)
            tl.debug_barrier()
            if FINE or fine == 1:  # decided when it is compiled: Triton 3.6 fails on branches that it finds to be dead
                _correlate(fine_gram, atoms_out, x_out, cross, residual_corr, n, ld, last, BLOCK, GRAM_ROWS, tl.float64)
            else:
                _correlate(gram, atoms_out, x_out, cross, residual_corr, n, ld, last, BLOCK, GRAM_ROWS, TYPE)
            tl.debug_barrier()
            r_active = tl.load(residual_corr + atoms, mask=used, other=0.0)
            tl.debug_barrier()
            tl.store(residual_corr + atoms, tl.zeros([K], tl.float64), mask=used)  # active atoms do not join
            tl.debug_barrier()
            best, j = _find_largest(residual_corr, n, BLOCK)
            passes += 1
            gram_rows += last
    _store(atoms_out, x_out, info_out, level_out, used, atoms, x, level, status, passes, steps, gram_rows, entries, K)


@triton.jit
def _store(
    atoms_out, x_out, info_out, level_out, used, atoms, x, level, status, passes, steps, gram_rows, entries,
    K: tl.constexpr,
):  # fmt: skip
    """Write what was found for a sample."""
    ks = tl.arange(0, K)
    tl.debug_barrier()
    tl.store(atoms_out + ks, tl.where(used, atoms, -1))
    tl.store(x_out + ks, tl.where(used, x, 0.0))
    tl.store(info_out, status)
    tl.store(info_out + 1, passes)
    tl.store(info_out + 2, steps)
    tl.store(info_out + 3, gram_rows)
    tl.store(info_out + 4, entries)
    tl.store(level_out, level)

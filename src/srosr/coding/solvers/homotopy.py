r"""Homotopy: the exact path of Lasso solutions, walked over Gram quantities alone.

For one sample the coder sees ``gram`` :math:`G = Y^TY`, its correlations ``corr`` :math:`c = Y^Ty` and
:math:`\|y\|^2`. As the level :math:`\lambda` falls from :math:`\max|c|`, the minimiser of
:math:`\tfrac12\|y - Yx\|^2 + \lambda\|x\|_1` moves along straight pieces: with active atoms :math:`A` and signs
:math:`s`,

.. math:: x_A(\lambda) = G_{AA}^{-1}(c_A - \lambda s), \qquad |c_j - G_{jA}x_A| \le \lambda \ (j \notin A),

and a piece ends where an active coefficient reaches zero or another atom's correlation reaches
:math:`\pm\lambda`. ``Lasso`` stops at :math:`\lambda = \alpha`; ``BPDN`` stops where the residual is
:math:`\epsilon`, which on a piece is a quadratic equation in :math:`\lambda`; an :math:`\epsilon` out of reach
ends at :math:`\lambda \to 0`.

What makes it fast
------------------
A plain homotopy reads the Gram rows of all active atoms over all N atoms at every step and is bound by memory.
Here each step looks only at a *working set* W of promising atoms whose Gram entries are gathered into a small
block that stays in cache. From time to time (every quarter more of active atoms, and at the end) all N
correlations are computed. Atoms outside W that should have entered meanwhile, the *late* ones, are not repaired
by starting again: their own level t, first the largest late correlation, is lowered to :math:`\lambda` while
everybody else's level rests. That is a homotopy too, with the same steps, so the walk goes on exactly from
where it is. The inverse of :math:`G_{AA}` and the direction are updated, not solved for.

Degenerate atoms
----------------
An atom that depends linearly on the active ones and reaches its level either runs along with it (a duplicate
does) and is masked until an active atom leaves, or crosses it and takes the place of the active atom that
first reaches zero along the null direction. Nothing is assumed about rank.

References
----------
M. R. Osborne, B. Presnell, B. A. Turlach, "A new approach to variable selection in least squares problems",
IMA J. Numer. Anal. 20, 2000. D. L. Donoho, Y. Tsaig, "Fast solution of l1-norm minimization problems when the
solution may be sparse", IEEE Trans. Inf. Theory 54, 2008.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .active_set import correlations, finish, gain, independence, inverse_from_scratch, lose, settle, settle_low
from .block_inverse import append, combine, enlarged, remove, times
from .path_events import first_to_enter, first_to_leave, first_to_zero, keeps_signs, step_to_epsilon
from .working_set import largest, new_desk, promising, resized, resized_rows, working_set

# How a walk ended.
REACHED = 0  # the level, or the residual, asked for
UNREACHABLE = 1  # BPDN: the level is down to zero and the residual is still above epsilon
OUT_OF_STEPS = 2
LOST = 3  # numerically stuck; the safe solver takes over
STOPPED = 4  # the caller's stop flag was raised
DOUBTFUL = 5  # BPDN: the level is so low that epsilon is likely to be out of reach

# What happens at the end of a piece.
_END, _LEAVES, _ENTERS = 0, 1, 2

# Active atoms added before all correlations are looked at again: a quarter of those there, within these bounds (with
# more, too many come late, and rounding errors of the inverse have longer to grow).
_REFRESH_MIN, _REFRESH_MAX = 12, 48
# The level, relative to the first one, from which an unreachable epsilon is taken to level zero in one piece, and how
# far below it the walk goes on where there are more pieces.
_LEVEL_ZERO = 1e-8
_LEVEL_LAST = 1e-13
# Error of the active correlations, relative to their level, above which the inverse is computed afresh.
_SETTLED = 1e-9
# Times the last check may find late atoms before the walk counts as lost.
_MAX_CHECKS = 200


@njit(cache=True, nogil=True, error_model="numpy")
def walk(gram, longest, corr, squared_norm, is_bpdn, goal, doubt, max_steps, stop, desk):
    """Walk the path of one sample.

    Parameters
    ----------
    gram : ndarray (N, N)
    longest : float
        The largest squared length of an atom.
    corr : ndarray (N,)
    squared_norm : float
    is_bpdn : bool
        Whether ``goal`` is epsilon, else it is alpha.
    goal : float
    doubt : float
        BPDN: the level, relative to the first, below which the walk ends as DOUBTFUL.
    max_steps : int
    stop : uint8 ndarray (1,)
        Raised (non-zero) by the caller to end the walk early.
    desk : tuple
        Arrays to work on, from :func:`.working_set.new_desk`, for one walk after the other.

    Returns
    -------
    atoms : int64 ndarray (k,)
    x : ndarray (k,)
    dual : ndarray (k,)
        For BPDN, z_A of the dual point v = Yz in the span of the active atoms, for the certificate.
    steps : int
    ending : int
        One of REACHED, UNREACHABLE, OUT_OF_STEPS, LOST, STOPPED, DOUBTFUL.
    """
    n = corr.shape[0]
    k = 0  # active atoms: their numbers, coefficients and signs, and whether they walk on the late level
    block, own, inverse, residual_corr, active, histogram = desk
    k_cap, w_cap = block.shape
    atoms = np.empty(k_cap, np.int64)
    x = np.empty(k_cap)
    sign = np.empty(k_cap)
    is_late = np.empty(k_cap)
    drive = np.empty(k_cap)  # right-hand side of the direction: sign times the speed of the atom's level
    direction = np.empty(k_cap)
    target = np.empty(k_cap)
    u = np.empty(k_cap)
    g = np.empty(k_cap)
    counts = np.zeros(2, np.int64)  # of the inverse of G_AA
    w = 0  # the working set: inactive atoms, their correlations, and how fast those fall
    work = np.empty(w_cap, np.int64)
    work_corr = np.empty(w_cap)
    work_rate = np.empty(w_cap)
    late = np.empty(w_cap)
    masked = np.empty(w_cap, np.bool_)
    for j in range(n):
        active[j] = False
        residual_corr[j] = corr[j]

    level = 0.0
    for j in range(n):
        level = max(level, abs(corr[j]))
    first_level = level
    epsilon2 = goal * goal
    if level == 0.0 or (is_bpdn and squared_norm <= epsilon2) or (not is_bpdn and level <= goal):
        reached = not is_bpdn or squared_norm <= epsilon2
        return atoms[:0].copy(), x[:0].copy(), x[:0].copy(), 0, REACHED if reached else UNREACHABLE
    last_level = _LEVEL_ZERO * first_level if is_bpdn else goal
    # An epsilon lost in the rounding of a squared residual is as good as zero: walk to the end.
    seeks_epsilon = is_bpdn and epsilon2 > 1e-15 * squared_norm

    residual2 = squared_norm
    steps = 0
    checks = 0
    arrived = False
    ending = REACHED
    unreachable = False
    while True:
        # ---- All correlations, exact; the coefficients are brought to rounding level first.
        if stop[0] != 0:
            ending = STOPPED
            break
        noise = 2e-15 * first_level
        if k > 0:
            for i in range(k):
                target[i] = level * sign[i]
            error = settle(
                gram, own, corr, target, atoms, inverse, counts, k, 1e-12 * first_level, x, residual_corr, g, u
            )
            if not error <= max(_SETTLED * level, 1e-12 * first_level):  # or not a number
                fresh, fresh_counts, exists = inverse_from_scratch(gram, atoms, k, k_cap)
                if exists:
                    inverse, counts = fresh, fresh_counts
                    error = settle(gram, own, corr, target, atoms, inverse, counts, k, 0.0, x, residual_corr, g, u)
                if not error <= 1e-6 * first_level:
                    ending = LOST
                    break
            for i in range(k):
                noise += 2e-15 * longest * abs(x[i])
            if not np.isfinite(noise):
                ending = LOST
                break
            if noise > 1e-11 * level:
                noise = settle_low(
                    gram, own, corr, sign, atoms, inverse, counts, k, longest, level, noise, x, residual_corr
                )
            residual2 = squared_norm
            for i in range(k):
                residual2 -= x[i] * (corr[atoms[i]] + level * sign[i])
                residual_corr[atoms[i]] = level * sign[i]
        top = largest(residual_corr)
        too_high = level * (1.0 + 1e-9) + noise
        if is_bpdn and level < doubt * first_level:
            ending = DOUBTFUL
            break
        if arrived and top <= too_high:
            if not unreachable or last_level < _LEVEL_LAST * first_level:
                break
            # The way that is left to level zero must be one piece: no coefficient may change its sign on it, and at its
            # end no atom may have anything in common with the residual.
            times(inverse, counts, k, sign, direction)
            if keeps_signs(x, sign, direction, k, level):
                for i in range(k):
                    u[i] = x[i] + level * direction[i]
                correlations(gram, corr, atoms, u, k, residual_corr)
                if largest(residual_corr) <= 1e-3 * level + 10.0 * noise:
                    break
            last_level *= 0.01
            arrived = False
            continue
        elif arrived:
            checks += 1
            if checks > _MAX_CHECKS:
                ending = LOST
                break

        bound, count = promising(residual_corr, top, atoms, k, histogram)

        # ---- The working set: late atoms and the most promising others, with room for all active ones to leave.
        if count + k > w_cap:
            w_cap = 2 * (count + k)
            work = np.empty(w_cap, np.int64)
            work_corr = np.empty(w_cap)
            work_rate = np.empty(w_cap)
            late = np.empty(w_cap)
            masked = np.empty(w_cap, np.bool_)
            block = np.empty((k_cap, w_cap))
        for i in range(k):
            is_late[i] = 0.0
        w, late_level = working_set(
            gram, residual_corr, active, atoms, k, bound, count, too_high, work, work_corr, late, masked, block
        )

        # ---- Walk: first the late atoms' level down to the common one, then the common level.
        lowering_late = late_level > 0.0
        added = 0
        refresh = min(max(_REFRESH_MIN, k // 4), _REFRESH_MAX)
        look_again = False
        while not look_again:
            speed = 1.0  # of the common level, downwards
            if not lowering_late and seeks_epsilon and residual2 < epsilon2:
                speed = -1.0
            for i in range(k):
                drive[i] = sign[i] * (is_late[i] if lowering_late else speed)
            times(inverse, counts, k, drive, direction)
            while True:
                if steps >= max_steps:
                    ending = OUT_OF_STEPS
                    break
                steps += 1
                if steps % 64 == 0 and stop[0] != 0:
                    ending = STOPPED
                    break
                combine(block, direction, k, w, work_rate)

                # The first event along the piece.
                if lowering_late:
                    limit = late_level - level
                elif speed > 0.0:
                    limit = level - last_level
                else:
                    limit = np.inf
                fall = 0.0
                curve = 0.0
                at_epsilon = False
                if seeks_epsilon and not lowering_late and k > 0:
                    for i in range(k):
                        fall += level * sign[i] * direction[i]
                        curve += drive[i] * direction[i]
                    t = step_to_epsilon(residual2 - epsilon2, fall, curve, speed)
                    if t < limit:
                        limit = t
                        at_epsilon = True
                own_level = late_level if lowering_late else level
                leaves, step = first_to_leave(x, sign, direction, k, limit)
                enters, new_sign, step = first_to_enter(
                    work_corr, work_rate, late, masked, w, lowering_late, own_level, level, speed, step
                )
                event = _ENTERS if enters >= 0 else _LEAVES if leaves >= 0 else _END
                if not np.isfinite(step):
                    ending = LOST
                    break

                # Go there.
                for i in range(k):
                    x[i] += step * direction[i]
                for j in range(w):
                    work_corr[j] -= step * work_rate[j]
                if lowering_late:
                    late_level -= step
                else:
                    level -= step * speed
                    residual2 += step * (step * curve - 2.0 * fall)
                if event == _END:
                    break

                leaving = leaves if event == _LEAVES else -1
                theta = 0.0
                entering = -1
                if event == _ENTERS:
                    who = enters
                    entering = work[who]
                    for i in range(k):
                        g[i] = block[i, who]
                    schur = independence(own, longest, inverse, counts, k, gram[entering, entering], g, u)
                    entering_late = late[who]
                    own_speed = entering_late if lowering_late else speed
                    rate = work_rate[who]
                    if schur == 0.0:
                        # Exchange along the null direction: the first active atom to reach zero makes room.
                        if abs(own_speed - new_sign * rate) > 1e-6:
                            leaving = first_to_zero(x, sign, u, new_sign, k)
                            if leaving >= 0:
                                theta = max(x[leaving] / (new_sign * u[leaving]), 0.0)
                        if leaving < 0:  # it runs along, like a duplicate
                            masked[who] = True
                            continue
                        for i in range(k):
                            x[i] -= theta * new_sign * u[i]
                    # Out of the working set: the last one takes its column.
                    w -= 1
                    work[who] = work[w]
                    work_corr[who] = work_corr[w]
                    late[who] = late[w]
                    masked[who] = masked[w]
                    for i in range(k):
                        block[i, who] = block[i, w]

                if leaving >= 0:
                    left = atoms[leaving]
                    t = direction[leaving]
                    last = k - 1
                    active[left] = False
                    work[w] = left
                    work_corr[w] = sign[leaving] * (late_level if lowering_late and is_late[leaving] > 0.0 else level)
                    late[w] = is_late[leaving]
                    masked[w] = False
                    w += 1
                    remove(inverse, counts, k, leaving, g)
                    lose(own, k, leaving)
                    if leaving != last:
                        atoms[leaving] = atoms[last]
                        x[leaving] = x[last]
                        sign[leaving] = sign[last]
                        is_late[leaving] = is_late[last]
                        drive[leaving] = drive[last]
                        direction[leaving] = direction[last]
                        for j in range(w - 1):
                            block[leaving, j] = block[last, j]
                    k = last
                    for i in range(k):
                        direction[i] -= g[i] * t
                        block[i, w - 1] = gram[left, atoms[i]]
                    for j in range(w):
                        masked[j] = False
                    if event == _ENTERS:
                        for i in range(k):
                            g[i] = gram[entering, atoms[i]]
                        schur = independence(own, longest, inverse, counts, k, gram[entering, entering], g, u)
                        rate = 0.0
                        for i in range(k):
                            rate += g[i] * direction[i]
                        if schur == 0.0:
                            # Rounding hides what the exchange has freed. Do without it and look where that leads.
                            checks += 1
                            look_again = True
                            if checks > _MAX_CHECKS:
                                ending = LOST
                            break
                if event == _ENTERS:
                    if k == k_cap:
                        k_cap *= 2
                        atoms = resized(atoms, k_cap, k)
                        x = resized(x, k_cap, k)
                        sign = resized(sign, k_cap, k)
                        is_late = resized(is_late, k_cap, k)
                        drive = resized(drive, k_cap, k)
                        direction = resized(direction, k_cap, k)
                        u = resized(u, k_cap, k)
                        g = resized(g, k_cap, k)
                        target = np.empty(k_cap)
                        inverse = enlarged(inverse, counts, k_cap)
                        block = resized_rows(block, k_cap, w_cap, k, w)
                        own = resized_rows(own, k_cap, k_cap, k, k)
                    drive[k] = new_sign * own_speed
                    direction[k] = (drive[k] - rate) / schur
                    for i in range(k):
                        direction[i] -= u[i] * direction[k]
                    append(inverse, counts, k, u, schur)
                    gain(own, k, g, gram[entering, entering])
                    atoms[k] = entering
                    active[entering] = True
                    x[k] = theta * new_sign
                    sign[k] = new_sign
                    is_late[k] = entering_late
                    for j in range(w):
                        block[k, j] = gram[entering, work[j]]
                    k += 1
                    added += 1
                    if added >= refresh and not arrived and not lowering_late:
                        look_again = True
                        break
            if ending != REACHED or look_again:
                break
            if lowering_late:
                # Everybody is on the common level again; Lasso that had arrived has arrived again.
                lowering_late = False
                for i in range(k):
                    is_late[i] = 0.0
                for j in range(w):
                    late[j] = 0.0
                    masked[j] = False
                if is_bpdn:
                    residual2 = squared_norm
                    for i in range(k):
                        residual2 -= x[i] * (corr[atoms[i]] + level * sign[i])
                if arrived and (not is_bpdn or (unreachable and residual2 > epsilon2)):
                    look_again = True
            else:
                arrived = True
                unreachable = is_bpdn and not at_epsilon
                look_again = True
        if ending != REACHED:
            break

    dual = np.zeros(k)
    if ending == REACHED and is_bpdn:
        if unreachable:
            ending = UNREACHABLE
        finish(own, corr, squared_norm, unreachable, epsilon2, level, atoms, sign, inverse, counts, k, x, dual)
    return atoms[:k].copy(), x[:k].copy(), dual, steps, ending


@njit(cache=True, nogil=True, error_model="numpy")
def walk_batch(gram, corr, squared_norms, is_bpdn, goal, doubt, max_steps, stop):
    """Walk for every row of ``corr``.

    Codes and dual points come back as two CSR arrays on one pattern (indptr, indices, data, dual), with steps and
    endings.
    """
    n_samples = corr.shape[0]
    indptr = np.zeros(n_samples + 1, np.int64)
    capacity = 32 * n_samples + 64
    indices = np.empty(capacity, np.int64)
    data = np.empty(capacity)
    dual = np.empty(capacity)
    steps = np.zeros(n_samples, np.int64)
    endings = np.zeros(n_samples, np.int64)
    used = 0
    desk = new_desk(gram.shape[0])
    longest = 0.0
    for j in range(gram.shape[0]):
        longest = max(longest, gram[j, j])
    for b in range(n_samples):
        atoms, x, z, steps[b], endings[b] = walk(
            gram, longest, corr[b], squared_norms[b], is_bpdn, goal, doubt, max_steps, stop, desk
        )
        k = atoms.shape[0]
        if used + k > capacity:
            capacity = 2 * (used + k)
            indices = resized(indices, capacity, used)
            data = resized(data, capacity, used)
            dual = resized(dual, capacity, used)
        order = np.argsort(atoms)
        for i in range(k):
            indices[used] = atoms[order[i]]
            data[used] = x[order[i]]
            dual[used] = z[order[i]]
            used += 1
        indptr[b + 1] = used
    return indptr, indices[:used].copy(), data[:used].copy(), dual[:used].copy(), steps, endings

r"""The same path followed from its other end: from least squares upwards.

With linearly independent atoms the path ends, at level 0, in the least-squares code :math:`x_{LS} = Hc`,
:math:`H = G^{-1}`, which one factorization gives for a whole batch. Where epsilon is close to the least-squares
residual nearly all atoms are active: from the front hundreds of steps with hundreds of active atoms, from this
end a few steps with a few *inactive* ones. The roles of active and inactive atoms, and of G and H, are
exchanged: with :math:`\rho` the residual's correlations, :math:`x = x_{LS} - H\rho`, where
:math:`\rho_A = \lambda s` and :math:`\rho_I` is such that :math:`x_I = 0`. A step costs N times the number of
inactive atoms. On a piece the residual is :math:`\|r\|^2 = \mathrm{const} + \lambda^2\, s^T H \rho'`.
"""

from __future__ import annotations

import numpy as np

from ..._support.compiled import entry_point, inner
from .active_set import correlate
from .block_inverse import append, enlarge_inverse, make_inverse, multiply, remove
from .workspace import LOST, OUT_OF_STEPS, REACHED, STOPPED


@inner()
def _find_event(level, epsilon2, residual2, curve, x, sign, rate, slot, rho, b, inactive, m):
    """Return the step to the first event, the atom it concerns (-1: epsilon is reached), and its sign if it enters."""
    step = np.inf
    who = -1
    new_sign = 0.0
    if curve > 0.0:
        step = max(np.sqrt(level * level + max(epsilon2 - residual2, 0.0) / curve) - level, 0.0)
    for i in range(x.shape[0]):
        if slot[i] < 0:
            shrink = sign[i] * rate[i]
            t = sign[i] * x[i]
            if shrink > 0.0 and t < step * shrink:
                step = max(t, 0.0) / shrink
                who = i
    for i in range(m):
        j = inactive[i]
        closing = -b[i] - 1.0
        room = level - rho[j]
        if closing > 1e-10 and room < step * closing:
            step = max(room, 0.0) / closing
            who = j
            new_sign = 1.0
        closing = b[i] - 1.0
        room = level + rho[j]
        if closing > 1e-10 and room < step * closing:
            step = max(room, 0.0) / closing
            who = j
            new_sign = -1.0
    return step, who, new_sign


@inner()
def _refine(
    gram, inverse_gram, corr, squared_norm, epsilon2, level, curve, x, sign, rate, slot, inactive, m, sub_inverse,
    counts,
):  # fmt: skip
    """Bring active correlations to level * sign and the residual to epsilon, by two rounds of refinement."""
    n = corr.shape[0]
    active = np.empty(n, np.int64)
    code, miss, lift, zero = np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    g, u = np.empty(m), np.empty(m)
    k = 0
    for i in range(n):
        if slot[i] < 0:
            active[k] = i
            k += 1
    for _ in range(2):
        for i in range(k):
            code[i] = x[active[i]]
        correlate(gram, corr, active, code, k, miss)
        residual2 = squared_norm
        for i in range(k):
            j = active[i]
            residual2 -= x[j] * (corr[j] + miss[j])
            code[i] = -(miss[j] - level * sign[j])
        correlate(inverse_gram, zero, active, code, k, lift)  # lift = H[:, A] (miss - level sign)
        for i in range(m):
            g[i] = lift[inactive[i]]
        multiply(sub_inverse, counts, m, g, u)
        correlate(inverse_gram, lift, inactive, u, m, miss)
        nudge = (epsilon2 - residual2) / (2.0 * level * curve) if level > 0.0 else 0.0
        for i in range(k):
            j = active[i]
            x[j] += miss[j] - nudge * rate[j]
        level += nudge


@inner()
def _append_atom(inverse_gram, who, inactive, m, sub_inverse, counts, g, u):
    """Append an atom to the inverse of H_II; returns False where it depends on the others."""
    for i in range(m):
        g[i] = inverse_gram[who, inactive[i]]
    multiply(sub_inverse, counts, m, g, u)
    schur = inverse_gram[who, who]
    for i in range(m):
        schur -= g[i] * u[i]
    if schur <= 1e-12 * inverse_gram[who, who]:
        return False
    append(sub_inverse, counts, m, u, schur)
    return True


@inner()
def follow_path_back(gram, inverse_gram, corr, squared_norm, fit, push, epsilon, max_inactive, max_steps, stop):
    """Follow the path from the least-squares code ``fit`` (push = H sign(fit)) up to the residual ``epsilon``.

    Returns
    -------
    x : ndarray (N,)
    steps : int
    ending : int
        REACHED, OUT_OF_STEPS, STOPPED, or LOST where the other end is the better one after all.
    """
    n = corr.shape[0]
    x = fit.copy()
    sign = np.empty(n)
    rho = np.zeros(n)  # used for inactive atoms only
    rate = push.copy()  # -dx/dlevel
    slot = np.full(n, -1, np.int64)  # place among the inactive
    cap = 32
    inactive = np.empty(cap, np.int64)
    sub_inverse, counts = make_inverse(cap)  # of H_II
    b = np.empty(cap)
    g = np.empty(cap)
    u = np.empty(cap)
    m = np.int64(0)  # a plain 0 would be a type of its own, for which all that it is passed to is compiled again
    level = 0.0
    epsilon2 = epsilon * epsilon
    residual2 = squared_norm
    for i in range(n):
        residual2 -= corr[i] * fit[i]
        if fit[i] == 0.0:
            return x, 0, LOST
        sign[i] = 1.0 if fit[i] > 0.0 else -1.0
    steps = 0
    while True:
        if steps >= max_steps:
            return x, steps, OUT_OF_STEPS
        steps += 1
        if steps % 16 == 0 and stop[0] != 0:
            return x, steps, STOPPED
        # rate = push + H[:, I] b with H_II b = -push_I
        for i in range(m):
            g[i] = push[inactive[i]]
        multiply(sub_inverse, counts, m, g, b)
        correlate(inverse_gram, push, inactive, b, m, rate)
        curve = 0.0
        for i in range(n):
            if slot[i] < 0:
                curve += sign[i] * rate[i]
        step, who, new_sign = _find_event(level, epsilon2, residual2, curve, x, sign, rate, slot, rho, b, inactive, m)
        if not np.isfinite(step):
            return x, steps, LOST
        for i in range(n):
            if slot[i] < 0:
                x[i] -= step * rate[i]
        for i in range(m):
            rho[inactive[i]] -= step * b[i]
        residual2 += step * curve * (2.0 * level + step)
        level += step
        if who < 0:
            break
        if slot[who] < 0:  # an active atom has reached zero
            if m >= max_inactive:
                return x, steps, LOST
            if m == cap:
                cap *= 2
                inactive = np.append(inactive, np.empty(m, np.int64))
                sub_inverse = enlarge_inverse(sub_inverse, counts, cap)
                b = np.empty(cap)
                g = np.empty(cap)
                u = np.empty(cap)
            if not _append_atom(inverse_gram, who, inactive, m, sub_inverse, counts, g, u):
                return x, steps, LOST
            inactive[m] = who
            slot[who] = m
            m += 1
            rho[who] = sign[who] * level
            x[who] = 0.0
            for i in range(n):
                push[i] -= sign[who] * inverse_gram[who, i]
        else:  # an inactive atom's correlation has reached the level
            at = slot[who]
            remove(sub_inverse, counts, m, at, g)
            m -= 1
            if at != m:
                inactive[at] = inactive[m]
                slot[inactive[at]] = at
            slot[who] = -1
            sign[who] = new_sign
            x[who] = 0.0
            for i in range(n):
                push[i] += new_sign * inverse_gram[who, i]
    _refine(
        gram, inverse_gram, corr, squared_norm, epsilon2, level, curve, x, sign, rate, slot, inactive, m, sub_inverse,
        counts,
    )  # fmt: skip
    return x, steps, REACHED


@entry_point()
def follow_paths_back(gram, inverse_gram, corr, squared_norms, fits, pushes, epsilon, max_inactive, max_steps, stop):
    """Follow the path of every row; returns dense codes, steps and endings."""
    n_samples = corr.shape[0]
    codes = np.empty_like(corr)
    steps = np.zeros(n_samples, np.int64)
    endings = np.zeros(n_samples, np.int64)
    for s in range(n_samples):
        codes[s], steps[s], endings[s] = follow_path_back(
            gram,
            inverse_gram,
            corr[s],
            squared_norms[s],
            fits[s],
            pushes[s],
            epsilon,
            max_inactive,
            max_steps,
            stop,
        )
    return codes, steps, endings

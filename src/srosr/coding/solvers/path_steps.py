"""What the stages of a homotopy do to its workspace: find the next event, go there, let an atom enter or leave.

The stages themselves, and what follows each of them, are in :mod:`.homotopy`.
"""

from __future__ import annotations

import numpy as np

from ..._support.compiled import leaf, part
from .active_set import gain, lose, measure_independence, solve
from .block_inverse import begin_append, begin_remove
from .path_events import find_first_to_enter, find_first_to_leave, find_first_to_zero, find_step_to_epsilon
from .workspace import (
    CORR,
    DIRECTION,
    DRIVE,
    DUAL,
    IS_LATE,
    LATE,
    MASKED,
    RATE,
    SIGN,
    TARGET,
    E,
    G,
    U,
    X,
)


@part()
def find_event(path, ws):
    """Return the atom that leaves or enters first (-1: none), its sign if it enters, and the step to the event."""
    x, sign, direction, drive = ws.vectors[X], ws.vectors[SIGN], ws.vectors[DIRECTION], ws.vectors[DRIVE]
    k, level, speed = path.k, path.level, path.speed
    if path.lowering_late:
        limit = path.late_level - level
    elif speed > 0.0:
        limit = level - path.last_level
    else:
        limit = np.inf
    fall = 0.0
    curve = 0.0
    path.at_epsilon = False
    if path.seeks_epsilon and not path.lowering_late and k > 0:
        for i in range(k):
            fall += level * sign[i] * direction[i]
            curve += drive[i] * direction[i]
        t = find_step_to_epsilon(path.residual2 - path.goal * path.goal, fall, curve, speed)
        if t < limit:
            limit = t
            path.at_epsilon = True
    path.fall = fall
    path.curve = curve
    leaves, step = find_first_to_leave(x, sign, direction, k, limit)
    enters, new_sign, step = find_first_to_enter(
        ws.work[CORR],
        ws.work[RATE],
        ws.work[LATE],
        ws.work[MASKED],
        path.w,
        path.lowering_late,
        path.late_level if path.lowering_late else level,
        level,
        speed,
        step,
    )
    return leaves, enters, new_sign, step


@leaf()
def move(step, path, ws):
    """Go that far along the piece."""
    x, direction, corr, rate = ws.vectors[X], ws.vectors[DIRECTION], ws.work[CORR], ws.work[RATE]
    for i in range(path.k):
        x[i] += step * direction[i]
    for j in range(path.w):
        corr[j] -= step * rate[j]
    if path.lowering_late:
        path.late_level -= step
    else:
        path.level -= step * path.speed
        path.residual2 += step * (step * path.curve - 2.0 * path.fall)


@leaf()
def meet(who, new_sign, path, ws):
    """Note a candidate whose correlation has reached its level; G receives its Gram entries with the active atoms."""
    path.candidate, path.entering, path.new_sign = who, ws.candidates[who], new_sign
    path.is_late, path.rate = ws.work[LATE, who], ws.work[RATE, who]
    path.own_speed = path.is_late if path.lowering_late else path.speed
    path.shift = 0.0
    path.exchanging = False
    for i in range(path.k):
        ws.vectors[G, i] = ws.block[i, who]


@part()
def measure_distance(gram, path, ws):
    """Return the squared distance of the entering atom to the span of the active ones, 0 where rounding hides it."""
    v, entering = ws.vectors, path.entering
    return measure_independence(
        ws.own, path.longest, ws.inverse, ws.counts, path.k, gram[entering, entering], v[G], v[U], v[E], v[TARGET]
    )


@leaf()
def make_room(path, ws):
    """Let the first active atom that reaches zero make room for an entering one that depends on them.

    Returns its place, -1 if there is none: the candidate runs along with its level, like a duplicate, and is masked.
    """
    x, u, k, new_sign = ws.vectors[X], ws.vectors[U], path.k, path.new_sign
    leaving = -1
    if abs(path.own_speed - new_sign * path.rate) > 1e-6:
        leaving = find_first_to_zero(x, ws.vectors[SIGN], u, new_sign, k)
    if leaving < 0:
        ws.work[MASKED, path.candidate] = 1.0
        return leaving
    theta = x[leaving] / (new_sign * u[leaving])
    if not theta > 0.0:
        theta = 0.0
    for i in range(k):
        x[i] -= theta * new_sign * u[i]
    path.shift = theta * new_sign
    path.exchanging = True
    return leaving


@leaf()
def meet_again(gram, path, ws):
    """Compute Gram entries and rate of the entering atom anew, after an active one has made room."""
    rate = 0.0
    for i in range(path.k):
        ws.vectors[G, i] = gram[path.entering, ws.atoms[i]]
        rate += ws.vectors[G, i] * ws.vectors[DIRECTION, i]
    path.rate = rate


@leaf()
def drop_candidate(path, ws):
    """Take the entering atom out of the working set; the last candidate takes its column."""
    who, last = path.candidate, path.w - 1
    ws.candidates[who] = ws.candidates[last]
    for row in (CORR, LATE, MASKED):
        ws.work[row, who] = ws.work[row, last]
    for i in range(path.k):
        ws.block[i, who] = ws.block[i, last]
    path.w = last


@part()
def join(gram, schur, path, ws):
    """Append the entering atom to the active ones, and update inverse, direction and block."""
    v, k, entering = ws.vectors, path.k, path.entering
    u, direction = v[U], v[DIRECTION]
    drive = path.new_sign * path.own_speed
    v[DRIVE, k] = drive
    direction[k] = (drive - path.rate) / schur
    for i in range(k):
        direction[i] -= u[i] * direction[k]
    begin_append(ws.inverse, ws.counts, k, u, schur)
    gain(ws.own, k, v[G], gram[entering, entering])
    ws.atoms[k] = entering
    ws.active[entering] = True
    v[X, k] = path.shift
    v[SIGN, k] = path.new_sign
    v[IS_LATE, k] = path.is_late
    for j in range(path.w):
        ws.block[k, j] = gram[entering, ws.candidates[j]]
    path.k = k + 1
    path.added += 1


@part()
def leave(gram, path, ws):
    """Make an active atom a candidate; the last one takes its place."""
    v, work, w, last, leaving = ws.vectors, ws.work, path.w, path.k - 1, path.leaving
    g, direction = v[G], v[DIRECTION]
    left, t = ws.atoms[leaving], direction[leaving]
    ws.active[left] = False
    ws.candidates[w] = left
    on_late_level = path.lowering_late and v[IS_LATE, leaving] > 0.0
    work[CORR, w] = v[SIGN, leaving] * (path.late_level if on_late_level else path.level)
    work[LATE, w] = v[IS_LATE, leaving]
    begin_remove(ws.inverse, ws.counts, path.k, leaving, g)
    lose(ws.own, path.k, leaving)
    if leaving != last:
        ws.atoms[leaving] = ws.atoms[last]
        for row in (X, SIGN, IS_LATE, DRIVE, DIRECTION):
            v[row, leaving] = v[row, last]
        for j in range(w):
            ws.block[leaving, j] = ws.block[last, j]
    for i in range(last):
        direction[i] -= g[i] * t
        ws.block[i, w] = gram[left, ws.atoms[i]]
    for j in range(w + 1):  # who ran along may do so no more
        work[MASKED, j] = 0.0
    path.k = last
    path.w = w + 1


@part()
def finish(corr, path, ws):
    """Compute BPDN's last piece in closed form, at epsilon to rounding; the dual point is the slope of the piece."""
    k, v = path.k, ws.vectors
    x, sign, dual, c, fit = v[X], v[SIGN], v[DUAL], v[G], v[TARGET]
    for i in range(k):
        c[i] = corr[ws.atoms[i]]
    solve(ws.own, ws.inverse, ws.counts, k, c, 0.0, 2.0, -1.0, fit, v[E], v[U])
    solve(ws.own, ws.inverse, ws.counts, k, sign, 0.0, 2.0, -1.0, dual, v[E], v[U])
    if path.unreachable:
        size = 0.0
        for i in range(k):
            if abs(fit[i]) > size:
                size = abs(fit[i])
        for i in range(k):  # what ends in zero carries rounding
            x[i] = fit[i] if abs(fit[i]) > 1e-14 * size else 0.0
        return
    # residual^2(level) = residual^2(0) + level^2 * sign.dual
    floor2 = path.squared_norm
    curve = 0.0
    for i in range(k):
        floor2 -= c[i] * fit[i]
        curve += sign[i] * dual[i]
    epsilon2 = path.goal * path.goal
    if curve > 0.0 and epsilon2 > floor2:
        exact = np.sqrt((epsilon2 - floor2) / curve)
        if abs(exact - path.level) <= 1e-3 * path.level:
            for i in range(k):
                x[i] = fit[i] - exact * dual[i]

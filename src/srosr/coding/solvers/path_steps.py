"""The steps of a homotopy: from one event to the next, and what an atom that enters or leaves changes."""

from __future__ import annotations

import numpy as np

from ..._support.compiled import leaf, part
from .active_set import gain, independence, lose, solve
from .block_inverse import begin_append, begin_remove, write_if_due
from .path_events import first_to_enter, first_to_leave, step_to_epsilon
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

# What becomes of a candidate whose correlation reaches its level: it joins the active atoms; or it depends on them and
# either runs along with its level, like a duplicate, or crosses it and needs an exchange.
JOINS, RUNS_ALONG, CROSSES = 0, 1, 2


@leaf()
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
        t = step_to_epsilon(path.residual2 - path.goal * path.goal, fall, curve, speed)
        if t < limit:
            limit = t
            path.at_epsilon = True
    path.fall = fall
    path.curve = curve
    leaves, step = first_to_leave(x, sign, direction, k, limit)
    enters, new_sign, step = first_to_enter(
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


@part()
def measure_distance(gram, entering, path, ws):
    """Return the squared distance of an atom to the span of the active ones; G holds its Gram entries with them."""
    v = ws.vectors
    return independence(
        ws.own, path.longest, ws.inverse, ws.counts, path.k, gram[entering, entering], v[G], v[U], v[E], v[TARGET]
    )


@part()
def enter(gram, who, new_sign, path, ws):
    """Make a candidate active, unless it depends on the active atoms; one that runs along with its level is masked."""
    entering, is_late, rate = ws.candidates[who], ws.work[LATE, who], ws.work[RATE, who]
    own_speed = is_late if path.lowering_late else path.speed
    for i in range(path.k):
        ws.vectors[G, i] = ws.block[i, who]
    schur = measure_distance(gram, entering, path, ws)
    if schur == 0.0:
        if abs(own_speed - new_sign * rate) > 1e-6:
            return CROSSES
        ws.work[MASKED, who] = 1.0
        return RUNS_ALONG
    drop_candidate(who, path, ws)
    join(gram, entering, is_late, 0.0, new_sign, new_sign * own_speed, rate, schur, path, ws)
    write_if_due(ws.inverse, ws.counts, path.k)
    return JOINS


@leaf()
def drop_candidate(who, path, ws):
    """Take a candidate out of the working set; the last one takes its column."""
    last = path.w - 1
    ws.candidates[who] = ws.candidates[last]
    for row in (CORR, LATE, MASKED):
        ws.work[row, who] = ws.work[row, last]
    for i in range(path.k):
        ws.block[i, who] = ws.block[i, last]
    path.w = last


@leaf()
def join(gram, entering, is_late, x, sign, drive, rate, schur, path, ws):
    """Append an atom to the active ones, and update inverse, direction and block."""
    v, k = ws.vectors, path.k
    u, direction = v[U], v[DIRECTION]
    v[DRIVE, k] = drive
    direction[k] = (drive - rate) / schur
    for i in range(k):
        direction[i] -= u[i] * direction[k]
    begin_append(ws.inverse, ws.counts, k, u, schur)
    gain(ws.own, k, v[G], gram[entering, entering])
    ws.atoms[k] = entering
    ws.active[entering] = True
    v[X, k] = x
    v[SIGN, k] = sign
    v[IS_LATE, k] = is_late
    for j in range(path.w):
        ws.block[k, j] = gram[entering, ws.candidates[j]]
    path.k = k + 1
    path.added += 1


@leaf()
def leave(gram, leaving, path, ws):
    """Make an active atom a candidate; the last one takes its place."""
    v, work, w, last = ws.vectors, ws.work, path.w, path.k - 1
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


@leaf()
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

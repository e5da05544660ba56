"""Where a straight piece of a homotopy ends: which atom enters, which leaves, where the residual is epsilon."""

from __future__ import annotations

import numpy as np

from ..._support.compiled import leaf

# Rates of approach below this are rounding: the atom runs along with its level.
_PARALLEL = 1e-10


@leaf()
def find_first_to_zero(x, sign, u, new_sign, k):
    """Find the active atom that leaves when x moves along -new_sign * u; of ties to rounding, the largest in u."""
    largest = 0.0
    least = 0.0  # what is smaller in u is rounding
    for i in range(k):
        if abs(x[i]) > largest:
            largest = abs(x[i])
        if 1e-6 * abs(u[i]) > least:
            least = 1e-6 * abs(u[i])
    reach = np.inf
    for i in range(k):
        t = new_sign * u[i] * sign[i]
        if t > least:
            size = sign[i] * x[i] if sign[i] * x[i] > 0.0 else 0.0
            if (size + 1e-12 * largest) / t < reach:
                reach = (size + 1e-12 * largest) / t
    leaving = -1
    pivot = 0.0
    for i in range(k):
        t = new_sign * u[i] * sign[i]
        size = sign[i] * x[i] if sign[i] * x[i] > 0.0 else 0.0
        if t > least and size <= reach * t and t > pivot:
            leaving = i
            pivot = t
    return leaving


@leaf()
def find_step_to_epsilon(above, fall, curve, speed):
    """Find where above - 2 t fall + t^2 curve, the squared residual less epsilon's square, is zero; inf if nowhere."""
    spread = fall * fall - curve * above
    if spread < 0.0:
        return np.inf
    root = np.sqrt(spread)
    t = above / (fall + root) if speed > 0.0 else above / (fall - root)
    return t if t >= 0.0 else np.inf


@leaf()
def find_first_to_leave(x, sign, direction, k, step):
    """Find the active atom whose coefficient reaches zero first within the step (-1: none), and that step."""
    who = -1
    for i in range(k):
        shrink = -sign[i] * direction[i]
        if shrink > 0.0:
            t = sign[i] * x[i]
            if t < step * shrink:
                step = t / shrink if t > 0.0 else 0.0
                who = i
    return who, step


@leaf()
def find_first_to_enter(work_corr, work_rate, late, masked, w, lowering_late, own_level, level, speed, step):
    """Find the inactive atom whose correlation reaches its level first (-1: none within the step), sign and step."""
    who = -1
    sign = 1.0
    for j in range(w):
        if masked[j] != 0.0:
            continue
        own, own_speed = own_level, speed
        if lowering_late:
            own_speed = late[j]
            if own_speed == 0.0:
                own = level
        closing = own_speed - work_rate[j]
        room = own - work_corr[j]
        if closing > _PARALLEL and room < step * closing:
            step = room / closing if room > 0.0 else 0.0
            who = j
            sign = 1.0
        closing = own_speed + work_rate[j]
        room = own + work_corr[j]
        if closing > _PARALLEL and room < step * closing:
            step = room / closing if room > 0.0 else 0.0
            who = j
            sign = -1.0
    return who, sign, step

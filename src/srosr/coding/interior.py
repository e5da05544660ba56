r"""Basis pursuit denoising by an interior point method of its own, in the dual.

The dual of :math:`\min\|x\|_1` subject to :math:`\|b - Fx\| \le \epsilon` is

.. math:: \max_v\ b^\top v - \epsilon\|v\| \quad\text{subject to}\quad |F^\top v| \le 1,

smooth away from v = 0, with a strictly feasible start in the direction of b. With multipliers
:math:`\lambda^\pm \ge 0` of the two sides the code is :math:`x = \lambda^+ - \lambda^-`, and a step solves one dense,
positive definite system of the size of the rank,

.. math:: \Big(F D F^\top + \frac{\epsilon}{\|v\|}(I - uu^\top)\Big)\,dv = \ldots, \qquad u = v/\|v\|,

where a general conic solver factors a sparse matrix of all variables and constraints. That is why it is here: on the
dictionary of 1,800 MNIST pictures (rank 571) at :math:`\epsilon = 0.001` Clarabel takes minutes for a code, this a
second or two (``python -m benchmarks.interior`` has both on fewer atoms).

References
----------
S. Boyd, L. Vandenberghe, "Convex Optimization", Cambridge, 2004, section 11.7 (the primal-dual method).
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .._types import Array

__all__ = ["basis_pursuit"]

# The barrier is lowered by this factor beyond the present gap, and a step keeps this share of the way to a bound.
_SHARPER = 30.0
_SHARE = 0.99
_MOST_STEPS = 150
# Share of the largest diagonal entry that is added to the system where rounding has made it indefinite.
_RIDGE = 1e-14


def basis_pursuit(features: Array, target: Array, epsilon: float, accuracy: float = 1e-9) -> tuple[Array, Array] | None:
    """Code and dual point of one sample; None where the method comes to nothing that is nearly optimal.

    Parameters
    ----------
    features : ndarray (rank, n_atoms)
        Of full row rank.
    target : ndarray (rank,)
        Longer than ``epsilon``.
    epsilon : float
        Positive.
    accuracy : float
        Relative duality gap, and miss of the constraint relative to the target, at which to stop. Rounding may end it
        earlier: up to a thousand times as much is returned, and for the certificate to judge.
    """
    length = float(np.linalg.norm(target))
    b, radius = target / length, epsilon / length
    reach = np.abs(b @ features).max()
    if not (reach > 0.0 and 0.0 < radius < 1.0):
        return None
    v = b * (0.5 / reach)
    z = v @ features
    upper, lower = 1.0 / (1.0 - z), 1.0 / (1.0 + z)  # multipliers of z <= 1 and z >= -1, at a barrier of one
    best: tuple[float, Array, Array] | None = None
    for _ in range(_MOST_STEPS):
        gap = float(upper @ (1.0 - z) + lower @ (1.0 + z))
        size = float(np.linalg.norm(v))
        u = v / size
        code = upper - lower
        miss = features @ code + radius * u - b
        worth = float(b @ v - radius * size)
        error = max(gap / max(abs(worth), 1e-300), float(np.linalg.norm(miss)))
        if best is None or error < best[0]:
            best = error, code, v
        if error <= accuracy:
            break
        barrier = gap / (2 * len(z) * _SHARPER)
        weights = upper / (1.0 - z) + lower / (1.0 + z)
        step = _step(features, weights, u, radius / size, -(miss + features @ (
            barrier / (1.0 - z) - upper - barrier / (1.0 + z) + lower)))  # fmt: skip
        if step is None:
            break
        dz = step @ features
        d_upper = barrier / (1.0 - z) - upper + upper / (1.0 - z) * dz
        d_lower = barrier / (1.0 + z) - lower - lower / (1.0 + z) * dz
        share = min(_room(upper, d_upper), _room(lower, d_lower), _room(1.0 - z, -dz), _room(1.0 + z, dz), 1.0)
        before = _norm(miss, upper * (1.0 - z) - barrier, lower * (1.0 + z) - barrier)
        for _shorter in range(40):
            new_v, new_z = v + share * step, z + share * dz
            new_upper, new_lower = upper + share * d_upper, lower + share * d_lower
            direction = new_v / np.linalg.norm(new_v)
            after = _norm(
                features @ (new_upper - new_lower) + radius * direction - b,
                new_upper * (1.0 - new_z) - barrier,
                new_lower * (1.0 + new_z) - barrier,
            )
            if after <= (1.0 - 0.01 * share) * before:
                break
            share *= 0.5
        else:
            break
        v, z, upper, lower = new_v, new_v @ features, new_upper, new_lower
        if not (np.abs(z) < 1.0).all():
            break
    if best is None or best[0] > 1e3 * accuracy:
        return None
    return best[1] * length, best[2]


def _step(features: Array, weights: Array, u: Array, curvature: float, right: Array) -> Array | None:
    """Solve (F W F' + c (I - uu')) step = right."""
    scaled = features * np.sqrt(weights)
    system = scaled @ scaled.T
    system -= curvature * np.outer(u, u)
    diagonal = np.einsum("ii->i", system)
    diagonal += curvature
    # Rows of very different length: the same on the scale of the diagonal.
    scale = 1.0 / np.sqrt(np.maximum(diagonal, np.finfo(np.float64).tiny))
    system *= scale[:, None] * scale
    for ridge in (0.0, _RIDGE, 1e3 * _RIDGE):
        try:
            factor = linalg.cho_factor(system + ridge * np.eye(len(u)), lower=True, check_finite=False)
        except linalg.LinAlgError:
            continue
        out = linalg.cho_solve(factor, right * scale, check_finite=False)
        out += linalg.cho_solve(factor, right * scale - system @ out, check_finite=False)
        return out * scale if np.isfinite(out).all() else None
    return None


def _room(values: Array, change: Array) -> float:
    """How far values may go with a change and stay positive, times the share kept."""
    shrinking = change < 0
    return _SHARE * float((-values[shrinking] / change[shrinking]).min(initial=np.inf))


def _norm(*parts: Array) -> float:
    return float(np.sqrt(sum(float(p @ p) for p in parts)))

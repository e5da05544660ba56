r"""Basis pursuit denoising by our own interior point method, in the dual.

The dual of :math:`\min\|x\|_1` subject to :math:`\|b - Fx\| \le \epsilon` is

.. math:: \max_v\ b^\top v - \epsilon\|v\| \quad\text{subject to}\quad |F^\top v| \le 1,

smooth away from v = 0, with a strictly feasible start in the direction of b. With multipliers
:math:`\lambda^\pm \ge 0` of the two sides the code is :math:`x = \lambda^+ - \lambda^-`, and a step solves one dense,
positive definite system of the size of the rank,

.. math:: \Big(F D F^\top + \frac{\epsilon}{\|v\|}(I - uu^\top)\Big)\,dv = \ldots, \qquad u = v/\|v\|,

whereas a general conic solver factors a sparse matrix of all variables and constraints. That is why we have our own:
over 1,800 MNIST pictures (rank 571) at :math:`\epsilon = 0.001` Clarabel takes minutes for a code, this method a second
or two (``python -m benchmarks.interior`` times both on fewer atoms).

References
----------
S. Boyd, L. Vandenberghe, "Convex Optimization", Cambridge, 2004, section 11.7 (the primal-dual method).
S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optim. 2, 1992 (predictor and
corrector: two solutions with one factorization).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from ..._support.array_types import Array

# A step keeps this share of the way to a bound.
_SHARE = 0.99
# The barrier is lowered by at most this factor in a quick step, and by this one in a careful step.
_SHARPEST = 1e-6
_SHARPER = 30.0
_MOST_STEPS = 150
# Times a careful step is halved at most.
_HALVINGS = 40
# Quick steps without a better point after which careful ones are tried.
_PATIENCE = 5
# Multiple of the accuracy asked for at which a point is still returned, for the certificate to decide.
_GOOD_ENOUGH = 1e3
# Share of the largest diagonal entry that is added to the system where rounding has made it indefinite.
_RIDGE = 1e-14


def basis_pursuit(features: Array, target: Array, epsilon: float, accuracy: float = 1e-9) -> tuple[Array, Array] | None:
    """Return the code and the dual point of one sample, or None if no point found is nearly optimal.

    Parameters
    ----------
    features : ndarray (rank, n_atoms)
        Of full row rank.
    target : ndarray (rank,)
        Longer than ``epsilon``.
    epsilon : float
        Zero is basis pursuit without noise.
    accuracy : float
        Relative duality gap, and miss of the constraint relative to the target, at which to stop. Rounding may end it
        earlier: a point up to a thousand times less accurate is returned, for the certificate to decide.
    """
    length = float(np.linalg.norm(target)) or 1.0
    b, radius = target / length, epsilon / length
    reach = np.abs(b @ features).max()
    if not (reach > 0.0 and 0.0 <= radius < 1.0):
        return None
    best = _follow_central_path(features, b, radius, reach, accuracy, careful=False)
    if not best[0] <= _GOOD_ENOUGH * accuracy:
        best = _follow_central_path(features, b, radius, reach, accuracy, careful=True)
    return (best[1] * length, best[2]) if best[0] <= _GOOD_ENOUGH * accuracy else None


def _follow_central_path(
    features: Array, b: Array, radius: float, reach: float, accuracy: float, *, careful: bool
) -> tuple[float, Array, Array]:
    """Follow the central path; return the error, code and dual point of the best point.

    Quick steps bend with the path, and may overshoot where the direction of v turns. Careful steps are straight, there
    are more of them, and each must lessen the residual.
    """
    v = b * (0.5 / reach)
    z = v @ features
    upper, lower = 1.0 / (1.0 - z), 1.0 / (1.0 + z)  # multipliers of z <= 1 and z >= -1, at a barrier of one
    best, since = (np.inf, v, v), 0
    for _ in range(_MOST_STEPS):
        point = _Point(features, b, radius, v, z, upper, lower)
        error = point.error
        best, since = ((error, point.code, v), 0) if error < best[0] else (best, since + 1)
        if error <= accuracy or (since >= _PATIENCE and not careful):
            break
        try:
            point.factor()
        except linalg.LinAlgError:
            break
        after = point.careful_step() if careful else point.quick_step()
        if after is None:
            break
        v, upper, lower = after
        z = v @ features
        if not (np.abs(z) < 1.0).all():
            break
    return best


class _Step(NamedTuple):
    """Changes of v, z = F'v and the two multipliers."""

    v: Array
    z: Array
    upper: Array
    lower: Array


class _Point:
    """A point of the method, and the steps from it."""

    def __init__(
        self, features: Array, b: Array, radius: float, v: Array, z: Array, upper: Array, lower: Array
    ) -> None:
        self.features, self.b, self.radius = features, b, radius
        self.v, self.z, self.upper, self.lower = v, z, upper, lower
        self.size = float(np.linalg.norm(v))
        self.code = upper - lower
        self.miss = features @ self.code + radius * (v / self.size) - b
        self.gap = float(upper @ (1.0 - z) + lower @ (1.0 + z))

    @property
    def error(self) -> float:
        """The relative gap or the miss, whichever is larger."""
        worth = float(self.b @ self.v - self.radius * self.size)
        return max(self.gap / max(abs(worth), 1e-300), float(np.linalg.norm(self.miss)))

    def factor(self) -> None:
        """Factor the system of the steps, F W F' + c (I - uu'); raise LinAlgError if it has no Cholesky factor."""
        curvature, u = self.radius / self.size, self.v / self.size
        scaled = self.features * np.sqrt(self.upper / (1.0 - self.z) + self.lower / (1.0 + self.z))
        system = scaled @ scaled.T
        system -= curvature * np.outer(u, u)
        diagonal = np.einsum("ii->i", system)
        diagonal += curvature
        # Rows of very different length: the same on the scale of the diagonal.
        self._scale = 1.0 / np.sqrt(np.maximum(diagonal, np.finfo(np.float64).tiny))
        system *= self._scale[:, None] * self._scale
        self._system, self._factor = system, _factor_system(system)

    def quick_step(self) -> tuple[Array, Array, Array]:
        """Return new v and multipliers by predictor and corrector."""
        # The predictor aims at the optimum: how far it goes says how low the barrier can be, and how the path bends.
        ahead = self._find_newton_step(0.0, 0.0)
        share = self._limit_step(ahead)
        z = self.z + share * ahead.z
        _, upper, lower = self._take_step(ahead, share)
        left = float(upper @ (1.0 - z) + lower @ (1.0 + z)) / max(self.gap, np.finfo(np.float64).tiny)
        barrier = self.gap / (2 * len(z)) * max(left**3, _SHARPEST)
        step = self._find_newton_step(barrier + ahead.upper * ahead.z, barrier - ahead.lower * ahead.z)
        return self._take_step(step, self._limit_step(step))

    def careful_step(self) -> tuple[Array, Array, Array] | None:
        """Return new v and multipliers nearer to the path, or None if no part of the step gets there."""
        barrier = self.gap / (2 * len(self.z) * _SHARPER)
        step = self._find_newton_step(barrier, barrier)
        share = self._limit_step(step)
        before = _norm(self.miss, self.upper * (1.0 - self.z) - barrier, self.lower * (1.0 + self.z) - barrier)
        for _ in range(_HALVINGS):
            v, upper, lower = self._take_step(step, share)
            z = self.z + share * step.z
            after = _norm(
                self.features @ (upper - lower) + self.radius * (v / np.linalg.norm(v)) - self.b,
                upper * (1.0 - z) - barrier,
                lower * (1.0 + z) - barrier,
            )
            if after <= (1.0 - 0.01 * share) * before:
                return v, upper, lower
            share *= 0.5
        return None

    def _find_newton_step(self, to_upper: Array | float, to_lower: Array | float) -> _Step:
        """Return the Newton step to a miss of zero and these products of multipliers and slacks."""
        upper = to_upper / (1.0 - self.z) - self.upper
        lower = to_lower / (1.0 + self.z) - self.lower
        right = -(self.miss + self.features @ (upper - lower)) * self._scale
        v = linalg.cho_solve(self._factor, right, check_finite=False)
        v += linalg.cho_solve(self._factor, right - self._system @ v, check_finite=False)
        v *= self._scale
        z = v @ self.features
        return _Step(v, z, upper + self.upper / (1.0 - self.z) * z, lower - self.lower / (1.0 + self.z) * z)

    def _limit_step(self, step: _Step) -> float:
        """Return the share of a step, at most one, that keeps multipliers and slacks positive."""
        multipliers = min(_limit_change(self.upper, step.upper), _limit_change(self.lower, step.lower))
        return min(multipliers, _limit_change(1.0 - self.z, -step.z), _limit_change(1.0 + self.z, step.z), 1.0)

    def _take_step(self, step: _Step, share: float) -> tuple[Array, Array, Array]:
        return self.v + share * step.v, self.upper + share * step.upper, self.lower + share * step.lower


def _factor_system(system: Array) -> tuple[Array, bool]:
    """Return the Cholesky factor of the system, or of a little more if rounding has made it indefinite."""
    for ridge in (0.0, _RIDGE):
        try:
            return linalg.cho_factor(system + ridge * np.eye(len(system)), lower=True, check_finite=False)
        except linalg.LinAlgError:
            continue
    return linalg.cho_factor(system + 1e3 * _RIDGE * np.eye(len(system)), lower=True, check_finite=False)


def _limit_change(values: Array, change: Array) -> float:
    """Return how far values can follow a change and stay positive, less a margin."""
    shrinking = change < 0
    return _SHARE * float((-values[shrinking] / change[shrinking]).min(initial=np.inf))


def _norm(*parts: Array) -> float:
    return float(np.sqrt(sum(float(p @ p) for p in parts)))

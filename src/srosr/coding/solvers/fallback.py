r"""The fallback solver: slower, and it shares nothing with the homotopy.

It solves samples whose certificate does not hold. BPDN goes to the interior point method of :mod:`.interior_point`;
Lasso, and what that method does not solve, to Clarabel, an interior point solver for conic programs, or to HiGHS if
epsilon is out of reach, which is a linear program; both up to a size beyond which they take minutes. All work in the
coordinates of :mod:`srosr.coding.spectrum`, on features instead of Gram quantities: these separate nearly dependent
atoms by their singular values, not by the squares of them.

References
----------
P. J. Goulart, Y. Chen, "Clarabel: an interior-point solver for conic programs with quadratic objectives", 2024.
Q. Huangfu, J. A. J. Hall, "Parallelizing the dual revised simplex method", Math. Program. Comput. 10, 2018 (HiGHS).
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
from scipy import linalg, sparse

from ..._support.array_types import Array, IntArray
from ..problems import BPDN, Lasso, Problem
from ..spectrum import Spectrum
from .interior_point import basis_pursuit

# Accuracy asked of the solvers; the certificate says what they reach.
_ACCURACY = 1e-11
# Coefficients smaller than this share of the largest are zeros of an interior point method.
_ZERO = 1e-9
# Dual constraints within this share of the largest are tight.
_TIGHT = 1e-6
# Entries of the features up to which Clarabel or HiGHS is tried if the code of the interior point method is not
# certified. For more they take minutes, and rounding, which prevents the certificate, affects them as well.
_CONIC_ENTRIES = 250_000
# Atoms that may still join or leave when a code is put into closed form.
_CORRECTIONS = 20


@singledispatch
def solve_safely(
    problem: Problem, spectrum: Spectrum, corr: Array, squared_norm: float, *, by_conic: bool = False
) -> tuple[Array, Array | None, bool]:
    """Solve a problem for one sample; each problem that can be solved again has an implementation below.

    Returns the code, for BPDN the image of a dual point for the certificate, and whether another solver could be tried.
    ``by_conic`` leaves out our own interior point method, for which near duplicates can be too much.
    """
    raise TypeError(f"there is no fallback solver for {problem!r}.")


@solve_safely.register
def _(
    problem: Lasso, spectrum: Spectrum, corr: Array, squared_norm: float, *, by_conic: bool = False
) -> tuple[Array, Array | None, bool]:
    if np.abs(corr).max() <= problem.alpha:
        return np.zeros_like(corr), None, False
    return _solve_conic(spectrum, corr, alpha=problem.alpha)[0], None, False


@solve_safely.register
def _(
    problem: BPDN, spectrum: Spectrum, corr: Array, squared_norm: float, *, by_conic: bool = False
) -> tuple[Array, Array | None, bool]:
    if squared_norm <= problem.epsilon * problem.epsilon or not np.any(corr):
        return np.zeros_like(corr), None, False
    if problem.epsilon <= spectrum.compute_least_squares_residual(corr[None], np.array([squared_norm]))[0]:
        return _solve_out_of_reach(spectrum, spectrum.compute_coordinates(corr[None])[0], by_conic)
    target = spectrum.project(corr[None])[0]
    epsilon = math.sqrt(max(problem.epsilon**2 - max(squared_norm - float(target @ target), 0.0), 0.0))
    found = None if by_conic or epsilon <= 0.0 else basis_pursuit(spectrum.features, target, epsilon)
    if found is None:
        return *_solve_conic(spectrum, corr, epsilon=epsilon), False
    x, image = found[0], found[1] @ spectrum.features
    active = _find_active(x, image, target)
    x[np.abs(x) <= _ZERO * np.abs(x).max()] = 0.0
    polished = _polish(spectrum, target, epsilon, x, active)
    worse = np.abs(polished).sum() > (1.0 + _TIGHT) * np.abs(x).sum()
    return x if worse else polished, image, spectrum.features.size <= _CONIC_ENTRIES


def _find_active(x: Array, image: Array, target: Array) -> IntArray:
    """Return the active atoms: at the optimum coefficient or slack is zero, near it the smaller of the two."""
    return np.flatnonzero(np.abs(x) > (1.0 - np.abs(image)) * np.linalg.norm(target))


def _solve_out_of_reach(spectrum: Spectrum, target: Array, by_conic: bool) -> tuple[Array, Array | None, bool]:
    """Solve min |x|_1 subject to V'Lx = target, by the interior point method or else by HiGHS."""
    rows = spectrum.vectors.T * spectrum.lengths
    found = None if by_conic else basis_pursuit(rows, target, 0.0)
    if found is None:
        return *_solve_linear_program(rows, target), False
    x, image = found[0], found[1] @ rows
    return _fit_support(rows, target, x, _find_active(x, image, target)), image, rows.size <= _CONIC_ENTRIES


def _solve_conic(
    spectrum: Spectrum, corr: Array, *, alpha: float | None = None, epsilon: float = 0.0
) -> tuple[Array, Array | None]:
    """Solve min |b - Fx|^2 / 2 + alpha |x|_1, or min |x|_1 subject to |b - Fx| <= epsilon, with x = p - q, p, q >= 0.

    For the latter the image Y'v of the dual point v is returned too.
    """
    import clarabel

    target = spectrum.project(corr[None])[0]
    scale, length = float(spectrum.lengths.max()), float(np.linalg.norm(target))
    features = spectrum.features / scale
    F = sparse.csc_array(features)
    b = target / length
    rank, n = F.shape
    price = 1.0 if alpha is None else alpha / (scale * length)
    both = sparse.hstack([F, -F])
    positive = -sparse.eye_array(2 * n)
    if alpha is None:
        P = sparse.csc_array((2 * n, 2 * n))
        A = sparse.vstack([positive, sparse.csc_array((1, 2 * n)), both])
        bounds = np.concatenate([np.zeros(2 * n), [epsilon / length], b])
        cones = [clarabel.NonnegativeConeT(2 * n), clarabel.SecondOrderConeT(rank + 1)]
        prices = np.ones(2 * n)
    else:
        P = sparse.block_diag([sparse.csc_array((2 * n, 2 * n)), sparse.eye_array(rank)])
        A = sparse.block_array([[positive, None], [both, sparse.eye_array(rank)]])
        bounds = np.concatenate([np.zeros(2 * n), b])
        cones = [clarabel.NonnegativeConeT(2 * n), clarabel.ZeroConeT(rank)]
        prices = np.concatenate([np.full(2 * n, price), np.zeros(rank)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _ACCURACY
    answer = clarabel.DefaultSolver(sparse.csc_matrix(P), prices, sparse.csc_matrix(A), bounds, cones, settings).solve()
    both_parts = np.asarray(answer.x)[: 2 * n]
    x = (both_parts[:n] - both_parts[n:]) * (length / scale)
    if not np.isfinite(x).all():
        return np.zeros(n), None
    x[np.abs(x) <= _ZERO * np.abs(x).max()] = 0.0
    if alpha is not None:
        return x, None
    image = np.asarray(answer.z)[2 * n + 1 :] @ features
    image = image if image @ x > 0 else -image
    tight = np.abs(image) > (1.0 - _TIGHT) * np.abs(image).max()
    return _polish(spectrum, target, epsilon, x, np.flatnonzero(tight & (np.abs(x) > 0))), image


def _polish(spectrum: Spectrum, target: Array, epsilon: float, x: Array, active: IntArray) -> Array:
    """Return the code in closed form over the active atoms if these are nearly the right ones, else x as it is.

    F_A = QR gives fit, slope and level. Atoms whose coefficient gets the wrong sign leave, and the one that has most in
    common with the residual joins, until no atom has more than the level.
    """
    signs, best = np.sign(x), x
    for _ in range(_CORRECTIONS):
        values = _fit_active(spectrum.features[:, active], target, epsilon, signs[active])
        if values is None:
            break
        right = np.sign(values) == signs[active]
        if not right.all():
            active = active[right]
            continue
        out = np.zeros_like(x)
        out[active] = values
        best = out if best is x or np.abs(out).sum() < np.abs(best).sum() else best
        image = (target - spectrum.features[:, active] @ values) @ spectrum.features
        level = np.abs(image[active]).min()
        image[active] = 0.0
        worst = int(np.abs(image).argmax())
        if abs(image[worst]) <= (1.0 + _ZERO) * level:
            return out
        active, signs[worst] = np.append(active, worst), np.sign(image[worst])
    return best


def _fit_active(features: Array, target: Array, epsilon: float, signs: Array) -> Array | None:
    """Return coefficients with these signs whose residual has length epsilon and equal correlations, or None."""
    if features.shape[1] == 0 or features.shape[1] > len(target):
        return None
    orthonormal, corner = linalg.qr(features, mode="economic", check_finite=False)
    if np.abs(np.diagonal(corner)).min() <= _ZERO * np.abs(np.diagonal(corner)).max():
        return None
    along = orthonormal.T @ target
    push = linalg.solve_triangular(corner, signs, trans="T", check_finite=False)
    room = epsilon**2 - max(float(target @ target - along @ along), 0.0)
    if room <= 0.0:
        return None
    return linalg.solve_triangular(corner, along - math.sqrt(room / float(push @ push)) * push, check_finite=False)


def _solve_linear_program(rows: Array, target: Array) -> tuple[Array, Array | None]:
    """Solve min |x|_1 subject to rows x = target by HiGHS."""
    n = rows.shape[1]
    from scipy import optimize

    result = optimize.linprog(
        np.ones(2 * n),
        A_eq=np.hstack([rows, -rows]),
        b_eq=target,
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.x is None:
        return np.zeros(n), None
    x = result.x[:n] - result.x[n:]
    support = np.flatnonzero(np.abs(x) > _ZERO * max(np.abs(x).max(), 1e-300))
    return _fit_support(rows, target, x, support), result.eqlin.marginals @ rows


def _fit_support(rows: Array, target: Array, x: Array, support: IntArray) -> Array:
    """Return the code by least squares over its support if it has the same signs and misses less, else x as it is."""
    polished = np.zeros_like(x)
    polished[support] = linalg.lstsq(rows[:, support], target, check_finite=False)[0]
    misses = [float(np.linalg.norm(rows @ code - target)) for code in (x, polished)]
    right = (np.sign(polished[support]) == np.sign(x[support])).all()
    return polished if right and misses[1] <= misses[0] else x

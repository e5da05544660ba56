"""Slow, plain references for testing the coder; they share no code with it.

Everything works on raw features (never on a Gram matrix), one query at a time. ``atoms`` holds atoms as
rows, so the matrix Y of the formulas is ``atoms.T``. The optimization references return a :class:`Bracket`: a
point, its objective, and a lower bound on the optimum that weak duality proves from the features alone. A
reference therefore never has to be believed: the true optimum lies between ``lower`` and ``upper``.
"""

from __future__ import annotations

from typing import NamedTuple

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import linprog

RANK_TOLERANCE = 1e-8
"""Singular values below this share of the largest count as zero (families in the tests keep clear of it)."""


class Bracket(NamedTuple):
    """A point of a minimization problem and an interval that holds the optimum."""

    x: np.ndarray
    upper: float
    lower: float

    @property
    def gap(self):
        """Return the width of the interval relative to its upper end."""
        return 0.0 if self.upper == 0 else (self.upper - self.lower) / self.upper


# --- objectives and duality gaps from the formulas ----------------------------------------------------


def residual(atoms, y, x):
    return y - atoms.T @ x


def lasso_objective(atoms, y, alpha, x):
    r = residual(atoms, y, x)
    return 0.5 * r @ r + alpha * np.abs(x).sum()


def lasso_dual(atoms, y, alpha, x):
    """Return <y,t> - |t|^2/2 at the best multiple t of the residual with |Y't|_inf <= alpha."""
    r = residual(atoms, y, x)
    rr = r @ r
    if rr == 0:
        return 0.0
    peak = np.abs(atoms @ r).max(initial=0.0)
    scale = (y @ r) / rr
    if peak > 0:
        scale = np.clip(scale, -alpha / peak, alpha / peak)
    t = scale * r
    return y @ t - 0.5 * t @ t


def ridge_objective(atoms, y, alpha, x):
    r = residual(atoms, y, x)
    return 0.5 * r @ r + 0.5 * alpha * x @ x


def bpdn_dual(atoms, y, epsilon, v):
    """Return <y,v> - eps |v| after v is shrunk, if necessary, into |Y'v|_inf <= 1."""
    v = v / max(1.0, np.abs(atoms @ v).max(initial=0.0))
    return max(0.0, y @ v - epsilon * np.linalg.norm(v))


def relative_gap(primal, dual):
    return 0.0 if primal == 0 else (primal - dual) / primal


def lasso_gap(atoms, y, alpha, x):
    return relative_gap(lasso_objective(atoms, y, alpha, x), lasso_dual(atoms, y, alpha, x))


def bpdn_gap(atoms, y, epsilon, x):
    """Return the gap against the residual scaled so that its largest correlation is one."""
    r = residual(atoms, y, x)
    peak = np.abs(atoms @ r).max(initial=0.0)
    dual = bpdn_dual(atoms, y, epsilon, r / peak) if peak > 0 else 0.0
    return relative_gap(np.abs(x).sum(), dual)


# --- Lasso ----------------------------------------------------


def _clarabel(p, q, a, b, cones):
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = 1e-9
    settings.max_iter = 500
    solution = clarabel.DefaultSolver(sparse.csc_matrix(p), q, sparse.csc_matrix(a), b, cones, settings).solve()
    return np.asarray(solution.x), np.asarray(solution.z)


def _scales(atoms, y):
    """Return the common length of the atoms and that of the query, so that the solvers below see numbers near one."""
    atom_scale = np.linalg.norm(atoms, axis=1).max(initial=0.0)
    query_scale = np.linalg.norm(y)
    return atom_scale or 1.0, query_scale or 1.0


def lasso_by_conic_solver(atoms, y, alpha):
    """Solve Lasso as a quadratic program in the two signs of x and the residual."""
    atoms, y = np.asarray(atoms, float), np.asarray(y, float)
    n, m = atoms.shape
    s, t = _scales(atoms, y)
    rows, target, weight = atoms / s, y / t, alpha / (s * t)
    p = sparse.block_diag([sparse.csc_matrix((2 * n, 2 * n)), sparse.identity(m)])
    q = np.concatenate([np.full(2 * n, weight), np.zeros(m)])
    a = sparse.vstack(
        [
            sparse.csc_matrix(np.hstack([rows.T, -rows.T, np.eye(m)])),
            sparse.hstack([-sparse.identity(2 * n), sparse.csc_matrix((2 * n, m))]),
        ]
    )
    b = np.concatenate([target, np.zeros(2 * n)])
    z, _ = _clarabel(p, q, a, b, [clarabel.ZeroConeT(m), clarabel.NonnegativeConeT(2 * n)])
    x = (z[:n] - z[n : 2 * n]) * (t / s)
    return Bracket(x, lasso_objective(atoms, y, alpha, x), lasso_dual(atoms, y, alpha, x))


def lasso_by_coordinate_descent(atoms, y, alpha, tol=1e-9, max_sweeps=200_000):
    """Run cyclic coordinate descent until the duality gap is below ``tol`` (or the sweeps are used up)."""
    atoms, y = np.asarray(atoms, float), np.asarray(y, float)
    lengths = (atoms**2).sum(axis=1)
    x, r = np.zeros(len(atoms)), y.copy()
    for sweep in range(max_sweeps):
        for j in np.flatnonzero(lengths):
            old = x[j]
            c = atoms[j] @ r + lengths[j] * old
            x[j] = np.sign(c) * max(0.0, abs(c) - alpha) / lengths[j]
            if x[j] != old:
                r += (old - x[j]) * atoms[j]
        if sweep % 10 == 0:
            r = residual(atoms, y, x)
            if lasso_gap(atoms, y, alpha, x) <= tol:
                break
    return Bracket(x, lasso_objective(atoms, y, alpha, x), lasso_dual(atoms, y, alpha, x))


# --- BPDN and basis pursuit ----------------------------------------------------


def span_basis(atoms, rank_tolerance=RANK_TOLERANCE):
    """Return orthonormal columns that span the atoms, at the stated relative rank tolerance."""
    _, sigma, vt = np.linalg.svd(np.asarray(atoms, float), full_matrices=False)
    keep = sigma > rank_tolerance * sigma.max(initial=0.0)
    return vt[keep].T


def rank(atoms, rank_tolerance=RANK_TOLERANCE):
    return span_basis(atoms, rank_tolerance).shape[1]


def least_squares(atoms, y, rank_tolerance=RANK_TOLERANCE):
    """Return least-squares codes of least Euclidean length."""
    x, *_ = np.linalg.lstsq(np.asarray(atoms, float).T, y, rcond=rank_tolerance)
    return x


def least_squares_residual(atoms, y, rank_tolerance=RANK_TOLERANCE):
    """Return the distance from y to the span of the atoms."""
    basis = span_basis(atoms, rank_tolerance)
    return np.linalg.norm(y - basis @ (basis.T @ y))


def bpdn_by_conic_solver(atoms, y, epsilon, rank_tolerance=RANK_TOLERANCE):
    """Minimize |x|_1 with |y - Yx| <= eps by second-order cones, eps above the distance rho to the span.

    Solved inside the span, where the constraint reads |Py - Yx| <= sqrt(eps^2 - rho^2) and stays well posed
    as eps nears rho. ``upper`` belongs to a point moved toward least squares just far enough to satisfy the
    constraint; ``lower`` is <Py,v> - sqrt(eps^2 - rho^2) |v| at a v with |Y'v|_inf <= 1.
    """
    atoms, y = np.asarray(atoms, float), np.asarray(y, float)
    n = len(atoms)
    if np.linalg.norm(y) <= epsilon:
        return Bracket(np.zeros(n), 0.0, 0.0)
    basis = span_basis(atoms, rank_tolerance)
    projected = basis.T @ y
    distance = np.linalg.norm(y - basis @ projected)
    if distance >= epsilon:
        raise ValueError(f"epsilon {epsilon} is out of reach: y is {distance} away from the span")
    inside = np.sqrt((epsilon - distance) * (epsilon + distance))
    inner = atoms @ basis  # the atoms in coordinates of the span
    s, t = _scales(inner, projected)
    a = sparse.vstack(
        [
            -sparse.identity(2 * n),
            sparse.csc_matrix((1, 2 * n)),
            sparse.csc_matrix(np.hstack([inner.T, -inner.T]) / s),
        ]
    )
    b = np.concatenate([np.zeros(2 * n), [inside / t], projected / t])
    cones = [clarabel.NonnegativeConeT(2 * n), clarabel.SecondOrderConeT(len(projected) + 1)]
    z, dual = _clarabel(sparse.csc_matrix((2 * n, 2 * n)), np.ones(2 * n), a, b, cones)
    x = (z[:n] - z[n : 2 * n]) * (t / s)
    lower = bpdn_dual(inner, projected, inside, -dual[2 * n + 1 :] / s)
    length = np.linalg.norm(residual(inner, projected, x))
    if length > inside:
        x = x + (1 - inside / length) * least_squares(inner, projected - inner.T @ x)
    return Bracket(x, np.abs(x).sum(), lower)


def basis_pursuit_by_linear_program(atoms, y, rank_tolerance=RANK_TOLERANCE):
    """Minimize |x|_1 with Yx = Py, P the projector onto the span of the atoms, by the HiGHS simplex method.

    The constraint is posed in coordinates of the span, where it has full row rank, on atoms of unit length
    with costs to match. ``lower`` is <Py,v> at the multipliers, shrunk into |Y'v|_inf <= 1.
    """
    atoms, y = np.asarray(atoms, float), np.asarray(y, float)
    n = len(atoms)
    basis = span_basis(atoms, rank_tolerance)
    projected = basis.T @ y
    t = np.linalg.norm(projected)
    if t == 0:
        return Bracket(np.zeros(n), 0.0, 0.0)
    inner = atoms @ basis
    lengths = np.linalg.norm(inner, axis=1)
    longest = lengths.max()
    used = np.flatnonzero(lengths > 0)
    a = (inner[used] / lengths[used, None]).T
    cost = np.tile(longest / lengths[used], 2)
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    answer = linprog(cost, A_eq=np.hstack([a, -a]), b_eq=projected / t, method="highs-ds", options=tight)
    assert answer.status == 0, answer.message
    x = np.zeros(n)
    x[used] = (answer.x[: len(used)] - answer.x[len(used) :]) * t / lengths[used]
    v = np.asarray(answer.eqlin.marginals) / longest
    lower = bpdn_dual(inner, projected, 0.0, v)
    # The answer is a vertex: solve for it, and for its multipliers, once more at full precision.
    support = np.flatnonzero(np.abs(x) > 1e-11 * np.abs(x).max())
    active, signs = inner[support], np.sign(x[support])
    x[support] += np.linalg.lstsq(active.T, projected - inner.T @ x, rcond=None)[0]
    v = v + np.linalg.lstsq(active, signs - active @ v, rcond=None)[0]
    lower = max(lower, bpdn_dual(inner, projected, 0.0, v))
    return Bracket(x, np.abs(x).sum(), lower)


# --- Ridge and OMP ----------------------------------------------------


def least_norm_by_quadratic_program(atoms, x, slack=1e-10):
    """Return the shortest code with the fit of x and its l1 norm, which may grow by the share ``slack``."""
    size, n = np.abs(x).max(), len(x)
    basis = span_basis(atoms)
    rows = basis.T @ (atoms / np.linalg.norm(atoms, axis=1).max()).T
    a = sparse.vstack(
        [
            sparse.csc_matrix(np.hstack([rows, -rows])),
            -sparse.identity(2 * n),
            sparse.csc_matrix(np.ones((1, 2 * n))),
        ]
    )
    b = np.concatenate([rows @ x / size, np.zeros(2 * n), [(1 + slack) * np.abs(x).sum() / size]])
    cones = [clarabel.ZeroConeT(len(rows)), clarabel.NonnegativeConeT(2 * n + 1)]
    z, _ = _clarabel(sparse.identity(2 * n), np.zeros(2 * n), a, b, cones)
    return size * (z[:n] - z[n:])


def ridge_by_normal_equations(atoms, y, alpha):
    atoms = np.asarray(atoms, float)
    return np.linalg.solve(atoms @ atoms.T + alpha * np.eye(len(atoms)), atoms @ y)


def omp_by_least_squares(atoms, y, n_nonzero):
    """Pick the atom whose direction correlates most with the residual, solve least squares again, repeat."""
    atoms, y = np.asarray(atoms, float), np.asarray(y, float)
    directions = unit_rows(atoms)
    x, chosen = np.zeros(len(atoms)), []
    for _ in range(min(n_nonzero, len(atoms))):
        r = residual(atoms, y, x)
        if np.linalg.norm(r) <= 1e-10 * np.linalg.norm(y):
            break
        correlation = np.abs(directions @ r)
        correlation[chosen] = -1.0
        chosen.append(int(np.argmax(correlation)))
        x[:] = 0.0
        x[chosen] = np.linalg.lstsq(atoms[chosen].T, y, rcond=None)[0]
    return x


# --- evidence ----------------------------------------------------


def class_residuals(atoms, labels, y, x):
    """Return |y - Y_k x_k| for every class, classes in sorted order."""
    labels = np.asarray(labels)
    return np.array([np.linalg.norm(y - atoms[labels == k].T @ x[labels == k]) for k in np.unique(labels)])


def sparsity_concentration(labels, x):
    labels = np.asarray(labels)
    classes = np.unique(labels)
    largest = max(np.abs(x[labels == k]).sum() for k in classes)
    return (len(classes) * largest / np.abs(x).sum() - 1) / (len(classes) - 1)


def residual_ratio(residuals):
    first, second = sorted(residuals)[:2]
    return first / second


# --- kernels, entry by entry ----------------------------------------------------


def linear(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def rbf(a, b, gamma):
    return np.exp(-gamma * sum((p - q) ** 2 for p, q in zip(a, b, strict=True)))


def poly(a, b, gamma, degree, coef0):
    return (gamma * linear(a, b) + coef0) ** degree


def chi2(a, b, gamma):
    """Return the exponential chi-squared kernel; a pair of zeros contributes nothing."""
    distance = sum((p - q) ** 2 / (p + q) for p, q in zip(a, b, strict=True) if p + q > 0)
    return np.exp(-gamma * distance)


def histogram_intersection(a, b):
    return sum(min(p, q) for p, q in zip(a, b, strict=True))


def kernel_matrix(kernel, left, right):
    """Return the matrix of ``kernel(a, b)``, by two plain loops."""
    return np.array([[kernel(a, b) for b in right] for a in left], dtype=float)


def unit_rows(features):
    """Return the rows scaled to unit length, zero rows unchanged."""
    features = np.asarray(features, float)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(lengths > 0, lengths, 1.0)


def degree_two_map(features, gamma, coef0):
    """Return explicit features whose inner products are (gamma <a,b> + coef0)^2."""
    features = np.asarray(features, float)
    n, m = features.shape
    products = (features[:, :, None] * features[:, None, :]).reshape(n, m * m)
    return np.hstack([gamma * products, np.sqrt(2 * gamma * coef0) * features, np.full((n, 1), coef0)])

"""The paper's Algorithms 2 (training) and 3 (testing), slowly and straight from the formulas.

H. Zhang, V. M. Patel, "Sparse representation-based open set recognition", IEEE TPAMI 2016, as the library reads it:
samples have unit length; a tail is a threshold u and a generalized Pareto distribution of the excesses r - u; a class
of fewer than ten training samples shares the tails of all classes. Features, never a Gram matrix; nothing is shared
with the library but the question which samples each repeat holds out, and the library's random numbers answer that.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.utils import check_random_state

from srosr.scoring.splits import draw_cross_splits

FEWEST_EXCESSES = 10
FEWEST_SAMPLES = 10
DIGITS = 60


class Tail(NamedTuple):
    u: float
    sigma: float
    xi: float

    def cdf(self, r):
        """G(r - u), and 0 below u."""
        z = max(float(r) - self.u, 0.0)
        if self.xi == 0.0:
            return -np.expm1(-z / self.sigma)
        inside = 1.0 + self.xi * z / self.sigma
        return 1.0 if inside <= 0.0 else 1.0 - inside ** (-1.0 / self.xi)


class Model(NamedTuple):
    atoms: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    problem: tuple
    matched: list
    nonmatched: list
    weight: float


def unit_rows(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


# --- codes --------------------------------------------------------------------------------------


def codes_of(atoms, queries, problem):
    """Return the code of every query: ("lasso", alpha), or ("bpdn", epsilon) with epsilon out of reach."""
    name, parameter = problem
    if name == "lasso":
        return lasso_codes(atoms, queries, parameter)
    x = np.linalg.lstsq(atoms.T, queries.T, rcond=None)[0].T
    assert np.linalg.matrix_rank(atoms) == len(atoms), "least squares is the answer at full column rank only"
    assert (np.linalg.norm(queries - x @ atoms, axis=1) > parameter).all(), "epsilon is not out of reach"
    return x


def lasso_codes(atoms, queries, alpha, sweeps=15, rounds=600):
    """Run coordinate descent on all queries until the support no longer changes, then the equations on the support.

    The conditions of optimality are checked: a_j'r = alpha sign(x_j) on the support, |a_j'r| <= alpha elsewhere. With
    linearly independent atoms they single out one code.
    """
    x, residual = np.zeros((len(queries), len(atoms))), queries.copy()
    squares = (atoms**2).sum(axis=1)
    left = np.arange(len(queries))
    out = np.zeros_like(x)
    for _ in range(rounds):
        for _ in range(sweeps):
            for j, atom in enumerate(atoms):
                c = residual[left] @ atom + squares[j] * x[left, j]
                new = np.sign(c) * np.maximum(np.abs(c) - alpha, 0.0) / squares[j]
                residual[left] += (x[left, j] - new)[:, None] * atom
                x[left, j] = new
        still = []
        for i in left:
            polished = _polished(atoms, queries[i], alpha, x[i])
            if polished is None:
                still.append(i)
            else:
                out[i] = polished
        left = np.array(still, dtype=int)
        if not len(left):
            return out
    raise AssertionError("coordinate descent did not find the support")


def _polished(atoms, y, alpha, x):
    support = np.flatnonzero(x)
    out = np.zeros(len(x))
    if len(support):
        part, signs = atoms[support], np.sign(x[support])
        # x = A+ y - alpha (A A')^-1 sign, by QR of the atoms and one step of refinement.
        q, r = np.linalg.qr(part.T)
        push = np.linalg.solve(r.T, signs)
        coefficients = np.linalg.solve(r, q.T @ y - alpha * push)
        for _ in range(2):
            error = part @ (y - coefficients @ part) - alpha * signs
            coefficients += np.linalg.solve(r, np.linalg.solve(r.T, error))
        if (np.sign(coefficients) != signs).any():
            return None
        out[support] = coefficients
    slope = atoms @ (y - out @ atoms)
    holds = np.abs(slope[support] - alpha * np.sign(out[support])).max(initial=0.0) < 1e-13
    rest = np.delete(slope, support)
    return out if holds and (np.abs(rest) <= alpha * (1 + 1e-12)).all() else None


def class_residuals(atoms, labels, classes, queries, codes):
    """r_k = |y - Y_k x_k|."""
    parts = [np.linalg.norm(queries - codes[:, labels == k] @ atoms[labels == k], axis=1) for k in classes]
    return np.stack(parts, axis=1)


# --- tails --------------------------------------------------------------------------------------


def fit_tail(errors, tail_size):
    """Fit the excesses above u, the largest error outside the tail, by maximum likelihood over xi >= -1.

    Errors that differ by at most 1e-10 of the largest (a sample coded by the same atoms in two repeats) are ties.
    """
    r = np.sort(errors)
    k = min(max(1, round(tail_size * len(r))), len(r) - 1)
    u = r[-k - 1]
    z = r[-k:] - u
    ties = 1e-10 * np.abs(r).max()
    z = z[z > ties]
    assert len(z), "a tail of nothing but ties is not for this reference"
    different = 1 + np.count_nonzero(np.diff(z) > ties)
    if different < FEWEST_EXCESSES:
        return Tail(u, z.mean(), 0.0)
    return Tail(u, *maximum_likelihood(z))


def maximum_likelihood(z):
    """Return (sigma, xi) of greatest likelihood: grid of theta = xi/sigma, Brent's method, Newton's in decimals.

    On the ray of a theta the best xi is mean log(1 + theta z), and sigma = xi/theta.
    """
    z = np.asarray(z, dtype=float)
    top, n = z.max(), len(z)
    s = z / top
    # Both sides of theta = 0, dense at the end point theta = -1, at 0 and far out.
    fine = np.logspace(-9, 0, 1500)
    grid = np.concatenate([fine - 1.0, -fine[::-1], fine, np.logspace(0, 6, 1000)])
    grid = np.unique(grid[(grid > -1.0) & (np.abs(grid) > 1e-10)])
    xis = np.log1p(np.outer(grid, s)).mean(axis=1)
    grid = grid[xis > -1.0]

    def loss(theta):
        xi = np.log1p(theta * s).mean()
        return np.log(xi / theta) + xi + 1.0 if xi > -1.0 else np.inf

    values = np.array([loss(t) for t in grid])
    best, answer = 0.0, (top, -1.0)  # the uniform distribution on (0, top), at the boundary
    inner = np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])) + 1
    for i in inner:
        found = minimize_scalar(loss, bounds=(grid[i - 1], grid[i + 1]), method="bounded", options={"xatol": 1e-13})
        if found.fun < best:
            best, answer = found.fun, _newton(z, found.x / top)
    if answer[1] > -1.0:
        _check_score(z, *answer)
    assert np.isfinite(best) and n == len(z)
    return answer


def _newton(z, theta):
    """Return the root of the profile likelihood's slope, in sixty digits: nothing cancels, however small theta is."""
    with localcontext() as context:
        context.prec = DIGITS
        values, t, n = [Decimal(float(v)) for v in z], Decimal(float(theta)), Decimal(len(z))
        for _ in range(60):
            inside = [1 + t * v for v in values]
            xi = sum(a.ln() for a in inside) / n
            first = sum(v / a for v, a in zip(values, inside, strict=True)) / n
            second = sum((v / a) ** 2 for v, a in zip(values, inside, strict=True)) / n
            slope = 1 / t - first * (1 + 1 / xi)
            curvature = -1 / t**2 + second * (1 + 1 / xi) + (first / xi) ** 2
            step = slope / curvature
            t -= step
            if abs(step) < abs(t) * Decimal(10) ** -40:
                break
        else:
            raise AssertionError("Newton's method did not settle")
        xi = sum((1 + t * v).ln() for v in values) / n
        return float(xi / t), float(xi)


def _check_score(z, sigma, xi):
    """Check that both derivatives of the log-likelihood vanish, as far as rounding sigma and xi to floats allows."""
    with localcontext() as context:
        context.prec = DIGITS
        s, x = Decimal(sigma), Decimal(xi)
        terms = [Decimal(float(v)) / s for v in z]
        by_sigma = sum(-1 + (1 + x) * v / (1 + x * v) for v in terms)
        by_xi = sum((1 + x * v).ln() / x**2 - (1 + 1 / x) * v / (1 + x * v) for v in terms)
        largest = max(abs(v / (1 + x * v)) for v in terms)
        rounding = Decimal("1e-13") * len(z) * (1 + largest) ** 2
        assert abs(by_sigma) < rounding
        assert abs(by_xi) < rounding


# --- the two algorithms ------------------------------------------------------------------------


def train(X, y, problem, *, seed, n_repeats, tail_size, weight, holdout=0.2):
    """Algorithm 2: the errors of held-out samples, repeat by repeat, and a tail of each kind for every class."""
    order = np.argsort(y, kind="stable")
    atoms, labels = unit_rows(np.asarray(X, dtype=float)[order]), np.asarray(y)[order]
    classes, sizes = np.unique(labels, return_counts=True)
    ends = np.cumsum(sizes)
    slices = [slice(int(e - s), int(e)) for s, e in zip(sizes, ends, strict=True)]
    matched, nonmatched = {k: [] for k in classes}, {k: [] for k in classes}
    for held in draw_cross_splits(slices, n_repeats, holdout, check_random_state(seed)):
        rest = np.setdiff1d(np.arange(len(atoms)), held)
        codes = codes_of(atoms[rest], atoms[held], problem)
        residuals = class_residuals(atoms[rest], labels[rest], classes, atoms[held], codes)
        for row, truth in zip(residuals, labels[held], strict=True):
            own = classes == truth
            matched[truth].append(row[own].item())
            nonmatched[truth].append(row[~own].sum())
    tails = []
    for errors, sign in ((matched, 1.0), (nonmatched, -1.0)):
        shared = np.concatenate([errors[k] for k in classes])
        own = [errors[k] if n >= FEWEST_SAMPLES else shared for k, n in zip(classes, sizes, strict=True)]
        tails.append([fit_tail(sign * np.asarray(e), tail_size) for e in own])
    return Model(atoms, labels, classes, problem, *tails, weight)


def scores(model, X):
    """Algorithm 3: the candidate class k* of each sample and S = G_m(r_m - u_m) + w G_nm(-r_nm - u_nm)."""
    queries = unit_rows(np.asarray(X, dtype=float))
    codes = codes_of(model.atoms, queries, model.problem)
    residuals = class_residuals(model.atoms, model.labels, model.classes, queries, codes)
    best = residuals.argmin(axis=1)
    S = []
    for r, k in zip(residuals, best, strict=True):
        r_m = r[k]
        r_nm = sum(r[i] for i in range(len(r)) if i != k)
        S.append(model.matched[k].cdf(r_m) + model.weight * model.nonmatched[k].cdf(-r_nm))
    return model.classes[best], np.array(S)


def decide(model, X, delta, unknown):
    """Return unknown if S > delta, else k*."""
    candidate, S = scores(model, X)
    return np.where(delta < S, unknown, candidate)

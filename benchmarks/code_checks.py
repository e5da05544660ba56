r"""Independent checks of codes: objective, residual, violation and duality gap from raw features in float64.

They share no code with any solver, ours included, and see only atoms, queries, the problem and the codes.
With atoms as the columns of :math:`Y`, residual :math:`r = y - Yx` and :math:`c = \|Y^T r\|_\infty`:

* Lasso, :math:`P = \tfrac12\|r\|^2 + \alpha\|x\|_1`. Any :math:`\theta` with
  :math:`\|Y^T\theta\|_\infty \le \alpha` bounds the optimum from below by
  :math:`\langle y,\theta\rangle - \tfrac12\|\theta\|^2`; here :math:`\theta = s\,r` with the best feasible
  :math:`s`.
* Reachable BPDN, :math:`P = \|x\|_1`. The bound is :math:`\langle y,v\rangle - \epsilon\|v\|` with
  :math:`\|Y^T v\|_\infty \le 1`; here :math:`v = r/c`. The violation is :math:`(\|r\| - \epsilon)_+/\|y\|`.
* Unreachable BPDN (:math:`\epsilon` at or below the least-squares residual) means
  :math:`\min\|x\|_1` subject to :math:`Yx = Py`, with :math:`P` the projector onto the span of the atoms.
  The bound is :math:`\langle Py,v\rangle` with :math:`\|Y^T v\|_\infty \le 1`, where :math:`v` is built from
  the support :math:`A` of x, :math:`v = Y_A G_{AA}^{+}\operatorname{sign}(x_A)`, and scaled down if it is
  too long. If that is not enough, a small linear program finds the best :math:`v` with these signs on the
  support. The violation is :math:`\|Y^T r\|_\infty/\|y\|`.

The relative gap is :math:`(P - D)/P`, or 0 if :math:`P = 0`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.problems import Array, Problem
from srosr import Lasso

GAP_TOL = 1e-6
VIOLATION_TOL = 1e-6
SUPPORT_CUTS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
"""Entries up to ``cut * max|x|`` count as zero when the support is determined: iterative solvers leave tiny
entries. Every cut gives a valid lower bound, and the best is kept, so a solver can only benefit."""
LP_SECONDS = 10.0
"""Time limit for one linear program."""
CHUNK = 256


class Reference:
    """The span of the atoms, from a singular value decomposition.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)

    Attributes
    ----------
    rank : int
        Number of singular values above ``max(n_atoms, n_features) * eps`` times the largest (the convention
        of `numpy.linalg.matrix_rank` and of its ``lstsq``).
    """

    def __init__(self, atoms: Array) -> None:
        self.atoms = np.asarray(atoms, dtype=np.float64)
        n_atoms, n_features = self.atoms.shape
        # More atoms than features: the triangular factor has the same singular values and row space.
        small = np.linalg.qr(self.atoms, mode="r") if n_atoms > n_features else self.atoms
        left, values, right = np.linalg.svd(small, full_matrices=False)
        self.rank_tolerance = max(self.atoms.shape) * np.finfo(np.float64).eps
        self.rank = int(np.sum(values > self.rank_tolerance * values[0]))
        self._basis = right[: self.rank]  # orthonormal rows: a basis of the span
        self._atoms_in_span = self.atoms @ self._basis.T
        self._inverse = left / values if self.rank == n_atoms else None

    def project(self, queries: Array) -> Array:
        """Return the coordinates of ``P y`` in the basis of the span."""
        return np.asarray(queries @ self._basis.T)

    def least_squares_residual(self, queries: Array) -> Array:
        """Return ``min_x ||y - Yx||`` for every query."""
        return np.asarray(np.linalg.norm(queries - self.project(queries) @ self._basis, axis=1))

    def projection_bound(self, queries: Array, codes: Array) -> Array:
        """Return a lower bound on ``min ||x||_1 s.t. Yx = Py`` from the supports and signs of given codes."""
        targets = self.project(queries)
        if self._inverse is not None:  # independent atoms: any signs are possible, one product for all
            duals = np.sign(codes) @ self._inverse
            longest = np.abs(duals @ self._atoms_in_span.T).max(axis=1)
            return np.einsum("ij,ij->i", targets, duals) / np.maximum(longest, 1.0)
        return np.array([self._bound_from_support(t, x) for t, x in zip(targets, codes, strict=True)])

    def _bound_from_support(self, target: Array, code: Array) -> float:
        """Return the best bound over the cuts; linear programs are used only where cheap vectors fail."""
        size = np.abs(code)
        supports = {}
        for cut in SUPPORT_CUTS:
            support = size > cut * size.max()
            supports[int(support.sum())] = support
        supports.pop(0, None)
        best = 0.0
        for refine in (False, True):
            for support in supports.values():
                dual = self._dual_of_support(target, support, np.sign(code[support]), refine)
                longest = np.abs(self._atoms_in_span @ dual).max()
                best = max(best, float(target @ dual) / max(longest, 1.0))
                if best >= (1 - 0.1 * GAP_TOL) * size.sum():
                    return best
        return best

    def _dual_of_support(self, target: Array, support: NDArray[np.bool_], signs: Array, refine: bool) -> Array:
        """Return the shortest v with the given signs on the support or, refined, the best of all such v.

        If the support has fewer atoms than the span has dimensions, v is free in the rest of them, and a small linear
        program finds the best one that keeps every other atom's product within one.
        """
        left, values, right = np.linalg.svd(self._atoms_in_span[support], full_matrices=True)
        rank = int(np.sum(values > self.rank_tolerance * values[0]))
        dual = right[:rank].T @ (left[:, :rank].T @ signs / values[:rank])
        free = right[rank:].T
        if not refine or free.shape[1] == 0 or support.all():
            return np.asarray(dual)
        others = self._atoms_in_span[~support]
        slopes, products = others @ free, others @ dual
        program = linprog(
            -(target @ free),
            A_ub=np.vstack([slopes, -slopes]),
            b_ub=np.concatenate([1 - products, 1 + products]),
            bounds=(None, None),
            method="highs-ds",
            options={"time_limit": LP_SECONDS},
        )
        return np.asarray(dual if program.x is None else dual + free @ program.x)


@dataclass(frozen=True)
class Verdict:
    """Results of checking codes, one entry per sample."""

    objective: Array
    residual_norm: Array
    violation: Array
    gap: Array
    infeasible: NDArray[np.bool_]

    @property
    def certified(self) -> NDArray[np.bool_]:
        """Return whether gap and violation are both within tolerance."""
        return (self.violation <= VIOLATION_TOL) & (self.gap <= GAP_TOL)

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Return whether the objective can be compared: the constraint holds, and well enough.

        On ill-conditioned atoms, a violation within tolerance can still allow an objective below the optimum, which
        shows as a negative gap. Such an objective is no reference for others.
        """
        return (self.violation <= VIOLATION_TOL) & (self.gap >= -GAP_TOL) & np.isfinite(self.objective)


def check_codes(
    atoms: Array,
    queries: Array,
    problem: Problem,
    codes: NDArray | sp.sparray | sp.spmatrix,
    reference: Reference | None = None,
) -> Verdict:
    """Check codes against the problem they claim to solve.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
    queries : ndarray of shape (n_queries, n_features)
    problem : BPDN or Lasso
    codes : array or sparse array of shape (n_queries, n_atoms)
    reference : Reference, optional
        The reference of ``atoms``, if already computed. Only BPDN needs it.

    Returns
    -------
    Verdict
        Samples with codes that are not finite have an infinite objective, violation and gap.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import Lasso
    >>> check_codes(np.eye(2), np.array([[0.6, 0.8]]), Lasso(0.1), np.array([[0.5, 0.7]])).gap.round(12)
    array([0.])
    """
    atoms = np.asarray(atoms, dtype=np.float64)
    queries = np.asarray(queries, dtype=np.float64)
    if codes.shape != (len(queries), len(atoms)):
        raise ValueError(f"codes have shape {codes.shape}, expected {(len(queries), len(atoms))}")
    if not isinstance(problem, Lasso) and reference is None:
        reference = Reference(atoms)
    rows = sp.csr_array(codes) if sp.issparse(codes) else codes
    parts = []
    for start in range(0, len(queries), CHUNK):
        part = rows[start : start + CHUNK]
        dense = part.toarray() if sp.issparse(part) else np.array(part, dtype=np.float64)
        parts.append(_check_chunk(atoms, queries[start : start + CHUNK], problem, dense, reference))
    return Verdict(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Verdict)))


def _check_chunk(atoms: Array, queries: Array, problem: Problem, codes: Array, reference: Reference | None) -> Verdict:
    broken = ~np.isfinite(codes).all(axis=1)
    codes[broken] = 0.0
    residuals = queries - codes @ atoms
    norm = np.linalg.norm(residuals, axis=1)
    correlation = np.abs(residuals @ atoms.T).max(axis=1)
    length = np.linalg.norm(queries, axis=1)
    inner = np.einsum("ij,ij->i", queries, residuals)
    l1 = np.abs(codes).sum(axis=1)
    infeasible = np.zeros(len(queries), dtype=bool)

    if isinstance(problem, Lasso):
        objective = 0.5 * norm**2 + problem.alpha * l1
        limit = problem.alpha / np.maximum(correlation, np.finfo(float).tiny)
        scale = np.clip(inner / np.maximum(norm**2, np.finfo(float).tiny), -limit, limit)
        bound = scale * inner - 0.5 * (scale * norm) ** 2
        violation = np.zeros_like(norm)
    else:
        assert reference is not None
        objective = l1
        infeasible = reference.least_squares_residual(queries) >= problem.epsilon
        bound = (inner - problem.epsilon * norm) / np.maximum(correlation, np.finfo(float).tiny)
        excess = np.maximum(norm - problem.epsilon, 0.0)
        if infeasible.any():
            bound[infeasible] = reference.projection_bound(queries[infeasible], codes[infeasible])
            excess[infeasible] = correlation[infeasible]
        violation = excess / np.where(length > 0, length, 1.0)

    bound = np.maximum(bound, 0.0)  # v = 0 is always feasible
    gap = np.divide(objective - bound, objective, out=np.zeros_like(objective), where=objective > 0)
    for values in (objective, violation, gap):
        values[broken] = np.inf
    return Verdict(objective, norm, violation, gap, infeasible)

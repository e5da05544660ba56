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
from scipy import linalg

from ..._support.array_types import Array, IntArray
from ..._support.compiled import entry_point, inner
from ..batch import Batch
from ..sparse_rows import to_sparse_rows
from .active_set import correlate
from .block_inverse import append, enlarge_inverse, make_inverse, multiply, remove
from .forward_path import ForwardPath
from .least_squares import factor_gram, invert_factor
from .solver import Solution, Solver
from .workspace import LOST, OUT_OF_STEPS, REACHED, STOPPED

# A path is followed from least squares if the least-squares residual exceeds this share of epsilon (measured: the two
# ends cost the same there), and given up if more than this share of the atoms is inactive.
_NEAR_LEAST_SQUARES = 0.78
_MOST_INACTIVE = 0.6
# Multiplications for a sample relative to the squared number of atoms, with the inverse of the Gram matrix and with its
# factor.
_INVERSE_COST = 2.0
_FACTOR_COST = 10.0
# Factor on the estimated norm of an inverse.
_ESTIMATE_MARGIN = 100.0


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


class ReversePath(Solver):
    """BPDN over independent atoms, by the inverse of the Gram matrix.

    An epsilon out of reach is least squares, one that is nearly so is reached from there, and the others from the
    beginning of the path.
    """

    factors = True

    @classmethod
    def supports(cls, batch: Batch) -> bool:
        """Return whether a path to a residual is asked for over atoms that can be independent."""
        end, atoms = batch.problem.path_end, batch.dictionary.linear_atoms
        may_be_independent = atoms is None or batch.n_atoms <= atoms.shape[1]
        return end is not None and end.at_residual and batch.gram is not None and may_be_independent

    @classmethod
    def cost(cls, batch: Batch) -> float:
        """Count the inverse and its products with samples."""
        return batch.n_atoms**3 + _INVERSE_COST * batch.n_samples * batch.n_atoms**2

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self.epsilon = batch.problem.require_path_end().goal
        is_independent = self._factor()
        if is_independent:
            batch.bound_inverse = self._bound_inverse
        self.forward = ForwardPath(batch, are_independent=is_independent)

    def _factor(self) -> bool:
        """Factor the Gram matrix; return whether its atoms are independent."""
        return self._get_inverse() is not None

    def _get_inverse(self) -> Array | None:
        """Return the inverse of the Gram matrix, None if its atoms are dependent; the dictionary keeps it."""
        gram = self.batch.gram
        assert gram is not None
        return self.batch.keep("inverse", lambda: invert_factor(factor_gram(gram)))

    def _bound_inverse(self) -> float:
        """Return N times a bound on the norm of the inverse, for unit atoms."""
        gram, inverse = self.batch.gram, self._get_inverse()
        assert gram is not None and inverse is not None
        return len(gram) * float(np.diagonal(inverse) @ np.diagonal(gram))

    def _solve_gram(self, right: Array) -> Array:
        """Return the rows x of Gx = right."""
        inverse = self._get_inverse()
        assert inverse is not None
        return right @ inverse

    def _explain(self, cross: Array) -> tuple[Array, Array | None]:
        """Return the squared lengths of samples in the span, and their least-squares codes if that takes them."""
        fit = self._solve_gram(cross)
        return np.einsum("ij,ij->i", cross, fit), fit

    def solve(self, cross: Array, squared_norms: Array) -> Solution:
        """Solve a chunk of samples, each from the end of its path that is closer."""
        if not self.forward.are_independent:
            return self.forward.solve(cross, squared_norms)
        epsilon = self.epsilon
        explained, fit = self._explain(cross)
        floor = np.sqrt(np.maximum(squared_norms - explained, 0.0))
        near = (floor > _NEAR_LEAST_SQUARES * epsilon) & (squared_norms > epsilon * epsilon)
        out_of_reach: IntArray = np.flatnonzero(near & (floor >= epsilon))
        close: IntArray = np.flatnonzero(near & (floor < epsilon))
        if not near.any():
            return self.forward.solve(cross, squared_norms)
        rows = np.concatenate([out_of_reach, close])
        start = self._solve_gram(cross[rows]) if fit is None else fit[rows]
        solution, lost = self._start_from_least_squares(cross[rows], squared_norms[rows], start, len(out_of_reach))
        parts = [(rows[~lost], solution.take(np.flatnonzero(~lost)))]
        front = np.concatenate([np.flatnonzero(~near), rows[lost]])
        if len(front):
            parts.append((front, self.forward.solve(cross[front], squared_norms[front])))
        return Solution.merge(len(cross), *parts)

    def _start_from_least_squares(
        self, cross: Array, squared_norms: Array, fit: Array, n_out_of_reach: int
    ) -> tuple[Solution, np.ndarray]:
        """Return codes by least squares, from the given row on followed back to epsilon, and which got lost."""
        batch, gram = self.batch, self.batch.gram
        assert gram is not None
        fit = np.add(fit, self._solve_gram(cross - fit @ gram))  # a round of iterative refinement
        duals = self._solve_gram(np.sign(fit))
        steps, endings = np.ones(len(cross), np.int64), np.full(len(cross), REACHED)
        close = slice(n_out_of_reach, None)
        if n_out_of_reach < len(cross):
            fit[close], steps[close], endings[close] = follow_paths_back(
                gram, self._get_inverse(), cross[close], squared_norms[close], fit[close], duals[close],
                self.epsilon, int(_MOST_INACTIVE * len(gram)), batch.max_steps, batch.stop,
            )  # fmt: skip
            duals[close] = 0.0
        solution = Solution(to_sparse_rows(fit), steps, endings == OUT_OF_STEPS, to_sparse_rows(duals))
        return solution, endings == LOST


class FactoredPath(ReversePath):
    """The same for few samples, by the Cholesky factor, at a third of the cost of the inverse.

    The inverse is computed only if a sample is close to least squares: its path from the front would cost more.
    """

    @classmethod
    def cost(cls, batch: Batch) -> float:
        """Count the factor and the paths."""
        return batch.n_atoms**3 / 3 + _FACTOR_COST * batch.n_samples * batch.n_atoms**2

    def _factor(self) -> bool:
        return self._get_factor() is not None

    def _get_factor(self) -> Array | None:
        """Return the factor of the Gram matrix, None if its atoms are dependent; the dictionary keeps it."""
        gram = self.batch.gram
        assert gram is not None
        return self.batch.keep("factor", lambda: factor_gram(gram))

    def _get_inverse(self) -> Array | None:
        factor = self._get_factor()
        return self.batch.keep("inverse", lambda: invert_factor(factor))

    def _bound_inverse(self) -> float:
        gram = self.batch.gram
        assert gram is not None
        reciprocal, _ = linalg.lapack.dpocon(self._get_factor(), 1.0, uplo="L")
        # The estimate is within a small factor of the truth; what it bounds is many orders of magnitude smaller.
        return len(gram) * _ESTIMATE_MARGIN * float(np.diagonal(gram).max()) / reciprocal if reciprocal else np.inf

    def _solve_gram(self, right: Array) -> Array:
        return np.ascontiguousarray(linalg.cho_solve((self._get_factor(), True), right.T, check_finite=False).T)

    def _explain(self, cross: Array) -> tuple[Array, Array | None]:
        half = linalg.solve_triangular(self._get_factor(), cross.T, lower=True, check_finite=False)
        return np.einsum("ij,ij->j", half, half), None

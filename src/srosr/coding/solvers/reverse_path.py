"""Codes by the homotopy path from the end that is closer: over independent atoms that can be least squares."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ..._support.array_types import Array, IntArray
from ..batch import Batch
from ..sparse_rows import to_sparse_rows
from .forward_path import ForwardPath
from .least_squares import factor_gram, invert_factor
from .reverse_homotopy import follow_paths_back
from .solver import Solution, Solver
from .workspace import LOST, OUT_OF_STEPS, REACHED

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

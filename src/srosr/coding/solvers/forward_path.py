"""Codes by the homotopy path from its beginning, where the code is zero."""

from __future__ import annotations

import numpy as np

from ..._support.array_types import Array, IntArray
from ..batch import Batch
from ..spectrum import Spectrum
from .homotopy import Paths, follow_paths
from .solver import Solution, Solver
from .workspace import DOUBTFUL, OUT_OF_STEPS

# Multiplications of a path, relative to the squared number of atoms; and of a path to an epsilon out of reach, relative
# to its third power, of which a batch is assumed to have one. Over more atoms than that the span is asked in time.
_PATH_COST = 10.0
_LOST_PATH_COST = 3.0
_LOST_PATH_ATOMS = 1024
# Over dependent atoms the reach of an epsilon below this share of a sample's length is decided before coding.
_SMALL_EPSILON = 0.02
# Squared epsilon, relative to a sample's squared length, that is lost in the rounding of a squared residual.
_ZERO = 1e-15
# The level, relative to the first, at which it is decided whether a path can reach a larger epsilon at all.
_DOUBT = 1e-4


def find_out_of_reach(epsilon: float, cross: Array, squared_norms: Array, spectrum: Spectrum) -> np.ndarray:
    """Return which samples no code brings within epsilon, or for which epsilon is as good as zero."""
    nothing = epsilon * epsilon <= max(_ZERO, spectrum.reach_blur) * squared_norms
    return (spectrum.compute_least_squares_residual(cross, squared_norms) > epsilon) | nothing


class ForwardPath(Solver):
    """The homotopy path with the whole Gram matrix.

    Over atoms that may be dependent, an epsilon out of reach makes a path long, or lost. So samples whose epsilon is
    clearly out of reach are left to the fallback solver, and a path that gets so low that its epsilon is likely to be
    out of reach is followed further only if the span of the atoms says that it is not.
    """

    @classmethod
    def supports(cls, batch: Batch) -> bool:
        """Return whether a path solves the problem and the Gram matrix is there."""
        return batch.problem.path_end is not None and batch.gram is not None

    @classmethod
    def cost(cls, batch: Batch) -> float:
        """Count the paths, and one to an epsilon out of reach."""
        paths = _PATH_COST * batch.n_samples * batch.n_atoms**2
        at_residual, _ = batch.problem.require_path_end()
        return paths + (_LOST_PATH_COST * min(batch.n_atoms, _LOST_PATH_ATOMS) ** 3 if at_residual else 0.0)

    def __init__(self, batch: Batch, *, are_independent: bool = False) -> None:
        super().__init__(batch)
        self.are_independent = are_independent
        self.at_residual, self.goal = batch.problem.require_path_end()

    def solve(self, cross: Array, squared_norms: Array) -> Solution:
        """Follow the paths of a chunk of samples, except those to an epsilon clearly out of reach."""
        if not self.at_residual or self.are_independent:
            return self._follow(cross, squared_norms)
        asked = self._find_small_epsilon(squared_norms)
        spectrum = self.batch.spectrum if asked.any() else None
        if spectrum is None:
            return self._follow(cross, squared_norms)
        out_of_reach = asked & find_out_of_reach(self.goal, cross, squared_norms, spectrum)
        if not out_of_reach.any():
            return self._follow(cross, squared_norms)
        rows = np.flatnonzero(~out_of_reach)
        return Solution.merge(len(cross), (rows, self._follow(cross[rows], squared_norms[rows])))

    def _follow(self, cross: Array, squared_norms: Array) -> Solution:
        """Follow paths; those that end in doubt are followed again if the span says that epsilon is in reach."""
        asks = self.at_residual and not self.are_independent and not self._find_small_epsilon(squared_norms).all()
        paths = self._follow_paths(cross, squared_norms, _DOUBT if asks else 0.0)
        solution = self._to_solution(paths)
        doubtful: IntArray = np.flatnonzero(paths.endings == DOUBTFUL)
        spectrum = self.batch.spectrum if len(doubtful) else None
        if spectrum is not None:
            doubtful = doubtful[~find_out_of_reach(self.goal, cross[doubtful], squared_norms[doubtful], spectrum)]
        if len(doubtful) == 0:
            return solution
        others: IntArray = np.setdiff1d(np.arange(len(cross)), doubtful)
        again = self._to_solution(self._follow_paths(cross[doubtful], squared_norms[doubtful], 0.0))
        return Solution.merge(len(cross), (others, solution.take(others)), (doubtful, again))

    def _follow_paths(self, cross: Array, squared_norms: Array, doubt: float) -> Paths:
        batch = self.batch
        assert batch.gram is not None
        return follow_paths(
            batch.gram,
            cross,
            squared_norms,
            is_bpdn=self.at_residual,
            goal=self.goal,
            max_steps=batch.path_steps if self.at_residual else batch.max_steps,
            stop=batch.stop,
            doubt=doubt,
        )

    def _to_solution(self, paths: Paths) -> Solution:
        duals = paths.duals if self.at_residual else None
        return Solution(paths.codes, paths.steps, paths.endings == OUT_OF_STEPS, duals)

    def _find_small_epsilon(self, squared_norms: Array) -> np.ndarray:
        """Return for which samples epsilon is so small that its reach is decided before coding."""
        return np.asarray(self.goal <= _SMALL_EPSILON * np.sqrt(squared_norms))

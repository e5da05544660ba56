"""The coder: a chunk of samples from similarities to certified codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.threads import Job, ThreadPool
from ..dictionary.dictionary import Dictionary, Queries
from .batch import Batch
from .certificate import Certificate, measure
from .least_norm import DualPoints, LeastNorm
from .problems import Problem
from .repair import Repair
from .solvers import choose_solver
from .solvers.solver import Solution, Solver
from .sparse_rows import SparseRows


@dataclass(frozen=True)
class Part:
    """Codes of one chunk."""

    codes: SparseRows
    certificate: Certificate
    steps: IntArray


class Coder:
    """Codes the chunks of a batch: solve, certify, solve again what is not certified, choose among optimal codes.

    Parameters
    ----------
    dictionary, problem, tol, max_iter, n_samples :
        See :class:`.batch.Batch`.
    pool : ThreadPool
        For the Gram matrix and its factor; :meth:`wait` for them before :meth:`encode`.
    """

    def __init__(
        self, dictionary: Dictionary, problem: Problem, tol: float, max_iter: int | None, n_samples: int,
        pool: ThreadPool,
    ) -> None:  # fmt: skip
        self.batch = Batch(dictionary, problem, tol, max_iter, n_samples, pool)
        self.repair = None if problem.path_end is None else Repair(self.batch)
        self.least_norm = LeastNorm(self.batch)
        solver = choose_solver(self.batch)
        #: Samples coded together, and those of which similarities should be there at a time.
        self.chunk, self.n_held = solver.count_chunk(self.batch)
        self._solver: Solver | None = None
        self._factoring: Job | None = None
        if solver.factors:
            self.batch.wait_for_gram()
            self._factoring = pool.submit(solver, self.batch)
        else:
            self._solver = solver(self.batch)

    def wait(self) -> None:
        """Wait for the Gram matrix and its factor."""
        self.batch.wait_for_gram()
        if self._factoring is not None:
            self._solver = self._factoring.result()

    def encode(self, queries: Queries, chunk: slice) -> Part:
        """Solve, certify, hand what is not certified to the fallback solver, and return the codes of least norm."""
        assert self._solver is not None
        cross, squared_norms = queries.cross[chunk], queries.squared_norms[chunk]
        return self.finish(self._solver.solve(cross, squared_norms), cross, squared_norms)

    def finish(self, solution: Solution, cross: Array, squared_norms: Array) -> Part:
        """Do with the codes of a solver what follows the solution: :meth:`encode` without it."""
        batch, repair = self.batch, self.repair
        codes, steps, out_of_steps, duals, unsolved = solution
        measures = measure(codes, cross, squared_norms, batch.products)
        certificate = batch.problem.certify(measures, batch.tol, duals)
        if repair is None:
            return Part(codes, certificate, steps)
        repair.review(certificate, cross, squared_norms)
        if unsolved is not None:
            certificate.gap[unsolved] = np.inf
        points = DualPoints(duals, np.zeros(len(steps), dtype=bool))
        again: IntArray = np.flatnonzero(~certificate.holds(batch.tol))
        if batch.max_iter is not None:
            again = again[~out_of_steps[again]]
        if len(again):
            again, certificate = repair.certify_in_span(again, codes, certificate, cross, squared_norms, points)
        if len(again) and batch.stop[0] == 0:
            codes, certificate = repair.solve_again(again, codes, certificate, cross, squared_norms, steps, points)
        codes, certificate = self.least_norm.replace_codes(codes, certificate, measures, points)
        return Part(codes, certificate, steps)

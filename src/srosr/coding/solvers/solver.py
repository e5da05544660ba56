"""What a solver declares and returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from ..._support.array_types import Array, IntArray
from ..batch import Batch
from ..sparse_rows import SparseRows, place_rows

#: Samples that are solved together.
CHUNK = 64


class Solution(NamedTuple):
    """Codes of a chunk of samples."""

    codes: SparseRows
    steps: IntArray
    #: Samples whose path was cut off by the limit of steps.
    out_of_steps: np.ndarray
    #: Proposed dual points z of v = Yz, for the certificate.
    duals: SparseRows | None = None
    #: Samples left to the fallback solver, which solves them better.
    unsolved: np.ndarray | None = None

    def take(self, rows: IntArray) -> Solution:
        """Return the solution of some of the samples."""
        duals = None if self.duals is None else self.duals.take(rows)
        unsolved = None if self.unsolved is None else self.unsolved[rows]
        return Solution(self.codes.take(rows), self.steps[rows], self.out_of_steps[rows], duals, unsolved)

    @classmethod
    def merge(cls, n_rows: int, *parts: tuple[IntArray, Solution]) -> Solution:
        """Return one solution of the parts, each with the rows it goes to; rows of no part are unsolved."""
        shape = (n_rows, parts[0][1].codes.shape[1])
        steps, out_of_steps = np.zeros(n_rows, np.int64), np.zeros(n_rows, dtype=bool)
        unsolved = np.ones(n_rows, dtype=bool)
        for rows, part in parts:
            steps[rows], out_of_steps[rows] = part.steps, part.out_of_steps
            unsolved[rows] = False if part.unsolved is None else part.unsolved
        codes = place_rows(shape, *((rows, part.codes) for rows, part in parts))
        duals = [(rows, part.duals) for rows, part in parts if part.duals is not None]
        proposed = place_rows(shape, *duals) if len(duals) == len(parts) else None
        return cls(codes, steps, out_of_steps, proposed, unsolved if unsolved.any() else None)


class Solver(ABC):
    """A solver of one or more problems, constructed once for a batch and asked for one chunk of samples after another.

    It sees Gram quantities alone. Of the solvers that support a batch the one with the least declared cost is taken.
    """

    #: Whether the constructor computes something large from the Gram matrix, which then is waited for.
    factors: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def supports(cls, batch: Batch) -> bool:
        """Return whether the solver can solve the batch's problem over its dictionary."""

    @classmethod
    @abstractmethod
    def cost(cls, batch: Batch) -> float:
        """Return about how many multiplications the batch costs."""

    @classmethod
    def count_chunk(cls, batch: Batch) -> tuple[int, int]:
        """Return how many samples are solved together, and of how many the similarities are best there at a time.

        Fewer spread more evenly over threads, and let Ctrl-C and the progress bar in earlier.
        """
        return CHUNK, CHUNK

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    @abstractmethod
    def solve(self, cross: Array, squared_norms: Array) -> Solution:
        """Solve the problem for a chunk of samples.

        Parameters
        ----------
        cross : ndarray (n, N)
            Inner products of samples and atoms.
        squared_norms : ndarray (n,)
            Squared lengths of the samples.
        """

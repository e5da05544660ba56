"""Solvers of the coding problems: each says what it supports and what it costs, and the cheapest is taken."""

from __future__ import annotations

from ..batch import Batch
from .forward_path import ForwardPath
from .least_squares import RidgeSolver
from .omp import OnDemandPursuit, Pursuit
from .on_demand import OnDemandPath
from .reverse_path import FactoredPath, ReversePath
from .screened_path import ScreenedPath
from .solver import Solver

#: All solvers; a new one is one more line.
SOLVERS: tuple[type[Solver], ...] = (
    RidgeSolver,
    Pursuit,
    OnDemandPursuit,
    ForwardPath,
    ReversePath,
    FactoredPath,
    ScreenedPath,
    OnDemandPath,
)


def choose_solver(batch: Batch) -> type[Solver]:
    """Return the cheapest solver that supports a batch."""
    able = [solver for solver in SOLVERS if solver.supports(batch)]
    if not able:
        raise TypeError(f"no solver supports {batch.problem!r} over {batch.n_atoms} atoms.")
    return min(able, key=lambda solver: solver.cost(batch))

"""The solvers of the coding benchmark, one file each.

An opponent is a module with

``NAME``
    as in the tables and for ``--opponents``;
``REFERENCE``, ``LICENSE``
    its source and its license;
``DISTRIBUTION``
    the installed distribution whose version is recorded;
``BUDGET``
    seconds for one case: on slow problems only a prefix of the queries is solved, and the tables say how many;
    runs are repeated within this time. ``None`` means always all queries and all repeats.
    Queries that ours cannot afford are left out for all;
``TWO_THREADS``
    whether it is also timed with two threads;
``skip_reason()``
    why it cannot run here, or None;
``supports(problem)``
    why it cannot solve this problem, or None;
``solve(atoms, queries, problem, threads)``
    codes, (n_queries, n_atoms), dense or sparse, from raw arrays.

To add one, write such a file and list it in `OPPONENTS`.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Protocol, cast

from numpy.typing import NDArray
from scipy.sparse import sparray, spmatrix

from benchmarks.problems import Array, Problem

OPPONENTS = ("ours", "spams_lars", "spams_products", "spgl1_bpdn", "spgl1_tight", "sklearn_cd", "sklearn_lars")
"""Module names in the order of the tables; ours comes first."""


class Opponent(Protocol):
    """The interface of a module of this package."""

    NAME: str
    REFERENCE: str
    LICENSE: str
    DISTRIBUTION: str
    BUDGET: float | None
    TWO_THREADS: bool

    def skip_reason(self) -> str | None: ...

    def supports(self, problem: Problem) -> str | None: ...

    def solve(self, atoms: Array, queries: Array, problem: Problem, threads: int) -> NDArray | sparray | spmatrix: ...


def load() -> list[Opponent]:
    """Return all opponents, installed or not; ``skip_reason`` tells which can run."""
    return [cast(Opponent, importlib.import_module(f"{__name__}.{name}")) for name in OPPONENTS]


def missing(module: str, distribution: str) -> str | None:
    """Return the reason to skip if ``module`` cannot be imported, else None."""
    if importlib.util.find_spec(module) is None:
        return f"{distribution} is not installed: pip install '.[bench]'"
    return None

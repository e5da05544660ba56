"""SPGL1 at the tightest tolerances it can use, to show what accuracy costs."""

from __future__ import annotations

from benchmarks.opponents import spgl1_bpdn
from benchmarks.opponents.spgl1_bpdn import (
    BUDGET,
    DISTRIBUTION,
    LICENSE,
    REFERENCE,
    TWO_THREADS,
    skip_reason,
    supports,
)
from benchmarks.problems import Array, Problem

__all__ = ["BUDGET", "DISTRIBUTION", "LICENSE", "NAME", "REFERENCE", "TWO_THREADS"]
__all__ += ["skip_reason", "solve", "supports"]

NAME = "SPGL1 tight"
TOLERANCE = {"opt_tol": 1e-9, "bp_tol": 1e-9, "ls_tol": 1e-9, "dec_tol": 1e-4}


def solve(atoms: Array, queries: Array, problem: Problem, threads: int) -> Array:
    """Return the codes of ``spgl1.spg_bpdn`` with `TOLERANCE`."""
    return spgl1_bpdn.solve(atoms, queries, problem, threads, TOLERANCE)

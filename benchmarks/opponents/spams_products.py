"""SPAMS given the Gram matrix and the correlations, computed by NumPy's BLAS within the time.

Users do not call it this way, but it is up to twice as fast on short codes, where its own products take most time.
"""

from __future__ import annotations

from scipy.sparse import spmatrix

from benchmarks.opponents.spams_lars import BUDGET, DISTRIBUTION, LICENSE, REFERENCE, lasso, skip_reason, supports
from benchmarks.problems import Array, Problem

__all__ = ["BUDGET", "DISTRIBUTION", "LICENSE", "NAME", "REFERENCE", "TWO_THREADS", "skip_reason", "solve", "supports"]

NAME = "SPAMS given products"
TWO_THREADS = False


def solve(atoms: Array, queries: Array, problem: Problem, threads: int) -> spmatrix:
    """Return codes computed from products instead of a dictionary."""
    return lasso(queries, problem, threads, Q=atoms @ atoms.T, q=atoms @ queries.T)

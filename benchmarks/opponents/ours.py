"""This project's coder."""

from __future__ import annotations

from scipy.sparse import sparray

from benchmarks.problems import Array, Problem

NAME = "srosr"
REFERENCE = "srosr.sparse_encode: homotopy over the Gram matrix, certified sample by sample"
LICENSE = "BSD-3-Clause"
DISTRIBUTION = "srosr"
BUDGET: float | None = 60.0
TWO_THREADS = True


def skip_reason() -> str | None:
    """Return None: it always runs."""
    return None


def supports(problem: Problem) -> str | None:
    """Return None: it solves both problems."""
    return None


def solve(atoms: Array, queries: Array, problem: Problem, threads: int) -> sparray:
    """Return codes as any user gets them: certificate and fallback count toward the time."""
    from srosr import sparse_encode

    return sparse_encode(queries, atoms, problem, n_jobs=threads).codes

"""SPAMS: LARS-Lasso homotopy in C++, the fastest widely used solver of these problems."""

from __future__ import annotations

import numpy as np
from scipy.sparse import spmatrix

from benchmarks.opponents import missing
from benchmarks.problems import Array, Problem
from srosr import Lasso

NAME = "SPAMS"
REFERENCE = (
    "Mairal, Bach, Ponce & Sapiro, Online learning for matrix factorization and sparse coding, "
    "JMLR 11 (2010); https://thoth.inrialpes.fr/people/mairal/spams/"
)
LICENSE = "GPL-3.0"
DISTRIBUTION = "spams-bin"
BUDGET: float | None = 60.0
TWO_THREADS = True


def skip_reason() -> str | None:
    """Return why it cannot run: it needs the extra ``bench``."""
    return missing("spams", DISTRIBUTION)


def supports(problem: Problem) -> str | None:
    """Return None: its mode 2 is the Lasso, and its mode 1 bounds the squared residual."""
    return None


def lasso(queries: Array, problem: Problem, threads: int, **dictionary: Array) -> spmatrix:
    """Return the codes of ``spams.lasso`` for a dictionary D, or for the products Q and q."""
    import spams

    if isinstance(problem, Lasso):
        mode, level = 2, problem.alpha
    else:
        mode, level = 1, problem.epsilon**2
    arrays = {name: np.asfortranarray(values) for name, values in dictionary.items()}
    codes = spams.lasso(np.asfortranarray(queries.T), **arrays, lambda1=level, mode=mode, L=-1, numThreads=threads)
    return codes.T


def solve(atoms: Array, queries: Array, problem: Problem, threads: int) -> spmatrix:
    """Return codes from samples and dictionary, as its users call it."""
    return lasso(queries, problem, threads, D=atoms.T)

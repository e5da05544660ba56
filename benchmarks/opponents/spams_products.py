"""SPAMS with the Gram matrix and the correlations handed to it, computed by NumPy's BLAS within the time.

Not how its users call it, but up to twice as fast where codes are short: its own products are the slower part then.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import spmatrix

from benchmarks.opponents import missing
from benchmarks.problems import Array, Problem
from srosr import Lasso

NAME = "SPAMS, products given"
REFERENCE = (
    "Mairal, Bach, Ponce & Sapiro, Online learning for matrix factorization and sparse coding, "
    "JMLR 11 (2010); https://thoth.inrialpes.fr/people/mairal/spams/"
)
LICENCE = "GPL-3.0"
DISTRIBUTION = "spams-bin"
BUDGET: float | None = 60.0
TWO_THREADS = False


def skip_reason() -> str | None:
    """Needs the ``bench`` extra."""
    return missing("spams", DISTRIBUTION)


def supports(problem: Problem) -> str | None:
    """Both problems: its mode 2 is the Lasso, its mode 1 bounds the squared residual."""
    return None


def solve(atoms: Array, queries: Array, problem: Problem, threads: int) -> spmatrix:
    """Codes by ``spams.lasso`` from products instead of a dictionary."""
    import spams

    if isinstance(problem, Lasso):
        mode, level = 2, problem.alpha
    else:
        mode, level = 1, problem.epsilon**2
    codes = spams.lasso(
        np.asfortranarray(queries.T),
        Q=np.asfortranarray(atoms @ atoms.T),
        q=np.asfortranarray(atoms @ queries.T),
        lambda1=level,
        mode=mode,
        L=-1,
        numThreads=threads,
    )
    return codes.T

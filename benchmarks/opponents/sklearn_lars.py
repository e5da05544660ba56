"""scikit-learn's LARS-Lasso, as its own ``sparse_encode`` runs it."""

from __future__ import annotations

import warnings

from benchmarks.problems import Array, Problem
from srosr import Lasso

NAME = "sklearn LARS"
REFERENCE = (
    "Efron, Hastie, Johnstone & Tibshirani, Least angle regression, Ann. Stat. 32 (2004); https://scikit-learn.org"
)
LICENSE = "BSD-3-Clause"
DISTRIBUTION = "scikit-learn"
BUDGET: float | None = 10.0
TWO_THREADS = False

MAX_ITER = 10_000
"""Maximum steps of the path: never reached here, while scikit-learn's default of 1000 can be."""


def skip_reason() -> str | None:
    """Return None: scikit-learn is a dependency of the project."""
    return None


def supports(problem: Problem) -> str | None:
    """Return why the problem is not supported: the path can stop at a penalty or at a number of atoms only."""
    return None if isinstance(problem, Lasso) else "scikit-learn's LARS path has no residual bound"


def solve(atoms: Array, queries: Array, problem: Problem, threads: int) -> Array:
    r"""Return the codes of ``sparse_encode(algorithm="lasso_lars")``; its ``alpha`` is our :math:`\alpha`."""
    from sklearn.decomposition import sparse_encode
    from sklearn.exceptions import ConvergenceWarning

    assert isinstance(problem, Lasso)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return sparse_encode(queries, atoms, algorithm="lasso_lars", alpha=problem.alpha, max_iter=MAX_ITER, n_jobs=1)

"""scikit-learn's Lasso: cyclic coordinate descent over a precomputed Gram matrix."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.code_checks import GAP_TOL
from benchmarks.problems import Array, Problem
from srosr import Lasso

NAME = "sklearn CD"
REFERENCE = (
    "Friedman, Hastie & Tibshirani, Regularization paths for generalized linear models via coordinate "
    "descent, J. Stat. Softw. 33 (2010); https://scikit-learn.org"
)
LICENSE = "BSD-3-Clause"
DISTRIBUTION = "scikit-learn"
BUDGET: float | None = 10.0
TWO_THREADS = False

MAX_ITER = 100_000


def skip_reason() -> str | None:
    """Return None: scikit-learn is a dependency of the project."""
    return None


def supports(problem: Problem) -> str | None:
    """Return why the problem is not supported: this solves the Lasso only."""
    return None if isinstance(problem, Lasso) else "scikit-learn's Lasso has no residual bound"


def solve(atoms: Array, queries: Array, problem: Problem, threads: int) -> Array:
    r"""Return the codes of `sklearn.linear_model.Lasso`, with all queries as targets of one fit.

    It divides the squared error by the number of rows, here M features, so its penalty is :math:`\alpha/M`.
    It stops at a duality gap of ``tol * ||y||²``; with unit atoms the optimum is at least
    :math:`\alpha(1 - \alpha/2)\|y\|^2` (the bound of :math:`\theta = \alpha y`), so the ``tol`` below requests
    the relative gap that certifies a code, and no more.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso as CoordinateDescent

    assert isinstance(problem, Lasso)
    dictionary = np.asfortranarray(atoms.T)
    model = CoordinateDescent(
        alpha=problem.alpha / dictionary.shape[0],
        fit_intercept=False,
        precompute=atoms @ atoms.T,
        tol=GAP_TOL * problem.alpha * (1 - problem.alpha / 2),
        max_iter=MAX_ITER,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(dictionary, np.asfortranarray(queries.T))
    return np.atleast_2d(model.coef_)

"""SPGL1, the solver of the paper's authors, at its default tolerances, as its users run it."""

from __future__ import annotations

import logging
import warnings

import numpy as np

from benchmarks.opponents import missing
from benchmarks.problems import Array, Problem
from srosr import BPDN

NAME = "SPGL1"
REFERENCE = (
    "van den Berg & Friedlander, Probing the Pareto frontier for basis pursuit solutions, "
    "SIAM J. Sci. Comput. 31 (2008); https://github.com/drrelyea/spgl1"
)
LICENSE = "LGPL-2.1"
DISTRIBUTION = "spgl1"
BUDGET: float | None = 10.0
TWO_THREADS = False

MAX_ITER = 4000
"""The iteration limit that the paper's authors reach if epsilon is unreachable."""
TOLERANCE = {"opt_tol": 1e-4, "bp_tol": 1e-6, "ls_tol": 1e-6, "dec_tol": 1e-4}
"""SPGL1's defaults."""


def skip_reason() -> str | None:
    """Return why it cannot run: it needs the extra ``bench``."""
    return missing("spgl1", DISTRIBUTION)


def supports(problem: Problem) -> str | None:
    """Return why the problem is not supported: this solves BPDN only."""
    return None if isinstance(problem, BPDN) else "SPGL1 has no penalized form"


def solve(
    atoms: Array,
    queries: Array,
    problem: Problem,
    threads: int,
    tolerance: dict[str, float] = TOLERANCE,
) -> Array:
    """Return the codes of ``spgl1.spg_bpdn``, query by query; its line-search warnings are silenced."""
    import spgl1

    assert isinstance(problem, BPDN)
    dictionary = np.ascontiguousarray(atoms.T)
    codes = np.empty((len(queries), len(atoms)))
    logging.getLogger("spgl1").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row, query in enumerate(queries):
            codes[row] = spgl1.spg_bpdn(dictionary, query, problem.epsilon, iter_lim=MAX_ITER, **tolerance)[0]
    return codes

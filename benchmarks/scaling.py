"""Growth of our time with the number of queries and with the number of atoms, on MNIST."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.opponents import Opponent
from benchmarks.problems import Array, Problem, describe, mnist
from benchmarks.timing import Record, clock, warm_up
from srosr import BPDN, Lasso

PROBLEMS: tuple[Problem, ...] = (Lasso(0.05), BPDN(0.3))
QUERIES = (250, 500, 1000, 2000, 4000)
ATOMS_PER_CLASS = (50, 100, 150, 300, 600)
QUERIES_FOR_ATOMS = 500


def fit_exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the least-squares slope of log time over log size: 1 is linear growth.

    Examples
    --------
    >>> round(fit_exponent([1, 2, 4], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _seconds(solver: Opponent, atoms: Array, queries: Array, problem: Problem, repeat: int) -> float:
    warm_up(solver, atoms, queries, problem, 1)
    return min(clock(lambda: solver.solve(atoms, queries, problem, 1))[0] for _ in range(repeat))


def measure_scaling(solver: Opponent, repeat: int, divide: int = 1) -> tuple[list[Record], list[Record]]:
    """Time one solver, one thread, over growing queries and growing dictionaries.

    Parameters
    ----------
    solver : Opponent
    repeat : int
        How often every size is timed; the shortest time counts.
    divide : int, default=1
        Divisor of the numbers of queries, for a quick run.

    Returns
    -------
    records, fits : list of dict
        Times, and the fitted exponent of each series.

    Raises
    ------
    Unavailable
        If MNIST is missing.
    """
    counts = [n // divide for n in QUERIES]
    data = mnist(n_queries=counts[-1])
    records: list[Record] = []
    with threadpool_limits(1):
        for problem in PROBLEMS:
            for n in counts:
                seconds = _seconds(solver, data.atoms, data.queries[:n], problem, repeat)
                records.append({"problem": describe(problem), "grows": "queries", "size": n, "seconds": seconds})
        for per_class in ATOMS_PER_CLASS:
            smaller = mnist(n_queries=QUERIES_FOR_ATOMS // divide, per_class=per_class)
            for problem in PROBLEMS:
                seconds = _seconds(solver, smaller.atoms, smaller.queries, problem, repeat)
                size = len(smaller.atoms)
                records.append({"problem": describe(problem), "grows": "atoms", "size": size, "seconds": seconds})
    fits = []
    for grows in ("queries", "atoms"):
        for name in map(describe, PROBLEMS):
            series = [r for r in records if (r["grows"], r["problem"]) == (grows, name)]
            slope = fit_exponent([r["size"] for r in series], [r["seconds"] for r in series])
            fits.append({"problem": name, "grows": grows, "exponent": slope})
    return records, fits

"""Timing: which solver solves which queries how often, and how the results are recorded.

Every run starts from raw arrays, so Gram matrices and correlations count toward the time. Before it is timed, a
solver solves a few queries of the same problem, so compilation does not count. BLAS is limited to the number of
threads being measured. Solvers, and one thread and two, take turns within every repeat, so that noise of the
machine affects all of them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.code_checks import Reference, Verdict, check_codes
from benchmarks.opponents import Opponent
from benchmarks.problems import Array, Problem, ProblemSet, describe
from srosr import BPDN, Lasso

WARM_UP = 100
"""Most queries of a warm-up: enough to also reach, and compile, the fallbacks for hard samples."""
FEWEST = 3
"""Fewest queries to time a slow solver on, whatever its budget."""

SHORT = 0.25
"""Seconds below which a run is repeated up to `MOST_TURNS` times, unless a single repeat is requested."""
MOST_TURNS = 20

Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One row group of the tables: a problem on the queries of one kind.

    ``part`` is "feasible" or "infeasible" for BPDN (epsilon against the least-squares residual of ``Reference``),
    and "all" for the Lasso.
    """

    data: ProblemSet
    reference: Reference
    problem: Problem
    part: str
    queries: Array
    share: float

    @property
    def name(self) -> str:
        """Return the name without the data set, as in the tables."""
        label = describe(self.problem)
        return label if self.part == "all" else f"{label} {self.part}"


@dataclass
class Run:
    """One solver on the first ``n`` queries of a case, repeated until ``budget`` seconds are spent."""

    opponent: Opponent
    n: int
    threads: int = 1
    budget: float | None = None
    seconds: list[float] = field(default_factory=list)
    codes: Any = None
    finished: bool = False
    verdict: Verdict | None = None
    error: str | None = None

    @property
    def best(self) -> float:
        """Return the shortest time of the repeats."""
        return min(self.seconds)


def cases(data: ProblemSet, reference: Reference) -> Iterator[Case]:
    """Split every problem of a set into feasible and infeasible samples."""
    residual = reference.least_squares_residual(data.queries)
    for task in data.tasks:
        if isinstance(task.problem, Lasso):
            parts = {"all": np.ones(len(residual), dtype=bool)}
        else:
            reachable = residual < task.problem.epsilon
            parts = {"feasible": reachable, "infeasible": ~reachable}
        for part, mask in parts.items():
            if mask.any():
                queries = data.queries[mask][: task.max_queries]
                yield Case(data, reference, task.problem, part, queries, float(mask.mean()))


def clock(solve: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds one call takes and its result; garbage collection is off meanwhile."""
    gc.disable()
    try:
        start = time.perf_counter()
        result = solve()
        return time.perf_counter() - start, result
    finally:
        gc.enable()


def prime(opponents: list[Opponent]) -> None:
    """Solve a toy problem with every solver, so that modules and BLAS libraries are loaded before limits are set."""
    for opponent in opponents:
        for problem in (Lasso(0.1), BPDN(0.1)):
            if opponent.supports(problem) is None:
                opponent.solve(np.eye(4), np.eye(4)[:2], problem, 1)


def warm_up(opponent: Opponent, atoms: Array, queries: Array, problem: Problem, threads: int) -> None:
    """Solve up to `WARM_UP` of the queries, but never all of them: the timed run then has another size."""
    opponent.solve(atoms, queries[: min(WARM_UP, max(1, len(queries) - 1))], problem, threads)


def afford(opponent: Opponent, case: Case, budget: float | None, fewest: int) -> Run:
    """Decide how many queries an opponent gets, by solving small slices, which also warms it up.

    Slices grow until they are long enough to tell what another query costs beyond the Gram matrix, which all share.
    A solver that spends the whole budget on the ``fewest`` queries is not timed again.
    """

    def attempt(n: int) -> tuple[float, Any]:
        return clock(lambda: opponent.solve(case.data.atoms, case.queries[:n], case.problem, 1))

    total = len(case.queries)
    first = size = min(fewest, total)
    opening, codes = attempt(first)
    if budget is None:
        return Run(opponent, total)
    if opening >= budget:
        return Run(opponent, first, seconds=[opening], codes=codes, finished=True)
    seconds = opening
    while size < total and seconds < 0.1 * budget:
        size = min(4 * size, total)
        seconds, _ = attempt(size)
    if size == total:
        return Run(opponent, total, budget=budget)
    if size == first:
        each = seconds / size
    else:
        each = max((seconds - opening) / (size - first), 0.25 * seconds / size)  # a floor against noise
    return Run(opponent, int(np.clip(first + (budget - opening) / each, first, total)), budget=budget)


def plan(case: Case, opponents: list[Opponent], budget: float, fewest: int) -> tuple[Case, list[Run], dict[str, str]]:
    """Warm up, and decide how many queries each opponent solves, or why it solves none.

    ``opponents[0]`` is ours. Queries that it cannot afford are left out for all: the returned case holds the
    remaining queries. It gets one run for each number of queries that another can afford, so that every ratio
    compares the same queries.
    """
    ours, *others = opponents

    def limit(opponent: Opponent) -> float | None:
        return None if opponent.BUDGET is None else budget * opponent.BUDGET

    ours.solve(case.data.atoms, case.queries[:fewest], case.problem, 1)  # compiles, so that the budget is for solving
    whole = afford(ours, case, limit(ours), fewest)
    case = replace(case, queries=case.queries[: whole.n])
    runs, skipped = [], {}
    for opponent in others:
        reason = opponent.supports(case.problem)
        if reason is None:
            try:
                runs.append(afford(opponent, case, limit(opponent), fewest))
            except Exception as error:  # a failing opponent is a result, not the end of the benchmark
                reason = f"failed: {type(error).__name__}: {error}"
        if reason is not None:
            skipped[opponent.NAME] = reason
    smaller = sorted({run.n for run in runs} - {whole.n}, reverse=True)
    return case, [whole, *(Run(ours, n, budget=whole.budget) for n in smaller), *runs], skipped


def time_runs(case: Case, runs: list[Run], repeat: int) -> None:
    """Time all runs ``repeat`` times, taking turns, and check the codes of the first time.

    Short runs are repeated more often: their shortest time is more reliable on a shared machine.
    """
    for turn in range(max(repeat, MOST_TURNS if repeat > 1 else 1)):
        for run in runs[turn % len(runs) :] + runs[: turn % len(runs)]:
            if run.finished or run.error is not None or (turn >= repeat and run.best > SHORT):
                continue
            queries = case.queries[: run.n]
            solve = partial(run.opponent.solve, case.data.atoms, queries, case.problem, run.threads)
            try:
                with threadpool_limits(run.threads):
                    seconds, codes = clock(solve)
            except Exception as error:
                if run.opponent is runs[0].opponent:
                    raise
                run.error = f"failed: {type(error).__name__}: {error}"
                continue
            run.seconds.append(seconds)
            run.finished = run.budget is not None and sum(run.seconds) >= run.budget
            if run.codes is None:
                run.codes = codes
    with threadpool_limits(1):
        for run in runs:
            if run.error is None:
                queries = case.queries[: run.n]
                run.verdict = check_codes(case.data.atoms, queries, case.problem, run.codes, case.reference)
                run.codes = None


def measure(
    case: Case,
    opponents: list[Opponent],
    *,
    repeat: int = 3,
    budget: float = 1.0,
    fewest: int = FEWEST,
    two_threads: bool = True,
) -> tuple[list[Record], list[Record]]:
    """Time and check one case: one thread each, then two for opponents that support it.

    Parameters
    ----------
    case : Case
    opponents : list of Opponent
        Ours first.
    repeat : int
        How often every run is timed, more often if it is short; the shortest time counts. Runs that use up their
        budget are not repeated.
    budget : float
        Factor on the opponents' ``BUDGET``.
    fewest : int
        Queries that every opponent solves even beyond its budget.
    two_threads : bool

    Returns
    -------
    records, skipped : list of dict
        One record per solver and number of threads; one entry with the reason for each solver that was skipped.
    """
    with threadpool_limits(1):
        case, runs, reasons = plan(case, opponents, budget, fewest)
    pairs: list[Run] = []
    if two_threads:
        able = [r for r in runs if r.opponent.TWO_THREADS and not r.error]
        sizes = {len(case.queries), *(r.n for r in able if r.opponent is not opponents[0])}
        pairs = [Run(r.opponent, r.n, 2, r.budget) for r in able if r.n in sizes]
        with threadpool_limits(2):
            for opponent in {id(run.opponent): run.opponent for run in pairs}.values():
                opponent.solve(case.data.atoms, case.queries[:fewest], case.problem, 2)
    time_runs(case, runs + pairs, repeat)
    finished = [run for run in runs + pairs if run.error is None]
    reasons |= {run.opponent.NAME: run.error for run in runs + pairs if run.error is not None}

    best = np.full(len(case.queries), np.inf)
    for run in finished:
        assert run.verdict is not None
        objective = np.where(run.verdict.valid, run.verdict.objective, np.inf)
        best[: run.n] = np.minimum(best[: run.n], objective)
    ours = {(run.n, run.threads): run.best for run in finished if run.opponent is opponents[0]}
    single = {(run.opponent.NAME, run.n): run.best for run in finished if run.threads == 1}
    where = {"set": case.data.name, "problem": describe(case.problem), "part": case.part}
    records = [
        {**where, **_record(case, run, best, ours, single)}
        for run in finished
        if run.opponent is not opponents[0] or run.n == len(case.queries)
    ]
    return records, [{**where, "solver": name, "reason": reason} for name, reason in reasons.items()]


def _record(
    case: Case,
    run: Run,
    best: Array,
    ours: dict[tuple[int, int], float],
    single: dict[tuple[str, int], float],
) -> Record:
    verdict = run.verdict
    assert verdict is not None
    floor = best[: run.n]
    comparable = verdict.valid & np.isfinite(floor)
    excess = np.divide(verdict.objective - floor, floor, out=np.zeros(run.n), where=comparable & (floor > 0))[
        comparable
    ]
    alone = single.get((run.opponent.NAME, run.n))
    return {
        "case": case.name,
        "n_atoms": case.data.atoms.shape[0],
        "n_features": case.data.atoms.shape[1],
        "rank": case.reference.rank,
        "share_of_queries": case.share,
        "n_case": len(case.queries),
        "solver": run.opponent.NAME,
        "threads": run.threads,
        "n": run.n,
        "seconds": run.best,
        "all_seconds": run.seconds,
        "ms_per_sample": 1e3 * run.best / run.n,
        "ours_seconds_same_queries": ours[run.n, run.threads],
        "ratio": run.best / ours[run.n, run.threads],
        "ratio_per_sample": run.best / run.n / (ours[len(case.queries), run.threads] / len(case.queries)),
        "two_thread_speedup": alone / run.best if run.threads == 2 and alone is not None else None,
        "certified": float(verdict.certified.mean()),
        "valid": float(verdict.valid.mean()),
        "worst_gap": float(verdict.gap[np.argmax(np.abs(verdict.gap))]),
        "worst_violation": float(verdict.violation.max()),
        "mean_excess": float(excess.mean()) if excess.size else None,
        "worst_excess": float(excess.max()) if excess.size else None,
    }

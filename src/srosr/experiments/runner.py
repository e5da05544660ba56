"""Run the trials of an experiment: finished ones are skipped, results are stored as they arrive.

Trials run in processes on this machine or on a Dask cluster, with the same results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from ..distributed.dask_cluster import DaskCluster
from ..distributed.worker_task import LostTask, describe_error
from .local_processes import RESUME_HINT, LocalProcesses
from .results_folder import ResultsFolder


class Executor(Protocol):
    """A context manager that runs tasks; leaving it ends those that still run."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *_: object) -> None: ...

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the index and the result (or a `LostTask`) of each task as soon as it arrives.

        Raises `ExecutorError` if no task can run or a worker lacks what all tasks need.
        """

    def versions(self) -> list[dict[str, str]]:
        """Return the library versions of workers that differ from this process."""


def make_executor(jobs: int = 1, cluster: str | None = None) -> Executor:
    """Return the executor for the options of a command.

    Parameters
    ----------
    jobs : int, optional
        Processes on this machine; ignored if a cluster is given.
    cluster : str, optional
        ``"tcp://HOST:PORT"`` of a Dask scheduler, or ``"local:N"`` for N Dask workers on this machine.

    Raises
    ------
    ValueError
        If ``jobs`` or ``cluster`` is invalid.

    Examples
    --------
    >>> from srosr.experiments.runner import make_executor
    >>> make_executor(jobs=4).jobs
    4
    """
    if cluster is None:
        return LocalProcesses(jobs)
    return DaskCluster(cluster, work="run the trials", after_loss=RESUME_HINT)


@dataclass(frozen=True)
class TrialTask:
    """One trial and its methods, of which a worker gets those that are missing.

    The payload is what else the function needs. It is pickled with each task, so it should be small.
    """

    trial: int
    methods: tuple[str, ...]
    payload: Any = None


class Failure(NamedTuple):
    """A method that failed on a trial."""

    trial: int
    method: str
    reason: str


@dataclass(frozen=True)
class Summary:
    """Counts of records, one per trial and method, of this run and of earlier ones, and the failures of this run."""

    n_done: int
    n_skipped: int
    failures: tuple[Failure, ...]


def run_trials(
    folder: ResultsFolder,
    executor: Executor,
    function: Callable[[TrialTask], list[tuple[dict[str, Any], dict[str, Any]]]],
    tasks: Sequence[TrialTask],
    on_progress: Callable[[int, int, float], None] | None = None,
) -> Summary:
    """Run the missing trials and store their records.

    Parameters
    ----------
    folder, executor : ResultsFolder, Executor
        Both entered.
    function : callable
        Maps a task to a list of (record, times), one for each of its methods. The record of a method must not depend
        on the other methods of the task. If the function raises or its process dies, each of its methods fails with
        that reason; only :class:`srosr.distributed.worker_task.UnfitWorkerError` ends the run.
    tasks : sequence of TrialTask
        Each trial once, with all its methods.
    on_progress : callable, optional
        Called with the number of finished trials, the number of all trials, and the seconds since the start; first
        with the trials that existed before and zero seconds.

    Raises
    ------
    ResultsFolderError, ExecutorError
        If results cannot be stored or a worker cannot run any trial. Stored records are kept.
    """
    if len({task.trial for task in tasks}) != len(tasks):
        raise ValueError("tasks has a trial twice; give each trial once, with all its methods.")
    missing, n_skipped = [], 0
    for task in tasks:
        finished = folder.find_finished(task.trial)
        left = tuple(method for method in task.methods if method not in finished)
        n_skipped += len(task.methods) - len(left)
        if left:
            missing.append(replace(task, methods=left))
    for versions in executor.versions():
        folder.note_versions(versions)

    started, n_done = time.monotonic(), 0
    failures: list[Failure] = []
    report = on_progress or (lambda done, total, seconds: None)
    there = len(tasks) - len(missing)
    report(there, len(tasks), 0.0)
    for done, (index, result) in enumerate(executor.run(function, missing) if missing else (), start=there + 1):
        for record, times in _match_records(missing[index], result):
            record = _store_record(folder, record, times)
            n_done += 1
            if record["error"] is not None:
                failures.append(Failure(record["trial"], record["method"], record["error"]))
        report(done, len(tasks), time.monotonic() - started)
    return Summary(n_done, n_skipped, tuple(sorted(failures)))


def _match_records(task: TrialTask, result: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return exactly one record for each requested method, in that order."""
    if isinstance(result, LostTask):
        return [_make_failure(task.trial, method, result.reason) for method in task.methods]
    try:
        found = {(record["trial"], record["method"]): (record, times) for record, times in result}
        n_found = len(result)
    except (TypeError, ValueError, KeyError):
        found, n_found = {}, 0
    asked = {(task.trial, method) for method in task.methods}
    if set(found) != asked or n_found != len(asked):
        reason = "the trial did not return exactly one record for each method"
        return [_make_failure(task.trial, method, reason) for method in task.methods]
    return [found[task.trial, method] for method in task.methods]


def _store_record(folder: ResultsFolder, record: dict[str, Any], times: dict[str, Any]) -> dict[str, Any]:
    """Store a record, or a failure if its content cannot be stored; return the stored one."""
    try:
        folder.write(record, times)
    except (TypeError, ValueError, KeyError) as error:
        reason = f"its record could not be stored: {describe_error(error)}"
        record, times = _make_failure(record["trial"], record["method"], reason)
        folder.write(record, times)
    return record


def _make_failure(trial: int, method: str, reason: str) -> tuple[dict[str, Any], dict[str, Any]]:
    name = {"trial": trial, "method": method}
    nothing: dict[str, Any] = {"values": [], "coverage": [], "portrait": None}
    return name | {"error": reason} | nothing, name | dict.fromkeys(("fit", "predict", "measure", "coding"))

"""Work through the trials of a run: what is finished is left alone, what arrives is stored at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .executors import Executor, Lost
from .results_folder import ResultsFolder
from .worker_task import reason_of

__all__ = ["Failure", "Summary", "Task", "run_trials"]


@dataclass(frozen=True)
class Task:
    """One trial.

    Attributes
    ----------
    trial : int
        Its number.
    methods : tuple of str
        What is to be done; a worker gets those that are missing.
    payload : object
        Whatever else the function needs. It is pickled with each task, so it should be small.
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
    """What a run came to, counted in records, of which there is one for each trial and method.

    Attributes
    ----------
    n_done : int
        Made by this run, failures among them.
    n_skipped : int
        Were there already.
    failures : tuple of Failure
        Those of this run, by trial.
    """

    n_done: int
    n_skipped: int
    failures: tuple[Failure, ...]


def run_trials(
    folder: ResultsFolder,
    executor: Executor,
    function: Callable[[Task], list[tuple[dict[str, Any], dict[str, Any]]]],
    tasks: Sequence[Task],
    on_progress: Callable[[int, int, float], None] | None = None,
) -> Summary:
    """Do what is missing and store it.

    Parameters
    ----------
    folder : ResultsFolder
        Entered.
    executor : Executor
        Entered.
    function : callable
        From a task to a list of (record, times), one for each of its methods. It has to give a method the same record
        whichever other methods are in the task. What it raises, or dies of, becomes the failure of each of them;
        only :class:`srosr.experiments.worker_task.NotHere` ends the run instead.
    tasks : sequence of Task
        Each trial once, with all its methods.
    on_progress : callable, optional
        Called with the number of trials done, of all trials, and the seconds since the start; first with the trials
        that were there already and zero seconds.

    Returns
    -------
    summary : Summary

    Raises
    ------
    ResultsFolderError, ExecutorError
        If results cannot be stored, or no work can be done, or not by one of the workers. What is stored stays.
    """
    if len({task.trial for task in tasks}) != len(tasks):
        raise ValueError("tasks has a trial twice; give each trial once, with all its methods.")
    missing, n_skipped = [], 0
    for task in tasks:
        finished = folder.finished(task.trial)
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
        for record, times in _checked(missing[index], result):
            record = _stored(folder, record, times)
            n_done += 1
            if record["error"] is not None:
                failures.append(Failure(record["trial"], record["method"], record["error"]))
        report(done, len(tasks), time.monotonic() - started)
    return Summary(n_done, n_skipped, tuple(sorted(failures)))


def _checked(task: Task, result: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Exactly one record for each method that was asked for, in that order."""
    if isinstance(result, Lost):
        return [_failed(task.trial, method, result.reason) for method in task.methods]
    try:
        found = {(record["trial"], record["method"]): (record, times) for record, times in result}
        n_found = len(result)
    except (TypeError, ValueError, KeyError):
        found, n_found = {}, 0
    asked = {(task.trial, method) for method in task.methods}
    if set(found) != asked or n_found != len(asked):
        reason = "the trial did not return exactly one record for each method that it was asked for"
        return [_failed(task.trial, method, reason) for method in task.methods]
    return [found[task.trial, method] for method in task.methods]


def _stored(folder: ResultsFolder, record: dict[str, Any], times: dict[str, Any]) -> dict[str, Any]:
    """Store a record, or the failure that it cannot be stored for what is in it; what was stored."""
    try:
        folder.write(record, times)
    except (TypeError, ValueError, KeyError) as error:
        reason = f"its record could not be stored: {reason_of(error)}"
        record, times = _failed(record["trial"], record["method"], reason)
        folder.write(record, times)
    return record


def _failed(trial: int, method: str, reason: str) -> tuple[dict[str, Any], dict[str, Any]]:
    name = {"trial": trial, "method": method}
    nothing: dict[str, Any] = {"values": [], "coverage": [], "portrait": None}
    return name | {"error": reason} | nothing, name | dict.fromkeys(("fit", "predict", "measure", "coding"))

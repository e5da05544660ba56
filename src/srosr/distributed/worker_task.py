"""Execution of one task in a worker: on one thread, with exceptions returned as text.

A task can fail because of what it is or because of where it runs. Only the first kind is a result.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Environment that limits libraries to one thread; it must be set before they are loaded.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

#: Requirement on a function that workers call.
IMPORTABLE_HINT = "It must be defined at the top level of an importable module, not in the script that is run."


class ExecutorError(RuntimeError):
    """Workers do not start, cannot be reached, or lack what every task needs."""


class UnfitWorkerError(RuntimeError):
    """Raised by a task that this worker cannot run, because the worker lacks something that all tasks need.

    The message says what is missing and what to do.
    """


@dataclass(frozen=True)
class LostTask:
    """The placeholder for the result of a task that raised or whose worker died; the reason is one line."""

    reason: str


@dataclass(frozen=True)
class UnfitWorker:
    """The placeholder for the result of a task whose worker raised `UnfitWorkerError`.

    Executors end the run with an `ExecutorError`: a worker that fails at once would take task after task. ``worker`` is
    its host name, or the executor's own name for it.
    """

    reason: str
    worker: str


def call_task(function: Callable[[Any], Any], task: Any) -> Any:
    """Return ``function(task)``, a `LostTask` for an exception, or an `UnfitWorker` for an `UnfitWorkerError`.

    The exception itself is not returned, since not every exception can be pickled.
    """
    from threadpoolctl import threadpool_limits

    # For libraries that the task loads first. Numba cannot change its number of threads after its start.
    os.environ.update({name: "1" for name in ONE_THREAD if not name.startswith("NUMBA")})
    try:
        with threadpool_limits(limits=1):
            return function(task)
    except UnfitWorkerError as error:
        return UnfitWorker(_join_lines(error), socket.gethostname())
    except (Exception, SystemExit) as error:
        return LostTask(describe_error(error))


def pickle_function(function: Callable[[Any], Any]) -> bytes:
    """Return the pickle of a function, which other processes import by its name."""
    try:
        return pickle.dumps(function)
    except Exception as error:
        raise ExecutorError(
            f"{function!r} cannot be sent to workers ({describe_error(error)}). {IMPORTABLE_HINT}"
        ) from None


def describe_error(error: BaseException) -> str:
    """Return the type and message of an exception in one line."""
    message = _join_lines(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _join_lines(error: BaseException) -> str:
    return " ".join(str(error).split())

"""One task, done in a worker: on one thread, and whatever it raises comes back as a text.

A task may fail for what it is, or for where it is done: only the first is a result.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "GO_ON",
    "IMPORTABLE",
    "ONE_THREAD",
    "ExecutorError",
    "Lost",
    "NotHere",
    "Unfit",
    "attempt",
    "pickled",
    "reason_of",
]

#: What keeps libraries to one thread, if it is set before they are loaded.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

#: What a function for workers must be.
IMPORTABLE = "It must be defined at the top level of a module that can be imported, not in the script that is run."

#: What there is to do after an interruption.
GO_ON = "What is finished is kept: run the same command again, it goes on from there."


class ExecutorError(RuntimeError):
    """Work cannot be done at all: workers do not start, cannot be reached, or lack what they need."""


class NotHere(RuntimeError):
    """Raised by a task that can be done, but not here: the worker lacks something that all tasks need.

    The message says what, and what to do.
    """


@dataclass(frozen=True)
class Lost:
    """What stands for the result of a task that has none.

    Attributes
    ----------
    reason : str
        One line.
    """

    reason: str


@dataclass(frozen=True)
class Unfit:
    """What stands for the result of a task that a worker cannot do, nor any other of the same kind.

    Executors end the run with it, as an `ExecutorError`: a worker that fails at once takes task after task.

    Attributes
    ----------
    reason : str
        What is missing, and what to do, in one line.
    worker : str
        Where: the name of the machine, or whatever the executor knows it by.
    """

    reason: str
    worker: str


def attempt(function: Callable[[Any], Any], task: Any) -> Any:
    """``function(task)``, or a `Lost` that says what it raised; an `Unfit` for a `NotHere`.

    The exception itself stays here: not every one can be sent to another process.
    """
    from threadpoolctl import threadpool_limits

    # For libraries that the task loads first. Numba does not take kindly to a change and stays as it was started.
    os.environ.update({name: "1" for name in ONE_THREAD if not name.startswith("NUMBA")})
    try:
        with threadpool_limits(limits=1):
            return function(task)
    except NotHere as error:
        return Unfit(_one_line(error), socket.gethostname())
    except (Exception, SystemExit) as error:
        return Lost(reason_of(error))


def pickled(function: Callable[[Any], Any]) -> bytes:
    """A function for other processes, which import it by its name."""
    try:
        return pickle.dumps(function)
    except Exception as error:
        raise ExecutorError(f"{function!r} cannot be sent to workers ({reason_of(error)}). {IMPORTABLE}") from None


def reason_of(error: BaseException) -> str:
    """Type and message of an exception, in one line."""
    message = _one_line(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())

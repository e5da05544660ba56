"""One task, done in a worker: on one thread, and whatever it raises comes back as a text."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["IMPORTABLE", "ONE_THREAD", "ExecutorError", "Lost", "attempt", "pickled", "reason_of"]

#: What keeps libraries to one thread, if it is set before they are loaded.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

#: What a function for workers must be.
IMPORTABLE = "It must be defined at the top level of a module that can be imported, not in the script that is run."


class ExecutorError(RuntimeError):
    """Work cannot be done at all: workers do not start, or cannot be reached."""


@dataclass(frozen=True)
class Lost:
    """What stands for the result of a task that has none.

    Attributes
    ----------
    reason : str
        One line.
    """

    reason: str


def attempt(function: Callable[[Any], Any], task: Any) -> Any:
    """``function(task)``, or a `Lost` that says what it raised.

    The exception itself stays here: not every one can be sent to another process.
    """
    from threadpoolctl import threadpool_limits

    # For libraries that the task loads first. Numba does not take kindly to a change and stays as it was started.
    os.environ.update({name: "1" for name in ONE_THREAD if not name.startswith("NUMBA")})
    try:
        with threadpool_limits(limits=1):
            return function(task)
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
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__

"""What a child process of the server is asked to do, and what it answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .._support.array_types import AnyArray

#: HTTP statuses of jobs that cannot be done.
CONFLICT, TOO_LARGE, UNPROCESSABLE, UNAVAILABLE = 409, 413, 422, 503
#: Models that a worker keeps for later jobs.
MOST_MODELS = 2
# Seconds between two reports of progress.
_PAUSE = 0.1


class Refusal(Exception):
    """A job cannot be done: a sentence for the client, and the HTTP status that goes with it."""

    def __init__(self, message: str, status: int = UNPROCESSABLE) -> None:
        super().__init__(message)
        self.message, self.status = message, status


class Answer(NamedTuple):
    """The result of a job."""

    header: dict[str, Any]
    arrays: dict[str, AnyArray]


def keep_row(answer: Answer, row: int | None) -> Answer:
    """Return an answer with samples without those of other rows than this one, if only that one matters."""
    if row is None:
        return answer
    header, arrays = answer
    places = (arrays["numbers"] == row).nonzero()[0].tolist()
    lists = {name: header[name] for name in ("labels", "groups") if header.get(name) is not None}
    kept = {name: [cells[i] for i in places] for name, cells in header.get("kept", {}).items()}
    chosen = {name: [values[i] for i in places] for name, values in lists.items()}
    return Answer({**header, **chosen, "kept": kept}, {name: array[places] for name, array in arrays.items()})


class ChildJob:
    """What is to be done: a header, arrays by name, and a way to report progress."""

    def __init__(
        self, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], send: Callable[[dict[str, Any]], None]
    ) -> None:
        self.header, self.arrays = header, arrays
        self._send, self._stage, self._next = send, "", 0.0

    def report(self, stage: str, done: int | None = None, of: int | None = None) -> None:
        """Tell the server what is being done; within a stage at most ten times a second."""
        now = time.monotonic()
        if stage == self._stage and now < self._next:
            return
        self._stage, self._next = stage, now + _PAUSE
        self._send({"kind": "progress", "stage": stage, "done": done, "of": of})

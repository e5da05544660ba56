"""Work on this machine, in processes of its own.

Each worker is a fresh interpreter with one task at a time, so that it is known which task was running in a process that
died, and a script that uses this needs no ``if __name__ == "__main__"``. Workers are talked to by a thread each and end
with the process that started them, see :mod:`srosr.experiments.worker_process`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

from .worker_process import READY, receive, send
from .worker_task import GO_ON, IMPORTABLE, ONE_THREAD, ExecutorError, Lost, Unfit, pickled, reason_of

__all__ = ["LocalProcesses"]

# Seconds between looks for Ctrl-C where the system does not break a wait.
_LOOK = 0.5
# Workers in a row that may end before they are ready, and deaths that a task may cause.
_MAX_FALSE_STARTS = 3
_MAX_DEATHS = 2

_MODULE = "srosr.experiments.worker_process"


class LocalProcesses:
    """Do tasks in processes on this machine, each on one thread.

    Parameters
    ----------
    jobs : int
        How many at once. One job has a process of its own as well, so that results, and crashes, are the same.

    Examples
    --------
    >>> from math import sqrt
    >>> from srosr.experiments.local_processes import LocalProcesses
    >>> with LocalProcesses(2) as executor:
    ...     sorted(executor.run(sqrt, [4.0, 9.0]))
    [(0, 2.0), (1, 3.0)]
    """

    def __init__(self, jobs: int) -> None:
        if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
            raise ValueError(f"jobs must be a whole number of at least 1, not {jobs!r}.")
        self.jobs = jobs
        self._workers: list[_Worker] = []

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def versions(self) -> list[dict[str, str]]:
        """Versions of libraries at work beside those of this process: none."""
        return []

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Do the tasks; results come as soon as they are there.

        Parameters
        ----------
        function : callable
            Of one task, defined at the top level of a module.
        tasks : sequence
            Whatever can be pickled.

        Yields
        ------
        index, result : int, object
            The number of the task in ``tasks``, and what the function returned; or a `Lost` where it raised, or where
            its process died, twice.

        Raises
        ------
        ExecutorError
            If no worker can start, none can load the function, or one lacks what all tasks need.
        """
        call = pickled(function)
        waiting = deque(range(len(tasks)))
        deaths, false_starts = [0] * len(tasks), 0
        events: SimpleQueue[_Event] = SimpleQueue()
        try:
            for _ in range(min(self.jobs, len(tasks))):
                self._give(_Worker(call, events), waiting, tasks)
            while self._workers:
                worker, answer = _next(events)
                index = worker.index
                if answer is not None:
                    false_starts = 0
                    result = _loaded(answer)
                    if not worker.ready:
                        worker.be_ready(result, function)
                        continue
                    if isinstance(result, Unfit):
                        raise ExecutorError(f"the work cannot be done on this machine: {result.reason} {GO_ON}")
                    self._give(worker, waiting, tasks)
                    yield index, result
                    continue
                self._workers.remove(worker)
                status = worker.stop()
                if worker.ready:
                    deaths[index] += 1
                    if deaths[index] < _MAX_DEATHS:
                        # Last, when others that might have eaten up the memory are done.
                        waiting.append(index)
                else:
                    false_starts += 1
                    if false_starts == _MAX_FALSE_STARTS:
                        raise ExecutorError(f"worker processes end before they can start ({status}).")
                    waiting.appendleft(index)
                if waiting:
                    self._give(_Worker(call, events), waiting, tasks)
                if deaths[index] == _MAX_DEATHS:
                    yield index, Lost(f"the process running it died ({status}), twice")
        finally:
            self._stop()

    def _give(self, worker: _Worker, waiting: deque[int], tasks: Sequence[Any]) -> None:
        """Give a worker its next task, or let it go."""
        if worker not in self._workers:
            self._workers.append(worker)
        if waiting:
            worker.index = waiting.popleft()
            worker.frames.put(pickle.dumps(tasks[worker.index]))
        else:
            self._workers.remove(worker)
            worker.stop()

    def _stop(self) -> None:
        while self._workers:
            self._workers.pop().stop()


class _Worker:
    """A process, and the thread that talks to it: what it is given goes to ``frames``, its answers to ``events``."""

    def __init__(self, call: bytes, events: SimpleQueue[_Event]) -> None:
        self.index, self.ready, self._closed = -1, False, False
        self.frames: SimpleQueue[bytes | None] = SimpleQueue()
        # -P: no folder comes before those that this process imports from. A group of its own, since Ctrl-C at the
        # terminal is for the parent, which then ends its workers.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        apart: dict[str, Any] = {"process_group": 0}
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | ONE_THREAD | {"PYTHONPATH": path},
                **apart,
            )
        except OSError as error:
            raise ExecutorError(f"could not start a worker process: {error.strerror or error}.") from error
        Thread(target=self._talk, args=(call, events), daemon=True).start()

    def be_ready(self, answer: Any, function: Callable[[Any], Any]) -> None:
        """Note the answer to the function."""
        if answer != READY:
            reason = answer.reason if isinstance(answer, Lost) else repr(answer)
            raise ExecutorError(f"a worker could not load {function!r} ({reason}). {IMPORTABLE}")
        self.ready = True

    def stop(self) -> str:
        """End the process, and say how it ended."""
        self.frames.put(None)
        if self._closed:
            # It is about to end by itself, with a status of its own.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        self._process.kill()
        status = self._process.wait()
        return f"signal {-status}" if status < 0 else f"exit status {status}"

    def _talk(self, call: bytes, events: SimpleQueue[_Event]) -> None:
        inbox, outbox = self._process.stdout, self._process.stdin
        assert inbox is not None and outbox is not None
        try:
            send(outbox, call)
            # One answer says whether it could load the function.
            answer = receive(inbox)
            while answer is not None:
                events.put((self, answer))
                frame = self.frames.get()
                if frame is None:
                    return
                send(outbox, frame)
                answer = receive(inbox)
        except OSError:
            pass
        finally:
            with suppress(OSError):
                inbox.close()
            with suppress(OSError):
                outbox.close()
        self._closed = True
        events.put((self, None))


_Event: TypeAlias = tuple[_Worker, bytes | None]


def _next(events: SimpleQueue[_Event]) -> _Event:
    while True:
        with suppress(Empty):
            return events.get(timeout=_LOOK)


def _loaded(answer: bytes) -> Any:
    try:
        return pickle.loads(answer)
    except Exception as error:
        return Lost(f"the result could not be read: {reason_of(error)}")

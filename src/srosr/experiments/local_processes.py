"""An executor that runs tasks in processes on this machine, and the program that these processes run.

Each worker is a child process that runs one task at a time, so that the task of a worker that dies is known. Its frames
are pickles: a function first, then tasks, with one answer each.

loky was tried instead, and two guarantees are lost with it: a worker that dies fails other tasks too without a word on
which of them it was, and workers outlive a parent that is killed.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

from .._support.child_process import Child, send_frame, take_frames
from ..distributed.worker_task import (
    IMPORTABLE_HINT,
    ONE_THREAD,
    ExecutorError,
    LostTask,
    UnfitWorker,
    call_task,
    describe_error,
    pickle_function,
)

#: What to do after an interruption.
RESUME_HINT = "Finished trials are kept: run the same command again to resume."

# Seconds between checks for Ctrl-C on systems where a signal does not interrupt a wait.
_POLL = 0.5
# Consecutive workers that may end before they are ready, and deaths that a task may cause.
_MAX_FALSE_STARTS = 3
_MAX_DEATHS = 2

_MODULE = "srosr.experiments.local_processes"
# The answer to a function that could be loaded; otherwise the answer is a `LostTask`.
_READY = "ready"


class LocalProcesses:
    """Run tasks in processes on this machine, each on one thread.

    Parameters
    ----------
    jobs : int
        Number of processes. A single job also runs in a process of its own, so that results and crashes are the same.

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
        """Return an empty list: the workers use the libraries of this process."""
        return []

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Run the tasks and yield the index and the result of each as soon as it arrives.

        The function is defined at the top level of a module and takes one task; the result is a `LostTask` if it raised
        or its process died twice. Raises ExecutorError if no worker can start, none can load the function, or one lacks
        what all tasks need.
        """
        call = pickle_function(function)
        waiting = deque(range(len(tasks)))
        deaths, false_starts = [0] * len(tasks), 0
        events: SimpleQueue[_Event] = SimpleQueue()
        try:
            for _ in range(min(self.jobs, len(tasks))):
                self._give(_Worker(call, events), waiting, tasks)
            while self._workers:
                worker, answer = _wait_for_event(events)
                index = worker.index
                if answer is not None:
                    false_starts = 0
                    result = _load_answer(answer)
                    if not worker.ready:
                        worker.mark_ready(result, function)
                        continue
                    if isinstance(result, UnfitWorker):
                        raise ExecutorError(f"this machine cannot run the trials: {result.reason} {RESUME_HINT}")
                    self._give(worker, waiting, tasks)
                    yield index, result
                    continue
                self._workers.remove(worker)
                status = worker.stop()
                if worker.ready:
                    deaths[index] += 1
                    if deaths[index] < _MAX_DEATHS:
                        # Last, when other tasks that may have used up the memory are done.
                        waiting.append(index)
                else:
                    false_starts += 1
                    if false_starts == _MAX_FALSE_STARTS:
                        raise ExecutorError(f"worker processes end before they are ready ({status}).")
                    waiting.appendleft(index)
                if waiting:
                    self._give(_Worker(call, events), waiting, tasks)
                if deaths[index] == _MAX_DEATHS:
                    yield index, LostTask(f"its process died twice ({status})")
        finally:
            self._stop()

    def _give(self, worker: _Worker, waiting: deque[int], tasks: Sequence[Any]) -> None:
        """Send a worker its next task, or stop it if there is none."""
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
    """A child and the thread that talks to it: it sends what is put in ``frames`` and puts answers in ``events``."""

    def __init__(self, call: bytes, events: SimpleQueue[_Event]) -> None:
        self.index, self.ready, self._closed = -1, False, False
        self.frames: SimpleQueue[bytes | None] = SimpleQueue()
        try:
            self._child = Child(_MODULE, "run_worker", environment=os.environ | ONE_THREAD)
        except OSError as error:
            raise ExecutorError(f"could not start a worker process: {error.strerror or error}.") from error
        Thread(target=self._talk, args=(call, events), daemon=True).start()

    def mark_ready(self, answer: Any, function: Callable[[Any], Any]) -> None:
        """Check the answer to the function and mark the worker as ready."""
        if answer != _READY:
            reason = answer.reason if isinstance(answer, LostTask) else repr(answer)
            raise ExecutorError(f"a worker could not load {function!r} ({reason}). {IMPORTABLE_HINT}")
        self.ready = True

    def stop(self) -> str:
        """End the process and return its exit status as text."""
        self.frames.put(None)
        # A process that has closed its output is about to end with a status of its own.
        return self._child.end(patience=1.0 if self._closed else 0.0)

    def _talk(self, call: bytes, events: SimpleQueue[_Event]) -> None:
        try:
            frame: bytes | None = call
            while frame is not None:
                self._child.send(frame)
                answer = self._child.receive()
                if answer is None:
                    break
                events.put((self, answer))
                frame = self.frames.get()
            else:
                return
        except OSError:
            pass
        finally:
            self._child.close()
        self._closed = True
        events.put((self, None))


_Event: TypeAlias = tuple[_Worker, bytes | None]


def _wait_for_event(events: SimpleQueue[_Event]) -> _Event:
    while True:
        with suppress(Empty):
            return events.get(timeout=_POLL)


def _load_answer(answer: bytes) -> Any:
    try:
        return pickle.loads(answer)
    except Exception as error:
        return LostTask(f"the result could not be read: {describe_error(error)}")


def run_worker() -> None:
    """Run tasks, in a child, until its parent ends."""
    frames, outbox = take_frames()
    try:
        function = pickle.loads(frames.get())
    except Exception as error:
        send_frame(outbox, pickle.dumps(LostTask(describe_error(error))))
        return
    send_frame(outbox, pickle.dumps(_READY))
    while True:
        frame = frames.get()
        try:
            task = pickle.loads(frame)
        except Exception as error:
            send_frame(outbox, pickle.dumps(LostTask(f"the worker could not read the task: {describe_error(error)}")))
            continue
        result = call_task(function, task)
        try:
            answer = pickle.dumps(result)
        except Exception as error:
            answer = pickle.dumps(LostTask(f"the worker could not send the result: {describe_error(error)}"))
        send_frame(outbox, answer)

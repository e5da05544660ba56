"""An executor that runs tasks in processes on this machine, and the program that these processes run.

Each worker is a new interpreter that runs one task at a time. The task of a worker that dies is therefore known, and a
script that uses this executor needs no ``if __name__ == "__main__"``. Parent and worker exchange frames (eight bytes of
length, then a pickle) over the worker's standard input and output: a function first, then tasks, with one answer each.
A worker whose input ends exits at once, even in the middle of a task, so that no worker outlives its parent.

loky was tried instead, and two of these guarantees are lost with it: a worker that dies fails other tasks too without a
word on which of them it was, and workers outlive a parent that is killed.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any, TypeAlias

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
_LENGTH = struct.Struct(">Q")


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
    """A process and the thread that talks to it: it sends what is put in ``frames`` and puts answers in ``events``."""

    def __init__(self, call: bytes, events: SimpleQueue[_Event]) -> None:
        self.index, self.ready, self._closed = -1, False, False
        self.frames: SimpleQueue[bytes | None] = SimpleQueue()
        # -P keeps the import path that of this process. The worker has its own process group, because Ctrl-C in the
        # terminal is for the parent, which then ends its workers.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        apart: dict[str, Any] = {"process_group": 0}
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        start = f"from {_MODULE} import run_worker; run_worker()"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", start],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | ONE_THREAD | {"PYTHONPATH": path},
                **apart,
            )
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
        if self._closed:
            # The process is about to end with a status of its own.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        self._process.kill()
        status = self._process.wait()
        return f"signal {-status}" if status < 0 else f"exit status {status}"

    def _talk(self, call: bytes, events: SimpleQueue[_Event]) -> None:
        inbox, outbox = self._process.stdout, self._process.stdin
        assert inbox is not None and outbox is not None
        try:
            _send(outbox, call)
            answer = _receive(inbox)
            while answer is not None:
                events.put((self, answer))
                frame = self.frames.get()
                if frame is None:
                    return
                _send(outbox, frame)
                answer = _receive(inbox)
        except OSError:
            pass
        finally:
            for stream in (inbox, outbox):
                with suppress(OSError):
                    stream.close()
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


def _send(stream: IO[bytes], frame: bytes) -> None:
    stream.write(_LENGTH.pack(len(frame)))
    stream.write(frame)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    """Read one frame; return None at the end of the stream, also in the middle of a frame."""
    length = stream.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(length)
    frame = stream.read(size)
    return frame if len(frame) == size else None


# -- in the worker ------------------------------------------------------------------------------------------


def run_worker() -> None:
    """Run tasks from standard input until it ends."""
    inbox, outbox = _take_streams()
    frames: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(inbox, frames), daemon=True).start()
    try:
        function = pickle.loads(frames.get())
    except Exception as error:
        _send(outbox, pickle.dumps(LostTask(describe_error(error))))
        return
    _send(outbox, pickle.dumps(_READY))
    while True:
        frame = frames.get()
        try:
            task = pickle.loads(frame)
        except Exception as error:
            _send(outbox, pickle.dumps(LostTask(f"the worker could not read the task: {describe_error(error)}")))
            continue
        result = call_task(function, task)
        try:
            answer = pickle.dumps(result)
        except Exception as error:
            answer = pickle.dumps(LostTask(f"the worker could not send the result: {describe_error(error)}"))
        _send(outbox, answer)


def _take_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return both ends of the connection, out of reach of what a task prints or reads."""
    inbox = os.fdopen(os.dup(0), "rb")
    outbox = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return inbox, outbox


def _listen(inbox: IO[bytes], frames: SimpleQueue[bytes]) -> None:
    """Receive what the parent sends, and end the process when the parent has ended."""
    while (frame := _receive(inbox)) is not None:
        frames.put(frame)
    sys.stderr.flush()
    os._exit(0)

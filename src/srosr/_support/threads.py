"""Threads over samples: a pool that Ctrl-C can stop, one BLAS thread while it works, several items at a time."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

# Seconds between checks for Ctrl-C where the system does not break a wait, and how long threads may take to notice it.
_CHECK_INTERVAL = 0.2
_PATIENCE = 0.3
#: Threads of a pool, however many a user asks for: far more than there are cores only take memory.
MOST_THREADS = 256

T = TypeVar("T")
R = TypeVar("R")


class Job:
    """A call, and its result once it has been made."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.done = Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call and keep what it returns or raises."""
        try:
            self.value = self.function(*self.arguments)
        except BaseException as error:  # raised again by the thread that waits
            self.error = error
        self.done.set()

    def result(self) -> Any:
        """Wait for the result in the calling thread and return it, or raise the job's exception."""
        while not self.done.wait(_CHECK_INTERVAL):
            pass
        if self.error is not None:
            raise self.error
        return self.value


class ThreadPool:
    """Threads that work while the calling thread waits for them and for Ctrl-C.

    An executor's threads are joined before Python exits, so that one deep in another library's solver would keep the
    user waiting; these are daemons. A job that is interrupted writes nothing that anybody reads. With no threads, jobs
    run in the calling thread as they are submitted. That saves the start of a thread where the work takes less than a
    few milliseconds; Ctrl-C waits for a compiled function to return. Loops in compiled code check ``stop``, an array of
    one byte that is set to 1 when work is to end early. There are at most ``MOST_THREADS``.
    """

    def __init__(self, n_threads: int) -> None:
        n_threads = min(n_threads, MOST_THREADS)
        self.stop = np.zeros(1, np.uint8)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads = [Thread(target=self._work, daemon=True, name=f"srosr-{i}") for i in range(n_threads)]

    @property
    def n_threads(self) -> int:
        """Number of threads, 0 if jobs run in the calling thread."""
        return len(self._threads)

    def __enter__(self) -> ThreadPool:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.stop[0] = 1
        for _thread in self._threads:
            self._jobs.put(None)
        end = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(None if kind is None else max(end - time.monotonic(), 0.0))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        """Have the next free thread call ``function(*arguments)``."""
        job = Job(function, arguments)
        if self._threads:
            self._jobs.put(job)
        else:  # an exception, Ctrl-C among them, is raised here and now
            job.value = function(*arguments)
            job.done.set()
        return job

    def map(
        self, function: Callable[[Any], Any], parts: Sequence[Any], done: Callable[[Any], None] | None = None
    ) -> list[Any]:
        """Call ``function`` on every part and return the results in order.

        ``done`` is called with each finished part, in the calling thread.
        """
        results = []
        for part, job in zip(parts, [self.submit(function, part) for part in parts], strict=True):
            results.append(job.result())
            if done is not None:
                done(part)
        return results

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self.stop[0]:
                job.run()


def map_ahead(function: Callable[[T], R], items: Iterator[T], pool: ThreadPool) -> Iterator[R]:
    """Yield ``function(item)`` of every item in order, of as many at a time as the pool has threads.

    The calling thread fetches items, one more than there are threads at work. What fetching an item raises is raised
    after the results of the items before it.
    """
    jobs: deque[Job] = deque()
    error: Exception | None = None
    while error is None:
        try:
            jobs.append(pool.submit(function, next(items)))
        except StopIteration:
            break
        except Exception as raised:
            error = raised
            break
        if len(jobs) > pool.n_threads:
            yield jobs.popleft().result()
    while jobs:
        yield jobs.popleft().result()
    if error is not None:
        raise error


@cache
def _blas_libraries(with_torch: bool) -> list[Any]:
    """Return the loaded BLAS libraries; finding them takes milliseconds, so it is done once, and again with Torch."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


def _set_blas_threads(library: Any, n_threads: int) -> None:
    """Set the number of threads of a BLAS library, from any thread.

    Newer versions of threadpoolctl let only one thread do so, the first that did, until its control is cleared.
    """
    clear_control = getattr(library, "clear_controlling_thread", None)
    if clear_control is not None:
        clear_control(force=True)
    library.set_num_threads(n_threads)
    if clear_control is not None:
        clear_control(force=True)


_lock = Lock()
_n_users = 0
_threads_before: list[tuple[Any, int]] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: its threads and ours must not multiply, and results must not depend on their number.

    The limit holds for the whole process. Of several calls at a time the first sets it and the last lifts it.
    """
    global _n_users, _threads_before
    counted = False
    try:
        with _lock:
            if _n_users == 0:
                libraries = _blas_libraries("torch" in sys.modules)
                _threads_before = [(library, library.get_num_threads()) for library in libraries]
                for library, _ in _threads_before:
                    _set_blas_threads(library, 1)
            _n_users += 1
            counted = True
        yield
    finally:
        with _lock:
            _n_users -= counted
            if counted and _n_users == 0:
                for library, n_threads in _threads_before:
                    _set_blas_threads(library, n_threads)


@contextmanager
def progress_bar(total: int | None) -> Iterator[Callable[[slice], None] | None]:
    """Yield a function that advances a progress bar by the length of a slice, or None if ``total`` is None."""
    if total is None:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress("coding", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("coding", total=total)
        yield lambda part: bar.advance(task, part.stop - part.start)

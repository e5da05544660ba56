"""Threads over samples: how a batch is shared out, kept interruptible, and kept from multiplying BLAS threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

# Seconds between looks for Ctrl-C where the system does not break a wait, and how long threads may take to notice it.
_LOOK = 0.2
_PATIENCE = 0.3


class Task:
    """A piece of work, and its result once a thread has done it."""

    def __init__(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.work, self.arguments = work, arguments
        self.done = Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do it, in a worker's thread."""
        try:
            self.value = self.work(*self.arguments)
        except BaseException as error:  # raised again by the thread that waits
            self.error = error
        self.done.set()

    def result(self) -> Any:
        """Wait for the result, in the calling thread."""
        while not self.done.wait(_LOOK):
            pass
        if self.error is not None:
            raise self.error
        return self.value


class Workers:
    """Threads that work while the calling thread waits for them, and for Ctrl-C.

    Threads of our own rather than an executor's: those are joined before Python ends, and one that is deep in another
    library's solver would keep the user waiting. What is interrupted writes nothing that anybody reads.

    Parameters
    ----------
    jobs : int

    Attributes
    ----------
    stop : uint8 ndarray (1,)
        Raised where work is to end early; loops in compiled code look at it.
    """

    def __init__(self, jobs: int) -> None:
        self.stop = np.zeros(1, np.uint8)
        self.tasks: SimpleQueue[Task | None] = SimpleQueue()
        self.threads = [Thread(target=self._work, daemon=True, name=f"srosr-{i}") for i in range(jobs)]

    def __enter__(self) -> Workers:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.stop[0] = 1
        for _thread in self.threads:
            self.tasks.put(None)
        patience = time.monotonic() + _PATIENCE
        for thread in self.threads:
            thread.join(None if kind is None else max(patience - time.monotonic(), 0.0))

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Task:
        """Have ``work(*arguments)`` done by the next thread that is free."""
        task = Task(work, arguments)
        self.tasks.put(task)
        return task

    def map(
        self, work: Callable[[Any], Any], parts: Sequence[Any], done: Callable[[Any], None] | None = None
    ) -> list[Any]:
        """``work`` on every part, the results in order; ``done`` is told of each part, in this thread."""
        results = []
        for part, task in zip(parts, [self.submit(work, part) for part in parts], strict=True):
            results.append(task.result())
            if done is not None:
                done(part)
        return results

    def _work(self) -> None:
        while True:
            task = self.tasks.get()
            if task is None:
                return
            if not self.stop[0]:
                task.run()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_lock = Lock()
_users = 0
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while work is spread over threads of our own: the two must not multiply.

    The limit is the process's, so the first of several calls at a time sets it and the last one lifts it.
    """
    global _users, _limit
    counted = False
    try:
        with _lock:
            if _users == 0:
                _limit = _controller().limit(limits=1, user_api="blas")
            _users += 1
            counted = True
        yield
    finally:
        with _lock:
            _users -= counted
            if counted and _users == 0:
                _limit.restore_original_limits()


@contextmanager
def progress_bar(total: int | None) -> Iterator[Callable[[slice], None] | None]:
    """A function that moves a progress bar by the samples of a slice; None where there is no bar."""
    if total is None:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress("coding", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("coding", total=total)
        yield lambda part: bar.advance(task, part.stop - part.start)

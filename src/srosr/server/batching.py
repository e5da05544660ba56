"""Samples of several requests are decided together: what waits when a thread is free is its next batch.

Threads decide, the *coders* of a model. A request of many rows is cut into pieces, and no more of them wait at a time
than keep the coders busy, so that requests take turns, and small ones are decided with the pieces of large ones. If
other requests are arriving when a coder is free, the first sample waits for them, at most ``longest_wait``.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..classifiers.base import Decisions
from ..operations.model_input import name_features
from ..operations.sample_decisions import decide_rows
from .samples import Samples
from .schemas import ApiError
from .store import ServedModel

#: Rows of a batch at most, a multiple of the rows that BLAS multiplies at a time.
MOST_ROWS = 256


@dataclass(eq=False)
class _Piece:
    """Rows of one request that wait for a coder."""

    model: ServedModel
    samples: Samples
    part: slice
    coverage: float | None
    arrived: float
    answer: asyncio.Future[Decisions]

    def __len__(self) -> int:
        return self.part.stop - self.part.start

    def decide(self) -> Decisions:
        """Decide on these rows alone."""
        X = name_features(self.model.clf, self.samples.X[self.part])
        numbers = self.samples.numbers[self.part]
        return decide_rows(self.model.clf, self.samples.source, numbers, X, coverage=self.coverage)


class Batcher:
    """Decides on samples of one model, of whatever snapshot they were sent to.

    ``on_decisions`` is called in the event loop with the decisions on each piece that is to be recorded, in the order
    of its request, and ``on_batch`` with the number of rows of each batch. ``most_waiting`` requests may wait.
    """

    def __init__(
        self,
        longest_wait: float,
        most_waiting: int,
        *,
        threads: int = 1,
        on_decisions: Callable[[ServedModel, Decisions], None] = lambda model, decisions: None,
        on_batch: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self._longest_wait, self._most_waiting, self._n_threads = longest_wait, most_waiting, threads
        self._on_decisions, self._on_batch = on_decisions, on_batch
        self._pieces: deque[_Piece] = deque()
        #: Requests that are decided, and those whose samples are arriving.
        self._n_requests = self._n_arriving = 0
        self._free = threads
        self._coders = ThreadPoolExecutor(threads, "srosr-coder")
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def waiting(self) -> int:
        """Number of pieces that wait."""
        return len(self._pieces)

    @contextmanager
    def announce(self) -> Iterator[None]:
        """Count a request whose samples are arriving."""
        self._n_arriving += 1
        try:
            yield
        finally:
            self._n_arriving -= 1
            self._loop.call_soon(self._start)  # once the samples are in the queue, if they have come

    async def decide(
        self, model: ServedModel, samples: Samples, *, coverage: float | None = None, record: bool = True,
        on_progress: Callable[[dict[str, Any]], None] = lambda said: None,
    ) -> Decisions:  # fmt: skip
        """Return the decisions on samples; an error of a sample has the number of its row."""
        if self._n_requests >= self._most_waiting:
            raise ApiError(429, "The server is busy with other requests: try again later.", {"Retry-After": "1"})
        self._n_requests += 1
        n, pieces = len(samples.X), deque[_Piece]()
        done: list[Decisions] = []
        rest = iter(range(0, n, MOST_ROWS))
        try:
            while len(done) * MOST_ROWS < n:
                # One piece more than there are coders, so that none of them waits for the event loop.
                while len(pieces) <= self._n_threads and (first := next(rest, None)) is not None:
                    part = slice(first, min(first + MOST_ROWS, n))
                    answer = self._loop.create_future()
                    pieces.append(_Piece(model, samples, part, coverage, time.monotonic(), answer))
                    self._pieces.append(pieces[-1])
                self._start()
                done.append(await pieces[0].answer)
                pieces.popleft()
                if record:
                    self._on_decisions(model, done[-1])
                on_progress({"stage": "Deciding", "done": min(len(done) * MOST_ROWS, n), "of": n})
        finally:
            self._n_requests -= 1
            for piece in pieces:  # of a request that has failed, or was given up
                piece.answer.cancel()
        return Decisions.concatenate(done)

    def close(self) -> None:
        """End the threads."""
        self._coders.shutdown(wait=False)

    def _start(self) -> None:
        """Hand batches to the coders that are free, now or when the longest wait is over."""
        while self._free and (batch := self._take_batch()):
            self._free -= 1
            decided = self._loop.run_in_executor(self._coders, decide_batch, batch)
            decided.add_done_callback(partial(self._deliver, batch))

    def _take_batch(self) -> list[_Piece]:
        """Take what can be decided with the first piece, in order; nothing if it waits for others."""
        while self._pieces and self._pieces[0].answer.done():  # cancelled
            self._pieces.popleft()
        if not self._pieces or self._waits():
            return []
        n_rows, first, left = 0, self._pieces[0], deque[_Piece]()
        batch: list[_Piece] = []
        for piece in self._pieces:
            alike = piece.model is first.model and piece.coverage == first.coverage
            if batch and not (alike and n_rows + len(piece) <= MOST_ROWS):
                left.append(piece)
            elif not piece.answer.done():
                batch.append(piece)
                n_rows += len(piece)
        self._pieces = left
        return batch

    def _waits(self) -> bool:
        """Return whether the first piece waits for others that are arriving; then a timer ends its wait."""
        first = self._pieces[0]
        left = first.arrived + self._longest_wait - time.monotonic()
        if not self._n_arriving or left <= 0 or sum(map(len, self._pieces)) >= MOST_ROWS:
            return False
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(left, self._start)
        return True

    def _deliver(self, batch: list[_Piece], decided: asyncio.Future[list[Decisions | Exception]]) -> None:
        self._free += 1
        if decided.cancelled():  # the server ends
            return
        for piece, answer in zip(batch, decided.result(), strict=True):
            if piece.answer.done():
                continue
            if isinstance(answer, Exception):
                piece.answer.set_exception(answer)
            else:
                piece.answer.set_result(answer)
        self._on_batch(sum(map(len, batch)))
        self._start()


def decide_batch(batch: list[_Piece]) -> list[Decisions | Exception]:
    """Decide on pieces together; if that fails one by one, so that only those at fault get the error."""
    if len(batch) > 1:
        clf = batch[0].model.clf
        try:
            X = np.concatenate([piece.samples.X[piece.part] for piece in batch])
            together = clf.decide(name_features(clf, X), coverage=batch[0].coverage)
        except Exception:  # said below, of the piece at fault
            pass
        else:
            ends = np.cumsum([len(piece) for piece in batch]).tolist()
            return [together[end - len(piece) : end] for piece, end in zip(batch, ends, strict=True)]
    answers: list[Decisions | Exception] = []
    for piece in batch:
        try:
            answers.append(piece.decide())
        except Exception as error:
            answers.append(error)
    return answers

"""Samples of several requests are decided together: micro-batches with a stated longest wait.

Threads decide, the *coders* of a model. One that is free takes what waits. If other requests are arriving at that
moment it waits for them, at most ``longest_wait`` since the first sample came. Small batches are decided one after the
other, so that requests gather meanwhile; the other coders are for large ones. A request of many rows is cut into
pieces, and no more of them wait or are decided at a time than there are coders, so that requests take turns.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from ..classifiers import Decisions
from ..operations import find_error, make_sample_error, prepare_features
from .model_store import ServedModel

#: Rows of a batch at most, a multiple of the rows that BLAS multiplies at a time.
MOST_ROWS = 256
#: Rows of a piece that does not wait for a batch of smaller ones.
_LARGE = 64


class TooManyWaiting(Exception):
    """More requests wait for a model than may."""


@dataclass(eq=False)
class _Piece:
    """Rows of one request that wait for the coder."""

    model: ServedModel
    X: Array
    numbers: IntArray
    coverage: float | None
    #: What the samples are called in an error.
    source: str
    arrived: float
    answer: asyncio.Future[Decisions]

    @property
    def is_small(self) -> bool:
        """Whether it takes little time, so that it had better be decided with others."""
        return len(self.X) < _LARGE

    @property
    def key(self) -> tuple[int, float | None]:
        """What pieces of a batch have in common."""
        return id(self.model), self.coverage


class Batcher:
    """Decides on samples of one model, of whatever snapshot they were sent to.

    ``on_decisions`` is called in the event loop with the decisions on each piece that is to be recorded, in the order
    of its request, and ``on_batch`` with the number of rows of each batch.
    """

    def __init__(
        self,
        longest_wait: float,
        most_waiting: int,
        *,
        threads: int = 1,
        on_decisions: Callable[[ServedModel, Decisions], None] | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        self._longest_wait, self._most_waiting = longest_wait, most_waiting
        self._on_decisions, self._on_batch = on_decisions, on_batch
        self._waiting: deque[_Piece] = deque()
        self._arriving = 0
        self._n_threads = self._free = threads
        self._decides_small = False
        self._timer: asyncio.TimerHandle | None = None
        self._batches: SimpleQueue[list[_Piece] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        for number in range(threads):
            Thread(target=self._work, name=f"srosr-coder-{number}", daemon=True).start()

    @property
    def waiting(self) -> int:
        """Number of pieces that wait."""
        return len(self._waiting)

    @contextmanager
    def announce(self) -> Iterator[Callable[[], None]]:
        """Count a request whose samples are arriving; call what this yields as soon as they are there."""
        self._arriving += 1
        counted = True

        def arrived() -> None:
            nonlocal counted
            if counted:
                counted = False
                self._arriving -= 1

        try:
            yield arrived
        finally:
            if counted:
                arrived()
                self._start()

    async def decide(
        self,
        model: ServedModel,
        X: Array,
        numbers: IntArray,
        *,
        coverage: float | None = None,
        record: bool = True,
        source: str = "the request",
    ) -> AsyncIterator[tuple[slice, Decisions]]:
        """Yield decisions on rows, piece by piece, in order.

        Raises InputError, with the number of the row, for a sample that the model does not take.
        """
        parts = [slice(first, min(first + MOST_ROWS, len(X))) for first in range(0, len(X), MOST_ROWS)]
        pieces: deque[_Piece] = deque()
        handed_in = 0
        try:
            for part in parts:
                while handed_in < len(parts) and len(pieces) < self._n_threads:
                    pieces.append(self._hand_in(model, X, numbers, parts[handed_in], coverage, source))
                    handed_in += 1
                decisions = await pieces[0].answer
                pieces.popleft()
                if record and self._on_decisions is not None:
                    self._on_decisions(model, decisions)
                yield part, decisions
        finally:
            for piece in pieces:
                piece.answer.cancel()
                with suppress(ValueError):  # it may be with a coder already
                    self._waiting.remove(piece)

    def _hand_in(
        self,
        model: ServedModel,
        X: Array,
        numbers: IntArray,
        part: slice,
        coverage: float | None,
        source: str,
    ) -> _Piece:
        """Put rows of a request into the queue."""
        if len(self._waiting) >= self._most_waiting:
            raise TooManyWaiting
        now, answer = time.monotonic(), self._loop.create_future()
        piece = _Piece(model, X[part], numbers[part], coverage, source, now, answer)
        self._waiting.append(piece)
        self._start()
        return piece

    def close(self) -> None:
        """End the threads."""
        for _ in range(self._n_threads):
            self._batches.put(None)

    # -- in the event loop -------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Hand batches to the coders that are free, now or when the longest wait is over."""
        while self._free and self._waiting and not (self._waiting[0].is_small and self._decides_small):
            if not self._start_batch():
                return

    def _start_batch(self) -> bool:
        """Hand a batch to a coder; return False if it must wait for others that are arriving."""
        if self._arriving and len(self._waiting) < MOST_ROWS:
            left = self._waiting[0].arrived + self._longest_wait - time.monotonic()
            if left > 0:
                if self._timer is None:
                    self._timer = self._loop.call_later(left, self._end_wait)
                return False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._take_batch()
        if batch:
            self._free -= 1
            self._decides_small = self._decides_small or batch[0].is_small
            self._batches.put(batch)
        return True

    def _end_wait(self) -> None:
        self._timer = None
        self._start()

    def _take_batch(self) -> list[_Piece]:
        """Take from the queue what can be decided with its first piece, in order, up to the most rows."""
        batch: list[_Piece] = []
        n_rows, left = 0, deque[_Piece]()
        while self._waiting:
            piece = self._waiting.popleft()
            if piece.answer.done():  # cancelled
                continue
            if not batch or (piece.key == batch[0].key and n_rows + len(piece.X) <= MOST_ROWS):
                batch.append(piece)
                n_rows += len(piece.X)
            else:
                left.append(piece)
        self._waiting = left
        return batch

    def _deliver(self, batch: list[_Piece], answers: list[Decisions | Exception]) -> None:
        self._free += 1
        if batch[0].is_small:
            self._decides_small = False
        for piece, answer in zip(batch, answers, strict=True):
            if piece.answer.done():
                continue
            if isinstance(answer, Exception):
                piece.answer.set_exception(answer)
            else:
                piece.answer.set_result(answer)
        if self._on_batch is not None:
            self._on_batch(sum(len(piece.X) for piece in batch))
        self._start()

    # -- in the threads ----------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            answers = self._decide_batch(batch)
            with suppress(RuntimeError):  # the loop may be closed by now
                self._loop.call_soon_threadsafe(self._deliver, batch, answers)
            del batch, answers  # a snapshot must not live on while the thread waits

    def _decide_batch(self, batch: list[_Piece]) -> list[Decisions | Exception]:
        """Decide on pieces together; if that fails one by one, so that only those at fault get the error."""
        if len(batch) == 1:
            return [self._decide_piece(batch[0])]
        first = batch[0]
        try:
            X = np.concatenate([piece.X for piece in batch])
            together = decide_samples(first.model, X, first.coverage)
        except Exception:
            return [self._decide_piece(piece) for piece in batch]
        answers: list[Decisions | Exception] = []
        place = 0
        for piece in batch:
            answers.append(slice_decisions(together, slice(place, place + len(piece.X))))
            place += len(piece.X)
        return answers

    def _decide_piece(self, piece: _Piece) -> Decisions | Exception:
        try:
            return decide_samples(piece.model, piece.X, piece.coverage)
        except ValueError as error:
            return name_row(piece.model, piece.X, piece.numbers, piece.source, error)
        except Exception as error:
            return error


def decide_samples(model: ServedModel, X: Array, coverage: float | None, fdr: float | None = None) -> Decisions:
    """Decide on samples as they were sent, not yet imputed and scaled."""
    options: dict[str, Any] = {"coverage": coverage} if coverage is not None else {}
    return model.clf.decide(prepare_features(model.clf, X), fdr=fdr, **options)


def name_row(model: ServedModel, X: Array, numbers: IntArray, source: str, error: ValueError) -> Exception:
    """Return the error for samples that a model does not take, with the number of the first of them."""
    try:
        place = find_error(model.clf, prepare_features(model.clf, X))
    except ValueError:
        place = 0
    return make_sample_error(source, int(numbers[place]), error)


def slice_decisions(decisions: Decisions, part: slice) -> Decisions:
    """Return the decisions on some of the samples."""
    sets, p_value = decisions.prediction_set, decisions.p_value
    return replace(
        decisions,
        label=decisions.label[part],
        candidate=decisions.candidate[part],
        unknown_score=decisions.unknown_score[part],
        rejected=decisions.rejected[part],
        p_value=None if p_value is None else p_value[part],
        prediction_set=None if sets is None else sets[part],
    )


def concatenate_decisions(parts: list[Decisions]) -> Decisions:
    """Return decisions on pieces of a request as one."""
    if len(parts) == 1:
        return parts[0]
    sets = [part.prediction_set for part in parts if part.prediction_set is not None]
    together: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("label", "candidate", "unknown_score", "rejected")
    }
    if sets:
        together["prediction_set"] = replace(
            sets[0],
            contains=np.concatenate([one.contains for one in sets]),
            p_values=np.concatenate([one.p_values for one in sets]),
        )
    return replace(parts[0], **together)

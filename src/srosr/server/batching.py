"""Samples of several requests are decided together: micro-batches with a stated longest wait.

Threads decide, the *coders* of a model. A request of few rows goes before those of many. If other requests are arriving
at that moment it waits for them, at most ``longest_wait``. Small requests are decided by one coder at a time, so that
they gather meanwhile. A request of many rows is cut into pieces, and no more of them wait or are decided at a time than
there are coders, so that requests take turns. While small requests come, too, the pieces are short and leave one coder
free; a coder that is the only one takes turns between small and large.
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
from ..classifiers.base import Decisions
from ..operations.model_input import name_features
from ..operations.sample_decisions import decide_rows
from .model_store import ServedModel

#: Rows of a batch at most, a multiple of the rows that BLAS multiplies at a time.
MOST_ROWS = 256
#: Rows of a request that does not wait for others, and of its pieces while small requests come.
_LARGE = 64
#: Seconds after a small request in which another is expected.
_MEMORY = 0.3


class TooManyWaiting(Exception):
    """More requests wait for a model than may."""


@dataclass(eq=False)
class _Request:
    """Rows that are to be decided."""

    model: ServedModel
    X: Array
    numbers: IntArray
    coverage: float | None
    #: What the samples are called in an error.
    source: str
    #: Rows that were handed in.
    n_done: int = 0

    @property
    def is_small(self) -> bool:
        """Whether it takes little time, so that it had better be decided with others."""
        return len(self.X) < _LARGE


@dataclass(eq=False)
class _Piece:
    """Rows of one request that wait for a coder."""

    request: _Request
    part: slice
    arrived: float
    answer: asyncio.Future[Decisions]

    def __len__(self) -> int:
        return self.part.stop - self.part.start

    @property
    def X(self) -> Array:
        """The rows."""
        return self.request.X[self.part]

    @property
    def key(self) -> tuple[int, float | None]:
        """What pieces of a batch have in common."""
        return id(self.request.model), self.request.coverage


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
        on_decisions: Callable[[ServedModel, Decisions], None] | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        self._longest_wait, self._most_waiting = longest_wait, most_waiting
        self._on_decisions, self._on_batch = on_decisions, on_batch
        #: Small requests, each of one piece, and pieces of large ones.
        self._small: deque[_Piece] = deque()
        self._large: deque[_Piece] = deque()
        #: When requests were announced whose samples are arriving, the newest last.
        self._arriving: dict[object, float] = {}
        self._n_threads = self._free = threads
        #: Coders at pieces of large requests, whether one is at small ones, what was begun last, when a small one came.
        self._n_large = 0
        self._decides_small = self._last_small = False
        self._small_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._batches: SimpleQueue[list[_Piece] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        for number in range(threads):
            Thread(target=self._work, name=f"srosr-coder-{number}", daemon=True).start()

    @property
    def waiting(self) -> int:
        """Number of pieces that wait."""
        return len(self._small) + len(self._large)

    @contextmanager
    def announce(self) -> Iterator[Callable[[], None]]:
        """Count a request whose samples are arriving; call what this yields as soon as they are there."""
        key = object()
        self._arriving[key] = time.monotonic()

        def arrived() -> None:
            self._arriving.pop(key, None)

        try:
            yield arrived
        finally:
            if key in self._arriving:
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

        Raises InputError, with the number of the row, for a sample that the model does not take, and TooManyWaiting
        before the first piece.
        """
        if len(self._small) + len({piece.request for piece in self._large}) >= self._most_waiting:
            raise TooManyWaiting
        request = _Request(model, X, numbers, coverage, source)
        pieces: deque[_Piece] = deque()
        try:
            self._hand_in(request, pieces)
            while pieces:
                decisions = await pieces[0].answer
                part = pieces.popleft().part
                self._hand_in(request, pieces)  # at once, so that no coder waits for who takes the decisions
                if record and self._on_decisions is not None:
                    self._on_decisions(model, decisions)
                yield part, decisions
        finally:
            for piece in pieces:
                piece.answer.cancel()
                with suppress(ValueError):  # it may be with a coder already
                    (self._small if request.is_small else self._large).remove(piece)

    def _hand_in(self, request: _Request, pieces: deque[_Piece]) -> None:
        """Put rows of a request into the queue, as long as it has few pieces there and with coders."""
        n = len(request.X)
        while request.n_done < n and len(pieces) < self._n_threads:
            now = time.monotonic()
            part = slice(request.n_done, min(request.n_done + self._choose_rows(now), n))
            piece = _Piece(request, part, now, self._loop.create_future())
            request.n_done = part.stop
            pieces.append(piece)
            if request.is_small:
                self._small.append(piece)
                self._small_at = now
            else:
                self._large.append(piece)
            self._start()

    def close(self) -> None:
        """End the threads."""
        for _ in range(self._n_threads):
            self._batches.put(None)

    # -- in the event loop -------------------------------------------------------------------------------------

    def _expects_small(self, now: float) -> bool:
        """Return whether small requests come at this time, so that large ones must not stand in their way."""
        return bool(self._small) or now - self._small_at < _MEMORY

    def _choose_rows(self, now: float) -> int:
        """Return how many rows of a large request are decided at a time."""
        return _LARGE if self._expects_small(now) else MOST_ROWS

    def _start(self) -> None:
        """Hand batches to the coders that are free, now or when the longest wait is over."""
        while self._free:
            now = time.monotonic()
            queue = self._choose_queue(now)
            if queue is None:
                return
            is_small = queue is self._small
            batch = self._take_batch(queue, MOST_ROWS if is_small else self._choose_rows(now))
            if not batch:
                continue
            self._free -= 1
            self._last_small = is_small
            if is_small:
                self._decides_small = True
                self._stop_timer()
            else:
                self._n_large += 1
            self._batches.put(batch)

    def _choose_queue(self, now: float) -> deque[_Piece] | None:
        """Return from which queue a free coder takes its next batch; None if what waits has to wait longer."""
        alone = self._n_threads == 1
        is_turn_of_large = alone and self._last_small and bool(self._large)
        if self._small and not self._decides_small and not is_turn_of_large:
            left = self._find_wait(now)
            if left <= 0:
                return self._small
            if self._timer is None:
                self._timer = self._loop.call_later(left, self._end_wait)
            if alone:
                return None
        most = self._n_threads - 1 if not alone and self._expects_small(now) else self._n_threads
        return self._large if self._large and self._n_large < most else None

    def _find_wait(self, now: float) -> float:
        """Return for how many seconds small requests wait for others that are arriving.

        Who has been arriving for longer than the longest wait may take for ever, and nobody waits for it.
        """
        if not self._arriving or sum(map(len, self._small)) >= MOST_ROWS:
            return 0.0
        newest = next(reversed(self._arriving.values()))
        return min(self._small[0].arrived, newest) + self._longest_wait - now

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_wait(self) -> None:
        self._timer = None
        self._start()

    def _take_batch(self, queue: deque[_Piece], most: int) -> list[_Piece]:
        """Take from a queue what can be decided with its first piece, in order, up to so many rows."""
        batch: list[_Piece] = []
        n_rows, left = 0, deque[_Piece]()
        while queue:
            piece = queue.popleft()
            if piece.answer.done():  # cancelled
                continue
            if not batch or (piece.key == batch[0].key and n_rows + len(piece) <= most):
                batch.append(piece)
                n_rows += len(piece)
            else:
                left.append(piece)
        queue.extend(left)
        return batch

    def _deliver(self, batch: list[_Piece], answers: list[Decisions | Exception]) -> None:
        self._free += 1
        if batch[0].request.is_small:
            self._decides_small = False
        else:
            self._n_large -= 1
        for piece, answer in zip(batch, answers, strict=True):
            if piece.answer.done():
                continue
            if isinstance(answer, Exception):
                piece.answer.set_exception(answer)
            else:
                piece.answer.set_result(answer)
        if self._on_batch is not None:
            self._on_batch(sum(map(len, batch)))
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
        first = batch[0].request
        try:
            X = np.concatenate([piece.X for piece in batch])
            together = decide_samples(first.model, X, first.coverage)
        except Exception:
            return [self._decide_piece(piece) for piece in batch]
        answers: list[Decisions | Exception] = []
        place = 0
        for piece in batch:
            answers.append(slice_decisions(together, slice(place, place + len(piece))))
            place += len(piece)
        return answers

    def _decide_piece(self, piece: _Piece) -> Decisions | Exception:
        request, clf = piece.request, piece.request.model.clf
        X, numbers = name_features(clf, piece.X), request.numbers[piece.part]
        try:
            return decide_rows(clf, request.source, numbers, X, coverage=request.coverage)
        except Exception as error:
            return error


def decide_samples(model: ServedModel, X: Array, coverage: float | None) -> Decisions:
    """Decide on samples as they were sent, not yet imputed and scaled."""
    return model.clf.decide(name_features(model.clf, X), coverage=coverage)


def slice_decisions(decisions: Decisions, part: slice) -> Decisions:
    """Return the decisions on some of the samples."""
    sets, p_value, empty = decisions.prediction_set, decisions.p_value, decisions._empty
    return replace(
        decisions,
        label=decisions.label[part],
        candidate=decisions.candidate[part],
        unknown_score=decisions.unknown_score[part],
        rejected=decisions.rejected[part],
        p_value=None if p_value is None else p_value[part],
        prediction_set=None if sets is None else sets[part],
        _empty=None if empty is None else empty[part],
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
    empty = [part._empty for part in parts if part._empty is not None]
    if len(empty) == len(parts):
        together["_empty"] = np.concatenate(empty)
    if sets:
        together["prediction_set"] = replace(
            sets[0],
            contains=np.concatenate([one.contains for one in sets]),
            p_values=np.concatenate([one.p_values for one in sets]),
        )
    return replace(parts[0], **together)

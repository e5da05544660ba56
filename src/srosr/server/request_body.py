"""The body of a request arrives: within a size, a time, and what all bodies together may take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from fastapi import Request
from starlette.types import Scope

from .answers import ApiError
from .settings import Limits

#: Bodies up to this size count as nothing: they are served also while large ones fill the memory.
SMALL_BODY = 256 * 1024
#: Keys of the scope of a request: bytes of its body that arrived, and bytes that it holds.
RECEIVED, _HELD = "srosr.body", "srosr.held"
#: Of the bytes for all, the share that one address may take.
_SHARE = 0.5
#: Seconds in which the rest of a body that is too large is thrown away, so that the client reads the answer.
_LINGER = 5.0
#: Bytes a second that a large body must bring, looked at so many times within the time that it has.
_LEAST_RATE, _LOOKS = 32 * 1024, 6


class BodyBudget:
    """Bytes that all requests may hold at a time: bodies while they arrive, then the samples that were in them.

    What a request holds beyond ``SMALL_BODY`` counts.
    """

    def __init__(self, most: int, most_samples: int | None = None) -> None:
        self._most, self._most_samples, self._used = most, most if most_samples is None else most_samples, 0
        self._by_address: Counter[str] = Counter()

    def take(self, scope: Scope, n: int) -> None:
        """Count bytes of a body that arrived; raise if there are too many."""
        scope[RECEIVED] = scope.get(RECEIVED, 0) + n
        self._hold(scope, scope[RECEIVED])

    def expect(self, scope: Scope, n: int) -> None:
        """Count samples of so many bytes, before they are in memory, beside the body that they came in."""
        if n - SMALL_BODY > self._most_samples:
            raise ApiError(413, f"The samples take {n / 1e6:,.0f} MB of memory: send fewer at a time.")
        self._hold(scope, scope.get(RECEIVED, 0) + n)

    def exchange(self, scope: Scope, n: int) -> None:
        """Count what a request holds now in place of its body, which nobody needs any more."""
        self._change(scope, max(0, n - SMALL_BODY))

    def keep(self, scope: Scope, n: int) -> None:
        """Count an answer of so many bytes, which waits to be read, unless what it was made from takes more."""
        self._change(scope, max(0, n - SMALL_BODY, scope.get(_HELD, 0)))

    def give_back(self, scope: Scope) -> None:
        """Count what a request holds as free again."""
        self._change(scope, 0)

    def _hold(self, scope: Scope, n: int) -> None:
        counted = max(0, n - SMALL_BODY)
        more = counted - scope.get(_HELD, 0)
        of_address = self._by_address[_get_address(scope)] + more
        if more > 0 and (self._used + more > self._most or of_address > self._most * _SHARE):
            raise ApiError(429, "The server is busy with other requests: try again later.", {"Retry-After": "1"})
        self._change(scope, counted)

    def _change(self, scope: Scope, counted: int) -> None:
        more = counted - scope.pop(_HELD, 0)
        address = _get_address(scope)
        self._used += more
        self._by_address[address] += more
        if not self._by_address[address]:
            del self._by_address[address]
        if counted:
            scope[_HELD] = counted


def _get_address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


async def receive_body(request: Request, limits: Limits, budget: BodyBudget) -> bytes:
    """Return the whole body; one that is too large or too slow is an error."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise ApiError(415, "The body must not be compressed: send it without Content-Encoding.")
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > limits.body:
        if "expect" not in request.headers:  # who asks before sending has not sent anything
            await _throw_away(request, 4 * limits.body)
        raise _refuse_size(limits)
    chunks: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(limits.body_seconds) as end, _Pace(end, limits.body_seconds, lambda: size) as pace:
            while more and size <= limits.body:
                message = await request.receive()
                if message["type"] != "http.request":
                    raise ApiError(400, "The connection ended before the body did.")
                chunk, more = message.get("body", b""), message.get("more_body", False)
                budget.take(request.scope, len(chunk))
                size += len(chunk)
                chunks.append(chunk)
    except TimeoutError:
        within = f"The body did not arrive within {limits.body_seconds:g} seconds."
        sentence = "The body stands still, or arrives too slowly: try again." if pace.is_slow else within
        raise ApiError(408, sentence, {"Connection": "close"}) from None
    if size > limits.body:
        chunks.clear()
        if more:
            await _throw_away(request, 4 * limits.body)
        raise _refuse_size(limits)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class _Pace:
    """Ends a timeout early if a large body stands still, so that it does not hold memory for nothing."""

    def __init__(self, end: asyncio.Timeout, seconds: float, get_size: Callable[[], int]) -> None:
        self._end, self._get_size = end, get_size
        self._pause, self._size = seconds / _LOOKS, 0
        self._timer: asyncio.TimerHandle | None = None
        self.is_slow = False

    async def __aenter__(self) -> _Pace:
        self._wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._look)

    def _look(self) -> None:
        before, self._size = self._size, self._get_size()
        if before > SMALL_BODY and self._size - before < _LEAST_RATE * self._pause:
            self.is_slow = True
            self._end.reschedule(asyncio.get_running_loop().time())
        else:
            self._wait()


def _refuse_size(limits: Limits) -> ApiError:
    size = f"{limits.body / 1e6:g} MB"
    return ApiError(413, f"The body has more than {size}: send fewer samples at a time.", {"Connection": "close"})


async def _throw_away(request: Request, most: int) -> None:
    """Receive the rest of a body and forget it."""
    size = 0
    try:
        async with asyncio.timeout(_LINGER):
            while size < most:
                message = await request.receive()
                size += len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return

"""The server itself: sockets, connections with deadlines, signals, and a drained end."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..operations.input_errors import InputError
from .answers import encode_json
from .application import make_app
from .demo_model import DigitSamples
from .guard import CONNECTION, list_security_headers
from .model_store import ModelStore
from .settings import Limits, ServerSettings

#: Seconds that a thread may hold the interpreter: the event loop must not wait longer for the coder's Python.
_SWITCH_INTERVAL = 0.0005
_KEEP_ALIVE = 75
_BACKLOG = 512
_TICKS = 10
#: Bytes of an answer that the system takes ahead of what the network carries: few, so that one sees who reads slowly.
_UNSENT = 128 * 1024
#: Seconds for the last answers, once the time for requests in flight is over.
_GOODBYE = 5
#: Requests that may wait on a connection for the answer to the one before.
_MOST_PIPELINED = 16
#: Headers that say where a body ends.
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
logger = logging.getLogger("srosr.server")


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; an error names the option at fault."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"--host {host}: {error.strerror or error}.") from None
    try:
        if sys.platform != "win32":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # connections get it from this socket
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise InputError(f"--port {port}: {error.strerror or error}; choose another with --port.") from None
    bound.setblocking(False)
    return bound


def run_server(
    settings: ServerSettings,
    store: ModelStore,
    folder: Path,
    bound: socket.socket,
    demo: DigitSamples | None = None,
    *,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; requests in flight are finished then. ``on_ready`` is called once it serves."""
    guard, app = make_app(settings, store, folder, demo)
    config = make_config(guard, settings.limits)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    GuardedServer(config, app, settings.limits, on_ready).run(sockets=[bound])


def make_config(guard: Any, limits: Limits, *, lifespan: Literal["on", "off"] = "on") -> uvicorn.Config:
    """Return how uvicorn serves an application that stands behind a guard."""
    return uvicorn.Config(
        guard,
        http=type("ServedProtocol", (GuardedProtocol,), {"limits": limits}),
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(limits.drain_seconds) + _GOODBYE,
        backlog=_BACKLOG,
    )


class GuardedServer(uvicorn.Server):
    """Ends with status 0 after a signal, and closes connections that are too slow."""

    def __init__(self, config: uvicorn.Config, app: Any, limits: Limits, on_ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._app, self._limits, self._on_ready = app, limits, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what is there now stays, and need not be looked at again
        if self._on_ready is not None:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                if isinstance(connection, GuardedProtocol):
                    connection.check_deadlines(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.service.status = "draining"
        tasks = [asyncio.create_task(self._sweep()), asyncio.create_task(self._give_up())]
        await super().shutdown(sockets)
        for task in tasks:
            task.cancel()

    async def _give_up(self) -> None:
        """Cut off requests that are not finished in time; the guard answers them."""
        await asyncio.sleep(self._limits.drain_seconds)
        for task in list(self.server_state.tasks):
            task.cancel()

    async def _sweep(self) -> None:
        """Close connections that are too slow while others are finished."""
        while True:
            await self.on_tick(0)
            await asyncio.sleep(1.0)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGTERM and Ctrl-C drain the server; a second Ctrl-C ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._handle) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.should_exit and number == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


class GuardedProtocol(HttpToolsProtocol):
    """A connection with limits and deadlines for what arrives, and for answers that nobody reads.

    Requests to change the protocol are served as if they did not ask for it.
    """

    limits: Limits

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        #: The task of the request that is served, cancelled if the client goes away.
        self.request: asyncio.Task[Any] | None = None
        self.is_lost = False
        #: Bytes of answers that were given to the connection.
        self.written = 0
        #: Since when bytes wait to be read by the client, and how many had been read by then.
        self._unread_since: float | None = None
        self._read_before = 0
        #: When the head of a request began, None while none is being read, and its bytes so far.
        self._head_at: float | None = time.monotonic()
        self._head_bytes = self._field_bytes = 0
        #: When the body of a request began, None if none is being received, and the bytes since its last part.
        self._body_at: float | None = None
        self._idle_bytes = 0
        self._in_message = self._repeats_head = self._is_refused = False
        #: Since when the connection is kept for a further request, None while there is one.
        self.idle_since: float | None = None
        if len(self.connections) > self.limits.connections and not self._close_idle():
            self._refuse(503, "The server has too many connections: try again later.")

    def _close_idle(self) -> bool:
        """Close the connection that has been kept for longest without a request; return whether there was one."""
        kept = [one for one in self.connections if isinstance(one, GuardedProtocol) and one.idle_since is not None]
        kept = [one for one in kept if not one.transport.is_closing()]
        if kept:
            min(kept, key=lambda one: one.idle_since or 0.0).transport.close()
        return bool(kept)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self.request is not None and not self.request.done():
            self.request.cancel()
        super().connection_lost(exc)

    # -- what arrives ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self.idle_since = None
        if self._is_refused:
            return
        if not self._in_message:
            self._begin_head()
        self._head_bytes += len(data)
        self._idle_bytes += len(data)
        try:
            while data:
                data = self._feed(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooLarge):
                self._refuse(431, "The head of the request is too large.")
            else:
                self._refuse(400, "The request is not valid HTTP.")
            return
        # A line that has not ended yet is held by the parser: these count it, too.
        is_long_head = self._head_at is not None and self._head_bytes > self.limits.head
        is_long_trailer = self._body_at is not None and self._idle_bytes > self.limits.head
        if (is_long_head or is_long_trailer) and not self.transport.is_closing():
            self._refuse(431, "The head of the request is too large.")

    def _feed(self, data: bytes) -> bytes:
        """Give bytes to the parser; return those that it left since it took the protocol to change."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as change:
            rest = data[change.args[0] :]
        else:
            return b""
        # It did not look for a body. Another parser does, which gets to know where the body ends from a head without
        # the wish for another protocol.
        head = [b"POST / HTTP/1.1", *(b"%s: %s" % pair for pair in self.headers if pair[0] in _FRAMING), b"", b""]
        self.parser = httptools.HttpRequestParser(self)
        with suppress(AttributeError):  # httptools before 0.6.3 does not know it
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._repeats_head = True
        try:
            self.parser.feed_data(b"\r\n".join(head))
        finally:
            self._repeats_head = False
        return rest

    def _begin_head(self) -> None:
        if self._head_at is None:
            self._head_at, self._head_bytes = time.monotonic(), 0

    def _count_field(self, size: int) -> None:
        self._field_bytes += size
        if self._field_bytes > self.limits.head:
            raise _TooLarge

    def on_message_begin(self) -> None:
        if self._repeats_head:
            return
        self._in_message, self._field_bytes = True, 0
        self._begin_head()
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        if not self._repeats_head:
            self._count_field(len(url))
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._repeats_head:
            self._count_field(len(name) + len(value) + 4)  # with a colon, a space and the end of the line
            if self._body_at is None:  # what comes after a body in chunks is of no use to anybody
                super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise _TooLarge  # requests before this one are answered, then the connection ends
        if not self._repeats_head:
            self._head_at, self._body_at, self._idle_bytes = None, time.monotonic(), 0
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._idle_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():  # only the head is: see _feed
            return
        self._in_message, self._body_at = False, None
        super().on_message_complete()
        if not self.pipeline:  # a large body may have stopped reading, by which one sees that the client goes away
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        if self._head_at is not None:  # of the next request, which had to wait
            self._head_at = time.monotonic()
        super().on_response_complete()
        if self.pipeline:  # those that have arrived come first
            self.flow.pause_reading()
        elif self.cycle is None or self.cycle.response_complete:
            self.idle_since = time.monotonic()

    # -- deadlines -------------------------------------------------------------------------------------------

    def check_deadlines(self, now: float) -> None:
        """End the connection if the head of a request, or the reading of an answer, takes too long."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self._head_at is not None and not is_answering and now - self._head_at > self.limits.head_seconds:
            self._refuse(408, f"The head of the request did not arrive within {self.limits.head_seconds:g} seconds.")
            return
        # The routes look after bodies that they need. This one was answered without its rest, which does not end.
        answered = self.cycle is not None and self.cycle.response_complete
        if self._body_at is not None and answered and now - self._body_at > self.limits.body_seconds:
            self.transport.abort()
            return
        with suppress(Exception):  # a transport that is being closed may not say
            if self._is_read_too_slowly(self.transport.get_write_buffer_size(), now):
                self._break_off()

    def _is_read_too_slowly(self, waiting: int, now: float) -> bool:
        """Return whether the client reads its answers more slowly than allowed; so many bytes wait for it."""
        read = self.written - waiting
        if not waiting:
            self._unread_since = None
        elif self._unread_since is None:
            self._unread_since, self._read_before = now, read
        elif now - self._unread_since > self.limits.answer_seconds:
            if read - self._read_before < self.limits.answer_rate * (now - self._unread_since):
                return True
            self._unread_since, self._read_before = now, read
        return False

    def _break_off(self) -> None:
        """End the connection at once, also what the system would still send."""
        with suppress(OSError, AttributeError):
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _refuse(self, status: int, message: str) -> None:
        """Take no more from the connection, and end it: with this answer, unless another is being given."""
        self._is_refused = True
        if self.transport.is_closing():
            self.transport.abort()
            return
        cycle = self.cycle
        if self._body_at is not None:  # the request whose body this is has an answer of its own
            if self.pipeline or (cycle.response_started and not cycle.response_complete):
                self.transport.abort()
                return
            if cycle.response_complete:
                self.transport.close()
                return
        elif cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False  # requests before this one are answered, then the connection ends
            return
        body = encode_json({"error": message})
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(b"connection", b"close"), *list_security_headers()]
        lines = [b"HTTP/1.1 %d %s" % (status, _REASONS[status]), *(b"%s: %s" % pair for pair in headers), b"", body]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()


class _TooLarge(Exception):
    """A request has more bytes of headers, before or after its body, than it may, or too many wait before it."""


_REASONS = {
    400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large", 503: b"Service Unavailable",
}  # fmt: skip

"""The server itself: sockets, connections with deadlines, signals, and a drained end."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..operations import InputError
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
    config = uvicorn.Config(
        guard,
        http=_make_protocol(settings.limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=int(settings.limits.drain_seconds),
        backlog=_BACKLOG,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    _Server(config, app, settings.limits, on_ready).run(sockets=[bound])


class _Server(uvicorn.Server):
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
        sweep = asyncio.create_task(self._sweep())
        await super().shutdown(sockets)
        sweep.cancel()

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
    """A connection with deadlines for the heads of requests and for answers that nobody reads."""

    limits: Limits

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        #: The task of the request that is served, cancelled if the client goes away.
        self.request: asyncio.Task[Any] | None = None
        self.is_lost = False
        #: When something was last given to the connection, and when it was last seen without unsent bytes.
        self.sent_at = self._empty_at = time.monotonic()
        #: When the head of a request began, None while none is being read, and its bytes so far.
        self._head_at: float | None = self.sent_at
        self._head_bytes = 0
        #: When the body of a request began, None if none is being received.
        self._body_at: float | None = None
        self._in_message = False
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "The server has too many connections: try again later.")

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self.request is not None and not self.request.done():
            self.request.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._in_message:
            self._begin_head()
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_at is not None and self._head_bytes > self.limits.head and not self.transport.is_closing():
            self._refuse(431, "The head of the request is too large.")

    def _begin_head(self) -> None:
        if self._head_at is None:
            self._head_at, self._head_bytes = time.monotonic(), 0

    def on_message_begin(self) -> None:
        self._in_message = True
        self._begin_head()
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._head_at, self._body_at = None, time.monotonic()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_message, self._body_at = False, None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "The request is not valid HTTP.")

    def check_deadlines(self, now: float) -> None:
        """End the connection if the head of a request, or the reading of an answer, takes too long."""
        if self._head_at is not None and now - self._head_at > self.limits.head_seconds:
            self._refuse(408, f"The head of the request did not arrive within {self.limits.head_seconds:g} seconds.")
            return
        # The routes look after bodies that they need. This one was answered without its rest, which does not end.
        answered = self.cycle is not None and self.cycle.response_complete
        if self._body_at is not None and answered and now - self._body_at > self.limits.body_seconds:
            self.transport.abort()
            return
        with suppress(Exception):  # a transport that is being closed may not say
            if not self.transport.get_write_buffer_size():
                self._empty_at = now
            elif now - max(self._empty_at, self.sent_at) > self.limits.answer_seconds:
                self.transport.abort()

    def _refuse(self, status: int, message: str) -> None:
        """Answer without a request, and end the connection."""
        if self.transport.is_closing():
            self.transport.abort()
            return
        body = encode_json({"error": message})
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(b"connection", b"close"), *list_security_headers()]
        lines = [b"HTTP/1.1 %d %s" % (status, _REASONS[status]), *(b"%s: %s" % pair for pair in headers), b"", body]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()


_REASONS = {
    400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large", 503: b"Service Unavailable",
}  # fmt: skip


def _make_protocol(limits: Limits) -> type[GuardedProtocol]:
    return type("ServedProtocol", (GuardedProtocol,), {"limits": limits})

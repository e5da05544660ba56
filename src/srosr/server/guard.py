"""What stands before all routes: host, origin and token are checked, answers get security headers, all is counted.

It is plain ASGI, since it sees each message of each request.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..operations.input_errors import escape_unprintable
from .answers import ENDING, ApiError, answer_error, describe_error
from .request_body import RECEIVED
from .settings import ServerSettings, is_loopback

#: Addresses that need no token: probes, and the page, which asks for it.
_OPEN = frozenset({"/healthz", "/readyz", "/", "/favicon.ico"})
_OPEN_FOLDER = "/static/"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECURITY = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
]
_NO_STORE = (b"cache-control", b"no-store")
#: Bytes of a body that are handed to the connection at a time.
_PIECE = 2**18
#: Key in the scope of a request whether its sender may know more than that the server lives.
TRUSTED = "srosr.trusted"
#: Key in the scope of the connection, if the server is one of :mod:`srosr.server.http_server`.
CONNECTION = "srosr.connection"
access_log = logging.getLogger("srosr.access")


def list_security_headers() -> list[tuple[bytes, bytes]]:
    """Return the headers of answers that are made without a request."""
    return [*_SECURITY, _NO_STORE]


class Guard:
    """An application in front of another."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._settings = app, settings
        self._token = None if settings.token is None else settings.token.encode()
        self._names = {name.lower().strip("[]") for name in (settings.host, *settings.allowed_hosts)}
        self._beyond = not is_loopback(settings.host)
        #: Set when the application starts.
        self.service: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        connection = scope.get(CONNECTION)
        started = time.perf_counter()
        metrics, budget = self.service.metrics, self.service.budget
        if connection is not None:
            connection.request = asyncio.current_task()
        # What answers GET answers HEAD. The server keeps its scope, by which it knows that no body is to be sent.
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        answer = _Answer(send, connection, partial(budget.keep, inner), without_body=scope["method"] == "HEAD")
        metrics.in_flight.inc()
        try:
            await self._serve(inner, receive, answer)
        except asyncio.CancelledError:
            if connection is None:
                raise
            if not connection.is_lost:
                await _say_goodbye(inner, receive, answer)
        finally:
            if connection is not None:
                connection.request = None
            received = inner.get(RECEIVED, 0)
            budget.give_back(inner)
            seconds = time.perf_counter() - started
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = getattr(inner.get("route"), "path", None) or "other"
            metrics.in_flight.dec()
            metrics.count_request(route, method, answer.status or 499, seconds, received, answer.sent)
            if self._settings.log_requests:
                path = escape_unprintable(scope["path"])[:200]
                access_log.info("%s %s %s %.1f ms", method, path, answer.status or "-", 1000 * seconds)

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            self._check(scope)
            await self._app(scope, receive, answer.send)
        except Exception as error:
            if answer.status:  # too late for another answer; what went wrong is in the log
                if not answer.complete:
                    describe_error(error)
                    raise
                return
            await answer_error(describe_error(error))(scope, receive, answer.send)

    # -- checks ----------------------------------------------------------------------------------------------

    def _check(self, scope: Scope) -> None:
        """Raise if a request must not reach the routes."""
        found: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in found and name in (b"host", b"authorization", b"origin", b"content-length"):
                raise ApiError(400, f"The request has more than one {name.decode('latin-1')} header.")
            found[name] = value
        self._check_host(found.get(b"host"))
        self._check_origin(scope, found)
        path = scope["path"]
        is_open = path in _OPEN or path.startswith(_OPEN_FOLDER)
        scope[TRUSTED] = self._has_token(found.get(b"authorization"))
        if not is_open and not scope[TRUSTED]:
            given = b"authorization" in found
            message = "The token is wrong." if given else "A token is needed, as in Authorization: Bearer TOKEN."
            raise ApiError(401, message, {"WWW-Authenticate": "Bearer"})

    def _has_token(self, authorization: bytes | None) -> bool:
        if self._token is None:
            return True
        scheme, _, token = (authorization or b"").partition(b" ")
        # In constant time, so that nothing is learned from how long it takes.
        return hmac.compare_digest(token.strip(), self._token) and scheme.lower() == b"bearer"

    def _check_host(self, value: bytes | None) -> None:
        """Raise for a name that is not the server's: a page of another site may have made it point here."""
        name = None if value is None else _split_host(value)
        if name is None:
            raise ApiError(400, "The request has no valid Host header.")
        if self._token is not None or name in self._names or name.endswith(".localhost") or is_loopback(name):
            return
        if self._beyond and _is_address(name):
            return
        raise ApiError(403, "The server is not known by the name in Host: start it with --allow-host NAME to allow it.")

    def _check_origin(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise for a request that a page of another site makes."""
        origin = headers.get(b"origin")
        foreign = origin is not None and origin.lower().partition(b"://")[2] != headers[b"host"].lower()
        if headers.get(b"sec-fetch-site") == b"cross-site":
            # A link to the page is fine.
            is_link = scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == b"navigate"
            foreign = foreign or not (is_link and scope["path"] == "/")
        if foreign:
            raise ApiError(403, "Requests of pages of other sites are not served.")


async def _say_goodbye(scope: Scope, receive: Receive, answer: _Answer) -> None:
    """Answer a request that the end of the server cuts off, if it was not answered yet."""
    if not answer.status:
        error = ApiError(503, ENDING, {"Connection": "close", "Retry-After": "1"})
        await answer_error(error)(scope, receive, answer.send)


class _Answer:
    """Passes the messages of an answer on: adds headers, counts bytes, sends what is long piece by piece.

    The request goes on until the client has read nearly all of it: so long it counts, and what it holds is kept count
    of by ``keep``.
    """

    def __init__(self, send: Send, connection: Any, keep: Callable[[int], None], *, without_body: bool) -> None:
        self._send, self._connection, self._keep, self._without_body = send, connection, keep, without_body
        self.status, self.sent, self.complete = 0, 0, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            headers += _SECURITY
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append(_NO_STORE)
            message = {**message, "headers": headers}
            size = sum(len(name) + len(value) for name, value in headers)
        else:
            if self._without_body:
                message = {**message, "body": b""}
            body = message.get("body", b"")
            if len(body) > _PIECE:
                self._keep(len(body))
            for start in range(0, len(body) - _PIECE, _PIECE):
                await self._pass({**message, "body": body[start : start + _PIECE], "more_body": True}, _PIECE)
                message = {**message, "body": body[start + _PIECE : start + 2 * _PIECE]}
            size = len(message.get("body", b""))
            self.sent += len(body)
        await self._pass(message, size)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True

    async def _pass(self, message: Message, size: int) -> None:
        """Send a message of so many bytes; waits while the client does not read."""
        await self._send(message)
        if self._connection is not None:
            self._connection.written += size


def _split_host(value: bytes) -> str | None:
    """Return the name in a Host header without its port; None if it is none."""
    try:
        split = urlsplit(f"//{value.decode('ascii')}")
        name, _ = split.hostname, split.port
    except (ValueError, UnicodeDecodeError):
        return None
    return name if name and not split.path and not split.query and "@" not in split.netloc else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""What stands before all routes, each a small ASGI application; :mod:`srosr.server.application` has their list.

Starlette's ``TrustedHostMiddleware`` takes no IPv6 addresses and answers in plain text, so that hosts are checked here.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .answers import answer_error
from .monitoring import ServerMetrics
from .schemas import ApiError
from .settings import Limits, ServerSettings, is_address, is_loopback

#: Addresses that need no token: probes, and the page, which asks for it.
_OPEN = frozenset({"/healthz", "/readyz", "/", "/favicon.ico"})
_PAGE = "/static/"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECURITY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "cache-control": "no-store",
}
#: Seconds in which the rest of a body that is refused is thrown away, so that the client reads the answer.
_LINGER = 3.0
#: Key in the scope of a request whether its sender may know more than that the server lives.
TRUSTED = "srosr.trusted"
#: Raises if a request must not be served.
Check = Callable[[Scope, Headers], None]


class Middleware:
    """An application in front of another; what is not HTTP is passed on."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        serve = self.serve if scope["type"] == "http" else self.app
        await serve(scope, receive, send)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request over HTTP."""


class Counting(Middleware):
    """Counts requests and seconds."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), 499
        metrics: ServerMetrics = scope["app"].state.service.metrics

        async def note_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        metrics.in_flight.inc()
        try:
            await self.app(scope, receive, note_status)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = getattr(scope.get("route"), "path", None) or "other"
            metrics.in_flight.dec()
            metrics.requests.labels(route, method, str(status)).inc()
            metrics.seconds.labels(route).observe(time.perf_counter() - started)


class SecurityHeaders(Middleware):
    """Adds the headers that keep a browser safe."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, add_headers)


class Errors(Middleware):
    """Answers what is raised before a route has begun its answer, and requests that the end of the server cuts off."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def note_begin(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self.app(scope, receive, note_begin)
        except (Exception, asyncio.CancelledError) as error:
            if has_begun:
                raise
            if isinstance(error, asyncio.CancelledError):
                error = ApiError(503, "The server is ending: try again.", {"Connection": "close", "Retry-After": "1"})
            await answer_error(error)(scope, receive, send)


class Checking(Middleware):
    """Refuses requests that do not pass a check."""

    def __init__(self, app: ASGIApp, *, check: Check) -> None:
        super().__init__(app)
        self._check = check

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._check(scope, Headers(scope=scope))
        await self.app(scope, receive, send)


def check_host(settings: ServerSettings) -> Check:
    """Refuse names that are not the server's: a page of another site may have made one point here."""
    names = {name.lower().strip("[]") for name in (settings.host, *settings.allowed_hosts)}
    takes_addresses = not is_loopback(settings.host)

    def check(scope: Scope, headers: Headers) -> None:
        host = _split_host(headers.get("host", ""))
        if not host:
            raise ApiError(400, "The request has no valid Host header.")
        is_own = host in names or host.endswith(".localhost") or is_loopback(host)
        if settings.token is None and not is_own and not (takes_addresses and is_address(host)):
            message = "The server is not known by the name in Host: start it with --allow-host NAME to allow it."
            raise ApiError(403, message)

    return check


def check_origin(scope: Scope, headers: Headers) -> None:
    """Refuse requests that a page of another site makes."""
    origin = headers.get("origin")
    is_foreign = origin is not None and origin.lower().partition("://")[2] != headers["host"].lower()
    if headers.get("sec-fetch-site") == "cross-site":
        # A link to the page is fine.
        is_link = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        is_foreign = is_foreign or not (is_link and scope["path"] == "/")
    if is_foreign:
        raise ApiError(403, "Requests of pages of other sites are not served.")


def check_token(token: str | None) -> Check:
    """Refuse requests without the token, except for probes and the page."""

    def check(scope: Scope, headers: Headers) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # In constant time, so that nothing is learned from how long it takes.
        is_right = hmac.compare_digest(given.strip().encode("latin-1"), (token or "").encode())
        scope[TRUSTED] = token is None or (is_right and scheme.lower() == "bearer")
        is_open = scope["path"] in _OPEN or scope["path"].startswith(_PAGE)
        if not is_open and not scope[TRUSTED]:
            message = "The token is wrong." if scheme else "A token is needed, as in Authorization: Bearer TOKEN."
            raise ApiError(401, message, {"WWW-Authenticate": "Bearer"})

    return check


class Receiving(Middleware):
    """Refuses bodies that are too large, too slow or compressed, and ends the work when the client leaves."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        super().__init__(app)
        self._limits = limits

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may see another body
            raise ApiError(400, "The request says in two ways where its body ends.", {"Connection": "close"})
        if headers.get("content-encoding", "identity") != "identity":
            raise ApiError(415, "The body must not be compressed: send it without Content-Encoding.")
        size = int(headers.get("content-length", 0))
        if size > self._limits.body:
            if "expect" not in headers:  # a client that asks before sending has not sent anything
                await self._throw_away(receive)
            raise self._refuse()
        size, is_answered, has_left, end = 0, False, False, 0.0
        work, loop = asyncio.current_task(), asyncio.get_running_loop()
        leaving: asyncio.Future[Message] | None = None

        def leave(_: asyncio.Future[Message]) -> None:
            nonlocal has_left
            if not is_answered and work is not None and not work.cancelling():  # by the end of the server
                has_left = True
                work.cancel()

        async def receive_part() -> Message:
            nonlocal size, leaving, end
            end = end or loop.time() + self._limits.body_seconds
            if leaving is not None:
                return await asyncio.shield(leaving)
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                sentence = f"The body did not arrive within {self._limits.body_seconds:g} seconds."
                raise ApiError(408, sentence, {"Connection": "close"}) from None
            if message["type"] == "http.disconnect":
                raise ApiError(400, "The connection ended before the body did.")
            size += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if size > self._limits.body:
                if not is_whole:
                    await self._throw_away(receive)
                raise self._refuse()
            if is_whole:  # after that comes only that the client leaves
                leaving = asyncio.ensure_future(receive())
                leaving.add_done_callback(leave)
            return message

        async def note_end(message: Message) -> None:
            nonlocal is_answered
            is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self.app(scope, receive_part, note_end)
        except asyncio.CancelledError:
            if not has_left:
                raise
            raise ApiError(499, "The client has left.") from None
        finally:
            is_answered = True
            if leaving is not None:
                leaving.cancel()

    def _refuse(self) -> ApiError:
        limit = f"{self._limits.body / 1e6:g} MB"
        return ApiError(413, f"The body has more than {limit}: send fewer samples at a time.", {"Connection": "close"})

    async def _throw_away(self, receive: Receive) -> None:
        """Receive the rest of a body and forget it."""
        size, message = 0, {"more_body": True}
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                while size < 4 * self._limits.body and message.get("more_body", False):
                    message = dict(await receive())
                    size += len(message.get("body", b""))  # type: ignore[arg-type]


def _split_host(value: str) -> str | None:
    """Return the name in a Host header without its port; None if it is none."""
    try:
        split = urlsplit(f"//{value.encode('latin-1').decode('ascii')}")
        name, _ = split.hostname, split.port
    except ValueError:
        return None
    return name if not split.path and not split.query and "@" not in split.netloc else None

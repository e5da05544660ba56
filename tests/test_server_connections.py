"""Connections: what is sent around the body of a request, protocols that are not spoken, slow readers, and the end.

The applications behind the guard are small here, so that a request takes as long as a test wants.
"""

import asyncio
import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace

import pytest
from server_runs import server_required, wait_until

server_required()

from srosr.server import answers  # noqa: E402
from srosr.server.answers import LineStream, answer_result, write_off_loop  # noqa: E402
from srosr.server.guard import Guard  # noqa: E402
from srosr.server.http_server import GuardedServer, bind_socket, make_config  # noqa: E402
from srosr.server.request_body import SMALL_BODY, BodyBudget  # noqa: E402
from srosr.server.server_metrics import ServerMetrics  # noqa: E402
from srosr.server.settings import Limits, ServerSettings  # noqa: E402

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def serve(app, **limits):
    """Serve an application behind the guard, in a thread; yield the port, and a function that asks it to end."""
    limits = Limits(**limits)
    guard = Guard(app, ServerSettings(limits=limits))
    budget = BodyBudget(limits.bodies, limits.samples)
    guard.service = SimpleNamespace(metrics=ServerMetrics(), budget=budget, status="ready")
    inner = SimpleNamespace(state=SimpleNamespace(service=guard.service))
    bound = bind_socket("127.0.0.1", 0)
    ready = threading.Event()
    server = GuardedServer(make_config(guard, limits, lifespan="off"), inner, limits, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()

    def end():
        server.should_exit = True

    try:
        assert ready.wait(30)
        yield SimpleNamespace(port=bound.getsockname()[1], end=end, thread=thread, service=guard.service)
    finally:
        server.should_exit = server.force_exit = True
        thread.join(30)
        assert not thread.is_alive()


async def echo(scope, receive, send):
    """Answer with path and body, after as many seconds as the query says."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        body, more = body + message["body"], message["more_body"]
    await asyncio.sleep(float(scope["query_string"] or 0))
    content = scope["path"].encode() + b":" + body
    headers = [(b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


@pytest.fixture(scope="module")
def echoing():
    with serve(echo, head=10_000, head_seconds=1.0) as found:
        yield found


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def receive_until(connection, end):
    """Return what comes until it contains these bytes or the connection ends."""
    found = b""
    while end not in found:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        found += part
    return found


# --- trailers ---


def test_headers_after_a_body_are_ignored(echoing):
    with connect(echoing) as connection:
        connection.sendall(CHUNKED + b"3\r\nabc\r\n0\r\nHost: evil.org\r\nX-More: yes\r\n\r\n" + NEXT)
        found = receive_until(connection, b"/next:")
        assert b"/:abc" in found and found.count(b"HTTP/1.1 200 ") == 2


@pytest.mark.parametrize("line", [b"a: b\r\n", b"b", b"a: " + b"c" * 3000 + b"\r\n"])
def test_headers_after_a_body_are_limited(echoing, line):
    with connect(echoing) as connection:
        connection.sendall(CHUNKED + b"3\r\nabc\r\n0\r\na: ")
        piece, sent = line * (9000 // len(line)), 0
        with pytest.raises(OSError):  # the server reads no more, and ends the connection
            while sent < 5_000_000:
                connection.sendall(piece)
                sent += len(piece)
                time.sleep(0.001)


def test_headers_after_a_body_that_are_too_large_are_refused(echoing):
    with connect(echoing) as connection:
        connection.sendall(CHUNKED + b"3\r\nabc\r\n0\r\n" + b"a: b\r\n" * 3000)
        assert receive_until(connection, b"too large").startswith(b"HTTP/1.1 431 ")


def test_a_head_that_arrives_at_once_is_limited_too(echoing):
    with connect(echoing) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 3000 + b"\r\n")
        assert receive_until(connection, b"too large").startswith(b"HTTP/1.1 431 ")


def test_a_body_of_small_chunks_is_no_head(echoing):
    with connect(echoing) as connection:
        connection.sendall(CHUNKED + b"1\r\na\r\n" * 20_000 + b"0\r\n\r\n")
        assert receive_until(connection, b"a" * 20_000).startswith(b"HTTP/1.1 200 ")


# --- other protocols ---


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"none"])
@pytest.mark.parametrize("pause", [False, True])
def test_a_wish_for_another_protocol_is_ignored(echoing, protocol, pause):
    wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: " + protocol + b"\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    for framing, body in (
        (b"Content-Length: 5\r\n\r\n", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
    ):
        with connect(echoing) as connection:
            connection.sendall(HEAD + wish + framing)
            time.sleep(0.1 * pause)
            connection.sendall(body[:3])
            time.sleep(0.1 * pause)
            connection.sendall(body[3:] + NEXT)
            found = receive_until(connection, b"/next:")
            assert b"/:hello" in found and found.count(b"HTTP/1.1 200 ") == 2
    with connect(echoing) as connection:
        connection.sendall(NEXT[:-2] + wish + b"\r\n" + NEXT)
        found = receive_until(connection, b"/next:")
        assert found.count(b"HTTP/1.1 200 ") >= 1 and b" 400 " not in found


# --- requests one after the other ---


def test_half_a_head_waits_while_the_request_before_it_is_served(echoing):
    with connect(echoing) as connection:
        connection.sendall(b"GET /slow?2.2 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /next HT")
        assert b"/slow:" in receive_until(connection, b"/slow:")
        connection.sendall(b"TP/1.1\r\nHost: localhost\r\n\r\nGET /never HT")
        assert b"/next:" in receive_until(connection, b"/next:")
        assert b" 408 " in receive_until(connection, b"within 1 seconds")


def test_what_is_no_request_does_not_take_the_answer_of_the_one_before(echoing):
    with connect(echoing) as connection:
        connection.sendall(b"GET /slow?0.5 HTTP/1.1\r\nHost: localhost\r\n\r\n\x16\x03 nonsense\r\n\r\n")
        found = receive_until(connection, b"never")
        assert found.startswith(b"HTTP/1.1 200 ") and found.endswith(b"/slow:")


def test_requests_that_wait_for_an_answer_are_limited(echoing):
    with connect(echoing) as connection:
        connection.sendall(b"GET /slow?0.5 HTTP/1.1\r\nHost: localhost\r\n\r\n" + NEXT * 10)
        found = b""
        while found.count(b"/next:") < 10:
            found += connection.recv(65536)
        assert found.count(b"HTTP/1.1 200 ") == 11
    with connect(echoing) as connection:
        connection.sendall(b"GET /slow?0.5 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with suppress(OSError):  # the server ends the connection
            connection.sendall(NEXT * 5000)
        found = receive_until(connection, b"never")
        assert 1 <= found.count(b"HTTP/1.1 200 ") <= 17
    with connect(echoing) as connection:
        connection.settimeout(5)
        sent, answers = 0, b""
        while sent < 200:  # one who reads each answer may go on for ever
            connection.sendall(NEXT * 4)
            sent += 4
            while answers.count(b"/next:") < sent:
                answers += connection.recv(65536)


def test_a_new_connection_takes_the_place_of_the_one_that_was_idle_for_longest():
    with serve(echo, connections=4) as server, ExitStack() as stack:
        crowd = [stack.enter_context(connect(server)) for _ in range(4)]
        for connection in crowd[1:] + crowd[:1]:
            connection.sendall(NEXT)
            assert b"/next:" in receive_until(connection, b"/next:")
        busy = crowd[1]
        busy.sendall(b"GET /slow?1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.2)
        with connect(server) as one_more:
            one_more.sendall(NEXT)
            assert b"HTTP/1.1 200 " in receive_until(one_more, b"/next:")
            assert receive_until(crowd[2], b"never") == b"", "it was idle for longest"
            assert b"/slow:" in receive_until(busy, b"/slow:")
            for connection in (crowd[3], crowd[0]):
                connection.sendall(NEXT)
                assert b"/next:" in receive_until(connection, b"/next:")


# --- answers that are not read ---


async def answer_much(scope, receive, send):
    """Answer with 20 MB at once."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"20000000")]})
    await send({"type": "http.response.body", "body": bytes(20_000_000)})


def test_a_large_answer_counts_until_it_is_read():
    with serve(answer_much) as server, connect(server) as connection:
        budget, metrics = server.service.budget, server.service.metrics
        connection.sendall(NEXT)
        wait_until(lambda: budget._used == 20_000_000 - SMALL_BODY)
        time.sleep(0.5)
        assert budget._used == 20_000_000 - SMALL_BODY and b"srosr_requests_in_flight 1.0" in metrics.render()
        found = len(receive_until(connection, b"\r\n\r\n").partition(b"\r\n\r\n")[2])
        while found < 20_000_000:
            found += len(connection.recv(2**20))
        assert found == 20_000_000
        wait_until(lambda: budget._used == 0 and b"srosr_requests_in_flight 0.0" in metrics.render())


# --- slow readers ---


async def stream(scope, receive, send):
    """Send lines until nobody wants them."""
    state["ended"] = False
    try:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 20_000, "more_body": True})
            await asyncio.sleep(0)
    finally:
        state["ended"] = True


state = {"ended": False}


def read_stream(port, size, pause, seconds):
    """Read a stream so many bytes at a time for so long; return whether it was still there at the end."""
    with socket.socket() as connection:
        if pause:  # otherwise much is read ahead
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", port))
        connection.sendall(NEXT)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if not connection.recv(size):
                    return False
            except ConnectionResetError:
                return False
            time.sleep(pause)
        return True


def test_a_stream_that_is_read_too_slowly_is_given_up():
    with serve(stream, answer_seconds=1.0, answer_rate=500_000) as server:
        # 100 kB a second: there is always room for another line before long.
        assert not read_stream(server.port, 10_000, 0.1, 15)
        wait_until(lambda: state["ended"])
        assert read_stream(server.port, 65536, 0.0, 2.5)


# --- the end ---


async def never_end(scope, receive, send):
    """Answer with a line, or not at all, and go on."""

    async def write():
        yield b"{}\n"
        await asyncio.sleep(600)

    if scope["path"] == "/lines":
        await LineStream(write())(scope, receive, send)
    await asyncio.sleep(600)


def test_requests_that_are_not_finished_when_the_server_ends_are_told_so():
    with serve(never_end, drain_seconds=0.5) as server, connect(server) as plain, connect(server) as lines:
        plain.sendall(NEXT)
        lines.sendall(b"GET /lines HTTP/1.1\r\nHost: localhost\r\n\r\n")
        receive_until(lines, b"{}\n")
        server.end()
        started = time.monotonic()
        head, _, body = receive_until(plain, b"no end").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ") and b"connection: close" in head.lower()
        assert b"content-security-policy" in head and json.loads(body) == {"error": "The server is ending: try again."}
        rest = receive_until(lines, b"no end")
        assert rest.endswith(b"\r\n0\r\n\r\n")
        line = json.loads(rest.split(b"\r\n")[-4])
        assert line == {"kind": "error", "status": 503, "error": "The server is ending: try again."}
        server.thread.join(20)
        assert not server.thread.is_alive() and time.monotonic() - started < 5


# --- large answers ---


def test_large_answers_are_written_beside_the_event_loop():
    threads = []

    def write(value):
        threads.append(threading.current_thread())
        return value

    async def work():
        assert await write_off_loop(3, write, 1) == 1 and await write_off_loop(100_000, write, 2) == 2
        small, large = await answer_result({"rows": [1]}, 201), await answer_result({"rows": list(range(100_000))})
        assert small.status_code == 201 and small.body == b'{"rows":[1]}'
        assert json.loads(large.body) == {"rows": list(range(100_000))}

    asyncio.run(work())
    assert threads[0] is threading.current_thread() is not threads[1]


def test_the_result_of_a_stream_is_written_beside_the_event_loop(monkeypatch):
    threads = []
    write_line = answers.write_line
    monkeypatch.setattr(
        answers, "write_line", lambda value: threads.append(threading.current_thread()) or write_line(value)
    )

    async def read(result):
        async def work(on_progress):
            on_progress({"stage": "Working"})
            return result

        return [json.loads(line) async for line in answers.stream_result(work)]

    assert asyncio.run(read({"rows": [1]}))[-1] == {"kind": "result", "rows": [1]}
    assert set(threads) == {threading.current_thread()}
    assert asyncio.run(read({"rows": [1] * 100_000}))[-1]["rows"] == [1] * 100_000
    assert threads[-1] is not threading.current_thread()

"""Who is let in, how much and how slowly: token, host, origin, limits, deadlines, and the end of a server."""

import asyncio
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from server_runs import make_samples, save_model, serve, server_required, wait_until

server_required()

from fastapi import Request  # noqa: E402

from srosr.server.answers import ApiError, choose_type  # noqa: E402
from srosr.server.request_body import SMALL_BODY, BodyBudget, receive_body  # noqa: E402
from srosr.server.settings import Limits, is_loopback, read_token  # noqa: E402

TOKEN = "correct-horse-battery-staple"
DECIDE = "/v1/models/model/decide"
LIMITS = {
    "body": 60_000, "rows": 100, "columns": 50, "head_seconds": 1.0, "body_seconds": 1.0, "answer_seconds": 1.0,
    "connections": 12,
}  # fmt: skip
BEGUN = {"number": 1, "state": "begun", "change": "update", "details": {}, "before": "a", "after": "b", "by": ""}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.srosr"
    save_model(path)
    return path


@pytest.fixture(scope="module")
def guarded(model, tmp_path_factory):
    """A server with a token that changes nothing, although somebody has begun to change the model."""
    own = tmp_path_factory.mktemp("guarded") / "model.srosr"
    own.write_bytes(model.read_bytes())
    audit = own.parent / "model.srosr.history" / "audit.jsonl"
    audit.parent.mkdir()
    audit.write_text(json.dumps(BEGUN) + "\n")
    settings = {"token": TOKEN, "read_only": True, "log_requests": True, "readers": 0, "workers": 0}
    with serve(own, token=TOKEN, settings=settings) as found:
        found.place = own.parent
        yield found


@pytest.fixture(scope="module")
def strict(model):
    """A server without a token, with small limits."""
    with serve(model, limits=LIMITS) as found:
        yield found


def send(server, content, seconds=10.0):
    """Send bytes as they are; return all that comes back until the connection ends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection:
        connection.sendall(content)
        return receive(connection)


def receive(connection):
    found = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


def receive_one(connection):
    """Return one answer of a connection that may stay open."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += connection.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head.lower())[1])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def check_error(answer, status):
    """Check that an answer as bytes is an error of one sentence; return it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"content-security-policy: default-src 'none'" in head.lower()
    error = json.loads(body)
    assert list(error) == ["error"] and error["error"].endswith(".")
    return error["error"]


# --- who ---


@pytest.mark.parametrize(
    "header", [None, "Bearer wrong-horse-battery-staple", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", ""]
)
def test_without_the_token_nothing_is_said_but_that_the_server_lives(guarded, header):
    headers = {"Authorization": header or ""} if header is not None else {"Authorization": ""}
    for path in ("/v1/models", "/metrics", "/openapi.json", "/v1/models/model/history", "/nothing"):
        status, found, content = guarded.request("GET", path, headers=headers)
        assert status == 401 and found["www-authenticate"] == "Bearer" and b"model" not in content
    status, _, content = guarded.request("POST", DECIDE, b"{}", headers)
    assert status == 401
    assert guarded.request("GET", "/healthz", headers=headers)[0] == 200
    assert json.loads(guarded.request("GET", "/readyz", headers=headers)[2]) == {"status": "ready"}
    assert guarded.request("GET", "/", headers=headers)[0] in (200, 404)


def test_with_the_token_all_is_served_under_any_name_and_the_log_has_no_token(guarded):
    status, _, content = guarded.request("GET", "/v1/models", headers={"Host": "models.example.org"})
    assert status == 200 and json.loads(content)["models"][0]["name"] == "model"
    assert guarded.get("/readyz")[1]["models"]["model"]["version"]
    guarded.request("GET", f"/v1/models?{TOKEN}")
    assert "GET /v1/models 200" in guarded.read_log() and TOKEN not in guarded.read_log()


def test_a_read_only_server_decides_and_changes_nothing(guarded, model):
    assert guarded.post(DECIDE, {"samples": make_samples()[0][:2].tolist(), "record": False})[0] == 200
    assert guarded.get("/v1/models")[1]["read_only"] and not guarded.get("/v1/models/model")[1]["can_change"]
    for change in ("set-threshold", "add-class", "remove-class", "update", "recalibrate", "restore"):
        status, answer = guarded.post(f"/v1/models/model/{change}", {})
        assert (status, answer) == (403, {"error": "The server is read-only: nothing can be changed."})
    assert guarded.post("/v1/models/model/monitor/restart", {})[0] == 403
    files = {path.name: path.read_bytes() for path in guarded.place.rglob("*") if path.is_file()}
    assert files.pop("model.srosr") == model.read_bytes()
    assert files == {"audit.jsonl": json.dumps(BEGUN).encode() + b"\n"}


@pytest.mark.parametrize(("host", "status"), [
    ("localhost", 200), ("127.0.0.1:80", 200), ("[::1]:8000", 200), ("LOCALHOST:1", 200), ("evil.example.org", 403),
    ("127.0.0.1.evil.org", 403), ("10.0.0.1", 403), ("", 400), ("a b", 403), ("localhost@evil.org", 400), ("[::1", 400),
])  # fmt: skip
def test_only_names_of_this_machine_are_served_without_a_token(strict, host, status):
    assert strict.request("GET", "/v1/models", headers={"Host": host})[0] == status


@pytest.mark.parametrize(("headers", "status"), [
    ({"Origin": "http://evil.example.org"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://localhost:1"}, 403),
    ({"Origin": "http://localhost:9", "Host": "localhost:9"}, 200),
    ({"Origin": "https://LOCALHOST:9", "Host": "localhost:9"}, 200),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
    ({"Sec-Fetch-Site": "same-origin"}, 200),
    ({}, 200),
])  # fmt: skip
def test_pages_of_other_sites_are_refused(strict, headers, status):
    found, answer_headers, _ = strict.request("GET", "/v1/models", headers=headers)
    assert found == status
    assert not any(name.startswith("access-control") for name in answer_headers)
    body = json.dumps({"samples": [[1, 2, 3, 4, 5, 6]]})
    found, _, _ = strict.request("POST", DECIDE, body, {"Content-Type": "application/json", **headers})
    assert found == status


def test_every_answer_has_the_headers_that_keep_a_browser_safe(strict):
    for path in ("/", "/healthz", "/v1/models", "/nothing", "/static/../../settings.py"):
        _, headers, _ = strict.request("GET", path)
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
        assert "server" not in headers
    assert strict.request("GET", "/v1/models")[1]["cache-control"] == "no-store"
    status, headers, _ = strict.request("OPTIONS", DECIDE)
    assert status == 405 and not any(name.startswith("access-control") for name in headers)


def test_no_path_of_a_request_reaches_the_file_system(strict):
    for path in ("/static/../settings.py", "/static/%2e%2e/settings.py", "/static//etc/passwd", "/static/..%2fapp.py",
                 "/static/%00", "/v1/models/..%2f..%2fetc%2fpasswd", "/v1/models/%2e%2e"):  # fmt: skip
        status, _, content = strict.request("GET", path)
        assert status == 404 and b"import" not in content and b"root:" not in content


def test_what_answers_get_answers_head_without_a_body(strict):
    for path in ("/", "/healthz", "/readyz", "/v1/models", "/v1/models/model", "/nothing"):
        found, asked = strict.request("GET", path), strict.request("HEAD", path)
        assert asked[0] == found[0] and asked[2] == b""
        assert asked[1]["content-length"] == found[1]["content-length"] == str(len(found[2]))
    connection = strict.connect()
    for path, status in (("/healthz", 200), (DECIDE, 405), ("/healthz", 200)):
        connection.request("HEAD", path)
        answer = connection.getresponse()
        assert answer.status == status and answer.read() == b""
    connection.close()
    assert 'method="HEAD",route="/healthz",status="200"' in strict.request("GET", "/metrics")[2].decode()


# --- how much ---


def test_a_body_that_is_too_large_is_refused_with_and_without_a_length(strict):
    large = b'{"samples": [[' + b"1, " * 40_000 + b"1]]}"
    status, answer = strict.post(DECIDE, body=large)
    assert status == 413 and answer["error"] == "The body has more than 0.06 MB: send fewer samples at a time."
    head = f"POST {DECIDE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
    chunked = (
        head + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"1000\r\n" + b" " * 4096 + b"\r\n" for _ in range(20))
    )
    assert "0.06 MB" in check_error(send(strict, chunked + b"0\r\n\r\n"), 413)
    waiting = head + b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n"
    answer = send(strict, waiting)
    assert b"100 Continue" not in answer and "0.06 MB" in check_error(answer, 413)


def test_rows_and_columns_are_limited(strict):
    row = [1, 2, 3, 4, 5, 6]
    status, answer = strict.post(DECIDE, {"samples": [row] * 101})
    assert status == 413 and answer["error"] == "The request has more than 100 rows: send fewer at a time."
    status, answer = strict.post(DECIDE, {"samples": [[1] * 51]})
    assert status == 413 and "more than 50 columns" in answer["error"]
    text = "\n".join(["a,b,c,d,e,f", *["1,2,3,4,5,6"] * 101]).encode()
    status, answer = strict.post(DECIDE, body=text, media_type="text/csv")
    assert status == 413 and answer["error"] == "The body has more than 100 rows: send fewer at a time."


def test_a_head_that_is_too_large_is_refused(strict):
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 100_000
    assert "too large" in check_error(send(strict, head), 431)


def test_what_is_not_http_is_refused_and_so_are_two_lengths(strict):
    assert check_error(send(strict, b"\x16\x03\x01 hello\r\n\r\n"), 400)
    both = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert check_error(send(strict, both), 400)
    two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.org\r\nConnection: close\r\n\r\n"
    assert check_error(send(strict, two), 400)


# --- how slowly ---


def test_a_head_that_does_not_end_is_given_up(strict):
    # On the second connection nothing is said.
    with ThreadPoolExecutor(2) as threads:
        started = time.monotonic()
        answers = threads.map(partial(send, strict), [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b""])
        for answer in answers:
            assert "did not arrive within 1 seconds" in check_error(answer, 408)
            assert 0.9 < time.monotonic() - started < 8


def test_a_body_that_does_not_end_is_given_up(strict):
    head = f"POST {DECIDE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
    with socket.create_connection(("127.0.0.1", strict.port), timeout=15) as connection:
        connection.sendall(head + b"Content-Length: 1000\r\n\r\n")
        started, dripping = time.monotonic(), threading.Event()

        def drip():
            while not dripping.wait(0.2):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        answer = receive_one(connection)
        assert 0.9 < time.monotonic() - started < 8
        dripping.set()
        thread.join()
    assert "did not arrive within 1 seconds" in check_error(answer, 408)


def test_the_rest_of_a_body_that_was_answered_is_no_head_and_must_end_too(strict):
    body = b"x" * 100_000  # more than a head may have
    head = b"POST /v1/models/none/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", strict.port), timeout=15) as connection:
        connection.sendall(head)
        assert b" 404 " in receive_one(connection)
        connection.sendall(body + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in receive_one(connection)
        connection.sendall(head)
        assert b" 404 " in receive_one(connection)
        started = time.monotonic()
        assert receive(connection) == b"" and 0.9 < time.monotonic() - started < 8


def test_an_answer_that_nobody_reads_is_given_up_and_others_are_served(strict):
    # Requests one after the other on a connection, whose answers together exceed what the system buffers.
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", strict.port), timeout=15)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        connection.sendall(request * 150)
        assert strict.get("/healthz")[0] == 200

        def is_ended():
            try:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            except OSError:
                return True
            return False

        wait_until(is_ended, 20, 0.5)
    finally:
        connection.close()
    assert strict.get("/healthz")[0] == 200


def test_connections_are_limited(strict):
    held = [socket.create_connection(("127.0.0.1", strict.port), timeout=10) for _ in range(12)]
    try:
        time.sleep(0.3)
        with socket.create_connection(("127.0.0.1", strict.port), timeout=10) as one_more:
            assert "too many connections" in check_error(receive(one_more), 503)
    finally:
        for connection in held:
            connection.close()
    wait_until(lambda: strict.request("GET", "/healthz")[0] == 200)


# --- what all bodies may take together ---


def make_scope(address="10.0.0.1"):
    return {"type": "http", "method": "POST", "headers": [], "client": (address, 1)}


def test_small_bodies_are_served_while_large_ones_fill_the_memory():
    budget = BodyBudget(10**6)
    first, second, third = make_scope(), make_scope("10.0.0.2"), make_scope("10.0.0.3")
    budget.take(first, SMALL_BODY + 400_000)
    with pytest.raises(ApiError, match="busy"):  # more than the share of one address
        budget.take(make_scope(), SMALL_BODY + 200_000)
    budget.take(second, SMALL_BODY + 500_000)
    with pytest.raises(ApiError, match="busy"):
        budget.take(third, SMALL_BODY + 200_000)
    for _ in range(100):
        budget.take(make_scope(), SMALL_BODY)
    budget.give_back(first)
    budget.give_back(first)
    budget.take(make_scope("10.0.0.3"), SMALL_BODY + 400_000)


def test_samples_count_in_place_of_the_body_they_were_in():
    budget = BodyBudget(10**6, 450_000)
    one, other = make_scope(), make_scope("10.0.0.2")
    budget.take(one, SMALL_BODY + 50_000)
    with pytest.raises(ApiError, match="2 MB of memory") as caught:
        budget.expect(one, 2 * 10**6)
    assert caught.value.status == 413
    budget.expect(one, 440_000)  # while the body is still there
    with pytest.raises(ApiError) as caught:
        budget.take(make_scope(), SMALL_BODY + 20_000)
    assert caught.value.status == 429
    budget.take(other, SMALL_BODY + 490_000)
    with pytest.raises(ApiError) as caught:
        budget.expect(other, 100_000)
    assert caught.value.status == 429
    budget.exchange(one, 100)
    budget.take(make_scope(), SMALL_BODY + 400_000)
    budget.give_back(other)
    budget.take(make_scope("10.0.0.3"), SMALL_BODY + 490_000)


def test_an_answer_counts_until_it_is_read():
    budget = BodyBudget(10**6)
    one = make_scope()
    budget.keep(one, SMALL_BODY + 5 * 10**6)  # it is there already, so it is no error
    with pytest.raises(ApiError) as caught:
        budget.take(make_scope("10.0.0.2"), SMALL_BODY + 1)
    assert caught.value.status == 429
    budget.take(make_scope("10.0.0.2"), SMALL_BODY)
    budget.give_back(one)
    budget.take(make_scope("10.0.0.2"), SMALL_BODY + 490_000)


@pytest.mark.parametrize(("size", "sentence"), [
    (2 * SMALL_BODY, "The body stands still, or arrives too slowly: try again."),
    (SMALL_BODY, "The body did not arrive within 1.5 seconds."),
])  # fmt: skip
def test_a_large_body_that_stands_still_is_given_up_before_a_small_one(size, sentence):
    async def stand_still():
        messages = [{"type": "http.request", "body": bytes(size), "more_body": True}]

        async def receive():
            return messages.pop() if messages else await asyncio.sleep(60)

        await receive_body(Request(make_scope(), receive), Limits(body_seconds=1.5), BodyBudget(10**9))

    started = time.monotonic()
    with pytest.raises(ApiError) as caught:
        asyncio.run(stand_still())
    assert caught.value.status == 408 and caught.value.message == sentence
    assert (time.monotonic() - started < 1.2) == (size > SMALL_BODY)


# --- the end ---


def test_a_server_that_is_asked_to_end_finishes_what_it_has_begun(model):
    X, _, _ = make_samples(seed=2)
    body = json.dumps({"samples": np.tile(X.round(2), (80, 1)).tolist()})
    assert len(body) < SMALL_BODY, "it would need a reader"
    with serve(model, settings={"jobs": 1, "readers": 0, "workers": 0}) as server:
        connection = server.connect()
        headers = {"Content-Type": "application/json", "Accept": "application/x-ndjson"}
        connection.request("POST", DECIDE, body, headers)
        answer = connection.getresponse()
        first = answer.readline()
        found = []
        reader = threading.Thread(target=lambda: found.extend(answer.read().splitlines()))
        server.process.terminate()
        reader.start()
        assert server.process.wait(60) == 0
        reader.join()
        assert json.loads(first)["kind"] == "progress" and json.loads(found[-1])["kind"] == "end"
        assert json.loads(found[-1])["rows"] == 80 * len(X)
        with pytest.raises(OSError):
            server.get("/healthz")


# --- errors ---


def test_no_error_has_a_path_or_a_traceback(strict, model):
    bodies = [b"", b"{}", b"[]", b'{"samples": 1}', b'{"samples": [[1]]}']
    bodies += [b"a,b\n1", b"\x93NUMPY", b"PK\x03\x04", b"PAR1", b"\0" * 99]
    kinds = ["application/json", "text/csv", "application/x-npy", "application/x-npz", "application/vnd.apache.parquet",
             "image/png", "multipart/form-data; boundary=x", "multipart/form-data", "text/plain", ""]  # fmt: skip
    routes = ("decide", "explain", "evaluate", "discover", "update", "add-class?name=x", "recalibrate", "set-threshold")
    for kind in kinds:
        for body in bodies:
            for route in routes if kind == "text/csv" else routes[:1]:
                status, answer = strict.post(f"/v1/models/model/{route}", body=body, media_type=kind)
                assert 400 <= status < 500, (kind, body, route, answer)
                text = answer["error"]
                assert list(answer) == ["error"] and text.endswith((".", "?")) and "\n" not in text
                assert not re.search(
                    r"Traceback|/tmp|/home|/root|\.py|upload-|" + re.escape(str(model.parent)), text
                ), text


def test_media_types_are_chosen_by_quality():
    offered = ("application/json", "text/csv")
    assert choose_type("*/*", offered) == choose_type("application/*", offered) == "application/json"
    assert choose_type("text/*, application/json;q=0.5", offered) == "text/csv"
    assert choose_type("application/json;q=0, */*", offered) == "text/csv"


def test_tokens_are_read_and_loopback_is_known(tmp_path):
    from srosr.operations.input_errors import InputError

    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    assert read_token(path) == (TOKEN, None)
    path.chmod(0o644)
    assert "can be read by others" in read_token(path)[1]
    wrong = "with spaces in the middle of it", "zwei\nzeilen-sind-zu-viel", "ünïcödé-is-not-ascii-at-all"
    for content in ("short", *wrong, ""):
        path.write_text(content)
        with pytest.raises(InputError, match="must have one line of at least 16"):
            read_token(path)
    assert is_loopback("::1") and is_loopback("127.8.9.1")
    assert not any(map(is_loopback, ("0.0.0.0", "::", "example.org")))

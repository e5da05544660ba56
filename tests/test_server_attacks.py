"""Attacks on the server. Each test is named after what the attack gets; `python -m pytest -v` prints the list.

The server is a real process on loopback, with short deadlines and small limits, so that exceeding them is quick.
"""

from __future__ import annotations

import gzip
import hmac
import io
import json
import os
import re
import select
import signal
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scale import slow_except
from server_attack_runs import (
    FLOWER,
    MODEL,
    TOKEN,
    Attacked,
    list_children,
    make_form,
    make_png,
    share_attacked,
)
from server_runs import server_required

server_required()
pytest.importorskip("PIL")

DECIDE = f"{MODEL}/decide"
JSON = {"Content-Type": "application/json"}
HEAD = f"POST {DECIDE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GOOD = json.dumps({"samples": [FLOWER]}).encode()


@pytest.fixture(scope="module")
def server(request):
    return share_attacked(request)


@pytest.fixture(scope="module")
def guarded(server):
    """Return a server with a token, on an address that is not only loopback."""
    with Attacked(server.folder, {"answer_seconds": 2.0}, token=TOKEN, host="0.0.0.0", workers=0) as found:
        yield found


def check_sentence(answer, *statuses):
    """Check that an answer is an error in one sentence which tells nothing about the machine."""
    status, headers, body = answer
    assert status in statuses, (status, body[:300])
    assert headers["content-type"].startswith("application/json"), headers
    content = json.loads(body)
    assert set(content) == {"error"} and content["error"].endswith((".", "?")), content
    check_tells_nothing(body)
    return content["error"]


def check_tells_nothing(body: bytes) -> None:
    text = body.decode("utf-8", "replace")
    assert "Traceback" not in text and ".py" not in text, text[:300]
    # No path of this machine: neither of the package nor of the models nor of temporary files.
    for place in ("/site-packages", "/src/srosr", "/tmp/", str(Path.home()), "/usr/", "/work"):
        assert place not in text, text[:300]


# -- paths and names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/../../etc/passwd",
        "/v1/models/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/models/%2e%2e/%2e%2e/decide",
        "/v1/models/..%5c..%5cwindows",
        "/v1/models/flowers.srosr",
        "/v1/models/flowers%00",
        "/v1/models/%2fetc%2fpasswd",
        "/v1/models/" + "a" * 5000,
        "/v1/models/%ff%fe",
        "/v1/models/%0d%0aX-Injected:%20yes",
        "/static/../app.py",
        "/static/..%2f..%2fapp.py",
        "/static/%2e%2e/%2e%2e/settings.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/index.html%00.js",
        "/static/.",
        "/static/",
        "/static/..\\app.py",
    ],
)
def test_a_path_that_leaves_its_folder_or_names_no_model_is_not_found(server, path):
    answer = server.send("GET", path)
    check_sentence(answer, 404)
    assert "x-injected" not in answer[1] and b"root:" not in answer[2]


@pytest.mark.parametrize(
    "name", ["../../../tmp/escaped.csv", "/tmp/escaped.csv", "..\\escaped.csv", "escaped.csv\0.png"]
)
def test_the_name_of_an_uploaded_file_is_no_path(server, name):
    table = b"sepal_length,sepal_width,petal_length,petal_width\n5.1,3.5,1.4,0.2\n"
    status, _, body = server.send("POST", DECIDE, *make_form([(name, table)]))
    assert status in (200, 400, 415, 422)
    check_tells_nothing(body.replace(b"/tmp/escaped.csv", b""))  # what the client itself sent
    assert not Path("/tmp/escaped.csv").exists()


def test_markup_in_the_name_of_a_file_is_answered_as_json_that_no_browser_runs(server):
    name = "<img src=x onerror=alert(1)>.csv"
    status, headers, _ = server.send("POST", DECIDE, *make_form([(name, b"a,b\n1,x\n")]))
    assert status == 422 and headers["content-type"].startswith("application/json")
    assert headers["x-content-type-options"] == "nosniff"
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe-inline" not in headers["content-security-policy"]


def test_markup_as_the_name_of_a_class_stays_text(server):
    name = "<script>alert(1)</script>"
    body = json.dumps({"name": name, "samples": [[9, 9, 9, 9 + i / 10] for i in range(8)]}).encode()
    status, headers, answer = server.send("POST", "/v1/models/changed/add-class", body, JSON)
    assert status == 200, answer
    assert headers["content-type"].startswith("application/json") and headers["x-content-type-options"] == "nosniff"
    assert name in json.loads(server.send("GET", "/v1/models/changed")[2])["classes"]


@pytest.mark.parametrize("name", ["a\r\nSet-Cookie: x=1", "a\0b", "a\x1b[2Jb", "\u202eevil", "", "x" * 10_000])
def test_control_characters_in_the_name_of_a_class_reach_no_header_and_no_terminal(server, name):
    body = json.dumps({"name": name, "samples": [[9, 9, 9, 9 + i / 10] for i in range(3)]}).encode()
    status, headers, answer = server.send("POST", "/v1/models/changed/add-class", body, JSON)
    assert status in (200, 409, 422), answer
    assert "set-cookie" not in headers
    assert b"\x1b" not in answer and b"\0" not in answer
    check_tells_nothing(answer)


# -- bodies ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_body_whose_announced_size_is_too_large_is_refused_before_it_is_sent(server):
    head = f"{HEAD}Content-Length: 99999999999\r\n\r\n"
    started = time.monotonic()
    assert server.exchange(head.encode()).startswith(b"HTTP/1.1 413")
    assert time.monotonic() - started < 8


@pytest.mark.slow
def test_a_chunked_body_is_cut_off_at_the_limit(server):
    head = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"1" * 0x10000 + b"\r\n"
    answer = server.exchange(head.encode(), chunk, times=100)  # it never ends
    assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 408")), answer


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        (b"[" * 100_000, (400, 422)),
        (b'{"samples":' + b"[" * 50_000 + b"]" * 50_000 + b"}", (400, 422)),
        (b'{"a":' * 100_000, (400, 422)),
        (b'{"samples": [[1, 2, 3, NaN]]}', (400, 422)),
        (b'{"samples": [[1, 2, 3, Infinity]]}', (400, 422)),
        (b'{"samples": [[1, 2, 3, 1e999]]}', (400, 422)),
        (b'{"samples": [[1, 2, 3, -1e308]]}', (200, 422)),
        (b'{"samples": [[1, 2, 3, true]]}', (422,)),
        (b'{"samples": [[1, 2, 3, "4"]]}', (422,)),
        (b'{"samples": [[1, 2, 3, [4]]]}', (422,)),
        (b'{"samples": [[1, 2, 3, {"a": 1}]]}', (422,)),
        (b'{"samples": [[1, 2, 3, ' + b"9" * 5000 + b"]]}", (400, 422)),
        (b'{"samples": [[1, 2, 3], [1, 2, 3, 4]]}', (422,)),
        (b'{"samples": []}', (422,)),
        (b'{"samples": [[]]}', (422,)),
        (b'{"samples": {}}', (422,)),
        (b'{"samples": [{"__class__": 1}]}', (422,)),
        (b'{"samples": "../../etc/passwd"}', (422,)),
        (b'{"samples": [[1,2,3,4]], "model": "../x"}', (422,)),
        (b'{"samples": [[1,2,3,4]], "samples": [[1,2]]}', (400, 422)),
        (b'{"samples": [[1,2,3,4]], "coverage": 1e400}', (400, 422)),
        (b'{"samples": [[1,2,3,4]], "coverage": -1}', (422,)),
        (b'{"samples": [[1,2,3,4]], "fdr": "0.1; rm -rf"}', (422,)),
        (b"\xff\xfe\x00", (400, 422)),
        (b'{"samples": [[1,2,3,"\xed\xa0\x80"]]}', (400, 422)),
        (b"", (400, 422)),
        (b"null", (400, 422)),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_json_that_is_no_list_of_numbers_is_an_error_in_one_sentence(server, body, statuses):
    answer = server.send("POST", DECIDE, body, JSON)
    if answer[0] == 200:
        assert 200 in statuses
    else:
        check_sentence(answer, *statuses)


def test_too_many_columns_or_rows_are_refused_by_their_number(server):
    wide = json.dumps({"samples": [[0] * 900_000]}).encode()
    check_sentence(server.send("POST", DECIDE, wide, JSON), 413, 422)
    long = json.dumps({"samples": [FLOWER] * 1001}).encode()
    assert "1,000" in check_sentence(server.send("POST", DECIDE, long, JSON), 413)
    table = b"sepal_length,sepal_width,petal_length,petal_width\n" + b"1,2,3,4\n" * 1001
    check_sentence(server.send("POST", DECIDE, table, {"Content-Type": "text/csv"}), 413)
    names = ",".join(f"c{i}" for i in range(100_000)).encode()
    check_sentence(server.send("POST", DECIDE, names + b"\n", {"Content-Type": "text/csv"}), 413, 422)


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-python-pickle", "application/zip", "a" * 3000, "json"]
)
def test_a_body_of_another_media_type_is_refused(server, kind):
    check_sentence(server.send("POST", DECIDE, GOOD, {"Content-Type": kind}), 415)


def test_a_compressed_body_is_not_inflated(server):
    bomb = gzip.compress(b"0" * 50_000_000)
    check_sentence(server.send("POST", DECIDE, bomb, JSON | {"Content-Encoding": "gzip"}), 400, 415, 422)
    check_sentence(server.send("POST", DECIDE, bomb, {"Content-Type": "text/csv"}), 400, 413, 415, 422)


# -- files that harm their readers -------------------------------------------------------------------------


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/srosr-was-here",)


def save(function, *arrays, **named):
    stream = io.BytesIO()
    function(stream, *arrays, **named)
    return stream.getvalue()


def make_npy_head(shape: str, kind: str = "'<f8'") -> bytes:
    head = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("npy", save(np.save, np.array([[Evil()] * 4], dtype=object))),
        ("npz", save(np.savez, X=np.array([[Evil()] * 4], dtype=object))),
        ("npy", make_npy_head("(1000000000000, 4)")),
        ("npy", make_npy_head("(2, 1000000000000)") + bytes(64)),
        ("npy", make_npy_head("(9, 4)") + bytes(64)),
        ("npy", make_npy_head("(-1, 4)") + bytes(64)),
        ("npy", make_npy_head("(1, 4)", "'|O'") + bytes(64)),
        ("npy", make_npy_head("__import__('os').getpid()") + bytes(64)),
        ("npz", save(np.savez_compressed, X=np.zeros((40_000_000,)))),
        ("parquet", b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1"),
    ],
    ids=["pickle in npy", "pickle in npz", "claims 32 TB", "claims 16 TB", "cut short", "negative", "objects", "code",
         "zip bomb", "broken parquet"],
)  # fmt: skip
def test_a_file_that_would_run_code_or_fill_the_memory_is_refused(server, kind, body):
    Path("/tmp/srosr-was-here").unlink(missing_ok=True)
    if kind == "npz":
        answer = server.send("POST", DECIDE, *make_form([("x.npz", body)]))
    else:
        types = {"npy": "application/x-npy", "parquet": "application/vnd.apache.parquet"}
        answer = server.send("POST", DECIDE, body, {"Content-Type": types[kind]})
    check_sentence(answer, 400, 413, 422)
    assert not Path("/tmp/srosr-was-here").exists()


def test_a_parquet_file_of_few_bytes_and_many_rows_is_cut_off(server):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    zeros = np.zeros(20_000_000)
    parquet.write_table(pyarrow.table({f"c{i}": zeros for i in range(4)}), stream, compression="zstd")
    body = stream.getvalue()
    assert len(body) < 2_000_000
    check_sentence(server.send("POST", DECIDE, body, {"Content-Type": "application/vnd.apache.parquet"}), 413, 422)


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(server):
    body = make_png(50_000, 50_000)
    started = time.monotonic()
    check_sentence(server.send("POST", "/v1/models/photos/decide", body, {"Content-Type": "image/png"}), 413)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "body",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n(/etc/passwd) (r) file",
        b"GIF89a\xff\xff\xff\xff\x00\x00\x00",
        b"",
    ],
    ids=["broken", "svg", "postscript", "gif", "empty"],
)
def test_something_that_is_no_picture_is_not_opened_as_one(server, body):
    check_sentence(
        server.send("POST", "/v1/models/photos/decide", body, {"Content-Type": "image/png"}), 400, 413, 415, 422
    )


def test_too_many_files_are_refused(server):
    form = make_form([(f"{i}.png", make_png(8, 8)) for i in range(6)])
    check_sentence(server.send("POST", "/v1/models/photos/decide", *form), 413)


@pytest.mark.parametrize(
    "body",
    [
        b"--x\r\n",
        b"--x\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.csv\"\r\n\r\n1,2",
        b"no boundary at all",
        b"--x\r\n" + b"X-Header: y\r\n" * 5000 + b"\r\n--x--\r\n",
        b'--x\r\nContent-Disposition: form-data; name="f"\r\n\r\nv\r\n' * 3000 + b"--x--\r\n",
    ],
    ids=["cut", "unfinished", "no boundary", "many headers", "many fields"],
)  # fmt: skip
def test_a_broken_form_is_an_error_in_one_sentence(server, body):
    answer = server.send("POST", DECIDE, body, {"Content-Type": "multipart/form-data; boundary=x"})
    check_sentence(answer, 400, 413, 422)


# -- HTTP itself -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 0x10\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Bad Header: x\r\n",
    ],
)
def test_a_request_with_two_meanings_is_refused_and_its_connection_closed(server, extra):
    hidden = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = f"{HEAD}{extra}\r\n"
    answer = server.exchange(head.encode() + hidden)
    assert re.match(rb"HTTP/1.1 4\d\d", answer), answer[:200]
    assert answer.count(b"HTTP/1.1") == 1, answer[:500]  # the hidden request is not answered


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\x00: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 20_000 + b"\r\n",
    ],
    ids=["tls", "no path", "version", "nul", "http/2", "long path", "long header", "many headers"],
)
def test_what_is_not_http_ends_its_connection_and_no_other(server, raw):
    answer = server.exchange(raw)
    assert not answer.startswith(b"HTTP/1.1 2") and not answer.startswith(b"HTTP/1.1 5"), answer[:200]
    check_tells_nothing(answer)
    assert server.send("GET", "/healthz")[0] == 200


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PUT", "DELETE", "PATCH", "PROPFIND"])
def test_other_methods_are_refused(server, method):
    status, _, body = server.send(method, DECIDE)
    assert status in (400, 404, 405), body
    check_tells_nothing(body)


def test_a_method_is_not_overridden_by_a_header_or_parameter(server):
    before = server.send("GET", "/v1/models/changed")[1]["etag"]
    header = {"X-HTTP-Method-Override": "POST", "X-Method-Override": "DELETE"}
    check_sentence(server.send("GET", "/v1/models/changed/set-threshold?_method=POST&threshold=0.5", None, header), 405)
    assert server.send("GET", "/v1/models/changed")[1]["etag"] == before


# -- clients that take their time --------------------------------------------------------------------------


def drip(connection: socket.socket, what: bytes) -> float:
    """Send something again and again until the server closes the connection; return the seconds that it took."""
    started = time.monotonic()
    connection.settimeout(0.2)
    while time.monotonic() - started < 10:
        try:
            connection.sendall(what)
            if not connection.recv(1000):
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - started


def test_a_head_that_never_ends_is_cut_off(server):
    with server.connect() as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        assert drip(slow, b"X-A: b\r\n") < 5


def test_a_connection_without_a_request_is_closed(server):
    with server.connect() as idle:
        idle.settimeout(10)
        started = time.monotonic()
        assert not idle.recv(1000).startswith(b"HTTP/1.1 2")
        assert time.monotonic() - started < 5


def test_a_body_that_arrives_drop_by_drop_is_cut_off(server):
    head = f"{HEAD}Content-Length: 1000\r\n\r\n"
    with server.connect() as slow:
        slow.sendall(head.encode())
        started = time.monotonic()
        answer = b""
        slow.settimeout(0.25)
        while not answer and time.monotonic() - started < 8:
            try:
                slow.sendall(b"1")
                answer = slow.recv(1000)
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert time.monotonic() - started < 5
        assert not answer or answer.startswith(b"HTTP/1.1 408"), answer


@pytest.mark.slow
def test_an_answer_that_nobody_reads_is_given_up_and_others_are_served(guarded):
    trusted = JSON | {"Authorization": f"Bearer {TOKEN}"}
    body = json.dumps({"samples": [FLOWER] * 40_000}).encode()
    lines = [f"POST {DECIDE} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in trusted.items()]
    before = guarded.count_sockets()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(("127.0.0.1", guarded.port))
        slow.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        started = time.monotonic()
        assert guarded.send("POST", DECIDE, GOOD, trusted)[0] == 200
        assert time.monotonic() - started < 2
        while guarded.count_sockets() > before and time.monotonic() - started < 20:
            time.sleep(0.2)
        assert guarded.count_sockets() <= before


def test_requests_that_must_be_decided_as_a_whole_leave_room_for_others(guarded):
    trusted = {"Authorization": f"Bearer {TOKEN}"}
    body = json.dumps({"samples": [FLOWER] * 10_000, "fdr": 0.1}).encode()
    table = b"sepal_length,sepal_width,petal_length,petal_width\n5.1,3.5,1.4,0.2\n"
    small = ("POST", DECIDE, table, {"Content-Type": "text/csv"} | trusted)
    assert guarded.send(*small)[0] == 200  # the children have started
    lines = [f"POST {DECIDE} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (JSON | trusted).items()]
    with ExitStack() as open_ones:
        large = [open_ones.enter_context(guarded.connect()) for _ in range(8)]
        for connection in large:
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        assert guarded.send(*small)[0] == 200
        assert len(select.select(large, [], [], 0)[0]) < 4
    assert guarded.send(*small)[0] == 200


def test_more_connections_than_allowed_are_turned_away_and_the_server_recovers(server):
    crowd = []
    try:
        for _ in range(120):
            try:
                crowd.append(server.connect())
            except OSError:
                break
        deadline = time.monotonic() + 10
        # Connections without a request are closed after the deadline of a head.
        while time.monotonic() < deadline:
            try:
                if server.send("GET", "/healthz")[0] == 200:
                    break
            except OSError:
                pass
            time.sleep(0.2)
        assert server.send("GET", "/healthz")[0] == 200
    finally:
        for connection in crowd:
            connection.close()


# -- requests from other web sites -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "http://127.0.0.1:1"},
    ],
    ids=str,
)
def test_another_web_site_cannot_change_a_model(server, headers):
    before = server.send("GET", "/v1/models/changed")[1]["etag"]
    body = b'{"target_rejection": 0.2}'
    check_sentence(server.send("POST", "/v1/models/changed/set-threshold", body, JSON | headers), 403)
    assert server.send("GET", "/v1/models/changed")[1]["etag"] == before


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost@evil.example", ""]
)
def test_a_name_that_was_rebound_to_loopback_is_not_answered(server, host):
    """DNS rebinding: the browser believes that evil.example has the address 127.0.0.1."""
    answer = server.send("GET", "/v1/models", None, {"Host": host})
    assert answer[0] in (400, 403), answer
    assert b"flowers" not in answer[2]


def test_a_preflight_request_gets_no_permission(server):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    status, answered, _ = server.send("OPTIONS", DECIDE, None, headers)
    assert status in (403, 405)
    assert not [name for name in answered if name.startswith("access-control-")]


def test_a_form_of_another_site_that_needs_no_preflight_is_refused(server):
    headers = {"Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    check_sentence(server.send("POST", DECIDE, GOOD, headers), 403)


@pytest.mark.parametrize("path", ["/", "/v1/models", "/healthz", "/nowhere", "/openapi.json"])
def test_every_answer_has_the_headers_that_a_browser_heeds(server, path):
    headers = server.send("GET", path)[1]
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers and "x-powered-by" not in headers
    assert not [name for name in headers if name.startswith("access-control-")]


# -- tokens ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "token",
    [None, "", "Bearer", "Bearer ", "Bearer x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN,
     f"Bearer {TOKEN} {TOKEN}", f"Bearer {TOKEN.swapcase()}", "Bearer \u00fc".encode().decode("latin-1")],
)  # fmt: skip
@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/flowers", "/metrics", "/v1/models/flowers/history", "/v1/nowhere"]
)
def test_a_missing_or_wrong_token_gets_nothing(guarded, token, path):
    answer = guarded.send("GET", path, None, {} if token is None else {"Authorization": token})
    check_sentence(answer, 401)
    assert b"flowers" not in answer[2].replace(path.encode(), b"")
    assert answer[1]["www-authenticate"].startswith("Bearer")


def test_the_right_token_is_let_in_and_never_shown(guarded):
    status, headers, body = guarded.send("GET", "/v1/models", None, {"Authorization": f"Bearer {TOKEN}"})
    assert status == 200 and TOKEN not in str(headers) and TOKEN.encode() not in body
    assert guarded.send("GET", "/healthz")[0] == 200
    assert set(json.loads(guarded.send("GET", "/readyz")[2])) == {"status"}
    assert TOKEN not in guarded.log


def test_a_token_in_the_query_is_no_token(guarded):
    check_sentence(guarded.send("GET", f"/v1/models?token={TOKEN}&access_token={TOKEN}"), 401)


def test_tokens_are_compared_in_constant_time():
    """By the function of the standard library that is made for it, and by nothing else."""
    import inspect

    from srosr.server import guard

    source = inspect.getsource(guard)
    assert "compare_digest(" in source
    assert not re.search(r"token\s*(==|!=)|(==|!=)\s*\S*token", source)
    assert guard.hmac.compare_digest is hmac.compare_digest


def test_a_wrong_token_is_refused_before_the_body_is_read(guarded):
    head = f"{HEAD}Content-Length: 10000000\r\n\r\n"
    with guarded.connect() as connection:
        connection.sendall(head.encode())
        started = time.monotonic()
        assert connection.recv(1000).startswith(b"HTTP/1.1 401")
        assert time.monotonic() - started < 1


def test_a_connection_that_was_refused_is_not_held_open_by_sending_on(server):
    head = f"POST {DECIDE} HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000000\r\n\r\n"
    with server.connect() as held:
        held.sendall(head.encode())
        assert held.recv(1000).startswith(b"HTTP/1.1 403")
        assert drip(held, b"x") < 5


# -- changes, and processes that die -----------------------------------------------------------------------


def test_changes_at_the_same_time_are_made_one_after_the_other(server):
    def change(i: int) -> int:
        body = json.dumps({"target_rejection": 0.02 + i / 100}).encode()
        return server.send("POST", "/v1/models/changed/set-threshold", body, JSON)[0]

    with ThreadPoolExecutor(6) as threads:
        statuses = list(threads.map(change, range(6)))
    assert set(statuses) <= {200, 409, 429} and 200 in statuses
    history = json.loads(server.send("GET", "/v1/models/changed/history")[2])["versions"]
    now = json.loads(server.send("GET", "/v1/models/changed")[2])["version"]
    assert now in {line["version"] for line in history} or history
    lines = [json.loads(line) for line in server.read_audit("changed")]
    done = [line for line in lines if line.get("state") == "done"]
    # Each change begins with the result of the one before.
    assert all(a["after"] == b["before"] for a, b in pairwise(done))
    assert done[-1]["after"] == now


def test_of_two_changes_of_one_version_only_one_is_made(server):
    version = server.send("GET", "/v1/models/changed")[1]["etag"]

    def change(share: float) -> int:
        body = json.dumps({"target_rejection": share}).encode()
        return server.send("POST", "/v1/models/changed/set-threshold", body, JSON | {"If-Match": version})[0]

    with ThreadPoolExecutor(2) as threads:
        statuses = sorted(threads.map(change, (0.11, 0.13)))
    assert statuses[0] == 200 and statuses[1] in (409, 412)
    check_sentence(
        server.send(
            "POST", "/v1/models/changed/set-threshold", b'{"target_rejection": 0.2}', JSON | {"If-Match": version}
        ),
        412,
    )


@pytest.mark.parametrize("job", slow_except(["read"], ["explain", "read"]))
def test_a_child_that_is_killed_costs_at_most_its_own_request(server, job):
    def ask() -> tuple:
        if job == "explain":
            return server.send("POST", f"{MODEL}/explain", GOOD, JSON)
        table = b"sepal_length,sepal_width,petal_length,petal_width\n" + b"5.1,3.5,1.4,0.2\n" * 900
        return server.send("POST", DECIDE, table, {"Content-Type": "text/csv"})

    assert any(ask()[0] == 200 for _ in range(4))
    answers: list[tuple] = []
    for pause in (0.0, 0.05):
        thread = threading.Thread(target=lambda: answers.append(ask()))
        thread.start()
        time.sleep(pause)
        killed = list_children(server.pid)
        for child in killed:
            os.kill(child, signal.SIGKILL)
        thread.join(60)
    assert len(answers) == 2
    for answer in answers:
        if answer[0] != 200:
            check_sentence(answer, 503)
    # Decisions on JSON need no child; what does gets a new one.
    assert server.send("POST", DECIDE, GOOD, JSON)[0] == 200
    assert any(ask()[0] == 200 for _ in range(len(killed) + 1))


def test_a_client_that_leaves_does_not_stop_the_others(server):
    body = json.dumps({"samples": [FLOWER] * 1000}).encode()
    head = f"{HEAD}Content-Length: {len(body)}\r\n\r\n"
    for _ in range(20):
        with server.connect() as leaving:
            leaving.sendall(head.encode() + body)
    assert server.send("POST", DECIDE, GOOD, JSON)[0] == 200


@pytest.mark.slow
def test_a_change_whose_client_leaves_is_not_made(server):
    before = server.send("GET", "/v1/models/changed")[1]["etag"]
    samples = [[9, 9, 9, 9 + i / 10] for i in range(40)]
    body = json.dumps({"name": "left", "samples": samples, "recalibrate": True}).encode()
    lines = ["POST /v1/models/changed/add-class HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += ["Accept: application/x-ndjson", f"Content-Length: {len(body)}", "", ""]
    with server.connect() as leaving:
        leaving.sendall("\r\n".join(lines).encode() + body)
        assert leaving.recv(100).startswith(b"HTTP/1.1 200")  # the work has begun
    time.sleep(2)
    assert server.send("GET", "/v1/models/changed")[1]["etag"] == before
    assert "left" not in json.loads(server.send("GET", "/v1/models/changed")[2])["classes"]


def test_after_all_of_this_the_server_decides_as_before(server):
    status, _, body = server.send("POST", DECIDE, GOOD, JSON)
    assert status == 200 and json.loads(body)["decisions"][0]["label"] == "setosa"
    assert "Traceback" not in server.log, server.log[-3000:]

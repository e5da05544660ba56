"""Attacks on the server. Each test is named after what the attack gets; `python -m pytest -v` prints the list."""

import gzip
import io
import json
import os
import random
import re
import signal
import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import server_runs
from jobs_for_children import is_gone
from pyarrow import parquet
from server_runs import check_error, check_tells_nothing, make_form, save_model, serve, server_required, share_strict

server_required()
pytest.importorskip("PIL")

import srosr  # noqa: E402

DECIDE, PICTURES = "/v1/models/plain/decide", "/v1/models/shapes/decide"
JSON = {"Content-Type": "application/json"}
SAMPLE = [1, 2, 3, 4, 5, 6]
GOOD = json.dumps({"samples": [SAMPLE]}).encode()
CSV = {"Content-Type": "text/csv"}
TABLE = b"a,b,c,d,e,f\n1,2,3,4,5,6\n"
PARQUET = "application/vnd.apache.parquet"
MANY = pyarrow.table(dict.fromkeys("abcdef", np.zeros(3_000_000)))
HEAD = b"IHDR" + struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0)
WIDE = "more than 2,000 columns|100,?000 features"


def save(function, *arrays, **named):
    stream = io.BytesIO()
    function(stream, *arrays, **named)
    return stream.getvalue()


@pytest.fixture(scope="module")
def server(request):
    server = share_strict(request)
    yield server
    assert server.post(DECIDE, {"samples": [SAMPLE]})[0] == 200
    assert "Traceback" not in server.read_log(), server.read_log()[-3000:]


@pytest.mark.parametrize("path", [
    "/v1/models/../../etc/passwd", "/v1/models/..%2f..%2f..%2fetc%2fpasswd", "/v1/models/%2e%2e/%2e%2e/decide",
    "/v1/models/..%5c..%5cwindows", "/v1/models/plain.srosr", "/v1/models/plain%00", "/v1/models/%2fetc%2fpasswd",
    "/v1/models/" + "a" * 5000, "/v1/models/%ff%fe", "/v1/models/%0d%0aX-Injected:%20yes", "/static/../app.py",
    "/static/..%2f..%2fapp.py", "/static/%2e%2e/%2e%2e/settings.py", "/static//etc/passwd", "/static/%2fetc%2fpasswd",
    "/static/index.html%00.js", "/static/.", "/static/", "/static/..\\app.py", "/v1/models/plain/", "//evil.example/",
])  # fmt: skip
def test_no_path_of_a_request_reaches_the_file_system(server, path):
    answer = server.request("GET", path)
    check_error(answer, 404)
    assert "x-injected" not in answer[1]


@pytest.mark.parametrize("name", ["../../../tmp/escaped.csv", "/tmp/escaped.csv", "escaped.csv\0.png"])
def test_the_name_of_an_uploaded_file_is_no_path(server, name):
    status, _, body = server.request("POST", DECIDE, *make_form([(name, TABLE)]))
    assert status in (200, 422)
    check_tells_nothing(body)
    assert not Path("/tmp/escaped.csv").exists()


@pytest.mark.parametrize("name", [
    "", " x", "x ", "a\0b", "a\nb", "a\r\nSet-Cookie: x=1", "\u2028", "\x1b[31m", "x" * 10_000,
], ids=ascii)  # fmt: skip
def test_a_class_needs_a_name_that_one_can_see(server, name):
    body = json.dumps({"name": name, "samples": [SAMPLE] * 3})
    answer = server.request("POST", "/v1/models/changed/add-class", body, JSON)
    assert "name" in check_error(answer, 422) and "set-cookie" not in answer[1]


@pytest.mark.parametrize("body", [
    b"[" * 100_000, b'{"samples":' + b"[" * 50_000 + b"]" * 50_000 + b"}", b'{"a":' * 100_000,  # deep nesting
    b"{", b"null", b"[]", b"{}", b"\xff\xfe\x00", b'{"samples": [[1, 2, 3, 4, 5, 6]]} {}',
    *(b'{"samples": [[1, 2, 3, 4, 5, %s]]}' % last for last in (b"NaN", b"-Infinity", b"1e999", b"9" * 999, b'"\xed"')),
    *(b'{"samples": %s}' % given for given in (b"[[]]", b"{}", b'[{"__class__": 1}]', b'"/etc/passwd"')),
    *(b'{"samples": [1, 2, 3, 4, 5, 6], %s}' % more for more in (
        b'"model": "../x"', b'"coverage": 1e400', b'"coverage": -1', b'"fdr": "0.1; rm -rf"', b'"samples": {}',
    )),
], ids=lambda body: body[:45].decode("latin-1"))  # fmt: skip
def test_json_that_is_no_list_of_numbers_is_an_error_in_one_sentence(server, body):
    for padded in (body, body.ljust(300_000)):  # read in the server, and in a child
        check_error(server.request("POST", DECIDE, padded, JSON), 400, 422)


@pytest.mark.parametrize(("body", "kind", "what"), [
    (json.dumps({"samples": [SAMPLE] * 1001}), "application/json", "more than 1,000 rows"),
    (TABLE + b"1,2,3,4,5,6\n" * 1000, "text/csv", "more than 1,000 rows"),
    (save(np.save, np.ones((1001, 6))), "application/x-npy", "more than 1,000 rows"),
    (json.dumps({"samples": [[0] * 100_000]}), "application/json", WIDE),
    (",".join(f"c{i}" for i in range(100_000)) + "\n" + ",".join("0" * 100_000), "text/csv", WIDE),
    (save(np.save, np.ones((1, 100_000))), "application/x-npy", WIDE),
], ids=["rows JSON", "rows CSV", "rows NPY", "columns JSON", "columns CSV", "columns NPY"])  # fmt: skip
def test_rows_and_columns_over_the_limits_are_refused(server, body, kind, what):
    answer = server.request("POST", DECIDE, body, {"Content-Type": kind})
    assert re.search(what, check_error(answer, 413, *([422] if what == WIDE else [])))


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-python-pickle", "application/zip", "a" * 3000])
def test_a_body_of_another_media_type_is_refused(server, kind):
    check_error(server.request("POST", DECIDE, GOOD, {"Content-Type": kind}), 415)


def test_a_compressed_body_is_not_inflated(server):
    bomb = gzip.compress(b"0" * 50_000_000)
    for encoding in ("gzip", "br", "deflate, gzip"):
        check_error(server.request("POST", DECIDE, bomb, JSON | {"Content-Encoding": encoding}), 415)
    check_error(server.request("POST", DECIDE, bomb, CSV), 413, 422)


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/srosr-was-here",)


def make_npy_head(shape, kind="'<f8'"):
    head = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(64)


@pytest.mark.parametrize("body", [
    save(np.save, np.array([[Evil()] * 6], dtype=object)), save(np.savez, X=np.array([[Evil()] * 6], dtype=object)),
    make_npy_head("(1000000000000, 6)"), make_npy_head("(2, 1000000000000)"), make_npy_head("(9, 6)"),
    make_npy_head("(-1, 6)"), make_npy_head("(1, 6)", "'|O'"), make_npy_head("__import__('os').getpid()"),
    save(np.savez_compressed, X=np.zeros((40_000_000,))),
    save(np.savez_compressed, X=np.zeros((7_000_000, 6), dtype=np.int8)),
    b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1", save(lambda file: parquet.write_table(MANY, file)),
], ids=["pickle in npy", "pickle in npz", "claims 48 TB", "claims 16 TB", "cut short", "negative", "objects", "code",
        "zip bomb", "zip bomb of rows", "broken parquet", "parquet of many rows"])  # fmt: skip
def test_a_file_that_would_run_code_or_fill_the_memory_is_refused(server, body):
    Path("/tmp/srosr-was-here").unlink(missing_ok=True)
    kinds = {b"\x93N": "application/x-npy", b"PK": "application/x-npz", b"PA": PARQUET}
    for content, headers in ((body, {"Content-Type": kinds[body[:2]]}), make_form([("x", body)])):
        check_error(server.request("POST", DECIDE, content, headers), 413, 422)
    assert not Path("/tmp/srosr-was-here").exists()


@pytest.mark.parametrize(("body", "status", "sentence"), [
    (b"\x89PNG\r\n\x1a\n\0\0\0\r%s%s\0\0\0\x09IDAT" % (HEAD, struct.pack(">I", zlib.crc32(HEAD))) + bytes(13), 413,
     "100,000 pixels"),
    (b"\x89PNG\r\n\x1a\n" + bytes(100), 422, "."),
    (b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>", 422, "."),
    (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n(/etc/passwd) (r) file", 422, "its format is unknown"),
    (b"GIF89a\xff\xff\xff\xff\x00\x00\x00", 422, "."),
], ids=["2,500 million pixels", "broken", "svg", "postscript", "gif"])  # fmt: skip
def test_what_is_no_picture_or_too_large_a_picture_is_not_opened_as_one(server, body, status, sentence):
    answer = server.request("POST", PICTURES, body, {"Content-Type": "image/png"})
    assert sentence in check_error(answer, status)


def test_files_over_the_limit_are_refused(server):
    picture = (server.place / "shapes" / "bar" / "0.png").read_bytes()
    for count in (3, 4, 5, 500):
        answer = server.request("POST", PICTURES, *make_form([(f"{i}.png", picture) for i in range(count)]))
        assert answer[0] == 200 if count == 3 else "more than 3 files" in check_error(answer, 413)


PART = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n'


@pytest.mark.parametrize("body", [
    b"--x\r\n", PART % b'files"; filename="a.csv' + b"1,2", b"no boundary at all",
    b"--x\r\n" + b"X-Header: y\r\n" * 5000 + b"\r\n--x--\r\n", (PART % b"f" + b"v\r\n") * 3000 + b"--x--\r\n",
    PART % b"\xff" + b"v\r\n--x--\r\n",
], ids=["cut", "unfinished", "no boundary", "many headers", "many fields", "no text"])  # fmt: skip
def test_a_broken_form_is_an_error_in_one_sentence(server, body):
    check_error(server.request("POST", DECIDE, body, {"Content-Type": "multipart/form-data; boundary=x"}), 400, 422)


@pytest.mark.parametrize("extra", [
    "Content-Length: 5\r\nTransfer-Encoding: chunked", "Content-Length: 5\r\nContent-Length: 6", "Content-Length: -5",
    "Content-Length: 0x10", "Transfer-Encoding: chunked, identity", "Transfer-Encoding : chunked",
    "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Host: evil.example",
    "Bad Header: x",
])  # fmt: skip
def test_a_smuggling_head_is_refused_and_what_it_hides_is_not_answered(server, extra):
    head = f"POST {DECIDE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{extra}\r\n\r\n"
    answer = server.exchange(head.encode() + b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 3)
    assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1, answer


@pytest.mark.parametrize("raw", [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"GET", b"GET / HTTP/9.9", b"GET / HTTP/1.1\r\n\x00: x",
    b"PRI * HTTP/2.0\r\n\r\nSM", b"GET /\xff HTTP/1.1\r\nHost: localhost", b"GET /v1/models HTTP/1.1",
    b"GET /v1/models HTTP/1.1\r\nHost: localhost\xff",
], ids=["tls", "no path", "version", "nul", "http/2", "bytes in a path", "no host", "bytes in the host"])  # fmt: skip
def test_what_is_not_http_is_refused_and_others_are_served(server, raw):
    answer = server.exchange(raw + b"\r\n\r\n", 3)
    assert answer.startswith(b"HTTP/1.1 400"), answer[:200]
    check_tells_nothing(answer)
    assert server.get("/healthz")[0] == 200


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PUT", "DELETE", "PATCH", "PROPFIND", "GET"])
def test_other_methods_are_refused_and_not_overridden(server, method):
    version = server.get("/v1/models/changed")[1]["version"]
    headers = {"X-HTTP-Method-Override": "POST", "X-Method-Override": "POST"}
    path = "/v1/models/changed/set-threshold?_method=POST&threshold=0.5"
    check_error(server.request(method, path, headers=headers), 405)
    assert server.get("/v1/models/changed")[1]["version"] == version


def test_clients_that_leave_do_not_stop_the_others(server):
    body = json.dumps({"samples": [SAMPLE] * 1000}).encode()
    for sent in (0, 100, len(body)) * 8:
        server.begin(DECIDE, body, sent).close()
    assert server.post(DECIDE, {"samples": [SAMPLE]})[0] == 200
    server_runs.wait_until(lambda: server.read_metric("srosr_requests_in_flight") == 1)


def find_children(server):
    tasks = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    return [int(child) for path in tasks for child in path.read_text().split()]


def test_a_child_that_is_killed_costs_at_most_its_own_request(server):
    body = TABLE + b"1,2,3,4,5,6\n" * 900
    for pause in (0.0, 0.05):
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(server.request, "POST", DECIDE, body, CSV)
            time.sleep(pause)
            for child in find_children(server):
                os.kill(child, signal.SIGKILL)
            assert server.post(DECIDE, {"samples": [SAMPLE]})[0] == 200  # JSON needs no child
            assert asked.result()[0] == 200 or check_error(asked.result(), 503)
    assert server.request("POST", DECIDE, body, CSV)[0] == 200


def test_children_end_with_a_server_that_is_killed_even_those_at_work(tmp_path):
    save_model(tmp_path / "model.srosr")
    X, y, _ = server_runs.make_samples(n=600)
    body, key = json.dumps({"samples": X.tolist(), "labels": y.tolist()}).encode(), "a" * 16
    with serve(tmp_path / "model.srosr", settings={}) as server:
        asked = server.begin("/v1/models/model/update", body, len(body), Progress_Key=key)
        server_runs.wait_until(lambda: server.get(f"/v1/progress/{key}")[1]["stage"] == "Changing", pause=0.01)
        children = find_children(server)
        server.process.kill()
    asked.close()
    assert len(children) >= 2 and all(map(is_gone, children))


def test_killed_while_a_model_changes_the_file_is_the_old_or_the_new_one(tmp_path):
    path, contents = tmp_path / "model.srosr", set()
    save_model(path)

    def restore(server, versions, done):
        with suppress(OSError):
            while True:
                for version in versions:
                    done.append(server.post("/v1/models/model/restore", {"version": version})[0])

    for number in range(3):
        with serve(path, settings={"readers": 0, "workers": 0}) as server, ThreadPoolExecutor(1) as threads:
            contents.add(path.read_bytes())
            if not number:
                assert server.post("/v1/models/model/set-threshold", {"target_rejection": 0.2})[0] == 200
                contents.add(path.read_bytes())
            history = server.get("/v1/models/model/history")[1]["versions"]
            versions, done = dict.fromkeys(line["version"] for line in history[::-1]), []
            assert len(versions) == len(contents) == 2 and history[0]["current"]
            threads.submit(restore, server, versions, done)
            server_runs.wait_until(lambda done=done: len(done) > 3, pause=0.01)
            time.sleep(random.random() / 10)
            server.process.kill()
            threads.shutdown()
            assert set(done) == {200} and path.read_bytes() in contents
            assert srosr.load(path).classes_.tolist() == ["a", "b", "c"]

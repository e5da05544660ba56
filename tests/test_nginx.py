"""nginx in front of the server, as ``deploy/nginx.conf`` sets it up: what attacks get, and that others are served."""

import http.client
import itertools
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from server_runs import Server, fit_shapes, make_form, make_samples, save_model, serve, server_required, wait_until

server_required()
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
MISSING = (NGINX is None or sys.platform != "linux") and os.environ.get("SROSR_REQUIRE_NGINX") != "1"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING, reason="needs nginx on Linux: apt install nginx-light")]

CONFIGURATION = Path(__file__).parents[1] / "deploy" / "nginx.conf"
NAME, TOKEN = "decisions.example.org", "correct-horse-battery-staple-0123456789"
#: Times of the configuration, with shorter ones for tests, and lines that must be in it.
TIMES = {"client_header_timeout": ("10s", "2s"), "client_body_timeout": ("15s", "2s"), "send_timeout": ("30s", "5s")}
KEPT = """keepalive 16; large_client_header_buffers 4 16k; reset_timedout_connection on; client_max_body_size 64m;
server_tokens off; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
proxy_set_header X-Forwarded-For $remote_addr; proxy_request_buffering on; proxy_buffering on; proxy_read_timeout 630s;
proxy_max_temp_file_size 256m; limit_conn srosr_at_a_time 32; limit_req zone=srosr_per_second burst=200 nodelay;"""
MAIN = """daemon off; pid nginx.pid; worker_processes 1; worker_rlimit_nofile 4096; events { worker_connections 4000; }
http { access_log access.log; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
uwsgi_temp_path uwsgi; scgi_temp_path scgi; include srosr.conf; }"""
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
CLOSE = b"Connection: close\r\n\r\n"
PATH = "/v1/models/model/decide"
POST = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n".encode()
SAMPLES = make_samples()[0].round(2)
TABLE = "\n".join(["a,b,c,d,e,f", *(",".join(map(str, row)) for row in np.tile(SAMPLES, (400, 1)))]).encode()
LARGE = POST + b"Content-Length: %d\r\n%s%s" % (len(TABLE), CLOSE, TABLE)  # thirty thousand rows: an answer of 4 MB
sources = (f"127.0.1.{i}" for i in itertools.count(1))


@contextmanager
def run_nginx(folder, port_of_server, certificate=None):
    """Run nginx with the configuration that users get; yield it as a server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    listen = f" listen 127.0.0.1:{port}"
    changed = {f"{name} {long};": f"{name} {short};" for name, (long, short) in TIMES.items()}
    changed |= {"server 127.0.0.1:8000;": f"server 127.0.0.1:{port_of_server};", " listen 80;": f"{listen};"}
    if certificate is not None:
        changed |= {" listen 80;": "", "#listen 443 ssl;": f"{listen} ssl;", "#ssl_protocols": "ssl_protocols"}
        changed |= {"#ssl_certificate /etc/ssl/decisions.pem;": f"ssl_certificate {certificate};"}
        changed |= {"#ssl_certificate_key /etc/ssl/decisions.key;": f"ssl_certificate_key {certificate};"}
    text = CONFIGURATION.read_text(encoding="utf-8")
    lines = {line.strip() for line in text.splitlines()}
    lacking = [line for line in re.findall(r"\S[^;]*;", KEPT) if line not in lines]
    assert not lacking, f"{CONFIGURATION.name} lacks {lacking}"
    for line, other in changed.items():
        assert text.count(line) == 1, f"{CONFIGURATION.name} lacks {line}"
        text = text.replace(line, other)
    (folder / "srosr.conf").write_text(text, encoding="utf-8")
    (folder / "main.conf").write_text(MAIN + ("user root;" if os.geteuid() == 0 else ""), encoding="utf-8")
    command = [NGINX, "-p", folder, "-c", "main.conf", "-e", "error.log"]
    check = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
    with subprocess.Popen(command) as process, socket.socket() as probe:
        try:
            wait_until(lambda: probe.connect_ex(("127.0.0.1", port)) == 0)
            yield Server(process, port)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """Return a server of a table and of pictures, and nginx in front of it."""
    folder = tmp_path_factory.mktemp("nginx")
    save_model(folder / "model.srosr")
    models = folder / "model.srosr", *fit_shapes(folder)
    with serve(*models, "--allow-host", NAME, "--jobs", "1") as server, run_nginx(folder, server.port) as nginx:
        yield SimpleNamespace(port=nginx.port, nginx=nginx, server=server, folder=folder)


def decide(server, **headers):
    return server.post(PATH, {"samples": SAMPLES[:2].tolist()}, headers)


def connect(port, count, raw):
    """Open connections from an address and send the same on each of them."""
    source, opened = next(sources), []
    for _ in range(count):
        opened.append(socket.socket())
        opened[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened[-1].settimeout(20)
        opened[-1].bind((source, 0))
        opened[-1].connect(("127.0.0.1", port))
        with suppress(ConnectionError):  # it was answered before it was read
            opened[-1].sendall(raw)
    return opened


def receive(connection):
    """Return all that still comes on a connection."""
    found = b""
    with connection, suppress(ConnectionError):
        while part := connection.recv(2**16):
            found += part
    return found


def exchange(port, raw):
    return receive(*connect(port, 1, raw))


def list_statuses(answer):
    return b" ".join(re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)).decode() or "closed"


def hold(port, count, raw, drip, meanwhile):
    """Begin requests and drip bytes for four seconds; return how many connections take bytes, and how many got what."""
    held = connect(port, count, raw)
    meanwhile()
    for _ in range(20):
        taking = 0
        for connection in held:
            with suppress(ConnectionError):
                connection.send(drip)
                taking += 1
        time.sleep(0.2)
    return taking, Counter(list_statuses(receive(connection)) for connection in held)


def count_connections(server, unread=False):
    """Return how many connections the server has, or those on which bytes wait to be read."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    rows = [row for row in rows if row[1].endswith(f":{server.port:04X}") and row[3] == "01"]
    return sum(not unread or int(row[4].split(":")[0], 16) > 0 for row in rows)


def check_others(front):
    """Check that others are served, and that nearly all of an attack stays away from the server."""
    started = time.monotonic()
    assert decide(front.nginx)[0] == 200 and front.server.get("/healthz")[0] == 200
    assert time.monotonic() - started < 10 and count_connections(front.server) < 20


def check_sentence(answer, *statuses):
    """Check that an answer in bytes is an error as the server writes it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(list_statuses(answer)) in statuses and b"application/json" in head, answer[:300]
    assert list(json.loads(body)) == ["error"] and json.loads(body)["error"].endswith(".")


def test_json_tables_and_pictures_are_decided_on(front):
    assert decide(front.nginx) == decide(front.server)
    kind = {"Content-Type": "text/csv", "Accept": "text/csv"}
    status, _, body = front.nginx.request("POST", PATH, TABLE, kind)
    assert status == 200 and body.count(b"\n") == TABLE.count(b"\n") + 1
    if pictures := sorted(front.folder.glob("shapes/dot/*.png")):
        form = make_form([(path.name, path.read_bytes()) for path in pictures])
        status, _, body = front.nginx.request("POST", "/v1/models/shapes/decide", *form)
        assert status == 200 and json.loads(body)["rows"] == len(pictures)


def test_the_page_loads_with_each_security_header_once(front):
    answer = exchange(front.port, GET.replace(b"healthz", b"") + CLOSE)
    names = (b"content-security-policy", b"x-content-type-options", b"server: nginx\r")
    assert [answer.lower().count(b"\n" + name) for name in names] == [1, 1, 1]
    files = re.findall(r'(?:src|href)="/?(static/[^"]+)"', answer.decode())
    assert len(files) >= 2 and all(front.nginx.request("GET", f"/{name}")[0] == 200 for name in files)


def test_the_server_compares_name_and_origin(front):
    assert decide(front.nginx, Host=NAME, Origin=f"http://{NAME}")[0] == 200
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Host": NAME, "Origin": "null"}):
        status, answer = decide(front.nginx, **headers)
        assert status == 403 and list(answer) == ["error"]


def test_the_token_is_asked_for_over_tls(front, tmp_path):
    key, pem = tmp_path / "key", tmp_path / "own.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run([*make.split(), "-keyout", key, "-out", pem], check=True, capture_output=True)
    context = ssl.create_default_context(cafile=pem)
    pem.write_bytes(pem.read_bytes() + key.read_bytes())
    (tmp_path / "token").write_text(TOKEN)
    arguments = (front.folder / "model.srosr", "--token-file", tmp_path / "token")
    with serve(*arguments) as server, run_nginx(tmp_path, server.port, pem) as nginx:
        for token, status in (("", 401), (f"Bearer {TOKEN}x", 401), (f"Bearer {TOKEN}", 200)):
            connection = http.client.HTTPSConnection("localhost", nginx.port, context=context, timeout=20)
            connection.request("GET", "/v1/models", headers={"Authorization": token})
            assert connection.getresponse().status == status
            connection.close()


def test_a_server_that_does_not_run_is_an_error_in_one_sentence(tmp_path):
    with run_nginx(tmp_path, 9) as nginx:
        check_sentence(exchange(nginx.port, GET + CLOSE), 502)


@pytest.mark.parametrize(("count", "begin", "drip"), [(400, GET, b"X"), (600, b"", b"")], ids=["drip", "say nothing"])
def test_heads_that_do_not_end_are_cut_off(front, count, begin, drip):
    taking, got = hold(front.port, count, begin, drip, lambda: check_others(front))
    assert got == {"closed": count} and not (drip and taking)


@pytest.mark.parametrize("drip", [b"", b"1"], ids=["stand still", "drip"])
def test_an_address_has_few_bodies_that_do_not_end_and_the_server_none(front, drip):
    begin = POST + b"Content-Length: 100000\r\n\r\n1"
    _, got = hold(front.port, 100, begin, drip, lambda: check_others(front))
    assert got["429"] >= 50 and got["429"] + got["closed"] == 100 and count_connections(front.server) < 4


def test_an_answer_waits_for_its_reader_in_nginx(front):
    (connection,) = connect(front.port, 1, LARGE)
    assert connection.recv(12) == b"HTTP/1.1 200"
    time.sleep(1)
    wait_until(lambda: count_connections(front.server, unread=True) == 0)
    assert json.loads(receive(connection).partition(b"\r\n\r\n")[2])["rows"] == 400 * len(SAMPLES)


def test_answers_that_nobody_reads_are_given_up(front):
    held = connect(front.port, 16, LARGE)
    assert {connection.recv(12) for connection in held} == {b"HTTP/1.1 200"}
    check_others(front)
    wait_until(lambda: count_connections(front.server) == 0)
    time.sleep(6)
    sizes = [len(receive(connection)) for connection in held]
    assert max(sizes) < 3_000_000


def test_work_for_clients_that_left_is_given_up(front):
    for connection in connect(front.port, 8, LARGE):
        connection.close()
    check_others(front)
    wait_until(lambda: count_connections(front.server) == 0)


def test_an_address_that_asks_too_often_gets_429(front):
    answers = b"".join(map(receive, connect(front.port, 10, (GET + b"\r\n") * 99 + GET + CLOSE)))
    got = Counter(list_statuses(answers).split())
    assert got["200"] >= 200 and got["429"] >= 100
    check_sentence(answers[answers.rindex(b"HTTP/1.1 429") :], 429)
    check_others(front)


def test_requests_in_one_go_are_answered_in_their_order(front):
    requests = (GET + b"\r\nGET /none HTTP/1.1\r\nHost: localhost\r\n\r\n") * 50
    assert list_statuses(exchange(front.port, requests + GET + CLOSE)) == "200 404 " * 50 + "200"


TOO_LARGE = {
    "70 KB of headers": (GET + b"X: %s\r\n" % (b"x" * 7000) * 10 + CLOSE, 431),
    "a header of 20 KB": (GET + b"X: %s\r\n" % (b"x" * 20_000) + CLOSE, 431),
    "a path of 20 KB": (b"GET /%s HTTP/1.1\r\nHost: localhost\r\n" % (b"x" * 20_000) + CLOSE, 414),
    "a body of 99 GB": (POST + b"Content-Length: 99999999999\r\n\r\n1,2", 413),
    "70 MB in chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"100000\r\n%s\r\n" % bytes(2**20) * 70, 413),
}
TWO_MEANINGS = (
    b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"Content-Length: 5\r\nContent-Length: 6",
    b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding : chunked", b"Transfer-Encoding:\x0bchunked",
)  # fmt: skip
PATHS = (
    "/../../../etc/passwd", "/static/..%2f..%2f..%2fetc/passwd", "/static/%2e%2e/%2e%2e/settings.py", "/v1/models/\0",
    "/v1/models/model%00", "/static//etc/passwd", "/v1/models/%0d%0aX-Injected:%20yes", "/srosr-error",
    "/metrics", "/%6detrics", "/x/../metrics", "//metrics", "/metrics%3f", "/metrics?a=b",
)  # fmt: skip


@pytest.mark.parametrize("attack", TOO_LARGE)
def test_a_request_that_is_too_large_is_an_error_in_one_sentence(front, attack):
    answer = exchange(front.port, TOO_LARGE[attack][0])
    check_sentence(answer, TOO_LARGE[attack][1])
    check_others(front)


@pytest.mark.parametrize("framing", TWO_MEANINGS, ids=repr)
def test_a_request_with_two_meanings_hides_no_other(front, framing):
    hidden = b"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = exchange(front.port, POST + framing + b"\r\n\r\n" + hidden)
    check_sentence(answer, 400, 501)
    assert "/hidden" not in (front.folder / "access.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PATHS)
def test_a_path_leads_to_no_file_and_to_no_metrics(front, path):
    answer = exchange(front.port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n".encode() + CLOSE)
    check_sentence(answer, 400, 403, 404)
    assert b"\r\nX-Injected" not in answer

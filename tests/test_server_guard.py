"""Who is let in, how much and how slowly: token, host, origin, limits of bodies, and the end of a server."""

import hmac
import json
import select
import signal
import socket

import pytest
from filelock import FileLock
from server_runs import Server, check_error, save_model, serve, server_required, share_strict, wait_until

server_required()

from srosr.server.middleware import check_token  # noqa: E402
from srosr.server.schemas import ApiError  # noqa: E402

TOKEN = "correct-horse-battery-staple-0123456789"
DECIDE = "/v1/models/plain/decide"
GOOD = json.dumps({"samples": [[1, 2, 3, 4, 5, 6]]}).encode()
HEAD = f"POST {DECIDE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "plain.srosr"
    save_model(path)
    return path


@pytest.fixture(scope="module")
def guarded(model):
    """A server for other machines, with a token, that changes nothing."""
    settings = {"token": TOKEN, "host": "0.0.0.0", "read_only": True, "readers": 0, "workers": 0}
    with serve(model, token=TOKEN, settings=settings, limits={"connections": 8}) as found:
        found.anonymous = Server(found.process, found.port)  # for clients that send no token of themselves
        yield found


@pytest.fixture(scope="module")
def strict(request):
    return share_strict(request)


def read(connection):
    """Return status, headers and body of the answer on a connection, which ends then."""
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/openapi.json", "/v1/models/plain/history", "/nothing"])
@pytest.mark.parametrize("given", [
    None, "", "Bearer", "Bearer ", "Bearer x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN,
    f"Bearer {TOKEN} {TOKEN}", f"Bearer {TOKEN.swapcase()}", "Bearer \u00fc",
])  # fmt: skip
def test_a_missing_or_wrong_token_gets_nothing(guarded, given, path):
    answer = guarded.anonymous.request("GET", path, headers={} if given is None else {"Authorization": given})
    check_error(answer, 401)
    assert answer[1]["www-authenticate"] == "Bearer" and b"plain" not in answer[2]


def test_without_the_token_one_learns_only_that_the_server_lives(guarded):
    anonymous = guarded.anonymous
    check_error(anonymous.request("POST", DECIDE, GOOD), 401)
    check_error(anonymous.request("GET", f"/v1/models?token={TOKEN}&access_token={TOKEN}"), 401)
    assert anonymous.get("/healthz") == (200, {"status": "alive"})
    assert anonymous.get("/readyz") == (200, {"status": "ready"})
    assert anonymous.request("GET", "/")[0] == 200
    unread = anonymous.exchange(HEAD + b"Content-Length: 10000000\r\nConnection: close\r\n\r\n")
    assert unread.startswith(b"HTTP/1.1 401")


def test_the_right_token_is_let_in_under_any_name_and_never_shown(guarded):
    status, headers, content = guarded.request("GET", "/v1/models", headers={"Host": "models.example.org"})
    assert status == 200 and json.loads(content)["models"][0]["name"] == "plain"
    assert guarded.get("/readyz")[1]["models"]["plain"]["version"]
    assert TOKEN not in str(headers) and TOKEN.encode() not in content


def test_tokens_are_compared_in_constant_time(monkeypatch):
    """What counts is the answer of the function of the standard library that is made for it, also if it errs."""
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: compared.append(both))
    with pytest.raises(ApiError) as caught:
        check_token(TOKEN)({"path": "/v1/models"}, {"authorization": f"Bearer {TOKEN}"})
    assert caught.value.status == 401 and compared == [(TOKEN.encode(), TOKEN.encode())]


def test_a_read_only_server_decides_and_changes_nothing(guarded, model):
    content = model.read_bytes()
    assert guarded.post(DECIDE, json.loads(GOOD))[0] == 200
    assert guarded.get("/v1/models")[1]["read_only"] and not guarded.get("/v1/models/plain")[1]["can_change"]
    for change in ("set-threshold", "add-class", "remove-class", "update", "recalibrate", "restore", "monitor/restart"):
        found = guarded.post(f"/v1/models/plain/{change}", {})
        assert found == (403, {"error": "The server is read-only: nothing can be changed."})
    assert [path.name for path in model.parent.iterdir()] == ["plain.srosr"] and model.read_bytes() == content


@pytest.mark.parametrize(("host", "status"), [
    ("localhost", 200), ("127.0.0.1:80", 200), ("[::1]:8000", 200), ("LOCALHOST:1", 200), ("evil.example", 403),
    ("evil.example:8000", 403), ("127.0.0.1.evil.example", 403), ("localhost.evil.example", 403), ("10.0.0.1", 403),
    ("", 400), ("a b", 403), ("localhost@evil.example", 400), ("[::1", 400), ("localhost/x", 400),
])  # fmt: skip
def test_only_names_of_this_machine_are_served_without_a_token(strict, host, status):
    """DNS rebinding: a browser believes that evil.example has the address 127.0.0.1."""
    answer = strict.request("GET", "/v1/models", headers={"Host": host})
    assert answer[0] == status and (status == 200 or check_error(answer, status))


@pytest.mark.parametrize(("headers", "status"), [
    ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Origin": "http://localhost:1"}, 403),
    ({"Origin": "http://localhost.evil.example"}, 403), ({"Origin": "http://localhost:9", "Host": "localhost:9"}, 200),
    ({"Origin": "https://LOCALHOST:9", "Host": "localhost:9"}, 200), ({"Sec-Fetch-Site": "same-origin"}, 200),
    ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Content-Type": "text/plain"}, 403),
])  # fmt: skip
def test_pages_of_other_sites_can_neither_ask_nor_change(strict, headers, status):
    version = strict.get("/v1/models/changed")[1]["version"]
    requests = [("GET", "/v1/models", None, status), ("POST", DECIDE, GOOD, status)]
    requests += [("OPTIONS", DECIDE, None, 405 if status == 200 else 403)]  # no preflight gets a permission
    if status == 403:
        requests += [("POST", "/v1/models/changed/set-threshold", b'{"target_rejection": 0.2}', 403)]
    for method, path, body, expected in requests:
        found, answered, _ = strict.request(method, path, body, {"Content-Type": "application/json", **headers})
        assert found == expected and not any(name.startswith("access-control") for name in answered)
    assert strict.get("/v1/models/changed")[1]["version"] == version


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/models", "/openapi.json", "/nothing", "/static/../app.py"])
def test_every_answer_has_the_headers_that_keep_a_browser_safe(strict, path):
    for headers in ({}, {"Host": "evil.example"}):
        _, found, _ = strict.request("GET", path, headers=headers)
        policy = found["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert found["x-content-type-options"] == "nosniff" and found["referrer-policy"] == "no-referrer"
        assert found["cross-origin-resource-policy"] == found["cross-origin-opener-policy"] == "same-origin"
        assert "server" not in found and "x-powered-by" not in found
    assert strict.request("GET", "/v1/models")[1]["cache-control"] == "no-store"


def test_what_answers_get_answers_head_without_a_body(strict):
    connection = strict.connect()
    for path in ("/", "/healthz", "/readyz", "/v1/models", "/v1/models/plain", "/nothing", DECIDE):
        found = strict.request("GET", path)
        connection.request("HEAD", path)  # all on one connection: a body would be taken for the next answer
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (found[0], b"")
        assert answer.getheader("content-length") == str(len(found[2]))
    connection.close()


def test_a_body_over_the_limit_is_refused_with_and_without_a_length(strict):
    large = b'{"samples": [[' + b"1, " * 700_000 + b"1]]}"
    sentence = "The body has more than 2 MB: send fewer samples at a time."
    json_type = {"Content-Type": "application/json"}
    assert check_error(strict.request("POST", DECIDE, large, json_type), 413) == sentence
    assert check_error(strict.request("POST", DECIDE, iter([large]), json_type), 413) == sentence  # in chunks
    for more in (b"Content-Length: 99999999\r\nExpect: 100-continue", b"Content-Length: 99999999"):  # and no body
        answer = strict.exchange(HEAD + more + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413") and sentence.encode() in answer


@pytest.mark.parametrize("length", [b"Content-Length: 1000", b"Transfer-Encoding: chunked"])
def test_a_body_that_arrives_too_slowly_is_given_up(strict, length):
    answer = strict.exchange(HEAD + length + b"\r\n\r\n", 30)
    assert answer.startswith(b"HTTP/1.1 408") and b"did not arrive within 3 seconds" in answer


def test_few_large_bodies_are_served_at_a_time_and_small_ones_besides(strict):
    large = GOOD.ljust(300_000)
    held = [strict.begin(DECIDE, large, 1000) for _ in range(2)]
    wait_until(lambda: strict.read_metric("srosr_requests_in_flight") == 3)
    waiting = strict.begin(DECIDE, large, len(large))
    assert strict.post(DECIDE, json.loads(GOOD))[0] == 200
    assert not select.select([waiting.sock], [], [], 0.2)[0]
    held[0].send(large[1000:])
    assert read(held[0])[0] == read(waiting)[0] == 200
    held[1].close()


def test_a_head_over_the_limit_is_refused_and_others_are_served(strict):
    for head in (b"GET /" + b"a" * 500_000, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 80_000):
        assert strict.exchange(head + b"\r\n").startswith(b"HTTP/1.1 400")
    assert strict.get("/healthz")[0] == 200


def test_connections_over_the_limit_are_turned_away_and_the_server_recovers(guarded):
    crowd = [guarded.connect() for _ in range(8)]
    for connection in crowd:
        connection.connect()
    assert wait_until(lambda: guarded.request("GET", "/healthz")[0] == 503)
    for connection in crowd:
        connection.close()
    wait_until(lambda: guarded.request("GET", "/healthz")[0] == 200)


def test_a_progress_key_in_use_or_of_another_form_is_refused(strict):
    held = strict.begin(DECIDE, GOOD, 10, Progress_Key="a" * 16)
    wait_until(lambda: strict.read_metric("srosr_requests_in_flight") == 2)
    for key in ("a" * 16, "b" * 15, "b" * 65, "b" * 15 + "/", "b" * 15 + "\u00fc", ""):
        headers = {"Content-Type": "application/json", "Progress-Key": key}
        check_error(strict.request("POST", DECIDE, GOOD, headers), 400)
    held.send(GOOD[10:])
    assert read(held)[0] == 200
    assert strict.post(DECIDE, json.loads(GOOD), {"Progress-Key": "a" * 16})[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_asked_to_end_drains_and_exits_with_0(model, number):
    with serve(model, settings={"readers": 0, "workers": 0}, limits={"drain_seconds": 2}) as server:
        held = [server.begin(DECIDE, GOOD, 10) for _ in range(2)]
        wait_until(lambda: server.read_metric("srosr_requests_in_flight") == 3)
        server.process.send_signal(number)
        wait_until(lambda: not is_listening(server))
        held[0].send(GOOD[10:])
        status, _, body = read(held[0])
        assert status == 200 and json.loads(body)["rows"] == 1
        cut_off = read(held[1])  # what has not come at the end of the drain
        assert check_error(cut_off, 503) == "The server is ending: try again." and "retry-after" in cut_off[1]
        assert server.process.wait(60) == 0


def test_the_end_does_not_wait_for_another_process_that_changes_the_model(model, tmp_path):
    path, lock = tmp_path / "plain.srosr", tmp_path / "plain.srosr.history" / ".lock"
    path.write_bytes(model.read_bytes())
    lock.parent.mkdir()
    with serve(path, settings={"readers": 0, "workers": 0}, limits={"drain_seconds": 1}) as server, FileLock(lock):
        body, key = b'{"target_rejection": 0.2}', "a" * 16
        asked = server.begin("/v1/models/plain/set-threshold", body, len(body), Progress_Key=key)
        wait_until(lambda: server.get(f"/v1/progress/{key}")[1]["stage"] == "Saving", pause=0.01)
        server.process.terminate()
        assert check_error(read(asked), 503) == "The server is ending: try again."
        assert server.process.wait(40) == 0
    assert path.read_bytes() == model.read_bytes()


def is_listening(server):
    with socket.socket() as one_more:
        return one_more.connect_ex(("127.0.0.1", server.port)) == 0

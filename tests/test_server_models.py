"""Models of a server: what is said of them, files that change, changes over HTTP, the monitor."""

import io
import json
import os
import threading
import time

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from same import check_same
from scale import slow_except
from server_runs import make_samples, save_model, serve, server_required, share_server, wait_until

server_required()

import srosr  # noqa: E402
from srosr.inspection.model_summary import summarize_model  # noqa: E402


@pytest.fixture(scope="module")
def samples():
    X, _, unknown = make_samples(seed=1)
    return np.concatenate([X, unknown])


@pytest.fixture(scope="module")
def server(request):
    return share_server(request)


@pytest.fixture(scope="module")
def place(server):
    return server.place


def score(server, X, name="model"):
    """Return the unknown scores and the version of an answer."""
    status, answer = server.post(f"/v1/models/{name}/decide", {"samples": X.tolist(), "record": False})
    assert status == 200, answer
    return [row["unknown_score"] for row in answer["decisions"]], answer["version"]


def version_of(server, name="model"):
    return server.get(f"/v1/models/{name}")[1]["version"]


# --- what is said ---


def test_the_list_and_the_info_are_what_info_shows(server, place):
    clf = srosr.load(place / "model.srosr")
    status, answer = server.get("/v1/models")
    assert status == 200 and not answer["read_only"] and not answer["demo"]
    first, other = (next(one for one in answer["models"] if one["name"] == name) for name in ("model", "other"))
    assert first["classes"] == ["a", "b", "c"] and first["features"] == 6 and first["takes"] == "table"
    assert first["picture_shape"] is None and first["can_change"] and first["problem"] is None
    assert other["changes"] == ["set-threshold"]
    status, headers, content = server.request("GET", "/v1/models/model")
    info = json.loads(content)
    expected = json.loads(json.dumps(summarize_model(clf).to_dict()))
    check_same({name: info[name] for name in expected}, expected)
    assert headers["etag"] == f'"{info["version"]}"' and info["bytes"] == os.path.getsize(place / "model.srosr")
    assert info["score_range"] == [0, 1] and info["limits"]["rows"] == 100_000
    assert str(place) not in content.decode()


def test_held_out_scores_let_a_page_judge_a_threshold(server, place):
    clf = srosr.load(place / "model.srosr")
    _, answer = server.get("/v1/models/model/scores")
    held = clf._held_out_scores()
    check_same(answer["known"], sorted(held.scores.tolist()))
    assert len(answer["known_right"]) == len(answer["known"])
    check_same(answer["simulated"], sorted(held.simulated[held.unknown].tolist()))
    assert answer["threshold"] == clf.threshold_ and len(answer["thresholds"]) == 3
    rejected = np.mean(np.array(answer["known"]) > answer["threshold"])
    assert rejected == pytest.approx(summarize_model(clf).held_out.rejected)


def test_probes_and_metrics(server, samples):
    assert server.get("/healthz") == (200, {"status": "alive"})
    status, answer = server.get("/readyz")
    assert status == 200 and answer["status"] == "ready" and answer["models"]["model"]["problem"] is None
    score(server, samples[:5])
    _, headers, content = server.request("GET", "/metrics")
    text = content.decode()
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'srosr_requests_total{method="POST",route="/v1/models/{model}/decide",status="200"}' in text
    assert f'srosr_model_info{{model="model",version="{version_of(server)}"}} 1.0' in text
    assert 'srosr_samples_total{model="model",verdict="recognized"}' in text
    assert 'srosr_batch_rows_bucket{le="8.0",model="model"}' in text


# --- files that change ---


def test_a_model_swapped_under_load_drops_no_request_and_mixes_no_versions(server, place, samples):
    path = place / "swapped.srosr"
    models = [srosr.load(path), save_model(place / "second", target_rejection=0.2)]
    contents = [path.read_bytes(), (place / "second").read_bytes()]
    stop, failures, answers = threading.Event(), [], []

    def ask():
        connection = server.connect()
        random = np.random.default_rng()
        while not stop.is_set():
            row = int(random.integers(len(samples)))
            body = json.dumps({"samples": [samples[row].tolist()]})
            try:
                connection.request("POST", "/v1/models/swapped/decide", body, {"Content-Type": "application/json"})
                answer = json.loads(connection.getresponse().read())
                answers.append((answer["version"], answer["threshold"], row, answer["decisions"][0]["label"]))
            except Exception as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: answers)
    for number in (1, 0, 1):
        before = answers[-1][0]
        (place / "next").write_bytes(contents[number])
        os.replace(place / "next", path)
        wait_until(lambda before=before: failures or answers[-1][0] != before)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    expected = {clf.threshold_: clf.predict(samples) for clf in models}
    assert len({version for version, *_ in answers}) == 2
    for _, threshold, row, label in answers:
        assert label == expected[threshold][row]


def test_a_broken_file_leaves_the_old_model_serving_and_readyz_says_so(server, place, samples):
    path = place / "broken.srosr"
    whole = path.read_bytes()

    def find_problem():
        return server.get("/readyz")[1]["models"]["broken"]["problem"]

    before = score(server, samples[:3], "broken")
    (place / "next").write_bytes(whole[:-1000])
    os.replace(place / "next", path)
    problem = wait_until(find_problem)
    assert problem.startswith("The file of broken is damaged") and problem.endswith(".") and str(place) not in problem
    assert server.get("/readyz")[0] == 200
    assert [model["problem"] for model in server.get("/v1/models")[1]["models"]].count(problem) == 1
    check_same(score(server, samples[:3], "broken"), before)
    metrics = server.request("GET", "/metrics")[2].decode()
    assert 'srosr_model_problem{model="broken"} 1.0' in metrics
    assert 'srosr_model_load_failures_total{model="broken"} 1.0' in metrics
    path.unlink()
    wait_until(lambda: find_problem() not in (None, problem))
    path.write_bytes(whole)
    wait_until(lambda: find_problem() is None)
    check_same(score(server, samples[:3], "broken"), before)


def test_a_broken_file_can_be_replaced_by_a_version_and_not_be_changed(server, place):
    path = place / "mended.srosr"
    first = version_of(server, "mended")
    status, answer = server.post("/v1/models/mended/set-threshold", {"target_rejection": 0.1})
    assert status == 200
    second = answer["version"]

    def find_problem():
        return server.get("/readyz")[1]["models"]["mended"]["problem"]

    for version in (first, first):  # an earlier version, then the one that is served
        (place / "next").write_bytes(b"broken")
        os.replace(place / "next", path)
        problem = wait_until(find_problem)
        status, answer = server.post("/v1/models/mended/set-threshold", {"target_rejection": 0.2})
        assert status == 409 and answer["error"].startswith(problem), answer
        lines = server.get("/v1/models/mended/history")[1]["versions"]
        assert lines[0]["version"] == version_of(server, "mended") in (first, second)
        assert lines[0]["current"] and lines[0]["kept"]
        status, answer = server.post("/v1/models/mended/restore", {"version": version})
        assert status == 200 and answer["version"] == version == version_of(server, "mended"), answer
        assert find_problem() is None and srosr.load(path).classes_.tolist() == ["a", "b", "c"]


# --- changes ---


def test_changes_are_those_of_the_commands_and_can_be_undone(server, place, samples):
    before = version_of(server)
    expected = srosr.load(place / "model.srosr").set_threshold(target_rejection=0.2)
    status, answer = server.post("/v1/models/model/set-threshold", {"target_rejection": 0.2})
    assert status == 200 and answer["previous_version"] == before
    check_same([answer["threshold"], srosr.load(place / "model.srosr").threshold_], [expected.threshold_] * 2)
    new = np.array([1.0, 1, 1, 5, 1, 1]) + 0.3 * np.random.default_rng(2).normal(size=(12, 6))
    status, added = server.post("/v1/models/model/add-class", {"name": "d", "samples": new.tolist()})
    assert status == 200 and added["classes"] == ["a", "b", "c", "d"] and added["class_sizes"]["d"] == 12
    expected.add_class(new, "d")
    check_same(score(server, samples)[0], expected.unknown_score(samples))
    lines = server.lines("/v1/models/model/remove-class", {"label": "d"})
    assert lines[-1]["kind"] == "result" and lines[-1]["classes"] == ["a", "b", "c"]
    assert {line["stage"] for line in lines[:-1]} >= {"Changing", "Saving"}
    X, y, _ = make_samples(seed=5, n=4)
    status, updated = server.post("/v1/models/model/update", {"samples": X.tolist(), "labels": y.tolist()})
    assert status == 200 and updated["class_sizes"] == {"a": 29, "b": 29, "c": 29}
    status, fresh = server.post("/v1/models/model/recalibrate", {"samples": X.tolist(), "labels": y.tolist()})
    assert status == 200 and fresh["recalibration"] is not None
    _, history = server.get("/v1/models/model/history")
    changes = [line["change"] for line in history["versions"][:5]]
    assert changes == ["recalibrate", "update", "remove-class", "add-class", "set-threshold"]
    assert history["versions"][5]["version"] == before and history["versions"][5]["kept"]
    assert history["versions"][0]["version"] == version_of(server) == fresh["version"]
    status, restored = server.post("/v1/models/model/restore", {"version": before})
    assert status == 200 and restored["version"] == before == version_of(server)
    audit = (place / "model.srosr.history" / "audit.jsonl").read_text()
    assert str(new[0, 0]) not in audit and '"samples": 12' in audit


def test_if_match_protects_against_a_change_that_one_has_not_seen(server, place):
    before = version_of(server)
    status, answer = server.post(
        "/v1/models/model/set-threshold", {"target_rejection": 0.1}, {"If-Match": '"0123456789abcdef"'}
    )
    assert status == 412 and before in answer["error"] and version_of(server) == before
    status, answer = server.post(
        "/v1/models/model/set-threshold", {"target_rejection": 0.1}, {"If-Match": f'"{before}"'}
    )
    assert status == 200 and answer["version"] != before


@pytest.mark.parametrize(("change", "value", "status", "sentence"), [
    ("set-threshold", {}, 422, "give either --target-rejection SHARE or --threshold VALUE."),
    ("set-threshold", {"threshold": 7}, 422, "--threshold 7: the unknown score of model lies between 0 and 1."),
    ("set-threshold", {"threshold": "g"}, 422, "--threshold g: give a number from 0 to 1, or risk, f, youden"),
    ("set-threshold", {"target_rejection": 2}, 422, "target_rejection: input should be less than "),
    ("add-class", {"samples": [[1, 2, 3, 4, 5, 6]]}, 422, "The parameter name is missing."),
    ("add-class", {"samples": [[1, 2, 3, 4, 5, 6]], "name": "a"}, 422, "The request: label 'a'"),
    ("remove-class", {"label": "x"}, 422, "model has no class x; its classes are a, b and c."),
    ("update", {"samples": [[1, 2, 3, 4, 5, 6]], "labels": ["x"]}, 422, "The request has the class x, which the model"),
    ("restore", {"version": "0123456789abcdef"}, 404, "There is no kept version '0123456789abcdef'"),
    ("restore", {"version": "../../etc/passwd"}, 422, "version: "),
])  # fmt: skip
def test_a_change_that_cannot_be_made_says_why_and_changes_nothing(server, place, change, value, status, sentence):
    content = (place / "model.srosr").read_bytes()
    found, answer = server.post(f"/v1/models/model/{change}", value)
    assert found == status and answer["error"].startswith(sentence), answer
    assert answer["error"].endswith(".") and str(place) not in answer["error"]
    assert (place / "model.srosr").read_bytes() == content


def test_other_methods_take_a_threshold_and_no_class(server):
    status, answer = server.post("/v1/models/other/set-threshold", {"target_rejection": 0.2})
    assert status == 200 and answer["previous_version"]
    status, answer = server.post("/v1/models/other/remove-class", {"label": "a"})
    assert status == 409 and answer["error"].startswith("other holds ")


def test_changes_at_the_same_time_wait_for_each_other_and_all_happen(server):
    answers = []

    def change(share):
        answers.append(server.post("/v1/models/model/set-threshold", {"target_rejection": share}))

    threads = [threading.Thread(target=change, args=(share,)) for share in (0.11, 0.12, 0.13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [200, 200, 200]
    links = {answer["previous_version"]: answer["version"] for _, answer in answers}
    assert len(links) == 3 and len(set(links.values()) - set(links)) == 1, "each began where another ended"


def test_a_change_whose_client_goes_away_changes_nothing_and_the_next_one_works(server, place):
    content = (place / "model.srosr").read_bytes()
    X, y, _ = make_samples(seed=6, n=600)
    body = json.dumps({"samples": X.tolist(), "labels": y.tolist()})
    connection = server.connect()
    headers = {"Content-Type": "application/json", "Accept": "application/x-ndjson"}
    connection.request("POST", "/v1/models/model/update", body, headers)
    answer = connection.getresponse()
    assert json.loads(answer.readline())["kind"] == "progress"
    connection.sock.close()
    answer.close()
    connection.close()
    time.sleep(0.5)
    status, answer = server.post("/v1/models/model/set-threshold", {"target_rejection": 0.15})
    assert status == 200 and sum(answer["class_sizes"].values()) == 75, "the samples of the cancelled update are there"
    assert (place / "model.srosr").read_bytes() != content


@pytest.mark.parametrize("share", slow_except([0.21], [0.21, 0.22, 0.23, 0.24]))
def test_changes_wait_for_one_whose_client_goes_away_while_it_is_saved(server, share):
    headers = {"Content-Type": "application/json", "Accept": "application/x-ndjson"}
    connection = server.connect()
    connection.request("POST", "/v1/models/model/set-threshold", json.dumps({"target_rejection": share}), headers)
    answer = connection.getresponse()
    line = {}
    while line.get("stage") != "Saving":
        line = json.loads(answer.readline())
    connection.sock.close()
    answer.close()
    connection.close()
    status, answer = server.post("/v1/models/model/set-threshold", {"target_rejection": share + 0.1})
    assert status == 200, answer


def test_a_change_that_is_cancelled_leaves_no_file_and_one_that_waits_is_not_made(tmp_path):
    model, private = tmp_path / "model.srosr", tmp_path / "private"
    save_model(model)
    private.mkdir()
    content = model.read_bytes()
    environment = {"TMPDIR": str(private)}
    with serve(model, environment=environment, limits={"drain_seconds": 1.0}, settings={"readers": 0}) as server:
        assert server.post("/v1/models/model/set-threshold", {"target_rejection": 0.2})[0] == 200
        changed = model.read_bytes()
        assert changed != content
        with FileLock(tmp_path / "model.srosr.history" / ".lock"):
            connection = server.connect()
            headers = {"Content-Type": "application/json", "Accept": "application/x-ndjson"}
            body = json.dumps({"target_rejection": 0.3})
            connection.request("POST", "/v1/models/model/set-threshold", body, headers)
            answer = connection.getresponse()
            while json.loads(answer.readline())["stage"] != "Saving":
                pass
            wait_until(lambda: list(private.glob("*/change-*/new.srosr")))
            time.sleep(0.5)
            connection.sock.close()
            answer.close()
            connection.close()
            wait_until(lambda: not list(private.glob("*/change-*")), 10)
            assert list(private.glob("*/*.srosr")), "the model's own copy is there"
            # Another one still waits when the server is asked to end.
            told = []
            waiting = threading.Thread(
                target=lambda: told.append(server.post("/v1/models/model/set-threshold", {"target_rejection": 0.4}))
            )
            waiting.start()
            wait_until(lambda: list(private.glob("*/change-*/new.srosr")))
            time.sleep(0.5)
            started = time.monotonic()
            assert server.stop() == 0 and time.monotonic() - started < 15
            waiting.join()
            assert told == [(503, {"error": "The server is ending: try again."})]
    assert model.read_bytes() == changed
    lines = (tmp_path / "model.srosr.history" / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["begun", "done"]


def test_a_class_is_made_of_chosen_rows_whatever_they_are_labeled(server):
    *_, unknown = make_samples()
    new = pd.DataFrame(unknown, columns=[f"f{i}" for i in range(unknown.shape[1])])
    version = version_of(server, "grouped")
    path = "/v1/models/grouped/add-class?name=new"
    for more in ({}, {"kind": "other"}, {"kind": np.where(np.arange(len(new)) % 2, "other", "")}):
        body = new.assign(**more).to_csv(index=False).encode()
        status, answer = server.post(f"{path}&rows=[2,4,6,8,10]", body=body, media_type="text/csv")
        assert status == 200 and answer["class_sizes"]["new"] == 5, answer
        assert server.post("/v1/models/grouped/restore", {"version": version})[0] == 200
    body = new.assign(kind="other").to_csv(index=False).encode()
    status, answer = server.post(path, body=body, media_type="text/csv")
    assert status == 422 and answer["error"].startswith("The body has no sample of the class new (it has other)")


def test_a_disk_that_cannot_be_written_is_no_fault_of_the_request(server, place):
    (place / "barred.srosr.history").touch()
    status, answer = server.post("/v1/models/barred/set-threshold", {"target_rejection": 0.1})
    assert status == 503 and "is a file, not a folder" in answer["error"]


def test_a_false_discovery_rate_ends_when_its_client_goes_away(server):
    X, _, _ = make_samples(n=1)
    body = io.BytesIO()
    np.save(body, np.tile(X, (20_000, 1)))

    def read_metric(name):
        lines = server.request("GET", "/metrics")[2].decode().splitlines()
        found = (float(line.split()[-1]) for line in lines if line.startswith(f'{name}{{model="swapped"}}'))
        return next(found, 0.0)

    before = read_metric("srosr_batch_rows_sum")
    connection = server.connect()
    headers = {"Content-Type": "application/x-npy"}
    connection.request("POST", "/v1/models/swapped/decide?fdr=0.1&record=false", body.getvalue(), headers)
    wait_until(lambda: read_metric("srosr_batch_rows_sum") > before, pause=0.01)
    connection.sock.close()
    connection.close()
    wait_until(lambda: read_metric("srosr_queue_length") == 0, pause=0.02)
    time.sleep(0.3)
    done = read_metric("srosr_batch_rows_sum")
    time.sleep(0.3)
    assert read_metric("srosr_batch_rows_sum") == done < before + 60_000


# --- the monitor ---


def test_the_monitor_counts_what_is_recorded_and_raises_the_alarm(server, place):
    X, _, unknown = make_samples(seed=8, n=60)
    X = np.random.default_rng(0).permutation(X)

    def record(X, **more):
        assert server.post("/v1/models/watched/decide", {"samples": X.tolist(), **more})[0] == 200

    def read():
        return server.get("/v1/models/watched/monitor")[1]

    record(X[:7], record=False)
    assert read()["summary"]["samples"] == 0
    record(X)
    answer = read()
    monitor = srosr.Monitor(srosr.load(place / "watched.srosr"), block=50)
    monitor.update(X)
    assert answer["summary"]["samples"] == 180 and answer["alarm"] is None and answer["problem"] is None
    assert answer["summary"]["rejected"]["count"] == monitor.summary.rejected.count
    assert [block["samples"] for block in answer["blocks"]] == [50, 50, 50] and answer["block"] == 50
    assert all(block["time"] >= answer["since"] for block in answer["blocks"])
    assert ["samples", "180, 3 complete blocks of 50"] in answer["facts"]
    record(unknown)
    assert read()["alarm"]["sample"] >= 180
    assert 'srosr_monitor_alarm{model="watched"} 1.0' in server.request("GET", "/metrics")[2].decode()
    status, answer = server.post("/v1/models/watched/monitor/restart", {})
    assert status == 200 and answer["alarm"] is None and answer["blocks"] == []
    assert answer["summary"]["samples"] == 0 and answer["since"] <= read()["since"], "earlier samples are forgotten"
    record(X[:60])
    assert [block["start"] for block in read()["blocks"]] == [0]
    assert server.post("/v1/models/watched/set-threshold", {"target_rejection": 0.1})[0] == 200
    assert read()["summary"]["samples"] == 0, "a new model, a new monitor"

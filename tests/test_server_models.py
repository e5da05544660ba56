"""Models of a server: what is said of them, files that change, changes over HTTP, the monitor."""

import io
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from same import check_same
from server_runs import check_error, make_samples, save_model, server_required, share_server, wait_until

server_required()

import srosr  # noqa: E402
from srosr.inspection.model_summary import summarize_model  # noqa: E402

CHANGE = "/v1/models/model/set-threshold"
SAMPLES = np.concatenate(make_samples(seed=1)[::2])  # of three classes, and of none


@pytest.fixture(scope="module")
def server(request):
    return share_server(request)


def score(server, X, name="model"):
    """Return the unknown scores and the version of an answer."""
    status, answer = server.post(f"/v1/models/{name}/decide", {"samples": X.tolist(), "record": False})
    assert status == 200, answer
    return [row["unknown_score"] for row in answer["decisions"]], answer["version"]


def version_of(server, name="model"):
    return server.get(f"/v1/models/{name}")[1]["version"]


def find_problem(server, name):
    return server.get("/readyz")[1]["models"][name]["problem"]


def replace_file(path, content):
    path.with_name("next").write_bytes(content)
    os.replace(path.with_name("next"), path)


def test_the_list_info_and_held_out_scores_are_those_of_the_models(server):
    status, answer = server.get("/v1/models")
    assert status == 200 and not answer["read_only"] and not answer["demo"]
    first, other = ({one["name"]: one for one in answer["models"]}[name] for name in ("model", "other"))
    assert first["classes"] == ["a", "b", "c"] and first["features"] == 6 and first["takes"] == "table"
    assert first["picture_shape"] is None and first["can_change"] and other["changes"] == ["set-threshold"]
    status, headers, content = server.request("GET", "/v1/models/model")
    info = json.loads(content)
    expected = json.loads(json.dumps(summarize_model(srosr.load(server.place / "model.srosr")).to_dict()))
    check_same({name: info[name] for name in expected}, expected)
    assert headers["etag"] == f'"{info["version"]}"' and info["bytes"] == os.path.getsize(server.place / "model.srosr")
    assert info["score_range"] == [0, 1] and info["limits"]["rows"] == 100_000
    assert str(server.place) not in content.decode()
    held = srosr.load(server.place / "model.srosr")._held_out_scores()
    _, scores = server.get("/v1/models/model/scores")
    check_same(scores["known"], sorted(held.scores.tolist()))
    check_same(scores["simulated"], sorted(held.simulated[held.unknown].tolist()))


def test_probes_and_metrics(server):
    assert server.get("/healthz") == (200, {"status": "alive"})
    status, answer = server.get("/readyz")
    assert status == 200 and answer["status"] == "ready" and answer["models"]["model"]["problem"] is None
    _, version = score(server, SAMPLES[:5])
    _, headers, content = server.request("GET", "/metrics")
    assert headers["content-type"].startswith("text/plain; version=")
    assert server.read_metric(f'srosr_model_info{{model="model",version="{version}"}}') == 1
    for metric in ('samples_total{model="model",verdict="recognized"}', 'batch_rows_bucket{le="8.0",model="model"}'):
        assert server.read_metric(f"srosr_{metric}") > 0
    assert b'srosr_requests_total{method="POST",route="/v1/models/{model}/decide",status="200"}' in content


def test_a_model_swapped_under_load_drops_no_request_and_mixes_no_versions(server):
    path, second, stop, answers = server.place / "swapped.srosr", server.place / "second", threading.Event(), []
    models = [srosr.load(path), save_model(second, target_rejection=0.2)]
    contents = [path.read_bytes(), second.read_bytes()]

    def ask(seed):
        connection, random = server.connect(), np.random.default_rng(seed)
        while not stop.is_set():
            row = int(random.integers(len(SAMPLES)))
            body = json.dumps({"samples": [SAMPLES[row].tolist()]})
            connection.request("POST", "/v1/models/swapped/decide", body, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            answers.append((answer["version"], answer["threshold"], row, answer["decisions"][0]["label"]))
        connection.close()

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask, seed) for seed in range(4)]
        for number in (1, 0, 1):
            before = wait_until(lambda: answers)[-1][0]
            replace_file(path, contents[number])
            wait_until(lambda before=before: answers[-1][0] != before or any(one.done() for one in asking))
        stop.set()
        for one in asking:
            one.result()  # none has failed
    expected = {clf.threshold_: clf.predict(SAMPLES) for clf in models}
    assert len({version for version, *_ in answers}) == 2
    assert not [row for _, threshold, row, label in answers if label != expected[threshold][row]]


def test_a_broken_file_leaves_the_old_model_serving_and_readyz_says_so(server):
    path = server.place / "broken.srosr"
    whole, before = path.read_bytes(), score(server, SAMPLES[:3], "broken")
    replace_file(path, whole[:-1000])
    problem = wait_until(lambda: find_problem(server, "broken"))
    assert problem.startswith("The file of broken is damaged") and str(server.place) not in problem
    assert [model["problem"] for model in server.get("/v1/models")[1]["models"]].count(problem) == 1
    check_same(score(server, SAMPLES[:3], "broken"), before)
    assert server.read_metric('srosr_model_problem{model="broken"}') == 1
    assert server.read_metric('srosr_model_load_failures_total{model="broken"}') == 1
    path.unlink()
    wait_until(lambda: find_problem(server, "broken") not in (None, problem))
    path.write_bytes(whole)
    wait_until(lambda: find_problem(server, "broken") is None)
    check_same(score(server, SAMPLES[:3], "broken"), before)


def test_a_broken_file_can_be_replaced_by_a_version_and_not_be_changed(server):
    path, first = server.place / "mended.srosr", version_of(server, "mended")
    assert server.post("/v1/models/mended/set-threshold", {"target_rejection": 0.1})[0] == 200
    for version in (first, first):  # an earlier version, then the one that is served
        replace_file(path, b"broken")
        problem = wait_until(lambda: find_problem(server, "mended"))
        status, answer = server.post("/v1/models/mended/set-threshold", {"target_rejection": 0.2})
        assert status == 409 and answer["error"].startswith(problem), answer
        line = server.get("/v1/models/mended/history")[1]["versions"][0]
        assert line["version"] == version_of(server, "mended") and line["current"] and line["kept"]
        status, answer = server.post("/v1/models/mended/restore", {"version": version})
        assert status == 200 and answer["version"] == version == version_of(server, "mended"), answer
        assert find_problem(server, "mended") is None and srosr.load(path).classes_.tolist() == ["a", "b", "c"]


def test_changes_are_those_of_the_commands_and_can_be_undone(server):
    before = version_of(server)
    expected = srosr.load(server.place / "model.srosr").set_threshold(target_rejection=0.2)
    status, answer = server.post(CHANGE, {"target_rejection": 0.2})
    assert status == 200 and answer["previous_version"] == before
    check_same([answer["threshold"], srosr.load(server.place / "model.srosr").threshold_], [expected.threshold_] * 2)
    new = np.array([1.0, 1, 1, 5, 1, 1]) + 0.3 * np.random.default_rng(2).normal(size=(12, 6))
    status, added = server.post("/v1/models/model/add-class", {"name": "d", "samples": new.tolist()})
    assert status == 200 and added["classes"] == ["a", "b", "c", "d"] and added["class_sizes"]["d"] == 12
    expected.add_class(new, "d")
    check_same(score(server, SAMPLES)[0], expected.unknown_score(SAMPLES))
    status, removed = server.post("/v1/models/model/remove-class", {"label": "d"})
    assert status == 200 and removed["classes"] == ["a", "b", "c"]
    X, y, _ = make_samples(seed=5, n=4)
    status, updated = server.post("/v1/models/model/update", {"samples": X.tolist(), "labels": y.tolist()})
    assert status == 200 and updated["class_sizes"] == {"a": 29, "b": 29, "c": 29}
    status, fresh = server.post("/v1/models/model/recalibrate", {"samples": X.tolist(), "labels": y.tolist()})
    assert status == 200 and fresh["recalibration"] is not None
    lines = server.get("/v1/models/model/history")[1]["versions"]
    made = [line["change"] for line in lines[:5]]
    assert made == ["recalibrate", "update", "remove-class", "add-class", "set-threshold"]
    assert lines[5]["version"] == before and lines[5]["kept"]
    assert lines[0]["version"] == version_of(server) == fresh["version"]
    status, restored = server.post("/v1/models/model/restore", {"version": before})
    assert status == 200 and restored["version"] == before == version_of(server)
    lines = (server.place / "model.srosr.history" / "changes.jsonl").read_text().splitlines()
    written = [json.loads(line) for line in lines if line][-6:]
    assert [line["change"] for line in written] == [*made[::-1], "restore"]
    assert written[1]["details"]["samples"] == 12 and written[1]["by"] == "127.0.0.1"
    assert str(new[0, 0]) not in str(written), "samples are nobody's business"


def test_if_match_protects_against_a_change_that_one_has_not_seen(server):
    before = version_of(server)

    def change(share, version=before):
        headers = {"Content-Type": "application/json", "If-Match": f'"{version}"'}
        return server.request("POST", CHANGE, json.dumps({"target_rejection": share}), headers)

    assert before in check_error(change(0.1, "0123456789abcdef"), 412) and version_of(server) == before
    with ThreadPoolExecutor(2) as threads:  # of two at the same time, one is made
        first, second = sorted(threads.map(change, (0.111, 0.131)), key=lambda answer: answer[0])
    assert first[0] == 200 and check_error(second, 412) and version_of(server) == json.loads(first[2])["version"]


@pytest.mark.parametrize(("change", "value", "status", "sentence"), [
    ("../other/remove-class", {"label": "a"}, 409, "other holds "),  # of another method, which has a threshold only
    ("../barred/set-threshold", {"target_rejection": 0.1}, 503, "barred cannot be changed on the disk of the server: "),
    ("set-threshold", {"threshold": "nan"}, 422, "threshold nan: "),
    ("set-threshold", {"threshold": True}, 422, "threshold: "),
    ("set-threshold", {"threshold": "-inf"}, 422, "threshold -inf: "),
    ("set-threshold", {"target_rejection": 1e-320}, 422, "target_rejection: "),
    ("set-threshold", {}, 422, "give either target_rejection SHARE or threshold VALUE."),
    ("set-threshold", {"threshold": 7}, 422, "threshold 7: the unknown score of model lies between 0 and 1."),
    ("set-threshold", {"threshold": "g"}, 422, "threshold g: give a number from 0 to 1, or risk, f, youden"),
    ("set-threshold", {"target_rejection": 2}, 422, "target_rejection: input should be less than "),
    ("add-class", {"samples": [[1, 2, 3, 4, 5, 6]]}, 422, "The parameter name is missing."),
    ("add-class", {"samples": [[1, 2, 3, 4, 5, 6]], "name": "a"}, 422, "The request: label 'a'"),
    ("remove-class", {"label": "x"}, 422, "model has no class x; its classes are a, b and c."),
    ("update", {"samples": [[1, 2, 3, 4, 5, 6]], "labels": ["x"]}, 422, "The request has the class x, which the model"),
    ("recalibrate", {"samples": [[1, 2, 3, 4, 5, 6]], "shift": "location"}, 422, "There is no parameter 'shift'"),
    ("restore", {"version": "0123456789abcdef"}, 404, "There is no kept version '0123456789abcdef'"),
    ("restore", {"version": "../../etc/passwd"}, 422, "version: "),
])  # fmt: skip
def test_a_change_that_cannot_be_made_says_why_and_changes_nothing(server, change, value, status, sentence):
    (server.place / "barred.srosr.history").touch()  # where a folder should be
    content, headers = (server.place / "model.srosr").read_bytes(), {"Content-Type": "application/json"}
    answer = server.request("POST", os.path.normpath(f"/v1/models/model/{change}"), json.dumps(value), headers)
    assert check_error(answer, status).startswith(sentence)
    assert (server.place / "model.srosr").read_bytes() == content


def test_changes_at_the_same_time_wait_for_each_other_and_all_happen(server):
    with ThreadPoolExecutor(3) as threads:
        changes = [{"target_rejection": share} for share in (0.11, 0.12, 0.13)]
        answers = list(threads.map(lambda change: server.post(CHANGE, change), changes))
    links = {answer["previous_version"]: answer["version"] for status, answer in answers if status == 200}
    assert len(links) == 3 and len(set(links.values()) - set(links)) == 1, "each began where another ended"


def leave(server, change, value, stage):
    """Post a change, and leave once it has come to a stage."""
    body, key = json.dumps(value).encode(), "models-0123456789"
    asked = server.begin(f"/v1/models/model/{change}", body, len(body), Progress_Key=key)
    wait_until(lambda: server.get(f"/v1/progress/{key}")[1]["stage"] == stage, pause=0.01)
    asked.close()


def test_a_change_whose_client_leaves_is_not_made_and_the_next_one_works(server):
    content, restarts = (server.place / "model.srosr").read_bytes(), 'srosr_child_restarts{kind="worker"}'
    ended = server.read_metric(restarts)
    X, y, _ = make_samples(seed=6, n=600)
    leave(server, "update", {"samples": X.tolist(), "labels": y.tolist()}, "Changing")
    wait_until(lambda: server.read_metric(restarts) > ended)
    assert (server.place / "model.srosr").read_bytes() == content
    status, answer = server.post(CHANGE, {"target_rejection": 0.15})
    assert status == 200 and sum(answer["class_sizes"].values()) == 75, "the samples of the cancelled update are there"


def test_a_change_that_is_being_written_is_made_though_its_client_leaves(server):
    before = version_of(server)
    assert server.post(CHANGE, {"target_rejection": 0.22})[0] == 200
    with ThreadPoolExecutor(1) as threads:
        with FileLock(server.place / "model.srosr.history" / ".lock"):  # as another process that changes the model
            leave(server, "restore", {"version": before}, "Saving")
            next_one = threads.submit(server.post, CHANGE, {"target_rejection": 0.23})
            time.sleep(0.3)
            assert version_of(server) != before and not next_one.done()
        assert next_one.result()[0] == 200 and next_one.result()[1]["previous_version"] == before


def test_a_class_is_made_of_chosen_rows_or_else_of_those_with_its_label(server):
    *_, unknown = make_samples()
    body = pd.DataFrame(unknown).add_prefix("f").assign(kind="other").to_csv(index=False).encode()
    path = "/v1/models/grouped/add-class?name=new"
    status, answer = server.post(path, body=body, media_type="text/csv")
    assert status == 422 and "has no sample of the class new (it has other)" in answer["error"]
    status, answer = server.post(f"{path}&rows=[2,4,6,8,10]", body=body, media_type="text/csv")
    assert status == 200 and answer["class_sizes"]["new"] == 5, answer
    both = pd.DataFrame(unknown + 0.1).add_prefix("f").assign(kind=["other"] * 20 + ["more"] * 5, person="p")
    path, body = "/v1/models/grouped/add-class?name=more", both.to_csv(index=False).encode()
    status, answer = server.post(path, body=body, media_type="text/csv")
    assert status == 200 and answer["class_sizes"]["more"] == 5, answer


def test_decisions_end_when_their_client_leaves(server):
    rows, headers = 'srosr_batch_rows_sum{model="swapped"}', {"Content_Type": "application/x-npy"}
    np.save(body := io.BytesIO(), np.tile(SAMPLES, (600, 1)))
    before = server.read_metric(rows)
    asked = server.begin("/v1/models/swapped/decide?record=false", body.getvalue(), body.tell(), **headers)
    wait_until(lambda: server.read_metric(rows) > before, pause=0.01)
    asked.close()
    wait_until(lambda: server.read_metric("srosr_requests_in_flight") == 1, pause=0.02)
    time.sleep(0.3)  # for what a coder has begun
    done = server.read_metric(rows)
    time.sleep(0.3)
    assert server.read_metric(rows) == done < before + 600 * len(SAMPLES)


def test_the_monitor_counts_what_is_recorded_and_raises_the_alarm(server):
    X, _, unknown = make_samples(seed=8, n=60)
    X = np.random.default_rng(0).permutation(X)
    monitor = srosr.Monitor(srosr.load(server.place / "watched.srosr"), block=50)
    monitor.update(X)

    def record(X, **more):
        assert server.post("/v1/models/watched/decide", {"samples": X.tolist(), **more})[0] == 200
        return server.get("/v1/models/watched/monitor")[1]

    assert record(X[:7], record=False)["summary"]["samples"] == 0
    answer = record(X)
    assert answer["summary"]["samples"] == 180 and answer["alarm"] is None and answer["problem"] is None
    assert answer["summary"]["rejected"]["count"] == monitor.summary.rejected.count
    assert [block["samples"] for block in answer["blocks"]] == [50, 50, 50] and answer["block"] == 50
    assert all(block["time"] >= answer["since"] for block in answer["blocks"])
    assert ["samples", "180, 3 complete blocks of 50"] in answer["facts"]
    assert record(unknown)["alarm"]["sample"] >= 180
    assert server.read_metric('srosr_monitor_alarm{model="watched"}') == 1
    status, answer = server.post("/v1/models/watched/monitor/restart", {})
    assert status == 200 and answer["alarm"] is None and answer["blocks"] == []
    assert answer["summary"]["samples"] == 0, "earlier samples are forgotten"
    assert [block["start"] for block in record(X[:60])["blocks"]] == [0]
    assert server.post("/v1/models/watched/set-threshold", {"target_rejection": 0.1})[0] == 200
    assert record(X[:7])["summary"]["samples"] == 7, "a new model, a new monitor"

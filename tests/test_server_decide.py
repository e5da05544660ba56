"""Decisions over HTTP are those of the model, whatever samples come in; so are explanations, evaluations, groups."""

import io
import json
import select
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from command_runs import columns_of, right
from same import check_same, check_same_text
from server_runs import check_error, make_form, make_samples, server_required, share_server

server_required()

import srosr  # noqa: E402
from srosr.discovery.discover_classes import discover  # noqa: E402

NAMES = ["f0", "f1", "f2", "f3", "f4", "f5"]
DECIDE, EVALUATE, EXPLAIN = (f"/v1/models/plain/{action}" for action in ("decide", "evaluate", "explain"))
SAMPLES = np.concatenate([one[::3] for one in make_samples(seed=1)[::2]])  # of three classes, and of none
ROW = [1, 2, 3, 4, 5, 6]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(request):
    return share_server(request)


@pytest.fixture(scope="module")
def plain(server):
    return srosr.load(server.place / "plain.srosr")


def check_decisions(answer, decisions, numbers=None):
    """Compare an answer with what the model decides in process; no sample here has a score close to the threshold."""
    rows = answer["decisions"]
    assert [row["row"] for row in rows] == list(range(len(decisions)) if numbers is None else numbers)
    assert [row["label"] for row in rows] == [str(label) for label in decisions.label]
    assert [row["candidate"] for row in rows] == [str(label) for label in decisions.candidate]
    assert [row["verdict"] == "rejected" for row in rows] == decisions.rejected.tolist()
    check_same([row["unknown_score"] for row in rows], decisions.unknown_score)
    if decisions.prediction_set is not None:
        assert [row["prediction_set"] for row in rows] == [names.tolist() for names in decisions.prediction_set]


def name_columns(X):
    return [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]


def test_json_samples_and_arrays_get_the_decisions_of_the_model(server, plain):
    status, answer = server.post(DECIDE, {"samples": SAMPLES.tolist()})
    assert status == 200
    check_decisions(answer, plain.decide(SAMPLES, coverage=0.95))
    assert answer["rows"] == len(SAMPLES) and answer["dropped"] == 0 and answer["notes"] == []
    assert answer["model"] == "plain" and answer["threshold"] == plain.threshold_ and answer["coverage"] == 0.95
    assert answer["guarantee"] == plain.prediction_set(SAMPLES[:1], 0.95).guarantee
    assert {row["verdict"] for row in answer["decisions"]} == {"recognized", "rejected"}
    _, one = server.post(DECIDE, {"samples": SAMPLES[0].tolist()})  # which may be a plain list
    check_same(one["decisions"], answer["decisions"][:1])
    _, two = server.post(f"{DECIDE}?rows=2&rows=0", {"samples": SAMPLES.tolist()})  # lists may be repeated
    check_same(two["decisions"], [answer["decisions"][row] for row in (2, 0)])
    np.save(body := io.BytesIO(), SAMPLES)
    for media_type in ("application/x-npy", "application/octet-stream"):
        _, same = server.post(DECIDE, body=body.getvalue(), media_type=media_type)
        check_same(same["decisions"], answer["decisions"])


@pytest.mark.parametrize("times", [10, 150], ids=["in the server", "in a child"])
def test_many_samples_come_back_in_order_wherever_they_are_read(server, plain, times):
    many = np.tile(SAMPLES, (times, 1))
    status, answer = server.post(DECIDE, {"samples": many.tolist(), "coverage": None})
    assert status == 200 and "prediction_set" not in answer["decisions"][0] and answer["coverage"] is None
    check_decisions(answer, plain.decide(many))


def test_named_columns_may_come_in_any_order(server):
    expected = srosr.load(server.place / "named.srosr").decide(pd.DataFrame(SAMPLES, columns=NAMES), coverage=0.95)
    rows = name_columns(SAMPLES)
    for given in (rows, [{"kind": "a", **dict(reversed(row.items()))} for row in rows]):
        status, answer = server.post("/v1/models/named/decide", {"samples": given})
        assert status == 200
        check_decisions(answer, expected)


def test_null_is_a_missing_value_which_a_model_fitted_with_impute_fills_in(server):
    gappy = name_columns(SAMPLES[:2])
    gappy[1]["f2"] = None
    status, answer = server.post("/v1/models/named/decide", {"samples": gappy})
    assert status == 200 and [row["imputed"] for row in answer["decisions"]] == [0.0, pytest.approx(1 / 6)]
    rows = [SAMPLES[0].tolist(), [1, 2, None, 4, 5, 6], SAMPLES[1].tolist()]
    status, error = server.post(DECIDE, {"samples": rows})
    assert status == 422 and error["error"].startswith("The request has no value in row 1, feature 2")
    status, answer = server.post(DECIDE, {"samples": rows, "drop_missing": True})
    assert status == 200 and answer["dropped"] == 1 and [row["row"] for row in answer["decisions"]] == [0, 2]


def test_a_false_discovery_rate_gives_the_p_values_of_the_model(server, plain):
    rate, lack = server.post(DECIDE, {"samples": SAMPLES.tolist(), "fdr": 1e-4})[1]["notes"]
    assert rate.startswith("False discovery rate 0.0001: ") and lack.startswith("fdr=0.0001 takes 9999 calibration")
    status, answer = server.post(DECIDE, {"samples": SAMPLES.tolist(), "fdr": 0.2})
    expected = plain.decide(SAMPLES, fdr=0.2, coverage=0.95)
    assert status == 200
    check_decisions(answer, expected)
    check_same([row["p_value"] for row in answer["decisions"]], expected.p_value)


def test_csv_answers_are_those_of_predict(server):
    table, model = server.place / "plain.csv", server.place / "plain.srosr"
    pd.DataFrame(SAMPLES).to_csv(table, index=False)
    headers = {"Content-Type": "text/csv", "Accept": "text/html;q=0.5, text/csv"}
    status, headers, content = server.request("POST", DECIDE, table.read_bytes(), headers)
    assert status == 200 and headers["content-type"].startswith("text/csv")
    printed = right("predict", model, table, "--coverage", "0.95")
    ours, theirs = columns_of(content.decode()), columns_of(printed[printed.index("row,") :])
    check_same(ours.pop("unknown_score"), theirs.pop("unknown_score"))
    assert str(ours) == str(theirs)


def test_progress_is_told_by_the_key_of_a_request(server):
    nothing, key, body = (200, {"stage": None, "done": None, "of": None}), "0123456789abcdef-_Z", io.BytesIO()
    assert server.get(f"/v1/progress/{key}") == nothing
    np.save(body, np.tile(make_samples()[0], (400, 1)))
    headers = {"Content_Type": "application/x-npy", "Progress_Key": key}
    asked, found = server.begin(f"{DECIDE}?record=false", body.getvalue(), body.tell(), **headers), []
    while not select.select([asked.sock], [], [], 0)[0]:
        found.append(server.get(f"/v1/progress/{key}")[1])
    assert asked.getresponse().status == 200
    asked.close()
    done = [one["done"] for one in found if one["stage"] == "Deciding"]
    assert done and done == sorted(done) and {one["of"] for one in found if one["done"]} == {400 * 75}
    assert server.get(f"/v1/progress/{key}") == nothing


def test_a_form_has_files_and_parameters(server, plain):
    text = pd.DataFrame(SAMPLES, columns=NAMES).to_csv(index=False)
    form = make_form([("../../new.csv", text.encode())], coverage="null", rows="[3, 1]")
    status, _, content = server.request("POST", DECIDE, *form)
    assert status == 200, content
    check_decisions(json.loads(content), plain.decide(SAMPLES[[3, 1]]), [3, 1])
    wrong = text.replace(text.splitlines()[1].split(",")[0], "abc")
    answer = server.request("POST", DECIDE, *make_form([("../../new.csv", wrong.encode())]))
    assert check_error(answer, 422).startswith("new.csv has 'abc' in line 2")


def test_pictures_are_decided_explained_and_named(server):
    pytest.importorskip("PIL.Image", reason="needs the extra images")
    content = (server.place / "shapes" / "bar" / "3.png").read_bytes()
    two, broken = [("../a.png", content), ("b\u00fc.png", content)], ("no.png", content[:40])

    def post(action, files):
        status, _, body = server.request("POST", f"/v1/models/shapes/{action}", *make_form(files))
        return status, json.loads(body)

    status, answer = server.post("/v1/models/shapes/decide", body=content, media_type="image/png")
    assert status == 200 and answer["decisions"][0]["candidate"] == "bar", answer
    status, answer = post("decide", two)
    assert status == 200 and [row["file"] for row in answer["decisions"]] == ["a.png", "b\u00fc.png"]
    status, answer = post("explain?row=1", two)
    assert status == 200 and answer["sample_picture"].startswith("data:image/png;base64,")
    assert answer["training_samples"][0]["name"].startswith("bar/")
    status, answer = post("decide", [broken, *two])
    assert status == 422 and answer["error"].startswith("no.png")
    status, answer = post("decide?skip_broken=true", [broken, *two])
    assert status == 200 and answer["dropped"] == 1 and [row["row"] for row in answer["decisions"]] == [1, 2]
    status, answer = server.post("/v1/models/shapes/decide", {"samples": [[1, 2]]})
    assert status == 422 and answer["error"] == "The model was fitted to pictures: send pictures, not numbers."


@pytest.mark.parametrize(("change", "sentence"), [
    ({"last": [1, 2, 3, 4, 5, True]}, "The request has true or false in row 3, feature 5, which is"),
    ({"last": [1, 2, 3, 4, 5, "6"]}, "The request has '6' in row 3, feature 5, which is not a number."),
    ({"last": [1, 2, 3, 4, 5, [6]]}, "The request has a list in row 3, feature 5, which is not a number."),
    ({"last": [1, 2, 3, 4, 5, 10**400]}, "The request has a"),
    ({"last": [1, 2, 3, 4, 5, None]}, "The request has no value in row 3, feature 5"),
    ({"last": [1]}, "The request has 1 features in row 3, but the model was fitted with 6"),
    ({"last": "x"}, "The request must have a list of numbers for each sample, but row 3 is not a list."),
    ({"samples": []}, "at least one sample"),
    ({"samples": [{"f0": 1}]}, "The request has named columns, and the model was fitted to features"),
    ({"covrage": 0.9}, "There is no parameter 'covrage' (did you mean 'coverage'?)"),
    ({"coverage": 1.0}, "coverage: input should be less than or equal to 0.99"),
    ({"rows": [4]}, "The request has no row 4: rows are counted from 0."),
    ({"labels": ["a"]}, "There is no parameter 'labels'"),
])  # fmt: skip
def test_content_that_is_wrong_gets_one_sentence_in_small_and_large_json(server, change, sentence):
    value = {"samples": [ROW] * 3, **change}
    if "last" in value:
        value["samples"] = [*value["samples"], value.pop("last")]
    for size in (0, 300_000):
        answer = server.request("POST", DECIDE, json.dumps(value).ljust(size), JSON)
        assert sentence in check_error(answer, 422)


@pytest.mark.parametrize(("path", "kind", "status", "sentence"), [
    (DECIDE, "text/xml", 415, "application/json"),
    (DECIDE, "image/png", 422, "fitted to a table of 6 features"),
    ("/v1/models/plian/decide", "application/json", 404, "There is no model 'plian' (did you mean 'plain'?)"),
    ("/v2/models", "application/json", 404, "There is no such page."),
    ("/v1/models", "application/json", 405, "This address does not take the method of the request."),
])  # fmt: skip
def test_other_models_paths_methods_and_kinds_of_bodies_are_named(server, path, kind, status, sentence):
    answer = server.request("POST", path, b"\x89PNG\r\n", {"Content-Type": kind})
    assert sentence in check_error(answer, status)


@pytest.mark.parametrize("query", ["coverage=0.0", "coverage=0", "coverage=0e5", "coverage=null"])
def test_no_coverage_is_no_prediction_set_however_it_is_written(server, query):
    status, answer = server.post(f"{DECIDE}?{query}", {"samples": [ROW]})
    assert status == 200 and answer["coverage"] is None and "prediction_set" not in answer["decisions"][0]


@pytest.mark.parametrize("query", [
    "coverage=1e-17", "coverage=0.99999999999", "fdr=1e-320", "fdr=nan", "fdr=1e999", "coverage=0&coverage=0",
    "ignore=[%22a%22]&ignore=b", "ignore=b&ignore=[%22a%22]", "rows=[0]&rows=1",
])  # fmt: skip
def test_parameters_that_mean_nothing_or_two_things_are_refused(server, query):
    check_error(server.request("POST", f"{DECIDE}?{query}", json.dumps({"samples": [ROW]}), JSON), 422)


@pytest.mark.parametrize("given", [
    {f"key{i}": 1 for i in range(200_000)}, {"k" * 3_000_000: 1}, {"rows": "[" + "null," * 1_000_000 + "1]"},
    {"rows": ["x"] * 100_000}, {"rows": list(range(100_001))}, {"rows": [True]}, {"rows": [-1]}, {"ignore": [1] * 10**6}
], ids=lambda given: f"{next(iter(given))[:9]}")  # fmt: skip
def test_parameters_that_are_wrong_in_many_ways_get_a_short_sentence(server, given):
    body = json.dumps({"samples": [ROW], **given})
    assert len(check_error(server.request("POST", DECIDE, body, JSON), 422)) < 500


def test_others_are_served_while_large_json_is_parsed(server):
    with ThreadPoolExecutor(1) as pool:
        posted, served = pool.submit(server.post, DECIDE, body=b'{"samples": [' + b"[]," * 1_000_000 + b"[]]}"), 0
        while not posted.done():
            assert server.get("/healthz")[0] == 200
            served += 1
    status, answer = posted.result()
    assert status == 413 and answer["error"].startswith("The request has more than 100,000 rows") and served > 3


def test_an_explanation_has_text_numbers_training_samples_and_the_figure(server, plain):
    value, expected = {"samples": SAMPLES[:3].tolist(), "row": 2}, plain.explain(SAMPLES[2:3])
    status, answer = server.post(EXPLAIN, value)
    assert status == 200 and answer["row"] == 2 and answer["version"]
    check_same_text(answer["text"], expected.text)
    check_same(answer["decision"]["unknown_score"], plain.decide(SAMPLES[2:3]).unknown_score[0])
    weights = [(one["row"], one["label"]) for one in answer["training_samples"]]
    assert weights and weights == [(atom.row, str(atom.label)) for atom in expected.atoms][: len(weights)]
    assert ElementTree.fromstring(answer["figure"]).tag.endswith("svg")
    assert server.post(EXPLAIN, {**value, "figure": False})[1]["figure"] is None


def test_an_evaluation_is_that_of_the_command(server):
    X, y, unknown = make_samples(seed=3)
    table, path = pd.DataFrame(np.concatenate([X, unknown]), columns=NAMES), server.place / "test.csv"
    labels = [*y, *["z"] * len(unknown)]
    table.assign(kind=labels).to_csv(path, index=False)
    printed = json.loads(right("evaluate", server.place / "named.srosr", path, "--json"))
    status, answer = server.post("/v1/models/named/evaluate", body=path.read_bytes(), media_type="text/csv")
    assert status == 200 and str(server.place) not in json.dumps(answer)
    check_same(answer["metrics"], printed["metrics"])
    value = {"samples": table.to_numpy().tolist()}
    status, same = server.post(EVALUATE, {**value, "labels": labels})
    assert status == 200 and same["samples"] == answer["samples"]
    for more, sentence in (({}, "The request has no labels: "), ({"labels": ["a"]}, "The request has 1 labels, but ")):
        assert check_error(server.request("POST", EVALUATE, json.dumps(value | more), JSON), 422).startswith(sentence)


def test_rejected_samples_are_grouped(server, plain):
    random = np.random.default_rng(0)
    group = np.concatenate([np.ones(3), [6.0, 1, 1]]) + 0.2 * random.normal(size=(30, 6))
    status, answer = server.post("/v1/models/plain/discover", {"samples": group.tolist()})
    expected = discover(plain, group, random_state=0).to_dict()
    assert status == 200 and answer["text"] and len(answer["groups"]) == len(expected["groups"]) > 0
    assert [one["size"] for one in answer["groups"]] == [one["size"] for one in expected["groups"]]

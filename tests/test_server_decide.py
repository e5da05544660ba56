"""Decisions over HTTP are those of the model, whatever the samples come in."""

import csv
import io
import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from command_runs import right
from same import check_same, check_same_text
from server_runs import make_samples, server_required, share_server

server_required()

NAMES = ["f0", "f1", "f2", "f3", "f4", "f5"]


@pytest.fixture(scope="module")
def samples():
    X, _, unknown = make_samples(seed=1)
    return np.concatenate([X[::3], unknown[::3]])


@pytest.fixture(scope="module")
def server(request):
    return share_server(request)


@pytest.fixture(scope="module")
def place(server):
    """The folder of the models: *plain* has arrays without names, *named* a table with names, gaps and text labels."""
    return server.place


@pytest.fixture(scope="module")
def plain(place):
    import srosr

    return srosr.load(place / "plain.srosr")


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


# --- what comes back ---


def test_json_samples_get_the_decisions_of_the_model(server, plain, samples):
    status, answer = server.post("/v1/models/plain/decide", {"samples": samples.tolist()})
    assert status == 200
    check_decisions(answer, plain.decide(samples, coverage=0.95))
    assert answer["rows"] == len(samples) and answer["dropped"] == 0 and answer["notes"] == []
    assert answer["model"] == "plain" and answer["threshold"] == plain.threshold_ and answer["coverage"] == 0.95
    assert answer["guarantee"] == plain.prediction_set(samples[:1], 0.95).guarantee
    assert {row["verdict"] for row in answer["decisions"]} == {"recognized", "rejected"}


def test_more_samples_than_a_piece_come_back_in_order(server, plain, samples):
    many = np.tile(samples, (20, 1))[:600]
    status, answer = server.post("/v1/models/plain/decide", {"samples": many.tolist(), "coverage": None})
    assert status == 200
    check_decisions(answer, plain.decide(many))
    assert "prediction_set" not in answer["decisions"][0] and answer["coverage"] is None


def test_one_sample_may_be_a_plain_list(server, samples):
    _, listed = server.post("/v1/models/plain/decide", {"samples": [samples[0].tolist()]})
    status, one = server.post("/v1/models/plain/decide", {"samples": samples[0].tolist()})
    assert status == 200
    check_same(one["decisions"], listed["decisions"])


def test_named_columns_may_come_in_any_order(server, place, samples):
    rows = [dict(zip(NAMES, row, strict=True)) for row in samples.tolist()]
    turned = [{"kind": "a", **dict(reversed(row.items()))} for row in rows]
    _, answer = server.post("/v1/models/named/decide", {"samples": rows})
    status, other = server.post("/v1/models/named/decide", {"samples": turned})
    assert status == 200
    check_same(other["decisions"], answer["decisions"])
    frame = pd.DataFrame(samples, columns=NAMES)
    frame.to_csv(place / "new.csv", index=False)
    printed = right("predict", place / "named.srosr", place / "new.csv", "--json")
    predicted = [json.loads(line) for line in printed.splitlines()]
    assert [row["label"] for row in predicted] == [row["label"] for row in answer["decisions"]]
    check_same(*([row["unknown_score"] for row in rows] for rows in (predicted, answer["decisions"])))


def test_null_is_a_missing_value_which_a_model_fitted_with_impute_fills_in(server, samples):
    gappy = [dict(zip(NAMES, row, strict=True)) for row in samples[:2].tolist()]
    gappy[1]["f2"] = None
    status, answer = server.post("/v1/models/named/decide", {"samples": gappy})
    assert status == 200 and [row["imputed"] for row in answer["decisions"]] == [0.0, pytest.approx(1 / 6)]
    status, error = server.post("/v1/models/plain/decide", {"samples": [[1, 2, None, 4, 5, 6]]})
    assert status == 422
    assert error["error"].startswith(
        "The request has no value in row 0, feature 2; --drop-missing leaves such rows out"
    )
    rows = [samples[0].tolist(), [1, 2, None, 4, 5, 6], samples[1].tolist()]
    status, answer = server.post("/v1/models/plain/decide", {"samples": rows, "drop_missing": True})
    assert status == 200 and answer["dropped"] == 1 and [row["row"] for row in answer["decisions"]] == [0, 2]


def test_a_false_discovery_rate_gives_the_p_values_of_the_model(server, plain, samples):
    status, answer = server.post("/v1/models/plain/decide", {"samples": samples.tolist(), "fdr": 1e-4})
    rate, lack = answer["notes"]
    assert rate.startswith("False discovery rate 0.0001: ") and "p_value" in answer["decisions"][0]
    assert lack.startswith("fdr=0.0001 takes 9999 calibration samples and there are ") and lack.endswith(" rejected.")
    status, answer = server.post("/v1/models/plain/decide", {"samples": samples.tolist(), "fdr": 0.2})
    expected = plain.decide(samples, fdr=0.2, coverage=0.95)
    assert status == 200
    check_decisions(answer, expected)
    check_same([row["p_value"] for row in answer["decisions"]], expected.p_value)
    assert answer["notes"][0].startswith("False discovery rate 0.2: approximate, from 75 held-out training samples")


def test_csv_answers_are_those_of_predict(server, place, samples):
    pd.DataFrame(samples).to_csv(place / "plain.csv", index=False)
    body = (place / "plain.csv").read_bytes()
    status, headers, content = server.request(
        "POST", "/v1/models/plain/decide", body, {"Content-Type": "text/csv", "Accept": "text/csv"}
    )
    assert status == 200 and headers["content-type"].startswith("text/csv")
    printed = right("predict", place / "plain.srosr", place / "plain.csv", "--coverage", "0.95")
    printed = printed[printed.index("row,") :]
    ours, theirs = (list(csv.DictReader(io.StringIO(text))) for text in (content.decode(), printed))
    check_same(*([float(row.pop("unknown_score")) for row in rows] for rows in (ours, theirs)))
    assert ours == theirs


def test_a_stream_has_progress_a_start_decisions_and_an_end(server, plain, samples):
    many = np.tile(samples, (20, 1))[:600]
    lines = server.lines("/v1/models/plain/decide", {"samples": many.tolist()})
    kinds = [line["kind"] for line in lines if line["kind"] != "progress"]
    assert kinds[0] == "start" and kinds[-1] == "end" and len(kinds) > 3 and set(kinds[1:-1]) == {"decisions"}
    rows = [row for line in lines if line["kind"] == "decisions" for row in line["decisions"]]
    expected = plain.decide(many, coverage=0.95)
    check_decisions({"decisions": rows}, expected)
    assert lines[-1] == {"kind": "end", "rows": 600, "rejected": int(expected.rejected.sum())}
    done = [line["done"] for line in lines if line["kind"] == "progress" and line["stage"] == "Deciding"]
    assert done == sorted(set(done)) and len(done) > 1 and done[-1] == 600


def test_a_stream_that_fails_ends_with_the_error(server):
    lines = server.lines("/v1/models/plain/decide", {"samples": [[1, 2]]})
    assert lines[-1]["kind"] == "error" and lines[-1]["status"] == 422
    assert lines[-1]["error"].startswith("The request has 2 features in row 0, but the model was fitted with 6")


# --- other bodies ---


def encode_npy(X):
    content = io.BytesIO()
    np.save(content, X)
    return content.getvalue()


@pytest.mark.parametrize("media_type", ["application/x-npy", "application/octet-stream"])
def test_arrays_get_the_decisions_of_the_model(server, plain, samples, media_type):
    status, answer = server.post("/v1/models/plain/decide", body=encode_npy(samples), media_type=media_type)
    assert status == 200
    check_decisions(answer, plain.decide(samples, coverage=0.95))


def test_a_form_has_files_and_parameters(server, plain, samples):
    text = pd.DataFrame(samples, columns=NAMES).to_csv(index=False)
    parts = [
        'Content-Disposition: form-data; name="files"; filename="../../new.csv"\r\nContent-Type: text/csv\r\n\r\n'
        + text,
        'Content-Disposition: form-data; name="coverage"\r\n\r\nnull',
        'Content-Disposition: form-data; name="rows"\r\n\r\n[3, 1]',
    ]
    body = "".join(f"--line\r\n{part}\r\n" for part in parts) + "--line--\r\n"
    form = "multipart/form-data; boundary=line"
    status, answer = server.post("/v1/models/plain/decide", body=body.encode(), media_type=form)
    assert status == 200, answer
    check_decisions(answer, plain.decide(samples[[3, 1]]), [3, 1])
    first = text.splitlines()[1].split(",")[0]
    status, answer = server.post("/v1/models/plain/decide", body=body.replace(first, "abc").encode(), media_type=form)
    assert status == 422 and answer["error"].startswith("new.csv has 'abc' in line 2")


def test_options_of_a_csv_are_parameters_of_the_query(server, samples):
    table = pd.DataFrame(samples[:, ::-1], columns=NAMES[::-1]).assign(more=1.0)
    body = table.to_csv(index=False).encode()
    status, error = server.post("/v1/models/named/decide", body=body, media_type="text/csv")
    assert status == 422 and "'more'" in error["error"] and error["error"].startswith("The body has ")
    status, answer = server.post("/v1/models/named/decide?by_name=true", body=body, media_type="text/csv")
    assert status == 200 and answer["notes"] == ["Left out by --by-name: 'more'."]
    rows = [dict(zip(NAMES, row, strict=True)) for row in samples.tolist()]
    _, expected = server.post("/v1/models/named/decide", {"samples": rows})
    assert [row["label"] for row in answer["decisions"]] == [row["label"] for row in expected["decisions"]]


# --- what is refused ---


@pytest.mark.parametrize(("value", "status", "sentence"), [
    ({"samples": [[1, 2, 3, 4, 5, True]]}, 422, "The request has true or false in row 0, feature 5, which is"),
    ({"samples": [[1, 2, 3, 4, 5, "6"]]}, 422, "The request has '6' in row 0, feature 5, which is not a number."),
    ({"samples": [[1, 2, 3, 4, 5, [6]]]}, 422, "The request has a list in row 0, feature 5, which is not a number."),
    ({"samples": [[1, 2, 3, 4, 5, {}]]}, 422, "The request has an object in row 0, feature 5, which is not a number."),
    ({"samples": ["x"]}, 422, "The request must have a list of numbers for each sample, but row 0 is not a list."),
    ({"samples": [[1, 2, 3, 4, 5, 10**400]]}, 422, "The request has an infinite value in row 0, feature 5"),
    ({"samples": [[1, 2, 3, 4, 5, 6], [1]]}, 422, "The request has 1 features in row 1, but the model was"),
    ({"samples": []}, 422, "samples must be a list of at least one sample"),
    ({"samples": "1,2"}, 422, "samples must be a list of at least one sample"),
    ({"samples": [{"f0": 1}]}, 422, "The request has named columns, and the model was fitted to features"),
    ({}, 422, "The body has no samples"),
    ([1], 422, "The body must be a JSON object"),
    ({"samples": [[1, 2, 3, 4, 5, 6]], "covrage": 0.9}, 422, "There is no parameter 'covrage' (did you mean"),
    ({"samples": [[1, 2, 3, 4, 5, 6]], "coverage": 1.0}, 422, "coverage: input should be less than or equal to 0.99"),
    ({"samples": [[1, 2, 3, 4, 5, 6]], "coverage": True}, 422, "coverage: true and false are no numbers."),
    ({"samples": [[1, 2, 3, 4, 5, 6]], "rows": [1]}, 422, "The request has no row 1: rows are counted from 0."),
    ({"samples": [[1, 2, 3, 4, 5, 6]], "labels": ["a"]}, 422, "There is no parameter 'labels'"),
])  # fmt: skip
def test_content_that_is_wrong_is_an_error_of_one_sentence(server, value, status, sentence):
    found, answer = server.post("/v1/models/plain/decide", value)
    assert (found, list(answer)) == (status, ["error"])
    assert answer["error"].startswith(sentence) and answer["error"].endswith(".") and "\n" not in answer["error"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"samples": [[NaN]]}', b'{"samples": [[Infinity]]}', b"\xff", b"[" * 100_000]
)
def test_what_is_not_json_is_malformed(server, body):
    status, answer = server.post("/v1/models/plain/decide", body=body)
    assert status == 400 and answer["error"].startswith("The body is not JSON: ")


def test_a_number_too_large_for_a_float_is_infinite(server):
    status, answer = server.post("/v1/models/plain/decide", body=b'{"samples": [[1, 2, 3, 1e400, 5, 6]]}')
    assert status == 422 and answer["error"].startswith("The request has an infinite value in row 0, feature 3")


def test_other_kinds_of_bodies_and_answers_are_named(server):
    status, answer = server.post("/v1/models/plain/decide", body=b"<x/>", media_type="text/xml")
    assert status == 415 and "application/json" in answer["error"]
    status, answer = server.post("/v1/models/plain/decide", {"samples": [[1]]}, {"Accept": "image/png"})
    assert status == 406 and "text/csv" in answer["error"]
    status, answer = server.post("/v1/models/plain/decide", {"samples": [[1]]}, {"Content-Encoding": "gzip"})
    assert status == 415 and "compressed" in answer["error"]
    status, answer = server.post("/v1/models/plain/decide", body=b"\x89PNG\r\n", media_type="image/png")
    assert status == 422 and "fitted to a table of 6 features" in answer["error"]
    status, answer = server.post("/v1/models/plian/decide", {"samples": [[1]]})
    assert status == 404
    assert answer["error"].startswith("There is no model 'plian' (did you mean 'plain'?); there are plain, named, ")
    status, answer = server.get("/v1/models/plain/decide")
    assert status == 405
    status, answer = server.get("/v2/models")
    assert status == 404


# --- parameters ---

ONE = {"samples": [[1, 2, 3, 4, 5, 6]]}


@pytest.mark.parametrize("query", ["coverage=0.0", "coverage=0", "coverage=0e5", "coverage=null"])
def test_no_coverage_is_no_prediction_set_however_it_is_written(server, query):
    status, answer = server.post(f"/v1/models/plain/decide?{query}", ONE)
    assert status == 200 and answer["coverage"] is None and "prediction_set" not in answer["decisions"][0]


@pytest.mark.parametrize(("path", "value"), [
    ("decide?coverage=1e-17", ONE), ("decide?coverage=0.99999999999", ONE), ("decide?fdr=1e-320", ONE),
    ("decide?fdr=nan", ONE), ("set-threshold", {"threshold": "nan"}), ("set-threshold", {"threshold": "-inf"}),
    ("set-threshold?threshold=risk&risk_weight=inf", {}), ("set-threshold", {"target_rejection": 1e-320}),
])  # fmt: skip
def test_numbers_that_nothing_can_be_computed_with_are_refused_at_once(server, path, value):
    started = time.monotonic()
    status, answer = server.post(f"/v1/models/plain/{path}", value)
    assert status == 422 and list(answer) == ["error"] and time.monotonic() - started < 10
    body = b'{"threshold": "risk", "risk_weight": 1e999}'
    assert server.post("/v1/models/plain/set-threshold", body=body)[0] == 422


def test_lists_may_be_repeated_in_a_query_but_not_mixed_with_json(server, samples):
    value = {"samples": samples[:3].tolist()}
    status, answer = server.post("/v1/models/plain/decide?rows=2&rows=0", value)
    assert status == 200 and [row["row"] for row in answer["decisions"]] == [2, 0]
    for query in ("ignore=[%22a%22]&ignore=b", "ignore=b&ignore=[%22a%22]", "rows=[0]&rows=1", "coverage=0&coverage=0"):
        status, answer = server.post(f"/v1/models/plain/decide?{query}", value)
        assert status == 422 and answer["error"].endswith("is given more than once.")


@pytest.mark.parametrize("name", ["", " x", "x ", "a\0b", "a\nb", "\u2028", "\x1b[31m"])
def test_a_class_needs_a_name_that_one_can_see(server, samples, name):
    status, answer = server.post("/v1/models/plain/add-class", {"samples": samples[:3].tolist(), "name": name})
    assert status == 422 and answer["error"].startswith("name: ")


@pytest.mark.parametrize("given", [
    {f"key{i}": 1 for i in range(200_000)},
    {"k" * 3_000_000: 1},
    {"rows": ["x"] * 100_000},
    {"rows": "[" + "null," * 1_000_000 + "1]"},
    {"ignore": [1] * 1_000_000},
    {"rows": list(range(100_001))},
    {"rows": [True]},
    {"rows": [-1]},
])  # fmt: skip
def test_parameters_that_are_wrong_in_many_ways_take_little_time(given):
    from srosr.server.answers import ApiError
    from srosr.server.schemas import DecideParameters, check_parameters

    started = time.process_time()
    with pytest.raises(ApiError) as caught:
        check_parameters(DecideParameters, given)
    assert caught.value.status == 422 and len(caught.value.message) < 500
    assert time.process_time() - started < 0.5


# --- large JSON ---


def test_large_json_is_read_like_small_json(server, plain, samples):
    many = np.tile(samples, (80, 1))
    body = {"samples": many.tolist(), "coverage": None}
    assert len(json.dumps(body)) > 256 * 1024
    status, answer = server.post("/v1/models/plain/decide", body)
    assert status == 200
    check_decisions(answer, plain.decide(many))
    gappy = [[None, 1, 2, 3, 4, 5], *many.tolist()]
    status, answer = server.post("/v1/models/plain/decide?rows=1", {"samples": gappy, "drop_missing": True})
    assert status == 200 and answer["dropped"] == 1 and answer["decisions"][0]["row"] == 1
    X, y, _ = make_samples(seed=3)
    value = {"samples": np.tile(X, (40, 1)).tolist(), "labels": np.tile(y, 40).tolist()}
    status, answer = server.post("/v1/models/plain/evaluate", value)
    assert status == 200 and answer["samples"]["all"] == 40 * len(X)


@pytest.mark.parametrize(("change", "status", "sentence"), [
    ({"covrage": 0.9}, 422, "There is no parameter 'covrage' (did you mean 'coverage'?)"),
    ({"labels": ["a"]}, 422, "There is no parameter 'labels'"),
    ({"last": [1, 2]}, 422, "The request has 2 features in row 3000, but the model was fitted with 6"),
    ({"last": [1, 2, 3, 4, 5, {}]}, 422, "The request has an object in row 3000, feature 5"),
    ({"last": [1, 2, 3, 4, 5, None]}, 422, "The request has no value in row 3000, feature 5"),
    ({"ignore": "x" * 2_000_000}, 413, "The parameters have more than 1,048,576 bytes."),
    ({"samples": None}, 422, "samples must be a list of at least one sample"),
])  # fmt: skip
def test_large_json_that_is_wrong_gets_the_same_sentences(server, change, status, sentence):
    value = {"samples": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]] * 3000, "record": False, **change}
    if "last" in value:
        value["samples"] = [*value["samples"], value.pop("last")]
    body = json.dumps(value).encode() + b" " * 300_000
    found, answer = server.post("/v1/models/plain/decide", body=body)
    assert found == status and answer["error"].startswith(sentence), answer
    found, answer = server.post("/v1/models/plain/decide", body=body[:-300_001].ljust(300_000))
    assert found == 400 and answer["error"].startswith("The body is not JSON: ")


def test_others_are_served_while_large_json_is_parsed(server):
    body = b'{"samples": [' + b"[]," * 1_000_000 + b"[]]}"
    with ThreadPoolExecutor(1) as pool:
        posted = pool.submit(server.post, "/v1/models/plain/decide", body=body)
        longest = 0.0
        while not posted.done():
            started = time.monotonic()
            assert server.get("/healthz")[0] == 200
            longest = max(longest, time.monotonic() - started)
            time.sleep(0.02)
    status, answer = posted.result()
    assert status == 413 and answer["error"].startswith("The request has more than 100,000 rows")
    assert longest < 1.5


# --- explanations, evaluations, groups ---


def test_an_explanation_has_text_numbers_training_samples_and_the_figure(server, plain, samples):
    status, answer = server.post("/v1/models/plain/explain", {"samples": samples[:3].tolist(), "row": 2})
    expected = plain.explain(samples[2:3])
    assert status == 200 and answer["row"] == 2 and answer["version"]
    check_same_text(answer["text"], expected.text)
    check_same(answer["decision"]["unknown_score"], plain.decide(samples[2:3]).unknown_score[0])
    weights = [(one["row"], one["label"]) for one in answer["training_samples"]]
    assert weights == [(atom.row, str(atom.label)) for atom in expected.atoms][: len(weights)]
    assert answer["figure"].lstrip().startswith("<?xml") or answer["figure"].startswith("<svg")
    status, headers, figure = server.request(
        "POST", "/v1/models/plain/explain?row=2", json.dumps({"samples": samples[:3].tolist()}),
        {"Content-Type": "application/json", "Accept": "image/svg+xml"},
    )  # fmt: skip
    assert status == 200 and headers["content-type"] == "image/svg+xml" and figure.decode() == answer["figure"]
    status, answer = server.post("/v1/models/plain/explain", {"samples": samples[:3].tolist(), "row": 7})
    assert status == 422 and "row 7" in answer["error"]


def test_an_evaluation_is_that_of_the_command(server, place, samples):
    X, y, unknown = make_samples(seed=3)
    table = pd.DataFrame(np.concatenate([X, unknown]), columns=NAMES).assign(kind=[*y, *["z"] * len(unknown)])
    table.to_csv(place / "test.csv", index=False)
    printed = json.loads(right("evaluate", place / "named.srosr", place / "test.csv", "--json"))
    body = (place / "test.csv").read_bytes()
    status, answer = server.post("/v1/models/named/evaluate", body=body, media_type="text/csv")
    assert status == 200
    check_same(answer["metrics"], printed["metrics"])
    assert str(place) not in json.dumps(answer)
    rows = table[NAMES].to_numpy().tolist()
    status, same = server.post("/v1/models/plain/evaluate", {"samples": rows, "labels": table["kind"].tolist()})
    assert status == 200 and same["samples"] == answer["samples"]
    status, error = server.post("/v1/models/plain/evaluate", {"samples": rows})
    assert status == 422 and error["error"] == "The request has no labels: give one for each sample."
    status, error = server.post("/v1/models/plain/evaluate", {"samples": rows, "labels": ["a"]})
    assert status == 422 and "has 1 labels, but 100 rows" in error["error"]


def test_rejected_samples_are_grouped_and_a_stream_shows_how_far_it_is(server):
    random = np.random.default_rng(0)
    group = np.concatenate([np.ones(3), [6.0, 1, 1]]) + 0.2 * random.normal(size=(30, 6))
    status, answer = server.post("/v1/models/plain/discover", {"samples": group.tolist()})
    assert status == 200 and answer["groups"] and answer["text"]
    lines = server.lines("/v1/models/plain/discover", {"samples": group.tolist()})
    assert lines[-1]["kind"] == "result"
    check_same(lines[-1]["groups"], answer["groups"])
    assert {line["stage"] for line in lines[:-1]} >= {"Deciding", "Grouping"}


# --- pictures ---


def test_pictures_are_decided_explained_and_named(server, place):
    pytest.importorskip("PIL.Image", reason="needs the extra images")
    content = (place / "shapes" / "bar" / "3.png").read_bytes()
    listed = next(one for one in server.get("/v1/models")[1]["models"] if one["name"] == "shapes")
    assert listed["takes"] == "pictures" and listed["picture_shape"] == [8, 8]
    status, answer = server.post("/v1/models/shapes/decide", body=content, media_type="image/png")
    assert status == 200 and answer["decisions"][0]["candidate"] == "bar", answer
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\n%s\r\n'
    form = part % (b"../a.png", content) + part % ("b\u00fc.png".encode(), content) + b"--x--\r\n"
    status, answer = server.post("/v1/models/shapes/decide", body=form, media_type="multipart/form-data; boundary=x")
    assert status == 200 and [row["file"] for row in answer["decisions"]] == ["a.png", "b\u00fc.png"]
    status, answer = server.post(
        "/v1/models/shapes/explain?row=1", body=form, media_type="multipart/form-data; boundary=x"
    )
    assert status == 200 and answer["sample_picture"].startswith("data:image/png;base64,")
    assert answer["training_samples"][0]["name"].startswith("bar/")
    broken = part % (b"no.png", content[:40]) + form
    status, answer = server.post("/v1/models/shapes/decide", body=broken, media_type="multipart/form-data; boundary=x")
    assert status == 422 and answer["error"].startswith("no.png")
    status, answer = server.post(
        "/v1/models/shapes/decide?skip_broken=true", body=broken, media_type="multipart/form-data; boundary=x"
    )
    assert status == 200 and answer["dropped"] == 1 and [row["row"] for row in answer["decisions"]] == [1, 2]
    status, answer = server.post("/v1/models/shapes/decide?header=false", body=content, media_type="image/png")
    assert status == 422 and answer["error"] == "header is for tables, and the request holds pictures: leave it out."
    status, answer = server.post("/v1/models/shapes/decide", {"samples": [[1, 2]]})
    assert status == 422 and answer["error"] == "The model was fitted to pictures: send pictures, not numbers."

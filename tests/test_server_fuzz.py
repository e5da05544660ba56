"""Random requests to every path of the server.

None may get a status 500, a traceback, a path of the machine, or an answer that the OpenAPI document does not announce.
"""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scale import examples
from server_attack_runs import FLOWER, make_form, share_attacked
from server_runs import server_required
from test_server_attacks import check_tells_nothing

server_required()
pytest.importorskip("PIL")

#: Requests that take samples, and those that change the model, which here is a model that nothing else uses.
READING = ("decide", "explain", "evaluate", "discover")
CHANGING = ("set-threshold", "add-class", "remove-class", "update", "recalibrate", "restore")


def tries(n: int) -> settings:
    """Return settings for about n examples; the server that they share does not change by them."""
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=examples(n), suppress_health_check=quiet)


@pytest.fixture(scope="module")
def server(request):
    return share_attacked(request)


@pytest.fixture(scope="module")
def document(server) -> dict:
    return json.loads(server.send("GET", "/openapi.json")[2])


@pytest.fixture(scope="module", autouse=True)
def log_without_traceback(server):
    yield
    assert "Traceback" not in server.log, server.log[-4000:]


def check_announced(document: dict, method: str, template: str, answer: tuple) -> None:
    """Check that an answer is one that the document announces, and tells nothing about the machine."""
    status, headers, body = answer
    assert status < 500 or status in (503, 504), (status, body[:500])
    check_tells_nothing(body)
    if method.lower() not in document["paths"].get(template, {}):
        assert status in (400, 403, 404, 405), (method, template, status)
        return
    announced = document["paths"][template][method.lower()]["responses"]
    assert str(status) in announced, f"{method} {template}: {status} is not announced: {body[:300]!r}"
    kind = headers.get("content-type", "").split(";")[0]
    assert kind in announced[str(status)].get("content", {}), f"{method} {template}: {status} with {kind}"
    if status >= 400:
        assert set(json.loads(body)) == {"error"} and json.loads(body)["error"].endswith((".", "?")), body


# -- strategies --------------------------------------------------------------------------------------------

numbers = st.one_of(
    st.floats(-10, 10),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, -0.0, 1e308, 5e-324, True, None, "1", "", [], {}]),
)
texts = st.one_of(
    st.text(max_size=20), st.sampled_from(["setosa", "../x", "a\0b", "\ud800", "=1+1", "<b>", "\r\nX: y"])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=10,
)
flowers = st.lists(st.floats(0, 8), min_size=4, max_size=4)
samples = st.one_of(
    st.just(FLOWER),
    st.lists(flowers, max_size=5),
    st.lists(st.lists(numbers, max_size=6), max_size=5),
    st.lists(
        st.dictionaries(st.sampled_from(["sepal_length", "petal_width", "x", ""]), numbers, max_size=5), max_size=3
    ),
    values,
)
classes = st.lists(st.sampled_from(["setosa", "versicolor", "virginica", "new"]), min_size=1, max_size=5)
choices = st.one_of(values, classes, st.sampled_from([0, 1, 0.5, True, False, "f", "risk", [0], "setosa", "new"]))


def draw_parameters(document: dict, action: str) -> st.SearchStrategy:
    """Return parameters of a request by the names that the document has for it, and one that it does not have."""
    schema = document["paths"][f"/v1/models/{{model}}/{action}"]["post"]["requestBody"]["content"]["application/json"]
    names = sorted(set(schema["schema"]["properties"]) - {"samples"})
    return st.dictionaries(st.sampled_from([*names * 5, "x"]), choices, max_size=3)


tables = st.one_of(
    st.binary(max_size=200),
    st.lists(st.lists(st.one_of(numbers.map(str), texts), max_size=6), max_size=5).map(
        lambda rows: "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")
    ),
    st.lists(flowers, min_size=1, max_size=5).map(
        lambda rows: "\n".join(
            ["sepal_length,sepal_width,petal_length,petal_width"] + [",".join(map(str, r)) for r in rows]
        ).encode()
    ),
)
MEDIA_TYPES = (
    "text/csv", "application/x-npy", "application/octet-stream", "application/vnd.apache.parquet", "image/png",
    "application/json", "multipart/form-data", "text/plain", "application/json;charset=utf-16", "x",
)  # fmt: skip
media_types = st.sampled_from(MEDIA_TYPES)
accepts = st.sampled_from(
    [None, "application/json", "text/csv", "application/x-ndjson", "image/svg+xml", "*/*", "x", "a/b;q=9"]
)


def to_text(value) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def encode(content) -> bytes:
    return json.dumps(content).encode("utf-8", "surrogatepass")


# -- requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", READING + CHANGING)
def test_json_of_any_shape_is_answered_as_announced(server, document, action):
    model = "fuzzed" if action in CHANGING else "flowers"

    @tries(120)
    @given(samples, draw_parameters(document, action), st.integers(0, 9), accepts, values)
    @example([FLOWER], {}, 1, None, None)
    def send(X, extra, kind, accept, anything):
        content = {"samples": X, **extra} if kind else anything
        headers = {"Content-Type": "application/json"} | ({"Accept": accept} if accept else {})
        answer = server.send("POST", f"/v1/models/{model}/{action}", encode(content), headers)
        check_announced(document, "POST", f"/v1/models/{{model}}/{action}", answer)

    send()


@pytest.mark.parametrize("action", ["decide", "evaluate", "update"])
def test_files_of_any_content_are_answered_as_announced(server, document, action):
    model = "fuzzed" if action in CHANGING else "flowers"

    @tries(100)
    @given(tables, media_types, draw_parameters(document, action), accepts)
    def send(body, kind, extra, accept):
        query = urlencode({name: to_text(value) for name, value in extra.items()}, errors="surrogatepass")
        headers = {"Content-Type": kind} | ({"Accept": accept} if accept else {})
        answer = server.send("POST", f"/v1/models/{model}/{action}?{query}", body, headers)
        check_announced(document, "POST", f"/v1/models/{{model}}/{action}", answer)

    send()


@tries(60)
@given(
    files=st.lists(st.tuples(st.text(max_size=20), tables), max_size=4), model=st.sampled_from(["flowers", "photos"])
)
def test_forms_of_any_content_are_answered_as_announced(server, document, files, model):
    named = [(name.encode("utf-8", "replace").decode(), body) for name, body in files]
    answer = server.send("POST", f"/v1/models/{model}/decide", *make_form(named))
    check_announced(document, "POST", "/v1/models/{model}/decide", answer)


PLACES = (
    "v1", "models", "flowers", "decide", "scores", "history", "monitor", "static", "index.html", "..", "%2e%2e", "%00",
    "metrics", "demo",
)  # fmt: skip


@tries(120)
@given(
    method=st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"]),
    parts=st.lists(
        st.one_of(
            st.sampled_from(PLACES),
            st.text("abz%./~", max_size=5),
        ),
        max_size=5,
    ),
)
def test_paths_of_any_form_are_answered(server, document, method, parts):
    status, _, body = server.send(method, "/" + "/".join(parts))
    assert status < 500, (status, body)
    check_tells_nothing(body)


HEADERS = (
    "Accept", "Content-Type", "Content-Encoding", "If-Match", "If-None-Match", "Range", "Authorization", "Origin",
    "Cookie", "Expect", "Connection",
)  # fmt: skip
printable = st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f")


@tries(100)
@given(headers=st.dictionaries(st.sampled_from(HEADERS), st.text(printable, max_size=30)))
def test_headers_of_any_content_are_answered(server, document, headers):
    headers = {name: value for name, value in headers.items() if not (name == "Expect" and "100" in value)}
    answer = server.send("POST", "/v1/models/flowers/decide", b'{"samples": [[5.1, 3.5, 1.4, 0.2]]}', headers)
    assert answer[0] < 500, answer
    check_tells_nothing(answer[2])


# -- by the document ---------------------------------------------------------------------------------------


def find_references(value) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*(find_references(inner) for inner in value.values()))
    return set().union(*(find_references(inner) for inner in value)) if isinstance(value, list) else set()


def test_the_document_is_whole_and_has_examples(document):
    assert document["openapi"].startswith("3.")
    for reference in find_references(document):
        place = document
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
    for action in READING + CHANGING:
        operation = document["paths"][f"/v1/models/{{model}}/{action}"]["post"]
        assert operation["summary"] and "200" in operation["responses"] and "422" in operation["responses"]
        content = operation["requestBody"]["content"]
        assert "application/json" in content
        assert re.search(r'"examples?"', json.dumps(operation)), action


def test_requests_made_from_the_document_are_answered_as_it_says(server, document):
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    # How many features a sample must have is not in the document: it depends on the model.
    excluded = [positive_data_acceptance]
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=f"http://{server.address}")
    checked = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @tries(40)
        @given(operation.as_strategy())
        def call(case):
            if "model" in (case.path_parameters or {}):
                changing = case.operation.path.rsplit("/", 1)[-1] in CHANGING
                case.path_parameters["model"] = "fuzzed" if changing else "flowers"
            case.call_and_validate(timeout=60, excluded_checks=excluded)

        call()
        checked += 1
    assert checked >= 18

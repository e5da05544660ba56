"""Random requests to every path of the server.

None may get a status 500, a traceback, a path of the machine, or an answer that the OpenAPI document does not announce.
"""

import json
import re
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scale import examples
from server_runs import check_error, check_tells_nothing, make_form, server_required, share_strict

server_required()
pytest.importorskip("PIL")

#: Requests that take samples, and those that change the model, which here is a model that nothing else uses.
READING = ("decide", "explain", "evaluate", "discover")
CHANGING = ("set-threshold", "add-class", "remove-class", "update", "recalibrate", "restore")
SAMPLE = [1, 2, 3, 4, 5, 6]


def tries(n):
    """Return settings for about n examples; the server that they share does not change by them."""
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=examples(n), suppress_health_check=quiet)


@pytest.fixture(scope="module")
def server(request):
    server = share_strict(request)
    yield server
    assert server.post("/v1/models/plain/explain", {"samples": SAMPLE})[0] == 200
    assert "Traceback" not in server.read_log(), server.read_log()[-4000:]


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json")[1]


def name_model(action):
    return "fuzzed" if action in CHANGING else "plain"


def check_announced(document, template, answer):
    """Check that an answer to POST is one that the document announces, and tells nothing about the machine."""
    status, headers, body = answer
    announced = document["paths"][template]["post"]["responses"]
    assert status < 500 or status in (503, 504), f"{template}: {status}: {body[:300]!r}"
    own = announced.get(str(status), announced.get(f"{status // 100}XX", {}))
    kind = headers.get("content-type", "").split(";")[0]
    assert kind in own.get("content", {}), f"{template}: {status} with {kind} is not announced: {body[:300]!r}"
    check_tells_nothing(body)
    assert status < 400 or check_error(answer, status)


numbers = st.one_of(
    st.floats(-10, 10),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, -0.0, 1e308, 5e-324, True, None, "1", "", [], {}]),
)
texts = st.one_of(st.text(max_size=20), st.sampled_from(["a", "../x", "a\0b", "\ud800", "=1+1", "<b>", "\r\nX: y"]))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=10,
)
rows = st.lists(st.floats(0, 8), min_size=6, max_size=6)
named = st.dictionaries(st.sampled_from(["f0", "f1", "x", ""]), numbers, max_size=5)
free = st.lists(numbers, max_size=8)
samples = st.one_of(st.just(SAMPLE), *(st.lists(row, max_size=5) for row in (rows, free, named)), values)
classes = st.lists(st.sampled_from(["a", "b", "c", "new"]), min_size=1, max_size=5)
choices = st.one_of(values, classes, st.sampled_from([0, 1, 0.5, True, False, "f", "risk", [0], "a", "new"]))
lines = st.lists(st.lists(st.one_of(numbers.map(str), texts), max_size=8).map(",".join), max_size=5)
numbered = st.lists(rows.map(lambda row: ",".join(map(str, row))), min_size=1, max_size=5)
tables = st.one_of(
    st.binary(max_size=200),
    lines.map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass")),
    numbered.map(lambda lines: "\n".join(["u,v,w,x,y,z", *lines]).encode()),
)
media_types = st.sampled_from([
    "text/csv", "application/x-npy", "application/x-npz", "application/octet-stream", "application/vnd.apache.parquet",
    "image/png", "application/json", "multipart/form-data", "text/plain", "application/json;charset=utf-16", "x",
])  # fmt: skip
accepts = st.sampled_from(["application/json", "text/csv", "image/svg+xml", "*/*", "x", "a/b;q=9"])
PLACES = "v1 models plain decide scores history monitor progress static index.html .. %2e%2e %00 metrics demo"
HEADERS = "Accept Content-Type Content-Encoding If-Match If-None-Match Range Authorization Origin Cookie Progress-Key"
printable = st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f")


def draw_parameters(document, action):
    """Return parameters of a request by the names that the document has for it, and one that it does not have."""
    schema = document["paths"][f"/v1/models/{{model}}/{action}"]["post"]["requestBody"]["content"]["application/json"]
    names = sorted(set(schema["schema"]["properties"]) - {"samples"})
    return st.dictionaries(st.sampled_from([*names * 5, "x"]), choices, max_size=3)


@pytest.mark.parametrize("action", READING + CHANGING)
def test_json_of_any_shape_is_answered_as_announced(server, document, action):
    @tries(120)
    @given(samples, draw_parameters(document, action), st.integers(0, 9), accepts, values)
    @example(SAMPLE, {}, 1, "*/*", None)
    def send(X, extra, kind, accept, anything):
        content = json.dumps({"samples": X, **extra} if kind else anything).encode("utf-8", "surrogatepass")
        headers = {"Content-Type": "application/json", "Accept": accept}
        answer = server.request("POST", f"/v1/models/{name_model(action)}/{action}", content, headers)
        check_announced(document, f"/v1/models/{{model}}/{action}", answer)

    send()


@pytest.mark.parametrize("action", ["decide", "evaluate", "update"])
def test_files_of_any_content_are_answered_as_announced(server, document, action):
    @tries(100)
    @given(tables, media_types, draw_parameters(document, action), accepts)
    def send(body, kind, extra, accept):
        given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in extra.items()}
        path = f"/v1/models/{name_model(action)}/{action}?{urlencode(given, errors='surrogatepass')}"
        answer = server.request("POST", path, body, {"Content-Type": kind, "Accept": accept})
        check_announced(document, f"/v1/models/{{model}}/{action}", answer)

    send()


@tries(60)
@given(st.lists(st.tuples(st.text(max_size=20), tables), max_size=4), st.sampled_from(["plain", "shapes"]))
def test_forms_of_any_content_are_answered_as_announced(server, document, files, model):
    form = make_form([(name.encode("utf-8", "replace").decode(), body) for name, body in files])
    answer = server.request("POST", f"/v1/models/{model}/decide", *form)
    check_announced(document, "/v1/models/{model}/decide", answer)


@tries(120)
@given(
    st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"]),
    st.lists(st.one_of(st.sampled_from(PLACES.split()), st.text("abz%./~", max_size=5)), max_size=5),
)
def test_paths_of_any_form_are_answered(server, method, parts):
    status, _, body = server.request(method, "/" + "/".join(parts))
    assert status < 500, (status, body)
    check_tells_nothing(body)


@tries(100)
@given(st.dictionaries(st.sampled_from(HEADERS.split()), st.text(printable, max_size=30)))
def test_headers_of_any_content_are_answered(server, headers):
    status, _, body = server.request("POST", "/v1/models/plain/decide", json.dumps({"samples": SAMPLE}), headers)
    assert status < 500, (status, body)
    check_tells_nothing(body)


def test_the_document_has_examples(document):
    for action in READING + CHANGING:
        operation = document["paths"][f"/v1/models/{{model}}/{action}"]["post"]
        assert operation["summary"] and {"200", "4XX"} <= set(operation["responses"])
        assert "application/json" in operation["requestBody"]["content"]
        assert re.search(r'"examples?"', json.dumps(operation)), action


def test_requests_made_from_the_document_are_answered_as_it_says(server, document):
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=server.address)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) >= 18
    for operation in operations:

        @tries(40)
        @given(operation.as_strategy())
        def call(case):
            if "model" in (case.path_parameters or {}):
                case.path_parameters["model"] = name_model(case.operation.path.rsplit("/", 1)[-1])
            # How many features a sample must have is not in the document: it depends on the model.
            case.call_and_validate(timeout=60, excluded_checks=[positive_data_acceptance])

        call()

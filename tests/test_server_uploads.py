"""Uploads: whatever bytes come, they are read as the command line would, or one sentence says why not."""

import asyncio
import io
import json
import os
import pickle
import re
import struct
import zipfile
import zlib
from copy import copy
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from same import check_same
from scale import examples
from server_runs import make_form, server_required

server_required()

from fastapi import Request  # noqa: E402
from jobs_for_children import PoolInThread  # noqa: E402
from pandas import DataFrame  # noqa: E402

import srosr  # noqa: E402
from srosr.operations.input_errors import InputError  # noqa: E402
from srosr.operations.model_input import open_for_model  # noqa: E402
from srosr.server import request_samples, schemas  # noqa: E402
from srosr.server.request_samples import clean_name, find_format, parse_samples  # noqa: E402
from srosr.server.samples import Expected, Reading, Samples, get_words  # noqa: E402
from srosr.server.schemas import ApiError  # noqa: E402
from srosr.server.settings import Limits, ServerSettings  # noqa: E402
from srosr.server.uploads import read_samples  # noqa: E402
from srosr.tables.feature_recipe import FeatureRecipe  # noqa: E402
from srosr.tables.formats import open_rows  # noqa: E402
from srosr.tables.imputation import Imputer  # noqa: E402
from srosr.tables.json_rows import JsonRows, convert_texts  # noqa: E402
from srosr.tables.read_options import ReadOptions  # noqa: E402
from srosr.tables.row_source import ReadError  # noqa: E402

LIMITS = Limits(rows=50, columns=40, pixels=40_000, files=5)
WIDE = Limits(rows=100_000, columns=100_000)
_RNG = np.random.default_rng(0)
_FUZZED = settings(max_examples=examples(600), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("private-folder-of-the-server")


@pytest.fixture(scope="module")
def reader(folder):
    with PoolInThread("reader", 1, folder, memory=10**9) as pool:
        yield pool


@pytest.fixture(scope="module")
def small_reader(folder):
    with PoolInThread("reader", 1, folder, memory=100 * 10**6) as pool:
        yield pool


def fit(X, recipe):
    """Return a model of two classes with a recipe."""
    X = X + 0.0
    X[len(X) // 2 :] *= 0.2
    columns = list("abc") if recipe.kind == "table" else None
    samples = X if columns is None else DataFrame(X, columns=columns)
    clf = srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(samples, np.repeat(["p", "q"], len(X) // 2))
    clf.feature_recipe_ = recipe
    return clf


@pytest.fixture(scope="module")
def table_model():
    """Three named features, the column of the classes is called kind."""
    return fit(_RNG.uniform(1, 2, (40, 3)), FeatureRecipe("table", label="kind", ignored=("id",)))


@pytest.fixture(scope="module")
def picture_model():
    names, small = np.array([f"{i}.png" for i in range(24)]), np.zeros((24, 64, 64), np.uint8)
    recipe = FeatureRecipe("pixels", shape=(8, 8), names=names, thumbnails=small)
    return fit(_RNG.uniform(size=(24, 64)), recipe)


def check_sentence(message):
    assert "private-folder" not in message and "upload-" not in message and "/tmp" not in message
    assert "Traceback" not in message and "\n" not in message and message.endswith((".", "?"))


class Upload:
    """Reads content where the server does; checks what errors say."""

    def __init__(self, reader, folder):
        self.reader, self.folder = reader, folder

    def read(self, clf, *contents, format="csv", names=("new.csv",), limits=LIMITS, kind="Decide", beside=None, **given):
        files = []
        for number, content in enumerate(contents):
            path = self.folder / f"upload-{number}.{format}"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            files.append(str(path))
        reading = Reading(f"{kind}Parameters", given, format, files, list(names), beside or {})
        expected, words = Expected.of(clf, limits), get_words(clf)
        if format == "npy":  # read in the server itself
            return read_samples(reading, expected, words, lambda *_: None)[1]
        header = {"reading": asdict(reading), "expected": asdict(expected)}
        found, arrays = self.reader.run("read", header, words, most=2 * limits.body)
        return Samples.unpack(found["samples"], arrays)

    def fail(self, clf, *contents, status=422, **given):
        """Read what must be refused; return the sentence."""
        with pytest.raises((ApiError, InputError)) as caught:
            self.read(clf, *contents, **given)
        message = caught.value.message
        assert getattr(caught.value, "status", 422) == status, message
        check_sentence(message)
        return message


@pytest.fixture
def upload(reader, folder):
    return Upload(reader, folder)


# -- tables -------------------------------------------------------------------------------------------------


def make_parquet(**columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def make_npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def make_npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


ROWS = "a,b,c,kind\n1,2,3,p\n4,5,6,q\n7,8,9,p\n"
NUMBERS = np.arange(1.0, 10.0).reshape(3, 3)
_BODY = {"samples": NUMBERS.tolist(), "labels": ["p", "q", "p"]}
VALID = {
    "csv": ROWS.encode(),
    "npy": make_npy(NUMBERS),
    "npz": make_npz(X=NUMBERS, y=np.array(["p", "q", "p"])),
    "parquet": make_parquet(a=NUMBERS[:, 0], b=NUMBERS[:, 1], c=NUMBERS[:, 2], kind=["p", "q", "p"]),
    "json": json.dumps(_BODY).encode(),
}


@pytest.mark.parametrize("format", list(VALID))
def test_tables_are_read_as_by_the_command_line(upload, table_model, tmp_path, format):
    has_labels, path = format != "npy", tmp_path / f"new.{format}"
    found = upload.read(table_model, VALID[format], format=format, kind="Evaluate" if has_labels else "Decide")
    path.write_bytes(VALID[format])
    if format == "json":
        path = tmp_path / "new.csv"
        path.write_bytes(VALID["csv"])
    rows = open_for_model(table_model, str(path), ReadOptions(), labels="required" if has_labels else "no").read()
    assert np.array_equal(found.X, rows.X) and found.X.dtype == np.float64
    assert found.numbers.tolist() == rows.numbers.tolist() == [0, 1, 2]
    assert found.labels == (rows.labels.tolist() if has_labels else None)
    assert (found.dropped, found.seen) == (0, 3)


def test_options_of_the_command_line_count(upload, table_model):
    assert upload.read(table_model, "c,x,b,a\n3,0,2,1\n", by_name=True).X.tolist() == [[1, 2, 3]]
    assert upload.read(table_model, "3,4,5\n", header=False).X.tolist() == [[3, 4, 5]]
    assert upload.read(table_model, "a,z,b,c\n3,-,4,5\n", ignore=["z"]).X.tolist() == [[3, 4, 5]]
    npz = make_npz(X=NUMBERS[:1], Z=NUMBERS)
    assert len(upload.read(table_model, npz, format="npz", array="Z").X) == 3
    found = upload.read(table_model, "a,b,c\n1,,3\n4,5,6\n", drop_missing=True)
    assert (found.numbers.tolist(), found.dropped, found.seen) == ([1], 1, 2)
    found = upload.read(table_model, "a,b,c,w\n1,2,3,p\n", kind="Evaluate", label="w")
    assert found.labels == ["p"] and found.label == "w"
    found = upload.read(table_model, ROWS, rows=[2, 0, 2])
    assert found.numbers.tolist() == [2, 0] and found.X[:, 0].tolist() == [7, 1] and found.seen == 3
    notes = upload.read(table_model, ",a,b,c\n0,1,2,3\n").notes
    assert notes == ["The first column has no name and is taken for a row index."]


@pytest.mark.parametrize(
    ("content", "given", "words"),
    [
        ("a,b,c\n1,2,3\n4,,6\n7,,9\n", {}, "new.csv has no value in line 3, column 'b' (in all 2 values are missing"),
        ("a,b,x\n1,2,3\n", {}, "'c'"),
        ("a,b,c\n1,2,3\n", {"kind": "Evaluate"}, "labels are with --label"),
        (ROWS, {"rows": [7]}, "new.csv has no row 7"),
        (ROWS, {"rows": []}, "rows is empty"),
        (ROWS, {"kind": "Evaluate", "beside": {"labels": '["p"]'}}, "the request has 1 labels, but 3 rows"),
        (ROWS, {"kind": "Evaluate", "beside": {"labels": '["p", null, 3]'}}, "the request has no label for row 1"),
        (ROWS, {"kind": "Evaluate", "beside": {"labels": "{}"}}, "one of the labels for each sample"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(upload, table_model, content, given, words):
    assert words in upload.fail(table_model, content, **given)


def test_labels_and_groups_may_come_beside_a_file(upload, table_model):
    beside = {"labels": '["p", 2, 3.0]', "groups": '["mo", "mo", "tu"]'}
    found = upload.read(table_model, VALID["npz"], format="npz", kind="Update", beside=beside, rows=[1, 2])
    assert found.labels == ["2", "3"] and found.groups == ["mo", "tu"]
    upload.fail(table_model, ROWS, status=400, kind="Update", beside={"labels": "["})


def test_of_a_request_about_one_row_only_that_row_comes_back(upload, table_model):
    content = "a,b,c\n1,,3\n4,5,6\n7,8,9\n"
    found = upload.read(table_model, content, kind="Explain", row=1)  # a missing value elsewhere does not matter
    assert found.numbers.tolist() == [1] and found.X.tolist() == [[4, 5, 6]] and found.seen == 3
    for row in (0, 7):
        assert len(upload.read(table_model, content, kind="Explain", row=row).X) == 0
    assert upload.read(table_model, VALID["npy"], format="npy", kind="Explain", row=2).X.tolist() == [[7, 8, 9]]


def test_gaps_are_left_to_a_model_that_imputes(upload, table_model):
    clf = copy(table_model)
    clf.feature_recipe_ = FeatureRecipe("table", label="kind", imputer=Imputer.fit("median", [[1, np.nan, 2], [3, 4, 5]]))
    found = upload.read(clf, "a,b,c\n1,,3\n4,5,6\n")
    assert np.isnan(found.X).tolist() == [[False, True, False], [False] * 3]
    assert "no value at all" in upload.fail(clf, "a,b,c\n,,\n")


def test_groups_are_those_of_the_model(upload, table_model):
    clf = copy(table_model)
    clf.feature_recipe_ = FeatureRecipe("table", label="kind", group="day")
    grouped, ungrouped = "a,b,c,kind,day\n1,2,3,p,mo\n", "a,b,c,kind\n1,2,3,p\n"
    assert upload.read(clf, grouped, kind="Update").groups == ["mo"]
    assert upload.read(clf, grouped).groups is None and upload.read(clf, ungrouped, kind="Recalibrate").groups is None
    message = upload.fail(clf, ungrouped, kind="Update")
    assert message == "new.csv has no column 'day' of groups, and the model was fitted with groups: add the column."


# -- rows in JSON -------------------------------------------------------------------------------------------

NAMED = ReadOptions(labels="no", features=["a", "b", "c"], ignore_if_present=["kind"])


def read_rows(samples, labels=None, options=NAMED):
    return JsonRows("the request", samples, labels, options).read()


def test_rows_in_json_are_lists_or_named_columns_in_any_order():
    value = [{"c": 3, "kind": "p", "a": 1, "b": 2.5}, {"kind": None, "b": 5, "a": 4, "c": 6}]
    before = json.dumps(value)
    assert read_rows(value).X.tolist() == [[1, 2.5, 3], [4, 5, 6]] and json.dumps(value) == before
    assert read_rows([1, 2, 3]).X.tolist() == read_rows([[1, 2, 3]], options=ReadOptions(features=3)).X.tolist()
    assert read_rows([[1, 2, 3], [4, 5, 6]], ["x", 2.0]).labels.tolist() == ["x", "2"]


@given(st.lists(st.lists(st.none() | st.floats(-1e9, 1e9), min_size=3, max_size=3), min_size=1), st.permutations("abc"))
def test_rows_in_json_are_those_of_the_same_table_in_csv(rows, order):
    options = ReadOptions(labels="no", features=["a", "b", "c"], impute=True)
    text = "a,b,c\n" + "".join(",".join("" if x is None else repr(x) for x in row) + "\n" for row in rows)
    named = [dict(sorted(zip("abc", row, strict=True), key=lambda pair: order.index(pair[0]))) for row in rows]
    found = []
    for read in (open_rows("-", options, stdin=io.BytesIO(text.encode())).read, lambda: read_rows(named, None, options).read()):
        try:
            found.append(read())
        except ReadError as error:
            assert "no value at all" in str(error)
    assert len(found) != 1
    if found:
        np.testing.assert_array_equal(found[0].X, found[1].X)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (3, "must have a list of at least one sample"),
        ([], "must have a list of at least one sample"),
        ([[1, 2, 3], 4], "row 1 is not a list"),
        ([[1, 2, 3], [1, 2]], "has 2 features in row 1, but the model was fitted with 3"),
        ([[1, "x", 3]], "has 'x' in row 0, column 'b', which is not a number"),
        ([[1, 2, True]], "has true or false in row 0, column 'c'"),
        ([[1, 2, [3]]], "has a list in row 0, column 'c'"),
        ([[1, 2, 10**400]], "has a whole number that is too large"),
        ([[1, 2, 3], [4, None, 6]], "has no value in row 1, column 'b'"),
        ([{"a": 1, "b": 2}], "'c'"),
        ([{"a": 1, "b": 2, "c": 3, "d": 4}], "'d'"),
        ([{"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}], "does not have the columns of row 0 in row 1"),
        ([{"a": 1, "b": 2, "c": 3}, [1, 2, 3]], "does not have the columns of row 0 in row 1"),
    ],
)
def test_rows_in_json_that_are_wrong_are_named(samples, words):
    with pytest.raises(ReadError, match=r"^the request .*\.$") as caught:
        read_rows(samples)
    assert words in str(caught.value)


@pytest.mark.parametrize("values", ["ab", {"a": 1}, [[1]], [True]])
def test_labels_in_json_are_texts_or_numbers(values):
    with pytest.raises(ReadError, match="the labels for each sample|another kind in row 0"):
        convert_texts("the request", values, "labels")


# -- pictures -----------------------------------------------------------------------------------------------


def make_picture(shape=(20, 30), kind="PNG"):
    Image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    Image.fromarray(_RNG.integers(0, 256, shape, dtype=np.uint8)).save(stream, kind)
    return stream.getvalue()


def write_pictures(folder, contents):
    """Write pictures into files of any names; return their paths."""
    for number, content in enumerate(contents):
        (folder / f"{number}.png").write_bytes(content)
    return [folder / f"{number}.png" for number in range(len(contents))]


def test_pictures_become_features_whatever_they_are_called(upload, picture_model, tmp_path):
    contents = [make_picture(kind=kind) for kind in ("PNG", "JPEG", "BMP", "TIFF")]
    names = ["a.csv", "b", "c.exe", "d.png"]
    found = upload.read(picture_model, *contents, format="pictures", names=names)
    check_same(found.X, picture_model.feature_recipe_.compute_features(write_pictures(tmp_path, contents)))
    assert found.files == names and found.thumbnails.shape == (4, 64, 64) and found.thumbnails.dtype == np.uint8


@pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")
def test_pyramids_are_computed_by_the_words_of_the_model(upload, tmp_path):
    contents = [make_picture((40, 50)) for _ in range(6)]
    pyramid = srosr.SpatialPyramid(n_words=4, levels=2, random_state=0).fit(write_pictures(tmp_path, contents))
    X = pyramid.transform(write_pictures(tmp_path, contents))
    names, small = np.array(list("abcdef")), np.zeros((6, 64, 64), np.uint8)
    clf = fit(X, FeatureRecipe("pyramid", pyramid=pyramid, names=names, thumbnails=small))
    check_same(upload.read(clf, *contents[:3], format="pictures", names=["x"] * 3).X, X[:3])


def test_broken_pictures_are_named_or_left_out(upload, picture_model):
    pictures, names = {"format": "pictures", "names": ["good.png", "broken.png"]}, ["broken.png", "good.png"]
    good, broken = make_picture(), make_picture()[:60]
    assert upload.fail(picture_model, good, broken, **pictures).startswith("broken.png cannot be read as a picture")
    found = upload.read(picture_model, broken, good, **pictures | {"names": names}, skip_broken=True)
    assert (found.numbers.tolist(), found.dropped, found.files) == ([1], 1, ["good.png"])
    assert "empty" in upload.fail(picture_model, b"", format="pictures", names=["a.png"])


def test_formats_that_run_programs_are_not_decoded(upload, picture_model):
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    assert "its format is unknown" in upload.fail(picture_model, postscript, format="pictures", names=["a.png"])


def test_what_a_model_does_not_take_is_said(upload, table_model, picture_model):
    message = upload.fail(table_model, make_picture(), format="pictures", names=["a.png"])
    assert message == "a.png holds pictures, but the model was fitted to a table of 3 features."
    message = upload.fail(picture_model, ROWS)
    assert message.startswith("new.csv is not a folder of pictures, and the model was fitted to pictures")
    assert "send pictures, not numbers" in upload.fail(picture_model, VALID["json"], format="json", kind="Evaluate")


# -- limits -------------------------------------------------------------------------------------------------

_LINES = "a,b,c\n" + 51 * "1,2,3\n"
TOO_MANY = {
    "csv": _LINES,
    "npy": make_npy(np.zeros((51, 3))),
    "npz": make_npz(X=np.zeros((51, 3))),
    "parquet": make_parquet(**{name: np.zeros(51) for name in "abc"}),
    "json": json.dumps({"samples": [[1, 2, 3]] * 51}),
}


@pytest.mark.parametrize("format", list(TOO_MANY))
def test_rows_are_limited(upload, table_model, format):
    message = upload.fail(table_model, TOO_MANY[format], format=format, status=413)
    assert message.lower().endswith(" has more than 50 rows: send fewer at a time.")


def test_rows_are_counted_and_not_lines(upload, table_model):
    assert len(upload.read(table_model, _LINES[:-6] + "\n" * 100).X) == 50
    assert len(upload.read(table_model, "a,b,c,kind\n" + 30 * '1,2,3,"p\n\nq"\n').X) == 30
    upload.fail(table_model, _LINES.replace("\n", "\r"), status=413)


def test_columns_and_pixels_are_limited(upload, table_model, picture_model):
    wide = ",".join(f"c{i}" for i in range(41)) + "\n" + ",".join(["1"] * 41) + "\n"
    assert upload.fail(table_model, wide, status=413).startswith("new.csv has more than 40 columns")
    message = upload.fail(picture_model, make_picture((201, 200)), format="pictures", names=["a.png"], status=413)
    assert message.startswith("a.png has more than the 40,000 pixels that are allowed")


def make_png_bomb(side):
    """Return a PNG file that says it has so many pixels on each side."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    lines = zlib.compress(bytes(side + 1) * 2000, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


def make_giant_header(shape):
    said = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(said)) + said


def make_zip_bomb():
    """Return an npz file whose array unpacks from little to 0.3 GB, and says it has 3 GB."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("X.npy", make_giant_header((100_000, 3750)) + bytes(3 * 10**8))
    return stream.getvalue()


BOMBS = {
    **{f"npy of {shape}": ("npy", lambda shape=shape: make_giant_header(shape) + bytes(64), 422)
       for shape in ((10**9, 3), (10**15, 3), (2**62, 2**62), (0, 3))},
    "zip": ("npz", make_zip_bomb, 422),
    "parquet": ("parquet", lambda: make_parquet(**{name: np.zeros(3_000_000) for name in "abc"}), 413),
    "gzip": ("csv", lambda: b"\x1f\x8b" + zlib.compress(b"a,b,c\n" + b"1,2,3\n" * 10**6), 422),
    "wide": ("csv", lambda: b"," * 5_000_000 + b"\n1\n", 413),
    "quoted": ("csv", lambda: b'a,b,c\n"' + b"x" * 5_000_000, 422),
    "deep JSON": ("json", lambda: b'{"samples": ' + b"[" * 1_000_000, 400),
    "png": ("pictures", lambda: make_png_bomb(60_000), 413),
}  # fmt: skip


@pytest.mark.parametrize("bomb", list(BOMBS))
def test_bombs_are_refused(upload, table_model, picture_model, bomb):
    format, make, status = BOMBS[bomb]
    content = make()
    assert len(content) < 6_000_000
    clf, pid = picture_model if format == "pictures" else table_model, upload.reader.pool.pids
    upload.fail(clf, content, format=format, limits=WIDE, status=status)
    assert upload.reader.pool.pids == pid


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("format", ["npy", "npz"])
def test_arrays_that_run_programs_are_not_loaded(upload, table_model, tmp_path, format):
    make = make_npy if format == "npy" else lambda array: make_npz(X=array)
    content = make(np.array([[Evil(tmp_path / "made")] * 3], dtype=object))
    upload.fail(table_model, content, format=format)
    assert not (tmp_path / "made").exists()
    with pytest.raises(OSError):  # it would work: both objects make the folder
        np.load(io.BytesIO(make_npy(np.array([Evil(tmp_path / "made")] * 2))), allow_pickle=True)
    upload.fail(table_model, pickle.dumps(Evil(tmp_path / "made too")), format=format)
    assert not (tmp_path / "made too").exists()


def test_what_does_not_fit_into_the_memory_is_refused(small_reader, folder, table_model):
    upload, limits = Upload(small_reader, folder), Limits(rows=10**9)
    large = make_npz(X=np.zeros((6 * 10**6, 3)))
    message = upload.fail(table_model, large, format="npz", limits=limits, status=413)
    assert message == "new.csv does not fit into the memory allowed for it: send fewer samples at a time."
    with pytest.raises(ApiError) as caught:
        upload.read(table_model, b'{"samples": [' + b"[]," * 4_000_000 + b"[]]}", format="json", limits=limits)
    assert caught.value.status in (413, 503)
    assert len(upload.read(table_model, ROWS).X) == 3


# -- requests -----------------------------------------------------------------------------------------------


def send(reader, clf, body, media_type, folder, kind="Decide", query=""):
    """Read a request as the server does; return its parameters and samples."""
    head = [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": head, "query_string": query.encode()}

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    service = SimpleNamespace(folder=folder, settings=ServerSettings(limits=LIMITS), readers=reader.pool)
    model = SimpleNamespace(clf=clf, expected=Expected.of(clf, LIMITS))
    parameters = getattr(schemas, f"{kind}Parameters")
    return reader.wait(parse_samples(service, Request(scope, receive), parameters, model, lambda said: None))


@pytest.mark.parametrize("format", [*VALID, "form"])
def test_a_request_is_read_whatever_it_is_sent_as_and_leaves_no_file(reader, table_model, tmp_path, format):
    types = {name: media_type for media_type, name in schemas.FILE_TYPES.items()} | {"json": schemas.JSON}
    body, media_type = VALID.get(format), types.get(format)
    if format == "form":
        body, headers = make_form([("new.parquet", VALID["parquet"])], by_name="true", labels='["x", "y", "z"]')
        media_type = headers["Content-Type"]
    kind = "Decide" if format == "npy" else "Evaluate"
    parameters, samples = send(reader, table_model, body, media_type, tmp_path, kind, "rows=0&rows=2")
    assert parameters.rows == [0, 2] and parameters.by_name == (format == "form")
    assert samples.X.tolist() == [[1, 2, 3], [7, 8, 9]] and list(tmp_path.iterdir()) == []
    assert samples.labels == {"npy": None, "form": ["x", "z"]}.get(format, ["p", "p"])


@pytest.mark.parametrize(
    ("files", "status", "words"),
    [
        ([("a.csv", b"")] * 6, 413, "more than 5 files"),
        ([("a.csv", ROWS.encode())] * 2, 422, "send one table, or pictures only"),
        ([], 422, "has no files"),
        ([("../../etc/passwd", b"a\n1\n")], 422, "passwd"),
    ],
)
def test_forms_that_are_wrong_are_refused_and_leave_no_file(reader, table_model, tmp_path, files, status, words):
    body, headers = make_form(files)
    with pytest.raises((ApiError, InputError), match=words) as caught:
        send(reader, table_model, body, headers["Content-Type"], tmp_path)
    assert getattr(caught.value, "status", 422) == status and list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_is_an_error_of_the_server(reader, table_model, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device", "a private path")

    monkeypatch.setattr(request_samples, "_write_files", refuse)
    body, headers = make_form([("a.csv", b"a\n1\n")])
    for folder, reason in ((tmp_path, "No space left on device"), (tmp_path / "removed", "No such file or directory")):
        with pytest.raises(ApiError, match=rf"^The server cannot store the upload: {reason}\.$") as caught:
            send(reader, table_model, body, headers["Content-Type"], folder)
        assert caught.value.status == 503 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("start", "name", "media_type", "format"),
    [
        (make_npy(NUMBERS), "a.csv", "text/csv", "npy"),
        (VALID["npz"], "", "", "npz"),
        (VALID["parquet"], "a.png", "image/png", "parquet"),
        (b"\x89PNG\r\n", "a.csv", "text/csv", "pictures"),
        (b"BM", "a.bmp", "", "pictures"),
        (b"II*\x00", "a", "image/tiff", "pictures"),
        (b"a,b\n", "a.exe", "application/x-exe", "csv"),
        (b"", "", "", "csv"),
    ],
)
def test_the_first_bytes_say_what_a_file_is_then_its_sender(tmp_path, start, name, media_type, format):
    (tmp_path / "0").write_bytes(start)
    assert find_format(tmp_path / "0", name, media_type) == format


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"), ("C:\\data\\new.csv", "new.csv"), ("/", "upload"), ("", "upload"),
        (None, "upload"), ("a\nb\x00\x1b[31m", r"a\nb\x00\x1b[31m"), ("x" * 300, "x" * 99 + "…"),
        ("\udc80.csv", r"\udc80.csv"), ("<script>", "<script>"),
    ],
)  # fmt: skip
def test_names_of_files_are_cleaned(name, shown):
    assert clean_name(name) == shown


# -- any bytes ----------------------------------------------------------------------------------------------


@st.composite
def damaged(draw, content):
    """Return content with bytes changed, cut, or repeated; or random bytes with a valid start."""
    data = bytearray(content)
    if draw(st.booleans()):
        start = draw(st.integers(0, min(len(data), 16)))
        return bytes(data[:start]) + draw(st.binary(max_size=200))
    for _ in range(draw(st.integers(1, 6))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    place = draw(st.integers(0, len(data)))
    return bytes(data[:place]) + draw(st.sampled_from([b"", bytes(data[place:]), bytes(data)]))


def read_or_refuse(upload, clf, content, **given):
    """Read what may be anything; an error must be a sentence, and no process may crash."""
    try:
        assert upload.read(clf, content, **given).X.shape[1] == clf.n_features_in_
    except (ApiError, InputError) as error:
        check_sentence(error.message)
        assert getattr(error, "status", 422) in (400, 413, 422), error.message  # a crash would be 503
        assert given["format"] == "json" or re.match(r"(new\.csv|a\.png)\b", error.message), error.message


@pytest.mark.parametrize("format", list(VALID))
@_FUZZED
@given(st.data())
def test_any_bytes_are_read_or_refused(upload, table_model, format, data):
    options = data.draw(st.sampled_from([{}, {"drop_missing": True}, {"header": False}, {"by_name": True}]))
    kind = data.draw(st.sampled_from(["Decide", "Explain", "Evaluate", "Recalibrate"]))
    read_or_refuse(upload, table_model, data.draw(damaged(VALID[format])), format=format, kind=kind, **options)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "PPM", "BMP"])
@_FUZZED
@given(st.data())
def test_any_picture_is_read_or_refused(upload, picture_model, kind, data):
    content = data.draw(damaged(make_picture((9, 7), kind)))
    read_or_refuse(upload, picture_model, content, format="pictures", names=["a.png"])

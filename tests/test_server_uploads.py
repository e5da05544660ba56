"""Uploads: whatever bytes come, they are read as the command line would, or one sentence says why not."""

import io
import json
import re
from copy import copy
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jobs_for_children import list_pids, open_pool
from pandas import DataFrame
from same import check_same
from scale import examples

import srosr
from srosr.operations.input_errors import InputError
from srosr.operations.model_input import open_for_model
from srosr.server.request_samples import clean_name, find_format
from srosr.server.samples import Expected, Reading, Samples, get_words
from srosr.server.schemas import ApiError
from srosr.server.settings import Limits
from srosr.server.uploads import read_samples
from srosr.tables.feature_recipe import FeatureRecipe
from srosr.tables.formats import open_rows
from srosr.tables.imputation import Imputer
from srosr.tables.json_rows import JsonRows
from srosr.tables.read_options import ReadOptions
from srosr.tables.row_source import ReadError


def fit(X, recipe, columns=None):
    X = np.concatenate([X, 0.2 * X])
    clf = srosr.SROSRClassifier(n_repeats=2, random_state=0)
    clf.fit(X if columns is None else DataFrame(X, columns=columns), np.repeat(["p", "q"], len(X) // 2))
    clf.feature_recipe_ = recipe
    return clf


@pytest.fixture(scope="module")
def table():
    """Three named features; the column of the classes is called kind."""
    return fit(np.random.default_rng(0).uniform(1, 2, (20, 3)), FeatureRecipe("table", label="kind"), ["a", "b", "c"])


@pytest.fixture(scope="module")
def pictures():
    names, small = np.array([f"{i}.png" for i in range(24)]), np.zeros((24, 64, 64), np.uint8)
    recipe = FeatureRecipe("pixels", shape=(8, 8), names=names, thumbnails=small)
    return fit(np.random.default_rng(0).uniform(size=(12, 64)), recipe)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Return what reads contents where the server does: it returns samples, or status and sentence of an error."""
    folder, limits = tmp_path_factory.mktemp("private-folder"), Limits(rows=50, pixels=40_000)

    def read(clf, *contents, format="csv", names=("new.csv",), kind="Decide", beside=None, **given):
        paths = [folder / f"upload-{number}.{format}" for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        reading = Reading(f"{kind}Parameters", given, format, list(map(str, paths)), list(names), beside or {})
        expected, words = Expected.of(clf, limits), get_words(clf)
        try:
            if format == "npy":  # read in the server itself
                return read_samples(reading, expected, words, lambda *_: None)[1]
            header = {"reading": asdict(reading), "expected": asdict(expected)}
            found, arrays = pool.run("read", header, words, most=10**8)
            return Samples.unpack(found["samples"], arrays)
        except (ApiError, InputError) as error:
            for secret in ("private-folder", "upload-", "/tmp", "Traceback", "\n"):
                assert secret not in error.message
            assert error.message.endswith((".", "?"))
            return getattr(error, "status", 422), error.message

    with open_pool("reader", 1, folder, memory=10**9) as pool:
        read.get_pids = lambda: list_pids(pool.pool)
        yield read


def write(function, *arguments, **named):
    """Return what a function writes into a stream."""
    function(stream := io.BytesIO(), *arguments, **named)
    return stream.getvalue()


ROWS, KINDS = "a,b,c,kind\n1,1,1,p\n1,1,1,q\n1,1,1,p\n", ["p", "q", "p"]
VALID = {
    "csv": ROWS.encode(),
    "npy": write(np.save, np.ones((3, 3))),
    "npz": write(np.savez_compressed, X=np.ones((3, 3)), y=np.array(KINDS)),
    "parquet": write(lambda file: pq.write_table(pa.table(dict.fromkeys("abc", np.ones(3)) | {"kind": KINDS}), file)),
    "json": json.dumps({"samples": [[1, 1, 1]] * 3, "labels": KINDS}).encode(),
}


@pytest.mark.parametrize("format", list(VALID))
def test_tables_are_read_as_by_the_command_line(read, table, tmp_path, format):
    labels, same = "no" if format == "npy" else "required", format if format != "json" else "csv"
    (tmp_path / f"new.{same}").write_bytes(VALID[same])
    expected = open_for_model(table, str(tmp_path / f"new.{same}"), ReadOptions(), labels=labels).read()
    found = read(table, VALID[format], format=format, kind="Decide" if labels == "no" else "Evaluate")
    assert np.array_equal(found.X, expected.X) and np.array_equal(found.numbers, expected.numbers)
    assert found.labels == (None if labels == "no" else expected.labels.tolist()) and found.seen == 3


GAP = "a,b,c\n1,,3\n4,5,6\n"


@pytest.mark.parametrize(("content", "given", "found"), [
    ("c,x,b,a\n3,0,2,1\n", {"by_name": True}, {"X": [[1, 2, 3]]}),
    ("3,4,5\n", {"header": False}, {"X": [[3, 4, 5]]}),
    ("a,z,b,c\n3,-,4,5\n", {"ignore": ["z"]}, {"X": [[3, 4, 5]]}),
    (write(np.savez, X=np.ones((1, 3)), Z=np.ones((2, 3))), {"format": "npz", "array": "Z"}, {"X": [[1] * 3] * 2}),
    (GAP, {"drop_missing": True}, {"numbers": [1], "dropped": 1, "seen": 2}),
    ("a,b,c,w\n1,2,3,p\n", {"kind": "Evaluate", "label": "w"}, {"labels": ["p"], "label": "w"}),
    (ROWS, {"kind": "Evaluate", "rows": [2, 1, 2]}, {"numbers": [2, 1], "labels": ["p", "q"], "seen": 3}),
    (ROWS, {"kind": "Update", "beside": {"labels": '["x", 2, 3.0]', "groups": '["m", "m", "t"]'}, "rows": [0, 2]},
     {"labels": ["x", "3"], "groups": ["m", "t"]}),
    (",a,b,c\n0,1,2,3\n", {}, {"notes": ["The first column has no name and is taken for a row index."]}),
    # Of a request about one row only that comes back, and missing values of the others do not matter.
    (GAP, {"kind": "Explain", "row": 1}, {"numbers": [1], "X": [[4, 5, 6]], "seen": 2}),
    (GAP, {"kind": "Explain", "row": 0}, {"numbers": [], "seen": 2}),
    (VALID["npy"], {"format": "npy", "kind": "Explain", "row": 7}, {"numbers": [], "seen": 3}),
    # Rows are counted and not lines.
    ("a,b,c\n" + 50 * "1,2,3\n" + "\n" * 100, {}, {"seen": 50}),
    ("a,b,c,kind\n" + 30 * '1,2,3,"p\n\nq"\n', {}, {"seen": 30}),
])  # fmt: skip
def test_options_of_the_command_line_count(read, table, content, given, found):
    samples = read(table, content, **given)
    assert {name: np.array(getattr(samples, name), dtype=object).tolist() for name in found} == found


@pytest.mark.parametrize(("content", "given", "status", "words"), [
    ("a,b,c\n1,2,3\n4,,6\n7,,9\n", {}, 422, "new.csv has no value in line 3, column 'b' (in all 2 values are missing"),
    ("a,b,x\n1,2,3\n", {}, 422, "'c'"),
    ("a,b,c\n1,2,3\n", {"kind": "Evaluate"}, 422, "no column called label"),
    (ROWS, {"rows": [7]}, 422, "new.csv has no row 7"),
    (ROWS, {"kind": "Evaluate", "beside": {"labels": '["p"]'}}, 422, "has 1 labels, but 3 rows"),
    (ROWS, {"kind": "Evaluate", "beside": {"labels": '["p", null, 3]'}}, 422, "has no label for row 1"),
    (ROWS, {"kind": "Evaluate", "beside": {"labels": '[["p"], 1, 3]'}}, 422, "another kind in row 0"),
    (ROWS, {"kind": "Evaluate", "beside": {"labels": "["}}, 400, "labels is not JSON"),
    ("a,b,c\n" + 51 * "1,2,3\r", {}, 413, "new.csv has more than 50 rows: send fewer at a time."),
    ('a,b,c\n"' + "x" * 5000, {}, 422, "new.csv"),
    ('{"samples": [{"a": 1, "b": 2}]}', {"format": "json"}, 422, "'c'"),
    ('{"samples": [{"a": 1, "b": 2, "c": 3, "d": 4}]}', {"format": "json"}, 422, "'d'"),
    ('{"samples": [{"a": 1, "b": 2, "c": 3}, [1, 2, 3]]}', {"format": "json"}, 422, "not have the columns of row 0 in"),
])  # fmt: skip
def test_what_is_wrong_or_too_much_is_said_with_its_place(read, table, content, given, status, words):
    pids = read.get_pids()
    found, message = read(table, content, **given)
    assert found == status and words in message and read.get_pids() == pids


def test_gaps_are_left_to_a_model_that_imputes_and_groups_are_those_of_the_model(read, table):
    clf, imputer = copy(table), Imputer.fit("median", np.array([[1, np.nan, 2], [3, 4, 5]]))
    clf.feature_recipe_ = FeatureRecipe("table", label="kind", group="day", imputer=imputer)
    assert np.isnan(read(clf, GAP).X).tolist() == [[False, True, False], [False] * 3]
    assert "no value at all" in read(clf, "a,b,c\n,,\n")[1]
    grouped = "a,b,c,kind,day\n1,2,3,p,mo\n"
    assert read(clf, grouped, kind="Update").groups == ["mo"] and read(clf, grouped).groups is None
    assert read(clf, ROWS, kind="Recalibrate").groups is None
    message = "new.csv has no column 'day' of groups, and the model was fitted with groups: add the column."
    assert read(clf, ROWS, kind="Update") == (422, message)


@given(st.lists(st.lists(st.none() | st.floats(-1e9, 1e9), min_size=3, max_size=3), min_size=1), st.permutations("abc"))
def test_rows_in_json_are_those_of_the_same_table_in_csv(rows, order):
    text = "a,b,c\n" + "".join(",".join("" if x is None else repr(x) for x in row) + "\n" for row in rows)
    options = ReadOptions(labels="no", features=["a", "b", "c"], impute=True)
    found = JsonRows("the request", [{name: row["abc".index(name)] for name in order} for row in rows], options)
    if [None] * 3 in rows:
        with pytest.raises(ReadError, match="no value at all"):
            found.read()
    else:
        expected = open_rows("-", options, stdin=io.BytesIO(text.encode())).read().X
        np.testing.assert_array_equal(found.read().X, expected)


def make_picture(shape=(20, 30), kind="PNG", seed=0):
    Image = pytest.importorskip("PIL.Image")
    gray = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return write(Image.fromarray(gray).save, kind)


@pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")
def test_pictures_become_features_as_for_the_model_whatever_they_are_called(read, pictures, tmp_path):
    kinds = "PNG", "JPEG", "BMP", "TIFF", "GIF", "PPM"
    contents = [make_picture((40, 50), kind, seed) for seed, kind in enumerate(kinds)]
    paths, names = [tmp_path / f"{kind}.png" for kind in kinds], ["a.csv", "b", "c.exe", "d.png", "e", "f"]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    pyramid = srosr.SpatialPyramid(n_words=4, levels=2, random_state=0).fit(paths)
    many = {"names": np.array(names * 2), "thumbnails": np.zeros((12, 64, 64), np.uint8)}
    with_words = fit(pyramid.transform(paths), FeatureRecipe("pyramid", pyramid=pyramid, **many))
    for clf in (pictures, with_words):
        found = read(clf, *contents, format="pictures", names=names)
        check_same(found.X, clf.feature_recipe_.compute_features(paths))
        assert found.files == names and found.thumbnails.shape == (6, 64, 64) and found.thumbnails.dtype == np.uint8


@pytest.mark.parametrize(("start", "name", "media_type", "format", "shown"), [
    (VALID["npy"], "../a.csv", "text/csv", "npy", "a.csv"), (VALID["npz"], "", "", "npz", "upload"),
    (VALID["parquet"], "C:\\b\\a.png", "image/png", "parquet", "a.png"), (b"BM", "/a.bmp", "", "pictures", "a.bmp"),
    (b"\x89PNG", "a" * 999, "", "pictures", "a" * 99 + "…"),
    (b"II*\x00", "a\n\x1b\udc80", "image/tiff", "pictures", r"a\n\x1b\udc80"),
])  # fmt: skip
def test_first_bytes_say_what_a_file_is_and_names_are_cleaned(tmp_path, start, name, media_type, format, shown):
    (tmp_path / "0").write_bytes(start)
    assert find_format(tmp_path / "0", name, media_type) == format and clean_name(name) == shown


@st.composite
def damage(draw, content):
    """Return content with bytes changed, cut, or repeated; or random bytes with a valid start."""
    data = bytearray(content)
    if draw(st.booleans()):
        return bytes(data[: draw(st.integers(0, min(len(data), 16)))]) + draw(st.binary(max_size=200))
    for _ in range(draw(st.integers(1, 6))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    place = draw(st.integers(0, len(data)))
    return bytes(data[:place]) + draw(st.sampled_from([b"", bytes(data[place:]), bytes(data)]))


@pytest.mark.parametrize("format", [*VALID, "PNG", "JPEG", "GIF", "TIFF", "WEBP", "PPM", "BMP"])
@settings(max_examples=examples(600), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_bytes_are_read_or_refused(read, table, pictures, format, data):
    given, clf = {"format": format, "kind": data.draw(st.sampled_from(["Decide", "Explain", "Evaluate"]))}, table
    given |= data.draw(st.sampled_from([{}, {"drop_missing": True}, {"header": False}, {"by_name": True}]))
    if format not in VALID:
        clf, given = pictures, {"format": "pictures"}
    found = read(clf, data.draw(damage(VALID.get(format) or make_picture((9, 7), format))), **given)
    if isinstance(found, Samples):
        assert found.X.shape[1] == clf.n_features_in_
    else:  # a crash would be 503
        assert found[0] in (400, 413, 422) and (format == "json" or re.match(r"new\.csv\b", found[1])), found


@pytest.mark.parametrize("change", [
    {"numbers": np.arange(3)}, {"numbers": np.arange(4.0)}, {"X": np.ones((4, 2))}, {"X": np.ones((4, 3), np.float32)},
    {"labels": ["a"] * 5}, {"files": [1, 2, 3, 4]}, {"notes": [{}]}, {"dropped": "2"}, {"X": np.ones((60, 3))},
    {"thumbnails": np.zeros((1, 2, 2), np.uint8)},
])  # fmt: skip
def test_what_a_reader_answers_is_checked(table, change):
    samples = Samples(np.ones((4, 3)), np.arange(4), labels=["a"] * 4).check(Expected.of(table, Limits(rows=50)))
    with pytest.raises((ValueError, TypeError)):
        replace(samples, **change).check(Expected.of(table, Limits(rows=50)))

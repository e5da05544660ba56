"""Uploads: whatever bytes come, a child reads them as the command line would, or one sentence says why not."""

import asyncio
import io
import json
import re
import struct
import time
import zipfile
import zlib
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from child_pools import PoolInThread
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from same import check_same
from scale import examples
from server_runs import server_required

import srosr
from srosr.exceptions import CalibrationWarning
from srosr.operations.input_errors import InputError
from srosr.operations.model_input import open_for_model
from srosr.server.process_pool import JobError
from srosr.server.upload_header import clean_name, describe_reading, get_recipe_arrays
from srosr.tables.feature_recipe import FeatureRecipe
from srosr.tables.imputation import Imputer
from srosr.tables.read_options import ReadOptions

server_required()

LIMITS = {"rows": 50, "columns": 40, "pixels": 40_000, "files": 5}
_RNG = np.random.default_rng(0)
_SETTINGS = settings(
    deadline=None, max_examples=examples(600), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("private-folder-of-the-server")


@pytest.fixture(scope="module")
def reader(folder):
    with PoolInThread("reader", 1, folder, memory=10**9, seconds=60) as pool:
        yield pool


@pytest.fixture(scope="module")
def table_model():
    """Three named features, the column of the classes is called kind."""
    from pandas import DataFrame

    X, y = _RNG.normal(size=(40, 3)), np.repeat(["p", "q"], 20)
    X[y == "q"] += 3
    clf = srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(DataFrame(X, columns=["a", "b", "c"]), y)
    clf.feature_recipe_ = FeatureRecipe("table", label="kind", ignored=("id",))
    return clf


@pytest.fixture(scope="module")
def picture_model():
    X, y = _RNG.uniform(size=(24, 64)), np.repeat(["p", "q"], 12)
    X[y == "q"] *= 0.2
    clf = srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(X, y)
    names, small = np.array([f"{i}.png" for i in range(24)]), np.zeros((24, 64, 64), np.uint8)
    clf.feature_recipe_ = FeatureRecipe("pixels", shape=(8, 8), names=names, thumbnails=small)
    return clf


class Upload:
    """Sends content to a reader; checks what errors say."""

    def __init__(self, reader, folder):
        self.reader, self.folder = reader, folder

    def read(self, clf, *contents, format="csv", names=("new.csv",), limits=LIMITS, **keywords):
        files = []
        for number, content in enumerate(contents):
            path = self.folder / f"upload-{number}"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            files.append(str(path))
        header = describe_reading(clf, files=files, names=names, format=format, limits=limits, **keywords)
        return self.reader.run("read", header, get_recipe_arrays(clf))

    def fail(self, clf, *contents, status=422, **keywords):
        """Read what must be refused; return the sentence."""
        with pytest.raises((JobError, InputError)) as caught:
            self.read(clf, *contents, **keywords)
        message = caught.value.message
        assert getattr(caught.value, "status", 422) == status, message
        check_sentence(message)
        return message


def check_sentence(message):
    assert "private-folder" not in message and "upload-" not in message and "/tmp" not in message
    assert "Traceback" not in message and "\n" not in message and message.endswith((".", "?"))


@pytest.fixture
def upload(reader, folder):
    return Upload(reader, folder)


# -- what is read -----------------------------------------------------------------------------------------

ROWS = "a,b,c,kind\n1,2,3,p\n4,5,6,q\n7,8,9,p\n"


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


NUMBERS = np.arange(1.0, 10.0).reshape(3, 3)


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("csv", ROWS),
        ("csv", ROWS.replace(",", "\t")),
        ("parquet", make_parquet(a=NUMBERS[:, 0], b=NUMBERS[:, 1], c=NUMBERS[:, 2], kind=["p", "q", "p"])),
        ("npy", make_npy(NUMBERS)),
        ("npz", make_npz(X=NUMBERS, y=np.array(["p", "q", "p"]))),
    ],
)
def test_tables_are_read_as_by_the_command_line(upload, table_model, tmp_path, format, content):
    labels = "no" if format == "npy" else "required"
    header, arrays = upload.read(table_model, content, format=format, labels=labels)
    path = tmp_path / f"new.{format}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    rows = open_for_model(table_model, str(path), ReadOptions(), labels=labels).read()
    assert (arrays["X"] == rows.X).all() and arrays["X"].dtype == np.float64
    assert arrays["numbers"].tolist() == rows.numbers.tolist() == [0, 1, 2]
    assert header["labels"] == (None if rows.labels is None else rows.labels.tolist())
    assert header["dropped"] == 0 and header["seen"] == 3


def test_options_of_the_command_line_count(upload, table_model):
    header, arrays = upload.read(table_model, "c,x,b,a\n3,0,2,1\n", options={"by_name": True})
    assert arrays["X"].tolist() == [[1, 2, 3]]
    header, arrays = upload.read(table_model, "a,b,c\n1,,3\n4,5,6\n", options={"drop_missing": True})
    assert arrays["numbers"].tolist() == [1] and header["dropped"] == 1 and header["seen"] == 2
    header, arrays = upload.read(
        table_model, "a,b,c,w\n1,2,3,p\n", options={"label": "w", "keep": ["w"]}, labels="required"
    )
    assert header["labels"] == ["p"] and header["label"] == "w"
    message = upload.fail(table_model, "a,b,c\n1,2,3\n4,,6\n7,,9\n")
    assert message.startswith(
        "new.csv has no value in line 3, column 'b' (in all 2 values are missing, in 2 of 3 rows)"
    )
    assert "'c'" in upload.fail(table_model, "a,b,x\n1,2,3\n")
    header, _ = upload.read(table_model, ",a,b,c\n0,1,2,3\n")
    assert header["notes"] == ["The first column has no name and is taken for a row index."]


def test_a_missing_value_elsewhere_does_not_matter_for_one_row(upload, table_model):
    _, arrays = upload.read(table_model, "a,b,c\n1,,3\n4,5,6\n", one_row=True)
    assert arrays["numbers"].tolist() == [1]


def test_gaps_are_left_to_a_model_that_imputes(upload, table_model):
    from copy import copy

    clf = copy(table_model)
    X = _RNG.normal(size=(20, 3))
    X[3, 1] = np.nan
    clf.feature_recipe_ = FeatureRecipe("table", label="kind", imputer=Imputer.fit("median", X))
    _, arrays = upload.read(clf, "a,b,c\n1,,3\n4,5,6\n")
    assert np.isnan(arrays["X"]).tolist() == [[False, True, False], [False] * 3]
    assert "no value at all" in upload.fail(clf, "a,b,c\n,,\n")


def test_groups_are_those_of_the_model(upload, table_model):
    from copy import copy

    clf = copy(table_model)
    clf.feature_recipe_ = FeatureRecipe("table", label="kind", group="day")
    header, _ = upload.read(clf, "a,b,c,kind,day\n1,2,3,p,mo\n", labels="required", groups="required")
    assert header["groups"] == ["mo"] and header["kept"] == {}
    header, _ = upload.read(clf, "a,b,c,kind,day\n1,2,3,p,mo\n")
    assert header["groups"] is None
    header, _ = upload.read(clf, "a,b,c,kind\n1,2,3,p\n", labels="optional", groups="optional")
    assert header["groups"] is None and header["labels"] == ["p"]
    message = upload.fail(clf, "a,b,c,kind\n1,2,3,p\n", labels="required", groups="required")
    assert message == "new.csv has no column 'day' of groups, and the model was fitted with groups: add the column."


# -- pictures ---------------------------------------------------------------------------------------------


def make_picture(shape=(20, 30), kind="PNG", value=None):
    Image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    gray = np.full(shape, value, np.uint8) if value is not None else _RNG.integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(gray).save(stream, kind)
    return stream.getvalue()


def test_pictures_become_features_whatever_they_are_called(upload, picture_model, tmp_path):
    contents = [make_picture(kind=kind) for kind in ("PNG", "JPEG", "BMP", "TIFF")]
    names = ["a.csv", "b", "../c.exe", "d.png"]
    header, arrays = upload.read(picture_model, *contents, format="pictures", names=names)
    paths = []
    for number, content in enumerate(contents):
        paths.append(tmp_path / f"{number}.png")
        paths[-1].write_bytes(content)
    check_same(arrays["X"], picture_model.feature_recipe_.compute_features(paths))
    assert header["kept"] == {"file": ["a.csv", "b", "c.exe", "d.png"]}
    assert arrays["thumbnails"].shape == (4, 64, 64) and arrays["thumbnails"].dtype == np.uint8


def test_pyramids_are_computed_by_the_words_of_the_model(upload, tmp_path):
    from srosr.features.spatial_pyramid import SpatialPyramid

    pytest.importorskip("PIL")
    paths = []
    for number in range(6):
        paths.append(tmp_path / f"{number}.png")
        paths[-1].write_bytes(make_picture((40, 50)))
    pyramid = SpatialPyramid(n_words=4, levels=2, random_state=0).fit(paths)
    X = pyramid.transform(paths)
    with pytest.warns(CalibrationWarning):
        clf = srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(X, ["p", "q"] * 3)
    names, small = np.array([path.name for path in paths]), np.zeros((6, 64, 64), np.uint8)
    clf.feature_recipe_ = FeatureRecipe("pyramid", pyramid=pyramid, names=names, thumbnails=small)
    _, arrays = upload.read(clf, *(path.read_bytes() for path in paths[:3]), format="pictures", names=["x"] * 3)
    check_same(arrays["X"], X[:3])


def test_broken_pictures_are_named_or_left_out(upload, picture_model):
    good, broken = make_picture(), make_picture()[:60]
    message = upload.fail(picture_model, good, broken, format="pictures", names=["good.png", "broken.png"])
    assert message.startswith("broken.png cannot be read as a picture")
    header, arrays = upload.read(
        picture_model, broken, good, format="pictures", names=["broken.png", "good.png"], options={"skip_broken": True}
    )
    assert arrays["numbers"].tolist() == [1] and header["dropped"] == 1 and header["kept"] == {"file": ["good.png"]}
    assert "empty" in upload.fail(picture_model, b"", format="pictures", names=["a.png"])


def test_formats_that_run_programs_are_not_decoded(upload, picture_model):
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    message = upload.fail(picture_model, postscript, format="pictures", names=["a.png"])
    assert "its format is unknown" in message


def test_what_a_model_does_not_take_is_said_in_the_words_of_the_command_line(upload, table_model, picture_model):
    message = upload.fail(table_model, make_picture(), format="pictures", names=["a.png"])
    assert message == "a.png holds pictures, but the model was fitted to a table of 3 features."
    message = upload.fail(picture_model, ROWS)
    assert message.startswith("new.csv is not a folder of pictures, and the model was fitted to pictures")


# -- limits -----------------------------------------------------------------------------------------------


def test_rows_and_columns_are_limited(upload, table_model):
    too_many = "new.csv has more than 50 rows: send fewer at a time."
    rows = "a,b,c\n" + 51 * "1,2,3\n"
    assert upload.fail(table_model, rows, status=413) == too_many
    assert upload.fail(table_model, rows.replace("\n", "\r"), status=413) == too_many
    assert len(upload.read(table_model, rows[:-6] + "\n" * 100)[1]["X"]) == 50
    quoted = "a,b,c,kind\n" + 30 * '1,2,3,"p\n\nq"\n'
    assert len(upload.read(table_model, quoted)[1]["X"]) == 30
    assert upload.fail(table_model, make_npy(np.zeros((51, 3))), format="npy", status=413) == too_many
    assert upload.fail(table_model, make_npz(X=np.zeros((51, 3))), format="npz", status=413) == too_many
    columns = {name: np.zeros(51) for name in "abc"}
    assert upload.fail(table_model, make_parquet(**columns), format="parquet", status=413) == too_many
    wide = ",".join(f"c{i}" for i in range(41)) + "\n" + ",".join(["1"] * 41) + "\n"
    assert upload.fail(table_model, wide, status=413).startswith("new.csv has more than 40 columns")


def test_pixels_and_files_are_limited(upload, picture_model):
    message = upload.fail(picture_model, make_picture((201, 200)), format="pictures", names=["a.png"], status=413)
    assert message == "a.png has 200 × 201 pixels, and 40,000 are allowed: send it smaller."
    six = [make_picture()] * 6
    message = upload.fail(picture_model, *six, format="pictures", names=["a"] * 6, status=413)
    assert message == "6 pictures were sent, and 5 are allowed at a time."


def make_png_bomb(side):
    """Return a PNG file of so many black pixels on each side."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    lines = b"".join(packer.compress(bytes(side + 1)) for _ in range(min(side, 2000))) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


WIDE_LIMITS = {"rows": 100_000, "columns": 100_000, "pixels": 40_000_000, "files": 1000}


def make_giant_header(shape):
    said = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(said)) + said + bytes(64)


def make_zip_bomb():
    """Return an npz file whose array unpacks from little to 3 GB."""
    shape = (100_000, 3750)
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w") as file,
    ):
        file.write(make_giant_header(shape)[:-64])
        for _ in range(300):
            file.write(bytes(10**6))  # a tenth of what the header says: the rest is not there
    return stream.getvalue()


def test_bombs_are_refused_at_once(upload, table_model, picture_model):
    start = time.monotonic()
    bomb = make_png_bomb(60_000)
    assert len(bomb) < 10**6
    message = upload.fail(picture_model, bomb, format="pictures", names=["a.png"], limits=WIDE_LIMITS, status=413)
    assert message.startswith("a.png has 60,000 × 60,000 pixels")
    for shape in ((10**9, 3), (10**15, 3), (2**62, 2**62), (0, 3)):
        upload.fail(table_model, make_giant_header(shape), format="npy", limits=WIDE_LIMITS)
    upload.fail(table_model, make_zip_bomb(), format="npz", limits=WIDE_LIMITS)
    many = make_parquet(a=np.zeros(3_000_000), b=np.zeros(3_000_000), c=np.zeros(3_000_000))
    assert len(many) < 10**6
    message = upload.fail(table_model, many, format="parquet", limits=WIDE_LIMITS, status=413)
    assert message == "new.csv has more than 100,000 rows: send fewer at a time."
    compressed = zlib.compress(b"a,b,c\n" + b"1,2,3\n" * 10**6)
    upload.fail(table_model, b"\x1f\x8b" + compressed, limits=WIDE_LIMITS)
    upload.fail(table_model, b"," * 5_000_000 + b"\n1\n", limits=WIDE_LIMITS, status=413)
    upload.fail(table_model, b'a,b,c\n"' + b"x" * 5_000_000, limits=WIDE_LIMITS)
    assert time.monotonic() - start < 30


@pytest.fixture(scope="module")
def small_reader(folder):
    with PoolInThread("reader", 1, folder, memory=100 * 10**6, seconds=60) as pool:
        yield pool


def test_what_does_not_fit_into_the_memory_is_refused(small_reader, folder, table_model):
    upload = Upload(small_reader, folder)
    limits = WIDE_LIMITS | {"rows": 10**9}
    message = upload.fail(table_model, make_npy(np.zeros((6 * 10**6, 3))), format="npy", limits=limits, status=413)
    assert message == "new.csv does not fit into the memory allowed for it: send fewer samples at a time."
    assert len(upload.read(table_model, ROWS)[1]["X"]) == 3


# -- JSON in a child ----------------------------------------------------------------------------------------


def as_array(content):
    return {"body": np.frombuffer(content, np.uint8)}


def test_json_that_takes_too_much_memory_costs_one_request(small_reader):
    bomb = b'{"samples": [' + b"[]," * 4_000_000 + b"[]]}"
    with pytest.raises(JobError) as caught:
        small_reader.run("parse_parameters", {"labels": False, "groups": False}, as_array(bomb))
    assert caught.value.status in (413, 503)
    body = as_array(b'{"samples":[],"a":1}')
    assert small_reader.run("parse_parameters", {"labels": True, "groups": True}, body)[0] == {"parameters": {"a": 1}}


def test_labels_beside_files_may_be_many(reader):
    texts, _ = reader.run("parse_texts", {"what": "labels"}, as_array(b'["a",' + b"2," * 100_000 + b"null]"))
    assert texts["texts"][:2] == ["a", "2"] and texts["texts"][-1] is None and len(texts["texts"]) == 100_002
    for content, status in ((b"[[]]", 422), (b"{}", 422), (b"[", 400)):
        with pytest.raises(JobError) as caught:
            reader.run("parse_texts", {"what": "labels"}, as_array(content))
        assert caught.value.status == status and "labels" in caught.value.message
    with pytest.raises(JobError, match="not finite"):
        body = as_array(b'{"samples": [], "risk_weight": 1e999}')
        reader.run("parse_parameters", {"labels": False, "groups": False}, body)


# -- the files of an upload -------------------------------------------------------------------------------


def write_files(folder):
    from srosr.server.multipart_form import FormPart
    from srosr.server.request_samples import _write_files

    return _write_files((FormPart("files", "a", "text/csv", b"1"),), folder)


def test_a_client_that_leaves_while_files_are_written_leaves_none(tmp_path, monkeypatch):
    from srosr.server import request_samples

    write = request_samples._write_folder

    def write_slowly(files, place):
        time.sleep(0.3)
        write(files, place)

    monkeypatch.setattr(request_samples, "_write_folder", write_slowly)

    async def leave():
        async def upload():
            async with write_files(tmp_path):
                raise AssertionError("nobody waits for this")

        task = asyncio.ensure_future(upload())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # the server may end meanwhile, too
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.wait(request_samples._removing)

    asyncio.run(leave())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), None])
def test_files_that_cannot_be_written_are_an_error_of_the_server(tmp_path, monkeypatch, problem):
    from srosr.server import request_samples
    from srosr.server.answers import ApiError

    def fail(files, place):
        place.mkdir()
        raise problem

    if problem is not None:
        monkeypatch.setattr(request_samples, "_write_folder", fail)

    async def upload():
        async with write_files(tmp_path if problem is not None else tmp_path / "removed"):
            pass

    with pytest.raises(ApiError) as caught:
        asyncio.run(upload())
    reason = "No space left on device" if problem is not None else "No such file or directory"
    assert (caught.value.status, caught.value.message) == (503, f"The server cannot store the upload: {reason}.")
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_that_becomes_many_rows_counts_as_these(reader, folder, table_model):
    from srosr.server.answers import ApiError
    from srosr.server.multipart_form import FormPart
    from srosr.server.request_body import BodyBudget
    from srosr.server.request_parameters import ParsedRequest
    from srosr.server.request_samples import read_samples
    from srosr.server.schemas import DecideParameters
    from srosr.server.settings import Limits

    stream = io.BytesIO()
    np.savez_compressed(stream, X=np.ones((100_000, 3)))
    assert len(stream.getvalue()) < 50_000
    model = SimpleNamespace(clf=table_model, takes="table", imputes=False)

    def read(most):
        part = FormPart("files", None, "application/x-npz", stream.getvalue())
        budget, scope = BodyBudget(10 * most, most), {"client": None}
        expect, exchange = partial(budget.expect, scope), partial(budget.exchange, scope)
        parsed = ParsedRequest(DecideParameters(), files=(part,), format="npz", expect=expect, exchange=exchange)
        samples = reader.wait(read_samples(parsed, model, Limits(), reader.pool, folder))
        assert parsed.files == ()  # nothing holds the body any more
        return samples

    assert len(read(10**7).X) == 100_000
    with pytest.raises(ApiError, match="The samples take 3 MB of memory") as caught:
        read(10**6)
    assert caught.value.status == 413
    assert len(read(10**7).X) == 100_000  # by another child


def test_of_a_request_about_one_row_only_that_row_comes_back(reader, folder, table_model):
    from srosr.server.multipart_form import FormPart
    from srosr.server.request_parameters import ParsedRequest
    from srosr.server.request_samples import read_samples
    from srosr.server.schemas import ExplainParameters
    from srosr.server.settings import Limits

    n = table_model.n_features_in_
    X = np.arange(200.0 * n).reshape(200, n)
    stream = io.BytesIO()
    np.save(stream, X)
    model = SimpleNamespace(clf=table_model, takes="table", imputes=False)
    arrived = []
    bodies = {
        "files": {"files": (FormPart("files", None, "application/x-npy", stream.getvalue()),), "format": "npy"},
        "json": {"body": json.dumps({"samples": X.tolist()}).encode()},
    }
    for body in bodies.values():
        for row, found in ((7, [7]), (199, [199]), (200, [])):
            parsed = ParsedRequest(ExplainParameters(row=row), expect=arrived.append, **body)
            samples = reader.wait(read_samples(parsed, model, Limits(), reader.pool, folder, one_row=True))
            assert samples.numbers.tolist() == found and samples.seen == 200 and arrived[-1] == len(found) * 8 * (n + 1)
            assert np.array_equal(samples.X, X[found])
    parsed = ParsedRequest(ExplainParameters(row=7, rows=[3, 7]), **bodies["files"])
    samples = reader.wait(read_samples(parsed, model, Limits(), reader.pool, folder, one_row=True))
    assert samples.numbers.tolist() == [3, 7]


def test_a_model_whose_copy_is_missing_is_no_conflict(tmp_path):
    from srosr.server.job_samples import load_anew
    from srosr.server.jobs import Refusal

    with pytest.raises(Refusal) as caught:
        load_anew({"model": str(tmp_path / "none.srosr"), "version": "0" * 16})
    assert caught.value.status == 503 and str(tmp_path) not in caught.value.message


# -- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\new.csv", "new.csv"),
        ("/", "upload"),
        ("", "upload"),
        (None, "upload"),
        ("a\nb\x00\x1b[31m", r"a\nb\x00\x1b[31m"),
        ("x" * 300, "x" * 99 + "…"),
        ("\udc80.csv", r"\udc80.csv"),
        ("<script>", "<script>"),
    ],
)
def test_names_of_files_are_cleaned(upload, table_model, name, shown):
    assert clean_name(name) == shown
    message = upload.fail(table_model, "a\n1\n", names=[name])
    assert message.startswith(shown)


# -- fuzzing ----------------------------------------------------------------------------------------------

VALID = {
    "csv": ROWS.encode(),
    "npy": make_npy(NUMBERS),
    "npz": make_npz(X=NUMBERS, y=np.array(["p", "q", "p"])),
    "parquet": make_parquet(a=NUMBERS[:, 0], b=NUMBERS[:, 1], c=NUMBERS[:, 2], kind=["p", "q", "p"]),
}


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


def read_or_refuse(upload, clf, content, **keywords):
    """Read what may be anything; an error must be a sentence, and no process may crash."""
    try:
        _, arrays = upload.read(clf, content, **keywords)
        assert arrays["X"].shape[1] == clf.n_features_in_
    except JobError as error:
        check_sentence(error.message)
        assert error.status in (413, 422), error.message  # a crash would be 503
        assert re.match(r"(new\.csv|a\.png)\b", error.message), error.message


@pytest.mark.parametrize("format", list(VALID))
@_SETTINGS
@given(st.data())
def test_any_bytes_are_read_or_refused(upload, table_model, format, data):
    content = data.draw(damaged(VALID[format]))
    labels = data.draw(st.sampled_from(["no", "optional", "required"]))
    options = data.draw(st.sampled_from([{}, {"drop_missing": True}, {"header": False}, {"by_name": True}]))
    read_or_refuse(upload, table_model, content, format=format, labels=labels, options=options)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "PPM", "BMP"])
@_SETTINGS
@given(st.data())
def test_any_picture_is_read_or_refused(upload, picture_model, kind, data):
    content = data.draw(damaged(make_picture((9, 7), kind, 100)))
    read_or_refuse(upload, picture_model, content, format="pictures", names=["a.png"])

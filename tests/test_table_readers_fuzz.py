"""Whatever bytes a file has, it is read, or one sentence says why not."""

import gzip
import io
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scale import examples

from srosr.tables import text_blocks
from srosr.tables.formats import open_rows
from srosr.tables.row_source import ReadError
from srosr.tables.text_table import TextRows

KINDS = ["csv", "tsv", "csv.gz", "parquet", "npz", "npy", "mat"]
_SETTINGS = settings(
    deadline=None, max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture]
)

_SIGNS = st.sampled_from(
    [b"a", b"label", b"1", b"2.5", b"-", b"e9", b"nan", b"inf", b" ", b'"', b'""', b",", b";", b"\t"]
)
_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"\0", b"\xff", b"\xef\xbb\xbf", "é".encode()])
PIECES = st.lists(_SIGNS | _ENDS, max_size=40).map(b"".join)


def valid(kind: str) -> bytes:
    """Return a valid file of 12 samples with 3 features and 2 classes."""
    X = np.random.default_rng(3).normal(size=(12, 3)).round(3)
    y = np.arange(12) % 2
    stream = io.BytesIO()
    if kind == "parquet":
        columns = {f"f{i}": X[:, i] for i in range(3)} | {"label": pa.array(["p", "q"]).take(pa.array(y))}
        pq.write_table(pa.table(columns), stream, row_group_size=5)
    elif kind == "npz":
        np.savez_compressed(stream, X=X, y=y)
    elif kind == "npy":
        np.save(stream, X)
    elif kind == "mat":
        scipy.io.savemat(stream, {"X": X, "y": y}, do_compression=True)
    else:
        sign = "\t" if kind == "tsv" else ","
        lines = [["f0", "f1", "f2", "label"], *([*map(str, row), f'"c{k}"'] for row, k in zip(X, y, strict=True))]
        text = "\n".join(sign.join(line) for line in lines).encode()
        stream.write(gzip.compress(text, mtime=0) if kind.endswith("gz") else text)
    return stream.getvalue()


VALID = {kind: valid(kind) for kind in KINDS}


def read_or_report(path, content: bytes, **wanted) -> int | None:
    """Return the number of rows, or None if reading raises a valid error message."""
    path.write_bytes(content)
    try:
        source = open_rows(path, **wanted)
        batches = list(source.batches(5))
    except ReadError as error:
        text = str(error)
        assert text.startswith(str(path)) and "\n" not in text and text[-1] in ".?", text
        assert not re.search(r"[.?!] [A-Z]", text.replace(str(path), "")), text
        return None
    for rows in batches:
        assert rows.X.shape == (len(rows.numbers), source.n_features) and np.isfinite(rows.X).all()
        assert rows.labels is None or all(isinstance(label, str) and label for label in rows.labels)
    assert sum(len(rows.X) for rows in batches) > 0
    return sum(len(rows.X) for rows in batches)


@pytest.mark.parametrize("kind", KINDS)
def test_the_sound_file_is_read(tmp_path, kind):
    assert read_or_report(tmp_path / f"t.{kind}", VALID[kind]) == 12


@pytest.mark.parametrize("kind", KINDS)
@_SETTINGS
@given(content=st.binary(max_size=300), wanted=st.sampled_from([{}, {"labels": "required"}, {"header": False}]))
def test_random_bytes_are_read_or_raise_one_sentence(tmp_path, kind, content, wanted):
    read_or_report(tmp_path / f"t.{kind}", content, **wanted)


@settings(_SETTINGS, max_examples=examples(400))
@given(content=PIECES, header=st.booleans(), drop=st.booleans(), labels=st.sampled_from(["no", "optional", "required"]))
@example(content=b'a,b\n1,"', header=True, drop=False, labels="no")
@example(content=b"a\r\r\n1", header=True, drop=False, labels="no")
def test_random_pieces_of_tables_are_read_or_raise_one_sentence(tmp_path, content, header, drop, labels):
    read_or_report(tmp_path / "t.csv", content, header=header, drop_missing=drop, labels=labels)


_CELLS = st.sampled_from([b"1", b"-2.5", b" 3 ", b"+4", b".5", b"1e3", b'"6"', b'" 7"', b"0", b"NA", b" "])
_TEXTS = st.sampled_from(
    [b"p", b" q ", b'"r\ns"', b'"t,""u"""', b'v"w', b'"x"y', b"1.0", b'"\r\n"', b'z"', b'""', b'"']
)
_ROW = st.tuples(_CELLS, _CELLS, _TEXTS).map(b",".join) | st.sampled_from([b"", b" "])
TABLES = st.tuples(st.lists(_ROW, min_size=1, max_size=6), st.sampled_from([b"\n", b"\r\n", b"\r"])).map(
    lambda rows: rows[1].join([b"a,b,label", *rows[0]])
)


def outcome(content, **wanted):
    """Return all that is read, or None if nothing can be."""
    try:
        rows = open_rows("-", stdin=io.BytesIO(content), keep=["label"], **wanted).read()
    except ReadError:
        return None
    return rows.numbers.tolist(), rows.X.tolist(), rows.labels.tolist(), rows.kept


@settings(_SETTINGS, max_examples=examples(400))
@given(content=TABLES, drop=st.booleans(), size=st.integers(1, 9))
def test_what_is_read_does_not_depend_on_blocks_or_on_the_parser(content, drop, size):
    whole = outcome(content, drop_missing=drop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextRows, "_parse_fast", lambda self, block: None)
        assert outcome(content, drop_missing=drop) == whole
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "_BLOCK", size)
        patch.setattr(text_blocks.cut_into_blocks, "__defaults__", (size,))
        assert outcome(content, drop_missing=drop) == whole


@pytest.mark.parametrize("kind", KINDS)
@_SETTINGS
@given(data=st.data(), drop=st.booleans())
def test_valid_files_with_wrong_bytes_are_read_or_raise_one_sentence(tmp_path, kind, data, drop):
    content = bytearray(VALID[kind])
    places = st.integers(0, len(content) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=6)):
        content[place] = byte
    read_or_report(tmp_path / f"t.{kind}", bytes(content), drop_missing=drop)


@pytest.mark.parametrize("kind", KINDS)
@_SETTINGS
@given(data=st.data())
def test_valid_files_with_pieces_removed_or_inserted_are_read_or_raise_one_sentence(tmp_path, kind, data):
    content = VALID[kind]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 2)))
    piece = data.draw(st.binary(max_size=20) | PIECES)
    read_or_report(tmp_path / f"t.{kind}", content[:start] + piece + content[end:])


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_files_are_read_or_raise_one_sentence(tmp_path, kind):
    content = VALID[kind]
    for length in range(0, len(content), max(1, len(content) // examples(150))):
        found = read_or_report(tmp_path / f"t.{kind}", content[:length], labels="no" if kind == "npy" else "required")
        assert found is None or kind in ("csv", "tsv"), length


@pytest.mark.parametrize("kind", ["npy", "txt"])
@_SETTINGS
@given(content=st.binary(max_size=60) | PIECES)
def test_random_label_files_are_read_or_raise_one_sentence(tmp_path, kind, content):
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    labels = tmp_path / f"labels.{kind}"
    labels.write_bytes(content)
    try:
        found = open_rows(tmp_path / "x.npy", labels_file=labels).read().labels
    except ReadError as error:
        assert str(labels) in str(error) and "\n" not in str(error)
    else:
        assert len(found) == 2 and all(found)

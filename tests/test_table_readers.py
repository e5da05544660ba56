"""Users' tables: what is read, and the one-sentence error for what is not."""

import csv
import gzip
import io
import os
import re
import subprocess
import sys
import zipfile
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scale import examples, slow_except

from srosr.tables import text_blocks
from srosr.tables.cells import parse_labels
from srosr.tables.columns import assign_roles
from srosr.tables.formats import open_rows
from srosr.tables.matlab import list_mat
from srosr.tables.read_options import ReadOptions
from srosr.tables.row_source import ReadError

PETS = "weight,height,label\n4.2,25,cat\n30,60,dog\n3.9,23,cat\n"


def stream(content, **wanted):
    """Return rows of comma-separated values on standard input."""
    return open_rows("-", stdin=io.BytesIO(content if isinstance(content, bytes) else content.encode()), **wanted)


def table(content, **wanted):
    """Return all rows as lists: features and labels."""
    rows = stream(content, **wanted).read()
    return rows.X.tolist(), None if rows.labels is None else rows.labels.tolist()


def one_sentence(error, name):
    text = str(error)
    assert name in text, text
    assert "\n" not in text and text[-1] in ".?" and not re.search(r"[.?!] [A-Z]", text.replace(name, "")), text
    return text


def check_error(message, path, **wanted):
    """Check the one-sentence error raised when a file is opened or read."""
    with pytest.raises(ReadError) as caught:
        open_rows(path, **wanted).read()
    text = one_sentence(caught.value, str(path))
    assert re.search(message, text), text


def check_text_error(message, content, **wanted):
    with pytest.raises(ReadError) as caught:
        stream(content, **wanted).read()
    text = one_sentence(caught.value, "standard input")
    assert re.search(message, text), text


# What is read


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [True, False])
def test_separators_line_ends_and_byte_order_marks_change_nothing(end, separator, mark, last):
    text = PETS.replace(",", separator).replace("\n", end)
    content = mark + (text if last else text[: -len(end)]).encode()
    assert table(content) == ([[4.2, 25], [30, 60], [3.9, 23]], ["cat", "dog", "cat"])


def test_rows_are_numbered_labeled_and_carry_kept_columns(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text('id,weight,class\n"a,1",1,x\nb,2,y\nc,3,x\n')
    source = open_rows(path, keep=["id", "class"])
    assert (source.name, source.feature_names, source.n_features, source.label) == (
        str(path),
        ("weight",),
        1,
        "class",
    )
    first, second = source.batches(2)
    assert first.numbers.tolist() == [0, 1] and second.numbers.tolist() == [2]
    assert first.kept == {"id": ["a,1", "b"], "class": ["x", "y"]} and second.kept == {"id": ["c"], "class": ["x"]}
    assert first.X.dtype == np.float64 and first.X.flags.c_contiguous and first.labels.dtype == object


def test_a_file_is_read_again_from_its_start_and_a_stream_is_not(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text(PETS)
    source = open_rows(path)
    assert source.fraction == 0
    assert [rows.X.tolist() for rows in source.batches(2)] == [rows.X.tolist() for rows in source.batches(2)]
    assert source.fraction == 1
    once = stream(PETS)
    assert once.fraction is None and len(once.read().X) == 3
    with pytest.raises(ReadError, match="standard input can be read only once"):
        once.read()


def test_gzipped_tables_are_read_by_their_ending(tmp_path):
    path = tmp_path / "PETS.CSV.GZ"
    path.write_bytes(gzip.compress(PETS.encode()))
    source = open_rows(path)
    assert len(source.read().X) == 3 and source.fraction == 1
    path.write_bytes(gzip.compress(PETS.encode())[:-6])
    check_error("damaged", path)
    wrong = tmp_path / "pets.csv"
    wrong.write_bytes(gzip.compress(PETS.encode()))
    check_error("compressed by gzip: name it with .gz", wrong)


def test_blank_lines_are_skipped_and_not_counted_as_rows():
    rows = stream("\n \na,b\n\n1,2\n   \n3,4\n\n").read()
    assert rows.numbers.tolist() == [0, 1] and rows.X.tolist() == [[1, 2], [3, 4]]


def test_quotes_hold_separators_line_ends_and_quotes():
    rows = stream('"a","the ""name"", of\nit"\n1,"x,\r\n""y"""\n"2",z"z"\n').read()
    assert rows.X.tolist() == [[1], [2]]
    assert rows.labels.tolist() == ['x,\r\n"y"', 'z"z"']


def test_numbers_that_the_fast_parser_cannot_read_are_read_nevertheless():
    assert table("a,b\n+1,\t2 \n1.,.5\n1e3,-0\n") == ([[1, 2], [1, 0.5], [1000, 0]], None)


def test_the_first_column_without_a_name_is_a_row_index():
    source = stream(",a,class\n7,1,x\n8,2,y\n")
    assert source.feature_names == ("a",) and source.read().X.tolist() == [[1], [2]]
    assert source.notes == ["the first column has no name and is taken for a row index"]


@pytest.mark.parametrize("names", ["0,1,2", "1,2,3"])
def test_numbers_in_order_are_names_as_pandas_writes_them(names):
    assert stream(f"{names},label\n4,5,6,x\n").feature_names == tuple(names.split(","))


def test_without_a_header_columns_are_called_by_their_number_and_features_go_in_order():
    source = stream("x,1,2\ny,3,4\n", header=False, label="0", features=("p", "q"))
    rows = source.read()
    assert source.feature_names is None and source.label == "0"
    assert rows.X.tolist() == [[1, 2], [3, 4]] and rows.labels.tolist() == ["x", "y"]
    check_text_error(r"line 2, column '2'", "x,1,2\ny,3,\n", header=False)
    check_text_error(r"2 values in line 2, but 3 values in its first line", "x,1,2\ny,3\n", header=False)
    check_text_error("decimal points", "1,5;2,5\n3,5;4,5\n", header=False)


# Labels


@pytest.mark.parametrize("name", ["label", "Labels", "CLASS", "target", "y"])
def test_the_column_of_the_labels_is_known_by_its_name(name):
    source = stream(f"a,{name},b\n1,5,2\n")
    assert source.label == name and source.feature_names == ("a", "b")


def test_the_only_column_of_text_has_the_labels():
    source = stream("a,kind,b\n1,x,2\n?,y,3\n", drop_missing=True)
    assert source.label == "kind" and source.feature_names == ("a", "b")


def test_a_slip_in_a_column_of_numbers_does_not_make_it_the_labels():
    check_text_error("'1o' in line 4, column 'b', which is not a number", "a,b\n1,2\n2,3\n3,1o\n")


def test_labels_may_be_absent_where_they_are_optional_and_are_not_read_where_not_wanted():
    assert stream("a,b\n1,2\n").label is None
    source = stream("a,b,y\n1,2,3\n", labels="no")
    assert source.label is None and source.n_features == 3 and source.read().labels is None
    assert stream("a,b,y\n1,2,q\n", labels="no", label="y").n_features == 2


def test_a_feature_of_the_model_is_never_taken_for_the_label():
    source = stream("x,y,kind\n1,2,a\n", features=("x", "y"))
    assert source.label == "kind"


def test_several_possible_columns_of_labels_are_named():
    check_text_error(r"\('class', 'y'\): say which with --label COLUMN", "a,class,y\n1,2,3\n")
    check_text_error("no column of text.*--label COLUMN .*'a', 'b'", "a,b\n1,2\n", labels="required")
    check_text_error(r"columns of text \('a', 'b'\).*--label", "a,b,c\nx,y,1\n", labels="required")
    check_text_error("'Species', which --label names.*did you mean 'species'", "species,b\nx,2\n", label="Species")
    many = ",".join(f"column{i}" for i in range(50))
    check_text_error("'column11' and 38 more", f"{many}\n{','.join('1' * 50)}\n", labels="required")


@pytest.mark.parametrize(
    ("cell", "label"),
    [("007", "007"), (" a b ", "a b"), ("1.0", "1"), ("-2.", "-2"), ("3.000e+00", "3"), ("1e2", "100"), ("-0.0", "0")],
)
def test_labels_are_text_as_it_stands_but_whole_numbers_lose_their_zeros(cell, label):
    assert table(f"a,label\n1,{cell}\n")[1] == [label]


def test_text_that_looks_like_a_number_in_part_stays_as_it_is():
    assert parse_labels(["1.5", "beta", "2.0"]) == ["1.5", "beta", "2"]


def test_labels_that_are_measurements_raise_an_error(tmp_path):
    check_text_error("2.5 as the label in line 3, column 'y', which looks like a measurement", "a,y\n1,2\n3, 2.5\n")
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1, 2], "y": [1.0, 2.5]}), path)
    check_error("2.5 as the label in row 1, column 'y'", path)
    path = tmp_path / "t.npz"
    np.savez(path, X=np.ones((2, 1)), y=[1.0, 2.5])
    check_error("2.5 as the label in row 1, array 'y'", path)


def test_a_missing_label_is_reported_by_line_or_dropped():
    check_text_error("no label in line 3, column 'label'; --drop-missing", "a,label\n1,x\n2,NA\n")
    source = stream("a,label\n1,x\n2,\n3,y\n", drop_missing=True)
    rows = source.read()
    assert rows.numbers.tolist() == [0, 2] and (source.dropped, source.missing) == (1, 1)


# Values that are no features


@pytest.mark.parametrize("cell", ["", " ", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", '""', "NAN"])
def test_missing_values_are_reported_by_line_and_column_or_dropped_and_counted(cell):
    content = f"a,b,label\n1,2,x\n\n3,{cell},y\n{cell},{cell},x\n5,6,x\n"
    check_text_error("no value in line 4, column 'b'; --drop-missing", content)
    source = stream(content, drop_missing=True)
    rows = source.read()
    assert rows.numbers.tolist() == [0, 3] and rows.X.tolist() == [[1, 2], [5, 6]]
    assert (source.dropped, source.missing) == (2, 3)


def test_kept_columns_stay_with_their_rows_when_others_are_dropped():
    rows = stream("id,a\np,1\nq,\nr,3\n", keep=["id"], drop_missing=True).read()
    assert rows.kept == {"id": ["p", "r"]} and rows.X.tolist() == [[1], [3]]


def test_a_table_in_which_every_row_lacks_a_value_raises_an_error():
    check_text_error("every row", "a,b\n1,\n,2\n", drop_missing=True)


def test_a_column_that_a_model_needs_is_not_to_be_left_out():
    needed = {"labels": "no", "features": ["a", "b"]}
    check_text_error("'abc' in line 3, .*the model needs the column: correct the value", "a,b\n1,2\nabc,2\n", **needed)
    check_text_error("'abc' in line 3, .*the model needs the column", "a,b\n1,2\nabc,2\n", labels="no", features=2)


def test_text_among_numbers_is_named_with_line_column_and_value():
    check_text_error("'abc' in line 3, column 'a', .*; --ignore a leaves the column out", "a,y\n1,2\nabc,2\n")
    check_text_error("…' in line 3", f"a,y\n1,2\n{'z' * 500},2\n")
    check_text_error("'2024-01-01' in line 2, column 'the day'.*--ignore 'the day'", "the day,y\n2024-01-01,1\n")
    check_text_error("'1_000' in line 3", "a,b\n1,2\n1_000,2\n")
    check_text_error("'٣' in line 2", "a,y\n٣,2\n")


def test_lines_are_those_of_the_file_even_after_quoted_line_ends():
    check_text_error("'q' in line 6, column 'a'", 'a,label\n1,"x\ny\nz"\n\nq,"w"\n')


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
def test_infinite_values_are_reported_by_line_and_column(cell):
    check_text_error("infinite value in line 3, column 'b'", f"a,b\n1,2\n3,{cell}\n")


def test_decimal_commas_raise_an_error_with_a_hint():
    check_text_error("'1,5' in line 2, column 'a'.*decimal points instead of decimal commas", "a;b\n1,5;2\n")
    check_text_error("'1.234,5' in line 3, .*decimal points", "a;b\n1;2\n1.234,5;2\n")


def test_values_separated_by_spaces_raise_an_error_with_a_hint():
    check_text_error("put a comma, semicolon, tab or", "a b\n1 2\n")


@pytest.mark.parametrize(("line", "found"), [("1,2", "2 values"), ("1,2,3,4", "4 values"), ("1", "1 value")])
def test_a_ragged_line_is_named_with_what_it_has_and_should_have(line, found):
    check_text_error(f"{found} in line 3, but 3 names in its header", f"a,b,c\n1,2,3\n{line}\n")


# Headers


def test_headers_with_missing_or_duplicate_names_raise_an_error():
    check_text_error("several columns of the same name in line 1: 'a'", "a,b, a\n1,2,3\n")
    check_text_error("no name for column 2 in line 1", "a,,b\n1,2,3\n")
    check_text_error("numbers where names should be in line 1 .*--no-header", "5.1,3.5,setosa\n4.9,3.0,setosa\n")


def test_files_without_samples_raise_an_error(tmp_path):
    check_text_error("a header, but no rows", "a,b\n")
    check_text_error("a header, but no rows", "a,b")
    check_text_error("has no rows", "a,b\n\n \n")
    check_text_error("nothing but blank lines", "")
    empty = tmp_path / "empty.csv"
    empty.touch()
    check_error("is empty", empty)


# Encodings


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_unicode_encodings_raise_an_error(encoding):
    check_text_error("line 1.*: save it as UTF-8", PETS.encode(encoding))


def test_bytes_that_are_not_utf8_are_reported_by_line():
    check_text_error("not in UTF-8, as line 3 shows", "a,label\n1,x\n2,é\n".encode("latin-1"))
    check_text_error("not in UTF-8, as line 1 shows", "é,label\n1,x\n".encode("latin-1"))
    check_text_error("zero byte in line 3", b"a,label\n1,x\n2,\0y\n")


def test_files_of_other_formats_with_a_text_suffix_are_identified_in_the_error():
    check_text_error("workbook or an archive", b"PK\x03\x04\x14\0")
    check_text_error("Parquet file: name it with .parquet", b"PAR1\x15\x04")
    check_text_error("save it as text in UTF-8", b"\x89PNG\r\n\x1a\n123")


def test_names_and_labels_in_any_script_are_read():
    source = stream("größe,label\n1,猫\n2,собака\n")
    assert source.feature_names == ("größe",) and source.read().labels.tolist() == ["猫", "собака"]


# Blocks


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_blocks_are_whole_lines_and_together_the_file(size):
    content = b'a,"b\nc"\r\n1,x"y\r2,"q""\n"\n\n"3\r\n",""\nlast,"\n'[:-2] + b"z\n"
    ends = [0, *text_blocks.find_line_ends(content, b",")]
    blocks = list(text_blocks.cut_into_blocks(io.BytesIO(content), "f", b",", b"", 1, size))
    assert b"".join(block.data for block in blocks) == content
    place = 0
    for block in blocks:
        assert place in ends
        assert block.line == 1 + len(re.findall(rb"\r\n|\r|\n", content[:place]))
        place += len(block.data)


def test_rows_do_not_depend_on_where_blocks_are_cut(monkeypatch):
    content = "a,b,label\n" + "".join(f'{i},"{i}.5","x\n""{i % 3}"""\r\n\n' for i in range(200))
    whole = stream(content).read()
    for size in (5, 17, 200):
        monkeypatch.setattr(text_blocks.cut_into_blocks, "__defaults__", (size,))
        parts = stream(content).read()
        assert np.array_equal(parts.X, whole.X) and parts.labels.tolist() == whole.labels.tolist()
        assert parts.numbers.tolist() == list(range(200))
        check_text_error("'wrong' in line 602, column 'a'", content + "wrong,2,3\n")


def test_a_quote_that_is_never_closed_and_an_endless_line_raise_an_error(monkeypatch):
    check_text_error("quote in line 3 that is never closed", 'a,label\n1,x\n2,"y\n3,z\n')
    check_text_error("quote in line 1 that is never closed", '"a,label\n1,x\n')
    monkeypatch.setattr(text_blocks, "_LONGEST_LINE", 2**20)
    monkeypatch.setattr(text_blocks.cut_into_blocks, "__defaults__", (2**16,))
    monkeypatch.setattr(text_blocks, "_BLOCK", 2**16)
    check_text_error("1 MiB in line 1", "a" * 2**21)
    check_text_error("1 MiB in line 3", "a,b\n1,2\n" + "1" * 2**21)
    check_text_error("quote in line 3 that is never", "a,b\n1,2\n" + '1,"' + "1\n" * 2**21)


def test_long_lines_within_the_limit_are_read():
    wide = ",".join(f"c{i}" for i in range(3000))
    content = f"{wide}\n" + f"{','.join('0.12345678' for _ in range(3000))}\n" * 300
    assert stream(content).read().X.shape == (300, 3000)


# Expected features


def test_features_in_another_order_raise_an_error_or_are_found_by_name():
    content = "a,b,c\n1,2,3\n"
    wanted = {"labels": "no", "features": ("b", "a", "c")}
    check_text_error(r"another order.*\(column 1 is 'a', the model has 'b' there\); --by-name", content, **wanted)
    source = stream(content, by_name=True, **wanted)
    assert source.feature_names == ("b", "a", "c") and source.read().X.tolist() == [[2, 1, 3]]


def test_absent_features_are_named():
    check_text_error(
        "lacks a feature of the model: 'weigth' .did you mean 'weight'", "weight\n1\n", features=("weigth",)
    )
    names = tuple(f"f{i}" for i in range(8))
    check_text_error("lacks 8 features of the model: 'f0', 'f1', 'f2', 'f3', 'f4' and 3 more", "q\n1\n", features=names)
    check_text_error("'a' cannot be left out", "a,b\n1,2\n", features=("a", "b"), ignore=["a"])


def test_columns_that_the_model_does_not_have_raise_an_error_unless_requested():
    content = "id,a,label,b\n9,1,x,2\n"
    wanted = {"labels": "no", "features": ("a", "b")}
    check_text_error(
        "2 columns that the model does not have: 'id', 'label'; --ignore COLUMN.*--by-name", content, **wanted
    )
    for more in (
        {"ignore": ["id", "label"]},
        {"keep": ["id"], "label": "label"},
        {"by_name": True},
        {"ignore_if_present": ["id", "label", "absent"]},
    ):
        assert stream(content, **wanted, **more).read().X.tolist() == [[1, 2]]
    assert stream(content, by_name=True, **wanted).notes == ["left out by --by-name: 'id', 'label'"]


def test_columns_ignore_if_present_can_still_be_the_label_or_kept():
    content = "id,a,label\np,1,x\nq,2,y\n"
    wanted = {"features": ("a",), "ignore_if_present": ["id", "label"]}
    rows = stream(content, keep=["id"], labels="required", **wanted).read()
    assert rows.labels.tolist() == ["x", "y"] and rows.kept == {"id": ["p", "q"]}
    assert (
        stream("species,a\nx,1\n", labels="required", features=("a",), ignore_if_present=["species"]).label == "species"
    )
    assert stream("species,a\nx,1\n", features=("a",), ignore_if_present=["species"]).label is None


def test_another_number_of_features_raises_an_error_with_both_numbers():
    check_text_error("2 features, but the model was fitted with 3", "a,b\n1,2\n", features=3)
    assert stream("a,b\n1,2\n", features=2).n_features == 2


def test_features_cannot_go_by_name_without_names():
    check_text_error("--by-name: the model has no names", "a,b\n1,2\n", features=2, by_name=True)
    check_text_error("--by-name: standard input has no names", "1,2\n", features=("a", "b"), by_name=True, header=False)


@pytest.mark.parametrize("option", ["ignore", "keep"])
def test_a_missing_column_raises_an_error_with_a_suggestion(option):
    check_text_error(
        f"no column 'nmae', which --{option} names.*did you mean 'name'", "name,b\n1,2\n", **{option: ["nmae"]}
    )


def test_a_label_column_cannot_be_ignored():
    check_text_error("'b' is --ignore too", "a,b\n1,2\n", label="b", ignore=["b"])


def test_roles_are_assigned_from_names_alone():
    roles = assign_roles("f", ["i", "a", "k", "y", "b"], ReadOptions(keep=("k",)), lambda: [], numbering=0)
    assert (roles.features, roles.label, roles.kept) == ((1, 4), 3, (2,))


# Files


def test_paths_that_are_not_tables_raise_an_error(tmp_path):
    check_error("does not exist", tmp_path / "absent.csv")
    check_error("is a folder.*pictures", tmp_path)
    check_error("does not exist", tmp_path / "absent.csv" / "inside.csv")
    strange = tmp_path / "table.xlsx"
    strange.write_bytes(b"PK")
    check_error(r"\.csv, .*\.parquet.*\.mat", strange)
    check_error("cannot be read", "a\0b.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    check_error("not a regular file: give - ", tmp_path / "pipe.csv")


@pytest.mark.parametrize("step", ["os.stat", "open"])
def test_files_without_permission_raise_an_error(tmp_path, monkeypatch, step):
    path = tmp_path / "secret.csv"
    path.write_text(PETS)

    def forbidden(*arguments, **options):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(f"srosr.tables.row_source.{step}", forbidden, raising=False)
        check_error("cannot be read: Permission denied", path)


@pytest.mark.parametrize("kind", ["csv", "npy", "parquet", "npz", "mat"])
def test_a_file_that_changes_after_it_was_opened_raises_an_error(tmp_path, kind):
    path = write(tmp_path, kind, np.ones((50, 2)))
    source = open_rows(path)
    if kind == "npz" or kind == "mat":  # held in memory
        path.unlink()
        assert len(source.read().X) == 50
        return
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ReadError, match="was changed while it was read"):
        source.read()


def test_a_file_truncated_between_batches_raises_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks.cut_into_blocks, "__defaults__", (2**10,))
    monkeypatch.setattr(text_blocks, "_BLOCK", 2**10)
    path = tmp_path / "long.csv"
    path.write_text("a,b\n" + "1,2\n" * 5000)
    batches = open_rows(path).batches(10)
    next(batches)
    os.truncate(path, 10_000)
    with pytest.raises(ReadError, match="was changed"):
        list(batches)


def write(folder, kind, X, **others):
    """Write a file of that kind with the samples and other columns or arrays."""
    path = folder / f"table.{kind}"
    if kind == "csv":
        names = [f"f{i}" for i in range(X.shape[1])]
        lines = [",".join([*names, *others])]
        lines += [",".join(map(str, [*row, *(v[i] for v in others.values())])) for i, row in enumerate(X.tolist())]
        path.write_text("\n".join(lines) + "\n")
    elif kind == "parquet":
        pq.write_table(pa.table({f"f{i}": X[:, i] for i in range(X.shape[1])} | others), path, row_group_size=7)
    elif kind == "npy":
        np.save(path, X)
    elif kind == "npz":
        np.savez(path, X=X, **others)
    else:
        scipy.io.savemat(path, {"X": X, **others}, do_compression=True)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "npz", "mat"])
@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_every_format_gives_the_same_rows(tmp_path, kind, size):
    X = np.random.default_rng(0).standard_normal((50, 3))
    y = np.arange(50) % 4
    path = write(tmp_path, kind, X) if kind == "npy" else write(tmp_path, kind, X, y=y)
    labels_file = tmp_path / "labels.txt"
    labels_file.write_text("\n".join(map(str, y)) + "\n")
    source = open_rows(path, labels_file=labels_file if kind == "npy" else None)
    batches = list(source.batches(size))
    assert [len(rows.X) for rows in batches] == [min(size, 50 - start) for start in range(0, 50, size)]
    assert np.array_equal(np.concatenate([rows.X for rows in batches]), X)
    assert [label for rows in batches for label in rows.labels] == [str(label) for label in y]
    assert np.array_equal(np.concatenate([rows.numbers for rows in batches]), np.arange(50))
    assert source.n_rows == (None if kind == "csv" else 50) and source.fraction == 1
    assert source.label == (str(labels_file) if kind == "npy" else "y")
    assert source.feature_names == (("f0", "f1", "f2") if kind in ("csv", "parquet") else None)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "npz", "mat"])
def test_every_format_reports_or_drops_missing_values(tmp_path, kind):
    X = np.arange(12.0).reshape(4, 3)
    X[2, 1] = np.nan
    path = write(tmp_path, kind, X)
    place = (
        "line 4, column 'f1'" if kind == "csv" else "row 2, column 'f1'" if kind == "parquet" else "row 2, feature 1"
    )
    check_error(re.escape(f"no value in {place} (in all 1 value is missing, in 1 of 4 rows); --drop-missing"), path)
    source = open_rows(path, drop_missing=True)
    for _ in range(2):  # counted anew each time
        assert source.read().numbers.tolist() == [0, 1, 3] and (source.dropped, source.missing) == (1, 1)
    X[2, 1] = np.inf
    check_error("infinite value in", write(tmp_path, kind, X), drop_missing=True)


@pytest.mark.parametrize("kind", ["npy", "npz", "mat"])
def test_arrays_go_by_number_and_have_no_columns_to_name(tmp_path, kind):
    path = write(tmp_path, kind, np.ones((4, 3)))
    assert open_rows(path, features=("a", "b", "c")).n_features == 3
    check_error("3 features, but the model was fitted with 2", path, features=("a", "b"))
    check_error("--by-name", path, features=("a", "b", "c"), by_name=True)
    check_error("--ignore id", path, ignore=["id"])
    check_error("--keep id", path, keep=["id"])


# Parquet


def test_parquet_columns_are_numbers_or_text_by_their_type(tmp_path):
    path = tmp_path / "table.pq"
    columns = {
        "int": pa.array([1, 2], pa.int8()),
        "flag": [True, False],
        "price": pa.array([Decimal("1.50"), Decimal("2.25")]),
        "half": pa.array([0.5, 1.5], pa.float32()),
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "__index_level_0__": [10, 11],
    }
    pq.write_table(pa.table(columns), path)
    source = open_rows(path, keep=["int"], ignore=["half"])
    rows = source.read()
    assert source.feature_names == ("flag", "price") and rows.X.tolist() == [[1, 1.5], [0, 2.25]]
    assert source.label == "kind" and rows.labels.tolist() == ["x", "y"] and rows.kept == {"int": ["1", "2"]}
    assert source.notes == ["the column '__index_level_0__' is taken for a row index"]


def test_parquet_labels_of_any_type_are_text(tmp_path):
    path = tmp_path / "table.parquet"
    for values, texts in (([1.0, 2.0], ["1", "2"]), ([True, False], ["True", "False"]), ([b"a", b"b"], ["a", "b"])):
        pq.write_table(pa.table({"a": [1, 2], "label": values}), path)
        assert open_rows(path).read().labels.tolist() == texts
    pq.write_table(pa.table({"a": [1, 2], "label": ["x", None]}), path)
    check_error("no label in row 1, column 'label'", path)


def test_parquet_columns_that_are_not_features_raise_an_error_that_names_them(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": [[1], [2]], "c": [1, 2]}), path)
    check_error("nested values.*'b'; --ignore b", path, labels="no")
    assert open_rows(path, labels="no", ignore=["b"]).n_features == 2
    pq.write_table(pa.table({"a": [1, 2], "s": ["x", "y"]}), path)
    check_error("string, not numbers, in the column 's'", path, labels="no")
    pq.write_table(pa.table({"a": [1, 2], "day": pa.array([1, 2], pa.date32())}), path)
    check_error(
        "date32.*, not numbers, in the column 'day'; --ignore day", path
    )  # the only one without numbers, but no text
    pq.write_table(pa.table({"a": pa.array([], pa.float64())}), path)
    check_error("no rows", path)


def test_a_damaged_parquet_file_raises_an_error(tmp_path):
    path = write(tmp_path, "parquet", np.ones((50, 2)))
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    check_error("damaged", path)
    path.write_bytes(b"a,b\n1,2\n")
    check_error("damaged or not of the kind its suffix says", path)


# Arrays


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "i1", "u8", "?", "g"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_arrays_of_any_real_type_and_order_are_read(tmp_path, dtype, order):
    X = np.asarray(np.arange(30).reshape(10, 3) % 2, dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", X)
    rows = open_rows(tmp_path / "x.npy").read()
    assert np.array_equal(rows.X, X) and rows.X.flags.c_contiguous


def test_large_npy_arrays_are_read_in_parts_in_either_order(tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.tables.array_rows._BLOCK", 10)
    X = np.arange(99.0).reshape(33, 3)
    for order in "CF":
        np.save(tmp_path / "x.npy", np.asarray(X, order=order))
        assert np.array_equal(open_rows(tmp_path / "x.npy").read().X, X)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"\(samples, features\)"),
        (np.ones((2, 3, 4)), r"shape \(2, 3, 4\)"),
        (np.ones((2, 2), complex), "real numbers.*complex"),
        (np.array([["a"]]), "real numbers"),
        (np.ones((0, 3)), "no rows"),
        (np.ones((3, 0)), "no features"),
    ],
)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_arrays_of_another_form_raise_an_error(tmp_path, array, message, kind):
    check_error(message, write(tmp_path, kind, array))


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[{}]], dtype=object))
    check_error("pickled objects", tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", X=np.array([[{}]], dtype=object))
    check_error("pickled objects", tmp_path / "x.npz")


def test_a_shape_that_does_not_match_the_bytes_raises_an_error(tmp_path):
    path = write(tmp_path, "npy", np.ones((50, 2)))
    content = path.read_bytes()
    for wrong in (content[:-8], content + b"x", content.replace(b"(50, 2)", b"(90, 2)")):
        path.write_bytes(wrong)
        check_error("announces .* bytes", path)
    path.write_bytes(b"\x93NUMPY\x01\x00\xff\xff{")
    check_error("damaged", path)


def test_an_npy_file_has_its_labels_in_another(tmp_path):
    path = write(tmp_path, "npy", np.ones((3, 2)))
    check_error("file of their own with --labels", path, labels="required")
    np.save(tmp_path / "y.npy", np.array([[1.0], [2.0], [2.0]]))
    assert open_rows(path, labels_file=tmp_path / "y.npy").read().labels.tolist() == ["1", "2", "2"]
    text = tmp_path / "labels.txt"
    text.write_bytes("\ufeffä\r\nb\r\nb\r\n".encode())
    assert open_rows(path, labels_file=text, labels="required").read().labels.tolist() == ["ä", "b", "b"]
    text.write_text("name\na\nb\nb\n")
    check_error("4 labels, but .* has 3 rows.*if its first line is a heading, delete it", path, labels_file=text)
    text.write_text("a\n\nb\n")
    check_error("no label in row 1, the labels of .*labels.txt", path, labels_file=text)
    check_error("--label or --labels, not both", path, labels_file=text, label="y")
    assert open_rows(path, labels_file=tmp_path / "absent", labels="no").label is None


def test_a_table_can_have_its_labels_in_another_file_too(tmp_path):
    text = tmp_path / "labels.txt"
    text.write_text("p\nq\n")
    assert table("a,b\n1,2\n3,4\n", labels_file=text)[1] == ["p", "q"]
    for content, found in (("a\n1\n2\n3\n", "more rows"), ("a\n1\n", "1 rows")):
        with pytest.raises(ReadError, match=f"labels.txt has 2 labels, but standard input has {found}"):
            stream(content, labels_file=text).read()


def test_arrays_in_npz_and_mat_files_are_chosen_by_name(tmp_path):
    for kind in ("npz", "mat"):
        path = write(tmp_path, kind, np.ones((4, 2)), more=np.zeros((4, 3)), Target=[1, 2, 1, 2], kinds=[5, 6, 7, 8])
        assert open_rows(path).label == "Target"
        assert open_rows(path, array="more", label="kinds").read().labels.tolist() == ["5", "6", "7", "8"]
        check_error("no array 'mroe'.*--array NAME.*did you mean 'more'", path, array="mroe")
        check_error("no array 'kind', which --label names.*did you mean 'kinds'", path, label="kind")
        path = write(tmp_path, kind, np.ones((4, 2)), y=[1, 2, 1, 2], label=[1, 2, 1, 2])
        check_error("several arrays.*--label NAME", path)
        path = write(tmp_path, kind, np.ones((4, 2)), y=[1, 2])
        check_error("2 labels in 'y', but 4 rows of samples: transpose the samples", path)
        path = write(tmp_path, kind, np.ones((4, 2)))
        check_error("no array called label.*--label NAME", path, labels="required")


def test_places_in_class_names_are_labels_by_name_as_in_data_sets(tmp_path):
    path = write(tmp_path, "npz", np.ones((3, 2)), y=[1, 0, 1], class_names=np.array(["cat", "dog"]))
    assert open_rows(path).read().labels.tolist() == ["dog", "cat", "dog"]
    path = write(tmp_path, "npz", np.ones((3, 2)), y=[1, 0, 2], class_names=np.array(["cat", "dog"]))
    check_error("not places in 'class_names'", path)


def test_an_npz_file_that_would_unpack_to_too_much_raises_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.tables.arrays._LARGE", 2**20)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive, archive.open("X.npy", "w") as X:
        np.lib.format.write_array_header_1_0(X, {"descr": "|u1", "fortran_order": False, "shape": (2 * 2**20, 1)})
        X.write(bytes(2 * 2**20))
    check_error("would unpack from", path)


def test_damaged_npz_files_raise_an_error(tmp_path):
    path = write(tmp_path, "npz", np.ones((50, 2)))
    content = bytearray(path.read_bytes())
    content[300] ^= 1
    path.write_bytes(content)
    check_error("damaged.*CRC", path)
    path.write_bytes(content[:-30])
    check_error("damaged", path)


def test_variables_of_matlab_files_are_listed_with_their_shapes(tmp_path):
    path = tmp_path / "v.mat"
    scipy.io.savemat(path, {"X": np.ones((4, 2)), "name": "a text", "cell": np.array([[1, "b"]], dtype=object)})
    assert list_mat(path) == {"X": (4, 2), "name": (1, 6), "cell": (1, 2)}
    check_error("'name' *is not an array|name is not an array of real numbers", path, array="name")
    path.write_bytes(b"MATLAB 7.3 MAT-file" + bytes(109))
    check_error("version 7.3, so save it with the option -v7", path)


# All tables that Python's csv module writes

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw):
    width = draw(st.integers(1, 4))
    rows = draw(
        st.lists(st.tuples(st.lists(_NUMBERS, min_size=width, max_size=width), _TEXT, _TEXT), min_size=1, max_size=9)
    )
    return width, rows


@settings(deadline=None, max_examples=examples(200))
@given(
    tables(),
    st.sampled_from(",;\t|"),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.integers(1, 10),
    st.sampled_from([3, 50, 2**20]),
)
@example((1, [([0.0], '"', "\r")]), ",", "\n", b"", csv.QUOTE_ALL, 1, 3)
def test_any_table_that_the_csv_module_writes_is_read_back(content, separator, end, mark, quoting, size, block):
    width, rows = content
    names = [f"f{i}" for i in range(width)]
    # The module leaves a line end unquoted that is not its own, which no reader can tell from a line end.
    other = {"\n": "\r", "\r": "\n"}.get(end, "") if quoting == csv.QUOTE_MINIMAL else ""
    rows = (
        [(numbers, note.replace(other, ""), label.replace(other, "")) for numbers, note, label in rows]
        if other
        else rows
    )
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerow([*names, "note", "label"])
    writer.writerows([*numbers, note, f"L{label}."] for numbers, note, label in rows)
    default, text_blocks.cut_into_blocks.__defaults__ = text_blocks.cut_into_blocks.__defaults__, (block,)
    try:
        batches = list(stream(mark + text.getvalue().encode(), keep=["note"]).batches(size))
    finally:
        text_blocks.cut_into_blocks.__defaults__ = default
    assert [row for batch in batches for row in batch.X.tolist()] == [numbers for numbers, _, _ in rows]
    assert [label for batch in batches for label in batch.labels] == [f"L{label}." for _, _, label in rows]
    assert [note for batch in batches for note in batch.kept["note"]] == [note for _, note, _ in rows]
    assert all(len(batch.X) == size for batch in batches[:-1])


# Memory


_PEAK = """
import re, sys
from srosr.tables.formats import open_rows
rows = sum(len(batch.X) for batch in open_rows(sys.argv[1], labels="no").batches(1000))
print(rows, re.search(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("kind", slow_except(["csv"], ["csv", "npy", "parquet"]))
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    peaks = []
    for n_rows in (50_000, 250_000):
        X = np.random.default_rng(0).random((n_rows, 20))
        if kind == "csv":
            path = tmp_path / "table.csv"
            line = ",".join(f"{value:.9f}" for value in X[0])
            path.write_text(",".join(f"f{i}" for i in range(20)) + "\n" + f"{line}\n" * n_rows)
        elif kind == "npy":
            path = write(tmp_path, kind, X)
        else:
            path = tmp_path / "table.parquet"
            columns = pa.table({f"f{i}": X[:, i] for i in range(20)})
            pq.write_table(columns, path, use_dictionary=False, data_page_size=2**14)
        assert path.stat().st_size > 150 * n_rows
        done = subprocess.run([sys.executable, "-c", _PEAK, path], capture_output=True, text=True, check=True)
        rows, peak = map(int, done.stdout.split())
        assert rows == n_rows
        peaks.append(peak / 1024)
    assert peaks[1] < peaks[0] + 25, peaks

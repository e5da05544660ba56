"""A table or an array that was uploaded becomes rows, in a child process; what is too large is noticed early."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..operations.input_errors import InputError
from ..operations.model_input import format_notes
from ..tables.formats import open_rows
from ..tables.read_options import ReadOptions
from ..tables.row_source import ReadError, Rows, RowSource
from .jobs import TOO_LARGE, Answer, ChildJob, Refusal

#: Formats with the suffix by which readers know them. Nothing that is compressed as a whole.
SUFFIXES = {"csv": ".csv", "npy": ".npy", "npz": ".npz", "parquet": ".parquet"}
_PIECE = 2**20
_SEPARATORS = (b",", b";", b"\t", b"|")


def read_table(job: ChildJob) -> Answer:
    header, limits = job.header, job.header["limits"]
    if len(header["files"]) != 1:
        raise Refusal(f"{len(header['files']):,} files were sent: send one table at a time.")
    name = header["names"][0]
    with _give_suffix(header["files"][0], SUFFIXES[header["format"]]) as path:
        if header["format"] == "csv":
            _check_columns(path, name, limits["columns"])
        source, options = _open_table(path, header)
        if source.n_features > limits["columns"]:
            raise _refuse_columns(name, limits["columns"])
        if source.n_rows is not None and source.n_rows > limits["rows"]:
            raise _refuse_rows(name, limits["rows"])
        if source.n_rows is None and _count_lines(path) > limits["rows"]:
            _count_rows(source, name, limits["rows"])
        rows = source.read()
    return _pack_rows(rows, source, options, format_notes(source))


@contextmanager
def _give_suffix(path: str, suffix: str) -> Iterator[str]:
    """Give a file the name by which readers know its format."""
    if path.endswith(suffix):
        yield path
        return
    named = path + suffix
    os.link(path, named)
    try:
        yield named
    finally:
        os.unlink(named)


def _open_table(path: str, header: Mapping[str, Any]) -> tuple[RowSource, ReadOptions]:
    """Open a table as :func:`srosr.operations.more_samples.open_with_groups` does."""
    options = ReadOptions(
        **header["options"], labels=header["labels"], usual_label=header["usual_label"], features=header["features"],
        ignore_if_present=header["ignore_if_present"], impute=header["impute"],
    )  # fmt: skip
    try:
        return open_rows(path, options), options
    except ReadError as error:
        group = options.group
        if group is None or group != header["group_of_model"] or f"{group!r}, which --group names" not in str(error):
            raise
        if header["groups"] == "required":
            raise InputError(
                f"{path} has no column {group!r} of groups, and the model was fitted with groups: add the column."
            ) from None
        return _open_table(path, {**header, "options": {**header["options"], "group": None}})


def _pack_rows(rows: Rows, source: RowSource, options: ReadOptions, notes: list[str]) -> Answer:
    kept = {name: cells for name, cells in rows.kept.items() if name in options.keep}
    names = source.feature_names
    found = {
        "labels": None if rows.labels is None else rows.labels.tolist(),
        "label": source.label,
        "groups": None if options.group is None else rows.kept[options.group],
        "kept": kept,
        "notes": notes,
        "dropped": source.dropped,
        "seen": source.seen,
        "feature_names": None if names is None else list(names),
    }
    return Answer(found, {"X": rows.X, "numbers": rows.numbers})


def _check_columns(path: str, name: str, most: int) -> None:
    """Raise if the first line has too many columns, before it is taken apart."""
    with open(path, "rb") as file:
        line = b""
        while not line.strip() and (line := file.readline()):
            pass
    line = line.strip(b"\r\n").partition(b"\r")[0]
    if max(line.count(sign) for sign in _SEPARATORS) >= most:
        raise _refuse_columns(name, most)


def _count_lines(path: str) -> int:
    """Return a number that is at least that of the lines with samples."""
    n = 1
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            n += piece.count(b"\n") + piece.count(b"\r")
    return n


def _count_rows(source: RowSource, name: str, most: int) -> None:
    """Raise if there are too many rows; lines can be blank, or part of a value."""
    for _ in source.batches(_PIECE // source.n_features + 1):
        if source.seen > most:
            raise _refuse_rows(name, most)


def _refuse_rows(name: str, most: int) -> Refusal:
    return Refusal(f"{name} has more than {most:,} rows: send fewer at a time.", TOO_LARGE)


def _refuse_columns(name: str, most: int) -> Refusal:
    return Refusal(f"{name} has more than {most:,} columns: send a table with fewer.", TOO_LARGE)

"""Open a table of samples of any format, with labels of its own or from a separate file; find a table in many files."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from .._support.messages import join_names
from .arrays import read_array, read_header
from .cells import NotAClass, convert_labels, parse_label_column
from .read_options import ReadOptions
from .row_source import GivenLabels, InputFile, ReadError, RowSource, raise_as_read_error

_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_PARQUET = (".parquet", ".pq")
_ARRAYS = (".npz", ".npy", ".mat")
#: Suffixes of files that can be read.
SUFFIXES = (*_TEXT, *_PARQUET, *_ARRAYS)


def open_rows(
    path: str | os.PathLike[str], options: ReadOptions | None = None, *, stdin: BinaryIO | None = None, **changes: Any
) -> RowSource:
    """Open a table of samples to read it row batch by row batch.

    Parameters
    ----------
    path : path
        A file whose suffix says its format, or ``"-"`` for comma-separated values on standard input.

        - ``.csv``, ``.tsv``, ``.txt``, also with ``.gz``: text in UTF-8, one sample per line, values separated by
          comma, semicolon, tab or |;
        - ``.parquet``, ``.pq``;
        - ``.npz``, ``.mat`` (version 5 to 7): named arrays, one of which has one row per sample;
        - ``.npy``: an array with one row per sample.
    options : ReadOptions, optional
        What the file holds, and which part of it is wanted.
    stdin : binary stream, optional
        What ``"-"`` reads from; by default the standard input of the process.
    **changes
        Attributes of :class:`ReadOptions`, instead of ``options`` or over it.

    Returns
    -------
    RowSource
        A source of rows; only the start of the file has been read if the format allows.

    Raises
    ------
    ReadError
        If the file cannot be read, or is not what was asked for: one sentence that says where, what and what to do.

    Examples
    --------
    >>> import io
    >>> from srosr.tables.formats import open_rows
    >>> source = open_rows("-", stdin=io.BytesIO(b"weight,height,label\\n4.2,25,cat\\n30,60,dog\\n3.9,23,cat\\n"))
    >>> source.feature_names, source.label
    (('weight', 'height'), 'label')
    >>> [(batch.X.tolist(), batch.labels.tolist()) for batch in source.batches(2)]
    [([[4.2, 25.0], [30.0, 60.0]], ['cat', 'dog']), ([[3.9, 23.0]], ['cat'])]
    """
    name = os.fsdecode(path)
    options = replace(options or ReadOptions(), **changes)
    small = name.lower()
    if name == "-":
        name = "standard input"
        if stdin is None and sys.stdin is None:
            raise ReadError(f"{name} is closed: give a file.")
        source: InputFile | BinaryIO = stdin if stdin is not None else sys.stdin.buffer
    else:
        source = InputFile(name)
        if not small.endswith(SUFFIXES):
            known = join_names(SUFFIXES, last="or")
            raise ReadError(f"{name} has an unknown suffix: give a file that ends in {known}.")
    given = None
    if options.labels_file is not None and options.labels != "no":
        if options.label is not None:
            raise ReadError(f"{name} cannot have its labels in two places: give --label or --labels, not both.")
        given = _read_label_file(options.labels_file)
    if isinstance(source, InputFile) and small.endswith(_PARQUET):
        from .parquet import ParquetRows

        return ParquetRows(source, options, given)
    if isinstance(source, InputFile) and small.endswith(_ARRAYS):
        from .array_rows import open_arrays

        return open_arrays(source, options, given)
    from .text_table import TextRows

    return TextRows(source, name, options, given)


def _read_label_file(path: str | os.PathLike[str]) -> GivenLabels:
    """Read labels from an ``.npy`` file, or from text with one label per line."""
    file = InputFile(os.fsdecode(path))
    try:
        with raise_as_read_error(file.name), file.open() as stream:
            if file.name.lower().endswith(".npy"):
                values = read_array(stream, read_header(stream, file.size))
                if values.ndim == 0 or values.size != max(values.shape):
                    raise ReadError(f"{file.name} has labels of the shape {values.shape}: give one for each row.")
                labels = convert_labels(values.reshape(-1))
            else:
                labels = parse_label_column(_split_lines(stream.read(), file.name))
    except NotAClass as error:
        raise ReadError(
            f"{file.name} has {error.value} as a label, which looks like a measurement, not a class: give the labels."
        ) from None
    return GivenLabels(file.name, labels, f"the labels of {file.name}")


def _split_lines(data: bytes, file: str) -> list[str]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ReadError(f"{file} is not in UTF-8, as line {line} shows: save it as text in UTF-8.") from None
    if "\0" in text:
        raise ReadError(
            f"{file} has zero bytes, so that it is not text: give text with one label per line, or an .npy file."
        )
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise ReadError(f"{file} has no labels: give one for each row.")
    return lines


#: Suffixes of the files of a folder that are parts of a table; a pattern can match others.
PART_SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_MAGIC = re.compile(r"[*?[]")


def is_pattern(data: str) -> bool:
    """Return whether a name stands for the files that match it, and not for a file or folder of its own.

    Examples
    --------
    >>> from srosr.tables.formats import is_pattern
    >>> is_pattern("days/2026-*.csv"), is_pattern("days")
    (True, False)
    """
    return bool(_MAGIC.search(data)) and not os.path.lexists(data)


def find_parts(data: str) -> list[str]:
    """Return the files of a table in parts, sorted by name.

    Parameters
    ----------
    data : str
        A folder, whose files with the suffix of a table are the parts, except for those whose name begins with a dot or
        an underscore; or a pattern with ``*``, ``?``, ``[...]`` or, for any folders, ``**``.

    Returns
    -------
    list of str
        Empty if a folder has no table.

    Raises
    ------
    ReadError
        If the folder cannot be read, or no file matches the pattern.
    """
    if is_pattern(data):
        found = [path for path in sorted(glob.glob(data, recursive=True)) if os.path.isfile(path)]
        if not found:
            raise ReadError(f"{data} matches no file: check the pattern.")
        return found
    try:
        names = sorted(os.listdir(data))
    except OSError as error:
        raise ReadError(f"{data} cannot be read: {error.strerror or error}.") from None
    tables = [name for name in names if name.lower().endswith(PART_SUFFIXES) and not name.startswith((".", "_"))]
    return [path for path in (os.path.join(data, name) for name in tables) if os.path.isfile(path)]


def name_outputs(parts: Sequence[str], folder: str) -> list[str]:
    """Return the path of the decisions on each part: its name with the suffix ``.parquet``, in a folder.

    Two parts with the same name but for their folders and suffixes are a ReadError.
    """
    names = [f"{_strip_suffix(os.path.basename(part))}.parquet" for part in parts]
    taken: dict[str, str] = {}
    for part, name in zip(parts, names, strict=True):
        other = taken.setdefault(os.path.normcase(name), part)
        if other != part:
            raise ReadError(
                f"{other} and {part} would both become {name}: rename one of them, or predict them into different "
                "folders."
            )
    return [os.path.join(folder, name) for name in names]


def _strip_suffix(name: str) -> str:
    known = [suffix for suffix in SUFFIXES if name.lower().endswith(suffix) and len(name) > len(suffix)]
    return name[: -len(max(known, key=len))] if known else name

"""Open a table of samples, whatever its format."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import BinaryIO, Literal

from .._support.messages import join_names
from .columns import Wanted
from .input_file import InputFile
from .row_source import ReadError, RowSource

__all__ = ["ENDINGS", "open_rows"]

_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_PARQUET = (".parquet", ".pq")
_ARRAYS = (".npz", ".npy", ".mat")
#: Endings of files that can be read.
ENDINGS = (*_TEXT, *_PARQUET, *_ARRAYS)


def open_rows(
    path: str | os.PathLike[str],
    *,
    labels: Literal["required", "optional", "no"] = "optional",
    label: str | None = None,
    usual_label: str | None = None,
    labels_file: str | os.PathLike[str] | None = None,
    features: Sequence[str] | int | None = None,
    by_name: bool = False,
    ignore: Sequence[str] = (),
    keep: Sequence[str] = (),
    passed_over: Sequence[str] = (),
    drop_missing: bool = False,
    header: bool = True,
    array: str | None = None,
    stdin: BinaryIO | None = None,
) -> RowSource:
    """Open a table of samples to read it row batch by row batch.

    Parameters
    ----------
    path : path
        A file whose ending says its format, or ``"-"`` for comma-separated values on standard input.

        - ``.csv``, ``.tsv``, ``.txt``, also with ``.gz``: text in UTF-8, a line a sample, with a comma, semicolon, tab
          or | between values;
        - ``.parquet``, ``.pq``;
        - ``.npz``, ``.mat`` (version 5 to 7): arrays with names, one of which has a row a sample;
        - ``.npy``: an array with a row a sample.
    labels : {"required", "optional", "no"}
        Whether there must be labels, may be, or none are read.
    label : str, optional
        The column (or array) of the labels; by default the one called label, labels, class, target or y, in any case,
        or else the only column of text.
    usual_label : str, optional
        Where no label is named: the column (or array) to take if it is there, before any is guessed.
    labels_file : path, optional
        A file with the labels: ``.npy``, or text with a label a line.
    features : sequence of str or int, optional
        What a model expects: the names of the features in order, or their number.
    by_name : bool
        Take the expected features by name, in whatever order they are, and leave other columns out.
    ignore, keep : sequences of str
        Columns to leave out, and columns to carry along as text.
    passed_over : sequence of str
        Columns that are left out where they are there, such as that of the labels in a file to be judged.
    drop_missing : bool
        Leave out rows with missing values instead of refusing the file.
    header : bool
        Whether the first line of text has the names of the columns; if not, they are called "0", "1", ….
    array : str, optional
        The array of the samples in an npz or mat file; by default X.
    stdin : binary stream, optional
        What ``"-"`` stands for; by default that of the process.

    Returns
    -------
    RowSource
        Where the rows come from; nothing but the start of the file has been read where the format allows.

    Raises
    ------
    ReadError
        If the file cannot be read, or is not what was asked for: one sentence that says where, what and what to do.

    Examples
    --------
    >>> import io
    >>> from srosr.tables import open_rows
    >>> source = open_rows("-", stdin=io.BytesIO(b"weight,height,label\\n4.2,25,cat\\n30,60,dog\\n3.9,23,cat\\n"))
    >>> source.feature_names, source.label
    (('weight', 'height'), 'label')
    >>> [(batch.X.tolist(), batch.labels.tolist()) for batch in source.batches(2)]
    [([[4.2, 25.0], [30.0, 60.0]], ['cat', 'dog']), ([[3.9, 23.0]], ['cat'])]
    """
    name = os.fsdecode(path)
    wanted = Wanted(
        labels=labels,
        label=label,
        usual_label=usual_label,
        has_label_file=labels_file is not None,
        features=features if features is None or isinstance(features, int) else tuple(map(str, features)),
        by_name=by_name,
        ignore=tuple(ignore),
        keep=tuple(keep),
        passed_over=tuple(passed_over),
        drop_missing=drop_missing,
        header=header,
        array=array,
    )
    small = name.lower()
    if name == "-":
        name = "standard input"
        if stdin is None and sys.stdin is None:
            raise ReadError(f"{name} is closed: give a file.")
        source: InputFile | BinaryIO = stdin if stdin is not None else sys.stdin.buffer
    else:
        source = InputFile(name)
        if not small.endswith(ENDINGS):
            raise ReadError(f"{name} has an unknown ending: give a file that ends in {join_names(ENDINGS, last='or')}.")
    if labels_file is not None and label is not None and labels != "no":
        raise ReadError(f"{name} cannot have its labels in two places: give --label or --labels, not both.")
    given = None
    if labels_file is not None and labels != "no":
        from .label_file import read_label_file

        given = read_label_file(labels_file)
    if isinstance(source, InputFile) and small.endswith(_PARQUET):
        from .parquet import ParquetRows

        return ParquetRows(source, wanted, given)
    if isinstance(source, InputFile) and small.endswith(_ARRAYS):
        from .array_rows import open_arrays

        return open_arrays(source, wanted, given)
    from .text_table import TextRows

    return TextRows(source, name, wanted, given)

"""A user's own data: any table or arrays that ``srosr fit`` reads, or a folder of pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .._support.messages import join_names
from ..features.picture_folder import list_pictures as list_pictures
from ..tables.arrays import read_npz
from ..tables.columns import LABEL_NAMES
from ..tables.data_overview import number_classes
from ..tables.formats import open_rows
from ..tables.row_source import ReadError
from ..tables.text_table import open_plain_csv
from .dataset import Dataset, DatasetError
from .fetch import raise_as_dataset_error

_PART_COLUMN = "part"


class _NotPlainCsv(ValueError):
    """The header has no commas."""


def read_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read samples and classes from a file or a folder.

    Parameters
    ----------
    path : path
        - ``.csv`` with a header and commas: the column called label, labels, class, target or y, in any case, has the
          classes, or else the last one; a column ``part`` has the parts; all others are features.
        - ``.npz`` with ``X`` (n_samples, n_features), ``y`` (n_samples,) and optionally ``class_names`` and ``part``.
          With ``class_names``, ``y`` has places in it; without, ``y`` has the classes themselves, names or numbers.
        - any other table or arrays that ``srosr fit`` reads, and files of the two kinds above that do
          not follow their rule: the classes are where ``srosr fit`` finds them, in the column or array of such a name,
          or else in the only column of text. A column ``part`` has the parts.
        - a folder: a subfolder of pictures for each class.

    Returns
    -------
    Dataset
        Its name is that of the file or folder. Classes are sorted: by value if all are whole numbers.

    Raises
    ------
    DatasetError
        If there is no such file, or it cannot be read in this way.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from srosr import read_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pets.csv")
    ...     _ = file.write_text("weight,height,label\\n4.2,25,cat\\n30,60,dog\\n3.9,23,cat\\n")
    ...     pets = read_dataset(file)
    >>> pets, pets.class_names, pets.y.tolist()
    (<Dataset pets: 3 × 2 float64, 2 classes>, ('cat', 'dog'), [0, 1, 0])
    """
    path = Path(path)
    if not path.exists():
        raise DatasetError(f"{path} does not exist: give a table, a file of arrays or a folder of pictures.")
    with raise_as_dataset_error("own data", path):
        if path.is_dir():
            paths, y, class_names = list_pictures(path)
            full = np.array([str(picture.absolute()) for picture in paths])
            return Dataset(path.resolve().name, full, y, class_names, f"pictures in {path.name}")
        try:
            return _read_file(path)
        except ReadError as error:
            raise DatasetError(_without_options(error, path)) from error


def _read_file(path: Path) -> Dataset:
    """Read by the rule of the file's kind or, where that fails, as ``srosr fit`` does."""
    read = {".npz": _read_own_npz, ".csv": _read_own_csv}.get(path.suffix.lower())
    if read is None:
        return _read_as_fit_does(path)
    try:
        return read(path)
    except _NotPlainCsv:
        return _read_as_fit_does(path)
    except Exception:  # a damaged file can raise nearly anything
        try:
            return _read_as_fit_does(path)
        except ReadError:
            pass  # the first reason is the better one: it is about the rule for this kind of file
        raise


def _read_own_npz(path: Path) -> Dataset:
    found = read_npz(path, "X", "y", optional=("class_names", "part"))
    y = found["y"]
    if "class_names" in found:
        class_names = tuple(found["class_names"].tolist())
    else:
        if y.ndim != 1 or y.dtype.kind not in "iuU":
            raise ValueError(f"y must be a row of names or whole numbers, but is {y.dtype} of shape {y.shape}")
        y, class_names = number_classes([str(label) for label in y.tolist()])
    return Dataset(path.stem, found["X"], y, class_names, f"read from {path.name}", found.get("part"))


def _read_own_csv(path: Path) -> Dataset:
    header: Sequence[str] = ()
    label, part = 0, None

    def find_columns(names: Sequence[str]) -> tuple[Sequence[int], Sequence[int]]:
        nonlocal header, label, part
        header, (label, part, features) = names, _find_columns(names)
        return features, [label] if part is None else [label, part]

    try:
        rows = open_plain_csv(path, find_columns).read()
    except ReadError as error:
        if not header:
            raise
        reason = _without_options(error, path)
        raise ValueError(f"{reason}; the classes were read from the column {header[label]!r}") from error
    labels = [cell.strip() for cell in rows.kept[header[label]]]
    if "" in labels:
        raise ValueError(f"sample {labels.index('') + 1} has no class in the column {header[label]!r}")
    y, class_names = number_classes(labels)
    parts = None if part is None else np.array([cell.strip() for cell in rows.kept[header[part]]])
    source = f"read from {path.name}, classes from its column {header[label]!r}"
    return Dataset(path.stem, rows.X, y, class_names, source, parts)


def _find_columns(header: Sequence[str]) -> tuple[int, int | None, list[int]]:
    """Return the places of the class, of the part (if there is one) and of the features."""
    small = [name.lower() for name in header]
    if len(header) < 2:
        raise _NotPlainCsv
    if all(_is_number(name) for name in header):
        raise ValueError("its first line must be a header with the names of the columns, but it has only numbers")
    labels = [place for place, name in enumerate(small) if name in LABEL_NAMES]
    parts = [place for place, name in enumerate(small) if name == _PART_COLUMN]
    if len(labels) > 1 or len(parts) > 1:
        twice = [header[place] for place in (labels if len(labels) > 1 else parts)]
        raise ValueError(f"its columns {join_names(twice)} may all be meant: keep one of them")
    part = parts[0] if parts else None
    label = labels[0] if labels else max(place for place in range(len(header)) if place != part)
    features = [place for place in range(len(header)) if place not in (label, part)]
    if not features:
        raise ValueError("it has no columns of numbers beside the class")
    return label, part, features


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_as_fit_does(path: Path) -> Dataset:
    try:
        source = open_rows(path, labels="required", keep=(_PART_COLUMN,))
    except ReadError:  # most files have no such column
        source = open_rows(path, labels="required")
    rows = source.read()
    assert rows.labels is not None
    y, class_names = number_classes(rows.labels.tolist())
    kind = "array" if source.feature_names is None else "column"
    read = f"read from {path.name}, classes from its {kind} {source.label!r}"
    parts = rows.kept.get(_PART_COLUMN)
    name = path.name.removesuffix(".gz")
    return Dataset(Path(name).stem, rows.X, y, class_names, read, None if parts is None else np.array(parts))


def _without_options(error: ReadError, path: Path) -> str:
    """Return the message without the name of the file and without advice to use an option of the command line."""
    message = re.split(r"[:;] (?=[^:;]*--)", str(error))[0]
    return message.rstrip(".").replace(f"{path} ", "it ", 1)

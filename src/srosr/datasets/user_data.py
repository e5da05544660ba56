"""A user's own data: an npz file, a table of comma-separated values or a folder of pictures."""

from __future__ import annotations

import csv
import os
from array import array
from pathlib import Path

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .._support.messages import join_names
from ..features import list_pictures
from .array_files import read_npz
from .dataset import Dataset
from .errors import DatasetError
from .fetch import reading

__all__ = ["list_pictures", "read_dataset"]

_LABEL_COLUMNS = ("label", "class", "y")
_PART_COLUMN = "part"


def read_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read samples and classes from a file or a folder.

    Parameters
    ----------
    path : path
        - ``.npz``: ``X`` (n_samples, n_features), ``y`` (n_samples,) and, if you like, ``class_names`` and ``part``.
          With ``class_names``, ``y`` has places in it; without, ``y`` has the classes themselves, names or numbers.
        - ``.csv``: a header, then a line a sample, with commas between values. The column called ``label``, ``class``
          or ``y`` has the classes, or else the last one; a column ``part`` the parts; all others numbers.
        - a folder: a subfolder of pictures for each class.

    Returns
    -------
    Dataset
        Its name is that of the file or folder. Classes are sorted: by value if all are whole numbers.

    Raises
    ------
    DatasetError
        If there is no such file, or it is not of that form.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from srosr.datasets import read_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pets.csv")
    ...     _ = file.write_text("weight,height,label\\n4.2,25,cat\\n30,60,dog\\n3.9,23,cat\\n")
    ...     pets = read_dataset(file)
    >>> pets, pets.class_names, pets.y.tolist()
    (<Dataset pets: 3 × 2 float64, 2 classes>, ('cat', 'dog'), [0, 1, 0])
    """
    path = Path(path)
    kind = path.suffix.lower()
    if not path.exists():
        raise DatasetError(f"{path} does not exist: give an .npz or .csv file or a folder of pictures.")
    with reading("own data", path):
        if path.is_dir():
            paths, y, class_names = list_pictures(path)
            full = np.array([str(picture.absolute()) for picture in paths])
            return Dataset(path.resolve().name, full, y, class_names, f"pictures in {path.name}")
        if kind == ".npz":
            return _from_npz(path)
        if kind == ".csv":
            return _from_csv(path)
        raise ValueError(f"it ends in {kind!r}, but must be an .npz or .csv file or a folder of pictures")


def _from_npz(path: Path) -> Dataset:
    found = read_npz(path, "X", "y", optional=("class_names", "part"))
    y = found["y"]
    if "class_names" in found:
        class_names = tuple(found["class_names"].tolist())
    else:
        if y.ndim != 1 or y.dtype.kind not in "iuU":
            raise ValueError(f"y must be a row of names or whole numbers, but is {y.dtype} of shape {y.shape}")
        y, class_names = _numbered([str(label) for label in y.tolist()])
    return Dataset(path.stem, found["X"], y, class_names, f"read from {path.name}", found.get("part"))


def _from_csv(path: Path) -> Dataset:
    with open(path, encoding="utf-8-sig", newline="") as stream:
        lines = csv.reader(stream, strict=True)
        header = [name.strip() for name in next(lines, [])]
        label, part, features = _columns(header)
        numbers, labels, parts = array("d"), [], []
        for cells in lines:
            if not cells:
                continue  # an empty line
            if len(cells) != len(header):
                raise ValueError(f"line {lines.line_num} has {len(cells)} values, the header has {len(header)}")
            try:
                numbers.extend(float(cells[column]) for column in features)
            except ValueError:
                wrong = _not_a_number(cells, header, features, lines.line_num)
                raise ValueError(f"{wrong}; the classes were read from the column {header[label]!r}") from None
            labels.append(cells[label].strip())
            parts.append(cells[part].strip() if part is not None else "")
    if not labels:
        raise ValueError("it has a header, but no samples")
    if "" in labels:
        raise ValueError(f"sample {labels.index('') + 1} has no class in the column {header[label]!r}")
    y, class_names = _numbered(labels)
    X = np.frombuffer(numbers, dtype=np.float64).reshape(len(labels), len(features))
    source = f"read from {path.name}, classes from its column {header[label]!r}"
    return Dataset(path.stem, X, y, class_names, source, None if part is None else np.array(parts))


def _columns(header: list[str]) -> tuple[int, int | None, list[int]]:
    """Places of the class, of the part (if there is one) and of the numbers."""
    small = [name.lower() for name in header]
    if len(header) < 2:
        signs = [name for sign, name in ((";", "semicolons"), ("\t", "tabs")) if sign in "".join(header)]
        found = f"with {signs[0]} between them" if signs else "with a single column"
        raise ValueError(f"its first line must be a header with commas between the names, but it is one {found}")
    if all(_is_number(name) for name in header):
        raise ValueError("its first line must be a header with the names of the columns, but it has only numbers")
    labels = [place for place, name in enumerate(small) if name in _LABEL_COLUMNS]
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


def _not_a_number(cells: list[str], header: list[str], features: list[int], line: int) -> str:
    column = next(column for column in features if not _is_number(cells[column]))
    return f"line {line} has {cells[column]!r} in the column {header[column]!r}, which is not a number"


def _numbered(labels: list[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Places of labels among the sorted classes, and the classes."""
    distinct = sorted(set(labels))
    if all(label.lstrip("-").isdecimal() and label.isascii() for label in distinct):
        distinct.sort(key=int)
    place = {label: number for number, label in enumerate(distinct)}
    y: AnyArray = np.array([place[label] for label in labels], dtype=np.int64)
    return y, tuple(distinct)

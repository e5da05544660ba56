"""Cells of a table as numbers and labels, and which of them count as missing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from .._support.array_types import AnyArray

#: Texts that stand for a missing value.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
_MISSING = frozenset(MISSING)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"(?P<sign>[+-]?)(?:(?P<nan>nan)|inf(?:inity)?)\Z", re.IGNORECASE)
#: Whole numbers up to here are exact in double precision.
_LARGEST_WHOLE = 2**53


class NotAClass(ValueError):
    """Labels are numbers with fractions; ``cell`` is the first such cell, ``value`` the same without spaces."""

    def __init__(self, cell: str) -> None:
        super().__init__(cell)
        self.cell, self.value = cell, cell.strip()


def quote_for_shell(name: str) -> str:
    """Return a name as it is typed in a shell."""
    return name if re.fullmatch(r"[\w.+-]+", name) else repr(name)


def is_number(text: str) -> bool:
    """Return whether a cell without spaces around it holds a finite decimal number."""
    return _NUMBER.match(text) is not None


def parse_number(cell: str) -> float | None:
    """Return the number in a cell, NaN where it is missing, or None for other text."""
    text = cell.strip()
    if _NUMBER.match(text):
        return float(text)
    if text in _MISSING:
        return math.nan
    if special := _NOT_FINITE.match(text):
        return math.nan if special["nan"] else math.copysign(math.inf, -1.0 if special["sign"] == "-" else 1.0)
    return None


def parse_labels(cells: Sequence[str]) -> list[str | None]:
    """Return labels from distinct cells, None for those that are missing.

    A label is the text of the cell, except that a whole number with a point or an exponent loses it: 1.0 becomes 1.
    If all are numbers and one has a fraction, `NotAClass` is raised.
    """
    stripped = [cell.strip() for cell in cells]
    present = [text for text in stripped if text not in _MISSING]
    if all(map(is_number, present)):
        for cell, text in zip(cells, stripped, strict=True):
            if text not in _MISSING and not (float(text).is_integer() or text.lstrip("+-").isdigit()):
                raise NotAClass(cell)
    return [None if text in _MISSING else _without_zeros(text) for text in stripped]


def _without_zeros(text: str) -> str:
    if is_number(text) and not text.lstrip("+-").isdigit():
        value = float(text)
        if value.is_integer() and abs(value) <= _LARGEST_WHOLE:
            return str(int(value))
    return text


def parse_label_column(cells: Iterable[str]) -> AnyArray:
    """Return labels from the cells of a column, as an array of objects; see :func:`parse_labels`."""
    cells = list(cells)
    distinct = list(dict.fromkeys(cells))
    label = dict(zip(distinct, parse_labels(distinct), strict=True))
    found = np.empty(len(cells), dtype=object)
    found[:] = [label[cell] for cell in cells]
    return found


def convert_labels(values: AnyArray) -> AnyArray:
    """Return labels from an array of numbers, booleans, texts or UTF-8 bytes, as an array of objects."""
    kind = values.dtype.kind
    if kind not in "fiubUS":
        raise TypeError(f"labels of the type {values.dtype}")
    distinct, places = np.unique(values, return_inverse=True)
    if kind == "f":
        texts = ["" if math.isnan(value) else repr(float(value)) for value in distinct]
    else:
        texts = [value.decode("utf-8") if kind == "S" else str(value) for value in distinct.tolist()]
    found = np.empty(len(texts), dtype=object)
    found[:] = parse_labels(texts)
    return found[places.reshape(len(values))]

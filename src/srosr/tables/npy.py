"""NumPy's npy format, read without a memory map: a map of a file that is cut meanwhile ends the whole process."""

from __future__ import annotations

import ast
import math
import re
from typing import IO, Any, NamedTuple

import numpy as np

from .._support.array_types import AnyArray

__all__ = ["NpyHeader", "read_array", "read_header", "read_rows"]

_LONGEST_HEADER = 10_000
_TYPE = re.compile(r"[<>|=]?[?a-zA-Z][0-9]*\Z")


class NpyHeader(NamedTuple):
    """Shape and type of an array, and where in the file its values start."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    start: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes], size: int) -> NpyHeader:
    """The header of a file of ``size`` bytes; refuses pickled objects and a shape that its bytes do not have.

    Raises
    ------
    ValueError
        If it is no npy file, or not a sound one.
    """
    if stream.read(6) != b"\x93NUMPY":
        raise ValueError("it does not start as an npy file does")
    major, minor = stream.read(2).ljust(2, b"\0")
    if (major, minor) not in ((1, 0), (2, 0)):
        raise ValueError(f"its format version {major}.{minor} is not that of arrays of numbers")
    length = int.from_bytes(stream.read(2 * major), "little")
    if length > _LONGEST_HEADER:
        raise ValueError("its header is too long")
    header = _parsed(stream.read(length), stream.tell())
    if header.start + header.n_bytes != size:
        raise ValueError(f"its header announces {header.n_bytes} bytes of values, but there are {size - header.start}")
    return header


def _parsed(text: bytes, start: int) -> NpyHeader:
    """What the header says; a literal is all it may be."""
    try:
        said = ast.literal_eval(text.decode("latin-1").strip())
        kind, by_columns, shape = said["descr"], said["fortran_order"], said["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise ValueError("its header cannot be understood") from None
    if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("its header has a shape that is none")
    if not isinstance(kind, str) or not _TYPE.match(kind):
        raise ValueError("it holds records, not numbers")
    if "O" in kind:
        raise ValueError("it holds pickled objects, not numbers")
    return NpyHeader(shape, np.dtype(kind), bool(by_columns), start)


def read_array(stream: IO[bytes], header: NpyHeader) -> AnyArray:
    """All values, from a stream that stands after the header."""
    content = stream.read(header.n_bytes)
    if len(content) != header.n_bytes:
        raise ValueError("it was cut short")
    values = np.frombuffer(content, header.dtype)
    return values.reshape(header.shape, order="F" if header.by_columns else "C")


def read_rows(stream: IO[bytes], header: NpyHeader, first: int, last: int) -> AnyArray:
    """Some rows of an array with two axes, from a file."""
    n_rows, n_columns = header.shape
    if not header.by_columns:
        return _values(stream, header, first * n_columns, (last - first) * n_columns).reshape(last - first, n_columns)
    rows = np.empty((last - first, n_columns), dtype=header.dtype)
    for column in range(n_columns):
        rows[:, column] = _values(stream, header, column * n_rows + first, last - first)
    return rows


def _values(stream: IO[bytes], header: NpyHeader, first: int, number: int) -> AnyArray:
    stream.seek(header.start + first * header.dtype.itemsize)
    content = stream.read(number * header.dtype.itemsize)
    if len(content) != number * header.dtype.itemsize:
        raise ValueError("it was cut short")
    return np.frombuffer(content, header.dtype)

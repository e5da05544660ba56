"""Arrays from npy, npz and mat files, every length checked against the bytes there are.

The npy format is read without a memory map: a map of a file that is cut meanwhile ends the whole process.
"""

from __future__ import annotations

import ast
import math
import os
import re
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np

from .._support.array_types import AnyArray
from .matlab import list_mat, read_mat
from .row_source import InputFile

_CHUNK = 2**20
#: An array that unpacks to more than so many bytes, and to more than so many times its size, is taken for an attack.
_LARGE, _DENSE = 256 * 1024**2, 200
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
        """Number of bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes], size: int) -> NpyHeader:
    """Read the header of an npy file; raise if it holds pickled objects or does not have ``size`` bytes in all."""
    if stream.read(6) != b"\x93NUMPY":
        raise ValueError("it does not start as an npy file does")
    major, minor = stream.read(2).ljust(2, b"\0")
    if (major, minor) not in ((1, 0), (2, 0)):
        raise ValueError(f"its format version {major}.{minor} is not that of arrays of numbers")
    length = int.from_bytes(stream.read(2 * major), "little")
    if length > _LONGEST_HEADER:
        raise ValueError("its header is too long")
    header = _parse_header(stream.read(length), stream.tell())
    if header.start + header.n_bytes != size:
        raise ValueError(f"its header announces {header.n_bytes} bytes of values, but there are {size - header.start}")
    return header


def _parse_header(text: bytes, start: int) -> NpyHeader:
    """Parse the text of a header, which must be a literal."""
    try:
        said = ast.literal_eval(text.decode("latin-1").strip())
        kind, by_columns, shape = said["descr"], said["fortran_order"], said["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise ValueError("its header cannot be understood") from None
    if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("its header has an invalid shape")
    if not isinstance(kind, str) or not _TYPE.match(kind):
        raise ValueError("it holds records, not numbers")
    if "O" in kind:
        raise ValueError("it holds pickled objects, not numbers")
    return NpyHeader(shape, np.dtype(kind), bool(by_columns), start)


def read_array(stream: IO[bytes], header: NpyHeader) -> AnyArray:
    """Read all values from a stream that is positioned after the header."""
    content = bytearray()
    while chunk := stream.read(min(_CHUNK, header.n_bytes - len(content))):
        content += chunk
    if len(content) != header.n_bytes:
        raise ValueError("it was cut short")
    values = np.ndarray(math.prod(header.shape), header.dtype, content)
    return values.reshape(header.shape, order="F" if header.by_columns else "C")


def read_rows(stream: IO[bytes], header: NpyHeader, first: int, last: int) -> AnyArray:
    """Read some rows of an array with two axes from a file."""
    n_rows, n_columns = header.shape
    if not header.by_columns:
        return _read_values(stream, header, first * n_columns, (last - first) * n_columns).reshape(
            last - first, n_columns
        )
    rows = np.empty((last - first, n_columns), dtype=header.dtype)
    for column in range(n_columns):
        rows[:, column] = _read_values(stream, header, column * n_rows + first, last - first)
    return rows


def _read_values(stream: IO[bytes], header: NpyHeader, first: int, number: int) -> AnyArray:
    stream.seek(header.start + first * header.dtype.itemsize)
    content = stream.read(number * header.dtype.itemsize)
    if len(content) != number * header.dtype.itemsize:
        raise ValueError("it was cut short")
    return np.frombuffer(content, header.dtype)


class NpzArrays:
    """The arrays of an npz file. What libraries raise goes to the caller."""

    def __init__(self, file: InputFile) -> None:
        self._file = file
        with file.open() as stream:
            if stream.read(2) != b"PK":
                raise ValueError("it is not an npz file")
            stream.seek(0)
            with zipfile.ZipFile(stream) as archive:
                self.names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]

    def get(self, name: str) -> AnyArray:
        """Read one of the arrays."""
        with self._file.open() as stream, zipfile.ZipFile(stream) as archive:
            info = archive.getinfo(f"{name}.npy")
            if info.file_size > _LARGE and info.file_size > _DENSE * info.compress_size:
                raise ValueError(
                    f"its array {name!r} would unpack from {info.compress_size} to {info.file_size} bytes, as no "
                    "measurements do"
                )
            with archive.open(info) as member:
                array = read_array(member, read_header(member, info.file_size))
                if member.read(1):  # reads to the end, where the checksum is compared
                    raise ValueError(f"its array {name!r} has more bytes than it says")
            self._file.check_unchanged(stream)
        return array


def read_npz(path: str | os.PathLike[str], *names: str, optional: tuple[str, ...] = ()) -> dict[str, AnyArray]:
    """Read some arrays of an npz file; ``optional`` ones only where they are there."""
    try:
        arrays = NpzArrays(InputFile(os.fspath(path)))
    except zipfile.BadZipFile:
        raise ValueError("it is not an npz file") from None
    missing = [name for name in names if name not in arrays.names]
    if missing:
        there = ", ".join(arrays.names) or "none"
        raise ValueError(f"it has no array {' and no array '.join(missing)}; its arrays: {there}")
    return {name: arrays.get(name) for name in (*names, *optional) if name in arrays.names}


class MatArrays:
    """The variables of a Matlab file of version 5 to 7."""

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self._path = Path(file.name)
        self.names = [name for name in list_mat(self._path) if name]

    def get(self, name: str) -> AnyArray:
        """Read one of the arrays."""
        with self._file.open() as stream:
            self._file.check_unchanged(stream)
        return read_mat(self._path, name)[name]


NamedArrays: TypeAlias = NpzArrays | MatArrays

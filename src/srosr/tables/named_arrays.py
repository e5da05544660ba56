"""Arrays with names: the members of an npz file, the variables of a mat file."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from .._support.array_types import AnyArray
from .input_file import InputFile
from .matlab import list_mat, read_mat
from .npy import read_array, read_header

__all__ = ["MatArrays", "NamedArrays", "NpzArrays"]

#: An array that unpacks to more than this many bytes, and to more than this many times its own, is taken for an attack.
_LARGE, _DENSE = 256 * 1024**2, 200


class NamedArrays(Protocol):
    """What npz and mat files have in common; what libraries raise goes to the caller."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the arrays."""

    def get(self, name: str) -> AnyArray:
        """One of the arrays."""


class NpzArrays:
    """The arrays of an npz file."""

    def __init__(self, file: InputFile) -> None:
        self._file = file
        with file.open() as stream, zipfile.ZipFile(stream) as archive:
            self.names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]

    def get(self, name: str) -> AnyArray:
        """One of the arrays."""
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


class MatArrays:
    """The variables of a Matlab file of version 5 to 7."""

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self._path = Path(file.name)
        self.names = [name for name in list_mat(self._path) if name]

    def get(self, name: str) -> AnyArray:
        """One of the arrays."""
        with self._file.open() as stream:
            self._file.check_unchanged(stream)
        return read_mat(self._path, name)[name]

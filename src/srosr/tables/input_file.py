"""The file behind a reader: whether it can be read, and whether it changes while it is read."""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from .row_source import ReadError

#: What libraries raise on a damaged file; zipfile a RuntimeError on encrypted and unknown compression.
_LIBRARY_ERRORS = (
    OSError, ValueError, TypeError, KeyError, EOFError, OverflowError, zlib.error, zipfile.BadZipFile, RuntimeError,
    SyntaxError,
)  # fmt: skip


class InputFile:
    """A regular file that exists, can be opened and is not empty, with its path as given and its size in bytes."""

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise ReadError(f"{path} does not exist: check the name of the file.") from None
        except (OSError, ValueError) as error:
            raise ReadError(f"{path} cannot be read: {_reason(error)}.") from None
        if stat.S_ISDIR(status.st_mode):
            raise ReadError(f"{path} is a folder, not a table: give a file, or a folder where pictures are read.")
        if not stat.S_ISREG(status.st_mode):
            raise ReadError(f"{path} is not a regular file: give - to read standard input.")
        if not status.st_size:
            raise ReadError(f"{path} is empty: give a file with samples in it.")
        self.size = status.st_size
        self._stamp = (status.st_size, status.st_mtime_ns, status.st_ino)

    def open(self) -> BinaryIO:
        """Open the file anew, checking that it is unchanged."""
        try:
            stream = open(self.name, "rb")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise ReadError(f"{self.name} cannot be read: {_reason(error)}.") from None
        try:
            self.check_unchanged(stream)
        except ReadError:
            stream.close()
            raise
        return stream

    def check_unchanged(self, stream: BinaryIO) -> None:
        """Raise if the file has changed since this object was made."""
        status = os.fstat(stream.fileno())
        if (status.st_size, status.st_mtime_ns, status.st_ino) != self._stamp:
            raise ReadError(f"{self.name} was changed while it was read: run again when it is complete.")


@contextmanager
def raise_as_read_error(file: str) -> Iterator[None]:
    """Turn what libraries raise on a damaged file into a `ReadError`."""
    import pyarrow as pa

    try:
        yield
    except ReadError:
        raise
    except MemoryError:
        raise ReadError(
            f"{file} does not fit into memory: take fewer rows, or a format that is read in parts."
        ) from None
    except (pa.ArrowException, *_LIBRARY_ERRORS) as error:
        raise ReadError(
            f"{file} is damaged or not of the kind its suffix says ({_reason(error)}): save it again."
        ) from None


def _reason(error: Exception) -> str:
    """Return the message of a library as the end of a sentence."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    said = " ".join(text.split()) or type(error).__name__
    said = said.split(". ")[0].rstrip(".")
    return said if len(said) <= 200 else said[:199] + "…"

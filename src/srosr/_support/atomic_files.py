"""Files that are either there as a whole or not at all, whatever happens while they are written.

A file gets its bytes under a temporary name in its own folder, is flushed to the disk and only then renamed. A process
that is killed on the way leaves the old file, or none, and a temporary one that :func:`remove_leftovers` knows.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["discard_unfinished", "make_folder", "open_atomically", "remove_leftovers", "write_atomically"]

#: Letters of a name that go into its temporary one, which must not become too long.
_LONGEST = 100
_unfinished: set[Path] = set()
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp", re.ASCII)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file, or replace it, at one stroke.

    Parameters
    ----------
    path : Path
        In a folder that exists.
    data : bytes

    Raises
    ------
    OSError
        Then there is what was there before, and no temporary file.
    """
    with open_atomically(path) as file:
        file.write(data)


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """A new file to write to, which takes the place of the old one when all has been written.

    After an error there is what was there before, and no temporary file.
    """
    path = Path(os.path.realpath(path))  # a link stays, and what it points to is written
    temporary = path.with_name(f".{path.name[:_LONGEST]}.{secrets.token_hex(8)}.tmp")
    _unfinished.add(temporary)
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        _unfinished.discard(temporary)
    _sync(path.parent)


def discard_unfinished() -> None:
    """Remove the temporary files of this process, which is about to be ended by a signal."""
    for temporary in list(_unfinished):
        with suppress(OSError):
            os.unlink(temporary)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, so that they last through a power failure."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path == path.parent:
            break
        path = path.parent
    for folder in reversed(missing):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a file, not a folder")
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder; its subfolders are not looked at."""
    with os.scandir(folder) as entries:
        leftovers = [entry.path for entry in entries if _TEMPORARY.fullmatch(entry.name)]
    for leftover in leftovers:
        with suppress(FileNotFoundError):
            os.unlink(leftover)


def _sync(folder: Path) -> None:
    """Make new names in a folder last, where the system can."""
    if os.name != "posix":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

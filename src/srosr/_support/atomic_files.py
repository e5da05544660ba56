"""Files and folders that exist complete or not at all, whatever happens while they are written.

All output goes through this module. The bytes go to a temporary name in the same folder, are flushed to the disk and
renamed. A killed process leaves the old file, or none, and a temporary one that :func:`remove_leftovers` recognizes;
a process that handles SIGTERM calls :func:`discard_unfinished` and leaves nothing.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from typing import TypeAlias

PathLike: TypeAlias = str | os.PathLike[str]

#: Bytes of a name that go into its temporary name, which file systems limit to 255.
_LONGEST = 100
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp", re.ASCII)
_unfinished: set[Path] = set()


def write_atomically(path: PathLike, data: bytes) -> None:
    """Write or replace a file in one step; see :func:`open_atomically`."""
    with open_atomically(path) as file:
        file.write(data)


@contextmanager
def open_atomically(path: PathLike) -> Iterator[BufferedRandom]:
    """Open a new file for writing and reading that replaces the old one when the block ends without an error.

    After an error or Ctrl-C an old file is as it was, and no temporary file is left. The folder must exist. A symbolic
    link stays, and its target is written; of a file with hard links only this name gets the new content. A new file
    gets the permissions that ``open`` would give it; an old one keeps its own, and is left alone, with a
    PermissionError, if it is read-only.
    """
    target = Path(os.path.realpath(path))
    mode = _check_target(target, path)
    permissions = 0o666 if mode is None else stat.S_IMODE(mode) & 0o777
    with _temporary_path(target) as temporary:
        # "x": neither a file that exists already, nor through a link.
        with open(temporary, "x+b", opener=lambda name, flags: os.open(name, flags, permissions)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, permissions)  # as the umask may have cut them
        os.replace(temporary, target)
    sync_folder(target.parent)


@contextmanager
def open_folder_atomically(path: Path) -> Iterator[Path]:
    """Make a folder under a temporary name, to be filled, that gets its own name when the block ends without an error.

    After an error nothing of it is left. If ``path`` is a folder by then, made by another process, that one stays.
    """
    with _temporary_path(path) as temporary:
        temporary.mkdir()
        yield temporary
        try:
            os.rename(temporary, path)
        except OSError:
            if not path.is_dir():
                raise
            shutil.rmtree(temporary, ignore_errors=True)
    sync_folder(path.parent)


@contextmanager
def _temporary_path(target: Path) -> Iterator[Path]:
    """Give a temporary name beside ``target``; remove what has that name after an error or a request to end."""
    temporary = target.with_name(f".{_shorten(target.name)}.{secrets.token_hex(8)}.tmp")
    if os.path.lexists(temporary):
        raise FileExistsError(errno.EEXIST, "the temporary name is taken", os.fspath(temporary))
    _unfinished.add(temporary)
    try:
        yield temporary
    except BaseException:
        _remove(temporary)
        raise
    finally:
        _unfinished.discard(temporary)


def _shorten(name: str) -> str:
    while len(os.fsencode(name)) > _LONGEST:
        name = name[:-1]
    return name


def _check_target(target: Path, path: PathLike) -> int | None:
    """Return the mode of the file to be replaced, None if there is none; raise if it cannot be replaced."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to write to", os.fspath(target.parent))
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder; give the path of a file", os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file, so it cannot be replaced", os.fspath(path))
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the existing file is read-only", os.fspath(path))
    return mode


def discard_unfinished() -> None:
    """Remove the temporary files and folders of this process, which a signal is about to end."""
    for temporary in list(_unfinished):
        _remove(temporary)


def _remove(temporary: Path) -> None:
    with suppress(OSError):
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            os.unlink(temporary)


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents so that they survive a power failure."""
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
        sync_folder(folder.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders that killed processes left in a folder, not in its subfolders."""
    for entry in list(folder.iterdir()):
        if _TEMPORARY.fullmatch(entry.name):
            _remove(entry)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

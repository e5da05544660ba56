"""The private folder of a server: locked while the server lives; the next one removes what a killed one left."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX, _LOCK = "srosr-serve-", ".lock"


@contextmanager
def make_private_folder(parent: Path | None = None) -> Iterator[Path]:
    """Give a new folder that only this user can read, and remove it in the end; folders of dead servers go first."""
    parent = Path(tempfile.gettempdir() if parent is None else parent)
    _remove_left(parent)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True) as folder:
        lock = _hold_lock(Path(folder))
        try:
            yield Path(folder)
        finally:
            if lock is not None:
                os.close(lock)


def _hold_lock(folder: Path) -> int | None:
    """Lock a folder until the process ends; None where there are no such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    # It gets its name once it is locked: a file of that name which is not locked is that of a dead server.
    unnamed = folder / f"{_LOCK}.new"
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(unnamed, folder / _LOCK)
    except OSError:  # a file system without locks
        os.close(lock)
        return None
    return lock


def _remove_left(parent: Path) -> None:
    """Remove folders of this user whose servers were killed."""
    try:
        import fcntl
    except ImportError:
        return
    with suppress(OSError):
        for folder in parent.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                found = os.lstat(folder)
                if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                    continue
                lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(lock)

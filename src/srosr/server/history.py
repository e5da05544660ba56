"""A changed model file takes the place of the old one in one step; the version before is kept, with a line a change.

Beside the model file lies the folder ``<model file>.history`` with up to 20 earlier versions and ``changes.jsonl``. A
process that is killed in between leaves the old model file or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .._support.atomic_files import make_folder, open_atomically, remove_leftovers
from .schemas import ApiError

#: Digits of a version, the start of the SHA-256 of the file.
VERSION_DIGITS = 16
#: Earlier versions that are kept.
MOST_KEPT = 20
_LINES, _LOCK = "changes.jsonl", ".lock"
_TEXT = (str, type(None))
#: Seconds to wait for another process that changes the same model.
_LONGEST_WAIT = 10.0


def find_version(path: Path) -> str | None:
    """Return the version of a model file, None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:VERSION_DIGITS]
    except OSError:
        return None


def commit_change(model: str, source: Path, new: Path, *, before: str | None, line: dict[str, Any]) -> str | None:
    """Put a copy of ``new`` in the place of the file of a model, and return its version.

    ``before`` is the version that was changed, None if there was no file that can be read. A symbolic link stays one.
    ``line`` is what the history says of the change: its name, details without samples, and the address it came from.
    """
    target = Path(os.path.realpath(source))  # so that all names of the file have one history
    history = _find_history(target)
    try:
        make_folder(history)
        with FileLock(history / _LOCK, timeout=_LONGEST_WAIT):
            remove_leftovers(history)
            if find_version(target) != before:
                raise ApiError(409, f"{model} was changed meanwhile: look at it again, then repeat the change.")
            after = find_version(new)
            if after != before:
                if before is not None:
                    _copy(target, history / f"{before}.srosr")
                _copy(new, target)
            _append(history, {**line, "before": before, "after": after})
            for path in _list_kept(history)[:-MOST_KEPT]:
                path.unlink()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it cannot be written"
        reason = "another process changes it" if isinstance(error, Timeout) else reason
        message = f"{model} cannot be changed on the disk of the server: {reason}."
        raise ApiError(503, message, {"Retry-After": "1"}) from None
    return after


def list_versions(source: Path, served: str | None = None) -> list[dict[str, Any]]:
    """Return the versions that a model file has had, as far as they are known, newest first.

    Each has ``version``, ``time`` and ``change`` that made it (None if it came from elsewhere), ``by``, ``details``,
    whether it is ``kept``, and whether it is the ``current`` one. If what is in the file is no model, ``served`` is the
    version that is current in its place, and can be restored.
    """
    target = Path(os.path.realpath(source))
    history = _find_history(target)
    kept = {path.stem for path in _list_kept(history)} | {served}
    found: list[dict[str, Any]] = []

    def add(version: str | None, line: dict[str, Any]) -> None:
        if version is not None and (line or not found or found[-1]["version"] != version):
            known = {name: line.get(name) for name in ("time", "change", "by", "details")}
            found.append({"version": version, **known, "kept": version in kept, "current": False})

    for line in _read_lines(history):
        add(line["before"], {})
        add(line["after"], line)
    current = served or find_version(target)
    add(current, {})
    if found:
        found[-1]["current"] = found[-1]["version"] == current
    return found[::-1]


def find_kept(source: Path, version: str) -> Path:
    """Return the file of an earlier version; raise if it is not kept, or damaged."""
    path = _find_history(Path(os.path.realpath(source))) / f"{version}.srosr"
    if find_version(path) != version:
        raise ApiError(404, f"There is no kept version {version!r}: the history lists those that there are.")
    return path


def _find_history(target: Path) -> Path:
    return target.with_name(f"{target.name}.history")


def _list_kept(history: Path) -> list[Path]:
    """Return the kept files, oldest first."""
    paths = history.glob("?" * VERSION_DIGITS + ".srosr")
    return sorted(paths, key=lambda path: path.stat().st_mtime_ns if path.exists() else 0)


def _copy(source: Path, target: Path) -> None:
    """Copy a file in one step. A copy and not a link: somebody may write into the model file in place."""
    with open_atomically(target) as copy, open(source, "rb") as file:
        shutil.copyfileobj(file, copy)


def _read_lines(history: Path) -> list[dict[str, Any]]:
    """Return the lines on changes that are whole."""
    try:
        content = (history / _LINES).read_bytes()
    except OSError:
        return []
    lines = []
    for text in content.split(b"\n"):
        with suppress(ValueError, RecursionError):
            line = json.loads(text)
            if isinstance(line, dict) and type(line.get("after")) is str and type(line.get("before", 0)) in _TEXT:
                lines.append(line)
    return lines


def _append(history: Path, line: dict[str, Any]) -> None:
    """Write a line; one before it that was cut short stays a line of its own."""
    time = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with open(history / _LINES, "a+b") as file:
        file.seek(max(file.tell() - 1, 0))
        start = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(start + json.dumps({"time": time, **line}).encode() + b"\n")

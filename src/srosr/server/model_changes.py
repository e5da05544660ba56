"""Changes of a model file: in one step, with the version before kept, and an audit line for each.

Beside the model file lies the folder ``<model file>.history`` with up to 20 earlier versions and ``audit.jsonl``. A
change is announced there, made, and confirmed; if the process is killed in between, the model file is the old or the
new one, and :func:`settle` finds out which.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from .._support.atomic_files import make_folder, open_atomically, remove_leftovers, sync_folder
from ..operations.input_errors import InputError

#: Digits of a version, the start of the SHA-256 of the file.
VERSION_DIGITS = 16
#: Earlier versions that are kept.
MOST_KEPT = 20
_AUDIT, _LOCK = "audit.jsonl", ".lock"
_KEPT = re.compile(r"([0-9]{6,})-([0-9a-f]{16})\.srosr", re.ASCII)
_VERSION = re.compile(r"[0-9a-f]{16}", re.ASCII)
#: Seconds to wait for another change of the same model, and at the start of a server.
_LONGEST_WAIT, _START_WAIT = 60.0, 5.0
#: What a line of the audit says at least.
_KEYS: dict[str, tuple[type, ...]] = {
    "number": (int,), "state": (str,), "change": (str,), "details": (dict,), "before": (str, type(None)),
    "after": (str,),
}  # fmt: skip
_BEGUN, _DONE, _UNDONE, _REPLACED = "begun", "done", "undone", "replaced"
#: Seconds between looks whether a change that waits is still wanted.
_LOOK = 0.2
#: Seconds after which an unfinished file beside the model is taken for that of a killed process.
_LEFT = 3600.0
#: Versions of files by how the files looked.
_versions: dict[Path, tuple[tuple[int, ...], str]] = {}
logger = logging.getLogger("srosr.server")


class ChangedMeanwhile(InputError):
    """The model file is no longer the one that was to be changed."""

    def __init__(self, model: str) -> None:
        super().__init__(f"{model} was changed meanwhile: look at it again, then repeat the change.")


class CannotWrite(InputError):
    """The model file, or its history, cannot be written."""


class UnknownVersion(InputError):
    """No such earlier version is kept."""


class GivenUp(Exception):
    """A change was given up before it had begun."""


class Wish:
    """Whether a change is still wanted. Once it has begun it is brought to its end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.has_begun = self.is_given_up = False

    def begin(self) -> None:
        """Begin, or raise :class:`GivenUp`."""
        with self._lock:
            if self.is_given_up:
                raise GivenUp
            self.has_begun = True

    def give_up(self) -> None:
        """Give the change up if it has not begun."""
        with self._lock:
            self.is_given_up = not self.has_begun


@dataclass(frozen=True)
class Change:
    """What is done to a model: its name, the change, details without samples, and the address of who asked for it."""

    model: str
    change: str
    details: dict[str, Any] = field(default_factory=dict)
    by: str = ""


def compute_version(path: Path) -> str:
    """Return the version of a model file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:VERSION_DIGITS]


def find_version(path: Path) -> str | None:
    """Return the version of a file, None if it cannot be read."""
    try:
        return compute_version(path)
    except OSError:
        return None


def _recall_version(path: Path) -> str | None:
    """Return the version of a file, that of the last time if the file looks as it did then."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    signs = found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev
    known = _versions.get(path)
    if known is None or known[0] != signs:
        version = find_version(path)
        if version is None:
            return None
        known = _versions[path] = signs, version
    return known[1]


def commit_change(source: Path, new: Path, *, before: str | None, change: Change, wish: Wish | None = None) -> str:
    """Put a new model in the place of the old one, and return its version.

    Parameters
    ----------
    source : Path
        The model file. A symbolic link stays one.
    new : Path
        The changed model, which is copied.
    before : str or None
        The version that was changed; None if there was no file that can be read.
    change : Change
    wish : Wish, optional
        May be given up while this waits for other changes.

    Raises
    ------
    ChangedMeanwhile
        If the model file is no longer that version.
    CannotWrite
        If the file or its folder cannot be written.
    GivenUp
        If nobody wants the change any more.
    """
    target, wish = _resolve(source), Wish() if wish is None else wish
    try:
        with _lock(target, change.model, make=True, wish=wish) as history:
            _settle(target, history)
            _remove_leftovers(target, history)
            if find_version(target) != before:
                raise ChangedMeanwhile(change.model)
            after = compute_version(new)
            wish.begin()
            line = {"change": change.change, "details": change.details, "before": before, "after": after}
            number = _next_number(history)
            if before is not None and after != before:
                _keep(target, history, number, before)
            _append(history, {"number": number, "state": _BEGUN, **line, "by": change.by})
            if after != before:
                _replace_or_settle(target, history, new, before, after, change.model)
            _conclude(history, {"number": number, "state": _DONE, **line}, change.model)
    except OSError as error:
        reason = error.strerror or "it cannot be written"
        raise CannotWrite(f"{change.model} cannot be changed on the disk of the server: {reason}.") from None
    return after


def list_versions(source: Path, served: str | None = None) -> list[dict[str, Any]]:
    """Return the versions that a model file has had, as far as they are known, newest first.

    Each has ``version``, ``time`` and ``change`` that made it (None if it came from elsewhere), ``by``, ``details``,
    whether it is ``kept``, and whether it is the ``current`` one. If what is in the file is no model, ``served`` is the
    version that is current in its place, and can be restored.
    """
    target = _resolve(source)
    history = _find_history(target)
    kept = {version for _, version in _list_kept(history)}
    current = served or _recall_version(target)
    if served is not None:
        kept.add(served)
    found: list[dict[str, Any]] = []

    def add(version: str, line: dict[str, Any] | None) -> None:
        known = {name: None if line is None else line.get(name) for name in ("time", "change", "by", "details")}
        found.append({"version": version, **known, "kept": version in kept, "current": False})

    begun: dict[Any, dict[str, Any]] = {}
    for line in _read_audit(history):
        if line["state"] == _BEGUN:
            begun[line["number"]] = line
        elif line["state"] == _DONE:
            before = line["before"]
            if before is not None and (not found or found[-1]["version"] != before):
                add(before, None)
            add(line["after"], {**begun.get(line["number"], {}), **line})
    if current is not None and (not found or found[-1]["version"] != current):
        add(current, None)
    if found and found[-1]["version"] == current:
        found[-1]["current"] = True
    return found[::-1]


def find_kept(source: Path, version: str) -> Path:
    """Return the file of an earlier version; raise :class:`UnknownVersion` if it is not kept or damaged."""
    history = _find_history(_resolve(source))
    if _VERSION.fullmatch(version) is not None:
        for path, found in reversed(_list_kept(history)):
            if found == version and find_version(path) == version:
                return path
    shown = version if len(version) <= VERSION_DIGITS else version[: VERSION_DIGITS - 1] + "…"
    raise UnknownVersion(f"There is no kept version {shown!r}: the history lists those that there are.")


def settle(source: Path) -> None:
    """Complete the audit of a model file after a process was killed in the middle of a change.

    It is of use to the history alone: what goes wrong is in the log.
    """
    target = _resolve(source)
    if not _find_history(target).is_dir():
        return
    try:
        with _lock(target, source.name, make=False, wait=_START_WAIT) as history:
            _settle(target, history)
            _remove_leftovers(target, history)
    except Exception as error:
        reason = error.message if isinstance(error, InputError) else getattr(error, "strerror", None) or repr(error)
        logger.warning("the history of %s could not be completed: %s", source.name, reason)


# -- the history -----------------------------------------------------------------------------------------


def _resolve(source: Path) -> Path:
    """Return the file itself, so that all names of it have one history."""
    return Path(os.path.realpath(source))


def _find_history(target: Path) -> Path:
    return target.with_name(f"{target.name}.history")


@contextmanager
def _lock(
    target: Path, model: str, *, make: bool, wait: float | None = None, wish: Wish | None = None
) -> Iterator[Path]:
    """Give the folder of the history while no other process changes it; a wish that is given up ends the waiting."""
    from filelock import FileLock

    history = _find_history(target)
    if history.exists() and not history.is_dir():
        raise CannotWrite(f"{model} cannot be changed: {history.name} on the server is a file, not a folder.")
    if make:
        make_folder(history)
    with _acquire(FileLock(history / _LOCK), model, _LONGEST_WAIT if wait is None else wait, wish):
        yield history


def _acquire(lock: Any, model: str, wait: float, wish: Wish | None) -> Any:
    """Return a context in which a file lock is held."""
    from filelock import Timeout

    end = monotonic() + wait
    while True:
        try:
            return lock.acquire(timeout=_LOOK)
        except Timeout:
            if wish is not None and wish.is_given_up:
                raise GivenUp from None
            if monotonic() > end:
                raise CannotWrite(f"{model} is being changed by another process: try again later.") from None


def _list_kept(history: Path) -> list[tuple[Path, str]]:
    """Return the kept files with their versions, oldest first."""
    try:
        names = os.listdir(history)
    except OSError:
        return []
    matches = sorted((int(match.group(1)), match) for match in map(_KEPT.fullmatch, names) if match is not None)
    return [(history / match.group(), match.group(2)) for _, match in matches]


def _next_number(history: Path) -> int:
    """Return a number that neither a line of the audit nor a kept file has."""
    lines = [line["number"] for line in _read_audit(history)]
    files = [int(path.name.partition("-")[0]) for path, _ in _list_kept(history)]
    return max([0, *lines, *files]) + 1


def _keep(target: Path, history: Path, number: int, version: str) -> None:
    """Keep the model file in the history."""
    path = history / f"{number:06d}-{version}.srosr"
    # A copy and not a link: somebody may write into the model file in place.
    with open_atomically(path) as copy, open(target, "rb") as file:
        shutil.copyfileobj(file, copy)


def _remove_leftovers(target: Path, history: Path) -> None:
    """Remove what killed processes left unfinished; beside the model file a command may still be writing something."""
    remove_leftovers(history)
    remove_leftovers(target.parent, name=target.name, age=_LEFT)


def _remove_oldest(history: Path) -> None:
    for path, _ in _list_kept(history)[:-MOST_KEPT]:
        with suppress(OSError):
            path.unlink()


def _replace_or_settle(target: Path, history: Path, new: Path, before: str | None, after: str, model: str) -> None:
    """Put the new file in place; if that fails the audit says so."""
    try:
        _replace(target, new, before, model)
    except BaseException as error:
        # The file may be in place, and only its folder not be on the disk yet.
        if isinstance(error, OSError) and find_version(target) == after:
            logger.warning("%s was changed, but may not be on the disk yet: %s", model, error.strerror)
            return
        _settle(target, history)
        raise


def _conclude(history: Path, line: dict[str, Any], model: str) -> None:
    """Complete the audit of a change that was made; what fails here is left to the next time, and to the log."""
    try:
        _append(history, line)
        _remove_oldest(history)
    except OSError as error:
        logger.warning("%s was changed, but the history could not be completed: %s", model, error.strerror)


def _replace(target: Path, new: Path, before: str | None, model: str) -> None:
    with open_atomically(target) as file:
        with open(new, "rb") as changed:
            shutil.copyfileobj(changed, file)
        if find_version(target) != before:  # another program has written it since
            raise ChangedMeanwhile(model)


# -- the audit -------------------------------------------------------------------------------------------


def _read_audit(history: Path) -> list[dict[str, Any]]:
    """Return the lines of the audit that are whole and say all that they have to."""
    try:
        content = (history / _AUDIT).read_bytes()
    except OSError:
        return []
    lines = []
    for text in content.split(b"\n"):
        with suppress(ValueError, RecursionError):
            line = json.loads(text)
            if isinstance(line, dict) and all(key in line and type(line[key]) in _KEYS[key] for key in _KEYS):
                lines.append(line)
    return lines


def _append(history: Path, line: dict[str, Any]) -> None:
    """Write a line to the end of the audit, on the disk when this returns."""
    time = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    data = json.dumps({"time": time, **line}, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
    with open(history / _AUDIT, "a+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        if file.read(1) not in (b"", b"\n"):
            data = b"\n" + data  # what a power failure cut short stays a line of its own
        file.write(data)
        os.fsync(file.fileno())
    sync_folder(history)


def _settle(target: Path, history: Path) -> None:
    """Say of changes that were begun whether they happened."""
    open_lines: dict[int, dict[str, Any]] = {}
    for line in _read_audit(history):
        if line["state"] == _BEGUN:
            open_lines[line["number"]] = line
        else:
            open_lines.pop(line["number"], None)
    if not open_lines:
        return
    current = find_version(target)
    for number, line in sorted(open_lines.items()):
        state = _DONE if current == line["after"] else _UNDONE if current == line["before"] else _REPLACED
        known = {name: line[name] for name in ("change", "details", "before", "after")}
        _append(history, {"number": number, "state": state, **known, "settled": True})

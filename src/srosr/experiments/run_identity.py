"""The identity of a run, which the file run.json of its folder holds, and the differences between two identities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .record_file import DamagedFile, decode, encode

_MAX_DIFFERENCES = 5
_ABSENT = object()


class ResultsFolderError(RuntimeError):
    """A folder cannot be used for a run: it is not writable, full, in use, or belongs to another run."""


class DamagedRun(ResultsFolderError):
    """The file run.json is damaged."""


@contextmanager
def name_file_in_errors(path: Path, doing: str = "write", *, started: bool = True) -> Iterator[None]:
    """Convert an OSError to a ResultsFolderError that names the file, the reason and what to do.

    ``started`` says whether the folder already holds a run.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        kept = "Finished trials are kept: fix this and run the same command again to resume."
        raise ResultsFolderError(
            f"could not {doing} {path}: {reason}. {kept if started else 'Fix this, or give another --out.'}"
        ) from error


def read_run(folder: Path) -> dict[str, Any] | None:
    """Return the content of run.json, or None if there is none."""
    path = folder / "run.json"
    with name_file_in_errors(path, "read"):
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        run = decode(data)
        if not isinstance(run.get("identity"), dict) or not isinstance(run.get("versions"), list):
            raise DamagedFile("it lacks identity or versions")
    except DamagedFile as error:
        raise DamagedRun(f"{path} is damaged: {error}. Give another --out.") from None
    return run


def normalize_identity(identity: dict[str, Any]) -> dict[str, Any]:
    """Return an identity as it reads back from run.json."""
    try:
        return decode(encode(identity))
    except TypeError as error:
        raise TypeError(f"identity must consist of JSON values: {error}") from None


def find_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return descriptions of the first few differences between two identities."""
    found = list(_iterate_differences(old, new))
    more = len(found) - _MAX_DIFFERENCES
    return found[:_MAX_DIFFERENCES] + ([f"and {more} more"] if more > 0 else [])


def merge_entries(identity: dict[str, Any], other: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return an identity with the entries that only another one has in the dict at a path of keys."""
    if not path:
        return identity
    first, *rest = path
    mine, theirs = identity.get(first), other.get(first)
    if not (isinstance(mine, dict) and isinstance(theirs, dict)):
        return identity
    return identity | {first: merge_entries(mine, theirs, tuple(rest)) if rest else theirs | mine}


def _iterate_differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _iterate_differences(
                old.get(key, _ABSENT), new.get(key, _ABSENT), f"{where}.{key}" if where else key
            )
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from _iterate_differences(before, now, f"{where}[{index}]")
    # Compared as text, NaN equals NaN; compared by value, 1 equals 1.0; true equals neither.
    elif _format_json(old) != _format_json(new) and (isinstance(old, bool) or isinstance(new, bool) or old != new):
        yield f"{where} was {_shorten(old)} and is {_shorten(new)} now"


def _format_json(value: Any) -> str:
    return "absent" if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def _shorten(value: Any) -> str:
    text = _format_json(value)
    return text if len(text) <= 60 else text[:57] + "..."

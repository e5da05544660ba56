"""What a run is: the file run.json of its folder, and how two runs differ."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from .record_file import DamagedFile, decode, encode

__all__ = [
    "DamagedRun",
    "ResultsFolderError",
    "blame_folder",
    "checked_identity",
    "differences",
    "library_versions",
    "read_run",
    "with_entries_of",
]

_MAX_DIFFERENCES = 5
_ABSENT = object()


class ResultsFolderError(RuntimeError):
    """A folder cannot be used for a run: not writable, full, in use, or another run's."""


class DamagedRun(ResultsFolderError):
    """The file run.json cannot be trusted."""


@contextmanager
def blame_folder(path: Path, doing: str = "write", *, started: bool = True) -> Iterator[None]:
    """Turn errors of the system into one that says which file, why, and what to do; ``started``: a run is there."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        kept = "What is finished is kept: put that right and run the same command again, it goes on from there."
        raise ResultsFolderError(
            f"could not {doing} {path}: {reason}. {kept if started else 'Put that right, or give another --out.'}"
        ) from error


def library_versions() -> dict[str, str]:
    """The versions of what computes the results."""
    libraries = {name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")}
    python = {"python": platform.python_version(), "machine": platform.machine()}
    return {"srosr": __version__} | libraries | python


def read_run(folder: Path) -> dict[str, Any] | None:
    """The content of run.json; None where there is none."""
    path = folder / "run.json"
    with blame_folder(path, "read"):
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


def checked_identity(identity: dict[str, Any]) -> dict[str, Any]:
    """An identity as it reads back from run.json."""
    try:
        return decode(encode(identity))
    except TypeError as error:
        raise TypeError(f"identity must consist of JSON values: {error}") from None


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What is not the same in two identities, a few at most; empty where all is."""
    found = list(_differences(old, new))
    more = len(found) - _MAX_DIFFERENCES
    return found[:_MAX_DIFFERENCES] + ([f"and {more} more"] if more > 0 else [])


def with_entries_of(identity: dict[str, Any], other: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """An identity with entries that only another one has, in the dict at a path of keys; without a path, as it is."""
    if not path:
        return identity
    first, *rest = path
    mine, theirs = identity.get(first), other.get(first)
    if not (isinstance(mine, dict) and isinstance(theirs, dict)):
        return identity
    return identity | {first: with_entries_of(mine, theirs, tuple(rest)) if rest else theirs | mine}


def _differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{where}.{key}" if where else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from _differences(before, now, f"{where}[{index}]")
    # By their text, NaN is NaN; by their values, 1 is 1.0, but not true.
    elif _shown(old) != _shown(new) and (isinstance(old, bool) or isinstance(new, bool) or old != new):
        yield f"{where} was {_shortened(old)} and is {_shortened(new)} now"


def _shown(value: Any) -> str:
    return "absent" if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def _shortened(value: Any) -> str:
    text = _shown(value)
    return text if len(text) <= 60 else text[:57] + "..."

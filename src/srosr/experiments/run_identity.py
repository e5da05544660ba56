"""The identity of a run, which the file run.json of its folder holds, and the differences between two identities.

Records and identities are JSON files that carry the digest of their content, so that damage is always detected::

    {"sha256": "<64 hexadecimal digits>", "content": {...}}

The digest is of the content in canonical form: keys sorted, no spaces, ASCII, floats by ``repr``, which reads back to
the same bits. NaN and infinities, which JSON lacks, are written as ``{"float":"nan"}``, ``"inf"`` or ``"-inf"``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class DamagedFile(ValueError):
    """Bytes that :func:`encode` did not write."""


def encode(content: dict[str, Any]) -> bytes:
    """Return the bytes of a file.

    The content is None, bool, int, float (with NaN and infinities), str, and lists and dicts (with str keys) of them;
    tuples count as lists, NumPy's numbers and arrays as Python's. Raises TypeError for anything else.
    """
    text = _format_canonically(_convert_to_json(content))
    return f'{{"sha256":"{_digest(text)}","content":{text}}}\n'.encode("ascii")


def decode(data: bytes) -> dict[str, Any]:
    """Return the content that :func:`encode` was given; raise DamagedFile if any bit has changed."""
    try:
        file = json.loads(data.decode("ascii"), parse_constant=_reject_constant)
        content, digest = file["content"], file["sha256"]
        sound = set(file) == {"sha256", "content"} and isinstance(content, dict)
        if not sound or _digest(_format_canonically(content)) != digest:
            raise DamagedFile("its content does not match its digest")
        return _restore_floats(content)
    except DamagedFile:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFile(f"it is not a record file ({type(error).__name__})") from None


def _convert_to_json(value: Any) -> Any:
    """Return the same content in JSON types."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return {"float": str(float(value))}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a record's dict has the key {key!r}; keys must be str.")
        if set(value) == {"float"}:
            raise TypeError('a record has a dict with the single key "float", which encodes NaN; rename the key.')
        return {key: _convert_to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_convert_to_json(item) for item in value]
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return _convert_to_json(value.tolist())
    raise TypeError(f"a record has a {type(value).__name__}, which JSON cannot hold: {str(value)[:80]}.")


def _restore_floats(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"float"}:
            return _NOT_FINITE[value["float"]]
        return {key: _restore_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_restore_floats(item) for item in value]
    return value


def _format_canonically(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _reject_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


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

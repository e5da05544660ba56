"""JSON files that carry the digest of what they hold, so that a damaged one is never taken for a whole one.

::

    {"sha256": "<64 hexadecimal digits>", "content": {...}}

The digest is of the content in canonical form: keys sorted, no spaces, ASCII, floats by ``repr``, which reads back to
the same bits. JSON has no NaN and no infinities; they are written as ``{"float":"nan"}``, ``"inf"`` or ``"-inf"``.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

__all__ = ["DamagedFile", "decode", "encode"]

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class DamagedFile(ValueError):
    """Bytes that are not what :func:`encode` wrote."""


def encode(content: dict[str, Any]) -> bytes:
    """The bytes of a file.

    Parameters
    ----------
    content : dict
        JSON values: None, bool, int, float (NaN and infinities too), str, and lists and dicts (with str keys) of them.
        Tuples count as lists; NumPy's numbers and arrays as Python's.

    Raises
    ------
    TypeError
        If there is anything else in it.
    """
    text = _canonical(_as_json_values(content))
    return f'{{"sha256":"{_digest(text)}","content":{text}}}\n'.encode("ascii")


def decode(data: bytes) -> dict[str, Any]:
    """What :func:`encode` got.

    Raises
    ------
    DamagedFile
        If not every bit of it is there.
    """
    try:
        file = json.loads(data.decode("ascii"), parse_constant=_refuse)
        content, digest = file["content"], file["sha256"]
        sound = set(file) == {"sha256", "content"} and isinstance(content, dict)
        if not sound or _digest(_canonical(content)) != digest:
            raise DamagedFile("its content does not have the digest that stands in it")
        return _revived(content)
    except DamagedFile:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFile(f"it is no file of this kind ({type(error).__name__})") from None


def _as_json_values(value: Any) -> Any:
    """The same in values that JSON has."""
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
            raise TypeError('a record has a dict with the one key "float", which stands for NaN in files; rename it.')
        return {key: _as_json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json_values(item) for item in value]
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return _as_json_values(value.tolist())
    raise TypeError(f"a record has a {type(value).__name__}, which JSON has not: {str(value)[:80]}.")


def _revived(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"float"}:
            return _NOT_FINITE[value["float"]]
        return {key: _revived(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_revived(item) for item in value]
    return value


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")

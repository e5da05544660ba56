"""JSON files that carry the digest of their content, so that damage is always detected.

::

    {"sha256": "<64 hexadecimal digits>", "content": {...}}

The digest is of the content in canonical form: keys sorted, no spaces, ASCII, floats by ``repr``, which reads back to
the same bits. NaN and infinities, which JSON lacks, are written as ``{"float":"nan"}``, ``"inf"`` or ``"-inf"``.
"""

from __future__ import annotations

import hashlib
import json
import math
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

"""JSON of values of any size: a long text is written in pieces, so that other threads go on meanwhile.

``json.dumps`` holds the interpreter until all is written, in a thread too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

#: Parts of a value from which on its text is long, and characters of a text that count as one part.
_MANY, _CHARACTERS = 2000, 100
#: Elements of a list that are written at a time.
_PIECE = 500
_PLAIN = frozenset({str, int, float, bool, type(None)})
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def is_long(value: Any) -> bool:
    """Return whether a value takes long to write; looks at no more of it than it needs to know.

    Examples
    --------
    >>> is_long({"labels": ["a"] * 10}), is_long({"labels": ["a"] * 100_000})
    (False, True)
    """
    left, parts = _MANY, [value]
    while parts and left >= 0:
        part = parts.pop()
        if isinstance(part, str):
            left -= len(part) // _CHARACTERS
        elif isinstance(part, (Mapping, list, tuple)):
            left -= len(part)
            if left >= 0:
                parts += part.values() if isinstance(part, Mapping) else part
    return left < 0


def write_json(value: Any) -> str:
    """Return the JSON of a value; a number that is not finite is a ValueError.

    Examples
    --------
    >>> write_json({"rows": [1, 2], "score": None})
    '{"rows":[1,2],"score":null}'
    """
    return "".join(_write_pieces(value)) if is_long(value) else _encoder.encode(value)


def _write_pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and all(type(name) is str for name in value):
        yield "{"
        for place, (name, part) in enumerate(value.items()):
            yield f"{',' if place else ''}{_encoder.encode(name)}:"
            yield from _write_pieces(part)
        yield "}"
    elif isinstance(value, (list, tuple)):
        yield "["
        for start in range(0, len(value), _PIECE):
            piece = list(value[start : start + _PIECE])
            yield "," if start else ""
            if set(map(type, piece)) <= _PLAIN:
                yield _encoder.encode(piece)[1:-1]
            else:
                for place, part in enumerate(piece):
                    yield "," if place else ""
                    yield from _write_pieces(part)
        yield "]"
    else:
        yield _encoder.encode(value)

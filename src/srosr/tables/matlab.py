"""Arrays of numbers in Matlab files of version 5 to 7.

SciPy reads such files, too, but a few wrong bytes can crash the whole process, and files come from the network.
This reader knows only arrays of numbers and checks every length against the bytes there are.

A file is a header of 128 bytes and a list of elements: a type, a length, the bytes, padded to eight. A variable is an
element of further elements (flags with the class of the array, shape, name, numbers in column order), which can be
compressed as a whole. Numbers are often stored in a smaller type than that of the array.

References
----------
The MathWorks, "MAT-File Format", chapter 1: Level 5 MAT-Files.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from .._support.array_types import AnyArray

_COMPRESSED, _MATRIX = 15, 14
#: Types of stored numbers, and classes of arrays, by their code.
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x0800
_MOST_BYTES = 256 * 1024**2


def read_mat(path: Path, *names: str) -> dict[str, AnyArray]:
    """Read some arrays of a Matlab file, by the names of their variables."""
    found: dict[str, AnyArray] = {}
    for variable, order in _iterate_variables(path):
        found.update(_read_variable(variable, order, names))
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"it has no variable {' and no variable '.join(missing)}")
    return found


def list_mat(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of all variables of a Matlab file, whatever they hold."""
    shapes: dict[str, tuple[int, ...]] = {}
    for variable, order in _iterate_variables(path):
        _, shape, name = _read_head(_iterate_elements(variable, order))
        shapes[name.decode("latin-1")] = tuple(np.frombuffer(shape, f"{order}i4").tolist())
    return shapes


def _iterate_variables(path: Path) -> Iterator[tuple[bytes, str]]:
    """Yield the bytes of each variable, and the byte order."""
    content = path.read_bytes()
    if content.startswith(b"MATLAB 7.3"):
        raise ValueError("it is a Matlab file of version 7.3, so save it with the option -v7")
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise ValueError("it is not a Matlab file of version 5 to 7")
    for kind, body in _iterate_elements(content[128:], order):
        inside = [(kind, body)] if kind != _COMPRESSED else _iterate_elements(_decompress(body), order)
        for inner, variable in inside:
            if inner == _MATRIX:
                yield variable, order


def _iterate_elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the bytes of each element."""
    place = 0
    while place + 8 <= len(content):
        first, length = (int(word) for word in np.frombuffer(content, f"{order}u4", 2, place))
        if first >> 16:  # a short one: type and length in one word, the bytes in the next
            kind, length, start, end = first & 0xFFFF, first >> 16, place + 4, place + 8
            if length > 4:
                raise ValueError("it is damaged: a short element is too long")
        else:
            kind, start = first, place + 8
            end = start + (length if kind == _COMPRESSED else -(-length // 8) * 8)
        if start + length > len(content):
            raise ValueError("it is damaged or cut short: an element goes beyond the end")
        yield kind, content[start : start + length]
        place = end


def _decompress(body: bytes) -> bytes:
    unpack = zlib.decompressobj()
    content = unpack.decompress(body, _MOST_BYTES)
    if not unpack.eof:
        raise ValueError("it is damaged or too large: a compressed variable has no end")
    return content


def _read_head(parts: Iterator[tuple[int, bytes]]) -> tuple[bytes, bytes, bytes]:
    """Return flags, shape and name, which every variable starts with."""
    head = [body for _, body in islice(parts, 3)]
    if len(head) < 3:
        raise ValueError("it is damaged: a variable is not complete")
    return head[0], head[1], head[2]


def _read_variable(body: bytes, order: str, names: tuple[str, ...]) -> dict[str, AnyArray]:
    """Return the array of a variable under its name; an empty dict if the name is not wanted."""
    parts = _iterate_elements(body, order)
    flags, shape, name = _read_head(parts)
    title = name.decode("latin-1")
    if title not in names:
        return {}
    code = int(np.frombuffer(flags, f"{order}u4", 1)[0])
    kind, numbers = next(parts, (0, b""))
    if not kind:
        raise ValueError("it is damaged: a variable is not complete")
    if code & 0xFF not in _CLASSES or code & _COMPLEX or kind not in _STORED:
        raise ValueError(f"its variable {title} is not an array of real numbers")
    sizes = np.frombuffer(shape, f"{order}i4").tolist()
    values = np.frombuffer(numbers, order + _STORED[kind])
    if not sizes or min(sizes) < 0 or math.prod(sizes) != len(values):
        raise ValueError(f"its variable {title} is damaged: {len(values)} numbers for the shape {tuple(sizes)}")
    return {title: values.astype(_CLASSES[code & 0xFF]).reshape(sizes, order="F")}

"""Messages between the server and its child processes: a JSON object and arrays, never a pickle.

A message is four bytes of length (big-endian), a JSON object of that length, and the bytes of the arrays that it
announces under the key ``arrays``, each with name, type and shape. Every length is checked before memory is taken.
"""

from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from .._support.array_types import AnyArray
from .json_text import is_long, write_json

#: Most bytes of the JSON object, and of all arrays of a message.
MOST_TEXT, MOST_BYTES = 128 * 1024**2, 4 * 1024**3
#: Types of arrays that are sent.
TYPES = ("float64", "float32", "int64", "uint8", "bool")
_MOST_ARRAYS, _MOST_AXES = 64, 8
_LENGTH = struct.Struct(">I")
_PIECE = 2**20
#: From so many bytes on a JSON object is parsed in a thread, so that the event loop goes on.
_LONG_TEXT = 2**16


class FrameError(ValueError):
    """What arrived, or is to be sent, is not a message."""


class TooLargeError(FrameError):
    """A message has more than a message may have."""


class Message(NamedTuple):
    """A JSON object and arrays by name."""

    head: dict[str, Any]
    arrays: dict[str, AnyArray]


def pack(head: Mapping[str, Any], arrays: Mapping[str, AnyArray] | None = None) -> list[bytes | memoryview]:
    """Return the parts of a message, to be written one after the other."""
    whole = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    specs = [{"name": name, "type": array.dtype.name, "shape": list(array.shape)} for name, array in whole.items()]
    data = write_json({"head": head, "arrays": specs}).encode("utf-8", "backslashreplace")
    if len(data) > MOST_TEXT:
        raise TooLargeError("the text of the message is too long")
    _make_arrays(specs)
    return [_LENGTH.pack(len(data)) + data, *(array.reshape(-1).view(np.uint8).data for array in whole.values())]


def _check_length(prefix: bytes) -> int:
    (length,) = _LENGTH.unpack(prefix)
    if not 2 <= length <= MOST_TEXT:
        raise FrameError("the length of a message is out of range")
    return int(length)


def _parse(text: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameError("the text of a message is not JSON") from None
    if not isinstance(said, dict) or set(said) != {"head", "arrays"}:
        raise FrameError("a message must have a head and arrays")
    if not isinstance(said["head"], dict) or not isinstance(said["arrays"], list):
        raise FrameError("a message must have a head and arrays")
    return said["head"], said["arrays"]


def _make_arrays(specs: list[dict[str, Any]]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return name, type and shape of the arrays that a message announces, within all limits."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    total = 0
    if len(specs) > _MOST_ARRAYS:
        raise FrameError("a message has too many arrays")
    for spec in specs:
        if not isinstance(spec, dict) or set(spec) != {"name", "type", "shape"}:
            raise FrameError("an array must have a name, a type and a shape")
        name, kind, shape = spec["name"], spec["type"], spec["shape"]
        if not isinstance(name, str) or name in found or kind not in TYPES or not isinstance(shape, list):
            raise FrameError("an array has an invalid name, type or shape")
        if len(shape) > _MOST_AXES or not all(type(n) is int and 0 <= n <= MOST_BYTES for n in shape):
            raise FrameError("an array has an invalid shape")
        total += math.prod(shape) * np.dtype(kind).itemsize
        if total > MOST_BYTES:
            raise TooLargeError("the arrays of a message are too large")
        found[name] = kind, tuple(shape)
    return found


def _make_space(specs: list[dict[str, Any]], arrays: dict[str, AnyArray]) -> Iterator[memoryview]:
    """Make the arrays that a message announces, and yield their memory piece by piece, to be filled."""
    for name, (kind, shape) in _make_arrays(specs).items():
        array = np.empty(math.prod(shape), kind)
        space = array.view(np.uint8).data
        for start in range(0, len(space), _PIECE):
            yield space[start : start + _PIECE]
        arrays[name] = array.reshape(shape)


# -- blocking streams, in the child ---------------------------------------------------------------------


def write_message(stream: IO[bytes], head: Mapping[str, Any], arrays: Mapping[str, AnyArray] | None = None) -> None:
    """Write a message and flush it."""
    for part in pack(head, arrays):
        stream.write(part)
    stream.flush()


def read_message(stream: IO[bytes]) -> Message | None:
    """Read a message; None at the end of the stream, also in the middle of a message."""
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        return None
    text = _read_exactly(stream, _check_length(prefix))
    if text is None:
        return None
    head, specs = _parse(text)
    arrays: dict[str, AnyArray] = {}
    for space in _make_space(specs, arrays):
        done = 0
        while done < len(space):
            piece = stream.read(len(space) - done)
            if not piece:
                return None
            space[done : done + len(piece)] = piece
            done += len(piece)
    return Message(head, arrays)


def _read_exactly(stream: IO[bytes], length: int) -> bytes | None:
    """Read so many bytes, taking memory only for those that arrive."""
    content = bytearray()
    while len(content) < length:
        piece = stream.read(min(_PIECE, length - len(content)))
        if not piece:
            return None
        content += piece
    return bytes(content)


# -- asyncio, in the server ------------------------------------------------------------------------------


async def pack_off_loop(
    head: Mapping[str, Any], arrays: Mapping[str, AnyArray] | None = None
) -> list[bytes | memoryview]:
    """Return the parts of a message; those of a large one are made in a thread."""
    is_large = sum(array.nbytes for array in (arrays or {}).values()) > _PIECE or is_long(head)
    return await asyncio.to_thread(pack, head, arrays) if is_large else pack(head, arrays)


async def send_parts(writer: asyncio.StreamWriter, parts: list[bytes | memoryview]) -> None:
    """Write a message piece by piece, so that no copy of its arrays is kept."""
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(view), _PIECE):
            writer.write(view[start : start + _PIECE])
            await writer.drain()


async def receive_message(reader: asyncio.StreamReader, expect: Callable[[int], None] | None = None) -> Message | None:
    """Read a message; None at the end of the stream, also in the middle of a message.

    ``expect`` is called with the bytes of its arrays before there is memory for them, and may raise.
    """
    try:
        length = _check_length(await reader.readexactly(_LENGTH.size))
        content = bytearray()
        while len(content) < length:
            content += await reader.readexactly(min(_PIECE, length - len(content)))
        text = bytes(content)
        head, specs = await asyncio.to_thread(_parse, text) if length > _LONG_TEXT else _parse(text)
        if expect is not None and specs:
            expect(sum(math.prod(shape) * np.dtype(kind).itemsize for kind, shape in _make_arrays(specs).values()))
        arrays: dict[str, AnyArray] = {}
        for space in _make_space(specs, arrays):
            space[:] = await reader.readexactly(len(space))
    except asyncio.IncompleteReadError:
        return None
    return Message(head, arrays)

"""Values and arrays in the form that a model file can hold, and back, with the same checks both ways.

Settings become JSON; arrays become arrays of numbers in little-endian C order, with an *encoding* where safetensors has
no such type (text, bytes, objects).
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from .._support.array_types import AnyArray

_MAX_DEPTH = 32
_MAX_DIMENSIONS = 32
_MAX_BITS = 1024
# Entries of an array that takes no bytes: the file's size says nothing about (n, 0), and n may be allocated later.
_MAX_EMPTY = 2**24

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class InvalidContent(Exception):
    """A value or an array that a model file cannot hold, or one in a file that is not valid."""


def dump_json(value: Any) -> str:
    """Return a value as JSON in ASCII without spaces."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def parse_json(text: bytes | str, what: str) -> Any:
    """Parse JSON that has no double keys, NaN or infinities; ``what`` names the text in errors."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(items)
        if len(out) < len(items):
            raise InvalidContent(f"{what} has the same key twice")
        return out

    def number(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise InvalidContent(f"{what} has a number that is too large")
        return value

    def constant(name: str) -> None:
        raise InvalidContent(f"{what} has {name}, which is not JSON")

    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        return json.loads(decoded, object_pairs_hook=pairs, parse_float=number, parse_constant=constant)
    except RecursionError:
        raise InvalidContent(f"{what} is nested too deeply") from None
    except ValueError as error:  # bad JSON, not UTF-8, integers of thousands of digits
        raise InvalidContent(f"{what} is not JSON in UTF-8 ({type(error).__name__})") from None


def check_json_value(value: Any, where: str, depth: int = 0) -> Any:
    """Return a JSON value in plain Python types, which comes back as it is; raise if it is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        if value.bit_length() > _MAX_BITS:
            raise InvalidContent(
                f"{where} is an integer of {value.bit_length()} bits; at most {_MAX_BITS} can be stored"
            )
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise InvalidContent(
                f"{where} is {value}, which is not valid JSON; put it into arrays, as numpy.array({value})"
            )
        return value
    if type(value) in (list, dict) and depth >= _MAX_DEPTH:
        raise InvalidContent(f"{where[:40]}... is nested more than {_MAX_DEPTH} levels deep")
    if type(value) is list:
        return [check_json_value(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                raise InvalidContent(f"{where} has the key {key!r}; keys must be str")
        return {key: check_json_value(item, f"{where}[{key[:40]!r}]", depth + 1) for key, item in value.items()}
    raise InvalidContent(
        f"{where} is of type {type(value).__name__}; only None, bool, int, float, str, list and dict can be stored"
    )


# -- arrays ----------------------------------------------------------------------------------------------


def encode_array(array: Any) -> tuple[AnyArray, dict[str, Any] | None]:
    """Return an array in a type that safetensors has, little-endian in C order, and its encoding, None for numbers."""
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise InvalidContent(f"must be a NumPy array (without a mask), got {type(array).__name__}")
    kind = array.dtype.kind
    if kind == "O":
        return _encode_objects(array)
    dtype = array.dtype.newbyteorder("<")
    if kind in "US":
        text = np.asarray(array, dtype=dtype, order="C")
        tensor = text.reshape(*text.shape, 1).view(np.dtype("<u4" if kind == "U" else "u1"))
        if kind == "U":
            _check_code_points(tensor)
        return tensor, {"as": "text" if kind == "U" else "bytes"}
    if dtype not in DTYPE_NAMES:
        raise InvalidContent(
            f"is of dtype {array.dtype}, which a model file cannot hold; convert it to float64, int64, bool or str"
        )
    tensor = np.asarray(array, dtype=dtype, order="C")
    if kind == "b":
        tensor = tensor.view(np.uint8) != 0  # Bytes other than 0 and 1 mean True in memory, and are invalid in files.
        tensor = np.asarray(tensor)
    return tensor, None


def _encode_objects(array: AnyArray) -> tuple[AnyArray, dict[str, Any]]:
    items = [item.item() if isinstance(item, np.generic) else item for item in array.reshape(-1)]
    shape = list(array.shape)
    if items and all(type(item) is bytes for item in items):
        texts = [item.decode("latin-1") for item in items]
        return _to_bytes(texts), {"as": "bytes objects", "shape": shape}
    for item in items:
        if type(item) not in (type(None), bool, int, float, str):
            raise InvalidContent(
                f"holds an object of type {type(item).__name__}; an array of objects can be stored if they are all "
                "bytes, or all None, bool, int, float or str"
            )
        check_json_value(item, "holds a value that")
    return _to_bytes(items), {"as": "objects", "shape": shape}


def _to_bytes(items: list[Any]) -> AnyArray:
    return np.frombuffer(dump_json(items).encode("ascii"), dtype=np.uint8)


def decode_array(tensor: AnyArray, encoding: Any, name: str) -> AnyArray:
    """Return the array that :func:`encode_array` was given."""
    if encoding is None:
        return tensor
    try:
        if encoding == {"as": "text"} and tensor.dtype == np.uint32 and tensor.ndim and tensor.shape[-1]:
            _check_code_points(tensor)
            return tensor.view(f"U{tensor.shape[-1]}").reshape(tensor.shape[:-1])
        if encoding == {"as": "bytes"} and tensor.dtype == np.uint8 and tensor.ndim and tensor.shape[-1]:
            return tensor.view(f"S{tensor.shape[-1]}").reshape(tensor.shape[:-1])
        if type(encoding) is dict and set(encoding) == {"as", "shape"} and tensor.dtype == np.uint8:
            kind, shape = encoding["as"], encoding["shape"]
            if kind in ("objects", "bytes objects"):
                return _decode_objects(tensor, shape, is_bytes=kind == "bytes objects")
    except InvalidContent as fault:
        raise InvalidContent(f"array {name!r} {fault}") from None
    raise InvalidContent(f"array {name!r} has an unknown encoding, or one that does not fit it")


def _decode_objects(tensor: AnyArray, shape: Any, is_bytes: bool) -> AnyArray:
    items = parse_json(tensor.tobytes(), "holds a list that")
    check_shape(shape)
    if type(items) is not list or len(items) != math.prod(shape):
        raise InvalidContent("does not hold as many objects as its shape needs")
    for item in items:
        if type(item) not in ((str,) if is_bytes else (type(None), bool, int, float, str)):
            raise InvalidContent("holds objects of a wrong type")
        check_json_value(item, "holds a value that")
    out = np.empty(len(items), dtype=object)
    try:
        out[:] = [item.encode("latin-1") for item in items] if is_bytes else items
    except UnicodeEncodeError:
        raise InvalidContent("holds bytes larger than 255") from None
    return out.reshape(shape)


def check_shape(shape: Any) -> None:
    if type(shape) is not list or len(shape) > _MAX_DIMENSIONS:
        raise InvalidContent(f"should have a shape of at most {_MAX_DIMENSIONS} dimensions")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise InvalidContent("has lengths in its shape that are not natural numbers")
    if 0 in shape and math.prod(max(length, 1) for length in shape) > _MAX_EMPTY:
        raise InvalidContent(f"is empty with dimensions that multiply to more than {_MAX_EMPTY}")


def _check_code_points(tensor: AnyArray) -> None:
    if tensor.max(initial=0) > 0x10FFFF:
        raise InvalidContent("holds text with characters that do not exist")

"""Model files: the state of a fitted model in one file that is checked before it is believed.

A model file is a `safetensors <https://github.com/huggingface/safetensors>`_ file: the length of a header, the header
in JSON, and the bytes of the arrays. What a model is beyond its arrays stands in the header's ``__metadata__`` as JSON.
Nothing in it is code, and reading it runs nothing of it: there is no pickle.

A file begins, after the eight bytes of the header's length, with exactly ::

    {"__metadata__":{"format":"srosr","sha256":"<64 hexadecimal digits>"

The digest is taken over the whole file with zeros in its own place, and is compared before anything else is looked at:
whatever happened to the file on its way, not one bit has changed. A digest is no signature, though. Whoever makes a
file to do harm can compute it as well, so every number in the header is checked too, before anything is allocated.

Rules for changes of the format, see also ``docs/model-files.md``:

- A reader reads all versions up to its own, and says so when a file is newer than itself.
- The beginning above, ``format_version`` and the way the digest is computed are the same in all versions.
- A new setting with a default, which gives what was computed without it, does not change the version.
- Anything else does: a new meaning, a new name, an array that is added or missing, a new encoding. Then
  :data:`FORMAT_VERSION` is raised by one and :data:`UPGRADES` gets a function from the old version to the new one.
- Of each version the tests keep a file, which is never written again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import safetensors

from .. import __version__
from .._support.array_types import AnyArray
from .._support.atomic_files import PathLike, open_atomically
from ..exceptions import ModelFileError

__all__ = ["FORMAT_VERSION", "UPGRADES", "ModelState", "blame_file", "read_model", "write_model"]

#: The version of the format that is written. All versions up to it are read.
FORMAT_VERSION = 2

_NO_DIGEST = b"0" * 64
_BEGINNING = b'{"__metadata__":{"format":"srosr","sha256":"'
_DIGEST_AT = 8 + len(_BEGINNING)
_METADATA = ("format", "sha256", "format_version", "written_by", "model")

# Limits for what is written and for what is believed. A header holds settings, no data: 4 MiB are plenty, and bound
# what a parser can be made to allocate.
_MAX_HEADER = 2**22
_MAX_DEPTH = 32
_MAX_DIMENSIONS = 32
_MAX_BITS = 1024
# Entries of an array that takes no bytes: the file's size says nothing about (n, 0), and n may be allocated later.
_MAX_HOLLOW = 2**24
_CHUNK = 2**24

_ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,127}", re.ASCII)
_KIND = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}", re.ASCII)
_WRITER = re.compile(r"[A-Za-z0-9_.+!-]{1,64}", re.ASCII)
_VERSION = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)

_DTYPES: dict[str, np.dtype[Any]] = {
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
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

# What files of others begin with.
_SIGNATURES = (
    (b"PK\x03\x04", "a zip archive (as .npz and PyTorch files are)"),
    (b"\x93NUMPY", "a NumPy .npy file"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x78\x9c", "zlib data (as compressed joblib files are)"),
    (b"{", "a JSON text"),
    (b"version https://git-lfs", "a Git LFS pointer (fetch the file itself with: git lfs pull)"),
)


@dataclass(frozen=True, eq=False)
class ModelState:
    """What a model file holds: everything that a fitted model consists of, as values and arrays.

    Parameters
    ----------
    kind : str
        What it is the state of, such as "SROSRClassifier".
    settings : dict
        JSON values only: None, bool, int, finite float, str, and lists and dicts (with str keys) of them. They come
        back with the same types and values, floats to the last bit.
    arrays : dict of str to ndarray
        Numbers (float16 to float64, signed and unsigned integers, bool), text (``<U``), bytes (``S``), and arrays of
        objects that are all bytes or all of them None, bool, int, finite float or str, for labels. They come back
        with the same dtype in native byte order, shape and values, bit for bit; NumPy scalars in arrays of objects
        come back as Python's. Names are letters, digits and ``_ . / -``.
    version : int
        Version of the format; of a state that was read, always :data:`FORMAT_VERSION`, since older ones are upgraded.
    written_by : str
        The version of srosr that wrote the file.
    """

    kind: str
    settings: dict[str, Any]
    arrays: dict[str, AnyArray]
    version: int = FORMAT_VERSION
    written_by: str = __version__


#: From a version of the format to the next: ``UPGRADES[v]`` turns a state of version v into one of version v + 1.
UPGRADES: dict[int, Callable[[ModelState], ModelState]] = {
    1: lambda state: state,  # Version 2 may hold how files became features; a model of version 1 was fitted to arrays.
}


class _Fault(Exception):
    """Why a file whose digest is right is no valid model file nevertheless."""


# -- to and from files ---------------------------------------------------------------------------------------


def write_model(path: PathLike, state: ModelState) -> None:
    """Write a state to a file: all of it, or nothing.

    After an error or Ctrl-C, an old file is as it was. Equal states (with settings in the same order) give equal bytes.

    Parameters
    ----------
    path : str or path-like
        In a folder that exists. Links and permissions are treated as :func:`open_atomically` says.
    state : ModelState
        Of the current version of the format; ``written_by`` is not looked at but written anew.

    Raises
    ------
    ValueError
        If the state holds something that a model file cannot.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from srosr.model_files.file_format import ModelState, read_model, write_model
    >>> state = ModelState("Example", {"alpha": 0.1}, {"classes": np.array(["cat", "dog"])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     write_model(path, state)
    ...     again = read_model(path)
    >>> again.kind, again.settings, again.arrays
    ('Example', {'alpha': 0.1}, {'classes': array(['cat', 'dog'], dtype='<U3')})
    """
    header, tensors = _encode(state)
    with open_atomically(path) as file:
        digest = hashlib.sha256()
        for part in _parts(header, tensors):
            digest.update(part)
            file.write(part)
        # The digest is of what was written, even if somebody changed an array meanwhile.
        file.seek(_DIGEST_AT)
        file.write(digest.hexdigest().encode("ascii"))


def read_model(path: PathLike) -> ModelState:
    """Read a state from a file that :func:`write_model` wrote, of this or an older version of the format.

    The file is read once, into memory; its size on the disk, never a number in it, says how much is allocated: about
    twice that size, for a moment. Arrays are writable and belong to the caller.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    ModelState
        Of the current version of the format.

    Raises
    ------
    ModelFileError
        If the file is damaged, cut short, another program's, of a newer version, or not a regular file.
    OSError
        If there is no such file, it is a folder, or it may not be read.
    """
    name = _shown(path)
    data = _bytes_of(path, name)
    digest = hashlib.sha256(data[:_DIGEST_AT])
    digest.update(_NO_DIGEST)
    digest.update(memoryview(data)[_DIGEST_AT + 64 :])
    if digest.hexdigest().encode("ascii") != data[_DIGEST_AT : _DIGEST_AT + 64]:
        raise ModelFileError(
            f"{name} is damaged: its SHA-256 does not match, so it was cut short or changed after it was written; "
            "copy it again, or save the model again."
        )
    try:
        header = _header(data)
        metadata = _metadata(header)
        version = int(metadata["format_version"])
        if version > FORMAT_VERSION:
            raise ModelFileError(
                f"{name} has format version {version}, and this srosr ({__version__}) reads versions up to "
                f"{FORMAT_VERSION}; upgrade srosr."
            )
        state = _decode(data, header, metadata, version)
    except ModelFileError:
        raise
    except _Fault as fault:
        raise ModelFileError(_invalid(name, str(fault))) from None
    except Exception as error:  # A fault that is not foreseen is the file's all the same.
        raise ModelFileError(_invalid(name, f"{type(error).__name__}: {error}")) from error
    while state.version < FORMAT_VERSION:
        upgrade = UPGRADES.get(state.version)
        if upgrade is None:
            raise ModelFileError(
                f"{name} has format version {state.version}, which no released srosr wrote; save the model again."
            )
        with blame_file(path):
            state = replace(upgrade(state), version=state.version + 1)
    return state


@contextmanager
def blame_file(path: PathLike) -> Iterator[None]:
    """Turn whatever goes wrong while a model is rebuilt from a file's state into a :class:`ModelFileError`.

    A file may be whole and yet lack a setting, or hold arrays that do not fit together.

    Examples
    --------
    >>> from srosr.model_files.file_format import blame_file
    >>> with blame_file("model.safetensors"):  # doctest: +ELLIPSIS
    ...     {}["alpha"]
    Traceback (most recent call last):
        ...
    srosr.exceptions.ModelFileError: 'model.safetensors' is not a valid model file: KeyError: 'alpha'; ...
    """
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(_invalid(_shown(path), f"{type(error).__name__}: {error}")) from error


def _shown(path: PathLike) -> str:
    return repr(os.fspath(path))


def _invalid(name: str, reason: str) -> str:
    # A reason may quote the file, so it is kept short and printable.
    reason = "".join(c if c.isprintable() else "?" for c in reason[:200]).rstrip(".")
    return f"{name} is not a valid model file: {reason}; save the model again with srosr."


def _parts(header: bytes, tensors: list[AnyArray]) -> Iterator[Any]:
    yield header
    for tensor in tensors:
        flat = tensor.reshape(-1).view(np.uint8)
        for start in range(0, len(flat), _CHUNK):
            yield flat[start : start + _CHUNK]


def _bytes_of(path: PathLike, name: str) -> bytes:
    """All bytes of a file that begins like a model file."""
    # A pipe that nobody writes to would keep us waiting.
    no_wait = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda file, flags: os.open(file, flags | no_wait)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{name} is not a regular file; give the path of a file that srosr saved.")
        _check_beginning(file.read(_DIGEST_AT + 64), status.st_size, name)
        file.seek(0)
        try:
            data = file.read(status.st_size)
        except (MemoryError, OverflowError):
            raise ModelFileError(
                f"{name} has {status.st_size} bytes, more than there is memory for; is it a model that you saved?"
            ) from None
    # What is used are these bytes, whatever has happened to the file since its beginning was looked at.
    _check_beginning(data, len(data), name)
    return data


def _check_beginning(data: bytes, size: int, name: str) -> None:
    if not size:
        raise ModelFileError(f"{name} is empty; give the path of a file that srosr saved, or save the model again.")
    length = int.from_bytes(data[:8], "little")
    begun = data[8:_DIGEST_AT]
    if begun != _BEGINNING[: len(begun)] or not begun:
        what = _looks_like(data, size, length)
        raise ModelFileError(f"{name} is not a srosr model file{what}; give the path of a file that srosr saved.")
    if size < _DIGEST_AT + 64 or not len(_BEGINNING) + 64 < length <= min(_MAX_HEADER, size - 8):
        raise ModelFileError(
            f"{name} is damaged: its header should have {length} bytes and the whole file has {size}; "
            "copy it again, or save the model again."
        )


def _looks_like(data: bytes, size: int, length: int) -> str:
    if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return ": it looks like a pickle, which could run anything and is never opened"
    for signature, what in _SIGNATURES:
        if data.startswith(signature):
            return f": it looks like {what}"
    if data[8:9] == b"{" and length <= size - 8:
        return ": it looks like a safetensors file of another program"
    return ""


# -- from a state to bytes -----------------------------------------------------------------------------------


def _encode(state: ModelState) -> tuple[bytes, list[AnyArray]]:
    """The beginning of the file up to the arrays, with zeros for the digest, and the arrays in their order."""
    if state.version != FORMAT_VERSION:
        raise ValueError(f"version must be {FORMAT_VERSION}, the one that is written, got {state.version!r}.")
    if not (isinstance(state.kind, str) and _KIND.fullmatch(state.kind)):
        raise ValueError(f"kind must be a name of letters, digits, '_' and '.', got {state.kind!r}.")
    if not isinstance(state.settings, dict):
        raise ValueError(f"settings must be a dict, got {type(state.settings).__name__}.")
    try:
        settings = _plain(state.settings, "settings")
    except _Fault as fault:
        raise ValueError(f"{fault}.") from None
    stored: dict[str, AnyArray] = {}
    encodings: dict[str, Any] = {}
    for name, array in state.arrays.items():
        if not (isinstance(name, str) and _ARRAY_NAME.fullmatch(name)) or name == "__metadata__":
            raise ValueError(f"arrays: a name must be of letters, digits and '_', '.', '/', '-', got {name!r}.")
        try:
            tensor, encoding = _stored(array)
            _check_shape(list(tensor.shape))
        except _Fault as fault:
            raise ValueError(f"arrays[{name!r}] {fault}.") from None
        stored[name] = tensor
        if encoding is not None:
            encodings[name] = encoding
    metadata = {
        "format": "srosr",
        "sha256": _NO_DIGEST.decode("ascii"),
        "format_version": str(FORMAT_VERSION),
        "written_by": __version__,
        "model": _json({"kind": state.kind, "settings": settings, "encodings": dict(sorted(encodings.items()))}),
    }
    # Wide types first, so that each array begins at a multiple of its own. The library would write the entries of the
    # metadata in any order, and needs a second copy of the arrays.
    names = sorted(stored, key=lambda name: (-stored[name].itemsize, name))
    entries: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in names:
        begin, end = end, end + stored[name].nbytes
        dtype = _DTYPE_NAMES[stored[name].dtype]
        entries[name] = {"dtype": dtype, "shape": list(stored[name].shape), "data_offsets": [begin, end]}
    header = _json(entries).encode("ascii")
    header += b" " * (-len(header) % 8)
    if len(header) > _MAX_HEADER:
        raise ValueError(
            f"settings and names take {len(header)} bytes of at most {_MAX_HEADER}; put what is large into arrays."
        )
    return len(header).to_bytes(8, "little") + header, [stored[name] for name in names]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    """A JSON value of plain Python types, which comes back as it is; the same rules for writing and for reading."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        if value.bit_length() > _MAX_BITS:
            raise _Fault(f"{where} is an integer of {value.bit_length()} bits; at most {_MAX_BITS} can be stored")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise _Fault(f"{where} is {value}, which JSON does not have; put it into arrays, as numpy.array({value})")
        return value
    if type(value) in (list, dict) and depth >= _MAX_DEPTH:
        raise _Fault(f"{where[:40]}... is nested more than {_MAX_DEPTH} levels deep")
    if type(value) is list:
        return [_plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                raise _Fault(f"{where} has the key {key!r}; keys must be str")
        return {key: _plain(item, f"{where}[{key[:40]!r}]", depth + 1) for key, item in value.items()}
    raise _Fault(
        f"{where} is of type {type(value).__name__}; only None, bool, int, float, str, list and dict can be stored"
    )


def _stored(array: Any) -> tuple[AnyArray, dict[str, Any] | None]:
    """An array as numbers that safetensors has, in order and little-endian, and how to get the array back from them."""
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise _Fault(f"must be a NumPy array (without a mask), got {type(array).__name__}")
    kind = array.dtype.kind
    if kind == "O":
        return _stored_objects(array)
    dtype = array.dtype.newbyteorder("<")
    if kind in "US":
        text = np.asarray(array, dtype=dtype, order="C")
        tensor = text.reshape(*text.shape, 1).view(np.dtype("<u4" if kind == "U" else "u1"))
        if kind == "U":
            _check_code_points(tensor)
        return tensor, {"as": "text" if kind == "U" else "bytes"}
    if dtype not in _DTYPE_NAMES:
        raise _Fault(
            f"is of dtype {array.dtype}, which a model file cannot hold; convert it to float64, int64, bool or str"
        )
    tensor = np.asarray(array, dtype=dtype, order="C")
    if kind == "b":
        tensor = tensor.view(np.uint8) != 0  # Bytes other than 0 and 1 mean True in memory, and are refused in files.
        tensor = np.asarray(tensor)
    return tensor, None


def _stored_objects(array: AnyArray) -> tuple[AnyArray, dict[str, Any]]:
    items = [item.item() if isinstance(item, np.generic) else item for item in array.reshape(-1)]
    shape = list(array.shape)
    if items and all(type(item) is bytes for item in items):
        texts = [item.decode("latin-1") for item in items]
        return _utf8(texts), {"as": "bytes objects", "shape": shape}
    for item in items:
        if type(item) not in (type(None), bool, int, float, str):
            raise _Fault(
                f"holds an object of type {type(item).__name__}; an array of objects can be stored if they are all "
                "bytes, or all None, bool, int, float or str"
            )
        _plain(item, "holds a value that")
    return _utf8(items), {"as": "objects", "shape": shape}


def _utf8(items: list[Any]) -> AnyArray:
    return np.frombuffer(_json(items).encode("ascii"), dtype=np.uint8)


# -- from bytes to a state -----------------------------------------------------------------------------------


def _strict_json(text: bytes | str, what: str) -> Any:
    """A value from JSON without double keys, NaN or infinities."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(items)
        if len(out) < len(items):
            raise _Fault(f"{what} has the same key twice")
        return out

    def number(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise _Fault(f"{what} has a number that is too large")
        return value

    def constant(name: str) -> None:
        raise _Fault(f"{what} has {name}, which is not JSON")

    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        return json.loads(decoded, object_pairs_hook=pairs, parse_float=number, parse_constant=constant)
    except RecursionError:
        raise _Fault(f"{what} is nested too deeply") from None
    except ValueError as error:  # bad JSON, not UTF-8, integers of thousands of digits
        raise _Fault(f"{what} is not JSON in UTF-8 ({type(error).__name__})") from None


def _header(data: bytes) -> dict[str, Any]:
    header = _strict_json(data[8 : 8 + int.from_bytes(data[:8], "little")], "its header")
    if type(header) is not dict:
        raise _Fault("its header is not a JSON object")
    return header


def _metadata(header: dict[str, Any]) -> dict[str, str]:
    """The metadata, as far as it is the same in all versions."""
    metadata = header.get("__metadata__")
    if type(metadata) is not dict or not all(type(value) is str for value in metadata.values()):
        raise _Fault("its metadata is not an object of texts")
    if metadata.get("format") != "srosr" or not _VERSION.fullmatch(metadata.get("format_version", "")):
        raise _Fault("its metadata has no format version")
    return metadata


def _decode(data: bytes, header: dict[str, Any], metadata: dict[str, str], version: int) -> ModelState:
    if set(metadata) != set(_METADATA) or len(metadata["sha256"]) != len(_NO_DIGEST):
        raise _Fault(f"its metadata should be {', '.join(_METADATA)}")
    if not _WRITER.fullmatch(metadata["written_by"]):
        raise _Fault("written_by is no version")
    model = _strict_json(metadata["model"], "its model text")
    if type(model) is not dict or set(model) != {"kind", "settings", "encodings"}:
        raise _Fault("its model text should have kind, settings and encodings")
    kind, settings, encodings = model["kind"], model["settings"], model["encodings"]
    if type(kind) is not str or not _KIND.fullmatch(kind):
        raise _Fault("kind is no name")
    if type(settings) is not dict or type(encodings) is not dict:
        raise _Fault("settings and encodings should be objects")
    settings = _plain(settings, "settings")
    tensors = _tensors(data, header)
    for name in encodings:
        if name not in tensors:
            raise _Fault(f"encodings names {name!r}, and there is no such array")
    arrays = {name: _restored(tensors.pop(name), encodings.get(name), name) for name in sorted(tensors)}
    return ModelState(kind, settings, arrays, version, metadata["written_by"])


def _tensors(data: bytes, header: dict[str, Any]) -> dict[str, AnyArray]:
    """The arrays as they are stored, when all that the header says about them has been found to fit the file."""
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    for name, entry in entries.items():
        if not _ARRAY_NAME.fullmatch(name):
            raise _Fault(f"an array has the name {name[:40]!r}, which is not allowed")
        _check_entry(name, entry)
    at = 0
    for begin, end in sorted(tuple(entry["data_offsets"]) for entry in entries.values()):
        if begin != at:
            raise _Fault("its arrays overlap or leave gaps")
        at = end
    available = len(data) - 8 - int.from_bytes(data[:8], "little")
    if at != available:
        raise _Fault(f"its arrays should take {at} bytes and there are {available}")
    out = {}
    for name, view in safetensors.deserialize(data):
        entry = entries.pop(name)
        if view["dtype"] != entry["dtype"] or list(view["shape"]) != entry["shape"]:
            raise _Fault(f"array {name!r} is read in two ways")
        dtype = _DTYPES[entry["dtype"]]
        array: AnyArray = np.ndarray(tuple(entry["shape"]), dtype, view["data"])
        if dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise _Fault(f"array {name!r} has truth values other than 0 and 1")
        array = np.asarray(array, dtype=dtype.newbyteorder("="))
        out[name] = np.require(array, requirements=["C", "A", "W"])
    if entries:
        raise _Fault("some of its arrays cannot be read")
    return out


def _check_entry(name: str, entry: Any) -> None:
    if type(entry) is not dict or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _Fault(f"array {name!r} should have dtype, shape and data_offsets")
    if type(entry["dtype"]) is not str or entry["dtype"] not in _DTYPES:
        raise _Fault(f"array {name!r} is of an unknown dtype")
    offsets = entry["data_offsets"]
    if type(offsets) is not list or len(offsets) != 2 or not all(type(offset) is int for offset in offsets):
        raise _Fault(f"array {name!r} should have two offsets")
    try:
        _check_shape(entry["shape"])
    except _Fault as fault:
        raise _Fault(f"array {name!r} {fault}") from None
    if not 0 <= offsets[0] <= offsets[1]:
        raise _Fault(f"array {name!r} ends before it begins")
    if math.prod(entry["shape"]) * _DTYPES[entry["dtype"]].itemsize != offsets[1] - offsets[0]:
        raise _Fault(f"array {name!r} has another number of bytes than its shape needs")


def _check_shape(shape: Any) -> None:
    if type(shape) is not list or len(shape) > _MAX_DIMENSIONS:
        raise _Fault(f"should have a shape of at most {_MAX_DIMENSIONS} dimensions")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise _Fault("has lengths in its shape that are no natural numbers")
    if 0 in shape and math.prod(max(length, 1) for length in shape) > _MAX_HOLLOW:
        raise _Fault(f"is empty with dimensions that multiply to more than {_MAX_HOLLOW}")


def _check_code_points(tensor: AnyArray) -> None:
    if tensor.max(initial=0) > 0x10FFFF:
        raise _Fault("holds text with characters that do not exist")


def _restored(tensor: AnyArray, encoding: Any, name: str) -> AnyArray:
    """What :func:`_stored` was given."""
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
                return _restored_objects(tensor, shape, is_bytes=kind == "bytes objects")
    except _Fault as fault:
        raise _Fault(f"array {name!r} {fault}") from None
    raise _Fault(f"array {name!r} has an unknown encoding, or one that does not fit it")


def _restored_objects(tensor: AnyArray, shape: Any, is_bytes: bool) -> AnyArray:
    items = _strict_json(tensor.tobytes(), "holds a list that")
    _check_shape(shape)
    if type(items) is not list or len(items) != math.prod(shape):
        raise _Fault("holds another number of objects than its shape needs")
    for item in items:
        if type(item) not in ((str,) if is_bytes else (type(None), bool, int, float, str)):
            raise _Fault("holds objects of a wrong type")
        _plain(item, "holds a value that")
    out = np.empty(len(items), dtype=object)
    try:
        out[:] = [item.encode("latin-1") for item in items] if is_bytes else items
    except UnicodeEncodeError:
        raise _Fault("holds bytes larger than 255") from None
    return out.reshape(shape)

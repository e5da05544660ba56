"""Model files: the state of a fitted model in one file, which is checked before anything in it is used.

A model file is a `safetensors <https://github.com/huggingface/safetensors>`_ file: the length of a header, the header
in JSON, and the bytes of the arrays. Everything else that makes up a model is JSON in the header's ``__metadata__``.
A file holds no code and no pickle, and reading it runs nothing.

A file begins, after the eight bytes of the header's length, with exactly ::

    {"__metadata__":{"format":"srosr","sha256":"<64 hexadecimal digits>"

The digest is computed over the whole file with zeros in its own place and compared before anything else is read, so
that accidental damage is always found. It is not a signature: somebody who forges a file can compute it as well.
Therefore every number in the header is checked, too, before anything is allocated.

Rules for changes of the format, see also ``docs/model-files.md``:

- A reader reads all versions up to its own; for a newer file it asks for an upgrade of srosr.
- The beginning above, ``format_version`` and the way the digest is computed are the same in all versions.
- A new setting whose default gives the results computed without it does not change the version.
- Anything else does: a new meaning or name, an array added or removed, a new encoding. Then
  :data:`FORMAT_VERSION` is raised by one and :data:`UPGRADES` gets a function from the old version to the new one.
- The tests keep a file of each version, which is never written again.
"""

from __future__ import annotations

import hashlib
import math
import mmap
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
from .encoding import (
    DTYPE_NAMES,
    DTYPES,
    InvalidContent,
    check_json_value,
    check_shape,
    decode_array,
    dump_json,
    encode_array,
    parse_json,
)

#: The version of the format that is written. All versions up to it are read.
FORMAT_VERSION = 5

_NO_DIGEST = b"0" * 64
_BEGINNING = b'{"__metadata__":{"format":"srosr","sha256":"'
_DIGEST_AT = 8 + len(_BEGINNING)
_METADATA = ("format", "sha256", "format_version", "written_by", "model")

# For writing and reading alike. A header holds settings, not data: 4 MiB are plenty, and bound what a parser can be
# made to allocate.
_MAX_HEADER = 2**22
_CHUNK = 2**24
# Arrays of at least so many bytes stay in a file that is mapped.
_MAPPED_BYTES = 2**20

_ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,127}", re.ASCII)
_KIND = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}", re.ASCII)
_WRITER = re.compile(r"[A-Za-z0-9_.+!-]{1,64}", re.ASCII)
_VERSION = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)

# How files of other programs begin.
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
    """Everything that a fitted model consists of, as JSON values and arrays: the content of a model file."""

    #: The name of the classifier, such as "SROSRClassifier".
    kind: str
    #: JSON values only: None, bool, int, finite float, str, and lists and dicts (with str keys) of them. They come back
    #: with the same types and values, floats to the last bit.
    settings: dict[str, Any]
    #: Numbers (float16 to float64, signed and unsigned integers, bool), text (``<U``), bytes (``S``), and arrays of
    #: objects, for labels: all bytes, or all None, bool, int, finite float or str. They come back with the same dtype
    #: in native byte order, shape and values, bit for bit; NumPy scalars in arrays of objects come back as Python's.
    #: Names are letters, digits and ``_ . / -``.
    arrays: dict[str, AnyArray]
    #: Version of the format. A state that was read always has :data:`FORMAT_VERSION`: older ones are upgraded.
    version: int = FORMAT_VERSION
    #: The version of srosr that wrote the file.
    written_by: str = __version__


#: From a version of the format to the next: ``UPGRADES[v]`` turns a state of version v into one of version v + 1. No
#: older version was released.
UPGRADES: dict[int, Callable[[ModelState], ModelState]] = {}


# -- to and from files ---------------------------------------------------------------------------------------


def write_model(path: PathLike, state: ModelState) -> None:
    """Write a state to a file: all of it, or nothing.

    After an error or Ctrl-C, an old file is as it was. Equal states (with settings in the same order) give equal bytes.
    The state must be of the current version of the format; ``written_by`` is replaced by the running version. A
    ValueError says what in it a model file cannot hold.

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


def read_model(path: PathLike, *, mapped: bool = False) -> ModelState:
    """Read a state from a file that :func:`write_model` wrote, of this or an older version of the format.

    The file is read once, into memory. Its size on the disk, never a number in it, decides how much is allocated: about
    twice that size, for a moment. Arrays are writable and belong to the caller. The state is of the current version of
    the format. A :class:`ModelFileError` says that the file is damaged, another program's, or of a newer version.

    With ``mapped`` large arrays stay in the file: they are read-only, take memory only as far as they are used, and all
    processes that map the file share it. Replacing the file, as :func:`write_model` does, leaves them as they were.
    """
    name = repr(os.fspath(path))
    data = _read_bytes(path, name, mapped)
    digest = hashlib.sha256(data[:_DIGEST_AT])
    digest.update(_NO_DIGEST)
    digest.update(memoryview(data)[_DIGEST_AT + 64 :])
    if digest.hexdigest().encode("ascii") != data[_DIGEST_AT : _DIGEST_AT + 64]:
        raise ModelFileError(
            f"{name} is damaged: its SHA-256 does not match, so it was cut short or changed after it was written; "
            "copy it again, or save the model again."
        )
    with raise_as_model_file_error(path):
        header, metadata = _read_header(data)
        version = int(metadata["format_version"])
        if version > FORMAT_VERSION:
            raise ModelFileError(
                f"{name} has format version {version}, and this srosr ({__version__}) reads versions up to "
                f"{FORMAT_VERSION}; upgrade srosr."
            )
        state = _decode(data, header, metadata, version)
    while state.version < FORMAT_VERSION:
        upgrade = UPGRADES.get(state.version)
        if upgrade is None:
            raise ModelFileError(
                f"{name} has format version {state.version}, which no released srosr wrote; fit the model again."
            )
        with raise_as_model_file_error(path):
            state = replace(upgrade(state), version=state.version + 1)
    return state


@contextmanager
def raise_as_model_file_error(path: PathLike) -> Iterator[None]:
    """Turn any error while a model is read from a file or rebuilt from its state into a :class:`ModelFileError`.

    A file whose digest is right can lack a setting, or hold arrays that do not fit together.

    Examples
    --------
    >>> from srosr.model_files.file_format import raise_as_model_file_error
    >>> with raise_as_model_file_error("model.safetensors"):  # doctest: +ELLIPSIS
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
        reason = str(error) if isinstance(error, InvalidContent) else f"{type(error).__name__}: {error}"
        # A reason may quote the file, so it is kept short and printable.
        reason = "".join(c if c.isprintable() else "?" for c in reason[:200]).rstrip(".")
        raise ModelFileError(
            f"{os.fspath(path)!r} is not a valid model file: {reason}; save the model again with srosr."
        ) from error


def _parts(header: bytes, tensors: list[AnyArray]) -> Iterator[Any]:
    yield header
    for tensor in tensors:
        flat = tensor.reshape(-1).view(np.uint8)
        for start in range(0, len(flat), _CHUNK):
            yield flat[start : start + _CHUNK]


def _read_bytes(path: PathLike, name: str, mapped: bool) -> Any:
    """Read or map all bytes of a file that begins like a model file."""
    # Opening a pipe without a writer would wait forever.
    no_wait = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda file, flags: os.open(file, flags | no_wait)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{name} is not a regular file; give the path of a file that srosr saved.")
        _check_beginning(file.read(_DIGEST_AT + 64), status.st_size, name)
        file.seek(0)
        try:
            data: Any
            if mapped:
                data = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
            else:
                data = file.read(status.st_size)
        except (MemoryError, OverflowError):
            raise ModelFileError(
                f"{name} has {status.st_size} bytes, more than there is memory for; is it a model that you saved?"
            ) from None
    # The file may have changed since its beginning was checked.
    _check_beginning(data, len(data), name)
    return data


def _check_beginning(data: Any, size: int, name: str) -> None:
    if not size:
        raise ModelFileError(f"{name} is empty; give the path of a file that srosr saved, or save the model again.")
    length = int.from_bytes(data[:8], "little")
    begun = data[8:_DIGEST_AT]
    if begun != _BEGINNING[: len(begun)] or not begun:
        what = _guess_kind(data, size, length)
        raise ModelFileError(f"{name} is not a srosr model file{what}; give the path of a file that srosr saved.")
    if size < _DIGEST_AT + 64 or not len(_BEGINNING) + 64 < length <= min(_MAX_HEADER, size - 8):
        raise ModelFileError(
            f"{name} is damaged: its header should have {length} bytes and the whole file has {size}; "
            "copy it again, or save the model again."
        )


def _guess_kind(data: bytes, size: int, length: int) -> str:
    """Return the part of a message that says what a file of another program looks like, "" if nothing known."""
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
    """Return the file's bytes up to the arrays, with zeros for the digest, and the arrays in the order of the file."""
    if state.version != FORMAT_VERSION:
        raise ValueError(f"version must be {FORMAT_VERSION}, the one that is written, got {state.version!r}.")
    if not (isinstance(state.kind, str) and _KIND.fullmatch(state.kind)):
        raise ValueError(f"kind must be a name of letters, digits, '_' and '.', got {state.kind!r}.")
    if not isinstance(state.settings, dict):
        raise ValueError(f"settings must be a dict, got {type(state.settings).__name__}.")
    try:
        settings = check_json_value(state.settings, "settings")
    except InvalidContent as fault:
        raise ValueError(f"{fault}.") from None
    stored: dict[str, AnyArray] = {}
    encodings: dict[str, Any] = {}
    for name, array in state.arrays.items():
        if not (isinstance(name, str) and _ARRAY_NAME.fullmatch(name)) or name == "__metadata__":
            raise ValueError(f"arrays: a name must be of letters, digits and '_', '.', '/', '-', got {name!r}.")
        try:
            tensor, encoding = encode_array(array)
            check_shape(list(tensor.shape))
        except InvalidContent as fault:
            raise ValueError(f"arrays[{name!r}] {fault}.") from None
        stored[name] = tensor
        if encoding is not None:
            encodings[name] = encoding
    metadata = {
        "format": "srosr",
        "sha256": _NO_DIGEST.decode("ascii"),
        "format_version": str(FORMAT_VERSION),
        "written_by": __version__,
        "model": dump_json({"kind": state.kind, "settings": settings, "encodings": dict(sorted(encodings.items()))}),
    }
    # Wide types first, so that each array is aligned. The header is not left to the safetensors library because that
    # writes the metadata in any order and needs a second copy of the arrays.
    names = sorted(stored, key=lambda name: (-stored[name].itemsize, name))
    entries: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in names:
        begin, end = end, end + stored[name].nbytes
        dtype = DTYPE_NAMES[stored[name].dtype]
        entries[name] = {"dtype": dtype, "shape": list(stored[name].shape), "data_offsets": [begin, end]}
    header = dump_json(entries).encode("ascii")
    header += b" " * (-len(header) % 8)
    if len(header) > _MAX_HEADER:
        raise ValueError(
            f"settings and names take {len(header)} bytes of at most {_MAX_HEADER}; put what is large into arrays."
        )
    return len(header).to_bytes(8, "little") + header, [stored[name] for name in names]


# -- from bytes to a state -----------------------------------------------------------------------------------


def _read_header(data: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the header, and the metadata in it, checked as far as it is the same in all versions."""
    header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")], "its header")
    if type(header) is not dict:
        raise InvalidContent("its header is not a JSON object")
    metadata = header.get("__metadata__")
    if type(metadata) is not dict or not all(type(value) is str for value in metadata.values()):
        raise InvalidContent("its metadata is not an object of texts")
    if metadata.get("format") != "srosr" or not _VERSION.fullmatch(metadata.get("format_version", "")):
        raise InvalidContent("its metadata has no format version")
    return header, metadata


def _decode(data: Any, header: dict[str, Any], metadata: dict[str, str], version: int) -> ModelState:
    if set(metadata) != set(_METADATA) or len(metadata["sha256"]) != len(_NO_DIGEST):
        raise InvalidContent(f"its metadata should be {', '.join(_METADATA)}")
    if not _WRITER.fullmatch(metadata["written_by"]):
        raise InvalidContent("written_by is not a version")
    model = parse_json(metadata["model"], "its model text")
    if type(model) is not dict or set(model) != {"kind", "settings", "encodings"}:
        raise InvalidContent("its model text should have kind, settings and encodings")
    kind, settings, encodings = model["kind"], model["settings"], model["encodings"]
    if type(kind) is not str or not _KIND.fullmatch(kind):
        raise InvalidContent("kind is not a name")
    if type(settings) is not dict or type(encodings) is not dict:
        raise InvalidContent("settings and encodings should be objects")
    settings = check_json_value(settings, "settings")
    tensors = _read_tensors(data, header)
    for name in encodings:
        if name not in tensors:
            raise InvalidContent(f"encodings names the array {name!r}, which does not exist")
    arrays = {name: decode_array(tensors.pop(name), encodings.get(name), name) for name in sorted(tensors)}
    return ModelState(kind, settings, arrays, version, metadata["written_by"])


def _read_tensors(data: Any, header: dict[str, Any]) -> dict[str, AnyArray]:
    """Return the arrays as they are stored, after checking that what the header says about them fits the file."""
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    for name, entry in entries.items():
        if not _ARRAY_NAME.fullmatch(name):
            raise InvalidContent(f"an array has the name {name[:40]!r}, which is not allowed")
        _check_entry(name, entry)
    at = 0
    for begin, end in sorted(tuple(entry["data_offsets"]) for entry in entries.values()):
        if begin != at:
            raise InvalidContent("its arrays overlap or leave gaps")
        at = end
    available = len(data) - 8 - int.from_bytes(data[:8], "little")
    if at != available:
        raise InvalidContent(f"its arrays should take {at} bytes and there are {available}")
    if isinstance(data, mmap.mmap):
        return {name: _map_tensor(data, name, entry, len(data) - available) for name, entry in entries.items()}
    out = {}
    for name, view in safetensors.deserialize(data):
        entry = entries.pop(name)
        if view["dtype"] != entry["dtype"] or list(view["shape"]) != entry["shape"]:
            raise InvalidContent(f"array {name!r} is read in two ways")
        dtype = DTYPES[entry["dtype"]]
        array: AnyArray = np.ndarray(tuple(entry["shape"]), dtype, view["data"])
        if dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise InvalidContent(f"array {name!r} has truth values other than 0 and 1")
        array = np.asarray(array, dtype=dtype.newbyteorder("="))
        out[name] = np.require(array, requirements=["C", "A", "W"])
    if entries:
        raise InvalidContent("some of its arrays cannot be read")
    return out


def _map_tensor(data: mmap.mmap, name: str, entry: dict[str, Any], start: int) -> AnyArray:
    """Return an array whose entry has been checked: a view of the file if it is large, else a copy."""
    dtype, (begin, end) = DTYPES[entry["dtype"]], entry["data_offsets"]
    array: AnyArray = np.ndarray(tuple(entry["shape"]), dtype, data, offset=start + begin)
    if dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        raise InvalidContent(f"array {name!r} has truth values other than 0 and 1")
    large = end - begin >= _MAPPED_BYTES and dtype.isnative and array.flags.aligned
    return array if large else np.array(array, dtype=dtype.newbyteorder("="))


def _check_entry(name: str, entry: Any) -> None:
    if type(entry) is not dict or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise InvalidContent(f"array {name!r} should have dtype, shape and data_offsets")
    if type(entry["dtype"]) is not str or entry["dtype"] not in DTYPES:
        raise InvalidContent(f"array {name!r} is of an unknown dtype")
    offsets = entry["data_offsets"]
    if type(offsets) is not list or len(offsets) != 2 or not all(type(offset) is int for offset in offsets):
        raise InvalidContent(f"array {name!r} should have two offsets")
    try:
        check_shape(entry["shape"])
    except InvalidContent as fault:
        raise InvalidContent(f"array {name!r} {fault}") from None
    if not 0 <= offsets[0] <= offsets[1]:
        raise InvalidContent(f"array {name!r} ends before it begins")
    if math.prod(entry["shape"]) * DTYPES[entry["dtype"]].itemsize != offsets[1] - offsets[0]:
        raise InvalidContent(f"array {name!r} does not have as many bytes as its shape needs")

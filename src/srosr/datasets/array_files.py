"""Arrays in the formats data sets come in: idx and npz files.

Each function raises a `ValueError`, or what a library raises, on a file that is not what it should be; the loaders put
the name of the file before it (:func:`srosr.datasets.fetch.reading`).
"""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np

from .._support.array_types import AnyArray

__all__ = ["read_idx", "read_npz"]


def read_idx(path: Path) -> AnyArray:
    """An idx file of bytes, gzipped or not.

    Two zero bytes, the type (8 for bytes), the number of axes, the sizes as big-endian 32-bit integers, the bytes.
    """
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else open(path, "rb") as stream:
        head = stream.read(4)
        if len(head) < 4 or head[:3] != b"\0\0\x08" or not 1 <= head[3] <= 4:
            raise ValueError("it is not an idx file of bytes")
        sizes = stream.read(4 * head[3])
        if len(sizes) < 4 * head[3]:
            raise ValueError("it ends within its header")
        shape = tuple(np.frombuffer(sizes, ">u4").tolist())
        # Read to the end and not beyond the bytes announced, for a wrong header may announce anything.
        content = bytearray()
        wanted = math.prod(shape)
        while len(content) <= wanted and (chunk := stream.read(min(1 << 20, wanted + 1 - len(content)))):
            content += chunk
    if len(content) != wanted:
        amount = "fewer" if len(content) < wanted else "more"
        raise ValueError(f"its header announces {wanted} bytes, but it has {amount}")
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_npz(path: Path, *names: str, optional: tuple[str, ...] = ()) -> dict[str, AnyArray]:
    """Some arrays of an npz file; ``optional`` ones only where they are there. Objects (pickles) are refused."""
    # Opened here, for NumPy leaves a file open that turns out to be damaged.
    with open(path, "rb") as stream:
        if stream.read(2) != b"PK":  # NumPy would take anything else for a pickle, and advise to trust it
            raise ValueError("it is not an npz file")
        stream.seek(0)
        loaded = np.load(stream, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise ValueError("it is not an npz file")
        missing = [name for name in names if name not in loaded.files]
        if missing:
            there = ", ".join(loaded.files) or "none"
            raise ValueError(f"it has no array {' and no array '.join(missing)}; its arrays: {there}")
        return {name: loaded[name] for name in (*names, *optional) if name in loaded.files}

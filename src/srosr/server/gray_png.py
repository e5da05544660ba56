"""Gray pictures as PNG in data URIs, without Pillow."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np

from .._support.array_types import AnyArray, Array

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_EIGHT_BITS, _GRAY = 8, 0


def draw_ink(values: Array) -> AnyArray:
    """Return numbers as gray values of eight bits: the largest is ink, the smallest paper, as in figures."""
    low, high = float(values.min()), float(values.max())
    shares = (high - values) / (high - low) if high > low else np.ones(values.shape)
    return np.round(255 * shares).astype(np.uint8)


def make_data_uri(picture: AnyArray) -> str:
    """Return a picture, (height, width) of uint8, as the address of an image."""
    return "data:image/png;base64," + b64encode(write_png(picture)).decode("ascii")


def write_png(picture: AnyArray) -> bytes:
    """Return a picture, (height, width) of uint8, as the content of a PNG file."""
    height, width = picture.shape
    # Each line starts with the number of its filter: 0, none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), picture], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, _EIGHT_BITS, _GRAY, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )

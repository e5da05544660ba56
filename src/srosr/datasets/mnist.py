"""MNIST: handwritten digits."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np

from .._support.array_types import AnyArray
from .dataset import Dataset, DatasetError
from .fetch import DataFile, check_fingerprint, find_or_fetch


def _file(name: str, md5: str) -> DataFile:
    homes = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
    return DataFile("mnist", {f"{name}.gz": f"md5:{md5}", name: None}, tuple(f"{home}{name}.gz" for home in homes))


# The MD5 sums are those that torchvision publishes (torchvision/datasets/mnist.py).
FILES = {
    "train": (
        _file("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        _file("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"),
    ),
    "test": (
        _file("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
        _file("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"),
    ),
}
FINGERPRINT = "206ec348bce09e8aedb9801a0bd7aee444d6bff27263a4792000f460c291a575"


def load_mnist(*, download: bool = True) -> Dataset:
    """Load MNIST: 60,000 training and 10,000 test pictures of handwritten digits, 28×28 pixels.

    Parameters
    ----------
    download : bool, default True
        Whether the four files (12 MB) may be downloaded if they are not found.

    Returns
    -------
    Dataset
        ``X`` (70000, 784) uint8, training samples first; ``part`` is ``"train"`` or ``"test"``.

    References
    ----------
    Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document recognition", Proceedings
    of the IEEE 86, 1998.
    """
    X, y, part = [], [], []
    for name, (images, labels) in FILES.items():
        X.append(find_or_fetch("mnist", images, read_idx, download=download))
        y.append(find_or_fetch("mnist", labels, read_idx, download=download))
        part.append(np.full(len(y[-1]), name))
    try:
        pixels = np.concatenate([pictures.reshape(len(pictures), -1) for pictures in X])
        source = "MNIST, the four idx files of the original distribution; pixels as they are"
        data = Dataset("mnist", pixels, np.concatenate(y), tuple("0123456789"), source, np.concatenate(part))
        return check_fingerprint(data, FINGERPRINT)
    except (ValueError, DatasetError) as error:
        reason = str(error).rstrip(".")
        raise DatasetError(f"mnist: the four files are not MNIST: {reason}. {FILES['train'][0].advise()}") from error


def read_idx(path: Path) -> AnyArray:
    """Read an idx file of bytes, gzipped or not.

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
        # Chunk by chunk, and one byte more than announced: a wrong header can announce anything.
        content = bytearray()
        wanted = math.prod(shape)
        while len(content) <= wanted and (chunk := stream.read(min(1 << 20, wanted + 1 - len(content)))):
            content += chunk
    if len(content) != wanted:
        amount = "fewer" if len(content) < wanted else "more"
        raise ValueError(f"its header announces {wanted} bytes, but it has {amount}")
    return np.frombuffer(content, np.uint8).reshape(shape)

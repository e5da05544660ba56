"""a-Pascal and a-Yahoo: objects described by attributes."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import numpy as np

from .._support.array_types import AnyArray
from ..tables.arrays import read_npz
from .dataset import Dataset
from .fetch import DataFile, check_fingerprint, find_or_fetch

# No checksum of the archive is published; its content is checked by the fingerprint.
FILE = DataFile(
    "uiuc_attributes",
    {"attribute_data.tar.gz": None, "apascal_train.txt": None, "uiuc_attributes.npz": None},
    ("http://vision.cs.uiuc.edu/attributes/attribute_data.tar.gz",),
)
FINGERPRINT = "975957dcb8bceb61dd7168cc9a40b4c9251940b313faec4cab7e92fdac2f0757"
PARTS = ("apascal_train", "apascal_test", "ayahoo_test")
# fmt: off
CLASS_NAMES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat",
    "chair", "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant",
    "sheep", "sofa", "train", "tvmonitor", "donkey", "monkey", "goat", "wolf",
    "jetski", "zebra", "centaur", "mug", "statue", "building", "bag", "carriage",
)
# fmt: on
"""Twenty of a-Pascal, then twelve of a-Yahoo, in the order of the authors' class_names.txt."""

_N_ATTRIBUTES = 64
_MOST_BYTES = 16 * 1024**2


def load_uiuc_attributes(*, download: bool = True) -> Dataset:
    """Load UIUC attributes: 12,695 objects of 20 classes (a-Pascal) and 2644 of twelve others (a-Yahoo).

    Each object is described by 64 attributes that annotators found present or absent. 989 objects have none of them,
    and only 4252 of the 15,339 descriptions are distinct.

    Parameters
    ----------
    download : bool, default True
        Whether the archive of annotations may be downloaded if it is not found. The pictures are not needed.

    Returns
    -------
    Dataset
        ``X`` (15339, 64) uint8 of zeros and ones, 32 classes, ``part`` ``"apascal_train"`` (6340 objects),
        ``"apascal_test"`` (6355) or ``"ayahoo_test"`` (2644).

    References
    ----------
    A. Farhadi, I. Endres, D. Hoiem, D. Forsyth, "Describing objects by their attributes", CVPR 2009.
    """
    return find_or_fetch("uiuc", FILE, _read, download=download)


def _read(path: Path) -> Dataset:
    if path.suffix == ".npz":
        found = read_npz(path, "X", "y", "split")
        X, y, part = found["X"], found["y"], found["split"]
    elif path.suffix == ".txt":
        X, y, part = _parse_parts(lambda name: (path.parent / name).read_bytes())
    else:
        with tarfile.open(path) as tar:
            X, y, part = _parse_parts(lambda name: _read_member(tar, name))
    source = "a-Pascal and a-Yahoo attribute annotations (UIUC), 64 attributes as they are"
    return check_fingerprint(Dataset("uiuc", X, y, CLASS_NAMES, source, part), FINGERPRINT)


def _read_member(tar: tarfile.TarFile, name: str) -> bytes:
    """Return the content of a file of the archive by its name, in any folder."""
    for member in tar.getmembers():
        if PurePosixPath(member.name).name == name and member.isreg() and member.size <= _MOST_BYTES:
            content = tar.extractfile(member)
            if content is not None:
                return content.read()
    raise ValueError(f"it has no file {name}")


def _parse_parts(content: Callable[[str], bytes]) -> tuple[AnyArray, AnyArray, AnyArray]:
    tables = [_parse(content(f"{part}.txt"), f"{part}.txt") for part in PARTS]
    X = np.concatenate([attributes for attributes, _ in tables])
    y = np.concatenate([classes for _, classes in tables])
    return X, y, np.repeat(PARTS, [len(classes) for _, classes in tables])


def _parse(content: bytes, name: str) -> tuple[AnyArray, AnyArray]:
    """Parse lines of a picture's name, a class, the four sides of a box and 64 zeros or ones."""
    place = {class_name: number for number, class_name in enumerate(CLASS_NAMES)}
    rows, classes = [], []
    for number, line in enumerate(content.decode("ascii").splitlines(), 1):
        words = line.split()
        bits = "".join(words[6:])
        if len(words) != 6 + _N_ATTRIBUTES or words[1] not in place or len(bits) != _N_ATTRIBUTES or bits.strip("01"):
            raise ValueError(f"line {number} of {name} is not a name, a class, four numbers and 64 attributes")
        rows.append(bits)
        classes.append(place[words[1]])
    attributes = np.frombuffer("".join(rows).encode(), np.uint8).reshape(-1, _N_ATTRIBUTES) - ord("0")
    return attributes, np.array(classes, dtype=np.int64)

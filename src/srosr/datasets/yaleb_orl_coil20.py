"""Faces and objects as Deng Cai distributes them: pictures of 32×32 pixels in Matlab files.

A file has ``fea``, one row of 1024 pixels per picture, column by column, and ``gnd``, classes from 1. No checksums are
published; the content must have the fingerprint of the data this library was tested with.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from ..tables.arrays import read_npz
from ..tables.matlab import read_mat
from .dataset import Dataset
from .fetch import DataFile, check_fingerprint, find_or_fetch

_HOME = "http://www.cad.zju.edu.cn/home/dengcai/Data/"

YALEB_FILE = DataFile(
    "yaleb",
    {"YaleB_32x32.mat": None, "yaleb3232.mat": None},
    (f"{_HOME}YaleB/YaleB_32x32.mat",),
    hint="The file this library was tested with has the SHA-256 "
    "3fbbda4eb781b9bb28025189677b6727706e114eb0215bbfd718f1f4fcb54b99.",
)
COIL20_FILE = DataFile("coil20", {"COIL20.mat": None, "coil20_32x32.npz": None}, (f"{_HOME}COIL20/COIL20.mat",))
ORL_FILE = DataFile("orl", {"ORL_32x32.mat": None, "orl_32x32.npz": None}, (f"{_HOME}ORL/ORL_32x32.mat",))

FINGERPRINTS = {
    "yaleb": "4d47c0683889766dfbb0439fa62f44ea2db3858da93739f28b2ac93cce3f6203",
    "coil20": "ec3985a9150fcb2e383d64d807269e9b871f827256a6739608323d33b71f03b9",
    "orl": "82da51a6cd3bf78c0481bfe005e9b6c04641a075f10e850afeb6420218f27b6d",
}
_SOURCES = {
    "yaleb": "Extended Yale B, cropped frontal faces, 32×32 pixels (D. Cai); pixels as they are, column by column",
    "coil20": "COIL-20, 32×32 pixels within 0..1 (D. Cai); column by column",
    "orl": "ORL (AT&T) faces, 32×32 pixels (D. Cai); pixels as they are, column by column",
}


def load_yaleb(*, download: bool = True) -> Dataset:
    """Load Extended Yale B: 2414 frontal faces of 38 people under 59 to 64 illuminations each, 32×32 pixels.

    Parameters
    ----------
    download : bool, default True
        Whether the file (2 MB) may be downloaded if it is not found.

    Returns
    -------
    Dataset
        ``X`` (2414, 1024) uint8; ``X[i].reshape(32, 32).T`` is the picture. The classes are ``"1"`` to ``"38"``.

    References
    ----------
    A. Georghiades, P. Belhumeur, D. Kriegman, "From few to many: illumination cone models for face recognition under
    variable lighting and pose", IEEE TPAMI 23, 2001. K. C. Lee, J. Ho, D. Kriegman, "Acquiring linear subspaces for
    face recognition under variable lighting", IEEE TPAMI 27, 2005.
    """
    return find_or_fetch("yaleb", YALEB_FILE, partial(_read, "yaleb", 38), download=download)


def load_coil20(*, download: bool = True) -> Dataset:
    """Load COIL-20: 20 objects, each seen from 72 directions, 32×32 pixels.

    Parameters
    ----------
    download : bool, default True
        Whether the file may be downloaded if it is not found.

    Returns
    -------
    Dataset
        ``X`` (1440, 1024) float32 within 0..1, the classes ``"1"`` to ``"20"``.

    References
    ----------
    S. A. Nene, S. K. Nayar, H. Murase, "Columbia Object Image Library (COIL-20)", report CUCS-005-96, 1996.
    """
    return find_or_fetch("coil20", COIL20_FILE, partial(_read, "coil20", 20), download=download)


def load_orl(*, download: bool = True) -> Dataset:
    """Load the ORL faces: 40 people, ten pictures of each, 32×32 pixels.

    Parameters
    ----------
    download : bool, default True
        Whether the file may be downloaded if it is not found.

    Returns
    -------
    Dataset
        ``X`` (400, 1024) uint8, the classes ``"1"`` to ``"40"``.

    References
    ----------
    F. S. Samaria, A. C. Harter, "Parameterisation of a stochastic model for human face identification", IEEE WACV 1994.
    """
    return find_or_fetch("orl", ORL_FILE, partial(_read, "orl", 40), download=download)


def _read(name: str, n_classes: int, path: Path) -> Dataset:
    if path.suffix == ".npz":
        found = read_npz(path, "X", "y")
        X, y = found["X"], found["y"]
    else:
        found = read_mat(path, "fea", "gnd")
        X, y = found["fea"], found["gnd"].ravel().astype(np.int64) - 1
    if name == "coil20":
        X = X.astype(np.float32)
    elif X.dtype.kind == "f" and X.min() >= 0 and X.max() <= 255 and np.array_equal(X, np.floor(X)):
        X = X.astype(np.uint8)  # Matlab stores bytes as floating-point numbers, too
    class_names = tuple(str(number) for number in range(1, n_classes + 1))
    return check_fingerprint(Dataset(name, X, y, class_names, _SOURCES[name]), FINGERPRINTS[name])

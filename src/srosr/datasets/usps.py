"""USPS: handwritten digits from envelopes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from .._support.array_types import AnyArray
from ..tables.arrays import read_npz
from ..tables.matlab import read_mat
from .dataset import Dataset
from .fetch import DataFile, check_fingerprint, find_file, find_or_fetch

_DIGITS = tuple("0123456789")
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"

SPLIT_FILE = DataFile("usps", {"usps_7291_2007.npz": None})
# The MD5 sums are those that torchvision publishes (torchvision/datasets/usps.py).
TRAIN_FILE = DataFile("usps", {"usps.bz2": "md5:ec16c51db3855ca6c91edd34d0e9b197"}, (f"{_LIBSVM}usps.bz2",))
TEST_FILE = DataFile("usps", {"usps.t.bz2": "md5:8ea070ee2aca1ac39742fdd1ef5ed118"}, (f"{_LIBSVM}usps.t.bz2",))
ALL_FILE = DataFile(
    "usps", {"usps_all.mat": None, "usps_all_11000.npz": None}, ("https://cs.nyu.edu/~roweis/data/usps_all.mat",)
)
SPLIT_FINGERPRINT = "a914e9aa93921e87b963b37397459481379380c3a2a32c388d68f342f865781a"
ALL_FINGERPRINT = "8a1c461d9343173c8871c33f0261ebb2cd788f935aede91fb0f591917d57fa26"


def load_usps(variant: Literal["split", "all"] = "split", *, download: bool = True) -> Dataset:
    """Load USPS: pictures of handwritten digits, 16×16 pixels.

    The two variants are normalized differently and must not be mixed.

    Parameters
    ----------
    variant : {"split", "all"}, default "split"
        The standard split into 7291 training and 2007 test samples, or the 11,000 samples, 1100 per digit, without one.
        The test part of the split is harder than the training part.
    download : bool, default True
        Whether files may be downloaded if they are not found.

    Returns
    -------
    Dataset
        ``"split"``: ``X`` (9298, 256) float32 within 0..1 and ``part`` ``"train"`` or ``"test"``. The files in
        circulation differ in the order of samples and of pixels; therefore the samples of a part and class are sorted
        by their pixels, and rows of 16 pixels are rows of the picture, whichever file was read.
        ``"all"``: ``X`` (11000, 256) uint8, the digits 1 to 9 and 0 one after another.

    References
    ----------
    J. J. Hull, "A database for handwritten text recognition research", IEEE TPAMI 16, 1994.
    """
    if variant == "all":
        return find_or_fetch("usps-all", ALL_FILE, _read_all, download=download)
    if variant != "split":
        raise ValueError(f'variant must be "split" or "all", got {variant!r}.')
    if find_file(SPLIT_FILE) is not None:
        return find_or_fetch("usps", SPLIT_FILE, _read_split, download=download)
    parts = [find_or_fetch("usps", file, _read_libsvm, download=download) for file in (TRAIN_FILE, TEST_FILE)]
    (X, y), (X_test, y_test) = parts
    part = np.repeat(["train", "test"], [len(y), len(y_test)])
    return _sort_samples(np.concatenate([X, X_test]), np.concatenate([y, y_test]), part)


def _read_split(path: Path) -> Dataset:
    """Read the npz file, whose rows of 16 pixels are columns of the picture."""
    found = read_npz(path, "X", "y", "split")
    X = found["X"].reshape(-1, 16, 16).swapaxes(1, 2).reshape(-1, 256)
    return check_fingerprint(_sort_samples(X, found["y"], found["split"]), SPLIT_FINGERPRINT)


def _read_libsvm(path: Path) -> tuple[AnyArray, AnyArray]:
    """Return pixels within 0..1 and digits; the file has -1..1 and the classes 1..10."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path), n_features=256, zero_based=False)
    return (X.toarray() + 1) / 2, y.astype(np.int64) - 1


def _sort_samples(X: AnyArray, y: AnyArray, part: AnyArray) -> Dataset:
    X = np.ascontiguousarray(X, dtype=np.float32)
    # The last key counts most: training samples first, then by digit, then by pixels from the first on.
    order = np.lexsort((*X.T[::-1], y, part == "test"))
    source = "USPS, the standard split; pixels scaled from -1..1 to 0..1, samples of a class sorted by their pixels"
    return Dataset("usps", X[order], y[order], _DIGITS, source, part[order])


def _read_all(path: Path) -> Dataset:
    if path.suffix == ".mat":
        pixels = read_mat(path, "data")["data"]
        if pixels.shape != (256, 1100, 10):
            raise ValueError(f"its data have the shape {pixels.shape}, not (256, 1100, 10)")
        X, y = pixels.T.reshape(11000, 256), np.repeat([1, 2, 3, 4, 5, 6, 7, 8, 9, 0], 1100)
    else:
        found = read_npz(path, "X", "y")
        X, y = found["X"], found["y"]
    data = Dataset("usps-all", X, y, _DIGITS, "USPS, 1100 samples a digit, as S. Roweis distributed them")
    return check_fingerprint(data, ALL_FINGERPRINT)

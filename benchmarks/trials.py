"""Open set trials on real data: known classes, training samples and test samples.

A trial is determined by the name of its set and a seed, so that every method, and every later version of it, sees the
same splits. Known classes provide training and test samples, unknown classes test samples only. Files are looked up
under ``SROSR_DATA_DIR``; a set with a missing file raises `Unavailable` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from .problems import YALEB_FILES, find, read_mnist

CALTECH101_FILES = ("caltech101/caltech101_dsift_spm_counts.npz",)
CLIP_FILES = ("caltech256/caltech256_clip_vitb32_valtest.npz",)
UIUC_FILES = ("uiuc_attributes/uiuc_attributes.npz",)
USPS_FILES = ("usps/usps_7291_2007.npz",)
USPS_ALL_FILES = ("usps/usps_all_11000.npz",)
LETTER_FILES = ("letter/letter.npz",)
COIL_FILES = ("coil20/coil20_32x32.npz",)
ORL_FILES = ("orl/orl_32x32.npz",)

#: Label of test samples of unknown classes.
UNKNOWN = -1


@dataclass(frozen=True)
class Trial:
    """Training samples of the known classes, and test samples of known and unknown ones.

    Attributes
    ----------
    X, y : ndarray
        Training samples and their classes (not negative).
    X_test, y_test : ndarray
        Test samples; `UNKNOWN` is the label of every unknown class.
    """

    X: NDArray
    y: NDArray
    X_test: NDArray
    y_test: NDArray

    @property
    def is_unknown(self) -> NDArray[np.bool_]:
        """Return which test samples belong to no known class."""
        return self.y_test == UNKNOWN

    @property
    def repeated_share(self) -> float:
        """Return the share of unknown test rows that equal a training row: no method can reject those."""
        seen = {row.tobytes() for row in np.ascontiguousarray(self.X)}
        rows = np.ascontiguousarray(self.X_test[self.is_unknown])
        return float(np.mean([row.tobytes() in seen for row in rows]))


@dataclass(frozen=True)
class TrialSet:
    """A data set with the protocol of its trials.

    Attributes
    ----------
    title : str
        Its name, and how many classes are known and unknown.
    designed : bool
        Whether the calibrated rule was designed on it; on the others it was only confirmed.
    draw : callable
        From a seed to a `Trial`.
    extra : bool
        Whether it serves one question only (few samples, or test samples like the training samples) and is left out
        by default.
    tail_size : float
        The paper's share of errors in a tail for this set; for sets it does not use, that of Caltech-256.
    """

    title: str
    designed: bool
    draw: Callable[[int], Trial]
    extra: bool = False
    tail_size: float = 0.25


def _trial(
    rng: np.random.Generator,
    X: NDArray,
    known: NDArray,
    train: list[NDArray],
    test: list[NDArray],
    unknown: NDArray,
) -> Trial:
    """Build a trial from the rows of each known class (training and test) and the rows of unknown classes."""
    rows, tests = np.concatenate(train), np.concatenate(test)
    y = np.repeat(known, [len(part) for part in train])
    y_test = np.repeat(known, [len(part) for part in test])
    order = rng.permutation(len(rows))
    return Trial(
        np.asarray(X[rows[order]], dtype=np.float64),
        y[order].astype(np.int64),
        np.asarray(X[np.concatenate([tests, unknown])], dtype=np.float64),
        np.concatenate([y_test, np.full(len(unknown), UNKNOWN)]).astype(np.int64),
    )


def _one_pool(
    X: NDArray, y: NDArray, seed: int, n_known: int, n_unknown: int, n_train: int | float, n_test: int | None = None,
    known_from: NDArray | None = None, unknown_from: NDArray | None = None,
) -> Trial:  # fmt: skip
    """Draw classes, then samples: ``n_train`` of a known class (a share, if below 1) and at most ``n_test`` others."""
    rng = np.random.default_rng(seed)
    known = np.sort(rng.permutation(np.unique(y) if known_from is None else known_from)[:n_known])
    others = np.setdiff1d(np.unique(y) if unknown_from is None else unknown_from, known)
    others = np.sort(rng.permutation(others)[:n_unknown])
    train, test = [], []
    for c in known:
        rows = rng.permutation(np.flatnonzero(y == c))
        cut = round(n_train * len(rows)) if n_train < 1 else int(n_train)
        train.append(rows[:cut])
        test.append(rows[cut : None if n_test is None else cut + n_test])
    unknown = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:n_test] for c in others])
    return _trial(rng, X, known, train, test, unknown)


def _two_pools(
    X: NDArray, y: NDArray, X_test: NDArray, y_test: NDArray, seed: int, n_known: int, n_train: int, n_test: int,
    known_from: NDArray, unknown_from: NDArray, n_unknown: int,
) -> Trial:  # fmt: skip
    """Draw like `_one_pool` from a set that has its own test part."""
    rng = np.random.default_rng(seed)
    known = np.sort(rng.permutation(known_from)[:n_known])
    others = np.sort(rng.permutation(np.setdiff1d(unknown_from, known))[:n_unknown])
    n = len(X)

    def some(labels: NDArray, c: int, most: int) -> NDArray:
        return rng.permutation(np.flatnonzero(labels == c))[:most]

    train = [some(y, c, n_train) for c in known]
    test = [n + some(y_test, c, n_test) for c in known]
    unknown = np.concatenate([n + some(y_test, c, n_test) for c in others])
    return _trial(rng, np.concatenate([X, X_test]), known, train, test, unknown)


@cache
def _yaleb() -> tuple[NDArray, NDArray]:
    from scipy.io import loadmat

    data = loadmat(find(*YALEB_FILES))
    return data["fea"], data["gnd"].ravel().astype(np.int64)


@cache
def _mnist() -> tuple[NDArray, ...]:
    return (*read_mnist("train"), *read_mnist("test"))


@cache
def _arrays(path: tuple[str, ...], *names: str) -> tuple[NDArray, ...]:
    with np.load(find(*path)) as data:
        return tuple(data[name] for name in names)


def spatial_pyramid(counts: NDArray) -> NDArray[np.float64]:
    """Turn visual-word counts of 4×4 cells into a three-level pyramid: weights ¼, ¼, ½, unit sum, square root."""
    cells = counts.reshape(len(counts), 4, 4, -1).astype(np.float64)
    quarters = cells.reshape(len(cells), 2, 2, 2, 2, -1).sum(axis=(2, 4))
    levels = [
        0.25 * quarters.sum(axis=(1, 2)),
        0.25 * quarters.reshape(len(cells), -1),
        0.5 * cells.reshape(len(cells), -1),
    ]
    pyramid = np.concatenate(levels, axis=1)
    return np.sqrt(pyramid / np.maximum(pyramid.sum(axis=1, keepdims=True), 1e-300))


@cache
def _caltech101() -> tuple[NDArray, NDArray, NDArray]:
    counts, y, names = _arrays(CALTECH101_FILES, "counts", "y", "class_names")
    usable = np.flatnonzero(~np.char.startswith(np.char.lower(names), "background"))
    return counts, y.astype(np.int64), usable


def yaleb(seed: int) -> Trial:
    """Draw ten known people, 80 % of their pictures for training; all pictures of the other 28 are unknown."""
    X, y = _yaleb()
    return _one_pool(X, y, seed, 10, 28, 0.8)


def mnist(seed: int) -> Trial:
    """Draw six known digits, 300 training pictures each; 100 test pictures of each of the ten digits."""
    X, y, X_test, y_test = _mnist()
    return _two_pools(X, y, X_test, y_test, seed, 6, 300, 100, np.arange(10), np.arange(10), 4)


def caltech101(seed: int) -> Trial:
    """Draw ten known objects, 40 training pictures each; 20 test pictures of those and of 20 others.

    Classes are drawn from those with enough pictures.
    """
    counts, y, usable = _caltech101()
    large = usable[np.bincount(y)[usable] >= 60]
    rows = _one_pool(np.arange(len(y))[:, None], y, seed, 10, 20, 40, 20, large, large)
    part = [spatial_pyramid(counts[rows_of.astype(np.int64).ravel()]) for rows_of in (rows.X, rows.X_test)]
    return Trial(part[0], rows.y, part[1], rows.y_test)


def uiuc(seed: int) -> Trial:
    """Draw ten known a-Pascal classes, 50 training objects each; 20 test objects of those and of ten a-Yahoo classes.

    Objects without any attribute have no direction and are left out before drawing.
    """
    X, y, split = _arrays(UIUC_FILES, "X", "y", "split")
    usable = X.any(axis=1)
    train = usable & (split == "apascal_train")
    test = usable & (split != "apascal_train")
    return _two_pools(
        X[train], y[train], X[test], y[test], seed, 10, 50, 20, np.arange(20), np.arange(20, 32), 10
    )  # fmt: skip


def clip(seed: int) -> Trial:
    """Draw 20 known objects of Caltech-256 in CLIP's embedding, 60 % of their pictures for training; at most 20 test
    pictures of those and of 40 others."""
    X, y, names = _arrays(CLIP_FILES, "X", "y", "class_names")
    usable = np.flatnonzero(np.char.find(names, "clutter") < 0)
    return _one_pool(X, y.astype(np.int64), seed, 20, 40, 0.6, 20, usable, usable)


def usps(seed: int) -> Trial:
    """Draw six known digits, 200 training pictures each; at most 100 test pictures of each of the ten digits."""
    X, y, split = _arrays(USPS_FILES, "X", "y", "split")
    train = split == "train"
    return _two_pools(
        X[train], y[train], X[~train], y[~train], seed, 6, 200, 100, np.arange(10), np.arange(10), 4
    )  # fmt: skip


def usps_all(seed: int) -> Trial:
    """Draw like `usps`, but training and test samples from one pool.

    The test part of the standard split is harder than its training part, so no target rate can be met on it.
    """
    X, y = _arrays(USPS_ALL_FILES, "X", "y")
    return _one_pool(X, y.astype(np.int64), seed, 6, 4, 200, 100)


def letter(seed: int) -> Trial:
    """Draw fifteen known letters, 100 training samples each; 50 test samples of each of the 26."""
    X, y = _arrays(LETTER_FILES, "X", "y")
    return _one_pool(X, y.astype(np.int64), seed, 15, 11, 100, 50)


def coil20(seed: int) -> Trial:
    """Draw ten known objects, half of their 72 views for training; all views of the other ten are unknown."""
    X, y = _arrays(COIL_FILES, "X", "y")
    return _one_pool(X, y.astype(np.int64), seed, 10, 10, 0.5)


def orl(seed: int, n_train: int = 5) -> Trial:
    """Draw twenty known people, five of their ten pictures for training; all pictures of twenty others are unknown."""
    X, y = _arrays(ORL_FILES, "X", "y")
    return _one_pool(X, y.astype(np.int64), seed, 20, 20, n_train)


def clip_100(seed: int, n_train: int) -> Trial:
    """Draw 100 known objects of Caltech-256 in CLIP's embedding with few pictures each; at most 10 test pictures of
    those and of 100 others."""
    X, y, names = _arrays(CLIP_FILES, "X", "y", "class_names")
    usable = np.flatnonzero(np.char.find(names, "clutter") < 0)
    return _one_pool(X, y.astype(np.int64), seed, 100, 100, n_train, 10, usable, usable)


TRIALS: dict[str, TrialSet] = {
    "yaleb": TrialSet("Extended Yale B, 10/28", True, yaleb, tail_size=0.10),
    "mnist": TrialSet("MNIST, 6/4, 300 per class", True, mnist, tail_size=0.14),
    "caltech101": TrialSet("Caltech-101 pyramid, 10/20, 40 per class", True, caltech101),
    "uiuc": TrialSet("UIUC attributes, 10/10, 50 per class", True, uiuc, tail_size=0.39),
    "clip": TrialSet("Caltech-256 CLIP, 20/40", False, clip),
    "usps": TrialSet("USPS, 6/4, 200 per class", False, usps),
    "letter": TrialSet("Letter, 15/11, 100 per class", False, letter),
    "coil20": TrialSet("COIL-20, 10/10", False, coil20),
    "orl": TrialSet("ORL faces, 20/20, 5 per class", False, orl),
    "usps-all": TrialSet("USPS, one pool of 11,000, 6/4, 200 per class", False, usps_all, extra=True),
    "orl-2": TrialSet("ORL faces, 20/20, 2 per class", False, partial(orl, n_train=2), extra=True),
    "orl-1": TrialSet("ORL faces, 20/20, 1 per class", False, partial(orl, n_train=1), extra=True),
    "clip-5": TrialSet("Caltech-256 CLIP, 100/100, 5 per class", False, partial(clip_100, n_train=5), extra=True),
    "clip-2": TrialSet("Caltech-256 CLIP, 100/100, 2 per class", False, partial(clip_100, n_train=2), extra=True),
    "clip-1": TrialSet("Caltech-256 CLIP, 100/100, 1 per class", False, partial(clip_100, n_train=1), extra=True),
}
"""Trials by name, in the order of the tables."""

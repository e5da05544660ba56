"""Open set trials of any size: synthetic classes mixed from real embeddings, and MNIST digits.

A class of a mixture lies between two real classes of Caltech-256 in CLIP's embedding: its center is a random convex
combination of their means. Its samples are the center plus four residuals of real pictures from their class means, two
from the two real classes and two from any class, combined with random weights so that their variance is that of real
ones. Training and test samples are drawn alike, as calibration on held-out samples assumes; unknown classes are drawn
like known ones, from other pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .problems import read_mnist
from .trials import CLIP_FILES, UNKNOWN, Trial, _arrays

N_TEST = 2000
"""Test samples: of a mixture half of them are unknown, of MNIST as many of each digit."""
SAMPLES_A_CLASS, MOST_CLASSES = 30, 1000
"""Training samples of a class of a mixture, until there are so many classes."""
MOST_UNKNOWN = 1000
"""Unknown classes: as many as known ones, but not more than these."""
WEIGHTS = 0.2, 0.8
"""The range of the weight of the first of two means."""
MNIST_KNOWN = 6
_BLOCK = 8192


@dataclass(frozen=True)
class Embeddings:
    """Means of real classes, and what the samples of each differ from them.

    Attributes
    ----------
    means : ndarray (n_classes, n_features)
    residuals : ndarray (n, n_features)
        Sorted by class.
    starts : ndarray of int (n_classes + 1,)
        Where the residuals of each class begin, and their number.
    """

    means: NDArray[np.float64]
    residuals: NDArray[np.float64]
    starts: NDArray[np.int64]

    @classmethod
    def measure(cls, X: NDArray, y: NDArray) -> Embeddings:
        """Measure means and residuals of samples, which are scaled to unit length."""
        order = np.argsort(y, kind="stable")
        rows = np.asarray(X[order], dtype=np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        _, first, sizes = np.unique(y[order], return_index=True, return_counts=True)
        means = np.add.reduceat(rows, first, axis=0) / sizes[:, None]
        # The mean is one of all samples of the class: residuals are a little shorter than those from the true mean.
        residuals = (rows - np.repeat(means, sizes, axis=0)) * np.repeat(np.sqrt(sizes / (sizes - 1)), sizes)[:, None]
        return cls(means, residuals, np.append(first, len(rows)))


def read_embeddings() -> Embeddings:
    """Read the CLIP embeddings of Caltech-256, without its class of clutter.

    Raises
    ------
    Unavailable
        If the file is missing.
    """
    X, y, names = _arrays(CLIP_FILES, "X", "y", "class_names")
    usable = np.flatnonzero(np.char.find(names, "clutter") < 0)
    kept = np.isin(y, usable)
    return Embeddings.measure(X[kept], y[kept])


def count_classes(n_samples: int) -> int:
    """Return the number of classes of a mixture of so many training samples."""
    return max(min(MOST_CLASSES, n_samples // SAMPLES_A_CLASS), 2)


def draw_mixture(
    real: Embeddings, n_samples: int, n_classes: int, n_features: int, seed: int, n_test: int = N_TEST
) -> Trial:
    """Draw a mixture: training samples evenly from known classes, test samples half from these, half from others.

    Parameters
    ----------
    real : Embeddings
    n_samples, n_classes : int
        Training samples and known classes.
    n_features : int
        Where it is less than that of the embeddings, samples are projected by a random orthogonal map.
    seed : int
    n_test : int

    Returns
    -------
    Trial
        Of rows of unit length in single precision; classes are numbered from 0.
    """
    if not 2 <= n_classes <= n_samples:
        raise ValueError(f"n_classes must be from 2 to the number of samples, {n_samples}, got {n_classes}.")
    width = real.means.shape[1]
    if not 1 <= n_features <= width:
        raise ValueError(f"n_features must be from 1 to those of the embeddings, {width}, got {n_features}.")
    rng = np.random.default_rng(seed)
    n_unknown = min(n_classes, MOST_UNKNOWN)
    pairs, weights = _draw_parents(len(real.means), n_classes + n_unknown, rng)
    basis = None
    if n_features < width:
        basis = np.linalg.qr(rng.normal(size=(width, n_features)))[0]
    y = rng.permutation(np.arange(n_samples) % n_classes)
    known = np.arange(n_test - n_test // 2) % n_classes
    unknown = n_classes + np.arange(n_test // 2) % n_unknown
    classes = np.concatenate([known, unknown])
    X = _draw_samples(real, y, pairs, weights, basis, rng)
    X_test = _draw_samples(real, classes, pairs, weights, basis, rng)
    return Trial(X, y, X_test, np.where(classes < n_classes, classes, UNKNOWN))


def _draw_parents(n_real: int, n: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw a pair of real classes for each new class, no pair twice while there are enough, and its first weight."""
    first, second = np.triu_indices(n_real, 1)
    drawn = np.concatenate([rng.permutation(len(first)) for _ in range(-(-n // len(first)))])[:n]
    return np.column_stack([first[drawn], second[drawn]]), rng.uniform(*WEIGHTS, size=n)


def _draw_samples(
    real: Embeddings,
    classes: NDArray[np.int64],
    pairs: NDArray[np.int64],
    weights: NDArray[np.float64],
    basis: NDArray[np.float64] | None,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Draw one sample of each of ``classes``."""
    pool, starts = real.residuals, real.starts
    out = np.empty((len(classes), real.means.shape[1] if basis is None else basis.shape[1]), np.float32)
    for begin in range(0, len(classes), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        parents, weight = pairs[classes[block]], weights[classes[block]]
        n = len(parents)
        rows = weight[:, None] * real.means[parents[:, 0]] + (1.0 - weight)[:, None] * real.means[parents[:, 1]]
        shares = np.abs(rng.normal(size=(4, n, 1)))
        shares /= np.sqrt((shares**2).sum(axis=0))
        for share in shares[:2]:
            parent = np.where(rng.uniform(size=n) < weight, parents[:, 0], parents[:, 1])
            sizes = starts[parent + 1] - starts[parent]
            rows += share * pool[starts[parent] + (rng.uniform(size=n) * sizes).astype(np.int64)]
        for share in shares[2:]:
            rows += share * pool[rng.integers(len(pool), size=n)]
        if basis is not None:
            rows = rows @ basis
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        out[block] = rows
    return out


def _draw_digits(seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).permutation(10)[:MNIST_KNOWN])


def count_mnist(seed: int) -> int:
    """Return the number of training pictures of the known digits.

    Raises
    ------
    Unavailable
        If MNIST is missing.
    """
    return int(np.isin(read_mnist("train")[1], _draw_digits(seed)).sum())


def draw_mnist(n_samples: int, seed: int, n_test: int = N_TEST) -> Trial:
    """Draw training pictures of six MNIST digits, evenly or all if there are fewer, and test pictures of all ten.

    The test pictures depend on the seed alone.

    Raises
    ------
    Unavailable
        If MNIST is missing.
    """
    pictures, digits = read_mnist("train")
    test_pictures, test_digits = read_mnist("test")
    known = _draw_digits(seed)
    rng = np.random.default_rng([seed, 1])
    tests = np.concatenate([rng.permutation(np.flatnonzero(test_digits == c))[: n_test // 10] for c in range(10)])
    rng = np.random.default_rng([seed, 2])
    # Of each digit the first of a fixed random order: a larger trial holds the samples of a smaller one.
    orders = [rng.permutation(np.flatnonzero(digits == c)) for c in known]
    rows = np.concatenate([order[: -(-n_samples // MNIST_KNOWN)] for order in orders])
    rows = rng.permutation(rows)[:n_samples] if len(rows) > n_samples else rng.permutation(rows)
    y_test = test_digits[tests].astype(np.int64)
    return Trial(
        _scale(pictures[rows]), digits[rows].astype(np.int64),
        _scale(test_pictures[tests]), np.where(np.isin(y_test, known), y_test, UNKNOWN),
    )  # fmt: skip


def _scale(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    rows = pictures.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)

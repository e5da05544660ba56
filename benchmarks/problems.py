"""The data sets of the coding benchmark: unit-length atoms, unit-length queries and the problems to solve.

Each set is an open set trial as in Zhang & Patel (TPAMI 2016): known classes provide the atoms, and the queries come
from known and unknown classes. Queries are in a seeded random order, so the first ``k`` of them are a random sample; a
slow solver is timed on such a prefix.

Files are looked up under ``SROSR_DATA_DIR``; a set with a missing file raises `Unavailable` with the reason.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from srosr import BPDN, Lasso

Array = NDArray[np.float64]
Problem = BPDN | Lasso

SEED = 0
YALEB_FILES = ("yaleb/yaleb3232.mat", "yaleb/YaleB_32x32.mat")
MNIST_FILES = {
    "train": ("mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"),
    "test": ("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"),
}
UIUC_FILES = ("uiuc_attributes/uiuc_attributes.npz",)


class Unavailable(Exception):
    """A data set that cannot be built here; the message says why and what to do."""


@dataclass(frozen=True)
class Task:
    """One problem, whether a quick run includes it, and the maximum number of queries of either kind."""

    problem: Problem
    quick: bool = True
    max_queries: int | None = None


@dataclass(frozen=True)
class ProblemSet:
    """Atoms and queries (rows, unit length) with the problems to be solved on them.

    Attributes
    ----------
    name, title : str
        Short name for the command line, and what the set is.
    atoms : ndarray of shape (n_atoms, n_features)
    queries : ndarray of shape (n_queries, n_features)
    tasks : tuple of Task
    """

    name: str
    title: str
    atoms: Array
    queries: Array
    tasks: tuple[Task, ...]


def describe(problem: Problem) -> str:
    """Return the short name of a problem, as in the tables.

    Examples
    --------
    >>> from srosr import Lasso
    >>> describe(Lasso(0.05))
    'Lasso 0.05'
    """
    value = problem.alpha if isinstance(problem, Lasso) else problem.epsilon
    return f"{type(problem).__name__} {value:g}"


def unit_rows(X: NDArray) -> Array:
    """Scale the rows to unit length; zero rows, which have no direction, are dropped."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    length = np.linalg.norm(X, axis=1)
    return X[length > 0] / length[length > 0, None]


def find(*names: str) -> Path:
    """Return the path of the first of ``names`` that exists under ``SROSR_DATA_DIR``."""
    root = os.environ.get("SROSR_DATA_DIR")
    if not root:
        raise Unavailable("SROSR_DATA_DIR is not set: point it at a folder with " + names[0])
    for name in names:
        path = Path(root) / name
        if path.is_file():
            return path
    raise Unavailable(f"{names[0]} is not under SROSR_DATA_DIR")


def _take(rng: np.random.Generator, y: NDArray, classes: NDArray, n: int) -> NDArray[np.intp]:
    """Return the rows of ``n`` random samples of each class, class by class."""
    return np.concatenate([rng.permutation(np.flatnonzero(y == c))[:n] for c in classes])


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Read a gzipped idx file of bytes (two zero bytes, type 8, number of axes, big-endian sizes, data)."""
    with gzip.open(path) as stream:
        raw = stream.read()
    if raw[:3] != b"\x00\x00\x08":
        raise Unavailable(f"{path.name} is not an idx file of bytes: fetch it again")
    shape = np.frombuffer(raw, ">i4", count=raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def read_mnist(part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read the pictures, as rows of 784 bytes, and the digits of ``part`` "train" or "test"."""
    pictures, digits = (_read_idx(find(name)) for name in MNIST_FILES[part])
    return pictures.reshape(len(pictures), -1), digits


def yaleb(n_queries: int = 500, seed: int = SEED) -> ProblemSet:
    """Build Extended Yale B, 32×32: 10 of 38 people known, 80 % of their pictures as atoms.

    The queries are the remaining pictures of the known people and, up to ``n_queries``, pictures of others.
    """
    from scipy.io import loadmat

    data = loadmat(find(*YALEB_FILES))
    X, y = data["fea"], data["gnd"].ravel()
    rng = np.random.default_rng(seed)
    known = rng.permutation(np.unique(y))[:10]
    train, rest = [], []
    for c in known:
        order = rng.permutation(np.flatnonzero(y == c))
        cut = round(0.8 * len(order))
        train.append(order[:cut])
        rest.append(order[cut:])
    held_out = np.concatenate(rest)
    others = rng.permutation(np.flatnonzero(~np.isin(y, known)))
    queries = np.concatenate([held_out, others[: max(n_queries - len(held_out), 0)]])
    return ProblemSet(
        "yaleb",
        "Extended Yale B, 10 of 38 people",
        unit_rows(X[np.concatenate(train)]),
        unit_rows(X[rng.permutation(queries)[:n_queries]]),
        (Task(Lasso(0.05)), Task(Lasso(0.01)), Task(BPDN(0.3)), Task(BPDN(0.1)), Task(BPDN(0.001))),
    )


def mnist(n_queries: int = 1000, per_class: int = 300, seed: int = SEED) -> ProblemSet:
    """Build MNIST: six of ten digits known, ``per_class`` training pictures each; test pictures of all ten."""
    X, y = read_mnist("train")
    X_test, y_test = read_mnist("test")
    rng = np.random.default_rng(seed)
    known = np.sort(rng.permutation(10)[:6])
    train = _take(rng, y, known, per_class)
    queries = _take(np.random.default_rng([seed, 1]), y_test, np.arange(10), -(-n_queries // 10))
    queries = np.random.default_rng([seed, 2]).permutation(queries)[:n_queries]
    return ProblemSet(
        "mnist",
        f"MNIST, 6 of 10 digits, {per_class} per digit",
        unit_rows(X[train]),
        unit_rows(X_test[queries]),
        (
            Task(Lasso(0.05)),
            Task(Lasso(0.01)),
            Task(BPDN(0.3)),
            Task(BPDN(0.1), quick=False),
            Task(BPDN(0.001), quick=False, max_queries=20),
        ),
    )


def uiuc(n_queries: int = 400, seed: int = SEED) -> ProblemSet:
    """Build UIUC attributes: 50 objects of each of ten a-Pascal classes, with duplicate atoms and rank 45.

    Objects without any attribute have no direction and are left out before drawing.
    """
    with np.load(find(*UIUC_FILES)) as data:
        X, y, split = data["X"], data["y"], data["split"]
    usable = X.any(axis=1)
    rng = np.random.default_rng(seed)
    known = np.sort(rng.permutation(20)[:10])
    train = _take(rng, np.where(usable & (split == "apascal_train"), y, -1), known, 50)
    queries = rng.permutation(np.flatnonzero(usable & (split == "apascal_test")))[:n_queries]
    return ProblemSet(
        "uiuc",
        "UIUC attributes, 10 of 20 a-Pascal classes",
        unit_rows(X[train]),
        unit_rows(X[queries]),
        (Task(Lasso(0.01)),),
    )


def digits(n_queries: int = 400, seed: int = SEED) -> ProblemSet:
    """Build scikit-learn's bundled digits (64-d): six digits known, 80 % of their pictures as atoms."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    known = np.sort(rng.permutation(10)[:6])
    train = np.concatenate(
        [rows[: round(0.8 * len(rows))] for rows in (rng.permutation(np.flatnonzero(y == c)) for c in known)]
    )
    queries = rng.permutation(np.setdiff1d(np.arange(len(y)), train))[:n_queries]
    return ProblemSet(
        "digits",
        "scikit-learn digits, 6 of 10 digits",
        unit_rows(X[train]),
        unit_rows(X[queries]),
        (Task(Lasso(0.05)), Task(BPDN(0.1))),
    )


SETS: dict[str, Callable[..., ProblemSet]] = {"digits": digits, "yaleb": yaleb, "mnist": mnist, "uiuc": uiuc}
"""Builders by name, in the order of the tables."""

"""What is in a table of labeled samples, before anything is learned: remarks on what may be wrong, a random sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import join_names, list_names

#: A column dominates, which is worth a remark, if its spread is more than this many times the median spread.
UNEVEN = 20.0
#: A class with fewer samples gets no tails of its own.
FEW = 10


@dataclass(frozen=True)
class Overview:
    """Counts and conspicuous columns of a table of labeled samples.

    Attributes
    ----------
    samples, features : int
    classes : dict of str to int
        Samples of each class, in the order of the classes.
    missing, dropped : int
        Missing values, and rows left out because of them.
    duplicates : int
        Samples that equal an earlier one.
    contradictions : int
        Duplicates whose earlier twin has another class.
    constant : tuple of str
        Columns with a single value.
    empty : int
        Samples that are all zero.
    numbering : tuple of str
        Columns with a different whole number in every row, which may be a row number or an identifier.
    alike : tuple of str
        Classes whose names differ from another only in case.
    spread : float
        Largest standard deviation of a column, divided by the median over columns that are not constant.
    """

    samples: int
    features: int
    classes: dict[str, int]
    missing: int
    dropped: int
    duplicates: int
    contradictions: int
    constant: tuple[str, ...]
    empty: int
    numbering: tuple[str, ...]
    alike: tuple[str, ...]
    spread: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        lists = {name: list(getattr(self, name)) for name in ("constant", "numbering", "alike")}
        return asdict(self) | lists | {"spread": float(self.spread)}

    def get_remarks(self, *, scaled: bool = False, pictures: bool = False) -> list[str]:
        """Return one sentence for each thing that may be wrong, with what to do about it.

        Nothing is said about the spread of columns that will be ``scaled``, nor about columns computed from
        ``pictures``, which the user cannot change.
        """
        out = []
        if self.contradictions:
            some = "A sample equals" if self.contradictions == 1 else f"{self.contradictions:,} samples equal"
            out.append(f"{some} one of another class: no method can tell them apart.")
        elif self.duplicates:
            some = "A sample equals" if self.duplicates == 1 else f"{self.duplicates:,} samples equal"
            out.append(
                f"{some} an earlier one: when such a sample is held out, its copy is not, and held-out results are "
                "too good."
            )
        few = [name for name, n in self.classes.items() if n < FEW]
        if few:
            shown = list_names(few, 5)
            have = "has" if len(few) == 1 else "have"
            out.append(f"{len(few)} of {len(self.classes)} classes {have} fewer than {FEW} samples ({shown}).")
        if self.alike:
            out.append(f"Classes that differ only in case are different classes: {list_names(self.alike, 6)}.")
        if self.numbering and not pictures:
            names = join_names(self.numbering, 5)
            out.append(
                f"Every row has a different whole number in {names}: if that only numbers the samples, leave it out "
                "with --ignore."
            )
        if self.empty:
            out.append(f"{self.empty:,} samples are all zero: they cannot be recognized.")
        if self.constant and not pictures:
            shown = list_names(self.constant, 5)
            out.append(f"Constant columns say nothing about the class and can be left out with --ignore: {shown}.")
        if self.spread > UNEVEN and not scaled and not pictures:
            out.append(
                f"The widest column has {self.spread:,.0f} times the median spread and dominates all others; "
                "--standardize gives all columns the same weight: try both."
            )
        return out


def make_overview(
    X: Array, labels: AnyArray, names: Sequence[str] | None = None, *, missing: int = 0, dropped: int = 0
) -> Overview:
    """Summarize samples and their classes; columns without names are called by their numbers from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tables.data_overview import make_overview
    >>> found = make_overview(np.array([[1.0, 7.0], [2.0, 7.0], [1.0, 7.0]]), np.array(["a", "b", "b"]), ["x", "y"])
    >>> found.classes, found.duplicates, found.contradictions, found.constant
    ({'a': 1, 'b': 2}, 1, 1, ('y',))
    """
    classes, number = np.unique(labels.astype(str), return_inverse=True)
    first = _find_first_equal(X)
    again = first != np.arange(len(X))
    flat = X.max(axis=0) == X.min(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = X.std(axis=0)[~flat]
    columns = [str(j) for j in range(X.shape[1])] if names is None else list(names)
    return Overview(
        samples=len(X),
        features=X.shape[1],
        classes=dict(zip(classes.tolist(), np.bincount(number).tolist(), strict=True)),
        missing=missing,
        dropped=dropped,
        duplicates=int(again.sum()),
        contradictions=int((number[first] != number).sum()),
        constant=tuple(columns[j] for j in np.flatnonzero(flat)),
        empty=int((~X.any(axis=1)).sum()),
        numbering=tuple(columns[j] for j in range(X.shape[1]) if _numbers_rows(X[:, j])),
        alike=_find_alike(classes.tolist()),
        spread=_compare_spreads(spreads),
    )


def _find_first_equal(X: Array) -> AnyArray:
    """Return for each row the number of the first row that equals it."""
    rows = np.ascontiguousarray(X + 0.0)  # minus zero is zero
    _, first, same = np.unique(
        rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel(), return_index=True, return_inverse=True
    )
    return first[same.ravel()]


def _numbers_rows(column: Array) -> bool:
    """Return whether a column has a different whole number in every row."""
    if len(column) < FEW or (column != np.round(column)).any():
        return False
    return len(np.unique(column)) == len(column)


def _find_alike(classes: list[str]) -> tuple[str, ...]:
    small = [name.casefold() for name in classes]
    n = Counter(small)
    return tuple(name for name, folded in zip(classes, small, strict=True) if n[folded] > 1)


def _compare_spreads(spreads: Array) -> float:
    positive = spreads[(spreads > 0) & np.isfinite(spreads)]
    with np.errstate(over="ignore"):
        ratio = float(positive.max() / np.median(positive)) if len(positive) else 1.0
    return ratio if np.isfinite(ratio) else float(np.finfo(float).max)


class ClassSampler:
    """Draws at most ``most`` samples of each class from batches of any number of samples.

    Every sample gets a random key, and those with the smallest keys of each class are kept. The result depends on the
    seed and the order of the samples, not on the size of the batches. ``n_seen`` counts the samples of each class that
    were added.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tables.data_overview import ClassSampler
    >>> drawn = ClassSampler(2, seed=0)
    >>> drawn.add(np.arange(5.0)[:, None], np.array(["a", "a", "a", "b", "a"]))
    >>> drawn.n_seen, drawn.take()[1].tolist()
    ({'a': 4, 'b': 1}, ['a', 'b', 'a'])
    """

    def __init__(self, most: int, seed: int) -> None:
        self.most = most
        self._rng = np.random.default_rng([seed, 3])
        self._kept: dict[str, tuple[Array, IntArray, AnyArray]] = {}
        self.n_seen: dict[str, int] = {}

    def add(self, X: AnyArray, labels: AnyArray) -> None:
        """Add a batch of samples; ``X`` has a row, or an entry, for each."""
        keys = self._rng.random(len(labels))
        places = sum(self.n_seen.values()) + np.arange(len(labels))
        texts = np.asarray(labels, dtype=str)
        for name in np.unique(texts).tolist():
            which = texts == name
            self.n_seen[name] = self.n_seen.get(name, 0) + int(which.sum())
            own = (keys[which], places[which], X[which])
            if name in self._kept:
                own = tuple(np.concatenate(parts) for parts in zip(self._kept[name], own, strict=True))  # type: ignore[assignment]
            self._kept[name] = _keep_smallest(own, self.most)

    def take(self, most: int | None = None) -> tuple[AnyArray, AnyArray]:
        """Return samples and labels in the order they were added, at most ``most`` of each class if given."""
        parts = {name: _keep_smallest(own, most or self.most) for name, own in self._kept.items()}
        places = np.concatenate([own[1] for own in parts.values()])
        X = np.concatenate([own[2] for own in parts.values()])
        labels = np.repeat(np.array(list(parts)), [len(own[1]) for own in parts.values()])
        order = np.argsort(places)
        return X[order], labels[order]


def _keep_smallest(own: tuple[Array, IntArray, AnyArray], most: int) -> tuple[Array, IntArray, AnyArray]:
    order = np.argsort(own[0])[:most]
    return own[0][order], own[1][order], own[2][order]


def number_classes(labels: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Return class numbers, and class names in their order: by value if all are whole numbers, else by name."""
    names = sorted(set(labels))
    if all(name.isascii() and name.removeprefix("-").isdecimal() for name in names):
        names.sort(key=int)
    place = {name: number for number, name in enumerate(names)}
    return np.array([place[label] for label in labels], dtype=np.int64), tuple(names)

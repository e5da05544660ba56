"""At most so many samples of each class, drawn from a file of any length in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray

__all__ = ["SampledClasses", "numbered"]


class SampledClasses:
    """A random part of each class, whatever the number of samples that are shown.

    Every sample gets a random key, and of each class those with the smallest keys are kept. What is kept depends on the
    seed and the order of the samples, not on the batches they come in.

    Parameters
    ----------
    most : int
        Samples of a class to keep.
    seed : int

    Attributes
    ----------
    n_seen : dict of str to int
        Samples of each class that were shown.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tables.sampled_classes import SampledClasses
    >>> drawn = SampledClasses(2, seed=0)
    >>> drawn.add(np.arange(5.0)[:, None], np.array(["a", "a", "a", "b", "a"]))
    >>> drawn.n_seen, drawn.taken()[1].tolist()
    ({'a': 4, 'b': 1}, ['a', 'b', 'a'])
    """

    def __init__(self, most: int, seed: int) -> None:
        self.most = most
        self._rng = np.random.default_rng([seed, 3])
        self._kept: dict[str, tuple[Array, IntArray, AnyArray]] = {}
        self.n_seen: dict[str, int] = {}

    def add(self, X: AnyArray, labels: AnyArray) -> None:
        """Show samples; ``X`` has a row, or an entry, for each."""
        keys = self._rng.random(len(labels))
        places = sum(self.n_seen.values()) + np.arange(len(labels))
        texts = np.asarray(labels, dtype=str)
        for name in np.unique(texts).tolist():
            which = texts == name
            self.n_seen[name] = self.n_seen.get(name, 0) + int(which.sum())
            own = (keys[which], places[which], X[which])
            if name in self._kept:
                own = tuple(np.concatenate(parts) for parts in zip(self._kept[name], own, strict=True))  # type: ignore[assignment]
            self._kept[name] = _smallest(own, self.most)

    def taken(self, most: int | None = None) -> tuple[AnyArray, AnyArray]:
        """Samples and labels in the order they came, ``most`` of each class where that is fewer."""
        parts = {name: _smallest(own, most or self.most) for name, own in self._kept.items()}
        places = np.concatenate([own[1] for own in parts.values()])
        X = np.concatenate([own[2] for own in parts.values()])
        labels = np.repeat(np.array(list(parts)), [len(own[1]) for own in parts.values()])
        order = np.argsort(places)
        return X[order], labels[order]


def _smallest(own: tuple[Array, IntArray, AnyArray], most: int) -> tuple[Array, IntArray, AnyArray]:
    """The samples with the smallest keys."""
    order = np.argsort(own[0])[:most]
    return own[0][order], own[1][order], own[2][order]


def numbered(labels: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Class numbers, and class names in their order: by value where all are whole numbers, else by name."""
    names = sorted(set(labels))
    if all(name.isascii() and name.removeprefix("-").isdecimal() for name in names):
        names.sort(key=int)
    place = {name: number for number, name in enumerate(names)}
    return np.array([place[label] for label in labels], dtype=np.int64), tuple(names)

"""A random sample of each class, drawn from a file of any length in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray


class ClassSampler:
    """Draws at most ``most`` samples of each class from batches of any number of samples.

    Every sample gets a random key, and those with the smallest keys of each class are kept. The result depends on the
    seed and the order of the samples, not on the size of the batches. ``n_seen`` counts the samples of each class that
    were added.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tables.class_sampler import ClassSampler
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

"""How samples are compared with landmarks: the similarities on which class membership is regressed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from ..dictionary.dictionary import Dictionary, Queries, split_range, widen, wrap_queries
from .class_scores import sharpen
from .landmarks import whiten
from .ridge import compare_at, compute_squared_distances, find_width
from .standardized import StandardizedColumns

#: Landmarks: as many, or so many a class within a limit.
LANDMARKS = 1000
LANDMARKS_A_CLASS, MOST_LANDMARKS = 2, 4000
#: Up to so many atoms of a small dictionary are all landmarks.
SMALL_LANDMARKS = 2000
#: With the linear kernel Gaussian classes are computed from features up to so many; from landmarks beyond.
MOST_FEATURES = 2048
# Samples that are measured at a time.
_ROWS = 4096


def choose_landmarks(n_atoms: int, n_classes: int, least: int | None = None) -> IntArray:
    """Return atoms evenly spread over the classes: at least ``least``, or all; beyond that at most every second."""
    least = LANDMARKS if least is None else least
    count = min(max(least, min(LANDMARKS_A_CLASS * n_classes, MOST_LANDMARKS, n_atoms // 2)), n_atoms)
    return ((np.arange(count) + 0.5) * n_atoms / count).astype(np.int64)


class LandmarkView:
    """The landmarks of a dictionary, and the scales at which samples are compared with them.

    Parameters
    ----------
    dictionary : Dictionary
        Of all atoms.
    landmarks : ndarray of int
        The atoms that are landmarks, sorted.
    width, unit : float
        The squared width of similarities, and the mean squared length of samples.
    columns : StandardizedColumns or None
    row_width : float
        The squared width of similarities on standardized columns.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        landmarks: IntArray,
        width: float,
        unit: float,
        columns: StandardizedColumns | None,
        row_width: float,
    ) -> None:
        self.landmarks, self.width, self.unit = landmarks, width, unit
        self.columns, self.row_width = columns, row_width
        self.dictionary = dictionary.subset(landmarks)
        self.squares = self.dictionary.squared_norms
        rows = self.dictionary.linear_atoms
        self.has_features = rows is not None and rows.shape[1] <= MOST_FEATURES
        if columns is not None:
            self.rows = columns.transform(widen(self.dictionary._values))
            self.row_squares = np.einsum("ij,ij->i", self.rows, self.rows)

    @classmethod
    def measure(cls, dictionary: Dictionary, landmarks: IntArray, rows: AnyArray, *, by_columns: bool) -> LandmarkView:
        """Measure the scales on samples: rows as the kernel of the dictionary sees them, or as they were given."""
        columns = None
        chosen = dictionary.subset(landmarks)
        unit, width = _measure_scale(chosen, rows)
        if by_columns:
            columns = StandardizedColumns(rows)
        view = cls(dictionary, landmarks, width, unit, columns, 1.0)
        if columns is not None:
            scaled = (dictionary.scale_features(widen(rows[block]))[0] for block in _blocks(rows))
            center, squares = _sum_rows(columns.transform(part) for part in scaled)
            view.row_width = find_width(len(rows), center, squares)
        return view

    def measure_rows(self, kind: str, rows: AnyArray) -> Array:
        """Return :meth:`compare` of rows; they are compared with the landmarks only where the kind needs it."""
        values = np.ascontiguousarray(rows, dtype=np.float64)
        if kind == "standardized" or (kind == "gaussian" and self.has_features):
            scaled, squares = self.dictionary.scale_features(values)
            return self.compare(kind, wrap_queries(np.empty((len(values), 0)), squares, rows=scaled))
        return self.compare(kind, self.dictionary.query_features(values))

    def pick(self, queries: Queries) -> Queries:
        """Return the similarities to the landmarks of samples that were compared with all atoms."""
        cross = queries.cross[:, self.landmarks]
        return wrap_queries(cross, queries.squared_norms, scaled=queries.scaled, rows=queries.rows)

    def compare(self, kind: str, queries: Queries) -> Array:
        """Return the similarities of a kind of class score to the landmarks; features where there are no landmarks."""
        if kind == "gaussian":
            return queries.rows / np.sqrt(self.unit) if self.has_features else queries.cross / self.unit
        if kind == "standardized":
            rows = self.standardize(queries)
            squares = np.einsum("ij,ij->i", rows, rows)
            return compare_at(compute_squared_distances(rows @ self.rows.T, squares, self.row_squares), self.row_width)
        similar = compare_at(compute_squared_distances(queries.cross, queries.squared_norms, self.squares), self.width)
        return sharpen(similar) if kind == "local" else similar

    def standardize(self, queries: Queries) -> Array:
        """Return the standardized columns of samples."""
        assert self.columns is not None and queries.rows is not None
        return self.columns.transform(queries.rows)

    def find_transform(self, kind: str) -> Array | None:
        """Return the transform of :mod:`.landmarks` for a kind, None where it has features."""
        if kind == "gaussian" and self.has_features:
            return None
        own = wrap_queries(self.dictionary.gram, self.squares, rows=self.dictionary._values)
        similar = self.compare(kind, own)
        return whiten(0.5 * (similar + similar.T))


def _blocks(rows: AnyArray) -> list[slice]:
    return split_range(0, len(rows), _ROWS)


def _sum_rows(parts: Iterable[Array]) -> tuple[Array, float]:
    """Return the sum of all rows, and of their squares."""
    sums = [(part.sum(axis=0), float(np.einsum("ij,ij->", part, part))) for part in parts]
    return np.sum([center for center, _ in sums], axis=0), sum(squares for _, squares in sums)


def _measure_scale(landmarks: Dictionary, rows: AnyArray) -> tuple[float, float]:
    """Return the mean squared length of samples and their mean squared distance; from landmarks if by a kernel."""
    total, seen = 0.0, []
    for block in _blocks(rows):
        scaled, squares = landmarks.scale_features(np.ascontiguousarray(rows[block], dtype=np.float64))
        total += float(squares.sum())
        if landmarks.linear_atoms is not None:
            seen.append(_sum_rows([scaled]))
    unit = total / len(rows) or 1.0
    if seen:
        center = np.sum([part for part, _ in seen], axis=0)
        return unit, find_width(len(rows), center, sum(squares for _, squares in seen))
    gram, squares = landmarks.gram, landmarks.squared_norms
    n = len(squares)
    mean = float(2.0 * (n * squares.sum() - gram.sum())) / max(n * (n - 1), 1)
    return unit, mean if mean > 0 else 1.0

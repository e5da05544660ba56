"""Prediction sets: the classes that cannot be excluded for a sample; an empty set says that it is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array
from .._support.messages import count_of


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """For each sample the classes that cannot be excluded, see :meth:`srosr.SROSRClassifier.prediction_set`.

    It is a sequence: item i is the array of classes of sample i, the most likely first; a slice is a part of the sets.
    It prints as a summary.

    Attributes
    ----------
    classes : ndarray (n_classes,)
    contains : ndarray of bool (n_samples, n_classes)
        Whether each class is in the set.
    p_values : ndarray (n_samples, n_classes)
    coverage : float
        The share of known samples whose class is in the set.
    guarantee : str
        For which samples the coverage holds, in words.
    """

    classes: AnyArray
    contains: AnyArray
    p_values: Array
    coverage: float
    guarantee: str

    def __len__(self) -> int:
        return len(self.contains)

    def __getitem__(self, sample: Any) -> Any:
        if not isinstance(sample, (int, np.integer)):  # some of the samples
            return replace(self, contains=self.contains[sample], p_values=self.p_values[sample])
        inside = np.flatnonzero(self.contains[sample])
        return self.classes[inside[np.argsort(-self.p_values[sample, inside], kind="stable")]]

    @staticmethod
    def concatenate(parts: list[PredictionSets]) -> PredictionSets:
        """Return the sets of parts of a batch as one."""
        contains, p_values = ([getattr(part, name) for part in parts] for name in ("contains", "p_values"))
        return replace(parts[0], contains=np.concatenate(contains), p_values=np.concatenate(p_values))

    def __iter__(self) -> Iterator[AnyArray]:
        return (self[i] for i in range(len(self)))

    @property
    def sizes(self) -> AnyArray:
        """Number of classes in each set; 0 is unknown."""
        return self.contains.sum(axis=1)

    @property
    def unknown(self) -> AnyArray:
        """Which samples have an empty set."""
        return self.sizes == 0

    @property
    def mean_size(self) -> float:
        """Mean number of classes of the sets that are not empty; NaN if all are."""
        sizes = self.sizes[self.sizes > 0]
        return float(sizes.mean()) if len(sizes) else float("nan")

    def __str__(self) -> str:
        sizes = self.sizes
        n_one, n_more, n_none = int((sizes == 1).sum()), int((sizes > 1).sum()), int((sizes == 0).sum())
        size = f"; {self.mean_size:.2f} classes a set that is not empty" if n_none < len(self) else ""
        return (
            f"{count_of(len(self), 'sample')}: {n_one:,} with one class, {n_more:,} with several, {n_none:,} with none "
            f"(unknown){size}. Coverage {self.coverage:g} {self.guarantee}."
        )

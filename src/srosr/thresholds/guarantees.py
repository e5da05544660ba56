"""What rates a model keeps, for which samples, and whether that is guaranteed or approximate, in words.

A prediction set has the classes that cannot be excluded for a sample; an empty one says that it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import count_of, list_names
from .._support.unknown_label import format_label
from .p_values import CalibrationSplit, count_needed, count_units, find_own_classes


@dataclass(frozen=True, eq=False)
class Guarantees:
    """For which samples a rate of false rejection holds, see :meth:`srosr.OpenSetClassifier.guarantees`.

    It prints as text.

    Attributes
    ----------
    rate : float
        The rate of false rejection in question.
    exact : bool
        Whether it is guaranteed (the model was not fitted to the calibration samples) or approximate.
    classes : ndarray (n_classes,)
    counts : ndarray of int (n_classes,)
        Calibration samples, or groups, of each class.
    own : ndarray of bool (n_classes,)
        Classes with enough of them for a rate of their own; the others share theirs.
    needed : int
        How many are enough: one over the rate, minus one.
    total : int
        Calibration samples, or groups, of all classes.
    unit : {"sample", "group"}
    rest : int
        Calibration samples, or groups, of the classes without a rate of their own.
    fresh : bool
        Whether the calibration samples were collected after the fit.
    labeled : bool
        Whether the classes of the calibration samples are known.
    source : str
        What the calibration samples are, in words.
    """

    rate: float
    exact: bool
    classes: AnyArray
    counts: IntArray
    own: AnyArray
    needed: int
    total: int
    unit: str
    rest: int
    fresh: bool
    labeled: bool
    source: str

    @property
    def overall(self) -> str:
        """For which samples the rate holds over all classes."""
        covered = self.fresh or bool((self.counts > 0).all())
        word = "guaranteed" if self.exact and self.total >= self.needed and covered else "approximate"
        if self.total < self.needed:
            return f"{word}: {count_of(self.total, self.unit)} of the {self.needed} that a rate of {self.rate:g} takes"
        where = "new samples like these" if self.fresh else "new samples of the known classes in their proportions"
        if not covered:
            where = f"{int((self.counts > 0).sum())} of {len(self.counts)} classes, which have calibration samples"
        if self.unit == "group":
            where = "samples of a new group, each group counting the same"
        n = count_of(self.total, "group") + ": " if self.unit == "group" else f"{self.total:,} "
        return f"{word} for {where}, from {n}{self.source}"

    @property
    def by_class(self) -> str:
        """For which samples the rate holds where samples are compared with their own class, in short."""
        word, n, n_own = "guaranteed" if self.exact else "approximate", len(self.classes), int(self.own.sum())
        if n_own == n:
            return f"{word} for each of the {n} classes"
        empty, few = np.flatnonzero(self.counts == 0), np.flatnonzero(~self.own & (self.counts > 0))
        parts = [f"{word} for {count_of(n_own, 'class', 'classes')} one by one"] if n_own else []
        if not self.labeled:
            return self.describe_class(0)
        if len(few):
            named = f"for {list_names(map(format_label, self.classes[few]), 6)} " if n_own else ""
            parts.append(named + self.describe_class(int(few[0])))
        if len(empty):
            parts.append(f"not known for {list_names(map(format_label, self.classes[empty]), 6)}, without any sample")
        return "; ".join(parts)

    def describe_class(self, number: int) -> str:
        """Return for which samples the rate holds where a sample is compared with its own class."""
        n, word = int(self.counts[number]), "guaranteed" if self.exact else "approximate"
        if not self.labeled:
            return "not known: the calibration samples have no labels"
        if n == 0:
            return "not known: no calibration sample is of this class; it is compared with those of other classes"
        if self.own[number]:
            return f"{word} for the class alone, from {count_of(n, self.unit)}"
        n_rest = int((~self.own & (self.counts > 0)).sum())
        if self.rest < self.needed:
            return (
                f"approximate: {count_of(self.rest, self.unit)} of the {self.needed} it takes; all classes are pooled"
            )
        together = f"{n_rest} classes together" if n_rest > 1 else "the class alone"
        return f"{word} for {together}, from {count_of(self.rest, self.unit)}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        labels = [format_label(label) for label in self.classes]
        return {
            "rate": self.rate,
            "exact": self.exact,
            "overall": self.overall,
            "unit": self.unit,
            "total": self.total,
            "needed": self.needed,
            "classes": {
                label: {"count": int(self.counts[k]), "own": bool(self.own[k]), "holds": self.describe_class(k)}
                for k, label in enumerate(labels)
            },
        }

    def __str__(self) -> str:
        labels = [format_label(label) for label in self.classes]
        width = max(map(len, labels))
        lines = [f"False rejection of at most {self.rate:g} is", f"  over all classes: {self.overall}"]
        return "\n".join([*lines, *(f"  {labels[k]:<{width}}: {self.describe_class(k)}" for k in range(len(labels)))])


def describe_guarantees(split: CalibrationSplit, classes: AnyArray, rate: float) -> Guarantees:
    """Return what calibration samples guarantee at a rate of false rejection."""
    n_classes, needed = len(classes), count_needed(rate)
    counts = np.array([count_units(split, np.flatnonzero(split.truth == k)) for k in range(n_classes)])
    own = np.zeros(n_classes, np.bool_)
    own[find_own_classes(split, split.truth, n_classes, needed)] = True
    total = count_units(split, np.arange(len(split)))
    unit = "sample" if split.groups is None else "group"
    rest = count_units(split, np.flatnonzero(~np.isin(split.truth, np.flatnonzero(own))))
    return Guarantees(
        rate, split.exact, classes, counts, own, needed, total, unit, rest, split.fresh, split.labeled, split.source
    )


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

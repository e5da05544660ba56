"""A group of rejected samples that may be a new class."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import IntArray
from .._support.messages import count_of, format_number, join_names
from .._support.unknown_label import format_label


@dataclass(frozen=True)
class SampleFingerprint:
    """Number and SHA-256 of samples, as the classifier takes them, in their order.

    Attributes
    ----------
    n_samples, n_features : int
    sha256 : str
        Of the features in double precision, row after row.
    """

    n_samples: int
    n_features: int
    sha256: str


class SampleHasher:
    """Computes the fingerprint of samples that come batch by batch.

    Parameters
    ----------
    n_features : int
        Number of features of a sample.
    """

    def __init__(self, n_features: int) -> None:
        self._n_samples, self._n_features = 0, n_features
        self._hash = hashlib.sha256()

    def add(self, X: Any) -> None:
        """Add the samples of a batch."""
        values = np.ascontiguousarray(X, dtype="<f8")
        self._n_samples += len(values)
        self._hash.update(values.data)

    @property
    def fingerprint(self) -> SampleFingerprint:
        """The fingerprint of all samples added."""
        return SampleFingerprint(self._n_samples, self._n_features, self._hash.hexdigest())


#: The label of rows that were not grouped: accepted by the classifier, or left out when the data were read.
ACCEPTED = -2
#: Tightness from which on a group is called tight: on the data of the design, groups below it were often mixtures.
TIGHT = 0.8
# Known classes and typical rows that are named in the text.
_NAMED, N_SHOWN = 2, 5


@dataclass(frozen=True, eq=False)
class Group:
    """A group of rejected samples.

    Attributes
    ----------
    number : int
        From 0; tight groups first, larger ones first.
    rows : ndarray of int
        Its samples, by their rows in X, in ascending order.
    typical : tuple of int
        Rows of its most typical samples, those closest to its mean in the model's space first.
    tightness : float
        From 0, what a random group would have, to 1: how much of the affinity of its samples stays within it.
    nearest : tuple of (label, share)
        The known classes that its samples would have been assigned to, with their shares, the largest first.
    """

    number: int
    rows: IntArray
    typical: tuple[int, ...]
    tightness: float
    nearest: tuple[tuple[Any, float], ...]

    @property
    def size(self) -> int:
        """Number of its samples."""
        return len(self.rows)

    @property
    def is_tight(self) -> bool:
        """Whether it is likely to be one class rather than a mixture or noise."""
        return self.tightness >= TIGHT

    @property
    def tightness_text(self) -> str:
        """The tightness, and what it means, in words."""
        return f"{format_number(self.tightness, 2)} {'tight' if self.is_tight else 'loose'}"

    @property
    def nearest_text(self) -> str:
        """The nearest known classes in words."""
        named = [f"{format_label(label)} ({100 * share:.0f} %)" for label, share in self.nearest[:_NAMED]]
        return ", ".join(named)

    @property
    def text(self) -> str:
        """The group in one sentence."""
        return (
            f"Group {self.number}: {count_of(self.size, 'sample')}, {'tight' if self.is_tight else 'loose'} "
            f"({format_number(self.tightness, 2)}); nearest known class {self.nearest_text}; most typical rows "
            f"{join_names(self.typical[:N_SHOWN])}."
        )

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        return {
            "number": self.number,
            "size": self.size,
            "tightness": self.tightness,
            "tight": self.is_tight,
            "nearest": [{"label": label, "share": share} for label, share in self.nearest],
            "typical": list(self.typical),
            "rows": self.rows.tolist(),
        }

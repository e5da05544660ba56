"""Fingerprints of samples: a discovery file says which samples its rows are, so that they can be found again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np


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

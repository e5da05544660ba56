"""What is special about a group: the features in which its mean differs most from that of all grouped samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._support.array_types import AnyArray, Array


@dataclass(frozen=True)
class DistinctiveFeature:
    """A feature in which a group differs.

    Attributes
    ----------
    place : int
        Its column.
    mean, other_mean : float
        Its mean in the group, and in the samples outside of it.
    difference : float
        Of the two, in standard deviations of all samples.
    """

    place: int
    mean: float
    other_mean: float
    difference: float


def find_distinctive_features(X: Array, inside: AnyArray, most: int = 6) -> list[DistinctiveFeature]:
    """Return the features in which some samples differ most from the others, the largest difference first.

    Parameters
    ----------
    X : ndarray (n_samples, n_features)
    inside : ndarray of bool (n_samples,)
    most : int
        Largest number of features. Those without a difference are left out.
    """
    if inside.all() or not inside.any():
        return []
    spread = X.std(axis=0)
    mean, other = X[inside].mean(axis=0), X[~inside].mean(axis=0)
    difference = np.divide(mean - other, spread, out=np.zeros(len(spread)), where=spread > 0)
    order = np.argsort(-np.abs(difference), kind="stable")[:most]
    return [
        DistinctiveFeature(int(j), float(mean[j]), float(other[j]), float(difference[j]))
        for j in order
        if difference[j] != 0
    ]

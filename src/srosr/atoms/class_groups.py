"""Groups of classes that are worked off together, and the samples on which their risk is measured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._support.array_types import Array, IntArray

#: Most atoms, or candidates for atoms, of a group; a class is never divided.
GROUP_SIZE = 8192
#: Of the samples on which the risk of a group is measured, this share belongs to classes of other groups.
OTHERS = 0.25


#: Samples on which the risk of atoms is measured where the user gives no number: so many for each atom, or these; but
#: not more than make so many similarities.
SAMPLES_AN_ATOM, LEAST_SAMPLES, MOST_SIMILARITIES = 10, 6000, 4 * 10**7


class ClassGroup(NamedTuple):
    """Numbers of classes, and of the samples on which their risk is measured."""

    classes: IntArray
    samples: IntArray

    def build_membership(self, class_of: IntArray) -> Array:
        """Return the memberships of the samples in the classes of the group, zeros for samples of others."""
        return (class_of[self.samples][:, None] == self.classes).astype(np.float64)


def draw_groups(
    class_of: IntArray, needed: IntArray, max_samples: int | None, rng: Any, size: int = GROUP_SIZE
) -> list[ClassGroup]:
    """Divide classes into groups and draw the samples of each.

    ``needed`` are the places that each class takes; consecutive classes share a group as long as there are at most
    ``size`` together. Of a group's samples at most ``max_samples`` are drawn, evenly over the classes; as many as
    :func:`count_samples` returns for its places if None.
    """
    groups, first = [], 0
    while first < len(needed):
        total = np.cumsum(needed[first:])
        last = first + max(int(np.searchsorted(total, size, side="right")), 1)
        groups.append(np.arange(first, last))
        first = last
    out = []
    for classes in groups:
        own = np.flatnonzero(np.isin(class_of, classes))
        others = np.setdiff1d(np.arange(len(class_of)), own, assume_unique=True)
        most = count_samples(int(needed[classes].sum())) if max_samples is None else max_samples
        n_others = min(len(others), int(OTHERS * most))
        kept = draw_evenly(class_of, own, most - n_others, rng)
        out.append(ClassGroup(classes, np.concatenate([kept, rng.permutation(others)[:n_others]])))
    return out


def count_samples(n_atoms: int) -> int:
    """Return the number of samples on which the risk of so many atoms is measured."""
    return max(LEAST_SAMPLES, min(SAMPLES_AN_ATOM * n_atoms, MOST_SIMILARITIES // n_atoms))


def draw_evenly(class_of: IntArray, rows: IntArray, most: int, rng: Any) -> IntArray:
    """Return at most about ``most`` of some rows, the same share of every class and at least one, sorted."""
    if len(rows) <= most:
        return rows
    labels, sizes = np.unique(class_of[rows], return_counts=True)
    share = most / len(rows)
    parts = [
        rng.permutation(rows[class_of[rows] == k])[: max(int(share * n), 1)] for k, n in zip(labels, sizes, strict=True)
    ]
    return np.sort(np.concatenate(parts))

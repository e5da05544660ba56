"""Ways to hold whole groups of samples out: those of one person, patient or device stay on one side of every split.

A group may have samples of several classes. It is held out with all of them, and never if a class would lose its last
sample: a class of a single group is never held out, like one of a single sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, IntArray


class SampleGroups:
    """Samples that belong together.

    Parameters
    ----------
    groups : ndarray of int (n_samples,)
        Number of the group of each sample.
    class_of : ndarray of int (n_samples,)
        Number of the class of each sample.
    """

    def __init__(self, groups: IntArray, class_of: IntArray) -> None:
        self.groups, self.class_of = groups, class_of
        self.sizes = np.bincount(class_of)
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        #: The samples of each group, and how many of each class these are.
        self.members: list[IntArray] = np.split(order, starts[1:])
        self.counts = [
            tuple(np.unique(class_of[rows], return_counts=True)) for rows in self.members
        ]  # fmt: skip

    @property
    def can_be_held_out(self) -> bool:
        """Whether there is a group that can be held out."""
        return any(bool((n < self.sizes[classes]).all()) for classes, n in self.counts)

    def expand(self, rows: IntArray) -> IntArray:
        """Return samples with all others of their groups, sorted."""
        return np.flatnonzero(np.isin(self.groups, self.groups[rows]))

    def draw_splits(self, n_repeats: int, share: float, rng: Any) -> Iterator[IntArray]:
        """Yield the held-out samples of each repeat, sorted: groups until each class has about its share held out."""
        wanted = np.clip(np.round(share * self.sizes), 1, np.maximum(self.sizes - 1, 0))
        for _ in range(n_repeats):
            held, drawn = np.zeros(len(self.sizes), np.int64), []
            for g in rng.permutation(len(self.members)):
                classes, n = self.counts[g]
                after = held[classes] + n
                # A group that is larger than what is wanted is better than none.
                fits = (after <= np.maximum(wanted[classes], n)).all() and (held[classes] < wanted[classes]).any()
                if fits and (after < self.sizes[classes]).all():
                    held[classes] = after
                    drawn.append(self.members[g])
            yield np.sort(np.concatenate(drawn)) if drawn else np.empty(0, np.int64)

    def draw_share(self, share: float, rng: Any, *, may_empty_classes: bool = False) -> IntArray:
        """Return the samples of a share of the groups, sorted: at least one group, all equally likely.

        Groups are passed over only where a class would lose its last sample, unless that may be.
        """
        held = np.zeros(len(self.sizes), np.int64)
        drawn: list[IntArray] = []
        wanted = max(round(share * len(self.members)), 1)
        for g in rng.permutation(len(self.members)):
            classes, n = self.counts[g]
            if len(drawn) < wanted and (may_empty_classes or (held[classes] + n < self.sizes[classes]).all()):
                held[classes] += n
                drawn.append(self.members[g])
        return np.sort(np.concatenate(drawn)) if drawn else np.empty(0, np.int64)

    def draw_folds(self, rng: Any, n_folds: int) -> Iterator[IntArray]:
        """Yield folds that hold every group out once that can be, spread evenly over the classes."""
        loads = np.zeros((n_folds, len(self.sizes)), np.int64)
        folds: list[list[IntArray]] = [[] for _ in range(n_folds)]
        for g in rng.permutation(len(self.members)):
            classes, n = self.counts[g]
            after = loads[:, classes] + n
            possible = np.flatnonzero((after < self.sizes[classes]).all(axis=1))
            if not len(possible):
                continue
            cost = (loads[possible][:, classes] / self.sizes[classes]).sum(axis=1)
            fold = int(rng.choice(possible[cost == cost.min()]))
            loads[fold, classes] += n
            folds[fold].append(self.members[g])
        for rows in folds:
            if rows:
                yield np.sort(np.concatenate(rows))

    def find_simulated_only(self, absent: IntArray) -> IntArray:
        """Return samples that are never held out, but are unknown where the classes ``absent`` are left out.

        They are those of groups of these classes alone of which one has no other group.
        """
        n_groups = np.bincount(np.concatenate([classes for classes, _ in self.counts]), minlength=len(self.sizes))
        chosen = [
            rows
            for rows, (classes, _) in zip(self.members, self.counts, strict=True)
            if np.isin(classes, absent).all() and (n_groups[classes] == 1).any()
        ]
        return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)


def check_groups(groups: Any, y: AnyArray) -> tuple[IntArray, AnyArray]:
    """Return the number of each sample's group and the names of the groups, or raise a ValueError."""
    names, numbers = np.unique(check_group_names(groups, len(y)), return_inverse=True)
    if len(names) == 1:
        raise ValueError(
            f"groups: all samples are of one group, {names.tolist()[0]!r}, so that none can be held out; leave groups "
            "out, or give samples of several groups."
        )
    numbers = numbers.astype(np.int64).reshape(-1)
    if not SampleGroups(numbers, np.unique(y, return_inverse=True)[1].reshape(-1)).can_be_held_out:
        raise ValueError(
            "groups: each class would lose its last sample with any of its groups, so that none can be held out; give "
            "classes samples of at least two groups."
        )
    return numbers, names


def extend_groups(groups: Any, names: AnyArray, n: int) -> tuple[IntArray, AnyArray]:
    """Return the number of the group of each of n new samples, and the names of all groups, new ones last."""
    named = check_group_names(groups, n)
    if (named.dtype.kind == "U") != (names.dtype.kind == "U"):
        kind = "text" if names.dtype.kind == "U" else "numbers"
        raise ValueError(f"groups must be {kind}, as those of the training samples are.")
    place = {name: i for i, name in enumerate(names.tolist())}
    for name in named.tolist():
        place.setdefault(name, len(place))
    joined = np.array(list(place))
    if joined.tolist() != list(place):
        raise ValueError("groups: numbers as large as these cannot be held together with those before; use text.")
    return np.array([place[name] for name in named.tolist()], dtype=np.int64), joined


def check_group_names(groups: Any, n: int) -> AnyArray:
    """Return the group of each of n samples as an array of numbers or text, or raise a ValueError."""
    try:
        named = np.asarray(groups)
    except ValueError:
        raise ValueError(f"groups must have one value for each of the {n} samples, got lists in it.") from None
    if named.ndim != 1 or len(named) != n:
        raise ValueError(f"groups must have one value for each of the {n} samples, got shape {named.shape}.")
    if named.dtype.kind not in "biufUO":
        raise ValueError(f"groups holds values of type {named.dtype}; use numbers or text.")
    from pandas import isna

    if bool(np.any(isna(named))):
        raise ValueError("groups must not have missing values: every sample belongs to a group.")
    return np.array([str(value) for value in named.tolist()]) if named.dtype.kind == "O" else named

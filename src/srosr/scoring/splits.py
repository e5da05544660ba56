"""Ways to hold samples out and to leave classes out, as arrays of row numbers; nothing is coded here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .group_splits import SampleGroups

#: Share of the classes that simulated openness leaves out at a time.
LEFT_OUT = 0.3
#: Openness is simulated in every second repeat, which adds half as many codings.
SIMULATED_EVERY = 2
#: Folds of the calibration pass: at most a twentieth of the atoms is missing, or one of a class.
N_FOLDS = 20
#: The least number of splits over which the budget of a pass is spread: known, with classes left out, and folds.
LEAST_REPEATS, LEAST_SIMULATED, LEAST_FOLDS = 5, 10, 5
#: Codings of a pass where the user gives no number; of the first one, to which tails are fitted class by class, more.
MAX_CODINGS, MAX_FIRST_CODINGS = 10_000, 20_000


def draw_cross_splits(class_slices: list[slice], n_repeats: int, holdout: float, rng: Any) -> Iterator[IntArray]:
    """Yield the held-out atoms of each repeat, sorted: of every class the share ``holdout``.

    At least one sample of a class is held out and never all; the only sample of a class never is.
    """
    for _ in range(n_repeats):
        parts = []
        for part in class_slices:
            size = part.stop - part.start
            held = min(max(round(holdout * size), 1), size - 1)
            parts.append(part.start + rng.permutation(size)[:held])
        yield np.sort(np.concatenate(parts))


def draw_folds(class_slices: list[slice], rng: Any, n_folds: int = N_FOLDS) -> Iterator[IntArray]:
    """Yield folds that hold every sample out once, spread evenly over the classes.

    The only sample of a class is never held out. A class of fewer samples than folds is complete in the other folds.
    """
    folds: list[list[int]] = [[] for _ in range(n_folds)]
    for part in class_slices:
        size = part.stop - part.start
        if size < 2:
            continue
        places = rng.permutation(n_folds)
        for i, row in enumerate(rng.permutation(size)):
            folds[places[i % n_folds]].append(part.start + int(row))
    for fold in folds:
        if fold:
            yield np.sort(np.array(fold))


def count_held_out(class_slices: list[slice], holdout: float) -> int:
    """Return how many samples a split of :func:`draw_cross_splits` holds out."""
    sizes = [part.stop - part.start for part in class_slices]
    return sum(min(max(round(holdout * size), 1), size - 1) for size in sizes)


def count_splits(n_splits: int, size: int, budget: int, least: int) -> int:
    """Return how many splits of ``size`` samples a pass has: all if the budget lets it, else as few as use it up.

    At least ``least`` remain, of which :func:`thin_splits` codes a part.
    """
    return n_splits if n_splits * size <= budget else min(max(-(-budget // max(size, 1)), least), n_splits)


def thin_splits(splits: list[IntArray], class_of: IntArray, budget: int, rng: Any) -> list[IntArray]:
    """Return the splits with fewer samples, evenly spread over the classes, so that all together keep the budget.

    A split that has no part in a small budget is empty.
    """
    total = sum(map(len, splits))
    if total <= budget:
        return splits
    thinned = []
    for i, held in enumerate(splits):
        # The shares of all splits add up to the budget.
        quota = (i + 1) * budget // len(splits) - i * budget // len(splits)
        # In random order within each class; every k-th of them then has its share of each class.
        mixed = rng.permutation(held)
        mixed = mixed[np.argsort(class_of[mixed], kind="stable")]
        places = (rng.uniform() + np.arange(min(quota, len(held)))) * len(held) / max(min(quota, len(held)), 1)
        thinned.append(np.sort(mixed[places.astype(np.int64)]))
    return thinned


def add_only_samples(
    splits: list[IntArray], left_out: list[IntArray], class_of: IntArray, groups: SampleGroups | None = None
) -> list[IntArray]:
    """Return the splits of simulated openness with the only samples of the classes that each leaves out.

    Such a sample is never held out by itself, but is a simulated unknown where its class is left out. With ``groups``
    the same holds for the samples of the only group of a class.
    """
    if groups is not None:
        return [
            np.union1d(held, groups.find_simulated_only(absent)) for held, absent in zip(splits, left_out, strict=True)
        ]
    sizes = np.bincount(class_of)
    if not (sizes == 1).any():
        return splits
    out = []
    for held, absent in zip(splits, left_out, strict=True):
        single = absent[sizes[absent] == 1]
        out.append(np.union1d(held, np.flatnonzero(np.isin(class_of, single))))
    return out


def draw_left_out_classes(n_classes: int, n_repeats: int, rng: Any) -> list[IntArray]:
    """Return the classes that each repeat leaves out: about 30 %, all in turn, so that at least two are kept.

    The list is empty where there are only two classes.
    """
    size = min(max(round(LEFT_OUT * n_classes), 1), n_classes - 2)
    return list(rotate_classes(n_classes, size, n_repeats, rng)) if size > 0 else []


def rotate_classes(n_classes: int, size: int, n: int, rng: Any) -> Iterator[IntArray]:
    """Draw ``size`` classes ``n`` times, sorted, from a shuffled queue that is refilled once every class had a turn."""
    queue: list[int] = []
    for _ in range(n):
        chosen: set[int] = set()
        while len(chosen) < size:
            if not queue:
                queue = rng.permutation(n_classes).tolist()
            # A class drawn from the end of one queue that is first in the next one waits for the next draw.
            place = next((i for i, k in enumerate(queue) if k not in chosen), None)
            if place is None:
                queue += rng.permutation(n_classes).tolist()
                continue
            chosen.add(queue.pop(place))
        yield np.array(sorted(chosen))


def split_off_calibration(
    y: AnyArray,
    usable: AnyArray,
    share: float,
    rng: Any,
    groups: IntArray | None = None,
    *,
    may_empty_classes: bool = False,
) -> tuple[IntArray, IntArray]:
    """Return the rows of the dictionary, and those of the calibration split: of each class the share.

    The split has at least one sample of every class with two, since the guarantee covers all classes, and never the
    last one. Samples that are not ``usable``, those of length zero, stay in the dictionary. With ``groups`` (numbers)
    it has that share of the groups, all equally likely; ``may_empty_classes`` says that the classes have other samples.
    """
    if groups is not None:
        class_of = np.unique(y, return_inverse=True)[1].reshape(-1)
        numbers = np.unique(groups, return_inverse=True)[1].reshape(-1)
        rows = SampleGroups(numbers, class_of).draw_share(share, rng, may_empty_classes=may_empty_classes)
        rows = rows[usable[rows]]
        return np.setdiff1d(np.arange(len(y)), rows), rows
    drawn: list[IntArray] = []
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero((y == label) & usable))
        drawn.append(rows[: max(min(max(round(share * len(rows)), 1), len(rows) - 1), 0)])
    split = np.sort(np.concatenate(drawn))
    return np.setdiff1d(np.arange(len(y)), split), split

r"""The cross-test: what the evidence of known samples, and of strangers, looks like before any stranger is met.

Three passes over the training samples, all from one Gram matrix, into which a smaller dictionary is an index set:

- *known*, the paper's training phase: repeatedly every class is shuffled, a share of it is held out, and the held-out
  samples are coded over the atoms that are left.
- *simulated openness*: the same, with some of the classes taken out of the dictionary altogether. The samples of those
  are *pretended strangers*; those of the others show what a known sample looks like in the same smaller world.
- *calibration*: every sample is coded once, over all atoms but a few. A fifth of the atoms missing, as in the first
  pass, makes known samples look stranger than they will be; what is missing here hardly does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from ..coding import Problem, gram_wanted, sparse_encode
from ..dictionary import Dictionary, scaled_queries
from ..evidence import EVIDENCE, HeldOut, evidence_of

__all__ = ["CrossTest", "CrossTester", "classes_in_turn", "cross_splits", "few_out_folds", "left_out_classes"]

#: Share of the classes that simulated openness leaves out at a time.
LEFT_OUT = 0.3
#: Folds of the calibration pass: a twentieth of the atoms is missing at most, or one of a class.
N_FOLDS = 20


@dataclass(frozen=True)
class CrossTest:
    """Held-out samples, a row for each time one was coded.

    Attributes
    ----------
    sample : ndarray of int (n,)
        Number of the atom that was held out.
    repeat : ndarray of int (n,)
    truth, candidate : ndarray of int (n,)
        Numbers of its class and of the class with the smallest residual.
    matched, nonmatched : ndarray (n,)
        Residual of its own class, and the sum over the other classes. NaN for a pretended stranger: its own class was
        not there.
    values : ndarray (n, 8)
        The evidence table; 0, 0 and 1 in its columns of least squares where that was left out.
    stranger : ndarray of bool (n,)
        Whether its class had been left out.
    """

    sample: IntArray
    repeat: IntArray
    truth: IntArray
    candidate: IntArray
    matched: Array
    nonmatched: Array
    values: Array
    stranger: Any

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, rows: Any) -> CrossTest:
        return CrossTest(*(getattr(self, f.name)[rows] for f in fields(self)))

    @staticmethod
    def joined(parts: list[CrossTest]) -> CrossTest:
        """Several cross-tests as one; an empty one of none."""
        if not parts:
            none, number = np.empty(0), np.empty(0, np.int64)
            return CrossTest(
                number, number, number, number, none, none, np.empty((0, len(EVIDENCE))), np.empty(0, np.bool_)
            )
        return CrossTest(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(CrossTest)))

    @property
    def right(self) -> Any:
        """Which rows have their own class as candidate."""
        return self.truth == self.candidate


class CrossTestLater(CrossTest):
    """A cross-test that is run when it is first looked at; the splits are fixed, so that it does not matter when.

    Parameters
    ----------
    run : callable
        Makes the cross-test.
    """

    _run: Callable[[], CrossTest] | None

    def __init__(self, run: Callable[[], CrossTest]) -> None:
        object.__setattr__(self, "_run", run)

    def __getattr__(self, name: str) -> Any:
        run = self.__dict__.get("_run")
        if run is None or name not in CrossTest.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        made = run()
        for f in fields(CrossTest):
            object.__setattr__(self, f.name, getattr(made, f.name))
        object.__setattr__(self, "_run", None)
        return self.__dict__[name]


def cross_splits(class_slices: list[slice], n_repeats: int, holdout: float, rng: Any) -> Iterator[IntArray]:
    """Held-out atoms of each repeat, sorted: of every class the share ``holdout``, at least one sample and never all.

    A class of one sample is never held out.
    """
    for _ in range(n_repeats):
        parts = []
        for part in class_slices:
            size = part.stop - part.start
            held = min(max(round(holdout * size), 1), size - 1)
            parts.append(part.start + rng.permutation(size)[:held])
        yield np.sort(np.concatenate(parts))


def few_out_folds(class_slices: list[slice], rng: Any, n_folds: int = N_FOLDS) -> Iterator[IntArray]:
    """Folds that hold every sample out once, a few at a time; a class of one sample is never held out.

    A class of fewer samples than there are folds is whole in all the others.
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


def left_out_classes(n_classes: int, n_repeats: int, rng: Any) -> list[IntArray]:
    """Classes that each repeat leaves out: about 30 %, at least one, at least two kept, all classes in turn.

    Empty where two classes are all there are.
    """
    size = min(max(round(LEFT_OUT * n_classes), 1), n_classes - 2)
    return list(classes_in_turn(n_classes, size, n_repeats, rng)) if size > 0 else []


def classes_in_turn(n_classes: int, size: int, n: int, rng: Any) -> Iterator[IntArray]:
    """Draw ``size`` classes ``n`` times, sorted, from a shuffled queue, filled again once all have had a turn."""
    queue: list[int] = []
    for _ in range(n):
        chosen: list[int] = []
        while len(chosen) < size:
            if not queue:
                queue = rng.permutation(n_classes).tolist()
            # A class that was chosen from the last queue and comes first in the next waits for its turn.
            place = next((i for i, k in enumerate(queue) if k not in chosen), None)
            if place is None:
                queue += rng.permutation(n_classes).tolist()
                continue
            chosen.append(queue.pop(place))
        yield np.sort(np.array(chosen))


class CrossTester:
    """Codes samples of a dictionary over parts of it. Samples of length zero stay out: there is nothing to code.

    Parameters
    ----------
    dictionary : Dictionary
        With labels of at least two classes.
    problem : Problem
    n_jobs : int, optional
    done : callable, optional
        Told the number of samples coded since the last time.
    codes_only : bool, default False
        Only the evidence of sparse codes is wanted: what regularised least squares says, the last three kinds, is left
        at nothing. A large dictionary then needs no Gram matrix of all its atoms.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        problem: Problem,
        *,
        n_jobs: int | None = None,
        done: Callable[[int], None] | None = None,
        codes_only: bool = False,
    ) -> None:
        self.dictionary, self.problem, self.n_jobs, self.done = dictionary, problem, n_jobs, done
        slices = dictionary.class_slices
        self.n_classes = len(slices)
        self.class_of: IntArray = np.repeat(np.arange(self.n_classes), [s.stop - s.start for s in slices])
        self.lonely = np.bincount(self.class_of)[self.class_of] == 1
        self.by_blocks = codes_only and not dictionary.has_gram and not gram_wanted(dictionary)
        if not self.by_blocks:
            _ = dictionary.gram  # squared lengths are its diagonal, to the bit, once it is there
        self.squares = dictionary.squared_norms
        self.held_out = None if codes_only else HeldOut(dictionary)

    def coded(self, test: IntArray, removed: IntArray, absent: IntArray, repeat: int) -> CrossTest:
        """The samples ``test`` over all atoms but ``removed``; those are sorted, and hold all atoms of ``absent``."""
        train = np.delete(np.arange(self.dictionary.n_atoms), removed)
        part = self.dictionary.subset(train)
        if self.by_blocks:
            cross = self.dictionary.block(test, train)
        else:
            cross = self.dictionary.gram[test].take(train, axis=1)
        queries = scaled_queries(cross, self.squares[test])
        codes = sparse_encode(queries, part, self.problem, n_jobs=self.n_jobs)
        present = np.delete(np.arange(self.n_classes), absent)
        scores = distances = np.zeros((len(test), len(present)))
        if self.held_out is not None:
            scores = self.held_out.scores(removed)[np.searchsorted(removed, test)][:, present]
            distances = self.held_out.distances(test, removed, present)
        evidence = evidence_of(queries, codes, part, scores, distances)
        truth = self.class_of[test]
        stranger = np.isin(truth, absent)
        own = evidence.residuals[np.arange(len(test)), np.searchsorted(present, truth) % len(present)]
        matched = np.where(stranger, np.nan, own)
        if self.done is not None:
            self.done(len(test))
        return CrossTest(
            test,
            np.full(len(test), repeat),
            truth,
            present[evidence.candidate],
            matched,
            evidence.residuals.sum(axis=1) - matched,
            evidence.values,
            stranger,
        )

    def known(self, splits: Iterable[IntArray], only: int | None = None) -> CrossTest:
        """Every split's held-out samples over the rest (of class ``only``, if one is given)."""
        parts = []
        for repeat, removed in enumerate(splits):
            test = removed if only is None else removed[self.class_of[removed] == only]
            test = test[self.squares[test] > 0]
            if len(test):
                parts.append(self.coded(test, removed, np.empty(0, np.int64), repeat))
        return CrossTest.joined(parts)

    def simulated(self, splits: Iterable[IntArray], left_out: Iterable[IntArray]) -> CrossTest:
        """Every split's held-out samples over the rest without the classes left out.

        The one sample of a class that has no other is never held out; where its class is left out it is a pretended
        stranger like the others.
        """
        parts = []
        for repeat, (held, absent) in enumerate(zip(splits, left_out, strict=True)):
            gone = np.flatnonzero(np.isin(self.class_of, absent))
            test = np.union1d(held, gone[self.lonely[gone]])
            test = test[self.squares[test] > 0]
            if len(test):
                parts.append(self.coded(test, np.union1d(held, gone), absent, repeat))
        return CrossTest.joined(parts)

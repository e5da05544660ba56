r"""The cross-test: the evidence of held-out known samples and of simulated unknowns, before any unknown sample is seen.

Three passes over the training samples, all from one Gram matrix, into which a smaller dictionary is an index set:

- *known*, the paper's training phase: repeatedly every class is shuffled, a share of it is held out, and the held-out
  samples are coded over the remaining atoms.
- *simulated openness*: the same, with some classes removed from the dictionary altogether. Their samples are *simulated
  unknowns*; those of the other classes show how known samples look with the same smaller dictionary.
- *calibration*: every sample is coded once, over all atoms but a few. In the first pass a fifth of the atoms is
  missing, which raises the errors of known samples; here that effect is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.threads import one_blas_thread
from ..coding import Problem, gram_wanted, sparse_encode
from ..dictionary import Dictionary, wrap_queries
from ..evidence import EVIDENCE, HeldOutCollaborative, build_evidence


@dataclass(frozen=True)
class CrossTest:
    """Held-out samples, one row for each time a sample was coded.

    Attributes
    ----------
    sample : ndarray of int (n,)
        Number of the atom that was held out.
    repeat : ndarray of int (n,)
    truth, candidate : ndarray of int (n,)
        Numbers of its class and of the class with the smallest residual.
    matched, nonmatched : ndarray (n,)
        Residual of its own class, and the sum over the other classes. NaN for a simulated unknown, whose class was not
        in the dictionary.
    values : ndarray (n, 8)
        The evidence table; 0, 0 and 1 in its least-squares columns where those were left out.
    unknown : ndarray of bool (n,)
        Whether it is a simulated unknown: its class was left out.
    """

    sample: IntArray
    repeat: IntArray
    truth: IntArray
    candidate: IntArray
    matched: Array
    nonmatched: Array
    values: Array
    unknown: Any

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, rows: Any) -> CrossTest:
        return CrossTest(*(getattr(self, f.name)[rows] for f in fields(self)))

    @staticmethod
    def concatenate(parts: list[CrossTest]) -> CrossTest:
        """Return several cross-tests as one, an empty one for no parts."""
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


class CrossTester:
    """Codes samples of a dictionary over parts of it. Samples of length zero are left out.

    Without ``held_out``, least squares over the dictionary, only the evidence of sparse codes is computed; a large
    dictionary then needs no Gram matrix of all its atoms. ``done`` is called with the number of samples just coded.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        problem: Problem,
        held_out: HeldOutCollaborative | None = None,
        *,
        n_jobs: int | None = None,
        done: Callable[[int], None] | None = None,
    ) -> None:
        self.dictionary, self.problem, self.n_jobs, self.done = dictionary, problem, n_jobs, done
        self.class_of = dictionary.class_of
        self.n_classes = len(dictionary.class_slices)
        self.is_only_sample = np.bincount(self.class_of)[self.class_of] == 1
        self.by_blocks = held_out is None and not dictionary.has_gram and not gram_wanted(dictionary)
        if not self.by_blocks:
            _ = dictionary.gram  # squared lengths are its diagonal, to the bit, once it has been computed
        self.squares = dictionary.squared_norms
        self.held_out = held_out

    def encode(self, test: IntArray, removed: IntArray, absent: IntArray, repeat: int) -> CrossTest:
        """Code the samples ``test`` over all atoms but ``removed`` (sorted), which include all of ``absent``."""
        train = np.delete(np.arange(self.dictionary.n_atoms), removed)
        part = self.dictionary.subset(train)
        if self.by_blocks:
            cross = self.dictionary.block(test, train)
        else:
            cross = self.dictionary.gram[test].take(train, axis=1)
        queries = wrap_queries(cross, self.squares[test])
        codes = sparse_encode(queries, part, self.problem, n_jobs=self.n_jobs)
        present = np.delete(np.arange(self.n_classes), absent)
        scores = distances = None
        if self.held_out is not None:
            scores = self.held_out.scores(removed)[np.searchsorted(removed, test)][:, present]
            distances = self.held_out.distances(test, removed, present)
        evidence = build_evidence(queries, codes, part, scores, distances)
        truth = self.class_of[test]
        unknown = np.isin(truth, absent)
        own = evidence.residuals[np.arange(len(test)), np.searchsorted(present, truth) % len(present)]
        matched = np.where(unknown, np.nan, own)
        nonmatched = evidence.residuals.sum(axis=1) - matched
        if self.done is not None:
            self.done(len(test))
        repeats, candidate = np.full(len(test), repeat), present[evidence.candidate]
        return CrossTest(test, repeats, truth, candidate, matched, nonmatched, evidence.values, unknown)

    def test_known(self, splits: Iterable[IntArray], only: int | None = None) -> CrossTest:
        """Code the held-out samples of every split (of class ``only``, if given) over the remaining atoms."""
        parts = []
        for repeat, removed in enumerate(splits):
            test = removed if only is None else removed[self.class_of[removed] == only]
            test = test[self.squares[test] > 0]
            if len(test):
                parts.append(self.encode(test, removed, np.empty(0, np.int64), repeat))
        return CrossTest.concatenate(parts)

    def test_simulated(self, splits: Iterable[IntArray], left_out: Iterable[IntArray]) -> CrossTest:
        """Code the held-out samples of every split over the remaining atoms of the classes that are not left out.

        The only sample of a class is never held out, but is a simulated unknown where its class is left out.
        """
        parts = []
        for repeat, (held, absent) in enumerate(zip(splits, left_out, strict=True)):
            gone = np.flatnonzero(np.isin(self.class_of, absent))
            test = np.union1d(held, gone[self.is_only_sample[gone]])
            test = test[self.squares[test] > 0]
            if len(test):
                parts.append(self.encode(test, np.union1d(held, gone), absent, repeat))
        return CrossTest.concatenate(parts)


@dataclass(frozen=True, eq=False)
class DeferredCrossTest:
    """A cross-test that runs at its first use; its splits are fixed, so the result does not depend on when.

    The inverses of least squares are not kept until then.
    """

    dictionary: Dictionary
    problem: Problem
    n_jobs: int | None
    with_least_squares: bool
    splits: list[IntArray]
    left_out: list[IntArray] | None = None

    @cached_property
    def result(self) -> CrossTest:
        """The cross-test, run now if it has not been."""
        with one_blas_thread():
            least_squares = HeldOutCollaborative(self.dictionary) if self.with_least_squares else None
            tester = CrossTester(self.dictionary, self.problem, least_squares, n_jobs=self.n_jobs)
            if self.left_out is None:
                return tester.test_known(self.splits)
            return tester.test_simulated(self.splits, self.left_out)

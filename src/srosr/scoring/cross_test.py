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

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.devices import find_device
from .._support.threads import one_blas_thread
from ..coding.batch import gram_wanted
from ..coding.encode import sparse_encode
from ..coding.problems import Problem
from ..dictionary.dictionary import Dictionary, wrap_queries
from ..distributed.dask_cluster import ClusterError, DaskCluster
from ..distributed.worker_task import LostTask
from ..evidence.class_scores import ClassScores, HoldOut
from ..evidence.coded_blocks import map_coded_blocks
from ..evidence.table import EVIDENCE, ClassFusion, CodeMeasures, build_evidence, measure_codes
from ..exceptions import DeviceError
from .group_splits import SampleGroups


@dataclass(frozen=True)
class CrossTest:
    """Held-out samples, one row for each time a sample was coded.

    Attributes
    ----------
    sample : ndarray of int (n,)
        Number of the atom that was held out.
    repeat : ndarray of int (n,)
    truth, candidate : ndarray of int (n,)
        Numbers of its class and of its candidate.
    residual_candidate : ndarray of int (n,)
        Number of the class with the smallest residual.
    matched, nonmatched : ndarray (n,)
        Residual of its own class, and the sum over the other classes. NaN for a simulated unknown, whose class was not
        in the dictionary.
    values : ndarray (n, n_kinds)
        The evidence table; 0 in columns that were left out.
    unknown : ndarray of bool (n,)
        Whether it is a simulated unknown: its class was left out.
    margin : ndarray (n,)
        By how much the class score of the best other class exceeds that of its own class; NaN for a simulated unknown,
        and in models written before it was recorded.
    """

    sample: IntArray
    repeat: IntArray
    truth: IntArray
    candidate: IntArray
    residual_candidate: IntArray
    matched: Array
    nonmatched: Array
    values: Array
    unknown: Any
    margin: Array

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, rows: Any) -> CrossTest:
        return CrossTest(*(getattr(self, f.name)[rows] for f in fields(self)))

    @staticmethod
    def concatenate(parts: list[CrossTest]) -> CrossTest:
        """Return several cross-tests as one, an empty one for no parts."""
        if not parts:
            none, number = np.empty(0), np.empty(0, np.int64)
            values = np.empty((0, len(EVIDENCE)))
            return CrossTest(number, number, number, number, number, none, none, values, np.empty(0, np.bool_), none)
        return CrossTest(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(CrossTest)))

    @property
    def right(self) -> Any:
        """Which rows have their own class as candidate."""
        return self.truth == self.candidate

    def label_by_residual(self) -> CrossTest:
        """Return the same rows with the class of the smallest residual as candidate."""
        return replace(self, candidate=self.residual_candidate)


def compute_margins(class_scores: Array) -> Array:
    """Compute by how much the best other class exceeds each class, (n_samples, n_classes); negative for the best.

    Examples
    --------
    >>> import numpy as np
    >>> compute_margins(np.array([[0.5, 2.0, 1.0]]))
    array([[ 1.5, -1. ,  1. ]])
    """
    rows = np.arange(len(class_scores))
    best = class_scores.argmax(axis=1)
    others = class_scores.copy()
    others[rows, best] = -np.inf
    out = class_scores[rows, best][:, None] - class_scores
    out[rows, best] = others.max(axis=1) - class_scores[rows, best]
    return out


class CodedHoldOut(NamedTuple):
    """Held-out atoms that have been coded over the atoms that are left."""

    hold_out: HoldOut
    repeat: int
    measures: CodeMeasures


def build_cross_test(
    coded: Sequence[CodedHoldOut],
    class_of: IntArray,
    scores: Sequence[ClassScores] | None = None,
    fusion: ClassFusion | None = None,
    *,
    by_residual: bool = True,
) -> CrossTest:
    """Build the evidence of coded samples, from class scores too if they are given, and find their candidates.

    ``class_of`` numbers the classes of all samples.
    """
    parts = []
    for i, (held, repeat, measures) in enumerate(coded):
        evidence = build_evidence(measures, None if scores is None else scores[i], fusion)
        test, present, truth = held.test, held.present, class_of[held.test]
        unknown = ~np.isin(truth, present)
        residuals = evidence.residuals
        place = np.searchsorted(present, truth) % len(present)
        matched = np.where(unknown, np.nan, residuals[np.arange(len(test)), place])
        nearest = present[evidence.residual_candidate]
        candidate = nearest if by_residual else present[evidence.candidate]
        nonmatched, repeats = residuals.sum(axis=1) - matched, np.full(len(test), repeat)
        margins = compute_margins(-residuals if by_residual else evidence.class_scores)
        margin = np.where(unknown, np.nan, margins[np.arange(len(test)), place])
        values = evidence.values
        parts.append(CrossTest(test, repeats, truth, candidate, nearest, matched, nonmatched, values, unknown, margin))
    return CrossTest.concatenate(parts)


class CrossTester:
    """Codes samples of a dictionary over parts of it. Samples of length zero are left out.

    A large dictionary needs no Gram matrix of all its atoms. ``done`` is called with the number of samples just coded.
    With a ``cluster`` its workers code them, with a ``device``, a ``torch.device``, they are coded there. Atoms
    ``never_tested`` are held out with the others, but not coded. With ``groups`` all atoms of the group of a held-out
    one are held out with it.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        problem: Problem,
        *,
        n_jobs: int | None = None,
        done: Callable[[int], None] | None = None,
        cluster: DaskCluster | None = None,
        never_tested: IntArray | None = None,
        device: Any = None,
        groups: SampleGroups | None = None,
    ) -> None:
        self.groups = groups
        self.dictionary, self.problem, self.n_jobs, self.done = dictionary, problem, n_jobs, done
        self.cluster, self.device = cluster, device
        self.class_of = dictionary.class_of
        self.n_classes = len(dictionary.class_slices)
        self.by_blocks = not dictionary.has_gram and not gram_wanted(dictionary, problem)
        if not self.by_blocks and device is None:
            _ = dictionary.gram  # squared lengths are its diagonal, to the bit, once it has been computed
        self.squares = dictionary.squared_norms
        self.is_tested = self.squares > 0
        if never_tested is not None:
            self.is_tested[never_tested] = False

    # -- what is held out --------------------------------------------------------------------------------

    def hold_out_known(self, splits: Iterable[IntArray], only: AnyArray | None = None) -> list[tuple[int, HoldOut]]:
        """Return the number of each split and what it holds out (of the atoms flagged in ``only``, if given)."""
        out, present = [], np.arange(self.n_classes)
        for repeat, held in enumerate(splits):
            test = held if only is None else held[only[held]]
            test = test[self.is_tested[test]]
            if len(test):
                out.append((repeat, HoldOut(test, self._remove(held), present)))
        return out

    def _remove(self, held: IntArray) -> IntArray:
        """Return the atoms that are missing where some are held out."""
        return held if self.groups is None else self.groups.expand(held)

    def hold_out_simulated(self, splits: Iterable[IntArray], left_out: Iterable[IntArray]) -> list[tuple[int, HoldOut]]:
        """Return the number of each split and what it holds out, with classes left out altogether."""
        out = []
        for repeat, (held, absent) in enumerate(zip(splits, left_out, strict=True)):
            gone = np.flatnonzero(np.isin(self.class_of, absent))
            test = held[self.is_tested[held]]
            if len(test):
                present = np.delete(np.arange(self.n_classes), absent)
                out.append((repeat, HoldOut(test, np.union1d(self._remove(held), gone), present)))
        return out

    # -- their codes and evidence ------------------------------------------------------------------------

    def encode(self, hold_outs: Sequence[tuple[int, HoldOut]]) -> list[CodedHoldOut]:
        """Code held-out samples over the atoms that are left."""
        if self.cluster is not None:
            measured = run_on_cluster(
                self.cluster, measure_on_worker, [held for _, held in hold_outs], (self.dictionary, self.problem),
                lambda held: len(held.test), self.done,
            )  # fmt: skip
            return [CodedHoldOut(held, i, measures) for (i, held), measures in zip(hold_outs, measured, strict=True)]
        if self.device is not None:
            return self._encode_on_device(hold_outs)
        out = []
        for repeat, held in hold_outs:
            train = np.delete(np.arange(self.dictionary.n_atoms), held.removed)
            part = self.dictionary.subset(train)
            if self.by_blocks:
                measures = self._measure_by_blocks(held.test, part)
            else:
                queries = wrap_queries(self.dictionary.gram[held.test].take(train, axis=1), self.squares[held.test])
                codes = sparse_encode(queries, part, self.problem, n_jobs=self.n_jobs)
                measures = measure_codes(queries, codes, part)
                if self.done is not None:
                    self.done(len(held.test))
            out.append(CodedHoldOut(held, repeat, measures))
            del part  # with its Gram matrix, before there is another
        return out

    def _encode_on_device(self, hold_outs: Sequence[tuple[int, HoldOut]]) -> list[CodedHoldOut]:
        from ..coding.device import name_failures
        from ..dictionary.device_dictionary import put_on_device
        from ..evidence.device_evidence import measure_hold_out

        out = []
        with name_failures(self.device, f"a dictionary of {self.dictionary.n_atoms} atoms"):
            whole = put_on_device(self.dictionary, self.device)
            for repeat, held in hold_outs:
                measures = measure_hold_out(whole, held.test, held.removed, self.problem, self.done, n_jobs=self.n_jobs)
                out.append(CodedHoldOut(held, repeat, measures))
        return out

    def _measure_by_blocks(self, test: IntArray, part: Dictionary) -> CodeMeasures:
        """Code atoms over a large part of the dictionary, of which similarities to a few samples fit into memory."""
        assert self.dictionary.rows is not None
        measured = map_coded_blocks(
            lambda queries, codes: measure_codes(queries, codes, part),
            self.dictionary.rows[test],
            part,
            self.problem,
            self.n_jobs,
            self.done,
        )
        return CodeMeasures.concatenate(measured)

    def build(
        self,
        coded: Sequence[CodedHoldOut],
        scores: Sequence[ClassScores] | None = None,
        fusion: ClassFusion | None = None,
        *,
        by_residual: bool = True,
    ) -> CrossTest:
        """Build the evidence of coded samples, see :func:`build_cross_test`."""
        return build_cross_test(coded, self.class_of, scores, fusion, by_residual=by_residual)

    def test_known(self, splits: Iterable[IntArray], only: AnyArray | None = None) -> CrossTest:
        """Code the held-out samples of every split (those in ``only``, if given); only codes give evidence."""
        return self.build(self.encode(self.hold_out_known(splits, only)))

    def test_simulated(self, splits: Iterable[IntArray], left_out: Iterable[IntArray]) -> CrossTest:
        """Code the held-out samples of every split over the classes that are not left out; only codes give evidence."""
        return self.build(self.encode(self.hold_out_simulated(splits, left_out)))


def measure_on_worker(held: HoldOut, *, shared: tuple[Dictionary, Problem]) -> CodeMeasures:
    """Code held-out samples in a worker of a cluster."""
    with one_blas_thread():
        return CrossTester(*shared, n_jobs=1).encode([(0, held)])[0].measures


def run_on_cluster(
    cluster: DaskCluster,
    function: Callable[..., Any],
    tasks: Sequence[Any],
    shared: Any,
    count: Callable[[Any], int],
    done: Callable[[int], None] | None,
) -> list[Any]:
    """Return the results of tasks in order; ``done`` is called with the ``count`` of each as it ends.

    Raises
    ------
    ClusterError
        If a task cannot be done, or the cluster is lost.
    """
    results: list[Any] = [None] * len(tasks)
    with closing(cluster.run(function, tasks, shared=shared)) as answers:  # at once, also if a task is lost
        for index, result in answers:
            if isinstance(result, LostTask):
                raise ClusterError(f"a worker of {cluster.address} could not code held-out samples: {result.reason}.")
            results[index] = result
            if done is not None:
                done(count(tasks[index]))
    return results


@dataclass(frozen=True, eq=False)
class DeferredCrossTest:
    """A cross-test that runs at its first use; its splits are fixed, so the result does not depend on when.

    It runs on the ``device`` of that name, or without one if it is gone by then.
    """

    dictionary: Dictionary
    problem: Problem
    n_jobs: int | None
    splits: list[IntArray]
    left_out: list[IntArray] | None = None
    device: str = "cpu"
    groups: SampleGroups | None = None

    @cached_property
    def result(self) -> CrossTest:
        """The cross-test, run now if it has not been."""
        try:
            device = find_device(self.device)
        except DeviceError:
            device = None
        with one_blas_thread():
            tester = CrossTester(self.dictionary, self.problem, n_jobs=self.n_jobs, device=device, groups=self.groups)
            if self.left_out is None:
                return tester.test_known(self.splits)
            return tester.test_simulated(self.splits, self.left_out)

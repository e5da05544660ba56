"""Calibration of a small dictionary on all training samples, also those that are no atoms.

Atoms are chosen or learned from the samples, so a sample must not be judged by atoms that it had a part in. Therefore
the atoms are found anew without each fold of the samples, in the same way, and the samples of the fold are coded over
them like new ones: with all classes for the tails, the fused scores and their distribution, and with some classes left
out for simulated openness. The regressions of the class scores are fitted to all samples but those of the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from .._support.array_types import AnyArray, IntArray
from .._support.threads import ThreadPool, map_ahead, one_blas_thread, progress_bar
from ..coding.batch import gram_wanted
from ..coding.encode import Codes
from ..coding.problems import Problem
from ..dictionary.dictionary import Dictionary, Queries
from ..distributed.dask_cluster import DaskCluster
from ..evidence.class_scores import ClassScores, HoldOut
from ..evidence.coded_blocks import map_coded_blocks
from ..evidence.landmark_scores import LandmarkScorer
from ..evidence.landmarks import RegressionSamples
from ..evidence.scorer_fits import fit_sampled_scorer
from ..evidence.table import ClassFusion, CodeMeasures, measure_codes
from .calibration import Calibration, conclude, count_atoms
from .cross_test import CodedHoldOut, CrossTest, build_cross_test, run_on_cluster
from .fusion import fit_class_fusion
from .group_splits import SampleGroups
from .splits import MAX_CODINGS, add_only_samples, draw_folds, draw_left_out_classes, thin_splits

#: Folds without which atoms are found, and how often each fold is coded with classes left out.
N_FOLDS = 5
ROTATIONS = 3
#: With fewer samples than these, simulated openness is repeated with other folds.
ENOUGH_SAMPLES, MOST_REPEATS = 1500, 4

#: From numbers of samples, in the order of the dictionary of all, to the dictionary of the atoms found among them.
FindAtoms = Callable[[IntArray], Dictionary]


class _Assessed(NamedTuple):
    """Held-out samples of one split, coded and scored."""

    coded: CodedHoldOut
    scores: ClassScores


def cross_fit(
    whole: Dictionary,
    find_atoms: FindAtoms,
    problem: Problem,
    *,
    rule: str,
    evidence: tuple[str, ...],
    class_scores: tuple[str, ...],
    by_residual: bool,
    tail_size: float | str,
    weight: float,
    max_codings: int | None,
    rng: Any,
    n_jobs: int | None,
    progress: bool,
    cluster: DaskCluster | None = None,
    device: Any = None,
    groups: IntArray | None = None,
) -> Calibration:
    """Calibrate the rule of a small dictionary; ``whole`` is that of all samples, the rest as for ``calibrate``.

    Atoms are found without the ``device``.
    """
    class_of, slices = whole.class_of, whole.class_slices
    repeats = min(max(round(ENOUGH_SAMPLES / whole.n_atoms), 1), MOST_REPEATS)
    together = None if groups is None else SampleGroups(groups, class_of)

    def draw() -> list[IntArray]:
        return list(draw_folds(slices, rng, N_FOLDS) if together is None else together.draw_folds(rng, N_FOLDS))

    first, *others = [draw() for _ in range(repeats)]
    folds = first + [fold for more in others for fold in more]
    left_out = draw_left_out_classes(len(slices), max(len(folds), 1) * ROTATIONS, rng)
    if not folds and not left_out:
        raise ValueError("y has two classes of one sample each; give more samples or classes.")
    folds = folds or [np.empty(0, np.int64)]  # one sample of each class: none can be held out, but classes left out
    budget = max_codings or MAX_CODINGS
    # Thresholds and p-values take every sample once. The weights of the evidence depend on the folds: they take more.
    known = thin_splits(first, class_of, budget, rng)
    rotated = [fold for fold in folds for _ in range(ROTATIONS)][: len(left_out)]
    simulated = thin_splits(add_only_samples(rotated, left_out, class_of, together), class_of, budget, rng)
    total = sum(map(len, known)) + sum(map(len, simulated))
    with ExitStack() as stack, one_blas_thread(), progress_bar(total if progress else None) as bar:
        done = None if bar is None else lambda n: bar(slice(0, n))
        assessor = _Assessor(whole, problem, class_scores, n_jobs, None if cluster is not None else device)
        n_threads = min(int(effective_n_jobs(n_jobs)), len(folds))
        pool = stack.enter_context(ThreadPool(n_threads if n_threads > 1 else 0))
        simulations = list(zip(simulated, left_out, strict=True))
        tasks = _make_tasks(whole, find_atoms, folds, known, simulations, pool)
        if cluster is None:
            # One after the other: the atoms of a few folds, with their Gram matrices, are all that is in memory.
            results = [(len(task.absent) > 0, assessor.assess(task, done)) for task in tasks]
        else:
            plan = [task._replace(atoms=task.atoms.without_gram()) for task in tasks]
            found = run_on_cluster(cluster, _assess_on_worker, plan, assessor, lambda task: len(task.test), done)
            results = [(len(task.absent) > 0, part) for task, part in zip(plan, found, strict=True)]
        held_out = [a for is_simulated, part in results if not is_simulated for a in part]
        elsewhere = [a for is_simulated, part in results if is_simulated for a in part]
        fusion = None
        if not by_residual or set(evidence) & {"fused", "fused_margin"}:
            fusion = _fuse(class_scores, held_out or elsewhere, class_of if held_out else None)
        tests = [_build(part, class_of, fusion, by_residual) for part in (elsewhere, held_out)]
    return conclude(
        tests[1], tests[0], tests[1], count_atoms(whole), rule=rule, evidence=evidence, tail_size=tail_size,
        weight=weight, class_fusion=fusion,
    )  # fmt: skip


class _Task(NamedTuple):
    """Samples ``test`` to be assessed over atoms found among the samples ``kept``, without the classes ``absent``."""

    atoms: Dictionary
    kept: IntArray
    test: IntArray
    absent: IntArray
    repeat: int


def _make_tasks(
    whole: Dictionary,
    find_atoms: FindAtoms,
    folds: list[IntArray],
    known: list[IntArray],
    simulated: list[tuple[IntArray, IntArray]],
    pool: ThreadPool,
) -> Iterator[_Task]:
    """Find atoms without each fold; yield what is to be assessed over them, with all classes and with some left out.

    Threads find the atoms of the next folds meanwhile.
    """
    samples = (np.delete(np.arange(whole.n_atoms), fold) for fold in folds)
    for i, (kept, atoms) in enumerate(map_ahead(lambda kept: (kept, find_atoms(kept)), samples, pool)):
        if i < len(known):
            yield _Task(atoms, kept, known[i], np.empty(0, np.int64), i)
        for j, (test, absent) in list(enumerate(simulated))[i * ROTATIONS : (i + 1) * ROTATIONS]:
            yield _Task(atoms, kept, test, absent, j)


def _assess_on_worker(task: _Task, *, shared: _Assessor) -> list[_Assessed]:
    """Assess the samples of a task in a worker of a cluster; its atoms have come without their Gram matrix."""
    with one_blas_thread():
        if gram_wanted(task.atoms, shared.problem):
            _ = task.atoms.gram  # of all atoms, to the bits that it has where they were found
        return _Assessor(shared.whole, shared.problem, shared.class_scores, n_jobs=1).assess(task)


class _Assessor:
    """Codes and scores samples over atoms that were found without them."""

    def __init__(
        self,
        whole: Dictionary,
        problem: Problem,
        class_scores: tuple[str, ...],
        n_jobs: int | None,
        device: Any = None,
    ) -> None:
        self.whole, self.problem, self.class_scores, self.n_jobs = whole, problem, class_scores, n_jobs
        self.device = device
        self.squares, self.class_of = whole.squared_norms, whole.class_of

    def assess(self, task: _Task, done: Callable[[int], None] | None = None) -> list[_Assessed]:
        """Assess the samples of a task; the list is empty if there is none."""
        atoms, kept, test, absent, repeat = task
        test = test[self.squares[test] > 0]
        if len(test) == 0:
            return []
        present = np.delete(np.arange(len(self.whole.class_slices)), absent)
        part = atoms if len(absent) == 0 else atoms.subset(np.isin(atoms.class_of, present))
        rows = self.whole.rows
        assert rows is not None
        scorer = None
        if len(self.class_scores) > 1:
            fitted = kept[np.isin(self.class_of[kept], present)]
            samples = RegressionSamples(rows[fitted], np.searchsorted(present, self.class_of[fitted]))
            scorer = fit_sampled_scorer(part, self.class_scores, samples, n_jobs=self.n_jobs, device=self.device)
        measures, scores = assess_rows(part, scorer, rows[test], self.problem, self.n_jobs, done, self.device)
        return [_Assessed(CodedHoldOut(HoldOut(test, test, present), repeat, measures), scores)]


def assess_rows(
    part: Dictionary,
    scorer: LandmarkScorer | None,
    rows: AnyArray,
    problem: Problem,
    n_jobs: int | None,
    done: Callable[[int], None] | None = None,
    device: Any = None,
) -> tuple[CodeMeasures, ClassScores]:
    """Code and score rows over a dictionary, on a ``torch.device`` unless that is None."""
    if device is not None:
        from ..evidence.device_evidence import DeviceGatherer

        return DeviceGatherer(part, problem, device, scorer, n_jobs=n_jobs).measure(rows, done)
    measured = map_coded_blocks(partial(_measure, part, scorer), rows, part, problem, n_jobs, done)
    measures = CodeMeasures.concatenate([one for one, _ in measured])
    return measures, ClassScores.concatenate([one for _, one in measured])


def _measure(
    part: Dictionary, scorer: LandmarkScorer | None, queries: Queries, codes: Codes
) -> tuple[CodeMeasures, ClassScores]:
    scores = ClassScores() if scorer is None else scorer.score(queries)
    return measure_codes(queries, codes, part), scores


def _fuse(kinds: tuple[str, ...], assessed: list[_Assessed], class_of: IntArray | None) -> ClassFusion:
    """Learn the fused class score; without held-out samples (``class_of`` None) its weights are the prior."""
    scores = [part.scores.by_kind | {"residual": -part.coded.measures.residuals} for part in assessed]
    truth = None if class_of is None else [class_of[part.coded.hold_out.test] for part in assessed]
    return fit_class_fusion(kinds, scores, truth)


def _build(assessed: list[_Assessed], class_of: IntArray, fusion: ClassFusion | None, by_residual: bool) -> CrossTest:
    coded, scores = [part.coded for part in assessed], [part.scores for part in assessed]
    return build_cross_test(coded, class_of, scores, fusion, by_residual=by_residual)

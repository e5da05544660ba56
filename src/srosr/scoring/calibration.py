"""Calibration on held-out samples: cross-tests, tails, fused class score, fused score and its distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.threads import one_blas_thread, progress_bar
from ..coding.problems import Problem
from ..dictionary.dictionary import Dictionary
from ..distributed.dask_cluster import DaskCluster
from ..evidence.class_scores import ClassScorer
from ..evidence.landmark_scores import LandmarkScorer, find_landmarks
from ..evidence.scorer_fits import fit_scorer
from ..evidence.table import EVIDENCE, ClassFusion
from ..exceptions import CalibrationWarning, warn
from ..tails.error_distribution import SplicedDistribution
from .cross_test import CodedHoldOut, CrossTest, CrossTester, DeferredCrossTest
from .decision_rules import MIN_SAMPLES, CalibratedRule, TailRule, fit_tails
from .fusion import Fusion, fit_class_fusion, fit_fusion
from .group_splits import SampleGroups
from .held_out_scores import HeldOutScores
from .splits import (
    LEAST_FOLDS,
    LEAST_REPEATS,
    LEAST_SIMULATED,
    MAX_CODINGS,
    MAX_FIRST_CODINGS,
    N_FOLDS,
    SIMULATED_EVERY,
    add_only_samples,
    count_held_out,
    count_splits,
    draw_cross_splits,
    draw_folds,
    draw_left_out_classes,
    thin_splits,
)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was learned from held-out samples.

    Parameters
    ----------
    known : CrossTest
        The first pass of :mod:`srosr.scoring.cross_test`, to which the tails are fitted.
    simulated_pass, held_out_pass : CrossTest or DeferredCrossTest
        The second and the third pass; read them as ``simulated`` and ``held_out``.
    rule : CalibratedRule or TailRule
        Turns evidence into an unknown score.
    tails : TailRule or None
        Matched and non-matched tails of every class; None where no sample could be held out.
    pooled : ndarray of bool (n_classes,)
        Classes that share the tails of all classes.
    evidence : tuple of str
        The kinds of evidence that the rule uses, or could use.
    class_fusion : ClassFusion or None
        Fuses class scores; None where nothing uses it.
    """

    known: CrossTest
    simulated_pass: CrossTest | DeferredCrossTest
    held_out_pass: CrossTest | DeferredCrossTest
    rule: CalibratedRule | TailRule
    tails: TailRule | None
    pooled: Any
    evidence: tuple[str, ...]
    class_fusion: ClassFusion | None = None

    @property
    def simulated(self) -> CrossTest:
        """Samples coded with classes left out: simulated unknowns, and known samples beside them."""
        return _get_result(self.simulated_pass)

    @property
    def held_out(self) -> CrossTest:
        """Every sample coded once over nearly all others: thresholds and p-values come from these."""
        return _get_result(self.held_out_pass)

    @property
    def weights(self) -> Array:
        """Weights of ``evidence`` in the fused score; zero for the other rules."""
        if not isinstance(self.rule, CalibratedRule):
            return np.zeros(len(self.evidence))
        return self.rule.fusion.weights[np.isin(EVIDENCE, self.evidence)]

    @property
    def weight_errors(self) -> Array | None:
        """Standard errors of ``weights``; None where the weights were not learned."""
        errors = self.rule.fusion.errors if isinstance(self.rule, CalibratedRule) else None
        return None if errors is None else errors[np.isin(EVIDENCE, self.evidence)]

    @cached_property
    def margins(self) -> SplicedDistribution | None:
        """The distribution of ``held_out.margin``; None where nothing was held out, or it was not recorded."""
        margin = self.held_out.margin
        if not len(margin) or not np.isfinite(margin).all():
            return None
        return SplicedDistribution.fit(margin, groups=self.held_out.sample, warn=False)

    @property
    def simulated_scores(self) -> Array:
        """Unknown scores of the samples of ``simulated``."""
        rows = self.simulated
        if isinstance(self.rule, CalibratedRule):
            return self.rule.current.cdf(self.rule.simulated.score(rows.values))
        return self.rule.score(rows.values, rows.residual_candidate)

    @property
    def scores(self) -> HeldOutScores:
        """The scores from which thresholds are chosen."""
        rows, simulated, is_p_value = self.held_out, self.simulated, isinstance(self.rule, CalibratedRule)
        scores, elsewhere = self.rule.score(rows.values, rows.residual_candidate), self.simulated_scores
        return HeldOutScores(
            scores, rows.candidate, rows.truth, elsewhere, simulated.unknown, simulated.right, is_p_value=is_p_value,
            weight_errors=self.weight_errors,
        )  # fmt: skip


def _get_result(cross_test: CrossTest | DeferredCrossTest) -> CrossTest:
    return cross_test.result if isinstance(cross_test, DeferredCrossTest) else cross_test


def count_atoms(dictionary: Dictionary) -> IntArray:
    """Return the number of atoms of each class."""
    return np.array([part.stop - part.start for part in dictionary.class_slices])


def calibrate(
    dictionary: Dictionary,
    problem: Problem,
    *,
    rule: str,
    evidence: tuple[str, ...],
    class_scores: tuple[str, ...],
    by_residual: bool,
    n_repeats: int,
    holdout: float,
    tail_size: float | str,
    weight: float,
    rng: Any,
    n_jobs: int | None,
    progress: bool,
    max_codings: int | None = None,
    cluster: DaskCluster | None = None,
    device: Any = None,
    groups: IntArray | None = None,
) -> tuple[Calibration, ClassScorer | LandmarkScorer | None]:
    """Run the three passes over a dictionary and fit tails, fusions and distribution.

    A pass codes at most ``max_codings`` samples. If that is not enough for the first pass, which only serves the tails,
    the rule "calibrated" fits these to the third pass instead. With a ``cluster`` its workers code; else samples are
    coded on the ``device``, a ``torch.device``, unless it is None. Class scores are computed there. ``class_scores``
    are the kinds that ``evidence`` and the labels need, ``by_residual`` whether candidates are those of the smallest
    residual. Samples of one of the ``groups`` (numbers, by atom) are held out together. Also returns what computes
    these class scores of new samples, with the rule "calibrated".
    """
    sizes = count_atoms(dictionary)
    together = None if groups is None else SampleGroups(groups, dictionary.class_of)
    splits, simulated_splits, folds, left_out = _draw_passes(
        dictionary, rule, n_repeats, holdout, max_codings, rng, together
    )
    if (sizes == 1).all():
        _check_single_samples(rule, left_out)
    if rule != "calibrated":
        # The paper's rules need the second and the third pass only for thresholds that are not numbers.
        with one_blas_thread(), progress_bar(sum(map(len, splits)) if progress else None) as bar:
            tester = _make_tester(dictionary, problem, n_jobs, bar, cluster, device, groups=together)
            known = tester.test_known(splits)
        name = "cpu" if device is None else str(device)
        later = partial(DeferredCrossTest, dictionary, problem, n_jobs, device=name, groups=together)
        done = conclude(
            known, later(splits=simulated_splits, left_out=left_out), later(splits=folds), sizes, rule=rule,
            evidence=evidence, tail_size=tail_size, weight=weight,
        )  # fmt: skip
        return done, None
    landmarks = find_landmarks(dictionary)
    total = sum(int((~np.isin(held, landmarks)).sum()) for held in (*splits, *folds, *simulated_splits))
    with one_blas_thread(), progress_bar(total if progress else None) as bar:
        tester = _make_tester(dictionary, problem, n_jobs, bar, cluster, device, landmarks, together)
        known = tester.test_known(splits)
        plans = [tester.hold_out_simulated(simulated_splits, left_out), tester.hold_out_known(folds)]
        hold_outs = [held for plan in plans for _, held in plan]
        scorer = fit_scorer(dictionary, class_scores, hold_outs, n_jobs=n_jobs, device=device)
        both = tester.encode([held for plan in plans for held in plan])
        coded = [both[: len(plans[0])], both[len(plans[0]) :]]
        fusion = None
        if not by_residual or set(evidence) & {"fused", "fused_margin"}:
            fusion = _fuse_class_scores(scorer, coded, dictionary.class_of)
        middle = len(coded[0])
        halves = scorer.held_out[:middle], scorer.held_out[middle:]
        simulated, held_out = (
            tester.build(part, scores, fusion, by_residual=by_residual)
            for part, scores in zip(coded, halves, strict=True)
        )
    scorer.held_out = []
    done = conclude(
        known if splits else held_out, simulated, held_out, sizes, rule=rule, evidence=evidence,
        tail_size=tail_size, weight=weight, class_fusion=fusion,
    )  # fmt: skip
    return done, scorer


def _draw_passes(
    dictionary: Dictionary,
    rule: str,
    n_repeats: int,
    holdout: float,
    max_codings: int | None,
    rng: Any,
    groups: SampleGroups | None = None,
) -> tuple[list[IntArray], list[IntArray], list[IntArray], list[IntArray]]:
    """Draw the held-out samples of the three passes, and the classes that the second one leaves out.

    The first list is empty if the rule "calibrated" fits its tails to the third pass.
    """
    slices, class_of = dictionary.class_slices, dictionary.class_of
    budget, first_budget = max_codings or MAX_CODINGS, max_codings or MAX_FIRST_CODINGS
    n_repeats = min(n_repeats, max(first_budget, MAX_FIRST_CODINGS))  # each takes at least one coding
    size, n_simulated = count_held_out(slices, holdout), -(-n_repeats // SIMULATED_EVERY)
    n_simulated = count_splits(n_simulated, size, budget, LEAST_SIMULATED)
    # All splits are drawn whatever the budget, so that what is drawn after them does not depend on it.
    if groups is None:
        splits, folds = list(draw_cross_splits(slices, n_repeats, holdout, rng)), list(draw_folds(slices, rng))
    else:
        splits = list(groups.draw_splits(n_repeats, holdout, rng))
        folds = list(groups.draw_folds(rng, N_FOLDS))
    left_out = draw_left_out_classes(len(slices), n_simulated, rng)
    n_held = sum(map(len, folds))
    if n_held > budget:
        folds = folds[: count_splits(len(folds), max(n_held // N_FOLDS, 1), budget, LEAST_FOLDS)]
    known = splits[: count_splits(n_repeats, size, first_budget, LEAST_REPEATS)]
    if rule == "calibrated" and n_repeats * size > first_budget:
        known = []
    simulated = add_only_samples(splits[: len(left_out)], left_out, class_of, groups)
    simulated, folds, known = (
        thin_splits(part, class_of, most, rng)
        for part, most in ((simulated, budget), (folds, budget), (known, first_budget))
    )
    return known, simulated, folds, left_out


def draw_class_passes(
    dictionary: Dictionary,
    rule: str,
    n_repeats: int,
    holdout: float,
    max_codings: int | None,
    rng: Any,
    groups: SampleGroups | None = None,
) -> tuple[list[IntArray], list[IntArray]]:
    """Draw the held-out samples of the first and the third pass, of which the new ones are to be coded.

    They are those of a fit, so that a new class, or new samples, have their share of the budget and not more.
    """
    known, _, folds, _ = _draw_passes(dictionary, rule, n_repeats, holdout, max_codings, rng, groups)
    return known, folds


def _check_single_samples(rule: str, left_out: Sequence[IntArray]) -> None:
    """Raise a ValueError where one sample of each class is too little."""
    if rule != "calibrated":
        raise ValueError(
            f"rule={rule!r} fits tails to held-out samples, which takes a class with two samples; give one, or use "
            'rule="calibrated".'
        )
    if not left_out:
        raise ValueError(
            "y has two classes of one sample each, so that no sample can be held out and no class left out; give "
            "more samples or classes."
        )


def _make_tester(
    dictionary: Dictionary, problem: Problem, n_jobs: int | None, bar: Any, cluster: DaskCluster | None, device: Any,
    never_tested: IntArray | None = None, groups: SampleGroups | None = None,
) -> CrossTester:  # fmt: skip
    done = None if bar is None else lambda n: bar(slice(0, n))
    return CrossTester(
        dictionary, problem, n_jobs=n_jobs, done=done, cluster=cluster, never_tested=never_tested, device=device,
        groups=groups,
    )  # fmt: skip


def _fuse_class_scores(
    scorer: ClassScorer | LandmarkScorer, coded: list[list[CodedHoldOut]], class_of: IntArray
) -> ClassFusion:
    """Learn the fused class score on held-out samples; without any its scales come from simulated openness."""
    simulated, held_out = coded
    used, first = (held_out, len(simulated)) if held_out else (simulated, 0)
    scores = [
        scorer.held_out[first + i].by_kind | {"residual": -part.measures.residuals} for i, part in enumerate(used)
    ]
    truth = [class_of[part.hold_out.test] for part in held_out] if held_out else None
    return fit_class_fusion(scorer.kinds, scores, truth)


def conclude(
    known: CrossTest,
    simulated: CrossTest | DeferredCrossTest,
    held_out: CrossTest | DeferredCrossTest,
    sizes: Any,
    *,
    rule: str,
    evidence: tuple[str, ...],
    tail_size: float | str,
    weight: float,
    class_fusion: ClassFusion | None = None,
) -> Calibration:
    """Fit tails, fusion and distribution of a rule to the three passes; no sample is coded."""
    tails = fit_tails(known, sizes, tail_size, weight) if len(known) else None
    pooled = np.array([n < MIN_SAMPLES for n in sizes] if tails is None else tails.pooled)
    if rule != "calibrated":
        if tails is None:
            raise ValueError(f"rule={rule!r} fits tails to held-out samples, and all of them are zero.")
        return Calibration(known, simulated, held_out, tails, tails, pooled, evidence)
    simulated, held_out = _get_result(simulated), _get_result(held_out)
    with one_blas_thread():
        fusions = fit_fusion(
            held_out.values, simulated.values, simulated.unknown, simulated.truth, evidence, simulated.sample
        )
    calibrated = fit_calibrated_rule(fusions, held_out, simulated, tail_size)
    return Calibration(known, simulated, held_out, calibrated, tails, pooled, evidence, class_fusion)


def fit_calibrated_rule(
    fusions: tuple[Fusion, Fusion], held_out: CrossTest, simulated: CrossTest, tail_size: float | str
) -> CalibratedRule:
    """Fit the distribution of the fused score to held-out samples, or to simulated unknowns where there are none."""
    fusion, simulated_fusion = fusions
    rows = held_out if len(held_out) else simulated
    if not len(held_out):
        warn(
            "no class has a second sample to hold out: the unknown score is the share of simulated unknowns with a "
            "smaller fused score, and not one minus a p-value.",
            CalibrationWarning,
        )
    distribution = SplicedDistribution.fit(fusion.score(rows.values), tail_size, groups=rows.sample, warn=False)
    return CalibratedRule(fusion, simulated_fusion, distribution)

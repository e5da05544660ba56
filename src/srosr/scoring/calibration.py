"""Calibration on held-out samples: cross-tests, tails, the fused score and its distribution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.threads import one_blas_thread, progress_bar
from ..coding import Problem, gram_wanted
from ..dictionary import Dictionary
from ..evidence import EVIDENCE, HeldOutCollaborative
from ..exceptions import CalibrationWarning, warn
from ..tails import SplicedDistribution
from .cross_test import CrossTest, CrossTester, DeferredCrossTest
from .decision_rules import MIN_SAMPLES, CalibratedRule, TailRule, fit_tails
from .fusion import Fusion, fit_fusion
from .held_out_scores import HeldOutScores
from .splits import SIMULATED_EVERY, draw_cross_splits, draw_folds, draw_left_out_classes


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
    """

    known: CrossTest
    simulated_pass: CrossTest | DeferredCrossTest
    held_out_pass: CrossTest | DeferredCrossTest
    rule: CalibratedRule | TailRule
    tails: TailRule | None
    pooled: Any

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
        """Weights of the evidence in the fused score; zero for the other rules."""
        return self.rule.fusion.weights if isinstance(self.rule, CalibratedRule) else np.zeros(len(EVIDENCE))

    @property
    def simulated_scores(self) -> Array:
        """Unknown scores of the samples of ``simulated``."""
        rows = self.simulated
        if isinstance(self.rule, CalibratedRule):
            return self.rule.simulated_score(rows.values)
        return self.rule.score(rows.values, rows.candidate)

    @property
    def scores(self) -> HeldOutScores:
        """The scores from which thresholds are chosen."""
        rows, simulated, is_p_value = self.held_out, self.simulated, isinstance(self.rule, CalibratedRule)
        scores, elsewhere = self.rule.score(rows.values, rows.candidate), self.simulated_scores
        return HeldOutScores(
            scores, rows.candidate, rows.truth, elsewhere, simulated.unknown, simulated.right, is_p_value=is_p_value
        )


def _get_result(cross_test: CrossTest | DeferredCrossTest) -> CrossTest:
    return cross_test.result if isinstance(cross_test, DeferredCrossTest) else cross_test


def count_atoms(dictionary: Dictionary) -> IntArray:
    """Return the number of atoms of each class."""
    return np.array([part.stop - part.start for part in dictionary.class_slices])


def needs_least_squares(calibrated: bool, dictionary: Dictionary) -> bool:
    """Return whether the evidence of regularized least squares is computed.

    The paper's rules do not use it, and over many atoms it is expensive: it takes the Gram matrix of all of them.
    """
    return calibrated or gram_wanted(dictionary)


def calibrate(
    dictionary: Dictionary,
    problem: Problem,
    least_squares: HeldOutCollaborative | None,
    *,
    rule: str,
    n_repeats: int,
    holdout: float,
    tail_size: float | str,
    weight: float,
    rng: Any,
    n_jobs: int | None,
    progress: bool,
) -> Calibration:
    """Run the three passes over a dictionary and fit tails, fusion and distribution.

    ``least_squares`` is that of the dictionary; None where it is not needed, see :func:`needs_least_squares`.
    """
    slices, sizes = dictionary.class_slices, count_atoms(dictionary)
    splits = list(draw_cross_splits(slices, n_repeats, holdout, rng))
    folds = list(draw_folds(slices, rng))
    left_out = draw_left_out_classes(len(slices), -(-n_repeats // SIMULATED_EVERY), rng)
    simulated_splits = splits[: len(left_out)]
    if (sizes == 1).all():
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
    # The paper's rules need the second and the third pass only for thresholds that are not numbers.
    total = sum(map(len, splits))
    if rule == "calibrated":
        total += sum(map(len, folds)) + sum(map(len, simulated_splits))
    simulated: CrossTest | DeferredCrossTest
    held_out: CrossTest | DeferredCrossTest
    with one_blas_thread(), progress_bar(total if progress else None) as bar:
        done = None if bar is None else lambda n: bar(slice(0, n))
        tester = CrossTester(dictionary, problem, least_squares, n_jobs=n_jobs, done=done)
        known = tester.test_known(splits)
        if rule == "calibrated":
            simulated = tester.test_simulated(simulated_splits, left_out)
            held_out = tester.test_known(folds)
        else:
            later = partial(DeferredCrossTest, dictionary, problem, n_jobs, least_squares is not None)
            simulated, held_out = later(simulated_splits, left_out), later(folds)
    return conclude(known, simulated, held_out, sizes, rule=rule, tail_size=tail_size, weight=weight)


def conclude(
    known: CrossTest,
    simulated: CrossTest | DeferredCrossTest,
    held_out: CrossTest | DeferredCrossTest,
    sizes: Any,
    *,
    rule: str,
    tail_size: float | str,
    weight: float,
) -> Calibration:
    """Fit tails, fusion and distribution of a rule to the three passes; no sample is coded."""
    tails = fit_tails(known, sizes, tail_size, weight) if len(known) else None
    pooled = np.array([n < MIN_SAMPLES for n in sizes] if tails is None else tails.pooled)
    if rule != "calibrated":
        if tails is None:
            raise ValueError(f"rule={rule!r} fits tails to held-out samples, and all of them are zero.")
        return Calibration(known, simulated, held_out, tails, tails, pooled)
    simulated, held_out = _get_result(simulated), _get_result(held_out)
    with one_blas_thread():
        fusions = fit_fusion(held_out.values, simulated.values, simulated.unknown)
    calibrated = fit_calibrated_rule(fusions, held_out, simulated, tail_size)
    return Calibration(known, simulated, held_out, calibrated, tails, pooled)


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

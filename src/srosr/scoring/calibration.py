"""What the recogniser learns from held-out samples: cross-tests, tails, fused score and its distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.threads import one_blas_thread, progress_bar
from ..coding import Problem, gram_wanted
from ..dictionary import Dictionary
from ..evidence import EVIDENCE
from ..exceptions import CalibrationWarning, warn
from ..tails import SplicedDistribution
from .cross_test import CrossTest, CrossTester, CrossTestLater, cross_splits, few_out_folds, left_out_classes
from .decision_rules import MIN_SAMPLES, CalibratedRule, TailRule, fit_tails
from .fusion import Fusion, fit_fusion
from .held_out_scores import HeldOutScores

__all__ = ["Calibration", "calibrate", "calibrated_rule", "class_sizes", "codes_suffice", "concluded"]

#: Openness is simulated in every second repeat: half as many codings again.
SIMULATED_EVERY = 2


@dataclass(frozen=True)
class Calibration:
    """What was learnt from held-out samples.

    Attributes
    ----------
    known, simulated, held_out : CrossTest
        The three passes of :mod:`srosr.scoring.cross_test`; ``held_out`` is the one thresholds and p-values come from.
    rule : CalibratedRule or TailRule
        What turns evidence into an unknown score.
    tails : TailRule or None
        Matched and non-matched tails of every class; None where no sample could be held out.
    pooled : ndarray of bool (n_classes,)
        Classes that share the tails of all classes.
    """

    known: CrossTest
    simulated: CrossTest
    held_out: CrossTest
    rule: CalibratedRule | TailRule
    tails: TailRule | None
    pooled: Any

    @property
    def weights(self) -> Array:
        """Weights of the evidence in the fused score; zero for the other rules."""
        return self.rule.fusion.weights if isinstance(self.rule, CalibratedRule) else np.zeros(len(EVIDENCE))

    @property
    def simulated_scores(self) -> Array:
        """Unknown scores in the worlds with classes left out."""
        rows = self.simulated
        if isinstance(self.rule, CalibratedRule):
            return self.rule.simulated_score(rows.values)
        return self.rule.score(rows.values, rows.candidate)

    @property
    def scores(self) -> HeldOutScores:
        """What thresholds are made from."""
        rows, elsewhere = self.held_out, self.simulated
        return HeldOutScores(
            self.rule.score(rows.values, rows.candidate),
            rows.candidate,
            rows.truth,
            self.simulated_scores,
            elsewhere.stranger,
            elsewhere.right,
            is_p_value=isinstance(self.rule, CalibratedRule),
        )


def class_sizes(dictionary: Dictionary) -> Any:
    """Number of atoms of each class."""
    return np.array([part.stop - part.start for part in dictionary.class_slices])


def codes_suffice(calibrated: bool, dictionary: Dictionary) -> bool:
    """Whether regularised least squares is left out.

    The paper's rules have no use for it, and over many atoms it is dear: it takes the Gram matrix of all of them.
    """
    return not calibrated and not gram_wanted(dictionary)


def calibrate(
    dictionary: Dictionary,
    problem: Problem,
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
    """Run the three passes over a dictionary and fit tails, fusion and distribution."""
    slices = dictionary.class_slices
    sizes = class_sizes(dictionary)
    splits = list(cross_splits(slices, n_repeats, holdout, rng))
    folds = list(few_out_folds(slices, rng))
    left_out = left_out_classes(len(slices), -(-n_repeats // SIMULATED_EVERY), rng)
    lonely = bool((sizes == 1).all())
    if lonely and rule != "calibrated":
        raise ValueError(
            f'rule={rule!r} needs a class with two samples to fit its tails to; with one of each use rule="calibrated".'
        )
    if lonely and not left_out:
        raise ValueError("y has two classes of one sample each: there is nothing to hold out or leave out.")
    # The paper's rules need the second and the third pass for thresholds that are not numbers, and only then.
    total = sum(map(len, splits))
    if rule == "calibrated":
        total += sum(map(len, folds)) + sum(len(s) for s in splits[: len(left_out)])
    with one_blas_thread(), progress_bar(total if progress else None) as bar:
        new_tester = partial(
            CrossTester, dictionary, problem, n_jobs=n_jobs, codes_only=codes_suffice(rule == "calibrated", dictionary)
        )
        tester = new_tester(done=None if bar is None else lambda n: bar(slice(0, n)))
        known = tester.known(splits)
        if rule == "calibrated":
            simulated = tester.simulated(splits[: len(left_out)], left_out)
            held_out = tester.known(folds)
        else:
            simulated = CrossTestLater(partial(_simulated, new_tester, splits[: len(left_out)], left_out))
            held_out = CrossTestLater(partial(_held_out, new_tester, folds))
    return concluded(known, simulated, held_out, sizes, rule=rule, tail_size=tail_size, weight=weight)


def _simulated(tester: Callable[[], CrossTester], splits: list[IntArray], left_out: list[IntArray]) -> CrossTest:
    with one_blas_thread():
        return tester().simulated(splits, left_out)


def _held_out(tester: Callable[[], CrossTester], folds: list[IntArray]) -> CrossTest:
    with one_blas_thread():
        return tester().known(folds)


def concluded(
    known: CrossTest,
    simulated: CrossTest,
    held_out: CrossTest,
    sizes: Any,
    *,
    rule: str,
    tail_size: float | str,
    weight: float,
) -> Calibration:
    """What the three passes come to under a rule: tails, fusion and distribution; no sample is coded."""
    tails = fit_tails(known, sizes, tail_size, weight) if len(known) else None
    pooled = np.array([n < MIN_SAMPLES for n in sizes] if tails is None else tails.pooled)
    if rule != "calibrated":
        if tails is None:
            raise ValueError(f"rule={rule!r} needs a held-out sample that is not zero to fit its tails to.")
        return Calibration(known, simulated, held_out, tails, tails, pooled)
    with one_blas_thread():
        fused = fit_fusion(held_out.values, simulated.values, simulated.stranger)
    return Calibration(
        known, simulated, held_out, calibrated_rule(fused, held_out, simulated, tail_size), tails, pooled
    )


def calibrated_rule(
    fused: tuple[Fusion, Fusion], held_out: CrossTest, simulated: CrossTest, tail_size: float | str
) -> CalibratedRule:
    """The distribution of the fused score over held-out samples (pretended strangers, where there are none)."""
    fusion, elsewhere = fused
    rows = held_out if len(held_out) else simulated
    if not len(held_out):
        warn(
            "no class has a second sample to hold out: the unknown score is the share of pretended strangers that look "
            "less strange, not one minus a p-value.",
            CalibrationWarning,
        )
    distribution = SplicedDistribution.fit(fusion.score(rows.values), tail_size, groups=rows.sample, warn=False)
    return CalibratedRule(fusion, elsewhere, distribution)

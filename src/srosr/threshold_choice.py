"""Which threshold a fitted recogniser uses: by target rate, by simulated openness, or a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._types import Array, IntArray
from .calibration import Calibration
from .exceptions import CalibrationWarning, warn
from .rules import CalibratedRule
from .thresholds import (
    OBJECTIVES,
    Threshold,
    check_positive,
    check_rate,
    check_threshold,
    conformal_threshold,
    enough_for,
    rejection_threshold,
    simulated_threshold,
)

__all__ = ["Aside", "choose_threshold"]

# With fewer held-out samples than this a target that is too small for them is left to simulated openness.
_A_FEW = 19


@dataclass(frozen=True)
class Aside:
    """Samples that had no part in anything else.

    Attributes
    ----------
    scores : ndarray (n,)
    candidate, truth : ndarray of int (n,)
        Numbers of candidate and true class.
    """

    scores: Array
    candidate: IntArray
    truth: IntArray


def choose_threshold(
    calibration: Calibration,
    n_classes: int,
    *,
    threshold: float | str | None,
    target_rejection: float | None,
    per_class: bool,
    risk_weight: float,
    aside: Aside | None,
    promised: bool = False,
) -> Threshold:
    """The threshold on the unknown score, from what was held out.

    Parameters
    ----------
    calibration : Calibration
    n_classes : int
    threshold : float, str or None
        A number, what simulated openness is to optimise, or None for the target.
    target_rejection : float
    per_class : bool
    risk_weight : float
    aside : Aside or None
        With enough of them, of every class, the target is guaranteed.
    promised : bool
        Whether the user asked for that guarantee.
    """
    risk_weight = check_positive("risk_weight", risk_weight)
    if isinstance(threshold, str):
        return _by_simulation(calibration, n_classes, threshold, risk_weight)
    if threshold is not None:
        return _everywhere(n_classes, check_threshold(threshold), "fixed", "a fixed threshold")
    target = check_rate("target_rejection", target_rejection)
    needed = enough_for(target)
    if aside is not None and len(aside.scores) >= needed and len(np.unique(aside.truth)) == n_classes:
        source = f"{len(aside.scores)} samples kept out of everything else"
        return _by_target(conformal_threshold, aside.scores, aside.candidate, n_classes, target, per_class, source)
    if promised:
        n, covered = (0, 0) if aside is None else (len(aside.scores), len(np.unique(aside.truth)))
        warn(
            f"the promise of calibration='split' cannot be kept: it takes {needed} samples aside, at least one of each "
            f"of the {n_classes} classes, and there are {n}, of {covered} classes. The target is approximate, from "
            "held-out samples.",
            CalibrationWarning,
        )
    rows = calibration.held_out
    scores = calibration.rule.score(rows.values, rows.candidate)
    if len(scores) < needed:
        return _without_enough(calibration, n_classes, target, scores, needed)
    source = f"{len(scores)} held-out samples"
    chosen = _by_target(rejection_threshold, scores, rows.candidate, n_classes, target, per_class, source)
    unseen = np.setdiff1d(np.arange(n_classes), rows.truth)
    return chosen if not len(unseen) else _for_unseen(chosen, calibration, unseen, target)


def _by_target(
    find: Callable[[Array, float], float],
    scores: Array,
    candidate: IntArray,
    n_classes: int,
    target: float,
    per_class: bool,
    source: str,
) -> Threshold:
    """The threshold of a target rate: one for all, or one for each candidate class that has scores enough.

    The other classes then have one threshold together, from their own scores: every sample is judged by a threshold
    from samples of its own group of candidates, so that the rate is kept in each group and hence over all.
    """
    value = find(scores, target)
    values = np.full(n_classes, value)
    detail = f"at most {target:.3g} of known samples refused, from {source}"
    if per_class:
        counts = np.bincount(candidate, minlength=n_classes)
        own = np.flatnonzero(counts >= enough_for(target))
        rest = scores[~np.isin(candidate, own)]
        if len(rest):
            values[:] = find(rest, target)
        values[own] = [find(scores[candidate == k], target) for k in own]
        detail += f"; {len(own)} of {n_classes} classes have a threshold of their own"
    return Threshold(value, values, "conformal" if find is conformal_threshold else "target", detail)


def _for_unseen(chosen: Threshold, calibration: Calibration, unseen: IntArray, target: float) -> Threshold:
    """Classes of which nothing could be held out: known samples of theirs were not seen, so strangers set the limit."""
    stranger = calibration.simulated.stranger
    values, n = chosen.per_class.copy(), len(unseen)
    how = "the threshold of the others is used for them"
    if stranger.any():
        scores = calibration.simulated_scores[stranger]
        values[unseen] = np.maximum(values[unseen], _accepting(scores, target)[0])
        share = float(np.mean(scores <= values[unseen].max()))
        how = f"the threshold for them accepts {share:.3g} of pretended strangers"
    warn(
        f"target_rejection={target:g} holds only for the classes of which samples could be held out: {n} of "
        f"{len(values)} classes have none; {how}.",
        CalibrationWarning,
    )
    return Threshold(chosen.value, values, chosen.kind, f"{chosen.detail}; for {n} classes without any, {how}")


def _accepting(scores: Array, target: float) -> tuple[float, float]:
    """The largest threshold that accepts at most the share ``target`` of strangers' scores, and the share it does."""
    ordered = np.sort(scores)
    n = math.floor(target * len(ordered) + 1e-9)
    # Below the first score that has to be refused.
    limit = float(np.nextafter(ordered[n], -np.inf)) if n < len(ordered) else 1.0
    limit = max(limit, 0.0)
    return limit, float(np.mean(ordered <= limit))


def _everywhere(n_classes: int, value: float, kind: str, detail: str) -> Threshold:
    return Threshold(value, np.full(n_classes, value), kind, detail)


def _without_enough(calibration: Calibration, n_classes: int, target: float, scores: Array, needed: int) -> Threshold:
    """A threshold where the rate of false rejection cannot be seen: by simulated openness, and said aloud."""
    stranger = calibration.simulated.stranger
    if len(scores) >= _A_FEW:
        # Asked to refuse less than can be seen: the most lenient there is, and beyond it what the tail says.
        value = float(scores.max())
        if isinstance(calibration.rule, CalibratedRule):
            value = max(value, 1.0 - target)
        detail = f"beyond all of {len(scores)} held-out samples, by the tail of their scores"
        chosen = _everywhere(n_classes, value, "target", detail)
    elif not len(calibration.held_out):
        value, share = _accepting(calibration.simulated_scores[stranger], target)
        detail = f"accepts {share:.3g} of pretended strangers (no class has a second sample to hold out)"
        chosen = _everywhere(n_classes, value, "simulated", detail)
    elif stranger.any() and not stranger.all():
        chosen = _by_simulation(calibration, n_classes, "youden", 1.0)
    else:
        value = rejection_threshold(scores, target) if len(scores) else 1.0
        chosen = _everywhere(n_classes, value, "target", f"from only {len(scores)} held-out samples")
    warn(
        f"target_rejection={target:g} cannot be kept: it takes {needed} held-out samples and there are {len(scores)}. "
        f"The threshold is {chosen.value:.4g} instead: {chosen.detail}.",
        CalibrationWarning,
    )
    return chosen


def _by_simulation(calibration: Calibration, n_classes: int, objective: str, risk_weight: float) -> Threshold:
    if objective not in OBJECTIVES:
        check_threshold(objective)  # says what is possible
    stranger = calibration.simulated.stranger
    if not stranger.any() or stranger.all():
        raise ValueError(
            f"threshold={objective!r} needs simulated openness: at least three classes, some with two samples."
        )
    scores = calibration.simulated_scores
    right = calibration.simulated.right[~stranger]
    value, reached = simulated_threshold(scores[~stranger], right, scores[stranger], objective, risk_weight)
    return _everywhere(
        n_classes, value, "simulated", f"best {objective} against pretended strangers ({reached:.3f} there)"
    )

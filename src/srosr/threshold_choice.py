"""Which threshold a fitted recogniser uses: by target rate, by simulated openness, or a number."""

from __future__ import annotations

import warnings

import numpy as np

from ._types import Array, IntArray
from .calibration import Calibration
from .exceptions import CalibrationWarning
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

__all__ = ["choose_threshold"]


def choose_threshold(
    calibration: Calibration,
    n_classes: int,
    *,
    threshold: float | str | None,
    target_rejection: float | None,
    per_class: bool,
    risk_weight: float,
    aside: tuple[Array, IntArray] | None,
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
    aside : (scores, candidate) or None
        Of samples that had no part in anything else: with them the target is guaranteed.
    """
    risk_weight = check_positive("risk_weight", risk_weight)
    if isinstance(threshold, str):
        return _by_simulation(calibration, n_classes, threshold, risk_weight)
    if threshold is not None:
        return _everywhere(n_classes, check_threshold(threshold), "fixed", "a fixed threshold")
    target = check_rate("target_rejection", target_rejection)
    if aside is not None:
        scores, candidate = aside
        find, kind, source = conformal_threshold, "conformal", f"{len(scores)} samples kept out of everything else"
    else:
        rows = calibration.held_out
        scores, candidate = calibration.rule.score(rows.values, rows.candidate), rows.candidate
        find, kind, source = rejection_threshold, "target", f"{len(scores)} held-out samples"
    needed = enough_for(target)
    if len(scores) < needed:
        return _without_enough(calibration, n_classes, target, scores, needed)
    value = find(scores, target)
    values = np.full(n_classes, value)
    detail = f"at most {target:.3g} of known samples refused, from {source}"
    if per_class:
        mine = [scores[candidate == k] for k in range(n_classes)]
        own = [k for k in range(n_classes) if len(mine[k]) >= needed]
        values[own] = [find(mine[k], target) for k in own]
        detail += f"; {len(own)} of {n_classes} classes have a threshold of their own"
    return Threshold(value, values, kind, detail)


def _everywhere(n_classes: int, value: float, kind: str, detail: str) -> Threshold:
    return Threshold(value, np.full(n_classes, value), kind, detail)


def _without_enough(calibration: Calibration, n_classes: int, target: float, scores: Array, needed: int) -> Threshold:
    """A threshold where the rate of false rejection cannot be seen: by simulated openness, and said aloud."""
    stranger = calibration.simulated.stranger
    if not len(calibration.held_out):
        value = float(np.quantile(calibration.simulated_scores[stranger], target, method="lower"))
        detail = f"accepts {target:.3g} of pretended strangers (no class has a second sample to hold out)"
        chosen = _everywhere(n_classes, value, "simulated", detail)
    elif stranger.any() and not stranger.all():
        chosen = _by_simulation(calibration, n_classes, "youden", 1.0)
    else:
        value = rejection_threshold(scores, target) if len(scores) else 1.0
        chosen = _everywhere(n_classes, value, "target", f"from only {len(scores)} held-out samples")
    warnings.warn(
        f"target_rejection={target:g} cannot be kept: it takes {needed} held-out samples and there are {len(scores)}. "
        f"The threshold is {chosen.value:.3g} instead: {chosen.detail}.",
        CalibrationWarning,
        stacklevel=5,
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

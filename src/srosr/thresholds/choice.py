"""Which threshold a fitted open set classifier uses: by target rate, by simulated openness, or a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.parameter_checks import check_positive, check_rate
from ..exceptions import CalibrationWarning, warn
from ..scoring import HeldOutScores
from .criteria import (
    OBJECTIVES,
    Threshold,
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
    held_out: HeldOutScores,
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
    held_out : HeldOutScores
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
        return _by_simulation(held_out, n_classes, threshold, risk_weight)
    if threshold is not None:
        return fixed_threshold(threshold, n_classes, held_out.lowest, held_out.highest)
    target = check_rate("target_rejection", target_rejection)
    needed = enough_for(target)
    if aside is not None and len(aside.scores) >= needed and len(np.unique(aside.truth)) == n_classes:
        source = f"{len(aside.scores)} samples kept out of everything else"
        find = partial(conformal_threshold, highest=held_out.highest)
        chosen = _by_target(find, aside.scores, aside.candidate, n_classes, target, per_class, source)
        return replace(chosen, kind="conformal")
    if promised:
        n, covered = (0, 0) if aside is None else (len(aside.scores), len(np.unique(aside.truth)))
        warn(
            f"the promise of calibration='split' cannot be kept: it takes {needed} samples aside, at least one of each "
            f"of the {n_classes} classes, and there are {n}, of {covered} classes. The target is approximate, from "
            "held-out samples.",
            CalibrationWarning,
        )
    scores = held_out.scores
    if len(scores) < needed:
        return _without_enough(held_out, n_classes, target, needed)
    source = f"{len(scores)} held-out samples"
    chosen = _by_target(rejection_threshold, scores, held_out.candidate, n_classes, target, per_class, source)
    if (chosen.per_class >= held_out.highest).any():
        warn(
            f"more than the share target_rejection={target:g} of held-out samples score {held_out.highest:g}, the end "
            "of the scale: the threshold is there, and nothing is refused. The method does not suit these samples.",
            CalibrationWarning,
        )
    unseen = np.setdiff1d(np.arange(n_classes), held_out.truth)
    return chosen if not len(unseen) else _for_unseen(chosen, held_out, unseen, target)


def fixed_threshold(threshold: float, n_classes: int, lowest: float, highest: float) -> Threshold:
    """A threshold that is a number, on a scale between two ends."""
    return _everywhere(n_classes, check_threshold(threshold, lowest, highest), "fixed", "a fixed threshold")


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
    return Threshold(value, values, "target", detail)


def _for_unseen(chosen: Threshold, held_out: HeldOutScores, unseen: IntArray, target: float) -> Threshold:
    """Classes of which nothing could be held out: known samples of theirs were not seen, so strangers set the limit."""
    stranger = held_out.stranger
    values, n = chosen.per_class.copy(), len(unseen)
    how = "the threshold of the others is used for them"
    if stranger.any():
        scores = held_out.simulated[stranger]
        values[unseen] = np.maximum(values[unseen], _accepting(held_out, target)[0])
        share = float(np.mean(scores <= values[unseen].max()))
        how = f"the threshold for them accepts {share:.3g} of pretended strangers"
    warn(
        f"target_rejection={target:g} holds only for the classes of which samples could be held out: {n} of "
        f"{len(values)} classes have none; {how}.",
        CalibrationWarning,
    )
    return Threshold(chosen.value, values, chosen.kind, f"{chosen.detail}; for {n} classes without any, {how}")


def _accepting(held_out: HeldOutScores, target: float) -> tuple[float, float]:
    """The largest threshold that accepts at most the share ``target`` of pretended strangers, and the share it does."""
    ordered = np.sort(held_out.simulated[held_out.stranger])
    n = math.floor(target * len(ordered) + 1e-9)
    # Below the first score that has to be refused.
    limit = float(np.nextafter(ordered[n], -np.inf)) if n < len(ordered) else held_out.highest
    limit = max(limit, held_out.lowest)
    return limit, float(np.mean(ordered <= limit))


def _everywhere(n_classes: int, value: float, kind: str, detail: str) -> Threshold:
    return Threshold(value, np.full(n_classes, value), kind, detail)


def _without_enough(held_out: HeldOutScores, n_classes: int, target: float, needed: int) -> Threshold:
    """A threshold where the rate of false rejection cannot be seen: by simulated openness, and said aloud."""
    scores, stranger = held_out.scores, held_out.stranger
    if len(scores) >= _A_FEW:
        # Asked to refuse less than can be seen: the most lenient there is, and beyond it what the tail says.
        value, detail = float(scores.max()), f"beyond all of {len(scores)} held-out samples"
        if held_out.is_p_value:
            value, detail = max(value, 1.0 - target), f"{detail}, by the tail of their scores"
        chosen = _everywhere(n_classes, value, "target", detail)
    elif not len(scores) and stranger.any():
        value, share = _accepting(held_out, target)
        detail = f"accepts {share:.3g} of pretended strangers (no class has a second sample to hold out)"
        chosen = _everywhere(n_classes, value, "simulated", detail)
    elif stranger.any() and not stranger.all():
        chosen = _by_simulation(held_out, n_classes, "youden", 1.0)
    else:
        value = rejection_threshold(scores, target) if len(scores) else held_out.highest
        chosen = _everywhere(n_classes, value, "target", f"from only {len(scores)} held-out samples")
    warn(
        f"target_rejection={target:g} cannot be kept: it takes {needed} held-out samples and there are {len(scores)}. "
        f"The threshold is {chosen.value:.4g} instead: {chosen.detail}.",
        CalibrationWarning,
    )
    return chosen


def _by_simulation(held_out: HeldOutScores, n_classes: int, objective: str, risk_weight: float) -> Threshold:
    if objective not in OBJECTIVES:
        check_threshold(objective, held_out.lowest, held_out.highest)  # says what is possible
    stranger = held_out.stranger
    if not stranger.any() or stranger.all():
        raise ValueError(
            f"threshold={objective!r} needs simulated openness: at least three classes, some with two samples."
        )
    scores, right = held_out.simulated, held_out.right[~stranger]
    value, reached = simulated_threshold(
        scores[~stranger], right, scores[stranger], objective, risk_weight, held_out.lowest, held_out.highest
    )
    return _everywhere(
        n_classes, value, "simulated", f"best {objective} against pretended strangers ({reached:.3f} there)"
    )

r"""Thresholds on the unknown score, none of which needs an unknown sample.

A sample is rejected where its unknown score is *above* the threshold. :func:`choose_threshold` takes one of four ways:

- `rejection_threshold`: a target rate of false rejection, from scores of held-out known samples (approximate);
- `conformal_threshold`: the same with a guarantee, from the scores of a calibration split;
- `simulated_threshold`: the best one against simulated unknowns, known classes left out in turn;
- a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_positive, check_rate, to_number
from ..exceptions import CalibrationWarning, warn
from ..scoring.held_out_scores import HeldOutScores
from .p_values import CalibrationSplit, count_needed, count_units

# What is best by each objective of `simulated_threshold`.
_BEST = {"risk": "lowest open set risk", "f": "best F-measure", "youden": "best Youden's J"}
OBJECTIVES = tuple(_BEST)
# With fewer held-out samples than this, a target too small for them is replaced by simulated openness.
_FEW = 19


@dataclass(frozen=True, eq=False)
class Threshold:
    """A threshold on the unknown score, and how it was chosen.

    Attributes
    ----------
    value : float
        For classes without a threshold of their own.
    per_class : ndarray (n_classes,)
        The threshold of each candidate class.
    kind : {"target", "conformal", "simulated", "fixed"}
    detail : str
        How it was chosen, in words.
    standard_error : float or None
        Of ``value`` where it comes from a target rate: what the number of held-out samples leaves undecided.
    weight_errors : ndarray or None
        Standard errors of ``evidence_weights_`` of a :class:`SROSRClassifier` that learned them.
    """

    value: float
    per_class: Array
    kind: str
    detail: str
    standard_error: float | None = None
    weight_errors: Array | None = None

    def of(self, candidate: IntArray) -> Array:
        """Return the threshold of each sample, by its candidate class."""
        return self.per_class[candidate]


def choose_threshold(
    held_out: HeldOutScores,
    n_classes: int,
    *,
    threshold: str | None,
    target_rejection: float | None,
    per_class: bool,
    risk_weight: float,
    calibration_split: CalibrationSplit | None,
    guarantee: bool = False,
) -> Threshold:
    """Choose the threshold on the unknown score from held-out scores.

    ``threshold`` is the objective of simulated openness, or None for the target. A calibration split with enough
    samples, and some of every class, guarantees the target; if the user asked for that ``guarantee`` and it cannot be
    given, there is a warning.
    """
    risk_weight = check_positive("risk_weight", risk_weight)
    if threshold is not None:
        chosen = _choose_by_simulation(held_out, n_classes, threshold, risk_weight)
    else:
        target = check_rate("target_rejection", target_rejection)
        chosen = _choose_for_target(held_out, n_classes, target, per_class, calibration_split, guarantee)
    return replace(chosen, weight_errors=held_out.weight_errors)


def _choose_for_target(
    held_out: HeldOutScores,
    n_classes: int,
    target: float,
    per_class: bool,
    split: CalibrationSplit | None,
    guarantee: bool,
) -> Threshold:
    """Choose the threshold for a target rate, from the calibration split if that can guarantee it."""
    needed = count_needed(target)
    n, n_covered = (0, 0) if split is None else (count_units(split, np.arange(len(split))), len(np.unique(split.truth)))
    if split is not None and n >= needed and (split.fresh or n_covered == n_classes):
        return _choose_from_split(split, n_classes, target, per_class, held_out.highest)
    if guarantee:
        what = "samples" if split is None or split.groups is None else "groups"
        warn(
            f"calibration='split' cannot guarantee target_rejection={target:g}: that takes {needed} {what} in the "
            f"calibration split, at least one of each of the {n_classes} classes, and it has {n}, of {n_covered} "
            "classes. The target is approximate, from held-out samples.",
            CalibrationWarning,
        )
    scores = held_out.scores
    if len(scores) < needed:
        return _choose_from_few(held_out, n_classes, target, needed)
    source = f"{len(scores)} {held_out.source}"
    chosen = _choose_by_target(
        lambda rows, rate: rejection_threshold(scores[rows], rate), held_out.candidate, n_classes, target, per_class,
        source,
    )  # fmt: skip
    if (chosen.per_class >= held_out.highest).any():
        warn(
            f"more than the share target_rejection={target:g} of held-out samples score {held_out.highest:g}, the end "
            "of the scale: the threshold is there, and nothing is rejected. The method does not suit these samples.",
            CalibrationWarning,
        )
    unseen = np.setdiff1d(np.arange(n_classes), held_out.truth)
    return chosen if not len(unseen) else _adjust_for_unseen(chosen, held_out, unseen, target)


def _choose_from_split(
    split: CalibrationSplit, n_classes: int, target: float, per_class: bool, highest: float
) -> Threshold:
    """Choose the threshold for a target rate from a calibration split; the rate is guaranteed."""
    n = len(split)
    source = f"{n} {split.source}"
    if split.groups is not None:
        source += f", of {count_units(split, np.arange(n))} groups"

    def find(rows: AnyArray, rate: float) -> float:
        return conformal_threshold(split.scores[rows], rate, highest, split.compute_weights(rows))

    def count(rows: AnyArray) -> int:
        return count_units(split, rows)

    chosen = _choose_by_target(find, split.candidate, n_classes, target, per_class, source, count)
    # Groups differ in how often they have a candidate, so that thresholds by candidate do not keep the rate exactly.
    exact = split.exact and not (per_class and split.groups is not None)
    return replace(chosen, kind="conformal") if exact else chosen


def use_fixed_threshold(threshold: float, n_classes: int, lowest: float, highest: float) -> Threshold:
    """Return a threshold that is a number between the ends of the scale."""
    return _use_everywhere(n_classes, check_threshold(threshold, lowest, highest), "fixed", "a fixed threshold")


def _choose_by_target(
    find: Callable[[AnyArray, float], float],
    candidate: IntArray,
    n_classes: int,
    target: float,
    per_class: bool,
    source: str,
    count: Callable[[AnyArray], int] = len,
) -> Threshold:
    """Choose the threshold for a target rate: one for all, or one for each candidate class with enough scores.

    ``find`` is given the numbers of scores, ``count`` says how many samples or groups they are. The other classes then
    share one threshold, from their own scores. So the threshold of every sample comes from samples of its own group of
    candidates, and the rate holds in each group and hence over all.
    """
    everything = np.arange(len(candidate))
    value = find(everything, target)
    values = np.full(n_classes, value)
    detail = f"at most {target:.3g} of known samples rejected, from {source}"
    if per_class:
        members = [np.flatnonzero(candidate == k) for k in range(n_classes)]
        own = [k for k in range(n_classes) if count(members[k]) >= count_needed(target)]
        rest = np.flatnonzero(~np.isin(candidate, own))
        if len(rest):
            values[:] = find(rest, target)
        values[own] = [find(members[k], target) for k in own]
        detail += f"; {len(own)} of {n_classes} classes have a threshold of their own"
    return Threshold(value, values, "target", detail, _measure_error(find, everything, target, count(everything)))


def _measure_error(find: Callable[[AnyArray, float], float], rows: AnyArray, target: float, n: int) -> float:
    """Return the standard error of a threshold: half of what it moves if the rate does by its own standard error."""
    error = math.sqrt(target * (1.0 - target) / n)
    ends = [find(rows, min(max(target + step, 1e-9), 1.0 - 1e-9)) for step in (-error, error)]
    return 0.5 * (ends[0] - ends[1])


def _adjust_for_unseen(chosen: Threshold, held_out: HeldOutScores, unseen: IntArray, target: float) -> Threshold:
    """Set the threshold of classes without held-out samples by simulated unknowns instead of known samples."""
    unknown = held_out.unknown
    values, n = chosen.per_class.copy(), len(unseen)
    how = "the threshold of the others is used for them"
    if unknown.any():
        scores = held_out.simulated[unknown]
        values[unseen] = np.maximum(values[unseen], _accept_share(held_out, target)[0])
        share = float(np.mean(scores <= values[unseen].max()))
        how = f"the threshold for them accepts {share:.3g} of simulated unknowns"
    warn(
        f"target_rejection={target:g} holds only for classes with held-out samples: {n} of {len(values)} classes have "
        f"none; {how}.",
        CalibrationWarning,
    )
    return replace(chosen, per_class=values, detail=f"{chosen.detail}; for {n} classes without any, {how}")


def _accept_share(held_out: HeldOutScores, target: float) -> tuple[float, float]:
    """Return the largest threshold that accepts at most the share ``target`` of simulated unknowns, and that share."""
    ordered = np.sort(held_out.simulated[held_out.unknown])
    n = math.floor(target * len(ordered) + 1e-9)
    # Just below the first score that has to be rejected.
    limit = float(np.nextafter(ordered[n], -np.inf)) if n < len(ordered) else held_out.highest
    limit = max(limit, held_out.lowest)
    return limit, float(np.mean(ordered <= limit))


def _use_everywhere(n_classes: int, value: float, kind: str, detail: str) -> Threshold:
    return Threshold(value, np.full(n_classes, value), kind, detail)


def _choose_from_few(held_out: HeldOutScores, n_classes: int, target: float, needed: int) -> Threshold:
    """Choose a threshold where there are too few held-out samples for the target rate, and warn."""
    scores, unknown = held_out.scores, held_out.unknown
    if len(scores) >= _FEW:
        # The target is below the resolution of the scores: take the largest, or the tail beyond it.
        value, detail = float(scores.max()), f"beyond all of {len(scores)} held-out samples"
        if held_out.is_p_value:
            value, detail = max(value, 1.0 - target), f"{detail}, by the tail of their scores"
        chosen = _use_everywhere(n_classes, value, "target", detail)
    elif not len(scores) and unknown.any():
        value, share = _accept_share(held_out, target)
        detail = f"accepts {share:.3g} of simulated unknowns (no class has a second sample to hold out)"
        chosen = _use_everywhere(n_classes, value, "simulated", detail)
    elif unknown.any() and not unknown.all():
        chosen = _choose_by_simulation(held_out, n_classes, "youden", 1.0)
    else:
        value = rejection_threshold(scores, target) if len(scores) else held_out.highest
        chosen = _use_everywhere(n_classes, value, "target", f"from only {len(scores)} held-out samples")
    warn(
        f"target_rejection={target:g} cannot be kept: it takes {needed} held-out samples and there are {len(scores)}. "
        f"The threshold is {chosen.value:.4g} instead: {chosen.detail}.",
        CalibrationWarning,
    )
    return chosen


def _choose_by_simulation(held_out: HeldOutScores, n_classes: int, objective: str, risk_weight: float) -> Threshold:
    unknown = held_out.unknown
    if not unknown.any() or unknown.all():
        raise ValueError(
            f"threshold={objective!r} needs simulated openness: at least three classes, some with two samples."
        )
    scores, right = held_out.simulated, held_out.right[~unknown]
    value, reached = simulated_threshold(
        scores[~unknown], right, scores[unknown], objective, risk_weight, held_out.lowest, held_out.highest
    )
    reason = f"{_BEST[objective]} against simulated unknowns ({reached:.3f} there)"
    return _use_everywhere(n_classes, value, "simulated", reason)


def check_threshold(
    value: Any, lowest: float = 0.0, highest: float = 1.0, named: tuple[str, ...] = OBJECTIVES
) -> float:
    """Return a threshold as a number on the scale of the scores, or raise a ValueError."""
    number = to_number(value)
    if not (lowest <= number <= highest and math.isfinite(number)):
        scale = "a finite number" if math.isinf(highest - lowest) else f"a number between {lowest:g} and {highest:g}"
        raise ValueError(
            f"threshold must be {scale} (on the scale of unknown_score), one of "
            f"{', '.join(map(repr, named))}, or None, got {value!r}."
        )
    return number


def rejection_threshold(scores: Array, target: float) -> float:
    """Return the smallest threshold that rejects at most the share ``target`` of the scores of known samples."""
    ordered = np.sort(scores)
    return float(ordered[max(math.ceil((1.0 - target) * len(ordered) - 1e-9), 1) - 1])


def conformal_threshold(scores: Array, target: float, highest: float = 1.0, weights: Array | None = None) -> float:
    r"""Return the split-conformal threshold, the :math:`\lceil(n + 1)(1 - \alpha)\rceil`-th smallest score.

    A new known sample that is exchangeable with the n calibration samples is rejected with probability at most
    :math:`\alpha`, whatever the distribution: those are rejected whose conformal p-value (:mod:`.p_values`) is at most
    :math:`\alpha`. Where :math:`n < 1/\alpha - 1` only the end of the scale, which rejects nothing, has this guarantee.
    The scores are those of samples kept out of dictionary, tails and fusion. With weights, which are those of samples
    of one group divided by their number, n is the sum of the weights.

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", Springer 2005.

    Examples
    --------
    >>> import numpy as np
    >>> conformal_threshold(np.arange(1, 20) / 20, 0.05), conformal_threshold(np.arange(1, 19) / 20, 0.05)
    (0.95, 1.0)
    """
    order = np.argsort(scores, kind="stable")
    each = np.ones(len(scores)) if weights is None else weights[order]
    total = float(each.sum())
    # The weight up to each score, which has to be this large for the weight beyond it to be small enough.
    enough = np.flatnonzero(np.cumsum(each) >= (total + 1.0) * (1.0 - target) - 1e-9)
    return float(scores[order[enough[0]]]) if len(enough) else highest


def simulated_threshold(
    known: Array,
    right: AnyArray,
    unknown: Array,
    objective: str,
    risk_weight: float = 1.0,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> tuple[float, float]:
    r"""Return the threshold with the best objective against simulated unknowns.

    With :math:`C_o` the share of unknowns accepted and :math:`C_\epsilon` the share of known samples rejected or given
    a wrong class, "risk" minimizes the paper's open set risk :math:`C_o + \lambda C_\epsilon`; "f" maximizes the
    F-measure (true positives: known samples accepted in the right class) with as many unknown as known samples;
    "youden" maximizes the share of known samples accepted minus that of unknowns accepted. ``right`` tells the known
    samples whose candidate is their class. The threshold is the middle of the gap above the best one; the objective
    there is returned with it.
    """
    levels = np.unique(np.concatenate([[lowest], known, unknown]))
    accepted = np.searchsorted(np.sort(known), levels, side="right") / len(known)
    correct = np.searchsorted(np.sort(known[right]), levels, side="right") / len(known)
    missed = np.searchsorted(np.sort(unknown), levels, side="right") / len(unknown)
    if objective == "risk":
        gain = -(missed + risk_weight * (1.0 - correct))
    elif objective == "f":
        gain = 2.0 * correct / np.maximum(1.0 + correct + missed, 1e-300)
    else:
        gain = accepted - missed
    best = int(np.argmax(gain))
    below, above = levels[best], levels[best + 1] if best + 1 < len(levels) else highest
    value = -gain[best] if objective == "risk" else gain[best]
    if math.isinf(below):  # all are rejected, on a scale without an end
        return float(np.nextafter(above, -np.inf)), float(value)
    middle = 0.5 * below + 0.5 * above if math.isfinite(above) else below
    return float(middle if middle < above else below), float(value)

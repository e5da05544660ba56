r"""Criteria for a threshold on the unknown score, none of which needs an unknown sample.

A sample is rejected where its unknown score is *above* the threshold. There are four ways to one:

- `rejection_threshold`: a target rate of false rejection, from scores of held-out known samples (approximate);
- `conformal_threshold`: the same with a guarantee, from the scores of a calibration split;
- `simulated_threshold`: the best one against simulated unknowns, known classes left out in turn;
- a number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import to_number

#: The objectives of `simulated_threshold`.
OBJECTIVES = ("risk", "f", "youden")


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
    """

    value: float
    per_class: Array
    kind: str
    detail: str

    def of(self, candidate: IntArray) -> Array:
        """Return the threshold of each sample, by its candidate class."""
        return self.per_class[candidate]


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


def count_needed(target: float) -> int:
    """Return the fewest held-out samples that resolve a rejection rate: :math:`n \\ge 1/\\alpha - 1`.

    Examples
    --------
    >>> count_needed(0.05)
    19
    """
    return math.ceil(1.0 / target - 1.0 - 1e-9)


def rejection_threshold(scores: Array, target: float) -> float:
    """Return the smallest threshold that rejects at most the share ``target`` of the scores of known samples."""
    ordered = np.sort(scores)
    return float(ordered[max(math.ceil((1.0 - target) * len(ordered) - 1e-9), 1) - 1])


def conformal_threshold(scores: Array, target: float, highest: float = 1.0) -> float:
    r"""Return the split-conformal threshold, the :math:`\lceil(n + 1)(1 - \alpha)\rceil`-th smallest score.

    A new known sample that is exchangeable with the n calibration samples is rejected with probability at most
    :math:`\alpha`, whatever the distribution. Where :math:`n < 1/\alpha - 1` only the end of the scale, which rejects
    nothing, has this guarantee. The scores are those of samples kept out of dictionary, tails and fusion.

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", Springer 2005.

    Examples
    --------
    >>> import numpy as np
    >>> conformal_threshold(np.arange(1, 20) / 20, 0.05), conformal_threshold(np.arange(1, 19) / 20, 0.05)
    (0.95, 1.0)
    """
    rank = max(math.ceil((len(scores) + 1) * (1.0 - target) - 1e-9), 1)
    return highest if rank > len(scores) else float(np.sort(scores)[rank - 1])


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

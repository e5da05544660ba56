"""Held-out scores: those of training samples in models that were fitted without them."""

from __future__ import annotations

from dataclasses import dataclass

from .._support.array_types import AnyArray, Array, IntArray


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Unknown scores of training samples, each from a model fitted without it; thresholds are chosen from them.

    Parameters that a method chooses by cross-validation (of its machines, say) are chosen on all training samples
    beforehand, including those that are held out or left out here.
    """

    #: Of held-out samples, with all classes known; then the numbers of their candidate and true class.
    scores: Array
    candidate: IntArray
    truth: IntArray
    #: Of samples scored with classes left out; then whether such a sample is a simulated unknown (its class was left
    #: out), and whether its candidate is its class.
    simulated: Array
    unknown: AnyArray
    right: AnyArray
    #: Ends of the scale: no score lies below the first or above the second.
    lowest: float = 0.0
    highest: float = 1.0
    #: Whether one minus the score is a p-value, which is defined beyond the largest held-out score.
    is_p_value: bool = False
    #: Standard errors of the weights behind the scores, where these were learned on held-out samples.
    weight_errors: Array | None = None
    #: What the held-out samples are, in words.
    source: str = "held-out samples"

"""What training samples scored in models that were fitted without them."""

from __future__ import annotations

from dataclasses import dataclass

from .._support.array_types import AnyArray, Array, IntArray

__all__ = ["HeldOutScores"]


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Unknown scores of training samples, each from a model that was fitted without it: what thresholds are made from.

    What a method chooses by cross-validation (the parameters of its machines, say) is chosen on all training samples
    beforehand, those that are held out or left out included.

    Attributes
    ----------
    scores : ndarray (n,)
        Of held-out samples, all classes known.
    candidate, truth : ndarray of int (n,)
        Numbers of their candidate and true class.
    simulated : ndarray (m,)
        Of samples in worlds with classes left out.
    stranger, right : ndarray of bool (m,)
        Whether such a sample's class was left out, and whether its candidate is its class.
    lowest, highest : float
        Ends of the scale: nothing scores below the one or above the other.
    is_p_value : bool
        Whether one minus the score is a p-value, which goes on where held-out samples end.
    """

    scores: Array
    candidate: IntArray
    truth: IntArray
    simulated: Array
    stranger: AnyArray
    right: AnyArray
    lowest: float = 0.0
    highest: float = 1.0
    is_p_value: bool = False

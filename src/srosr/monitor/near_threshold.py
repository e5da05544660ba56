"""Which scores are near the threshold, so that a slightly different threshold would have decided otherwise."""

from __future__ import annotations

import math

import numpy as np

from .._support.array_types import Array
from ..classifiers.base import OpenSetClassifier
from ..scoring.held_out_scores import HeldOutScores


def find_near_bands(model: OpenSetClassifier, held_out: HeldOutScores, scores: Array, factor: float) -> Array | None:
    r"""Return the lowest and the highest score near the threshold of each class, (n_classes, 2).

    A threshold rejects some share :math:`\tau` of known samples. A sample is near it if a threshold for the share
    :math:`f \tau`, or for :math:`\tau / f`, would have decided otherwise. Where one minus the unknown score is a
    p-value, these thresholds are p-values f times as large and as small. Otherwise they are quantiles of ``scores``,
    those of known samples that the model was not fitted to; where :math:`\tau` is zero the band begins at the quantile
    for 1/n and ends as far beyond the threshold. None if there are no such scores.
    """
    thresholds = np.asarray(model.thresholds_, dtype=np.float64)
    lowest, highest = model.score_range
    if not len(scores):
        return None
    if held_out.is_p_value:
        p = 1.0 - thresholds
        return np.column_stack([np.maximum(1.0 - factor * p, lowest), 1.0 - p / factor])
    ordered = np.sort(scores)
    return np.array([_find_band(ordered, float(value), factor, lowest, highest) for value in thresholds])


def _find_band(ordered: Array, threshold: float, factor: float, lowest: float, highest: float) -> tuple[float, float]:
    n = len(ordered)
    above = n - int(np.searchsorted(ordered, threshold, side="right"))
    low = _find_quantile(ordered, factor * max(above, 1), lowest)
    if above:
        high = _find_quantile(ordered, above / factor, lowest)
    else:
        high = 2.0 * threshold - low if math.isfinite(low) and math.isfinite(threshold) else threshold
    return min(low, threshold), min(max(high, threshold), highest)


def _find_quantile(ordered: Array, above: float, lowest: float) -> float:
    """Return the smallest score with at most so many scores above it, the end of the scale if all may be."""
    place = len(ordered) - 1 - math.floor(above + 1e-9)
    return float(ordered[place]) if place >= 0 else lowest

"""The steps of a recalibration: fresh known samples in the place of held-out ones."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import did_you_mean
from .._support.unknown_label import RESERVED, is_text
from ..dictionary.dictionary import Dictionary
from ..thresholds.p_values import count_needed

#: Fewest samples that a distribution is fitted to.
LEAST_SAMPLES = 10


def check_known_labels(y: Any, classes: AnyArray, n: int) -> AnyArray:
    """Return labels of known classes as an array, or raise a ValueError that names the one that is not known."""
    try:
        labels = np.asarray(y)
    except ValueError:
        raise ValueError(f"y must have one label for each of the {n} samples, got lists in it.") from None
    if labels.shape != (n,):
        raise ValueError(f"y must have one label for each of the {n} samples, got shape {labels.shape}.")
    place = {label: i for i, label in enumerate(classes.tolist())}
    for label in labels.tolist():
        if not isinstance(label, Hashable):
            raise ValueError(f"y must have one label for each of the {n} samples, got {label!r}.")
        if label not in place:
            guess = did_you_mean(label, place) if isinstance(label, str) and is_text(classes) else ""
            kind = "" if isinstance(label, str) == is_text(classes) else ", whose classes are of another type"
            way = "" if label in RESERVED else "add it with add_class (at the shell: srosr add-class), or "
            raise ValueError(
                f"y has the class {label!r}, which the model does not know{guess}{kind}: {way}leave its samples out."
            )
    return classes[np.array([place[label] for label in labels.tolist()], dtype=np.int64)]


def check_enough(n: int, target: float | None, what: str = "samples") -> None:
    """Raise a ValueError if there are too few samples for a target rate, or for a distribution."""
    needed = LEAST_SAMPLES if target is None else max(count_needed(target), LEAST_SAMPLES)
    if n < needed:
        reason = "a distribution" if target is None else f"target_rejection={target:g}"
        smallest = "" if target is None or n < LEAST_SAMPLES else f", or a target of at least {1 / (n + 1):.2g}"
        raise ValueError(f"X has {n} {what} that can be used, and {reason} takes {needed}: give more{smallest}.")


def find_copies(dictionary: Dictionary, X: Array) -> AnyArray:
    """Return which samples equal an atom, as the kernel sees both."""
    seen = dictionary.query_features(np.ascontiguousarray(X)).rows
    assert seen is not None and dictionary.rows is not None
    atoms = {row.tobytes() for row in dictionary.rows}
    return np.array([row.tobytes() in atoms for row in seen.astype(dictionary.rows.dtype)])


def check_weights(weights: Any, n: int) -> Array:
    """Return the weights of samples, or raise a ValueError."""
    values = np.asarray(weights)
    if values.shape != (n,) or values.dtype.kind not in "iuf":
        raise ValueError(f"weights must have one number for each of the {n} samples, got {weights!r}.")
    values = values.astype(np.float64)
    if not (np.isfinite(values).all() and (values >= 0).all() and values.sum() > 0):
        raise ValueError("weights must be finite, not negative, and not all zero.")
    return values


def resample(weights: Array) -> IntArray:
    """Return rows in proportion to their weights, evenly spaced (systematic resampling); nothing is random.

    Examples
    --------
    >>> import numpy as np
    >>> resample(np.array([1.0, 2.0, 1.0]))
    array([0, 1, 2])
    """
    n = len(weights)
    ends = np.cumsum(weights) / np.sum(weights)
    return np.minimum(np.searchsorted(ends, (np.arange(n) + 0.5) / n), len(weights) - 1).astype(np.int64)


def count_effective(weights: Array) -> float:
    """Return how many samples of equal weight would tell as much."""
    return float(weights.sum() ** 2 / (weights**2).sum())

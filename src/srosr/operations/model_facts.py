"""What is said of a model beside its decisions: thresholds, imputed features, samples in the units of their file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .._support.messages import list_names
from .model_input import get_imputer

if TYPE_CHECKING:
    from .._support.array_types import Array
    from ..classifiers.base import OpenSetClassifier

#: Largest number of imputed features that are named.
_MOST_FEATURES = 12
#: By so much fewer simulated unknowns may be rejected before there is a note.
_WORSE = 0.1


def describe_thresholds(clf: OpenSetClassifier) -> dict[str, Any]:
    """Return the threshold, or those of the classes if they differ, and where they come from."""
    values = clf.thresholds_.tolist()
    one = len(set(values)) == 1
    return {
        "threshold": values[0] if one and math.isfinite(values[0]) else None,
        "class_thresholds": None if one else [value if math.isfinite(value) else None for value in values],
        "threshold_from": clf.threshold_info_.detail,
    }


def describe_missing(clf: OpenSetClassifier, missing: list[str]) -> str:
    """Return a sentence on the features of the sample that were imputed."""
    imputer = get_imputer(clf)
    assert imputer is not None
    were = "was" if len(missing) == 1 else "were"
    names = list_names(missing, _MOST_FEATURES)
    return f"{len(missing)} of {clf.n_features_in_} features {were} missing and imputed ({imputer.kind}): {names}."


def undo_scaling(clf: OpenSetClassifier, X: Array) -> Array:
    """Return samples in the units of their file."""
    recipe = clf.feature_recipe_
    if recipe is None or recipe.center is None or recipe.scale is None:
        return X
    return X * recipe.scale + recipe.center


def compare_rejections(before: float | None, after: float | None, n: int) -> str | None:
    """Return a note if far fewer simulated unknowns are rejected than before a recalibration by n samples."""
    if before is None or after is None or after >= before - _WORSE:
        return None
    return (
        f"Of the simulated unknowns {100 * after:.1f} % are rejected, and {100 * before:.1f} % were before: some of "
        f"the {n:,} samples score as high as unknown ones. More fresh samples make the threshold surer; srosr update "
        "teaches the model what they look like."
    )

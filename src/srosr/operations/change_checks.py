"""What a change of a model asks of the model, its classes and its threshold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .._support.messages import did_you_mean, join_names
from .input_errors import InputError, escape_unprintable

if TYPE_CHECKING:
    from .._support.array_types import AnyArray
    from ..classifiers.base import OpenSetClassifier
    from ..classifiers.srosr_classifier import SROSRClassifier


def require_srosr_classifier(clf: OpenSetClassifier, model: object, command: str) -> SROSRClassifier:
    """Return a classifier whose classes can be added and removed; raise for another."""
    from ..classifiers.srosr_classifier import SROSRClassifier
    from ..rivals.methods import method_name

    if not isinstance(clf, SROSRClassifier):
        raise InputError(
            f"{model} holds {method_name(clf)}, but {command} works only with calibrated, paper and matched: fit it "
            "again with the classes you want."
        )
    return clf


def match_classes(clf: OpenSetClassifier, labels: AnyArray, name: str) -> AnyArray:
    """Return labels, read as text, as the classes of the model."""
    import numpy as np

    from .._support.unknown_label import RESERVED, format_label

    place = {format_label(label): i for i, label in enumerate(clf.classes_)}
    for label in dict.fromkeys(labels.tolist()):
        if label not in place:
            way = "" if label in RESERVED else "add it with srosr add-class, or "
            raise InputError(
                f"{name} has the class {label}, which the model does not know{did_you_mean(label, place)}: {way}leave "
                "its samples out."
            )
    return clf.classes_[np.array([place[label] for label in labels.tolist()])]


def find_class(clf: OpenSetClassifier, label: str, model: object) -> Any:
    """Return the class of a model that is written like this."""
    from .._support.unknown_label import format_label

    classes = {format_label(name): name for name in clf.classes_.tolist()}
    if label not in classes:
        guess = did_you_mean(label, classes)
        raise InputError(f"{model} has no class {label}{guess}; its classes are {join_names(classes, 20)}.")
    return classes[label]


def convert_label(name: str, clf: OpenSetClassifier, model: object) -> Any:
    """Return the new label in the type of the others."""
    from .._support.unknown_label import is_text

    if name != name.strip() or escape_unprintable(name) != name:
        raise InputError(f"--name {name!r}: a name must not begin or end with a space, nor have control characters.")
    kind = clf.classes_.dtype.kind
    if is_text(clf.classes_):
        return name
    whole = re.fullmatch(r"-?[0-9]{1,18}", name, re.ASCII) is not None
    if kind in "iu" and not whole:
        raise InputError(f"--name {name}: the classes of {model} are whole numbers, so the new one must be one.")
    if kind == "b":
        raise InputError(f"--name {name}: the classes of {model} are true and false; there is no third.")
    try:
        return int(name) if whole and kind != "f" else float(name)
    except ValueError:
        raise InputError(f"--name {name}: the classes of {model} are numbers, so the new one must be one.") from None


def check_threshold(value: float | str | None, clf: OpenSetClassifier, model: object) -> None:
    """Raise if the value is not a threshold for the model."""
    from ..rivals.methods import method_name
    from ..thresholds.choice import OBJECTIVES

    low, high = clf.score_range
    if value == "original" and clf._original_threshold() is None:
        raise InputError(
            f"--threshold original: {method_name(clf)}, the method of {model}, was published without a threshold "
            "for all data; use --target-rejection, risk, f, youden or a number."
        )
    if isinstance(value, str):
        if value not in (*OBJECTIVES, "original"):
            raise InputError(
                f"--threshold {value}: give a number from {low:g} to {high:g}, or risk, f, youden or original."
            )
    elif value is None or not low <= value <= high:
        raise InputError(f"--threshold {value:g}: the unknown score of {model} lies between {low:g} and {high:g}.")

"""The label of unknown samples, and arrays that can hold it beside the known classes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from .array_types import AnyArray

UNKNOWN_NUMBER = -1
UNKNOWN_TEXT = "unknown"
#: Labels that no class has unless rejected samples get another one; a table has −1 as text.
RESERVED = (UNKNOWN_NUMBER, UNKNOWN_TEXT, str(UNKNOWN_NUMBER))


def is_text(classes: AnyArray) -> bool:
    """Return whether labels are text, not numbers."""
    return classes.dtype.kind == "U" or (classes.dtype.kind == "O" and isinstance(classes[0], str))


def format_label(label: Any) -> str:
    """Return a class as text, as files of labels have it: a whole number without a decimal point.

    Examples
    --------
    >>> [format_label(label) for label in ("a", 7, 7.0, 0.5)]
    ['a', '7', '7', '0.5']
    """
    value = label.item() if isinstance(label, np.generic) else label
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def resolve_unknown_label(unknown_label: Any, classes: AnyArray) -> Any:
    """Return the label of rejected samples: the given one, or −1 for numbers and "unknown" for text.

    Raise a ValueError if it is one of the classes: samples with such a label are rarely meant to be learned.
    """
    text = is_text(classes)
    label = unknown_label.item() if isinstance(unknown_label, np.generic) else unknown_label
    if label is None:
        label = UNKNOWN_TEXT if text else UNKNOWN_NUMBER
    elif not isinstance(label, str if text else Real) or (isinstance(label, float) and not math.isfinite(label)):
        raise ValueError(
            f"unknown_label must be {'text' if text else 'a number'} like the classes, got {unknown_label!r}."
        )
    reserved = find_reserved(unknown_label, classes.tolist())
    if reserved is not None:
        raise ValueError(f"y: {describe_reserved(reserved, 'give another unknown_label')}")
    return label


def find_reserved(unknown_label: Any, classes: Iterable[Any]) -> Any:
    """Return the class that stands for rejected samples, or None: one of :data:`RESERVED` unless a label is given."""
    reserved = RESERVED if unknown_label is None or unknown_label in RESERVED else (unknown_label,)
    return next((label for label in classes if label in reserved), None)


def describe_reserved(label: Any, remedy: str) -> str:
    """Return what is wrong with a class that stands for rejected samples, and what to do."""
    return (
        f"the label {label!r} stands for rejected samples: leave such samples out or, if it is a known class, {remedy}."
    )


def append_unknown(classes: AnyArray, unknown_label: Any) -> AnyArray:
    """Return the classes followed by the unknown label, in a type that can hold both.

    Examples
    --------
    >>> (
    ...     append_unknown(np.array(["a", "b"]), "unknown").dtype.str[1:],
    ...     append_unknown(np.array([0, 1], np.uint8), -1).dtype,
    ... )
    ('U7', dtype('int64'))
    """
    if classes.dtype.kind == "O":
        out = np.empty(len(classes) + 1, dtype=object)
        out[:-1], out[-1] = classes, unknown_label
        return out
    label = np.asarray(unknown_label)
    if classes.dtype.kind in "iu" and label.dtype.kind in "iu":
        info = np.iinfo(classes.dtype)
        if info.min <= int(label) <= info.max:
            return np.append(classes, label.astype(classes.dtype))
        if np.result_type(classes, label).kind not in "iu":  # no integer type holds both: numbers as they are
            return append_unknown(classes.astype(object), unknown_label)
    return np.append(classes, label)

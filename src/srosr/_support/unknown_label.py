"""The label of unknown samples, and arrays that can hold it beside the known classes."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from .array_types import AnyArray

UNKNOWN_NUMBER = -1
UNKNOWN_TEXT = "unknown"


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
    """Return the label for rejected samples: the given one, or −1 for numbers and "unknown" for text.

    Where −1 is a class it is the smallest class minus one; where "unknown" is one, "__unknown__".
    """
    text = is_text(classes)
    known = classes.tolist()
    if unknown_label is None:
        if not text:
            if UNKNOWN_NUMBER not in known:
                return UNKNOWN_NUMBER
            below = min(known) - 1
            return below if below not in known else 2 * min(known)  # one less than a huge float is the same number
        free = UNKNOWN_TEXT
        while free in known:
            free = f"__{free}__"
        return free
    label = unknown_label.item() if isinstance(unknown_label, np.generic) else unknown_label
    if not isinstance(label, str if text else Real) or (isinstance(label, float) and not math.isfinite(label)):
        raise ValueError(
            f"unknown_label must be {'text' if text else 'a number'} like the classes, got {unknown_label!r}."
        )
    if label in known:
        raise ValueError(f"unknown_label {unknown_label!r} is one of the classes; choose a label that is not.")
    return label


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

"""What every metric asks of its input, and the words in which it says no."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number, Real
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array

__all__ = [
    "as_labels",
    "as_scores",
    "check_choice",
    "check_share",
    "equal",
    "kinds_of",
    "listed",
    "marked",
    "need_both",
    "need_known",
    "need_unknown",
    "same_length",
]


def marked(true: AnyArray, pred: AnyArray, unknown_label: Any, pred_name: str = "y_pred") -> tuple[AnyArray, AnyArray]:
    """Which entries of either are the unknown label, after making sure that they can be compared at all."""
    same_length(**{"y_true": true, pred_name: pred})
    mark = as_labels([unknown_label], "unknown_label")
    unknown, refused = equal(true, mark), equal(pred, mark)
    kinds, answers = kinds_of(true[~unknown]), kinds_of(pred[~refused])
    if kinds and answers and not kinds & answers:
        raise ValueError(f"y_true holds {listed(kinds)} and {pred_name} {listed(answers)}: use one kind of label.")
    if not unknown.any() and not refused.any() and not kinds_of(mark) & (kinds | answers):
        raise ValueError(
            f"unknown_label is {unknown_label!r}, of {listed(kinds_of(mark))}, and all labels are "
            f"{listed(kinds | answers)}: use one kind of label."
        )
    return unknown, refused


def as_labels(values: Any, name: str) -> AnyArray:
    """One-dimensional labels: numbers, strings, or objects that are one or the other."""
    if hasattr(values, "__array__"):
        out = np.asarray(values)
    elif isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} must be a list or array of labels, got {values!r}.")
    else:
        # Not np.asarray, which would turn the number in ["a", -1] into a string.
        out = np.array(list(values), dtype=object)
    if out.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, one label a sample, got shape {out.shape}.")
    if not len(out):
        raise ValueError(f"{name} is empty.")
    if out.dtype.kind == "O":
        kinds = kinds_of(out)
        if strange := kinds - {"strings", "bytes", "numbers"}:
            raise ValueError(f"{name} holds {listed(strange)}: labels must be strings or numbers, none missing.")
        if len(kinds) == 1:
            out = np.array(out.tolist())
    if out.dtype.kind not in "biufSUTO":
        raise ValueError(f"{name} holds {out.dtype}: labels must be strings or numbers.")
    if out.dtype.kind in "fO" and any(v != v for v in out.tolist()):
        raise ValueError(f"{name} contains NaN; a sample of an unknown class needs a label, the unknown one.")
    return out


def kinds_of(labels: AnyArray) -> set[str]:
    """What the labels are: "strings", "numbers", both, or names of other types."""
    if not len(labels):
        return set()
    if labels.dtype.kind in "SUT":
        return {"bytes" if labels.dtype.kind == "S" else "strings"}
    if labels.dtype.kind != "O":
        return {"numbers"}
    known = ((str, "strings"), (bytes, "bytes"), (Number, "numbers"))
    return {next((name for kind, name in known if issubclass(t, kind)), t.__name__) for t in map(type, labels)}


def listed(kinds: set[str]) -> str:
    """Kinds of labels in a sentence."""
    return " and ".join(sorted(kinds))


def equal(a: AnyArray, b: AnyArray) -> AnyArray:
    """Whether labels are the same, without a number ever becoming a string."""
    if kinds_of(a) != kinds_of(b):
        a, b = a.astype(object), b.astype(object)
    return np.asarray(a == b, dtype=bool)


def as_scores(values: Any) -> Array:
    """One number a sample; infinite ones have a rank."""
    try:
        scores = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("unknown_score must be an array of numbers, one a sample.") from None
    if scores.ndim != 1:
        raise ValueError(f"unknown_score must be one-dimensional, one number a sample, got shape {scores.shape}.")
    if np.isnan(scores).any():
        raise ValueError(f"unknown_score is NaN for {np.isnan(scores).sum()} samples: they have no rank.")
    return scores


def same_length(**arrays: AnyArray) -> None:
    """One entry a sample everywhere."""
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise ValueError(f"one entry a sample is needed everywhere, but {found}.")


def check_choice(value: Any, name: str, choices: Sequence[str]) -> None:
    """A name out of several."""
    if not isinstance(value, str) or value not in choices:
        *others, last = (f'"{choice}"' for choice in choices)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {value!r}.")


def check_share(value: Any, name: str, *, zero: bool = True) -> float:
    """A share in [0, 1], or in (0, 1]."""
    number = isinstance(value, Real | np.floating | np.integer) and not isinstance(value, bool | np.bool_)
    if not number or not 0 <= value <= 1 or (value == 0 and not zero):
        from_zero = "from 0" if zero else "above 0"
        raise ValueError(f"{name} must be a share, {from_zero} up to 1, got {value!r}.")
    return float(value)


def need_known(n_known: int, what: str) -> None:
    """Samples of known classes."""
    if not n_known:
        raise ValueError(f"y_true holds unknown samples only: {what} needs samples of known classes.")


def need_unknown(n_unknown: int, unknown_label: Any, what: str) -> None:
    """Samples of unknown classes."""
    if not n_unknown:
        raise ValueError(
            f"y_true has no unknown samples: none is labelled {unknown_label!r}. {what} needs some; "
            "mark_unknown(y, classes, unknown_label=...) relabels classes that were not trained."
        )


def need_both(unknown: AnyArray, unknown_label: Any, what: str) -> None:
    """Samples of both kinds."""
    if not unknown.any():
        raise ValueError(
            f"y_true has no unknown samples: none is labelled {unknown_label!r}. {what} compares known with unknown "
            "samples; mark_unknown(y, classes, unknown_label=...) relabels classes that were not trained."
        )
    if unknown.all():
        raise ValueError(f"y_true holds unknown samples only: {what} needs samples of known classes too.")

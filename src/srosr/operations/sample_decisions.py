"""Decisions on rows that were read, and errors that name the row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .input_errors import InputError, end_sentence
from .model_input import get_imputer

if TYPE_CHECKING:
    from .._support.array_types import Array, IntArray
    from ..classifiers.base import Decisions, OpenSetClassifier
    from ..thresholds.guarantees import PredictionSets


def list_sets(sets: PredictionSets) -> list[str]:
    """Return the prediction set of each sample as text, with a bar between classes."""
    from .._support.unknown_label import format_label

    return ["|".join(format_label(label) for label in classes.tolist()) for classes in sets]


def measure_gaps(X: Array) -> Array:
    """Return the share of the values of each row that is missing."""
    from numpy import isnan

    return isnan(X).mean(axis=1)


def describe_fdr(clf: OpenSetClassifier, fdr: float) -> str:
    """Return what a false discovery rate rests on."""
    split = clf._get_calibration()
    exact = split.exact and split.groups is None
    return (
        f"False discovery rate {fdr:g}: {'guaranteed' if exact else 'approximate'}, "
        f"from {len(split):,} {split.source}; the smallest p-value is {1 / (1 + split.compute_weights().sum()):.2g}."
    )


def make_row_error(clf: OpenSetClassifier, name: str, row: int, seen: int) -> InputError:
    """Return why there is no sample in a row of a table of which ``seen`` rows were read."""
    if row >= seen:
        return InputError(f"{name} has {seen} rows, from 0 to {seen - 1}: there is no row {row}.")
    lacks = "missing values" if get_imputer(clf) is None else "no value at all"
    return InputError(f"row {row} of {name} has {lacks}, so it cannot be predicted.")


def decide_rows(clf: OpenSetClassifier, name: str, numbers: IntArray, X: Any, **asked: Any) -> Decisions:
    """Return the decisions on a batch; an error of a sample, such as an overflow, names the file and the row."""
    try:
        return clf.decide(X, **asked)
    except ValueError as error:
        raise make_sample_error(name, int(numbers[_find_error(clf, X)]), error) from None


def make_sample_error(name: str, row: int, error: ValueError) -> InputError:
    """Return the error for a sample that a classifier does not take."""
    reason = end_sentence(str(error).removeprefix("X: "))
    return InputError(f"{name} has a sample in row {row} that cannot be predicted: {reason}")


def _find_error(clf: OpenSetClassifier, X: Any) -> int:
    """Return the place of the first sample that is an error, given that there is one."""
    first, end = 0, len(X)
    while end - first > 1:
        middle = (first + end) // 2
        try:
            clf.decide(X[first:middle])
        except ValueError:
            end = middle
        else:
            first = middle
    return first

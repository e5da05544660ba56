"""Rows of parsed JSON: lists of numbers, or objects with a number for each column. A null is a missing value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array
from .._support.messages import quote_text
from .._support.unknown_label import format_label
from .columns import assign_roles
from .read_options import ReadOptions
from .row_source import Block, ReadError, RowSource

_NUMBERS = frozenset({float, int, type(None)})
_KINDS = {bool: "true or false", dict: "an object", list: "a list"}


class JsonRows(RowSource):
    """Rows of a list of samples for a model, each a list of numbers or an object, or of one sample.

    The parsed value is not changed; messages call it ``name``.
    """

    def __init__(self, name: str, samples: Any, options: ReadOptions) -> None:
        if not isinstance(samples, list) or not samples:
            raise ReadError(f"{name} must have a list of at least one sample, as in [[1, 2], [3, 4]].")
        if type(samples[0]) in _NUMBERS:  # one sample
            samples = [samples]
        notes: tuple[str, ...] = ()
        if isinstance(samples[0], dict):
            samples, notes = _order_columns(name, samples, options)
        self._X = _convert_numbers(name, samples, options)
        super().__init__(
            name, self._X.shape[1], drop_missing=options.drop_missing, impute=options.impute,
            feature_names=options.feature_names, n_rows=len(self._X), notes=notes,
        )  # fmt: skip

    def _blocks(self) -> Iterator[Block]:
        yield Block(self._X, None, {}, lambda row: f"row {row}")


def _order_columns(name: str, samples: list[Any], options: ReadOptions) -> tuple[list[Any], tuple[str, ...]]:
    """Return samples with named columns as lists in the order of the features, and notes."""
    expected = options.feature_names
    if expected is None:
        raise ReadError(
            f"{name} has named columns, and the model was fitted to features without names: give lists of numbers."
        )
    wished = set(expected)
    columns = [column for column in expected if column in samples[0]]
    columns += [column for column in samples[0] if column not in wished]
    roles = assign_roles(name, columns, options, lambda: ())
    kept = set(columns)
    rows = []
    for number, sample in enumerate(samples):
        if not isinstance(sample, dict) or sample.keys() != kept:
            raise ReadError(f"{name} does not have the columns of row 0 in row {number}: give all rows the same ones.")
        rows.append([sample[columns[place]] for place in roles.features])
    return rows, roles.notes


def _convert_numbers(name: str, samples: list[Any], options: ReadOptions) -> Array:
    """Return lists of numbers as an array, NaN where one is null."""
    expected = options.n_features
    for number, sample in enumerate(samples):
        if type(sample) is not list:
            raise ReadError(f"{name} must have a list of numbers for each sample, but row {number} is not a list.")
        if len(sample) != expected:
            raise ReadError(
                f"{name} has {len(sample)} features in row {number}, but the model was fitted with {expected}: give it "
                "the same features."
            )
        if not _NUMBERS.issuperset(map(type, sample)):
            place = next(i for i, value in enumerate(sample) if type(value) not in _NUMBERS)
            value, names = sample[place], options.feature_names
            found = quote_text(value) if isinstance(value, str) else _KINDS[type(value)]
            where = f"feature {place}" if names is None else f"column {names[place]!r}"
            raise ReadError(f"{name} has {found} in row {number}, {where}, which is not a number.")
    try:
        return np.array(samples, dtype=np.float64)
    except OverflowError:
        raise ReadError(f"{name} has a whole number that is too large to compute with; correct it.") from None


def convert_texts(name: str, values: Any, what: str) -> AnyArray:
    """Return labels or groups as text, None where one is null."""
    if not isinstance(values, list):
        raise ReadError(f'{name} must have a list with one of the {what} for each sample, as in ["a", "b"].')
    texts = np.empty(len(values), dtype=object)
    for number, value in enumerate(values):
        if value is not None and type(value) not in (str, int, float):
            raise ReadError(f"{name} must have texts or numbers as {what}, but has another kind in row {number}.")
        texts[number] = None if value is None else format_label(value)
    return texts

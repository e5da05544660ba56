"""Samples in JSON become rows, with the checks and the words of the readers of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pydantic_core import from_json

from .._support.array_types import AnyArray, Array
from .._support.messages import did_you_mean, quote_names, quote_text
from .._support.unknown_label import format_label
from ..tables import Block, GivenLabels, Rows, RowSource
from .answers import ApiError
from .model_store import ServedModel
from .schemas import SampleParameters
from .settings import Limits

#: What samples in JSON are called in messages.
NAME = "the request"
_NUMBERS = frozenset({float, int, type(None)})


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; NaN and Infinity are no JSON."""
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(400, f"The body is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ApiError(422, 'The body must be a JSON object, as in {"samples": [[1, 2], [3, 4]]}.')
    return value


def convert_samples(
    samples: Any, labels: Any, parameters: SampleParameters, model: ServedModel, limits: Limits
) -> tuple[Rows, list[str], int]:
    """Return the rows of a request, remarks, and how many rows were left out because values are missing."""
    if not isinstance(samples, list) or not samples:
        raise ApiError(422, 'samples must be a list of samples, as in {"samples": [[1, 2], [3, 4]]}.')
    if type(samples[0]) in _NUMBERS:  # one sample
        samples = [samples]
    if len(samples) > limits.rows:
        raise ApiError(413, f"{NAME} has more than {limits.rows:,} rows: send fewer at a time.")
    if isinstance(samples[0], dict):
        samples, notes = _order_columns(samples, parameters, model)
    else:
        notes = []
    X = _convert_numbers(samples, model, limits)
    given = _convert_labels(labels, len(X))
    if given is None and np.isfinite(X).all():
        return Rows(np.arange(len(X)), X, None, {}), notes, 0
    source = _JsonRows(X, given, parameters, model)
    rows = source.read()
    return rows, notes, source.dropped


def _order_columns(
    samples: list[Any], parameters: SampleParameters, model: ServedModel
) -> tuple[list[list[Any]], list[str]]:
    """Return samples with named columns as lists in the order of the model's features."""
    names = getattr(model.clf, "feature_names_in_", None)
    if names is None:
        raise ApiError(
            422, f"{NAME} has named columns, and the model was fitted to features without names: give lists of numbers."
        )
    expected: list[str] = [str(name) for name in names]
    wished = set(expected)
    recipe = model.clf.feature_recipe_
    ignored = set(parameters.ignore)
    if recipe is not None:
        ignored |= {name for name in (*recipe.ignored, recipe.label, recipe.group) if name is not None}
    left_out: set[str] = set()
    rows = []
    for number, sample in enumerate(samples):
        if not isinstance(sample, dict):
            raise ApiError(422, f"{NAME} has named columns in row 0, but not in row {number}: name them in all rows.")
        lacking = [name for name in expected if name not in sample]
        if lacking:
            guess = did_you_mean(lacking[0], [name for name in sample if name not in wished])
            what = "a feature" if len(lacking) == 1 else f"{len(lacking)} features"
            raise ApiError(422, f"{NAME} lacks {what} of the model in row {number}: {quote_names(lacking, 5)}{guess}.")
        extra = [name for name in sample if name not in wished and name not in ignored]
        if extra and not parameters.by_name:
            what = "a column" if len(extra) == 1 else f"{len(extra)} columns"
            raise ApiError(
                422, f"{NAME} has {what} that the model does not have in row {number}: {quote_names(extra, 5)}; ignore "
                "leaves columns out, by_name all of them.",
            )  # fmt: skip
        left_out.update(extra)
        rows.append([sample[name] for name in expected])
    notes = [f"Left out by by_name: {quote_names(sorted(left_out), 5)}."] if left_out else []
    return rows, notes


def _convert_numbers(samples: list[Any], model: ServedModel, limits: Limits) -> Array:
    """Return lists of numbers as an array, NaN where one is null."""
    expected = model.clf.n_features_in_
    for number, sample in enumerate(samples):
        if type(sample) is not list:
            raise ApiError(422, f"{NAME} must have a list of numbers for each sample, but row {number} is none.")
        if len(sample) != expected:
            if len(sample) > limits.columns:
                raise ApiError(413, f"{NAME} has more than {limits.columns:,} columns in row {number}.")
            raise ApiError(
                422, f"{NAME} has {len(sample)} features in row {number}, but the model was fitted with {expected}: "
                "give it the same features.",
            )  # fmt: skip
        if not _NUMBERS.issuperset(map(type, sample)):
            place = next(i for i, value in enumerate(sample) if type(value) not in _NUMBERS)
            value = sample[place]
            found = quote_text(value) if isinstance(value, str) else {bool: "true or false"}.get(type(value), "a list")
            raise ApiError(422, f"{NAME} has {found} in row {number}, {_title(model, place)}, which is not a number.")
    try:
        return np.array(samples, dtype=np.float64)
    except OverflowError:
        for number, sample in enumerate(samples):
            for place, value in enumerate(sample):
                if isinstance(value, int) and abs(value) > 10**308:
                    where = f"row {number}, {_title(model, place)}"
                    raise ApiError(422, f"{NAME} has an infinite value in {where}; correct it.") from None
        raise


def _title(model: ServedModel, place: int) -> str:
    names = getattr(model.clf, "feature_names_in_", None)
    return f"feature {place}" if names is None else f"column {str(names[place])!r}"


def convert_texts(values: Any, what: str, n_rows: int | None = None) -> list[str | None]:
    """Return labels or groups as text, None where one is null."""
    if not isinstance(values, list):
        raise ApiError(422, f'{what} must be a list with one for each sample, as in {{"{what}": ["a", "b"]}}.')
    if n_rows is not None and len(values) != n_rows:
        raise ApiError(422, f"{NAME} has {len(values)} {what}, but {n_rows} rows: give one for each row.")
    texts: list[str | None] = []
    for number, value in enumerate(values):
        if value is not None and type(value) not in (str, int, float):
            raise ApiError(422, f"{NAME} must have texts or numbers as {what}, but has another kind in row {number}.")
        texts.append(None if value is None else format_label(value))
    return texts


def _convert_labels(labels: Any, n_rows: int) -> AnyArray | None:
    if labels is None:
        return None
    texts = convert_texts(labels, "labels", n_rows)
    out = np.empty(len(texts), dtype=object)
    out[:] = texts
    return out


class _JsonRows(RowSource):
    """Rows of a request: reading them checks for missing and infinite values."""

    def __init__(self, X: Array, labels: AnyArray | None, parameters: SampleParameters, model: ServedModel) -> None:
        names: Sequence[Any] | None = getattr(model.clf, "feature_names_in_", None)
        super().__init__(
            NAME,
            X.shape[1],
            drop_missing=parameters.drop_missing,
            impute=model.imputes and not parameters.drop_missing,
            feature_names=None if names is None else tuple(map(str, names)),
            n_rows=len(X),
            given=None if labels is None else GivenLabels(NAME, labels, "labels"),
        )
        self._X = X

    def _blocks(self) -> Iterator[Block]:
        yield Block(self._X, None, {}, lambda row: f"row {row}")

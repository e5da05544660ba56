"""Samples in JSON become rows, with the checks and the words of the readers of files.

A small body is converted in the server, a large one in a child process: nothing here needs more than
:class:`SampleForm`, and what is wrong is a :class:`Refusal`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic_core import from_json

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import did_you_mean, quote_names, quote_text
from .._support.unknown_label import format_label
from ..tables.row_source import Block, GivenLabels, RowSource
from .jobs import TOO_LARGE, Refusal

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier

#: What samples in JSON are called in messages.
NAME = "the request"
MALFORMED = 400
_NUMBERS = frozenset({float, int, type(None)})
_KINDS = {bool: "true or false", dict: "an object", list: "a list"}
#: A guess at what was meant compares a name with all others: with few, and short ones.
_MOST_GUESSES, _LONGEST_GUESS = 200, 80


class JsonParts(NamedTuple):
    """A request in JSON: its samples, what belongs to them, and its parameters."""

    samples: Any
    labels: Any
    groups: Any
    parameters: dict[str, Any]


class JsonRows(NamedTuple):
    """Rows of a request."""

    X: Array
    #: Numbers of the rows, from 0; rows that were left out leave gaps.
    numbers: IntArray
    labels: list[str] | None
    groups: list[str | None] | None
    notes: list[str]
    dropped: int


@dataclass(frozen=True)
class SampleForm:
    """What samples in JSON must be like: what a model takes, and what the parameters of a request say."""

    n_features: int
    names: list[str] | None
    #: Columns that may be there and are left out.
    ignored: list[str]
    by_name: bool
    drop_missing: bool
    imputes: bool
    most_rows: int
    most_columns: int

    @classmethod
    def of(
        cls,
        clf: OpenSetClassifier,
        *,
        ignore: list[str],
        by_name: bool,
        drop_missing: bool,
        imputes: bool,
        most_rows: int,
        most_columns: int,
    ) -> SampleForm:
        """Return the form of samples for a model."""
        names, recipe = getattr(clf, "feature_names_in_", None), clf.feature_recipe_
        ignored = list(ignore)
        if recipe is not None:
            ignored += [name for name in (*recipe.ignored, recipe.label, recipe.group) if name is not None]
        return cls(
            clf.n_features_in_, None if names is None else [str(name) for name in names], ignored, by_name,
            drop_missing, imputes, most_rows, most_columns,
        )  # fmt: skip

    def name_place(self, place: int) -> str:
        """Return what a feature is called in messages."""
        return f"feature {place}" if self.names is None else f"column {self.names[place]!r}"


def parse_json(content: bytes, what: str = "The body") -> Any:
    """Return the value of JSON; NaN and Infinity are no JSON."""
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(f"{what} is not JSON: {error}.", MALFORMED) from None


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise Refusal('The body must be a JSON object, as in {"samples": [[1, 2], [3, 4]]}.')
    return value


def split_object(value: dict[str, Any], *, labels: bool, groups: bool) -> JsonParts:
    """Return the parts of a request with samples; where labels or groups are not taken, they are parameters."""
    if "samples" not in value:
        raise Refusal('The body has no samples: send them as in {"samples": [[1, 2], [3, 4]]}.')
    samples = value.pop("samples")
    own_labels = value.pop("labels", None) if labels else None
    own_groups = value.pop("groups", None) if groups else None
    return JsonParts(samples, own_labels, own_groups, value)


def convert_samples(parts: JsonParts, form: SampleForm) -> JsonRows:
    """Return the rows of a request; raise ReadError, or Refusal, for what is wrong with them."""
    samples = parts.samples
    if not isinstance(samples, list) or not samples:
        raise Refusal('samples must be a list of at least one sample, as in {"samples": [[1, 2], [3, 4]]}.')
    if type(samples[0]) in _NUMBERS:  # one sample
        samples = [samples]
    if len(samples) > form.most_rows:
        raise Refusal(f"{NAME} has more than {form.most_rows:,} rows: send fewer at a time.", TOO_LARGE)
    notes: list[str] = []
    if isinstance(samples[0], dict):
        samples, notes = _order_columns(samples, form)
    X = _convert_numbers(samples, form)
    groups = None if parts.groups is None else convert_texts(parts.groups, "groups", len(X))
    if parts.labels is None and np.isfinite(X).all():
        return JsonRows(X, np.arange(len(X)), None, groups, notes, 0)
    labels = None if parts.labels is None else _to_array(convert_texts(parts.labels, "labels", len(X)))
    source = _JsonSource(X, labels, form)
    rows = source.read()
    if groups is not None:
        groups = [groups[i] for i in rows.numbers.tolist()]
    found = None if rows.labels is None else rows.labels.tolist()
    return JsonRows(rows.X, rows.numbers, found, groups, notes, source.dropped)


def _order_columns(samples: list[Any], form: SampleForm) -> tuple[list[list[Any]], list[str]]:
    """Return samples with named columns as lists in the order of the model's features."""
    expected = form.names
    if expected is None:
        raise Refusal(
            f"{NAME} has named columns, and the model was fitted to features without names: give lists of numbers."
        )
    wished, ignored = set(expected), set(form.ignored)
    left_out: set[str] = set()
    rows = []
    for number, sample in enumerate(samples):
        if not isinstance(sample, dict):
            raise Refusal(f"{NAME} has named columns in row 0, but not in row {number}: name them in all rows.")
        lacking = [name for name in expected if name not in sample]
        if lacking:
            guess = _guess(lacking[0], [name for name in sample if name not in wished])
            what = "a feature" if len(lacking) == 1 else f"{len(lacking)} features"
            raise Refusal(f"{NAME} lacks {what} of the model in row {number}: {quote_names(lacking, 5)}{guess}.")
        extra = [name for name in sample if name not in wished and name not in ignored]
        if extra and not form.by_name:
            what = "a column" if len(extra) == 1 else f"{len(extra)} columns"
            raise Refusal(
                f"{NAME} has {what} that the model does not have in row {number}: {_quote(extra)}; ignore "
                "leaves columns out, by_name all of them.",
            )
        left_out.update(extra)
        rows.append([sample[name] for name in expected])
    notes = [f"Left out by by_name: {_quote(sorted(left_out))}."] if left_out else []
    return rows, notes


def _guess(name: str, others: list[str]) -> str:
    return did_you_mean(name, [other for other in others[:_MOST_GUESSES] if len(other) <= _LONGEST_GUESS])


def _quote(names: list[str]) -> str:
    """Return names that a client gave, however long, for a message."""
    return quote_names([name[:_LONGEST_GUESS] for name in names], 5)


def _convert_numbers(samples: list[Any], form: SampleForm) -> Array:
    """Return lists of numbers as an array, NaN where one is null."""
    expected = form.n_features
    for number, sample in enumerate(samples):
        if type(sample) is not list:
            raise Refusal(f"{NAME} must have a list of numbers for each sample, but row {number} is not a list.")
        if len(sample) != expected:
            if len(sample) > form.most_columns:
                raise Refusal(f"{NAME} has more than {form.most_columns:,} columns in row {number}.", TOO_LARGE)
            raise Refusal(
                f"{NAME} has {len(sample)} features in row {number}, but the model was fitted with {expected}: "
                "give it the same features.",
            )
        if not _NUMBERS.issuperset(map(type, sample)):
            place = next(i for i, value in enumerate(sample) if type(value) not in _NUMBERS)
            value = sample[place]
            found = quote_text(value) if isinstance(value, str) else _KINDS[type(value)]
            raise Refusal(f"{NAME} has {found} in row {number}, {form.name_place(place)}, which is not a number.")
    try:
        return np.array(samples, dtype=np.float64)
    except OverflowError:
        for number, sample in enumerate(samples):
            for place, value in enumerate(sample):
                if isinstance(value, int) and abs(value) > 10**308:
                    where = f"row {number}, {form.name_place(place)}"
                    raise Refusal(f"{NAME} has an infinite value in {where}; correct it.") from None
        raise


def convert_texts(values: Any, what: str, n_rows: int | None = None) -> list[str | None]:
    """Return labels or groups as text, None where one is null."""
    if not isinstance(values, list):
        raise Refusal(f'{what} must be a list with one for each sample, as in {{"{what}": ["a", "b"]}}.')
    if n_rows is not None:
        check_count(values, what, n_rows)
    texts: list[str | None] = []
    for number, value in enumerate(values):
        if value is not None and type(value) not in (str, int, float):
            raise Refusal(f"{NAME} must have texts or numbers as {what}, but has another kind in row {number}.")
        texts.append(None if value is None else format_label(value))
    return texts


def check_count(values: list[Any], what: str, n_rows: int) -> None:
    """Raise unless there is one value for each row."""
    if len(values) != n_rows:
        raise Refusal(f"{NAME} has {len(values)} {what}, but {n_rows} rows: give one for each row.")


def _to_array(texts: list[str | None]) -> AnyArray:
    out = np.empty(len(texts), dtype=object)
    out[:] = texts
    return out


class _JsonSource(RowSource):
    """Rows of a request: reading them checks for missing and infinite values."""

    def __init__(self, X: Array, labels: AnyArray | None, form: SampleForm) -> None:
        super().__init__(
            NAME,
            X.shape[1],
            drop_missing=form.drop_missing,
            impute=form.imputes and not form.drop_missing,
            feature_names=None if form.names is None else tuple(form.names),
            n_rows=len(X),
            given=None if labels is None else GivenLabels(NAME, labels, "labels"),
        )
        self._X = X

    def _blocks(self) -> Iterator[Block]:
        yield Block(self._X, None, {}, lambda row: f"row {row}")

"""The samples of a request: as arrays, and read from JSON and files by the same code in the server and its children.

Small JSON and plain arrays are read in the server; all else in a child with limits, see :mod:`srosr.server.child`. What
is wrong is an error with the words of the readers of files.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import IO, Any

import numpy as np
from pydantic_core import from_json, to_json
from safetensors.numpy import save

from .._support.array_types import AnyArray, Array, IntArray
from .._support.child_process import send_frame
from ..classifiers.base import OpenSetClassifier
from ..operations.input_errors import InputError
from ..operations.model_input import find_columns, format_notes, get_imputer
from ..tables.json_rows import JsonRows, convert_texts
from ..tables.read_options import ReadOptions
from ..tables.row_source import RowSource
from . import schemas
from .schemas import LISTS, ApiError, Parameters, SampleParameters, check_parameters
from .settings import Limits

#: What samples in JSON are called in messages.
NAME = "the request"
PICTURES = "pictures"
#: Seconds between two reports of progress.
_PAUSE = 0.1
_LONGEST_NAME = 80
_ARRAYS = ("X", "numbers", "thumbnails")


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples as they were sent, not yet imputed and scaled."""

    X: Array
    #: Numbers of the rows, from 0; rows that were left out leave gaps.
    numbers: IntArray
    #: What they are called in messages.
    source: str = NAME
    labels: list[str] | None = None
    groups: list[str] | None = None
    #: Names and small copies of pictures.
    files: list[str] | None = None
    thumbnails: AnyArray | None = None
    notes: Sequence[str] = ()
    dropped: int = 0
    #: Rows that were read, those left out included.
    seen: int = 0
    #: The column that the labels come from, and the names of the others.
    label: str | None = None
    feature_names: list[str] | None = None

    def pack(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Return a JSON-serializable dict and arrays from which :meth:`unpack` makes the same samples."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {name: values.pop(name) for name in _ARRAYS}
        return values, {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def unpack(cls, values: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Samples:
        """Return the samples of :meth:`pack`."""
        own: dict[str, Any] = {name: arrays[name] for name in _ARRAYS if name in arrays}
        return cls(**values, **own)

    def check(self, expected: Expected) -> Samples:
        """Return the samples if they have the form that a model expects; a reader is not trusted."""
        texts = [values for values in (self.labels, self.groups, self.files) if values is not None]
        per_row: list[Any] = [self.X, self.numbers, *texts, *([] if self.thumbnails is None else [self.thumbnails])]
        types: Any = self.X.dtype, self.numbers.dtype
        if (
            types != (np.float64, np.int64)
            or (self.X.shape[1:], self.numbers.shape) != ((expected.n_features,), (len(self.X),))
            or any(len(values) != len(self.X) for values in per_row)
            or len(self.X) > expected.most_rows
            or not all(type(text) is str for values in (*texts, self.notes) for text in values)
            or type(self.dropped + self.seen) is not int
        ):
            raise ValueError("these are no samples of the model")
        return self

    def take(self, places: Sequence[int] | IntArray) -> Samples:
        """Return some of the samples, by their places."""
        listed = [int(place) for place in places]
        held = {name: getattr(self, name) for name in (*_ARRAYS, "labels", "groups", "files")}
        chosen: dict[str, Any] = {
            name: [values[place] for place in listed] if isinstance(values, list) else values[listed]
            for name, values in held.items()
            if values is not None
        }
        return replace(self, **chosen)


def pack_arrays(arrays: Mapping[str, AnyArray]) -> bytes:
    """Return arrays as safetensors, which takes the bytes of an array for its rows whatever their order is."""
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


@dataclass(frozen=True)
class Expected:
    """What samples of a model must be like, and the limits within which they are read."""

    #: The features, the labels and other columns of the table that the model was fitted to, as in ``ReadOptions``.
    columns: dict[str, Any]
    group: str | None
    imputes: bool
    n_features: int
    #: The settings of the recipe by which pictures become features, None if samples are no pictures.
    recipe: dict[str, Any] | None
    most_rows: int
    most_columns: int
    most_pixels: int
    #: Bytes of samples in memory.
    most_bytes: int

    @classmethod
    def of(cls, clf: OpenSetClassifier, limits: Limits) -> Expected:
        """Return what a model expects."""
        recipe = clf.feature_recipe_
        return cls(
            find_columns(clf),
            None if recipe is None else recipe.group,
            get_imputer(clf) is not None,
            clf.n_features_in_,
            recipe.get_settings() if recipe is not None and recipe.of_pictures else None,
            limits.rows,
            limits.columns,
            limits.pixels,
            2 * limits.body,
        )

    def make_options(self, parameters: SampleParameters, *, labels: schemas.Labels, group: str | None) -> ReadOptions:
        """Return how rows are read for the model; ``labels`` and ``group`` say what is looked for in a file."""
        given = parameters.model_dump(include={"label", "array", "ignore", "header", "by_name"})
        # For one row, missing values of the others do not matter.
        drops = parameters.drop_missing or parameters.one_row
        impute = self.imputes and (parameters.one_row or not drops)
        return ReadOptions(**given, **self.columns, labels=labels, group=group, drop_missing=drops, impute=impute)


def get_words(clf: OpenSetClassifier) -> dict[str, AnyArray]:
    """Return the visual words of a model of pictures, which a reader needs beside :class:`Expected`."""
    recipe = clf.feature_recipe_
    if recipe is None or recipe.pyramid is None:
        return {}
    return {"intake/vocabulary": np.asarray(recipe.pyramid.vocabulary_)}


# -- reading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """What is to be read: files of a format, for parameters of a kind."""

    #: The name of the class of the parameters, and those that did not come in JSON.
    kind: str
    given: dict[str, Any]
    #: "json", "csv", "npy", "npz", "parquet" or "pictures".
    format: str
    #: Private paths, and the names in messages.
    files: list[str]
    names: list[str]
    #: Labels and groups that came beside files, as JSON.
    beside: dict[str, str] = field(default_factory=dict)


def take_rows(
    source: RowSource, parameters: SampleParameters, expected: Expected, *, group: str | None, beside: Mapping[str, Any]
) -> Samples:
    """Return the rows of a source that a request is about, with the labels and groups that came beside them."""
    too_many = ApiError(413, f"{source.name} has more than {expected.most_rows:,} rows: send fewer at a time.")
    if source.n_rows is not None:  # where the start of a file says so
        if source.n_rows > expected.most_rows:
            raise too_many
        if 8 * source.n_rows * source.n_features > expected.most_bytes:
            raise ApiError(413, f"{source.name} takes more than {expected.most_bytes / 1e6:g} MB of memory: send less.")
    rows = source.read()
    if source.seen > expected.most_rows:
        raise too_many
    names = source.feature_names
    samples = Samples(
        rows.X,
        rows.numbers,
        source.name,
        labels=None if rows.labels is None else rows.labels.tolist(),
        groups=None if group is None else rows.kept[group],
        notes=format_notes(source),
        dropped=source.dropped,
        seen=source.seen,
        label=source.label,
        feature_names=None if names is None else list(names),
    )
    return choose_rows(add_beside(samples, beside), parameters)


def add_beside(samples: Samples, beside: Mapping[str, Any]) -> Samples:
    """Return samples with the labels and groups that came beside their files, one for each row that was read."""
    found: dict[str, Any] = {}
    for name, values in beside.items():
        texts = convert_texts(NAME, values, name)
        if len(texts) != samples.seen:
            raise InputError(f"{NAME} has {len(texts)} {name}, but {samples.seen} rows: give one for each row.")
        found[name] = texts[samples.numbers].tolist()
        if None in found[name]:
            row = int(samples.numbers[found[name].index(None)])
            raise InputError(f"{NAME} has no {name[:-1]} for row {row}; give it one or leave the sample out.")
    return replace(samples, **found)


def choose_rows(samples: Samples, parameters: SampleParameters) -> Samples:
    """Return the rows that a request is about."""
    if samples.labels is None and parameters.labels == "required":
        raise InputError(f"{samples.source} has no labels: give one for each sample.")
    if parameters.one_row:
        return samples.take(np.flatnonzero(samples.numbers == parameters.row))  # type: ignore[attr-defined]
    if parameters.rows is None:
        return samples
    if not parameters.rows:
        raise InputError("rows is empty: give the numbers of the rows, counted from 0.")
    place = {number: i for i, number in enumerate(samples.numbers.tolist())}
    absent = [row for row in parameters.rows if row not in place]
    if absent:
        raise InputError(f"{samples.source} has no row {absent[0]}: rows are counted from 0.")
    return samples.take([place[row] for row in dict.fromkeys(parameters.rows)])


def parse_json(content: bytes, what: str = "The body") -> Any:
    """Return the value of JSON; NaN and Infinity are no JSON."""
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(400, f"{what} is not JSON: {error}.") from None
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # what Rust raises where memory ends
            raise MemoryError from None
        raise


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise InputError('The body must be a JSON object, as in {"samples": [[1, 2], [3, 4]]}.')
    return value


def gather_parameters(pairs: Iterable[tuple[str, Any]], kind: type[Parameters]) -> dict[str, Any]:
    """Return parameters by name, each given once; in a query string or a form those that are lists may be repeated."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        is_item = name in LISTS and name in kind.model_fields and isinstance(value, str) and value[:1] != "["
        if name not in found:
            found[name] = [value] if is_item else value
        elif is_item and isinstance(found[name], list):
            found[name].append(value)
        else:
            raise InputError(f"The parameter {name[:_LONGEST_NAME]!r} is given more than once.")
    return found


def read_json(
    body: bytes, kind: type[SampleParameters], query: Mapping[str, Any], expected: Expected
) -> tuple[SampleParameters, Samples]:
    """Return the parameters and samples in a JSON object."""
    value = parse_object(body)
    if "samples" not in value:
        raise InputError('The body has no samples: send them as in {"samples": [[1, 2], [3, 4]]}.')
    samples = value.pop("samples")
    beside = {name: value.pop(name) for name in kind.list_beside() if value.get(name) is not None}
    parameters = check_parameters(kind, gather_parameters([*query.items(), *value.items()], kind))
    if expected.recipe is not None:
        raise InputError("The model was fitted to pictures: send pictures, not numbers.")
    if isinstance(samples, list) and len(samples) > max(expected.most_rows, expected.n_features):
        raise ApiError(413, f"{NAME} has more than {expected.most_rows:,} rows: send fewer at a time.")
    options = replace(expected.make_options(parameters, labels="no", group=None), label=None)
    return parameters, take_rows(JsonRows(NAME, samples, options), parameters, expected, group=None, beside=beside)


# -- jobs for children ---------------------------------------------------------------------------------------


@dataclass
class Job:
    """What is to be done: a header, arrays by name, and the stream for reports of progress."""

    header: Mapping[str, Any]
    arrays: Mapping[str, AnyArray]
    outbox: IO[bytes] | None = None
    _stage: str = ""
    _next: float = 0.0

    def take_samples(self) -> Samples:
        """Return the samples of the job."""
        return Samples.unpack(self.header["samples"], self.arrays)

    def report(self, stage: str, done: int | None = None, of: int | None = None) -> None:
        """Tell the server what is being done; within a stage at most ten times a second."""
        now = time.monotonic()
        if self.outbox is None or (stage == self._stage and now < self._next):
            return
        self._stage, self._next = stage, now + _PAUSE
        send_frame(self.outbox, to_json({"kind": "progress", "stage": stage, "done": done, "of": of}))


#: The result of a job: a JSON-serializable dict, and arrays if there are any.
Result = dict[str, Any] | tuple[dict[str, Any], dict[str, AnyArray]]

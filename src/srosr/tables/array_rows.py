"""Rows of arrays: of npz and mat files, which are read as a whole, and of npy files, which are read in parts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from .._support.array_types import AnyArray
from .._support.messages import did_you_mean, join_names, quote_names
from .arrays import MatArrays, NamedArrays, NpyHeader, NpzArrays, read_header, read_rows
from .cells import NotAClass, convert_labels
from .columns import LABEL_NAMES, check_number
from .read_options import ReadOptions
from .row_source import Block, GivenLabels, InputFile, ReadError, RowSource, raise_as_read_error

#: Numbers in a block, 2 MiB of them.
_BLOCK = 2**18
_SAMPLES = "X"
_CLASS_NAMES = "class_names"

_Given = GivenLabels | None


def open_arrays(file: InputFile, options: ReadOptions, given: _Given) -> RowSource:
    """Open an npy, npz or mat file as rows."""
    groups = () if options.group is None else (options.group,)
    for option, names in (("--ignore", options.ignore), ("--keep", options.keep), ("--group", groups)):
        if names:
            raise ReadError(f"{file.name} has no columns with names, so that {option} {names[0]} cannot be heeded.")
    if options.by_name:
        raise ReadError(f"{file.name} cannot be read with --by-name: it has no names of features; give them in order.")
    small = file.name.lower()
    if small.endswith(".npy"):
        return NpyRows(file, options, given)
    with raise_as_read_error(file.name):
        return HeldRows(file, NpzArrays(file) if small.endswith(".npz") else MatArrays(file), options, given)


class ArrayRows(RowSource):
    """Rows of an array with two axes; features have numbers instead of names."""

    def __init__(
        self, name: str, title: str, array: NpyHeader | AnyArray, options: ReadOptions, label: str | None, given: _Given
    ) -> None:
        shape, dtype = array.shape, array.dtype
        what = f"{title}{dtype} of shape {shape}"
        if dtype.kind not in "fiub":
            raise ReadError(f"{name} must hold real numbers, but has {what}: save numbers.")
        if len(shape) != 2:
            raise ReadError(
                f"{name} must have a row for each sample, but has {what}: give it the shape (samples, features)."
            )
        if 0 in shape:
            raise ReadError(f"{name} has no {'rows' if not shape[0] else 'features'}: it has {what}.")
        if options.n_features is not None:
            check_number(name, shape[1], options.n_features, in_columns=False)
        super().__init__(
            name, shape[1], drop_missing=options.drop_missing, impute=options.impute, label=label, label_kind="array",
            n_rows=shape[0], given=given,
        )  # fmt: skip
        self._n_read = 0

    @property
    def fraction(self) -> float | None:
        """Share of the rows read so far."""
        return self._n_read / (self.n_rows or 1)

    @abstractmethod
    def _read_parts(self, size: int) -> Iterator[tuple[AnyArray, AnyArray | None]]:
        """Yield ``size`` rows at a time, and their labels."""

    def _blocks(self) -> Iterator[Block]:
        self._n_read = first = 0
        with raise_as_read_error(self.name):
            for rows, labels in self._read_parts(max(1, _BLOCK // self.n_features)):
                with np.errstate(over="ignore"):  # of numbers with more than double precision
                    X = np.ascontiguousarray(rows, dtype=np.float64)
                yield Block(X, labels, {}, lambda row, first=first: f"row {first + row}")  # type: ignore[misc]
                self._n_read = first = first + len(X)


class NpyRows(ArrayRows):
    """Rows of an npy file, read in parts."""

    def __init__(self, file: InputFile, options: ReadOptions, given: _Given) -> None:
        self._file = file
        if options.looks_for_labels and (options.label is not None or options.labels == "required"):
            raise ReadError(f"{file.name} is one array without labels: give them in a file of their own with --labels.")
        with raise_as_read_error(file.name), file.open() as stream:
            self._header = read_header(stream, file.size)
        super().__init__(file.name, "", self._header, options, None, given)

    def _read_parts(self, size: int) -> Iterator[tuple[AnyArray, None]]:
        n_rows = self._header.shape[0]
        with self._file.open() as stream:
            for first in range(0, n_rows, size):
                rows = read_rows(stream, self._header, first, min(first + size, n_rows))
                self._file.check_unchanged(stream)
                yield rows, None


class HeldRows(ArrayRows):
    """Rows of one of the arrays of a file, held in memory."""

    def __init__(self, file: InputFile, arrays: NamedArrays, options: ReadOptions, given: _Given) -> None:
        samples = options.array if options.array is not None else _SAMPLES
        if samples not in arrays.names:
            guess = did_you_mean(samples, arrays.names)
            raise ReadError(
                f"{file.name} has no array {samples!r}: name the one with the samples with --array NAME{guess}; it has "
                f"{quote_names(arrays.names)}."
            )
        label = _find_label(file.name, arrays, samples, options)
        X = arrays.get(samples)
        super().__init__(file.name, f"in {samples!r} ", X, options, label, given)
        self._X = X
        self._labels = None if label is None else _read_labels(file.name, arrays, label, X.shape)

    def _read_parts(self, size: int) -> Iterator[tuple[AnyArray, AnyArray | None]]:
        for first in range(0, len(self._X), size):
            part = slice(first, first + size)
            yield self._X[part], None if self._labels is None else self._labels[part]


def _find_label(file: str, arrays: NamedArrays, samples: str, options: ReadOptions) -> str | None:
    """Return the name of the array of the labels, None if there is none or none is wanted."""
    others = [name for name in arrays.names if name != samples]
    if options.label is not None and options.label not in others:
        raise ReadError(
            f"{file} has no array {options.label!r}, which --label names{did_you_mean(options.label, others)}; it has "
            f"{quote_names(others)}."
        )
    if not options.looks_for_labels or options.label is not None:
        return options.label if options.looks_for_labels else None
    if options.usual_label in others:
        return options.usual_label
    called = [name for name in others if name.lower() in LABEL_NAMES]
    if len(called) > 1:
        raise ReadError(
            f"{file} has several arrays that may hold the labels ({quote_names(called)}): say which with --label NAME."
        )
    if not called and options.labels == "required":
        raise ReadError(
            f"{file} has no array called {join_names(LABEL_NAMES, last='or')}: say where the labels are "
            f"with --label NAME (arrays: {quote_names(others)})."
        )
    return called[0] if called else None


def _read_labels(file: str, arrays: NamedArrays, name: str, shape: tuple[int, ...]) -> AnyArray:
    values = arrays.get(name)
    if values.ndim == 0 or values.size != max(values.shape):
        raise ReadError(f"{file} must have a label for each row, but {name!r} has the shape {values.shape}.")
    values = values.reshape(-1)
    if len(values) != shape[0]:
        hint = ": transpose the samples, one row for each" if len(values) == shape[1] else ""
        raise ReadError(f"{file} has {len(values)} labels in {name!r}, but {shape[0]} rows of samples{hint}.")
    if _CLASS_NAMES in arrays.names and values.dtype.kind in "iu":
        values = _name_classes(file, arrays.get(_CLASS_NAMES), values, name)
    try:
        return convert_labels(values)
    except NotAClass as error:
        row = int(np.flatnonzero(values.astype(np.float64) == float(error.value))[0])
        raise ReadError(
            f"{file} has {error.value} as the label in row {row}, array {name!r}, which looks like a measurement, not "
            "a class; name the array of the labels with --label NAME."
        ) from None
    except TypeError:
        raise ReadError(f"{file} must have names or numbers as labels, but {name!r} has {values.dtype}.") from None


def _name_classes(file: str, names: AnyArray, places: AnyArray, label: str) -> AnyArray:
    """Return class names for places in the array ``class_names``, as :func:`srosr.read_dataset` does."""
    if names.ndim != 1 or not len(places) or places.min() < 0 or places.max() >= len(names):
        raise ReadError(f"{file} has labels in {label!r} that are not places in {_CLASS_NAMES!r}: correct one of them.")
    return names[places]

"""Batches of rows, the file they come from, and what all sources of rows have in common, whatever their format."""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray

#: What to do about a missing label, and about a missing value.
_LEAVE_OUT = "--drop-missing leaves such rows out."
_FILL = "--drop-missing leaves such rows out, and a model fitted with --impute fills in such values."


class ReadError(ValueError):
    """A file cannot be read as a table of samples.

    The message is one sentence: the file, the line (or row) and the column, what is wrong there, what to do.
    """


class MissingColumn(ReadError):
    """A file lacks a column that was asked for by name."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


class MissingValue(ReadError):
    """A value or a label is missing; ``fault`` says where, ``hint`` what to do."""

    def __init__(self, fault: str, hint: str) -> None:
        super().__init__(f"{fault}; {hint}")
        self.fault, self.hint = fault, hint


@dataclass(frozen=True, eq=False)
class Rows:
    """A batch of rows.

    Attributes
    ----------
    numbers : ndarray of shape (n_rows,)
        Numbers of the rows in the file, from 0, without the header; dropped rows leave gaps.
    X : ndarray of shape (n_rows, n_features)
        The features, all finite; NaN where a value is missing, if rows with gaps were asked for (``impute``).
    labels : ndarray of shape (n_rows,) of str, or None
        The labels as text; None if the file has none or none were asked for.
    kept : dict of str to list of str
        Columns carried along as text.
    """

    numbers: IntArray
    X: Array
    labels: AnyArray | None
    kept: dict[str, list[str]]


class Block(NamedTuple):
    """Rows as a format yields them: NaN where a feature is missing, None where a label is."""

    X: Array
    labels: AnyArray | None
    kept: dict[str, list[str]]
    place: Callable[[int], str]
    """Returns where a row of the block is in the file, in words: "line 12", "row 10"."""


class GivenLabels(NamedTuple):
    """Labels from elsewhere than the rows, None where one is missing."""

    source: str
    labels: AnyArray
    title: str
    """What they are called in messages."""


class RowSource(ABC):
    """Rows of a file, batch by batch; made by :func:`srosr.tables.formats.open_rows`.

    Attributes
    ----------
    name : str
        The path as given, or "standard input".
    feature_names : tuple of str, or None
        Names of the features; None if the file has none (arrays, a table without a header).
    n_features : int
        Number of features.
    label : str or None
        The column, array or file that the labels come from.
    n_rows : int or None
        Number of rows, if the file states it.
    notes : list of str
        Remarks for the user on how the file was understood.
    dropped, missing : int
        Rows left out so far because values are missing, and the missing values in them.
    seen : int
        Rows read so far, those left out included.
    """

    def __init__(
        self,
        name: str,
        n_features: int,
        *,
        drop_missing: bool,
        impute: bool = False,
        feature_names: tuple[str, ...] | None = None,
        label: str | None = None,
        label_kind: str = "column",
        n_rows: int | None = None,
        notes: Sequence[str] = (),
        given: GivenLabels | None = None,
    ) -> None:
        self.name, self.n_features, self.feature_names = name, n_features, feature_names
        self.label, self._label_title = (given.source, given.title) if given else (label, f"{label_kind} {label!r}")
        self.n_rows, self.notes = n_rows, list(notes)
        self.dropped = self.missing = self.seen = 0
        self._drop_missing, self._impute = drop_missing, impute
        self._given_labels = given.labels if given else None
        if given and n_rows is not None and n_rows != len(given.labels):
            raise self._wrong_number_of_labels(n_rows)

    @property
    def fraction(self) -> float | None:
        """Share of the file read so far, from 0 to 1; None if that cannot be known."""
        return None

    @property
    def may_read_ahead(self) -> bool:
        """Whether a thread may read the next rows while others are worked on."""
        return True

    def batches(self, size: int) -> Iterator[Rows]:
        """Yield all rows from the start, ``size`` at a time; only the last batch can be smaller.

        The first fault in the file raises a `ReadError`; the batches before it have been yielded.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, but is {size}")
        return _regroup(self._check_rows(), size)

    def read(self) -> Rows:
        """Return all rows at once; if values are missing, the error says how many."""
        try:
            return _concatenate(list(self._check_rows()))
        except MissingValue as error:
            raise self._count_missing(error) from None
        except MemoryError:
            raise ReadError(f"{self.name} does not fit into memory: take fewer rows.") from None

    def _count_missing(self, error: MissingValue) -> ReadError:
        """Return the error with the number of all missing values, if the rows can be read again."""
        self._drop_missing = True
        try:
            for _ in self._check_rows():
                pass
        except ReadError:
            return error
        finally:
            self._drop_missing = False
        some = "value is" if self.missing == 1 else "values are"
        rows = f"{self.dropped:,} of {self.seen:,} rows"
        return ReadError(f"{error.fault} (in all {self.missing:,} {some} missing, in {rows}); {error.hint}")

    @abstractmethod
    def _blocks(self) -> Iterator[Block]:
        """Yield the rows as the format has them, from the start."""

    def _feature_title(self, place: int) -> str:
        """Return the name of a feature for messages."""
        return f"column {self.feature_names[place]!r}" if self.feature_names is not None else f"feature {place}"

    def _check_rows(self) -> Iterator[Rows]:
        self.dropped = self.missing = self.seen = 0
        first = 0
        for block in self._blocks():
            n_rows = len(block.X)
            if self._given_labels is not None:
                block = block._replace(labels=self._take_given_labels(first, n_rows))
            rows = self._check(block, first)
            first += n_rows
            self.seen = first
            if len(rows.X):
                yield rows
        if not first:
            raise ReadError(f"{self.name} has no rows: give a file with samples in it.")
        if self._given_labels is not None and len(self._given_labels) != first:
            raise self._wrong_number_of_labels(first)
        if first == self.dropped:
            raise ReadError(f"{self.name} has a missing value in every row, so that --drop-missing leaves none.")

    def _take_given_labels(self, first: int, n_rows: int) -> AnyArray:
        assert self._given_labels is not None
        if first + n_rows > len(self._given_labels):
            raise self._wrong_number_of_labels(None)
        return self._given_labels[first : first + n_rows]

    def _wrong_number_of_labels(self, n_rows: int | None) -> ReadError:
        assert self._given_labels is not None
        found = len(self._given_labels)
        there = f"{n_rows} rows" if n_rows is not None else "more rows"
        hint = "; if its first line is a heading, delete it" if n_rows is not None and found == n_rows + 1 else ""
        return ReadError(f"{self.label} has {found} labels, but {self.name} has {there}: give one for each row{hint}.")

    def _check(self, block: Block, first: int) -> Rows:
        """Return the rows without those that miss values, or raise an error that names the first bad one."""
        X, labels, kept = block.X, block.labels, block.kept
        numbers: IntArray = np.arange(first, first + len(X), dtype=np.int64)
        finite = np.isfinite(X)
        unlabeled = None if labels is None else np.array([label is None for label in labels], dtype=bool)
        if finite.all() and (unlabeled is None or not unlabeled.any()):
            return Rows(numbers, X, labels, kept)
        missing = np.isnan(X)
        counts = missing.sum(axis=1)
        if self._impute:
            counts[counts < X.shape[1]] = 0
        if unlabeled is not None:
            counts += unlabeled
        if counts.any() and not self._drop_missing:
            row = int(np.argmax(counts > 0))
            raise self._missing_value(missing[row], block.place(row))
        infinite = ~finite & ~missing
        infinite[counts > 0] = False
        if infinite.any():
            row, feature = (int(place) for place in np.argwhere(infinite)[0])
            raise ReadError(
                f"{self.name} has an infinite value in {block.place(row)}, {self._feature_title(feature)}; correct it "
                "or take the row out."
            )
        self.dropped += int(np.count_nonzero(counts))
        self.missing += int(counts.sum())
        whole = np.flatnonzero(counts == 0)
        chosen = {name: [cells[row] for row in whole] for name, cells in kept.items()}
        return Rows(numbers[whole], X[whole], None if labels is None else labels[whole], chosen)

    def _missing_value(self, missing: AnyArray, place: str) -> ReadError:
        """Return the error for a row that lacks the features marked in ``missing``, or else its label."""
        features = np.flatnonzero(missing)
        if self._impute and len(features) == len(missing):
            why = "so that there is nothing to impute from; correct it or take the row out."
            return ReadError(f"{self.name} has no value at all in {place}, {why}")
        if self._impute:
            return ReadError(
                f"{self.name} has no label in {place}, {self._label_title}; give it one or take the row out."
            )
        if len(features):
            title = self._feature_title(int(features[0]))
            return MissingValue(f"{self.name} has no value in {place}, {title}", _FILL)
        return MissingValue(f"{self.name} has no label in {place}, {self._label_title}", _LEAVE_OUT)


def _concatenate(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    labels = (
        None if parts[0].labels is None else np.concatenate([part.labels for part in parts if part.labels is not None])
    )
    kept = {name: [cell for part in parts for cell in part.kept[name]] for name in parts[0].kept}
    return Rows(
        np.concatenate([part.numbers for part in parts]), np.concatenate([part.X for part in parts]), labels, kept
    )


def _slice(rows: Rows, start: int, stop: int) -> Rows:
    if start == 0 and stop == len(rows.X):
        return rows
    labels = None if rows.labels is None else rows.labels[start:stop]
    kept = {name: cells[start:stop] for name, cells in rows.kept.items()}
    return Rows(rows.numbers[start:stop], rows.X[start:stop], labels, kept)


def _regroup(parts: Iterator[Rows], size: int) -> Iterator[Rows]:
    """Yield the same rows in batches of ``size``."""
    waiting: list[Rows] = []
    n_waiting = 0
    for part in parts:
        start, length = 0, len(part.X)
        while n_waiting + length - start >= size:
            stop = start + size - n_waiting
            yield _concatenate([*waiting, _slice(part, start, stop)])
            waiting, n_waiting, start = [], 0, stop
        if start < length:
            waiting.append(_slice(part, start, length))
            n_waiting += length - start
    if waiting:
        yield _concatenate(waiting)


#: What libraries raise on a damaged file; zipfile a RuntimeError on encrypted and unknown compression.
_LIBRARY_ERRORS = (
    OSError, ValueError, TypeError, KeyError, EOFError, OverflowError, zlib.error, zipfile.BadZipFile, RuntimeError,
    SyntaxError,
)  # fmt: skip


class InputFile:
    """A regular file that exists, can be opened and is not empty, with its path as given and its size in bytes."""

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise ReadError(f"{path} does not exist: check the name of the file.") from None
        except (OSError, ValueError) as error:
            raise ReadError(f"{path} cannot be read: {_reason(error)}.") from None
        if stat.S_ISDIR(status.st_mode):
            raise ReadError(f"{path} is a folder, not a table: give a file, or a folder where pictures are read.")
        if not stat.S_ISREG(status.st_mode):
            raise ReadError(f"{path} is not a regular file: give - to read standard input.")
        if not status.st_size:
            raise ReadError(f"{path} is empty: give a file with samples in it.")
        self.size = status.st_size
        self._stamp = (status.st_size, status.st_mtime_ns, status.st_ino)

    def open(self) -> BinaryIO:
        """Open the file anew, checking that it is unchanged."""
        try:
            stream = open(self.name, "rb")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise ReadError(f"{self.name} cannot be read: {_reason(error)}.") from None
        try:
            self.check_unchanged(stream)
        except ReadError:
            stream.close()
            raise
        return stream

    def check_unchanged(self, stream: BinaryIO) -> None:
        """Raise if the file has changed since this object was made."""
        status = os.fstat(stream.fileno())
        if (status.st_size, status.st_mtime_ns, status.st_ino) != self._stamp:
            raise ReadError(f"{self.name} was changed while it was read: run again when it is complete.")


@contextmanager
def raise_as_read_error(file: str) -> Iterator[None]:
    """Turn what libraries raise on a damaged file into a `ReadError`."""
    import pyarrow as pa

    try:
        yield
    except ReadError:
        raise
    except MemoryError:
        raise ReadError(
            f"{file} does not fit into memory: take fewer rows, or a format that is read in parts."
        ) from None
    except (pa.ArrowException, *_LIBRARY_ERRORS) as error:
        raise ReadError(
            f"{file} is damaged or not of the kind its suffix says ({_reason(error)}): save it again."
        ) from None


def _reason(error: Exception) -> str:
    """Return the message of a library as the end of a sentence."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    said = " ".join(text.split()) or type(error).__name__
    said = said.split(". ")[0].rstrip(".")
    return said if len(said) <= 200 else said[:199] + "…"

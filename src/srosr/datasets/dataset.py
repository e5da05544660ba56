"""Samples with their classes, as every loader returns them, and the errors of loaders."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._support.array_types import AnyArray, IntArray

#: Kinds of number (NumPy's letters) a sample can be made of: truth values, integers, floating point numbers.
_NUMBERS = "buif"


class DatasetError(RuntimeError):
    """A data set cannot be loaded: the message names the set and the file, says what happened and what to do.

    Wrong arguments raise a `ValueError` instead.
    """


class DatasetNotFound(DatasetError):
    """A file of a data set is neither found nor can it be downloaded; a damaged file is a `DatasetError`."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples, the class of each, and where they come from.

    Every field is checked when the data set is made.

    Parameters
    ----------
    name : str
        Short name, as in :data:`srosr.datasets.registry.DATASETS`.
    X : ndarray (n_samples, n_features) or (n_samples,)
        Finite numbers, one row per sample; or paths of pictures.
    y : ndarray (n_samples,)
        Class of each sample, as an index into ``class_names``. Converted to ``int64``.
    class_names : tuple of str
        All different. A class may have no samples.
    source : str
        What the data are, where they come from and how they were processed.
    part : ndarray of str (n_samples,), optional
        The part of the set a sample belongs to, such as ``"train"`` and ``"test"``.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import Dataset
    >>> pets = Dataset("pets", np.array([[0.5, 1.0], [2.0, 0.0]]), np.array([1, 0]), ("cat", "dog"), "made up")
    >>> pets.X.shape, [pets.class_names[c] for c in pets.y], pets.pictures
    ((2, 2), ['dog', 'cat'], False)
    """

    name: str
    X: AnyArray
    y: IntArray
    class_names: tuple[str, ...]
    source: str
    part: AnyArray | None = None

    def __post_init__(self) -> None:
        for field in ("name", "source"):
            if not isinstance(getattr(self, field), str):
                raise ValueError(f"{field} must be a str, not {type(getattr(self, field)).__name__}.")
        X = _check_samples(self.X)
        names = _check_class_names(self.class_names)
        # The only place where the frozen dataclass is written to: values are converted.
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "class_names", names)
        object.__setattr__(self, "y", _check_class_numbers(self.y, len(X), names))
        if self.part is not None:
            object.__setattr__(self, "part", _check_parts(self.part, len(X)))

    @property
    def pictures(self) -> bool:
        """Whether the samples are paths of pictures rather than rows of numbers."""
        return self.X.ndim == 1

    def fingerprint(self) -> str:
        """Return the SHA-256 over ``X``, ``y``, ``class_names`` and ``part``, as 64 hexadecimal digits.

        It is the same on every machine and for every memory layout: numbers are hashed in C order and little-endian,
        with their type and shape, so that the same values as float32 and as float64 are different data. For pictures,
        their names, relative to the folder that holds them all, and their file sizes are hashed; the pictures are not
        read. ``name`` and ``source`` are not part of it.

        Raises
        ------
        DatasetError
            If a picture does not exist any more.
        """
        digest = hashlib.sha256(b"srosr dataset 1")

        def add(kind: str, content: bytes | memoryview) -> None:
            # Every piece is hashed with its kind and length, so that different data sets give different bytes.
            digest.update(f"\n{kind} {len(content)}\n".encode())
            digest.update(content)

        if self.pictures:
            for name, size in _iterate_pictures(self.X):
                add(f"picture {size}", name.encode("utf-8", "surrogateescape"))
        else:
            rows = np.ascontiguousarray(self.X, dtype=self.X.dtype.newbyteorder("<"))
            add(f"X {rows.dtype.str} {rows.shape}", rows.reshape(-1).view(np.uint8).data)
        add("y", np.ascontiguousarray(self.y, dtype="<i8").tobytes())
        for name in self.class_names:
            add("class", name.encode("utf-8", "surrogateescape"))
        for name in () if self.part is None else self.part.tolist():
            add("part", name.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def __repr__(self) -> str:
        what = f"{len(self.X)} pictures" if self.pictures else f"{self.X.shape[0]} × {self.X.shape[1]} {self.X.dtype}"
        parts = "" if self.part is None else f", parts {', '.join(dict.fromkeys(self.part.tolist()))}"
        return f"<Dataset {self.name}: {what}, {len(self.class_names)} classes{parts}>"


def _check_samples(X: AnyArray) -> AnyArray:
    """Check rows of finite numbers or an array of paths."""
    X = np.asarray(X)
    if X.ndim == 1 and X.dtype.kind in "OTU":
        X = _convert_to_text(X, "X", "paths of pictures")
        if not all(X.tolist()):
            raise ValueError("X contains an empty path.")
    elif X.ndim != 2:
        raise ValueError(f"X must have rows of numbers or be a list of paths; its shape is {X.shape}.")
    elif X.dtype.kind not in _NUMBERS or X.dtype.itemsize > 8:
        raise ValueError(f"X must be numbers of at most 64 bits, not {X.dtype}: pass X.astype(float).")
    elif X.shape[1] == 0:
        raise ValueError("X has no features: its rows are empty.")
    elif X.dtype.kind == "f" and not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(f"X contains {X[row, column]} in row {row}, column {column}: leave such samples out.")
    if len(X) == 0:
        raise ValueError("X has no samples.")
    return X


def _check_class_names(class_names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(class_names, str):
        raise ValueError("class_names must be several names, not one str.")
    given = list(class_names)
    if not all(isinstance(name, str) and name for name in given):
        raise ValueError("class_names must be str, none of them empty.")
    names = tuple(str(name) for name in given)  # np.str_ is a str that prints otherwise
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"class_names contains {twice!r} more than once: give each class its own name.")
    return names


def _check_class_numbers(y: AnyArray, n_samples: int, class_names: tuple[str, ...]) -> IntArray:
    y = np.asarray(y)
    if y.shape != (n_samples,):
        raise ValueError(f"y must have one class number for each of the {n_samples} samples; its shape is {y.shape}.")
    if y.dtype.kind not in "iu":
        raise ValueError(f"y must be whole numbers, indices into class_names, not {y.dtype}.")
    if y.min() < 0 or y.max() >= len(class_names):
        wrong = y[(y < 0) | (y >= len(class_names))][0]
        raise ValueError(
            f"y contains {wrong}, but with {len(class_names)} class_names it must be within 0..{len(class_names) - 1}."
        )
    return y.astype(np.int64)


def _check_parts(part: AnyArray, n_samples: int) -> AnyArray:
    part = np.asarray(part)
    if part.shape != (n_samples,):
        raise ValueError(f"part must have one name for each of the {n_samples} samples; its shape is {part.shape}.")
    return _convert_to_text(part, "part", "names of parts")


def _convert_to_text(values: AnyArray, argument: str, what: str) -> AnyArray:
    if values.dtype.kind == "U":
        return values
    texts = [os.fspath(value) if isinstance(value, os.PathLike) else value for value in values.tolist()]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{argument} must be {what}, all of them str, not {values.dtype}.")
    return np.array(texts, dtype=np.str_)


def _iterate_pictures(paths: AnyArray) -> Iterable[tuple[str, int]]:
    """Yield the names of pictures relative to the folder that holds them all, and their sizes in bytes."""
    full = [Path(os.path.abspath(path)) for path in paths.tolist()]
    folder = os.path.commonpath([path.parent for path in full])
    for path in full:
        try:
            size = path.stat().st_size
        except OSError as error:
            raise DatasetError(
                f"the picture {path} cannot be read ({error.strerror}): load the data set again."
            ) from error
        yield path.relative_to(folder).as_posix(), size

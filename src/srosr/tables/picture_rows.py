"""Pictures as rows: a folder, its sub-folders, or one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array
from ..features import is_picture, list_pictures
from .read_options import ReadOptions
from .row_source import Block, ReadError, Rows, RowSource

__all__ = ["PictureSource", "labelled_pictures", "open_pictures", "read_all"]

Features = Callable[[Sequence[Path]], Array]
# Pictures read at a time: large ones take memory.
_AT_A_TIME = 32


def labelled_pictures(folder: str | os.PathLike[str]) -> tuple[list[Path], list[str], list[str]]:
    """Paths, classes and names (relative to the folder) of the pictures in a folder's sub-folders, one a class.

    Raises
    ------
    ReadError
        If there are none, or pictures lie beside the sub-folders and would be left out.
    """
    folder = Path(folder)
    beside = []
    if folder.is_dir():
        beside = sorted(entry.name for entry in folder.iterdir() if is_picture(entry.name) and entry.is_file())
    try:
        paths, y, classes = list_pictures(folder)
    except ValueError as error:
        if beside:
            raise ReadError(
                f"{folder} has pictures, but no sub-folder with any: put those of each class into a sub-folder."
            ) from None
        raise ReadError(str(error)) from None
    if beside:
        raise ReadError(
            f"{folder} has pictures beside its sub-folders ({beside[0]}): move them into the sub-folder of their class."
        )
    return paths, [classes[k] for k in y], [_name(path, folder) for path in paths]


def read_all(
    paths: Sequence[Path],
    look: Callable[[Array], Any],
    skip_broken: bool,
    on_progress: Callable[[int, float | None], None] | None = None,
) -> tuple[list[tuple[int, int]], list[Any], list[int]]:
    """Read every picture once: the shapes, what ``look`` makes of the grey values, and the places of those not broken.

    Raises
    ------
    ReadError
        If a picture cannot be read and ``skip_broken`` is not set.
    """
    shapes, seen, kept = [], [], []
    for place, path in enumerate(paths):
        try:
            grey = _read(path)
        except ReadError:
            if not skip_broken:
                raise
        else:
            shapes.append((int(grey.shape[0]), int(grey.shape[1])))
            seen.append(look(grey))
            kept.append(place)
        if on_progress is not None:
            on_progress(place + 1, (place + 1) / len(paths))
    return shapes, seen, kept


def open_pictures(
    path: str | os.PathLike[str],
    features: Features,
    n_features: int,
    options: ReadOptions,
) -> PictureSource:
    """Pictures as rows of features.

    Parameters
    ----------
    path : path
        A folder of pictures, with or without sub-folders of them; or one picture.
    features : callable
        From paths to features (n, n_features); a ValueError says that one cannot be read.
    n_features : int
    options : ReadOptions
        ``labels`` and ``skip_broken`` count; classes are the names of the sub-folders.

    Raises
    ------
    ReadError
        If there is no picture, or classes are required and a picture lies in no sub-folder.
    """
    return PictureSource(path, features, n_features, options)


class PictureSource(RowSource):
    """The pictures of a folder, see :func:`open_pictures`; the name of each is kept as the column ``file``."""

    def __init__(self, path: str | os.PathLike[str], features: Features, n_features: int, options: ReadOptions) -> None:
        self.paths = _found(Path(path))
        folder = Path(path) if os.path.isdir(path) else Path(path).parent
        self.names = [_name(picture, folder) for picture in self.paths]
        self._features, self._done = features, 0
        given: AnyArray | None = None
        inside = [picture.parent != folder for picture in self.paths]
        if options.labels == "required" and not all(inside):
            stray = self.names[inside.index(False)]
            raise ReadError(f"{os.fspath(path)}: {stray} lies in no sub-folder, and sub-folders name the classes.")
        if options.labels != "no" and all(inside):
            given = np.array([picture.parent.name for picture in self.paths], dtype=object)
        super().__init__(
            os.fspath(path),
            feature_names=None,
            n_features=n_features,
            label=None if given is None else "folder",
            label_title="folder",
            n_rows=len(self.paths),
            notes=[],
            drop_missing=options.skip_broken,
            given_labels=given,
        )

    @property
    def fraction(self) -> float:
        """The share of the pictures that has been read."""
        return self._done / len(self.paths)

    def only(self, row: int) -> PictureSource:
        """Return a source of one of the pictures alone."""
        return PictureSource(self.paths[row], self._features, self.n_features, ReadOptions(labels="no"))

    def batches(self, size: int) -> Iterator[Rows]:
        """The pictures in batches of at most 32."""
        return super().batches(min(size, _AT_A_TIME))

    def _blocks(self) -> Iterator[Block]:
        self._done = 0
        for start in range(0, len(self.paths), _AT_A_TIME):
            places = range(start, min(start + _AT_A_TIME, len(self.paths)))
            names = [self.names[i] for i in places]
            X = self._features_of(places)
            self._done = places.stop
            yield Block(X, None, {"file": names}, lambda row, names=names: names[row])  # type: ignore[misc]
        if self.dropped == len(self.paths):
            raise ReadError(f"{self.name} has no picture that can be read.")

    def _features_of(self, places: range) -> Array:
        """Features; not a number where a picture cannot be read and such pictures are left out."""
        whole = list(places)
        try:
            return self._features([self.paths[i] for i in whole])
        except (ValueError, OSError) as error:
            for i in places:
                if not _is_readable(self.paths[i]):
                    if not self._drop_missing:
                        _read(self.paths[i])  # says what is wrong
                    whole.remove(i)
            if len(whole) == len(places):
                raise ReadError(f"{self.name}: {str(error).rstrip('.')}.") from None
        X = np.full((len(places), self.n_features), np.nan)
        if whole:
            X[np.array(whole) - places.start] = self._features([self.paths[i] for i in whole])
        return X


def _found(path: Path) -> list[Path]:
    """The pictures that a path stands for."""
    if not path.exists():
        raise ReadError(f"{path} does not exist: give a folder of pictures, or one picture.")
    if not path.is_dir():
        if not path.is_file():
            raise ReadError(f"{path} is not a regular file: give a folder of pictures, or one picture.")
        return [path]
    try:
        inside = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        paths = [entry for entry in inside if is_picture(entry.name) and entry.is_file()]
        for folder in (entry for entry in inside if entry.is_dir()):
            paths += sorted(entry for entry in folder.iterdir() if is_picture(entry.name) and entry.is_file())
    except OSError as error:
        raise ReadError(f"{error.filename or path} cannot be read: {error.strerror}.") from None
    if not paths:
        raise ReadError(f"{path} has no pictures, neither in itself nor in its sub-folders.")
    return paths


def _read(path: Path) -> Array:
    from ..features import read_picture

    try:
        return read_picture(path, None)
    except ValueError as error:
        text = str(error).rstrip(".")
        raise ReadError(f"{text}; replace or remove it, or leave such pictures out with --skip-broken.") from None
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {error.strerror or error}.") from None


def _is_readable(path: Path) -> bool:
    try:
        _read(path)
    except ReadError:
        return False
    return True


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()

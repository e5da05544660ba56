"""Pictures as rows of features: of a folder, of its subfolders, or one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._support.array_types import Array
from ..features.gray_values import read_picture
from ..features.picture_folder import is_picture, list_pictures
from .read_options import ReadOptions
from .row_source import Block, GivenLabels, ReadError, Rows, RowSource

Features = Callable[[Sequence[Path]], Array]
# Pictures read at a time: large ones take much memory.
_AT_A_TIME = 32


def list_labeled_pictures(folder: str | os.PathLike[str]) -> tuple[list[Path], list[str], list[str]]:
    """Return paths, classes and names (relative to the folder) of the pictures in a folder's subfolders, one a class.

    Pictures beside the subfolders, which would be left out, are an error.
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
                f"{folder} has pictures, but no subfolder with any: put those of each class into a subfolder."
            ) from None
        raise ReadError(str(error)) from None
    if beside:
        raise ReadError(
            f"{folder} has pictures beside its subfolders ({beside[0]}): move them into the subfolder of their class."
        )
    return paths, [classes[k] for k in y], [_name_picture(path, folder) for path in paths]


def read_pictures(
    paths: Sequence[Path],
    look: Callable[[Array], Any],
    skip_broken: bool,
    on_progress: Callable[[int, float | None], None] | None = None,
) -> tuple[list[tuple[int, int]], list[Any], list[int]]:
    """Read every picture once; return shapes, what ``look`` makes of the gray values, and the places of those read."""
    shapes, seen, kept = [], [], []
    for place, path in enumerate(paths):
        try:
            gray = _read(path)
        except ReadError:
            if not skip_broken:
                raise
        else:
            shapes.append((int(gray.shape[0]), int(gray.shape[1])))
            seen.append(look(gray))
            kept.append(place)
        if on_progress is not None:
            on_progress(place + 1, (place + 1) / len(paths))
    return shapes, seen, kept


def holds_pictures(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder or one of its subfolders has a picture."""
    try:
        inside = [entry for entry in Path(folder).iterdir() if not entry.name.startswith(".")]
        if any(is_picture(entry.name) and entry.is_file() for entry in inside):
            return True
        return any(is_picture(entry.name) for below in inside if below.is_dir() for entry in below.iterdir())
    except OSError as error:
        raise ReadError(f"{error.filename or folder} cannot be read: {error.strerror}.") from None


class PictureSource(RowSource):
    """The pictures of a folder and its subfolders, or one picture; their names are kept as the column ``file``.

    ``features`` takes paths and returns their features, or raises a ValueError. Of the options ``labels`` and
    ``skip_broken`` count; classes are the names of the subfolders.
    """

    def __init__(self, path: str | os.PathLike[str], features: Features, n_features: int, options: ReadOptions) -> None:
        self.paths = _find_pictures(Path(path))
        folder = Path(path) if os.path.isdir(path) else Path(path).parent
        self.names = [_name_picture(picture, folder) for picture in self.paths]
        self._features, self._done = features, 0
        given = None
        inside = [picture.parent != folder for picture in self.paths]
        if options.labels == "required" and not all(inside):
            stray = self.names[inside.index(False)]
            raise ReadError(
                f"{os.fspath(path)}: {stray} is in no subfolder, and subfolders name the classes; move each picture "
                "into a subfolder named after its class."
            )
        if options.labels != "no" and all(inside):
            classes = np.array([picture.parent.name for picture in self.paths], dtype=object)
            given = GivenLabels("folder", classes, "folder")
        super().__init__(
            os.fspath(path), n_features, drop_missing=options.skip_broken, n_rows=len(self.paths), given=given
        )

    @property
    def fraction(self) -> float:
        """Share of the pictures read so far."""
        return self._done / len(self.paths)

    @property
    def may_read_ahead(self) -> bool:
        """False: last bits of features can depend on the number of BLAS threads, which is one while others decide."""
        return False

    def select(self, row: int) -> PictureSource:
        """Return a source of one of the pictures alone."""
        return PictureSource(self.paths[row], self._features, self.n_features, ReadOptions(labels="no"))

    def batches(self, size: int) -> Iterator[Rows]:
        """Yield the pictures in batches of at most 32."""
        return super().batches(min(size, _AT_A_TIME))

    def _blocks(self) -> Iterator[Block]:
        self._done = 0
        for start in range(0, len(self.paths), _AT_A_TIME):
            places = range(start, min(start + _AT_A_TIME, len(self.paths)))
            names = [self.names[i] for i in places]
            X = self._compute_features(places)
            self._done = places.stop
            yield Block(X, None, {"file": names}, lambda row, names=names: names[row])  # type: ignore[misc]
        if self.dropped == len(self.paths):
            raise ReadError(f"{self.name} has no picture that can be read.")

    def _compute_features(self, places: range) -> Array:
        """Return features, NaN for pictures that cannot be read if such pictures are left out."""
        whole = list(places)
        try:
            return self._features([self.paths[i] for i in whole])
        except (ValueError, OSError) as error:
            for i in places:
                try:
                    _read(self.paths[i])
                except ReadError:
                    if not self._drop_missing:
                        raise
                    whole.remove(i)
            if len(whole) == len(places):
                raise ReadError(f"{self.name}: {str(error).rstrip('.')}.") from None
        X = np.full((len(places), self.n_features), np.nan)
        if whole:
            X[np.array(whole) - places.start] = self._features([self.paths[i] for i in whole])
        return X


def _find_pictures(path: Path) -> list[Path]:
    """Return the pictures of a folder and its subfolders, or the one picture of a path."""
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
        raise ReadError(f"{path} has no pictures, neither in itself nor in its subfolders.")
    return paths


def _read(path: Path) -> Array:
    try:
        return read_picture(path, None)
    except ValueError as error:
        text = str(error).rstrip(".")
        raise ReadError(f"{text}; replace or remove it, or leave such pictures out with --skip-broken.") from None
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {error.strerror or error}.") from None


def _name_picture(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()

"""Folders of pictures: one subfolder a class."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .._support.array_types import IntArray

__all__ = ["PICTURE_ENDINGS", "is_picture", "list_pictures"]

#: Endings of the files that are taken for pictures, in small letters.
PICTURE_ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp"})


def is_picture(name: str) -> bool:
    """Whether a file's name, without its folder, is that of a picture; hidden files are none.

    Examples
    --------
    >>> from srosr.features.picture_folder import is_picture
    >>> is_picture("image_0001.JPG"), is_picture("RENAME2"), is_picture("._image_0001.jpg")
    (True, False, False)
    """
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in PICTURE_ENDINGS


def list_pictures(folder: str | os.PathLike[str]) -> tuple[list[Path], IntArray, tuple[str, ...]]:
    """The pictures in a folder's subfolders, each subfolder being a class.

    Hidden files and folders, files without a picture's ending, folders inside a class and classes without any picture
    are passed over. Pictures are not opened.

    Parameters
    ----------
    folder : path

    Returns
    -------
    paths : list of Path
        Class by class, sorted by name.
    y : ndarray (n_pictures,)
        Class of each picture as a place in ``class_names``.
    class_names : tuple of str
        Names of the subfolders, sorted.

    Raises
    ------
    ValueError
        If there is no such folder, it cannot be read, or there is no picture.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ValueError(f"{folder} {what}: give a folder with one subfolder of pictures for each class.")
    paths: list[Path] = []
    counts: list[int] = []
    names: list[str] = []
    try:
        for sub in sorted(entry.name for entry in folder.iterdir() if entry.is_dir()):
            if sub.startswith("."):
                continue
            inside = sorted(entry.name for entry in (folder / sub).iterdir() if is_picture(entry.name))
            found = [folder / sub / name for name in inside if (folder / sub / name).is_file()]
            if found:
                paths += found
                counts.append(len(found))
                names.append(sub)
    except OSError as error:
        raise ValueError(f"{error.filename or folder} cannot be read: {error.strerror}.") from error
    if not paths:
        raise ValueError(
            f"{folder} has no pictures: it must have one subfolder for each class, with pictures "
            f"({', '.join(sorted(PICTURE_ENDINGS))}) in it."
        )
    return paths, np.repeat(np.arange(len(names), dtype=np.int64), counts), tuple(names)

"""Folders of pictures with one subfolder for each class."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .._support.array_types import IntArray

#: Suffixes of the files that are taken for pictures, in lower case.
PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp"})


def is_picture(name: str) -> bool:
    """Return whether a file name, without its folder, is that of a picture; hidden files are not.

    Examples
    --------
    >>> from srosr.features.picture_folder import is_picture
    >>> is_picture("image_0001.JPG"), is_picture("RENAME2"), is_picture("._image_0001.jpg")
    (True, False, False)
    """
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in PICTURE_SUFFIXES


def list_pictures(folder: str | os.PathLike[str]) -> tuple[list[Path], IntArray, tuple[str, ...]]:
    """List the pictures in a folder's subfolders, each of which is a class.

    Hidden files and folders, files without the suffix of a picture, folders inside a class and classes without pictures
    are skipped. Pictures are not opened.

    Parameters
    ----------
    folder : path

    Returns
    -------
    paths : list of Path
        Class by class, sorted by name.
    y : ndarray (n_pictures,)
        Class of each picture, as an index into ``class_names``.
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
            f"({', '.join(sorted(PICTURE_SUFFIXES))}) in it."
        )
    return paths, np.repeat(np.arange(len(names), dtype=np.int64), counts), tuple(names)

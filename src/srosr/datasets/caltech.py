"""Caltech-101 and Caltech-256: archives of pictures of objects, and precomputed features of them."""

from __future__ import annotations

import contextlib
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Literal

import numpy as np

from .._support.array_types import AnyArray
from .._support.atomic_files import make_folder, open_folder_atomically
from ..features.picture_folder import is_picture, list_pictures
from ..tables.arrays import read_npz
from .dataset import Dataset
from .fetch import DataFile, cache_folder, find_folder, find_or_fetch, raise_as_dataset_error

COUNTS_FILE = DataFile(
    "caltech101",
    {"caltech101_dsift_spm_counts.npz": None},
    hint="Or load the pictures, load_caltech101(pictures=True), and compute their features with srosr.features.",
)
CLIP_FILE = DataFile(
    "caltech256",
    {"caltech256_clip_vitb32_valtest.npz": None},
    hint="Or load the pictures, load_caltech256(), and compute their features with srosr.features.",
)
# The SHA-256 is the one TensorFlow Datasets publishes (datasets/caltech101/checksums.tsv).
PICTURES_101 = DataFile(
    "caltech101",
    {"caltech-101.zip": "sha256:331234750fc7f77520e50d9565e8b6907b03565e30320da1401130db08c61f91"},
    ("https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip?download=1",),
    hint="Or unpack it there yourself: the folder 101_ObjectCategories is enough.",
)
# The MD5 is the one torchvision publishes (torchvision/datasets/caltech.py).
PICTURES_256 = DataFile(
    "caltech256",
    {"256_ObjectCategories.tar": "md5:67b4f42ca05d46448c6bb8ecd2220f6d"},
    ("https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar?download=1",),
    hint="Or unpack it there yourself: the folder 256_ObjectCategories is enough.",
)

_CELLS, _WORDS = 16, 200
_CHUNK = 1024


def load_caltech101(*, pictures: bool = False, download: bool = True) -> Dataset:
    """Load Caltech-101: 9144 pictures of 101 kinds of objects and of "background".

    Parameters
    ----------
    pictures : bool, default False
        Whether to return paths of pictures rather than features of them. They come from an unpacked folder
        ``101_ObjectCategories`` or ``caltech101_images``, or from the official archive, which is unpacked into the
        cache.
    download : bool, default True
        Whether the archive (137 MB) may be downloaded if the pictures are not found. The features cannot be downloaded.

    Returns
    -------
    Dataset
        Features: ``X`` (9144, 4200) float32, spatial pyramids of a vocabulary of 200 words of dense SIFT, computed from
        precomputed word counts of the 4×4 cells (see :func:`srosr.pyramid_of_counts`). Pictures: ``X`` has
        their paths, in as many classes as the folder has. The class ``BACKGROUND_Google`` is one of the 102.

    References
    ----------
    L. Fei-Fei, R. Fergus, P. Perona, "One-shot learning of object categories", IEEE TPAMI 28, 2006.
    """
    if pictures:
        tops = ("101_ObjectCategories", "caltech-101/101_ObjectCategories", "caltech101_images")
        return _load_pictures("caltech101-pictures", "Caltech-101", PICTURES_101, tops, download)
    return find_or_fetch("caltech101", COUNTS_FILE, _read_counts, download=download)


def load_caltech256(*, features: Literal["clip"] | None = None, download: bool = True) -> Dataset:
    """Load Caltech-256: 30,607 pictures of 256 kinds of objects and of "clutter".

    Parameters
    ----------
    features : {"clip", None}, default None
        None for paths of pictures, from an unpacked folder ``256_ObjectCategories`` or from the official archive, which
        is unpacked into the cache. ``"clip"`` for precomputed CLIP ViT-B/32 embeddings of a quarter of the pictures,
        not scaled to unit length.
    download : bool, default True
        Whether the archive (1.2 GB) may be downloaded if the pictures are not found. The embeddings cannot be
        downloaded.

    Returns
    -------
    Dataset
        Pictures: ``X`` has their paths. ``"clip"``: ``X`` (7556, 512) float32, ``part`` ``"validation"`` or ``"test"``.
        The class ``257.clutter`` is one of the 257.

    References
    ----------
    G. Griffin, A. Holub, P. Perona, "Caltech-256 object category dataset", report 7694, Caltech, 2007.
    A. Radford et al., "Learning transferable visual models from natural language supervision", ICML 2021.
    """
    if features == "clip":
        return find_or_fetch("caltech256-clip", CLIP_FILE, _read_clip, download=download)
    if features is not None:
        raise ValueError(f'features must be "clip" or None, got {features!r}.')
    tops = ("256_ObjectCategories", "caltech256_images")
    return _load_pictures("caltech256", "Caltech-256", PICTURES_256, tops, download)


def _read_counts(path: Path) -> Dataset:
    found = read_npz(path, "counts", "y", "class_names")
    counts = found["counts"]
    if counts.ndim != 3 or counts.shape[1:] != (_CELLS, _WORDS) or counts.dtype.kind not in "iu" or counts.min() < 0:
        raise ValueError(f"its counts are {counts.dtype} of shape {counts.shape}, not whole numbers of (n, 16, 200)")
    source = "Caltech-101, spatial pyramids (1×1, 2×2, 4×4) of 200 words of dense SIFT, made from ready word counts"
    return Dataset("caltech101", _compute_pyramids(counts), found["y"], tuple(found["class_names"].tolist()), source)


def _compute_pyramids(counts: AnyArray) -> AnyArray:
    """Compute spatial pyramids from counts, a block at a time: all of them as float64 would be large."""
    from ..features.spatial_pyramid import pyramid_of_counts

    blocks = [pyramid_of_counts(counts[i : i + _CHUNK]).astype(np.float32) for i in range(0, len(counts), _CHUNK)]
    return np.concatenate(blocks)


def _read_clip(path: Path) -> Dataset:
    found = read_npz(path, "X", "y", "class_names", "split")
    names = tuple(found["class_names"].tolist())
    source = "Caltech-256, CLIP ViT-B/32 embeddings of a quarter of the pictures, not scaled to unit length"
    return Dataset("caltech256-clip", found["X"].astype(np.float32), found["y"], names, source, found["split"])


def _load_pictures(name: str, title: str, archive: DataFile, tops: tuple[str, ...], download: bool) -> Dataset:
    """Load the pictures of an unpacked folder or, if there is none, of the archive."""
    folder = find_folder(archive.folder, *tops)
    if folder is None:
        folder = cache_folder() / archive.folder / tops[0]
        find_or_fetch(name, archive, lambda path: unpack_pictures(path, tops[0], folder), download=download)
        with contextlib.suppress(OSError):  # the archive is not needed any more
            (cache_folder() / archive.folder / archive.name).unlink()
    with raise_as_dataset_error(name, folder, archive.advise()):
        paths, y, class_names = list_pictures(folder)
        return Dataset(name, np.array([str(path) for path in paths]), y, class_names, f"{title}, paths of the pictures")


def unpack_pictures(archive: Path, top: str, target: Path) -> None:
    """Unpack the pictures ``…/top/class/name`` of an archive to ``target/class/name``.

    The archive is a tar file, compressed or not, or a zip file that contains the pictures or ``top.tar.gz``. The path
    of a picture is composed of two plain names, so that no entry can leave the folder; links, devices, hidden files,
    folders inside classes and everything else that is not a picture are skipped. ``target`` appears when all pictures
    are unpacked; after an error nothing is left.

    Raises
    ------
    ValueError
        If the archive is damaged or has no such pictures.
    """
    make_folder(target.parent)
    with open_folder_atomically(target) as work:
        n_pictures = 0
        for group, name, content in _iterate_pictures(archive, top):
            (work / group).mkdir(exist_ok=True)
            with open(work / group / name, "wb") as picture:
                shutil.copyfileobj(content, picture)
            n_pictures += 1
        if not n_pictures:
            raise ValueError(f"it has no pictures {top}/class/picture in it")


def _iterate_pictures(archive: Path, top: str) -> Iterator[tuple[str, str, IO[bytes]]]:
    """Yield class, name and content of each picture in an archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                place = _split_path(info.filename, top)
                if place and not info.is_dir() and not stat.S_ISLNK(info.external_attr >> 16):
                    with zipped.open(info) as content:
                        yield *place, content
                elif PurePosixPath(info.filename).name == f"{top}.tar.gz":
                    with zipped.open(info) as inner, tarfile.open(fileobj=inner, mode="r|gz") as tar:
                        yield from _iterate_tar(tar, top)
    else:
        with tarfile.open(archive) as tar:
            yield from _iterate_tar(tar, top)


def _iterate_tar(tar: tarfile.TarFile, top: str) -> Iterator[tuple[str, str, IO[bytes]]]:
    for member in tar:
        place = _split_path(member.name, top)
        content = tar.extractfile(member) if place and member.isreg() else None
        if place and content is not None:
            yield *place, content


def _split_path(name: str, top: str) -> tuple[str, str] | None:
    """Return class and name of the picture at a path inside an archive, None if it is not a picture."""
    path = PurePosixPath(name)
    if len(path.parts) < 3 or path.parts[-3] != top or path.is_absolute() or ".." in path.parts:
        return None
    group, file = path.parts[-2:]
    if group.startswith(".") or not is_picture(file) or set("\\:\0") & set(group + file):
        return None
    return group, file

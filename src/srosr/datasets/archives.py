"""Extract the pictures of an archive, and nothing else."""

from __future__ import annotations

import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from .._support.atomic_files import make_folder, open_folder_atomically
from ..features.picture_folder import is_picture


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

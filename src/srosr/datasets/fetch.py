"""Find the files of data sets: in the user's folder, in the cache, or on the network."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from .dataset import Dataset, DatasetError, DatasetNotFound
from .download import download as download_file
from .download import has_checksum

T = TypeVar("T")

#: Error numbers that say nothing about the content of a file.
_MACHINE_ERRORS = {
    getattr(errno, name)
    for name in "EACCES EDQUOT EFBIG EIO EMFILE ENFILE ENOMEM ENOSPC EPERM EROFS".split()  # noqa: SIM905
    if hasattr(errno, name)  # not every system has all
}


@dataclass(frozen=True)
class DataFile:
    """A file of a data set: its names, where it comes from and how it is checked.

    Attributes
    ----------
    folder : str
        Subfolder of the set in the user's folder and in the cache.
    names : mapping from str to str or None
        Accepted names, the best first, each with the checksum (``"md5:…"``, ``"sha256:…"``) that a file of that name
        must have, if one is known. The first is the name of the download.
    urls : tuple of str
        Where it can be downloaded, tried in turn; can be empty.
    hint : str
        What else to do if the file is missing.
    """

    folder: str
    names: Mapping[str, str | None]
    urls: tuple[str, ...] = ()
    hint: str = ""

    @property
    def name(self) -> str:
        """Name of the downloaded file."""
        return next(iter(self.names))

    def advice(self) -> str:
        """Return what the user can do, in one or two sentences."""
        checksum = self.names[self.name]
        origin = f" from {' or '.join(self.urls)}" if self.urls else ""
        proof = f" ({checksum})" if checksum else ""
        put = f"Put {self.name}{proof}{origin} into the folder that SROSR_DATA_DIR names, as {self.folder}/{self.name}."
        return f"{put} {self.hint}".strip()


def data_folder() -> Path | None:
    """Return the user's own folder of data sets, ``SROSR_DATA_DIR``, or None."""
    named = os.environ.get("SROSR_DATA_DIR")
    if not named:
        return None
    folder = Path(named).expanduser().absolute()  # paths of pictures are passed to other processes
    if not folder.is_dir():
        raise DatasetError(f"SROSR_DATA_DIR names {named}, which is not a folder: correct it or unset it.")
    return folder


def cache_folder() -> Path:
    """Return the folder of downloads: ``SROSR_CACHE_DIR`` or, by default, a folder in the user's cache."""
    named = os.environ.get("SROSR_CACHE_DIR")
    if named:
        return Path(named).expanduser().absolute()
    import pooch

    return Path(pooch.os_cache("srosr")).expanduser()


def find_file(file: DataFile) -> Path | None:
    """Return the file in the user's own folder, in the set's subfolder or at the top, or None."""
    root = data_folder()
    if root is None:
        return None
    places = (place / name for name in file.names for place in (root / file.folder, root))
    return next((path for path in places if path.is_file()), None)


def find_folder(folder: str, *names: str) -> Path | None:
    """Return the first of ``names`` that is a folder in the user's own folder or in the cache, or None."""
    root = data_folder()
    places = [] if root is None else [place / name for name in names for place in (root / folder, root)]
    places += [cache_folder() / folder / name for name in names]
    return next((path for path in places if path.is_dir()), None)


@contextlib.contextmanager
def raise_as_dataset_error(dataset: str, path: Path, advice: str = "") -> Iterator[None]:
    """Turn any error while a file is read into a `DatasetError` that names the set and the file."""
    try:
        with np.errstate(invalid="raise", over="raise"):  # numbers must fit their type
            yield
    except Exception as error:  # libraries raise nearly anything on a damaged file
        reason = str(error) if isinstance(error, (DatasetError, ValueError)) else f"{type(error).__name__}: {error}"
        raise DatasetError(f"{dataset}: {path} cannot be used: {reason.rstrip('.')}. {advice}".rstrip()) from error


def check_fingerprint(data: Dataset, fingerprint: str) -> Dataset:
    """Return ``data`` if its fingerprint is that of the published data; raise otherwise."""
    found = data.fingerprint()
    if found != fingerprint:
        raise DatasetError(f"it does not hold the published data (fingerprint {found}, not {fingerprint})")
    return data


def find_or_fetch(dataset: str, file: DataFile, read: Callable[[Path], T], *, download: bool = True) -> T:
    """Find a file, or download it, and read it.

    The file is searched under each of its names in the folder ``SROSR_DATA_DIR``, in the set's subfolder and at the
    top; then in the cache; then it is downloaded into the cache. A file with a wrong checksum, or one that cannot be
    read, is an error in the user's folder, where nothing is ever written; in the cache it is removed and downloaded
    again. `DatasetNotFound` is raised if there is no file and no download, `DatasetError` if the file is damaged; both
    name the set and the file and say what happened and what to do.
    """
    own = find_file(file)
    if own is not None:
        return _read_checked(dataset, file, own, read)
    cache = cache_folder() / file.folder
    removed = ""
    for name in file.names:
        cached = cache / name
        if not cached.is_file():
            continue
        try:
            return _read_checked(dataset, file, cached, read)
        except DatasetError as error:
            if not _is_damage(error):
                raise
            removed = f" A damaged copy was removed from the cache ({error.__cause__ or error})."
            with contextlib.suppress(OSError):
                cached.unlink()
    if not download or not file.urls:
        home = "it cannot be downloaded" if not file.urls else "download=False"
        kind = DatasetError if removed else DatasetNotFound
        raise kind(f"{dataset}: {_describe_search(file, cache)}, and {home}.{removed}\n{file.advice()}")
    failures, damaged = [], bool(removed)
    for url in file.urls:
        target = cache / file.name
        try:
            download_file(url, target, file.names[file.name])
        except DatasetError as error:
            failures.append(f"{url}: {error}")
            continue
        try:
            return _read_checked(dataset, file, target, read)
        except DatasetError as error:
            if not _is_damage(error):
                raise
            failures.append(f"{url}: the downloaded file cannot be used ({error.__cause__ or error})")
            damaged = True
            with contextlib.suppress(OSError):
                target.unlink()
    kind = DatasetError if damaged else DatasetNotFound
    reasons = "; ".join(failures)
    raise kind(
        f"{dataset}: {_describe_search(file, cache)}, and the download failed ({reasons}).{removed}\n{file.advice()}"
    )


def _read_checked(dataset: str, file: DataFile, path: Path, read: Callable[[Path], T]) -> T:
    checksum = file.names[path.name]
    with raise_as_dataset_error(dataset, path, file.advice()):
        if checksum is not None:
            with open(path, "rb") as stream:
                if not has_checksum(stream, checksum):
                    raise DatasetError(f"its checksum is not {checksum}")
        return read(path)


def _is_damage(error: DatasetError) -> bool:
    """Return whether the content of a file is the fault, and not memory, disk space or permissions."""
    cause = error.__cause__
    return not (isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno in _MACHINE_ERRORS))


def _describe_search(file: DataFile, cache: Path) -> str:
    names = " or ".join(file.names)
    own = os.environ.get("SROSR_DATA_DIR")
    where = f"SROSR_DATA_DIR ({own})" if own else "SROSR_DATA_DIR (which is not set)"
    return f"{names} is neither in {where} nor in the cache ({cache})"

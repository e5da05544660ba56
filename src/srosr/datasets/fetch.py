"""Find the files of data sets: in the user's folder, in the cache, or on the network."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import TypeVar

import numpy as np

from .._support.atomic_files import make_folder, open_atomically
from .._support.messages import join_names
from .dataset import Dataset, DatasetError, DatasetNotFound

T = TypeVar("T")

#: Seconds to wait for a connection, and for the next bytes.
TIMEOUT = (15.0, 60.0)
_CHUNK = 1 << 18
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

    def advise(self) -> str:
        """Return what the user can do, in one or two sentences."""
        checksum = self.names[self.name]
        origin = f" from {join_names(self.urls, last='or')}" if self.urls else ""
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
    from platformdirs import user_cache_path

    return user_cache_path("srosr")


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
            _remove_damaged(cached, error)
            removed = f" A damaged copy was removed from the cache ({error.__cause__ or error})."
    if not download or not file.urls:
        home = "it cannot be downloaded" if not file.urls else "download=False"
        kind = DatasetError if removed else DatasetNotFound
        raise kind(f"{dataset}: {_describe_search(file, cache)}, and {home}.{removed}\n{file.advise()}")
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
            _remove_damaged(target, error)
            failures.append(f"{url}: the downloaded file cannot be used ({error.__cause__ or error})")
            damaged = True
    kind = DatasetError if damaged else DatasetNotFound
    reasons = "; ".join(failures)
    raise kind(
        f"{dataset}: {_describe_search(file, cache)}, and the download failed ({reasons}).{removed}\n{file.advise()}"
    )


def _read_checked(dataset: str, file: DataFile, path: Path, read: Callable[[Path], T]) -> T:
    checksum = file.names[path.name]
    with raise_as_dataset_error(dataset, path, file.advise()):
        if checksum is not None:
            with open(path, "rb") as stream:
                if not has_checksum(stream, checksum):
                    raise DatasetError(f"its checksum is not {checksum}")
        return read(path)


def _remove_damaged(path: Path, error: DatasetError) -> None:
    """Remove a file from the cache, unless memory, disk space or permissions are the fault and not its content."""
    cause = error.__cause__
    if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno in _MACHINE_ERRORS):
        raise error
    with contextlib.suppress(OSError):
        path.unlink()


def _describe_search(file: DataFile, cache: Path) -> str:
    names = " or ".join(file.names)
    own = os.environ.get("SROSR_DATA_DIR")
    where = f"SROSR_DATA_DIR ({own})" if own else "SROSR_DATA_DIR (which is not set)"
    return f"{names} is neither in {where} nor in the cache ({cache})"


def has_checksum(file: BufferedRandom | BufferedReader, checksum: str) -> bool:
    """Return whether an open file has a checksum, written as ``"md5:…"`` or ``"sha256:…"``."""
    kind, _, expected = checksum.partition(":")
    file.seek(0)
    return hashlib.file_digest(file, kind).hexdigest() == expected.lower()


def download_file(url: str, target: Path, checksum: str | None = None) -> None:
    """Download ``url`` to ``target``, which appears when it is complete and has the ``checksum``, if one is given.

    Raises
    ------
    DatasetError
        The message is one clause, which the caller puts into a sentence.
    """
    import requests

    try:
        make_folder(target.parent)
        with open_atomically(target) as file:
            # Nothing is unpacked on the way: checksums are those of the files.
            headers = {"Accept-Encoding": "identity"}
            with requests.get(url, stream=True, timeout=TIMEOUT, headers=headers) as answer:
                answer.raise_for_status()
                length = answer.headers.get("Content-Length", "")
                n_bytes = int(length) if length.isdecimal() else None
                with _show_progress(target.name, n_bytes) as advance:
                    for chunk in answer.iter_content(_CHUNK):
                        file.write(chunk)
                        advance(len(chunk))
                file.flush()
                if n_bytes is not None and file.tell() != n_bytes:  # older versions of urllib3 do not notice
                    raise DatasetError("the connection broke off before the file was complete")
            if checksum is not None and not has_checksum(file, checksum):
                raise DatasetError(f"the downloaded file is not the right one: its checksum is not {checksum}")
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else "unknown"
        raise DatasetError(f"the server answered with HTTP status {status}") from error
    except requests.Timeout as error:
        raise DatasetError("the server did not answer in time") from error
    except requests.exceptions.ChunkedEncodingError as error:
        raise DatasetError("the connection broke off before the file was complete") from error
    except requests.ConnectionError as error:
        if "Read timed out" in str(error):  # silence after the first bytes is not a Timeout to requests
            raise DatasetError("the server stopped sending before the file was complete") from error
        raise DatasetError(
            "the server cannot be reached: is this machine offline, or must a proxy be set in HTTPS_PROXY?"
        ) from error
    except requests.RequestException as error:
        raise DatasetError(f"the download failed ({type(error).__name__}: {error})") from error
    except OSError as error:
        raise DatasetError(f"{target.parent} cannot be written to: {error.strerror or error}") from error


@contextlib.contextmanager
def _show_progress(title: str, n_bytes: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error if that is a terminal; yield a function that takes the bytes of a chunk."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    times = (TransferSpeedColumn(), TimeRemainingColumn())
    progress = Progress(*columns, *times, console=console, disable=not console.is_terminal)
    task = progress.add_task(title, total=n_bytes)
    # rich before 14.3 ends a line even where it draws nothing
    with contextlib.nullcontext() if progress.disable else progress:
        yield lambda n: progress.advance(task, n)

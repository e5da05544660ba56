"""Download one file, complete or not at all."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import Any

from .._support.atomic_files import make_folder, open_atomically
from .dataset import DatasetError

#: Seconds to wait for a connection, and for the next bytes.
TIMEOUT = (15.0, 60.0)
_CHUNK = 1 << 18


def has_checksum(file: BufferedRandom | BufferedReader, checksum: str) -> bool:
    """Return whether an open file has a checksum, written as ``"md5:…"`` or ``"sha256:…"``."""
    kind, _, expected = checksum.partition(":")
    file.seek(0)
    return hashlib.file_digest(file, kind).hexdigest() == expected.lower()


def download(url: str, target: Path, checksum: str | None = None) -> None:
    """Download ``url`` to ``target``, which appears when it is complete and has the ``checksum``, if one is given.

    Raises
    ------
    DatasetError
        The message is one clause, which the caller puts into a sentence.
    """
    import pooch
    import requests

    try:
        make_folder(target.parent)
        with open_atomically(target) as file:
            with _show_progress(target.name) as bar:
                # Nothing is unpacked on the way: checksums are those of the files.
                headers = {"Accept-Encoding": "identity"}
                fetch = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, timeout=TIMEOUT, headers=headers)
                fetch(url, file, None)
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


class _Bar:
    """A progress bar of rich with the interface that pooch expects."""

    def __init__(self, progress: Any, title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=None)
        self._total = 0

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, n_bytes: int) -> None:
        # pooch reports zero if the server does not say how many bytes are to come.
        self._total = n_bytes
        self._progress.update(self._task, total=n_bytes or None)

    def update(self, n_bytes: int) -> None:
        self._progress.advance(self._task, n_bytes)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.refresh()


@contextlib.contextmanager
def _show_progress(title: str) -> Iterator[_Bar]:
    """Show a progress bar on standard error if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    times = (TransferSpeedColumn(), TimeRemainingColumn())
    progress = Progress(*columns, *times, console=console, disable=not console.is_terminal)
    # rich before 14.3 ends a line even where it draws nothing
    with contextlib.nullcontext() if progress.disable else progress:
        yield _Bar(progress, title)

"""Download one file, complete or not at all."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from io import BufferedRandom, BufferedReader
from pathlib import Path

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
    import requests

    try:
        make_folder(target.parent)
        with open_atomically(target) as file:
            # Nothing is unpacked on the way: checksums are those of the files.
            headers = {"Accept-Encoding": "identity"}
            with requests.get(url, stream=True, timeout=TIMEOUT, headers=headers) as answer:
                answer.raise_for_status()
                n_bytes = int(answer.headers.get("Content-Length", 0)) or None
                with _show_progress(target.name, n_bytes) as advance:
                    for chunk in answer.iter_content(_CHUNK):
                        file.write(chunk)
                        advance(len(chunk))
                file.flush()
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

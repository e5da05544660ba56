"""One part of a table: from its file to the file of its decisions, in this process or in a worker of a cluster.

A worker reads the part and writes its decisions itself, so that no row passes through the scheduler and a part that is
written is done, whatever happens to the cluster afterwards. All machines must therefore share a file system, and so the
model is not sent but read from its file, once in each process; its digest shows that it is the model of the command.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .._support.atomic_files import open_atomically
from ..distributed.worker_task import UnfitWorkerError
from ..operations.device_choice import set_threads
from ..operations.input_errors import InputError
from ..operations.model_input import open_for_model
from .decision_output import write_decisions

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier
    from ..tables.read_options import ReadOptions

_SHARED = "All workers need the file system of the command, under the same paths."


@dataclass(frozen=True)
class PartTask:
    """A part, where its decisions go, and the model that makes them, as paths.

    ``origin`` identifies what the decisions depend on and is stored with them, see :func:`make_origin`. ``token`` is a
    file beside the decisions that shows a worker that it sees the same folder as the command.
    """

    part: str
    output: str
    model: str
    digest: str
    options: ReadOptions
    origin: dict[str, Any]
    token: str | None = None


@dataclass(frozen=True)
class PartResult:
    """The numbers of rows, of those rejected and of those left out; or why the part has no decisions, in a sentence."""

    rows: int = 0
    rejected: int = 0
    dropped: int = 0
    error: str | None = None


def make_origin(part: str, digest: str, options: ReadOptions) -> dict[str, Any]:
    """Return what identifies the decisions on a part: the file, the model, the options and the version of srosr."""
    from .. import __version__

    status = os.stat(part)
    asked = {name: getattr(options, name) for name in ("array", "ignore", "keep", "header", "drop_missing", "by_name")}
    return {
        "part": {"name": os.path.basename(part), "bytes": status.st_size, "modified": status.st_mtime_ns},
        "model": digest,
        "options": {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()},
        "srosr": __version__,
    }


def compute_digest(path: str) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def check_unchanged(path: str) -> Iterator[None]:
    """Raise a ModelFileError if a model file is replaced while it is read."""
    from ..exceptions import ModelFileError

    before = os.stat(path)
    yield
    after = os.stat(path)
    if (before.st_ino, before.st_size, before.st_mtime_ns) != (after.st_ino, after.st_size, after.st_mtime_ns):
        raise ModelFileError(f"{path} was changed while it was read: run the command again.")


def predict_part(task: PartTask) -> PartResult:
    """Decide on one part in a worker, on one thread, with the model that this process has loaded before."""
    for path in (os.path.dirname(task.part), os.path.dirname(task.output), task.model, task.token):
        if path is not None and not os.path.exists(path):
            missing = f"the folder {os.path.dirname(task.output)} is another one" if path == task.token else ""
            raise UnfitWorkerError(f"{missing or f'{path} does not exist'} there. {_SHARED}")
    return write_part(_load_once(task.model, task.digest), task)


def write_part(
    clf: OpenSetClassifier, task: PartTask, on_rows: Callable[[int, float | None], None] = lambda n, share: None
) -> PartResult:
    """Write the decisions on a part, completely or not at all; return an error if the part is at fault."""
    from ..tables.row_source import ReadError

    try:
        if not _is_unchanged(task):
            raise ReadError(f"{task.part} was changed since the command began: run it again.")
        source = open_for_model(clf, task.part, task.options)
        with open_atomically(task.output) as stream:
            rows, rejected = write_decisions(clf, source, stream, "parquet", on_rows, task.origin)
    except (ReadError, InputError) as error:
        return PartResult(error=error.message if isinstance(error, InputError) else str(error))
    except OSError as error:  # readers turn theirs into ReadError
        raise UnfitWorkerError(f"{task.output} cannot be written: {error.strerror or error}.") from error
    return PartResult(rows, rejected, source.dropped)


def _is_unchanged(task: PartTask) -> bool:
    """Return whether the part is as the command saw it; one that is gone is left to the reader."""
    try:
        return bool(make_origin(task.part, task.digest, task.options)["part"] == task.origin["part"])
    except OSError:
        return True


@lru_cache(maxsize=1)
def _load_once(path: str, digest: str) -> OpenSetClassifier:
    """Load the model of the command, whose digest is known."""
    from ..exceptions import ModelFileError
    from ..model_files.save_load import load

    try:
        with check_unchanged(path):
            if compute_digest(path) != digest:
                raise UnfitWorkerError(f"{path} is not the model of the command, or was changed since. {_SHARED}")
            clf: OpenSetClassifier = load(path)
    except (OSError, ModelFileError) as error:
        raise UnfitWorkerError(f"the model cannot be loaded: {str(error).rstrip('.')}. {_SHARED}") from None
    set_threads(clf, 1)
    return clf

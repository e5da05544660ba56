"""Models in files become snapshots that requests use; a file that changes is loaded and takes the place of the old."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from .._support.unknown_label import format_label
from ..classifiers.base import OpenSetClassifier
from ..classifiers.srosr_classifier import SROSRClassifier
from ..exceptions import ModelFileError
from ..inspection.model_summary import summarize_model
from ..model_files.save_load import load
from ..operations.device_choice import set_device, set_threads
from ..operations.input_errors import InputError
from ..operations.model_input import check_takes_files, get_imputer, name_features
from .model_changes import compute_version
from .settings import ServerSettings

#: Seconds between looks at the model files.
POLL_INTERVAL = 1.0
#: Share of known samples whose class is in the prediction set, unless a request asks for another.
COVERAGE = 0.95
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_CLASS_CHANGES = ("add-class", "remove-class", "update", "recalibrate")
_CHUNK = 2**20
logger = logging.getLogger("srosr.server")


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model as it was loaded at one time; a request uses one from its start to its end."""

    name: str
    #: The first 16 hexadecimal digits of the SHA-256 of the file.
    version: str
    clf: OpenSetClassifier
    #: The server's own copy of the file, removed when no request uses the snapshot any more.
    path: Path
    #: The user's file.
    source: Path
    loaded_at: datetime
    size: int
    #: What ``srosr info --json`` shows.
    summary: dict[str, Any]
    #: Height and width of samples that are pictures of pixels.
    picture_shape: tuple[int, int] | None
    #: For which samples prediction sets hold; None if the model has none.
    coverage_guarantee: str | None

    @property
    def takes(self) -> str:
        """What samples are: "table" or "pictures"."""
        recipe = self.clf.feature_recipe_
        return "pictures" if recipe is not None and recipe.of_pictures else "table"

    @property
    def imputes(self) -> bool:
        """Whether missing values are filled in."""
        return get_imputer(self.clf) is not None

    @property
    def classes(self) -> list[str]:
        """The classes as text."""
        return [format_label(label) for label in self.clf.classes_.tolist()]

    @property
    def changes(self) -> list[str]:
        """The changes that the model can undergo, by their names in addresses."""
        return ["set-threshold", *(_CLASS_CHANGES if isinstance(self.clf, SROSRClassifier) else ())]


@dataclass
class _Watched:
    """A model file and what is served from it."""

    name: str
    source: Path
    current: ServedModel | None = None
    #: The state of the file that was loaded or reported last, and that of one that could not be loaded once.
    seen: tuple[int, ...] | None = None
    doubted: tuple[int, ...] | None = None
    problem: str | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def name_models(arguments: Iterable[str]) -> dict[str, Path]:
    """Return the paths of models by their names: ``NAME=PATH``, or a path whose stem is the name.

    Examples
    --------
    >>> [(name, path.as_posix()) for name, path in name_models(["a/digits.srosr", "faces=b/model.srosr"]).items()]
    [('digits', 'a/digits.srosr'), ('faces', 'b/model.srosr')]
    """
    found: dict[str, Path] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        # A path with = in it, but no name before it, is a path.
        if not equals or os.sep in name or os.path.exists(argument):
            name, path = Path(argument).stem, argument
        if _NAME.fullmatch(name) is None:
            raise InputError(
                f"{argument}: the model would be called {name!r}; give it a name of at most 64 letters, digits, dots, "
                "hyphens and underscores, as in NAME=PATH."
            )
        if name in found:
            raise InputError(f"two models are called {name}: give one of them another name, as in NAME=PATH.")
        found[name] = Path(path)
    return found


class ModelStore:
    """The models of a server by name."""

    def __init__(self, sources: dict[str, Path], settings: ServerSettings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._watched = {name: _Watched(name, source) for name, source in sources.items()}
        self._numbers = count()
        #: Called with each new snapshot, in the event loop, and with the name of a model that could not be loaded.
        self.on_swap: list[Callable[[ServedModel], None]] = []
        self.on_failure: list[Callable[[str], None]] = []

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(self._watched)

    def get(self, name: str) -> ServedModel | None:
        """Return the current snapshot of a model, None if there is no such model."""
        watched = self._watched.get(name)
        return None if watched is None else watched.current

    def find_problem(self, name: str) -> str | None:
        """Return why the file of a model cannot be loaded; None if what is served is what is in the file."""
        return self._watched[name].problem

    def load_all(self) -> None:
        """Load all models; an error names the file."""
        for watched in self._watched.values():
            if not watched.source.exists():
                raise InputError(f"{watched.source} does not exist: give a model that srosr fit wrote.")
            if watched.source.is_dir():
                raise InputError(f"{watched.source} is a folder: give a model that srosr fit wrote.")
            signature, model = self._load(watched, str(watched.source))
            watched.current, watched.seen = model, signature

    async def watch(self) -> None:
        """Look at the files each second, forever."""
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            for name in self._watched:
                try:
                    await self.refresh(name)
                except Exception:  # a defect in one look must not end all of them
                    logger.exception("looking at the file of %s failed", name)

    async def refresh(self, name: str, *, certain: bool = False) -> ServedModel | None:
        """Load a file that has changed and serve it; return the snapshot that is served then.

        A file that cannot be loaded is a problem if it is still the same at the next look, or if ``certain`` (the
        change is known to be complete).
        """
        watched = self._watched[name]
        async with watched.lock:
            signature = await asyncio.to_thread(_read_signature, watched.source)
            if signature == watched.seen and not certain:
                return watched.current
            try:
                signature, model = await asyncio.to_thread(self._load, watched, f"The file of {name}")
            except InputError as error:
                self._doubt(watched, signature, error.message, certain)
                return watched.current
            except Exception:  # a defect here, or too little memory: what is served goes on
                logger.exception("loading the file of %s failed", name)
                message = f"The file of {name} cannot be loaded; the log of the server says why."
                self._doubt(watched, signature, message, certain)
                return watched.current
            watched.seen, watched.doubted, watched.problem = signature, None, None
            before = watched.current
            if before is not None and before.version == model.version:
                return before
            watched.current = model
            logger.info("%s: version %s is served, loaded anew from its file.", name, model.version)
            for swapped in self.on_swap:
                swapped(model)
            return model

    def _doubt(self, watched: _Watched, signature: tuple[int, ...], message: str, certain: bool) -> None:
        """Take note of a file that cannot be loaded; it is a problem if that is certain or was so before."""
        if certain or signature == watched.doubted:
            watched.seen, watched.problem = signature, message
            logger.warning("%s: %s Version %s is served.", watched.name, message, _version_of(watched.current))
            for failed in self.on_failure:
                failed(watched.name)
        watched.doubted = signature

    def _load(self, watched: _Watched, title: str) -> tuple[tuple[int, ...], ServedModel]:
        """Load the model in a file; return the state of the file with it. ``title`` names the file in messages."""
        path = self._folder / f"{watched.name}-{next(self._numbers)}.srosr"
        try:
            signature, size = _copy_file(watched.source, path)
            clf = load(path)
            check_takes_files(clf, title)
            set_threads(clf, 1)  # several pieces are decided at a time, each in one thread
            set_device(clf, self._settings.device)
            model = ServedModel(
                name=watched.name,
                version=compute_version(path),
                clf=clf,
                path=path,
                source=watched.source,
                loaded_at=datetime.now(UTC),
                size=size,
                summary=summarize_model(clf).to_dict(),
                picture_shape=_find_picture_shape(clf, self._settings.picture_shape),
                coverage_guarantee=_warm_up(clf),
            )
        except BaseException as error:
            with suppress(OSError):
                path.unlink()
            if isinstance(error, ModelFileError):
                raise InputError(str(error).replace(repr(str(path)), title).replace(str(path), title)) from None
            if isinstance(error, OSError):
                raise InputError(f"{title}: {error.strerror or type(error).__name__}.") from None
            raise
        weakref.finalize(model, _remove_file, str(path))
        return signature, model


def _version_of(model: ServedModel | None) -> str:
    return "none" if model is None else model.version


def _read_signature(path: Path) -> tuple[int, ...]:
    """Return by what a change of a file is seen; empty if it is not there."""
    try:
        return _list_signs(os.stat(path))
    except OSError:
        return ()


def _list_signs(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def _copy_file(source: Path, target: Path) -> tuple[tuple[int, ...], int]:
    """Copy a file; return its state while it was read, and the size of the copy."""
    with open(source, "rb") as file:
        found = os.fstat(file.fileno())
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            shutil.copyfileobj(file, copy, _CHUNK)
            size = copy.tell()
    return _list_signs(found), size


def _find_picture_shape(clf: OpenSetClassifier, given: tuple[int, int] | None) -> tuple[int, int] | None:
    recipe = clf.feature_recipe_
    if recipe is not None and recipe.of_pictures:
        return recipe.shape
    fits = given is not None and given[0] * given[1] == clf.n_features_in_
    return given if fits else None


def _warm_up(clf: OpenSetClassifier) -> str | None:
    """Decide on a sample, so that the first request need not wait for compilation; return the guarantee of sets."""
    sample = name_features(clf, np.random.default_rng(0).random((1, clf.n_features_in_)))
    try:
        if isinstance(clf, SROSRClassifier):
            sets = clf.decide(sample, coverage=COVERAGE).prediction_set
            return None if sets is None else str(sets.guarantee)
        clf.decide(sample)
    except ValueError:  # no held-out samples, or numbers that the model does not take
        pass
    return None


def _remove_file(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)

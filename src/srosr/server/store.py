"""Models in files become snapshots that requests use; a file that changes is loaded and takes the place of the old."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from .._support.messages import did_you_mean, join_names
from .._support.unknown_label import format_label
from ..classifiers.base import OpenSetClassifier
from ..classifiers.srosr_classifier import SROSRClassifier
from ..exceptions import ModelFileError
from ..inspection.model_summary import summarize_model
from ..model_files.save_load import load
from ..operations.device_choice import set_device, set_threads
from ..operations.input_errors import InputError
from ..operations.model_input import check_takes_files, name_features
from .history import find_version
from .samples import Expected
from .schemas import ApiError
from .settings import ServerSettings

#: Seconds between looks at the model files.
POLL_INTERVAL = 1.0
#: Share of known samples whose class is in the prediction set, unless a request asks for another.
COVERAGE = 0.95
_CLASS_CHANGES = ("add-class", "remove-class", "update", "recalibrate")
_LONGEST_NAME = 80
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
    expected: Expected

    @property
    def imputes(self) -> bool:
        """Whether missing values are filled in."""
        return self.expected.imputes

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
    #: By what a change of the file is seen: its state when it was read last.
    signs: tuple[int, ...] = ()
    problem: str | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ModelStore:
    """The models of a server by name."""

    def __init__(self, sources: dict[str, Path], settings: ServerSettings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._watched = {name: _Watched(name, source) for name, source in sources.items()}
        self._numbers = count()
        #: Called with each new snapshot, in the event loop, and with the name of a model that could not be loaded.
        self.on_swap: Callable[[ServedModel], None] = lambda model: None
        self.on_failure: Callable[[str], None] = lambda name: None

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(self._watched)

    def get(self, name: str) -> ServedModel:
        """Return the current snapshot of a model; all are loaded before a server starts."""
        model = self._watched[name].current if name in self._watched else None
        if model is None:
            guess = did_you_mean(name[:_LONGEST_NAME], self.names)
            known = join_names(self.names, 12)
            raise ApiError(404, f"There is no model {name[:_LONGEST_NAME]!r}{guess}; there are {known}.")
        return model

    def find_problem(self, name: str) -> str | None:
        """Return why the file of a model cannot be loaded; None if what is served is what is in the file."""
        return self._watched[name].problem

    def load_all(self) -> None:
        """Load all models; an error names the file."""
        for watched in self._watched.values():
            if not watched.source.is_file():
                what = "is a folder" if watched.source.is_dir() else "does not exist"
                raise InputError(f"{watched.source} {what}: give a model that srosr fit wrote.")
            watched.signs = _read_signs(watched.source)
            watched.current = self._load(watched, str(watched.source))

    async def watch(self) -> None:
        """Look at the files each second, forever."""
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            for name in self._watched:
                try:
                    await self.refresh(name)
                except Exception:  # a defect in one look must not end all of them
                    logger.exception("looking at the file of %s failed", name)

    async def refresh(self, name: str, *, certain: bool = False) -> ServedModel:
        """Load a file that has changed, certainly or by its looks, and serve it; return what is served then."""
        watched = self._watched[name]
        async with watched.lock:
            signs = await asyncio.to_thread(_read_signs, watched.source)
            if signs != watched.signs or certain:
                watched.signs = signs
                try:
                    model = await asyncio.to_thread(self._load, watched, f"The file of {name}")
                except Exception as error:  # what is served goes on
                    self._note_failure(watched, error)
                else:
                    self._swap(watched, model)
            return self.get(name)

    def _note_failure(self, watched: _Watched, error: Exception) -> None:
        watched.problem = f"The file of {watched.name} cannot be loaded; the log of the server says why."
        if isinstance(error, InputError):
            watched.problem = error.message
        else:
            logger.error("loading the file of %s failed", watched.name, exc_info=error)
        logger.warning("%s: %s Version %s is served.", watched.name, watched.problem, self.get(watched.name).version)
        self.on_failure(watched.name)

    def _swap(self, watched: _Watched, model: ServedModel) -> None:
        if watched.problem is not None:
            logger.info("%s: its file can be loaded again.", watched.name)
        watched.problem, before = None, watched.current
        if before is None or before.version != model.version:
            watched.current = model
            logger.info("%s: version %s is served, loaded anew from its file.", watched.name, model.version)
            self.on_swap(model)

    def _load(self, watched: _Watched, title: str) -> ServedModel:
        """Load the model in a copy of its file, which is named ``title`` in messages."""
        path = self._folder / f"{watched.name}-{next(self._numbers)}.srosr"
        try:
            shutil.copyfile(watched.source, path)
            clf = load(path)
            check_takes_files(clf, title)
            set_threads(clf, 1)  # several pieces are decided at a time, each in one thread
            set_device(clf, self._settings.device)
            expected, recipe = Expected.of(clf, self._settings.limits), clf.feature_recipe_
            given = self._settings.picture_shape
            fits = given is not None and given[0] * given[1] == expected.n_features
            model = ServedModel(
                name=watched.name,
                version=find_version(path) or "",
                clf=clf,
                path=path,
                source=watched.source,
                loaded_at=datetime.now(UTC),
                size=path.stat().st_size,
                summary=summarize_model(clf).to_dict(),
                picture_shape=recipe.shape if recipe is not None and recipe.of_pictures else given if fits else None,
                coverage_guarantee=_warm_up(clf),
                expected=expected,
            )
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, ModelFileError):
                raise InputError(str(error).replace(repr(str(path)), title).replace(str(path), title)) from None
            if isinstance(error, OSError):
                raise InputError(f"{title}: {error.strerror or type(error).__name__}.") from None
            raise
        weakref.finalize(model, path.unlink, missing_ok=True)
        return model


def _read_signs(path: Path) -> tuple[int, ...]:
    """Return by what a change of a file is seen; empty if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


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

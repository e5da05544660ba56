"""The methods compared, by name: the package each needs, its scalings and its recipe."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.methods import TARGET_REJECTION, Answers
from benchmarks.peer_methods.extreme_values import extreme_value_machine
from benchmarks.peer_methods.networks import thresholded_softmax
from benchmarks.peer_methods.recipes import (
    MakeDetector,
    Prepared,
    Recipe,
    detector_and_classifier,
    detector_per_class,
    max_probability,
)
from benchmarks.peer_methods.scalings import SCALINGS
from benchmarks.trials import UNKNOWN

OURS = "srosr"
"""Name of the method that the others are compared with."""

DETECTORS = {
    "KNN": ("knn", "KNN"),
    "LOF": ("lof", "LOF"),
    "ECOD": ("ecod", "ECOD"),
    "IForest": ("iforest", "IForest"),
    "OCSVM": ("ocsvm", "OCSVM"),
}
"""PyOD's detectors: module and class."""
SLOW_PER_CLASS = ("ECOD", "IForest")
"""Detectors that, with one per class, take longer than all the others together."""


@dataclass(frozen=True)
class Contestant:
    """One line of the tables.

    Attributes
    ----------
    recipe : callable
        From a prepared trial to answers.
    package : str
        Module that must be importable; it is imported only when the recipe runs.
    scalings : tuple of str
        Names of the scalings tried; the tables show the one with the best mean OSCR.
    extra : bool
        Whether it is left out by default because it is slow.
    """

    recipe: Recipe
    package: str
    scalings: tuple[str, ...] = tuple(SCALINGS)
    extra: bool = False

    def skip_reason(self) -> str | None:
        """Return why it cannot run here, or None if it can."""
        if find_spec(self.package) is None:
            return f"{self.package} is not installed: see docs/peers.md"
        return None


def _estimator(make: Callable[[int], Any]) -> Recipe:
    """Return the recipe of one of our classifiers."""

    def recipe(prepared: Prepared) -> Answers:
        trial, started = prepared.trial, time.perf_counter()
        clf = make(prepared.seed).fit(trial.X, trial.y)
        fitted = time.perf_counter()
        label = np.asarray(clf.predict(trial.X_test))
        ended = time.perf_counter()
        label = np.where(label == clf.unknown_label_, UNKNOWN, label)
        candidate, score = clf.candidate(trial.X_test), clf.unknown_score(trial.X_test)
        return Answers(candidate, score, label, fitted - started, ended - fitted)

    return recipe


def _ours(seed: int) -> Any:
    from srosr import SROSRClassifier

    return SROSRClassifier(target_rejection=TARGET_REJECTION, random_state=seed, n_jobs=1)


def _wsvm(seed: int) -> Any:
    from srosr import WSVM

    return WSVM(normalize=False, target_rejection=TARGET_REJECTION, random_state=seed)


def pyod_detector(name: str) -> MakeDetector:
    """Return a maker of a PyOD detector with its defaults and a contamination of `TARGET_REJECTION`."""
    module, cls = DETECTORS[name]

    def make(seed: int) -> Any:
        from importlib import import_module

        detector = getattr(import_module(f"pyod.models.{module}"), cls)
        random = {"random_state": seed} if name == "IForest" else {}
        return detector(contamination=TARGET_REJECTION, **random)

    return make


CONTESTANTS: dict[str, Contestant] = {
    OURS: Contestant(_estimator(_ours), "srosr", ("raw",)),
    "W-SVM (ours)": Contestant(_estimator(_wsvm), "srosr"),
    "logistic, max probability": Contestant(max_probability, "sklearn"),
    **{
        f"PyOD {name} + logistic": Contestant(detector_and_classifier(pyod_detector(name)), "pyod")
        for name in DETECTORS
    },
    **{
        f"PyOD {name} per class": Contestant(
            detector_per_class(pyod_detector(name)), "pyod", extra=name in SLOW_PER_CLASS
        )
        for name in DETECTORS
    },
    "EVM (authors')": Contestant(extreme_value_machine, "EVM"),
    "torchosr TSoftmax": Contestant(thresholded_softmax, "torchosr"),
}
"""Contestants in the order of the tables."""

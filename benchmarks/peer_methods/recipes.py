"""How a label *or* a refusal is had from packages that give one of the two.

A detector has the interface of PyOD: ``fit(X)``, then ``decision_function(X)`` (larger is stranger), ``predict(X)`` (1
is an outlier), and ``decision_scores_`` and ``threshold_`` of its training samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from benchmarks.methods import TARGET_REJECTION, Answers
from benchmarks.trials import UNKNOWN, Trial

MAX_ITER = 1000
"""Iterations of the logistic regression; scikit-learn's 100 are too few for unscaled pictures."""
FOLDS = 5
"""Folds that show what known samples score that a fit has not met; fewer where a class has fewer samples."""

MakeDetector = Callable[[int], Any]
"""From a seed to an unfitted detector that is told to expect `TARGET_REJECTION` outliers."""


@dataclass(frozen=True)
class Prepared:
    """A trial after scaling, with what several recipes share: its logistic regression."""

    trial: Trial
    seed: int = 0

    @cached_property
    def logistic(self) -> tuple[LogisticRegression, float]:
        """Logistic regression with scikit-learn's defaults, and the seconds of its fit."""
        started = time.perf_counter()
        clf = LogisticRegression(max_iter=MAX_ITER).fit(self.trial.X, self.trial.y)
        return clf, time.perf_counter() - started


Recipe = Callable[[Prepared], Answers]


def detector_and_classifier(make: MakeDetector) -> Recipe:
    """One detector over all known samples refuses; logistic regression names the class of what is left."""

    def recipe(prepared: Prepared) -> Answers:
        trial = prepared.trial
        clf, seconds = prepared.logistic
        started = time.perf_counter()
        detector = make(prepared.seed).fit(trial.X)
        fitted = time.perf_counter()
        candidate, score = clf.predict(trial.X_test), detector.decision_function(trial.X_test)
        label = np.where(detector.predict(trial.X_test) == 1, UNKNOWN, candidate)
        return Answers(candidate, score, label, seconds + fitted - started, time.perf_counter() - fitted)

    return recipe


def detector_per_class(make: MakeDetector) -> Recipe:
    """A detector for each class; refused is what all refuse, and the class is that whose detector is surest.

    Scores of two detectors are compared as (score − threshold) / standard deviation of the training scores: zero where
    the detector begins to refuse, and PyOD's own ``predict_proba(method="unify")`` is in the same units.
    """

    def recipe(prepared: Prepared) -> Answers:
        trial = prepared.trial
        started = time.perf_counter()
        classes = np.unique(trial.y)
        detectors = [make(prepared.seed).fit(trial.X[trial.y == c]) for c in classes]
        fitted = time.perf_counter()
        beyond = np.column_stack([_beyond(detector, trial.X_test) for detector in detectors])
        candidate, score = classes[beyond.argmin(axis=1)], beyond.min(axis=1)
        label = np.where(score > 0, UNKNOWN, candidate)
        return Answers(candidate, score, label, fitted - started, time.perf_counter() - fitted)

    return recipe


def _beyond(detector: Any, X: NDArray) -> NDArray[np.float64]:
    """How far samples are beyond the threshold of a detector, in standard deviations of its training scores."""
    spread = np.std(detector.decision_scores_)
    return (detector.decision_function(X) - detector.threshold_) / (spread if spread > 0 else 1.0)


def max_probability(prepared: Prepared) -> Answers:
    """Refuse where the largest probability of a logistic regression is below a quantile of held-out known ones."""
    trial = prepared.trial
    clf, seconds = prepared.logistic
    started = time.perf_counter()
    least = int(np.unique(trial.y, return_counts=True)[1].min())
    folds = StratifiedKFold(min(FOLDS, least), shuffle=True, random_state=prepared.seed)
    held_out = cross_val_predict(
        LogisticRegression(max_iter=MAX_ITER), trial.X, trial.y, cv=folds, method="predict_proba"
    )
    threshold = np.quantile(1 - held_out.max(axis=1), 1 - TARGET_REJECTION)
    fitted = time.perf_counter()
    probability = clf.predict_proba(trial.X_test)
    candidate, score = clf.classes_[probability.argmax(axis=1)], 1 - probability.max(axis=1)
    label = np.where(score > threshold, UNKNOWN, candidate)
    return Answers(candidate, score, label, seconds + fitted - started, time.perf_counter() - fitted)

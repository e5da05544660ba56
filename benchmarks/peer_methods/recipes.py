"""Recipes for a label *or* a rejection from packages that provide one of the two.

A detector has the interface of PyOD: ``fit(X)``, then ``decision_function(X)`` (larger is more unusual), ``predict(X)``
(1 is an outlier), and ``decision_scores_`` and ``threshold_`` of its training samples.
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
"""Folds for the scores of held-out known samples; fewer if a class has fewer samples."""

MakeDetector = Callable[[int], Any]
"""From a seed to an unfitted detector with a contamination of `TARGET_REJECTION`."""


@dataclass(frozen=True)
class Prepared:
    """A trial after scaling, with the logistic regression that several recipes share."""

    trial: Trial
    seed: int = 0

    @cached_property
    def logistic(self) -> tuple[LogisticRegression, float]:
        """Fit a logistic regression with scikit-learn's defaults; return it and the seconds of the fit."""
        started = time.perf_counter()
        clf = LogisticRegression(max_iter=MAX_ITER).fit(self.trial.X, self.trial.y)
        return clf, time.perf_counter() - started


Recipe = Callable[[Prepared], Answers]


def detector_and_classifier(make: MakeDetector) -> Recipe:
    """Return a recipe: one detector over all known samples rejects, logistic regression names the class of the rest."""

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
    """Return a recipe with a detector per class: a sample is rejected if all reject it, else the surest one names it.

    Scores of two detectors are compared as (score − threshold) / standard deviation of the training scores: zero where
    the detector begins to reject, in the same units as PyOD's ``predict_proba(method="unify")``.
    """

    def recipe(prepared: Prepared) -> Answers:
        trial = prepared.trial
        started = time.perf_counter()
        classes = np.unique(trial.y)
        detectors = [make(prepared.seed).fit(trial.X[trial.y == c]) for c in classes]
        fitted = time.perf_counter()
        beyond = np.column_stack([_measure_excess(detector, trial.X_test) for detector in detectors])
        candidate, score = classes[beyond.argmin(axis=1)], beyond.min(axis=1)
        label = np.where(score > 0, UNKNOWN, candidate)
        return Answers(candidate, score, label, fitted - started, time.perf_counter() - fitted)

    return recipe


def _measure_excess(detector: Any, X: NDArray) -> NDArray[np.float64]:
    """Return how far samples are beyond a detector's threshold, in standard deviations of its training scores."""
    spread = np.std(detector.decision_scores_)
    return (detector.decision_function(X) - detector.threshold_) / (spread if spread > 0 else 1.0)


def max_probability(prepared: Prepared) -> Answers:
    """Reject samples whose largest logistic probability is below a quantile of held-out known samples."""
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

"""Three ways to scale features, learned from training samples alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sklearn.preprocessing import Normalizer, StandardScaler

from benchmarks.trials import Trial


def raw(trial: Trial) -> Trial:
    """Return the trial as it is."""
    return trial


def unit(trial: Trial) -> Trial:
    """Scale every sample to unit Euclidean length."""
    return _transform(trial, Normalizer())


def standardized(trial: Trial) -> Trial:
    """Scale every feature to mean 0 and standard deviation 1 over the training samples."""
    return _transform(trial, StandardScaler())


def _transform(trial: Trial, step: Normalizer | StandardScaler) -> Trial:
    X = step.fit_transform(trial.X)
    return replace(trial, X=np.asarray(X), X_test=np.asarray(step.transform(trial.X_test)))


SCALINGS: dict[str, Callable[[Trial], Trial]] = {"raw": raw, "unit": unit, "standardized": standardized}
"""Scalings by name."""

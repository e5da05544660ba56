"""Three ways to prepare features, learnt from training samples alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sklearn.preprocessing import Normalizer, StandardScaler

from benchmarks.trials import Trial


def raw(trial: Trial) -> Trial:
    """Features as they are."""
    return trial


def unit(trial: Trial) -> Trial:
    """Every sample divided by its Euclidean length."""
    return _transformed(trial, Normalizer())


def standardised(trial: Trial) -> Trial:
    """Every feature with mean 0 and standard deviation 1 over the training samples."""
    return _transformed(trial, StandardScaler())


def _transformed(trial: Trial, step: Normalizer | StandardScaler) -> Trial:
    X = step.fit_transform(trial.X)
    return replace(trial, X=np.asarray(X), X_test=np.asarray(step.transform(trial.X_test)))


SCALINGS: dict[str, Callable[[Trial], Trial]] = {"raw": raw, "unit": unit, "standardised": standardised}
"""Scalings by name."""

"""The authors' Extreme Value Machine: the package EVM over libmr, one machine per class.

Neither says when to reject, so the threshold is a quantile of held-out known samples, as for logistic regression.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.model_selection import StratifiedKFold

from benchmarks.methods import TARGET_REJECTION, Answers
from benchmarks.peer_methods.recipes import FOLDS, Prepared
from benchmarks.trials import UNKNOWN

TAIL = 50
"""Distances in a tail; the package has no default, so this is the default of our EVM."""
METRIC = "cosine"
"""The package's default."""


def compute_inclusion(X: NDArray, y: NDArray, queries: NDArray) -> NDArray[np.float64]:
    """Return the probability of inclusion of each query in each class of ``y``, in sorted order."""
    import EVM

    columns = []
    for c in np.unique(y):
        inside = X[y == c]
        machine = EVM.EVM(TAIL, log_level="debug")
        machine.train(inside, distances=cdist(inside, X[y != c], METRIC))
        kept = inside[list(machine._extreme_vectors)]
        columns.append(machine.probabilities(distances=cdist(kept, queries, METRIC)).max(axis=1))
    return np.nan_to_num(np.column_stack(columns))


def extreme_value_machine(prepared: Prepared) -> Answers:
    """Reject samples that no machine includes with a probability usual for held-out known samples."""
    trial, started = prepared.trial, time.perf_counter()
    classes, sizes = np.unique(trial.y, return_counts=True)
    folds = StratifiedKFold(min(FOLDS, int(sizes.min())), shuffle=True, random_state=prepared.seed)
    held_out = np.empty(len(trial.y))
    for rest, out in folds.split(trial.X, trial.y):
        held_out[out] = 1 - compute_inclusion(trial.X[rest], trial.y[rest], trial.X[out]).max(axis=1)
    threshold = np.quantile(held_out, 1 - TARGET_REJECTION)
    fitted = time.perf_counter()
    probability = compute_inclusion(trial.X, trial.y, trial.X_test)
    candidate, score = classes[probability.argmax(axis=1)], 1 - probability.max(axis=1)
    label = np.where(score > threshold, UNKNOWN, candidate)
    return Answers(candidate, score, label, fitted - started, time.perf_counter() - fitted)

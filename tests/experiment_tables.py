"""Made-up but realistic result tables and portraits of an experiment, the same each time.

A method has a skill; trials are harder or easier for all methods alike, so that paired differences are steadier than
the values themselves. Known samples are rejected at a rate of the method, unknown ones more often the better it ranks.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

PAPER = ("calibrated", "paper", "matched", "w-svm", "sci", "ratio", "naive")
OTHERS = (
    "1-vs-set", "evm", "evm-released", "gen", "knn", "mahalanobis", "max-logit", "nnguide", "openmax", "osnn", "pi-svm",
    "rmds", "svm", "svm-pairwise", "svm-platt", "vim", "w-svm-original",
)  # fmt: skip
METHODS = PAPER + OTHERS
TARGETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)

SECONDS = ("fit_seconds", "predict_seconds", "measure_seconds", "coding_seconds")


def openness_of(n_unknown: int, n_known: int = 10) -> float:
    return 1.0 - math.sqrt(2 * n_known / (2 * n_known + n_unknown))


def made_up(methods=METHODS, n_levels=19, n_trials=50, seed=0):
    """Return results, coverage, times and failures of a run in which nothing failed, as a dict."""
    rng = np.random.default_rng(seed)
    results, coverage, times = [], [], []
    ease = rng.normal(0.0, 0.03, n_trials)
    for position, method in enumerate(methods):
        skill = 0.93 - 0.28 * position / max(len(methods), 8) + rng.normal(0.0, 0.01)
        shy = 0.05 + 0.10 * rng.random()
        for trial in range(n_trials):
            closed = np.clip(0.96 + ease[trial] / 2 - 0.004 * position + rng.normal(0, 0.008), 0, 1)
            auroc = np.clip(skill + ease[trial] + rng.normal(0, 0.012), 0, 1)
            for level in range(n_levels):
                n_unknown = 2 * level
                share = n_unknown / (10 + n_unknown)
                recognition = closed * (1 - shy)
                rejection = np.clip(auroc - 0.08 + rng.normal(0, 0.02 / (1 + level)), 0, 1)
                accuracy = (1 - share) * recognition + share * rejection
                # Harmonic mean of precision, which accepted unknown samples lower, and recall.
                precision = recognition / (recognition + 0.02 + share * (1 - rejection))
                values = {
                    "f": 2 * precision * recognition / (precision + recognition),
                    "accuracy": accuracy,
                    "recognition_accuracy": recognition,
                    "rejection_accuracy": rejection if n_unknown else math.nan,
                    "known_rejected": shy,
                    "closed_set_accuracy": closed,
                    "auroc": auroc if n_unknown else math.nan,
                    "oscr": auroc * closed if n_unknown else math.nan,
                    "fpr95": np.clip(2.2 * (1 - auroc), 0, 1) if n_unknown else math.nan,
                    "f_macro": 0.97 * precision,
                }
                results += [
                    ("made-up", trial, n_unknown, openness_of(n_unknown), method, metric, float(value))
                    for metric, value in values.items()
                ]
            for target in TARGETS:
                known_rejected = float(np.clip(target * (1 + 0.12 * position) + rng.normal(0, 0.01), 0, 1))
                unknown_rejected = float(np.clip(auroc - 0.35 + 0.5 * target**0.25, 0, 1))
                right = (1 - known_rejected) * closed
                row = (
                    target,
                    known_rejected,
                    unknown_rejected,
                    right * (0.7 + 0.3 * unknown_rejected),
                    0.4 * right + 0.6 * unknown_rejected,
                )
                coverage.append(("made-up", trial, method, *map(float, row)))
            fit, predict = 3.0 + position + rng.random(), 0.4 + 0.1 * rng.random()
            times.append(("made-up", trial, method, fit, predict, 0.1, 0.8 * fit if position < 7 else 0.0))
    return {
        "results": pd.DataFrame(
            results, columns=["experiment", "trial", "n_unknown", "openness", "method", "metric", "value"]
        ),
        "coverage": pd.DataFrame(
            coverage,
            columns=["experiment", "trial", "method", "target", "known_rejected", "unknown_rejected", "f", "accuracy"],
        ),
        "times": pd.DataFrame(times, columns=["experiment", "trial", "method", *SECONDS]),
        "failures": pd.DataFrame({"experiment": [], "trial": [], "method": [], "reason": []}).astype(
            {"experiment": str, "trial": int, "method": str, "reason": str}
        ),
    }


def failing(tables, method, trials, reason="ValueError: C must be positive, got -1."):
    """Return the tables as if a method had failed in these trials."""
    trials = list(trials)
    kept = {
        name: table[~((table["method"] == method) & table["trial"].isin(trials))].reset_index(drop=True)
        for name, table in tables.items()
    }
    lost = pd.DataFrame({"experiment": "made-up", "trial": trials, "method": method, "reason": reason})
    return kept | {"failures": pd.concat([tables["failures"], lost], ignore_index=True)}


def without(tables, method, trials):
    """Return the tables as if these trials of a method had not been reached yet."""
    reached = failing(tables, method, trials)
    return reached | {"failures": tables["failures"]}


def portrait(n_classes=10, seed=0, names=None):
    """Return errors, scores and confusion of one trial."""
    rng = np.random.default_rng(seed)
    n_known, n_unknown = 60 * n_classes, 40 * n_classes
    confusion = np.zeros((n_classes + 1, n_classes + 1), dtype=int)
    for true in range(n_classes):
        share = np.full(n_classes + 1, 0.05 / n_classes)
        share[true], share[-1] = 0.87, 0.08
        confusion[true] = rng.multinomial(60, share / share.sum())
    share = np.append(np.full(n_classes, 0.25 / n_classes), 0.75)
    confusion[-1] = rng.multinomial(n_unknown, share)

    def of(n, matched, nonmatched):
        return {
            "matched": rng.gamma(9.0, matched / 9.0, n).tolist(),
            "nonmatched": np.clip(rng.normal(nonmatched, 0.03, n), 0, 1.1).tolist(),
            "score": rng.beta(2.0, 2.0, n).tolist(),
        }

    return {
        "class_names": list(names) if names else [f"class {k:02d}" for k in range(n_classes)],
        "confusion": confusion.tolist(),
        "held_out": {key: value for key, value in of(4 * n_known, 0.32, 0.95).items() if key != "score"},
        "test": {"known": of(n_known, 0.33, 0.95), "unknown": of(n_unknown, 0.62, 0.88)},
        "threshold": 0.9,
        "score_name": "unknown score",
    }

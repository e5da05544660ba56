"""What a model with a calibration split promises, on the trials of ``python -m benchmarks.accuracy --coverage``.

A quarter of the training samples is kept for calibration. Columns: the share of known test samples rejected at
``target_rejection`` 0.05, and of the class with most of them; the share whose p-value for their own class is at most
0.05, over all and in the worst class; the share of prediction sets of coverage 0.9 that contain the class, and their
mean size where they are not empty; the share of unknown samples with an empty set; the share of known samples among
those that ``decide(fdr=0.1)`` rejects, and the share of unknown samples that it finds.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.methods import TARGET_REJECTION, Setting, recognizer
from benchmarks.standings import Record, summarize
from benchmarks.trials import Trial

SPLIT = "split"
"""Name of the records."""
COVERAGE, FDR = 0.9, 0.1
COLUMNS = {
    "rejected": f"target {TARGET_REJECTION:g}",
    "worst_class": "worst class",
    "class_excluded": "by class",
    "worst_excluded": "worst class",
    "covered": f"set {COVERAGE:g}",
    "set_size": "size",
    "unknown_empty": "empty",
    "false_discoveries": f"FDR {FDR:g}",
    "found": "found",
}


def measure_promises(trial: Trial, setting: Setting) -> dict[str, float]:
    """Fit with a calibration split and return how often each promise was broken or kept."""
    known = ~trial.is_unknown
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = recognizer(calibration="split", **setting.parameters).fit(trial.X, trial.y)
        X, y = trial.X_test[known], trial.y_test[known]
        rejected = clf.decide(X).rejected
        places = np.searchsorted(clf.classes_, y)
        excluded = clf.class_p_values(X)[np.arange(len(y)), places] <= TARGET_REJECTION
        sets = clf.prediction_set(trial.X_test, COVERAGE)
        together = clf.decide(trial.X_test, fdr=FDR).rejected
    sizes = sets.sizes
    return {
        "rejected": float(rejected.mean()),
        "worst_class": _worst(rejected, places),
        "class_excluded": float(excluded.mean()),
        "worst_excluded": _worst(excluded, places),
        "covered": float(sets.contains[known][np.arange(len(y)), places].mean()),
        "set_size": float(sizes[known & (sizes > 0)].mean()) if (known & (sizes > 0)).any() else 0.0,
        "unknown_empty": float(np.mean(sizes[~known] == 0)),
        "false_discoveries": float((together & known).sum() / max(together.sum(), 1)),
        "found": float(together[~known].mean()),
    }


def _worst(flags: NDArray, places: NDArray) -> float:
    return max(float(flags[places == k].mean()) for k in np.unique(places))


def summarize_promises(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the mean of each column for each set."""
    lines = []
    for name in dict.fromkeys(r["set"] for r in records if r["method"] == SPLIT):
        rows = [r for r in records if r["set"] == name and r["method"] == SPLIT]
        found = {key: summarize(r[key] for r in rows) for key in COLUMNS}
        lines.append({"set": name, "trials": len(rows)} | {key: s.mean for key, s in found.items() if s is not None})
    return lines


def promises_table(out: Console, lines: Sequence[dict[str, Any]]) -> Table:
    """Return the promises as a table."""
    table = report.new_table(out, "set", "trials", *COLUMNS.values())
    for line in lines:
        numbers = (f"{line[key]:.2f}" if key == "set_size" else f"{line[key]:.4f}" for key in COLUMNS)
        table.add_row(line["set"], str(line["trials"]), *numbers)
    return table

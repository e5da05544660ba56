"""What a fit costs beyond the coding it needs, and what adding a class costs compared with a fit.

``python -m benchmarks.fitting`` fits the recognizer on the trials of `benchmarks.trials` and prints, for each set, the
samples coded in the three passes, the time spent in ``sparse_encode`` and the total time of the fit; then the time to
add a class with both kinds of recalibration, and how far the answers are from those of a fit on all classes.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.problems import Unavailable
from benchmarks.trials import TRIALS, Trial
from srosr import SROSRClassifier


@contextmanager
def coding_time() -> Any:
    """Yield a list whose sum is the time that cross-tests spend in ``sparse_encode``."""
    from srosr.scoring import cross_test

    spent: list[float] = []
    encode = cross_test.sparse_encode

    def timed(*arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return encode(*arguments, **options)
        finally:
            spent.append(time.perf_counter() - started)

    cross_test.sparse_encode = timed
    try:
        yield spent
    finally:
        cross_test.sparse_encode = encode


def measure_fit(trial: Trial, n_jobs: int) -> tuple[list[int], float, float]:
    """Return the samples coded in each pass, the seconds in the coder and the seconds of the whole fit."""
    clf = SROSRClassifier(random_state=0, n_jobs=n_jobs)
    with coding_time() as spent:
        started = time.perf_counter()
        clf.fit(trial.X, trial.y)
        whole = time.perf_counter() - started
    calibration = clf.calibration_
    counts = [len(rows) for rows in (calibration.known, calibration.simulated, calibration.held_out)]
    return counts, sum(spent), whole


def measure_changes(trial: Trial, n_jobs: int) -> dict[str, float]:
    """Return the seconds to add the last class both ways and to refit, and how far the answers are from the refit's."""
    label = trial.y.max()
    old, new = trial.y != label, trial.y == label

    def clf() -> SROSRClassifier:
        return SROSRClassifier(random_state=0, n_jobs=n_jobs)

    started = time.perf_counter()
    refit = clf().fit(trial.X, trial.y)
    out = {"refit": time.perf_counter() - started}
    score, labels = refit.unknown_score(trial.X_test), refit.predict(trial.X_test)
    for how in ("new", "all"):
        grown = clf().fit(trial.X[old], trial.y[old])
        started = time.perf_counter()
        grown.add_class(trial.X[new], label, recalibrate=how)
        out[how] = time.perf_counter() - started
        out[f"{how} score"] = float(np.abs(grown.unknown_score(trial.X_test) - score).mean())
        out[f"{how} labels"] = float(np.mean(grown.predict(trial.X_test) != labels))
        if how == "new":
            started = time.perf_counter()
            grown.remove_class(label)
            out["remove"] = time.perf_counter() - started
    return out


@click.command(help=__doc__)
@click.option("--sets", default="yaleb,caltech101,uiuc,mnist", show_default=True, help="Sets, separated by commas.")
@click.option("--seed", default=0, show_default=True, help="Of the trial.")
@click.option("--jobs", default=1, show_default=True, help="Threads.")
@click.option("--changes/--no-changes", default=True, show_default=True, help="Whether to measure adding a class.")
def main(sets: str, seed: int, jobs: int, changes: bool) -> None:
    """Run the benchmark."""
    console = Console()
    names = [name.strip() for name in sets.split(",")]
    for name in names:
        if name not in TRIALS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(TRIALS)}.")
    costs = Table("set", "atoms", "known", "simulated", "held out", "coding s", "fit s", "fit / coding")
    turns = Table(
        "set",
        "refit s",
        "add s",
        "add, all s",
        "remove s",
        "score off",
        "labels off",
        "off, all",
        title="Adding a class",
    )
    SROSRClassifier(n_repeats=2, random_state=0).fit(np.eye(9)[np.arange(30) % 9], np.arange(30) % 3)  # compiles
    for name in names:
        try:
            trial = TRIALS[name].draw(seed)
        except Unavailable as reason:
            console.print(f"{name}: skipped, {reason}")
            continue
        counts, coding, whole = measure_fit(trial, jobs)
        costs.add_row(
            name, str(len(trial.X)), *map(str, counts), f"{coding:.2f}", f"{whole:.2f}", f"{whole / coding:.2f}"
        )
        if changes:
            c = measure_changes(trial, jobs)
            turns.add_row(
                name,
                *(f"{c[key]:.2f}" for key in ("refit", "new", "all", "remove")),
                *(f"{c[key]:.4f}" for key in ("new score", "new labels", "all score")),
            )
    console.print(costs)
    if changes:
        console.print(turns)
        console.print(
            "score off: mean difference in unknown score from a fit on all classes; labels off: share of test samples "
            "with a different label; off, all: score off with recalibrate='all'."
        )


if __name__ == "__main__":
    main()

"""Time, memory and file size of each open set method on one trial: ``python -m benchmarks.costs``."""

from __future__ import annotations

import os
import tempfile
import time
import tracemalloc
import warnings
from dataclasses import dataclass, replace

import click

from benchmarks import report
from benchmarks.accuracy import _chosen
from benchmarks.methods import TARGET_REJECTION
from benchmarks.problems import Unavailable
from benchmarks.trials import TRIALS, Trial
from srosr import open_set_methods


@dataclass(frozen=True)
class Cost:
    """Seconds to fit (with tuning and held-out scores) and to predict, peak memory of a fit beyond the samples in
    multiples of one matrix of all pairs of training samples, and megabytes of the model file."""

    fit: float
    predict: float
    matrices: float
    megabytes: float


def measure_cost(name: str, trial: Trial, seed: int = 0) -> Cost:
    """Return the cost of one method; memory is measured in a second fit, because tracing takes time."""
    clf = open_set_methods()[name]
    fixed = {"normalize": True, "target_rejection": TARGET_REJECTION, "random_state": seed}
    clf.set_params(**{key: value for key, value in fixed.items() if key in clf.get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        clf.fit(trial.X, trial.y)
        fitted = time.perf_counter()
        clf.predict(trial.X_test)
        ended = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            clf.save(path)
            size = os.path.getsize(path)
        tracemalloc.start()
        try:
            clf.fit(trial.X, trial.y)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    return Cost(fitted - started, ended - fitted, peak / (8 * len(trial.X) ** 2), size / 1e6)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--set", "name", type=click.Choice(tuple(TRIALS)), default="mnist", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the trial.")
@click.option("--methods", metavar="METHODS", help="Comma-separated methods.  [all]")
@click.option(
    "--repeat", type=click.IntRange(1), default=1, show_default=True, help="Show the shortest times of so many."
)
def main(name: str, seed: int, methods: str | None, repeat: int) -> None:
    """Fit and predict one trial with every method, with its defaults on samples of unit length.

    Memory is what Python and NumPy allocate, not what solvers of other libraries allocate internally.
    """
    try:
        trial = TRIALS[name].draw(seed)
    except Unavailable as reason:
        raise click.ClickException(str(reason)) from None
    out = report.console()
    table = report.new_table(out, "method", "fit s", "predict s", "memory / kernel matrix", "file MB")
    costs = {}
    for method in _chosen(methods, open_set_methods(), "--methods"):
        found = [measure_cost(method, trial, seed) for _ in range(repeat)]
        fit, predict = min(c.fit for c in found), min(c.predict for c in found)
        costs[method] = c = replace(found[0], fit=fit, predict=predict)
        table.add_row(method, f"{c.fit:.2f}", f"{c.predict:.2f}", f"{c.matrices:.1f}", f"{c.megabytes:.1f}")
    shape = f"{len(trial.X)} training samples of {trial.X.shape[1]} features, {len(trial.X_test)} test samples"
    report.show(out, f"{TRIALS[name].title}: {shape}", table)
    slowest = max(costs, key=lambda method: costs[method].fit + costs[method].predict)
    out.print(f"Slowest: {slowest}, {costs[slowest].fit + costs[slowest].predict:.1f} s to fit and predict.")


if __name__ == "__main__":
    main()

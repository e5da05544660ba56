"""Sigmoids fitted for all pairs of classes at once or one pair at a time: ``python -m benchmarks.sigmoids``."""

from __future__ import annotations

import time

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import SVC

from srosr.rivals.pairwise_svm import PairwiseSVM


def draw_samples(n_classes: int, n: int, seed: int) -> tuple[NDArray[np.float64], NDArray]:
    """Draw overlapping clouds of 30 features, n samples each."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n)
    return rng.normal(size=(n_classes, 30))[y] + rng.normal(size=(len(y), 30)), y


def time_all_at_once(X: NDArray[np.float64], y: NDArray, gamma: float) -> float:
    """Return the seconds of one fit of ours, machines and sigmoids of all pairs."""
    clf = PairwiseSVM(C=1.0, gamma=gamma)
    clf._check_parameters()
    inputs = clf._compute_inputs(X, X)
    started = time.perf_counter()
    clf._learn(inputs, np.arange(len(X)), y, {"C": 1.0, "gamma": gamma})
    return time.perf_counter() - started


def time_one_by_one(X: NDArray[np.float64], y: NDArray, gamma: float) -> float:
    """Return the seconds to fit a calibrated scikit-learn machine for each pair, on the same kernel."""
    clf = PairwiseSVM(C=1.0, gamma=gamma)
    inputs = clf._compute_inputs(X, X)
    started = time.perf_counter()
    kernel = np.exp(-gamma * inputs)
    for i, j in zip(*np.triu_indices(int(y.max()) + 1, 1), strict=True):
        rows = np.flatnonzero((y == i) | (y == j))
        machine = CalibratedClassifierCV(SVC(C=1.0, kernel="precomputed"), method="sigmoid", cv=3, ensemble=False)
        machine.fit(kernel[np.ix_(rows, rows)], y[rows] == i)
    return time.perf_counter() - started


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--classes", "n_classes", type=click.IntRange(2), default=20, show_default=True)
@click.option("--samples", "n", type=click.IntRange(3), default=20, show_default=True, help="Samples per class.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
def main(n_classes: int, n: int, repeats: int) -> None:
    """Time one fit of pairwise machines with probabilities, ours and scikit-learn's for each pair."""
    X, y = draw_samples(n_classes, n, 0)
    gamma = 1.0 / float(X.var(axis=0).sum())
    pairs = n_classes * (n_classes - 1) // 2
    for _ in range(repeats):
        ours, theirs = time_all_at_once(X, y, gamma), time_one_by_one(X, y, gamma)
        click.echo(f"{pairs} pairs: {ours:.3f} s at once, {theirs:.3f} s one at a time, ratio {theirs / ours:.1f}")


if __name__ == "__main__":
    main()

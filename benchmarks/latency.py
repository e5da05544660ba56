"""Print the time of one call of ``predict`` for 1, 32 and all test samples.

    SROSR_DATA_DIR=data python -m benchmarks.latency

The training samples are 512 faces of ten persons of Extended Yale B (32 × 32 pixels), or digits with ``--data digits``.
Beside ``SROSRClassifier`` stand scikit-learn's ``SVC`` and our ``KNNDistance``, timed in turn in the same process. The
median shows what a user waits on this machine now; the least shows what is left when nothing else runs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from srosr import SROSRClassifier, load_yaleb
from srosr.rivals.knn_distance import KNNDistance

N_TRAINING = 512
N_CLASSES = 10
#: The most that a call for one sample may take, in milliseconds.
TARGET = 1.0


def load_split(name: str) -> tuple[Any, Any, Any]:
    """Return training samples, their classes and test samples of a data set."""
    if name == "yaleb":
        data = load_yaleb()
        X, y = np.asarray(data.X, dtype=np.float64), data.y
    else:
        X, y = load_digits(return_X_y=True)
    rows = np.flatnonzero(np.isin(y, np.unique(y)[:N_CLASSES]))
    rows = np.random.default_rng(0).permutation(rows)
    return X[rows[:N_TRAINING]], y[rows[:N_TRAINING]], X[rows[N_TRAINING:]]


def time_calls(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Return the median and the least of many wall times, in milliseconds, after a few calls to warm up."""
    for _ in range(min(repeats, 10)):
        call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1000 * float(np.median(times)), 1000 * min(times)


def main(arguments: list[str] | None = None) -> None:
    """Fit the classifiers and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description="Time calls of predict.")
    parser.add_argument("--data", choices=("yaleb", "digits"), default="yaleb")
    parser.add_argument("--repeats", type=int, default=300, help="calls for one sample; fewer for more samples")
    options = parser.parse_args(arguments)
    X, y, X_test = load_split(options.data)
    classifiers = {
        "SROSRClassifier": SROSRClassifier(n_repeats=5, random_state=0),
        "KNNDistance": KNNDistance(),
        "sklearn SVC": SVC(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for clf in classifiers.values():
            clf.fit(X, y)
    print(f"{len(X)} training samples of {X.shape[1]} features, {len(np.unique(y))} classes ({options.data})\n")
    print(f"{'':16s} {'samples':>8s} {'ms per call':>11s} {'least':>8s} {'ms per sample':>14s}")
    for n in (1, 32, len(X_test)):
        repeats = max(5, options.repeats // max(n // 4, 1))
        for name, clf in classifiers.items():
            median, least = time_calls(lambda clf=clf, n=n: clf.predict(X_test[:n]), repeats)
            print(f"{name:16s} {n:8d} {median:11.3f} {least:8.3f} {median / n:14.4f}")
    print(f"\ntarget for one sample: at most {TARGET:g} ms")


if __name__ == "__main__":
    main()

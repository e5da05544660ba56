"""Every promise held to its number on synthetic classes: ``python -m benchmarks.promises``.

In each repetition classes are drawn, models are fitted to samples of them, and new samples are drawn that no model has
seen: one of each kind, so that the repetitions are independent and the number of broken promises is binomial. A promise
is kept if that number is not above the upper end of the binomial interval of the promised rate. One class is noisier
than the others, and one set of samples comes in groups with a shift of their own, so that plain rates would not do.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from benchmarks import report
from srosr import SROSRClassifier

RATE = 0.1
"""False rejection, one minus coverage, and false discovery rate that are promised."""
N_CLASSES, N_FEATURES, NOISY = 4, 16, 3
"""Known classes; the last one is noisier."""
PER_CLASS, N_GROUPS = 44, 28
CONFIDENCE = 0.999


@dataclass(frozen=True)
class Promise:
    """Something that is promised: what, for which samples, and at most how often it may be broken."""

    key: str
    what: str
    samples: str
    rate: float = RATE
    is_promised: bool = True


PROMISES = (
    Promise("rejected", "threshold by target_rejection", "known, classes as in training"),
    Promise("p_value", "p_value of at most the rate", "known, classes as in training"),
    *(Promise(f"class {k}", "class excluded by prediction_set", f"class {k}") for k in range(N_CLASSES)),
    *(Promise(f"own {k}", "class_p_values of at most the rate", f"class {k}") for k in range(N_CLASSES)),
    Promise("pooled noisy", "threshold by target_rejection", f"class {NOISY} alone", is_promised=False),
    Promise("fdr", "decide(fdr): share of known among rejected", "batches of 20 known, 10 unknown"),
    Promise("grouped", "threshold, fit(groups)", "known, of a new group"),
    Promise("ungrouped", "threshold, fitted without groups", "known, of a new group", is_promised=False),
    Promise("shifted before", "threshold by target_rejection", "known, after a change of domain", is_promised=False),
    Promise("shifted after", "threshold after recalibrate with 60 samples", "known, after a change of domain"),
)


class World:
    """Classes that are noisy low-dimensional subspaces around centers; those from ``N_CLASSES`` on are unknown."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.centers = 1.5 * rng.standard_normal((2 * N_CLASSES, N_FEATURES))
        self.directions = rng.standard_normal((2 * N_CLASSES, 2, N_FEATURES))
        self.noise = np.where(np.arange(2 * N_CLASSES) == NOISY, 1.1, 0.5)

    def draw(self, y: NDArray, offset: NDArray | float = 0.0) -> NDArray:
        """Return one sample of each of the classes."""
        mix = self.rng.standard_normal((len(y), 2))
        X = self.centers[y] + np.einsum("ij,ijk->ik", mix, self.directions[y])
        return X + self.noise[y][:, None] * self.rng.standard_normal(X.shape) + offset

    def draw_known(self, n: int) -> NDArray:
        """Return classes of known samples, all equally probable."""
        return self.rng.integers(0, N_CLASSES, n)


def repeat(seed: int) -> dict[str, float]:
    """Return how often each promise was broken in one repetition: 0 or 1, or a share."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        world = World(np.random.default_rng(seed))
        # Samples and their classes are drawn together, so that new ones are exchangeable with those of the split.
        y = np.repeat(np.arange(N_CLASSES), PER_CLASS)
        settings: dict[str, Any] = {
            "calibration": "split", "calibration_size": 0.5, "target_rejection": RATE, "n_repeats": 2, "n_jobs": 1,
            "random_state": seed,
        }  # fmt: skip
        clf = SROSRClassifier(**settings).fit(world.draw(y), y)
        return {**dict(_check_samples(world, clf)), **_check_groups(world, settings), **_check_domain(world, clf)}


def _check_samples(world: World, clf: SROSRClassifier) -> Iterator[tuple[str, float]]:
    new = world.draw(world.draw_known(1))
    yield "rejected", float(clf.decide(new).rejected[0])
    yield "p_value", float(clf.p_value(new)[0] <= RATE)
    each = world.draw(np.arange(N_CLASSES))
    contains, p_values = clf.prediction_set(each, 1.0 - RATE).contains, clf.class_p_values(each)
    for k in range(N_CLASSES):
        yield f"class {k}", float(not contains[k, k])
        yield f"own {k}", float(p_values[k, k] <= RATE)
    yield "pooled noisy", float(clf.decide(each[NOISY:]).rejected[0])
    batch = np.concatenate([world.draw(world.draw_known(20)), world.draw(N_CLASSES + world.draw_known(10))])
    rejected = clf.decide(batch, fdr=RATE).rejected
    yield "fdr", float(rejected[:20].sum() / max(rejected.sum(), 1))


def _check_groups(world: World, settings: dict[str, Any]) -> dict[str, float]:
    """Samples of one group are shifted together; the new one comes from a group of its own."""
    groups = np.repeat(np.arange(N_GROUPS), 6)
    shifts = 0.9 * world.rng.standard_normal((N_GROUPS + 1, N_FEATURES))
    y = world.draw_known(len(groups))
    X, new = world.draw(y, shifts[groups]), world.draw(world.draw_known(1), shifts[-1:])
    grouped = SROSRClassifier(**settings).fit(X, y, groups=groups)
    ungrouped = SROSRClassifier(**settings).fit(X, y)
    return {
        "grouped": float(grouped.decide(new).rejected[0]),
        "ungrouped": float(ungrouped.decide(new).rejected[0]),
    }


def _check_domain(world: World, clf: SROSRClassifier) -> dict[str, float]:
    """All samples are shifted after the fit."""
    shift = 0.8 * world.rng.standard_normal(N_FEATURES)
    new = world.draw(world.draw_known(1), shift)
    before = float(clf.decide(new).rejected[0])
    fresh = world.draw_known(60)
    clf.recalibrate(world.draw(fresh, shift), fresh)
    return {"shifted before": before, "shifted after": float(clf.decide(new).rejected[0])}


def run(repetitions: int, first_seed: int = 0, jobs: int = 1) -> dict[str, NDArray]:
    """Return how often each promise was broken in each repetition."""
    seeds = range(first_seed, first_seed + repetitions)
    found = Parallel(jobs)(delayed(repeat)(seed) for seed in seeds)
    return {promise.key: np.array([each[promise.key] for each in found]) for promise in PROMISES}


def find_limit(promise: Promise, broken: NDArray) -> float:
    """Return the largest mean that is compatible with the promise: the end of its binomial interval.

    Of a share, which is not binomial, four standard errors of its mean are added to the rate instead.
    """
    n = len(broken)
    if set(np.unique(broken)) <= {0.0, 1.0}:
        return float(binom.ppf(CONFIDENCE, n, promise.rate) / n)
    return promise.rate + 4 * float(broken.std(ddof=1)) / np.sqrt(n)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--repetitions", type=click.IntRange(10), default=1000, show_default=True)
@click.option("--first-seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
def main(repetitions: int, first_seed: int, jobs: int) -> None:
    """Hold every promise to its number over many repetitions; the exit status is 1 if one is broken."""
    out: Console = report.console()
    broken = run(repetitions, first_seed, jobs)
    table = report.new_table(out, "what may not happen", "for samples", "promised", "happened", "at most", "kept")
    kept = True
    for promise in PROMISES:
        mean, limit = float(broken[promise.key].mean()), find_limit(promise, broken[promise.key])
        verdict = "not promised" if not promise.is_promised else "yes" if mean <= limit else "NO"
        kept &= verdict != "NO"
        promised = f"{promise.rate:g}" if promise.is_promised else "–"
        table.add_row(promise.what, promise.samples, promised, f"{mean:.4f}", f"{limit:.4f}", verdict)
    report.show(out, f"Promises over {repetitions:,} repetitions", table)
    out.print(f"At most: the promised rate with the {CONFIDENCE:.1%} binomial interval of so many repetitions.")
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()

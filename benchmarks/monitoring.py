"""How often a monitor raises an alarm before a change, how soon after it, and how many p-values it takes a second.

    SROSR_DATA_DIR=data python -m benchmarks.monitoring

Every run has a stream of its own that changes at a known sample. The promise is that the share of runs with an alarm
before the change is at most the false-alarm rate, whether samples are compared with the stream alone or also with
calibration scores, which are drawn anew for each run from samples that the model was not fitted to. The synthetic
streams have normal scores whose mean moves. Those of MNIST have pictures of digits 0 to 5 of the test set, scored by a
recognizer of these digits; from the change on, pictures are rotated, blurred, or partly of the digits 6 to 9.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import click
import numpy as np

from benchmarks import report
from srosr import Decisions, Monitor, OpenSetClassifier, SROSRClassifier, load_mnist
from srosr.classifiers.base import RawPrediction
from srosr.datasets.dataset import DatasetError
from srosr.scoring.held_out_scores import HeldOutScores
from srosr.thresholds.p_values import CalibrationSplit

#: P-values per second that a monitor is to take, beyond the coding of samples.
TARGET = 20_000
REFERENCES = ("stream", "calibration")
TRAINING, KNOWN, UNKNOWN, CALIBRATION = 600, 3500, 1500, 300
ANGLE, BLUR, UNKNOWN_SHARE = 20.0, 1.0, 0.2


class ScoredModel(OpenSetClassifier):
    """A model whose samples are their own unknown scores, with given scores of a calibration split."""

    score_range: ClassVar[tuple[float, float]] = (-np.inf, np.inf)

    def __init__(
        self, threshold: Any = None, target_rejection: float = 0.05, per_class: bool = False, risk_weight: float = 1.0,
        unknown_label: Any = None,
    ) -> None:  # fmt: skip
        self.threshold, self.target_rejection, self.per_class = threshold, target_rejection, per_class
        self.risk_weight, self.unknown_label = risk_weight, unknown_label

    def _fit(self, X: Any, y: Any) -> None:
        self._scores = X[:, 0]

    def _calibration_split(self) -> CalibrationSplit:
        classes = np.arange(len(self._scores)) % 2
        return CalibrationSplit(self._scores, classes, classes)

    def _held_out_scores(self) -> HeldOutScores:
        none, classes = np.empty(0), np.arange(len(self._scores)) % 2
        return HeldOutScores(self._scores, classes, classes, none, none > 0, none > 0, *self.score_range)

    def _predict_raw(self, X: Any) -> RawPrediction:
        n = len(X)
        return RawPrediction(np.zeros(n, np.int64), X[:, 0], np.zeros((n, 2)), np.zeros(n, bool))


def make_model(scores: Any) -> ScoredModel:
    """Return a model with these calibration scores."""
    return ScoredModel().fit(np.asarray(scores)[:, None], np.arange(len(scores)) % 2)


@dataclass
class Outcome:
    """What happened in many runs: alarms before the change, delays of the others, distances of estimated changes."""

    runs: int = 0
    early: int = 0
    delays: list[int] = field(default_factory=list)
    distances: list[int] = field(default_factory=list)

    def add(self, monitor: Monitor, change: int) -> None:
        """Count a run."""
        self.runs += 1
        if monitor.alarm is None:
            return
        if monitor.alarm.sample < change:
            self.early += 1
        else:
            self.delays.append(monitor.alarm.sample - change)
            self.distances.append(abs(monitor.alarm.change - change))


#: A stream returns calibration scores, scores before and scores after the change.
Draw = Callable[[np.random.Generator, int, int], tuple[Any, Any, Any]]


def draw_normal(shift: float) -> Draw:
    """Return a stream of normal scores whose mean moves."""
    return lambda rng, before, after: (
        rng.normal(size=CALIBRATION), rng.normal(size=before), rng.normal(size=after) + shift
    )  # fmt: skip


def measure_alarms(draw: Draw, reference: str, options: dict[str, Any]) -> Outcome:
    """Run many streams."""
    found, change = Outcome(), options["change"]
    for run in range(options["runs"]):
        rng = np.random.default_rng([options["seed"], run])
        calibration, before, after = draw(rng, change, options["after"])
        monitor = Monitor(
            make_model(calibration), false_alarm_rate=options["rate"], reference=reference, random_state=run
        )
        monitor.update(np.concatenate([before, after])[:, None])
        found.add(monitor, change)
    return found


def score_mnist(seed: int) -> dict[str, Any]:
    """Return unknown scores of test pictures by what was done to them, the same pictures in each row."""
    from scipy.ndimage import gaussian_filter, rotate

    data, rng = load_mnist(download=False), np.random.default_rng(seed)
    known, test = data.y < 6, data.part == "test"
    train = rng.choice(np.flatnonzero(known & ~test), TRAINING, replace=False)
    clf = SROSRClassifier(random_state=0).fit(data.X[train].astype(np.float64), data.y[train])
    pictures = data.X[rng.choice(np.flatnonzero(known & test), KNOWN, replace=False)].reshape(-1, 28, 28).astype(float)
    unknown = data.X[rng.choice(np.flatnonzero(~known & test), UNKNOWN, replace=False)].astype(float)
    changed = {
        "known": pictures,
        "rotated": rotate(pictures, ANGLE, axes=(1, 2), reshape=False, order=1),
        "blurred": gaussian_filter(pictures, (0, BLUR, BLUR)),
        "unknown": unknown,
    }
    return {name: clf.unknown_score(X.reshape(len(X), -1)) for name, X in changed.items()}


def draw_pictures(scores: dict[str, Any], kind: str) -> Draw:
    """Return a stream of pictures that are different ones in each part."""

    def draw(rng: np.random.Generator, before: int, after: int) -> tuple[Any, Any, Any]:
        parts = np.split(rng.permutation(KNOWN), [CALIBRATION, CALIBRATION + before, CALIBRATION + before + after])
        later = scores["known" if kind == "unknown" else kind][parts[2]]
        if kind == "unknown":
            later = np.where(rng.random(after) < UNKNOWN_SHARE, rng.choice(scores["unknown"], after), later)
        return scores["known"][parts[0]], scores["known"][parts[1]], later

    return draw


def find_streams(mnist: bool, seed: int) -> Iterator[tuple[str, Draw]]:
    """Yield the streams with what changes in them."""
    for shift in (0.5, 1.0, 2.0):
        yield f"synthetic, mean + {shift:g}", draw_normal(shift)
    if not mnist:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = score_mnist(seed)
    except DatasetError as reason:
        click.echo(f"MNIST left out: {reason}")
        return
    yield f"MNIST, rotated by {ANGLE:g}°", draw_pictures(scores, "rotated")
    yield "MNIST, blurred", draw_pictures(scores, "blurred")
    yield f"MNIST, {100 * UNKNOWN_SHARE:g} % unknown digits", draw_pictures(scores, "unknown")


def measure_speed(batch: int, samples: int) -> float:
    """Return how many p-values a monitor takes a second, for batches of a size, with decisions already made."""
    rng = np.random.default_rng(0)
    model = make_model(rng.normal(size=CALIBRATION))
    decided = model.decide(rng.normal(size=(samples, 1)))
    columns = (decided.label, decided.candidate, decided.unknown_score, decided.rejected)
    parts = [Decisions(*(column[i : i + batch] for column in columns)) for i in range(0, samples, batch)]
    monitor = Monitor(model)
    monitor.record(parts[0])  # compiles
    started = time.perf_counter()
    for part in parts:
        monitor.record(part)
    return samples / (time.perf_counter() - started)


@click.command(help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--runs", type=click.IntRange(1), default=200, show_default=True, help="Streams of each kind.")
@click.option("--change", type=click.IntRange(1, 2000), default=1000, show_default=True, help="Sample of the change.")
@click.option("--after", type=click.IntRange(1, 1000), default=1000, show_default=True, help="Samples after it.")
@click.option("--rate", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True)
@click.option("--mnist/--no-mnist", default=True, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(mnist: bool, **options: Any) -> None:
    """Print both tables."""
    out = report.console()
    table = report.new_table(out, "batch", "p-values per second")
    speeds = {batch: measure_speed(batch, samples) for batch, samples in ((1, 20_000), (64, 100_000), (4096, 200_000))}
    for batch, speed in speeds.items():
        table.add_row(f"{batch:,}", f"{speed:,.0f}")
    report.show(out, f"Speed of recording decisions; target {TARGET:,} p-values per second in batches", table)
    columns = ("compared with", "alarm before", "alarm after", "delay: median", "90 %", "change found within: median")
    table = report.new_table(out, "stream", *columns, texts=("stream", "compared with"))
    for name, draw in find_streams(mnist, options["seed"]):
        for reference in REFERENCES:
            found = measure_alarms(draw, reference, options)
            late = found.delays or [np.nan]
            shares = (found.early / found.runs, len(found.delays) / found.runs)
            table.add_row(
                name, reference, *map(report.percent, shares),
                *(f"{np.quantile(late, q):.0f}" for q in (0.5, 0.9)), f"{np.median(found.distances or [np.nan]):.0f}",
            )  # fmt: skip
    title = f"{options['runs']} runs each; change at sample {options['change']:,}, then {options['after']:,} samples"
    report.show(out, f"{title}; promised: alarm before the change in at most {report.percent(options['rate'])}", table)


if __name__ == "__main__":
    main()

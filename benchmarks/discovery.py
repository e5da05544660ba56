"""Groups of rejected samples against the truth: ``python -m benchmarks.discovery``.

In every trial the recognizer is fitted to the known classes and decides on the test samples. Those that it rejects, of
unknown classes and some of known ones, are grouped by

- `srosr.discovery.discover_classes.discover`, with its defaults;
- HDBSCAN on the features, with its defaults (groups of at least five samples);
- k-means on the features with the true number of unknown classes, which nobody knows in practice;
- k-means with the number that has the largest silhouette.

All see the same samples, scaled to unit length as the recognizer scales them. The method was designed on the sets
marked so, with seeds from 100 on; the trials here have seeds from 0 on. No choice was made on MNIST and CLIP.

    python -m benchmarks.discovery
    python -m benchmarks.discovery --only mnist,clip --trials 10
    python -m benchmarks.discovery --only scale
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import report, trials
from benchmarks.large import memory_now, memory_peak, reset_peak
from benchmarks.problems import Unavailable, read_mnist
from benchmarks.timing import Record
from benchmarks.trials import TRIALS, Trial
from srosr import SROSRClassifier
from srosr.discovery.discover_classes import DiscoveryCollector, discover
from srosr.discovery.discovery import Discovery

N_TRIALS = 5
SCALE = "scale"
SCALE_SAMPLES = 10_000
"""Rejected samples that are to be grouped within `SCALE_SECONDS`, in `SCALE_BYTES` beyond the data."""
SCALE_SECONDS, SCALE_BYTES = 60.0, 2 * 2**30
SILHOUETTE_COUNTS = (*range(2, 21), 24, 28, 32, 40, 48, 60)
"""Numbers of groups among which the silhouette chooses."""
FOUND_SHARE = 0.5
"""A class is found if it has more than this share of a group."""


@dataclass(frozen=True)
class DiscoverySet:
    """A set of trials with the samples that they are drawn from, to look up the classes of unknown samples."""

    designed: bool
    read: Callable[[], tuple[NDArray, NDArray]]


def _read(files: tuple[str, ...]) -> tuple[NDArray, NDArray]:
    X, y = trials._arrays(files, "X", "y")
    return X, y


SETS = {
    "mnist": DiscoverySet(False, partial(read_mnist, "test")),
    "clip": DiscoverySet(False, partial(_read, trials.CLIP_FILES)),
    "usps": DiscoverySet(True, partial(_read, trials.USPS_FILES)),
    "letter": DiscoverySet(True, partial(_read, trials.LETTER_FILES)),
    "coil20": DiscoverySet(True, partial(_read, trials.COIL_FILES)),
    "yaleb": DiscoverySet(True, trials._yaleb),
    "orl": DiscoverySet(True, partial(_read, trials.ORL_FILES)),
}
"""Sets by the names of their trials; MNIST and CLIP first, which the method was not designed on."""


def find_classes(rows: NDArray, X: NDArray, y: NDArray) -> NDArray[np.int64]:
    """Return the class of each row, looked up among the samples of a set."""
    classes = {row.tobytes(): int(c) for row, c in zip(np.ascontiguousarray(X, np.float64), y, strict=True)}
    return np.array([classes[row.tobytes()] for row in np.ascontiguousarray(rows, np.float64)], np.int64)


def scale_to_unit(X: NDArray) -> NDArray[np.float64]:
    """Return rows of unit length; zero rows stay."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(lengths > 0, lengths, 1.0)


def run_hdbscan(X: NDArray, n_classes: int) -> NDArray:
    """Group by HDBSCAN with its defaults."""
    from sklearn.cluster import HDBSCAN

    return HDBSCAN(copy=True).fit(X).labels_


def run_kmeans(X: NDArray, n_classes: int) -> NDArray:
    """Group by k-means with the true number of classes."""
    from sklearn.cluster import KMeans

    return KMeans(min(n_classes, len(X)), n_init=10, random_state=0).fit_predict(X)


def run_kmeans_by_silhouette(X: NDArray, n_classes: int) -> NDArray:
    """Group by k-means with the number of groups that has the largest silhouette."""
    from sklearn.metrics import pairwise_distances, silhouette_score

    distances = pairwise_distances(X)
    np.fill_diagonal(distances, 0.0)
    found = [run_kmeans(X, k) for k in SILHOUETTE_COUNTS if k < len(X)]
    return max(found, key=lambda labels: silhouette_score(distances, labels, metric="precomputed"))


RIVALS: dict[str, Callable[[NDArray, int], NDArray]] = {
    "HDBSCAN": run_hdbscan,
    "k-means, true k": run_kmeans,
    "k-means, silhouette": run_kmeans_by_silhouette,
}
OURS = "discover"


def measure_groups(labels: NDArray, truth: NDArray, unknown: NDArray) -> Record:
    """Return how groups of rejected samples agree with the truth.

    Parameters
    ----------
    labels : ndarray (n_rejected,)
        The group of each sample, negative for noise, which counts as a group of its own in the adjusted Rand index.
    truth : ndarray (n_rejected,)
        Its class.
    unknown : ndarray of bool (n_rejected,)
        Whether that class is unknown to the recognizer.
    """
    from sklearn.metrics import adjusted_rand_score

    groups = [truth[labels == g] for g in np.unique(labels[labels >= 0])]
    majorities = [max((int(np.sum(members == c)), c) for c in np.unique(members)) for members in groups]
    n_grouped = int(np.sum(labels >= 0))
    new = set(truth[unknown].tolist())
    found = {c for (n, c), members in zip(majorities, groups, strict=True) if n > FOUND_SHARE * len(members)}
    return {
        "ari_unknown": float(adjusted_rand_score(truth[unknown], labels[unknown])),
        "ari_all": float(adjusted_rand_score(truth, labels)),
        "groups": len(groups),
        "classes": len(new),
        "found": len(found & new),
        "purity": sum(n for n, _ in majorities) / n_grouped if n_grouped else float("nan"),
        "noise": 1.0 - n_grouped / len(labels),
    }


def measure_tightness(found: Discovery, truth: NDArray) -> list[Record]:
    """Return size, tightness and purity of each group; ``truth`` has the class of every row."""
    out = []
    for group in found.groups:
        counts = np.unique(truth[group.rows], return_counts=True)[1]
        out.append({"size": group.size, "tight": group.is_tight, "pure": int(counts.max())})
    return out


def run_trial(name: str, seed: int, jobs: int) -> tuple[list[Record], list[Record]]:
    """Fit, decide and group by every method; return a record for each, and one for each group of ours."""
    trial: Trial = TRIALS[name].draw(seed)
    truth = find_classes(trial.X_test, *SETS[name].read())
    clf = SROSRClassifier(random_state=0, n_jobs=jobs).fit(trial.X, trial.y)
    decisions = clf.decide(trial.X_test)
    rejected = np.flatnonzero(decisions.rejected)
    unknown = trial.is_unknown[rejected]
    records = []
    start = time.perf_counter()
    collector = DiscoveryCollector(clf)
    collector.add(trial.X_test, decisions)
    found = collector.discover()
    labels = {OURS: (found.labels[rejected], time.perf_counter() - start)}
    X, n_classes = scale_to_unit(trial.X_test[rejected]), len(np.unique(truth[rejected][unknown]))
    for method, group in RIVALS.items():
        start = time.perf_counter()
        labels[method] = group(X, n_classes), time.perf_counter() - start
    for method, (own, seconds) in labels.items():
        where = {"set": name, "seed": seed, "method": method, "rejected": len(rejected), "seconds": seconds}
        records.append(where | measure_groups(own, truth[rejected], unknown))
    return records, [{"set": name, "seed": seed} | one for one in measure_tightness(found, truth)]


def make_table(out: Console, records: list[Record]) -> Table:
    """Return a line for each set and method: means over trials, with standard deviations of the Rand indices."""
    columns = ["set", "grouped by", "ARI, unknown", "ARI, all", "groups", "found", "purity", "noise", "seconds"]
    table = report.new_table(out, *columns, texts=("grouped by",))
    for name in dict.fromkeys(r["set"] for r in records):
        for method in (OURS, *RIVALS):
            own = [r for r in records if r["set"] == name and r["method"] == method]
            mean = {key: float(np.mean([r[key] for r in own])) for key in own[0] if key not in ("set", "method")}
            spread = {key: float(np.std([r[key] for r in own])) for key in ("ari_unknown", "ari_all")}
            table.add_row(
                name if method == OURS else "",
                method,
                *(f"{mean[key]:.3f} ± {spread[key]:.3f}" for key in ("ari_unknown", "ari_all")),
                f"{mean['groups']:.1f}",
                f"{mean['found']:.1f} of {mean['classes']:.1f}",
                *(f"{mean[key]:.2f}" for key in ("purity", "noise")),
                f"{mean['seconds']:.2g}",
            )
    return table


def make_tightness_table(out: Console, groups: list[Record]) -> Table:
    """Return the purity of tight and of loose groups of each set."""
    table = report.new_table(out, "set", "tight groups", "samples", "purity", "loose groups", "samples ", "purity ")
    for name in dict.fromkeys(g["set"] for g in groups):
        cells = []
        for tight in (True, False):
            own = [g for g in groups if g["set"] == name and g["tight"] is tight]
            size, pure = sum(g["size"] for g in own), sum(g["pure"] for g in own)
            cells += [str(len(own)), str(size), f"{pure / size:.2f}" if size else "–"]
        table.add_row(name, *cells)
    return table


def draw_rejected(n: int, jobs: int) -> tuple[SROSRClassifier, NDArray]:
    """Return a recognizer of six MNIST digits and ``n`` pictures of the others that it rejects."""
    trial = TRIALS["mnist"].draw(0)
    clf = SROSRClassifier(random_state=0, n_jobs=jobs).fit(trial.X, trial.y)
    X, y = read_mnist("train")
    others = X[~np.isin(y, np.unique(trial.y))].astype(np.float64)
    rejected = np.flatnonzero(clf.decide(others).rejected)[:n]
    return clf, others[rejected]


def measure_scale(n: int, jobs: int) -> Record:
    """Group ``n`` rejected pictures; return the time, deciding included, and the memory beyond the data."""
    clf, X = draw_rejected(n, jobs)
    discover(clf, X[:200])  # compiles
    reset_peak()
    before, start = memory_now(), time.perf_counter()
    found = discover(clf, X)
    seconds = time.perf_counter() - start
    return {"n": len(X), "seconds": seconds, "bytes": max(memory_peak() - before, 0), "groups": len(found)}


def _parse_sets(text: str | None) -> list[str]:
    names = list(SETS) if text is None else text.split(",")
    for name in names:
        if name not in (*SETS, SCALE):
            raise click.BadParameter(f"{name!r} is not one of {', '.join([*SETS, SCALE])}.", param_hint="--only")
    return names


@click.command()
@click.option("--only", metavar="NAMES", help=f"Sets, with commas between them, or {SCALE}.  [all sets]")
@click.option("--trials", "n_trials", type=click.IntRange(1), default=N_TRIALS, show_default=True)
@click.option("--samples", type=click.IntRange(200), default=SCALE_SAMPLES, show_default=True, help="For scale.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Threads.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write all records to this file.")
def main(only: str | None, n_trials: int, samples: int, jobs: int, path: Path | None) -> None:
    """Group rejected samples and compare the groups with the truth."""
    names, out = _parse_sets(only), report.console()
    records: list[Record] = []
    groups: list[Record] = []
    content: dict[str, Any] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in names:
                for seed in range(n_trials if name != SCALE else 0):
                    click.echo(f"{name}, trial {seed + 1} of {n_trials}", err=True)
                    ours, own = run_trial(name, seed, jobs)
                    records, groups = records + ours, groups + own
            if SCALE in names:
                content["scale"] = measure_scale(samples, jobs)
    except Unavailable as reason:
        raise click.ClickException(str(reason)) from None
    if records:
        title = f"Groups of rejected samples against the truth: means ± standard deviations of {n_trials} trials"
        report.show(out, title, make_table(out, records))
        designed = [name for name in names if name in SETS and SETS[name].designed]
        out.print(f"The method was designed on other trials of {', '.join(designed) or 'none of these'}.")
        report.show(
            out, "Share of the most frequent class in tight and loose groups", make_tightness_table(out, groups)
        )
    if SCALE in names:
        scale = content["scale"]
        for text, value, most in (
            (f"{scale['n']:,} rejected samples, seconds", scale["seconds"], SCALE_SECONDS),
            ("memory beyond the data, GiB", scale["bytes"] / 2**30, SCALE_BYTES / 2**30),
        ):
            out.print(f"{text}: {value:.3g}, at most {most:g}: {'yes' if value <= most else 'NO'}")
    if path is not None:
        report.write_json(path, {"environment": report.environment([]), "records": records, "groups": groups} | content)


if __name__ == "__main__":
    main()

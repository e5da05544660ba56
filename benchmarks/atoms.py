"""How small a dictionary may be: ``python -m benchmarks.atoms --figure atoms.png``.

The recognizer is fitted with a share of the training samples as atoms, chosen or learned by each of the samplers of
:mod:`srosr.atoms`, on the trials of `benchmarks.trials`; class scores and calibration use all samples. Records are
appended to a file as they are measured, so that a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import srosr
from benchmarks.methods import Answers, assess
from benchmarks.problems import Unavailable
from benchmarks.trials import TRIALS, Trial
from srosr import SROSRClassifier

Record = dict[str, Any]

RESULTS = Path(__file__).parent / "results" / "atoms.jsonl"
SHARES = (0.05, 0.1, 0.25, 0.5)
ALL = "all samples"
SAMPLERS = {
    "select": srosr.SelectAtoms,
    "learn": srosr.LearnAtoms,
    "k-means": srosr.KMeansAtoms,
    "random": srosr.RandomAtoms,
}
METRICS = {
    "auroc": "AUROC",
    "oscr": "OSCR",
    "f": "F at 5 %",
    "closed_accuracy": "closed-set accuracy",
    "size": "model file, share of all samples'",
    "predict_ms": "prediction, processor ms a sample",
}


def measure(trial: Trial, method: str, share: float, seed: int) -> Record:
    """Fit and test the recognizer with one small dictionary, on one thread; times are those of the processor."""
    found = None if method == ALL else SAMPLERS[method](n_atoms=share, random_state=seed)
    clf = SROSRClassifier(atoms=found, random_state=0, n_jobs=1)
    with warnings.catch_warnings(), threadpool_limits(1), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        started = time.process_time()
        clf.fit(trial.X, trial.y)
        fitted = time.process_time()
        decisions = clf.decide(trial.X_test)
        ended = time.process_time()
        clf.save(Path(folder) / "model")
        size = (Path(folder) / "model").stat().st_size
    answers = Answers(
        decisions.candidate, decisions.unknown_score, decisions.label, fitted - started, ended - fitted
    )  # fmt: skip
    record = assess(trial, answers)
    return {
        "method": method,
        "share": share,
        "seed": seed,
        "n_atoms": clf.dictionary_.n_atoms,
        "bytes": size,
        "predict_ms": 1e3 * (ended - fitted) / len(trial.X_test),
        **record,
    }


def read(path: Path) -> list[Record]:
    """Return the records of a file, none if it does not exist."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(sets: Iterable[str], methods: Iterable[str], shares: Iterable[float], seeds: Iterable[int], path: Path) -> None:
    """Measure what the file has not yet, and append it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["set"], r["method"], r["share"], r["seed"]) for r in read(path)}
    wanted = [(ALL, 1.0), *((m, s) for m in methods for s in shares)]
    for seed in seeds:
        for name in sets:
            missing = [(m, s) for m, s in wanted if (name, m, s, seed) not in done]
            if not missing:
                continue
            try:
                trial = TRIALS[name].draw(seed)
            except Unavailable as reason:
                click.echo(f"{name}: skipped, {reason}", err=True)
                continue
            for method, share in missing:
                record = {"set": name, **measure(trial, method, share, seed)}
                with path.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                click.echo(f"{name} seed {seed} {method} {share:g}: AUROC {record['auroc']:.4f}", err=True)


def average(records: list[Record], metric: str) -> dict[tuple[str, float], float]:
    """Return the mean of a metric over sets, for each method and share that has all trials of the others."""
    cells: dict[tuple[str, float], dict[tuple[str, int], float]] = defaultdict(dict)
    whole = {(r["set"], r["seed"]): r["bytes"] for r in records if r["method"] == ALL}
    for r in records:
        key = (r["set"], r["seed"])
        value = r["bytes"] / whole[key] if metric == "size" and key in whole else r.get(metric)
        if value is not None:
            cells[r["method"], r["share"]][key] = value
    complete = max((len(found) for found in cells.values()), default=0)
    out = {}
    for cell, found in cells.items():
        if len(found) == complete:
            by_set: dict[str, list[float]] = defaultdict(list)
            for (name, _), value in found.items():
                by_set[name].append(value)
            out[cell] = float(np.mean([np.mean(values) for values in by_set.values()]))
    return out


def draw(records: list[Record], path: Path) -> None:
    """Draw every metric against the share of atoms."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.6), layout="constrained")
    for ax, (metric, title) in zip(figure.subplots(2, 3).flat, METRICS.items(), strict=True):
        means = average(records, metric)
        for method in SAMPLERS:
            points = sorted((share, value) for (m, share), value in means.items() if m == method)
            if points:
                ours = method in ("select", "learn")
                ax.plot(
                    *zip(*points, strict=True), marker="o", markersize=4, label=method, zorder=3 if ours else 2,
                    linewidth=2.2 if ours else 1.2, linestyle="-" if ours else "--",
                )  # fmt: skip
        if (ALL, 1.0) in means:
            ax.axhline(means[ALL, 1.0], color="0.4", linewidth=1, label=ALL)
        ax.set_xscale("log")
        ax.set_xticks(SHARES, [f"{100 * share:g} %" for share in SHARES])
        ax.minorticks_off()
        ax.set_title(title)
        ax.grid(alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.supxlabel("share of the training samples that are atoms", fontsize="medium")
    figure.savefig(path, dpi=150)


@click.command(help=__doc__)
@click.option("--sets", default=",".join(n for n, s in TRIALS.items() if not s.extra), help="Sets, by commas.  [nine]")
@click.option("--methods", default=",".join(SAMPLERS), show_default=True, help="Samplers, by commas.")
@click.option("--shares", default=",".join(map(str, SHARES)), show_default=True, help="Shares of atoms, by commas.")
@click.option("--trials", default=3, show_default=True, help="Trials of each set.")
@click.option("--first-seed", default=0, show_default=True, help="Seed of the first trial.")
@click.option("--file", "path", type=click.Path(path_type=Path), default=RESULTS, help="Where records are kept.")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw all metrics into this file.")
def main(sets: str, methods: str, shares: str, trials: int, first_seed: int, path: Path, figure: Path | None) -> None:
    """Run the benchmark."""
    names, wanted = [part.strip() for part in sets.split(",")], [part.strip() for part in methods.split(",")]
    for kind, given, there in (("sets", names, TRIALS), ("methods", wanted, SAMPLERS)):
        for name in given:
            if name not in there:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(there)}.", param_hint=f"--{kind}")
    run(names, wanted, [float(s) for s in shares.split(",")], range(first_seed, first_seed + trials), path)
    records, console = read(path), Console()
    for metric, title in METRICS.items():
        means = average(records, metric)
        table = Table("", *(f"{100 * share:g} %" for share in SHARES), "all", title=f"{title}, mean of the sets")
        for method in [*SAMPLERS, ALL]:
            values = [means.get((method, share)) for share in (*SHARES, 1.0)]
            if any(value is not None for value in values):
                table.add_row(method, *("" if value is None else f"{value:.4f}" for value in values))
        console.print(table)
    if figure is not None:
        draw(records, figure)


if __name__ == "__main__":
    main()

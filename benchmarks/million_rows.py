"""Memory and time of ``srosr predict`` on a file larger than its buffer, and the share of reading and writing.

A model of 500 atoms in 64 dimensions (ten classes, each in its own subspace) classifies a CSV of a million rows, some
of them from an unknown class. The command runs in its own process, as a user starts it; its peak memory is what the
system reports. Reading and writing alone are timed in this process: the same file through the same reader, and as many
decisions through the same writer.

    python -m benchmarks.million_rows
    python -m benchmarks.million_rows --rows 100000
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from srosr import SROSRClassifier, load
from srosr.classifiers.base import Decisions
from srosr.tables.decision_files import DecisionWriter
from srosr.tables.formats import open_rows

N_FEATURES, N_CLASSES, N_ATOMS, DIMENSION = 64, 10, 500, 6
BLOCK = 20_000


def draw_samples(bases: np.ndarray, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw points near the subspaces of the classes, rounded to six decimals; the last class is the unknown one."""
    y = rng.integers(len(bases), size=n)
    inside = np.einsum("nij,nj->ni", bases[y], rng.normal(size=(n, DIMENSION)))
    return np.round(inside + 0.05 * rng.normal(size=inside.shape), 6), y


def write_table(path: Path, bases: np.ndarray, rng: np.random.Generator, n: int) -> None:
    """Write a CSV of n rows, block by block."""
    with open(path, "w") as file:
        file.write(",".join(f"f{j}" for j in range(N_FEATURES)) + "\n")
        for start in range(0, n, BLOCK):
            X, _ = draw_samples(bases, rng, min(BLOCK, n - start))
            np.savetxt(file, X, fmt="%.6f", delimiter=",")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder for the files, 0.6 KB per row; they are removed afterwards.  [the system's temporary folder]",
)
def main(rows: int, folder: Path | None) -> None:
    """Measure memory and time of srosr predict on a table of many rows, and the time of reading and writing alone."""
    rng = np.random.default_rng(0)
    bases = np.linalg.qr(rng.normal(size=(N_CLASSES + 1, N_FEATURES, DIMENSION)))[0]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        X, y = draw_samples(bases[:-1], rng, N_ATOMS)
        model = place / "model.srosr"
        SROSRClassifier(n_repeats=5, random_state=0, n_jobs=-1).fit(X, y).save(model)
        table, decisions = place / "rows.csv", place / "decisions.csv"
        write_table(table, bases, rng, rows)
        size = f"{table.stat().st_size / 1e6:,.0f} MB of CSV"
        print(f"{rows:,} rows × {N_FEATURES} features, {size}; {N_ATOMS} atoms")
        start = time.perf_counter()
        command = [sys.executable, "-m", "srosr", "predict", str(model), str(table), "-o", str(decisions)]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode:
            sys.exit(answer.stderr)
        whole = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(answer.stderr.strip().split(" Decisions:")[0])
        print(f"the whole command      {whole:8.1f} s")
        print(f"peak memory            {peak:8.0f} MiB (target: under 1,024)")
        read = time_reading(table)
        write = time_writing(place / "again.csv", rows, load(model).classes_)
        print(f"reading alone          {read:8.1f} s")
        print(f"writing alone          {write:8.1f} s")
        share = (read + write) / whole
        print(f"reading and writing    {read + write:8.1f} s (target: under 30 s), {share:.1%} of the whole")


def time_reading(table: Path) -> float:
    """Return the seconds to read all rows as predict does."""
    start = time.perf_counter()
    source = open_rows(table, labels="no", features=N_FEATURES)
    n = sum(len(rows.X) for rows in source.batches(4160))
    assert n > 0
    return time.perf_counter() - start


def time_writing(path: Path, n: int, classes: np.ndarray) -> float:
    """Return the seconds to write n decisions as predict does."""
    rng = np.random.default_rng(1)
    start = time.perf_counter()
    with open(path, "wb") as file:
        writer = DecisionWriter(file, "csv")
        for first in range(0, n, 8388):
            size = min(8388, n - first)
            candidate = classes[rng.integers(len(classes), size=size)]
            rejected = rng.random(size) < 0.1
            label = np.where(rejected, -1, candidate)
            writer.write(np.arange(first, first + size), Decisions(label, candidate, rng.random(size), rejected), {})
        writer.close()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

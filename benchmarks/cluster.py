"""One against two Dask workers on the same parts, and what a killed worker costs.

A model of 500 atoms in 64 dimensions, as in ``benchmarks.million_rows``, decides on a table in Parquet parts: by
``srosr predict`` in one process, then on a Dask scheduler with one worker and with two, each of one thread. Every
worker has decided on small parts before the clock starts, so that it has loaded the library and its compiled code. The
files of decisions must be the same, byte for byte.

    python -m benchmarks.cluster
    python -m benchmarks.cluster --kill          one of the two workers is killed after a third of the parts
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import numpy as np
import pandas as pd

from benchmarks.million_rows import DIMENSION, N_ATOMS, N_CLASSES, N_FEATURES, draw_samples
from srosr import SROSRClassifier

TARGET = 1.7
_PATIENCE = 120.0


def write_parts(folder: Path, bases: np.ndarray, rng: np.random.Generator, n_parts: int, rows: int) -> None:
    """Write a table in Parquet files of so many rows."""
    folder.mkdir()
    for number in range(n_parts):
        X, _ = draw_samples(bases, rng, rows)
        table = pd.DataFrame(X, columns=[f"f{j}" for j in range(N_FEATURES)])
        table.to_parquet(folder / f"part-{number:03d}.parquet", index=False)


class Workers:
    """A scheduler and workers of one thread on this machine; each is a process of its own."""

    def __init__(self, folder: Path, n_workers: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self._log = open(folder / f"dask-{n_workers}.log", "wb")  # noqa: SIM115 - closed by end
        self._folder = folder
        common = ("--no-dashboard", "--host", "127.0.0.1")
        self.scheduler = self._start("scheduler", *common, "--port", str(port))
        # Without a nanny, which would start a worker that is killed again.
        options = (*common, "--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
        self.workers = [self._start("worker", self.address, *options) for _ in range(n_workers)]

    def _start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options]
        return subprocess.Popen(
            command, stdout=self._log, stderr=self._log, cwd=self._folder, env=os.environ | one_thread
        )

    def wait(self) -> None:
        """Wait until the scheduler has all workers."""
        from distributed import Client

        end = time.monotonic() + _PATIENCE
        while True:
            with suppress(OSError), Client(self.address, timeout=5, set_as_default=False) as client:
                client.wait_for_workers(len(self.workers), timeout=_PATIENCE)
                return
            if time.monotonic() > end:
                raise TimeoutError("the workers do not start")

    def end(self) -> None:
        """End all processes."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
        self._log.close()


@contextmanager
def start_workers(folder: Path, n_workers: int) -> Iterator[Workers]:
    """Start a scheduler and workers, and end them."""
    workers = Workers(folder, n_workers)
    try:
        workers.wait()
        yield workers
    finally:
        workers.end()


def predict(place: Path, data: str, out: str, *options: str, victim: subprocess.Popen[bytes] | None = None) -> float:
    """Run ``srosr predict`` as a user does, print what it prints, and return its seconds.

    A ``victim`` is killed after a third of the parts.
    """
    arguments = ["srosr", "predict", "model.srosr", data, "-o", out, *options]
    if data == "parts":
        print(f"$ {' '.join(arguments)}")
    n_parts = len(list((place / data).iterdir()))
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", *arguments], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        while victim is not None and process.poll() is None:
            done = len(list((place / out).glob("*.parquet")))
            if done >= max(1, n_parts // 3):
                victim.send_signal(signal.SIGKILL)
                victim.wait()
                seconds = time.perf_counter() - start
                print(f"  … {seconds:.1f} s: {done} of {n_parts} parts are done, worker {victim.pid} is killed")
                break
            time.sleep(0.05)
        output, _ = process.communicate()
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(output)
    if data == "parts":
        print(f"{output.strip()}\n")
    return seconds


def are_same(one: Path, other: Path) -> bool:
    """Return whether two folders hold the same files, byte for byte."""
    left, right = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (one, other))
    return bool(left) and left == right


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--parts", "n_parts", type=click.IntRange(3), default=24, show_default=True)
@click.option("--rows", type=click.IntRange(1), default=10_000, show_default=True, help="Rows of each part.")
@click.option("--kill", is_flag=True, help="Kill one of the two workers after a third of the parts.")
def main(n_parts: int, rows: int, kill: bool) -> None:
    """Time srosr predict on one and on two Dask workers, and compare what they write."""
    rng = np.random.default_rng(0)
    bases = np.linalg.qr(rng.normal(size=(N_CLASSES + 1, N_FEATURES, DIMENSION)))[0]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        X, y = draw_samples(bases[:-1], rng, N_ATOMS)
        SROSRClassifier(n_repeats=5, random_state=0, n_jobs=-1).fit(
            pd.DataFrame(X, columns=[f"f{j}" for j in range(N_FEATURES)]), y
        ).save(place / "model.srosr")
        write_parts(place / "parts", bases, rng, n_parts, rows)
        write_parts(place / "warm", bases, rng, 8, 200)
        print(f"{n_parts} parts of {rows:,} rows × {N_FEATURES} features; {N_ATOMS} atoms; {os.cpu_count()} cores\n")
        here = predict(place, "parts", "here")
        seconds = {}
        for n_workers in (1, 2):
            with start_workers(place, n_workers) as workers:
                cluster = ("--cluster", workers.address)
                predict(place, "warm", f"warm-{n_workers}", *cluster)
                victim = workers.workers[-1] if kill and n_workers == 2 else None
                seconds[n_workers] = predict(place, "parts", f"out-{n_workers}", *cluster, victim=victim)
        same = all(are_same(place / "here", place / f"out-{n_workers}") for n_workers in (1, 2))
    print(f"one process, a thread per core   {here:8.1f} s")
    print(f"one worker                       {seconds[1]:8.1f} s")
    print(f"two workers{', one of them killed' if kill else '':22s}{seconds[2]:8.1f} s")
    ratio = seconds[1] / seconds[2]
    print(f"one over two                     {ratio:8.2f}{'' if kill else f' (target: at least {TARGET})'}")
    print(f"all three wrote {'the same files, byte for byte' if same else 'different files'}")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()

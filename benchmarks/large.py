"""Large dictionaries within a memory limit: ``python -m benchmarks.large``.

All training pictures of six MNIST digits are atoms (about 36,000 of 784 features: an N×N Gram matrix would
take 10 GiB), and 1,000 test pictures are queries. Every problem runs in its own process, so that its peak memory can be
measured; the codes are then checked.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.code_checks import check_codes
from benchmarks.opponents import ours
from benchmarks.problems import Problem, Unavailable, describe, mnist, read_mnist
from benchmarks.timing import Record, clock, warm_up
from srosr import BPDN, Lasso

RESULTS = Path(__file__).parent / "results" / "large.json"
PROBLEMS: tuple[Problem, ...] = (Lasso(0.05), BPDN(0.3))
LIMIT = 2 * 2**30
"""Bytes allowed beyond the data."""
ALL = 10_000
"""More pictures than MNIST has of any digit."""


def _status(key: str) -> int | None:
    """Return an entry of Linux' process status in bytes (VmRSS: now, VmHWM: peak), or None on other systems."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":")), None)


def memory_now() -> int:
    """Return the resident bytes after releasing free memory or, on systems other than Linux, the peak so far."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    now = _status("VmRSS")
    return memory_peak() if now is None else now


def reset_peak() -> None:
    """Reset the recorded peak if the system allows it; otherwise earlier peaks count too."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def memory_peak() -> int:
    """Return the largest number of resident bytes so far."""
    peak = _status("VmHWM")
    if peak is not None:
        return peak
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def measure_large(problem: Problem, n_queries: int, per_class: int, threads: int) -> Record:
    """Solve one problem in this process; return time, memory beyond the data, and the checks of the codes.

    The warm-up, including compilation, counts toward the memory but not toward the time.
    """
    data = mnist(n_queries=n_queries, per_class=per_class)
    with threadpool_limits(threads):
        before = memory_now()
        reset_peak()
        warm_up(ours, data.atoms, data.queries, problem, threads)
        seconds, codes = clock(lambda: ours.solve(data.atoms, data.queries, problem, threads))
        beyond = memory_peak() - before
    with threadpool_limits(1):
        verdict = check_codes(data.atoms, data.queries, problem, codes)
    return {
        "problem": describe(problem),
        "n_atoms": len(data.atoms),
        "n_features": data.atoms.shape[1],
        "n": len(data.queries),
        "threads": threads,
        "seconds": seconds,
        "ms_per_sample": 1e3 * seconds / len(data.queries),
        "data_bytes": data.atoms.nbytes + data.queries.nbytes,
        "bytes_beyond_data": beyond,
        "certified": float(verdict.certified.mean()),
        "infeasible": float(verdict.infeasible.mean()),
        "worst_gap": float(verdict.gap.max()),
        "worst_violation": float(verdict.violation.max()),
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--queries", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--per-class", type=click.IntRange(1), default=ALL, help="Atoms of each digit; all by default.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=RESULTS,
    help="Where the records go.  [benchmarks/results/large.json]",
)
def main(queries: int, per_class: int, threads: int, path: Path) -> None:
    """Code MNIST queries over all training pictures of six digits, within 2 GiB beyond the data."""
    out = report.console()
    try:
        read_mnist("test")
    except Unavailable as reason:
        raise click.ClickException(str(reason)) from None
    title = f"Training pictures of six MNIST digits as atoms, {queries} queries, threads: {threads}"
    table = report.new_table(
        out,
        *("problem", "atoms", "seconds", "ms/sample", "certified", "worst gap", "violation"),
        *("MiB beyond data", "at most 2048"),
    )
    records = []
    for problem in PROBLEMS:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
            r = fresh.submit(measure_large, problem, queries, per_class, threads).result()
        records.append(r)
        table.add_row(
            r["problem"],
            str(r["n_atoms"]),
            f"{r['seconds']:.1f}",
            f"{r['ms_per_sample']:.3g}",
            report.percent(r["certified"]),
            f"{r['worst_gap']:.1e}",
            f"{r['worst_violation']:.1e}",
            f"{r['bytes_beyond_data'] / 2**20:.0f}",
            "yes" if r["bytes_beyond_data"] <= LIMIT else "NO",
        )
    report.show(out, title, table)
    report.write_json(path, {"environment": report.environment([ours]), "records": records})


if __name__ == "__main__":
    main()

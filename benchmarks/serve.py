"""Latency, throughput, errors and memory of `srosr serve`, over HTTP on loopback.

    SROSR_DATA_DIR=data python -m benchmarks.serve

The server is the real command in a process of its own; the client is urllib3. The model is that of benchmarks.latency:
512 faces of ten persons of Extended Yale B (32 × 32 pixels), or digits with --data digits. Measuring begins when the
child processes of the server have started, which takes seconds in which it serves already.

\b
Latency      requests of one sample as JSON arrive at random times (Poisson) at a fixed rate, whether or not earlier
             ones are answered. A latency counts from the planned time, so that waiting in a queue is part of it.
             Beside them stands what it is made of: an answer without work (/healthz) at the same rate, and `decide` in
             this process without pauses, and with pauses as between requests, in which caches of the processor empty.
Throughput   batches as NPY and JSON, in turns with `decide` in this process on the same rows and threads.
Mixed        requests of all kinds over several connections, also invalid ones, each with the status that it must get.
             The memory is that of the server and its children.
Swaps        the model file is replaced again and again, by another model and at times by a broken file, while
             requests arrive: each must be answered, and as the model of the version that the answer names would.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks import report
from benchmarks.serve_case import JSON, NPY, Case, check, make_case, make_line, to_json, to_npy
from benchmarks.serve_load import measure_mixed, measure_swaps
from benchmarks.server_process import ServerProcess
from srosr.datasets.dataset import DatasetError

#: What a run is to reach: milliseconds, and the share of the throughput in process.
P50, P99, SHARE = 5.0, 25.0, 0.7
COVERAGE = 0.95
BATCHES = (256, 1024, 4096)
JSON_ROWS = 1024
"""Rows of a batch as JSON: text of many more would be over the limit of a body."""
THREADS = 16
SWAP = 0.5


def wait_for_children(server: ServerProcess, case: Case) -> None:
    """Send what the children do, as often at a time as there are children, so that all of them have started."""
    requests = [("explain", to_json(case.samples[0]), JSON), ("decide?record=false", to_npy(case.take(64)), NPY)]
    with ThreadPoolExecutor(THREADS) as threads:
        sent = [
            threads.submit(server.request, "POST", f"/v1/models/model/{path}", body, kind)
            for path, body, kind in requests * THREADS
        ]
        for answer in sent:
            check(answer.result())


# -- latency ----------------------------------------------------------------------------------------------


def send_on_schedule(send: Callable[[int], object], n: int, rate: float, seed: int = 0) -> np.ndarray:
    """Send n requests at random times and return the seconds from each planned time to the answer."""
    planned = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, n))
    taken, turn = np.empty(n), iter(range(n))
    lock, started = threading.Lock(), time.perf_counter() + 0.1

    def work() -> None:
        while True:
            with lock:
                i = next(turn, None)
            if i is None:
                return
            pause = started + planned[i] - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            send(i)
            taken[i] = time.perf_counter() - started - planned[i]

    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(work) for _ in range(THREADS)]:
            done.result()
    return taken


def time_in_process(case: Case, n: int, coverage: float | None, rate: float | None = None) -> np.ndarray:
    """Return the seconds of n calls of `decide` for one sample, with random pauses at a rate."""
    samples, taken = case.take(n), np.empty(n)
    pauses = np.zeros(n) if rate is None else np.random.default_rng(0).exponential(1 / rate, n)
    for i in range(n):
        time.sleep(pauses[i])
        started = time.perf_counter()
        case.clf.decide(samples[i : i + 1], coverage=coverage)
        taken[i] = time.perf_counter() - started
    return taken


def measure_latency(out: Any, server: ServerProcess, case: Case, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Print the table of latencies; return the lines of the summary."""
    table = report.new_table(out, "one sample", "requests", "p50 ms", "p90 ms", "p99 ms", "max ms")
    found = {}
    n, rate = options["requests"], options["rate"]
    samples = case.take(min(n, 1000))
    for coverage in (COVERAGE, None):
        bodies = [to_json(x, coverage=coverage) for x in samples]
        path = "/v1/models/model/decide"

        def send(i: int, bodies: list[bytes] = bodies, path: str = path) -> None:
            check(server.request("POST", path, bodies[i % len(bodies)], JSON))

        send_on_schedule(send, min(n, 200), rate)  # warms up
        what = "with prediction sets" if coverage else "without"
        few = min(n, 1000)
        rows = [
            (f"HTTP, {rate:g} a second, {what}", send_on_schedule(send, n, rate)),
            (f"decide in process, {what}", time_in_process(case, few, coverage)),
            (f"decide in process with pauses, {what}", time_in_process(case, few, coverage, rate)),
        ]
        if coverage is None:
            idle = send_on_schedule(lambda i: check(server.request("GET", "/healthz")), few, rate)
            rows.append((f"HTTP, {rate:g} a second, no work", idle))
        for name, taken in rows:
            found[name] = np.quantile(1000 * taken, (0.5, 0.9, 0.99, 1))
            table.add_row(name, f"{len(taken):,}", *(f"{value:.2f}" for value in found[name]))
    report.show(out, "Latency from the planned time", table)
    p50, _, p99, _ = found[f"HTTP, {rate:g} a second, with prediction sets"]
    where = f"{n:,} requests, {rate:g} a second"
    return [
        make_line("latency of one sample, p50 ms", f"at most {P50:g}", p50, where, p50 <= P50),
        make_line("latency of one sample, p99 ms", f"at most {P99:g}", p99, where, p99 <= P99),
    ]


# -- throughput -------------------------------------------------------------------------------------------


def measure_throughput(out: Any, server: ServerProcess, case: Case, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Print the table of throughputs; return the lines of the summary."""
    columns = ("prediction sets", "HTTP samples/s", "in process", "share")
    table = report.new_table(out, "body", *columns, texts=("prediction sets",))
    lines = []
    for rows, kind in [*((n, NPY) for n in options["batches"]), (min(JSON_ROWS, options["batches"][-1]), JSON)]:
        for coverage in (COVERAGE, None):
            X = case.take(rows)
            body = to_npy(X) if kind == NPY else to_json(X, coverage=coverage, record=False)
            query = f"?record=false&coverage={coverage or 0}" if kind == NPY else ""
            path = f"/v1/models/model/decide{query}"
            times: tuple[list[float], list[float]] = ([], [])
            for turn in range(options["repeats"] + 1):
                started = time.perf_counter()
                answer = check(server.request("POST", path, body, kind))
                middle = time.perf_counter()
                decisions = case.clf.decide(X, coverage=coverage)
                if turn == 0:  # warms up, and checks the answers
                    check_answer(answer, decisions)
                    continue
                times[0].append(middle - started)
                times[1].append(time.perf_counter() - middle)
            over, inside = (rows / float(np.median(part)) for part in times)
            # A neighbor of each other in time: what else the machine does weighs on both.
            share = float(np.median(np.divide(times[1], times[0])))
            name = f"{'NPY' if kind == NPY else 'JSON'}, {rows:,} rows"
            table.add_row(name, "yes" if coverage else "no", f"{over:,.0f}", f"{inside:,.0f}", f"{share:.2f}")
            if kind == NPY:
                where = f"{name}, {'with' if coverage else 'without'} prediction sets"
                lines.append(
                    make_line("throughput over in process", f"at least {SHARE:g}", share, where, share >= SHARE)
                )
    report.show(out, f"Throughput, in turns, median of {options['repeats']}", table)
    return lines


def check_answer(answer: bytes, decisions: Any) -> None:
    """Raise an error if decisions over HTTP are not those in process."""
    got = json.loads(answer)["decisions"]
    scores = np.array([decision["unknown_score"] for decision in got], dtype=float)
    candidates = [decision["candidate"] for decision in got]
    # A score may differ in its last bits by the samples that it was computed with.
    if not np.allclose(scores, decisions.unknown_score, rtol=0, atol=1e-9) or candidates != [
        str(c) for c in decisions.candidate
    ]:
        raise RuntimeError("the server does not decide as this process does")


MEASURES = {
    "latency": measure_latency,
    "throughput": measure_throughput,
    "mixed": measure_mixed,
    "swaps": measure_swaps,
}
#: What --quick makes of the options: a run of seconds, whose times mean nothing.
QUICK = {
    "data": "digits",
    "requests": 60,
    "batches": (64, 256),
    "repeats": 1,
    "mixed": 100,
    "seconds": 4.0,
    "swap": 0.3,
}


@click.command(help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("measures", nargs=-1, type=click.Choice(list(MEASURES)))
@click.option("--data", type=click.Choice(["yaleb", "digits"]), default="yaleb", show_default=True)
@click.option("--requests", type=click.IntRange(10), default=3000, show_default=True, help="Of one sample.")
@click.option("--rate", type=click.FloatRange(1), default=100.0, show_default=True, help="Requests a second.")
@click.option("--repeats", type=click.IntRange(1), default=9, show_default=True, help="Turns of each batch.")
@click.option("--mixed", type=click.IntRange(100), default=10_000, show_default=True, help="Mixed requests.")
@click.option("--seconds", type=click.FloatRange(1), default=30.0, show_default=True, help="Of swaps under load.")
@click.option(
    "--swap", type=click.FloatRange(0.05), default=SWAP, show_default=True, help="Seconds between two files, about."
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Threads, here and in the server.")
@click.option("--out", "json_path", type=click.Path(path_type=Path), help="Also write the summary as JSON.")
@click.option("--quick", is_flag=True, help="A short run on digits, to see that everything works.")
def main(measures: tuple[str, ...], json_path: Path | None, quick: bool, **options: Any) -> None:
    """Measure, and print the tables and what was reached."""
    out = report.console()
    options["batches"] = BATCHES
    if quick:
        options |= QUICK
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        try:
            case = make_case(options["data"], Path(name), options["jobs"])
        except DatasetError as reason:
            raise click.ClickException(str(reason)) from None
        atoms, features = len(case.clf.dictionary_.labels), case.samples.shape[1]
        out.print(f"{options['data']}: {atoms} atoms of {features} features, {options['jobs']} thread(s)")
        with ServerProcess([str(case.path), "--jobs", str(options["jobs"])], THREADS) as server:
            wait_for_children(server, case)
            for measure in measures or MEASURES:
                lines += MEASURES[measure](out, server, case, options)
    if quick:  # the times of so short a run mean nothing
        lines = [line if line["target"] == "0" else line | {"met": None} for line in lines]
    report.show(out, "Targets", report.summary_table(out, lines))
    if json_path is not None:
        report.write_json(json_path, {"environment": report.environment([]), "summary": lines})
    if any(line["met"] is False for line in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

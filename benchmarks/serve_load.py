"""Mixed requests, and a model that is replaced under load, for the benchmark of the server."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.serve_case import CSV, JSON, NPY, Case, make_line, to_csv, to_json, to_npy
from benchmarks.server_process import ServerProcess, replace_file
from srosr import load

GROWTH = 1.05
"""The most that memory may grow once it has settled."""
CONNECTIONS = 8
BROKEN = 3.0
"""Seconds that a broken file stays, so that the server looks at it twice and says so."""


# -- mixed requests ---------------------------------------------------------------------------------------

#: A request and the status that it must get: method, path, body, media type, status.
Request = tuple[str, str, bytes | None, str | None, int]


def make_requests(case: Case, explain: bool = True) -> list[tuple[float, list[Request]]]:
    """Return kinds of requests with their shares."""
    X, model = case.samples, "/v1/models/model"
    decide = f"{model}/decide"
    wide = to_json(np.zeros((1, X.shape[1] + 1)))
    good = [
        (0.5, [("POST", decide, to_json(X[i]), JSON, 200) for i in range(50)]),
        (0.08, [("POST", decide, to_json(X[i : i + 20]), JSON, 200) for i in range(20)]),
        (0.05, [("POST", f"{decide}?header=false", to_csv(X[i : i + 10]), CSV, 200) for i in range(20)]),
        (0.08, [("POST", decide, to_npy(X[i : i + 64]), NPY, 200) for i in range(20)]),
        (0.004 if explain else 0.0, [("POST", f"{model}/explain", to_json(X[i]), JSON, 200) for i in range(20)]),
        (0.1, [("GET", path, None, None, 200) for path in ("/v1/models", model, f"{model}/scores", "/metrics")]),
        (0.05, [("GET", path, None, None, 200) for path in ("/healthz", "/readyz", "/", "/openapi.json")]),
    ]
    bad: list[Request] = [
        ("POST", decide, b'{"samples": [[1, 2', JSON, 400),
        ("POST", decide, b'{"samples": [["a"]]}', JSON, 422),
        ("POST", decide, wide, JSON, 422),
        ("POST", decide, b"x", "application/x-unheard-of", 415),
        ("POST", decide, b"no array", NPY, 422),
        ("POST", "/v1/models/other/decide", to_json(X[0]), JSON, 404),
        ("GET", "/v1/models/..%2f..%2fetc%2fpasswd", None, None, 404),
        ("GET", decide, None, None, 405),
    ]
    return [*good, (0.1, bad)]


def measure_mixed(out: Any, server: ServerProcess, case: Case, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Print errors and memory of mixed requests; return the lines of the summary."""
    n, kinds = options["mixed"], make_requests(case)
    rng = np.random.default_rng(0)
    shares = np.array([share for share, _ in kinds])
    chosen = rng.choice(len(kinds), n, p=shares / shares.sum())
    plan = [kinds[kind][1][rng.integers(len(kinds[kind][1]))] for kind in chosen]
    wrong: Counter[str] = Counter()

    def send(request: Request) -> None:
        method, path, body, kind, status = request
        try:
            got, content = server.request(method, path, body, kind)
        except Exception as error:
            wrong[f"{method} {path}: {type(error).__name__}"] += 1
            return
        if got != status:
            wrong[f"{method} {path}: {got} instead of {status}: {content[:120]!r}"] += 1

    steps = 10
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        # The first requests of each kind load modules and models, in the server and in each child.
        list(threads.map(send, [request for _, requests in kinds for request in requests[:1] * 4 * CONNECTIONS]))
        memory, started = [server.measure_memory()], time.perf_counter()
        for part in np.array_split(np.arange(n), steps):
            list(threads.map(send, [plan[i] for i in part]))
            memory.append(server.measure_memory())
    seconds = time.perf_counter() - started
    table = report.new_table(out, "requests", "memory MB")
    for step, megabytes in enumerate(memory):
        table.add_row(f"{n * step // steps:,}", f"{megabytes:.0f}")
    title = f"Mixed requests over {CONNECTIONS} connections: {n:,} in {seconds:.0f} s"
    report.show(out, title, table)
    for what, count in wrong.most_common(5):
        out.print(f"{count} × {what}")
    settled = memory[steps // 5 :]
    growth = max(settled[-3:]) / max(settled[0], 1e-9)
    slope = float(np.polyfit(np.arange(len(settled)) * n / steps / 1000, settled, 1)[0])
    where = f"from {n // 5:,} requests on; {slope:+.2f} MB per 1,000 requests"
    errors = sum(wrong.values())
    return [
        make_line("mixed requests with another status", "0", errors, f"{n:,} requests", errors == 0),
        make_line("memory at the end over settled", f"at most {GROWTH:g}", growth, where, growth <= GROWTH),
    ]


# -- a model that is replaced under load ------------------------------------------------------------------


@contextmanager
def replace_again_and_again(path: Path, contents: list[bytes], holds: list[float]) -> Iterator[Counter[int]]:
    """Replace a file by each content in turn, in a thread; yield how often each was written.

    Each stays for about its time in ``holds``: not exactly, since the server looks at the file at regular times.
    """
    written: Counter[int] = Counter()
    stop, rng = threading.Event(), np.random.default_rng(0)

    def work() -> None:
        turn = 0
        while not stop.wait(holds[turn % len(holds)] * rng.uniform(0.5, 1.5)):
            turn += 1
            replace_file(path, contents[turn % len(contents)])
            written[turn % len(contents)] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield written
    finally:
        stop.set()
        thread.join()
        replace_file(path, contents[0])


def read_version(path: Path) -> str:
    """Return the version by which the server names a model file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def measure_swaps(out: Any, server: ServerProcess, case: Case, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Print what happened to requests while the model was replaced; return the lines of the summary."""
    X = case.samples[:50]
    other_path = case.path.with_name("other.srosr")
    other = load(case.path)
    other.set_threshold(target_rejection=0.5)
    other.save(other_path)
    expected = {}
    for path, clf in ((case.path, case.clf), (other_path, other)):
        expected[read_version(path)] = [str(label) for label in clf.decide(X).label]
    # Otherwise an answer of the wrong model would look right.
    if len({tuple(labels) for labels in expected.values()}) != 2:
        raise RuntimeError("the two models decide alike")
    bodies = [to_json(x) for x in X]
    unknown = str(case.clf.unknown_label_)
    seen: list[str] = []
    outcome: Counter[str] = Counter()
    problems: set[str] = set()
    end = time.monotonic() + options["seconds"]

    def work(start: int) -> None:
        i = start
        while time.monotonic() < end:
            i = (i + 1) % len(X)
            try:
                status, content = server.request("POST", "/v1/models/model/decide", bodies[i], JSON)
            except Exception as error:
                outcome[f"dropped: {type(error).__name__}"] += 1
                continue
            outcome["requests"] += 1
            if status != 200:
                outcome[f"dropped: {status} {content[:100]!r}"] += 1
                continue
            answer = json.loads(content)
            label = answer["decisions"][0]["label"]
            seen.append(answer["version"])
            right = expected.get(answer["version"])
            if right is None or (label if label is not None else unknown) != right[i]:
                outcome["wrong for their version"] += 1
            if i == 0:
                problems.add(server.read_json("/readyz")["models"]["model"]["problem"] or "")

    broken = case.path.read_bytes()[: case.path.stat().st_size // 2]
    whole = [case.path.read_bytes(), other_path.read_bytes()] * 8
    contents, holds = [*whole, broken], [options["swap"]] * len(whole) + [BROKEN]
    with (
        replace_again_and_again(case.path, contents, holds) as written,
        ThreadPoolExecutor(CONNECTIONS) as threads,
    ):
        for done in [threads.submit(work, 7 * k) for k in range(CONNECTIONS)]:
            done.result()
    swaps = sum(a != b for a, b in pairwise(seen))
    dropped = sum(count for what, count in outcome.items() if what.startswith("dropped"))
    table = report.new_table(out, "while the model file is replaced", "number")
    table.add_row("files written", str(sum(written.values())))
    table.add_row("of them broken", str(written[len(whole)]))
    table.add_row("requests", f"{outcome['requests']:,}")
    for version, count in Counter(seen).items():
        table.add_row(f"answered by version {version}", f"{count:,}")
    for what in sorted(outcome):
        if what != "requests":
            table.add_row(what, str(outcome[what]))
    report.show(out, f"Swaps under load, {CONNECTIONS} connections, {options['seconds']:g} s", table)
    for problem in sorted(problems - {""}):
        out.print(f"/readyz said: {problem}")
    where = f"{outcome['requests']:,} requests, {swaps} times the version changed from one answer to the next"
    wrong = outcome["wrong for their version"]
    return [
        make_line("dropped while the model was replaced", "0", dropped, where, dropped == 0),
        make_line("answers wrong for their version", "0", wrong, f"{len(set(seen))} versions answered", wrong == 0),
    ]

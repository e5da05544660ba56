"""The benchmark of the server: queueing counts, wrong answers are seen, and a short run works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # the benchmarks are run from the repository and are not installed
    sys.path.insert(0, str(ROOT))

from benchmarks import serve, serve_case, serve_load  # noqa: E402
from benchmarks.server_process import find_port, replace_file  # noqa: E402


def test_a_latency_counts_from_the_planned_time_so_that_a_queue_shows():
    """One at a time for 10 ms each, while a request is planned every 2.5 ms: the last waits for nearly all others."""
    lock = threading.Lock()

    def send(i: int) -> None:
        with lock:
            time.sleep(0.01)

    taken = serve.send_on_schedule(send, 40, rate=400)
    assert taken[-5:].min() > 10 * 0.01
    assert taken.min() >= 0.01


def test_an_error_of_a_request_is_not_lost():
    def send(i: int) -> None:
        raise RuntimeError("status 500")

    with pytest.raises(RuntimeError, match="status 500"):
        serve.send_on_schedule(send, 3, rate=1000)


def test_answers_that_differ_from_those_in_process_are_seen():
    decisions = SimpleNamespace(unknown_score=np.array([0.5, 0.25]), candidate=np.array([3, 1]))
    right = [{"unknown_score": 0.5, "candidate": "3"}, {"unknown_score": 0.25, "candidate": "1"}]
    serve.check_answer(json.dumps({"decisions": right}).encode(), decisions)
    for key, value in (("unknown_score", 0.2500001), ("candidate", "2")):
        wrong = [right[0], right[1] | {key: value}]
        with pytest.raises(RuntimeError, match="does not decide"):
            serve.check_answer(json.dumps({"decisions": wrong}).encode(), decisions)


def test_a_status_that_was_not_expected_is_an_error():
    assert serve_case.check((200, b"x")) == b"x"
    with pytest.raises(RuntimeError, match="status 503 instead of 200"):
        serve_case.check((503, b"busy"))


def test_mixed_requests_have_all_kinds_and_shares_that_sum_to_about_one():
    case = SimpleNamespace(samples=np.random.default_rng(0).random((100, 5)))
    kinds = serve_load.make_requests(case)
    assert sum(share for share, _ in kinds) == pytest.approx(1, abs=0.05)
    statuses = {request[-1] for _, requests in kinds for request in requests}
    assert statuses == {200, 400, 404, 405, 415, 422}


def test_files_are_replaced_in_turn_and_the_first_is_there_at_the_end(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"a")
    seen = set()
    with serve_load.replace_again_and_again(path, [b"a", b"b", b"c"], [0.01] * 3) as written:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            seen.add(path.read_bytes())
    assert seen == {b"a", b"b", b"c"} and path.read_bytes() == b"a" and sum(written.values()) > 3
    replace_file(path, b"d")
    assert path.read_bytes() == b"d" and os.listdir(tmp_path) == ["model"]


def test_a_free_port_is_found():
    assert 1024 <= find_port() <= 65535


@pytest.mark.slow
def test_a_short_run_measures_everything_and_finds_no_error(tmp_path):
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-m", "benchmarks.serve", "--quick", "--out", str(tmp_path / "serve.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = json.loads((tmp_path / "serve.json").read_text())["summary"]
    assert {line["what"] for line in lines if line["target"] == "0"} == {
        "mixed requests with another status",
        "dropped while the model was replaced",
        "answers wrong for their version",
    }
    # Times are measured, not judged: the machine that runs the tests may be busy.
    assert all(line["met"] is (True if line["target"] == "0" else None) for line in lines)

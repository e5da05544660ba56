"""The benchmark of the server: queueing counts, wrong answers are seen, and a short run works."""

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
sys.path.insert(0, str(ROOT))  # the benchmarks are run from the repository and are not installed

from benchmarks import serve, serve_case, serve_load  # noqa: E402


def test_a_latency_counts_from_the_planned_time_so_that_a_queue_shows():
    """One at a time for 10 ms each, while a request is planned every 2.5 ms: the last waits for nearly all others."""
    lock = threading.Lock()

    def send(i):
        with lock:
            time.sleep(0.01)

    taken = serve.send_on_schedule(send, 40, rate=400)
    assert taken[-5:].min() > 10 * 0.01 and taken.min() >= 0.01


def test_wrong_answers_and_statuses_and_errors_are_seen():
    decisions = SimpleNamespace(unknown_score=np.array([0.5, 0.25]), candidate=np.array([3, 1]))
    right = [{"unknown_score": 0.5, "candidate": "3"}, {"unknown_score": 0.25, "candidate": "1"}]
    serve.check_answer(json.dumps({"decisions": right}).encode(), decisions)
    for wrong in ({"unknown_score": 0.2500001}, {"candidate": "2"}):
        with pytest.raises(RuntimeError, match="does not decide"):
            serve.check_answer(json.dumps({"decisions": [right[0], right[1] | wrong]}).encode(), decisions)
    assert serve_case.check((200, b"x")) == b"x"
    with pytest.raises(RuntimeError, match="status 503 instead of 200"):
        serve.send_on_schedule(lambda i: serve_case.check((503, b"busy")), 3, rate=1000)


def test_files_are_replaced_in_turn_and_the_first_is_there_at_the_end(tmp_path):
    path, seen, end = tmp_path / "model", set(), time.monotonic() + 30
    path.write_bytes(b"a")
    with serve_load.replace_again_and_again(path, [b"a", b"b", b"c"], [0.01] * 3) as written:
        while seen != {b"a", b"b", b"c"} and time.monotonic() < end:
            seen.add(path.read_bytes())
    assert seen == {b"a", b"b", b"c"} and path.read_bytes() == b"a" and sum(written.values()) >= 2
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.slow
def test_a_short_run_measures_everything_and_finds_no_error(tmp_path):
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-m", "benchmarks.serve", "--quick", "--out", str(tmp_path / "serve.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = json.loads((tmp_path / "serve.json").read_text())["summary"]
    counted = ["mixed requests with another status", "dropped while the model was replaced"]
    assert {x["what"] for x in lines if x["target"] == "0"} == {*counted, "answers wrong for their version"}
    # Times are measured, not judged: the machine that runs the tests may be busy.
    assert all(line["met"] is (True if line["target"] == "0" else None) for line in lines)

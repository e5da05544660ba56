"""The benchmark of the server: a short run works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_a_short_run_measures_everything_and_finds_no_error(tmp_path):
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-m", "benchmarks.serve", "--quick", "--out", str(tmp_path / "serve.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = json.loads((tmp_path / "serve.json").read_text())["summary"]
    counted = ["mixed requests with another status", "dropped while the model was replaced"]
    assert {x["what"] for x in lines if x["target"] == "0"} == {*counted, "answers wrong for their version"}
    assert all(line["met"] is (True if line["target"] == "0" else None) for line in lines)

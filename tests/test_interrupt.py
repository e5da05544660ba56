"""Ctrl-C stops a long batch at once."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

PROGRAMME = """
import numpy as np
from srosr import {problem_name}, sparse_encode

rng = np.random.default_rng(0)
atoms = rng.standard_normal((1500, 300))
atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
X = rng.standard_normal((20000, 300))
X /= np.linalg.norm(X, axis=1, keepdims=True)
sparse_encode(X[:2], atoms, {problem}, n_jobs={n_jobs})  # compile first
print("ready", flush=True)
try:
    sparse_encode(X, atoms, {problem}, n_jobs={n_jobs})
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
print("finished", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to one process")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("problem", ["Lasso(1e-4)", "BPDN(1e-3)"])
def test_ctrl_c_ends_a_long_batch_within_seconds(problem, n_jobs):
    code = PROGRAMME.format(problem=problem, problem_name=problem.split("(")[0], n_jobs=n_jobs)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout.readline().strip() == "ready", process.stderr.read()
        time.sleep(2.0)
        assert process.poll() is None, "the batch is too short to be interrupted"
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        took = time.monotonic() - sent
    finally:
        process.kill()
        process.wait()
    assert took < 5
    assert out.split() == ["interrupted"]
    assert "KeyboardInterrupt" in err
    assert process.returncode != 0

"""Ctrl-C stops a long batch at once."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from scale import slow_except

PROGRAM = """
import time

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


SLOW_SOLVER = """
import time

import numpy as np
import srosr.coding.repair
from srosr import BPDN, sparse_encode

def deep_in_another_library(*_, **__):
    print("ready", flush=True)
    time.sleep(60)

srosr.coding.repair.solve_safely = deep_in_another_library
rng = np.random.default_rng(0)
try:
    sparse_encode(rng.standard_normal((4, 6)), rng.standard_normal((9, 6)), BPDN(0.5), tol=1e-300, n_jobs={n_jobs})
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
print("finished", flush=True)
"""


# A shell that starts the tests in the background has them, and what they start, ignore SIGINT.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def interrupted(code, wait):
    """Run a program and send it Ctrl-C after it says "ready"; what it printed, and how long it took to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTEN + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout.readline().strip() == "ready", process.stderr.read()
        time.sleep(wait)
        assert process.poll() is None, "the batch is too short to be interrupted"
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        took = time.monotonic() - sent
    finally:
        process.kill()
        process.wait()
    assert "KeyboardInterrupt" in err
    assert process.returncode != 0
    return out.split(), took


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to one process")
@pytest.mark.parametrize("n_jobs", slow_except([2], [1, 2]))
@pytest.mark.parametrize("problem", slow_except(["BPDN(1e-3)"], ["Lasso(1e-4)", "BPDN(1e-3)"]))
def test_ctrl_c_ends_a_long_batch(problem, n_jobs):
    code = PROGRAM.format(problem=problem, problem_name=problem.split("(")[0], n_jobs=n_jobs)
    out, took = interrupted(code, wait=0.5)
    assert out == ["interrupted"]
    assert took < 5  # one second and a busy machine


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to one process")
@pytest.mark.parametrize("n_jobs", slow_except([2], [1, 2]))
def test_ctrl_c_does_not_wait_for_a_solver_of_another_library(n_jobs):
    out, took = interrupted(SLOW_SOLVER.format(n_jobs=n_jobs), wait=0.2)
    assert [word for word in out if word != "ready"] == ["interrupted"]
    assert took < 5

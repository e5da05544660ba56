"""A command that SIGTERM ends while it writes a file leaves what was there before, and no temporary file."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scale import slow_except

from srosr.cli.app import main

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGTERM to handle")

# Runs the command line; when a file has its bytes but not yet its name, says so and sends SIGTERM to itself.
DRIVER = """
import os, signal, stat, sys, threading

def end_while_writing(file):
    if stat.S_ISREG(os.fstat(file).st_mode):
        print("written", *sorted(name for _, _, names in os.walk(".") for name in names if name.endswith(".tmp")))
        sys.stdout.flush()
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait()

os.fsync = end_while_writing
from srosr.cli.app import main
main()
"""

COMMANDS = {
    "fit": "fit train.csv -o new.srosr --method knn",
    "fit over an old model": "fit train.csv -o model.srosr --method knn",
    "add-class": "add-class model.srosr other.csv --name d",
    "remove-class": "remove-class model.srosr a",
    "set-threshold": "set-threshold model.srosr --target-rejection 0.1",
    "predict": "predict model.srosr train.csv -o decisions.csv",
    "explain": "explain model.srosr train.csv --out why.png",
    "evaluate": "evaluate model.srosr train.csv --figure scores.png",
    "datasets --export": "datasets digits --export .",
    "compare": "compare train.csv --methods knn,svm --rounds 1 --jobs 1",
    "demo": "demo --out demo.png",
    "reproduce": "reproduce mine.toml --trials 1 --jobs 1",
}
PROTOCOL = """
trials = 1
methods = ["knn"]
[data]
file = "train.csv"
[known]
classes = 2
train = 0.5
[unknown]
classes = [1]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with tables, a protocol and a model of the classes a, b and c."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    centers = dict(zip("abcd", 4 * rng.standard_normal((4, 5)), strict=True))
    for name, classes in (("train", "abc"), ("other", "d")):
        parts = [
            pd.DataFrame(rng.standard_normal((12, 5)) + centers[c], columns=list("pqrst")).assign(label=c)
            for c in classes
        ]
        pd.concat(parts).to_csv(folder / f"{name}.csv", index=False)
    (folder / "mine.toml").write_text(PROTOCOL)
    done = CliRunner().invoke(main, ["fit", str(folder / "train.csv"), "-o", str(folder / "model.srosr"), "-q"])
    assert done.exit_code == 0, done.output
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("command", slow_except(["fit", "datasets --export"], COMMANDS))
def test_no_temporary_file_is_left(command, made, tmp_path):
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    arguments = [sys.executable, "-c", DRIVER, *COMMANDS[command].split()]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGTERM, done.stderr
    written = re.findall(r"^written (\..+\.tmp)$", done.stdout, re.M)
    assert len(written) == 1, done.stdout
    left = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert not [name for name in left if name.endswith(".tmp")]
    assert {name: left.pop(name) for name in made} == made
    assert set(left) <= {".lock"}, "no other file is complete"

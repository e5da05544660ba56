"""Start times: ``srosr --help`` beyond the interpreter's own, and first calls that compile.

``python -m benchmarks.start`` times the former, ``python -m benchmarks.start --cold`` the latter, each from an empty
compilation cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import click

TARGET = 0.150
COLD_TARGETS = {"sparse_encode with Lasso": 12.0, "srosr demo": 25.0}

_ENCODE = """
import time
from numba.core import event

class Timer(event.Listener):
    def __init__(self):
        self.open, self.rows = [], []
    def on_start(self, e):
        function = e.data["dispatcher"].py_func
        self.open.append([time.process_time(), 0.0, f"{function.__module__}.{function.__qualname__}"])
    def on_end(self, e):
        begun, inside, name = self.open.pop()
        spent = time.process_time() - begun
        self.rows.append((spent - inside, name))
        if self.open:
            self.open[-1][1] += spent

timer = Timer()
event.register("numba:compile", timer)
import numpy as np
from srosr import Lasso, sparse_encode
rng = np.random.default_rng(0)
sparse_encode(rng.normal(size=(10, 60)), rng.normal(size=(200, 60)), Lasso(0.1), normalize=True)
for seconds, name in sorted(timer.rows, reverse=True)[:12]:
    print(f"    {seconds:5.2f} s  {name}")
print(f"    {sum(s for s, _ in timer.rows):5.2f} s  all {len(timer.rows)} compiled functions")
"""


def quickest(command: list[str], repeats: int) -> float:
    """Return the shortest of several wall times in seconds, to exclude other work on the machine."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        times.append(time.perf_counter() - started)
    return min(times)


def time_cold() -> None:
    """Print wall and processor seconds of first calls, and the processor seconds of each compiled function."""
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "sparse_encode with Lasso": [sys.executable, "-c", _ENCODE],
            "srosr demo": [sys.executable, "-m", "srosr", "demo", "--out", f"{folder}/demo.png"],
        }
        for name, command in commands.items():
            environment = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/{name.replace(' ', '-')}"}
            before, started = os.times(), time.perf_counter()
            done = subprocess.run(command, capture_output=True, check=True, env=environment, text=True)
            wall, after = time.perf_counter() - started, os.times()
            processor = after.children_user + after.children_system - before.children_user - before.children_system
            click.echo(f"{name}: {wall:.1f} s, {processor:.1f} s of processor time (target {COLD_TARGETS[name]:.0f} s)")
            if name != "srosr demo":
                click.echo(done.stdout.rstrip())


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True)
@click.option("--cold", is_flag=True, help="Time first calls from an empty compilation cache instead.")
def main(repeats: int, cold: bool) -> None:
    """Time the start of the command line against that of the interpreter, of click and of the library."""
    if cold:
        time_cold()
        return
    bare = quickest([sys.executable, "-c", "pass"], repeats)
    click.echo(f"the interpreter alone   {1000 * bare:6.0f} ms")
    for name, command in (
        ("import click", [sys.executable, "-c", "import click"]),
        ("import srosr", [sys.executable, "-c", "import srosr"]),
        ("srosr --help", [sys.executable, "-m", "srosr", "--help"]),
        ("srosr predict --help", [sys.executable, "-m", "srosr", "predict", "--help"]),
    ):
        click.echo(f"{name:22s}  {1000 * (quickest(command, repeats) - bare):6.0f} ms more")
    click.echo(f"target for --help: under {1000 * TARGET:.0f} ms more")


if __name__ == "__main__":
    main()

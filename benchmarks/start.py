"""How long ``srosr --help`` takes beyond the interpreter's own start: ``python -m benchmarks.start``."""

from __future__ import annotations

import subprocess
import sys
import time

import click

TARGET = 0.150


def quickest(command: list[str], repeats: int) -> float:
    """The least of several wall times, in seconds: what other work on the machine adds is not ours."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        times.append(time.perf_counter() - started)
    return min(times)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True)
def main(repeats: int) -> None:
    """Time the start of the command line against that of the interpreter, of click and of the library."""
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

"""Measure the effect of ``--jobs``: ``python -m benchmarks.processes``."""

from __future__ import annotations

import filecmp
import tempfile
import time
from pathlib import Path

import click

from benchmarks import report
from srosr.datasets.dataset import DatasetError
from srosr.experiments.protocol_file import load_protocol
from srosr.experiments.runner import make_executor
from srosr.reports.reproduction import reproduce


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", default="yaleb")
@click.option("--trials", type=click.IntRange(2), default=12, show_default=True)
@click.option("--jobs", type=click.IntRange(2), default=2, show_default=True, help="Processes, against one.")
@click.option("--methods", help="Of the experiment, separated by commas.  [default: all]")
def main(name: str, trials: int, jobs: int, methods: str | None) -> None:
    """Run trials of the experiment NAME in one process and in several, and compare times and tables.

    A first trial loads compiled code and data. "trials" is the time from the first to the last trial, with workers
    started; "all" includes tables, figures and report.
    """
    out = report.console()
    try:
        protocol = load_protocol(name)
        dataset = protocol.load_dataset()
    except (DatasetError, ValueError) as reason:
        raise click.ClickException(str(reason)) from None
    chosen = None if methods is None else methods.split(",")
    table = report.new_table(out, "processes", "trials s", "all s")
    seconds: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        reproduce(protocol, Path(folder) / "first", make_executor(1), dataset=dataset, trials=1, methods=chosen)
        for n in (1, jobs):
            passed: list[float] = []
            started = time.perf_counter()
            reproduce(
                protocol, Path(folder) / str(n), make_executor(n), dataset=dataset, trials=trials, methods=chosen,
                on_progress=lambda done, total, s, passed=passed: passed.append(s),
            )  # fmt: skip
            seconds.append((passed[-1], time.perf_counter() - started))
            table.add_row(str(n), *(f"{s:.1f}" for s in seconds[-1]))
        same = filecmp.cmp(*(Path(folder) / str(n) / "results.csv" for n in (1, jobs)), shallow=False)
    table.add_row("ratio", *(f"{a / b:.2f}" for a, b in zip(*seconds, strict=True)))
    report.show(out, f"{protocol.title}, {trials} trials", table)
    out.print("The two tables are the same, byte for byte." if same else "The two tables differ.")


if __name__ == "__main__":
    main()

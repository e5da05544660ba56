"""Commands that run trials: the folder of their results, and their progress."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import click

from .._support.atomic_files import make_folder
from .._support.messages import format_duration

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def prepare_folder(folder: Path) -> Iterator[None]:
    """Make a folder and check that it is writable, before any work; after an error remove it if it is new and empty."""
    from ..experiments.run_identity import name_file_in_errors

    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with name_file_in_errors(folder, "write to", started=os.path.exists(folder / "run.json")):
            make_folder(folder)
            with TemporaryFile(dir=folder):
                pass
        yield
    except BaseException:
        for path in made:
            with suppress(OSError):  # not empty, or never made
                path.rmdir()
        raise


def stop(err: Console, folder: Path) -> click.exceptions.Exit:
    """Print that Ctrl-C ended the command and where finished trials are; return the exit."""
    begun = os.path.exists(folder / "run.json")
    kept = f" Finished trials are kept in {folder}; the same command continues from there." if begun else ""
    err.print(f"\nStopped.{kept}")
    return click.exceptions.Exit(130)


@contextmanager
def trial_progress(err: Console, name: str) -> Iterator[Callable[[int, int, float], None]]:
    """Show trials done and time left: a bar on a terminal, lines elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("trials"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    task = bar.add_task(name, total=None, left="")
    last = [0.0]
    there: list[int] = []

    def progress(done: int, total: int, seconds: float) -> None:
        if not there:
            there.append(done)
            if done:
                err.print(f"{name}: {done} of {total} trials are done already", soft_wrap=True)
        new = done - there[0]
        left = f"about {format_duration(seconds / new * (total - done))} left" if new and done < total else ""
        text = left if new else "the first trials take the longest: they load and compile"
        bar.update(task, completed=done, total=total, left=text)
        # At most one line per second, for logs of many quick trials.
        if not err.is_terminal and new and (done == total or time.monotonic() - last[0] > 1.0):
            last[0] = time.monotonic()
            line = f"{name}: {done} of {total} trials, {format_duration(seconds)}" + (f", {left}" if left else "")
            err.print(line, soft_wrap=True)
        if done == total and total:
            bar.update(task, left="writing tables, figures and report …")
            if not err.is_terminal:
                err.print(f"{name}: writing tables, figures and report", soft_wrap=True)

    with nullcontext() if bar.disable else bar:  # rich before 14.3 ends a line even where it draws nothing
        yield progress

"""Printing: results go to standard output, everything else to standard error; progress only to a terminal."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from rich.console import Console

# Names, paths and labels are printed as they are, brackets included.
PLAIN: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}

#: The largest seed that scikit-learn's random_state takes.
_LARGEST_SEED = 2**32 - 1


class Progress(Protocol):
    """A function that shows how far a command is."""

    def __call__(self, done: int, share: float | None, before: str = "") -> None: ...


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")


def seed_option(meaning: str) -> Any:
    """Return the option --seed."""
    return click.option("--seed", type=click.IntRange(0, _LARGEST_SEED), default=0, show_default=True, help=meaning)


def jobs_option(meaning: str = "Number of threads.") -> Any:
    """Return the option --jobs."""
    return click.option("--jobs", type=click.IntRange(1), help=f"{meaning}  [one per core]")


def device_option() -> Any:
    """Return the option --device."""
    return click.option(
        "--device", default="cpu", show_default=True, metavar="NAME",
        help="Where to code samples: cpu; cuda, an NVIDIA GPU, by PyTorch (cuda:1 is the second); or auto, the GPU if "
        "there is one.",
    )  # fmt: skip


def out() -> Console:
    """Return standard output as a console, with colors only on a terminal."""
    from rich.console import Console

    class Patient(Console):
        """A console that goes on when the reader of standard output closes it."""

        def on_broken_pipe(self) -> None:
            silence_stdout()

    return Patient(soft_wrap=True, **PLAIN)


def err() -> Console:
    """Return standard error as a console."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, **PLAIN)


def silence_stdout() -> None:
    """Discard what is written to standard output from now on."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print facts, one per line, each a name and a value; on a terminal long values are folded."""
    from rich.text import Text

    console = out()
    indent = max(len(name) for name, _ in facts) + 2
    width = max(console.width - indent, 20) if console.is_terminal else sys.maxsize
    for name, value in facts:
        lines = wrap(value, width, break_on_hyphens=False) or [""]
        console.print(Text.assemble((name.ljust(indent), "dim"), lines[0]))
        for line in lines[1:]:
            console.print(" " * indent + line)


def format_percent(share: float) -> str:
    """Return a share in percent with one decimal."""
    return f"{100 * share:.1f} %"


@contextmanager
def progress(what: str, *, unit: str = "rows", shown: bool = True) -> Iterator[Progress]:
    """Show a bar on a terminal; yield a function that takes the number done and the share of all, if known.

    A third argument is a text to show before the number.
    """
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = err()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[done]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Bar(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
    task = bar.add_task(what, total=None, done="")

    def update(done: int, share: float | None, before: str = "") -> None:
        known: dict[str, Any] = {} if share is None else {"completed": share, "total": 1.0}
        bar.update(task, done=f"{before}{done:,} {unit}", **known)

    with nullcontext() if bar.disable else bar:  # rich before 14.3 ends a line even where it draws nothing
        yield update


@contextmanager
def show_warnings(shown: bool = True) -> Iterator[None]:
    """Print each warning of the library as one line on standard error, without a place in the source."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    if not shown:
        return
    from ..exceptions import SROSRWarning

    console = err()
    for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, SROSRWarning)):
        console.print(f"Note: {text}", style="yellow")

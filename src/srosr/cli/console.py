"""How commands speak: results on standard output, everything else on standard error, and that only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

__all__ = [
    "LARGEST_SEED",
    "err",
    "json_option",
    "nobody_listens",
    "out",
    "percent",
    "print_json",
    "progress",
    "quiet_option",
    "show_facts",
    "warnings_shown",
]

# Names, paths and labels are shown as they are, whatever brackets they have.
_PLAIN: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}

#: What scikit-learn's random_state takes.
LARGEST_SEED = 2**32 - 1

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")


def out() -> Console:
    """Standard output; colours only on a terminal."""
    from rich.console import Console

    class Patient(Console):
        """Whoever read our output may have seen enough; the work goes on."""

        def on_broken_pipe(self) -> None:
            nobody_listens()

    return Patient(soft_wrap=True, **_PLAIN)


def err() -> Console:
    """Standard error."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, **_PLAIN)


def nobody_listens() -> None:
    """Let standard output lead nowhere from now on."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def print_json(value: Any) -> None:
    """A value as JSON on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Facts on standard output, a line each: a name and what it is. On a terminal long ones are folded."""
    from textwrap import wrap

    from rich.text import Text

    console = out()
    indent = max(len(name) for name, _ in facts) + 2
    width = max(console.width - indent, 20) if console.is_terminal else sys.maxsize
    for name, value in facts:
        lines = wrap(value, width, break_on_hyphens=False) or [""]
        console.print(Text.assemble((name.ljust(indent), "dim"), lines[0]))
        for line in lines[1:]:
            console.print(" " * indent + line)


def percent(share: float) -> str:
    """A share in percent, with one digit after the point."""
    return f"{100 * share:.1f} %"


@contextmanager
def progress(what: str, *, unit: str = "rows", shown: bool = True) -> Iterator[Callable[[int, float | None], None]]:
    """A bar on a terminal, nothing elsewhere; it is told how many are done and, where known, the share of all."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = err()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[done]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
    task = bar.add_task(what, total=None, done="")

    def update(done: int, share: float | None) -> None:
        known: dict[str, Any] = {} if share is None else {"completed": share, "total": 1.0}
        bar.update(task, done=f"{done:,} {unit}", **known)

    with bar:
        yield update


@contextmanager
def warnings_shown(shown: bool = True) -> Iterator[None]:
    """What the library warns of, as a line on standard error each instead of a place in the source."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    if not shown:
        return
    from ..exceptions import SROSRWarning

    console = err()
    for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, SROSRWarning)):
        console.print(f"Note: {text}", style="yellow")

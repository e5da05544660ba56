"""The command line: a group of commands. Only click is imported: a command loads what it needs when it runs."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import threading
import warnings
from typing import Any

import click

from .. import __version__

__all__ = ["main"]

#: Commands in the order of their use, with what the list of commands says of them. Each is a function in a file of its
#: name (hyphens are underscores) in ``commands``.
COMMANDS = {
    "demo": "see it refuse digits it has never met, no download",
    "fit": "learn known classes from your samples, write a model file",
    "predict": 'a class or "unknown" for every row of a file',
    "explain": "why a row was recognised or refused, in words and a figure",
    "evaluate": "measure a model on labelled samples; report and figure",
    "compare": "which method suits your data, classes left out in turn",
    "info": "what a model file holds",
    "set-threshold": "refuse more, or less, without fitting again",
    "add-class": "teach a model one more class",
    "remove-class": "let a model forget a class",
    "datasets": "public data sets by name",
    "reproduce": "the paper's experiments, or your own, from a protocol",
    "completion": "let the shell complete commands and options",
}


class _Commands(click.Group):
    """Commands that are imported when they are asked for; to list them none is."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"srosr.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C ends it with a word and the status that shells expect, a closed pipe quietly."""
        before = _prepare()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            raise click.exceptions.Exit(130) from None
        except BrokenPipeError:
            from .console import nobody_listens

            nobody_listens()
            return None
        except OSError as error:  # of standard output, say, where a disk is full
            from .bad_input import BadInput

            raise BadInput(f"{error.filename or 'standard output'}: {error.strerror or error}.") from None
        finally:
            if before is not None:
                signal.signal(signal.SIGTERM, before)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant; a mistyped one is refused with a guess."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from .._support.messages import did_you_mean

            ctx.fail(f"There is no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _prepare() -> Any:
    """Let names that the terminal cannot show be spelt out, and a request to end leave no half file behind.

    What such a request led to before is returned.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.filterwarnings("ignore", "Image size .* exceeds limit")  # such pictures are refused, in our words
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: object) -> None:
    """End by the signal, as if there were no handler, but without half a file left behind.

    An exception would be the shorter way, but it can be raised where a library swallows it.
    """
    files = sys.modules.get("srosr._support.atomic_files")
    if files is not None:
        files.discard_unfinished()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(__version__, "-V", "--version", prog_name="srosr", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Open set recognition by sparse representation.

    Learn the known classes, then say for each new sample which of them it is, or that it is none.

    \b
    See it work, no download:
      srosr demo
    \b
    With your own data (a table, arrays, or a folder with a sub-folder of pictures a class):
      srosr fit train.csv --label species -o model.srosr
      srosr predict model.srosr new.csv -o decisions.csv
      srosr explain model.srosr new.csv --row 17
      srosr compare train.csv --label species
    \b
    The paper's experiments, each by one command:
      srosr reproduce --list

    Every command has a --help with examples. Exit status: 0 done, 1 a part of the work failed, 2 the input cannot be
    used (one sentence says why, and nothing is written), 130 stopped.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())

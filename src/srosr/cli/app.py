"""The group of commands. Only click is imported: a command loads what it needs when it runs."""

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
from ..exceptions import DeviceError
from ..operations.input_errors import InputError, escape_unprintable

#: Commands in the order of their use, with their lines in the list of commands. Each is a function of its name, with
#: underscores for hyphens, in a module of its name, but for some that share one.
COMMANDS = {
    "demo": "reject digits that were not learned; no download",
    "fit": "learn known classes from your samples, write a model file",
    "predict": 'predict a class or "unknown" for every row of a file',
    "explain": "explain why a row is recognized or rejected",
    "evaluate": "measure a model on labeled samples; report and figure",
    "compare": "compare all methods on your data, recommend one",
    "info": "show what a model file contains",
    "serve": "decide over HTTP, with a page that shows why",
    "monitor": "watch a stream: rejections, and an alarm if it changes",
    "set-threshold": "reject more or fewer samples, without fitting again",
    "update": "teach a model more samples of its classes",
    "recalibrate": "set the threshold anew by fresh samples, after a change",
    "discover": "group rejected rows that may be new classes",
    "add-class": "add a class to a model",
    "remove-class": "remove a class from a model",
    "datasets": "list, describe, download and export public data sets",
    "reproduce": "run the paper's experiments, or your own",
    "completion": "print a script for completion in the shell",
}
_CHANGES = ("set-threshold", "update", "recalibrate", "remove-class")


class CommandError(click.ClickException):
    """A command cannot do what it was asked to: one sentence says why, the exit status is 2."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(escape_unprintable(message))


class _Commands(click.Group):
    """Commands that are imported when they run, not to list them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = "changes" if cmd_name in _CHANGES else name
        command = getattr(importlib.import_module(f"srosr.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C ends it with status 130, a closed pipe silently."""
        old_handler = _prepare()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            raise click.exceptions.Exit(130) from None
        except BrokenPipeError:
            from .console import silence_stdout

            silence_stdout()
            return None
        except InputError as error:
            raise CommandError(error.message) from None
        except DeviceError as error:  # it was there when the command began
            raise CommandError(str(error)) from None
        except OSError as error:  # of standard output, for example, if the disk is full
            raise CommandError(f"{error.filename or 'standard output'}: {error.strerror or error}.") from None
        finally:
            if old_handler is not None:
                signal.signal(signal.SIGTERM, old_handler)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; for a mistyped one suggest another."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from .._support.messages import did_you_mean

            ctx.fail(f"There is no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _prepare() -> Any:
    """Escape what the terminal cannot show, and install a handler for SIGTERM; return the old handler."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.filterwarnings("ignore", "Image size .* exceeds limit")  # our own error says so
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, _end_by_signal)


def _end_by_signal(number: int, frame: object) -> None:
    """Remove unfinished files, then let the signal end the process.

    An exception instead could be swallowed by a library.
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

    Learn known classes, then predict for each new sample which of them it is, or that it is unknown.

    \b
    See it work, no download:
      srosr demo
    \b
    With your own data (a table, arrays, or a folder with a subfolder of pictures for each class):
      srosr fit train.csv --label species -o model.srosr
      srosr predict model.srosr new.csv -o decisions.csv
      srosr explain model.srosr new.csv --row 17
      srosr compare train.csv --label species
    \b
    Run the paper's experiments:
      srosr reproduce --list

    Every command has a --help with examples. Exit status: 0 done, 1 part of the work failed, 2 invalid input (a
    message says why, and nothing is written), 130 interrupted by Ctrl-C, 143 by SIGTERM.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())

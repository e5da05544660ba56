"""Runs of commands: those that must succeed, and those that must fail with one sentence."""

import io

import pandas as pd
from click.testing import CliRunner

from srosr.cli.app import main

#: So few that a fit takes a second.
QUICK = ("--seed", "0", "--jobs", "1")


def run(*arguments, given=None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=given)


def right(*arguments, given=None):
    """Run a command that must succeed; what it printed."""
    done = run(*arguments, given=given)
    assert done.exit_code == 0, done.output
    return done.output


def columns_of(text):
    """Return the columns of a table in CSV, numbers as numbers, so that decisions can be compared by ``same.py``."""
    return pd.read_csv(io.StringIO(text)).to_dict("list")


def error_of(*arguments, given=None, ends=(".", "?")):
    """Run a command that must fail with one sentence, status 2 and no traceback; return the sentence."""
    done = run(*arguments, given=given)
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    message = done.output.strip()
    assert message.startswith("Error: ") or "Error: " in message
    # click puts the usage before errors of its own.
    text = message.split("Error: ", 1)[1]
    assert "\n" not in text and text.endswith(ends), text
    return text

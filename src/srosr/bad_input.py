"""How the command line says that something cannot be done."""

from __future__ import annotations

import click

__all__ = ["BadInput"]


class BadInput(click.ClickException):
    """What the user asked for cannot be done: one sentence, exit status 2."""

    exit_code = 2

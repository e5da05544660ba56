"""Errors that end a command with one sentence and exit status 2."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click


def escape_unprintable(text: str) -> str:
    """Return a text in one line, with line breaks, control characters and lone surrogates as Python escapes them."""
    return "".join(
        repr(sign)[1:-1] if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") else sign for sign in text
    )


def end_sentence(text: object) -> str:
    """Return a text with a full stop at its end."""
    return str(text).rstrip(".") + "."


class InputError(click.ClickException):
    """The command cannot do what it was asked to: one sentence says why, the exit status is 2."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        # A name with a line break in it must not make two lines of a sentence.
        super().__init__(escape_unprintable(message))


def check_device_option(device: str) -> Any:
    """Return the ``torch.device`` of the option --device, None for the CPU; raise if there is no such device."""
    from .._support.devices import find_device
    from ..exceptions import DeviceError

    try:
        return find_device(device)
    except DeviceError as error:
        raise InputError(str(error).replace(f"device={device!r}", f"--device {device}")) from None
    except ValueError as error:
        raise InputError(f"--{error}") from None


@contextmanager
def name_errors(what: object, kind: type[Exception] = ValueError) -> Iterator[None]:
    """Turn errors of a kind into :class:`InputError` with the name of the option or file at fault before the text."""
    try:
        yield
    except kind as error:
        raise InputError(f"{what}: {end_sentence(error)}") from None


@contextmanager
def convert_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of files, and of the given kinds, into :class:`InputError` with the same text."""
    from ..exceptions import ModelFileError
    from ..tables import ReadError

    try:
        yield
    except BrokenPipeError:  # the reader of standard output has closed it
        raise
    except Exception as error:
        if not isinstance(error, (ReadError, ModelFileError, OSError, *kinds)):
            raise
        if isinstance(error, OSError) and not isinstance(error, kinds):
            reason = error.strerror or str(error)
            raise InputError(f"{error.filename}: {reason}." if error.filename is not None else f"{reason}.") from None
        raise InputError(str(error)) from None

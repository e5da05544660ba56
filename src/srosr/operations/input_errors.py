"""Errors that say in one sentence why something cannot be done: a command ends with them, a server answers them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager


def escape_unprintable(text: str) -> str:
    """Return a text in one line, with line breaks, control characters and lone surrogates as Python escapes them."""
    return "".join(
        repr(sign)[1:-1] if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") else sign for sign in text
    )


def end_sentence(text: object) -> str:
    """Return a text with a full stop at its end."""
    return str(text).rstrip(".") + "."


class InputError(Exception):
    """What was asked cannot be done: one sentence, ``message``, says why. A command ends with exit status 2."""

    def __init__(self, message: str) -> None:
        # A name with a line break in it must not make two lines of a sentence.
        self.message = escape_unprintable(message)
        super().__init__(self.message)


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
    from ..tables.row_source import ReadError

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

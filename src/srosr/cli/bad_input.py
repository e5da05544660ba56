"""How the command line says that something cannot be done."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["BadInput", "refusing", "spelt_out"]


def spelt_out(text: str) -> str:
    """A text in one line: line breaks, control characters and halves of characters as Python writes them."""
    return "".join(
        repr(sign)[1:-1] if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") else sign for sign in text
    )


class BadInput(click.ClickException):
    """What the user asked for cannot be done: one sentence, exit status 2."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        # A name with a line break in it does not make two lines of a sentence.
        super().__init__(spelt_out(message))


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of files, and of the kinds given, into :class:`BadInput`: their text is all that is shown."""
    from ..exceptions import ModelFileError
    from ..tables import ReadError

    try:
        yield
    except BrokenPipeError:  # whoever read our output has seen enough
        raise
    except Exception as error:
        if not isinstance(error, (ReadError, ModelFileError, OSError, *kinds)):
            raise
        if isinstance(error, OSError) and not isinstance(error, kinds):
            what = error.strerror or str(error)
            raise BadInput(f"{error.filename}: {what}." if error.filename is not None else f"{what}.") from None
        raise BadInput(str(error)) from None

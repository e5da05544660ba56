"""Lists, counts and guesses in messages: the same wording in exceptions, reports and on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: How alike two names must be for one to be suggested for the other; difflib's ratio, from 0 to 1.
LEAST_LIKENESS = 0.6


def join_names(names: Iterable[Any], most: int | None = None, *, last: str = "and") -> str:
    """Return names as part of a sentence: "a, b and c", or "a, b and 3 more" if there are more than ``most``.

    Examples
    --------
    >>> from srosr._support.messages import join_names
    >>> join_names(["knn", "evm", "svm"], last="or")
    'knn, evm or svm'
    >>> join_names("abcde", 2)
    'a, b and 3 more'
    """
    parts = [str(name) for name in names]
    if most is not None and len(parts) > most:
        parts = [*parts[:most], f"{len(parts) - most:,} more"]
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def list_names(names: Iterable[Any], most: int | None = None) -> str:
    """Return names as they follow a colon: "a, b, c", or "a, b and 3 more" if there are more than ``most``."""
    names = list(names)
    return join_names(names, most) if most is not None and len(names) > most else ", ".join(map(str, names))


def quote_names(names: Iterable[Any], most: int | None = 12) -> str:
    """Return names as :func:`list_names` does, each in quotes."""
    return list_names(map(repr, names), most)


def quote_text(text: str, most: int = 40) -> str:
    """Return a text in quotes, cut after ``most`` characters."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def count_of(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: "1 row", "2,000 rows"."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def did_you_mean(name: object, choices: Iterable[Any]) -> str:
    """Return " (did you mean 'x'?)" with the choice most like ``name``, in any case; "" if none is."""
    from difflib import get_close_matches

    known = {str(choice).lower(): choice for choice in choices}
    found = get_close_matches(str(name).lower(), known, n=1, cutoff=LEAST_LIKENESS)
    return f" (did you mean {str(known[found[0]])!r}?)" if found else ""


def choose_from(name: object, choices: Iterable[Any]) -> str:
    """Return the end of a message about a name that is not among the choices: a guess, then all of them."""
    choices = list(choices)
    return f"{did_you_mean(name, choices)}; choose {join_names(choices, last='or')}."

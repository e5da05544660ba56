"""Lists, counts, numbers and guesses in messages: the same wording in exceptions, reports and at the command line."""

from __future__ import annotations

import math
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


def format_number(value: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return a number with a typographic minus sign; zero has no sign."""
    if math.isnan(value):
        return "–"
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", "−")


def format_mean(mean: float, half_width: float) -> str:
    """Return mean ± half width, or the mean alone if there is no interval."""
    return format_number(mean) if math.isnan(half_width) else f"{format_number(mean)} ± {format_number(half_width)}"


def capitalize(text: str) -> str:
    """Return text with an upper-case first letter; the rest is unchanged."""
    return text[:1].upper() + text[1:]


def format_p_value(value: float) -> str:
    """Return a p-value with its significant digits."""
    if math.isnan(value):
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def format_ordinal(n: int) -> str:
    """Return an ordinal number, such as 1st."""
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def format_seconds(value: float) -> str:
    """Return seconds with three significant digits."""
    if math.isnan(value):
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def format_duration(value: float) -> str:
    """Return a duration in seconds, minutes, or hours and minutes."""
    if math.isnan(value):
        return "–"
    if value < 60:
        return f"{format_seconds(value)} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"

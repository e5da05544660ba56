"""Numbers and times as a reader wants them: the same words in the report and on the command line."""

from __future__ import annotations

import math

__all__ = ["capital", "duration", "interval_text", "number", "ordinal", "p_text", "seconds"]


def number(value: float, digits: int = 3, *, signed: bool = False) -> str:
    """A number with a true minus sign; zero has no sign."""
    if math.isnan(value):
        return "–"
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", "−")


def interval_text(mean: float, half_width: float) -> str:
    """Mean ± half the interval, or the mean alone where so few trials give no interval."""
    return number(mean) if math.isnan(half_width) else f"{number(mean)} ± {number(half_width)}"


def capital(text: str) -> str:
    """Text with a capital at its beginning; the rest stays."""
    return text[:1].upper() + text[1:]


def p_text(value: float) -> str:
    """A p-value with the digits that count."""
    if math.isnan(value):
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def ordinal(n: int) -> str:
    """A place, such as 1st."""
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def seconds(value: float) -> str:
    """Seconds with three digits that count."""
    if math.isnan(value):
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def duration(value: float) -> str:
    """Seconds in words that suit their size."""
    if math.isnan(value):
        return "–"
    if value < 60:
        return f"{seconds(value)} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"

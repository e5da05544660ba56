"""Numbers and times as text, the same in reports and on the command line."""

from __future__ import annotations

import math


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

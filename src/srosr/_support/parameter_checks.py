"""Parameters that make sense, or errors that say why not."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

__all__ = ["check_count", "check_positive", "check_rate", "check_share"]


def check_rate(name: str, value: Any) -> float:
    """A rate strictly between 0 and 1, or a ValueError."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must be a number between 0 and 1, both excluded, got {value!r}.")
    return number


def check_share(name: str, value: Any) -> float:
    """A number from 0 to below 1, or a ValueError."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0.0 <= number < 1.0:
        raise ValueError(f"{name} must be a number in [0, 1), got {value!r}.")
    return number


def check_positive(name: str, value: Any, *, zero: bool = False) -> float:
    """A positive finite number (or zero), or a ValueError."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not (math.isfinite(number) and (number > 0 or (zero and number == 0))):
        raise ValueError(f"{name} must be a {'non-negative' if zero else 'positive'} finite number, got {value!r}.")
    return number


def check_count(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least ``least``, or a ValueError."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ValueError(f"{name} must be {kind}, got {value!r}.")
    return int(value)

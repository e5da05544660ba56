"""Parameters of the rivals that make sense, or errors that say why not."""

from __future__ import annotations

from numbers import Integral
from typing import Any

__all__ = ["check_count"]


def check_count(name: str, value: Any) -> int:
    """A positive integer, or a ValueError."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    return int(value)

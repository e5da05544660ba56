"""Checks of parameters: each returns the value in its proper type, or raises a ValueError that names the parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from .messages import did_you_mean, join_names


def is_plain_matrix(X: Any) -> bool:
    """Return whether X is a finite float64 matrix with entries, which scikit-learn's checks would return as it is.

    To ask them costs a tenth of the time of a prediction, and the first time a second for their import.
    """
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float64 and X.size > 0 and bool(np.isfinite(X).all())


def to_number(value: Any) -> float:
    """Return a number as a float, infinity where it is too large for one, NaN for anything else and for bools."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _check_number(name: str, value: Any, holds: Callable[[float], bool], what: str) -> float:
    """Return a number for which a condition holds, in words ``what``."""
    number = to_number(value)
    if not holds(number):
        raise ValueError(f"{name} must be {what}, got {value!r}.")
    return number


def check_rate(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1."""
    return _check_number(name, value, lambda x: 0.0 < x < 1.0, "a number between 0 and 1, both excluded")


def check_share(name: str, value: Any) -> float:
    """Return a number from 0 to below 1."""
    return _check_number(name, value, lambda x: 0.0 <= x < 1.0, "a number in [0, 1)")


def check_fraction(name: str, value: Any, *, zero: bool = True) -> float:
    """Return a number from 0, or above 0, up to 1."""
    what = f"a share, {'from' if zero else 'above'} 0 up to 1"
    return _check_number(name, value, lambda x: 0.0 < x <= 1.0 or (zero and x == 0.0), what)


def check_positive(name: str, value: Any, *, zero: bool = False) -> float:
    """Return a positive finite number, or zero where that is allowed."""
    what = f"a {'non-negative' if zero else 'positive'} finite number"
    return _check_number(name, value, lambda x: 0.0 < x < math.inf or (zero and x == 0.0), what)


def check_finite(name: str, value: Any) -> float:
    """Return a finite number."""
    return _check_number(name, value, math.isfinite, "a finite number")


def check_count(name: str, value: Any, least: int = 1, *, none: bool = False) -> Any:
    """Return an integer of at least ``least``, or None where that is allowed."""
    if none and value is None:
        return None
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ValueError(f"{name} must be {kind}{' or None' if none else ''}, got {value!r}.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of the choices."""
    if not (isinstance(value, str) and value in choices):
        allowed = join_names((f'"{choice}"' for choice in choices), last="or")
        raise ValueError(f"{name} must be {allowed}, got {value!r}{did_you_mean(value, choices)}.")
    return value


def check_n_jobs(value: Any) -> int | None:
    """Return a number of threads: a non-zero integer, or None."""
    if value is not None and (not isinstance(value, Integral) or value == 0):
        raise ValueError(f"n_jobs must be a non-zero integer or None, got {value!r}.")
    return None if value is None else int(value)


def check_tail_size(value: Any) -> float | None:
    """Return the share of errors that make a tail, None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    return _check_number("tail_size", value, lambda x: 0.0 < x <= 1.0, 'a share in (0, 1] or "auto"')

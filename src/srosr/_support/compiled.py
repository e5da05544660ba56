"""How loops are compiled: the options of all Numba functions.

Numba does not document ``_nrt`` and ``no_cfunc_wrapper``;
tests run with the oldest version that is allowed and the newest.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import njit


def _can_cache() -> bool:
    """Return whether compiled code can be kept: beside the source, in the user's cache or in ``NUMBA_CACHE_DIR``."""
    try:
        njit(cache=True)(_can_cache)
    except RuntimeError:  # none of them can be written to: functions are compiled in every process
        return False
    return True


_OPTIONS: dict[str, Any] = {"cache": _can_cache(), "nogil": True, "error_model": "numpy"}

#: A function that Python calls.
entry_point = partial(njit, **_OPTIONS, no_cfunc_wrapper=True)
#: An ``entry_point`` that allocates nothing, compiled without reference counts.
loop = partial(entry_point, _nrt=False)
#: A function that only compiled functions call. Without the wrappers for Python it compiles faster.
inner = partial(njit, **_OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)
#: An ``inner`` function that allocates nothing, compiled without reference counts. It best calls no other: what it
#: calls is optimized once by itself and once more here, so that nests of them compile slowly.
leaf = partial(inner, _nrt=False)
#: A part of the function that calls it, compiled with it: for one that calls others and has a single caller.
part = partial(njit, inline="always", error_model="numpy")

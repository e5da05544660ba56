"""The time that this process has spent in coding, for the times that experiments report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_seconds = 0.0


def coding_seconds() -> float:
    """Return the seconds that calls of :func:`srosr.sparse_encode` have taken in this process, summed over threads."""
    return _seconds


@contextmanager
def coding_time() -> Iterator[None]:
    """Add the time of this block to the count."""
    global _seconds
    started = time.perf_counter()
    try:
        yield
    finally:
        with _lock:
            _seconds += time.perf_counter() - started

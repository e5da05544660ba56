"""How long this process has spent in coding, so that an experiment can say what share of its time that is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

__all__ = ["coding_seconds", "coding_time"]

_lock = Lock()
_seconds = 0.0


def coding_seconds() -> float:
    """Seconds that calls of :func:`srosr.sparse_encode` have taken in this process, added up over threads."""
    return _seconds


@contextmanager
def coding_time() -> Iterator[None]:
    """Count the time of this block."""
    global _seconds
    started = time.perf_counter()
    try:
        yield
    finally:
        with _lock:
            _seconds += time.perf_counter() - started

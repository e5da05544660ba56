"""What goes wrong with data sets: files that are absent, unreadable or not what they should be."""

from __future__ import annotations

__all__ = ["DatasetError"]


class DatasetError(RuntimeError):
    """A data set cannot be had: the message says which, which file, what happened and what to do.

    Wrong arguments are a `ValueError` instead.
    """

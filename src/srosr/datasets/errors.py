"""What goes wrong with data sets: files that are absent, unreadable or not what they should be."""

from __future__ import annotations

__all__ = ["DatasetError", "DatasetNotFound"]


class DatasetError(RuntimeError):
    """A data set cannot be had: the message says which, which file, what happened and what to do.

    Wrong arguments are a `ValueError` instead.
    """


class DatasetNotFound(DatasetError):
    """A file of a data set is neither at hand nor to be downloaded; what is at hand but damaged is another error."""

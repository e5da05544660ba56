"""Warnings and errors of the library, as classes of its own so that they can be filtered and caught."""

from __future__ import annotations

import sys
import warnings

__all__ = [
    "CalibrationWarning",
    "CertificateWarning",
    "DeviceError",
    "DeviceWarning",
    "ModelFileError",
    "SROSRWarning",
    "TailWarning",
]


class SROSRWarning(UserWarning):
    """Base of all warnings of the library."""


class CertificateWarning(SROSRWarning):
    """Codes were returned that are not certified to the accuracy asked for."""


class TailWarning(SROSRWarning):
    """A tail was fitted to too few errors, to ties, or at the boundary of its likelihood."""


class CalibrationWarning(SROSRWarning):
    """A rate of false rejection cannot be kept with the samples there are, or not as closely as asked for."""


class DeviceError(RuntimeError):
    """A device was asked for that is not there, or it failed."""


class DeviceWarning(SROSRWarning):
    """Work on a device went on with less memory than was planned for it."""


class ModelFileError(ValueError):
    """A file is not a model file that can be read: damaged, cut short, another program's, or too new."""


def warn(message: str, category: type[SROSRWarning]) -> None:
    """Warn at the line of the user's own code that led here, however deep in the package this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("srosr."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

"""Warnings of the library, as classes of its own so that they can be filtered."""

from __future__ import annotations

__all__ = ["CertificateWarning", "SROSRWarning"]


class SROSRWarning(UserWarning):
    """Base of all warnings of the library."""


class CertificateWarning(SROSRWarning):
    """Codes were returned that are not certified to the accuracy asked for."""

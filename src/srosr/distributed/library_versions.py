"""The versions of the libraries that compute results.

Machines that share work need the same version of srosr. Their results are the same but for rounding if all other
versions are the same, too.
"""

from __future__ import annotations

import platform
from importlib import metadata

from .. import __version__


def get_library_versions() -> dict[str, str]:
    """Return the versions of the libraries that compute the results, and the machine type."""
    libraries = {name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")}
    python = {"python": platform.python_version(), "machine": platform.machine()}
    return {"srosr": __version__} | libraries | python

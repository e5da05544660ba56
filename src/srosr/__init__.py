"""Open set recognition by sparse representation.

Everything documented is exported here and loaded at first use, so that ``import srosr`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .coding.encode import Codes, sparse_encode
    from .coding.problems import BPDN, OMP, Lasso, Problem, Ridge
    from .dictionary import Dictionary, Queries
    from .evidence import class_residuals, residual_ratio, sparsity_concentration
    from .exceptions import CertificateWarning, SROSRWarning, TailWarning
    from .spliced import SplicedDistribution
    from .src import SRCClassifier
    from .tail_diagnostics import TailDiagnostics, qq_points, tail_diagnostics
    from .tails import GPDTail, fit_gpd, fit_tail

_HOME = {
    "Dictionary": "dictionary",
    "Queries": "dictionary",
    "BPDN": "coding.problems",
    "Lasso": "coding.problems",
    "Ridge": "coding.problems",
    "OMP": "coding.problems",
    "Problem": "coding.problems",
    "Codes": "coding.encode",
    "sparse_encode": "coding.encode",
    "class_residuals": "evidence",
    "sparsity_concentration": "evidence",
    "residual_ratio": "evidence",
    "SRCClassifier": "src",
    "GPDTail": "tails",
    "fit_gpd": "tails",
    "fit_tail": "tails",
    "SplicedDistribution": "spliced",
    "TailDiagnostics": "tail_diagnostics",
    "tail_diagnostics": "tail_diagnostics",
    "qq_points": "tail_diagnostics",
    "SROSRWarning": "exceptions",
    "TailWarning": "exceptions",
    "CertificateWarning": "exceptions",
}

__all__ = [
    "BPDN",
    "OMP",
    "CertificateWarning",
    "Codes",
    "Dictionary",
    "GPDTail",
    "Lasso",
    "Problem",
    "Queries",
    "Ridge",
    "SRCClassifier",
    "SROSRWarning",
    "SplicedDistribution",
    "TailDiagnostics",
    "TailWarning",
    "__version__",
    "class_residuals",
    "fit_gpd",
    "fit_tail",
    "qq_points",
    "residual_ratio",
    "sparse_encode",
    "sparsity_concentration",
    "tail_diagnostics",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

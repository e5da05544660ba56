"""Open set recognition by sparse representation.

Everything documented is exported here and loaded at first use, so that ``import srosr`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .base import OpenSetClassifier
    from .coding.encode import Codes, sparse_encode
    from .coding.problems import BPDN, OMP, Lasso, Problem, Ridge
    from .datasets import (
        Dataset,
        DatasetError,
        load_caltech101,
        load_caltech256,
        load_coil20,
        load_dataset,
        load_digits_bundled,
        load_letter,
        load_mnist,
        load_orl,
        load_uiuc_attributes,
        load_usps,
        load_yaleb,
        read_dataset,
    )
    from .dictionary import Dictionary, Queries
    from .displays import ErrorHistogramDisplay, NonMatchedDisplay, TailDisplay
    from .evidence import class_residuals, residual_ratio, sparsity_concentration
    from .exceptions import CalibrationWarning, CertificateWarning, ModelFileError, SROSRWarning, TailWarning
    from .experiments import (
        Protocol,
        ProtocolError,
        load_protocol,
    )
    from .explanation import Explanation
    from .explanation_display import ExplanationDisplay
    from .features import (
        SpatialPyramid,
        dense_sift,
        pyramid_of_counts,
        read_picture,
    )
    from .methods import open_set_methods
    from .metric_displays import OpenSetConfusionDisplay, OSCRDisplay
    from .metrics import (
        ccr_at_fpr,
        fpr_at_tpr,
        harmonic_normalised_accuracy,
        mark_unknown,
        normalised_accuracy,
        open_set_accuracy,
        open_set_aupr,
        open_set_auroc,
        open_set_confusion,
        open_set_f_measure,
        openness,
        oscr_area,
        oscr_curve,
        recognition_accuracy,
        rejection_accuracy,
        youden_j,
    )
    from .model_selection import (
        LeaveClassesOut,
        candidate_accuracy_scorer,
        open_set_auroc_scorer,
        open_set_f_scorer,
        oscr_scorer,
        youden_scorer,
    )
    from .persistence import load
    from .recognizer import SROSRClassifier
    from .rivals import (
        EVM,
        OSNN,
        PISVM,
        WSVM,
        KNNDistance,
        Mahalanobis,
        MaxLogit,
        NaiveRejection,
        OneVsRestSVM,
        OneVsSet,
        OpenMax,
        PairwiseSVM,
        RatioRejection,
        SCIRejection,
    )
    from .spliced import SplicedDistribution
    from .src import SRCClassifier
    from .tail_checks import TailDiagnostics, qq_points, tail_diagnostics
    from .tails import GPDTail, fit_gpd, fit_tail
    from .weibull import Weibull, fit_weibull

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
    "Weibull": "weibull",
    "fit_weibull": "weibull",
    "SplicedDistribution": "spliced",
    "TailDiagnostics": "tail_checks",
    "tail_diagnostics": "tail_checks",
    "qq_points": "tail_checks",
    "SROSRClassifier": "recognizer",
    "load": "persistence",
    "Explanation": "explanation",
    "ExplanationDisplay": "explanation_display",
    "ErrorHistogramDisplay": "displays",
    "NonMatchedDisplay": "displays",
    "TailDisplay": "displays",
    "OSCRDisplay": "metric_displays",
    "OpenSetConfusionDisplay": "metric_displays",
    "open_set_accuracy": "metrics",
    "recognition_accuracy": "metrics",
    "rejection_accuracy": "metrics",
    "normalised_accuracy": "metrics",
    "harmonic_normalised_accuracy": "metrics",
    "open_set_aupr": "metrics",
    "open_set_auroc": "metrics",
    "open_set_confusion": "metrics",
    "open_set_f_measure": "metrics",
    "ccr_at_fpr": "metrics",
    "fpr_at_tpr": "metrics",
    "openness": "metrics",
    "oscr_area": "metrics",
    "oscr_curve": "metrics",
    "youden_j": "metrics",
    "mark_unknown": "metrics",
    "LeaveClassesOut": "model_selection",
    "candidate_accuracy_scorer": "model_selection",
    "open_set_auroc_scorer": "model_selection",
    "open_set_f_scorer": "model_selection",
    "oscr_scorer": "model_selection",
    "youden_scorer": "model_selection",
    "SROSRWarning": "exceptions",
    "CalibrationWarning": "exceptions",
    "ModelFileError": "exceptions",
    "TailWarning": "exceptions",
    "CertificateWarning": "exceptions",
    "OpenSetClassifier": "base",
    "open_set_methods": "methods",
    "NaiveRejection": "rivals",
    "OSNN": "rivals",
    "RatioRejection": "rivals",
    "SCIRejection": "rivals",
    "EVM": "rivals",
    "KNNDistance": "rivals",
    "Mahalanobis": "rivals",
    "MaxLogit": "rivals",
    "OpenMax": "rivals",
    "OneVsRestSVM": "rivals",
    "OneVsSet": "rivals",
    "PairwiseSVM": "rivals",
    "PISVM": "rivals",
    "WSVM": "rivals",
    "Dataset": "datasets",
    "DatasetError": "datasets",
    "load_dataset": "datasets",
    "read_dataset": "datasets",
    "load_yaleb": "datasets",
    "load_mnist": "datasets",
    "load_uiuc_attributes": "datasets",
    "load_caltech101": "datasets",
    "load_caltech256": "datasets",
    "load_letter": "datasets",
    "load_usps": "datasets",
    "load_coil20": "datasets",
    "load_orl": "datasets",
    "load_digits_bundled": "datasets",
    "SpatialPyramid": "features",
    "dense_sift": "features",
    "pyramid_of_counts": "features",
    "read_picture": "features",
    "Protocol": "experiments",
    "ProtocolError": "experiments",
    "load_protocol": "experiments",
}

__all__ = [
    "BPDN",
    "EVM",
    "OMP",
    "OSNN",
    "PISVM",
    "WSVM",
    "CalibrationWarning",
    "CertificateWarning",
    "Codes",
    "Dataset",
    "DatasetError",
    "Dictionary",
    "ErrorHistogramDisplay",
    "Explanation",
    "ExplanationDisplay",
    "GPDTail",
    "KNNDistance",
    "Lasso",
    "LeaveClassesOut",
    "Mahalanobis",
    "MaxLogit",
    "ModelFileError",
    "NaiveRejection",
    "NonMatchedDisplay",
    "OSCRDisplay",
    "OneVsRestSVM",
    "OneVsSet",
    "OpenMax",
    "OpenSetClassifier",
    "OpenSetConfusionDisplay",
    "PairwiseSVM",
    "Problem",
    "Protocol",
    "ProtocolError",
    "Queries",
    "RatioRejection",
    "Ridge",
    "SCIRejection",
    "SRCClassifier",
    "SROSRClassifier",
    "SROSRWarning",
    "SpatialPyramid",
    "SplicedDistribution",
    "TailDiagnostics",
    "TailDisplay",
    "TailWarning",
    "Weibull",
    "__version__",
    "candidate_accuracy_scorer",
    "ccr_at_fpr",
    "class_residuals",
    "dense_sift",
    "fit_gpd",
    "fit_tail",
    "fit_weibull",
    "fpr_at_tpr",
    "harmonic_normalised_accuracy",
    "load",
    "load_caltech101",
    "load_caltech256",
    "load_coil20",
    "load_dataset",
    "load_digits_bundled",
    "load_letter",
    "load_mnist",
    "load_orl",
    "load_protocol",
    "load_uiuc_attributes",
    "load_usps",
    "load_yaleb",
    "mark_unknown",
    "normalised_accuracy",
    "open_set_accuracy",
    "open_set_aupr",
    "open_set_auroc",
    "open_set_auroc_scorer",
    "open_set_confusion",
    "open_set_f_measure",
    "open_set_f_scorer",
    "open_set_methods",
    "openness",
    "oscr_area",
    "oscr_curve",
    "oscr_scorer",
    "pyramid_of_counts",
    "qq_points",
    "read_dataset",
    "read_picture",
    "recognition_accuracy",
    "rejection_accuracy",
    "residual_ratio",
    "sparse_encode",
    "sparsity_concentration",
    "tail_diagnostics",
    "youden_j",
    "youden_scorer",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

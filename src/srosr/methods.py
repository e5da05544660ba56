"""Every open set classifier by a short name, for tables, command lines and benchmarks."""

from __future__ import annotations

from .base import OpenSetClassifier
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

__all__ = ["open_set_methods"]


def open_set_methods() -> dict[str, OpenSetClassifier]:
    """All methods, unfitted, with their defaults.

    Returns
    -------
    methods : dict of str to OpenSetClassifier
        "calibrated", "paper" and "matched" are the rules of :class:`SROSRClassifier`, the others are rivals.

    Examples
    --------
    >>> from srosr import open_set_methods
    >>> type(open_set_methods()["osnn"]).__name__
    'OSNN'
    """
    return {
        "calibrated": SROSRClassifier(),
        "paper": SROSRClassifier(rule="paper"),
        "matched": SROSRClassifier(rule="matched"),
        "naive": NaiveRejection(),
        "ratio": RatioRejection(),
        "sci": SCIRejection(),
        "w-svm": WSVM(),
        "pi-svm": PISVM(),
        "1-vs-set": OneVsSet(),
        "svm": OneVsRestSVM(score_by="decision"),
        "svm-platt": OneVsRestSVM(),
        "svm-pairwise": PairwiseSVM(),
        "osnn": OSNN(),
        "knn": KNNDistance(),
        "mahalanobis": Mahalanobis(),
        "evm": EVM(),
        "evm-released": EVM(form="released"),
        "openmax": OpenMax(),
        "max-logit": MaxLogit(),
    }

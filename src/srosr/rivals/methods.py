"""Every open set classifier by a short name, for tables, command lines and benchmarks."""

from __future__ import annotations

from ..classifiers import OpenSetClassifier, SROSRClassifier
from . import (
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

__all__ = ["RIVALS", "method_name", "open_set_methods"]

#: The class of every rival.
RIVALS = (
    EVM,
    KNNDistance,
    Mahalanobis,
    MaxLogit,
    NaiveRejection,
    OneVsRestSVM,
    OneVsSet,
    OpenMax,
    OSNN,
    PairwiseSVM,
    PISVM,
    RatioRejection,
    SCIRejection,
    WSVM,
)

# Parameters that make two methods of one class.
_TELLING = ("rule", "score_by", "form")


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


def method_name(clf: OpenSetClassifier) -> str:
    """The name of a classifier's method; that of its class where it has no other.

    Examples
    --------
    >>> from srosr import SROSRClassifier, WSVM
    >>> from srosr.rivals.methods import method_name
    >>> method_name(SROSRClassifier(rule="paper")), method_name(WSVM())
    ('paper', 'w-svm')
    """
    for name, method in open_set_methods().items():
        if type(method) is type(clf) and all(getattr(clf, p, None) == getattr(method, p, None) for p in _TELLING):
            return name
    return type(clf).__name__

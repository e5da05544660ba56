"""All open set classifiers by a short name, for tables, command lines and benchmarks."""

from __future__ import annotations

from ..classifiers.base import OpenSetClassifier
from ..classifiers.srosr_classifier import SROSRClassifier
from .evm import EVM
from .gen import GEN
from .knn_distance import KNNDistance
from .mahalanobis import Mahalanobis
from .max_logit import MaxLogit
from .nnguide import NNGuide
from .one_vs_rest_svm import OneVsRestSVM
from .one_vs_set import OneVsSet
from .openmax import OpenMax
from .osnn import OSNN
from .pairwise_svm import PairwiseSVM
from .pisvm import PISVM
from .relative_mahalanobis import RelativeMahalanobis
from .sparse_rejection import NaiveRejection, RatioRejection, SCIRejection
from .vim import ViM
from .wsvm import WSVM

# Parameters that tell methods of one class apart.
_DISTINGUISHING = ("rule", "score_by", "form")


def open_set_methods() -> dict[str, OpenSetClassifier]:
    """Return all methods, unfitted, with their defaults.

    Returns
    -------
    methods : dict of str to OpenSetClassifier
        "calibrated", "paper" and "matched" are the rules of :class:`SROSRClassifier`; the others are rivals.

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
        "rmds": RelativeMahalanobis(),
        "evm": EVM(),
        "evm-released": EVM(form="released"),
        "openmax": OpenMax(),
        "max-logit": MaxLogit(),
        "gen": GEN(),
        "vim": ViM(),
        "nnguide": NNGuide(),
    }


def method_name(clf: OpenSetClassifier) -> str:
    """Return the name of a classifier's method, or of its class if it has no other.

    Examples
    --------
    >>> from srosr import SROSRClassifier, WSVM
    >>> from srosr.rivals.methods import method_name
    >>> method_name(SROSRClassifier(rule="paper")), method_name(WSVM())
    ('paper', 'w-svm')
    """
    for name, method in open_set_methods().items():
        if type(method) is type(clf) and all(
            getattr(clf, p, None) == getattr(method, p, None) for p in _DISTINGUISHING
        ):
            return name
    return type(clf).__name__


#: The class of every rival.
RIVALS = tuple(dict.fromkeys(type(m) for m in open_set_methods().values() if not isinstance(m, SROSRClassifier)))

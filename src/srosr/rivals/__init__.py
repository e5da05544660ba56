"""The methods users would choose instead, as open set classifiers of one contract (:mod:`srosr.base`)."""

from .evm import EVM
from .knn_distance import KNNDistance
from .mahalanobis import Mahalanobis
from .max_logit import MaxLogit
from .one_vs_rest_svm import OneVsRestSVM
from .one_vs_set import OneVsSet
from .openmax import OpenMax
from .osnn import OSNN
from .pairwise_svm import PairwiseSVM
from .pisvm import PISVM
from .rejection import NaiveRejection, RatioRejection, SCIRejection
from .wsvm import WSVM

__all__ = [
    "EVM",
    "OSNN",
    "PISVM",
    "WSVM",
    "KNNDistance",
    "Mahalanobis",
    "MaxLogit",
    "NaiveRejection",
    "OneVsRestSVM",
    "OneVsSet",
    "OpenMax",
    "PairwiseSVM",
    "RatioRejection",
    "SCIRejection",
]

#: All of them.
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

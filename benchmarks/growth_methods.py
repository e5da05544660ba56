"""The classifiers whose growth with the number of samples is measured: the recognizer beside plain ones.

All get the same rows of unit length. The others come from scikit-learn with its defaults but for the number of threads
and, since rows of unit length are short, a weaker penalty of the linear ones. None of them has a threshold; their
unknown score is the usual one: the distance to a neighbor, minus the largest decision value, one minus the largest
probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL_SHARE = 0.05
"""Atoms of the small dictionary, as a share of the samples."""
NEIGHBORS = 5
PENALTY_SVM, PENALTY_LOGISTIC = 10.0, 100.0
"""C of scikit-learn: larger is a weaker penalty."""
SGD_PENALTY = 1e-5
"""The factor of the penalty in stochastic gradient descent."""
LOGISTIC_STEPS = 200

Answer = tuple[NDArray, NDArray[np.float64]]
"""The candidate class and the unknown score of each sample."""


@dataclass(frozen=True)
class Options:
    """Options of a fit: seed, threads, and the codings of a pass of the recognizer (None: its default)."""

    seed: int = 0
    jobs: int = 1
    max_codings: int | None = None


@dataclass(frozen=True)
class GrowthMethod:
    """A classifier to be measured.

    Attributes
    ----------
    title : str
        Which class of which library it is.
    fit : callable
        From samples, their classes and `Options` to a fitted model.
    answer : callable
        From a model and samples to an `Answer`.
    """

    title: str
    fit: Callable[[NDArray, NDArray, Options], Any]
    answer: Callable[[Any, NDArray], Answer]


def _fit_recognizer(X: NDArray, y: NDArray, options: Options) -> Any:
    from srosr import SROSRClassifier

    clf = SROSRClassifier(random_state=options.seed, n_jobs=options.jobs, max_codings=options.max_codings)
    return clf.fit(X, y)


def _fit_small(X: NDArray, y: NDArray, options: Options) -> Any:
    from srosr import SROSRClassifier

    clf = SROSRClassifier(
        atoms=SMALL_SHARE, random_state=options.seed, n_jobs=options.jobs, max_codings=options.max_codings
    )
    return clf.fit(X, y)


def _recognize(clf: Any, X: NDArray) -> Answer:
    decisions = clf.decide(X)
    return decisions.candidate, decisions.unknown_score


def _fit_neighbors(X: NDArray, y: NDArray, options: Options) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(NEIGHBORS, algorithm="brute", n_jobs=options.jobs).fit(X, y)


def _find_neighbors(clf: Any, X: NDArray) -> Answer:
    """Return the class of most neighbors, of the nearest among equals, and the distance to the last one."""
    distances, neighbors = clf.kneighbors(X)
    labels = clf._y[neighbors]
    votes = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
    best = labels[np.arange(len(X)), votes.argmax(axis=1)]
    return clf.classes_[best], np.asarray(distances[:, -1], dtype=np.float64)


def _fit_svm(X: NDArray, y: NDArray, options: Options) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(C=PENALTY_SVM, random_state=options.seed).fit(X, y)


def _fit_sgd(X: NDArray, y: NDArray, options: Options) -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(alpha=SGD_PENALTY, random_state=options.seed, n_jobs=options.jobs).fit(X, y)


def _decide_linearly(clf: Any, X: NDArray) -> Answer:
    values = clf.decision_function(X)
    if values.ndim == 1:
        values = np.column_stack([-values, values])
    return clf.classes_[values.argmax(axis=1)], -np.asarray(values.max(axis=1), dtype=np.float64)


def _fit_logistic(X: NDArray, y: NDArray, options: Options) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=PENALTY_LOGISTIC, max_iter=LOGISTIC_STEPS).fit(X, y)


def _estimate_probabilities(clf: Any, X: NDArray) -> Answer:
    shares = clf.predict_proba(X)
    return clf.classes_[shares.argmax(axis=1)], 1.0 - np.asarray(shares.max(axis=1), dtype=np.float64)


METHODS: dict[str, GrowthMethod] = {
    "srosr": GrowthMethod("SROSRClassifier with its defaults", _fit_recognizer, _recognize),
    "srosr-small": GrowthMethod(f"SROSRClassifier(atoms={SMALL_SHARE:g})", _fit_small, _recognize),
    "k-nn": GrowthMethod(f"KNeighborsClassifier, {NEIGHBORS} neighbors, brute force", _fit_neighbors, _find_neighbors),
    "linear-svm": GrowthMethod(f"LinearSVC, C = {PENALTY_SVM:g}, one thread", _fit_svm, _decide_linearly),
    "sgd-svm": GrowthMethod("SGDClassifier with the hinge loss, a linear SVM for many samples", _fit_sgd,
                            _decide_linearly),
    "logistic": GrowthMethod(f"LogisticRegression, C = {PENALTY_LOGISTIC:g}", _fit_logistic, _estimate_probabilities),
}  # fmt: skip
"""Methods by the names of the command line."""
DEFAULT_METHODS = tuple(name for name in METHODS if name != "srosr-small")
"""Methods that are measured if none are named."""

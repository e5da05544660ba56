r"""Tuning without unknown data, with scikit-learn's own tools.

No unknown sample is needed to choose a parameter: some of the *known* classes are left out of training in turn and
serve as simulated unknowns. :class:`LeaveClassesOut` makes such splits, and the scorers measure on them:

    GridSearchCV(estimator, grid, cv=LeaveClassesOut(random_state=0), scoring=oscr_scorer).fit(X, y)

A scorer takes a fitted open set classifier: one with ``classes_``, ``unknown_label_``, ``predict`` (a class, or the
unknown label), ``unknown_score`` (larger is more unknown) and ``candidate`` (the class before any rejection). Labels in
y that are not among ``classes_`` count as unknown. The classifier may be the last step of a pipeline, or the best
estimator of a search.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ._support.array_types import AnyArray, IntArray
from ._support.parameter_checks import check_count, check_rate
from .metrics.accuracy import youden_j
from .metrics.f_measure import open_set_f_measure
from .metrics.oscr import oscr_area
from .metrics.ranking import open_set_auroc
from .metrics.unknown_classes import mark_unknown
from .scoring.splits import rotate_classes

__all__ = [
    "LeaveClassesOut",
    "candidate_accuracy_scorer",
    "open_set_auroc_scorer",
    "open_set_f_scorer",
    "oscr_scorer",
    "youden_scorer",
]


class LeaveClassesOut(BaseShuffleSplit):
    r"""Splits in which some classes occur in testing only.

    In each split about a share ``unknown`` of the K classes, at least one and at most K − 2, is left out of training.
    All classes take turns: over the splits no class is left out more than once more often than another. Of every other
    class a share ``test_size`` of the samples, drawn anew for each split, is for testing and the rest for training. Of
    the classes left out the same share is for testing, so that known and unknown classes are equally frequent, and the
    rest is not used.

    Parameters
    ----------
    n_splits : int, default 5
    unknown : float, default 0.3
        Share of the classes that are left out as simulated unknowns, in (0, 1).
    test_size : float, default 0.2
        Share of the samples of a class that are for testing, in (0, 1); at least one sample, and not all of them.
    random_state : int, RandomState instance or None, default None
        An integer gives the same splits in every call.

    See Also
    --------
    oscr_scorer, open_set_auroc_scorer, open_set_f_scorer, youden_scorer : What to measure on such splits.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.model_selection import LeaveClassesOut
    >>> y = np.repeat(["a", "b", "c"], 5)
    >>> for train, test in LeaveClassesOut(n_splits=3, random_state=0).split(np.zeros((15, 2)), y):
    ...     print(sorted(set(y[train].tolist())), len(train), y[test])
    ['a', 'b'] 8 ['a' 'b' 'c']
    ['a', 'c'] 8 ['a' 'b' 'c']
    ['b', 'c'] 8 ['a' 'b' 'c']
    """

    def __init__(
        self, n_splits: int = 5, *, unknown: float = 0.3, test_size: float = 0.2, random_state: Any = None
    ) -> None:
        super().__init__(n_splits=n_splits, test_size=test_size, random_state=random_state)
        self.unknown = unknown

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[IntArray, IntArray]]:
        """Generate the indices of the training and the test samples of each split.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Only its length is used.
        y : array-like (n_samples,)
            At least three classes of at least two samples each.
        groups : ignored

        Yields
        ------
        train, test : ndarray of int
            In ascending order.
        """
        check_count("n_splits", self.n_splits)
        check_rate("unknown", self.unknown)
        check_rate("test_size", self.test_size)
        if y is None:
            raise ValueError("y is required: LeaveClassesOut leaves classes out.")
        labels = column_or_1d(y)
        check_classification_targets(labels)
        n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_samples != len(labels):
            raise ValueError(f"X has {n_samples} samples, y has {len(labels)}.")
        classes, members = np.unique(labels, return_inverse=True)
        if len(classes) < 3:
            raise ValueError(
                f"y has {len(classes)} classes; at least three are required, to leave one out and keep two."
            )
        sizes = np.bincount(members)
        if sizes.min() < 2:
            raise ValueError(
                f"class {classes[sizes.argmin()]!r} in y has one sample; at least two are required, one for training "
                "and one for testing. Add samples or drop the class."
            )
        return self._generate_splits(members, sizes)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits, ``n_splits``; all arguments are ignored."""
        return int(self.n_splits)

    def _generate_splits(self, members: AnyArray, sizes: AnyArray) -> Iterator[tuple[IntArray, IntArray]]:
        rng = check_random_state(self.random_state)
        n_classes = len(sizes)
        n_out = min(max(round(self.unknown * n_classes), 1), n_classes - 2)
        n_test = np.clip(np.round(self.test_size * sizes).astype(int), 1, sizes - 1)
        rows = [np.flatnonzero(members == k) for k in range(n_classes)]
        for out in rotate_classes(n_classes, n_out, self.n_splits, rng):
            shuffled = [rng.permutation(part) for part in rows]
            test = [part[:n] for part, n in zip(shuffled, n_test, strict=True)]
            train = [part[n:] for k, (part, n) in enumerate(zip(shuffled, n_test, strict=True)) if k not in out]
            yield np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


# -- scorers ---------------------------------------------------------------------------------------------


def open_set_f_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Return the F-measure of Scheirer et al. of the predictions, :func:`srosr.open_set_f_measure`.

    It depends on the estimator's threshold.

    Parameters
    ----------
    estimator : fitted open set classifier, or a pipeline or search that ends in one
    X : array-like (n_samples, n_features)
    y : array-like (n_samples,)
        Labels that are not among ``estimator.classes_`` count as unknown; there must be some.

    Returns
    -------
    score : float
        Larger is better.
    """
    final, X, y = unwrap_classifier(estimator, X, y, "predict")
    return open_set_f_measure(y, final.predict(X), unknown_label=final.unknown_label_)


def youden_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Return Youden's J of the rejections, :func:`srosr.youden_j`.

    It depends on the estimator's threshold and not on the class that an accepted sample gets.

    Parameters
    ----------
    estimator, X, y :
        As for :func:`open_set_f_scorer`.
    """
    final, X, y = unwrap_classifier(estimator, X, y, "predict")
    return youden_j(y, final.predict(X), unknown_label=final.unknown_label_)


def open_set_auroc_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Return how well ``unknown_score`` ranks unknown above known samples, :func:`srosr.open_set_auroc`.

    It does not depend on the threshold.

    Parameters
    ----------
    estimator, X, y :
        As for :func:`open_set_f_scorer`.
    """
    final, X, y = unwrap_classifier(estimator, X, y, "unknown_score")
    return open_set_auroc(y, final.unknown_score(X), unknown_label=final.unknown_label_)


def oscr_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Return the area under the OSCR curve, :func:`srosr.oscr_area`: ranking and classification in one.

    It does not depend on the threshold.

    Parameters
    ----------
    estimator, X, y :
        As for :func:`open_set_f_scorer`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from srosr import SROSRClassifier
    >>> from srosr.model_selection import LeaveClassesOut, oscr_scorer
    >>> X, y = load_digits(return_X_y=True)
    >>> cv = LeaveClassesOut(n_splits=2, random_state=0)
    >>> clf = SROSRClassifier(n_repeats=5, random_state=0)
    >>> bool(cross_val_score(clf, X[:300], y[:300], cv=cv, scoring=oscr_scorer).mean() > 0.8)
    True
    """
    final, X, y = unwrap_classifier(estimator, X, y, "candidate", "unknown_score")
    return oscr_area(y, final.candidate(X), final.unknown_score(X), unknown_label=final.unknown_label_)


def candidate_accuracy_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Return the share of the known samples whose ``candidate`` is right, whether or not they are then rejected.

    Unknown samples are ignored and not required, so any of scikit-learn's splitters can be used.

    Parameters
    ----------
    estimator, X, y :
        As for :func:`open_set_f_scorer`.
    """
    final, X, y = unwrap_classifier(estimator, X, y, "candidate", need_unknown=False)
    known = np.asarray(y != final.unknown_label_, dtype=bool)
    if not known.any():
        raise ValueError("y has no samples of the estimator's classes_, so no candidate can be right.")
    right = np.asarray(final.candidate(X)).astype(object) == y.astype(object)
    return float(right[known].mean())


def unwrap_classifier(
    estimator: Any, X: Any, y: Any, *methods: str, need_unknown: bool = True
) -> tuple[Any, Any, AnyArray]:
    """Return the classifier inside a pipeline or search, the samples as it takes them, and the labels marked."""
    while isinstance(estimator, Pipeline) or hasattr(estimator, "best_estimator_"):
        if isinstance(estimator, Pipeline):
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        else:
            estimator = estimator.best_estimator_
    missing = [name for name in ("classes_", "unknown_label_", *methods) if not hasattr(estimator, name)]
    if missing:
        raise TypeError(
            f"{type(estimator).__name__} has no {' and no '.join(missing)}: pass a fitted open set classifier such as "
            "SROSRClassifier, alone or at the end of a pipeline or search."
        )
    marked = mark_unknown(y, estimator.classes_, unknown_label=estimator.unknown_label_)
    if need_unknown and all(label != estimator.unknown_label_ for label in marked.tolist()):
        raise ValueError(
            "y has no samples of unknown classes, which an open set score needs. Use cv=LeaveClassesOut(), which "
            "leaves classes out of training."
        )
    return estimator, X, marked

"""The open set confusion matrix, and the four outcomes of Scheirer et al."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .._support.unknown_label import append_unknown
from .inputs import Predictions, check_labels, check_predictions, find_kinds


def open_set_confusion(
    y_true: Any, y_pred: Any, *, unknown_label: Any, classes: Any = None, sample_weight: Any = None
) -> tuple[AnyArray, AnyArray]:
    r"""Return a confusion matrix whose last row holds the unknown samples and whose last column the rejections.

    .. math:: C_{ij} = |\{\text{samples of class } i \text{ that were predicted as } j\}|

    All metrics of predictions can be read off it. With K known classes, numbered from 0, and "unknown" at K:

    ======================================  ========================================
    known, accepted, right                  the diagonal above the last row
    known, accepted, wrong                  off the diagonal, above the last row and
                                            left of the last column
    known, rejected                         the last column, above the last row
    unknown, accepted                       the last row, left of the last column
    unknown, rejected                       the last entry
    ======================================  ========================================

    Parameters
    ----------
    y_true, y_pred, unknown_label, sample_weight :
        As for :func:`open_set_accuracy`.
    classes : array-like (n_classes,), optional
        The known classes in the order wanted: ``classes_`` of a fitted estimator. By default those that occur in
        ``y_true`` or ``y_pred``, sorted.

    Returns
    -------
    labels : ndarray (n_classes + 1,)
        The classes, then ``unknown_label``: the names of rows and columns.
    matrix : ndarray (n_classes + 1, n_classes + 1)
        Rows are true classes, columns predictions. Integers, or floats where ``sample_weight`` has floats.

    See Also
    --------
    srosr.OpenSetConfusionDisplay : Draw it.

    Examples
    --------
    A dog is rejected, and an unknown animal is taken for a cat:

    >>> from srosr import open_set_confusion
    >>> y_true = ["cat", "cat", "dog", "dog", "?", "?"]
    >>> y_pred = ["cat", "cat", "dog", "?", "cat", "?"]
    >>> labels, matrix = open_set_confusion(y_true, y_pred, unknown_label="?")
    >>> labels.tolist()
    ['cat', 'dog', '?']
    >>> matrix
    array([[2, 0, 0],
           [0, 1, 1],
           [1, 0, 1]])
    """
    samples = check_predictions(y_true, y_pred, unknown_label, sample_weight)
    mark = check_labels([unknown_label], "unknown_label").tolist()[0]
    true, row = _find_distinct(samples.true)
    predicted, column = _find_distinct(samples.predicted)
    if classes is None:
        found = {*true, *predicted} - {mark}
        known = sorted(found, key=lambda label: (isinstance(label, str), isinstance(label, bytes), label))
    else:
        known = check_labels(classes, "classes").tolist()
        if mark in known:
            raise ValueError(f"unknown_label {unknown_label!r} is one of classes: choose a label that is not.")
        if len(set(known)) < len(known):
            twice = next(label for label in known if known.count(label) > 1)
            raise ValueError(f"classes holds {twice!r} more than once.")
    number = {label: i for i, label in enumerate([*known, mark])}
    n = len(number)
    cell = _find_numbers(true, number, "y_true")[row] * n + _find_numbers(predicted, number, "y_pred")[column]
    matrix = np.bincount(cell, samples.weight, minlength=n * n).reshape(n, n).astype(samples.weight.dtype)
    return _join_names(known, mark), matrix


class Outcomes(NamedTuple):
    """Total weights of the four outcomes, after Scheirer et al."""

    tp: Any
    fn: Any
    fp: Any
    tn: Any

    @property
    def recognition_accuracy(self) -> float:
        """Share of the known samples that are accepted under the right class."""
        return float(self.tp / (self.tp + self.fn))

    @property
    def rejection_accuracy(self) -> float:
        """Share of the unknown samples that are rejected."""
        return float(self.tn / (self.tn + self.fp))


def count_outcomes(samples: Predictions) -> Outcomes:
    """Count known and right, known and anything else, unknown accepted, unknown rejected."""
    correct = samples.correct
    return Outcomes(
        tp=samples.total(correct),
        fn=samples.total(~samples.unknown & ~correct),
        fp=samples.total(samples.unknown & ~samples.rejected),
        tn=samples.total(samples.unknown & samples.rejected),
    )


def _find_distinct(labels: AnyArray) -> tuple[list[Any], AnyArray]:
    """Return the distinct labels and the index of each sample's label among them."""
    if labels.dtype == np.int64 and int(labels.max()) - int(labels.min()) <= len(labels):
        shifted = labels - labels.min()  # Class numbers need no sorting.
        present = np.bincount(shifted) > 0
        return (np.flatnonzero(present) + labels.min()).tolist(), (np.cumsum(present) - 1)[shifted]
    if labels.dtype.kind != "O":
        distinct, index = np.unique(labels, return_inverse=True)
        return distinct.tolist(), index
    # Numbers and strings have no order between them.
    number: dict[Any, int] = {}
    index = np.array([number.setdefault(label, len(number)) for label in labels.tolist()])
    return list(number), index


def _find_numbers(labels: list[Any], number: dict[Any, int], name: str) -> IntArray:
    try:
        return np.array([number[label] for label in labels], dtype=np.int64)
    except KeyError as missing:
        hint = (
            "mark_unknown(y, classes, unknown_label=...) relabels the classes that were not trained"
            if name == "y_true"
            else "classes must hold every class that can be predicted"
        )
        raise ValueError(
            f"{name} holds {missing.args[0]!r}, which is neither one of classes nor unknown_label: {hint}."
        ) from None


def _join_names(known: list[Any], mark: Any) -> AnyArray:
    classes, last = np.array(known, dtype=object), np.array([mark])
    if not known:
        return last
    if len(find_kinds(classes) | find_kinds(last)) > 1:
        return append_unknown(classes, mark)
    return append_unknown(np.array(known), mark)

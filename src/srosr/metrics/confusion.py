"""What was answered to what: the confusion with an unknown column, and the four outcomes of Scheirer et al."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .._support.unknown_label import with_unknown
from .inputs import as_labels, equal, kinds_of, marked

__all__ = ["Outcomes", "open_set_confusion", "outcomes"]


def open_set_confusion(
    y_true: Any, y_pred: Any, *, unknown_label: Any, classes: Any = None
) -> tuple[AnyArray, IntArray]:
    r"""Confusion matrix whose last row holds the unknown samples and whose last column the refusals.

    .. math:: C_{ij} = |\{\text{samples of class } i \text{ that were answered } j\}|

    All metrics of answers can be read off it. With K known classes, numbered from 0, and "unknown" at K:

    ======================================  ========================================
    known, accepted, right                  the diagonal above the last row
    known, accepted, wrong                  off the diagonal, above the last row and
                                            left of the last column
    known, refused                          the last column, above the last row
    unknown, accepted                       the last row, left of the last column
    unknown, refused                        the last entry
    ======================================  ========================================

    Parameters
    ----------
    y_true : array-like (n_samples,)
        Classes, strings or numbers; ``unknown_label`` for the samples of unknown classes. See :func:`mark_unknown`.
    y_pred : array-like (n_samples,)
        Answers: a class, or ``unknown_label`` for a refusal.
    unknown_label : str or number
    classes : array-like (n_classes,), optional
        The known classes in the order wanted: ``classes_`` of a fitted estimator. Without it those that occur in
        ``y_true`` or ``y_pred``, sorted.

    Returns
    -------
    labels : ndarray (n_classes + 1,)
        The classes, then ``unknown_label``: the names of rows and columns.
    matrix : ndarray of int (n_classes + 1, n_classes + 1)
        Rows are true classes, columns answers.

    See Also
    --------
    srosr.OpenSetConfusionDisplay : draws it.

    Examples
    --------
    A dog is refused, and a stranger is taken for a cat:

    >>> from srosr.metrics import open_set_confusion
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
    true, pred = as_labels(y_true, "y_true"), as_labels(y_pred, "y_pred")
    unknown, refused = marked(true, pred, unknown_label)
    mark = as_labels([unknown_label], "unknown_label").tolist()[0]
    if classes is None:
        known = _sorted_classes({*true[~unknown].tolist(), *pred[~refused].tolist()})
    else:
        known = as_labels(classes, "classes").tolist()
        if mark in known:
            raise ValueError(f"unknown_label {unknown_label!r} is one of classes: take another.")
        if len(set(known)) < len(known):
            twice = next(label for label in known if known.count(label) > 1)
            raise ValueError(f"classes holds {twice!r} more than once.")
    number = {label: i for i, label in enumerate([*known, mark])}
    matrix = np.zeros((len(number), len(number)), dtype=np.int64)
    np.add.at(matrix, (_numbered(true, number, "y_true"), _numbered(pred, number, "y_pred")), 1)
    return _names(known, mark), matrix


class Outcomes(NamedTuple):
    """Counts of what can happen, after Scheirer et al."""

    tp: int
    fn: int
    fp: int
    tn: int

    @property
    def known(self) -> int:
        """Samples of known classes."""
        return self.tp + self.fn

    @property
    def unknown(self) -> int:
        """Samples of unknown classes."""
        return self.fp + self.tn


def outcomes(y_true: Any, y_pred: Any, unknown_label: Any) -> Outcomes:
    """Known and right, known and anything else, unknown accepted, unknown refused."""
    true, pred = as_labels(y_true, "y_true"), as_labels(y_pred, "y_pred")
    unknown, refused = marked(true, pred, unknown_label)
    right = ~unknown & ~refused & equal(true, pred)
    cells = (right, ~unknown & ~right, unknown & ~refused, unknown & refused)
    return Outcomes(*(int(cell.sum()) for cell in cells))


# -- inside ----------------------------------------------------------------------------------------------


def _sorted_classes(labels: set[Any]) -> list[Any]:
    """Numbers before strings, where there are both: they have no order between them."""
    return sorted(labels, key=lambda label: (isinstance(label, str), isinstance(label, bytes), label))


def _numbered(labels: AnyArray, number: dict[Any, int], name: str) -> IntArray:
    try:
        return np.array([number[label] for label in labels.tolist()], dtype=np.int64)
    except KeyError as missing:
        hint = (
            "mark_unknown(y, classes, unknown_label=...) relabels the classes that were not trained"
            if name == "y_true"
            else "classes must hold every class that can be answered"
        )
        raise ValueError(
            f"{name} holds {missing.args[0]!r}, which is neither one of classes nor unknown_label: {hint}."
        ) from None


def _names(known: list[Any], mark: Any) -> AnyArray:
    classes, last = np.array(known, dtype=object), np.array([mark])
    if not known:
        return last
    if len(kinds_of(classes) | kinds_of(last)) > 1:
        return with_unknown(classes, mark)
    return with_unknown(np.array(known), mark)

"""The recognition problem itself: how open it is, and which labels are unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import AnyArray
from .._support.messages import join_names
from .._support.parameter_checks import check_choice
from .inputs import check_labels, find_kinds

_VARIANTS = ("scheirer", "geng", "sqrt_ratio")


def openness(n_train: int, n_target: int | None, n_test: int, *, variant: str = "scheirer") -> float:
    r"""Return the openness of a recognition problem: how much of the test was not part of training.

    It is 0 if the test has exactly the classes of training (closed set) and approaches 1 as it has more others. Papers
    mean different numbers by it:

    ``variant="scheirer"``
        .. math:: 1 - \sqrt{\frac{2N_{TA}}{N_{TG} + N_{TE}}}

        of training, target and test classes: Scheirer et al., Zhang & Patel.
    ``variant="geng"``
        .. math:: 1 - \sqrt{\frac{2N_{TA}}{N_{TA} + N_{TE}}}

        of training and test classes alone: the survey of Geng et al. The same if the target classes are those of
        training.
    ``variant="sqrt_ratio"``
        .. math:: 1 - \sqrt{\frac{K}{M}}

        with :math:`K = N_{TA}` of the :math:`M = N_{TE}` classes known: larger for the same problem, and common
        in papers on deep networks.

    Parameters
    ----------
    n_train : int
        Classes in training, :math:`N_{TA}`.
    n_target : int or None
        Classes to be recognized, :math:`N_{TG}`; most often those of training. The other variants do not use it, and
        it may be None there.
    n_test : int
        Classes in the test, known and unknown together, :math:`N_{TE}`.
    variant : {"scheirer", "geng", "sqrt_ratio"}, default "scheirer"

    Returns
    -------
    openness : float
        In [0, 1).

    References
    ----------
    W. J. Scheirer, A. Rocha, A. Sapkota, T. E. Boult, "Toward open set recognition", IEEE TPAMI 35, 2013.

    C. Geng, S.-J. Huang, S. Chen, "Recent advances in open set recognition: a survey", IEEE TPAMI 43, 2021.

    Examples
    --------
    Ten people are known, and the test has 28 others as well:

    >>> from srosr import openness
    >>> round(openness(10, 10, 38), 4)
    0.3545

    Six of ten digits are known, by two of the formulas:

    >>> round(openness(6, 6, 10), 4), round(openness(6, None, 10, variant="sqrt_ratio"), 4)
    (0.134, 0.2254)
    """
    check_choice("variant", variant, _VARIANTS)
    for name, value in {"n_train": n_train, "n_target": n_target, "n_test": n_test}.items():
        if name == "n_target" and value is None and variant != "scheirer":
            continue
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name} must be a number of classes, an integer of at least 1, got {value!r}.")
    target = n_target if variant == "scheirer" and n_target is not None else n_train
    if 2 * n_train > target + n_test:
        raise ValueError(
            f"n_test={n_test} is too small for n_train={n_train} and n_target={n_target}: openness would be negative. "
            "n_test counts all classes of the test, the known ones included."
        )
    share = n_train / n_test if variant == "sqrt_ratio" else 2.0 * n_train / (target + n_test)
    return float(1.0 - np.sqrt(share))


def mark_unknown(y: Any, classes: Any, *, unknown_label: Any) -> AnyArray:
    """Replace every label that is not a known class by ``unknown_label``.

    Parameters
    ----------
    y : array-like (n_samples,)
        Labels of known and unknown classes.
    classes : array-like (n_classes,)
        The known classes: ``classes_`` of a fitted estimator.
    unknown_label : str or number
        Not one of ``classes``.

    Returns
    -------
    marked : ndarray (n_samples,)

    Examples
    --------
    >>> from srosr import mark_unknown
    >>> mark_unknown([0, 7, 1, 9], [0, 1], unknown_label=-1)
    array([ 0, -1,  1, -1])
    """
    labels, known = check_labels(y, "y"), set(check_labels(classes, "classes").tolist())
    mark = check_labels([unknown_label], "unknown_label")
    if mark.tolist()[0] in known:
        raise ValueError(f"unknown_label {unknown_label!r} is one of classes: choose a label that is not.")
    kind, others = find_kinds(labels), find_kinds(check_labels(classes, "classes"))
    if not others & kind and not kind <= find_kinds(mark):
        raise ValueError(
            f"y holds {join_names(sorted(kind))} and classes {join_names(sorted(others))}: use one kind of label."
        )
    is_known = np.array([label in known for label in labels.tolist()])
    if kind != find_kinds(mark):
        labels, mark = labels.astype(object), mark.astype(object)
    return np.where(is_known, labels, mark)

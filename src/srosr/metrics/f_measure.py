"""The F-measures that papers on open set recognition report."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array
from .._support.parameter_checks import check_choice
from .confusion import open_set_confusion

_VARIANTS = ("scheirer", "micro", "macro")


def open_set_f_measure(
    y_true: Any,
    y_pred: Any,
    *,
    unknown_label: Any,
    variant: str = "scheirer",
    classes: Any = None,
    sample_weight: Any = None,
) -> float:
    r"""Return an F-measure: known samples that are recognized, against everything that can go wrong.

    .. math:: F = \frac{2PR}{P + R}, \qquad P = \text{precision}, \quad R = \text{recall}

    The variants differ in what precision and recall are. In none of them does a rejected unknown sample count as a
    success of its own: rejecting it only avoids a false positive.

    ``variant="scheirer"``
        Scheirer et al., and Zhang & Patel after them. With TP the known samples accepted under the right class, FN
        every other known sample, rejected or misclassified, and FP the unknown samples accepted:

        .. math:: F = \frac{2\,\mathrm{TP}}{2\,\mathrm{TP} + \mathrm{FP} + \mathrm{FN}}

        A misclassified known sample counts once, as FN. Without unknown samples FP is 0.

    ``variant="micro"``
        Micro-averaged open-set F-measure of Mendes-Júnior et al. For every known class i, TP\ :sub:`i` are its
        samples predicted as i, FP\ :sub:`i` the samples of other classes, known or unknown, predicted as i, and
        FN\ :sub:`i` its samples predicted otherwise, rejected ones included. The sums leave the unknown class out:

        .. math::
            P = \frac{\sum_i \mathrm{TP}_i}{\sum_i \mathrm{TP}_i + \mathrm{FP}_i}, \qquad
            R = \frac{\sum_i \mathrm{TP}_i}{\sum_i \mathrm{TP}_i + \mathrm{FN}_i}

        A misclassified known sample counts twice: it is missing from its own class and wrong in the other. So this
        variant is at most Scheirer's, and equal to it if no accepted known sample is misclassified.

    ``variant="macro"``
        Macro-averaged open-set F-measure of Mendes-Júnior et al., with the same counts: the harmonic mean *of the
        averages* of precision and of recall over the n known classes,

        .. math::
            P = \frac1n \sum_i \frac{\mathrm{TP}_i}{\mathrm{TP}_i + \mathrm{FP}_i}, \qquad
            R = \frac1n \sum_i \frac{\mathrm{TP}_i}{\mathrm{TP}_i + \mathrm{FN}_i}.

        It is not the average of the F-measures of the classes, which is what scikit-learn's
        ``f1_score(average="macro")`` gives; that one is never larger. 0/0, the precision of a class that is never
        predicted and the recall of one without samples, counts as 0.

    Another reading, of Bendale & Boult's OpenMax paper, exchanges the roles: FP are the misclassified known samples
    and FN the accepted unknown ones. It is not offered here.

    Parameters
    ----------
    y_true, y_pred, unknown_label, sample_weight :
        As for :func:`open_set_accuracy`; samples of known classes are needed.
    variant : {"scheirer", "micro", "macro"}, default "scheirer"
    classes : array-like (n_classes,), optional
        The known classes, best ``clf.classes_``: a label that is neither among them nor the unknown one is then an
        error, and "macro" averages over all of them. By default the classes are those that occur in ``y_true`` or
        ``y_pred``, and a class that was neither trained nor marked unknown counts as known and missed.

    Returns
    -------
    f : float
        In [0, 1]; 0 if nothing is recognized.

    See Also
    --------
    open_set_confusion : The counts behind it.

    References
    ----------
    W. J. Scheirer, A. Rocha, A. Sapkota, T. E. Boult, "Toward open set recognition", IEEE TPAMI 35, 2013.

    P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106, 2017.

    J. Opitz, S. Burst, "Macro F1 and macro F1", arXiv:1911.03347, 2019: on the two averages.

    Examples
    --------
    One of three known samples is rejected, and one of two unknown ones accepted: TP = 2, FN = 1, FP = 1.

    >>> from srosr import open_set_f_measure
    >>> y_true = ["cat", "cat", "dog", "?", "?"]
    >>> y_pred = ["cat", "?", "dog", "cat", "?"]
    >>> round(open_set_f_measure(y_true, y_pred, unknown_label="?"), 3)
    0.667

    The dog has precision and recall 1, the cat 1/2 and 1/2:

    >>> open_set_f_measure(y_true, y_pred, unknown_label="?", variant="macro")
    0.75
    """
    check_choice("variant", variant, _VARIANTS)
    _, matrix = open_set_confusion(
        y_true, y_pred, unknown_label=unknown_label, classes=classes, sample_weight=sample_weight
    )
    if not matrix[:-1].any():
        raise ValueError("y_true holds unknown samples only: the F-measure needs samples of known classes.")
    right = matrix.diagonal()[:-1]
    of_class, predicted = matrix[:-1].sum(axis=1), matrix[:, :-1].sum(axis=0)
    if variant == "scheirer":
        false_positives = matrix[-1, :-1].sum()
        return float(2 * right.sum() / (right.sum() + false_positives + of_class.sum()))
    if variant == "micro":
        return float(2 * right.sum() / (predicted.sum() + of_class.sum()))
    precision, recall = _divide(right, predicted).mean(), _divide(right, of_class).mean()
    return float(2 * precision * recall / (precision + recall)) if right.any() else 0.0


def _divide(part: AnyArray, whole: AnyArray) -> Array:
    """Return the quotients, 0 for 0/0."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)

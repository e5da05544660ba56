"""Shares of right answers: of all samples, of the known ones, of the unknown ones, and means of these."""

from __future__ import annotations

from typing import Any

from .confusion import outcomes
from .inputs import as_labels, check_share, marked, need_both, need_known, need_unknown

__all__ = [
    "harmonic_normalised_accuracy",
    "normalised_accuracy",
    "open_set_accuracy",
    "recognition_accuracy",
    "rejection_accuracy",
    "youden_j",
]


def open_set_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any) -> float:
    r"""Share of right answers, a refusal being the right one for an unknown sample.

    .. math:: \frac{\mathrm{TP} + \mathrm{TN}}{\mathrm{TP} + \mathrm{TN} + \mathrm{FP} + \mathrm{FN}}

    It depends on how many of the samples are unknown: :func:`normalised_accuracy` does not.

    Parameters
    ----------
    y_true : array-like (n_samples,)
        Classes, strings or numbers; ``unknown_label`` for the samples of unknown classes. See :func:`mark_unknown`.
    y_pred : array-like (n_samples,)
        Answers: a class, or ``unknown_label`` for a refusal.
    unknown_label : str or number

    Returns
    -------
    accuracy : float

    References
    ----------
    H. Zhang, V. M. Patel, "Sparse representation-based open set recognition", IEEE TPAMI, 2016.

    Examples
    --------
    >>> from srosr.metrics import open_set_accuracy
    >>> open_set_accuracy([1, 1, 2, -1, -1], [1, -1, 2, 1, -1], unknown_label=-1)
    0.6
    """
    counts = outcomes(y_true, y_pred, unknown_label)
    return (counts.tp + counts.tn) / sum(counts)


def recognition_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any) -> float:
    r"""Accuracy on known samples (AKS): the share of them that is accepted under the right class.

    .. math:: \mathrm{AKS} = \frac{\mathrm{TP}}{\mathrm{TP} + \mathrm{FN}}

    A known sample that is refused is as wrong as one that is misclassified. This is the plain share of samples; the
    survey of Geng et al. prints the accuracies of K two-class problems, pooled, which also count every other class
    that was rightly not answered and so come out larger.

    Parameters
    ----------
    y_true, y_pred, unknown_label :
        As for :func:`open_set_accuracy`; samples of known classes are needed.

    Returns
    -------
    accuracy : float
        In [0, 1].

    See Also
    --------
    rejection_accuracy : the same of the unknown samples.

    References
    ----------
    P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106, 2017.

    C. Geng, S.-J. Huang, S. Chen, "Recent advances in open set recognition: a survey", IEEE TPAMI 43, 2021.

    Examples
    --------
    Of four known samples two are right, one is misclassified and one is refused.

    >>> from srosr.metrics import recognition_accuracy
    >>> recognition_accuracy(["a", "a", "b", "b", "?"], ["a", "b", "b", "?", "a"], unknown_label="?")
    0.5
    """
    counts = outcomes(y_true, y_pred, unknown_label)
    need_known(counts.known, "AKS")
    return counts.tp / counts.known


def rejection_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any) -> float:
    r"""Accuracy on unknown samples (AUS): the share of them that is refused.

    .. math:: \mathrm{AUS} = \frac{\mathrm{TN}}{\mathrm{TN} + \mathrm{FP}}

    Parameters
    ----------
    y_true, y_pred, unknown_label :
        As for :func:`open_set_accuracy`; samples of unknown classes are needed.

    Returns
    -------
    accuracy : float
        In [0, 1].

    See Also
    --------
    recognition_accuracy : the same of the known samples.

    References
    ----------
    P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106, 2017.

    Examples
    --------
    >>> from srosr.metrics import rejection_accuracy
    >>> rejection_accuracy([1, 2, -1, -1, -1, -1], [1, -1, -1, 2, -1, -1], unknown_label=-1)
    0.75
    """
    counts = outcomes(y_true, y_pred, unknown_label)
    need_unknown(counts.unknown, unknown_label, "AUS")
    return counts.tn / counts.unknown


def normalised_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any, known_weight: float = 0.5) -> float:
    r"""Normalised accuracy (NA): a weighted mean of the accuracies on known and on unknown samples.

    .. math:: \mathrm{NA} = \lambda\,\mathrm{AKS} + (1 - \lambda)\,\mathrm{AUS}

    The number of samples of either kind plays no part. With :math:`\lambda` the share of the known samples in the
    test set it is :func:`open_set_accuracy`. A recogniser that refuses everything has :math:`1 - \lambda`, one that
    refuses nothing :math:`\lambda` times its closed-set accuracy.

    Parameters
    ----------
    y_true, y_pred, unknown_label :
        As for :func:`open_set_accuracy`; samples of both kinds are needed.
    known_weight : float in [0, 1], default 0.5
        :math:`\lambda`, the weight of the known samples.

    Returns
    -------
    accuracy : float
        In [0, 1].

    See Also
    --------
    harmonic_normalised_accuracy : does not let one accuracy make up for the other.

    References
    ----------
    P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106, 2017.

    Examples
    --------
    Three of four known samples are right, one of two unknown ones is refused.

    >>> from srosr.metrics import normalised_accuracy
    >>> y_true, y_pred = ["a", "a", "b", "b", "?", "?"], ["a", "a", "b", "?", "?", "a"]
    >>> normalised_accuracy(y_true, y_pred, unknown_label="?")
    0.625
    >>> normalised_accuracy(y_true, y_pred, unknown_label="?", known_weight=0.75)
    0.6875
    """
    weight = check_share(known_weight, "known_weight")
    known, unknown = _known_and_unknown(y_true, y_pred, unknown_label, "normalised accuracy")
    return weight * known + (1.0 - weight) * unknown


def harmonic_normalised_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any) -> float:
    r"""Harmonic normalised accuracy (HNA): the harmonic mean of the accuracies on known and on unknown samples.

    .. math:: \mathrm{HNA} = \frac{2}{\frac{1}{\mathrm{AKS}} + \frac{1}{\mathrm{AUS}}}

    It is 0 where either of them is 0, so that refusing everything, or nothing, is worth nothing; and never larger
    than :func:`normalised_accuracy` with equal weights.

    Parameters
    ----------
    y_true, y_pred, unknown_label :
        As for :func:`open_set_accuracy`; samples of both kinds are needed.

    Returns
    -------
    accuracy : float
        In [0, 1].

    References
    ----------
    P. R. Mendes Júnior, T. E. Boult, J. Wainer, A. Rocha, "Open-set support vector machines", IEEE Transactions on
    Systems, Man, and Cybernetics: Systems 52, 2022.

    Examples
    --------
    Three of four known samples are right, one of two unknown ones is refused: 2/(4/3 + 2).

    >>> from srosr.metrics import harmonic_normalised_accuracy
    >>> y_true, y_pred = ["a", "a", "b", "b", "?", "?"], ["a", "a", "b", "?", "?", "a"]
    >>> round(harmonic_normalised_accuracy(y_true, y_pred, unknown_label="?"), 3)
    0.6
    """
    known, unknown = _known_and_unknown(y_true, y_pred, unknown_label, "harmonic normalised accuracy")
    return 2.0 * known * unknown / (known + unknown) if known * unknown > 0 else 0.0


def youden_j(y_true: Any, y_pred: Any, *, unknown_label: Any) -> float:
    r"""Youden's J of the refusal: share of unknown samples refused minus share of known samples refused.

    .. math:: J = \text{sensitivity} + \text{specificity} - 1

    1 where exactly the unknown samples are refused, 0 for refusing regardless of the sample, negative for worse. Which
    class an accepted sample gets plays no part.

    Parameters
    ----------
    y_true, y_pred, unknown_label :
        As for :func:`open_set_accuracy`; samples of both kinds are needed.

    Returns
    -------
    j : float
        In [-1, 1].

    References
    ----------
    W. J. Youden, "Index for rating diagnostic tests", Cancer 3, 1950.

    Examples
    --------
    Both unknown samples are refused, and one of four known ones.

    >>> from srosr.metrics import youden_j
    >>> youden_j(["a", "a", "b", "b", "?", "?"], ["a", "a", "a", "?", "?", "?"], unknown_label="?")
    0.75
    """
    true, pred = as_labels(y_true, "y_true"), as_labels(y_pred, "y_pred")
    unknown, refused = marked(true, pred, unknown_label)
    need_both(unknown, unknown_label, "Youden's J")
    return float(refused[unknown].mean() - refused[~unknown].mean())


def _known_and_unknown(y_true: Any, y_pred: Any, unknown_label: Any, what: str) -> tuple[float, float]:
    counts = outcomes(y_true, y_pred, unknown_label)
    need_known(counts.known, what)
    need_unknown(counts.unknown, unknown_label, what)
    return counts.tp / counts.known, counts.tn / counts.unknown

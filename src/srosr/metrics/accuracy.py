"""Shares of right predictions: of all samples, of the known ones, of the unknown ones, and means of these."""

from __future__ import annotations

from typing import Any

from .._support.parameter_checks import check_fraction
from .confusion import count_outcomes
from .inputs import Predictions, check_predictions, require_known, require_unknown


def open_set_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any, sample_weight: Any = None) -> float:
    r"""Return the share of right predictions; for an unknown sample, a rejection is right.

    .. math:: \frac{\mathrm{TP} + \mathrm{TN}}{\mathrm{TP} + \mathrm{TN} + \mathrm{FP} + \mathrm{FN}}

    It depends on how many of the samples are unknown; :func:`normalized_accuracy` does not.

    Parameters
    ----------
    y_true : array-like (n_samples,)
        Classes, strings or numbers; ``unknown_label`` for the samples of unknown classes. See :func:`mark_unknown`.
    y_pred : array-like (n_samples,)
        Predictions: a class, or ``unknown_label`` for a rejected sample.
    unknown_label : str or number
    sample_weight : array-like (n_samples,), optional
        How often each sample counts; samples of weight 0 are left out. By default every sample counts once.

    Returns
    -------
    accuracy : float

    References
    ----------
    H. Zhang, V. M. Patel, "Sparse representation-based open set recognition", IEEE TPAMI, 2016.

    Examples
    --------
    >>> from srosr import open_set_accuracy
    >>> open_set_accuracy([1, 1, 2, -1, -1], [1, -1, 2, 1, -1], unknown_label=-1)
    0.6
    """
    counts = count_outcomes(check_predictions(y_true, y_pred, unknown_label, sample_weight))
    return float((counts.tp + counts.tn) / sum(counts))


def recognition_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any, sample_weight: Any = None) -> float:
    r"""Return the accuracy on known samples (AKS): the share of them that are accepted under the right class.

    .. math:: \mathrm{AKS} = \frac{\mathrm{TP}}{\mathrm{TP} + \mathrm{FN}}

    A known sample that is rejected is as wrong as one that is misclassified. This is the plain share of samples; the
    survey of Geng et al. pools the accuracies of K two-class problems, which also counts every other class that was
    rightly not predicted and so gives a larger number.

    Parameters
    ----------
    y_true, y_pred, unknown_label, sample_weight :
        As for :func:`open_set_accuracy`; samples of known classes are needed.

    Returns
    -------
    accuracy : float
        In [0, 1].

    See Also
    --------
    rejection_accuracy : The same for the unknown samples.

    References
    ----------
    P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106, 2017.

    C. Geng, S.-J. Huang, S. Chen, "Recent advances in open set recognition: a survey", IEEE TPAMI 43, 2021.

    Examples
    --------
    Of four known samples two are right, one is misclassified and one is rejected.

    >>> from srosr import recognition_accuracy
    >>> recognition_accuracy(["a", "a", "b", "b", "?"], ["a", "b", "b", "?", "a"], unknown_label="?")
    0.5
    """
    samples = check_predictions(y_true, y_pred, unknown_label, sample_weight)
    require_known(samples, "AKS")
    return count_outcomes(samples).recognition_accuracy


def rejection_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any, sample_weight: Any = None) -> float:
    r"""Return the accuracy on unknown samples (AUS): the share of them that are rejected.

    .. math:: \mathrm{AUS} = \frac{\mathrm{TN}}{\mathrm{TN} + \mathrm{FP}}

    Parameters
    ----------
    y_true, y_pred, unknown_label, sample_weight :
        As for :func:`open_set_accuracy`; samples of unknown classes are needed.

    Returns
    -------
    accuracy : float
        In [0, 1].

    See Also
    --------
    recognition_accuracy : The same for the known samples.

    References
    ----------
    P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106, 2017.

    Examples
    --------
    >>> from srosr import rejection_accuracy
    >>> rejection_accuracy([1, 2, -1, -1, -1, -1], [1, -1, -1, 2, -1, -1], unknown_label=-1)
    0.75
    """
    samples = check_predictions(y_true, y_pred, unknown_label, sample_weight)
    require_unknown(samples, unknown_label, "AUS")
    return count_outcomes(samples).rejection_accuracy


def normalized_accuracy(
    y_true: Any, y_pred: Any, *, unknown_label: Any, known_weight: float = 0.5, sample_weight: Any = None
) -> float:
    r"""Return the normalized accuracy (NA): a weighted mean of the accuracies on known and on unknown samples.

    .. math:: \mathrm{NA} = \lambda\,\mathrm{AKS} + (1 - \lambda)\,\mathrm{AUS}

    It does not depend on how many samples of either kind there are. With :math:`\lambda` the share of the known
    samples in the test set it is :func:`open_set_accuracy`. A classifier that rejects everything has
    :math:`1 - \lambda`, one that rejects nothing :math:`\lambda` times its closed-set accuracy.

    Parameters
    ----------
    y_true, y_pred, unknown_label, sample_weight :
        As for :func:`open_set_accuracy`; samples of both kinds are needed.
    known_weight : float in [0, 1], default 0.5
        :math:`\lambda`, the weight of the known samples.

    Returns
    -------
    accuracy : float
        In [0, 1].

    See Also
    --------
    harmonic_normalized_accuracy : Does not let one accuracy make up for the other.

    References
    ----------
    P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 106, 2017.

    Examples
    --------
    Three of four known samples are right, one of two unknown ones is rejected.

    >>> from srosr import normalized_accuracy
    >>> y_true, y_pred = ["a", "a", "b", "b", "?", "?"], ["a", "a", "b", "?", "?", "a"]
    >>> normalized_accuracy(y_true, y_pred, unknown_label="?")
    0.625
    >>> normalized_accuracy(y_true, y_pred, unknown_label="?", known_weight=0.75)
    0.6875
    """
    weight = check_fraction("known_weight", known_weight)
    counts = count_outcomes(_check_both(y_true, y_pred, unknown_label, sample_weight, "normalized accuracy"))
    return weight * counts.recognition_accuracy + (1.0 - weight) * counts.rejection_accuracy


def harmonic_normalized_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any, sample_weight: Any = None) -> float:
    r"""Return the harmonic normalized accuracy (HNA): the harmonic mean of the accuracies on known and unknown samples.

    .. math:: \mathrm{HNA} = \frac{2}{\frac{1}{\mathrm{AKS}} + \frac{1}{\mathrm{AUS}}}

    It is 0 if either of them is 0, so rejecting everything, or nothing, is worth nothing; and it is never larger than
    :func:`normalized_accuracy` with equal weights.

    Parameters
    ----------
    y_true, y_pred, unknown_label, sample_weight :
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
    Three of four known samples are right, one of two unknown ones is rejected: 2/(4/3 + 2).

    >>> from srosr import harmonic_normalized_accuracy
    >>> y_true, y_pred = ["a", "a", "b", "b", "?", "?"], ["a", "a", "b", "?", "?", "a"]
    >>> round(harmonic_normalized_accuracy(y_true, y_pred, unknown_label="?"), 3)
    0.6
    """
    counts = count_outcomes(_check_both(y_true, y_pred, unknown_label, sample_weight, "harmonic normalized accuracy"))
    known, unknown = counts.recognition_accuracy, counts.rejection_accuracy
    return 2.0 * known * unknown / (known + unknown) if known * unknown > 0 else 0.0


def youden_j(y_true: Any, y_pred: Any, *, unknown_label: Any, sample_weight: Any = None) -> float:
    r"""Return Youden's J: the share of unknown samples rejected minus the share of known samples rejected.

    .. math:: J = \text{sensitivity} + \text{specificity} - 1

    It is 1 if exactly the unknown samples are rejected, 0 for rejecting regardless of the sample, and negative for
    worse. The class of an accepted sample does not matter.

    Parameters
    ----------
    y_true, y_pred, unknown_label, sample_weight :
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
    Both unknown samples are rejected, and one of four known ones.

    >>> from srosr import youden_j
    >>> youden_j(["a", "a", "b", "b", "?", "?"], ["a", "a", "a", "?", "?", "?"], unknown_label="?")
    0.75
    """
    samples = _check_both(y_true, y_pred, unknown_label, sample_weight, "Youden's J")
    unknown, known = samples.unknown, ~samples.unknown
    rejected_unknown = samples.total(unknown & samples.rejected) / samples.total(unknown)
    return float(rejected_unknown - samples.total(known & samples.rejected) / samples.total(known))


def _check_both(y_true: Any, y_pred: Any, unknown_label: Any, sample_weight: Any, metric: str) -> Predictions:
    """Check predictions of known and unknown samples, some of each."""
    samples = check_predictions(y_true, y_pred, unknown_label, sample_weight)
    require_known(samples, metric)
    require_unknown(samples, unknown_label, metric)
    return samples

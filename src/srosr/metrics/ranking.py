"""How well a score separates unknown from known samples, whatever the threshold and whatever the class.

Areas and rates of the two-class problem behind open set recognition. AUROC is the same from either side; precision
and the rates at a point are not, so :func:`open_set_aupr` and :func:`fpr_at_tpr` say which side is positive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import Array
from .._support.parameter_checks import check_choice, check_fraction
from .inputs import check_ranking

_SIDES = ("known", "unknown")


def open_set_auroc(y_true: Any, unknown_score: Any, *, unknown_label: Any, sample_weight: Any = None) -> float:
    r"""Return the area under the ROC curve of telling unknown from known samples.

    This is the probability that an unknown sample has a larger score than a known one, ties counting half:

    .. math:: \frac{1}{|U||K|}\sum_{u \in U}\sum_{k \in K} [s_u > s_k] + \tfrac12[s_u = s_k]

    Parameters
    ----------
    y_true : array-like (n_samples,)
        ``unknown_label`` for the samples of unknown classes; the labels of the others do not matter.
    unknown_score : array-like (n_samples,)
        Larger is more unknown.
    unknown_label : str or number
    sample_weight : array-like (n_samples,), optional
        How often each sample counts; samples of weight 0 are left out. By default every sample counts once.

    Returns
    -------
    auroc : float
        In [0, 1]; 0.5 for scores that carry no information.

    Examples
    --------
    >>> from srosr import open_set_auroc
    >>> open_set_auroc([3, 3, 5, -1, -1], [0.1, 0.2, 0.7, 0.7, 0.9], unknown_label=-1)
    0.9166666666666666
    """
    ranked = check_ranking(y_true, unknown_score, unknown_label, sample_weight, "AUROC")
    unknown, known = (ranked.accumulate(side) for side in (ranked.samples.unknown, ~ranked.samples.unknown))
    ties = np.diff(known, prepend=0.0) / 2.0
    wins = np.diff(unknown, prepend=0.0) @ (known - ties)
    return float(wins / (unknown[-1] * known[-1]))


def open_set_aupr(
    y_true: Any, unknown_score: Any, *, unknown_label: Any, positive: str = "unknown", sample_weight: Any = None
) -> float:
    r"""Return the area under the precision-recall curve of telling unknown from known samples, as average precision.

    .. math:: \sum_n (R_n - R_{n-1})\,P_n

    over the distinct scores from the most to the least positive, with recall R and precision P among the samples up to
    each: samples of one score are taken together, and nothing is interpolated. It is what scikit-learn's
    ``average_precision_score`` gives.

    Unlike AUROC it depends on the side and on how many samples are unknown: scores that are all the same have the
    share of the positive side. Papers write AUPR-Out for ``positive="unknown"`` and AUPR-In for ``positive="known"``.

    Parameters
    ----------
    y_true, unknown_score, unknown_label, sample_weight :
        As for :func:`open_set_auroc`.
    positive : {"unknown", "known"}, default "unknown"
        The side to be found: unknown samples from the largest score down, or known ones from the smallest up.

    Returns
    -------
    aupr : float
        In (0, 1].

    References
    ----------
    D. Hendrycks, K. Gimpel, "A baseline for detecting misclassified and out-of-distribution examples in neural
    networks", ICLR 2017.

    Examples
    --------
    From the top: unknown, known, unknown, known. Precision is 1 at the first unknown sample, 2/3 at the second.

    >>> from srosr import open_set_aupr
    >>> y_true, score = [-1, 3, -1, 3], [0.9, 0.7, 0.6, 0.1]
    >>> round(open_set_aupr(y_true, score, unknown_label=-1), 3)
    0.833
    """
    found, taken = _accumulate_from_top(y_true, unknown_score, unknown_label, positive, sample_weight, "AUPR")
    return float(np.sum(np.diff(found, prepend=0) * (found / taken)) / found[-1])


def fpr_at_tpr(
    y_true: Any,
    unknown_score: Any,
    *,
    unknown_label: Any,
    tpr: float = 0.95,
    positive: str = "known",
    sample_weight: Any = None,
) -> float:
    r"""Return the false positive rate at a true positive rate, such as FPR95.

    .. math:: \min\{\mathrm{FPR}(t) : \mathrm{TPR}(t) \ge \text{tpr}\}

    over the thresholds t. Nothing is interpolated, and samples of one score fall on the same side of every threshold.
    Which side is positive decides what the rates are, and papers differ:

    ``positive="known"``
        A threshold accepts scores of at most t; TPR is the share of the known samples accepted, FPR that of the
        unknown ones: "When 95 % of the known samples are accepted, how many unknown ones are too?" The reading of ODIN.
    ``positive="unknown"``
        A threshold rejects scores of at least t; TPR is the share of the unknown samples rejected, FPR that of the
        known ones: "To reject 95 % of the unknown samples, how many known ones are lost?"

    Parameters
    ----------
    y_true, unknown_score, unknown_label, sample_weight :
        As for :func:`open_set_auroc`.
    tpr : float in (0, 1], default 0.95
    positive : {"known", "unknown"}, default "known"

    Returns
    -------
    fpr : float
        In [0, 1]; smaller is better.

    See Also
    --------
    ccr_at_fpr : The other way round, and with the classes.

    References
    ----------
    S. Liang, Y. Li, R. Srikant, "Enhancing the reliability of out-of-distribution image detection in neural
    networks", ICLR 2018.

    Examples
    --------
    Three of the four known samples can be accepted without any unknown one; to reject all three unknown ones, one
    known sample is lost.

    >>> from srosr import fpr_at_tpr
    >>> y_true, score = [3, 3, 3, 3, -1, -1, -1], [0.1, 0.2, 0.3, 0.8, 0.5, 0.7, 0.9]
    >>> fpr_at_tpr(y_true, score, unknown_label=-1, tpr=0.75)
    0.0
    >>> fpr_at_tpr(y_true, score, unknown_label=-1, tpr=0.75, positive="unknown")
    0.25
    """
    share = check_fraction("tpr", tpr, zero=False)
    found, taken = _accumulate_from_top(y_true, unknown_score, unknown_label, positive, sample_weight, "FPR at a TPR")
    first = np.searchsorted(found / found[-1], share)
    wrong = taken - found
    return float(wrong[first] / wrong[-1])


def _accumulate_from_top(
    y_true: Any, unknown_score: Any, unknown_label: Any, positive: str, sample_weight: Any, metric: str
) -> tuple[Array, Array]:
    """Return the weights of the positive samples and of all samples up to each score, the most positive first."""
    check_choice("positive", positive, _SIDES)
    ranked = check_ranking(y_true, unknown_score, unknown_label, sample_weight, metric)
    unknown = ranked.samples.unknown
    if positive == "unknown":
        ranked = ranked._replace(rank=len(ranked.scores) - 1 - ranked.rank)
    found = ranked.accumulate(unknown if positive == "unknown" else ~unknown)
    return found, ranked.accumulate(np.ones_like(unknown))

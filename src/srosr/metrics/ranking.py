"""How well a score tells unknown from known samples, whatever the threshold and whatever the class.

Areas and rates of the two-class problem behind open set recognition. AUROC is the same from either side; precision
and the rates at a point are not, so :func:`open_set_aupr` and :func:`fpr_at_tpr` say which side is positive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from .._support.array_types import IntArray
from .inputs import as_labels, as_scores, check_choice, check_share, marked, need_both, same_length

__all__ = ["fpr_at_tpr", "open_set_aupr", "open_set_auroc"]

_SIDES = ("known", "unknown")


def open_set_auroc(y_true: Any, unknown_score: Any, *, unknown_label: Any) -> float:
    r"""Area below the ROC curve of telling unknown from known samples.

    The chance that an unknown sample has a larger score than a known one, ties counting half:

    .. math:: \frac{1}{|U||K|}\sum_{u \in U}\sum_{k \in K} [s_u > s_k] + \tfrac12[s_u = s_k]

    Parameters
    ----------
    y_true : array-like (n_samples,)
        ``unknown_label`` for the samples of unknown classes; what the others are called plays no part.
    unknown_score : array-like (n_samples,)
        Larger is more unknown.
    unknown_label : str or number

    Returns
    -------
    auroc : float
        In [0, 1]; 0.5 for scores that say nothing.

    Examples
    --------
    >>> from srosr.metrics import open_set_auroc
    >>> open_set_auroc([3, 3, 5, -1, -1], [0.1, 0.2, 0.7, 0.7, 0.9], unknown_label=-1)
    0.9166666666666666
    """
    true, scores = as_labels(y_true, "y_true"), as_scores(unknown_score)
    same_length(y_true=true, unknown_score=scores)
    unknown, _ = marked(true, true, unknown_label)
    need_both(unknown, unknown_label, "AUROC")
    n_unknown = np.count_nonzero(unknown)
    pairs = n_unknown * (len(true) - n_unknown)
    wins = rankdata(scores)[unknown].sum() - n_unknown * (n_unknown + 1) / 2
    return float(wins / pairs)


def open_set_aupr(y_true: Any, unknown_score: Any, *, unknown_label: Any, positive: str = "unknown") -> float:
    r"""Area below the precision-recall curve of telling unknown from known samples, as average precision.

    .. math:: \sum_n (R_n - R_{n-1})\,P_n

    over the distinct scores from the most to the least positive, with recall R and precision P among the samples up to
    each: samples of one score are taken together, and nothing is interpolated. It is what scikit-learn's
    ``average_precision_score`` gives.

    Unlike AUROC it depends on the side and on how many samples are unknown: scores that are all the same have the
    share of the positive side. Papers write AUPR-Out for ``positive="unknown"`` and AUPR-In for ``positive="known"``.

    Parameters
    ----------
    y_true : array-like (n_samples,)
        ``unknown_label`` for the samples of unknown classes; what the others are called plays no part.
    unknown_score : array-like (n_samples,)
        Larger is more unknown.
    unknown_label : str or number
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

    >>> from srosr.metrics import open_set_aupr
    >>> y_true, score = [-1, 3, -1, 3], [0.9, 0.7, 0.6, 0.1]
    >>> round(open_set_aupr(y_true, score, unknown_label=-1), 3)
    0.833
    """
    found, taken = _found(y_true, unknown_score, unknown_label, positive, "AUPR")
    return float(np.sum(np.diff(found, prepend=0) * (found / taken)) / found[-1])


def fpr_at_tpr(
    y_true: Any, unknown_score: Any, *, unknown_label: Any, tpr: float = 0.95, positive: str = "known"
) -> float:
    r"""False positive rate at a true positive rate, such as FPR95.

    .. math:: \min\{\mathrm{FPR}(t) : \mathrm{TPR}(t) \ge \text{tpr}\}

    over the thresholds t. Nothing is interpolated, and samples of one score fall on the same side of every threshold.
    Which side is positive decides what the rates are, and papers differ:

    ``positive="known"``
        A threshold accepts scores of at most t; TPR is the share of the known samples accepted, FPR that of the
        unknown ones. "Of 95 % of the known samples accepted, how many strangers come along?" The reading of ODIN.
    ``positive="unknown"``
        A threshold refuses scores of at least t; TPR is the share of the unknown samples refused, FPR that of the
        known ones. "To keep out 95 % of the strangers, how many known samples are lost?"

    Parameters
    ----------
    y_true : array-like (n_samples,)
        ``unknown_label`` for the samples of unknown classes; what the others are called plays no part.
    unknown_score : array-like (n_samples,)
        Larger is more unknown.
    unknown_label : str or number
    tpr : float in (0, 1], default 0.95
    positive : {"known", "unknown"}, default "known"

    Returns
    -------
    fpr : float
        In [0, 1]; smaller is better.

    See Also
    --------
    ccr_at_fpr : the other way round, and with the classes.

    References
    ----------
    S. Liang, Y. Li, R. Srikant, "Enhancing the reliability of out-of-distribution image detection in neural
    networks", ICLR 2018.

    Examples
    --------
    To accept three of the four known samples, none of the three unknown ones need be; to refuse three unknown ones,
    one known sample must go.

    >>> from srosr.metrics import fpr_at_tpr
    >>> y_true, score = [3, 3, 3, 3, -1, -1, -1], [0.1, 0.2, 0.3, 0.8, 0.5, 0.7, 0.9]
    >>> fpr_at_tpr(y_true, score, unknown_label=-1, tpr=0.75)
    0.0
    >>> fpr_at_tpr(y_true, score, unknown_label=-1, tpr=0.75, positive="unknown")
    0.25
    """
    share = check_share(tpr, "tpr", zero=False)
    found, taken = _found(y_true, unknown_score, unknown_label, positive, "FPR at a TPR")
    first = np.searchsorted(found / found[-1], share)
    wrong = taken - found
    return float(wrong[first] / wrong[-1])


def _found(y_true: Any, unknown_score: Any, unknown_label: Any, positive: str, what: str) -> tuple[IntArray, IntArray]:
    """Positive samples, and all samples, up to each distinct score, the most positive first."""
    check_choice(positive, "positive", _SIDES)
    true, scores = as_labels(y_true, "y_true"), as_scores(unknown_score)
    same_length(y_true=true, unknown_score=scores)
    unknown, _ = marked(true, true, unknown_label)
    need_both(unknown, unknown_label, what)
    values, rank = np.unique(scores, return_inverse=True)
    n = len(values)
    if positive == "unknown":
        rank = n - 1 - rank
    wanted = unknown if positive == "unknown" else ~unknown
    return np.cumsum(np.bincount(rank[wanted], minlength=n)), np.cumsum(np.bincount(rank, minlength=n))

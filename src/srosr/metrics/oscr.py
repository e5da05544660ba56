"""The OSCR curve, which asks for the right class and for the unknown to be refused at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import Array
from .inputs import as_labels, as_scores, check_share, equal, marked, need_both, same_length

__all__ = ["ccr_at_fpr", "oscr_area", "oscr_curve"]


def oscr_curve(y_true: Any, candidate: Any, unknown_score: Any, *, unknown_label: Any) -> tuple[Array, Array, Array]:
    r"""Open set classification rate: correct classifications against false positives, over all thresholds.

    .. math::
        \mathrm{CCR}(t) &= \frac{|\{\text{known}, \text{candidate right}, s \le t\}|}{|\{\text{known}\}|}\\
        \mathrm{FPR}(t) &= \frac{|\{\text{unknown}, s \le t\}|}{|\{\text{unknown}\}|}

    It starts at (0, 0), where nothing is accepted, rises vertically as long as no unknown sample is, and ends at (1,
    closed-set accuracy), where everything is accepted. Samples of one score are accepted together; such points are
    joined by straight lines.

    Parameters
    ----------
    y_true : array-like (n_samples,)
        Classes; ``unknown_label`` for the samples of unknown classes, of which there must be some, as of known ones.
    candidate : array-like (n_samples,)
        The class each sample would get if it were accepted, never ``unknown_label``. Those of unknown samples are
        not looked at.
    unknown_score : array-like (n_samples,)
        Larger is more unknown.
    unknown_label : str or number

    Returns
    -------
    fpr, ccr : ndarray (n_points,)
        Both increasing.
    thresholds : ndarray (n_points,)
        Scores up to this one are accepted; the first point, ``-inf``, stands for accepting nothing.

    See Also
    --------
    oscr_area : the area below it.
    ccr_at_fpr : a point of it.

    References
    ----------
    A. R. Dhamija, M. Günther, T. E. Boult, "Reducing network agnostophobia", NeurIPS 2018.

    Examples
    --------
    >>> from srosr.metrics import oscr_curve
    >>> fpr, ccr, thresholds = oscr_curve(
    ...     ["a", "b", "b", "?"], ["a", "b", "a", "a"], [0.1, 0.2, 0.6, 0.4], unknown_label="?"
    ... )
    >>> fpr
    array([0., 0., 0., 1., 1.])
    >>> ccr.round(3)
    array([0.   , 0.333, 0.667, 0.667, 0.667])
    >>> thresholds
    array([-inf,  0.1,  0.2,  0.4,  0.6])
    """
    true, pred = as_labels(y_true, "y_true"), as_labels(candidate, "candidate")
    scores = as_scores(unknown_score)
    same_length(y_true=true, candidate=pred, unknown_score=scores)
    unknown, named_unknown = marked(true, pred, unknown_label, "candidate")
    need_both(unknown, unknown_label, "OSCR")
    if named_unknown[~unknown].any():
        raise ValueError(
            f"candidate contains unknown_label, {unknown_label!r}: OSCR needs the class a sample would get if it were "
            "accepted. Pass what candidate(X) returns, not predict(X)."
        )
    right = ~unknown & equal(true, pred)
    thresholds, rank = np.unique(scores, return_inverse=True)
    n = len(thresholds)
    ccr = np.cumsum(np.bincount(rank[right], minlength=n)) / np.count_nonzero(~unknown)
    fpr = np.cumsum(np.bincount(rank[unknown], minlength=n)) / np.count_nonzero(unknown)
    return np.append(0.0, fpr), np.append(0.0, ccr), np.append(-np.inf, thresholds)


def oscr_area(y_true: Any, candidate: Any, unknown_score: Any, *, unknown_label: Any) -> float:
    r"""Area below the OSCR curve: ranking of the unknowns and naming of the knowns in one number.

    .. math:: \int_0^1 \mathrm{CCR}\,\mathrm{d\,FPR}

    It is the chance that a known sample gets the right class *and* a lower score than an unknown one (ties: half).
    So it equals :func:`open_set_auroc` where every candidate is right, and is at most the closed-set accuracy; scores
    that are all the same give half of that.

    Parameters
    ----------
    y_true, candidate, unknown_score, unknown_label :
        As for :func:`oscr_curve`.

    Returns
    -------
    area : float
        In [0, closed-set accuracy].

    Examples
    --------
    >>> from srosr.metrics import oscr_area
    >>> y_true, candidate = ["a", "b", "b", "?"], ["a", "b", "a", "a"]
    >>> round(oscr_area(y_true, candidate, [0.1, 0.2, 0.6, 0.4], unknown_label="?"), 3)
    0.667
    """
    fpr, ccr, _ = oscr_curve(y_true, candidate, unknown_score, unknown_label=unknown_label)
    return float(np.sum(np.diff(fpr) * (ccr[1:] + ccr[:-1])) / 2.0)


def ccr_at_fpr(y_true: Any, candidate: Any, unknown_score: Any, *, unknown_label: Any, fpr: float) -> float:
    r"""Correct classification rate at a false positive rate: a point of the OSCR curve.

    .. math:: \max\{\mathrm{CCR}(t) : \mathrm{FPR}(t) \le \text{fpr}\}

    over all thresholds t, the one that accepts nothing included: the most known samples that can be recognised while
    at most that share of the unknown ones is accepted. With n unknown samples the rates to be had are multiples of
    1/n, so that any ``fpr`` below 1/n asks for none to be accepted. Between two points of the curve nothing is
    interpolated: the line promises rates that no threshold keeps, so this value is at most the line's.

    Parameters
    ----------
    y_true, candidate, unknown_score, unknown_label :
        As for :func:`oscr_curve`.
    fpr : float in [0, 1]
        Share of the unknown samples that may be accepted.

    Returns
    -------
    ccr : float
        In [0, closed-set accuracy].

    See Also
    --------
    fpr_at_tpr : the same question without the classes.

    References
    ----------
    A. R. Dhamija, M. Günther, T. E. Boult, "Reducing network agnostophobia", NeurIPS 2018.

    Examples
    --------
    Before the first unknown sample two of three known ones are accepted, before the second one all of them.

    >>> from srosr.metrics import ccr_at_fpr
    >>> y_true, candidate = ["a", "b", "?", "b", "?"], ["a", "b", "a", "b", "b"]
    >>> score = [0.1, 0.2, 0.4, 0.6, 0.8]
    >>> round(ccr_at_fpr(y_true, candidate, score, unknown_label="?", fpr=0.1), 3)
    0.667
    >>> ccr_at_fpr(y_true, candidate, score, unknown_label="?", fpr=0.5)
    1.0
    """
    limit = check_share(fpr, "fpr")
    rates, ccr, _ = oscr_curve(y_true, candidate, unknown_score, unknown_label=unknown_label)
    return float(ccr[np.searchsorted(rates, limit, side="right") - 1])

"""The OSCR curve, which asks for the right class and for rejected unknowns at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import Array
from .._support.parameter_checks import check_fraction
from .inputs import check_ranking


def oscr_curve(
    y_true: Any, candidate: Any, unknown_score: Any, *, unknown_label: Any, sample_weight: Any = None
) -> tuple[Array, Array, Array]:
    r"""Return the open set classification rate: correct classifications against false positives, by threshold.

    .. math::
        \mathrm{CCR}(t) &= \frac{|\{\text{known}, \text{candidate right}, s \le t\}|}{|\{\text{known}\}|}\\
        \mathrm{FPR}(t) &= \frac{|\{\text{unknown}, s \le t\}|}{|\{\text{unknown}\}|}

    The curve starts at (0, 0), where nothing is accepted, rises vertically as long as no unknown sample is, and ends at
    (1, closed-set accuracy), where everything is accepted. Samples of one score are accepted together; such points are
    joined by straight lines.

    Parameters
    ----------
    y_true : array-like (n_samples,)
        Classes; ``unknown_label`` for the samples of unknown classes, of which there must be some, as of known ones.
    candidate : array-like (n_samples,)
        The class each sample would get if it were accepted, never ``unknown_label``. The candidates of unknown
        samples do not matter.
    unknown_score : array-like (n_samples,)
        Larger is more unknown.
    unknown_label : str or number
    sample_weight : array-like (n_samples,), optional
        How often each sample counts; samples of weight 0 are left out. By default every sample counts once.

    Returns
    -------
    fpr, ccr : ndarray (n_points,)
        Both ascending.
    thresholds : ndarray (n_points,)
        Scores up to this one are accepted; the first point, ``-inf``, stands for accepting nothing.

    See Also
    --------
    oscr_area : The area under it.
    ccr_at_fpr : A point of it.

    References
    ----------
    A. R. Dhamija, M. Günther, T. E. Boult, "Reducing network agnostophobia", NeurIPS 2018.

    Examples
    --------
    >>> from srosr import oscr_curve
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
    ranked = check_ranking(y_true, unknown_score, unknown_label, sample_weight, "OSCR", candidate)
    samples = ranked.samples
    if (samples.rejected & ~samples.unknown).any():
        raise ValueError(
            f"candidate contains unknown_label, {unknown_label!r}: OSCR needs the class a sample would get if it were "
            "accepted. Pass what candidate(X) returns, not predict(X)."
        )
    ccr = ranked.accumulate(samples.correct) / samples.total(~samples.unknown)
    fpr = ranked.accumulate(samples.unknown) / samples.total(samples.unknown)
    return np.append(0.0, fpr), np.append(0.0, ccr), np.append(-np.inf, ranked.scores)


def oscr_area(
    y_true: Any, candidate: Any, unknown_score: Any, *, unknown_label: Any, sample_weight: Any = None
) -> float:
    r"""Return the area under the OSCR curve: ranking the unknowns and classifying the knowns in one number.

    .. math:: \int_0^1 \mathrm{CCR}\,\mathrm{d\,FPR}

    This is the probability that a known sample gets the right class *and* a lower score than an unknown one, ties
    counting half. So it equals :func:`open_set_auroc` if every candidate is right, and is at most the closed-set
    accuracy; scores that are all the same give half of that.

    Parameters
    ----------
    y_true, candidate, unknown_score, unknown_label, sample_weight :
        As for :func:`oscr_curve`.

    Returns
    -------
    area : float
        In [0, closed-set accuracy].

    Examples
    --------
    >>> from srosr import oscr_area
    >>> y_true, candidate = ["a", "b", "b", "?"], ["a", "b", "a", "a"]
    >>> round(oscr_area(y_true, candidate, [0.1, 0.2, 0.6, 0.4], unknown_label="?"), 3)
    0.667
    """
    fpr, ccr, _ = oscr_curve(y_true, candidate, unknown_score, unknown_label=unknown_label, sample_weight=sample_weight)
    return float(np.sum(np.diff(fpr) * (ccr[1:] + ccr[:-1])) / 2.0)


def ccr_at_fpr(
    y_true: Any, candidate: Any, unknown_score: Any, *, unknown_label: Any, fpr: float, sample_weight: Any = None
) -> float:
    r"""Return the correct classification rate at a false positive rate: a point of the OSCR curve.

    .. math:: \max\{\mathrm{CCR}(t) : \mathrm{FPR}(t) \le \text{fpr}\}

    over all thresholds t, including the one that accepts nothing: the largest share of known samples that can be
    recognized while at most ``fpr`` of the unknown ones are accepted. With n unknown samples the possible rates are
    multiples of 1/n, so any ``fpr`` below 1/n means that none is accepted. Nothing is interpolated between two points
    of the curve, because no threshold achieves the rates in between; so the value is at most that of the drawn line.

    Parameters
    ----------
    y_true, candidate, unknown_score, unknown_label, sample_weight :
        As for :func:`oscr_curve`.
    fpr : float in [0, 1]
        Share of the unknown samples that may be accepted.

    Returns
    -------
    ccr : float
        In [0, closed-set accuracy].

    See Also
    --------
    fpr_at_tpr : The same question without the classes.

    References
    ----------
    A. R. Dhamija, M. Günther, T. E. Boult, "Reducing network agnostophobia", NeurIPS 2018.

    Examples
    --------
    Two of three known samples come before the first unknown one, all of them before the second.

    >>> from srosr import ccr_at_fpr
    >>> y_true, candidate = ["a", "b", "?", "b", "?"], ["a", "b", "a", "b", "b"]
    >>> score = [0.1, 0.2, 0.4, 0.6, 0.8]
    >>> round(ccr_at_fpr(y_true, candidate, score, unknown_label="?", fpr=0.1), 3)
    0.667
    >>> ccr_at_fpr(y_true, candidate, score, unknown_label="?", fpr=0.5)
    1.0
    """
    limit = check_fraction("fpr", fpr)
    rates, ccr, _ = oscr_curve(
        y_true, candidate, unknown_score, unknown_label=unknown_label, sample_weight=sample_weight
    )
    return float(ccr[np.searchsorted(rates, limit, side="right") - 1])

r"""Open set metrics, by the names of the papers they come from.

A test set holds samples of known classes, under their class, and samples of classes that training never saw, all
under ``unknown_label``. A recogniser accepts a sample, naming a class, or refuses it, naming ``unknown_label``. What
can happen is counted as Scheirer et al. do:

===========================  ==========
sample and answer            counted as
===========================  ==========
known, accepted, right       TP
known, any other answer      FN
unknown, accepted            FP
unknown, refused             TN
===========================  ==========

Curves and areas take the score instead of the answer: larger is more unknown, and a threshold t accepts the samples
with a score of at most t. Only the order of the scores matters, so infinite ones are welcome.
"""

from __future__ import annotations

from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from ._types import AnyArray, Array

__all__ = [
    "mark_unknown",
    "open_set_accuracy",
    "open_set_auroc",
    "open_set_f_measure",
    "openness",
    "oscr_area",
    "oscr_curve",
    "youden_j",
]


def open_set_f_measure(y_true: Any, y_pred: Any, *, unknown_label: Any) -> float:
    r"""F-measure of Scheirer et al.: known and right against everything that can go wrong.

    .. math:: F = \frac{2\,\mathrm{TP}}{2\,\mathrm{TP} + \mathrm{FP} + \mathrm{FN}}

    with TP the known samples accepted under the right class, FN every other known sample, refused or misclassified,
    and FP the unknown samples accepted. It is the harmonic mean of precision TP/(TP + FP) and recall TP/(TP + FN). A
    misclassified known sample counts once, as FN. Without unknown samples FP is 0.

    Parameters
    ----------
    y_true : array-like (n_samples,)
        Classes, strings or numbers; ``unknown_label`` for the samples of unknown classes. See :func:`mark_unknown`.
    y_pred : array-like (n_samples,)
        Answers: a class, or ``unknown_label`` for a refusal.
    unknown_label : str or number

    Returns
    -------
    f : float
        In [0, 1].

    References
    ----------
    W. J. Scheirer, A. Rocha, A. Sapkota, T. E. Boult, "Toward open set recognition", IEEE TPAMI 35, 2013.

    Examples
    --------
    One of three known samples is refused, and one of two unknown ones accepted: TP = 2, FN = 1, FP = 1.

    >>> from srosr.metrics import open_set_f_measure
    >>> y_true = ["cat", "cat", "dog", "?", "?"]
    >>> y_pred = ["cat", "?", "dog", "cat", "?"]
    >>> round(open_set_f_measure(y_true, y_pred, unknown_label="?"), 3)
    0.667
    """
    counts = _counts(y_true, y_pred, unknown_label)
    _need_known(counts.known)
    return 2.0 * counts.tp / (2 * counts.tp + counts.fp + counts.fn)


def open_set_accuracy(y_true: Any, y_pred: Any, *, unknown_label: Any) -> float:
    r"""Share of right answers, a refusal being the right one for an unknown sample.

    .. math:: \frac{\mathrm{TP} + \mathrm{TN}}{\mathrm{TP} + \mathrm{TN} + \mathrm{FP} + \mathrm{FN}}

    Parameters
    ----------
    y_true, y_pred, unknown_label :
        As for :func:`open_set_f_measure`.

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
    counts = _counts(y_true, y_pred, unknown_label)
    return (counts.tp + counts.tn) / sum(counts)


def youden_j(y_true: Any, y_pred: Any, *, unknown_label: Any) -> float:
    r"""Youden's J of the refusal: share of unknown samples refused minus share of known samples refused.

    .. math:: J = \text{sensitivity} + \text{specificity} - 1

    1 where exactly the unknown samples are refused, 0 for refusing regardless of the sample, negative for worse. Which
    class an accepted sample gets plays no part.

    Parameters
    ----------
    y_true, y_pred, unknown_label :
        As for :func:`open_set_f_measure`; samples of both kinds are needed.

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
    true, pred = _labels(y_true, "y_true"), _labels(y_pred, "y_pred")
    unknown, refused = _refused(true, pred, unknown_label)
    _need_both(unknown, unknown_label, "Youden's J")
    return float(refused[unknown].mean() - refused[~unknown].mean())


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
    true, pred = _labels(y_true, "y_true"), _labels(candidate, "candidate")
    scores = _scores(unknown_score)
    _same_length(y_true=true, candidate=pred, unknown_score=scores)
    unknown, named_unknown = _refused(true, pred, unknown_label, "candidate")
    _need_both(unknown, unknown_label, "OSCR")
    if named_unknown[~unknown].any():
        raise ValueError(
            f"candidate contains unknown_label, {unknown_label!r}: OSCR needs the class a sample would get if it were "
            "accepted. Pass what candidate(X) returns, not predict(X)."
        )
    right = ~unknown & _equal(true, pred)
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
    true, scores = _labels(y_true, "y_true"), _scores(unknown_score)
    _same_length(y_true=true, unknown_score=scores)
    unknown, _ = _refused(true, true, unknown_label)
    _need_both(unknown, unknown_label, "AUROC")
    n_unknown = np.count_nonzero(unknown)
    pairs = n_unknown * (len(true) - n_unknown)
    wins = rankdata(scores)[unknown].sum() - n_unknown * (n_unknown + 1) / 2
    return float(wins / pairs)


def openness(n_train: int, n_target: int, n_test: int) -> float:
    r"""Openness of a recognition problem after Scheirer et al.

    .. math:: 1 - \sqrt{\frac{2N_{TA}}{N_{TG} + N_{TE}}}

    0 where the test meets exactly the classes of training (closed set), towards 1 the more others it meets. Papers
    differ: Geng et al. leave the target classes out, and some write :math:`1 - \sqrt{K/M}` for K of M classes known.

    Parameters
    ----------
    n_train : int
        Classes in training, :math:`N_{TA}`.
    n_target : int
        Classes to be recognised, :math:`N_{TG}`; most often those of training.
    n_test : int
        Classes met in testing, known and unknown together, :math:`N_{TE}`.

    Returns
    -------
    openness : float
        In [0, 1).

    References
    ----------
    W. J. Scheirer, A. Rocha, A. Sapkota, T. E. Boult, "Toward open set recognition", IEEE TPAMI 35, 2013.

    Examples
    --------
    Ten people known, 28 others met as well:

    >>> from srosr.metrics import openness
    >>> round(openness(10, 10, 38), 4)
    0.3545
    """
    for name, value in {"n_train": n_train, "n_target": n_target, "n_test": n_test}.items():
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name} must be a number of classes, an integer of at least 1, got {value!r}.")
    if 2 * n_train > n_target + n_test:
        raise ValueError(
            f"n_test={n_test} is too small for n_train={n_train} and n_target={n_target}: openness would be negative. "
            "n_test counts all classes met in testing, the known ones included."
        )
    return float(1.0 - np.sqrt(2.0 * n_train / (n_target + n_test)))


def mark_unknown(y: Any, classes: Any, *, unknown_label: Any) -> AnyArray:
    """Labels with everything that is not a known class replaced by ``unknown_label``.

    Parameters
    ----------
    y : array-like (n_samples,)
        Labels of known and unknown classes.
    classes : array-like (n_classes,)
        The known ones: ``classes_`` of a fitted estimator.
    unknown_label : str or number
        None of ``classes``.

    Returns
    -------
    marked : ndarray (n_samples,)

    Examples
    --------
    >>> from srosr.metrics import mark_unknown
    >>> mark_unknown([0, 7, 1, 9], [0, 1], unknown_label=-1)
    array([ 0, -1,  1, -1])
    """
    labels, known = _labels(y, "y"), set(_labels(classes, "classes").tolist())
    mark = _labels([unknown_label], "unknown_label")
    if mark.tolist()[0] in known:
        raise ValueError(f"unknown_label {unknown_label!r} is one of classes: take another.")
    kind, others = _kinds(labels), _kinds(_labels(classes, "classes"))
    if not others & kind and not kind <= _kinds(mark):
        raise ValueError(f"y holds {_listed(kind)} and classes {_listed(others)}: use one kind of label.")
    is_known = np.array([label in known for label in labels.tolist()])
    if kind != _kinds(mark):
        labels, mark = labels.astype(object), mark.astype(object)
    return np.where(is_known, labels, mark)


# -- inside ----------------------------------------------------------------------------------------------


class _Counts(NamedTuple):
    tp: int
    fn: int
    fp: int
    tn: int

    @property
    def known(self) -> int:
        return self.tp + self.fn


def _counts(y_true: Any, y_pred: Any, unknown_label: Any) -> _Counts:
    true, pred = _labels(y_true, "y_true"), _labels(y_pred, "y_pred")
    unknown, refused = _refused(true, pred, unknown_label)
    right = ~unknown & ~refused & _equal(true, pred)
    cells = (right, ~unknown & ~right, unknown & ~refused, unknown & refused)
    return _Counts(*(int(cell.sum()) for cell in cells))


def _refused(
    true: AnyArray, pred: AnyArray, unknown_label: Any, pred_name: str = "y_pred"
) -> tuple[AnyArray, AnyArray]:
    """Which entries of either are the unknown label, after making sure that they can be compared at all."""
    _same_length(**{"y_true": true, pred_name: pred})
    mark = _labels([unknown_label], "unknown_label")
    unknown, refused = _equal(true, mark), _equal(pred, mark)
    kinds, answers = _kinds(true[~unknown]), _kinds(pred[~refused])
    if kinds and answers and not kinds & answers:
        raise ValueError(f"y_true holds {_listed(kinds)} and {pred_name} {_listed(answers)}: use one kind of label.")
    if not unknown.any() and not refused.any() and not _kinds(mark) & (kinds | answers):
        raise ValueError(
            f"unknown_label is {unknown_label!r}, of {_listed(_kinds(mark))}, and all labels are "
            f"{_listed(kinds | answers)}: use one kind of label."
        )
    return unknown, refused


def _labels(values: Any, name: str) -> AnyArray:
    """One-dimensional labels: numbers, strings, or objects that are one or the other."""
    if hasattr(values, "__array__"):
        out = np.asarray(values)
    elif isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} must be a list or array of labels, got {values!r}.")
    else:
        # Not np.asarray, which would turn the number in ["a", -1] into a string.
        out = np.array(list(values), dtype=object)
    if out.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, one label a sample, got shape {out.shape}.")
    if not len(out):
        raise ValueError(f"{name} is empty.")
    if out.dtype.kind == "O":
        kinds = _kinds(out)
        if strange := kinds - {"strings", "bytes", "numbers"}:
            raise ValueError(f"{name} holds {_listed(strange)}: labels must be strings or numbers, none missing.")
        if len(kinds) == 1:
            out = np.array(out.tolist())
    if out.dtype.kind not in "biufSUTO":
        raise ValueError(f"{name} holds {out.dtype}: labels must be strings or numbers.")
    if out.dtype.kind in "fO" and any(v != v for v in out.tolist()):
        raise ValueError(f"{name} contains NaN; a sample of an unknown class needs a label, the unknown one.")
    return out


def _kinds(labels: AnyArray) -> set[str]:
    """What the labels are: "strings", "numbers", both, or names of other types."""
    if not len(labels):
        return set()
    if labels.dtype.kind in "SUT":
        return {"bytes" if labels.dtype.kind == "S" else "strings"}
    if labels.dtype.kind != "O":
        return {"numbers"}
    known = ((str, "strings"), (bytes, "bytes"), (Number, "numbers"))
    return {next((name for kind, name in known if issubclass(t, kind)), t.__name__) for t in map(type, labels)}


def _listed(kinds: set[str]) -> str:
    return " and ".join(sorted(kinds))


def _equal(a: AnyArray, b: AnyArray) -> AnyArray:
    if _kinds(a) != _kinds(b):
        a, b = a.astype(object), b.astype(object)
    return np.asarray(a == b, dtype=bool)


def _scores(values: Any) -> Array:
    try:
        scores = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("unknown_score must be an array of numbers, one a sample.") from None
    if scores.ndim != 1:
        raise ValueError(f"unknown_score must be one-dimensional, one number a sample, got shape {scores.shape}.")
    if np.isnan(scores).any():
        raise ValueError(f"unknown_score is NaN for {np.isnan(scores).sum()} samples: they have no rank.")
    return scores


def _same_length(**arrays: AnyArray) -> None:
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise ValueError(f"one entry a sample is needed everywhere, but {found}.")


def _need_known(n_known: int) -> None:
    if not n_known:
        raise ValueError("y_true holds unknown samples only: the F-measure needs samples of known classes.")


def _need_both(unknown: AnyArray, unknown_label: Any, what: str) -> None:
    if not unknown.any():
        raise ValueError(
            f"y_true has no unknown samples: none is labelled {unknown_label!r}. {what} compares known with unknown "
            "samples; mark_unknown(y, classes, unknown_label=...) relabels classes that were not trained."
        )
    if unknown.all():
        raise ValueError(f"y_true holds unknown samples only: {what} needs samples of known classes too.")

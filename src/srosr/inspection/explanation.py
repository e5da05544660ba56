r"""Why one sample is recognised, or refused: everything the verdict was made of, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import Array, IntArray
from .._support.unknown_label import append_unknown
from ..coding import sparse_encode
from ..dictionary import Dictionary, Queries
from ..evidence import EVIDENCE, Evidence
from ..scoring import MIN_SAMPLES, CalibratedRule, TailRule

if TYPE_CHECKING:
    from ..classifiers import SROSRClassifier
    from .explanation_display import ExplanationDisplay

__all__ = ["Explanation", "UsedAtom", "WeighedEvidence", "explain"]

#: Pictures of this many of the atoms in a code are kept.
N_PICTURES = 8
_MATCHED, _NONMATCHED = EVIDENCE.index("matched"), EVIDENCE.index("nonmatched")
_CONCENTRATION = EVIDENCE.index("concentration")


@dataclass(frozen=True)
class WeighedEvidence:
    """One kind of evidence and what it adds to the score.

    Attributes
    ----------
    name : str
        One of :data:`srosr.evidence.table.EVIDENCE`.
    value : float
        In its own units.
    standardised : float
        In standard deviations of known samples, large speaking for a stranger; for the rules "paper" and "matched" the
        tail probability.
    weight : float
    contribution : float
        Weight times standardised value; what all evidence contributes adds up to ``Explanation.score``.
    typical : float
        Median of the value over the known samples of comparison; NaN without them.
    """

    name: str
    value: float
    standardised: float
    weight: float
    contribution: float
    typical: float


@dataclass(frozen=True)
class UsedAtom:
    """A training sample that has a part in the code.

    Attributes
    ----------
    row : int
        Row of the sample among the training samples (those added later count on from there).
    atom : int
        Its place in the dictionary, where samples are sorted by class.
    label : label
    coefficient : float
    share : float
        Of the code, :math:`|x_i|/\\|x\\|_1`.
    """

    row: int
    atom: int
    label: Any
    coefficient: float
    share: float


@dataclass(frozen=True, eq=False)
class Explanation:
    r"""Why a sample is recognised, or refused. It prints as text, and :meth:`plot` draws it.

    Attributes
    ----------
    label : label
        What ``predict`` says.
    candidate : label
        The closest known class, refused or not.
    refused : bool
    unknown_score, threshold : float
        Refused where the score is above the threshold of the candidate class.
    threshold_detail : str
        Where the threshold comes from.
    p_value, log_p_value : float
        One minus the unknown score; with the rule "calibrated" the share of known samples at least as strange.
    rule : str
    score : float
        Sum of the contributions: the fused score, for the rules "paper" and "matched" :math:`G_m + wG_{nm}`. NaN for a
        sample of length zero.
    score_threshold : float
        The threshold on the scale of ``score``.
    evidence : tuple of WeighedEvidence
        Largest contribution first. Empty for a sample of length zero.
    reasons : tuple of str
        Of a refused sample: the fewest pieces of evidence, largest contributions first, without which it would have
        been accepted (had their contribution been 0: that of the average known sample, no excess in a tail). Where no
        choice of them is enough, all that spoke for a stranger.
    reasons_suffice : bool
        Whether it would have been accepted without them; False for an accepted sample.
    residuals : mapping of label to float
        What each class leaves unexplained, :math:`\|y - Y_kx_k\|`.
    residual : float
        What the whole code leaves unexplained.
    length : float
        Of the sample, to compare residuals with: 1 where samples are normalised, 0 where there is nothing in it.
    matched_probability, nonmatched_probability : float
        Tail probabilities :math:`G_m, G_{nm}` of the candidate class: 0 within the body of what known samples leave, 1
        beyond all of them. NaN where there are no tails.
    concentration : float
        Sparsity concentration index of the code.
    shares : mapping of label to float
        Share of the code on each class, all 0 where the code is zero.
    atoms : tuple of UsedAtom
        The training samples that rebuilt it, largest coefficient first.
    class_sizes : mapping of label to int
        Training samples of each class.
    compared_with : {"class", "all", "none"}
        The held-out samples it is compared with: those of the candidate class, of all classes where that one has fewer
        than ten, or none.
    n_compared : int
        How many those are.
    matched_position, nonmatched_position : float
        Share of them with a smaller matched error, and with a larger mean non-matched error: 1 is strange. NaN without
        any.
    usual_residual, usual_share : float
        Nine in ten of them leave at most this residual, and have at least this share of their code on one class.
    next_candidate : label
        The class with the second smallest residual.
    is_p_value : bool
        Whether ``p_value`` is one: rule "calibrated", and known samples could be held out.
    sample, pictures : ndarray or None
        Features of the sample and of the first of ``atoms``, to be shown; None where they are not at hand.
    """

    label: Any
    candidate: Any
    refused: bool
    unknown_score: float
    threshold: float
    threshold_detail: str
    p_value: float
    log_p_value: float
    rule: str
    score: float
    score_threshold: float
    evidence: tuple[WeighedEvidence, ...]
    reasons: tuple[str, ...]
    reasons_suffice: bool
    residuals: Mapping[Any, float]
    residual: float
    length: float
    matched_probability: float
    nonmatched_probability: float
    concentration: float
    shares: Mapping[Any, float]
    atoms: tuple[UsedAtom, ...]
    class_sizes: Mapping[Any, int]
    compared_with: str
    n_compared: int
    matched_position: float
    nonmatched_position: float
    usual_residual: float
    usual_share: float
    next_candidate: Any
    is_p_value: bool
    sample: Array | None = field(default=None, repr=False)
    pictures: Array | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The explanation in sentences."""
        from .explanation_text import explained

        return explained(self)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        verdict, *rest = self.text.split("\n")
        lines = "".join(f"<p>{escape(line)}</p>" for line in rest)
        return f"<div><p><strong>{escape(verdict)}</strong></p>{lines}</div>"

    def plot(
        self, ax: Any = None, *, image_shape: tuple[int, int] | None = None, pictures: Any = None
    ) -> ExplanationDisplay:
        """Draw it: residuals, contributions and atoms; and the pictures they stand for, where there are any.

        Parameters
        ----------
        ax, image_shape, pictures
            As in :meth:`ExplanationDisplay.plot`.
        """
        from .explanation_display import ExplanationDisplay

        return ExplanationDisplay(self).plot(ax, image_shape=image_shape, pictures=pictures)

    def to_dict(self) -> dict[str, Any]:
        """All but the pictures, in types that JSON has; what is not finite is None, what goes by class is a list."""
        out = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in ("sample", "pictures")}
        return out | {"text": self.text}


def explain(clf: SROSRClassifier, x: Any) -> Explanation:
    """Why a fitted recogniser recognises or refuses one sample.

    Parameters
    ----------
    clf : SROSRClassifier
        Fitted.
    x : array-like (n_features,) or (1, n_features), a row of a DataFrame, or a one-row DataFrame
        One sample; with ``kernel="precomputed"`` a :class:`Queries` of one sample. Feature names are checked as
        ``predict`` does.

    Returns
    -------
    explanation : Explanation

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from srosr.classifiers.srosr_classifier import SROSRClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = SROSRClassifier(n_repeats=5, random_state=0).fit(X[:300][y[:300] < 6], y[:300][y[:300] < 6])
    >>> stranger = X[y == 7][0]
    >>> e = clf.explain(stranger)
    >>> e.refused, e.label, e.candidate in clf.classes_
    (True, -1, True)
    >>> print(e.text.split(":")[0])
    Refused
    """
    check_is_fitted(clf, "calibration_")
    checked = clf._check_queries(_one(x, clf.dictionary_))
    dictionary = clf.dictionary_
    queries = dictionary.query(checked)
    evidence = clf._gather_evidence(queries)
    codes = sparse_encode(queries, dictionary, clf.problem_)
    code = np.asarray(codes.toarray()[0], dtype=np.float64)
    k = int(evidence.candidate[0])
    empty = bool(evidence.empty[0])
    score = float(clf._score_evidence(evidence)[0])
    threshold = float(clf.thresholds_[k])
    refused = empty or score > threshold
    classes: list[Any] = np.asarray(clf.classes_).tolist()
    labels: list[Any] = append_unknown(np.asarray(clf.classes_), clf.unknown_label_).tolist()
    residuals = evidence.residuals[0]
    rule, tails = clf.calibration_.rule, clf.calibration_.tails
    log_p = -math.inf if empty else float(rule.log_p_value(evidence.values, evidence.candidate)[0])
    probabilities = (math.nan, math.nan)
    if tails is not None and not empty:
        matched, nonmatched = tails.probabilities(evidence.values, evidence.candidate)
        probabilities = float(matched[0]), float(nonmatched[0])
    known = _Comparison.of(clf, k)
    parts = () if empty else _weighed(rule, evidence, probabilities, known)
    reasons, suffice = _reasons(rule, parts, threshold) if refused else ((), False)
    mass = np.array([np.abs(code[part]).sum() for part in dictionary.class_slices])
    return Explanation(
        label=labels[len(classes) if refused else k],
        candidate=classes[k],
        refused=refused,
        unknown_score=score,
        threshold=threshold,
        threshold_detail=clf.threshold_info_.detail,
        p_value=math.exp(log_p),
        log_p_value=log_p,
        rule=clf.rule_,
        score=math.nan if empty else math.fsum(part.contribution for part in parts),
        score_threshold=_on_the_scale_of_contributions(rule, threshold),
        evidence=parts,
        reasons=reasons,
        reasons_suffice=suffice,
        residuals=dict(zip(classes, residuals.tolist(), strict=True)),
        residual=float(codes.residual_norm[0]),
        length=math.sqrt(float(queries.squared_norms[0])),
        matched_probability=probabilities[0],
        nonmatched_probability=probabilities[1],
        concentration=float(evidence.values[0, _CONCENTRATION]),
        shares=dict(zip(classes, (mass / (mass.sum() or 1.0)).tolist(), strict=True)),
        atoms=_used(code, dictionary, clf.training_rows_),
        class_sizes={c: s.stop - s.start for c, s in zip(classes, dictionary.class_slices, strict=True)},
        compared_with=known.kind,
        n_compared=len(known.values),
        matched_position=known.share_below(_MATCHED, evidence.values[0, _MATCHED]),
        nonmatched_position=known.share_above(_NONMATCHED, evidence.values[0, _NONMATCHED]),
        usual_residual=known.quantile(_MATCHED, 0.9),
        usual_share=(known.quantile(_CONCENTRATION, 0.1) * (len(classes) - 1) + 1) / len(classes),
        next_candidate=classes[int(np.argsort(residuals, kind="stable")[1])],
        is_p_value=isinstance(rule, CalibratedRule) and len(clf.calibration_.held_out) > 0,
        sample=None if isinstance(checked, Queries) else np.asarray(checked, dtype=np.float64)[0],
        pictures=_pictures(code, dictionary),
    )


def _one(x: Any, dictionary: Dictionary) -> Any:
    """One sample as a row that scikit-learn can check, or a ValueError that says what to give."""
    if isinstance(x, Queries) or dictionary.is_precomputed:
        if not isinstance(x, Queries):
            raise ValueError(
                'x must be a srosr.Queries of one sample with kernel="precomputed": its similarities to the training '
                "samples, and to itself."
            )
        if len(x) != 1:
            raise ValueError(f"x must be one sample, got a Queries of {len(x)}; give queries[i : i + 1].")
        return x
    if hasattr(x, "iloc") and hasattr(x, "to_frame"):
        x = x.to_frame().T  # a row of a DataFrame: the names of the features are its index
    table = hasattr(x, "columns") or hasattr(x, "toarray")  # scikit-learn takes the first, and says why not the second
    shape = tuple(x.shape) if table else np.shape(_numbers(x))
    if len(shape) == 1:
        return np.reshape(_numbers(x), (1, -1))
    if len(shape) != 2 or shape[0] != 1:
        raise ValueError(
            f"x must be one sample, a vector of {dictionary.n_features} numbers, got shape {shape}; "
            "give one row: X[i], or X.iloc[i] of a DataFrame."
        )
    return x


def _numbers(x: Any) -> Any:
    try:
        return np.asarray(x)
    except ValueError:
        raise ValueError("x must be one sample, a vector of numbers, got rows of different lengths.") from None


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The evidence of held-out samples that a sample is compared with."""

    kind: str
    values: Array

    @classmethod
    def of(cls, clf: SROSRClassifier, k: int) -> _Comparison:
        rows = clf.calibration_.held_out
        own = rows.truth == k
        if own.sum() >= MIN_SAMPLES:
            return cls("class", rows.values[own])
        if len(rows) >= MIN_SAMPLES:
            return cls("all", rows.values)
        return cls("none", rows.values[:0])

    def quantile(self, column: int, q: float) -> float:
        return float(np.quantile(self.values[:, column], q)) if len(self.values) else math.nan

    def share_below(self, column: int, value: float) -> float:
        return float(np.mean(self.values[:, column] < value)) if len(self.values) else math.nan

    def share_above(self, column: int, value: float) -> float:
        return float(np.mean(self.values[:, column] > value)) if len(self.values) else math.nan


def _weighed(
    rule: CalibratedRule | TailRule, evidence: Evidence, probabilities: tuple[float, float], known: _Comparison
) -> tuple[WeighedEvidence, ...]:
    """What each kind of evidence adds to the score, the largest first."""
    if isinstance(rule, CalibratedRule):
        columns = list(range(len(EVIDENCE)))
        standardised, weights = rule.fusion.standardize(evidence.values)[0], rule.fusion.weights
    else:
        columns = [_MATCHED, _NONMATCHED]
        standardised, weights = np.array(probabilities), np.array([1.0, rule.weight])
    parts = [
        WeighedEvidence(
            name=EVIDENCE[j],
            value=float(evidence.values[0, j]),
            standardised=float(s),
            weight=float(w),
            contribution=float(s * w),
            typical=known.quantile(j, 0.5),
        )
        for j, s, w in zip(columns, standardised, weights, strict=True)
    ]
    return tuple(sorted(parts, key=lambda part: -part.contribution))


def _on_the_scale_of_contributions(rule: CalibratedRule | TailRule, threshold: float) -> float:
    return (
        float(rule.distribution.ppf(threshold)) if isinstance(rule, CalibratedRule) else threshold * (1 + rule.weight)
    )


def _reasons(
    rule: CalibratedRule | TailRule, parts: tuple[WeighedEvidence, ...], threshold: float
) -> tuple[tuple[str, ...], bool]:
    """The fewest contributions without which the score is not above the threshold, and whether that takes it there."""
    out: list[str] = []
    for i, part in enumerate(parts):
        if part.contribution <= 0:
            break
        out.append(part.name)
        left = math.fsum(other.contribution for other in parts[i + 1 :])
        unknown = float(rule.distribution.cdf(left)) if isinstance(rule, CalibratedRule) else left / (1 + rule.weight)
        if unknown <= threshold:
            return tuple(out), True
    return tuple(out), False


def _used(code: Array, dictionary: Dictionary, rows: IntArray) -> tuple[UsedAtom, ...]:
    support = np.flatnonzero(code)
    support = support[np.argsort(-np.abs(code[support]), kind="stable")]
    labels: list[Any] = np.asarray(dictionary.labels)[support].tolist()
    total = float(np.abs(code).sum())
    return tuple(
        UsedAtom(int(rows[dictionary.order[i]]), int(i), label, float(code[i]), abs(float(code[i])) / total)
        for i, label in zip(support, labels, strict=True)
    )


def _pictures(code: Array, dictionary: Dictionary) -> Array | None:
    """Features of the atoms with the largest coefficients, where the kernel is linear."""
    atoms = dictionary.linear_atoms
    if atoms is None:
        return None
    largest = np.argsort(-np.abs(code), kind="stable")[: min(N_PICTURES, np.count_nonzero(code))]
    return np.array(atoms[largest])


def _plain(value: Any) -> Any:
    """A value in types that JSON has."""
    if isinstance(value, Mapping):
        return [{"label": _plain(label), "value": _plain(number)} for label, number in value.items()]
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if value is None or isinstance(value, bool | int | str) else str(value)

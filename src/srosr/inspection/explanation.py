r"""Explanations: why one sample is recognized or rejected, in numbers, in words and as a figure."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import Array, IntArray
from .._support.unknown_label import append_unknown
from ..coding.encode import sparse_encode
from ..dictionary.dictionary import Dictionary, Queries
from ..evidence.table import EVIDENCE, Evidence
from ..scoring.decision_rules import MIN_SAMPLES, CalibratedRule, TailRule
from .explanation_display import ExplanationDisplay
from .explanation_facts import ExplanationFacts, UsedAtom, WeighedClassScore, WeighedEvidence, to_plain
from .explanation_text import describe_explanation

if TYPE_CHECKING:
    from ..classifiers.srosr_classifier import SROSRClassifier

#: Number of atoms of a code whose features are kept for figures.
N_PICTURES = 12
_MATCHED, _NONMATCHED = EVIDENCE.index("matched"), EVIDENCE.index("nonmatched")
_CONCENTRATION = EVIDENCE.index("concentration")


class Explanation(ExplanationFacts):
    r"""Why a sample is recognized or rejected. It prints as text, and :meth:`plot` draws it.

    Attributes
    ----------
    label : label
        What ``predict`` returns.
    candidate : label
        The closest known class, whether the sample is rejected or not.
    rejected : bool
    unknown_score, threshold : float
        The sample is rejected if the score exceeds the threshold of the candidate class.
    threshold_detail : str
        Where the threshold comes from.
    p_value, log_p_value : float
        One minus the unknown score; with the rule "calibrated" the share of known samples that score at least as high.
    rule : str
    score : float
        Sum of the contributions: the fused score, for the rules "paper" and "matched" :math:`G_m + wG_{nm}`. NaN for a
        sample of length zero.
    score_threshold : float
        The threshold on the scale of ``score``.
    evidence : tuple of WeighedEvidence
        Largest contribution first. Empty for a sample of length zero.
    reasons : tuple of str
        For a rejected sample: the fewest kinds of evidence, largest contributions first, without which it would have
        been accepted (with a contribution of 0, that of the average known sample or of no excess in a tail). If no
        choice of them is enough, all with a positive contribution.
    reasons_suffice : bool
        Whether it would have been accepted without them; False for an accepted sample.
    class_scores : mapping of label to float
        Score of each class; the largest is the candidate's.
    class_evidence : tuple of WeighedClassScore
        What each kind of class score adds to the lead of the candidate over ``next_candidate``, the largest first.
        Empty where the smallest residual gives the candidate.
    residuals : mapping of label to float
        What each class leaves unexplained, :math:`\|y - Y_kx_k\|`.
    residual : float
        What the whole code leaves unexplained.
    length : float
        Length of the sample, to compare residuals with: 1 if samples are normalized, 0 for a zero sample.
    matched_probability, nonmatched_probability : float
        Tail probabilities :math:`G_m, G_{nm}` of the class with the smallest residual: 0 within the body of the errors
        of known samples, 1 beyond all of them. NaN if there are no tails.
    concentration : float
        Sparsity concentration index of the code.
    shares : mapping of label to float
        Share of the code on each class, all 0 if the code is zero.
    atoms : tuple of UsedAtom
        The atoms that reconstruct it, largest coefficient first: training samples, or atoms learned from them.
    class_sizes : mapping of label to int
        Atoms of each class: its training samples, unless the dictionary is a small one.
    compared_with : {"class", "all", "none"}
        The held-out samples it is compared with: those of the candidate class, of all classes if that one has fewer
        than ten, or none.
    n_compared : int
        Number of those samples.
    matched_position, nonmatched_position : float
        Share of them with a smaller matched error, and with a larger mean non-matched error: large for unknown samples.
        NaN without any.
    usual_residual, usual_share : float
        Nine in ten of them leave at most this residual in the class that leaves least, and have at least this share of
        their code on one class.
    next_candidate : label
        The class with the second largest class score.
    residual_candidate : label
        The class with the smallest residual.
    is_p_value : bool
        Whether ``p_value`` is one: rule "calibrated", and known samples could be held out.
    sample, pictures : ndarray or None
        Features of the sample and of the first of ``atoms``, for figures; None if they are not available.
    """

    @property
    def text(self) -> str:
        """The explanation in sentences."""
        return describe_explanation(self)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        decision, *rest = self.text.split("\n")
        lines = "".join(f"<p>{escape(line)}</p>" for line in rest)
        return f"<div><p><strong>{escape(decision)}</strong></p>{lines}</div>"

    def plot(
        self, ax: Any = None, *, image_shape: tuple[int, int] | None = None, pictures: Any = None
    ) -> ExplanationDisplay:
        """Draw residuals, contributions and atoms, and the pictures they stand for, if there are any.

        Parameters
        ----------
        ax, image_shape, pictures
            As in :meth:`ExplanationDisplay.plot`.
        """
        return ExplanationDisplay(self).plot(ax, image_shape=image_shape, pictures=pictures)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict of everything except the pictures.

        Numbers that are not finite become None, mappings by class become lists.
        """
        shown = [f.name for f in fields(self) if f.name not in ("sample", "pictures")]
        out = {name: to_plain(getattr(self, name)) for name in shown}
        return out | {"text": self.text}


def explain(clf: SROSRClassifier, x: Any) -> Explanation:
    """Explain why a fitted recognizer recognizes or rejects one sample, see :meth:`SROSRClassifier.explain`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from srosr import SROSRClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = SROSRClassifier(n_repeats=5, random_state=0).fit(X[:300][y[:300] < 6], y[:300][y[:300] < 6])
    >>> unknown = X[y == 7][0]
    >>> e = clf.explain(unknown)
    >>> e.rejected, e.label, e.candidate in clf.classes_
    (True, -1, True)
    >>> print(e.text.split(":")[0])
    Rejected
    """
    check_is_fitted(clf, "calibration_")
    if clf.feature_recipe_ is not None:
        x = clf.feature_recipe_.select_features(x, clf.n_features_in_)
    checked = clf._check_queries(_check_sample(x, clf.dictionary_))
    dictionary = clf.dictionary_
    queries = dictionary.query(checked)
    evidence = clf._gather_evidence(queries)
    codes = sparse_encode(queries, dictionary, clf.problem_)
    code = np.asarray(codes.toarray()[0], dtype=np.float64)
    class_scores = clf._select_class_scores(evidence)[0]
    k = int(class_scores.argmax())
    empty = bool(evidence.empty[0])
    score = float(clf._score_evidence(evidence)[0])
    threshold = float(clf.thresholds_[k])
    rejected = empty or score > threshold
    classes: list[Any] = np.asarray(clf.classes_).tolist()
    labels: list[Any] = append_unknown(np.asarray(clf.classes_), clf.unknown_label_).tolist()
    residuals = evidence.residuals[0]
    rule, tails = clf.calibration_.rule, clf.calibration_.tails
    log_p = -math.inf if empty else float(rule.log_p_value(evidence.values, evidence.residual_candidate)[0])
    probabilities = (math.nan, math.nan)
    if tails is not None and not empty:
        matched, nonmatched = tails.probabilities(evidence.values, evidence.residual_candidate)
        probabilities = float(matched[0]), float(nonmatched[0])
    known = _Comparison.select(clf, k)
    parts = () if empty else _weigh_evidence(rule, clf.evidence_names_, evidence, probabilities, known)
    reasons, suffice = _find_reasons(rule, parts, threshold) if rejected else ((), False)
    following = int(np.argsort(-class_scores, kind="stable")[1])
    mass = np.array([np.abs(code[part]).sum() for part in dictionary.class_slices])
    return Explanation(
        label=labels[len(classes) if rejected else k],
        candidate=classes[k],
        rejected=rejected,
        unknown_score=score,
        threshold=threshold,
        threshold_detail=clf.threshold_info_.detail,
        p_value=math.exp(log_p),
        log_p_value=log_p,
        rule=clf.rule_,
        score=math.nan if empty else math.fsum(part.contribution for part in parts),
        score_threshold=(
            float(rule.current.ppf(threshold)) if isinstance(rule, CalibratedRule) else threshold * (1 + rule.weight)
        ),
        evidence=parts,
        reasons=reasons,
        reasons_suffice=suffice,
        class_scores=dict(zip(classes, class_scores.tolist(), strict=True)),
        class_evidence=_weigh_class_scores(clf, queries, residuals, k, following),
        residuals=dict(zip(classes, residuals.tolist(), strict=True)),
        residual=float(codes.residual_norm[0]),
        length=math.sqrt(float(queries.squared_norms[0])),
        matched_probability=probabilities[0],
        nonmatched_probability=probabilities[1],
        concentration=float(evidence.values[0, _CONCENTRATION]),
        shares=dict(zip(classes, (mass / (mass.sum() or 1.0)).tolist(), strict=True)),
        atoms=_find_atoms(code, dictionary, clf.training_rows_, clf.learned_atoms_),
        class_sizes={c: s.stop - s.start for c, s in zip(classes, dictionary.class_slices, strict=True)},
        compared_with=known.kind,
        n_compared=len(known.values),
        matched_position=known.share_below(_MATCHED, evidence.values[0, _MATCHED]),
        nonmatched_position=known.share_below(_NONMATCHED, evidence.values[0, _NONMATCHED], -1),
        usual_residual=known.quantile(_MATCHED, 0.9),
        usual_share=(known.quantile(_CONCENTRATION, 0.1) * (len(classes) - 1) + 1) / len(classes),
        next_candidate=classes[following],
        residual_candidate=classes[int(residuals.argmin())],
        is_p_value=isinstance(rule, CalibratedRule) and len(clf.calibration_.held_out) > 0,
        sample=None if isinstance(checked, Queries) else np.asarray(checked, dtype=np.float64)[0],
        pictures=_find_pictures(code, dictionary),
    )


def _check_sample(x: Any, dictionary: Dictionary) -> Any:
    """Return one sample as a row that scikit-learn can check."""
    if isinstance(x, Queries) or dictionary.is_precomputed:
        if not isinstance(x, Queries):
            raise ValueError(
                'x must be a srosr.Queries of one sample with kernel="precomputed": its similarities to the training '
                "samples, and to itself."
            )
        if len(x) != 1:
            raise ValueError(f"x must be one sample, got a Queries of {len(x)}; pass queries[i : i + 1].")
        return x
    if hasattr(x, "iloc") and hasattr(x, "to_frame"):
        x = x.to_frame().T  # a row of a DataFrame, whose index has the names of the features
    # scikit-learn accepts the former and explains why not the latter.
    table = hasattr(x, "columns") or hasattr(x, "toarray")
    shape = tuple(x.shape) if table else np.shape(_convert_to_array(x))
    if len(shape) == 1:
        return np.reshape(_convert_to_array(x), (1, -1))
    if len(shape) != 2 or shape[0] != 1:
        raise ValueError(
            f"x must be one sample, a vector of {dictionary.n_features} numbers, got shape {shape}; "
            "pass one row: X[i], or X.iloc[i] of a DataFrame."
        )
    return x


def _convert_to_array(x: Any) -> Any:
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
    def select(cls, clf: SROSRClassifier, k: int) -> _Comparison:
        rows = clf.calibration_.held_out
        own = rows.truth == k
        if own.sum() >= MIN_SAMPLES:
            return cls("class", rows.values[own])
        if len(rows) >= MIN_SAMPLES:
            return cls("all", rows.values)
        return cls("none", rows.values[:0])

    def quantile(self, column: int, q: float) -> float:
        return float(np.quantile(self.values[:, column], q)) if len(self.values) else math.nan

    def share_below(self, column: int, value: float, sign: int = 1) -> float:
        """Return the share with a smaller value, or with a larger one where the sign is −1."""
        return float(np.mean(sign * self.values[:, column] < sign * value)) if len(self.values) else math.nan


def _weigh_evidence(
    rule: CalibratedRule | TailRule,
    used: tuple[str, ...],
    evidence: Evidence,
    probabilities: tuple[float, float],
    known: _Comparison,
) -> tuple[WeighedEvidence, ...]:
    """Return what each kind of evidence adds to the score, the largest contribution first."""
    if isinstance(rule, CalibratedRule):
        columns = [j for j, name in enumerate(EVIDENCE) if name in used]
        standardized, weights = rule.fusion.standardize(evidence.values)[0][columns], rule.fusion.weights[columns]
    else:
        columns = [_MATCHED, _NONMATCHED]
        standardized, weights = np.array(probabilities), np.array([1.0, rule.weight])
    parts = [
        WeighedEvidence(
            name=EVIDENCE[j],
            value=float(evidence.values[0, j]),
            standardized=float(s),
            weight=float(w),
            contribution=float(s * w),
            typical=known.quantile(j, 0.5),
        )
        for j, s, w in zip(columns, standardized, weights, strict=True)
    ]
    return tuple(sorted(parts, key=lambda part: -part.contribution))


def _weigh_class_scores(
    clf: SROSRClassifier, queries: Queries, residuals: Array, candidate: int, following: int
) -> tuple[WeighedClassScore, ...]:
    """Return what each kind of class score adds to the lead of the candidate, the largest first."""
    fusion = clf.calibration_.class_fusion
    if fusion is None or clf._scorer is None or clf.label_by_ == "residual":
        return ()
    scores = clf._scorer.score(queries).by_kind | {"residual": -residuals[None]}
    out = []
    for kind, weight, scale in zip(fusion.kinds, fusion.weights.tolist(), fusion.scale.tolist(), strict=True):
        own, other = float(scores[kind][0, candidate]), float(scores[kind][0, following])
        out.append(WeighedClassScore(kind, own, other, weight, weight * (own - other) / scale))
    return tuple(sorted(out, key=lambda part: -part.lead))


def _find_reasons(
    rule: CalibratedRule | TailRule, parts: tuple[WeighedEvidence, ...], threshold: float
) -> tuple[tuple[str, ...], bool]:
    """Return the fewest contributions without which the score would not exceed the threshold, and whether it would."""
    out: list[str] = []
    for i, part in enumerate(parts):
        if part.contribution <= 0:
            break
        out.append(part.name)
        left = math.fsum(other.contribution for other in parts[i + 1 :])
        unknown = float(rule.current.cdf(left)) if isinstance(rule, CalibratedRule) else left / (1 + rule.weight)
        if unknown <= threshold:
            return tuple(out), True
    return tuple(out), False


def _find_atoms(code: Array, dictionary: Dictionary, rows: IntArray, learned: bool) -> tuple[UsedAtom, ...]:
    support = np.flatnonzero(code)
    support = support[np.argsort(-np.abs(code[support]), kind="stable")]
    labels: list[Any] = np.asarray(dictionary.labels)[support].tolist()
    total = float(np.abs(code).sum())
    return tuple(
        UsedAtom(int(rows[dictionary.order[i]]), int(i), label, float(code[i]), abs(float(code[i])) / total, learned)
        for i, label in zip(support, labels, strict=True)
    )


def _find_pictures(code: Array, dictionary: Dictionary) -> Array | None:
    """Return the features of the atoms with the largest coefficients, if the kernel is linear."""
    atoms = dictionary.linear_atoms
    if atoms is None:
        return None
    largest = np.argsort(-np.abs(code), kind="stable")[: min(N_PICTURES, np.count_nonzero(code))]
    return np.array(atoms[largest], dtype=np.float64)

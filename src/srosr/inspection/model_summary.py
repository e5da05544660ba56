"""Summaries of fitted classifiers: classes, threshold, and results on held-out samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array
from .._support.unknown_label import format_label
from ..classifiers.base import OpenSetClassifier
from ..classifiers.dictionary_classifier import DictionaryClassifier
from ..classifiers.srosr_classifier import SROSRClassifier
from ..rivals.methods import method_name
from ..scoring.calibration import count_atoms


@dataclass(frozen=True)
class HeldOutSummary:
    """Results on held-out training samples; shares are None if there were none."""

    #: Number of held-out samples, with all classes known.
    samples: int
    #: Shares of them whose candidate is their class, that are rejected, that are accepted under the right class.
    accuracy: float | None
    rejected: float | None
    recognized: float | None
    #: Number of samples of classes that were left out in turn, and the share of those that are rejected.
    simulated_unknowns: int
    simulated_unknowns_rejected: float | None


@dataclass(frozen=True)
class ModelSummary:
    """The facts about a fitted model."""

    #: A name of :func:`srosr.open_set_methods`, and of the class.
    method: str
    estimator: str
    classes: list[Any]
    #: Number of training samples of each class, of methods on sparse codes.
    class_sizes: dict[str, int] | None
    #: Number of atoms, which are the training samples unless the dictionary is a small one.
    atoms: int | None
    unknown_label: Any
    features: int
    feature_names: list[str] | None
    #: How files became features, if the command line fitted it.
    feature_recipe: dict[str, Any] | None
    #: How missing values are imputed, the share of the training cells that were, and the column with most of them.
    imputed: dict[str, Any] | None
    #: Coding problem and kernel of methods on sparse codes.
    problem: str | None
    kernel: str | None
    #: Weights of the kinds of evidence and of class scores by name, of the recognizer's own rule.
    evidence_weights: dict[str, float] | None
    class_weights: dict[str, float] | None
    #: None if classes have different thresholds.
    threshold: float | None
    #: One per class.
    thresholds: list[float]
    threshold_detail: str
    #: What the number of held-out samples leaves undecided; None unless the threshold comes from a target rate.
    threshold_standard_error: float | None
    held_out: HeldOutSummary
    #: For which samples the target rate of false rejection holds; None if no sample was held out.
    guarantees: dict[str, Any] | None = None
    #: How the model was recalibrated: whether with fresh samples, with labels, and whether the target is guaranteed.
    recalibration: dict[str, Any] | None = None
    #: Number of groups that the training samples came in.
    groups: int | None = None
    #: Whether the threshold is chosen by a target rate of false rejection.
    by_target: bool = True
    #: Whether the columns of tables are standardized.
    standardized: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        return asdict(self)


def summarize_model(clf: OpenSetClassifier) -> ModelSummary:
    """Summarize a fitted classifier."""
    sizes = atoms = problem = kernel = evidence = class_scores = None
    if isinstance(clf, DictionaryClassifier):
        dictionary = clf.dictionary_
        atoms = dictionary.n_atoms
        counts = clf._count_samples() if isinstance(clf, SROSRClassifier) else count_atoms(dictionary)
        sizes = dict(zip(map(format_label, clf.classes_.tolist()), counts.tolist(), strict=True))
        problem, kernel = repr(clf.problem_), str(dictionary.kernel)
    if isinstance(clf, SROSRClassifier) and clf.rule_ == "calibrated":
        evidence = dict(zip(clf.evidence_names_, clf.evidence_weights_.tolist(), strict=True))
        if clf.label_by_ == "fused":
            class_scores = dict(zip(clf.class_score_names_, clf.class_weights_.tolist(), strict=True))
    names = getattr(clf, "feature_names_in_", None)
    feature_names = None if names is None else [str(name) for name in names]
    recipe = clf.feature_recipe_
    return ModelSummary(
        method=method_name(clf),
        estimator=type(clf).__name__,
        classes=clf.classes_.tolist(),
        class_sizes=sizes,
        atoms=atoms,
        unknown_label=clf.unknown_label_,
        features=int(clf.n_features_in_),
        feature_names=feature_names,
        feature_recipe=None if recipe is None else recipe.get_settings(),
        imputed=None if recipe is None or recipe.imputer is None else recipe.imputer.summarize(feature_names),
        problem=problem,
        kernel=kernel,
        evidence_weights=evidence,
        class_weights=class_scores,
        threshold=float(clf.thresholds_[0]) if _has_one_threshold(clf) else None,
        thresholds=clf.thresholds_.tolist(),
        threshold_detail=clf.threshold_info_.detail,
        threshold_standard_error=clf.threshold_info_.standard_error,
        held_out=_summarize_held_out(clf),
        guarantees=_describe_guarantees(clf),
        recalibration=getattr(clf, "_recalibration", None),
        by_target=clf.threshold_info_.kind in ("target", "conformal"),
        standardized=recipe is not None and recipe.center is not None,
        groups=None if getattr(clf, "_row_groups", None) is None else len(np.unique(clf._row_groups)),  # type: ignore[attr-defined]
    )


def _describe_guarantees(clf: OpenSetClassifier) -> dict[str, Any] | None:
    if not len(clf._held_out_scores().scores) and clf._calibration_split() is None:
        return None
    found = clf.guarantees()
    return found.to_dict() | {"by_class": found.by_class}


def format_threshold(thresholds: Sequence[float]) -> str:
    """Return the threshold as text, or the smallest and the largest if classes have different ones.

    Examples
    --------
    >>> format_threshold([0.95, 0.95]), format_threshold([0.9, 0.95])
    ('0.95', '0.9 to 0.95 by class')
    """
    low, high = min(thresholds), max(thresholds)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g} by class"


def _summarize_held_out(clf: OpenSetClassifier) -> HeldOutSummary:
    found = clf._held_out_scores()
    scores, candidate, truth = found.scores, found.candidate, found.truth
    split = clf._calibration_split()
    if split is not None:  # unused in training, so the better measure
        scores, candidate, truth = split.scores, split.candidate, split.truth
    rejected = _exceeds(scores, clf.thresholds_[candidate])
    right = candidate == truth
    labeled = split is None or split.labeled
    # The candidates of simulated unknowns are not kept, so thresholds by class cannot be applied to them.
    unknown = (
        _exceeds(found.simulated[found.unknown], clf.thresholds_[0]) if _has_one_threshold(clf) else np.empty(0, bool)
    )
    return HeldOutSummary(
        samples=len(scores),
        accuracy=_compute_share(right) if labeled else None,
        rejected=_compute_share(rejected),
        recognized=_compute_share(right & ~rejected) if labeled else None,
        simulated_unknowns=len(unknown),
        simulated_unknowns_rejected=_compute_share(unknown),
    )


def _exceeds(scores: Array, thresholds: Any) -> AnyArray:
    """Return which scores exceed a threshold, by more than rounding: most thresholds are one of the scores."""
    return np.asarray((scores > thresholds) & ~np.isclose(scores, thresholds, rtol=1e-9, atol=0.0))


def _has_one_threshold(clf: OpenSetClassifier) -> bool:
    """Return whether all classes have the same threshold."""
    return len(np.unique(clf.thresholds_)) == 1


def _compute_share(mask: Any) -> float | None:
    return float(np.mean(mask)) if len(mask) else None

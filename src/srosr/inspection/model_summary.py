"""A fitted classifier in a few facts: what it knows, where its threshold lies, how it fared on held-out samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._support.unknown_label import format_label
from ..classifiers import DictionaryClassifier, OpenSetClassifier
from ..rivals import method_name

__all__ = ["HeldOut", "ModelSummary", "summary_of", "threshold_text"]


@dataclass(frozen=True)
class HeldOut:
    """How training samples fared while they were held out; None where there were none.

    Attributes
    ----------
    samples : int
        Held-out samples, all classes known.
    accuracy : float or None
        Share of them whose candidate is their class.
    rejected : float or None
        Share of them that is rejected.
    recognized : float or None
        Share of them that is accepted with the correct class.
    simulated_unknowns : int
        Samples of classes that were left out in turn.
    simulated_unknowns_rejected : float or None
        Share of those that is rejected.
    """

    samples: int
    accuracy: float | None
    rejected: float | None
    recognized: float | None
    simulated_unknowns: int
    simulated_unknowns_rejected: float | None


@dataclass(frozen=True)
class ModelSummary:
    """What there is to say of a model.

    Attributes
    ----------
    method, estimator : str
        A name of :func:`srosr.open_set_methods`, and of the class.
    classes : list
    class_sizes : dict of str to int, or None
        Training samples of each class, where the model keeps them.
    unknown_label : label
    features : int
    feature_names : list of str or None
    feature_recipe : dict or None
        How files became features, if the command line fitted the model.
    problem, kernel : str or None
        Of methods on sparse codes.
    threshold : float or None
        None where classes have thresholds of their own.
    thresholds : list of float
        One a class.
    threshold_detail : str
    held_out : HeldOut
    """

    method: str
    estimator: str
    classes: list[Any]
    class_sizes: dict[str, int] | None
    unknown_label: Any
    features: int
    feature_names: list[str] | None
    feature_recipe: dict[str, Any] | None
    problem: str | None
    kernel: str | None
    threshold: float | None
    thresholds: list[float]
    threshold_detail: str
    held_out: HeldOut

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        return asdict(self)


def summary_of(clf: OpenSetClassifier) -> ModelSummary:
    """Sum up a fitted classifier."""
    sizes = problem = kernel = None
    if isinstance(clf, DictionaryClassifier):
        dictionary = clf.dictionary_
        sizes = {
            format_label(label): part.stop - part.start
            for label, part in zip(clf.classes_.tolist(), dictionary.class_slices, strict=True)
        }
        problem, kernel = repr(clf.problem_), str(dictionary.kernel)
    names = getattr(clf, "feature_names_in_", None)
    return ModelSummary(
        method=method_name(clf),
        estimator=type(clf).__name__,
        classes=clf.classes_.tolist(),
        class_sizes=sizes,
        unknown_label=clf.unknown_label_,
        features=int(clf.n_features_in_),
        feature_names=None if names is None else [str(name) for name in names],
        feature_recipe=None if clf.feature_recipe_ is None else clf.feature_recipe_.settings(),
        problem=problem,
        kernel=kernel,
        threshold=float(clf.thresholds_[0]) if _is_one(clf) else None,
        thresholds=clf.thresholds_.tolist(),
        threshold_detail=clf.threshold_info_.detail,
        held_out=_held_out(clf),
    )


def threshold_text(thresholds: Sequence[float]) -> str:
    """The threshold, or the least and the largest where each class has its own.

    Examples
    --------
    >>> threshold_text([0.95, 0.95]), threshold_text([0.9, 0.95])
    ('0.95', '0.9 to 0.95 by class')
    """
    low, high = min(thresholds), max(thresholds)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g} by class"


def _held_out(clf: OpenSetClassifier) -> HeldOut:
    found = clf._held_out_scores()
    scores, candidate, truth = found.scores, found.candidate, found.truth
    split = clf._calibration_split()
    if split is not None:  # used in no other step of the fit, so it is the better estimate
        scores, candidate, truth = split.scores, split.candidate, split.truth
    rejected = scores > clf.thresholds_[candidate]
    right = candidate == truth
    # The candidate of a simulated unknown is not kept, so thresholds by class cannot be applied to it.
    unknown_rejected = found.simulated[found.unknown] > clf.thresholds_[0] if _is_one(clf) else np.empty(0, bool)
    return HeldOut(
        samples=len(scores),
        accuracy=_share(right),
        rejected=_share(rejected),
        recognized=_share(right & ~rejected),
        simulated_unknowns=len(unknown_rejected),
        simulated_unknowns_rejected=_share(unknown_rejected),
    )


def _is_one(clf: OpenSetClassifier) -> bool:
    """Whether all classes have the same threshold."""
    return len(np.unique(clf.thresholds_)) == 1


def _share(mask: Any) -> float | None:
    return float(np.mean(mask)) if len(mask) else None

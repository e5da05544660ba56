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
    refused : float or None
        Share of them that is refused.
    recognised : float or None
        Share of them that is accepted and named rightly.
    strangers : int
        Samples of classes that were left out in turn.
    strangers_refused : float or None
        Share of those that is refused.
    """

    samples: int
    accuracy: float | None
    refused: float | None
    recognised: float | None
    strangers: int
    strangers_refused: float | None


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
    intake : dict or None
        How files became features, where the command line fitted it.
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
    intake: dict[str, Any] | None
    problem: str | None
    kernel: str | None
    threshold: float | None
    thresholds: list[float]
    threshold_detail: str
    held_out: HeldOut

    def to_dict(self) -> dict[str, Any]:
        """In types that JSON has."""
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
        intake=None if clf.feature_recipe_ is None else clf.feature_recipe_.settings(),
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
    aside = clf._calibration_split()
    if aside is not None:  # kept out of everything: the better witness
        scores, candidate, truth = aside.scores, aside.candidate, aside.truth
    refused = scores > clf.thresholds_[candidate]
    right = candidate == truth
    # Which class a pretended stranger came nearest to is not kept, so that thresholds by class say nothing of it.
    strange = found.simulated[found.unknown] > clf.thresholds_[0] if _is_one(clf) else np.empty(0, bool)
    return HeldOut(
        samples=len(scores),
        accuracy=_share(right),
        refused=_share(refused),
        recognised=_share(right & ~refused),
        strangers=len(strange),
        strangers_refused=_share(strange),
    )


def _is_one(clf: OpenSetClassifier) -> bool:
    """Whether all classes have the same threshold."""
    return len(np.unique(clf.thresholds_)) == 1


def _share(mask: Any) -> float | None:
    return float(np.mean(mask)) if len(mask) else None

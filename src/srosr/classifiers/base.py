r"""What every open set classifier promises: a known class for every sample, or the answer that it is none of them.

- ``fit(X, y)`` learns from samples of known classes alone;
- ``candidate(X)`` is the best known class, ``unknown_score(X)`` says how strange a sample is, larger is stranger;
- ``predict(X)`` is the candidate where the score is at most the threshold, else ``unknown_label_``; ``decide(X)`` says
  all of this at once;
- ``set_threshold`` chooses that threshold anew without fitting again, and without an unknown sample: by a rate of false
  rejection, by simulated openness, or a number;
- ``save(path)`` writes a file that :func:`srosr.load` reads.

A classifier of its own derives from :class:`OpenSetClassifier` and says how to learn (``_fit``), how to judge samples
(``_judge``) and what training samples scored while they were held out (``_held_out_scores``); where it has no better
way to those than to fit again without them, from :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.
"""

from __future__ import annotations

import os
import warnings
from abc import ABCMeta, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_positive, check_rate
from .._support.unknown_label import resolve_unknown_label, with_unknown
from ..exceptions import CalibrationWarning, warn
from ..scoring import HeldOutScores
from ..thresholds import OBJECTIVES, Aside, Threshold, check_threshold, choose_threshold, fixed_threshold

__all__ = ["Decisions", "Judgement", "OpenSetClassifier"]

#: What stands for the threshold of the paper that a method comes from.
ORIGINAL = "original"


@dataclass(frozen=True, eq=False)
class Judgement:
    """What a classifier makes of a batch of samples.

    Attributes
    ----------
    candidate : ndarray of int (n_samples,)
        Number of the best known class.
    unknown_score : ndarray (n_samples,)
    class_scores : ndarray (n_samples, n_classes)
        Larger is more of that class.
    empty : ndarray of bool (n_samples,)
        Samples in which there is nothing to recognise: they are refused whatever the threshold.
    """

    candidate: IntArray
    unknown_score: Array
    class_scores: Array
    empty: AnyArray

    @staticmethod
    def joined(parts: list[Judgement]) -> Judgement:
        """Several batches as one."""
        if len(parts) == 1:
            return parts[0]
        names = ("candidate", "unknown_score", "class_scores", "empty")
        return Judgement(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


@dataclass(frozen=True, eq=False)
class Decisions:
    """What is said of each sample of a batch, see :meth:`OpenSetClassifier.decide`.

    Attributes
    ----------
    label : ndarray (n_samples,)
        The known class, or the label of what is unknown.
    candidate : ndarray (n_samples,)
        The best known class, whether it is refused or not.
    unknown_score : ndarray (n_samples,)
        How strange it is; larger is stranger.
    refused : ndarray of bool (n_samples,)
    """

    label: AnyArray
    candidate: AnyArray
    unknown_score: Array
    refused: AnyArray

    def __len__(self) -> int:
        return len(self.label)


class OpenSetClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of all open set classifiers.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    unknown_label_ : label
        What ``predict`` says of refused samples.
    threshold_ : float
        On the unknown score; ``thresholds_`` has one a class, ``threshold_info_`` says where they come from.
    n_features_in_ : int
    """

    #: Ends of the scale of the unknown score.
    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    # Parameters that all have.
    threshold: float | str | None
    target_rejection: float
    per_class: bool
    risk_weight: float
    unknown_label: Any

    # What a fit leaves.
    classes_: AnyArray
    unknown_label_: Any
    threshold_: float
    thresholds_: Array
    threshold_info_: Threshold
    _choice: dict[str, Any]
    #: How files became features, attached by the code that read them (:mod:`srosr.tables`); forgotten by the next fit.
    feature_recipe_: Any = None

    # -- what a method has to say ------------------------------------------------------------------------

    @abstractmethod
    def _fit(self, X: Any, y: Any) -> None:
        """Learn; ends with :meth:`set_threshold`."""

    @abstractmethod
    def _judge(self, X: Any) -> Judgement:
        """Judge samples that have been checked."""

    @abstractmethod
    def _held_out_scores(self) -> HeldOutScores:
        """What thresholds are made from."""

    def _original_threshold(self) -> float | None:
        """The threshold of the paper that the method comes from, if it has one."""
        return None

    #: What is said where it has none.
    _without_original: ClassVar[str] = (
        'the method was published without one; use target_rejection, "risk", "f", "youden" or a number.'
    )

    def _aside(self) -> Aside | None:
        """Samples that had no part in anything else, judged."""
        return None

    def _promises_a_rate(self) -> bool:
        """Whether the user asked for a rate of false rejection that is guaranteed, by such samples."""
        return False

    # -- learning ----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the known classes and, from them alone, what is strange.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Training samples.
        y : array-like (n_samples,)
            Their classes, at least two.

        Warns
        -----
        CalibrationWarning
            Where there are too few held-out samples to keep a rate of false rejection.
        """
        before = self.__dict__.copy()
        try:
            self._check_parameters()
            self.__dict__.pop("feature_recipe_", None)
            self._fit(X, y)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _training_set(self, X: Any, y: Any) -> tuple[Array, AnyArray, AnyArray, Any]:
        """Samples, labels, classes and the label of what is none of them, when all of it makes sense."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        try:
            with warnings.catch_warnings():
                # Many classes of few samples are an ordinary task here.
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                check_classification_targets(y)
        except TypeError as error:
            raise ValueError(f"y must hold one kind of label, numbers or text: {error}") from None
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        if y.dtype.kind not in "biufUO":
            raise ValueError(f"y holds labels of type {y.dtype}; use numbers or text.")
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                f"y has one class, {classes.tolist()[0]!r}; at least two classes are needed, "
                "for a stranger shows by being like none of several."
            )
        return X, y, classes, resolve_unknown_label(self.unknown_label, classes)

    # -- thresholds --------------------------------------------------------------------------------------

    def set_threshold(
        self,
        threshold: float | str | None = None,
        *,
        target_rejection: float | None = None,
        per_class: bool | None = None,
        risk_weight: float | None = None,
    ) -> Self:
        """Choose the threshold anew, without fitting again.

        Parameters
        ----------
        threshold : float or {"risk", "f", "youden", "original"}, optional
            A number on the scale of :meth:`unknown_score`; what simulated openness is to optimise; or the threshold of
            the paper that the method comes from, where that gives one.
        target_rejection : float, optional
            Share of known samples that may be refused, instead of a threshold.
        per_class : bool, optional
            A threshold for each candidate class with enough held-out samples.
        risk_weight : float, optional
            The weight of errors on known samples for "risk".

        What is not given is as in the constructor (not as in an earlier call). ``per_class`` is for targets only.
        """
        check_is_fitted(self, "classes_")
        if threshold is not None and target_rejection is not None:
            raise ValueError("give threshold or target_rejection, not both.")
        if threshold is not None and per_class:
            raise ValueError(
                "per_class=True is for target_rejection: a threshold that is a number, or chosen by simulated "
                "openness, is one for all classes."
            )
        choice: dict[str, Any] = {
            "threshold": threshold,
            "target_rejection": target_rejection,
            "per_class": per_class,
            "risk_weight": risk_weight,
        }
        if threshold is None and target_rejection is None:
            threshold, target_rejection = self.threshold, self.target_rejection
        self._check_threshold(threshold)
        if isinstance(threshold, str) and threshold == ORIGINAL:
            chosen = self._by_the_original()
        elif threshold is not None and not isinstance(threshold, str):
            # No held-out score is looked at: where there are none yet, none are made.
            check_positive("risk_weight", self.risk_weight if risk_weight is None else risk_weight)
            chosen = fixed_threshold(threshold, len(self.classes_), *self.score_range)
        else:
            chosen = choose_threshold(
                self._held_out_scores(),
                len(self.classes_),
                threshold=threshold,
                target_rejection=target_rejection,
                per_class=self.per_class if per_class is None else bool(per_class),
                risk_weight=self.risk_weight if risk_weight is None else risk_weight,
                aside=self._aside(),
                promised=self._promises_a_rate(),
            )
        self._choice = choice
        self.threshold_info_ = chosen
        self.threshold_ = chosen.value
        self.thresholds_ = chosen.per_class
        return self

    def _by_the_original(self) -> Threshold:
        value = self._original_threshold()
        assert value is not None
        if value >= self.score_range[1]:
            warn(
                f'threshold="original" is {value:g} here, the end of the scale: nothing is refused. It follows from '
                "the openness that is expected; give openness above 0, or use target_rejection.",
                CalibrationWarning,
            )
        return Threshold(value, np.full(len(self.classes_), value), "fixed", "the threshold of the method's paper")

    def _check_threshold(self, threshold: Any) -> None:
        """Refuse a threshold that makes no sense, or an original one where there is none."""
        named = OBJECTIVES if self._original_threshold() is None else (*OBJECTIVES, ORIGINAL)
        if threshold is None or (isinstance(threshold, str) and threshold in named):
            return
        if isinstance(threshold, str) and threshold == ORIGINAL:
            raise ValueError(f'threshold="original" is not there for {type(self).__name__}: {self._without_original}')
        check_threshold(threshold, *self.score_range, named)

    # -- recognising -------------------------------------------------------------------------------------

    def predict(self, X: Any) -> AnyArray:
        """The known class of each sample, or ``unknown_label_``."""
        return self.decide(X).label

    def decide(self, X: Any) -> Decisions:
        """Label, candidate, unknown score and verdict of each sample at once, for what it costs to have one of them.

        Parameters
        ----------
        X : array-like (n_samples, n_features)

        Returns
        -------
        Decisions
        """
        judged = self._judge(self._checked(X))
        # What has no score, because numbers were too large to be compared, is not known.
        refused = judged.empty | ~(judged.unknown_score <= self.thresholds_[judged.candidate])
        labels = with_unknown(self.classes_, self.unknown_label_)
        label = labels[np.where(refused, len(self.classes_), judged.candidate)]
        return Decisions(label, self.classes_[judged.candidate], judged.unknown_score, refused)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Open set accuracy: the share of samples with the right label.

        Labels that are not among ``classes_`` are strangers: to refuse them is right. So the score of samples of known
        classes alone punishes every refusal; see :mod:`srosr.model_selection` for scorers that do not.
        """
        check_is_fitted(self, "classes_")
        truth, labels = column_or_1d(y), self.predict(X)
        check_consistent_length(truth, labels, sample_weight)
        known = np.isin(truth, self.classes_)
        right = np.where(known, labels == truth, labels == with_unknown(self.classes_, self.unknown_label_)[-1])
        return float(np.average(right, weights=sample_weight))

    def unknown_score(self, X: Any) -> Array:
        """How strange each sample is, within ``score_range``; above the threshold it is refused."""
        return self._judge(self._checked(X)).unknown_score

    def candidate(self, X: Any) -> AnyArray:
        """The best known class of each sample, whether it would be refused or not."""
        candidate = self._judge(self._checked(X)).candidate
        return self.classes_[candidate]

    def class_scores(self, X: Any) -> Array:
        """What speaks for each class, (n_samples, n_classes), in the order of ``classes_``; larger is more of it."""
        return self._judge(self._checked(X)).class_scores

    # -- files -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that :func:`srosr.load` reads: safetensors and JSON, nothing that runs."""
        from ..model_files import save

        check_is_fitted(self, "classes_")
        save(self, path)

    # -- inside ------------------------------------------------------------------------------------------

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self, "classes_")
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def _number_of(self, label: Any) -> int:
        places = np.flatnonzero(self.classes_ == label) if np.ndim(label) == 0 else np.empty(0)
        if len(places) != 1:
            raise ValueError(f"label {label!r} is not one of the classes {self.classes_.tolist()}.")
        return int(places[0])

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense, by name."""
        check_rate("target_rejection", self.target_rejection)
        check_positive("risk_weight", self.risk_weight)
        self._check_threshold(self.threshold)

r"""The contract of every open set classifier: a known class for every sample, or the answer that it is none of them.

- ``fit(X, y)`` learns from samples of known classes only;
- ``candidate(X)`` is the best known class, ``unknown_score(X)`` is large for unknown samples;
- ``predict(X)`` is the candidate where the score is at most the threshold, else ``unknown_label_``; ``decide(X)``
  returns all of these at once;
- ``set_threshold`` chooses that threshold anew, without fitting again and without an unknown sample: by a rate of false
  rejection, by simulated openness, or as a number;
- ``save(path)`` writes a file that :func:`srosr.load` reads.

The base class checks what users pass in, once; a method derives from :class:`OpenSetClassifier` and says how to learn
from checked samples (``_fit``), how to score them (``_predict_raw``) and what training samples scored while they were
held out (``_held_out_scores``). A method whose only way to held-out scores is to fit again without the samples derives
from :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.
"""

from __future__ import annotations

import os
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from .._support.array_types import AnyArray, Array, IntArray
from .._support.devices import to_numpy
from .._support.parameter_checks import check_positive, check_rate, is_plain_matrix
from .._support.unknown_label import append_unknown, resolve_unknown_label
from ..exceptions import CalibrationWarning, warn
from ..scoring.held_out_scores import HeldOutScores
from ..thresholds.choice import OBJECTIVES, Threshold, check_threshold, choose_threshold, use_fixed_threshold
from ..thresholds.guarantees import Guarantees, PredictionSets, describe_guarantees
from ..thresholds.p_values import (
    CalibrationSplit,
    conformal_p_values,
    count_needed,
    count_units,
    p_values_by_candidate,
    select_discoveries,
)

#: The value of ``threshold`` for the threshold of the paper that a method comes from.
ORIGINAL = "original"


@dataclass(frozen=True, eq=False)
class RawPrediction:
    """The prediction of a classifier for a batch of samples before the threshold is applied."""

    #: Number of the best known class of each sample.
    candidate: IntArray
    unknown_score: Array
    #: One column per class; large values suggest the class.
    class_scores: Array
    #: Samples of length zero, which are rejected whatever the threshold.
    empty: AnyArray

    @staticmethod
    def concatenate(parts: list[RawPrediction]) -> RawPrediction:
        """Return several batches as one."""
        if len(parts) == 1:
            return parts[0]
        return RawPrediction(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(RawPrediction)))


@dataclass(frozen=True, eq=False)
class Decisions:
    """The decision for each sample of a batch, see :meth:`OpenSetClassifier.decide`.

    Attributes
    ----------
    label : ndarray (n_samples,)
        The known class, or the label for unknown samples.
    candidate : ndarray (n_samples,)
        The best known class, whether the sample is rejected or not.
    unknown_score : ndarray (n_samples,)
        Large for unknown samples.
    rejected : ndarray of bool (n_samples,)
    p_value : ndarray (n_samples,) or None
        The conformal p-values by which a batch was decided with a false discovery rate.
    prediction_set : PredictionSets or None
        The classes that cannot be excluded, if a coverage was asked for.
    """

    label: AnyArray
    candidate: AnyArray
    unknown_score: Array
    rejected: AnyArray
    p_value: Array | None = None
    prediction_set: PredictionSets | None = None
    #: Samples of length zero, which a false discovery rate rejects whatever their p-values.
    _empty: AnyArray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, part: slice) -> Decisions:
        """Return the decisions on some of the samples."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value[part] for name, value in held.items() if value is not None})

    @staticmethod
    def concatenate(parts: list[Decisions]) -> Decisions:
        """Return decisions on parts of a batch as one."""
        if len(parts) == 1:
            return parts[0]

        def join(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            if any(value is None for value in values):
                return None
            return values[0].concatenate(values) if name == "prediction_set" else np.concatenate(values)

        return Decisions(**{field.name: join(field.name) for field in fields(Decisions)})


def find_target(arguments: dict[str, Any], threshold: Any, target: float) -> float | None:
    """Return the target rate that a threshold is chosen by; None if it is a number or an objective.

    ``arguments`` are those of ``set_threshold``, the others those of the constructor.
    """
    if arguments.get("threshold") is not None:
        return None
    if arguments.get("target_rejection") is not None:
        return float(arguments["target_rejection"])
    return None if threshold is not None else target


class OpenSetClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of all open set classifiers.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    unknown_label_ : label
        The label that ``predict`` gives to rejected samples.
    threshold_ : float
        On the unknown score; ``thresholds_`` has one for each class, ``threshold_info_`` says how they were chosen.
    n_features_in_ : int
    """

    #: Ends of the scale of the unknown score.
    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    # Parameters that all methods have.
    threshold: float | str | None
    target_rejection: float
    per_class: bool
    risk_weight: float
    unknown_label: Any

    # Attributes set by a fit.
    classes_: AnyArray
    unknown_label_: Any
    threshold_: float
    thresholds_: Array
    threshold_info_: Threshold
    #: The arguments of the last ``set_threshold``, empty after a fit.
    _threshold_arguments: dict[str, Any]
    #: How the training file became features, attached by the code that read it and kept in the model file: samples are
    #: then treated as the rows of that file were, see :func:`srosr.load`. Removed by the next fit.
    feature_recipe_: Any = None

    # -- to be written for a method ----------------------------------------------------------------------

    @abstractmethod
    def _fit(self, X: Array, y: AnyArray) -> None:
        """Learn from samples that have been checked; ``classes_`` and ``unknown_label_`` are set."""

    @abstractmethod
    def _predict_raw(self, X: Any) -> RawPrediction:
        """Predict candidates and scores of samples that have been checked."""

    @abstractmethod
    def _held_out_scores(self) -> HeldOutScores:
        """Return the scores from which thresholds are chosen."""

    def _original_threshold(self) -> float | None:
        """Return the threshold of the paper that the method comes from, if it has one."""
        return None

    #: Why a method has no such threshold, for the error message.
    _no_original_threshold: ClassVar[str] = (
        'the method was published without one; use target_rejection, "risk", "f", "youden" or a number.'
    )

    def _calibration_split(self) -> CalibrationSplit | None:
        """Return the scores of the calibration split, if there is one."""
        return None

    def _wants_guarantee(self) -> bool:
        """Return whether the user asked for a guaranteed rate of false rejection."""
        return False

    # -- learning ----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the known classes and, from them alone, when a sample is unknown.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Training samples.
        y : array-like (n_samples,)
            Their classes, at least two.

        Warns
        -----
        CalibrationWarning
            Where there are too few held-out samples for the target rate of false rejection.
        """
        with self._restore_on_error():
            self._check_parameters()
            self.__dict__.pop("feature_recipe_", None)
            X, y = self._check_training_set(X, y)
            self._fit(X, y)
            self._threshold_arguments = {}
            self.set_threshold()
        return self

    @contextmanager
    def _restore_on_error(self) -> Iterator[None]:
        """Leave the classifier as it was if what follows fails or is interrupted."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _check_parameters(self) -> None:
        """Raise a ValueError for an invalid parameter."""
        check_rate("target_rejection", self.target_rejection)
        check_positive("risk_weight", self.risk_weight)
        self._check_threshold(self.threshold)

    def _check_training_set(self, X: Any, y: Any) -> tuple[AnyArray, AnyArray]:
        """Check samples and labels, set ``classes_`` and ``unknown_label_``, and return both as arrays."""
        X, y = validate_data(self, to_numpy(X), to_numpy(y), dtype=[np.float64, np.float32])
        try:
            with warnings.catch_warnings():
                # Many classes of few samples are common here.
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                check_classification_targets(y)
        except TypeError as error:
            raise ValueError(f"y must hold one kind of label, numbers or text: {error}") from None
        X, y = self._store(X), np.asarray(y)
        if y.dtype.kind not in "biufUO":
            raise ValueError(f"y holds labels of type {y.dtype}; use numbers or text.")
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"y has one class, {classes.tolist()[0]!r}; at least two classes are needed.")
        self.classes_, self.unknown_label_ = classes, resolve_unknown_label(self.unknown_label, classes)
        return X, y

    def _store(self, X: Any) -> AnyArray:
        """Return training samples that have been checked as they are stored."""
        return np.asarray(X, dtype=np.float64)

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

        Arguments that are not given are those of the constructor (not of an earlier call). ``per_class`` is for targets
        only.

        Parameters
        ----------
        threshold : float or {"risk", "f", "youden", "original"}, optional
            A number on the scale of :meth:`unknown_score`; the objective of simulated openness; or the threshold of the
            paper that the method comes from, where the paper gives one.
        target_rejection : float, optional
            Share of known samples that may be rejected, instead of a threshold.
        per_class : bool, optional
            Choose a threshold for each candidate class with enough held-out samples.
        risk_weight : float, optional
            The weight of errors on known samples for "risk".
        """
        check_is_fitted(self, "classes_")
        if threshold is not None and target_rejection is not None:
            raise ValueError("give threshold or target_rejection, not both.")
        if threshold is not None and per_class:
            raise ValueError(
                "per_class=True is for target_rejection: a threshold that is a number, or chosen by simulated "
                "openness, is one for all classes."
            )
        arguments: dict[str, Any] = {
            "threshold": threshold,
            "target_rejection": target_rejection,
            "per_class": per_class,
            "risk_weight": risk_weight,
        }
        if threshold is None and target_rejection is None:
            threshold, target_rejection = self.threshold, self.target_rejection
        self._check_threshold(threshold)
        risk_weight = self.risk_weight if risk_weight is None else risk_weight
        if isinstance(threshold, str) and threshold == ORIGINAL:
            chosen = self._use_original_threshold()
        elif threshold is None or isinstance(threshold, str):
            chosen = choose_threshold(
                self._held_out_scores(),
                len(self.classes_),
                threshold=threshold,
                target_rejection=target_rejection,
                per_class=self.per_class if per_class is None else bool(per_class),
                risk_weight=risk_weight,
                calibration_split=self._calibration_split(),
                guarantee=self._wants_guarantee(),
            )
        else:  # a number needs no held-out scores: those that have not been computed stay so
            check_positive("risk_weight", risk_weight)
            chosen = use_fixed_threshold(threshold, len(self.classes_), *self.score_range)
        self._threshold_arguments = arguments
        self.threshold_info_ = chosen
        self.threshold_, self.thresholds_ = chosen.value, chosen.per_class
        return self

    def _use_original_threshold(self) -> Threshold:
        value = self._original_threshold()
        assert value is not None
        if value >= self.score_range[1]:
            warn(
                f'threshold="original" is {value:g} here, the end of the scale: nothing is rejected. It depends on the '
                "expected openness; give openness above 0, or use target_rejection.",
                CalibrationWarning,
            )
        return Threshold(value, np.full(len(self.classes_), value), "fixed", "the threshold of the method's paper")

    def _check_threshold(self, threshold: Any) -> None:
        """Raise a ValueError for an invalid threshold, or for an original one where the method has none."""
        named = OBJECTIVES if self._original_threshold() is None else (*OBJECTIVES, ORIGINAL)
        if threshold is None or (isinstance(threshold, str) and threshold in named):
            return
        if isinstance(threshold, str) and threshold == ORIGINAL:
            raise ValueError(
                f'threshold="original" does not exist for {type(self).__name__}: {self._no_original_threshold}'
            )
        check_threshold(threshold, *self.score_range, named)

    # -- prediction --------------------------------------------------------------------------------------

    def predict(self, X: Any) -> AnyArray:
        """Return the known class of each sample, or ``unknown_label_``."""
        return self.decide(X).label

    def decide(self, X: Any, *, fdr: float | None = None, coverage: float | None = None) -> Decisions:
        """Return label, candidate, unknown score and rejection of each sample, at the cost of one of them.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
        fdr : float, optional
            Decide on all samples together, instead of by the threshold: of those that are rejected, an expected share
            of at most ``fdr`` is known (Benjamini and Hochberg, on the p-values of :meth:`p_value`). Guaranteed with a
            calibration split or after ``recalibrate``, if the known samples of the batch are like the calibration
            samples and do not depend on each other; unknown samples may be anything. Otherwise, and where the
            calibration samples come in groups, it is approximate.
        coverage : float, optional
            Return the prediction sets of this coverage, too, without coding samples twice; of
            :class:`SROSRClassifier` alone, see :meth:`SROSRClassifier.prediction_set`.

        Returns
        -------
        Decisions

        Warns
        -----
        CalibrationWarning
            If there are too few calibration samples for ``fdr``, so that nothing can be rejected.
        """
        if fdr is not None:
            check_rate("fdr", fdr)
        sets: PredictionSets | None = None
        if coverage is None:
            raw = self._predict_raw(self._check_queries(X))
        else:
            raw, sets = self._predict_with_sets(X, coverage)
        # A sample without a score, because its numbers were too large to be compared, is rejected.
        rejected = raw.empty | ~(raw.unknown_score <= self.thresholds_[raw.candidate])
        labels = append_unknown(self.classes_, self.unknown_label_)
        label = labels[np.where(rejected, len(self.classes_), raw.candidate)]
        decisions = Decisions(
            label, self.classes_[raw.candidate], raw.unknown_score, rejected, None, sets, _empty=raw.empty
        )
        return decisions if fdr is None else self._decide_together(decisions, fdr)

    def _decide_together(self, decisions: Decisions, fdr: float) -> Decisions:
        """Return decisions with a false discovery rate in place of those by the threshold, of the same samples."""
        lack = self._find_lack(fdr)
        if lack is not None:
            warn(lack, CalibrationWarning)
        return self._reject_together(decisions, fdr)

    def _find_lack(self, fdr: float) -> str | None:
        """Return why there are too few calibration samples for a false discovery rate; None if there are enough."""
        split = self._get_calibration()
        n, needed = count_units(split, np.arange(len(split))), count_needed(fdr)
        if n >= needed:
            return None
        what = "samples" if split.groups is None else "groups of samples"
        return f"fdr={fdr:g} takes {needed} calibration {what} and there are {n}: nothing is rejected."

    def _reject_together(self, decisions: Decisions, fdr: float) -> Decisions:
        split = self._get_calibration()
        p_value = conformal_p_values(decisions.unknown_score, split.scores, split.compute_weights())
        rejected = select_discoveries(p_value, fdr)
        if decisions._empty is not None:
            rejected = rejected | decisions._empty
        labels = append_unknown(self.classes_, self.unknown_label_)
        label = decisions.candidate.astype(labels.dtype)
        label[rejected] = labels[-1]
        return replace(decisions, label=label, rejected=rejected, p_value=p_value)

    def _predict_with_sets(self, X: Any, coverage: float) -> tuple[RawPrediction, PredictionSets]:
        """Predict samples that have not been checked, with prediction sets."""
        raise ValueError(f"coverage={coverage:g}: {type(self).__name__} has no prediction sets; leave it out.")

    def p_value(self, X: Any, *, per_class: bool = False) -> Array:
        """Return the conformal p-value of each sample: small for unknown samples.

        It is the share of calibration samples that score at least as high, the sample itself among them. A known sample
        has a p-value of at most t with a probability of at most t, for every t: guaranteed with a calibration split or
        after ``recalibrate``, approximate from held-out training samples (see :meth:`guarantees`).

        Parameters
        ----------
        X : array-like (n_samples, n_features)
        per_class : bool, default False
            Compare with the calibration samples of the same candidate class, if there are enough of them for
            ``target_rejection``; candidates with fewer share theirs. The bound then holds for each candidate class
            (with groups approximately, since groups differ in how often they have a candidate).
        """
        return self._compute_p_values(self._predict_raw(self._check_queries(X)), per_class=per_class)

    def guarantees(self, rate: float | None = None) -> Guarantees:
        """Say for which samples a rate of false rejection holds, over all classes and class by class.

        Parameters
        ----------
        rate : float, optional
            The rate; by default the target that the threshold was chosen by, or ``target_rejection`` where it was
            chosen in another way: it is then that of p-values.
        """
        check_is_fitted(self, "classes_")
        target = find_target(self._threshold_arguments, self.threshold, self.target_rejection)
        rate = check_rate("rate", (self.target_rejection if target is None else target) if rate is None else rate)
        return describe_guarantees(self._get_calibration(), self.classes_, rate)

    def _compute_p_values(self, raw: RawPrediction, *, per_class: bool) -> Array:
        split = self._get_calibration()
        if not per_class:
            return conformal_p_values(raw.unknown_score, split.scores, split.compute_weights())
        needed = count_needed(self.target_rejection)
        return p_values_by_candidate(raw.unknown_score, raw.candidate, split, len(self.classes_), needed)

    def _get_calibration(self) -> CalibrationSplit:
        """Return the scores that p-values compare with: of the calibration split, else of held-out samples."""
        split = self._calibration_split()
        if split is not None:
            return split
        held = self._held_out_scores()
        if not len(held.scores):
            raise ValueError("p-values need held-out samples, and no class has a second sample to hold out.")
        return CalibrationSplit(
            held.scores, held.candidate, held.truth, exact=False, source="held-out training samples"
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the open set accuracy: the share of samples with the right label.

        Samples with labels that are not among ``classes_`` are unknown, and rejecting them is right. The score of known
        samples alone thus punishes every rejection; see :mod:`srosr.model_selection` for scorers that do not.
        """
        check_is_fitted(self, "classes_")
        truth, labels = column_or_1d(y), self.predict(X)
        check_consistent_length(truth, labels, sample_weight)
        known = np.isin(truth, self.classes_)
        right = np.where(known, labels == truth, labels == append_unknown(self.classes_, self.unknown_label_)[-1])
        return float(np.average(right, weights=sample_weight))

    def unknown_score(self, X: Any) -> Array:
        """Return the unknown score of each sample, within ``score_range``; above the threshold it is rejected."""
        return self._predict_raw(self._check_queries(X)).unknown_score

    def candidate(self, X: Any) -> AnyArray:
        """Return the best known class of each sample, whether it would be rejected or not."""
        raw = self._predict_raw(self._check_queries(X))
        return self.classes_[raw.candidate]

    def class_scores(self, X: Any) -> Array:
        """Return a score of each class, (n_samples, n_classes), in the order of ``classes_``; large is likely."""
        return self._predict_raw(self._check_queries(X)).class_scores

    def _check_queries(self, X: Any) -> Any:
        """Check samples and return them as an array, row after row: how they lay in memory decides no last bit.

        Samples of a model that was fitted to a file are treated as the file was (:attr:`feature_recipe_`).
        """
        check_is_fitted(self, "classes_")
        recipe = self.feature_recipe_
        X = to_numpy(X)
        if recipe is not None:
            X = recipe.select_features(X, self.n_features_in_)
        if is_plain_matrix(X) and X.shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_"):
            X = np.ascontiguousarray(X)
        else:
            finite = True if recipe is None or recipe.imputer is None else "allow-nan"
            X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False, ensure_all_finite=finite)
        return X if recipe is None else recipe.prepare_rows(X)

    # -- files and classes -------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that :func:`srosr.load` reads: safetensors and JSON, no executable code."""
        from ..model_files.save_load import save

        check_is_fitted(self, "classes_")
        save(self, path)

    def _find_class(self, label: Any) -> int:
        """Return the number of a class, or raise a ValueError that lists the classes."""
        places = np.flatnonzero(self.classes_ == label) if np.ndim(label) == 0 else np.empty(0)
        if len(places) != 1:
            raise ValueError(f"label {label!r} is not one of the classes {self.classes_.tolist()}.")
        return int(places[0])

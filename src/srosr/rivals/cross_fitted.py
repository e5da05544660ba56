r"""Open set classifiers whose held-out scores come from fitting again without some of the samples.

A method says how samples are compared (``_related``: nothing, or squared distances to training samples), what it
chooses by cross-validation on known samples (``_tuned``), and how it learns (``_learn``). Comparisons are made once: a
fit without some samples takes rows and columns of the same matrix.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_count, check_flag
from .._support.threads import one_blas_thread
from ..classifiers import OpenSetClassifier, RawPrediction
from ..dictionary import normalize_rows
from ..exceptions import SROSRWarning
from ..scoring import SIMULATED_EVERY, HeldOutScores, draw_folds, draw_left_out_classes
from .distances import squared_distances

__all__ = [
    "COSTS",
    "N_FOLDS",
    "ComparingClassifier",
    "CrossFittedClassifier",
    "Model",
    "Shape",
    "are_classes",
    "class_starts",
    "stratified_folds",
]

Shape: TypeAlias = tuple[int, ...] | list[tuple[int, ...]]

# Comparisons with training samples held at once while judging, in bytes.
_BLOCK_BYTES = 256 * 2**20
# Sizes of features whose squares are numbers.
_SMALLEST, _LARGEST = 1e-100, 1e100
#: What methods choose C from, and the folds over the known samples that choose it.
COSTS = (0.1, 1.0, 10.0, 100.0)
N_FOLDS = 3


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """What a method has learnt: arrays and numbers, so that it can be written to a file and read back."""

    def __post_init__(self) -> None:
        # As they come back from a file: the order of the numbers in memory is that of a matrix product's sums.
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, f.name, np.ascontiguousarray(value).reshape(value.shape))

    @abstractmethod
    def judge(self, related: Array) -> tuple[IntArray, Array, Array]:
        """Candidate (class numbers), unknown score and class scores of samples.

        Parameters
        ----------
        related : ndarray (n_samples, n_columns)
            Features; or what the method compares by, a column for each training sample that it kept.
        """

    @staticmethod
    def shapes(n_classes: int, n_columns: int) -> dict[str, Shape]:
        """The shape of every array of a model; -1 for a length that is its own, a list where there is a choice."""
        return {}

    def is_sound(self, n_classes: int) -> bool:
        """Whether numbers that came from a file, of the right shapes and finite, can be a model."""
        return True


class CrossFittedClassifier(OpenSetClassifier):
    """Base of the methods that are fitted again to see what held-out samples score.

    Held-out scores come from ``cv`` folds; simulated openness from half as many fits that leave 30 % of the classes out
    as well. What the method chooses by cross-validation is chosen once, on all training samples, so those that are held
    out, and the classes that are left out, have a part in it.

    Parameters
    ----------
    normalize : bool, default False
        Scale samples to unit length; samples of length zero are then refused.
    cv : int, default 10
        Folds that held-out scores come from; half as many fits leave classes out.
    threshold : float or {"risk", "f", "youden", "original"}, optional
        On the unknown score, above which a sample is refused; or what simulated openness is to optimise; or the
        threshold of the method's paper, where it has one. None: by ``target_rejection``.
    target_rejection : float, default 0.05
        Share of known samples that may be refused.
    per_class : bool, default False
        A threshold for each candidate class that has enough held-out samples, instead of one for all.
    risk_weight : float, default 1.0
        The weight of errors on known samples for ``threshold="risk"``.
    unknown_label : label, optional
        What ``predict`` says of refused samples; None is −1 for numbers, "unknown" for text (where those are classes:
        the smallest number minus one, "__unknown__").
    random_state : int, RandomState or None
        Of the folds.

    Attributes
    ----------
    model_ : Model
        What was learnt.
    samples_ : ndarray (n_kept, n_features) or None
        Training samples that new ones are compared with.
    tuned_ : dict
        What was chosen by cross-validation on known samples, or given.
    """

    score_range: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    #: The type of ``model_``.
    model_type: ClassVar[type[Model]]

    model_: Model
    samples_: Array | None
    tuned_: dict[str, Any]
    _normalize: bool
    _held_out: HeldOutScores

    def __init__(
        self,
        *,
        normalize: bool = False,
        cv: int = 10,
        threshold: float | str | None = None,
        target_rejection: float = 0.05,
        per_class: bool = False,
        risk_weight: float = 1.0,
        unknown_label: Any = None,
        random_state: Any = None,
    ) -> None:
        self.normalize = normalize
        self.cv = cv
        self.threshold = threshold
        self.target_rejection = target_rejection
        self.per_class = per_class
        self.risk_weight = risk_weight
        self.unknown_label = unknown_label
        self.random_state = random_state

    # -- what a method has to say ------------------------------------------------------------------------

    def _related(self, X: Array, samples: Array | None) -> Array:
        """How samples compare with training samples, (n_samples, n_training); the features themselves by default."""
        return X

    def _tuned(self, related: Array, members: IntArray, rng: Any) -> dict[str, Any]:
        """Parameters that the data choose, by cross-validation on known samples."""
        return {}

    @abstractmethod
    def _learn(
        self, related: Array, rows: IntArray, members: IntArray, tuned: dict[str, Any]
    ) -> tuple[Model, IntArray | None]:
        """Learn from some of the training samples.

        Parameters
        ----------
        related : ndarray
            What :meth:`_related` gives for all training samples.
        rows : ndarray of int (n,)
            The samples to learn from.
        members : ndarray of int (n,)
            Their classes, numbered from 0 without gaps.
        tuned : dict
            What :meth:`_tuned` chose.

        Returns
        -------
        model : Model
        columns : ndarray of int or None
            Those of ``rows`` that it compares new samples with, in the order of its columns; None for features.
        """

    # -- learning ----------------------------------------------------------------------------------------

    def _fit(self, X: Array, y: AnyArray) -> None:
        members = np.unique(y, return_inverse=True)[1]
        rng, self._normalize = check_random_state(self.random_state), bool(self.normalize)
        X, empty = self._scaled(X)
        if empty.any():  # nothing can be learnt from them
            X, members = X[~empty], members[~empty]
            gone = np.setdiff1d(np.arange(len(self.classes_)), members)
            if len(gone):
                label = self.classes_[gone[0]]
                raise ValueError(f"X: all samples of class {label} are zero; there is nothing to recognise it by.")
        largest = float(np.abs(X).max())
        if not _SMALLEST <= largest <= _LARGEST and largest > 0:
            raise ValueError(
                f"X has entries of size {largest:.0e}, whose squares are beyond the numbers a computer has; divide the "
                "features by a constant, or use normalize=True."
            )
        with one_blas_thread():
            related = self._related(X, X)
            tuned = self._tuned(related, members, rng)
            model, columns = self._learn(related, np.arange(len(X)), members, tuned)
            held_out = self._cross_fit(related, members, tuned, rng)
        self.model_, self.tuned_, self._held_out = model, tuned, held_out
        self.samples_ = None if columns is None else np.ascontiguousarray(X[columns])

    def _cross_fit(self, related: Array, members: IntArray, tuned: dict[str, Any], rng: Any) -> HeldOutScores:
        """What training samples score in fits without them: all classes known, and with classes left out."""
        parts = []
        folds = list(stratified_folds(members, rng, self.cv))
        for held in folds:
            parts.append((held, *self._without(related, members, held, tuned)))
        sizes = np.bincount(members)
        left_out = draw_left_out_classes(len(sizes), -(-self.cv // SIMULATED_EVERY), rng)
        simulated = []
        for i, absent in enumerate(left_out):
            gone = np.flatnonzero(np.isin(members, absent))
            held = folds[i % len(folds)] if folds else gone[:0]
            test = np.union1d(held, gone)
            simulated.append((test, *self._without(related, members, test, tuned), absent))
        rows, candidate, scores = (_joined([p[i] for p in parts]) for i in range(3))
        met, guess, elsewhere = (_joined([p[i] for p in simulated]) for i in range(3))
        strange = [np.isin(members[p[0]], p[3]) for p in simulated]
        return HeldOutScores(
            scores.astype(np.float64),
            candidate.astype(np.int64),
            members[rows.astype(np.int64)],
            elsewhere.astype(np.float64),
            _joined(strange).astype(np.bool_),
            members[met.astype(np.int64)] == guess,
            *self.score_range,
        )

    def _without(
        self, related: Array, members: IntArray, test: IntArray, tuned: dict[str, Any]
    ) -> tuple[IntArray, Array]:
        """Candidate and unknown score of the samples ``test`` in a fit without them."""
        rows = np.delete(np.arange(len(members)), test)
        present, own = np.unique(members[rows], return_inverse=True)
        with warnings.catch_warnings():
            # What a fit on fewer samples lacks was said of the fit on all, or is no lack of it.
            warnings.simplefilter("ignore", SROSRWarning)
            model, columns = self._learn(related, rows, own, tuned)
        candidate, scores, _ = model.judge(related[test] if columns is None else related[np.ix_(test, columns)])
        return present[candidate], np.where(np.isnan(scores), self.score_range[1], scores)

    def _fitted_parameters(self) -> dict[str, Any]:
        """Parameters that judging depends on, as they were when the model was fitted."""
        return {"normalize": self._normalize}

    def _held_out_scores(self) -> HeldOutScores:
        return self._held_out

    # -- recognising -------------------------------------------------------------------------------------

    def _predict_raw(self, X: Any) -> RawPrediction:
        X, empty = self._scaled(np.asarray(X, dtype=np.float64))
        width = X.shape[1] if self.samples_ is None else len(self.samples_)
        step = max(64, _BLOCK_BYTES // (8 * width))
        parts = []
        with one_blas_thread():
            for start in range(0, len(X), step):
                block, nothing = X[start : start + step], empty[start : start + step]
                # Numbers too large to be compared: what has no score scores as high as can be.
                with np.errstate(over="ignore", invalid="ignore"):
                    candidate, scores, of_classes = self.model_.judge(self._related(block, self.samples_))
                scores = np.where(nothing | np.isnan(scores), self.score_range[1], scores)
                parts.append(RawPrediction(candidate, scores, of_classes, nothing))
        return RawPrediction.concatenate(parts)

    # -- inside ------------------------------------------------------------------------------------------

    def _scaled(self, X: Array) -> tuple[Array, AnyArray]:
        """Samples as the method takes them, and which of them have no direction though one is needed."""
        if not self._normalize:
            return X, np.zeros(len(X), np.bool_)
        return normalize_rows(X), np.count_nonzero(X, axis=1) == 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("cv", self.cv, least=2)
        check_flag("normalize", self.normalize)


class ComparingClassifier(CrossFittedClassifier):
    """Base of the methods that compare by squared distances to training samples. Parameters are the same."""

    def _related(self, X: Array, samples: Array | None) -> Array:
        assert samples is not None
        return squared_distances(X, samples)


def class_starts(members: IntArray) -> IntArray:
    """Where each class begins among class numbers that are sorted."""
    return np.flatnonzero(np.diff(members, prepend=-1))


def are_classes(members: IntArray, n_classes: int) -> bool:
    """Whether class numbers of samples are sorted and none is without a sample."""
    return bool((np.diff(members) >= 0).all()) and np.array_equal(np.unique(members), np.arange(n_classes))


def stratified_folds(members: IntArray, rng: Any, n_folds: int) -> Iterator[IntArray]:
    """Folds that hold every sample out once; the only sample of a class is never held out."""
    order = np.argsort(members, kind="stable")
    ends = np.cumsum(np.bincount(members))
    slices = [slice(int(start), int(end)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    for fold in draw_folds(slices, rng, n_folds):
        yield np.sort(order[fold])


def _joined(parts: list[AnyArray]) -> AnyArray:
    return np.concatenate(parts) if parts else np.empty(0)

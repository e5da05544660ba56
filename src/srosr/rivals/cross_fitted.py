r"""Open set classifiers whose held-out scores come from fitting again without some of the samples.

A method says what its models take as input (``_compute_inputs``: features, or squared distances to training samples),
which parameters it chooses by cross-validation on known samples (``_choose_parameters``), and how it learns
(``_learn``). Inputs are computed once: a fit without some samples takes rows and columns of the same matrix.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_count, check_flag, check_positive
from .._support.threads import one_blas_thread
from ..classifiers.base import OpenSetClassifier, RawPrediction
from ..dictionary.dictionary import normalize_rows
from ..exceptions import SROSRWarning
from ..scoring.held_out_scores import HeldOutScores
from ..scoring.splits import SIMULATED_EVERY, draw_folds, draw_left_out_classes
from .distances import squared_distances

#: Of an array: numbers, −1 for any length, "classes", "pairs" (of classes) or "columns"; a list of them is a choice.
Shape: TypeAlias = tuple[int | str, ...] | list[tuple[int | str, ...]]
#: Parameters that were chosen or given, by name.
Tuned: TypeAlias = dict[str, Any]

# Bytes of inputs held at once in a prediction.
_BLOCK_BYTES = 256 * 2**20
# Range of feature sizes whose squares are representable.
_SMALLEST, _LARGEST = 1e-100, 1e100
#: Values of C that methods choose from, and the number of folds over the known samples that the choice uses.
COSTS = (0.1, 1.0, 10.0, 100.0)
N_FOLDS = 3


def check_cost(name: str, value: Any) -> None:
    """Check that a parameter is a positive number, or None for a choice by the data."""
    if value is not None:
        check_positive(name, value)


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """What a method has learned: arrays and numbers, so that it can be written to a file and read back."""

    #: The shape of every array.
    shapes: ClassVar[Mapping[str, Shape]] = {}

    def __post_init__(self) -> None:
        # The memory layout decides the order of a matrix product's sums: use the one that reading a file gives.
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, f.name, np.ascontiguousarray(value).reshape(value.shape))

    @abstractmethod
    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        """Return candidate (class numbers), unknown score and class scores of samples.

        Parameters
        ----------
        inputs : ndarray (n_samples, n_columns)
            Features; or squared distances, one column for each training sample that the method kept.
        """

    def is_sound(self, n_classes: int) -> bool:
        """Return whether finite numbers of the right shapes, read from a file, can be a model."""
        return True


@dataclass(frozen=True, eq=False)
class SamplesOfClasses(Model):
    """Training samples that new ones are compared with: the class number of each, sorted."""

    shapes: ClassVar = {"members": ("columns",)}

    members: IntArray

    @property
    def starts(self) -> IntArray:
        """Where each class begins."""
        return np.flatnonzero(np.diff(self.members, prepend=-1))

    def is_sound(self, n_classes: int) -> bool:
        is_sorted = bool((np.diff(self.members) >= 0).all())
        return is_sorted and np.array_equal(np.unique(self.members), np.arange(n_classes))


#: A model, and the training samples that its inputs compare with, or None for features.
Learned: TypeAlias = tuple[Model, IntArray | None]


@dataclass(eq=False, repr=False, kw_only=True)
class CrossFittedClassifier(OpenSetClassifier):
    """Base of the methods that are fitted again without samples to obtain held-out scores.

    Held-out scores come from ``cv`` folds; simulated openness comes from half as many fits that leave 30 % of the
    classes out as well. Parameters chosen by cross-validation are chosen once, on all training samples, so the samples
    that are held out, and the classes that are left out, have a part in that choice.

    Parameters
    ----------
    normalize : bool, default False
        Scale samples to unit length; samples of length zero are then rejected.
    cv : int, default 10
        Folds that held-out scores come from; half as many fits leave classes out.
    threshold : float or {"risk", "f", "youden", "original"}, optional
        Reject samples whose unknown score is above this number; or the objective to optimize under simulated openness;
        or the threshold of the method's paper, if it has one. None: by ``target_rejection``.
    target_rejection : float, default 0.05
        Share of known samples that may be rejected.
    per_class : bool, default False
        Use one threshold for each candidate class that has enough held-out samples, instead of one for all.
    risk_weight : float, default 1.0
        Weight of errors on known samples for ``threshold="risk"``.
    unknown_label : label, optional
        Label that ``predict`` returns for rejected samples, which is no class; None is −1 for numbers and "unknown" for
        text.
    random_state : int, RandomState or None
        Seed of the folds.

    Attributes
    ----------
    model_ : Model
        What was learned.
    samples_ : ndarray (n_kept, n_features) or None
        Training samples that new ones are compared with.
    tuned_ : dict
        Parameters chosen by cross-validation on known samples, or given.
    """

    score_range: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    #: The type of ``model_``.
    model_type: ClassVar[type[Model]]
    #: Checks of the parameters that a class adds to those of its bases, by name.
    _checks: ClassVar[Mapping[str, Callable[[str, Any], Any]]] = {
        "cv": partial(check_count, least=2),
        "normalize": check_flag,
    }

    model_: Model = field(init=False)
    samples_: Array | None = field(init=False)
    tuned_: Tuned = field(init=False)
    _normalize: bool = field(init=False)
    _held_out: HeldOutScores = field(init=False)

    # Parameters: the dataclass makes the constructor that scikit-learn inspects; a subclass adds only its own.
    normalize: bool = False
    cv: int = 10
    threshold: float | str | None = None
    target_rejection: float = 0.05
    per_class: bool = False
    risk_weight: float = 1.0
    unknown_label: Any = None
    random_state: Any = None

    # -- what a method defines ---------------------------------------------------------------------------

    def _compute_inputs(self, X: Array, samples: Array | None) -> Array:
        """Return what models take: the features by default, or a matrix (n_samples, n_training)."""
        return X

    def _choose_parameters(self, inputs: Array, members: IntArray, rng: Any) -> Tuned:
        """Choose parameters by cross-validation on known samples."""
        return {}

    @abstractmethod
    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        """Learn from some of the training samples.

        Parameters
        ----------
        inputs : ndarray
            What :meth:`_compute_inputs` returns for all training samples.
        rows : ndarray of int (n,)
            The samples to learn from.
        members : ndarray of int (n,)
            Their classes, numbered from 0 without gaps.
        tuned : dict
            What :meth:`_choose_parameters` returned.

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
        X, empty = self._scale(X)
        if empty.any():  # nothing can be learned from them
            X, members = X[~empty], members[~empty]
            gone = np.setdiff1d(np.arange(len(self.classes_)), members)
            if len(gone):
                label = self.classes_[gone[0]]
                raise ValueError(f"X: all samples of class {label} are zero, so it cannot be learned.")
        largest = float(np.abs(X).max())
        if not _SMALLEST <= largest <= _LARGEST and largest > 0:
            raise ValueError(
                f"X has entries of size {largest:.0e}, whose squares overflow or underflow; divide the features by a "
                "constant, or use normalize=True."
            )
        with one_blas_thread():
            inputs = self._compute_inputs(X, X)
            tuned = self._choose_parameters(inputs, members, rng)
            model, columns = self._learn(inputs, np.arange(len(X)), members, tuned)
            held_out = self._cross_fit(inputs, members, tuned, rng)
        self.model_, self.tuned_, self._held_out = model, tuned, held_out
        self.samples_ = None if columns is None else np.ascontiguousarray(X[columns])

    def _cross_fit(self, inputs: Array, members: IntArray, tuned: Tuned, rng: Any) -> HeldOutScores:
        """Score training samples in fits without them: with all classes known, and with classes left out."""
        folds = list(find_folds(members, rng, self.cv))
        parts = [(held, *self._score_without(inputs, members, held, tuned)) for held in folds]
        sizes = np.bincount(members)
        left_out = draw_left_out_classes(len(sizes), -(-self.cv // SIMULATED_EVERY), rng)
        simulated = []
        for i, absent in enumerate(left_out):
            gone = np.flatnonzero(np.isin(members, absent))
            held = folds[i % len(folds)] if folds else gone[:0]
            test = np.union1d(held, gone)
            simulated.append((test, *self._score_without(inputs, members, test, tuned), absent))
        rows, candidate, scores = (_concatenate([p[i] for p in parts]) for i in range(3))
        tested, named, elsewhere = (_concatenate([p[i] for p in simulated]) for i in range(3))
        unknown = [np.isin(members[p[0]], p[3]) for p in simulated]
        return HeldOutScores(
            scores.astype(np.float64),
            candidate.astype(np.int64),
            members[rows.astype(np.int64)],
            elsewhere.astype(np.float64),
            _concatenate(unknown).astype(np.bool_),
            members[tested.astype(np.int64)] == named,
            *self.score_range,
        )

    def _score_without(self, inputs: Array, members: IntArray, test: IntArray, tuned: Tuned) -> tuple[IntArray, Array]:
        """Return candidate and unknown score of the samples ``test`` in a fit without them."""
        return self._predict_without(inputs, members, test, tuned, self._learn)[:2]

    def _predict_without(
        self,
        inputs: Array,
        members: IntArray,
        test: IntArray,
        tuned: Tuned,
        learn: Callable[[Array, IntArray, IntArray, Tuned], Learned],
    ) -> tuple[IntArray, Array, Array]:
        """Return candidate, unknown score and scores of the classes learned, of samples in a fit without them."""
        rows = np.delete(np.arange(len(members)), test)
        present, own = np.unique(members[rows], return_inverse=True)
        with warnings.catch_warnings():
            # The fit on all samples has warned already, or has nothing to warn of.
            warnings.simplefilter("ignore", SROSRWarning)
            model, columns = learn(inputs, rows, own, tuned)
        kept = inputs[test] if columns is None else inputs[np.ix_(test, columns)]
        candidate, scores, of_classes = model.predict_raw(kept)
        return present[candidate], np.where(np.isnan(scores), self.score_range[1], scores), of_classes

    def _get_fitted_parameters(self) -> dict[str, Any]:
        """Return the parameters that predictions depend on, as they were when the model was fitted."""
        return {"normalize": self._normalize}

    def _held_out_scores(self) -> HeldOutScores:
        return self._held_out

    # -- predicting --------------------------------------------------------------------------------------

    def _predict_raw(self, X: Any) -> RawPrediction:
        X, empty = self._scale(np.asarray(X, dtype=np.float64))
        width = X.shape[1] if self.samples_ is None else len(self.samples_)
        step = max(64, _BLOCK_BYTES // (8 * width))
        parts = []
        with one_blas_thread():
            for start in range(0, len(X), step):
                block, nothing = X[start : start + step], empty[start : start + step]
                # Samples whose numbers are too large for a score get the highest one.
                with np.errstate(over="ignore", invalid="ignore"):
                    candidate, scores, of_classes = self.model_.predict_raw(self._compute_inputs(block, self.samples_))
                scores = np.where(nothing | np.isnan(scores), self.score_range[1], scores)
                parts.append(RawPrediction(candidate, scores, of_classes, nothing))
        return RawPrediction.concatenate(parts)

    def _scale(self, X: Array) -> tuple[Array, AnyArray]:
        """Return samples as the method takes them, and which of them are zero though they need a direction."""
        if not self._normalize:
            return X, np.zeros(len(X), np.bool_)
        return normalize_rows(X), np.count_nonzero(X, axis=1) == 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for cls in reversed(type(self).__mro__):
            for name, check in vars(cls).get("_checks", {}).items():
                check(name, getattr(self, name))


class ComparingClassifier(CrossFittedClassifier):
    """Base of the methods that compare by squared distances to training samples, with the same parameters."""

    def _compute_inputs(self, X: Array, samples: Array | None) -> Array:
        assert samples is not None
        return squared_distances(X, samples)


def find_folds(members: IntArray, rng: Any, n_folds: int) -> Iterator[IntArray]:
    """Yield stratified folds that hold every sample out once; the only sample of a class is never held out."""
    order = np.argsort(members, kind="stable")
    ends = np.cumsum(np.bincount(members))
    slices = [slice(int(start), int(end)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    for fold in draw_folds(slices, rng, n_folds):
        yield np.sort(order[fold])


def _concatenate(parts: list[AnyArray]) -> AnyArray:
    return np.concatenate(parts) if parts else np.empty(0)

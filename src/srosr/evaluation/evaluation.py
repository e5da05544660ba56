"""Evaluation of a model on labeled samples: which were recognized, rejected, or mistaken for another class.

An :class:`EvaluationCollector` takes batches of decisions with the labels of the samples, as text, and keeps numbers
only. Its result, an :class:`Evaluation`, has the metrics, the counts of each class, the effect of other thresholds, and
the worst mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.unknown_label import format_label
from ..classifiers.base import Decisions
from .metric_table import NONE, SEED, Measure, compute_measures

#: Shares of known samples to be rejected for which thresholds are shown.
TARGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
#: Number of mistakes of each kind that are shown.
WORST = 10


class UnexpectedLabel(ValueError):
    """A label that is neither a class of the model nor declared unknown."""


@dataclass(frozen=True)
class ClassCounts:
    """The counts of the samples of one label; for an unknown label, a rejection is right and anything else wrong.

    ``mistaken_for`` is the most frequent wrong answer, ``mistaken`` its count.
    """

    label: str
    known: bool
    samples: int
    right: int
    rejected: int
    wrong: int
    mistaken_for: str | None
    mistaken: int


@dataclass(frozen=True)
class ThresholdEffect:
    """The effect of a threshold on the unknown score, in shares of the known and of the unknown samples.

    ``threshold`` is None if each class has its own or it is not finite, ``target`` (the share of known samples that may
    be rejected) for the model's own threshold.
    """

    threshold: float | None
    known_rejected: float | None
    recognized: float | None
    unknown_rejected: float | None
    target: float | None = None


@dataclass(frozen=True)
class Mistake:
    """A sample with a wrong answer; rows count from 0, and `name` is the name of its file, if it has one."""

    row: int
    label: str
    candidate: str
    unknown_score: float
    name: str | None = None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The evaluation of a model on labeled samples; arrays have one entry per sample."""

    #: The classes of the model, as text, and the other labels that occurred.
    names: tuple[str, ...]
    unknown_labels: tuple[str, ...]
    #: Index of the label in ``names + unknown_labels``.
    truth: IntArray
    candidate: IntArray
    #: Unknown scores; infinite for a sample without one.
    score: Array
    rejected: AnyArray
    rows: IntArray
    #: Names of the samples.
    files: tuple[str, ...] | None = None
    #: Threshold of each candidate class, and range of the score.
    thresholds: Array | None = None
    score_range: tuple[float, float] = (0.0, 1.0)
    #: Seed of the resamples for intervals.
    seed: int = SEED

    @property
    def unknown(self) -> AnyArray:
        """A mask of the samples whose label is not a class of the model."""
        return np.asarray(self.truth >= len(self.names))

    @property
    def n_known(self) -> int:
        """The number of samples of the model's classes."""
        return int(np.count_nonzero(~self.unknown))

    @property
    def n_unknown(self) -> int:
        """The number of samples of other labels."""
        return int(np.count_nonzero(self.unknown))

    @property
    def true(self) -> IntArray:
        """Class numbers of the labels, −1 for unknown samples."""
        return np.where(self.unknown, NONE, self.truth)

    @property
    def answered(self) -> IntArray:
        """Class numbers of the answers, −1 for rejected samples."""
        return np.where(self.rejected, NONE, self.candidate)

    @cached_property
    def measures(self) -> dict[str, Measure]:
        """Every metric by name; those without a value have a remark."""
        return compute_measures(
            self.true, self.answered, self.candidate, self.score,
            n_classes=len(self.names), n_unknown_labels=len(self.unknown_labels), seed=self.seed,
        )  # fmt: skip

    @cached_property
    def confusion(self) -> dict[tuple[int, int], int]:
        """Counts by label and answer (−1: rejected), without the pairs that do not occur."""
        width = len(self.names) + 1
        cells, counts = np.unique(self.truth * width + self.answered + 1, return_counts=True)
        return {
            (int(cell) // width, int(cell) % width - 1): int(n)
            for cell, n in zip(cells.tolist(), counts.tolist(), strict=True)
        }

    @cached_property
    def class_counts(self) -> list[ClassCounts]:
        """The counts of each class of the model, then of each unknown label."""
        answers: list[dict[int, int]] = [{} for _ in (*self.names, *self.unknown_labels)]
        for (label, answer), n in self.confusion.items():
            answers[label][answer] = n
        return [self._count_class(number, found) for number, found in enumerate(answers)]

    def _count_class(self, number: int, answers: dict[int, int]) -> ClassCounts:
        known = number < len(self.names)
        rejected = answers.get(NONE, 0)
        mistakes = {answer: n for answer, n in answers.items() if answer not in (NONE, number)}
        # The first of equally frequent ones.
        most = max(mistakes, key=lambda answer: (mistakes[answer], -answer), default=None)
        return ClassCounts(
            label=(*self.names, *self.unknown_labels)[number],
            known=known,
            samples=sum(answers.values()),
            right=answers.get(number, 0) if known else rejected,
            rejected=rejected,
            wrong=sum(mistakes.values()),
            mistaken_for=None if most is None else self.names[most],
            mistaken=0 if most is None else mistakes[most],
        )

    # -- thresholds --------------------------------------------------------------------------------------

    @property
    def threshold(self) -> float | None:
        """The threshold, if all classes have the same."""
        if self.thresholds is None or len(np.unique(self.thresholds)) != 1:
            return None
        return float(self.thresholds[0])

    @property
    def now(self) -> ThresholdEffect:
        """The effect of the model's own threshold."""
        value = {name: measure.value for name, measure in self.measures.items()}
        return ThresholdEffect(
            self.threshold, value["known_rejected"], value["recognition_accuracy"], value["rejection_accuracy"]
        )

    @cached_property
    def threshold_effects(self) -> list[ThresholdEffect]:
        """The effects of the lowest common thresholds that reject at most the shares `TARGETS` of the known samples.

        The thresholds are chosen on the samples that they are evaluated on, which is slightly optimistic.
        """
        unknown, found = self.unknown, list[ThresholdEffect]()
        known = np.sort(self.score[~unknown])
        others, right = self.score[unknown], self.score[(self.candidate == self.truth) & ~unknown]
        for target in TARGETS if len(known) else ():
            value = known[len(known) - 1 - int(target * len(known) + 1e-9)]
            trade = ThresholdEffect(
                float(value) if np.isfinite(value) else None,
                float(np.mean(known > value)),
                float(np.count_nonzero(right <= value) / len(known)),
                float(np.mean(others > value)) if len(others) else None,
                target,
            )
            # With few samples or few distinct scores, several shares have the same threshold.
            if not found or found[-1].threshold != trade.threshold:
                found.append(trade)
        return found

    # -- mistakes ----------------------------------------------------------------------------------------

    @cached_property
    def worst(self) -> dict[str, list[Mistake]]:
        """The worst mistakes of three kinds, the worst first.

        ``accepted``: unknown samples with the lowest scores; ``rejected``: known samples with the highest scores;
        ``mistaken``: known samples accepted as another class, with the lowest scores.
        """
        unknown, right = self.unknown, self.candidate == self.truth
        kinds = {
            "accepted": (unknown & ~self.rejected, 1.0),
            "rejected": (~unknown & self.rejected, -1.0),
            "mistaken": (~unknown & ~self.rejected & ~right, 1.0),
        }
        worst = {}
        for name, (which, sign) in kinds.items():
            places = np.flatnonzero(which)
            places = places[np.argsort(sign * self.score[places], kind="stable")][:WORST]
            worst[name] = [self._make_mistake(int(place)) for place in places]
        return worst

    def _make_mistake(self, place: int) -> Mistake:
        return Mistake(
            row=int(self.rows[place]),
            label=(*self.names, *self.unknown_labels)[self.truth[place]],
            candidate=self.names[self.candidate[place]],
            unknown_score=float(self.score[place]),
            name=None if self.files is None else self.files[place],
        )

    # -- JSON --------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict; missing and non-finite values are None."""
        return {
            "samples": {"all": len(self.truth), "known": self.n_known, "unknown": self.n_unknown},
            "unknown_labels": list(self.unknown_labels),
            "metrics": {name: _measure_as_dict(measure) for name, measure in self.measures.items()},
            "classes": [_counts_as_dict(line) for line in self.class_counts if line.known],
            "unknown": [_counts_as_dict(line) for line in self.class_counts if not line.known],
            "confusion": [
                {
                    "label": (*self.names, *self.unknown_labels)[label],
                    "answered": None if answer == NONE else self.names[answer],
                    "samples": n,
                }
                for (label, answer), n in self.confusion.items()
            ],
            "thresholds": [vars(trade) for trade in (self.now, *self.threshold_effects)],
            "worst": {
                name: [
                    vars(one) | {"unknown_score": one.unknown_score if np.isfinite(one.unknown_score) else None}
                    for one in mistakes
                ]
                for name, mistakes in self.worst.items()
            },
        }


def _measure_as_dict(measure: Measure) -> dict[str, Any]:
    return {
        "label": measure.kind.label,
        "meaning": measure.kind.meaning,
        "value": measure.value,
        "low": None if measure.interval is None else measure.interval.low,
        "high": None if measure.interval is None else measure.interval.high,
        "interval": measure.way,
        "remark": measure.remark or None,
    }


def _counts_as_dict(line: ClassCounts) -> dict[str, Any]:
    return {name: value for name, value in vars(line).items() if name != "known"}


# -- collecting ------------------------------------------------------------------------------------------


@dataclass(eq=False)
class EvaluationCollector:
    """A collector of decisions and labels, batch by batch, that keeps numbers only.

    With ``unknown``, any other label that is not a class is an error; without, every label that is not a class is
    unknown.
    """

    classes: AnyArray
    unknown: Sequence[str] | None = None
    _numbers: dict[str, int] = field(init=False)
    _batches: list[tuple[IntArray, IntArray, Array, AnyArray, IntArray]] = field(init=False, default_factory=list)
    _files: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.classes = np.asarray(self.classes)
        self._places = {label: i for i, label in enumerate(self.classes.tolist())}
        self._numbers = {format_label(label): i for i, label in enumerate(self.classes.tolist())}
        for label in self.unknown or ():
            if label in self._numbers:
                raise UnexpectedLabel(f"{label!r} is a class of the model and cannot be unknown too.")

    def __len__(self) -> int:
        return sum(len(batch[0]) for batch in self._batches)

    def check(self, labels: AnyArray, rows: IntArray) -> None:
        """Raise UnexpectedLabel for a label that is neither a class nor unknown, before its sample is predicted."""
        for label, row in zip(labels.tolist(), rows.tolist(), strict=True) if self.unknown is not None else ():
            self._check_label(label, row)

    def add(
        self, labels: AnyArray, decisions: Decisions, rows: IntArray | None = None, files: Sequence[str] | None = None
    ) -> None:
        """Add a batch of decisions and labels.

        Rows of the samples in their file are counted if they are not given; file names are given with all batches or
        none. Raises UnexpectedLabel if a label is neither a class nor unknown.
        """
        if len(labels) != len(decisions):
            raise ValueError(f"there are {len(labels)} labels for {len(decisions)} decisions; give one per sample.")
        if rows is None:
            rows = len(self) + np.arange(len(labels))
        texts, first, place = np.unique(labels.astype(object), return_index=True, return_inverse=True)
        # New labels are numbered in the order of their first samples.
        numbers = np.empty(len(texts), dtype=np.int64)
        for i in np.argsort(first, kind="stable").tolist():
            self._check_label(texts[i], int(rows[first[i]]))
            numbers[i] = self._numbers.setdefault(texts[i], len(self._numbers))
        named, chosen = np.unique(decisions.candidate, return_inverse=True)
        candidate = np.array([self._places[label] for label in named.tolist()], dtype=np.int64)[chosen]
        score = np.where(np.isnan(decisions.unknown_score), np.inf, decisions.unknown_score)
        self._batches.append((numbers[place], candidate, score, np.asarray(decisions.rejected), np.asarray(rows)))
        self._files.extend(files or ())

    def _check_label(self, label: str, row: int) -> None:
        if self.unknown is None or label in self.unknown or label in self._numbers:
            return
        raise UnexpectedLabel(
            f"row {row} has the label {label!r}, which is neither a class of the model nor given with --unknown; add "
            "it with --unknown, or leave out --unknown, so that every label that is not a class is unknown."
        )

    def evaluate(
        self, *, thresholds: Array | None = None, score_range: tuple[float, float] = (0.0, 1.0), seed: int = SEED
    ) -> Evaluation:
        """Return the evaluation of all batches."""
        if not self._batches:
            raise ValueError("there are no samples to evaluate.")
        truth, candidate, score, rejected, rows = map(np.concatenate, zip(*self._batches, strict=True))
        labels, k = tuple(self._numbers), len(self.classes)
        files = tuple(self._files) if self._files else None
        return Evaluation(
            labels[:k], labels[k:], truth, candidate, score, rejected, rows, files, thresholds, score_range, seed
        )


def evaluate(
    decisions: Decisions,
    truth: Any,
    classes: Any,
    *,
    unknown: Sequence[str] | None = None,
    thresholds: Array | None = None,
    score_range: tuple[float, float] = (0.0, 1.0),
    seed: int = SEED,
) -> Evaluation:
    """Evaluate decisions against the true labels.

    Parameters
    ----------
    decisions : Decisions
        The result of ``decide(X)`` of a fitted open set classifier.
    truth : array-like (n_samples,)
        Labels, compared with the classes as text, so that 3 and "3" are equal. Labels that are not a class are unknown.
    classes : array-like (n_classes,)
        ``classes_`` of the classifier.
    unknown : sequence of str, optional
        The unknown labels; any other label that is not a class is then an error.
    thresholds : ndarray (n_classes,), optional
        ``thresholds_`` of the classifier, for figures.
    score_range : (float, float)
        Range of the score, for figures.
    seed : int
        Seed of the resamples for intervals.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import Decisions
    >>> from srosr.evaluation.evaluation import evaluate
    >>> candidate, rejected = np.array(["cat", "dog", "dog", "cat"]), np.array([False, False, True, False])
    >>> decisions = Decisions(np.where(rejected, "?", candidate), candidate, np.array([0.1, 0.2, 0.9, 0.3]), rejected)
    >>> found = evaluate(decisions, ["cat", "dog", "fox", "elk"], ["cat", "dog"])
    >>> found.unknown_labels, found.measures["accuracy"].value, found.measures["rejection_accuracy"].value
    (('fox', 'elk'), 0.75, 0.5)
    """
    labels = truth.tolist() if hasattr(truth, "tolist") else list(truth)
    collector = EvaluationCollector(np.asarray(classes), unknown)
    collector.add(np.array([format_label(label) for label in labels], dtype=object), decisions)
    return collector.evaluate(thresholds=thresholds, score_range=score_range, seed=seed)

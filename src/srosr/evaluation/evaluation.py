"""How well a model does on labelled samples: who was recognised, who was refused, who was mistaken for whom.

A :class:`Gathering` takes batches of decisions with the labels of the samples, as text, and keeps numbers only;
:class:`Evaluation` is what comes of it: metrics, a line for each class, what other thresholds would trade, the worst
mistakes. ``figure`` draws it, ``report`` makes a page of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.unknown_label import format_label
from ..classifiers import Decisions
from .intervals import SEED
from .metric_table import NONE, Measure, measured

__all__ = ["ClassLine", "Evaluation", "Gathering", "Mistake", "Trade", "UnexpectedLabel", "evaluate"]

#: Shares of known samples refused for which thresholds are shown.
TARGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
#: Mistakes of a sort that are shown.
WORST = 10


class UnexpectedLabel(ValueError):
    """A label that is neither a class of the model nor said to be unknown."""


@dataclass(frozen=True)
class ClassLine:
    """What became of the samples of one label.

    Attributes
    ----------
    label : str
    known : bool
        Whether it is a class of the model.
    samples, right, refused, wrong : int
        For an unknown label to be refused is right, and anything else wrong.
    mistaken_for : str or None
        The class that wrong answers named most often.
    mistaken : int
        How often.
    """

    label: str
    known: bool
    samples: int
    right: int
    refused: int
    wrong: int
    mistaken_for: str | None
    mistaken: int


@dataclass(frozen=True)
class Trade:
    """What a threshold on the unknown score does to the samples.

    Attributes
    ----------
    threshold : float or None
        None where each class has its own, or no number stands for it.
    known_refused, recognised : float or None
        Shares of the known samples: refused, and accepted under their class.
    unknown_refused : float or None
        Share of the unknown samples.
    target : float or None
        The share of known samples that may be refused; None for the model's own threshold.
    """

    threshold: float | None
    known_refused: float | None
    recognised: float | None
    unknown_refused: float | None
    target: float | None = None


@dataclass(frozen=True)
class Mistake:
    """A sample that was judged wrongly; its row counts from 0, `name` is that of its file where it has one."""

    row: int
    label: str
    candidate: str
    unknown_score: float
    name: str | None = None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a model made of labelled samples.

    Attributes
    ----------
    names : tuple of str
        The classes of the model, as text.
    strangers : tuple of str
        Labels that were met and are none of them.
    truth : ndarray of int (n_samples,)
        Number of the label: of a class, or of a stranger behind all classes.
    candidate : ndarray of int (n_samples,)
    score : ndarray (n_samples,)
        Unknown scores; infinite where there was none.
    refused : ndarray of bool (n_samples,)
    rows : ndarray of int (n_samples,)
    files : tuple of str or None
        Names of the samples.
    thresholds : ndarray (n_classes,) or None
        Of each candidate class.
    score_range : (float, float)
        Ends of the scale of the score.
    seed : int
        Of the resamples for intervals.
    """

    names: tuple[str, ...]
    strangers: tuple[str, ...]
    truth: IntArray
    candidate: IntArray
    score: Array
    refused: AnyArray
    rows: IntArray
    files: tuple[str, ...] | None = None
    thresholds: Array | None = None
    score_range: tuple[float, float] = (0.0, 1.0)
    seed: int = SEED

    @property
    def unknown(self) -> AnyArray:
        """Which samples are of no class of the model."""
        return np.asarray(self.truth >= len(self.names))

    @property
    def n_known(self) -> int:
        """Samples of the model's classes."""
        return int(np.count_nonzero(~self.unknown))

    @property
    def n_unknown(self) -> int:
        """Samples of other labels."""
        return int(np.count_nonzero(self.unknown))

    @property
    def true(self) -> IntArray:
        """Class numbers, −1 for unknown samples."""
        return np.where(self.unknown, NONE, self.truth)

    @property
    def answered(self) -> IntArray:
        """Class numbers, −1 for refused samples."""
        return np.where(self.refused, NONE, self.candidate)

    @cached_property
    def measures(self) -> dict[str, Measure]:
        """Every metric by name, those that cannot be had with a remark."""
        return measured(
            self.true, self.answered, self.candidate, self.score,
            n_classes=len(self.names), n_strange=len(self.strangers), seed=self.seed,
        )  # fmt: skip

    @cached_property
    def confusion(self) -> dict[tuple[int, int], int]:
        """Samples by number of the label and of the answer (−1: refused), those that occur."""
        width = len(self.names) + 1
        cells, counts = np.unique(self.truth * width + self.answered + 1, return_counts=True)
        return {
            (int(cell) // width, int(cell) % width - 1): int(n)
            for cell, n in zip(cells.tolist(), counts.tolist(), strict=True)
        }

    @cached_property
    def lines(self) -> list[ClassLine]:
        """A line for each class of the model, then for each unknown label."""
        answers: list[dict[int, int]] = [{} for _ in (*self.names, *self.strangers)]
        for (label, answer), n in self.confusion.items():
            answers[label][answer] = n
        return [self._line(number, found) for number, found in enumerate(answers)]

    def _line(self, number: int, answers: dict[int, int]) -> ClassLine:
        known = number < len(self.names)
        refused = answers.get(NONE, 0)
        mistakes = {answer: n for answer, n in answers.items() if answer not in (NONE, number)}
        # The first of those that are as frequent.
        most = max(mistakes, key=lambda answer: (mistakes[answer], -answer), default=None)
        return ClassLine(
            label=(*self.names, *self.strangers)[number],
            known=known,
            samples=sum(answers.values()),
            right=answers.get(number, 0) if known else refused,
            refused=refused,
            wrong=sum(mistakes.values()),
            mistaken_for=None if most is None else self.names[most],
            mistaken=0 if most is None else mistakes[most],
        )

    # -- thresholds --------------------------------------------------------------------------------------

    @property
    def threshold(self) -> float | None:
        """The threshold, where all classes have the same."""
        if self.thresholds is None or len(np.unique(self.thresholds)) != 1:
            return None
        return float(self.thresholds[0])

    @property
    def now(self) -> Trade:
        """What the model's own threshold does."""
        value = {name: measure.value for name, measure in self.measures.items()}
        return Trade(self.threshold, value["known_refused"], value["recognition_accuracy"], value["rejection_accuracy"])

    @cached_property
    def trades(self) -> list[Trade]:
        """The lowest thresholds that refuse at most so many of the known samples, one for all classes.

        They were chosen on the samples that they are judged by: other samples may do a little worse.
        """
        unknown, found = self.unknown, list[Trade]()
        known = np.sort(self.score[~unknown])
        strange, right = self.score[unknown], self.score[(self.candidate == self.truth) & ~unknown]
        for target in TARGETS if len(known) else ():
            value = known[len(known) - 1 - int(target * len(known) + 1e-9)]
            trade = Trade(
                float(value) if np.isfinite(value) else None,
                float(np.mean(known > value)),
                float(np.count_nonzero(right <= value) / len(known)),
                float(np.mean(strange > value)) if len(strange) else None,
                target,
            )
            # Few samples, or few distinct scores, have the same threshold for several shares.
            if not found or found[-1].threshold != trade.threshold:
                found.append(trade)
        return found

    # -- mistakes ----------------------------------------------------------------------------------------

    @cached_property
    def worst(self) -> dict[str, list[Mistake]]:
        """The worst mistakes of three sorts, the worst first.

        ``accepted``: unknown samples with the lowest scores; ``refused``: known samples with the highest; ``mistaken``:
        accepted known samples under a wrong class, those with the lowest scores.
        """
        unknown, right = self.unknown, self.candidate == self.truth
        sorts = {
            "accepted": (unknown & ~self.refused, 1.0),
            "refused": (~unknown & self.refused, -1.0),
            "mistaken": (~unknown & ~self.refused & ~right, 1.0),
        }
        worst = {}
        for name, (which, sign) in sorts.items():
            places = np.flatnonzero(which)
            places = places[np.argsort(sign * self.score[places], kind="stable")][:WORST]
            worst[name] = [self._mistake(int(place)) for place in places]
        return worst

    def _mistake(self, place: int) -> Mistake:
        return Mistake(
            row=int(self.rows[place]),
            label=(*self.names, *self.strangers)[self.truth[place]],
            candidate=self.names[self.candidate[place]],
            unknown_score=float(self.score[place]),
            name=None if self.files is None else self.files[place],
        )

    # -- for machines ------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """All of it in values that JSON has; None stands for what there is not, and for what is not finite."""
        return {
            "samples": {"all": len(self.truth), "known": self.n_known, "unknown": self.n_unknown},
            "unknown_labels": list(self.strangers),
            "metrics": {name: _measure(measure) for name, measure in self.measures.items()},
            "classes": [_line(line) for line in self.lines if line.known],
            "unknown": [_line(line) for line in self.lines if not line.known],
            "confusion": [
                {
                    "label": (*self.names, *self.strangers)[label],
                    "answered": None if answer == NONE else self.names[answer],
                    "samples": n,
                }
                for (label, answer), n in self.confusion.items()
            ],
            "thresholds": [vars(trade) for trade in (self.now, *self.trades)],
            "worst": {
                name: [vars(mistake) | {"unknown_score": _finite(mistake.unknown_score)} for mistake in mistakes]
                for name, mistakes in self.worst.items()
            },
        }


def _measure(measure: Measure) -> dict[str, Any]:
    return {
        "label": measure.kind.label,
        "meaning": measure.kind.meaning,
        "value": measure.value,
        "low": None if measure.interval is None else measure.interval.low,
        "high": None if measure.interval is None else measure.interval.high,
        "interval": measure.way,
        "remark": measure.remark or None,
    }


def _line(line: ClassLine) -> dict[str, Any]:
    return {name: value for name, value in vars(line).items() if name != "known"}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


# -- gathering -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Gathering:
    """Decisions and labels, batch by batch; it keeps numbers only.

    Parameters
    ----------
    classes : ndarray (n_classes,)
        ``classes_`` of the model.
    unknown : sequence of str, optional
        Labels that are unknown; then a label that is neither among them nor a class is an error. Without it every label
        that is not a class is unknown.
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
                raise UnexpectedLabel(f"{label!r} is a class of the model: it cannot be unknown too.")

    def __len__(self) -> int:
        return sum(len(batch[0]) for batch in self._batches)

    def check(self, labels: AnyArray, rows: IntArray) -> None:
        """Refuse labels that are neither a class nor unknown, before samples are judged.

        Raises
        ------
        UnexpectedLabel
        """
        for label, row in zip(labels.tolist(), rows.tolist(), strict=True) if self.unknown is not None else ():
            self._expect(label, row)

    def add(
        self, labels: AnyArray, decisions: Decisions, rows: IntArray | None = None, files: Sequence[str] | None = None
    ) -> None:
        """Take a batch.

        Parameters
        ----------
        labels : ndarray of str (n_samples,)
        decisions : Decisions
        rows : ndarray of int (n_samples,), optional
            Where the samples are in their file; without it they are counted.
        files : sequence of str, optional
            Their names; given with all batches or none.

        Raises
        ------
        UnexpectedLabel
            If a label is neither a class nor one of those that are unknown.
        """
        if len(labels) != len(decisions):
            raise ValueError(f"there are {len(labels)} labels for {len(decisions)} decisions; one a sample is needed.")
        if rows is None:
            rows = len(self) + np.arange(len(labels))
        texts, first, place = np.unique(labels.astype(object), return_index=True, return_inverse=True)
        # In the order in which they are met.
        numbers = np.empty(len(texts), dtype=np.int64)
        for i in np.argsort(first, kind="stable").tolist():
            numbers[i] = self._number_of(texts[i], int(rows[first[i]]))
        named, chosen = np.unique(decisions.candidate, return_inverse=True)
        candidate = np.array([self._places[label] for label in named.tolist()], dtype=np.int64)[chosen]
        score = np.where(np.isnan(decisions.unknown_score), np.inf, decisions.unknown_score)
        self._batches.append((numbers[place], candidate, score, np.asarray(decisions.rejected), np.asarray(rows)))
        self._files.extend(files or ())

    def _number_of(self, label: str, row: int) -> int:
        self._expect(label, row)
        return self._numbers.setdefault(label, len(self._numbers))

    def _expect(self, label: str, row: int) -> None:
        if self.unknown is None or label in self.unknown or label in self._numbers:
            return
        raise UnexpectedLabel(
            f"row {row} is labelled {label!r}, which is neither a class of the model nor one of the labels given as "
            "unknown; give it with --unknown too, or leave --unknown out, which takes every label that is no class as "
            "unknown."
        )

    def evaluation(
        self,
        *,
        thresholds: Array | None = None,
        score_range: tuple[float, float] = (0.0, 1.0),
        seed: int = SEED,
    ) -> Evaluation:
        """What comes of all batches, of which there must be some."""
        if not self._batches:
            raise ValueError("there are no samples to evaluate.")
        truth, candidate, score, refused, rows = map(np.concatenate, zip(*self._batches, strict=True))
        labels, k = tuple(self._numbers), len(self.classes)
        files = tuple(self._files) if self._files else None
        return Evaluation(
            labels[:k], labels[k:], truth, candidate, score, refused, rows, files, thresholds, score_range, seed
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
    """Evaluate decisions against the truth.

    Parameters
    ----------
    decisions : Decisions
        What ``decide(X)`` of a fitted open set classifier returns.
    truth : array-like (n_samples,)
        Labels; they are compared with the classes as text, so that 3 and "3" are the same. Those that are no class are
        unknown.
    classes : array-like (n_classes,)
        ``classes_`` of the classifier.
    unknown : sequence of str, optional
        The labels that are unknown; then any other that is no class is an error.
    thresholds : ndarray (n_classes,), optional
        ``thresholds_`` of the classifier, for figures.
    score_range : (float, float)
        Ends of the scale of the score, for figures.
    seed : int
        Of the resamples that intervals come from.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.classifiers.base import Decisions
    >>> from srosr.evaluation.evaluation import evaluate
    >>> candidate, refused = np.array(["cat", "dog", "dog", "cat"]), np.array([False, False, True, False])
    >>> decisions = Decisions(np.where(refused, "?", candidate), candidate, np.array([0.1, 0.2, 0.9, 0.3]), refused)
    >>> found = evaluate(decisions, ["cat", "dog", "fox", "elk"], ["cat", "dog"])
    >>> found.strangers, found.measures["accuracy"].value, found.measures["rejection_accuracy"].value
    (('fox', 'elk'), 0.75, 0.5)
    """
    labels = truth.tolist() if hasattr(truth, "tolist") else list(truth)
    gathering = Gathering(np.asarray(classes), unknown)
    gathering.add(np.array([format_label(label) for label in labels], dtype=object), decisions)
    return gathering.evaluation(thresholds=thresholds, score_range=score_range, seed=seed)

"""The demonstration behind ``srosr demo``: handwritten digits, some of them strangers.

The numbers are here (:func:`run_demo`), the picture is in :mod:`srosr.reports.demo_figure`, so that either can be had
without the other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from .._support.array_types import Array, IntArray
from ..classifiers import SROSRClassifier
from ..evidence import EVIDENCE, Evidence
from ..inspection import ErrorHistogramDisplay, Explanation, NonMatchedDisplay, TailDisplay
from ..metrics import open_set_f_measure
from ..thresholds import rejection_threshold

__all__ = ["DemoResult", "choose_digits", "run_demo"]

N_DIGITS = 10
N_KNOWN = 6  # six known and four unknown, as in the paper's MNIST experiment
TEST_SHARE = 0.4
N_EXAMPLES = 2  # of each kind, in the figure
IMAGE_SHAPE = (8, 8)


@dataclass(frozen=True)
class Tally:
    """What became of the samples of one digit.

    For a known digit `right` counts the accepted samples with the right class and `wrong` the accepted ones with
    another. An unknown digit has no right class: accepting it is `wrong`.
    """

    digit: int
    samples: int
    right: int
    refused: int
    wrong: int


@dataclass(frozen=True)
class RuleResult:
    """How one way to refuse did; the threshold of each lets go of the same share of held-out known samples.

    ``threshold`` is on the scale of the rule's own unknown score: for SCI, one minus the index.
    """

    name: str
    threshold: float
    known_accepted_right: float
    known_refused: float
    unknown_refused: float
    auroc: float
    f_measure: float


@dataclass(frozen=True)
class Example:
    """One sample with its code, for the figure."""

    digit: int
    candidate: int
    is_known: bool
    refused: bool
    image: Array
    code: Array
    residuals: Array
    unknown_score: float


@dataclass(frozen=True)
class DemoSamples:
    """What the figure shows: all scores, the recogniser's errors and one tail, and a few samples in full."""

    known_score: Array
    unknown_score: Array
    known_log_p: Array
    unknown_log_p: Array
    atom_labels: IntArray
    examples: tuple[Example, ...]
    errors: ErrorHistogramDisplay
    nonmatched: NonMatchedDisplay
    tail: TailDisplay
    explanation: Explanation
    explained_digit: int


@dataclass(frozen=True)
class DemoResult:
    """The numbers of one demonstration; shares are between 0 and 1."""

    seed: int
    known: tuple[int, ...]
    unknown: tuple[int, ...]
    n_train: int
    n_test: int
    problem: str
    target_rejection: float
    closed_set_accuracy: float
    rules: tuple[RuleResult, ...]
    worst_gap: float
    seconds_fit: float
    seconds_recognise: float
    known_tallies: tuple[Tally, ...]
    unknown_tallies: tuple[Tally, ...]
    samples: DemoSamples

    @property
    def calibrated(self) -> RuleResult:
        """The recogniser's own rule; the others are for comparison."""
        return self.rules[0]

    def summary(self) -> dict[str, Any]:
        """The plain numbers, without the samples: what ``--json`` prints."""
        left_out = {"known_tallies", "unknown_tallies", "samples", "rules"}
        numbers = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        numbers["rules"] = [asdict(rule) for rule in self.rules]
        numbers["per_digit"] = [
            {"known": is_known} | asdict(tally)
            for is_known, tallies in ((True, self.known_tallies), (False, self.unknown_tallies))
            for tally in tallies
        ]
        return numbers


def choose_digits(seed: int, known: Sequence[int] | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Divide the ten digits into known and unknown ones.

    Parameters
    ----------
    seed : int
        Draws six known digits where `known` is None.
    known : sequence of int, optional
        The known digits: two to nine of them. (A stranger to a single class could not be spread over several.)

    Returns
    -------
    known, unknown : tuple of int
        Both sorted.

    Raises
    ------
    ValueError
        If a number is no digit or is repeated, or if there are too few or too many.

    Examples
    --------
    >>> choose_digits(0, [5, 1, 3, 0, 2, 4])
    ((0, 1, 2, 3, 4, 5), (6, 7, 8, 9))
    """
    if known is None:
        known = np.random.default_rng(seed).choice(N_DIGITS, N_KNOWN, replace=False).tolist()
    chosen = tuple(sorted(int(digit) for digit in known))
    for digit in chosen:
        if not 0 <= digit < N_DIGITS:
            raise ValueError(f"{digit} is not a digit; the known digits are among 0 to {N_DIGITS - 1}.")
        if chosen.count(digit) > 1:
            raise ValueError(f"the digit {digit} is listed more than once.")
    if len(chosen) < 2:
        raise ValueError("at least two known digits are needed to tell classes apart.")
    if len(chosen) == N_DIGITS:
        raise ValueError("all ten digits are known, which leaves no unknown to refuse; leave one out.")
    return chosen, tuple(digit for digit in range(N_DIGITS) if digit not in chosen)


def run_demo(seed: int = 0, known: Sequence[int] | None = None) -> DemoResult:
    """Learn the known digits, then meet unseen samples of all ten and refuse the strangers.

    A :class:`SROSRClassifier` with nothing but a seed set learns 60 % of the samples of the known digits. No unknown
    sample has a part in that. The paper's rule and plain SCI, both on the same codes and with thresholds that refuse
    the same share of the same held-out samples, are there to compare with.

    Parameters
    ----------
    seed : int, default=0
        Chooses the known digits, the split and the cross-tests; the same seed gives the same numbers.
    known : sequence of int, optional
        The known digits, in place of six drawn by the seed.

    Returns
    -------
    DemoResult
    """
    known_digits, unknown_digits = choose_digits(seed, known)
    digits = load_digits()
    X, y = np.asarray(digits.data, dtype=float), np.asarray(digits.target)
    is_known = np.isin(y, known_digits)
    X_train, X_test, y_train, y_test = train_test_split(
        X[is_known], y[is_known], test_size=TEST_SHARE, stratify=y[is_known], random_state=seed
    )
    started = time.perf_counter()
    clf = SROSRClassifier(random_state=seed).fit(X_train, y_train)
    fitted = time.perf_counter()

    # The knowns kept apart, then every sample of the unknown digits.
    met = np.concatenate([X_test, X[~is_known]])
    truth = np.concatenate([y_test, y[~is_known]])
    stranger = np.arange(len(truth)) >= len(y_test)
    answers = clf.predict(met)
    recognised = time.perf_counter()

    evidence = clf._gather_evidence(clf._check_queries(met))
    candidate, score = np.asarray(clf.classes_)[evidence.candidate], clf._score_evidence(evidence)
    log_p = clf.log_p_value(met)
    codes = clf.encode(met)
    refused = answers == clf.unknown_label_
    right = candidate == truth

    def tally(digit: int) -> Tally:
        own = truth == digit
        n_right = int(np.sum(own & (answers == digit)))  # 0 for an unknown: it is never answered
        n_refused = int(np.sum(own & refused))
        return Tally(digit, int(own.sum()), n_right, n_refused, int(own.sum()) - n_right - n_refused)

    def example(row: int) -> Example:
        return Example(
            digit=int(truth[row]),
            candidate=int(candidate[row]),
            is_known=not stranger[row],
            refused=bool(refused[row]),
            image=met[row].reshape(IMAGE_SHAPE),
            code=np.asarray(codes.codes[[row]].todense()).ravel(),
            residuals=evidence.residuals[row],
            unknown_score=float(score[row]),
        )

    typical_known = _typical(known_digits, truth, ~stranger & ~refused & right, log_p)
    typical_unknown = _typical(unknown_digits, truth, stranger & refused, log_p)
    # A stranger that is not among the examples, if there is one.
    explained = (typical_unknown[N_EXAMPLES:] or typical_unknown or [len(y_test)])[0]
    explanation = clf.explain(met[explained])
    return DemoResult(
        seed=seed,
        known=known_digits,
        unknown=unknown_digits,
        n_train=len(y_train),
        n_test=len(truth),
        problem=str(clf.problem_),
        target_rejection=clf.target_rejection,
        closed_set_accuracy=float(np.mean(right[~stranger])),
        rules=_compared(clf, evidence, score, refused, truth, stranger),
        worst_gap=float(np.max(codes.gap)),
        seconds_fit=fitted - started,
        seconds_recognise=recognised - fitted,
        known_tallies=tuple(map(tally, known_digits)),
        unknown_tallies=tuple(map(tally, unknown_digits)),
        samples=DemoSamples(
            known_score=score[~stranger],
            unknown_score=score[stranger],
            known_log_p=log_p[~stranger],
            unknown_log_p=log_p[stranger],
            atom_labels=np.asarray(clf.dictionary_.labels),
            examples=tuple(map(example, [*typical_known[:N_EXAMPLES], *typical_unknown[:N_EXAMPLES]])),
            errors=ErrorHistogramDisplay.from_estimator(clf),
            nonmatched=NonMatchedDisplay.from_estimator(clf, met, truth),
            tail=TailDisplay.from_estimator(clf, explanation.candidate, random_state=seed),
            explanation=explanation,
            explained_digit=int(truth[explained]),
        ),
    )


def _compared(
    clf: SROSRClassifier,
    evidence: Evidence,
    score: Array,
    refused: NDArray[np.bool_],
    truth: IntArray,
    stranger: NDArray[np.bool_],
) -> tuple[RuleResult, ...]:
    """The recogniser's rule, the paper's and SCI; those two get their thresholds as the first does."""
    held_out, tails = clf.calibration_.held_out, clf.calibration_.tails
    assert tails is not None  # every digit has samples to hold out
    concentration = EVIDENCE.index("concentration")
    values, candidate = evidence.values, np.asarray(clf.classes_)[evidence.candidate]
    rivals = {
        "paper": (tails.score(held_out.values, held_out.candidate), tails.score(values, evidence.candidate)),
        "SCI": (1.0 - held_out.values[:, concentration], 1.0 - values[:, concentration]),
    }
    judged = [("calibrated", clf.threshold_, score, refused)]
    for name, (known_scores, scores) in rivals.items():
        threshold = rejection_threshold(known_scores, clf.target_rejection)
        judged.append((name, threshold, scores, scores > threshold))
    marked = np.where(stranger, clf.unknown_label_, truth)

    def result(name: str, threshold: float, scores: Array, no: NDArray[np.bool_]) -> RuleResult:
        answers = np.where(no, clf.unknown_label_, candidate)
        return RuleResult(
            name=name,
            threshold=threshold,
            known_accepted_right=float(np.mean((answers == truth)[~stranger])),
            known_refused=float(np.mean(no[~stranger])),
            unknown_refused=float(np.mean(no[stranger])),
            auroc=float(roc_auc_score(stranger, scores)),
            f_measure=open_set_f_measure(marked, answers, unknown_label=clf.unknown_label_),
        )

    return tuple(result(*one) for one in judged)


def _typical(digits: Sequence[int], truth: IntArray, eligible: NDArray[np.bool_], strangeness: Array) -> list[int]:
    """Rows of eligible samples of the middle strangeness of their digit: typical ones, not the prettiest."""
    rows: list[int] = []
    for digit in digits:
        own = np.flatnonzero(eligible & (truth == digit))
        if len(own):
            rows.append(int(own[np.argsort(strangeness[own], kind="stable")[len(own) // 2]]))
    return rows

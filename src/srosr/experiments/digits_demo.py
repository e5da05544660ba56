"""The demonstration of ``srosr demo``: handwritten digits, some of them unknown.

:func:`run_demo` computes the numbers; :mod:`srosr.reports.demo_figure` draws them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from .._support.array_types import Array, IntArray
from ..classifiers.srosr_classifier import SROSRClassifier
from ..evidence.table import EVIDENCE, Evidence
from ..inspection.explanation import Explanation
from ..inspection.model_displays import ErrorHistogramDisplay, NonMatchedDisplay, TailDisplay
from ..metrics.f_measure import open_set_f_measure
from ..thresholds.choice import rejection_threshold

N_DIGITS = 10
N_KNOWN = 6  # six known and four unknown, as in the paper's MNIST experiment
TEST_SHARE = 0.4
N_EXAMPLES = 2  # of each kind, in the figure
IMAGE_SHAPE = (8, 8)
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class DigitCounts:
    """The counts of the samples of one digit.

    For a known digit, `right` counts the samples accepted as that digit and `wrong` those accepted as another. For an
    unknown digit, every accepted sample is `wrong`.
    """

    digit: int
    samples: int
    right: int
    rejected: int
    wrong: int


@dataclass(frozen=True)
class RuleResult:
    """The results of one rejection rule; the thresholds of all rules reject the same share of held-out known samples.

    ``threshold`` is on the scale of the rule's own unknown score: for SCI, one minus the index.
    """

    name: str
    threshold: float
    known_accepted_right: float
    known_rejected: float
    unknown_rejected: float
    auroc: float
    f_measure: float


@dataclass(frozen=True)
class Example:
    """One sample with its code, for the figure."""

    digit: int
    candidate: int
    is_known: bool
    rejected: bool
    image: Array
    code: Array
    residuals: Array
    unknown_score: float


@dataclass(frozen=True)
class DemoSamples:
    """The content of the figure: all scores, the recognizer's errors, one tail, and a few samples in full."""

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
    seconds_recognize: float
    known_tallies: tuple[DigitCounts, ...]
    unknown_tallies: tuple[DigitCounts, ...]
    samples: DemoSamples

    @property
    def calibrated(self) -> RuleResult:
        """The results of the recognizer's own rule; the others are for comparison."""
        return self.rules[0]

    def summary(self) -> dict[str, Any]:
        """Return the numbers that ``--json`` prints, without the samples."""
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
    """Return the known and the unknown digits, both sorted; without ``known``, the seed draws six known ones.

    Raises ValueError if a number is not a digit or is repeated, or if there are too few or too many.

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
            raise ValueError(f"{digit} is not a digit; choose known digits from 0 to {N_DIGITS - 1}.")
        if chosen.count(digit) > 1:
            raise ValueError(f"the digit {digit} is listed more than once.")
    if len(chosen) < 2:
        raise ValueError("at least two known digits are needed.")
    if len(chosen) == N_DIGITS:
        raise ValueError("all ten digits are known, so there is nothing to reject; leave one out.")
    return chosen, tuple(digit for digit in range(N_DIGITS) if digit not in chosen)


def split_digits(known: Sequence[int], seed: int) -> tuple[Array, IntArray, Array, IntArray]:
    """Return training samples and their digits, then test samples and theirs.

    60 % of the samples of the known digits are for training. The others, and then all samples of the unknown digits,
    are for the test.
    """
    digits = load_digits()
    X, y = np.asarray(digits.data, dtype=float), np.asarray(digits.target)
    is_known = np.isin(y, known)
    X_train, X_test, y_train, y_test = train_test_split(
        X[is_known], y[is_known], test_size=TEST_SHARE, stratify=y[is_known], random_state=seed
    )
    return X_train, y_train, np.concatenate([X_test, X[~is_known]]), np.concatenate([y_test, y[~is_known]])


def run_demo(seed: int = 0, known: Sequence[int] | None = None) -> DemoResult:
    """Fit the recognizer to the known digits and test it on unseen samples of all ten.

    A :class:`SROSRClassifier` with default parameters is fitted to 60 % of the samples of the known digits and to no
    unknown sample. The paper's rule and SCI, on the same codes and with thresholds that reject the same share of the
    same held-out samples, are for comparison. The seed determines the known digits, the split and the cross-tests.
    """
    known_digits, unknown_digits = choose_digits(seed, known)
    X_train, y_train, X_all, truth = split_digits(known_digits, seed)
    unknown = ~np.isin(truth, known_digits)
    started = time.perf_counter()
    clf = SROSRClassifier(random_state=seed).fit(X_train, y_train)
    fitted = time.perf_counter()

    answers = clf.predict(X_all)
    recognized = time.perf_counter()

    evidence = clf._gather_evidence(clf._check_queries(X_all))
    candidate = np.asarray(clf.classes_)[clf._select_class_scores(evidence).argmax(axis=1)]
    score = clf._score_evidence(evidence)
    log_p = clf.log_p_value(X_all)
    codes = clf.encode(X_all)
    rejected = answers == clf.unknown_label_
    right = candidate == truth

    def count(digit: int) -> DigitCounts:
        own = truth == digit
        n_right = int(np.sum(own & (answers == digit)))  # 0 for an unknown digit, which is never an answer
        n_rejected = int(np.sum(own & rejected))
        return DigitCounts(digit, int(own.sum()), n_right, n_rejected, int(own.sum()) - n_right - n_rejected)

    def make_example(row: int) -> Example:
        return Example(
            digit=int(truth[row]),
            candidate=int(candidate[row]),
            is_known=not unknown[row],
            rejected=bool(rejected[row]),
            image=X_all[row].reshape(IMAGE_SHAPE),
            code=np.asarray(codes.codes[[row]].todense()).ravel(),
            residuals=evidence.residuals[row],
            unknown_score=float(score[row]),
        )

    typical_known = _find_typical(known_digits, truth, ~unknown & ~rejected & right, log_p)
    typical_unknown = _find_typical(unknown_digits, truth, unknown & rejected, log_p)
    # An unknown sample that is not among the examples, if there is one.
    explained = (typical_unknown[N_EXAMPLES:] or typical_unknown or [int(np.argmax(unknown))])[0]
    explanation = clf.explain(X_all[explained])
    return DemoResult(
        seed=seed,
        known=known_digits,
        unknown=unknown_digits,
        n_train=len(y_train),
        n_test=len(truth),
        problem=str(clf.problem_),
        target_rejection=clf.target_rejection,
        closed_set_accuracy=float(np.mean(right[~unknown])),
        rules=_compare_rules(clf, evidence, score, rejected, truth, unknown),
        worst_gap=float(np.max(codes.gap)),
        seconds_fit=fitted - started,
        seconds_recognize=recognized - fitted,
        known_tallies=tuple(map(count, known_digits)),
        unknown_tallies=tuple(map(count, unknown_digits)),
        samples=DemoSamples(
            known_score=score[~unknown],
            unknown_score=score[unknown],
            known_log_p=log_p[~unknown],
            unknown_log_p=log_p[unknown],
            atom_labels=np.asarray(clf.dictionary_.labels),
            examples=tuple(map(make_example, [*typical_known[:N_EXAMPLES], *typical_unknown[:N_EXAMPLES]])),
            errors=ErrorHistogramDisplay.from_estimator(clf),
            nonmatched=NonMatchedDisplay.from_estimator(clf, X_all, truth),
            tail=TailDisplay.from_estimator(clf, explanation.candidate),
            explanation=explanation,
            explained_digit=int(truth[explained]),
        ),
    )


def _compare_rules(
    clf: SROSRClassifier, evidence: Evidence, score: Array, rejected: Mask, truth: IntArray, unknown: Mask
) -> tuple[RuleResult, ...]:
    """Return the results of the recognizer's rule, the paper's rule and SCI, with thresholds chosen in the same way."""
    held_out, tails = clf.calibration_.held_out, clf.calibration_.tails
    assert tails is not None  # every digit has samples to hold out
    concentration = EVIDENCE.index("concentration")
    values, classes = evidence.values, np.asarray(clf.classes_)
    rivals = {
        "paper": (
            tails.score(held_out.values, held_out.residual_candidate),
            tails.score(values, evidence.residual_candidate),
        ),
        "SCI": (1.0 - held_out.values[:, concentration], 1.0 - values[:, concentration]),
    }
    rules = [("calibrated", clf.threshold_, score, rejected)]
    for name, (known_scores, scores) in rivals.items():
        threshold = rejection_threshold(known_scores, clf.target_rejection)
        rules.append((name, threshold, scores, scores > threshold))
    y_marked = np.where(unknown, clf.unknown_label_, truth)

    def evaluate(name: str, threshold: float, scores: Array, reject: Mask) -> RuleResult:
        # The other two label by the smallest residual, as in the paper.
        number = evidence.candidate if name == "calibrated" else evidence.residual_candidate
        answers = np.where(reject, clf.unknown_label_, classes[number])
        return RuleResult(
            name=name,
            threshold=threshold,
            known_accepted_right=float(np.mean((answers == truth)[~unknown])),
            known_rejected=float(np.mean(reject[~unknown])),
            unknown_rejected=float(np.mean(reject[unknown])),
            auroc=float(roc_auc_score(unknown, scores)),
            f_measure=open_set_f_measure(y_marked, answers, unknown_label=clf.unknown_label_),
        )

    return tuple(evaluate(*one) for one in rules)


def _find_typical(digits: Sequence[int], truth: IntArray, eligible: Mask, strangeness: Array) -> list[int]:
    """Return one row per digit: the eligible sample with the median strangeness."""
    rows: list[int] = []
    for digit in digits:
        own = np.flatnonzero(eligible & (truth == digit))
        if len(own):
            rows.append(int(own[np.argsort(strangeness[own], kind="stable")[len(own) // 2]]))
    return rows

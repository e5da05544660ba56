"""The methods of a protocol on one trial: each fitted once, and what they say of the test samples at every openness.

Methods that differ only in what they conclude from the same codes share them: the rules of the recogniser are one
cross-test, refusal by SCI, ratio and residual another, and a method with two thresholds is one model. What a method
finds is the same, to the bit, as if it were alone (to rounding, over more training samples than have a Gram matrix).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import did_you_mean, join_names
from ..classifiers import OpenSetClassifier, SROSRClassifier
from ..coding import PROBLEMS as CODING_PROBLEMS
from ..coding import Problem
from ..dictionary import Dictionary
from ..evidence import EVIDENCE, Evidence
from ..rivals import SparseRejection, open_set_methods
from ..scoring import conclude, count_atoms
from .protocol import MethodSetting

__all__ = ["Contender", "MetSamples", "Said", "fit_together", "make", "sharing"]

#: Coding problems by the names of protocol files.
PROBLEMS: dict[str, Callable[..., Problem]] = {name.lower(): kind for name, kind in CODING_PROBLEMS.items()}
#: Parameters that come into play after fitting.
LATE = ("threshold", "target_rejection", "per_class", "risk_weight", "openness", "weight")
#: Parameters that come into play when all samples of a fit have been coded.
CONCLUSIONS = ("rule", "tail_size")
#: Parameters that the experiment sets.
SET = ("random_state", "n_jobs", "verbose", "unknown_label")


def make(setting: MethodSetting, seed: int) -> OpenSetClassifier:
    """The classifier of a setting, unfitted: one thread, samples of unit length, and a seed.

    Raises
    ------
    ValueError
        For a parameter that the method does not have.
    """
    clf = open_set_methods()[setting.method]
    there = clf.get_params()
    for name in setting.parameters:
        if name not in there or name in SET:
            can = [p for p in there if p not in SET]
            raise ValueError(
                f"{setting.method} has no parameter {name!r}{did_you_mean(name, can)}; it has {join_names(can)}."
            )
    usual = {"normalize": True, "random_state": seed, "n_jobs": 1}
    clf.set_params(**{name: value for name, value in usual.items() if name in there})
    clf.set_params(**{name: _value(name, value) for name, value in setting.parameters.items()})
    clf._check_parameters()
    return clf


def _value(name: str, value: Any) -> Any:
    """A parameter as the classifier takes it."""
    return _problem(value) if name == "problem" else value


def _problem(value: Any) -> Problem:
    """``{ name = "bpdn", epsilon = 0.001 }`` as a problem."""
    if not (isinstance(value, dict) and value.get("name") in PROBLEMS):
        raise ValueError(f'problem must be such as {{ name = "bpdn", epsilon = 0.001 }}, with a name of '
                         f"{', '.join(PROBLEMS)}; got {value!r}.")  # fmt: skip
    return PROBLEMS[value["name"]](**{key: v for key, v in value.items() if key != "name"})


def sharing(settings: Iterable[MethodSetting]) -> list[list[MethodSetting]]:
    """The settings, those that share a fit together, in the order of the first of each."""
    groups: dict[str, list[MethodSetting]] = {}
    for setting in settings:
        early = {name: value for name, value in setting.parameters.items() if name not in LATE}
        family = setting.method
        clf = make(setting, 0)
        if isinstance(clf, SparseRejection):
            family = "rejection by a number of the code"
        elif isinstance(clf, SROSRClassifier):
            early = {name: value for name, value in early.items() if name not in CONCLUSIONS}
            family = "SROSR"
        groups.setdefault(json.dumps([family, early], sort_keys=True), []).append(setting)
    return list(groups.values())


@dataclass(frozen=True, eq=False)
class Said:
    """What a method says of the test samples.

    Attributes
    ----------
    candidate : ndarray
        The best known class of each sample.
    score : ndarray
        Its unknown score.
    refused : ndarray of bool
    """

    candidate: AnyArray
    score: Array
    refused: AnyArray


class MetSamples:
    """The test samples of a trial; their evidence is gathered once for all methods on the same codes.

    Parameters
    ----------
    X : ndarray (n_samples, n_features)
    """

    def __init__(self, X: Array) -> None:
        self.X = X
        self._gathered: dict[str, Evidence] = {}
        # By their number; as long as they are kept, no other gets it.
        self._parts: dict[int, Dictionary] = {}

    def evidence(self, clf: SROSRClassifier | SparseRejection) -> Evidence:
        """The evidence over the dictionary of ``clf``, which is fitted to the trial's training samples."""
        codes = repr(
            (clf.problem_, [getattr(clf, name) for name in ("kernel", "gamma", "degree", "coef0", "normalize")])
        )
        if getattr(clf, "calibration", "cross") != "cross":
            self._parts[id(clf.dictionary_)] = clf.dictionary_
            codes += f" over a part of the samples, {id(clf.dictionary_)}"
        full = codes + " and least squares"
        if isinstance(clf, SROSRClassifier) and clf._collaborative is not None:
            codes = full
        elif full in self._gathered:
            return self._gathered[full]
        if codes not in self._gathered:
            self._gathered[codes] = clf._gather_evidence(clf._check_queries(self.X))
        return self._gathered[codes]


class Contender:
    """A fitted method, and what it says of test samples.

    Parameters
    ----------
    setting : MethodSetting
    clf : OpenSetClassifier
        Fitted.
    """

    def __init__(self, setting: MethodSetting, clf: OpenSetClassifier) -> None:
        self.setting, self.clf = setting, clf
        self.evidence: Evidence | None = None

    def judge(self, test: MetSamples) -> None:
        """Meet the test samples; what is said of them follows from this, whatever the threshold."""
        clf = self.clf
        if isinstance(clf, (SROSRClassifier, SparseRejection)):
            evidence = test.evidence(clf)
            self._candidate, self._empty, self._score = (
                evidence.candidate,
                evidence.empty,
                clf._score_evidence(evidence),
            )
            self.evidence = evidence if isinstance(clf, SROSRClassifier) else None
            return
        raw = clf._predict_raw(clf._check_queries(test.X))
        self._candidate, self._empty, self._score = raw.candidate, raw.empty, raw.unknown_score

    def told(self, openness: float) -> None:
        """Take the openness of a level, if the method follows it."""
        if not self.setting.follows_openness:
            return
        self.clf.set_params(openness=openness)
        if isinstance(self.clf, SROSRClassifier):
            if self.clf.rule == "paper":
                self.clf.set_weight(openness=openness)
                assert self.evidence is not None
                self._score = self.clf._score_evidence(self.evidence)
        else:
            self.clf.set_threshold(**self.clf._threshold_arguments)

    def says(self) -> Said:
        """Answers under the threshold that is set now."""
        refused = self._empty | ~(self._score <= self.clf.thresholds_[self._candidate])
        return Said(self.clf.classes_[self._candidate], self._score, refused)

    def errors(self) -> tuple[Array, Array] | None:
        """Matched and mean non-matched errors of the test samples; None of a method that has none."""
        if self.evidence is None:
            return None
        matched, nonmatched = (self.evidence.values[:, EVIDENCE.index(kind)] for kind in ("matched", "nonmatched"))
        return matched, nonmatched


def fit_together(
    settings: list[MethodSetting], X: Array, y: IntArray, seed: int, openness: float
) -> Iterator[Contender]:
    """The contenders of settings that share a fit, one after the other.

    Parameters
    ----------
    settings : list of MethodSetting
        One of :func:`sharing`.
    X, y : ndarray
        Training samples.
    seed : int
        Of the methods' own randomness.
    openness : float
        What those that follow it are told at first.
    """
    first: OpenSetClassifier | None = None
    for setting in settings:
        clf = make(setting, seed)
        if setting.follows_openness:
            clf.set_params(openness=openness)
        if first is None:
            first = clf.fit(X, y)
        elif isinstance(first, SROSRClassifier) and clf.rule == "calibrated" and first._collaborative is None:
            clf = clf.fit(X, y)  # the rules before it did without least squares over so many samples
        else:
            clf = _like(first, clf)
        yield Contender(setting, clf)


def _like(fitted: OpenSetClassifier, wanted: OpenSetClassifier) -> OpenSetClassifier:
    """``wanted`` as if it were fitted, from a fit of the same family."""
    late = {name: value for name, value in wanted.get_params(deep=False).items() if name in LATE}
    if isinstance(fitted, SparseRejection):
        other: OpenSetClassifier = fitted._sharing_codes(type(wanted))  # type: ignore[arg-type]
    else:
        # Nothing that a fit leaves is changed in place: what two share stays what it was.
        other = type(wanted)(**wanted.get_params(deep=False))
        for name, value in vars(fitted).items():
            if name not in other.get_params(deep=False):
                setattr(other, name, value)
    other.set_params(**late)
    other._threshold_arguments = {}
    if isinstance(other, SROSRClassifier):
        _conclude(other)
    return other.set_threshold()


def _conclude(clf: SROSRClassifier) -> None:
    """Draw the conclusions of the classifier's own rule from the cross-test that it has got."""
    passes = clf.calibration_
    weight = (1.0 - clf.openness) / 3.0 if clf.weight is None else clf.weight
    clf.rule_ = clf.rule
    clf.calibration_ = conclude(
        passes.known,
        passes.simulated_pass,
        passes.held_out_pass,
        count_atoms(clf.dictionary_),
        rule=clf.rule,
        tail_size=clf.tail_size,
        weight=0.0 if clf.rule == "matched" else weight,
    )
    clf.evidence_weights_, clf.pooled_ = clf.calibration_.weights, clf.calibration_.pooled

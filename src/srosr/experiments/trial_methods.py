"""The methods of a protocol on one trial: each is fitted once and predicts the test samples at every level of openness.

Methods that use the same codes share them: all rules of the recognizer need one cross-test (two where a paper's rule
comes before "calibrated", which needs more of it), rejection by SCI, ratio and residual another, and a method with two
thresholds is one model. The results are the same as without sharing but for rounding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import did_you_mean, join_names
from ..classifiers.base import OpenSetClassifier
from ..classifiers.srosr_classifier import SROSRClassifier
from ..coding.problems import PROBLEMS as CODING_PROBLEMS
from ..coding.problems import Problem
from ..dictionary.dictionary import Dictionary
from ..evidence.table import EVIDENCE, Evidence
from ..rivals.methods import open_set_methods
from ..rivals.sparse_rejection import SparseRejection
from ..scoring.calibration import conclude, count_atoms
from ..scoring.cross_test import CrossTest
from .protocol import MethodSetting

#: Coding problems by their names in protocol files.
PROBLEMS: dict[str, Callable[..., Problem]] = {name.lower(): kind for name, kind in CODING_PROBLEMS.items()}
#: Parameters that take effect after fitting.
POST_FIT_PARAMETERS = ("threshold", "target_rejection", "per_class", "risk_weight", "openness", "weight")
#: Parameters that take effect once all samples of a fit have been coded.
RULE_PARAMETERS = ("rule", "tail_size")
#: Parameters that the experiment sets itself.
RESERVED_PARAMETERS = ("random_state", "n_jobs", "device", "verbose", "unknown_label")


def make_classifier(setting: MethodSetting, seed: int) -> OpenSetClassifier:
    """Return the unfitted classifier of a setting, with one thread, samples of unit length, and a seed.

    Raises ValueError if the method lacks a parameter.
    """
    clf = open_set_methods()[setting.method]
    there = clf.get_params()
    for name in setting.parameters:
        if name not in there or name in RESERVED_PARAMETERS:
            can = [p for p in there if p not in RESERVED_PARAMETERS]
            raise ValueError(
                f"{setting.method} has no parameter {name!r}{did_you_mean(name, can)}; it has {join_names(can)}."
            )
    usual = {"normalize": True, "random_state": seed, "n_jobs": 1}
    clf.set_params(**{name: value for name, value in usual.items() if name in there})
    given = setting.parameters
    clf.set_params(**(given | {"problem": _parse_problem(given["problem"])} if "problem" in given else given))
    clf._check_parameters()
    return clf


def _parse_problem(value: Any) -> Problem:
    """Return the problem for an entry such as ``{ name = "bpdn", epsilon = 0.001 }``."""
    if not (isinstance(value, dict) and value.get("name") in PROBLEMS):
        raise ValueError(f'problem must be a table such as {{ name = "bpdn", epsilon = 0.001 }} whose name is one of '
                         f"{', '.join(PROBLEMS)}; got {value!r}.")  # fmt: skip
    return PROBLEMS[value["name"]](**{key: v for key, v in value.items() if key != "name"})


def group_by_fit(settings: Iterable[MethodSetting]) -> list[list[MethodSetting]]:
    """Return the settings in groups that share a fit, in the order of their first members."""
    groups: dict[str, list[MethodSetting]] = {}
    for setting in settings:
        early = {name: value for name, value in setting.parameters.items() if name not in POST_FIT_PARAMETERS}
        family = setting.method
        clf = make_classifier(setting, 0)
        if isinstance(clf, SparseRejection):
            family = "rejection by a number of the code"
        elif isinstance(clf, SROSRClassifier):
            early = {name: value for name, value in early.items() if name not in RULE_PARAMETERS}
            family = "SROSR"
        groups.setdefault(json.dumps([family, early], sort_keys=True), []).append(setting)
    return list(groups.values())


class MethodPredictions(NamedTuple):
    """The predictions of a method for the test samples: best known class, unknown score, and whether it is rejected."""

    candidate: AnyArray
    score: Array
    rejected: AnyArray


class TrialSamples:
    """The test samples of a trial, with a cache of their evidence for methods that use the same codes."""

    def __init__(self, X: Array) -> None:
        self.X = X
        # By codes: what computed the class scores, how they were fused, and the evidence.
        self._cache: dict[str, list[tuple[Any, Any, Evidence]]] = {}
        # Keeps the dictionaries alive, so that their ids, which are part of keys, stay unique.
        self._parts: dict[int, Dictionary] = {}

    def evidence(self, clf: SROSRClassifier | SparseRejection) -> Evidence:
        """Return the evidence over the dictionary of ``clf``, which is fitted to the trial's training samples."""
        codes = repr(
            (clf.problem_, [getattr(clf, name) for name in ("kernel", "gamma", "degree", "coef0", "normalize")])
        )
        if getattr(clf, "calibration", "cross") != "cross":
            self._parts[id(clf.dictionary_)] = clf.dictionary_
            codes += f" over a part of the samples, {id(clf.dictionary_)}"
        found = self._cache.setdefault(codes, [])
        scorer = fusion = None
        # The other rules, and rejection by a number of the code, use what comes from the codes alone.
        if isinstance(clf, SROSRClassifier) and clf.rule_ == "calibrated":
            scorer, fusion = clf._scorer, clf.calibration_.class_fusion
        for used_scorer, used_fusion, evidence in found:
            if scorer is None or (scorer is used_scorer and fusion is used_fusion):
                return evidence
        found.append((scorer, fusion, clf._gather_evidence(clf._check_queries(self.X))))
        return found[-1][2]


class FittedMethod:
    """A fitted method and its predictions for the test samples."""

    def __init__(self, setting: MethodSetting, clf: OpenSetClassifier) -> None:
        self.setting, self.clf = setting, clf
        self.evidence: Evidence | None = None

    def predict(self, test: TrialSamples) -> None:
        """Compute candidates and scores of the test samples, which do not depend on the threshold."""
        clf = self.clf
        if isinstance(clf, (SROSRClassifier, SparseRejection)):
            evidence = test.evidence(clf)
            self._candidate, self._empty = clf._select_class_scores(evidence).argmax(axis=1), evidence.empty
            self._score = clf._score_evidence(evidence)
            self.evidence = evidence if isinstance(clf, SROSRClassifier) else None
            return
        raw = clf._predict_raw(clf._check_queries(test.X))
        self._candidate, self._empty, self._score = raw.candidate, raw.empty, raw.unknown_score

    def set_openness(self, openness: float) -> None:
        """Set the openness of a level, if the method follows it."""
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

    def decide(self) -> MethodPredictions:
        """Return the predictions under the current threshold."""
        rejected = self._empty | ~(self._score <= self.clf.thresholds_[self._candidate])
        return MethodPredictions(self.clf.classes_[self._candidate], self._score, rejected)

    def get_errors(self) -> tuple[Array, Array] | None:
        """Return matched and mean non-matched errors of the test samples, or None if the method has none."""
        if self.evidence is None:
            return None
        matched, nonmatched = (self.evidence.values[:, EVIDENCE.index(kind)] for kind in ("matched", "nonmatched"))
        return matched, nonmatched


def fit_group(
    settings: list[MethodSetting], X: Array, y: IntArray, seed: int, openness: float
) -> Iterator[FittedMethod]:
    """Yield the fitted methods of settings that share a fit, which are a group of :func:`group_by_fit`.

    ``openness`` is the initial one of the methods that follow it.
    """
    first: OpenSetClassifier | None = None
    for setting in settings:
        clf = make_classifier(setting, seed)
        if setting.follows_openness:
            clf.set_params(openness=openness)
        if first is None:
            first = clf.fit(X, y)
        elif isinstance(first, SROSRClassifier) and clf.rule == "calibrated" and first.rule_ != "calibrated":
            first = clf = clf.fit(X, y)  # the fit of the other rules has no class scores but residuals
        else:
            clf = _copy_fit(first, clf)
        yield FittedMethod(setting, clf)


def _copy_fit(fitted: OpenSetClassifier, wanted: OpenSetClassifier) -> OpenSetClassifier:
    """Return ``wanted`` as if it were fitted, from a fit of the same family."""
    late = {name: value for name, value in wanted.get_params(deep=False).items() if name in POST_FIT_PARAMETERS}
    if isinstance(fitted, SparseRejection):
        other: OpenSetClassifier = fitted._share_codes(type(wanted))  # type: ignore[arg-type]
    else:
        # Fitted attributes are never changed in place, so they can be shared.
        other = type(wanted)(**wanted.get_params(deep=False))
        for name, value in vars(fitted).items():
            if name not in other.get_params(deep=False):
                setattr(other, name, value)
    other.set_params(**late)
    other._threshold_arguments = {}
    if isinstance(other, SROSRClassifier):
        _apply_rule(other)
    return other.set_threshold()


def _apply_rule(clf: SROSRClassifier) -> None:
    """Apply the classifier's own rule to the cross-test that it shares."""
    passes = clf.calibration_
    weight = (1.0 - clf.openness) / 3.0 if clf.weight is None else clf.weight
    simulated, held_out = passes.simulated_pass, passes.held_out_pass
    evidence, class_scores = clf._choose_kinds(clf.dictionary_)
    if clf.rule != "calibrated":
        simulated, held_out = (
            rows.label_by_residual() if isinstance(rows, CrossTest) else rows for rows in (simulated, held_out)
        )
    calibration = conclude(
        passes.known, simulated, held_out, count_atoms(clf.dictionary_), rule=clf.rule, evidence=evidence,
        tail_size=clf.tail_size, weight=0.0 if clf.rule == "matched" else weight,
        class_fusion=passes.class_fusion if clf.rule == "calibrated" else None,
    )  # fmt: skip
    same = clf.rule == clf.rule_ or clf._class_scores == class_scores
    clf.rule_, clf.label_by_ = clf.rule, clf.label_by if clf.rule == "calibrated" else "residual"
    clf._adopt(clf.dictionary_, calibration, class_scores, clf._scorer if same else None)

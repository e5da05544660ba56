"""The methods of the accuracy benchmark: our rules, their single kinds of evidence, and the rivals.

Each takes a trial and predicts the test samples. None sees an unknown sample before that; all with a threshold aim at
the same rejection of known samples. A method is a function from a trial and a `Setting` to `Answers`, listed by name in
`METHODS`; one fit may answer under several names.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.trials import UNKNOWN, Trial
from srosr import open_set_methods
from srosr.metrics.accuracy import open_set_accuracy
from srosr.metrics.f_measure import open_set_f_measure
from srosr.metrics.oscr import oscr_area
from srosr.metrics.ranking import fpr_at_tpr, open_set_auroc
from srosr.metrics.unknown_classes import openness

TARGET_REJECTION = 0.05
"""Share of known samples that every method with a threshold aims to reject."""
EVIDENCE = "evidence "
"""Prefix of the names of single kinds of evidence."""
PAPER_YALEB = {"tail_size": 0.10, "threshold": 0.007, "openness": openness(10, 10, 38)}
"""The paper's parameters on Extended Yale B, in addition to epsilon = 0.001."""


@dataclass(frozen=True)
class Setting:
    """Settings of a run for all methods: random seed, threads, repeats of cross-testing, and the share of errors in a
    tail of the paper's rules."""

    seed: int = 0
    n_jobs: int | None = None
    n_repeats: int | None = None
    tail_size: float = 0.25

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the settings as keyword arguments of our classifier."""
        fixed = {"random_state": self.seed, "n_jobs": self.n_jobs}
        return fixed if self.n_repeats is None else fixed | {"n_repeats": self.n_repeats}


@dataclass(frozen=True)
class Answers:
    """A method's answers for the test samples of a trial.

    Attributes
    ----------
    candidate : ndarray
        The class of each sample before rejection.
    unknown_score : ndarray
        Larger means more likely unknown.
    label : ndarray or None
        A class or `UNKNOWN`; None for a score without a threshold.
    fit_seconds, predict_seconds : float or None
    """

    candidate: NDArray
    unknown_score: NDArray[np.float64]
    label: NDArray | None = None
    fit_seconds: float | None = None
    predict_seconds: float | None = None


Method = Callable[[Trial, Setting], dict[str, Answers]]


def assess(trial: Trial, answers: Answers) -> dict[str, float | None]:
    """Return the metrics of a method's answers; those that need a threshold are None without one."""
    true, known = trial.y_test, ~trial.is_unknown
    out: dict[str, float | None] = {
        "auroc": open_set_auroc(true, answers.unknown_score, unknown_label=UNKNOWN),
        "oscr": oscr_area(true, answers.candidate, answers.unknown_score, unknown_label=UNKNOWN),
        "fpr95": fpr_at_tpr(true, answers.unknown_score, unknown_label=UNKNOWN, tpr=0.95, positive="known"),
        "closed_accuracy": float(np.mean(answers.candidate[known] == true[known])),
        "f": None,
        "f_macro": None,
        "accuracy": None,
        "false_rejection": None,
    }
    if answers.label is not None:
        out["f"] = open_set_f_measure(true, answers.label, unknown_label=UNKNOWN)
        out["f_macro"] = open_set_f_measure(true, answers.label, unknown_label=UNKNOWN, variant="macro")
        out["accuracy"] = open_set_accuracy(true, answers.label, unknown_label=UNKNOWN)
        out["false_rejection"] = float(np.mean(answers.label[known] == UNKNOWN))
    return out | {"fit_seconds": answers.fit_seconds, "predict_seconds": answers.predict_seconds}


# -- ours ------------------------------------------------------------------------------------------------


def recognizer(**parameters: Any) -> Any:
    """Return our classifier."""
    from srosr import SROSRClassifier

    return SROSRClassifier(**parameters)


def directions() -> dict[str, int]:
    """Return 1 for each kind of evidence that is larger for unknown samples, -1 for one that is smaller."""
    from srosr.scoring.fusion import DIRECTION

    return dict(DIRECTION)


def _recognize(trial: Trial, **parameters: Any) -> tuple[Any, Answers]:
    """Fit our classifier; return it and its answers."""
    clf = recognizer(**parameters)
    return clf, _answers(clf, trial)


def _answers(clf: Any, trial: Trial) -> Answers:
    """Fit a classifier and return its answers."""
    started = time.perf_counter()
    clf.fit(trial.X, trial.y)
    fitted = time.perf_counter()
    label = np.asarray(clf.predict(trial.X_test))
    ended = time.perf_counter()
    label = np.where(label == clf.unknown_label_, UNKNOWN, label)
    candidate, score = np.asarray(clf.candidate(trial.X_test)), np.asarray(clf.unknown_score(trial.X_test))
    return Answers(candidate, score, label, fitted - started, ended - fitted)


def calibrated(trial: Trial, setting: Setting) -> dict[str, Answers]:
    """Run our default rule."""
    _, answers = _recognize(trial, target_rejection=TARGET_REJECTION, **setting.parameters)
    return {"calibrated": answers}


def calibrated_and_evidence(trial: Trial, setting: Setting) -> dict[str, Answers]:
    """Run our default rule, each kind of evidence alone, and the paper's rules, all from one fit.

    The paper's tails are fitted to the same cross-test for every rule, so a separate fit would give the same.
    """
    clf, answers = _recognize(trial, target_rejection=TARGET_REJECTION, **setting.parameters)
    out, table, sign = {"calibrated": answers}, clf.evidence(trial.X_test), directions()
    for name in clf.evidence_names_:
        values = sign[name] * np.asarray(table[name], dtype=np.float64)
        out[EVIDENCE + name] = Answers(answers.candidate, values)
    if clf.calibration_.tails is not None:
        tails = _tails(clf, setting.tail_size)
        out["paper"] = _by_tails(clf, tails, trial, answers)
        out["matched"] = _by_tails(clf, replace(tails, weight=0.0), trial, answers)
    return out


def _tails(clf: Any, tail_size: float) -> Any:
    """Fit the tails to the same cross-test with another share of the errors."""
    from srosr.scoring.calibration import count_atoms
    from srosr.scoring.decision_rules import fit_tails

    calibration = clf.calibration_
    return fit_tails(calibration.known, count_atoms(clf.dictionary_), tail_size, calibration.tails.weight)


def _by_tails(clf: Any, rule: Any, trial: Trial, shared: Answers) -> Answers:
    """Return the answers of the same fit under one of the paper's rules."""
    other, passes = copy.copy(clf), clf.calibration_
    other.calibration_ = replace(
        passes,
        rule=rule,
        simulated_pass=passes.simulated.label_by_residual(),
        held_out_pass=passes.held_out.label_by_residual(),
    )
    other.label_by_ = "residual"
    other.set_threshold(target_rejection=TARGET_REJECTION)
    label = np.asarray(other.predict(trial.X_test))
    label = np.where(label == other.unknown_label_, UNKNOWN, label)
    candidate, score = np.asarray(other.candidate(trial.X_test)), np.asarray(other.unknown_score(trial.X_test))
    return Answers(candidate, score, label, shared.fit_seconds, shared.predict_seconds)


def paper(trial: Trial, setting: Setting) -> dict[str, Answers]:
    """Run the paper's rule: both tails of the class, weighted."""
    return {"paper": _recognize(trial, rule="paper", **_paper_parameters(setting))[1]}


def matched(trial: Trial, setting: Setting) -> dict[str, Answers]:
    """Run the paper's rule on the matched tail alone."""
    return {"matched": _recognize(trial, rule="matched", **_paper_parameters(setting))[1]}


def _paper_parameters(setting: Setting) -> dict[str, Any]:
    return {"target_rejection": TARGET_REJECTION, "tail_size": setting.tail_size, **setting.parameters}


def _paper_yaleb(rule: str) -> Method:
    def method(trial: Trial, setting: Setting) -> dict[str, Answers]:
        from srosr import BPDN

        fixed = {"problem": BPDN(0.001), "n_repeats": 50} | PAPER_YALEB | setting.parameters
        return {rule: _recognize(trial, rule=rule, **fixed)[1]}

    return method


# -- rivals ----------------------------------------------------------------------------------------------


def _rival(name: str) -> Method:
    """Return a method that runs a rival with its defaults, on samples of unit length like ours."""

    def method(trial: Trial, setting: Setting) -> dict[str, Answers]:
        clf = open_set_methods()[name]
        fixed = {"normalize": True, "target_rejection": TARGET_REJECTION} | setting.parameters
        clf.set_params(**{key: value for key, value in fixed.items() if key in clf.get_params()})
        return {name: _answers(clf, trial)}

    return method


RIVALS = tuple(name for name in open_set_methods() if name not in ("calibrated", "paper", "matched"))
"""Names of the rivals."""

METHODS: dict[str, Method] = {
    "calibrated": calibrated,
    "evidence": calibrated_and_evidence,
    "paper": paper,
    "matched": matched,
    **{name: _rival(name) for name in RIVALS},
}
"""Methods by the names of the command line; "evidence" answers for "calibrated", "paper" and "matched" too."""

PAPER_METHODS: dict[str, Method] = {"paper": _paper_yaleb("paper"), "matched": _paper_yaleb("matched")}
"""The paper's rules at the paper's own setting of Extended Yale B."""


def methods_to_fit(names: list[str]) -> list[str]:
    """Return the methods to fit for ``names``, without those of ours that "evidence" already covers."""
    return [name for name in names if not (name in ("calibrated", "paper", "matched") and "evidence" in names)]

"""One trial of an experiment: draw it, fit every method that is asked for, measure at every openness.

A trial runs in a worker process, on one thread, and depends on nothing but protocol, data set, seed and its number:
where it runs, and what ran there before, does not change a bit of what it finds.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .._support.array_types import AnyArray, Array
from ..classifiers import SROSRClassifier
from ..coding import coding_seconds
from ..datasets import Dataset
from ..exceptions import CalibrationWarning
from ..metrics import (
    fpr_at_tpr,
    open_set_accuracy,
    open_set_auroc,
    open_set_confusion,
    open_set_f_measure,
    oscr_area,
    recognition_accuracy,
    rejection_accuracy,
)
from .protocol import UNKNOWN, MethodSetting, Protocol, Source, Trial
from .trial_methods import Contender, MetSamples, Said, fit_together, sharing
from .worker_task import NotHere, reason_of

__all__ = ["METRICS", "TARGETS", "Work", "run_trial"]

#: Metrics of the results, in the order of the tables.
METRICS = (
    "f",
    "accuracy",
    "recognition_accuracy",
    "rejection_accuracy",
    "known_refused",
    "closed_set_accuracy",
    "auroc",
    "oscr",
    "fpr95",
    "f_macro",
)
#: Rates of false rejection at which thresholds and coverage are looked at.
TARGETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
#: Methods whose errors and confusion the report draws, of the first trial.
PORTRAYED = ("calibrated", "paper")

Record = dict[str, Any]


@dataclass(frozen=True)
class Work:
    """What all trials of a run have in common.

    Attributes
    ----------
    protocol : Protocol
    seed : int
    fingerprint : str
        Of the data set: a machine that finds other data says so.
    """

    protocol: Protocol
    seed: int
    fingerprint: str


def run_trial(work: Work, number: int, methods: tuple[str, ...]) -> list[tuple[Record, Record]]:
    """Record and times of each method on one trial. A method that fails leaves the others alone.

    Parameters
    ----------
    work : Work
    number : int
        Of the trial.
    methods : tuple of str
        Names of the protocol's methods.

    Raises
    ------
    NotHere
        If this machine does not have the data set of the run.
    """
    protocol = work.protocol
    dataset = _dataset(protocol, work.fingerprint)
    with threadpool_limits(1):
        trial = protocol.draw(dataset, number, work.seed)
        X, X_test = protocol.prepared(*_features(protocol, dataset, trial, work.seed))
        test = MetSamples(X_test)
        found: dict[str, tuple[Record, Record]] = {}
        for group in sharing([protocol.method(name) for name in methods]):
            found |= _run_group(group, trial, X, test, _method_seed(work.seed, number), number, dataset)
    return [found[name] for name in methods]


#: The data set of the last trial of this process, its source and fingerprint: the next trial most often needs it again.
_kept: tuple[Source, str, Dataset] | None = None


def _dataset(protocol: Protocol, fingerprint: str) -> Dataset:
    global _kept
    if _kept is None or _kept[:2] != (protocol.data, fingerprint):
        try:
            dataset = protocol.dataset()
            found = dataset.fingerprint()
        except Exception as error:
            # Whoever gave out this trial has loaded it: the trial is not at fault.
            raise _without_data(protocol.data, f"cannot be loaded: {reason_of(error)}") from error
        if found != fingerprint:
            told = f"is not that of the run (fingerprint {found[:12]}, not {fingerprint[:12]})"
            raise _without_data(protocol.data, told)
        _kept = protocol.data, fingerprint, dataset
    return _kept[2]


def _without_data(source: Source, told: str) -> NotHere:
    """What to raise where the data set is missing, or another."""
    where = "in the folder that SROSR_DATA_DIR names there" if source.file is None else "under the same path"
    return NotHere(
        f"the data set {source.set or source.file} {told.rstrip('.')}. Every machine needs the same files, {where}."
    )


def _method_seed(seed: int, number: int) -> int:
    """The seed of the methods' own randomness, another one for every trial."""
    return int(np.random.default_rng([seed, number, 1]).integers(2**31))


def _features(protocol: Protocol, dataset: Dataset, trial: Trial, seed: int) -> tuple[Array, Array]:
    """Training and test samples as vectors; the vocabulary of pictures is learnt on the training pictures alone."""
    if not dataset.pictures:
        return tuple(np.asarray(dataset.X[rows], dtype=np.float64) for rows in (trial.train, trial.test))  # type: ignore[return-value]
    from ..features import SpatialPyramid

    pyramid = SpatialPyramid(**(protocol.features or {}), n_jobs=1, random_state=seed)
    try:
        X = pyramid.fit_transform(dataset.X[trial.train])
        return X, pyramid.transform(dataset.X[trial.test])
    except (OSError, ImportError) as error:
        raise _without_data(protocol.data, f"cannot be read: {reason_of(error)}") from error


def _run_group(
    group: list[MethodSetting], trial: Trial, X: Array, test: MetSamples, seed: int, number: int, dataset: Dataset
) -> dict[str, tuple[Record, Record]]:
    """The methods that share a fit."""
    out: dict[str, tuple[Record, Record]] = {}
    left = list(group)
    openness = trial.openness(trial.levels[-1])
    contenders = fit_together(group, X, trial.y_train, seed, openness)
    while left:
        setting = left[0]
        started, coded = time.perf_counter(), coding_seconds()
        moments = [math.nan, math.nan]
        record: Record = {"trial": number, "method": setting.name, "error": None, "values": [], "coverage": []}
        record["portrait"] = None
        with warnings.catch_warnings():
            # Nobody watches a worker, and who is warned of a fit that several share depends on who comes first.
            warnings.simplefilter("ignore")
            try:
                contender = next(contenders)
                moments[0] = time.perf_counter()
                contender.judge(test)
                moments[1] = time.perf_counter()
                record["values"] = _measured(contender, trial)
                record["coverage"] = _covered(contender, trial) if setting.coverage else []
                if number == 0 and setting.name in PORTRAYED:
                    record["portrait"] = _portrait(contender, trial, dataset)
            except Exception as error:
                record |= {"error": reason_of(error), "values": [], "coverage": [], "portrait": None}
                # What comes after it in the group gets a fit of its own.
                contenders = fit_together(group[len(group) - len(left) + 1 :], X, trial.y_train, seed, openness)
        times = {
            "trial": number,
            "method": setting.name,
            "fit": moments[0] - started,
            "predict": moments[1] - moments[0],
            "measure": time.perf_counter() - moments[1],
            "coding": coding_seconds() - coded,
        }
        out[setting.name] = record, times
        left.pop(0)
    return out


def _measured(contender: Contender, trial: Trial) -> list[list[Any]]:
    """Every metric at every openness."""
    out: list[list[Any]] = []
    for level in trial.levels:
        openness = trial.openness(level)
        contender.told(openness)
        met = trial.arrival <= level
        for metric, value in measure(trial.y_test[met], _met(contender.says(), met)).items():
            out.append([level, openness, metric, value])
    return out


def _met(said: Said, met: AnyArray) -> Said:
    return Said(said.candidate[met], said.score[met], said.refused[met])


def measure(y: AnyArray, said: Said) -> dict[str, float]:
    """The metrics of answers; ``y`` has `UNKNOWN` for strangers."""
    label = np.where(said.refused, UNKNOWN, said.candidate)
    known = y != UNKNOWN
    values = {
        "f": open_set_f_measure(y, label, unknown_label=UNKNOWN),
        "accuracy": open_set_accuracy(y, label, unknown_label=UNKNOWN),
        "recognition_accuracy": recognition_accuracy(y, label, unknown_label=UNKNOWN),
        "rejection_accuracy": rejection_accuracy(y, label, unknown_label=UNKNOWN),
        "known_refused": float(said.refused[known].mean()),
        "closed_set_accuracy": float((said.candidate[known] == y[known]).mean()),
        "auroc": open_set_auroc(y, said.score, unknown_label=UNKNOWN),
        "oscr": oscr_area(y, said.candidate, said.score, unknown_label=UNKNOWN),
        "fpr95": fpr_at_tpr(y, said.score, unknown_label=UNKNOWN, tpr=0.95, positive="known"),
        "f_macro": open_set_f_measure(y, label, unknown_label=UNKNOWN, variant="macro"),
    }
    return {name: float(values[name]) for name in METRICS}


def _covered(contender: Contender, trial: Trial) -> list[list[float]]:
    """What thresholds by a target rate come to, at the largest openness; the contender's own threshold stays."""
    clf, y, out = contender.clf, trial.y_test, []
    unknown, before = y == UNKNOWN, dict(clf._threshold_arguments)
    with warnings.catch_warnings():
        # That a small rate cannot be kept with few samples is what the figure shows.
        warnings.simplefilter("ignore", CalibrationWarning)
        try:
            for target in TARGETS:
                clf.set_threshold(target_rejection=target)
                said = contender.says()
                label = np.where(said.refused, UNKNOWN, said.candidate)
                values = (
                    target,
                    float(said.refused[~unknown].mean()),
                    float(said.refused[unknown].mean()),
                    float(open_set_f_measure(y, label, unknown_label=UNKNOWN)),
                    float(open_set_accuracy(y, label, unknown_label=UNKNOWN)),
                )
                out.append(list(values))
        finally:
            clf.set_threshold(**before)
    return out


def _portrait(contender: Contender, trial: Trial, dataset: Dataset) -> Record | None:
    """Errors, scores and confusion of one trial, for figures."""
    clf, errors = contender.clf, contender.errors()
    if errors is None or not isinstance(clf, SROSRClassifier):
        return None
    said = contender.says()
    label = np.where(said.refused, UNKNOWN, said.candidate)
    _, matrix = open_set_confusion(trial.y_test, label, unknown_label=UNKNOWN, classes=trial.known)
    rows = clf.calibration_.known
    unknown = trial.y_test == UNKNOWN

    def of(which: AnyArray) -> dict[str, list[float]]:
        return {
            "matched": errors[0][which].tolist(),
            "nonmatched": errors[1][which].tolist(),
            "score": said.score[which].tolist(),
        }

    return {
        "class_names": [dataset.class_names[c] for c in trial.known],
        "confusion": matrix.tolist(),
        "held_out": {
            "matched": rows.matched.tolist(),
            "nonmatched": (rows.nonmatched / (len(clf.classes_) - 1)).tolist(),
        },
        "test": {"known": of(~unknown), "unknown": of(unknown)},
        "threshold": float(clf.threshold_) if math.isfinite(clf.threshold_) else None,
        "score_name": "unknown score",
    }

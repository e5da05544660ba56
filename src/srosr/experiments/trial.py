"""One trial of an experiment: draw its samples, fit the requested methods, measure at every level of openness.

A trial runs in a worker process, on one thread. Its records depend on protocol, data set, seed and trial number alone,
to the last bit.
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
from ..classifiers.srosr_classifier import SROSRClassifier
from ..coding.encode import coding_seconds
from ..datasets.dataset import Dataset
from ..distributed.worker_task import UnfitWorkerError, describe_error
from ..exceptions import CalibrationWarning
from ..metrics.accuracy import open_set_accuracy, recognition_accuracy, rejection_accuracy
from ..metrics.confusion import open_set_confusion
from ..metrics.f_measure import open_set_f_measure
from ..metrics.oscr import oscr_area
from ..metrics.ranking import fpr_at_tpr, open_set_auroc
from .protocol import UNKNOWN, MethodSetting, Protocol, Source, Trial
from .trial_methods import FittedMethod, MethodPredictions, TrialSamples, fit_group, group_by_fit

#: Metrics of the results, in the order of the tables.
METRICS = (
    "f", "accuracy", "recognition_accuracy", "rejection_accuracy", "known_rejected", "closed_set_accuracy", "auroc",
    "oscr", "fpr95", "f_macro",
)  # fmt: skip
#: Target rates of false rejection for which thresholds are measured.
TARGETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
#: Methods whose errors and confusion in the first trial the report shows.
PORTRAYED = ("calibrated", "paper")

Record = dict[str, Any]


@dataclass(frozen=True)
class RunSettings:
    """The settings that all trials of a run share; workers detect different data by the fingerprint."""

    protocol: Protocol
    seed: int
    fingerprint: str


def run_trial(work: RunSettings, number: int, methods: tuple[str, ...]) -> list[tuple[Record, Record]]:
    """Return the record and the times of each method on one trial. A failure does not affect the other methods.

    Raises UnfitWorkerError if this machine does not have the data set of the run.
    """
    protocol = work.protocol
    dataset = _load_dataset(protocol, work.fingerprint)
    with threadpool_limits(1):
        trial = protocol.draw(dataset, number, work.seed)
        X, X_test = protocol.prepare_features(*_extract_features(protocol, dataset, trial, work.seed))
        test = TrialSamples(X_test)
        found: dict[str, tuple[Record, Record]] = {}
        for group in group_by_fit([protocol.find_method(name) for name in methods]):
            found |= _run_group(group, trial, X, test, _derive_method_seed(work.seed, number), number, dataset)
    return [found[name] for name in methods]


#: Source, fingerprint and data set of the last trial of this process; the next trial usually needs the same.
_cached: tuple[Source, str, Dataset] | None = None


def _load_dataset(protocol: Protocol, fingerprint: str) -> Dataset:
    global _cached
    if _cached is None or _cached[:2] != (protocol.data, fingerprint):
        try:
            dataset = protocol.load_dataset()
            found = dataset.fingerprint()
        except Exception as error:
            # The main process has loaded the data set, so this machine is at fault, not the trial.
            raise _make_data_error(protocol.data, f"cannot be loaded: {describe_error(error)}") from error
        if found != fingerprint:
            reason = f"is not that of the run (fingerprint {found[:12]}, not {fingerprint[:12]})"
            raise _make_data_error(protocol.data, reason)
        _cached = protocol.data, fingerprint, dataset
    return _cached[2]


def _make_data_error(source: Source, reason: str) -> UnfitWorkerError:
    """Return the exception for a data set that is missing or different on this machine."""
    where = "in the folder that SROSR_DATA_DIR names there" if source.file is None else "under the same path"
    return UnfitWorkerError(
        f"the data set {source.set or source.file} {reason.rstrip('.')}. Every machine needs the same files, {where}."
    )


def _derive_method_seed(seed: int, number: int) -> int:
    """Return the seed of the methods' random numbers, which differs between trials."""
    return int(np.random.default_rng([seed, number, 1]).integers(2**31))


def _extract_features(protocol: Protocol, dataset: Dataset, trial: Trial, seed: int) -> tuple[Array, Array]:
    """Return training and test vectors; the visual vocabulary is learned from the training pictures alone."""
    if not dataset.pictures:
        return tuple(np.asarray(dataset.X[rows], dtype=np.float64) for rows in (trial.train, trial.test))  # type: ignore[return-value]
    from ..features.spatial_pyramid import SpatialPyramid

    pyramid = SpatialPyramid(**(protocol.features or {}), n_jobs=1, random_state=seed)
    try:
        X = pyramid.fit_transform(dataset.X[trial.train])
        return X, pyramid.transform(dataset.X[trial.test])
    except (OSError, ImportError) as error:
        raise _make_data_error(protocol.data, f"cannot be read: {describe_error(error)}") from error


def _run_group(
    group: list[MethodSetting], trial: Trial, X: Array, test: TrialSamples, seed: int, number: int, dataset: Dataset
) -> dict[str, tuple[Record, Record]]:
    """Run the methods that share a fit and return their records and times by name."""
    out: dict[str, tuple[Record, Record]] = {}
    openness = trial.openness(trial.levels[-1])
    fitted = fit_group(group, X, trial.y_train, seed, openness)
    for position, setting in enumerate(group):
        started, coded = time.perf_counter(), coding_seconds()
        moments = [math.nan, math.nan]
        record: Record = {"trial": number, "method": setting.name, "error": None, "values": [], "coverage": []}
        record["portrait"] = None
        with warnings.catch_warnings():
            # A worker has no screen, and which method of a shared fit would warn depends on their order.
            warnings.simplefilter("ignore")
            try:
                method = next(fitted)
                moments[0] = time.perf_counter()
                method.predict(test)
                moments[1] = time.perf_counter()
                record["values"] = _measure_levels(method, trial)
                record["coverage"] = _measure_coverage(method, trial) if setting.coverage else []
                if number == 0 and setting.name in PORTRAYED:
                    record["portrait"] = _make_portrait(method, trial, dataset)
            except Exception as error:
                record |= {"error": describe_error(error), "values": [], "coverage": [], "portrait": None}
                # The methods after it in the group get a new fit.
                fitted = fit_group(group[position + 1 :], X, trial.y_train, seed, openness)
        times = {
            "trial": number,
            "method": setting.name,
            "fit": moments[0] - started,
            "predict": moments[1] - moments[0],
            "measure": time.perf_counter() - moments[1],
            "coding": coding_seconds() - coded,
        }
        out[setting.name] = record, times
    return out


def _measure_levels(method: FittedMethod, trial: Trial) -> list[list[Any]]:
    """Return [n_unknown, openness, metric, value] for every metric at every level of openness."""
    out: list[list[Any]] = []
    for level in trial.levels:
        openness = trial.openness(level)
        method.set_openness(openness)
        rows = trial.arrival <= level
        predictions = MethodPredictions(*(part[rows] for part in method.decide()))
        values = compute_metrics(trial.y_test[rows], predictions)
        out += [[level, openness, metric, value] for metric, value in values.items()]
    return out


def compute_metrics(y: AnyArray, predictions: MethodPredictions) -> dict[str, float]:
    """Return all metrics of predictions; ``y`` is `UNKNOWN` for unknown samples."""
    label = np.where(predictions.rejected, UNKNOWN, predictions.candidate)
    known = y != UNKNOWN
    values = {
        "f": open_set_f_measure(y, label, unknown_label=UNKNOWN),
        "accuracy": open_set_accuracy(y, label, unknown_label=UNKNOWN),
        "recognition_accuracy": recognition_accuracy(y, label, unknown_label=UNKNOWN),
        "rejection_accuracy": rejection_accuracy(y, label, unknown_label=UNKNOWN),
        "known_rejected": float(predictions.rejected[known].mean()),
        "closed_set_accuracy": float((predictions.candidate[known] == y[known]).mean()),
        "auroc": open_set_auroc(y, predictions.score, unknown_label=UNKNOWN),
        "oscr": oscr_area(y, predictions.candidate, predictions.score, unknown_label=UNKNOWN),
        "fpr95": fpr_at_tpr(y, predictions.score, unknown_label=UNKNOWN, tpr=0.95, positive="known"),
        "f_macro": open_set_f_measure(y, label, unknown_label=UNKNOWN, variant="macro"),
    }
    return {name: float(values[name]) for name in METRICS}


def _measure_coverage(method: FittedMethod, trial: Trial) -> list[list[float]]:
    """Return the results of thresholds for target rates at the largest openness; the method keeps its own threshold."""
    clf, y, out = method.clf, trial.y_test, []
    unknown, before = y == UNKNOWN, dict(clf._threshold_arguments)
    with warnings.catch_warnings():
        # The figure shows where few samples cannot keep a small rate.
        warnings.simplefilter("ignore", CalibrationWarning)
        try:
            for target in TARGETS:
                clf.set_threshold(target_rejection=target)
                predictions = method.decide()
                label = np.where(predictions.rejected, UNKNOWN, predictions.candidate)
                shares = [float(predictions.rejected[kind].mean()) for kind in (~unknown, unknown)]
                scores = [
                    float(score(y, label, unknown_label=UNKNOWN)) for score in (open_set_f_measure, open_set_accuracy)
                ]
                out.append([target, *shares, *scores])
        finally:
            clf.set_threshold(**before)
    return out


def _make_portrait(method: FittedMethod, trial: Trial, dataset: Dataset) -> Record | None:
    """Return errors, scores and confusion matrix of one trial, for figures."""
    clf, errors = method.clf, method.get_errors()
    if errors is None or not isinstance(clf, SROSRClassifier):
        return None
    predictions = method.decide()
    label = np.where(predictions.rejected, UNKNOWN, predictions.candidate)
    _, matrix = open_set_confusion(trial.y_test, label, unknown_label=UNKNOWN, classes=trial.known)
    rows = clf.calibration_.known
    nonmatched = rows.nonmatched / (len(clf.classes_) - 1)
    unknown = trial.y_test == UNKNOWN

    def describe(which: AnyArray) -> dict[str, list[float]]:
        parts = {"matched": errors[0], "nonmatched": errors[1], "score": predictions.score}
        return {name: values[which].tolist() for name, values in parts.items()}

    return {
        "class_names": [dataset.class_names[c] for c in trial.known],
        "confusion": matrix.tolist(),
        "held_out": {"matched": rows.matched.tolist(), "nonmatched": nonmatched.tolist()},
        "test": {"known": describe(~unknown), "unknown": describe(unknown)},
        "threshold": float(clf.threshold_) if math.isfinite(clf.threshold_) else None,
        "score_name": "unknown score",
    }

"""The parts of a state that all open set classifiers share: parameters, labels, dictionary and threshold."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from .._support.array_types import AnyArray
from ..classifiers.base import OpenSetClassifier
from ..classifiers.dictionary_classifier import DictionaryClassifier
from ..coding.problems import PROBLEMS, Problem
from ..dictionary.dictionary import Dictionary
from ..thresholds.choice import Threshold

#: No model of ours has numbers beyond this: their sums and products would not be finite.
LARGEST = 1e100
_DICTIONARY_PARAMETERS = ("kernel", "normalize", "gamma", "degree", "coef0")


# -- from a classifier -----------------------------------------------------------------------------------


def get_settings(clf: OpenSetClassifier) -> dict[str, Any]:
    """Return the parameters, the number of features, and how the threshold was chosen."""
    parameters = clf.get_params(deep=False)
    # The state of a random generator is not part of a fitted model.
    seed = parameters["random_state"]
    parameters["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    del parameters["unknown_label"]
    # Nor is the device: a model fitted on a GPU is read where there is none.
    parameters.pop("device", None)
    if isinstance(clf, DictionaryClassifier):
        if not isinstance(clf.dictionary_.kernel, str):
            raise ValueError(
                "a kernel that is a function cannot be saved, because files hold no code: choose a kernel by its name."
            )
        parameters["problem"] = None if clf.problem is None else get_problem_state(clf.problem)
        # Parameters may have been set since; what was fitted is saved.
        parameters |= {name: getattr(clf.dictionary_, name) for name in _DICTIONARY_PARAMETERS}
    threshold = clf.threshold_info_
    return {
        "parameters": {name: to_python(value) for name, value in parameters.items()},
        "n_features_in": int(clf.n_features_in_),
        "threshold": {"kind": threshold.kind, "detail": threshold.detail}
        | ({} if threshold.standard_error is None else {"standard_error": float(threshold.standard_error)}),
        "choice": {name: to_python(value) for name, value in clf._threshold_arguments.items()},
    }


def to_python(value: Any) -> Any:
    """Return a NumPy number as a Python number, anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def get_problem_state(problem: Problem) -> dict[str, Any]:
    """Return a coding problem as a JSON-serializable dict."""
    return {"name": type(problem).__name__, **asdict(problem)}


def get_arrays(clf: OpenSetClassifier) -> dict[str, AnyArray]:
    """Return the labels and thresholds."""
    threshold = clf.threshold_info_
    out: dict[str, AnyArray] = {
        "unknown_label": np.asarray(clf.unknown_label_),
        "threshold/value": np.asarray(threshold.value),
        "threshold/per_class": threshold.per_class,
    }
    if clf.unknown_label is not None:
        out["parameters/unknown_label"] = np.asarray(clf.unknown_label)
    if hasattr(clf, "feature_names_in_"):
        out["feature_names_in"] = np.asarray(clf.feature_names_in_)
    return out


def get_dictionary_arrays(d: Dictionary, *, gram: bool) -> dict[str, AnyArray]:
    """Return atoms and labels, and the Gram matrix if ``gram``, where it cannot be computed from them."""
    out: dict[str, AnyArray] = {
        "dictionary/values": d._values,
        "dictionary/scale": d._scale,
        "dictionary/labels": np.asarray(d.labels),
        "dictionary/order": np.asarray(d.order, dtype=np.int64),
    }
    return out | {"dictionary/gram": d.gram} if gram else out


# -- to a classifier --------------------------------------------------------------------------------------


def check(holds: bool, what: str) -> None:
    """Raise an error that names ``what`` is invalid in a model file unless ``holds``."""
    if not holds:
        raise ValueError(f"invalid {what} in model file.")


def require_count(value: Any) -> int:
    """Return a positive integer, checked."""
    check(isinstance(value, int) and not isinstance(value, bool) and value >= 1, "counts")
    return int(value)


def restore_problem(state: dict[str, Any]) -> Problem:
    """Rebuild a coding problem from its saved dict."""
    values = dict(state)
    return PROBLEMS[values.pop("name")](**values)


def restore_parameters(clf: OpenSetClassifier, settings: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
    """Restore the parameters, and the number and names of features."""
    parameters = dict(settings["parameters"])
    if isinstance(clf, DictionaryClassifier):
        parameters["problem"] = None if parameters["problem"] is None else restore_problem(parameters["problem"])
    if "parameters/unknown_label" in arrays:
        parameters["unknown_label"] = arrays["parameters/unknown_label"].item()
    known = clf.get_params(deep=False)
    # A parameter of a later version is ignored; one that the file does not have keeps its default.
    clf.set_params(**{name: value for name, value in parameters.items() if name in known})
    clf._check_parameters()
    clf.n_features_in_ = require_count(settings["n_features_in"])
    if "feature_names_in" in arrays:
        clf.feature_names_in_ = arrays["feature_names_in"]
        check(clf.feature_names_in_.shape == (clf.n_features_in_,), "feature names")


def restore_dictionary(clf: DictionaryClassifier, arrays: dict[str, AnyArray]) -> Dictionary:
    """Rebuild the dictionary of a classifier whose parameters have been restored."""
    if not isinstance(clf.kernel, str):
        raise ValueError("the kernel must be a name.")
    values, scale, labels, order = (arrays[f"dictionary/{name}"] for name in ("values", "scale", "labels", "order"))
    n_features = clf.n_features_in_ if clf.kernel != "precomputed" else len(scale)
    parameters = {name: getattr(clf, name) for name in _DICTIONARY_PARAMETERS}
    return Dictionary._rebuild(values, scale, labels, order, arrays.get("dictionary/gram"), n_features, **parameters)


def restore_decision(
    clf: OpenSetClassifier, classes: AnyArray, settings: dict[str, Any], arrays: dict[str, AnyArray]
) -> None:
    """Restore the classes, the unknown label and the thresholds."""
    check(classes.ndim == 1 and len(classes) >= 2, "classes")
    clf.classes_ = classes
    clf.unknown_label_ = arrays["unknown_label"].item()
    check(clf.unknown_label_ not in classes.tolist(), "unknown label")
    clf._threshold_arguments = dict(settings["choice"])
    value, per_class = arrays["threshold/value"], arrays["threshold/per_class"]
    check(value.shape == () and per_class.shape == (len(classes),), "thresholds")
    lowest, highest = clf.score_range
    check(bool(((per_class >= lowest) & (per_class <= highest)).all() and lowest <= value <= highest), "thresholds")
    words = settings["threshold"]
    error = words.get("standard_error")
    check(error is None or (isinstance(error, float) and 0.0 <= error < LARGEST), "standard error")
    clf.threshold_info_ = Threshold(float(value), per_class, str(words["kind"]), str(words["detail"]), error)
    clf.threshold_, clf.thresholds_ = clf.threshold_info_.value, per_class

"""What the states of all open set classifiers have in common: parameters, labels, dictionary and threshold."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from .._support.array_types import AnyArray
from ..classifiers import DictionaryClassifier, OpenSetClassifier
from ..coding import PROBLEMS, Problem
from ..dictionary import Dictionary
from ..thresholds import Threshold

__all__ = [
    "LARGEST",
    "count",
    "dictionary_arrays",
    "expect",
    "plain",
    "problem_of",
    "problem_state",
    "restore_decision",
    "restore_parameters",
    "restored_dictionary",
    "shared_arrays",
    "shared_settings",
]

#: Numbers beyond this are no model of ours: sums and products of them would not be finite.
LARGEST = 1e100
_OF_DICTIONARY = ("kernel", "normalize", "gamma", "degree", "coef0")


# -- from a classifier -----------------------------------------------------------------------------------


def shared_settings(clf: OpenSetClassifier) -> dict[str, Any]:
    """Parameters, number of features, and how the threshold was chosen."""
    parameters = clf.get_params(deep=False)
    # What a generator would draw next is no part of a fitted model.
    seed = parameters["random_state"]
    parameters["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    del parameters["unknown_label"]
    if isinstance(clf, DictionaryClassifier):
        if not isinstance(clf.dictionary_.kernel, str):
            raise ValueError(
                "a kernel that is a function cannot be saved: files hold nothing that runs. Name a kernel."
            )
        parameters["problem"] = None if clf.problem is None else problem_state(clf.problem)
        # Parameters may have been set since; the model is what was fitted.
        parameters |= {name: getattr(clf.dictionary_, name) for name in _OF_DICTIONARY}
    threshold = clf.threshold_info_
    return {
        "parameters": {name: plain(value) for name, value in parameters.items()},
        "n_features_in": int(clf.n_features_in_),
        "threshold": {"kind": threshold.kind, "detail": threshold.detail},
        "choice": {name: plain(value) for name, value in clf._threshold_arguments.items()},
    }


def plain(value: Any) -> Any:
    """A NumPy number as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def problem_state(problem: Problem) -> dict[str, Any]:
    """A coding problem as values."""
    return {"name": type(problem).__name__, **asdict(problem)}


def shared_arrays(clf: OpenSetClassifier) -> dict[str, AnyArray]:
    """Labels and thresholds."""
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


def dictionary_arrays(d: Dictionary, *, gram: bool) -> dict[str, AnyArray]:
    """Atoms and labels; the Gram matrix where it cannot be had from them."""
    out: dict[str, AnyArray] = {
        "dictionary/values": d._values,
        "dictionary/scale": d._scale,
        "dictionary/labels": np.asarray(d.labels),
        "dictionary/order": np.asarray(d.order, dtype=np.int64),
    }
    return out | {"dictionary/gram": d.gram} if gram else out


# -- back to one -----------------------------------------------------------------------------------------


def expect(holds: bool, what: str) -> None:
    """Refuse what makes no sense."""
    if not holds:
        raise ValueError(f"the {what} in it make no sense.")


def count(value: Any) -> int:
    """A number of things."""
    expect(isinstance(value, int) and not isinstance(value, bool) and value >= 1, "counts")
    return int(value)


def problem_of(state: dict[str, Any]) -> Problem:
    """What :func:`problem_state` was given."""
    values = dict(state)
    return PROBLEMS[values.pop("name")](**values)


def restore_parameters(clf: OpenSetClassifier, settings: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
    """Parameters, number and names of features."""
    parameters = dict(settings["parameters"])
    if isinstance(clf, DictionaryClassifier):
        parameters["problem"] = None if parameters["problem"] is None else problem_of(parameters["problem"])
    if "parameters/unknown_label" in arrays:
        parameters["unknown_label"] = arrays["parameters/unknown_label"].item()
    known = clf.get_params(deep=False)
    # A parameter of a later version is none of ours; one it did not have keeps its default.
    clf.set_params(**{name: value for name, value in parameters.items() if name in known})
    clf._check_parameters()
    clf.n_features_in_ = count(settings["n_features_in"])
    if "feature_names_in" in arrays:
        clf.feature_names_in_ = arrays["feature_names_in"]
        expect(clf.feature_names_in_.shape == (clf.n_features_in_,), "feature names")


def restored_dictionary(clf: DictionaryClassifier, arrays: dict[str, AnyArray]) -> Dictionary:
    """The dictionary of a classifier whose parameters have been restored."""
    if not isinstance(clf.kernel, str):
        raise ValueError("the kernel has no name.")
    return Dictionary._rebuild(
        arrays["dictionary/values"],
        arrays["dictionary/scale"],
        arrays["dictionary/labels"],
        arrays["dictionary/order"],
        arrays.get("dictionary/gram"),
        clf.n_features_in_ if clf.kernel != "precomputed" else len(arrays["dictionary/scale"]),
        kernel=clf.kernel,
        normalize=clf.normalize,
        gamma=clf.gamma,
        degree=clf.degree,
        coef0=clf.coef0,
    )


def restore_decision(
    clf: OpenSetClassifier, classes: AnyArray, settings: dict[str, Any], arrays: dict[str, AnyArray]
) -> None:
    """Classes, the label of what is none of them, and thresholds."""
    expect(classes.ndim == 1 and len(classes) >= 2, "classes")
    clf.classes_ = classes
    clf.unknown_label_ = arrays["unknown_label"].item()
    expect(clf.unknown_label_ not in classes.tolist(), "unknown label")
    clf._threshold_arguments = dict(settings["choice"])
    value, per_class = arrays["threshold/value"], arrays["threshold/per_class"]
    expect(value.shape == () and per_class.shape == (len(classes),), "thresholds")
    lowest, highest = clf.score_range
    expect(bool(((per_class >= lowest) & (per_class <= highest)).all() and lowest <= value <= highest), "thresholds")
    words = settings["threshold"]
    clf.threshold_info_ = Threshold(float(value), per_class, str(words["kind"]), str(words["detail"]))
    clf.threshold_, clf.thresholds_ = clf.threshold_info_.value, per_class

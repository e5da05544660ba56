"""Fitted rivals as values and arrays, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from .._types import AnyArray
from ..base import OpenSetClassifier
from ..coding.workers import one_blas_thread
from ..model_state import (
    LARGEST,
    dictionary_arrays,
    expect,
    plain,
    problem_of,
    problem_state,
    restore_decision,
    restore_parameters,
    restored_dictionary,
    shared_arrays,
    shared_settings,
)
from ..modelfile import ModelState
from ..thresholds import HeldOutScores
from . import RIVALS
from .cross_fitted import CrossFittedClassifier, Model
from .rejection import SparseRejection

__all__ = ["KINDS", "restored", "state_of"]

#: Classifiers by the names they have in files.
KINDS: dict[str, type[OpenSetClassifier]] = {rival.__name__: rival for rival in RIVALS}
_HELD_OUT = ("scores", "candidate", "truth", "simulated", "stranger", "right")


def state_of(clf: OpenSetClassifier) -> ModelState:
    """The state of a fitted rival."""
    if KINDS.get(type(clf).__name__) is not type(clf):
        raise ValueError(f"a {type(clf).__name__} cannot be saved: files hold classifiers of srosr itself.")
    settings, arrays = shared_settings(clf), shared_arrays(clf)
    arrays |= {f"held_out/{name}": getattr(clf._held_out_scores(), name) for name in _HELD_OUT}
    if isinstance(clf, SparseRejection):
        settings["problem"] = problem_state(clf.problem_)
        arrays |= dictionary_arrays(clf.dictionary_, gram=clf.dictionary_.is_precomputed)
    else:
        assert isinstance(clf, CrossFittedClassifier)
        settings["tuned"] = {name: plain(value) for name, value in clf.tuned_.items()}
        settings["numbers"] = {}
        arrays["classes"] = clf.classes_
        if clf.samples_ is not None:
            arrays["samples"] = clf.samples_
        for f in fields(clf.model_):
            value = getattr(clf.model_, f.name)
            if isinstance(value, np.ndarray):
                arrays[f"model/{f.name}"] = value
            else:
                settings["numbers"][f.name] = plain(value)
    return ModelState(type(clf).__name__, settings, arrays)


def restored(kind: str, settings: dict[str, Any], arrays: dict[str, AnyArray]) -> OpenSetClassifier:
    """The rival of a state."""
    clf = KINDS[kind]()
    restore_parameters(clf, settings, arrays)
    if isinstance(clf, SparseRejection):
        clf.problem_ = problem_of(settings["problem"])
        clf.dictionary_ = restored_dictionary(clf, arrays)
        with one_blas_thread():
            _ = clf.dictionary_.gram
        restore_decision(clf, np.asarray(clf.dictionary_.classes_), settings, arrays)
        clf._held_out = _held_out(clf, arrays)
        return clf
    assert isinstance(clf, CrossFittedClassifier)
    classes = arrays["classes"]
    expect(classes.ndim == 1 and len(np.unique(classes)) == len(classes), "classes")
    restore_decision(clf, classes, settings, arrays)
    clf.tuned_ = dict(settings["tuned"])
    clf._held_out = _held_out(clf, arrays)
    clf.samples_ = arrays.get("samples")
    if clf.samples_ is not None:
        expect(clf.samples_.ndim == 2 and clf.samples_.shape[1] == clf.n_features_in_, "samples")
        expect(len(clf.samples_) > 0 and _are_numbers(clf.samples_), "samples")
    clf.model_ = _model(clf, settings, arrays)
    return clf


def _model(clf: CrossFittedClassifier, settings: dict[str, Any], arrays: dict[str, AnyArray]) -> Model:
    """The learnt model: numbers that make sense, and shapes in which it can judge a sample."""
    values: dict[str, Any] = {}
    for f in fields(clf.model_type):
        if f"model/{f.name}" in arrays:
            values[f.name] = arrays[f"model/{f.name}"]
            expect(_are_numbers(values[f.name]), f.name)
        else:
            values[f.name] = settings["numbers"][f.name]
            expect(isinstance(values[f.name], (int, float)) and abs(values[f.name]) < LARGEST, f.name)
    if clf.samples_ is None:  # nothing is allocated for features that no array of the file has room for
        sizes = {n for value in values.values() if isinstance(value, np.ndarray) for n in value.shape}
        expect(clf.n_features_in_ in sizes, "features")
    model = clf.model_type(**values)
    expect(model.is_sound(len(clf.classes_)), "numbers of the model")
    # Two samples, for their shapes: the features in a file may be of any size.
    with one_blas_thread(), np.errstate(all="ignore"):
        related = clf._related(np.zeros((2, clf.n_features_in_)), clf.samples_)
        candidate, scores, class_scores = model.judge(related)
    expect(candidate.shape == scores.shape == (2,) and class_scores.shape == (2, len(clf.classes_)), "shapes")
    expect(candidate.dtype.kind == "i" and candidate.min() >= 0 and candidate.max() < len(clf.classes_), "classes")
    return model


def _are_numbers(values: AnyArray) -> bool:
    """Whether an array is of the types a model has; infinite values may be the ends of a scale."""
    if values.dtype == np.float64:
        return not bool(np.isnan(values).any())
    return values.dtype in (np.dtype(np.int64), np.dtype(np.bool_))


def _held_out(clf: OpenSetClassifier, arrays: dict[str, AnyArray]) -> HeldOutScores:
    parts: dict[str, Any] = {name: arrays[f"held_out/{name}"] for name in _HELD_OUT}
    n, m = len(parts["scores"]), len(parts["simulated"])
    for name, dtype in zip(_HELD_OUT, ("f8", "i8", "i8", "f8", "?", "?"), strict=True):
        length = n if name in ("scores", "candidate", "truth") else m
        expect(parts[name].shape == (length,) and parts[name].dtype == np.dtype(dtype), "held-out scores")
    for name in ("candidate", "truth"):
        expect(n == 0 or (parts[name].min() >= 0 and parts[name].max() < len(clf.classes_)), "held-out samples")
    expect(not (np.isnan(parts["scores"]).any() or np.isnan(parts["simulated"]).any()), "held-out scores")
    lowest, highest = clf.score_range
    return HeldOutScores(**parts, lowest=lowest, highest=highest)

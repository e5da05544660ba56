"""The states of fitted rivals as values and arrays, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from .._support.array_types import AnyArray
from .._support.threads import one_blas_thread
from ..classifiers.base import OpenSetClassifier
from ..coding.batch import gram_wanted
from ..rivals.cross_fitted import CrossFittedClassifier, Model, Shape
from ..rivals.methods import RIVALS
from ..rivals.sparse_rejection import SparseRejection
from ..scoring.held_out_scores import HeldOutScores
from . import classifier_state as shared
from .classifier_state import LARGEST, check
from .file_format import ModelState

#: Classifiers by their names in files.
KINDS: dict[str, type[OpenSetClassifier]] = {rival.__name__: rival for rival in RIVALS}
# Arrays of models that do not hold floating-point numbers.
_TYPES: dict[str, type] = {"members": np.int64, "short": np.bool_}
# Arrays of the held-out scores by their names in files, which keep the word of format version 1.
_HELD_OUT = {name: name for name in ("scores", "candidate", "truth", "simulated")}
_HELD_OUT |= {"stranger": "unknown", "right": "right"}


def get_state(clf: OpenSetClassifier) -> ModelState:
    """Return the state of a fitted rival."""
    if KINDS.get(type(clf).__name__) is not type(clf):
        raise ValueError(f"a {type(clf).__name__} cannot be saved: model files hold only classifiers of srosr.")
    settings, arrays = shared.get_settings(clf), shared.get_arrays(clf)
    arrays |= {f"held_out/{name}": getattr(clf._held_out_scores(), field) for name, field in _HELD_OUT.items()}
    if isinstance(clf, SparseRejection):
        settings["problem"] = shared.get_problem_state(clf.problem_)
        arrays |= shared.get_dictionary_arrays(clf.dictionary_, gram=clf.dictionary_.is_precomputed)
    else:
        assert isinstance(clf, CrossFittedClassifier)
        _check_declared(clf)
        settings["parameters"] |= clf._get_fitted_parameters()
        settings["tuned"] = {name: shared.to_python(value) for name, value in clf.tuned_.items()}
        settings["numbers"] = {}
        arrays["classes"] = clf.classes_
        if clf.samples_ is not None:
            arrays["samples"] = clf.samples_
        for f in fields(clf.model_):
            value = getattr(clf.model_, f.name)
            if isinstance(value, np.ndarray):
                arrays[f"model/{f.name}"] = value
            else:
                settings["numbers"][f.name] = shared.to_python(value)
    return ModelState(type(clf).__name__, settings, arrays)


def _check_declared(clf: CrossFittedClassifier) -> None:
    """Check that what is written can be read: a model must declare its type and the shapes of its arrays."""
    name, model = type(clf).__name__, clf.model_
    if type(model) is not getattr(clf, "model_type", None):
        raise TypeError(f"{name}.model_type must be {type(model).__name__}, the type of its models, to save one.")
    arrays = {f.name for f in fields(model) if isinstance(getattr(model, f.name), np.ndarray)}
    if arrays != set(model.shapes):
        raise TypeError(f"{type(model).__name__}.shapes must have the arrays {', '.join(sorted(arrays))}, to save one.")


def restore(kind: str, settings: dict[str, Any], arrays: dict[str, AnyArray]) -> OpenSetClassifier:
    """Rebuild the rival of a state."""
    clf = KINDS[kind]()
    shared.restore_parameters(clf, settings, arrays)
    if isinstance(clf, SparseRejection):
        clf.problem_ = shared.restore_problem(settings["problem"])
        clf.dictionary_ = shared.restore_dictionary(clf, arrays)
        if gram_wanted(clf.dictionary_, clf.problem_):
            with one_blas_thread():
                _ = clf.dictionary_.gram
        shared.restore_decision(clf, np.asarray(clf.dictionary_.classes_), settings, arrays)
        clf._held_out = _restore_held_out(clf, arrays)
        return clf
    assert isinstance(clf, CrossFittedClassifier)
    classes = arrays["classes"]
    check(classes.ndim == 1 and len(np.unique(classes)) == len(classes), "classes")
    shared.restore_decision(clf, classes, settings, arrays)
    clf.tuned_, clf._normalize = dict(settings["tuned"]), bool(clf.normalize)
    clf._held_out = _restore_held_out(clf, arrays)
    clf.samples_ = arrays.get("samples")
    if clf.samples_ is not None:
        check(clf.samples_.ndim == 2 and clf.samples_.shape[1] == clf.n_features_in_, "samples")
        check(len(clf.samples_) > 0 and clf.samples_.dtype == np.float64 and _are_numbers(clf.samples_), "samples")
    clf.model_ = _restore_model(clf, settings, arrays)
    return clf


def _restore_model(clf: CrossFittedClassifier, settings: dict[str, Any], arrays: dict[str, AnyArray]) -> Model:
    """Rebuild the learned model after checking the shapes of its arrays and all its numbers."""
    n_columns = clf.n_features_in_ if clf.samples_ is None else len(clf.samples_)
    n_classes, shapes = len(clf.classes_), clf.model_type.shapes
    sizes = {"classes": n_classes, "pairs": n_classes * (n_classes - 1) // 2, "columns": n_columns}
    values: dict[str, Any] = {}
    for f in fields(clf.model_type):
        if f.name in shapes:
            values[f.name] = arrays[f"model/{f.name}"]
            check(values[f.name].dtype == _TYPES.get(f.name, np.float64), f.name)
            check(_has_shape(values[f.name].shape, shapes[f.name], sizes) and _are_numbers(values[f.name]), f.name)
        else:
            values[f.name] = settings["numbers"][f.name]
            right = isinstance(values[f.name], (int, float)) and not isinstance(values[f.name], bool)
            check(right and abs(values[f.name]) < LARGEST, f.name)
    model = clf.model_type(**values)
    check(model.is_sound(n_classes), "numbers of the model")
    return model


def _has_shape(shape: tuple[int, ...], allowed: Shape, sizes: dict[Any, int]) -> bool:
    """Return whether a shape is one of those allowed, where −1 is any length and a name one of the sizes."""
    choices = [tuple(sizes.get(n, n) for n in c) for c in (allowed if isinstance(allowed, list) else [allowed])]
    return any(len(shape) == len(c) and all(n in (m, -1) for m, n in zip(shape, c, strict=True)) for c in choices)


def _are_numbers(values: AnyArray) -> bool:
    """Return whether all numbers of an array are finite, and small enough for finite products."""
    return values.dtype.kind == "b" or bool((np.abs(values) < LARGEST).all())


def _restore_held_out(clf: OpenSetClassifier, arrays: dict[str, AnyArray]) -> HeldOutScores:
    parts: dict[str, Any] = {name: arrays[f"held_out/{name}"] for name in _HELD_OUT}
    n, m = len(parts["scores"]), len(parts["simulated"])
    for name, dtype in zip(_HELD_OUT, ("f8", "i8", "i8", "f8", "?", "?"), strict=True):
        length = n if name in ("scores", "candidate", "truth") else m
        check(parts[name].shape == (length,) and parts[name].dtype == np.dtype(dtype), "held-out scores")
    for name in ("candidate", "truth"):
        check(n == 0 or (parts[name].min() >= 0 and parts[name].max() < len(clf.classes_)), "held-out samples")
    lowest, highest = clf.score_range
    for name in ("scores", "simulated"):
        check(bool(((parts[name] >= lowest) & (parts[name] <= highest)).all()), "held-out scores")
    return HeldOutScores(**{_HELD_OUT[name]: part for name, part in parts.items()}, lowest=lowest, highest=highest)

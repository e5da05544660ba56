"""A fitted recogniser as a model file, and back. What a file may hold is in :mod:`srosr.modelfile`."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from ._types import AnyArray
from .calibration import Calibration
from .coding.problems import BPDN, OMP, Lasso, Problem, Ridge
from .coding.workers import one_blas_thread
from .collaborative import Collaborative
from .cross_test import CrossTest
from .dictionary import Dictionary, Queries
from .evidence_table import EVIDENCE
from .exceptions import ModelFileError
from .fusion import Fusion
from .modelfile import ModelState, blame_file, read_model, write_model
from .recognizer import SROSRClassifier
from .rules import CalibratedRule, TailRule
from .spliced import SplicedDistribution
from .tails import GPDTail
from .thresholds import Threshold, check_positive

__all__ = ["load", "save"]

KIND = "SROSRClassifier"
# Numbers beyond these are no model of ours: sums and products of them would not be finite.
_LARGEST, _SMALLEST = 1e100, 1e-100
_PROBLEMS: dict[str, type[Problem]] = {"BPDN": BPDN, "Lasso": Lasso, "Ridge": Ridge, "OMP": OMP}
_OF_DICTIONARY = ("kernel", "normalize", "gamma", "degree", "coef0")
_PASSES = ("known", "simulated", "held_out")
_TAIL_NUMBERS = ("u", "sigma", "xi", "rho", "log_likelihood")


def save(clf: SROSRClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted recogniser to a model file."""
    write_model(path, ModelState(KIND, _settings(clf), _arrays(clf)))


def load(path: str | os.PathLike[str]) -> SROSRClassifier:
    """Read a fitted recogniser from a model file.

    Parameters
    ----------
    path : path-like
        Written by :meth:`SROSRClassifier.save`.

    Returns
    -------
    SROSRClassifier
        Which predicts what the saved one did, bit for bit.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or is too new. Nothing in a file is ever run.

    Examples
    --------
    >>> import tempfile, os
    >>> from sklearn.datasets import load_digits
    >>> import srosr
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> clf = srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(X[:90], y[:90])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(os.path.join(folder, "digits.srosr"))
    ...     again = srosr.load(os.path.join(folder, "digits.srosr"))
    >>> bool((again.unknown_score(X[90:120]) == clf.unknown_score(X[90:120])).all())
    True
    """
    state = read_model(path)
    with blame_file(path):
        if state.kind != KIND:
            raise ModelFileError(f"{os.fspath(path)} holds a {state.kind}, which this version of srosr does not know.")
        return _restored(state.settings, state.arrays)


# -- from a recogniser -----------------------------------------------------------------------------------


def _settings(clf: SROSRClassifier) -> dict[str, Any]:
    if not isinstance(clf.dictionary_.kernel, str):
        raise ValueError("a kernel that is a function cannot be saved: files hold nothing that runs. Name a kernel.")
    parameters = clf.get_params(deep=False)
    parameters["problem"] = None if clf.problem is None else _problem_state(clf.problem)
    # What a generator would draw next is no part of a fitted model.
    seed = clf.random_state
    parameters["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    del parameters["unknown_label"]
    # Parameters may have been set since; the model is what was fitted.
    parameters |= {name: getattr(clf.dictionary_, name) for name in _OF_DICTIONARY} | {"rule": clf.rule_}
    calibration, threshold = clf.calibration_, clf.threshold_info_
    return {
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "problem": _problem_state(clf.problem_),
        "n_features_in": int(clf.n_features_in_),
        "threshold": {"kind": threshold.kind, "detail": threshold.detail},
        "choice": {name: _plain(value) for name, value in clf._choice.items()},
        "calibrated": isinstance(calibration.rule, CalibratedRule),
        "has_tails": calibration.tails is not None,
        "weight": None if calibration.tails is None else float(calibration.tails.weight),
        "aside": None if clf._aside is None else "similarities" if isinstance(clf._aside, Queries) else "features",
        "grown": bool(clf._grown),
        "n_rows": int(clf._n_rows),
    }


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _problem_state(problem: Problem) -> dict[str, Any]:
    return {"name": type(problem).__name__, **asdict(problem)}


def _arrays(clf: SROSRClassifier) -> dict[str, AnyArray]:
    d, calibration, threshold = clf.dictionary_, clf.calibration_, clf.threshold_info_
    out: dict[str, AnyArray] = {
        "dictionary/values": d._values,
        "dictionary/scale": d._scale,
        "dictionary/labels": np.asarray(d.labels),
        "dictionary/order": np.asarray(d.order, dtype=np.int64),
        "pooled": np.asarray(calibration.pooled, dtype=np.bool_),
        "training_rows": np.asarray(clf.training_rows_, dtype=np.int64),
        "unknown_label": np.asarray(clf.unknown_label_),
        "threshold/value": np.asarray(threshold.value),
        "threshold/per_class": threshold.per_class,
    }
    if clf.unknown_label is not None:
        out["parameters/unknown_label"] = np.asarray(clf.unknown_label)
    # A Gram matrix that grew is not the one its atoms would give, to the last bit.
    if d.is_precomputed or clf._grown:
        out["dictionary/gram"] = d.gram
    if hasattr(clf, "feature_names_in_"):
        out["feature_names_in"] = np.asarray(clf.feature_names_in_)
    if isinstance(clf._aside, Queries):
        out |= {"aside/cross": clf._aside.cross, "aside/squared_norms": clf._aside.squared_norms}
    elif clf._aside is not None:
        out["aside/features"] = clf._aside
    if clf._aside is not None:
        out["aside/labels"] = clf._aside_labels
    for name in _PASSES:
        rows = getattr(calibration, name)
        out |= {f"{name}/{f.name}": getattr(rows, f.name) for f in fields(CrossTest)}
    if isinstance(calibration.rule, CalibratedRule):
        rule = calibration.rule
        for name, fusion in (("fusion", rule.fusion), ("simulated_fusion", rule.simulated)):
            out |= {f"{name}/{f.name}": getattr(fusion, f.name) for f in fields(Fusion)}
        out |= {
            "distribution/body": rule.distribution.body,
            "distribution/levels": rule.distribution.levels,
            "distribution/joint": np.asarray(rule.distribution.joint),
            **_tail_arrays("distribution/tail", (rule.distribution.tail,)),
        }
    if calibration.tails is not None:
        out |= _tail_arrays("tails/matched", calibration.tails.matched)
        out |= _tail_arrays("tails/nonmatched", calibration.tails.nonmatched)
    return out


def _tail_arrays(name: str, tails: tuple[GPDTail, ...]) -> dict[str, AnyArray]:
    return {
        f"{name}/numbers": np.array([[getattr(t, field) for field in _TAIL_NUMBERS] for t in tails]),
        f"{name}/n_excesses": np.array([t.n_excesses for t in tails], dtype=np.int64),
        f"{name}/outcome": np.array([t.outcome for t in tails]),
    }


# -- back to one -----------------------------------------------------------------------------------------


def _restored(settings: dict[str, Any], arrays: dict[str, AnyArray]) -> SROSRClassifier:
    parameters = dict(settings["parameters"])
    parameters["problem"] = None if parameters["problem"] is None else _problem(parameters["problem"])
    if "parameters/unknown_label" in arrays:
        parameters["unknown_label"] = arrays["parameters/unknown_label"].item()
    clf = SROSRClassifier()
    known = clf.get_params(deep=False)
    # A parameter of a later version is none of ours; one it did not have keeps its default.
    clf.set_params(**{name: value for name, value in parameters.items() if name in known})
    clf._check_parameters()
    clf.problem_, clf.rule_ = _problem(settings["problem"]), clf.rule
    clf.n_features_in_ = _count(settings["n_features_in"])
    if "feature_names_in" in arrays:
        clf.feature_names_in_ = arrays["feature_names_in"]
        _expect(clf.feature_names_in_.shape == (clf.n_features_in_,), "feature names")
    if not isinstance(clf.kernel, str):
        raise ValueError("the kernel has no name.")
    dictionary = Dictionary._restored(
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
    clf.training_rows_ = arrays["training_rows"]
    clf._n_rows = _count(settings["n_rows"])
    rows = clf.training_rows_
    _expect(rows.ndim == 1 and rows.dtype == np.int64 and len(rows) > int(dictionary.order.max()), "training rows")
    _expect(bool(rows.min() >= 0 and rows.max() < clf._n_rows), "training rows")
    classes = np.asarray(dictionary.classes_)
    _expect(len(classes) >= 2, "classes")
    clf.unknown_label_ = arrays["unknown_label"].item()
    _expect(clf.unknown_label_ not in classes.tolist(), "unknown label")
    _restore_aside(clf, settings["aside"], arrays, dictionary)
    clf._grown = bool(settings["grown"])
    clf._choice = dict(settings["choice"])
    with one_blas_thread():
        _ = dictionary.gram
        clf._collaborative = Collaborative(dictionary)
    clf.dictionary_, clf.classes_ = dictionary, classes
    clf.calibration_ = _calibration(settings, arrays, dictionary)
    clf.evidence_names_ = EVIDENCE
    clf.evidence_weights_ = clf.calibration_.weights
    clf.pooled_ = clf.calibration_.pooled
    per_class = arrays["threshold/per_class"]
    _expect(per_class.shape == (len(classes),) and bool(((per_class >= 0) & (per_class <= 1)).all()), "thresholds")
    words = settings["threshold"]
    _expect(arrays["threshold/value"].shape == () and bool(0 <= arrays["threshold/value"] <= 1), "thresholds")
    clf.threshold_info_ = Threshold(
        float(arrays["threshold/value"]), per_class, str(words["kind"]), str(words["detail"])
    )
    clf.threshold_, clf.thresholds_ = clf.threshold_info_.value, per_class
    return clf


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"the {what} in it make no sense.")


def _count(value: Any) -> int:
    _expect(isinstance(value, int) and not isinstance(value, bool) and value >= 1, "counts")
    return int(value)


def _problem(state: dict[str, Any]) -> Problem:
    values = dict(state)
    return _PROBLEMS[values.pop("name")](**values)


def _restore_aside(clf: SROSRClassifier, kind: str | None, arrays: dict[str, AnyArray], dictionary: Dictionary) -> None:
    clf._aside, clf._aside_labels = None, arrays.get("aside/labels", np.empty(0, dictionary.labels.dtype))  # type: ignore[union-attr]
    if kind == "similarities":
        clf._aside = Queries(arrays["aside/cross"], arrays["aside/squared_norms"])
        _expect(clf._aside.cross.shape[1] == dictionary.n_atoms, "samples set aside")
    elif kind == "features":
        clf._aside = dictionary.checked(arrays["aside/features"])
    if clf._aside is not None:
        _expect(clf._aside_labels.shape == (len(clf._aside),), "samples set aside")


def _calibration(settings: dict[str, Any], arrays: dict[str, AnyArray], dictionary: Dictionary) -> Calibration:
    n_classes = len(dictionary.class_slices)
    known, simulated, held_out = (_cross_test(name, arrays, dictionary) for name in _PASSES)
    pooled = arrays["pooled"]
    _expect(pooled.shape == (n_classes,) and pooled.dtype == np.bool_, "pooled classes")
    tails = None
    if settings["has_tails"]:
        matched, nonmatched = _tails("tails/matched", arrays), _tails("tails/nonmatched", arrays)
        _expect(len(matched) == len(nonmatched) == n_classes, "tails")
        weight = check_positive("weight", settings["weight"], zero=True)
        tails = TailRule(matched, nonmatched, tuple(map(bool, pooled)), weight)
    if not settings["calibrated"]:
        _expect(tails is not None, "tails")
        assert tails is not None
        return Calibration(known, simulated, held_out, tails, tails, pooled)
    fusion, elsewhere = (
        Fusion(*(_vector(arrays[f"{name}/{f.name}"], len(EVIDENCE)) for f in fields(Fusion)))
        for name in ("fusion", "simulated_fusion")
    )
    for part in (fusion, elsewhere):
        _expect(bool((part.scale > _SMALLEST).all() and (part.weights >= 0).all()), "scales or weights")
        _expect(bool((np.abs([part.mean, part.scale, part.weights]) < _LARGEST).all()), "scales or weights")
    (tail,) = _tails("distribution/tail", arrays)
    distribution = SplicedDistribution(
        arrays["distribution/body"], arrays["distribution/levels"], tail, float(arrays["distribution/joint"])
    )
    rule = CalibratedRule(fusion, elsewhere, distribution)
    return Calibration(known, simulated, held_out, rule, tails, pooled)


def _vector(values: AnyArray, n: int) -> AnyArray:
    _expect(values.shape == (n,) and values.dtype == np.float64 and bool(np.isfinite(values).all()), "numbers")
    return values


def _cross_test(name: str, arrays: dict[str, AnyArray], dictionary: Dictionary) -> CrossTest:
    rows = CrossTest(*(arrays[f"{name}/{f.name}"] for f in fields(CrossTest)))
    n, n_classes = len(rows.sample), len(dictionary.class_slices)
    for field, most in (("sample", dictionary.n_atoms), ("truth", n_classes), ("candidate", n_classes)):
        numbers = getattr(rows, field)
        right = numbers.shape == (n,) and numbers.dtype == np.int64
        _expect(right and (n == 0 or (numbers.min() >= 0 and numbers.max() < most)), "held-out samples")
    for field in ("repeat", "matched", "nonmatched", "stranger"):
        _expect(getattr(rows, field).shape == (n,), "held-out samples")
    _expect(rows.values.shape == (n, len(EVIDENCE)) and rows.stranger.dtype == np.bool_, "held-out samples")
    for numbers in (rows.values, rows.matched, rows.nonmatched):
        _expect(numbers.dtype == np.float64 and bool((np.abs(numbers[~rows.stranger]) < _LARGEST).all()), "errors")
    _expect(bool((np.abs(rows.values) < _LARGEST).all()), "held-out samples")
    return rows


def _tails(name: str, arrays: dict[str, AnyArray]) -> tuple[GPDTail, ...]:
    numbers, counts, outcomes = (arrays[f"{name}/{part}"] for part in ("numbers", "n_excesses", "outcome"))
    _expect(numbers.shape == (len(counts), len(_TAIL_NUMBERS)) and len(outcomes) == len(counts), "tails")
    return tuple(
        GPDTail(**dict(zip(_TAIL_NUMBERS, map(float, row), strict=True)), n_excesses=int(count), outcome=str(outcome))
        for row, count, outcome in zip(numbers, counts, outcomes, strict=True)
    )

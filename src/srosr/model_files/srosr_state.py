"""The state of a fitted :class:`SROSRClassifier` as values and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .._support.parameter_checks import check_positive
from .._support.threads import one_blas_thread
from ..atoms.kmeans_atoms import KMeansAtoms
from ..atoms.learn_atoms import LearnAtoms
from ..atoms.random_atoms import RandomAtoms
from ..atoms.select_atoms import SelectAtoms
from ..classifiers.srosr_classifier import SROSRClassifier
from ..coding.batch import gram_wanted
from ..dictionary.dictionary import Dictionary, Queries
from ..evidence.class_scores import CLASS_SCORES, ClassScorer
from ..evidence.landmark_scores import LandmarkScorer
from ..evidence.table import EVIDENCE, SPARSE_EVIDENCE, ClassFusion, find_class_scores, list_evidence
from ..scoring.calibration import Calibration
from ..scoring.cross_test import CrossTest
from ..scoring.decision_rules import CalibratedRule, TailRule
from ..scoring.fusion import Fusion
from ..tails.error_distribution import SplicedDistribution
from ..tails.gpd import GPDTail
from . import classifier_state as shared
from . import landmark_state
from .classifier_state import LARGEST, check
from .file_format import ModelState

KIND = "SROSRClassifier"
# No scale of ours is below this.
_SMALLEST = 1e-100
_PASSES = ("known", "simulated", "held_out")
# Names of the columns of a cross-test in files, which keep the word of format version 1.
_CROSS_TEST_KEYS = {f.name: f.name for f in fields(CrossTest)} | {"unknown": "stranger"}
# What may have found the atoms of a small dictionary.
_SAMPLERS = {
    "KMeansAtoms": KMeansAtoms,
    "LearnAtoms": LearnAtoms,
    "RandomAtoms": RandomAtoms,
    "SelectAtoms": SelectAtoms,
}
# No model has so many samples or groups.
_MOST = 2**48
# Labels that JSON can hold.
_LABELS = (bool, int, float, str)
_TAIL_NUMBERS = ("u", "sigma", "xi", "rho", "log_likelihood")


def get_state(clf: SROSRClassifier) -> ModelState:
    """Return the state of a fitted recognizer."""
    return ModelState(KIND, _get_settings(clf), _get_arrays(clf))


# -- from a recognizer -----------------------------------------------------------------------------------


def _get_settings(clf: SROSRClassifier) -> dict[str, Any]:
    calibration, held_out = clf.calibration_, clf._calibration_samples
    out = shared.get_settings(clf)
    calibrated = isinstance(calibration.rule, CalibratedRule)
    out["parameters"]["rule"] = clf.rule_
    out["parameters"]["atoms"] = _get_sampler_state(clf.atoms)
    if calibrated:
        out["parameters"]["label_by"] = clf.label_by_
    # As fitted, whatever the parameter has become since.
    kinds, fitted = out["parameters"]["evidence_kinds"], list(calibration.evidence)
    automatic = not calibrated or fitted == list(list_evidence(has_features=not clf.dictionary_.is_precomputed))
    out["parameters"]["evidence_kinds"] = "auto" if automatic and isinstance(kinds, str) else fitted
    fusion = calibration.class_fusion
    return out | {
        "evidence": list(calibration.evidence),
        "class_scores": list(clf._class_scores),
        "class_fusion": None if fusion is None else list(fusion.kinds),
        "problem": shared.get_problem_state(clf.problem_),
        "calibrated": calibrated,
        "has_tails": calibration.tails is not None,
        "weight": None if calibration.tails is None else float(calibration.tails.weight),
        "aside": None if held_out is None else "similarities" if isinstance(held_out, Queries) else "features",
        "landmarks": isinstance(clf._scorer, LandmarkScorer),
        "tails_from": "held_out" if calibration.known is calibration.held_out else "known",
        "n_samples": clf._n_samples,
        "learned_atoms": bool(clf.learned_atoms_),
        "grown": bool(clf._grown),
        "n_rows": int(clf._n_rows),
        "recalibration": clf._recalibration,
    }


def _get_arrays(clf: SROSRClassifier) -> dict[str, AnyArray]:
    d, calibration = clf.dictionary_, clf.calibration_
    # A Gram matrix that grew differs in the last bits from the one computed from its atoms.
    out = shared.get_arrays(clf) | shared.get_dictionary_arrays(d, gram=d.is_precomputed or (clf._grown and d.has_gram))
    out["pooled"] = np.asarray(calibration.pooled, dtype=np.bool_)
    out["training_rows"] = np.asarray(clf.training_rows_, dtype=np.int64)
    if clf._class_sizes is not None:
        out["class_sizes"] = np.asarray(clf._class_sizes, dtype=np.int64)
    if isinstance(clf._calibration_samples, Queries):
        out["aside/cross"] = clf._calibration_samples.cross
        out["aside/squared_norms"] = clf._calibration_samples.squared_norms
    elif clf._calibration_samples is not None:
        out["aside/features"] = clf._calibration_samples
    if clf._calibration_samples is not None:
        out["aside/labels"] = clf._calibration_labels
        if clf._calibration_groups is not None:
            out["aside/groups"] = np.asarray(clf._calibration_groups, dtype=np.int64)
    if clf._row_groups is not None and clf._group_names is not None:
        out["groups/rows"] = np.asarray(clf._row_groups, dtype=np.int64)
        out["groups/names"] = clf._group_names
    calibrated, used = isinstance(calibration.rule, CalibratedRule), np.isin(EVIDENCE, calibration.evidence)
    for name in _PASSES:
        if name == "known" and calibration.known is calibration.held_out:
            continue
        rows = getattr(calibration, name)
        out |= {f"{name}/{key}": getattr(rows, field) for field, key in _CROSS_TEST_KEYS.items()}
        out[f"{name}/values"] = rows.values[:, _find_columns(name, calibrated, calibration.evidence)]
    if calibration.class_fusion is not None:
        out["class_fusion/scale"] = calibration.class_fusion.scale
        out["class_fusion/weights"] = calibration.class_fusion.weights
    if isinstance(calibration.rule, CalibratedRule):
        rule = calibration.rule
        for name, fusion in (("fusion", rule.fusion), ("simulated_fusion", rule.simulated)):
            out |= {f"{name}/{part}": getattr(fusion, part)[used] for part in ("mean", "scale", "weights")}
        if rule.fusion.errors is not None:
            out["fusion/errors"] = rule.fusion.errors[used]
        out |= _get_distribution_arrays("distribution", rule.distribution)
        if rule.recalibrated is not None:
            out |= _get_distribution_arrays("recalibrated", rule.recalibrated)
    if isinstance(clf._scorer, LandmarkScorer):
        out |= landmark_state.get_arrays(clf._scorer)
    if calibration.tails is not None:
        out |= _get_tail_arrays("tails/matched", calibration.tails.matched)
        out |= _get_tail_arrays("tails/nonmatched", calibration.tails.nonmatched)
    return out


def _find_columns(name: str, calibrated: bool, evidence: tuple[str, ...]) -> list[int]:
    """Return the columns of an evidence table that a pass has: those of the codes, and those the rule uses."""
    also = evidence if calibrated and name != "known" else ()
    return [i for i, kind in enumerate(EVIDENCE) if kind in SPARSE_EVIDENCE or kind in also]


def _get_distribution_arrays(name: str, distribution: SplicedDistribution) -> dict[str, AnyArray]:
    return {
        f"{name}/body": distribution.body,
        f"{name}/levels": distribution.levels,
        f"{name}/joint": np.asarray(distribution.joint),
        **_get_tail_arrays(f"{name}/tail", (distribution.tail,)),
    }


def _get_tail_arrays(name: str, tails: tuple[GPDTail, ...]) -> dict[str, AnyArray]:
    return {
        f"{name}/numbers": np.array([[getattr(t, field) for field in _TAIL_NUMBERS] for t in tails]),
        f"{name}/n_excesses": np.array([t.n_excesses for t in tails], dtype=np.int64),
        f"{name}/outcome": np.array([t.outcome for t in tails]),
    }


def _get_sampler_state(atoms: Any) -> Any:
    """Return what found the atoms: a number, or the name and parameters of one of ours; None for any other object.

    A number of atoms for each class becomes a list of pairs, since keys in JSON are text.
    """
    if not hasattr(atoms, "fit_resample"):
        return shared.to_python(atoms)
    name = type(atoms).__name__
    if _SAMPLERS.get(name) is not type(atoms):
        return None
    parameters = {name: shared.to_python(value) for name, value in atoms.get_params(deep=False).items()}
    if "random_state" in parameters and not isinstance(parameters["random_state"], int):
        parameters["random_state"] = None  # the state of a random generator is not part of a fitted model
    if isinstance(parameters.get("n_atoms"), Mapping):
        pairs = [[shared.to_python(one) for one in pair] for pair in parameters["n_atoms"].items()]
        if not all(type(label) in _LABELS and type(number) is int and number > 0 for label, number in pairs):
            return None
        parameters["n_atoms"] = pairs
    return {"name": type(atoms).__name__, **parameters}


def _restore_sampler(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    values = dict(state)
    name = values.pop("name")
    check(isinstance(name, str) and name in _SAMPLERS, "atoms")
    if isinstance(values.get("n_atoms"), list):
        pairs = values["n_atoms"]
        check(all(isinstance(pair, list) and len(pair) == 2 and type(pair[0]) in _LABELS for pair in pairs), "atoms")
        values["n_atoms"] = {label: shared.require_count(number) for label, number in pairs}
    return _SAMPLERS[name](**values)


# -- to a recognizer --------------------------------------------------------------------------------------


def restore(settings: dict[str, Any], arrays: dict[str, AnyArray]) -> SROSRClassifier:
    """Rebuild the recognizer of a state."""
    clf = SROSRClassifier()
    parameters = settings["parameters"] | {"atoms": _restore_sampler(settings["parameters"].get("atoms"))}
    shared.restore_parameters(clf, settings | {"parameters": parameters}, arrays)
    clf.problem_, clf.rule_ = shared.restore_problem(settings["problem"]), clf.rule
    dictionary = shared.restore_dictionary(clf, arrays)
    shared.restore_decision(clf, np.asarray(dictionary.classes_), settings, arrays)
    clf.training_rows_ = arrays["training_rows"]
    clf._n_rows = shared.require_count(settings["n_rows"])
    check(clf._n_rows < _MOST, "counts")
    clf.learned_atoms_ = bool(settings["learned_atoms"])
    clf._n_samples = _restore_n_samples(settings, clf._n_rows, dictionary)
    clf._class_sizes = _restore_class_sizes(arrays, clf._n_samples, dictionary)
    rows = clf.training_rows_
    check(rows.ndim == 1 and rows.dtype == np.int64 and len(rows) > int(dictionary.order.max()), "training rows")
    check(bool(rows.min() >= 0 and rows.max() < clf._n_rows), "training rows")
    clf._recalibration = _restore_recalibration(settings["recalibration"])
    _restore_groups(clf, arrays)
    _restore_calibration_split(clf, settings["aside"], arrays, dictionary)
    clf._grown = bool(settings["grown"])
    clf.label_by_ = clf.label_by if settings["calibrated"] else "residual"
    if settings["calibrated"]:
        class_scores = _restore_names(settings["class_scores"], CLASS_SCORES)
        check("residual" in class_scores, "class scores")
    else:
        class_scores = clf._choose_kinds(dictionary)[1]
    calibration = _restore_calibration(settings, arrays, dictionary)
    if settings["calibrated"]:
        fused = clf.label_by_ == "fused" or bool(set(calibration.evidence) & {"fused", "fused_margin"})
        check(not fused or calibration.class_fusion is not None, "class scores")
        wanted = {"residual"} | set(() if calibration.class_fusion is None else calibration.class_fusion.kinds)
        plain = [name for name in calibration.evidence if not name.startswith("fused")]
        wanted |= set(find_class_scores(plain, has_features=not dictionary.is_precomputed))
        check(wanted <= set(class_scores), "class scores")
    if gram_wanted(dictionary, clf.problem_):
        with one_blas_thread():
            _ = dictionary.gram  # squared lengths are its diagonal, to the bit, once it has been computed
    # All class scores of a small dictionary were fitted to samples that it has not kept.
    check(clf._n_samples is None or settings["landmarks"] or len(class_scores) == 1, "samples")
    if settings["landmarks"]:
        scorer: Any = landmark_state.restore(arrays, dictionary, class_scores)
        check(clf._class_sizes is None or np.array_equal(scorer.sizes, clf._class_sizes), "sizes of classes")
    else:
        # Exact whatever the number of atoms, as files of earlier versions have it.
        with one_blas_thread():
            scorer = ClassScorer(dictionary, class_scores) if len(class_scores) > 1 else None
    clf._adopt(dictionary, calibration, class_scores, scorer)
    if clf.threshold_info_.kind != "fixed":
        clf.threshold_info_ = replace(clf.threshold_info_, weight_errors=calibration.weight_errors)
    return clf


def _restore_n_samples(settings: dict[str, Any], n_rows: int, dictionary: Dictionary) -> int | None:
    """Return the number of samples that calibrate a small dictionary, None where they are the atoms."""
    if settings["n_samples"] is None:
        return None
    n_samples = shared.require_count(settings["n_samples"])
    check(dictionary.rows is not None and n_samples <= n_rows, "samples")
    return n_samples


def _restore_class_sizes(arrays: dict[str, AnyArray], n_samples: int | None, dictionary: Dictionary) -> IntArray | None:
    """Return the number of samples of each class of a small dictionary, None where they are the atoms."""
    if n_samples is None:
        return None
    sizes = arrays["class_sizes"]
    check(sizes.shape == (len(dictionary.class_slices),) and sizes.dtype == np.int64, "sizes of classes")
    check(bool((sizes > 0).all()) and sum(sizes.tolist()) <= n_samples, "numbers of samples")
    return sizes


def _restore_names(names: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of kinds in their order, checked."""
    check(isinstance(names, list) and all(isinstance(name, str) and name in known for name in names), "kinds")
    return tuple(name for name in known if name in names)


def _restore_calibration_split(
    clf: SROSRClassifier, kind: str | None, arrays: dict[str, AnyArray], dictionary: Dictionary
) -> None:
    clf._calibration_samples = None
    clf._calibration_labels = arrays.get("aside/labels", np.asarray(dictionary.labels)[:0])
    if kind == "similarities":
        clf._calibration_samples = Queries(arrays["aside/cross"], arrays["aside/squared_norms"])
        check(clf._calibration_samples.cross.shape[1] == dictionary.n_atoms, "calibration split")
    elif kind == "features":
        clf._calibration_samples = dictionary.check_features(arrays["aside/features"])
    clf._calibration_groups = arrays.get("aside/groups")
    if clf._calibration_samples is not None:
        n, labels = len(clf._calibration_samples), clf._calibration_labels
        check(labels.shape == (n,) and bool(np.isin(labels, clf.classes_).all()), "calibration split")
        groups = clf._calibration_groups
        check(groups is None or (groups.shape == (n,) and groups.dtype == np.int64), "groups")
        check(groups is None or bool((groups >= 0).all() and (groups < _MOST).all()), "groups")
    check(clf._recalibration is None or kind == "features", "recalibration")


def _restore_recalibration(facts: Any) -> dict[str, Any] | None:
    """Return what is remembered of a recalibration, checked."""
    if facts is None:
        return None
    flags = ("labeled", "exact", "fresh")
    check(isinstance(facts, dict) and set(facts) <= {*flags}, "recalibration")
    check(all(type(facts.get(name)) is bool for name in flags) and facts["fresh"], "recalibration")
    return facts


def _restore_groups(clf: SROSRClassifier, arrays: dict[str, AnyArray]) -> None:
    """Restore the groups of the training samples."""
    rows, names = arrays.get("groups/rows"), arrays.get("groups/names")
    check((rows is None) == (names is None), "groups")
    if rows is not None and names is not None:
        check(rows.shape == (clf._n_rows,) and rows.dtype == np.int64 and names.ndim == 1, "groups")
        check(names.dtype.kind in "biufU" and len(np.unique(names)) == len(names), "groups")
        check(bool(rows.min(initial=0) >= 0 and rows.max(initial=0) < len(names)), "groups")
    clf._row_groups, clf._group_names = rows, names


def _restore_calibration(settings: dict[str, Any], arrays: dict[str, AnyArray], dictionary: Dictionary) -> Calibration:
    n_classes, calibrated = len(dictionary.class_slices), bool(settings["calibrated"])
    evidence = _restore_names(settings["evidence"], EVIDENCE)
    check(settings["tails_from"] in ("known", "held_out"), "held-out samples")
    n_samples = dictionary.n_atoms if settings["n_samples"] is None else settings["n_samples"]
    passes = {
        name: _restore_cross_test(name, arrays, dictionary, n_samples, _find_columns(name, calibrated, evidence))
        for name in _PASSES
        if name != "known" or settings["tails_from"] == "known"
    }
    simulated, held_out = passes["simulated"], passes["held_out"]
    known = passes.get("known", held_out)
    pooled = arrays["pooled"]
    check(pooled.shape == (n_classes,) and pooled.dtype == np.bool_, "pooled classes")
    tails = None
    if settings["has_tails"]:
        matched, nonmatched = _restore_tails("tails/matched", arrays), _restore_tails("tails/nonmatched", arrays)
        check(len(matched) == len(nonmatched) == n_classes, "tails")
        weight = check_positive("weight", settings["weight"], zero=True)
        tails = TailRule(matched, nonmatched, tuple(map(bool, pooled)), weight)
    if not calibrated:
        check(tails is not None, "tails")
        assert tails is not None
        return Calibration(known, simulated, held_out, tails, tails, pooled, evidence)
    check(len(evidence) > 0, "kinds")
    fusion, simulated_fusion = (_restore_fusion(name, arrays, evidence) for name in ("fusion", "simulated_fusion"))
    recalibrated = _restore_distribution("recalibrated", arrays) if "recalibrated/body" in arrays else None
    check((recalibrated is None) == (settings["recalibration"] is None), "recalibration")
    rule = CalibratedRule(fusion, simulated_fusion, _restore_distribution("distribution", arrays), recalibrated)
    class_fusion = _restore_class_fusion(settings["class_fusion"], settings["class_scores"], arrays)
    return Calibration(known, simulated, held_out, rule, tails, pooled, evidence, class_fusion)


def _restore_distribution(name: str, arrays: dict[str, AnyArray]) -> SplicedDistribution:
    (tail,) = _restore_tails(f"{name}/tail", arrays)
    return SplicedDistribution(arrays[f"{name}/body"], arrays[f"{name}/levels"], tail, float(arrays[f"{name}/joint"]))


def _restore_fusion(name: str, arrays: dict[str, AnyArray], evidence: tuple[str, ...]) -> Fusion:
    """Return a fusion with all columns; those that are not used have the weight 0."""
    used, columns = np.isin(EVIDENCE, evidence), []
    for part, elsewhere in (("mean", 0.0), ("scale", 1.0), ("weights", 0.0)):
        numbers = arrays[f"{name}/{part}"]
        check(numbers.shape == (len(evidence),) and numbers.dtype == np.float64, "numbers")
        check(bool((np.abs(numbers) < LARGEST).all()), "scales or weights")
        columns.append(np.full(len(EVIDENCE), elsewhere))
        columns[-1][used] = numbers
    mean, scale, weights = columns
    check(bool((scale > _SMALLEST).all() and (weights >= 0).all()), "scales or weights")
    errors = None
    if f"{name}/errors" in arrays:
        numbers = arrays[f"{name}/errors"]
        check(numbers.shape == (len(evidence),) and numbers.dtype == np.float64, "numbers")
        check(bool(((numbers >= 0) & (numbers < LARGEST)).all()), "standard errors")
        errors = np.zeros(len(EVIDENCE))
        errors[used] = numbers
    return Fusion(mean, scale, weights, errors)


def _restore_class_fusion(kinds: Any, available: list[str], arrays: dict[str, AnyArray]) -> ClassFusion | None:
    if kinds is None:
        return None
    names = _restore_names(kinds, CLASS_SCORES)
    check(len(names) > 0 and set(names) <= set(available), "class scores")
    scale, weights = arrays["class_fusion/scale"], arrays["class_fusion/weights"]
    for numbers in (scale, weights):
        check(numbers.shape == (len(names),) and numbers.dtype == np.float64, "class weights")
        check(bool((np.abs(numbers) < LARGEST).all()), "class weights")
    # Scores of features that are very small have such scales; weights over them are finite.
    check(bool((scale > _SMALLEST**2).all() and (weights >= 0).all()), "class weights")
    return ClassFusion(names, scale, weights)


def _restore_cross_test(
    name: str, arrays: dict[str, AnyArray], dictionary: Dictionary, n_samples: int, columns: list[int]
) -> CrossTest:
    content = {field: arrays[f"{name}/{key}"] for field, key in _CROSS_TEST_KEYS.items()}
    n, n_classes, stored = len(content["sample"]), len(dictionary.class_slices), content["values"]
    check(stored.shape == (n, len(columns)) and stored.dtype == np.float64, "held-out samples")
    values = np.zeros((n, len(EVIDENCE)))
    values[:, columns] = stored
    rows = CrossTest(**(content | {"values": values}))
    classes = ("truth", "candidate", "residual_candidate")
    for field, most in (("sample", n_samples), *((name, n_classes) for name in classes)):
        numbers = getattr(rows, field)
        right = numbers.shape == (n,) and numbers.dtype == np.int64
        check(right and (n == 0 or (numbers.min() >= 0 and numbers.max() < most)), "held-out samples")
    for field in ("repeat", "matched", "nonmatched", "unknown"):
        check(getattr(rows, field).shape == (n,), "held-out samples")
    check(rows.unknown.dtype == np.bool_, "held-out samples")
    margin = rows.margin
    check(margin.shape == (n,) and margin.dtype == np.float64, "held-out samples")
    check(bool((np.abs(margin[~np.isnan(margin)]) < LARGEST).all()), "held-out samples")
    for numbers in (rows.values, rows.matched, rows.nonmatched):
        check(numbers.dtype == np.float64 and bool((np.abs(numbers[~rows.unknown]) < LARGEST).all()), "errors")
    check(bool((np.abs(rows.values) < LARGEST).all()), "held-out samples")
    return rows


def _restore_tails(name: str, arrays: dict[str, AnyArray]) -> tuple[GPDTail, ...]:
    numbers, counts, outcomes = (arrays[f"{name}/{part}"] for part in ("numbers", "n_excesses", "outcome"))
    check(numbers.shape == (len(counts), len(_TAIL_NUMBERS)) and len(outcomes) == len(counts), "tails")
    return tuple(
        GPDTail(**dict(zip(_TAIL_NUMBERS, map(float, row), strict=True)), n_excesses=int(count), outcome=str(outcome))
        for row, count, outcome in zip(numbers, counts, outcomes, strict=True)
    )

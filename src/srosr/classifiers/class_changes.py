"""The steps of adding and removing classes and samples, and of a recalibration: labels, dictionary, held-out scores."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import did_you_mean
from .._support.threads import one_blas_thread
from .._support.unknown_label import RESERVED, find_reserved, is_text
from ..dictionary.dictionary import Dictionary
from ..scoring.calibration import Calibration, fit_calibrated_rule
from ..scoring.cross_test import CrossTest
from ..scoring.decision_rules import MIN_SAMPLES, CalibratedRule, fit_tails
from ..scoring.fusion import rescale_fusion
from ..thresholds.p_values import count_needed

#: The three passes of a calibration: known, simulated and held out.
CrossTests: TypeAlias = tuple[CrossTest, CrossTest, CrossTest]


def check_new_label(label: Any, classes: AnyArray, unknown_label: Any) -> Any:
    """Return the label of a new class as a Python object, or raise a ValueError."""
    if np.ndim(label) != 0:
        raise ValueError(f"label must be one class, got {label!r}; add several one after the other.")
    label = label.item() if isinstance(label, np.generic) else label
    if is_text(classes) != isinstance(label, str):
        raise ValueError(f"label must be {'text' if is_text(classes) else 'a number'} like the classes, got {label!r}.")
    if not isinstance(label, str) and not (isinstance(label, Real) and math.isfinite(label)):
        raise ValueError(f"label must be text or a finite number, got {label!r}.")
    if label in classes.tolist():
        raise ValueError(f"label {label!r} is a class already; add samples to it with update (srosr update).")
    if find_reserved(unknown_label, [label]) is not None:
        raise ValueError(
            f"label {label!r} stands for rejected samples: choose another, or fit again with another unknown_label."
        )
    return label


def append_labels(labels: AnyArray, label: Any, n: int) -> AnyArray:
    """Return labels followed by n times another, in a type that truncates none of them."""
    return join_labels(labels, np.full(n, label, dtype=object if labels.dtype.kind == "O" else None))


def join_labels(labels: AnyArray, new: AnyArray) -> AnyArray:
    """Return labels followed by others, in a type that truncates none of them."""
    if labels.dtype.kind in "iu" and new.dtype.kind in "iu" and np.result_type(labels, new).kind not in "iu":
        return np.concatenate([labels.astype(object), new.astype(object)])
    return np.concatenate([labels, new])


def append_class(dictionary: Dictionary, X: Array, label: Any) -> tuple[Dictionary, int]:
    """Return the dictionary with the samples of a new class, and the number of that class."""
    assert dictionary.labels is not None
    n_classes = len(dictionary.class_slices)
    with one_blas_thread():
        dictionary = dictionary.append(X, append_labels(dictionary.labels[:0], label, len(X)))
    if len(dictionary.class_slices) != n_classes + 1:
        raise ValueError(f"label {label!r} equals a present class in an array that holds both; choose another.")
    number = int(np.flatnonzero(np.asarray(dictionary.classes_) == label)[0])
    if not (dictionary.squared_norms[dictionary.class_slices[number]] > 0).any():
        raise ValueError(f"X: all samples of class {label} are zero; give one that is not.")
    return dictionary, number


def append_samples(dictionary: Dictionary, X: Array, labels: AnyArray) -> tuple[Dictionary, AnyArray]:
    """Return the dictionary with more samples of its classes, and which of its atoms are new."""
    last = int(dictionary.order.max())
    with one_blas_thread():
        dictionary = dictionary.append(X, labels)
    return dictionary, dictionary.order > last


def find_newest(numbers: IntArray, class_of: IntArray, classes: IntArray, keep: int) -> AnyArray:
    """Return which samples stay if some classes keep their newest ones only; ``numbers`` grow with time."""
    stay = np.ones(len(numbers), np.bool_)
    for k in classes:
        own = np.flatnonzero(class_of == k)
        stay[own[np.argsort(numbers[own], kind="stable")][: max(len(own) - keep, 0)]] = False
    return stay


def move_cross_tests(
    calibration: Calibration, old: Dictionary, new: Dictionary, *, of_atoms: bool = True
) -> CrossTests:
    """Return the cross-tests with the class and atom numbers of another dictionary, without rows it does not have.

    If the samples are not the atoms (``of_atoms`` is False) they keep their numbers. A sum of residuals over the other
    classes grows with their number, so the non-matched sums are scaled by it.
    """
    old_classes, new_classes = np.asarray(old.classes_), np.asarray(new.classes_)
    classes = _find_places(old_classes.tolist(), new_classes.tolist())
    atoms = _find_places(old.order.tolist(), new.order.tolist())
    factor = (len(new_classes) - 1) / (len(old_classes) - 1)

    def move(rows: CrossTest) -> CrossTest:
        stay = (classes[rows.truth] >= 0) & (classes[rows.candidate] >= 0) & (classes[rows.residual_candidate] >= 0)
        if of_atoms:
            stay &= atoms[rows.sample] >= 0
        rows = rows[stay]
        return replace(
            rows,
            sample=atoms[rows.sample] if of_atoms else rows.sample,
            truth=classes[rows.truth],
            candidate=classes[rows.candidate],
            residual_candidate=classes[rows.residual_candidate],
            nonmatched=rows.nonmatched * factor,
        )

    return move(calibration.known), move(calibration.simulated), move(calibration.held_out)


def _find_places(old: list[Any], new: list[Any]) -> IntArray:
    """Return the place of each old item among the new ones, −1 where it is missing."""
    place = {item: i for i, item in enumerate(new)}
    return np.array([place.get(item, -1) for item in old], dtype=np.int64)


def update_calibration(
    old: Calibration, cross_tests: CrossTests, sizes: IntArray, tail_size: float | str
) -> Calibration:
    """Fit tails and distribution to new cross-tests; the weights of evidence and class scores stay.

    ``sizes`` counts the samples of each class.
    """
    known, simulated, held_out = cross_tests
    weight = 0.0 if old.tails is None else old.tails.weight
    tails = fit_tails(known, sizes, tail_size, weight) if len(known) else None
    pooled = np.array([n < MIN_SAMPLES for n in sizes] if tails is None else tails.pooled)
    if not isinstance(old.rule, CalibratedRule):
        if tails is None:
            raise ValueError("no sample of the remaining classes was held out; fit again.")
        return Calibration(known, simulated, held_out, tails, tails, pooled, old.evidence)
    if not len(held_out) and not len(simulated):
        raise ValueError("no sample of the remaining classes was held out or left out; fit again.")
    fusion = rescale_fusion(old.rule.fusion, held_out.values) if len(held_out) else old.rule.fusion
    rule = fit_calibrated_rule((fusion, old.rule.simulated), held_out, simulated, tail_size)
    return Calibration(known, simulated, held_out, rule, tails, pooled, old.evidence, old.class_fusion)


#: Fewest samples that a distribution is fitted to.
LEAST_SAMPLES = 10


def check_known_labels(y: Any, classes: AnyArray, n: int) -> AnyArray:
    """Return labels of known classes as an array, or raise a ValueError that names the one that is not known."""
    try:
        labels = np.asarray(y)
    except ValueError:
        raise ValueError(f"y must have one label for each of the {n} samples, got lists in it.") from None
    if labels.shape != (n,):
        raise ValueError(f"y must have one label for each of the {n} samples, got shape {labels.shape}.")
    place = {label: i for i, label in enumerate(classes.tolist())}
    for label in labels.tolist():
        if not isinstance(label, Hashable):
            raise ValueError(f"y must have one label for each of the {n} samples, got {label!r}.")
        if label not in place:
            guess = did_you_mean(label, place) if isinstance(label, str) and is_text(classes) else ""
            kind = "" if isinstance(label, str) == is_text(classes) else ", whose classes are of another type"
            way = "" if label in RESERVED else "add it with add_class (at the shell: srosr add-class), or "
            raise ValueError(
                f"y has the class {label!r}, which the model does not know{guess}{kind}: {way}leave its samples out."
            )
    return classes[np.array([place[label] for label in labels.tolist()], dtype=np.int64)]


def check_enough(n: int, target: float | None, what: str = "samples") -> None:
    """Raise a ValueError if there are too few samples for a target rate, or for a distribution."""
    needed = LEAST_SAMPLES if target is None else max(count_needed(target), LEAST_SAMPLES)
    if n < needed:
        reason = "a distribution" if target is None else f"target_rejection={target:g}"
        smallest = "" if target is None or n < LEAST_SAMPLES else f", or a target of at least {1 / (n + 1):.2g}"
        raise ValueError(f"X has {n} {what} that can be used, and {reason} takes {needed}: give more{smallest}.")


def find_copies(dictionary: Dictionary, X: Array) -> AnyArray:
    """Return which samples equal an atom, as the kernel sees both."""
    seen = dictionary.query_features(np.ascontiguousarray(X)).rows
    assert seen is not None and dictionary.rows is not None
    atoms = {row.tobytes() for row in dictionary.rows}
    return np.array([row.tobytes() in atoms for row in seen.astype(dictionary.rows.dtype)])

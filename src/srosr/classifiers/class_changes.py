"""Classes come and go: a fitted recogniser with one class more, or one less, without fitting again."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from .._support.array_types import AnyArray, IntArray
from .._support.threads import one_blas_thread
from .._support.unknown_label import is_text
from ..dictionary import Dictionary, Queries
from ..scoring import (
    MIN_SAMPLES,
    CalibratedRule,
    Calibration,
    CrossTest,
    CrossTester,
    calibrated_rule,
    class_sizes,
    codes_suffice,
    cross_splits,
    few_out_folds,
    fit_tails,
    refitted,
)
from .srosr_classifier import set_aside

if TYPE_CHECKING:
    from .srosr_classifier import SROSRClassifier

__all__ = ["with_class", "without_class"]


def with_class(clf: SROSRClassifier, X: Any, label: Any, recalibrate: str) -> None:
    """Give a fitted recogniser one more class."""
    if recalibrate not in ("new", "all"):
        raise ValueError(f'recalibrate must be "new" or "all", got {recalibrate!r}.')
    label = _new_label(clf, label)
    if isinstance(X, Queries) or clf.dictionary_.is_precomputed:
        raise ValueError('X must hold features; with kernel="precomputed" fit again with the larger Gram matrix.')
    X = np.asarray(clf._checked(X), dtype=np.float64)
    others: dict[str, Any] = {"_grown": True, "_n_rows": clf._n_rows + len(X)}
    rows = np.arange(len(X))
    if clf._kept_out is not None:
        # Some of the new samples keep the promise of the split calibration, too.
        rng = check_random_state(clf.random_state)
        rows, aside = set_aside(np.zeros(len(X)), X.any(axis=1), clf.calibration_size, rng)
        others["_kept_out"] = np.concatenate([clf._kept_out, X[aside]])
        others["_kept_out_labels"] = _joined_labels(clf._kept_out_labels, label, len(aside))
        X = X[rows]
    # New samples are numbered after all there were; the dictionary numbers them after the last it has.
    last = int(clf.dictionary_.order.max()) + 1
    others["training_rows_"] = np.concatenate([clf.training_rows_[:last], clf._n_rows + rows])
    with one_blas_thread():
        dictionary = clf.dictionary_.append(X, _joined_labels(clf.dictionary_.labels[:0], label, len(X)))  # type: ignore[index]
    if len(np.asarray(dictionary.classes_)) != len(clf.classes_) + 1:
        raise ValueError(f"label {label!r} cannot be told from a class there is, in an array that holds both.")
    number = int(np.flatnonzero(np.asarray(dictionary.classes_) == label)[0])
    if not (dictionary.squared_norms[dictionary.class_slices[number]] > 0).any():
        raise ValueError(f"X: all samples of class {label} are zero; there is nothing to recognise it by.")
    if recalibrate == "all":
        clf._install(dictionary, clf._calibrated(dictionary, clf.problem_), rule_=clf.rule, **others)
        return
    rng = check_random_state(clf.random_state)
    with one_blas_thread():
        codes_only = codes_suffice(isinstance(clf.calibration_.rule, CalibratedRule), dictionary)
        tester = CrossTester(dictionary, clf.problem_, n_jobs=clf.n_jobs, codes_only=codes_only)
        splits = cross_splits(dictionary.class_slices, clf.n_repeats, clf.holdout, rng)
        known = tester.known(splits, only=number)
        held_out = tester.known(few_out_folds(dictionary.class_slices, rng), only=number)
    old = _moved(clf, dictionary)
    clf._install(
        dictionary,
        _recalibrated(
            clf,
            dictionary,
            CrossTest.joined([old.known, known]),
            old.simulated,
            CrossTest.joined([old.held_out, held_out]),
        ),
        **others,
    )


def without_class(clf: SROSRClassifier, label: Any, recalibrate: str) -> None:
    """Take a class away from a fitted recogniser."""
    if recalibrate not in ("none", "all"):
        raise ValueError(f'recalibrate must be "none" or "all", got {recalibrate!r}.')
    clf._number_of(label)  # says which classes there are
    if len(clf.classes_) == 2:
        raise ValueError(f"class {label!r} cannot be removed: of two classes both are needed.")
    dictionary = clf.dictionary_.drop(label)
    others: dict[str, Any] = {"_grown": True}
    if clf._kept_out is not None:
        stay = clf._kept_out_labels != label
        aside = clf._kept_out[stay] if stay.any() else None
        if isinstance(aside, Queries):
            # Similarities to the rows that are left, in their order.
            rows = np.isin(np.sort(clf.dictionary_.order), dictionary.order)
            aside = Queries(aside.cross[:, rows], aside.squared_norms)
        others |= {"_kept_out": aside, "_kept_out_labels": clf._kept_out_labels[stay]}
    if recalibrate == "all":
        clf._install(dictionary, clf._calibrated(dictionary, clf.problem_), rule_=clf.rule, **others)
        return
    old = _moved(clf, dictionary)
    clf._install(dictionary, _recalibrated(clf, dictionary, old.known, old.simulated, old.held_out), **others)


def _new_label(clf: SROSRClassifier, label: Any) -> Any:
    if np.ndim(label) != 0:
        raise ValueError(f"label must be one class, got {label!r}; add several one after the other.")
    label = label.item() if isinstance(label, np.generic) else label
    classes = np.asarray(clf.classes_)
    if is_text(classes) != isinstance(label, str):
        raise ValueError(f"label must be {'text' if is_text(classes) else 'a number'} like the classes, got {label!r}.")
    if not isinstance(label, str) and not (isinstance(label, Real) and math.isfinite(label)):
        raise ValueError(f"label must be text or a finite number, got {label!r}.")
    if label in classes.tolist():
        raise ValueError(f"label {label!r} is a class already; remove it first, or fit again with all its samples.")
    if label == clf.unknown_label_:
        raise ValueError(f"label {label!r} is what refused samples are called; choose another.")
    return label


def _joined_labels(old: AnyArray, label: Any, n: int) -> AnyArray:
    """Labels followed by n times another, in a type that cuts none of them."""
    new = np.full(n, label, dtype=object if old.dtype.kind == "O" else None)
    if old.dtype.kind in "iu" and new.dtype.kind in "iu" and np.result_type(old, new).kind not in "iu":
        return np.concatenate([old.astype(object), new.astype(object)])
    return np.concatenate([old, new])


def _moved(clf: SROSRClassifier, dictionary: Dictionary) -> Calibration:
    """The cross-tests in the numbers of another dictionary; what is not in it is left out.

    A sum of residuals over the other classes grows with their number: sums of non-matched errors are scaled by it.
    """
    old_classes, new_classes = np.asarray(clf.classes_), np.asarray(dictionary.classes_)
    classes = _places(old_classes.tolist(), new_classes.tolist())
    atoms = _places(clf.dictionary_.order.tolist(), dictionary.order.tolist())
    factor = (len(new_classes) - 1) / (len(old_classes) - 1)

    def moved(rows: CrossTest) -> CrossTest:
        rows = rows[(classes[rows.truth] >= 0) & (classes[rows.candidate] >= 0)]
        return replace(
            rows,
            sample=atoms[rows.sample],
            truth=classes[rows.truth],
            candidate=classes[rows.candidate],
            nonmatched=rows.nonmatched * factor,
        )

    c = clf.calibration_
    return replace(c, known=moved(c.known), simulated=moved(c.simulated), held_out=moved(c.held_out))


def _places(old: list[Any], new: list[Any]) -> IntArray:
    """Where each old thing is among the new ones; −1 where it is not."""
    place = {thing: i for i, thing in enumerate(new)}
    return np.array([place.get(thing, -1) for thing in old], dtype=np.int64)


def _recalibrated(
    clf: SROSRClassifier, dictionary: Dictionary, known: CrossTest, simulated: CrossTest, held_out: CrossTest
) -> Calibration:
    """Tails and distribution of new tables; the weights of the evidence stay."""
    old = clf.calibration_
    sizes = class_sizes(dictionary)
    weight = 0.0 if old.tails is None else old.tails.weight
    tails = fit_tails(known, sizes, clf.tail_size, weight) if len(known) else None
    pooled = np.array([n < MIN_SAMPLES for n in sizes] if tails is None else tails.pooled)
    if not isinstance(old.rule, CalibratedRule):
        if tails is None:
            raise ValueError("no sample of the classes that are left can be held out: fit again.")
        return Calibration(known, simulated, held_out, tails, tails, pooled)
    if not len(held_out) and not len(simulated):
        raise ValueError("of the classes that are left no sample was held out or left out: fit again.")
    fusion = refitted(old.rule.fusion, held_out.values) if len(held_out) else old.rule.fusion
    rule = calibrated_rule((fusion, old.rule.simulated), held_out, simulated, clf.tail_size)
    return Calibration(known, simulated, held_out, rule, tails, pooled)

"""Metrics follow their papers' definitions, on worked examples and under changes that must not matter."""

import doctest
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)

import srosr
from srosr.metrics.accuracy import (
    harmonic_normalized_accuracy,
    normalized_accuracy,
    open_set_accuracy,
    recognition_accuracy,
    rejection_accuracy,
    youden_j,
)
from srosr.metrics.confusion import open_set_confusion
from srosr.metrics.f_measure import open_set_f_measure
from srosr.metrics.oscr import ccr_at_fpr, oscr_area, oscr_curve
from srosr.metrics.ranking import fpr_at_tpr, open_set_aupr, open_set_auroc
from srosr.metrics.unknown_classes import mark_unknown, openness

# Six known samples: three right, one wrong, two rejected. Four unknown samples: one accepted, three rejected.
TRUE = ["a", "a", "b", "b", "c", "c", "?", "?", "?", "?"]
PRED = ["a", "a", "b", "a", "?", "?", "b", "?", "?", "?"]
NUMBER = {"a": 10, "b": 20, "c": 30, "?": -1}

micro_f = partial(open_set_f_measure, variant="micro")
macro_f = partial(open_set_f_measure, variant="macro")
OF_PREDICTIONS = [
    open_set_f_measure,
    micro_f,
    macro_f,
    open_set_accuracy,
    recognition_accuracy,
    rejection_accuracy,
    normalized_accuracy,
    harmonic_normalized_accuracy,
    youden_j,
]
SIDES = ["known", "unknown"]

# --- predictions --------------------------------------------------------------------------------------------


def test_a_worked_example_of_f_accuracy_and_j():
    """TP = 3, FN = 3, FP = 1, TN = 3."""
    assert open_set_f_measure(TRUE, PRED, unknown_label="?") == pytest.approx(2 * 3 / (2 * 3 + 1 + 3))
    assert open_set_accuracy(TRUE, PRED, unknown_label="?") == pytest.approx(6 / 10)
    assert youden_j(TRUE, PRED, unknown_label="?") == pytest.approx(3 / 4 - 2 / 6)


def test_a_worked_confusion():
    labels, matrix = open_set_confusion(TRUE, PRED, unknown_label="?")
    assert labels.tolist() == ["a", "b", "c", "?"]
    assert matrix.tolist() == [
        [2, 0, 0, 0],  # both right
        [1, 1, 0, 0],  # one taken for a
        [0, 0, 0, 2],  # both rejected
        [0, 1, 0, 3],  # one taken for b
    ]


def test_worked_micro_and_macro_f():
    """Of a, b, c: TP 2, 1, 0; predicted 3, 2, 0 times; with 2, 2, 2 samples."""
    # Micro: precision 3/5, recall 3/6; 2 * 3/5 * 3/6 / (3/5 + 3/6) = 6/11.
    assert micro_f(TRUE, PRED, unknown_label="?") == pytest.approx(6 / 11)
    # Macro: precision (2/3 + 1/2 + 0/0)/3 = 7/18, recall (1 + 1/2 + 0)/3 = 9/18; 2 * 7 * 9 / (7 + 9) / 18 = 7/16.
    assert macro_f(TRUE, PRED, unknown_label="?") == pytest.approx(7 / 16)
    # The mean of the F of the classes is another number: 4/5, 1/2 and 0.
    assert f1_score(TRUE, PRED, labels=["a", "b", "c"], average="macro", zero_division=0) == pytest.approx(13 / 30)


def test_worked_accuracies():
    """3 of 6 known samples are right, 3 of 4 unknown ones rejected."""
    assert recognition_accuracy(TRUE, PRED, unknown_label="?") == pytest.approx(3 / 6)
    assert rejection_accuracy(TRUE, PRED, unknown_label="?") == pytest.approx(3 / 4)
    # (1/2 + 3/4)/2 = 5/8; 0.2 * 1/2 + 0.8 * 3/4 = 0.7; 2/(2 + 4/3) = 6/10.
    assert normalized_accuracy(TRUE, PRED, unknown_label="?") == pytest.approx(5 / 8)
    assert normalized_accuracy(TRUE, PRED, unknown_label="?", known_weight=0.2) == pytest.approx(0.7)
    assert harmonic_normalized_accuracy(TRUE, PRED, unknown_label="?") == pytest.approx(6 / 10)


def test_the_f_measure_is_the_harmonic_mean_of_precision_and_recall():
    precision, recall = 3 / 4, 3 / 6
    expected = 2 * precision * recall / (precision + recall)
    assert open_set_f_measure(TRUE, PRED, unknown_label="?") == pytest.approx(expected)


def test_a_misclassified_known_sample_counts_like_a_rejected_one():
    """Neither as a false positive (Bendale & Boult) nor as a true positive (rejected and misclassified)."""
    wrong = open_set_f_measure(["a", "b", "?"], ["a", "a", "?"], unknown_label="?")
    rejected = open_set_f_measure(["a", "b", "?"], ["a", "?", "?"], unknown_label="?")
    assert wrong == rejected == pytest.approx(2 / 3)


def test_a_misclassified_known_sample_costs_micro_f_more_than_a_rejected_one():
    """It is missing from its class and wrong in the other: 2/(2 + 2), against 2/(1 + 2)."""
    assert micro_f(["a", "b", "?"], ["a", "a", "?"], unknown_label="?") == pytest.approx(2 / 4)
    assert micro_f(["a", "b", "?"], ["a", "?", "?"], unknown_label="?") == pytest.approx(2 / 3)


def test_macro_f_averages_over_the_classes_that_are_given():
    """a and b are perfect; c was trained, never tested and never predicted: precision and recall 2/3."""
    true, pred = ["a", "b", "?"], ["a", "b", "?"]
    assert macro_f(true, pred, unknown_label="?") == 1.0
    assert macro_f(true, pred, unknown_label="?", classes=["a", "b", "c"]) == pytest.approx(2 / 3)
    for variant in ("scheirer", "micro"):
        f = open_set_f_measure(true, pred, unknown_label="?", classes=["a", "b", "c"], variant=variant)
        assert f == 1.0


def test_a_class_that_is_predicted_and_never_tested_has_recall_zero():
    """Precision of a and c: 1 and 0; recall: 1 and 0/0. Both average to 1/2."""
    assert macro_f(["a", "?"], ["a", "c"], unknown_label="?") == pytest.approx(1 / 2)


def test_the_harmonic_mean_is_zero_if_all_or_nothing_is_rejected():
    assert harmonic_normalized_accuracy(TRUE, ["?"] * 10, unknown_label="?") == 0.0
    assert harmonic_normalized_accuracy(TRUE, ["a"] * 10, unknown_label="?") == 0.0
    assert normalized_accuracy(TRUE, ["?"] * 10, unknown_label="?") == 0.5


def test_the_rows_of_a_confusion_are_in_the_order_of_the_classes_given():
    labels, matrix = open_set_confusion(TRUE, PRED, unknown_label="?", classes=["c", "d", "b", "a"])
    assert labels.tolist() == ["c", "d", "b", "a", "?"]
    assert matrix.sum(axis=1).tolist() == [2, 0, 2, 2, 4]
    assert matrix.diagonal().tolist() == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("true", "pred", "unknown", "labels"),
    [
        ([3, 1, -1], [1, 1, -1], -1, [1, 3, -1]),
        (["b", "a", -1], ["a", -1, -1], -1, ["a", "b", -1]),
        (["b", 2, 10], [2, "b", "?"], "?", [2, 10, "b", "?"]),
        ([-1, -1], [-1, -1], -1, [-1]),
        (np.array([2**63, 1], np.uint64), np.array([1, 1], np.uint64), -1, [1, 2**63, -1]),
    ],
    ids=["numbers", "strings and a number", "both", "unknown only", "integers beyond int64"],
)
def test_the_names_of_a_confusion_are_the_labels_as_they_were(true, pred, unknown, labels):
    found, matrix = open_set_confusion(true, pred, unknown_label=unknown)
    assert found.tolist() == labels and matrix.shape == (len(labels), len(labels))


def test_the_extremes():
    assert open_set_f_measure(TRUE, TRUE, unknown_label="?") == 1.0
    assert open_set_accuracy(TRUE, TRUE, unknown_label="?") == 1.0
    assert youden_j(TRUE, TRUE, unknown_label="?") == 1.0
    nothing = ["?"] * len(TRUE)
    assert open_set_f_measure(TRUE, nothing, unknown_label="?") == 0.0
    assert open_set_accuracy(TRUE, nothing, unknown_label="?") == pytest.approx(4 / 10)
    assert youden_j(TRUE, nothing, unknown_label="?") == 0.0
    inverted = ["?" if label != "?" else "a" for label in TRUE]
    assert youden_j(TRUE, inverted, unknown_label="?") == -1.0


def test_without_unknown_samples_f_and_accuracy_are_defined():
    assert open_set_f_measure([1, 2, 2], [1, 2, -1], unknown_label=-1) == pytest.approx(2 * 2 / (2 * 2 + 1))
    assert open_set_accuracy([1, 2, 2], [1, 2, -1], unknown_label=-1) == pytest.approx(2 / 3)


@pytest.mark.parametrize("metric", OF_PREDICTIONS)
@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        lambda labels: np.array(labels, dtype=object),
        pd.Series,
        lambda labels: pd.Series(labels, dtype="category"),
    ],
    ids=["list", "tuple", "array", "object array", "Series", "categorical"],
)
def test_strings_and_numbers_in_any_container_mean_the_same(metric, form):
    expected = metric(TRUE, PRED, unknown_label="?")
    assert metric(form(TRUE), form(PRED), unknown_label="?") == expected
    numbers = [[NUMBER[label] for label in labels] for labels in (TRUE, PRED)]
    assert metric(form(numbers[0]), form(numbers[1]), unknown_label=-1) == expected
    assert metric(form(numbers[0]), np.array(numbers[1], dtype=float), unknown_label=np.int8(-1)) == expected


def test_string_classes_can_have_a_number_as_unknown_label():
    """NumPy alone would turn the -1 of such a list into the string '-1'."""
    mixed = [[-1 if label == "?" else label for label in labels] for labels in (TRUE, PRED)]
    expected = open_set_f_measure(TRUE, PRED, unknown_label="?")
    assert open_set_f_measure(*mixed, unknown_label=-1) == expected
    assert open_set_f_measure(mixed[0], np.array(mixed[1], dtype=object), unknown_label=-1) == expected


def test_bytes_are_labels_too_but_not_the_same_as_strings():
    coded = [np.array(labels, dtype="S") for labels in (TRUE, PRED)]
    assert open_set_f_measure(*coded, unknown_label=b"?") == open_set_f_measure(TRUE, PRED, unknown_label="?")
    with pytest.raises(ValueError, match="y_true holds bytes and y_pred strings"):
        open_set_f_measure(coded[0], PRED, unknown_label="?")


labels = st.lists(st.sampled_from("abc?"), min_size=12, max_size=12)
both_kinds = labels.map(lambda some: ["a", "?", *some])


@given(both_kinds, labels, st.permutations("abc"), st.randoms())
def test_names_of_classes_and_order_of_samples_do_not_matter(true, pred, names, random):
    pred = ["b", "a", *pred]
    rename = dict(zip("abc", names, strict=True)) | {"?": "nobody"}
    order = list(range(len(true)))
    random.shuffle(order)
    for metric in OF_PREDICTIONS:
        renamed = metric([rename[true[i]] for i in order], [rename[pred[i]] for i in order], unknown_label="nobody")
        assert renamed == pytest.approx(metric(true, pred, unknown_label="?"))


def parts(true, pred, classes="abc"):
    """Return Scheirer's counts, read off the confusion matrix."""
    _, matrix = open_set_confusion(true, pred, unknown_label="?", classes=list(classes))
    tp = np.trace(matrix) - matrix[-1, -1]
    return tp, matrix[:-1].sum() - tp, matrix[-1, :-1].sum(), matrix[-1, -1]


@given(both_kinds, labels)
def test_the_confusion_is_scikit_learns_with_the_unknown_label_last(true, pred):
    pred = ["b", "a", *pred]
    _, matrix = open_set_confusion(true, pred, unknown_label="?", classes=["a", "b", "c"])
    np.testing.assert_array_equal(matrix, confusion_matrix(true, pred, labels=["a", "b", "c", "?"]))
    assert matrix.sum(axis=1).tolist() == [true.count(label) for label in "abc?"]
    assert matrix.sum(axis=0).tolist() == [pred.count(label) for label in "abc?"]


@given(both_kinds, labels)
def test_f_and_accuracies_can_be_read_off_the_confusion(true, pred):
    pred = ["b", "a", *pred]
    tp, fn, fp, tn = parts(true, pred)
    assert open_set_f_measure(true, pred, unknown_label="?") == pytest.approx(2 * tp / (2 * tp + fp + fn))
    assert open_set_accuracy(true, pred, unknown_label="?") == pytest.approx((tp + tn) / len(true))
    assert recognition_accuracy(true, pred, unknown_label="?") == pytest.approx(tp / (tp + fn))
    assert rejection_accuracy(true, pred, unknown_label="?") == pytest.approx(tn / (tn + fp))


@given(both_kinds, labels)
def test_micro_and_macro_f_combine_scikit_learns_precision_and_recall_over_the_known_classes(true, pred):
    pred = ["b", "a", *pred]
    known = ["a", "b", "c"]
    for average in ("micro", "macro"):
        given_labels = {"labels": known, "average": average, "zero_division": 0}
        p, r = (score(true, pred, **given_labels) for score in (precision_score, recall_score))
        expected = 2 * p * r / (p + r) if p + r else 0.0
        f = open_set_f_measure(true, pred, unknown_label="?", variant=average, classes=known)
        assert f == pytest.approx(expected)
    # Of the micro average scikit-learn's F is the same number; of the macro average it is another, never larger.
    assert micro_f(true, pred, unknown_label="?") == pytest.approx(
        f1_score(true, pred, labels=known, average="micro", zero_division=0)
    )
    mean_of_f = f1_score(true, pred, labels=known, average="macro", zero_division=0)
    assert macro_f(true, pred, unknown_label="?", classes=known) >= mean_of_f - 1e-12


@given(both_kinds, labels)
def test_micro_f_is_at_most_scheirers_and_equal_where_nothing_accepted_is_misclassified(true, pred):
    pred = ["b", "a", *pred]
    assert micro_f(true, pred, unknown_label="?") <= open_set_f_measure(true, pred, unknown_label="?") + 1e-12
    without = ["?" if t != "?" and p != t else p for t, p in zip(true, pred, strict=True)]
    f = open_set_f_measure(true, without, unknown_label="?")
    assert micro_f(true, without, unknown_label="?") == pytest.approx(f)
    # Rejecting what would have been misclassified leaves Scheirer's F as it was.
    assert f == pytest.approx(open_set_f_measure(true, pred, unknown_label="?"))


@given(both_kinds, labels)
def test_f_measures_and_accuracies_lie_between_zero_and_one(true, pred):
    pred = ["b", "a", *pred]
    for metric in OF_PREDICTIONS:
        assert (-1 if metric is youden_j else 0) <= metric(true, pred, unknown_label="?") <= 1
        assert metric(true, true, unknown_label="?") == 1.0


@given(both_kinds, labels, st.floats(0, 1))
def test_normalized_accuracy_lies_between_the_two_and_is_accuracy_at_the_share_of_the_known(true, pred, weight):
    pred = ["b", "a", *pred]
    known, unknown = (f(true, pred, unknown_label="?") for f in (recognition_accuracy, rejection_accuracy))
    mean = normalized_accuracy(true, pred, unknown_label="?", known_weight=weight)
    assert min(known, unknown) - 1e-12 <= mean <= max(known, unknown) + 1e-12
    share = np.mean([label != "?" for label in true])
    assert normalized_accuracy(true, pred, unknown_label="?", known_weight=share) == pytest.approx(
        open_set_accuracy(true, pred, unknown_label="?")
    )
    assert normalized_accuracy(true, pred, unknown_label="?", known_weight=1) == known
    assert normalized_accuracy(true, pred, unknown_label="?", known_weight=0) == unknown


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc?"), st.sampled_from("abc?")), min_size=1))
def test_with_as_many_known_as_unknown_samples_normalized_accuracy_is_accuracy(rows):
    true = [t for t, _, _ in rows] + ["?"] * len(rows)
    pred = [p for _, p, _ in rows] + [p for _, _, p in rows]
    accuracy = open_set_accuracy(true, pred, unknown_label="?")
    assert normalized_accuracy(true, pred, unknown_label="?") == pytest.approx(accuracy)


@given(both_kinds, labels, st.integers(2, 5))
def test_the_number_of_unknown_samples_does_not_matter_to_the_normalized_accuracies(true, pred, times):
    pred = ["b", "a", *pred]
    more = [(t, p) for t, p in zip(true, pred, strict=True) for _ in range(times if t == "?" else 1)]
    for metric in (normalized_accuracy, harmonic_normalized_accuracy, youden_j):
        after = metric(*zip(*more, strict=True), unknown_label="?")
        assert after == pytest.approx(metric(true, pred, unknown_label="?"))


@given(both_kinds, labels)
def test_the_harmonic_mean_lies_between_the_smaller_accuracy_and_the_mean(true, pred):
    pred = ["b", "a", *pred]
    harmonic = harmonic_normalized_accuracy(true, pred, unknown_label="?")
    known, unknown = (f(true, pred, unknown_label="?") for f in (recognition_accuracy, rejection_accuracy))
    assert min(known, unknown) - 1e-12 <= harmonic
    assert harmonic <= normalized_accuracy(true, pred, unknown_label="?") + 1e-12
    assert (harmonic == 0) == (known == 0 or unknown == 0)


@given(st.lists(st.sampled_from("a?"), min_size=6, max_size=6), st.lists(st.sampled_from("a?"), min_size=8, max_size=8))
def test_of_one_known_class_normalized_accuracy_is_balanced_accuracy_and_youdens_j(true, pred):
    true = ["a", "?", *true]
    mean = normalized_accuracy(true, pred, unknown_label="?")
    assert mean == pytest.approx(balanced_accuracy_score(true, pred))
    assert mean == pytest.approx((youden_j(true, pred, unknown_label="?") + 1) / 2)


# --- curves ---------------------------------------------------------------------------------------------


def test_a_worked_oscr_curve():
    """By score: right, right together with unknown, wrong, unknown, right."""
    true = ["a", "b", "?", "a", "?", "b"]
    candidate = ["a", "b", "a", "b", "b", "b"]
    score = [0.1, 0.2, 0.2, 0.3, 0.5, 0.9]
    fpr, ccr, thresholds = oscr_curve(true, candidate, score, unknown_label="?")
    np.testing.assert_allclose(fpr, [0, 0, 0.5, 0.5, 1, 1])
    np.testing.assert_allclose(ccr, [0, 0.25, 0.5, 0.5, 0.5, 0.75])
    np.testing.assert_array_equal(thresholds, [-np.inf, 0.1, 0.2, 0.3, 0.5, 0.9])
    # A trapezium over the tie, then a rectangle; the last known sample comes after all unknown ones.
    assert oscr_area(true, candidate, score, unknown_label="?") == pytest.approx(0.5 * 0.375 + 0.5 * 0.5)


def test_worked_points_of_that_curve():
    """Accepting neither, one or both of the unknown samples leaves CCR 1/4, 2/4 and 3/4."""
    rows = (["a", "b", "?", "a", "?", "b"], ["a", "b", "a", "b", "b", "b"], [0.1, 0.2, 0.2, 0.3, 0.5, 0.9])
    at = {fpr: ccr_at_fpr(*rows, unknown_label="?", fpr=fpr) for fpr in (0, 0.49, 0.5, 0.99, 1)}
    # Not 0.25 + 0.49/0.5 * 0.25, which the line to the tie would say at 0.49.
    assert at == {0: 0.25, 0.49: 0.25, 0.5: 0.5, 0.99: 0.5, 1: 0.75}


def test_an_unknown_sample_of_the_lowest_score_leaves_nothing_at_a_false_positive_rate_of_zero():
    assert ccr_at_fpr(["a", "b", "?"], ["a", "b", "a"], [2, 3, 1], unknown_label="?", fpr=0) == 0.0


def test_worked_average_precision():
    """From the most unknown: unknown; then known and unknown tied; then known, unknown, known."""
    true, score = ["?", "a", "?", "a", "?", "a"], [9, 7, 7, 5, 4, 1]
    # Unknown: precision 1/1, then 2/3 after the tie, 3/5; each for a third of the recall.
    assert open_set_aupr(true, score, unknown_label="?") == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    # Known, from the other end: 1/1, 2/3, and 3/5 with the tie.
    known = open_set_aupr(true, score, unknown_label="?", positive="known")
    assert known == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    # Without the last known sample the sides differ: 1/2 and 2/4 with the tie, against 1, 2/3 and 3/5.
    assert open_set_aupr(true[:5], score[:5], unknown_label="?") == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    known = open_set_aupr(true[:5], score[:5], unknown_label="?", positive="known")
    assert known == pytest.approx((1 / 2 + 2 / 4) / 2)


def test_worked_false_positive_rates():
    """By score: a a a ? (a ?) a ?, the parentheses tied. Five known samples, three unknown ones."""
    true, score = ["a", "a", "a", "?", "a", "?", "a", "?"], [1, 2, 3, 4, 5, 5, 6, 7]
    known = {t: fpr_at_tpr(true, score, unknown_label="?", tpr=t) for t in (0.01, 0.6, 0.61, 0.8, 0.81, 1)}
    # 3 known samples, 60 %, before any unknown one; the fourth comes with two of three unknown ones, like the fifth.
    assert known == {0.01: 0, 0.6: 0, 0.61: 2 / 3, 0.8: 2 / 3, 0.81: 2 / 3, 1: 2 / 3}
    unknown = {t: fpr_at_tpr(true, score, unknown_label="?", tpr=t, positive="unknown") for t in (0.33, 0.34, 1)}
    # The first unknown sample from the top costs nothing, the second two of five known samples, the third no more.
    assert unknown == {0.33: 0, 0.34: 2 / 5, 1: 2 / 5}
    assert fpr_at_tpr(true, score, unknown_label="?") == known[1]


def test_a_point_of_the_curve_is_what_its_threshold_does():
    rng = np.random.default_rng(0)
    true = rng.choice(["a", "b", "?"], 60)
    candidate, score = rng.choice(["a", "b"], 60), rng.integers(0, 9, 60) / 8
    for x, y, t in zip(*oscr_curve(true, candidate, score, unknown_label="?"), strict=True):
        accepted, known = score <= t, true != "?"
        assert x == pytest.approx(accepted[~known].mean())
        assert y == pytest.approx((accepted & (candidate == true))[known].mean())


def test_scores_that_are_all_the_same_give_half_of_the_closed_set_accuracy():
    true, candidate = ["a", "a", "b", "b", "?"], ["a", "a", "b", "a", "a"]
    assert oscr_area(true, candidate, np.zeros(5), unknown_label="?") == pytest.approx(0.75 / 2)
    assert open_set_auroc(true, np.zeros(5), unknown_label="?") == 0.5
    assert ccr_at_fpr(true, candidate, np.zeros(5), unknown_label="?", fpr=0.5) == 0.0
    # The share of the positive side, and all of the other side.
    assert open_set_aupr(true, np.zeros(5), unknown_label="?") == pytest.approx(1 / 5)
    assert open_set_aupr(true, np.zeros(5), unknown_label="?", positive="known") == pytest.approx(4 / 5)
    assert fpr_at_tpr(true, np.zeros(5), unknown_label="?", tpr=0.1) == 1.0


def test_perfect_scores_give_the_closed_set_accuracy():
    true, candidate = ["a", "a", "b", "b", "?"], ["a", "a", "b", "a", "a"]
    assert oscr_area(true, candidate, [0, 1, 2, 3, 4], unknown_label="?") == pytest.approx(0.75)
    assert oscr_area(true, candidate, [1, 2, 3, 4, 0], unknown_label="?") == 0.0


def test_infinite_scores_have_a_rank():
    assert open_set_auroc([1, 1, -1, -1], [-np.inf, 0.0, 1.0, np.inf], unknown_label=-1) == 1.0
    assert oscr_area([1, 1, -1, -1], [1, 1, 1, 1], [-np.inf, 0.0, 1.0, np.inf], unknown_label=-1) == 1.0
    for side in SIDES:
        true, score = [1, 1, -1, -1], [-np.inf, 0.0, 1.0, np.inf]
        assert open_set_aupr(true, score, unknown_label=-1, positive=side) == 1.0
        assert fpr_at_tpr(true, score, unknown_label=-1, positive=side, tpr=1) == 0.0


ranked = st.lists(
    st.tuples(st.sampled_from("ab?"), st.sampled_from("ab"), st.integers(-6, 6)), min_size=1, max_size=40
).map(lambda rows: [*rows, ("a", "a", 0), ("?", "b", 1)])


@given(ranked)
def test_auroc_agrees_with_scikit_learn_ties_included(rows):
    true, _, score = zip(*rows, strict=True)
    expected = roc_auc_score(np.array(true) == "?", score)
    assert open_set_auroc(true, score, unknown_label="?") == pytest.approx(expected, abs=1e-12)


@given(ranked)
def test_average_precision_agrees_with_scikit_learn_from_either_side(rows):
    true, _, score = zip(*rows, strict=True)
    unknown = np.array(true) == "?"
    assert open_set_aupr(true, score, unknown_label="?") == pytest.approx(average_precision_score(unknown, score))
    known = open_set_aupr(true, score, unknown_label="?", positive="known")
    assert known == pytest.approx(average_precision_score(~unknown, -np.array(score)))


shares = st.one_of(st.sampled_from([0.05, 0.5, 0.75, 0.9, 0.95, 1.0]), st.floats(1e-3, 1))


@given(ranked, shares, st.sampled_from(SIDES))
def test_a_false_positive_rate_is_the_least_of_the_roc_points_with_the_true_positive_rate(rows, tpr, side):
    true, _, score = zip(*rows, strict=True)
    unknown = np.array(true) == "?"
    fprs, tprs, _ = (
        roc_curve(unknown, score, drop_intermediate=False)
        if side == "unknown"
        else roc_curve(~unknown, -np.array(score), drop_intermediate=False)
    )
    expected = fprs[tprs >= tpr].min()
    assert fpr_at_tpr(true, score, unknown_label="?", tpr=tpr, positive=side) == pytest.approx(expected)


@given(ranked, shares)
def test_exchanging_the_roles_and_negating_the_score_exchanges_the_sides(rows, tpr):
    true, _, score = zip(*rows, strict=True)
    swapped, negated = ["k" if t == "?" else "?" for t in true], -np.array(score)
    for one, other in (SIDES, SIDES[::-1]):
        for metric in (open_set_aupr, partial(fpr_at_tpr, tpr=tpr)):
            before = metric(true, score, unknown_label="?", positive=one)
            assert metric(swapped, negated, unknown_label="?", positive=other) == before
    assert open_set_auroc(swapped, negated, unknown_label="?") == open_set_auroc(true, score, unknown_label="?")


@given(ranked, shares)
def test_a_higher_true_positive_rate_never_costs_less(rows, tpr):
    true, _, score = zip(*rows, strict=True)
    for side in SIDES:
        rate = partial(fpr_at_tpr, true, score, unknown_label="?", positive=side)
        assert 0 <= rate(tpr=tpr / 2) <= rate(tpr=tpr) <= rate(tpr=1.0) <= 1


@given(ranked, st.one_of(st.just(0.0), shares))
def test_ccr_at_an_fpr_is_the_best_of_the_thresholds_that_keep_it_and_at_most_the_line(rows, fpr):
    true, candidate, score = zip(*rows, strict=True)
    rates, ccr, _ = oscr_curve(true, candidate, score, unknown_label="?")
    found = ccr_at_fpr(true, candidate, score, unknown_label="?", fpr=fpr)
    assert found == ccr[rates <= fpr].max()
    # On a vertical piece the line is at its upper end.
    after = int(np.searchsorted(rates, fpr, side="right"))
    line = ccr[-1] if after == len(rates) else np.interp(fpr, rates[after - 1 : after + 1], ccr[after - 1 : after + 1])
    assert found <= line + 1e-12


@given(ranked, shares)
def test_where_every_candidate_is_right_ccr_and_fpr_are_inverse_readings_of_the_roc_curve(rows, tpr):
    true, candidate, score = zip(*rows, strict=True)
    right = [c if t == "?" else t for t, c in zip(true, candidate, strict=True)]
    fpr = fpr_at_tpr(true, score, unknown_label="?", tpr=tpr)
    assert ccr_at_fpr(true, right, score, unknown_label="?", fpr=fpr) >= tpr


@given(ranked)
def test_oscr_is_at_most_auroc_and_at_most_the_closed_set_accuracy(rows):
    true, candidate, score = zip(*rows, strict=True)
    area = oscr_area(true, candidate, score, unknown_label="?")
    closed = np.mean([t == c for t, c, _ in rows if t != "?"])
    assert 0 <= area <= min(closed, open_set_auroc(true, score, unknown_label="?")) + 1e-12
    tied = oscr_area(true, candidate, np.ones(len(true)), unknown_label="?")
    assert tied == pytest.approx(closed / 2)


@given(ranked, st.randoms())
def test_the_order_of_the_samples_does_not_matter_to_curves_and_rates(rows, random):
    shuffled = rows.copy()
    random.shuffle(shuffled)
    before, after = (list(zip(*some, strict=True)) for some in (rows, shuffled))
    for metric in (oscr_area, partial(ccr_at_fpr, fpr=0.2)):
        assert metric(*after, unknown_label="?") == metric(*before, unknown_label="?")
    for metric in (open_set_auroc, open_set_aupr, fpr_at_tpr):
        one, other = (metric(some[0], some[2], unknown_label="?") for some in (before, after))
        assert one == pytest.approx(other)


@given(ranked)
def test_oscr_equals_auroc_where_every_known_sample_is_classified_right(rows):
    true, candidate, score = zip(*rows, strict=True)
    right = [c if t == "?" else t for t, c in zip(true, candidate, strict=True)]
    area = oscr_area(true, right, score, unknown_label="?")
    assert area == pytest.approx(open_set_auroc(true, score, unknown_label="?"), abs=1e-12)


@given(ranked)
def test_oscr_is_the_chance_of_a_right_class_and_a_lower_score_than_an_unknown(rows):
    known = [(t == c, s) for t, c, s in rows if t != "?"]
    unknown = [s for t, _, s in rows if t == "?"]
    wins = sum(right * (1.0 if s < u else 0.5 if s == u else 0.0) for right, s in known for u in unknown)
    true, candidate, score = zip(*rows, strict=True)
    area = oscr_area(true, candidate, score, unknown_label="?")
    assert area == pytest.approx(wins / len(known) / len(unknown), abs=1e-12)


@given(ranked, st.sampled_from([np.exp, np.cbrt, lambda s: 3 * s - 7, lambda s: s / (1 + abs(s))]))
def test_monotone_transforms_of_the_score_change_nothing(rows, transform):
    true, candidate, score = zip(*rows, strict=True)
    moved = transform(np.array(score, dtype=float))
    for metric in (open_set_auroc, open_set_aupr, partial(open_set_aupr, positive="known"), fpr_at_tpr):
        assert metric(true, moved, unknown_label="?") == metric(true, score, unknown_label="?")
    points = [ccr_at_fpr(true, candidate, s, unknown_label="?", fpr=0.3) for s in (score, moved)]
    assert points[0] == points[1]
    before, after = (oscr_curve(true, candidate, s, unknown_label="?") for s in (score, moved))
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])


@given(ranked)
def test_relabeling_and_candidates_of_unknown_samples_change_nothing(rows):
    true, candidate, score = zip(*rows, strict=True)
    number = {"a": 7, "b": 3, "?": -1}
    renamed = [number[label] for label in true]
    others = [8 if t == "?" else number[c] for t, c in zip(true, candidate, strict=True)]
    area = oscr_area(true, candidate, score, unknown_label="?")
    assert oscr_area(renamed, others, score, unknown_label=-1) == area
    auroc = open_set_auroc(true, score, unknown_label="?")
    assert open_set_auroc(renamed, score, unknown_label=-1) == auroc
    # Swapping the sides, and negating the score, gives the complement.
    swapped = ["k" if t == "?" else "?" for t in true]
    assert open_set_auroc(swapped, score, unknown_label="?") == pytest.approx(1 - auroc)


@given(ranked)
def test_the_curve_starts_at_nothing_ends_at_closed_set_accuracy_and_only_rises(rows):
    true, candidate, score = zip(*rows, strict=True)
    fpr, ccr, thresholds = oscr_curve(true, candidate, score, unknown_label="?")
    known = [(t, c) for t, c, _ in rows if t != "?"]
    assert (fpr[0], ccr[0], fpr[-1]) == (0, 0, 1)
    assert ccr[-1] == pytest.approx(np.mean([t == c for t, c in known]))
    assert (np.diff(fpr) >= 0).all() and (np.diff(ccr) >= 0).all() and (np.diff(thresholds) > 0).all()


# --- weights --------------------------------------------------------------------------------------------

OF_SCORES = [
    open_set_auroc,
    open_set_aupr,
    partial(open_set_aupr, positive="known"),
    fpr_at_tpr,
    partial(fpr_at_tpr, tpr=0.5, positive="unknown"),
]
OF_CANDIDATES = [
    oscr_area,
    partial(ccr_at_fpr, fpr=0.0),
    partial(ccr_at_fpr, fpr=0.1),
    partial(ccr_at_fpr, fpr=0.5),
]
weighted = st.lists(
    st.tuples(st.sampled_from("abc?"), st.sampled_from("abc?"), st.integers(-6, 6), st.integers(0, 3)), max_size=40
).map(lambda rows: [*rows, ("a", "a", 0, 1), ("?", "b", 1, 2)])


def unzip(rows):
    return [np.array(column) for column in zip(*rows, strict=True)]


def name_classes(labels):
    """Candidates never are the unknown label."""
    return np.where(labels == "?", "a", labels)


@given(weighted)
def test_an_integer_weight_is_the_same_as_repeating_the_sample(rows):
    """Exactly: sums of integers have no rounding."""
    true, pred, score, weight = unzip(rows)
    repeated = [np.repeat(column, weight) for column in (true, pred, score)]
    for metric in OF_PREDICTIONS:
        found = metric(true, pred, unknown_label="?", sample_weight=weight)
        assert found == metric(*repeated[:2], unknown_label="?")
        assert found == metric(true, pred, unknown_label="?", sample_weight=weight.astype(float))
    for metric in OF_SCORES:
        found = metric(true, score, unknown_label="?", sample_weight=weight)
        assert found == metric(repeated[0], repeated[2], unknown_label="?")
    for metric in OF_CANDIDATES:
        found = metric(true, name_classes(pred), score, unknown_label="?", sample_weight=weight)
        assert found == metric(repeated[0], name_classes(repeated[1]), repeated[2], unknown_label="?")


@given(weighted)
def test_a_weighted_confusion_and_curve_are_those_of_repeated_samples(rows):
    true, pred, score, weight = unzip(rows)
    repeated = [np.repeat(column, weight) for column in (true, pred, score)]
    labels, matrix = open_set_confusion(true, pred, unknown_label="?", sample_weight=weight)
    expected_labels, expected = open_set_confusion(*repeated[:2], unknown_label="?")
    assert labels.tolist() == expected_labels.tolist() and matrix.dtype == np.int64
    np.testing.assert_array_equal(matrix, expected)
    curve = oscr_curve(true, name_classes(pred), score, unknown_label="?", sample_weight=weight)
    again = oscr_curve(repeated[0], name_classes(repeated[1]), repeated[2], unknown_label="?")
    for found, wanted in zip(curve, again, strict=True):
        np.testing.assert_array_equal(found, wanted)


@given(weighted, st.randoms())
def test_fractional_weights_agree_with_scikit_learn(rows, random):
    true, pred, score, _ = unzip(rows)
    weight = np.array([random.random() + 1e-3 for _ in true])
    unknown, options = true == "?", {"unknown_label": "?", "sample_weight": weight}
    assert open_set_auroc(true, score, **options) == pytest.approx(roc_auc_score(unknown, score, sample_weight=weight))
    expected = average_precision_score(unknown, score, sample_weight=weight)
    assert open_set_aupr(true, score, **options) == pytest.approx(expected)
    _, matrix = open_set_confusion(true, pred, classes=list("abc"), **options)
    np.testing.assert_allclose(matrix, confusion_matrix(true, pred, labels=list("abc?"), sample_weight=weight))
    f1 = f1_score(true, pred, labels=list("abc"), average="micro", zero_division=0, sample_weight=weight)
    assert micro_f(true, pred, **options) == pytest.approx(f1)
    assert recognition_accuracy(true, pred, **options) == pytest.approx(
        np.average((pred == true)[~unknown], weights=weight[~unknown])
    )
    # Twice the weight for all changes nothing.
    assert youden_j(true, pred, **options) == pytest.approx(
        youden_j(true, pred, unknown_label="?", sample_weight=2 * weight)
    )


@given(weighted)
def test_sorted_samples_have_the_same_metrics(rows):
    """Scores in ascending order take a shortcut."""
    in_order = sorted(rows, key=lambda row: row[2])
    before, after = unzip(rows), unzip(in_order)
    for metric in OF_SCORES:
        one, other = (metric(t, s, unknown_label="?", sample_weight=w) for t, _, s, w in (before, after))
        assert one == other
    for metric in OF_CANDIDATES:
        one, other = (
            metric(t, name_classes(p), s, unknown_label="?", sample_weight=w) for t, p, s, w in (before, after)
        )
        assert one == other


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2, 3], r"one number per sample, shape \(2,\), got \(3,\)"),
        ([[1], [1]], r"got \(2, 1\)"),
        (["a", "b"], "sample_weight must be an array of numbers"),
        ([1, -1], "finite and not negative"),
        ([1, np.nan], "finite and not negative"),
        ([0, 0.0], "sample_weight is 0 for every sample"),
    ],
)
def test_weights_are_checked(weight, message):
    for metric in OF_PREDICTIONS:
        with pytest.raises(ValueError, match=message):
            metric([1, -1], [1, -1], unknown_label=-1, sample_weight=weight)
    for metric in OF_SCORES:
        with pytest.raises(ValueError, match=message):
            metric([1, -1], [0.0, 1.0], unknown_label=-1, sample_weight=weight)


def test_samples_of_weight_zero_do_not_count_as_known_or_unknown():
    with pytest.raises(ValueError, match="no unknown samples"):
        open_set_auroc([1, 1, -1], [0.1, 0.2, 0.3], unknown_label=-1, sample_weight=[1, 1, 0])
    with pytest.raises(ValueError, match="unknown samples only"):
        recognition_accuracy([1, -1], [1, -1], unknown_label=-1, sample_weight=[0, 1])


# --- openness -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_train", "n_test", "percent"),
    [
        (20, 51, 24.94),  # Caltech-256, fewest and most test classes
        (20, 60, 29.29),
        (10, 20, 18.35),  # Extended Yale B
        (10, 38, 35.45),
        (10, 11, 2.41),  # UIUC attributes, whose most, 10 and 20, are the fewest of Yale B
        (6, 7, 3.92),  # MNIST
        (6, 10, 13.40),
    ],
)
def test_openness_is_that_of_the_papers(n_train, n_test, percent):
    assert round(100 * openness(n_train, n_train, n_test), 2) == percent


def test_openness_by_the_other_formulas():
    """Six of ten: 1 − √(12/16) = 13.40 %, 1 − √(6/10) = 22.54 %. With four targets Scheirer's is 1 − √(12/14)."""
    assert round(100 * openness(6, 6, 10, variant="sqrt_ratio"), 2) == 22.54
    assert round(100 * openness(6, 6, 10, variant="geng"), 2) == 13.40
    assert openness(6, 4, 10) == pytest.approx(1 - np.sqrt(12 / 14))
    for n_target in (4, 6, None):
        assert openness(6, n_target, 10, variant="geng") == openness(6, 6, 10)
        assert openness(6, n_target, 10, variant="sqrt_ratio") == pytest.approx(1 - np.sqrt(0.6))


@given(st.integers(1, 200), st.integers(0, 200))
def test_openness_lies_in_the_unit_interval_and_the_formulas_keep_their_order(n_train, others):
    found = [openness(n_train, n_train, n_train + others, variant=v) for v in ("scheirer", "geng", "sqrt_ratio")]
    assert 0 <= found[0] == found[1] <= found[2] < 1
    assert (found[2] == 0) == (others == 0)
    assert openness(n_train, n_train, n_train + others + 1) > found[0]


def test_a_closed_set_has_openness_zero():
    assert openness(5, 5, 5) == 0.0
    assert openness(5, 5, 5, variant="geng") == openness(5, 5, 5, variant="sqrt_ratio") == 0.0
    assert isinstance(openness(np.int64(5), 5, 9), float)


@pytest.mark.parametrize("bad", [0, -2, 2.5, True, "3", None])
@pytest.mark.parametrize("name", ["n_train", "n_target", "n_test"])
def test_numbers_of_classes_are_checked(name, bad):
    with pytest.raises(ValueError, match=f"{name} must be a number of classes"):
        openness(**({"n_train": 2, "n_target": 2, "n_test": 5} | {name: bad}))


def test_openness_below_zero_raises():
    with pytest.raises(ValueError, match="n_test counts all classes of the test, the known ones included"):
        openness(10, 10, 9)
    for variant in ("geng", "sqrt_ratio"):
        with pytest.raises(ValueError, match="openness would be negative"):
            openness(10, 12, 9, variant=variant)


def test_only_scheirers_openness_needs_the_number_of_targets():
    with pytest.raises(ValueError, match="n_target must be a number of classes"):
        openness(6, None, 10)
    with pytest.raises(ValueError, match="n_target must be a number of classes"):
        openness(6, 0, 10, variant="geng")


# --- mark_unknown ---------------------------------------------------------------------------------------


def test_labels_that_are_no_class_become_the_unknown_label():
    assert mark_unknown(["a", "z", "b"], ["b", "a"], unknown_label="unknown").tolist() == ["a", "unknown", "b"]
    assert mark_unknown(np.array([3, 9], np.uint8), [3, 4], unknown_label=-1).tolist() == [3, -1]
    assert mark_unknown(["a", "z"], np.array(["a"]), unknown_label=-1).tolist() == ["a", -1]
    assert mark_unknown(["a", -1], np.array(["a"]), unknown_label=-1).tolist() == ["a", -1]
    assert mark_unknown([1.0, 2.5], [1, 2], unknown_label=0).tolist() == [1.0, 0.0]


def test_the_unknown_label_may_not_be_a_class():
    with pytest.raises(ValueError, match="unknown_label 2 is one of classes"):
        mark_unknown([1, 2], [1, 2], unknown_label=2)


def test_labels_of_another_kind_than_the_classes_raise():
    with pytest.raises(ValueError, match="y holds strings and classes numbers"):
        mark_unknown(["1", "2"], [1, 2], unknown_label=-1)


# --- invalid arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("true", "pred", "unknown", "message"),
    [
        (["a", "?"], ["a"], "?", "y_true has 2, y_pred has 1"),
        ([], [], "?", "y_true is empty"),
        ([["a"], ["?"]], ["a", "?"], "?", r"y_true must be one-dimensional.*\(2, 1\)"),
        ("a?", ["a", "?"], "?", "y_true must be a list or array"),
        (3, ["a", "?"], "?", "y_true must be a list or array"),
        ([1.0, np.nan], [1, -1], -1, "y_true contains NaN"),
        (["a", np.nan], ["a", "?"], "?", "y_true contains NaN"),
        (["a", None], ["a", "?"], "?", "y_true holds NoneType"),
        (np.array(["2020-01-01"], "datetime64[D]"), [1], -1, "y_true holds datetime64"),
        ([1, 2, -1], ["1", "2", "-1"], -1, "y_true holds numbers and y_pred strings"),
        (["1", "-1"], ["1", "-1"], -1, "unknown_label is -1, of numbers, and all labels are strings"),
        ([1, -1], [1, -1], None, "unknown_label holds NoneType"),
        ([1, -1], [1, -1], np.nan, "unknown_label contains NaN"),
    ],
)
@pytest.mark.parametrize("metric", OF_PREDICTIONS)
def test_labels_that_cannot_be_compared_raise_with_the_reason(metric, true, pred, unknown, message):
    with pytest.raises(ValueError, match=message):
        metric(true, pred, unknown_label=unknown)


@pytest.mark.parametrize(
    "metric",
    [
        lambda true: youden_j(true, true, unknown_label=-1),
        lambda true: normalized_accuracy(true, true, unknown_label=-1),
        lambda true: harmonic_normalized_accuracy(true, true, unknown_label=-1),
        lambda true: open_set_auroc(true, np.zeros(len(true)), unknown_label=-1),
        lambda true: open_set_aupr(true, np.zeros(len(true)), unknown_label=-1),
        lambda true: fpr_at_tpr(true, np.zeros(len(true)), unknown_label=-1),
        lambda true: ccr_at_fpr(true, np.ones(len(true)), np.zeros(len(true)), unknown_label=-1, fpr=0.1),
        lambda true: oscr_curve(true, np.ones(len(true)), np.zeros(len(true)), unknown_label=-1),
        lambda true: oscr_area(true, np.ones(len(true)), np.zeros(len(true)), unknown_label=-1),
    ],
    ids=["youden_j", "na", "hna", "auroc", "aupr", "fpr_at_tpr", "ccr_at_fpr", "oscr_curve", "oscr_area"],
)
def test_known_and_unknown_samples_are_both_needed(metric):
    with pytest.raises(ValueError, match=r"no unknown samples: none is labeled -1.*mark_unknown"):
        metric([1, 1, 2])
    with pytest.raises(ValueError, match="unknown samples only"):
        metric([-1, -1])


@pytest.mark.parametrize("metric", [open_set_f_measure, micro_f, macro_f, recognition_accuracy])
def test_what_is_measured_on_known_samples_needs_some(metric):
    with pytest.raises(ValueError, match="unknown samples only"):
        metric([-1, -1], [-1, 2], unknown_label=-1)


def test_what_is_measured_on_unknown_samples_needs_some():
    with pytest.raises(ValueError, match=r"no unknown samples: none is labeled -1. AUS needs some.*mark_unknown"):
        rejection_accuracy([1, 2], [-1, 2], unknown_label=-1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(open_set_f_measure, variant="weighted"), 'variant must be "scheirer", "micro" or "macro", got'),
        (partial(open_set_f_measure, variant=None), "variant must be .*, got None"),
        (partial(normalized_accuracy, known_weight=1.5), "known_weight must be a share, from 0 up to 1, got 1.5"),
        (partial(normalized_accuracy, known_weight="half"), "known_weight must be a share.*'half'"),
        (partial(normalized_accuracy, known_weight=np.nan), "known_weight must be a share.*nan"),
        (partial(normalized_accuracy, known_weight=True), "known_weight must be a share.*True"),
    ],
)
def test_parameters_of_prediction_metrics_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call(TRUE, PRED, unknown_label="?")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(fpr_at_tpr, tpr=0), "tpr must be a share, above 0 up to 1, got 0"),
        (partial(fpr_at_tpr, tpr=95), "tpr must be a share, above 0 up to 1, got 95"),
        (partial(fpr_at_tpr, positive="out"), 'positive must be "known" or "unknown", got \'out\''),
        (partial(open_set_aupr, positive=1), 'positive must be "known" or "unknown", got 1'),
    ],
)
def test_parameters_of_score_metrics_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call([1, -1], [0.1, 0.2], unknown_label=-1)


def test_other_parameters_are_checked():
    with pytest.raises(ValueError, match=r"fpr must be a share, from 0 up to 1, got -0\.1"):
        ccr_at_fpr([1, -1], [1, 1], [0.1, 0.2], unknown_label=-1, fpr=-0.1)
    with pytest.raises(ValueError, match='variant must be "scheirer", "geng" or "sqrt_ratio"'):
        openness(6, 6, 10, variant="ratio")


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["a", "b"], "y_true holds 'c', which is neither one of classes nor unknown_label: mark_unknown"),
        (["a", "b", "c", "?"], r"unknown_label '\?' is one of classes"),
        (["a", "b", "c", "a"], "classes holds 'a' more than once"),
        ([1, 2, 3], "y_true holds 'a', which is neither"),
        ([], "classes is empty"),
    ],
)
def test_classes_that_do_not_fit_the_labels_raise(classes, message):
    for metric in (open_set_confusion, open_set_f_measure):
        with pytest.raises(ValueError, match=message):
            metric(TRUE, PRED, unknown_label="?", classes=classes)


def test_a_prediction_that_is_no_class_raises():
    with pytest.raises(ValueError, match=r"y_pred holds 'z'.*every class that can be predicted"):
        open_set_confusion(["a", "?"], ["z", "?"], unknown_label="?", classes=["a"])


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ([0.1, np.nan], "unknown_score is NaN for 1 samples"),
        ([0.1], "unknown_score has 1"),
        ([[0.1, 0.2]], "unknown_score must be one-dimensional"),
        (["low", "high"], "unknown_score must be an array of numbers"),
    ],
)
def test_scores_without_a_rank_raise(score, message):
    with pytest.raises(ValueError, match=message):
        open_set_auroc([1, -1], score, unknown_label=-1)
    with pytest.raises(ValueError, match=message):
        oscr_area([1, -1], [1, 1], score, unknown_label=-1)
    for metric in (open_set_aupr, fpr_at_tpr):
        with pytest.raises(ValueError, match=message):
            metric([1, -1], score, unknown_label=-1)


def test_predictions_in_place_of_candidates_are_noticed():
    """The curve would end below the closed-set accuracy: rejected samples never count as right."""
    with pytest.raises(ValueError, match=r"Pass what candidate\(X\) returns"):
        oscr_area(["a", "a", "?"], ["a", "?", "?"], [0.1, 0.5, 0.9], unknown_label="?")


# --- documentation -------------------------------------------------------------------------


def test_the_numbers_in_the_page_on_metrics_are_what_the_code_prints():
    page = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 10 and not failed


def test_the_page_on_metrics_names_every_metric():
    page = (Path(__file__).resolve().parents[1] / "docs" / "metrics.md").read_text()
    homes = {name: getattr(getattr(srosr, name), "__module__", "") for name in srosr.__all__}
    metrics = [name for name, home in homes.items() if home.startswith("srosr.metrics.")]
    assert len(metrics) == 16
    assert not [name for name in metrics if f"`{name}`" not in page]

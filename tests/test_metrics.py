"""The metrics are what their papers define, on examples worked by hand and under whatever must not matter."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from srosr.metrics import (
    mark_unknown,
    open_set_accuracy,
    open_set_auroc,
    open_set_f_measure,
    openness,
    oscr_area,
    oscr_curve,
    youden_j,
)

# Six known samples: three right, one wrong, two refused. Four unknown samples: one accepted, three refused.
TRUE = ["a", "a", "b", "b", "c", "c", "?", "?", "?", "?"]
PRED = ["a", "a", "b", "a", "?", "?", "b", "?", "?", "?"]
NUMBER = {"a": 10, "b": 20, "c": 30, "?": -1}

# --- answers --------------------------------------------------------------------------------------------


def test_a_worked_example_of_f_accuracy_and_j():
    """TP = 3, FN = 3, FP = 1, TN = 3."""
    assert open_set_f_measure(TRUE, PRED, unknown_label="?") == pytest.approx(2 * 3 / (2 * 3 + 1 + 3))
    assert open_set_accuracy(TRUE, PRED, unknown_label="?") == pytest.approx(6 / 10)
    assert youden_j(TRUE, PRED, unknown_label="?") == pytest.approx(3 / 4 - 2 / 6)


def test_the_f_measure_is_the_harmonic_mean_of_precision_and_recall():
    precision, recall = 3 / 4, 3 / 6
    expected = 2 * precision * recall / (precision + recall)
    assert open_set_f_measure(TRUE, PRED, unknown_label="?") == pytest.approx(expected)


def test_a_misclassified_known_sample_counts_like_a_refused_one():
    """Neither as a false positive (Bendale & Boult) nor as a true positive (refused and misclassified)."""
    wrong = open_set_f_measure(["a", "b", "?"], ["a", "a", "?"], unknown_label="?")
    refused = open_set_f_measure(["a", "b", "?"], ["a", "?", "?"], unknown_label="?")
    assert wrong == refused == pytest.approx(2 / 3)


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


@pytest.mark.parametrize("metric", [open_set_f_measure, open_set_accuracy, youden_j])
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
    for metric in (open_set_f_measure, open_set_accuracy, youden_j):
        renamed = metric([rename[true[i]] for i in order], [rename[pred[i]] for i in order], unknown_label="nobody")
        assert renamed == pytest.approx(metric(true, pred, unknown_label="?"))


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


def test_perfect_scores_give_the_closed_set_accuracy():
    true, candidate = ["a", "a", "b", "b", "?"], ["a", "a", "b", "a", "a"]
    assert oscr_area(true, candidate, [0, 1, 2, 3, 4], unknown_label="?") == pytest.approx(0.75)
    assert oscr_area(true, candidate, [1, 2, 3, 4, 0], unknown_label="?") == 0.0


def test_infinite_scores_have_a_rank():
    assert open_set_auroc([1, 1, -1, -1], [-np.inf, 0.0, 1.0, np.inf], unknown_label=-1) == 1.0
    assert oscr_area([1, 1, -1, -1], [1, 1, 1, 1], [-np.inf, 0.0, 1.0, np.inf], unknown_label=-1) == 1.0


ranked = st.lists(
    st.tuples(st.sampled_from("ab?"), st.sampled_from("ab"), st.integers(-6, 6)), min_size=1, max_size=40
).map(lambda rows: [*rows, ("a", "a", 0), ("?", "b", 1)])


@given(ranked)
def test_auroc_agrees_with_scikit_learn_ties_included(rows):
    true, _, score = zip(*rows, strict=True)
    expected = roc_auc_score(np.array(true) == "?", score)
    assert open_set_auroc(true, score, unknown_label="?") == pytest.approx(expected, abs=1e-12)


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
    assert open_set_auroc(true, moved, unknown_label="?") == open_set_auroc(true, score, unknown_label="?")
    before, after = (oscr_curve(true, candidate, s, unknown_label="?") for s in (score, moved))
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])


@given(ranked)
def test_relabelling_and_candidates_of_unknown_samples_change_nothing(rows):
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


# --- openness -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_train", "n_test", "percent"),
    [
        (10, 20, 18.35),  # Extended Yale B, fewest and most test classes
        (10, 38, 35.45),
        (10, 11, 2.41),  # UIUC attributes
        (6, 7, 3.92),  # MNIST
        (6, 10, 13.40),
    ],
)
def test_openness_is_that_of_the_papers(n_train, n_test, percent):
    assert round(100 * openness(n_train, n_train, n_test), 2) == percent


def test_a_closed_set_has_openness_zero():
    assert openness(5, 5, 5) == 0.0
    assert isinstance(openness(np.int64(5), 5, 9), float)


@pytest.mark.parametrize("bad", [0, -2, 2.5, True, "3", None])
@pytest.mark.parametrize("name", ["n_train", "n_target", "n_test"])
def test_numbers_of_classes_are_checked(name, bad):
    with pytest.raises(ValueError, match=f"{name} must be a number of classes"):
        openness(**({"n_train": 2, "n_target": 2, "n_test": 5} | {name: bad}))


def test_openness_below_zero_is_refused():
    with pytest.raises(ValueError, match="n_test counts all classes met in testing, the known ones included"):
        openness(10, 10, 9)


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


def test_labels_of_another_kind_than_the_classes_are_refused():
    with pytest.raises(ValueError, match="y holds strings and classes numbers"):
        mark_unknown(["1", "2"], [1, 2], unknown_label=-1)


# --- what is refused ------------------------------------------------------------------------------------


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
@pytest.mark.parametrize("metric", [open_set_f_measure, open_set_accuracy, youden_j])
def test_answers_that_cannot_be_compared_are_refused_with_the_reason(metric, true, pred, unknown, message):
    with pytest.raises(ValueError, match=message):
        metric(true, pred, unknown_label=unknown)


@pytest.mark.parametrize(
    "metric",
    [
        lambda true: youden_j(true, true, unknown_label=-1),
        lambda true: open_set_auroc(true, np.zeros(len(true)), unknown_label=-1),
        lambda true: oscr_curve(true, np.ones(len(true)), np.zeros(len(true)), unknown_label=-1),
        lambda true: oscr_area(true, np.ones(len(true)), np.zeros(len(true)), unknown_label=-1),
    ],
    ids=["youden_j", "auroc", "oscr_curve", "oscr_area"],
)
def test_known_and_unknown_samples_are_both_needed(metric):
    with pytest.raises(ValueError, match=r"no unknown samples: none is labelled -1.*mark_unknown"):
        metric([1, 1, 2])
    with pytest.raises(ValueError, match="unknown samples only"):
        metric([-1, -1])


def test_the_f_measure_needs_known_samples():
    with pytest.raises(ValueError, match="unknown samples only"):
        open_set_f_measure([-1, -1], [-1, 2], unknown_label=-1)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ([0.1, np.nan], "unknown_score is NaN for 1 samples"),
        ([0.1], "unknown_score has 1"),
        ([[0.1, 0.2]], "unknown_score must be one-dimensional"),
        (["low", "high"], "unknown_score must be an array of numbers"),
    ],
)
def test_scores_without_a_rank_are_refused(score, message):
    with pytest.raises(ValueError, match=message):
        open_set_auroc([1, -1], score, unknown_label=-1)
    with pytest.raises(ValueError, match=message):
        oscr_area([1, -1], [1, 1], score, unknown_label=-1)


def test_predictions_in_place_of_candidates_are_noticed():
    """The curve would end below the closed-set accuracy: refused samples never count as right."""
    with pytest.raises(ValueError, match=r"Pass what candidate\(X\) returns"):
        oscr_area(["a", "a", "?"], ["a", "?", "?"], [0.1, 0.5, 0.9], unknown_label="?")

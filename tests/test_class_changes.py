"""Classes are added and removed without a refit: what stays, what is learned again, and how a refit differs."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from fitted import fit_once
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from srosr import Queries, SROSRClassifier
from srosr.evidence.table import EVIDENCE

REPEATS = 6


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, train_size=500, test_size=400, random_state=0, stratify=y)


def fitted(digits, known, **parameters):
    X, _, y, _ = digits
    rows = np.isin(y, known)
    return fit_once(SROSRClassifier(n_repeats=REPEATS, random_state=0, **parameters), X[rows], y[rows])


def answers(clf, X):
    return {name: getattr(clf, name)(X) for name in ("predict", "unknown_score", "log_p_value", "class_scores")}


def same(a, b):
    return all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("rule", ["calibrated", "paper"])
def test_recalibrating_all_equals_a_fit_on_all_samples(digits, rule):
    X, X_test, y, _ = digits
    grown = fitted(digits, [0, 1, 2, 3], rule=rule).add_class(X[y == 4], 4, recalibrate="all")
    # Rows in the order in which they came.
    rows = np.concatenate([np.flatnonzero(np.isin(y, [0, 1, 2, 3])), np.flatnonzero(y == 4)])
    anew = SROSRClassifier(n_repeats=REPEATS, random_state=0, rule=rule).fit(X[rows], y[rows])
    np.testing.assert_array_equal(grown.classes_, anew.classes_)
    np.testing.assert_allclose(grown.unknown_score(X_test), anew.unknown_score(X_test), atol=1e-7)
    assert grown.threshold_ == pytest.approx(anew.threshold_, abs=1e-7)
    shrunk = grown.remove_class(4, recalibrate="all")
    np.testing.assert_allclose(
        shrunk.unknown_score(X_test), fitted(digits, [0, 1, 2, 3], rule=rule).unknown_score(X_test), atol=1e-7
    )


@pytest.mark.parametrize("rule", ["calibrated", "paper", "matched"])
def test_a_new_class_is_recognized_and_agrees_nearly_with_a_refit(digits, rule):
    X, X_test, y, y_test = digits
    clf = fitted(digits, [0, 1, 2, 3, 5], rule=rule)
    assert (clf.predict(X_test[y_test == 4]) == -1).mean() > 0.5
    clf.add_class(X[y == 4], 4)
    assert (clf.candidate(X_test[y_test == 4]) == 4).mean() > 0.95
    refit = fitted(digits, [0, 1, 2, 3, 4, 5], rule=rule)
    # The tails of six repeats differ more between two draws than the pooled score does.
    assert (clf.predict(X_test) != refit.predict(X_test)).mean() < (0.05 if rule == "calibrated" else 0.1)
    if rule == "calibrated":
        # The weights of the class scores are those of the fit without the class.
        known = X_test[y_test < 6]
        assert (clf.candidate(known) != refit.candidate(known)).mean() < 0.01
    else:
        np.testing.assert_allclose(clf.class_scores(X_test), refit.class_scores(X_test), atol=1e-7)


def test_adding_and_removing_brings_the_same_answers_back(digits):
    X, X_test, y, _ = digits
    clf = fitted(digits, [0, 1, 2, 3])
    before = clf.unknown_score(X_test)
    clf.add_class(X[y == 9], 9).remove_class(9)
    np.testing.assert_allclose(clf.unknown_score(X_test), before, atol=0.03)
    np.testing.assert_array_equal(clf.classes_, [0, 1, 2, 3])


def test_only_held_out_samples_of_the_new_class_are_coded(digits, monkeypatch):
    X, _, y, _ = digits
    clf = fitted(digits, [0, 1, 2, 3, 5])
    import srosr.scoring.cross_test as cross_test

    coded = []
    encode = cross_test.sparse_encode
    monkeypatch.setattr(cross_test, "sparse_encode", lambda q, *a, **k: coded.append(len(q)) or encode(q, *a, **k))
    clf.add_class(X[y == 4], 4)
    n = (y == 4).sum()
    assert sum(coded) == n + REPEATS * round(0.2 * n)
    coded.clear()
    clf.remove_class(0)
    assert not coded


def test_the_sums_of_non_matched_errors_grow_with_the_number_of_classes(digits):
    X, _, y, _ = digits
    clf = fitted(digits, [0, 1, 2, 3], rule="paper")
    before = clf.calibration_.tails.nonmatched[0]
    matched = clf.calibration_.tails.matched[0]
    clf.add_class(X[y == 8], 8)
    after = clf.calibration_.tails.nonmatched[0]
    assert after.u == pytest.approx(before.u * 4 / 3)
    assert after.sigma == pytest.approx(before.sigma * 4 / 3, rel=1e-6)
    assert clf.calibration_.tails.matched[0].sigma == pytest.approx(matched.sigma, rel=1e-6)


def test_the_gram_matrix_is_extended_not_computed_again(digits):
    X, _, y, _ = digits
    clf = fitted(digits, [0, 1, 2, 3])
    old = clf.dictionary_.gram
    clf.add_class(X[y == 7], 7)
    assert clf.dictionary_.has_gram
    np.testing.assert_array_equal(clf.dictionary_.gram[: len(old), : len(old)], old)


def test_a_class_in_the_middle_moves_the_others_and_their_held_out_samples(digits):
    X, X_test, y, _ = digits
    clf = fitted(digits, [0, 2, 4])
    clf.add_class(X[y == 1], 1)
    rows = clf.calibration_.known
    np.testing.assert_array_equal(clf.dictionary_.labels[rows.sample], clf.classes_[rows.truth])
    np.testing.assert_array_equal(clf.classes_, [0, 1, 2, 4])
    clf.remove_class(2)
    rows = clf.calibration_.held_out
    np.testing.assert_array_equal(clf.dictionary_.labels[rows.sample], clf.classes_[rows.truth])
    assert set(clf.predict(X_test)) <= {-1, 0, 1, 4}


def test_a_chosen_threshold_is_kept_as_classes_come_and_go(digits):
    X, _, y, _ = digits
    clf = fitted(digits, [0, 1, 2, 3])
    clf.set_threshold(0.8).add_class(X[y == 4], 4)
    assert clf.threshold_ == 0.8
    clf.set_threshold(target_rejection=0.2).remove_class(4)
    assert clf.threshold_ == pytest.approx(0.8, abs=0.05)
    assert clf.threshold_info_.kind == "target"


def test_longer_text_labels_are_not_cut(digits):
    X, X_test, y, y_test = digits
    rows = np.isin(y, [0, 1, 2])
    clf = SROSRClassifier(n_repeats=3, random_state=0).fit(X[rows], np.array(["a", "b", "c"])[y[rows]])
    clf.add_class(X[y == 3], "the fourth")
    assert (clf.predict(X_test[y_test == 3]) == "the fourth").mean() > 0.8
    clf.remove_class("a")
    assert clf.classes_.tolist() == ["b", "c", "the fourth"]


def test_one_sample_of_a_new_class_is_enough_to_recognize_it_by(digits):
    X, _, y, _ = digits
    clf = fitted(digits, [0, 1, 2])
    new = X[y == 6][:1]
    clf.add_class(new, 6)
    assert clf.candidate(new)[0] == 6
    assert clf.pooled_[3]


@pytest.mark.parametrize("rule", ["calibrated", "paper"])
def test_a_split_calibration_stays_one(digits, rule):
    X, X_test, y, y_test = digits
    clf = fitted(digits, [0, 1, 2, 3], calibration="split", rule=rule)
    n = len(clf._calibration_samples)
    clf.add_class(X[y == 4], 4)
    assert clf.threshold_info_.kind == "conformal"
    assert len(clf._calibration_samples) == n + round(0.25 * (y == 4).sum())
    clf.remove_class(0)
    assert set(clf._calibration_labels) == {1, 2, 3, 4}
    assert (clf.predict(X_test[y_test == 4]) == -1).mean() < 0.3


def test_a_class_of_similarities_can_be_removed(digits):
    X, X_test, y, _ = digits
    rows = np.isin(y, [0, 1, 2, 3])
    A, labels = X[rows] / np.linalg.norm(X[rows], axis=1, keepdims=True), y[rows]
    Q = X_test / np.linalg.norm(X_test, axis=1, keepdims=True)
    for calibration in ("cross", "split"):
        kinds = [name for name in EVIDENCE if not name.startswith(("standardized", "fused"))]  # those need features
        parameters = {
            "n_repeats": 3, "random_state": 0, "calibration": calibration, "evidence_kinds": kinds,
            "label_by": "residual",
        }  # fmt: skip
        by_hand = SROSRClassifier(kernel="precomputed", **parameters).fit(A @ A.T, labels).remove_class(1)
        plain = SROSRClassifier(**parameters).fit(A, labels).remove_class(1)
        order = np.sort(by_hand.dictionary_.order)
        kept = A[by_hand.training_rows_[order]]
        np.testing.assert_allclose(
            by_hand.unknown_score(Queries(Q @ kept.T, np.ones(len(Q)))), plain.unknown_score(Q), atol=1e-6
        )


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda c, X: c.add_class(X, 0), "is a class already"),
        (lambda c, X: c.add_class(X, -1), "rejected samples"),
        (lambda c, X: c.add_class(X, "five"), "must be a number"),
        (lambda c, X: c.add_class(X, [5, 6]), "one class"),
        (lambda c, X: c.add_class(X[:, :10], 5), "features"),
        (lambda c, X: c.add_class(np.full_like(X, np.nan), 5), "NaN"),
        (lambda c, X: c.add_class(np.zeros_like(X), 5), "are zero"),
        (lambda c, X: c.add_class(X[:0], 5), "sample"),
        (lambda c, X: c.add_class(X, 5, recalibrate="some"), "recalibrate"),
        (lambda c, X: c.remove_class(5), "is not one of the classes"),
        (lambda c, X: c.remove_class([0, 1]), "is not one of the classes"),
        (lambda c, X: c.remove_class(0, recalibrate="new"), "recalibrate"),
    ],
)
def test_an_impossible_change_raises_an_error_and_changes_nothing(digits, change, words):
    X, X_test, y, _ = digits
    clf = fitted(digits, [0, 1, 2])
    before, state = answers(clf, X_test[:50]), copy.copy(clf.__dict__)
    with pytest.raises(ValueError, match=words):
        change(clf, X[y == 5])
    assert same(answers(clf, X_test[:50]), before)
    assert clf.__dict__.keys() == state.keys() and all(clf.__dict__[k] is state[k] for k in state)


def test_of_two_classes_none_can_be_removed(digits):
    clf = fitted(digits, [0, 1])
    with pytest.raises(ValueError, match="at least two classes must remain"):
        clf.remove_class(0)
    assert clf.classes_.tolist() == [0, 1]


def test_a_threshold_that_needs_three_classes_keeps_the_third(digits):
    """Simulated openness leaves at least two classes: where it set the threshold, removing one of three fails whole."""
    X_test = digits[1]
    clf = fitted(digits, [0, 1, 2], threshold="youden")
    before = answers(clf, X_test[:50])
    with pytest.raises(ValueError, match="simulated openness"):
        clf.remove_class(0, recalibrate="all")
    assert same(answers(clf, X_test[:50]), before)


def test_numbers_of_removed_samples_are_not_given_again(digits):
    X, _, y, _ = digits
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    rows = y < 4
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X[rows], y[rows])
    clf.remove_class(3).add_class(X[y == 5], 5).remove_class(5).add_class(X[y == 6], 6)
    found = clf.training_rows_[clf.dictionary_.order[clf.dictionary_.labels == 6]]
    start = rows.sum() + (y == 5).sum()
    np.testing.assert_array_equal(np.sort(found), start + np.arange((y == 6).sum()))
    known = clf.training_rows_[clf.dictionary_.order[clf.dictionary_.labels < 3]]
    np.testing.assert_array_equal(y[known], clf.dictionary_.labels[clf.dictionary_.labels < 3])


@pytest.mark.parametrize("rule", ["calibrated", "paper"])
def test_the_only_class_with_calibration_or_held_out_samples_may_be_removed_or_an_error_says_why(digits, rule):
    X, X_test, y, _ = digits
    sizes = {0: 25, 1: 1, 2: 1, 3: 2}
    rows = np.concatenate([np.flatnonzero(y == k)[:n] for k, n in sizes.items()])
    for calibration in ("split", "cross"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = SROSRClassifier(n_repeats=3, random_state=0, calibration=calibration, rule=rule)
            clf.fit(X[rows], y[rows])
            try:
                clf.remove_class(0)
            except ValueError as error:
                assert "fit again" in str(error)
            assert np.isfinite(clf.unknown_score(X_test[:5])).all()


def test_labels_that_an_array_would_merge_raise(digits):
    X, _, y, _ = digits
    rows = y < 3
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X[rows], 2**53 + y[rows])
    for label in (0.5, float("nan"), 1j):
        with pytest.raises(ValueError, match="label"):
            clf.add_class(X[y == 5], label)
    text = SROSRClassifier(n_repeats=2, random_state=0).fit(X[rows], np.array(["a", "b", "c"])[y[rows]])
    with pytest.raises(ValueError, match="label"):
        text.add_class(X[y == 5], "a\0")
    assert len(clf.classes_) == len(text.classes_) == 3


def test_new_samples_are_numbered_after_the_old_ones(digits):
    X, _, y, _ = digits
    for calibration in ("cross", "split"):
        clf = fitted(digits, [0, 1, 2], calibration=calibration)
        n = np.isin(y, [0, 1, 2]).sum()
        clf.add_class(X[y == 5], 5)
        rows = clf.training_rows_[clf.dictionary_.order[clf.dictionary_.labels == 5]]
        assert rows.min() >= n
        assert rows.max() < n + (y == 5).sum()
        values = X[y == 5][rows - n]
        values = values / np.linalg.norm(values, axis=1, keepdims=True)
        np.testing.assert_allclose(clf.dictionary_.linear_atoms[clf.dictionary_.labels == 5], values, atol=1e-12)

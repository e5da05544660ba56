"""Known classes as simulated unknowns: splits, scorers, and scikit-learn's search with both."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from srosr.metrics.accuracy import youden_j
from srosr.metrics.f_measure import open_set_f_measure
from srosr.metrics.oscr import oscr_area
from srosr.metrics.ranking import open_set_auroc
from srosr.metrics.unknown_classes import mark_unknown
from srosr.model_selection import (
    LeaveClassesOut,
    candidate_accuracy_scorer,
    open_set_auroc_scorer,
    open_set_f_scorer,
    oscr_scorer,
    youden_scorer,
)

SCORERS = [open_set_f_scorer, open_set_auroc_scorer, oscr_scorer, youden_scorer, candidate_accuracy_scorer]


class NearestMean(ClassifierMixin, BaseEstimator):
    """The contract of an open set classifier at its simplest: distance to the nearest class mean."""

    def __init__(self, threshold=0.5, sign=1.0):
        self.threshold = threshold
        self.sign = sign

    def fit(self, X, y):
        y = np.asarray(y)
        self.classes_ = np.unique(y)
        self.unknown_label_ = "unknown" if self.classes_.dtype.kind in "OU" else -1
        self.means_ = np.array([np.asarray(X)[y == c].mean(axis=0) for c in self.classes_])
        return self

    def _distances(self, X):
        return np.linalg.norm(np.asarray(X)[:, None] - self.means_, axis=2)

    def unknown_score(self, X):
        distance = self._distances(X).min(axis=1)
        return 0.5 + 0.5 * self.sign * distance / (1 + distance)

    def candidate(self, X):
        return self.classes_[self._distances(X).argmin(axis=1)]

    def predict(self, X):
        answers = self.candidate(X).astype(object)
        answers[self.unknown_score(X) > self.threshold] = self.unknown_label_
        return answers if isinstance(self.unknown_label_, str) else answers.astype(int)


@pytest.fixture(scope="module")
def blobs():
    """Return ten well separated classes of twenty samples."""
    return make_blobs(200, 5, centers=10, cluster_std=1.0, random_state=3)


# --- splits ---------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(2, 9), min_size=3, max_size=9),
    st.integers(1, 12),
    st.floats(0.01, 0.99),
    st.floats(0.01, 0.99),
    st.integers(0, 99),
)
def test_every_split_keeps_its_promises(sizes, n_splits, unknown, test_size, seed):
    n_classes = len(sizes)
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(n_classes), sizes))
    cv = LeaveClassesOut(n_splits, unknown=unknown, test_size=test_size, random_state=seed)
    X, turns = np.zeros((len(y), 1)), Counter(dict.fromkeys(range(n_classes), 0))
    splits = list(cv.split(X, y))
    assert len(splits) == n_splits == cv.get_n_splits(X, y)
    n_out = min(max(round(unknown * n_classes), 1), n_classes - 2)
    for train, test in splits:
        assert not set(train) & set(test)
        known = set(y[train].tolist())
        assert len(known) == n_classes - n_out >= 2
        turns.update(set(range(n_classes)) - known)
        for c, size in enumerate(sizes):
            n_test = min(max(round(test_size * size), 1), size - 1)
            assert np.count_nonzero(y[test] == c) == n_test
            assert np.count_nonzero(y[train] == c) == (size - n_test if c in known else 0)
    assert max(turns.values()) - min(turns.values()) <= 1, "all classes in turn"


def test_a_seed_fixes_the_splits_and_none_does_not():
    X, y = np.zeros((60, 1)), np.repeat(list("abcdef"), 10)

    def drawn(cv):
        return [np.concatenate(split).tolist() for split in cv.split(X, y)]

    assert drawn(LeaveClassesOut(random_state=1)) == drawn(LeaveClassesOut(random_state=1))
    assert drawn(LeaveClassesOut(random_state=1)) != drawn(LeaveClassesOut(random_state=2))
    assert drawn(cv := LeaveClassesOut()) != drawn(cv)


def test_every_class_is_left_out_at_the_defaults():
    y = np.repeat(np.arange(10), 10)
    out = [set(range(10)) - set(y[train]) for train, _ in LeaveClassesOut(random_state=0).split(y, y)]
    assert set.union(*out) == set(range(10))
    assert {len(classes) for classes in out} == {3}


@pytest.mark.parametrize("form", [list, np.array, pd.Series], ids=["list", "array", "Series"])
def test_labels_may_come_in_any_container(form):
    y = ["a"] * 5 + ["b"] * 5 + ["c"] * 5
    train, test = next(LeaveClassesOut(random_state=0).split(list(range(15)), form(y)))
    assert len(train) == 8 and len(test) == 3


def test_its_name_says_its_parameters():
    assert repr(LeaveClassesOut(3, unknown=0.4)).replace("train_size=None, ", "") == (
        "LeaveClassesOut(n_splits=3, random_state=None, test_size=0.2, unknown=0.4)"
    )


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, None, "y is required"),
        ({}, [0, 0, 1, 1], "y has 2 classes"),
        ({}, [0, 0, 1, 1, 2], r"class .*2.* in y has one sample"),
        ({}, np.linspace(0, 1, 9), "Unknown label type"),
        ({"n_splits": 0}, [0, 0, 1, 1, 2, 2], "n_splits must be a positive integer, got 0"),
        ({"unknown": 1.0}, [0, 0, 1, 1, 2, 2], "unknown must be a number between 0 and 1, both excluded"),
        ({"unknown": 2}, [0, 0, 1, 1, 2, 2], "unknown must be a number between 0 and 1, both excluded"),
        ({"test_size": 0.0}, [0, 0, 1, 1, 2, 2], "test_size must be a number between 0 and 1, both excluded"),
        ({"test_size": "half"}, [0, 0, 1, 1, 2, 2], "test_size must be a number between 0 and 1, both excluded"),
    ],
)
def test_what_cannot_be_split_raises_at_once_with_the_reason(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        LeaveClassesOut(**parameters).split(np.zeros((9 if y is None else len(y), 1)), y)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="X has 5 samples, y has 6"):
        LeaveClassesOut().split(np.zeros((5, 1)), [0, 0, 1, 1, 2, 2])


# --- scorers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [False, True], ids=["numbers", "strings"])
def test_scorers_are_the_metrics_with_other_labels_as_unknown(blobs, names):
    X, y = blobs
    y = np.array([f"class {c}" for c in y]) if names else y
    known = np.isin(y, np.unique(y)[:6])
    clf = NearestMean(threshold=0.85).fit(X[known], y[known])
    mark = clf.unknown_label_
    true = mark_unknown(y, clf.classes_, unknown_label=mark)
    label, score, candidate = clf.predict(X), clf.unknown_score(X), clf.candidate(X)
    assert open_set_f_scorer(clf, X, y) == open_set_f_measure(true, label, unknown_label=mark)
    assert youden_scorer(clf, X, y) == youden_j(true, label, unknown_label=mark)
    assert open_set_auroc_scorer(clf, X, y) == open_set_auroc(true, score, unknown_label=mark)
    assert oscr_scorer(clf, X, y) == oscr_area(true, candidate, score, unknown_label=mark)
    assert candidate_accuracy_scorer(clf, X, y) == np.mean(candidate[known] == y[known])


def test_candidate_accuracy_does_not_punish_rejections_and_needs_no_unknown_samples(blobs):
    X, y = blobs
    clf = NearestMean(threshold=0.0).fit(X, y)
    assert (clf.predict(X) == -1).all()
    assert candidate_accuracy_scorer(clf, X, y) > 0.9
    assert (cross_val_score(clf, X, y, cv=KFold(3, shuffle=True), scoring=candidate_accuracy_scorer) > 0.9).all()


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: scorer.__name__)
def test_pipelines_and_searches_score_like_the_classifier_inside(blobs, scorer):
    X, y = blobs
    known = y < 6
    scaler = StandardScaler().fit(X[known])
    clf = NearestMean(threshold=0.75).fit(scaler.transform(X[known]), y[known])
    expected = scorer(clf, scaler.transform(X), y)
    pipe = make_pipeline(StandardScaler(), FunctionTransformer(), "passthrough", NearestMean(threshold=0.75))
    assert scorer(pipe.fit(X[known], y[known]), X, y) == expected
    assert scorer(make_pipeline(clf), scaler.transform(X), y) == expected
    search = GridSearchCV(pipe, {"nearestmean__threshold": [0.75]}, scoring=candidate_accuracy_scorer, cv=2)
    assert scorer(search.fit(X[known], y[known]), X, y) == expected
    assert scorer(make_pipeline(FunctionTransformer(), search).fit(X[known], y[known]), X, y) == expected


@pytest.mark.parametrize("scorer", SCORERS[:4], ids=lambda scorer: scorer.__name__)
def test_splits_without_unknown_classes_raise_an_error_with_a_remedy(blobs, scorer):
    X, y = blobs
    with pytest.raises(ValueError, match=r"cv=LeaveClassesOut\(\)"):
        scorer(NearestMean().fit(X, y), X, y)


def test_candidate_accuracy_needs_known_samples(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="no samples of the estimator's classes_"):
        candidate_accuracy_scorer(NearestMean().fit(X, y), X, y + 100)


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: scorer.__name__)
def test_closed_set_classifiers_raise_with_what_they_lack(blobs, scorer):
    X, y = blobs
    with pytest.raises(TypeError, match="LogisticRegression has no unknown_label_"):
        scorer(LogisticRegression().fit(X, y), X, y)


# --- with scikit-learn's tools --------------------------------------------------------------------------


def test_a_search_finds_the_threshold_without_unknown_data():
    """Chosen on known classes alone, it is nearly the best for unknown classes."""
    X, y = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    known = y < 7
    grid = {"threshold": np.linspace(0.5, 0.8, 16)}
    cv = LeaveClassesOut(7, random_state=0)
    search = GridSearchCV(NearestMean(), grid, cv=cv, scoring=youden_scorer).fit(X[known], y[known])
    reached = [youden_scorer(NearestMean(t).fit(X[known], y[known]), X, y) for t in grid["threshold"]]
    chosen = youden_scorer(search.best_estimator_, X, y)
    assert chosen > max(reached) - 0.1 > 0.2


def test_a_search_prefers_the_score_that_ranks(blobs):
    X, y = blobs
    cv = LeaveClassesOut(random_state=0)
    pipe = make_pipeline(StandardScaler(), NearestMean())
    for scorer in (open_set_auroc_scorer, oscr_scorer):
        search = GridSearchCV(pipe, {"nearestmean__sign": [-1.0, 1.0]}, cv=cv, scoring=scorer, error_score="raise")
        assert search.fit(X, y).best_params_ == {"nearestmean__sign": 1.0}
        assert search.best_score_ > 0.9


def test_all_scorers_at_once(blobs):
    X, y = blobs
    scoring = {scorer.__name__: scorer for scorer in SCORERS}
    cv = LeaveClassesOut(4, random_state=0)
    found = cross_validate(NearestMean(0.85), X, y, cv=cv, scoring=scoring, error_score="raise")
    for name in scoring:
        assert found[f"test_{name}"].shape == (4,)
        assert np.isfinite(found[f"test_{name}"]).all()


def test_searches_nest(blobs):
    X, y = blobs
    search = GridSearchCV(
        NearestMean(),
        {"threshold": [0.6, 0.8, 0.9]},
        cv=LeaveClassesOut(2, random_state=0),
        scoring=open_set_f_scorer,
        error_score="raise",
    )
    outer = LeaveClassesOut(2, random_state=1)
    assert (cross_val_score(search, X, y, cv=outer, scoring=open_set_f_scorer, error_score="raise") > 0.5).all()

"""Methods that share a fit predict as they would alone, and follow the openness of the level."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from same import check_same, check_same_labels
from sklearn.datasets import load_digits

from srosr import BPDN, SROSRClassifier
from srosr.experiments.protocol import MethodSetting
from srosr.experiments.trial_methods import TrialSamples, fit_group, group_by_fit, make_classifier

EPS = {"problem": {"name": "bpdn", "epsilon": 0.3}}
SETTINGS = [
    MethodSetting("calibrated", "calibrated", {"n_repeats": 4}),
    MethodSetting("paper", "paper", {"n_repeats": 4, "tail_size": 0.3, "threshold": 0.05}, follows_openness=True),
    MethodSetting("matched", "matched", {"n_repeats": 4, "tail_size": 0.2, "threshold": 0.05}),
    MethodSetting("paper-5", "paper", {"n_repeats": 4, "tail_size": 0.3}),
    MethodSetting("paper-bpdn", "paper", {"n_repeats": 4} | EPS),
    MethodSetting("sci", "sci", {}),
    MethodSetting("naive", "naive", {"target_rejection": 0.1}),
    MethodSetting("ratio", "ratio", {}),
    MethodSetting("sci-bpdn", "sci", EPS),
    MethodSetting("w-svm", "w-svm", {}),
    MethodSetting("w-svm-original", "w-svm", {"threshold": "original"}, follows_openness=True),
]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    known = y < 4
    return X[known][:120], y[known][:120], X[-60:]


@pytest.fixture(scope="module")
def together(digits):
    X, y, test = digits
    samples, out = TrialSamples(test), {}
    for group in group_by_fit(SETTINGS):
        for method in fit_group(group, X, y, 7, 0.2):
            method.predict(samples)
            method.set_openness(0.2)
            out[method.setting.name] = method
    return out


def test_only_what_differs_after_coding_shares_a_fit():
    names = [[s.name for s in group] for group in group_by_fit(SETTINGS)]
    assert names == [
        ["calibrated", "paper", "matched", "paper-5"],
        ["paper-bpdn"],
        ["sci", "naive", "ratio"],
        ["sci-bpdn"],
        ["w-svm", "w-svm-original"],
    ]


def check_predictions(said, alone, test):
    """Check that a method says what a classifier does that was fitted for it alone."""
    decided = alone.decide(test)
    check_same(said.candidate, decided.candidate)
    check_same(said.score, decided.unknown_score)
    thresholds = alone.thresholds_[np.searchsorted(alone.classes_, decided.candidate)]
    check_same_labels(said.rejected, decided.rejected, decided.unknown_score, thresholds)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_a_method_that_shares_a_fit_says_what_it_says_alone(setting, digits, together):
    X, y, test = digits
    alone = make_classifier(setting, 7)
    if setting.follows_openness:
        alone.set_params(openness=0.2)
    alone.fit(X, y)
    check_predictions(together[setting.name].decide(), alone, test)


def test_the_order_of_those_who_share_does_not_matter(digits, together):
    X, y, test = digits
    turned = [s for s in SETTINGS if s.name in ("paper", "calibrated", "matched")][::-1]
    samples = TrialSamples(test)
    for method in fit_group(turned, X, y, 7, 0.2):
        method.predict(samples)
        method.set_openness(0.2)
        said, expected = method.decide(), together[method.setting.name].decide()
        check_same(said.score, expected.score)
        check_same_labels(said.rejected, expected.rejected, expected.score, method.clf.threshold_)


@pytest.mark.parametrize("name", ["paper", "w-svm-original"])
def test_a_method_that_follows_openness_is_at_each_level_as_if_fitted_for_it(name, digits, together):
    X, y, test = digits
    method = together[name]
    for openness in (0.05, 0.4):
        method.set_openness(openness)
        alone = make_classifier(method.setting, 7).set_params(openness=openness).fit(X, y)
        check_predictions(method.decide(), alone, test)
    method.set_openness(0.2)


def test_samples_are_coded_once_for_all_methods_on_the_same_codes(digits, monkeypatch):
    import srosr.classifiers.dictionary_classifier as module

    X, y, test = digits
    coded = []
    original = module.sparse_encode
    monkeypatch.setattr(module, "sparse_encode", lambda q, *a, **k: coded.append(len(q)) or original(q, *a, **k))
    samples = TrialSamples(test)
    for group in group_by_fit([s for s in SETTINGS if s.method != "w-svm"]):
        for method in fit_group(group, X, y, 7, 0.2):
            method.predict(samples)
    assert sum(coded) == 2 * len(test)  # Lasso and BPDN


def test_evidence_over_a_part_of_the_samples_is_never_taken_for_that_over_another(digits):
    X, y, test = digits
    samples, dictionaries = TrialSamples(test), []
    for size in (0.2, 0.3, 0.4):
        parameters = {"n_repeats": 2, "calibration": "split", "calibration_size": size}
        ours, paper = (MethodSetting(name, name, parameters) for name in ("calibrated", "paper"))
        for method in fit_group([ours, paper], X, y, 7, 0.2):
            method.predict(samples)
            alone = make_classifier(method.setting, 7).fit(X, y)
            check_same(method.decide().score, alone.unknown_score(test))
        dictionaries.append(weakref.ref(method.clf.dictionary_))
    del method, alone
    gc.collect()
    # The next one cannot come to lie where one of them was.
    assert len({id(one()) for one in dictionaries if one() is not None}) == 3


def test_a_method_is_made_with_one_thread_unit_samples_and_the_seed():
    clf = make_classifier(
        MethodSetting("m", "paper", {"problem": {"name": "bpdn", "epsilon": 0.001}, "tail_size": 0.39}), 11
    )
    assert isinstance(clf, SROSRClassifier)
    assert (clf.problem, clf.tail_size, clf.random_state, clf.n_jobs, clf.normalize) == (BPDN(0.001), 0.39, 11, 1, True)
    assert make_classifier(MethodSetting("m", "knn", {"n_neighbors": 3}), 5).get_params()["normalize"] is True


def test_set_weight_equals_a_fit_with_that_weight_and_invalid_weights_raise_an_error(digits):
    X, y, test = digits
    clf = SROSRClassifier(rule="paper", n_repeats=3, random_state=0).fit(X, y)
    for change, fitted in (
        ({"weight": 0.7}, {"weight": 0.7}),
        ({"openness": 0.4}, {"openness": 0.4}),
        ({"weight": 0.0}, {"weight": 0.0}),
    ):
        other = SROSRClassifier(**({"rule": "paper", "n_repeats": 3, "random_state": 0} | fitted)).fit(X, y)
        assert clf.set_weight(**change) is clf
        check_same(clf.unknown_score(test), other.unknown_score(test))
        check_same(clf.threshold_, other.threshold_)
    before = clf.unknown_score(test)
    for wrong in ({}, {"weight": 1.0, "openness": 0.1}, {"weight": -1.0}, {"openness": 1.0}, {"openness": "0.1"}):
        with pytest.raises(ValueError, match=r"weight|openness"):
            clf.set_weight(**wrong)
    np.testing.assert_array_equal(clf.unknown_score(test), before)
    for rule in ("calibrated", "matched"):
        with pytest.raises(ValueError, match=r'belongs to rule="paper"'):
            SROSRClassifier(rule=rule, n_repeats=2, random_state=0).fit(X, y).set_weight(0.1)

"""Rivals made of support vector machines, against scikit-learn's machines on features and formulas written out."""

import itertools
import warnings
from dataclasses import fields
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from same import check_same
from scale import slow_except
from scipy import stats
from scipy.optimize import minimize
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC, OneClassSVM
from sklearn.utils import check_random_state

from srosr.exceptions import SROSRWarning, TailWarning
from srosr.metrics.f_measure import open_set_f_measure
from srosr.rivals import cross_fitted as cross_fitted_module
from srosr.rivals import kernel_machines as machines_module
from srosr.rivals import wsvm as wsvm_module
from srosr.rivals.cross_fitted import COSTS
from srosr.rivals.distances import squared_distances
from srosr.rivals.kernel_machines import choose_parameters, compute_kernel_scale, fit_lowest_tails, measure_quality
from srosr.rivals.one_vs_rest_svm import OneVsRestSVM, fit_calibrated
from srosr.rivals.one_vs_set import OneVsSet, place_planes
from srosr.rivals.pairwise_svm import PairwiseSVM, couple_probabilities, extract_pair_weights, fit_sigmoids
from srosr.rivals.pisvm import PISVM
from srosr.rivals.wsvm import WSVM
from srosr.scoring.splits import draw_left_out_classes
from srosr.tails.weibull import Weibull

KERNEL = (WSVM, PISVM, OneVsRestSVM, PairwiseSVM)
ALL = (*KERNEL, OneVsSet)


def blobs(seed=0, n_classes=3, n=30, spread=1.0, dims=2):
    """Return overlapping classes around corners, and samples to predict, some far away."""
    rng = np.random.default_rng(seed)
    centers = 3.0 * rng.normal(size=(n_classes, dims))
    X = np.concatenate([rng.normal(c, spread, (n, dims)) for c in centers])
    return X, np.repeat(np.arange(n_classes), n), 4.0 * rng.normal(size=(200, dims))


def quiet(clf, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SROSRWarning)
        return clf.fit(X, y)


def decisions_of(X, y, samples, C, gamma, kernel="rbf"):
    """Return decision values and machines, one per class against the rest, by scikit-learn on features."""
    machines = [SVC(C=C, gamma=gamma, kernel=kernel).fit(X, y == k) for k in np.unique(y)]
    return np.stack([m.decision_function(samples) for m in machines], axis=1), machines


def tail_of(values, size, end=None):
    """Return end, shape and scale as in the paper, by SciPy."""
    tail = np.sort(values)[:size]
    start = tail[0] - 2.0 if end is None else end
    shape, _, scale = stats.weibull_min.fit(tail - start, floc=0)
    return start, stats.weibull_min(shape, scale=scale)


# What they share


def test_scale_of_gamma_is_one_over_the_total_variance():
    X = np.random.default_rng(0).normal(size=(50, 4)) * [1, 2, 3, 4] + [5, -7, 0, 100]
    assert compute_kernel_scale(squared_distances(X, X)) == pytest.approx(1 / X.var(axis=0).sum(), rel=1e-12)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    assert compute_kernel_scale(squared_distances(X, X)) == pytest.approx(1 / (X.shape[1] * X.var()), rel=1e-12)
    assert compute_kernel_scale(np.zeros((3, 3))) == 1.0


def splits_of(y, seed):
    """Yield test samples and left-out classes as drawn from the same random state."""
    rng = check_random_state(seed)
    folds = list(cross_fitted_module.find_folds(y, rng, 3))
    absent = draw_left_out_classes(len(np.unique(y)), 3, rng) or [[]] * 3
    for held, classes in zip(folds, absent, strict=True):
        yield np.union1d(held, np.flatnonzero(np.isin(y, classes))).astype(int), classes


def quality_of(y, test, absent, candidate, unknown_score):
    """Return squared accuracy on known samples times AUROC, or the accuracy if all are known, by scikit-learn."""
    is_unknown = np.isin(y[test], absent)
    accuracy = accuracy_score(y[test][~is_unknown], candidate[~is_unknown])
    return accuracy**2 * roc_auc_score(is_unknown, unknown_score) if is_unknown.any() else accuracy


@pytest.mark.parametrize("n_classes", slow_except([2, 3], [2, 3, 6]))
def test_chosen_parameters_classify_and_reject_best_of_scikit_learns_machines(n_classes):
    """All points of the grid fitted on features, in the splits drawn from the same random state."""
    X, y, _ = blobs(3, n_classes, spread=3.0 if n_classes == 2 else 1.6)
    scale = 1 / X.var(axis=0).sum()
    found = {}
    for C, factor in product(COSTS, (0.25, 1.0, 4.0)):
        total = 0.0
        for test, absent in splits_of(y, 7):
            train = np.delete(np.arange(len(y)), test)
            values, _ = decisions_of(X[train], y[train], X[test], C, scale * factor)
            total += quality_of(y, test, absent, np.unique(y[train])[values.argmax(axis=1)], -values.max(axis=1))
        found[C, factor] = (round(total, 9), -C, -abs(np.log(factor)), -factor)
    C, factor = max(found, key=found.get)
    assert len(set(v[0] for v in found.values())) > 3  # there was something to choose
    for score_by in ("decision", "platt"):
        tuned = OneVsRestSVM(score_by=score_by, cv=2, random_state=7).fit(X, y).tuned_
        assert tuned == {"C": C, "gamma": pytest.approx(scale * factor)}


@pytest.mark.parametrize("method", slow_except([PISVM], [WSVM, PISVM]))
def test_chosen_parameters_are_best_by_the_probability_of_inclusion_and_f_at_one_tenth(method):
    """F is that of the metric, at the threshold that the method itself has for an openness of 20 %."""
    X, y, _ = blobs(2, 5, n=15, spread=2.0, dims=6)
    scale = 1 / X.var(axis=0).sum()
    found, without = {}, {}
    for C, factor in product(COSTS, (1.0, 0.25, 4.0)):
        found[C, factor] = without[C, factor] = 0.0
        for test, absent in splits_of(y, 2):
            train = np.delete(np.arange(len(y)), test)
            given = {"C": C, "gamma": scale * factor, "cv": 2, "threshold": "original", "openness": 0.2}
            clf = quiet(PISVM(**given), X[train], y[train])
            quality = quality_of(y, test, absent, clf.candidate(X[test]), clf.unknown_score(X[test]))
            own = clf if method is PISVM else quiet(method(**given), X[train], y[train])
            truth = np.where(np.isin(y[test], absent), -1, y[test])
            labels = np.where(own.unknown_score(X[test]) > own.threshold_, -1, clf.candidate(X[test]))
            without[C, factor] += quality
            found[C, factor] += quality * open_set_f_measure(truth, labels, unknown_label=-1) ** (1 / 5)
    C, factor = max(found, key=found.get)
    assert (C, factor) != max(without, key=without.get)  # F decides
    values = sorted(found.values())
    assert values[-1] > values[-2] + 1e-6  # no tie that rounding decides
    for others in ({}, {"openness": 0.6, "threshold": "original"}, {"threshold": 0.3}):
        tuned = quiet(method(random_state=2, cv=2, **others), X, y).tuned_
        assert (tuned["C"], tuned["gamma"]) == (C, pytest.approx(scale * factor))


def test_the_cost_of_one_vs_set_is_the_best_by_its_score():
    """Noise features that a large C fits."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 20)
    X = np.hstack([np.eye(5)[y] * 1.2 + rng.normal(size=(100, 5)), rng.normal(size=(100, 20))]) + 5.0
    found = dict.fromkeys(COSTS, 0.0)
    for C, (test, absent) in product(COSTS, list(splits_of(y, 3))):
        train = np.delete(np.arange(100), test)
        clf = quiet(OneVsSet(C=C, cv=2), X[train], y[train])
        found[C] += quality_of(y, test, absent, clf.candidate(X[test]), clf.unknown_score(X[test]))
    values = sorted(found.values())
    assert values[-1] > values[-2] + 1e-6  # there is something to choose, and rounding does not
    assert OneVsSet(cv=2, random_state=3).fit(X, y).tuned_ == {"C": max(found, key=found.get)}


def test_pairs_are_chosen_by_coupled_probabilities_without_sigmoids_of_their_own():
    X, y, _ = blobs(8, 5, n=24, spread=1.5)
    scale, (first, second) = 1 / X.var(axis=0).sum(), np.triu_indices(3, 1)  # of five classes two are left out
    found = {}
    for C, factor in product(COSTS, (1.0, 0.25, 4.0)):
        found[C, factor] = 0.0
        for test, absent in splits_of(y, 4):
            train = np.delete(np.arange(len(y)), test)
            present = np.unique(y[train])
            pairs = np.empty((len(test), len(first)))
            for pair, (i, j) in enumerate(zip(present[first], present[second], strict=True)):
                own = train[np.isin(y[train], (i, j))]
                machine = SVC(C=C, gamma=scale * factor).fit(X[own], y[own] == i)
                pairs[:, pair] = 1 / (1 + np.exp(-2 * machine.decision_function(X[test])))
            p = couple_probabilities(pairs, len(present))
            found[C, factor] += quality_of(y, test, absent, present[p.argmax(axis=1)], 1 - p.max(axis=1))
    values = sorted(found.values())
    assert values[-1] > values[-2] + 1e-6
    C, factor = max(found, key=found.get)
    assert PairwiseSVM(cv=2, random_state=4).fit(X, y).tuned_ == {"C": C, "gamma": pytest.approx(scale * factor)}


@pytest.fixture(scope="module")
def on_spokes():
    """Return samples of classes on four spokes, which any machine tells apart, and test samples, the last unknown."""
    rng = np.random.default_rng(0)
    spokes = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    centers = np.concatenate([radius * spokes for radius in (1, 2, 3, 4)])
    X, y = np.concatenate([rng.normal(c, 0.1, (9, 2)) for c in centers[:12]]), np.repeat(np.arange(12), 9)
    scale = 1 / X.var(axis=0).sum()
    for C, factor in product(COSTS, (0.25, 1.0, 4.0)):
        assert cross_val_score(SVC(C=C, gamma=scale * factor), X, y, cv=3).min() == 1.0
    return X, y, np.concatenate([rng.normal(c, 0.1, (30, 2)) for c in centers]), np.arange(480) >= 360


@pytest.mark.parametrize("method", slow_except([PISVM, PairwiseSVM], KERNEL))
def test_where_every_choice_classifies_all_samples_the_one_that_rejects_is_taken(method, on_spokes):
    """Wide kernels are sure of what lies beyond the last class of a spoke."""
    X, y, samples, is_unknown = on_spokes
    scale = 1 / X.var(axis=0).sum()

    def rejects(clf):
        return roc_auc_score(is_unknown, quiet(clf, X, y).unknown_score(samples))

    chosen = method(cv=2, random_state=0)
    assert rejects(chosen) > 0.99 and chosen.tuned_["gamma"] == pytest.approx(4 * scale)
    assert rejects(method(C=1.0, gamma=0.25 * scale, cv=2)) < 0.1


def test_folds_are_held_out_and_classes_left_out_in_turn():
    members = np.repeat(np.arange(7), [6, 1, 9, 5, 8, 6, 7])
    tests = []

    def score(test, tuned):
        tests.append((tuned["C"], test))
        return members[test], np.zeros(len(test))

    grid = [{"C": 0.1}, {"C": 10.0}]
    assert choose_parameters(grid, members, np.random.RandomState(0), score) == {"C": 0.1}  # the first of equals
    assert [C for C, _ in tests] == [0.1, 10.0] * 3  # three fits for each
    absent = [np.flatnonzero(np.bincount(members[test], minlength=7) == np.bincount(members)) for _, test in tests]
    assert [len(classes) for classes in absent] == [2] * 6
    assert len(np.unique(np.concatenate(absent))) == 6
    for (_, test), classes in zip(tests, absent, strict=True):
        kept = np.setdiff1d(np.arange(7), classes)
        held, sizes = np.bincount(members[test], minlength=7)[kept], np.bincount(members)[kept]
        assert ((held >= sizes // 3) & (held <= -(-sizes // 3)) & (held < sizes)).all()  # never the only one


def test_without_samples_to_hold_out_the_cost_is_one():
    grid = [{"C": C} for C in COSTS]
    assert choose_parameters(grid, np.arange(4), np.random.RandomState(0), None) == {"C": 1.0}
    assert choose_parameters(grid[2:], np.arange(4), np.random.RandomState(0), None) == {"C": 10.0}


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_quality_is_squared_accuracy_times_auroc_of_scikit_learn_and_a_root_of_f(n_known, n_unknown, seed):
    rng = np.random.default_rng(seed)
    scores, right = rng.integers(0, 9, n_known + n_unknown) / 4, rng.random(n_known + n_unknown) < 0.7
    is_unknown = rng.permutation(n_known + n_unknown) < n_unknown
    expected = right[~is_unknown].mean() ** 2 * roc_auc_score(is_unknown, scores)
    assert measure_quality(right, is_unknown, scores) == pytest.approx(expected)
    known, accepted = ~is_unknown, scores < 1.5
    # With two classes, 1 and 0: a sample is right under 1.
    truth, labels = np.where(is_unknown, -1, 1), np.where(accepted, right, -1).astype(int)
    f = open_set_f_measure(truth, labels, unknown_label=-1)
    assert measure_quality(right, is_unknown, scores, accepted) == pytest.approx(expected * f ** (1 / 5))
    for also in ((), (accepted,)):
        for part, value in ((known, right[known].mean()), (is_unknown, 0.0)):
            arrays = [array[part] for array in (right, is_unknown, scores, *also)]
            assert measure_quality(*arrays) == pytest.approx(value)


@pytest.mark.parametrize("method", KERNEL)
def test_the_choice_fits_no_more_machines_than_three_folds_of_all_classes(method, monkeypatch):
    X, y, _ = blobs(1, 6, n=12)
    sizes = []
    original = SVC.fit
    monkeypatch.setattr(SVC, "fit", lambda self, K, *a: sizes.append(len(K)) or original(self, K, *a))
    clf = method(random_state=0)
    clf._check_parameters()
    clf._choose_parameters(squared_distances(X, X), y, check_random_state(0))
    machines = 1 if method is PairwiseSVM else 4  # of the six classes two are left out
    assert len(sizes) == 12 * 3 * machines and set(sizes) == {4 * 8}


def test_the_choice_does_not_depend_on_the_order_of_samples_or_the_names_of_classes():
    """Draws differ, but one choice is far ahead: narrow classes in rows, with the next class in every gap."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal((k % 6, k // 6), 0.12, (12, 2)) for k in range(12)])
    y = np.repeat(np.arange(12), 12)
    order = rng.permutation(len(y))
    first = OneVsRestSVM(score_by="decision", cv=2, random_state=0).fit(X, y)
    again = OneVsRestSVM(score_by="decision", cv=2, random_state=0).fit(X[order], rng.permutation(12)[y[order]])
    assert again.tuned_ == pytest.approx(first.tuned_, rel=1e-9)


@pytest.mark.parametrize("method", KERNEL)
def test_parameters_given_are_kept(method):
    X, y, _ = blobs()
    tuned = quiet(method(C=3.0, gamma=0.7, cv=2, random_state=0), X, y).tuned_
    assert tuned["C"] == 3.0 and tuned["gamma"] == 0.7
    tuned = quiet(method(C=3.0, gamma="scale", cv=2, random_state=0), X, y).tuned_
    assert tuned["gamma"] == pytest.approx(1 / X.var(axis=0).sum())
    tuned = quiet(method(gamma=0.7, cv=2, random_state=0), X, y).tuned_
    assert tuned["C"] in COSTS and tuned["gamma"] == 0.7
    assert quiet(OneVsSet(C=3.0, cv=2), X, y).tuned_ == {"C": 3.0}


@pytest.mark.parametrize("method", KERNEL)
def test_distances_are_computed_once_and_the_kernel_once_a_fit(method, monkeypatch):
    X, y, _ = blobs(n=12)
    calls = []
    original = cross_fitted_module.squared_distances
    monkeypatch.setattr(cross_fitted_module, "squared_distances", lambda *a: calls.append(a[0].shape) or original(*a))
    clf = quiet(method(C=1.0, gamma=0.5, cv=4), X, y)
    assert calls == [(36, 2)]
    kernels = []
    extract = machines_module.extract_kernel
    watched = lambda d, r, c, g: kernels.append((len(r), len(c))) or extract(d, r, c, g)  # noqa: E731
    for module in (machines_module, wsvm_module):
        monkeypatch.setattr(module, "extract_kernel", watched)
    clf._learn(squared_distances(X, X), np.arange(36), y, clf.tuned_)
    assert kernels == [(36, 36)]


def test_a_tail_by_hand():
    values = np.array([5.0, 1.0, 2.0, 1.5])
    (tails, short) = fit_lowest_tails([values], [3])
    expected = stats.weibull_min.fit([2.0, 2.5, 3.0], floc=0)
    assert tails[0, 0] == -1.0 and not short[0]
    np.testing.assert_allclose(tails[1:, 0], [expected[0], expected[2]], rtol=1e-3)
    # One asked for, three taken.
    again, short = fit_lowest_tails([values], [1])
    check_same(again, tails)
    assert short[0]


def test_a_tail_on_the_margin_is_lengthened_until_scores_differ():
    values = np.array([1.0, 1.001, 0.999, 1.0, 2.0, 3.0, 4.0, 5.0])
    (three, short), (six, _) = fit_lowest_tails([values], [3]), fit_lowest_tails([values], [6])
    check_same(three, six)
    assert not short[0]


def test_a_tail_too_short_has_the_shape_of_the_others_and_a_scale_of_its_own():
    fitted = [np.linspace(0, 1, 9), np.linspace(0, 2, 9), np.linspace(0, 3, 9)]
    values = [*fitted, np.array([1.0, 2.0]), np.array([1.0, 1.0004, 0.9997, 1.0])]
    tails, short = fit_lowest_tails(values, [9] * 5)
    shape = np.median(fit_lowest_tails(fitted, [9] * 3)[0][1])
    assert short.tolist() == [False, False, False, True, True]
    assert tails[1, 3:] == pytest.approx([shape, shape], rel=1e-9)
    assert tails[2, 3] == pytest.approx(((2**shape + 3**shape) / 2) ** (1 / shape))
    # Alone: shape 2; a score like all the others has the probability 1 - 1/e.
    tails, short = fit_lowest_tails(values[3:], [9, 9])
    assert tails[1].tolist() == [2.0, 2.0] and tails[2, 0] == pytest.approx(np.sqrt((4 + 9) / 2)) and short.all()
    assert Weibull(*tails[1:, 1]).cdf(1.0 - tails[0, 1]) == pytest.approx(1 - np.exp(-1), abs=1e-3)


# W-SVM


def test_wsvm_is_the_formulas_of_its_docstring():
    X, y, samples = blobs(1, spread=1.8)
    C, gamma, gate_gamma = 1.0, 0.3, 0.15
    values, machines = decisions_of(X, y, samples, C, gamma)
    expected = np.empty((len(samples), 3))
    gates = np.empty((len(samples), 3))
    for k in range(3):
        own = y == k
        scores, positive = machines[k].decision_function(X), own[machines[k].support_]
        start, match = tail_of(scores[own], int(1.5 * positive.sum()))
        other, rest = tail_of(-scores[~own], int(1.5 * (~positive).sum() / 2))
        alone = OneClassSVM(nu=0.5, gamma=gate_gamma).fit(X[own])
        sums, total = alone.decision_function(X[own]) - alone.intercept_, alone.dual_coef_.sum()
        _, inside = tail_of(sums / total, int(1.5 * len(alone.support_)), end=0.0)
        expected[:, k] = match.cdf(values[:, k] - start) * rest.sf(-values[:, k] - other)
        gates[:, k] = inside.cdf((alone.decision_function(samples) - alone.intercept_) / total)
    unclear, closed = (np.abs(gates - 0.001) < 1e-4).any(axis=1), (gates <= 0.001).all(axis=1)
    beyond = 2.0 - expected.max(axis=1)
    expected[gates <= 0.001] = 0.0
    assert 0.2 < np.mean(expected == 0.0) < 0.9 and unclear.sum() < 5
    with warnings.catch_warnings():
        warnings.simplefilter("error", TailWarning)
        clf = WSVM(C=C, gamma=gamma, gate_gamma=gate_gamma).fit(X, y)
    np.testing.assert_allclose(clf.class_scores(samples)[~unclear], expected[~unclear], atol=2e-3)
    unknown, is_closed = clf.unknown_score(samples), closed & ~unclear
    assert 0.05 < np.mean(is_closed) < 0.9
    np.testing.assert_allclose(unknown[is_closed], beyond[is_closed], atol=2e-3)
    is_open = ~closed & ~unclear
    np.testing.assert_allclose(unknown[is_open], 1 - clf.class_scores(samples).max(axis=1)[is_open])
    sure = expected.max(axis=1) > 0.01
    assert np.mean(clf.candidate(samples)[sure & ~unclear] == expected.argmax(axis=1)[sure & ~unclear]) > 0.99


def test_wsvm_rejects_far_samples_that_the_machine_is_sure_of():
    """Far from all samples the larger class has a positive decision value; only the gate knows that it is far."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (90, 2)), rng.normal(2, 1, (10, 2))])
    y = np.repeat(["many", "few"], [90, 10])
    far = [[1e3, 0.0], [0.0, -1e6]]
    settings = {"C": 1.0, "gamma": 0.5, "threshold": "original", "openness": 0.1}
    clf = quiet(OneVsRestSVM(score_by="decision", C=1.0, gamma=0.5), X, y)
    assert (clf.unknown_score(far) < -0.5).all() and clf.candidate(far).tolist() == ["many", "many"]
    assert "unknown" not in quiet(PISVM(**settings), X, y).predict(far)
    clf = quiet(WSVM(**settings), X, y)
    assert (clf.unknown_score(far) >= 1.0).all() and clf.predict(far).tolist() == ["unknown", "unknown"]
    assert clf.candidate(far).tolist() == ["many", "many"]  # all scores are zero: by the decision value
    # Also where no probability is too small.
    assert quiet(WSVM(**settings | {"openness": 0}), X, y).predict(far).tolist() == ["unknown", "unknown"]


def test_probability_of_being_inside_falls_with_the_distance_to_nothing():
    X, y, _ = blobs(2)
    model = quiet(WSVM(C=1.0, gamma=0.5, random_state=0), X, y)
    center = X[y == 1].mean(axis=0)
    ray = center + np.linspace(0, 40, 60)[:, None] * np.array([0.6, 0.8])
    kernel = np.exp(-0.5 * squared_distances(ray, model.samples_))
    sums = kernel @ model.model_.gate_weights[1]
    _, shape, scale = model.model_.inside[:, 1]
    inside = Weibull(shape, scale).cdf(sums)
    assert (np.diff(inside[sums < sums[0] / 2]) <= 0).all() and inside[0] > 0.5 and inside[-1] == 0.0
    assert model.model_.gate_weights.sum(axis=1) == pytest.approx(1.0)


def test_wsvm_original_threshold_is_one_minus_half_the_openness():
    X, y, _ = blobs()
    for method in (WSVM, PISVM, OneVsRestSVM, PairwiseSVM):
        clf = quiet(method(C=1.0, gamma=0.5, openness=0.3, threshold="original", cv=3), X, y)
        assert clf.threshold_ == pytest.approx(0.85)


# PI-SVM


@pytest.mark.parametrize("priors", ["equal", "frequency"])
def test_pisvm_is_the_formula_of_its_docstring(priors):
    X, y, samples = blobs(4, spread=1.8)
    X, y = X[12:], y[12:]  # sizes 18, 30, 30
    values, machines = decisions_of(X, y, samples, 1.0, 0.3)
    expected = np.empty_like(values)
    for k, machine in enumerate(machines):
        own = y == k
        start, match = tail_of(machine.decision_function(X[own]), int(1.5 * own[machine.support_].sum()))
        share = own.sum() / 30 if priors == "frequency" else 1.0
        expected[:, k] = share * match.cdf(values[:, k] - start)
    clf = PISVM(C=1.0, gamma=0.3, priors=priors).fit(X, y)
    np.testing.assert_allclose(clf.class_scores(samples), expected, atol=2e-3)
    np.testing.assert_allclose(clf.unknown_score(samples), 1 - expected.max(axis=1), atol=2e-3)


@pytest.mark.parametrize("method", [WSVM, PISVM])
def test_few_support_vectors_give_one_warning_and_sensible_answers(method):
    """The released implementation ends here with an error."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.05, (20, 2)) for c in ([0, 0], [0, 3], [3, 0])])
    y = np.repeat(["a", "b", "c"], 20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = method(C=100.0, gamma=0.1, random_state=0).fit(X, y)
    (warning,) = [w for w in caught if issubclass(w.category, TailWarning)]
    assert "'b', 'c': fewer" in str(warning.message) and warning.filename == __file__
    assert (clf.predict(X) == y).mean() > 0.95
    assert clf.predict([[3.0, 3.0]]).tolist() == ["unknown"]


@pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")
def test_only_classes_with_short_tails_are_named():
    X, y, _ = blobs(1, spread=1.8)
    X, y = np.concatenate([X, [[20.0, 20.0]]]), np.append(y, 9)
    with pytest.warns(TailWarning, match="of class 9: fewer"):
        PISVM(C=1.0, gamma=0.3, cv=3).fit(X, y)


# Machines against the rest


@pytest.mark.parametrize("seed", slow_except([0], [0, 1]))
def test_platt_probabilities_are_those_of_scikit_learn(seed):
    X, y, samples = blobs(seed, spread=1.8)
    expected = np.empty((len(samples), 3))
    for k in range(3):
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        machine = CalibratedClassifierCV(SVC(C=2.0, gamma=0.3), method="sigmoid", ensemble=False, cv=folds)
        expected[:, k] = machine.fit(X, y == k).predict_proba(samples)[:, 1]
    clf = OneVsRestSVM(C=2.0, gamma=0.3).fit(X, y)
    np.testing.assert_allclose(clf.class_scores(samples), expected, rtol=1e-8)
    np.testing.assert_allclose(clf.unknown_score(samples), 1 - expected.max(axis=1), atol=1e-12)
    assert clf.score_range == (0.0, 1.0)


def test_decision_values_are_those_of_scikit_learn():
    X, y, samples = blobs(2, spread=1.8)
    expected, _ = decisions_of(X, y, samples, 2.0, 0.3)
    clf = OneVsRestSVM(score_by="decision", C=2.0, gamma=0.3, threshold="original").fit(X, y)
    np.testing.assert_allclose(clf.class_scores(samples), expected, atol=1e-8)
    np.testing.assert_allclose(clf.unknown_score(samples), -expected.max(axis=1), atol=1e-8)
    assert clf.threshold_ == 0.0 and clf.score_range == (-np.inf, np.inf)
    clear = np.abs(expected.max(axis=1)) > 1e-8
    np.testing.assert_array_equal((clf.predict(samples) == -1)[clear], (expected.max(axis=1) < 0)[clear])
    assert OneVsRestSVM(score_by="decision", threshold=-3.0, C=1.0).fit(X, y).threshold_ == -3.0


@pytest.mark.parametrize("method", [OneVsRestSVM, PairwiseSVM])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_sigmoids_rise_with_the_decision_value_even_of_few_samples(method, n):
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [0.0, 5.0], [5.0, 0.0], [5.0, 5.0]], n, axis=0) + 0.5 * rng.normal(size=(4 * n, 2))
    y = np.repeat(np.arange(4), n)
    clf = quiet(method(C=1.0, gamma="scale", random_state=0), X, y)
    assert (clf.model_.slopes < 0).all()
    assert (clf.candidate(X) == y).all()


def test_a_sigmoid_that_would_fall_is_fitted_to_training_samples():
    """Exclusive or: the nearest samples to one that is held out are of the other class."""
    X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0, 0, 1, 1])
    kernel = np.exp(-squared_distances(X, X))
    settings = {"method": "sigmoid", "ensemble": False}
    held_out = CalibratedClassifierCV(SVC(kernel="precomputed"), cv=2, **settings).fit(kernel, y)
    assert held_out.calibrated_classifiers_[0].calibrators[0].a_ > 0
    machine, slopes, _ = fit_calibrated(SVC(kernel="precomputed"), kernel, y)
    assert slopes < 0 and machine.support_.size
    on_features = FrozenEstimator(SVC(gamma=1.0).fit(X, y))
    inside = CalibratedClassifierCV(on_features, method="sigmoid", cv=2).fit(X, y)
    np.testing.assert_allclose(slopes, inside.calibrated_classifiers_[0].calibrators[0].a_)


# Machines of pairs


@pytest.mark.parametrize("n_classes", slow_except([2, 3], [2, 3, 5]))
def test_pairwise_probabilities_agree_best_with_scikit_learns_sigmoids_of_pairs(n_classes):
    """Each pair fitted and calibrated by scikit-learn in the same folds; the sum of squares minimized by SciPy."""
    X, y, samples = blobs(n_classes, n_classes, spread=1.8)
    samples = samples[::7]
    clf = PairwiseSVM(C=2.0, gamma=0.3).fit(X, y)
    folds = list(cross_fitted_module.find_folds(y, np.random.RandomState(0), 3))
    r = np.zeros((len(samples), n_classes, n_classes))
    for i, j in itertools.combinations(range(n_classes), 2):
        rows = np.flatnonzero((y == i) | (y == j))
        split = [(np.flatnonzero(~np.isin(rows, fold)), np.flatnonzero(np.isin(rows, fold))) for fold in folds]
        machine = CalibratedClassifierCV(SVC(C=2.0, gamma=0.3), method="sigmoid", ensemble=False, cv=split)
        r[:, i, j] = machine.fit(X[rows], y[rows] == i).predict_proba(samples)[:, 1]
        r[:, j, i] = 1 - r[:, i, j]
    found = clf.class_scores(samples)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    for of_sample, p in zip(r, found, strict=True):

        def disagreement(p, r=of_sample):
            return np.sum((r.T * p[:, None] - r * p[None, :]) ** 2)

        best = minimize(
            disagreement,
            np.full(n_classes, 1 / n_classes),
            bounds=[(0, 1)] * n_classes,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose(p, best.x, atol=1e-3)
        assert disagreement(p) <= best.fun + 1e-6
    np.testing.assert_allclose(clf.unknown_score(samples), 1 - found.max(axis=1), atol=1e-12)


def test_sigmoids_are_as_likely_as_scikit_learns_or_more():
    rng = np.random.default_rng(0)
    decisions, first = rng.normal(size=(60, 8)) * np.logspace(-6, 6, 8), rng.random((60, 8)) < 0.4
    decisions += np.where(first, 1.0, -1.0) * np.logspace(-6, 6, 8) * np.linspace(0, 4, 8)  # from noise to separable
    counts = rng.random((60, 8)) < 0.9
    a, b = fit_sigmoids(decisions, first, counts)

    def loss(k, a, b):
        f, t = decisions[counts[:, k], k], first[counts[:, k], k]
        target = np.where(t, (t.sum() + 1) / (t.sum() + 2), 1 / ((~t).sum() + 2))
        return np.sum(np.logaddexp(0, a * f + b) + (target - 1) * (a * f + b))

    for k in range(8):
        scale = np.abs(decisions[counts[:, k], k]).max()
        theirs = minimize(lambda v, k=k, s=scale: loss(k, v[0] / s, v[1]), [0.0, 0.0], method="BFGS")
        assert loss(k, a[k], b[k]) <= theirs.fun + 1e-8
        assert loss(k, a[k], b[k]) >= theirs.fun - 1e-3


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_weights_of_pairs_give_scikit_learns_decision_values(n_classes):
    X, y, samples = blobs(0, n_classes, spread=1.8)
    machine = SVC(gamma=0.3, decision_function_shape="ovo").fit(X, y)
    expected = machine.decision_function(samples).reshape(len(samples), -1) * (-1 if n_classes == 2 else 1)
    weights, intercepts = extract_pair_weights(machine, y)
    found = np.exp(-0.3 * squared_distances(samples, X)) @ weights.T + intercepts
    np.testing.assert_allclose(found, expected, atol=1e-8)


@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
def test_coupling_gives_back_probabilities_that_pairs_were_made_of(n_classes, seed):
    p = np.random.default_rng(seed).dirichlet(np.ones(n_classes), 5) + 1e-3
    p /= p.sum(axis=1, keepdims=True)
    first, second = np.triu_indices(n_classes, 1)
    np.testing.assert_allclose(
        couple_probabilities(p[:, first] / (p[:, first] + p[:, second]), n_classes), p, atol=1e-6
    )


def test_coupling_survives_pairs_that_are_certain():
    """One class against all; and a circle in which each class beats the next."""
    np.testing.assert_allclose(couple_probabilities(np.array([[1.0, 1.0, 0.5]]), 3), [[1.0, 0.0, 0.0]], atol=1e-5)
    np.testing.assert_allclose(couple_probabilities(np.array([[1.0, 0.0, 1.0]]), 3), np.full((1, 3), 1 / 3), atol=1e-5)


# 1-vs-Set


def risk_of(scores, own, near, far, near_pressure=0.0, far_pressure=0.0, weight=2.0):
    """Compute the risk by the formula of the docstring."""
    inside = (scores >= near) & (scores <= far)
    right, wrong, missed = (inside & own).sum(), (inside & ~own).sum(), (~inside & own).sum()
    if not right:
        return np.inf
    mine = scores[own]
    width = max(mine.max() - mine.min(), 1e-4)
    thickness = max(far - near, 1e-4)
    margins = near_pressure * (mine.min() - near) / width + far_pressure * (far - mine.max()) / width
    f_measure = 2 * right / (2 * right + wrong + missed)
    return thickness / width + width / thickness + margins + weight / f_measure


@pytest.mark.parametrize("seed", range(20))
def test_no_plane_can_move_and_lower_the_risk(seed):
    rng = np.random.default_rng(seed)
    own = np.arange(40) < 12
    scores = np.where(own, rng.normal(1, 1, 40), rng.normal(-1, 1.2, 40)).round(1)
    settings = (rng.uniform(-0.5, 0.5), rng.uniform(-0.5, 0.5), rng.uniform(0.2, 4))
    near, far = place_planes(scores, own, *settings)
    lowest = risk_of(scores, own, near, far, *settings)
    assert near <= far and {near, far} <= set(scores)
    moves = [(a, far) for a in scores if a <= far] + [(near, b) for b in scores if b >= near]
    assert all(risk_of(scores, own, a, b, *settings) >= lowest - 1e-9 for a, b in moves)
    best = min(risk_of(scores, own, a, b, *settings) for a in scores for b in scores if a <= b)
    assert lowest <= 1.05 * best


def test_planes_by_hand():
    """The slab of exactly the class: no errors, t = t₊, risk 2 + 2."""
    own = np.array([False, False, True, True, False])
    scores = np.array([-2.0, -1.0, 1.0, 2.0, 9.0])
    assert place_planes(scores, own) == (1.0, 2.0) and risk_of(scores, own, 1.0, 2.0) == 4.0
    # Outwards pressure on the near plane: the gain of 2 p beats the thicker slab, (3 + 1/3) - 2, and F of 4/5.
    assert place_planes(scores, own, near_pressure=-1.0) == (-1.0, 2.0)
    # A class that its machine leaves on the wrong side has a slab there.
    assert place_planes(scores - 5.0, own) == (-4.0, -3.0)
    # A sample alone is a slab of no thickness.
    assert place_planes(np.array([-1.0, 1.0]), np.array([False, True])) == (1.0, 1.0)


def test_one_vs_set_rejects_both_sides_of_a_slab():
    X = np.array([[0.0], [0.5], [1.0], [4.0], [4.5], [5.0]])
    clf = quiet(OneVsSet(threshold="original", C=10.0), X, ["a"] * 3 + ["b"] * 3)
    assert clf.predict(X).tolist() == ["a"] * 3 + ["b"] * 3
    assert clf.predict([[-1.0], [2.5], [6.0], [100.0]]).tolist() == ["unknown"] * 4
    # Slabs reach from the first sample of a class to the last, in units of the margin: f = ±1 at 1 and 4.
    units = 1 / 1.5
    np.testing.assert_allclose(
        clf.unknown_score([[0.25], [-1.0], [100.0]]), np.array([-0.25, 1, 95]) * units, rtol=2e-3
    )


def test_one_vs_set_machines_are_scikit_learns_on_scaled_samples():
    X, y, samples = blobs(6, spread=1.5, dims=5)
    root, center = np.sqrt(X.var(axis=0).sum()), X.mean(axis=0)
    expected, _ = decisions_of((X - center) / root, y, (samples - center) / root, 5.0, "auto", kernel="linear")
    model = OneVsSet(C=5.0).fit(X, y).model_
    np.testing.assert_allclose(
        samples @ model.weights.T + model.intercepts, expected, atol=1e-3 * np.abs(expected).max()
    )


@pytest.mark.parametrize("method", ALL)
def test_scores_do_not_change_with_unit_and_origin_of_the_features(method):
    X, y, samples = blobs(7)
    first, second = method(cv=2, random_state=0), method(cv=2, random_state=0)
    quiet(first, X, y), quiet(second, 64.0 * X + 32.0, y)
    np.testing.assert_allclose(first.unknown_score(samples), second.unknown_score(64.0 * samples + 32.0), atol=5e-3)


# Bad and odd input


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize(
    "X, y",
    [
        pytest.param([[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 4, [0, 1] * 4, id="two labels at distance zero"),
        pytest.param([[3.0, 3.0]] * 9, [0, 1, 2] * 3, id="all equal"),
    ],
)
def test_classes_of_the_same_samples_are_survived(method, X, y):
    clf = quiet(method(random_state=0), np.array(X), y)
    probe = np.concatenate([X, np.full((1, np.shape(X)[1]), 1e3)])
    scores, low, high = clf.unknown_score(probe), *clf.score_range
    assert np.isfinite(scores).all() and (scores >= low).all() and (scores <= high).all()
    assert np.isin(clf.candidate(probe), y).all() and np.isfinite(clf.class_scores(probe)).all()


@pytest.mark.parametrize("method", ALL)
def test_models_are_of_plain_arrays(method):
    X, y, _ = blobs(8)
    clf = quiet(method(C=1.0, cv=2), X, y)
    assert isinstance(clf.model_, clf.model_type) and clf.model_.is_sound(3)
    for field in fields(clf.model_):
        assert isinstance(getattr(clf.model_, field.name), np.ndarray | float | int), field.name


@pytest.mark.parametrize(
    "method, settings",
    [(method, {"C": "large"}) for method in ALL]
    + [(method, {"gamma": "auto"}) for method in KERNEL]
    + [(WSVM, s) for s in ({"nu": 0.0}, {"nu": 1.1}, {"gate": 1.0}, {"gate": -0.1}, {"gate_gamma": "auto"})]
    + [(method, {"tail_factor": 0.0}) for method in (WSVM, PISVM)]
    + [(PISVM, {"priors": "uniform"}), (OneVsRestSVM, {"score_by": "margin"}), (OneVsRestSVM, {"threshold": 1.5})]
    + [(OneVsSet, s) for s in ({"near_pressure": "high"}, {"far_pressure": np.inf}, {"empirical_weight": -1.0})],
)
def test_parameters_that_make_no_sense_are_named(method, settings):
    X, y, _ = blobs(n=5)
    with pytest.raises(ValueError, match=next(iter(settings))):
        method(**settings).fit(X, y)

"""p-values, prediction sets and false discovery rates keep what they promise: by brute force and by simulation."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from same import check_same
from scipy.stats import binom
from sklearn.datasets import load_digits
from worlds import World

import benchmarks.promises as promises
import srosr
from srosr import CalibrationWarning, KNNDistance, SROSRClassifier
from srosr.scoring.cross_test import compute_margins
from srosr.thresholds.choice import conformal_threshold
from srosr.thresholds.guarantees import PredictionSets, describe_guarantees
from srosr.thresholds.p_values import (
    CalibrationSplit,
    ClassComparison,
    conformal_p_values,
    p_values_by_candidate,
    select_discoveries,
)

scores = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=30).map(np.array)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    known = y < 5
    return X[:700][known[:700]], y[:700][known[:700]], X[700:], y[700:]


@pytest.fixture(scope="module")
def split(digits):
    return SROSRClassifier(calibration="split", n_repeats=4, random_state=0).fit(*digits[:2])


@pytest.fixture(scope="module")
def cross(digits):
    return SROSRClassifier(n_repeats=4, random_state=0).fit(*digits[:2])


# --- p-values --------------------------------------------------------------------------------------


@given(scores, scores)
def test_a_p_value_counts_the_calibration_scores_that_are_as_large(calibration, new):
    expected = [(1 + sum(c >= s for c in calibration)) / (len(calibration) + 1) for s in new]
    np.testing.assert_allclose(conformal_p_values(new, calibration), expected, rtol=1e-12)


@given(scores, st.randoms(use_true_random=False))
def test_with_groups_each_group_counts_as_one(calibration, random):
    groups = np.array([random.randrange(4) for _ in calibration])
    split = CalibrationSplit(calibration, np.zeros(len(groups), int), np.zeros(len(groups), int), groups=groups)
    for s in range(8):
        shares = [np.mean(calibration[groups == g] >= s) for g in np.unique(groups)]
        expected = (1 + sum(shares)) / (1 + len(shares))
        found = conformal_p_values(np.array([float(s)]), calibration, split.compute_weights())
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(scores, st.floats(0.02, 0.9), st.randoms(use_true_random=False))
def test_a_score_is_above_the_threshold_exactly_if_its_p_value_is_at_most_the_target(calibration, target, random):
    groups = np.array([random.randrange(5) for _ in calibration])
    split = CalibrationSplit(calibration, np.zeros(len(groups), int), np.zeros(len(groups), int), groups=groups)
    weights = split.compute_weights()
    threshold = conformal_threshold(calibration, target, 9.0, weights)
    # Between the scores too, but not beyond the end of the scale.
    new = np.arange(0.0, 9.01, 0.5)
    p_values = conformal_p_values(new, calibration, weights)
    clear = np.abs(p_values - target) > 1e-6
    np.testing.assert_array_equal((new > threshold)[clear], (p_values <= target)[clear])


def test_a_score_that_is_not_a_number_has_the_smallest_p_value():
    assert conformal_p_values(np.array([np.nan, np.inf]), np.array([1.0, 2.0, 3.0])).tolist() == [0.25, 0.25]


def test_p_values_of_exchangeable_scores_are_at_most_uniform():
    rng = np.random.default_rng(1)
    found = np.array([conformal_p_values(draw[:1], draw[1:])[0] for draw in rng.random((4000, 30))])
    for level in (0.05, 0.1, 0.3, 0.7):
        assert (found <= level).sum() <= binom.ppf(0.9999, len(found), level)
        assert (found <= level).sum() >= binom.ppf(0.0001, len(found), max(level - 1 / 30, 0))


def test_by_candidate_small_groups_are_pooled_and_large_ones_are_not():
    rng = np.random.default_rng(2)
    candidate = np.repeat([0, 1, 2, 3], [30, 25, 11, 9])
    own = CalibrationSplit(rng.random(75) + candidate, candidate, candidate)
    new = np.array([0.5, 1.5, 2.5, 3.5])
    # Two small ones are enough together for a rate of .05, but not for one of .04: all stand for them.
    for needed, together in ((19, [2, 3]), (24, [0, 1, 2, 3])):
        found = p_values_by_candidate(new, np.arange(4), own, 4, needed=needed)
        for k, members in ((0, [0]), (1, [1]), (2, together), (3, together)):
            rows = np.isin(candidate, members)
            assert found[k] == (1 + (own.scores[rows] >= new[k]).sum()) / (1 + rows.sum())


def test_by_class_each_class_is_compared_with_its_own_samples():
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1, 2], [20, 20, 3])  # the last has too few, and no other class to share with
    wrong = np.roll(truth, 5)  # candidates must not matter
    split = CalibrationSplit(rng.random(43), wrong, truth, class_scores=rng.random(43) + truth)
    new = rng.random((6, 3)) + np.arange(3)
    found = ClassComparison(split, 3, needed=9).compute(new)
    for k in range(3):
        own = split.class_scores[truth == k] if k < 2 else split.class_scores
        np.testing.assert_allclose(found[:, k], [(1 + (own >= s).sum()) / (1 + len(own)) for s in new[:, k]])


def test_margins_are_the_lead_of_the_best_other_class():
    class_scores = np.random.default_rng(4).standard_normal((50, 5))
    class_scores[3, 1] = class_scores[3, 4] = 9.0  # a tie at the top
    expected = np.array([[np.delete(row, k).max() - row[k] for k in range(5)] for row in class_scores])
    np.testing.assert_array_equal(compute_margins(class_scores), expected)


# --- false discovery rate --------------------------------------------------------------------------


@given(st.lists(st.integers(1, 40).map(lambda i: i / 40), min_size=1, max_size=25), st.floats(0.01, 0.6))
def test_the_rejected_are_those_of_the_largest_number_that_fits(p_values, rate):
    p = np.array(p_values)
    numbers = [k for k in range(1, len(p) + 1) if np.sort(p)[k - 1] <= rate * k / len(p) * (1 + 1e-12)]
    expected = p <= np.sort(p)[max(numbers) - 1] if numbers else np.zeros(len(p), bool)
    np.testing.assert_array_equal(select_discoveries(p, rate), expected)


def test_nothing_is_discovered_among_nothing():
    assert select_discoveries(np.empty(0), 0.1).shape == (0,)


def test_the_false_discovery_rate_is_kept_with_one_calibration_set_for_all():
    """Known scores are uniform, unknown ones larger; the bound is the rate times the share of known samples."""
    rng, shares = np.random.default_rng(5), []
    for _ in range(2000):
        new = np.concatenate([rng.random(30), 0.9 + rng.random(15)])
        rejected = select_discoveries(conformal_p_values(new, rng.random(99)), 0.2)
        shares.append(rejected[:30].sum() / max(rejected.sum(), 1))
    assert np.mean(shares) <= 0.2 * 30 / 45 + 4 * np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) > 0.05, "it would be easy never to reject"


def test_decide_by_false_discovery_rate_agrees_with_its_p_values(split, digits):
    X, y = digits[2:]
    said = split.decide(X, fdr=0.1)
    check_same(said.p_value, split.p_value(X))
    np.testing.assert_array_equal(said.rejected, select_discoveries(said.p_value, 0.1))
    np.testing.assert_array_equal(said.label == -1, said.rejected)
    np.testing.assert_array_equal(said.label[~said.rejected], said.candidate[~said.rejected])
    assert (y[said.rejected] < 5).mean() < 0.2 and said.rejected[y >= 5].mean() > 0.8
    assert split.decide(X).p_value is None


def test_a_sample_of_length_zero_is_rejected_by_false_discovery_rate_too(split, digits):
    X = np.concatenate([digits[0][:5], np.zeros((1, 64))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        assert split.decide(X, fdr=0.001).rejected.tolist() == [False] * 5 + [True]


def test_a_rate_that_is_too_small_for_the_calibration_samples_warns(split, digits):
    with pytest.warns(CalibrationWarning, match="takes 999 calibration samples"):
        assert not split.decide(digits[2][:50], fdr=0.001).rejected.any()


@pytest.mark.parametrize("fdr", [0.0, 1.0, -1, "a", True])
def test_a_false_discovery_rate_is_between_zero_and_one(split, digits, fdr):
    with pytest.raises(ValueError, match="fdr must be"):
        split.decide(digits[2][:5], fdr=fdr)


# --- classes and sets ------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["calibrated", "paper", "matched"])
@pytest.mark.parametrize("label_by", ["fused", "residual"])
def test_the_class_of_a_known_sample_is_in_its_set_as_often_as_promised(digits, rule, label_by):
    X, y, X_test, y_test = digits
    clf = SROSRClassifier(calibration="split", n_repeats=4, rule=rule, label_by=label_by, random_state=1).fit(X, y)
    known = y_test < 5
    sets = clf.prediction_set(X_test, coverage=0.9)
    inside = sets.contains[np.flatnonzero(known), y_test[known]]
    # Calibration samples are few: the coverage of one model varies by about 1/sqrt(n) of a class.
    assert inside.mean() > 0.85
    assert sets.unknown[~known].mean() > 0.8
    assert sets.sizes[known].mean() < 1.3


@pytest.mark.parametrize("fdr", [None, 0.2])
def test_decide_returns_sets_beside_the_decisions(split, digits, fdr):
    X = digits[2]
    both, sets = split.decide(X, coverage=0.8, fdr=fdr), split.prediction_set(X, 0.8)
    check_same(both.prediction_set.p_values, sets.p_values)
    assert both.prediction_set.guarantee == sets.guarantee and both.prediction_set.coverage == 0.8
    plain = split.decide(X, fdr=fdr)
    assert plain.prediction_set is None
    np.testing.assert_array_equal(both.label, plain.label)
    check_same(both.unknown_score, plain.unknown_score)


def test_sets_follow_every_change_of_the_calibration(digits):
    X, y, new, truth = digits
    known = truth < 5
    clf = SROSRClassifier(n_repeats=4, random_state=0).fit(X, y)
    for change in (
        lambda: clf,
        lambda: clf.recalibrate(new[known][-60:], truth[known][-60:]),
        lambda: clf.recalibrate(new[known][-90:], truth[known][-90:]),
        lambda: clf.remove_class(clf.classes_[0]),
        lambda: clf.fit(X[::2], y[::2]),
    ):
        change()
        sets = clf.prediction_set(new[:40], 0.9)
        afresh = copy.copy(clf)
        afresh._kept_comparison = None
        check_same(sets.p_values, afresh.prediction_set(new[:40], 0.9).p_values)
        assert sets.p_values.shape == (40, len(clf.classes_))


def test_what_sets_need_is_prepared_once_for_each_of_a_few_rates(split, digits):
    X, split._kept_comparison = digits[2][:5], None  # other tests ask for other rates
    prepared = {coverage: split._compare_classes(1 - coverage)[0] for coverage in (0.95, 0.9, 0.8)}
    for coverage in (0.9, 0.95, 0.8, 0.95):
        split.prediction_set(X, coverage)
        assert split._compare_classes(1 - coverage)[0] is prepared[coverage]
    for coverage in (0.7, 0.6, 0.99):
        split.prediction_set(X, coverage)
    assert len(split._kept_comparison[1]) == 4 and split._compare_classes(1 - 0.95)[0] is not prepared[0.95]


def test_methods_without_sets_say_so(digits):
    clf = KNNDistance().fit(digits[0], digits[1])
    with pytest.raises(ValueError, match=r"coverage=0\.9: KNNDistance has no prediction sets; leave it out"):
        clf.decide(digits[2], coverage=0.9)


def test_sets_list_classes_by_their_p_values(split, digits):
    X = digits[2][:40]
    sets = split.prediction_set(X, coverage=0.999)
    p_values = split.class_p_values(X, rate=0.001)
    check_same(sets.p_values, p_values)
    for i, classes in enumerate(sets):
        assert set(classes.tolist()) == {k for k in range(5) if p_values[i, k] > 0.001}
        assert np.all(np.diff(p_values[i, classes]) <= 0)
    assert len(sets) == 40 and sets[0].dtype == split.classes_.dtype


def test_the_summary_of_sets_counts_them():
    contains = np.array([[True, False], [True, True], [False, False], [False, True]])
    sets = PredictionSets(np.array(["a", "b"]), contains, np.where(contains, 0.5, 0.0), 0.9, "guaranteed for all")
    text = str(sets)
    assert "4 samples: 2 with one class, 1 with several, 1 with none" in text and "1.33 classes" in text
    assert sets.mean_size == pytest.approx(4 / 3) and sets.sizes.tolist() == [1, 2, 0, 1]
    none = PredictionSets(sets.classes, contains[:0], np.empty((0, 2)), 0.9, "guaranteed for all")
    assert "0 samples" in str(none)


def test_held_out_samples_give_nearly_the_same_sets_as_a_calibration_split(cross, split, digits):
    X = digits[2]
    agree = cross.prediction_set(X).contains == split.prediction_set(X).contains
    assert agree.mean() > 0.97


def test_a_class_of_too_few_samples_shares_its_calibration():
    world = World(3, n_known=4)
    X, y = world.known([60, 60, 8, 8])
    clf = SROSRClassifier(calibration="split", calibration_size=0.5, n_repeats=3, random_state=0).fit(X, y)
    told = clf.guarantees(0.1)
    assert told.own.tolist() == [True, True, False, False] and told.counts.tolist() == [30, 30, 4, 4]
    assert told.rest == 8 and "all classes are pooled" in told.describe_class(2)
    assert clf.guarantees(0.12).describe_class(3) == "guaranteed for 2 classes together, from 8 samples"
    assert "2 classes one by one" in clf.guarantees(0.12).by_class


def test_guarantees_say_what_is_approximate(cross, split):
    assert cross.guarantees().overall.startswith("approximate for new samples of the known classes")
    assert split.guarantees().overall.startswith("guaranteed for new samples of the known classes")
    assert split.guarantees(0.001).overall.startswith("approximate: ")
    assert "guaranteed for each of the 5 classes" in str(split.prediction_set(np.ones((2, 64))))
    content = split.guarantees().to_dict()
    assert content["exact"] and list(content["classes"]) == ["0", "1", "2", "3", "4"]
    lines = str(split.guarantees()).splitlines()
    assert len(lines) == 7 and lines[0] == "False rejection of at most 0.05 is"


def test_every_open_set_method_has_p_values(digits):
    X, y, X_test, y_test = digits
    clf = KNNDistance().fit(X, y)
    for per_class in (False, True):
        p = clf.p_value(X_test, per_class=per_class)
        assert ((p > 0) & (p <= 1)).all()
        assert np.median(p[y_test >= 5]) < np.median(p[y_test < 5])
    assert clf.decide(X_test, fdr=0.2).rejected.any()
    assert not clf.guarantees().exact


def test_p_values_by_candidate_keep_their_rate_for_each_candidate(split, digits):
    X, y = digits[2:]
    known = X[y < 5]
    by_candidate = split.p_value(known, per_class=True)
    candidate = split.candidate(known)
    for k in range(5):
        assert (by_candidate[candidate == k] <= 0.1).mean() < 0.2


def test_p_values_need_a_held_out_sample():
    X = np.eye(4) + 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        clf = SROSRClassifier(n_repeats=2).fit(X, [0, 1, 2, 3])
    with pytest.raises(ValueError, match="no class has a second sample to hold out"):
        clf.p_value(X)
    with pytest.raises(ValueError, match="no class has a second sample to hold out"):
        clf.prediction_set(X)


@pytest.mark.parametrize("coverage", [0, 1, 1.5, None, "much"])
def test_a_coverage_is_between_zero_and_one(split, digits, coverage):
    with pytest.raises(ValueError, match="coverage must be"):
        split.prediction_set(digits[2][:3], coverage=coverage)


def test_a_file_keeps_p_values_and_sets(split, cross, digits, tmp_path):
    X = digits[2][:80]
    for clf in (split, cross):
        clf.save(tmp_path / "model")
        again = srosr.load(tmp_path / "model")
        check_same(again.class_p_values(X), clf.class_p_values(X))
        check_same(again.p_value(X), clf.p_value(X))
        assert str(again.guarantees()) == str(clf.guarantees())


def test_guarantees_of_unlabeled_samples_say_so():
    split = CalibrationSplit(np.arange(40.0), np.zeros(40, int), np.zeros(40, int), labeled=False, fresh=True)
    told = describe_guarantees(split, np.array(["a", "b"]), 0.05)
    assert "no labels" in told.describe_class(0) and "new samples like these" in told.overall


def test_a_part_of_the_sets_is_sets(split, digits):
    sets = split.prediction_set(digits[2][:10])
    part = sets[2:5]
    assert len(part) == 3 and part[0].tolist() == sets[2].tolist() and part.coverage == sets.coverage


def test_thresholds_by_candidate_are_not_exact_with_groups():
    world = World(1, n_known=3)
    X, y = world.known(60)
    settings = {"calibration": "split", "target_rejection": 0.2, "n_repeats": 2, "random_state": 0}
    clf = SROSRClassifier(per_class=True, **settings).fit(X, y, groups=np.arange(180) // 3)
    assert clf.threshold_info_.kind == "target"
    assert SROSRClassifier(**settings).fit(X, y, groups=np.arange(180) // 3).threshold_info_.kind == "conformal"


def test_a_false_discovery_rate_counts_groups():
    world = World(1, n_known=3)
    X, y = world.known(40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        clf = SROSRClassifier(calibration="split", n_repeats=2, random_state=0)
        clf.fit(X, y, groups=np.arange(120) % 10)
    with pytest.warns(CalibrationWarning, match="calibration groups of samples and there are"):
        clf.decide(X, fdr=0.05)


def test_a_false_discovery_rate_can_be_applied_to_decisions(split, digits):
    X = np.concatenate([digits[2], np.zeros((1, 64))])
    expected = split.decide(X, fdr=0.1)
    found = split._decide_together(split.decide(X), 0.1)
    assert 0 < expected.rejected.sum() < len(X) and expected.rejected[-1] and found.label.dtype == expected.label.dtype
    check_same(found, expected)
    np.testing.assert_array_equal(found.label == split.unknown_label_, found.rejected)
    np.testing.assert_array_equal(found.label[~found.rejected], found.candidate[~found.rejected])


def test_a_classifier_pickled_by_an_earlier_version_has_prediction_sets(split, digits):
    import pickle

    X = digits[2][:20]
    earlier = copy.copy(split)
    earlier.__dict__.pop("_kept_comparison", None)
    again = pickle.loads(pickle.dumps(earlier))
    np.testing.assert_array_equal(again.prediction_set(X).contains, split.prediction_set(X).contains)
    assert "_kept_comparison" not in split.get_params()


# --- over many repetitions -------------------------------------------------------------------------


@pytest.mark.slow
def test_every_promise_is_kept_over_many_repetitions():
    """100 of the thousand repetitions that ``python -m benchmarks.promises`` makes."""
    broken = promises.run(100)
    for promise in promises.PROMISES:
        if promise.is_promised:
            assert broken[promise.key].mean() <= promises.find_limit(promise, broken[promise.key]), promise
    # What is not promised would not be kept, so that the worlds are hard enough to tell.
    assert broken["pooled noisy"].mean() > 1.5 * promises.RATE
    assert broken["shifted before"].mean() > 2 * promises.RATE

"""Thresholds keep what they promise: by brute force where they optimize, by simulation where they guarantee a rate."""

import warnings

import numpy as np
import pytest
from same import check_same
from scale import slow_except
from scipy import stats
from scipy.special import expit
from worlds import World

from srosr import CalibrationWarning, Lasso
from srosr._support.parameter_checks import check_rate
from srosr.classifiers.srosr_classifier import SROSRClassifier
from srosr.scoring.held_out_scores import HeldOutScores
from srosr.thresholds.choice import (
    OBJECTIVES,
    CalibrationSplit,
    Threshold,
    check_threshold,
    choose_threshold,
    conformal_threshold,
    count_needed,
    rejection_threshold,
    simulated_threshold,
)

# --- a target rate of false rejection --------------------------------------------------------------


@pytest.mark.parametrize("target", [0.001, 0.01, 0.05, 0.1, 1 / 3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 19, 20, 100, 301])
def test_rejection_threshold_is_the_smallest_that_rejects_at_most_the_target(n, target):
    scores = np.random.default_rng(n).random(n)
    threshold = rejection_threshold(scores, target)
    assert threshold in scores
    assert np.mean(scores > threshold) <= target + 1e-12
    lower = scores[scores < threshold]
    if len(lower):
        assert np.mean(scores > lower.max()) > target - 1e-12


def test_rejection_threshold_takes_ties_as_they_are():
    assert rejection_threshold(np.array([0.0] * 19 + [0.7]), 0.05) == 0.0
    assert rejection_threshold(np.array([0.3] * 10), 0.2) == 0.3
    assert np.mean(np.repeat([0.1, 0.9], [80, 20]) > rejection_threshold(np.repeat([0.1, 0.9], [80, 20]), 0.1)) == 0.0


@pytest.mark.parametrize(("target", "n"), [(0.5, 1), (0.2, 4), (0.1, 9), (0.05, 19), (0.01, 99), (0.001, 999)])
def test_enough_is_one_over_the_rate_minus_one(target, n):
    assert count_needed(target) == n
    scores = np.linspace(0.1, 0.9, n)
    assert conformal_threshold(scores, target) == scores[-1], "with enough, the largest score stands for the rate"
    assert conformal_threshold(scores[:-1], target) == 1.0, "with fewer, nothing may be rejected"


@pytest.mark.parametrize("target", [0.3, 0.07, 0.013])
def test_enough_is_the_first_number_that_is_not_too_few(target):
    n = count_needed(target)
    assert n >= 1 / target - 1 > n - 1


@pytest.mark.parametrize("target", [0.05, 0.1, 0.31])
@pytest.mark.parametrize("n", [10, 19, 20, 57])
def test_conformal_threshold_rejects_exchangeable_samples_at_the_target_or_a_little_less(n, target):
    """The expected rate lies in [alpha - 1/(n+1), alpha] for continuous scores: by 4000 draws of n scores.

    For uniform scores the rate of a threshold is one minus it, so that nothing but the threshold itself is random: its
    deviation is that of an order statistic, at most 1/(2 sqrt(n + 2)).
    """
    rng = np.random.default_rng(7)
    rates = 1.0 - np.array([conformal_threshold(rng.random(n), target) for _ in range(4000)])
    noise = 4 * 0.5 / np.sqrt((n + 2) * 4000)
    assert rates.mean() <= target + noise
    if n >= count_needed(target):
        assert rates.mean() >= target - 1 / (n + 1) - noise
    else:
        assert (rates == 0).all()


def test_conformal_threshold_keeps_its_promise_with_ties():
    rng = np.random.default_rng(8)
    rates = []
    for _ in range(2000):
        scores = rng.integers(0, 5, 30) / 10
        rates.append(np.mean(np.arange(5) / 10 > conformal_threshold(scores, 0.1)))
    assert np.mean(rates) <= 0.1


def test_conformal_threshold_is_never_below_the_plain_one():
    rng = np.random.default_rng(9)
    for n in (5, 20, 100):
        scores = rng.random(n)
        assert conformal_threshold(scores, 0.1) >= rejection_threshold(scores, 0.1)


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, np.nan, np.inf, None, "0.1", True, [0.1]])
def test_rates_outside_zero_and_one_raise_by_name(bad):
    with pytest.raises(ValueError, match="holdout"):
        check_rate("holdout", bad)


@pytest.mark.parametrize("bad", [-0.01, 1.01, np.nan, np.inf, "best", True, [0.5]])
def test_thresholds_outside_the_unknown_scores_raise(bad):
    with pytest.raises(ValueError, match="threshold"):
        check_threshold(bad)


@pytest.mark.parametrize("good", [0, 1, 0.25, np.float32(0.5), np.int64(1)])
def test_numbers_of_any_kind_are_thresholds(good):
    assert check_threshold(good) == float(good)


def test_a_threshold_of_each_sample_is_that_of_its_candidate():
    threshold = Threshold(0.5, np.array([0.1, 0.2, 0.3]), "target", "")
    np.testing.assert_array_equal(threshold.of(np.array([2, 0, 0])), [0.3, 0.1, 0.1])


# --- against simulated unknowns -------------------------------------------------------------------


def objective_at(cut, known, right, unknown, objective, risk_weight):
    """Compute the objective from its definition, one sample at a time."""
    accepted = [s <= cut for s in known]
    correct = sum(a and r for a, r in zip(accepted, right, strict=True)) / len(known)
    accepted_unknowns = sum(s <= cut for s in unknown) / len(unknown)
    if objective == "risk":
        return -(accepted_unknowns + risk_weight * (1 - correct))
    if objective == "youden":
        return sum(accepted) / len(known) - accepted_unknowns
    # True positives, false negatives and false positives, with as many unknown as known samples.
    return 2 * correct / (2 * correct + (1 - correct) + accepted_unknowns)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("risk_weight", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("kind", ["apart", "mixed", "ties", "saturated", "upside down", "one of each"])
def test_simulated_threshold_is_the_best_of_all_cut_points(objective, risk_weight, kind):
    rng = np.random.default_rng(3)
    known, unknown = {
        "apart": (rng.random(30) / 2, 0.5 + rng.random(20) / 2),
        "mixed": (rng.beta(2, 3, 60), rng.beta(4, 2, 45)),
        "ties": (rng.integers(0, 6, 50) / 5, rng.integers(2, 6, 40) / 5),
        "saturated": (np.where(rng.random(40) < 0.5, 0.0, rng.random(40)), np.where(rng.random(40) < 0.6, 1.0, 0.0)),
        "upside down": (0.5 + rng.random(20) / 2, rng.random(20) / 2),
        "one of each": (np.array([0.4]), np.array([0.6])),
    }[kind]
    right = rng.random(len(known)) < 0.8
    threshold, value = simulated_threshold(known, right, unknown, objective, risk_weight)
    assert 0 <= threshold <= 1
    cuts = np.unique(np.concatenate([[0.0, 1.0], known, unknown, np.linspace(0, 1, 101)]))
    best = max(objective_at(c, known, right, unknown, objective, risk_weight) for c in cuts)
    reached = objective_at(threshold, known, right, unknown, objective, risk_weight)
    assert reached == pytest.approx(best, abs=1e-12)
    assert value == pytest.approx(-best if objective == "risk" else best, abs=1e-12)


def test_simulated_threshold_lies_in_the_middle_of_the_gap():
    known, unknown = np.array([0.1, 0.2]), np.array([0.6, 0.9])
    assert simulated_threshold(known, np.array([True, True]), unknown, "youden") == (pytest.approx(0.4), 1.0)


def test_simulated_threshold_separates_scores_that_only_rounding_keeps_apart():
    """Scores pile up below 1: the middle of two neighboring floats is one of them, and must be the lower."""
    known, unknown = np.array([0.1, 1 - 2**-53]), np.array([1.0, 1.0])
    threshold, value = simulated_threshold(known, np.array([True, True]), unknown, "youden")
    assert value == 1.0
    assert (unknown > threshold).all() and (known <= threshold).all()


def test_a_larger_weight_of_errors_on_known_samples_never_rejects_more_of_them():
    rng = np.random.default_rng(4)
    known, unknown = rng.beta(2, 4, 200), rng.beta(4, 2, 150)
    found = [simulated_threshold(known, np.ones(200, bool), unknown, "risk", w)[0] for w in (0.1, 0.5, 1, 2, 10)]
    assert (np.diff(found) >= 0).all()


# --- in the recognizer -----------------------------------------------------------------------------


def recognizer(**parameters):
    return SROSRClassifier(Lasso(0.05), **({"n_repeats": 2, "random_state": 0} | parameters))


@pytest.fixture(scope="module")
def well_known():
    """Return a recognizer of four classes with a hundred samples each, and 1500 new samples of these."""
    world = World(11)
    X, y = world.known(100)
    return recognizer(n_repeats=4).fit(X, y), *world.fresh(1500), world.unknowns(500)


def test_p_values_of_fresh_known_samples_are_uniform(well_known):
    """Were the 400 held-out and the 1500 fresh samples of one distribution, Kolmogorov's distance between them would be
    above 1.95 sqrt(1/400 + 1/1500) = 0.11 once in a thousand times; the missing twentieth of the atoms adds little.
    """
    clf, X_test, _, _ = well_known
    p = np.exp(clf.log_p_value(X_test))
    np.testing.assert_allclose(p, 1.0 - clf.unknown_score(X_test), atol=1e-12)
    assert stats.kstest(p, "uniform").statistic < 1.95 * np.sqrt(1 / 400 + 1 / 1500)


def test_p_values_of_unknown_samples_are_small(well_known):
    clf, _, _, unknowns = well_known
    assert np.median(1.0 - clf.unknown_score(unknowns)) < 0.02


@pytest.mark.parametrize("target", [0.02, 0.05, 0.1, 0.3])
def test_target_rejection_holds_on_new_known_samples(well_known, target):
    """Within four standard deviations of a rate seen in 1500 samples by a threshold from 400."""
    clf, X_test, _, _ = well_known
    clf.set_threshold(target_rejection=target)
    rate = np.mean(clf.predict(X_test) == clf.unknown_label_)
    assert abs(rate - target) < 4 * np.sqrt(target * (1 - target) * (1 / 400 + 1 / 1500))


def test_held_out_samples_are_rejected_at_most_at_the_target(well_known):
    clf = well_known[0]
    rows = clf.calibration_.held_out
    scores = clf.calibration_.rule.score(rows.values, rows.candidate)
    for target in (0.01, 0.05, 0.25):
        clf.set_threshold(target_rejection=target)
        assert np.mean(scores > clf.threshold_) <= target
        assert clf.threshold_info_.kind == "target"


def test_per_class_thresholds_reject_each_class_at_the_target(well_known):
    clf = well_known[0]
    clf.set_threshold(target_rejection=0.1, per_class=True)
    rows = clf.calibration_.held_out
    scores = clf.calibration_.rule.score(rows.values, rows.candidate)
    assert len(np.unique(clf.thresholds_)) == 4
    for k in range(4):
        own = scores[rows.candidate == k]
        assert clf.thresholds_[k] == rejection_threshold(own, 0.1)
        assert np.mean(own > clf.thresholds_[k]) <= 0.1


def test_a_class_with_too_few_held_out_samples_has_no_threshold_of_its_own():
    X, y = World(12).known((40, 40, 40, 5))
    clf = recognizer(per_class=True, target_rejection=0.05).fit(X, y)
    counts = np.bincount(clf.calibration_.held_out.candidate, minlength=4)
    assert counts[3] < count_needed(0.05) <= counts[:3].min()
    rows = clf.calibration_.held_out
    scores = clf.calibration_.rule.score(rows.values, rows.candidate)
    # The threshold of the rest is from the rest alone: pooled with the others, nothing would bound its own rate.
    assert clf.thresholds_[3] == rejection_threshold(scores[rows.candidate == 3], 0.05)
    assert (clf.thresholds_[:3] != clf.threshold_).any()


@pytest.mark.parametrize(("rule", "n_worlds"), slow_except([("calibrated", 20)], [("calibrated", 20), ("matched", 8)]))
def test_split_calibration_keeps_its_promise(rule, n_worlds):
    """Over seeded worlds the mean false rejection is at most alpha = 0.1, and not far below.

    The rate of one threshold from 32 samples has the deviation sqrt(0.1 * 0.9 / 34) = 0.052, the mean of twenty 0.012;
    three of those are allowed, and below it the 1/33 of the guarantee.
    """
    rates = []
    for seed in range(n_worlds):
        world = World(seed, n_features=10, n_unknown=0)
        X, y = world.known(20)
        clf = recognizer(
            rule=rule, calibration="split", calibration_size=0.4, target_rejection=0.1, n_repeats=1, random_state=seed
        ).fit(X, y)
        assert clf.threshold_info_.kind == "conformal"
        assert clf.dictionary_.n_atoms == 48
        rates.append(np.mean(clf.predict(world.fresh(200)[0]) == -1))
    noise = 3 * 0.052 / np.sqrt(n_worlds)
    if rule == "calibrated":
        assert 0.1 - 1 / 33 - noise < np.mean(rates) < 0.1 + noise
    else:
        assert np.mean(rates) < 0.1 + noise  # its scores tie at zero


def test_split_samples_are_in_no_other_part_of_the_model():
    """Other features in the samples kept out change the threshold and nothing else."""
    world = World(13)
    X, y = world.known(30)
    one = recognizer(calibration="split", target_rejection=0.1).fit(X, y)
    split = np.setdiff1d(np.arange(len(y)), _rows_in(X, one.dictionary_.linear_atoms))
    assert len(split) == round(0.25 * 30) * 4
    changed = X.copy()
    changed[split] = world.unknowns(len(split))
    two = recognizer(calibration="split", target_rejection=0.1).fit(changed, y)
    X_test = world.fresh(20)[0]
    check_same(one.unknown_score(X_test), two.unknown_score(X_test))
    assert two.threshold_ > one.threshold_


def _rows_in(X, atoms):
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    return [int(np.argmin(np.abs(unit - a).sum(axis=1))) for a in atoms]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_simulated_thresholds_come_from_the_simulated_table(well_known, objective):
    clf = well_known[0]
    clf.set_threshold(objective, risk_weight=2.0)
    rows, scores = clf.calibration_.simulated, clf.calibration_.simulated_scores
    known = ~rows.unknown
    expected, _ = simulated_threshold(scores[known], rows.right[known], scores[rows.unknown], objective, 2.0)
    assert clf.threshold_ == expected
    assert (clf.thresholds_ == expected).all()
    assert clf.threshold_info_.kind == "simulated"


def test_thresholds_per_class_keep_the_rate_over_all_classes():
    """Easy classes with samples enough and harder ones with few: the few must not hide behind the easy ones."""
    rng = np.random.default_rng(0)
    rates, nothing = [], HeldOutScores(*[np.empty(0)] * 6)
    for _ in range(300):
        easy, hard = rng.normal(0, 1, (5, 60)), rng.normal(1.5, 1, (20, 10))
        scores = expit(np.concatenate([easy.ravel(), hard.ravel()]))
        candidate = np.concatenate([np.repeat(np.arange(5), 60), 5 + np.repeat(np.arange(20), 10)])
        split = CalibrationSplit(scores, candidate, candidate)
        chosen = choose_threshold(
            nothing, 25, threshold=None, target_rejection=0.05, per_class=True, risk_weight=1.0, calibration_split=split
        )
        assert chosen.kind == "conformal"
        new = np.concatenate([rng.normal(0, 1, 3000), rng.normal(1.5, 1, 2000)])
        where = np.concatenate([rng.integers(0, 5, 3000), rng.integers(5, 25, 2000)])
        rates.append(np.mean(expit(new) > chosen.of(where)))
    assert np.mean(rates) <= 0.05 + 0.003


def test_a_calibration_split_has_one_of_every_class_that_has_two():
    X, y = World(3).known((40, 2, 2, 3))
    clf = recognizer(calibration="split", target_rejection=0.1).fit(X, y)
    assert set(clf._calibration_labels) == set(y)
    assert clf.threshold_info_.kind == "conformal"


def test_a_promise_that_cannot_be_kept_is_not_made():
    X, y = World(3).known((40, 40, 1, 30))
    with pytest.warns(CalibrationWarning, match="calibration='split' cannot guarantee"):
        clf = recognizer(calibration="split").fit(X, y)
    assert clf.threshold_info_.kind == "target"
    X, y = World(3).known((6, 6, 6, 6))
    with pytest.warns(CalibrationWarning, match="calibration='split' cannot guarantee"):
        clf = recognizer(calibration="split", target_rejection=0.1).fit(X, y)
    assert clf.threshold_info_.kind == "target"


def test_classes_without_a_second_sample_get_a_threshold_from_simulated_unknowns_and_a_warning():
    world = World(5, n_known=6, n_features=10)
    X, y = world.known((30, 1, 1, 1, 1, 1))
    with pytest.warns(CalibrationWarning, match="5 of 6 classes have none"):
        clf = recognizer().fit(X, y)
    assert (clf.thresholds_[1:] >= clf.thresholds_[0]).all()
    is_unknown = clf.calibration_.simulated.unknown
    scores = clf.calibration_.simulated_scores[is_unknown]
    assert np.mean(scores <= clf.thresholds_[1]) <= max(0.05, np.mean(scores <= clf.thresholds_[0]))
    assert "without any" in clf.threshold_info_.detail


def test_a_smaller_target_never_rejects_more():
    X, y = World(4).known(30)
    clf = recognizer(random_state=0).fit(X, y)
    thresholds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        for target in (0.3, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 1e-4, 1e-6):
            thresholds.append(clf.set_threshold(target_rejection=target).threshold_)
    assert (np.diff(thresholds) >= 0).all()
    with pytest.warns(CalibrationWarning, match="by the tail") as caught:
        clf.set_threshold(target_rejection=1e-4)
    assert caught[0].filename == __file__


def test_a_warning_of_a_fit_points_at_the_line_of_the_fit():
    X, y = World(4).known(2)
    with pytest.warns(CalibrationWarning) as caught:
        recognizer().fit(X, y)
    assert {w.filename for w in caught} == {__file__}


def test_a_class_without_held_out_samples_accepts_the_target_share_of_simulated_unknowns():
    """Known scores end at 0.5, simulated unknowns begin at 0.6; a class without known scores uses the latter."""
    known, unknowns = np.linspace(0.0, 0.5, 40), np.linspace(0.6, 1.0, 100)
    first, is_unknown = np.zeros(40, int), np.ones(100, bool)
    held_out = HeldOutScores(known, first, first, unknowns, is_unknown, ~is_unknown)
    with pytest.warns(CalibrationWarning, match="accepts 0.05 of simulated unknowns"):
        chosen = choose_threshold(
            held_out, 2, threshold=None, target_rejection=0.05, per_class=False, risk_weight=1.0, calibration_split=None
        )
    assert chosen.per_class[0] == chosen.value < 0.5
    assert np.mean(unknowns <= chosen.per_class[1]) == 0.05


def test_a_target_that_ties_at_the_end_of_the_scale_make_impossible_is_not_kept_in_silence():
    """A tenth of held-out samples have the highest score: one in twenty cannot be rejected, so a warning is issued."""
    scores, first = np.concatenate([np.linspace(0, 0.9, 90), np.ones(10)]), np.zeros(100, int)
    nothing = np.empty(0, bool)
    held_out = HeldOutScores(scores, first, first, np.empty(0), nothing, nothing)
    fixed = {"threshold": None, "per_class": False, "risk_weight": 1.0, "calibration_split": None}
    with pytest.warns(CalibrationWarning, match="nothing is rejected"):
        assert choose_threshold(held_out, 1, target_rejection=0.05, **fixed).value == 1.0
    assert choose_threshold(held_out, 1, target_rejection=0.2, **fixed).value < 0.9


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_scores_on_a_scale_without_ends_have_thresholds_too(objective):
    rng = np.random.default_rng(0)
    known, unknown = rng.normal(0, 1, 200), rng.normal(3, 1, 100)
    right = np.ones(200, bool)
    value, reached = simulated_threshold(known, right, unknown, objective, 1.0, -np.inf, np.inf)
    squeezed, same = simulated_threshold(expit(known), right, expit(unknown), objective)
    assert reached == pytest.approx(same)
    np.testing.assert_array_equal(known <= value, expit(known) <= squeezed)
    # Where nothing is to be accepted, the threshold is below all scores, and finite; where everything is, it is there.
    value, _ = simulated_threshold(known, ~right, unknown, "risk", 1e-3, -np.inf, np.inf)
    assert np.isfinite(value) and (known > value).all() and (unknown > value).all()
    value, _ = simulated_threshold(known, right, unknown, "risk", 1e9, -np.inf, np.inf)
    assert np.isfinite(value) and (known <= value).all()


def test_a_threshold_on_a_scale_without_ends_is_any_finite_number():
    assert check_threshold(-3.0, -np.inf, np.inf) == -3.0
    for bad in (np.inf, np.nan, "often"):
        with pytest.raises(ValueError, match="finite number"):
            check_threshold(bad, -np.inf, np.inf)
    assert conformal_threshold(np.arange(5.0), 0.05, np.inf) == np.inf

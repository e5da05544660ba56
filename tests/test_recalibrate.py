"""Fresh samples set distribution and threshold anew; the dictionary stays as it is."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from fitted import fit_once
from same import check_same, check_same_model
from scale import slow_except
from sklearn.datasets import load_digits

import srosr
from srosr import CalibrationWarning, KMeansAtoms, SROSRClassifier
from srosr.thresholds.choice import conformal_threshold


@pytest.fixture(scope="module")
def shifted():
    """Return digits of the first writers for a fit, and those of other writers, who are harder to recognize."""
    X, y = load_digits(return_X_y=True)
    first, later = slice(0, 700), slice(900, 1797)
    known = y < 6
    return (X[first][known[first]], y[first][known[first]]), (X[later], y[later])


@pytest.fixture(scope="module")
def model(shifted):
    return SROSRClassifier(n_repeats=6, random_state=0).fit(*shifted[0])


def divide(shifted, n=120):
    """Return known samples to recalibrate with, and the other ones with what they are."""
    X, y = shifted[1]
    known = np.random.default_rng(0).permutation(np.flatnonzero(y < 6))
    rest = np.setdiff1d(np.arange(len(y)), known[:n])
    return (X[known[:n]], y[known[:n]]), (X[rest], y[rest])


@pytest.mark.parametrize("labeled", [True, False])
def test_the_target_is_kept_in_the_new_domain(model, shifted, labeled):
    (fresh, fresh_y), (X, y) = divide(shifted)
    known = y < 6
    assert model.decide(X[known]).rejected.mean() > 0.12, "without it the target of .05 is far away"
    clf = copy.copy(model).recalibrate(fresh, fresh_y if labeled else None)
    # 120 samples leave the rate uncertain by .02.
    assert clf.decide(X[known]).rejected.mean() < 0.09
    assert clf.threshold_info_.kind == "conformal"
    assert (
        clf.threshold_info_.detail == "at most 0.05 of known samples rejected, from 120 samples collected after the fit"
    )
    assert clf.guarantees().exact and "new samples like these" in clf.guarantees().overall
    assert (clf.candidate(X) == model.candidate(X)).all(), "labels do not change"


def test_the_unknown_score_is_the_share_of_fresh_samples_that_score_lower(model, shifted):
    (fresh, _), (X, _) = divide(shifted)
    clf = copy.copy(model).recalibrate(fresh)
    fused = clf.calibration_.rule.fusion.score
    own = fused(model._gather_evidence(fresh).values)
    scores, new = clf.unknown_score(X), fused(model._gather_evidence(X).values)
    expected = (own[:, None] <= new).mean(axis=0)
    inside = expected < 0.9  # beyond it a tail is fitted
    assert np.abs(scores - expected)[inside].max() < 0.02
    check_same(clf.threshold_, conformal_threshold(clf.unknown_score(fresh), 0.05))
    # The order of samples is that of the fit.
    assert (np.diff(scores[np.argsort(model.log_p_value(X))[::-1]]) >= -1e-12).all()


def test_dictionary_tails_and_weights_stay(model, shifted):
    clf = copy.copy(model).recalibrate(*divide(shifted)[0])
    assert clf.dictionary_ is model.dictionary_ and clf.calibration_.tails is model.calibration_.tails
    np.testing.assert_array_equal(clf.evidence_weights_, model.evidence_weights_)
    assert model.threshold_info_.kind == "target", "a copy was changed, not the model"


def test_p_values_and_sets_are_against_the_fresh_samples(model, shifted):
    (fresh, fresh_y), (X, y) = divide(shifted, 240)
    clf = copy.copy(model).recalibrate(fresh, fresh_y)
    scores = clf.unknown_score(fresh)
    expected = [(1 + (scores >= s).sum()) / 241 for s in clf.unknown_score(X[:20])]
    np.testing.assert_allclose(clf.p_value(X[:20]), expected)
    known = y < 6
    sets = clf.prediction_set(X, 0.9)
    assert sets.contains[np.flatnonzero(known), y[known]].mean() > 0.84
    assert model.prediction_set(X, 0.9).contains[np.flatnonzero(known), y[known]].mean() < 0.8
    with pytest.raises(ValueError, match="had no labels: recalibrate with labels"):
        copy.copy(model).recalibrate(fresh).prediction_set(X)


SMALL = {"atoms": KMeansAtoms(5)}


@pytest.mark.parametrize(
    "parameters",
    slow_except([{}, {"calibration": "split"}, SMALL], [{}, {"calibration": "split"}, {"rule": "paper"}, SMALL]),
    ids=str,
)
def test_a_recalibrated_model_survives_a_file_and_further_changes(shifted, parameters, tmp_path):
    (fresh, fresh_y), (X, y) = divide(shifted)
    clf = fit_once(SROSRClassifier(n_repeats=4, random_state=0, **parameters), *shifted[0]).recalibrate(fresh, fresh_y)
    clf.save(tmp_path / "m")
    again = srosr.load(tmp_path / "m")
    for changed in (clf, again):
        changed.add_class(X[y == 8][:60], 8).update(X[y == 2][:20], y[y == 2][:20]).remove_class(5)
        assert changed.threshold_info_.kind == "conformal" and "after the fit" in changed.threshold_info_.detail
        assert not (changed._calibration_labels == 5).any()
    check_same_model(again, clf, X)
    known = np.isin(y, [0, 1, 2, 3, 4])
    assert clf.decide(X[known]).rejected.mean() < 0.12


def test_what_compares_samples_with_classes_does_not_depend_on_the_fresh_samples(model, shifted):
    (fresh, fresh_y), (X, _) = divide(shifted)
    clf = copy.copy(model).recalibrate(fresh, fresh_y)
    evidence = model._gather_evidence(X[:30])
    np.testing.assert_array_equal(clf._measure_classes(evidence), model._measure_classes(evidence))


def test_after_further_changes_the_unknown_score_is_still_that_of_the_calibration_samples(model, shifted):
    (fresh, fresh_y), (X, y) = divide(shifted)
    clf = copy.copy(model).recalibrate(fresh, fresh_y)
    for change in (
        lambda: clf.update(X[y == 2][:20], y[y == 2][:20]),
        lambda: clf.add_class(X[y == 8][:60], 8),
        lambda: clf.remove_class(5),
    ):
        change()
        # The shares of the calibration samples below each of them are 1/n, 2/n, ..., up to the tail.
        scores = np.sort(clf.unknown_score(clf._calibration_samples))
        expected = np.arange(1, len(scores) + 1) / len(scores)
        assert np.abs(scores - expected)[expected < 0.85].max() < 0.02


def test_groups_of_fresh_samples_count_as_one_each(model, shifted):
    (fresh, fresh_y), _ = divide(shifted)
    groups = np.repeat(np.arange(30), 4)
    clf = copy.copy(model).recalibrate(fresh, fresh_y, groups=groups)
    assert clf.threshold_info_.detail.endswith("of 30 groups") and clf.guarantees().unit == "group"
    with pytest.raises(ValueError, match="X has 10 groups that can be used"):
        copy.copy(model).recalibrate(fresh, fresh_y, groups=np.repeat(np.arange(10), 12))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": 10}, "X has 10 samples that can be used, and target_rejection=0.01 takes 99: give more, or a target"),
        ({"X": 3}, "X has 3 samples that can be used, and target_rejection=0.01 takes 99: give more."),
        ({"y": "long"}, "y must have one label for each of the 120 samples"),
        ({"y": "unknown"}, "class 9, which the model does not know"),
        ({"groups": np.arange(7)}, "groups must have one value for each of the 120"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_the_model_is_as_before(model, shifted, change, message):
    (fresh, _), _ = divide(shifted)
    clf = copy.copy(model).set_threshold(target_rejection=0.01)
    labels = {"long": np.zeros(121), "unknown": np.full(120, 9)}
    n = change.pop("X", len(fresh))
    y = labels.get(change.pop("y", None))
    before = vars(clf).copy()
    with pytest.raises(ValueError, match=message) as error:
        clf.recalibrate(fresh[:n], y, **change)
    assert "\n" not in str(error.value)
    assert vars(clf) == before


def test_samples_that_the_model_has_learned_do_not_calibrate_it(model, shifted):
    (X, y), (later, _) = shifted
    with pytest.warns(CalibrationWarning, match="120 of 120 samples are atoms of the model"):
        copy.copy(model).recalibrate(X[:120], y[:120])
    with pytest.warns(CalibrationWarning, match="61 of 120 samples are atoms of the model"):
        copy.copy(model).recalibrate(np.concatenate([X[:61], later[:59]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy.copy(model).recalibrate(np.concatenate([X[:60], later[:60]]))


def test_samples_of_length_zero_are_left_out(model, shifted):
    (fresh, fresh_y), _ = divide(shifted)
    with_zeros = np.concatenate([np.zeros((5, 64)), fresh])
    clf = copy.copy(model).recalibrate(with_zeros, np.concatenate([np.zeros(5, int), fresh_y]))
    check_same(clf.threshold_, copy.copy(model).recalibrate(fresh, fresh_y).threshold_)


def test_a_threshold_that_is_a_number_stays_and_ten_samples_do(model, shifted):
    clf = copy.copy(model).set_threshold(0.9)
    assert clf.recalibrate(divide(shifted)[0][0][:10]).threshold_ == 0.9
    with pytest.raises(ValueError, match="X has 9 samples that can be used, and a distribution takes 10"):
        clf.recalibrate(divide(shifted)[0][0][:9])


def test_fresh_samples_that_are_gone_calibrate_no_longer(model, shifted):
    (fresh, fresh_y), _ = divide(shifted)
    zeros = np.flatnonzero(fresh_y == 0)
    clf = copy.copy(model).set_threshold(target_rejection=0.1).recalibrate(fresh[zeros], fresh_y[zeros])
    with pytest.warns(CalibrationWarning, match="are left, too few"):
        clf.remove_class(0)
    assert clf._recalibration is None and clf._calibration_samples is None
    assert "held-out samples" in clf.threshold_info_.detail and "weighted" not in clf.threshold_info_.detail


def test_guarantees_speak_of_the_target_that_is_set(model, shifted):
    clf = copy.copy(model).set_threshold(target_rejection=0.2)
    assert clf.guarantees().rate == 0.2
    assert clf.set_threshold(0.9).guarantees().rate == 0.05


def test_classes_without_fresh_samples_are_named(model, shifted):
    (fresh, fresh_y), _ = divide(shifted)
    some = fresh_y != 3
    clf = copy.copy(model).recalibrate(fresh[some], fresh_y[some])
    assert clf.guarantees().describe_class(3).startswith("not known")
    assert "not known for 3, without any sample" in clf.guarantees().by_class


def test_samples_of_a_model_with_groups_need_theirs_for_a_guarantee(shifted):
    (X, y), _ = shifted
    clf = SROSRClassifier(n_repeats=3, random_state=0).fit(X, y, groups=np.arange(len(y)) // 10)
    fresh, fresh_y = divide(shifted)[0]
    assert not copy.copy(clf).recalibrate(fresh, fresh_y).guarantees().exact
    assert copy.copy(clf).recalibrate(fresh, fresh_y, groups=np.arange(120) // 5).guarantees().exact


@pytest.mark.parametrize("fitted_with_groups", [True, False])
def test_after_a_recalibration_by_groups_an_update_is_no_longer_exact(shifted, fitted_with_groups):
    """The names of its groups are not kept, so that one of them may be among the new samples."""
    (X, y), _ = shifted
    groups = {"groups": np.arange(len(y)) // 10} if fitted_with_groups else {}
    (fresh, fresh_y), (new, new_y) = divide(shifted)
    clf = SROSRClassifier(n_repeats=3, random_state=0).fit(X, y, **groups)
    clf.recalibrate(fresh, fresh_y, groups=np.arange(120) // 5)
    assert clf.guarantees().exact
    rows = np.flatnonzero(new_y == 1)[:20]
    clf.update(new[rows], new_y[rows], **({"groups": np.arange(20)} if fitted_with_groups else {}))
    assert len(clf._calibration_samples) == len(clf._calibration_groups) == 120
    assert not clf.guarantees().exact and clf.threshold_info_.kind == "target"

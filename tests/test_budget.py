"""The budget of a fit: how many held-out samples a pass codes, which ones, and what that leaves undecided."""

from __future__ import annotations

import numpy as np
import pytest
from fitted import fit_once
from hypothesis import given
from hypothesis import strategies as st
from same import check_same
from sklearn.datasets import load_digits

from srosr import SROSRClassifier
from srosr.evidence.table import EVIDENCE
from srosr.scoring.fusion import fit_fusion
from srosr.scoring.splits import add_only_samples, count_splits, draw_cross_splits, draw_folds, thin_splits

X, Y = load_digits(return_X_y=True)
KNOWN = np.flatnonzero(Y[:900] < 6)
FEW = np.flatnonzero(Y[:900] < 3)


def fit(rows=KNOWN, **options):
    return fit_once(SROSRClassifier(**({"n_repeats": 10, "random_state": 0} | options)), X[rows], Y[rows])


@given(
    sizes=st.lists(st.integers(2, 60), min_size=2, max_size=8),
    n_splits=st.integers(1, 12),
    budget=st.integers(1, 400),
    seed=st.integers(0, 9),
)
def test_a_thinned_pass_keeps_the_budget_and_the_shares_of_the_classes(sizes, n_splits, budget, seed):
    ends = np.cumsum(sizes)
    slices, class_of = [slice(e - n, e) for e, n in zip(ends, sizes, strict=True)], np.repeat(range(len(sizes)), sizes)
    rng = np.random.RandomState(seed)
    splits = list(draw_cross_splits(slices, n_splits, 0.3, rng))
    total = sum(map(len, splits))
    thinned = thin_splits(splits, class_of, budget, rng)
    if total <= budget:
        assert thinned is splits
        return
    assert sum(map(len, thinned)) == budget and len(thinned) == len(splits)
    for held, whole in zip(thinned, splits, strict=True):
        assert np.isin(held, whole).all()
        if not len(held):
            continue
        assert (np.diff(held) > 0).all()
        shares = [np.bincount(class_of[part], minlength=len(sizes)) / len(part) for part in (whole, held)]
        assert np.abs(shares[0] - shares[1]).max() <= 1.0 / len(held) + 1e-9


def test_a_pass_has_as_many_splits_as_the_budget_needs():
    assert count_splits(50, 100, 5000, 5) == 50  # within the budget
    assert count_splits(50, 1000, 10_000, 5) == 10
    assert count_splits(50, 100_000, 10_000, 5) == 5
    assert count_splits(3, 100_000, 10_000, 5) == 3


def test_below_the_budget_a_fit_is_what_it_was_without_one():
    free, bound = fit(FEW), fit(FEW, max_codings=100_000)
    check_same(bound.unknown_score(X[900:]), free.unknown_score(X[900:]))
    assert len(free.calibration_.known) == len(bound.calibration_.known) > 0


def test_no_pass_codes_more_than_the_budget():
    clf = fit(max_codings=120)
    passes = clf.calibration_
    assert len(passes.simulated) <= 120 and len(passes.held_out) == 120
    assert passes.known is passes.held_out, "tails come from the third pass"
    assert set(passes.held_out.truth) == set(range(6)) and passes.simulated.unknown.any()
    assert passes.tails is not None and clf.explain(X[900]).text
    assert len(set(passes.held_out.sample)) == 120, "every held-out sample is another one"


def test_the_paper_rule_thins_its_own_pass():
    clf = fit(rule="paper", threshold=0.01, max_codings=150)
    assert len(clf.calibration_.known) == 150
    assert set(clf.calibration_.known.truth) == set(range(6))


def test_a_small_budget_costs_little_accuracy_and_says_what_it_leaves_undecided():
    from sklearn.metrics import roc_auc_score

    whole, small = fit(), fit(max_codings=120)
    unknown = Y[900:] >= 6
    areas = [roc_auc_score(unknown, clf.unknown_score(X[900:])) for clf in (whole, small)]
    assert areas[1] > areas[0] - 0.02
    assert whole.threshold_info_.standard_error < small.threshold_info_.standard_error
    assert whole.threshold_info_.weight_errors.shape == whole.evidence_weights_.shape
    positive = small.evidence_weights_ > 0
    assert (small.threshold_info_.weight_errors[positive] > 0).all()
    assert (small.threshold_info_.weight_errors[~positive] == 0).all()


def test_the_standard_error_of_a_threshold_is_that_of_fresh_draws():
    """On the scale of a p-value it is about that of the rate: sqrt(a (1 - a) / n)."""
    clf = fit()
    n = len(clf.calibration_.held_out)
    expected = np.sqrt(0.05 * 0.95 / n)
    assert 0.4 * expected < clf.threshold_info_.standard_error < 2.5 * expected
    assert clf.set_threshold(0.9).threshold_info_.standard_error is None


def test_standard_errors_of_weights_are_those_of_fresh_samples(monkeypatch):
    """With the strength of the shrinkage given: that choice is not part of them."""
    monkeypatch.setattr("srosr.scoring.fusion.STRENGTHS", (0.01,))
    rng, names = np.random.default_rng(0), ("matched", "collaborative", "margin")

    def draw():
        values = np.zeros((800, len(EVIDENCE)))
        unknown = np.arange(800) % 2 == 1
        for place, name in enumerate(names):
            sign = -1.0 if name in ("collaborative", "margin") else 1.0
            values[:, EVIDENCE.index(name)] = sign * (rng.normal(size=800) + (0.6 + 0.2 * place) * unknown)
        known = np.zeros((200, len(EVIDENCE)))
        known[:, [EVIDENCE.index(n) for n in names]] = rng.normal(size=(200, 3))
        return known, values, unknown, rng.integers(0, 6, 800), names

    fusions = [fit_fusion(*draw())[0] for _ in range(40)]
    used = np.isin(EVIDENCE, names)
    spread = np.std([fusion.weights[used] for fusion in fusions], axis=0)
    stated = np.mean([fusion.errors[used] for fusion in fusions], axis=0)
    assert (stated > 0.6 * spread).all() and (stated < 1.6 * spread).all()


@pytest.mark.parametrize("value", [0, -3, 2.5, "many", True])
def test_a_budget_that_is_no_number_of_samples_is_an_error(value):
    with pytest.raises(ValueError, match="max_codings"):
        fit(max_codings=value)


def test_folds_hold_every_sample_out_once():
    folds = list(draw_folds([slice(0, 30), slice(30, 100)], np.random.RandomState(0)))
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(100))


@pytest.mark.parametrize("budget", [1, 3, 9])
def test_a_budget_of_a_few_codings_is_kept_too(budget):
    clf = fit(max_codings=budget)
    assert len(clf.calibration_.held_out) == len(clf.calibration_.simulated) == budget
    assert clf.predict(X[900:910]).shape == (10,)


def test_only_samples_of_classes_left_out_are_added_to_the_splits():
    class_of = np.array([0, 1, 1, 2, 3, 3])
    splits = add_only_samples([np.array([1]), np.array([2, 4])], [np.array([0, 1]), np.array([2])], class_of)
    assert [split.tolist() for split in splits] == [[0, 1], [2, 3, 4]]


@pytest.mark.parametrize("atoms", [None, 1])
def test_classes_of_one_sample_keep_the_budget(atoms):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(40, 20)), np.concatenate([np.arange(20), np.repeat(np.arange(20, 25), 4)])
    clf = SROSRClassifier(atoms=atoms, max_codings=12, n_repeats=10, random_state=0).fit(rows, labels)
    assert len(clf.calibration_.simulated) == 12
    assert clf.calibration_.simulated.unknown.any()


@pytest.mark.parametrize("atoms", [None, 8])
def test_a_class_that_is_added_beyond_the_budget_has_its_share_of_it(atoms):
    """As many of its samples calibrate as of the others: held-out scores would otherwise be those of the new class."""
    clf = fit(FEW, max_codings=60, atoms=atoms)
    new = np.flatnonzero(Y[:900] == 6)
    clf.add_class(X[new], 6)
    counts = np.bincount(clf.calibration_.held_out.truth, minlength=4)
    assert 0 < counts[3] <= counts[:3].max() + 2 and len(np.unique(clf.calibration_.held_out.sample)) == counts.sum()
    assert np.mean(clf.candidate(X[900:][Y[900:] == 6]) == 6) > 0.9


def test_more_repeats_than_any_budget_are_not_drawn():
    clf = fit(FEW, n_repeats=10**9, max_codings=50)
    assert len(clf.calibration_.held_out) == 50
    clf.add_class(X[:900][Y[:900] == 6], 6)
    assert 6 in clf.classes_

"""Relative Mahalanobis, ViM, NNGuide and GEN against their formulas in plain NumPy, sample by sample."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same import check_same_candidates
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from worlds import draw_task

from srosr.exceptions import SROSRWarning
from srosr.rivals.cross_fitted import N_FOLDS, find_folds
from srosr.rivals.distances import find_ledoit_wolf_shrinkage
from srosr.rivals.gen import GEN
from srosr.rivals.mahalanobis import Mahalanobis
from srosr.rivals.max_logit import MaxLogit
from srosr.rivals.nnguide import NNGuide
from srosr.rivals.relative_mahalanobis import RelativeMahalanobis
from srosr.rivals.vim import ViM

pytestmark = pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")


def plain_logits(X, y, new, C):
    """Return coefficients, intercepts and logits of a tight solve; of two classes each has half the log odds."""
    two = len(np.unique(y)) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = LogisticRegression(C=2 * C if two else C, tol=1e-10, max_iter=100_000).fit(X, y)
    W, b = fit.coef_, fit.intercept_
    if two:
        W, b = np.concatenate([-W, W]) / 2, np.concatenate([-b, b]) / 2
    return W, b, new @ W.T + b


def close(expected, share=2e-3):
    """Return what equals the expected scores as closely as the solver of the logistic regression goes."""
    return pytest.approx(expected, abs=share * np.abs(expected).max())


# Relative Mahalanobis


def plain_relative(X, y, new):
    """Return distances to classes minus distances to all samples, from full matrices, with scikit-learn's shrinkage."""
    n, d = X.shape
    means = np.stack([X[y == c].mean(axis=0) for c in np.unique(y)])
    deviations, center = X - means[y], X.mean(axis=0)
    share = ledoit_wolf(deviations, assume_centered=True)[1]
    S, S0 = deviations.T @ deviations / n, (X - center).T @ (X - center) / n
    shrunk = (1 - share) * S + share * np.trace(S) / d * np.eye(d)
    P, P0 = np.linalg.inv(shrunk), np.linalg.inv(shrunk + S0 - S)
    return np.array([[(x - m) @ P @ (x - m) - (x - center) @ P0 @ (x - center) for m in means] for x in new])


@pytest.mark.parametrize("n_features", [1, 2, 5, 36, 37, 60, 200])
def test_relative_mahalanobis_is_the_plain_formula(n_features):
    X, y, new = draw_task(n_features, n_features=n_features)
    expected = plain_relative(X, y, new)
    clf = RelativeMahalanobis(random_state=0).fit(X, y)
    assert -clf.class_scores(new) == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert clf.unknown_score(new) == pytest.approx(expected.min(axis=1), rel=1e-7, abs=1e-7)
    assert np.array_equal(clf.candidate(new), expected.argmin(axis=1))


def test_relative_mahalanobis_has_the_candidates_of_mahalanobis_and_ignores_what_no_training_sample_has():
    X, y, new = draw_task(3, n_features=6)
    X, new = (np.hstack([A, np.zeros((len(A), 40))]) for A in (X, new))
    clf, plain = RelativeMahalanobis(random_state=0).fit(X, y), Mahalanobis(random_state=0).fit(X, y)
    assert np.array_equal(clf.candidate(new), plain.candidate(new))
    moved = new.copy()
    moved[:, 6:] = 3.0
    assert clf.unknown_score(moved) == pytest.approx(clf.unknown_score(new), rel=1e-6, abs=1e-6)
    assert (plain.unknown_score(moved) > plain.unknown_score(new)).all()


def test_relative_mahalanobis_of_many_samples_has_the_covariance_of_all_of_them_as_in_the_paper():
    """Hardly anything is shrunk then."""
    X, y, new = draw_task(5, sizes=(400, 300, 500))
    clf = RelativeMahalanobis(random_state=0).fit(X, y)
    center, P0 = X.mean(axis=0), np.linalg.inv(np.cov(X.T, bias=True))
    to_all = np.array([(x - center) @ P0 @ (x - center) for x in new])
    nearest = Mahalanobis(random_state=0).fit(X, y).unknown_score(new)
    assert nearest - clf.unknown_score(new) == pytest.approx(to_all, rel=0.02, abs=0.02)


def test_without_a_covariance_distances_to_classes_are_euclidean_and_a_warning_says_so():
    X = np.array([[0.0, 0.1], [5.0, 0.3], [0.7, 9.0]])
    with pytest.warns(SROSRWarning, match="Euclidean"):
        clf = RelativeMahalanobis().fit(X, ["a", "b", "c"])
    new = 6 * np.random.default_rng(0).normal(size=(20, 2))
    nearest = np.square(new[:, None] - X).sum(axis=2).min(axis=1)
    P0, Z = np.linalg.inv(np.eye(2) + np.cov(X.T, bias=True)), new - X.mean(axis=0)
    assert clf.unknown_score(new) == pytest.approx(nearest - np.einsum("ij,jk,ik->i", Z, P0, Z))


@pytest.mark.parametrize("rival", [Mahalanobis, RelativeMahalanobis])
@pytest.mark.parametrize("unit", [1e-95, 1e-60, 1e60, 1e95])
def test_distances_have_no_unit_even_where_fourth_powers_are_not_finite(rival, unit):
    X, y, new = draw_task(4)
    before = rival(random_state=0).fit(X, y)
    after = rival(random_state=0).fit(unit * X, y)
    assert after.unknown_score(unit * new) == pytest.approx(before.unknown_score(new), rel=1e-6, abs=1e-6)
    assert after.threshold_ == pytest.approx(before.threshold_, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 30), d=st.integers(2, 30))
def test_shrinkage_is_that_of_scikit_learn(seed, n, d):
    Z = np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)
    variances = np.linalg.eigvalsh(Z.T @ Z / n)
    assert find_ledoit_wolf_shrinkage(Z, variances) == pytest.approx(ledoit_wolf(Z, assume_centered=True)[1], abs=1e-9)


# ViM


def find_origin(W, b):
    """Return the shortest vector whose logits are all equal."""
    return np.linalg.lstsq(W[1:] - W[0], b[0] - b[1:])[0]


def plain_vim(X, y, new, C, D, alpha=None):
    """Return ViM's scores by a singular value decomposition, and the ratio of mean largest logit to mean residual."""
    W, b, logits = plain_logits(X, y, new, C)
    origin = find_origin(W, b)
    basis = np.linalg.svd(X - origin)[2]
    residual = np.array([np.linalg.norm(basis[D:] @ (x - origin)) for x in new])
    ratio = logits.max(axis=1).mean() / residual.mean()
    return (ratio if alpha is None else alpha) * residual - np.log(np.exp(logits).sum(axis=1)), ratio


@pytest.mark.parametrize(("n_features", "D"), [(4, 2), (4, 3), (20, 5), (60, 10)])
@pytest.mark.parametrize("sizes", [(12, 9, 15), (14, 10)])
def test_vim_is_the_plain_formula(n_features, D, sizes):
    X, y, new = draw_task(n_features, sizes=sizes, n_features=n_features)
    clf = ViM(D, alpha=2.0, C=0.5, random_state=0).fit(X, y)
    assert clf.unknown_score(new) == close(plain_vim(X, y, new, 0.5, D, 2.0)[0])
    logits = plain_logits(X, y, new, 0.5)[2]
    assert clf.class_scores(new) == close(logits)
    check_same_candidates(clf.candidate(new), logits, 2e-3)
    assert clf.tuned_ == {"C": 0.5, "alpha": 2.0}


def test_all_logits_are_zero_at_the_origin_of_vim():
    X, y, _ = draw_task(5)
    clf = ViM(C=0.5, random_state=0).fit(X, y)
    assert clf.class_scores(clf.model_.origin[None]) == pytest.approx(np.zeros((1, 3)), abs=1e-9)


def test_the_weight_of_vim_matches_residuals_and_largest_logits_of_held_out_samples():
    X, y, _ = draw_task(6, n_features=8)
    clf = ViM(3, C=0.5, random_state=0).fit(X, y)
    largest, residuals = [], []
    for test in find_folds(y, np.random.RandomState(0), N_FOLDS):
        train = np.delete(np.arange(len(y)), test)
        W, b, logits = plain_logits(X[train], y[train], X[test], 0.5)
        origin = find_origin(W, b)
        basis = np.linalg.svd(X[train] - origin)[2]
        largest += logits.max(axis=1).tolist()
        residuals += np.linalg.norm((X[test] - origin) @ basis[3:].T, axis=1).tolist()
    assert len(residuals) == len(X)
    assert clf.tuned_["alpha"] == pytest.approx(np.mean(largest) / np.mean(residuals), rel=5e-3)


def test_the_weight_of_vim_matches_training_samples_where_none_can_be_held_out():
    X = np.random.default_rng(0).normal(size=(6, 9))
    clf = ViM(2, C=0.5).fit(X, np.arange(6))
    assert clf.tuned_["alpha"] == pytest.approx(plain_vim(X, np.arange(6), X, 0.5, 2)[1], rel=5e-3)


@pytest.mark.parametrize(
    ("n_features", "n_samples", "expected"),
    [(10, 36, 5), (800, 36, 18), (30, 36, 15), (800, 1200, 400), (2100, 36, 18)],
)
def test_the_principal_subspace_has_the_dimension_of_the_paper_or_half_of_the_rank(n_features, n_samples, expected):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_samples, n_features)), np.arange(n_samples) % 3
    model, _ = ViM(C=0.01, alpha=1.0)._learn(X, np.arange(n_samples), y, {"C": 0.01, "alpha": 1.0})
    assert len(model.directions) == model.n_components == expected


def test_more_components_than_samples_leave_a_residual():
    X, y, new = draw_task(7, sizes=(4, 4), n_features=30)
    clf = ViM(999, C=1.0, random_state=0).fit(X, y)
    assert clf.model_.n_components == 7
    assert clf.model_.measure_residuals(new).min() > 0


def test_samples_off_the_subspace_of_known_ones_are_unknown_to_vim_and_not_to_the_largest_logit():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = np.zeros((120, 10))
    X[:, :3] = 4 * np.eye(3)[y] + rng.normal(size=(120, 3))
    X += 0.05 * rng.normal(size=X.shape)
    off = X[:30] + 3 * np.eye(10)[6]
    assert np.mean(ViM(3, C=1.0, random_state=0).fit(X, y).predict(off) == -1) > 0.9
    assert np.mean(MaxLogit(C=1.0, random_state=0).fit(X, y).predict(off) == -1) < 0.3


# NNGuide


@pytest.mark.parametrize("k", [1, 5, 36, 999])
@pytest.mark.parametrize("sizes", [(12, 9, 15), (14, 22)])
def test_nnguide_is_the_plain_formula(k, sizes):
    X, y, new = draw_task(8, sizes=sizes)
    clf = NNGuide(k, C=0.5, random_state=0).fit(X, y)
    energy = np.log(np.exp(plain_logits(X, y, new, 0.5)[2]).sum(axis=1))
    weights = np.log(np.exp(plain_logits(X, y, X, 0.5)[2]).sum(axis=1))
    expected = []
    for x, e in zip(new, energy, strict=True):
        guided = [w * (x @ z) / np.linalg.norm(x) / np.linalg.norm(z) for z, w in zip(X, weights, strict=True)]
        expected.append(-e * np.mean(sorted(guided)[-k:]))
    assert clf.unknown_score(new) == close(np.array(expected), 5e-3)
    check_same_candidates(clf.candidate(new), MaxLogit(C=0.5).fit(X, y).class_scores(new), 5e-3)


def test_energies_of_nnguide_are_positive():
    X, y, new = draw_task(9, sizes=(5, 5, 5, 5))
    model = NNGuide(C=0.01, random_state=0).fit(X, y).model_
    assert model.compute_energy(model.compute_logits(1000 * new)).min() >= np.log(4) - 1e-9
    assert model.energies.min() >= np.log(4) - 1e-9


def test_guidance_in_chunks_changes_nothing(monkeypatch):
    X, y, new = draw_task(10)
    clf = NNGuide(3, C=1.0, random_state=0).fit(X, y)
    before = clf.unknown_score(new)
    monkeypatch.setattr("srosr.rivals.nnguide._PAIRS", 1)
    assert clf.unknown_score(new) == pytest.approx(before, rel=1e-12)


def test_samples_far_out_on_the_side_of_one_class_score_higher_with_guidance():
    """The largest logit knows them better than any training sample; their direction is that of none."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = 5 * np.eye(2)[y] + 0.3 * rng.normal(size=(80, 2))
    clf = NNGuide(C=1.0, random_state=0).fit(X, y)
    off = np.array([[5.0, -5.0]])
    assert MaxLogit(C=1.0, random_state=0).fit(X, y).unknown_score(off) < -clf.class_scores(X).max()
    guidance = clf.model_.guide(np.concatenate([off, X]))
    assert guidance[0] < 0.8 * guidance[1:].min()


# GEN


@pytest.mark.parametrize(("gamma", "n_top"), [(0.1, 100), (0.1, 2), (0.5, 3), (0.9, 1)])
@pytest.mark.parametrize("sizes", [(12, 9, 15, 8), (14, 22)])
def test_gen_is_the_plain_formula(gamma, n_top, sizes):
    X, y, new = draw_task(11, sizes=sizes)
    logits = plain_logits(X, y, new, 0.5)[2]
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = [sum(v**gamma * (1 - v) ** gamma for v in sorted(row)[-n_top:]) for row in p]
    clf = GEN(gamma, n_top=n_top, C=0.5, random_state=0).fit(X, y)
    assert clf.unknown_score(new) == close(np.array(expected))
    check_same_candidates(clf.candidate(new), logits, 2e-3)


def test_gen_goes_on_ranking_where_the_largest_probability_is_one_to_the_last_digit():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), [0, 0, 1, 1]
    clf = GEN(C=1.0).fit(X, y)
    far = np.array([[30.0], [60.0], [120.0], [240.0]])
    odds = np.diff(clf.class_scores(far), axis=1)[:, 0]
    assert (odds > 40).any()  # 1 − p is zero in floats
    assert clf.unknown_score(far) == pytest.approx(2 * np.exp(-0.1 * odds), rel=1e-6)
    assert (np.diff(clf.unknown_score(far)) < 0).all()

"""OSNN, k-NN distance, Mahalanobis, EVM, OpenMax and max-logit, against slow formulas, scikit-learn and SciPy."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same import check_same
from scale import examples
from scipy import optimize, stats
from scipy.spatial.distance import cdist
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from worlds import draw_task

from srosr._support.threads import one_blas_thread
from srosr.exceptions import CalibrationWarning, SROSRWarning, TailWarning
from srosr.rivals.cross_fitted import COSTS
from srosr.rivals.distances import project_to_span
from srosr.rivals.evm import BEYOND, EVM, find_cover
from srosr.rivals.knn_distance import KNNDistance
from srosr.rivals.mahalanobis import Mahalanobis
from srosr.rivals.max_logit import MaxLogit, choose_penalty, fit_logistic
from srosr.rivals.openmax import OpenMax
from srosr.rivals.osnn import OSNN

# Those that learn from inner products of centered samples alone.
BY_DISTANCE = (OSNN, KNNDistance, Mahalanobis, EVM)

pytestmark = pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")


def weibull_by_equation(x):
    """Return shape and scale at the root of the profile equation, by SciPy's root finder."""
    x = np.asarray(x)
    logs = np.log(x / x.max())

    def equation(shape):
        power = np.exp(shape * logs)
        return (power * logs).sum() / power.sum() - 1 / shape - logs.mean()

    shape = optimize.brentq(equation, 1e-3, 1e5, xtol=1e-12)
    return shape, x.max() * np.mean(np.exp(shape * logs)) ** (1 / shape)


# OSNN


def test_osnn_is_the_ratio_of_the_nearest_to_the_nearest_of_another_class():
    X, y, new = draw_task(0)
    clf = OSNN(random_state=0).fit(X, y)
    for x, ratio, label in zip(new, clf.unknown_score(new), clf.candidate(new), strict=True):
        distances = np.linalg.norm(X - x, axis=1)
        t = int(distances.argmin())
        u = min(distances[y != y[t]])
        assert label == y[t]
        assert ratio == pytest.approx(distances[t] / u, rel=1e-9)


def test_osnn_rejects_the_far_and_the_middle_but_not_what_is_beyond_one_class():
    clf = OSNN(threshold=0.5).fit([[0.0], [1.0], [8.0], [9.0]], ["a", "a", "b", "b"])
    assert clf.unknown_score([[4.5], [1e6]]) == pytest.approx([1.0, 1.0], abs=1e-4)
    assert clf.predict([[4.5], [1e6], [-6.0]]).tolist() == ["unknown", "unknown", "a"]


def test_osnn_held_out_scores_are_those_of_a_fit_without_the_samples():
    """Leave-one-out by hand: with as many folds as samples each sample is out alone or with one of another class."""
    X, y, _ = draw_task(1, sizes=(6, 6))
    clf = OSNN(cv=60, random_state=0).fit(X, y)
    distances = cdist(X, X) + np.diag(np.full(len(X), np.inf))
    alone = np.array([min(d[y == c]) / min(d[y != c]) for d, c in zip(distances, y, strict=True)])
    alone = np.sort(np.minimum(alone, 1 / alone))
    held_out = np.sort(clf._held_out.scores)
    assert len(held_out) == 12
    assert np.mean(np.isclose(held_out, alone)) > 0.5


# Distance to the k-th neighbor


@pytest.mark.parametrize("k", [1, 2, 5, 36])
def test_knn_distance_and_votes_are_those_of_scikit_learn(k):
    X, y, new = draw_task(2)
    clf = KNNDistance(k, random_state=0).fit(X, y)
    expected = NearestNeighbors(n_neighbors=k).fit(X).kneighbors(new)[0][:, -1]
    assert clf.unknown_score(new) == pytest.approx(expected, rel=1e-9)
    shares = KNeighborsClassifier(k).fit(X, y).predict_proba(new)
    clear = np.diff(np.sort(shares, axis=1)[:, -2:], axis=1)[:, 0] > 0
    assert clear.sum() > 20
    assert (clf.candidate(new)[clear] == shares.argmax(axis=1)[clear]).all()
    assert np.array_equal(np.ceil(clf.class_scores(new)), np.round(k * shares))


def test_knn_by_hand():
    X, y = [[0.0], [1.0], [5.0], [6.0], [20.0]], ["a", "a", "b", "b", "c"]
    clf = KNNDistance(n_neighbors=2, threshold=10.0).fit(X, y)
    # 0: a and a; 3.4: b at 1.6, a at 2.4; 12: b at 6, b at 7.
    assert clf.unknown_score([[0.0], [3.4], [12.0]]) == pytest.approx([1.0, 2.4, 7.0])
    assert clf.candidate([[0.0], [3.4], [12.0]]).tolist() == ["a", "b", "b"]
    assert clf.class_scores([[3.4]])[0] == pytest.approx([1 - 0.5, 1 - 1.6 / 4.0, -16.6 / 19.0])
    assert clf.predict([[40.0]]).tolist() == ["unknown"]


def test_votes_do_not_depend_on_the_order_of_equally_near_samples():
    X, y = np.array([[-1.0], [1.0], [1.0], [7.0], [9.0]]), np.array([0, 1, 1, 2, 2])
    for order in itertools.permutations(range(5)):
        order = list(order)
        clf = KNNDistance(1).fit(X[order], y[order])
        assert clf.candidate([[0.0]]).tolist() == [1]  # all three at distance one vote
        assert clf.class_scores([[0.0]])[0] == pytest.approx([0.5, 1.5, -7 / 8])


def test_more_neighbors_than_samples_are_all_samples():
    X, y, new = draw_task(3, sizes=(4, 4))
    everything = KNNDistance(999).fit(X, y).unknown_score(new)
    check_same(everything, KNNDistance(8).fit(X, y).unknown_score(new))
    assert everything == pytest.approx(cdist(new, X).max(axis=1))


# Mahalanobis


def plain_mahalanobis(X, y, new):
    """Compute Mahalanobis scores from a full covariance matrix with scikit-learn's shrinkage, class by class."""
    means = np.stack([X[y == c].mean(axis=0) for c in np.unique(y)])
    covariance, share = ledoit_wolf(X - means[y], assume_centered=True)
    precision = np.linalg.inv(covariance)
    return np.stack([[(x - m) @ precision @ (x - m) for m in means] for x in new]), share


@pytest.mark.parametrize("n_features", [1, 2, 5, 20, 36, 37, 60, 300])
def test_mahalanobis_is_the_plain_formula(n_features):
    X, y, new = draw_task(n_features, n_features=n_features)
    expected, share = plain_mahalanobis(X, y, new)
    clf = Mahalanobis(random_state=0).fit(X, y)
    assert 0 <= share <= 1
    assert -clf.class_scores(new) == pytest.approx(expected, rel=1e-8)
    assert clf.unknown_score(new) == pytest.approx(expected.min(axis=1), rel=1e-8)
    assert np.array_equal(clf.candidate(new), expected.argmin(axis=1))


def test_mahalanobis_with_many_features_keeps_nothing_of_their_square():
    X, y, new = draw_task(5, n_features=5000, n_new=3)
    clf = Mahalanobis(cv=2, random_state=0).fit(X, y)
    assert max(part.size for part in vars(clf.model_).values() if isinstance(part, np.ndarray)) <= X.size
    assert clf.unknown_score(X).max() < clf.unknown_score(new[3:]).min()


def test_mahalanobis_with_constant_features_and_duplicates_is_the_plain_formula():
    X, y, new = draw_task(6, n_features=6)
    X[:, 2] = new[:, 2] = 3.0
    X[:, 4] = y  # constant within classes
    X, y = np.concatenate([X, X[:10]]), np.concatenate([y, y[:10]])
    expected, _ = plain_mahalanobis(X, y, new)
    assert Mahalanobis(random_state=0).fit(X, y).unknown_score(new) == pytest.approx(expected.min(axis=1), rel=1e-8)


def test_covariance_of_rank_one_with_no_shrinkage_of_its_own_gives_finite_scores():
    """Deviations ±z: Ledoit and Wolf find nothing uncertain, and only the least shrinkage is left."""
    X = np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [9.0, 1.0, 0.0], [9.0, -1.0, 0.0]])
    clf = Mahalanobis().fit(X, [0, 0, 1, 1])
    scores = clf.unknown_score([[0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    assert scores[0] == pytest.approx(4.0, rel=1e-6)
    assert 1e6 < scores[1] < np.inf


def test_one_sample_a_class_falls_back_on_euclidean_distance_and_says_so():
    X = np.array([[0.0, 0.1], [5.0, 0.3], [0.7, 9.0]])
    with pytest.warns(SROSRWarning, match="Euclidean"):
        clf = Mahalanobis().fit(X, ["a", "b", "c"])
    new = np.random.default_rng(0).normal(size=(20, 2)) * 6
    assert clf.unknown_score(new) == pytest.approx(cdist(new, X).min(axis=1) ** 2)
    with pytest.warns(SROSRWarning, match="Euclidean"):  # equal samples have no covariance either
        again = Mahalanobis().fit(np.repeat(X, 7, axis=0), np.repeat(["a", "b", "c"], 7))
    assert again.unknown_score(new) == pytest.approx(clf.unknown_score(new))


def test_coordinates_in_the_span_keep_all_products():
    X = np.random.default_rng(0).normal(size=(7, 40))
    coordinates, basis = project_to_span(X)
    assert coordinates.shape == (7, 7)
    assert coordinates @ coordinates.T == pytest.approx(X @ X.T)
    assert coordinates @ basis.T == pytest.approx(X)
    assert project_to_span(X.T)[1] is None


# Extreme value machine


def probability(score):
    """Return the probability P for EVM's scores, which are log(1 − log P)."""
    with np.errstate(over="ignore"):
        return np.exp(-np.expm1(score))


def slow_evm(X, y, new, tail_size, cover, n_averaged):
    """Compute, sample by sample, log P of each class, and the extreme vectors."""
    fits, kept = {}, []
    for i in range(len(X)):
        half = np.sort([np.linalg.norm(X[i] - x) / 2 for x in X[y != y[i]]])
        fits[i] = weibull_by_equation(half[:tail_size])

    def psi(i, x):
        shape, scale = fits[i]
        return np.exp(-((np.linalg.norm(x - X[i]) / scale) ** shape))

    for c in np.unique(y):
        own = np.flatnonzero(y == c).tolist()
        left, chosen = set(own), []
        subsets = {i: {j for j in own if i == j or psi(i, X[j]) >= cover} for i in own}
        while left and cover < 1:
            best = max(own, key=lambda i: (len(subsets[i] & left), -i))
            chosen.append(best)
            left -= subsets[best]
        kept += chosen if cover < 1 else own
    kept = np.sort(kept)
    out = np.empty((len(new), len(np.unique(y))))
    for row, x in zip(out, new, strict=True):
        for c in np.unique(y):
            values = sorted(psi(i, x) for i in kept if y[i] == c)
            row[c] = np.mean(values[-n_averaged:])
    return out, kept


@pytest.mark.parametrize("cover", [None, 0.01, 0.5, 0.99])
@pytest.mark.parametrize("n_averaged", [1, 3])
def test_evm_is_the_slow_formula(cover, n_averaged):
    X, y, new = draw_task(7)
    new = np.concatenate([new, X + 0.05])
    clf = EVM(10, cover_threshold=cover, n_averaged=n_averaged, random_state=0).fit(X, y)
    expected, kept = slow_evm(X, y, new, 10, 2.0 if cover is None else cover, n_averaged)
    assert np.array_equal(np.unique(clf.samples_, axis=0), np.unique(X[kept], axis=0))
    assert probability(-clf.class_scores(new)) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert probability(clf.unknown_score(new)) == pytest.approx(expected.max(axis=1), rel=1e-6, abs=1e-12)
    seen = expected.max(axis=1) > 1e-12
    assert seen.sum() > 30
    assert np.array_equal(clf.candidate(new)[seen], expected.argmax(axis=1)[seen])


def test_evm_fits_what_scipy_fits():
    X, y, _ = draw_task(8)
    model = EVM(15, cover_threshold=None, random_state=0).fit(X, y).model_
    order = np.argsort(y, kind="stable")
    for i, shape, scale in zip(order, model.shape, model.scale, strict=True):
        half = np.sort(cdist(X[[i]], X[y != y[i]])[0] / 2)[:15]
        expected = stats.weibull_min.fit(half, floc=0)
        assert (shape, scale) == pytest.approx((expected[0], expected[2]), rel=1e-3)


def test_the_released_form_is_the_cdf_of_mirrored_distances():
    """Formula by formula, with SciPy's root finder, as the authors' program does it on samples of unit length."""
    X, y, new = draw_task(5)
    X, new = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, new))
    clf = EVM(12, form="released", cover_threshold=None, random_state=0).fit(X, y)
    expected = np.zeros((len(new), len(clf.classes_)))
    for i, x in enumerate(X):
        half = np.sort([np.linalg.norm(x - z) / 2 for z in X[y != y[i]]])[:12]
        shape, scale = weibull_by_equation(1 + half[-1] - half)
        for j, q in enumerate(new):
            reach = 1 + half[-1] - np.linalg.norm(q - x)
            psi = 1 - np.exp(-((reach / scale) ** shape)) if reach > 0 else 0.0
            expected[j, y[i]] = max(expected[j, y[i]], psi)
    np.testing.assert_allclose(probability(-clf.class_scores(new)), expected, rtol=1e-6, atol=1e-12)
    far = clf.unknown_score(100 + np.zeros((1, X.shape[1])))
    assert far > clf.unknown_score(new).max() and np.isfinite(far)


def test_evm_by_hand_one_distance_makes_a_step_half_way():
    with pytest.warns(TailWarning, match="tail of 1"):
        clf = EVM(tail_size=1, threshold=np.log(1 - np.log(0.5))).fit([[0.0], [10.0]], ["a", "b"])
    new = [[4.9], [5.1], [-4.9], [-5.1], [14.9]]
    assert clf.predict(new).tolist() == ["a", "b", "a", "unknown", "b"]
    assert probability(clf.unknown_score([[0.0], [-4.9], [-5.1]])) == pytest.approx([1.0, 1.0, 0.0])


def test_inclusion_is_about_even_half_way_to_the_other_class_and_abates_with_distance():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(1, 2)) * 0.01, rng.normal(size=(200, 2)) * 0.3 + [10, 0]
    clf = EVM(cover_threshold=None).fit(np.concatenate([a, a, a, b]), 3 * [0] + 200 * [1])
    nearest = cdist(a, b).min()
    away = -clf.unknown_score(a + [[0.0, r * nearest / 2] for r in (0.0, 0.5, 0.9, 1.0, 1.05, 1.2, 2.0, 20.0)])
    inclusion = np.exp(away)
    assert inclusion[0] == pytest.approx(1.0)
    assert inclusion[1] > 0.99
    assert 0.3 < inclusion[3] < 1.0
    assert inclusion[5] < 1e-3
    assert (np.diff(away) < 0).all()  # the logarithm falls on where the probability is zero in floats
    assert np.isfinite(away).all()


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 14), st.floats(0.0, 1.0), st.integers(0, 10**6))
def test_a_cover_covers_all_with_no_point_to_spare_and_few(n, density, seed):
    covers = np.random.default_rng(seed).random((n, n)) < density
    chosen = find_cover(covers)
    covers = covers | np.eye(n, dtype=bool)
    assert covers[chosen].any(axis=0).all()
    assert 1 <= len(chosen) <= n
    assert len(np.unique(chosen)) == len(chosen)
    if n <= 8:
        best = next(
            k
            for k in range(1, n + 1)
            if any(covers[list(s)].any(axis=0).all() for s in itertools.combinations(range(n), k))
        )
        assert len(chosen) <= best * (1 + np.log(n)) + 1e-9  # what greed promises


def test_all_samples_are_covered_and_a_looser_cover_keeps_fewer():
    X, y, _ = draw_task(9, sizes=(60, 50, 40))
    kept = []
    for cover in (0.001, 0.5, 0.999):
        clf = EVM(20, cover_threshold=cover, random_state=0).fit(X, y)
        inclusion = np.exp(clf.class_scores(X))
        own_only = inclusion[np.arange(len(y)), y]
        assert (own_only >= cover * (1 - 1e-9)).all()
        kept.append(len(clf.samples_))
    assert kept[0] < kept[1] < kept[2] <= len(X)


def test_sample_of_two_classes_gives_no_margin_and_spoils_none():
    """Its zero distance is left out of the tails: they are those of the task without it, for that sample."""
    X, y, new = draw_task(10)
    twice, labels = np.concatenate([X, X[:1]]), np.concatenate([y, [(y[0] + 1) % 3]])
    clf = EVM(10, cover_threshold=None, random_state=0).fit(twice, labels)
    plain = EVM(10, cover_threshold=None, random_state=0).fit(X, y)
    at = np.flatnonzero((clf.samples_ == X[0]).all(axis=1))
    before = np.flatnonzero((plain.samples_ == X[0]).all(axis=1))
    assert len(at) == 2
    assert clf.model_.shape[at[clf.model_.members[at] == y[0]]] == pytest.approx(plain.model_.shape[before])
    assert np.isfinite(clf.unknown_score(new)).all()
    assert clf.unknown_score(X[:1])[0] == 0.0


def test_classes_of_the_same_samples_include_nothing_but_them():
    X = np.repeat([[0.0, 0.0]], 4, axis=0)
    with pytest.warns(TailWarning):
        clf = EVM().fit(X, [0, 0, 1, 1])
    scores = clf.unknown_score([[0.0, 0.0], [1e-6, 0.0]])
    assert scores[0] == 0.0
    assert 1e3 < scores[1] < np.inf


# Logistic regression


def tight(X, y, C, tol=1e-10):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=C, tol=tol, max_iter=100_000).fit(X, y)


@pytest.mark.parametrize("n_features", [2, 20, 100])
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_logits_are_those_of_a_tight_solve_by_scikit_learn(n_features, C):
    X, y, new = draw_task(11, n_features=n_features)
    X, new = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, new))
    clf = MaxLogit(C, random_state=0).fit(X, y)
    expected = tight(X, y, C).decision_function(new)
    assert clf.class_scores(new) == pytest.approx(expected, abs=1e-3 * np.abs(expected).max())
    assert clf.unknown_score(new) == pytest.approx(-expected.max(axis=1), abs=1e-3 * np.abs(expected).max())
    assert clf.tuned_ == {"C": C}


def test_two_classes_have_opposite_logits_that_are_half_the_odds():
    X, y, new = draw_task(12, sizes=(10, 14))
    clf = MaxLogit(0.5, random_state=0).fit(X, y)
    odds = tight(X, y, 2 * 0.5).decision_function(new)  # scikit-learn's C of two classes is half of ours
    assert clf.class_scores(new) == pytest.approx(np.column_stack([-odds, odds]) / 2, abs=1e-3)
    assert clf.unknown_score(new) == pytest.approx(-np.abs(odds) / 2, abs=1e-3)


@pytest.mark.parametrize("sizes", [(10, 14), (9, 12, 8)])
def test_coefficients_minimize_the_objective_as_it_is_written(sizes):
    """C times the loss of softmax plus half the squared norm, also for two classes: no step lowers it."""
    X, y, _ = draw_task(13, sizes=sizes)
    C = 0.5

    def objective(W, b):
        logits = X @ W.T + b
        loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y]
        return C * loss.sum() + 0.5 * np.sum(W**2)

    W, b = fit_logistic(X, y, C)
    least = objective(W, b)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(50):
            assert objective(W + size * rng.normal(size=W.shape), b + size * rng.normal(size=b.shape)) > least - 1e-6
    assert objective(1.02 * W, b) > least and objective(0.98 * W, b) > least


def test_penalty_is_the_best_of_the_choices_on_held_out_samples():
    """A class of its own feature each, drowned in noise features: strong penalties win; without noise weak ones do."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    noisy = np.eye(3)[y] * 0.7 + rng.normal(size=(90, 3)) * 0.4
    noisy = np.concatenate([noisy, rng.normal(size=(90, 60)) * 0.4], axis=1)
    assert choose_penalty(noisy, y, np.random.RandomState(0)) <= 1.0
    angle = y * 0.05 + rng.normal(size=90) * 0.005
    narrow = np.column_stack([np.cos(angle), np.sin(angle)])
    assert choose_penalty(narrow, y, np.random.RandomState(0)) == COSTS[-1]


def test_penalty_without_a_sample_to_hold_out_is_one():
    X = np.eye(3)
    assert choose_penalty(X, np.arange(3), np.random.RandomState(0)) == 1.0


def test_logistic_regression_on_constant_features_knows_the_shares_of_the_classes():
    W, b = fit_logistic(np.ones((10, 3)), np.repeat([0, 1, 2], [5, 3, 2]), 1.0)
    assert np.zeros((3, 3)) == pytest.approx(W, abs=1e-6)
    assert np.exp(b) / np.exp(b).sum() == pytest.approx([0.5, 0.3, 0.2], abs=1e-4)


@pytest.mark.slow
@pytest.mark.realdata
def test_logits_on_real_images_are_within_a_thousandth_of_a_tight_solve(data_dir):
    from benchmarks.trials import TRIALS

    trial = TRIALS["mnist"].draw(100)
    X, new = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (trial.X, trial.X_test))
    with one_blas_thread():
        W, b = fit_logistic(X, np.unique(trial.y, return_inverse=True)[1], 100.0)
        expected = tight(X, trial.y, 100.0, tol=1e-8).decision_function(new).max(axis=1)
    assert (new @ W.T + b).max(axis=1) == pytest.approx(expected, abs=1e-3 * expected.max())


# OpenMax


def slow_openmax(X, y, new, tail_size, alpha, C):
    """Compute, step by step, revised activations of the known classes and of the unknown one."""
    n_classes = len(np.unique(y))
    regression = tight(X, y, 2 * C if n_classes == 2 else C)
    logits = regression.decision_function
    if n_classes == 2:
        logits = lambda A: np.column_stack([-1, 1]) * regression.decision_function(A)[:, None] / 2  # noqa: E731
    right = logits(X).argmax(axis=1) == y
    out = np.empty((len(new), n_classes + 1))
    means, fits = [], []
    for c in range(n_classes):
        own = X[(y == c) & right]
        means.append(own.mean(axis=0))
        fits.append(weibull_by_equation(np.sort([np.linalg.norm(x - means[c]) for x in own])[-tail_size:]))
    for row, x, v in zip(out, new, logits(new), strict=True):
        row[:-1], row[-1] = v, 0.0
        for i, c in enumerate(np.argsort(-v)[: min(alpha, n_classes)]):
            shape, scale = fits[c]
            w = 1 - np.exp(-((np.linalg.norm(x - means[c]) / scale) ** shape))
            omega = 1 - (min(alpha, n_classes) - i) / min(alpha, n_classes) * w
            if v[c] > 0:
                row[c] = v[c] * omega
                row[-1] += v[c] * (1 - omega)
    return out


@pytest.mark.parametrize("alpha", [1, 2, 10])
@pytest.mark.parametrize("sizes", [(30, 25, 40, 22), (20, 30)])
def test_openmax_is_the_slow_formula(alpha, sizes):
    X, y, new = draw_task(13, sizes=sizes)
    clf = OpenMax(12, alpha=alpha, C=0.3, random_state=0).fit(X, y)
    expected = slow_openmax(X, y, new, 12, alpha, 0.3)
    scale = np.abs(expected).max()
    assert clf.class_scores(new) == pytest.approx(expected[:, :-1], abs=2e-3 * scale)
    assert clf.unknown_score(new) == pytest.approx(expected[:, -1] - expected[:, :-1].max(axis=1), abs=4e-3 * scale)


def test_original_threshold_is_that_the_unknown_class_is_the_most_probable():
    X, y, new = draw_task(14, sizes=(30, 25, 40))
    clf = OpenMax(C=0.3, threshold="original", random_state=0).fit(X, y)
    known = clf.class_scores(new)
    probable = np.column_stack([known, clf.unknown_score(new) + known.max(axis=1)])
    probable = np.exp(probable) / np.exp(probable).sum(axis=1, keepdims=True)
    rejected = probable.argmax(axis=1) == 3
    assert 0 < rejected.sum() < len(new)
    clear = np.abs(clf.unknown_score(new)) > 1e-9
    assert np.array_equal((clf.predict(new) == -1)[clear], rejected[clear])


def test_two_classes_reject_a_sample_that_is_more_likely_outside_than_inside():
    X, y, new = draw_task(15, sizes=(30, 30))
    clf = OpenMax(C=0.3, threshold="original", random_state=0).fit(X, y)
    activations = MaxLogit(0.3, random_state=0).fit(X, y).class_scores(new)
    top, model = activations.argmax(axis=1), clf.model_
    distances = np.linalg.norm(new - model.means[top], axis=1)
    outside = 1 - np.exp(-((distances / model.scale[top]) ** model.shape[top]))
    clear = np.abs(outside - 0.5) > 1e-3
    assert np.array_equal((clf.predict(new) == -1)[clear], (outside > 0.5)[clear])


def test_openmax_rejects_far_samples_that_softmax_is_sure_of():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + np.repeat([[0, 5], [5, -3], [-5, -3]], 30, axis=0)
    y = np.repeat([0, 1, 2], 30)
    far = np.array([[0.0, 500.0], [500.0, -300.0], [-500.0, -300.0]])
    assert tight(X, y, 1.0).predict_proba(far).max(axis=1) == pytest.approx(np.ones(3))
    clf = OpenMax(5, C=1.0, threshold="original", random_state=0).fit(X, y)
    assert (clf.predict(far) == -1).all()
    assert MaxLogit(1.0, random_state=0).fit(X, y).predict(far).tolist() == [0, 1, 2]
    assert np.mean(clf.predict(X) == y) > 0.75


def test_no_activation_is_raised():
    """The plain formula multiplies negative logits by a factor below one."""
    X, y, new = draw_task(16, sizes=(30, 25, 40))
    before = MaxLogit(0.3, random_state=0).fit(X, y).class_scores(new)
    after = OpenMax(C=0.3, random_state=0).fit(X, y).class_scores(new)
    assert (before < 0).any()
    assert (after <= before + 1e-9).all()
    check_same(after[before < 0], before[before < 0])


def test_class_that_the_regression_never_names_has_the_mean_of_all_its_samples():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 9, rng.normal(size=(4, 2)) * 0.1])
    y = np.repeat([0, 1, 2], [60, 60, 4])
    clf = OpenMax(C=0.01, random_state=0).fit(X, y)
    assert 2 not in MaxLogit(0.01, random_state=0).fit(X, y).candidate(X)
    assert clf.model_.means[2] == pytest.approx(X[y == 2].mean(axis=0))


def test_class_of_two_samples_takes_the_tail_of_all_and_says_so():
    X, y, _ = draw_task(17, sizes=(20, 20, 2))
    with pytest.warns(TailWarning, match="1 of 3 classes"):
        model = OpenMax(C=10.0, random_state=0).fit(X, y).model_
    right = MaxLogit(10.0, random_state=0).fit(X, y).candidate(X) == y
    distances = np.linalg.norm(X - model.means[y], axis=1)[right]
    expected = weibull_by_equation(np.sort(distances)[-20:])
    assert (model.shape[2], model.scale[2]) == pytest.approx(expected, rel=1e-6)


def test_without_any_distance_openmax_is_max_logit():
    X = np.random.default_rng(0).normal(size=(5, 3))
    with pytest.warns(TailWarning, match="largest logit"):
        clf = OpenMax(C=1.0).fit(X, np.arange(5))
    new = np.random.default_rng(1).normal(size=(9, 3)) * 5
    assert clf.unknown_score(new) == pytest.approx(MaxLogit(1.0).fit(X, np.arange(5)).unknown_score(new))


# What scales samples


@pytest.mark.parametrize("rival", BY_DISTANCE)
@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 10**6), exponent=st.integers(-6, 6))
def test_the_unit_of_the_features_does_not_matter(rival, seed, exponent):
    X, y, new = draw_task(seed, sizes=(8, 7, 9), n_new=5)
    unit = 10.0**exponent
    before = rival(random_state=0).fit(X, y).unknown_score(new)
    after = rival(random_state=0).fit(unit * X, y).unknown_score(unit * new)
    assert after == pytest.approx(before * (unit if rival is KNNDistance else 1.0), rel=1e-6)


@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 10**6), exponent=st.integers(-3, 3))
def test_the_unit_and_the_penalty_of_logistic_regression_go_together(seed, exponent):
    X, y, new = draw_task(seed, sizes=(8, 7, 9), n_new=5)
    unit = 2.0**exponent
    for rival in (MaxLogit, OpenMax):
        before = rival(C=1.0, cv=2, random_state=0).fit(X, y).unknown_score(new)
        after = rival(C=1.0 / unit**2, cv=2, random_state=0).fit(unit * X, y).unknown_score(unit * new)
        assert after == pytest.approx(before, rel=1e-6, abs=1e-6)


# Tails and probabilities that end


@pytest.mark.parametrize("rival", [EVM, OpenMax])
def test_a_tail_longer_than_there_are_distances_is_all_of_them(rival):
    X, y, new = draw_task(21, sizes=(5, 6, 7))
    everything = rival(18, random_state=0).fit(X, y).unknown_score(new)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        check_same(rival(10**6, random_state=0).fit(X, y).unknown_score(new), everything)


def test_evm_goes_on_ranking_where_its_probabilities_have_ended():
    """Raw digits: the released form's probabilities end one pixel value beyond; scores and candidates do not."""
    X, y = load_digits(return_X_y=True)
    known = y < 6
    clf = EVM(form="released", random_state=0, cv=3).fit(X[:600][known[:600]], y[:600][known[:600]])
    score = clf.unknown_score(X[600:])
    assert np.mean(score > BEYOND) > 0.2
    assert len(np.unique(score)) > 0.99 * len(score)
    assert np.mean(clf.predict(X[600:])[~known[600:]] == -1) > 0.3
    assert np.mean(clf.candidate(X[600:])[known[600:]] == y[600:][known[600:]]) > 0.9

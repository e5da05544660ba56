"""What all rivals that learn from features share: distances, neighbors, Gaussian classes and logistic regression.

``test_neighbor_rivals.py`` and ``test_embedding_rivals.py`` check each of them against its formulas.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same import check_same, check_same_candidates, check_same_model
from scale import examples, slow_except
from sklearn.metrics import roc_auc_score
from worlds import World, draw_task

import srosr
from srosr.exceptions import SROSRWarning
from srosr.inspection.rival_explanation import explain_rival
from srosr.rivals.evm import EVM
from srosr.rivals.gen import GEN
from srosr.rivals.knn_distance import KNNDistance
from srosr.rivals.mahalanobis import Mahalanobis
from srosr.rivals.max_logit import MaxLogit
from srosr.rivals.nnguide import NNGuide
from srosr.rivals.openmax import OpenMax
from srosr.rivals.osnn import OSNN
from srosr.rivals.relative_mahalanobis import RelativeMahalanobis
from srosr.rivals.vim import ViM

ON_LOGITS = (MaxLogit, OpenMax, ViM, NNGuide, GEN)
ALL = (OSNN, KNNDistance, Mahalanobis, RelativeMahalanobis, EVM, *ON_LOGITS)
# These see directions from the origin, so that a shift changes them.
FROM_ORIGIN = (ViM, NNGuide)

every = pytest.mark.parametrize("rival", ALL)
pytestmark = pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")


def fixed(rival):
    """Return parameters that leave nothing to be chosen on held-out samples, and few folds: scores do not need them."""
    return {"C": 1.0, "cv": 2} if rival in ON_LOGITS else {"cv": 2}


def fit_quietly(clf, X, y):
    """Fit where any warning but one of ours is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SROSRWarning)
        return clf.fit(X, y)


@every
@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 10**6), n_features=st.sampled_from([2, 5, 50]))
def test_moved_and_turned_samples_are_predicted_alike(rival, seed, n_features):
    X, y, new = draw_task(seed, sizes=(8, 7, 9), n_features=n_features, n_new=5)
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    shift = 0.0 if rival in FROM_ORIGIN else 3 * rng.normal(size=n_features)
    clf = rival(random_state=0, **fixed(rival)).fit(X, y)
    moved = rival(random_state=0, **fixed(rival)).fit(X @ turn + shift, y)
    before, after = clf.unknown_score(new), moved.unknown_score(new @ turn + shift)
    if rival in ON_LOGITS:  # as close as the solver goes
        assert after == pytest.approx(before, rel=2e-2, abs=2e-2)
        return
    # A difference of distances may be near zero.
    near = {"rel": 1e-6, "abs": 1e-6 * np.abs(before).max()} if rival is RelativeMahalanobis else {"rel": 1e-5}
    assert after == pytest.approx(before, **near)
    check_same_candidates(moved.candidate(new @ turn + shift), clf.class_scores(new), 1e-5)


@every
@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_training_samples_does_not_matter(rival, seed):
    """Except to what depends on the draw of folds, or takes one of several equally good samples."""
    more = fixed(rival) | {ViM: {"alpha": 1.0}, EVM: {"cover_threshold": None}}.get(rival, {})
    X, y, new = draw_task(seed, sizes=(8, 7, 9), n_new=5)
    order = np.random.default_rng(seed).permutation(len(y))
    before = rival(random_state=0, **more).fit(X, y).unknown_score(new)
    after = rival(random_state=0, **more).fit(X[order], y[order]).unknown_score(new)
    assert after == pytest.approx(before, rel=1e-3, abs=1e-3)


@every
def test_the_candidate_has_the_largest_class_score_and_a_file_and_an_explanation_tell_the_same(rival, tmp_path):
    X, y, new = draw_task(18)
    clf = rival(random_state=0).fit(X, y)
    assert np.array_equal(clf.candidate(new), clf.class_scores(new).argmax(axis=1))
    clf.save(tmp_path / "model")
    again = srosr.load(tmp_path / "model")
    assert again.tuned_ == clf.tuned_
    check_same_model(again, clf, new)
    told = explain_rival(again, new[:1])
    assert told.method == rival.__name__ and told.candidate == clf.candidate(new[:1])[0]
    check_same(told.unknown_score, clf.unknown_score(new[:1])[0])
    assert "score at least as high" in told.text and "Best class scores" in told.text


@every
def test_about_five_in_a_hundred_known_samples_are_rejected_and_unknown_ones_score_higher(rival):
    world = World(3, noise=0.6)
    X, y = world.known(60)
    clf = rival(random_state=0).fit(X, y)
    known, unknown = world.fresh(1000)[0], world.unknowns(1000)
    assert np.mean(clf.predict(known) == -1) < 0.1
    assert roc_auc_score(np.repeat([0, 1], 1000), clf.unknown_score(np.concatenate([known, unknown]))) > 0.8


SMALL = [(1, 1), (1, 1, 1, 1), (2, 2), (2, 2, 2), (1, 2, 30), (3, 1)]
QUICK = [((1, 1), 1), ((1, 1), 30), ((2, 2), 3), ((2, 2, 2), 30), ((1, 2, 30), 3), ((3, 1), 1)]


@every
@pytest.mark.parametrize(("sizes", "n_features"), slow_except(QUICK, [(a, b) for a in SMALL for b in (1, 3, 30)]))
def test_classes_of_one_or_two_samples_are_learned(rival, sizes, n_features):
    X, y, new = draw_task(19, sizes=sizes, n_features=n_features)
    clf = fit_quietly(rival(random_state=0), X, y)
    assert np.isfinite(clf.unknown_score(new)).all()
    assert np.isfinite(clf.class_scores(new)).all()
    assert set(clf.predict(new)) <= {*np.unique(y).tolist(), -1}


@every
def test_samples_under_two_labels_and_constant_features_are_learned(rival):
    X, y, new = draw_task(20, n_features=5)
    X[:, 1], new[:, 1] = 7.0, 8.0
    X, y = np.concatenate([X, X]), np.concatenate([y, np.roll(y, 1)])
    clf = fit_quietly(rival(random_state=0), X, y)
    assert np.isfinite(clf.unknown_score(new)).all()
    assert np.isfinite(clf.unknown_score(X)).all()


@every
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_rows_that_are_all_equal_are_learned(rival, value):
    clf = fit_quietly(rival(random_state=0), np.full((12, 3), value), np.repeat([0, 1, 2], 4))
    assert np.isfinite(clf.unknown_score([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [5.0, -3.0, 0.0]])).all()


@every
@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_features_whose_squares_overflow_are_an_error_unless_they_are_normalized(rival, size):
    X, y, new = draw_task(21)
    with pytest.raises(ValueError, match="overflow or underflow"):
        rival(random_state=0).fit(size * X, y)
    clf = rival(normalize=True, random_state=0, **fixed(rival)).fit(size * X, y)
    assert np.isfinite(clf.unknown_score(size * new)).all()
    assert clf.unknown_score(size * new) == pytest.approx(clf.unknown_score(new), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("clf", "message"),
    [
        (KNNDistance(0), "n_neighbors must be a positive integer, got 0"),
        (KNNDistance(True), "n_neighbors"),
        (EVM(2.5), "tail_size must be a positive integer, got 2.5"),
        (EVM(n_averaged=0), "n_averaged"),
        (EVM(cover_threshold=1.0), "cover_threshold must be a number between 0 and 1"),
        (OpenMax(-1), "tail_size"),
        (OpenMax(alpha=0), "alpha"),
        (OpenMax(C=0.0), "C must be a positive finite number"),
        (MaxLogit("1"), "C must be"),
        (Mahalanobis(threshold=-1.0), "threshold must be"),
        (RelativeMahalanobis(threshold=np.nan), "threshold must be"),
        (RelativeMahalanobis(threshold="original"), "original"),
        (ViM(0), "n_components must be a positive integer or None, got 0"),
        (ViM(alpha=-1.0), "alpha must be a non-negative finite number"),
        (ViM(C=0.0), "C must be a positive finite number"),
        (NNGuide(0), "n_neighbors must be a positive integer, got 0"),
        (NNGuide(threshold="original"), "original"),
        (GEN(1.0), "gamma must be a number between 0 and 1"),
        (GEN(n_top=0), "n_top must be a positive integer"),
        (GEN(threshold=-1.0), "threshold must be"),
    ],
)
def test_invalid_parameters_raise_by_name(clf, message):
    with pytest.raises(ValueError, match=message):
        clf.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])

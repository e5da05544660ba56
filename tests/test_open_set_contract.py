"""What every open set classifier guarantees, tested once for all of them.

Other files check what each method computes against its formulas; here is what users can rely on whatever the method.
"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from fitted import MINUS_ONE
from same import check_same, check_same_labels, check_same_model
from scale import slow_except
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits
from worlds import World

import srosr
from srosr import CalibrationWarning, LeaveClassesOut, SROSRClassifier, SROSRWarning, open_set_methods
from srosr.classifiers.base import OpenSetClassifier
from srosr.metrics.ranking import open_set_auroc
from srosr.rivals.methods import RIVALS
from srosr.thresholds.choice import OBJECTIVES, rejection_threshold

pytestmark = pytest.mark.filterwarnings("ignore::srosr.SROSRWarning")


def seeded():
    """Return every method by name, with a seed and few folds and repeats: the guarantees are the same."""
    out = {}
    for name, clf in open_set_methods().items():
        few = {"n_repeats": 3, "cv": 4, "random_state": 0}
        out[name] = clf.set_params(**{k: v for k, v in few.items() if k in clf.get_params()})
    return out


METHODS = seeded()

# The methods of the default run: a fast one of every base class, and two rules of SROSRClassifier.
CHOSEN = ("calibrated", "paper", "naive", "svm-pairwise", "openmax", "evm", "osnn", "knn", "mahalanobis")
every = pytest.mark.parametrize("name", slow_except(CHOSEN, METHODS))


def choose_nothing(name):
    """Return a method with parameters that it would choose by cross-validation, which takes most of a fit."""
    parameters = METHODS[name].get_params()
    given = {"C": 1.0, "gamma": "scale"} if "C" in parameters else {}
    return clone(METHODS[name]).set_params(**{k: v for k, v in given.items() if parameters.get(k, v) is None})


# One method of each base class; test_srosr_classifier has more settings of SROSRClassifier, and the rules of the paper.
CHECKED = ("calibrated", "naive", "svm-pairwise", "openmax")
# With --slow one of each kind of choice is left: by machines, by their probabilities too, of C alone, and of logistic
# regression.
CHOOSING = ("svm-pairwise", "w-svm", "1-vs-set", "openmax")


@parametrize_with_checks([choose_nothing(name) for name in CHECKED], expected_failed_checks=lambda clf: MINUS_ONE)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        METHODS[name] if name in CHOOSING else choose_nothing(name)
        for name in METHODS
        if name in CHOOSING or name not in {*CHECKED, "paper", "matched"}
    ],
    expected_failed_checks=lambda clf: MINUS_ONE,
)
def test_scikit_learn_conventions_of_the_other_methods(estimator, check):
    check(estimator)


def test_the_methods_of_the_default_run_have_every_base_class():
    def bases(names):
        return {base for name in names for base in type(METHODS[name]).__mro__[1:]}

    assert bases(CHOSEN) == bases(CHECKED) == bases(METHODS)


@pytest.fixture(scope="module")
def world():
    """Return X, y, known test samples, their classes, unknown samples: five classes of thirty."""
    world = World(1, n_known=5, noise=0.5)
    return *world.known(30), *world.fresh(150), world.unknowns(150)


_fitted, _warned = {}, {}


@pytest.fixture
def fitted(name, world):
    """Return a copy of the method fitted to the world; each method is fitted once per process."""
    if name not in _fitted:
        with warnings.catch_warnings(record=True) as _warned[name]:
            warnings.simplefilter("always")
            _fitted[name] = clone(METHODS[name]).fit(*world[:2])
    return pickle.loads(pickle.dumps(_fitted[name]))


def test_every_rival_and_every_rule_is_among_the_methods():
    kinds = {type(clf) for clf in METHODS.values()}
    assert kinds == {SROSRClassifier, *RIVALS}
    assert {clf.rule for clf in METHODS.values() if isinstance(clf, SROSRClassifier)} == {
        "calibrated",
        "paper",
        "matched",
    }
    assert all(issubclass(kind, OpenSetClassifier) and getattr(srosr, kind.__name__) is kind for kind in kinds)


@every
def test_predictions_are_classes_or_the_unknown_label(name, fitted, world):
    X = np.concatenate([world[2], world[4]])
    decided = fitted.decide(X)
    candidate, score = decided.candidate, decided.unknown_score
    assert set(candidate) <= set(fitted.classes_)
    assert fitted.unknown_label_ == -1
    lowest, highest = fitted.score_range
    assert not np.isnan(score).any()
    assert (score >= lowest).all() and (score <= highest).all()
    np.testing.assert_array_equal(decided.label, np.where(score > fitted.threshold_, -1, candidate))
    assert fitted.class_scores(X).shape == (len(X), 5)


@every
def test_decisions_agree_with_the_single_methods(name, fitted, world):
    X = np.concatenate([world[2], world[4]])
    decided = fitted.decide(X)
    assert len(decided) == len(X)
    check_same_labels(fitted.predict(X), decided.label, decided.unknown_score, fitted.threshold_)
    np.testing.assert_array_equal(fitted.candidate(X), decided.candidate)
    check_same(fitted.unknown_score(X), decided.unknown_score)
    np.testing.assert_array_equal(decided.rejected, decided.label == fitted.unknown_label_)


@every
def test_unknown_samples_score_higher_than_known_ones(name, fitted, world):
    _, _, known, classes, unknown = world
    y = np.concatenate([classes, np.full(len(unknown), -1)])
    # A slab of a linear machine sees one direction per class.
    least = 0.55 if name == "1-vs-set" else 0.6
    assert open_set_auroc(y, fitted.unknown_score(np.concatenate([known, unknown])), unknown_label=-1) > least
    assert np.mean(fitted.candidate(known) == classes) > 0.8
    X = np.concatenate([known, unknown])
    assert fitted.score(X, y) == pytest.approx(np.mean(fitted.predict(X) == y), rel=1e-12)


@every
def test_a_score_does_not_depend_on_the_rest_of_the_batch(name, fitted, world):
    X = world[2][:20]
    alone = np.concatenate([fitted.unknown_score(x[None]) for x in X])
    np.testing.assert_allclose(alone, fitted.unknown_score(X), rtol=1e-6, atol=1e-9)


@every
def test_a_target_is_kept_on_held_out_and_on_fresh_samples(name, fitted, world):
    for target in (0.05, 0.2):
        fitted.set_threshold(target_rejection=target)
        held = fitted._held_out_scores()
        assert np.mean(held.scores > fitted.threshold_) <= target
        check_same(fitted.threshold_, rejection_threshold(held.scores, target))
        assert fitted.threshold_info_.kind == "target"
        # 150 held-out and 150 fresh samples: four standard errors of either.
        assert np.mean(fitted.predict(world[2]) == -1) <= target + 4 * np.sqrt(2 * target * (1 - target) / 150)


@every
def test_every_training_sample_is_held_out_once_and_classes_are_left_out_as_simulated_unknowns(name, fitted):
    held = fitted._held_out_scores()
    np.testing.assert_array_equal(np.bincount(held.truth), [30] * 5)
    assert held.unknown.any() and not held.unknown.all()
    assert not held.right[held.unknown].any()


@every
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_simulated_openness_gives_a_threshold(name, objective, fitted, world):
    before = fitted.unknown_score(world[2])
    assert fitted.set_threshold(objective) is fitted
    assert fitted.threshold_info_.kind == "simulated"
    assert np.isfinite(fitted.threshold_)
    np.testing.assert_array_equal(fitted.unknown_score(world[2]), before)


@every
def test_a_number_is_a_threshold(name, fitted, world):
    middle = float(np.median(fitted.unknown_score(world[2])))
    fitted.set_threshold(middle)
    assert fitted.threshold_ == middle and fitted.threshold_info_.kind == "fixed"
    decided = fitted.decide(world[2])
    np.testing.assert_array_equal(decided.rejected, decided.unknown_score > middle)


# Thresholds of papers: one minus half the openness (which is zero here), the border of a machine or slab, or where the
# unknown class is the most probable.
ORIGINAL = {
    "w-svm": 1.0,
    "pi-svm": 1.0,
    "svm-platt": 1.0,
    "svm-pairwise": 1.0,
    "svm": 0.0,
    "1-vs-set": 0.0,
    "openmax": 0.0,
}


@every
def test_the_threshold_of_the_original_method_exists_or_asking_for_it_raises(name, fitted, world):
    if name in ORIGINAL:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert fitted.set_threshold("original").threshold_ == pytest.approx(ORIGINAL[name])
        assert fitted.threshold_info_.kind == "fixed"
        # A threshold at the end of the scale rejects nothing, which a warning says.
        ended = fitted.threshold_ >= fitted.score_range[1]
        assert ended == any("nothing is rejected" in str(w.message) for w in caught)
        assert ended == (name in ("pi-svm", "svm-platt", "svm-pairwise"))
        return
    with pytest.raises(ValueError, match="original"):
        fitted.set_threshold("original")
    with pytest.raises(ValueError, match="original"):
        clone(METHODS[name]).set_params(threshold="original").fit(*world[:2])


@every
def test_classes_may_have_thresholds_of_their_own(name, fitted, world):
    fitted.set_threshold(target_rejection=0.05, per_class=True)
    decided = fitted.decide(world[2])
    np.testing.assert_array_equal(decided.rejected, decided.unknown_score > fitted.thresholds_[decided.candidate])


@every
@pytest.mark.parametrize("bad", ["best", np.nan, True, [0.5], -np.inf])
def test_an_invalid_threshold_raises_and_keeps_the_old_one(name, bad, fitted):
    before = fitted.threshold_
    with pytest.raises(ValueError, match="threshold"):
        fitted.set_threshold(bad)
    with pytest.raises(ValueError, match="not both"):
        fitted.set_threshold(0.5, target_rejection=0.1)
    with pytest.raises(ValueError, match="target_rejection"):
        fitted.set_threshold(target_rejection=1.5)
    with pytest.raises(ValueError, match="per_class"):
        fitted.set_threshold("f", per_class=True)
    assert fitted.threshold_ == before


@every
def test_saved_and_loaded_it_predicts_the_same(name, fitted, world, tmp_path):
    X = np.concatenate([world[2], world[4]])
    fitted.save(tmp_path / "model")
    again = srosr.load(tmp_path / "model")
    assert type(again) is type(fitted)
    check_same_model(again, fitted, X)
    check_same(again.class_scores(X), fitted.class_scores(X))
    parameters = fitted.get_params(deep=False)
    assert {k: repr(v) for k, v in again.get_params(deep=False).items()} == {k: repr(v) for k, v in parameters.items()}
    for choice in ({"target_rejection": 0.11}, *({"threshold": objective} for objective in OBJECTIVES)):
        check_same(again.set_threshold(**choice).threshold_, fitted.set_threshold(**choice).threshold_)
    again.save(tmp_path / "again")
    srosr.load(tmp_path / "again")


@every
@pytest.mark.parametrize("copies", [1, 8])
def test_models_of_next_to_nothing_survive_a_file(name, copies, world, tmp_path):
    """One sample per class, or eight copies of it: no spread, no tails."""
    X, y = world[:2]
    rows = np.repeat([np.flatnonzero(y == k)[0] for k in range(5)], copies)
    clf = clone(METHODS[name])
    if copies == 1 and name in ("paper", "matched"):
        with pytest.raises(ValueError, match="two samples"):
            clf.fit(X[rows], y[rows])
        return
    clf.fit(X[rows], y[rows]).save(tmp_path / "model")
    check_same(srosr.load(tmp_path / "model").unknown_score(X), clf.unknown_score(X))


@every
def test_text_labels_and_named_features_survive_a_file(name, world, tmp_path):
    X, y, known = world[:3]
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    words = np.array(["ant", "bee", "cat", "dog", "eel"])
    clf = clone(METHODS[name]).fit(frame, words[y])
    clf.save(tmp_path / "model")
    again = srosr.load(tmp_path / "model")
    test = pd.DataFrame(known, columns=frame.columns)
    assert again.unknown_label_ == "unknown"
    check_same_model(again, clf, test)
    assert set(again.predict(test)) <= {*words, "unknown"}
    with pytest.raises(ValueError, match="feature names"):
        again.predict(test[test.columns[::-1]])


@every
def test_the_unknown_label_can_be_chosen_but_not_among_the_classes(name, world):
    X, y = world[:2]
    clf = clone(METHODS[name]).set_params(unknown_label=99, threshold=None).fit(X, y)
    assert set(clf.predict(world[4])) <= {99, *range(5)}
    with pytest.raises(ValueError, match="unknown_label"):
        clf.set_params(unknown_label=3).fit(X, y)
    assert clf.unknown_label_ == 99  # the earlier fit is still there
    with pytest.raises(ValueError, match="unknown_label"):
        clone(METHODS[name]).set_params(unknown_label="none").fit(X, y)


@every
def test_names_of_classes_do_not_matter(name, fitted, world):
    """Other names in the same order give the same model; in another order only the draw of the folds differs."""
    (X, y, known), one = world[:3], fitted
    other = clone(METHODS[name]).fit(X, 100 + 7 * y)
    np.testing.assert_array_equal(100 + 7 * one.candidate(known), other.candidate(known))
    check_same(other.unknown_score(known), one.unknown_score(known))
    check_same(other.threshold_, one.threshold_)
    order = np.array([3, 0, 4, 1, 2])
    mixed = clone(METHODS[name]).fit(X, order[y])
    assert np.mean(order[one.candidate(known)] == mixed.candidate(known)) > 0.95
    if name not in ("paper", "matched"):  # most of whose scores are zero
        assert spearmanr(one.unknown_score(known), mixed.unknown_score(known)).statistic > 0.9


@every
def test_a_seed_gives_the_same_model_again(name, fitted, world):
    again = clone(METHODS[name]).fit(*world[:2])
    check_same(again.threshold_, fitted.threshold_)
    check_same(again.unknown_score(world[4]), fitted.unknown_score(world[4]))


@every
def test_the_number_of_threads_does_not_change_a_score(name):
    """With enough samples for a matrix product to be shared between threads."""
    world = World(2, n_known=3, n_features=300, noise=1.0)
    X, y = world.known(60)
    clf = clone(METHODS[name]).fit(X, y)
    new = world.fresh(400)[0]
    with threadpool_limits(1):
        alone = clf.unknown_score(new)
    with threadpool_limits(4):
        check_same(clf.unknown_score(new), alone)


@every
def test_everything_raises_not_fitted_error_before_fit(name, world, tmp_path):
    clf = clone(METHODS[name])
    for ask in (clf.predict, clf.candidate, clf.unknown_score, clf.class_scores):
        with pytest.raises(NotFittedError):
            ask(world[2])
    with pytest.raises(NotFittedError):
        clf.set_threshold(0.5)
    with pytest.raises(NotFittedError):
        clf.save(tmp_path / "model")


@every
def test_a_fit_that_fails_leaves_the_model_that_was_there(name, fitted, world):
    before = fitted.unknown_score(world[2])
    with pytest.raises(ValueError, match="one class"):
        fitted.fit(world[0], np.zeros(len(world[0]), int))
    with pytest.raises(ValueError):
        fitted.fit(np.full_like(world[0], np.nan), world[1])
    np.testing.assert_array_equal(fitted.unknown_score(world[2]), before)


@every
def test_errors_name_invalid_parameters(name, world):
    for parameter, bad in {
        "target_rejection": 0.0,
        "risk_weight": -1.0,
        "threshold": "often",
        "cv": 1,
        "n_repeats": 0,
        "normalize": "maybe",
        "gamma": -1.0,
        "C": 0.0,
        "openness": 2.0,
    }.items():
        clf = clone(METHODS[name])
        if parameter in clf.get_params():
            with pytest.raises(ValueError, match=parameter):
                clf.set_params(**{parameter: bad}).fit(*world[:2])


@every
def test_two_classes_are_enough_but_openness_cannot_be_simulated(name, world):
    X, y = world[:2]
    clf = clone(METHODS[name]).fit(X[y < 2], y[y < 2])
    assert set(clf.predict(X)) <= {-1, 0, 1}
    with pytest.raises(ValueError, match="three classes"):
        clf.set_threshold("f")


@every
def test_classes_of_two_samples_work_with_a_warning_that_the_target_cannot_be_kept(name, world):
    X, y = world[:2]
    few = np.concatenate([np.flatnonzero(y == k)[:2] for k in range(5)])
    with pytest.warns(CalibrationWarning, match="cannot be kept"):
        clf = clone(METHODS[name]).fit(X[few], y[few])
    assert np.mean(clf.candidate(world[2]) == world[3]) > 0.5


@every
def test_classes_of_one_sample_work_or_raise_with_the_reason(name, world):
    X, y = world[:2]
    one = np.array([np.flatnonzero(y == k)[0] for k in range(5)])
    clf = clone(METHODS[name])
    try:
        clf.fit(X[one], y[one])
    except ValueError as error:
        assert "two samples" in str(error)
        return
    assert set(clf.predict(world[2])) <= {-1, *range(5)}
    assert not np.isnan(clf.unknown_score(world[2])).any()


@every
def test_a_class_of_one_sample_among_larger_ones_is_learned(name, world):
    X, y = world[:2]
    keep = np.concatenate([np.flatnonzero(y < 4), np.flatnonzero(y == 4)[:1]])
    clf = clone(METHODS[name]).fit(X[keep], y[keep])
    assert list(clf.classes_) == [0, 1, 2, 3, 4]
    assert not np.isnan(clf.unknown_score(world[2])).any()


@every
def test_the_same_sample_under_two_labels_does_no_harm(name, world):
    X, y = world[:2]
    twice = np.concatenate([X, X[:40], X[:40]])
    labels = np.concatenate([y, (y[:40] + 1) % 5, y[:40]])
    clf = clone(METHODS[name]).fit(twice, labels)
    score = clf.unknown_score(np.concatenate([X[:40], world[4]]))
    assert not np.isnan(score).any()
    assert np.isfinite(clf.threshold_)


@every
def test_classes_of_identical_samples_are_learned(name, world):
    X, y = world[:2]
    rows = np.array([np.flatnonzero(y == k)[0] for k in range(5)])
    clf = clone(METHODS[name]).fit(np.repeat(X[rows], 8, axis=0), np.repeat(np.arange(5), 8))
    np.testing.assert_array_equal(clf.candidate(X[rows]), np.arange(5))
    assert not np.isnan(clf.unknown_score(world[2])).any()


@every
def test_constant_features_do_no_harm(name, world):
    X, y, known = world[:3]
    padded = np.hstack([X, np.zeros((len(X), 3))])
    clf = clone(METHODS[name]).fit(padded, y)
    assert not np.isnan(clf.unknown_score(np.hstack([known, np.zeros((len(known), 3))]))).any()


@every
def test_distant_separable_classes_are_recognized_and_samples_between_them_score_high(name):
    """Very few support vectors and nearly empty tails are enough."""
    rng = np.random.default_rng(0)
    centers = 10.0 * np.eye(4, 8)
    y = np.repeat(np.arange(4), 25)
    X = centers[y] + 0.05 * rng.standard_normal((100, 8))
    clf = clone(METHODS[name]).fit(X, y)
    fresh = centers[y] + 0.05 * rng.standard_normal((100, 8))
    np.testing.assert_array_equal(clf.candidate(fresh), y)
    if name != "svm-platt":  # whose probabilities of separable classes are a matter of the number of samples
        assert np.mean(clf.predict(fresh) == -1) < 0.3
    usual, between = np.median(clf.unknown_score(fresh)), (centers[[0, 1]] + centers[[2, 3]]) / 2
    if name != "vim":  # to which samples without the noise of all others are the more known for it
        assert clf.unknown_score(between).min() >= usual
    assert clf.unknown_score(between + 0.05 * rng.standard_normal((2, 8))).min() >= usual


@every
def test_zero_samples_are_rejected_where_samples_are_normalized(name, world):
    clf = clone(METHODS[name]).set_params(normalize=True).fit(*world[:2])
    nothing = np.zeros((2, world[0].shape[1]))
    np.testing.assert_array_equal(clf.predict(nothing), [-1, -1])
    np.testing.assert_array_equal(clf.unknown_score(nothing), [clf.score_range[1]] * 2)
    scaled = clf.unknown_score(1000.0 * world[2])
    np.testing.assert_allclose(scaled, clf.unknown_score(world[2]), rtol=1e-6, atol=1e-8)


@every
@pytest.mark.parametrize("size", [1e30, 1e160, 1e200, 1e308])
def test_samples_that_overflow_get_a_score(name, size, fitted, world):
    """Every threshold would accept a score of NaN, and squares of such features overflow."""
    X = np.where(np.arange(world[0].shape[1]) % 2, size, -size) * np.ones((3, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # scikit-learn's own check for infinite entries adds them up.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="numpy|sklearn")
        decided = fitted.decide(X)
    assert not np.isnan(decided.unknown_score).any()
    np.testing.assert_array_equal(decided.rejected, decided.unknown_score > fitted.thresholds_[decided.candidate])


@every
def test_zero_training_samples_do_not_move_the_threshold(name, world):
    X, y = world[:2]
    zeros = np.zeros((15, X.shape[1]))
    clf = clone(METHODS[name]).set_params(normalize=True)
    plain = clone(clf).fit(X, y)
    padded = clone(clf).fit(np.concatenate([X, zeros]), np.concatenate([y, np.arange(15) % 5]))
    assert abs(padded.predict(world[4]) == -1).mean() >= (plain.predict(world[4]) == -1).mean() - 0.2
    assert len(padded._held_out_scores().scores) == len(X)
    with pytest.raises(ValueError, match="all samples of class 5 are zero"):
        clone(clf).fit(np.concatenate([X, zeros]), np.concatenate([y, np.full(15, 5)]))


@every
def test_parameters_set_after_the_fit_do_not_change_the_model(name, fitted, world, tmp_path):
    before = fitted.unknown_score(world[2])
    changes = {"normalize": not fitted.get_params()["normalize"], "score_by": "decision", "kernel": "rbf"}
    fitted.set_params(**{k: v for k, v in changes.items() if k in fitted.get_params()})
    np.testing.assert_array_equal(fitted.unknown_score(world[2]), before)
    fitted.save(tmp_path / "model")
    check_same(srosr.load(tmp_path / "model").unknown_score(world[2]), before)


@every
def test_prediction_in_blocks_changes_nothing(name, fitted, world, monkeypatch):
    X = np.concatenate([world[2], world[4]])
    whole = fitted.predict(X), fitted.unknown_score(X), fitted.class_scores(X)
    monkeypatch.setattr("srosr.rivals.cross_fitted._BLOCK_BYTES", 1)
    monkeypatch.setattr("srosr.classifiers.dictionary_classifier._BLOCK_BYTES", 1)
    check_same_labels(fitted.predict(X), whole[0], whole[1], fitted.threshold_, tolerance=1e-6)
    np.testing.assert_allclose(fitted.unknown_score(X), whole[1], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fitted.class_scores(X), whole[2], rtol=1e-6, atol=1e-9)


# Labels are encoded before any method sees them: of most methods two types are enough, one of two classes.
TYPES = [np.uint64, np.int8, np.float64, np.bool_, "U1", object]
QUICK = ("knn", "mahalanobis")
LABELED = [(name, dtype) for name in METHODS for dtype in (TYPES if name in QUICK else [np.bool_, object])]


@pytest.mark.parametrize(("name", "dtype"), slow_except([case for case in LABELED if case[0] in CHOSEN], LABELED))
def test_labels_of_any_type_are_learned_and_scored(name, dtype, world):
    X, y = world[:2]
    few = y < 2 if dtype is np.bool_ else y >= 0
    labels = y[few].astype(dtype) if dtype is not object else y[few].astype("U1").astype(object)
    clf = clone(METHODS[name]).fit(X[few], labels)
    assert set(clf.predict(X[few]).tolist()) <= {*labels.tolist(), clf.unknown_label_}
    assert 0.5 < clf.score(X[few], labels) <= 1


@pytest.mark.parametrize("name", slow_except(("calibrated", "osnn", "knn"), METHODS))
def test_parameters_can_be_searched_without_unknown_data(name, world):
    search = GridSearchCV(
        METHODS[name],
        {"target_rejection": [0.05, 0.2]},
        scoring=srosr.youden_scorer,
        cv=LeaveClassesOut(2, random_state=0),
        error_score="raise",
    ).fit(*world[:2])
    assert search.best_params_["target_rejection"] in (0.05, 0.2)


@every
def test_fits_warn_with_our_own_classes_only(name, fitted):
    caught = _warned[name]
    assert all(issubclass(w.category, SROSRWarning) for w in caught), [str(w.message) for w in caught]

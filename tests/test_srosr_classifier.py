"""The recognizer as scikit-learn's tools, labels of every kind, odd data and common sense expect it to behave."""

import copy
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from fitted import MINUS_ONE, fit_once
from same import check_same, check_same_labels, check_same_model
from scale import slow_except
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from worlds import World

from srosr import BPDN, OMP, Lasso, Queries, Ridge
from srosr.classifiers.srosr_classifier import SROSRClassifier
from srosr.evidence.table import EVIDENCE
from srosr.exceptions import CalibrationWarning

SEEDED = {"n_repeats": 3, "random_state": 0}


def quick(problem=None, **parameters):
    """Return a seeded recognizer with few repeats."""
    return SROSRClassifier(Lasso(0.05) if problem is None else problem, **(SEEDED | parameters))


@parametrize_with_checks(
    [
        quick(calibration="split", n_repeats=1),
    ],
    expected_failed_checks=lambda clf: MINUS_ONE,
)
@pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")
def test_scikit_learn_conventions(estimator, check):
    """Of what is not the default; that is among all methods in test_open_set_contract."""
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        quick(rule="matched", n_repeats=1, threshold=0.9),
        quick(rule="paper", n_repeats=1),
        quick(kernel="rbf", n_repeats=1),
        quick(per_class=True, n_repeats=1),
    ],
    expected_failed_checks=lambda clf: MINUS_ONE,
)
@pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")
def test_scikit_learn_conventions_of_more_settings(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def world():
    """Return (X, y, known test samples, their classes, unknowns), four classes of twenty."""
    world = World(0)
    return *world.known(20), *world.fresh(60), world.unknowns(60)


@pytest.fixture(scope="module")
def fitted(world):
    return fit_once(quick(), *world[:2])


@pytest.fixture(scope="module")
def small_world():
    """Return the same with classes of twelve, for tests that need many fits."""
    world = World(7, n_features=10)
    return *world.known(12), *world.fresh(30), world.unknowns(30)


# --- what it says -------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["calibrated", "paper", "matched"])
def test_known_digits_are_named_and_unknown_ones_rejected(rule):
    """Return digits in random order: in the file they are sorted by writer, and a new writer looks half unknown."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    train, test = slice(0, 700), slice(700, 1300)
    known = y < 6
    clf = SROSRClassifier(rule=rule, n_repeats=4, tail_size=0.3, random_state=0)
    clf.fit(X[train][known[train]], y[train][known[train]])
    said = clf.predict(X[test])
    assert np.mean(said[known[test]] == y[test][known[test]]) > 0.8
    assert np.mean(said[known[test]] == -1) < 0.15
    assert np.mean(said[~known[test]] == -1) > (0.6 if rule == "calibrated" else 0.3)
    assert roc_auc_score(~known[test], clf.unknown_score(X[test])) > (0.95 if rule == "calibrated" else 0.85)


@pytest.mark.parametrize("problem", [Lasso(0.02), BPDN(0.1), Ridge(0.1), OMP(5)], ids=repr)
def test_every_coding_problem_separates_unknown_from_known_samples(world, problem):
    X, y, X_known, _, unknowns = world
    clf = quick(problem).fit(X, y)
    scores = clf.unknown_score(np.vstack([X_known, unknowns]))
    assert roc_auc_score(np.repeat([0, 1], 60), scores) > 0.9


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"rule": "paper"},
        {"rule": "matched"},
        {"kernel": "rbf", "gamma": 0.02},
        {"per_class": True, "target_rejection": 0.1},
        {"calibration": "split", "target_rejection": 0.1},
        {"threshold": "youden"},
        {"threshold": 0.3},
        {"threshold": 0.0},
        {"threshold": 1.0},
    ],
    ids=str,
)
def test_a_sample_is_rejected_if_and_only_if_its_score_is_above_its_candidates_threshold(world, parameters):
    X, y, X_known, _, unknowns = world
    clf = fit_once(quick(**parameters), X, y)
    X_test = np.vstack([X_known, unknowns])
    scores, candidate = clf.unknown_score(X_test), clf.candidate(X_test)
    assert ((scores >= 0) & (scores <= 1)).all()
    rejected = scores > clf.thresholds_[np.searchsorted(clf.classes_, candidate)]
    np.testing.assert_array_equal(clf.predict(X_test), np.where(rejected, -1, candidate))
    np.testing.assert_array_equal(candidate, clf.classes_[clf.class_scores(X_test).argmax(axis=1)])


def test_log_p_value_ranks_strictly_where_the_score_has_reached_one(fitted):
    """A negative is as unlike a known sample as can be: ever nearer to it the score is 1 all the way."""
    way = np.linspace(0.0, 1.0, 200)[:, None]
    atom, unknown = fitted.dictionary_.linear_atoms[0], World(99, n_features=20).unknowns(1)[0]
    X_test = (1 - way) * atom + way * unknown / np.linalg.norm(unknown)
    logs, scores = fitted.log_p_value(X_test), fitted.unknown_score(X_test)
    np.testing.assert_allclose(np.log1p(-scores[scores < 0.999]), logs[scores < 0.999], atol=1e-9)
    beyond = fitted.calibration_.rule.fusion.score
    table = np.repeat(fitted.evidence(X_test[-1:])[list(EVIDENCE)].to_numpy(), 50, axis=0)
    table[:, 0] += np.linspace(0.0, 500.0, 50)
    assert (np.diff(beyond(table)) > 0).all()
    rule = fitted.calibration_.rule
    assert (rule.score(table)[-10:] == 1.0).all()
    assert (np.diff(rule.log_p_value(table)) < 0).all()


def test_evidence_is_a_table_with_the_index_of_the_samples(fitted, world):
    X_test = pd.DataFrame(world[2][:5], index=list("vwxyz"))
    table = fitted.evidence(X_test.to_numpy())
    assert list(table.columns) == [*EVIDENCE, "candidate", "unknown_score"]
    check_same(table["unknown_score"], fitted.unknown_score(X_test.to_numpy()))
    np.testing.assert_array_equal(table["candidate"], fitted.candidate(X_test.to_numpy()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it was fitted without feature names
        assert list(fitted.evidence(X_test).index) == list("vwxyz")


def test_scaling_a_sample_does_not_change_its_prediction(fitted, world):
    X_test = world[2]
    np.testing.assert_allclose(fitted.unknown_score(1e3 * X_test), fitted.unknown_score(X_test), atol=1e-6)


def test_samples_are_predicted_independently(fitted, world):
    X_test = np.vstack([world[2][:10], world[4][:10]])
    alone = np.concatenate([fitted.unknown_score(x[None]) for x in X_test])
    np.testing.assert_allclose(fitted.unknown_score(X_test), alone, atol=1e-9)


def test_many_samples_go_through_in_blocks_with_the_same_answer(fitted, world, monkeypatch):
    scores, said = np.tile([fitted.unknown_score(world[2]), fitted.predict(world[2])], 3)
    monkeypatch.setattr("srosr.classifiers.dictionary_classifier._BLOCK_BYTES", 1)
    X_test = np.vstack([world[2]] * 3)
    np.testing.assert_allclose(fitted.unknown_score(X_test), scores, atol=1e-9)
    check_same_labels(fitted.predict(X_test), said, scores, fitted.threshold_)


# --- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "unknown"),
    [
        (np.array(list("abcd")), "unknown"),
        (np.array(list("abcd"), dtype=object), "unknown"),
        (np.array([0, 1, 2, 255], np.uint8), -1),
        (np.array([-128, 0, 1, 2], np.int8), -1),
        (np.array([-128, -1, 1, 2], np.int8), -129),
        (np.array([0.0, 1.0, 2.0, 3.0]), -1),
        (np.array(["known", "unknown", "x", "y"]), "none of these"),
    ],
    ids=["text", "text objects", "uint8", "int8", "-1 a class", "floats", "unknown a class"],
)
def test_labels_come_back_whole_with_an_unknown_beside_them(world, names, unknown):
    X, y, X_known, _, unknowns = world
    usual = unknown in (-1, "unknown")
    clf = quick(unknown_label=None if usual else unknown).fit(X, names[y])
    plain = fit_once(quick(), X, y)
    np.testing.assert_array_equal(clf.classes_, names)
    assert clf.unknown_label_ == unknown
    X_test = np.vstack([X_known, unknowns])
    expected = [clf.unknown_label_ if k == -1 else names[k] for k in plain.predict(X_test)]
    said = clf.predict(X_test)
    assert said.tolist() == expected
    assert clf.unknown_label_ in said.tolist()


def test_labels_of_bytes_raise_an_error_that_says_so(world):
    """scikit-learn takes none; that they cannot be compared with each other would not be true."""
    X, y, *_ = world
    with pytest.raises(ValueError, match="bytes"):
        quick().fit(X, np.array([b"a", b"b", b"c", b"d"])[y])


def test_bool_labels_give_numbers_of_which_minus_one_is_unknown(world):
    X, y, X_known, _, unknowns = world
    clf = quick().fit(X, y > 1)
    assert clf.unknown_label_ == -1
    assert set(clf.predict(np.vstack([X_known, unknowns])).tolist()) <= {False, True, -1}
    assert (clf.predict(unknowns) == -1).any()


@pytest.mark.parametrize("kind", ["series", "category", "list"])
def test_labels_in_other_containers_are_the_same_labels(world, kind):
    X, y, X_known, *_ = world
    words = np.array(["aa", "b", "cccc", "d"])[y]
    given = {"series": pd.Series(words), "category": pd.Series(words).astype("category"), "list": words.tolist()}[kind]
    expected = fit_once(quick(), X, words).predict(X_known)
    np.testing.assert_array_equal(quick().fit(X, given).predict(X_known), expected)


@pytest.mark.parametrize(
    ("names", "unknown"), [([0, 1, 2, 3], 99), ([0, 1, 2, 3], 0.5), (["a", "b", "c", "d"], "none of these, sorry")]
)
def test_a_custom_unknown_label_is_what_rejected_samples_get(world, names, unknown):
    X, y, _, _, unknowns = world
    clf = quick(unknown_label=unknown).fit(X, np.array(names)[y])
    assert clf.unknown_label_ == unknown
    assert unknown in clf.predict(unknowns).tolist()


@pytest.mark.parametrize(
    ("names", "unknown"),
    [
        ([0, 1, 2, 3], 2),
        ([0, 1, 2, 3], np.int64(2)),
        ([0, 1, 2, 3], 2.0),
        (["a", "b", "c", "d"], "c"),
        ([0, 1, 2, 3], "unknown"),
        (["a", "b", "c", "d"], -1),
        ([0, 1, 2, 3], [7]),
        ([0, 1, 2, 3], int),
        (["a", "b", "c", "d"], b"unknown"),
    ],
    ids=str,
)
def test_an_unknown_label_that_is_a_class_or_of_another_kind_raises(world, names, unknown):
    X, y, *_ = world
    with pytest.raises(ValueError, match="unknown_label"):
        quick(unknown_label=unknown).fit(X, np.array(names)[y])


def test_large_labels_are_not_rounded(world):
    """-1 beside uint64 is float64 in NumPy, which has no room for them."""
    X, y, X_known, *_ = world
    names = np.uint64(2**63) + np.arange(1, 5, dtype=np.uint64)
    said = quick().fit(X, names[y]).predict(X_known).tolist()
    assert set(said) <= {*names.tolist(), -1}


# --- odd data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"rule": "paper"}, {"threshold": 1.0}, {"normalize": False}], ids=str)
def test_a_sample_of_length_zero_is_rejected(world, parameters):
    X, y, X_known, *_ = world
    clf = fit_once(quick(**parameters), X, y)
    X_test = np.vstack([np.zeros(20), X_known[0]])
    assert clf.predict(X_test)[0] == -1
    assert clf.unknown_score(X_test)[0] == 1.0
    assert clf.log_p_value(X_test)[0] == -np.inf


@pytest.mark.parametrize("rule", ["calibrated", "paper"])
def test_zero_rows_among_the_training_samples_do_no_harm(world, rule):
    X, y, X_known, y_known, _ = world
    with_zeros = X.copy()
    with_zeros[[0, 25, 26, 27, 79]] = 0
    clf = quick(rule=rule).fit(with_zeros, y)
    assert np.isfinite(clf.unknown_score(X_known)).all()
    assert np.mean(clf.candidate(X_known) == y_known) > 0.9


@pytest.mark.parametrize("rule", ["calibrated", "paper", "matched"])
@pytest.mark.parametrize("seed", range(4))
def test_a_class_with_a_single_sample_that_is_not_zero_is_learned(world, rule, seed):
    """Its repeats may hold out nothing but zeros: there is then no error to fit a tail of its own to."""
    X, y, X_known, *_ = world
    mostly = X.copy()
    mostly[:19] = 0
    clf = quick(rule=rule, n_repeats=1, random_state=seed).fit(mostly, y)
    assert np.isfinite(clf.unknown_score(X_known)).all()


@pytest.mark.parametrize("rule", ["paper", "matched"])
def test_where_no_sample_could_be_held_out_the_tail_rules_say_so(rule):
    X, y = np.array([[0.0, 0], [1, 0], [0, 1]]), [0, 0, 1]
    for seed in range(4):
        try:
            quick(rule=rule, n_repeats=1, random_state=seed).fit(X, y)
        except ValueError as error:
            assert "rule" in str(error) or "y" in str(error)


@pytest.mark.parametrize("seed", range(6))
def test_a_split_leaves_every_class_something_to_be_recognized_by(world, seed):
    X, y, *_ = world
    mostly = X.copy()
    mostly[:18] = 0
    clf = quick(calibration="split", random_state=seed, target_rejection=0.1).fit(mostly, y)
    np.testing.assert_array_equal(clf.classes_, np.arange(4))


def test_a_class_of_zero_rows_alone_raises_by_name(world):
    X, y, *_ = world
    with pytest.raises(ValueError, match=r"class.*2.*zero"):
        quick().fit(np.where((y == 2)[:, None], 0.0, X), y)


@pytest.mark.parametrize("value", [0.0, 1.0, -7.5])
def test_constant_features_are_harmless(world, value):
    X, y, X_known, y_known, unknowns = world
    more = [np.hstack([A, np.full((len(A), 3), value)]) for A in (X, X_known, unknowns)]
    clf = quick().fit(more[0], y)
    assert np.mean(clf.candidate(more[1]) == y_known) > 0.9
    if value == 0.0:
        plain = fit_once(quick(), X, y)
        np.testing.assert_allclose(clf.unknown_score(more[2]), plain.unknown_score(unknowns), atol=1e-7)


def test_duplicate_samples_and_identical_classes_are_survived():
    X = np.repeat(np.random.default_rng(0).standard_normal((3, 6)), 10, axis=0)
    clf = quick().fit(X, np.repeat([0, 1, 2], 10))
    assert np.isfinite(clf.unknown_score(X)).all()
    same = np.tile(X[:1], (30, 1))
    for rule in ("calibrated", "paper", "matched"):
        scores = quick(rule=rule).fit(same, np.repeat([0, 1, 2], 10)).unknown_score(X)
        assert ((scores >= 0) & (scores <= 1)).all()


def test_one_feature_is_enough_to_run():
    """All samples are one direction or its negative, and a code may be negative: nothing to tell classes by."""
    X = np.array([[1.0], [2.0], [-1.0], [-3.0]] * 6)
    clf = quick().fit(X, np.tile([0, 0, 1, 1], 6))
    assert np.isfinite(clf.unknown_score([[5.0], [-5.0]])).all()


def test_a_single_class_raises():
    with pytest.raises(ValueError, match="class"):
        quick().fit(np.eye(4), np.zeros(4))


@pytest.mark.parametrize(
    "method", ["predict", "unknown_score", "log_p_value", "candidate", "class_scores", "evidence", "encode"]
)
def test_before_fit_every_method_says_so(method):
    with pytest.raises(NotFittedError):
        getattr(SROSRClassifier(), method)(np.eye(3))


def test_a_threshold_before_fit_raises():
    with pytest.raises(NotFittedError):
        SROSRClassifier().set_threshold(0.5)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("problem", 0.1),
        ("kernel", "gaussian"),
        ("normalize", "unit"),
        ("n_repeats", 0),
        ("n_repeats", 2.5),
        ("n_repeats", True),
        ("holdout", 0.0),
        ("holdout", 1.0),
        ("tail_size", 0.0),
        ("tail_size", 1.5),
        ("tail_size", "large"),
        ("tail_size", np.nan),
        ("rule", "best"),
        ("openness", 1.0),
        ("openness", -0.1),
        ("openness", np.nan),
        ("weight", -1.0),
        ("weight", np.inf),
        ("weight", "a third"),
        ("threshold", 1.2),
        ("threshold", -0.1),
        ("threshold", np.nan),
        ("threshold", "accuracy"),
        ("threshold", True),
        ("target_rejection", 0.0),
        ("target_rejection", 1.0),
        ("calibration", "none"),
        ("calibration_size", 0.0),
        ("risk_weight", 0.0),
        ("risk_weight", -2.0),
        ("n_jobs", 0),
    ],
)
def test_bad_parameters_raise_in_fit_by_name(world, parameter, value):
    X, y, *_ = world
    with pytest.raises(ValueError, match=parameter):
        SROSRClassifier(**(SEEDED | {"kernel": "rbf"} | {parameter: value})).fit(X, y)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.full((4, 2), np.nan), [0, 0, 1, 1]),
        (np.empty((0, 2)), []),
        (np.ones(4), [0, 0, 1, 1]),
        (np.eye(4), [0, 1]),
        (np.eye(4), [0.1, 0.2, 0.35, 0.4]),
        (np.eye(4), None),
        (np.eye(4), np.array([0, "a", 1, "b"], dtype=object)),
    ],
    ids=["nan", "empty", "1-d", "label count", "continuous labels", "no labels", "labels of two kinds"],
)
def test_bad_training_data_raise(X, y):
    with pytest.raises(ValueError):
        quick().fit(X, y)


# --- few samples --------------------------------------------------------------------------------


def test_classes_of_one_to_nine_samples_work():
    world = World(1, n_known=9)
    X, y = world.known(range(1, 10))
    clf = quick(n_repeats=4).fit(X, y)
    assert clf.pooled_.all()
    X_known, y_known = world.fresh(100)
    scores = clf.unknown_score(np.vstack([X_known, world.unknowns(100)]))
    assert roc_auc_score(np.repeat([0, 1], 100), scores) > 0.7
    said = clf.predict(X_known)
    assert np.mean((said == y_known) | (said == -1)) > 0.8


@pytest.mark.parametrize("rule", ["calibrated", "paper"])
def test_classes_of_very_different_size_keep_their_own_tails_where_they_can(rule):
    X, y = World(2, n_known=5).known((1, 2, 9, 10, 60))
    clf = quick(rule=rule).fit(X, y)
    np.testing.assert_array_equal(clf.pooled_, [True, True, True, False, False])
    tails = clf.calibration_.tails.matched
    assert tails[0] == tails[1] == tails[2]
    assert tails[3] != tails[0] and tails[4] != tails[0]


def test_one_sample_of_each_of_thirty_classes_works_and_warns():
    world = World(3, n_known=30, n_unknown=10, n_features=60, n_directions=2, noise=0.1)
    X, y = world.known(1)
    with pytest.warns(CalibrationWarning, match="hold out"):
        clf = quick().fit(X, y)
    assert clf.calibration_.tails is None
    X_known, y_known = world.fresh(100)
    said = clf.predict(X_known)
    assert np.mean(clf.candidate(X_known) == y_known) > 0.6
    assert np.mean(clf.predict(X) == y) > 0.9, "it does not even know its own samples"
    assert np.mean(said[said != -1] == y_known[said != -1]) > 0.6
    assert np.mean(clf.predict(world.unknowns(100)) == -1) > 0.6
    for rule in ("paper", "matched"):
        with pytest.raises(ValueError, match="rule"):
            quick(rule=rule).fit(X, y)


def test_two_classes_of_one_sample_leave_nothing_to_learn_from():
    with pytest.raises(ValueError, match="one sample"):
        quick().fit(np.eye(2), [0, 1])


@pytest.mark.parametrize("sizes", [(2, 2), (1, 2), (1, 5), (3, 1, 1), (2, 2, 2), (1, 1, 1), (1, 1, 1, 4)], ids=str)
@pytest.mark.parametrize("n_repeats", slow_except([1, 5], [1, 2, 5]))
def test_a_handful_of_samples_works_and_warns(sizes, n_repeats):
    for seed in range(3):
        X, y = World(seed, n_known=len(sizes)).known(sizes)
        with pytest.warns(CalibrationWarning, match="target_rejection"):
            clf = quick(n_repeats=n_repeats, random_state=seed).fit(X, y)
        assert np.isfinite(clf.unknown_score(X)).all()
        assert 0 <= clf.threshold_ <= 1
        np.testing.assert_array_equal(clf.candidate(X), y)


def test_two_classes_of_many_samples_need_no_simulation(world):
    X, y, X_known, y_known, unknowns = world
    two = y < 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = quick().fit(X[two], y[two])
    assert len(clf.calibration_.simulated) == 0
    assert np.mean(clf.predict(X_known[y_known < 2]) == y_known[y_known < 2]) > 0.8
    assert np.mean(clf.predict(unknowns) == -1) > 0.5
    with pytest.raises(ValueError, match="three classes"):
        clf.set_threshold("youden")


def test_enough_samples_give_no_warning(world):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick().fit(*world[:2])


@pytest.mark.parametrize("sizes", [(2,) * 12, (1,) * 20, (1, 1, 60, 1)], ids=str)
def test_an_empty_calibration_split_does_not_pass_for_a_guarantee(sizes):
    """A quarter of two samples is none. What was asked for is a guarantee: silence would claim it."""
    X, y = World(5, n_known=len(sizes)).known(sizes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = quick(calibration="split").fit(X, y)
    if clf.threshold_info_.kind != "conformal":
        assert any(issubclass(w.category, CalibrationWarning) for w in caught)


def test_a_class_that_vanishes_from_a_fold_does_not_break_cross_validation():
    X, y = World(6).known((30, 30, 30, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, on the class of one sample
        scores = cross_val_score(quick(), X, y, cv=3)
    assert np.isfinite(scores).all() and scores.min() > 0.6


# --- thresholds after fit -------------------------------------------------------------------------


CHOICES = [
    {"target_rejection": 0.2},
    {"target_rejection": 0.2, "per_class": True},
    {"threshold": "youden"},
    {"threshold": "f"},
    {"threshold": "risk"},
    {"threshold": "risk", "risk_weight": 5.0},
    {"threshold": 0.7},
    {"threshold": 0},
]
QUICK = [*product(CHOICES, ["cross"]), *product(CHOICES[:3], ["split"])]


@pytest.mark.parametrize(("choice", "calibration"), slow_except(QUICK, product(CHOICES, ["cross", "split"])), ids=str)
def test_a_threshold_set_after_fit_is_the_one_a_fit_would_have_chosen(small_world, choice, calibration):
    X, y, X_known, _, unknowns = small_world
    X_test = np.vstack([X_known, unknowns])
    common = {"calibration": calibration, "calibration_size": 0.4}
    later = fit_once(quick(**common, target_rejection=0.1), X, y)
    scores, learned = later.unknown_score(X_test), later.calibration_
    assert later.set_threshold(**choice) is later
    assert later.calibration_ is learned
    np.testing.assert_array_equal(later.unknown_score(X_test), scores)
    at_once = quick(**common, **choice).fit(X, y)
    check_same(later.threshold_, at_once.threshold_)
    assert later.threshold_info_.detail == at_once.threshold_info_.detail
    check_same_model(later, at_once, X_test)


def test_without_arguments_the_constructors_choice_comes_back(world):
    clf = quick(threshold="youden").fit(*world[:2])
    first = clf.threshold_
    clf.set_threshold(target_rejection=0.3)
    assert clf.threshold_ != first
    assert clf.set_threshold().threshold_ == first


@pytest.mark.parametrize(
    "choice",
    [
        {"threshold": 0.5, "target_rejection": 0.1},
        {"threshold": 1.5},
        {"threshold": -1},
        {"threshold": np.nan},
        {"threshold": "best"},
        {"threshold": True},
        {"target_rejection": 0},
        {"target_rejection": 1},
        {"target_rejection": "0.1"},
        {"threshold": "risk", "risk_weight": -1.0},
        {"threshold": "risk", "risk_weight": np.nan},
    ],
    ids=str,
)
def test_a_bad_choice_of_threshold_raises_and_leaves_the_model_as_it_was(fitted, world, choice):
    clf = copy.deepcopy(fitted)
    before, said = dict(vars(clf)), clf.predict(world[2])
    with pytest.raises(ValueError, match=r"threshold|target_rejection|risk_weight"):
        clf.set_threshold(**choice)
    assert vars(clf).keys() == before.keys()
    assert all(vars(clf)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(clf.predict(world[2]), said)


def test_a_higher_threshold_never_rejects_more(world):
    X, y, X_known, _, unknowns = world
    clf = fit_once(quick(), X, y)
    X_test = np.vstack([X_known, unknowns])
    rejected = [np.sum(clf.set_threshold(c).predict(X_test) == -1) for c in np.linspace(0, 1, 21)]
    assert (np.diff(rejected) <= 0).all()
    assert rejected[-1] == 0


# --- reproducible -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters", [{}, {"rule": "paper"}, {"kernel": "rbf"}, {"problem": BPDN(0.05)}, {"calibration": "split"}], ids=str
)
def test_threads_do_not_change_the_result(small_world, parameters):
    X, y, X_known, _, unknowns = small_world
    X_test = np.vstack([X_known, unknowns])
    one, two = (quick(**parameters, n_jobs=n).fit(X, y) for n in (1, 2))
    check_same_model(one, two, X_test)
    check_same(one.log_p_value(X_test), two.log_p_value(X_test))
    check_same(one.evidence_weights_, two.evidence_weights_)


def test_the_seed_reproduces_every_bit_and_another_seed_does_not(world):
    X, y, X_known, *_ = world
    a, b, c = (quick(random_state=seed).fit(X, y) for seed in (5, 5, 6))
    np.testing.assert_array_equal(a.unknown_score(X_known), b.unknown_score(X_known))
    np.testing.assert_array_equal(a.calibration_.known.sample, b.calibration_.known.sample)
    assert a.threshold_ == b.threshold_
    assert (a.unknown_score(X_known) != c.unknown_score(X_known)).any()


def test_refitting_forgets_the_first_fit(world):
    X, y, X_known, *_ = world
    clf = quick(calibration="split", target_rejection=0.1).fit(X[y < 3, :9], y[y < 3] + 5).set_threshold(0.1)
    clf.set_params(calibration="cross").fit(X, y)
    fresh = fit_once(quick(target_rejection=0.1), X, y)
    check_same(clf.unknown_score(X_known), fresh.unknown_score(X_known))
    check_same(clf.threshold_, fresh.threshold_)


def test_fit_leaves_parameters_and_data_alone(world):
    X, y = world[0].copy(), world[1].copy()
    clf = SROSRClassifier(**SEEDED)
    before = clf.get_params()
    clf.fit(X, y)
    assert clf.get_params() == before
    np.testing.assert_array_equal(X, world[0])
    assert clf.problem_ == Lasso(0.02)


def test_single_precision_gives_nearly_the_same_scores(world):
    X, y, X_known, *_ = world
    wide = fit_once(quick(), X, y).unknown_score(X_known)
    narrow = quick().fit(X.astype(np.float32), y).unknown_score(X_known.astype(np.float32))
    np.testing.assert_allclose(narrow, wide, atol=1e-3)


# --- kernels and tools --------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", ["cross", "split"])
def test_precomputed_similarities_agree_with_the_linear_kernel(world, calibration):
    X, y, X_known, _, unknowns = world
    shuffle = np.random.default_rng(0).permutation(len(y))
    X, y = X[shuffle], y[shuffle]
    X_test = np.vstack([X_known, unknowns])
    # Evidence on standardized columns, which the fused class score has too, needs features.
    kinds = [name for name in EVIDENCE if not name.startswith(("standardized", "fused"))]
    settings = {
        "calibration": calibration, "target_rejection": 0.1, "evidence_kinds": kinds, "label_by": "residual",
    }  # fmt: skip
    direct = quick(**settings).fit(X, y)
    given = quick(kernel="precomputed", **settings).fit(X @ X.T, y)
    kept = np.sort(given.dictionary_.order) if calibration == "cross" else _kept(X, direct)
    queries = Queries(X_test @ X[kept].T, (X_test**2).sum(axis=1))
    np.testing.assert_allclose(given.unknown_score(queries), direct.unknown_score(X_test), atol=1e-6)
    np.testing.assert_allclose(given.thresholds_, direct.thresholds_, atol=1e-6)
    np.testing.assert_array_equal(given.candidate(queries), direct.candidate(X_test))


def _kept(X, clf):
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    return np.sort([int(np.argmin(np.abs(unit - atom).sum(axis=1))) for atom in clf.dictionary_.linear_atoms])


def test_precomputed_similarities_of_an_rbf_kernel_agree_with_it(world):
    from sklearn.metrics.pairwise import rbf_kernel

    X, y, X_known, *_ = world
    kinds = [name for name in EVIDENCE if not name.startswith(("standardized", "fused"))]
    direct = quick(kernel="rbf", gamma=0.02, evidence_kinds=kinds).fit(X, y)
    given = quick(kernel="precomputed", evidence_kinds=kinds).fit(rbf_kernel(X, gamma=0.02), y)
    queries = Queries(rbf_kernel(X_known, X, gamma=0.02), np.ones(len(X_known)))
    np.testing.assert_allclose(given.unknown_score(queries), direct.unknown_score(X_known), atol=1e-6)


def test_works_in_a_pipeline_and_in_cross_validation(world):
    X, y, X_known, y_known, unknowns = world
    pipeline = make_pipeline(StandardScaler(), quick()).fit(X, y)
    assert pipeline.score(X_known, y_known) > 0.8
    assert np.mean(pipeline.predict(unknowns) == -1) > 0.5
    assert cross_val_score(pipeline, X, y, cv=2).min() > 0.6


def test_grid_search_over_problems_rules_and_targets(world):
    X, y, X_known, y_known, _ = world
    grid = [{"problem": [Lasso(0.9), Lasso(0.05)], "rule": ["matched"]}, {"target_rejection": [0.05, 0.5]}]
    search = GridSearchCV(quick(n_repeats=1), grid, cv=2).fit(X, y)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.best_params_.get("target_rejection") != 0.5
    assert search.best_params_.get("problem") != Lasso(0.9)
    assert search.score(X_known, y_known) > 0.8


def test_clone_keeps_every_parameter():
    clf = SROSRClassifier(
        BPDN(0.3), kernel="poly", gamma=0.5, degree=2, coef0=2.0, normalize="feature", atoms=0.5, n_repeats=7,
        holdout=0.3, max_codings=300, tail_size="auto", rule="paper", label_by="residual",
        evidence_kinds=("matched",), openness=0.2, weight=0.4, threshold="f", target_rejection=0.1, per_class=True,
        calibration="split", calibration_size=0.5, risk_weight=3.0, unknown_label="?", n_jobs=2, device="auto",
        random_state=4, verbose=True,
    )  # fmt: skip
    assert clone(clf).get_params() == clf.get_params()
    assert set(clf.get_params()) == set(SROSRClassifier().get_params())
    assert not [name for name, value in clf.get_params().items() if value == SROSRClassifier().get_params()[name]]


def test_pandas_columns_are_remembered_and_others_raise(world):
    X, y, X_known, *_ = world
    names = [f"feature {i}" for i in range(20)]
    clf = quick().fit(pd.DataFrame(X, columns=names), pd.Series(y))
    assert list(clf.feature_names_in_) == names
    assert clf.n_features_in_ == 20
    plain = fit_once(quick(), X, y).unknown_score(X_known)
    check_same(clf.unknown_score(pd.DataFrame(X_known, columns=names)), plain)
    for wrong in (names[::-1], [*names[:-1], "never seen"]):
        with pytest.raises(ValueError, match="feature names"):
            clf.predict(pd.DataFrame(X_known, columns=wrong))
    with pytest.raises(ValueError, match="features"):
        clf.predict(X_known[:, :5])


def test_a_progress_bar_is_shown_where_asked_for_and_nowhere_else(world, capsys):
    plain = quick().fit(*world[:2])
    silent = capsys.readouterr()
    assert silent.out == silent.err == ""
    shown = quick(verbose=True).fit(*world[:2])
    check_same_model(shown, plain, world[2])


def test_a_refit_that_fails_leaves_the_fitted_model_as_it_was():
    X, y = World(0).known(12)
    clf = fit_once(quick(), X, y)
    before = clf.unknown_score(X)
    for bad in ((X[:, :3], np.zeros(len(X))), (X[:, :3], np.full(len(X), "a")), (X * np.nan, y)):
        with pytest.raises(ValueError):
            clf.fit(*bad)
        np.testing.assert_array_equal(clf.unknown_score(X), before)


@pytest.mark.parametrize("labels", [np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"), [1j, 2j]])
def test_labels_that_are_neither_numbers_nor_text_raise(labels):
    X, y = World(0).known(6)
    with pytest.raises(ValueError):
        quick().fit(X, np.asarray(labels)[y % 2])


def test_rounding_is_not_taken_for_evidence():
    """Clusters so tight that what other classes add is rounding: it must not be measured in its own deviations."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 20))
    X, y = np.repeat(centers, 10, axis=0) + 1e-3 * rng.normal(size=(40, 20)), np.repeat(np.arange(4), 10)
    clf = quick(random_state=0).fit(X, y)
    assert np.abs(clf.calibration_.rule.fusion.standardize(clf.calibration_.held_out.values)).max() < 50


def test_the_score_of_samples_of_unknown_classes_is_for_rejecting_them(world):
    X, y, X_known, y_known, unknowns = world
    clf = fit_once(quick(), X, y)
    both, labels = np.concatenate([X_known, unknowns]), np.concatenate([y_known, np.full(len(unknowns), 99)])
    said = clf.predict(both)
    right = np.where(labels == 99, said == -1, said == labels)
    assert clf.score(both, labels) == pytest.approx(right.mean())

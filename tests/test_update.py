"""More samples of known classes join a model without a refit: what stays, what is learned, how a refit differs."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from fitted import fit_once
from same import check_same_model
from scale import slow_except
from sklearn.datasets import load_digits

import srosr
from srosr import CalibrationWarning, KMeansAtoms, Queries, SelectAtoms, SROSRClassifier
from srosr.classifiers.class_changes import find_newest
from srosr.evidence.ridge import RidgeRegression
from srosr.scoring import cross_fitting

REPEATS = 6
PARAMETERS = [
    {}, {"rule": "paper"}, {"calibration": "split"}, {"label_by": "residual"}, {"kernel": "rbf"}, {"atoms": 0.3},
    {"atoms": SelectAtoms(0.4)}, {"atoms": KMeansAtoms(0.3), "calibration": "split"},
]  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    """Return samples of six digits for a fit, more of them, and test samples of all ten."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    known = y < 6
    return (
        (X[:600][known[:600]], y[:600][known[:600]]),
        (X[600:750][known[600:750]], y[600:750][known[600:750]]),
        (
            X[750:],
            y[750:],
        ),
    )


@pytest.fixture(scope="module", autouse=True)
def few_folds(request):
    """Hold every sample out once as known and once with classes left out; with --slow several times, as so few are."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.getoption("--slow"):
            patch.setattr(cross_fitting, "MOST_REPEATS", 1)
            patch.setattr(cross_fitting, "ROTATIONS", 1)
        yield


def fitted(digits, **parameters):
    return fit_once(SROSRClassifier(n_repeats=REPEATS, random_state=0, **parameters), *digits[0])


@pytest.fixture(scope="module")
def model(digits):
    return fitted(digits)


@pytest.mark.parametrize(
    "parameters",
    slow_except([one for one in PARAMETERS if one not in ({"rule": "paper"}, {"atoms": 0.3})], PARAMETERS),
    ids=str,
)
def test_an_updated_model_answers_nearly_as_a_refit_and_survives_a_file(digits, parameters, tmp_path):
    (X, y), (more, more_y), (X_test, y_test) = digits
    clf = fitted(digits, **parameters).update(more, more_y)
    refit = SROSRClassifier(n_repeats=REPEATS, random_state=0, **parameters).fit(
        np.concatenate([X, more]), np.concatenate([y, more_y])
    )
    is_small = "atoms" in parameters
    assert (clf.predict(X_test) == refit.predict(X_test)).mean() > (0.92 if is_small else 0.95)
    known = X_test[y_test < 6]
    assert (clf.candidate(known) == refit.candidate(known)).mean() > 0.97
    assert clf._n_rows == refit._n_rows == len(y) + len(more_y)
    np.testing.assert_array_equal(clf._count_samples().sum(), refit._count_samples().sum())
    clf.save(tmp_path / "m")
    again = srosr.load(tmp_path / "m")
    assert again.threshold_ == clf.threshold_
    check_same_model(again, clf, X_test)
    again.update(more[:20], more_y[:20])


def test_new_samples_become_atoms_after_the_others_and_point_to_their_rows(model, digits):
    (X, y), (more, more_y), _ = digits
    clf = copy.copy(model).update(more, more_y)
    rows = clf.training_rows_[clf.dictionary_.order]
    everything, labels = np.concatenate([X, more]), np.concatenate([y, more_y])
    unit = everything / np.linalg.norm(everything, axis=1, keepdims=True)
    np.testing.assert_allclose(clf.dictionary_.rows, unit[rows], atol=1e-12)
    np.testing.assert_array_equal(clf.dictionary_.labels, labels[rows])


def test_only_new_samples_are_coded_and_each_once(model, digits, monkeypatch):
    import srosr.scoring.cross_test as cross_test

    more, more_y = digits[1]
    coded = []
    encode = cross_test.sparse_encode
    monkeypatch.setattr(cross_test, "sparse_encode", lambda q, *a, **k: coded.append(len(q)) or encode(q, *a, **k))
    clf = copy.copy(model).update(more, more_y)
    assert sum(coded) == len(more)
    old, new = model.calibration_.held_out, clf.calibration_.held_out
    assert len(new) == len(old) + len(more)
    # Each new sample is scored as its own class, without itself: no residual is zero.
    added = new[len(old) :]
    np.testing.assert_array_equal(clf.dictionary_.class_of[added.sample], added.truth)
    assert added.matched.min() > 0.01


def test_held_out_scores_of_new_samples_are_those_of_a_model_without_them(model, digits):
    """One new sample at a time: its held-out evidence is what the model that never saw it says."""
    more, more_y = digits[1]
    clf = copy.copy(model).update(more[:1], more_y[:1])
    added = clf.calibration_.held_out[len(model.calibration_.held_out) :]
    # The similarities' width, and the scales of columns, are those of the larger dictionary: not equal to the bit.
    expected = model._gather_evidence(more[:1])
    np.testing.assert_allclose(added.matched, expected.residuals[0, more_y[0]], rtol=1e-6)
    np.testing.assert_allclose(added.values[:, :5], expected.values[:, :5], rtol=1e-5, atol=1e-8)
    assert np.abs(added.values - expected.values).max() < 0.05


def test_the_newest_samples_of_each_class_are_kept(model, digits):
    (_, y), (more, more_y), (X_test, _) = digits
    clf = copy.copy(model).update(more, more_y, keep=50)
    rows = clf.training_rows_[clf.dictionary_.order]
    labels = np.concatenate([y, more_y])
    for k in range(6):
        newest = np.flatnonzero(labels == k)[-50:]
        np.testing.assert_array_equal(np.sort(rows[clf.dictionary_.labels == k]), newest)
    held_out = clf.calibration_.held_out
    assert len(np.unique(held_out.sample)) == clf.dictionary_.n_atoms == 300
    np.testing.assert_array_equal(clf.dictionary_.class_of[held_out.sample], held_out.truth)
    assert (clf.predict(X_test) == model.predict(X_test)).mean() > 0.9


def test_only_classes_with_new_samples_forget_old_ones(model, digits):
    more, more_y = digits[1]
    clf = copy.copy(model).update(more[more_y == 2], 2 * np.ones((more_y == 2).sum(), int), keep=10)
    sizes = np.bincount(clf.dictionary_.class_of)
    assert sizes[2] == 10 and (np.delete(sizes, 2) == np.delete(np.bincount(model.dictionary_.class_of), 2)).all()


def test_a_calibration_split_grows_with_its_share_and_forgets_with_the_others(digits):
    more, more_y = digits[1]
    clf = fitted(digits, calibration="split")
    n = len(clf._calibration_samples)
    clf.update(more, more_y)
    added = len(clf._calibration_samples) - n
    assert abs(added - 0.25 * len(more)) <= 6 and clf.threshold_info_.kind == "conformal"
    assert clf.dictionary_.n_atoms + len(clf._calibration_samples) == clf._n_rows
    clf.update(more[:60], more_y[:60], keep=30)
    assert set(np.bincount(clf.dictionary_.class_of)) == {30}
    assert set(np.bincount(clf._calibration_labels)) == {10}


def test_newest_are_by_number_within_each_class():
    numbers, class_of = np.array([5, 1, 9, 2, 7]), np.array([0, 0, 0, 1, 1])
    assert find_newest(numbers, class_of, np.array([0]), 2).tolist() == [True, False, True, True, True]
    assert find_newest(numbers, class_of, np.array([0, 1]), 1).tolist() == [False, False, True, False, True]
    assert find_newest(numbers, class_of, np.array([1]), 9).all()


def test_part_of_the_inverse_serves_as_well_as_all_of_it():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((30, 4))
    similar = np.exp(-((points[:, None] - points) ** 2).sum(axis=2))
    membership = np.eye(3)[rng.integers(0, 3, 30)]
    atoms = np.array([2, 5, 11, 12, 29])
    whole = RidgeRegression(similar.copy(), membership, 0.1).hold_out()
    part = RidgeRegression(similar.copy(), membership, 0.1).hold_out(atoms)
    left_out = np.array([5, 12, 29])
    for a, b in zip(whole.score(left_out), part.score(left_out), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    # And both are those of a regression without the atoms.
    stay = np.delete(np.arange(30), left_out)
    inner = similar[np.ix_(stay, stay)] + 0.1 * np.eye(27)
    expected = similar[np.ix_(left_out, stay)] @ np.linalg.solve(inner, membership[stay])
    np.testing.assert_allclose(part.score(left_out)[0], expected, rtol=1e-8)


def test_text_labels_stay_text(digits):
    (X, y), (more, more_y), _ = digits
    names = np.array(["zero", "one", "two", "three", "four", "five"])
    clf = SROSRClassifier(n_repeats=3, random_state=0).fit(X, names[y]).update(more, names[more_y].astype(object))
    assert clf.classes_.dtype.kind == "U" and clf.dictionary_.labels.dtype.kind == "U"
    with pytest.raises(ValueError, match=r"class 'zerro', which the model does not know \(did you mean 'zero'\?\)"):
        clf.update(more[:1], ["zerro"])


@pytest.mark.parametrize(
    ("X", "y", "keep", "message"),
    [
        (np.ones((2, 64)), [0, 7], None, "y has the class 7, which the model does not know: add it with add_class"),
        (np.ones((2, 64)), [0], None, "y must have one label for each of the 2 samples"),
        (np.ones((2, 63)), [0, 1], None, "63 features"),
        (np.full((2, 64), np.nan), [0, 1], None, "NaN"),
        (np.zeros((2, 64)), [0, 1], None, "all samples are zero"),
        (np.empty((0, 64)), [], None, "0 sample"),
        (np.ones((2, 64)), [0, 1], 0, "keep must be a positive integer"),
        (np.ones((2, 64)), ["0", "1"], None, "y has the class '0'"),
        (Queries(np.ones((2, 9)), np.ones(2)), [0, 1], None, "X must hold features"),
    ],
)
def test_bad_input_is_one_sentence_and_the_model_is_as_before(model, X, y, keep, message):
    before = vars(model).copy()
    with pytest.raises(ValueError, match=message) as error:
        model.update(X, y, keep=keep)
    assert "\n" not in str(error.value) or "NaN" in message, "that message is scikit-learn's"
    assert vars(model) == before


def test_a_small_dictionary_cannot_forget(digits):
    clf = fitted(digits, **PARAMETERS[6])
    with pytest.raises(ValueError, match="keeps no samples, only atoms"):
        clf.update(*digits[1], keep=10)


def test_a_failure_in_the_middle_leaves_the_model_as_it_was(model, digits, monkeypatch):
    clf = copy.copy(model)
    before = vars(clf).copy()

    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(SROSRClassifier, "set_threshold", fail)
    with pytest.raises(KeyboardInterrupt):
        clf.update(*digits[1])
    assert vars(clf) == before


def test_a_threshold_that_was_set_is_chosen_again_in_the_same_way(model, digits):
    clf = copy.copy(model)
    clf.set_threshold(target_rejection=0.1)
    clf.update(*digits[1])
    assert "0.1 of known samples" in clf.threshold_info_.detail
    clf.set_threshold(0.9)
    assert clf.update(*digits[1]).threshold_ == 0.9


def test_a_class_of_one_sample_gets_its_first_held_out_score(digits):
    (X, y), _, _ = digits
    few = np.concatenate([np.flatnonzero(y < 3), np.flatnonzero(y == 3)[:1]])
    with pytest.warns(CalibrationWarning):
        clf = SROSRClassifier(n_repeats=3, random_state=0).fit(X[few], y[few])
    assert 3 not in clf.calibration_.held_out.truth
    clf.update(X[y == 3][1:30], y[y == 3][1:30])
    assert (clf.calibration_.held_out.truth == 3).sum() == 29


def test_samples_that_calibrate_the_model_are_not_learned(digits):
    _, (more, more_y), _ = digits
    clf = fitted(digits).recalibrate(more[:60], more_y[:60])
    with pytest.raises(ValueError, match="60 of 60 samples calibrate the model"):
        clf.update(more[:60], more_y[:60])
    clf.update(more[60:], more_y[60:])


def test_samples_that_are_atoms_already_do_not_calibrate(digits):
    (X, y), _, _ = digits
    clf = fitted(digits, calibration="split")
    rows = clf.training_rows_
    before = len(clf._calibration_samples)
    with pytest.warns(CalibrationWarning, match="samples are atoms of the model already"):
        clf.update(X[rows], y[rows])
    assert len(clf._calibration_samples) == before


def test_labels_that_a_float_cannot_tell_apart_are_told_apart(digits):
    (X, y), (more, more_y), _ = digits
    names = 2**60 + np.arange(6)
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X, names[y])
    clf.update(more, names[more_y].astype(np.uint64))
    counts = np.bincount(y, minlength=6) + np.bincount(more_y, minlength=6)
    np.testing.assert_array_equal(clf._count_samples(), counts)


def test_keep_leaves_the_samples_of_a_recalibration(digits):
    _, (more, more_y), _ = digits
    clf = fitted(digits).recalibrate(more[:60], more_y[:60])
    clf.update(more[60:], more_y[60:], keep=8)
    assert len(clf._calibration_samples) >= 60

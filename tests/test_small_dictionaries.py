"""Small dictionaries in the recognizer: atoms are few, class scores and calibration use all samples."""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pandas as pd
import pytest
from command_runs import QUICK, error_of, right
from same import check_same, check_same_model
from scale import slow_except
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import srosr
from srosr import SROSRClassifier
from srosr.atoms.kmeans_atoms import KMeansAtoms
from srosr.atoms.learn_atoms import LearnAtoms
from srosr.atoms.random_atoms import RandomAtoms
from srosr.atoms.select_atoms import SelectAtoms
from srosr.evidence import landmark_scores
from srosr.evidence.landmark_scores import LandmarkScorer
from srosr.inspection.model_summary import summarize_model
from srosr.scoring import cross_fitting

PIXELS, DIGIT = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(DIGIT))  # in the order of the file later digits are by other writers
PIXELS, DIGIT = PIXELS[ORDER], DIGIT[ORDER]
KNOWN = np.flatnonzero(DIGIT[:900] < 6)
X, Y = PIXELS[KNOWN], DIGIT[KNOWN]
NEW, TRUTH = PIXELS[900:1400], DIGIT[900:1400]
UNKNOWN = TRUTH >= 6

REPEATS, ROTATIONS = cross_fitting.MOST_REPEATS, cross_fitting.ROTATIONS
# For models of which only the atoms matter: no class score but the residual, no evidence but that of the code.
CODES_ALONE = {"label_by": "residual", "evidence_kinds": ["concentration"]}


def fit(atoms, **options):
    return SROSRClassifier(atoms=atoms, random_state=0, **options).fit(X, Y)


@pytest.fixture(scope="module", autouse=True)
def few_folds(request):
    """Hold every sample out once as known and once with classes left out; with --slow several times, as so few are."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.getoption("--slow"):
            patch.setattr(cross_fitting, "MOST_REPEATS", 1)
            patch.setattr(cross_fitting, "ROTATIONS", 1)
        yield


@pytest.fixture(scope="module")
def selected():
    return fit(SelectAtoms(0.2, random_state=0))


@pytest.fixture(scope="module")
def learned():
    return fit(KMeansAtoms(0.2, random_state=0))


@pytest.fixture(scope="module")
def whole():
    return fit(None, n_repeats=10)


def area(clf):
    return roc_auc_score(UNKNOWN, clf.unknown_score(NEW))


@pytest.mark.parametrize("name", ["selected", "learned"])
def test_a_fifth_of_the_atoms_recognizes_nearly_as_well_as_all(name, whole, request):
    clf = request.getfixturevalue(name)
    assert clf.dictionary_.n_atoms < 0.22 * len(X)
    assert isinstance(clf._scorer, LandmarkScorer) and clf._scorer.sizes.sum() == len(X)
    alone = SROSRClassifier(n_repeats=10, random_state=0).fit(clf.dictionary_.rows, clf.dictionary_.labels)
    assert area(clf) > area(whole) - 0.03
    assert area(clf) > area(alone) - 0.005, "all samples teach more than the atoms alone"
    assert np.mean(clf.candidate(NEW[~UNKNOWN]) == TRUTH[~UNKNOWN]) > 0.96


@pytest.mark.parametrize("name", ["selected", "learned"])
def test_every_sample_calibrates_once_and_none_by_atoms_it_had_a_part_in(name, request):
    clf = request.getfixturevalue(name)
    rows = clf.calibration_.held_out
    np.testing.assert_array_equal(np.sort(rows.sample), np.arange(len(X)))
    np.testing.assert_array_equal(rows.truth, np.sort(Y)[rows.sample])
    assert 0.01 < np.mean(clf.predict(NEW[~UNKNOWN]) == -1) < 0.12
    assert clf.calibration_.simulated.unknown.any()


def test_a_number_stands_for_learned_atoms_and_a_whole_number_may_be_a_float():
    share, count, floating = (fit(number, max_codings=200, **CODES_ALONE) for number in (0.1, 8, 5.0))
    assert share.learned_atoms_ and share.dictionary_.n_atoms == sum(max(1, round(0.1 * n)) for n in np.bincount(Y))
    assert count.dictionary_.n_atoms == 48 and floating.dictionary_.n_atoms == 30


def test_selected_atoms_are_the_rows_they_are_said_to_be(selected):
    rows = selected.training_rows_[selected.dictionary_.order]
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(selected.dictionary_.rows, unit[rows], atol=1e-12)
    np.testing.assert_array_equal(selected.dictionary_.labels, Y[rows])


def test_simulated_openness_is_repeated_over_few_samples(monkeypatch):
    """Other folds, other weights: with 500 samples it takes several."""
    monkeypatch.setattr(cross_fitting, "MOST_REPEATS", REPEATS)
    monkeypatch.setattr(cross_fitting, "ROTATIONS", ROTATIONS)
    rows = fit(RandomAtoms(0.2), **CODES_ALONE).calibration_.simulated
    assert 2 * len(X) < len(rows) <= 10_000


def test_all_samples_as_atoms_are_the_ordinary_recognizer():
    every, plain = fit(SelectAtoms(1.0), n_repeats=2), fit(None, n_repeats=2)
    check_same(every.unknown_score(NEW), plain.unknown_score(NEW))


@pytest.mark.parametrize("name", ["selected", "learned"])
def test_a_small_model_is_read_as_it_was_saved_and_is_small(name, whole, request, tmp_path):
    clf = request.getfixturevalue(name)
    clf.save(tmp_path / "small.srosr")
    for mode in (None, "r"):
        again = srosr.load(tmp_path / "small.srosr", mmap_mode=mode)
        check_same_model(again, clf, NEW)
        assert again.get_params()["atoms"].get_params() == clf.atoms.get_params()
        assert again.learned_atoms_ == clf.learned_atoms_ == (name == "learned")
    whole.save(tmp_path / "all.srosr")
    sizes = [(tmp_path / file).stat().st_size for file in ("small.srosr", "all.srosr")]
    assert sizes[0] < 0.9 * sizes[1], "of 64 features most of a file are tables of held-out samples"


@pytest.mark.parametrize("name", ["selected", "learned"])
def test_explanations_name_training_samples(name, request):
    clf = request.getfixturevalue(name)
    explanation = clf.explain(NEW[0])
    assert explanation.text
    for atom in explanation.atoms:
        assert Y[atom.row] == atom.label
    word = "near row" if name == "learned" else "row"
    assert word in explanation.text


@pytest.mark.parametrize(
    ("name", "saved"),
    slow_except([("selected", False), ("learned", True)], product(["selected", "learned"], [False, True])),
)
def test_classes_come_and_go(name, saved, request, tmp_path):
    request.getfixturevalue(name).save(tmp_path / "model")
    clf = srosr.load(tmp_path / "model") if saved else copy.deepcopy(request.getfixturevalue(name))
    seven = np.flatnonzero(DIGIT[:900] == 7)
    before = clf.dictionary_.n_atoms
    clf.add_class(PIXELS[seven], 7)
    added = clf.dictionary_.n_atoms - before
    assert added == max(1, round(0.2 * len(seven)))
    assert np.mean(clf.candidate(NEW[TRUTH == 7]) == 7) > 0.9
    assert np.mean(clf.predict(NEW[TRUTH == 7]) == 7) > 0.75
    known = ~UNKNOWN
    assert np.mean(clf.predict(NEW[known]) == -1) < 0.2
    for atom in clf.explain(NEW[TRUTH == 7][0]).atoms:
        if atom.label == 7:
            assert len(X) <= atom.row < len(X) + len(seven)
    clf.save(tmp_path / "grown")
    check_same_model(srosr.load(tmp_path / "grown"), clf, NEW)
    clf.remove_class(7)
    assert clf.dictionary_.n_atoms == before
    assert np.mean(clf.predict(NEW[TRUTH == 7]) == -1) > 0.6
    assert np.mean(clf.candidate(NEW[known]) == TRUTH[known]) > 0.95
    for call in (
        lambda: clf.add_class(PIXELS[seven], 7, recalibrate="all"),
        lambda: clf.remove_class(0, recalibrate="all"),
    ):
        with pytest.raises(ValueError, match="keeps its atoms alone"):
            call()


@pytest.mark.parametrize("rule", ["paper", "matched"])
def test_the_rules_of_the_paper_take_a_small_dictionary(rule):
    clf = fit(SelectAtoms(0.2), rule=rule)
    assert np.mean(clf.predict(NEW[~UNKNOWN]) == -1) < 0.15 and area(clf) > 0.8
    assert clf.evidence(NEW).notna().all(axis=None)


def test_a_split_calibration_is_kept_out_of_atoms_and_scores():
    clf = fit(SelectAtoms(0.2), calibration="split")
    assert clf.threshold_info_.kind == "conformal"
    assert clf._scorer.sizes.sum() == len(clf.calibration_.held_out) < len(X)


def test_an_object_of_the_user_finds_atoms(tmp_path):
    class FirstOnes(BaseEstimator):
        def fit_resample(self, X, y):
            self.sample_indices_ = np.concatenate([np.flatnonzero(y == k)[:6] for k in np.unique(y)])
            return X[self.sample_indices_], y[self.sample_indices_]

    clf = fit(FirstOnes())
    assert clf.dictionary_.n_atoms == 36 and area(clf) > 0.8
    clf.save(tmp_path / "m")
    again = srosr.load(tmp_path / "m")
    assert again.atoms is None
    check_same_model(again, clf, NEW)
    eight = np.flatnonzero(DIGIT[:900] == 8)[:20]
    before = vars(again).copy()
    with pytest.raises(ValueError, match=r"^atoms: what found the atoms .* set_params\(atoms=.*\), or fit again\.$"):
        again.add_class(PIXELS[eight], 8)
    assert vars(again) == before, "all samples as atoms would be another model"
    again.set_params(atoms=clf.atoms).add_class(PIXELS[eight], 8)
    clf.add_class(PIXELS[eight], 8)
    assert again.dictionary_.n_atoms == clf.dictionary_.n_atoms == 42
    check_same_model(again, clf, NEW)
    with pytest.raises(ValueError, match="atoms must be"):
        again.set_params(atoms="few").add_class(PIXELS[eight], 9)


@pytest.mark.parametrize("saved", [False, True])
def test_a_number_for_each_class_says_how_many_atoms_a_new_class_gets(saved, tmp_path):
    wanted = {0: 5, 1: 6, 2: 7, 3: 5, 4: 6, 5: 9}
    clf = fit(RandomAtoms(wanted, random_state=0), max_codings=300, **CODES_ALONE)
    if saved:
        clf.save(tmp_path / "m")
        clf = srosr.load(tmp_path / "m")
        assert clf.atoms.n_atoms == wanted
    clf.add_class(PIXELS[:900][DIGIT[:900] == 7], 7).add_class(PIXELS[:900][DIGIT[:900] == 8][:3], 8)
    clf.remove_class(2).add_class(X[Y == 2], 2)
    counts = np.bincount(clf.dictionary_.labels)
    assert counts.tolist() == [5, 6, 7, 5, 6, 9, 0, 6, 3], "the mean of 38/6, no more than samples, and as asked for"
    few = SROSRClassifier(atoms=RandomAtoms({0: 5, 1: 2}), n_repeats=2).fit(X[Y < 2], Y[Y < 2])
    with pytest.raises(ValueError, match="class 2 has 3 samples, fewer than the 4 atoms wanted"):
        few.set_params(atoms=RandomAtoms({0: 5, 1: 2, 2: 4})).add_class(X[Y == 2][:3], 2)


def test_numbers_of_atoms_by_labels_of_text_are_saved(tmp_path):
    names = np.array(["zero", "one", "two"])
    clf = SROSRClassifier(atoms=RandomAtoms({np.str_("zero"): 3, "one": np.int64(4), "two": 5}), **CODES_ALONE)
    clf.fit(X[Y < 3], names[Y[Y < 3]]).save(tmp_path / "m")
    assert srosr.load(tmp_path / "m").atoms.n_atoms == {"zero": 3, "one": 4, "two": 5}


# --- how many samples there are ---


def count_samples(clf):
    return list(summarize_model(clf).class_sizes.values())


@pytest.mark.parametrize("options", [CODES_ALONE, {}], ids=["codes alone", "all scores"])
def test_a_model_remembers_how_many_samples_each_class_has(options, tmp_path, monkeypatch):
    clf = fit(RandomAtoms(3), max_codings=300, **options)
    sizes = np.bincount(Y)
    assert (clf._scorer is None) == bool(options)
    for name in ("fitted", "grown", "shrunk"):
        if name == "grown":
            clf.add_class(PIXELS[:900][DIGIT[:900] == 7][:30], 7)
            sizes = np.append(sizes, 30)
        elif name == "shrunk":
            clf.remove_class(1)
            sizes = np.delete(sizes, 1)
        assert count_samples(clf) == sizes.tolist() and not clf.pooled_.any()
        clf.save(tmp_path / name)
        assert count_samples(srosr.load(tmp_path / name)) == sizes.tolist()
    monkeypatch.setattr(SROSRClassifier, "set_threshold", None)  # the last step
    for call in (lambda: clf.add_class(X[Y == 1], 1), lambda: clf.remove_class(7)):
        with pytest.raises(TypeError):
            call()
        assert count_samples(clf) == sizes.tolist(), "as before the error"


class Returns(BaseEstimator):
    def __init__(self, rows=None, labels=None):
        self.rows, self.labels = rows, labels

    def fit_resample(self, X, y):
        return self.rows, self.labels


@pytest.mark.parametrize(
    ("atoms", "says"),
    [
        (0, "atoms must be"),
        (-0.5, "atoms must be"),
        (1.5, "atoms must be"),
        (True, "atoms must be"),
        ("few", "atoms must be"),
        (float("nan"), "atoms must be"),
        (Returns(X[:5], Y[:5][:4]), "a label for each"),
        (Returns(X[:50, :3], Y[:50]), "64 features"),
        (Returns(X[Y == 0], Y[Y == 0]), "lost its last atom"),
        (Returns(np.vstack([X, X[:1]]), np.append(Y, 77)), "other classes"),
    ],
    ids=str,
)
def test_bad_atoms_are_rejected_in_one_sentence(atoms, says):
    with pytest.raises(ValueError, match=says) as error:
        fit(atoms)
    assert "\n" not in str(error.value)


OPPOSITE = np.array([[1.0, 0], [-1, 0], [0, 1], [0, 2], [1, 1], [2, 1]]), np.repeat([0, 1, 2], 2)


def test_a_class_whose_atoms_are_all_zero_is_an_error_about_atoms():
    samples, labels = OPPOSITE
    says = r"^atoms: class 0 would lose its last atom, because all atoms found for it are zero; .* another way\.$"
    with pytest.raises(ValueError, match=says):
        SROSRClassifier(atoms=KMeansAtoms(1)).fit(samples, labels)
    clf = fit(KMeansAtoms(1), max_codings=300, **CODES_ALONE)
    new = np.zeros((2, 64))
    new[:, 0] = [1.0, -1.0]
    with pytest.raises(ValueError, match=says.replace("class 0", "class 7")):
        clf.add_class(new, 7)


def test_a_class_whose_samples_are_all_zero_is_an_error_about_samples():
    samples, labels = OPPOSITE
    with pytest.raises(ValueError, match=r"^X: all samples of class 0 are zero"):
        SROSRClassifier(atoms=KMeansAtoms(1)).fit(samples * (labels > 0)[:, None], labels)
    with pytest.raises(ValueError, match=r"^X: all samples of class 7 are zero"):
        fit(KMeansAtoms(1), max_codings=300, **CODES_ALONE).add_class(np.zeros((3, 64)), 7)


def test_a_kernel_under_which_zero_has_a_length_takes_atoms_that_are_zero():
    samples, labels = OPPOSITE
    clf = SROSRClassifier(atoms=KMeansAtoms(1), kernel="rbf", gamma=1.0, random_state=0)
    with pytest.warns(srosr.CalibrationWarning):
        clf.fit(samples, labels)
    np.testing.assert_allclose(clf.dictionary_.rows[0], 0.0, atol=1e-15)


def test_a_precomputed_kernel_has_no_small_dictionary():
    with pytest.raises(ValueError, match="precomputed"):
        SROSRClassifier(atoms=0.5, kernel="precomputed").fit(X @ X.T, Y)


def test_the_number_of_threads_changes_no_decision(selected, monkeypatch):
    monkeypatch.setattr("srosr._support.threads.MOST_THREADS", 8)
    for n_jobs in (2, 10**9):
        check_same_model(fit(SelectAtoms(0.2, random_state=0), n_jobs=n_jobs), selected, NEW)


def test_one_sample_of_some_classes_is_enough():
    few = np.concatenate([np.flatnonzero(k == Y)[: 20 if k < 3 else 1] for k in range(6)])
    clf = SROSRClassifier(atoms=0.3, random_state=0).fit(X[few], Y[few])
    assert set(clf.dictionary_.labels) == set(range(6))
    assert area(clf) > 0.7


# --- kernels and lengths ---


def test_atoms_have_the_lengths_of_samples_that_are_not_scaled():
    scaled = fit(KMeansAtoms(5), **CODES_ALONE)
    assert np.allclose(np.linalg.norm(scaled.dictionary_.rows, axis=1), 1.0)
    for options in ({"normalize": False}, {"kernel": "rbf", "gamma": 1e-3}):
        clf = fit(KMeansAtoms(5), **CODES_ALONE, **options)
        lengths = np.linalg.norm(clf.dictionary_.rows, axis=1)
        assert lengths.min() > 0.8 * np.linalg.norm(X, axis=1).min(), options


def test_learned_atoms_serve_a_kernel_about_as_well_as_samples_do():
    options = {"kernel": "rbf", "gamma": 1e-3}
    assert area(fit(10, **options)) > area(fit(RandomAtoms(10), **options)) - 0.02 > 0.85


@pytest.mark.parametrize("kernel", slow_except(["chi2"], ["chi2", "histogram_intersection"]))
def test_learned_atoms_of_histograms_are_histograms(kernel):
    histograms = X / X.sum(axis=1, keepdims=True)
    clf = SROSRClassifier(atoms=LearnAtoms(5, max_iter=20), kernel=kernel, random_state=0)
    clf.fit(histograms, Y)
    assert clf.dictionary_.rows.min() >= 0.0
    clf.remove_class(5).add_class(histograms[Y == 5], 5)
    assert clf.dictionary_.rows.min() >= 0.0
    new = NEW / NEW.sum(axis=1, keepdims=True)
    assert roc_auc_score(UNKNOWN, clf.unknown_score(new)) > 0.8


# --- limits ---


def test_of_many_atoms_some_are_landmarks(monkeypatch):
    monkeypatch.setattr(landmark_scores, "SMALL_LANDMARKS", 40)
    monkeypatch.setattr("srosr.evidence.landmark_view.LANDMARKS_A_CLASS", 5)
    clf = fit(RandomAtoms(0.2))
    assert len(clf._scorer.view.landmarks) == 40 < clf.dictionary_.n_atoms
    assert area(clf) > 0.9


@pytest.mark.parametrize("sampler", [SelectAtoms, LearnAtoms])
def test_more_atoms_of_a_class_than_can_be_found_together_are_an_error(sampler, monkeypatch):
    monkeypatch.setattr(sampler, "most_atoms", 30)
    with pytest.raises(ValueError, match=r"asks for 4\d atoms of class \d; .*Atoms finds at most 30 of a class"):
        fit(sampler(0.5))


@pytest.mark.parametrize("seed", slow_except([1, 2], range(5)))
def test_samples_of_classes_of_two_calibrate_once_though_folds_differ_in_number(seed, monkeypatch):
    """With the seeds 1 and 2 there are first 4 folds, and then 3 or 4."""
    monkeypatch.setattr(cross_fitting, "MOST_REPEATS", 3)
    monkeypatch.setattr(cross_fitting, "ROTATIONS", ROTATIONS)
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(6, 8)), np.repeat(np.arange(3), 2)
    clf = SROSRClassifier(atoms=1, random_state=seed)
    with pytest.warns(srosr.CalibrationWarning):
        clf.fit(rows, labels)
    np.testing.assert_array_equal(np.sort(clf.calibration_.held_out.sample), np.arange(6))


# --- the command line ---


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "known.csv"
    frame = pd.DataFrame(X[:90], columns=[f"p{j}" for j in range(X.shape[1])])
    frame.assign(label=Y[:90]).to_csv(path, index=False)
    return path


def test_the_command_line_keeps_a_share_of_the_atoms(table):
    model = table.with_name("small.srosr")
    right("fit", table, "-o", model, "--atoms-per-class", "10%", *QUICK)
    counts = np.bincount(Y[:90])
    clf = srosr.load(model)
    np.testing.assert_array_equal(np.unique(clf.dictionary_.labels, return_counts=True)[1], np.rint(0.1 * counts))
    right("predict", model, table, "-o", table.with_name("out.csv"))
    assert len(pd.read_csv(table.with_name("out.csv"))) == 90


@pytest.mark.parametrize("number", ["1.0", "100%"])
def test_a_share_of_one_is_the_ordinary_recognizer_on_the_command_line(table, number):
    model = table.with_name("whole.srosr")
    right("fit", table, "-o", model, "--atoms-per-class", number, *QUICK)
    assert len(srosr.load(model).dictionary_) == 90


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("0", "--atoms-per-class 0: give a number of atoms such as 50, or a share of at most 1"),
        ("-3", "--atoms-per-class -3: give a number of atoms"),
        ("1.5", "--atoms-per-class 1.5: give a number of atoms"),
        ("many", "--atoms-per-class many: give a number of atoms"),
        ("1000", "--atoms-per-class asks for 1000 atoms of class '0', which has "),
    ],
)
def test_a_number_of_atoms_that_cannot_be_kept_is_rejected_in_one_sentence(table, number, message):
    model = table.with_name("bad.srosr")
    assert message in error_of("fit", table, "-o", model, f"--atoms-per-class={number}")
    assert not model.exists()

"""Class scores without a matrix of all atoms by all atoms: landmarks, sums of features, neighbors in blocks."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from same import check_same, check_same_model
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import srosr
from srosr import Dictionary, Queries, SROSRClassifier
from srosr._support.threads import ThreadPool, one_blas_thread
from srosr.dictionary.dictionary import wrap_queries
from srosr.evidence import class_subspaces as class_subspaces_module
from srosr.evidence import landmark_scores as landmark_scores_module
from srosr.evidence import landmark_view as landmark_view_module
from srosr.evidence.class_scores import CLASS_SCORES, ClassScorer, HoldOut
from srosr.evidence.class_subspaces import ClassSubspaces
from srosr.evidence.landmark_scores import LandmarkScorer
from srosr.evidence.landmark_view import choose_landmarks
from srosr.evidence.landmarks import LandmarkRegression, RegressionSamples, whiten
from srosr.evidence.neighbors import NearestInBlocks
from srosr.evidence.ridge import RidgeRegression
from srosr.evidence.scorer_fits import fit_scorer
from srosr.evidence.subspaces import HeldOutSubspaces, Subspaces
from srosr.evidence.table import EVIDENCE

PIXELS, DIGIT = load_digits(return_X_y=True)
NEW = PIXELS[900:960]


def make_dictionary(n=240, n_classes=4, **options):
    known = np.flatnonzero(n_classes > DIGIT)[:n]
    return Dictionary(PIXELS[known], DIGIT[known], normalize=True, **options)


def make_hold_outs(dictionary, seed=0):
    """Return one that holds samples of every class out, and one that also leaves a class out."""
    rng, class_of = np.random.default_rng(seed), dictionary.class_of
    test = np.sort(rng.choice(dictionary.n_atoms, 30, replace=False))
    gone = np.union1d(test, np.flatnonzero(class_of == 1))
    return [HoldOut(test, test, np.arange(4)), HoldOut(test, gone, np.array([0, 2, 3]))]


# -- regressions ---------------------------------------------------------------------------------------------


def test_with_all_samples_as_landmarks_the_regression_is_ridge_regression():
    rng = np.random.default_rng(0)
    rows, class_of = rng.normal(size=(90, 5)), np.repeat(np.arange(3), 30)
    similar = np.exp(-cdist(rows, rows, "sqeuclidean") / 10)
    held = np.sort(rng.choice(90, 20, replace=False))
    landmarks = LandmarkRegression(lambda which: similar[which], whiten(similar), class_of, 0.05, [held])
    exact = RidgeRegression(similar.copy(), np.eye(3)[class_of], 0.05)
    query = np.exp(-cdist(rng.normal(size=(7, 5)), rows, "sqeuclidean") / 10)
    np.testing.assert_allclose(landmarks.fit().score(query), exact.score(query), atol=1e-6)
    np.testing.assert_allclose(landmarks.fit().totals, exact.totals, rtol=1e-6, atol=1e-6)
    scores, totals = landmarks.score_held_out(0, held, np.arange(3))
    expected, expected_totals = exact.hold_out().score(held)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_allclose(totals, expected_totals, rtol=1e-6, atol=1e-6)


def test_few_landmarks_solve_the_regression_restricted_to_their_span():
    """Against a plain least squares problem with the penalty as further rows."""
    rng = np.random.default_rng(1)
    rows, class_of = rng.normal(size=(200, 3)), np.repeat(np.arange(2), 100)
    marks = rows[::20]
    to_marks, between = (np.exp(-cdist(a, marks, "sqeuclidean") / 6) for a in (rows, marks))
    fitted = LandmarkRegression(lambda which: to_marks[which], whiten(between), class_of, 0.05).fit()
    root = np.linalg.cholesky(between + 1e-13 * np.eye(10)).T
    system = np.vstack([to_marks, np.sqrt(0.05) * root])
    target = np.vstack([np.eye(2)[class_of], np.zeros((10, 2))])
    expected = np.linalg.lstsq(system, target, rcond=None)[0]
    np.testing.assert_allclose(fitted.score(to_marks), to_marks @ expected, atol=1e-6)


def test_sums_over_blocks_are_those_over_all_samples(monkeypatch):
    rng = np.random.default_rng(2)
    features, class_of = rng.normal(size=(100, 6)), np.repeat(np.arange(4), 25)
    held = np.array([3, 4, 30, 31, 99])
    once = LandmarkRegression(lambda which: features[which], None, class_of, 0.1, [held])
    monkeypatch.setattr("srosr.evidence.landmarks._BLOCK", 7)
    often = LandmarkRegression(lambda which: features[which], None, class_of, 0.1, [held])
    for a, b in zip(
        once.score_held_out(0, held, np.arange(4)), often.score_held_out(0, held, np.arange(4)), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("most", [5, 4096])
def test_classes_left_out_together_are_left_out_of_the_sums(most, monkeypatch):
    """Against regressions fitted without the samples; the features of few tests are computed once, of many twice."""
    monkeypatch.setattr("srosr.evidence.landmarks._BLOCK", most)
    monkeypatch.setattr("srosr.evidence.landmarks._PART", 3 * most)
    rng = np.random.default_rng(4)
    features, class_of = rng.normal(size=(120, 6)), np.repeat(np.arange(6), 20)
    test = np.sort(rng.choice(120, 30, replace=False))
    absent = [[], [1], [1, 4], [0, 5], [1]]
    held_out = [np.union1d(test, np.flatnonzero(np.isin(class_of, gone))) for gone in absent]
    found = LandmarkRegression(lambda which: features[which], None, class_of, 0.1, held_out)
    with ThreadPool(2) as pool:
        by_threads = LandmarkRegression(lambda which: features[which], None, class_of, 0.1, held_out, pool=pool)
    for number, (removed, gone) in enumerate(zip(held_out, absent, strict=True)):
        present, kept = np.delete(np.arange(6), gone), np.delete(np.arange(120), removed)
        scores, totals = found.score_held_out(number, test, present)
        check_same(by_threads.score_held_out(number, test, present), (scores, totals))
        members = np.searchsorted(present, class_of[kept])
        without = LandmarkRegression(lambda which, kept=kept: features[kept[which]], None, members, 0.1).fit()
        np.testing.assert_allclose(scores, without.score(features[test]), atol=1e-12)
        np.testing.assert_allclose(totals, without.totals, atol=1e-10)
        assert found.score_held_out(number, test, present, with_totals=False)[1].size == 0


def test_landmarks_are_spread_over_the_classes():
    chosen = choose_landmarks(6000, 3)
    assert len(chosen) == landmark_view_module.LANDMARKS and (np.diff(chosen) > 0).all()
    counts = np.histogram(chosen, [0, 2000, 4000, 6000])[0]
    assert counts.max() - counts.min() <= 1
    assert len(choose_landmarks(100_000, 1500)) == 3000 and len(choose_landmarks(100_000, 9000)) == 4000
    np.testing.assert_array_equal(choose_landmarks(50, 3), np.arange(50))
    # Of every class with two samples one can be tested.
    assert np.diff(choose_landmarks(4097, 2048)).min() >= 2


def test_held_out_samples_score_like_new_ones_since_none_is_a_landmark(monkeypatch):
    """A regression has a peak at each landmark, on which a held-out sample would lie and a new one does not."""
    monkeypatch.setattr(landmark_scores_module, "EXACT_ATOMS", 100)
    monkeypatch.setattr(landmark_view_module, "LANDMARKS", 150)
    known = np.random.default_rng(0).permutation(np.flatnonzero(DIGIT < 4))  # digits in file order are by other writers
    kept, rest = known[:400], known[400:]
    clf = SROSRClassifier(n_repeats=4, random_state=0).fit(PIXELS[kept], DIGIT[kept])
    landmarks = clf._scorer.view.landmarks
    assert len(landmarks) == 150
    for rows in (clf.calibration_.held_out, clf.calibration_.simulated):
        assert len(rows) and not np.isin(rows.sample, landmarks).any()
    assert len(clf.calibration_.held_out) == 250
    column = EVIDENCE.index("local")
    held_out, new = clf.calibration_.held_out.values[:, column], clf.evidence(PIXELS[rest])["local"]
    assert abs(np.mean(held_out) - np.mean(new)) < 0.25 * np.std(new)


# -- subspaces and neighbors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "options", "form"),
    [(160, {}, False), (600, {}, True), (160, {"kernel": "rbf"}, False), (160, {"kernel": "rbf"}, tuple)],
)
def test_subspaces_are_the_same_from_gram_matrices_features_and_landmarks(n, options, form, monkeypatch):
    if form is tuple:
        monkeypatch.setattr(class_subspaces_module, "MANY_IN_CLASS", 10)
        monkeypatch.setattr(class_subspaces_module, "CLASS_LANDMARKS", 30)
    dictionary = make_dictionary(n, **options)
    if form is tuple:  # every atom of its class is a landmark
        counts = np.bincount(dictionary.class_of)
        dictionary = dictionary.subset(np.concatenate([s.start + np.arange(30) for s in dictionary.class_slices]))
        assert counts.min() >= 30
    found = ClassSubspaces(dictionary)
    assert {type(how) if isinstance(how, tuple) else how for how in found._maps} == {form}
    queries = dictionary.query(NEW)
    np.testing.assert_allclose(found.measure(queries), Subspaces(dictionary).measure(queries), atol=1e-6)
    _ = dictionary.gram
    exact = HeldOutSubspaces(dictionary)
    for held in make_hold_outs(dictionary):
        np.testing.assert_allclose(found.measure_without(*held), exact.measure(*held), atol=1e-6)


def test_neighbors_in_blocks_are_those_of_all_distances():
    rng = np.random.default_rng(3)
    atoms, class_of = rng.normal(size=(50, 4)), np.repeat(np.arange(5), 10)
    samples = np.vstack([rng.normal(size=(6, 4)), atoms[:1]])
    nearest = NearestInBlocks((samples**2).sum(axis=1), 5, class_of)
    for start in range(0, 50, 7):
        tile = slice(start, min(start + 7, 50))
        without = np.array([2]) if start == 7 else None
        nearest.lower(samples @ atoms[tile].T, (atoms[tile] ** 2).sum(axis=1), tile, without)
    distances = cdist(samples, atoms)
    distances[:, 9] = np.inf
    expected = distances.reshape(7, 5, 10).min(axis=2)
    np.testing.assert_allclose(nearest.finish(), expected, atol=1e-7)
    assert nearest.finish()[6, 0] == 0.0, "a copy of an atom is at distance zero"


@pytest.mark.parametrize("normalize", [True, False])
def test_a_copy_of_an_atom_in_single_precision_is_at_distance_zero(normalize):
    kinds, known = ("residual", "nearest", "standardized_nearest"), np.flatnonzero(DIGIT < 4)[:240]
    pixels = np.random.default_rng(5).uniform(0.9, 1.1, PIXELS[known].shape) * PIXELS[known]
    rows, labels = np.vstack([pixels, pixels[:40]]).astype(np.float32), DIGIT[np.append(known, known[:40])]
    dictionary = Dictionary(rows, labels, normalize=normalize, dtype="float32")
    copies = np.flatnonzero(dictionary.order >= 240)
    held = HoldOut(copies, copies, np.arange(4))
    scorer = LandmarkScorer.fit(dictionary, kinds, [held])
    new = scorer.score(dictionary.query(rows.astype(np.float64)))
    for kind in kinds[1:]:
        for found, own in ((new, labels), (scorer.held_out[0], dictionary.class_of[copies])):
            distances = -found.by_kind[kind]
            np.testing.assert_array_equal(distances == 0.0, np.eye(4, dtype=bool)[own], err_msg=kind)


# -- all kinds together --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf", "gamma": 1.0}, {"kernel": "chi2"}], ids=str)
def test_with_every_atom_a_landmark_class_scores_are_the_exact_ones(options):
    dictionary = make_dictionary(**options)
    hold_outs, queries = make_hold_outs(dictionary), dictionary.query(NEW)
    with one_blas_thread():  # as in a fit: threads of our own, and of BLAS beside each, would wait for each other
        found = LandmarkScorer.fit(dictionary, CLASS_SCORES, hold_outs, n_threads=2)
    exact = ClassScorer(dictionary, CLASS_SCORES, hold_outs)
    batches = [(found.score(queries), exact.score(queries)), *zip(found.held_out, exact.held_out, strict=True)]
    for mine, theirs in batches:
        assert set(mine.by_kind) == set(theirs.by_kind) == set(CLASS_SCORES) - {"residual"}
        for kind, scores in theirs.by_kind.items():
            # Neighbors on standardized columns are compared in single precision.
            atol = 2e-3 if kind == "standardized_nearest" else 1e-5 * max(1.0, np.abs(scores).max())
            np.testing.assert_allclose(mine.by_kind[kind], scores, atol=atol, err_msg=kind)
        np.testing.assert_allclose(mine.background[0], theirs.background[0], rtol=1e-5, atol=1e-5)


def test_gaussian_classes_of_many_features_are_computed_from_landmarks(monkeypatch):
    dictionary = make_dictionary()
    expected = ClassScorer(dictionary, ("residual", "gaussian")).score(dictionary.query(NEW))
    monkeypatch.setattr(landmark_view_module, "MOST_FEATURES", 10)
    scorer = LandmarkScorer.fit(dictionary, ("residual", "gaussian"))
    assert scorer.regressions["gaussian"].coefficients.shape == (dictionary.n_atoms, 4)
    found = scorer.score(dictionary.query(NEW))
    np.testing.assert_allclose(found.by_kind["gaussian"], expected.by_kind["gaussian"], rtol=1e-5, atol=1e-4)


def test_regressions_can_be_fitted_to_more_samples_than_are_atoms():
    """A few atoms as landmarks and all samples in the sums classify better than the few atoms alone."""
    whole, kinds = make_dictionary(600), ("residual", "collaborative")
    few = whole.subset(np.arange(0, whole.n_atoms, 20))
    known = np.flatnonzero(DIGIT[1000:] < 4) + 1000
    by_all = LandmarkScorer.fit(few, kinds, samples=RegressionSamples(whole.rows, whole.class_of))
    right = [
        np.mean(scorer.score(few.query(PIXELS[known])).by_kind["collaborative"].argmax(axis=1) == DIGIT[known])
        for scorer in (by_all, ClassScorer(few, kinds))
    ]
    assert right[0] > right[1], right
    np.testing.assert_array_equal(by_all.sizes, np.bincount(whole.class_of))


def test_only_the_regression_of_gaussian_classes_keeps_a_matrix_of_all_classes():
    regressions = LandmarkScorer.fit(make_dictionary(), CLASS_SCORES).regressions
    assert regressions["gaussian"].totals.shape == (4, 4)
    assert (
        all(one.totals.size == 0 for kind, one in regressions.items() if kind != "gaussian") and len(regressions) == 4
    )


def test_similarities_alone_are_an_error_where_features_are_compared(monkeypatch):
    """Classes of more atoms than features, and of fewer; subspaces also of samples that are no atoms."""
    many, few = make_dictionary(400), make_dictionary(160)
    samples = RegressionSamples(many.rows, many.class_of)
    alone = {len(one): wrap_queries(one.query(NEW).cross, one.query(NEW).squared_norms) for one in (many, few)}
    needy = [(kind, None) for kind in ("gaussian", "subspace", "standardized", "standardized_nearest")]
    for kind, more in [*needy, ("subspace", samples)]:
        scorer = LandmarkScorer.fit(many, ("residual", kind), samples=more)
        with pytest.raises(ValueError, match="X holds similarities alone, and this model also compares features"):
            scorer.score(alone[len(many)])
    monkeypatch.setattr(landmark_view_module, "MOST_FEATURES", 10)
    frugal = [(kind, None) for kind in ("collaborative", "nearest", "gaussian", "subspace")]
    for kind, more in [*frugal, ("subspace", samples)]:
        scorer = LandmarkScorer.fit(few, ("residual", kind), samples=more)
        expected = scorer.score(few.query(NEW)).by_kind[kind]
        check_same(scorer.score(alone[len(few)]).by_kind[kind], expected)


def test_landmarks_are_used_beyond_a_number_of_atoms(monkeypatch):
    dictionary = make_dictionary()
    assert isinstance(fit_scorer(dictionary, CLASS_SCORES), ClassScorer)
    monkeypatch.setattr(landmark_scores_module, "EXACT_ATOMS", 100)
    assert isinstance(fit_scorer(dictionary, CLASS_SCORES), LandmarkScorer)
    precomputed = Dictionary(dictionary.gram, dictionary.labels, kernel="precomputed")
    assert isinstance(fit_scorer(precomputed, ("residual", "collaborative")), ClassScorer)


# -- the recognizer ------------------------------------------------------------------------------------------


def call_all_large(patch):
    """Treat every dictionary as a large one: no Gram matrix of all atoms, few landmarks."""
    patch.setattr("srosr.coding.batch._GRAM_BYTES", 0)
    patch.setattr(landmark_scores_module, "EXACT_ATOMS", 0)
    patch.setattr(landmark_view_module, "LANDMARKS", 200)
    patch.setattr("srosr.classifiers.dictionary_classifier._MANY", 0)


@pytest.fixture
def large(monkeypatch):
    call_all_large(monkeypatch)


@pytest.fixture(scope="module")
def fitted_large():
    with pytest.MonkeyPatch.context() as patch:
        call_all_large(patch)
        return fit()


KNOWN = np.flatnonzero(DIGIT[:900] < 5)


def fit(dtype=np.float64, **options):
    clf = SROSRClassifier(n_repeats=4, random_state=0, **options)
    return clf.fit(PIXELS[KNOWN].astype(dtype), DIGIT[KNOWN])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_large_dictionary_recognizes_like_a_small_one(kernel, monkeypatch):
    options = {"kernel": kernel, "gamma": None if kernel == "linear" else 1.0}
    exact = fit(**options)
    call_all_large(monkeypatch)
    clf = fit(**options)
    assert not clf.dictionary_.has_gram and isinstance(clf._scorer, LandmarkScorer)
    X, y = PIXELS[900:1400], DIGIT[900:1400]
    unknown = y >= 5
    found, expected = clf.decide(X), exact.decide(X)
    assert np.mean(found.candidate[~unknown] == y[~unknown]) > 0.97
    areas = [roc_auc_score(unknown, said.unknown_score) for said in (found, expected)]
    assert areas[0] > areas[1] - 0.02
    assert np.corrcoef(found.unknown_score, expected.unknown_score)[0, 1] > 0.93


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_large_model_is_read_as_it_was_saved_into_memory_or_mapped(dtype, large, fitted_large, tmp_path):
    clf = fit(dtype) if dtype == np.float32 else fitted_large
    assert clf.dictionary_.rows.dtype == dtype
    clf.save(tmp_path / "model.srosr")
    for mode in (None, "r"):
        again = srosr.load(tmp_path / "model.srosr", mmap_mode=mode)
        check_same_model(again, clf, NEW)
        assert again.threshold_info_.standard_error == clf.threshold_info_.standard_error
        np.testing.assert_array_equal(again.threshold_info_.weight_errors, clf.threshold_info_.weight_errors)
        assert again.dictionary_.rows.dtype == dtype


def test_a_model_that_is_read_has_no_sums_that_only_held_out_atoms_need(large, fitted_large, tmp_path):
    clf = fitted_large
    clf.save(tmp_path / "model.srosr")
    subspaces = srosr.load(tmp_path / "model.srosr")._scorer.subspaces
    assert subspaces._factors and not subspaces._systems and not clf._scorer.subspaces._systems


def test_atoms_of_a_mapped_model_stay_in_the_file(large, fitted_large, tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.model_files.file_format._MAPPED_BYTES", 1000)
    fitted_large.save(tmp_path / "model.srosr")
    again = srosr.load(tmp_path / "model.srosr", mmap_mode="r")
    rows = again.dictionary_.rows
    assert not rows.flags.writeable and not rows.flags.owndata
    (tmp_path / "other").write_bytes(b"something else")
    (tmp_path / "other").replace(tmp_path / "model.srosr")  # as an atomic save does
    check_same_model(again, fitted_large, NEW)
    with pytest.raises(ValueError, match=r'mmap_mode must be None or "r", got "w"|mmap_mode must be None'):
        srosr.load(tmp_path / "model.srosr", mmap_mode="w")


def test_the_number_of_threads_changes_no_decision_of_a_large_model(large, fitted_large):
    two = fit(n_jobs=2)
    check_same_model(two, fitted_large, NEW)
    check_same(two.evidence_weights_, fitted_large.evidence_weights_)


def test_a_large_model_of_features_rejects_similarities_in_one_sentence(large):
    clf = SROSRClassifier(normalize=False, n_repeats=1, random_state=0).fit(PIXELS[KNOWN][:60], DIGIT[KNOWN][:60])
    order = np.argsort(clf.dictionary_.order)
    own = clf.dictionary_.query(NEW)
    with pytest.raises(ValueError, match="pass the samples themselves"):
        clf.predict(Queries(own.cross[:, order], own.squared_norms))


def test_classes_come_and_go_in_a_large_model(large, fitted_large):
    clf = copy.deepcopy(fitted_large)
    six = np.flatnonzero(DIGIT[:900] == 6)
    clf.add_class(PIXELS[six], 6)
    X, y = PIXELS[900:], DIGIT[900:]
    assert np.mean(clf.candidate(X[y == 6]) == 6) > 0.95
    clf.remove_class(6)
    assert np.mean(clf.predict(X[y == 6]) == -1) > 0.5
    assert clf.explain(X[0]).text

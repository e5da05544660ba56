"""Evidence on a device: the same numbers as NumPy's, on the device that every machine has, PyTorch's CPU."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from device_cases import one_thread  # noqa: F401
from families import FAMILIES
from same import check_same_candidates, check_same_labels, check_same_text
from sklearn.datasets import load_digits
from worlds import World, draw_task

import srosr
from srosr import BPDN, OMP, Dictionary, Lasso, Queries, Ridge, SRCClassifier, SROSRClassifier, sparse_encode
from srosr._support import devices as devices_module
from srosr.classifiers import changing_classifier as changing_classifier_module
from srosr.classifiers import dictionary_classifier as dictionary_classifier_module
from srosr.classifiers import srosr_classifier as srosr_classifier_module
from srosr.cli.app import main
from srosr.evidence import class_subspaces as class_subspaces_module
from srosr.evidence import landmark_scores as landmark_scores_module
from srosr.evidence import landmark_view as landmark_view_module
from srosr.evidence.class_scores import CLASS_SCORES, NEED_FEATURES, ClassScorer, HoldOut
from srosr.evidence.landmark_scores import LandmarkScorer
from srosr.evidence.landmarks import RegressionSamples
from srosr.evidence.table import EVIDENCE, build_evidence, measure_codes
from srosr.exceptions import DeviceError, DeviceWarning
from srosr.operations import model_input
from srosr.rivals.sparse_rejection import NaiveRejection, RatioRejection, SCIRejection
from srosr.scoring.splits import draw_cross_splits, draw_folds

torch = pytest.importorskip("torch")

from srosr.dictionary.device_dictionary import put_on_device  # noqa: E402
from srosr.evidence import tensor_formulas as tensor_formulas_module  # noqa: E402
from srosr.evidence.device_evidence import (  # noqa: E402
    DeviceGatherer,
    measure_device_codes,
)
from srosr.evidence.device_exact_fit import fit_class_scorer  # noqa: E402
from srosr.evidence.device_landmark_fit import fit_landmark_scorer  # noqa: E402
from srosr.evidence.device_scores import put_scorer_on_device  # noqa: E402
from srosr.evidence.scorer_fits import fit_sampled_scorer, fit_scorer  # noqa: E402

CPU = torch.device("cpu")
KERNELS = [
    {"kernel": "linear", "normalize": True},
    {"kernel": "rbf", "gamma": 1e-3, "normalize": True},
    {"kernel": "poly", "normalize": False},
    {"kernel": "chi2", "gamma": 1e-3, "normalize": "feature"},
    {"kernel": "histogram_intersection", "normalize": True},
]


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def compare_linearly(A, B):
    return A @ B.T


def assert_same_scores(found, right, exact=True):
    """Scores are equal to 1e-9; with landmarks standardized columns are in single precision, and equal to its."""
    assert set(found.by_kind) == set(right.by_kind)
    for kind, scores in right.by_kind.items():
        accuracy = 1e-9 if exact or kind != "standardized_nearest" else 2e-5
        np.testing.assert_allclose(found.by_kind[kind], scores, rtol=0, atol=accuracy, err_msg=kind)
    for mine, theirs in zip(found.background, right.background, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9)


def draw_hold_outs(dictionary, rng):
    """Return some atoms held out with all classes, and others with two classes left out."""
    n_classes = len(dictionary.class_slices)
    out = []
    for absent in (np.empty(0, np.int64), np.array([1, n_classes - 1])):
        test = np.sort(rng.choice(dictionary.n_atoms, 15, replace=False))
        gone = np.flatnonzero(np.isin(dictionary.class_of, absent))
        out.append(HoldOut(test, np.union1d(test, gone), np.delete(np.arange(n_classes), absent)))
    return out


# -- class scores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", KERNELS, ids=lambda s: s["kernel"])
@pytest.mark.parametrize("exact", [True, False])
def test_class_scores_are_those_of_numpy(digits, settings, exact):
    X, y = digits
    dictionary = Dictionary(X[:200], y[:200], **settings)
    hold_outs = draw_hold_outs(dictionary, np.random.default_rng(0))
    if exact:
        right = ClassScorer(dictionary, CLASS_SCORES, hold_outs)
        found = fit_class_scorer(dictionary, CLASS_SCORES, hold_outs, CPU)
    else:
        right = LandmarkScorer.fit(dictionary, CLASS_SCORES, hold_outs)
        found = fit_landmark_scorer(dictionary, CLASS_SCORES, hold_outs, device=CPU)
    for mine, theirs in zip(found.held_out, right.held_out, strict=True):
        assert_same_scores(mine, theirs, exact)
    queries = dictionary.query(X[200:260])
    new = right.score(queries)
    assert_same_scores(found.score(queries), new, exact)  # fitted on the device, used on the CPU
    on_device = put_scorer_on_device(right, CPU)  # fitted on the CPU, used on the device
    assert_same_scores(on_device.score(put_on_device(dictionary, CPU).query(X[200:260])).fetch(), new, exact)


@pytest.mark.parametrize("kind", CLASS_SCORES[1:])
@pytest.mark.parametrize("exact", [True, False])
def test_each_kind_of_class_score_is_fitted_alone(digits, kind, exact):
    X, y = digits
    dictionary = Dictionary(X[:120], y[:120], normalize=True)
    kinds, hold_outs = ("residual", kind), draw_hold_outs(dictionary, np.random.default_rng(1))
    if exact:
        right = ClassScorer(dictionary, kinds, hold_outs)
        found = fit_class_scorer(dictionary, kinds, hold_outs, CPU)
    else:
        right = LandmarkScorer.fit(dictionary, kinds, hold_outs)
        found = fit_landmark_scorer(dictionary, kinds, hold_outs, device=CPU)
    for mine, theirs in zip(found.held_out, right.held_out, strict=True):
        assert_same_scores(mine, theirs, exact)
    queries = put_on_device(dictionary, CPU).query(X[120:150])
    assert_same_scores(
        put_scorer_on_device(found, CPU).score(queries).fetch(), right.score(dictionary.query(X[120:150])), exact
    )


@pytest.mark.parametrize("settings", KERNELS[:2], ids=lambda s: s["kernel"])
def test_landmarks_features_and_class_landmarks_are_those_of_numpy(digits, monkeypatch, settings):
    """With fewer landmarks than atoms, and classes that are described by features or by landmarks of their own."""
    monkeypatch.setattr(landmark_view_module, "LANDMARKS", 60)
    from srosr.evidence import device_subspaces as device_subspaces_module

    for module in (class_subspaces_module, device_subspaces_module):
        monkeypatch.setattr(module, "MANY_IN_CLASS", 30)
        monkeypatch.setattr(module, "CLASS_LANDMARKS", 20)
    X, y = digits
    X, y = X[:, 20:40][y < 3], y[y < 3]  # classes of more atoms than features
    dictionary = Dictionary(X[:150], y[:150], **settings)
    hold_outs = draw_hold_outs(dictionary, np.random.default_rng(0))
    hold_outs = [HoldOut(held.test, held.removed, held.present) for held in hold_outs]
    right = LandmarkScorer.fit(dictionary, CLASS_SCORES, hold_outs)
    found = fit_landmark_scorer(dictionary, CLASS_SCORES, hold_outs, device=CPU)
    for mine, theirs in zip(found.held_out, right.held_out, strict=True):
        assert_same_scores(mine, theirs, exact=False)
    queries = put_on_device(dictionary, CPU).query(X[150:200])
    assert_same_scores(
        put_scorer_on_device(right, CPU).score(queries).fetch(), right.score(dictionary.query(X[150:200])), exact=False
    )


@pytest.mark.parametrize("settings", KERNELS[:2], ids=lambda s: s["kernel"])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_fitted_to_more_samples_than_atoms_are_those_of_numpy(digits, settings, weighted):
    X, y = digits
    whole = Dictionary(X[:200], y[:200], **settings)
    few = whole.subset(np.arange(0, 200, 3))
    weights = np.linspace(1.0, 3.0, 200) if weighted else None
    samples = RegressionSamples(whole.rows, whole.class_of, weights)
    right = fit_sampled_scorer(few, CLASS_SCORES, samples)
    found = fit_sampled_scorer(few, CLASS_SCORES, samples, device=CPU)
    queries = few.query(X[200:240])
    assert_same_scores(found.score(queries), right.score(queries), exact=False)
    on_device = put_on_device(few, CPU).query(X[200:240])
    assert_same_scores(put_scorer_on_device(right, CPU).score(on_device).fetch(), right.score(queries), exact=False)


def test_many_classes_of_different_sizes_give_the_scores_of_numpy(monkeypatch):
    """Whether classes are taken together or one by one."""
    world = World(0, n_known=30, n_features=8)
    X, y = world.known([1 + k % 7 for k in range(30)])
    dictionary = Dictionary(X, y, normalize=True)
    hold_outs = draw_hold_outs(dictionary, world.rng)
    right = ClassScorer(dictionary, CLASS_SCORES, hold_outs)
    samples = world.fresh(40)[0]
    for numbers in (2**26, 300, 1):
        monkeypatch.setattr(tensor_formulas_module, "_BLOCK", numbers)
        found = fit_class_scorer(dictionary, CLASS_SCORES, hold_outs, CPU)
        for mine, theirs in zip(found.held_out, right.held_out, strict=True):
            assert_same_scores(mine, theirs)
        queries = put_on_device(dictionary, CPU).query(samples)
        assert_same_scores(
            put_scorer_on_device(found, CPU).score(queries).fetch(), right.score(dictionary.query(samples))
        )


def test_more_atoms_than_scores_are_exact_for_choose_landmarks_on_a_device_too(digits, monkeypatch):
    X, y = digits
    dictionary = Dictionary(X[:150], y[:150], normalize=True)
    assert isinstance(fit_scorer(dictionary, CLASS_SCORES, device=CPU), ClassScorer)
    monkeypatch.setattr(landmark_scores_module, "EXACT_ATOMS", 100)
    assert isinstance(fit_scorer(dictionary, CLASS_SCORES, device=CPU), LandmarkScorer)


def test_a_scorer_is_sent_once_and_forgotten_with_it(digits):
    X, y = digits
    scorer = ClassScorer(Dictionary(X[:60], y[:60], normalize=True), ("residual", "nearest"))
    first = put_scorer_on_device(scorer, CPU)
    assert put_scorer_on_device(scorer, CPU) is first
    gone = weakref.ref(first)
    del first, scorer
    gc.collect()
    assert gone() is None


def test_similarities_alone_are_rejected_where_features_are_compared(digits):
    X, y = digits
    dictionary = Dictionary(X[:60], y[:60], normalize=True)
    queries = put_on_device(dictionary, CPU).query(X[60:70])
    bare = type(queries)(queries.cross, queries.squared_norms)
    for scorer in (ClassScorer(dictionary, CLASS_SCORES), LandmarkScorer.fit(dictionary, CLASS_SCORES)):
        with pytest.raises(ValueError, match="pass the samples themselves"):
            put_scorer_on_device(scorer, CPU).score(bare)


# -- evidence of codes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_measures_of_codes_are_those_of_numpy_on_degenerate_dictionaries(family):
    rng = np.random.default_rng(0)
    atoms = FAMILIES[family](rng, 24, 10)
    dictionary = Dictionary(atoms, np.arange(24) % 4, normalize=True)
    if not (dictionary.squared_norms > 0).any():
        return
    X = np.concatenate([atoms[:3], rng.standard_normal((5, 10)), np.zeros((1, 10))])
    queries = dictionary.query(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = sparse_encode(queries, dictionary, Lasso(0.05))
    right = measure_codes(queries, codes, dictionary)
    dense, residual = torch.as_tensor(codes.toarray()), torch.as_tensor(codes.residual_norm)
    on_device = put_on_device(dictionary, CPU)
    found = measure_device_codes(on_device.query(queries), dense, residual, on_device).fetch()
    # The root of a difference of squares near zero is good to half the digits.
    np.testing.assert_allclose(found.residuals, right.residuals, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.concentration, right.concentration, rtol=0, atol=1e-9)
    assert (found.residuals.argmin(axis=1) == right.residuals.argmin(axis=1)).all()


def test_residuals_that_differ_by_rounding_are_equal_on_a_device_too():
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((4, 6))
    dictionary = Dictionary(np.concatenate([atoms, atoms]), np.repeat([0, 1], 4), normalize=True)
    on_device = put_on_device(dictionary, CPU)
    part = 0.2 * rng.standard_normal((10, 4))
    codes = torch.as_tensor(np.concatenate([part, part * (1.0 + 1e-12)], axis=1))
    queries = on_device.query(rng.standard_normal((10, 6)))
    residuals = measure_device_codes(queries, codes, queries.squared_norms, on_device).fetch().residuals
    assert (residuals[:, 0] == residuals[:, 1]).all()


@pytest.mark.parametrize("problem", [Lasso(0.02), BPDN(0.1), Ridge(0.1), OMP(5)], ids=repr)
@pytest.mark.parametrize("settings", KERNELS[:2], ids=lambda s: s["kernel"])
def test_the_evidence_table_is_that_of_numpy(digits, problem, settings):
    X, y = digits
    dictionary = Dictionary(X[:120], y[:120], **settings)
    scorer = ClassScorer(dictionary, CLASS_SCORES)
    queries = dictionary.query(X[120:160])
    codes = sparse_encode(queries, dictionary, problem)
    right = build_evidence(measure_codes(queries, codes, dictionary), scorer.score(queries))
    for samples in (X[120:160], torch.as_tensor(X[120:160]), queries):
        found = DeviceGatherer(dictionary, problem, CPU, scorer).gather(samples)
        np.testing.assert_allclose(found.values, right.values, rtol=0, atol=1e-7)
        np.testing.assert_allclose(found.residuals, right.residuals, rtol=0, atol=1e-7)
        assert (found.candidate == right.candidate).all() and not found.empty.any()


def test_a_dictionary_without_a_gram_matrix_gives_the_same_measures(digits, monkeypatch):
    from srosr.dictionary.device_dictionary import DeviceDictionary

    X, y = digits
    for settings in KERNELS[:2]:
        dictionary = Dictionary(X[:120], y[:120], **settings)
        queries = dictionary.query(X[120:150])
        codes = sparse_encode(queries, dictionary, Lasso(0.02))
        right = measure_codes(queries, codes, dictionary)
        with monkeypatch.context() as patch:
            patch.setattr(DeviceDictionary, "has_gram", False)
            on_device = DeviceDictionary(dictionary, CPU)
            dense, residual = torch.as_tensor(codes.toarray()), torch.as_tensor(codes.residual_norm)
            found = measure_device_codes(on_device.query(X[120:150]), dense, residual, on_device).fetch()
            scorer = LandmarkScorer.fit(
                dictionary, CLASS_SCORES, held := draw_hold_outs(dictionary, np.random.default_rng(0))
            )
            again = fit_landmark_scorer(Dictionary(X[:120], y[:120], **settings), CLASS_SCORES, held, device=CPU)
        np.testing.assert_allclose(found.residuals, right.residuals, rtol=0, atol=1e-9)
        for mine, theirs in zip(again.held_out, scorer.held_out, strict=True):
            assert_same_scores(mine, theirs, exact=False)


# -- classifiers -------------------------------------------------------------------------------------------


def assert_same_decisions(found, right, X):
    mine, theirs = found.decide(X), right.decide(X)
    # A threshold on the device is as close to that of the CPU as the scores are.
    check_same_labels(mine.label, theirs.label, theirs.unknown_score, right.threshold_, tolerance=1e-6)
    check_same_candidates(np.searchsorted(right.classes_, mine.candidate), right.class_scores(X), 1e-6)
    np.testing.assert_allclose(mine.unknown_score, theirs.unknown_score, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rule": "paper"},
        {"kernel": "rbf", "gamma": 0.1},
        {"kernel": compare_linearly, "normalize": False},
        {"calibration": "split", "label_by": "residual"},
        {"problem": BPDN(0.2), "evidence_kinds": ["matched", "collaborative", "nearest"]},
        {"atoms": 6},
    ],
    ids=["default", "paper", "rbf", "function", "split", "bpdn", "atoms"],
)
def test_a_fit_on_a_device_decides_like_one_on_the_cpu(settings):
    X, y, new = draw_task(0, sizes=(20, 14, 18, 16), n_features=6)
    common = {"n_repeats": 3, "random_state": 0} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", srosr.exceptions.CalibrationWarning)
        right = SROSRClassifier(**common).fit(X, y)
        found = SROSRClassifier(device=CPU, **common).fit(X, y)
        found.set_threshold("youden")  # the paper's rules run their other passes now
        right.set_threshold("youden")
    assert_same_decisions(found, right, np.concatenate([new, np.zeros((1, 6))]))
    np.testing.assert_allclose(found.evidence(new)["matched"], right.evidence(new)["matched"], atol=1e-9)
    np.testing.assert_allclose(found.log_p_value(new), right.log_p_value(new), atol=1e-4)


def test_many_atoms_with_landmarks_decide_alike(digits, monkeypatch):
    monkeypatch.setattr(landmark_scores_module, "EXACT_ATOMS", 50)
    monkeypatch.setattr(landmark_view_module, "LANDMARKS", 40)
    X, y = digits
    known = y[:300] < 6
    right = SROSRClassifier(n_repeats=2, max_codings=100, random_state=0).fit(X[:300][known], y[:300][known])
    found = SROSRClassifier(n_repeats=2, max_codings=100, random_state=0, device=CPU)
    found.fit(X[:300][known], y[:300][known])
    assert isinstance(found._scorer, LandmarkScorer)
    assert_same_decisions(found, right, X[300:400])


def test_a_precomputed_kernel_works_on_a_device():
    X, y, new = draw_task(1, sizes=(12, 9, 15, 11), n_features=5)
    gram, cross, squares = X @ X.T, new @ X.T, np.einsum("ij,ij->i", new, new)
    common = {"kernel": "precomputed", "n_repeats": 2, "random_state": 0}
    right = SROSRClassifier(**common).fit(gram, y)
    found = SROSRClassifier(device=CPU, **common).fit(gram, y)
    assert not set(found.class_score_names_) & set(NEED_FEATURES)
    assert_same_decisions(found, right, Queries(cross, squares))


def test_classes_are_added_and_removed_on_a_device():
    X, y, new = draw_task(2, sizes=(14, 12, 13, 15), n_features=5)
    for settings in ({}, {"atoms": 5}):
        made = []
        for device in ("cpu", CPU):
            clf = SROSRClassifier(n_repeats=2, random_state=0, device=device, **settings).fit(X[y < 3], y[y < 3])
            made.append(clf.add_class(X[y == 3], 3).remove_class(0))
        assert_same_decisions(made[1], made[0], new)


@pytest.mark.parametrize("kind", [SCIRejection, RatioRejection, NaiveRejection])
def test_rivals_on_sparse_codes_decide_alike(kind):
    X, y, new = draw_task(3, sizes=(12, 9, 15), n_features=5)
    right = kind(n_repeats=2, random_state=0).fit(X, y)
    found = kind(n_repeats=2, random_state=0, device=CPU).fit(X, y)
    assert_same_decisions(found, right, new)


@pytest.mark.parametrize("occlusion", [False, True])
def test_src_has_the_same_residuals(digits, occlusion):
    X, y = digits
    right = SRCClassifier(occlusion=occlusion).fit(X[:100], y[:100])
    found = SRCClassifier(occlusion=occlusion, device=CPU).fit(X[:100], y[:100])
    np.testing.assert_allclose(found.residuals(X[100:130]), right.residuals(X[100:130]), rtol=0, atol=1e-9)
    assert (found.predict(torch.as_tensor(X[100:130])) == right.predict(X[100:130])).all()


def test_tensors_are_taken_wherever_arrays_are(digits):
    X, y = digits
    known = y[:150] < 5
    for device in ("cpu", CPU):
        clf = SROSRClassifier(n_repeats=2, random_state=0, device=device)
        clf.fit(torch.as_tensor(X[:150][known]), torch.as_tensor(y[:150][known]))
        right = clf.decide(X[150:180])
        for new in (torch.as_tensor(X[150:180]), torch.as_tensor(X[150:180], dtype=torch.float32)):
            found = clf.decide(new)
            check_same_labels(found.label, right.label, right.unknown_score, clf.threshold_, tolerance=1e-5)
            np.testing.assert_allclose(found.unknown_score, right.unknown_score, atol=1e-5)
        for wrong, message in (
            (torch.full((2, 64), torch.nan), "NaN"),
            (torch.ones(2, 63), "63 features"),
            (torch.ones(64), "1D array|2D array"),
        ):
            with pytest.raises(ValueError, match=message):
                clf.predict(wrong)


def test_features_that_a_kernel_does_not_take_are_rejected_on_a_device(digits):
    X, y = digits
    chi2 = NaiveRejection(kernel="chi2", gamma=0.01, n_repeats=1, random_state=0, device=CPU)
    clf = chi2.fit(X[:60], y[:60])
    with pytest.raises(ValueError, match="negative values"):
        clf.predict(-X[60:70])
    clf = SCIRejection(normalize=False, n_repeats=1, random_state=0, device=CPU).fit(X[:60], y[:60])
    with pytest.raises(ValueError, match="squared length"):
        clf.predict(1e200 * X[60:70])
    with pytest.raises(ValueError, match="infinity"):
        SCIRejection(normalize=False, device=CPU).fit(1e160 * X[:60], y[:60])


def test_the_progress_of_a_fit_counts_every_coding(digits):
    from srosr.scoring.cross_test import CrossTester

    X, y = digits
    dictionary = Dictionary(X[:80], y[:80], normalize=True)
    counts = []
    tester = CrossTester(dictionary, Lasso(0.02), done=counts.append, device=CPU)
    rng = np.random.RandomState(0)
    splits = [*draw_cross_splits(dictionary.class_slices, 2, 0.2, rng), *draw_folds(dictionary.class_slices, rng, 3)]
    test = tester.test_known(splits)
    assert sum(counts) == len(test) == sum(map(len, splits))
    right = CrossTester(dictionary, Lasso(0.02)).test_known(splits)
    np.testing.assert_allclose(test.values, right.values, rtol=0, atol=1e-8)
    assert test.values.shape[1] == len(EVIDENCE)


# -- files and devices -------------------------------------------------------------------------------------


def test_the_device_is_not_saved_and_can_be_set_again(digits, tmp_path):
    X, y = digits
    known = y[:150] < 5
    for clf in (SROSRClassifier(n_repeats=2, random_state=0, device=CPU), SCIRejection(n_repeats=2, device=CPU)):
        clf.fit(X[:150][known], y[:150][known])
        clf.save(tmp_path / "model.srosr")
        again = srosr.load(tmp_path / "model.srosr")
        assert again.device == "cpu"
        assert_same_decisions(again, clf, X[150:180])
        again.set_params(device=CPU)
        assert_same_decisions(again, clf, X[150:180])


def test_a_device_that_is_none_is_an_error_of_the_parameter(digits):
    X, y = digits
    for clf in (SROSRClassifier(device="gpu"), SCIRejection(device="gpu"), SRCClassifier(device="gpu")):
        with pytest.raises(ValueError, match='device must be "cpu", "cuda"'):
            clf.fit(X[:60], y[:60])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said_in_one_sentence_and_changes_nothing(digits):
    X, y = digits
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X[:100], y[:100])
    before = clf.predict(X[100:110])
    clf.device = "cuda"
    for attempt in (lambda: clf.predict(X[100:110]), lambda: clf.fit(X[:90], y[:90])):
        with pytest.raises(DeviceError, match=r"device='cuda'.*PyTorch.*pip install"):
            attempt()
    clf.device = "auto"
    assert (clf.predict(X[100:110]) == before).all()


def test_without_torch_a_gpu_says_what_to_install_and_auto_is_the_cpu(digits, monkeypatch):
    X, y = digits
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError, match=r'needs PyTorch, which is not installed: .*"srosr\[gpu\]"'):
        SROSRClassifier(device="cuda").fit(X[:60], y[:60])
    SROSRClassifier(device="auto", n_repeats=1, random_state=0).fit(X[:60], y[:60]).predict(X[60:65])


# -- the command line --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(digits, tmp_path_factory):
    """Return a folder with tables of digits 0 to 3, of new ones, of the digit 4, and a model."""
    folder = tmp_path_factory.mktemp("tables")
    X, y = digits
    parts = {
        "known.csv": np.flatnonzero(y < 4)[:100],
        "new.csv": np.arange(500, 600),
        "more.csv": np.flatnonzero(y == 4),
    }
    for name, rows in parts.items():
        table = pd.DataFrame(X[rows], columns=[f"p{j}" for j in range(64)])
        table.assign(digit=[f"d{k}" for k in y[rows]]).to_csv(folder / name, index=False)
    run(folder, "fit", "known.csv", "--label", "digit", "-o", "model.srosr", "-q")
    return folder


def run(folder, *arguments, status=0):
    """Run a command in a folder; return what it printed."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(main, list(arguments))
    finally:
        os.chdir(before)
    assert done.exit_code == status, done.output
    return done.output


COMMANDS = [
    ("fit", "known.csv", "--label", "digit", "-o", "made.srosr"),
    ("predict", "model.srosr", "new.csv", "-o", "made.csv"),
    ("evaluate", "model.srosr", "new.csv", "--label", "digit", "--out", "made"),
    ("explain", "model.srosr", "new.csv", "--out", "made.png"),
    ("add-class", "model.srosr", "more.csv", "--name", "d4", "-o", "made.srosr"),
    ("update", "model.srosr", "known.csv", "--label", "digit", "-o", "made.srosr"),
    ("recalibrate", "model.srosr", "known.csv", "--label", "digit", "-o", "made.srosr"),
    ("monitor", "model.srosr", "new.csv", "--block", "20"),
]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_a_missing_gpu_ends_a_command_with_one_sentence_and_nothing_written(tables, command):
    there = sorted(tables.iterdir())
    shown = run(tables, *command, "--device", "cuda", status=2).strip()
    assert shown.startswith("Error: --device cuda: PyTorch") and "pip install" in shown and "\n" not in shown
    shown = run(tables, *command, "--device", "gpu", status=2).strip()
    assert shown.startswith('Error: --device must be "cpu", "cuda"') and "\n" not in shown
    assert sorted(tables.iterdir()) == there


def test_a_method_that_codes_nothing_has_no_device(tables, monkeypatch):
    use_cpu_as_gpu(monkeypatch)
    run(tables, "fit", "known.csv", "--label", "digit", "--method", "knn", "-o", "knn.srosr", "--device", "auto", "-q")
    fit = ("fit", "known.csv", "--label", "digit", "--method", "knn", "-o", "other.srosr")
    assert "--device: --method knn has no such parameter." in run(tables, *fit, "--device", "cuda", status=2)
    assert "codes no samples" in run(tables, "predict", "knn.srosr", "new.csv", "--device", "cuda", status=2)


def use_cpu_as_gpu(monkeypatch):
    """Let PyTorch's CPU be the device "cuda"."""

    def find(device):
        devices_module.check_device(device)
        return CPU if device == "cuda" else None

    of_classifiers = (dictionary_classifier_module, changing_classifier_module, srosr_classifier_module)
    for module in (devices_module, *of_classifiers):
        monkeypatch.setattr(module, "find_device", find)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_commands_do_on_a_device_what_they_do_on_the_cpu(tables, monkeypatch, command):
    use_cpu_as_gpu(monkeypatch)
    quiet = ["-q"] if command[0] in ("fit", "predict", "evaluate") else []
    texts = [run(tables, *command, *device, *quiet) for device in ([], ["--device", "cuda"])]
    number = r"\d+\.\d{7,}"  # not rounded
    found, right = ([float(shown) for shown in re.findall(number, text)] for text in texts)
    assert found == pytest.approx(right, rel=1e-6)
    check_same_text(*(re.sub(number, "", text) for text in texts))


def test_decisions_on_a_device_are_written_batch_by_batch(tables, monkeypatch):
    use_cpu_as_gpu(monkeypatch)
    run(tables, "predict", "model.srosr", "new.csv", "-o", "cpu.csv", "-q")
    monkeypatch.setattr(model_input, "choose_batch_size", lambda clf: 32)
    run(tables, "predict", "model.srosr", "new.csv", "-o", "gpu.csv", "-q", "--device", "cuda", "--jobs", "2")
    right, found = pd.read_csv(tables / "cpu.csv"), pd.read_csv(tables / "gpu.csv")
    threshold = srosr.load(tables / "model.srosr").threshold_
    check_same_labels(found["label"], right["label"], right["unknown_score"], threshold, tolerance=1e-6)
    assert (right["row"] == found["row"]).all()
    np.testing.assert_allclose(found["unknown_score"], right["unknown_score"], atol=1e-6)


def test_a_device_that_fails_ends_the_command_with_one_sentence(tables, monkeypatch):
    use_cpu_as_gpu(monkeypatch)

    def fail(*arguments):
        raise DeviceError("cuda failed: CUDA error: the launch timed out.")

    monkeypatch.setattr(DeviceGatherer, "gather", fail)
    shown = run(tables, "predict", "model.srosr", "new.csv", "-o", "failed.csv", "--device", "cuda", status=2)
    assert shown.strip().endswith("Error: cuda failed: CUDA error: the launch timed out.")
    assert not (tables / "failed.csv").exists()


def test_nothing_imports_torch_unless_a_device_is_asked_for():
    program = (
        "import sys, srosr\n"
        "assert 'torch' not in sys.modules\n"
        "from sklearn.datasets import load_digits\n"
        "X, y = load_digits(return_X_y=True)\n"
        "srosr.SROSRClassifier(n_repeats=1, random_state=0).fit(X[:60], y[:60]).predict(X[60:65])\n"
        "srosr.SRCClassifier().fit(X[:60], y[:60]).predict(X[60:65])\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_every_public_name_can_be_imported_without_torch():
    """Also eagerly, as SPEC 1 allows: modules for devices ask for PyTorch when what they define runs."""
    code = (
        "import importlib.util as u, sys; find = u.find_spec; "
        "u.find_spec = lambda name, *more: None if name == 'torch' else find(name, *more); "
        "import srosr, srosr.coding.device, srosr.dictionary.device_dictionary, srosr.evidence.device_evidence; "
        "assert 'torch' not in sys.modules"
    )
    environment = os.environ | {"EAGER_IMPORT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nearest_atoms_of_held_out_samples_are_found_in_chunks_that_fit(digits, monkeypatch):
    """Tests by all atoms would be the largest array of a fit: memory that is short makes it slower, not different."""
    from srosr.coding.device import chunks
    from srosr.evidence import device_landmark_fit

    X, y = digits
    dictionary = Dictionary(X[:90], y[:90])
    hold_outs = draw_hold_outs(dictionary, np.random.default_rng(0))
    kinds = ("nearest", "standardized_nearest")
    right = LandmarkScorer.fit(dictionary, kinds, hold_outs)
    most, sizes = 5, []
    real = device_landmark_fit.find_nearest

    def find_nearest(distances, *others):
        sizes.append(len(distances))
        if len(distances) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(distances, *others)

    monkeypatch.setattr(device_landmark_fit, "find_nearest", find_nearest)
    with pytest.warns(DeviceWarning, match="out of memory; going on with fewer samples at a time"):
        found = fit_landmark_scorer(dictionary, kinds, hold_outs, device=CPU)
    assert max(sizes) > most
    monkeypatch.setattr(chunks, "_SHARE", 4 * 8 * 6 * 90 / (4 * 2**30))
    sizes.clear()
    again = fit_landmark_scorer(dictionary, kinds, hold_outs, device=CPU)
    assert max(sizes) == 4
    for one in (found, again):
        for mine, theirs in zip(one.held_out, right.held_out, strict=True):
            assert_same_scores(mine, theirs, exact=False)

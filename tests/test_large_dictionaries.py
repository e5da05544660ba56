"""Dictionaries too large for a Gram matrix of all atoms: the paper's rules, and rejection by one number of the code."""

from __future__ import annotations

import numpy as np
import pytest
from same import check_same, check_same_decisions, check_same_model
from scale import slow_except
from sklearn.base import clone
from sklearn.datasets import load_digits

import srosr
from srosr import (
    Lasso,
    NaiveRejection,
    RatioRejection,
    Ridge,
    SCIRejection,
    SROSRClassifier,
    class_residuals,
    sparse_encode,
)
from srosr.coding import batch
from srosr.dictionary.dictionary import Dictionary
from srosr.evidence.table import FIRST_EVIDENCE, LEAST_SQUARES
from srosr.experiments.protocol import MethodSetting
from srosr.experiments.trial_methods import TrialSamples, fit_group, group_by_fit

X, Y = load_digits(return_X_y=True)
KNOWN = Y < 5
TRAIN, TRUTH, NEW = X[KNOWN][:250], Y[KNOWN][:250], X[900:1000]

METHODS = {
    "paper": SROSRClassifier(rule="paper", threshold=0.01, n_repeats=3, random_state=0),
    "matched": SROSRClassifier(rule="matched", threshold=0.01, n_repeats=3, random_state=0),
    "paper, at a rate": SROSRClassifier(rule="paper", n_repeats=3, random_state=0),
    "naive": NaiveRejection(n_repeats=2, random_state=0),
    "ratio": RatioRejection(n_repeats=2, random_state=0),
    "sci": SCIRejection(n_repeats=2, random_state=0),
}


@pytest.fixture
def too_large(monkeypatch):
    """Lower the limit so that no Gram matrix fits; computing that of all training samples is then an error."""
    monkeypatch.setattr(batch, "_GRAM_BYTES", 0)
    whole = Dictionary.gram.fget

    def gram(self):
        assert self.has_gram or self.n_atoms < 100, f"the Gram matrix of {self.n_atoms} atoms was computed"
        return whole(self)

    monkeypatch.setattr(Dictionary, "gram", property(gram))


@pytest.mark.parametrize("name", slow_except(["paper", "naive"], METHODS))
def test_explanations_are_the_same_without_a_gram_matrix(name, request, tmp_path):
    clf = METHODS[name]
    small = _fitted(clf)
    expected = small.decide(NEW)
    request.getfixturevalue("too_large")
    large = _fitted(clf)
    assert not large.dictionary_.has_gram
    check_same_decisions(large.decide(NEW), expected, small.threshold_)
    large.save(tmp_path / "large.srosr")
    again = srosr.load(tmp_path / "large.srosr")
    assert not again.dictionary_.has_gram
    check_same_model(again, large, NEW)


def _fitted(clf):
    return clone(clf).fit(TRAIN, TRUTH)


def test_least_squares_has_no_part_and_says_so(too_large):
    clf = _fitted(METHODS["paper"])
    table = clf.evidence(NEW)
    assert table[list(LEAST_SQUARES)].isna().all(axis=None)
    assert list(table.columns) == [*FIRST_EVIDENCE, "candidate", "unknown_score"]
    assert table[[kind for kind in FIRST_EVIDENCE if kind not in LEAST_SQUARES]].notna().all(axis=None)
    assert clf.explain(NEW[0]).text


def test_classes_come_and_go_and_are_kept_in_a_file(too_large, tmp_path):
    clf = _fitted(METHODS["paper"])
    new = X[Y == 7][:40]
    clf.add_class(new, 7)
    assert not clf.dictionary_.has_gram and clf.classes_.tolist() == [0, 1, 2, 3, 4, 7]
    afresh = SROSRClassifier(rule="paper", threshold=0.01, n_repeats=3, random_state=0)
    afresh.fit(np.vstack([TRAIN, new]), np.append(TRUTH, [7] * len(new)))
    assert np.mean(clf.predict(NEW) == afresh.predict(NEW)) > 0.9
    clf.save(tmp_path / "grown.srosr")
    check_same_model(srosr.load(tmp_path / "grown.srosr"), clf, NEW)
    clf.remove_class(7)
    assert clf.classes_.tolist() == [0, 1, 2, 3, 4]


def test_our_rule_after_the_papers_is_fitted_on_its_own(monkeypatch):
    """The paper's rule leaves no least squares behind to conclude from; ours computes the Gram matrix it needs."""
    settings = [
        MethodSetting(name, name, {"n_repeats": 3, **more})
        for name, more in (("paper", {"threshold": 0.01}), ("calibrated", {}))
    ]
    (together,) = group_by_fit(settings)
    expected = SROSRClassifier(n_repeats=3, random_state=0, normalize=True, n_jobs=1).fit(TRAIN, TRUTH)
    monkeypatch.setattr(batch, "_GRAM_BYTES", 0)
    test, said = TrialSamples(NEW), []
    for method in fit_group(together, TRAIN, TRUTH, 0, 0.1):
        method.predict(test)
        said.append(method.decide())
        np.testing.assert_allclose(said[-1].score, method.clf.unknown_score(NEW), atol=1e-12)
        assert (method.clf._scorer is None) == (method.setting.name == "paper")
    np.testing.assert_allclose(said[1].score, expected.unknown_score(NEW), atol=1e-9)


@pytest.mark.parametrize(("kernel", "problem"), [("rbf", Ridge(0.1)), ("chi2", None), ("rbf", None)])
def test_other_kernels_need_no_gram_matrix_but_for_ridge_regression(kernel, problem, monkeypatch):
    options = {"kernel": kernel, "problem": problem, "n_repeats": 2, "random_state": 0}
    methods = [SROSRClassifier(rule="paper", threshold=0.01, **options), SCIRejection(**options)]
    expected = [_fitted(clf).unknown_score(NEW) for clf in methods]
    monkeypatch.setattr(batch, "_GRAM_BYTES", 0)
    for clf, scores in zip(methods, expected, strict=True):
        large = _fitted(clf)
        assert large.dictionary_.has_gram == isinstance(problem, Ridge)
        np.testing.assert_allclose(large.unknown_score(NEW), scores, atol=1e-9)


def test_a_class_can_take_a_dictionary_over_the_limit_and_back(monkeypatch, tmp_path):
    monkeypatch.setattr(batch, "_GRAM_BYTES", 8 * 260**2)
    clf = _fitted(METHODS["paper"])
    assert clf.dictionary_.has_gram and clf._scorer is not None
    before = clf.unknown_score(NEW)
    clf.add_class(X[Y == 7][:40], 7).remove_class(7)
    np.testing.assert_allclose(clf.unknown_score(NEW), before, atol=1e-9)
    clf.save(tmp_path / "back.srosr")
    again = srosr.load(tmp_path / "back.srosr")
    check_same(again.evidence(NEW).to_dict("list"), clf.evidence(NEW).to_dict("list"))


def test_samples_without_a_code_have_evidence_under_any_kernel():
    dictionary = Dictionary(TRAIN, TRUTH, kernel="chi2", normalize=True)
    queries = dictionary.query(NEW[:5])
    codes = sparse_encode(queries, dictionary, Lasso(2.0))
    assert codes.codes.nnz == 0
    dictionary._gram = None
    residuals = class_residuals(queries, codes, dictionary)
    np.testing.assert_allclose(residuals, 1.0)

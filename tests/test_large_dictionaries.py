"""Dictionaries too large for a Gram matrix of all atoms: the paper's rules, and refusal by a number of the code."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import srosr
from srosr import NaiveRejection, RatioRejection, SCIRejection, SROSRClassifier
from srosr.coding import coder
from srosr.dictionary import Dictionary
from srosr.evidence_table import EVIDENCE, LEAST_SQUARES
from srosr.experiments.contenders import fit_together, sharing
from srosr.experiments.protocol import MethodSetting

X, Y = load_digits(return_X_y=True)
KNOWN = Y < 5
TRAIN, TRUTH, MET = X[KNOWN][:250], Y[KNOWN][:250], X[900:1000]

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
    """From here on no Gram matrix fits; computing that of all training samples is an error."""
    monkeypatch.setattr(coder, "_GRAM_BYTES", 0)
    whole = Dictionary.gram.fget

    def gram(self):
        assert self.has_gram or self.n_atoms < 100, f"the Gram matrix of {self.n_atoms} atoms was computed"
        return whole(self)

    monkeypatch.setattr(Dictionary, "gram", property(gram))


@pytest.mark.parametrize("name", METHODS)
def test_what_is_said_is_the_same_without_a_gram_matrix(name, request, tmp_path):
    clf = METHODS[name]
    small = _fitted(clf)
    expected, labels = small.unknown_score(MET), small.predict(MET)
    request.getfixturevalue("too_large")
    large = _fitted(clf)
    assert not large.dictionary_.has_gram
    np.testing.assert_allclose(large.unknown_score(MET), expected, atol=1e-9)
    np.testing.assert_array_equal(large.predict(MET), labels)
    large.save(tmp_path / "large.srosr")
    again = srosr.load(tmp_path / "large.srosr")
    assert not again.dictionary_.has_gram
    np.testing.assert_array_equal(again.unknown_score(MET), large.unknown_score(MET))


def _fitted(clf):
    return type(clf)(**clf.get_params()).fit(TRAIN, TRUTH)


def test_least_squares_has_no_part_and_says_so(too_large):
    clf = _fitted(METHODS["paper"])
    table = clf.evidence(MET)
    assert table[list(LEAST_SQUARES)].isna().all(axis=None)
    assert table[[kind for kind in EVIDENCE if kind not in LEAST_SQUARES]].notna().all(axis=None)
    assert clf.explain(MET[0]).text


def test_classes_come_and_go_and_are_kept_in_a_file(too_large, tmp_path):
    clf = _fitted(METHODS["paper"])
    new = X[Y == 7][:40]
    clf.add_class(new, 7)
    assert not clf.dictionary_.has_gram and clf.classes_.tolist() == [0, 1, 2, 3, 4, 7]
    afresh = SROSRClassifier(rule="paper", threshold=0.01, n_repeats=3, random_state=0)
    afresh.fit(np.vstack([TRAIN, new]), np.append(TRUTH, [7] * len(new)))
    assert np.mean(clf.predict(MET) == afresh.predict(MET)) > 0.9
    clf.save(tmp_path / "grown.srosr")
    np.testing.assert_array_equal(srosr.load(tmp_path / "grown.srosr").predict(MET), clf.predict(MET))
    clf.remove_class(7)
    assert clf.classes_.tolist() == [0, 1, 2, 3, 4]


def test_our_rule_after_the_papers_is_fitted_on_its_own(monkeypatch):
    """The paper's rule leaves no least squares behind to conclude from; ours computes the Gram matrix it needs."""
    settings = [
        MethodSetting(name, name, {"n_repeats": 3, **more})
        for name, more in (("paper", {"threshold": 0.01}), ("calibrated", {}))
    ]
    (together,) = sharing(settings)
    expected = SROSRClassifier(n_repeats=3, random_state=0, normalize=True, n_jobs=1).fit(TRAIN, TRUTH)
    monkeypatch.setattr(coder, "_GRAM_BYTES", 0)
    paper, ours = fit_together(together, TRAIN, TRUTH, 0, 0.1)
    assert paper.clf._collaborative is None and ours.clf._collaborative is not None
    np.testing.assert_allclose(ours.clf.unknown_score(MET), expected.unknown_score(MET), atol=1e-9)

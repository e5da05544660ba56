"""Rejection by one number of the sparse code: SCI, ratio and residual, against dense formulas."""

import numpy as np
import pytest
from scale import slow_except
from worlds import World

from srosr import BPDN, Lasso, NaiveRejection, RatioRejection, SCIRejection, SROSRClassifier, sparse_encode

METHODS = {"sci": SCIRejection, "ratio": RatioRejection, "naive": NaiveRejection}


def by_hand(clf, X):
    """Return class residuals and the three numbers, sample by sample, from dense codes over unit atoms."""
    atoms, labels = clf.dictionary_._values, np.asarray(clf.dictionary_.labels)
    codes = clf.encode(X).codes.toarray()
    residuals, out = [], {name: [] for name in METHODS}
    for x, code in zip(X / np.linalg.norm(X, axis=1, keepdims=True), codes, strict=True):
        r = [np.linalg.norm(x - code[labels == k] @ atoms[labels == k]) for k in clf.classes_]
        shares = [np.abs(code[labels == k]).sum() / np.abs(code).sum() for k in clf.classes_]
        first, second = sorted(r)[:2]
        out["naive"].append(first)
        out["ratio"].append(first / second)
        out["sci"].append(1 - (len(r) * max(shares) - 1) / (len(r) - 1))
        residuals.append(r)
    return np.array(residuals), {name: np.array(values) for name, values in out.items()}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("problem", [None, Lasso(0.1), BPDN(0.3)])
def test_the_score_is_the_formula_and_the_candidate_the_smallest_residual(name, problem):
    world = World(3)
    clf = METHODS[name](problem, n_repeats=2, random_state=0).fit(*world.known(15))
    X = np.concatenate([world.fresh(30)[0], world.unknowns(30)])
    residuals, numbers = by_hand(clf, X)
    np.testing.assert_allclose(clf.unknown_score(X), numbers[name], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(-clf.class_scores(X), residuals, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(clf.candidate(X), residuals.argmin(axis=1))


@pytest.mark.parametrize("name", slow_except(["naive"], METHODS))
def test_held_out_scores_are_those_of_samples_coded_over_the_others(name):
    """Two samples a class: each is held out alone of its class, and what it is coded over can be written down."""
    X, y = World(4, n_known=3).known(2)
    clf = METHODS[name](Lasso(0.05), n_repeats=1, random_state=0)
    with pytest.warns(UserWarning):
        clf.fit(X, y)
    held, d = clf._held_out_scores(), clf.dictionary_
    expected = []
    for row in range(6):
        others = []
        for removed in range(2**3):  # every way to leave out one sample of some classes, the row's own among them
            gone = [2 * k + ((removed >> k) & 1) for k in range(3)]
            others += [np.setdiff1d(np.arange(6), [row, *[g for g in gone if g // 2 in extra and g != row]])
                       for extra in ((), *((k,) for k in range(3)), (0, 1), (0, 2), (1, 2), (0, 1, 2))]  # fmt: skip
        scores = []
        for kept in others:
            if len(np.unique(np.asarray(d.labels)[kept])) < 3:
                continue
            part = d.subset(kept)
            code = sparse_encode(d._values[[row]], part, Lasso(0.05)).codes.toarray()[0]
            labels = np.asarray(part.labels)
            r = [np.linalg.norm(d._values[row] - code[labels == k] @ part._values[labels == k]) for k in range(3)]
            shares = [np.abs(code[labels == k]).sum() / max(np.abs(code).sum(), 1e-300) for k in range(3)]
            first, second = sorted(r)[:2]
            scores.append({"naive": first, "ratio": first / second, "sci": 1 - (3 * max(shares) - 1) / 2}[name])
        expected.append(scores)
    truth = np.asarray(d.labels)
    for score, label in zip(held.scores, held.truth, strict=True):
        possible = np.concatenate([expected[row] for row in range(6) if truth[row] == label])
        assert np.abs(possible - score).min() < 1e-6


def test_matched_only_is_the_recognizers_rule():
    """The paper's ablation is no class of its own: the tail of the matched residual, without the other."""
    world = World(5)
    clf = SROSRClassifier(rule="matched", n_repeats=5, random_state=0).fit(*world.known(15))
    X = world.fresh(40)[0]
    matched, _ = clf.calibration_.tails.probabilities(clf._gather_evidence(X).values, clf._gather_evidence(X).candidate)
    np.testing.assert_allclose(clf.unknown_score(X), matched)

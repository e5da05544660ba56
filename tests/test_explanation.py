"""Explanations have the numbers of the prediction, and sentences that are true of them."""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from fitted import fit_once
from same import check_same
from sklearn.exceptions import NotFittedError

from srosr import BPDN, OMP, Lasso, Queries, Ridge
from srosr.classifiers.srosr_classifier import SROSRClassifier
from srosr.evidence.table import EVIDENCE
from srosr.exceptions import CalibrationWarning

WIDTH = 4  # features a class


def samples(n_classes=3, per_class=20, seed=0):
    """Return classes on features of their own, and one last feature that no training sample has."""
    rng = np.random.default_rng(seed)
    X = 0.05 * rng.random((n_classes * per_class, n_classes * WIDTH + 1))
    y = np.repeat(np.arange(n_classes), per_class)
    for k in range(n_classes):
        X[y == k, k * WIDTH : (k + 1) * WIDTH] += rng.random((per_class, WIDTH)) + 0.2
    X[:, -1] = 0.0
    return X, y


X, Y = samples()
OWN = X[Y == 1].mean(axis=0)  # as typical of class 1 as can be
SPREAD = X[:, :].mean(axis=0)  # a little of everything
ALIEN = np.eye(X.shape[1])[-1]  # what no training sample has
ZERO = np.zeros(X.shape[1])


@pytest.fixture(scope="module")
def clf():
    return fit_once(SROSRClassifier(n_repeats=5, random_state=0), X, Y)


@pytest.fixture(scope="module", params=["calibrated", "paper", "matched"])
def any_rule(request):
    return fit_once(SROSRClassifier(n_repeats=5, rule=request.param, random_state=0), X, Y)


# --- the numbers are those of the recognizer ---


@pytest.mark.parametrize("x", [OWN, SPREAD, ALIEN, ZERO, X[7]])
def test_decision_scores_and_threshold_are_those_of_the_recognizer(any_rule, x):
    e = any_rule.explain(x)
    assert e.label == any_rule.predict([x])[0]
    assert e.candidate == any_rule.candidate([x])[0]
    assert e.rejected == (e.label == any_rule.unknown_label_)
    assert e.unknown_score == pytest.approx(any_rule.unknown_score([x])[0], abs=1e-9)
    assert e.log_p_value == pytest.approx(any_rule.log_p_value([x])[0], rel=1e-6)
    assert e.p_value == pytest.approx(1 - e.unknown_score, abs=1e-9)
    assert e.threshold == any_rule.thresholds_[list(any_rule.classes_).index(e.candidate)]
    assert e.threshold_detail == any_rule.threshold_info_.detail
    assert list(e.residuals) == any_rule.classes_.tolist()
    assert list(e.class_scores) == any_rule.classes_.tolist()
    assert list(e.class_scores.values()) == pytest.approx(any_rule.class_scores([x])[0], abs=1e-9)
    by_residual = fit_once(SROSRClassifier(n_repeats=1, rule="matched", random_state=0), X, Y)
    assert list(e.residuals.values()) == pytest.approx(-by_residual.class_scores([x])[0], abs=1e-9)


def test_contributions_add_up_to_the_score_that_is_compared_with_its_threshold(any_rule):
    for x in (OWN, SPREAD, X[3]):
        e = any_rule.explain(x)
        contributions = [part.contribution for part in e.evidence]
        assert contributions == sorted(contributions, reverse=True)
        assert e.score == pytest.approx(sum(contributions))
        rule = any_rule.calibration_.rule
        if any_rule.rule == "calibrated":
            assert {part.name for part in e.evidence} == set(EVIDENCE)
            assert rule.distribution.cdf(e.score) == pytest.approx(e.unknown_score)
        else:
            assert e.score / (1 + rule.weight) == pytest.approx(e.unknown_score)
            assert {part.name: part.standardized for part in e.evidence} == {
                "matched": e.matched_probability,
                "nonmatched": e.nonmatched_probability,
            }
        assert e.rejected == (e.score > e.score_threshold)
        for part in e.evidence:
            assert part.contribution == pytest.approx(part.weight * part.standardized)


def test_values_and_concentration_are_those_of_the_evidence_table(clf):
    e = clf.explain(SPREAD)
    row = clf.evidence(SPREAD[None]).iloc[0]
    for part in e.evidence:
        assert part.value == pytest.approx(row[part.name])
    assert e.concentration == pytest.approx(row["concentration"])


def test_atoms_are_the_code_by_row_of_the_training_samples():
    order = np.random.default_rng(1).permutation(len(Y))
    clf = SROSRClassifier(n_repeats=3, random_state=0).fit(X[order], Y[order])
    e = clf.explain(SPREAD)
    code = clf.encode([SPREAD]).toarray()[0]
    assert len(e.atoms) == np.count_nonzero(code)
    sizes = [abs(atom.coefficient) for atom in e.atoms]
    assert sizes == sorted(sizes, reverse=True)
    unit = X[order] / np.linalg.norm(X[order], axis=1, keepdims=True)
    rebuilt = sum(atom.coefficient * unit[atom.row] for atom in e.atoms)
    assert np.linalg.norm(SPREAD / np.linalg.norm(SPREAD) - rebuilt) == pytest.approx(e.residual, abs=1e-9)
    for atom in e.atoms:
        assert Y[order][atom.row] == atom.label
        check_same(atom.coefficient, code[atom.atom])
    assert sum(atom.share for atom in e.atoms) == pytest.approx(1)
    for label, share in e.shares.items():
        assert share == pytest.approx(sum(atom.share for atom in e.atoms if atom.label == label))


def test_position_and_usual_values_are_those_of_held_out_samples_of_the_candidate(clf):
    e = clf.explain(X[0])
    rows = clf.calibration_.held_out
    rows = rows[rows.truth == 0]
    value = clf.evidence(X[:1]).iloc[0]
    assert (e.compared_with, e.n_compared) == ("class", len(rows))
    assert e.matched_position == np.mean(rows.values[:, 0] < value["matched"])
    assert e.nonmatched_position == np.mean(rows.values[:, 1] > value["nonmatched"])
    assert e.usual_residual == pytest.approx(np.quantile(rows.values[:, 0], 0.9))
    share = (2 * np.quantile(rows.values[:, 2], 0.1) + 1) / 3
    assert e.usual_share == pytest.approx(share)


def test_without_the_reasons_the_sample_would_have_been_accepted(clf):
    for x in (SPREAD, X[0] + X[20], X[25] + X[45]):
        e = clf.explain(x)
        assert e.rejected and e.reasons and e.reasons_suffice
        assert e.reasons == tuple(part.name for part in e.evidence[: len(e.reasons)])
        left = [part.contribution for part in e.evidence[len(e.reasons) :]]
        rule = clf.calibration_.rule
        assert rule.distribution.cdf(sum(left)) <= e.threshold
        assert rule.distribution.cdf(sum(left) + e.evidence[len(e.reasons) - 1].contribution) > e.threshold


# --- what explain takes ---


def test_one_sample_can_come_as_vector_row_series_or_table(clf):
    expected = clf.explain(SPREAD).to_dict()
    for x in (SPREAD.tolist(), SPREAD[None], [SPREAD.tolist()], pd.DataFrame([SPREAD]), pd.Series(SPREAD)):
        check_same(clf.explain(x).to_dict(), expected)


def test_feature_names_are_checked_as_predict_does():
    names = [f"pixel {i}" for i in range(X.shape[1])]
    table = pd.DataFrame(X, columns=names)
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(table, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_same(clf.explain(table.iloc[3]).to_dict(), clf.explain(table.iloc[[3]]).to_dict())
    with pytest.raises(ValueError, match="same order"):
        clf.explain(table.iloc[3][::-1])
    with pytest.raises(ValueError, match="feature names"):
        clf.explain(table.iloc[3].rename({"pixel 0": "elsewhere"}))
    with pytest.warns(UserWarning, match="feature names"):
        clf.explain(X[3])


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (X[:2], r"one sample.*\(2, 13\).*X\[i\]"),
        (X[:0], "one sample"),
        (pd.DataFrame(X[:2]), r"X.iloc\[i\]"),
        (1.0, "one sample"),
        ([[1.0, 2.0], [3.0]], "different lengths"),
        (X[0, :5], "5 features"),
        (np.full(13, np.nan), "NaN"),
    ],
)
def test_anything_else_raises_and_says_what_to_pass(clf, x, says):
    with pytest.raises(ValueError, match=says):
        clf.explain(x)


def test_similarities_of_one_sample_explain_it_as_its_features_do(clf):
    gram = SROSRClassifier(kernel="precomputed", n_repeats=5, random_state=0).fit(X @ X.T, Y)
    queries = Queries((X[:2] + SPREAD) @ X.T, ((X[:2] + SPREAD) ** 2).sum(axis=1))
    e, expected = gram.explain(queries[:1]), clf.explain(X[0] + SPREAD)
    assert e.candidate == expected.candidate
    assert e.unknown_score == pytest.approx(expected.unknown_score, abs=1e-6)
    coefficients, wanted = ({atom.row: atom.coefficient for atom in found.atoms} for found in (e, expected))
    assert coefficients == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(ValueError, match=r"queries\[i : i \+ 1\]"):
        gram.explain(queries)
    with pytest.raises(ValueError, match="Queries of one sample"):
        gram.explain(X[0])


def test_an_unfitted_recognizer_raises():
    with pytest.raises(NotFittedError):
        SROSRClassifier().explain(X[0])


# --- the words ---


def test_the_text_of_a_rejection_says_score_threshold_class_code_and_reasons(clf):
    e = clf.explain(SPREAD)
    text = str(e)
    assert text == e.text and text.startswith("Rejected: the unknown score ")
    assert f"Class {e.candidate} fits best" in text
    assert f"{100 * e.shares[e.candidate]:.0f} % of the code belongs to class {e.candidate}" in text
    assert f"known samples of class {e.candidate} have at least {100 * e.usual_share:.0f} %" in text
    assert f"row {e.atoms[0].row} (class {e.atoms[0].label}" in text
    assert "Had these been as in the average known sample, it would have been accepted." in text or "Had this" in text


def test_the_text_of_a_recognized_sample_names_its_class_and_no_reason(clf):
    e = clf.explain(OWN)
    assert not e.rejected and e.reasons == ()
    assert e.text.startswith("Recognized as class 1: the unknown score ")
    assert "does not exceed the threshold" in e.text and "Had th" not in e.text


def test_score_and_threshold_are_written_with_the_digits_it_takes_to_tell_them_apart():
    from srosr.inspection.explanation_text import format_apart

    assert format_apart(0.9, 0.95) == ("0.900", "0.950")
    assert format_apart(0.95001, 0.95) == ("0.95001", "0.95000")
    assert format_apart(0.5, 0.5) == ("0.500", "0.500")


def test_a_sample_of_length_zero_is_rejected_for_that(any_rule):
    e = any_rule.explain(ZERO)
    assert e.rejected and e.unknown_score == 1 and e.log_p_value == -math.inf
    assert e.evidence == e.atoms == e.reasons == ()
    assert e.text == "Rejected: the sample has length zero, so there is nothing to recognize."


def test_a_zero_code_is_reported_as_such(any_rule):
    e = any_rule.explain(ALIEN)
    assert not e.atoms and set(e.shares.values()) == {0.0}
    assert "No training sample helps to reconstruct it" in e.text
    assert "of the code belongs" not in e.text and "fits best" not in e.text


def test_a_code_concentrated_on_another_class_than_the_candidate_is_reported(clf):
    found = [e for e in map(clf.explain, np.random.default_rng(0).random((60, X.shape[1]))) if _leans_elsewhere(e)]
    assert found
    for e in found:
        heaviest = max(e.shares, key=e.shares.get)
        assert f", less than the {100 * e.shares[heaviest]:.0f} % of class {heaviest}" in e.text


def _leans_elsewhere(e):
    return max(e.shares, key=e.shares.get) != e.candidate


def test_a_threshold_that_rejects_ordinary_samples_is_blamed_for_it():
    strict = SROSRClassifier(n_repeats=5, threshold=0.0, random_state=0).fit(X, Y)
    e = strict.explain(OWN)
    assert e.rejected and not e.reasons_suffice
    assert ("low threshold" in e.text) == (not e.reasons)
    lenient = SROSRClassifier(n_repeats=5, threshold=1.0, random_state=0).fit(X, Y)
    e = lenient.explain(SPREAD)
    assert not e.rejected and e.text.startswith("Recognized")
    assert json.loads(json.dumps(e.to_dict()))["score_threshold"] is None


def test_two_classes_are_explained_without_simulated_openness():
    A, b = samples(2)
    clf = SROSRClassifier(n_repeats=5, random_state=0).fit(A, b)
    e = clf.explain(A.mean(axis=0))
    assert {e.candidate, e.next_candidate} == {0, 1}
    assert "Class" in e.text


def test_classes_of_one_sample_are_explained_and_their_score_is_not_called_a_p_value():
    A, b = samples(4, 1)
    with pytest.warns(CalibrationWarning):
        clf = SROSRClassifier(n_repeats=5, random_state=0).fit(A, b)
    e = clf.explain(A[2])
    assert not e.is_p_value and math.isnan(e.matched_probability) and e.compared_with == "none"
    assert "share of simulated unknowns" in e.text and "known samples score" not in e.text
    assert "ine in ten" not in e.text and "average known sample" not in e.text
    assert math.isnan(e.matched_position) and math.isnan(e.usual_residual)
    json.dumps(e.to_dict(), allow_nan=False)


def test_a_small_class_is_compared_with_known_samples_of_all_classes():
    few = np.r_[np.flatnonzero(Y != 2), np.flatnonzero(Y == 2)[:3]]
    clf = SROSRClassifier(n_repeats=5, random_state=0).fit(X[few], Y[few])
    e = clf.explain(X[Y == 2][10])
    assert e.candidate == 2 and e.compared_with == "all"
    assert "ine in ten known samples leave" in e.text and "known samples of class 2" not in e.text


def test_residuals_of_samples_that_keep_their_length_are_shares_of_it():
    clf = SROSRClassifier(Lasso(0.02), normalize=False, n_repeats=5, random_state=0).fit(10 * X, Y)
    e = clf.explain(10 * SPREAD)
    assert e.length == pytest.approx(10 * np.linalg.norm(SPREAD))
    assert f"leaves {100 * e.residuals[e.candidate] / e.length:.0f} % of the sample's length" in e.text
    assert f"leave at most {e.usual_residual:.3g} (here {min(e.residuals.values()):.3g})" in e.text


@pytest.mark.parametrize("problem", [BPDN(0.05), Ridge(0.1), OMP(3)])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_every_problem_and_kernel_can_be_explained(problem, kernel):
    clf = SROSRClassifier(problem, kernel=kernel, n_repeats=2, random_state=0).fit(X, Y)
    e = clf.explain(SPREAD)
    assert e.label == clf.predict([SPREAD])[0]
    assert (e.pictures is None) == (kernel == "rbf")
    assert e.text


def test_labels_of_text_explain_and_go_into_json():
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X, np.array(["Ann", "Bob", "Zoë"])[Y])
    e = clf.explain(SPREAD)
    assert e.label == clf.predict([SPREAD])[0] == "unknown"
    table = json.loads(json.dumps(e.to_dict(), allow_nan=False))
    assert table["text"] == e.text
    assert [one["label"] for one in table["residuals"]] == ["Ann", "Bob", "Zoë"]


def test_a_dictionary_of_it_is_json_with_all_numbers_but_the_pictures(clf):
    e = clf.explain(SPREAD)
    table = json.loads(json.dumps(e.to_dict(), allow_nan=False))
    assert table["unknown_score"] == e.unknown_score
    assert table["residuals"] == [{"label": k, "value": r} for k, r in e.residuals.items()]
    assert table["atoms"][0]["row"] == e.atoms[0].row
    assert "sample" not in table and "pictures" not in table
    assert clf.explain(ZERO).to_dict()["log_p_value"] is None


def test_html_escapes_labels():
    labels = np.array(["<b>", "&", "c"])[Y]
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X, labels)
    html = clf.explain(X[0])._repr_html_()
    assert "class <b>" not in html and "&lt;b&gt;" in html

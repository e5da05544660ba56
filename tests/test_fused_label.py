"""The candidate is the class of the largest fused class score, whose weights held-out samples choose."""

import re

import numpy as np
import pytest
from fitted import fit_once
from same import check_same, check_same_labels, check_same_model, check_same_text
from scipy.optimize import minimize
from sklearn.utils import check_random_state
from worlds import World

from srosr import Dictionary, Lasso, SROSRClassifier, load, sparse_encode
from srosr.evidence.class_scores import CLASS_SCORES, ClassScorer, HoldOut
from srosr.evidence.residuals import class_residuals
from srosr.scoring.fusion import (
    CLASS_PRIOR,
    FAVORED_CLASS_PRIOR,
    FAVORED_CLASS_SCORES,
    LEAST_RESIDUAL,
    fit_class_fusion,
)
from srosr.scoring.splits import draw_cross_splits, draw_folds

RNG = np.random.default_rng
SIZES = (14, 9, 12, 3, 16)


def recognizer(**parameters):
    return SROSRClassifier(Lasso(0.05), **({"n_repeats": 3, "random_state": 0} | parameters))


@pytest.fixture(scope="module")
def data():
    """Return training samples, their classes, and new samples of known and unknown classes."""
    world = World(0, n_known=5, n_features=10, noise=0.8)
    X, y = world.known(SIZES)
    return X, y, np.vstack([world.fresh(40)[0], world.unknowns(20)])


@pytest.fixture(scope="module")
def fused(data):
    return fit_once(recognizer(), *data[:2])


@pytest.fixture(scope="module")
def by_residual(data):
    return fit_once(recognizer(label_by="residual"), *data[:2])


def residuals_of(clf, X):
    return class_residuals(X, clf.encode(X), clf.dictionary_)


# --- the weights -----------------------------------------------------------------------------------------


def draw_scores(seed, n=120, n_classes=5, strengths=(0.8, 2.0, 0.0, -0.6)):
    """Return batches of class scores of four kinds, each as clear about the truth as its strength, and the truth."""
    rng = RNG(seed)
    kinds = ("residual", "collaborative", "nearest", "gaussian")
    truth = rng.integers(0, n_classes, n)
    own = np.eye(n_classes)[truth]
    units = (0.01, 1.0, 50.0, 3.0)
    scores = {
        kind: unit * (strength * own + rng.standard_normal((n, n_classes)) + rng.standard_normal((n, 1)))
        for kind, strength, unit in zip(kinds, strengths, units, strict=True)
    }
    parts = np.split(np.arange(n), [n // 3, n // 2])
    return kinds, [{kind: s[rows] for kind, s in scores.items()} for rows in parts], [truth[rows] for rows in parts]


def scale_by_hand(kinds, batches):
    """Return the root mean square difference of the scores of a sample from their mean."""
    whole = [np.concatenate([batch[kind] for batch in batches]) for kind in kinds]
    return np.array([np.sqrt(np.mean((s - s.mean(axis=1, keepdims=True)) ** 2)) for s in whole])


def minimize_by_hand(kinds, batches, truth):
    """Return the objective of the formula, and the weights that sequential quadratic programming finds for it."""
    scale, classes = scale_by_hand(kinds, batches), np.concatenate(truth)
    scores = np.stack([np.concatenate([batch[kind] for batch in batches]) for kind in kinds], axis=2) / scale
    n = len(classes)

    def objective(w):
        total = scores @ w
        total -= total.max(axis=1, keepdims=True)
        loss = np.log(np.exp(total).sum(axis=1)) - total[np.arange(n), classes]
        return loss.mean() + 0.5 / n * ((w - find_prior(kinds)) ** 2).sum()

    bounds = [(0.05 if kind == "residual" else 0.0, None) for kind in kinds]
    starts = np.full(len(kinds), 0.1), np.full(len(kinds), 3.0)
    found = [
        minimize(objective, s, method="SLSQP", bounds=bounds, options={"ftol": 1e-13, "maxiter": 500}) for s in starts
    ]
    np.testing.assert_allclose(found[0].x, found[1].x, atol=2e-3)
    return objective, min(found, key=lambda result: result.fun).x


@pytest.mark.parametrize("seed", range(4))
def test_weights_are_the_optimum_of_the_formula(seed):
    kinds, batches, truth = draw_scores(seed)
    found = fit_class_fusion(kinds, batches, truth)
    objective, expected = minimize_by_hand(kinds, batches, truth)
    np.testing.assert_allclose(found.scale, scale_by_hand(kinds, batches))
    assert objective(found.weights) <= objective(expected) + 1e-7
    np.testing.assert_allclose(found.weights, expected, atol=5e-3)
    assert (found.weights >= 0).all()
    assert found.weights[3] == 0, "a kind that suggests the wrong classes counts nothing, never against its meaning"


def test_the_residual_always_counts_a_little():
    kinds, batches, truth = draw_scores(0, strengths=(-1.0, 2.0, 0.5, 0.5))
    found = fit_class_fusion(kinds, batches, truth)
    assert found.weights[0] == LEAST_RESIDUAL == 0.05
    np.testing.assert_allclose(found.weights, minimize_by_hand(kinds, batches, truth)[1], atol=5e-3)


def test_a_kind_of_noise_gets_nearly_no_weight():
    kinds, batches, truth = draw_scores(1, n=4000, strengths=(1.0, 2.0, 0.0, 0.0))
    weights = fit_class_fusion(kinds, batches, truth).weights
    assert weights[2:].max() < 0.05 * weights[1]
    assert 0 < weights[0] < weights[1], "the clearer kind counts more"


def test_weights_that_generated_the_classes_are_found():
    """Classes drawn from the model itself, with known weights."""
    rng = RNG(2)
    kinds, right = ("residual", "local", "nearest"), np.array([0.4, 1.5, 0.0])
    scores = rng.standard_normal((20_000, 4, 3))
    chances = np.exp(scores @ right)
    chances /= chances.sum(axis=1, keepdims=True)
    truth = (rng.random((len(chances), 1)) > chances.cumsum(axis=1)).sum(axis=1)
    fusion = fit_class_fusion(kinds, [{kind: scores[:, :, j] for j, kind in enumerate(kinds)}], [truth])
    np.testing.assert_allclose(fusion.weights / fusion.scale, right, atol=0.06)


def test_weights_of_very_many_numbers_are_fitted_to_evenly_spaced_samples_of_every_batch(monkeypatch):
    kinds, batches, truth = draw_scores(6, n=600)
    n_numbers = sum(map(len, truth)) * batches[0][kinds[0]].shape[1] * len(kinds)
    every = fit_class_fusion(kinds, batches, truth)
    monkeypatch.setattr("srosr.scoring.fusion.MOST_NUMBERS", n_numbers)
    np.testing.assert_array_equal(fit_class_fusion(kinds, batches, truth).weights, every.weights)
    monkeypatch.setattr("srosr.scoring.fusion.MOST_NUMBERS", n_numbers // 3)
    fewer = fit_class_fusion(kinds, batches, truth)
    np.testing.assert_array_equal(fewer.scale, every.scale)
    third = [{kind: scores[::3] for kind, scores in batch.items()} for batch in batches]
    monkeypatch.undo()
    scales = iter(every.scale)  # these come from all samples
    monkeypatch.setattr("srosr.scoring.fusion._measure_spread", lambda batches: next(scales))
    expected = fit_class_fusion(kinds, third, [classes[::3] for classes in truth])
    np.testing.assert_array_equal(fewer.weights, expected.weights)


def find_prior(kinds):
    return np.array([FAVORED_CLASS_PRIOR if kind in FAVORED_CLASS_SCORES else CLASS_PRIOR for kind in kinds])


def test_fewer_samples_leave_the_weights_nearer_to_the_prior():
    distances = []
    for n in (6, 60, 600):
        kinds, batches, truth = draw_scores(3, n=n, strengths=(0.0, 3.0, 0.0, 0.0))
        distances.append(np.linalg.norm(fit_class_fusion(kinds, batches, truth).weights - find_prior(kinds)))
    assert distances[0] < distances[1] < distances[2]


def test_without_known_samples_the_weights_are_the_prior_which_favors_kinds_that_differ_with_one_sample_a_class():
    kinds, batches, _ = draw_scores(4)
    fusion = fit_class_fusion(kinds, batches, None)
    np.testing.assert_array_equal(fusion.weights, find_prior(kinds))
    assert (
        set(FAVORED_CLASS_SCORES) == {"residual", "collaborative", "standardized"}
        and FAVORED_CLASS_PRIOR > CLASS_PRIOR > 0
    )
    np.testing.assert_allclose(fusion.scale, scale_by_hand(kinds, batches))


def test_units_offsets_and_the_order_of_classes_samples_and_kinds_do_not_matter():
    kinds, batches, truth = draw_scores(5)
    expected = fit_class_fusion(kinds, batches, truth)
    rng = RNG(5)
    scores = {kind: np.concatenate([batch[kind] for batch in batches]) for kind in kinds}
    classes = np.concatenate(truth)
    order, rows = rng.permutation(5), rng.permutation(len(classes))
    other = {kind: 1e3 * s[rows][:, order] + rng.standard_normal((len(rows), 1)) for kind, s in scores.items()}
    found = fit_class_fusion(kinds[::-1], [other], [np.argsort(order)[classes[rows]]])
    np.testing.assert_allclose(found.weights[::-1], expected.weights, atol=2e-3)
    np.testing.assert_allclose(found.scale[::-1], 1e3 * expected.scale)


@pytest.mark.parametrize("constant", [0.0, 0.7, 1e150])
def test_a_kind_that_says_the_same_of_all_classes_changes_nothing(constant):
    kinds, batches, truth = draw_scores(6)
    for batch in batches:
        batch["gaussian"] = np.full_like(batch["gaussian"], constant)
    fusion = fit_class_fusion(kinds, batches, truth)
    assert fusion.scale[3] == 1.0
    combined = fusion.combine(batches[0])
    without = fusion.combine(batches[0] | {"gaussian": np.zeros_like(batches[0]["gaussian"])})
    if constant < 1:
        np.testing.assert_allclose(np.diff(combined, axis=1), np.diff(without, axis=1), atol=1e-9)
    np.testing.assert_allclose(fusion.weights[3], CLASS_PRIOR, atol=1e-6)
    assert np.isfinite(combined).all()


def test_the_fused_score_is_the_weighted_sum():
    kinds, batches, truth = draw_scores(7)
    fusion = fit_class_fusion(kinds, batches, truth)
    expected = sum(w * batches[0][kind] / s for kind, w, s in zip(kinds, fusion.weights, fusion.scale, strict=True))
    np.testing.assert_allclose(fusion.combine(batches[0]), expected, atol=1e-12)


# --- the recognizer ---------------------------------------------------------------------------------------


def test_a_fit_learns_the_weights_on_samples_that_are_held_out(data, fused):
    """The folds are drawn again, their samples coded over a dictionary of the others, and the formula is minimized."""
    X, y, _ = data
    dictionary = Dictionary(X, y, normalize=True)
    rng = check_random_state(0)
    list(draw_cross_splits(dictionary.class_slices, 3, 0.2, rng))
    folds = list(draw_folds(dictionary.class_slices, rng))
    scorer = ClassScorer(dictionary, CLASS_SCORES, [HoldOut(fold, fold, np.arange(5)) for fold in folds])
    batches = []
    for fold, scores in zip(folds, scorer.held_out, strict=True):
        rest = Dictionary(np.delete(X, fold, axis=0), np.delete(y, fold), normalize=True)
        errors = class_residuals(X[fold], sparse_encode(X[fold], rest, Lasso(0.05)), rest)
        batches.append(scores.by_kind | {"residual": -errors})
    truth = [y[fold] for fold in folds]
    objective, expected = minimize_by_hand(CLASS_SCORES, batches, truth)
    assert objective(fused.class_weights_) <= objective(expected) + 1e-6
    # Kinds resemble each other, so that different weights nearly give the same scores: these are compared.
    scale = scale_by_hand(CLASS_SCORES, batches)
    np.testing.assert_allclose(fused.calibration_.class_fusion.scale, scale, rtol=1e-5)
    for weights in (fused.class_weights_, expected):
        total = [
            sum(w / s * batch[k] for k, w, s in zip(CLASS_SCORES, weights, scale, strict=True)) for batch in batches
        ]
        candidate = np.concatenate([part.argmax(axis=1) for part in total])
        assert (fused.calibration_.held_out.candidate == candidate).mean() > (0.98 if weights is expected else 0.999)


def test_class_scores_are_the_weighted_sum_of_the_kinds(data, fused):
    X, y, new = data
    assert fused.class_score_names_ == CLASS_SCORES
    assert fused.class_weights_.shape == (8,) and (fused.class_weights_ >= 0).all()
    assert fused.class_weights_[0] >= LEAST_RESIDUAL
    dictionary = Dictionary(X, y, normalize=True)
    scores = ClassScorer(dictionary, CLASS_SCORES).score(dictionary.query(new)).by_kind
    scores["residual"] = -residuals_of(fused, new)
    scale = fused.calibration_.class_fusion.scale
    expected = sum(w * scores[k] / s for k, w, s in zip(CLASS_SCORES, fused.class_weights_, scale, strict=True))
    np.testing.assert_allclose(fused.class_scores(new), expected, rtol=1e-7, atol=1e-7)


def test_the_candidate_is_the_class_of_the_largest_fused_score(data, fused):
    new = data[2]
    best = fused.classes_[fused.class_scores(new).argmax(axis=1)]
    np.testing.assert_array_equal(fused.candidate(new), best)
    np.testing.assert_array_equal(fused.evidence(new)["candidate"], best)
    labels = fused.predict(new)
    np.testing.assert_array_equal(labels[labels != -1], best[labels != -1])
    top = np.sort(fused.class_scores(new), axis=1)
    np.testing.assert_allclose(fused.evidence(new)["fused"], top[:, -1], atol=1e-12)
    np.testing.assert_allclose(fused.evidence(new)["fused_margin"], top[:, -1] - top[:, -2], atol=1e-12)


def test_by_residual_the_candidate_is_that_of_the_smallest_residual(data, fused, by_residual):
    new = data[2]
    residuals = residuals_of(by_residual, new)
    np.testing.assert_allclose(by_residual.class_scores(new), -residuals, atol=1e-9)
    np.testing.assert_array_equal(by_residual.candidate(new), residuals.argmin(axis=1))
    assert (by_residual.candidate(new) != fused.candidate(new)).any(), "the example does not tell the two apart"


def test_the_label_does_not_change_the_unknown_score(data, fused, by_residual):
    new = data[2]
    scores, threshold = fused.unknown_score(new), fused.threshold_
    check_same(by_residual.unknown_score(new), scores)
    check_same(by_residual.log_p_value(new), fused.log_p_value(new))
    check_same(by_residual.threshold_, threshold)
    check_same_labels(by_residual.predict(new) == -1, fused.predict(new) == -1, scores, threshold)
    held_out = [clf.calibration_.held_out for clf in (fused, by_residual)]
    check_same(held_out[0].values, held_out[1].values)
    np.testing.assert_array_equal(held_out[1].candidate, held_out[0].residual_candidate)


def test_by_residual_and_without_its_evidence_nothing_is_fused(data, by_residual):
    X, y, new = data
    plain = recognizer(label_by="residual", evidence_kinds=["matched", "collaborative"]).fit(X, y)
    assert plain.class_score_names_ == ("residual",)
    np.testing.assert_array_equal(plain.class_weights_, [1.0])
    check_same(plain.class_scores(new), by_residual.class_scores(new))


@pytest.mark.parametrize("rule", ["paper", "matched"])
def test_the_rules_of_the_paper_always_label_by_the_residual(data, rule):
    X, y, new = data
    one, other = (recognizer(rule=rule, label_by=label_by).fit(X, y) for label_by in ("fused", "residual"))
    check_same(one.class_scores(new), other.class_scores(new))
    check_same_model(one, other, new)
    np.testing.assert_allclose(one.class_scores(new), -residuals_of(one, new), atol=1e-9)
    assert one.class_score_names_ == ("residual",)
    np.testing.assert_array_equal(one.class_weights_, [1.0])
    assert one.explain(new[0]).class_evidence == ()


@pytest.mark.parametrize("seed", range(3))
def test_where_columns_differ_in_scale_the_fused_label_finds_what_the_residual_does_not(seed):
    """The classes differ in columns that a few large columns of noise hide."""
    world, rng = World(seed, n_known=4, n_features=8), RNG(seed)
    X, y = world.known(12)
    new, truth = world.fresh(150)
    X, new = (np.column_stack([part, 60 * rng.standard_normal((len(part), 3))]) for part in (X, new))
    clf = recognizer().fit(X, y)
    weights = dict(zip(clf.class_score_names_, clf.class_weights_, strict=True))
    assert weights["standardized"] + weights["standardized_nearest"] > weights["nearest"] + weights["subspace"]
    residual = residuals_of(clf, new).argmin(axis=1)
    assert (clf.candidate(new) == truth).mean() > (residual == truth).mean() + 0.1


def test_two_classes_are_labeled_by_the_fused_score_too(data):
    X, y, new = data
    clf = recognizer().fit(X[y < 2], y[y < 2])
    assert clf.class_score_names_ == CLASS_SCORES
    np.testing.assert_array_equal(clf.candidate(new), clf.class_scores(new).argmax(axis=1))


@pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")
def test_one_sample_of_each_class_leaves_the_prior():
    world = World(3, n_known=6, n_features=15)
    X, y = world.known(1)
    clf = recognizer().fit(X, y)
    np.testing.assert_array_equal(clf.class_weights_, find_prior(clf.class_score_names_))
    assert np.isfinite(clf.class_scores(world.fresh(5)[0])).all()


def test_a_sample_of_length_zero_has_finite_class_scores_and_is_rejected(fused):
    assert np.isfinite(fused.class_scores(np.zeros((1, 10)))).all()
    assert fused.predict(np.zeros((1, 10)))[0] == -1


# --- what must not matter ---------------------------------------------------------------------------------


def test_the_length_of_a_sample_does_not_matter(data, fused):
    new = data[2]
    lengths = 10.0 ** RNG(0).uniform(-8, 8, (len(new), 1))
    np.testing.assert_allclose(fused.class_scores(new * lengths), fused.class_scores(new), rtol=1e-7, atol=1e-7)
    check_same_labels(fused.predict(new * lengths), fused.predict(new), fused.unknown_score(new), fused.threshold_)


def test_threads_change_neither_weights_nor_answers(data, fused):
    X, y, new = data
    other = recognizer(n_jobs=2).fit(X, y)
    check_same(other.class_weights_, fused.class_weights_)
    check_same(other.evidence_weights_, fused.evidence_weights_)
    check_same(other.class_scores(new), fused.class_scores(new))
    check_same_model(other, fused, new)


def test_the_names_of_the_classes_do_not_matter(data, fused):
    X, y, new = data
    names = np.array(["ant", "bee", "cow", "doe", "eel"])
    other = recognizer().fit(X, names[y])
    check_same(other.class_scores(new), fused.class_scores(new))
    np.testing.assert_array_equal(other.candidate(new), names[fused.candidate(new)])


@pytest.mark.parametrize("kind", [kind for kind in CLASS_SCORES if kind != "residual"])
def test_other_numbers_of_the_classes_only_change_places(data, kind):
    X, y, new = data
    order = np.array([3, 0, 4, 1, 2])
    first, second = (Dictionary(X, labels, normalize=True) for labels in (y, order[y]))
    scores = [ClassScorer(d, [kind]).score(d.query(new)).by_kind[kind] for d in (first, second)]
    np.testing.assert_allclose(scores[1][:, order], scores[0], rtol=1e-8, atol=1e-8)


def test_the_order_of_the_rows_of_new_samples_does_not_matter(data, fused):
    new = data[2]
    rows = RNG(1).permutation(len(new))
    np.testing.assert_allclose(fused.class_scores(new[rows]), fused.class_scores(new)[rows], rtol=1e-9, atol=1e-9)


# --- classes that come and go, files ----------------------------------------------------------------------


def test_a_class_added_or_removed_leaves_the_weights_as_they_were(data, fused):
    X, y, new = data
    clf = fit_once(recognizer(), X, y)
    extra = World(9, n_known=1, n_features=10).known(8)[0]
    for change in (lambda: clf.add_class(extra, 7), lambda: clf.remove_class(2), lambda: clf.remove_class(7)):
        change()
        np.testing.assert_array_equal(clf.class_weights_, fused.class_weights_)
        np.testing.assert_array_equal(clf.calibration_.class_fusion.scale, fused.calibration_.class_fusion.scale)
        np.testing.assert_array_equal(clf.evidence_weights_, fused.evidence_weights_)
        assert clf.class_score_names_ == CLASS_SCORES
        # The scores themselves are those over the classes there are now.
        dictionary = clf.dictionary_
        scores = ClassScorer(dictionary, CLASS_SCORES).score(dictionary.query(new)).by_kind
        scores["residual"] = -residuals_of(clf, new)
        expected = clf.calibration_.class_fusion.combine(scores)
        np.testing.assert_allclose(clf.class_scores(new), expected, rtol=1e-7, atol=1e-7)
        np.testing.assert_array_equal(clf.candidate(new), clf.classes_[expected.argmax(axis=1)])
    assert clf.classes_.tolist() == [0, 1, 3, 4]


def test_a_new_class_is_a_candidate_at_once(data):
    X, y, _ = data
    clf = fit_once(recognizer(), X, y)
    other = World(9, n_known=1, n_features=10)
    clf.add_class(other.known(12)[0], 7)
    assert (clf.candidate(other.fresh(40)[0]) == 7).mean() > 0.9


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"label_by": "residual"},
        {"evidence_kinds": ["matched", "gaussian", "fused"]},
        {"label_by": "residual", "evidence_kinds": ("ratio", "standardized_margin")},
        {"label_by": "residual", "evidence_kinds": ["matched"]},
        {"kernel": "rbf", "gamma": 0.05, "normalize": False},
        {"calibration": "split"},
        {"rule": "paper"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::srosr.exceptions.CalibrationWarning")
def test_a_file_keeps_weights_and_answers(data, tmp_path, parameters):
    X, y, new = data
    clf = fit_once(recognizer(**parameters), X, y)
    clf.save(tmp_path / "model")
    other = load(tmp_path / "model")
    assert other.class_score_names_ == clf.class_score_names_
    assert other.evidence_names_ == clf.evidence_names_
    for name in ("class_weights_", "evidence_weights_"):
        np.testing.assert_array_equal(getattr(other, name), getattr(clf, name))
    check_same(other.class_scores(new), clf.class_scores(new))
    check_same_model(other, clf, new)
    check_same(other.evidence(new).to_dict("list"), clf.evidence(new).to_dict("list"))
    assert other.label_by == clf.label_by or clf.rule != "calibrated"
    assert list(other.evidence_kinds) == list(clf.evidence_kinds)
    check_same_text(other.explain(new[0]).text, clf.explain(new[0]).text)
    # A class more, and both still agree.
    extra = World(9, n_known=1, n_features=10).known(6)[0]
    check_same(other.add_class(extra, 7).class_scores(new), clf.add_class(extra, 7).class_scores(new))


def test_a_file_of_very_small_features_loads_again(data, tmp_path):
    X, y, new = data
    clf = recognizer(normalize=False).fit(1e-150 * X, y)
    clf.save(tmp_path / "model")
    check_same(load(tmp_path / "model").class_scores(1e-150 * new), clf.class_scores(1e-150 * new))


# --- explanations -----------------------------------------------------------------------------------------


def test_an_explanation_splits_the_lead_of_the_candidate_into_kinds(data, fused):
    new = data[2][::5]
    scores = fused.class_scores(new)
    residuals = residuals_of(fused, new)
    for x, row, errors in zip(new, scores, residuals, strict=True):
        e = fused.explain(x)
        best, second = np.argsort(-row)[:2]
        assert (e.candidate, e.next_candidate) == (best, second)
        assert e.residual_candidate == errors.argmin()
        assert list(e.class_scores.values()) == pytest.approx(row, abs=1e-8)
        assert {part.name for part in e.class_evidence} == set(CLASS_SCORES)
        leads = [part.lead for part in e.class_evidence]
        assert leads == sorted(leads, reverse=True)
        assert sum(leads) == pytest.approx(row[best] - row[second], abs=1e-7)
        weights = dict(zip(CLASS_SCORES, fused.class_weights_, strict=True))
        scale = dict(zip(CLASS_SCORES, fused.calibration_.class_fusion.scale, strict=True))
        for part in e.class_evidence:
            assert part.weight == weights[part.name]
            assert part.lead == pytest.approx(part.weight * (part.candidate - part.next_candidate) / scale[part.name])
        own = next(part for part in e.class_evidence if part.name == "residual")
        assert (own.candidate, own.next_candidate) == pytest.approx((-errors[best], -errors[second]), abs=1e-8)


def test_an_explanation_by_residual_has_no_kinds_to_split_it_into(data, by_residual):
    e = by_residual.explain(data[2][0])
    assert e.class_evidence == ()
    assert e.candidate == e.residual_candidate
    assert list(e.class_scores.values()) == pytest.approx([-r for r in e.residuals.values()])


def test_where_the_residual_prefers_another_class_the_text_names_it_and_what_it_leaves(data, fused):
    new = data[2]
    other = np.flatnonzero(residuals_of(fused, new).argmin(axis=1) != fused.candidate(new))
    assert len(other)
    for x in new[other]:
        e = fused.explain(x)
        assert e.residual_candidate != e.candidate
        paragraph = e.text.split("\n")[1]
        for label in (e.candidate, e.residual_candidate):
            assert f"{100 * e.residuals[label] / e.length:.0f} %" in paragraph
        assert re.search(rf"class {e.residual_candidate}\b", paragraph)
        assert "in the class that leaves least." in e.text  # by which known samples are compared

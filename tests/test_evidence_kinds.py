"""Kinds of evidence: which are used, how they are weighed, and that bad input leaves all of them finite."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from fitted import fit_once
from same import check_same, check_same_candidates, check_same_model
from scale import slow_except
from scipy.optimize import minimize
from scipy.stats import kstest
from sklearn.metrics import roc_auc_score
from worlds import World

from srosr import Dictionary, Lasso, Queries, SROSRClassifier, class_residuals, load
from srosr.evidence.class_scores import CLASS_SCORES, NEED_FEATURES, ClassScorer
from srosr.evidence.table import DIRECTION, EVIDENCE, FIRST_EVIDENCE, list_class_scores, list_evidence
from srosr.exceptions import CalibrationWarning, CertificateWarning, ModelFileError
from srosr.model_files.file_format import write_model
from srosr.model_files.srosr_state import get_state
from srosr.scoring.fusion import FAVORED, FAVORED_PRIOR, PRIOR, STRENGTHS, find_prior, fit_fusion

RNG = np.random.default_rng
SIGNS = np.array([DIRECTION[name] for name in EVIDENCE])
TODAY = ("matched", "nonmatched", "concentration", "ratio", "surplus", "collaborative", "margin", "subspace")


def recognizer(**parameters):
    return SROSRClassifier(Lasso(0.05), **({"n_repeats": 3, "random_state": 0} | parameters))


@pytest.fixture(scope="module")
def data():
    """Return training samples, their classes, new known and unknown samples."""
    world = World(0, n_known=5, n_features=10, noise=0.6)
    X, y = world.known((14, 9, 12, 3, 16))
    return X, y, world.fresh(60)[0], world.unknowns(60)


@pytest.fixture(scope="module")
def auto(data):
    return fit_once(recognizer(), *data[:2])


# --- which kinds are used ---------------------------------------------------------------------------------


def test_by_default_all_kinds_are_used(data, auto):
    assert auto.evidence_names_ == EVIDENCE
    assert len(EVIDENCE) == len(set(EVIDENCE)) == 18
    assert auto.evidence_weights_.shape == (18,)
    assert list(auto.evidence(data[2]).columns) == [*EVIDENCE, "candidate", "unknown_score"]


@pytest.mark.parametrize(
    "kinds",
    [["matched"], ["standardized_nearest"], "gaussian", TODAY, ("fused", "nearest", "matched"), np.array(["margin"])],
    ids=str,
)
@pytest.mark.parametrize("label_by", ["fused", "residual"])
def test_named_kinds_alone_are_used_in_their_order(data, auto, kinds, label_by):
    X, y, known, _ = data
    clf = fit_once(recognizer(evidence_kinds=kinds, label_by=label_by), X, y)
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    assert clf.evidence_names_ == tuple(sorted(names, key=EVIDENCE.index))
    table = clf.evidence(known)
    assert list(table.columns) == [*clf.evidence_names_, "candidate", "unknown_score"]
    weights = clf.calibration_.rule.fusion.weights
    used = np.isin(EVIDENCE, names)
    np.testing.assert_array_equal(weights[~used], 0.0)
    np.testing.assert_array_equal(weights[used], clf.evidence_weights_)
    assert (clf.evidence_weights_ > 0).any()
    # What a kind says does not depend on which others are used.
    columns = list(clf.evidence_names_)
    np.testing.assert_allclose(table[columns], auto.evidence(known)[columns], rtol=1e-9, atol=1e-9)
    if label_by == "fused":
        check_same(clf.class_scores(known), auto.class_scores(known))


def test_the_eight_kinds_there_were_first_stay_available(data):
    X, y, known, unknown = data
    assert FIRST_EVIDENCE == TODAY == EVIDENCE[:8]
    clf = fit_once(recognizer(evidence_kinds=TODAY, label_by="residual"), X, y)
    assert clf.class_score_names_ == ("residual",), "without the fused kinds nothing has to be fused"
    scores = np.concatenate([clf.unknown_score(known), clf.unknown_score(unknown)])
    assert roc_auc_score(np.repeat([0, 1], 60), scores) > 0.9


@pytest.mark.parametrize("kinds", [["matched"], TODAY, "auto"], ids=str)
def test_the_unknown_score_is_the_weighted_sum_of_the_named_evidence(data, kinds):
    X, y, known, _ = data
    clf = fit_once(recognizer(evidence_kinds=kinds), X, y)
    names = clf.evidence_names_
    used, held_out = np.isin(EVIDENCE, names), clf.calibration_.held_out.values
    signed = held_out[:, used] * SIGNS[used]
    values = clf.evidence(known)[list(names)].to_numpy() * SIGNS[used]
    total = (values - signed.mean(axis=0)) / signed.std(axis=0) @ clf.evidence_weights_
    np.testing.assert_allclose(clf.unknown_score(known), clf.calibration_.rule.distribution.cdf(total), atol=1e-9)


@pytest.fixture(scope="module")
def distinct():
    """Return samples of distinct classes: for training, with their classes, and new ones, the latter half unknown."""
    world = World(3, n_known=5, n_features=20)
    X, y = world.known(15)
    return X, y, np.vstack([world.fresh(100)[0], world.unknowns(100)])


@pytest.mark.parametrize("kind", EVIDENCE)
def test_every_kind_alone_tells_unknown_samples_in_its_direction(distinct, kind):
    X, y, new = distinct
    clf = recognizer(evidence_kinds=[kind], n_repeats=1).fit(X, y)
    is_unknown = np.repeat([0, 1], 100)
    area = roc_auc_score(is_unknown, DIRECTION[kind] * clf.evidence(new)[kind])
    assert area > 0.85
    # The unknown score is a monotone function of the only kind there is.
    assert roc_auc_score(is_unknown, -clf.log_p_value(new)) == pytest.approx(area, abs=0.005)


@pytest.mark.parametrize(
    "kinds",
    [[], (), "collab", ["matched", "collab"], ["Matched"], ["matched", 3], [None], [["matched"]], "", "all", None, 5],
    ids=str,
)
def test_other_names_raise_and_the_error_lists_the_kinds(data, kinds):
    with pytest.raises(ValueError, match=r"evidence_kinds must be \"auto\" or some of matched, .*fused_margin, got"):
        recognizer(evidence_kinds=kinds).fit(*data[:2])


@pytest.mark.parametrize("rule", ["paper", "matched"])
def test_the_rules_of_the_paper_have_their_own_evidence(data, rule):
    X, y, known, _ = data
    clf, plain = (recognizer(rule=rule, evidence_kinds=kinds).fit(X, y) for kinds in (["fused"], "auto"))
    assert clf.evidence_names_ == FIRST_EVIDENCE
    np.testing.assert_array_equal(clf.evidence_weights_, np.zeros(8))
    check_same_model(clf, plain, known)


# --- precomputed kernels ----------------------------------------------------------------------------------


def test_with_a_precomputed_kernel_kinds_that_need_features_are_left_out_and_the_model_says_so(data):
    X, y, known, unknown = data
    X, known, unknown = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (X, known, unknown))
    clf = recognizer(kernel="precomputed").fit(X @ X.T, y)
    gone = {"standardized", "standardized_margin", "standardized_nearest"}
    assert clf.evidence_names_ == tuple(name for name in EVIDENCE if name not in gone)
    assert clf.evidence_names_ == list_evidence(has_features=False)
    assert clf.class_score_names_ == tuple(kind for kind in CLASS_SCORES if kind not in NEED_FEATURES)
    assert clf.class_score_names_ == list_class_scores(has_features=False)
    assert clf.class_weights_.shape == (6,) and clf.evidence_weights_.shape == (15,)
    queries = [Queries(part @ X.T, np.ones(len(part))) for part in (known, unknown)]
    assert list(clf.evidence(queries[0]).columns) == [*clf.evidence_names_, "candidate", "unknown_score"]
    scores = np.concatenate([clf.unknown_score(part) for part in queries])
    assert np.isfinite(scores).all() and roc_auc_score(np.repeat([0, 1], 60), scores) > 0.9
    assert {part.name for part in clf.explain(queries[0][:1]).class_evidence} == set(clf.class_score_names_)


@pytest.mark.parametrize("kind", ["standardized", "standardized_margin", "standardized_nearest"])
def test_naming_one_of_them_with_a_precomputed_kernel_raises(data, kind):
    X, y, *_ = data
    with pytest.raises(ValueError, match=f"evidence_kinds: '{kind}' needs features"):
        recognizer(kernel="precomputed", evidence_kinds=["matched", kind]).fit(X @ X.T, y)


# --- the table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_columns_are_the_formulas_on_class_scores(data, kernel):
    X, y, known, unknown = data
    new = np.vstack([known[:8], unknown[:8]])
    clf = recognizer(kernel=kernel, gamma=0.05).fit(X, y)
    dictionary = Dictionary(X, y, kernel=kernel, gamma=0.05, normalize=True)
    found = ClassScorer(dictionary, CLASS_SCORES).score(dictionary.query(new))
    scores = found.by_kind | {"fused": clf.class_scores(new)}
    table = clf.evidence(new)
    residuals = class_residuals(new, clf.encode(new), clf.dictionary_)
    np.testing.assert_allclose(table["matched"], residuals.min(axis=1), atol=1e-9)
    for i in range(len(new)):
        row = table.iloc[i]
        top = {kind: sorted(s[i], reverse=True) for kind, s in scores.items()}
        for kind, margin in (
            ("collaborative", "margin"),
            ("local", "local_margin"),
            ("standardized", "standardized_margin"),
            ("fused", "fused_margin"),
        ):
            assert row[kind] == pytest.approx(top[kind][0], abs=1e-8)
            assert row[margin] == pytest.approx(top[kind][0] - top[kind][1], abs=1e-8)
        assert row["gaussian"] == pytest.approx(min(-scores["gaussian"][i]) - found.background[0][i], abs=1e-7)
        assert row["gaussian_margin"] == pytest.approx(top["gaussian"][0] - top["gaussian"][1], abs=1e-7)
        for kind in ("nearest", "standardized_nearest"):
            assert row[kind] == pytest.approx(min(-scores[kind][i]), abs=1e-8)
        assert row["subspace"] == pytest.approx(top["subspace"][0] / top["subspace"][1], abs=1e-8)


# --- the weights ------------------------------------------------------------------------------------------


def draw_tables(seed, n=150, names=EVIDENCE):
    """Return the evidence of known samples, and of samples with classes left out of which half are unknown."""
    rng = RNG(seed)
    units, mix = np.geomspace(0.01, 10, 18), 0.2 * rng.standard_normal((18, 18)) + np.eye(18)
    # Some kinds point in the wrong direction: their weight must be zero.
    shift = rng.permutation(np.linspace(-1.0, 1.5, 18))
    unknown = np.arange(2 * n) >= n
    known, simulated = (
        (rng.standard_normal((len(far), 18)) @ mix + far[:, None] * shift) * units * SIGNS * np.isin(EVIDENCE, names)
        for far in (np.zeros(n), unknown)
    )
    return known, simulated, unknown


def weights_by_hand(simulated, unknown, names, prior, strength):
    """Return objective and weights of the formula: mean log-loss of both sides, and the pull of the prior."""
    used = np.isin(EVIDENCE, names)
    turned = (simulated * SIGNS)[:, used]
    z = (turned - turned[~unknown].mean(axis=0)) / turned[~unknown].std(axis=0)

    def objective(b):
        margin = z @ b[:-1] + b[-1]
        loss = np.logaddexp(0, -margin[unknown]).mean() + np.logaddexp(0, margin[~unknown]).mean()
        return loss / 2 + strength * ((b[:-1] - prior[used]) ** 2).sum()

    bounds = [(0.0, None)] * used.sum() + [(None, None)]
    start = np.append(np.ones(used.sum()), 0.0)
    best = minimize(objective, start, method="SLSQP", bounds=bounds, options={"ftol": 1e-13, "maxiter": 1000})
    weights = np.zeros(18)
    weights[used] = best.x[:-1]

    def complete(weights):
        """Return the objective at the best intercept for these weights."""
        return minimize(lambda c: objective(np.append(weights[used], c)), best.x[-1:]).fun

    return complete, weights


@pytest.mark.parametrize(
    ("names", "n_classes"), [(EVIDENCE, 3), (TODAY, 30), (("matched", "gaussian", "fused"), 10), (("nearest",), 3)]
)
def test_weights_are_the_optimum_of_the_formula(names, n_classes):
    known, simulated, unknown = draw_tables(n_classes, names=names)
    truth = np.arange(len(unknown)) % n_classes
    fusion, elsewhere = fit_fusion(known, simulated, unknown, truth, names)
    prior = np.array([0.0 if k not in names else 0.3 if k in FAVORED else 0.03 for k in EVIDENCE])
    by_strength = [weights_by_hand(simulated, unknown, names, prior, strength) for strength in STRENGTHS]
    # The strength is chosen by cross-validation; whichever it is, the weights are the optimum for it.
    objective, expected = min(by_strength, key=lambda found: np.abs(fusion.weights - found[1]).max())
    np.testing.assert_array_equal(fusion.weights, elsewhere.weights)
    assert objective(fusion.weights) <= objective(expected) + 1e-6
    np.testing.assert_allclose(fusion.weights, expected, atol=0.01)
    assert (fusion.weights >= 0).all()
    np.testing.assert_array_equal(fusion.weights[~np.isin(EVIDENCE, names)], 0.0)


def test_the_prior_favors_one_kind_of_each_family_and_is_equal_where_none_of_them_is_used():
    assert set(FAVORED) == {"matched", "collaborative", "subspace", "standardized", "fused"}
    prior = dict(zip(EVIDENCE, find_prior(EVIDENCE), strict=True))
    assert {name for name, weight in prior.items() if weight == FAVORED_PRIOR} == set(FAVORED)
    assert {weight for name, weight in prior.items() if name not in FAVORED} == {PRIOR}
    assert FAVORED_PRIOR > PRIOR > 0
    names = ("ratio", "nearest", "gaussian_margin")
    weights = find_prior(names)
    np.testing.assert_array_equal(weights > 0, np.isin(EVIDENCE, names))
    assert len(set(weights[weights > 0])) == 1


@pytest.mark.parametrize("kinds", ["auto", ["matched", "fused"], ["matched", "nearest"]], ids=str)
def test_two_classes_are_weighed_by_the_prior(data, kinds):
    X, y, known, _ = data
    clf = recognizer(evidence_kinds=kinds).fit(X[y < 2], y[y < 2])
    np.testing.assert_array_equal(clf.calibration_.rule.fusion.weights, find_prior(clf.evidence_names_))
    assert np.isfinite(clf.unknown_score(known)).all()


def test_one_sample_of_each_class_is_weighed_by_the_prior_and_keeps_up_with_the_best_kind():
    areas = []
    for seed in range(5):
        world = World(seed, n_known=8, n_features=30)
        with pytest.warns(CalibrationWarning):
            clf = recognizer().fit(*world.known(1))
        np.testing.assert_array_equal(clf.evidence_weights_, find_prior(EVIDENCE))
        new = np.vstack([world.fresh(100)[0], world.unknowns(100)])
        table, score = clf.evidence(new), -clf.log_p_value(new)
        assert np.isfinite(table[list(EVIDENCE)]).all(axis=None) and np.isfinite(score).all()
        columns = [DIRECTION[kind] * table[kind] for kind in EVIDENCE]
        areas.append([roc_auc_score(np.repeat([0, 1], 100), column) for column in (score, *columns)])
    score, *kinds = np.mean(areas, axis=0)
    assert score > max(kinds) - 0.03
    assert score > np.median(kinds)


# --- p-values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "noise"),
    slow_except([({}, 0.3)], [({}, 0.3), ({}, 1.5), ({"kernel": "rbf", "gamma": 0.02}, 0.3)]),
    ids=str,
)
def test_p_values_of_new_known_samples_are_uniform(parameters, noise):
    """One minus the unknown score of known samples is uniform on [0, 1], where truth is known.

    Of one world with 200 held-out samples the distribution is off by up to about 0.1 by chance; over eight worlds these
    errors average out. A score that is not held out is off by far more.
    """
    new, seen = [], []
    for seed in range(8):
        world = World(seed, n_known=5, n_features=15, noise=noise)
        X, y = world.known(40)
        clf = recognizer(**parameters).fit(X, y)
        new.append(1.0 - clf.unknown_score(world.fresh(500)[0]))
        seen.append(1.0 - clf.unknown_score(X))
        assert kstest(new[-1], "uniform").statistic < 0.16
    p_values = np.concatenate(new)
    assert kstest(p_values, "uniform").statistic < 0.06
    for level in (0.05, 0.1, 0.5):
        assert np.mean(p_values <= level) == pytest.approx(level, abs=0.02 + 0.03 * (level == 0.5))
    assert kstest(np.concatenate(seen), "uniform").statistic > 0.5, "the claim would hold of anything"


# --- bad input --------------------------------------------------------------------------------------------


def make_bad_input():
    """Return, by name: training samples, their classes and new samples."""
    world = World(0, n_known=4, n_features=12)
    X, y = world.known(10)
    new = np.vstack([world.fresh(6)[0], world.unknowns(6)])
    constant = X.copy()
    constant[:, 3], constant[:, 5] = 2.0, 0.0
    few = World(1, n_known=3, n_features=50)
    single = World(2, n_known=5, n_features=8)
    zeros = X.copy()
    zeros[[1, 15]] = 0.0
    rounding = X.copy()
    rounding[:, 4] = 0.1 + 1e-17 * np.arange(40)
    pair = np.vstack([np.ones(3), [1.0, 2.0, 3.0]])
    return {
        "constant columns": (constant, y, new),
        "columns of rounding": (rounding, y, new),
        "one column that varies": (np.hstack([X[:, :1], np.ones((40, 3))]), y, np.hstack([new[:, :1], new[:, 3:6]])),
        "one column": (X[:, :1], y, new[:, :1]),
        "all rows equal": (np.ones((12, 3)), np.repeat([0, 1, 2], 4), pair),
        "all rows of two classes equal": (np.ones((12, 3)), np.repeat([0, 1], 6), pair),
        "fewer samples than features": (*few.known(3), few.unknowns(5)),
        "one sample of each class": (*single.known(1), single.unknowns(5)),
        "one sample of some classes": (*single.known((1, 1, 6, 1, 9)), single.unknowns(5)),
        "two samples of two classes": (*World(3, n_known=2).known(2), World(3, n_known=2).unknowns(4)),
        "samples four times": (np.repeat(X[::4], 4, axis=0), y, np.vstack([new, X[:4]])),
        "classes that are equal": (np.vstack([X[:10]] * 3), np.repeat([0, 1, 2], 10), np.vstack([new, X[:2]])),
        "rows of zeros": (zeros, y, np.vstack([new, np.zeros(12)])),
        "features of 1e-150": (1e-150 * X, y, 1e-150 * new),
        "features of 1e150": (1e150 * X, y, 1e150 * new),
        "a column of 1e150 and one of 1e-150": tuple(
            part * np.array([1e150, 1e-150] + 10 * [1.0]) if part.ndim == 2 else part for part in (X, y, new)
        ),
    }


BAD_INPUT = make_bad_input()
SPACES = [("linear", True), ("linear", False), ("rbf", True)]
# Without unit length, squares of squared lengths of 1e300 are not finite, and coding such samples fails.
CASES = [(*space, name) for space in SPACES for name in BAD_INPUT if space != ("linear", False) or "1e150" not in name]
WORST = ("all rows equal", "one column", "one sample of some classes", "rows of zeros", "features of 1e-150")
QUICK = [case for case in CASES if case[:2] == ("linear", True) or case[2] in WORST]


def assert_finite(clf, X, y, new):
    """Fit and ask for everything; any warning is an error, but of too few samples and of codes not certified."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CalibrationWarning)
        warnings.simplefilter("ignore", CertificateWarning)
        clf.fit(X, y)
        scores = clf.unknown_score(new)
        assert ((scores >= 0) & (scores <= 1)).all()
        assert np.isfinite(clf.class_scores(new)).all()
        assert np.isfinite(clf.evidence(new)[list(clf.evidence_names_)]).all(axis=None)
        assert np.isfinite(clf.evidence_weights_).all() and np.isfinite(clf.class_weights_).all()
        assert not np.isnan(clf.log_p_value(new)).any()
        assert set(clf.predict(new)) <= {-1, *clf.classes_.tolist()}
        explanation = clf.explain(new[0])
        assert explanation.text
        assert np.isfinite([part.lead for part in explanation.class_evidence]).all()
        held_out = clf.calibration_.held_out, clf.calibration_.simulated
        assert all(np.isfinite(rows.values).all() for rows in held_out)


@pytest.mark.parametrize(("kernel", "normalize", "name"), slow_except(QUICK, CASES))
def test_bad_input_leaves_all_scores_finite_and_warns_of_nothing_new(kernel, normalize, name):
    assert_finite(recognizer(kernel=kernel, normalize=normalize, n_repeats=2), *BAD_INPUT[name])


@pytest.mark.parametrize("name", ["all rows equal", "one sample of some classes", "features of 1e-150"])
def test_a_precomputed_kernel_of_bad_input_is_finite(name):
    X, y, new = BAD_INPUT[name]
    queries = Queries(new @ X.T, (new**2).sum(axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CalibrationWarning)
        clf = recognizer(kernel="precomputed").fit(X @ X.T, y)
        assert np.isfinite(clf.unknown_score(queries)).all()
        assert np.isfinite(clf.class_scores(queries)).all()


@pytest.mark.parametrize("kind", EVIDENCE)
@pytest.mark.parametrize(
    "name", slow_except(["all rows equal"], ["all rows equal", "one sample of each class", "classes that are equal"])
)
def test_every_kind_alone_is_finite_on_bad_input(kind, name):
    assert_finite(recognizer(evidence_kinds=[kind], n_repeats=1), *BAD_INPUT[name])


def test_equal_classes_and_equal_rows_decide_nothing():
    """Where training samples tell no class from another, class scores do not either."""
    for name in ("all rows equal", "classes that are equal"):
        X, y, new = BAD_INPUT[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            clf = recognizer(label_by="fused").fit(X, y)
        scorer = ClassScorer(clf.dictionary_, CLASS_SCORES)
        for scores in scorer.score(clf.dictionary_.query(new)).by_kind.values():
            np.testing.assert_allclose(np.ptp(scores, axis=1), 0.0, atol=1e-6 * (1 + np.abs(scores).max()))


@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_very_large_and_small_features_are_recognized_like_ordinary_ones(data, auto, factor):
    X, y, known, unknown = data
    new = np.vstack([known, unknown])
    clf = recognizer().fit(factor * X, y)
    np.testing.assert_allclose(clf.class_weights_, auto.class_weights_, atol=0.02)
    np.testing.assert_allclose(clf.unknown_score(factor * new), auto.unknown_score(new), atol=0.02)
    check_same_candidates(np.searchsorted(auto.classes_, clf.candidate(factor * new)), auto.class_scores(new), 0.02)


def test_a_constant_column_that_a_new_sample_leaves_is_no_reason_to_fail(data, auto):
    X, y, known, _ = data
    clf = recognizer().fit(np.column_stack([X, np.zeros(len(X))]), y)
    np.testing.assert_allclose(
        clf.unknown_score(np.column_stack([known, np.zeros(60)])), auto.unknown_score(known), atol=1e-6
    )
    away = np.column_stack([known, 1e6 * np.ones(60)])
    assert np.isfinite(clf.class_scores(away)).all() and np.isfinite(clf.unknown_score(away)).all()
    assert (clf.predict(away) == -1).mean() > 0.9


def test_a_one_shot_iterator_of_kinds_raises(data):
    with pytest.raises(ValueError, match="evidence_kinds must be"):
        recognizer(evidence_kinds=(name for name in ("matched", "ratio"))).fit(*data[:2])


@pytest.mark.parametrize("later", [None, ["bogus"], "auto"])
def test_a_file_has_the_kinds_of_the_fit_whatever_the_parameter_has_become(data, tmp_path, later):
    clf = fit_once(recognizer(evidence_kinds=["ratio", "matched"]), *data[:2])
    expected = clf.unknown_score(data[2])
    clf.set_params(evidence_kinds=later).save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.evidence_kinds == ["matched", "ratio"] and again.evidence_names_ == ("matched", "ratio")
    check_same(again.unknown_score(data[2]), expected)


@pytest.mark.parametrize("change", [{"class_scores": ["residual"], "class_fusion": None}, {"class_fusion": None}])
def test_a_file_that_names_evidence_without_its_class_scores_is_rejected(data, tmp_path, change):
    clf = fit_once(recognizer(label_by="residual"), *data[:2])
    state = get_state(clf)
    write_model(tmp_path / "model", replace(state, settings=state.settings | change))
    with pytest.raises(ModelFileError, match="class scores"):
        load(tmp_path / "model")


def test_many_classes_are_drawn_where_the_candidate_is_not_among_the_least_residuals():
    """A sample on a feature that no training sample has: its code is zero, and the text does not blame the order."""
    rng = RNG(0)
    X, y = np.zeros((17 * 4, 35)), np.repeat(np.arange(17), 4)
    for i, k in enumerate(y):
        X[i, 2 * k : 2 * k + 2] = 1 + rng.random(2)
    clf = recognizer(n_repeats=2).fit(X, y)
    explanation = clf.explain(np.eye(35)[34])
    explanation.plot()
    assert "comes first" not in str(explanation) and "the code is zero" in str(explanation)

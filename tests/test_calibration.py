"""What is learned from held-out samples is what a plain recomputation without them finds."""

import numpy as np
import pytest
from same import check_same
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_random_state
from worlds import World

from srosr import Dictionary, Lasso, sparse_encode
from srosr.evidence.class_scores import ClassScorer, HoldOut
from srosr.evidence.table import (
    CLASS_SCORES,
    DIRECTION,
    EVIDENCE,
    FIRST_EVIDENCE,
    build_evidence,
    measure_codes,
)
from srosr.scoring.calibration import calibrate
from srosr.scoring.cross_test import CrossTester
from srosr.scoring.fusion import STRENGTHS, choose_strength, find_prior, fit_fusion
from srosr.scoring.splits import add_only_samples, draw_cross_splits, draw_folds, draw_left_out_classes

SIGNS = np.array([DIRECTION[name] for name in EVIDENCE])
SIZES = (12, 1, 7, 2, 40, 25)


def slices_of(sizes):
    ends = np.cumsum(sizes)
    return [slice(int(e - n), int(e)) for n, e in zip(sizes, ends, strict=True)]


def class_of(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


# --- who is held out ------------------------------------------------------------------------------


@pytest.mark.parametrize("holdout", [0.01, 0.2, 0.5, 0.99])
def test_a_split_holds_out_the_share_of_every_class_and_never_all_of_it(holdout):
    splits = list(draw_cross_splits(slices_of(SIZES), 30, holdout, np.random.RandomState(0)))
    assert len(splits) == 30
    for split in splits:
        assert (np.diff(split) > 0).all()
        held = np.bincount(class_of(SIZES)[split], minlength=len(SIZES))
        for n, size in zip(held, SIZES, strict=True):
            assert n == min(max(round(holdout * size), 1), size - 1)
            assert n < size
    assert not any(12 in split for split in splits), "the class of one sample was held out"


def test_every_sample_of_a_class_is_held_out_sooner_or_later():
    splits = list(draw_cross_splits(slices_of(SIZES), 100, 0.2, np.random.RandomState(0)))
    counts = np.bincount(np.concatenate(splits), minlength=sum(SIZES))
    assert (np.delete(counts, 12) > 0).all()
    # Draws of one class: 100 times 5 of 25, by a fair shuffle 20 each, standard deviation 4.
    assert np.abs(counts[-25:] - 20).max() < 4 * 4


def test_splits_follow_the_seed():
    def splits(seed):
        return np.concatenate(list(draw_cross_splits(slices_of(SIZES), 5, 0.2, np.random.RandomState(seed))))

    np.testing.assert_array_equal(splits(3), splits(3))
    assert (splits(3) != splits(4)).any()


@pytest.mark.parametrize("sizes", [SIZES, (2, 2), (1, 3), (20, 21, 19), (100, 1)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_folds_hold_every_sample_out_once_and_never_a_whole_class(sizes, seed):
    folds = list(draw_folds(slices_of(sizes), np.random.RandomState(seed)))
    number = class_of(sizes)
    lonely = np.flatnonzero(np.array(sizes)[number] == 1)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.setdiff1d(np.arange(sum(sizes)), lonely))
    for fold in folds:
        assert (np.diff(fold) > 0).all() and len(fold)
        held = np.bincount(number[fold], minlength=len(sizes))
        assert (held < sizes).all()
        assert (held <= np.maximum(np.ceil(np.array(sizes) / 20), 1)).all(), "more than a few of a class are missing"


def test_classes_of_one_sample_leave_no_folds():
    assert list(draw_folds(slices_of((1, 1, 1)), np.random.RandomState(0))) == []


@pytest.mark.parametrize("n_classes", [3, 4, 5, 10, 17])
@pytest.mark.parametrize("seed", range(3))
def test_every_class_is_left_out_in_turn(n_classes, seed):
    repeats = 40
    left_out = draw_left_out_classes(n_classes, repeats, np.random.RandomState(seed))
    assert len(left_out) == repeats
    for classes in left_out:
        assert len(np.unique(classes)) == len(classes) == min(max(round(0.3 * n_classes), 1), n_classes - 2)
        assert n_classes - len(classes) >= 2
    counts = np.bincount(np.concatenate(left_out), minlength=n_classes)
    assert counts.max() - counts.min() <= 1, "in turn: no class is left out twice more often than another"


def test_two_classes_cannot_leave_one_out():
    assert draw_left_out_classes(2, 10, np.random.RandomState(0)) == []


# --- ridge and subspaces -------------------------------------------------------------------------


def learned(kernel="linear", seed=0, sizes=(8, 5, 1, 9), normalize=True, n_features=12):
    X, y = World(seed, n_known=len(sizes), n_features=n_features).known(sizes)
    return X, y, Dictionary(X, y, kernel=kernel, gamma=0.05, normalize=normalize)


def squared_distances(products, left, right):
    """Return |a - b|^2 = |a|^2 + |b|^2 - 2 a'b for every pair."""
    return np.array(
        [[s + t - 2 * p for t, p in zip(right, row, strict=True)] for s, row in zip(left, products, strict=True)]
    )


def width_of(gram):
    """Return the mean squared distance between two different atoms."""
    distances = squared_distances(gram, np.diag(gram), np.diag(gram))
    return distances[np.triu_indices(len(gram), 1)].mean()


def fading(products, left, right, width):
    """Return the similarities that collaborative scores are computed from."""
    return np.exp(-squared_distances(products, left, right) / width)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("normalize", [True, False])
def test_held_out_scores_equal_ridge_refitted_without_the_atoms(kernel, normalize):
    _, y, dictionary = learned(kernel, normalize=normalize)
    gram, n = dictionary.gram, dictionary.n_atoms
    similar = fading(gram, np.diag(gram), np.diag(gram), width_of(gram))
    rng = np.random.default_rng(0)
    for removed in [np.array([3]), np.sort(rng.choice(n, 7, replace=False)), np.arange(8), np.arange(n - 1)]:
        rest = np.setdiff1d(np.arange(n), removed)
        codes = np.linalg.solve(similar[np.ix_(rest, rest)] + 0.05 * np.eye(len(rest)), similar[np.ix_(rest, removed)])
        direct = np.stack([codes[dictionary.labels[rest] == k].sum(axis=0) for k in np.unique(y)], axis=1)
        held_out = score_without(dictionary, removed, "collaborative", np.arange(len(np.unique(y))))
        np.testing.assert_allclose(held_out, direct, rtol=0, atol=1e-8)


def score_without(dictionary, removed, kind, present):
    """Return the class scores of atoms as if they were not in the dictionary."""
    (found,) = ClassScorer(dictionary, [kind], [HoldOut(removed, removed, present)]).held_out
    return found.by_kind[kind]


def test_a_class_that_is_left_out_whole_scores_zero():
    _, _, dictionary = learned()
    scores = score_without(dictionary, np.arange(8), "collaborative", np.arange(4))
    np.testing.assert_allclose(scores[:, 0], 0.0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_collaborative_scores_and_distances_are_those_of_the_formulas(kernel):
    _, _, dictionary = learned(kernel)
    queries = dictionary.query(World(9, n_known=4, n_features=12).known(3)[0])
    gram, amount = dictionary.gram, 0.1
    both = ClassScorer(dictionary, ["collaborative", "subspace"]).score(queries).by_kind
    width = width_of(gram)
    similar = fading(gram, np.diag(gram), np.diag(gram), width)
    to_atoms = fading(queries.cross, queries.squared_norms, np.diag(gram), width)
    codes = np.linalg.solve(similar + 0.05 * np.eye(len(gram)), to_atoms.T)
    for k, part in enumerate(dictionary.class_slices):
        np.testing.assert_allclose(both["collaborative"][:, k], codes[part].sum(axis=0), atol=1e-10)
        c, block = queries.cross[:, part], gram[part, part] + amount * np.eye(part.stop - part.start)
        direct = np.sqrt(queries.squared_norms - np.einsum("ij,ij->i", c, np.linalg.solve(block, c.T).T))
        np.testing.assert_allclose(-both["subspace"][:, k], direct, atol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_subspace_distances_of_held_out_atoms_are_those_over_the_atoms_that_are_left(kernel):
    _, _, dictionary = learned(kernel)
    gram, amount = dictionary.gram, 0.1 * np.diag(dictionary.gram).mean()
    rng = np.random.default_rng(3)
    for size in (1, 5, dictionary.n_atoms // 2):
        removed = np.sort(rng.permutation(dictionary.n_atoms)[:size])
        classes = np.array([0, 2, 3])
        found = -score_without(dictionary, removed, "subspace", classes)
        for column, k in enumerate(classes):
            part = dictionary.class_slices[k]
            rest = np.setdiff1d(np.arange(part.start, part.stop), removed)
            c = gram[np.ix_(removed, rest)]
            explained = np.einsum(
                "ij,ij->i", c, np.linalg.solve(gram[np.ix_(rest, rest)] + amount * np.eye(len(rest)), c.T).T
            )
            np.testing.assert_allclose(found[:, column], np.sqrt(np.diag(gram)[removed] - explained), atol=1e-8)


def test_subspace_distance_is_a_regularized_distance_in_the_space_of_features():
    """d_k^2 = min over b of |y - Y_k b|^2 + lambda |b|^2, by a minimizer on the features."""
    _, _, dictionary = learned(sizes=(3, 4), n_features=6)
    sample = World(5, n_known=2, n_features=6).known(1)[0]
    atoms, query = dictionary.linear_atoms, (sample / np.linalg.norm(sample, axis=1, keepdims=True))[0]
    found = -ClassScorer(dictionary, ["subspace"]).score(dictionary.query(sample)).by_kind["subspace"][0]
    for k, part in enumerate(dictionary.class_slices):
        best = minimize(lambda b, Y=atoms[part]: ((query - b @ Y) ** 2).sum() + 0.1 * b @ b, np.zeros(len(atoms[part])))
        assert found[k] == pytest.approx(np.sqrt(best.fun), abs=1e-7)


# --- evidence -----------------------------------------------------------------------------------


def by_hand(gram, cross, square, labels, x, scores, distances):
    """Return one row of the evidence table, from a code and the inner products."""
    classes = np.unique(labels)
    r = []
    for k in classes:
        own = labels == k
        r.append(np.sqrt(max(square - 2 * x[own] @ cross[own] + x[own] @ gram[np.ix_(own, own)] @ x[own], 0.0)))
    r = np.array(r)
    first, second = np.sort(r)[:2]
    whole = np.sqrt(max(square - 2 * x @ cross + x @ gram @ x, 0.0))
    mass = np.array([np.abs(x[labels == k]).sum() for k in classes])
    K = len(classes)
    near, far = np.sort(distances)[:2]
    low, high = np.sort(scores)[-2:]
    return {
        "matched": first,
        "nonmatched": (r.sum() - first) / (K - 1),
        "concentration": (K * mass.max() / mass.sum() - 1) / (K - 1) if mass.sum() else 0.0,
        "ratio": first / second,
        "surplus": np.sqrt(max(first**2 - whole**2, 0.0)),
        "collaborative": high,
        "margin": high - low,
        "subspace": near / far,
    }, r


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_evidence_table_is_a_plain_loop_over_the_formulas(kernel):
    _, _, dictionary = learned(kernel)
    world = World(0, n_known=4, n_features=12)
    queries = dictionary.query(np.vstack([world.known(5)[0], world.unknowns(10)]))
    codes = sparse_encode(queries, dictionary, Lasso(0.05))
    scores = ClassScorer(dictionary, ["collaborative", "subspace"]).score(queries)
    evidence = build_evidence(measure_codes(queries, codes, dictionary), scores)
    assert evidence.values.shape == (len(queries), len(EVIDENCE))
    dense = codes.codes.toarray() if hasattr(codes.codes, "toarray") else np.asarray(codes.codes)
    for i, row in enumerate(evidence.values):
        expected, r = by_hand(
            dictionary.gram, queries.cross[i], queries.squared_norms[i], dictionary.labels, dense[i],
            scores.by_kind["collaborative"][i], -scores.by_kind["subspace"][i],
        )  # fmt: skip
        np.testing.assert_allclose(row[:8], [expected[name] for name in FIRST_EVIDENCE], atol=1e-7)
        assert (row[8:] == 0).all(), "kinds that were not asked for"
        np.testing.assert_allclose(evidence.residuals[i], r, atol=1e-7)
        assert evidence.candidate[i] == r.argmin()
    assert not evidence.empty.any()


def test_a_sample_of_length_zero_is_marked_empty_and_has_finite_evidence():
    _, _, dictionary = learned()
    queries = dictionary.query(np.vstack([np.zeros(12), np.ones(12)]))
    scores = ClassScorer(dictionary, CLASS_SCORES).score(queries)
    codes = sparse_encode(queries, dictionary, Lasso(0.05))
    evidence = build_evidence(measure_codes(queries, codes, dictionary), scores)
    np.testing.assert_array_equal(evidence.empty, [True, False])
    assert np.isfinite(evidence.values).all()


# --- the passes ---------------------------------------------------------------------------------


def pass_by_hand(X, y, rest, test, kernel, gamma=0.05, alpha=0.05):
    """Return the evidence of the rows ``test`` over a dictionary built from the features of the rows ``rest`` alone."""
    part = Dictionary(X[rest], y[rest], kernel=kernel, gamma=gamma, normalize=True)
    codes = sparse_encode(X[test], part, Lasso(alpha)).codes
    codes = codes.toarray() if hasattr(codes, "toarray") else np.asarray(codes)
    order = np.argsort(y[rest], kind="stable")
    labels = y[rest][order]

    def similarity(A, B):
        if kernel == "rbf":
            return rbf_kernel(A, B, gamma=gamma)
        return (A / np.linalg.norm(A, axis=1)[:, None]) @ (B / np.linalg.norm(B, axis=1)[:, None]).T

    gram, cross = similarity(X[rest][order], X[rest][order]), similarity(X[test], X[rest][order])
    amount, classes = 0.1, np.unique(labels)
    # The width is that for all atoms, as in prediction.
    width = width_of(similarity(X, X))
    similar, to_atoms = (fading(p, np.ones(len(p)), np.ones(len(gram)), width) for p in (gram, cross))
    rows, residuals = [], []
    for c, near, x in zip(cross, to_atoms, codes, strict=True):
        ridge = np.linalg.solve(similar + 0.05 * np.eye(len(gram)), near)
        scores = np.array([ridge[labels == k].sum() for k in classes])
        distances = []
        for k in classes:
            own = labels == k
            block = gram[np.ix_(own, own)] + amount * np.eye(own.sum())
            distances.append(np.sqrt(1.0 - c[own] @ np.linalg.solve(block, c[own])))
        expected, r = by_hand(gram, c, 1.0, labels, x, scores, np.array(distances))
        rows.append([expected[name] for name in FIRST_EVIDENCE])
        residuals.append(r)
    return np.array(rows), np.array(residuals), classes


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_passes_equal_dictionaries_built_without_the_held_out_samples(kernel):
    sizes = (10, 6, 12, 3)
    X, y = World(1, n_known=4, n_features=25).known(sizes)
    dictionary = Dictionary(X, y, kernel=kernel, gamma=0.05, normalize=True)
    tester = CrossTester(dictionary, Lasso(0.05))
    splits = list(draw_cross_splits(dictionary.class_slices, 2, 0.2, np.random.RandomState(0)))
    left_out = [np.array([2]), np.array([0])]
    plans = tester.hold_out_known(splits), tester.hold_out_simulated(splits, left_out)
    known, simulated = (
        tester.build(
            tester.encode(plan),
            ClassScorer(dictionary, ["collaborative", "subspace"], [held for _, held in plan]).held_out,
        )
        for plan in plans
    )
    check_same(tester.test_known(splits).values[:, :5], known.values[:, :5])
    everything = np.arange(len(y))
    for repeat, (held, absent) in enumerate(zip(splits, left_out, strict=True)):
        rows = known[known.repeat == repeat]
        np.testing.assert_array_equal(rows.sample, held)
        expected, residuals, _ = pass_by_hand(X, y, np.setdiff1d(everything, held), held, kernel)
        np.testing.assert_allclose(rows.values[:, :8], expected, rtol=0, atol=1e-7)
        own = residuals[np.arange(len(held)), y[held]]
        np.testing.assert_allclose(rows.matched, own, atol=1e-7)
        np.testing.assert_allclose(rows.nonmatched, residuals.sum(axis=1) - own, atol=1e-7)
        np.testing.assert_array_equal(rows.candidate, residuals.argmin(axis=1))
        np.testing.assert_array_equal(rows.truth, y[held])
        assert not rows.unknown.any()

        rows = simulated[simulated.repeat == repeat]
        np.testing.assert_array_equal(rows.sample, held)
        rest = np.flatnonzero(~np.isin(everything, held) & ~np.isin(y, absent))
        expected, residuals, present = pass_by_hand(X, y, rest, held, kernel)
        np.testing.assert_allclose(rows.values[:, :8], expected, rtol=0, atol=1e-7)
        np.testing.assert_array_equal(rows.unknown, np.isin(y[held], absent))
        np.testing.assert_array_equal(rows.candidate, present[residuals.argmin(axis=1)])
        np.testing.assert_array_equal(np.isnan(rows.matched), rows.unknown)
        ordinary = ~rows.unknown
        place = np.searchsorted(present, y[held][ordinary])
        np.testing.assert_allclose(rows.matched[ordinary], residuals[ordinary][np.arange(len(place)), place], atol=1e-7)


def test_if_every_class_has_one_sample_all_samples_of_left_out_classes_are_simulated_unknowns():
    X, y = World(2, n_known=6).known(1)
    tester = CrossTester(Dictionary(X, y, normalize=True), Lasso(0.05))
    none, left_out = [np.empty(0, np.int64)] * 2, [np.array([0, 3]), np.array([1, 2])]
    simulated = tester.test_simulated(add_only_samples(none, left_out, tester.class_of), left_out)
    np.testing.assert_array_equal(simulated.sample, [0, 3, 1, 2])
    assert simulated.unknown.all()
    assert len(tester.test_known(none)) == 0


def test_zero_samples_are_never_coded_but_stay_in_the_dictionary():
    X, y = World(3, n_known=3).known(8)
    X[[1, 9]] = 0
    tester = CrossTester(Dictionary(X, y, normalize=True), Lasso(0.05))
    splits = list(draw_folds(slices_of((8, 8, 8)), np.random.RandomState(0)))
    known = tester.test_known(splits)
    np.testing.assert_array_equal(np.sort(known.sample), np.setdiff1d(np.arange(24), [1, 9]))
    assert np.isfinite(known.values).all()


def test_calibration_codes_every_sample_once_and_simulates_every_second_repeat():
    X, y = World(4, n_known=4).known(11)
    dictionary = Dictionary(X, y, normalize=True)
    found, _ = calibrate(
        dictionary, Lasso(0.05), rule="calibrated", evidence=EVIDENCE, class_scores=CLASS_SCORES, by_residual=False,
        n_repeats=5, holdout=0.2, tail_size=0.1, weight=1 / 3, rng=check_random_state(0), n_jobs=None, progress=False,
    )  # fmt: skip
    np.testing.assert_array_equal(np.sort(found.held_out.sample), np.arange(44))
    np.testing.assert_array_equal(np.unique(found.known.repeat), np.arange(5))
    np.testing.assert_array_equal(np.unique(found.simulated.repeat), np.arange(3))
    assert found.simulated.unknown.any() and not found.simulated.unknown.all()
    splits = list(draw_cross_splits(dictionary.class_slices, 5, 0.2, check_random_state(0)))
    np.testing.assert_array_equal(found.known.sample, np.concatenate(splits))
    np.testing.assert_array_equal(found.simulated.sample, np.concatenate(splits[:3]))


# --- fusion -------------------------------------------------------------------------------------


N, PRIOR = len(EVIDENCE), find_prior(EVIDENCE)


def fuse(known, simulated, is_unknown):
    """Learn the fused score of all kinds of evidence; a single class was left out, which shrinks most."""
    return fit_fusion(known, simulated, is_unknown, np.where(is_unknown, 3, 0), EVIDENCE)


def table(rng, n, shift=0.0):
    """Return the evidence of n samples, shifted by ``shift`` in the direction of unknown samples."""
    mix = rng.standard_normal((N, N)) * 0.2 + np.eye(N)
    return (rng.standard_normal((n, N)) @ mix + shift) * SIGNS * np.geomspace(0.01, 10, N)


def shifted(seed, n=150):
    rng = np.random.default_rng(seed)
    known = table(rng, n)
    # Some evidence points in the wrong direction: its weight must be zero.
    shift = np.resize([2, 1, 0.5, 0, 0, -0.5, -1, -3], N)
    simulated = np.vstack([table(rng, n), table(rng, n, shift)])
    return known, simulated, np.arange(2 * n) >= n


def loss_of(simulated, is_unknown):
    """Return the mean log-loss plus the penalty, and its slope, from the formula."""
    turned = simulated * SIGNS
    z = (turned - turned[~is_unknown].mean(axis=0)) / turned[~is_unknown].std(axis=0)

    def loss(b, c):
        margin = z @ b + c
        inner = np.logaddexp(0, -margin[is_unknown]).mean() / 2 + np.logaddexp(0, margin[~is_unknown]).mean() / 2
        return inner + STRENGTHS[0] * ((b - PRIOR) ** 2).sum()

    def slope(b, c):
        p = 1 / (1 + np.exp(-(z @ b + c)))
        share = np.where(is_unknown, (p - 1) / (2 * is_unknown.sum()), p / (2 * (~is_unknown).sum()))
        return z.T @ share + 2 * STRENGTHS[0] * (b - PRIOR), share.sum()

    return loss, slope


@pytest.mark.parametrize("seed", range(4))
def test_weights_are_the_optimum_that_projected_gradient_descent_finds_from_anywhere(seed):
    known, simulated, is_unknown = shifted(seed)
    fusion, elsewhere = fuse(known, simulated, is_unknown)
    assert (fusion.weights >= 0).all()
    assert (fusion.weights == 0).any() and (fusion.weights > 0.1).any(), "the example does not bind the bound"
    np.testing.assert_array_equal(fusion.weights, elsewhere.weights)
    loss, slope = loss_of(simulated, is_unknown)
    for start in (np.zeros(N), np.full(N, 3.0), np.random.default_rng(seed).random(N)):
        b, c = start, 0.0
        for _ in range(20_000):
            db, dc = slope(b, c)
            new = np.maximum(b - 0.5 * db, 0.0)
            moved = np.abs(new - b).max() + abs(dc)
            b, c = new, c - 0.5 * dc
            if moved < 1e-12:
                break
        best = min(loss(fusion.weights, c) for c in c + np.linspace(-1e-3, 1e-3, 201))
        assert best <= loss(b, c) + 1e-8
        np.testing.assert_allclose(fusion.weights, b, atol=1e-3)


def test_the_fused_score_is_centered_and_scaled_on_known_samples():
    known, simulated, is_unknown = shifted(0)
    fusion, elsewhere = fuse(known, simulated, is_unknown)
    np.testing.assert_allclose(fusion.standardize(known).mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(fusion.standardize(known).std(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(elsewhere.standardize(simulated[~is_unknown]).mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(fusion.contributions(known).sum(axis=1), fusion.score(known), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_more_evidence_for_unknown_never_lowers_the_score(seed):
    known, simulated, is_unknown = shifted(seed)
    fusion, _ = fuse(known, simulated, is_unknown)
    rng = np.random.default_rng(seed)
    for j in range(N):
        more = simulated.copy()
        more[:, j] += SIGNS[j] * rng.exponential(np.abs(simulated[:, j]).mean(), len(simulated))
        assert (fusion.score(more) >= fusion.score(simulated) - 1e-12).all()


def test_both_sides_weigh_the_same_however_many_unknowns_there_are():
    """Repeating every unknown sample does not change the weights."""
    known, simulated, is_unknown = shifted(1)
    once, _ = fuse(known, simulated, is_unknown)
    rows = np.concatenate([np.arange(len(is_unknown)), np.flatnonzero(is_unknown)])
    twice, _ = fuse(known, simulated[rows], is_unknown[rows])
    np.testing.assert_allclose(once.weights, twice.weights, atol=1e-4)


def test_without_simulated_unknowns_the_weights_are_those_of_the_prior():
    known, simulated, is_unknown = shifted(2)
    for rows in (slice(0, 0), ~is_unknown, is_unknown):
        fusion, _ = fuse(known, simulated[rows], is_unknown[rows])
        np.testing.assert_array_equal(fusion.weights, PRIOR)


def draw_classes(rng, directions, per_class=60):
    """Return evidence, simulated unknowns and classes: every class that was left out deviates in its own direction."""
    ordinary = rng.standard_normal((400, 4))
    unknown = [rng.standard_normal((per_class, 4)) + direction for direction in directions]
    truth = np.concatenate([np.zeros(400, int), np.repeat(np.arange(1, len(directions) + 1), per_class)])
    return np.vstack([ordinary, *unknown]), truth > 0, truth


def test_weights_shrink_little_where_left_out_classes_agree_against_the_prior_and_much_where_they_do_not():
    rng, prior = np.random.default_rng(0), np.array([1.0, 1.0, 0.0, 0.0])
    agree = draw_classes(rng, np.tile([0.0, 0.0, 2.0, 0.0], (12, 1)))
    assert choose_strength(*agree, prior) < 0.05
    # What one class teaches misleads about the next: nothing that was learned helps on a class that was not seen.
    disagree = draw_classes(rng, 1.5 * np.eye(4)[rng.permutation(np.arange(12) % 4)])
    assert choose_strength(*disagree, np.full(4, 0.5)) == max(STRENGTHS)


def test_the_strength_is_the_largest_within_half_a_standard_error_of_the_best():
    rng, prior = np.random.default_rng(5), np.array([0.5, 0.5, 0.0, 0.0])
    seen = set()
    for spread in (0.0, 0.4):
        Z, unknown, truth = draw_classes(rng, [1.0, 0.4, 1.5, 0.0] + spread * rng.standard_normal((7, 4)))
        areas = []
        for fold in (np.arange(1, 8)[i::5] for i in range(5)):
            rest = ~np.isin(truth, fold)
            weights = fit_by_descent(Z[rest], unknown[rest], prior, STRENGTHS)
            for k in fold:
                areas.append([roc_auc_score(np.r_[unknown[~unknown], unknown[truth == k]],
                                            np.r_[Z[~unknown] @ b, Z[truth == k] @ b]) for b in weights])  # fmt: skip
        mean = np.mean(areas, axis=0)
        error = np.std(areas, axis=0, ddof=1)[mean.argmax()] / np.sqrt(len(areas))
        expected = max(s for s, m in zip(STRENGTHS, mean, strict=True) if m >= mean.max() - 0.5 * error)
        assert choose_strength(Z, unknown, truth, prior) == expected
        seen.add(expected)
    assert len(seen) > 1, "the examples do not tell the strengths apart"


def fit_by_descent(Z, unknown, prior, strengths):
    """Return the weights of the formula for each strength, by projected gradient descent, for all of them at once."""
    start, strengths = np.tile(prior, (len(strengths), 1)), np.reshape(strengths, (-1, 1))
    b, c = start, np.zeros((len(strengths), 1))
    share = np.where(unknown, 0.5 / unknown.sum(), 0.5 / (~unknown).sum())
    for _ in range(4000):
        error = share * (1 / (1 + np.exp(-(b @ Z.T + c))) - unknown)
        last, b = b, np.maximum(b - 0.3 * (error @ Z + 2 * strengths * (b - start)), 0.0)
        c = c - 0.3 * error.sum(axis=1, keepdims=True)
        if np.abs(b - last).max() < 1e-9:
            break
    return b


def test_one_left_out_class_or_none_shrinks_most():
    rng, prior = np.random.default_rng(1), np.full(4, 0.3)
    Z, unknown, truth = draw_classes(rng, np.tile([0.0, 0.0, 2.0, 0.0], (2, 1)))
    assert choose_strength(Z[truth < 2], unknown[truth < 2], truth[truth < 2], prior) == max(STRENGTHS)


def test_evidence_that_does_not_vary_adds_nothing_between_known_samples():
    known, simulated, is_unknown = shifted(3)
    known[:, 2] = simulated[:, 2] = 0.7
    fusion, _ = fuse(known, simulated, is_unknown)
    assert np.isfinite(fusion.score(known)).all()
    np.testing.assert_allclose(fusion.contributions(known)[:, 2], 0.0, atol=1e-12)

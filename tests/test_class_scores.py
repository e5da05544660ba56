"""Every kind of class score is its formula on features, for new samples and for atoms held out.

The references work on explicit features. For a kernel they are any rows with the right inner products, from the
eigenvalues of one kernel matrix of atoms and samples together.
"""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same import check_same
from scale import examples
from scipy.spatial.distance import cdist, pdist
from worlds import World

from srosr import Dictionary, Lasso, Queries, SROSRClassifier
from srosr.evidence.class_scores import CLASS_SCORES, NEED_FEATURES, ClassScorer, HoldOut
from srosr.evidence.standardized import MOST, StandardizedColumns

KINDS = tuple(kind for kind in CLASS_SCORES if kind != "residual")
SPACES = [("linear", True), ("linear", False), ("rbf", True), ("rbf", "feature"), ("poly", False), ("poly", True)]
SIZES = (8, 5, 1, 9)
RNG = np.random.default_rng


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def seen(kernel, normalize, X):
    """Return rows as the kernel sees them."""
    return unit(X) if normalize == "feature" or (normalize and kernel == "linear") else X


def embed(kernel, normalize, *parts):
    """Return explicit features of each part: rows whose inner products are the kernel's."""
    rows = seen(kernel, normalize, np.vstack(parts))
    if kernel != "linear":
        fading = np.exp(-0.05 * cdist(rows, rows, "sqeuclidean"))
        similar = fading if kernel == "rbf" else (0.05 * rows @ rows.T + 1) ** 2
        values, vectors = np.linalg.eigh(similar)
        rows = vectors * np.sqrt(np.maximum(values, 0.0))
        rows = unit(rows) if normalize else rows
    return np.split(rows, np.cumsum([len(part) for part in parts])[:-1])


def build(kernel, normalize, X, y):
    return Dictionary(X, y, kernel=kernel, gamma=0.05, degree=2, coef0=1.0, normalize=normalize)


def standardize(rows, new):
    """Return new rows in standard deviations of others, at most three; columns that do not vary are left out."""
    spread = rows.std(axis=0)
    varies = spread > 1e-9 * np.abs(rows).max(axis=0)
    return np.clip((new - rows.mean(axis=0))[:, varies] / spread[varies], -3.0, 3.0)


# --- formulas -----------------------------------------------------------------------------------------


def ridge_by_hand(atoms, labels, samples, kept, classes, sharper=1.0):
    """Sum over each class of the ridge code on similarities that decay with distance; all atoms give the width."""
    width = pdist(atoms, "sqeuclidean").mean() / sharper
    similar = np.exp(-cdist(atoms[kept], atoms[kept], "sqeuclidean") / width)
    to_atoms = np.exp(-cdist(atoms[kept], samples, "sqeuclidean") / width)
    code = np.linalg.solve(similar + 0.05 * np.eye(len(kept)), to_atoms)
    return np.stack([code[labels[kept] == k].sum(axis=0) for k in classes], axis=1)


def subspace_by_hand(atoms, labels, samples, kept, classes):
    """Minus the root of min |y - b A_k|^2 + mu |b|^2, by least squares on the features."""
    penalty = 0.1 * (atoms**2).sum(axis=1).mean()
    out = np.empty((len(samples), len(classes)))
    for column, k in enumerate(classes):
        own = atoms[kept][labels[kept] == k]
        design = np.vstack([own.T, np.sqrt(penalty) * np.eye(len(own))])
        goal = np.vstack([samples.T, np.zeros((len(own), len(samples)))])
        out[:, column] = -np.linalg.norm(goal - design @ np.linalg.lstsq(design, goal, rcond=None)[0], axis=0)
    return out


def nearest_by_hand(atoms, labels, samples, kept, classes):
    return -np.stack([cdist(samples, atoms[kept][labels[kept] == k]).min(axis=1) for k in classes], axis=1)


def mahalanobis_by_hand(atoms, labels, samples, kept, classes):
    """Squared distances to classes and background, with scatter matrices written out."""
    penalty = 0.1 * (atoms**2).sum(axis=1).mean() * np.eye(atoms.shape[1])

    def distances(numbers):
        rest, names = atoms[kept], numbers[kept]
        means = {k: rest[names == k].mean(axis=0) for k in np.unique(names)}
        within = sum((rest[names == k] - m).T @ (rest[names == k] - m) for k, m in means.items())
        inverse = np.linalg.inv(within + penalty)
        return np.stack([np.einsum("ij,jk,ik->i", samples - m, inverse, samples - m) for m in means.values()], axis=1)

    to_classes = distances(labels)
    assert to_classes.shape[1] == len(classes)
    return to_classes, distances(np.zeros_like(labels))[:, 0]


def assert_scores(found, atoms, labels, samples, rows, new_rows, kept=None, classes=None, atol=1e-8):
    """Compare all kinds of class scores with the formulas, over the atoms ``kept`` and the classes they have."""
    kept = np.arange(len(labels)) if kept is None else kept
    classes = np.unique(labels[kept]) if classes is None else classes
    left = (labels, samples, kept, classes)
    by_kind = found.by_kind
    assert set(by_kind) == set(KINDS)
    np.testing.assert_allclose(by_kind["collaborative"], ridge_by_hand(atoms, *left), atol=atol)
    np.testing.assert_allclose(by_kind["local"], ridge_by_hand(atoms, *left, sharper=4.0), atol=atol)
    np.testing.assert_allclose(by_kind["subspace"], subspace_by_hand(atoms, *left), rtol=1e-6, atol=atol)
    np.testing.assert_allclose(by_kind["nearest"], nearest_by_hand(atoms, *left), rtol=1e-6, atol=atol)
    to_classes, background = mahalanobis_by_hand(atoms, *left)
    lead = by_kind["gaussian"] - by_kind["gaussian"][:, :1]
    np.testing.assert_allclose(lead, to_classes[:, :1] - to_classes, rtol=1e-6, atol=1e-7)
    relative = -by_kind["gaussian"].max(axis=1) - found.background[0]
    np.testing.assert_allclose(relative, to_classes.min(axis=1) - background, rtol=1e-6, atol=1e-7)
    columns, left = standardize(rows, rows), (labels, standardize(rows, new_rows), kept, classes)
    np.testing.assert_allclose(by_kind["standardized"], ridge_by_hand(columns, *left), atol=atol)
    np.testing.assert_allclose(by_kind["standardized_nearest"], nearest_by_hand(columns, *left), rtol=1e-6, atol=atol)


# --- new samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "normalize"), SPACES)
@pytest.mark.parametrize("n_features", [4, 30])  # fewer, and more, than there are atoms
def test_scores_of_new_samples_are_the_formulas_on_features(kernel, normalize, n_features):
    world = World(0, n_known=4, n_features=n_features)
    X, y = world.known(SIZES)
    new = np.vstack([world.fresh(5)[0], world.unknowns(5)])
    shuffle = RNG(1).permutation(len(y))
    dictionary = build(kernel, normalize, X[shuffle], y[shuffle])
    found = ClassScorer(dictionary, CLASS_SCORES).score(dictionary.query(new))
    atoms, samples = embed(kernel, normalize, X, new)
    assert_scores(found, atoms, y, samples, seen(kernel, normalize, X), seen(kernel, normalize, new))


def test_local_scores_have_half_the_width():
    """Two atoms at the distance d: their mean squared distance is d^2, and the local similarity is exp(-4)."""
    dictionary = Dictionary([[0.0, 0.0], [3.0, 4.0]], [0, 1])
    scores = ClassScorer(dictionary, ["collaborative", "local"]).score(dictionary.query([[0.0, 0.0]])).by_kind
    for kind, similarity in (("collaborative", np.exp(-1.0)), ("local", np.exp(-4.0))):
        system = np.array([[1.05, similarity], [similarity, 1.05]])
        np.testing.assert_allclose(scores[kind][0], np.linalg.solve(system, [1.0, similarity]), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_alone_has_the_scores_it_has_among_all(kind):
    world = World(2, n_features=8)
    dictionary = build("linear", True, *world.known(SIZES))
    queries = dictionary.query(world.unknowns(4))
    hold_outs = [HoldOut(np.array([0, 9]), np.array([0, 3, 9, 20]), np.arange(4))]
    alone, among = (ClassScorer(dictionary, kinds, hold_outs) for kinds in ((kind,), CLASS_SCORES))
    for one, all_ in ((alone.score(queries), among.score(queries)), (alone.held_out[0], among.held_out[0])):
        assert set(one.by_kind) == {kind}
        np.testing.assert_allclose(one.by_kind[kind], all_.by_kind[kind], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_large_scores_suggest_the_class(kind):
    world = World(3, n_features=30, noise=0.1)
    dictionary = build("linear", True, *world.known(15))
    new, truth = world.fresh(60)
    scores = ClassScorer(dictionary, [kind]).score(dictionary.query(new)).by_kind[kind]
    assert (scores.argmax(axis=1) == truth).mean() > 0.9


# --- standardized columns -----------------------------------------------------------------------------


def test_columns_are_in_standard_deviations_and_cut_off_at_three():
    rows = RNG(0).standard_normal((40, 5)) * np.array([1e-3, 1.0, 7.0, 1e4, 2.0]) + np.array([5.0, 0, -3.0, 1e3, 0])
    new = np.vstack([rows[:3], rows.mean(axis=0) + 10 * rows.std(axis=0), rows.mean(axis=0) - 3.5 * rows.std(axis=0)])
    found = StandardizedColumns(rows).transform(new)
    np.testing.assert_allclose(found, standardize(rows, new), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found[3:], [[MOST] * 5, [-MOST] * 5])
    assert MOST == 3.0


@pytest.mark.parametrize("n_columns", [4, 600])  # more columns than are measured at a time
def test_constant_columns_are_left_out(n_columns):
    rows = RNG(1).standard_normal((20, n_columns))
    constant = np.arange(n_columns) % 3 == 1
    rows[:, constant] = 7.0
    columns = StandardizedColumns(rows)
    np.testing.assert_array_equal(columns.varies, ~constant)
    np.testing.assert_allclose(columns.transform(rows), standardize(rows, rows), atol=1e-12)
    # Whatever a new sample has there is not compared with anything.
    other = rows.copy()
    other[:, constant] = RNG(2).standard_normal((20, constant.sum()))
    np.testing.assert_array_equal(columns.transform(other), columns.transform(rows))


def test_columns_that_vary_by_rounding_alone_are_left_out():
    rng = RNG(3)
    varying = rng.standard_normal((30, 2))
    nearly_constant = 0.1 + 1e-16 * rng.integers(-3, 4, 30)
    rest_of_a_constant = 1e-15 * rng.standard_normal(30)  # what rounding left of a column of zeros
    assert nearly_constant.std() > 0
    columns = StandardizedColumns(np.column_stack([varying, nearly_constant, rest_of_a_constant]))
    np.testing.assert_array_equal(columns.varies, [True, True, False, False])


def test_a_small_column_that_varies_counts_as_much_as_the_others():
    rows = RNG(4).standard_normal((30, 3))
    small = rows * np.array([1.0, 1e-4, 1e3])
    np.testing.assert_allclose(
        StandardizedColumns(small).transform(small), StandardizedColumns(rows).transform(rows), atol=1e-9
    )


@pytest.mark.parametrize("factor", [1e150, 1e-150, 1e300, 1e-300])
def test_columns_of_very_large_or_small_numbers_are_finite(factor):
    rows = RNG(5).standard_normal((25, 4))
    with np.errstate(all="raise", under="ignore"):
        found = StandardizedColumns(rows * factor).transform(rows * factor)
    np.testing.assert_allclose(found, standardize(rows, rows), rtol=1e-6, atol=1e-9)


def test_rows_that_are_all_equal_have_no_columns_and_all_classes_score_the_same():
    dictionary = Dictionary(np.ones((6, 3)), [0, 0, 0, 1, 1, 1], normalize=True)
    scores = ClassScorer(dictionary, CLASS_SCORES).score(dictionary.query([[1.0, 2.0, -1.0], [1.0, 1.0, 1.0]])).by_kind
    for kind in KINDS:
        assert np.isfinite(scores[kind]).all()
        np.testing.assert_allclose(scores[kind][:, 0], scores[kind][:, 1], atol=1e-9)


# --- held-out atoms -----------------------------------------------------------------------------------


def hold_out(labels, removed, test=None):
    removed = np.sort(removed)
    present = np.unique(np.delete(labels, removed))
    return HoldOut(removed if test is None else test, removed, present)


def assert_held_out(kernel, normalize, X, y, hold_outs):
    dictionary = build(kernel, normalize, X, y)
    np.testing.assert_array_equal(dictionary.order, np.arange(len(y)))
    (atoms,), rows = embed(kernel, normalize, X), seen(kernel, normalize, X)
    scorer = ClassScorer(dictionary, CLASS_SCORES, hold_outs)
    assert len(scorer.held_out) == len(hold_outs)
    for found, (test, removed, present) in zip(scorer.held_out, hold_outs, strict=True):
        kept = np.setdiff1d(np.arange(len(y)), removed)
        assert_scores(found, atoms, y, atoms[test], rows, rows[test], kept, present, atol=1e-7)


@pytest.mark.parametrize(("kernel", "normalize"), SPACES)
@pytest.mark.parametrize("n_features", [4, 30])
def test_scores_of_held_out_atoms_are_those_of_a_refit_on_the_rest(kernel, normalize, n_features):
    """Widths, penalties and standardization are those of all atoms, held out or not."""
    X, y = World(5, n_known=4, n_features=n_features).known(SIZES)
    cases = [
        hold_out(y, [3]),
        hold_out(y, RNG(0).choice(len(y), 9, replace=False)),
        hold_out(y, np.arange(8)),  # the first class whole
        hold_out(y, np.concatenate([np.arange(8, 14), [20]])),  # two classes whole and an atom of another
        hold_out(y, [0, 1, 2, 13, 14], test=np.array([1, 14])),  # of what is removed only some are scored
        hold_out(y, np.arange(13)),  # two classes remain, one of a single atom
    ]
    assert_held_out(kernel, normalize, X, y, cases)


@settings(max_examples=examples(80))
@given(
    st.sampled_from(SPACES),
    st.lists(st.integers(1, 6), min_size=2, max_size=5),
    st.integers(2, 12),
    st.floats(0.05, 0.8),
    st.integers(0, 1000),
)
def test_held_out_is_refit_whatever_the_sizes_and_the_split(space, sizes, n_features, share, seed):
    X, y = World(seed, n_known=len(sizes), n_features=n_features).known(sizes)
    rng = RNG(seed)
    removed = rng.choice(len(y), min(max(round(share * len(y)), 1), len(y) - 1), replace=False)
    test = np.sort(rng.choice(removed, rng.integers(1, len(removed) + 1), replace=False))
    assert_held_out(*space, X, y, [hold_out(y, removed), hold_out(y, removed, test)])


def test_new_samples_score_the_same_whether_atoms_were_held_out_or_not():
    world = World(6, n_features=10)
    X, y = world.known(SIZES)
    dictionary = build("linear", True, X, y)
    queries = dictionary.query(world.unknowns(5))
    plain = ClassScorer(dictionary, CLASS_SCORES).score(queries)
    after = ClassScorer(dictionary, CLASS_SCORES, [hold_out(y, [0, 12])]).score(queries)
    check_same(plain.by_kind, after.by_kind)
    check_same(plain.background[0], after.background[0])


def test_copies_of_atoms_are_held_out_like_any_other():
    """A Gram matrix of less than full rank: the atoms left hold the very samples that are scored."""
    X, y = World(7, n_known=3, n_features=3).known(4)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    assert_held_out("linear", True, X, y, [hold_out(y, [0, 9, 17]), hold_out(y, np.arange(0, 24, 2))])


# --- similarities without features ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", NEED_FEATURES)
def test_with_a_precomputed_kernel_there_are_no_columns_to_standardize(kind):
    X, y = World(8).known(5)
    dictionary = Dictionary(X @ X.T, y, kernel="precomputed")
    assert dictionary.rows is None
    with pytest.raises(ValueError, match="standardized columns need features"):
        ClassScorer(dictionary, [kind])


def test_the_other_kinds_need_only_similarities():
    world = World(9, n_features=9)
    X, y = world.known(SIZES)
    new = world.unknowns(6)
    kinds = [kind for kind in KINDS if kind not in NEED_FEATURES]
    hold_outs = [hold_out(y, [2, 9, 15])]
    given_, plain = Dictionary(X @ X.T, y, kernel="precomputed"), Dictionary(X, y)
    found, expected = (ClassScorer(dictionary, kinds, hold_outs) for dictionary in (given_, plain))
    queries = given_.query(Queries(new @ X.T, (new**2).sum(axis=1)))
    for kind in kinds:
        scores = found.score(queries).by_kind[kind], expected.score(plain.query(new)).by_kind[kind]
        np.testing.assert_allclose(*scores, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            found.held_out[0].by_kind[kind], expected.held_out[0].by_kind[kind], rtol=1e-8, atol=1e-8
        )


def test_hand_made_similarities_to_a_model_that_compares_features_raise_and_say_what_to_pass():
    world = World(10, n_features=9)
    X, y = world.known(12)
    new = world.fresh(4)[0]
    by_hand = Queries(new @ X.T, (new**2).sum(axis=1))
    clf = SROSRClassifier(Lasso(0.05), normalize=False, n_repeats=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=re.escape("pass the samples themselves")):
        clf.predict(by_hand)
    # Similarities that the dictionary computed bring the samples with them; without feature kinds none are needed.
    check_same(clf.unknown_score(clf.dictionary_.query(new)), clf.unknown_score(new))
    kinds = {"evidence_kinds": ["matched", "gaussian"], "label_by": "residual"}
    clf = SROSRClassifier(Lasso(0.05), normalize=False, n_repeats=2, random_state=0, **kinds).fit(X, y)
    np.testing.assert_allclose(clf.unknown_score(by_hand), clf.unknown_score(new), atol=1e-9)


@pytest.mark.parametrize("rows", [slice(2, 5), [4, 0], np.array([True, False, False, True, False, True])], ids=str)
def test_part_of_the_queries_keeps_its_rows(rows):
    world = World(11, n_features=9)
    dictionary = build("linear", True, *world.known(SIZES))
    new = world.unknowns(6)
    queries = dictionary.query(new)
    np.testing.assert_allclose(queries[rows].rows, unit(new)[rows], atol=1e-12)
    scorer = ClassScorer(dictionary, CLASS_SCORES)
    whole, part = scorer.score(queries).by_kind, scorer.score(queries[rows]).by_kind
    for kind in KINDS:
        np.testing.assert_allclose(part[kind], whole[kind][rows], atol=1e-10)


def test_many_queries_keep_their_rows_across_the_blocks_in_which_they_are_computed():
    world = World(12, n_features=5)
    dictionary = build("linear", True, *world.known(4))
    new = world.fresh(600)[0]
    np.testing.assert_allclose(dictionary.query(new).rows, unit(new), atol=1e-12)
    assert Queries([[1.0]], [1.0]).rows is None


def test_a_copy_of_an_atom_is_at_distance_zero_however_many_samples_are_scored_at_once():
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((40, 64)), np.repeat(np.arange(4), 10)
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X, y)
    table = clf.evidence(X)
    assert (table[["nearest", "standardized_nearest"]] == 0).all(axis=None)
    alone = [clf.evidence(X[i : i + 1]).loc[0, ["nearest", "standardized_nearest"]].max() for i in range(5)]
    assert alone == [0.0] * 5

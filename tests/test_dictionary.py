"""A dictionary's inner products are those of plain loops, computed once and never again."""

import copy
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import reference
from reference import kernel_matrix, unit_rows
from same import check_same

from srosr import Dictionary, Lasso, Queries, sparse_encode
from srosr._support.threads import ThreadPool
from srosr.coding import batch as batch_module
from srosr.dictionary import dictionary as module
from srosr.evidence.coded_blocks import map_coded_blocks

GAMMA, DEGREE, COEF0 = 0.7, 2, 1.3
KERNELS = {
    "linear": reference.linear,
    "rbf": lambda a, b: reference.rbf(a, b, GAMMA),
    "poly": lambda a, b: reference.poly(a, b, GAMMA, DEGREE, COEF0),
    "chi2": lambda a, b: reference.chi2(a, b, GAMMA),
    "histogram_intersection": reference.histogram_intersection,
}
RNG = np.random.default_rng(20)
ATOMS = np.abs(RNG.standard_normal((11, 5))) * RNG.integers(1, 4, (11, 1))
ATOMS[3] = 0.0
ATOMS[5] = ATOMS[1]
LABELS = np.array(["b", "a", "c", "a", "b", "c", "a", "b", "a", "c", "b"])
QUERIES = np.abs(RNG.standard_normal((4, 5))) * np.array([[1.0], [5.0], [0.1], [0.0]])


def build(kernel="linear", normalize=False, atoms=ATOMS, labels=LABELS):
    return Dictionary(atoms, labels, kernel=kernel, normalize=normalize, gamma=GAMMA, degree=DEGREE, coef0=COEF0)


def scaled(kernel, normalize, left, right):
    """Return the kernel matrix by loops, after scaling in the given space."""
    k = KERNELS[kernel]
    if normalize == "feature":
        return kernel_matrix(k, unit_rows(left), unit_rows(right))
    matrix = kernel_matrix(k, left, right)
    if normalize is False:
        return matrix
    own_left = np.sqrt([k(a, a) for a in left])
    own_right = np.sqrt([k(b, b) for b in right])
    lengths = np.outer(own_left, own_right)
    return np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)


class Counting:
    """An RBF kernel that remembers which pairs of samples it was asked for."""

    def __init__(self, gamma=GAMMA):
        self.gamma = gamma
        self.pairs = []

    def __call__(self, left, right):
        self.pairs += [(a.tobytes(), b.tobytes()) for a in np.asarray(left) for b in np.asarray(right)]
        return kernel_matrix(lambda a, b: reference.rbf(a, b, self.gamma), left, right)

    def forget(self):
        self.pairs.clear()


# --- kernels and scaling ----------------------------------------------------------------


@pytest.mark.parametrize("normalize", [False, True, "feature", "kernel"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_gram_and_queries_equal_plain_loops(kernel, normalize):
    dictionary = build(kernel, normalize)
    atoms = ATOMS[dictionary.order]
    np.testing.assert_allclose(dictionary.gram, scaled(kernel, normalize, atoms, atoms), atol=1e-12)
    queries = dictionary.query(QUERIES)
    np.testing.assert_allclose(queries.cross, scaled(kernel, normalize, QUERIES, atoms), atol=1e-12)
    own = np.diag(scaled(kernel, normalize, QUERIES, QUERIES))
    np.testing.assert_allclose(queries.squared_norms, own, atol=1e-12)


def test_linear_scaling_is_the_same_in_both_spaces():
    feature, kernel = build(normalize="feature"), build(normalize="kernel")
    np.testing.assert_allclose(feature.gram, kernel.gram, atol=1e-14)
    np.testing.assert_allclose(feature.query(QUERIES).cross, kernel.query(QUERIES).cross, atol=1e-14)


def test_scaled_atoms_and_queries_have_unit_length_and_zero_stays_zero():
    dictionary = build(normalize=True)
    nonzero = np.any(ATOMS[dictionary.order], axis=1)
    np.testing.assert_allclose(np.diag(dictionary.gram), nonzero.astype(float), atol=1e-14)
    np.testing.assert_allclose(dictionary.query(QUERIES).squared_norms, [1, 1, 1, 0], atol=1e-14)
    assert np.isfinite(dictionary.gram).all()


@pytest.mark.parametrize("scale", [1e-160, 1e-30, 1e30, 1e150])
def test_unit_scaling_survives_extreme_lengths(scale):
    """Squares of such entries leave the range of floating point; directions do not."""
    plain = build(normalize=True)
    extreme = build(normalize=True, atoms=ATOMS * scale)
    np.testing.assert_allclose(extreme.gram, plain.gram, atol=1e-12)


def test_default_gamma_of_rbf_and_poly_is_one_over_the_number_of_features():
    for kernel, exact in (
        ("rbf", lambda a, b: reference.rbf(a, b, 1 / 5)),
        ("poly", lambda a, b: reference.poly(a, b, 1 / 5, 3, 1.0)),
    ):
        dictionary = Dictionary(ATOMS, kernel=kernel)
        np.testing.assert_allclose(dictionary.gram, kernel_matrix(exact, ATOMS, ATOMS))


def test_callable_kernel_is_used_as_given():
    dictionary = build(Counting(), False)
    np.testing.assert_allclose(dictionary.gram, build("rbf").gram)
    np.testing.assert_allclose(dictionary.query(QUERIES).cross, build("rbf").query(QUERIES).cross)
    np.testing.assert_allclose(dictionary.query(QUERIES).squared_norms, 1.0)


def test_gram_is_symmetric_to_the_last_bit():
    for kernel in KERNELS:
        gram = build(kernel, True).gram
        np.testing.assert_array_equal(gram, gram.T)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_other_number_types_are_accepted_and_computed_in_double(dtype):
    atoms = (ATOMS * 40).astype(dtype)
    gram = Dictionary(atoms).gram
    assert gram.dtype == np.float64
    exact = atoms.astype(float) @ atoms.astype(float).T
    np.testing.assert_allclose(gram, exact, rtol=1e-12)


def test_input_is_neither_changed_nor_shared():
    atoms, labels = ATOMS.copy(), LABELS.copy()
    dictionary = Dictionary(atoms, labels, normalize=True)
    np.testing.assert_array_equal(atoms, ATOMS)
    before = dictionary.query(QUERIES).cross.copy()
    atoms[:] = 7.0
    labels[:] = "z"
    np.testing.assert_array_equal(dictionary.query(QUERIES).cross, before)
    assert set(dictionary.labels) == {"a", "b", "c"}


# --- classes ----------------------------------------------------------------


def test_classes_are_contiguous_and_rows_keep_their_order_within_a_class():
    dictionary = build()
    assert list(dictionary.classes_) == ["a", "b", "c"]
    assert list(dictionary.labels) == sorted(LABELS)
    np.testing.assert_array_equal(dictionary.order, np.argsort(LABELS, kind="stable"))
    np.testing.assert_array_equal(LABELS[dictionary.order], dictionary.labels)
    assert len(dictionary.class_slices) == 3
    stop = 0
    for label, part in zip(dictionary.classes_, dictionary.class_slices, strict=True):
        assert part.start == stop
        assert set(dictionary.labels[part]) == {label}
        stop = part.stop
    assert stop == dictionary.n_atoms == len(ATOMS)


def test_rows_keep_their_order_within_large_classes():
    labels = np.random.default_rng(2).integers(0, 3, 500)
    dictionary = Dictionary(np.arange(500.0)[:, None], labels)
    for label, part in zip(dictionary.classes_, dictionary.class_slices, strict=True):
        np.testing.assert_array_equal(dictionary.order[part], np.flatnonzero(labels == label))


def test_without_labels_atoms_keep_their_order():
    dictionary = Dictionary(ATOMS)
    np.testing.assert_array_equal(dictionary.order, np.arange(len(ATOMS)))
    np.testing.assert_allclose(dictionary.gram, ATOMS @ ATOMS.T)


@pytest.mark.parametrize("labels", [[3, 1, 1, 3], [2.0, 0.5, 0.5, 2.0], ["y", "x", "x", "y"], [True, False] * 2])
def test_labels_of_any_sortable_kind(labels):
    dictionary = Dictionary(ATOMS[:4], labels)
    assert list(dictionary.labels) == sorted(labels)
    assert list(dictionary.classes_) == sorted(set(labels))


# --- nothing known is computed again ----------------------------------------------------------------


@pytest.mark.parametrize("normalize", [False, True])
def test_gram_is_computed_once(normalize):
    kernel = Counting()
    dictionary = build(kernel, normalize)
    first = dictionary.gram
    once = len(kernel.pairs)
    n = dictionary.n_atoms
    assert once <= n * n + n  # every pair, and where it scales the n lengths
    assert dictionary.gram is first or np.shares_memory(dictionary.gram, first)
    dictionary.query(QUERIES)
    kernel.forget()
    dictionary.query(QUERIES)
    sparse_encode(QUERIES, dictionary, Lasso(0.1))
    queries = {row.tobytes() for row in QUERIES}
    assert all(a in queries or b in queries for a, b in kernel.pairs)


@pytest.mark.parametrize("normalize", [False, True, "feature"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_scaled_features_are_those_of_queries(kernel, normalize):
    rng = np.random.default_rng(3)
    dictionary = Dictionary(rng.normal(size=(5, 4)), kernel=kernel, normalize=normalize)
    samples = np.vstack([rng.normal(size=(600, 4)), np.zeros((1, 4))])
    queries = dictionary.query(samples)
    rows, squares = dictionary.scale_features(samples)
    check_same(rows, queries.rows)
    check_same(squares, queries.squared_norms)


def test_a_large_subset_has_its_part_of_the_gram_matrix():
    rng = np.random.default_rng(4)
    dictionary = Dictionary(rng.normal(size=(700, 5)), np.arange(700) % 3)
    kept = rng.permutation(700)[:600]
    part = dictionary.subset(kept)
    assert not part.has_gram
    gram = dictionary.gram
    kept = kept[np.argsort(dictionary.labels[kept], kind="stable")]
    np.testing.assert_array_equal(dictionary.subset(kept).gram, gram[np.ix_(kept, kept)])


def test_self_similarities_of_queries_do_not_need_all_pairs_of_queries():
    kernel = Counting()
    dictionary = build(kernel)
    many = np.abs(np.random.default_rng(1).standard_normal((60, 5)))
    _ = dictionary.gram
    kernel.forget()
    dictionary.query(many)
    assert len(kernel.pairs) <= 60 * dictionary.n_atoms + 60 * 30


def assert_same(left, right):
    assert list(left.labels) == list(right.labels)
    assert list(left.classes_) == list(right.classes_)
    assert left.class_slices == right.class_slices
    assert left.n_atoms == right.n_atoms
    np.testing.assert_allclose(left.gram, right.gram, atol=1e-13)
    ours, theirs = left.query(QUERIES), right.query(QUERIES)
    np.testing.assert_allclose(ours.cross, theirs.cross, atol=1e-13)
    np.testing.assert_allclose(ours.squared_norms, theirs.squared_norms, atol=1e-13)


EVERY_SETTING = [(kernel, normalize) for kernel in KERNELS for normalize in (False, "feature", "kernel")]


@pytest.mark.parametrize(("kernel", "normalize"), EVERY_SETTING)
@pytest.mark.parametrize("gram_first", [True, False])
def test_subset_equals_building_from_scratch(kernel, normalize, gram_first):
    dictionary = build(kernel, normalize)
    if gram_first:
        _ = dictionary.gram
    indices = [9, 0, 4, 1, 7]  # not sorted by class
    picked = dictionary.order[indices]
    assert_same(dictionary.subset(indices), build(kernel, normalize, ATOMS[picked], LABELS[picked]))


@pytest.mark.parametrize(("kernel", "normalize"), EVERY_SETTING)
@pytest.mark.parametrize("gram_first", [True, False])
def test_append_equals_building_from_scratch(kernel, normalize, gram_first):
    """A known class grows, a new one comes between the old ones."""
    new, new_labels = ATOMS[[2, 0, 6]] + 0.25, np.array(["bb", "a", "bb"])
    dictionary = build(kernel, normalize)
    if gram_first:
        _ = dictionary.gram
    scratch = build(kernel, normalize, np.vstack([ATOMS, new]), np.concatenate([LABELS.astype(object), new_labels]))
    assert_same(dictionary.append(new, new_labels), scratch)


@pytest.mark.parametrize(("kernel", "normalize"), EVERY_SETTING)
@pytest.mark.parametrize("gram_first", [True, False])
def test_drop_equals_building_from_scratch(kernel, normalize, gram_first):
    dictionary = build(kernel, normalize)
    if gram_first:
        _ = dictionary.gram
    kept = LABELS != "b"
    assert_same(dictionary.drop("b"), build(kernel, normalize, ATOMS[kept], LABELS[kept]))


@pytest.mark.parametrize("normalize", [False, True])
def test_subset_and_drop_ask_the_kernel_for_nothing(normalize):
    kernel = Counting()
    dictionary = build(kernel, normalize)
    _ = dictionary.gram
    kernel.forget()
    _ = dictionary.subset([8, 1, 2]).gram
    _ = dictionary.drop("a").gram
    _ = dictionary.drop("a").subset([0, 5]).drop("c").gram
    assert kernel.pairs == []


@pytest.mark.parametrize("normalize", [False, True])
def test_append_asks_the_kernel_for_new_pairs_only(normalize):
    kernel = Counting()
    dictionary = build(kernel, normalize)
    _ = dictionary.gram
    kernel.forget()
    new = ATOMS[:2] + 0.25
    _ = dictionary.append(new, ["a", "d"]).gram
    fresh = {row.tobytes() for row in new}
    assert kernel.pairs
    assert all(a in fresh or b in fresh for a, b in kernel.pairs)
    assert len(kernel.pairs) <= 2 * (2 * dictionary.n_atoms + 4)


def test_the_original_is_left_as_it_was():
    dictionary = build()
    gram, labels = dictionary.gram.copy(), list(dictionary.labels)
    dictionary.append(ATOMS[:1] + 1, ["a"])
    dictionary.drop("a")
    dictionary.subset([0, 1]).gram[:] = 5.0
    np.testing.assert_array_equal(dictionary.gram, gram)
    assert list(dictionary.labels) == labels


def test_append_then_drop_is_where_we_began():
    dictionary = build("rbf", True)
    assert_same(dictionary.append(ATOMS[:3] + 1, ["d", "d", "d"]).drop("d"), dictionary)


@pytest.mark.parametrize(("kernel", "normalize"), EVERY_SETTING)
def test_a_gram_matrix_that_was_left_out_comes_back(kernel, normalize):
    dictionary = build(kernel, normalize)
    gram = dictionary.gram
    light = dictionary.without_gram()
    assert dictionary.has_gram and not light.has_gram
    again = pickle.loads(pickle.dumps(light))
    check_same(again.gram, gram)
    assert_same(again, dictionary)
    with pytest.raises(ValueError, match="precomputed"):
        Dictionary(np.eye(2), kernel="precomputed").without_gram()


def test_a_boolean_mask_is_a_subset_too():
    dictionary = build()
    mask = np.zeros(dictionary.n_atoms, bool)
    mask[[1, 4, 9]] = True
    assert_same(dictionary.subset(mask), dictionary.subset([1, 4, 9]))


# --- precomputed ----------------------------------------------------------------


@pytest.mark.parametrize("normalize", [False, True])
def test_precomputed_similarities_code_like_the_kernel_they_come_from(normalize):
    exact = build("rbf", normalize)
    gram = kernel_matrix(KERNELS["rbf"], ATOMS, ATOMS)
    given = Dictionary(gram, LABELS, kernel="precomputed", normalize=normalize)
    np.testing.assert_allclose(given.gram, exact.gram, atol=1e-13)
    cross = kernel_matrix(KERNELS["rbf"], QUERIES, ATOMS)
    queries = Queries(cross, np.ones(len(QUERIES)))
    ours = sparse_encode(queries, given, Lasso(0.05))
    theirs = sparse_encode(QUERIES, exact, Lasso(0.05))
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-9)
    np.testing.assert_allclose(ours.codes.toarray(), theirs.codes.toarray(), atol=1e-7)


def test_precomputed_queries_are_scaled_like_the_atoms():
    """Self-similarities other than one: each side is divided by its own length."""
    gram = kernel_matrix(KERNELS["poly"], ATOMS, ATOMS)
    given = Dictionary(gram, LABELS, kernel="precomputed", normalize=True)
    own = [KERNELS["poly"](q, q) for q in QUERIES]
    queries = Queries(kernel_matrix(KERNELS["poly"], QUERIES, ATOMS), np.array(own))
    ours = sparse_encode(queries, given, Lasso(0.05))
    theirs = sparse_encode(QUERIES, build("poly", True), Lasso(0.05))
    np.testing.assert_allclose(ours.residual_norm, theirs.residual_norm, atol=1e-9)


def test_precomputed_subset_and_drop():
    gram = kernel_matrix(KERNELS["rbf"], ATOMS, ATOMS)
    given = Dictionary(gram, LABELS, kernel="precomputed")
    exact = build("rbf")
    np.testing.assert_allclose(given.drop("b").gram, exact.drop("b").gram, atol=1e-13)
    np.testing.assert_allclose(given.subset([5, 0]).gram, exact.subset([5, 0]).gram, atol=1e-13)


def test_a_precomputed_gram_that_is_singular_is_fine():
    low = RNG.standard_normal((30, 2))
    np.testing.assert_allclose(Dictionary(low @ low.T, kernel="precomputed").gram, low @ low.T, atol=1e-13)


# --- bad input ----------------------------------------------------------------

WITH_NAN = np.where(np.arange(55).reshape(11, 5) == 7, np.nan, ATOMS)
WITH_INF = np.where(np.arange(55).reshape(11, 5) == 7, np.inf, ATOMS)


@pytest.mark.parametrize(
    "atoms",
    [
        WITH_NAN,
        WITH_INF,
        np.empty((0, 5)),
        np.empty((5, 0)),
        ATOMS[0],
        ATOMS[None],
        np.array([["a", "b"], ["c", "d"]]),
        np.array([[{}, 1.0], [2.0, 3.0]], dtype=object),
        [[1.0, 2.0], [3.0]],
        ATOMS + 1j,
        None,
        3.0,
    ],
    ids=[
        "nan",
        "inf",
        "no atoms",
        "no features",
        "1-d",
        "3-d",
        "text",
        "object",
        "ragged",
        "complex",
        "None",
        "scalar",
    ],
)
def test_bad_atoms_raise_by_name(atoms):
    with pytest.raises(ValueError, match="atoms"):
        Dictionary(atoms)


@pytest.mark.parametrize("labels", [LABELS[:-1], np.concatenate([LABELS, ["a"]]), LABELS[:, None], "a", []])
def test_labels_that_do_not_fit_raise_by_name(labels):
    with pytest.raises(ValueError, match="labels"):
        Dictionary(ATOMS, labels)


def test_missing_labels_raise_by_name():
    with pytest.raises(ValueError, match="labels"):
        Dictionary(ATOMS, [np.nan] + [1.0] * 10)


@pytest.mark.parametrize("kernel", ["gaussian", "", None, 3])
def test_unknown_kernel_raises_by_name(kernel):
    with pytest.raises(ValueError, match="kernel"):
        Dictionary(ATOMS, kernel=kernel)


@pytest.mark.parametrize("normalize", ["unit", 2, None])
def test_unknown_scaling_raises_by_name(normalize):
    with pytest.raises(ValueError, match="normalize"):
        Dictionary(ATOMS, normalize=normalize)


@pytest.mark.parametrize(("name", "value"), [("gamma", -1.0), ("gamma", np.nan), ("degree", 0), ("degree", -2)])
def test_bad_kernel_parameters_raise_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        Dictionary(ATOMS, kernel="poly", **{name: value})


def test_a_negative_offset_would_make_the_polynomial_kernel_indefinite():
    with pytest.raises(ValueError, match="coef0"):
        Dictionary(ATOMS, kernel="poly", coef0=-1.0)


@pytest.mark.parametrize("kernel", ["chi2", "histogram_intersection"])
def test_histogram_kernels_raise_for_negative_features(kernel):
    with pytest.raises(ValueError, match="atoms"):
        Dictionary(-ATOMS, kernel=kernel)
    with pytest.raises(ValueError, match="X"):
        Dictionary(ATOMS, kernel=kernel).query(-QUERIES)


@pytest.mark.parametrize(
    "gram",
    [
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        np.array([[1.0, 0.5], [0.4, 1.0]]),
        np.array([[-1.0, 0.0], [0.0, 1.0]]),
        np.ones((2, 3)),
    ],
    ids=["indefinite", "not symmetric", "negative diagonal", "not square"],
)
def test_a_matrix_that_is_no_gram_raises_by_name(gram):
    with pytest.raises(ValueError, match="atoms"):
        _ = Dictionary(gram, kernel="precomputed").gram


def test_an_indefinite_gram_is_found_among_many_atoms():
    """One small negative eigenvalue hides behind a positive diagonal and positive pairs."""
    basis, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((60, 60)))
    spectrum = np.linspace(0.5, 2.0, 60)
    spectrum[17] = -0.01
    gram = (basis * spectrum) @ basis.T
    gram = (gram + gram.T) / 2
    assert np.diag(gram).min() > 0
    with pytest.raises(ValueError, match="atoms"):
        _ = Dictionary(gram, kernel="precomputed").gram


@pytest.mark.parametrize(
    "X",
    [
        np.where(QUERIES > 0.5, np.nan, QUERIES),
        np.where(QUERIES > 0.5, np.inf, QUERIES),
        QUERIES[:, :4],
        QUERIES[0],
        np.empty((0, 5)),
        np.array([["a"] * 5]),
        None,
    ],
    ids=["nan", "inf", "too few features", "1-d", "empty", "text", "None"],
)
def test_bad_queries_raise_by_name(X):
    with pytest.raises(ValueError, match="X"):
        build().query(X)


def test_features_where_similarities_are_due_raise():
    gram = kernel_matrix(KERNELS["rbf"], ATOMS, ATOMS)
    with pytest.raises(ValueError, match="Queries"):
        Dictionary(gram, kernel="precomputed").query(QUERIES)


@pytest.mark.parametrize(
    ("cross", "squared_norms", "name"),
    [
        (np.full((2, 3), np.nan), np.ones(2), "cross"),
        (np.ones(3), np.ones(1), "cross"),
        (np.ones((2, 3)), np.ones(3), "squared_norms"),
        (np.ones((2, 3)), -np.ones(2), "squared_norms"),
        (np.ones((2, 3)), np.array([1.0, np.inf]), "squared_norms"),
    ],
)
def test_bad_similarities_raise_by_name(cross, squared_norms, name):
    with pytest.raises(ValueError, match=name):
        Queries(cross, squared_norms)


def test_a_callable_kernel_of_the_wrong_shape_raises_by_name():
    with pytest.raises(ValueError, match="kernel"):
        _ = Dictionary(ATOMS, kernel=lambda a, b: np.ones(3)).gram


def test_a_callable_kernel_that_returns_nan_raises_by_name():
    with pytest.raises(ValueError, match="kernel"):
        _ = Dictionary(ATOMS, kernel=lambda a, b: np.full((len(a), len(b)), np.nan)).gram


@pytest.mark.parametrize("indices", [[11], [-12], [], [0.5], [[0, 1]], np.ones(3, bool)])
def test_indices_that_do_not_exist_raise_by_name(indices):
    with pytest.raises((ValueError, IndexError), match="indices"):
        build().subset(indices)


def test_dropping_an_unknown_class_raises_by_name():
    with pytest.raises(ValueError, match="label"):
        build().drop("z")


def test_dropping_the_last_class_raises():
    with pytest.raises(ValueError, match="label"):
        Dictionary(ATOMS, ["a"] * 11).drop("a")


@pytest.mark.parametrize(
    ("X", "y", "name"),
    [
        (ATOMS[:2, :4], ["a", "b"], "X"),
        (ATOMS[:2], ["a"], "y"),
        (WITH_NAN[:2], ["a", "b"], "X"),
        (ATOMS[0], ["a"], "X"),
    ],
    ids=["features", "labels", "nan", "1-d"],
)
def test_bad_additions_raise_by_name(X, y, name):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        build().append(X, y)


def test_appending_atoms_that_make_a_users_kernel_indefinite_raises():
    """Definite on the first two atoms only: the third is as similar to both as they are to themselves."""

    def similarity(A, B):
        return np.where(A[:, :1] == B[:, :1].T, 1.0, np.where((A[:, :1] == 2) | (B[:, :1].T == 2), 0.9, -0.5))

    dictionary = Dictionary([[0.0], [1.0]], kernel=similarity)
    _ = dictionary.gram
    with pytest.raises(ValueError, match="indefinite"):
        dictionary.append([[2.0]])


def test_the_gram_matrix_in_tiles_is_the_plain_product():
    """More atoms than one tile holds, for a kernel that is a product and for one that is not."""
    rng = np.random.default_rng(0)
    X = rng.random((1100, 6))
    np.testing.assert_allclose(Dictionary(X).gram, X @ X.T, rtol=1e-12)
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    rbf = Dictionary(X, kernel="rbf", gamma=0.7)
    np.testing.assert_allclose(rbf.gram, np.exp(-0.7 * squares), rtol=1e-12)
    np.testing.assert_array_equal(rbf.gram, rbf.gram.T)
    np.testing.assert_allclose(rbf.query(X[:600]).cross, rbf.gram[:600], rtol=1e-12)


def test_the_dictionary_keeps_its_atoms_when_the_callers_array_changes():
    X = np.eye(3)
    dictionary = Dictionary(X)
    X[:] = 7.0
    np.testing.assert_array_equal(dictionary.gram, np.eye(3))


def test_dropping_several_classes_at_once_raises():
    with pytest.raises(ValueError, match="label"):
        Dictionary(ATOMS, LABELS).drop(LABELS.tolist())


def test_text_and_numbers_in_one_list_of_labels_raise():
    with pytest.raises(ValueError, match="labels"):
        Dictionary(ATOMS, (["a", 1] * len(ATOMS))[: len(ATOMS)])


def test_a_negative_definite_function_raises_when_the_dictionary_is_made():
    with pytest.raises(ValueError, match="kernel"):
        Dictionary(ATOMS, kernel=lambda A, B: -(A @ B.T), normalize=True)


# --- what is computed once and kept -----------------------------------------------------


def count_squares(monkeypatch):
    """Return a list that grows with each computation of squared lengths, which takes a while."""
    calls, compute = [], module.compare_to_self

    def compare_to_self(kernel, rows):
        calls.append(len(rows))
        time.sleep(0.02)
        return compute(kernel, rows)

    monkeypatch.setattr(module, "compare_to_self", compare_to_self)
    return calls


def run_at_once(work, n=4):
    """Return what several threads get that start together."""
    start = Barrier(n)

    def wait_and_work(_):
        start.wait()
        return work()

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(wait_and_work, range(n)))


def test_squared_lengths_are_computed_once_until_there_is_a_gram_matrix(monkeypatch):
    dictionary = build("rbf", normalize=False)
    calls = count_squares(monkeypatch)
    first, *others = run_at_once(lambda: dictionary.squared_norms)
    assert calls == [len(ATOMS)]
    for other in others:
        np.testing.assert_array_equal(other, first)
    first[:] = -1.0
    np.testing.assert_array_equal(dictionary.squared_norms, others[0])
    part = dictionary.subset([0, 3])
    np.testing.assert_array_equal(part.squared_norms, others[0][[0, 3]])
    gram = dictionary.gram
    gram[0, 0] = 7.0
    assert dictionary.squared_norms[0] == 7.0, "the diagonal of the Gram matrix, to the bit"


def test_blocks_of_samples_share_the_squared_lengths_of_the_atoms(monkeypatch):
    monkeypatch.setattr(batch_module, "_GRAM_BYTES", 0)
    dictionary, samples = build(), [build().query(QUERIES[:1]) for _ in range(3)]
    calls = count_squares(monkeypatch)
    for queries in samples:
        sparse_encode(queries, dictionary, Lasso(0.1))
    assert not dictionary.has_gram and calls == [len(ATOMS)]


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_a_dictionary_works_with_a_lock_of_its_own(clone):
    dictionary = build()
    squares = dictionary.squared_norms
    twin = clone(dictionary)
    np.testing.assert_array_equal(twin.squared_norms, squares)
    check_same(twin.gram, dictionary.gram)
    assert twin._lock is not dictionary._lock


class SlowRows(np.ndarray):
    """Rows that count how often some of them are copied, which takes a while."""

    copies = 0

    def __getitem__(self, index):
        if isinstance(index, np.ndarray):
            type(self).copies += 1
            time.sleep(0.02)
        return super().__getitem__(index)


def test_threads_copy_the_rows_of_a_subset_once(monkeypatch):
    monkeypatch.setattr(SlowRows, "copies", 0)
    part = build().subset(np.arange(2, 9))
    expected = part.subset([1, 2]).rows
    part._rows = (part._rows[0].view(SlowRows), part._rows[1])
    first, *others = run_at_once(lambda: part.rows)
    assert SlowRows.copies == 1 and all(rows is first for rows in others)
    np.testing.assert_array_equal(first[1:3], expected)


def test_threads_with_a_batch_each_compute_what_the_dictionary_keeps_once(monkeypatch):
    dictionary, pool, calls = build(), ThreadPool(0), []

    def make_batch():
        return batch_module.Batch(dictionary, Lasso(0.1), 1e-6, None, 1, pool)

    def compute(*_, **options):
        calls.append(options)
        time.sleep(0.02)
        return object()

    monkeypatch.setattr(batch_module, "Spectrum", compute)
    for work in (lambda: make_batch().keep("single", compute), lambda: make_batch().spectrum):
        calls.clear()
        first, *others = run_at_once(work)
        assert len(calls) == 1 and all(other is first for other in others)


def test_threads_over_blocks_of_samples_compute_the_gram_matrix_once(monkeypatch):
    dictionary, calls, compute = build(), [], Dictionary._gram_work

    def start_gram(self):
        calls.append(len(self))
        time.sleep(0.05)
        return compute(self)

    monkeypatch.setattr(Dictionary, "_gram_work", start_gram)
    samples = np.abs(RNG.standard_normal((4 * 256, 5)))
    parts = map_coded_blocks(lambda queries, codes: len(codes), samples, dictionary, Lasso(0.1), n_jobs=4)
    assert parts == [256] * 4 and calls == [len(ATOMS)]

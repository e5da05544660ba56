"""Class evidence from inner products equals the formulas on features."""

import numpy as np
import pytest
import reference
import scipy.sparse
from families import FAMILIES, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import kernel_matrix, unit_rows
from scale import examples

from srosr import (
    BPDN,
    OMP,
    Dictionary,
    Lasso,
    Queries,
    Ridge,
    SRCClassifier,
    class_residuals,
    residual_ratio,
    sparse_encode,
    sparsity_concentration,
)

PROBLEMS = [Lasso(0.05), BPDN(0.1), Ridge(0.1), OMP(4)]


def dense(codes):
    return codes.codes.toarray() if scipy.sparse.issparse(codes.codes) else codes.codes


def assert_close_to_direct_formula(X, codes, dictionary, atoms):
    """Check closeness within 1e-7 |y| max(1, |x|_1) of |y - Y_k x_k| for unit atoms, for every sample and class."""
    ours = class_residuals(X, codes, dictionary)
    x = dense(codes) if hasattr(codes, "status") else np.asarray(codes)
    assert ours.shape == (len(X), len(dictionary.classes_))
    for y, code, mine in zip(X, x, ours, strict=True):
        exact = reference.class_residuals(atoms, dictionary.labels, y, code)
        allowed = 1e-7 * np.linalg.norm(y) * max(1.0, np.abs(code).sum())
        np.testing.assert_allclose(mine, exact, rtol=0, atol=allowed)


def three_classes(seed=0, n=15, m=20):
    rng = np.random.default_rng(seed)
    atoms, labels = unit_rows(rng.standard_normal((n, m))), np.arange(n) % 3
    dictionary = Dictionary(atoms, labels)
    return rng, dictionary, atoms[dictionary.order]


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@pytest.mark.parametrize("shape", [(15, 20), (60, 20), (300, 40)])
def test_class_residuals_equal_the_direct_formula(problem, shape):
    rng, dictionary, atoms = three_classes(1, *shape)
    X = unit_rows(rng.standard_normal((6, shape[1])))
    assert_close_to_direct_formula(X, sparse_encode(X, dictionary, problem), dictionary, atoms)


@pytest.mark.parametrize("n_active", [1, 2, 5])
def test_residuals_near_zero_are_right_too(n_active):
    """A query that one class reproduces exactly: from squares alone 1e-8 would be the best to hope for."""
    rng, dictionary, atoms = three_classes(2)
    part = dictionary.class_slices[1]
    x = np.zeros((8, len(atoms)))
    x[:, part.start : part.start + n_active] = rng.standard_normal((8, n_active))
    X = x @ atoms
    x /= np.linalg.norm(X, axis=1, keepdims=True)
    X = x @ atoms
    ours = class_residuals(X, x, dictionary)
    assert (ours[:, 1] <= 1e-7 * np.maximum(1, np.abs(x).sum(axis=1))).all()
    np.testing.assert_allclose(ours[:, [0, 2]], 1.0, atol=1e-9)
    assert_close_to_direct_formula(X, x, dictionary, atoms)


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-6, 1e-7])
def test_small_residuals_keep_their_value(distance):
    """Distances just above the promised precision, known by construction."""
    rng, dictionary, atoms = three_classes(3)
    part = dictionary.class_slices[2]
    x = np.zeros(len(atoms))
    x[part] = 0.3 * rng.standard_normal(part.stop - part.start)
    orthogonal = rng.standard_normal(atoms.shape[1])
    orthogonal -= atoms.T @ np.linalg.lstsq(atoms.T, orthogonal, rcond=None)[0]
    y = x @ atoms + distance * orthogonal / np.linalg.norm(orthogonal)
    scale = np.linalg.norm(y)
    y, x = y / scale, x / scale
    ours = class_residuals(y[None], x[None], dictionary)[0, 2]
    assert ours == pytest.approx(distance / scale, abs=1e-7 * max(1, np.abs(x).sum()))


def test_large_opposing_coefficients_cancel():
    """|x|_1 of 2000 whose sum is a vector of length one."""
    base = unit_rows(np.random.default_rng(4).standard_normal((2, 10)))
    close = base[0] + 1e-3 * base[1]
    atoms = np.vstack([base[0], close, base[1]])
    dictionary = Dictionary(atoms, [0, 0, 1])
    x = np.array([[-1000.0, 1000.0, 0.0]])
    X = x @ atoms
    assert np.linalg.norm(X) == pytest.approx(1.0)
    ours = class_residuals(X, x, dictionary)
    assert ours[0, 0] <= 1e-7 * 2000
    assert ours[0, 1] == pytest.approx(1.0)


def test_a_query_that_is_an_atom_leaves_nothing_for_its_class():
    _, dictionary, atoms = three_classes(5)
    codes = sparse_encode(atoms, dictionary, OMP(1))
    ours = class_residuals(atoms, codes, dictionary)
    assert (ours[np.arange(15), dictionary.labels] <= 1e-7).all()
    assert (np.argmin(ours, axis=1) == dictionary.labels).all()


@settings(max_examples=examples(150), deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from([name for name in FAMILIES if name not in ("tiny", "huge", "mixed_lengths")]),
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(0, 2**16),
    st.integers(1, 6),
)
def test_class_residuals_equal_the_direct_formula_on_every_family(family, n, m, seed, n_classes):
    case = Case(family, n, m, seed, 3)
    atoms, X = unit_rows(case.atoms), unit_rows(case.queries)
    dictionary = Dictionary(case.atoms, case.rng.integers(0, n_classes, n), normalize=True)
    codes = sparse_encode(X, dictionary, Lasso(0.02), n_jobs=1)
    assert_close_to_direct_formula(X, codes, dictionary, atoms[dictionary.order])


def test_queries_are_scaled_like_atoms():
    rng = np.random.default_rng(6)
    atoms, X = 5 * rng.standard_normal((12, 7)), 100 * rng.standard_normal((4, 7))
    dictionary = Dictionary(atoms, np.arange(12) % 3, normalize=True)
    codes = sparse_encode(X, dictionary, Lasso(0.05))
    exact = [
        reference.class_residuals(unit_rows(atoms)[dictionary.order], dictionary.labels, y, x)
        for y, x in zip(unit_rows(X), dense(codes), strict=True)
    ]
    np.testing.assert_allclose(class_residuals(X, codes, dictionary), exact, atol=1e-7)


def test_codes_may_be_an_object_an_array_or_sparse():
    rng, dictionary, _ = three_classes(7)
    X = unit_rows(rng.standard_normal((4, 20)))
    codes = sparse_encode(X, dictionary, Lasso(0.05))
    by_object = class_residuals(X, codes, dictionary)
    for form in (dense(codes), codes.codes, scipy.sparse.csr_matrix(dense(codes))):
        np.testing.assert_allclose(class_residuals(X, form, dictionary), by_object, atol=1e-12)
        np.testing.assert_allclose(
            sparsity_concentration(form, dictionary), sparsity_concentration(codes, dictionary), atol=1e-12
        )
    np.testing.assert_allclose(class_residuals(dictionary.query(X), codes, dictionary), by_object, atol=1e-7)


KERNELS = {
    "rbf": lambda a, b: reference.rbf(a, b, 0.3),
    "poly": lambda a, b: reference.poly(a, b, 0.3, 2, 1.0),
    "chi2": lambda a, b: reference.chi2(a, b, 0.3),
    "histogram_intersection": reference.histogram_intersection,
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_residuals_equal_the_formula_on_kernel_values(kernel):
    """r_k^2 = k(y,y) - 2 sum x_i k(y,a_i) + sum x_i x_j k(a_i,a_j), by loops."""
    rng = np.random.default_rng(8)
    atoms, X = rng.random((9, 4)), rng.random((5, 4))
    labels = np.repeat([0, 1, 2], 3)
    dictionary = Dictionary(atoms, labels, kernel=kernel, gamma=0.3, degree=2, coef0=1.0)
    codes = sparse_encode(X, dictionary, Lasso(0.05))
    x, k = dense(codes), KERNELS[kernel]
    ours = class_residuals(X, codes, dictionary)
    for i, y in enumerate(X):
        for c in range(3):
            mine = labels == c
            squared = (
                k(y, y)
                - 2 * x[i, mine] @ [k(y, a) for a in atoms[mine]]
                + x[i, mine] @ kernel_matrix(k, atoms[mine], atoms[mine]) @ x[i, mine]
            )
            assert ours[i, c] == pytest.approx(np.sqrt(max(squared, 0)), abs=1e-7)


def test_kernel_residuals_near_zero_are_right_too():
    rng = np.random.default_rng(9)
    atoms = rng.random((12, 5))
    dictionary = Dictionary(atoms, np.repeat([0, 1, 2], 4), kernel="rbf", gamma=0.5)
    x = np.eye(12)
    ours = class_residuals(atoms, x, dictionary)
    assert (ours[np.arange(12), np.repeat([0, 1, 2], 4)] <= 1e-7).all()


def test_precomputed_similarities_give_the_same_residuals():
    rng = np.random.default_rng(10)
    atoms, X = rng.random((9, 4)), rng.random((5, 4))
    labels = np.repeat([0, 1, 2], 3)
    exact = Dictionary(atoms, labels, kernel="rbf", gamma=0.3)
    given_gram = Dictionary(kernel_matrix(KERNELS["rbf"], atoms, atoms), labels, kernel="precomputed")
    queries = Queries(kernel_matrix(KERNELS["rbf"], X, atoms), np.ones(5))
    codes = sparse_encode(X, exact, Lasso(0.05))
    np.testing.assert_allclose(class_residuals(queries, codes, given_gram), class_residuals(X, codes, exact), atol=1e-7)


def test_zero_codes_leave_the_whole_query_to_every_class():
    rng, dictionary, _ = three_classes(11)
    X = rng.standard_normal((3, 20))
    ours = class_residuals(X, np.zeros((3, 15)), dictionary)
    np.testing.assert_allclose(ours, np.repeat(np.linalg.norm(X, axis=1)[:, None], 3, axis=1), rtol=1e-12)


# --- concentration --------------------------------------------------------------------------


def test_concentration_by_hand():
    dictionary = Dictionary(np.eye(6), [0, 0, 1, 1, 2, 2])
    codes = np.array(
        [
            [0.3, -0.7, 0, 0, 0, 0],  # one class: 1
            [1, 0, 0, -1, 1, 0],  # evenly spread: 0
            [2, 0, 1, 0, 1, 0],  # half in one of three: (3/2 - 1) / 2
            [0, 0, 0, -5, 0, 0],
            [1e-12, 0, 0, 0, 0, 3e-12],  # scale does not matter: (9/4 - 1) / 2
        ]
    )
    np.testing.assert_allclose(sparsity_concentration(codes, dictionary), [1, 0, 0.25, 1, 0.625], atol=1e-12)


def test_concentration_of_a_zero_code_is_zero():
    """Nothing points to any class."""
    dictionary = Dictionary(np.eye(4), [0, 0, 1, 1])
    np.testing.assert_array_equal(sparsity_concentration(np.zeros((2, 4)), dictionary), 0.0)


def test_concentration_of_a_single_class_is_finite():
    values = sparsity_concentration(np.array([[1.0, 2.0], [0.0, 0.0]]), Dictionary(np.eye(2), [0, 0]))
    assert np.isfinite(values).all()
    assert ((values >= 0) & (values <= 1)).all()


@settings(max_examples=examples(100), deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**16), st.integers(2, 8), st.sampled_from([1e-200, 1e-9, 1.0, 1e9, 1e200]))
def test_concentration_lies_between_zero_and_one_and_equals_the_formula(seed, n_classes, scale):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 12)])
    dictionary = Dictionary(np.eye(len(labels)), labels)
    x = scale * rng.standard_normal((4, len(labels))) * (rng.random((4, len(labels))) < 0.5)
    x[:, 0] += scale
    ours = sparsity_concentration(x, dictionary)
    assert ((ours >= 0) & (ours <= 1)).all()
    np.testing.assert_allclose(
        ours, [reference.sparsity_concentration(dictionary.labels, row) for row in x], atol=1e-12
    )


# --- ratio ----------------------------------------------------------------------------------


def test_ratio_by_hand():
    residuals = np.array([[0.5, 1.0, 0.25], [1.0, 1.0, 1.0], [0.0, 0.3, 0.9], [3.0, 1.0, 2.0]])
    np.testing.assert_allclose(residual_ratio(residuals), [0.5, 1.0, 0.0, 0.5])


def test_ratio_of_two_perfect_matches_is_not_confident():
    """0/0: two classes explain the query equally well."""
    np.testing.assert_array_equal(residual_ratio(np.array([[0.0, 0.0, 1.0]])), [1.0])


def test_ratio_of_a_single_class_raises_by_name():
    """There is no second-best class."""
    with pytest.raises(ValueError, match="residuals"):
        residual_ratio(np.array([[0.4], [0.0]]))


@settings(max_examples=examples(50), deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**16), st.integers(2, 9))
def test_ratio_equals_the_formula(seed, n_classes):
    residuals = np.random.default_rng(seed).random((5, n_classes))
    ours = residual_ratio(residuals)
    np.testing.assert_allclose(ours, [reference.residual_ratio(row) for row in residuals])
    assert ((ours >= 0) & (ours <= 1)).all()


# --- bad input ------------------------------------------------------------------------------


def test_codes_that_do_not_fit_raise_by_name():
    _, dictionary, _ = three_classes(12)
    for bad in (np.zeros((2, 14)), np.zeros((3, 15)), np.zeros(15), np.full((2, 15), np.nan)):
        with pytest.raises(ValueError, match="codes"):
            class_residuals(np.ones((2, 20)), bad, dictionary)
    for bad in (np.zeros((2, 14)), np.zeros(15), np.full((2, 15), np.nan)):
        with pytest.raises(ValueError, match="codes"):
            sparsity_concentration(bad, dictionary)


def test_queries_that_do_not_fit_raise_by_name():
    _, dictionary, _ = three_classes(12)
    for bad in (np.ones((2, 19)), np.full((2, 20), np.nan), np.ones(20)):
        with pytest.raises(ValueError, match=r"\bX\b"):
            class_residuals(bad, np.zeros((2, 15)), dictionary)


@pytest.mark.parametrize("bad", [np.ones(3), -np.ones((1, 3)), np.full((1, 3), np.nan), np.empty((1, 0))])
def test_residuals_that_are_none_raise_by_name(bad):
    with pytest.raises(ValueError, match="residuals"):
        residual_ratio(bad)


def test_evidence_of_precomputed_similarities_is_that_of_the_classifier():
    """Evidence has one order, that of the rows."""
    rng = np.random.default_rng(3)
    A, X = rng.standard_normal((20, 5)), rng.standard_normal((6, 5))
    y = np.array(["b", "a"] * 10)
    queries = Queries(X @ A.T, np.einsum("ij,ij->i", X, X))
    src = SRCClassifier(kernel="precomputed").fit(A @ A.T, y)
    plain = SRCClassifier().fit(A, y)
    np.testing.assert_allclose(src.residuals(queries), plain.residuals(X), atol=1e-7)
    codes = src.encode(queries)
    np.testing.assert_allclose(class_residuals(queries, codes, src.dictionary_), plain.residuals(X), atol=1e-7)


@pytest.mark.parametrize("wrong", [np.eye(3), None], ids=["array", "nothing"])
def test_evidence_says_that_it_needs_a_dictionary(wrong):
    with pytest.raises(ValueError, match="dictionary"):
        sparsity_concentration(np.eye(3), wrong)


def test_the_ratio_says_that_it_needs_residuals():
    with pytest.raises(ValueError, match="residuals"):
        residual_ratio(object())

"""Codes against hand-made answers and independent solvers, on the cases where coders go wrong."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from reference import (
    basis_pursuit_by_linear_program,
    bpdn_by_conic_solver,
    bpdn_gap,
    degree_two_map,
    lasso_by_conic_solver,
    lasso_gap,
    lasso_objective,
    least_squares,
    least_squares_residual,
    omp_by_least_squares,
    rank,
    residual,
    ridge_by_normal_equations,
    ridge_objective,
    unit_rows,
)
from same import check_same
from scale import slow_except
from threadpoolctl import threadpool_info, threadpool_limits

from srosr import BPDN, OMP, CertificateWarning, Codes, Dictionary, Lasso, Queries, Ridge, sparse_encode
from srosr.coding import batch
from srosr.coding.products import OnDemandGram
from srosr.coding.solvers.fallback import solve_safely
from srosr.coding.solvers.on_demand import follow_on_demand
from srosr.coding.spectrum import Spectrum

TOL = 1e-6
PATHS = [Lasso(0.05), BPDN(0.3), BPDN(0.001)]
CONVEX = [*PATHS, Ridge(0.1)]
EVERY = [*CONVEX, OMP(3)]


def dense(codes: Codes) -> np.ndarray:
    x = codes.codes
    return x.toarray() if scipy.sparse.issparse(x) else np.asarray(x)


def encode(X, atoms, problem, **settings):
    return sparse_encode(np.atleast_2d(X), atoms, problem, **settings)


def one(y, atoms, problem, **settings):
    """Return the codes of one query, after checking the claims that all codes have to satisfy."""
    codes = encode(y, atoms, problem, **settings)
    x = dense(codes)[0]
    assert codes.status[0] in ("ok", "infeasible")
    assert np.isfinite(x).all()
    if not isinstance(problem, OMP):
        assert codes.gap[0] <= TOL
        assert codes.violation[0] <= TOL
    return codes, x


def unit_gaussian(seed, n, m):
    """Return atoms from a random stream of their own: queries drawn from ``default_rng(seed)`` must not repeat them."""
    return unit_rows(np.random.default_rng([seed, 1]).standard_normal((n, m)))


def unit(y):
    return y / np.linalg.norm(y)


# --- hand-made answers ----------------------------------------------------------------


def test_lasso_on_orthonormal_atoms_is_the_soft_threshold():
    y = np.array([3.0, -1.0, 0.2, 0.0, -0.5])
    codes, x = one(y, np.eye(5), Lasso(0.5))
    np.testing.assert_allclose(x, [2.5, -0.5, 0, 0, 0], atol=1e-12)
    assert codes.objective[0] == pytest.approx(0.5 * (0.25 + 0.25 + 0.04 + 0.25) + 0.5 * 3.0)
    assert codes.residual_norm[0] == pytest.approx(np.sqrt(0.25 + 0.25 + 0.04 + 0.25))


def test_bpdn_on_orthonormal_atoms_shrinks_until_the_residual_is_epsilon():
    """Two entries of 3 and 1 shrunk by 0.5 each leave a residual of sqrt(0.5)."""
    codes, x = one([3.0, -1.0], np.eye(2), BPDN(np.sqrt(0.5)))
    np.testing.assert_allclose(x, [2.5, -0.5], atol=1e-6)
    assert codes.objective[0] == pytest.approx(3.0, rel=1e-6)
    assert codes.status[0] == "ok"


def test_ridge_on_orthonormal_atoms_shrinks_every_entry():
    codes, x = one([3.0, -1.0, 0.5], np.eye(3), Ridge(0.25))
    np.testing.assert_allclose(x, np.array([3.0, -1.0, 0.5]) / 1.25, rtol=1e-12)
    assert codes.objective[0] == pytest.approx(ridge_objective(np.eye(3), np.array([3.0, -1, 0.5]), 0.25, x))


def test_omp_on_orthonormal_atoms_keeps_the_largest_entries():
    codes, x = one([0.5, -3.0, 1.0, 2.0], np.eye(4), OMP(2))
    np.testing.assert_allclose(x, [0, -3.0, 0, 2.0], atol=1e-12)
    assert np.isnan(codes.gap[0])
    assert codes.residual_norm[0] == pytest.approx(np.sqrt(1.25))


@pytest.mark.parametrize("n_atoms", [5, 30])
def test_a_query_that_is_an_atom_is_coded_by_it(n_atoms):
    atoms = unit_gaussian(0, n_atoms, 12)
    for sign in (1.0, -1.0):
        _, x = one(sign * atoms[3], atoms, Lasso(0.2))
        np.testing.assert_allclose(x, sign * 0.8 * np.eye(n_atoms)[3], atol=1e-9)
        _, x = one(sign * atoms[3], atoms, BPDN(0.2))
        np.testing.assert_allclose(x, sign * 0.8 * np.eye(n_atoms)[3], atol=1e-6)
        _, x = one(sign * atoms[3], atoms, OMP(4))
        np.testing.assert_allclose(x, sign * np.eye(n_atoms)[3], atol=1e-8)
        _, x = one(sign * atoms[3], atoms, BPDN(0.0))
        np.testing.assert_allclose(x, sign * np.eye(n_atoms)[3], atol=1e-6)


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_a_zero_query_has_the_zero_code(problem):
    codes, x = one(np.zeros(6), unit_gaussian(1, 4, 6), problem)
    np.testing.assert_array_equal(x, 0.0)
    assert codes.residual_norm[0] == 0
    assert codes.objective[0] == 0
    assert codes.status[0] == "ok"
    if not isinstance(problem, OMP):
        assert codes.gap[0] == 0


@pytest.mark.parametrize("normalize", [False, True])
def test_a_zero_query_does_not_affect_the_others(normalize):
    rng = np.random.default_rng(2)
    atoms, X = unit_gaussian(2, 9, 6), rng.standard_normal((5, 6))
    alone = encode(X, atoms, Lasso(0.05), normalize=normalize)
    X[2] = 0.0
    together = encode(X, atoms, Lasso(0.05), normalize=normalize)
    others = [0, 1, 3, 4]
    np.testing.assert_allclose(dense(together)[others], dense(alone)[others], atol=1e-12)
    np.testing.assert_array_equal(dense(together)[2], 0.0)


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_atoms_that_are_all_zero_leave_the_query_untouched(problem):
    y = np.array([1.0, 2.0, 2.0])
    codes, x = one(y, np.zeros((4, 3)), problem)
    np.testing.assert_array_equal(x, 0.0)
    assert codes.residual_norm[0] == pytest.approx(3.0)
    assert codes.status[0] == ("infeasible" if isinstance(problem, BPDN) else "ok")


@pytest.mark.parametrize("problem", EVERY, ids=repr)
@pytest.mark.parametrize("normalize", [False, True])
def test_zero_atoms_among_others_change_nothing(problem, normalize):
    rng = np.random.default_rng(3)
    atoms, y = unit_gaussian(3, 8, 12), unit(rng.standard_normal(12))
    padded = np.insert(atoms, [0, 4, 8], 0.0, axis=0)
    kept = np.any(padded, axis=1)
    _, plain = one(y, atoms, problem, normalize=normalize)
    _, x = one(y, padded, problem, normalize=normalize)
    np.testing.assert_array_equal(x[~kept], 0.0)
    np.testing.assert_allclose(x[kept], plain, atol=1e-7)


@pytest.mark.parametrize("problem", PATHS, ids=repr)
def test_duplicate_atoms_reach_the_same_objective(problem):
    rng = np.random.default_rng(4)
    for n, m in ((8, 20), (25, 10)):
        atoms, y = unit_gaussian(n, n, m), unit(rng.standard_normal(m))
        copies = np.concatenate([atoms, atoms, atoms[::-1]])
        plain, _ = one(y, atoms, problem)
        codes, x = one(y, copies, problem)
        assert codes.objective[0] == pytest.approx(plain.objective[0], rel=2 * TOL)
        folded = x[:n] + x[n : 2 * n] + x[2 * n :][::-1]
        np.testing.assert_allclose(np.abs(folded).sum(), np.abs(x).sum(), rtol=1e-6)


@pytest.mark.parametrize("problem", PATHS, ids=repr)
def test_sign_flipped_atoms_reach_the_same_objective(problem):
    rng = np.random.default_rng(5)
    for n, m in ((8, 20), (25, 10)):
        atoms, y = unit_gaussian(n, n, m), unit(rng.standard_normal(m))
        plain, _ = one(y, atoms, problem)
        codes, _ = one(y, np.concatenate([atoms, -atoms]), problem)
        assert codes.objective[0] == pytest.approx(plain.objective[0], rel=2 * TOL)


@pytest.mark.parametrize("problem", CONVEX, ids=repr)
def test_flipping_the_sign_of_an_atom_flips_its_coefficient(problem):
    rng = np.random.default_rng(6)
    atoms, y = unit_gaussian(6, 7, 15), unit(rng.standard_normal(15))
    signs = np.array([1, -1, 1, 1, -1, -1, 1.0])
    _, x = one(y, atoms, problem)
    _, flipped = one(y, signs[:, None] * atoms, problem)
    np.testing.assert_allclose(flipped, signs * x, atol=1e-7)


def lasso_optimum(atoms, y, alpha):
    bracket = lasso_by_conic_solver(atoms, y, alpha)
    assert bracket.gap <= 1e-7, "the reference itself is not accurate enough"
    return bracket.upper


def bpdn_optimum(atoms, y, epsilon):
    bracket = bpdn_by_conic_solver(atoms, y, epsilon)
    assert bracket.gap <= 1e-7, "the reference itself is not accurate enough"
    return bracket.upper


def test_an_atom_that_is_a_combination_of_others():
    """The last atom is the normalized sum of the first three, the one before a difference of two."""
    atoms = unit_gaussian(7, 6, 10)
    atoms = np.vstack([atoms, unit(atoms[1] - atoms[4]), unit(atoms[:3].sum(axis=0))])
    rng = np.random.default_rng(7)
    for y in (
        *rng.standard_normal((6, 10)),
        atoms[7],
        atoms[6] + 0.5 * atoms[7],
        atoms[0] + atoms[1] + atoms[2],
    ):
        for share in (0.5, 0.1, 0.01):
            alpha = share * np.abs(atoms @ y).max()
            codes, _ = one(y, atoms, Lasso(alpha))
            assert codes.objective[0] == pytest.approx(lasso_optimum(atoms, y, alpha), rel=TOL)


def test_exact_ties_where_every_atom_enters_at_once():
    """Vertices of a cube and a query on its axis: all correlations are equal from start to end."""
    for m in (2, 3, 4):
        corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * m)).reshape(m, -1).T / np.sqrt(m)
        for y in (np.eye(m)[0], np.ones(m), -np.eye(m)[-1] * 3):
            for alpha in (0.4, 0.1, 0.01):
                codes, _ = one(y, corners, Lasso(alpha))
                assert codes.objective[0] == pytest.approx(lasso_optimum(corners, y, alpha), rel=TOL)
            for epsilon in (0.5, 0.01):
                codes, _ = one(y, corners, BPDN(epsilon))
                assert codes.objective[0] == pytest.approx(bpdn_optimum(corners, y, epsilon), rel=TOL)


def test_ties_between_equally_correlated_atoms():
    """A regular simplex with the query at its center of gravity plus a shift common to all."""
    for n in (3, 6, 11):
        simplex = np.hstack([np.eye(n) - 1 / n, np.full((n, 1), 0.3)])
        y = np.r_[np.zeros(n), 1.0]
        for alpha in (0.1, 0.01, 1e-4):
            codes, x = one(y, simplex, Lasso(alpha))
            assert codes.objective[0] == pytest.approx(lasso_optimum(simplex, y, alpha), rel=TOL)
            # n equal shares are the least-squares answer, shrunk: 0.3 sum(x) = 1 - alpha / 0.3
            assert np.abs(x).sum() == pytest.approx((1 - alpha / 0.3) / 0.3, rel=1e-6)


def test_hadamard_atoms_tie_in_every_step():
    h = np.ones((1, 1))
    for _ in range(4):
        h = np.block([[h, h], [h, -h]])
    atoms = np.vstack([h, np.eye(16) * 4, -h[:5]]) / 4
    rng = np.random.default_rng(8)
    for y in (np.eye(16)[3], np.ones(16), rng.integers(-1, 2, 16).astype(float), h[2] + h[7]):
        for alpha in (0.3, 0.05, 0.003):
            codes, _ = one(y, atoms, Lasso(alpha))
            assert codes.objective[0] == pytest.approx(lasso_optimum(atoms, y, alpha), rel=TOL)
        codes, _ = one(y, atoms, BPDN(0.1))
        assert codes.objective[0] == pytest.approx(bpdn_optimum(atoms, y, 0.1), rel=TOL)


def test_atoms_leave_the_path_again():
    """Strongly correlated atoms on which the Lasso path provably drops an active atom."""
    rng = np.random.default_rng(9)
    atoms = unit_rows(rng.standard_normal((1, 8)) + 0.5 * rng.standard_normal((20, 8)))
    left = 0
    for y in rng.standard_normal((10, 8)):
        largest = np.abs(atoms @ y).max()
        supports = []
        for share in np.geomspace(0.9, 1e-3, 20):
            codes, x = one(y, atoms, Lasso(share * largest))
            assert codes.objective[0] == pytest.approx(lasso_optimum(atoms, y, share * largest), rel=TOL)
            supports.append(set(np.flatnonzero(np.abs(x) > 1e-9)))
        left += any(a - b for a, b in pairwise(supports))
    assert left >= 5, "the family no longer exercises removals"


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_a_single_atom(problem):
    atom, y = np.array([[0.6, 0.8]]), np.array([1.0, 0.5])
    c = 1.0  # <atom, y>
    distance = np.sqrt(1.25 - c**2)
    codes, x = one(y, atom, problem)
    expected = {
        Lasso: c - 0.05,
        Ridge: c / 1.1,
        OMP: c,
        BPDN: c,
    }[type(problem)]
    assert distance > 0.3, "both epsilons are out of reach here"
    assert x[0] == pytest.approx(expected, rel=1e-9)
    assert codes.status[0] == ("infeasible" if isinstance(problem, BPDN) else "ok")
    assert codes.residual_norm[0] == pytest.approx(np.linalg.norm(y - x[0] * atom[0]))


def test_a_single_feature():
    _, x = one([3.0], np.array([[1.0], [-2.0], [0.5]]), Lasso(0.1))
    np.testing.assert_allclose(x, [0, -(3.0 - 0.05) / 2, 0], atol=1e-9)
    _, x = one([3.0], np.array([[1.0], [-2.0], [0.5]]), BPDN(1.0))
    np.testing.assert_allclose(x, [0, -1.0, 0], atol=1e-6)


# --- against independent solvers --------------------------------------------------------

SHAPES = [(10, 30), (30, 30), (60, 20), (1, 8), (40, 41)]


@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.005])
def test_lasso_equals_the_conic_solver(n, m, alpha):
    rng = np.random.default_rng(n + m)
    atoms, X = unit_gaussian(n, n, m), unit_rows(rng.standard_normal((5, m)))
    codes = encode(X, atoms, Lasso(alpha))
    assert set(codes.status) == {"ok"}
    for y, x, objective in zip(X, dense(codes), codes.objective, strict=True):
        assert objective == pytest.approx(lasso_optimum(atoms, y, alpha), rel=TOL)
        np.testing.assert_allclose(x, lasso_by_conic_solver(atoms, y, alpha).x, atol=1e-4)


@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_bpdn_equals_the_conic_solver(n, m, share):
    """Epsilon the given share of the way from the span up to the length of the query."""
    rng = np.random.default_rng(n + m)
    atoms, X = unit_gaussian(n, n, m), unit_rows(rng.standard_normal((5, m)))
    for y in X:
        nearest = least_squares_residual(atoms, y)
        epsilon = nearest + share * (1 - nearest)
        codes, x = one(y, atoms, BPDN(epsilon))
        assert codes.status[0] == "ok"
        assert codes.objective[0] == pytest.approx(bpdn_optimum(atoms, y, epsilon), rel=TOL)
        assert np.linalg.norm(residual(atoms, y, x)) == pytest.approx(epsilon, abs=TOL)


@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("alpha", [2.0, 0.1, 1e-3, 1e-7])
def test_ridge_equals_the_normal_equations(n, m, alpha):
    rng = np.random.default_rng(n + m)
    atoms, X = unit_gaussian(n, n, m), unit_rows(rng.standard_normal((5, m)))
    codes = encode(X, atoms, Ridge(alpha))
    for y, x, objective in zip(X, dense(codes), codes.objective, strict=True):
        exact = ridge_by_normal_equations(atoms, y, alpha)
        np.testing.assert_allclose(x, exact, atol=1e-7 * np.abs(exact).max())
        assert objective == pytest.approx(ridge_objective(atoms, y, alpha, exact), rel=TOL)


@pytest.mark.parametrize("alpha", [1.0, 1e-3])
def test_ridge_on_duplicates_shares_equally(alpha):
    atoms = np.repeat(unit_gaussian(1, 4, 9), 3, axis=0)
    y = np.random.default_rng(1).standard_normal(9)
    _, x = one(y, atoms, Ridge(alpha))
    np.testing.assert_allclose(x, ridge_by_normal_equations(atoms, y, alpha), atol=1e-8)
    np.testing.assert_allclose(x, np.repeat(x[::3], 3), atol=1e-8)


@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("n_nonzero", [1, 2, 5, 200])
def test_omp_equals_the_plain_loop(n, m, n_nonzero):
    rng = np.random.default_rng(n + m)
    atoms = unit_gaussian(n, n, m) * rng.uniform(0.5, 2, (n, 1))
    X = rng.standard_normal((5, m))
    codes = encode(X, atoms, OMP(n_nonzero))
    for y, x, length in zip(X, dense(codes), codes.residual_norm, strict=True):
        exact = omp_by_least_squares(atoms, y, n_nonzero)
        assert np.count_nonzero(x) <= n_nonzero
        if n_nonzero <= min(n, m) // 2:
            np.testing.assert_allclose(x, exact, atol=1e-8)
        left = np.linalg.norm(residual(atoms, y, exact))
        assert length == pytest.approx(left, abs=1e-7 * np.linalg.norm(y))


def test_omp_on_duplicates_and_dependent_atoms_stays_finite_and_exhausts_the_span():
    base = unit_gaussian(3, 4, 10)
    atoms = np.vstack([base, base, -base, unit_rows(base[:2] + base[2:]), np.zeros((2, 10))])
    y = np.random.default_rng(3).standard_normal(10)
    codes, x = one(y, atoms, OMP(14))
    assert np.abs(x).sum() < 1e3
    assert codes.residual_norm[0] == pytest.approx(least_squares_residual(atoms, y), rel=1e-7)


# --- an epsilon out of reach -------------------------------------------------------------


def test_unreachable_epsilon_at_full_rank_is_least_squares():
    rng = np.random.default_rng(10)
    atoms, X = unit_gaussian(10, 12, 40), unit_rows(rng.standard_normal((6, 40)))
    codes = encode(X, atoms, BPDN(0.001))
    assert set(codes.status) == {"infeasible"}
    assert codes.gap.max() <= TOL
    assert codes.violation.max() <= TOL
    for y, x, length, objective in zip(X, dense(codes), codes.residual_norm, codes.objective, strict=True):
        exact = least_squares(atoms, y)
        np.testing.assert_allclose(x, exact, atol=1e-8)
        assert length == pytest.approx(least_squares_residual(atoms, y), rel=1e-8)
        assert objective == pytest.approx(np.abs(exact).sum(), rel=1e-7)


@pytest.mark.parametrize(("n", "m", "r"), [(15, 30, 6), (40, 30, 6), (60, 25, 20), (30, 12, 1)], ids=lambda v: str(v))
def test_unreachable_epsilon_at_deficient_rank_is_basis_pursuit(n, m, r):
    rng = np.random.default_rng(n * m)
    atoms = unit_rows(rng.standard_normal((n, r)) @ rng.standard_normal((r, m)))
    assert rank(atoms) == r
    for y in unit_rows(rng.standard_normal((4, m))):
        codes, x = one(y, atoms, BPDN(0.001))
        assert codes.status[0] == "infeasible"
        exact = basis_pursuit_by_linear_program(atoms, y)
        assert exact.gap <= 1e-9
        assert codes.objective[0] == pytest.approx(exact.upper, rel=TOL)
        assert np.abs(atoms @ residual(atoms, y, x)).max() <= TOL
        assert codes.residual_norm[0] == pytest.approx(least_squares_residual(atoms, y), rel=1e-7)


def test_reachable_and_unreachable_queries_in_one_batch_do_not_disturb_each_other():
    rng = np.random.default_rng(11)
    atoms = unit_rows(rng.standard_normal((20, 5)) @ rng.standard_normal((5, 15)))
    inside = unit_rows(rng.standard_normal((4, 5)) @ np.linalg.svd(atoms)[2][:5])
    outside = unit_rows(rng.standard_normal((4, 15)))
    X = np.empty((8, 15))
    X[::2], X[1::2] = inside, outside
    codes = encode(X, atoms, BPDN(0.1))
    assert list(codes.status) == ["ok", "infeasible"] * 4
    for i, y in enumerate(X):
        alone, _ = one(y, atoms, BPDN(0.1))
        assert codes.objective[i] == pytest.approx(alone.objective[0], rel=TOL)
        if codes.status[i] == "ok":
            assert codes.objective[i] == pytest.approx(bpdn_optimum(atoms, y, 0.1), rel=TOL)
            assert codes.residual_norm[i] == pytest.approx(0.1, rel=1e-5)
        else:
            exact = basis_pursuit_by_linear_program(atoms, y)
            assert codes.objective[i] == pytest.approx(exact.upper, rel=TOL)


@pytest.mark.parametrize("factor", [0.5, 0.99, 0.9999, 1.0001, 1.01, 2.0])
def test_status_tells_on_which_side_of_the_span_epsilon_lies(factor):
    rng = np.random.default_rng(12)
    atoms, y = unit_gaussian(12, 10, 14), unit(rng.standard_normal(14))
    nearest = least_squares_residual(atoms, y)
    epsilon = factor * nearest
    codes, x = one(y, atoms, BPDN(epsilon))
    assert codes.status[0] == ("ok" if factor > 1 else "infeasible")
    if factor > 1:
        assert codes.objective[0] == pytest.approx(bpdn_optimum(atoms, y, epsilon), rel=1e-5)
    else:
        np.testing.assert_allclose(x, least_squares(atoms, y), atol=1e-7)


@pytest.mark.parametrize("epsilon", [1.0, 1.0000001, 5.0, 1e200, 1e300])
@pytest.mark.parametrize("n_atoms", [9, 4], ids=["dependent atoms", "independent atoms"])
def test_epsilon_beyond_the_query_gives_the_zero_code(epsilon, n_atoms):
    y = unit(np.arange(1.0, 7.0)) * 0.9999999
    codes, x = one(y, unit_gaussian(13, n_atoms, 6), BPDN(epsilon))
    np.testing.assert_array_equal(x, 0.0)
    assert codes.status[0] == "ok"
    assert codes.gap[0] == 0
    assert codes.objective[0] == 0
    assert codes.residual_norm[0] == pytest.approx(np.linalg.norm(y))


@pytest.mark.parametrize("alpha", [1.0, 1.5, 1e300])
def test_alpha_beyond_every_correlation_gives_the_zero_code(alpha):
    codes, x = one(np.array([0.6, 0.8]), np.eye(2), Lasso(alpha))
    np.testing.assert_array_equal(x, 0.0)
    assert codes.objective[0] == pytest.approx(0.5)
    assert codes.gap[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("n", "m"), [(8, 20), (20, 20), (50, 20)])
def test_zero_epsilon_with_the_query_in_the_span_is_basis_pursuit(n, m):
    rng = np.random.default_rng(n)
    atoms = unit_gaussian(n, n, m)
    for _ in range(4):
        weights = np.zeros(n)
        weights[rng.choice(n, 6, replace=False)] = rng.standard_normal(6)
        y = weights @ atoms
        codes, x = one(y, atoms, BPDN(0.0))
        exact = basis_pursuit_by_linear_program(atoms, y)
        assert codes.objective[0] == pytest.approx(exact.upper, rel=TOL)
        assert np.linalg.norm(residual(atoms, y, x)) <= TOL * np.linalg.norm(y)


def test_a_query_orthogonal_to_every_atom_has_the_zero_code():
    atoms = np.hstack([unit_gaussian(14, 6, 4), np.zeros((6, 2))])
    y = np.array([0, 0, 0, 0, 0.6, 0.8])
    for problem in EVERY:
        codes, x = one(y, atoms, problem)
        np.testing.assert_allclose(x, 0.0, atol=1e-12)
        assert codes.residual_norm[0] == pytest.approx(1.0)


# --- what the answer says about itself -----------------------------------------------------


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_reported_residual_and_objective_are_those_of_the_code(problem):
    rng = np.random.default_rng(15)
    atoms, X = unit_gaussian(15, 25, 18), unit_rows(rng.standard_normal((6, 18)))
    codes = encode(X, atoms, problem)
    for y, x, length, objective in zip(X, dense(codes), codes.residual_norm, codes.objective, strict=True):
        r = np.linalg.norm(residual(atoms, y, x))
        assert length == pytest.approx(r, abs=1e-7)
        if isinstance(problem, Lasso):
            assert objective == pytest.approx(lasso_objective(atoms, y, problem.alpha, x), rel=1e-9)
        elif isinstance(problem, BPDN):
            assert objective == pytest.approx(np.abs(x).sum(), rel=1e-9)
        elif isinstance(problem, Ridge):
            assert objective == pytest.approx(ridge_objective(atoms, y, problem.alpha, x), rel=1e-9)


def test_reported_gap_is_neither_flattering_nor_worse_than_the_scaled_residual():
    """True suboptimality <= reported <= what the residual alone proves (formulas of the features)."""
    rng = np.random.default_rng(16)
    atoms, X = unit_gaussian(16, 40, 25), unit_rows(rng.standard_normal((8, 25)))
    slack = 1e-9
    for max_iter in (None, 1, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lasso = encode(X, atoms, Lasso(0.05), max_iter=max_iter)
        for y, x, gap in zip(X, dense(lasso), lasso.gap, strict=True):
            best = lasso_by_conic_solver(atoms, y, 0.05).lower
            suboptimality = 1 - best / lasso_objective(atoms, y, 0.05, x)
            assert suboptimality - slack <= gap <= lasso_gap(atoms, y, 0.05, x) + slack
    bpdn = encode(X, atoms, BPDN(0.2))
    for y, x, gap in zip(X, dense(bpdn), bpdn.gap, strict=True):
        suboptimality = 1 - bpdn_by_conic_solver(atoms, y, 0.2).upper / np.abs(x).sum()
        assert suboptimality - 1e-7 <= gap <= bpdn_gap(atoms, y, 0.2, x) + 1e-7


@pytest.mark.parametrize("problem", [Lasso(0.01), BPDN(0.05), BPDN(1e-4)], ids=repr)
@pytest.mark.parametrize(("n", "m"), [(60, 30), (20, 40)])
def test_running_out_of_iterations_warns_and_does_not_raise(problem, n, m):
    """Full rank with epsilon out of reach needs no iterations; everything else here needs more than one."""
    rng = np.random.default_rng(17)
    atoms, X = unit_gaussian(17, n, m), unit_rows(rng.standard_normal((4, m)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = encode(X, atoms, problem, max_iter=1)
    assert np.isfinite(dense(codes)).all()
    if n < m and isinstance(problem, BPDN):
        assert set(codes.status) <= {"infeasible", "max_iter"}
    else:
        assert set(codes.status) == {"max_iter"}
    unfinished = codes.status == "max_iter"
    short = ~((codes.gap <= TOL) & (codes.violation <= TOL))
    np.testing.assert_array_equal(short, unfinished)
    enough = encode(X, atoms, problem)
    assert "max_iter" not in set(enough.status)


def test_a_tighter_tolerance_is_honoured():
    rng = np.random.default_rng(18)
    atoms, X = unit_gaussian(18, 40, 25), unit_rows(rng.standard_normal((5, 25)))
    codes = encode(X, atoms, Lasso(0.02), tol=1e-10)
    assert set(codes.status) == {"ok"}
    for y, x in zip(X, dense(codes), strict=True):
        assert lasso_gap(atoms, y, 0.02, x) <= 1e-9


# --- shapes, types, threads ----------------------------------------------------------------


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_every_field_has_one_entry_a_query(problem):
    rng = np.random.default_rng(19)
    atoms, X = unit_gaussian(19, 11, 7), rng.standard_normal((5, 7))
    codes = encode(X, atoms, problem)
    assert isinstance(codes, Codes)
    assert codes.codes.shape == (5, 11)
    assert codes.codes.dtype == np.float64
    for field in ("residual_norm", "objective", "gap", "violation", "status", "n_iter"):
        assert getattr(codes, field).shape == (5,), field
    assert codes.problem == problem
    assert np.issubdtype(codes.n_iter.dtype, np.integer)


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_dense_and_sparse_output_hold_the_same_numbers(problem):
    rng = np.random.default_rng(20)
    atoms, X = unit_gaussian(20, 11, 7), rng.standard_normal((5, 7))
    as_sparse = encode(X, atoms, problem, sparse_output=True).codes
    as_dense = encode(X, atoms, problem, sparse_output=False).codes
    assert scipy.sparse.issparse(as_sparse)
    assert as_sparse.format == "csr"
    assert isinstance(as_dense, np.ndarray)
    check_same(as_sparse.toarray(), as_dense)
    assert as_sparse.has_canonical_format
    if not isinstance(problem, Ridge):
        assert as_sparse.nnz == np.count_nonzero(as_dense)


@pytest.mark.parametrize("problem", EVERY, ids=repr)
@pytest.mark.parametrize("degenerate", [False, True])
def test_threads_do_not_change_the_codes(problem, degenerate):
    rng = np.random.default_rng(21)
    atoms = unit_gaussian(21, 30, 20)
    if degenerate:
        atoms = np.concatenate([atoms[:10], atoms[:10], atoms[:5] + atoms[5:10]])
    X = rng.standard_normal((70, 20))
    serial, threaded = (encode(X, atoms, problem, n_jobs=n) for n in (1, 2))
    for field in ("residual_norm", "objective", "status"):
        check_same(getattr(threaded, field), getattr(serial, field))
    for field in ("gap", "violation"):  # which are zero but for rounding
        np.testing.assert_allclose(getattr(threaded, field), getattr(serial, field), rtol=0, atol=1e-9, err_msg=field)
    check_same(dense(threaded), dense(serial))


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_the_same_call_gives_the_same_answer(problem):
    rng = np.random.default_rng(22)
    atoms, X = unit_gaussian(22, 30, 20), rng.standard_normal((10, 20))
    np.testing.assert_array_equal(dense(encode(X, atoms, problem)), dense(encode(X, atoms, problem)))


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_single_precision_input_is_solved_in_double(problem):
    """The same numbers, stored in 4 or 8 bytes: the same problem, hence the same objective."""
    rng = np.random.default_rng(23)
    atoms = unit_gaussian(23, 30, 20).astype(np.float32)
    X = unit_rows(rng.standard_normal((6, 20))).astype(np.float32)
    narrow = encode(X, atoms, problem)
    wide = encode(X.astype(np.float64), atoms.astype(np.float64), problem)
    np.testing.assert_allclose(narrow.objective, wide.objective, rtol=2 * TOL)
    np.testing.assert_allclose(narrow.residual_norm, wide.residual_norm, atol=2e-6)
    assert dense(narrow).dtype == np.float64
    if isinstance(problem, Lasso):
        for y, x in zip(X.astype(float), dense(narrow), strict=True):
            assert lasso_gap(atoms.astype(float), y, problem.alpha, x) <= 2 * TOL


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_layout_does_not_matter(order):
    rng = np.random.default_rng(24)
    atoms, X = unit_gaussian(24, 30, 20), rng.standard_normal((12, 40))
    view = np.asarray(X, order=order)[::2, ::2]
    a = encode(view, np.asarray(atoms, order=order), Lasso(0.1))
    b = encode(view.copy(), atoms.copy(), Lasso(0.1))
    np.testing.assert_allclose(dense(a), dense(b), atol=1e-10)


def test_a_batch_equals_its_queries_one_by_one():
    rng = np.random.default_rng(25)
    atoms, X = unit_gaussian(25, 50, 20), unit_rows(rng.standard_normal((40, 20)))
    for problem in EVERY:
        batch = encode(X, atoms, problem)
        for i in (0, 7, 39):
            alone, _ = one(X[i], atoms, problem)
            assert batch.objective[i] == pytest.approx(alone.objective[0], rel=2 * TOL)
            np.testing.assert_allclose(dense(batch)[i], dense(alone)[0], atol=1e-6)


def test_atoms_of_any_length_without_scaling():
    rng = np.random.default_rng(26)
    atoms = rng.standard_normal((30, 20)) * rng.uniform(0.01, 30, (30, 1))
    for y in 7 * rng.standard_normal((5, 20)):
        alpha = 0.02 * np.abs(atoms @ y).max()
        codes, _ = one(y, atoms, Lasso(alpha))
        assert codes.objective[0] == pytest.approx(lasso_optimum(atoms, y, alpha), rel=TOL)
        epsilon = 0.3 * np.linalg.norm(y)
        codes, _ = one(y, atoms, BPDN(epsilon))
        assert codes.objective[0] == pytest.approx(bpdn_optimum(atoms, y, epsilon), rel=TOL)


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_normalize_scales_atoms_and_queries_alike(problem):
    rng = np.random.default_rng(27)
    atoms = rng.standard_normal((15, 20)) * rng.uniform(0.1, 10, (15, 1))
    X = rng.standard_normal((4, 20)) * np.array([[0.01], [1], [5], [300]])
    ours = encode(X, atoms, problem, normalize=True)
    theirs = encode(unit_rows(X), unit_rows(atoms), problem)
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=2 * TOL)
    np.testing.assert_allclose(dense(ours), dense(theirs), atol=1e-6)


def test_large_scale_of_everything_leaves_the_codes_alone():
    rng = np.random.default_rng(28)
    atoms, X = unit_gaussian(28, 15, 20), unit_rows(rng.standard_normal((4, 20)))
    plain = dense(encode(X, atoms, Lasso(0.05)))
    for scale in (1e-6, 1e6):
        codes = encode(scale * X, scale * atoms, Lasso(scale**2 * 0.05))
        np.testing.assert_allclose(dense(codes), plain, atol=1e-7)


# --- dictionaries too large for a Gram matrix ------------------------------------------------

LARGE = 4100  # atoms; with few queries the Gram matrix of more than 4096 is not worth computing


@cache
def large(kind, m=40):
    rng = np.random.default_rng([50, len(kind)])
    if kind == "gaussian":
        atoms = rng.standard_normal((LARGE, m))
    elif kind == "duplicates":
        atoms = rng.standard_normal((LARGE // 20, m))[rng.integers(0, LARGE // 20, LARGE)]
    elif kind == "binary":
        atoms = (rng.random((6, m)) < 0.35)[rng.integers(0, 6, LARGE)] ^ (rng.random((LARGE, m)) < 0.08)
    elif kind == "low rank":
        atoms = rng.standard_normal((LARGE, 7)) @ rng.standard_normal((7, m))
    else:
        atoms = rng.random(m) + 0.5 + 0.02 * rng.standard_normal((LARGE, m))
    queries = rng.standard_normal((8, m))
    queries[4:] = atoms[:4] + 0.1 * rng.standard_normal((4, m))
    return unit_rows(atoms), unit_rows(queries)


@pytest.mark.parametrize("kind", ["gaussian", "duplicates", "binary", "low rank", "coherent"])
@pytest.mark.parametrize("problem", [Lasso(0.05), Lasso(0.005), BPDN(0.3)], ids=repr)
def test_large_dictionaries_are_certified_without_a_gram_matrix(kind, problem):
    atoms, X = large(kind)
    dictionary = Dictionary(atoms)
    codes = sparse_encode(X, dictionary, problem)
    assert not dictionary.has_gram, "this was to be done without it"
    assert "max_iter" not in set(codes.status)
    assert codes.gap.max() <= TOL
    assert codes.violation.max() <= TOL
    for y, x, status in zip(X, dense(codes), codes.status, strict=True):
        if isinstance(problem, Lasso):
            assert lasso_gap(atoms, y, problem.alpha, x) <= 1.01 * TOL
        elif status == "ok":
            assert bpdn_gap(atoms, y, problem.epsilon, x) <= 2 * TOL
            assert np.linalg.norm(residual(atoms, y, x)) == pytest.approx(problem.epsilon, abs=2 * TOL)
        else:
            assert least_squares_residual(atoms, y) > problem.epsilon
            exact = basis_pursuit_by_linear_program(atoms, y)
            assert np.abs(x).sum() == pytest.approx(exact.upper, rel=TOL)


@pytest.mark.parametrize("problem", [Lasso(0.05), BPDN(0.3), Ridge(0.1), OMP(5)], ids=repr)
def test_the_gram_matrix_changes_the_path_and_not_the_result(problem):
    atoms, X = large("gaussian")
    without, having = Dictionary(atoms), Dictionary(atoms)
    _ = having.gram
    a, b = sparse_encode(X, without, problem), sparse_encode(X, having, problem)
    assert not without.has_gram
    assert list(a.status) == list(b.status)
    np.testing.assert_allclose(a.objective, b.objective, rtol=2 * TOL)
    np.testing.assert_allclose(a.residual_norm, b.residual_norm, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "duplicates", "binary", "low rank", "coherent"])
@pytest.mark.parametrize("epsilon", [0.001, 0.0])
@pytest.mark.parametrize("fits", [True, False], ids=["Gram matrix fits", "Gram matrix does not fit"])
def test_large_dictionaries_and_an_epsilon_hard_to_reach(monkeypatch, kind, epsilon, fits):
    """Basis pursuit, or nearly so: against the simplex method, and without a Gram matrix to fall back on too."""
    if not fits:
        monkeypatch.setattr(batch, "_GRAM_BYTES", 2**20)
    atoms, X = large(kind)
    dictionary, X = Dictionary(atoms), X[2:6]
    codes = sparse_encode(X, dictionary, BPDN(epsilon))
    assert fits or not dictionary.has_gram
    assert "max_iter" not in set(codes.status)
    for y, x, objective, status in zip(X, dense(codes), codes.objective, codes.status, strict=True):
        nearest = least_squares_residual(atoms, y)
        assert status == ("infeasible" if nearest > max(epsilon, TOL) else "ok")
        assert np.linalg.norm(residual(atoms, y, x)) == pytest.approx(max(nearest, epsilon), abs=2 * TOL)
        exact = basis_pursuit_by_linear_program(atoms, y)
        if nearest > epsilon or epsilon == 0:
            assert objective == pytest.approx(exact.upper, rel=2 * TOL)
        else:
            assert objective <= exact.upper * (1 + TOL)
            assert bpdn_gap(atoms, y, epsilon, x) <= 2 * TOL


FALLEN_BACK = [(kind, p) for kind in ("gaussian", "low rank", "coherent") for p in PATHS]


@pytest.mark.parametrize(
    ("kind", "problem"),
    slow_except([case for case in FALLEN_BACK if case[0] == "low rank" or case[1] == Lasso(0.05)], FALLEN_BACK),
    ids=str,
)
def test_the_fallback_of_large_dictionaries_agrees_with_the_homotopy(kind, problem):
    atoms, X = large(kind)
    dictionary = Dictionary(atoms)
    queries, stop = dictionary.query(X[2:6]), np.zeros(1, np.uint8)
    answers = []
    for careful in (False, True):
        codes, _, _, endings = follow_on_demand(
            OnDemandGram(dictionary),
            queries.cross,
            queries.squared_norms,
            problem,
            10**6,
            stop,
            atoms=atoms,
            careful=careful,
        )
        x = codes.toarray()
        left = np.linalg.norm(X[2:6] - x @ atoms, axis=1)
        size = np.abs(x).sum(axis=1)
        answers.append(0.5 * left**2 + problem.alpha * size if isinstance(problem, Lasso) else size)
        assert (endings <= 1).all()
    np.testing.assert_allclose(*answers, rtol=1e-5)


def test_the_safe_solver_takes_an_epsilon_at_the_very_edge_of_reach():
    """Rounding may put the distance to the span on either side of epsilon; neither side is an error."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        atoms, y = rng.standard_normal((4, 7)), rng.standard_normal(7)
        spectrum = Spectrum((atoms**2).sum(axis=1), atoms=atoms)
        corr, squared = atoms @ y, float(y @ y)
        edge = float(spectrum.compute_least_squares_residual(corr[None], np.array([squared]))[0])
        for epsilon in (edge, np.nextafter(edge, 0), np.nextafter(edge, 10), edge * (1 + 1e-15)):
            x, *_ = solve_safely(BPDN(epsilon), spectrum, corr, squared)
            assert np.linalg.norm(y - x @ atoms) == pytest.approx(edge, rel=1e-6)


@pytest.mark.parametrize("problem", PATHS, ids=repr)
def test_the_users_limit_is_final_for_large_dictionaries(problem):
    atoms, X = large("gaussian")
    with pytest.warns(CertificateWarning):
        codes = sparse_encode(X[:4], atoms, problem, max_iter=3)
    assert set(codes.status) == {"max_iter"}
    assert (codes.n_iter <= 3).all()


def test_the_users_limit_is_final_for_basis_pursuit_over_dependent_atoms():
    rng = np.random.default_rng(52)
    atoms = unit_rows(rng.standard_normal((60, 8)) @ rng.standard_normal((8, 30)))
    X = unit_rows(rng.standard_normal((5, 30)))
    with pytest.warns(CertificateWarning):
        codes = sparse_encode(X, atoms, BPDN(0.001), max_iter=3)
    assert set(codes.status) == {"max_iter"}
    assert (codes.n_iter <= 3).all()


def test_a_kernel_dictionary_may_be_large_too():
    rng = np.random.default_rng(51)
    atoms, X = rng.standard_normal((LARGE, 5)), rng.standard_normal((6, 5))
    without, having = (Dictionary(atoms, kernel="rbf", gamma=0.2) for _ in range(2))
    _ = having.gram
    a, b = sparse_encode(X, without, Lasso(0.05)), sparse_encode(X, having, Lasso(0.05))
    assert not without.has_gram
    assert set(a.status) == {"ok"}
    np.testing.assert_allclose(a.objective, b.objective, rtol=2 * TOL)


# --- kernels ------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", EVERY, ids=repr)
@pytest.mark.parametrize("normalize", [False, True])
def test_kernel_coding_is_linear_coding_of_explicit_features(problem, normalize):
    rng = np.random.default_rng(29)
    atoms, X = rng.standard_normal((12, 4)), rng.standard_normal((5, 4))
    gamma, coef0 = 0.6, 1.1
    dictionary = Dictionary(
        atoms, kernel="poly", degree=2, gamma=gamma, coef0=coef0, normalize="kernel" if normalize else False
    )
    ours = sparse_encode(X, dictionary, problem)
    explicit, queries = (degree_two_map(z, gamma, coef0) for z in (atoms, X))
    if normalize:
        explicit, queries = unit_rows(explicit), unit_rows(queries)
    theirs = sparse_encode(queries, explicit, problem)
    assert list(ours.status) == list(theirs.status)
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=2 * TOL)
    np.testing.assert_allclose(ours.residual_norm, theirs.residual_norm, atol=1e-6)
    for y, objective in zip(queries, ours.objective, strict=True):
        if isinstance(problem, Lasso):
            assert objective == pytest.approx(lasso_optimum(explicit, y, problem.alpha), rel=TOL)


def test_kernel_argument_and_dictionary_agree():
    rng = np.random.default_rng(30)
    atoms, X = rng.standard_normal((12, 4)), rng.standard_normal((5, 4))
    for kernel in ("rbf", "poly", "linear"):
        a = sparse_encode(X, atoms, Lasso(0.05), kernel=kernel, normalize=True)
        b = sparse_encode(X, Dictionary(atoms, kernel=kernel, normalize=True), Lasso(0.05))
        check_same(dense(a), dense(b))


def test_codes_over_a_dictionary_follow_its_order():
    rng = np.random.default_rng(31)
    atoms, X = rng.standard_normal((12, 20)), rng.standard_normal((5, 20))
    dictionary = Dictionary(atoms, np.tile(["b", "c", "a"], 4), normalize=True)
    over_dictionary = dense(sparse_encode(X, dictionary, Lasso(0.05)))
    over_array = dense(sparse_encode(X, atoms, Lasso(0.05), normalize=True))
    np.testing.assert_allclose(over_dictionary, over_array[:, dictionary.order], atol=1e-7)


def test_queries_prepared_beforehand_code_the_same():
    rng = np.random.default_rng(32)
    dictionary = Dictionary(rng.standard_normal((12, 4)), kernel="rbf", normalize=True)
    X = rng.standard_normal((5, 4))
    direct = sparse_encode(X, dictionary, BPDN(0.2))
    prepared = sparse_encode(dictionary.query(X), dictionary, BPDN(0.2))
    np.testing.assert_allclose(dense(prepared), dense(direct), atol=1e-9)


def test_rbf_codes_satisfy_the_optimality_conditions():
    """No explicit features exist, but |k(y) - Kx| <= alpha with equality and sign where x is not zero."""
    rng = np.random.default_rng(33)
    atoms, X = rng.standard_normal((30, 6)), rng.standard_normal((5, 6))
    dictionary = Dictionary(atoms, kernel="rbf", gamma=0.1)
    codes = sparse_encode(X, dictionary, Lasso(0.02), tol=1e-10)
    squared = ((X[:, None] - atoms) ** 2).sum(axis=2), ((atoms[:, None] - atoms) ** 2).sum(axis=2)
    cross, gram = (np.exp(-0.1 * d) for d in squared)
    correlation = cross - dense(codes) @ gram
    assert np.abs(correlation).max() <= 0.02 * (1 + 1e-4)
    active = np.abs(dense(codes)) > 1e-6
    np.testing.assert_allclose(correlation[active], 0.02 * np.sign(dense(codes)[active]), atol=2e-6)
    exact = 1 - 2 * (dense(codes) * cross).sum(axis=1) + np.einsum("ij,jk,ik->i", dense(codes), gram, dense(codes))
    np.testing.assert_allclose(codes.residual_norm, np.sqrt(exact), atol=1e-7)


# --- bad input ----------------------------------------------------------------------------

GOOD_ATOMS, GOOD_X = unit_gaussian(40, 6, 4), np.ones((2, 4))


@pytest.mark.parametrize(
    "X",
    [
        np.full((2, 4), np.nan),
        np.full((2, 4), np.inf),
        np.ones((2, 3)),
        np.ones(4),
        np.ones((2, 4, 1)),
        np.empty((0, 4)),
        np.array([["a", "b", "c", "d"]]),
        np.array([[{}, 1, 2, 3]], dtype=object),
        None,
    ],
    ids=["nan", "inf", "too few features", "1-d", "3-d", "empty", "text", "object", "None"],
)
def test_bad_queries_raise_an_error_that_names_them(X):
    with pytest.raises(ValueError, match=r"\bX\b"):
        sparse_encode(X, GOOD_ATOMS, Lasso(0.1))


@pytest.mark.parametrize(
    "atoms",
    [np.full((6, 4), np.nan), np.full((6, 4), np.inf), np.ones(4), np.empty((0, 4)), None, "atoms of text"],
    ids=["nan", "inf", "1-d", "empty", "None", "text"],
)
def test_bad_atoms_raise_an_error_that_names_them(atoms):
    with pytest.raises(ValueError, match=r"\batoms\b"):
        sparse_encode(GOOD_X, atoms, Lasso(0.1))


@pytest.mark.parametrize("problem", [None, 0.1, "lasso", Lasso])
def test_a_wrong_type_of_problem_raises_an_error_that_names_it(problem):
    with pytest.raises(ValueError, match=r"\bproblem\b"):
        sparse_encode(GOOD_X, GOOD_ATOMS, problem)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel", "gaussian"),
        ("normalize", "unit"),
        ("tol", 0),
        ("tol", -1.0),
        ("tol", np.nan),
        ("max_iter", 0),
        ("max_iter", -3),
        ("max_iter", 1.5),
        ("n_jobs", 0),
        ("n_jobs", 1.5),
    ],
)
def test_bad_settings_raise_an_error_that_names_them(name, value):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        sparse_encode(GOOD_X, GOOD_ATOMS, Lasso(0.1), **{name: value})


def test_similarities_to_another_number_of_atoms_raise_an_error():
    with pytest.raises(ValueError, match=r"\bX\b"):
        sparse_encode(Queries(np.ones((2, 5)), np.ones(2)), Dictionary(GOOD_ATOMS), Lasso(0.1))


def test_features_in_place_of_precomputed_similarities_raise_an_error():
    with pytest.raises(ValueError, match="Queries"):
        sparse_encode(np.ones((2, 4)), np.eye(4), Lasso(0.1), kernel="precomputed")


def test_impossible_similarities_raise_an_error():
    """A query of length 1 cannot have inner product 5 with a unit atom: no vectors have these numbers."""
    queries = Queries(np.array([[5.0, 0.0]]), np.array([1.0]))
    for normalize in (False, True):
        dictionary = Dictionary(4 * np.eye(2), kernel="precomputed", normalize=normalize)
        with pytest.raises(ValueError, match=r"\bX\b"):
            sparse_encode(queries, dictionary, Lasso(0.1))
        assert sparse_encode(queries, Dictionary(25 * np.eye(2), kernel="precomputed"), Lasso(0.1)).status == "ok"


def test_unscaled_similarities_raise_an_error_in_a_dictionary_that_scales():
    with pytest.raises(ValueError, match=r"\bX\b.*samples themselves"):
        sparse_encode(Queries(np.ones((1, 3)), np.ones(1)), Dictionary(2 * np.eye(3), normalize=True), Lasso(0.1))


@pytest.mark.parametrize("epsilon", [0.2, 0.1, 0.05, 0.01, 0.001])
def test_an_epsilon_that_only_nearly_dependent_atoms_reach_is_reached(epsilon):
    """Codes of 1e5 over atoms 1e-6 apart: the residual drowns in the rounding of Gram quantities."""
    atoms = np.array([[1.0, 0.0], [np.cos(1e-6), np.sin(1e-6)]])
    y = np.array([1.0, 0.3]) / np.hypot(1.0, 0.3)
    codes, x = one(y, atoms, BPDN(epsilon))
    assert codes.status[0] == "ok"
    assert np.linalg.norm(y - x @ atoms) == pytest.approx(epsilon, abs=1e-8)
    # Two atoms span the plane: the code is that of the point of the circle with the least |x|_1, an end of its chord.
    assert codes.objective[0] == pytest.approx(bpdn_by_conic_solver(atoms, y, epsilon).upper, rel=1e-5)


def test_samples_too_long_to_square_raise_an_error_that_names_them():
    with pytest.raises(ValueError, match=r"\bX\b"):
        sparse_encode(np.full((1, 2), 3e160), np.eye(2), Lasso(0.1))


def test_concurrent_calls_leave_the_blas_threads_as_they_were():
    def threads():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    X = np.random.default_rng(0).standard_normal((300, 8))
    with threadpool_limits(2), ThreadPoolExecutor(4) as pool:  # tests run with one
        before = threads()
        list(pool.map(lambda _: sparse_encode(X, X[:40], Lasso(0.1)), range(8)))
        assert max(before) == 2 and threads() == before


def test_a_path_that_uses_up_its_steps_leaves_basis_pursuit_to_the_fallback_solver(monkeypatch):
    """An epsilon out of reach over dependent atoms; nobody asked for a limit of steps."""
    rng = np.random.default_rng(3)
    basis = rng.normal(size=(10, 20))
    atoms = rng.normal(size=(110, 10)) @ basis
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    X = rng.normal(size=(4, 20))
    expected = sparse_encode(X, atoms, BPDN(0.001))
    monkeypatch.setattr("srosr.coding.batch._STEPS_AN_ATOM", -10)  # no step is left: 1000 - 10 * 110
    codes = sparse_encode(X, atoms, BPDN(0.001))
    assert set(codes.status) == set(expected.status) == {"infeasible"}
    np.testing.assert_allclose(codes.objective, expected.objective, rtol=1e-6)

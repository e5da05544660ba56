"""References of different kinds agree with each other and with cases computed by hand."""

import numpy as np
import pytest
from families import FAMILIES, Case
from reference import (
    basis_pursuit_by_linear_program,
    bpdn_by_conic_solver,
    bpdn_gap,
    degree_two_map,
    kernel_matrix,
    lasso_by_conic_solver,
    lasso_by_coordinate_descent,
    lasso_gap,
    lasso_objective,
    least_squares,
    least_squares_residual,
    omp_by_least_squares,
    poly,
    rank,
    ridge_by_normal_equations,
    ridge_objective,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_conic_solver_and_coordinate_descent_bracket_the_same_lasso_optimum(family):
    for seed in range(3):
        case = Case(family, 12 + 9 * seed, 20 - 6 * seed, seed, 3)
        for y in case.queries:
            largest = np.abs(case.atoms @ y).max()
            for alpha in (0.3 * largest, 0.03 * largest):
                if alpha == 0:
                    continue
                conic = lasso_by_conic_solver(case.atoms, y, alpha)
                sweeps = 3000 if family != "coherent" else 100  # where it crawls
                descent = lasso_by_coordinate_descent(case.atoms, y, alpha, max_sweeps=sweeps)
                assert conic.gap <= 1e-7, (case, conic.gap)
                assert descent.upper >= conic.lower * (1 - 1e-12)
                assert descent.lower <= conic.upper * (1 + 1e-12)
                assert descent.gap <= 1e-6 or family == "coherent"


@pytest.mark.parametrize("family", FAMILIES)
def test_bpdn_and_lasso_are_the_same_curve(family):
    """The Lasso optimum with residual rho solves BPDN with epsilon = rho."""
    for seed in range(3):
        case = Case(family, 12 + 9 * seed, 20 - 6 * seed, seed, 3)
        for y in case.queries:
            alpha = 0.1 * np.abs(case.atoms @ y).max()
            if alpha == 0:
                continue
            lasso = lasso_by_conic_solver(case.atoms, y, alpha)
            epsilon = np.linalg.norm(y - case.atoms.T @ lasso.x)
            if epsilon < 1.001 * least_squares_residual(case.atoms, y):
                continue
            bpdn = bpdn_by_conic_solver(case.atoms, y, epsilon)
            assert bpdn.gap <= 1e-7, (case, bpdn.gap)
            assert bpdn.upper == pytest.approx(np.abs(lasso.x).sum(), rel=1e-5)
            assert bpdn_gap(case.atoms, y, epsilon, lasso.x) <= 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_basis_pursuit_is_bpdn_as_epsilon_nears_the_distance_to_the_span(family):
    for seed in range(3):
        case = Case(family, 12 + 9 * seed, 20 - 6 * seed, seed, 3)
        for y in case.queries:
            pursuit = basis_pursuit_by_linear_program(case.atoms, y)
            assert pursuit.gap <= 1e-8, (case, pursuit.gap)
            distance = least_squares_residual(case.atoms, y)
            projected = y - case.atoms.T @ pursuit.x
            assert np.linalg.norm(projected) == pytest.approx(distance, abs=1e-8 * np.linalg.norm(y))
            wide, narrow = np.sqrt(distance**2 + np.array([1e-2, 1e-3]) ** 2 * (y @ y))
            if not np.any(y):
                continue
            far = bpdn_by_conic_solver(case.atoms, y, wide)
            near = bpdn_by_conic_solver(case.atoms, y, narrow)
            assert far.lower <= near.upper * (1 + 1e-7)
            assert near.lower <= pursuit.upper * (1 + 1e-9)


def test_basis_pursuit_at_full_column_rank_is_least_squares():
    case = Case("gaussian", 8, 15, 3, 1)
    y = case.rng.standard_normal(15)
    assert rank(case.atoms) == 8
    pursuit = basis_pursuit_by_linear_program(case.atoms, y)
    np.testing.assert_allclose(pursuit.x, least_squares(case.atoms, y), atol=1e-9)


def test_lasso_on_orthonormal_atoms_is_the_soft_threshold():
    y = np.array([3.0, -1.0, 0.2, 0.0])
    np.testing.assert_allclose(lasso_by_conic_solver(np.eye(4), y, 0.5).x, [2.5, -0.5, 0, 0], atol=1e-9)
    np.testing.assert_allclose(lasso_by_coordinate_descent(np.eye(4), y, 0.5).x, [2.5, -0.5, 0, 0])


def test_gap_is_positive_away_from_the_optimum():
    case = Case("gaussian", 10, 20, 0, 1)
    y = case.queries[0]
    alpha = 0.1 * np.abs(case.atoms @ y).max()
    best = lasso_by_conic_solver(case.atoms, y, alpha)
    worse = best.x + 0.01
    true_gap = 1 - best.lower / lasso_objective(case.atoms, y, alpha, worse)
    assert true_gap > 1e-5
    assert lasso_gap(case.atoms, y, alpha, worse) >= true_gap * (1 - 1e-6)


def test_ridge_oracle_is_stationary():
    rng = np.random.default_rng(0)
    atoms, y = rng.standard_normal((6, 9)), rng.standard_normal(9)
    x = ridge_by_normal_equations(atoms, y, 0.3)
    here = ridge_objective(atoms, y, 0.3, x)
    for direction in np.eye(6):
        assert ridge_objective(atoms, y, 0.3, x + 1e-3 * direction) > here
        assert ridge_objective(atoms, y, 0.3, x - 1e-3 * direction) > here


def test_omp_oracle_recovers_a_mixture_of_orthonormal_atoms():
    x = omp_by_least_squares(np.eye(5), np.array([0, 3.0, 0, -2.0, 1.0]), 2)
    np.testing.assert_allclose(x, [0, 3, 0, -2, 0], atol=1e-12)


def test_degree_two_map_reproduces_the_polynomial_kernel():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((3, 4)), rng.standard_normal((2, 4))
    exact = kernel_matrix(lambda p, q: poly(p, q, 0.7, 2, 1.3), a, b)
    np.testing.assert_allclose(degree_two_map(a, 0.7, 1.3) @ degree_two_map(b, 0.7, 1.3).T, exact)

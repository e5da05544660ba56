"""Claims that hold for every dictionary, tried on families of degenerate and ordinary ones.

The reference is always the raw features: a duality gap computed from them proves a code optimal, whichever solver
found it, and the bracket of an independent solver has to contain its objective.
"""

from itertools import pairwise

import numpy as np
import pytest
import scale
import scipy.sparse
from families import BLURRED, FAMILIES, Case, cases
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from reference import (
    basis_pursuit_by_linear_program,
    bpdn_by_conic_solver,
    lasso_by_conic_solver,
    lasso_gap,
    lasso_objective,
    least_squares_residual,
    omp_by_least_squares,
    residual,
    ridge_by_normal_equations,
    ridge_objective,
    span_basis,
    unit_rows,
)

from srosr import BPDN, OMP, Lasso, Ridge, sparse_encode

TOL = 1e-6

shares = st.sampled_from([0.9, 0.5, 0.2, 0.05, 0.01, 1e-3])


def examples(n):
    """Return settings for n examples, fewer in the default run, and the same on every machine."""
    return settings(
        max_examples=scale.examples(n),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def dense(codes):
    return codes.codes.toarray() if scipy.sparse.issparse(codes.codes) else codes.codes


def encode(X, atoms, problem, **options):
    codes = sparse_encode(X, atoms, problem, n_jobs=1, **options)
    report = f"{problem}: {codes.status}, gap {codes.gap}, violation {codes.violation}"
    assert set(codes.status) <= {"ok", "infeasible"}, report
    assert codes.gap.max() <= TOL, report
    assert codes.gap.min() >= -1e-12, report
    assert codes.violation.max() <= TOL, report
    return codes


def alpha_for(case, share):
    """Return the level at the given share of the path of the query with the largest correlation."""
    largest = np.abs(case.atoms @ case.queries.T).max()
    assume(largest > 0)
    return share * largest


def epsilon_for(atoms, y, share):
    """Return an epsilon that stops the given share above the span, in the geometry of the constraint.

    None for a query at right angles to the span: no epsilon below its length is far enough above its distance.
    """
    inside = np.linalg.norm(span_basis(atoms).T @ y)
    if share * inside <= 1e-7 * np.linalg.norm(y):
        return None
    return np.hypot(least_squares_residual(atoms, y), share * inside)


def assert_optimal_lasso(atoms, y, alpha, x, objective):
    value = lasso_objective(atoms, y, alpha, x)
    # Gram and features round differently: eps |y|^2 in absolute terms, whatever the objective is.
    rounding = 1e-13 * (y @ y + (atoms**2).sum(axis=1).max() * np.abs(x).sum() ** 2)
    assert objective == pytest.approx(value, rel=1e-9, abs=rounding)
    assert lasso_gap(atoms, y, alpha, x) <= TOL * 1.01 + rounding / max(value, 1e-300)
    exact = lasso_by_conic_solver(atoms, y, alpha)
    assert value <= exact.upper * (1 + TOL) + rounding
    assert value >= exact.lower - rounding


# --- every answer is optimal -----------------------------------------------------------------


@examples(600)
@given(cases(), shares)
def test_lasso_codes_are_optimal(case, share):
    alpha = alpha_for(case, share)
    codes = encode(case.queries, case.atoms, Lasso(alpha))
    assert set(codes.status) == {"ok"}
    for y, x, objective in zip(case.queries, dense(codes), codes.objective, strict=True):
        assert_optimal_lasso(case.atoms, y, alpha, x, objective)


@examples(250)
@given(cases(BLURRED), shares)
def test_lasso_codes_are_optimal_over_almost_dependent_atoms(case, share):
    alpha = alpha_for(case, share)
    codes = encode(case.queries, case.atoms, Lasso(alpha))
    assert set(codes.status) == {"ok"}
    for y, x, objective in zip(case.queries, dense(codes), codes.objective, strict=True):
        assert_optimal_lasso(case.atoms, y, alpha, x, objective)


def assert_optimal_bpdn(atoms, y, epsilon, x, **rank_tolerance):
    length = np.linalg.norm(residual(atoms, y, x))
    assert length == pytest.approx(epsilon, abs=1.01 * TOL * np.linalg.norm(y))
    exact, size = bpdn_by_conic_solver(atoms, y, epsilon, **rank_tolerance), np.abs(x).sum()
    assert size <= exact.upper * (1 + 1.01 * TOL)
    # A residual that exceeds epsilon within its tolerance saves something, and much over almost dependent atoms.
    if size < exact.lower and length > epsilon:
        exact = bpdn_by_conic_solver(atoms, y, length, **rank_tolerance)
    assert size >= exact.lower * (1 - 1e-5)


@examples(500)
@given(cases(max_queries=2), st.sampled_from([0.9, 0.5, 0.2, 0.05, 0.01]))
def test_bpdn_codes_are_optimal_and_end_on_the_boundary(case, share):
    for y in case.queries:
        epsilon = epsilon_for(case.atoms, y, share)
        if epsilon is None:
            continue
        codes = encode(y[None], case.atoms, BPDN(epsilon))
        assert codes.status[0] == "ok"
        assert_optimal_bpdn(case.atoms, y, epsilon, dense(codes)[0])


@examples(150)
@given(cases(BLURRED, max_queries=2), st.sampled_from([0.9, 0.5, 0.2, 0.05]))
def test_bpdn_codes_are_optimal_over_almost_dependent_atoms(case, share):
    """Epsilon holds if the code needs no direction whose existence depends on rounding."""
    for y in case.queries:
        coarse = least_squares_residual(case.atoms, y, rank_tolerance=1e-4)
        inside = np.sqrt(max(0.0, y @ y - coarse**2))
        if inside <= 1e-3 * np.linalg.norm(y):
            continue
        epsilon = np.hypot(coarse, share * inside)
        codes = encode(y[None], case.atoms, BPDN(epsilon))
        assert codes.status[0] == "ok"
        assert_optimal_bpdn(case.atoms, y, epsilon, dense(codes)[0], rank_tolerance=1e-13)


@pytest.mark.parametrize(
    ("family", "n", "m", "seed", "n_queries", "share"),
    [
        ("near_duplicates", 33, 5, 2600, 1, 0.2),
        ("near_duplicates", 28, 28, 1551258142, 4, 0.0005293625463522408),
        ("near_duplicates", 66, 21, 641004849, 3, 0.0002331652194583011),
        ("near_duplicates", 134, 101, 1207430929, 5, 0.00014430834871058626),
    ],
)
def test_lasso_cases_that_long_searches_found(family, n, m, seed, n_queries, share):
    case = Case(family, n, m, seed, n_queries)
    alpha = alpha_for(case, share)
    codes = encode(case.queries, case.atoms, Lasso(alpha))
    for y, x, objective in zip(case.queries, dense(codes), codes.objective, strict=True):
        assert_optimal_lasso(case.atoms, y, alpha, x, objective)


@pytest.mark.parametrize(
    ("family", "n", "m", "seed", "n_queries", "epsilon"),
    [
        ("coherent", 62, 10, 768825212, 5, 0.02871783445818782),
        ("coherent", 146, 90, 1390924838, 4, 0.02874942559139472),
        ("near_collinear", 5, 19, 256648045, 2, 28.680213869787163),
        ("near_collinear", 21, 120, 24572146, 4, 486.16580465286034),
        ("near_duplicates", 45, 22, 335526849, 3, 10.664629598100557),
        ("near_duplicates", 50, 130, 976227802, 5, 118.48437481773088),
        ("decaying_spectrum", 114, 9, 741432067, 2, 0.013225912488664305),
    ],
)
def test_bpdn_cases_that_long_searches_found(family, n, m, seed, n_queries, epsilon):
    case = Case(family, n, m, seed, n_queries)
    tried = 0
    for y in case.queries:
        if not least_squares_residual(case.atoms, y, rank_tolerance=1e-4) < epsilon < np.linalg.norm(y):
            continue
        tried += 1
        codes = encode(y[None], case.atoms, BPDN(epsilon))
        assert codes.status[0] == "ok"
        assert_optimal_bpdn(case.atoms, y, epsilon, dense(codes)[0], rank_tolerance=1e-13)
    assert tried


@pytest.mark.filterwarnings("ignore::srosr.exceptions.CertificateWarning")
def test_a_code_at_the_end_of_a_smooth_spectrum_is_optimal_though_its_proof_loses_to_rounding():
    """Singular values down to 1e-15 of the first: the margins for rounding alone are as large as the tolerance."""
    case, epsilon = Case("decaying_spectrum", 39, 7, 1039938498, 4), 0.16461905479454164
    tried = 0
    for y in case.queries:
        if not least_squares_residual(case.atoms, y, rank_tolerance=1e-4) < epsilon < np.linalg.norm(y):
            continue
        tried += 1
        codes = sparse_encode(y[None], case.atoms, BPDN(epsilon))
        exact = bpdn_by_conic_solver(case.atoms, y, epsilon, rank_tolerance=1e-13)
        assert np.abs(dense(codes)[0]).sum() == pytest.approx(exact.upper, rel=1e-7)
        assert codes.gap[0] <= 1e-5
    assert tried


@pytest.mark.filterwarnings("ignore::srosr.exceptions.CertificateWarning")
@pytest.mark.parametrize(
    ("n", "m", "seed", "kind", "epsilon"),
    [
        (168, 54, 2014135884, "integers", 0.4549504575726527),
        (139, 40, 1661199351, "integers", 1.115747709096747),
        (158, 61, 1402180852, "near an atom", 0.2834058141811196),
        (118, 35, 93551986, "outside", 1.6635051583177012),
        (239, 74, 805298298, "outside", 2.4545639850103593),
    ],
)
def test_no_certificate_over_many_near_duplicates_is_a_rounding_error(n, m, seed, kind, epsilon):
    """Dual points with coefficients of 1e13 once "proved" codes optimal that were 5e-4 too long."""
    case = Case("near_duplicates", n, m, seed, 3 if n != 239 else 5)
    y = case.queries[case.kinds.index(kind)]
    codes = sparse_encode(y[None], case.atoms, BPDN(epsilon))
    exact = bpdn_by_conic_solver(case.atoms, y, epsilon, rank_tolerance=1e-13)
    assert exact.gap <= 1e-7
    suboptimality = 1 - exact.upper / np.abs(dense(codes)[0]).sum()
    assert suboptimality <= codes.gap[0] + TOL
    assert codes.status[0] == "ok"


@examples(400)
@given(cases(max_queries=2), st.sampled_from([0.9, 0.5, 0.0]))
def test_an_epsilon_out_of_reach_is_basis_pursuit_of_the_projection(case, share):
    for y in case.queries:
        nearest = least_squares_residual(case.atoms, y)
        if nearest <= 1e-3 * np.linalg.norm(y):
            continue
        codes = encode(y[None], case.atoms, BPDN(share * nearest))
        assert codes.status[0] == "infeasible"
        exact = basis_pursuit_by_linear_program(case.atoms, y)
        x = dense(codes)[0]
        longest = np.linalg.norm(case.atoms, axis=1).max()
        if np.linalg.norm(exact.x) * longest <= 1e-9 * np.linalg.norm(y):
            assert np.abs(x).sum() * longest <= 1e-6 * np.linalg.norm(y)
            continue
        assert np.abs(x).sum() <= exact.upper * (1 + TOL)
        assert np.abs(x).sum() >= exact.lower * (1 - 1e-5)
        correlation = np.abs(case.atoms @ residual(case.atoms, y, x)).max()
        assert correlation <= 1.01 * TOL * np.linalg.norm(y) * longest
        assert np.linalg.norm(residual(case.atoms, y, x)) == pytest.approx(nearest, rel=1e-6)


@examples(300)
@given(cases(max_queries=2))
def test_zero_epsilon_inside_the_span_is_basis_pursuit(case):
    weights = case.rng.standard_normal((2, len(case.atoms))) * (case.rng.random((2, len(case.atoms))) < 0.5)
    for y in weights @ case.atoms:
        if not np.any(y):
            continue
        codes = encode(y[None], case.atoms, BPDN(0.0))
        exact = basis_pursuit_by_linear_program(case.atoms, y)
        x = dense(codes)[0]
        assert np.abs(x).sum() <= exact.upper * (1 + TOL)
        assert np.abs(x).sum() >= exact.lower * (1 - 1e-5)
        assert np.linalg.norm(residual(case.atoms, y, x)) <= 1e-6 * np.linalg.norm(y)


@examples(150)
@given(cases(), shares)
def test_ridge_codes_solve_the_normal_equations(case, share):
    longest = np.linalg.norm(case.atoms, axis=1).max()
    assume(longest > 0)
    alpha = share * longest**2
    codes = encode(case.queries, case.atoms, Ridge(alpha))
    for y, x, objective in zip(case.queries, dense(codes), codes.objective, strict=True):
        exact = ridge_by_normal_equations(case.atoms, y, alpha)
        np.testing.assert_allclose(x, exact, atol=1e-8 * np.linalg.norm(y) / longest)
        assert objective == pytest.approx(ridge_objective(case.atoms, y, alpha, exact), rel=1e-6)


@examples(150)
@given(cases(["gaussian", "unit_gaussian", "mixed_lengths", "zeros_among", "tiny", "huge"]), st.integers(1, 45))
def test_omp_codes_are_those_of_the_plain_loop(case, n_nonzero):
    codes = sparse_encode(case.queries, case.atoms, OMP(n_nonzero), n_jobs=1)
    for y, x, length in zip(case.queries, dense(codes), codes.residual_norm, strict=True):
        exact = omp_by_least_squares(case.atoms, y, n_nonzero)
        left = np.linalg.norm(residual(case.atoms, y, exact))
        assert np.count_nonzero(x) <= n_nonzero
        assert length == pytest.approx(left, abs=1e-6 * np.linalg.norm(y))
        assert np.linalg.norm(residual(case.atoms, y, x)) == pytest.approx(left, abs=1e-6 * np.linalg.norm(y))


# --- no certificate is false -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::srosr.exceptions.CertificateWarning")
@examples(200)
@given(cases([*FAMILIES, *BLURRED], max_queries=2), st.sampled_from([1e-7, 1e-5, 1e-4, 1e-3, 1e-2]))
def test_a_status_is_true_for_a_small_epsilon(case, share):
    """By the features: "ok" is within epsilon, "infeasible" is for samples that no code brings there."""
    for y in case.queries:
        length = np.linalg.norm(y)
        if length == 0:
            continue
        epsilon = share * length
        codes = sparse_encode(y[None], case.atoms, BPDN(epsilon), n_jobs=1)
        left = np.linalg.norm(residual(case.atoms, y, dense(codes)[0]))
        if codes.status[0] == "ok":
            assert left <= epsilon + 1.01 * TOL * length
        elif codes.status[0] == "infeasible":
            assert least_squares_residual(case.atoms, y, rank_tolerance=1e-9) > epsilon
            assert left > epsilon


@pytest.mark.parametrize("n", [20, 50, 100])
@pytest.mark.parametrize("epsilon", [1e-4, 1e-3])
def test_square_dictionaries_reach_every_epsilon(n, epsilon):
    """The smallest singular value is small now and then: a code may be stationary to the tolerance and yet short."""
    rng = np.random.default_rng(n)
    for _ in range(10):
        atoms, X = (unit_rows(rng.standard_normal((k, n))) for k in (n, 20))
        codes = sparse_encode(X, atoms, BPDN(epsilon))
        assert set(codes.status) == {"ok"}


# --- every answer knows its symmetries ---------------------------------------------------------


@examples(100)
@given(cases(), shares, st.sampled_from([1e-5, 0.3, 7.0, 1e4]))
def test_scaling_query_and_alpha_scales_the_code(case, share, t):
    """x -> t x, objective -> t^2 objective."""
    alpha = alpha_for(case, share)
    plain = encode(case.queries, case.atoms, Lasso(alpha))
    scaled = encode(t * case.queries, case.atoms, Lasso(t * alpha))
    np.testing.assert_allclose(scaled.objective, t**2 * plain.objective, rtol=2 * TOL)


@examples(100)
@given(cases(max_queries=2), st.sampled_from([0.5, 0.1]), st.sampled_from([1e-5, 0.3, 7.0, 1e4]))
def test_scaling_query_and_epsilon_scales_the_code(case, share, t):
    for y in case.queries:
        epsilon = epsilon_for(case.atoms, y, share)
        if epsilon is None:
            continue
        plain = encode(y[None], case.atoms, BPDN(epsilon))
        scaled = encode(t * y[None], case.atoms, BPDN(t * epsilon))
        np.testing.assert_allclose(scaled.objective, t * plain.objective, rtol=1e-5)


@examples(100)
@given(cases(), shares)
def test_permuting_atoms_leaves_the_objective(case, share):
    alpha = alpha_for(case, share)
    plain = encode(case.queries, case.atoms, Lasso(alpha))
    shuffled = encode(case.queries, case.atoms[case.rng.permutation(len(case.atoms))], Lasso(alpha))
    np.testing.assert_allclose(shuffled.objective, plain.objective, rtol=2 * TOL)


@examples(100)
@given(cases(), shares)
def test_adding_copies_leaves_the_objective(case, share):
    """A duplicate, a sign-flipped one and a shorter one: none can help, none may harm."""
    alpha = alpha_for(case, share)
    picked = case.atoms[case.rng.integers(0, len(case.atoms), 3)]
    more = np.vstack([picked * np.array([[1.0], [-1.0], [0.5]]), case.atoms])
    plain = encode(case.queries, case.atoms, Lasso(alpha))
    richer = encode(case.queries, more, Lasso(alpha))
    np.testing.assert_allclose(richer.objective, plain.objective, rtol=2 * TOL)


@examples(100)
@given(cases(), shares)
def test_more_atoms_never_cost_more(case, share):
    alpha = alpha_for(case, share)
    some = case.atoms[: max(1, len(case.atoms) // 2)]
    few = encode(case.queries, some, Lasso(alpha)).objective
    all_of_them = encode(case.queries, case.atoms, Lasso(alpha)).objective
    assert (all_of_them <= few * (1 + 2 * TOL) + 1e-300).all()


@examples(60)
@given(cases())
def test_lasso_objective_grows_with_alpha(case):
    largest = alpha_for(case, 1.0)
    values = [encode(case.queries, case.atoms, Lasso(s * largest)).objective for s in (1e-3, 0.03, 0.3, 0.8, 2.0)]
    for lower, higher in pairwise(values):
        assert (lower <= higher * (1 + 2 * TOL)).all()


@examples(60)
@given(cases(max_queries=1))
def test_bpdn_objective_falls_with_epsilon(case):
    y = case.queries[0]
    steps = [epsilon_for(case.atoms, y, share) for share in (0.01, 0.1, 0.4, 0.9)]
    assume(None not in steps)
    values = [encode(y[None], case.atoms, BPDN(e)).objective[0] for e in (*steps, 2 * np.linalg.norm(y))]
    for higher, lower in pairwise(values):
        assert lower <= higher * (1 + 1e-5)
    assert values[-1] == 0


@examples(60)
@given(cases(list(FAMILIES), max_queries=3), shares)
def test_rotating_the_feature_space_changes_nothing(case, share):
    """Only inner products count."""
    alpha = alpha_for(case, share)
    rotation, _ = np.linalg.qr(case.rng.standard_normal((case.atoms.shape[1],) * 2))
    plain = encode(case.queries, case.atoms, Lasso(alpha))
    turned = encode(case.queries @ rotation, case.atoms @ rotation, Lasso(alpha))
    np.testing.assert_allclose(turned.objective, plain.objective, rtol=2 * TOL)

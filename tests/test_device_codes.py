"""Coding on a device: certified codes, those of the CPU and of plain NumPy, over every family of atoms."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from device_cases import (
    CLEAR,
    CPU,
    EVERY,
    PATHS,
    TOL,
    assert_certified,
    assert_residuals_are_those_of_features,
    assert_same,
    compare_linearly,
    describe,
    draw,
    encode,
    name_kernel,
    one_thread,  # noqa: F401
)
from families import BLURRED, FAMILIES, QUERY_KINDS, Case
from reference import (
    basis_pursuit_by_linear_program,
    bpdn_by_conic_solver,
    lasso_by_conic_solver,
    lasso_gap,
    least_squares_residual,
    omp_by_least_squares,
    ridge_by_normal_equations,
    unit_rows,
)

from srosr import BPDN, OMP, CertificateWarning, Dictionary, Lasso, Queries, Ridge, sparse_encode
from srosr.coding.device import DeviceCoder
from srosr.coding.device import device_coder as device_coder_module
from srosr.coding.device import path_solver as path_solver_module
from srosr.coding.device.block_active_set import Rules

torch = pytest.importorskip("torch")

#: Families without ties, over which a greedy method has one answer.
UNTIED = ["gaussian", "unit_gaussian", "mixed_lengths", "zeros_among", "tiny", "huge"]
SHAPES = [(12, 25), (25, 25), (40, 12), (1, 6), (30, 1)]


def draw_cases(family):
    """Return cases with fewer, as many and more atoms than features, and all kinds of samples."""
    for n, m in SHAPES:
        case = Case(family, n, m, 7 * n + m, len(QUERY_KINDS))
        if (case.atoms @ case.queries.T).any():
            yield case


@pytest.mark.parametrize("family", FAMILIES)
def test_lasso_codes_are_optimal_and_those_of_the_cpu(family):
    for case in draw_cases(family):
        for share in (0.5, 0.05, 0.001):
            problem = Lasso(share * np.abs(case.atoms @ case.queries.T).max())
            found = encode(case.queries, case.atoms, problem)
            assert_same(found, sparse_encode(case.queries, case.atoms, problem), 1e-6 if family in CLEAR else 1e-3)
            assert_residuals_are_those_of_features(found, case.atoms, case.queries)
            for y, x in zip(case.queries, found.toarray(), strict=True):
                rounding = 1e-13 * (y @ y + (case.atoms**2).sum(axis=1).max() * np.abs(x).sum() ** 2)
                value = max(problem.alpha * np.abs(x).sum(), 1e-300)
                assert lasso_gap(case.atoms, y, problem.alpha, x) <= 1.01 * TOL + rounding / value


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["within reach", "out of reach", "zero", "longer than all samples"])
def test_bpdn_codes_and_statuses_are_those_of_the_cpu(family, kind):
    """An epsilon for the longest sample may be any of these for the others of its batch."""
    n_compared = 0
    for case in draw_cases(family):
        lengths = np.linalg.norm(case.queries, axis=1)
        longest, length = int(lengths.argmax()), lengths.max()
        nearest = least_squares_residual(case.atoms, case.queries[longest])
        if kind == "out of reach" and nearest <= 1e-9 * length:
            continue  # nothing is but zero
        epsilon = {
            "within reach": np.hypot(nearest, 0.2 * np.sqrt(max(0.0, length**2 - nearest**2))),
            "out of reach": 0.5 * nearest,
            "zero": 0.0,
            "longer than all samples": 1.001 * length,
        }[kind]
        found = encode(case.queries, case.atoms, BPDN(epsilon))
        right = sparse_encode(case.queries, case.atoms, BPDN(epsilon))
        # Epsilon may be missed by TOL, and some codes are a hundred times as long as their samples.
        assert_same(found, right, 1e-5 if family in CLEAR else 1e-3)
        assert_residuals_are_those_of_features(found, case.atoms, case.queries)
        n_compared += 1
        if kind == "longer than all samples":
            assert not found.toarray().any() and found.on_device.all() and set(found.status) == {"ok"}
        if kind == "within reach":
            left = np.linalg.norm(case.queries[longest] - found.toarray()[longest] @ case.atoms)
            assert found.status[longest] == "ok" and left <= epsilon + 1.01 * TOL * length
        if kind == "out of reach":
            assert found.status[longest] == "infeasible"
    assert n_compared > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_ridge_codes_solve_the_normal_equations(family):
    for case in draw_cases(family):
        longest = np.linalg.norm(case.atoms, axis=1).max()
        for share in (0.5, 1e-3):
            problem = Ridge(share * longest**2)
            found = encode(case.queries, case.atoms, problem)
            assert_same(found, sparse_encode(case.queries, case.atoms, problem))
            assert found.on_device.all()
            assert_residuals_are_those_of_features(found, case.atoms, case.queries)
            for y, x in zip(case.queries, found.toarray(), strict=True):
                exact = ridge_by_normal_equations(case.atoms, y, problem.alpha)
                np.testing.assert_allclose(x, exact, atol=1e-8 * np.linalg.norm(y) / longest)


@pytest.mark.parametrize("family", FAMILIES)
def test_omp_codes_are_least_squares_over_the_atoms_that_they_chose(family):
    for case in draw_cases(family):
        for n_nonzero in (1, 4, 50):
            found = encode(case.queries, case.atoms, OMP(n_nonzero))
            assert found.on_device.all() and np.isnan(found.gap).all() and set(found.status) == {"ok"}
            assert_residuals_are_those_of_features(found, case.atoms, case.queries)
            for y, x, steps in zip(case.queries, found.toarray(), found.n_iter, strict=True):
                chosen = np.flatnonzero(x)
                assert len(chosen) <= steps <= n_nonzero
                length = np.linalg.norm(y)
                left = least_squares_residual(case.atoms[chosen], y) if len(chosen) else length
                assert np.linalg.norm(y - x @ case.atoms) == pytest.approx(left, abs=1e-7 * length)
                if n_nonzero == 50:  # all atoms were tried
                    nearest = least_squares_residual(case.atoms, y)
                    assert left == pytest.approx(nearest, abs=1e-6 * length)


@pytest.mark.parametrize("family", UNTIED)
def test_omp_codes_are_those_of_the_plain_loop_where_nothing_ties(family):
    rng = np.random.default_rng(0)
    for n, m in SHAPES[:3]:
        atoms = FAMILIES[family](rng, n, m)
        X = np.linalg.norm(atoms, axis=1).max() * rng.standard_normal((6, m))
        found = encode(X, atoms, OMP(4))
        assert_same(found, sparse_encode(X, atoms, OMP(4)))
        for y, x in zip(X, found.toarray(), strict=True):
            exact = omp_by_least_squares(atoms, y, 4)
            np.testing.assert_allclose(x, exact, atol=1e-8 * np.abs(exact).max())


@pytest.mark.parametrize("family", BLURRED)
def test_codes_over_almost_dependent_atoms_are_optimal(family):
    """Which of nearly exchangeable atoms are used is open there; the objective and the fit are not."""
    for case in draw_cases(family):
        alpha = 0.1 * np.abs(case.atoms @ case.queries.T).max()
        found, right = (
            encode(case.queries, case.atoms, Lasso(alpha)),
            sparse_encode(case.queries, case.atoms, Lasso(alpha)),
        )
        assert_certified(found)
        np.testing.assert_allclose(found.objective, right.objective, rtol=2 * TOL)
        fits = found.toarray() @ case.atoms, right.toarray() @ case.atoms
        lengths = np.linalg.norm(case.queries, axis=1, keepdims=True)
        assert (np.abs(fits[0] - fits[1]) <= 1e-5 * lengths).all()
        for y in case.queries:
            nearest = least_squares_residual(case.atoms, y, rank_tolerance=1e-4)
            inside = np.sqrt(max(0.0, y @ y - nearest**2))
            if inside <= 1e-3 * np.linalg.norm(y):
                continue
            epsilon = np.hypot(nearest, 0.3 * inside)
            code = encode(y[None], case.atoms, BPDN(epsilon))
            assert code.status[0] == "ok" and code.gap[0] <= TOL
            exact = bpdn_by_conic_solver(case.atoms, y, epsilon, rank_tolerance=1e-13)
            assert exact.lower * (1 - 1e-5) <= code.objective[0] <= exact.upper * (1 + 1e-5)


def test_an_epsilon_out_of_reach_is_least_squares_over_independent_atoms():
    """And basis pursuit over dependent ones, by a linear program."""
    rng = np.random.default_rng(0)
    X = unit_rows(rng.standard_normal((6, 30)))
    independent = unit_rows(rng.standard_normal((10, 30)))
    codes = encode(X, independent, BPDN(0.001))
    assert set(codes.status) == {"infeasible"} and codes.on_device.all() and codes.gap.max() <= TOL
    np.testing.assert_allclose(codes.toarray(), X @ np.linalg.pinv(independent), atol=1e-10)
    dependent = unit_rows(rng.standard_normal((25, 6)) @ rng.standard_normal((6, 30)))
    codes = encode(X, dependent, BPDN(0.001))
    assert set(codes.status) == {"infeasible"}
    for y, value in zip(X, codes.objective, strict=True):
        assert value == pytest.approx(basis_pursuit_by_linear_program(dependent, y).upper, rel=TOL)


@pytest.mark.parametrize("problem", EVERY, ids=repr)
@pytest.mark.parametrize(
    "kernel",
    [
        {"kernel": "linear", "normalize": True},
        {"kernel": "rbf", "gamma": 0.05},
        {"kernel": "rbf", "normalize": "feature"},
        {"kernel": "poly", "degree": 2, "normalize": "kernel"},
        {"kernel": "poly", "coef0": 0.0},
        {"kernel": "chi2", "normalize": True},
        {"kernel": "histogram_intersection", "normalize": "feature"},
        {"kernel": compare_linearly, "normalize": True},
        {"kernel": compare_linearly},
    ],
    ids=name_kernel,
)
def test_codes_in_the_space_of_a_kernel_are_those_of_the_cpu(kernel, problem):
    rng = np.random.default_rng(1)
    atoms, X = rng.random((35, 8)), rng.random((10, 8))
    atoms[-3:], X[1] = atoms[:3], atoms[4]
    if not isinstance(problem, OMP):
        X[0] = 0.0  # whose similarities to unit atoms tie
    dictionary = Dictionary(atoms, **kernel)
    right = sparse_encode(X, dictionary, problem)
    for samples in (X, dictionary.query(X)):
        found = encode(samples, Dictionary(atoms, **kernel), problem)
        if isinstance(problem, OMP):  # the copies tie
            np.testing.assert_allclose(found.residual_norm, right.residual_norm, atol=1e-7)
        else:
            assert_same(found, right, 1e-5 if "rbf" in kernel.values() else 1e-6)


@pytest.mark.parametrize("problem", EVERY, ids=repr)
@pytest.mark.parametrize("normalize", [False, True, "kernel"])
def test_codes_of_precomputed_similarities_are_those_of_features(problem, normalize):
    """Labels put the atoms into another order, and similarities into that of the atoms."""
    rng = np.random.default_rng(2)
    atoms, X, labels = rng.standard_normal((14, 20)), rng.standard_normal((9, 20)), rng.permutation(14) % 3
    queries = Queries(X @ atoms.T, (X * X).sum(axis=1))
    dictionary = Dictionary(atoms @ atoms.T, labels, kernel="precomputed", normalize=normalize)
    found = encode(queries, dictionary, problem)
    assert_same(found, sparse_encode(queries, dictionary, problem))
    by_features = sparse_encode(X, Dictionary(atoms, labels, normalize=bool(normalize)), problem)
    np.testing.assert_allclose(found.toarray(), by_features.toarray(), atol=1e-6)


def test_codes_over_orthonormal_atoms_are_known():
    y = np.array([[3.0, -1.0, 0.2, 0.0, -0.5]])
    np.testing.assert_allclose(encode(y, np.eye(5), Lasso(0.5)).toarray(), [[2.5, -0.5, 0, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(encode(y, np.eye(5), Ridge(0.25)).toarray(), y / 1.25, rtol=1e-12)
    np.testing.assert_allclose(encode(y, np.eye(5), OMP(2)).toarray(), [[3.0, -1.0, 0, 0, 0]], atol=1e-12)
    found = encode(y[:, :2], np.eye(2), BPDN(np.sqrt(0.5)))
    np.testing.assert_allclose(found.toarray(), [[2.5, -0.5]], atol=1e-9)


def test_exact_ties_where_every_atom_joins_at_once():
    """Vertices of a cube and a sample on its axis: all correlations are equal."""
    for m in (2, 3, 4):
        corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * m)).reshape(m, -1).T / np.sqrt(m)
        X = np.array([np.eye(m)[0], np.ones(m), -np.eye(m)[-1] * 3])
        for problem in (Lasso(0.4), Lasso(0.01), BPDN(0.5), BPDN(0.01)):
            found = encode(X, corners, problem)
            assert_same(found, sparse_encode(X, corners, problem))
            for y, value in zip(X, found.objective, strict=True):
                exact = (
                    lasso_by_conic_solver(corners, y, problem.alpha)
                    if isinstance(problem, Lasso)
                    else bpdn_by_conic_solver(corners, y, problem.epsilon)
                )
                assert value == pytest.approx(exact.upper, rel=TOL)


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_atoms_that_are_all_zero_leave_the_sample_untouched(problem):
    codes = encode(np.array([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0]]), np.zeros((4, 3)), problem)
    assert not codes.toarray().any()
    np.testing.assert_allclose(codes.residual_norm, [3.0, 0.0])
    assert codes.status.tolist() == ["infeasible" if isinstance(problem, BPDN) else "ok", "ok"]


@pytest.mark.parametrize("problem", [Lasso(0.05), BPDN(0.3), Ridge(0.1), OMP(3)], ids=repr)
def test_ordinary_problems_are_solved_on_the_device(problem, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("the CPU was asked")

    monkeypatch.setattr(DeviceCoder, "_ask_host", fail)
    rng = np.random.default_rng(0)
    for n, m in ((30, 60), (200, 40)):
        atoms, X = unit_rows(rng.standard_normal((n, m))), unit_rows(rng.standard_normal((50, m)))
        X[:25] = unit_rows(rng.standard_normal((25, n)) @ atoms)
        codes = encode(X, atoms, problem)
        assert codes.on_device.dtype == bool and codes.on_device.all()
        assert repr(codes).endswith(", 100 % on the device>")
        assert_certified(codes)


@pytest.mark.parametrize("problem", PATHS, ids=repr)
@pytest.mark.parametrize("many", [False, True])
def test_samples_that_lose_their_way_are_solved_by_the_cpu_and_counted(problem, many, monkeypatch):
    """After one pass only the zero sample is done."""
    atoms, X = draw(4, n_features=30, n_atoms=70)
    X[3:] = unit_rows(np.random.default_rng(4).standard_normal((len(X) - 3, 70)) @ atoms)  # within reach
    X[2] = X[3]
    right = sparse_encode(X, atoms, problem)
    monkeypatch.setattr(path_solver_module, "Rules", partial(Rules, max_passes=1))
    if many:
        monkeypatch.setattr(device_coder_module, "MOST_ATOMS", 10)
    found = encode(X, atoms, problem)
    assert_same(found, right)
    assert np.flatnonzero(found.on_device).tolist() == [1]
    assert repr(found).endswith(f", {100 / 12:.4g} % on the device>")
    np.testing.assert_allclose(found.n_iter[~found.on_device], right.n_iter[~found.on_device], atol=2)
    as_tensors = encode(torch.as_tensor(X), atoms, problem)
    np.testing.assert_allclose(as_tensors.toarray().numpy(), found.toarray(), atol=1e-12)
    assert describe(as_tensors) == describe(found)


def test_a_limit_of_iterations_is_that_of_the_cpu_and_final(monkeypatch):
    atoms, X = draw(5)
    monkeypatch.setattr(path_solver_module, "Rules", partial(Rules, max_passes=1))
    with pytest.warns(CertificateWarning, match=r"of 12 codes are not certified to tol=1e-06") as caught:
        codes = sparse_encode(X, atoms, Lasso(0.01), max_iter=1, device=CPU)
    assert caught[0].filename == __file__
    assert (codes.status == "max_iter").sum() >= 9 and codes.status[1] == "ok"
    np.testing.assert_array_equal(codes.status == "max_iter", codes.gap > TOL)


def test_a_tighter_tolerance_is_kept():
    atoms, X = draw(6)
    codes = encode(X, atoms, Lasso(0.02), tol=1e-10)
    assert set(codes.status) == {"ok"} and codes.gap.max() <= 1e-10
    for y, x in zip(X, codes.toarray(), strict=True):
        assert not y.any() or lasso_gap(atoms, y, 0.02, x) <= 1e-9


def test_a_ridge_too_small_for_dependent_atoms_is_rejected_as_on_the_cpu():
    messages = set()
    for device in ("cpu", CPU):
        with pytest.raises(ValueError, match=r"alpha=1e-20 is lost in the rounding") as caught:
            sparse_encode(np.ones((1, 4)), np.ones((6, 4)), Ridge(1e-20), device=device)
        messages.add(str(caught.value))
    assert len(messages) == 1

"""Coding on a device: the codes of the CPU, by the algorithms of the device on PyTorch's CPU, which every machine has.

The reference is NumPy on raw features (``reference.py``) and the path without a device, which shares with it the
formulas of certificates alone. The Triton kernel runs in Triton's interpreter.
"""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scale
from families import BLURRED, FAMILIES, QUERY_KINDS, Case, cases
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import (
    basis_pursuit_by_linear_program,
    bpdn_by_conic_solver,
    bpdn_gap,
    lasso_by_conic_solver,
    lasso_gap,
    least_norm_by_quadratic_program,
    least_squares_residual,
    omp_by_least_squares,
    ridge_by_normal_equations,
    unit_rows,
)

from srosr import BPDN, OMP, CertificateWarning, Dictionary, Lasso, Queries, Ridge, sparse_encode
from srosr._support import devices
from srosr.exceptions import DeviceError, DeviceWarning

torch = pytest.importorskip("torch")

from srosr.coding.device import DeviceCoder, for_chunks  # noqa: E402
from srosr.coding.device import device_coder as device_coder_module  # noqa: E402
from srosr.coding.device import many_atoms as many_atoms_module  # noqa: E402
from srosr.coding.device import path_solver as path_solver_module  # noqa: E402
from srosr.coding.device.block_active_set import FULL, SOLVED, UNREACHED, Rules  # noqa: E402
from srosr.coding.device.copies import Copies  # noqa: E402
from srosr.coding.device.path_solver import PathSolver, spread_codes  # noqa: E402
from srosr.dictionary import device_dictionary as device_dictionary_module  # noqa: E402
from srosr.dictionary import put_on_device  # noqa: E402

CPU = torch.device("cpu")
TOL = 1e-6
PATHS = [Lasso(0.05), BPDN(0.3), BPDN(0.001)]
EVERY = [*PATHS, Ridge(0.1), OMP(3)]
#: Families over which codes are determined to the digits compared here, see test_least_norm.py.
CLEAR = [family for family in FAMILIES if family != "coherent"]
#: Families without ties, over which a greedy method has one answer.
UNTIED = ["gaussian", "unit_gaussian", "mixed_lengths", "zeros_among", "tiny", "huge"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def compare_linearly(A, B):
    return A @ B.T


def draw(seed, n_atoms=40, n_features=16, n_samples=12):
    """Return unit atoms, some of them copies, sums of others or zero, and unit samples; one is zero, one is an atom."""
    rng = np.random.default_rng(seed)
    atoms = unit_rows(rng.standard_normal((n_atoms, n_features)))
    atoms[-4:-2], atoms[-2], atoms[-1] = atoms[:2], -atoms[2], 0.0
    atoms[-5] = (atoms[3] + atoms[4]) / np.linalg.norm(atoms[3] + atoms[4])
    X = unit_rows(rng.standard_normal((n_samples, n_features)))
    X[1], X[2] = 0.0, atoms[5]
    return atoms, X


def encode(X, atoms, problem, **options):
    return sparse_encode(X, atoms, problem, device=CPU, **options)


def assert_certified(codes):
    assert set(codes.status) <= {"ok", "infeasible"}, codes
    if not isinstance(codes.problem, OMP):
        assert codes.gap.min() >= 0.0 and codes.gap.max() <= TOL, codes
    assert codes.violation.max() <= TOL, codes


def assert_same(found, right, accuracy=1e-6):
    """Codes of a device are certified and those of the CPU."""
    assert_certified(found)
    assert found.on_device is not None and right.on_device is None
    np.testing.assert_array_equal(found.status, right.status)
    rounding = 1e-12 * np.abs(right.objective).max()
    # Both are within TOL of the optimum, and may exceed epsilon by as much.
    np.testing.assert_allclose(found.objective, right.objective, rtol=2 * TOL, atol=rounding)
    x, z = found.toarray(), right.toarray()
    size = np.abs(z).max(axis=1, keepdims=True)
    assert (np.abs(x - z) <= accuracy * size + 1e-13 * size.max()).all(), np.abs(x - z).max(axis=1) / size[:, 0]


def assert_residuals_are_those_of_features(codes, atoms, X):
    """Lengths from Gram quantities are square roots of differences, with half of the digits."""
    x = codes.toarray()
    lengths = np.linalg.norm(X, axis=1)
    rounding = 1e-7 * (lengths + np.linalg.norm(atoms, axis=1).max() * np.abs(x).sum(axis=1))
    assert (np.abs(np.linalg.norm(X - x @ atoms, axis=1) - codes.residual_norm) <= rounding).all()


# --- every problem over every family ------------------------------------------------------------


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
    """An epsilon of one sample may be any of these for the others of its batch."""
    for case in draw_cases(family):
        nearest, length = least_squares_residual(case.atoms, case.queries[0]), np.linalg.norm(case.queries, axis=1)
        epsilon = {
            "within reach": np.hypot(nearest, 0.2 * np.sqrt(max(0.0, length[0] ** 2 - nearest**2))),
            "out of reach": 0.5 * nearest,
            "zero": 0.0,
            "longer than all samples": 1.001 * length.max(),
        }[kind]
        found = encode(case.queries, case.atoms, BPDN(epsilon))
        right = sparse_encode(case.queries, case.atoms, BPDN(epsilon))
        # Epsilon may be missed by TOL, and some codes are a hundred times as long as their samples.
        assert_same(found, right, 1e-5 if family in CLEAR else 1e-3)
        assert_residuals_are_those_of_features(found, case.atoms, case.queries)
        if kind == "longer than all samples":
            assert not found.toarray().any() and found.on_device.all() and set(found.status) == {"ok"}
        if kind == "within reach" and length[0] > 0:
            x = found.toarray()[0]
            assert found.status[0] == "ok"
            left = np.linalg.norm(case.queries[0] - x @ case.atoms)
            assert left <= epsilon + 1.01 * TOL * length[0]


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
    ids=lambda k: f"{getattr(k['kernel'], '__name__', k['kernel'])}-{k.get('normalize', False)}",
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


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_single_precision_input_is_solved_in_double(problem):
    """The same numbers in 4 or 8 bytes, as arrays or tensors, rows or columns first: the same problem."""
    atoms, X = draw(3)
    atoms, X = atoms.astype(np.float32), X.astype(np.float32)
    right = encode(X.astype(np.float64), atoms.astype(np.float64), problem).toarray()
    shuffled = np.asfortranarray(X.astype(np.float64))
    read_only = X.copy()
    read_only.flags.writeable = False
    for samples in (X, shuffled, read_only, np.repeat(X, 2, axis=0)[::2], X.tolist(), torch.as_tensor(X)):
        found = encode(samples, atoms, problem).toarray()
        np.testing.assert_allclose(found, right, atol=1e-12)
    found = encode(X, Dictionary(atoms, dtype="float32"), problem).toarray()
    np.testing.assert_allclose(found, right, atol=1e-12)


# --- hand-made answers --------------------------------------------------------------------------


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


# --- what the device does not certify -----------------------------------------------------------


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
    np.testing.assert_array_equal(found.n_iter[~found.on_device], right.n_iter[~found.on_device])
    as_tensors = encode(torch.as_tensor(X), atoms, problem)
    np.testing.assert_allclose(as_tensors.toarray().numpy(), found.toarray(), atol=1e-12)
    assert repr(as_tensors) == repr(found)


def test_a_limit_of_iterations_is_that_of_the_cpu_and_final(monkeypatch):
    atoms, X = draw(5)
    monkeypatch.setattr(path_solver_module, "Rules", partial(Rules, max_passes=1))
    with pytest.warns(CertificateWarning, match=r"of 12 codes are not certified to tol=1e-06") as caught:
        codes = encode(X, atoms, Lasso(0.01), max_iter=1)
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


# --- tensors ------------------------------------------------------------------------------------

FIELDS = ("residual_norm", "objective", "gap", "violation", "n_iter", "on_device")


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_tensors_in_are_tensors_out_with_the_same_numbers(problem):
    atoms, X = draw(7)
    right = encode(X, atoms, problem)
    found = encode(torch.as_tensor(X), atoms, problem)
    assert found.codes.layout == torch.sparse_csr and found.codes.dtype == torch.float64
    assert tuple(found.codes.shape) == right.codes.shape
    np.testing.assert_array_equal(found.codes.crow_indices().numpy(), right.codes.indptr)
    np.testing.assert_array_equal(found.codes.col_indices().numpy(), right.codes.indices)
    np.testing.assert_array_equal(found.codes.values().numpy(), right.codes.data)
    np.testing.assert_array_equal(found.toarray().numpy(), right.toarray())
    for name in FIELDS:
        assert isinstance(getattr(found, name), torch.Tensor), name
        np.testing.assert_array_equal(getattr(found, name).numpy(), getattr(right, name), err_msg=name)
    assert isinstance(found.status, np.ndarray) and found.status.tolist() == right.status.tolist()
    assert repr(found) == repr(right) and len(found) == len(X)
    assert isinstance(right.codes.data, np.ndarray) and right.codes.format == "csr"


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_a_tensor_on_the_cpu_without_a_device_is_coded_like_an_array(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    atoms, X = draw(7)
    found = sparse_encode(torch.as_tensor(X), atoms, Lasso(0.05), device=device)
    assert found.on_device is None and isinstance(found.objective, np.ndarray)
    np.testing.assert_array_equal(found.toarray(), sparse_encode(X, atoms, Lasso(0.05)).toarray())


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_dense_output_holds_the_numbers_of_sparse_output(problem):
    atoms, X = draw(8)
    right = encode(X, atoms, problem).toarray()
    found = encode(X, atoms, problem, sparse_output=False).codes
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, right)
    found = encode(torch.as_tensor(X), atoms, problem, sparse_output=False).codes
    assert isinstance(found, torch.Tensor) and found.layout == torch.strided
    np.testing.assert_array_equal(found.numpy(), right)


def test_atoms_may_be_a_tensor_too():
    atoms, X = draw(9)
    found = encode(torch.as_tensor(X), torch.as_tensor(atoms), Lasso(0.05)).toarray().numpy()
    np.testing.assert_array_equal(found, encode(X, atoms, Lasso(0.05)).toarray())


@pytest.mark.parametrize("kernel", ["linear", "rbf", compare_linearly], ids=["linear", "rbf", "function"])
def test_tensors_of_other_kinds_are_coded_as_their_numbers(kernel):
    """In half precision, with a gradient, or columns of a larger tensor; the codes have no gradient."""
    atoms, X = draw(10)
    half = torch.as_tensor(X).to(torch.bfloat16)
    right = sparse_encode(half.to(torch.float64).numpy(), atoms, Lasso(0.05), kernel=kernel).toarray()
    wide = torch.zeros(16, 24, dtype=torch.float64)
    wide[:, ::2] = half.to(torch.float64).T
    for tensor in (half, half.to(torch.float64).requires_grad_(), wide[:, ::2].T):
        found = encode(tensor, atoms, Lasso(0.05), kernel=kernel)
        assert not found.objective.requires_grad
        np.testing.assert_allclose(found.toarray().numpy(), right, atol=1e-7)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (torch.full((2, 4), torch.nan), r"\bX contains NaN or infinity"),
        (torch.full((2, 4), torch.inf), r"\bX contains NaN or infinity"),
        (torch.ones(2, 3), r"\bX has 3 features, the dictionary's atoms have 4"),
        (torch.ones(2, 4, dtype=torch.int64), r"\bX must be a .*tensor of floating-point .* torch\.int64"),
        (torch.ones(2, 4) > 0, r"\bX must be a .*tensor of floating-point .* torch\.bool"),
        (torch.ones(4), r"\bX must be a .*tensor .*one sample a row, got shape \(4,\)"),
        (torch.ones(2, 4, 1), r"\bX must be a .*tensor .*one sample a row, got shape \(2, 4, 1\)"),
        (torch.empty(0, 4), r"\bX must be a .*tensor .*one sample a row, got shape \(0, 4\)"),
        (torch.ones(2, 4).to_sparse(), r"\bX must be a dense tensor"),
    ],
    ids=["nan", "inf", "too few features", "integers", "flags", "1-d", "3-d", "empty", "sparse"],
)
@pytest.mark.parametrize("kernel", ["linear", compare_linearly], ids=["linear", "function"])
def test_bad_tensors_raise_an_error_that_says_what_is_wrong(X, message, kernel):
    atoms = np.random.default_rng(0).standard_normal((6, 4))
    with pytest.raises(ValueError, match=message) as caught:
        encode(X, atoms, Lasso(0.1), kernel=kernel)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "X",
    [
        np.full((2, 4), np.nan),
        np.array([[0.0, 1.0, 2.0, 3.0], [0.0, np.inf, 2.0, 3.0]]),
        np.full((2, 4), np.nan, np.float32),
        np.ones((2, 3)),
        np.ones(4),
        np.ones((2, 4, 1)),
        np.empty((0, 4)),
        np.array([["a", "b", "c", "d"]]),
        np.full((1, 4), 3e160),
        None,
    ],
    ids=["nan", "inf", "nan32", "too few features", "1-d", "3-d", "empty", "text", "too long to square", "None"],
)
@pytest.mark.parametrize("kernel", ["linear", compare_linearly], ids=["linear", "function"])
def test_bad_arrays_raise_the_error_of_the_cpu(X, kernel):
    atoms = np.random.default_rng(0).standard_normal((6, 4))
    messages = []
    for device in ("cpu", CPU):
        with (
            np.errstate(over="ignore"),
            pytest.raises(ValueError, match=r"\bX\b|kernel returned NaN or infinity") as caught,
        ):
            sparse_encode(X, atoms, Lasso(0.1), kernel=kernel, device=device)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_kernel_for_histograms_rejects_negative_samples_in_the_words_of_the_cpu():
    atoms = np.ones((3, 2))
    for kernel in ("chi2", "histogram_intersection"):
        messages = []
        for X, device in ((-atoms, "cpu"), (-atoms, CPU), (torch.as_tensor(-atoms), CPU)):
            with pytest.raises(ValueError, match=r"\bX contains negative values") as caught:
                sparse_encode(X, atoms, Lasso(0.1), kernel=kernel, device=device)
            messages.append(str(caught.value))
        assert len(set(messages)) == 1


def test_similarities_that_do_not_belong_to_the_dictionary_are_rejected():
    with pytest.raises(ValueError, match=r"\bX has similarities to 5 atoms"):
        encode(Queries(np.ones((2, 5)), np.ones(2)), np.eye(6), Lasso(0.1))
    with pytest.raises(ValueError, match=r"\bX must be a srosr\.Queries"):
        encode(np.ones((2, 4)), np.eye(4), Lasso(0.1), kernel="precomputed")
    with pytest.raises(ValueError, match=r"\bX must be a srosr\.Queries .*not a tensor"):
        encode(torch.ones(2, 4), np.eye(4), Lasso(0.1), kernel="precomputed")


# --- more atoms than a Gram matrix has room for -------------------------------------------------


@pytest.fixture
def few_atoms_are_many(monkeypatch):
    """Let dictionaries of more than ten atoms be coded by working sets of 16 atoms."""
    monkeypatch.setattr(device_coder_module, "MOST_ATOMS", 10)
    monkeypatch.setattr(many_atoms_module, "WORKING_SET", 16)


@pytest.mark.usefixtures("few_atoms_are_many")
@pytest.mark.parametrize("problem", [Lasso(0.2), Lasso(0.01), BPDN(0.5), BPDN(0.1)], ids=repr)
def test_codes_by_working_sets_are_those_of_the_cpu(problem):
    """With copies, a sum of two atoms, a zero atom and a zero sample."""
    atoms, X = draw(11, n_atoms=120, n_features=20, n_samples=25)
    coder = DeviceCoder(put_on_device(Dictionary(atoms), CPU), problem)
    assert coder._working_sets is not None
    found = encode(X, atoms, problem)
    assert_same(found, sparse_encode(X, atoms, problem))
    # Also where 16 atoms do not reach epsilon; among copies the CPU chooses.
    copied = (np.abs(atoms @ atoms.T) > np.linalg.norm(atoms, axis=1)[:, None] ** 2 - 1e-9).sum(axis=1) > 1
    assert found.on_device[~(found.toarray() != 0)[:, copied].any(axis=1)].all()
    assert_residuals_are_those_of_features(found, atoms, X)


@pytest.mark.usefixtures("few_atoms_are_many")
@pytest.mark.parametrize("problem", [Lasso(0.01), Lasso(0.003)], ids=repr)
def test_working_sets_grow_for_codes_of_more_atoms(problem, monkeypatch):
    """Codes of up to 40 atoms do not fit into sets of 16, and one round of a size is too few for most."""
    sizes = set()
    solve_sets = many_atoms_module.WorkingSets._solve_sets

    def watch(self, queries, chosen):
        sizes.add(chosen.shape[1])
        assert (chosen.sort(dim=1).values.diff(dim=1) > 0).all(), "an atom twice in a working set"
        return solve_sets(self, queries, chosen)

    monkeypatch.setattr(many_atoms_module.WorkingSets, "_solve_sets", watch)
    rng = np.random.default_rng(12)
    atoms, X = unit_rows(rng.standard_normal((150, 40))), unit_rows(rng.standard_normal((20, 40)))
    right = sparse_encode(X, atoms, problem)
    assert np.diff(right.codes.indptr).max() > 32
    for patience in (8, 1):
        monkeypatch.setattr(many_atoms_module, "_PATIENCE", patience)
        sizes.clear()
        found = encode(X, atoms, problem)
        assert_same(found, right)
        assert found.on_device.all() and {16, 32, 64} <= sizes <= {16, 32, 64, 128, 150}


@pytest.mark.usefixtures("few_atoms_are_many")
def test_working_sets_that_do_not_settle_in_their_rounds_grow_too(monkeypatch):
    """Codes of BPDN fit into 16 atoms here, but not those that one sees at first."""
    monkeypatch.setattr(many_atoms_module, "_PATIENCE", 1)
    rng = np.random.default_rng(12)
    atoms, X = unit_rows(rng.standard_normal((150, 40))), unit_rows(rng.standard_normal((20, 40)))
    right = sparse_encode(X, atoms, BPDN(0.8))
    assert np.diff(right.codes.indptr).max() <= 16
    found = encode(X, atoms, BPDN(0.8))
    assert_same(found, right)
    assert found.on_device.all()


@pytest.mark.usefixtures("few_atoms_are_many")
def test_working_sets_that_do_not_settle_leave_their_samples_to_the_cpu(monkeypatch):
    monkeypatch.setattr(many_atoms_module, "_LARGEST", 16)
    monkeypatch.setattr(many_atoms_module, "_ROUNDS", 2)
    rng = np.random.default_rng(13)
    atoms, X = unit_rows(rng.standard_normal((150, 40))), unit_rows(rng.standard_normal((20, 40)))
    X[0] = atoms[0]
    found = encode(X, atoms, Lasso(0.01))
    assert_same(found, sparse_encode(X, atoms, Lasso(0.01)))
    assert found.on_device[0] and not found.on_device[1:].any()


@pytest.mark.usefixtures("few_atoms_are_many")
@pytest.mark.parametrize("family", ["duplicated", "sign_flipped", "multiples", "binary", "small_integers", "collinear"])
def test_working_sets_over_degenerate_atoms_give_the_codes_of_the_cpu(family):
    case = Case(family, 60, 14, 5, len(QUERY_KINDS))
    largest = np.abs(case.atoms @ case.queries.T).max()
    for problem in (Lasso(0.2 * largest), Lasso(0.01 * largest), BPDN(0.3 * np.linalg.norm(case.queries[0]))):
        found = encode(case.queries, case.atoms, problem)
        assert_same(found, sparse_encode(case.queries, case.atoms, problem))


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_a_dictionary_without_room_for_its_gram_matrix_gives_the_same_codes(problem, monkeypatch):
    """From features if the kernel is linear; otherwise an error says what to do."""
    atoms, X = draw(14)
    right = sparse_encode(X, atoms, problem)
    monkeypatch.setattr(device_dictionary_module, "_GRAM_SHARE", 0.0)
    monkeypatch.setattr(device_coder_module, "MOST_ATOMS", 10)
    found = encode(X, atoms, problem)
    if isinstance(problem, OMP):
        np.testing.assert_allclose(found.residual_norm, right.residual_norm, atol=1e-7)
    else:
        assert_same(found, right)
    if problem.path_end is not None:
        with pytest.raises(ValueError, match=r"Gram matrix of 40 atoms does not fit .* cpu.*; use device=\"cpu\""):
            encode(X, atoms, problem, kernel="rbf")


# --- several optimal codes ----------------------------------------------------------------------


@pytest.mark.parametrize(("problem", "total"), [(Lasso(0.1), 0.9), (BPDN(0.6), 0.4), (BPDN(0.0), 1.0)])
def test_copies_share_a_coefficient_equally_whatever_their_sign(problem, total):
    """One direction explains the sample: x = 1 - alpha, or 1 - epsilon."""
    atoms = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    x = encode(np.array([[1.0, 0.0], [-2.0, 0.0]]), atoms, problem).toarray()
    np.testing.assert_allclose(x[0], [total / 3, 0.0, total / 3, -total / 3, 0.0], atol=1e-9)
    np.testing.assert_allclose(x[1], -(1 + total) / 3 * np.array([1.0, 0.0, 1.0, -1.0, 0.0]), atol=1e-9)


@pytest.mark.parametrize("block", [1, 7, 2**26])
def test_copies_are_found_across_blocks_of_the_gram_matrix(block, monkeypatch):
    monkeypatch.setattr("srosr.coding.device.copies._BLOCK", 30 * block)
    rng = np.random.default_rng(0)
    base = rng.standard_normal((8, 5))
    which, signs = rng.integers(0, 8, 30), rng.choice([-1.0, 1.0], 30)
    atoms = signs[:, None] * base[which]
    atoms[[4, 20]] = 0.0
    copies = Copies(torch.as_tensor(atoms @ atoms.T))
    which[[4, 20]] = [8, 9]  # zero atoms are copies of nothing
    firsts = [np.flatnonzero(which == k)[0] for k in which]
    np.testing.assert_array_equal(copies.firsts[copies.group].numpy(), firsts)
    np.testing.assert_array_equal(copies.counts[copies.group].numpy(), [(which == k).sum() for k in which])
    signs[[4, 20]] = 1.0
    np.testing.assert_array_equal(copies.shares.sign().numpy(), signs * signs[firsts])
    codes = torch.as_tensor(rng.standard_normal((3, len(copies.firsts))))
    assert copies and not Copies(torch.eye(3))
    torch.testing.assert_close(copies.collect(copies.share(codes)), codes)
    fits = copies.share(codes).numpy() @ atoms, codes.numpy() @ atoms[copies.firsts]
    np.testing.assert_allclose(*fits, atol=1e-12)


FACES = [
    (0.2, 0.4, lambda a: [(a + 0.6) / 4, (a - 0.2) / 4, (a + 0.2) / 4, (a - 0.6) / 4]),  # (a ± s ± t) / 4
    (0.8, 0.8, lambda a: [0.8, (a - 0.8) / 2, (a - 0.8) / 2, 0.0]),  # where that is negative, the atom is not used
]


@pytest.mark.parametrize(("s", "t", "expected"), FACES)
@pytest.mark.parametrize("problem", [Lasso(0.1), BPDN(0.1)], ids=repr)
@pytest.mark.parametrize("times", [1, 3])
def test_a_face_with_four_corners_is_settled_on_the_device(s, t, expected, problem, times, monkeypatch):
    """Two pairs of atoms have the same sum: (s, t, a) with a = 0.9 has infinitely many codes of l1 norm a."""
    monkeypatch.setattr(DeviceCoder, "_ask_host", None)
    atoms = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]])
    y = np.array([[s, t, 1.0], [-s, -t, -1.0]])
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        rows, right = np.tile(atoms[order], (times, 1)), np.tile(np.array(expected(0.9))[order], times) / times
        x = encode(y, rows, problem).toarray()
        np.testing.assert_allclose(x, [right, -right], atol=1e-9)


@pytest.mark.parametrize("corner", [(0.1, 0.2, 0.3), (0.7, 0.8, -0.85)], ids=["inside", "near a corner"])
@pytest.mark.parametrize("problem", [Lasso(0.1), BPDN(0.1)], ids=repr)
def test_a_face_with_eight_corners_has_the_shortest_code(corner, problem):
    """Four null vectors: inside the shortest code uses all corners, near one of them the CPU finds it."""
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    atoms, y = np.hstack([corners, np.ones((8, 1))]), np.array([*corner, 1.0])
    found = encode(y[None], atoms, problem)
    assert_same(found, sparse_encode(y[None], atoms, problem), 1e-9)
    assert found.on_device.all()
    x = found.toarray()[0]
    if sum(np.abs(corner)) < 0.9:
        np.testing.assert_allclose(x, (0.9 + corners @ corner) / 8, atol=1e-9)
    exact = least_norm_by_quadratic_program(atoms, x)
    np.testing.assert_allclose(x, exact, atol=1e-4)


@pytest.mark.parametrize("family", ["duplicated", "sign_flipped", "binary", "small_integers", "low_rank_integers"])
def test_no_code_with_the_same_fit_and_l1_norm_is_shorter(family):
    for seed in range(3):
        case = Case(family, 25, 8, seed, len(QUERY_KINDS))
        alpha = 0.1 * np.abs(case.atoms @ case.queries.T).max()
        for x in encode(case.queries, case.atoms, Lasso(alpha)).toarray():
            if x.any():
                exact = least_norm_by_quadratic_program(case.atoms, x)
                assert np.linalg.norm(x) <= np.linalg.norm(exact) * (1 + 1e-6)
                assert np.abs(x - exact).max() <= 1e-3 * np.abs(exact).max()


def test_the_order_and_the_signs_of_atoms_do_not_matter():
    for seed in range(5):
        atoms, X = draw(seed)
        rng = np.random.default_rng(seed)
        order, signs = rng.permutation(len(atoms)), rng.choice([-1.0, 1.0], len(atoms))
        for problem in PATHS:
            x = encode(X, atoms, problem).toarray()
            z = encode(X, (signs[:, None] * atoms)[order], problem).toarray()
            np.testing.assert_allclose(z, (signs * x)[:, order], atol=1e-7)


# --- the Triton kernel --------------------------------------------------------------------------


def run_kernel(folder, **job):
    """Run the kernel in Triton's interpreter, in a process of its own, and return what it found."""
    pytest.importorskip("triton")
    question, answer = folder / "job.pickle", folder / "answer.pickle"
    question.write_bytes(pickle.dumps({"is_coarse": False, "fewest": 16} | job))
    script = Path(__file__).with_name("kernel_in_interpreter.py")
    done = subprocess.run(
        [sys.executable, str(script), str(question), str(answer)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return pickle.loads(answer.read_bytes())


def solve_plainly(atoms, X, problem, sizes=None):
    """Return the slots of the plain path."""
    solver = PathSolver(problem.path_end, min(atoms.shape), CPU)
    solver.sizes = sizes or solver.sizes
    arrays = (torch.as_tensor(values) for values in (atoms @ atoms.T, X @ atoms.T, (X * X).sum(axis=1)))
    return solver.solve(*arrays)


def assert_solved(found, atoms, X, problem):
    """Codes of the kernel have the fit and the l1 norm of those of the CPU; copies may share in any way."""
    assert (found["status"] == SOLVED).all()
    right = sparse_encode(X, atoms, problem).toarray()
    np.testing.assert_allclose(found["codes"] @ atoms, right @ atoms, atol=1e-8)
    np.testing.assert_allclose(np.abs(found["codes"]).sum(axis=1), np.abs(right).sum(axis=1), atol=1e-8)
    used = found["atoms"] >= 0
    assert not found["values"][~used].any()
    for row in range(len(X)):
        slots = found["atoms"][row][used[row]]
        assert len(set(slots)) == len(slots)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("problem", "is_coarse"),
    [
        (Lasso(0.1), False),
        (BPDN(0.4), True),
        pytest.param(Lasso(0.1), True, marks=SLOW),
        pytest.param(BPDN(0.4), False, marks=SLOW),
    ],
)
def test_the_kernel_solves_samples_over_copies_and_dependent_atoms(tmp_path, problem, is_coarse):
    """In either precision, with zero columns behind those of the Gram matrix, a zero sample and one that is an atom."""
    atoms, X = draw(0, n_atoms=40, n_features=10, n_samples=8)
    found = run_kernel(tmp_path, atoms=atoms, X=X, problem=problem, is_coarse=is_coarse, padding=24)
    assert_solved(found, atoms, X, problem)


@pytest.mark.parametrize("problem", [Lasso(0.1), pytest.param(BPDN(0.4), marks=SLOW)], ids=repr)
def test_the_kernel_in_double_precision_takes_the_steps_of_the_plain_path(tmp_path, problem):
    rng = np.random.default_rng(1)
    atoms, X = unit_rows(rng.standard_normal((40, 12))), unit_rows(rng.standard_normal((8, 12)))
    found, right = run_kernel(tmp_path, atoms=atoms, X=X, problem=problem), solve_plainly(atoms, X, problem)
    np.testing.assert_allclose(found["codes"], spread_codes(right, 40).numpy(), atol=1e-10)
    for name in ("status", "passes", "steps"):
        np.testing.assert_array_equal(found[name], getattr(right, name).numpy(), err_msg=name)
    np.testing.assert_allclose(found["levels"], right.levels.numpy(), rtol=1e-8)


@pytest.mark.parametrize("is_coarse", [False, pytest.param(True, marks=SLOW)])
def test_the_kernel_goes_on_in_more_slots_and_takes_several_samples_a_program(tmp_path, is_coarse):
    """20 samples for 16 programs; codes of up to 20 atoms start in 16 slots."""
    rng = np.random.default_rng(2)
    atoms, X = unit_rows(rng.standard_normal((40, 20))), unit_rows(rng.standard_normal((20, 20)))
    X[3:19] = unit_rows(atoms[:16] + 0.01 * X[3:19])  # few of them are long
    found = run_kernel(tmp_path, atoms=atoms, X=X, problem=Lasso(0.005), is_coarse=is_coarse)
    assert found["n_programs"] == 16 and found["atoms"].shape == (20, 32)
    assert_solved(found, atoms, X, Lasso(0.005))
    counts = (found["codes"] != 0).sum(axis=1)
    assert counts.max() > 16 and counts.min() < 16


@pytest.mark.parametrize("problem", [pytest.param(Lasso(0.1), marks=SLOW), BPDN(0.5)], ids=repr)
@pytest.mark.parametrize("is_coarse", [False, pytest.param(True, marks=SLOW)])
def test_the_kernel_takes_one_gram_matrix_a_sample(tmp_path, problem, is_coarse):
    atoms, X = draw(3, n_atoms=30, n_features=8, n_samples=5)
    found = run_kernel(
        tmp_path, atoms=atoms, X=X, problem=problem, is_coarse=is_coarse, own_gram=True, padding=2
    )  # fmt: skip
    assert_solved(found, atoms, X, problem)


def test_samples_that_single_precision_loses_are_solved_in_double(tmp_path):
    atoms, X = draw(4, n_atoms=30, n_features=8, n_samples=5)
    found = run_kernel(tmp_path, atoms=atoms, X=X, problem=Lasso(0.1), is_coarse=True, coarse_passes=1)
    assert_solved(found, atoms, X, Lasso(0.1))


def test_the_kernel_says_where_slots_or_atoms_do_not_suffice(tmp_path):
    """An epsilon out of reach ends unreached, longer codes than slots end full; as in the plain path."""
    rng = np.random.default_rng(5)
    atoms, X = unit_rows(rng.standard_normal((20, 30))), unit_rows(rng.standard_normal((3, 30)))
    X[0] = atoms[0]
    problem = BPDN(0.1)
    found, right = (
        run_kernel(tmp_path, atoms=atoms, X=X, problem=problem, fewest=32),
        solve_plainly(atoms, X, problem),
    )
    assert found["status"].tolist() == right.status.tolist() == [SOLVED, UNREACHED, UNREACHED]
    found = run_kernel(tmp_path, atoms=atoms, X=X, problem=problem, sizes=[4])
    right = solve_plainly(atoms, X, problem, sizes=[4])
    assert found["status"].tolist() == right.status.tolist() == [SOLVED, FULL, FULL]


@pytest.mark.parametrize("is_coarse", [False, True])
@pytest.mark.parametrize("problem", [pytest.param(Lasso(0.1), marks=SLOW), BPDN(0.4)], ids=repr)
def test_codes_of_the_whole_coder_by_the_kernel_are_those_of_the_cpu(tmp_path, problem, is_coarse):
    atoms, X = draw(6, n_atoms=36, n_features=10, n_samples=6)
    found = run_kernel(tmp_path, atoms=atoms, X=X, problem=problem, is_coarse=is_coarse, whole=True)
    right = sparse_encode(X, atoms, problem)
    assert found["status"].tolist() == right.status.tolist() and found["gap"].max() <= TOL
    assert found["on_device"].all()
    np.testing.assert_allclose(found["codes"], right.toarray(), atol=1e-7)


# --- chunks -------------------------------------------------------------------------------------


def test_a_chunk_that_does_not_fit_is_tried_in_halves_with_one_warning():
    tried, finished = [], []

    def work(rows):
        tried.append(rows.stop - rows.start)
        if rows.stop - rows.start > 6:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return list(range(rows.start, rows.stop))

    with pytest.warns(DeviceWarning, match=r"^cpu: out of memory; going on with 16 samples at a time\.$") as caught:
        out = for_chunks(work, 100, 32, CPU, finished.append)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert [row for part in out for row in part] == list(range(100))
    assert [row for rows in finished for row in range(rows.start, rows.stop)] == list(range(100))
    assert tried[:4] == [32, 16, 8, 4] and max(tried[3:]) == 4


@pytest.mark.parametrize("n_rows", [1, 5, 9])
def test_a_single_sample_that_does_not_fit_is_an_error_that_says_what_to_do(n_rows):
    """The first rows fit, the last one does not."""

    def work(rows):
        if rows.stop == n_rows:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with warnings.catch_warnings(), pytest.raises(DeviceError, match=r"single sample .*use device=\"cpu\"") as caught:
        warnings.simplefilter("ignore", DeviceWarning)
        for_chunks(work, n_rows, 4, CPU)
    assert str(caught.value).startswith("cpu: too little memory") and "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)


def test_a_device_that_fails_is_an_error_of_one_sentence():
    def work(rows):
        raise RuntimeError("CUDA error: the launch timed out\nCompile with `TORCH_USE_CUDA_DSA`\nmore lines")

    with pytest.raises(DeviceError, match=r"^cpu failed: CUDA error: the launch timed out$"):
        for_chunks(work, 3, 2, CPU)


@pytest.mark.parametrize("error", [RuntimeError("no convergence"), ValueError("CUDA"), DeviceError("CUDA: as it is")])
def test_other_errors_pass_as_they_are(error):
    def work(rows):
        raise error

    with pytest.raises(type(error)) as caught:
        for_chunks(work, 3, 2, CPU)
    assert caught.value is error


def test_chunks_of_no_rows_are_none():
    assert for_chunks(lambda rows: rows, 0, 5, CPU) == []
    assert for_chunks(lambda rows: rows, 3, 0, CPU) == [slice(0, 1), slice(1, 2), slice(2, 3)]


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_the_size_of_chunks_changes_nothing(problem, monkeypatch):
    atoms, X = draw(15, n_samples=30)
    right = encode(X, atoms, problem)
    monkeypatch.setattr(DeviceCoder, "count_rows", lambda self: 7)
    found, as_tensors = encode(X, atoms, problem), encode(torch.as_tensor(X), atoms, problem)
    np.testing.assert_allclose(found.toarray(), right.toarray(), atol=1e-12)
    np.testing.assert_allclose(as_tensors.toarray().numpy(), right.toarray(), atol=1e-12)
    assert as_tensors.codes.layout == torch.sparse_csr and tuple(as_tensors.codes.shape) == (30, 40)
    assert as_tensors.codes.values().numel() == found.codes.nnz
    torch.sparse_csr_tensor(
        as_tensors.codes.crow_indices(), as_tensors.codes.col_indices(), as_tensors.codes.values(), (30, 40),
        check_invariants=True,
    )  # fmt: skip
    for name in ("residual_norm", "objective"):
        np.testing.assert_allclose(getattr(found, name), getattr(right, name), atol=1e-12)
    for name in ("status", "on_device", "n_iter"):
        np.testing.assert_array_equal(getattr(found, name), getattr(right, name))


def test_codes_survive_a_device_that_runs_out_of_memory(monkeypatch):
    atoms, X = draw(16, n_samples=30)
    right = encode(X, atoms, Lasso(0.05))
    whole = DeviceCoder.encode

    def encode_few(self, queries):
        if len(queries) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, queries)

    monkeypatch.setattr(DeviceCoder, "encode", encode_few)
    with pytest.warns(DeviceWarning, match=r"out of memory") as caught:
        found = encode(X, atoms, Lasso(0.05))
    assert len(caught) == 1 and caught[0].filename == __file__
    np.testing.assert_allclose(found.toarray(), right.toarray(), atol=1e-12)


def test_a_chunk_takes_fewer_samples_over_more_atoms(monkeypatch):
    monkeypatch.setattr(device_coder_module, "_MOST_ROWS", 10**9)
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((200, 10))
    counts = [DeviceCoder(put_on_device(Dictionary(atoms[:n]), CPU), Lasso(0.1)).count_rows() for n in (20, 200)]
    assert counts[0] > 5 * counts[1] > 0
    monkeypatch.setattr(device_coder_module, "count_memory", lambda device: 0)
    assert DeviceCoder(put_on_device(Dictionary(atoms), CPU), Lasso(0.1)).count_rows() == 1


# --- names of devices ---------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "", "cpu:0", None, 0, ["cpu"]])
def test_what_is_no_device_is_an_error_that_lists_the_devices(device):
    with pytest.raises(ValueError, match=r'^device must be "cpu", "cuda" .* or "auto", got ') as caught:
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=device)
    assert repr(device) in str(caught.value)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7"])
def test_a_device_that_is_not_there_says_what_to_install(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    install = 'was built without CUDA: uninstall it and install PyTorch with CUDA, pip install "srosr[gpu]"'
    look = "sees no NVIDIA GPU: check that nvidia-smi shows one and that its driver is new enough"
    for version, reason in ((None, install), ("12.4", look)):
        monkeypatch.setattr(torch.version, "cuda", version)
        with pytest.raises(DeviceError) as caught:
            sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=device)
        assert str(caught.value) == (
            f'device={device!r}: PyTorch {torch.__version__} {reason}, or leave device at "cpu".'
        )


def test_a_card_beyond_the_last_is_an_error_that_says_how_many_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert devices.find_device("cuda:1") == torch.device("cuda:1")
    assert devices.find_device("cuda") == devices.find_device("auto") == torch.device("cuda:0")
    with pytest.raises(DeviceError, match=r"^device='cuda:7': PyTorch sees 2 card\(s\), counted from 0\.$"):
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device="cuda:7")


def test_auto_is_the_cpu_where_there_is_no_card(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    atoms, X = draw(17)
    found, right = (sparse_encode(X, atoms, Lasso(0.1), device=name) for name in ("auto", "cpu"))
    assert found.on_device is None and "on the device" not in repr(found)
    np.testing.assert_array_equal(found.toarray(), right.toarray())


def test_without_torch_a_card_says_what_to_install_and_auto_is_the_cpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError) as caught:
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device="cuda")
    assert str(caught.value) == (
        "device='cuda' needs PyTorch, which is not installed: install PyTorch with CUDA, pip install \"srosr[gpu]\"."
    )
    found = sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device="auto")
    np.testing.assert_allclose(found.toarray(), [[0.9, 0.9]])


# --- dictionaries on a device -------------------------------------------------------------------

KERNELS = [
    {"kernel": "linear"},
    {"kernel": "linear", "normalize": True},
    {"kernel": "rbf", "gamma": 0.3, "normalize": "feature"},
    {"kernel": "poly", "degree": 2, "coef0": 0.5, "normalize": True},
    {"kernel": "poly"},
    {"kernel": "chi2", "gamma": 0.7, "normalize": "feature"},
    {"kernel": "chi2"},
    {"kernel": "histogram_intersection", "normalize": True},
    {"kernel": "histogram_intersection"},
    {"kernel": compare_linearly, "normalize": True},
]


def assert_same_queries(found, right):
    np.testing.assert_allclose(found.cross.numpy(), right.cross, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.squared_norms.numpy(), right.squared_norms, rtol=1e-12)
    if right.rows is not None:
        np.testing.assert_allclose(found.rows.numpy(), right.rows, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "kernel", KERNELS, ids=lambda k: f"{getattr(k['kernel'], '__name__', k['kernel'])}-{k.get('normalize', False)}"
)
@pytest.mark.parametrize("block", [50, 2**26], ids=["in blocks", "at once"])
def test_similarities_on_a_device_are_those_of_numpy(kernel, block, monkeypatch):
    monkeypatch.setattr(device_dictionary_module, "_BLOCK", block)
    rng = np.random.default_rng(0)
    atoms, X, labels = rng.random((13, 5)), rng.random((6, 5)), rng.permutation(13) % 3
    atoms[3], atoms[4], X[1] = atoms[2], 0.0, 0.0
    dictionary = Dictionary(atoms, labels, **kernel)
    here = put_on_device(Dictionary(atoms, labels, **kernel), CPU)
    right = dictionary.gram
    np.testing.assert_allclose(here.gram.numpy(), right, rtol=1e-12, atol=1e-13)
    assert here.padded_gram.shape == (13, 64) and not here.padded_gram[:, 13:].any()
    np.testing.assert_array_equal(here.gram.numpy(), here.gram.numpy().T)
    rows, columns = torch.tensor([1, 5, 7]), torch.tensor([0, 12])
    np.testing.assert_allclose(here.block(rows, columns), right[np.ix_(rows, columns)], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(here.squared_norms, dictionary.squared_norms, rtol=1e-12)
    queries = dictionary.query(X)
    for samples in (X, torch.as_tensor(X), queries):
        assert_same_queries(here.query(samples), queries)
    single = X.astype(np.float32)
    assert_same_queries(here.query(torch.as_tensor(single)), dictionary.query(single))


@pytest.mark.parametrize(
    "kernel", KERNELS, ids=lambda k: f"{getattr(k['kernel'], '__name__', k['kernel'])}-{k.get('normalize', False)}"
)
@pytest.mark.parametrize("has_gram", [False, True])
def test_a_subset_on_a_device_is_that_of_numpy(kernel, has_gram):
    rng = np.random.default_rng(1)
    atoms, X, labels = rng.random((13, 5)), rng.random((6, 5)), np.repeat([0, 1, 2, 3], [4, 3, 2, 4])
    dictionary = Dictionary(atoms, labels, **kernel)
    here = put_on_device(dictionary, CPU)
    if has_gram:
        assert here.gram.shape == (13, 13)
    for index in ([0, 1, 5, 6, 9, 12], [4, 5, 6], list(range(13))):  # without a class, of one class, all
        index = np.array(index)
        right, found = Dictionary(atoms, labels, **kernel).subset(index), here.subset(index)
        again = found.subset(np.arange(1, len(index)))
        for part, expected in ((found, right), (again, right.subset(np.arange(1, len(index))))):
            np.testing.assert_allclose(part.gram.numpy(), expected.gram, rtol=1e-12, atol=1e-13)
            np.testing.assert_array_equal(part.class_of.numpy(), expected.class_of)
            np.testing.assert_array_equal(part.starts, [piece.start for piece in expected.class_slices])
            np.testing.assert_allclose(part.rows.numpy(), expected.rows)
            np.testing.assert_allclose(part.lengths.numpy(), np.sqrt(expected.squared_norms))
            assert part.n_atoms == expected.n_atoms and part.host.n_atoms == expected.n_atoms
            assert_same_queries(part.query(torch.as_tensor(X)), expected.query(X))


def test_a_dictionary_is_sent_once_and_what_is_kept_for_it_is_forgotten_with_it():
    atoms, X = draw(18)
    dictionary = Dictionary(atoms)
    here = put_on_device(dictionary, CPU)
    encode(X, dictionary, BPDN(0.3))
    encode(X, dictionary, BPDN(0.0))  # asks the CPU
    assert put_on_device(dictionary, CPU) is here
    assert put_on_device(Dictionary(atoms), CPU) is not here
    kept = weakref.ref(here), weakref.ref(here.padded_gram)
    del here
    gc.collect()
    assert kept[0]() is not None and kept[1]() is not None
    del dictionary
    gc.collect()
    assert kept[0]() is None and kept[1]() is None


# --- every dictionary ---------------------------------------------------------------------------


def examples(n):
    """Return settings for n examples, fewer in the default run, and the same on every machine."""
    return settings(
        max_examples=scale.examples(n),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


shares = st.sampled_from([0.9, 0.5, 0.2, 0.05, 0.01, 1e-3])


@examples(200)
@given(cases(), shares)
def test_lasso_codes_of_any_family_are_certified_and_optimal(case, share):
    largest = np.abs(case.atoms @ case.queries.T).max()
    assume(largest > 0)
    found, right = (sparse_encode(case.queries, case.atoms, Lasso(share * largest), device=d) for d in (CPU, "cpu"))
    assert set(found.status) == {"ok"}
    assert_certified(found)
    np.testing.assert_allclose(found.objective, right.objective, rtol=TOL)


@examples(200)
@given(cases(max_queries=2), st.sampled_from([0.9, 0.5, 0.2, 0.05, 0.01]))
def test_bpdn_codes_of_any_family_are_certified_and_optimal(case, share):
    for y in case.queries:
        nearest, length = least_squares_residual(case.atoms, y), np.linalg.norm(y)
        inside = np.sqrt(max(0.0, length**2 - nearest**2))
        if inside <= 1e-9 * length:
            continue
        problem = BPDN(np.hypot(nearest, share * inside))
        found, right = (sparse_encode(y[None], case.atoms, problem, device=d) for d in (CPU, "cpu"))
        assert found.status[0] == "ok"
        assert_certified(found)
        np.testing.assert_allclose(found.objective, right.objective, rtol=2 * TOL)
        left = np.linalg.norm(y - found.toarray()[0] @ case.atoms)
        assert left == pytest.approx(problem.epsilon, abs=1.01 * TOL * length)


integers = st.integers(1, 12).flatmap(
    lambda n: st.integers(1, 5).flatmap(
        lambda m: st.tuples(
            arrays(np.int64, (n, m), elements=st.integers(-2, 2)), arrays(np.int64, (3, m), elements=st.integers(-3, 3))
        )
    )
)


@examples(300)
@given(integers, st.sampled_from([1 / 2, 1 / 3, 0.1, 0.01]))
def test_codes_over_small_integers_with_all_their_ties_are_those_of_the_cpu(numbers, share):
    atoms, X = (values.astype(float) for values in numbers)
    largest = np.abs(atoms @ X.T).max()
    assume(largest > 0)
    # Not the very distance of a sample to a span: there rounding decides whether epsilon is in reach.
    epsilon = 0.987654321 * share * np.linalg.norm(X, axis=1).max()
    for problem in (Lasso(share * largest), BPDN(epsilon), Ridge(share * largest)):
        assert_same(encode(X, atoms, problem), sparse_encode(X, atoms, problem))


@examples(80)
@given(cases(CLEAR, max_queries=2), shares)
def test_working_sets_give_the_codes_of_the_cpu_over_any_family(case, share):
    largest = np.abs(case.atoms @ case.queries.T).max()
    assume(largest > 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_coder_module, "MOST_ATOMS", 0)
        patch.setattr(many_atoms_module, "WORKING_SET", 4)
        found = encode(case.queries, case.atoms, Lasso(share * largest))
    assert_same(found, sparse_encode(case.queries, case.atoms, Lasso(share * largest)))


@examples(60)
@given(cases(max_queries=1), st.sampled_from([0.5, 0.1]))
def test_a_gap_of_bpdn_is_not_flattering(case, share):
    """What the device reports is at least what the features show."""
    y = case.queries[0]
    nearest, length = least_squares_residual(case.atoms, y), np.linalg.norm(y)
    inside = np.sqrt(max(0.0, length**2 - nearest**2))
    assume(inside > 1e-3 * length)
    epsilon = np.hypot(nearest, share * inside)
    code = encode(y[None], case.atoms, BPDN(epsilon))
    exact = bpdn_by_conic_solver(case.atoms, y, epsilon)
    assert 1 - exact.upper / code.objective[0] <= code.gap[0] + TOL
    assert bpdn_gap(case.atoms, y, epsilon, code.toarray()[0]) <= 10 * TOL / share**2


def test_a_torch_device_that_is_not_there_is_an_error_in_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"^device='cuda:1': PyTorch .*install.*$"):
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=torch.device("cuda:1"))
    with pytest.raises(ValueError, match=r"^device must be"):
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=torch.device("meta"))


def test_a_part_of_a_dictionary_without_labels_is_coded_like_the_dictionary_of_that_part():
    atoms, _ = draw(3)
    part = device_dictionary_module.put_on_device(Dictionary(atoms), CPU).subset(np.array([0, 2, 5]))
    np.testing.assert_allclose(part.gram.numpy(), Dictionary(atoms[[0, 2, 5]]).gram, atol=1e-14)


def test_no_memory_for_the_dictionary_is_an_error_that_says_so(monkeypatch):
    def fail(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 PiB.")

    monkeypatch.setattr("srosr.coding.device.device_batch.put_on_device", fail)
    with pytest.raises(
        DeviceError, match=r"^cpu: too little memory for a dictionary of 2 atoms; use device=\"cpu\"\.$"
    ):
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=CPU)


def test_codes_of_many_chunks_are_not_held_as_dense_tensors(monkeypatch):
    """Each chunk is collected before the next is coded: dense codes of all samples may not fit into the memory."""
    alive = []
    encode_chunk = device_coder_module.DeviceCoder.encode

    def watch(self, queries):
        gc.collect()
        assert sum(reference() is not None for reference in alive) == 0
        out = encode_chunk(self, queries)
        alive.append(weakref.ref(out))
        return out

    atoms, X = draw(5)
    right = sparse_encode(X, atoms, Lasso(0.1))
    monkeypatch.setattr(device_coder_module.DeviceCoder, "encode", watch)
    monkeypatch.setattr(device_coder_module.DeviceCoder, "count_rows", lambda self: 3)
    found = sparse_encode(X, atoms, Lasso(0.1), device=CPU)
    assert len(alive) == -(-len(X) // 3)
    np.testing.assert_allclose(found.toarray(), right.toarray(), atol=1e-8)


def test_hardly_a_sample_loses_its_way_over_coherent_atoms():
    """Codes of nearly as many atoms as features: rounding of the inverse is noticed, and it is computed anew."""
    rng = np.random.default_rng(0)
    atoms, X = unit_rows(rng.random((150, 40))), unit_rows(rng.random((300, 40)))
    for problem in (Lasso(0.001), BPDN(0.01)):
        found = encode(X, atoms, problem)
        assert found.on_device.mean() >= 0.995
        assert (found.status == "ok").all()


def test_threads_that_code_at_once_share_a_solver():
    """Each of them may find that most codes need more slots than the first size has."""
    rng = np.random.default_rng(1)
    atoms, X = unit_rows(rng.random((120, 90))), unit_rows(rng.random((300, 90)))
    gram, cross = (torch.tensor(values @ atoms.T) for values in (atoms, X))
    solver = PathSolver(Lasso(0.0001).path_end, 90, CPU)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: solver.solve(gram, cross, torch.ones(len(X), dtype=torch.float64)), range(3)))
    assert solver._first == 1
    for one in found:
        assert (one.status == SOLVED).double().mean() >= 0.99


def test_codes_that_the_cpu_has_chosen_are_not_counted_for_the_device(monkeypatch):
    """Two optimal codes, of which the device returns one that is not the shortest."""
    atoms = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    monkeypatch.setattr(device_coder_module, "MOST_ATOMS", 2)  # working sets leave copies to the CPU
    found = encode(np.array([[2.0, 0.0], [0.0, 2.0]]), atoms, Lasso(0.1))
    np.testing.assert_allclose(found.toarray(), [[0.95, 0.95, 0.0], [0.0, 0.0, 1.9]], atol=1e-9)
    assert found.on_device.tolist() == [False, True]

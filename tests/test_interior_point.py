"""The interior point method for basis pursuit denoising, against Clarabel and the certificate's own inequality."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from srosr import BPDN, Dictionary, sparse_encode
from srosr.coding import batch, certificate
from srosr.coding.encode import coding_seconds
from srosr.coding.solvers import fallback
from srosr.coding.solvers import interior_point as interior
from srosr.coding.solvers.interior_point import basis_pursuit
from srosr.coding.spectrum import Spectrum


def problem(rng, rank, n, decay=0.0, copies=0):
    """Return unit atoms with singular values that fall by ``decay`` powers of ten, some of them twice, and a sample."""
    atoms = rng.normal(size=(rank, n)) * np.logspace(0, -decay, rank)[:, None]
    atoms[:, n - copies :] = atoms[:, :copies]
    atoms /= np.linalg.norm(atoms, axis=0)
    target = atoms @ rng.normal(size=n)
    return atoms, target / np.linalg.norm(target)


@given(
    seed=st.integers(0, 10**6), rank=st.integers(1, 25), extra=st.integers(0, 40),
    decay=st.sampled_from([0.0, 2.0, 5.0]), epsilon=st.sampled_from([1e-4, 1e-3, 0.03, 0.5]),
)  # fmt: skip
@settings(max_examples=examples(120), deadline=None)
def test_code_and_dual_point_prove_each_other(seed, rank, extra, decay, epsilon):
    F, b = problem(np.random.default_rng(seed), rank, rank + extra, decay)
    found = basis_pursuit(F, b, epsilon)
    assert found is not None
    x, v = found
    image = np.abs(v @ F).max()
    worth = (b @ v - epsilon * np.linalg.norm(v)) / max(image, 1.0)
    assert np.linalg.norm(b - F @ x) <= epsilon + 2e-6
    assert np.abs(x).sum() <= worth * (1 + 1e-5) + 1e-9


@pytest.mark.parametrize(
    ("rank", "n", "decay", "copies"), [(20, 60, 0, 0), (20, 60, 4, 0), (30, 30, 3, 0), (15, 60, 2, 20)]
)
def test_the_objective_is_that_of_a_conic_solver(rank, n, decay, copies):
    rng = np.random.default_rng(rank + n + decay)
    F, b = problem(rng, rank, n, decay, copies)
    spectrum = Spectrum(np.einsum("ij,ij->j", F, F), atoms=F.T)
    corr = F.T @ b
    x, _ = basis_pursuit(spectrum.features, spectrum.project(corr[None])[0], 0.01)
    conic, _ = fallback._solve_conic(spectrum, corr, epsilon=0.01)
    assert np.abs(x).sum() == pytest.approx(np.abs(conic).sum(), rel=1e-7)


def test_the_fast_path_and_the_careful_one_lead_to_the_same_code():
    rng = np.random.default_rng(7)
    for decay in (0.0, 2.0, 4.0):
        F, b = problem(rng, 20, 60, decay)
        ways = [
            interior._follow_central_path(F, b, 0.01, np.abs(b @ F).max(), 1e-9, careful=careful)
            for careful in (False, True)
        ]
        assert max(error for error, *_ in ways) <= 1e-6
        np.testing.assert_allclose(ways[0][1], ways[1][1], atol=1e-4 * np.abs(ways[1][1]).max())


def test_where_the_fast_path_overshoots_the_careful_one_arrives():
    """Coordinates that differ by five powers of ten: the direction of v turns at every step."""
    left = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        F, b = problem(rng, 7, 55, 5.0)
        quick = interior._follow_central_path(F, b, 1e-4, np.abs(b @ F).max(), 1e-9, careful=False)
        left += quick[0] > 1e-6
        assert basis_pursuit(F, b, 1e-4) is not None
    assert left, "no sample needed the careful way: this test shows nothing"


@pytest.mark.parametrize(("rank", "n", "decay"), [(20, 60, 0.0), (20, 60, 2.0), (1, 5, 0.0), (12, 12, 1.0)])
def test_without_noise_it_is_the_linear_program(rank, n, decay):
    F, b = problem(np.random.default_rng(rank + n), rank, n, decay)
    x, v = basis_pursuit(F, b, 0.0)
    by_highs, _ = fallback._solve_linear_program(F, b)
    assert np.abs(x).sum() == pytest.approx(np.abs(by_highs).sum(), rel=1e-6)
    assert np.linalg.norm(F @ x - b) <= 1e-6 and np.abs(v @ F).max() <= 1 + 1e-9


def test_what_has_no_answer_here_is_left_to_others():
    F, b = problem(np.random.default_rng(0), 5, 9)
    assert basis_pursuit(F, np.zeros(5), 0.1) is None
    assert basis_pursuit(F, b, 2.0) is None  # zero is the answer
    assert basis_pursuit(np.zeros((5, 9)), b, 0.1) is None


@given(seed=st.integers(0, 10**6), decay=st.sampled_from([0.0, 3.0, 6.0, 7.5]), epsilon=st.sampled_from([1e-5, 1e-3]))
@settings(max_examples=examples(80), deadline=None)
def test_no_dual_point_proves_more_than_a_feasible_code_has(seed, decay, epsilon):
    """Over directions far below the rank tolerance of a Gram matrix, where dual points are long."""
    rng = np.random.default_rng(seed)
    F, b = problem(rng, 12, 30, decay)
    spectrum = Spectrum(np.einsum("ij,ij->j", F, F), atoms=F.T)
    cross, square = (F.T @ b)[None], np.array([b @ b])
    exact = np.linalg.lstsq(F, b, rcond=None)[0]
    found = basis_pursuit(F, b, 0.5 * epsilon)
    codes = [exact] if found is None else [exact, found[0] + np.linalg.lstsq(F, b - F @ found[0], rcond=None)[0]]
    least = min(np.abs(x).sum() for x in codes if np.linalg.norm(b - F @ x) <= epsilon)
    points = [rng.normal(size=12) / np.logspace(0, -decay, 12), b] + ([] if found is None else [found[1]])
    for v in points:
        image = (v @ F / np.abs(v @ F).max())[None]
        reached = certificate._bound_by_fine_image(image, cross, square, epsilon, spectrum)[0]
        assert reached <= least * (1 + 1e-12)


def test_a_code_that_is_long_along_faint_directions_has_a_certificate():
    rng = np.random.default_rng(3)
    for _ in range(20):
        F, b = problem(rng, 12, 30, 6.5)
        codes = sparse_encode(b[None], F.T, BPDN(1e-3))
        assert codes.status[0] == "ok" and codes.gap[0] < 1e-6


@pytest.mark.slow
def test_hard_codes_of_pictures_are_certified_without_a_conic_solver(data_dir, monkeypatch):
    """Rank-deficient MNIST at the paper's epsilon, where a path is given too few steps to get there."""
    from benchmarks.trials import mnist

    def conic(*_, **__):
        raise AssertionError("Clarabel was asked")

    monkeypatch.setattr(fallback, "_solve_conic", conic)
    monkeypatch.setattr(batch, "_PATH_STEPS_AN_ATOM", 0)
    trial = mnist(100)
    dictionary = Dictionary(trial.X, trial.y, normalize=True)
    solved = []
    monkeypatch.setattr(fallback, "basis_pursuit", lambda *a: solved.append(1) or basis_pursuit(*a))
    codes = sparse_encode(trial.X_test[[110, 113, 127, 137]], dictionary, BPDN(0.001))
    assert codes.status.tolist() == ["ok", "ok", "ok", "infeasible"]
    assert codes.gap.max() < 1e-6 and len(solved) >= 3


def test_the_clock_counts_coding_and_nothing_else():
    rng = np.random.default_rng(0)
    before = coding_seconds()
    time.sleep(0.02)
    assert coding_seconds() == before
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparse_encode(rng.normal(size=(20, 10)), rng.normal(size=(30, 10)), BPDN(0.1), normalize=True)
    assert 0 < coding_seconds() - before <= time.perf_counter() - started

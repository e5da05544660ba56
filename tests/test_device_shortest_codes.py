"""The least-norm code on a device: of several optimal codes the shortest one is returned."""

from __future__ import annotations

import numpy as np
import pytest
from device_cases import (
    PATHS,
    assert_same,
    draw,
    encode,
    one_thread,  # noqa: F401
)
from families import QUERY_KINDS, Case
from reference import least_norm_by_quadratic_program
from scipy.optimize import nnls

from srosr import BPDN, Lasso, sparse_encode
from srosr.coding.device import DeviceCoder
from srosr.coding.device.copies import Copies
from srosr.coding.device.shortest_codes import Ties, _decompose, _find_shortest, _orthonormalize, shorten_codes
from srosr.coding.least_norm import _find_least_distance

torch = pytest.importorskip("torch")


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
def test_a_face_with_eight_corners_has_the_shortest_code(corner, problem, monkeypatch):
    """Four null vectors: inside the shortest code uses all corners, near one of them it does not."""
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    atoms, y = np.hstack([corners, np.ones((8, 1))]), np.array([*corner, 1.0])
    monkeypatch.setattr(DeviceCoder, "_ask_host", None)
    found = encode(y[None], atoms, problem)
    assert_same(found, sparse_encode(y[None], atoms, problem), 1e-9)
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


def draw_null_vectors(rng, kind, shape):
    """Return orthonormal null vectors (n, m, d) of a kind."""
    n, m, d = shape
    columns = rng.integers(-1, 2, shape).astype(float) if kind == "with ties" else rng.standard_normal(shape)
    columns[:, np.arange(d), np.arange(d)] += 3.0  # independent
    if kind == "with rows of zeros":
        columns[:, d:][rng.random((n, m - d)) < 0.5] = 0.0
    if kind == "nearly dependent":
        columns[:, 1::2] = columns[:, : m - 1 : 2][:, : m // 2] + 1e-7 * columns[:, 1::2]
    null = np.linalg.qr(columns)[0]
    null[~columns.any(axis=2)] = 0.0
    if kind == "with columns of zeros":
        null[: n // 2, :, d // 2 :] = 0.0
    return null


def assert_shortest(found, null, z):
    """Optimality conditions: found = z + null u >= 0, and null' found has prices >= 0 on zero entries."""
    assert found.min() >= -1e-13
    np.testing.assert_allclose(found - z, null @ (null.T @ (found - z)), atol=1e-11)
    slope, bound = null.T @ found, found <= 1e-11
    assert (nnls(null[bound].T, slope)[1] if bound.any() else np.linalg.norm(slope)) <= 1e-10


@pytest.mark.parametrize(
    "kind", ["of any kind", "with columns of zeros", "with rows of zeros", "with ties", "nearly dependent"]
)
def test_the_shortest_code_along_null_vectors_satisfies_the_optimality_conditions(kind):
    """It is also that of the CPU, by another method."""
    n_bound = 0
    for d in range(1, 8):
        for m in (d + 1, d + 5, 40):
            rng = np.random.default_rng(100 * d + m)
            null = draw_null_vectors(rng, kind, (25, m, d))
            z = rng.random((25, m)) * (rng.random((25, m)) < 0.6)
            if kind == "with ties":
                z = np.round(3 * z)
            found, failed = (values.numpy() for values in _find_shortest(torch.as_tensor(null), torch.as_tensor(z)))
            assert kind == "nearly dependent" or not failed.any()
            for one, vectors, start in zip(found[~failed], null[~failed], z[~failed], strict=True):
                assert_shortest(one, vectors, start)
                projected = start - vectors @ (vectors.T @ start)
                if projected.min() < -1e-9:
                    n_bound += 1
                    right = _find_least_distance(vectors, projected)
                    assert np.linalg.norm(one) <= np.linalg.norm(right) * (1 + 1e-12) + 1e-12
                    if kind != "nearly dependent":
                        np.testing.assert_allclose(one, right, atol=1e-10)
    assert n_bound > 200


def test_a_code_without_null_vectors_or_part_along_them_stays():
    z = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 2.0]], dtype=torch.float64)
    null = torch.tensor([[1.0], [-1.0], [0.0]], dtype=torch.float64) / 2**0.5
    for vectors in (torch.zeros(2, 3, 1, dtype=torch.float64), torch.stack([null, 0.0 * null])):
        found, failed = _find_shortest(vectors, z)
        assert not failed.any()
        torch.testing.assert_close(found, z, atol=1e-15, rtol=0.0)
    found, _ = _find_shortest(torch.stack([null, null]), z)
    torch.testing.assert_close(found, torch.tensor([[1.0, 1.0, 0.0], [0.5, 0.5, 2.0]], dtype=torch.float64))


def test_codes_of_dependent_atoms_are_left_to_the_cpu():
    """The systems of such a code are singular: what comes of them is not a number, on which a card would fail."""
    atoms = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.8, 0.0]])
    codes = torch.tensor([[0.3, 0.3, 0.0, 0.0], [0.5, 0.0, 0.2, 0.0]], dtype=torch.float64)
    tight = torch.tensor([[True, True, True, False], [True, False, True, False]])
    ties = Ties(codes, tight, torch.ones_like(codes))
    out, left = shorten_codes(ties, torch.as_tensor(atoms @ atoms.T), torch.ones(4, dtype=torch.int64))
    assert left.tolist() == [True, False]
    torch.testing.assert_close(out, codes)


def test_null_vectors_that_depend_on_each_other_are_noticed():
    columns = torch.tensor([[[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]]]).double()
    found, is_good = _orthonormalize(columns)
    assert is_good.tolist() == [False, True] and not found[0].any()
    torch.testing.assert_close(found[1].T @ found[1], torch.eye(2, dtype=torch.float64))


def test_a_card_that_finds_no_eigenvalues_is_helped_by_the_cpu(monkeypatch):
    rng = np.random.default_rng(0)
    factors = torch.as_tensor(rng.standard_normal((5, 3, 3)))
    real, calls = torch.linalg.eigh, []

    def find(systems):
        calls.append(systems)
        if len(calls) == 1:
            raise torch.linalg.LinAlgError("linalg.eigh: the algorithm failed to converge")
        return real(systems)

    monkeypatch.setattr(torch.linalg, "eigh", find)
    values, vectors = _decompose(factors @ factors.mT)
    assert len(calls) == 2
    torch.testing.assert_close(vectors @ torch.diag_embed(values) @ vectors.mT, factors @ factors.mT)

"""Problems, samples and comparisons that the tests of coding on a device share.

The device is PyTorch's CPU, which every machine has: it runs the algorithms of a device. Codes are compared with those
of the path without a device, which shares with them the formulas of certificates alone.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from families import FAMILIES
from reference import unit_rows

from srosr import BPDN, OMP, Lasso, Ridge, sparse_encode

torch = pytest.importorskip("torch")

CPU = torch.device("cpu")
TOL = 1e-6
PATHS = [Lasso(0.05), BPDN(0.3), BPDN(0.001)]
EVERY = [*PATHS, Ridge(0.1), OMP(3)]
#: Families over which codes are determined to the digits compared here, see test_least_norm.py.
CLEAR = [family for family in FAMILIES if family != "coherent"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Let PyTorch work in one thread, where many would only wait for each other; import it to use it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def compare_linearly(A, B):
    """Return inner products: a kernel that is a function of the user."""
    return A @ B.T


def name_kernel(options):
    """Return the name of a test with options of a kernel."""
    kernel = options["kernel"]
    return f"{getattr(kernel, '__name__', kernel)}-{options.get('normalize', False)}"


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
    """Return codes of the device."""
    return sparse_encode(X, atoms, problem, device=CPU, **options)


def describe(codes):
    """Return how codes print themselves without their worst gap, which is zero but for rounding."""
    return re.sub(r"worst gap [^,>]+", "", repr(codes))


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

"""The data sets of the paper, on which other coders are slow or silently wrong."""

import gzip

import numpy as np
import pytest
import scipy.io
from reference import (
    basis_pursuit_by_linear_program,
    bpdn_by_conic_solver,
    bpdn_gap,
    lasso_by_conic_solver,
    lasso_gap,
    least_squares_residual,
    rank,
    residual,
    unit_rows,
)

from srosr import BPDN, Lasso, SRCClassifier, sparse_encode
from srosr.coding.spectrum import RANK

pytestmark = pytest.mark.realdata

TOL = 1e-6


def idx(path, header, shape):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header).reshape(shape)


@pytest.fixture(scope="module")
def uiuc(data_dir):
    """Return 500 training objects of a-Pascal from the ten largest classes after `person`, and 300 others."""
    (path,) = (data_dir / "uiuc_attributes").glob("*.npz")
    with np.load(path, allow_pickle=False) as file:
        X, y = file["X"].astype(float), file["y"]
    rng = np.random.default_rng(0)
    known = np.argsort(-np.bincount(y))[1:11]
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:50] for k in known])
    rest = rng.permutation(np.setdiff1d(np.flatnonzero(np.isin(y, known)), rows))[:300]
    return unit_rows(X[rows]), unit_rows(X[rest]), y[rows], y[rest]


@pytest.fixture(scope="module")
def yale(data_dir):
    """Return ten people, four pictures in five as atoms: 1024 pixels, about 512 atoms, full rank."""
    file = scipy.io.loadmat(data_dir / "yaleb" / "yaleb3232.mat")
    X, y = file["fea"].astype(float), file["gnd"].ravel()
    rng = np.random.default_rng(0)
    X, y = X[y <= 10], y[y <= 10]
    train = np.zeros(len(y), bool)
    for k in range(1, 11):
        rows = rng.permutation(np.flatnonzero(y == k))
        train[rows[: int(0.8 * len(rows))]] = True
    return unit_rows(X[train]), unit_rows(X[~train]), y[train], y[~train]


def known_digits(data_dir, n_train, n_test):
    """Return digits 0 to 5 of MNIST: 784 pixels of which many are always dark."""
    images = idx(data_dir / "mnist" / "train-images-idx3-ubyte.gz", 16, (-1, 784))
    labels = idx(data_dir / "mnist" / "train-labels-idx1-ubyte.gz", 8, (-1,))
    rows = np.array([np.flatnonzero(labels == k)[: n_train + n_test] for k in range(6)])
    train, test = rows[:, :n_train].ravel(), rows[:, n_train:].ravel()
    X = images.astype(float)
    return unit_rows(X[train]), unit_rows(X[test]), labels[train], labels[test]


@pytest.fixture(scope="module")
def mnist(data_dir):
    return known_digits(data_dir, 100, 40)


@pytest.fixture(scope="module")
def strange_digits(data_dir):
    """Return digits 6 to 9: many bright pixels that are dark in all atoms."""
    images = idx(data_dir / "mnist" / "train-images-idx3-ubyte.gz", 16, (-1, 784))
    labels = idx(data_dir / "mnist" / "train-labels-idx1-ubyte.gz", 8, (-1,))
    return unit_rows(images[np.flatnonzero(labels > 5)[:60]].astype(float))


def test_uiuc_is_as_degenerate_as_they_say(uiuc):
    atoms, *_ = uiuc
    assert len(atoms) == 500
    assert rank(atoms) < 64
    assert len(np.unique(atoms, axis=0)) < 450


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.001])
def test_uiuc_lasso_is_certified_for_every_sample(uiuc, alpha):
    atoms, X, *_ = uiuc
    codes = sparse_encode(X, atoms, Lasso(alpha))
    assert set(codes.status) == {"ok"}
    assert codes.gap.max() <= TOL
    x = codes.codes.toarray()
    gaps = [lasso_gap(atoms, q, alpha, c) for q, c in zip(X, x, strict=True)]
    assert max(gaps) <= 1.01 * TOL
    for i in range(0, 300, 60):
        exact = lasso_by_conic_solver(atoms, X[i], alpha)
        assert codes.objective[i] <= exact.upper * (1 + TOL)
        assert codes.objective[i] >= exact.lower * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 0.1, 0.001])
def test_uiuc_bpdn_is_certified_for_every_sample(uiuc, epsilon):
    atoms, X, *_ = uiuc
    codes = sparse_encode(X, atoms, BPDN(epsilon))
    assert codes.gap.max() <= TOL
    assert codes.violation.max() <= TOL
    distances = np.array([least_squares_residual(atoms, q) for q in X])
    clear = np.abs(distances - epsilon) > 1e-6
    expected = np.where((distances > epsilon) & np.any(X, axis=1), "infeasible", "ok")
    np.testing.assert_array_equal(codes.status[clear], expected[clear])
    for i in range(0, 300, 60):
        if not clear[i] or distances[i] + 1e-3 > epsilon > distances[i]:
            continue
        if codes.status[i] == "ok":
            exact = bpdn_by_conic_solver(atoms, X[i], epsilon)
        else:
            exact = basis_pursuit_by_linear_program(atoms, X[i])
        assert codes.objective[i] == pytest.approx(exact.upper, rel=2 * TOL)


def test_uiuc_closed_set_recognition(uiuc):
    atoms, X, y, y_test = uiuc
    assert SRCClassifier(Lasso(0.01)).fit(atoms, y).score(X, y_test) > 0.5


def test_yale_faces_at_the_papers_epsilon_are_all_out_of_reach_and_least_squares(yale):
    atoms, X, *_ = yale
    assert rank(atoms) == len(atoms)
    codes = sparse_encode(X, atoms, BPDN(0.001))
    assert set(codes.status) == {"infeasible"}
    assert codes.gap.max() <= TOL
    assert codes.violation.max() <= TOL
    exact = np.linalg.lstsq(atoms.T, X.T, rcond=None)[0].T
    np.testing.assert_allclose(codes.codes.toarray(), exact, atol=1e-7 * np.abs(exact).max())
    np.testing.assert_allclose(codes.objective, np.abs(exact).sum(axis=1), rtol=TOL)
    np.testing.assert_allclose(codes.residual_norm, np.linalg.norm(X - exact @ atoms, axis=1), atol=1e-7)


def test_yale_lasso_is_certified_and_recognizes_faces(yale):
    atoms, X, y, y_test = yale
    codes = sparse_encode(X, atoms, Lasso(0.05))
    assert set(codes.status) == {"ok"}
    gaps = [lasso_gap(atoms, q, 0.05, c) for q, c in zip(X, codes.codes.toarray(), strict=True)]
    assert max(gaps) <= 1.01 * TOL
    assert SRCClassifier(Lasso(0.05)).fit(atoms, y).score(X, y_test) > 0.9


def test_yale_bpdn_on_both_sides_of_reach(yale):
    atoms, X, *_ = yale
    codes = sparse_encode(X, atoms, BPDN(0.1))
    exact = np.linalg.lstsq(atoms.T, X.T, rcond=None)[0].T
    distances = np.linalg.norm(X - exact @ atoms, axis=1)
    expected = np.where(distances > 0.1, "infeasible", "ok")
    clear = np.abs(distances - 0.1) > 1e-6
    np.testing.assert_array_equal(codes.status[clear], expected[clear])
    assert codes.gap.max() <= TOL
    assert codes.violation.max() <= TOL
    ok = codes.status == "ok"
    np.testing.assert_allclose(codes.residual_norm[ok], 0.1, atol=2 * TOL)
    for q, c in zip(X[ok], codes.codes.toarray()[ok], strict=True):
        assert bpdn_gap(atoms, q, 0.1, c) <= 2 * TOL


def test_yale_faces_covered_by_a_block_are_recognized_with_occlusion(yale):
    atoms, X, y, y_test = yale
    some = np.random.default_rng(1).permutation(len(X))[:60]
    covered = X[some].reshape(-1, 32, 32).copy()
    covered[:, 8:18, 10:22] = 3 * np.abs(X).mean()
    covered = covered.reshape(-1, 1024)
    plain = SRCClassifier(Lasso(0.01)).fit(atoms, y).score(covered, y_test[some])
    robust = SRCClassifier(Lasso(0.01), occlusion=True).fit(atoms, y).score(covered, y_test[some])
    assert robust >= plain
    assert robust > 0.8


def test_mnist_bpdn_is_certified(mnist):
    atoms, X, *_ = mnist
    X = X[::4]
    codes = sparse_encode(X, atoms, BPDN(0.1))
    assert "max_iter" not in set(codes.status)
    assert codes.gap.max() <= TOL
    assert codes.violation.max() <= TOL
    x = codes.codes.toarray()
    for i in np.flatnonzero(codes.status == "ok"):
        assert np.linalg.norm(residual(atoms, X[i], x[i])) == pytest.approx(0.1, abs=2 * TOL)
        assert bpdn_gap(atoms, X[i], 0.1, x[i]) <= 2 * TOL


def test_mnist_at_the_papers_epsilon_is_certified(data_dir):
    """Known digits light only pixels the atoms light: in reach, by singular values down to 1e-5 of the first."""
    atoms, X, *_ = known_digits(data_dir, 300, 2)
    codes = sparse_encode(X, atoms, BPDN(0.001))
    assert "max_iter" not in set(codes.status)
    assert codes.gap.max() <= TOL
    assert codes.violation.max() <= TOL
    x = codes.codes.toarray()
    for i in np.flatnonzero(codes.status == "ok"):
        assert np.linalg.norm(residual(atoms, X[i], x[i])) == pytest.approx(0.001, abs=2 * TOL)
        assert bpdn_gap(atoms, X[i], 0.001, x[i]) <= 1e-5


def halved(X):
    """Return pictures of 28 x 28 pixels as 14 x 14."""
    return unit_rows(X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196))


@pytest.mark.slow
def test_mnist_digits_outside_the_span_are_basis_pursuit(mnist, strange_digits):
    """More atoms than rank, epsilon out of reach; against the simplex method at the library's rank tolerance."""
    atoms, X = halved(mnist[0]), halved(strange_digits)
    assert rank(atoms) < min(atoms.shape)
    distances = np.array([least_squares_residual(atoms, y) for y in X])
    X = X[np.argsort(-distances)[:6]]
    assert np.sort(distances)[-6] > 0.01
    codes = sparse_encode(X, atoms, BPDN(0.001))
    assert set(codes.status) == {"infeasible"}
    assert codes.gap.max() <= TOL
    assert codes.violation.max() <= TOL
    for y, objective in zip(X, codes.objective, strict=True):
        exact = basis_pursuit_by_linear_program(atoms, y, rank_tolerance=np.sqrt(RANK))
        assert exact.gap <= TOL
        assert exact.lower * (1 - TOL) <= objective <= exact.upper * (1 + TOL)


@pytest.mark.slow
def test_mnist_digits_outside_a_nearly_dependent_span_are_certified(mnist, strange_digits):
    """All pixels: eigenvalues of the Gram matrix down to 1e-12 of the first, beyond what a simplex method resolves."""
    atoms, *_ = mnist
    distances = np.array([least_squares_residual(atoms, y) for y in strange_digits])
    codes = sparse_encode(strange_digits[np.argsort(-distances)[:4]], atoms, BPDN(0.001))
    assert set(codes.status) == {"infeasible"}
    assert codes.gap.max() <= TOL
    assert codes.violation.max() <= TOL


@pytest.mark.slow
def test_mnist_codes_of_a_small_dictionary_at_the_papers_epsilon_are_optimal(mnist):
    """Six hundred atoms, about as many as lit pixels: in reach by singular values down to 1e-6 of the first."""
    atoms, X, *_ = mnist
    X = X[::10][:20]
    codes = sparse_encode(X, atoms, BPDN(0.001), n_jobs=2)
    assert "max_iter" not in set(codes.status)
    assert codes.gap.max() <= TOL
    in_reach = codes.status == "ok"
    assert in_reach.sum() >= 15
    x = codes.codes.toarray()
    for i in np.flatnonzero(in_reach):
        assert np.linalg.norm(residual(atoms, X[i], x[i])) == pytest.approx(0.001, abs=2 * TOL)
    i = np.flatnonzero(in_reach)[3]
    exact = bpdn_by_conic_solver(atoms, X[i], 0.001)
    assert exact.gap <= 1e-8
    assert codes.objective[i] == pytest.approx(exact.upper, rel=2 * TOL)


def test_mnist_recognition(mnist):
    atoms, X, y, y_test = mnist
    assert SRCClassifier(Lasso(0.05)).fit(atoms, y).score(X, y_test) > 0.93

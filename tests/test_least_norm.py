"""Of several optimal codes the one of least norm is returned, whatever the order of the atoms and the solver.

The reference is a quadratic program on raw features that knows no dual point and no tight atoms: the shortest vector
with the fit of a code and no larger l1 norm.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scale
from families import BLURRED, FAMILIES, cases
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from reference import least_norm_by_quadratic_program, least_squares_residual, unit_rows
from same import check_same

from srosr import BPDN, Lasso, SRCClassifier, sparse_encode
from srosr.coding import batch, solvers
from srosr.coding.least_norm import LeastNorm, _minimize_dependent
from srosr.coding.solvers.solver import Solution, Solver
from srosr.coding.sparse_rows import to_sparse_rows

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # the trials are run from the repository and are not installed
    sys.path.insert(0, str(ROOT))

KINDS = ("lasso", "bpdn", "out of reach")
#: Codes over coherent atoms, which differ by 2 %, are determined to a thousandth by a certificate of 1e-6.
CLEAR = [family for family in FAMILIES if family != "coherent"]
shares = st.sampled_from([0.5, 0.2, 0.05, 0.01, 1e-3])


def examples(n):
    """Return settings for n examples, fewer in the default run, and the same on every machine."""
    return settings(
        max_examples=scale.examples(n),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def pose_problem(kind, atoms, y, share):
    """Return a problem for a sample that the atoms explain in part; hypothesis drops other samples."""
    nearest, length = least_squares_residual(atoms, y), np.linalg.norm(y)
    inside = np.sqrt(max(0.0, length**2 - nearest**2))
    assume(inside > 1e-6 * length)
    if kind == "lasso":
        return Lasso(share * np.abs(atoms @ y).max())
    if kind == "bpdn":
        return BPDN(np.hypot(nearest, max(share, 0.01) * inside))
    return BPDN(0.5 * nearest if nearest > 1e-6 * length else 0.0)


def encode(y, atoms, problem, **options):
    codes = sparse_encode(y[None], atoms, problem, **options)
    assert codes.status[0] in ("ok", "infeasible"), codes
    return codes.toarray()[0]


def assert_close(x, y, tolerance):
    assert np.abs(x - y).max() <= tolerance * np.abs(y).max()


# --- the definition ----------------------------------------------------------------------------


@pytest.mark.parametrize("problem, total", [(Lasso(0.1), 0.9), (BPDN(0.6), 0.4), (BPDN(0.0), 1.0)])
def test_copies_share_a_coefficient_equally_whatever_their_sign_and_class(problem, total):
    """One direction explains the sample: x = 1 - alpha, or 1 - epsilon."""
    atoms = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    x = encode(np.array([1.0, 0.0]), atoms, problem)
    np.testing.assert_allclose(x, [total / 3, 0.0, total / 3, -total / 3], atol=1e-12)


@pytest.mark.parametrize("s, t, expected", [
    (0.2, 0.4, [0.4, 0.2, 0.3, 0.1]),  # (1 ± s ± t) / 4
    (0.8, 0.8, [0.8, 0.1, 0.1, 0.0]),  # where that is negative, the atom is not used and the others are determined
])  # fmt: skip
def test_a_face_with_four_corners(s, t, expected):
    """Four atoms of which two pairs have the same sum: (s, t, 1) has infinitely many codes of l1 norm 1."""
    atoms = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]])
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        x = encode(np.array([s, t, 1.0]), atoms[order], BPDN(0.0))
        np.testing.assert_allclose(x, np.array(expected)[order], atol=1e-12)


@examples(200)
@given(cases(max_atoms=25, max_features=12, max_queries=1), shares, st.sampled_from(KINDS))
def test_no_code_with_the_same_fit_and_l1_norm_is_shorter(case, share, kind):
    y = case.queries[0]
    problem = pose_problem(kind, case.atoms, y, share)
    x = encode(y, case.atoms, problem)
    assume(x.any())
    exact = least_norm_by_quadratic_program(case.atoms, x)
    assert np.linalg.norm(x) <= np.linalg.norm(exact) * (1 + 1e-6)
    assert_close(x, exact, 1e-3)  # the program allows a little more l1 norm, so that it has an interior


def minimize_over_subsets(system, z):
    """Return the shortest nonnegative vector with the same product, by trying which entries are zero."""
    best, n = z, system.shape[1]
    for used in product([False, True], repeat=n):
        x = np.zeros(n)
        x[list(used)] = np.linalg.pinv(system[:, used]) @ (system @ z)
        if x.min() >= -1e-12 and np.allclose(system @ x, system @ z, atol=1e-10) and x @ x < best @ best:
            best = x
    return best


@pytest.mark.parametrize("seed", scale.slow_except(range(5), range(40)))
def test_coefficients_that_are_zero_in_all_optimal_codes_leave_the_others_free(seed):
    """The first feature of the fit is zero, and three atoms have it with positive entries: none of them is used."""
    rng = np.random.default_rng(seed)
    system = rng.standard_normal((4, 8)) * rng.uniform(0.2, 2.0, 8)
    system[0] = np.concatenate([np.abs(system[0, :3]), np.zeros(5)])
    z = np.concatenate([np.zeros(3), np.where(rng.random(5) < 0.5, 0.0, rng.random(5)), [1.0]])
    system = np.hstack([system, system[:, 3:4] - system[:, 4:5] + system[:, 5:6]])
    found = _minimize_dependent(system.T @ system, np.ones(9), z)
    np.testing.assert_allclose(found, minimize_over_subsets(system, z), atol=1e-8)


# --- invariance --------------------------------------------------------------------------------


@examples(400)
@given(cases(CLEAR, max_queries=1), shares, st.sampled_from(KINDS))
def test_the_order_and_the_signs_of_atoms_do_not_matter(case, share, kind):
    y, n = case.queries[0], len(case.atoms)
    problem = pose_problem(kind, case.atoms, y, share)
    order, signs = case.rng.permutation(n), case.rng.choice([-1.0, 1.0], n)
    x = encode(y, case.atoms, problem)
    z = encode(y, (signs[:, None] * case.atoms)[order], problem)
    assert_close(z, (signs * x)[order], 1e-7)


@examples(150)
@given(cases(CLEAR, max_atoms=20, max_queries=1), shares, st.sampled_from(KINDS), st.integers(2, 4))
def test_copies_of_all_atoms_divide_every_coefficient(case, share, kind, m):
    """With m copies of every atom, some with the other sign, each gets 1/m of it and the fit is the same."""
    y, n = case.queries[0], len(case.atoms)
    problem = pose_problem(kind, case.atoms, y, share)
    signs = case.rng.choice([-1.0, 1.0], m * n)
    x = encode(y, case.atoms, problem)
    z = encode(y, signs[:, None] * np.tile(case.atoms, (m, 1)), problem)
    assert_close(signs * z, np.tile(x, m) / m, 1e-6)


@examples(60)
@given(cases(CLEAR, max_queries=1), shares, st.sampled_from(KINDS))
def test_a_dictionary_without_a_gram_matrix_gives_the_same_code(case, share, kind):
    y = case.queries[0]
    problem = pose_problem(kind, case.atoms, y, share)
    x = encode(y, case.atoms, problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "_GRAM_BYTES", 0)
        assert_close(encode(y, case.atoms, problem), x, 1e-6)


def test_a_residual_of_rounding_size_does_not_say_which_codes_are_optimal():
    """Over one feature it may look like a dual point, in which other atoms are tight."""
    lengths = [1.4462213426765447, 1.5356895262293422, -1.5356895262293422, -1.4462213426765447, 0.48795228784662087]
    atoms = np.array(lengths)[:, None]
    expected = 0.181657588512642 / lengths[1] / 2 * np.array([0.0, -1.0, 1.0, 0.0, 0.0])
    with pytest.MonkeyPatch.context() as patch:
        for n_bytes in (batch._GRAM_BYTES, 0):
            patch.setattr(batch, "_GRAM_BYTES", n_bytes)
            assert_close(encode(np.array([-0.181657588512642]), atoms, BPDN(0.0)), expected, 1e-9)


class Unsolved(Solver):
    """Leaves every sample to the fallback solver."""

    @classmethod
    def supports(cls, batch):
        return batch.problem.path_end is not None

    @classmethod
    def cost(cls, batch):
        return -1.0

    def solve(self, cross, squared_norms):
        n, nothing = len(cross), to_sparse_rows(np.zeros(cross.shape))
        return Solution(nothing, np.zeros(n, np.int64), np.zeros(n, dtype=bool), nothing, np.ones(n, dtype=bool))


@pytest.mark.filterwarnings("ignore::srosr.exceptions.CertificateWarning")
@examples(100)
@given(cases(CLEAR, max_queries=1), st.sampled_from([0.5, 0.2, 0.05]), st.sampled_from(KINDS))
def test_the_fallback_solver_gives_the_code_of_the_homotopy(case, share, kind):
    """As accurately as interior point methods solve; a code that they do not certify is not compared."""
    y = case.queries[0]
    problem = pose_problem(kind, case.atoms, y, share)
    x = encode(y, case.atoms, problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solvers, "SOLVERS", (*solvers.SOLVERS, Unsolved))
        codes = sparse_encode(y[None], case.atoms, problem)
    assume(codes.status[0] != "max_iter")
    assert_close(codes.toarray()[0], x, 2e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("problem", [Lasso(0.05), BPDN(0.3), BPDN(0.01)])
def test_many_samples_in_many_threads(kernel, problem):
    rng = np.random.default_rng(0)
    atoms = unit_rows(FAMILIES["binary"](rng, 120, 12) + 1e-9)
    X, order = rng.random((200, 12)), rng.permutation(120)
    one, three = (sparse_encode(X, atoms, problem, kernel=kernel, n_jobs=n) for n in (1, 3))
    check_same(three.toarray(), one.toarray())
    other = sparse_encode(X, atoms[order], problem, kernel=kernel, n_jobs=3)
    np.testing.assert_allclose(other.toarray(), one.toarray()[:, order], atol=1e-7)
    assert len(np.unique(atoms, axis=0)) < 100


@examples(100)
@given(cases(["coherent"], max_queries=1), shares, st.sampled_from(KINDS))
def test_over_coherent_atoms_the_order_matters_little(case, share, kind):
    y = case.queries[0]
    problem = pose_problem(kind, case.atoms, y, share)
    order = case.rng.permutation(len(case.atoms))
    assert_close(encode(y, case.atoms[order], problem), encode(y, case.atoms, problem)[order], 1e-3)


@examples(60)
@given(cases(BLURRED, max_queries=1), st.sampled_from([0.5, 0.2, 0.05]))
def test_over_almost_dependent_atoms_the_fit_does_not_depend_on_the_order(case, share):
    """The code may: atoms that differ by more than Gram quantities resolve are not copies, but nearly exchangeable."""
    y = case.queries[0]
    problem = pose_problem("lasso", case.atoms, y, share)
    order = case.rng.permutation(len(case.atoms))
    fits = [encode(y, case.atoms[o], problem) @ case.atoms[o] for o in (np.arange(len(order)), order)]
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-5 * np.linalg.norm(y))


# --- what stays as it is -----------------------------------------------------------------------


@pytest.mark.parametrize("problem", [Lasso(0.05), BPDN(0.3)])
def test_a_unique_code_stays_as_it_is(problem, monkeypatch):
    rng = np.random.default_rng(0)
    atoms, X = unit_rows(rng.standard_normal((80, 40))), unit_rows(rng.standard_normal((100, 40)))
    codes = sparse_encode(X, atoms, problem)
    monkeypatch.setattr(LeastNorm, "replace_codes", lambda self, codes, certificate, *_: (codes, certificate))
    check_same(sparse_encode(X, atoms, problem).toarray(), codes.toarray())


def test_where_nonnegative_least_squares_fail_a_certified_code_remains(monkeypatch):
    def fail(*_):
        raise RuntimeError("no convergence")

    atoms = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0], [-1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
    y = np.array([[0.8, 0.8, 1.0]])
    monkeypatch.setattr("scipy.optimize.nnls", fail)
    codes = sparse_encode(y, atoms, Lasso(1e-3))
    assert codes.status[0] == "ok" and codes.gap[0] < 1e-6


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]])
def test_classes_that_share_an_atom_tie_to_the_last_bit(order):
    """So no label hangs on rounding: of classes with equal residuals the first is chosen."""
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b", "c"])[order]
    for _ in range(20):
        shared, other = unit_rows(rng.standard_normal((2, 7)))
        y = shared + 0.1 * rng.standard_normal(7)
        clf = SRCClassifier(problem=Lasso(0.01)).fit(np.array([shared, shared, other])[order], labels)
        residuals = clf.residuals(y[None])[0]
        assert residuals[0] == residuals[1] < residuals[2]
        assert clf.predict(y[None])[0] == "a"


# --- real data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [Lasso(0.02), BPDN(0.001)])
def test_on_uiuc_the_order_of_training_rows_changes_no_residual_and_no_label(data_dir, problem):
    """Attributes: most training rows have copies, some of them in other classes."""
    from benchmarks.trials import TRIALS

    trial = TRIALS["uiuc"].draw(100)
    rng = np.random.default_rng(0)
    X = trial.X_test[rng.permutation(len(trial.X_test))[:150]]
    assert len(np.unique(trial.X, axis=0)) < 0.8 * len(trial.X)
    clf = SRCClassifier(problem=problem).fit(trial.X, trial.y)
    residuals, labels = clf.residuals(X), clf.predict(X)
    for _ in range(2):
        order, signs = rng.permutation(len(trial.X)), rng.choice([-1.0, 1.0], len(trial.X))
        for rows in (trial.X[order], (signs[:, None] * trial.X)[order]):
            clf = SRCClassifier(problem=problem).fit(rows, trial.y[order])
            np.testing.assert_allclose(clf.residuals(X), residuals, atol=1e-7)
            np.testing.assert_array_equal(clf.predict(X), labels)

"""Solvers are chosen from one list by what they support and by their declared cost."""

import numpy as np
import pytest
from same import check_same

from srosr import BPDN, OMP, Dictionary, Lasso, Ridge, sparse_encode
from srosr._support.threads import ThreadPool
from srosr.coding import batch as batch_module
from srosr.coding import solvers
from srosr.coding.batch import Batch
from srosr.coding.certificate import Certificate
from srosr.coding.repair import Repair
from srosr.coding.solvers import choose_solver
from srosr.coding.solvers.forward_path import ForwardPath
from srosr.coding.solvers.least_squares import RidgeSolver
from srosr.coding.solvers.omp import OnDemandPursuit, Pursuit
from srosr.coding.solvers.on_demand import OnDemandPath
from srosr.coding.solvers.reverse_path import FactoredPath, ReversePath
from srosr.coding.solvers.screened_path import ScreenedPath
from srosr.coding.solvers.solver import Solution, Solver
from srosr.coding.sparse_rows import to_sparse_rows


def make_batch(problem, n_atoms=60, n_features=80, n_samples=100):
    atoms = np.random.default_rng(0).standard_normal((n_atoms, n_features))
    return Batch(Dictionary(atoms, normalize=True), problem, 1e-6, None, n_samples, ThreadPool(0))


@pytest.mark.parametrize(
    ("problem", "size", "expected"),
    [
        (Lasso(0.1), {}, ForwardPath),
        (Ridge(0.1), {}, RidgeSolver),
        (OMP(3), {}, Pursuit),
        (BPDN(0.1), {}, ReversePath),
        (BPDN(0.1), {"n_samples": 2}, FactoredPath),
        (BPDN(0.1), {"n_atoms": 100}, ForwardPath),  # more atoms than features depend on each other
        (Lasso(0.1), {"n_samples": 1}, ForwardPath),
    ],
)
def test_the_cheapest_solver_that_supports_the_batch_is_chosen(problem, size, expected):
    assert choose_solver(make_batch(problem, **size)) is expected


@pytest.mark.parametrize(
    ("problem", "expected"), [(Lasso(0.1), ScreenedPath), (BPDN(0.1), OnDemandPath), (OMP(3), OnDemandPursuit)]
)
def test_without_a_gram_matrix_columns_are_computed_on_demand(problem, expected, monkeypatch):
    monkeypatch.setattr(batch_module, "_GRAM_BYTES", 0)
    assert choose_solver(make_batch(problem)) is expected


@pytest.mark.parametrize("epsilon", [0.9, 0.5, 0.001])
def test_what_a_dictionary_has_coded_before_changes_no_code(epsilon):
    rng = np.random.default_rng(3)
    dictionary = Dictionary(rng.standard_normal((72, 90)), normalize=True)
    samples = rng.standard_normal((200, 90))

    def encode(rows):
        return sparse_encode(samples[rows], dictionary, BPDN(epsilon))

    few, many = encode(slice(3)), encode(slice(None))  # the one by a factor, the other by an inverse; both are kept
    for first, rows in ((few, slice(3)), (many, slice(None))):
        again = encode(rows)
        check_same(again.toarray(), first.toarray())
        np.testing.assert_allclose(again.gap, first.gap, rtol=0, atol=1e-9)


@pytest.mark.parametrize("epsilon", [0.9, 0.5, 0.35, 0.001])
def test_few_samples_get_the_codes_that_many_get(epsilon):
    """Few are coded with a factor of the Gram matrix, many with its inverse: in reach, close to it and out of it."""
    rng = np.random.default_rng(1)
    atoms, samples = rng.standard_normal((72, 90)), rng.standard_normal((80, 90))
    samples[::2] = samples[::2] * 0.3 + rng.standard_normal((40, 72)) @ atoms
    many = sparse_encode(samples, Dictionary(atoms, normalize=True), BPDN(epsilon))
    few = [sparse_encode(samples[i : i + 4], Dictionary(atoms, normalize=True), BPDN(epsilon)) for i in range(0, 80, 4)]
    distances = [np.linalg.norm(q - atoms.T @ np.linalg.lstsq(atoms.T, q, rcond=None)[0]) for q in samples]
    assert np.abs(np.array(distances) - epsilon).min() > 1e-6
    np.testing.assert_array_equal(np.concatenate([part.status for part in few]), many.status)
    np.testing.assert_allclose(np.vstack([part.toarray() for part in few]), many.toarray(), atol=1e-9)


@pytest.mark.parametrize(("bound", "trusted"), [(1.0, True), (np.inf, False)])
def test_a_bound_that_says_nothing_does_not_make_a_doubtful_code_trusted(bound, trusted):
    """The code claims that epsilon is out of reach of a sample that is one of the atoms."""
    batch = make_batch(BPDN(0.1), n_samples=1)
    batch.bound_inverse = lambda: bound
    one, zero = np.ones(1), np.zeros(1)
    claim = Certificate(one, one, one, zero, zero.copy(), np.array([True]))
    Repair(batch).review(claim, batch.dictionary.gram[:1], one)
    assert claim.holds(1e-6).tolist() == [trusted]


def test_a_new_solver_is_one_class_and_one_line(monkeypatch):
    class Direct(Solver):
        """Ridge codes by a general solver, once for every chunk."""

        @classmethod
        def supports(cls, batch):
            return isinstance(batch.problem, Ridge) and batch.gram is not None

        @classmethod
        def cost(cls, batch):
            return 0.0

        def solve(self, cross, squared_norms):
            used.append(len(cross))
            system = self.batch.gram + self.batch.problem.alpha * np.eye(self.batch.n_atoms)
            codes = to_sparse_rows(np.linalg.solve(system, cross.T).T)
            return Solution(codes, np.ones(len(cross), np.int64), np.zeros(len(cross), dtype=bool))

    used: list[int] = []
    rng = np.random.default_rng(2)
    atoms, samples = rng.standard_normal((20, 30)), rng.standard_normal((5, 30))
    expected = sparse_encode(samples, atoms, Ridge(0.2)).toarray()
    monkeypatch.setattr(solvers, "SOLVERS", (*solvers.SOLVERS, Direct))
    np.testing.assert_allclose(sparse_encode(samples, atoms, Ridge(0.2)).toarray(), expected, atol=1e-12)
    assert used == [5]
    assert sparse_encode(samples, atoms, Lasso(0.1)).status.tolist() == ["ok"] * 5  # left to the others


def test_a_problem_that_no_solver_supports_is_an_error(monkeypatch):
    monkeypatch.setattr(solvers, "SOLVERS", (ForwardPath,))
    with pytest.raises(TypeError, match="no solver supports Ridge"):
        choose_solver(make_batch(Ridge(0.1)))

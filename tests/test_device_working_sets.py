"""Coding on a device over more atoms than a Gram matrix has room for, by working sets."""

from __future__ import annotations

import numpy as np
import pytest
from device_cases import (
    CPU,
    EVERY,
    assert_residuals_are_those_of_features,
    assert_same,
    draw,
    encode,
    one_thread,  # noqa: F401
)
from families import QUERY_KINDS, Case
from reference import unit_rows

from srosr import BPDN, OMP, Dictionary, Lasso, sparse_encode
from srosr.coding.device import DeviceCoder
from srosr.coding.device import device_coder as device_coder_module
from srosr.coding.device import many_atoms as many_atoms_module
from srosr.dictionary import device_dictionary as device_dictionary_module
from srosr.dictionary.device_dictionary import put_on_device


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
    epsilon = 0.3 * np.median(np.linalg.norm(case.queries, axis=1))
    for problem in (Lasso(0.2 * largest), Lasso(0.01 * largest), BPDN(epsilon)):
        found = encode(case.queries, case.atoms, problem)
        assert_same(found, sparse_encode(case.queries, case.atoms, problem))


@pytest.mark.usefixtures("few_atoms_are_many")
def test_working_sets_for_an_epsilon_of_zero_give_the_codes_of_the_cpu():
    case = Case("binary", 20, 6, 5, len(QUERY_KINDS))
    assert_same(encode(case.queries, case.atoms, BPDN(0.0)), sparse_encode(case.queries, case.atoms, BPDN(0.0)))


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


def test_codes_that_the_cpu_has_chosen_are_not_counted_for_the_device(monkeypatch):
    """Two optimal codes, of which the device returns one that is not the shortest."""
    atoms = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    monkeypatch.setattr(device_coder_module, "MOST_ATOMS", 2)  # working sets leave copies to the CPU
    found = encode(np.array([[2.0, 0.0], [0.0, 2.0]]), atoms, Lasso(0.1))
    np.testing.assert_allclose(found.toarray(), [[0.95, 0.95, 0.0], [0.0, 0.0, 1.9]], atol=1e-9)
    assert found.on_device.tolist() == [False, True]

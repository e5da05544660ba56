"""The bookkeeping of a homotopy path, whose errors the fallback solver would otherwise make up for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scale import examples

from srosr.coding.solvers.active_set import gain, lose
from srosr.coding.solvers.block_inverse import combine_half
from srosr.coding.solvers.homotopy import follow_paths
from srosr.coding.solvers.workspace import REACHED


@njit
def multiply_half(room, x, n, out):
    combine_half(room, x, n, out)


@njit
def add_atom(own, k, g, squared_length):
    gain(own, k, g, squared_length)


@njit
def drop_atom(own, k, place):
    lose(own, k, place)


def half_of(matrix):
    """Return the lower half; nothing may be read from the other."""
    return np.where(np.tri(len(matrix), dtype=bool), matrix, np.nan)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 9, 63, 64, 200])
def test_a_product_reads_the_lower_half_alone(n):
    rng = np.random.default_rng(n)
    matrix = rng.normal(size=(n, n))
    matrix = matrix + matrix.T
    room, out, x = np.full((n + 3, n + 5), np.nan), np.full(n + 2, 7.0), rng.normal(size=n + 1)
    room[:n, :n] = half_of(matrix)
    multiply_half(room, x, n, out)
    np.testing.assert_allclose(out[:n], matrix @ x[:n], atol=1e-12)
    assert (out[n:] == 7.0).all()


@given(seed=st.integers(0, 10**6), moves=st.lists(st.booleans(), max_size=40))
@settings(max_examples=examples(60), deadline=None)
def test_the_block_of_active_atoms_follows_them(seed, moves):
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(50, 30))
    gram, active, own = atoms @ atoms.T, [], np.full((50, 50), np.nan)
    for enters in moves:
        if enters or not active:
            new = int(rng.choice(np.setdiff1d(np.arange(50), active)))
            add_atom(own, len(active), gram[new, active], gram[new, new])
            active.append(new)
        else:
            place = int(rng.integers(len(active)))
            drop_atom(own, len(active), place)
            active[place] = active[-1]
            active.pop()
        k = len(active)
        np.testing.assert_array_equal(np.tril(own[:k, :k]), np.tril(gram[np.ix_(active, active)]))


@pytest.mark.parametrize(("is_bpdn", "goal"), [(True, 0.05), (False, 1e-3)])
def test_paths_of_many_active_atoms_arrive_by_themselves(is_bpdn, goal):
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(400, 250))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    samples = rng.normal(size=(6, 250))
    samples /= np.linalg.norm(samples, axis=1, keepdims=True)
    codes, _, steps, endings = follow_paths(
        atoms @ atoms.T,
        samples @ atoms.T,
        np.ones(6),
        is_bpdn=is_bpdn,
        goal=goal,
        max_steps=10**5,
        stop=np.zeros(1, np.uint8),
    )
    indptr, indices, data, _ = codes
    assert (endings == REACHED).all()
    counts = np.diff(indptr)
    assert counts.min() > 192 and (steps > counts + 10).all(), "no atom has left: this shows too little"
    for i, sample in enumerate(samples):
        part = slice(indptr[i], indptr[i + 1])
        residual = sample - data[part] @ atoms[indices[part]]
        seen = atoms @ residual
        level = np.abs(seen).max()
        np.testing.assert_allclose(seen[indices[part]], level * np.sign(data[part]), atol=1e-9)
        assert (np.linalg.norm(residual) if is_bpdn else level) == pytest.approx(goal, rel=1e-6)

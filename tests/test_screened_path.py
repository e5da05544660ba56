"""Candidates first: codes over many atoms from few of them, certified over all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import lasso_objective
from sklearn.datasets import load_digits

from srosr import Dictionary, Lasso, sparse_encode
from srosr.coding import batch as batch_module
from srosr.coding.solvers import screened_path as screened_module

DIGITS = load_digits().data


@pytest.fixture
def on_demand(monkeypatch):
    """No Gram matrix fits, and samples start with very few candidates, so that many rounds are needed."""
    monkeypatch.setattr(batch_module, "_GRAM_BYTES", 0)
    monkeypatch.setattr(screened_module, "_FIRST", 5)
    monkeypatch.setattr(screened_module, "_MORE", 4)
    monkeypatch.setattr(screened_module, "_MORE_PER_ACTIVE", 0.5)
    monkeypatch.setattr(screened_module, "_TILE", 100)


@pytest.mark.parametrize("alpha", [0.3, 0.02, 0.001])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_codes_are_those_with_a_gram_matrix(alpha, dtype, request):
    atoms, samples = DIGITS[:700].astype(dtype), DIGITS[900:960]
    stored = Dictionary(atoms, normalize=True, dtype=dtype)
    expected = sparse_encode(samples, stored, Lasso(alpha))
    request.getfixturevalue("on_demand")
    dictionary = Dictionary(atoms, normalize=True, dtype=dtype)
    found = sparse_encode(samples, dictionary, Lasso(alpha), n_jobs=2)
    assert not dictionary.has_gram and (found.status == "ok").all() and found.gap.max() < 1e-6
    np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-9)
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-6)


def test_single_precision_atoms_are_stored_as_such_and_compared_in_double():
    rng = np.random.default_rng(0)
    atoms, samples = rng.normal(size=(30, 12)).astype(np.float32), rng.normal(size=(4, 12))
    dictionary = Dictionary(atoms, dtype="float32")
    assert dictionary.rows.dtype == np.float32
    wide = atoms.astype(np.float64)
    np.testing.assert_allclose(dictionary.gram, wide @ wide.T, rtol=1e-15, atol=1e-14)
    np.testing.assert_allclose(dictionary.query(samples).cross, samples @ wide.T, rtol=1e-15, atol=1e-14)
    np.testing.assert_allclose(dictionary.block(slice(0, 3), np.array([5, 7])), wide[:3] @ wide[[5, 7]].T, atol=1e-14)
    normalized = Dictionary(atoms, normalize=True, dtype="float32")
    np.testing.assert_allclose(normalized.squared_norms, 1.0, atol=1e-6)
    with pytest.raises(ValueError, match="dtype must be"):
        Dictionary(atoms, dtype="float16")


@given(seed=st.integers(0, 10_000), alpha=st.sampled_from([0.5, 0.1, 0.01, 1e-5]), copies=st.booleans())
def test_no_atom_is_overlooked(seed, alpha, copies):
    """Whatever the atoms, dependent ones among them, every code is certified over all of them."""
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(120, 10)) @ rng.normal(size=(10, 15))
    if copies:
        atoms = np.vstack([atoms, atoms[:40], -atoms[40:60]])
    samples = rng.normal(size=(5, 15))
    samples /= np.linalg.norm(samples, axis=1, keepdims=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_module, "_GRAM_BYTES", 0)
        patch.setattr(screened_module, "_FIRST", 4)
        patch.setattr(screened_module, "_MORE", 3)
        dictionary = Dictionary(atoms, normalize=True)
        found = sparse_encode(samples, dictionary, Lasso(alpha))
    assert (found.status == "ok").all()
    rows = dictionary.linear_atoms
    for code, sample, objective in zip(found.toarray(), samples, found.objective, strict=True):
        assert objective == pytest.approx(lasso_objective(rows, sample, alpha, code), rel=1e-9)
        correlations = rows @ (sample - code @ rows)
        assert np.abs(correlations).max() <= alpha * (1 + 1e-6) + 1e-9


def test_a_level_too_low_for_single_precision_is_screened_in_double(on_demand, monkeypatch):
    """At a tiny level single precision could not tell atoms apart; both ways give the same codes."""
    atoms, samples = DIGITS[:300], DIGITS[900:910]
    seen = []
    whole = screened_module._gather_above

    def gather(cross, products, least, first):
        seen.append(products.dtype)
        return whole(cross, products, least, first)

    monkeypatch.setattr(screened_module, "_gather_above", gather)
    for alpha, expected in ((0.1, np.float32), (1e-6, np.float64)):
        seen.clear()
        assert (sparse_encode(samples, atoms, Lasso(alpha), normalize=True).status == "ok").all()
        assert set(seen) == {np.dtype(expected)}


def test_samples_without_a_code_and_dictionaries_smaller_than_the_first_candidates(on_demand):
    atoms = DIGITS[:3]
    codes = sparse_encode(np.vstack([DIGITS[5], np.zeros(64)]), atoms, Lasso(0.02), normalize=True)
    assert (codes.status == "ok").all() and codes.objective[1] == 0.0

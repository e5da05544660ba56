"""Dictionaries on a device: the similarities of NumPy, sent once."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from device_cases import (
    CPU,
    compare_linearly,
    draw,
    encode,
    name_kernel,
    one_thread,  # noqa: F401
)

from srosr import BPDN, Dictionary
from srosr.dictionary import device_dictionary as device_dictionary_module
from srosr.dictionary.device_dictionary import put_on_device

torch = pytest.importorskip("torch")

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


@pytest.mark.parametrize("kernel", KERNELS, ids=name_kernel)
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


@pytest.mark.parametrize("kernel", KERNELS, ids=name_kernel)
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


def test_a_part_of_a_dictionary_without_labels_is_coded_like_the_dictionary_of_that_part():
    atoms, _ = draw(3)
    part = put_on_device(Dictionary(atoms), CPU).subset(np.array([0, 2, 5]))
    np.testing.assert_allclose(part.gram.numpy(), Dictionary(atoms[[0, 2, 5]]).gram, atol=1e-14)

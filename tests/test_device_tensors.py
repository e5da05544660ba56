"""Coding on a device takes arrays and tensors of any kind, and rejects bad ones as the CPU does."""

from __future__ import annotations

import numpy as np
import pytest
from device_cases import (
    CPU,
    EVERY,
    compare_linearly,
    describe,
    draw,
    encode,
    one_thread,  # noqa: F401
)
from same import check_same

from srosr import Dictionary, Lasso, Queries, sparse_encode

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_single_precision_input_is_solved_in_double(problem):
    """The same numbers in 4 or 8 bytes, as arrays or tensors, rows or columns first: the same problem."""
    atoms, X = draw(3, n_atoms=24, n_features=10, n_samples=8)
    atoms, X = atoms.astype(np.float32), X.astype(np.float32)
    right = encode(X.astype(np.float64), atoms.astype(np.float64), problem).toarray()
    shuffled = np.asfortranarray(X.astype(np.float64))
    read_only = X.copy()
    read_only.flags.writeable = False
    for samples in (X, shuffled, read_only, np.repeat(X, 2, axis=0)[::2], X.tolist(), torch.as_tensor(X)):
        found = encode(samples, atoms, problem).toarray()
        np.testing.assert_allclose(found, right, atol=1e-12)
    found = encode(X, Dictionary(atoms, dtype="float32"), problem).toarray()
    np.testing.assert_allclose(found, right, atol=1e-12)


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_tensors_in_are_tensors_out_with_the_same_numbers(problem):
    atoms, X = draw(7)
    right = encode(X, atoms, problem)
    found = encode(torch.as_tensor(X), atoms, problem)
    assert found.codes.layout == torch.sparse_csr and found.codes.dtype == torch.float64
    assert tuple(found.codes.shape) == right.codes.shape
    np.testing.assert_array_equal(found.codes.crow_indices().numpy(), right.codes.indptr)
    np.testing.assert_array_equal(found.codes.col_indices().numpy(), right.codes.indices)
    check_same(found.codes.values().numpy(), right.codes.data)
    check_same(found.toarray().numpy(), right.toarray())
    for name in ("residual_norm", "objective", "n_iter", "on_device"):
        assert isinstance(getattr(found, name), torch.Tensor), name
        check_same(getattr(found, name).numpy(), getattr(right, name))
    for name in ("gap", "violation"):  # which are zero but for rounding
        assert isinstance(getattr(found, name), torch.Tensor), name
        np.testing.assert_allclose(getattr(found, name).numpy(), getattr(right, name), rtol=0, atol=1e-9, err_msg=name)
    assert isinstance(found.status, np.ndarray) and found.status.tolist() == right.status.tolist()
    assert describe(found) == describe(right) and len(found) == len(X)
    assert isinstance(right.codes.data, np.ndarray) and right.codes.format == "csr"


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_a_tensor_on_the_cpu_without_a_device_is_coded_like_an_array(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    atoms, X = draw(7)
    found = sparse_encode(torch.as_tensor(X), atoms, Lasso(0.05), device=device)
    assert found.on_device is None and isinstance(found.objective, np.ndarray)
    check_same(found.toarray(), sparse_encode(X, atoms, Lasso(0.05)).toarray())


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_dense_output_holds_the_numbers_of_sparse_output(problem):
    atoms, X = draw(8)
    right = encode(X, atoms, problem).toarray()
    found = encode(X, atoms, problem, sparse_output=False).codes
    assert isinstance(found, np.ndarray)
    check_same(found, right)
    found = encode(torch.as_tensor(X), atoms, problem, sparse_output=False).codes
    assert isinstance(found, torch.Tensor) and found.layout == torch.strided
    check_same(found.numpy(), right)


def test_atoms_may_be_a_tensor_too():
    atoms, X = draw(9)
    found = encode(torch.as_tensor(X), torch.as_tensor(atoms), Lasso(0.05)).toarray().numpy()
    check_same(found, encode(X, atoms, Lasso(0.05)).toarray())


@pytest.mark.parametrize("kernel", ["linear", "rbf", compare_linearly], ids=["linear", "rbf", "function"])
def test_tensors_of_other_kinds_are_coded_as_their_numbers(kernel):
    """In half precision, with a gradient, or columns of a larger tensor; the codes have no gradient."""
    atoms, X = draw(10)
    half = torch.as_tensor(X).to(torch.bfloat16)
    right = sparse_encode(half.to(torch.float64).numpy(), atoms, Lasso(0.05), kernel=kernel).toarray()
    wide = torch.zeros(16, 24, dtype=torch.float64)
    wide[:, ::2] = half.to(torch.float64).T
    for tensor in (half, half.to(torch.float64).requires_grad_(), wide[:, ::2].T):
        found = encode(tensor, atoms, Lasso(0.05), kernel=kernel)
        assert not found.objective.requires_grad
        np.testing.assert_allclose(found.toarray().numpy(), right, atol=1e-7)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (torch.full((2, 4), torch.nan), r"\bX contains NaN or infinity"),
        (torch.full((2, 4), torch.inf), r"\bX contains NaN or infinity"),
        (torch.ones(2, 3), r"\bX has 3 features, the dictionary's atoms have 4"),
        (torch.ones(2, 4, dtype=torch.int64), r"\bX must be a .*tensor of floating-point .* torch\.int64"),
        (torch.ones(2, 4) > 0, r"\bX must be a .*tensor of floating-point .* torch\.bool"),
        (torch.ones(4), r"\bX must be a .*tensor .*one sample a row, got shape \(4,\)"),
        (torch.ones(2, 4, 1), r"\bX must be a .*tensor .*one sample a row, got shape \(2, 4, 1\)"),
        (torch.empty(0, 4), r"\bX must be a .*tensor .*one sample a row, got shape \(0, 4\)"),
        (torch.ones(2, 4).to_sparse(), r"\bX must be a dense tensor"),
    ],
    ids=["nan", "inf", "too few features", "integers", "flags", "1-d", "3-d", "empty", "sparse"],
)
@pytest.mark.parametrize("kernel", ["linear", compare_linearly], ids=["linear", "function"])
def test_bad_tensors_raise_an_error_that_says_what_is_wrong(X, message, kernel):
    atoms = np.random.default_rng(0).standard_normal((6, 4))
    with pytest.raises(ValueError, match=message) as caught:
        encode(X, atoms, Lasso(0.1), kernel=kernel)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "X",
    [
        np.full((2, 4), np.nan),
        np.array([[0.0, 1.0, 2.0, 3.0], [0.0, np.inf, 2.0, 3.0]]),
        np.full((2, 4), np.nan, np.float32),
        np.ones((2, 3)),
        np.ones(4),
        np.ones((2, 4, 1)),
        np.empty((0, 4)),
        np.array([["a", "b", "c", "d"]]),
        np.full((1, 4), 3e160),
        None,
    ],
    ids=["nan", "inf", "nan32", "too few features", "1-d", "3-d", "empty", "text", "too long to square", "None"],
)
@pytest.mark.parametrize("kernel", ["linear", compare_linearly], ids=["linear", "function"])
def test_bad_arrays_raise_the_error_of_the_cpu(X, kernel):
    atoms = np.random.default_rng(0).standard_normal((6, 4))
    messages = []
    for device in ("cpu", CPU):
        with (
            np.errstate(over="ignore"),
            pytest.raises(ValueError, match=r"\bX\b|kernel returned NaN or infinity") as caught,
        ):
            sparse_encode(X, atoms, Lasso(0.1), kernel=kernel, device=device)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_kernel_for_histograms_rejects_negative_samples_in_the_words_of_the_cpu():
    atoms = np.ones((3, 2))
    for kernel in ("chi2", "histogram_intersection"):
        messages = []
        for X, device in ((-atoms, "cpu"), (-atoms, CPU), (torch.as_tensor(-atoms), CPU)):
            with pytest.raises(ValueError, match=r"\bX contains negative values") as caught:
                sparse_encode(X, atoms, Lasso(0.1), kernel=kernel, device=device)
            messages.append(str(caught.value))
        assert len(set(messages)) == 1


def test_similarities_that_do_not_belong_to_the_dictionary_are_rejected():
    with pytest.raises(ValueError, match=r"\bX has similarities to 5 atoms"):
        encode(Queries(np.ones((2, 5)), np.ones(2)), np.eye(6), Lasso(0.1))
    with pytest.raises(ValueError, match=r"\bX must be a srosr\.Queries"):
        encode(np.ones((2, 4)), np.eye(4), Lasso(0.1), kernel="precomputed")
    with pytest.raises(ValueError, match=r"\bX must be a srosr\.Queries .*not a tensor"):
        encode(torch.ones(2, 4), np.eye(4), Lasso(0.1), kernel="precomputed")

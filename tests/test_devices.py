"""Names of devices, devices that are not there, and devices with too little memory."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref

import numpy as np
import pytest
from device_cases import (
    CPU,
    EVERY,
    draw,
    encode,
    one_thread,  # noqa: F401
)
from same import check_same

from srosr import Dictionary, Lasso, SROSRClassifier, sparse_encode
from srosr._support import devices
from srosr.coding.device import DeviceCoder, map_chunks
from srosr.coding.device import device_coder as device_coder_module
from srosr.dictionary.device_dictionary import put_on_device
from srosr.evidence import device_evidence as device_evidence_module
from srosr.exceptions import DeviceError, DeviceWarning

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("device", ["gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "", "cpu:0", None, 0, ["cpu"]])
def test_what_is_no_device_is_an_error_that_lists_the_devices(device):
    with pytest.raises(ValueError, match=r'^device must be "cpu", "cuda" .* or "auto", got ') as caught:
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=device)
    assert repr(device) in str(caught.value)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7"])
def test_a_device_that_is_not_there_says_what_to_install(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    install = 'was built without CUDA: uninstall it and install PyTorch with CUDA, pip install "srosr[gpu]"'
    look = "sees no NVIDIA GPU: check that nvidia-smi shows one and that its driver is new enough"
    for version, reason in ((None, install), ("12.4", look)):
        monkeypatch.setattr(torch.version, "cuda", version)
        with pytest.raises(DeviceError) as caught:
            sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=device)
        assert str(caught.value) == (
            f'device={device!r}: PyTorch {torch.__version__} {reason}, or leave device at "cpu".'
        )


def test_a_torch_device_that_is_not_there_is_an_error_in_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"^device='cuda:1': PyTorch .*install.*$"):
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=torch.device("cuda:1"))
    with pytest.raises(ValueError, match=r"^device must be"):
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=torch.device("meta"))


def test_a_card_beyond_the_last_is_an_error_that_says_how_many_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert devices.find_device("cuda:1") == torch.device("cuda:1")
    assert devices.find_device("cuda") == devices.find_device("auto") == torch.device("cuda:0")
    with pytest.raises(DeviceError, match=r"^device='cuda:7': PyTorch sees 2 card\(s\), counted from 0\.$"):
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device="cuda:7")


def test_auto_is_the_cpu_where_there_is_no_card(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    atoms, X = draw(17)
    found, right = (sparse_encode(X, atoms, Lasso(0.1), device=name) for name in ("auto", "cpu"))
    assert found.on_device is None and "on the device" not in repr(found)
    check_same(found.toarray(), right.toarray())


def test_without_torch_a_card_says_what_to_install_and_auto_is_the_cpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError) as caught:
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device="cuda")
    assert str(caught.value) == (
        "device='cuda' needs PyTorch, which is not installed: install PyTorch with CUDA, pip install \"srosr[gpu]\"."
    )
    found = sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device="auto")
    np.testing.assert_allclose(found.toarray(), [[0.9, 0.9]])


def test_a_chunk_that_does_not_fit_is_tried_in_halves_with_one_warning():
    tried, finished = [], []

    def work(rows):
        tried.append(rows.stop - rows.start)
        if rows.stop - rows.start > 6:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return list(range(rows.start, rows.stop))

    with pytest.warns(DeviceWarning, match=r"^cpu: out of memory; going on with fewer samples at a time\.$") as caught:
        out = map_chunks(work, 100, 32, CPU, finished.append)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert [row for part in out for row in part] == list(range(100))
    assert [row for rows in finished for row in range(rows.start, rows.stop)] == list(range(100))
    assert tried[:4] == [32, 16, 8, 4] and max(tried[3:]) == 4


@pytest.mark.parametrize("n_rows", [1, 5, 9])
def test_a_single_sample_that_does_not_fit_is_an_error_that_says_what_to_do(n_rows):
    """The first rows fit, the last one does not."""

    def work(rows):
        if rows.stop == n_rows:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with warnings.catch_warnings(), pytest.raises(DeviceError, match=r"single sample .*use device=\"cpu\"") as caught:
        warnings.simplefilter("ignore", DeviceWarning)
        map_chunks(work, n_rows, 4, CPU)
    assert str(caught.value).startswith("cpu: too little memory") and "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)


@pytest.mark.parametrize("words", ["CUDA error: the launch timed out", "PassManager::run failed"])
def test_a_device_that_fails_is_an_error_of_one_sentence(words):
    """Or a kernel that Triton does not compile."""

    def work(rows):
        raise RuntimeError(f"{words}\nCompile with `TORCH_USE_CUDA_DSA`\nmore lines")

    with pytest.raises(DeviceError, match=f"^cpu failed: {words}$"):
        map_chunks(work, 3, 2, CPU)


@pytest.mark.parametrize("error", [RuntimeError("no convergence"), ValueError("CUDA"), DeviceError("CUDA: as it is")])
def test_other_errors_pass_as_they_are(error):
    def work(rows):
        raise error

    with pytest.raises(type(error)) as caught:
        map_chunks(work, 3, 2, CPU)
    assert caught.value is error


def test_chunks_of_no_rows_are_none():
    assert map_chunks(lambda rows: rows, 0, 5, CPU) == []
    assert map_chunks(lambda rows: rows, 3, 0, CPU) == [slice(0, 1), slice(1, 2), slice(2, 3)]


@pytest.mark.parametrize("problem", EVERY, ids=repr)
def test_the_size_of_chunks_changes_nothing(problem, monkeypatch):
    atoms, X = draw(15, n_samples=20)
    right = encode(X, atoms, problem)
    monkeypatch.setattr(DeviceCoder, "count_rows", lambda self: 7)
    found, as_tensors = encode(X, atoms, problem), encode(torch.as_tensor(X), atoms, problem)
    np.testing.assert_allclose(found.toarray(), right.toarray(), atol=1e-12)
    np.testing.assert_allclose(as_tensors.toarray().numpy(), right.toarray(), atol=1e-12)
    assert as_tensors.codes.layout == torch.sparse_csr and tuple(as_tensors.codes.shape) == (20, 40)
    assert as_tensors.codes.values().numel() == found.codes.nnz
    torch.sparse_csr_tensor(
        as_tensors.codes.crow_indices(), as_tensors.codes.col_indices(), as_tensors.codes.values(), (20, 40),
        check_invariants=True,
    )  # fmt: skip
    for name in ("residual_norm", "objective"):
        np.testing.assert_allclose(getattr(found, name), getattr(right, name), atol=1e-12)
    np.testing.assert_array_equal(found.status, right.status)
    # Rounding decides whether one of two copies joins, and whether the CPU's code is the device's.
    np.testing.assert_allclose(found.n_iter, right.n_iter, atol=2)
    assert (found.on_device == right.on_device).mean() >= 0.9


def test_codes_survive_a_device_that_runs_out_of_memory(monkeypatch):
    atoms, X = draw(16, n_samples=30)
    right = encode(X, atoms, Lasso(0.05))
    whole = DeviceCoder.encode

    def encode_few(self, queries):
        if len(queries) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, queries)

    monkeypatch.setattr(DeviceCoder, "encode", encode_few)
    with pytest.warns(DeviceWarning, match=r"out of memory") as caught:
        found = sparse_encode(X, atoms, Lasso(0.05), device=CPU)
    assert len(caught) == 1 and caught[0].filename == __file__
    np.testing.assert_allclose(found.toarray(), right.toarray(), atol=1e-12)


def test_a_chunk_takes_fewer_samples_over_more_atoms(monkeypatch):
    monkeypatch.setattr(device_coder_module, "_MOST_ROWS", 10**9)
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((200, 10))
    counts = [DeviceCoder(put_on_device(Dictionary(atoms[:n]), CPU), Lasso(0.1)).count_rows() for n in (20, 200)]
    assert counts[0] > 5 * counts[1] > 0
    monkeypatch.setattr(device_coder_module, "count_memory", lambda device: 0)
    assert DeviceCoder(put_on_device(Dictionary(atoms), CPU), Lasso(0.1)).count_rows() == 1


def test_no_memory_for_the_dictionary_is_an_error_that_says_so(monkeypatch):
    def fail(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 PiB.")

    monkeypatch.setattr("srosr.coding.device.device_batch.put_on_device", fail)
    with pytest.raises(
        DeviceError, match=r"^cpu: too little memory for a dictionary of 2 atoms; use device=\"cpu\"\.$"
    ):
        sparse_encode(np.ones((1, 2)), np.eye(2), Lasso(0.1), device=CPU)


def test_codes_of_many_chunks_are_not_held_as_dense_tensors(monkeypatch):
    """Each chunk is collected before the next is coded: dense codes of all samples may not fit into the memory."""
    alive = []
    encode_chunk = device_coder_module.DeviceCoder.encode

    def watch(self, queries):
        gc.collect()
        assert sum(reference() is not None for reference in alive) == 0
        out = encode_chunk(self, queries)
        alive.append(weakref.ref(out))
        return out

    atoms, X = draw(5)
    right = sparse_encode(X, atoms, Lasso(0.1))
    monkeypatch.setattr(device_coder_module.DeviceCoder, "encode", watch)
    monkeypatch.setattr(device_coder_module.DeviceCoder, "count_rows", lambda self: 3)
    found = sparse_encode(X, atoms, Lasso(0.1), device=CPU)
    assert len(alive) == -(-len(X) // 3)
    np.testing.assert_allclose(found.toarray(), right.toarray(), atol=1e-8)


def test_a_fit_for_which_there_is_too_little_memory_says_so_in_a_sentence(monkeypatch):
    def fail(*_args, **_options):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")

    monkeypatch.setattr(device_evidence_module, "DeviceCoder", fail)
    rng = np.random.default_rng(0)
    X, y = rng.random((20, 5)), np.repeat([0, 1], 10)
    with pytest.raises(
        DeviceError, match=r"^cpu: too little memory for a dictionary of 20 atoms; use device=\"cpu\"\.$"
    ):
        SROSRClassifier(device=CPU, random_state=0).fit(X, y)

"""The Triton kernel: it solves problems in Triton's interpreter, and it compiles for cards."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Timer
from unittest.mock import MagicMock

import numpy as np
import pytest
import scale
from device_cases import (
    CPU,
    TOL,
    draw,
    one_thread,  # noqa: F401
)
from reference import unit_rows

from srosr import BPDN, Lasso, sparse_encode
from srosr.coding.device.block_active_set import FULL, SOLVED, UNREACHED
from srosr.coding.device.path_solver import PathSolver, Variant, spread_codes

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def run_kernel():
    """Return a function that runs the kernel in Triton's interpreter, in another process, and returns what it found."""
    pytest.importorskip("triton")
    script = Path(__file__).with_name("kernel_in_interpreter.py")
    with Popen([sys.executable, str(script)], stdin=PIPE, stdout=PIPE) as process:

        def run(atoms, X, problem, **options):
            job = {"atoms": atoms, "X": X, "problem": problem, "is_coarse": False, "fewest": 16} | options
            watch = Timer(600, process.kill)
            watch.start()
            try:
                pickle.dump(job, process.stdin)
                process.stdin.flush()
                found = pickle.load(process.stdout)
            finally:
                watch.cancel()
            assert isinstance(found, dict), found
            return found

        yield run


def solve_plainly(atoms, X, problem, sizes=None):
    """Return the slots of the plain path."""
    solver = PathSolver(problem.path_end, min(atoms.shape), CPU)
    solver.sizes = sizes or solver.sizes
    arrays = (torch.as_tensor(values) for values in (atoms @ atoms.T, X @ atoms.T, (X * X).sum(axis=1)))
    return solver.solve(*arrays)


def assert_solved(found, atoms, X, problem):
    """Codes of the kernel have the fit and the l1 norm of those of the CPU; copies may share in any way."""
    assert (found["status"] == SOLVED).all()
    right = sparse_encode(X, atoms, problem).toarray()
    np.testing.assert_allclose(found["codes"] @ atoms, right @ atoms, atol=1e-8)
    np.testing.assert_allclose(np.abs(found["codes"]).sum(axis=1), np.abs(right).sum(axis=1), atol=1e-8)
    used = found["atoms"] >= 0
    assert not found["values"][~used].any()
    for row in range(len(X)):
        slots = found["atoms"][row][used[row]]
        assert len(set(slots)) == len(slots)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("problem", "is_coarse"),
    [
        (Lasso(0.1), False),
        (BPDN(0.4), True),
        pytest.param(Lasso(0.1), True, marks=SLOW),
        pytest.param(BPDN(0.4), False, marks=SLOW),
    ],
)
def test_the_kernel_solves_samples_over_copies_and_dependent_atoms(run_kernel, problem, is_coarse):
    """In either precision, with zero columns behind those of the Gram matrix, a zero sample and one that is an atom."""
    atoms, X = draw(0, n_atoms=30, n_features=8, n_samples=6)
    found = run_kernel(atoms, X, problem, is_coarse=is_coarse, padding=34)
    assert_solved(found, atoms, X, problem)


@pytest.mark.parametrize("problem", [Lasso(0.1), pytest.param(BPDN(0.4), marks=SLOW)], ids=repr)
def test_the_kernel_in_double_precision_takes_the_steps_of_the_plain_path(run_kernel, problem):
    rng = np.random.default_rng(1)
    atoms, X = unit_rows(rng.standard_normal((30, 10))), unit_rows(rng.standard_normal((6, 10)))
    found, right = run_kernel(atoms, X, problem), solve_plainly(atoms, X, problem)
    np.testing.assert_allclose(found["codes"], spread_codes(right, 30).numpy(), atol=1e-10)
    np.testing.assert_array_equal(found["status"], right.status.numpy())
    for name in ("passes", "steps"):
        np.testing.assert_allclose(found[name], getattr(right, name).numpy(), atol=1, err_msg=name)
    np.testing.assert_allclose(found["levels"], right.levels.numpy(), rtol=1e-8)


def test_the_kernel_takes_every_other_sample_of_a_chunk(run_kernel):
    """As probing does: samples of different lengths, whose squares are not one after another in memory."""
    rng = np.random.default_rng(4)
    atoms = unit_rows(rng.standard_normal((30, 10)))
    X = unit_rows(rng.standard_normal((4, 10))) * np.array([[1.0], [3.0], [2.0], [5.0]])
    found = run_kernel(atoms, X, BPDN(0.5), every_other=True)
    assert_solved(found, atoms, X, BPDN(0.5))


def test_the_kernel_exchanges_dependent_atoms_and_loses_no_sample(run_kernel):
    """Attributes are zero or one: what null vectors have beyond the atoms that depend on each other is rounding."""
    rng = np.random.default_rng(27)
    atoms = np.unique(rng.integers(0, 2, (120, 10)).astype(float), axis=0)
    X = rng.integers(0, 2, (12, 10)).astype(float)
    atoms, X = (unit_rows(values[values.any(axis=1)]) for values in (atoms, X))
    assert_solved(run_kernel(atoms, X, Lasso(0.01)), atoms, X, Lasso(0.01))


def test_codes_by_an_inverse_in_single_precision_are_exact(run_kernel):
    """Else the atoms that tie are not seen, and of several optimal codes not the shortest would be chosen."""
    rng = np.random.default_rng(0)
    atoms, X = unit_rows(rng.standard_normal((60, 20))), unit_rows(rng.standard_normal((8, 20)))
    found, right = run_kernel(atoms, X, Lasso(0.05), is_coarse=True), solve_plainly(atoms, X, Lasso(0.05))
    np.testing.assert_allclose(found["codes"], spread_codes(right, 60).numpy(), atol=1e-11)


@pytest.mark.parametrize("is_coarse", [False, pytest.param(True, marks=SLOW)])
def test_the_kernel_goes_on_in_more_slots_and_takes_several_samples_a_program(run_kernel, is_coarse):
    """18 samples for 16 programs: two of them have two samples. Codes of up to 10 atoms start in 8 slots."""
    rng = np.random.default_rng(2)
    atoms, X = unit_rows(rng.standard_normal((20, 10))), unit_rows(rng.standard_normal((18, 10)))
    X[2:14], X[14:16] = 0.0, atoms[:2]  # few of the codes are long
    found = run_kernel(atoms, X, Lasso(0.05), is_coarse=is_coarse, fewest=8)
    assert found["n_programs"] == 16 and found["atoms"].shape == (18, 16)
    assert_solved(found, atoms, X, Lasso(0.05))
    assert (np.abs(found["codes"]) > 1e-9).sum(axis=1).tolist() == [9, 7, *[0] * 12, 1, 1, 10, 10]


@pytest.mark.parametrize("is_coarse", [False, pytest.param(True, marks=SLOW)])
def test_the_kernel_goes_through_atoms_and_tables_that_are_larger_than_a_block(run_kernel, is_coarse):
    """As on a card, where a program has 64 slots."""
    rng = np.random.default_rng(7)
    atoms, X = unit_rows(rng.standard_normal((140, 12))), unit_rows(rng.standard_normal((2, 12)))
    found = run_kernel(atoms, X, Lasso(0.02), is_coarse=is_coarse, fewest=64)
    assert_solved(found, atoms, X, Lasso(0.02))
    layout, counts = Variant(64, not is_coarse).lay_out(140), (found["codes"] != 0).sum(axis=1)
    assert layout.block < 140 and (counts > max(layout.rows, layout.gram_rows)).all()


@pytest.mark.parametrize("problem", [pytest.param(Lasso(0.1), marks=SLOW), BPDN(0.5)], ids=repr)
@pytest.mark.parametrize("is_coarse", [False, pytest.param(True, marks=SLOW)])
def test_the_kernel_takes_one_gram_matrix_a_sample(run_kernel, problem, is_coarse):
    atoms, X = draw(3, n_atoms=30, n_features=8, n_samples=5)
    found = run_kernel(atoms, X, problem, is_coarse=is_coarse, own_gram=True, padding=2)
    assert_solved(found, atoms, X, problem)


def test_samples_that_single_precision_loses_are_solved_in_double(run_kernel):
    atoms, X = draw(4, n_atoms=30, n_features=8, n_samples=5)
    found = run_kernel(atoms, X, Lasso(0.1), is_coarse=True, coarse_passes=1)
    assert_solved(found, atoms, X, Lasso(0.1))


def test_the_kernel_says_where_slots_or_atoms_do_not_suffice(run_kernel):
    """An epsilon out of reach ends unreached, longer codes than slots end full; as in the plain path."""
    rng = np.random.default_rng(5)
    atoms, X = unit_rows(rng.standard_normal((12, 20))), unit_rows(rng.standard_normal((3, 20)))
    X[0] = atoms[0]
    problem = BPDN(0.1)
    found, right = run_kernel(atoms, X, problem), solve_plainly(atoms, X, problem)
    assert found["status"].tolist() == right.status.tolist() == [SOLVED, UNREACHED, UNREACHED]
    found = run_kernel(atoms, X, problem, sizes=[4])
    right = solve_plainly(atoms, X, problem, sizes=[4])
    assert found["status"].tolist() == right.status.tolist() == [SOLVED, FULL, FULL]


@pytest.mark.parametrize("is_coarse", [False, True])
@pytest.mark.parametrize("problem", [pytest.param(Lasso(0.1), marks=SLOW), BPDN(0.4)], ids=repr)
def test_codes_of_the_whole_coder_by_the_kernel_are_those_of_the_cpu(run_kernel, problem, is_coarse):
    atoms, X = draw(6, n_atoms=36, n_features=10, n_samples=6)
    found = run_kernel(atoms, X, problem, is_coarse=is_coarse, whole=True)
    right = sparse_encode(X, atoms, problem)
    assert found["status"].tolist() == right.status.tolist() and found["gap"].max() <= TOL
    assert found["on_device"].all()
    np.testing.assert_allclose(found["codes"], right.toarray(), atol=1e-7)


POINTERS = {torch.float64: "*fp64", torch.float32: "*fp32", torch.int32: "*i32", torch.int64: "*i64"}


def compile_launched(solver, variant, n_atoms, capability, patch):
    """Return the kernel that a solver launches over so many atoms, compiled for cards of a compute capability."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from srosr.coding.device import triton_kernel

    kernel, launches = triton_kernel.follow_samples, MagicMock()
    patch.setattr(triton_kernel, "follow_samples", launches)
    patch.setattr(torch.version, "cuda", "12.4")  # limits registers as on a card
    gram = torch.empty(n_atoms, -(-n_atoms // 64) * 64, dtype=torch.float64)
    cross, squares = torch.empty(1, n_atoms, dtype=torch.float64), torch.empty(1, dtype=torch.float64)
    solver._launch(variant, gram, None if variant.fine else gram.float(), cross, squares)
    values, options = launches.__getitem__.return_value.call_args
    constants = {name: options.pop(name) for name in kernel.arg_names if name in options}
    types = [POINTERS[value.dtype] if isinstance(value, torch.Tensor) else "i32" for value in values]
    signature = dict(zip(kernel.arg_names, types, strict=False)) | dict.fromkeys(constants, "constexpr")
    aligned = [
        (place,)
        for place, (value, parameter) in enumerate(zip(values, kernel.params, strict=False))
        if not parameter.do_not_specialize and (isinstance(value, torch.Tensor) or value % 16 == 0)
    ]
    source = ASTSource(kernel, signature, constants, {place: [["tt.divisibility", 16]] for place in aligned})
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION is unset")
@pytest.mark.parametrize(
    ("problem", "n_slots", "fine", "n_atoms", "capability"),
    scale.slow_except(
        [(Lasso(0.1), 64, True, 500, 90), (BPDN(0.4), 64, True, 500, 90)],
        [
            (Lasso(0.1), 64, True, 500, 90),
            (BPDN(0.4), 64, True, 500, 90),
            (BPDN(0.4), 64, True, 500, 80),
            (Lasso(0.1), 128, True, 1800, 90),
            (BPDN(0.4), 256, True, 1800, 90),
            (Lasso(0.1), 64, False, 500, 90),
            (BPDN(0.4), 64, False, 1800, 89),
        ],
    ),
    ids=str,
)
def test_the_kernel_compiles_for_cards(problem, n_slots, fine, n_atoms, capability, tmp_path, monkeypatch):
    """What the interpreter runs may not compile, such as a branch that is found dead at compile time."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    solver = PathSolver(problem.path_end, n_slots, CPU)
    compiled = compile_launched(solver, Variant(n_slots, fine), n_atoms, capability, monkeypatch)
    assert compiled.asm["cubin"].startswith(b"\x7fELF")
    assert f".target sm_{capability}" in compiled.asm["ptx"] and compiled.metadata.shared < 48 * 1024

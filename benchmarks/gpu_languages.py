"""The inner work of the GPU coder in Triton and in numba-cuda: ``python -m benchmarks.gpu_languages``.

Both do the same for every sample, in programs that take one sample after another: the correlations of all atoms with
the residual of a code (rows of the Gram matrix from the cache), the largest of them, the product of the inverse with a
row, and the update of the inverse by it. Triton's is made of the functions of the coder's own kernel. There is a row
for each of several numbers of threads, of which the fastest counts; the first call compiles.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click
import numpy as np
from numba import float64, int64

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as missing:
    raise SystemExit(f'{missing.name} is not installed: pip install "srosr[gpu]", and numba-cuda.') from None

from benchmarks import report
from benchmarks.gpu_ceilings import time_on_card
from srosr.coding.device.triton_kernel import _apply, _correlate, _find_largest, _update

SLOTS = 64
ROUNDS = 8
THREADS = (32, 64, 128)
PROGRAMS = 16
"""Programs a multiprocessor."""

vars(np).setdefault("row_stack", np.vstack)  # numba.cuda asks for it, and recent NumPy has dropped it
cuda: Any = import_module("numba.cuda")


@triton.jit
def _work_in_triton(
    gram, cross, chosen, weights, residual, table, scratch, tops, n_samples, n, ld, used,
    BLOCK: tl.constexpr, K: tl.constexpr, ROUNDS: tl.constexpr, ROWS: tl.constexpr, GRAM_ROWS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    residual += program * n
    table += program * K * K
    scratch += program * K
    ks = tl.arange(0, K)
    for sample in range(tl.program_id(0), n_samples, tl.num_programs(0)):
        b = program * 0 + sample
        _clear(table, K, ROWS)
        atoms = tl.load(chosen + b * K + ks)
        for turn in range(ROUNDS):
            tl.debug_barrier()
            _correlate(gram, chosen + b * K, weights + b * K, cross + b * n, residual, n, ld, used, BLOCK, GRAM_ROWS,
                       tl.float64)  # fmt: skip
            tl.debug_barrier()
            top, j = _find_largest(residual, n, BLOCK)
            g = tl.load(gram + j.to(tl.int64) * ld + atoms, mask=ks < used, other=0.0)
            u = _apply(table, g, scratch, used, K, ROWS)
            _update(table, u, 0.01, -1, scratch, used, used, K, ROWS)
            tl.store(tops + b * ROUNDS + turn, top + tl.sum(u, 0))


@triton.jit
def _clear(table, K: tl.constexpr, ROWS: tl.constexpr):
    ks = tl.arange(0, K)
    for first in range(0, K, ROWS):
        rows = first + tl.arange(0, ROWS)
        tl.store(table + rows[:, None] * K + ks[None, :], tl.where(rows[:, None] == ks[None, :], 1.0, 0.0))


def _make_numba(n_threads: int) -> Any:
    """Return the kernel for blocks of so many threads."""
    slots = SLOTS

    @cuda.jit
    def work(gram, cross, chosen, weights, residuals, tables, tops, used):
        x = cuda.shared.array(slots, float64)
        g = cuda.shared.array(slots, float64)
        u = cuda.shared.array(slots, float64)
        atoms = cuda.shared.array(slots, int64)
        bests = cuda.shared.array(n_threads, float64)
        places = cuda.shared.array(n_threads, int64)
        me, program, n = cuda.threadIdx.x, cuda.blockIdx.x, cross.shape[1]
        residual, table = residuals[program], tables[program]
        for sample in range(program, cross.shape[0], cuda.gridDim.x):
            for i in range(me, slots, n_threads):
                x[i], atoms[i] = weights[sample, i], chosen[sample, i]
                for k in range(slots):
                    table[k, i] = 1.0 if i == k else 0.0
            cuda.syncthreads()
            for turn in range(ROUNDS):
                best, place = -1.0, 0
                for column in range(me, n, n_threads):
                    total = 0.0
                    for k in range(used):
                        total += gram[atoms[k], column] * x[k]
                    value = cross[sample, column] - total
                    residual[column] = value
                    if abs(value) > best:
                        best, place = abs(value), column
                bests[me], places[me] = best, place
                cuda.syncthreads()
                half = n_threads // 2
                while half > 0:
                    if me < half:
                        other = me + half
                        if bests[other] > bests[me] or (bests[other] == bests[me] and places[other] < places[me]):
                            bests[me], places[me] = bests[other], places[other]
                    cuda.syncthreads()
                    half //= 2
                for i in range(me, used, n_threads):
                    g[i] = gram[places[0], atoms[i]]
                cuda.syncthreads()
                for i in range(me, used, n_threads):
                    total = 0.0
                    for k in range(used):
                        total += table[k, i] * g[k]
                    u[i] = total
                cuda.syncthreads()
                for i in range(me, used, n_threads):
                    for k in range(used):
                        table[k, i] += 0.01 * u[k] * u[i]
                if me == 0:
                    total = 0.0
                    for k in range(used):
                        total += u[k]
                    tops[sample, turn] = bests[0] + total
                cuda.syncthreads()

    return work


def draw_work(n_samples: int, n_atoms: int, used: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Return a Gram matrix of random atoms, samples, and for each the atoms and weights of a code."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((n_atoms, 256))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    chosen = np.argsort(rng.random((n_samples, n_atoms)), axis=1)[:, :SLOTS].astype(np.int32)
    weights = np.where(np.arange(SLOTS) < used, rng.standard_normal((n_samples, SLOTS)), 0.0)
    values = {"gram": atoms @ atoms.T, "cross": rng.standard_normal((n_samples, n_atoms)), "chosen": chosen}
    return {name: torch.as_tensor(value, device=device) for name, value in (values | {"weights": weights}).items()}


def make_runs(work: dict[str, torch.Tensor], used: int, n_programs: int) -> dict[str, Callable[[], torch.Tensor]]:
    """Return what does the work, by language and number of threads."""
    gram, cross, chosen, weights = (work[name] for name in ("gram", "cross", "chosen", "weights"))
    n_samples, n = cross.shape

    def new(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float64, device=gram.device)

    residual, table, scratch = new(n_programs, n), new(n_programs, SLOTS, SLOTS), new(n_programs, SLOTS)

    def in_triton(n_threads: int) -> torch.Tensor:
        tops, block = new(n_samples, ROUNDS), 4 * n_threads
        _work_in_triton[(n_programs,)](
            gram, cross, chosen, weights, residual, table, scratch, tops, n_samples, n, n, used, BLOCK=block, K=SLOTS,
            ROUNDS=ROUNDS, ROWS=16 * n_threads // SLOTS, GRAM_ROWS=max(1, 32 * n_threads // block),
            num_warps=n_threads // 32,
        )  # fmt: skip
        return tops

    kernels = {n_threads: _make_numba(n_threads) for n_threads in THREADS}

    def in_numba(n_threads: int) -> torch.Tensor:
        tops = new(n_samples, ROUNDS)
        arrays = (cuda.as_cuda_array(one) for one in (gram, cross, chosen, weights, residual, table, tops))
        kernels[n_threads][n_programs, n_threads](*arrays, used)
        return tops

    return {
        f"{name}, {n_threads} threads": lambda run=run, n_threads=n_threads: run(n_threads)
        for name, run in (("Triton", in_triton), ("numba-cuda", in_numba))
        for n_threads in THREADS
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--samples", type=click.IntRange(1), default=65536, show_default=True)
@click.option("--atoms", type=click.IntRange(SLOTS), default=512, show_default=True, help="Atoms.")
@click.option("--used", type=click.IntRange(1, SLOTS), default=24, show_default=True, help="Atoms of a code.")
def main(samples: int, atoms: int, used: int) -> None:
    """Compare the inner work of the GPU coder in Triton and in numba-cuda."""
    if not torch.cuda.is_available():
        raise click.ClickException("there is no card to measure.")
    device = torch.device("cuda", 0)
    work = draw_work(samples, atoms, used, device)
    n_programs = PROGRAMS * torch.cuda.get_device_properties(device).multi_processor_count
    out, reference = report.console(), None
    table = report.new_table(out, "language", "samples/s", "GB/s of Gram rows", "first call s", "largest difference")
    for name, run in make_runs(work, used, n_programs).items():
        start = time.perf_counter()
        found = run()
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        reference = found if reference is None else reference
        rate = samples / time_on_card(run)
        apart = float((found - reference).abs().max())
        assert math.isfinite(apart)
        read = rate * ROUNDS * used * atoms * 8 / 1e9
        table.add_row(name, f"{rate:,.0f}", f"{read:,.0f}", f"{first:.1f}", f"{apart:.1e}")
    out.print(f"{torch.cuda.get_device_name(device)}; {samples:,} samples, {atoms} atoms, codes of {used} atoms.")
    out.print(table)


if __name__ == "__main__":
    main()

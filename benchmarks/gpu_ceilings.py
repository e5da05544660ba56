"""What a card can do at most, measured: bandwidth of memory and of the cache, and rates of matrix products."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import triton
import triton.language as tl

_COPIED = 2**31
_CACHED = 2**23
_SIDE = 8192


@dataclass(frozen=True)
class Ceilings:
    """Ceilings of a card.

    Attributes
    ----------
    memory : float
        Bytes a second that a copy reads and writes.
    cache : float
        Bytes a second that all programs read from 8 MiB, which the second-level cache holds.
    double, single : float
        Operations a second of large matrix products in either precision.
    """

    memory: float
    cache: float
    double: float
    single: float


@triton.jit
def _read_again(source, out, n_blocks, n_rounds, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float64)
    first = tl.program_id(0)
    for i in range(0, n_rounds):
        total += tl.load(source + ((first + i * 7) % n_blocks) * BLOCK + at)
    tl.store(out + first * BLOCK + at, total)


def time_on_card(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the shortest time of a piece of work in seconds, after it has run once."""
    work()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def measure_ceilings(device: torch.device) -> Ceilings:
    """Measure the ceilings of a card."""
    source = torch.ones(_COPIED, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    memory = 2 * _COPIED / time_on_card(partial(target.copy_, source))
    del source, target
    n_processors = torch.cuda.get_device_properties(device).multi_processor_count
    block, programs, rounds = 1024, 32 * n_processors, 512
    cached = torch.randn(_CACHED // 8, dtype=torch.float64, device=device)
    out = torch.empty(programs * block, dtype=torch.float64, device=device)
    grid = (programs,)
    seconds = time_on_card(lambda: _read_again[grid](cached, out, len(cached) // block, rounds, BLOCK=block))
    cache = 8 * block * programs * rounds / seconds
    rates = []
    for dtype in (torch.float64, torch.float32):
        a = torch.randn((_SIDE, _SIDE), dtype=dtype, device=device)
        b = torch.randn((_SIDE, _SIDE), dtype=dtype, device=device)
        rates.append(2 * _SIDE**3 / time_on_card(partial(torch.mm, a, b), 3))
    return Ceilings(memory, cache, *rates)

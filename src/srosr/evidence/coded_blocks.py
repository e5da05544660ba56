"""Work on coded samples block by block, several blocks at a time.

Blocks are small enough for what is computed of them to stay in the cache, and the same whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
from joblib import effective_n_jobs

from .._support.array_types import AnyArray
from .._support.threads import ThreadPool
from ..coding.batch import prepare_dictionary
from ..coding.encode import Codes, sparse_encode
from ..coding.problems import Problem
from ..dictionary.dictionary import Dictionary, Queries, split_range

T = TypeVar("T")

# Samples of a block: products with few are slow. Their similarities to the atoms take at most so many bytes.
_ROWS, _LEAST_ROWS = 256, 32
_BYTES = 128 * 2**20
# Samples of a block that have been coded before, so that their similarities stay in the cache. BLAS multiplies several
# rows at a time and those that are left over by another routine, with other last bits: blocks are multiples of these.
_UNIT, _CACHED_BYTES = 64, 2**19


def map_coded_blocks(
    work: Callable[[Queries, Codes], T],
    rows: AnyArray,
    dictionary: Dictionary,
    problem: Problem,
    n_jobs: int | None,
    done: Callable[[int], None] | None = None,
) -> list[T]:
    """Code rows over a dictionary and return ``work(queries, codes)`` of each block, in order.

    Blocks are the same whatever the number of threads. ``done`` is called with the number of rows of each block.
    """
    size = min(_ROWS, max(_LEAST_ROWS, _BYTES // (8 * dictionary.n_atoms)))

    def encode(block: slice) -> T:
        queries = dictionary.query_features(np.ascontiguousarray(rows[block], dtype=np.float64))
        return work(queries, sparse_encode(queries, dictionary, problem, n_jobs=1))

    blocks = split_range(0, len(rows), size)
    prepare_dictionary(dictionary, size)
    with _start_threads(n_jobs, len(blocks)) as pool:
        return pool.map(encode, blocks, None if done is None else lambda block: done(block.stop - block.start))


def map_blocks(work: Callable[[Queries, Codes], T], queries: Queries, codes: Codes, n_jobs: int | None) -> list[T]:
    """Return ``work(queries, codes)`` of each block of samples that have been coded, in order."""
    size = _UNIT * min(_ROWS // _UNIT, max(1, _CACHED_BYTES // (8 * _UNIT * queries.cross.shape[1])))
    blocks = split_range(0, len(queries), size)
    if len(blocks) > 1:  # the last rows belong to the block before them: a single one would be multiplied otherwise
        blocks[-2:] = [slice(blocks[-2].start, len(queries))]
    if len(blocks) < 2:
        return [work(queries, codes)]
    with _start_threads(n_jobs, len(blocks)) as pool:
        return pool.map(lambda block: work(queries[block], _take_rows(codes, block)), blocks)


def _take_rows(codes: Codes, rows: slice) -> Codes:
    """Return the codes of some of the samples."""
    values = {f.name: getattr(codes, f.name) for f in fields(codes) if f.name != "problem"}
    return replace(codes, **{name: value[rows] for name, value in values.items() if value is not None})


def _start_threads(n_jobs: int | None, n_blocks: int) -> ThreadPool:
    """Return the threads for so many blocks, none where one is enough."""
    n_threads = min(int(effective_n_jobs(n_jobs)), n_blocks)
    return ThreadPool(n_threads if n_threads > 1 else 0)

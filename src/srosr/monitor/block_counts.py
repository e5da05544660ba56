"""Counts of samples by block: rejected, near the threshold, and accepted by class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, IntArray

#: A history with more blocks than this has the older of them merged in pairs.
MOST_BLOCKS = 256


@dataclass(frozen=True, eq=False)
class BlockCounts:
    """What was counted in a block of consecutive samples.

    Attributes
    ----------
    start : int
        Number of the first sample, counted from 0.
    samples, rejected, near : int
        Numbers of samples, of those rejected, and of those near the threshold.
    accepted : ndarray of int (n_classes,)
        Accepted samples of each class.
    log_capital : float
        Natural logarithm of the capital after the block.
    """

    start: int
    samples: int
    rejected: int
    near: int
    accepted: IntArray
    log_capital: float

    @property
    def end(self) -> int:
        """Number of the sample after the last one."""
        return self.start + self.samples

    @staticmethod
    def begin(start: int, n_classes: int, log_capital: float = 0.0) -> BlockCounts:
        """Return a block without samples."""
        return BlockCounts(start, 0, 0, 0, np.zeros(n_classes, dtype=np.int64), log_capital)

    def add(self, rejected: AnyArray, near: AnyArray, candidate: IntArray, log_capital: float) -> BlockCounts:
        """Return the block with more samples."""
        accepted = np.bincount(candidate[~rejected], minlength=len(self.accepted))
        return BlockCounts(
            self.start, self.samples + len(rejected), self.rejected + int(rejected.sum()), self.near + int(near.sum()),
            self.accepted + accepted, log_capital,
        )  # fmt: skip

    def merge(self, later: BlockCounts) -> BlockCounts:
        """Return this block and the one after it as one."""
        return BlockCounts(
            self.start, self.samples + later.samples, self.rejected + later.rejected, self.near + later.near,
            self.accepted + later.accepted, later.log_capital,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        return {
            "start": self.start, "samples": self.samples, "rejected": self.rejected, "near": self.near,
            "accepted": self.accepted.tolist(), "log_capital": self.log_capital,
        }  # fmt: skip


@dataclass
class BlockHistory:
    """All blocks of a stream in bounded memory: complete ones, older ones merged, and the one that is being filled."""

    size: int
    current: BlockCounts
    #: The first block as it was before it was merged, None until it is complete.
    first: BlockCounts | None = None
    complete: list[BlockCounts] = field(default_factory=list)

    @property
    def room(self) -> int:
        """How many samples the current block takes until it is complete."""
        return self.size - self.current.samples

    def add(self, rejected: AnyArray, near: AnyArray, candidate: IntArray, log_capital: float) -> BlockCounts | None:
        """Count samples, no more than there is room for; return the block that they complete, if they do."""
        self.current = self.current.add(rejected, near, candidate, log_capital)
        if self.room > 0:
            return None
        done = self.current
        self.complete.append(done)
        self.first = self.first or done
        self.current = BlockCounts.begin(done.end, len(done.accepted), done.log_capital)
        if len(self.complete) > MOST_BLOCKS:
            self._merge()
        return done

    def _merge(self) -> None:
        """Merge blocks in pairs; the last one stays as it is."""
        older, last = self.complete[:-1], self.complete[-1]
        # Of the older ones there are MOST_BLOCKS, an even number.
        self.complete = [*(a.merge(b) for a, b in zip(older[::2], older[1::2], strict=True)), last]

    def sum_all(self) -> BlockCounts:
        """Return all samples as one block."""
        return self._sum([*self.complete, self.current])

    def sum_recent(self) -> BlockCounts:
        """Return the last complete block and the samples after it as one block."""
        return self._sum([*self.complete[-1:], self.current])

    @staticmethod
    def _sum(blocks: list[BlockCounts]) -> BlockCounts:
        total = blocks[0]
        for block in blocks[1:]:
            total = total.merge(block)
        return total

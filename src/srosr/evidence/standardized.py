r"""Standardized columns: features in standard deviations of the training samples.

Columns whose values differ little count as much as the others. The columns are those that the kernel sees: with samples
of unit length a multiple of a sample still is the same sample. A value counts at most three standard deviations
(:data:`MOST`): columns that are nearly always the same, like the pixels at the border of a picture, would otherwise
decide alone. Constant columns are left out.
"""

from __future__ import annotations

import numpy as np

from .._support.array_types import AnyArray, Array
from ..dictionary.dictionary import split_range, widen

#: Standard deviations at which values are cut off.
MOST = 3.0
# A column that varies by less than this share of its largest value varies by rounding; one that is smaller than this
# share of the largest column holds what rounding left of a constant.
_ROUNDING = 1e-9
# Columns that are measured at a time, and numbers of them; rows that are transformed at a time.
_BLOCK = 256
_BLOCK_SIZE = 2**25
_ROWS = 8192


class StandardizedColumns:
    """Centers and scales of the columns of training samples."""

    def __init__(self, rows: AnyArray) -> None:
        units, center, spread = np.empty((3, rows.shape[1]))
        size = min(_BLOCK, max(_BLOCK_SIZE // len(rows), 2))
        for start in range(0, rows.shape[1], size):
            part = slice(start, start + size)
            numbers = widen(rows[:, part])
            units[part] = np.maximum(numbers.max(axis=0), -numbers.min(axis=0))
            units[part][units[part] == 0] = 1.0
            shares = numbers / units[part]  # squares of very large or small features would not be finite
            center[part], spread[part] = shares.mean(axis=0), shares.std(axis=0)
        self.varies = (spread > _ROUNDING) & (units > _ROUNDING * units.max())
        self.units, self.center, self.scale = units[self.varies], center[self.varies], spread[self.varies]

    @classmethod
    def restore(cls, varies: AnyArray, units: Array, center: Array, scale: Array) -> StandardizedColumns:
        """Rebuild centers and scales from their numbers."""
        out = object.__new__(cls)
        out.varies, out.units, out.center, out.scale = varies, units, center, scale
        return out

    def transform(self, rows: Array) -> Array:
        """Return rows in standard deviations, cut off; without constant columns."""
        columns = rows if self.varies.all() else rows[:, self.varies]
        out = columns / self.units
        out -= self.center
        out /= self.scale
        return np.clip(out, -MOST, MOST, out=out)

    def transform_all(self, rows: AnyArray) -> AnyArray:
        """Return :meth:`transform` of very many rows in single precision."""
        out = np.empty((len(rows), int(self.varies.sum())), np.float32)
        for block in split_range(0, len(rows), _ROWS):
            out[block] = self.transform(widen(rows[block]))
        return out

r"""Standardized columns: features in standard deviations of the training samples.

Columns whose values differ little count as much as the others. The columns are those that the kernel sees: with samples
of unit length a multiple of a sample still is the same sample. A value counts at most three standard deviations
(:data:`MOST`): columns that are nearly always the same, like the pixels at the border of a picture, would otherwise
decide alone. Constant columns are left out.
"""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array

#: Standard deviations at which values are cut off.
MOST = 3.0
# A column that varies by less than this share of its largest value varies by rounding; one that is smaller than this
# share of the largest column holds what rounding left of a constant.
_ROUNDING = 1e-9
# Columns that are measured at a time.
_BLOCK = 256


class StandardizedColumns:
    """Centers and scales of the columns of training samples."""

    def __init__(self, rows: Array) -> None:
        units, center, spread = np.empty((3, rows.shape[1]))
        for start in range(0, rows.shape[1], _BLOCK):
            part = slice(start, start + _BLOCK)
            units[part] = np.maximum(rows[:, part].max(axis=0), -rows[:, part].min(axis=0))
            units[part][units[part] == 0] = 1.0
            shares = rows[:, part] / units[part]  # squares of very large or small features would not be finite
            center[part], spread[part] = shares.mean(axis=0), shares.std(axis=0)
        self.varies = (spread > _ROUNDING) & (units > _ROUNDING * units.max())
        self.units, self.center, self.scale = units[self.varies], center[self.varies], spread[self.varies]

    def transform(self, rows: Array) -> Array:
        """Return rows in standard deviations, cut off; without constant columns."""
        columns = rows if self.varies.all() else rows[:, self.varies]
        out = columns / self.units
        out -= self.center
        out /= self.scale
        return np.clip(out, -MOST, MOST, out=out)

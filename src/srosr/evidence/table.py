r"""The evidence table: one row a sample, one column a kind of evidence for or against the sample being unknown.

====================  ===================================================================================  =========
``matched``           :math:`r_m = \min_k r_k`, error of the best class                                    large
``nonmatched``        :math:`r_{nm}/(K-1)`, the mean residual of the other classes                         small
``concentration``     sparsity concentration index of the code                                             small
``ratio``             :math:`r_{(1)}/r_{(2)}`, best over second-best class residual                        large
``surplus``           :math:`\sqrt{r_m^2 - r^2}`, the part that atoms of other classes reconstruct        large
``collaborative``     largest collaborative class score                                                    small
``margin``            largest minus second-largest collaborative class score                               small
``subspace``          distance to the nearest class subspace over the second-nearest                       large
====================  ===================================================================================  =========

The last column says which values suggest an unknown sample. :math:`r` is the residual of the whole code.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from ..coding import Codes
from ..dictionary import Dictionary, Queries
from .residuals import compute_concentration, compute_residuals, divide_smallest_two

#: +1 where large values suggest an unknown sample, −1 where small ones do.
DIRECTION = {
    "matched": 1.0,
    "nonmatched": -1.0,
    "concentration": -1.0,
    "ratio": 1.0,
    "surplus": 1.0,
    "collaborative": -1.0,
    "margin": -1.0,
    "subspace": 1.0,
}
#: Names of the columns of an evidence table, in order.
EVIDENCE = tuple(DIRECTION)
#: Those that come from regularized least squares instead of sparse codes.
LEAST_SQUARES = ("collaborative", "margin", "subspace")
# Squares from Gram quantities are good to about this, relative to the squared length of the sample.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Evidence:
    """The evidence of a batch of samples."""

    #: One row per sample, columns as in `EVIDENCE`.
    values: Array
    #: One row per sample, one column per class.
    residuals: Array
    #: Number of the class with the smallest residual.
    candidate: IntArray
    #: Samples of length zero, which no class can explain.
    empty: Any

    def __len__(self) -> int:
        return len(self.values)

    @staticmethod
    def concatenate(parts: list[Evidence]) -> Evidence:
        """Return several batches as one."""
        if len(parts) == 1:
            return parts[0]
        return Evidence(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Evidence)))


def build_evidence(
    queries: Queries, codes: Codes, dictionary: Dictionary, scores: Array | None = None, distances: Array | None = None
) -> Evidence:
    """Build the evidence table of samples coded over a dictionary of at least two classes.

    ``scores`` and ``distances`` are collaborative class scores and subspace distances, (n_samples, n_classes); without
    them their columns hold 0, 0 and 1.
    """
    residuals = compute_residuals(queries, codes.codes, dictionary)
    n_samples, n_classes = residuals.shape
    matched = residuals.min(axis=1)
    values = np.empty((n_samples, len(EVIDENCE)))
    columns = dict(zip(EVIDENCE, values.T, strict=True))
    columns["matched"][:] = matched
    columns["nonmatched"][:] = (residuals.sum(axis=1) - matched) / (n_classes - 1)
    columns["concentration"][:] = compute_concentration(codes.codes, dictionary)
    columns["ratio"][:] = divide_smallest_two(residuals)
    columns["surplus"][:] = _compute_surplus(matched, codes.residual_norm, queries.squared_norms)
    if scores is None or distances is None:
        columns["collaborative"][:] = columns["margin"][:] = 0.0
        columns["subspace"][:] = 1.0
    else:
        top = np.sort(scores, axis=1)
        columns["collaborative"][:] = top[:, -1]
        columns["margin"][:] = top[:, -1] - top[:, -2]
        columns["subspace"][:] = divide_smallest_two(distances)
    return Evidence(values, residuals, residuals.argmin(axis=1), queries.squared_norms == 0)


def _compute_surplus(matched: Array, residual: Array, squares: Array) -> Array:
    """Compute the root of a difference of squares, 0 where it is within their rounding."""
    gain = matched**2 - residual**2
    return np.sqrt(np.where(gain > _ROUNDING * squares, gain, 0.0))

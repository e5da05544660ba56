r"""The evidence for and against a sample being known, a row a sample.

====================  ===================================================================================  =========
``matched``           :math:`r_m = \min_k r_k`, what the best class leaves unexplained                     large
``nonmatched``        :math:`r_{nm}/(K-1)`, the mean residual of the other classes                         small
``concentration``     sparsity concentration index of the code                                             small
``ratio``             :math:`r_{(1)}/r_{(2)}`, best over second-best class residual                        large
``surplus``           :math:`\sqrt{r_m^2 - r^2}`, what atoms of other classes add to the reconstruction    large
``collaborative``     largest collaborative class score                                                    small
``margin``            largest minus second-largest collaborative class score                               small
``subspace``          distance to the nearest class subspace over the second-nearest                       large
====================  ===================================================================================  =========

The last column says which values speak for a stranger. :math:`r` is the residual of the whole code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from ..coding import Codes
from ..dictionary import Dictionary, Queries
from .residuals import class_residuals, residual_ratio, sparsity_concentration

__all__ = ["DIRECTION", "EVIDENCE", "LEAST_SQUARES", "Evidence", "evidence_of"]

#: +1 where large values speak for a stranger, −1 where small ones do.
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
#: Those that come from regularised least squares, not from sparse codes.
LEAST_SQUARES = ("collaborative", "margin", "subspace")
# Lengths below this are rounding: ratios of two such are ratios of nothing.
_TINY = 1e-9
# Squares from Gram quantities are good to about this, relative to the squared length of the sample.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Evidence:
    """What is known of a batch of samples before any of it is judged.

    Attributes
    ----------
    values : ndarray (n_samples, 8)
        Columns as in `EVIDENCE`.
    residuals : ndarray (n_samples, n_classes)
    candidate : ndarray of int (n_samples,)
        Number of the class with the smallest residual.
    empty : ndarray of bool (n_samples,)
        Samples of length zero: there is nothing to recognise in them.
    """

    values: Array
    residuals: Array
    candidate: IntArray
    empty: Any

    def __len__(self) -> int:
        return len(self.values)

    @staticmethod
    def joined(parts: list[Evidence]) -> Evidence:
        """Several batches as one."""
        if len(parts) == 1:
            return parts[0]
        names = ("values", "residuals", "candidate", "empty")
        return Evidence(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def evidence_of(queries: Queries, codes: Codes, dictionary: Dictionary, scores: Array, distances: Array) -> Evidence:
    """The evidence table of coded samples.

    Parameters
    ----------
    queries : Queries
        Made by the dictionary.
    codes : Codes
    dictionary : Dictionary
        With labels of at least two classes.
    scores, distances : ndarray (n_samples, n_classes)
        Collaborative class scores and subspace distances.
    """
    residuals = class_residuals(queries, codes, dictionary)
    n_classes = residuals.shape[1]
    candidate = residuals.argmin(axis=1)
    matched = residuals.min(axis=1)
    top = np.sort(scores, axis=1)
    near = np.sort(distances, axis=1)[:, :2]
    columns = {
        "matched": matched,
        "nonmatched": (residuals.sum(axis=1) - matched) / (n_classes - 1),
        "concentration": sparsity_concentration(codes, dictionary),
        "ratio": residual_ratio(residuals),
        "surplus": _surplus(matched, codes.residual_norm, queries.squared_norms),
        "collaborative": top[:, -1],
        "margin": top[:, -1] - top[:, -2],
        "subspace": _ratio(near[:, 0], near[:, 1]),
    }
    return Evidence(
        np.stack([columns[name] for name in EVIDENCE], axis=1), residuals, candidate, queries.squared_norms == 0
    )


def _surplus(matched: Array, residual: Array, squares: Array) -> Array:
    """Root of a difference of squares, where it is more than their rounding."""
    gain = matched**2 - residual**2
    return np.sqrt(np.where(gain > _ROUNDING * squares, gain, 0.0))


def _ratio(first: Array, second: Array) -> Array:
    return np.divide(first, second, out=np.ones(len(first)), where=second > _TINY)

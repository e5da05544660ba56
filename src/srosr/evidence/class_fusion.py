r"""The fused class score: all kinds of class scores in one number a class,

.. math:: F_k(y) = \sum_j w_j \frac{s_{jk}(y)}{\sigma_j},

with one weight a kind, the same for all classes and never negative. The candidate is the class of the largest one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._support.array_types import Array


@dataclass(frozen=True, eq=False)
class ClassFusion:
    """Weights and scales of the class scores.

    Attributes
    ----------
    kinds : tuple of str
        From ``srosr.evidence.class_scores.CLASS_SCORES``.
    scale : ndarray (n_kinds,)
        How much the scores of one sample differ from class to class (root mean square over held-out samples).
    weights : ndarray (n_kinds,)
        Not negative.
    """

    kinds: tuple[str, ...]
    scale: Array
    weights: Array

    def combine(self, scores: dict[str, Array]) -> Array:
        """Return the fused score of each class, (n_samples, n_classes)."""
        out = np.zeros(scores[self.kinds[0]].shape)
        for kind, factor in zip(self.kinds, (self.weights / self.scale).tolist(), strict=True):
            if factor > 0:
                out += factor * scores[kind]
        return out

r"""The evidence table: one row a sample, one column a kind of evidence for or against the sample being unknown.

========================  ===============================================================================  =========
``matched``               :math:`r_m = \min_k r_k`, error of the best class                                large
``nonmatched``            :math:`r_{nm}/(K-1)`, the mean residual of the other classes                     small
``concentration``         sparsity concentration index of the code                                         small
``ratio``                 :math:`r_{(1)}/r_{(2)}`, best over second-best class residual                    large
``surplus``               :math:`\sqrt{r_m^2 - r^2}`, the part that atoms of other classes reconstruct     large
``collaborative``         largest collaborative class score                                                small
``margin``                largest minus second-largest collaborative class score                           small
``subspace``              distance to the nearest class subspace over the second-nearest                   large
``local``                 largest collaborative class score at half the width                              small
``local_margin``          its largest minus its second-largest                                             small
``gaussian``              relative Mahalanobis distance: nearest class minus background                    large
``gaussian_margin``       second-smallest minus smallest Mahalanobis distance of a class                   small
``nearest``               distance to the nearest atom                                                     large
``standardized``          largest collaborative class score on standardized columns                        small
``standardized_margin``   its largest minus its second-largest                                             small
``standardized_nearest``  distance to the nearest atom on standardized columns                             large
``fused``                 largest fused class score                                                        small
``fused_margin``          its largest minus its second-largest                                             small
========================  ===============================================================================  =========

The last column says which values suggest an unknown sample. :math:`r` is the residual of the whole code. The first five
come from the code, the others from :mod:`.class_scores`. A table always has all columns; those that are not computed
hold 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from ..coding.encode import Codes
from ..dictionary.dictionary import Dictionary, Queries
from .class_scores import CLASS_SCORES, NEED_FEATURES, ClassScores
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
    "local": -1.0,
    "local_margin": -1.0,
    "gaussian": 1.0,
    "gaussian_margin": -1.0,
    "nearest": 1.0,
    "standardized": -1.0,
    "standardized_margin": -1.0,
    "standardized_nearest": 1.0,
    "fused": -1.0,
    "fused_margin": -1.0,
}
#: Names of the columns of an evidence table, in order.
EVIDENCE = tuple(DIRECTION)
#: Those that come from sparse codes.
SPARSE_EVIDENCE = EVIDENCE[:5]
#: Those from regularized least squares that every rule had before there were others, and the class scores they need.
LEAST_SQUARES = EVIDENCE[5:8]
#: The evidence of the paper's rules, and of models before there were more kinds.
FIRST_EVIDENCE = EVIDENCE[:8]
# The kind of class score from which each kind of evidence is computed.
_SOURCE = {name: name.removesuffix("_margin") for name in EVIDENCE[5:]} | {"margin": "collaborative"}
#: Squares from Gram quantities are good to about this, relative to the squared length of the sample.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ClassFusion:
    r"""The fused class score: all kinds of class scores in one number a class,

    .. math:: F_k(y) = \sum_j w_j \frac{s_{jk}(y)}{\sigma_j},

    with one weight a kind, the same for all classes. The candidate is the class of the largest one.

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


@dataclass(frozen=True, eq=False)
class CodeMeasures:
    """What is measured on the sparse codes of a batch of samples."""

    #: Class residuals, (n_samples, n_classes).
    residuals: Array
    concentration: Array
    #: The residual of the whole code, and the squared length of the sample.
    residual: Array
    squares: Array

    @staticmethod
    def concatenate(parts: list[CodeMeasures]) -> CodeMeasures:
        """Return several batches as one."""
        if len(parts) == 1:
            return parts[0]
        return CodeMeasures(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(CodeMeasures)))


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence of a batch of samples."""

    #: One row per sample, columns as in `EVIDENCE`.
    values: Array
    #: One row per sample, one column per class.
    residuals: Array
    #: Fused class scores; minus the residuals where nothing is fused.
    class_scores: Array
    #: Samples of length zero, which no class can explain.
    empty: Any

    def __len__(self) -> int:
        return len(self.values)

    @property
    def candidate(self) -> IntArray:
        """Number of the class with the largest class score."""
        return self.class_scores.argmax(axis=1)

    @property
    def residual_candidate(self) -> IntArray:
        """Number of the class with the smallest residual."""
        return self.residuals.argmin(axis=1)

    @staticmethod
    def concatenate(parts: list[Evidence]) -> Evidence:
        """Return several batches as one."""
        if len(parts) == 1:
            return parts[0]
        return Evidence(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Evidence)))


def find_class_scores(evidence: Iterable[str], *, has_features: bool) -> tuple[str, ...]:
    """Return the kinds of class scores from which kinds of evidence are computed, ``residual`` always among them."""
    wanted = {"residual"} | {_SOURCE[name] for name in evidence if name in _SOURCE}
    if "fused" in wanted:
        wanted |= set(list_class_scores(has_features=has_features))
    return tuple(kind for kind in CLASS_SCORES if kind in wanted)


def list_class_scores(*, has_features: bool) -> tuple[str, ...]:
    """Return all kinds of class scores that can be computed."""
    return tuple(kind for kind in CLASS_SCORES if has_features or kind not in NEED_FEATURES)


def list_evidence(*, has_features: bool) -> tuple[str, ...]:
    """Return all kinds of evidence that can be computed."""
    return tuple(name for name in EVIDENCE if has_features or _SOURCE.get(name) not in NEED_FEATURES)


def measure_codes(queries: Queries, codes: Codes, dictionary: Dictionary) -> CodeMeasures:
    """Measure the codes of samples over a dictionary of at least two classes."""
    return CodeMeasures(
        compute_residuals(queries, codes.codes, dictionary),
        compute_concentration(codes.codes, dictionary),
        codes.residual_norm,
        queries.squared_norms,
    )


def build_evidence(
    measures: CodeMeasures, scores: ClassScores | None = None, fusion: ClassFusion | None = None
) -> Evidence:
    """Build the evidence table of samples from their codes and, if there are any, from class scores and their fusion.

    The columns of class scores that are missing hold 0.
    """
    residuals = measures.residuals
    n_samples, n_classes = residuals.shape
    matched = residuals.min(axis=1)
    values = np.zeros((n_samples, len(EVIDENCE)))
    columns = dict(zip(EVIDENCE, values.T, strict=True))
    columns["matched"][:] = matched
    columns["nonmatched"][:] = (residuals.sum(axis=1) - matched) / (n_classes - 1)
    columns["concentration"][:] = measures.concentration
    columns["ratio"][:] = divide_smallest_two(residuals)
    gain = matched**2 - measures.residual**2  # 0 within its rounding
    columns["surplus"][:] = np.sqrt(np.where(gain > ROUNDING * measures.squares, gain, 0.0))
    by_kind = {} if scores is None else scores.by_kind
    for kind, margin in (
        ("collaborative", "margin"),
        ("local", "local_margin"),
        ("standardized", "standardized_margin"),
    ):
        if kind in by_kind:
            _fill_top(by_kind[kind], columns[kind], columns[margin])
    for kind in ("nearest", "standardized_nearest"):
        if kind in by_kind:
            columns[kind][:] = -by_kind[kind].max(axis=1)
    if "subspace" in by_kind:
        columns["subspace"][:] = divide_smallest_two(-by_kind["subspace"])
    if scores is not None and "gaussian" in by_kind:
        _fill_top(by_kind["gaussian"], columns["gaussian"], columns["gaussian_margin"])
        columns["gaussian"] *= -1.0
        columns["gaussian"] -= scores.background[0]
    class_scores = -residuals
    if fusion is not None:
        class_scores = fusion.combine(by_kind | {"residual": class_scores})
        _fill_top(class_scores, columns["fused"], columns["fused_margin"])
    return Evidence(values, residuals, class_scores, measures.squares == 0)


def _fill_top(scores: Array, largest: Array, margin: Array) -> None:
    """Write the largest score of each row, and how much larger it is than the second-largest."""
    top = np.partition(scores, (-2, -1), axis=1)[:, -2:]
    largest[:] = top[:, 1]
    margin[:] = top[:, 1] - top[:, 0]

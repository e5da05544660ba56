r"""Class scores: how well each class explains a sample, by several kinds of comparison with its atoms.

========================  =================================================================================
``residual``              :math:`-r_k`, the part of the sparse code on the class (:mod:`.residuals`)
``collaborative``         ridge regression on similarities that decay with distance (:mod:`.ridge`)
``local``                 the same with half the width, :math:`\exp(-4\|a_i - a_j\|^2/\bar d^2)`
``subspace``              minus the distance to the span of the class (:mod:`.subspaces`)
``gaussian``              minus the squared Mahalanobis distance, common covariance (:mod:`.gaussian`)
``nearest``               minus the distance to the nearest atom (:mod:`.neighbors`)
``standardized``          ``collaborative`` on standardized columns (:mod:`.standardized`)
``standardized_nearest``  ``nearest`` on standardized columns
========================  =================================================================================

Large values suggest the class. All kinds but the first come in closed form from the Gram matrix of the atoms, or from
that of their standardized columns, for new samples as well as for atoms that are held out. Kinds are worked off one
after the other, so that one inverse is in memory at a time. The last two need features.

Bandwidths, the penalty of ``gaussian`` and the standardization of columns come from all atoms, held out or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._support.array_types import Array, IntArray
from ..dictionary.dictionary import Dictionary, Queries
from .gaussian import GAUSSIAN_PENALTY, GaussianClasses
from .landmarks import Regression
from .neighbors import measure_nearest, measure_nearest_without
from .ridge import COLLABORATIVE_PENALTY, DecayingSimilarity, RidgeRegression, compute_squared_distances
from .standardized import StandardizedColumns
from .subspaces import HeldOutSubspaces, Subspaces

#: Names of the kinds of class scores, in order.
CLASS_SCORES = (
    "residual",
    "collaborative",
    "local",
    "subspace",
    "gaussian",
    "nearest",
    "standardized",
    "standardized_nearest",
)
#: Those that compare features, which a precomputed kernel does not have.
NEED_FEATURES = ("standardized", "standardized_nearest")
# Where fewer than one in so many atoms are ever held out, only their part of an inverse is computed.
_FEW = 3


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Class scores of a batch of samples, each (n_samples, n_classes); large values suggest the class."""

    by_kind: dict[str, Array] = field(default_factory=dict)
    #: For ``gaussian``: squared distances to the background, (n_samples,).
    background: list[Array] = field(default_factory=list)

    @staticmethod
    def concatenate(parts: list[ClassScores]) -> ClassScores:
        """Return several batches as one."""
        if len(parts) == 1:
            return parts[0]
        by_kind = {kind: np.concatenate([part.by_kind[kind] for part in parts]) for kind in parts[0].by_kind}
        background = [np.concatenate(arrays) for arrays in zip(*(part.background for part in parts), strict=True)]
        return ClassScores(by_kind, background)


class HoldOut(NamedTuple):
    """Atoms to be scored, and the part of the dictionary they are scored over.

    ``test`` are the atoms to be scored, among those ``removed`` from the dictionary (sorted); ``present`` are the
    numbers of the classes that keep an atom.
    """

    test: IntArray
    removed: IntArray
    present: IntArray


class ClassScorer:
    """Scores samples by all kinds but ``residual``, over a whole dictionary.

    Parameters
    ----------
    dictionary : Dictionary
        With labels.
    kinds : sequence of str
        From `CLASS_SCORES`.
    hold_outs : sequence of HoldOut
        Atoms to be scored as if others were not in the dictionary; their scores are ``held_out``, one for each.
    """

    collaborative: RidgeRegression | Regression
    local: RidgeRegression | Regression
    linear: RidgeRegression | Regression
    standardized: RidgeRegression | Regression

    def __init__(self, dictionary: Dictionary, kinds: Sequence[str], hold_outs: Sequence[HoldOut] = ()) -> None:
        self.held_out = [ClassScores() for _ in hold_outs]
        self._describe(dictionary, kinds)
        self._membership = np.zeros((dictionary.n_atoms, len(self.starts)))
        self._membership[np.arange(dictionary.n_atoms), self.class_of] = 1.0
        self._hold_outs = hold_outs
        self._removed = _join_removed(hold_outs, dictionary.n_atoms)
        self._prepare_kernel_scores(dictionary)
        self._prepare_feature_scores(dictionary)
        del self._hold_outs, self._membership, self._removed

    @classmethod
    def restore(
        cls, dictionary: Dictionary, kinds: Sequence[str], held_out: list[ClassScores], fitted: dict[str, Any]
    ) -> ClassScorer:
        """Rebuild a scorer from its attributes, fitted elsewhere."""
        out = object.__new__(cls)
        out._describe(dictionary, kinds)
        vars(out).update(fitted, held_out=held_out)
        return out

    def _describe(self, dictionary: Dictionary, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        self.class_of = dictionary.class_of
        self.starts = np.array([part.start for part in dictionary.class_slices])
        self.sizes = np.array([part.stop - part.start for part in dictionary.class_slices])

    # -- preparation -------------------------------------------------------------------------------------

    def _prepare_kernel_scores(self, dictionary: Dictionary) -> None:
        """Prepare the kinds that are computed from inner products in the space of the kernel."""
        if not set(self.kinds) & {"collaborative", "local", "gaussian", "nearest", "subspace"}:
            return
        gram = dictionary.gram
        # Once the Gram matrix has been computed these are its diagonal, to the bit; before, they are not.
        self.squares = dictionary.squared_norms
        self.similarity = DecayingSimilarity(gram, self.squares)
        if "nearest" in self.kinds:
            self._hold_out_nearest("nearest", gram, self.squares)
        if "collaborative" in self.kinds:
            self.collaborative = self._regress("collaborative", self._compare_atoms(gram))
        if "local" in self.kinds:
            self.local = self._regress("local", sharpen(self._compare_atoms(gram)))
        if "gaussian" in self.kinds:
            self._prepare_gaussian(gram)
        if "subspace" in self.kinds:
            self.subspaces = Subspaces(dictionary)
            if self._hold_outs:
                subspaces = HeldOutSubspaces(dictionary)
                for out, held in zip(self.held_out, self._hold_outs, strict=True):
                    out.by_kind["subspace"] = -subspaces.measure(held.test, held.removed, held.present)

    def _compare_atoms(self, gram: Array) -> Array:
        return self.similarity.compare(compute_squared_distances(gram, self.squares, self.squares))

    def _prepare_gaussian(self, gram: Array) -> None:
        # Relative to the mean square, so that very large or small features stay finite.
        self.unit = float(self.squares.mean()) or 1.0
        self.linear = linear = RidgeRegression(gram / self.unit, self._membership, GAUSSIAN_PENALTY)
        self.gaussian = GaussianClasses(linear.totals, GAUSSIAN_PENALTY, self.sizes)
        if not self._hold_outs:
            return
        ridge = linear.hold_out(self._removed)
        for out, held in zip(self.held_out, self._hold_outs, strict=True):
            scores, totals = ridge.score(held.removed)
            rows, present = np.searchsorted(held.removed, held.test), held.present
            sizes = self.sizes - np.bincount(self.class_of[held.removed], minlength=len(self.sizes))
            classes = GaussianClasses(totals[np.ix_(present, present)], GAUSSIAN_PENALTY, sizes[present])
            distances, background = classes.measure(scores[rows][:, present])
            out.by_kind["gaussian"] = -distances
            out.background.append(background)

    def _prepare_feature_scores(self, dictionary: Dictionary) -> None:
        """Prepare the kinds that are computed from standardized columns."""
        if not set(self.kinds) & set(NEED_FEATURES):
            return
        rows = dictionary.rows
        if rows is None:
            raise ValueError('standardized columns need features, which kernel="precomputed" does not have.')
        self.columns = StandardizedColumns(rows)
        self.rows = self.columns.transform(rows)
        self.row_squares = np.einsum("ij,ij->i", self.rows, self.rows)
        if not self._hold_outs and "standardized" not in self.kinds:
            return
        gram = self.rows @ self.rows.T
        if "standardized_nearest" in self.kinds:
            self._hold_out_nearest("standardized_nearest", gram, self.row_squares)
        if "standardized" in self.kinds:
            self.row_similarity = DecayingSimilarity(gram, self.row_squares)
            distances = compute_squared_distances(gram, self.row_squares, self.row_squares)
            del gram
            self.standardized = self._regress("standardized", self.row_similarity.compare(distances))

    def _regress(self, kind: str, similarities: Array) -> RidgeRegression:
        """Fit a ridge regression and score the held-out atoms; ``similarities`` are overwritten."""
        ridge = RidgeRegression(similarities, self._membership, COLLABORATIVE_PENALTY)
        if self._hold_outs:
            held_out = ridge.hold_out(self._removed)
            for out, held in zip(self.held_out, self._hold_outs, strict=True):
                scores, _ = held_out.score(held.removed)
                out.by_kind[kind] = scores[np.searchsorted(held.removed, held.test)][:, held.present]
        return ridge

    def _hold_out_nearest(self, kind: str, gram: Array, squares: Array) -> None:
        for out, held in zip(self.held_out, self._hold_outs, strict=True):
            own = squares[held.test]
            distances = compute_squared_distances(gram[held.test], own, squares)
            out.by_kind[kind] = -measure_nearest_without(distances, own, held.removed, self.class_of, held.present)

    # -- new samples -------------------------------------------------------------------------------------

    def score(self, queries: Queries) -> ClassScores:
        """Compute the class scores of new samples.

        Raises
        ------
        ValueError
            Where a kind needs features and ``queries`` has none.
        """
        out = ClassScores()
        self._score_by_kernel(queries, out)
        if set(self.kinds) & set(NEED_FEATURES):
            self._score_by_features(queries, out)
        return out

    def _score_by_kernel(self, queries: Queries, out: ClassScores) -> None:
        by_kind = out.by_kind
        if set(self.kinds) & {"collaborative", "local", "nearest"}:
            distances = compute_squared_distances(queries.cross, queries.squared_norms, self.squares)
            if "nearest" in self.kinds:
                by_kind["nearest"] = -measure_nearest(distances, queries.squared_norms, self.starts)
            if set(self.kinds) & {"collaborative", "local"}:
                similar = self.similarity.compare(distances)
                if "collaborative" in self.kinds:
                    by_kind["collaborative"] = self.collaborative.score(similar)
                if "local" in self.kinds:
                    by_kind["local"] = self.local.score(sharpen(similar))
        if "gaussian" in self.kinds:
            distances, background = self.gaussian.measure(self.linear.score(queries.cross) / self.unit)
            by_kind["gaussian"] = -distances
            out.background.append(background)
        if "subspace" in self.kinds:
            by_kind["subspace"] = -self.subspaces.measure(queries)

    def _score_by_features(self, queries: Queries, out: ClassScores) -> None:
        if queries.rows is None:
            raise ValueError(
                "X holds similarities alone, and this model also compares features in standardized columns: pass the "
                "samples themselves."
            )
        rows = self.columns.transform(queries.rows)
        squares = np.einsum("ij,ij->i", rows, rows)
        distances = compute_squared_distances(rows @ self.rows.T, squares, self.row_squares)
        if "standardized_nearest" in self.kinds:
            out.by_kind["standardized_nearest"] = -measure_nearest(distances, squares, self.starts)
        if "standardized" in self.kinds:
            out.by_kind["standardized"] = self.standardized.score(self.row_similarity.compare(distances))


def _join_removed(hold_outs: Sequence[HoldOut], n_atoms: int) -> IntArray | None:
    """Return the atoms that are ever removed, if they are few; None if they are many."""
    if not hold_outs:
        return None
    removed = np.unique(np.concatenate([held.removed for held in hold_outs]))
    return removed if _FEW * len(removed) < n_atoms else None


def sharpen(similarities: Array) -> Array:
    """Return the similarities of half the width, their fourth power, in place."""
    np.multiply(similarities, similarities, out=similarities)
    return np.multiply(similarities, similarities, out=similarities)

"""Class scores over dictionaries of any size, without a matrix of all atoms by all atoms.

The kinds are those of :mod:`.class_scores`. Ridge regressions use landmarks (:mod:`.landmarks`), subspaces are computed
class by class from sums of features or from the Gram matrix of the class (:mod:`.class_subspaces`), Gaussian classes
from sums of features where the kernel is linear, and neighbors in blocks of atoms. The regressions may be fitted to
more samples than are atoms: those of which the atoms of a small dictionary are a selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.threads import ThreadPool
from ..dictionary.dictionary import Dictionary, Queries, split_range, widen
from .class_scores import NEED_FEATURES, ClassScores, HoldOut
from .class_subspaces import ClassSubspaces
from .gaussian import GAUSSIAN_PENALTY, GaussianClasses
from .landmark_view import SMALL_LANDMARKS, LandmarkView, choose_landmarks
from .landmarks import LandmarkRegression, Regression, RegressionSamples
from .neighbors import NearestInBlocks
from .ridge import COLLABORATIVE_PENALTY
from .sampled_subspaces import SampledSubspaces

REGRESSIONS = ("collaborative", "local", "gaussian", "standardized")
# Atoms compared with samples at a time.
_TILE = 8192


#: Up to so many atoms class scores are exact, from matrices of all atoms by all atoms.
EXACT_ATOMS = 4096


def find_landmarks(dictionary: Dictionary) -> IntArray:
    """Return the landmarks of :func:`.fit_scorer`, which must not be scored while they are held out.

    A held-out sample that is a landmark scores higher than a new sample: functions of the regression have a peak
    where it lies. There are none where scores are exact.
    """
    if is_exact(dictionary):
        return np.empty(0, np.int64)
    landmarks = choose_landmarks(dictionary.n_atoms, len(dictionary.class_slices))
    return landmarks if len(landmarks) < dictionary.n_atoms else landmarks[:0]  # with all of them scores are exact


def is_exact(dictionary: Dictionary) -> bool:
    """Return whether class scores are computed from matrices of all atoms by all atoms."""
    return dictionary.is_precomputed or dictionary.n_atoms <= EXACT_ATOMS


class LandmarkScorer:
    """Scores samples by all kinds but ``residual``, over a dictionary of any size.

    Parameters
    ----------
    dictionary : Dictionary
        With labels and features.
    kinds : sequence of str
        From ``CLASS_SCORES``.
    view : LandmarkView
    regressions : dict
        The regression of each kind that is one.
    sizes : ndarray of int (n_classes,)
        Samples of each class that the regressions were fitted to.
    subspaces : ClassSubspaces, SampledSubspaces or None
        None if they are not among the kinds.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        kinds: Sequence[str],
        view: LandmarkView,
        regressions: dict[str, Regression],
        sizes: IntArray,
        subspaces: ClassSubspaces | SampledSubspaces | None,
    ) -> None:
        self.kinds, self.dictionary = tuple(kinds), dictionary
        self.view, self.regressions, self.sizes = view, regressions, sizes
        self.held_out: list[ClassScores] = []
        self.squares, self.class_of = dictionary.squared_norms, dictionary.class_of
        if "gaussian" in self.kinds:
            self.gaussian = GaussianClasses(regressions["gaussian"].totals, GAUSSIAN_PENALTY, sizes)
        self.subspaces = subspaces
        if "standardized_nearest" in self.kinds:
            assert view.columns is not None and dictionary.rows is not None
            self.rows = view.columns.transform_all(dictionary.rows)  # in single precision
            self.row_squares = np.einsum("ij,ij->i", self.rows, self.rows, dtype=np.float64)

    @classmethod
    def fit(
        cls,
        dictionary: Dictionary,
        kinds: Sequence[str],
        hold_outs: Sequence[HoldOut] = (),
        *,
        samples: RegressionSamples | None = None,
        like: LandmarkView | None = None,
        n_threads: int = 1,
    ) -> LandmarkScorer:
        """Fit the regressions to the atoms, or to other samples; compute the scores of atoms that are held out.

        Parameters
        ----------
        dictionary, kinds :
            See above.
        hold_outs : sequence of HoldOut
            Atoms to be scored as if others were not in the dictionary, none of :func:`find_landmarks` among them; their
            scores are ``held_out``, one for each.
        samples : RegressionSamples, optional
            Other samples than the atoms; then up to 2,000 atoms are all landmarks, and there are no hold-outs.
        like : LandmarkView, optional
            Whose scales are taken, instead of measuring those of the samples.
        n_threads : int
        """
        view, (rows, class_of, weights), sizes = prepare_landmarks(dictionary, kinds, samples, like)
        removed = [held.removed for held in hold_outs]

        def sum_up(kind: str, pool: ThreadPool) -> LandmarkRegression:
            penalty = GAUSSIAN_PENALTY if kind == "gaussian" else COLLABORATIVE_PENALTY
            return LandmarkRegression(
                lambda which: view.measure_rows(kind, rows[which]), view.find_transform(kind), class_of, penalty,
                removed, weights=weights, pool=pool,
            )  # fmt: skip

        fitted: dict[str, Regression] = {}
        scores = [ClassScores() for _ in hold_outs]
        with ThreadPool(n_threads if n_threads > 1 else 0) as pool:
            # One kind after the other: the sums of one are all that is in memory.
            for kind in [kind for kind in REGRESSIONS if kind in kinds]:
                sums = sum_up(kind, pool)
                fitted[kind] = sums.fit(with_totals=kind == "gaussian")  # only Gaussian classes use them
                regress = partial(_regress_held_out, kind, sums, sizes, hold_outs, scores)
                pool.map(regress, range(len(hold_outs)))
                del sums, regress
            subspaces: ClassSubspaces | SampledSubspaces | None = None
            if "subspace" in kinds:
                subspaces = ClassSubspaces(dictionary) if samples is None else SampledSubspaces.fit(dictionary, samples)
            scorer = cls(dictionary, kinds, view, fitted, sizes, subspaces)
            scorer.held_out = scores
            pool.map(lambda i: scorer._compare_held_out(scores[i], hold_outs[i]), range(len(hold_outs)))
        if isinstance(scorer.subspaces, ClassSubspaces):
            scorer.subspaces.forget_sums()
        return scorer

    # -- held-out atoms ----------------------------------------------------------------------------------

    def _compare_held_out(self, out: ClassScores, held: HoldOut) -> None:
        """Compute subspaces and neighbors of held-out atoms."""
        if isinstance(self.subspaces, ClassSubspaces):
            out.by_kind["subspace"] = -self.subspaces.measure_without(held.test, held.removed, held.present)
        for kind in ("nearest", "standardized_nearest"):
            if kind in self.kinds:
                squares = self.squares if kind == "nearest" else self.row_squares
                is_single = kind != "nearest"
                nearest = NearestInBlocks(squares[held.test], len(self.sizes), self.class_of, is_single=is_single)
                for tile in split_range(0, self.dictionary.n_atoms, _TILE):
                    if kind == "nearest":
                        products = self.dictionary.block(held.test, tile)
                    else:
                        products = widen(self.rows[held.test] @ self.rows[tile].T)
                    first, last = np.searchsorted(held.removed, [tile.start, tile.stop])
                    nearest.lower(products, squares[tile], tile, held.removed[first:last] - tile.start)
                out.by_kind[kind] = -nearest.finish()[:, held.present]

    # -- new samples -------------------------------------------------------------------------------------

    def score(self, queries: Queries) -> ClassScores:
        """Compute the class scores of new samples.

        Raises
        ------
        ValueError
            Where a kind needs features and ``queries`` has none.
        """
        if queries.rows is None and self._needs_features():
            raise ValueError(
                "X holds similarities alone, and this model also compares features: pass the samples themselves."
            )
        out, view = ClassScores(), self.view
        near = view.pick(queries)
        for kind, regression in self.regressions.items():
            if kind != "gaussian":
                out.by_kind[kind] = regression.score(view.compare(kind, near))
                continue
            distances, background = self.gaussian.measure(regression.score(view.compare(kind, near)))
            out.by_kind[kind] = -distances
            out.background.append(background)
        if self.subspaces is not None:
            out.by_kind["subspace"] = -self.subspaces.measure(queries)
        if "nearest" in self.kinds:
            nearest = NearestInBlocks(queries.squared_norms, len(self.sizes), self.class_of)
            for tile in split_range(0, self.dictionary.n_atoms, _TILE):
                nearest.lower(queries.cross[:, tile], self.squares[tile], tile)
            out.by_kind["nearest"] = -nearest.finish()
        if "standardized_nearest" in self.kinds:
            out.by_kind["standardized_nearest"] = -self._find_nearest_rows(view.standardize(queries))
        return out

    def _needs_features(self) -> bool:
        """Return whether some kind compares features, not similarities to atoms alone."""
        by_gaussian = "gaussian" in self.kinds and self.view.has_features
        by_subspace = self.subspaces is not None and self.subspaces.needs_features
        return bool(set(self.kinds) & set(NEED_FEATURES)) or by_gaussian or by_subspace

    def _find_nearest_rows(self, rows: Array) -> Array:
        """Return the distances to the nearest atoms on standardized columns."""
        rounded = rows.astype(self.rows.dtype, copy=False)
        squares = np.einsum("ij,ij->i", rounded, rounded, dtype=np.float64)
        nearest = NearestInBlocks(squares, len(self.sizes), self.class_of, is_single=True)
        for tile in split_range(0, self.dictionary.n_atoms, _TILE):
            nearest.lower(widen(rounded @ self.rows[tile].T), self.row_squares[tile], tile)
        return nearest.finish()


def prepare_landmarks(
    dictionary: Dictionary, kinds: Sequence[str], samples: RegressionSamples | None, like: LandmarkView | None
) -> tuple[LandmarkView, RegressionSamples, IntArray]:
    """Return the landmarks and their scales, the samples that regressions are fitted to, and the sizes of the classes.

    The arguments are those of :meth:`LandmarkScorer.fit`.
    """
    n_classes = len(dictionary.class_slices)
    if samples is None:
        assert dictionary.rows is not None
        samples = RegressionSamples(dictionary.rows, dictionary.class_of)
        landmarks = choose_landmarks(dictionary.n_atoms, n_classes)
    else:
        landmarks = choose_landmarks(dictionary.n_atoms, n_classes, least=SMALL_LANDMARKS)
    if like is None:
        by_columns = bool(set(kinds) & set(NEED_FEATURES))
        view = LandmarkView.measure(dictionary, landmarks, samples.rows, by_columns=by_columns)
    else:
        view = LandmarkView(dictionary, landmarks, like.width, like.unit, like.columns, like.row_width)
    sizes = np.rint(np.bincount(samples.class_of, samples.weights, minlength=n_classes)).astype(np.int64)
    return view, samples, sizes


def _regress_held_out(
    kind: str,
    sums: LandmarkRegression,
    sizes: IntArray,
    hold_outs: Sequence[HoldOut],
    scores: list[ClassScores],
    i: int,
) -> None:
    """Compute the regression scores of one hold-out."""
    out, held = scores[i], hold_outs[i]
    found, totals = sums.score_held_out(i, held.test, held.present, with_totals=kind == "gaussian")
    if kind != "gaussian":
        out.by_kind[kind] = found
        return
    left = sizes - np.bincount(sums.class_of[held.removed], minlength=len(sizes))
    distances, background = GaussianClasses(totals, GAUSSIAN_PENALTY, left[held.present]).measure(found)
    out.by_kind[kind] = -distances
    out.background.append(background)

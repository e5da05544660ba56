r"""Ridge regression of class membership on landmarks: for more samples than a matrix of all their similarities allows.

With similarities :math:`R_{SL}` between the samples and m *landmarks*, and :math:`R_{LL}` between the landmarks, the
regression over all samples is restricted to functions in the span of the landmarks (Nyström):

.. math:: f(y) = \rho_L^T T c, \qquad T T^T = R_{LL}^{+}, \quad \Phi = R_{SL}T, \quad
   c = (\Phi^T\Phi + \lambda I)^{-1}\Phi^T Y .

If all samples are landmarks this is the regression of :mod:`.ridge`. The cost grows with the number of samples, not
with its square: :math:`\Phi^T\Phi` and :math:`\Phi^TY` are sums over blocks of samples. To hold samples out, their part
of the sums is taken off. With the linear kernel over not too many features no landmarks are needed: the features
themselves are :math:`\Phi`.

References
----------
C. Williams, M. Seeger, "Using the Nyström method to speed up kernel machines", NIPS 2001. A. Rudi, R. Camoriano,
L. Rosasco, "Less is more: Nyström computational regularization", NIPS 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg

from .._support.array_types import AnyArray, Array, IntArray
from .._support.threads import ThreadPool
from ..dictionary.dictionary import split_range
from .ridge import solve_positive

# Samples whose similarities to the landmarks are in memory at a time, and samples that a thread sums up.
_BLOCK = 4096
_PART = 4 * _BLOCK
#: Directions of the landmarks whose share of the largest eigenvalue is below this are rounding.
RANK = 1e-10


class RegressionSamples(NamedTuple):
    """Samples that regressions are fitted to where these are not the atoms, sorted by class.

    ``rows`` are as the kernel sees them, ``class_of`` numbers their classes, and ``weights`` say how many samples each
    stands for (1 if None).
    """

    rows: AnyArray
    class_of: IntArray
    weights: Array | None = None


def whiten(similarities: Array) -> Array:
    """Return T with :math:`TT^T` the pseudo-inverse of the similarities between landmarks, one column a direction."""
    values, vectors = linalg.eigh(similarities, check_finite=False)
    kept = values > RANK * max(float(values[-1]), 0.0)
    return vectors[:, kept] / np.sqrt(values[kept])


@dataclass(frozen=True, eq=False)
class Regression:
    r"""The regression over all samples.

    Attributes
    ----------
    coefficients : ndarray (m, n_classes)
        :math:`Tc`: class scores are the similarities to the landmarks times these.
    totals : ndarray (n_classes, n_classes)
        :math:`Y^T(R + \lambda I)^{-1}Y`, as in :mod:`.ridge`; empty where they were not wanted.

    Both are C-contiguous, as they come from a file: on some processors products differ in the last bit otherwise.
    """

    coefficients: Array
    totals: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", np.ascontiguousarray(self.coefficients))
        object.__setattr__(self, "totals", np.ascontiguousarray(self.totals))

    def score(self, similarities: Array) -> Array:
        """Compute class scores, (n_samples, n_classes), of samples with these similarities to the landmarks."""
        return similarities @ self.coefficients


class LandmarkRegression:
    r"""The sums of a regression over all samples, and those without samples that are held out.

    Classes that are held out as a whole, and together, are summed up together: a hold-out that leaves classes out costs
    little more than one that does not.

    Parameters
    ----------
    compare : callable
        From numbers of samples to their similarities to the landmarks, (n, m).
    transform : ndarray (m, rank) or None
        T; None where the similarities are features already.
    class_of : ndarray of int
        The class of each sample, sorted.
    penalty : float
        :math:`\lambda`.
    held_out : sequence of ndarray of int
        Numbers of samples to be held out, sorted.
    weights : ndarray, optional
        How many samples each one stands for; 1 if not given.
    pool : ThreadPool, optional
        Each thread sums up a part of the samples at a time, in a matrix :math:`\Phi^T\Phi` of its own.
    """

    def __init__(
        self,
        compare: Callable[[IntArray], Array],
        transform: Array | None,
        class_of: IntArray,
        penalty: float,
        held_out: Sequence[IntArray] = (),
        *,
        weights: Array | None = None,
        pool: ThreadPool | None = None,
    ) -> None:
        self.compare, self.transform, self.class_of, self.penalty = compare, transform, class_of, penalty
        self.held_out, self.weights = held_out, weights
        self.n_classes = int(class_of.max()) + 1
        self.sizes = self._count(np.arange(len(class_of)))
        # Which classes each hold-out leaves without a sample, and groups of classes in which that is the same.
        self._is_whole = np.array([self._count(removed) == self.sizes for removed in held_out])
        self._is_whole = self._is_whole.reshape(len(held_out), self.n_classes)
        patterns, group_of = np.unique(self._is_whole, axis=1, return_inverse=True)
        parts: list[tuple[int, IntArray]] = []
        for group in range(patterns.shape[1]):
            samples = np.flatnonzero(group_of[class_of] == group)
            parts += [(group, samples[piece]) for piece in split_range(0, len(samples), _PART)]
        self._squares: Array | None = None
        self._by_class: Array | None = None
        self._off_squares: dict[int, Array] = {}
        pool = ThreadPool(0) if pool is None else pool
        # Always in the same order, so that the sums do not depend on the number of threads.
        for some in split_range(0, len(parts), max(pool.n_threads, 1)):
            sums = pool.map(self._sum_up, [samples for _, samples in parts[some]])
            for (group, _), part in zip(parts[some], sums, strict=True):
                self._add(part, np.flatnonzero(patterns[:, group]).tolist())

    def _count(self, samples: IntArray) -> IntArray:
        return np.bincount(self.class_of[samples], minlength=self.n_classes)

    def _map(self, samples: IntArray) -> Array:
        similar = self.compare(samples)
        return similar if self.transform is None else similar @ self.transform

    def _map_once(self, kept: IntArray) -> Callable[[IntArray], Array]:
        """Return :meth:`_map` that computes the features of some samples, unless they are very many, only once."""
        features = self._map(kept) if len(kept) <= _BLOCK else None

        def recall(samples: IntArray) -> Array:
            places = np.searchsorted(kept, samples)
            if features is None or not np.array_equal(kept.take(places, mode="clip"), samples):
                return self._map(samples)
            return features[places]

        return recall

    def _sum_up(
        self, samples: IntArray, get_features: Callable[[IntArray], Array] | None = None
    ) -> tuple[Array, IntArray, Array]:
        """Return the sum of the squares of samples, their classes, and the sums of these."""
        get_features = self._map if get_features is None else get_features
        squares: Array | None = None
        found, sums = [], []
        for block in split_range(0, len(samples), _BLOCK):
            features, classes = get_features(samples[block]), self.class_of[samples[block]]
            weighed = features if self.weights is None else features * self.weights[samples[block]][:, None]
            squares = features.T @ weighed if squares is None else np.add(squares, features.T @ weighed, out=squares)
            present, starts = np.unique(classes, return_index=True)
            found.append(present)
            sums.append(np.add.reduceat(weighed, starts, axis=0))
        assert squares is not None
        return squares, np.concatenate(found), np.concatenate(sums)

    def _add(self, part: tuple[Array, IntArray, Array], hold_outs: list[int]) -> None:
        """Add a part of the samples to the sums over all, and to those over what hold-outs leave out."""
        squares, classes, sums = part
        if self._squares is None or self._by_class is None:
            self._squares, self._by_class = np.zeros_like(squares), np.zeros((self.n_classes, len(squares)))
        self._squares += squares
        # A class may come twice, at the end of one block and the beginning of the next.
        np.add.at(self._by_class, classes, sums)
        for number in hold_outs:
            if number in self._off_squares:
                self._off_squares[number] += squares
            else:
                self._off_squares[number] = squares.copy()

    def fit(self, *, with_totals: bool = True) -> Regression:
        """Return the regression over all samples; the totals are empty if they are not wanted."""
        assert self._squares is not None and self._by_class is not None
        coefficients = self._solve(self._squares.copy(), self._by_class)
        totals = np.empty((0, 0))
        if with_totals:
            sizes = np.bincount(self.class_of, self.weights, minlength=self.n_classes)
            totals = self._compute_totals(coefficients, self._by_class, sizes)
        return Regression(coefficients if self.transform is None else self.transform @ coefficients, totals)

    def score_held_out(
        self, number: int, test: IntArray, present: IntArray, *, with_totals: bool = True
    ) -> tuple[Array, Array]:
        """Compute class scores of samples without those of ``held_out[number]``, of some classes, and the totals.

        The totals take long where there are many classes; they are empty if they are not wanted.
        """
        assert self._squares is not None and self._by_class is not None
        removed = self.held_out[number]
        # Those of classes that keep a sample: mostly the tests, whose features are needed again.
        some = removed[~self._is_whole[number][self.class_of[removed]]]
        get_features = self._map_once(test)
        system, by_class = self._squares.copy(), self._by_class.copy()
        if number in self._off_squares:
            system -= self._off_squares[number]
        for block in split_range(0, len(some), _PART):
            squares, classes, sums = self._sum_up(some[block], get_features)
            system -= squares
            np.subtract.at(by_class, classes, sums)
        coefficients = self._solve(system, by_class[present])
        scores = [get_features(test[block]) @ coefficients for block in split_range(0, len(test), _BLOCK)]
        totals = np.empty((0, 0))
        if with_totals:
            sizes = self.sizes - self._count(removed)
            totals = self._compute_totals(coefficients, by_class[present], sizes[present])
        return np.concatenate(scores), totals

    def _solve(self, system: Array, by_class: Array) -> Array:
        """Solve for the coefficients; the matrix of the system without the penalty is overwritten."""
        system[np.diag_indices_from(system)] += self.penalty
        return solve_positive(system, by_class.T)

    def _compute_totals(self, coefficients: Array, by_class: Array, sizes: AnyArray) -> Array:
        return (np.diag(sizes.astype(np.float64)) - by_class @ coefficients) / self.penalty

r"""The least-norm code: which of several optimal codes is returned.

Where atoms repeat or depend on each other, more than one code can be optimal. All optimal codes of a sample have the
same fit and the same :math:`\ell_1` norm, and an optimal dual point v bounds their supports and fixes their signs: with
:math:`E = \{j : |Y_j^Tv| = 1\}` and :math:`s_j = Y_j^Tv` for j in E, a code is optimal exactly if it has the fit of
another optimal code, is zero outside E and :math:`s_jx_j \ge 0` in E. (v is a multiple of the residual, or for a BPDN
epsilon out of reach the dual point of basis pursuit; whichever dual point is taken, the set of codes is the same.) Of
these codes the one of least :math:`\ell_2` norm is returned, which depends on neither the solver nor the order of the
atoms:

.. math:: \min \|z\|^2 \quad\text{subject to}\quad Y_ESz = Yx, \quad z \ge 0, \quad S = \mathrm{diag}(s).

It has three parts, each computed only where it is needed:

1. Copies of an atom share its coefficient equally. If the distinct atoms of E are independent, this is all.
2. Else null vectors N of the distinct atoms come from a pivoted Cholesky factor of their Gram matrix, and the code
   loses its part along them, :math:`z_0 = z - NN^Tz`.
3. If :math:`z_0` has negative entries, :math:`\min\|u\|^2` subject to :math:`z_0 + Nu \ge 0` is a problem of least
   distance: a division for one null vector, else solved by nonnegative least squares.

A code that replaces another one gets its certificate in the same way, and replaces it only if that holds as well. Atoms
closer to each other than Gram quantities resolve, about 1e-7 of their length, count as copies.

References
----------
C. L. Lawson, R. J. Hanson, "Solving least squares problems", 1974, chapter 23 (least distance programming).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import linalg

from .._support.array_types import Array, IntArray
from .._support.compiled import loop
from .batch import Batch
from .certificate import Certificate, Measures, divide, find_dual, measure
from .products import Products
from .sparse_rows import SparseRows, place_rows, to_sparse_rows
from .spectrum import RANK, ROUNDING, Spectrum

# Dual constraints within this share of the largest are tight: of codes by the homotopy, and of those by other solvers.
TIGHT, NEARLY_TIGHT = 1e-9, 1e-7
# The l1 norm of a code may grow by this share when it is replaced.
SLACK = 1e-8
# Coefficients below this share of the largest are rounding.
_ZERO = 1e-13
# Entries of unit null vectors below this are rounding: their atoms depend on no others.
_UNINVOLVED = 1e-10
# By so much coefficients may be negative while the least distance is searched. Where some of them are zero in all
# optimal codes, rounding would otherwise leave no code at all.
_ROOM = 1e-12
_UNIQUE, _SHARED, _DEPENDENT = 0, 1, 2


@loop()
def _count_tight(cross, image, least, counts):
    """Count for each row the atoms whose correlation with the residual, c - Gx, is at least of a given size."""
    for r in range(cross.shape[0]):
        count = 0
        for j in range(cross.shape[1]):
            if abs(cross[r, j] - image[r, j]) >= least[r]:
                count += 1
        counts[r] = count


@loop()
def _share(gram, indptr, atoms, signs, z, group, firsts, sums, factor, outcome):
    """Share the coefficients z of each row among copies, in place, and say whether its distinct atoms are independent.

    ``group`` gets the number of each atom's group of copies; the other arrays are workspaces.
    """
    for r in range(len(outcome)):
        start, stop, n, independent = indptr[r], indptr[r + 1], 0, True
        for i in range(start, stop):
            a = atoms[i]
            square, k = gram[a, a], 0
            while k < n:
                b = atoms[firsts[k]]
                distance2 = square + gram[b, b] - 2.0 * signs[i] * signs[firsts[k]] * gram[a, b]
                if distance2 <= RANK * square:
                    break
                k += 1
            group[i] = k
            if k < n:
                sums[0, k] += z[i]
                sums[1, k] += 1.0
                continue
            firsts[n], sums[0, n], sums[1, n] = i, z[i], 1.0
            n += 1
            if not independent:
                continue
            pivot = square
            for k in range(n - 1):
                b = firsts[k]
                t = signs[i] * signs[b] * gram[a, atoms[b]]
                for m in range(k):
                    t -= factor[n - 1, m] * factor[k, m]
                t /= factor[k, k]
                factor[n - 1, k] = t
                pivot -= t * t
            independent = pivot > RANK * square
            if independent:
                factor[n - 1, n - 1] = np.sqrt(pivot)
        if not independent:
            outcome[r] = _DEPENDENT
        elif n == stop - start:
            outcome[r] = _UNIQUE
        else:
            outcome[r] = _SHARED
            for i in range(start, stop):
                z[i] = sums[0, group[i]] / sums[1, group[i]]


@dataclass
class DualPoints:
    """Dual points of a chunk of codes, where they are not multiples of the residuals.

    Attributes
    ----------
    duals : SparseRows (n, N) or None
        z of v = Yz.
    images : dict
        Images Y'v of dual points in the span's coordinates, by row.
    again : ndarray of bool (n,)
        Rows that were certified or solved again, by other means than the path.
    """

    duals: SparseRows | None
    again: np.ndarray
    images: dict[int, Array] = field(default_factory=dict)

    def complete(self, rows: IntArray, codes: SparseRows, products: Products) -> SparseRows:
        """Return z of some rows, read off the codes and kept where the solver proposed none."""
        found = np.zeros(codes.shape) if self.duals is None else self.duals.toarray()
        for row in rows[~found[rows].any(axis=1)]:
            z = find_dual(codes, row, products)
            if z is not None:
                found[row, z.indices] = z.data
        self.duals = to_sparse_rows(found)
        return self.duals.take(rows)


class _Choices(NamedTuple):
    """The optimal codes of some samples: the atoms E that may take part, with their signs, and the z of one code."""

    rows: IntArray
    indptr: IntArray
    atoms: IntArray
    signs: Array
    z: Array

    @property
    def counts(self) -> IntArray:
        """The number of atoms of each sample."""
        return self.indptr[1:] - self.indptr[:-1]

    @classmethod
    def find(cls, rows: IntArray, codes: SparseRows, correlations: Array, tight: np.ndarray) -> _Choices:
        """Return the choices where the image of a dual point has the signs of ``correlations`` and is tight."""
        dense = codes.toarray()
        chosen = tight | (dense != 0)
        at, atoms = map(np.ascontiguousarray, np.nonzero(chosen))
        values = dense[at, atoms]
        # The sign of a coefficient that should be zero is rounding.
        signs = np.sign(np.where(tight[at, atoms], correlations[at, atoms], values))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=len(rows)))])
        return cls(rows, indptr, atoms, signs, np.maximum(signs * values, 0.0))

    def take_row(self, i: int) -> _Choices:
        """Return the choices of one sample; its z is a view."""
        part = slice(self.indptr[i], self.indptr[i + 1])
        atoms = self.atoms[part]
        return _Choices(self.rows[i : i + 1], np.array([0, len(atoms)]), atoms, self.signs[part], self.z[part])

    def minimize(self, gram: Array) -> np.ndarray:
        """Minimize the norm of z, in place, over a Gram matrix of all atoms; return which rows have changed."""
        most = int(self.counts.max(initial=0))
        group, firsts = np.empty(len(self.atoms), np.int64), np.empty(most, np.int64)
        sums, factor = np.empty((2, most)), np.empty((most, most))
        outcome = np.empty(len(self.rows), np.int64)
        _share(gram, self.indptr, self.atoms, self.signs, self.z, group, firsts, sums, factor, outcome)
        for r in np.flatnonzero(outcome == _DEPENDENT):
            part = slice(self.indptr[r], self.indptr[r + 1])
            own = group[part]
            weights = np.sqrt(np.bincount(own))
            first = np.empty(len(weights), np.int64)
            first[own[::-1]] = np.arange(len(own))[::-1]
            atoms, signs = self.atoms[part][first], self.signs[part][first]
            inner = gram[atoms[:, None], atoms] * (signs[:, None] * signs)
            shared = np.bincount(own, self.z[part]) / weights
            self.z[part] = (_minimize_dependent(inner, weights, shared) / weights)[own]
        return outcome != _UNIQUE

    def to_codes(self, n_atoms: int) -> SparseRows:
        """Return the codes, without coefficients that are rounding."""
        at = np.repeat(np.arange(len(self.rows)), self.counts)
        largest = np.zeros(len(self.rows))
        np.maximum.at(largest, at, self.z)
        keep = self.z > _ZERO * largest[at]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(at[keep], minlength=len(self.rows)))])
        return SparseRows(indptr, self.atoms[keep], (self.signs * self.z)[keep], (len(self.rows), n_atoms))


def _minimize_dependent(inner: Array, weights: Array, z: Array) -> Array:
    """Return the shortest z' >= 0 with the same fit as z, for atoms times ``weights`` with Gram matrix ``inner``.

    The atoms are scaled to unit length for the rank, so that a short one counts as much as a long one.
    """
    lengths = np.sqrt(np.diagonal(inner))
    factor, order, rank, _ = linalg.lapack.dpstrf(inner / (lengths[:, None] * lengths), tol=RANK)
    n, size = len(z), float(z.max())
    if rank == n or size == 0.0:
        return z
    null = np.empty((n, n - rank))
    null[order[:rank] - 1] = linalg.lapack.dtrtrs(factor[:rank, :rank], factor[:rank, rank:])[0]
    null[order[rank:] - 1] = -np.eye(n - rank)
    null = _orthonormalize(null / (lengths * weights)[:, None])
    null[np.abs(null).max(axis=1) <= _UNINVOLVED] = 0.0
    shortest = z - null @ (null.T @ z)
    if shortest.min() >= -_ZERO * size:
        return shortest
    if n - rank == 1:
        return size * _move_least(null[:, 0], shortest / size)
    found = _find_least_distance(null, shortest / size)
    return z if found is None else found * size


def _orthonormalize(columns: Array) -> Array:
    """Return orthonormal columns with the same span."""
    if columns.shape[1] == 1:
        return columns / np.linalg.norm(columns)
    return np.linalg.qr(columns)[0]


def _move_least(null: Array, start: Array) -> Array:
    """Return start + u null >= 0 with the least |u|, the common case of a single null vector in closed form."""
    involved = null != 0.0
    limits = -start[involved] / null[involved]
    upward = null[involved] > 0.0
    least, most = limits[upward].max(initial=-np.inf), limits[~upward].min(initial=np.inf)
    step = least if least > 0.0 else min(most, 0.0)
    out = start + step * null
    out[np.flatnonzero(involved)[limits == step]] = 0.0
    return out


def _find_least_distance(null: Array, start: Array) -> Array | None:
    """Return start + null u >= 0 with the shortest u, for orthonormal ``null``; None if it is not found."""
    from scipy import optimize

    goal = np.zeros(null.shape[1] + 1)
    goal[-1] = 1.0
    involved = null.any(axis=1)
    system = np.vstack([null.T, -(start + _ROOM)])
    try:
        prices, _ = optimize.nnls(system[:, involved], goal)
    except RuntimeError:  # too many iterations
        return None
    left = system[:, involved] @ prices - goal
    found = start - null @ (left[:-1] / left[-1])
    bound = np.flatnonzero(involved)[prices > 0]
    # The same with the entries that are zero known, which is accurate to rounding.
    step = np.linalg.lstsq(null[bound], -start[bound], rcond=None)[0]
    polished = start + null @ step
    polished[bound] = 0.0
    return polished if polished.min() >= -_ZERO * start.max() else found


def _complement(images: Array, codes: Array) -> Array:
    """Return how well dual points and codes prove each other optimal, as a share of the l1 norm: 1 at the optimum."""
    size = np.abs(images).max(axis=1) * np.abs(codes).sum(axis=1)
    return divide(np.einsum("ij,ij->i", images, codes), size, otherwise=0.0)


class LeastNorm:
    """Replaces optimal codes by those of least norm.

    Parameters
    ----------
    batch : Batch
        Of a problem that has a ``path_end``.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def replace_codes(
        self, codes: SparseRows, certificate: Certificate, measures: Measures, points: DualPoints
    ) -> tuple[SparseRows, Certificate]:
        """Return the codes of least norm of a chunk, with their certificates.

        Parameters
        ----------
        codes : SparseRows (n, N)
        certificate : Certificate
        measures : Measures
            Of the codes that the solver found, before some were solved again.
        points : DualPoints
        """
        batch, sums = self.batch, measures.sums
        if batch.bound_inverse is not None:  # all atoms are independent
            return codes, certificate
        settled = certificate.holds(batch.tol) & (codes.counts > 0)
        # The residual is the dual point where (Y'r)'x is the largest |Y'r| times the l1 norm.
        proves = sums.aligned - sums.quadratic >= (1.0 - NEARLY_TIGHT) * sums.peak * sums.l1
        direct = settled & proves & ~points.again
        ties = self._find_ties(np.flatnonzero(direct), codes, measures)
        if ties is not None:
            codes, certificate = self._replace(ties, codes, certificate, measures, points.duals)
        others = np.flatnonzero(settled & ~direct)
        spectrum = batch.spectrum if points.again[others].any() else None
        in_span = points.again[others] if spectrum is not None else np.zeros(len(others), dtype=bool)
        for rows, span in ((others[~in_span], None), (others[in_span], spectrum)):
            if len(rows):
                ties, images = self._find_other_ties(rows, codes, measures, points, span)
                codes, certificate = self._replace(
                    ties, codes, certificate, measures, points.duals, spectrum=span, images=images
                )
        return codes, certificate

    def _find_ties(self, rows: IntArray, codes: SparseRows, measures: Measures) -> _Choices | None:
        """Return the choices of codes with more tight atoms than they use; None if there are no such codes."""
        m = measures
        blur = ROUNDING * (m.length + m.sums.reach) * float(m.products.lengths.max())
        least = (1.0 - TIGHT) * m.sums.peak - 2.0 * blur
        counts = np.empty(len(m), np.int64)
        _count_tight(m.cross, m.image, least, counts)
        rows = rows[counts[rows] > codes.counts[rows]]
        if len(rows) == 0:
            return None
        correlations = m.cross[rows] - m.image[rows]
        return _Choices.find(rows, codes.take(rows), correlations, np.abs(correlations) >= least[rows, None])

    def _find_other_ties(
        self, rows: IntArray, codes: SparseRows, measures: Measures, points: DualPoints, spectrum: Spectrum | None
    ) -> tuple[_Choices, Array]:
        """Return the choices of codes that were solved again or whose dual point is not the residual, and its images.

        Of the residual and the dual point that was proposed, the better one is taken; the residual may be rounding.
        """
        products, cross, some = self.batch.products, measures.cross[rows], codes.take(rows)
        if spectrum is None:
            images, proposed = cross - products.times(some), products.times(points.complete(rows, codes, products))
        else:
            images = spectrum.compute_image(spectrum.compute_residual(some.csr(), cross)[0])
            none = np.zeros(codes.shape[1])
            proposed = np.stack([points.images.get(int(row), none) for row in rows])
        x = some.toarray()
        images = np.where((_complement(proposed, x) >= _complement(images, x) - TIGHT)[:, None], proposed, images)
        images /= np.abs(images).max(axis=1, keepdims=True) + np.finfo(np.float64).tiny
        return _Choices.find(rows, some, images, np.abs(images) >= 1.0 - NEARLY_TIGHT), images

    def _replace(
        self, choices: _Choices, codes: SparseRows, old: Certificate, measures: Measures, duals: SparseRows | None,
        *, spectrum: Spectrum | None = None, images: Array | None = None,
    ) -> tuple[SparseRows, Certificate]:  # fmt: skip
        """Return the codes with those of least norm in place of some, where these are certified as well."""
        batch = self.batch
        changed = np.flatnonzero(self._minimize(choices, old.infeasible[choices.rows], spectrum))
        rows = choices.rows[changed]
        if len(rows) == 0:
            return codes, old
        fresh = choices.to_codes(codes.shape[1])
        fresh = fresh if len(changed) == len(choices.rows) else fresh.take(changed)
        new = batch.problem.certify(
            measure(fresh, measures.cross[rows], measures.squared_norms[rows], batch.products, spectrum),
            batch.tol,
            None if duals is None or spectrum is not None else duals.take(rows),
            None if images is None or spectrum is None else images[changed],
        )
        good = new.holds(batch.tol) & (new.infeasible == old.infeasible[rows])
        good &= new.objective <= (1.0 + SLACK) * old.objective[rows]
        stays = np.ones(len(measures), dtype=bool)
        stays[rows[good]] = False
        kept, chosen = np.flatnonzero(stays), fresh if good.all() else fresh.take(np.flatnonzero(good))
        codes = place_rows(codes.shape, (kept, codes.take(kept)), (rows[good], chosen))
        return codes, old.replace_rows(rows[good], new, good)

    def _minimize(self, choices: _Choices, infeasible: np.ndarray, spectrum: Spectrum | None) -> np.ndarray:
        """Minimize the norms of the choices in place; return which have changed.

        For an epsilon out of reach the atoms are those in the span's coordinates, if there are any.
        """
        if self.batch.gram is not None and spectrum is None:
            return choices.minimize(self.batch.gram)
        changed = np.zeros(len(choices.rows), dtype=bool)
        for i, out_of_reach in enumerate(infeasible):
            one = choices.take_row(i)
            if spectrum is not None and out_of_reach:
                scaled = spectrum.vectors[one.atoms] * spectrum.lengths[one.atoms, None]
                inner = scaled @ scaled.T
            else:
                inner = self.batch.products.block(one.atoms, one.atoms)
            changed[i] = one._replace(atoms=np.arange(len(one.atoms))).minimize(inner)[0]
        return changed

r"""The certificate: how far a code can be from optimal, computed from the code alone.

Nothing here is shared with the solvers but, over nearly dependent atoms, the coordinates of :mod:`.spectrum`. For a
code x with residual :math:`r = y - Yx` a dual point v gives a lower bound D on the optimum; the relative gap is
:math:`(P - D)/P` with P the code's own objective (0 where P = 0):

=============  ==========================================  ==================================================
problem        objective P                                 bound D
=============  ==========================================  ==================================================
Lasso          :math:`\tfrac12\|r\|^2 + \alpha\|x\|_1`      :math:`\langle y,v\rangle - \tfrac12\|v\|^2`,
                                                           :math:`\|Y^Tv\|_\infty \le \alpha`, v a multiple of r
BPDN           :math:`\|x\|_1`                              :math:`\langle y,v\rangle - \epsilon\|v\|`,
                                                           :math:`\|Y^Tv\|_\infty \le 1`
BPDN, out of   :math:`\|x\|_1`                              :math:`\langle Py,v\rangle`,
reach                                                      :math:`\|Y^Tv\|_\infty \le 1`
Ridge          :math:`\tfrac12\|r\|^2+\tfrac\alpha2\|x\|^2` :math:`\langle y,v\rangle - \tfrac12\|v\|^2
                                                           - \tfrac1{2\alpha}\|Y^Tv\|^2`, v a multiple of r
=============  ==========================================  ==================================================

Beside the gap stands the constraint violation, relative to :math:`\|y\|`: for BPDN :math:`(\|r\| - \epsilon)_+`, for
an epsilon out of reach :math:`\|Y^Tr\|_\infty` with atoms of unit length, which is zero exactly where :math:`Yx = Py`.
For the latter, and wherever r is too short to point anywhere, v lies in the span of the atoms, :math:`v = Yz`; a
solver may propose z, else it is read off the code: :math:`G_{AA}z_A = \mathrm{sign}(x_A)`. Where atoms are so nearly
dependent that z is huge and its image :math:`Y^Tv = Gz` drowns in rounding, the image itself is proposed, :math:`p =
Y^Tv`: after projection on the range of G it gives the bound :math:`t^TV^Tp / \|p\|_\infty` in the coordinates of
:mod:`.spectrum`.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy import linalg

from .._support.array_types import Array, IntArray
from .problems import BPDN, OMP, Lasso, Problem, Ridge
from .products import Products
from .sparse_rows import Rows
from .spectrum import ROUNDING, Spectrum

# A relative gap below this needs no better dual point.
_CLEAR = 1e-10


@dataclass(frozen=True)
class Certificate:
    """What is known of each code of a batch."""

    residual_norm: Array
    least_residual: Array  # what is left of it when rounding is taken off
    objective: Array
    gap: Array
    violation: Array
    infeasible: np.ndarray  # BPDN codes judged as Yx = Py

    def holds(self, tol: float) -> np.ndarray:
        """Which codes are certified to ``tol``; a code without a gap counts as certified."""
        return (np.isnan(self.gap) | (self.gap <= tol)) & (self.violation <= tol)

    def replaced(self, rows: IntArray, other: Certificate, chosen: np.ndarray) -> Certificate:
        """This certificate with some rows from another one."""
        fields = []
        for mine, theirs in zip(astuple(self), astuple(other), strict=True):
            mine[rows] = theirs[chosen]
            fields.append(mine)
        return Certificate(*fields)


def certify(
    problem: Problem,
    codes: Rows,
    cross: Array,
    squared_norms: Array,
    products: Products,
    tol: float,
    witness: Rows | None = None,
    images: Array | None = None,
    spectrum: Spectrum | None = None,
) -> Certificate:
    """Certify a batch of codes.

    Parameters
    ----------
    problem : Problem
    codes : Rows (n, N)
    cross : ndarray (n, N)
        Inner products of samples and atoms.
    squared_norms : ndarray (n,)
    products : Products
        Products with the Gram matrix.
    tol : float
        Accuracy aimed at: for BPDN it tells a residual at epsilon from an epsilon out of reach.
    witness : Rows (n, N), optional
        Dual points z proposed by a solver (empty rows where it has none). They are checked, not trusted.
    images : ndarray (n, N), optional
        For BPDN, proposed images Y'v of dual points instead (zero where there is none); they are projected on the
        range of the Gram matrix, which ``spectrum`` knows.
    spectrum : Spectrum, optional
        Where it is given residuals are computed in its coordinates: Gram quantities are squares, and over nearly
        dependent atoms, where codes are large, the residual drowns in their rounding.
    """
    n = len(cross)
    length = np.sqrt(squared_norms)
    inner, within2 = None, None
    if spectrum is None:
        image = products.times(codes)
    else:
        inner, within2 = spectrum.residual(codes.csr(), cross)
        image = cross - spectrum.image(inner)
    seen = _looks(codes, cross, image, length, products.lengths)
    l1 = seen.l1
    # What rounding may have done to <y, r> and to |r|^2, and the bounds of |r| that leaves.
    blur = ROUNDING * (squared_norms + seen.sizes)
    if spectrum is None or inner is None or within2 is None:
        residual2 = np.maximum(squared_norms - 2 * seen.aligned + seen.quadratic, 0.0)
        blur2 = ROUNDING * (squared_norms + 2 * seen.sizes + seen.reach**2)
        at_most, at_least = np.sqrt(residual2 + blur2), np.sqrt(np.maximum(residual2 - blur2, 0.0))
    else:
        residual2 = np.maximum(squared_norms - within2, 0.0) + np.einsum("ij,ij->i", inner, inner)
        lost2 = ROUNDING * squared_norms
        unseen = spectrum.blur * length + (spectrum.dropped + ROUNDING) * seen.reach
        at_most = np.sqrt(residual2 + lost2) + unseen
        at_least = np.maximum(np.sqrt(np.maximum(residual2 - lost2, 0.0)) - unseen, 0.0)
        blur2 = at_most**2 - at_least**2
    residual = np.sqrt(residual2)
    toward = squared_norms - seen.aligned  # <y, r>
    never = np.zeros(n, dtype=bool)
    none = np.zeros(n)

    if isinstance(problem, Lasso):
        objective = 0.5 * residual2 + problem.alpha * l1
        limit = _over(np.full(n, problem.alpha), seen.peak, otherwise=np.inf)
        stretch = np.clip(_over(toward, residual2, otherwise=0.0), -limit, limit)
        bound = stretch * toward - 0.5 * stretch**2 * residual2
        bound -= np.abs(stretch) * blur + 0.5 * (1.0 + stretch**2) * blur2
        return Certificate(residual, at_least, objective, _gap(objective, bound), none, never)
    if isinstance(problem, Ridge):
        objective = 0.5 * residual2 + 0.5 * problem.alpha * seen.squares
        unseen = ROUNDING * (length + seen.reach) * np.linalg.norm(products.lengths)
        cost = residual2 + blur2 + (np.sqrt(seen.power) + unseen) ** 2 / problem.alpha
        bound = 0.5 * _over(np.maximum(toward - blur, 0.0) ** 2, cost, otherwise=0.0) - 0.5 * blur2
        return Certificate(residual, at_least, objective, _gap(objective, bound), none, never)
    if isinstance(problem, OMP):
        return Certificate(residual, at_least, 0.5 * residual2, np.full(n, np.nan), none, never)
    if not isinstance(problem, BPDN):
        raise TypeError(f"there is no certificate for {problem!r}")

    epsilon = problem.epsilon
    excess = np.where(length <= epsilon, residual, at_most) - epsilon
    excess = _over(np.maximum(excess, 0.0), length, otherwise=0.0)
    infeasible = excess > tol
    violation = np.where(infeasible, _over(seen.slant, length, otherwise=0.0), excess)
    fair = toward - epsilon * at_most - blur
    bound = np.where(infeasible, -np.inf, _over(fair, seen.peak, otherwise=-np.inf))
    if witness is not None:
        open_ = np.flatnonzero((_gap(l1, bound) > _CLEAR) & (witness.counts > 0))
        found = _bound_in_span(
            witness.take(open_), cross[open_], squared_norms[open_], epsilon, infeasible[open_], products
        )
        bound[open_] = np.maximum(bound[open_], found)
    if images is not None and spectrum is not None:
        open_ = np.flatnonzero((_gap(l1, bound) > _CLEAR) & images.any(axis=1))
        found = _bound_by_image(images[open_], cross[open_], squared_norms[open_], epsilon, infeasible[open_], spectrum)
        bound[open_] = np.maximum(bound[open_], found)
    for i in np.flatnonzero(_gap(l1, bound) > tol):
        z = _dual_from_support(codes, i, products)
        if z is not None:
            one = slice(i, i + 1)
            found = _bound_in_span(z, cross[one], squared_norms[one], epsilon, infeasible[one], products)
            bound[i] = max(bound[i], found[0])
    return Certificate(residual, at_least, l1, _gap(l1, bound), violation, infeasible)


class _Looks(NamedTuple):
    """What is asked of each code x, its sample's correlations c and its image Gx."""

    l1: Array
    squares: Array  # |x|^2
    aligned: Array  # x'c
    sizes: Array  # the sum of |x_j c_j|
    quadratic: Array  # x'Gx
    reach: Array  # the sum of |x_j| times the lengths of the atoms
    peak: Array  # the largest |c - Gx|, with what rounding may have taken from it
    slant: Array  # the largest |c - Gx| / length
    power: Array  # |c - Gx|^2
    height: Array  # the largest |Gx|, with its rounding


def _looks(codes: Rows, cross: Array, image: Array, length: Array, lengths: Array) -> _Looks:
    return _Looks(*_look(codes.indptr, codes.indices, codes.data, cross, image, length, lengths))


@njit(cache=True, nogil=True, error_model="numpy")
def _look(indptr, indices, data, cross, image, length, lengths):
    """The rows of :class:`_Looks`, in one look at the arrays."""
    n = cross.shape[0]
    out = np.zeros((10, n))
    for r in range(n):
        reach = 0.0
        for i in range(indptr[r], indptr[r + 1]):
            x, j = data[i], indices[i]
            out[0, r] += abs(x)
            out[1, r] += x * x
            out[2, r] += x * cross[r, j]
            out[3, r] += abs(x * cross[r, j])
            out[4, r] += x * image[r, j]
            reach += abs(x) * lengths[j]
        peak, slant, power, top = 0.0, 0.0, 0.0, 0.0
        for j in range(cross.shape[1]):
            d = abs(cross[r, j] - image[r, j])
            if d == 0.0 and image[r, j] == 0.0:
                continue
            margin = ROUNDING * lengths[j]
            peak = max(peak, d + margin * (length[r] + reach))
            top = max(top, abs(image[r, j]) + margin * reach)
            slant = max(slant, d / lengths[j])
            power += d * d
        if not (np.isfinite(power) and np.isfinite(top)):  # a maximum may step over what is not a number
            peak, slant, top = np.nan, np.nan, np.nan
        out[5, r], out[6, r], out[7, r], out[8, r], out[9, r] = reach, peak, slant, power, top
    return out


def _over(a: Array, b: Array, otherwise: float) -> Array:
    """a / b, ``otherwise`` where b is zero."""
    out = np.full(np.shape(a), otherwise)
    np.divide(a, b, out=out, where=b > 0)
    return out


def _gap(objective: Array, bound: Array) -> Array:
    """Relative gap: 0 where the objective is 0, infinite where a number is missing, since that proves nothing."""
    gap = np.maximum(_over(objective - bound, objective, otherwise=0.0), 0.0)
    return np.where(np.isfinite(objective) & ~np.isnan(bound), gap, np.inf)


def _dual_from_support(codes: Rows, i: Any, products: Products) -> Rows | None:
    """z with (Gz)_A = sign(x_A), zero elsewhere."""
    part = slice(codes.indptr[i], codes.indptr[i + 1])
    keep = codes.data[part] != 0
    support, signs = codes.indices[part][keep], np.sign(codes.data[part][keep])
    if len(support) == 0:
        return None
    inner = products.block(support, support)
    try:
        values = linalg.cho_solve(linalg.cho_factor(inner, check_finite=False), signs, check_finite=False)
    except linalg.LinAlgError:
        values = linalg.lstsq(inner, signs, check_finite=False)[0]
    return Rows(np.array([0, len(support)]), support, values, (1, codes.shape[1]))


def _bound_in_span(
    z: Rows, cross: Array, squared_norms: Array, epsilon: float, infeasible: np.ndarray, products: Products
) -> Array:
    """The bounds that v = Yz gives after scaling to feasibility."""
    if len(cross) == 0:
        return np.zeros(0)
    seen = _looks(z, cross, products.times(z), np.sqrt(squared_norms), products.lengths)
    length = np.sqrt(np.maximum(seen.quadratic + ROUNDING * seen.reach**2, 0.0))
    value = seen.aligned - ROUNDING * seen.sizes - np.where(infeasible, 0.0, epsilon) * length
    return _over(value, seen.height, otherwise=-np.inf)


def _bound_by_image(
    images: Array, cross: Array, squared_norms: Array, epsilon: float, infeasible: np.ndarray, spectrum: Spectrum
) -> Array:
    """The bounds that proposed images Y'v give after projection on the range of the Gram matrix.

    Within reach v may have a part outside the span, b (y - Py) with b chosen best, which leaves of epsilon what the
    span has to explain. Atoms see that part only by directions below the rank tolerance; what they see counts, and if
    v is long that is more than the part is worth: the better of the bounds with it and without it is returned.
    Sums lose their rounding; the coordinates of the sample are taken as they are.
    """
    vectors, lengths = spectrum.vectors, spectrum.lengths
    along = (images / lengths) @ vectors
    terms = along * spectrum.coordinates(cross)
    value = terms.sum(axis=1) - ROUNDING * np.abs(terms).sum(axis=1)
    length = np.sqrt(np.einsum("ij,ij->i", along, along / spectrum.values))
    floor2 = spectrum.least_squares_residual(cross, squared_norms) ** 2
    inside2 = epsilon * epsilon - np.maximum(floor2 - spectrum.reach_blur * squared_norms, 0.0)
    height = along @ vectors.T * lengths
    blur = ROUNDING * np.sqrt(np.einsum("ij,ij->i", along, along)) * lengths.max(initial=0.0)
    # No part outside: epsilon is then paid in full.
    alone = value - np.where(infeasible, 0.0, epsilon * length * (1.0 + ROUNDING))
    bound = _over(alone, np.abs(height).max(axis=1, initial=0.0) + blur, otherwise=-np.inf)
    inside = np.sqrt(np.maximum(inside2, 0.0))
    value = value - inside * length * (1.0 + ROUNDING)
    outside = cross - ((cross / lengths) @ vectors) @ vectors.T * lengths
    height += _over(length, inside, otherwise=0.0)[:, None] * outside
    both = _over(value, np.abs(height).max(axis=1, initial=0.0) + blur, otherwise=-np.inf)
    bound = np.where(infeasible | (inside2 <= 0.0), bound, np.maximum(bound, both))
    return np.where(
        infeasible, bound, np.maximum(bound, _bound_by_fine_image(images, cross, squared_norms, epsilon, spectrum))
    )


def _bound_by_fine_image(
    images: Array, cross: Array, squared_norms: Array, epsilon: float, spectrum: Spectrum
) -> Array:
    """The same without a rank: over all directions in which a residual can be judged, paid for by their rounding.

    Directions below the rank tolerance are real ones; where a code is long it is so along these.
    """
    steady = spectrum.steady
    point = (images / spectrum.lengths) @ spectrum.fine_vectors[:, :steady] / spectrum.singular[:steady]
    size = np.sqrt(np.einsum("ij,ij->i", point, point))
    terms = point * spectrum.along(cross)[:, :steady]
    value = terms.sum(axis=1) - ROUNDING * np.abs(terms).sum(axis=1)
    value -= (epsilon * (1.0 + ROUNDING) + spectrum.blur * np.sqrt(squared_norms)) * size
    height = np.abs(point @ spectrum.features[:steady]).max(axis=1, initial=0.0)
    height += ROUNDING * size * spectrum.lengths.max(initial=0.0)
    return _over(value, height, otherwise=-np.inf)

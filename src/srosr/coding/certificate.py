r"""The certificate: how far a code can be from optimal, computed from the code alone.

Nothing here is shared with the solvers. For a code x with residual :math:`r = y - Yx` a dual point v gives a
lower bound D on the optimum; the relative gap is :math:`(P - D)/P` with P the code's own objective (0 where P = 0):

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
from typing import Any

import numpy as np
from numba import njit
from scipy import linalg

from .._types import Array, IntArray
from .problems import BPDN, Lasso, Problem, Ridge
from .products import Products
from .rows import Rows
from .spectrum import Spectrum

# A relative gap below this needs no better dual point.
_CLEAR = 1e-10
# Rounding of a sum of products, relative to the sum of their sizes: bounds are lowered by it, so that rounding proves
# nothing.
_ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Certificate:
    """What is known of each code of a batch."""

    residual_norm: Array
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
        For an epsilon out of reach, proposed images Y'v of dual points instead (zero where there is none); they are
        projected on the range of the Gram matrix, which ``spectrum`` knows.
    spectrum : Spectrum, optional
        Where it is given residuals are computed in its coordinates: Gram quantities are squares, and over nearly
        dependent atoms, where codes are large, the residual drowns in their rounding.
    """
    n = len(cross)
    inside = None
    if spectrum is None:
        image = products.times(codes)
    else:
        inside = spectrum.residual(codes.csr(), cross)
        image = cross - inside @ spectrum.features
    seen = _looks(*codes[:3], cross, image, products.lengths)
    l1, squares, aligned, quadratic, highest, peak, slant, power = seen
    residual2 = np.maximum(squared_norms - 2 * aligned + quadratic, 0.0)
    if spectrum is not None and inside is not None:
        outside2 = np.maximum(squared_norms - (spectrum.along(cross) ** 2).sum(axis=1), 0.0)
        residual2 = outside2 + (inside**2).sum(axis=1)
    residual = np.sqrt(residual2)
    toward = squared_norms - aligned  # <y, r>
    never = np.zeros(n, dtype=bool)
    none = np.zeros(n)

    longest = products.largest_square
    blur = _ROUNDING * (highest + l1 * longest)  # of the residual's correlations

    if isinstance(problem, Lasso):
        objective = 0.5 * residual2 + problem.alpha * l1
        limit = _over(np.full(n, problem.alpha), np.where(peak > problem.alpha, peak + blur, peak), otherwise=np.inf)
        stretch = np.clip(_over(toward, residual2, otherwise=0.0), -limit, limit)
        bound = stretch * toward - 0.5 * stretch**2 * residual2
        return Certificate(residual, objective, _gap(objective, bound), none, never)
    if isinstance(problem, Ridge):
        objective = 0.5 * residual2 + 0.5 * problem.alpha * squares
        cost = residual2 + power / problem.alpha
        bound = 0.5 * _over(toward**2, cost, otherwise=0.0)
        return Certificate(residual, objective, _gap(objective, bound), none, never)
    if not isinstance(problem, BPDN):
        return Certificate(residual, 0.5 * residual2, np.full(n, np.nan), none, never)

    epsilon = problem.epsilon
    length = np.sqrt(squared_norms)
    excess = _over(np.maximum(residual - epsilon, 0.0), length, otherwise=0.0)
    infeasible = excess > tol
    violation = np.where(infeasible, _over(slant, length, otherwise=0.0), excess)
    fair = toward - epsilon * residual - _ROUNDING * (squared_norms + np.abs(aligned))
    bound = np.where(infeasible, -np.inf, _over(fair, peak + blur, otherwise=-np.inf))
    if witness is not None:
        open_ = np.flatnonzero((_gap(l1, bound) > _CLEAR) & (witness.counts > 0))
        found = _bound_in_span(witness.take(open_), cross[open_], epsilon, infeasible[open_], products)
        bound[open_] = np.maximum(bound[open_], found)
    if images is not None and spectrum is not None:
        open_ = np.flatnonzero((_gap(l1, bound) > _CLEAR) & images.any(axis=1))
        found = _bound_by_image(images[open_], cross[open_], squared_norms[open_], epsilon, infeasible[open_], spectrum)
        bound[open_] = np.maximum(bound[open_], found)
    for i in np.flatnonzero(_gap(l1, bound) > tol):
        z = _dual_from_support(codes, i, products)
        if z is not None:
            found = _bound_in_span(z, cross[i : i + 1], epsilon, infeasible[i : i + 1], products)
            bound[i] = max(bound[i], found[0])
    return Certificate(residual, l1, _gap(l1, bound), violation, infeasible)


@njit(cache=True, nogil=True, error_model="numpy")
def _looks(indptr, indices, data, cross, image, lengths):
    """What is asked of each code x, its sample's correlations c and its image Gx, in one look at them.

    Returns |x|_1, |x|^2, x'c, x'Gx, and of all atoms the largest |c|, |c - Gx| and |c - Gx| / length, and |c - Gx|^2.
    """
    n = cross.shape[0]
    out = np.zeros((8, n))
    for r in range(n):
        for i in range(indptr[r], indptr[r + 1]):
            x, j = data[i], indices[i]
            out[0, r] += abs(x)
            out[1, r] += x * x
            out[2, r] += x * cross[r, j]
            out[3, r] += x * image[r, j]
        highest, peak, slant, power = 0.0, 0.0, 0.0, 0.0
        for j in range(cross.shape[1]):
            d = abs(cross[r, j] - image[r, j])
            highest = max(highest, abs(cross[r, j]))
            peak = max(peak, d)
            slant = max(slant, d / lengths[j])
            power += d * d
        if not np.isfinite(power):  # a maximum may step over what is not a number
            highest, peak, slant = np.nan, np.nan, np.nan
        out[4, r], out[5, r], out[6, r], out[7, r] = highest, peak, slant, power
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


def _bound_in_span(z: Rows, cross: Array, epsilon: float, infeasible: np.ndarray, products: Products) -> Array:
    """The bounds that v = Yz gives after scaling to feasibility."""
    n = len(cross)
    if n == 0:
        return np.zeros(0)
    image = products.times(z)
    size, _, value, length2, highest, _, _, _ = _looks(*z[:3], cross, image, products.lengths)
    blur = _ROUNDING * size * products.largest_square
    value = value - _ROUNDING * size * highest
    value = value - np.where(infeasible, 0.0, epsilon) * np.sqrt(np.maximum(length2 + blur * size, 0.0))
    return _over(value, np.abs(image).max(axis=1) + blur, otherwise=-np.inf)


def _bound_by_image(
    images: Array, cross: Array, squared_norms: Array, epsilon: float, infeasible: np.ndarray, spectrum: Spectrum
) -> Array:
    """The bounds that proposed images Y'v give after projection on the range of the Gram matrix.

    Within reach v may have a part outside the span, b (y - Py) with b chosen best, which leaves of epsilon what the
    span has to explain. Atoms see that part only by directions below the rank tolerance; what they see counts.
    Sums lose their rounding; the coordinates of the sample are taken as they are.
    """
    vectors, lengths = spectrum.vectors, spectrum.lengths
    along = (images / lengths) @ vectors
    terms = along * spectrum.coordinates(cross)
    value = terms.sum(axis=1) - _ROUNDING * np.abs(terms).sum(axis=1)
    length = np.sqrt(np.einsum("ij,ij->i", along, along / spectrum.values))
    floor = spectrum.least_squares_residual(cross, squared_norms)
    inside = np.where(infeasible, 0.0, np.sqrt(np.maximum(epsilon**2 - floor**2, 0.0)))
    value = value - inside * length * (1.0 + _ROUNDING)
    height = along @ vectors.T * lengths
    outside = cross - ((cross / lengths) @ vectors) @ vectors.T * lengths
    height += _over(length, inside, otherwise=0.0)[:, None] * outside
    blur = _ROUNDING * np.sqrt(np.einsum("ij,ij->i", along, along)) * lengths.max(initial=0.0)
    return _over(value, np.abs(height).max(axis=1, initial=0.0) + blur, otherwise=-np.inf)

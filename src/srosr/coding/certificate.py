r"""The certificate: how far a code can be from optimal, computed from the code alone.

:func:`measure` computes, of each code x with residual :math:`r = y - Yx`, the quantities that certificates are made of,
with what rounding may have done to them. Every problem turns them into its own certificate (``Problem.certify``): a
dual point v gives a lower bound D on the optimum, and the relative gap is :math:`(P - D)/P` with P the code's own
objective (0 where P = 0). The formulas stand with the problems, in :mod:`.problems`. Nothing here is shared with the
solvers but, over nearly dependent atoms, the coordinates of :mod:`.spectrum`. On a device the same formulas are
evaluated on Torch tensors.

For basis pursuit, and wherever r is too short to point anywhere, v lies in the span of the atoms, :math:`v = Yz`. A
solver may propose z (:func:`bound_in_span`), else it is read off the code (:func:`find_dual`):
:math:`G_{AA}z_A = \mathrm{sign}(x_A)`. Where atoms are so nearly dependent that z is huge and its image
:math:`Y^Tv = Gz` is lost in rounding, the image itself is proposed, :math:`p = Y^Tv` (:func:`bound_by_image`): after
projection on the range of G it gives the bound :math:`t^TV^Tp / \|p\|_\infty` in the coordinates of :mod:`.spectrum`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from .._support.array_types import Array, IntArray
from .._support.compiled import loop
from .products import Products
from .sparse_rows import SparseRows
from .spectrum import ROUNDING, Spectrum


@dataclass(frozen=True)
class Certificate:
    """The certificate of each code of a batch."""

    residual_norm: Array
    least_residual: Array  # what is left of it when rounding is taken off
    objective: Array
    gap: Array
    violation: Array
    infeasible: np.ndarray  # BPDN codes certified as Yx = Py

    def holds(self, tol: float) -> np.ndarray:
        """Return which codes are certified to ``tol``; a code without a gap counts as certified."""
        return (find_namespace(self.gap).isnan(self.gap) | (self.gap <= tol)) & (self.violation <= tol)

    def replace_rows(self, rows: IntArray, other: Certificate, chosen: np.ndarray) -> Certificate:
        """Return this certificate with some rows from another one."""
        merged = []
        for field in fields(self):
            values = getattr(self, field.name).copy()
            values[rows] = getattr(other, field.name)[chosen]
            merged.append(values)
        return Certificate(*merged)


class Sums(NamedTuple):
    """Sums and maxima over the entries of each code x, its sample's correlations c and its image Gx."""

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


def _sum_up(codes: Any, cross: Array, image: Array, length: Array, lengths: Array) -> Sums:
    if not isinstance(codes, SparseRows):
        return codes.sum_up(cross, image, length, lengths)
    out = np.zeros((10, len(cross)))
    _sum_rows(codes.indptr, codes.indices, codes.data, cross, image, length, lengths, out)
    return Sums(*out)


@loop()
def _sum_rows(indptr, indices, data, cross, image, length, lengths, out):
    """Compute the fields of :class:`Sums`, rows of ``out``, in one pass over the arrays."""
    for r in range(cross.shape[0]):
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
            blurred, height, slope = d + margin * (length[r] + reach), abs(image[r, j]) + margin * reach, d / lengths[j]
            if blurred > peak:
                peak = blurred
            if height > top:
                top = height
            if slope > slant:
                slant = slope
            power += d * d
        if not (power < np.inf and top < np.inf):  # a maximum steps over what is not a number
            peak, slant, top = np.nan, np.nan, np.nan
        out[5, r], out[6, r], out[7, r], out[8, r], out[9, r] = reach, peak, slant, power, top


@dataclass(frozen=True, eq=False)
class Measures:
    """The quantities of each code of a batch that certificates are made of."""

    codes: SparseRows
    cross: Array
    squared_norms: Array
    products: Products
    spectrum: Spectrum | None
    length: Array  # |y|
    image: Array  # Gx
    sums: Sums
    residual2: Array  # |r|^2
    at_most: Array  # bounds of |r|, rounding considered
    at_least: Array
    toward: Array  # <y, r>
    blur: Array  # what rounding may have done to <y, r>
    blur2: Array  # and to |r|^2

    def __len__(self) -> int:
        return len(self.cross)

    def make_certificate(
        self,
        objective: Array,
        bound: Array | None,
        violation: Array | None = None,
        infeasible: np.ndarray | None = None,
    ) -> Certificate:
        """Return the certificate for an objective and a lower bound on its optimum; without a bound the gap is NaN."""
        xp = find_namespace(objective)
        gap = xp.full_like(objective, xp.nan) if bound is None else relative_gap(objective, bound)
        return Certificate(
            xp.sqrt(self.residual2),
            self.at_least,
            objective,
            gap,
            xp.zeros_like(objective) if violation is None else violation,
            xp.zeros_like(objective) > 0.0 if infeasible is None else infeasible,
        )


def measure(
    codes: Any, cross: Array, squared_norms: Array, products: Products, spectrum: Spectrum | None = None
) -> Measures:
    """Measure a batch of codes.

    Parameters
    ----------
    codes : SparseRows (n, N), or DeviceRows with tensors for all other arrays
    cross : ndarray (n, N)
        Inner products of samples and atoms.
    squared_norms : ndarray (n,)
    products : Products
        Products with the Gram matrix.
    spectrum : Spectrum, optional
        If given, residuals are computed in its coordinates: Gram quantities are squares, and over nearly dependent
        atoms, where codes are large, the residual is lost in their rounding.
    """
    xp = find_namespace(cross)
    length = xp.sqrt(squared_norms)
    if spectrum is None:
        image = products.times(codes)
        sums = _sum_up(codes, cross, image, length, products.lengths)
        residual2 = positive(squared_norms - 2 * sums.aligned + sums.quadratic)
        blur2 = ROUNDING * (squared_norms + 2 * sums.sizes + sums.reach**2)
        at_most, at_least = xp.sqrt(residual2 + blur2), xp.sqrt(positive(residual2 - blur2))
    else:
        inner, within2 = spectrum.compute_residual(codes.csr(), cross)
        image = cross - spectrum.compute_image(inner)
        sums = _sum_up(codes, cross, image, length, products.lengths)
        residual2 = np.maximum(squared_norms - within2, 0.0) + np.einsum("ij,ij->i", inner, inner)
        lost2 = ROUNDING * squared_norms
        unseen = spectrum.blur * length + (spectrum.dropped + ROUNDING) * sums.reach
        at_most = np.sqrt(residual2 + lost2) + unseen
        at_least = np.maximum(np.sqrt(np.maximum(residual2 - lost2, 0.0)) - unseen, 0.0)
        blur2 = at_most**2 - at_least**2
    return Measures(
        codes, cross, squared_norms, products, spectrum, length, image, sums, residual2, at_most, at_least,
        toward=squared_norms - sums.aligned, blur=ROUNDING * (squared_norms + sums.sizes), blur2=blur2,
    )  # fmt: skip


def find_namespace(values: Any) -> Any:
    """Return the library of an array: NumPy, or Torch for the tensors of a device."""
    return np if isinstance(values, np.ndarray) else sys.modules["torch"]


def positive(values: Array) -> Array:
    """Return the numbers with zero in place of negative ones."""
    return np.maximum(values, 0.0) if isinstance(values, np.ndarray) else values.clamp(min=0.0)


def divide(a: Array, b: Array, otherwise: float) -> Array:
    """Return a / b, ``otherwise`` where b is zero."""
    if not isinstance(b, np.ndarray):
        return find_namespace(b).where(b > 0, a / b, otherwise)
    out = np.full(np.shape(a), otherwise)
    np.divide(a, b, out=out, where=b > 0)
    return out


def relative_gap(objective: Array, bound: Array) -> Array:
    """Return the relative gap: 0 where the objective is 0, infinite where a number is missing."""
    xp = find_namespace(objective)
    gap = positive(divide(objective - bound, objective, otherwise=0.0))
    return xp.where(xp.isfinite(objective) & ~xp.isnan(bound), gap, xp.inf)


def find_dual(codes: SparseRows, i: Any, products: Products) -> SparseRows | None:
    """Return z with (Gz)_A = sign(x_A) for the support A of a code, zero elsewhere; None for the zero code."""
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
    return SparseRows(np.array([0, len(support)]), support, values, (1, codes.shape[1]))


def bound_in_span(
    z: Any, cross: Array, squared_norms: Array, epsilon: float, infeasible: np.ndarray, products: Products
) -> Array:
    """Return the bounds that v = Yz gives after scaling to feasibility."""
    if len(cross) == 0:
        return squared_norms
    xp = find_namespace(cross)
    sums = _sum_up(z, cross, products.times(z), xp.sqrt(squared_norms), products.lengths)
    length = xp.sqrt(positive(sums.quadratic + ROUNDING * sums.reach**2))
    value = sums.aligned - ROUNDING * sums.sizes - xp.where(infeasible, 0.0, epsilon) * length
    return divide(value, sums.height, otherwise=-np.inf)


def bound_by_image(
    images: Array, cross: Array, squared_norms: Array, epsilon: float, infeasible: np.ndarray, spectrum: Spectrum
) -> Array:
    """Return the bounds that proposed images Y'v give after projection on the range of the Gram matrix.

    Within reach v may have a part outside the span, b (y - Py) with b chosen best, which leaves of epsilon what the
    span has to explain. Atoms see that part only by directions below the rank tolerance; what they see counts, and if
    v is long that is more than the part is worth: the better of the bounds with it and without it is returned.
    Sums lose their rounding; the coordinates of the sample are taken as they are.
    """
    vectors, lengths = spectrum.vectors, spectrum.lengths
    along = (images / lengths) @ vectors
    terms = along * spectrum.compute_coordinates(cross)
    value = terms.sum(axis=1) - ROUNDING * np.abs(terms).sum(axis=1)
    length = np.sqrt(np.einsum("ij,ij->i", along, along / spectrum.values))
    floor2 = spectrum.compute_least_squares_residual(cross, squared_norms) ** 2
    inside2 = epsilon * epsilon - np.maximum(floor2 - spectrum.reach_blur * squared_norms, 0.0)
    height = along @ vectors.T * lengths
    blur = ROUNDING * np.sqrt(np.einsum("ij,ij->i", along, along)) * lengths.max(initial=0.0)
    # No part outside: epsilon is then paid in full.
    alone = value - np.where(infeasible, 0.0, epsilon * length * (1.0 + ROUNDING))
    bound = divide(alone, np.abs(height).max(axis=1, initial=0.0) + blur, otherwise=-np.inf)
    inside = np.sqrt(np.maximum(inside2, 0.0))
    value = value - inside * length * (1.0 + ROUNDING)
    outside = cross - ((cross / lengths) @ vectors) @ vectors.T * lengths
    height += divide(length, inside, otherwise=0.0)[:, None] * outside
    both = divide(value, np.abs(height).max(axis=1, initial=0.0) + blur, otherwise=-np.inf)
    bound = np.where(infeasible | (inside2 <= 0.0), bound, np.maximum(bound, both))
    return np.where(
        infeasible, bound, np.maximum(bound, _bound_by_fine_image(images, cross, squared_norms, epsilon, spectrum))
    )


def _bound_by_fine_image(
    images: Array, cross: Array, squared_norms: Array, epsilon: float, spectrum: Spectrum
) -> Array:
    """Return such bounds over all directions in which a residual can be measured, less their rounding, without a rank.

    Directions below the rank tolerance are real ones; where a code is long it is so along these.
    """
    steady = spectrum.steady
    point = (images / spectrum.lengths) @ spectrum.fine_vectors[:, :steady] / spectrum.singular[:steady]
    size = np.sqrt(np.einsum("ij,ij->i", point, point))
    terms = point * spectrum.project(cross)[:, :steady]
    value = terms.sum(axis=1) - ROUNDING * np.abs(terms).sum(axis=1)
    value -= (epsilon * (1.0 + ROUNDING) + spectrum.blur * np.sqrt(squared_norms)) * size
    height = np.abs(point @ spectrum.features[:steady]).max(axis=1, initial=0.0)
    height += ROUNDING * size * spectrum.lengths.max(initial=0.0)
    return divide(value, height, otherwise=-np.inf)

r"""The span of the atoms: singular vectors, and the coordinates of basis pursuit over dependent atoms.

The atoms scaled to unit length, :math:`Y = \hat Y L`, have :math:`\hat Y^T\hat Y = V\Sigma^2V^T`. (They are scaled
so that a short atom counts as much for the rank as a long one.) An epsilon out of reach asks for :math:`\min\|x\|_1`
subject to :math:`Yx = Py`, which is :math:`V^TLx = t` with :math:`t = \Sigma^{-2}V^TL^{-1}c` over the singular values
above ``RANK``. In these coordinates the atoms have the Gram matrix :math:`LVV^TL`, for unit atoms a projector: however
nearly dependent the atoms are, it is perfectly conditioned, and the homotopy follows its path to level zero, where only
the constraint counts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from .._support.array_types import Array, IntArray

# Singular values of unit atoms below this share of the largest are too uncertain to measure a residual with.
_STEADY = 1e-8
#: Rounding of a sum of products, relative to the sum of their sizes: bounds are lowered by it.
ROUNDING = 8 * np.finfo(np.float64).eps

#: Rank tolerance: squared singular values of unit atoms below this share of the largest count as zero.
RANK = 1e-13


class Spectrum:
    """Singular vectors and values of a dictionary's unit atoms.

    Parameters
    ----------
    squared_norms : ndarray (N,)
        Of the atoms.
    gram : ndarray (N, N), optional
    atoms : ndarray (N, M), optional
        Instead of the Gram matrix, where the kernel is linear: the atoms' singular values have all digits, of which
        the Gram matrix keeps half.

    Attributes
    ----------
    lengths : ndarray (N,)
        Of the atoms, 1 for zero atoms.
    vectors : ndarray (N, R)
    values : ndarray (R,)
        Squared singular values above the rank tolerance, the largest first.
    fine_vectors : ndarray (N, S)
    singular : ndarray (S,)
        Singular values down to rounding, for problems that need no rank: nearly missing directions do no harm there.
    steady : int
        How many of them are large enough to measure a residual with.
    dropped : float
        The largest singular value that is not.
    blur : float
        Rounding of a sample's coordinates in the steady directions, relative to its length.
    reach_blur : float
        Rounding of its squared distance to the span, relative to its squared length.
    """

    def __init__(self, squared_norms: Array, *, gram: Array | None = None, atoms: Array | None = None) -> None:
        lengths = np.sqrt(squared_norms)
        self.lengths: Array = np.where(lengths > 0, lengths, 1.0)
        eps = np.finfo(np.float64).eps
        if atoms is not None:
            vectors, singular, _ = linalg.svd(atoms / self.lengths[:, None], full_matrices=False, check_finite=False)
            fine = singular > max(atoms.shape) * eps * singular[0]
        elif gram is not None:
            squares, vectors = linalg.eigh(gram / (self.lengths[:, None] * self.lengths), check_finite=False)
            squares, vectors = squares[::-1], vectors[:, ::-1]
            singular = np.sqrt(np.maximum(squares, 0.0))
            fine = squares > len(gram) * eps * squares[0]
        else:
            raise TypeError("either gram or atoms is needed")
        self.singular: Array = singular[fine]
        self.steady = int((self.singular > _STEADY * self.singular.max(initial=0.0)).sum())
        self.dropped = float(singular[self.steady :].max(initial=0.0))
        self.fine_vectors: Array = np.ascontiguousarray(vectors[:, fine])
        counts = self.singular**2 > RANK * self.singular.max(initial=0.0) ** 2
        self.values: Array = self.singular[counts] ** 2
        self.vectors: Array = np.ascontiguousarray(self.fine_vectors[:, counts])
        self.blur = ROUNDING * float(np.linalg.norm(1.0 / self.singular[: self.steady]))
        self.reach_blur = ROUNDING * (1.0 + float(np.linalg.norm(1.0 / self.singular[counts])))

    @cached_property
    def gram(self) -> Array:
        """The Gram matrix of the atoms in the span's coordinates."""
        scaled = self.vectors * self.lengths[:, None]
        out = scaled @ scaled.T
        return 0.5 * (out + out.T)

    @cached_property
    def features(self) -> Array:
        """The atoms as columns in orthonormal coordinates of their span, (S, N)."""
        return self.singular[:, None] * self.fine_vectors.T * self.lengths

    def project(self, cross: Array) -> Array:
        """Return samples in those coordinates, (n, S)."""
        return (cross / self.lengths) @ self.fine_vectors / self.singular

    def compute_residual(self, codes: Any, cross: Array) -> tuple[Array, Array]:
        """Return the residuals of codes (n, N) in the steady directions, and the samples' squared lengths there."""
        along = self.project(cross)[:, : self.steady]
        return along - codes @ self.features[: self.steady].T, np.einsum("ij,ij->i", along, along)

    def compute_image(self, residual: Array) -> Array:
        """Return the inner products of residuals in the steady directions with all atoms."""
        return residual @ self.features[: self.steady]

    def find_dual_point(self, image: Array) -> Array:
        """Return z whose Yz has a proposed image, Y'Yz = image, as far as the span allows."""
        return self.vectors @ ((image / self.lengths) @ self.vectors / self.values) / self.lengths

    def compute_coordinates(self, cross: Array) -> Array:
        """Return t of each sample: a code that reconstructs its projection satisfies V'Lx = t."""
        return (cross / self.lengths) @ self.vectors / self.values

    def solve_vertex(self, atoms: IntArray, signs: Array, target: Array) -> tuple[Array, Array]:
        """Return the code over some atoms that reconstructs t, and the image of the shortest dual point of these signs.

        They come from the coordinates, whose condition number is the root of the Gram matrix's.
        """
        orthonormal, corner = linalg.qr((self.vectors[atoms] * self.lengths[atoms, None]).T, mode="economic")
        values = linalg.solve_triangular(corner, orthonormal.T @ target)
        point = orthonormal @ linalg.solve_triangular(corner, signs, trans="T")
        return values, self.lengths * (self.vectors @ point)

    def compute_least_squares_residual(self, cross: Array, squared_norms: Array) -> Array:
        """Return the distance of each sample to the span."""
        along = (cross / self.lengths) @ self.vectors
        return np.sqrt(np.maximum(squared_norms - np.einsum("ij,ij->i", along, along / self.values), 0.0))

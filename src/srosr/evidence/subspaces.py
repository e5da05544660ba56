r"""Distances to the subspaces of the classes, :math:`d_k^2 = \|y\|^2 - c_k^T(G_{kk} + \mu I)^{-1}c_k`.

It is the (regularized) distance of a sample from the span of the atoms of class k: a sparse code selects a few atoms,
this uses all atoms of a class.

References
----------
I. Naseem, R. Togneri, M. Bennamoun, "Linear regression for face recognition", IEEE TPAMI 32, 2010.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .._support.array_types import Array, IntArray
from ..dictionary.dictionary import Dictionary, Queries
from .ridge import invert_positive, solve_positive

#: Ridge penalty, relative to the mean squared length of the atoms.
SUBSPACE_PENALTY = 0.1


def _penalize(dictionary: Dictionary, part: slice) -> Array:
    block = np.array(dictionary.block(part, part))
    block[np.diag_indices_from(block)] += SUBSPACE_PENALTY * (float(dictionary.squared_norms.mean()) or 1.0)
    return block


class Subspaces:
    """Distances of new samples to the subspaces of the classes."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.class_slices = dictionary.class_slices
        self.factors: list[Array] = [
            linalg.cholesky(_penalize(dictionary, part), lower=True, check_finite=False) for part in self.class_slices
        ]

    @classmethod
    def restore(cls, dictionary: Dictionary, factors: list[Array]) -> Subspaces:
        """Rebuild the distances from the Cholesky factors of the classes."""
        out = object.__new__(cls)
        out.class_slices, out.factors = dictionary.class_slices, [np.asfortranarray(factor) for factor in factors]
        return out

    def measure(self, queries: Queries) -> Array:
        """Compute the distances, (n_samples, n_classes)."""
        explained = np.empty((len(queries), len(self.class_slices)))
        for k, (factor, part) in enumerate(zip(self.factors, self.class_slices, strict=True)):
            # LAPACK without scipy's wrapper, which costs more than the solution for a single sample.
            image, _ = linalg.lapack.dtrtrs(factor, queries.cross[:, part].T, lower=1)
            explained[:, k] = np.einsum("ij,ij->j", image, image)
        return np.sqrt(np.maximum(queries.squared_norms[:, None] - explained, 0.0))


class HeldOutSubspaces:
    r"""Distances of atoms to the subspaces of the classes without some atoms.

    With :math:`P = (G_{kk} + \mu I)^{-1}` for all atoms of class k, :math:`v = (Pc_k)_U` and the atoms U left out, the
    class explains :math:`c_k^TPc_k - v^TP_{UU}^{-1}v` of a sample.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self.squares, self.slices = dictionary.squared_norms, dictionary.class_slices
        self.inverses = [invert_positive(_penalize(dictionary, part)) for part in self.slices]
        # The image of every atom in each class, and how much of the atom the class explains with all its atoms.
        parts = [dictionary.gram[part] for part in self.slices]
        self.images = [inverse @ part for inverse, part in zip(self.inverses, parts, strict=True)]
        self.explained = np.column_stack(
            [np.einsum("ij,ij->j", *pair) for pair in zip(self.images, parts, strict=True)]
        )

    def measure(self, atoms: IntArray, left_out: IntArray, classes: IntArray) -> Array:
        """Compute the distances of atoms to the subspaces of classes without the atoms ``left_out`` (sorted)."""
        out = np.empty((len(atoms), len(classes)))
        edges = np.searchsorted(left_out, [[self.slices[k].start, self.slices[k].stop] for k in classes])
        for column, (k, (first, last)) in enumerate(zip(classes, edges, strict=True)):
            explained = self.explained[atoms, k]
            if last > first:
                rows = left_out[first:last] - self.slices[k].start
                image = self.images[k][np.ix_(rows, atoms)]
                block = self.inverses[k][np.ix_(rows, rows)]
                explained = explained - np.einsum("ij,ij->j", image, solve_positive(block, image))
            out[:, column] = self.squares[atoms] - explained
        return np.sqrt(np.maximum(out, 0.0))

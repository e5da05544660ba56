r"""What regularised least squares says of a sample: collaborative class scores and distances to class subspaces.

Both come from the Gram matrix in closed form, at a small part of the price of a sparse code, and see what it does not:
a sparse code picks a few atoms, these use all of a class.

- *collaborative scores*: the ridge code :math:`x = (R + \lambda I)^{-1}\rho` of a sample, summed over each class. That
  is ridge regression of class membership on the atoms. It works on similarities that fade with distance,
  :math:`R_{ij} = \exp(-\|a_i - a_j\|^2/\bar d^2)` with :math:`\bar d^2` the mean squared distance between atoms: far
  from all atoms every score falls to zero, where those of a linear regression may grow.
- *subspace distances*: :math:`d_k^2 = \|y\|^2 - c_k^T(G_{kk} + \mu I)^{-1}c_k`, the (regularised) distance of the
  sample from what the atoms of class k can build without the others.

References
----------
L. Zhang, M. Yang, X. Feng, "Sparse representation or collaborative representation: which helps face recognition?",
ICCV 2011. I. Naseem, R. Togneri, M. Bennamoun, "Linear regression for face recognition", IEEE TPAMI 32, 2010.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .._support.array_types import Array, IntArray
from ..dictionary import Dictionary, Queries

__all__ = ["Collaborative", "HeldOut"]

#: Ridge penalty of the collaborative scores (their similarities are at most 1).
COLLABORATIVE_PENALTY = 0.05
#: Ridge penalty of the subspace distances, relative to the mean squared length of the atoms.
SUBSPACE_PENALTY = 0.1


def subspace_penalty(dictionary: Dictionary) -> float:
    """The ridge penalty of subspace distances; positive also where all atoms are zero."""
    return SUBSPACE_PENALTY * (float(dictionary.squared_norms.mean()) or 1.0)


class Fading:
    """Similarities that fade with distance, from those of a dictionary.

    Parameters
    ----------
    dictionary : Dictionary
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self.squares = dictionary.squared_norms
        n = dictionary.n_atoms
        total = 2.0 * (n * self.squares.sum() - dictionary.gram.sum())
        mean = float(total) / max(n * (n - 1), 1)
        self.width = mean if mean > 0 else 1.0

    def of(self, products: Array, squares: Array) -> Array:
        """From inner products with the atoms, (n, n_atoms), and squared lengths of the n."""
        distances = squares[:, None] + self.squares - 2.0 * products
        np.maximum(distances, 0.0, out=distances)
        distances /= -self.width
        return np.exp(distances, out=distances)


def membership(dictionary: Dictionary) -> Array:
    """One row an atom, one column a class: 1 where the atom belongs to the class."""
    out = np.zeros((dictionary.n_atoms, len(dictionary.class_slices)))
    for k, part in enumerate(dictionary.class_slices):
        out[part, k] = 1.0
    return out


def _penalised(gram: Array, amount: float) -> Array:
    out = gram.copy()
    out[np.diag_indices_from(out)] += amount
    return out


class Collaborative:
    """Class scores and subspace distances of samples over a whole dictionary.

    Parameters
    ----------
    dictionary : Dictionary
        With labels.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self.fading = Fading(dictionary)
        similar = _penalised(self.fading.of(dictionary.gram, self.fading.squares), COLLABORATIVE_PENALTY)
        factor = linalg.cho_factor(similar, lower=True, overwrite_a=True, check_finite=False)
        self.coefficients: Array = linalg.cho_solve(factor, membership(dictionary), check_finite=False)
        amount = subspace_penalty(dictionary)
        self.factors: list[Array] = [
            linalg.cholesky(_penalised(dictionary.block(part, part), amount), lower=True, check_finite=False)
            for part in dictionary.class_slices
        ]

    def scores(self, queries: Queries) -> Array:
        """Collaborative class scores, (n_samples, n_classes); large is likely."""
        return self.fading.of(queries.cross, queries.squared_norms) @ self.coefficients

    def distances(self, queries: Queries) -> Array:
        """Distances to the subspaces of the classes, (n_samples, n_classes)."""
        parts = zip(self.factors, self.dictionary.class_slices, strict=True)
        return np.stack([_distance(factor, queries, part) for factor, part in parts], axis=1)


def _distance(factor: Array, queries: Queries, part: slice) -> Array:
    image = linalg.solve_triangular(factor, queries.cross[:, part].T, lower=True, check_finite=False)
    return np.sqrt(np.maximum(queries.squared_norms - np.einsum("ij,ij->j", image, image), 0.0))


def _inverse(matrix: Array) -> Array:
    """Inverse of a positive definite matrix, which is overwritten."""
    factor = linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return np.tril(inverse) + np.tril(inverse, -1).T


def _solved(matrix: Array, right: Array) -> Array:
    """Solution of a positive definite system; for small ones scipy's own checks would cost most of the time."""
    _, solution, info = linalg.lapack.dposv(matrix, right, lower=1)
    if info != 0:
        return linalg.lstsq(matrix, right, check_finite=False)[0]
    return solution


class HeldOut:
    r"""Collaborative scores and subspace distances of atoms as if they, and others, had not been in the dictionary.

    With :math:`P = (R + \lambda I)^{-1}` and :math:`A = PY` for all atoms, ridge regression without the atoms U
    predicts them as :math:`Y_U - P_{UU}^{-1}A_U`. With :math:`P = (G_{kk} + \mu I)^{-1}` for all atoms of class k and
    :math:`v = (Pc_k)_U`, what the class explains of a sample without them is :math:`c_k^TPc_k - v^TP_{UU}^{-1}v`. So
    one inverse, and one of each class, serve every way of holding atoms out.

    Parameters
    ----------
    dictionary : Dictionary
        With labels.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        fading = Fading(dictionary)
        similar = fading.of(dictionary.gram, fading.squares)
        self.inverse = _inverse(_penalised(similar, COLLABORATIVE_PENALTY))
        self.membership = membership(dictionary)
        self.coefficients: Array = self.inverse @ self.membership
        self.squares, self.slices = dictionary.squared_norms, dictionary.class_slices
        amount = subspace_penalty(dictionary)
        self.class_inverses = [_inverse(_penalised(dictionary.gram[part, part], amount)) for part in self.slices]
        # What each class explains of every atom, and how: the first less what goes with the atoms left out.
        self.images = [
            inverse @ dictionary.gram[part] for inverse, part in zip(self.class_inverses, self.slices, strict=True)
        ]
        self.explained = np.stack(
            [
                np.einsum("ij,ij->j", image, dictionary.gram[part])
                for image, part in zip(self.images, self.slices, strict=True)
            ],
            axis=1,
        )

    def scores(self, left_out: IntArray) -> Array:
        """Class scores of the atoms ``left_out``, (len(left_out), n_classes), had none of them been there.

        A class whose atoms are all left out has the score 0.
        """
        block = self.inverse[np.ix_(left_out, left_out)]
        return self.membership[left_out] - _solved(block, self.coefficients[left_out])

    def distances(self, atoms: IntArray, left_out: IntArray, classes: IntArray) -> Array:
        """Distances of some atoms to the subspaces of some classes, had ``left_out`` (sorted) not been there."""
        out = np.empty((len(atoms), len(classes)))
        edges = np.searchsorted(left_out, [[self.slices[k].start, self.slices[k].stop] for k in classes])
        for column, (k, (first, last)) in enumerate(zip(classes, edges, strict=True)):
            explained = self.explained[atoms, k]
            if last > first:
                rows = left_out[first:last] - self.slices[k].start
                image = self.images[k][np.ix_(rows, atoms)]
                block = self.class_inverses[k][np.ix_(rows, rows)]
                explained = explained - np.einsum("ij,ij->j", image, _solved(block, image))
            out[:, column] = self.squares[atoms] - explained
        return np.sqrt(np.maximum(out, 0.0))

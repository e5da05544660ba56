r"""Evidence from regularized least squares: collaborative class scores and distances to class subspaces.

Both come from the Gram matrix in closed form, at a small part of the cost of a sparse code. A sparse code selects a few
atoms; these use all atoms of a class.

- *Collaborative scores*: the ridge code :math:`x = (R + \lambda I)^{-1}\rho` of a sample, summed over each class. This
  is ridge regression of class membership on the atoms. The similarities decay with distance,
  :math:`R_{ij} = \exp(-\|a_i - a_j\|^2/\bar d^2)` with :math:`\bar d^2` the mean squared distance between atoms, so
  that far from all atoms every score goes to zero; the scores of a linear regression may grow there.
- *Subspace distances*: :math:`d_k^2 = \|y\|^2 - c_k^T(G_{kk} + \mu I)^{-1}c_k`, the (regularized) distance of the
  sample from the span of the atoms of class k.

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

#: Ridge penalty of the collaborative scores (their similarities are at most 1).
COLLABORATIVE_PENALTY = 0.05
#: Ridge penalty of the subspace distances, relative to the mean squared length of the atoms.
SUBSPACE_PENALTY = 0.1


class DecayingSimilarity:
    """Similarities that decay with distance, computed from the inner products of a dictionary."""

    def __init__(self, dictionary: Dictionary) -> None:
        gram, n = dictionary.gram, dictionary.n_atoms
        # Once the Gram matrix has been computed these are its diagonal, to the bit; before, they are not.
        self.squares = dictionary.squared_norms
        total = 2.0 * (n * self.squares.sum() - gram.sum())
        mean = float(total) / max(n * (n - 1), 1)
        self.width = mean if mean > 0 else 1.0

    def compare(self, products: Array, squares: Array) -> Array:
        """Return similarities from inner products with the atoms, (n, n_atoms), and the squared lengths of the n."""
        distances = squares[:, None] + self.squares - 2.0 * products
        np.maximum(distances, 0.0, out=distances)
        distances /= -self.width
        return np.exp(distances, out=distances)


class RidgeSystems:
    """The Cholesky factors of the ridge systems of a labeled dictionary: one over all atoms, and one of each class."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.similarity = DecayingSimilarity(dictionary)
        similar = self.similarity.compare(dictionary.gram, self.similarity.squares)
        self.factor, _ = linalg.cho_factor(
            _penalize(similar, COLLABORATIVE_PENALTY), lower=True, overwrite_a=True, check_finite=False
        )
        amount = SUBSPACE_PENALTY * (float(dictionary.squared_norms.mean()) or 1.0)
        self.class_factors: list[Array] = [
            linalg.cholesky(_penalize(dictionary.block(part, part), amount), lower=True, check_finite=False)
            for part in dictionary.class_slices
        ]
        # One row an atom, one column a class: 1 where the atom belongs to the class.
        self.membership = np.zeros((dictionary.n_atoms, len(dictionary.class_slices)))
        self.membership[np.arange(dictionary.n_atoms), dictionary.class_of] = 1.0


class Collaborative:
    """Class scores and subspace distances of samples over a whole dictionary."""

    def __init__(self, dictionary: Dictionary, systems: RidgeSystems | None = None) -> None:
        systems = RidgeSystems(dictionary) if systems is None else systems
        self.class_slices = dictionary.class_slices
        self.similarity, self.class_factors = systems.similarity, systems.class_factors
        self.coefficients: Array = linalg.cho_solve((systems.factor, True), systems.membership, check_finite=False)

    def scores(self, queries: Queries) -> Array:
        """Compute collaborative class scores, (n_samples, n_classes); large is likely."""
        return self.similarity.compare(queries.cross, queries.squared_norms) @ self.coefficients

    def distances(self, queries: Queries) -> Array:
        """Compute distances to the subspaces of the classes, (n_samples, n_classes)."""
        explained = np.empty((len(queries), len(self.class_slices)))
        for k, (factor, part) in enumerate(zip(self.class_factors, self.class_slices, strict=True)):
            # LAPACK without scipy's wrapper, which costs more than the solution for a single sample.
            image, _ = linalg.lapack.dtrtrs(factor, queries.cross[:, part].T, lower=1)
            explained[:, k] = np.einsum("ij,ij->j", image, image)
        return np.sqrt(np.maximum(queries.squared_norms[:, None] - explained, 0.0))


class HeldOutCollaborative:
    r"""Class scores and subspace distances of atoms as if they, and others, were not in the dictionary.

    With :math:`P = (R + \lambda I)^{-1}` and :math:`A = PY` for all atoms, ridge regression without the atoms U
    predicts them as :math:`Y_U - P_{UU}^{-1}A_U`. With :math:`P = (G_{kk} + \mu I)^{-1}` for all atoms of class k and
    :math:`v = (Pc_k)_U`, the part of a sample that the class explains without them is
    :math:`c_k^TPc_k - v^TP_{UU}^{-1}v`. So one inverse, and one of each class, serve every choice of held-out atoms.
    """

    def __init__(self, dictionary: Dictionary, systems: RidgeSystems | None = None) -> None:
        systems = RidgeSystems(dictionary) if systems is None else systems
        self.inverse = _invert(systems.factor)
        self.membership = systems.membership
        self.coefficients: Array = self.inverse @ self.membership
        self.squares, self.slices = dictionary.squared_norms, dictionary.class_slices
        self.class_inverses = [_invert(factor) for factor in systems.class_factors]
        # The image of every atom in each class, and how much of the atom the class explains with all its atoms.
        parts = [dictionary.gram[part] for part in self.slices]
        self.images = [inverse @ part for inverse, part in zip(self.class_inverses, parts, strict=True)]
        self.explained = np.column_stack(
            [np.einsum("ij,ij->j", *pair) for pair in zip(self.images, parts, strict=True)]
        )

    def scores(self, left_out: IntArray) -> Array:
        """Compute the class scores of the atoms ``left_out``, (len(left_out), n_classes), without all of them.

        A class whose atoms are all left out has the score 0.
        """
        block = self.inverse[np.ix_(left_out, left_out)]
        return self.membership[left_out] - _solve(block, self.coefficients[left_out])

    def distances(self, atoms: IntArray, left_out: IntArray, classes: IntArray) -> Array:
        """Compute the distances of atoms to the subspaces of classes without the atoms ``left_out`` (sorted)."""
        out = np.empty((len(atoms), len(classes)))
        edges = np.searchsorted(left_out, [[self.slices[k].start, self.slices[k].stop] for k in classes])
        for column, (k, (first, last)) in enumerate(zip(classes, edges, strict=True)):
            explained = self.explained[atoms, k]
            if last > first:
                rows = left_out[first:last] - self.slices[k].start
                image = self.images[k][np.ix_(rows, atoms)]
                block = self.class_inverses[k][np.ix_(rows, rows)]
                explained = explained - np.einsum("ij,ij->j", image, _solve(block, image))
            out[:, column] = self.squares[atoms] - explained
        return np.sqrt(np.maximum(out, 0.0))


def solve_collaborative(dictionary: Dictionary) -> tuple[Collaborative, HeldOutCollaborative]:
    """Factor the ridge systems of a dictionary once and solve them for new samples and for held-out atoms."""
    systems = RidgeSystems(dictionary)
    return Collaborative(dictionary, systems), HeldOutCollaborative(dictionary, systems)


def _penalize(gram: Array, amount: float) -> Array:
    out = gram.copy()
    out[np.diag_indices_from(out)] += amount
    return out


def _invert(factor: Array) -> Array:
    """Return the inverse of a positive definite matrix from its lower Cholesky factor."""
    inverse, _ = linalg.lapack.dpotri(factor, lower=1)
    return np.tril(inverse) + np.tril(inverse, -1).T


def _solve(matrix: Array, right: Array) -> Array:
    """Solve a positive definite system; for small ones scipy's own checks would take most of the time."""
    _, solution, info = linalg.lapack.dposv(matrix, right, lower=1)
    if info != 0:
        return linalg.lstsq(matrix, right, check_finite=False)[0]
    return solution

r"""Ridge regression of class membership on the atoms: a score of every class, in closed form.

For a positive semidefinite matrix R of similarities between the N atoms and the matrix Y of their memberships (one row
an atom, one column a class), the class scores of a sample with similarities :math:`\rho` are

.. math:: f(y) = \rho^T A, \qquad A = (R + \lambda I)^{-1}Y,

the sums over each class of the ridge code :math:`(R + \lambda I)^{-1}\rho`. Two kinds of similarities are used. Those
of :class:`DecayingSimilarity` give *collaborative* scores, which all go to zero far from all atoms; the inner products
themselves give the scores from which :mod:`.gaussian` is computed.

References
----------
L. Zhang, M. Yang, X. Feng, "Sparse representation or collaborative representation: which helps face recognition?",
ICCV 2011. C. Saunders, A. Gammerman, V. Vovk, "Ridge regression learning algorithm in dual variables", ICML 1998.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .._support.array_types import Array, IntArray

#: Ridge penalty of the collaborative scores (their similarities are at most 1).
COLLABORATIVE_PENALTY = 0.05


def find_width(n: int, center: Array, squares: float) -> float:
    """Return the mean squared distance between n samples from the sum of the samples and of their squares."""
    mean = float(2.0 * (n * squares - center @ center)) / max(n * (n - 1), 1)
    return mean if mean > 0 else 1.0


def compare_at(squared_distances: Array, width: float) -> Array:
    """Return similarities that decay with distance, at squared distances relative to a squared width."""
    out = squared_distances * (-1.0 / width)
    return np.exp(out, out=out)


class DecayingSimilarity:
    r"""Similarities that decay with distance, :math:`\exp(-\|a_i - a_j\|^2/\bar d^2)`, from inner products.

    :math:`\bar d^2` is the mean squared distance between atoms.
    """

    def __init__(self, gram: Array, squares: Array) -> None:
        n = len(squares)
        self.squares = squares
        mean = float(2.0 * (n * squares.sum() - gram.sum())) / max(n * (n - 1), 1)
        self.width = mean if mean > 0 else 1.0

    @classmethod
    def restore(cls, squares: Array, width: float) -> DecayingSimilarity:
        """Rebuild similarities from the squared lengths of the atoms and their mean squared distance."""
        out = object.__new__(cls)
        out.squares, out.width = squares, width
        return out

    def compare(self, squared_distances: Array) -> Array:
        """Return the similarities at squared distances, as a new array."""
        return compare_at(squared_distances, self.width)


def compute_squared_distances(products: Array, squares: Array, atom_squares: Array) -> Array:
    """Return squared distances from inner products with the atoms, (n, n_atoms), and squared lengths of both."""
    out = products * -2.0
    out += squares[:, None]
    out += atom_squares
    return np.maximum(out, 0.0, out=out)


class RidgeRegression:
    """Ridge regression over all atoms.

    Parameters
    ----------
    similarities : ndarray (n_atoms, n_atoms)
        Overwritten.
    membership : ndarray (n_atoms, n_classes)
    penalty : float
    """

    def __init__(self, similarities: Array, membership: Array, penalty: float) -> None:
        similarities[np.diag_indices_from(similarities)] += penalty
        # Symmetric: its transpose is the order of LAPACK, which then works in place.
        self._factor: Array | None = linalg.cholesky(similarities.T, lower=True, overwrite_a=True, check_finite=False)
        self.membership, self.penalty = membership, penalty
        coefficients = linalg.cho_solve((self._factor, True), membership, check_finite=False)
        # Not in LAPACK's order, in which the last bits of a product of few rows differ from those of many.
        self.coefficients: Array = np.ascontiguousarray(coefficients)
        #: :math:`Y^T(R + \lambda I)^{-1}Y`.
        self.totals: Array = membership.T @ self.coefficients

    def score(self, similarities: Array) -> Array:
        """Compute class scores, (n_samples, n_classes), of samples with these similarities to the atoms."""
        return similarities @ self.coefficients

    def hold_out(self, atoms: IntArray | None = None) -> HeldOutRidge:
        """Return the regression for held-out atoms, all or only some (sorted); the factor is not kept."""
        assert self._factor is not None
        factor, self._factor = self._factor, None
        if atoms is None:
            return HeldOutRidge(_invert(factor), self)
        units = np.zeros((len(factor), len(atoms)), order="F")
        units[atoms, np.arange(len(atoms))] = 1.0
        half = linalg.solve_triangular(factor, units, lower=True, overwrite_b=True, check_finite=False)
        return HeldOutRidge(half.T @ half, self, atoms)


class HeldOutRidge:
    r"""Class scores of atoms as if they, and others, were not in the dictionary.

    With :math:`P = (R + \lambda I)^{-1}`, :math:`A = PY` and the atoms U left out, ridge regression predicts them as
    :math:`Y_U - P_{UU}^{-1}A_U`, and :math:`Y^TA` becomes :math:`Y^TA - A_U^TP_{UU}^{-1}A_U`. So one inverse serves
    every choice of held-out atoms; where only some ``atoms`` are ever left out, their part of it does.
    """

    def __init__(self, inverse: Array, ridge: RidgeRegression, atoms: IntArray | None = None) -> None:
        self.inverse, self.membership, self.atoms = inverse, ridge.membership, atoms
        self.coefficients, self.totals = ridge.coefficients, ridge.totals

    def score(self, left_out: IntArray) -> tuple[Array, Array]:
        """Compute the scores of the atoms ``left_out``, (len(left_out), n_classes), without them, and the totals.

        A class whose atoms are all left out has the score 0.
        """
        own = self.coefficients[left_out]
        places = left_out if self.atoms is None else np.searchsorted(self.atoms, left_out)
        solved = solve_positive(self.inverse[np.ix_(places, places)], own)
        return self.membership[left_out] - solved, self.totals - own.T @ solved


def _invert(factor: Array) -> Array:
    """Return the inverse of a positive definite matrix from its lower Cholesky factor, which is overwritten.

    The factor is zero above the diagonal, and the inverse too, until its transpose is added.
    """
    inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    diagonal = inverse.diagonal().copy()
    inverse = inverse + inverse.T
    inverse[np.diag_indices_from(inverse)] = diagonal
    return inverse


def invert_positive(matrix: Array) -> Array:
    """Return the inverse of a positive definite matrix."""
    return _invert(linalg.cholesky(matrix, lower=True, check_finite=False))


def solve_positive(matrix: Array, right: Array) -> Array:
    """Solve a positive definite system; for small ones scipy's own checks would take most of the time."""
    # Symmetric: its transpose is in the order of LAPACK, and need not be turned.
    _, solution, info = linalg.lapack.dposv(matrix.T, right, lower=1)
    if info != 0:
        return linalg.lstsq(matrix, right, check_finite=False)[0]
    return solution

r"""Least squares and ridge: one factorisation of the Gram matrix for a whole batch.

With linearly independent atoms :math:`x_{LS} = G^{-1}c` is the only code with :math:`Yx = Py`. So for an epsilon out of
reach it is the answer, and a batch of them costs two matrix products. Independence is decided by the Cholesky factor:
the squared distance of each atom to the span of those before it must exceed ``INDEPENDENT`` times its squared length.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ..._support.array_types import Array

#: Rank tolerance: squared relative distance below which an atom counts as dependent on others.
INDEPENDENT = 1e-10


def inverse_gram(gram: Array) -> Array | None:
    """The inverse of the Gram matrix, or None where its atoms are (numerically) dependent."""
    try:
        factor = linalg.cholesky(gram, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    if (np.diagonal(factor) ** 2 <= INDEPENDENT * np.diagonal(gram)).any():
        return None
    inverse, info = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    if info != 0:
        return None
    lower = np.tril(inverse)
    lower += np.tril(lower, -1).T
    return lower


def solve_least_squares(gram: Array, inverse: Array, cross: Array, codes: Array) -> Array:
    """Least-squares codes of a batch: ``codes = cross @ inverse`` after a round of iterative refinement."""
    return codes + (cross - codes @ gram) @ inverse


class RidgeSolver:
    r"""Ridge codes, :math:`(G + \alpha I)x = c`, with one factorisation for all batches.

    Parameters
    ----------
    alpha : float
    gram : ndarray (N, N), optional
    atoms : ndarray (N, M), optional
        Instead of the Gram matrix: :math:`x = (c - Y^T(\alpha I + YY^T)^{-1}Yc)/\alpha`.
    """

    def __init__(self, alpha: float, *, gram: Array | None = None, atoms: Array | None = None) -> None:
        self.alpha, self.atoms = alpha, atoms
        if atoms is not None:
            system = atoms.T @ atoms
        elif gram is not None:
            system = gram.copy()
        else:
            raise TypeError("either gram or atoms is needed")
        system[np.diag_indices_from(system)] += alpha
        try:
            self.factor = linalg.cho_factor(system, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            raise ValueError(
                f"alpha={alpha:g} is lost in the rounding of the Gram matrix of dependent atoms; use a larger one."
            ) from None

    def solve(self, cross: Array) -> Array:
        """Codes of a batch."""
        if self.atoms is None:
            return np.ascontiguousarray(linalg.cho_solve(self.factor, cross.T, check_finite=False).T)
        lifted = linalg.cho_solve(self.factor, (cross @ self.atoms).T, check_finite=False)
        return (cross - (self.atoms @ lifted).T) / self.alpha

r"""Least squares and ridge: one factorization of the Gram matrix for a whole batch.

With linearly independent atoms :math:`x_{LS} = G^{-1}c` is the only code with :math:`Yx = Py`. So for an epsilon out of
reach it is the answer, and a batch of them costs two matrix products. Independence is decided by the Cholesky factor:
the squared distance of each atom to the span of those before it must exceed ``INDEPENDENT`` times its squared length.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ..._support.array_types import Array
from ...dictionary.dictionary import widen
from ..batch import Batch
from ..problems import Ridge
from ..sparse_rows import to_sparse_rows
from .solver import Solution, Solver

#: Rank tolerance: squared relative distance below which an atom counts as dependent on others.
INDEPENDENT = 1e-10


def factor_gram(gram: Array) -> Array | None:
    """Return the lower Cholesky factor of the Gram matrix, or None if its atoms are (numerically) dependent."""
    try:
        factor = linalg.cholesky(gram, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    return None if (np.diagonal(factor) ** 2 <= INDEPENDENT * np.diagonal(gram)).any() else factor


def invert_factor(factor: Array | None) -> Array | None:
    """Return the inverse of the Gram matrix from its Cholesky factor, None if there is none."""
    if factor is None:
        return None
    inverse, _ = linalg.lapack.dpotri(factor, lower=1)
    lower = np.tril(inverse)
    lower += np.tril(lower, -1).T
    return lower


class RidgeSolver(Solver):
    r"""Ridge codes, :math:`(G + \alpha I)x = c`, with one factorization for the whole batch.

    Without the Gram matrix, from features: :math:`x = (c - Y^T(\alpha I + YY^T)^{-1}Yc)/\alpha`.
    """

    factors = True

    @classmethod
    def supports(cls, batch: Batch) -> bool:
        """Return whether the problem is Ridge."""
        return isinstance(batch.problem, Ridge)

    @classmethod
    def cost(cls, batch: Batch) -> float:
        """Count a factorization and two products per sample."""
        return batch.n_atoms**3 / 3 + 2 * batch.n_samples * batch.n_atoms**2

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        assert isinstance(batch.problem, Ridge)
        self.alpha, gram, n = batch.problem.alpha, batch.gram, batch.n_atoms
        atoms = batch.dictionary.linear_atoms if gram is None else None
        self.atoms: Array | None = None if atoms is None else widen(atoms)
        if gram is not None:
            system = gram.copy()
        elif self.atoms is not None:
            system = self.atoms.T @ self.atoms
        else:
            raise ValueError(
                f"Ridge over {n} atoms with a non-linear kernel needs their Gram matrix "
                f"({8 * n * n / 2**30:.0f} GiB); call dictionary.gram first if memory allows, or use Lasso."
            )
        system[np.diag_indices_from(system)] += self.alpha
        try:
            self.factor = linalg.cho_factor(system, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            raise ValueError(
                f"alpha={self.alpha:g} is lost in the rounding of the Gram matrix of dependent atoms; use a larger one."
            ) from None

    def solve(self, cross: Array, squared_norms: Array) -> Solution:
        """Solve the factored system for a chunk of samples."""
        if self.atoms is None:
            codes = np.ascontiguousarray(linalg.cho_solve(self.factor, cross.T, check_finite=False).T)
        else:
            lifted = linalg.cho_solve(self.factor, (cross @ self.atoms).T, check_finite=False)
            codes = (cross - (self.atoms @ lifted).T) / self.alpha
        n = len(cross)
        return Solution(to_sparse_rows(codes), np.ones(n, np.int64), np.zeros(n, dtype=bool))

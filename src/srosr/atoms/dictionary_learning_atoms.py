"""``DictionaryLearningAtoms``: plain dictionary learning, class by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.parameter_checks import check_count, check_positive
from ..dictionary.dictionary import normalize_rows
from .atom_sampler import AtomSampler

# Atoms shorter than this, of samples of length one, were never used.
_UNUSED = 1e-8


class DictionaryLearningAtoms(AtomSampler):
    r"""Learn atoms that reconstruct the samples of their class with sparse codes.

    :math:`\min_{A, X} \sum_i \frac12\|y_i - A^Tx_i\|^2 + \alpha\|x_i\|_1` for each class by itself, with scikit-learn's
    ``MiniBatchDictionaryLearning``. Other classes do not count: :class:`LearnAtoms` has them in its objective.

    Parameters
    ----------
    n_atoms : float, int or mapping, default 0.25
        A share of each class, a number a class, or a number for each class; see :class:`SelectAtoms`.
    alpha : float, default 0.1
        Weight of the sparsity of codes.
    max_iter : int, default 10
        Passes over the samples.
    normalize : bool, default True
        Scale samples to unit length first, and atoms afterward.
    random_state : int, RandomState or None

    Attributes
    ----------
    sample_indices_ : None
        The atoms are no samples.
    nearest_indices_ : ndarray of int (n_atoms,)
        For each atom the nearest sample of its class, as a row of X.

    References
    ----------
    J. Mairal, F. Bach, J. Ponce, G. Sapiro, "Online dictionary learning for sparse coding", ICML 2009.

    Examples
    --------
    >>> from srosr import DictionaryLearningAtoms
    >>> X, y = [[1.0, 0.1], [1.0, -0.1], [0.0, 1.0], [0.1, 1.0]], [0, 0, 1, 1]
    >>> atoms, labels = DictionaryLearningAtoms(1, random_state=0).fit_resample(X, y)
    >>> atoms.shape, labels.tolist()
    ((2, 2), [0, 1])
    """

    def __init__(
        self,
        n_atoms: Any = 0.25,
        *,
        alpha: float = 0.1,
        max_iter: int = 10,
        normalize: bool = True,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_atoms, normalize=normalize, random_state=random_state)
        self.alpha = alpha
        self.max_iter = max_iter

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("alpha", self.alpha)
        check_count("max_iter", self.max_iter)

    def _find_atoms(self, rows: Array, class_of: IntArray, counts: IntArray, rng: Any) -> Array:
        parts = [self._learn_class(rows[class_of == k], int(count), rng) for k, count in enumerate(counts)]
        atoms = np.concatenate(parts)
        return normalize_rows(atoms) if self.normalize else atoms

    def _learn_class(self, rows: Array, count: int, rng: Any) -> Array:
        if count >= len(rows):
            return rows.copy()
        from sklearn.decomposition import MiniBatchDictionaryLearning

        learner = MiniBatchDictionaryLearning(
            count, alpha=self.alpha, max_iter=self.max_iter, batch_size=64, random_state=rng.randint(2**31 - 1)
        )
        atoms = np.array(learner.fit(rows).components_)
        unused = np.flatnonzero(np.linalg.norm(atoms, axis=1) < _UNUSED)
        atoms[unused] = rows[rng.permutation(len(rows))[: len(unused)]]
        return atoms

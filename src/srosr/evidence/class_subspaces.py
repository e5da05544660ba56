r"""Distances to the subspaces of large classes, from sums over their atoms.

In features :math:`\phi` in which inner products of a class are exact or nearly so the distance of :mod:`.subspaces` is

.. math:: d_k^2 = \|y\|^2 - \|\phi\|^2 + \mu\,\phi^T(S_k + \mu I)^{-1}\phi, \qquad S_k = \Phi_k^T\Phi_k .

With the linear kernel :math:`\phi` are the features themselves, and a class of more atoms than features costs no more
than one of as many. With another kernel a class of very many atoms is described by landmarks among them.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .._support.array_types import Array, IntArray
from ..dictionary.dictionary import Dictionary, Queries, split_range, widen
from .landmarks import whiten
from .subspaces import SUBSPACE_PENALTY

#: Atoms of a class from which on it is described by landmarks where the kernel is not linear, and their number.
MANY_IN_CLASS = 2048
CLASS_LANDMARKS = 512
_BLOCK = 4096


class ClassSubspaces:
    """Distances to the subspaces of classes of any size, for new samples and for atoms that are held out.

    A class is described by the Gram matrix of its atoms, or by sums of their features if these are fewer.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self.class_slices = dictionary.class_slices
        self.squares = dictionary.squared_norms
        self.penalty = SUBSPACE_PENALTY * (float(self.squares.mean()) or 1.0)
        self._maps = [self._find_map(part) for part in self.class_slices]
        self._systems = [self._sum_up(k) for k in range(len(self._maps))]
        self._factors = [_factor(system, self.penalty) for system in self._systems]

    @classmethod
    def restore(
        cls, dictionary: Dictionary, maps: list[tuple[IntArray, Array] | bool], factors: list[Array]
    ) -> ClassSubspaces:
        """Rebuild the distances of new samples from the description and the Cholesky factor of each class."""
        out = object.__new__(cls)
        out.dictionary, out.class_slices, out.squares = dictionary, dictionary.class_slices, dictionary.squared_norms
        out.penalty = SUBSPACE_PENALTY * (float(out.squares.mean()) or 1.0)
        out._maps, out._systems, out._factors = maps, [], [np.asfortranarray(factor) for factor in factors]
        return out

    def _find_map(self, part: slice) -> tuple[IntArray, Array] | bool:
        """Return True for features, landmarks and their transform, or False for the Gram matrix of the class."""
        size, atoms = part.stop - part.start, self.dictionary.linear_atoms
        if atoms is not None:
            return size > atoms.shape[1]
        if size <= MANY_IN_CLASS:
            return False
        landmarks = part.start + np.arange(CLASS_LANDMARKS) * size // CLASS_LANDMARKS
        return landmarks, whiten(self.dictionary.block(landmarks, landmarks))

    def _map_atoms(self, k: int, atoms: slice | IntArray) -> Array:
        how = self._maps[k]
        if isinstance(how, tuple):
            return self.dictionary.block(atoms, how[0]) @ how[1]
        rows = self.dictionary.linear_atoms
        assert rows is not None
        return widen(rows[atoms])

    def _sum_up(self, k: int) -> Array:
        part = self.class_slices[k]
        if self._maps[k] is False:
            return np.array(self.dictionary.block(part, part))
        out: Array | None = None
        for block in split_range(part.start, part.stop, _BLOCK):
            features = self._map_atoms(k, block)
            out = features.T @ features if out is None else out + features.T @ features
        assert out is not None
        return out

    @property
    def needs_features(self) -> bool:
        """Whether a class is described by features, which samples must have."""
        return any(how is True for how in self._maps)

    def measure(self, queries: Queries) -> Array:
        """Compute the distances of new samples, (n_samples, n_classes)."""
        out = np.empty((len(queries), len(self.class_slices)))
        for k, (part, how) in enumerate(zip(self.class_slices, self._maps, strict=True)):
            if how is False:
                features = queries.cross[:, part]
            elif isinstance(how, tuple):
                features = queries.cross[:, how[0]] @ how[1]
            else:
                assert queries.rows is not None
                features = queries.rows
            out[:, k] = self._measure(k, self._factors[k], features, queries.squared_norms)
        return np.sqrt(np.maximum(out, 0.0))

    def measure_without(self, atoms: IntArray, left_out: IntArray, classes: IntArray) -> Array:
        """Compute the distances of atoms to the subspaces of classes without the atoms ``left_out`` (sorted)."""
        out = np.empty((len(atoms), len(classes)))
        for column, k in enumerate(classes):
            part, factor = self.class_slices[k], self._factors[k]
            kept: IntArray = np.arange(part.stop - part.start)
            first, last = np.searchsorted(left_out, [part.start, part.stop])
            gone = left_out[first:last]
            if len(gone) and self._maps[k] is False:
                kept = np.delete(kept, gone - part.start)
                factor = _factor(self._systems[k][np.ix_(kept, kept)], self.penalty)
            elif len(gone):
                features = self._map_atoms(k, gone)
                factor = _factor(self._systems[k] - features.T @ features, self.penalty)
            if self._maps[k] is False:
                features = self.dictionary.block(atoms, part.start + kept)
            else:
                features = self._map_atoms(k, atoms)
            out[:, column] = self._measure(k, factor, features, self.squares[atoms])
        return np.sqrt(np.maximum(out, 0.0))

    def forget_sums(self) -> None:
        """Free what only held-out atoms need."""
        self._systems = []

    def _measure(self, k: int, factor: Array, features: Array, squares: Array) -> Array:
        image, _ = linalg.lapack.dtrtrs(factor, features.T, lower=1)
        inside = np.einsum("ij,ij->j", image, image)
        if self._maps[k] is False:
            return squares - inside
        return squares - np.einsum("ij,ij->i", features, features) + self.penalty * inside


def _factor(system: Array, penalty: float) -> Array:
    system = np.array(system)
    system[np.diag_indices_from(system)] += penalty
    return linalg.cholesky(system, lower=True, overwrite_a=True, check_finite=False)

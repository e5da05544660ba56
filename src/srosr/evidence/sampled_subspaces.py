r"""Distances to the subspaces of classes that are known from more samples than are atoms.

With an orthonormal basis of the span of the atoms of class k, in which its samples are :math:`Z`, the distance of
:mod:`.subspaces` restricted to that span is

.. math:: d_k^2 = \|y\|^2 - v^TB_kv, \qquad B_k = T\bigl(I - \mu(Z^TZ + \mu I)^{-1}\bigr)T^T, \quad TT^T = G_{kk}^{+},

v being the inner products of a sample with the atoms of the class. If the atoms span all features, v are the features.
"""

from __future__ import annotations

import numpy as np

from .._support.array_types import Array
from ..dictionary.dictionary import Dictionary, Queries, split_range, widen
from .landmarks import RegressionSamples, whiten
from .ridge import invert_positive
from .subspaces import SUBSPACE_PENALTY

_BLOCK = 4096


class SampledSubspaces:
    """Distances of new samples to the subspaces of the classes.

    Parameters
    ----------
    dictionary : Dictionary
    forms : list of ndarray
        The matrices :math:`B_k`.
    """

    def __init__(self, dictionary: Dictionary, forms: list[Array]) -> None:
        self.class_slices, self.forms = dictionary.class_slices, forms
        self._by_features = [_uses_features(dictionary, part) for part in self.class_slices]

    @classmethod
    def fit(cls, dictionary: Dictionary, samples: RegressionSamples) -> SampledSubspaces:
        """Describe each class by its samples, in the span of its atoms."""
        rows, class_of, weights = samples
        penalty = SUBSPACE_PENALTY * (float(dictionary.squared_norms.mean()) or 1.0)
        forms = []
        for k, part in enumerate(dictionary.class_slices):
            atoms = dictionary.subset(np.arange(part.start, part.stop))
            transform = None if _uses_features(dictionary, part) else whiten(atoms.gram)
            sums = []
            first, last = np.searchsorted(class_of, [k, k + 1])
            for block in split_range(int(first), int(last), _BLOCK):
                queries = atoms.query_features(np.ascontiguousarray(widen(rows[block])))
                inside = queries.rows if transform is None else queries.cross @ transform
                assert inside is not None
                sums.append(inside.T @ (inside if weights is None else inside * weights[block][:, None]))
            system = np.sum(sums, axis=0)
            system[np.diag_indices_from(system)] += penalty
            form = -penalty * invert_positive(system)
            form[np.diag_indices_from(form)] += 1.0
            forms.append(np.ascontiguousarray(form if transform is None else transform @ form @ transform.T))
        return cls(dictionary, forms)

    @classmethod
    def restore(cls, dictionary: Dictionary, flat: Array) -> SampledSubspaces:
        """Rebuild the distances from the numbers of all forms, one after the other."""
        forms, at = [], 0
        for part in dictionary.class_slices:
            size = dictionary.n_features if _uses_features(dictionary, part) else part.stop - part.start
            forms.append(flat[at : at + size**2].reshape(-1, size))
            at += size**2
        if at != len(flat):
            raise ValueError("the subspaces do not fit the atoms.")
        return cls(dictionary, forms)

    @property
    def needs_features(self) -> bool:
        """Whether a class is described by features, which samples must have."""
        return any(self._by_features)

    def measure(self, queries: Queries) -> Array:
        """Compute the distances, (n_samples, n_classes)."""
        out = np.empty((len(queries), len(self.forms)))
        for k, (part, form) in enumerate(zip(self.class_slices, self.forms, strict=True)):
            values = queries.rows if self._by_features[k] else queries.cross[:, part]
            assert values is not None
            out[:, k] = queries.squared_norms - np.einsum("ij,ij->i", values @ form, values)
        return np.sqrt(np.maximum(out, 0.0))


def _uses_features(dictionary: Dictionary, part: slice) -> bool:
    """Return whether a class is described in features: they are fewer than its atoms."""
    return dictionary.linear_atoms is not None and part.stop - part.start > dictionary.n_features

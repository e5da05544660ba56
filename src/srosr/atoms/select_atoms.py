"""``SelectAtoms``: training samples chosen so that the open set risk is small."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.parameter_checks import check_choice, check_count
from .atom_sampler import MOST_ATOMS, AtomSampler
from .open_risk import GROUP_SIZE, ClassGroup, OpenRisk, compare_rows, compute_width, draw_evenly, draw_groups

#: Where not all samples are candidates, there are at least so many for each atom.
CANDIDATES_PER_ATOM = 4
# A candidate of which less than this share is not explained by the atoms is a copy of them.
_COPY = 1e-9


class SelectAtoms(AtomSampler):
    r"""Choose training samples as atoms so that the open set risk is small.

    The risk says how well the class scores over the atoms accept known samples under their class and reject simulated
    unknowns (:mod:`srosr.atoms.open_risk` has the formula). Samples are added one after the other, each time the one
    that lowers the risk most, of the classes that do not have their number of atoms yet.

    Parameters
    ----------
    n_atoms : float, int or mapping, default 0.25
        Atoms to keep: a share in (0, 1] of every class, rounded to the nearest number (halves to the even one), at
        least one atom of every class (1.0 keeps all samples); an integer, the number for each class (1 is one atom a
        class); or a mapping from each class to its number. At most 4,096 of a class.
    criterion : {"open-risk"}, default "open-risk"
    normalize : bool, default True
        Compare samples at unit length, as :class:`srosr.SROSRClassifier` does by default.
    max_samples : int, default 6000
        Where there are more training samples, the risk is measured on so many, drawn evenly over the classes, and
        candidates are drawn too: so many, or four for each atom, but of a class no more than 8,192.
    random_state : int, RandomState or None
        Seed of these draws. With fewer samples nothing is drawn.

    Attributes
    ----------
    sample_indices_ : ndarray of int (n_atoms,)
        Rows of X that are atoms; those of a class in the order in which they were chosen.
    nearest_indices_ : ndarray of int (n_atoms,)
        The same.
    risk_paths_ : list of ndarray
        The risk before the first atom and after each one. Very many classes are divided into groups; there is one path
        for each.
    classes_ : ndarray (n_classes,)
    n_atoms_ : ndarray of int (n_classes,)
        The number of atoms of each class.

    See Also
    --------
    LearnAtoms : Atoms that are no samples, with a smaller risk.

    References
    ----------
    H. Zhang, V. M. Patel, "Sparse representation-based open set recognition", IEEE TPAMI, 2016. S. Chen, C. F. N.
    Cowan, P. M. Grant, "Orthogonal least squares learning algorithm for radial basis function networks", IEEE
    Transactions on Neural Networks 2, 1991 (the greedy choice).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from srosr import SelectAtoms
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> sampler = SelectAtoms(0.1)
    >>> X_res, y_res = sampler.fit_resample(X, y)
    >>> X_res.shape, bool((X[sampler.sample_indices_] == X_res).all())
    ((54, 64), True)
    """

    most_atoms = MOST_ATOMS

    def __init__(
        self,
        n_atoms: Any = 0.25,
        *,
        criterion: str = "open-risk",
        normalize: bool = True,
        max_samples: int = 6000,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_atoms, normalize=normalize, random_state=random_state)
        self.criterion = criterion
        self.max_samples = max_samples

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("criterion", self.criterion, ("open-risk",))
        check_count("max_samples", self.max_samples)

    def _find_atoms(self, rows: Array, class_of: IntArray, counts: IntArray, rng: Any) -> IntArray:
        candidates = self._draw_candidates(class_of, counts, rng)
        needed = np.bincount(class_of[candidates])
        self.risk_paths_: list[Array] = []
        width, chosen = compute_width(rows), []
        for group in draw_groups(class_of, needed, self.max_samples, rng):
            own = candidates[np.isin(class_of[candidates], group.classes)]
            found, path = _choose_greedily(rows, class_of, own, counts, group, width)
            chosen.append(found[np.argsort(class_of[found], kind="stable")])
            self.risk_paths_.append(path)
        return np.concatenate(chosen)

    def _draw_candidates(self, class_of: IntArray, counts: IntArray, rng: Any) -> IntArray:
        if len(class_of) <= self.max_samples:
            return np.arange(len(class_of))
        share, parts = self.max_samples / len(class_of), []
        for k, count in enumerate(counts.tolist()):
            own = np.flatnonzero(class_of == k)
            most = max(min(CANDIDATES_PER_ATOM * count, GROUP_SIZE), int(share * len(own)))
            parts.append(draw_evenly(class_of, own, most, rng))
        return np.concatenate(parts)


def _choose_greedily(
    rows: Array, class_of: IntArray, candidates: IntArray, counts: IntArray, group: ClassGroup, width: float
) -> tuple[IntArray, Array]:
    """Return the chosen rows in order, and the risk before the first and after each.

    Regularized least squares on the similarities is plain least squares on columns with the inner products
    :math:`M = K^TK + \\lambda K_A`. Each step takes the column with the largest share in the target, and a step of a
    Cholesky factorization of M removes it from the others.
    """
    membership, labels = group.build_membership(class_of), class_of[candidates]
    risk = OpenRisk(rows[group.samples], membership, width)
    similar = compare_rows(risk.samples, rows[candidates], width)
    left = counts.copy()
    n_steps = int(left[group.classes].sum())
    target = similar.T @ membership
    products = similar.T @ similar
    del similar
    products += risk.penalty * compare_rows(rows[candidates], rows[candidates], width)
    lengths = np.diagonal(products).copy()
    least = _COPY * lengths
    factor, open_ = np.zeros((n_steps, len(candidates))), np.ones(len(candidates), np.bool_)
    chosen, path = np.empty(n_steps, np.int64), np.full(n_steps + 1, float(membership.sum()))
    for step in range(n_steps):
        gain = np.einsum("ij,ij->i", target, target) / np.maximum(lengths, least)
        gain[lengths <= least] = 0.0
        p = int(np.where(open_ & (left[labels] > 0), gain, -1.0).argmax())
        chosen[step], open_[p] = p, False
        left[labels[p]] -= 1
        path[step + 1] = path[step] - gain[p]
        if lengths[p] > least[p]:
            column = (products[p] - factor[:step, p] @ factor[:step]) / np.sqrt(lengths[p])
            target -= np.outer(column, target[p] / np.sqrt(lengths[p]))
            lengths -= column**2
            factor[step] = column
    return candidates[chosen], path / len(membership)

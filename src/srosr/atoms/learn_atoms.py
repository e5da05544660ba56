"""``LearnAtoms``: atoms that are no samples, learned so that the open set risk is small."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import minimize

from .._support.array_types import Array, IntArray
from .._support.parameter_checks import check_count
from ..dictionary.dictionary import normalize_rows
from .atom_sampler import MOST_ATOMS, AtomSampler
from .kmeans_atoms import find_class_centers
from .open_risk import OpenRisk, compute_width, draw_groups

#: Most atoms that are moved together.
GROUP_ATOMS = 2048
#: Iterations of k-means for the first atoms.
START_ITERATIONS = 10


class LearnAtoms(AtomSampler):
    r"""Learn atoms with a small open set risk, starting from the centers of k-means of each class.

    The risk says how well the class scores over the atoms accept known samples under their class and reject simulated
    unknowns (:mod:`srosr.atoms.open_risk` has the formula). All atoms are moved together down its gradient (L-BFGS).

    Parameters
    ----------
    n_atoms : float, int or mapping, default 0.25
        Atoms to learn: a share in (0, 1] of every class, rounded to the nearest number (halves to the even one), at
        least one atom of every class; an integer, the number for each class; or a mapping from each class to its
        number; at most 4,096 of a class. The atoms of a class that keeps as many atoms as it has samples start at the
        samples.
    max_iter : int, default 20
        Most steps; each lowers the risk. Later ones lower it little: with 50, unknowns were told apart no better.
    normalize : bool, default True
        Scale samples to unit length, as :class:`srosr.SROSRClassifier` does by default. Atoms then have unit length.
    max_samples : int, optional
        Where there are more training samples, the risk is measured on so many, drawn evenly over the classes. By
        default ten for each atom, and at least 6,000 (with more than 2,000 atoms fewer than ten, so that their
        similarities fit into memory). With three for each atom, atoms fit the samples better than they fit new ones.
    random_state : int, RandomState or None
        Seed of the first centers and of that draw.

    Attributes
    ----------
    sample_indices_ : None
        The atoms are no samples.
    nearest_indices_ : ndarray of int (n_atoms,)
        For each atom the nearest sample of its class, as a row of X.
    risk_paths_ : list of ndarray
        The risk of the first atoms and after each step. Very many atoms are learned in groups of classes; there is one
        path for each.
    classes_ : ndarray (n_classes,)
    n_atoms_ : ndarray of int (n_classes,)
        The number of atoms of each class.

    See Also
    --------
    SelectAtoms : Samples chosen by the same risk.

    Notes
    -----
    Learned atoms serve class scores that are fitted to all samples. They need not look like samples, and a classifier
    that takes them for its only training samples does worse with them than with the centers of k-means.

    References
    ----------
    H. Zhang, V. M. Patel, "Sparse representation-based open set recognition", IEEE TPAMI, 2016. E. Snelson, Z.
    Ghahramani, "Sparse Gaussian processes using pseudo-inputs", NIPS 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from srosr import LearnAtoms
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> sampler = LearnAtoms(5, max_iter=5, random_state=0)
    >>> atoms, labels = sampler.fit_resample(X, y)
    >>> path = sampler.risk_paths_[0]
    >>> atoms.shape, bool(path[-1] < path[0])
    ((15, 64), True)
    """

    most_atoms = MOST_ATOMS

    def __init__(
        self,
        n_atoms: Any = 0.25,
        *,
        max_iter: int = 20,
        normalize: bool = True,
        max_samples: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_atoms, normalize=normalize, random_state=random_state)
        self.max_iter = max_iter
        self.max_samples = max_samples

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("max_iter", self.max_iter)
        if self.max_samples is not None:
            check_count("max_samples", self.max_samples)

    def _find_atoms(self, rows: Array, class_of: IntArray, counts: IntArray, rng: Any) -> Array:
        basis = None
        if rows.shape[1] > len(rows):
            # Atoms stay in the span of the samples, where they have fewer coordinates.
            basis = linalg.qr(rows.T, mode="economic", check_finite=False)[0]
            rows = rows @ basis
        atoms = find_class_centers(
            rows, class_of, counts, rng, normalize=self.normalize, max_iter=START_ITERATIONS
        )  # fmt: skip
        numbers = np.repeat(np.arange(len(counts)), counts)
        self.risk_paths_: list[Array] = []
        width = compute_width(rows)
        for group in draw_groups(class_of, counts, self.max_samples, rng, GROUP_ATOMS):
            own = np.isin(numbers, group.classes)
            risk = OpenRisk(rows[group.samples], group.build_membership(class_of), width)
            atoms[own], path = _descend(risk, atoms[own], self.max_iter, unit_length=self.normalize)
            self.risk_paths_.append(path)
        return atoms if basis is None else atoms @ basis.T


def _descend(risk: OpenRisk, atoms: Array, max_iter: int, *, unit_length: bool) -> tuple[Array, Array]:
    """Move atoms down the gradient of the risk; return them and the risk at the start and after each step."""
    shape, path = atoms.shape, [risk.measure(atoms)]

    def evaluate(values: Array) -> tuple[float, Array]:
        free = values.reshape(shape)
        if not unit_length:
            value, gradient = risk.differentiate(free)
        else:
            lengths = np.linalg.norm(free, axis=1, keepdims=True)
            lengths[lengths == 0] = 1.0
            unit = free / lengths
            value, gradient = risk.differentiate(unit)
            gradient = (gradient - np.einsum("ij,ij->i", gradient, unit)[:, None] * unit) / lengths
        # The derivative by one of many atoms is small: the first step of the search is in proportion to it.
        return value * len(free), gradient.ravel() * len(free)

    def record(intermediate_result: Any) -> None:
        path.append(float(intermediate_result.fun) / len(atoms))

    options = {"maxiter": max_iter, "maxcor": 5}
    done = minimize(evaluate, atoms.ravel(), jac=True, method="L-BFGS-B", callback=record, options=options)
    found = done.x.reshape(shape)
    return (normalize_rows(found) if unit_length else found), np.array(path)

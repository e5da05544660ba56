r"""The open set risk of atoms: how well ridge scores over them accept known samples and reject simulated unknowns.

The class scores f of a sample are those of kernel ridge regression of class membership on the similarities to the
atoms, learned from all samples. A known sample of class k is lost where its own score is small, a simulated unknown, a
sample whose class is left out, is accepted where the score of another class is large. With a limit of one half and the
square as a bound of the zero-one loss, :math:`1[z \ge \frac12] \le 4z^2`,

.. math:: C_o + C_\epsilon \le \frac4N\sum_i\Bigl((1 - f_{k_i}(y_i))^2 + \sum_{j \ne k_i}f_j(y_i)^2\Bigr)
   = \frac4N\|Y - K\beta\|_F^2,

where K has the similarities of the samples to the atoms and Y the memberships. (The scores of the other classes stand
in for those with the class left out.) The *risk* of the atoms is that sum at the regularized coefficients, without the
factor,

.. math:: R = \frac1N\min_\beta\ \|Y - K\beta\|_F^2 + \lambda\,\mathrm{tr}(\beta^TK_A\beta).

It never rises when an atom is added, and no atoms at all, samples or not, have a smaller one than all samples together,
whose span holds the best of all functions of the kernel. So atoms cannot fit the samples better than the whole
dictionary does. The similarities are the mean of those of the collaborative and the local class scores
(:mod:`srosr.evidence`), :math:`\frac12\exp(-d^2/\bar d^2) + \frac12\exp(-4d^2/\bar d^2)`.

Many classes are worked off in groups: a group's risk is measured on samples of its classes, and on some of others.

References
----------
H. Zhang, V. M. Patel, "Sparse representation-based open set recognition", IEEE TPAMI, 2016 (the risk, and dictionary
learning that makes it small as future work). W. J. Scheirer et al., "Toward open set recognition", IEEE TPAMI 35, 2013.
E. Snelson, Z. Ghahramani, "Sparse Gaussian processes using pseudo-inputs", NIPS 2005 (learned inputs).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from .._support.array_types import Array, IntArray
from ..evidence.ridge import COLLABORATIVE_PENALTY
from .atom_sampler import compute_row_distances

# Added to the similarities of atoms to themselves, so that copies of an atom do not matter.
_JITTER = 1e-8


def compute_width(rows: Array) -> float:
    """Return the mean squared distance between rows, 1 if they are all the same."""
    n = len(rows)
    total = rows.sum(axis=0)
    mean = 2.0 * (n * float(np.einsum("ij,ij->", rows, rows)) - float(total @ total)) / max(n * (n - 1), 1)
    return mean if mean > 0 else 1.0


def compare_rows(a: Array, b: Array, width: float) -> Array:
    """Return the similarities between the rows of two arrays, (len(a), len(b))."""
    wide, narrow = _compare_at_two_widths(a, b, width)
    narrow += wide
    narrow *= 0.5
    return narrow


def _compare_at_two_widths(a: Array, b: Array, width: float) -> tuple[Array, Array]:
    """Return the two similarities whose mean is taken; the second is the fourth power of the first."""
    wide = compute_row_distances(a, b)
    wide *= -1.0 / width
    np.exp(wide, out=wide)
    narrow = wide * wide
    narrow *= narrow
    return wide, narrow


def _compare_with_slope(a: Array, b: Array, width: float) -> tuple[Array, Array]:
    """Return similarities, and what they change by, times the difference of two rows, when the second moves."""
    wide, narrow = _compare_at_two_widths(a, b, width)
    similar = 0.5 * (wide + narrow)
    # The derivatives of the two parts are 2(y - a)/width times themselves and 8(y - a)/width times themselves.
    narrow *= 4.0
    narrow += wide
    narrow *= 1.0 / width
    return similar, narrow


class OpenRisk:
    """The open set risk of atoms, measured on samples.

    Parameters
    ----------
    samples : ndarray (n_samples, n_features)
    membership : ndarray (n_samples, n_classes)
        1 for the class of a sample, else 0; a row of zeros for a sample of none of these classes.
    width : float
        The mean squared distance :math:`\\bar d^2` between samples.
    penalty : float
        :math:`\\lambda`.
    """

    def __init__(self, samples: Array, membership: Array, width: float, penalty: float = COLLABORATIVE_PENALTY) -> None:
        self.samples, self.membership, self.width, self.penalty = samples, membership, width, penalty

    def measure(self, atoms: Array) -> float:
        """Return the risk of atoms."""
        similar, own = compare_rows(self.samples, atoms, self.width), compare_rows(atoms, atoms, self.width)
        return self._evaluate(similar, own)[0]

    def differentiate(self, atoms: Array) -> tuple[float, Array]:
        """Return the risk of atoms and its derivative by every feature of every atom.

        At the best coefficients only the explicit dependence counts: the derivative by the similarities of samples is
        :math:`\\frac2N(K\\beta - Y)\\beta^T`, that by those of atoms :math:`\\frac\\lambda N\\beta\\beta^T`.
        """
        n = len(self.samples)
        similar, similar_slope = _compare_with_slope(self.samples, atoms, self.width)
        own, own_slope = _compare_with_slope(atoms, atoms, self.width)
        value, coefficients, errors = self._evaluate(similar, own)
        # A similarity changes by its slope times y - a when the atom a moves; that of two atoms when either does.
        similar_slope *= (2.0 / n) * (errors @ coefficients.T)
        own_slope *= (2.0 * self.penalty / n) * (coefficients @ coefficients.T)
        pull = similar_slope.T @ self.samples + own_slope @ atoms
        return value, pull - (similar_slope.sum(axis=0) + own_slope.sum(axis=1))[:, None] * atoms

    def _evaluate(self, similar: Array, own: Array) -> tuple[float, Array, Array]:
        """Return the risk, the coefficients and the errors of the scores."""
        own = own.copy()
        own[np.diag_indices_from(own)] += _JITTER
        factor = linalg.cholesky(own, lower=True, overwrite_a=True, check_finite=False)
        whitened = linalg.solve_triangular(factor, similar.T, lower=True, check_finite=False)
        normal = linalg.blas.dsyrk(1.0, whitened)  # the upper half, with half the multiplications
        normal[np.diag_indices_from(normal)] += self.penalty
        solved = linalg.cho_solve(
            (linalg.cholesky(normal, overwrite_a=True, check_finite=False), False), whitened @ self.membership,
            check_finite=False,
        )  # fmt: skip
        errors = whitened.T @ solved - self.membership
        value = (float(np.sum(errors**2)) + self.penalty * float(np.sum(solved**2))) / len(errors)
        coefficients = linalg.solve_triangular(factor, solved, lower=True, trans=1, check_finite=False)
        return value, coefficients, errors


#: Most atoms, or candidates for atoms, of a group; a class is never divided.
GROUP_SIZE = 8192
#: Of the samples on which the risk of a group is measured, this share belongs to classes of other groups.
OTHERS = 0.25


#: Samples on which the risk of atoms is measured where the user gives no number: so many for each atom, or these; but
#: not more than make so many similarities.
SAMPLES_AN_ATOM, LEAST_SAMPLES, MOST_SIMILARITIES = 10, 6000, 4 * 10**7


class ClassGroup(NamedTuple):
    """Numbers of classes, and of the samples on which their risk is measured."""

    classes: IntArray
    samples: IntArray

    def build_membership(self, class_of: IntArray) -> Array:
        """Return the memberships of the samples in the classes of the group, zeros for samples of others."""
        return (class_of[self.samples][:, None] == self.classes).astype(np.float64)


def draw_groups(
    class_of: IntArray, needed: IntArray, max_samples: int | None, rng: Any, size: int = GROUP_SIZE
) -> list[ClassGroup]:
    """Divide classes into groups and draw the samples of each.

    ``needed`` are the places that each class takes; consecutive classes share a group as long as there are at most
    ``size`` together. Of a group's samples at most ``max_samples`` are drawn, evenly over the classes; as many as
    :func:`count_samples` returns for its places if None.
    """
    groups, first = [], 0
    while first < len(needed):
        total = np.cumsum(needed[first:])
        last = first + max(int(np.searchsorted(total, size, side="right")), 1)
        groups.append(np.arange(first, last))
        first = last
    out = []
    for classes in groups:
        own = np.flatnonzero(np.isin(class_of, classes))
        others = np.setdiff1d(np.arange(len(class_of)), own, assume_unique=True)
        most = count_samples(int(needed[classes].sum())) if max_samples is None else max_samples
        n_others = min(len(others), int(OTHERS * most))
        kept = draw_evenly(class_of, own, most - n_others, rng)
        out.append(ClassGroup(classes, np.concatenate([kept, rng.permutation(others)[:n_others]])))
    return out


def count_samples(n_atoms: int) -> int:
    """Return the number of samples on which the risk of so many atoms is measured."""
    return max(LEAST_SAMPLES, min(SAMPLES_AN_ATOM * n_atoms, MOST_SIMILARITIES // n_atoms))


def draw_evenly(class_of: IntArray, rows: IntArray, most: int, rng: Any) -> IntArray:
    """Return at most about ``most`` of some rows, the same share of every class and at least one, sorted."""
    if len(rows) <= most:
        return rows
    labels, sizes = np.unique(class_of[rows], return_counts=True)
    share = most / len(rows)
    parts = [
        rng.permutation(rows[class_of[rows] == k])[: max(int(share * n), 1)] for k, n in zip(labels, sizes, strict=True)
    ]
    return np.sort(np.concatenate(parts))

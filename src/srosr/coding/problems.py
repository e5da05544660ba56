r"""The four coding problems: what is minimized, and the certificate of an answer.

Each is a small immutable value that says *what* is to be minimized, never how. In all of them ``y`` is the sample, the
columns of ``Y`` are the atoms, ``x`` is the code and :math:`r = y - Yx` its residual. ``certify`` bounds the optimum
from below by a dual point v; it is written from these formulas alone and shares no code with any solver:

=============  ==========================================  ==================================================
problem        objective                                   bound
=============  ==========================================  ==================================================
Lasso          :math:`\tfrac12\|r\|^2 + \alpha\|x\|_1`      :math:`\langle y,v\rangle - \tfrac12\|v\|^2`,
                                                           :math:`\|Y^Tv\|_\infty \le \alpha`, v a multiple of r
BPDN           :math:`\|x\|_1`                              :math:`\langle y,v\rangle - \epsilon\|v\|`,
                                                           :math:`\|Y^Tv\|_\infty \le 1`
BPDN, out of   :math:`\|x\|_1`                              :math:`\langle Py,v\rangle`,
reach                                                      :math:`\|Y^Tv\|_\infty \le 1`
Ridge          :math:`\tfrac12\|r\|^2+\tfrac\alpha2\|x\|^2` :math:`\langle y,v\rangle - \tfrac12\|v\|^2
                                                           - \tfrac1{2\alpha}\|Y^Tv\|^2`, v a multiple of r
=============  ==========================================  ==================================================

Of several optimal codes of Lasso or BPDN the one of least :math:`\ell_2` norm is returned (:mod:`.least_norm`).

Beside the gap stands the constraint violation, relative to :math:`\|y\|`: for BPDN :math:`(\|r\| - \epsilon)_+`, for
an epsilon out of reach :math:`\|Y^Tr\|_\infty` with atoms of unit length, which is zero exactly where :math:`Yx = Py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._support.array_types import Array
from .._support.messages import join_names
from .._support.parameter_checks import check_count, check_positive
from .certificate import (
    Certificate,
    Measures,
    bound_by_image,
    bound_in_span,
    divide,
    find_dual,
    find_namespace,
    positive,
    relative_gap,
)
from .spectrum import ROUNDING

# A relative gap below this needs no better dual point.
_CLEAR = 1e-10


class PathEnd(NamedTuple):
    """Where the path of Lasso solutions ends that solves a problem."""

    at_residual: bool  # where the residual has a length, else at a level
    goal: float


@dataclass(frozen=True)
class Problem(ABC):
    """Base of the coding problems: values that :func:`srosr.sparse_encode` takes."""

    @property
    def path_end(self) -> PathEnd | None:
        """The end of the path of Lasso solutions that solves the problem, None if none does."""
        return None

    def require_path_end(self) -> PathEnd:
        """Return the end of the path, or raise a TypeError."""
        if self.path_end is None:
            raise TypeError(f"{self!r} is not on the path of Lasso solutions.")
        return self.path_end

    @abstractmethod
    def certify(self, measures: Measures, tol: float, duals: Any = None, images: Array | None = None) -> Certificate:
        """Certify a batch of codes.

        Parameters
        ----------
        measures : Measures
            Of the codes.
        tol : float
            The accuracy to reach: for BPDN it separates a residual at epsilon from an epsilon out of reach.
        duals : SparseRows or DeviceRows (n, N), optional
            Dual points z proposed by a solver (empty rows where it has none). They are checked, not trusted.
        images : ndarray (n, N), optional
            Proposed images Y'v of dual points instead (zero where there is none), for measures in the coordinates of a
            spectrum.
        """


@dataclass(frozen=True)
class BPDN(Problem):
    r"""Basis pursuit denoising, :math:`\min \|x\|_1` subject to :math:`\|y - Yx\|_2 \le \epsilon`.

    Parameters
    ----------
    epsilon : float
        The reconstruction error allowed, at least 0 and on the scale of the (normalized) samples.

    Notes
    -----
    Where :math:`\epsilon` is smaller than the least-squares residual of ``y`` no code satisfies the
    constraint. The answer is then the limit of what the constraint asks for: :math:`\min \|x\|_1` subject to
    :math:`Yx = Py`, with :math:`P` the projector onto the span of the atoms, and the sample's status says
    ``"infeasible"``.

    Of several optimal codes the one of least :math:`\ell_2` norm is returned: copies of an atom share its coefficient.

    References
    ----------
    S. S. Chen, D. L. Donoho, M. A. Saunders, "Atomic decomposition by basis pursuit", SIAM Review 43, 2001.

    Examples
    --------
    >>> from srosr import BPDN
    >>> BPDN(0.001)
    BPDN(epsilon=0.001)
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon, zero=True))

    @property
    def path_end(self) -> PathEnd:
        """Where the residual is epsilon."""
        return PathEnd(True, self.epsilon)

    def certify(self, measures: Measures, tol: float, duals: Any = None, images: Array | None = None) -> Certificate:
        """Certify codes, those that miss epsilon by more than ``tol`` as answers to an epsilon out of reach."""
        m, l1, epsilon = measures, measures.sums.l1, self.epsilon
        xp = find_namespace(l1)
        excess = xp.where(m.length <= epsilon, xp.sqrt(m.residual2), m.at_most) - epsilon
        excess = divide(positive(excess), m.length, otherwise=0.0)
        infeasible = excess > tol
        violation = xp.where(infeasible, divide(m.sums.slant, m.length, otherwise=0.0), excess)
        along_residual = m.toward - epsilon * m.at_most - m.blur
        bound = xp.where(infeasible, -xp.inf, divide(along_residual, m.sums.peak, otherwise=-np.inf))

        def in_span(z: Any, rows: Any) -> Array:
            return bound_in_span(z, m.cross[rows], m.squared_norms[rows], epsilon, infeasible[rows], m.products)

        if xp is not np:  # on a device all samples have a dual point, or none
            bound = bound if duals is None else xp.maximum(bound, in_span(duals, slice(None)))
            return m.make_certificate(l1, bound, violation, infeasible)
        if duals is not None:
            rows = np.flatnonzero((relative_gap(l1, bound) > _CLEAR) & (duals.counts > 0))
            bound[rows] = np.maximum(bound[rows], in_span(duals.take(rows), rows))
        if images is not None and m.spectrum is not None:
            rows = np.flatnonzero((relative_gap(l1, bound) > _CLEAR) & images.any(axis=1))
            found = bound_by_image(
                images[rows], m.cross[rows], m.squared_norms[rows], epsilon, infeasible[rows], m.spectrum
            )
            bound[rows] = np.maximum(bound[rows], found)
        for i in np.flatnonzero(relative_gap(l1, bound) > tol):
            z = find_dual(m.codes, i, m.products)
            if z is not None:
                bound[i] = max(bound[i], in_span(z, slice(i, i + 1))[0])
        return m.make_certificate(l1, bound, violation, infeasible)


@dataclass(frozen=True)
class Lasso(Problem):
    r"""The penalized form, :math:`\min \tfrac12 \|y - Yx\|_2^2 + \alpha \|x\|_1`.

    Parameters
    ----------
    alpha : float
        Price of a unit of :math:`\|x\|_1`, greater than 0. (For the limit :math:`\alpha \to 0` ask for
        ``BPDN(0)``.) With unit samples and atoms, ``alpha >= 1`` gives the zero code.

    Notes
    -----
    Of several optimal codes the one of least :math:`\ell_2` norm is returned: copies of an atom share its coefficient.

    References
    ----------
    R. Tibshirani, "Regression shrinkage and selection via the lasso", J. R. Stat. Soc. B 58, 1996.

    Examples
    --------
    >>> from srosr import Lasso
    >>> Lasso(0.05)
    Lasso(alpha=0.05)
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check_positive("alpha", self.alpha))

    @property
    def path_end(self) -> PathEnd:
        """At the level alpha."""
        return PathEnd(False, self.alpha)

    def certify(self, measures: Measures, tol: float, duals: Any = None, images: Array | None = None) -> Certificate:
        """Certify codes by the multiple of the residual that gives the best bound."""
        m = measures
        objective = 0.5 * m.residual2 + self.alpha * m.sums.l1
        xp = find_namespace(objective)
        limit = divide(xp.full_like(objective, self.alpha), m.sums.peak, otherwise=np.inf)
        stretch = xp.clip(divide(m.toward, m.residual2, otherwise=0.0), -limit, limit)
        bound = stretch * m.toward - 0.5 * stretch**2 * m.residual2
        bound -= abs(stretch) * m.blur + 0.5 * (1.0 + stretch**2) * m.blur2
        return m.make_certificate(objective, bound)


@dataclass(frozen=True)
class Ridge(Problem):
    r"""Collaborative representation, :math:`\min \tfrac12 \|y - Yx\|_2^2 + \tfrac{\alpha}{2} \|x\|_2^2`.

    Parameters
    ----------
    alpha : float
        Price of :math:`\tfrac12\|x\|_2^2`, greater than 0.

    References
    ----------
    L. Zhang, M. Yang, X. Feng, "Sparse representation or collaborative representation: which helps face
    recognition?", ICCV 2011.
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check_positive("alpha", self.alpha))

    def certify(self, measures: Measures, tol: float, duals: Any = None, images: Array | None = None) -> Certificate:
        """Certify codes by the multiple of the residual that gives the best bound."""
        m = measures
        objective = 0.5 * m.residual2 + 0.5 * self.alpha * m.sums.squares
        xp = find_namespace(objective)
        unseen = ROUNDING * (m.length + m.sums.reach) * xp.linalg.norm(m.products.lengths)
        cost = m.residual2 + m.blur2 + (xp.sqrt(m.sums.power) + unseen) ** 2 / self.alpha
        bound = 0.5 * divide(positive(m.toward - m.blur) ** 2, cost, otherwise=0.0) - 0.5 * m.blur2
        return m.make_certificate(objective, bound)


@dataclass(frozen=True)
class OMP(Problem):
    """Orthogonal matching pursuit: greedily at most ``n_nonzero`` atoms, refitted after each choice.

    The atom chosen is the one whose direction explains most of what is left, so that long atoms have no
    advantage; of equally good ones it is the first, so that over copies of an atom the code depends on the order of the
    atoms. It solves no convex problem and therefore has no duality gap: ``gap`` is NaN.

    Parameters
    ----------
    n_nonzero : int
        How many atoms a code may use, at least 1.

    References
    ----------
    Y. C. Pati, R. Rezaiifar, P. S. Krishnaprasad, "Orthogonal matching pursuit", Asilomar 1993.
    """

    n_nonzero: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_nonzero", check_count("n_nonzero", self.n_nonzero))

    def certify(self, measures: Measures, tol: float, duals: Any = None, images: Array | None = None) -> Certificate:
        """Return the residuals; there is no optimum to compare them with."""
        return measures.make_certificate(0.5 * measures.residual2, None)


#: The problems that can be solved, by the names they have in files and messages.
PROBLEMS: dict[str, type[Problem]] = {"BPDN": BPDN, "Lasso": Lasso, "Ridge": Ridge, "OMP": OMP}


def problem_names() -> str:
    """Return the names of the problems for a message: "BPDN, Lasso, Ridge or OMP"."""
    return join_names(PROBLEMS, last="or")

"""The four coding problems a sample can be given.

Each is a small immutable value: it says *what* is to be minimised, never how. In all of them ``y`` is the
sample, the columns of ``Y`` are the atoms and ``x`` is the code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

from .._support.messages import join_names

__all__ = ["BPDN", "OMP", "PROBLEMS", "Lasso", "Problem", "Ridge", "problem_names"]


def _real(name: str, value: object, *, positive: bool) -> float:
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite real number, got {value!r}.")
    if positive and number <= 0:
        raise ValueError(f"{name} must be greater than 0, got {value!r}.")
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {value!r}.")
    return number


@dataclass(frozen=True)
class Problem:
    """What every coding problem is: a value that :func:`srosr.sparse_encode` accepts."""


@dataclass(frozen=True)
class BPDN(Problem):
    r"""Basis pursuit denoising, :math:`\min \|x\|_1` subject to :math:`\|y - Yx\|_2 \le \epsilon`.

    Parameters
    ----------
    epsilon : float
        The reconstruction error allowed, at least 0 and on the scale of the (normalised) samples.

    Notes
    -----
    Where :math:`\epsilon` is smaller than the least-squares residual of ``y`` no code satisfies the
    constraint. The answer is then the limit of what the constraint asks for: :math:`\min \|x\|_1` subject to
    :math:`Yx = Py`, with :math:`P` the projector onto the span of the atoms, and the sample's status says
    ``"infeasible"``.

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
        object.__setattr__(self, "epsilon", _real("epsilon", self.epsilon, positive=False))


@dataclass(frozen=True)
class Lasso(Problem):
    r"""The penalised form, :math:`\min \tfrac12 \|y - Yx\|_2^2 + \alpha \|x\|_1`.

    Parameters
    ----------
    alpha : float
        Price of a unit of :math:`\|x\|_1`, greater than 0. (For the limit :math:`\alpha \to 0` ask for
        ``BPDN(0)``.) With unit samples and atoms, ``alpha >= 1`` gives the zero code.

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
        object.__setattr__(self, "alpha", _real("alpha", self.alpha, positive=True))


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
        object.__setattr__(self, "alpha", _real("alpha", self.alpha, positive=True))


@dataclass(frozen=True)
class OMP(Problem):
    """Orthogonal matching pursuit: greedily at most ``n_nonzero`` atoms, refitted after each choice.

    The atom chosen is the one whose direction explains most of what is left, so that long atoms have no
    advantage. It solves no convex problem and therefore has no duality gap: ``gap`` is NaN.

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
        value = self.n_nonzero
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"n_nonzero must be an integer of at least 1, got {value!r}.")
        object.__setattr__(self, "n_nonzero", int(value))


#: The problems that can be solved, by the names they have in files and messages.
PROBLEMS: dict[str, type[Problem]] = {"BPDN": BPDN, "Lasso": Lasso, "Ridge": Ridge, "OMP": OMP}


def problem_names() -> str:
    """The problems, for a message: "BPDN, Lasso, Ridge or OMP"."""
    return join_names(PROBLEMS, last="or")


def path_end(problem: Problem) -> tuple[bool, float]:
    """Where a path of Lasso solutions ends: whether at a residual (else at a level), and its value."""
    if isinstance(problem, BPDN):
        return True, problem.epsilon
    if isinstance(problem, Lasso):
        return False, problem.alpha
    raise TypeError(f"{problem!r} is not on the path of Lasso solutions")

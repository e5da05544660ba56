"""Kernels: similarities between the rows of two arrays of samples.

Features enter the library through kernels only; :class:`srosr.Dictionary` turns these into Gram quantities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._support.array_types import Array
from .._support.compiled import entry_point
from .._support.parameter_checks import to_number

Kernel = Callable[[Array, Array], Array]

#: Names that :class:`srosr.Dictionary` accepts besides a callable.
KERNELS = ("linear", "rbf", "poly", "chi2", "histogram_intersection", "precomputed")

#: Those that compare histograms: features must not be negative.
NONNEGATIVE_KERNELS = ("chi2", "histogram_intersection")


@entry_point(fastmath={"contract", "nsz", "reassoc"})
def _intersect_histograms(A: Array, B: Array) -> Array:  # scikit-learn has no such kernel
    out = np.empty((A.shape[0], B.shape[0]))
    for i in range(A.shape[0]):
        a = A[i]
        for j in range(B.shape[0]):
            b = B[j]
            total = 0.0
            for m in range(A.shape[1]):
                total += a[m] if a[m] < b[m] else b[m]
            out[i, j] = total
    return out


class NamedKernel:
    r"""One of the named kernels with its parameters fixed.

    ========================= ==========================================================================
    ``linear``                :math:`a^Tb`
    ``rbf``                   :math:`\exp(-\gamma\|a-b\|^2)`, :math:`\gamma` = 1/n_features unless given
    ``poly``                  :math:`(\gamma a^Tb + c_0)^d`, :math:`\gamma` = 1/n_features unless given
    ``chi2``                  :math:`\exp(-\gamma\sum_i (a_i-b_i)^2/(a_i+b_i))`, :math:`\gamma` = 1 unless given
    ``histogram_intersection`` :math:`\sum_i \min(a_i, b_i)`
    ========================= ==========================================================================
    """

    def __init__(self, name: str, n_features: int, gamma: float | None, degree: float, coef0: float) -> None:
        self.name = name
        self.gamma = gamma if gamma is not None else (1.0 if name == "chi2" else 1.0 / n_features)
        self.degree = degree
        self.coef0 = coef0

    def __call__(self, A: Array, B: Array) -> Array:
        if self.name == "linear":
            return A @ B.T  # BLAS uses the symmetric product where B is A
        if self.name == "poly":
            return (self.gamma * (A @ B.T) + self.coef0) ** self.degree
        if self.name == "rbf":
            from sklearn.metrics.pairwise import rbf_kernel

            return rbf_kernel(A, B, gamma=self.gamma)
        if self.name == "chi2":
            from sklearn.metrics.pairwise import chi2_kernel

            # It takes no read-only array, which samples from a file or another thread may be.
            A, B = (np.require(rows, requirements="W") for rows in (A, B))
            return chi2_kernel(A, B, gamma=self.gamma)
        if self.name == "histogram_intersection":
            return _intersect_histograms(np.ascontiguousarray(A), np.ascontiguousarray(B))
        raise ValueError(f"kernel={self.name!r} cannot be computed from features.")

    def check(self, A: Array, name: str) -> None:
        """Raise a ValueError for features for which this kernel is not defined."""
        if self.name in NONNEGATIVE_KERNELS and A.size:
            self.check_least(float(A.min()), name)

    def check_least(self, least: float, name: str) -> None:
        """Raise a ValueError if this kernel is not defined for features of which this is the least."""
        if least < 0 and self.name in NONNEGATIVE_KERNELS:
            raise ValueError(
                f"{name} contains negative values, for which kernel={self.name!r} is not defined: "
                "it compares histograms. Shift the features or choose another kernel."
            )


def compare_to_self(kernel: Kernel, A: Array) -> Array:
    """Return the diagonal of ``kernel(A, A)``, by a closed form where there is one."""
    if isinstance(kernel, NamedKernel):
        if kernel.name in ("linear", "poly"):
            squares = np.einsum("ij,ij->i", A, A)
            return squares if kernel.name == "linear" else (kernel.gamma * squares + kernel.coef0) ** kernel.degree
        if kernel.name == "histogram_intersection":
            return A.sum(axis=1)
        return np.ones(len(A))
    return np.array([evaluate(kernel, row, row)[0, 0] for row in A[:, None]])


def evaluate(kernel: Kernel, A: Array, B: Array, out: Array | None = None) -> Array:
    """Return ``kernel(A, B)``, checked because users' callables come through here; ``out`` may hold the result."""
    if out is not None and isinstance(kernel, NamedKernel) and kernel.name == "linear":
        np.matmul(A, B.T, out=out)
    else:
        out = np.asarray(kernel(A, B), dtype=np.float64)
    if out.shape != (len(A), len(B)):
        raise ValueError(
            f"kernel returned an array of shape {out.shape} for {len(A)} and {len(B)} rows; "
            f"it must return ({len(A)}, {len(B)})."
        )
    if not np.isfinite(out).all():
        raise ValueError("kernel returned NaN or infinity; check its parameters and the scale of the features.")
    return out


def resolve_kernel(kernel: Any, n_features: int, gamma: Any, degree: Any, coef0: Any) -> Kernel:
    """Return the function for a ``kernel`` argument, or raise a ValueError."""
    if callable(kernel):
        return kernel
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)} or a callable, got {kernel!r}.")
    if gamma is not None and not 0 < to_number(gamma) < math.inf:
        raise ValueError(f"gamma must be a positive number or None, got {gamma!r}.")
    is_whole = 1 <= to_number(degree) < math.inf and degree == int(degree)
    if kernel == "poly" and not (is_whole and 0 <= to_number(coef0) < math.inf):
        raise ValueError(
            f"degree must be a positive integer and coef0 must not be negative, got degree={degree!r}, "
            f"coef0={coef0!r}: otherwise the polynomial kernel is not positive semidefinite."
        )
    return NamedKernel(kernel, n_features, gamma, degree, coef0)

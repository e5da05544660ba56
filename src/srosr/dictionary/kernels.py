"""Similarities between rows: the named kernels, each a function of two arrays of samples.

A kernel is all the library ever asks of features; :class:`srosr.Dictionary` turns it into Gram quantities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numba import njit

from .._support.array_types import Array

__all__ = ["KERNELS", "Kernel", "resolve_kernel"]

Kernel = Callable[[Array, Array], Array]

#: Names that :class:`srosr.Dictionary` accepts besides a callable.
KERNELS = ("linear", "rbf", "poly", "chi2", "histogram_intersection", "precomputed")


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
def _histogram_intersection(A: Array, B: Array) -> Array:  # scikit-learn has no such kernel
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

            return chi2_kernel(A, B, gamma=self.gamma)
        if self.name == "histogram_intersection":
            return _histogram_intersection(np.ascontiguousarray(A), np.ascontiguousarray(B))
        raise ValueError(f"kernel={self.name!r} has no features to compare.")

    def check(self, A: Array, name: str) -> None:
        """Refuse features this kernel has no meaning for."""
        if self.name in ("chi2", "histogram_intersection") and A.size and A.min() < 0:
            raise ValueError(
                f"{name} contains negative values, which kernel={self.name!r} cannot take: "
                "it compares histograms. Shift the features or choose another kernel."
            )


def self_similarity(kernel: Kernel, A: Array) -> Array:
    """The diagonal of ``kernel(A, A)`` without the rest of it where there is a closed form."""
    if isinstance(kernel, NamedKernel):
        if kernel.name in ("linear", "poly"):
            squares = np.einsum("ij,ij->i", A, A)
            return squares if kernel.name == "linear" else (kernel.gamma * squares + kernel.coef0) ** kernel.degree
        if kernel.name == "histogram_intersection":
            return A.sum(axis=1)
        return np.ones(len(A))
    return np.array([evaluate(kernel, row, row)[0, 0] for row in A[:, None]])


def evaluate(kernel: Kernel, A: Array, B: Array, out: Array | None = None) -> Array:
    """``kernel(A, B)``, checked: users' callables come through here. ``out`` may be filled instead of a new array."""
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


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def resolve_kernel(kernel: Any, n_features: int, gamma: Any, degree: Any, coef0: Any) -> Kernel:
    """The function behind a ``kernel`` argument; a ValueError names what is wrong with it."""
    if callable(kernel):
        return kernel
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)} or a callable, got {kernel!r}.")
    if gamma is not None and not (_is_number(gamma) and gamma > 0):
        raise ValueError(f"gamma must be a positive number or None, got {gamma!r}.")
    whole = _is_number(degree) and degree == int(degree) and degree >= 1
    if kernel == "poly" and not (whole and _is_number(coef0) and coef0 >= 0):
        raise ValueError(
            f"degree must be a positive integer and coef0 must not be negative, got degree={degree!r}, "
            f"coef0={coef0!r}: otherwise the polynomial kernel is not positive semidefinite."
        )
    return NamedKernel(kernel, n_features, gamma, degree, coef0)

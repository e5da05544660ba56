r"""Multinomial logistic regression for the methods that start from its logits, with the penalty that the data choose.

It minimises :math:`C\sum_i -\log\operatorname{softmax}(Wx_i + b)_{y_i} + \frac12\|W\|_F^2`. The minimum is the same for
centred samples, in coordinates of their span, and for :math:`X/s` with :math:`Cs^2`; in these coordinates, scaled by
their largest deviation, the solver needs a fraction of the steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from .._support.array_types import Array, IntArray
from .cross_fitted import COSTS, N_FOLDS, stratified_folds
from .span_coordinates import in_own_span

__all__ = ["best_penalty", "fit_logistic"]

#: C where no sample can be held out.
DEFAULT_PENALTY = 1.0
# Largest entry of the gradient of the mean loss at the end: a hundredth of scikit-learn's, which leaves logits of
# unit-length samples visibly short of the minimum.
_TOLERANCE = 1e-6
_MAX_STEPS = 2000
# Steps of the power method, for a scale: no answer depends on it.
_POWER_STEPS = 10


def fit_logistic(X: Array, members: IntArray, C: float) -> tuple[Array, Array]:
    """Coefficients (n_classes, n_features) and intercepts (n_classes,) of the logits.

    Two classes have logits of opposite sign, half of their logarithmic odds each.
    """
    return next(logistic_path(X, members, (C,)))


def best_penalty(X: Array, members: IntArray, rng: Any) -> float:
    """The C with the best accuracy on held-out known samples, the smallest of equals."""
    right, held = np.zeros(len(COSTS), np.int64), 0
    for test in stratified_folds(members, rng, N_FOLDS):
        train = np.delete(np.arange(len(members)), test)
        held += len(test)
        for i, (W, b) in enumerate(logistic_path(X[train], members[train], COSTS)):
            right[i] += int(np.sum((X[test] @ W.T + b).argmax(axis=1) == members[test]))
    return COSTS[int(right.argmax())] if held else DEFAULT_PENALTY


def logistic_path(X: Array, members: IntArray, penalties: tuple[float, ...]) -> Iterator[tuple[Array, Array]]:
    """Coefficients and intercepts for each C in turn, each solve starting from the one before."""
    centre = X.mean(axis=0)
    Z, basis = in_own_span(X - centre)
    scale = _largest_deviation(Z)
    Z = Z / scale
    # scikit-learn's objective for two classes has one vector of coefficients, the difference of the two here: twice the
    # penalty of the objective above.
    factor = 2.0 if len(np.unique(members)) == 2 else 1.0
    model = LogisticRegression(tol=_TOLERANCE, max_iter=_MAX_STEPS, warm_start=True)
    for C in penalties:
        model.set_params(C=factor * C * scale**2)
        with warnings.catch_warnings():
            # On features of large scale classes are separated long before the minimum, which is far away.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(Z, members)
        W, b = model.coef_ / scale, model.intercept_
        if len(W) == 1:
            W, b = np.concatenate([-W, W]) / 2.0, np.concatenate([-b, b]) / 2.0
        if basis is not None:
            W = W @ basis.T
        W = np.ascontiguousarray(W)  # as it comes back from a file: products are the same to the last bit
        yield W, b - W @ centre


def _largest_deviation(Z: Array) -> float:
    """About the standard deviation of centred samples along the direction in which it is largest; 1 where it is 0."""
    lengths = np.einsum("ij,ij->i", Z, Z)
    direction, size = Z[lengths.argmax()], float(np.sqrt(lengths.max()))
    if size == 0.0:
        return 1.0
    for _ in range(_POWER_STEPS):
        direction = Z.T @ (Z @ (direction / size)) / len(Z)
        size = float(np.linalg.norm(direction))
    return float(np.sqrt(size))

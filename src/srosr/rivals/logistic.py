r"""Multinomial logistic regression for the methods that start from its logits.

It minimizes :math:`C\sum_i -\log\operatorname{softmax}(Wx_i + b)_{y_i} + \frac12\|W\|_F^2`. The minimum is the same for
centered samples, in coordinates of their span, and for :math:`X/s` with :math:`Cs^2`; in these coordinates, scaled by
their largest deviation, the solver needs a fraction of the steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from .._support.array_types import Array, IntArray
from .cross_fitted import COSTS, N_FOLDS, CrossFittedClassifier, Model, Shape, Tuned, check_cost, find_folds
from .span_coordinates import project_to_span

#: C if no sample can be held out.
DEFAULT_PENALTY = 1.0
# Largest entry of the gradient of the mean loss at the end: a hundredth of scikit-learn's default, which stops visibly
# short of the minimum for samples of unit length.
_TOLERANCE = 1e-6
_MAX_STEPS = 2000
# Steps of the power method, which only sets a scale.
_POWER_STEPS = 10


def fit_logistic(X: Array, members: IntArray, C: float) -> tuple[Array, Array]:
    """Return coefficients (n_classes, n_features) and intercepts (n_classes,) of the logits.

    Two classes have logits of opposite sign, half of their log odds each.
    """
    return next(fit_logistic_path(X, members, (C,)))


def choose_penalty(X: Array, members: IntArray, rng: Any) -> float:
    """Return the C with the best accuracy on held-out known samples, the smallest of equals."""
    right, held = np.zeros(len(COSTS), np.int64), 0
    for test in find_folds(members, rng, N_FOLDS):
        train = np.delete(np.arange(len(members)), test)
        held += len(test)
        for i, (W, b) in enumerate(fit_logistic_path(X[train], members[train], COSTS)):
            right[i] += int(np.sum((X[test] @ W.T + b).argmax(axis=1) == members[test]))
    return COSTS[int(right.argmax())] if held else DEFAULT_PENALTY


def fit_logistic_path(X: Array, members: IntArray, penalties: tuple[float, ...]) -> Iterator[tuple[Array, Array]]:
    """Yield coefficients and intercepts for each C in turn, each solve starting from the previous one."""
    center = X.mean(axis=0)
    Z, basis = project_to_span(X - center)
    scale = _estimate_largest_deviation(Z)
    Z = Z / scale
    # For two classes scikit-learn's objective has one vector of coefficients, the difference of the two here, and so
    # twice the penalty of the objective above.
    factor = 2.0 if len(np.unique(members)) == 2 else 1.0
    model = LogisticRegression(tol=_TOLERANCE, max_iter=_MAX_STEPS, warm_start=True)
    for C in penalties:
        model.set_params(C=factor * C * scale**2)
        with warnings.catch_warnings():
            # With features of large scale, classes are separated long before the distant minimum is reached.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(Z, members)
        W, b = model.coef_ / scale, model.intercept_
        if len(W) == 1:
            W, b = np.concatenate([-W, W]) / 2.0, np.concatenate([-b, b]) / 2.0
        if basis is not None:
            W = W @ basis.T
        W = np.ascontiguousarray(W)  # as read from a file, so that products are the same to the last bit
        yield W, b - W @ center


def _estimate_largest_deviation(Z: Array) -> float:
    """Return roughly the largest standard deviation of centered samples along any direction; 1 if it is 0."""
    lengths = np.einsum("ij,ij->i", Z, Z)
    direction, size = Z[lengths.argmax()], float(np.sqrt(lengths.max()))
    if size == 0.0:
        return 1.0
    for _ in range(_POWER_STEPS):
        direction = Z.T @ (Z @ (direction / size)) / len(Z)
        size = float(np.linalg.norm(direction))
    return float(np.sqrt(size))


@dataclass(frozen=True, eq=False)
class Logits(Model):
    """Coefficients (n_classes, n_features) and intercepts (n_classes,) of a logistic regression."""

    coefficients: Array
    intercepts: Array

    def compute_logits(self, X: Array) -> Array:
        """Return the logits, (n_samples, n_classes)."""
        return X @ self.coefficients.T + self.intercepts

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        logits = self.compute_logits(inputs)
        return logits.argmax(axis=1), -logits.max(axis=1), logits

    @staticmethod
    def shapes(n_classes: int, n_columns: int) -> dict[str, Shape]:
        return {"coefficients": (n_classes, n_columns), "intercepts": (n_classes,)}


class LogisticClassifier(CrossFittedClassifier):
    """Base of the methods that start from a logistic regression, whose C is given or chosen by cross-validation."""

    C: float | None
    _checks: ClassVar = {"C": check_cost}

    def _choose_parameters(self, inputs: Array, members: IntArray, rng: Any) -> Tuned:
        return {"C": choose_penalty(inputs, members, rng) if self.C is None else float(self.C)}

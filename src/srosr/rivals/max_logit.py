r"""The largest logit of a linear classifier as the score, and the logistic regression that others start from.

Multinomial logistic regression minimizes
:math:`C\sum_i -\log\operatorname{softmax}(Wx_i + b)_{y_i} + \frac12\|W\|_F^2`. The minimum is the same for centered
samples, in coordinates of their span, and for :math:`X/s` with :math:`Cs^2`; in these coordinates, scaled by their
largest deviation, the solver needs a fraction of the steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from .._support.array_types import Array, IntArray
from .cross_fitted import COSTS, N_FOLDS, CrossFittedClassifier, Learned, Model, Tuned, check_cost, find_folds
from .distances import project_to_span

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

    shapes: ClassVar = {"coefficients": ("classes", "columns"), "intercepts": ("classes",)}

    coefficients: Array
    intercepts: Array

    def compute_logits(self, X: Array) -> Array:
        """Return the logits, (n_samples, n_classes)."""
        return X @ self.coefficients.T + self.intercepts

    @staticmethod
    def compute_energy(logits: Array) -> Array:
        """Return the logarithm of the sum of the exponentials of each sample's logits, minus its free energy.

        The logits of all classes add up to zero, so this is at least the logarithm of the number of classes.
        """
        return np.logaddexp.reduce(logits, axis=1)

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        logits = self.compute_logits(inputs)
        return logits.argmax(axis=1), -logits.max(axis=1), logits


class LogisticClassifier(CrossFittedClassifier):
    """Base of the methods that start from a logistic regression, whose C is given or chosen by cross-validation."""

    C: float | None
    _checks: ClassVar = {"C": check_cost}

    def _choose_parameters(self, inputs: Array, members: IntArray, rng: Any) -> Tuned:
        return {"C": choose_penalty(inputs, members, rng) if self.C is None else float(self.C)}


@dataclass(eq=False, repr=False, kw_only=True)
class MaxLogit(LogisticClassifier):
    r"""Multinomial logistic regression with a threshold on the largest logit.

    The unknown score is :math:`-\max_c z_c(x)` with the logits :math:`z(x) = Wx + b`, and the candidate is the class of
    the maximum. Unlike the largest probability, the largest logit still measures how much evidence there is for a class
    once it is clear which one it is. The method assumes that unknown samples have small logits for all classes; a logit
    grows without bound along its weights, so an unknown sample far out on the side of one class is accepted. Two
    classes have :math:`z = \pm f/2`, f the log odds.

    Parameters
    ----------
    C : float, optional
        Inverse strength of the penalty on W, as in scikit-learn's ``LogisticRegression``. Its best value depends on the
        scale of the features; the values tried suit samples of length about one (``normalize=True``). None: the best of
        0.1, 1, 10 and 100 in 3-fold cross-validation on known samples.
    threshold : float or {"risk", "f", "youden"}, optional
        Threshold on the unknown score, any number.
    normalize, cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.
    tuned_ : dict
        The C that was chosen or given.

    References
    ----------
    S. Vaze, K. Han, A. Vedaldi, A. Zisserman, "Open-set recognition: a good closed-set classifier is all you need?",
    ICLR 2022.

    D. Hendrycks et al., "Scaling out-of-distribution detection for real-world settings", ICML 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import MaxLogit
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), ["a", "a", "b", "b"]
    >>> clf = MaxLogit(C=1.0, threshold=-0.5).fit(X, y)
    >>> clf.predict([[-2.0], [0.5], [2.0]]).tolist()
    ['a', 'unknown', 'b']
    """

    model_type: ClassVar[type[Model]] = Logits

    C: float | None = field(default=None, kw_only=False)

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        return Logits(*fit_logistic(inputs[rows], members, tuned["C"])), None

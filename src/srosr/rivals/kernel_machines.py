r"""What open set classifiers made of support vector machines share.

Machines work on matrices of kernel values, computed once a fit and used by all machines of it: for the radial basis
function :math:`k(x, z) = \exp(-\gamma\lVert x - z\rVert^2)` from the squared distances between training samples. A
machine of one class against the rest says

.. math:: f_k(x) = \sum_j w_{kj} k(x, x_j) + b_k,

positive for the class, and :math:`\pm1` on the margin; the :math:`x_j` are the support vectors of all machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.svm import SVC

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import quote_names
from .._support.parameter_checks import check_positive
from ..exceptions import TailWarning, warn
from ..tails import MIN_VALUES, fit_weibull
from .cross_fitted import COSTS, N_FOLDS, ComparingClassifier, stratified_folds

__all__ = [
    "GAMMA_FACTORS",
    "KernelMachineClassifier",
    "best_class",
    "chosen_parameters",
    "gaussian",
    "kernel_among",
    "kernel_scale",
    "lowest_tails",
    "one_vs_rest",
    "right_one_vs_rest",
    "support_columns",
]

#: Factors of the scale of γ that cross-validation chooses from.
GAMMA_FACTORS = (0.25, 1.0, 4.0)
#: The width of the margin, from −1 to 1: where scores end, seen from the most extreme one.
MARGIN_WIDTH = 2.0
#: The shape where there are fewer, or all of them are equal, in all classes.
SHAPE_OF_FEW = 2.0
#: Scores that differ by no more than this share of their distance from the end of the tail count as equal: for those of
#: samples on the margin a tenth of half its width. They are there because the machine put them there, and how they
#: differ says nothing of new samples.
EQUAL = 0.05
# Classes that a warning names.
_NAMED = 10


def kernel_scale(related: Array) -> float:
    r"""The γ of ``gamma="scale"``: two over the mean of the squared distances.

    The mean is over all pairs of samples, each sample with itself included, and is twice the sum of the variances of
    the features: :math:`\gamma_0 = 1/\sum_j\mathrm{Var}_j`. scikit-learn's "scale" has the variance of all entries
    times the number of features instead, which also counts how the means of features differ: the two agree where
    features have the same mean, and this one does not change when the origin does. Where all samples are equal it is
    one.
    """
    mean = float(related.mean())
    return 2.0 / mean if mean > 0 and np.isfinite(2.0 / mean) else 1.0


def gaussian(squared: Array, gamma: float) -> Array:
    """Kernel values of squared distances, a new matrix."""
    out = squared * -gamma
    return np.exp(out, out=out)


def kernel_among(related: Array, rows: IntArray, columns: IntArray, gamma: float) -> Array:
    """Kernel values of some samples with others from the squared distances of all, in one new matrix."""
    out = related[np.ix_(rows, columns)]
    out *= -gamma
    return np.exp(out, out=out)


def one_vs_rest(kernel: Array, members: IntArray, C: float) -> tuple[Array, Array]:
    """A machine for each class against the rest.

    Parameters
    ----------
    kernel : ndarray (n, n)
    members : ndarray of int (n,)
        Classes, numbered from 0 without gaps.
    C : float
        The cost of errors.

    Returns
    -------
    weights : ndarray (n_classes, n)
        Zero but for support vectors, positive for those of the class.
    intercepts : ndarray (n_classes,)
    """
    n_classes = int(members.max()) + 1
    weights, intercepts = np.zeros((n_classes, len(members))), np.empty(n_classes)
    for k in range(n_classes):
        machine = SVC(C=C, kernel="precomputed").fit(kernel, members == k)
        weights[k, machine.support_] = machine.dual_coef_[0]
        intercepts[k] = machine.intercept_[0]
    return weights, intercepts


def support_columns(*weights: Array) -> IntArray:
    """The samples that any machine needs, at least one."""
    used = np.zeros(weights[0].shape[1], np.bool_)
    for array in weights:
        used |= (array != 0.0).any(axis=0)
    return np.flatnonzero(used) if used.any() else np.zeros(1, np.int64)


def best_class(scores: Array, decisions: Array) -> IntArray:
    """The class of the largest score of each row; among equals, that of the largest decision value."""
    best = scores == scores.max(axis=1, keepdims=True)
    return np.where(best, decisions, -np.inf).argmax(axis=1)


def lowest_tails(values: Sequence[Array], sizes: Sequence[int], end: float | None = None) -> tuple[Array, AnyArray]:
    r"""Weibull distributions of the lowest values of each class, where its machine was least sure.

    Parameters
    ----------
    values : sequence of ndarray
        For each class.
    sizes : sequence of int
        How many of them; at least ``MIN_VALUES``, at most all. Where those are all equal, as scores on the margin are,
        twice as many until they are not.
    end : float, optional
        Where values end; None is the width of the margin below the lowest.

    Returns
    -------
    tails : ndarray (3, n_classes)
        End, shape and scale: :math:`F(s) = 1 - \exp(-((s - \text{end})/\text{scale})^\text{shape})`, by maximum
        likelihood. Where there are fewer than ``MIN_VALUES`` values or all are equal the shape is the median of those
        of the other classes, or ``SHAPE_OF_FEW`` where none has one, and the scale the best one for it.
    short : ndarray of bool (n_classes,)
        Whether fewer than ``MIN_VALUES`` values were asked for or there, or all are equal.
    """
    tails, short, without = np.empty((3, len(values))), np.zeros(len(values), np.bool_), {}
    for k, (of_class, size) in enumerate(zip(values, sizes, strict=True)):
        ordered = np.sort(of_class)
        tails[0, k] = ordered[0] - MARGIN_WIDTH if end is None else end
        distances = ordered - tails[0, k]
        short[k], size = size < MIN_VALUES, max(size, MIN_VALUES)
        while size < len(ordered) and _equal(distances[:size]):
            size *= 2
        if len(ordered) < MIN_VALUES or _equal(distances[:size]):
            without[k] = distances[:size]
        else:
            fit = fit_weibull(distances[:size])
            tails[1:, k] = fit.shape, fit.scale
    fitted = np.delete(tails[1], list(without))
    shape = float(np.median(fitted)) if len(fitted) else SHAPE_OF_FEW
    for k, distances in without.items():
        short[k] = True
        top = max(float(distances[-1]), float(np.finfo(np.float64).tiny))
        tails[1:, k] = shape, top * np.mean((distances / top) ** shape) ** (1.0 / shape)
    tails[2] = np.maximum(tails[2], np.finfo(np.float64).tiny)
    return tails, short


def _equal(ordered: Array) -> bool:
    """Whether values are too much alike to fit a shape to, as those of samples on the margin are."""
    return bool(ordered[-1] - ordered[0] <= EQUAL * ordered[-1])


def chosen_parameters(
    grid: list[tuple[float, float]],
    members: IntArray,
    rng: Any,
    kernels: Callable[[IntArray, IntArray, float], tuple[Array, Array]],
    right: Callable[[Array, IntArray, Array, IntArray, float], AnyArray],
) -> tuple[float, float]:
    """C and γ by cross-validation on known samples.

    Three stratified folds; the only sample of a class is never held out. Where no sample can be, C is 1 if that is
    among the values.

    Parameters
    ----------
    grid : list of (C, γ)
        Preferred ones first: the first of equals is taken.
    members : ndarray of int (n,)
    rng : RandomState
    kernels : callable (train, test, γ)
        Kernel values among training samples, and of the test samples with them.
    right : callable (kernel, members, kernel of test samples, their members, C)
        What was right, as counts: the first decides, the others where that is equal.
    """
    if len(grid) == 1:
        return grid[0]
    folds = list(stratified_folds(members, rng, N_FOLDS))
    if not folds:
        return next((point for point in grid if point[0] == 1.0), grid[0])
    counts: list[Any] = [0] * len(grid)
    for gamma in dict.fromkeys(g for _, g in grid):
        for test in folds:
            train = np.delete(np.arange(len(members)), test)
            inner, outer = kernels(train, test, gamma)
            for i, (C, g) in enumerate(grid):
                if g == gamma:
                    counts[i] = counts[i] + right(inner, members[train], outer, members[test], C)
    return grid[max(range(len(grid)), key=lambda i: (*counts[i], -i))]


def right_one_vs_rest(kernel: Array, members: IntArray, outer: Array, truth: IntArray, C: float) -> AnyArray:
    """How many samples have their largest decision value for their class; how many decision values the right sign."""
    weights, intercepts = one_vs_rest(kernel, members, C)
    decisions = outer @ weights.T + intercepts
    own = truth[:, None] == np.arange(len(weights))
    return np.array([np.sum(decisions.argmax(axis=1) == truth), np.sum((decisions > 0) == own)])


class KernelMachineClassifier(ComparingClassifier):
    r"""Base of the methods made of support vector machines with a radial basis function.

    C and γ that are not given are chosen on known samples by the accuracy of the largest decision value in three
    stratified folds: C of 0.1, 1, 10, 100 and γ of ¼, 1, 4 times the scale. Among equals the one with more decision
    values of the right sign, then the smaller C, then the γ nearest to the scale.

    Parameters
    ----------
    C : float, optional
        The cost of errors. None: chosen.
    gamma : float or "scale", optional
        γ of the kernel; "scale" is :math:`\gamma_0 = 1/\sum_j\mathrm{Var}_j`, one over the total variance of the
        samples, whatever their origin. None: chosen.
    normalize, cv, threshold, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.
    """

    def __init__(
        self,
        *,
        C: float | None = None,
        gamma: float | str | None = None,
        normalize: bool = False,
        cv: int = 10,
        threshold: float | str | None = None,
        target_rejection: float = 0.05,
        per_class: bool = False,
        risk_weight: float = 1.0,
        unknown_label: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            normalize=normalize,
            cv=cv,
            threshold=threshold,
            target_rejection=target_rejection,
            per_class=per_class,
            risk_weight=risk_weight,
            unknown_label=unknown_label,
            random_state=random_state,
        )
        self.C = C
        self.gamma = gamma

    def _right(self, kernel: Array, members: IntArray, outer: Array, truth: IntArray, C: float) -> AnyArray:
        """What C and γ are chosen by."""
        return right_one_vs_rest(kernel, members, outer, truth, C)

    def _tuned(self, related: Array, members: IntArray, rng: Any) -> dict[str, Any]:
        scale = kernel_scale(related)
        factors = sorted(GAMMA_FACTORS, key=lambda factor: (abs(np.log(factor)), factor))
        gammas = [scale * factor for factor in factors] if self.gamma is None else [_number(self.gamma, scale)]
        costs = COSTS if self.C is None else (float(self.C),)

        def kernels(train: IntArray, test: IntArray, gamma: float) -> tuple[Array, Array]:
            return tuple(kernel_among(related, part, train, gamma) for part in (train, test))  # type: ignore[return-value]

        grid = [(cost, gamma) for cost in costs for gamma in gammas]
        C, gamma = chosen_parameters(grid, members, rng, kernels, self._right)
        return {"C": C, "gamma": gamma}

    def _fit(self, X: Any, y: Any) -> None:
        super()._fit(X, y)
        short = np.flatnonzero(getattr(self.model_, "short", np.empty(0)))
        if len(short):
            names = quote_names(self.classes_[short].tolist(), _NAMED)
            warn(
                f"too few support vectors to fit the tails of the scores of class {names}: fewer than "
                f"{MIN_VALUES} scores, or all on the margin. Tails of {MIN_VALUES} scores or, where there are fewer or "
                "only equal ones, the shape of the tails of the other classes took their place: probabilities are "
                "rough. A smaller C or more samples a class give longer tails.",
                TailWarning,
            )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.C is not None:
            check_positive("C", self.C)
        check_gamma("gamma", self.gamma)


def check_gamma(name: str, value: Any) -> None:
    """A positive number, "scale" or None, or a ValueError."""
    if isinstance(value, str) and value != "scale":
        raise ValueError(f'{name} must be a positive number, "scale" or None, got {value!r}.')
    if value is not None and not isinstance(value, str):
        check_positive(name, value)


def _number(gamma: float | str, scale: float) -> float:
    return scale if isinstance(gamma, str) else float(gamma)

r"""What the open set classifiers made of support vector machines share.

Machines work on matrices of kernel values, computed once per fit and used by all machines of it: for the radial basis
function :math:`k(x, z) = \exp(-\gamma\lVert x - z\rVert^2)` from the squared distances between training samples. The
decision value of a machine of one class against the rest is

.. math:: f_k(x) = \sum_j w_{kj} k(x, x_j) + b_k,

positive for the class, and :math:`\pm1` on the margin; the :math:`x_j` are the support vectors of all machines.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.svm import SVC

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import quote_names
from .._support.parameter_checks import check_positive, check_share
from ..exceptions import TailWarning, warn
from ..scoring.splits import draw_left_out_classes
from ..tails.weibull import MIN_VALUES, Weibull, fit_weibull
from .cross_fitted import COSTS, N_FOLDS, ComparingClassifier, Learned, Model, Tuned, check_cost, find_folds

#: Factors of the scale of γ that cross-validation chooses from.
GAMMA_FACTORS = (0.25, 1.0, 4.0)
#: The width of the margin, from −1 to 1: how far beyond the most extreme score a tail ends.
MARGIN_WIDTH = 2.0
#: The shape of a tail if no class has enough different scores to fit one.
SHAPE_OF_FEW = 2.0
#: The probability from which W-SVM and PI-SVM accept a sample while C and γ are chosen: half the openness, as Scheirer
#: et al. (2014) set it, for an openness of 20 %. It is fixed, so that the fit depends on no threshold.
CUSTOMARY_PROBABILITY = 0.1
#: How much the F-measure at that probability counts in the choice. A larger exponent raises it, and lowers the AUROC.
F_EXPONENT = 0.2
#: Scores that differ by no more than this share of their distance from the end of the tail count as equal: for samples
#: on the margin, a tenth of half its width. The machine put them there, so their differences say nothing about new
#: samples.
EQUAL = 0.05
# Classes that a warning names.
_NAMED = 10


def compute_kernel_scale(squared: Array) -> float:
    r"""Return the γ of ``gamma="scale"``: two over the mean of the squared distances.

    The mean is over all pairs of samples, each sample with itself included, and is twice the sum of the variances of
    the features: :math:`\gamma_0 = 1/\sum_j\mathrm{Var}_j`. scikit-learn's "scale" has the variance of all entries
    times the number of features instead, which also counts how the means of features differ: the two agree if all
    features have the same mean, and this one does not change with the origin. If all samples are equal it is one.
    """
    mean = float(squared.mean())
    return 2.0 / mean if mean > 0 and np.isfinite(2.0 / mean) else 1.0


def compute_kernel(squared: Array, gamma: float) -> Array:
    """Return the kernel values of squared distances, as a new matrix."""
    out = squared * -gamma
    return np.exp(out, out=out)


def extract_kernel(squared: Array, rows: IntArray, columns: IntArray, gamma: float) -> Array:
    """Return the kernel values of some samples with others from the squared distances of all, as one new matrix."""
    out = squared[np.ix_(rows, columns)]
    out *= -gamma
    return np.exp(out, out=out)


def fit_one_vs_rest(kernel: Array, members: IntArray, C: float) -> tuple[Array, Array]:
    """Fit a machine for each class against the rest; return weights (n_classes, n) and intercepts.

    Weights are zero except for support vectors, positive for those of the class.
    """
    classes = range(int(members.max()) + 1)
    return collect_machines((SVC(C=C, kernel="precomputed").fit(kernel, members == k) for k in classes), len(members))


def collect_machines(machines: Iterable[SVC], n_samples: int) -> tuple[Array, Array]:
    """Return the weights of all samples, (n_machines, n_samples), and the intercepts of fitted two-class machines."""
    weights, intercepts = [], []
    for machine in machines:
        weights.append(np.zeros(n_samples))
        weights[-1][machine.support_] = machine.dual_coef_[0]
        intercepts.append(machine.intercept_[0])
    return np.array(weights), np.array(intercepts)


def pick_class(scores: Array, decisions: Array) -> IntArray:
    """Return the class of the largest score of each row; among equals, that of the largest decision value."""
    best = scores == scores.max(axis=1, keepdims=True)
    return np.where(best, decisions, -np.inf).argmax(axis=1)


def read_tail(parameters: Array) -> tuple[Array, Weibull]:
    """Return the ends and the distributions of tails from their ends, shapes and scales."""
    end, shape, scale = parameters
    return end, Weibull(shape, scale)


def fit_lowest_tails(values: Sequence[Array], sizes: Sequence[int], end: float | None = None) -> tuple[Array, AnyArray]:
    r"""Fit Weibull distributions to the lowest values of each class, where its machine is least certain.

    Of each class at least ``MIN_VALUES`` and at most all values are fitted. While they are all equal, as scores on the
    margin are, the number is doubled. Values end at ``end``, or the width of the margin below the lowest.

    Returns
    -------
    tails : ndarray (3, n_classes)
        End, shape and scale: :math:`F(s) = 1 - \exp(-((s - \text{end})/\text{scale})^\text{shape})`, by maximum
        likelihood. With fewer than ``MIN_VALUES`` values, or only equal ones, the shape is the median of those of the
        other classes, or ``SHAPE_OF_FEW`` if none has one, and the scale is the best one for it.
    short : ndarray of bool (n_classes,)
        Whether fewer than ``MIN_VALUES`` values were asked for or available, or all are equal.
    """
    tails, short, without = np.empty((3, len(values))), np.zeros(len(values), np.bool_), {}
    for k, (of_class, size) in enumerate(zip(values, sizes, strict=True)):
        ordered = np.sort(of_class)
        tails[0, k] = ordered[0] - MARGIN_WIDTH if end is None else end
        distances = ordered - tails[0, k]
        short[k], size = size < MIN_VALUES, max(size, MIN_VALUES)
        while size < len(ordered) and _are_equal(distances[:size]):
            size *= 2
        if len(ordered) < MIN_VALUES or _are_equal(distances[:size]):
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


def _are_equal(ordered: Array) -> bool:
    """Return whether values are too similar to fit a shape to, as those of samples on the margin are."""
    return bool(ordered[-1] - ordered[0] <= EQUAL * ordered[-1])


def choose_parameters(
    grid: list[Tuned], members: IntArray, rng: Any, score: Callable[[IntArray, Tuned], tuple[AnyArray, ...]]
) -> Tuned:
    """Choose parameters by how well they classify and reject, with samples held out and classes left out.

    There are three stratified folds. Each fit lacks the samples of a fold, and all of about 30 % of the classes, which
    take turns; with two classes none is left out. The only sample of a class is never held out; if no sample can be, C
    is 1 if that is among the values. The point of the grid with the highest mean of :func:`measure_quality` is taken,
    the first of equally good ones.

    Parameters
    ----------
    grid : list of dict
        The choices, each with a value of C.
    members : ndarray of int (n_samples,)
        Classes, numbered from 0.
    rng : RandomState
    score : callable
        ``score(test, tuned)`` returns candidates and unknown scores of the samples ``test`` in a fit without them, and
        whether they are accepted if that counts.
    """
    if len(grid) == 1:
        return grid[0]
    folds = list(find_folds(members, rng, N_FOLDS))
    if not folds:
        return next((tuned for tuned in grid if tuned["C"] == 1.0), grid[0])
    absent = draw_left_out_classes(int(members.max()) + 1, len(folds), rng) or [np.empty(0, np.int64)] * len(folds)
    quality = np.zeros(len(grid))
    for held, classes in zip(folds, absent, strict=True):
        is_absent = np.isin(members, classes)
        test = np.union1d(held, np.flatnonzero(is_absent))
        for i, tuned in enumerate(grid):
            candidate, *rest = score(test, tuned)
            quality[i] += measure_quality(candidate == members[test], is_absent[test], *rest)
    return grid[int(quality.round(9).argmax())]  # rounded, so that the order of summation decides no tie


def measure_quality(
    is_right: AnyArray, is_unknown: AnyArray, scores: Array, is_accepted: AnyArray | None = None
) -> float:
    """Return the squared accuracy on known samples times AUROC of their unknown scores against those of unknown ones.

    With ``is_accepted`` it is also times the open-set F-measure, to the power ``F_EXPONENT``. It is the accuracy itself
    without unknown samples, and 0 without known ones. Accuracy counts twice because it is measured on many samples,
    whereas the AUROC depends on which few classes are left out.
    """
    known, unknown = scores[~is_unknown], np.sort(scores[is_unknown])
    if not len(known):
        return 0.0
    right = float(is_right[~is_unknown].mean())
    if not len(unknown):
        return right
    lower = sum(np.searchsorted(unknown, known, side).mean() for side in ("left", "right")) / 2.0  # ties count half
    quality = right**2 * float(1.0 - lower / len(unknown))
    if is_accepted is None:
        return quality
    hits, false = (np.count_nonzero(is_accepted & part) for part in (is_right & ~is_unknown, is_unknown))
    return quality * float(2 * hits / (hits + false + len(known))) ** F_EXPONENT


def check_gamma(name: str, value: Any) -> None:
    """Check that a parameter is a positive number, "scale" or None."""
    if isinstance(value, str) and value != "scale":
        raise ValueError(f'{name} must be a positive number, "scale" or None, got {value!r}.')
    if value is not None and not isinstance(value, str):
        check_positive(name, value)


def resolve_gamma(gamma: float | str, scale: float) -> float:
    """Return γ as a number."""
    return scale if isinstance(gamma, str) else float(gamma)


@dataclass(frozen=True, eq=False)
class KernelMachines(Model):
    """Base of the models made of machines with a radial basis function."""

    shapes: ClassVar = {"weights": ("classes", "columns"), "intercepts": ("classes",)}

    weights: Array
    intercepts: Array
    gamma: float

    #: Arrays with a column for each support vector.
    weight_arrays: ClassVar[tuple[str, ...]] = ("weights",)

    def decide(self, kernel: Array) -> Array:
        """Return the decision values of all machines."""
        return kernel @ self.weights.T + self.intercepts

    def is_sound(self, n_classes: int) -> bool:
        return self.gamma > 0


@dataclass(eq=False, repr=False, kw_only=True)
class KernelMachineClassifier(ComparingClassifier):
    r"""Base of the methods made of support vector machines with a radial basis function.

    C and γ that are not given are chosen on known samples for what is asked of the method, to classify and to reject: C
    from 0.1, 1, 10, 100 and γ from ¼, 1, 4 times the scale. There are three fits for each, without the samples of one
    of three stratified folds and without about 30 % of the classes, which take turns as simulated unknowns. The choice
    has the highest mean of :math:`\mathrm{accuracy}^2\cdot\mathrm{AUROC}`: the accuracy of the candidates of held-out
    samples, and the AUROC of the unknown scores of the classes left out against those of held-out samples. Among equals
    the smaller C wins, then the γ nearest to the scale. With two classes none is left out, and accuracy alone decides.
    A method with a customary threshold on probabilities (``accept_from``) has a further factor :math:`F^{1/5}`, with
    the open-set F-measure at that threshold.

    Parameters
    ----------
    C : float, optional
        The cost of errors. None: chosen.
    gamma : float or "scale", optional
        γ of the kernel; "scale" is :math:`\gamma_0 = 1/\sum_j\mathrm{Var}_j`, one over the total variance of the
        samples, whatever their origin. None: chosen.
    openness : float, default 0.0
        Expected openness, for ``threshold="original"``, which is one minus half of it.
    normalize, cv, threshold, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.
    """

    _checks: ClassVar = {"C": check_cost, "gamma": check_gamma, "openness": check_share}

    C: float | None = None
    gamma: float | str | None = None
    openness: float = 0.0

    #: The choice counts samples as accepted whose largest class score is at least this. None: only ranks count.
    accept_from: ClassVar[float | None] = None

    def _choose_parameters(self, inputs: Array, members: IntArray, rng: Any) -> Tuned:
        scale = compute_kernel_scale(inputs)
        factors = sorted(GAMMA_FACTORS, key=lambda factor: (abs(np.log(factor)), factor))
        gammas = [scale * factor for factor in factors] if self.gamma is None else [resolve_gamma(self.gamma, scale)]
        costs = COSTS if self.C is None else (float(self.C),)
        grid = [self._complete_parameters(cost, gamma, scale) for cost in costs for gamma in gammas]
        return choose_parameters(grid, members, rng, partial(self._score_roughly, inputs, members))

    def _score_roughly(self, inputs: Array, members: IntArray, test: IntArray, tuned: Tuned) -> tuple[AnyArray, ...]:
        """Return what :func:`choose_parameters` asks for."""
        *found, of_classes = self._predict_without(inputs, members, test, tuned, self._learn_roughly)
        return (*found, of_classes.max(axis=1) >= self.accept_from) if self.accept_from is not None else tuple(found)

    def _complete_parameters(self, C: float, gamma: float, scale: float) -> Tuned:
        """Return a point of the grid with all parameters that machines are fitted with."""
        return {"C": C, "gamma": gamma}

    @abstractmethod
    def _fit_machines(
        self, kernel: Array, members: IntArray, tuned: Tuned, inputs: Array, rows: IntArray
    ) -> KernelMachines:
        """Fit all machines to the kernel values of the samples ``rows``, with weights for every one of them."""

    def _fit_roughly(
        self, kernel: Array, members: IntArray, tuned: Tuned, inputs: Array, rows: IntArray
    ) -> KernelMachines:
        """Fit machines to choose parameters by: without what takes several fits of each, or more samples."""
        return self._fit_machines(kernel, members, tuned, inputs, rows)

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        return self._keep_support(self._fit_machines, inputs, rows, members, tuned)

    def _learn_roughly(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        return self._keep_support(self._fit_roughly, inputs, rows, members, tuned)

    @staticmethod
    def _keep_support(
        fit: Callable[..., KernelMachines], inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned
    ) -> Learned:
        """Return the machines that ``fit`` makes, with only the samples that are a support vector of some of them."""
        kernel = extract_kernel(inputs, rows, rows, tuned["gamma"])
        model = fit(kernel, members, tuned, inputs, rows)
        weights = {name: getattr(model, name) for name in model.weight_arrays}
        used = np.flatnonzero(np.any([(array != 0.0).any(axis=0) for array in weights.values()], axis=0))
        if not len(used):
            used = np.zeros(1, np.int64)
        return replace(model, **{name: array[:, used] for name, array in weights.items()}), rows[used]

    def _original_threshold(self) -> float | None:
        return 1.0 - 0.5 * float(self.openness)

    def _fit(self, X: Any, y: Any) -> None:
        super()._fit(X, y)
        short = np.flatnonzero(getattr(self.model_, "short", np.empty(0)))
        if len(short):
            names = quote_names(self.classes_[short].tolist(), _NAMED)
            warn(
                f"too few support vectors to fit the tails of the scores of class {names}: fewer than "
                f"{MIN_VALUES} scores, or all on the margin. Their tails have {MIN_VALUES} scores or, if there are "
                "fewer or only equal ones, the shape of the tails of the other classes, so their probabilities are "
                "rough. A smaller C or more samples per class give longer tails.",
                TailWarning,
            )

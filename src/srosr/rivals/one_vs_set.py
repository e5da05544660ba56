"""1-vs-Set, linear support vector machines with a second plane."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_finite, check_positive
from .cross_fitted import COSTS, CrossFittedClassifier, Learned, Model, Tuned, check_cost
from .kernel_machines import choose_parameters, fit_one_vs_rest

#: Thickness of the thinnest slab, in decision values.
THINNEST = 1e-4
# Planes are moved outward by this share of their place, so that rounding leaves the samples on them inside.
_ROUNDING = 1e-9


def place_planes(
    scores: Array, own: AnyArray, near_pressure: float = 0.0, far_pressure: float = 0.0, empirical_weight: float = 2.0
) -> tuple[float, float]:
    r"""Return two planes :math:`A \le \Omega` around a class by greedy minimization of the risk.

    Planes lie on scores of training samples. The first slab reaches from the decision plane to the highest score of the
    class; each step moves the plane that lowers the risk most with the other one fixed, until neither does. The
    pressures are :math:`p_A, p_\Omega`, the weight :math:`\lambda_r`.

    Examples
    --------
    >>> import numpy as np
    >>> place_planes(np.array([-2.0, -1.0, 1.0, 2.0, 9.0]), np.array([False, False, True, True, False]))
    (1.0, 2.0)
    """
    places = np.unique(scores)
    mine, others = np.sort(scores[own]), np.sort(scores[~own])
    below = [np.searchsorted(part, places, "left") for part in (mine, others)]
    up_to = [np.searchsorted(part, places, "right") for part in (mine, others)]
    width = max(mine[-1] - mine[0], THINNEST)

    def risk(near: Any, far: Any) -> Array:
        right, wrong = (up_to[i][far] - below[i][near] for i in range(2))
        thickness = np.maximum(places[far] - places[near], THINNEST) / width
        margins = near_pressure * (mine[0] - places[near]) + far_pressure * (places[far] - mine[-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            f_measure = 2.0 * right / (right + wrong + len(mine))
            total = thickness + 1.0 / thickness + margins / width + empirical_weight / f_measure
        return np.where(right > 0, total, np.inf)

    far = int(np.searchsorted(places, mine[-1]))
    near = int(np.searchsorted(places, max(0.0, mine[0]))) if mine[-1] >= 0 else int(np.searchsorted(places, mine[0]))
    lowest = float(risk(near, far))
    while True:
        at_near, at_far = risk(np.arange(far + 1), far), risk(near, np.arange(near, len(places)))
        if min(at_near.min(), at_far.min()) >= lowest:
            return float(places[near]), float(places[far])
        if at_near.min() <= at_far.min():
            near, lowest = int(at_near.argmin()), float(at_near.min())
        else:
            far, lowest = near + int(at_far.argmin()), float(at_far.min())


@dataclass(frozen=True, eq=False)
class Slabs(Model):
    """Two parallel planes for each class."""

    shapes: ClassVar = {"weights": ("classes", "columns"), **dict.fromkeys(("intercepts", "near", "far"), ("classes",))}

    weights: Array
    intercepts: Array
    near: Array
    far: Array

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        decisions = inputs @ self.weights.T + self.intercepts
        scores = np.minimum(decisions - self.near, self.far - decisions)
        largest = scores.max(axis=1)
        holds = np.where(scores >= 0, decisions, -np.inf)
        return np.where(largest >= 0, holds.argmax(axis=1), scores.argmax(axis=1)), -largest, scores

    def is_sound(self, n_classes: int) -> bool:
        return bool((self.near <= self.far).all())


@dataclass(eq=False, repr=False, kw_only=True)
class OneVsSet(CrossFittedClassifier):
    r"""Linear support vector machines with a slab for each class (1-vs-Set).

    Each class has a linear machine against the rest, with decision value :math:`f_k(x) = w_k\cdot x + b_k`, and accepts
    samples between two planes parallel to the decision plane, :math:`A_k \le f_k(x) \le \Omega_k`: a sample too far on
    the side of a class is rejected as well. The planes minimize the risk

    .. math::
        R = \underbrace{\frac{t}{t_+} + \frac{t_+}{t} + p_A\omega_A + p_\Omega\omega_\Omega}_\text{open space}
            + \lambda_r\underbrace{\frac1F}_\text{errors}, \qquad t = \Omega - A,

    where :math:`t_+` is the thickness that covers all training samples of the class,
    :math:`\omega_A = (\min_+ f - A)/t_+` and :math:`\omega_\Omega = (\Omega - \max_+ f)/t_+` are the margins left
    around them (negative if a plane cuts into the class), and F is the F-measure of the slab on the training samples.
    The first two terms keep it from being much thicker or thinner than the class; positive pressures move planes
    inward, negative ones outward.

    The score of a class is how deep inside its slab a sample lies, :math:`\min(f_k - A_k, \Omega_k - f_k)`, in units of
    the margin; the unknown score is minus the largest, so zero on the border of all slabs. The candidate is the class
    with the largest decision value among those whose slabs contain the sample; outside all slabs, it is the class of
    the nearest. The method assumes that a class is bounded along the normal of its plane; along the plane a slab has no
    end.

    Parameters
    ----------
    C : float, optional
        The cost of errors, for samples centered and divided by the root of their total variance, as the machines see
        them. None: chosen from 0.1, 1, 10, 100 by how well the method classifies held-out samples and rejects classes
        left out in turn, as by :class:`srosr.rivals.kernel_machines.KernelMachineClassifier`; the smaller of equals.
    near_pressure, far_pressure : float, default 0.0
        :math:`p_A, p_\Omega`.
    empirical_weight : float, default 2.0
        :math:`\lambda_r`.
    threshold : float or {"risk", "f", "youden", "original"}, optional
        Threshold on the unknown score. "original" is 0: samples outside all slabs are rejected.
    normalize, cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.
    tuned_ : dict
        C.

    Notes
    -----
    In the authors' released implementation ratios below one count as one, the weight of errors is 2, pressures move
    planes after the search, and the score is relative to the thickness of the slab. Its search moves planes from sample
    to sample; here a plane may pass over samples to reach a lower risk.

    References
    ----------
    W. J. Scheirer, A. de Rezende Rocha, A. Sapkota, T. E. Boult, "Toward open set recognition", IEEE Transactions on
    Pattern Analysis and Machine Intelligence 35(7), 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import OneVsSet
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (40, 2)) for center in (0.0, 5.0)])
    >>> clf = OneVsSet(random_state=0).fit(X, np.repeat(["a", "b"], 40))
    >>> clf.predict([[0.0, 0.0], [5.0, 5.0], [30.0, 30.0]]).tolist()
    ['a', 'b', 'unknown']
    """

    model_type: ClassVar[type[Model]] = Slabs
    _checks: ClassVar = {
        "C": check_cost,
        "near_pressure": check_finite,
        "far_pressure": check_finite,
        "empirical_weight": check_positive,
    }

    C: float | None = None
    near_pressure: float = 0.0
    far_pressure: float = 0.0
    empirical_weight: float = 2.0

    def _choose_parameters(self, inputs: Array, members: IntArray, rng: Any) -> Tuned:
        grid = [{"C": cost} for cost in (COSTS if self.C is None else (float(self.C),))]
        return choose_parameters(grid, members, rng, partial(self._score_without, inputs, members))

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        samples = inputs[rows]
        center, root = _find_center_and_root(samples)
        scaled = (samples - center) / root
        weights, intercepts = fit_one_vs_rest(scaled @ scaled.T, members, tuned["C"])
        weights = weights @ scaled / root
        intercepts = intercepts - weights @ center
        scores = samples @ weights.T + intercepts
        pressures = float(self.near_pressure), float(self.far_pressure)
        planes = [
            place_planes(scores[:, k], members == k, *pressures, float(self.empirical_weight))
            for k in range(len(weights))
        ]
        near, far = np.array(planes).T
        near, far = (at + side * _ROUNDING * (1.0 + np.abs(at)) for at, side in ((near, -1.0), (far, 1.0)))
        return Slabs(weights, intercepts, near, far), None

    def _original_threshold(self) -> float | None:
        return 0.0


def _find_center_and_root(samples: Array) -> tuple[Array, float]:
    """Return the mean of samples, and the root of their total variance (one if they are all equal)."""
    center = samples.mean(axis=0)
    root = float(np.sqrt(np.square(samples - center).sum(axis=1).mean()))
    return center, root if root > 0 and np.isfinite(root) else 1.0

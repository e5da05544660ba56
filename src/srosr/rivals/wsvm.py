"""W-SVM, the Weibull-calibrated support vector machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.svm import OneClassSVM

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_positive, check_rate, check_share
from .cross_fitted import Model, Tuned
from .kernel_machines import (
    CUSTOMARY_PROBABILITY,
    KernelMachineClassifier,
    KernelMachines,
    check_gamma,
    compute_kernel,
    extract_kernel,
    fit_lowest_tails,
    fit_one_vs_rest,
    pick_class,
    read_tail,
    resolve_gamma,
)


@dataclass(frozen=True, eq=False)
class WeibullMachines(KernelMachines):
    """Machines of each class against the rest, and of each class alone, with the tails of their scores.

    ``match``, ``rest`` and ``inside`` have end, shape and scale of tails: of scores of the class, of negated scores of
    the rest, of the class alone. ``gate_weights`` are those of the support vectors of each class alone; a gate is open
    if the probability of being inside is above ``gate``; a class may have a tail too ``short`` to fit.
    """

    shapes: ClassVar = KernelMachines.shapes | {
        **dict.fromkeys(("match", "rest", "inside"), (3, "classes")),
        "gate_weights": ("classes", "columns"),
        "short": ("classes",),
    }

    match: Array
    rest: Array
    gate_weights: Array
    gate_gamma: float
    inside: Array
    gate: float
    short: AnyArray

    weight_arrays: ClassVar[tuple[str, ...]] = ("weights", "gate_weights")

    def compute_probabilities(self, inputs: Array) -> tuple[Array, Array, Array, AnyArray]:
        """Return decision values, probabilities of inclusion, those times that of not being the rest, open gates."""
        kernel = compute_kernel(inputs, self.gamma)
        decisions = self.decide(kernel)
        if self.gate_gamma != self.gamma:
            kernel = compute_kernel(inputs, self.gate_gamma)
        end, tail = read_tail(self.inside)
        is_open = tail.cdf(kernel @ self.gate_weights.T - end) > self.gate
        end, tail = read_tail(self.match)
        included = tail.cdf(decisions - end)
        end, tail = read_tail(self.rest)
        return decisions, included, included * tail.sf(-decisions - end), is_open

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        decisions, _, products, is_open = self.compute_probabilities(inputs)
        scores = np.where(is_open, products, 0.0)
        unknown = np.where(is_open.any(axis=1), 1.0 - scores.max(axis=1), 2.0 - products.max(axis=1))
        return pick_class(scores, decisions), unknown, scores

    def is_sound(self, n_classes: int) -> bool:
        positive = all(bool((tail[1:] > 0).all()) for tail in (self.match, self.rest, self.inside))
        return positive and min(self.gamma, self.gate_gamma) > 0 and 0 <= self.gate < 1


class RoughWeibullMachines(WeibullMachines):
    """Machines that choose and rank by the probability of inclusion; scores of classes are as before.

    Gates and tails of the rest are unreliable on few samples: parameters chosen by how they rank can be far off.
    """

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        decisions, included, products, is_open = self.compute_probabilities(inputs)
        return pick_class(included, decisions), 1.0 - included.max(axis=1), np.where(is_open, products, 0.0)


@dataclass(eq=False, repr=False, kw_only=True)
class WSVM(KernelMachineClassifier):
    r"""Weibull-calibrated support vector machine (W-SVM).

    The method assumes that the scores of machines nearest to their boundaries are extremes, and so follow Weibull
    distributions. Each class has two machines with radial basis functions: one of the class alone, whose sum of kernel
    values :math:`v_k(x) = \sum_i\alpha_i k(x, x_i)`, :math:`\sum_i\alpha_i = 1`, falls to zero with the distance from
    the class, and one against the rest with decision value :math:`f_k(x)`. With tails fitted by maximum likelihood to
    their scores of training samples,

    .. math::
        P_{O,k} &= 1 - \exp\left(-\left(v_k/\lambda_{O}\right)^{\kappa_{O}}\right)
                && \text{lowest } v_k \text{ of the class},\\
        P_{\eta,k} &= 1 - \exp\left(-\left(\frac{f_k - \nu_\eta}{\lambda_\eta}\right)^{\kappa_\eta}\right)
                && \text{lowest } f_k \text{ of the class},\ \nu_\eta = \min f_k - 2,\\
        P_{\psi,k} &= \exp\left(-\left(\frac{\nu_\psi - f_k}{\lambda_\psi}\right)^{\kappa_\psi}\right)
                && \text{highest } f_k \text{ of the rest},\ \nu_\psi = \max f_k + 2,

    the score of a class is :math:`P_\eta P_\psi` if :math:`P_O > \delta_\tau`, else 0. If the gate of some class is
    open, the unknown score is one minus the largest of them, from 0 to 1; if all are closed it is two minus the largest
    :math:`P_\eta P_\psi`, from 1 to 2. A threshold below one rejects all of the latter, as the paper does; one above it
    keeps a target of false rejection even if the gates alone would reject more known samples than that. Among equal
    scores the largest decision value decides the candidate.

    Tails end the width of the margin beyond the most extreme score: for separable classes at :math:`\mp1`, on the other
    margin. They hold :math:`\lfloor\theta n_+\rfloor` scores of the class, with :math:`n_+` support vectors in it,
    :math:`\lfloor\theta n_-/(K - 1)\rfloor` of the rest and :math:`\lfloor\theta n_O\rfloor` of the class alone, at
    least three if there are as many, and twice as many while all of them are equal (on the margin). With fewer than
    three scores, or only equal ones, the shape is the median of those of the other classes (2 if no class has one) and
    only the scale is fitted. A warning names the classes with such tails, or with support vectors for fewer than three
    scores. Scores that differ by less than 5 % of their distance from the end count as equal.

    Parameters
    ----------
    C : float, optional
        The cost of errors. None: chosen together with γ on held-out samples and classes left out in turn
        (:class:`srosr.rivals.kernel_machines.KernelMachineClassifier`), by the mean of
        :math:`\mathrm{accuracy}^2\cdot\mathrm{AUROC}\cdot F^{1/5}`: accuracy and AUROC by :math:`P_\eta` alone, F with
        the samples rejected that have no score of at least :math:`\delta_R = 0.1`, whatever the threshold.
    gamma : float or "scale", optional
        γ of the machines against the rest; "scale" is one over the total variance of the samples. None: chosen.
    gate_gamma : float or "scale", optional
        γ of the machines of one class alone. None: as for the others.
    nu : float, default 0.5
        Largest share of a class that may be outside its machine.
    gate : float, default 0.001
        :math:`\delta_\tau`, at least 0 and below 1.
    tail_factor : float, default 1.5
        :math:`\theta`, scores in a tail per support vector.
    openness : float, default 0.0
        Expected openness, for ``threshold="original"``.
    threshold : float or {"risk", "f", "youden", "original"}, optional
        Threshold on the unknown score. "original" is :math:`1 - \delta_R` with :math:`\delta_R` half the openness; with
        openness 0 only samples of probability 0, or with all gates closed, are rejected.
    normalize, cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.
    samples_ : ndarray (n_kept, n_features)
        The support vectors of all machines.
    tuned_ : dict
        C, gamma and gate_gamma.

    Warns
    -----
    TailWarning
        If a tail is too short to fit.

    Notes
    -----
    The authors' released implementation mirrors scores before fitting them: its :math:`P_\eta` is the *survival*
    function of :math:`\max - f + 1` with the highest score in the tail, one beyond it, and its :math:`P_\psi` the
    distribution function of :math:`f - \min + 1` with the lowest score in the tail. Both grow with the decision value,
    as here, but their end points lie on the inner side of the tail. Here tails end on the side of their extremes, and
    that of a class alone ends where the sum of kernel values does, at zero, so that the gate closes far away whatever
    the size of the class.

    Its tails also differ in length. Where :math:`1.5 n_+` (or :math:`1.5 n_O`) reaches the size of the class, it takes
    :math:`n_+` (:math:`n_O`) scores, and here the tail is the whole class; where :math:`1.5 n_-/(K - 1)` is at most
    three, it takes :math:`n_-` scores of the rest, and here at least three. It stops with an error if a tail has fewer
    than three scores. With all gates closed, or products that round to 0, every class has the score 0, and it names the
    first class; here the unknown score still ranks such samples, and the largest decision value names the class. Its
    default for the gate is 0 and for γ one over the number of features, and its cross-validation counts the class
    named, with all classes known.

    References
    ----------
    W. J. Scheirer, L. P. Jain, T. E. Boult, "Probability models for open set recognition", IEEE Transactions on Pattern
    Analysis and Machine Intelligence 36(11), 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import WSVM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (40, 2)) for center in (0.0, 4.0)])
    >>> clf = WSVM(random_state=0).fit(X, np.repeat(["a", "b"], 40))
    >>> clf.predict([[0.0, 0.0], [4.0, 4.0], [30.0, 0.0]]).tolist(), clf.unknown_score([[30.0, 0.0]]).round(2).tolist()
    (['a', 'b', 'unknown'], [2.0])
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, 2.0)
    model_type: ClassVar[type[Model]] = WeibullMachines
    accept_from: ClassVar[float | None] = CUSTOMARY_PROBABILITY
    _checks: ClassVar = {
        "gate_gamma": check_gamma,
        "nu": check_rate,
        "gate": check_share,
        "tail_factor": check_positive,
    }

    gate_gamma: float | str | None = None
    nu: float = 0.5
    gate: float = 0.001
    tail_factor: float = 1.5

    def _complete_parameters(self, C: float, gamma: float, scale: float) -> Tuned:
        gate_gamma = gamma if self.gate_gamma is None else resolve_gamma(self.gate_gamma, scale)
        return super()._complete_parameters(C, gamma, scale) | {"gate_gamma": gate_gamma}

    def _fit_machines(
        self, kernel: Array, members: IntArray, tuned: Tuned, inputs: Array, rows: IntArray
    ) -> KernelMachines:
        gamma, gate_gamma = tuned["gamma"], tuned["gate_gamma"]
        weights, intercepts = fit_one_vs_rest(kernel, members, tuned["C"])
        n_classes, factor = len(weights), float(self.tail_factor)
        gate_weights, sums = np.zeros_like(weights), []
        for k in range(n_classes):
            own = np.flatnonzero(members == k)
            if gate_gamma == gamma:
                block = kernel[np.ix_(own, own)]
            else:
                block = extract_kernel(inputs, rows[own], rows[own], gate_gamma)
            machine = OneClassSVM(nu=self.nu, kernel="precomputed").fit(block)
            gate_weights[k, own[machine.support_]] = machine.dual_coef_[0] / machine.dual_coef_.sum()
            sums.append(block @ gate_weights[k, own])
        scores = kernel @ weights.T + intercepts
        belongs = members == np.arange(n_classes)[:, None]
        n_own, n_other, n_alone = (
            np.count_nonzero(w, axis=1) for w in (weights * belongs, weights * ~belongs, gate_weights)
        )
        match, few = fit_lowest_tails([scores[own, k] for k, own in enumerate(belongs)], _round_down(factor * n_own))
        negated = [-scores[~own, k] for k, own in enumerate(belongs)]
        rest, few_others = fit_lowest_tails(negated, _round_down(factor * n_other / (n_classes - 1)))
        inside, few_alone = fit_lowest_tails(sums, _round_down(factor * n_alone), end=0.0)
        gate, short = float(self.gate), few | few_others | few_alone
        return WeibullMachines(weights, intercepts, gamma, match, rest, gate_weights, gate_gamma, inside, gate, short)

    def _fit_roughly(
        self, kernel: Array, members: IntArray, tuned: Tuned, inputs: Array, rows: IntArray
    ) -> KernelMachines:
        return RoughWeibullMachines(**vars(self._fit_machines(kernel, members, tuned, inputs, rows)))

    def _original_threshold(self) -> float | None:
        # Samples with all gates closed score one or more, and are rejected whatever the openness.
        return min(1.0 - 0.5 * float(self.openness), float(np.nextafter(1.0, 0.0)))


def _round_down(numbers: Array) -> list[int]:
    return np.floor(numbers).astype(int).tolist()

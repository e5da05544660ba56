"""PI-SVM, support vector machines with a probability of inclusion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_choice, check_positive
from .cross_fitted import Model, Tuned
from .kernel_machines import (
    CUSTOMARY_PROBABILITY,
    KernelMachineClassifier,
    KernelMachines,
    compute_kernel,
    fit_lowest_tails,
    fit_one_vs_rest,
    pick_class,
    read_tail,
)


@dataclass(frozen=True, eq=False)
class InclusionMachines(KernelMachines):
    """Machines of each class against the rest, with the tails of the scores of the classes.

    ``match`` has end, shape and scale of each tail, ``priors`` the probabilities relative to the largest; a tail is too
    ``short`` to fit.
    """

    shapes: ClassVar = KernelMachines.shapes | {"match": (3, "classes"), "priors": ("classes",), "short": ("classes",)}

    match: Array
    priors: Array
    short: AnyArray

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        decisions = self.decide(compute_kernel(inputs, self.gamma))
        end, tail = read_tail(self.match)
        scores = self.priors * tail.cdf(decisions - end)
        return pick_class(scores, decisions), 1.0 - scores.max(axis=1), scores

    def is_sound(self, n_classes: int) -> bool:
        priors = bool(((self.priors > 0) & (self.priors <= 1)).all())
        return super().is_sound(n_classes) and priors and bool((self.match[1:] > 0).all())


@dataclass(eq=False, repr=False, kw_only=True)
class PISVM(KernelMachineClassifier):
    r"""Support vector machines with a probability of inclusion (PI-SVM).

    Each class has a machine with a radial basis function against the rest, with decision value :math:`f_k(x)`. The
    method assumes that the lowest decision values of the class are extremes, which end at :math:`\nu_k`, and fits a
    Weibull distribution to them by maximum likelihood. It assumes nothing about the rest, which unknown samples need
    not resemble. The probability of inclusion is

    .. math::
        P_k(x) = \xi P(k)\left(1 - \exp\left(-\left(\frac{f_k(x) - \nu_k}{\lambda_k}\right)^{\kappa_k}\right)\right),
        \qquad \nu_k = \min f_k - 2,\quad \xi = 1/\max_k P(k),

    with prior probabilities P(k); for equal ones :math:`\xi P(k) = 1`. The unknown score is one minus the largest
    :math:`P_k`, from 0 to 1. Among equal scores the largest decision value decides the candidate. Far from all samples
    decision values become the intercepts :math:`b_k`, usually negative but above the end of the tail: a sample is not
    rejected merely for being far away.

    The tail ends at :math:`\nu_k`, the width of the margin below the lowest score of the class: for separable classes,
    on the margin of the rest. It holds :math:`\lfloor\theta n_+\rfloor` scores, with :math:`n_+` support vectors in the
    class, at least three if there are as many, and twice as many while all of them are equal (on the margin). With
    fewer than three scores, or only equal ones, the shape is the median of those of the other classes (2 if no class
    has one) and only the scale is fitted. A warning names the classes with such tails, or with support vectors for
    fewer than three scores. Scores that differ by less than 5 % of their distance from the end count as equal.

    Parameters
    ----------
    C : float, optional
        The cost of errors. None: chosen together with γ by how well the method classifies held-out samples and
        rejects classes left out in turn (:class:`srosr.rivals.kernel_machines.KernelMachineClassifier`), by the mean of
        :math:`\mathrm{accuracy}^2\cdot\mathrm{AUROC}\cdot F^{1/5}` with F at :math:`\delta = 0.1`, whatever the
        threshold.
    gamma : float or "scale", optional
        γ of the kernel; "scale" is one over the total variance of the samples. None: chosen.
    priors : {"equal", "frequency"}, default "equal"
        Prior probabilities of classes: equal, or their shares of the training samples.
    tail_factor : float, default 1.5
        :math:`\theta`, scores in a tail per support vector of the class.
    openness : float, default 0.0
        Expected openness, for ``threshold="original"``; with 0 that rejects nothing, and warns.
    threshold : float or {"risk", "f", "youden", "original"}, optional
        Threshold on the unknown score. "original" is :math:`1 - \delta` with :math:`\delta` half the openness.
    normalize, cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.
    samples_ : ndarray (n_kept, n_features)
        The support vectors of all machines.
    tuned_ : dict
        C and gamma.

    Warns
    -----
    TailWarning
        If a tail is too short to fit.

    Notes
    -----
    The authors' released implementation mirrors scores before fitting them: its probability is the survival function of
    :math:`m + 1 - f` with m the *highest* score in the tail. Here the tail ends on the side of its extremes.

    References
    ----------
    L. P. Jain, W. J. Scheirer, T. E. Boult, "Multi-class open set recognition using probability of inclusion", European
    Conference on Computer Vision, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import PISVM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (40, 2)) for center in (0.0, 4.0)])
    >>> clf = PISVM(random_state=0).fit(X, np.repeat(["a", "b"], 40))
    >>> clf.predict([[0.0, 0.0], [4.0, 4.0], [2.0, 2.0]]).tolist()
    ['a', 'b', 'unknown']
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    model_type: ClassVar[type[Model]] = InclusionMachines
    accept_from: ClassVar[float | None] = CUSTOMARY_PROBABILITY
    _checks: ClassVar = {
        "priors": partial(check_choice, choices=("equal", "frequency")),
        "tail_factor": check_positive,
    }

    priors: str = "equal"
    tail_factor: float = 1.5

    def _fit_machines(
        self, kernel: Array, members: IntArray, tuned: Tuned, inputs: Array, rows: IntArray
    ) -> KernelMachines:
        weights, intercepts = fit_one_vs_rest(kernel, members, tuned["C"])
        scores = kernel @ weights.T + intercepts
        owns = [members == k for k in range(len(weights))]
        sizes = [int(float(self.tail_factor) * np.count_nonzero(weights[k, own])) for k, own in enumerate(owns)]
        match, short = fit_lowest_tails([scores[own, k] for k, own in enumerate(owns)], sizes)
        counts = np.bincount(members)
        priors = counts / counts.max() if self.priors == "frequency" else np.ones(len(counts))
        return InclusionMachines(weights, intercepts, tuned["gamma"], match, priors, short)

"""PI-SVM, support vector machines with a probability of inclusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_positive, check_share
from ..tails import Weibull
from .cross_fitted import Model, Shape
from .kernel_machines import (
    KernelMachineClassifier,
    best_class,
    gaussian,
    kernel_among,
    lowest_tails,
    one_vs_rest,
    support_columns,
)

__all__ = ["PISVM"]


@dataclass(frozen=True, eq=False)
class InclusionMachines(Model):
    """Machines of each class against the rest, with the tails of the scores of the classes.

    Attributes
    ----------
    weights : ndarray (n_classes, n_columns)
    intercepts : ndarray (n_classes,)
    gamma : float
    match : ndarray (3, n_classes)
        End, shape and scale of the tail of the scores of a class.
    priors : ndarray (n_classes,)
        Relative to the largest.
    short : ndarray of bool (n_classes,)
        Classes with a tail too short to be fitted.
    """

    weights: Array
    intercepts: Array
    gamma: float
    match: Array
    priors: Array
    short: AnyArray

    def judge(self, related: Array) -> tuple[IntArray, Array, Array]:
        decisions = gaussian(related, self.gamma) @ self.weights.T + self.intercepts
        end, shape, scale = self.match
        scores = self.priors * Weibull(shape, scale).cdf(decisions - end)
        return best_class(scores, decisions), 1.0 - scores.max(axis=1), scores

    @staticmethod
    def shapes(n_classes: int, n_columns: int) -> dict[str, Shape]:
        return {
            "weights": (n_classes, n_columns),
            "intercepts": (n_classes,),
            "match": (3, n_classes),
            "priors": (n_classes,),
            "short": (n_classes,),
        }

    def is_sound(self, n_classes: int) -> bool:
        priors = bool(((self.priors > 0) & (self.priors <= 1)).all())
        return self.gamma > 0 and priors and bool((self.match[1:] > 0).all())


class PISVM(KernelMachineClassifier):
    r"""Support vector machines with a probability of inclusion (PI-SVM).

    Each class has a machine with a radial basis function against the rest, with decision value :math:`f_k(x)`. It
    supposes that the lowest decision values of the class are extremes, which end at :math:`\nu_k`, and fits a Weibull
    distribution to them by maximum likelihood; nothing is supposed of the rest, which strangers need not resemble. The
    probability of inclusion is

    .. math::
        P_k(x) = \xi P(k)\left(1 - \exp\left(-\left(\frac{f_k(x) - \nu_k}{\lambda_k}\right)^{\kappa_k}\right)\right),
        \qquad \nu_k = \min f_k - 2,\quad \xi = 1/\max_k P(k),

    with prior probabilities P(k); for equal ones :math:`\xi P(k) = 1`. The unknown score is one minus the largest
    :math:`P_k`, from 0 to 1. Where scores are equal the decision value says which class is the candidate. Far from all
    samples decision values become the intercepts :math:`b_k`, negative as a rule but above the end of the tail: what is
    far is not refused for being far alone.

    The tail ends at :math:`\nu_k`, the width of the margin below the lowest score of the class: for separable classes,
    on the margin of the rest. It holds :math:`\lfloor\theta n_+\rfloor` scores, with :math:`n_+` support vectors in the
    class, at least three where there are so many, and twice as many while all of them are equal (on the margin). Where
    there are fewer than three scores, or only equal ones, the shape is the median of those of the other classes (2
    where no class has one) and the scale is fitted. A warning names the classes with such tails, or with fewer than
    three scores by their support vectors. Scores that differ by less than 5 % of their distance from the end count as
    equal.

    Parameters
    ----------
    C : float, optional
        The cost of errors. None: chosen by cross-validation on known samples, with γ.
    gamma : float or "scale", optional
        γ of the kernel; "scale" is one over the total variance of the samples. None: chosen.
    priors : {"equal", "frequency"}, default "equal"
        Prior probabilities of classes: equal, or their shares of the training samples.
    tail_factor : float, default 1.5
        :math:`\theta`, the scores in a tail for each support vector of the class.
    openness : float, default 0.0
        Openness expected, for ``threshold="original"``; with 0 that refuses nothing, and warns.
    threshold : float or {"risk", "f", "youden", "original"}, optional
        On the unknown score. "original" is :math:`1 - \delta` with :math:`\delta` half the openness.
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
        Where a tail is too short to fit.

    Notes
    -----
    The authors' released implementation mirrors scores before it fits them: its probability is the survival function of
    :math:`m + 1 - f` with m the *highest* score in the tail. Here the tail ends on the side of its extremes.

    References
    ----------
    L. P. Jain, W. J. Scheirer, T. E. Boult, "Multi-class open set recognition using probability of inclusion", European
    Conference on Computer Vision, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.rivals import PISVM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(centre, 1.0, (40, 2)) for centre in (0.0, 4.0)])
    >>> clf = PISVM(random_state=0).fit(X, np.repeat(["a", "b"], 40))
    >>> clf.predict([[0.0, 0.0], [4.0, 4.0], [2.0, 2.0]]).tolist()
    ['a', 'b', 'unknown']
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    model_type: ClassVar[type[Model]] = InclusionMachines

    def __init__(
        self,
        *,
        C: float | None = None,
        gamma: float | str | None = None,
        priors: str = "equal",
        tail_factor: float = 1.5,
        openness: float = 0.0,
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
            C=C,
            gamma=gamma,
            normalize=normalize,
            cv=cv,
            threshold=threshold,
            target_rejection=target_rejection,
            per_class=per_class,
            risk_weight=risk_weight,
            unknown_label=unknown_label,
            random_state=random_state,
        )
        self.priors = priors
        self.tail_factor = tail_factor
        self.openness = openness

    def _learn(
        self, related: Array, rows: IntArray, members: IntArray, tuned: dict[str, Any]
    ) -> tuple[Model, IntArray | None]:
        kernel = kernel_among(related, rows, rows, tuned["gamma"])
        weights, intercepts = one_vs_rest(kernel, members, tuned["C"])
        scores = kernel @ weights.T + intercepts
        owns = [members == k for k in range(len(weights))]
        sizes = [int(float(self.tail_factor) * np.count_nonzero(weights[k, own])) for k, own in enumerate(owns)]
        match, short = lowest_tails([scores[own, k] for k, own in enumerate(owns)], sizes)
        counts = np.bincount(members)
        priors = counts / counts.max() if self.priors == "frequency" else np.ones(len(counts))
        used = support_columns(weights)
        return InclusionMachines(weights[:, used], intercepts, tuned["gamma"], match, priors, short), rows[used]

    def _original_threshold(self) -> float | None:
        return 1.0 - 0.5 * float(self.openness)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.priors not in ("equal", "frequency"):
            raise ValueError(f'priors must be "equal" or "frequency", got {self.priors!r}.')
        check_positive("tail_factor", self.tail_factor)
        check_share("openness", self.openness)

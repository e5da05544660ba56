"""Support vector machines of one class against the rest, scored by a probability or by the decision value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_choice
from .cross_fitted import N_FOLDS, Model, Tuned
from .kernel_machines import (
    KernelMachineClassifier,
    KernelMachines,
    collect_machines,
    compute_kernel,
    fit_one_vs_rest,
    pick_class,
)


def fit_calibrated(machine: SVC, kernel: Array, labels: AnyArray) -> tuple[SVC, Array, Array]:
    r"""Fit a machine to all samples, and sigmoids :math:`1/(1 + \exp(af + b))` to held-out decision values.

    There are three stratified folds, or as many as the smallest class has samples. If that is one, or if a sigmoid
    would decrease with the decision value (as can happen with two or three samples per class), the decision values of
    the training samples are used instead. Returns the machine, and a and b of each column of decision values.
    """
    n_folds = min(N_FOLDS, int(np.unique(labels, return_counts=True)[1].min()))
    everything = np.arange(len(labels))
    inside = [(everything, everything)]
    shuffled = StratifiedKFold(n_folds, shuffle=True, random_state=0) if n_folds > 1 else inside
    for cv in (shuffled, inside):
        result = CalibratedClassifierCV(machine, method="sigmoid", cv=cv, ensemble=False).fit(kernel, labels)
        (fitted,) = result.calibrated_classifiers_
        a, b = (np.array([getattr(c, name) for c in fitted.calibrators]) for name in ("a_", "b_"))
        if (a < 0).all():
            break
    return fitted.estimator, a, b


@dataclass(frozen=True, eq=False)
class RestMachines(KernelMachines):
    """Machines of each class against the rest.

    The parameters of the sigmoids are empty if the decision value is the score.
    """

    shapes: ClassVar = KernelMachines.shapes | {name: [("classes",), (0,)] for name in ("slopes", "offsets")}

    slopes: Array
    offsets: Array

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        decisions = self.decide(compute_kernel(inputs, self.gamma))
        if not len(self.slopes):
            return decisions.argmax(axis=1), -decisions.max(axis=1), decisions
        scores = expit(-(self.slopes * decisions + self.offsets))
        return pick_class(scores, decisions), 1.0 - scores.max(axis=1), scores

    def is_sound(self, n_classes: int) -> bool:
        return super().is_sound(n_classes) and self.slopes.shape == self.offsets.shape


@dataclass(eq=False, repr=False, kw_only=True)
class OneVsRestSVM(KernelMachineClassifier):
    r"""Support vector machines of one class against the rest, which reject a sample if none of them is confident.

    Each class has a machine with a radial basis function against the rest, with decision value :math:`f_k(x)`. With
    "platt" the probability of a class is

    .. math:: p_k(x) = \frac{1}{1 + \exp(a_k f_k(x) + b_k)},

    with a sigmoid fitted to held-out decision values from three folds; the unknown score is :math:`1 - \max_k p_k`,
    from 0 to 1. With "decision" it is :math:`-\max_k f_k`, on the scale of the margin. Both assume that unknown samples
    look like the rest of the known ones: far from all samples the scores are those of the intercepts, and nothing
    rejects a sample for being far away.

    A class of fewer than three samples has as many folds as samples; if that is one, or if its sigmoid would decrease
    with the decision value, the sigmoid is fitted to the decision values of the training samples.

    Parameters
    ----------
    score_by : {"platt", "decision"}, default "platt"
        Score by probability or by decision value. ``score_range`` is (0, 1) for the former, (−∞, ∞) for the latter.
    C : float, optional
        The cost of errors. None: chosen together with γ by how well decision values (with either ``score_by``)
        classify held-out samples and reject classes left out in turn
        (:class:`srosr.rivals.kernel_machines.KernelMachineClassifier`).
    gamma : float or "scale", optional
        γ of the kernel; "scale" is one over the total variance of the samples. None: chosen.
    openness : float, default 0.0
        Expected openness, for ``threshold="original"`` with "platt".
    threshold : float or {"risk", "f", "youden", "original"}, optional
        Threshold on the unknown score. "original" is one minus half the openness for "platt", the usual choice in open
        set comparisons, and 0 for "decision": a sample that no machine accepts is rejected.
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

    References
    ----------
    C. Cortes, V. Vapnik, "Support-vector networks", Machine Learning 20, 1995.

    J. C. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods",
    Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import OneVsRestSVM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (40, 2)) for center in (0.0, 4.0)])
    >>> clf = OneVsRestSVM(random_state=0).fit(X, np.repeat(["a", "b"], 40))
    >>> clf.predict([[0.0, 0.0], [4.0, 4.0], [2.0, 2.0]]).tolist()
    ['a', 'b', 'unknown']
    """

    model_type: ClassVar[type[Model]] = RestMachines

    score_by: str = "platt"

    @property
    def score_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Ends of the scale of the unknown score."""
        return (-np.inf, np.inf) if self._scored_by == "decision" else (0.0, 1.0)

    @property
    def _scored_by(self) -> str:
        """The parameter as it was when the model was fitted, whatever was set since."""
        return getattr(self, "_fitted_score_by", self.score_by)

    def _get_fitted_parameters(self) -> dict[str, Any]:
        return super()._get_fitted_parameters() | {"score_by": self._scored_by}

    def _fit_machines(
        self, kernel: Array, members: IntArray, tuned: Tuned, inputs: Array, rows: IntArray
    ) -> KernelMachines:
        C, n = tuned["C"], len(members)
        if self.score_by == "decision":
            return self._fit_roughly(kernel, members, tuned, inputs, rows)
        classes = range(int(members.max()) + 1)
        fits = [fit_calibrated(SVC(C=C, kernel="precomputed"), kernel, members == k) for k in classes]
        machines, slopes, offsets = zip(*fits, strict=True)
        weights, intercepts = collect_machines(machines, n)
        return RestMachines(weights, intercepts, tuned["gamma"], np.concatenate(slopes), np.concatenate(offsets))

    def _fit_roughly(
        self, kernel: Array, members: IntArray, tuned: Tuned, inputs: Array, rows: IntArray
    ) -> KernelMachines:
        machines = fit_one_vs_rest(kernel, members, tuned["C"])
        return RestMachines(*machines, tuned["gamma"], np.empty(0), np.empty(0))

    def _original_threshold(self) -> float | None:
        return 0.0 if self._scored_by == "decision" else super()._original_threshold()

    def _check_parameters(self) -> None:
        check_choice("score_by", self.score_by, ("platt", "decision"))
        self._fitted_score_by = self.score_by  # for the fit, or the file, that begins here
        super()._check_parameters()

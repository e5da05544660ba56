"""Support vector machines of one class against the rest, with a probability or the bare decision value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_share
from .cross_fitted import N_FOLDS, Model, Shape
from .kernel_machines import KernelMachineClassifier, best_class, gaussian, kernel_among, one_vs_rest, support_columns

__all__ = ["OneVsRestSVM", "calibrated"]


def calibrated(machine: SVC, kernel: Array, labels: AnyArray) -> tuple[SVC, Array, Array]:
    r"""A machine on all samples, and sigmoids :math:`1/(1 + \exp(af + b))` of decision values it had not learnt from.

    Three stratified folds, or as many as the smallest class has samples. Where that is one, and where a sigmoid would
    fall with the decision value (as it can with two or three samples a class), decision values of the training samples
    take their place.

    Returns
    -------
    machine : SVC
    a, b : ndarray
        One for each column of decision values.
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
class RestMachines(Model):
    """Machines of each class against the rest, with or without sigmoids.

    Attributes
    ----------
    weights : ndarray (n_classes, n_columns)
    intercepts : ndarray (n_classes,)
    gamma : float
    slopes, offsets : ndarray (n_classes,) or (0,)
        Of the sigmoids; none where the decision value is the score.
    """

    weights: Array
    intercepts: Array
    gamma: float
    slopes: Array
    offsets: Array

    def judge(self, related: Array) -> tuple[IntArray, Array, Array]:
        decisions = gaussian(related, self.gamma) @ self.weights.T + self.intercepts
        if not len(self.slopes):
            return decisions.argmax(axis=1), -decisions.max(axis=1), decisions
        scores = expit(-(self.slopes * decisions + self.offsets))
        return best_class(scores, decisions), 1.0 - scores.max(axis=1), scores

    @staticmethod
    def shapes(n_classes: int, n_columns: int) -> dict[str, Shape]:
        return {
            "weights": (n_classes, n_columns),
            "intercepts": (n_classes,),
            "slopes": [(n_classes,), (0,)],
            "offsets": [(n_classes,), (0,)],
        }

    def is_sound(self, n_classes: int) -> bool:
        return self.gamma > 0 and self.slopes.shape == self.offsets.shape


class OneVsRestSVM(KernelMachineClassifier):
    r"""Support vector machines of one class against the rest, refused where none of them is sure.

    Each class has a machine with a radial basis function against the rest, with decision value :math:`f_k(x)`. By
    "platt" the probability of a class is

    .. math:: p_k(x) = \frac{1}{1 + \exp(a_k f_k(x) + b_k)},

    with a sigmoid fitted to decision values of samples that were held out, in three folds; the unknown score is
    :math:`1 - \max_k p_k`, from 0 to 1. By "decision" it is :math:`-\max_k f_k`, on the scale of the margin. Both
    suppose that strangers look like the rest of the known samples: space far from all of them is not closed, there the
    scores are those of the intercepts.

    A class of fewer than three samples has as many folds as samples; where that is one, or its sigmoid would fall with
    the decision value, the sigmoid is fitted to the decision values of the training samples.

    Parameters
    ----------
    score_by : {"platt", "decision"}, default "platt"
        Probability or decision value. ``score_range`` is (0, 1) for the one, (−∞, ∞) for the other.
    C : float, optional
        The cost of errors. None: chosen by cross-validation on known samples, with γ.
    gamma : float or "scale", optional
        γ of the kernel; "scale" is one over the total variance of the samples. None: chosen.
    openness : float, default 0.0
        Openness expected, for ``threshold="original"`` with "platt".
    threshold : float or {"risk", "f", "youden", "original"}, optional
        On the unknown score. "original" is one minus half the openness for "platt", the usual minimum of such
        probabilities in open set comparisons, and 0 for "decision": a sample that no machine accepts is refused.
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
    >>> from srosr.rivals import OneVsRestSVM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(centre, 1.0, (40, 2)) for centre in (0.0, 4.0)])
    >>> clf = OneVsRestSVM(random_state=0).fit(X, np.repeat(["a", "b"], 40))
    >>> clf.predict([[0.0, 0.0], [4.0, 4.0], [2.0, 2.0]]).tolist()
    ['a', 'b', 'unknown']
    """

    model_type: ClassVar[type[Model]] = RestMachines

    def __init__(
        self,
        *,
        score_by: str = "platt",
        C: float | None = None,
        gamma: float | str | None = None,
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
        self.score_by = score_by
        self.openness = openness

    @property
    def score_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Ends of the scale of the unknown score."""
        return (-np.inf, np.inf) if self._scored_by == "decision" else (0.0, 1.0)

    @property
    def _scored_by(self) -> str:
        """As it was when the model was fitted, whatever was set since."""
        return getattr(self, "_fitted_score_by", self.score_by)

    def _fitted_parameters(self) -> dict[str, Any]:
        return super()._fitted_parameters() | {"score_by": self._scored_by}

    def _learn(
        self, related: Array, rows: IntArray, members: IntArray, tuned: dict[str, Any]
    ) -> tuple[Model, IntArray | None]:
        kernel = kernel_among(related, rows, rows, tuned["gamma"])
        if self.score_by == "decision":
            weights, intercepts = one_vs_rest(kernel, members, tuned["C"])
            slopes = offsets = np.empty(0)
        else:
            n_classes = int(members.max()) + 1
            weights = np.zeros((n_classes, len(members)))
            intercepts, slopes, offsets = np.empty((3, n_classes))
            for k in range(n_classes):
                machine = SVC(C=tuned["C"], kernel="precomputed")
                machine, slopes[k : k + 1], offsets[k : k + 1] = calibrated(machine, kernel, members == k)
                weights[k, machine.support_] = machine.dual_coef_[0]
                intercepts[k] = machine.intercept_[0]
        used = support_columns(weights)
        return RestMachines(weights[:, used], intercepts, tuned["gamma"], slopes, offsets), rows[used]

    def _original_threshold(self) -> float | None:
        return 0.0 if self._scored_by == "decision" else 1.0 - 0.5 * float(self.openness)

    def _check_parameters(self) -> None:
        if self.score_by not in ("platt", "decision"):
            raise ValueError(f'score_by must be "platt" or "decision", got {self.score_by!r}.')
        self._fitted_score_by = self.score_by  # by the fit, or the file, that begins here
        super()._check_parameters()
        check_share("openness", self.openness)

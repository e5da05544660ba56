"""A support vector machine for each pair of classes, with class probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.svm import SVC

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_share
from .cross_fitted import N_FOLDS, Model, Shape, stratified_folds
from .kernel_machines import KernelMachineClassifier, gaussian, kernel_among, support_columns

__all__ = ["PairwiseSVM", "coupled", "pair_weights", "sigmoids"]


#: Pairwise probabilities are kept this far from 0 and 1, as the solver's own program keeps them.
LEAST = 1e-7
# Steps of Newton's method that a sigmoid may take, of which ten are common, and halvings of each.
_STEPS, _HALVINGS = 100, 30
# Numbers of linear systems held at once.
_HELD = 2**22


def pair_weights(machine: SVC, members: IntArray) -> tuple[Array, Array]:
    """Weights of training samples and intercept for each pair of classes, positive for the first of the two.

    Parameters
    ----------
    machine : SVC
        Fitted to classes numbered from 0.
    members : ndarray of int (n,)
        Classes of its samples.

    Returns
    -------
    weights : ndarray (n_pairs, n)
        Pairs in the order of ``np.triu_indices``.
    intercepts : ndarray (n_pairs,)
    """
    support, coefficients = machine.support_, machine.dual_coef_
    first, second = np.triu_indices(len(machine.classes_), 1)
    weights = np.zeros((len(first), len(members)))
    if len(first) == 1:  # of two classes the solver's decision value is positive for the second
        weights[0, support] = -coefficients[0]
        return weights, -machine.intercept_
    of = members[support]
    for pair, (i, j) in enumerate(zip(first, second, strict=True)):
        # Coefficients of the support vectors of a class against the others, in their order and without itself.
        weights[pair, support[of == i]] = coefficients[j - 1, of == i]
        weights[pair, support[of == j]] = coefficients[i, of == j]
    return weights, machine.intercept_


def sigmoids(decisions: Array, is_first: AnyArray, counts: AnyArray) -> tuple[Array, Array]:
    r"""Platt's sigmoids :math:`1/(1 + \exp(af + b))` of many columns of decision values at once.

    Maximum likelihood with targets :math:`(n_+ + 1)/(n_+ + 2)` and :math:`1/(n_- + 2)`, by Newton's method with steps
    halved until they help. It is what scikit-learn's ``CalibratedClassifierCV`` fits to one pair at a time; 20 classes
    have 190 pairs, and ``python -m benchmarks.sigmoids`` prints how much longer that takes.

    Parameters
    ----------
    decisions : ndarray (n, n_pairs)
    is_first, counts : ndarray of bool (n, n_pairs)
        Which samples are of the first class of a pair, and which belong to the pair at all.

    Returns
    -------
    a, b : ndarray (n_pairs,)
    """
    scale = np.maximum(np.abs(np.where(counts, decisions, 0.0)).max(axis=0), np.finfo(np.float64).tiny)
    f, weight = np.where(counts, decisions, 0.0) / scale, counts.astype(np.float64)
    n_first, n_second = (is_first & counts).sum(axis=0), (~is_first & counts).sum(axis=0)
    target = np.where(is_first, (n_first + 1.0) / (n_first + 2.0), 1.0 / (n_second + 2.0))

    def loss(a: Array, b: Array) -> Array:
        z = a * f + b
        return ((np.logaddexp(0.0, z) + (target - 1.0) * z) * weight).sum(axis=0)

    a, b = np.zeros(f.shape[1]), np.log((n_second + 1.0) / (n_first + 1.0))
    best = loss(a, b)
    for _ in range(_STEPS):
        p = expit(-(a * f + b))
        slope, curve = (target - p) * weight, p * (1.0 - p) * weight
        da, db = (slope * f).sum(axis=0), slope.sum(axis=0)
        aa, ab, bb = (curve * f * f).sum(axis=0) + 1e-12, (curve * f).sum(axis=0), curve.sum(axis=0) + 1e-12
        determinant = np.maximum(aa * bb - ab * ab, 1e-300)
        step_a, step_b = (bb * da - ab * db) / determinant, (aa * db - ab * da) / determinant
        length = np.ones_like(a)
        for _ in range(_HALVINGS):
            new = loss(a - length * step_a, b - length * step_b)
            worse = new > best
            if not worse.any():
                break
            length[worse] *= 0.5
        length[new > best] = 0.0
        a, b = a - length * step_a, b - length * step_b
        new = loss(a, b)
        if (best - new <= 1e-13 * (1.0 + np.abs(best))).all():
            break
        best = new
    return a / scale, b


def coupled(pairs: Array, n_classes: int) -> Array:
    r"""Class probabilities from those of pairs, by the second method of Wu, Lin and Weng.

    .. math:: \min_p \sum_i\sum_{j \ne i}(r_{ji}p_i - r_{ij}p_j)^2, \quad \sum_i p_i = 1,

    with :math:`r_{ij}` the probability of class i against class j: the solution of linear equations, never negative.

    Parameters
    ----------
    pairs : ndarray (n_samples, n_pairs)
        :math:`r_{ij}` for the pairs i < j in the order of ``np.triu_indices``.
    n_classes : int

    Returns
    -------
    probabilities : ndarray (n_samples, n_classes)
    """
    first, second = np.triu_indices(n_classes, 1)
    out = np.empty((len(pairs), n_classes))
    step = max(1, _HELD // (n_classes + 1) ** 2)
    for start in range(0, len(pairs), step):
        part = np.clip(pairs[start : start + step], LEAST, 1.0 - LEAST)
        r = np.zeros((len(part), n_classes, n_classes))
        r[:, first, second], r[:, second, first] = part, 1.0 - part
        system = np.ones((len(part), n_classes + 1, n_classes + 1))
        system[:, :-1, :-1] = -r * r.transpose(0, 2, 1)
        diagonal = np.arange(n_classes)
        system[:, diagonal, diagonal] = np.square(r).sum(axis=1)
        system[:, -1, -1] = 0.0
        right = np.zeros((len(part), n_classes + 1, 1))
        right[:, -1] = 1.0
        solved = np.maximum(np.linalg.solve(system, right)[:, :-1, 0], 0.0)
        out[start : start + step] = solved / solved.sum(axis=1, keepdims=True)
    return out


@dataclass(frozen=True, eq=False)
class PairMachines(Model):
    """A machine for each pair of classes i < j, in the order of ``np.triu_indices``, positive for the first.

    Attributes
    ----------
    weights : ndarray (n_pairs, n_columns)
    intercepts : ndarray (n_pairs,)
    gamma : float
    slopes, offsets : ndarray (n_pairs,)
        Of the sigmoids.
    n_classes : int
    """

    weights: Array
    intercepts: Array
    gamma: float
    slopes: Array
    offsets: Array
    n_classes: int

    def judge(self, related: Array) -> tuple[IntArray, Array, Array]:
        decisions = gaussian(related, self.gamma) @ self.weights.T + self.intercepts
        scores = coupled(expit(-(self.slopes * decisions + self.offsets)), self.n_classes)
        return scores.argmax(axis=1), 1.0 - scores.max(axis=1), scores

    @staticmethod
    def shapes(n_classes: int, n_columns: int) -> dict[str, Shape]:
        return {
            "weights": (n_classes * (n_classes - 1) // 2, n_columns),
            **dict.fromkeys(("intercepts", "slopes", "offsets"), (n_classes * (n_classes - 1) // 2,)),
        }

    def is_sound(self, n_classes: int) -> bool:
        return self.gamma > 0 and self.n_classes == n_classes


class PairwiseSVM(KernelMachineClassifier):
    r"""Support vector machines of pairs of classes, with class probabilities that are refused where none is large.

    Each pair of classes has a machine with a radial basis function, and a sigmoid of its decision value, fitted to
    samples that were held out in three folds, is the probability :math:`r_{ij}` of class i against class j. Class
    probabilities are those that agree best with them all,

    .. math:: \min_p \sum_i\sum_{j \ne i}(r_{ji}p_i - r_{ij}p_j)^2, \quad \sum_i p_i = 1.

    The unknown score is one minus the largest probability, from 0 to :math:`1 - 1/K`. Probabilities of known classes
    add up to one: it supposes that there are no others, and a stranger is noticed only where classes are in doubt.

    Where a class has one sample, or a sigmoid would fall with the decision value, the sigmoid is fitted to the decision
    values of the training samples. The number of machines grows with the square of that of the classes.

    Parameters
    ----------
    C : float, optional
        The cost of errors. None: chosen by cross-validation on known samples, with γ.
    gamma : float or "scale", optional
        γ of the kernel; "scale" is one over the total variance of the samples. None: chosen.
    openness : float, default 0.0
        Openness expected, for ``threshold="original"``; with 0 that refuses nothing, and warns.
    threshold : float or {"risk", "f", "youden", "original"}, optional
        On the unknown score. "original" is one minus half the openness, the usual minimum of such probabilities in open
        set comparisons.
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
    C.-W. Hsu, C.-J. Lin, "A comparison of methods for multiclass support vector machines", IEEE Transactions on Neural
    Networks 13(2), 2002.

    T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability estimates for multi-class classification by pairwise coupling",
    Journal of Machine Learning Research 5, 2004.

    J. C. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods",
    Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.rivals import PairwiseSVM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(centre, 1.0, (40, 2)) for centre in (0.0, 4.0)])
    >>> clf = PairwiseSVM(random_state=0).fit(X, np.repeat(["a", "b"], 40))
    >>> clf.predict([[0.0, 0.0], [4.0, 4.0], [2.0, 2.0]]).tolist()
    ['a', 'b', 'unknown']
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    model_type: ClassVar[type[Model]] = PairMachines

    def __init__(
        self,
        *,
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
        self.openness = openness

    def _right(self, kernel: Array, members: IntArray, outer: Array, truth: IntArray, C: float) -> AnyArray:
        machine = SVC(C=C, kernel="precomputed").fit(kernel, members)
        return np.array([np.sum(machine.predict(outer) == truth)])

    def _learn(
        self, related: Array, rows: IntArray, members: IntArray, tuned: dict[str, Any]
    ) -> tuple[Model, IntArray | None]:
        kernel = kernel_among(related, rows, rows, tuned["gamma"])
        n_classes = int(members.max()) + 1
        first, second = np.triu_indices(n_classes, 1)
        is_first = members[:, None] == first
        counts = is_first | (members[:, None] == second)
        weights, intercepts = pair_weights(SVC(C=tuned["C"], kernel="precomputed").fit(kernel, members), members)
        held_out, decisions = np.zeros(len(rows), np.bool_), np.empty(is_first.shape)
        for test in stratified_folds(members, np.random.RandomState(0), N_FOLDS):
            train = np.delete(np.arange(len(rows)), test)
            machine = SVC(C=tuned["C"], kernel="precomputed").fit(kernel[np.ix_(train, train)], members[train])
            elsewhere, offset = pair_weights(machine, members[train])
            decisions[test] = kernel[np.ix_(test, train)] @ elsewhere.T + offset
            held_out[test] = True
        slopes, offsets = sigmoids(decisions, is_first, counts & held_out[:, None])
        lonely = np.bincount(members) == 1
        again = lonely[first] | lonely[second] | (slopes >= 0)
        if again.any():
            inside = kernel @ weights[again].T + intercepts[again]
            slopes[again], offsets[again] = sigmoids(inside, is_first[:, again], counts[:, again])
        used = support_columns(weights)
        return PairMachines(weights[:, used], intercepts, tuned["gamma"], slopes, offsets, n_classes), rows[used]

    def _original_threshold(self) -> float | None:
        return 1.0 - 0.5 * float(self.openness)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_share("openness", self.openness)

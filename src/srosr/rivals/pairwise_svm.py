"""A support vector machine for each pair of classes, with class probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit
from sklearn.svm import SVC

from .._support.array_types import AnyArray, Array, IntArray
from .cross_fitted import N_FOLDS, Model, Tuned, find_folds
from .kernel_machines import KernelMachineClassifier, KernelMachines, compute_kernel

#: Pairwise probabilities are kept this far from 0 and 1, as LIBSVM does.
LEAST = 1e-7
#: Slope of the sigmoids while C and γ are chosen: a probability of 0.88 on the margin.
ROUGH_SLOPE = -2.0
# Most steps of Newton's method for a sigmoid, which usually needs ten, and most halvings of a step.
_STEPS, _HALVINGS = 100, 30
# Entries of linear systems held at once.
_HELD = 2**22


def extract_pair_weights(machine: SVC, members: IntArray) -> tuple[Array, Array]:
    """Return weights of training samples and intercept for each pair of classes, positive for the first of the two.

    The machine is fitted to classes numbered from 0, those of its samples in ``members``; pairs are in the order of
    ``np.triu_indices``, weights (n_pairs, n).
    """
    support, coefficients = machine.support_, machine.dual_coef_
    first, second = np.triu_indices(len(machine.classes_), 1)
    weights = np.zeros((len(first), len(members)))
    if len(first) == 1:  # with two classes the solver's decision value is positive for the second
        weights[0, support] = -coefficients[0]
        return weights, -machine.intercept_
    of = members[support]
    for pair, (i, j) in enumerate(zip(first, second, strict=True)):
        # The rows are the coefficients of a class's support vectors against the other classes, in order.
        weights[pair, support[of == i]] = coefficients[j - 1, of == i]
        weights[pair, support[of == j]] = coefficients[i, of == j]
    return weights, machine.intercept_


def fit_sigmoids(decisions: Array, is_first: AnyArray, counts: AnyArray) -> tuple[Array, Array]:
    r"""Fit Platt's sigmoids :math:`1/(1 + \exp(af + b))` to many columns of decision values at once; return a and b.

    By maximum likelihood with targets :math:`(n_+ + 1)/(n_+ + 2)` and :math:`1/(n_- + 2)`, by Newton's method with
    steps halved until they help. scikit-learn's ``CalibratedClassifierCV`` fits the same to one pair at a time; 20
    classes have 190 pairs, and ``python -m benchmarks.sigmoids`` prints how much longer that takes. A column is for a
    pair of classes: ``is_first`` says whether a sample is of the first of the two, ``counts`` whether it is of either.
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


def couple_probabilities(pairs: Array, n_classes: int) -> Array:
    r"""Return class probabilities from those of pairs, by the second method of Wu, Lin and Weng.

    .. math:: \min_p \sum_i\sum_{j \ne i}(r_{ji}p_i - r_{ij}p_j)^2, \quad \sum_i p_i = 1,

    with :math:`r_{ij}` the probability of class i against class j, for i < j in the order of ``np.triu_indices``: the
    solution of linear equations, never negative.
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
class PairMachines(KernelMachines):
    """A machine and a sigmoid for each pair of classes in the order of ``np.triu_indices``, positive for the first."""

    shapes: ClassVar = {
        "weights": ("pairs", "columns"),
        **dict.fromkeys(("intercepts", "slopes", "offsets"), ("pairs",)),
    }

    slopes: Array
    offsets: Array
    n_classes: int

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        decisions = self.decide(compute_kernel(inputs, self.gamma))
        scores = couple_probabilities(expit(-(self.slopes * decisions + self.offsets)), self.n_classes)
        return scores.argmax(axis=1), 1.0 - scores.max(axis=1), scores

    def is_sound(self, n_classes: int) -> bool:
        return super().is_sound(n_classes) and self.n_classes == n_classes


class PairwiseSVM(KernelMachineClassifier):
    r"""Support vector machines of pairs of classes, which reject a sample if no class probability is large.

    Each pair of classes has a machine with a radial basis function. A sigmoid of its decision value, fitted to held-out
    samples of three folds, is the probability :math:`r_{ij}` of class i against class j. Class probabilities are those
    that agree best with all of them,

    .. math:: \min_p \sum_i\sum_{j \ne i}(r_{ji}p_i - r_{ij}p_j)^2, \quad \sum_i p_i = 1.

    The unknown score is one minus the largest probability, from 0 to :math:`1 - 1/K`. The probabilities of the known
    classes add up to one, as if there were no others: an unknown sample is noticed only if several classes are
    similarly probable.

    If a class has one sample, or if a sigmoid would decrease with the decision value, the sigmoid is fitted to the
    decision values of the training samples. The number of machines grows with the square of the number of classes.

    Parameters
    ----------
    C : float, optional
        The cost of errors. None: chosen together with γ by how well the probabilities, with the same sigmoid for every
        pair, classify held-out samples and reject classes left out in turn
        (:class:`srosr.rivals.kernel_machines.KernelMachineClassifier`).
    gamma : float or "scale", optional
        γ of the kernel; "scale" is one over the total variance of the samples. None: chosen.
    openness : float, default 0.0
        Expected openness, for ``threshold="original"``; with 0 that rejects nothing, and warns.
    threshold : float or {"risk", "f", "youden", "original"}, optional
        Threshold on the unknown score. "original" is one minus half the openness, the usual choice in open set
        comparisons.
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
    >>> from srosr import PairwiseSVM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (40, 2)) for center in (0.0, 4.0)])
    >>> clf = PairwiseSVM(random_state=0).fit(X, np.repeat(["a", "b"], 40))
    >>> clf.predict([[0.0, 0.0], [4.0, 4.0], [2.0, 2.0]]).tolist()
    ['a', 'b', 'unknown']
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    model_type: ClassVar[type[Model]] = PairMachines

    def _fit_roughly(
        self, kernel: Array, members: IntArray, tuned: Tuned, inputs: Array, rows: IntArray
    ) -> KernelMachines:
        machine = SVC(C=tuned["C"], kernel="precomputed").fit(kernel, members)
        weights, intercepts = extract_pair_weights(machine, members)
        slopes, offsets = np.full(len(weights), ROUGH_SLOPE), np.zeros(len(weights))
        return PairMachines(weights, intercepts, tuned["gamma"], slopes, offsets, int(members.max()) + 1)

    def _fit_machines(
        self, kernel: Array, members: IntArray, tuned: Tuned, inputs: Array, rows: IntArray
    ) -> KernelMachines:
        n_classes = int(members.max()) + 1
        first, second = np.triu_indices(n_classes, 1)
        is_first = members[:, None] == first
        counts = is_first | (members[:, None] == second)
        weights, intercepts = extract_pair_weights(
            SVC(C=tuned["C"], kernel="precomputed").fit(kernel, members), members
        )
        held_out, decisions = np.zeros(len(members), np.bool_), np.empty(is_first.shape)
        for test in find_folds(members, np.random.RandomState(0), N_FOLDS):
            train = np.delete(np.arange(len(members)), test)
            machine = SVC(C=tuned["C"], kernel="precomputed").fit(kernel[np.ix_(train, train)], members[train])
            elsewhere, offset = extract_pair_weights(machine, members[train])
            decisions[test] = kernel[np.ix_(test, train)] @ elsewhere.T + offset
            held_out[test] = True
        slopes, offsets = fit_sigmoids(decisions, is_first, counts & held_out[:, None])
        lonely = np.bincount(members) == 1
        again = lonely[first] | lonely[second] | (slopes >= 0)
        if again.any():
            inside = kernel @ weights[again].T + intercepts[again]
            slopes[again], offsets[again] = fit_sigmoids(inside, is_first[:, again], counts[:, again])
        return PairMachines(weights, intercepts, tuned["gamma"], slopes, offsets, n_classes)

"""OpenMax on feature vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.parameter_checks import check_count
from ..exceptions import TailWarning, warn
from ..tails.weibull import MIN_VALUES, Weibull, fit_weibull
from .cross_fitted import Learned, Model, Tuned
from .distances import squared_distances
from .max_logit import LogisticClassifier, Logits, fit_logistic

# The scale of a tail without samples, small enough for a model file.
_ENDLESS = 1e99


@dataclass(frozen=True, eq=False)
class RevisedActivations(Logits):
    """Logistic regression, class means, a Weibull distribution of distances for each class, and α."""

    shapes: ClassVar = Logits.shapes | {"means": ("classes", "columns"), "shape": ("classes",), "scale": ("classes",)}

    means: Array
    shape: Array
    scale: Array
    alpha: int

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        activations = self.compute_logits(inputs)
        outside = Weibull(self.shape, self.scale).cdf(np.sqrt(squared_distances(inputs, self.means)))
        n_classes = activations.shape[1]
        alpha = min(self.alpha, n_classes)
        rank = np.empty(activations.shape, np.int64)
        np.put_along_axis(rank, np.argsort(-activations, axis=1, kind="stable"), np.arange(n_classes)[None, :], axis=1)
        moved = np.maximum(activations, 0.0) * (np.maximum(alpha - rank, 0) / alpha) * outside
        revised = activations - moved
        return revised.argmax(axis=1), moved.sum(axis=1) - revised.max(axis=1), revised

    def is_sound(self, n_classes: int) -> bool:
        positive = bool((self.shape > 0).all() and (self.scale > 0).all())
        return positive and isinstance(self.alpha, int) and self.alpha >= 1


@dataclass(eq=False, repr=False, kw_only=True)
class OpenMax(LogisticClassifier):
    r"""OpenMax on feature vectors.

    Multinomial logistic regression gives each class an activation :math:`v_c(x)`, its logit. The class means
    :math:`\mu_c` of the correctly classified training samples (of all samples of a class if there are none) and a
    Weibull distribution of the ``tail_size`` largest distances to the mean of a class measure how far outside a class a
    sample lies: :math:`w_c(x) = F_c(\|x - \mu_c\|)`. The activations of the :math:`\alpha` strongest classes are
    revised, and the amounts taken from them add up to the activation of the unknown class,

    .. math:: \hat v_c = v_c - \frac{\alpha - r_c}{\alpha}w_c\,v_c^+, \qquad
              \hat v_0 = \sum_c \frac{\alpha - r_c}{\alpha}w_c\,v_c^+,

    with :math:`r_c = 0, 1, \dots` the rank of the class (weights :math:`1, 1 - 1/\alpha, \dots`, as in the authors'
    program; the paper's text has them one rank lower) and no negative weights. Softmax of these is the probability
    :math:`P_c` of each class and :math:`P_0` of none. The candidate is the known class with the largest
    :math:`\hat v_c`, which are the ``class_scores``; the unknown score is :math:`\hat v_0 - \max_c\hat v_c =
    \log(P_0/\max_c P_c)`, any number. The paper rejects a sample if the unknown class is the most probable one, that
    is, above zero: ``threshold="original"``. The method assumes that a class is a ball in feature space, and that the
    scale of the logits suits a softmax.

    Parameters
    ----------
    tail_size : int, default 20
        How many of the largest distances of a class are fitted; all if there are fewer. About half of a tail is
        rejected by "original", which suits the paper's classes of a thousand samples. A class with fewer than three
        samples (correctly classified, and not equal to the mean) takes the tail of the distances of all classes; if
        those are all zero nothing is revised, and the score is minus the largest logit.
    alpha : int, default 10
        How many classes are revised; all if there are fewer.
    C : float, optional
        Inverse penalty of the logistic regression, as for :class:`MaxLogit`.
    threshold : float or {"risk", "f", "youden", "original"}, optional
        Threshold on the unknown score.
    normalize, cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.
    tuned_ : dict
        The C that was chosen or given.

    Warns
    -----
    TailWarning
        If classes have too few samples for a tail of their own.

    Notes
    -----
    :math:`w_c` is the distribution function, as in the authors' program; the formula printed in the paper has
    :math:`\exp(-(\cdot)^\kappa)` instead, which would revise the nearest classes most. Three choices differ from the
    program. Negative activations are left as they are (:math:`v^+ = \max(v, 0)`): the plain formula would raise them,
    that is, make a class more probable the farther the sample is from it. (In a deep network with a thousand classes
    the ten strongest activations are positive, and there is no difference.) Distances are Euclidean distances of
    features, while the program mixes Euclidean and cosine distances of activations. And the Weibull distribution is
    fitted to distances, while the program fits distances :math:`+ 1 -` the smallest, so that its result depends on
    their unit.

    References
    ----------
    A. Bendale, T. E. Boult, "Towards open set deep networks", CVPR 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import OpenMax
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((60, 2)) + np.repeat([[-4, 0], [4, 0]], 30, axis=0), np.repeat(["a", "b"], 30)
    >>> clf = OpenMax(C=1.0, threshold="original").fit(X, y)
    >>> clf.predict([[-4.0, 0.0], [4.0, 0.0], [40.0, 0.0]]).tolist()
    ['a', 'b', 'unknown']
    """

    model_type: ClassVar[type[Model]] = RevisedActivations
    _checks: ClassVar = {"tail_size": check_count, "alpha": check_count}

    tail_size: int = field(default=20, kw_only=False)
    alpha: int = 10
    C: float | None = None

    def _original_threshold(self) -> float:
        return 0.0

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        X = inputs[rows]
        W, b = fit_logistic(X, members, tuned["C"])
        right = (X @ W.T + b).argmax(axis=1) == members
        means, distances = [], []
        for c in range(len(b)):
            own = members == c
            own &= right if (own & right).any() else True
            means.append(X[own].mean(axis=0))
            distances.append(np.linalg.norm(X[own] - means[-1], axis=1))
        shape, scale = fit_distance_tails(distances, int(self.tail_size), float(np.abs(X).max()))
        return RevisedActivations(W, b, np.stack(means), shape, scale, int(self.alpha)), None


def fit_distance_tails(distances: list[Array], tail_size: int, largest: float) -> tuple[Array, Array]:
    """Fit Weibull distributions to the largest distances of each class from its mean; return shapes and scales.

    Distances below the rounding error of the largest feature count as zero.
    """
    distances = [d[d > 1e-14 * largest] for d in distances]
    short = [c for c, d in enumerate(distances) if len(d) < MIN_VALUES]
    together = np.concatenate(distances)
    if short:
        borrowed = (
            "the tail of all classes" if len(together) else "no tail, and OpenMax is a threshold on the largest logit"
        )
        warn(
            f"{len(short)} of {len(distances)} classes have fewer than {MIN_VALUES} correctly classified samples "
            f"that differ from their mean, too few for a tail: they use {borrowed}.",
            TailWarning,
        )
    shape, scale = np.empty(len(distances)), np.empty(len(distances))
    for c, own in enumerate(distances):
        tail = np.sort(together if c in short else own)[-tail_size:]
        fit = fit_weibull(tail) if len(tail) else Weibull(np.ones(()), np.full((), _ENDLESS))
        shape[c], scale[c] = fit.shape, fit.scale
    return shape, scale

"""The generalized entropy of the class probabilities as the unknown score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.parameter_checks import check_count, check_rate
from .cross_fitted import Learned, Model, Tuned
from .max_logit import LogisticClassifier, Logits, fit_logistic


@dataclass(frozen=True, eq=False)
class Entropy(Logits):
    """Logistic regression, the exponent γ and the number M of classes that count."""

    gamma: float
    n_top: int

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        logits = self.compute_logits(inputs)
        falling = -np.sort(-logits, axis=1)
        total = self.compute_energy(falling)
        log_p = falling[:, : self.n_top] - total[:, None]
        log_rest = np.log1p(-np.exp(np.minimum(log_p, np.log(0.5))))
        # The largest probability may be one to the last digit: what is left for the others comes from their logits.
        log_rest[:, 0] = self.compute_energy(falling[:, 1:]) - total
        return logits.argmax(axis=1), np.exp(self.gamma * (log_p + log_rest)).sum(axis=1), logits

    def is_sound(self, n_classes: int) -> bool:
        return 0 < self.gamma < 1 and isinstance(self.n_top, int) and self.n_top >= 1


@dataclass(eq=False, repr=False, kw_only=True)
class GEN(LogisticClassifier):
    r"""Generalized entropy of the class probabilities (GEN).

    With the probabilities :math:`p = \operatorname{softmax}(Wx + b)` of multinomial logistic regression, the unknown
    score is

    .. math:: \sum_{c \in T} p_c^\gamma\,(1 - p_c)^\gamma, \qquad 0 < \gamma < 1,

    T the M classes of the largest probabilities, and the candidate is the most probable class. The small exponent
    magnifies small deviations from certainty. The method needs probabilities alone, nothing of the features; it assumes
    that unknown samples lie between classes. Far out on the side of one class a sample is certain, and accepted.

    Parameters
    ----------
    gamma : float, default 0.1
        γ, between 0 and 1. The paper's value.
    n_top : int, default 100
        M; all classes if there are fewer. The paper's value for a thousand classes, whose many tiny probabilities are
        noise.
    C : float, optional
        Inverse penalty of the logistic regression, as for :class:`MaxLogit`.
    threshold : float or {"risk", "f", "youden"}, optional
        Threshold on the unknown score, at least 0; the paper has none of its own.
    normalize, cv, target_rejection, per_class, risk_weight, unknown_label, random_state :
        As for :class:`srosr.rivals.cross_fitted.CrossFittedClassifier`.

    Attributes
    ----------
    classes_, unknown_label_, threshold_, thresholds_, threshold_info_, n_features_in_ :
        As for every open set classifier.
    tuned_ : dict
        The C that was chosen or given.

    References
    ----------
    X. Liu, Y. Lochman, C. Zach, "GEN: pushing the limits of softmax-based out-of-distribution detection", CVPR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import GEN
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), ["a", "a", "b", "b"]
    >>> clf = GEN(C=1.0, threshold=1.7).fit(X, y)
    >>> clf.predict([[-2.0], [0.1], [2.0]]).tolist(), clf.unknown_score([[0.0]]).round(3).tolist()
    (['a', 'unknown', 'b'], [1.741])
    """

    score_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    model_type: ClassVar[type[Model]] = Entropy
    _checks: ClassVar = {"gamma": check_rate, "n_top": check_count}

    gamma: float = field(default=0.1, kw_only=False)
    n_top: int = 100
    C: float | None = None

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        W, b = fit_logistic(inputs[rows], members, tuned["C"])
        return Entropy(W, b, float(self.gamma), int(self.n_top)), None

"""The largest logit of a linear classifier as the score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from .._support.array_types import Array, IntArray
from .cross_fitted import Learned, Model, Tuned
from .logistic import LogisticClassifier, Logits, fit_logistic


@dataclass(eq=False, repr=False, kw_only=True)
class MaxLogit(LogisticClassifier):
    r"""Multinomial logistic regression with a threshold on the largest logit.

    The unknown score is :math:`-\max_c z_c(x)` with the logits :math:`z(x) = Wx + b`, and the candidate is the class of
    the maximum. Unlike the largest probability, the largest logit still measures how much evidence there is for a class
    once it is clear which one it is. The method assumes that unknown samples have small logits for all classes; a logit
    grows without bound along its weights, so an unknown sample far out on the side of one class is accepted. Two
    classes have :math:`z = \pm f/2`, f the log odds.

    Parameters
    ----------
    C : float, optional
        Inverse strength of the penalty on W, as in scikit-learn's ``LogisticRegression``. Its best value depends on the
        scale of the features; the values tried suit samples of length about one (``normalize=True``). None: the best of
        0.1, 1, 10 and 100 in 3-fold cross-validation on known samples.
    threshold : float or {"risk", "f", "youden"}, optional
        Threshold on the unknown score, any number.
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
    S. Vaze, K. Han, A. Vedaldi, A. Zisserman, "Open-set recognition: a good closed-set classifier is all you need?",
    ICLR 2022.

    D. Hendrycks et al., "Scaling out-of-distribution detection for real-world settings", ICML 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.rivals import MaxLogit
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), ["a", "a", "b", "b"]
    >>> clf = MaxLogit(C=1.0, threshold=-0.5).fit(X, y)
    >>> clf.predict([[-2.0], [0.5], [2.0]]).tolist()
    ['a', 'unknown', 'b']
    """

    model_type: ClassVar[type[Model]] = Logits

    C: float | None = field(default=None, kw_only=False)

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        return Logits(*fit_logistic(inputs[rows], members, tuned["C"])), None

"""The energy of the logits, guided by the nearest training samples, as the unknown score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.parameter_checks import check_count
from ..dictionary.dictionary import normalize_rows
from .cross_fitted import Learned, Model, Tuned
from .max_logit import LogisticClassifier, Logits, fit_logistic

# Similarities held at once.
_PAIRS = 2**24


@dataclass(frozen=True, eq=False)
class GuidedEnergy(Logits):
    """Logistic regression, training samples of unit length with their energies, and k."""

    shapes: ClassVar = Logits.shapes | {"bank": (-1, "columns"), "energies": (-1,)}

    bank: Array
    energies: Array
    n_neighbors: int

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        logits = self.compute_logits(inputs)
        step = max(1, _PAIRS // len(self.bank))
        guidance = [self.guide(inputs[start : start + step]) for start in range(0, len(inputs), step)]
        return logits.argmax(axis=1), -self.compute_energy(logits) * np.concatenate(guidance), logits

    def guide(self, inputs: Array) -> Array:
        """Return the mean of the k largest similarities to training samples, weighted by their energies."""
        similarities = normalize_rows(inputs) @ self.bank.T * self.energies
        k = min(self.n_neighbors, len(self.bank))
        return np.partition(similarities, -k, axis=1)[:, -k:].mean(axis=1)

    def is_sound(self, n_classes: int) -> bool:
        as_many = len(self.bank) == len(self.energies) > 0
        return as_many and isinstance(self.n_neighbors, int) and self.n_neighbors >= 1


@dataclass(eq=False, repr=False, kw_only=True)
class NNGuide(LogisticClassifier):
    r"""Energy of the logits, guided by the nearest training samples (NNGuide).

    Multinomial logistic regression has the logits :math:`z(x) = Wx + b` and the energy :math:`E(x) =
    \log\sum_c e^{z_c(x)}`. The unknown score is

    .. math:: -E(x)\,\frac1k\sum_{i \in N_k(x)} E(x_i)\cos(x, x_i),

    :math:`N_k` the training samples with the k largest :math:`E(x_i)\cos(x, x_i)`, and the candidate is the class of
    the largest logit. A logit grows without bound along its weights; the second factor, which is large only near
    training samples that are recognized with confidence, takes back what it says far from all of them. The method
    assumes that the direction of a sample says more than its length, as for embeddings.

    Parameters
    ----------
    n_neighbors : int, default 10
        k, as in the authors' program; all training samples if there are fewer. The paper keeps a share of a million
        training samples, the model here all of them.
    C : float, optional
        Inverse penalty of the logistic regression, as for :class:`MaxLogit`.
    threshold : float or {"risk", "f", "youden"}, optional
        Threshold on the unknown score, any number; the paper has none of its own.
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
    J. Park, Y. G. Jung, A. B. J. Teoh, "Nearest neighbor guidance for out-of-distribution detection", ICCV 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import NNGuide
    >>> X, y = np.array([[2.0, 0.0], [1.0, 0.1], [0.0, 2.0], [0.1, 1.0]]), ["a", "a", "b", "b"]
    >>> clf = NNGuide(n_neighbors=2, C=1.0, threshold=-0.9).fit(X, y)
    >>> clf.predict([[2.0, 0.1], [1.0, 1.0], [0.0, 1.5]]).tolist()
    ['a', 'unknown', 'b']
    """

    model_type: ClassVar[type[Model]] = GuidedEnergy
    _checks: ClassVar = {"n_neighbors": check_count}

    n_neighbors: int = field(default=10, kw_only=False)
    C: float | None = None

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        X = inputs[rows]
        W, b = fit_logistic(X, members, tuned["C"])
        energies = Logits.compute_energy(X @ W.T + b)
        return GuidedEnergy(W, b, normalize_rows(X), energies, int(self.n_neighbors)), None

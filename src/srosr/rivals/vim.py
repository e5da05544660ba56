"""The energy of the logits, less a virtual logit from the distance to the principal subspace, as the unknown score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.parameter_checks import check_count, check_positive
from .cross_fitted import N_FOLDS, Learned, Model, Tuned, find_folds
from .distances import decompose_covariance
from .max_logit import LogisticClassifier, Logits, fit_logistic

#: Dimensions of the principal subspace in the paper, by the least number of features; half of the features below.
PAPER_DIMENSIONS = {2048: 1000, 768: 512}
# Singular values of W below this share of the largest are zero.
_RELATIVE_ZERO = 1e-9


@dataclass(frozen=True, eq=False)
class VirtualLogit(Logits):
    """Logistic regression, the origin, rows that span the principal subspace (and their number), and α."""

    shapes: ClassVar = Logits.shapes | {"origin": ("columns",), "directions": (-1, "columns")}

    origin: Array
    directions: Array
    n_components: int
    alpha: float

    def measure_residuals(self, inputs: Array) -> Array:
        """Return distances of samples from the principal subspace through the origin."""
        Z = inputs - self.origin
        return np.linalg.norm(Z - (Z @ self.directions.T) @ self.directions, axis=1)

    def predict_raw(self, inputs: Array) -> tuple[IntArray, Array, Array]:
        logits = self.compute_logits(inputs)
        scores = self.alpha * self.measure_residuals(inputs) - self.compute_energy(logits)
        return logits.argmax(axis=1), scores, logits

    def is_sound(self, n_classes: int) -> bool:
        return self.n_components == len(self.directions) and self.alpha >= 0


@dataclass(eq=False, repr=False, kw_only=True)
class ViM(LogisticClassifier):
    r"""Virtual-logit matching (ViM).

    Multinomial logistic regression has the logits :math:`z(x) = Wx + b`. Seen from the origin :math:`u = -W^+b`, where
    all logits are zero, the D principal directions of the training samples (eigenvectors of :math:`\sum_i (x_i -
    u)(x_i - u)^\top`) span the principal subspace; with :math:`R(x)` the distance of :math:`x - u` from it, the unknown
    score is

    .. math:: \alpha R(x) - \log\sum_c e^{z_c(x)},

    and the candidate is the class of the largest logit. :math:`\alpha R` is the logit of a virtual class of everything
    that known samples do not have, and the score is the log odds of that class. The method assumes that known samples
    lie near a subspace of few dimensions and that unknown ones leave it or have small logits.

    The paper's D is 1000 for at least 2048 features, 512 for at least 768, and half of the features otherwise; here D
    is also at most half of the rank of the samples, because few samples of many features have no residual in their own
    span. :math:`\alpha` makes the mean of :math:`\alpha R` equal to that of the largest logit, in the paper over
    training samples. Few training samples lie much nearer to their principal subspace than new ones; here the means are
    over held-out samples in three folds (over the training samples if none can be held out).

    Parameters
    ----------
    n_components : int, optional
        D; at most the rank of the samples minus one. None: see above.
    alpha : float, optional
        Weight of the residual, at least 0. None: see above.
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
        The C and the α that were chosen or given.

    References
    ----------
    H. Wang, Z. Li, L. Feng, W. Zhang, "ViM: out-of-distribution with virtual-logit matching", CVPR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import ViM
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[-3.0, 0.0, 0.0], [3.0, 0.0, 0.0]], 20, axis=0) + rng.normal(size=(40, 3)) * [1.0, 0.1, 0.1]
    >>> clf = ViM(C=1.0, random_state=0).fit(X, np.repeat(["a", "b"], 20))
    >>> clf.predict([[-3.0, 0.0, 0.0], [3.0, 0.0, 0.0], [3.0, 2.0, 0.0]]).tolist()
    ['a', 'b', 'unknown']
    """

    model_type: ClassVar[type[Model]] = VirtualLogit
    _checks: ClassVar = {
        "n_components": partial(check_count, none=True),
        "alpha": lambda name, value: value is None or check_positive(name, value, zero=True),
    }

    n_components: int | None = field(default=None, kw_only=False)
    alpha: float | None = None
    C: float | None = None

    def _choose_parameters(self, inputs: Array, members: IntArray, rng: Any) -> Tuned:
        tuned = super()._choose_parameters(inputs, members, rng)
        if self.alpha is not None:
            return tuned | {"alpha": float(self.alpha)}
        parts = list(self._measure_held_out(inputs, members, tuned["C"], rng))
        largest, residuals = (np.concatenate(part).mean() for part in zip(*parts, strict=True))
        return tuned | {"alpha": float(largest / residuals) if residuals > 0 else 0.0}

    def _measure_held_out(self, X: Array, members: IntArray, C: float, rng: Any) -> Iterator[tuple[Array, Array]]:
        """Yield largest logits and residuals of held-out samples; of the training samples if none can be held out."""
        everything = np.arange(len(X))
        folds = list(find_folds(members, rng, N_FOLDS))
        for test in folds or [everything]:
            train = np.delete(everything, test) if folds else everything
            model = self._fit_subspace(X[train], members[train], C, 0.0)
            yield model.compute_logits(X[test]).max(axis=1), model.measure_residuals(X[test])

    def _learn(self, inputs: Array, rows: IntArray, members: IntArray, tuned: Tuned) -> Learned:
        return self._fit_subspace(inputs[rows], members, tuned["C"], tuned["alpha"]), None

    def _fit_subspace(self, X: Array, members: IntArray, C: float, alpha: float) -> VirtualLogit:
        W, b = fit_logistic(X, members, C)
        # The rows of W add up to zero, so that W has a singular value that is zero but for rounding.
        origin = -np.linalg.pinv(W, rcond=_RELATIVE_ZERO) @ b
        directions, variances = decompose_covariance(X - origin)
        rank = int(np.sum(variances > np.finfo(float).eps * max(X.shape) * variances.max()))
        if self.n_components is None:
            n_features = X.shape[1]
            paper = next((D for least, D in PAPER_DIMENSIONS.items() if n_features >= least), n_features // 2)
            n_components = min(paper, rank // 2)
        else:
            n_components = min(int(self.n_components), max(rank - 1, 0))
        leading = directions[len(directions) - n_components :]
        return VirtualLogit(W, b, origin, leading, n_components, alpha)

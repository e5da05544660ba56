r"""The weights of the fused class score, learned on held-out samples.

They are those of a multinomial logistic regression with one weight :math:`w_j \ge 0` for each kind of class score,

.. math:: \min_{w \ge 0}\ \text{mean}_i\Bigl(\log\sum_k e^{F_k(y_i)} - F_{t_i}(y_i)\Bigr) + \gamma\|w - w_0\|^2, \qquad
   F_k(y) = \sum_j w_j\frac{s_{jk}(y)}{\sigma_j},

:math:`t_i` being the class of the held-out sample :math:`y_i`. With as many weights as kinds, whatever the number of
classes and features, there is little to overfit. The weights shrink toward a prior, the more the fewer samples there
are (:math:`\gamma` is inversely proportional to their number), and the residual always counts a little, so that the
score never vanishes. The prior favors three kinds that differ even with one sample of each class, where subspaces,
Gaussian classes and neighbors are all the same: equal weights would count that one view three times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from .._support.array_types import Array, IntArray
from ..evidence.table import ClassFusion

#: How strongly the weights shrink toward the prior, over the number of samples.
SHRINKAGE = 0.5
#: The prior weights of the kinds that the prior favors, and of the others.
FAVORED = ("residual", "collaborative", "standardized")
FAVORED_PRIOR, PRIOR = 0.5, 0.05
#: The least weight of the residual.
LEAST = 0.05
#: Samples × classes × kinds to which the weights are fitted, at most: half a gibibyte.
MOST_NUMBERS = 2**26


def fit_class_fusion(
    kinds: Sequence[str], scores: Sequence[dict[str, Array]], truth: Sequence[IntArray] | None
) -> ClassFusion:
    """Learn the fused class score.

    Parameters
    ----------
    kinds : sequence of str
    scores : sequence of dict
        Class scores by kind of batches of held-out samples, each (n_samples, n_classes).
    truth : sequence of ndarray of int or None
        The columns of their classes. None where there are none (simulated unknowns): the weights are then the prior.
    """
    scale = np.array([_measure_spread([batch[kind] for batch in scores]) for kind in kinds])
    prior = np.array([FAVORED_PRIOR if kind in FAVORED else PRIOR for kind in kinds])
    if truth is None:
        return ClassFusion(tuple(kinds), scale, prior)
    least = np.array([LEAST if kind == "residual" else 0.0 for kind in kinds])
    return ClassFusion(tuple(kinds), scale, _fit_multinomial(_stack(kinds, scores, truth, scale), prior, least))


def _stack(kinds: Sequence[str], scores: Sequence[dict[str, Array]], truth: Sequence[IntArray], scale: Array) -> Array:
    """Return the scaled differences between the scores of each class and the own one, (n_samples, n_classes, n_kinds).

    Only differences between classes count: with those to the own class, a sample adds log(sum(exp(D w))). Where the
    array would be very large it has evenly spaced samples of every batch.
    """
    n_classes = scores[0][kinds[0]].shape[1]
    step = max(1, -(-sum(map(len, truth)) * n_classes * len(kinds) // MOST_NUMBERS))
    own = [classes[::step] for classes in truth]
    out = np.empty((sum(map(len, own)), n_classes, len(kinds)))
    start = 0
    for batch, classes in zip(scores, own, strict=True):
        part = out[start : start + len(classes)]
        for j, kind in enumerate(kinds):
            np.divide(batch[kind][::step], scale[j], out=part[:, :, j])
        part -= part[np.arange(len(part)), classes][:, None]
        start += len(part)
    return out


def _measure_spread(batches: list[Array]) -> float:
    """Return the root mean square difference of scores from their mean over the classes; 1 if they do not differ."""
    squares = sum(float(np.sum((s - s.mean(axis=1, keepdims=True)) ** 2)) for s in batches)
    spread = float(np.sqrt(squares / max(sum(s.size for s in batches), 1)))
    largest = max((float(np.abs(s).max()) for s in batches if s.size), default=0.0)
    return spread if spread > 1e-9 * largest else 1.0


def _fit_multinomial(differences: Array, prior: Array, least: Array) -> Array:
    """Fit the weights to score differences to the own class, (n_samples, n_classes, n_kinds)."""
    n = len(differences)
    shrinkage = SHRINKAGE / n

    def loss(w: Array) -> tuple[float, Array]:
        margins = differences @ w
        logs = logsumexp(margins, axis=1)
        shares = np.exp(margins - logs[:, None])
        drift = w - prior
        gradient = np.einsum("ik,ikj->j", shares, differences, optimize=True) / n
        return float(logs.mean() + shrinkage * drift @ drift), gradient + 2.0 * shrinkage * drift

    return minimize(loss, prior, jac=True, method="L-BFGS-B", bounds=[(low, None) for low in least]).x

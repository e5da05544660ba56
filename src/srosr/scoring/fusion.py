r"""The fused score: all evidence in one number, weighted by how well it separates unknown from known samples.

Every kind of evidence is standardized on known samples, with the sign that makes large values suggest an unknown
sample. The weights are those of a logistic regression between known samples and simulated unknowns,

.. math:: s(y) = \sum_j b_j \frac{e_j(y) - m_j}{s_j}, \qquad
   \min_{b \ge 0,\, c}\ \text{mean log-loss}(b, c) + \gamma\|b - b_0\|^2,

both sides having the same total weight. No weight is negative: evidence may count less, never against its meaning. The
weights shrink toward a prior :math:`b_0`, because real unknowns may differ from the known classes in another way than
classes that were left out do. The prior favors one kind of each family of evidence; it is all there is where nothing
can be learned, with two classes or one sample of each.

How strongly they shrink is cross-validated over classes: weights are learned without some of the classes that were left
out, and the ranking of these as unknown is measured (the area under the ROC curve, a class at a time). Of the
strengths :math:`\gamma` the largest is taken that is within half a standard error of the best: with few classes, or
classes that disagree, little is known and the prior counts for more. (A whole standard error, as is usual, gave up more
on data sets whose simulated unknowns are like the real ones than it gained on the others.) Centering the score on each
class lowered accuracy on every data set of the design.

References
----------
L. Breiman, J. H. Friedman, R. A. Olshen, C. J. Stone, "Classification and regression trees", 1984, section 3.4.3 (the
rule of the standard error).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from .._support.array_types import Array, IntArray
from ..evidence.table import DIRECTION, EVIDENCE, ClassFusion

#: How strongly weights may shrink toward the prior, and how many standard errors below the best a stronger one may be.
STRENGTHS = (0.25, 0.05, 0.01, 0.002)
STANDARD_ERRORS = 0.5
#: Folds of classes by which the strength is chosen.
N_FOLDS = 5
#: The prior weights of the kinds of evidence that the prior favors, and of the others.
FAVORED = ("matched", "collaborative", "subspace", "standardized", "fused")
FAVORED_PRIOR, PRIOR = 0.3, 0.03
#: How strongly the weights of class scores shrink toward the prior, over the number of samples.
CLASS_SHRINKAGE = 0.5
#: The prior weights of the class scores that the prior favors, and of the others.
FAVORED_CLASS_SCORES = ("residual", "collaborative", "standardized")
FAVORED_CLASS_PRIOR, CLASS_PRIOR = 0.5, 0.05
#: The least weight of the residual.
LEAST_RESIDUAL = 0.05
#: Samples × classes × kinds to which the weights are fitted, at most: half a gibibyte.
MOST_NUMBERS = 2**26
_SIGNS = np.array([DIRECTION[name] for name in EVIDENCE])


@dataclass(frozen=True, eq=False)
class Fusion:
    """Weights and scales of the evidence, one for each column of an evidence table.

    Attributes
    ----------
    mean, scale : ndarray (n_kinds,)
        Mean and standard deviation of each kind of evidence over held-out known samples, with the sign that makes large
        values suggest an unknown sample.
    weights : ndarray (n_kinds,)
        Not negative; 0 for kinds that are not used.
    errors : ndarray (n_kinds,) or None
        Standard errors of the weights with their shrinkage given, 0 for weights of 0; None where none was learned.
    """

    mean: Array
    scale: Array
    weights: Array
    errors: Array | None = None

    def standardize(self, values: Array) -> Array:
        """Return evidence in standard deviations of known samples; large values suggest an unknown sample."""
        return (values * _SIGNS - self.mean) / self.scale

    def contributions(self, values: Array) -> Array:
        """Return the contribution of each kind of evidence to the score, (n_samples, n_kinds)."""
        return self.standardize(values) * self.weights

    def score(self, values: Array) -> Array:
        """Compute the fused score; large values suggest an unknown sample."""
        return self.standardize(values) @ self.weights


def find_prior(names: Sequence[str]) -> Array:
    """Return the prior weights of the columns of an evidence table of which only ``names`` are used.

    They are equal where none of the favored kinds is among them.
    """
    favored = FAVORED_PRIOR if set(names) & set(FAVORED) else 0.0
    weights = {name: favored if name in FAVORED else PRIOR for name in names}
    return np.array([weights.get(name, 0.0) for name in EVIDENCE])


def _measure_moments(values: Array) -> tuple[Array, Array]:
    signed = values * _SIGNS
    mean, scale = signed.mean(axis=0), signed.std(axis=0)
    # Evidence that varies by rounding only carries no information: it keeps its own units.
    return mean, np.where(scale > 1e-6 * (1.0 + np.abs(mean)), scale, 1.0)


def fit_fusion(
    known: Array, simulated: Array, unknown: Any, truth: IntArray, names: Sequence[str], samples: IntArray | None = None
) -> tuple[Fusion, Fusion]:
    """Learn the fused score of samples coded over all classes, and of those coded with classes left out.

    ``known`` is the evidence of held-out known samples over all classes, ``simulated`` that of samples with classes
    left out, of which ``unknown`` tells the simulated unknowns and ``truth`` the classes; each may be empty. Of the
    evidence ``names`` are used. Rows of the same sample (``samples`` numbers them) are not independent, which the
    standard errors of the weights take into account. The weights of both are the same. Where there is no held-out known
    sample the scales come from the simulated unknowns.
    """
    prior = find_prior(names)
    unknown = np.asarray(unknown, dtype=bool)
    mean, scale = _measure_moments(known if len(known) else simulated)
    ordinary = simulated[~unknown]
    if not len(known) or not len(ordinary) or not unknown.any():
        fusion = Fusion(mean, scale, prior)
        return fusion, fusion
    simulated_scale = Fusion(*_measure_moments(ordinary), prior)
    used = np.isin(EVIDENCE, names)
    weights = np.zeros(len(EVIDENCE))
    standardized = simulated_scale.standardize(simulated)[:, used]
    strength = choose_strength(standardized, unknown, truth, prior[used])
    fitted = _fit_logistic(standardized, unknown, prior[used], strength)
    errors = np.zeros(len(EVIDENCE))
    weights[used] = fitted[:-1]
    errors[used] = _measure_errors(standardized, unknown, fitted, strength, samples)
    return Fusion(mean, scale, weights, errors), Fusion(simulated_scale.mean, simulated_scale.scale, weights, errors)


def choose_strength(Z: Array, unknown: Any, truth: IntArray, prior: Array) -> float:
    """Choose how strongly weights shrink toward the prior, by learning them without some of the left-out classes.

    ``Z`` is standardized evidence of known samples and simulated unknowns, ``truth`` their classes.
    """
    classes = np.unique(truth[unknown])
    # Evenly spread over the classes, so that nothing depends on their order beyond its being fixed.
    folds = [classes[i :: min(N_FOLDS, len(classes))] for i in range(min(N_FOLDS, len(classes)))]
    areas = []
    for fold in folds if len(folds) > 1 else []:
        rest = ~np.isin(truth, fold)
        if not unknown[rest].any() or unknown[rest].all():
            continue
        path: list[Array] = []
        for strength in STRENGTHS:
            start = path[-1] if path else prior
            path.append(_fit_logistic(Z[rest], unknown[rest], prior, strength, start)[:-1])
        scores = Z @ np.transpose(path)
        ordinary = np.sort(scores[~unknown], axis=0)
        areas += [_measure_areas(scores[unknown & (truth == k)], ordinary) for k in fold]
    if len(areas) < 2:
        return STRENGTHS[0]
    mean, best = np.mean(areas, axis=0), int(np.mean(areas, axis=0).argmax())
    error = float(np.std([area[best] for area in areas], ddof=1)) / np.sqrt(len(areas))
    return STRENGTHS[int(np.flatnonzero(mean >= mean[best] - STANDARD_ERRORS * error)[0])]


def _measure_areas(unknown: Array, ordinary: Array) -> Array:
    """Return the area under the ROC curve of each column; ``ordinary`` are scores of known samples, sorted."""
    out = np.empty(unknown.shape[1])
    for i, (mine, others) in enumerate(zip(unknown.T, ordinary.T, strict=True)):
        below = np.searchsorted(others, mine, side="left") + np.searchsorted(others, mine, side="right")
        out[i] = below.mean() / (2 * len(others))
    return out


def rescale_fusion(fusion: Fusion, known: Array) -> Fusion:
    """Return a fusion with the same weights and the scales of other known samples."""
    return Fusion(*_measure_moments(known), fusion.weights, fusion.errors)


def _fit_logistic(Z: Array, unknown: Any, prior: Array, shrinkage: float, start: Array | None = None) -> Array:
    """Fit a logistic regression with non-negative weights in which both sides have the same total weight.

    The intercept comes last.
    """
    y = unknown.astype(np.float64)
    weight = np.where(unknown, 0.5 / y.sum(), 0.5 / (1.0 - y).sum())

    def loss(b: Array) -> tuple[float, Array]:
        margin = Z @ b[:-1] + b[-1]
        drift = b[:-1] - prior
        error = weight * (expit(margin) - y)
        value = weight @ (np.logaddexp(0.0, margin) - y * margin) + shrinkage * drift @ drift
        return float(value), np.append(Z.T @ error + 2.0 * shrinkage * drift, error.sum())

    first = np.append(prior if start is None else start, 0.0)
    bounds = [(0.0, None)] * len(prior) + [(None, None)]
    return minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds).x


def _measure_errors(Z: Array, unknown: Any, fitted: Array, shrinkage: float, samples: IntArray | None) -> Array:
    """Return standard errors of the weights: of an estimate from independent samples, weights of 0 being fixed."""
    y = unknown.astype(np.float64)
    weight = np.where(unknown, 0.5 / y.sum(), 0.5 / (1.0 - y).sum())
    free = np.append(fitted[:-1] > 0, True)
    rows = np.column_stack([Z, np.ones(len(Z))])[:, free]
    share = expit(rows @ fitted[free])
    curvature = rows.T @ (rows * (weight * share * (1.0 - share))[:, None])
    curvature[np.diag_indices(len(curvature) - 1)] += 2.0 * shrinkage
    scores = rows * (weight * (share - y))[:, None]
    groups = np.arange(len(Z)) if samples is None else np.unique(samples, return_inverse=True)[1]
    summed = np.zeros((int(groups.max()) + 1, scores.shape[1]))
    np.add.at(summed, groups, scores)
    spread = np.linalg.lstsq(curvature, summed.T, rcond=None)[0]
    out = np.zeros(len(fitted))
    out[free] = np.sqrt(np.einsum("ij,ij->i", spread, spread))
    return out[:-1]


def fit_class_fusion(
    kinds: Sequence[str], scores: Sequence[dict[str, Array]], truth: Sequence[IntArray] | None
) -> ClassFusion:
    r"""Learn the fused class score on held-out samples.

    The weights are those of a multinomial logistic regression with one weight :math:`w_j \ge 0` for each kind of class
    score,

    .. math:: \min_{w \ge 0}\ \text{mean}_i\Bigl(\log\sum_k e^{F_k(y_i)} - F_{t_i}(y_i)\Bigr)
       + \gamma\|w - w_0\|^2, \qquad F_k(y) = \sum_j w_j\frac{s_{jk}(y)}{\sigma_j},

    :math:`t_i` being the class of the held-out sample :math:`y_i`. With as many weights as kinds, whatever the number
    of classes and features, there is little to overfit. The weights shrink toward a prior, the more the fewer samples
    there are (:math:`\gamma` is inversely proportional to their number), and the residual always counts a little, so
    that the score never vanishes. The prior favors three kinds that differ even with one sample of each class, where
    subspaces, Gaussian classes and neighbors are all the same: equal weights would count that one view three times.

    Parameters
    ----------
    kinds : sequence of str
    scores : sequence of dict
        Class scores by kind of batches of held-out samples, each (n_samples, n_classes).
    truth : sequence of ndarray of int or None
        The columns of their classes. None where there are none (simulated unknowns): the weights are then the prior.
    """
    scale = np.array([_measure_spread([batch[kind] for batch in scores]) for kind in kinds])
    prior = np.array([FAVORED_CLASS_PRIOR if kind in FAVORED_CLASS_SCORES else CLASS_PRIOR for kind in kinds])
    if truth is None:
        return ClassFusion(tuple(kinds), scale, prior)
    least = np.array([LEAST_RESIDUAL if kind == "residual" else 0.0 for kind in kinds])
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
    shrinkage = CLASS_SHRINKAGE / n

    def loss(w: Array) -> tuple[float, Array]:
        margins = differences @ w
        logs = logsumexp(margins, axis=1)
        shares = np.exp(margins - logs[:, None])
        drift = w - prior
        gradient = np.einsum("ik,ikj->j", shares, differences, optimize=True) / n
        return float(logs.mean() + shrinkage * drift @ drift), gradient + 2.0 * shrinkage * drift

    return minimize(loss, prior, jac=True, method="L-BFGS-B", bounds=[(low, None) for low in least]).x

r"""The fused score: all evidence in one number, weighted by how well it separates unknown from known samples.

Every kind of evidence is standardized on known samples, with the sign that makes large values suggest an unknown
sample. The weights are those of a logistic regression between known samples and simulated unknowns,

.. math:: s(y) = \sum_j b_j \frac{e_j(y) - m_j}{s_j}, \qquad
   \min_{b \ge 0,\, c}\ \text{mean log-loss}(b, c) + \gamma\|b - b_0\|^2,

both sides having the same total weight. No weight is negative: evidence may count less, never against its meaning. The
weights shrink toward equal ones, :math:`b_0`, because real unknowns differ more from the known classes than classes
that were left out do. Centering the score on each class lowered accuracy on every data set of the design.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from .._support.array_types import Array
from ..evidence import DIRECTION, EVIDENCE

#: How strongly weights shrink toward the prior, and the prior weight of each kind of evidence.
SHRINKAGE = 0.005
PRIOR = 0.25
_SIGNS = np.array([DIRECTION[name] for name in EVIDENCE])


@dataclass(frozen=True, eq=False)
class Fusion:
    """Weights and scales of the evidence.

    Attributes
    ----------
    mean, scale : ndarray (8,)
        Mean and standard deviation of each kind of evidence over held-out known samples, with the sign that makes large
        values suggest an unknown sample.
    weights : ndarray (8,)
        Not negative.
    """

    mean: Array
    scale: Array
    weights: Array

    def standardize(self, values: Array) -> Array:
        """Return evidence in standard deviations of known samples; large values suggest an unknown sample."""
        return (values * _SIGNS - self.mean) / self.scale

    def contributions(self, values: Array) -> Array:
        """Return the contribution of each kind of evidence to the score, (n_samples, 8)."""
        return self.standardize(values) * self.weights

    def score(self, values: Array) -> Array:
        """Compute the fused score; large values suggest an unknown sample."""
        return self.standardize(values) @ self.weights


def _measure_moments(values: Array) -> tuple[Array, Array]:
    signed = values * _SIGNS
    mean, scale = signed.mean(axis=0), signed.std(axis=0)
    # Evidence that varies by rounding only carries no information: it keeps its own units.
    return mean, np.where(scale > 1e-6 * (1.0 + np.abs(mean)), scale, 1.0)


def fit_fusion(known: Array, simulated: Array, unknown: Any) -> tuple[Fusion, Fusion]:
    """Learn the fused score of samples coded over all classes, and of those coded with classes left out.

    ``known`` is the evidence of held-out known samples over all classes, ``simulated`` that of samples with classes
    left out, of which ``unknown`` tells the simulated unknowns; each may be empty. The weights of both are the same.
    Where there is no held-out known sample the scales come from the simulated unknowns.
    """
    prior = np.full(len(EVIDENCE), PRIOR)
    unknown = np.asarray(unknown, dtype=bool)
    mean, scale = _measure_moments(known if len(known) else simulated)
    ordinary = simulated[~unknown]
    if not len(known) or not len(ordinary) or not unknown.any():
        fusion = Fusion(mean, scale, prior)
        return fusion, fusion
    simulated_scale = Fusion(*_measure_moments(ordinary), prior)
    weights = _fit_logistic(simulated_scale.standardize(simulated), unknown, prior)
    return Fusion(mean, scale, weights), Fusion(simulated_scale.mean, simulated_scale.scale, weights)


def rescale_fusion(fusion: Fusion, known: Array) -> Fusion:
    """Return a fusion with the same weights and the scales of other known samples."""
    return Fusion(*_measure_moments(known), fusion.weights)


def _fit_logistic(Z: Array, unknown: Any, prior: Array) -> Array:
    """Fit a logistic regression with non-negative weights in which both sides have the same total weight."""
    y = unknown.astype(np.float64)
    weight = np.where(unknown, 0.5 / y.sum(), 0.5 / (1.0 - y).sum())

    def loss(b: Array) -> tuple[float, Array]:
        margin = Z @ b[:-1] + b[-1]
        drift = b[:-1] - prior
        error = weight * (expit(margin) - y)
        value = weight @ (np.logaddexp(0.0, margin) - y * margin) + SHRINKAGE * drift @ drift
        return float(value), np.append(Z.T @ error + 2.0 * SHRINKAGE * drift, error.sum())

    bounds = [(0.0, None)] * len(prior) + [(None, None)]
    return minimize(loss, np.append(prior, 0.0), jac=True, method="L-BFGS-B", bounds=bounds).x[:-1]

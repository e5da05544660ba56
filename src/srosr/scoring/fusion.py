r"""The fused score: all evidence in one number, weighted by what tells strangers from known samples.

Every kind of evidence is standardised on known samples, turned so that large speaks for a stranger, and the weights are
those of a logistic regression between known samples and pretended strangers of simulated openness,

.. math:: s(y) = \sum_j b_j \frac{e_j(y) - m_j}{s_j}, \qquad
   \min_{b \ge 0,\, c}\ \text{mean log-loss}(b, c) + \gamma\|b - b_0\|^2,

both sides weighing the same. No weight is negative: evidence may count less, never against its own meaning; and the
weights are drawn towards equal ones, :math:`b_0`, for strangers are stranger than known classes left out.
The score of class k's own samples is not centred on that class: on every set it was designed on that lost accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from .._support.array_types import Array
from ..evidence import DIRECTION, EVIDENCE

__all__ = ["DIRECTION", "EVIDENCE", "Fusion", "fit_fusion", "refitted"]

#: How strongly weights are drawn to the prior, and the prior weight of each kind of evidence.
SHRINKAGE = 0.005
PRIOR = 0.25
_SIGNS = np.array([DIRECTION[name] for name in EVIDENCE])


@dataclass(frozen=True, eq=False)
class Fusion:
    """Weights and scales of the evidence.

    Attributes
    ----------
    mean, scale : ndarray (8,)
        Mean and standard deviation of each kind of evidence, turned so that large speaks for a stranger, over held-out
        known samples.
    weights : ndarray (8,)
        Not negative.
    """

    mean: Array
    scale: Array
    weights: Array

    def standardised(self, values: Array) -> Array:
        """Evidence in standard deviations of known samples; large speaks for a stranger."""
        return (values * _SIGNS - self.mean) / self.scale

    def contributions(self, values: Array) -> Array:
        """What each kind of evidence adds to the score, (n_samples, 8)."""
        return self.standardised(values) * self.weights

    def score(self, values: Array) -> Array:
        """The fused score; large speaks for a stranger."""
        return self.standardised(values) @ self.weights


def _moments(values: Array) -> tuple[Array, Array]:
    turned = values * _SIGNS
    mean, scale = turned.mean(axis=0), turned.std(axis=0)
    # Evidence that varies by rounding only says nothing: it is left in its own units.
    return mean, np.where(scale > 1e-6 * (1.0 + np.abs(mean)), scale, 1.0)


def fit_fusion(known: Array, simulated: Array, stranger: Any) -> tuple[Fusion, Fusion]:
    """Learn the fused score.

    Parameters
    ----------
    known : ndarray (n, 8)
        Evidence of held-out known samples in the world of all classes; may be empty.
    simulated : ndarray (m, 8)
        Evidence in worlds with classes left out; may be empty.
    stranger : ndarray of bool (m,)
        Which of those are pretended strangers.

    Returns
    -------
    fusion, simulated_fusion : Fusion
        For the world of all classes, and for the smaller ones: the weights are the same. Where there is no known sample
        to stand on, the pretended strangers are used instead.
    """
    prior = np.full(len(EVIDENCE), PRIOR)
    stranger = np.asarray(stranger, dtype=bool)
    if not len(known):
        mean, scale = _moments(simulated)
        fusion = Fusion(mean, scale, prior)
        return fusion, fusion
    mean, scale = _moments(known)
    ordinary = simulated[~stranger]
    if not len(ordinary) or not stranger.any():
        fusion = Fusion(mean, scale, prior)
        return fusion, fusion
    there = Fusion(*_moments(ordinary), prior)
    weights = _logistic(there.standardised(simulated), stranger, prior)
    return Fusion(mean, scale, weights), Fusion(there.mean, there.scale, weights)


def refitted(fusion: Fusion, known: Array) -> Fusion:
    """The same weights, on the scales of other known samples."""
    return Fusion(*_moments(known), fusion.weights)


def _logistic(Z: Array, stranger: Any, prior: Array) -> Array:
    """Non-negative weights of a logistic regression in which both sides weigh the same."""
    y = stranger.astype(np.float64)
    weight = np.where(stranger, 0.5 / y.sum(), 0.5 / (1.0 - y).sum())

    def loss(b: Array) -> tuple[float, Array]:
        margin = Z @ b[:-1] + b[-1]
        drift = b[:-1] - prior
        error = weight * (expit(margin) - y)
        value = weight @ (np.logaddexp(0.0, margin) - y * margin) + SHRINKAGE * drift @ drift
        return float(value), np.append(Z.T @ error + 2.0 * SHRINKAGE * drift, error.sum())

    bounds = [(0.0, None)] * len(prior) + [(None, None)]
    return minimize(loss, np.append(prior, 0.0), jac=True, method="L-BFGS-B", bounds=bounds).x[:-1]

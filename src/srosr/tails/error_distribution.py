r"""The distribution of errors on the whole line: an empirical body and a Pareto tail that ranks every error.

.. math::

    F(r) = \begin{cases}
    p_0\exp((r - b_0)/(u - b_0)) & r < b_0 \\
    \text{linear between the knots } (b_j, p_j) & b_0 \le r \le u \\
    1 - \rho\,\bar G(r - u) & u < r \le c \\
    1 - \rho\,\bar G(c - u)\exp(-h(c)(r - c)) & r > c
    \end{cases}

with :math:`b_0` the smallest error, :math:`\bar G` the survival function of the tail and
:math:`h(c) = 1/(\sigma + \xi(c - u))` its hazard. The last line is for :math:`\xi < 0` alone, where :math:`\bar G`
would reach zero; value and slope of :math:`\log(1 - F)` agree at c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import Array
from .gpd import GPDTail, _sort_errors, _warn, find_tie_width, fit_tail

# Knots of the body: enough for steps of 0.2 % in probability, few enough for a small file.
_MAX_KNOTS = 512


@dataclass(frozen=True, eq=False)
class SplicedDistribution:
    r"""Continuous, strictly increasing distribution of errors on the whole line.

    Construct it from errors with :meth:`fit`; the constructor takes the four parts that a file holds. Far beyond all
    errors, and beyond the end point of a tail with ξ < 0, ``cdf`` rounds to 1 while ``logsf`` still ranks strictly; far
    below all errors ``logcdf`` does.

    Parameters
    ----------
    body : array-like (n_knots,)
        Errors at the knots, strictly increasing; the last one is ``tail.u``.
    levels : array-like (n_knots,)
        Probability of an error of at most that, strictly increasing in (0, 1); the last one is ``1 - tail.rho``.
    tail : GPDTail
    joint : float
        The point c beyond which the log-survival of a tail with ξ < 0 continues as a straight line, above u and below
        the end point of the tail; infinity for ξ ≥ 0.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tails.error_distribution import SplicedDistribution
    >>> errors = 1 - (np.arange(1, 1000) / 1000) ** 0.3
    >>> d = SplicedDistribution.fit(errors, tail_size=0.1)
    >>> np.round(d.cdf([0.1, 0.2, 0.5]), 2)
    array([0.3 , 0.53, 0.9 ])
    >>> bool(d.logsf(3.0) > d.logsf(4.0))
    True
    """

    body: Array
    levels: Array
    tail: GPDTail
    joint: float

    def __post_init__(self) -> None:
        body = np.array(self.body, dtype=np.float64)
        levels = np.array(self.levels, dtype=np.float64)
        if body.ndim != 1 or not len(body) or body.shape != levels.shape:
            raise ValueError(f"body and levels must be vectors of one length, got shapes {body.shape}, {levels.shape}.")
        if not (np.isfinite(body).all() and (body[1:] > body[:-1]).all() and body[-1] == self.tail.u):
            raise ValueError("body must be finite, strictly increasing and end at tail.u.")
        if not (levels[0] > 0 and (levels[1:] > levels[:-1]).all() and levels[-1] == 1.0 - self.tail.rho):
            raise ValueError("levels must be strictly increasing from above 0 to 1 - tail.rho.")
        if self.tail.xi < 0 and not self.tail.u <= self.joint < self.tail.end:
            raise ValueError(f"joint must lie between tail.u and the end point of the tail, got {self.joint}.")
        body.flags.writeable = levels.flags.writeable = False
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "joint", float(self.joint) if self.tail.xi < 0 else float("inf"))

    @classmethod
    def fit(
        cls, errors: Any, tail_size: float | str = 0.1, *, groups: Any = None, warn: bool = True
    ) -> SplicedDistribution:
        r"""Fit the distribution of errors.

        The body is the empirical distribution at its order statistics, ties merged, thinned to at most 512 knots evenly
        in probability. The joint of a tail with ξ < 0 is the smaller of the largest error and the error that the tail
        exceeds with probability 1/(2·n_excesses).

        Parameters
        ----------
        errors, tail_size, groups, warn
            As in :func:`srosr.fit_tail`.
        """
        r, _ = _sort_errors(errors, None)
        tail = fit_tail(errors, tail_size, groups=groups, warn=False)
        if warn:
            _warn(tail, 3)
        n = len(r)
        below = r[: np.searchsorted(r, tail.u, side="right")]
        with np.errstate(over="ignore"):
            last = np.flatnonzero(np.append(np.diff(below) > find_tie_width(r), True))
        if len(last) > _MAX_KNOTS:
            wanted = np.linspace(last[0], last[-1], _MAX_KNOTS)
            last = np.unique(last[np.searchsorted(last, np.floor(wanted))])
        levels = (last + 1.0) / n
        # Errors within rounding of u belong to it, so that the count below u may be smaller than 1 - rho.
        levels *= (1.0 - tail.rho) / levels[-1]
        levels[-1] = 1.0 - tail.rho
        joint = np.inf
        if tail.xi < 0:
            joint = min(r[-1], tail.invert_hazard(np.log(2.0 * tail.n_excesses)))
            # Within a spacing of floats of the end point there may be no number left below it.
            joint = max(min(joint, np.nextafter(tail.end, -np.inf)), tail.u)
        return cls(below[last], levels, tail, float(joint))

    def cdf(self, r: Any) -> Any:
        """Return the probability of an error of at most r."""
        r = np.asarray(r, dtype=np.float64)
        beyond = np.maximum(-np.expm1(self._tail_logsf(r)), self.levels[-1])
        return np.where(r > self.tail.u, beyond, self._compute_body(r, False))[()]

    def sf(self, r: Any) -> Any:
        """Return the probability of an error larger than r: the p-value of r, where errors do not tie."""
        return np.exp(self.logsf(r))

    def logsf(self, r: Any) -> Any:
        """Return the logarithm of :meth:`sf`, strictly decreasing up to rounding."""
        r = np.asarray(r, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.where(r > self.tail.u, self._tail_logsf(r), np.log(self._compute_body(r, True)))[()]

    def logcdf(self, r: Any) -> Any:
        """Return the logarithm of :meth:`cdf`, strictly increasing below all errors up to rounding."""
        r = np.asarray(r, dtype=np.float64)
        with np.errstate(divide="ignore"):
            inside = np.log(self.cdf(r))
        return np.where(r < self.body[0], np.log(self.levels[0]) + self._compute_lower(r), inside)[()]

    def ppf(self, q: Any) -> Any:
        """Return the error at which :meth:`cdf` is q: −infinity at 0, infinity at 1, NaN outside [0, 1]."""
        q = np.asarray(q, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = self._isf_tail(np.log1p(-q))
        return np.where(q > self.levels[-1], beyond, self._ppf_below(q))[()]

    @property
    def _scale(self) -> float:
        """Scale of the exponential below the smallest error: the width of the body, or σ where that is 0."""
        width = float(self.body[-1] / 2 - self.body[0] / 2) * 2
        return min(width, float(np.finfo(np.float64).max)) if width > 0 else self.tail.sigma

    def _compute_lower(self, r: Any) -> Any:
        with np.errstate(over="ignore"):
            return np.minimum((r - self.body[0]) / self._scale, 0.0)

    def _compute_body(self, r: Any, upper: bool) -> Any:
        """Compute the distribution function, or its complement, of the body and below it."""
        below = np.exp(self._compute_lower(r)) * self.levels[0]
        heights = np.append(1.0 - self.levels[:-1], self.tail.rho) if upper else self.levels
        if upper:
            below = np.maximum(1.0 - below, heights[0])  # rho and 1 - (1 - rho) may differ in the last bit
        if len(self.body) == 1:
            return np.where(np.isnan(r), np.nan, np.where(r >= self.body[0], heights[0], below))
        j = np.clip(np.searchsorted(self.body, r, side="right") - 1, 0, len(self.body) - 2)
        inside = heights[j] + _interpolate(r, self.body[j], self.body[j + 1]) * (heights[j + 1] - heights[j])
        low, high = np.minimum(heights[j], heights[j + 1]), np.maximum(heights[j], heights[j + 1])
        return np.where(r < self.body[0], below, np.clip(inside, low, high))

    def _tail_logsf(self, r: Any) -> Any:
        tail = self.tail
        near = tail.logsf(np.minimum(r, self.joint))
        if tail.xi < 0:
            with np.errstate(over="ignore"):
                far = np.maximum(r - self.joint, 0.0) / tail.sigma
                near = near - far / self._remaining
        return np.log(tail.rho) + near

    @property
    def _remaining(self) -> float:
        """1 + ξ(c − u)/σ, positive."""
        x = (self.joint - self.tail.u) / self.tail.sigma
        return max(1.0 + self.tail.xi * x, float(np.finfo(np.float64).eps))

    def _ppf_below(self, q: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            below = self.body[0] + self._scale * np.log(q / self.levels[0])
        if len(self.body) == 1:
            return np.where(q >= self.levels[0], self.body[0], below)
        j = np.clip(np.searchsorted(self.levels, q, side="right") - 1, 0, len(self.body) - 2)
        t = np.clip((q - self.levels[j]) / (self.levels[j + 1] - self.levels[j]), 0.0, 1.0)
        inside = self.body[j] * (1.0 - t) + self.body[j + 1] * t
        return np.where(q < self.levels[0], below, inside)

    def _isf_tail(self, logp: Any) -> Any:
        tail = self.tail
        level = np.maximum(np.log(tail.rho) - logp, 0.0)
        out = tail.invert_hazard(level)
        if tail.xi < 0:
            at_joint = -float(tail.logsf(self.joint))
            far = self.joint + (level - at_joint) * self._remaining * tail.sigma
            out = np.where(level > at_joint, far, out)
        return out


def _interpolate(r: Any, low: Any, high: Any) -> Any:
    """Return where r lies between low and high, 0 to 1; halves keep differences of the largest floats finite."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        width = high - low
        plain = (r - low) / width
        halves = (r / 2 - low / 2) / (high / 2 - low / 2)
    return np.clip(np.where(np.isinf(width), halves, plain), 0.0, 1.0)

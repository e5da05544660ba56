r"""Weibull distributions with two parameters, fitted by maximum likelihood, one or many at a time.

.. math:: F(x) = 1 - \exp\left(-\left(\frac{x}{\lambda}\right)^{\kappa}\right), \qquad x \ge 0,\ \kappa, \lambda > 0.

:func:`fit_weibull` fits values that are not negative, :class:`Weibull` is the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import Array

# Largest shape of a fit: such a distribution goes from F = 0.01 to F = 0.99 within 6e-6 of its scale, a step for any
# use, while the rounding of x, times the shape, still changes log(-log(1 - F)) by no more than about 1e-10.
MAX_SHAPE = 1e6
# Fewest values that determine shape and scale; callers with fewer take a shape from elsewhere, or warn.
MIN_VALUES = 3
# The logarithm of a zero, relative to the largest value of its row: the resolution of floats.
_ZERO = float(np.log(np.finfo(np.float64).eps))
_TINY = float(np.finfo(np.float64).tiny)
# Rows are fitted in blocks of about this many values, so that temporary arrays stay at a few megabytes.
_BLOCK = 2**17
_MAX_STEPS = 100
# Newton steps square the error: after a step of this relative size it is below rounding.
_LAST_STEP = 1e-10


@dataclass(frozen=True, eq=False)
class Weibull:
    r"""Weibull distributions with location 0.

    Arrays of parameters describe as many distributions. All methods take scalars or arrays and broadcast them against
    the parameters: for fits of m rows, x of shape (n, 1) or (n, m) gives (n, m). Below zero ``cdf`` is 0 and ``sf`` is
    1. x may be infinite; NaN gives NaN.

    Parameters
    ----------
    shape : float or array-like
        κ, positive and finite.
    scale : float or array-like
        λ, positive and finite; :math:`F(\lambda) = 1 - 1/e`.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tails.weibull import Weibull
    >>> distribution = Weibull(shape=2.0, scale=3.0)
    >>> np.round(distribution.cdf([-1.0, 0.0, 3.0, 6.0]), 4)
    array([0.    , 0.    , 0.6321, 0.9817])
    >>> round(float(distribution.logsf(300.0)), 6)
    -10000.0
    """

    shape: Array
    scale: Array

    def __post_init__(self) -> None:
        for name in ("shape", "scale"):
            value = np.array(getattr(self, name), dtype=np.float64)
            if not ((value > 0) & np.isfinite(value)).all():
                raise ValueError(f"{name} must be positive and finite.")
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        try:
            np.broadcast_shapes(self.shape.shape, self.scale.shape)
        except ValueError:
            shapes = f"{self.shape.shape} and {self.scale.shape}"
            raise ValueError(f"shape and scale must broadcast together, got arrays of shapes {shapes}.") from None

    def cdf(self, x: Any) -> Any:
        """Return the probability of a value of at most x."""
        return -np.expm1(self.logsf(x))

    def sf(self, x: Any) -> Any:
        """Return the probability of a value larger than x."""
        return np.exp(self.logsf(x))

    def logcdf(self, x: Any) -> Any:
        """Return the logarithm of :meth:`cdf`; −infinity at zero and below, finite for positive x."""
        log_hazard = self._log_hazard(x)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            hazard = np.exp(log_hazard)
            # Each where the argument of its logarithm is exact; the first where 1 - exp(-h) is h to rounding.
            lower, upper = np.log(-np.expm1(-hazard)), np.log1p(-np.exp(-hazard))
        return np.where(log_hazard < -40.0, log_hazard, np.where(hazard < np.log(2.0), lower, upper))[()]

    def logsf(self, x: Any) -> Any:
        r"""Return the logarithm of :meth:`sf`, :math:`-(x/\lambda)^\kappa`."""
        with np.errstate(over="ignore", under="ignore"):
            return -np.exp(self._log_hazard(x))[()]

    def _log_hazard(self, x: Any) -> Any:
        """Compute κ log(x/λ), the logarithm of −logsf."""
        x = np.maximum(np.asarray(x, dtype=np.float64), 0.0)
        with np.errstate(over="ignore"):
            return self.shape * _log_of_ratio(x, self.scale)


def fit_weibull(values: Any) -> Weibull:
    r"""Fit Weibull distributions by maximum likelihood, :math:`\kappa \le` ``MAX_SHAPE`` :math:`= 10^6`.

    For a given shape the best scale is :math:`\lambda = (\frac1n\sum_i x_i^\kappa)^{1/\kappa}`, and the best shape
    solves

    .. math:: \frac{\sum_i x_i^\kappa\log x_i}{\sum_i x_i^\kappa} - \frac1\kappa - \frac1n\sum_i\log x_i = 0,

    whose left side increases with :math:`\kappa`: there is one solution. With :math:`u_i = \log(\max x/x_i)/d`, d their
    mean before the division, and :math:`y = \kappa d` the equation reads

    .. math:: 1 - \frac{\sum_i u_ie^{-yu_i}}{\sum_i e^{-yu_i}} - \frac1y = 0,
              \qquad 1 \le y \le 1 + \frac{n - 1}{e},

    which does not depend on the scale of x or its powers, and cannot overflow. It is solved to rounding by Newton steps
    inside a bracket, all rows at once.

    The likelihood of some values has no maximum. They have a fit nonetheless, without a warning:

    - Where all values are equal, or there is only one, the likelihood grows without bound with κ. Where the best shape
      would exceed ``MAX_SHAPE`` the fit is the best one of that shape, a step at the values.
    - Zeros have density 0 or infinity. They are counted as ε = 2⁻⁵² times the largest value of the row, or as its
      smallest positive value where that is smaller: the more zeros there are, the closer the distribution is to zero.
    - Where all values are zero the scale is the smallest normal float and the shape ``MAX_SHAPE``, a step at zero.

    Parameters
    ----------
    values : array-like (n,) or (m, n)
        Not negative and finite, at least one a row, in any order. Every row is fitted on its own.

    Returns
    -------
    fit : Weibull
        With parameters of shape () or (m,).

    References
    ----------
    N. L. Johnson, S. Kotz, N. Balakrishnan, "Continuous univariate distributions", volume 1, second edition, chapter
    21, Wiley, 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tails.weibull import fit_weibull
    >>> quantiles = 5.0 * (-np.log(np.arange(1, 100) / 100)) ** (1 / 3)
    >>> fit = fit_weibull(quantiles)
    >>> round(float(fit.shape), 2), round(float(fit.scale), 2)
    (3.13, 4.99)
    >>> fit_weibull([quantiles, 2 * quantiles]).scale.round(2)
    array([4.99, 9.98])
    """
    x = _check_rows(values)
    rows = np.atleast_2d(x)
    shape, scale = np.empty(len(rows)), np.empty(len(rows))
    step = max(1, _BLOCK // rows.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        shape[part], scale[part] = _maximize_likelihood(rows[part])
    return Weibull(shape.reshape(x.shape[:-1]), scale.reshape(x.shape[:-1]))


def _check_rows(values: Any) -> Array:
    """Return a vector or matrix of finite numbers that are not negative, or raise a ValueError."""
    try:
        x = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"values must be a vector of numbers, or a matrix with a sample of the same size in each row, got "
            f"{type(values).__name__}."
        ) from None
    if x.ndim not in (1, 2) or not x.size:
        raise ValueError(f"values must be of shape (n,) or (m, n) and hold at least one number, got shape {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError("values contains NaN or infinity; leave out those entries or their rows.")
    if x.min() < 0:
        raise ValueError(
            f"values must not be negative, got {x.min():g}: a Weibull distribution starts at zero. Fit distances, or "
            f"shift scores by their smallest first."
        )
    return np.ascontiguousarray(x)


def _log_of_ratio(x: Any, y: Any) -> Any:
    """Compute log(x/y) for x ≥ 0 and y > 0, to rounding also where x/y is nearly 1, underflows or overflows."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        ratio = x / y
        # The difference of floats within a factor of two is exact.
        out = np.where(np.abs(ratio - 1.0) < 0.5, np.log1p((x - y) / y), np.log(ratio))
        lost = (ratio < _TINY) | np.isposinf(ratio)
        return np.where(lost, np.log(x) - np.log(y), out) if np.any(lost) else out


def _maximize_likelihood(x: Array) -> tuple[Array, Array]:
    """Return shapes and scales of the rows."""
    top = x.max(axis=1)
    top[top == 0.0] = _TINY
    depth = -_log_of_ratio(x, top[:, None])
    zero = np.isposinf(depth)
    if zero.any():
        deepest = np.where(zero, 0.0, depth).max(axis=1)
        # In a row of zeros all values are the largest.
        floor = np.where(zero.all(axis=1), 0.0, np.maximum(deepest, -_ZERO))
        depth = np.where(zero, floor[:, None], depth)
    mean = depth.mean(axis=1)
    spread = mean > 0
    shape = np.full(len(x), MAX_SHAPE)
    shape[spread] = np.minimum(_solve_profile(depth[spread] / mean[spread, None]) / mean[spread], MAX_SHAPE)
    with np.errstate(under="ignore"):
        power = np.exp(-shape[:, None] * depth).mean(axis=1)
        scale = top * np.exp(np.log(power) / shape)
    return shape, np.maximum(scale, _TINY)


def _solve_profile(u: Array) -> Array:
    """Solve y(1 − Σue⁻ʸᵘ/Σe⁻ʸᵘ) = 1 for each row, of mean 1 and minimum 0, by Newton steps inside a bracket."""
    m, n = u.shape
    low, high = np.ones(m), np.full(m, 1.0 + (n - 1) / np.e)
    # The shape whose log-values have the standard deviation of these.
    y = np.clip(np.pi / np.sqrt(6.0 * np.maximum(np.square(u - 1.0).mean(axis=1), 1e-300)), low, high)
    active = np.arange(m)
    with np.errstate(under="ignore"):
        for _ in range(_MAX_STEPS):
            now, v = y[active], u if len(active) == m else u[active]
            weight = np.exp(-now[:, None] * v)
            total = weight.sum(axis=1)
            weight *= v
            first = weight.sum(axis=1) / total
            weight *= v
            variance = np.maximum(weight.sum(axis=1) / total - first**2, 0.0)
            value = now * (1.0 - first) - 1.0
            low[active] = np.where(value <= 0.0, now, low[active])
            high[active] = np.where(value >= 0.0, now, high[active])
            slope = (1.0 - first) + now * variance
            with np.errstate(divide="ignore", invalid="ignore"):
                new = now - value / slope
            newton = (new >= low[active]) & (new <= high[active])
            new = np.where(newton, new, np.sqrt(low[active] * high[active]))
            y[active] = new
            narrow = high[active] - low[active] <= 4.0 * np.finfo(np.float64).eps * new
            active = active[~(newton & (np.abs(new - now) <= _LAST_STEP * new) | narrow)]
            if not len(active):
                break
    return y

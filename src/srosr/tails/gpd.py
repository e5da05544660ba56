r"""Generalized Pareto tails of reconstruction errors, fitted by maximum likelihood.

Above a high threshold u an error r exceeds it by :math:`z = r - u`, and

.. math:: G(z) = 1 - \left(1 + \frac{\xi z}{\sigma}\right)^{-1/\xi}, \qquad z \ge 0,\ \sigma > 0,

the exponential distribution at :math:`\xi = 0`; for :math:`\xi < 0` it ends at :math:`u - \sigma/\xi`.
:func:`fit_gpd` fits excesses, :func:`fit_tail` errors, :class:`GPDTail` is the result.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import Array
from .._support.parameter_checks import check_tail_size
from ..exceptions import TailWarning
from .gpd_likelihood import maximize_likelihood, measure_cramer_von_mises

# From this many different excesses on the shape is estimated; with fewer the tail is exponential.
_MIN_EXCESSES = 10
# Errors closer to each other than this, relative to the largest, are ties: a solver and the rounding of products decide
# such differences, and they are not the same on every processor.
_TIES = 1e-10
# Shares that tail_size="auto" tries, largest first.
_SHARES = tuple(k / 20.0 for k in range(10, 0, -1))
# Upper 10 % points of the Cramér–von Mises statistic of a generalized Pareto distribution with both parameters fitted
# by fit_gpd: for each shape the 0.9 quantile over 10,000 simulated samples of 500 (standard error about 0.001). Looked
# up at the fitted shape, the test rejects 4 to 10 % of true Pareto tails of 20 to 500 excesses.
_CRITICAL_XI = (-1.0, -0.9, -0.7, -0.5, -0.3, -0.1, 0.1, 0.3, 0.5, 0.7, 0.9, 1.2, 2.0, 4.0)
_CRITICAL_W2 = (0.277, 0.184, 0.172, 0.157, 0.143, 0.129, 0.118, 0.109, 0.103, 0.099, 0.096, 0.093, 0.091, 0.100)


@dataclass(frozen=True)
class GPDTail:
    r"""Generalized Pareto tail of errors beyond a threshold.

    All methods take *absolute* errors r, scalars or arrays of any shape, and describe the distribution *conditional on
    exceeding u*: ``cdf`` is :math:`G(r - u)`, and 0 at and below u. Errors may be infinite; NaN gives NaN.

    Parameters
    ----------
    u : float
        Threshold.
    sigma : float
        Scale, positive.
    xi : float
        Shape, at least −1.
    rho : float
        Share of the errors beyond u, in (0, 1].
    n_excesses : int
        Number of errors beyond u; 0 where the tail was not fitted.
    outcome : {"ok", "boundary", "few", "ties", "degenerate"}
        Of the fit, see :func:`fit_tail`.
    log_likelihood : float
        Of the excesses at (sigma, xi); NaN where the tail was not fitted.

    Examples
    --------
    >>> from srosr.tails.gpd import GPDTail
    >>> tail = GPDTail(u=1.0, sigma=0.5, xi=-0.25, rho=0.1)
    >>> tail.end
    3.0
    >>> tail.cdf([0.5, 1.0, 2.0, 3.0])
    array([0.    , 0.    , 0.9375, 1.    ])
    """

    u: float
    sigma: float
    xi: float
    rho: float
    n_excesses: int = 0
    outcome: str = "ok"
    log_likelihood: float = float("nan")

    def __post_init__(self) -> None:
        if not np.isfinite(self.u):
            raise ValueError(f"u must be finite, got {self.u}.")
        if not (np.isfinite(self.sigma) and self.sigma > 0):
            raise ValueError(f"sigma must be positive and finite, got {self.sigma}.")
        if not (np.isfinite(self.xi) and self.xi >= -1):
            raise ValueError(f"xi must be finite and at least -1, got {self.xi}.")
        if not 0 < self.rho <= 1:
            raise ValueError(f"rho must lie in (0, 1], got {self.rho}.")

    @property
    def end(self) -> float:
        """Upper end point: u − σ/ξ for ξ < 0, else infinity."""
        return self.u - self.sigma / self.xi if self.xi < 0 else float("inf")

    def cdf(self, r: Any) -> Any:
        """Return the probability of an excess of at most r − u; 0 at and below u."""
        return -np.expm1(self.logsf(r))

    def sf(self, r: Any) -> Any:
        """Return the probability of an excess larger than r − u; 1 at and below u."""
        return np.exp(self.logsf(r))

    def logsf(self, r: Any) -> Any:
        """Return the logarithm of :meth:`sf`; −infinity at and beyond the end point of a tail with ξ < 0."""
        return -self._cumulative_hazard(self._standardize(r))[()]

    def ppf(self, q: Any) -> Any:
        """Return the error at which :meth:`cdf` is q; u at 0, the end point at 1, NaN outside [0, 1]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            level = -np.log1p(-np.asarray(q, dtype=np.float64))
        return self.invert_hazard(np.where(level >= 0, level, np.nan))

    def invert_hazard(self, level: Any) -> Any:
        """Return the error at which −:meth:`logsf` is the level, as exact far out in the tail as at its start."""
        level = np.asarray(level, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            y = self.xi * level
            x = np.where(y == 0.0, level, level * (np.expm1(y) / np.where(y == 0.0, 1.0, y)))
            if self.xi < 0:
                x = np.where(np.isposinf(level), -1.0 / self.xi, x)
            else:
                x = np.where(np.isposinf(y) | np.isposinf(level), np.inf, x)
            return (self.u + self.sigma * x)[()]

    def _standardize(self, r: Any) -> Any:
        with np.errstate(over="ignore"):
            return np.maximum((np.asarray(r, dtype=np.float64) - self.u) / self.sigma, 0.0)

    def _cumulative_hazard(self, x: Any) -> Any:
        """Compute log(1 + ξx)/ξ, x ≥ 0, as x·log1p(y)/y with y = ξx, which needs no series at ξ = 0."""
        xi = self.xi
        if xi == 0.0:
            return x
        with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
            y = xi * x
            out = np.where(y == 0.0, x, x * (np.log1p(y) / np.where(y == 0.0, 1.0, y)))
            if xi < 0:
                return np.where(y <= -1.0, np.inf, out)
            if xi > 0:
                out = np.where(np.isposinf(y), (np.log(xi) + np.log(x)) / xi, out)
        return out


def fit_gpd(excesses: Any) -> tuple[float, float, float, bool]:
    r"""Fit a generalized Pareto distribution with :math:`-1 \le \xi \le 10` by maximum likelihood.

    With :math:`\theta = \xi/\sigma` the best shape is :math:`\xi(\theta) = \frac1n\sum_i\log(1 + \theta z_i)`, which
    leaves the profile likelihood of one variable,

    .. math:: \ell(\theta) = -n\left(\log\frac{\xi(\theta)}{\theta} + \xi(\theta) + 1\right),
              \qquad \theta > -1/\max z.

    It can have several maxima. All are bracketed on a grid of :math:`t = \log(1 + \theta\max z)`, with the excesses
    merged into about a hundred groups, and refined by Newton steps over all excesses. For :math:`\xi < -1` the
    likelihood has no bound; at :math:`\xi = -1` the best is the uniform distribution on
    :math:`(0, \max z)`, of log-likelihood :math:`-n\log\max z`.

    Parameters
    ----------
    excesses : array-like (n,)
        Not negative and finite, in any order. Zeros, which are ties with the threshold, are left out: with them the
        likelihood has no bound (σ → 0).

    Returns
    -------
    sigma, xi : float
    log_likelihood : float
    at_boundary : bool
        Whether the maximum lies at ξ = −1 (or, for excesses of very different size, at ξ = 10).

    References
    ----------
    S. D. Grimshaw, "Computing maximum likelihood estimates for the generalized Pareto distribution", Technometrics 35,
    1993.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tails.gpd import fit_gpd
    >>> sigma, xi, log_likelihood, at_boundary = fit_gpd(-np.log(np.arange(1, 100) / 100))
    >>> round(sigma, 2), round(xi, 2), at_boundary
    (1.05, -0.07, False)
    """
    z = _check_numbers(excesses, "excesses")
    z = np.sort(z)
    if z[0] < 0:
        raise ValueError(f"excesses must not be negative, got {z[0]:g}; leave out errors below the threshold.")
    z = z[np.searchsorted(z, 0.0, side="right") :]
    if not len(z):
        raise ValueError("excesses must contain a positive number: nothing lies above the threshold.")
    return maximize_likelihood(z)


def fit_tail(errors: Any, tail_size: float | str = 0.1, *, groups: Any = None, warn: bool = True) -> GPDTail:
    r"""Fit a generalized Pareto tail to the largest errors.

    Of n errors the :math:`k = \max(1, \mathrm{round}(\rho n))` largest, at most n − 1, are meant to lie in the tail; u
    is the largest of the others, and the excesses are those of errors *strictly* above u. Errors that differ by at most
    1e-10 of the largest magnitude are ties: they may differ by rounding alone. Ties with u are no excesses, ``rho`` of
    the result is the actual share, and where ties leave no error above u, u moves down to the next smaller error.

    ==============  ===================================================================================================
    outcome         what was fitted
    ==============  ===================================================================================================
    ``ok``          Maximum likelihood, :func:`fit_gpd`.
    ``boundary``    The same, with the maximum at ξ = −1: a uniform tail that ends at the largest error (or at ξ = 10).
    ``few``         Fewer than 10 excesses: ξ = 0 and σ their mean, the exponential tail.
    ``ties``        10 excesses or more, fewer than 10 different ones: the same exponential tail.
    ``degenerate``  All errors equal: ξ = 0, σ = 1e-8 times the size of u (1e-8 for u = 0), ρ = 1/(n + 1); no excess.
    ==============  ===================================================================================================

    Parameters
    ----------
    errors : array-like (n,)
        Finite, in any order. For a lower tail give −errors.
    tail_size : float in (0, 1] or "auto"
        The share ρ of the errors beyond u. ``"auto"`` takes the largest of 0.50, 0.45, …, 0.05 at which the
        Cramér–von Mises test at 10 % does not reject the fit, or the nearest to that where all are rejected.
        Shares with fewer than 10 excesses (with groups: excesses of 10 groups) are raised to that where possible.
    groups : array-like (n,), optional
        The training sample of each error. Repeats of a sample are not independent: ``"auto"`` counts groups instead of
        errors.
    warn : bool
        Whether to warn of an outcome other than ``"ok"``, by a :class:`~srosr.exceptions.TailWarning`.

    Returns
    -------
    tail : GPDTail

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tails.gpd import fit_tail
    >>> tail = fit_tail(-np.log(np.arange(1, 1000) / 1000), tail_size=0.1)
    >>> tail.n_excesses, tail.outcome, round(tail.u, 3)
    (100, 'ok', 2.293)
    """
    r, codes = _sort_errors(errors, groups)
    share = check_tail_size(tail_size)
    tail = _choose_share(r, codes) if share is None else _fit_largest(r, _count_excesses(share, len(r)))
    if warn:
        _warn(tail, 3)
    return tail


def _warn(tail: GPDTail, stacklevel: int) -> None:
    if tail.outcome != "ok":
        warnings.warn(_MESSAGES[tail.outcome].format(tail=tail), TailWarning, stacklevel=stacklevel)


_MESSAGES = {
    "boundary": "The likelihood of {tail.n_excesses} excesses is largest at the boundary, xi = {tail.xi:g}: the tail "
    "ends at the largest error or its excesses differ by many orders of magnitude. Another tail_size may fit.",
    "few": "Only {tail.n_excesses} errors lie beyond the threshold, too few for a shape: the tail is exponential "
    "(xi = 0). Give more errors or a larger tail_size.",
    "ties": "The {tail.n_excesses} errors beyond the threshold take fewer than 10 different values: the tail is "
    "exponential (xi = 0).",
    "degenerate": "All errors equal {tail.u:g}: there is no tail to fit, and its scale was set to {tail.sigma:g}.",
}


def _check_numbers(values: Any, name: str) -> Array:
    """Return a vector of at least one finite number, or raise a ValueError that names the argument."""
    try:
        out = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a vector of numbers, got {type(values).__name__}.") from None
    if out.ndim != 1 or not len(out):
        raise ValueError(f"{name} must be a vector of at least one number, got shape {out.shape}.")
    if not np.isfinite(out).all():
        raise ValueError(f"{name} contains NaN or infinity; leave those entries out.")
    return out


def _sort_errors(errors: Any, groups: Any) -> tuple[Array, Any]:
    """Return errors in increasing order, with the number of the group of each (None without groups)."""
    r = _check_numbers(errors, "errors")
    if groups is None:
        return np.sort(r), None
    names = np.asarray(groups)
    if names.shape != r.shape:
        raise ValueError(f"groups must have one entry for each of the {len(r)} errors, got shape {names.shape}.")
    order = np.argsort(r, kind="stable")
    return r[order], np.unique(names, return_inverse=True)[1][order]


def find_tie_width(r: Array) -> float:
    """Return the largest difference of two errors that is a tie, for errors in increasing order."""
    return _TIES * float(max(abs(r[0]), abs(r[-1])))


def _count_excesses(share: float, n: int) -> int:
    return min(max(1, round(share * n)), n - 1)


def _fit_largest(r: Array, k: int) -> GPDTail:
    """Fit a tail to the k largest of the errors, which are in increasing order."""
    n = len(r)
    top = float(max(abs(r[0]), abs(r[-1])))
    # A power of two keeps the differences of the largest floats finite.
    scale = 2.0**-12 if top > 1e300 else 1.0
    s = r if scale == 1.0 else r * scale
    tolerance = find_tie_width(r) * scale
    if s[-1] - s[0] <= tolerance:
        return GPDTail(float(r[-1]), 1e-8 * top if top > 1e-100 else 1e-8, 0.0, 1.0 / (n + 1), 0, "degenerate")
    at = n - k - 1
    if s[-1] - s[at] <= tolerance:
        at = int(np.count_nonzero(s[-1] - s > tolerance)) - 1
    z = s[at + 1 :] - s[at]
    z = z[np.searchsorted(z, tolerance, side="right") :]
    m = len(z)
    if np.count_nonzero(np.diff(z) > tolerance) < _MIN_EXCESSES - 1:
        sigma, xi = float(z.mean()), 0.0
        log_likelihood = -m * (float(np.log(sigma)) + 1.0)
        outcome = "few" if m < _MIN_EXCESSES else "ties"
    else:
        sigma, xi, log_likelihood, at_boundary = maximize_likelihood(z)
        outcome = "boundary" if at_boundary else "ok"
    limits = np.finfo(np.float64)
    sigma = min(max(sigma / scale, float(limits.tiny)), float(limits.max))
    return GPDTail(float(r[at]), sigma, xi, m / n, m, outcome, log_likelihood + m * float(np.log(scale)))


def _choose_share(r: Array, codes: Any) -> GPDTail:
    """Fit a tail to the largest share that the Cramér–von Mises test at 10 % accepts, or else to the nearest to it."""
    n = len(r)
    if codes is None:
        least = _MIN_EXCESSES
    else:
        # The number of largest errors that come from ten groups.
        first = np.sort(np.unique(codes[::-1], return_index=True)[1])
        least = int(first[min(_MIN_EXCESSES, len(first)) - 1]) + 1
    best, distance = None, np.inf
    for k in sorted({min(max(_count_excesses(share, n), least), n - 1) for share in _SHARES}, reverse=True):
        tail = _fit_largest(r, k)
        m = tail.n_excesses
        if m == 0:
            return tail
        with np.errstate(over="ignore"):
            excesses = r[n - m :] - tail.u
        size = m if codes is None else len(np.unique(codes[n - m :]))
        statistic = size * measure_cramer_von_mises(excesses, tail.sigma, tail.xi)
        ratio = statistic / np.interp(tail.xi, _CRITICAL_XI, _CRITICAL_W2)
        if best is None or ratio < distance:
            best, distance = tail, ratio
        if ratio <= 1.0:
            break
    assert best is not None
    return best

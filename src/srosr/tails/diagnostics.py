r"""Diagnostics of a tail: standard errors, a test of fit, and quantile plots.

Repeated cross-tests use every training sample about ten times, so that errors come in groups that are not
independent. All resampling here is of groups: a resample draws as many groups as there are, with replacement, and
takes all errors of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import Array
from .._support.parameter_checks import check_count
from .gpd import GPDTail, _check_numbers, _sort_errors, fit_tail
from .gpd_likelihood import maximize_likelihood


@dataclass(frozen=True, eq=False)
class TailDiagnostics:
    """Result of :func:`tail_diagnostics`.

    Attributes
    ----------
    tail : GPDTail
    standard_error_sigma, standard_error_xi : float
        Standard deviations over resampled groups at the same threshold; 0 for ξ of an exponential tail. NaN with fewer
        than two groups beyond the threshold.
    statistic : float
        Cramér–von Mises distance, times the number of groups.
    p_value : float
        Small where the errors beyond the threshold do not follow a Pareto distribution. NaN as above.
    n_groups : int
        Groups (errors, without groups) with an error beyond the threshold.
    qq : tuple of two ndarrays
        Theoretical and observed errors beyond the threshold, from :func:`qq_points`.
    """

    tail: GPDTail
    standard_error_sigma: float
    standard_error_xi: float
    statistic: float
    p_value: float
    n_groups: int
    qq: tuple[Array, Array]


def tail_diagnostics(
    errors: Any, tail_size: float | str = 0.1, *, groups: Any = None, n_resamples: int = 200, random_state: Any = None
) -> TailDiagnostics:
    r"""Compute standard errors and goodness of fit of a tail, by resampling training samples.

    With :math:`F` the empirical distribution of the excesses and :math:`G` the fitted one, the statistic is

    .. math:: T = m\,\frac1n\sum_i\bigl(F(z_i) - G(z_i)\bigr)^2,

    m the number of groups. The distance of a resample :math:`F^*` to its fit :math:`G^*` includes that of the sample to
    its own fit, which is subtracted:

    .. math:: T^* = m\,\frac1n\sum_i\bigl((F^* - G^*)(z_i) - (F - G)(z_i)\bigr)^2,

    and the p-value is the share of :math:`T^* \ge T`, T itself included. The threshold stays fixed.
    A share chosen by ``"auto"`` is not chosen again in a resample, which makes its p-value too large.
    Below ξ = −1/2 the estimates are not normal even for large samples, and the standard errors are rough.

    Parameters
    ----------
    errors, tail_size, groups
        As in :func:`srosr.fit_tail`. Without groups every error is a group of its own.
    n_resamples : int
    random_state : None, int or numpy.random.Generator

    Returns
    -------
    diagnostics : TailDiagnostics

    References
    ----------
    G. J. Babu, C. R. Rao, "Goodness-of-fit tests when parameters are estimated", Sankhyā 66, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tails.diagnostics import tail_diagnostics
    >>> errors = np.random.default_rng(0).exponential(size=500)
    >>> d = tail_diagnostics(errors, tail_size=0.2, random_state=0)
    >>> d.n_groups, d.p_value > 0.05
    (100, True)
    """
    check_count("n_resamples", n_resamples, least=2)
    rng = np.random.default_rng(random_state)
    r, codes = _sort_errors(errors, groups)
    tail = fit_tail(r, tail_size, groups=codes, warn=False)
    n = tail.n_excesses
    qq = qq_points(r[len(r) - n :], tail) if n else (np.empty(0), np.empty(0))
    with np.errstate(over="ignore"):
        z = np.minimum(r[len(r) - n :] - tail.u, np.finfo(np.float64).max)
    members = np.arange(n) if codes is None else np.unique(codes[len(r) - n :], return_inverse=True)[1]
    m = int(members.max()) + 1 if n else 0
    distance = _compare_distributions(z, np.ones(n), tail.sigma, tail.xi)
    statistic = m * float(np.mean(distance**2)) if n else float("nan")
    if m < 2:
        return TailDiagnostics(tail, float("nan"), float("nan"), statistic, float("nan"), m, qq)
    exponential = tail.outcome in ("few", "ties")
    fits = np.empty((n_resamples, 2))
    statistics = np.empty(n_resamples)
    for b in range(n_resamples):
        weights = np.bincount(rng.integers(m, size=m), minlength=m)[members]
        drawn = np.repeat(z, weights)
        sigma, xi = (float(drawn.mean()), 0.0) if exponential else maximize_likelihood(drawn)[:2]
        fits[b] = sigma, xi
        statistics[b] = m * np.mean((_compare_distributions(z, weights, sigma, xi) - distance) ** 2)
    deviations = fits.std(axis=0, ddof=1)
    p_value = (1.0 + np.count_nonzero(statistics >= statistic)) / (n_resamples + 1.0)
    return TailDiagnostics(tail, float(deviations[0]), float(deviations[1]), statistic, float(p_value), m, qq)


def qq_points(errors: Any, tail: GPDTail) -> tuple[Array, Array]:
    r"""Return the points of a quantile plot of the errors beyond the threshold.

    Parameters
    ----------
    errors : array-like (n,)
    tail : GPDTail

    Returns
    -------
    theoretical, observed : ndarray (m,)
        Quantiles of the tail at :math:`(i - 1/2)/m`, and the m errors above ``tail.u`` in increasing order. A good fit
        lies on the diagonal.
    """
    r = np.sort(_check_numbers(errors, "errors"))
    if not isinstance(tail, GPDTail):
        raise ValueError(f"tail must be a GPDTail, got {type(tail).__name__}.")
    observed = r[np.searchsorted(r, tail.u, side="right") :]
    n = len(observed)
    return np.asarray(tail.ppf((np.arange(n) + 0.5) / max(n, 1))), observed


def _compare_distributions(z: Array, weights: Any, sigma: float, xi: float) -> Array:
    """Compute the empirical distribution of weighted excesses, at the middle of each step, minus the fitted one."""
    steps = np.cumsum(weights)
    fitted = GPDTail(0.0, sigma, xi, 1.0).cdf(z)
    return np.asarray((steps - 0.5 * weights) / max(float(steps[-1]) if len(steps) else 0.0, 1.0) - fitted)

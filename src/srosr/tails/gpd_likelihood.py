r"""The likelihood of a generalized Pareto distribution and its global maximum.

Excesses are divided by their maximum, :math:`0 \le z \le 1`, and :math:`\theta = \xi/\sigma = e^t - 1`. Then

.. math:: 1 + \theta z = (1 - z) + ze^t

is a sum of two numbers that are not negative, exact also next to the end point, and every term of the profile
likelihood (see :func:`srosr.fit_gpd`) changes over distances of about one in t: a grid of step 0.35 finds all of
its maxima.
"""

from __future__ import annotations

import math

import numpy as np

from .._support.array_types import Array
from .._support.compiled import leaf, loop

# Distributions of a larger shape have no moment even of order 1/10: such fits come from excesses that are rounding.
MAX_XI = 10.0
_STEP = 0.35
# Largest t: products of eight terms of size e^t stay finite.
_MAX_T = 80.0
# Below this |θ| five terms of the series in θ are exact.
_SERIES = 1e-3


def maximize_likelihood(excesses: Array) -> tuple[float, float, float, bool]:
    """Return scale, shape, log-likelihood and whether it lies at a bound, of positive excesses in increasing order."""
    z = excesses / excesses[-1]
    found: tuple[float, float, float, bool] = _search(
        z, 1.0 - z, excesses[-1], np.empty((3, len(z))), np.zeros(5), np.zeros(5)
    )
    return found


@loop()
def _search(z, w, top, blocks, moments, block_moments):
    """Find the maximum; ``blocks``, ``moments`` and ``block_moments`` (zeros) are scratch."""
    n = z.shape[0]
    _average_powers(z, moments)
    m = _merge_neighbors(z, blocks)
    bz, bw, counts = blocks[0, :m], blocks[1, :m], blocks[2, :m]
    for i in range(m):
        power = counts[i] / n
        for k in range(5):
            power *= bz[i]
            block_moments[k] += power
    # The uniform distribution, ξ = -1 and σ = 1, has log-likelihood 0.
    best, best_sigma, best_xi, bound = 0.0, 1.0, -1.0, True
    t = -(math.log(n) + 14.0)
    # Before the first point with ξ > -1 the slope counts as upward: a maximum may lie between it and the bound.
    slope, last = 1.0, np.inf
    while t <= _MAX_T:
        value, new_slope, _, xi = _evaluate_profile(bz, bw, counts, n, block_moments, t)
        if xi > MAX_XI:
            break
        if xi > -1.0:
            if slope > 0.0 and new_slope <= 0.0:
                start = _ascend(bz, bw, counts, n, block_moments, 0.5 * ((last if last < t else t) + t))
                value, sigma, xi = _refine(z, moments, _ascend(z, w, counts[:0], n, moments, start))
                if value > best and xi > -1.0:
                    best, best_sigma, best_xi, bound = value, sigma, xi, False
            slope, last = new_slope, t
        t += _STEP
    if slope > 0.0 and last < np.inf:
        # Still upward at the last point: the maximum lies before the upper bound, or on it.
        found = _ascend(z, w, counts[:0], n, moments, last)
        value, sigma, xi = _refine(z, moments, found)
        if value > best:
            best, best_sigma, best_xi, bound = value, sigma, xi, found > _MAX_T - _STEP
        value, sigma = _solve_upper_bound(z, w, last)
        if value > best:
            best, best_sigma, best_xi, bound = value, sigma, MAX_XI, True
    return best_sigma * top, best_xi, n * (best - math.log(top)), bound


@leaf()
def _average_powers(z, out):
    """Compute the means of z, z², …, z⁵."""
    n = z.shape[0]
    for i in range(n):
        v = z[i]
        v2 = v * v
        out[0] += v
        out[1] += v2
        out[2] += v2 * v
        out[3] += v2 * v2
        out[4] += v2 * v2 * v
    for k in range(5):
        out[k] /= n


@leaf()
def _merge_neighbors(z, blocks):
    """Merge neighbors, single values at both ends and longer blocks toward the middle; returns the number of blocks.

    The rows of ``blocks`` receive the means of z and of 1 - z, and the sizes.
    """
    n = z.shape[0]
    i, m = 0, 0
    while i < n:
        size = 1 + int(0.08 * (i if i < n - 1 - i else n - 1 - i))
        if size > n - i:
            size = n - i
        total, rest = 0.0, 0.0
        for j in range(i, i + size):
            total += z[j]
            rest += 1.0 - z[j]
        blocks[0, m], blocks[1, m], blocks[2, m] = total / size, rest / size, size
        m += 1
        i += size
    return m


@leaf()
def _average_terms(z, w, counts, n, e):
    """Return the means of log(1 + θz), z/(1 + θz) and its square, with one logarithm for eight values."""
    logs, first, second = 0.0, 0.0, 0.0
    if counts.shape[0] > 0:
        for i in range(z.shape[0]):
            a = w[i] + z[i] * e
            q = z[i] / a
            logs += counts[i] * math.log(a)
            first += counts[i] * q
            second += counts[i] * q * q
        return logs / n, first / n, second / n
    whole = n - n % 8
    f0, f1, s0, s1 = 0.0, 0.0, 0.0, 0.0
    for i in range(0, whole, 8):
        product = 1.0
        for j in range(i, i + 8, 2):
            a = w[j] + z[j] * e
            b = w[j + 1] + z[j + 1] * e
            product *= a * b
            p = z[j] / a
            q = z[j + 1] / b
            f0 += p
            f1 += q
            s0 += p * p
            s1 += q * q
        logs += math.log(product)
    for j in range(whole, n):
        a = w[j] + z[j] * e
        p = z[j] / a
        logs += math.log(a)
        f0 += p
        s0 += p * p
    return logs / n, (f0 + f1) / n, (s0 + s1) / n


@leaf()
def _average_log1p(z, theta):
    """Return the same means as `_average_terms`, by log1p throughout."""
    n = z.shape[0]
    logs, first, second = 0.0, 0.0, 0.0
    for i in range(n):
        q = z[i] / (1.0 + theta * z[i])
        logs += math.log1p(theta * z[i])
        first += q
        second += q * q
    return logs / n, first / n, second / n


@leaf()
def _expand(m, theta):
    """Return σ and the first two derivatives of the profile in θ, from the series around zero."""
    sigma = m[0] - theta * (m[1] / 2 - theta * (m[2] / 3 - theta * (m[3] / 4 - theta * m[4] / 5)))
    d1 = -m[1] / 2 + theta * (2 * m[2] / 3 - theta * (3 * m[3] / 4 - theta * 4 * m[4] / 5))
    d2 = 2 * m[2] / 3 - theta * (3 * m[3] / 2 - theta * 12 * m[4] / 5)
    g = -d1 / sigma - sigma - theta * d1
    h = -d2 / sigma + (d1 / sigma) ** 2 - 2 * d1 - theta * d2
    return sigma, g, h


@leaf()
def _differentiate(theta, xi, first, second):
    """Return the first two derivatives of the profile in θ, from means of its terms."""
    g = 1.0 / theta - first * (1.0 + 1.0 / xi)
    h = second * (1.0 + 1.0 / xi) + (first / xi) ** 2 - 1.0 / theta**2
    return g, h


@leaf()
def _evaluate_profile(z, w, counts, n, m, t):
    """Return the profile log-likelihood of one excess, its first two derivatives in t, and ξ."""
    e = math.exp(t)
    theta = math.expm1(t)
    if abs(theta) < _SERIES:
        sigma, g, h = _expand(m, theta)
        xi = theta * sigma
    else:
        xi, first, second = _average_terms(z, w, counts, n, e)
        sigma = xi / theta
        g, h = _differentiate(theta, xi, first, second)
    return -math.log(sigma) - xi - 1.0, g * e, h * e * e + g * e, xi


@leaf()
def _ascend(z, w, counts, n, m, t):
    """Return a local maximum of the profile near t, by Newton steps that never decrease it."""
    value, g, h, _ = _evaluate_profile(z, w, counts, n, m, t)
    for _ in range(60):
        step = 0.5 if g > 0.0 else -0.5
        if h < 0.0 and abs(g) < -0.5 * h:
            step = -g / h
        if abs(g * step) < 1e-16:
            break
        moved = False
        for _ in range(12):
            new_value, new_g, new_h, new_xi = _evaluate_profile(z, w, counts, n, m, t + step)
            if new_xi > -1.0 and new_xi <= MAX_XI and t + step <= _MAX_T and new_value >= value:
                moved = True
                break
            step *= 0.4
        if not moved:
            break
        t += step
        value, g, h = new_value, new_g, new_h
    return t


@leaf()
def _refine(z, m, t):
    """Return the profile log-likelihood of one excess, σ and ξ at the root of the slope near t, by log1p throughout.

    Values locate a maximum only to about 1e-8 in t; the slope locates it to rounding.
    """
    theta = math.expm1(t)
    last = 1e-6
    steps = 0
    while True:
        if abs(theta) < _SERIES:
            sigma, g, h = _expand(m, theta)
            xi = theta * sigma
        else:
            xi, first, second = _average_log1p(z, theta)
            sigma = xi / theta
            g, h = _differentiate(theta, xi, first, second)
        step = -g / h
        if steps == 4 or not (h < 0.0 and abs(step) < last * (1.0 + theta)) or step == 0.0:
            return -math.log(sigma) - xi - 1.0, sigma, xi
        last = abs(step) / (1.0 + theta)
        theta += step
        steps += 1


@leaf()
def _solve_upper_bound(z, w, low):
    """Return the log-likelihood of one excess and σ at ξ = MAX_XI.

    The best θ is where the mean of θz/(1 + θz), which increases with θ, is ξ/(1 + ξ).
    """
    n = z.shape[0]
    none = z[:0]
    high = _MAX_T
    for _ in range(60):
        t = 0.5 * (low + high)
        _, first, _ = _average_terms(z, w, none, n, math.exp(t))
        if math.expm1(t) * first < MAX_XI / (1.0 + MAX_XI):
            low = t
        else:
            high = t
    logs, _, _ = _average_terms(z, w, none, n, math.exp(low))
    theta = math.expm1(low)
    return math.log(theta / MAX_XI) - (1.0 + 1.0 / MAX_XI) * logs, MAX_XI / theta


@loop()
def measure_cramer_von_mises(excesses, sigma, xi):
    """Return W²/n of excesses in increasing order: the mean squared distance of the fitted and the empirical cdf."""
    n = excesses.shape[0]
    total = 0.0
    for i in range(n):
        x = excesses[i] / sigma
        y = xi * x
        if y == 0.0:
            g = -math.expm1(-x)
        elif y <= -1.0:
            g = 1.0
        else:
            g = -math.expm1(-math.log1p(y) / xi)
        d = g - (i + 0.5) / n
        total += d * d
    return total / n + 1.0 / (12.0 * n * n)

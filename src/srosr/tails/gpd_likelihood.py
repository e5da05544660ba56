r"""The likelihood of a generalized Pareto distribution and its global maximum.

Excesses are divided by their maximum, :math:`0 \le z \le 1`, and :math:`\theta = \xi/\sigma = e^t - 1`. Then

.. math:: 1 + \theta z = (1 - z) + ze^t

is a sum of two numbers that are not negative, exact also next to the end point, and every term of the profile
likelihood (see :func:`srosr.fit_gpd`) changes over distances of about one in t: a grid of step 0.35 finds all of
its maxima.
"""

from __future__ import annotations

import numpy as np

from .._support.compiled import entry_point, inner

# Distributions of a larger shape have no moment even of order 1/10: such fits come from excesses that are rounding.
MAX_XI = 10.0
_STEP = 0.35
# Largest t: products of eight terms of size e^t stay finite.
_MAX_T = 80.0
# Below this |θ| five terms of the series in θ are exact.
_SERIES = 1e-3


@entry_point()
def maximize_likelihood(excesses):
    """Return scale, shape, log-likelihood and whether it lies at a bound, of positive excesses in increasing order."""
    n = excesses.shape[0]
    top = excesses[n - 1]
    z = excesses / top
    w = 1.0 - z
    moments = _average_powers(z)
    bz, bw, counts = _merge_neighbors(z)
    bmoments = np.zeros(5)
    for i in range(bz.shape[0]):
        power = counts[i] / n
        for k in range(5):
            power *= bz[i]
            bmoments[k] += power
    # The uniform distribution, ξ = -1 and σ = 1, has log-likelihood 0.
    best, best_sigma, best_xi, bound = 0.0, 1.0, -1.0, True
    t = -(np.log(n) + 14.0)
    # Before the first point with ξ > -1 the slope counts as upward: a maximum may lie between it and the bound.
    slope, last = 1.0, np.inf
    while t <= _MAX_T:
        value, new_slope, _, xi = _evaluate_profile(bz, bw, counts, n, bmoments, t)
        if xi > MAX_XI:
            break
        if xi > -1.0:
            if slope > 0.0 and new_slope <= 0.0:
                start = _ascend(bz, bw, counts, n, bmoments, 0.5 * (min(last, t) + t))
                found = _ascend(z, w, counts[:0], n, moments, start)
                value, sigma, xi = _refine(z, moments, found)
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
    return best_sigma * top, best_xi, n * (best - np.log(top)), bound


@inner()
def _average_powers(z):
    """Return the means of z, z², …, z⁵."""
    m1, m2, m3, m4, m5 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(z.shape[0]):
        v = z[i]
        v2 = v * v
        m1 += v
        m2 += v2
        m3 += v2 * v
        m4 += v2 * v2
        m5 += v2 * v2 * v
    return np.array([m1, m2, m3, m4, m5]) / z.shape[0]


@inner()
def _merge_neighbors(z):
    """Return means and sizes of blocks of neighbors, single values at both ends and longer toward the middle."""
    n = z.shape[0]
    bz, bw, counts = np.empty(n), np.empty(n), np.empty(n)
    i, m = 0, 0
    while i < n:
        size = min(1 + int(0.08 * min(i, n - 1 - i)), n - i)
        total, rest = 0.0, 0.0
        for j in range(i, i + size):
            total += z[j]
            rest += 1.0 - z[j]
        bz[m], bw[m], counts[m] = total / size, rest / size, size
        m += 1
        i += size
    return bz[:m], bw[:m], counts[:m]


@inner()
def _average_terms(z, w, counts, n, e):
    """Return the means of log(1 + θz), z/(1 + θz) and its square, with one logarithm for eight values."""
    logs, first, second = 0.0, 0.0, 0.0
    if counts.shape[0] > 0:
        for i in range(z.shape[0]):
            a = w[i] + z[i] * e
            q = z[i] / a
            logs += counts[i] * np.log(a)
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
        logs += np.log(product)
    for j in range(whole, n):
        a = w[j] + z[j] * e
        p = z[j] / a
        logs += np.log(a)
        f0 += p
        s0 += p * p
    return logs / n, (f0 + f1) / n, (s0 + s1) / n


@inner()
def _evaluate_profile(z, w, counts, n, m, t):
    """Return the profile log-likelihood of one excess, its first two derivatives in t, and ξ."""
    e = np.exp(t)
    theta = np.expm1(t)
    if abs(theta) < _SERIES:
        sigma = m[0] - theta * (m[1] / 2 - theta * (m[2] / 3 - theta * (m[3] / 4 - theta * m[4] / 5)))
        d1 = -m[1] / 2 + theta * (2 * m[2] / 3 - theta * (3 * m[3] / 4 - theta * 4 * m[4] / 5))
        d2 = 2 * m[2] / 3 - theta * (3 * m[3] / 2 - theta * 12 * m[4] / 5)
        xi = theta * sigma
        value = -np.log(sigma) - xi - 1.0
        g = -d1 / sigma - sigma - theta * d1
        h = -d2 / sigma + (d1 / sigma) ** 2 - 2 * d1 - theta * d2
    else:
        xi, first, second = _average_terms(z, w, counts, n, e)
        value = -np.log(xi / theta) - xi - 1.0
        g = 1.0 / theta - first * (1.0 + 1.0 / xi)
        h = second * (1.0 + 1.0 / xi) + (first / xi) ** 2 - 1.0 / theta**2
    return value, g * e, h * e * e + g * e, xi


@inner()
def _ascend(z, w, counts, n, m, t):
    """Return a local maximum of the profile near t, by Newton steps that never decrease it."""
    value, g, h, _ = _evaluate_profile(z, w, counts, n, m, t)
    for _ in range(60):
        step = -g / h if h < 0.0 else 0.5 * np.sign(g)
        step = min(max(step, -0.5), 0.5)
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


@inner()
def _refine(z, m, t):
    """Return the profile log-likelihood of one excess, σ and ξ at the root of the slope near t, by log1p throughout.

    Values locate a maximum only to about 1e-8 in t; the slope locates it to rounding.
    """
    theta = np.expm1(t)
    n = z.shape[0]
    last = 1e-6
    for _ in range(4):
        if abs(theta) < _SERIES:
            sigma = m[0] - theta * (m[1] / 2 - theta * (m[2] / 3 - theta * (m[3] / 4 - theta * m[4] / 5)))
            d1 = -m[1] / 2 + theta * (2 * m[2] / 3 - theta * (3 * m[3] / 4 - theta * 4 * m[4] / 5))
            d2 = 2 * m[2] / 3 - theta * (3 * m[3] / 2 - theta * 12 * m[4] / 5)
            xi = theta * sigma
            g = -d1 / sigma - sigma - theta * d1
            h = -d2 / sigma + (d1 / sigma) ** 2 - 2 * d1 - theta * d2
        else:
            xi, first, second = 0.0, 0.0, 0.0
            for i in range(n):
                q = z[i] / (1.0 + theta * z[i])
                xi += np.log1p(theta * z[i])
                first += q
                second += q * q
            xi, first, second = xi / n, first / n, second / n
            g = 1.0 / theta - first * (1.0 + 1.0 / xi)
            h = second * (1.0 + 1.0 / xi) + (first / xi) ** 2 - 1.0 / theta**2
        step = -g / h
        if not (h < 0.0 and abs(step) < last * (1.0 + theta)) or abs(step) == 0.0:
            break
        last = abs(step) / (1.0 + theta)
        theta += step
    if abs(theta) < _SERIES:
        sigma = m[0] - theta * (m[1] / 2 - theta * (m[2] / 3 - theta * (m[3] / 4 - theta * m[4] / 5)))
        xi = theta * sigma
    else:
        xi = 0.0
        for i in range(z.shape[0]):
            xi += np.log1p(theta * z[i])
        xi /= z.shape[0]
        sigma = xi / theta
    return -np.log(sigma) - xi - 1.0, sigma, xi


@inner()
def _solve_upper_bound(z, w, low):
    """Return the log-likelihood of one excess and σ at ξ = MAX_XI.

    The best θ is where the mean of θz/(1 + θz), which increases with θ, is ξ/(1 + ξ).
    """
    n = z.shape[0]
    none = z[:0]
    high = _MAX_T
    for _ in range(60):
        t = 0.5 * (low + high)
        _, first, _ = _average_terms(z, w, none, n, np.exp(t))
        if np.expm1(t) * first < MAX_XI / (1.0 + MAX_XI):
            low = t
        else:
            high = t
    logs, _, _ = _average_terms(z, w, none, n, np.exp(low))
    theta = np.expm1(low)
    return np.log(theta / MAX_XI) - (1.0 + 1.0 / MAX_XI) * logs, MAX_XI / theta


@entry_point()
def measure_cramer_von_mises(excesses, sigma, xi):
    """Return W²/n of excesses in increasing order: the mean squared distance of the fitted and the empirical cdf."""
    n = excesses.shape[0]
    total = 0.0
    for i in range(n):
        x = excesses[i] / sigma
        y = xi * x
        if y == 0.0:
            g = -np.expm1(-x)
        elif y <= -1.0:
            g = 1.0
        else:
            g = -np.expm1(-np.log1p(y) / xi)
        d = g - (i + 0.5) / n
        total += d * d
    return total / n + 1.0 / (12.0 * n * n)

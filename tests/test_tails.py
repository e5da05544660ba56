"""Pareto tails and spliced distributions, against SciPy and brute force."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples
from scipy import stats

from srosr.exceptions import SROSRWarning, TailWarning
from srosr.tails.error_distribution import SplicedDistribution
from srosr.tails.gpd import GPDTail, fit_gpd, fit_tail

SHAPES = [-1.0, -0.9, -0.5, -0.2, -1e-12, 0.0, 1e-12, 1e-5, 0.3, 0.9, 3.0]


def pareto(xi, n, seed, scale=1.0):
    return scale * stats.genpareto.rvs(xi, size=n, random_state=np.random.default_rng(seed))


def likelihood(z, sigma, xi):
    """Compute the likelihood by its formula, in plain NumPy."""
    z = np.asarray(z)
    if xi == 0:
        return -len(z) * np.log(sigma) - z.sum() / sigma
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log1p(xi * z / sigma)
        return -len(z) * np.log(sigma) - ((1 + 1 / xi) * logs.sum() if xi != -1 else 0.0)


def profile_maximum(z):
    """Maximize the profile likelihood slowly, over a dense grid of θ, and compare with the uniform distribution."""
    z = np.asarray(z) / np.max(z)
    t = np.concatenate([np.linspace(-30, -1e-3, 6_000), np.linspace(1e-3, 60, 12_000)])
    xi = np.log((1 - z) + z * np.exp(t)[:, None]).mean(axis=1)
    values = -len(z) * (np.log(xi / np.expm1(t)) + xi + 1)
    return max(0.0, values[(xi >= -1) & (xi <= 10)].max())


# Fitting


@pytest.mark.parametrize("case", range(60))
def test_likelihood_is_at_least_that_of_scipy(case):
    rng = np.random.default_rng(case)
    true, n = rng.uniform(-0.9, 0.9), int(np.exp(rng.uniform(np.log(10), np.log(5000))))
    z = pareto(true, n, rng, 10 ** rng.uniform(-3, 3))
    sigma, xi, found, at_boundary = fit_gpd(z)
    assert found == pytest.approx(likelihood(z, sigma, xi), rel=1e-10, abs=1e-8) or at_boundary
    for start in (None, 0.1, -0.4):
        first = {} if start is None else {"scale": z.mean() * (1 - start)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, _, scale = stats.genpareto.fit(z, *([] if start is None else [start]), floc=0, **first)
        other = stats.genpareto.logpdf(z, shape, 0, scale).sum()
        if shape >= -1 and np.isfinite(other):
            assert found >= other - 1e-8


@pytest.mark.parametrize("kind", ["exponential", "arcsine", "lognormal", "counts", "two clusters", "near the end"])
def test_maximum_is_the_global_one_of_small_samples(kind):
    rng = np.random.default_rng(len(kind))
    for _ in range(12):
        n = int(rng.integers(1, 30))
        z = {
            "exponential": lambda n=n: rng.exponential(size=n),
            "arcsine": lambda n=n: rng.beta(0.5, 0.5, size=n),
            "lognormal": lambda n=n: np.exp(3 * rng.normal(size=n)),
            "counts": lambda n=n: np.round(3 * rng.exponential(size=n)) + 1,
            "two clusters": lambda n=n: np.where(rng.random(n) < 0.5, 0.01 * rng.random(n), 1 - 0.01 * rng.random(n)),
            "near the end": lambda n=n: rng.random(n) ** 0.3,
        }[kind]()
        z = z[z > 0]
        assert fit_gpd(z)[2] >= profile_maximum(z) - n * np.log(z.max()) - 1e-9


def test_maximum_is_found_next_to_the_upper_bound_too():
    near = 0
    for size in np.geomspace(1e-8, 1e-4, 60):
        z = np.r_[size * np.arange(1, 13), np.arange(1, 18)]
        _, xi, value, _ = fit_gpd(z)
        near += 9 < xi < 10
        assert value >= profile_maximum(z) - len(z) * np.log(z.max()) - 1e-9
    assert near > 0


def test_no_point_of_a_dense_grid_of_scale_and_shape_is_better():
    for seed, true in enumerate([-0.8, -0.3, 0.2, 0.7]):
        z = pareto(true, 25, seed)
        best = fit_gpd(z)[2]
        for xi in np.linspace(-1, 3, 161):
            lowest = max(-xi * z.max(), 1e-3 * z.mean())
            scales = lowest * np.geomspace(1, 20 * z.mean() / lowest + 2, 300)
            assert max(likelihood(z, s, xi) for s in scales) <= best + 1e-9


@pytest.mark.parametrize("true", [-0.7, 0.0, 0.8])
@pytest.mark.parametrize("factor", [1e-200, 3.7e-5, 8.0, 1e200])
def test_fit_is_scale_equivariant(true, factor):
    z = pareto(true, 300, 1)
    sigma, xi, value, _ = fit_gpd(z)
    sigma2, xi2, value2, _ = fit_gpd(factor * z)
    assert xi2 == pytest.approx(xi, abs=1e-6)
    assert sigma2 == pytest.approx(factor * sigma, rel=1e-6)
    assert value2 == pytest.approx(value - 300 * np.log(factor), rel=1e-12)


def test_uniform_maximum_is_flagged_as_boundary():
    z = np.linspace(0.0, 1.0, 51)[1:] ** 0.5
    sigma, xi, value, at_boundary = fit_gpd(2 * z)
    assert (sigma, xi, at_boundary) == (2.0, -1.0, True)
    assert value == pytest.approx(-50 * np.log(2))


def test_excesses_of_zero_are_left_out():
    z = pareto(0.1, 50, 3)
    assert fit_gpd(np.append(z, np.zeros(7))) == fit_gpd(z)


def test_excesses_of_wildly_different_size_stop_at_the_upper_bound():
    sigma, xi, value, at_boundary = fit_gpd([1e-300] * 8 + [1.0, 2.0, 3.0])
    assert (xi, at_boundary) == (10.0, True)
    assert sigma > 0
    assert np.isfinite(value)


@pytest.mark.parametrize("bad", [[], [0.0, 0.0], [-1.0, 1.0], [np.nan, 1.0], [np.inf], [[1.0]], "abc", None])
def test_bad_excesses_raise_by_name(bad):
    with pytest.raises(ValueError, match="excesses"):
        fit_gpd(bad)


# The tail function


@pytest.mark.parametrize("xi", SHAPES)
def test_tail_agrees_with_scipy(xi):
    u, sigma = 0.7, 0.03
    tail, other = GPDTail(u, sigma, xi, 0.1), stats.genpareto(xi, u, sigma)
    x = np.concatenate([np.linspace(-3, 60, 400), [1e3, 1e6]])
    r = u + sigma * x
    away = np.abs(1 + xi * (r - u) / sigma) > 1e-6
    if abs(xi) == 1e-12:  # SciPy loses digits here; the exponential limit is right to 1e-6 in x² ξ / 2
        other, away = stats.expon(u, sigma), away & (x < 1e3)
    np.testing.assert_allclose(tail.cdf(r[away]), other.cdf(r[away]), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(tail.sf(r[away]), other.sf(r[away]), rtol=1e-8, atol=1e-300)
    q = np.concatenate([[0.0], np.geomspace(1e-12, 0.5, 20), 1 - np.geomspace(1e-12, 0.5, 20), [1.0]])
    q = q[:-1] if xi == -1e-12 else q
    np.testing.assert_allclose(tail.ppf(q), other.ppf(q), rtol=1e-9)


@pytest.mark.parametrize("xi", SHAPES)
def test_tail_is_total_at_infinity_and_below_the_threshold(xi):
    tail = GPDTail(1.0, 0.5, xi, 0.1)
    r = np.array([-np.inf, -1e308, 1.0, 1e308, np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not np.isnan([tail.cdf(r), tail.sf(r), tail.logsf(r)]).any()
        assert list(tail.cdf(r[:3])) == [0, 0, 0]
        assert tail.cdf(np.inf) == 1
        assert tail.logsf(np.inf) == -np.inf
        assert tail.ppf(0.0) == 1.0
        assert tail.ppf(1.0) == tail.end
        assert np.isnan(tail.ppf([-0.1, 1.1, np.nan])).all()
        assert np.isnan(tail.cdf(np.nan))
    assert isinstance(tail.cdf(1.2), float)


@pytest.mark.parametrize("xi", SHAPES)
def test_quantiles_invert_the_distribution_function(xi):
    tail = GPDTail(-2.0, 3.0, xi, 0.1)
    q = np.linspace(0.001, 0.999, 99)
    np.testing.assert_allclose(tail.cdf(tail.ppf(q)), q, rtol=1e-10)
    np.testing.assert_allclose(tail.cdf(tail.ppf(q)) + tail.sf(tail.ppf(q)), 1, rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("u", (np.nan, 1, 0, 0.1)),
        ("sigma", (0, 0, 0, 0.1)),
        ("xi", (0, 1, -1.1, 0.1)),
        ("rho", (0, 1, 0, 0)),
        ("rho", (0, 1, 0, 1.1)),
    ],
)
def test_impossible_tails_raise_by_name(name, values):
    with pytest.raises(ValueError, match=name):
        GPDTail(*values)


# Tails of errors


@pytest.mark.parametrize(("n", "share", "k"), [(1000, 0.1, 100), (105, 0.1, 10), (30, 0.5, 15), (50, 1.0, 49)])
def test_the_tail_holds_the_asked_share_of_the_largest_errors(n, share, k):
    errors = pareto(0.2, n, 4)
    tail = fit_tail(np.random.default_rng(0).permutation(errors), share, warn=False)
    ordered = np.sort(errors)
    assert tail.u == ordered[n - k - 1]
    assert tail.n_excesses == k == np.count_nonzero(errors > tail.u)
    assert tail.rho == k / n
    sigma, xi, value, _ = fit_gpd(ordered[n - k :] - tail.u)
    assert (tail.sigma, tail.xi, tail.log_likelihood) == (sigma, xi, value)


def test_ties_with_the_threshold_are_not_in_the_tail():
    errors = np.r_[np.zeros(50), np.full(40, 1.0), 1 + np.arange(1, 13) / 10]
    tail = fit_tail(errors, 0.3, warn=False)
    assert (tail.u, tail.n_excesses, tail.rho) == (1.0, 12, 12 / 102)


def test_errors_that_tie_but_for_rounding_decide_no_tail():
    """As on binary attributes, where many samples are coded to the same error, epsilon, but for 1e-13."""
    errors = np.r_[np.linspace(0.0, 0.9, 50), np.full(60, 1.0)]
    rng = np.random.default_rng(0)
    shaken = [errors + 1e-13 * rng.normal(size=110) * (errors == 1.0) for _ in range(5)]
    for tail_size in (0.1, 0.3, "auto"):
        plain = fit_tail(errors, tail_size, warn=False)
        for r in shaken:
            tail = fit_tail(r, tail_size, warn=False)
            assert (tail.n_excesses, tail.outcome, tail.rho) == (plain.n_excesses, plain.outcome, plain.rho)
            assert (tail.u, tail.sigma, tail.xi) == pytest.approx((plain.u, plain.sigma, plain.xi), rel=1e-11)
    # All excesses one value but for rounding: no shape can be estimated.
    above = np.r_[np.arange(50) / 50, 2.0 + 1e-13 * rng.normal(size=50)]
    assert fit_tail(above, 0.1, warn=False).outcome == "ties"
    assert fit_tail(1.0 + 1e-13 * rng.normal(size=50), 0.1, warn=False).outcome == "degenerate"


def test_a_distribution_does_not_split_ties_of_rounding_size():
    rng = np.random.default_rng(1)
    errors = np.r_[rng.random(40), np.full(60, 1.0), 1.5 + rng.random(20)]
    shaken = errors + 1e-13 * rng.normal(size=120)
    one, other = (SplicedDistribution.fit(r, 0.1, warn=False) for r in (errors, shaken))
    at = np.r_[np.linspace(0, 3, 100), 1.0 + 1e-13 * rng.normal(size=20)]
    np.testing.assert_allclose(other.cdf(at), one.cdf(at), atol=1e-9)


@pytest.mark.parametrize(("lowest", "n"), [(0.0, 24), (-1000.0, 12)])
def test_ties_are_measured_against_the_largest_error(lowest, n):
    errors = np.r_[lowest, np.full(40, 1.0), 1 + 1e-9 * np.arange(1, 13), 1 + np.arange(1, 13) / 10]
    assert fit_tail(errors, 24 / len(errors), warn=False).n_excesses == n


def test_threshold_moves_below_errors_tied_at_the_top():
    with pytest.warns(TailWarning, match="different values"):
        tail = fit_tail(np.r_[np.arange(50) / 50, np.full(50, 2.0)], 0.1)
    assert (tail.u, tail.n_excesses, tail.outcome, tail.xi) == (0.98, 50, "ties", 0.0)
    assert tail.sigma == pytest.approx(1.02)


@pytest.mark.parametrize("k", range(1, 10))
def test_fewer_than_ten_excesses_give_an_exponential_tail_and_a_warning(k):
    errors = np.arange(100.0) ** 2
    with pytest.warns(TailWarning, match=f"Only {k} "):
        tail = fit_tail(errors, k / 100)
    z = errors[-k:] - errors[-k - 1]
    assert (tail.outcome, tail.xi, tail.n_excesses) == ("few", 0.0, k)
    assert tail.sigma == pytest.approx(z.mean())
    assert tail.log_likelihood == pytest.approx(stats.expon.logpdf(z, 0, z.mean()).sum())


@pytest.mark.parametrize("value", [0.0, 0.3, -5.0, 1e200])
@pytest.mark.parametrize("n", [1, 2, 40])
@pytest.mark.parametrize("tail_size", [0.1, 1.0, "auto"])
def test_equal_errors_give_a_degenerate_tail_that_still_ranks(value, n, tail_size):
    with pytest.warns(TailWarning, match="All errors equal"):
        d = SplicedDistribution.fit(np.full(n, value), tail_size)
    assert d.tail.outcome == "degenerate"
    assert d.tail.u == value
    assert d.tail.n_excesses == 0
    step = max(abs(value), 1.0) * np.array([-1e-3, -1e-10, 0.0, 1e-10, 1e-3, 10.0, 1e6])
    r = value + step
    assert (np.diff(d.logsf(r)[1:]) < 0).all()
    assert (np.diff(d.logcdf(r)[:4]) > 0).all()


def test_boundary_is_warned_about_and_silence_can_be_asked_for():
    errors = np.linspace(0, 1, 200) ** 0.5
    with pytest.warns(TailWarning, match="boundary"):
        tail = fit_tail(errors, 0.3)
    assert tail.outcome == "boundary"
    assert tail.end == pytest.approx(1.0)
    assert issubclass(TailWarning, SROSRWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_tail(errors, 0.3, warn=False)
        fit_tail(pareto(0.1, 500, 0), 0.3)


@pytest.mark.parametrize("bad", [[], [1.0, np.nan], [1.0, np.inf], [[1.0, 2.0]], "abc", None])
def test_bad_errors_raise_by_name(bad):
    with pytest.raises(ValueError, match="errors"):
        fit_tail(bad)


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.5, np.nan, "all", None, [0.1, 0.2]])
def test_bad_tail_size_raises_by_name(bad):
    with pytest.raises(ValueError, match="tail_size"):
        fit_tail(np.arange(20.0), bad)


def test_groups_of_another_length_raise():
    with pytest.raises(ValueError, match="groups"):
        fit_tail(np.arange(20.0), groups=np.arange(19))


# tail_size="auto"


def test_auto_takes_the_largest_share_for_a_true_pareto_distribution():
    shares = [fit_tail(pareto(0.1, 600, seed), "auto", warn=False).rho for seed in range(20)]
    assert np.median(shares) == 0.5


def test_auto_stops_where_the_body_begins():
    rng = np.random.default_rng(2)
    shares = [
        fit_tail(np.r_[rng.normal(0, 0.05, 1600), 1.0 + rng.exponential(0.3, 400)], "auto", warn=False).rho
        for _ in range(10)
    ]
    assert 0.1 <= np.median(shares) <= 0.2


def test_auto_counts_groups_and_not_their_repeats():
    rng = np.random.default_rng(5)
    with_groups, without = [], []
    for _ in range(10):
        errors = np.repeat(rng.exponential(size=100), 10) * (1 + 1e-3 * rng.normal(size=1000))
        with_groups.append(fit_tail(errors, "auto", groups=np.repeat(np.arange(100), 10), warn=False).rho)
        without.append(fit_tail(errors, "auto", warn=False).rho)
    assert np.median(with_groups) == 0.5
    assert np.median(without) < 0.3


def test_auto_keeps_ten_excesses_and_ten_groups_where_there_are_so_many():
    rng = np.random.default_rng(6)
    for n in (12, 25, 60):
        assert fit_tail(rng.normal(size=n) ** 3, "auto", warn=False).n_excesses >= 10
    errors = np.repeat(rng.exponential(size=30), 10) + 1e-4 * rng.random(300)
    groups = np.repeat(np.arange(30), 10)
    tail = fit_tail(errors, "auto", groups=groups, warn=False)
    assert len(np.unique(groups[errors > tail.u])) >= 10
    assert fit_tail(np.arange(5.0), "auto", warn=False).n_excesses == 4


# The spliced distribution


def spliced(xi, n=400, seed=0, tail_size=0.15):
    return SplicedDistribution.fit(1 + pareto(xi, n, seed), tail_size, warn=False)


@pytest.mark.parametrize("xi", [-0.9, -0.5, -0.2, 0.0, 0.5])
def test_splice_is_continuous_where_its_parts_meet(xi):
    d = spliced(xi)
    for point in [d.body[0], d.tail.u, *([d.joint] if d.tail.xi < 0 else [])]:
        eps = 1e-9 * d.tail.sigma
        for f in (d.cdf, d.sf, d.logsf, d.logcdf):
            assert f(point + eps) == pytest.approx(f(point - eps), rel=1e-5)
    assert d.cdf(d.tail.u) == 1 - d.tail.rho


def test_log_survival_goes_on_with_the_same_slope_at_the_joint():
    d = spliced(-0.5)
    assert d.tail.u < d.joint < d.tail.end
    h = 1e-5 * d.tail.sigma
    left = (d.logsf(d.joint) - d.logsf(d.joint - h)) / h
    right = (d.logsf(d.joint + h) - d.logsf(d.joint)) / h
    assert left == pytest.approx(right, rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("xi", [-1.0, -0.9, -0.5, -0.2, 0.0, 0.5])
def test_ranking_never_stops_beyond_the_errors(xi, seed):
    d = spliced(xi, seed=seed)
    far = d.tail.u + d.tail.sigma * np.geomspace(1e-6, 1e6, 5000)
    assert (np.diff(d.logsf(far)) < 0).all()
    assert np.isfinite(d.logsf(far)).all()
    low = d.body[0] - (d.tail.u - d.body[0]) * np.geomspace(1e-6, 1e6, 5000)
    assert (np.diff(d.logcdf(low)) < 0).all()


@pytest.mark.parametrize("xi", [-0.9, -0.2, 0.5])
def test_ranking_is_strict_in_the_body(xi):
    d = spliced(xi, n=3000)
    r = np.linspace(d.body[0] - 1, d.tail.u + 5 * d.tail.sigma, 20_000)
    assert (np.diff(d.logsf(r)) < 0).all()
    assert (np.diff(d.cdf(r[r < d.tail.u])) > 0).all()


@pytest.mark.parametrize("xi", [-0.9, -0.2, 0.0, 0.5])
def test_spliced_quantiles_invert_the_distribution_function(xi):
    d = spliced(xi)
    q = np.r_[1e-12, 1e-4, np.linspace(0.001, 0.999, 333), 0.9999]
    np.testing.assert_allclose(d.cdf(d.ppf(q)), q, rtol=1e-9)
    np.testing.assert_allclose(d.cdf(d.ppf(q)) + d.sf(d.ppf(q)), 1, rtol=1e-14)
    assert (d.ppf(0.0), d.ppf(1.0)) == (-np.inf, np.inf)
    assert np.isnan([d.ppf(-0.1), d.ppf(1.1), d.ppf(np.nan)]).all()


def test_body_is_the_empirical_distribution_with_ties_merged():
    errors = np.r_[1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 4.0, 5.0, 6.0, 9.0]
    d = SplicedDistribution.fit(errors, 0.1, warn=False)
    np.testing.assert_allclose(d.cdf([1, 2, 3, 4, 5, 6]), [0.2, 0.3, 0.6, 0.7, 0.8, 0.9])
    assert d.cdf(2.5) == pytest.approx(0.45)


def test_body_is_thinned_evenly_in_probability():
    errors = pareto(0.3, 20_000, 1)
    d = SplicedDistribution.fit(errors, 0.1, warn=False)
    assert len(d.body) <= 512
    ordered = np.sort(errors)
    assert np.abs(d.cdf(ordered) - np.arange(1, 20_001) / 20_000).max() < 0.01
    assert np.abs(d.cdf(ordered[:18_000]) - np.arange(1, 18_001) / 20_000).max() < 0.002


def test_distribution_can_be_stored_as_plain_arrays():
    d = spliced(-0.4)
    parts = d.body.tolist(), d.levels.tolist()
    tail = GPDTail(d.tail.u, d.tail.sigma, d.tail.xi, d.tail.rho)
    again = SplicedDistribution(*parts, tail, d.joint)
    r = np.linspace(0, 10, 101)
    np.testing.assert_array_equal(again.logsf(r), d.logsf(r))


def test_impossible_parts_raise_by_name():
    tail = GPDTail(1.0, 0.5, -0.5, 0.25)
    good = [0.0, 1.0], [0.25, 0.75], tail, 1.5
    SplicedDistribution(*good)
    for name, parts in [
        ("body", ([0.0, 0.5], *good[1:])),
        ("body", ([[0.0, 1.0]], *good[1:])),
        ("levels", (good[0], [0.0, 0.75], tail, 1.5)),
        ("levels", (good[0], [0.25, 0.7], tail, 1.5)),
        ("joint", (*good[:3], 2.0)),
    ]:
        with pytest.raises(ValueError, match=name):
            SplicedDistribution(*parts)


def test_spliced_distribution_is_total_and_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for xi in (-0.5, 0.5):
            d = spliced(xi)
            r = [-np.inf, -1e308, 1e308, np.inf]
            np.testing.assert_array_equal(d.cdf(r), [0, 0, 1, 1])
            assert list(d.sf(r)[[0, 1, 3]]) == [1, 1, 0]
            assert d.sf(1e308) < 1e-150
            assert np.isnan([d.cdf(np.nan), d.logsf(np.nan), d.logcdf(np.nan)]).all()


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 1e-300, 5e-324, -1.7e308, 1.7e308, 1 + 2e-16]),
)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(numbers, min_size=1, max_size=60), st.sampled_from([0.05, 0.3, 0.9, 1.0, "auto"]), st.booleans())
def test_no_errors_make_a_fit_fail(errors, tail_size, grouped):
    groups = np.arange(len(errors)) // 3 if grouped else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        d = SplicedDistribution.fit(errors, tail_size, groups=groups, warn=False)
        tail = d.tail
        assert np.isfinite([tail.u, tail.sigma, tail.xi, tail.rho]).all()
        assert tail.sigma > 0
        assert -1 <= tail.xi <= 10
        r = np.sort(errors)
        for f, sign in ((d.cdf, 1), (d.logcdf, 1), (d.sf, -1), (d.logsf, -1)):
            values = f(r)
            assert not np.isnan(values).any()
            low, high = (values[:-1], values[1:]) if sign > 0 else (values[1:], values[:-1])
            assert (low <= high + 1e-15).all()
        assert not np.isnan(d.ppf([0.0, 0.01, 0.5, 0.99, 1.0])).any()


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.lists(st.floats(0, allow_nan=False, allow_infinity=False), min_size=1, max_size=40).filter(any))
def test_no_excesses_make_the_maximization_fail(excesses):
    sigma, xi, value, _ = fit_gpd(excesses)
    assert np.isfinite([sigma, xi, value]).all()
    assert sigma > 0
    z = np.array(excesses)
    z = z[z > 0]
    assert value >= -len(z) * np.log(z.max()) - 1e-9 * len(z)

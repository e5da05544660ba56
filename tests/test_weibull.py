"""Weibull fits and distributions, against SciPy, the profile equation and exact arithmetic."""

import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same import TOLERANCE, check_same
from scale import examples
from scipy import stats

from srosr.tails.weibull import MAX_SHAPE, Weibull, fit_weibull


def sample(shape, n, seed, scale=1.0):
    return scale * np.random.default_rng(seed).weibull(shape, n)


def likelihood(x, shape, scale):
    """Compute the likelihood by its formula, in plain NumPy."""
    z = np.log(x / scale)
    return len(x) * np.log(shape / scale) + (shape - 1) * z.sum() - np.exp(shape * z).sum()


def best_scale(x, shape):
    return x.max() * np.mean((x / x.max()) ** shape) ** (1 / shape)


# Fitting


@pytest.mark.parametrize("case", range(120))
def test_likelihood_is_at_least_that_of_scipy(case):
    rng = np.random.default_rng(case)
    n = 2 if case < 10 else int(np.exp(rng.uniform(np.log(2), np.log(2000))))
    x = sample(np.exp(rng.uniform(np.log(0.2), np.log(50))), n, rng, 10 ** rng.uniform(-8, 8))
    fit = fit_weibull(x)
    found = likelihood(x, fit.shape, fit.scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape, _, scale = stats.weibull_min.fit(x, floc=0)
    if shape > MAX_SHAPE:
        shape, scale = MAX_SHAPE, best_scale(x, MAX_SHAPE)
    other = likelihood(x, shape, scale)
    assert not found < other - 1e-9 * max(1, abs(other))


@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0, 3.0, 20.0, 50.0])
@pytest.mark.parametrize("n", [2, 3, 20, 500])
def test_profile_equation_holds_to_rounding(shape, n):
    """In decimals of forty digits: the equation has its root within rounding of the shape that was found."""
    for seed in range(3):
        x = sample(shape, n, 10 * n + seed, 10.0 ** (3 * seed - 3))
        found = fit_weibull(x)
        assert found.shape < MAX_SHAPE
        with localcontext() as context:
            context.prec = 40
            values = [Decimal(float(v)) for v in x]
            logs = [v.ln() for v in values]
            mean = sum(logs) / n

            def equation(kappa, logs=logs, mean=mean):
                powers = [(kappa * t).exp() for t in logs]
                return sum(p * t for p, t in zip(powers, logs, strict=True)) / sum(powers) - 1 / kappa - mean

            kappa = Decimal(float(found.shape))
            slack = Decimal("2e-13")
            assert equation(kappa * (1 - slack)) < 0 < equation(kappa * (1 + slack))
            scale = (sum((kappa * t).exp() for t in logs) / n).ln() / kappa
            assert abs(Decimal(float(found.scale)) / scale.exp() - 1) < Decimal("1e-12")


def test_no_point_of_a_dense_grid_of_shape_and_scale_is_better():
    for seed, shape in enumerate([0.3, 1.0, 4.0, 30.0]):
        x = sample(shape, 15, seed)
        fit = fit_weibull(x)
        best = likelihood(x, fit.shape, fit.scale)
        for kappa in fit.shape * np.geomspace(0.2, 5, 101):
            for scale in fit.scale * np.geomspace(0.5, 2, 101) ** (1 / shape):
                assert likelihood(x, kappa, scale) <= best + 1e-9


@pytest.mark.parametrize("shape", [0.2, 1.0, 7.0, 50.0])
def test_parameters_are_recovered_from_many_values(shape):
    n = 200_000
    fit = fit_weibull(sample(shape, n, 5, 1e-3))
    # Asymptotic standard errors 0.78 κ/√n and 1.05 λ/(κ√n).
    assert fit.shape == pytest.approx(shape, rel=4 * 0.78 / np.sqrt(n))
    assert fit.scale == pytest.approx(1e-3, rel=4 * 1.05 / (shape * np.sqrt(n)))


positive = st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=30)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(positive, st.floats(1e-250, 1e250))
def test_fit_is_scale_equivariant(values, factor):
    x = np.array(values)
    fit, scaled = fit_weibull(x), fit_weibull(factor * x)
    # Rounding of the products alone moves values that are nearly equal.
    slack = 1e-11 + 1e-15 * float(fit.shape)
    if fit.shape < MAX_SHAPE / 2:
        assert scaled.shape == pytest.approx(fit.shape, rel=slack)
    assert scaled.scale == pytest.approx(factor * fit.scale, rel=1e-11)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=30), st.sampled_from([2, 3, 5, 9]))
def test_a_power_of_the_values_divides_the_shape(values, power):
    x = np.array(values, dtype=np.float64)  # whose powers are exact, or nearly so
    fit, raised = fit_weibull(x), fit_weibull(x**power)
    if (x == x[0]).all():
        assert raised.shape == fit.shape == MAX_SHAPE
        return
    assert raised.shape == pytest.approx(fit.shape / power, rel=1e-12)
    assert raised.scale == pytest.approx(fit.scale**power, rel=1e-11)


@pytest.mark.parametrize("n", [1, 2, 7, 64, 1001])
def test_rows_of_a_batch_are_the_single_fits(n):
    rng = np.random.default_rng(n)
    x = rng.weibull(np.exp(rng.uniform(-2, 4, size=(300, 1))), (300, n))
    x[7] = 0.0
    x[9, 0] = 0.0
    x[11] = 3.0
    together = fit_weibull(x)
    assert together.shape.shape == together.scale.shape == (300,)
    alone = [fit_weibull(row) for row in x]
    np.testing.assert_allclose(together.shape, [fit.shape for fit in alone], rtol=TOLERANCE)
    np.testing.assert_allclose(together.scale, [fit.scale for fit in alone], rtol=TOLERANCE)
    assert alone[0].shape.shape == ()


def test_order_of_memory_does_not_matter():
    x = sample(2.0, (40, 30), 1)
    first, second = fit_weibull(x), fit_weibull(np.asfortranarray(x))
    check_same([second.shape, second.scale], [first.shape, first.scale])


# Values without a maximum of the likelihood


@pytest.mark.parametrize("value", [5e-300, 1e-8, 1.0, 3.7, 1e300])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_equal_values_are_a_step_of_the_largest_shape(value, n):
    fit = fit_weibull(np.full(n, value))
    assert fit.shape == MAX_SHAPE
    assert fit.scale == pytest.approx(value, rel=1e-12)
    assert fit.cdf(0.998 * value) < 1e-6
    assert fit.cdf(1.002 * value) == 1.0


def test_values_that_are_nearly_equal_stop_at_the_largest_shape_with_its_best_scale():
    x = 2.0 + 1e-9 * np.arange(20)
    fit = fit_weibull(x)
    assert fit.shape == MAX_SHAPE
    assert fit.scale == pytest.approx(best_scale(x, MAX_SHAPE), rel=1e-12)
    narrow = fit_weibull(2.0 + 1e-3 * np.arange(20))
    assert narrow.shape < MAX_SHAPE


def test_zeros_count_as_values_below_the_resolution_of_the_largest():
    eps = np.finfo(np.float64).eps
    x = np.r_[0.0, 0.0, sample(2.0, 20, 3)]
    y = x.copy()
    y[3] = 1e-30
    for values, smallest in ((x, eps * x.max()), (y, 1e-30)):
        fit, raised = fit_weibull(values), fit_weibull(np.where(values > 0, values, smallest))
        assert fit.shape == pytest.approx(raised.shape, rel=1e-12)
        assert fit.scale == pytest.approx(raised.scale, rel=1e-12)


def test_the_more_zeros_the_nearer_to_zero():
    x = np.sort(sample(2.0, 20, 4))
    medians = []
    for zeros in range(20):
        x[:zeros] = 0.0
        fit = fit_weibull(x)
        medians.append(fit.scale * np.log(2) ** (1 / fit.shape))
    assert (np.diff(medians) < 0).all()


@pytest.mark.parametrize("n", [1, 2, 30])
def test_zeros_alone_are_a_step_at_zero(n):
    fit = fit_weibull(np.zeros(n))
    assert fit.shape == MAX_SHAPE
    np.testing.assert_array_equal(fit.cdf([-1.0, 0.0, 1e-300, 1.0]), [0, 0, 1, 1])
    np.testing.assert_array_equal(fit.sf([-1.0, 0.0, 1e-300, 1.0]), [1, 1, 0, 0])


anything = st.one_of(
    st.floats(0, allow_nan=False, allow_infinity=False),
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 1e-300, 5e-324, 1.7e308, 1 + 2e-16]),
)


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.lists(anything, min_size=1, max_size=40))
def test_no_values_make_a_fit_fail(values):
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        fit = fit_weibull(values)
        assert np.isfinite([fit.shape, fit.scale]).all()
        assert 0 < fit.shape <= MAX_SHAPE
        tiny = np.finfo(np.float64).tiny
        assert 0 < fit.scale <= max(tiny, max(values) * (1 + 1e-12))
        if min(values) > 0:
            assert fit.scale >= min(values) * (1 - 1e-12)
        x = np.sort(values)
        for f, sign in ((fit.cdf, 1), (fit.logcdf, 1), (fit.sf, -1), (fit.logsf, -1)):
            out = sign * f(x)
            assert not np.isnan(out).any()
            slack = 1e-9 * np.abs(np.maximum(out[1:], -1e300))
            assert (out[:-1] <= out[1:] + slack).all()


@pytest.mark.parametrize(
    "bad",
    [
        *([], [[]], np.ones((0, 3)), 1.0, np.ones((2, 2, 2)), "abc", None, [[1.0, 2.0], [1.0]]),
        *([1.0, np.nan], [1.0, np.inf], [1.0, -1e-9]),
    ],
)
def test_bad_values_raise_by_name(bad):
    with pytest.raises(ValueError, match="values"):
        fit_weibull(bad)


# The distribution


@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 3.0, 40.0])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_functions_agree_with_scipy(shape, scale):
    ours, other = Weibull(shape, scale), stats.weibull_min(shape, scale=scale)
    x = scale * np.r_[-1.0, 0.0, np.geomspace(0.01, 20, 200) ** (1 / shape), 1.0]
    with np.errstate(divide="ignore"):
        for name in ("cdf", "sf", "logsf"):
            np.testing.assert_allclose(getattr(ours, name)(x), getattr(other, name)(x), rtol=2e-12, err_msg=name)
        np.testing.assert_allclose(ours.logcdf(x), np.log(other.cdf(x)), rtol=2e-12, atol=1e-15)


@pytest.mark.parametrize("shape", [0.5, 2.0, 40.0, MAX_SHAPE])
def test_both_tails_are_exact_where_probabilities_round_to_zero_and_one(shape):
    d = Weibull(shape, 3.0)
    hazard = np.array([1e-150, 1e-60, 1e-20, 1e-9, 1e-3, 0.5, np.log(2), 0.8, 5.0, 36.0, 500.0])
    # The shape multiplies the rounding of x/3 in this reference; ours loses |log hazard| times rounding, 1e-13 at most.
    x = 3.0 * hazard ** (1 / shape)
    true = (x / 3.0).astype(np.longdouble) ** np.longdouble(shape)
    slack = 1e-15 * (100 + shape)
    np.testing.assert_allclose(d.logsf(x), -true, rtol=slack)
    np.testing.assert_allclose(d.cdf(x), -np.expm1(-true), rtol=slack)
    np.testing.assert_allclose(d.sf(x), np.exp(-true), rtol=1e-12 + 600 * 1e-15 * shape)
    small = true < 0.7
    logs = np.r_[np.log(-np.expm1(-true[small])), np.log1p(-np.exp(-true[~small]))]
    np.testing.assert_allclose(d.logcdf(x), logs, rtol=1e-12 + 600 * 1e-15 * shape)
    assert d.logcdf(1e-300) == pytest.approx(shape * (np.log(1e-300) - np.log(3.0)), rel=1e-12)


def test_functions_are_total_and_silent():
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        for d in (Weibull(0.3, 1.0), Weibull(MAX_SHAPE, 1e-300), Weibull(2.0, 1e300)):
            x = [-np.inf, -1.0, 0.0, np.inf]
            np.testing.assert_array_equal(d.cdf(x), [0, 0, 0, 1])
            np.testing.assert_array_equal(d.sf(x), [1, 1, 1, 0])
            np.testing.assert_array_equal(d.logcdf(x), [-np.inf, -np.inf, -np.inf, 0])
            np.testing.assert_array_equal(d.logsf(x), [0, 0, 0, -np.inf])
            assert np.isnan([d.cdf(np.nan), d.sf(np.nan), d.logcdf(np.nan), d.logsf(np.nan)]).all()
            for f in (d.cdf, d.sf, d.logcdf, d.logsf):
                assert not np.isnan(f([5e-324, 1e-300, 1e300, 1.7e308])).any()


def test_parameters_broadcast_against_values():
    d = Weibull([1.0, 2.0, 3.0], [1.0, 1.0, 2.0])
    x = np.linspace(0, 2, 5)[:, None]
    out = d.cdf(x)
    assert out.shape == (5, 3)
    for j, (shape, scale) in enumerate(zip(d.shape, d.scale, strict=True)):
        check_same(out[:, j], Weibull(shape, scale).cdf(x[:, 0]))
    assert isinstance(Weibull(1.0, 1.0).cdf(0.5), float)


def test_impossible_parameters_raise_by_name():
    for name, parts in [
        ("shape", (0.0, 1.0)),
        ("shape", (np.nan, 1.0)),
        ("scale", (1.0, -1.0)),
        ("scale", (1.0, [1.0, np.inf])),
        ("broadcast", ([1.0, 2.0], [1.0, 2.0, 3.0])),
    ]:
        with pytest.raises(ValueError, match=name):
            Weibull(*parts)


def test_parameters_cannot_be_changed():
    fit = fit_weibull([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        fit.shape[()] = 3.0

r"""Statistics over trials: means with confidence intervals, and paired comparisons of methods.

Everything starts from the table ``results`` of an experiment, which has a row per trial, openness, method and metric.
:func:`values_at` and :func:`average_over_levels` reduce it to one number per trial and method; :func:`summarize` and
:func:`compare_methods` evaluate these numbers. Missing values (NaN) are ignored.

All intervals are Student's, over trials. Trials are draws from one set of samples, so the intervals apply to other
draws from that set, not to other sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from .._support.array_types import Array
from .._support.parameter_checks import check_rate

if TYPE_CHECKING:
    import pandas as pd

#: The interval of two values is thirteen standard errors wide on either side, too wide to be of use.
LEAST_FOR_INTERVAL = 3
# Differences that are equal up to rounding, such as 0.3 - 0.2 and 0.1, must tie.
_DECIMALS = 12


class Level(NamedTuple):
    """A level of openness and its number of unknown classes."""

    openness: float
    n_unknown: int


@dataclass(frozen=True)
class MeanInterval:
    """The mean of n values with its standard error and the half width of its confidence interval.

    The standard error of fewer than two values and the half width of fewer than three are NaN.
    """

    n: int
    mean: float
    standard_error: float
    half_width: float

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.half_width


def mean_interval(values: Any, confidence: float = 0.95) -> MeanInterval:
    r"""Return the mean of values (NaN is ignored) with Student's confidence interval.

    .. math:: \bar v \pm t_{n-1}\left(\tfrac{1+c}{2}\right) \frac{s}{\sqrt n}

    Examples
    --------
    >>> from srosr.experiments.statistics import mean_interval
    >>> found = mean_interval([1.0, 2.0, 3.0])
    >>> found.n, found.mean, round(found.half_width, 3)  # t(0.975; 2) = 4.303
    (3, 2.0, 2.484)
    """
    check_rate("confidence", confidence)
    kept = np.asarray(values, dtype=np.float64).ravel()
    kept = kept[~np.isnan(kept)]
    n = len(kept)
    if n < 2:
        return MeanInterval(n, float(kept[0]) if n else math.nan, math.nan, math.nan)
    error = float(np.std(kept, ddof=1) / math.sqrt(n))
    errors = float(stats.t.ppf((1.0 + confidence) / 2.0, n - 1)) if n >= LEAST_FOR_INTERVAL else math.nan
    return MeanInterval(n, float(np.mean(kept)), error, errors * error)


# -- from the table of results ------------------------------------------------------------------------------


def find_levels(results: pd.DataFrame, metric: str) -> list[Level]:
    """Return the levels of openness at which a metric has values, in rising order."""
    rows = _select_metric(results, metric)
    found = rows.loc[rows["value"].notna(), ["openness", "n_unknown"]].drop_duplicates()
    return sorted(Level(float(o), int(n)) for o, n in zip(found["openness"], found["n_unknown"], strict=True))


def values_at(results: pd.DataFrame, metric: str, level: Level) -> pd.DataFrame:
    """Return the values of a metric at one level of openness, with a row per trial and a column per method."""
    rows = _select_metric(results, metric)
    return _pivot_trials(rows[(rows["openness"] == level.openness) & (rows["n_unknown"] == level.n_unknown)])


def average_over_levels(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the mean of a metric over all levels of openness, with a row per trial and a column per method.

    If a method lacks a level that other methods have in a trial, its mean is NaN, since means over different levels
    cannot be compared.
    """
    each = [values_at(results, metric, level) for level in find_levels(results, metric)]
    if not each:
        return _pivot_trials(_select_metric(results, metric)[:0])
    # The sum of two tables has the rows and columns of both, with NaN where one of them has no value.
    return sum(each[1:], each[0]) / len(each)


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric of one method against openness.

    The half width of the 95 % interval is NaN for fewer than three trials; ``n_trials`` have a value at any level.
    """

    openness: Array
    mean: Array
    half_width: Array
    n_trials: int

    @property
    def low(self) -> Array:
        """Lower ends of the intervals, at least zero, since the metrics are shares."""
        return np.maximum(self.mean - self.half_width, 0.0)

    @property
    def high(self) -> Array:
        """Upper ends of the intervals, at most one."""
        return np.minimum(self.mean + self.half_width, 1.0)


def compute_curves(results: pd.DataFrame, metric: str) -> dict[str, Curve]:
    """Return the curve of a metric against openness for every method that has a value, in alphabetical order."""
    steps = find_levels(results, metric)
    openness = np.array([step.openness for step in steps])
    summaries = [summarize(values_at(results, metric, step)) for step in steps]
    rows = _select_metric(results, metric)
    trials = rows[rows["value"].notna()].groupby("method")["trial"].nunique()
    drawn = {}
    for method in sorted(trials.index):
        mean, half = (
            np.array([one.at[method, column] if method in one.index else np.nan for one in summaries])
            for column in ("mean", "half_width")
        )
        drawn[str(method)] = Curve(openness, mean, half, int(trials[method]))
    return drawn


def _select_metric(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    missing = {"trial", "n_unknown", "openness", "method", "metric", "value"} - set(results.columns)
    if missing:
        raise ValueError(f"results lacks the columns {sorted(missing)}; pass the results table of an experiment.")
    return results[results["metric"] == metric]


def _pivot_trials(rows: pd.DataFrame) -> pd.DataFrame:
    twice = rows.duplicated(["trial", "method"])
    if twice.any():
        first = rows[twice].iloc[0]
        raise ValueError(
            f"results has trial {first['trial']} of method {first['method']!r} twice for one metric and openness; "
            "pass the results of one experiment, each trial once."
        )
    return rows.pivot(index="trial", columns="method", values="value").astype(np.float64)


# -- from values by trial -----------------------------------------------------------------------------------


def summarize(values: pd.DataFrame) -> pd.DataFrame:
    """Return n, mean, standard_error and half_width of the 95 % interval of each method.

    ``values`` has a row per trial and a column per method; methods without values are left out.
    """
    import pandas as pd

    found = {method: mean_interval(values[method]) for method in values.columns}
    kept = {method: vars(interval) for method, interval in found.items() if interval.n}
    columns = ["n", "mean", "standard_error", "half_width"]
    return pd.DataFrame.from_dict(kept, orient="index", columns=columns).rename_axis("method")


def paired_differences(values: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the paired differences between one method and every other.

    Returns
    -------
    differences : DataFrame
        By other method, over the trials that both have: n, the mean ``difference`` (reference minus other), the ends
        ``low`` and ``high`` of its 95 % interval, and the number of trials in which the reference has the larger, the
        same and the smaller value (``larger``, ``ties``, ``smaller``). Methods without a common trial are left out.
    """
    import pandas as pd

    if reference not in values.columns:
        raise ValueError(f"reference {reference!r} is not one of the methods {list(values.columns)}.")
    rows = {}
    for method in values.columns.drop(reference):
        difference = _pair_differences(values, reference, method)
        if not len(difference):
            continue
        found = mean_interval(difference)
        outcomes = (int(np.sum(np.sign(difference) == sign)) for sign in (1, 0, -1))
        rows[method] = (found.n, found.mean, found.low, found.high, *outcomes)
    columns = ["n", "difference", "low", "high", "larger", "ties", "smaller"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("method")


def _pair_differences(values: pd.DataFrame, reference: str, other: str) -> Array:
    """Return the differences of two methods over the trials that both have."""
    both = values[[reference, other]].dropna()
    return np.round((both[reference] - both[other]).to_numpy(dtype=np.float64), _DECIMALS)


def compare_methods(values: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Compare one method with every other by paired tests.

    The table of :func:`paired_differences` has two more columns: the p-value ``p`` of Wilcoxon's signed-rank test, and
    ``p_holm``, which is corrected for the number of methods.

    References
    ----------
    F. Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979.

    Examples
    --------
    >>> import pandas as pd
    >>> from srosr.experiments.statistics import compare_methods
    >>> values = pd.DataFrame({"ours": [0.9, 0.8, 0.7], "other": [0.5, 0.8, 0.4]})
    >>> found = compare_methods(values, "ours").loc["other"]
    >>> round(float(found["difference"]), 3), int(found["larger"]), int(found["ties"]), float(found["p"])
    (0.233, 2, 1, 0.5)
    """
    table = paired_differences(values, reference)
    p = np.array([signed_rank_p(_pair_differences(values, reference, other)) for other in table.index])
    return table.assign(p=p, p_holm=holm(p))


def signed_rank_p(difference: Any) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test.

    Zeros are left out, as Wilcoxon did; if nothing is left, the p-value is 1.
    """
    kept = np.asarray(difference, dtype=np.float64)
    kept = kept[kept != 0]
    if not len(kept):
        return 1.0
    return float(stats.wilcoxon(kept).pvalue)


def holm(p: Any) -> Array:
    r"""Return p-values with Holm's correction, which controls the chance of any false positive among all comparisons.

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min\{1, (m - j + 1)\, p_{(j)}\}

    Examples
    --------
    >>> from srosr.experiments.statistics import holm
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    factors = np.arange(len(values), 0, -1)
    corrected = np.empty_like(values)
    corrected[order] = np.maximum.accumulate(np.minimum(factors * values[order], 1.0))
    return corrected

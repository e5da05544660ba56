r"""What trials come to: means with their intervals, and methods compared trial by trial.

Everything starts from the table ``results`` of an experiment, which has a row for each trial, openness, method and
metric. :func:`values_at` and :func:`values_averaged` turn it into one number for each trial and method;
:func:`summarise` and :func:`compare` say what these numbers are worth. Values that are missing (NaN) count nowhere.

All intervals are Student's, over trials. Trials draw anew from one set of samples, so that the intervals speak of other
draws from that set, not of other sets.
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

__all__ = [
    "LEAST_FOR_INTERVAL",
    "Curve",
    "Interval",
    "Level",
    "compare",
    "curves",
    "holm",
    "levels",
    "mean_interval",
    "paired_differences",
    "signed_rank_p",
    "summarise",
    "values_at",
    "values_averaged",
]

#: Two values have an interval on paper, thirteen standard errors to either side, which tells nothing.
LEAST_FOR_INTERVAL = 3
# Differences of shares such as 0.3 - 0.2 and 0.1 are the same up to rounding, and must tie.
_DECIMALS = 12


class Level(NamedTuple):
    """A level of openness: its share, and how many unknown classes make it."""

    openness: float
    n_unknown: int


@dataclass(frozen=True)
class Interval:
    """A mean over n values with its standard error and half the width of its interval.

    The error of fewer than two values and the width of fewer than three are NaN.
    """

    n: int
    mean: float
    standard_error: float
    half_width: float

    @property
    def low(self) -> float:
        """The lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.half_width


def mean_interval(values: Any, confidence: float = 0.95) -> Interval:
    r"""Mean of values with Student's interval.

    .. math:: \bar v \pm t_{n-1}\left(\tfrac{1+c}{2}\right) \frac{s}{\sqrt n}

    Parameters
    ----------
    values : array-like
        NaN is left out.
    confidence : float in (0, 1), default 0.95

    Returns
    -------
    interval : Interval
        Of a single value, standard error and width are NaN: one value says nothing about its spread. Two values have
        an error, but no width.

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
        return Interval(n, float(kept[0]) if n else math.nan, math.nan, math.nan)
    error = float(np.std(kept, ddof=1) / math.sqrt(n))
    errors = float(stats.t.ppf((1.0 + confidence) / 2.0, n - 1)) if n >= LEAST_FOR_INTERVAL else math.nan
    return Interval(n, float(np.mean(kept)), error, errors * error)


# -- from the table of results ------------------------------------------------------------------------------


def levels(results: pd.DataFrame, metric: str) -> list[Level]:
    """The levels of openness at which a metric has values, in rising order.

    Parameters
    ----------
    results : DataFrame
        With the columns trial, n_unknown, openness, method, metric and value.
    metric : str
    """
    rows = _rows(results, metric)
    found = rows.loc[rows["value"].notna(), ["openness", "n_unknown"]].drop_duplicates()
    return sorted(Level(float(o), int(n)) for o, n in zip(found["openness"], found["n_unknown"], strict=True))


def values_at(results: pd.DataFrame, metric: str, level: Level) -> pd.DataFrame:
    """The values of a metric at one openness: a row a trial, a column a method.

    Parameters
    ----------
    results : DataFrame
    metric : str
    level : Level
        One of :func:`levels`.
    """
    rows = _rows(results, metric)
    return _by_trial(rows[(rows["openness"] == level.openness) & (rows["n_unknown"] == level.n_unknown)])


def values_averaged(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The mean of a metric over all levels of openness: a row a trial, a column a method.

    A trial in which a method lacks a level that others have is left out for this method (NaN): a mean over the easier
    levels alone would not compare.

    Parameters
    ----------
    results : DataFrame
    metric : str
    """
    each = [values_at(results, metric, level) for level in levels(results, metric)]
    if not each:
        return _by_trial(_rows(results, metric)[:0])
    trials = sorted(set().union(*(one.index for one in each)))
    methods = sorted(set().union(*(one.columns for one in each)))
    full = [one.reindex(index=trials, columns=methods) for one in each]
    import pandas as pd

    mean = np.mean([one.to_numpy() for one in full], axis=0)
    return pd.DataFrame(mean, index=pd.Index(trials, name="trial"), columns=pd.Index(methods, name="method"))


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric of one method against openness.

    Attributes
    ----------
    openness, mean, half_width : ndarray (n_levels,)
        Half the width of the 95 % interval is NaN where there are fewer than three trials.
    n_trials : int
        Trials with a value at any level.
    """

    openness: Array
    mean: Array
    half_width: Array
    n_trials: int

    @property
    def low(self) -> Array:
        """Lower ends of the intervals; the metrics are shares, and none is below zero."""
        return np.maximum(self.mean - self.half_width, 0.0)

    @property
    def high(self) -> Array:
        """Upper ends of the intervals, at most one."""
        return np.minimum(self.mean + self.half_width, 1.0)


def curves(results: pd.DataFrame, metric: str) -> dict[str, Curve]:
    """Mean and interval of a metric at every openness, for every method that has a value, in alphabetical order.

    Parameters
    ----------
    results : DataFrame
    metric : str
    """
    steps = levels(results, metric)
    openness = np.array([step.openness for step in steps])
    summaries = [summarise(values_at(results, metric, step)) for step in steps]
    rows = _rows(results, metric)
    trials = rows[rows["value"].notna()].groupby("method")["trial"].nunique()
    drawn = {}
    for method in sorted(trials.index):
        mean, half = (
            np.array([one.at[method, column] if method in one.index else np.nan for one in summaries])
            for column in ("mean", "half_width")
        )
        drawn[str(method)] = Curve(openness, mean, half, int(trials[method]))
    return drawn


def _rows(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    missing = {"trial", "n_unknown", "openness", "method", "metric", "value"} - set(results.columns)
    if missing:
        raise ValueError(f"results lacks the columns {sorted(missing)}; pass the table of results of an experiment.")
    return results[results["metric"] == metric]


def _by_trial(rows: pd.DataFrame) -> pd.DataFrame:
    twice = rows.duplicated(["trial", "method"])
    if twice.any():
        first = rows[twice].iloc[0]
        raise ValueError(
            f"results has trial {first['trial']} of method {first['method']!r} twice for one metric and openness; "
            "pass the results of one experiment, each trial once."
        )
    return rows.pivot(index="trial", columns="method", values="value").astype(np.float64)


# -- what numbers by trial are worth ------------------------------------------------------------------------


def summarise(values: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard error and interval of each method.

    Parameters
    ----------
    values : DataFrame
        A row a trial, a column a method.

    Returns
    -------
    summary : DataFrame
        By method: n, mean, standard_error and half_width of the 95 % interval. Methods without a value are left out.
    """
    import pandas as pd

    found = {method: mean_interval(values[method]) for method in values.columns}
    kept = {method: vars(interval) for method, interval in found.items() if interval.n}
    columns = ["n", "mean", "standard_error", "half_width"]
    return pd.DataFrame.from_dict(kept, orient="index", columns=columns).rename_axis("method")


def paired_differences(values: pd.DataFrame, reference: str) -> pd.DataFrame:
    r"""How far one method lies from every other, trial by trial.

    Parameters
    ----------
    values : DataFrame
        A row a trial, a column a method.
    reference : str
        The method that is compared with the others.

    Returns
    -------
    differences : DataFrame
        By other method, over the trials that both have: n, the mean ``difference`` (reference minus other), the ends
        ``low`` and ``high`` of its 95 % interval, and in how many trials the reference had the larger value, the same
        and the smaller (``larger``, ``ties``, ``smaller``). Methods without a trial in common are left out.
    """
    import pandas as pd

    if reference not in values.columns:
        raise ValueError(f"reference, {reference!r}, is not among the methods {list(values.columns)}.")
    rows = {}
    for method in values.columns.drop(reference):
        difference = _difference(values, reference, method)
        if not len(difference):
            continue
        found = mean_interval(difference)
        rows[method] = {
            "n": found.n,
            "difference": found.mean,
            "low": found.low,
            "high": found.high,
            "larger": int(np.sum(difference > 0)),
            "ties": int(np.sum(difference == 0)),
            "smaller": int(np.sum(difference < 0)),
        }
    columns = ["n", "difference", "low", "high", "larger", "ties", "smaller"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("method")


def _difference(values: pd.DataFrame, reference: str, other: str) -> Array:
    """Differences of two methods over the trials that both have."""
    both = values[[reference, other]].dropna()
    return np.round((both[reference] - both[other]).to_numpy(dtype=np.float64), _DECIMALS)


def compare(values: pd.DataFrame, reference: str) -> pd.DataFrame:
    r"""One method against every other, trial by trial, with tests.

    Parameters
    ----------
    values : DataFrame
        A row a trial, a column a method.
    reference : str
        The method that is compared with the others.

    Returns
    -------
    comparison : DataFrame
        As :func:`paired_differences` has it, with the p-value ``p`` of Wilcoxon's signed-rank test and ``p_holm``,
        which is corrected for the number of methods.

    References
    ----------
    F. Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979.

    Examples
    --------
    >>> import pandas as pd
    >>> from srosr.experiments.statistics import compare
    >>> values = pd.DataFrame({"ours": [0.9, 0.8, 0.7], "other": [0.5, 0.8, 0.4]})
    >>> found = compare(values, "ours").loc["other"]
    >>> round(float(found["difference"]), 3), int(found["larger"]), int(found["ties"]), float(found["p"])
    (0.233, 2, 1, 0.5)
    """
    table = paired_differences(values, reference)
    p = np.array([signed_rank_p(_difference(values, reference, other)) for other in table.index])
    return table.assign(p=p, p_holm=holm(p))


def signed_rank_p(difference: Any) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test: could the differences as well have the other sign?

    Parameters
    ----------
    difference : array-like (n,)
        Zeros are left out, as Wilcoxon did; where nothing is left the p-value is 1.
    """
    kept = np.asarray(difference, dtype=np.float64)
    kept = kept[kept != 0]
    if not len(kept):
        return 1.0
    return float(stats.wilcoxon(kept).pvalue)


def holm(p: Any) -> Array:
    r"""Holm's correction of p-values, so that below 0.05 any false alarm among all comparisons has a chance of 5 %.

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min\{1, (m - j + 1)\, p_{(j)}\}

    Parameters
    ----------
    p : array-like (m,)

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

"""What the statistics of experiments promise: textbook intervals and tests, over the trials that methods share."""

import doctest
import math
from itertools import chain, combinations, product

import numpy as np
import pandas as pd
import pytest
from experiment_tables import PAPER, failing, made_up, openness_of, without
from scipy import stats

from srosr.experiments import statistics
from srosr.experiments.statistics import (
    Level,
    average_over_levels,
    compare_methods,
    compute_curves,
    find_levels,
    holm,
    mean_interval,
    paired_differences,
    signed_rank_p,
    summarize,
    values_at,
)

RNG = np.random.default_rng(0)


def table(rows):
    """Return a table of results from (trial, n_unknown, method, metric, value)."""
    return pd.DataFrame(
        [("x", trial, n, openness_of(n), method, metric, value) for trial, n, method, metric, value in rows],
        columns=["experiment", "trial", "n_unknown", "openness", "method", "metric", "value"],
    )


# --- intervals ---


@pytest.mark.parametrize("n", [3, 5, 50])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_is_that_of_scipys_t_test(n, confidence):
    values = RNG.normal(0.7, 0.1, n)
    found = mean_interval(values, confidence)
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(confidence)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
    assert found.standard_error == pytest.approx(stats.sem(values)) and found.n == n


def test_a_hand_worked_interval():
    # Mean 2, standard deviation 1, n 3, t(0.975; 2) = 4.302653.
    found = mean_interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0 and found.half_width == pytest.approx(4.302653 / math.sqrt(3), abs=1e-6)


def test_missing_values_count_nowhere():
    assert mean_interval([1.0, math.nan, 3.0, 4.0]) == mean_interval([1.0, 3.0, 4.0])


def test_one_value_has_a_mean_and_no_interval():
    found = mean_interval([0.5])
    assert found.n == 1 and found.mean == 0.5 and math.isnan(found.half_width) and math.isnan(found.standard_error)


def test_two_values_have_an_error_and_no_interval():
    found = mean_interval([0.5, 0.7])
    assert found.n == 2 and found.mean == pytest.approx(0.6) and found.standard_error == pytest.approx(0.1)
    assert math.isnan(found.half_width)


def test_no_value_has_no_mean():
    assert mean_interval([]).n == 0 and math.isnan(mean_interval([math.nan]).mean)


def test_equal_values_have_an_interval_of_no_width():
    assert mean_interval([0.25] * 7).half_width == 0.0


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, "much"])
def test_a_confidence_outside_0_and_1_raises_an_error(confidence):
    with pytest.raises(ValueError, match="confidence must be a number between 0 and 1"):
        mean_interval([1.0, 2.0], confidence)


# --- values by trial ---


def test_levels_rise_and_leave_out_those_without_a_value():
    results = table([(0, 4, "a", "f", 0.5), (0, 0, "a", "f", math.nan), (0, 2, "a", "f", 0.6), (0, 6, "a", "g", 0.1)])
    assert find_levels(results, "f") == [Level(openness_of(2), 2), Level(openness_of(4), 4)]
    assert find_levels(results, "absent") == []


def test_values_at_a_level_have_a_row_a_trial_and_a_column_a_method():
    results = table([(1, 2, "b", "f", 0.4), (0, 2, "a", "f", 0.1), (1, 2, "a", "f", 0.3), (0, 4, "a", "f", 0.9)])
    values = values_at(results, "f", Level(openness_of(2), 2))
    assert values.index.tolist() == [0, 1] and values.columns.tolist() == ["a", "b"]
    assert values["a"].tolist() == [0.1, 0.3] and math.isnan(values.at[0, "b"]) and values.at[1, "b"] == 0.4


def test_averages_are_over_all_levels_and_only_of_trials_that_have_them_all():
    rows = [(t, n, m, "f", 0.1 * n + t) for t in range(2) for n in (2, 4) for m in "ab"]
    rows[0] = (0, 2, "a", "f", math.nan)
    values = average_over_levels(table(rows), "f")
    assert math.isnan(values.at[0, "a"])
    assert values.at[1, "a"] == pytest.approx(1.3) and values.at[0, "b"] == pytest.approx(0.3)


def test_a_level_without_measurements_affects_no_average():
    """At openness zero there is no unknown sample, so no AUROC."""
    tables = made_up(PAPER[:2], n_levels=3, n_trials=4)
    assert average_over_levels(tables["results"], "auroc").notna().all().all()


def test_curves_have_the_means_of_a_group_by():
    results = without(made_up(PAPER, n_levels=4, n_trials=6), "sci", [0, 5])["results"]
    found = compute_curves(results, "accuracy")
    means = results[results["metric"] == "accuracy"].groupby(["method", "openness"])["value"].mean()
    for method, curve in found.items():
        assert curve.mean == pytest.approx(means[method].sort_index().to_numpy())
        assert curve.n_trials == (4 if method == "sci" else 6)
    assert set(found) == set(PAPER)


def test_a_duplicate_trial_raises_an_error():
    results = table([(0, 2, "a", "f", 0.5), (0, 2, "a", "f", 0.6)])
    with pytest.raises(ValueError, match="trial 0 of method 'a' twice"):
        values_at(results, "f", Level(openness_of(2), 2))


def test_a_table_of_another_kind_raises_an_error():
    with pytest.raises(ValueError, match=r"results lacks the columns \['n_unknown', 'openness'\]"):
        find_levels(table([(0, 2, "a", "f", 0.5)]).drop(columns=["openness", "n_unknown"]), "f")


# --- comparisons ---


def test_paired_intervals_are_those_of_scipys_paired_t_test():
    values = pd.DataFrame({"ours": RNG.normal(0.8, 0.1, 12), "other": RNG.normal(0.7, 0.1, 12)})
    found = paired_differences(values, "ours").loc["other"]
    low, high = stats.ttest_rel(values["ours"], values["other"]).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=1e-10)
    assert found["difference"] == pytest.approx(values["ours"].mean() - values["other"].mean())


def test_methods_are_compared_over_the_trials_they_share():
    values = pd.DataFrame({"ours": [0.9, 0.8, math.nan, 0.1], "other": [0.5, math.nan, 0.1, 0.1], "never": math.nan})
    found = compare_methods(values, "ours")
    assert found.index.tolist() == ["other"]
    row = found.loc["other"]
    assert (row["n"], row["larger"], row["ties"], row["smaller"]) == (2, 1, 1, 0)
    assert row["difference"] == pytest.approx(0.2)


def test_shares_that_differ_by_rounding_tie():
    values = pd.DataFrame({"ours": [0.1 + 0.2, 0.3], "other": [0.3, 0.1 + 0.2]})
    row = compare_methods(values, "ours").loc["other"]
    assert row["ties"] == 2 and row["p"] == 1.0 and row["difference"] == 0.0


def sign_flips(difference):
    """Return the two-sided p of the signed-rank test by trying all signs: the share of those at least as lopsided."""
    ranks = stats.rankdata(np.abs(difference))
    center = ranks.sum() / 2
    seen = abs(ranks[difference > 0].sum() - center)
    every = [sum(r for r, up in zip(ranks, ups, strict=True) if up) for ups in product([0, 1], repeat=len(ranks))]
    return np.mean(np.abs(np.array(every) - center) >= seen - 1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_the_signed_rank_test_tries_all_signs(n):
    for _ in range(5):
        difference = RNG.normal(0.3, 1.0, n)
        assert signed_rank_p(difference) == pytest.approx(sign_flips(difference))


def test_five_wins_of_five_are_not_yet_significant():
    assert signed_rank_p([0.1, 0.2, 0.3, 0.4, 0.5]) == pytest.approx(0.0625)


def test_zeros_do_not_count_in_the_signed_rank_test():
    assert signed_rank_p([0.1, 0.0, 0.2, 0.0, 0.3]) == signed_rank_p([0.1, 0.2, 0.3])
    assert signed_rank_p([0.0, 0.0]) == 1.0


def test_holm_is_the_closed_test_by_bonferroni():
    """The corrected value of a comparison is the worst Bonferroni value of all sets of comparisons that hold it."""
    for m in (1, 2, 5):
        for _ in range(10):
            p = RNG.random(m) ** 3
            sets = list(chain.from_iterable(combinations(range(m), k) for k in range(1, m + 1)))
            worst = [max(min(1.0, len(s) * p[list(s)].min()) for s in sets if i in s) for i in range(m)]
            assert holm(p) == pytest.approx(worst)
    assert holm([]).tolist() == []


def test_the_correction_is_over_all_methods():
    values = values_at(made_up(PAPER, 2, 12)["results"], "f", Level(openness_of(2), 2))
    found = compare_methods(values, "calibrated")
    assert len(found) == 6 and found["p_holm"].tolist() == pytest.approx(holm(found["p"]).tolist())
    assert (found["p_holm"] >= found["p"]).all()


def test_a_reference_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="reference 'ours' is not one of the methods"):
        compare_methods(pd.DataFrame({"a": [0.1]}), "ours")


def test_a_method_that_always_failed_is_left_out():
    results = failing(made_up(PAPER[:3], 2, 3), "paper", range(3))["results"]
    values = values_at(results, "f", find_levels(results, "f")[-1])
    assert summarize(values).index.tolist() == ["calibrated", "matched"]
    values["paper"] = math.nan
    assert summarize(values).index.tolist() == ["calibrated", "matched"]


def test_the_order_of_rows_changes_nothing():
    results = made_up(PAPER, 3, 5)["results"]
    shuffled = results.sample(frac=1.0, random_state=1)
    pd.testing.assert_frame_equal(average_over_levels(results, "f"), average_over_levels(shuffled, "f"))


def test_the_examples_of_the_docstrings_run():
    assert doctest.testmod(statistics).failed == 0

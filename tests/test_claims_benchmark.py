"""The verdicts on the paper's claims, checked by hand on made-up results."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from benchmarks import results_page
from benchmarks.claims import (
    choose_pairs,
    count_levels,
    describe_times,
    find_epsilon_methods,
    fit_slopes,
    main,
    measure_course,
    pair_differences,
)
from srosr.experiments.protocol_file import load_protocol
from srosr.experiments.result_tables import TABLES, write_tables
from srosr.experiments.trial import METRICS

OPENNESS = (0.1, 0.2, 0.3)


def results(**methods):
    """Return a table from values per trial × level, by method; all metrics have the same."""
    rows = []
    for method, values in methods.items():
        for trial, levels in enumerate(values):
            for openness, value in zip(OPENNESS, levels, strict=True):
                where = ("x", trial, round(10 * openness), openness, method)
                rows += [(*where, metric, value) for metric in ("f", "accuracy")]
    return pd.DataFrame(rows, columns=["experiment", "trial", "n_unknown", "openness", "method", "metric", "value"])


def test_differences_pair_the_trials_that_both_have():
    table = results(a=[[0.5, 0.6, 0.7], [0.4, 0.5, 0.6], [0.9, 0.9, 0.9]], b=[[0.3, 0.3, 0.3], [0.3, 0.3, 0.3]])
    differences = pair_differences(table, "f", "a", "b")
    np.testing.assert_allclose(differences.to_numpy(), [[0.2, 0.3, 0.4], [0.1, 0.2, 0.3]])


def test_a_level_counts_as_ahead_only_if_its_interval_is_above_zero():
    differences = pd.DataFrame(
        {0.1: [0.1, 0.11, 0.09, 0.1], 0.2: [-0.1, -0.11, -0.09, -0.1], 0.3: [0.1, -0.1, 0.2, -0.2]}
    )
    assert count_levels(differences) == (1, 1, 1)


def test_rules_on_our_codes_meet_the_others_on_our_codes_too():
    there = ["paper", "paper-lasso", "sci", "sci-lasso", "w-svm"]
    assert choose_pairs(there) == [
        ("paper", "w-svm"),
        ("paper", "sci"),
        ("paper-lasso", "w-svm"),
        ("paper-lasso", "sci"),
        ("paper-lasso", "sci-lasso"),
    ]
    assert choose_pairs(["paper", "calibrated"]) == [("calibrated", "paper")]


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ([50, 50], "means over 50 trials"),
        ([50, 5], "means over 50 trials, or as many as the last column says"),
        ([1, 1], "one trial"),
    ],
)
def test_the_page_says_over_how_many_trials_its_means_are(counts, text):
    assert results_page.describe_trials(pd.Series(counts)) == text


def test_a_slope_is_per_point_of_openness():
    # From 10 % to 30 % the difference grows by 0.4 and by 0.2: 0.02 and 0.01 a point.
    differences = pd.DataFrame([[0.0, 0.2, 0.4], [0.3, 0.4, 0.5]], columns=list(OPENNESS))
    assert fit_slopes(differences).mean == pytest.approx(0.015)


def test_a_course_goes_from_the_smallest_to_the_largest_openness():
    first, last, change = measure_course(results(a=[[0.5, 0.6, 0.7], [0.4, 0.5, 0.4]]), "f", "a")
    assert (first.mean, last.mean, change.mean) == pytest.approx((0.45, 0.55, 0.1))


def test_the_time_is_that_of_all_methods_of_those_at_the_papers_epsilon_and_of_their_longest_trial():
    rows = [
        ("x", 0, "paper", 60.0, 30.0, 30.0, 9.0),
        ("x", 0, "sci", 60.0, 0.0, 0.0, 9.0),
        ("x", 1, "paper", 60.0, 0.0, 0.0, 9.0),
        ("x", 1, "w-svm", 240.0, 0.0, 0.0, 0.0),
    ]
    times = pd.DataFrame(rows, columns=list(TABLES["times"]))
    text = "8.0 minutes on one core, 4.0 of them for methods on codes at the paper's epsilon, up to 3.0 per trial."
    assert describe_times(times, ["paper", "sci"]) == text
    assert describe_times(times, []) == "8.0 minutes on one core."


def test_the_methods_at_an_epsilon_are_those_of_the_protocol():
    assert set(find_epsilon_methods("yaleb")) == {"paper", "paper-5-percent", "matched", "naive", "ratio", "sci"}
    assert find_epsilon_methods("mnist-full") == []  # on Lasso codes, with the same names


def test_the_best_of_a_column_is_marked_with_its_equals_and_not_where_trials_are_fewer():
    full = [[0.5, 0.5, 0.1 + 0.2], [0.5, 0.5, 0.3]]
    table = results(
        a=full, b=[[0.5, 0.5, 0.3], [0.5, 0.5, 0.3]], c=[[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]], d=[[0.9, 0.9, 0.9]]
    )
    every = pd.concat([table[table["metric"] == "f"].assign(metric=m) for m in results_page.SHOWN])
    cells = {
        line.split("|")[1].strip(): line.split("|")[2].strip() for line in results_page.format_table(every).splitlines()
    }
    assert [cells[name] for name in "abcd"] == ["**0.300**", "**0.300**", "0.100", "0.900"]


METHODS = ("calibrated", "paper", "matched", "naive", "sci", "w-svm", "sci-lasso")


def write_uiuc(folder, n_trials=3, methods=METHODS, seed=0):
    """Write made-up tables of an experiment."""
    rng = np.random.default_rng(seed)
    records, times = [], []
    for trial in range(n_trials):
        for method in methods:
            values = [[n, n / 20, metric, float(rng.random())] for n in (1, 2) for metric in METRICS]
            records.append({"trial": trial, "method": method, "error": None, "values": values, "coverage": []})
            spent = dict.fromkeys(("fit", "predict", "measure"), 60.0) | {"coding": 30.0}
            times.append({"trial": trial, "method": method} | spent)
    (folder / "uiuc").mkdir(parents=True)
    write_tables(folder / "uiuc", "uiuc", records, times, methods, METRICS)


def test_the_command_does_without_times_and_without_intervals(tmp_path):
    write_uiuc(tmp_path, n_trials=2)
    (tmp_path / "uiuc" / "times.parquet").unlink()
    done = CliRunner().invoke(main, [str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "uiuc: 2 trials" in done.output and "minutes on one core" not in done.output and "nan" not in done.output


def test_the_page_has_its_tables_beside_it_and_the_claims_can_be_read_there(tmp_path):
    write_uiuc(tmp_path / "in")
    out = tmp_path / "out"
    done = CliRunner().invoke(results_page.main, [str(tmp_path / "in"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    for table in ("results.parquet", "times.parquet"):
        assert (out / "uiuc" / table).read_bytes() == (tmp_path / "in" / "uiuc" / table).read_bytes()
    assert "`python -m benchmarks.results_page srosr-results`" in (out / "tables.md").read_text()
    assert "63.0 minutes on one core" in CliRunner().invoke(main, [str(out)]).output


@pytest.mark.slow
def test_merged_methods_replace_theirs_and_leave_the_others_as_a_run_of_all_would_have_written_them(tmp_path):
    write_uiuc(tmp_path / "all")
    write_uiuc(tmp_path / "some", methods=("matched", "svm", "calibrated"), seed=1)
    out, page = tmp_path / "out", tmp_path / "out" / "tables.md"
    for folder, options in (("all", []), ("some", ["--merge"])):
        done = CliRunner().invoke(results_page.main, [str(tmp_path / folder), "--out", str(out), *options])
        assert done.exit_code == 0, done.output
    old, new, merged = (pd.read_parquet(tmp_path / f / "uiuc" / "results.parquet") for f in ("all", "some", "out"))
    for name, rows in merged.groupby("method"):
        source = new if name in ("matched", "svm", "calibrated") else old
        expected = source[source["method"] == name]
        pd.testing.assert_frame_equal(rows.reset_index(drop=True), expected.reset_index(drop=True))
    known = [s.name for s in load_protocol("uiuc").methods if s.name in {*METHODS, "svm"}]
    assert merged["method"].drop_duplicates().tolist() == known  # in the order of the protocol, trial by trial
    assert merged["trial"].is_monotonic_increasing and merged["metric"].tolist()[:10] == list(METRICS)
    assert len(pd.read_parquet(out / "uiuc" / "times.parquet")) == 8 * 3
    assert {"| svm |", "| sci |"} <= {
        line[: line.index("|", 1) + 1] for line in page.read_text().splitlines() if "|" in line[1:]
    }
    assert "![F-measure against openness](uiuc/openness-f.png)" in page.read_text()
    assert "trials, " not in done.output
    write_uiuc(tmp_path / "fewer", n_trials=2, methods=("svm",))
    done = CliRunner().invoke(results_page.main, [str(tmp_path / "fewer"), "--out", str(out), "--merge"])
    assert "uiuc: svm has 2 trials, 3 before" in done.output


def test_codes_are_compared_on_the_same_trials_and_ours_with_the_best_of_the_others(tmp_path):
    write_uiuc(tmp_path)
    values = pd.read_parquet(tmp_path / "uiuc" / "results.parquet")
    last = values[(values["metric"] == "auroc") & (values["n_unknown"] == 2)]
    means = last.groupby("method")["value"].mean()
    ranking, codes = CliRunner().invoke(main, [str(tmp_path)]).output.split("5. Ours by AUROC")[1].split("6. Codes")
    best = means.drop("calibrated").idxmax()
    row = next(line for line in ranking.splitlines() if line.startswith("| auroc"))
    cells = [cell.strip() for cell in row.strip("| ").split("|")]
    assert cells[1:4] == [f"{means['calibrated']:.3f}", best, f"{means[best]:.3f}"]
    assert cells[4].startswith(f"{means['calibrated'] - means[best]:+.3f} ±")
    row = next(line for line in codes.splitlines() if line.startswith("| sci"))
    cells = [cell.strip() for cell in row.strip("| ").split("|")]
    assert cells[1:4] == ["3", f"{means['sci']:.3f}", f"{means['sci-lasso']:.3f}"]


def test_the_command_prints_what_it_finds_and_says_when_there_is_nothing(tmp_path):
    write_uiuc(tmp_path)
    done = CliRunner().invoke(main, [str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "uiuc: 3 trials" in done.output and "nan" not in done.output
    # Against five of the others twice (differences, slopes), and its course.
    assert done.output.count("calibrated") == 11
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no results" in CliRunner().invoke(main, [str(empty)]).output

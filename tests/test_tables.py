"""Tables of records: the same bytes whatever the order, and the same bits when they are read back."""

import csv
import errno
import math
import os
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scale import examples
from work_for_runner import METHODS, METRICS, record, times

from srosr._support import atomic_files as atomic_file
from srosr.experiments.result_tables import TABLES, build_results_table, read_results, read_table, write_tables
from srosr.experiments.results_folder import ResultsFolderError

FILES = {
    "results.csv",
    "results.parquet",
    "coverage.csv",
    "times.csv",
    "times.parquet",
    "failures.csv",
}
TIMES = {"fit": 1.5, "predict": 0.1, "coding": None}


def bits_of(value):
    """Return a float as its bits, with the same bits for every NaN, and other values as they are."""
    if not isinstance(value, float):
        return value
    return "nan" if math.isnan(value) else np.float64(value).tobytes()


def bits(table):
    return [tuple(map(bits_of, row)) for row in table.itertuples(index=False, name=None)]


def some_records():
    records = [record(trial, method) for trial in range(3) for method in METHODS]
    records[4] = record(1, "w-svm", 'ValueError: a "quoted" reason,\nin two lines \udcff')
    return records


def write(folder, records, experiment="letters"):
    spent = [{"trial": one["trial"], "method": one["method"]} | TIMES for one in records]
    return write_tables(folder, experiment, records, spent, METHODS, METRICS)


def test_each_value_has_its_row_in_the_fixed_order(tmp_path):
    tables = write(tmp_path, some_records())
    assert {path.name for path in tmp_path.iterdir()} == FILES
    expected = [
        ("letters", trial, n_unknown, n_unknown / 7, method, metric)
        for trial in range(3)
        for n_unknown in (0, 1, 3)
        for method in METHODS
        for metric in METRICS
        if (trial, method) != (1, "w-svm")
    ]
    results = tables["results"]
    assert [row[:-1] for row in results.itertuples(index=False, name=None)] == expected
    (value,) = results.query("trial == 2 and method == 'osnn' and metric == 'auroc' and n_unknown == 3")["value"]
    assert [3, 3 / 7, "auroc", value] in record(2, "osnn")["values"]
    for name, table in tables.items():
        assert list(table.columns) == list(TABLES[name])
        for column, kind in TABLES[name].items():
            assert pd.api.types.is_string_dtype(table[column]) if kind is str else table[column].dtype == kind
    assert len(tables["coverage"]) == 8 * 2
    assert tables["coverage"].iloc[1, 1:].tolist() == [0, "calibrated", *record(0, "calibrated")["coverage"][1]]
    assert len(tables["times"]) == 9
    assert tables["times"]["coding_seconds"].isna().all()
    (failure,) = tables["failures"].itertuples(index=False, name=None)
    assert failure == ("letters", 1, "w-svm", 'ValueError: a "quoted" reason,\nin two lines \\udcff')


def test_shuffled_records_give_the_same_bytes(tmp_path):
    records = some_records()
    (tmp_path / "0").mkdir()
    write(tmp_path / "0", records)
    for seed in range(1, 4):
        random.Random(seed).shuffle(records)
        (tmp_path / str(seed)).mkdir()
        write(tmp_path / str(seed), records)
        for name in FILES:
            assert (tmp_path / str(seed) / name).read_bytes() == (tmp_path / "0" / name).read_bytes()


floats = st.floats() | st.sampled_from([math.nan, -0.0, 5e-324, 0.1 + 0.2, math.inf])
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names, st.lists(st.tuples(st.integers(0, 2**40), floats, floats), max_size=8, unique_by=lambda one: one[0]))
def test_tables_read_back_to_the_bit_from_parquet_and_csv(tmp_path, experiment, values):
    content = [[n, openness, "f", value] for n, openness, value in values]
    one = record(5, "osnn") | {"values": content, "coverage": [[0.1, *(v for _, a, b in values[:2] for v in (a, b))]]}
    if len(values) < 2:
        one["coverage"] = []
    tables = write(tmp_path, [one], experiment)
    for name, table in tables.items():
        assert bits(read_table(tmp_path / f"{name}.csv", name)) == bits(table)
        pd.testing.assert_frame_equal(read_table(tmp_path, name), table, check_exact=True)
    assert bits(read_results(tmp_path)) == bits(tables["results"])
    assert bits(read_results(tmp_path / "results.csv")) == bits(read_results(tmp_path / "results.parquet"))
    assert [row[1:] for row in bits(tables["results"])] == [
        (5, n, bits_of(openness), "osnn", "f", bits_of(value))
        for n, openness, value in sorted(values, key=lambda v: v[0])
    ]


def test_other_readers_find_the_same_numbers(tmp_path):
    table = write(tmp_path, some_records())["results"]
    by_pandas = pd.read_csv(tmp_path / "results.csv", float_precision="round_trip")
    assert bits(by_pandas) == bits(table)
    assert bits(pd.read_parquet(tmp_path / "results.parquet")) == bits(table)
    with open(tmp_path / "results.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == len(table) + 1
    assert b"\r" not in (tmp_path / "results.csv").read_bytes()


def test_a_run_without_records_has_empty_tables_that_read_back(tmp_path):
    tables = write(tmp_path, [])
    for name, table in tables.items():
        assert len(table) == 0
        pd.testing.assert_frame_equal(read_table(tmp_path, name), table)


def test_unnamed_or_duplicate_entries_raise_an_error():
    records = some_records()
    with pytest.raises(ValueError, match="'w-svm', which is not in methods: osnn"):
        build_results_table("letters", records[1:2], ["osnn"], METRICS)
    with pytest.raises(ValueError, match="'accuracy', which is not in metrics: f"):
        build_results_table("letters", records[:1], METHODS, ["f"])
    with pytest.raises(ValueError, match="twice"):
        build_results_table("letters", [*records, records[0]], METHODS, METRICS)
    with pytest.raises(ValueError, match="methods contains a name twice"):
        build_results_table("letters", records, [*METHODS, "osnn"], METRICS)


def test_a_failure_comes_once(tmp_path):
    failure = record(0, "osnn", "ValueError")
    with pytest.raises(ValueError, match="trial 0 has osnn twice"):
        write(tmp_path, [failure, failure])


def test_a_full_disk_leaves_the_old_tables(tmp_path, monkeypatch):
    write(tmp_path, some_records())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic_file.os, "fsync", full)
    with pytest.raises(ResultsFolderError, match=rf"results\.csv: {os.strerror(errno.ENOSPC)}"):
        write(tmp_path, some_records()[:3])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_another_table_raises_an_error(tmp_path):
    write(tmp_path, some_records())
    with pytest.raises(ValueError, match="columns of the table results"):
        read_results(tmp_path / "times.csv")
    (tmp_path / "results.csv").write_text("")
    with pytest.raises(ValueError, match="columns of the table results"):
        read_results(tmp_path / "results.csv")


def test_times_do_not_change_the_table_of_results(tmp_path):
    records = some_records()
    for folder, spent in ((tmp_path / "a", times), (tmp_path / "b", times)):
        folder.mkdir()
        seconds = [spent(one["trial"], one["method"]) for one in records]
        write_tables(folder, "letters", records, seconds, METHODS, METRICS)
    for name in FILES - {"times.csv", "times.parquet"}:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (tmp_path / "a/times.csv").read_bytes() != (tmp_path / "b/times.csv").read_bytes()

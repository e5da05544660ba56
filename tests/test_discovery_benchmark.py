"""The discovery benchmark measures groups as its columns say, and runs on real trials."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # the benchmarks are run from the repository and are not installed
    sys.path.insert(0, str(ROOT))

from benchmarks import discovery  # noqa: E402
from benchmarks.trials import TRIALS  # noqa: E402


def test_groups_are_measured_as_counted_by_hand():
    """Six of group 0 are five of class 7 and one of 8; group 1 is half of class 8, half of the known class 1."""
    truth = np.array([7, 7, 7, 7, 7, 8, 8, 8, 1, 1, 9, 9])
    labels = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, -1, -1])
    got = discovery.measure_groups(labels, truth, truth != 1)
    assert got["groups"] == 2 and got["classes"] == 3 and got["found"] == 1
    assert got["purity"] == pytest.approx(7 / 10) and got["noise"] == pytest.approx(1 / 6)


def test_the_rand_index_is_one_for_the_truth_and_counts_noise_as_a_group():
    truth = np.repeat([3, 4, 5], 6)
    unknown = truth != 5
    assert discovery.measure_groups(truth, truth, unknown)["ari_all"] == 1.0
    assert discovery.measure_groups(np.where(truth == 5, -1, truth), truth, unknown)["ari_all"] == 1.0
    half = discovery.measure_groups(np.where(truth == 3, -1, 0), truth, unknown)
    assert half["ari_unknown"] == 1.0 > half["ari_all"]
    nothing = discovery.measure_groups(np.full(18, -1), truth, unknown)
    assert nothing["groups"] == 0 and np.isnan(nothing["purity"]) and nothing["noise"] == 1.0


def test_the_silhouette_finds_the_number_of_clear_clusters(monkeypatch):
    monkeypatch.setattr(discovery, "SILHOUETTE_COUNTS", (2, 4, 5, 6, 10))
    rng = np.random.default_rng(0)
    X = np.repeat(10 * np.eye(5), 15, axis=0) + 0.1 * rng.normal(size=(75, 5))
    assert len(np.unique(discovery.run_kmeans_by_silhouette(X, 2))) == 5
    assert len(np.unique(discovery.run_kmeans(X, 3))) == 3


def test_classes_of_unknown_test_samples_are_found_again(data_dir):
    trial = TRIALS["coil20"].draw(0)
    truth = discovery.find_classes(trial.X_test, *discovery.SETS["coil20"].read())
    known = ~trial.is_unknown
    np.testing.assert_array_equal(truth[known], trial.y_test[known])
    assert len(np.unique(truth[~known])) == 10 and not set(truth[~known]) & set(trial.y.tolist())


@pytest.mark.parametrize("arguments", [["--only", "mars"], ["--only", "mnist,"]])
def test_a_set_that_does_not_exist_is_named(arguments):
    outcome = CliRunner().invoke(discovery.main, arguments)
    assert outcome.exit_code == 2 and "is not one of mnist, clip" in outcome.output


def test_missing_data_say_what_to_do(monkeypatch):
    monkeypatch.delenv("SROSR_DATA_DIR", raising=False)
    outcome = CliRunner().invoke(discovery.main, ["--only", "scale"])
    assert outcome.exit_code == 1 and "SROSR_DATA_DIR is not set" in outcome.output


def test_a_small_run_prints_tables_and_writes_records(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "SILHOUETTE_COUNTS", (2, 20))
    arguments = ["--only", "orl", "--trials", "1", "--jobs", "1", "--json", str(tmp_path / "d.json")]
    outcome = CliRunner().invoke(discovery.main, arguments)
    assert outcome.exit_code == 0, outcome.output
    assert "designed on other trials of orl" in outcome.output and "tight groups" in outcome.output
    content = json.loads((tmp_path / "d.json").read_text())
    assert [r["method"] for r in content["records"]] == [discovery.OURS, *discovery.RIVALS]
    for r in content["records"]:
        assert -0.5 <= r["ari_all"] <= 1.0 and r["rejected"] > 0 and r["seconds"] > 0


@pytest.mark.slow
def test_scale_prints_time_and_memory_against_their_limits(data_dir, monkeypatch):
    # To reject five hundred pictures takes a few thousand, not the tens of thousands that there are.
    read = discovery.read_mnist
    monkeypatch.setattr(discovery, "read_mnist", lambda part: tuple(values[:3000] for values in read(part)))
    outcome = CliRunner().invoke(discovery.main, ["--only", "scale", "--samples", "500"])
    assert outcome.exit_code == 0, outcome.output
    assert "500 rejected samples, seconds: " in outcome.output and "at most 60: yes" in outcome.output

"""The growth benchmark draws mixtures as asked, measures each size alone, and fits exponents."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # the benchmarks are run from the repository and are not installed
    sys.path.insert(0, str(ROOT))

from benchmarks import growth  # noqa: E402
from benchmarks.growth_figure import PANELS, draw_growth  # noqa: E402
from benchmarks.growth_methods import METHODS, Options  # noqa: E402
from benchmarks.mixtures import Embeddings, count_classes, draw_mixture, draw_mnist, read_embeddings  # noqa: E402
from benchmarks.trials import UNKNOWN  # noqa: E402


@pytest.fixture
def real():
    """Return made-up embeddings: twelve classes of twenty samples in 30 dimensions."""
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(12), 20)
    return Embeddings.measure(3.0 * rng.normal(size=(12, 30))[y] + rng.normal(size=(240, 30)), y)


def make_record(method, n, seconds=1.0, **others):
    numbers = {"fit_seconds": seconds, "predict_ms": 1.0, "fit_bytes": 2**20 * n, "predict_bytes": 0, "n_test": 100}
    accuracy = {"auroc": 0.9, "oscr": 0.8, "closed_accuracy": 0.95}
    codings = {"n_classes": 3, "max_codings": None, "predict_peak_bytes": 2**30}
    return {"method": method, "n": n} | numbers | accuracy | codings | others


# The samples


def test_a_mixture_has_the_asked_shapes_in_single_precision_and_unit_length(real):
    trial = draw_mixture(real, 500, 7, 30, 0, n_test=90)
    assert trial.X.shape == (500, 30) and trial.X_test.shape == (90, 30)
    assert trial.X.dtype == trial.X_test.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(np.vstack([trial.X, trial.X_test]), axis=1), 1.0, rtol=1e-5)
    counts = np.bincount(trial.y)
    assert len(counts) == 7 and counts.max() - counts.min() <= 1
    assert (trial.y_test == UNKNOWN).sum() == 45 and set(trial.y_test) - {UNKNOWN} == set(range(7))


def test_a_mixture_is_determined_by_its_seed(real):
    trials = [draw_mixture(real, 200, 5, 30, seed, n_test=40) for seed in (1, 1, 2)]
    for key in ("X", "y", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(trials[0], key), getattr(trials[1], key))
    assert not np.array_equal(trials[0].X, trials[2].X)


def test_classes_of_a_mixture_differ_and_can_be_told_apart(real):
    """By nearest class means of the training samples, on test samples of known classes."""
    trial = draw_mixture(real, 600, 20, 30, 0, n_test=200)
    means = np.array([trial.X[trial.y == k].mean(axis=0) for k in range(20)])
    distances = np.linalg.norm(means[:, None] - means, axis=2) + 10 * np.eye(20)
    assert distances.min() > 0.1
    known = trial.y_test != UNKNOWN
    nearest = np.linalg.norm(trial.X_test[:, None] - means, axis=2)
    assert np.mean(nearest.argmin(axis=1)[known] == trial.y_test[known]) > 0.6
    assert nearest[~known].min(axis=1).mean() > nearest[known].min(axis=1).mean()


def test_fewer_features_are_an_orthogonal_projection(real):
    """Angles between samples are kept on average: a random projection scales all squared lengths alike."""
    trial = draw_mixture(real, 300, 5, 12, 0, n_test=20)
    assert trial.X.shape == (300, 12) and np.linalg.matrix_rank(trial.X) == 12


def test_residuals_of_a_mixture_have_the_variance_of_real_ones():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 50)
    real = Embeddings.measure(40.0 * np.eye(4, 8)[y] + rng.normal(size=(200, 8)), y)
    # Along the mean the scaling to unit length takes the noise away; seven of eight dimensions remain.
    np.testing.assert_allclose(np.mean((real.residuals**2).sum(axis=1)), 7 / 40**2, rtol=0.1)
    trial = draw_mixture(real, 4000, 2, 8, 0, n_test=20)
    for k in range(2):
        rows = trial.X[trial.y == k]
        lengths = np.linalg.norm(rows.mean(axis=0))
        spread = np.mean(((rows - rows.mean(axis=0)) ** 2).sum(axis=1)) / lengths**2
        # A mean of two orthogonal directions is shorter than they are, and all samples are scaled to unit length.
        assert 7 / 40**2 < spread < 2.5 * 7 / 40**2


def test_the_number_of_classes_grows_up_to_a_limit():
    assert [count_classes(n) for n in (100, 3000, 30_000, 10**6)] == [3, 100, 1000, 1000]


@pytest.mark.parametrize(("classes", "features"), [(1, 30), (301, 30), (5, 0), (5, 31)])
def test_impossible_mixtures_are_errors_that_name_the_argument(real, classes, features):
    with pytest.raises(ValueError, match=r"n_(classes|features) must be"):
        draw_mixture(real, 300, classes, features, 0)


def test_real_embeddings_make_a_mixture_that_is_neither_trivial_nor_impossible(data_dir):
    trial = draw_mixture(read_embeddings(), 1000, 33, 512, 0, n_test=400)
    candidate, score = METHODS["k-nn"].answer(METHODS["k-nn"].fit(trial.X, trial.y, Options()), trial.X_test)
    known = ~trial.is_unknown
    assert 0.5 < np.mean(candidate[known] == trial.y_test[known]) < 1.0
    assert np.median(score[~known]) > np.median(score[known])


def test_a_larger_mnist_trial_holds_a_smaller_one_and_has_the_same_test(data_dir):
    small, large = (draw_mnist(n, 0, 200) for n in (600, 3000))
    np.testing.assert_array_equal(small.X_test, large.X_test)
    assert np.bincount(small.y, minlength=10).max() == 100 and len(np.unique(small.y)) == 6
    # In single precision, of which the last bits may depend on how many rows are scaled at once.
    assert (small.X @ large.X.T).max(axis=1).min() > 1 - 1e-6
    assert np.mean(small.is_unknown) == pytest.approx(0.4)


# The methods


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n_classes", [2, 6])
def test_every_method_labels_known_samples_and_scores_unknown_ones_higher(name, n_classes, real):
    trial = draw_mixture(real, 240, n_classes, 30, 1, n_test=120)
    method = METHODS[name]
    candidate, score = method.answer(method.fit(trial.X, trial.y, Options(max_codings=200)), trial.X_test)
    known = ~trial.is_unknown
    assert candidate.shape == score.shape == (120,) and np.isfinite(score).all()
    assert np.mean(candidate[known] == trial.y_test[known]) > 1.5 / n_classes
    assert score[~known].mean() > score[known].mean()


def test_equal_votes_of_neighbors_go_to_the_nearest():
    X = np.array([[0.0], [1.0], [1.1], [2.0], [2.1]])
    model = METHODS["k-nn"].fit(X, np.array([7, 5, 5, 9, 9]), Options())
    candidate, score = METHODS["k-nn"].answer(model, np.array([[0.9], [1.75]]))
    np.testing.assert_array_equal(candidate, [5, 9])
    np.testing.assert_allclose(score, [1.2, 1.75])


# What is made of the measurements


def test_exponents_are_fitted_from_a_size_on():
    """Below 3,000 samples the time is constant, above it grows with the power 1.5."""
    records = [make_record("srosr", n, max(n, 3000) ** 1.5) for n in (300, 1000, 3000, 10_000, 30_000)]
    records += [make_record("k-nn", 3000)]
    (ours, other) = growth.find_exponents(records)
    assert ours["fit_seconds"] == pytest.approx(1.5) and ours["predict_ms"] == pytest.approx(0.0)
    assert (ours["from"], ours["to"]) == (3000, 30_000)
    assert other["fit_seconds"] is None and other["from"] == other["to"] == 3000
    assert growth.find_exponents([make_record("k-nn", 100)])[0]["from"] is None


def test_time_is_foretold_by_the_growth_so_far_but_at_least_as_linear():
    assert growth.expect_seconds([], 100) is None
    assert growth.expect_seconds([make_record("a", 100, 4.9)], 300) == pytest.approx(15.0)
    squares = [make_record("a", n, n**2 / 1e4 - 0.1) for n in (50, 100, 200)]
    assert growth.expect_seconds(squares, 400) == pytest.approx(16.0)
    constant = [make_record("a", n, 0.9) for n in (100, 200)]
    assert growth.expect_seconds(constant, 400) == pytest.approx(2.0)


def test_a_size_that_takes_too_long_is_skipped_with_all_larger_ones(monkeypatch, capsys):
    asked = []

    def run_alone(setting, seconds):
        asked.append(setting.n)
        return make_record("logistic", setting.n, setting.n**2 / 1e4)

    monkeypatch.setattr(growth, "run_alone", run_alone)
    common = growth.Setting("embeddings", "logistic", 0)
    records, skipped = growth.measure_method([replace(common, n=n) for n in (100, 200, 2000, 3000)], minutes=1.0)
    assert asked == [100, 200] and [r["n"] for r in records] == [100, 200]
    assert [line["n"] for line in skipped] == [2000, 3000]
    assert "more than 1" in skipped[0]["reason"] and "did not finish" in skipped[1]["reason"]
    assert capsys.readouterr().err.count("skipped") == 2


def test_the_gain_over_the_small_model_is_printed():
    records = [make_record("srosr", 1800), make_record("srosr", 36_000, auroc=0.9345)]
    (line,) = growth.compare_models(records)
    assert (
        "36,000 samples against 1,800" in line and "AUROC 0.9345 (+0.0345)" in line and "OSCR 0.8000 (+0.0000)" in line
    )
    assert growth.compare_models(records[1:]) == []


def test_the_memory_of_the_largest_model_is_held_against_the_limit():
    records = [make_record("srosr", 100), make_record("srosr", 200, predict_peak_bytes=9 * 2**30)]
    assert growth.check_memory(records, 8.0)[0].endswith("NO") and growth.check_memory(records, 9.0)[0].endswith("yes")


def test_the_figure_has_a_line_per_method_in_each_panel():
    records = [make_record(method, n) for method in ("srosr", "k-nn") for n in (1000, 3000)]
    figure = draw_growth(records, "title")
    assert len(figure.axes) == len(PANELS) == 4
    for ax in figure.axes:
        assert len(ax.lines) == 2 and ax.get_xscale() == ax.get_yscale() == "log"
        assert all((line.get_ydata() > 0).all() for line in ax.lines)


# The run


def test_a_process_that_takes_too_long_is_stopped_and_one_that_fails_says_why(monkeypatch, tmp_path):
    monkeypatch.setenv("SROSR_DATA_DIR", str(tmp_path))
    setting = growth.Setting("mnist", "k-nn", 600)
    assert "Unavailable" in growth.run_alone(setting, 120.0)["reason"]
    assert "stopped after" in growth.run_alone(setting, 0.01)["reason"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "100,many"], "'many' is not a number of samples"),
        (["--sizes", "99"], "at least 100"),
        (["--sizes", "all"], "'all' is not a number"),
        (["--source", "mnist", "--sizes", "100000"], "from 100 to"),
        (["--sizes", "200", "--classes", "300"], "300 classes of 200 samples"),
        (["--methods", "srosr,forest"], "'forest' is not one of srosr"),
    ],
)
def test_bad_options_are_named(arguments, message, data_dir):
    outcome = CliRunner().invoke(growth.main, arguments)
    assert outcome.exit_code == 2 and message in outcome.output


def test_a_run_in_which_nothing_finishes_is_an_error(monkeypatch, data_dir):
    monkeypatch.setattr(growth, "run_alone", lambda setting, seconds: {"reason": "out of order"})
    outcome = CliRunner().invoke(growth.main, ["--sizes", "200", "--methods", "k-nn"])
    assert outcome.exit_code == 1 and "k-nn, 200 samples: skipped, out of order" in outcome.output


def test_missing_data_say_what_to_do(monkeypatch):
    monkeypatch.delenv("SROSR_DATA_DIR", raising=False)
    outcome = CliRunner().invoke(growth.main, ["--source", "mnist"])
    assert outcome.exit_code == 1 and "SROSR_DATA_DIR is not set" in outcome.output


def test_a_small_run_prints_tables_and_writes_records_and_a_figure(data_dir, tmp_path):
    arguments = ["--sizes", "200,400", "--features", "16", "--methods", "srosr", "--predict-only"]
    arguments += ["--test", "40", "--jobs", "1", "--memory", "8"]
    arguments += ["--json", str(tmp_path / "growth.json"), "--figure", str(tmp_path / "growth.png")]
    outcome = CliRunner().invoke(growth.main, arguments)
    assert outcome.exit_code == 0, outcome.output
    assert "Mixtures of CLIP embeddings, 16 features" in outcome.output
    assert "srosr was fitted with 100 codings a pass" in outcome.output and "at most 8: yes" in outcome.output
    content = json.loads((tmp_path / "growth.json").read_text())
    assert [(r["method"], r["n"]) for r in content["records"]] == [("srosr", 200), ("srosr", 400)]
    for r in content["records"]:
        assert r["fit_seconds"] > 0 and r["predict_ms"] > 0 and 0.4 < r["auroc"] <= 1.0 and r["n_features"] == 16
        assert 0 <= r["fit_bytes"] < 2**30 and r["fit_cpu_seconds"] > 0
    assert (tmp_path / "growth.png").stat().st_size > 10_000

"""The comparison with other packages: correct recipes, choices in favor of the others, and correct summaries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # the benchmarks are run from the repository and are not installed
    sys.path.insert(0, str(ROOT))

from benchmarks import peers  # noqa: E402
from benchmarks.methods import TARGET_REJECTION, assess  # noqa: E402
from benchmarks.peer_methods import contestants  # noqa: E402
from benchmarks.peer_methods.contestants import CONTESTANTS, OURS, Contestant, pyod_detector  # noqa: E402
from benchmarks.peer_methods.recipes import (  # noqa: E402
    Prepared,
    detector_and_classifier,
    detector_per_class,
    max_probability,
)
from benchmarks.peer_methods.scalings import SCALINGS  # noqa: E402
from benchmarks.problems import Unavailable  # noqa: E402
from benchmarks.trials import UNKNOWN, Trial, TrialSet  # noqa: E402

CENTERS = {3: (0.0, 8.0), 5: (8.0, 0.0), 8: (8.0, 8.0)}


class FromTheMean:
    """Stand-in with PyOD's interface: the distance from the mean of its samples."""

    def __init__(self, contamination=TARGET_REJECTION):
        self.contamination = contamination

    def fit(self, X):
        self.mean_ = X.mean(axis=0)
        self.decision_scores_ = self.decision_function(X)
        self.threshold_ = np.quantile(self.decision_scores_, 1 - self.contamination)
        return self

    def decision_function(self, X):
        return np.linalg.norm(X - self.mean_, axis=1)

    def predict(self, X):
        return (self.decision_function(X) > self.threshold_).astype(int)


def stand_in(seed):
    return FromTheMean()


def tiny(seed=0, n=40, away=(-20.0, -20.0)):
    """Return a trial with three balls of known samples and a distant one of unknown samples."""
    rng = np.random.default_rng(seed)
    y = np.repeat(list(CENTERS), n)
    centers = np.array([CENTERS[c] for c in y])
    unknown = rng.normal(size=(n, 2)) + away
    known = centers + rng.normal(size=centers.shape)
    return Trial(
        centers + rng.normal(size=centers.shape),
        y,
        np.vstack([known, unknown]),
        np.concatenate([y, np.full(n, UNKNOWN)]),
    )


# -- recipes ---------------------------------------------------------------------------------------------


def test_the_detector_rejects_and_the_classifier_labels_the_rest():
    trial = tiny()
    answers = detector_and_classifier(stand_in)(Prepared(trial))
    rejected = FromTheMean().fit(trial.X).predict(trial.X_test) == 1
    assert np.array_equal(answers.label == UNKNOWN, rejected)
    assert np.array_equal(answers.label[~rejected], answers.candidate[~rejected])
    assert rejected[trial.is_unknown].all()
    assert set(answers.candidate) <= set(CENTERS)


def test_one_detector_per_class_rejects_what_all_detectors_reject_and_nothing_else():
    trial = tiny(away=(4.0, 4.0))
    answers = detector_per_class(stand_in)(Prepared(trial))
    inside = np.column_stack(
        [FromTheMean().fit(trial.X[trial.y == c]).predict(trial.X_test) == 0 for c in sorted(CENTERS)]
    )
    assert np.array_equal(answers.label == UNKNOWN, ~inside.any(axis=1))
    accepted = answers.label != UNKNOWN
    rows = np.flatnonzero(accepted)
    assert all(inside[row, sorted(CENTERS).index(answers.label[row])] for row in rows)
    assert np.mean(answers.candidate[~trial.is_unknown] == trial.y_test[~trial.is_unknown]) > 0.95


def test_detectors_of_wide_and_narrow_classes_are_compared_in_units_of_their_own():
    """The point is nearer to the narrow class, and well inside the wide one."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(200, 2)) * 0.05, [6.0, 0.0] + rng.normal(size=(200, 2)) * 3])
    trial = Trial(X, np.repeat([0, 1], 200), np.array([[2.0, 0.0]]), np.array([1]))
    answers = detector_per_class(stand_in)(Prepared(trial))
    assert answers.candidate.tolist() == answers.label.tolist() == [1]


def test_a_detector_whose_training_scores_are_all_equal_divides_by_no_zero():
    trial = Trial(np.ones((4, 2)), np.array([0, 0, 1, 1]), np.array([[1.0, 1.0], [9.0, 9.0]]), np.array([0, UNKNOWN]))
    answers = detector_per_class(stand_in)(Prepared(trial))
    assert np.isfinite(answers.unknown_score).all()
    assert answers.label.tolist() == [0, UNKNOWN]


def test_the_logistic_threshold_rejects_about_the_target_share():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, size=3000)
    X = np.eye(3)[y] * 2 + rng.normal(size=(3000, 3))
    trial = Trial(X[:1500], y[:1500], X[1500:], y[1500:])
    label = max_probability(Prepared(trial)).label
    assert np.mean(label == UNKNOWN) == pytest.approx(TARGET_REJECTION, abs=0.02)


def test_the_logistic_recipe_takes_classes_of_two_samples():
    trial = tiny(n=2)
    assert assess(trial, max_probability(Prepared(trial)))["oscr"] is not None


def test_recipes_share_one_logistic_regression():
    prepared = Prepared(tiny())
    assert prepared.logistic[0] is prepared.logistic[0]


def test_no_recipe_looks_at_the_classes_of_test_samples():
    trial = tiny()
    hidden = Trial(trial.X, trial.y, trial.X_test, np.zeros_like(trial.y_test))
    for recipe in (detector_and_classifier(stand_in), detector_per_class(stand_in), max_probability):
        seen, blind = recipe(Prepared(trial)), recipe(Prepared(hidden))
        assert np.array_equal(seen.label, blind.label)
        assert np.array_equal(seen.unknown_score, blind.unknown_score)


# -- scalings --------------------------------------------------------------------------------------------


def test_scalings_learn_from_training_samples_alone():
    trial = tiny()
    other = Trial(trial.X, trial.y, trial.X_test * 100, trial.y_test)
    for scaling in SCALINGS.values():
        assert np.array_equal(scaling(trial).X, scaling(other).X)
    assert np.allclose(SCALINGS["standardized"](trial).X.std(axis=0), 1)
    assert np.allclose(np.linalg.norm(SCALINGS["unit"](trial).X_test, axis=1), 1)
    assert SCALINGS["raw"](trial) is trial


# -- sums ------------------------------------------------------------------------------------------------


def record(method, seed, scaling, value, f=None):
    rest = {"false_rejection": 0.05, "fit_seconds": 1.0}
    where = {"set": "tiny", "seed": seed, "method": method, "scaling": scaling}
    return where | {"auroc": value, "oscr": value, "f": value if f is None else f} | rest


def test_others_are_shown_at_the_scaling_that_suits_them_best_for_scores_and_for_answers():
    records = [record("PyOD KNN per class", seed, "raw", 0.9, f=0.1) for seed in range(3)]
    records += [record("PyOD KNN per class", seed, "unit", 0.7, f=0.6) for seed in range(3)]
    (line,) = peers.summarize_set(records, ["PyOD KNN per class"])
    assert line["scaling"] == {"oscr": "raw", "f": "unit"}
    assert (line["auroc"]["mean"], line["f"]["mean"]) == pytest.approx((0.9, 0.6))


def test_a_scaling_that_failed_in_a_trial_is_not_chosen_for_its_lucky_rest():
    records = [record("EVM (authors')", 0, "raw", 1.0)]
    records += [record("EVM (authors')", seed, "unit", 0.5) for seed in range(2)]
    assert peers.best_scaling(records, "oscr") == {"EVM (authors')": "unit"}


def test_differences_are_paired_by_trial_with_a_t_interval():
    ours, others = np.array([0.9, 0.8, 0.95, 0.7]), np.array([0.85, 0.7, 0.9, 0.72])
    records = [record(OURS, seed, "raw", value) for seed, value in enumerate(ours)]
    records += [record("W-SVM (ours)", seed, "unit", value) for seed, value in reversed(list(enumerate(others)))]
    line = peers.summarize_set(records, [OURS, "W-SVM (ours)"])[1]
    low, high = stats.ttest_rel(ours, others).confidence_interval(0.95)
    paired = line["ours_minus_auroc"]
    assert (paired["mean"] - paired["half"], paired["mean"] + paired["half"]) == pytest.approx((low, high))
    assert peers.summarize_set(records, [OURS])[0]["ours_minus_auroc"] is None


@pytest.mark.parametrize(
    ("mean", "half", "verdict"),
    [(0.1, 0.05, "ahead"), (-0.1, 0.05, "behind"), (0.1, 0.2, "undecided"), (0.1, np.nan, "undecided")],
)
def test_ahead_and_behind_need_an_interval_without_zero(mean, half, verdict):
    line = {"method": "PyOD LOF per class", "auroc": {"mean": 0.5, "half": 0.1}, "oscr": None, "f": None}
    line |= {"false_rejection": None, "ours_minus_oscr": None, "ours_minus_f": None}
    (entry,) = peers.summarize_all({"tiny": [line | {"ours_minus_auroc": {"mean": mean, "half": half}}]})
    assert entry["verdicts"]["auroc"] == {verdict: 1}
    assert entry["oscr"] is None


# -- the command -----------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """Set up two sets, one of them absent, and four contestants: one fails, one is not installed."""

    def absent(seed):
        raise Unavailable("no file: set SROSR_DATA_DIR")

    def fails(prepared):
        raise ValueError("too few samples\nand more")

    monkeypatch.setattr(
        peers, "SETS", {"digits": TrialSet("three balls", False, tiny), "far": TrialSet("absent", False, absent)}
    )
    table = {
        OURS: Contestant(max_probability, "sklearn", ("raw",)),
        "per class": Contestant(detector_per_class(stand_in), "sklearn"),
        "fails": Contestant(fails, "sklearn", ("unit",)),
        "not here": Contestant(max_probability, "no_such_package"),
        "slow": Contestant(max_probability, "sklearn", ("raw",), extra=True),
    }
    monkeypatch.setattr(peers, "CONTESTANTS", table)


def test_the_command_prints_and_writes_what_it_measured_and_why_the_rest_is_missing(small, tmp_path):
    path = tmp_path / "peers.json"
    result = CliRunner().invoke(peers.main, ["--sets", "digits,far", "--trials", "3", "--json", str(path)])
    assert result.exit_code == 0, result.output
    content = json.loads(path.read_text())
    seen = {(r["method"], r["scaling"], r["seed"]) for r in content["records"]}
    ways = [(OURS, "raw"), *(("per class", scaling) for scaling in SCALINGS)]
    assert seen == {(*way, seed) for way in ways for seed in range(3)}
    assert {f["error"] for f in content["failed"]} == {"ValueError: too few samples"}
    assert {s.get("method") or s.get("set") for s in content["skipped"]} == {"not here", "far"}
    for text in ("no_such_package is not installed", "no file: set SROSR_DATA_DIR", "failed 3 times", "three balls"):
        assert text in result.output
    shown = CliRunner().invoke(peers.main, ["--show", str(path)])
    assert shown.exit_code == 0
    assert shown.output.splitlines() == result.output.splitlines()[-len(shown.output.splitlines()) - 1 : -1]


def test_what_is_slow_is_measured_only_when_asked_for(small, tmp_path):
    path = tmp_path / "peers.json"
    arguments = ["--sets", "digits", "--trials", "1", "--json", str(path), "--methods", "SLOW"]
    assert CliRunner().invoke(peers.main, arguments).exit_code == 0
    assert {r["method"] for r in json.loads(path.read_text())["records"]} == {"slow"}


def test_nothing_is_written_where_there_is_no_data(small, tmp_path):
    path = tmp_path / "peers.json"
    result = CliRunner().invoke(peers.main, ["--sets", "far", "--json", str(path)])
    assert result.exit_code == 1
    assert "Nothing was measured" in result.output
    assert not path.exists()


def test_estimator_checks_are_printed_with_the_names_of_those_that_failed(monkeypatch):
    line = {"estimator": "stand-in", "passed": 30, "failed": 1, "skipped": 0, "names": ["check_dict_unchanged"]}
    monkeypatch.setattr(peers, "estimator_checks", lambda: [line])
    result = CliRunner().invoke(peers.main, ["--checks"])
    assert result.exit_code == 0
    assert "stand-in fails: check_dict_unchanged" in result.output


@pytest.mark.parametrize("arguments", [["--sets", "moon"], ["--methods", "magic"], ["--trials", "0"]])
def test_names_that_are_not_there_are_a_usage_error(small, arguments):
    assert CliRunner().invoke(peers.main, arguments).exit_code == 2


@pytest.mark.slow
def test_importing_the_benchmark_imports_no_other_package():
    code = "import benchmarks.peers, sys; print([m for m in ('pyod', 'torch', 'torchosr', 'EVM') if m in sys.modules])"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert out.stdout.strip() == "[]"


def test_the_digits_are_always_there_and_the_same_for_all_methods():
    one, two = peers.digits(4), peers.digits(4)
    assert np.array_equal(one.X, two.X) and np.array_equal(one.y_test, two.y_test)
    assert len(np.unique(one.y)) == 6 and not set(one.y) & {UNKNOWN}
    assert {row.tobytes() for row in one.X}.isdisjoint(row.tobytes() for row in one.X_test[~one.is_unknown])


@pytest.mark.skipif(find_spec("pyod") is None, reason="pyod is not installed: the extra peers has it")
@pytest.mark.parametrize("name", list(contestants.DETECTORS))
def test_detectors_of_pyod_keep_the_interface_that_recipes_need(name):
    trial = tiny()
    for recipe in (detector_and_classifier, detector_per_class):
        answers = recipe(pyod_detector(name))(Prepared(trial))
        assert assess(trial, answers)["auroc"] > 0.9
        assert np.mean(answers.label[~trial.is_unknown] == UNKNOWN) < 0.5


def test_every_contestant_says_why_it_cannot_run_or_can():
    for contestant in CONTESTANTS.values():
        reason = contestant.skip_reason()
        assert reason is None or contestant.package in reason

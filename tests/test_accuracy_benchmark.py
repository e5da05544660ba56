"""The accuracy benchmark: trials without leakage, records without loss, and correct summaries."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from same import check_same, check_same_labels
from scipy import stats

from srosr import (
    BPDN,
    Dictionary,
    SRCClassifier,
    SROSRClassifier,
    open_set_auroc,
    residual_ratio,
    sparsity_concentration,
)

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # the benchmarks are run from the repository and are not installed
    sys.path.insert(0, str(ROOT))

from benchmarks import ablation, accuracy, comparison, costs, fitting, methods, sigmoids, standings, tails  # noqa: E402
from benchmarks.methods import EVIDENCE, METHODS, Answers, Setting, assess  # noqa: E402
from benchmarks.problems import Unavailable  # noqa: E402
from benchmarks.trials import TRIALS, UNKNOWN, Trial, TrialSet, _one_pool, _two_pools, spatial_pyramid  # noqa: E402

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Tails:
    weight: float = 0.3


class Pass:
    """Stand-in for a pass of the cross-test."""

    def label_by_residual(self):
        return self


@dataclass(frozen=True)
class Calibrated:
    tails: Tails
    rule: object = None
    simulated_pass: Pass = field(default_factory=Pass)
    held_out_pass: Pass = field(default_factory=Pass)

    @property
    def simulated(self):
        return self.simulated_pass

    @property
    def held_out(self):
        return self.held_out_pass


def same_tails(clf, tail_size):
    """Return the tails; the stand-in has none to fit."""
    return clf.calibration_.tails


class Recognizer:
    """Stand-in under the contract of our classifier: SRC that rejects by the residual of the best class."""

    made: list[dict] = []  # noqa: RUF012

    def __init__(self, rule="calibrated", target_rejection=0.05, threshold=None, **parameters):
        self.rule, self.target_rejection, self.threshold = rule, target_rejection, threshold
        type(self).made.append({"rule": rule, "threshold": threshold, **parameters})

    def fit(self, X, y):
        self.inside_ = SRCClassifier().fit(X, y)
        self.classes_, self.unknown_label_ = self.inside_.classes_, -1
        self.evidence_names_ = ["matched", "ratio", "concentration"]
        self.calibration_ = Calibrated(Tails())
        held_out = np.arange(len(y)) % 5 == 0
        clf = SRCClassifier().fit(X[~held_out], y[~held_out])
        scores = clf.residuals(X[held_out]).min(axis=1)
        if self.threshold is None:
            self.threshold = np.quantile(scores, 1 - self.target_rejection)
        return self

    def set_threshold(self, **_):
        return self

    def candidate(self, X):
        return self.inside_.predict(X)

    def unknown_score(self, X):
        return self.inside_.residuals(X).min(axis=1)

    def predict(self, X):
        return np.where(self.unknown_score(X) > self.threshold, self.unknown_label_, self.candidate(X))

    def evidence(self, X):
        residuals, dictionary = self.inside_.residuals(X), self.inside_.dictionary_
        assert isinstance(dictionary, Dictionary)
        return pd.DataFrame(
            {
                "matched": residuals.min(axis=1),
                "ratio": residual_ratio(residuals),
                "concentration": sparsity_concentration(self.inside_.encode(X), dictionary),
            }
        )


def toy(seed: int) -> Trial:
    """Return a trial of four known directions in eight dimensions and two unknown ones."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(6, 8)) * 2

    def some(k, n):
        return centers[k] + 0.7 * rng.normal(size=(n, 8))

    X, y = np.concatenate([some(k, 15) for k in range(4)]), np.repeat(np.arange(4), 15)
    X_test = np.concatenate([some(k, 10) for k in range(6)])
    return Trial(X, y, X_test, np.repeat([0, 1, 2, 3, UNKNOWN, UNKNOWN], 10))


def absent(seed: int) -> Trial:
    raise Unavailable("toys/absent.npz is not under SROSR_DATA_DIR")


@pytest.fixture
def toys(monkeypatch):
    """Replace our classifier and the real sets of the benchmark by stand-ins."""
    monkeypatch.setattr(Recognizer, "made", [])
    monkeypatch.setattr(methods, "recognizer", Recognizer)
    monkeypatch.setattr(methods, "directions", lambda: {"matched": 1, "ratio": 1, "concentration": -1})
    sets = {"toy": TrialSet("Toys, 4/2", False, toy), "absent": TrialSet("Absent", False, absent)}
    sets["yaleb"] = TrialSet("Faces, 4/2", False, toy)
    monkeypatch.setattr(accuracy, "TRIALS", sets)
    monkeypatch.setattr(methods, "_tails", same_tails)


def run(*arguments, code=0):
    result = CliRunner().invoke(accuracy.main, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


# --- trials ---------------------------------------------------------------------------------------------


def numbered(n_classes=9, n=12):
    """Return a set whose only feature is the number of the row."""
    return np.arange(n_classes * n)[:, None], np.repeat(np.arange(n_classes), n)


def check_split(trial: Trial, y: np.ndarray, n_known: int) -> None:
    """Check that no numbered row is in both training and testing, and no unknown class in training."""
    train, test = trial.X.ravel().astype(int), trial.X_test.ravel().astype(int)
    assert len(set(train)) == len(train) and len(set(test)) == len(test)
    assert not set(train) & set(test)
    np.testing.assert_array_equal(trial.y, y[train])
    known = np.unique(trial.y)
    assert len(known) == n_known
    np.testing.assert_array_equal(trial.is_unknown, ~np.isin(y[test], known))
    np.testing.assert_array_equal(trial.y_test[~trial.is_unknown], y[test][~trial.is_unknown])


@pytest.mark.parametrize("n_train", [5, 0.5])
def test_a_trial_of_one_pool_uses_every_row_once_and_hides_the_unknown_classes(n_train):
    X, y = numbered()
    for seed in range(10):
        check_split(_one_pool(X, y, seed, 4, 3, n_train, 5), y, 4)


def test_a_trial_of_two_pools_trains_on_the_first_only():
    X, y = numbered()
    for seed in range(10):
        trial = _two_pools(X, y, X + len(X), y, seed, 4, 5, 3, np.arange(9), np.arange(9), 4)
        check_split(trial, np.concatenate([y, y]), 4)
        assert trial.X.max() < len(X) <= trial.X_test.min()


def test_repeated_rows_are_counted_among_the_unknown():
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    trial = Trial(X, np.array([0, 1]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0, -1, -1]))
    assert trial.repeated_share == 0.5


def test_the_pyramid_has_unit_length_and_level_weights():
    counts = np.random.default_rng(0).integers(0, 9, (3, 16 * 5))
    pyramid = spatial_pyramid(counts)
    assert pyramid.shape == (3, 21 * 5)
    squares = pyramid**2
    parts = [squares[:, :5], squares[:, 5:25], squares[:, 25:]]
    np.testing.assert_allclose([p.sum(axis=1) for p in parts], np.outer([0.25, 0.25, 0.5], np.ones(3)))


SIZES = {
    "yaleb": (10, 1024),
    "mnist": (6, 784),
    "caltech101": (10, 4200),
    "uiuc": (10, 64),
    "clip": (20, 512),
    "usps": (6, 256),
    "letter": (15, 16),
    "coil20": (10, 1024),
    "orl": (20, 1024),
    "usps-all": (6, 256),
    "orl-2": (20, 1024),
    "orl-1": (20, 1024),
    "clip-5": (100, 512),
    "clip-2": (100, 512),
    "clip-1": (100, 512),
}


def draw(name: str, seed: int) -> Trial:
    """Return a real trial; skip the test if its file is absent."""
    try:
        return TRIALS[name].draw(seed)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", TRIALS)
def test_real_trials_are_fixed_by_their_seed(data_dir, name):
    one, again, other = draw(name, 3), draw(name, 3), draw(name, 4)
    for key in ("X", "y", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(one, key), getattr(again, key))
    assert one.X.shape != other.X.shape or not np.array_equal(one.X, other.X)
    n_known, n_features = SIZES[name]
    assert len(np.unique(one.y)) == n_known and one.X.shape[1] == one.X_test.shape[1] == n_features
    assert set(np.unique(one.y_test)) == {UNKNOWN, *np.unique(one.y).tolist()}
    assert one.y.min() >= 0
    assert np.isfinite(one.X).all() and one.X.any(axis=1).all()


@pytest.mark.parametrize("name", ["yaleb", "mnist", "clip", "coil20", "orl"])
def test_real_rows_are_not_in_training_and_testing(data_dir, name):
    """By value, for the sets whose rows are pictures, nearly all of them different."""
    trial = draw(name, 0)
    train = {row.tobytes() for row in np.ascontiguousarray(trial.X)}
    assert np.mean([row.tobytes() in train for row in np.ascontiguousarray(trial.X_test)]) < 0.02


# --- methods --------------------------------------------------------------------------------------------


def test_assessment_is_by_the_metrics():
    trial = Trial(np.zeros((2, 1)), np.array([0, 1]), np.zeros((5, 1)), np.array([0, 0, 1, -1, -1]))
    said = Answers(
        np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.2, 0.6, 0.5, 0.9]), np.array([0, 1, -1, 0, -1]), 2.0, 1.0
    )
    found = assess(trial, said)
    assert found["auroc"] == pytest.approx(5 / 6)
    assert found["oscr"] == pytest.approx(3 / 6)  # of six pairs, those with the wrong sample do not count
    assert found["closed_accuracy"] == pytest.approx(2 / 3)
    assert found["f"] == pytest.approx(2 * 1 / (2 * 1 + 1 + 2))
    assert found["accuracy"] == pytest.approx(2 / 5)
    assert found["false_rejection"] == pytest.approx(1 / 3)
    assert (found["fit_seconds"], found["predict_seconds"]) == (2.0, 1.0)
    bare = assess(trial, Answers(said.candidate, said.unknown_score))
    assert bare["auroc"] == found["auroc"] and bare["f"] is bare["accuracy"] is bare["false_rejection"] is None


@cache
def answers_of(name: str, seed: int) -> Answers:
    """Return what a rival says of a toy trial, fitted once for all tests."""
    return METHODS[name](toy(seed), Setting(seed))[name]


def find_threshold(answers: Answers) -> float:
    """Return the largest score that was accepted: all there is to see of a threshold."""
    return answers.unknown_score[answers.label != UNKNOWN].max()


@pytest.mark.parametrize("name", methods.RIVALS)
def test_rivals_recognize_reject_and_aim_at_the_target(name):
    found = [assess(toy(seed), answers_of(name, seed)) for seed in range(6)]
    assert np.mean([f["closed_accuracy"] for f in found]) > 0.9
    assert np.mean([f["auroc"] for f in found]) > 0.7
    assert 0.0 < np.mean([f["false_rejection"] for f in found]) < 0.15
    assert all(f["fit_seconds"] > 0 and f["predict_seconds"] > 0 for f in found)


@pytest.mark.parametrize("name", methods.RIVALS)
def test_rivals_name_unknown_exactly_what_scores_above_one_threshold(name):
    said = answers_of(name, 0)
    rejected = said.label == UNKNOWN
    assert 0 < rejected.sum() < len(rejected)
    assert said.unknown_score[rejected].min() > said.unknown_score[~rejected].max()
    np.testing.assert_array_equal(said.label[~rejected], said.candidate[~rejected])


def test_rivals_do_not_see_the_test_samples_while_fitting():
    trial = toy(1)
    half = Trial(trial.X, trial.y, trial.X_test[::2], trial.y_test[::2])
    for name in methods.RIVALS:
        whole, part = answers_of(name, 1), METHODS[name](half, Setting(1))[name]
        np.testing.assert_allclose(whole.unknown_score[::2], part.unknown_score)
        check_same_labels(part.label, whole.label[::2], part.unknown_score, find_threshold(whole))


def test_evidence_is_turned_so_that_larger_is_more_unknown(toys):
    trial = toy(0)
    said = METHODS["evidence"](trial, Setting(0))
    names = [EVIDENCE + name for name in ("matched", "ratio", "concentration")]
    assert list(said) == ["calibrated", *names, "paper", "matched"]
    for name, answers in said.items():
        assert assess(trial, answers)["auroc"] > 0.5, name
        assert (answers.label is None) == name.startswith(EVIDENCE)
    assert said[EVIDENCE + "concentration"].unknown_score.max() <= 0


def test_evidence_answers_for_all_that_is_ours():
    assert methods.methods_to_fit(list(METHODS)) == ["evidence", *methods.RIVALS]
    assert methods.methods_to_fit(["calibrated", "svm"]) == ["calibrated", "svm"]


@pytest.mark.parametrize("rule", ["paper", "matched"])
def test_one_fit_gives_the_papers_rules_as_fits_of_their_own_do(rule):
    shared = methods.calibrated_and_evidence(toy(1), Setting(3, 1, n_repeats=4))[rule]
    own = METHODS[rule](toy(1), Setting(3, 1, n_repeats=4))[rule]
    check_same(shared.unknown_score, own.unknown_score)
    check_same_labels(shared.label, own.label, own.unknown_score, find_threshold(own))


def test_the_papers_setting_is_the_papers(toys):
    for method in methods.PAPER_METHODS.values():
        method(toy(0), Setting(7, 1))
    for made, rule in zip(Recognizer.made, ("paper", "matched"), strict=True):
        assert made["rule"] == rule and made["problem"] == BPDN(0.001)
        assert (made["tail_size"], made["threshold"], made["n_repeats"]) == (0.10, 0.007, 50)
        assert made["openness"] == pytest.approx(0.3545, abs=1e-4)
        assert (made["random_state"], made["n_jobs"]) == (7, 1)


# --- sums -----------------------------------------------------------------------------------------------


def records(**values):
    """Return records of one set from lists of AUROC by method, seeds counting from 0."""
    return [
        {"set": "toy", "seed": seed, "method": name, "auroc": v, "oscr": v, "f": None, "accuracy": None}
        | {"false_rejection": v, "fit_seconds": 1.0, "predict_seconds": None}
        for name, numbers in values.items()
        for seed, v in enumerate(numbers)
    ]


def test_mean_error_and_interval_are_those_of_the_textbook():
    values = [0.1, 0.4, 0.4, 0.7]
    s = standings.summarize([*values, None])
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (s.n, s.least, s.most) == (4, 0.1, 0.7)
    assert s.mean == pytest.approx(0.4) and s.error == pytest.approx(stats.sem(values))
    assert (s.mean - s.half, s.mean + s.half) == pytest.approx((low, high))
    assert standings.summarize([None]) is None
    assert math.isnan(standings.summarize([0.5]).error)


def test_differences_are_paired_by_seed():
    """A method measured on some of the trials is compared on those alone."""
    rows = standings.by_method(records(calibrated=[0.9, 0.8, 0.1], svm=[0.7, 0.7]))
    s = standings.difference(rows["calibrated"], rows["svm"][::-1])
    assert (s.n, s.mean) == (2, pytest.approx(0.15))


def test_the_overview_names_the_best_evidence_and_the_best_rival():
    rows = records(calibrated=[0.8, 0.9], svm=[0.7, 0.9], paper=[1.0, 1.0])
    rows += records(**{"max-logit": [0.6, 0.6], "evidence ratio": [0.9, 0.9], "evidence matched": [0.1, 0.2]})
    (line,) = standings.overview(rows)
    assert line["auroc"] == pytest.approx(0.85)
    assert (line["evidence"]["name"], line["rival"]["name"]) == ("evidence ratio", "svm")
    assert line["evidence"]["ahead"] == pytest.approx(-0.05)
    assert line["rival"]["ahead"] == pytest.approx(0.05)
    assert standings.overview(records(svm=[0.5])) == []


@pytest.mark.parametrize(("values", "met"), [([0.04, 0.09], True), ([0.02, 0.03], False), ([0.08, 0.08], False)])
def test_coverage_is_within_two_points_of_the_target(values, met):
    (line,) = standings.coverage(records(calibrated=values))
    assert line["met"] is met
    assert (line["least"], line["most"], line["trials"]) == (min(values), max(values), 2)


# --- the command ----------------------------------------------------------------------------------------


def test_the_command_compares_all_methods_and_writes_what_it_prints(toys, tmp_path):
    path = tmp_path / "a.json"
    result = run("--sets", "toy", "--trials", 2, "--first-seed", 5, "--json", path)
    content = json.loads(path.read_text())
    names = ["calibrated", "evidence matched", "evidence ratio", "evidence concentration"]
    names += ["paper", "matched", *methods.RIVALS]
    assert [r["method"] for r in content["records"][: len(names)]] == names
    assert [t["seed"] for t in content["trials"]] == [5, 6]
    assert not content["failed"] and not content["skipped"]
    for name in names:
        line = next(part for part in result.stdout.splitlines() if part.startswith(f"| {name} "))
        mean = np.mean([r["auroc"] for r in content["records"] if r["method"] == name])
        assert f"{mean:.4f}" in line
    (line,) = content["overview"]
    assert line["evidence"]["name"].startswith(EVIDENCE) and line["rival"]["name"] in methods.RIVALS
    assert "0% of the unknown rows equal a training row" in result.stdout
    assert "toy: 2 of 2 trials" in result.stderr and "of 2 trials" not in result.stdout


def test_a_set_without_data_is_skipped_with_the_reason(toys, tmp_path):
    path = tmp_path / "a.json"
    result = run("--sets", "absent,toy", "--trials", 1, "--methods", "svm", "--json", path)
    assert "skipped absent: toys/absent.npz is not under SROSR_DATA_DIR" in result.stdout
    content = json.loads(path.read_text())
    assert [s["set"] for s in content["skipped"]] == ["absent"] and {r["set"] for r in content["records"]} == {"toy"}


def test_an_interrupted_run_loses_nothing_and_is_resumed(toys, tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    arguments = ["--sets", "toy", "--trials", 3, "--methods", "calibrated", "--json", path]
    calls = []

    def interrupted(seed):
        calls.append(seed)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return toy(seed)

    monkeypatch.setitem(accuracy.TRIALS, "toy", TrialSet("Toys, 4/2", False, interrupted))
    run(*arguments, code=1)
    assert [r["seed"] for r in json.loads(path.read_text())["records"]] == [0, 1]
    run(*arguments, "--resume")
    assert calls == [0, 1, 2, 2], "only the trial that was missing is drawn again"
    assert [r["seed"] for r in json.loads(path.read_text())["records"]] == [0, 1, 2]


def test_resuming_adds_methods_and_repeats_none(toys, tmp_path):
    path = tmp_path / "a.json"
    run("--sets", "toy", "--trials", 2, "--methods", "calibrated,evidence", "--json", path)
    before = json.loads(path.read_text())["records"]
    run("--sets", "toy", "--trials", 2, "--methods", "calibrated,evidence,svm", "--json", path, "--resume")
    after = json.loads(path.read_text())["records"]
    assert after[: len(before)] == before
    assert [r["method"] for r in after[len(before) :]] == ["svm", "svm"]


def test_a_run_of_another_kind_is_not_resumed(toys, tmp_path):
    path = tmp_path / "a.json"
    run("--sets", "toy", "--trials", 1, "--methods", "svm", "--json", path)
    result = run("--sets", "toy", "--coverage", "--trials", 1, "--json", path, "--resume", code=2)
    assert "holds a run with other settings" in result.stderr


def test_a_method_that_fails_is_named_and_leaves_the_others_alone(toys, tmp_path, monkeypatch):
    def broken(trial, setting):
        raise RuntimeError("no [luck] today")

    monkeypatch.setitem(METHODS, "paper", broken)
    path = tmp_path / "a.json"
    result = run("--sets", "toy", "--trials", 1, "--methods", "paper,svm", "--json", path, code=1)
    assert "FAILED toy seed 0 paper: RuntimeError: no [luck] today" in result.stdout
    content = json.loads(path.read_text())
    assert [r["method"] for r in content["records"]] == ["svm"] and len(content["failed"]) == 1


def test_coverage_measures_calibrated_and_the_promises_of_a_split(toys, tmp_path):
    path = tmp_path / "c.json"
    result = run("--sets", "toy", "--coverage", "--trials", 4, "--json", path)
    content = json.loads(path.read_text())
    by_method = {name: [r for r in content["records"] if r["method"] == name] for name in ("calibrated", "split")}
    assert [len(rows) for rows in by_method.values()] == [4, 4] and len(content["records"]) == 8
    (line,) = content["coverage"]
    assert line["mean"] == pytest.approx(np.mean([r["false_rejection"] for r in by_method["calibrated"]]))
    assert f"{line['mean']:.4f}" in result.stdout
    (promises,) = content["promises"]
    assert promises["covered"] == pytest.approx(np.mean([r["covered"] for r in by_method["split"]]))
    assert f"{promises['covered']:.4f}" in result.stdout


def test_the_papers_setting_prints_both_rules_and_their_difference(toys, tmp_path):
    path = tmp_path / "p.json"
    result = run("--setting", "paper-yaleb", "--trials", 2, "--json", path)
    assert {r["method"] for r in json.loads(path.read_text())["records"]} == {"paper", "matched"}
    assert "paper − matched" in result.stdout


def test_a_quick_run_is_small_and_says_so_in_its_file(toys, tmp_path):
    path = tmp_path / "q.json"
    run("--sets", "toy", "--quick", "--methods", "calibrated", "--json", path)
    content = json.loads(path.read_text())
    assert len(content["trials"]) == accuracy.QUICK_TRIALS and content["settings"]["quick"] is True
    assert all(made["n_repeats"] == accuracy.QUICK_REPEATS for made in Recognizer.made)


def test_fewer_test_samples_keep_both_kinds():
    trial = toy(0)
    small = accuracy.fewer(trial, 0, most=7)
    assert (small.is_unknown.sum(), (~small.is_unknown).sum()) == (7, 7)
    np.testing.assert_array_equal(small.X, trial.X)
    rows = {row.tobytes(): label for row, label in zip(trial.X_test, trial.y_test, strict=True)}
    assert all(rows[row.tobytes()] == label for row, label in zip(small.X_test, small.y_test, strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sets", "nowhere"], "nowhere is not among"),
        (["--methods", ","], "nothing is not among"),
        (["--coverage", "--setting", "paper-yaleb"], "two different runs"),
        (["--coverage", "--methods", "svm"], "--methods has no effect with --coverage"),
        (["--setting", "paper-yaleb", "--methods", "svm"], "--methods has no effect with --setting"),
        (["--setting", "paper-yaleb", "--sets", "toy"], "--sets has no effect with --setting"),
    ],
)
def test_options_that_cannot_be_satisfied_raise_an_error(toys, arguments, message):
    assert message in " ".join(run(*arguments, code=2).stderr.replace("│", " ").split())


# --- the other commands -------------------------------------------------------------------------------


def test_a_fits_cost_is_counted_by_passes(toys):
    counts, coding, whole = fitting.measure_fit(toy(0), 1)
    assert counts == [50 * 12, 25 * 12, 60]
    assert 0 < coding < whole


def test_adding_a_class_is_timed_beside_a_fit(toys):
    found = fitting.measure_changes(toy(0), 1)
    assert found["all score"] < 1e-6
    assert 0 <= found["new labels"] < 0.2
    assert min(found[key] for key in ("refit", "new", "all", "remove")) > 0


def test_the_ablation_begins_with_the_score_as_it_is():
    trial = toy(0)
    found = ablation.run(trial)
    auroc = {variant: value for (metric, variant), value in found.items() if metric == "auroc"}
    clf = SROSRClassifier(random_state=0).fit(trial.X, trial.y)
    own = open_set_auroc(trial.y_test, -clf.log_p_value(trial.X_test), unknown_label=UNKNOWN)
    assert auroc["as it is"] == pytest.approx(own)
    assert {f"without {name}" for name in clf.evidence_names_} < set(auroc)
    known = trial.y_test != UNKNOWN
    right = np.mean(clf.candidate(trial.X_test[known]) == trial.y_test[known])
    assert found["closed_accuracy", "as it is"] == pytest.approx(right)
    assert {("oscr", f"without {name}") for name in clf.class_score_names_} < set(found)


@pytest.mark.parametrize("module", ["fitting", "ablation"])
def test_the_other_commands_have_help_and_report_unknown_options(module):
    command = {"fitting": fitting, "ablation": ablation}[module].main
    assert "python -m" in CliRunner().invoke(command, ["--help"]).output
    result = CliRunner().invoke(command, ["--sets", "nothing"])
    assert result.exit_code == 2 and "nothing" in result.output


def test_the_tails_command_finds_no_likelihood_larger_than_ours():
    result = CliRunner().invoke(tails.main, ["--samples", "3"])
    assert result.exit_code == 0, result.output
    assert "larger by over 1e-08 in 0" in " ".join(result.output.split())


# --- what came out --------------------------------------------------------------------------------------


def record(method, name, seed, auroc, **more):
    return {"method": method, "set": name, "seed": seed, "auroc": auroc} | more


RECORDS = [
    *(record("calibrated", "toy", seed, 0.9 + seed / 100) for seed in range(3)),
    *(record("svm", "toy", seed, 0.8 + seed / 100) for seed in range(3)),
    *(record("osnn", "toy", seed, 0.95 + seed / 100) for seed in range(3)),
    *(record("calibrated", "yaleb", seed, 0.99) for seed in range(3)),
    *(record("svm", "yaleb", seed, 0.98) for seed in range(3)),
    *(record("osnn", "yaleb", seed, 0.97) for seed in range(3)),
    record("evidence ratio", "toy", 0, 1.0),
]


def test_the_grid_ranks_methods_over_all_sets_and_leaves_single_evidence_out():
    cells = standings.grid(RECORDS, "auroc")
    # On toy osnn, calibrated, svm; on yaleb calibrated, svm, osnn.
    assert list(cells) == ["calibrated", "osnn", "svm"]
    assert standings.mean_ranks(cells, "auroc") == {"calibrated": 1.5, "osnn": 2.0, "svm": 2.5}
    assert cells["osnn"]["toy"].mean == pytest.approx(0.96)
    assert standings.best_of(cells, "yaleb", "auroc") == pytest.approx(0.99)


def test_a_metric_of_which_less_is_better_is_ranked_so():
    records = [record(method, "toy", 0, 0.0, fpr95=rate) for method, rate in {"a": 0.3, "b": 0.1, "c": 0.2}.items()]
    assert list(standings.grid(records, "fpr95")) == ["b", "c", "a"]
    assert standings.best_of(standings.grid(records, "fpr95"), "toy", "fpr95") == 0.1


def test_the_comparison_prints_means_marks_the_best_and_says_who_is_ahead(tmp_path):
    path, picture = tmp_path / "a.json", tmp_path / "a.png"
    path.write_text(json.dumps({"records": RECORDS}))
    result = CliRunner().invoke(comparison.main, [str(path), "--figure", str(picture)])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "| calibrated | .9100 | **.9900** | 1.5 |" in lines
    assert "| osnn | **.9600** | .9700 | 2.0 |" in lines
    assert [line for line in lines if "ahead" in line] == ["toy: osnn ahead by 0.0500 ±0.0000"]
    assert picture.stat().st_size > 1000
    lines = CliRunner().invoke(comparison.main, [str(path), "--paired"]).output.splitlines()
    assert "| osnn | **−.0500 ±.0000** | +.0200 ±.0000 |" in lines
    slow = [record(method, "toy", 0, 0.0, fit_seconds=s) for method, s in {"calibrated": 30.25, "osnn": 20.0}.items()]
    assert "| osnn | −10.25 |" in comparison.tabulate_differences(slow, "fit_seconds").splitlines()
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps({"records": []}))
    assert "no records" in CliRunner().invoke(comparison.main, [str(empty)]).output
    assert "no fpr95" in CliRunner().invoke(comparison.main, [str(path), "--metric", "fpr95"]).output


def test_the_cost_of_a_method_counts_time_memory_and_file():
    found = costs.measure_cost("osnn", toy(0))
    assert found.fit > 0 and found.predict > 0
    assert found.matrices > 1  # distances between all training samples are one matrix
    assert found.megabytes > 60 * 8 * 8 / 1e6  # and the samples are in the file


def test_the_sigmoids_command_prints_a_ratio():
    result = CliRunner().invoke(sigmoids.main, ["--classes", "3", "--samples", "6", "--repeats", "1"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("3 pairs: ") and "ratio" in result.output

"""One trial of an experiment: what it measures, what it does with failures, and that it is the same everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from same import check_same

from srosr import CalibrationWarning, SROSRClassifier, openness
from srosr.datasets.registry import load_dataset
from srosr.distributed.worker_task import UnfitWorkerError
from srosr.experiments import trial as trials
from srosr.experiments.protocol import UNKNOWN, MethodSetting, Source
from srosr.experiments.protocol_file import parse_protocol
from srosr.experiments.trial import METRICS, TARGETS, RunSettings, compute_metrics, run_trial
from srosr.experiments.trial_methods import MethodPredictions

SMALL = """
methods = ["calibrated", "paper", "naive", "knn", "w-svm-original"]
[data]
set = "digits"
[known]
classes = 4
train = 25
test = 15
[unknown]
classes = [1, 3]
test = 15
[method.calibrated]
n_repeats = 5
[method.paper]
n_repeats = 5
threshold = 0.05
openness = "level"
[method.w-svm-original]
method = "w-svm"
threshold = "original"
openness = "level"
"""

METHODS_ELSEWHERE = ("calibrated", "w-svm", "evm")
ELSEWHERE = SMALL.replace('"naive"', '"naive", "w-svm", "evm"')


@pytest.fixture(scope="module")
def work():
    protocol = parse_protocol(tomllib.loads(SMALL), "small")
    return RunSettings(protocol, 0, protocol.load_dataset().fingerprint())


def print_records():
    """Print the records that another process computes, one per line."""
    protocol = parse_protocol(tomllib.loads(ELSEWHERE), "small")
    for record, _ in run_trial(RunSettings(protocol, 0, protocol.load_dataset().fingerprint()), 0, METHODS_ELSEWHERE):
        print(json.dumps(record))


@pytest.fixture(scope="module")
def first(work):
    names = tuple(m.name for m in work.protocol.methods)
    return {record["method"]: (record, times) for record, times in run_trial(work, 0, names)}


def test_every_method_has_every_metric_at_every_openness(first):
    for record, times in first.values():
        assert record["error"] is None
        keys = [(n, metric) for n, _, metric, _ in record["values"]]
        assert keys == [(n, metric) for n in (1, 3) for metric in METRICS]
        assert {o for n, o, _, _ in record["values"] if n == 3} == {openness(4, 4, 7)}
        assert all(0 <= value <= 1 for *_, value in record["values"])
        assert [row[0] for row in record["coverage"]] == list(TARGETS)
        assert times["fit"] > 0 and times["coding"] >= 0
    assert first["calibrated"][1]["coding"] > 0 and first["knn"][1]["coding"] == 0


def test_a_trial_is_the_same_again_and_whichever_methods_run(work, first):
    for names in (("knn",), ("paper",), ("naive", "calibrated")):
        for record, _ in run_trial(work, 0, names):
            check_same(record, first[record["method"]][0])  # beside others a fit may be shared


@pytest.mark.slow
def test_a_trial_is_the_same_in_other_processes_whatever_their_hash_seed_and_threads(first):
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    found = []
    for settings in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "OMP_NUM_THREADS": "2"}):
        done = subprocess.run(
            [sys.executable, "-c", "import test_trial; test_trial.print_records()"],
            env=os.environ | {"PYTHONPATH": path} | settings,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(done.stdout.splitlines())
    assert found[0] == found[1]
    assert [json.loads(line)["error"] for line in found[0]] == [None] * len(METHODS_ELSEWHERE)
    check_same(json.loads(found[0][0]), first["calibrated"][0])


def test_the_values_are_those_of_a_classifier_fitted_by_hand(work, first):
    protocol, data = work.protocol, load_dataset("digits")
    t = protocol.draw(data, 0, 0)
    clf = SROSRClassifier(n_repeats=5, random_state=trials._derive_method_seed(0, 0), n_jobs=1)
    clf.fit(data.X[t.train], t.y_train)
    label = clf.predict(data.X[t.test])
    known = t.y_test != UNKNOWN
    tp = (label == t.y_test)[known].sum()
    fp, fn = (label[~known] != -1).sum(), known.sum() - tp
    values = {metric: value for n, _, metric, value in first["calibrated"][0]["values"] if n == 3}
    assert values["f"] == pytest.approx(2 * tp / (2 * tp + fp + fn), abs=1e-12)
    assert values["accuracy"] == pytest.approx(np.mean(label == np.where(known, t.y_test, -1)), abs=1e-12)
    assert values["known_rejected"] == pytest.approx(np.mean(label[known] == -1), abs=1e-12)
    assert values["rejection_accuracy"] == pytest.approx(np.mean(label[~known] == -1), abs=1e-12)


def test_a_portrait_is_of_the_first_trial_and_agrees_with_the_values(work, first):
    for name in ("calibrated", "paper"):
        record = first[name][0]
        portrait = record["portrait"]
        confusion = np.array(portrait["confusion"])
        values = {metric: value for n, _, metric, value in record["values"] if n == 3}
        assert np.trace(confusion) / confusion.sum() == pytest.approx(values["accuracy"])
        assert confusion[-1].sum() == len(portrait["test"]["unknown"]["score"]) == 45
        assert len(portrait["class_names"]) == 4 and len(confusion) == 5
    assert first["knn"][0]["portrait"] is None
    assert run_trial(work, 1, ("calibrated",))[0][0]["portrait"] is None


def test_coverage_leaves_the_methods_own_threshold_alone(first):
    # The threshold of "paper" is a number: its answers at the largest openness are those of that number, whatever
    # thresholds were looked at besides.
    record = first["paper"][0]
    matrix = np.array(record["portrait"]["confusion"])
    rejected = matrix[:-1, -1].sum() / matrix[:-1].sum()
    values = {metric: value for n, _, metric, value in record["values"] if n == 3}
    assert rejected == pytest.approx(values["known_rejected"])
    assert record["portrait"]["threshold"] == 0.05


def test_a_failing_method_is_recorded_with_its_reason_and_leaves_the_others_alone(work, first, monkeypatch):
    from srosr.rivals.knn_distance import KNNDistance

    def fail(*_):
        raise MemoryError("no room\nfor the distances")

    monkeypatch.setattr(KNNDistance, "_fit", fail)
    found = {r["method"]: r for r, _ in run_trial(work, 0, ("knn", "naive"))}
    assert found["knn"]["error"] == "MemoryError: no room for the distances"
    assert found["knn"]["values"] == [] and found["knn"]["coverage"] == []
    assert json.dumps(found["naive"]) == json.dumps(first["naive"][0])


def test_one_of_those_who_share_a_fit_may_fail_alone(work, monkeypatch):
    protocol = replace(
        work.protocol,
        methods=(MethodSetting("naive", "naive"), MethodSetting("ratio", "ratio"), MethodSetting("sci", "sci")),
    )
    shared = RunSettings(protocol, 0, work.fingerprint)
    expected = {r["method"]: r for r, _ in run_trial(shared, 0, ("naive", "ratio", "sci"))}
    from srosr.rivals.sparse_rejection import RatioRejection

    def fail(*_):
        raise ArithmeticError("a ratio of nothing")

    monkeypatch.setattr(RatioRejection, "_score_evidence", fail)
    found = {r["method"]: r for r, _ in run_trial(shared, 0, ("naive", "ratio", "sci"))}
    assert found["ratio"]["error"] == "ArithmeticError: a ratio of nothing"
    for name in ("naive", "sci"):
        assert json.dumps(found[name]) == json.dumps(expected[name])


def test_other_data_under_the_same_name_raise_an_error(work, monkeypatch):
    monkeypatch.setattr(trials, "_cached", None)
    message = r"the data set digits is not that of the run \(fingerprint .*, not 0{12}\)\. Every machine needs the same"
    with pytest.raises(UnfitWorkerError, match=message):
        run_trial(replace(work, fingerprint="0" * 64), 0, ("knn",))


def test_data_that_are_missing_are_no_failure_of_the_methods(work, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "_cached", None)
    monkeypatch.setenv("SROSR_DATA_DIR", str(tmp_path / "nowhere"))
    letters = replace(work.protocol, data=Source(set="letter"))
    with pytest.raises(
        UnfitWorkerError, match=r"letter cannot be loaded: .*not a folder.* SROSR_DATA_DIR names there\.$"
    ):
        run_trial(RunSettings(letters, 0, "0" * 64), 0, ("knn",))
    own = replace(work.protocol, data=Source(file=str(tmp_path / "mine.npz")))
    with pytest.raises(
        UnfitWorkerError, match=r"mine\.npz cannot be loaded: .*does not exist.* under the same path\.$"
    ):
        run_trial(RunSettings(own, 0, "0" * 64), 0, ("knn",))


def test_pictures_that_went_away_are_no_failure_of_the_methods(work, tmp_path):
    Image = pytest.importorskip("PIL.Image", reason='pictures need Pillow: pip install "srosr[images]"')
    for name in "abc":
        (tmp_path / name).mkdir()
        for i in range(6):
            Image.new("L", (40, 40), 20 * i).save(tmp_path / name / f"{i}.png")
    protocol = replace(
        work.protocol,
        data=Source(file=str(tmp_path)),
        known=replace(work.protocol.known, classes=2, train=3, test=3),
        unknown=replace(work.protocol.unknown, classes=(1,), test=3),
        features={"n_words": 2},
    )
    pictures = RunSettings(protocol, 0, protocol.load_dataset().fingerprint())
    trials._load_dataset(protocol, pictures.fingerprint)
    for path in tmp_path.glob("*/*.png"):
        path.unlink()
    with pytest.raises(UnfitWorkerError, match=r"cannot be read: FileNotFoundError: .* under the same path\.$"):
        run_trial(pictures, 0, ("knn",))


def test_warnings_are_neither_shown_nor_part_of_a_record(work, recwarn):
    few = replace(work.protocol, known=replace(work.protocol.known, train=3))
    t = few.draw(load_dataset("digits"), 0, 0)
    with pytest.warns(CalibrationWarning):
        SROSRClassifier(n_repeats=5, random_state=0).fit(load_dataset("digits").X[t.train], t.y_train)
    recwarn.clear()
    record = run_trial(RunSettings(few, 0, work.fingerprint), 0, ("calibrated",))[0][0]
    assert not recwarn.list
    assert set(record) == {"trial", "method", "error", "values", "coverage", "portrait"}


def test_the_metrics_of_a_worked_example():
    y = np.array([0, 0, 1, 1, UNKNOWN, UNKNOWN, UNKNOWN])
    said = MethodPredictions(
        np.array([0, 1, 1, 1, 0, 1, 1]), np.array([0.1, 0.2, 0.3, 0.9, 0.8, 0.25, 0.95]), np.zeros(7, bool)
    )
    said.rejected[[3, 4, 6]] = True
    got = compute_metrics(y, said)
    # TP: samples 0 and 2; FN: 1 (wrong) and 3 (rejected); FP: 5; TN: 4 and 6.
    assert got["f"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 2))
    assert got["accuracy"] == pytest.approx(4 / 7)
    assert got["recognition_accuracy"] == pytest.approx(2 / 4)
    assert got["rejection_accuracy"] == pytest.approx(2 / 3)
    assert got["known_rejected"] == pytest.approx(1 / 4)
    assert got["closed_set_accuracy"] == pytest.approx(3 / 4)
    # Pairs (known, unknown) in the right order: 3 + 3 + 2 + 1 of 12.
    assert got["auroc"] == pytest.approx(9 / 12)
    assert list(got) == list(METRICS)

"""The recognizer on real data: the paper's claim, few samples, and a target that is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from srosr import BPDN, CalibrationWarning, SROSRClassifier, open_set_auroc, open_set_f_measure, openness

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # the trials are run from the repository and are not installed
    sys.path.insert(0, str(ROOT))

from benchmarks.trials import TRIALS  # noqa: E402

PAPER = {
    "problem": BPDN(0.001),
    "tail_size": 0.10,
    "threshold": 0.007,
    "openness": openness(10, 10, 38),
    "random_state": 0,
}


def auroc(clf, trial):
    return open_set_auroc(trial.y_test, clf.unknown_score(trial.X_test), unknown_label=-1)


@pytest.mark.slow
def test_at_the_papers_own_setting_both_tails_beat_the_matched_one_alone(data_dir):
    """Extended Yale B; the paper's claim. The matched rule is the fused one of weight zero over the same cross-test."""
    trial = TRIALS["yaleb"].draw(1)
    f = {}
    for rule in ("paper", "matched"):
        clf = SROSRClassifier(rule=rule, n_repeats=20, **PAPER).fit(trial.X, trial.y)
        f[rule] = open_set_f_measure(trial.y_test, clf.predict(trial.X_test), unknown_label=-1)
    assert f["paper"] > f["matched"] + 0.02
    assert f["paper"] > 0.7


@pytest.mark.parametrize("name, least", [("yaleb", 0.98), ("uiuc", 0.75), ("clip", 0.93), ("coil20", 0.97)])
def test_the_calibrated_rule_rejects_unknowns_and_few_others(data_dir, name, least):
    trial = TRIALS[name].draw(1)
    clf = SROSRClassifier(random_state=0).fit(trial.X, trial.y)
    assert auroc(clf, trial) > least
    rejected = clf.predict(trial.X_test)[~trial.is_unknown] == -1
    # About 5 % of n known samples: four standard deviations of their number, and what a threshold itself is off.
    n = len(rejected)
    assert abs(rejected.mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / n) + 0.02


def test_one_picture_of_each_of_a_hundred_classes_is_enough_to_start(data_dir):
    trial = TRIALS["clip-1"].draw(0)
    with pytest.warns(CalibrationWarning, match="simulated unknowns"):
        clf = SROSRClassifier(n_repeats=10, random_state=0).fit(trial.X, trial.y)
    assert clf.pooled_.all()
    assert len(clf.classes_) == len(trial.X) == 100
    assert auroc(clf, trial) > 0.7
    said = clf.predict(trial.X_test)
    # It accepts few unknown samples, as simulated, and rejects many known samples with the others.
    assert (said[trial.is_unknown] != -1).mean() < 0.1
    known = ~trial.is_unknown
    assert (said[known] == trial.y_test[known]).mean() > 0.25


@pytest.mark.parametrize("name", ["orl-1", "orl-2"])
def test_faces_with_one_or_two_pictures_are_recognized_better_than_rejected_by_chance(data_dir, name):
    trial = TRIALS[name].draw(0)
    clf = SROSRClassifier(n_repeats=10, random_state=0)
    if name == "orl-1":
        with pytest.warns(CalibrationWarning):
            clf.fit(trial.X, trial.y)
    else:
        clf.fit(trial.X, trial.y)
    assert auroc(clf, trial) > 0.7
    known = ~trial.is_unknown
    assert (clf.candidate(trial.X_test)[known] == trial.y_test[known]).mean() > 0.6

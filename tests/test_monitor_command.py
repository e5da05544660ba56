"""``srosr monitor``: what it prints and writes, how it goes on from a state, and which errors it reports."""

from __future__ import annotations

import base64
import json

import numpy as np
import pandas as pd
import pytest
from command_runs import error_of, right, run
from same import check_same
from scale import slow_except
from sklearn.datasets import load_digits

import srosr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder: a model of the digits 0 to 3, a stream of them, and one with 4 and 5 after 120 rows."""
    folder = tmp_path_factory.mktemp("stream")
    X, y = load_digits(n_class=6, return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    table = pd.DataFrame(X, columns=[f"p{j}" for j in range(64)])
    known, unknown = np.flatnonzero(y < 4), np.flatnonzero(y >= 4)
    train = table.iloc[known[:160]].assign(digit=[f"d{label}" for label in y[known[:160]]])
    train.to_csv(folder / "train.csv", index=False)
    table.iloc[known[160:400]].to_csv(folder / "steady.csv", index=False)
    table.iloc[np.r_[known[400:520], unknown[:120]]].to_csv(folder / "changing.csv", index=False)
    right("fit", folder / "train.csv", "-o", folder / "model.srosr", "--seed", "0", "--jobs", "1")
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return folder / "model.srosr"


def summary_of(*arguments, given=None):
    return json.loads(right("monitor", *arguments, "--json", given=given).splitlines()[-1])


def test_a_steady_stream_raises_no_alarm_and_a_changing_one_does_after_the_change(folder, model):
    steady = right("monitor", model, folder / "steady.csv")
    assert "samples         240" in steady and "alarm           none; a stream without a change" in steady
    changing = right("monitor", model, folder / "changing.csv", "--block", "40")
    assert "alarm           at sample 1" in changing and "rejected " in changing and "near threshold" in changing
    assert summary_of(model, folder / "changing.csv")["alarm"]["sample"] >= 120


def test_the_numbers_are_those_of_python(folder, model):
    found = summary_of(model, folder / "changing.csv", "--block", "40", "--false-alarm-rate", "0.02")
    clf = srosr.load(model)
    monitor = srosr.Monitor(clf, block=40, false_alarm_rate=0.02)
    monitor.update(pd.read_csv(folder / "changing.csv"))
    expected = monitor.summary.to_dict()
    check_same({name: found[name] for name in expected}, expected)
    assert found["kind"] == "summary" and found["dropped"] == 0 and found["state"] is found["figure"] is None


def test_json_has_a_line_for_each_complete_block(folder, model):
    output = right("monitor", model, folder / "changing.csv", "--block", "70", "--json")
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["kind"] for line in lines] == ["block", "block", "block", "summary"]
    assert [line["start"] for line in lines[:-1]] == [0, 70, 140]
    decided = srosr.load(model).decide(pd.read_csv(folder / "changing.csv"))
    rejected = [int(decided.rejected[i : i + 70].sum()) for i in (0, 70, 140)]
    assert [line["rejected"]["count"] for line in lines[:-1]] == rejected
    assert set(lines[0]["accepted"]) == {"d0", "d1", "d2", "d3"}


def test_standard_input_is_a_stream_too(folder, model):
    text = (folder / "steady.csv").read_text()
    expected = summary_of(model, folder / "steady.csv") | {"stream": "standard input"}
    check_same(summary_of(model, "-", given=text), expected)


@pytest.mark.parametrize("against", ["stream", "calibration"])
def test_two_days_with_a_state_are_like_both_at_once(folder, model, tmp_path, against):
    steady, changing = (pd.read_csv(folder / f"{name}.csv") for name in ("steady", "changing"))
    pd.concat([steady, changing]).to_csv(tmp_path / "both.csv", index=False)
    options = ("--against", against, "--block", "50")
    right("monitor", model, folder / "steady.csv", "--state", tmp_path / "s.json", *options)
    right("monitor", model, folder / "changing.csv", "--state", tmp_path / "s.json")
    right("monitor", model, tmp_path / "both.csv", "--state", tmp_path / "t.json", *options)
    states = [json.loads((tmp_path / name).read_text()) for name in ("s.json", "t.json")]
    for state in states:
        state["bag"] = np.frombuffer(base64.b64decode(state["bag"]), "<f8")
    check_same(*states)


def test_fail_on_alarm_sets_the_exit_status_until_the_watch_is_restarted(folder, model, tmp_path):
    state = ("--state", tmp_path / "s.json")
    assert run("monitor", model, folder / "steady.csv", *state, "--fail-on-alarm").exit_code == 0
    done = run("monitor", model, folder / "changing.csv", *state, "--fail-on-alarm", "-q")
    assert done.exit_code == 1 and done.output == ""
    assert run("monitor", model, folder / "steady.csv", *state).exit_code == 0
    assert run("monitor", model, folder / "steady.csv", *state, "--fail-on-alarm").exit_code == 1
    assert run("monitor", model, folder / "steady.csv", *state, "--fail-on-alarm", "--restart").exit_code == 0


FORMATS = [("m.png", b"\x89PNG"), ("m.svg", b"<?xml"), ("m.pdf", b"%PDF")]


@pytest.mark.parametrize(("name", "start"), slow_except(FORMATS[:1], FORMATS))
def test_the_figure_has_the_format_of_its_suffix(folder, model, tmp_path, name, start):
    output = right("monitor", model, folder / "changing.csv", "--block", "40", "--figure", tmp_path / name)
    assert f"Figure: {tmp_path / name}" in output
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_state_of_another_model_is_told_in_one_sentence_and_left_alone(folder, model, tmp_path):
    state = tmp_path / "s.json"
    right("monitor", model, folder / "steady.csv", "--state", state)
    before = state.read_bytes()
    right("set-threshold", model, "--target-rejection", "0.2", "-o", tmp_path / "other.srosr")
    text = error_of("monitor", tmp_path / "other.srosr", folder / "steady.csv", "--state", state)
    assert "another model" in text and "new file" in text
    assert state.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.csv",), "does not exist"),
        (("steady.csv", "--state", "train.csv"), "not the state of a monitor"),
        (("steady.csv", "--state", "nowhere/s.json"), "there is no folder"),
        (("steady.csv", "--state", "steady.csv"), "it is an input of this command"),
        (("steady.csv", "--figure", "m.txt"), "must end in .png"),
        (("steady.csv", "--state", "x.png", "--figure", "x.png"), "two different files"),
        (("steady.csv", "--false-alarm-rate", "0"), "false-alarm-rate"),
        (("steady.csv", "--against", "past"), "against"),
        (("steady.csv", "--block", "0"), "block"),
        (("steady.csv", "--label", "p0"), "No such option"),
        (("steady.csv", "--ignore", "nothing"), "nothing"),
    ],
)
def test_an_invalid_call_is_told_in_one_sentence_and_writes_nothing(folder, model, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert words in error_of("monitor", model, *arguments)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_option_that_contradicts_the_state_is_named(folder, model, tmp_path):
    state = ("--state", tmp_path / "s.json")
    right("monitor", model, folder / "steady.csv", *state, "--block", "30")
    assert "--block 40 contradicts" in error_of("monitor", model, folder / "steady.csv", *state, "--block", "40")
    assert "--against calibration contradicts" in error_of(
        "monitor", model, folder / "steady.csv", *state, "--against", "calibration"
    )
    right("monitor", model, folder / "steady.csv", *state, "--block", "30", "--against", "stream")


def test_a_row_that_cannot_be_read_stops_the_command_and_leaves_the_state(folder, model, tmp_path):
    right("monitor", model, folder / "steady.csv", "--state", tmp_path / "s.json")
    before = (tmp_path / "s.json").read_bytes()
    lines = (folder / "steady.csv").read_text().splitlines()
    (tmp_path / "broken.csv").write_text("\n".join([*lines[:40], "x" + lines[40], *lines[41:]]))
    options = ("--state", tmp_path / "s.json", "--figure", tmp_path / "m.png")
    error_of("monitor", model, tmp_path / "broken.csv", *options)
    assert (tmp_path / "s.json").read_bytes() == before and not (tmp_path / "m.png").exists()

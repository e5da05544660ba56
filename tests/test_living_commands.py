"""Commands that keep a model in use: update, recalibrate, groups and promises at the shell."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_runs import QUICK, error_of, right, run
from PIL import Image
from same import check_same_model
from sklearn.datasets import load_digits
from test_command_line_page import as_pattern
from test_commands import rows_of

import srosr

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder: digits of the first writers to fit, more of them, fresh and new ones of later writers."""
    folder = tmp_path_factory.mktemp("living")
    X, y = load_digits(return_X_y=True)
    rows = np.arange(len(y))
    table = pd.DataFrame(X, columns=[f"p{j}" for j in range(64)])
    table["digit"] = NAMES[np.minimum(y, 6)]
    table["writer"] = [f"w{row // 25}" for row in rows]
    known = y < 4
    table[known & (rows < 400)].to_csv(folder / "train.csv", index=False)
    table[known & (rows >= 400) & (rows < 500)].to_csv(folder / "more.csv", index=False)
    table[known & (rows >= 1200) & (rows < 1450)].to_csv(folder / "fresh.csv", index=False)
    table[(rows >= 1450) & (y < 7)].to_csv(folder / "new.csv", index=False)
    right("fit", folder / "train.csv", "--label", "digit", "--ignore", "writer", "-o", folder / "m.srosr", *QUICK)
    return folder


@pytest.fixture
def model(folder, tmp_path):
    (tmp_path / "m.srosr").write_bytes((folder / "m.srosr").read_bytes())
    return tmp_path / "m.srosr"


def test_update_adds_the_samples_of_each_class(folder, model):
    before = json.loads(right("info", model, "--json"))["class_sizes"]
    output = right("update", model, folder / "more.csv")
    assert "held-out samples" in output and f"Model: {model}" in output
    after = json.loads(right("info", model, "--json"))["class_sizes"]
    more = pd.read_csv(folder / "more.csv").digit.value_counts().to_dict()
    assert after == {name: before[name] + more[name] for name in before}


def test_update_can_forget_the_oldest(folder, model):
    right("update", model, folder / "more.csv", "--keep", "20", "-o", model.with_name("small.srosr"))
    sizes = json.loads(right("info", model.with_name("small.srosr"), "--json"))["class_sizes"]
    assert set(sizes.values()) == {20}
    assert set(json.loads(right("info", model, "--json"))["class_sizes"].values()) != {20}, "the model is as it was"


def test_update_equals_python(folder, model):
    clf = srosr.load(model)
    more, new = pd.read_csv(folder / "more.csv"), pd.read_csv(folder / "new.csv")
    columns = [f"p{j}" for j in range(64)]
    clf.update(more[columns], more.digit.to_numpy())
    right("update", model, folder / "more.csv")
    check_same_model(srosr.load(model), clf, new[columns])


def test_numbers_as_classes_are_matched(tmp_path):
    X, y = load_digits(return_X_y=True)
    srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(X[:300][y[:300] < 4], y[:300][y[:300] < 4]).save(
        tmp_path / "m"
    )
    rows = np.flatnonzero(y[300:400] < 4) + 300
    np.savez(tmp_path / "more.npz", X=X[rows], y=y[rows])
    right("update", tmp_path / "m", tmp_path / "more.npz")
    assert srosr.load(tmp_path / "m").classes_.dtype.kind == "i"


def test_recalibrate_keeps_the_target_after_a_change(folder, model, monkeypatch):
    monkeypatch.setattr("srosr.evaluation.metric_table._RESAMPLES", 25)
    rate = {}
    for name in ("before", "after"):
        whole = json.loads(right("evaluate", model, folder / "new.csv", "--json"))
        rate[name] = whole["metrics"]["known_rejected"]["value"]
        if name == "before":
            output = right("recalibrate", model, folder / "fresh.csv")
    assert "collected after the fit" in output and "fresh samples" in output
    assert rate["after"] < rate["before"] - 0.03
    shown = right("info", model)
    assert "guarantee " in shown and "guaranteed for new samples like these" in shown
    assert json.loads(right("info", model, "--json"))["recalibration"] == {
        "labeled": True, "exact": True, "fresh": True,
    }  # fmt: skip


def test_recalibrate_takes_samples_without_classes(folder, model, tmp_path):
    pd.read_csv(folder / "fresh.csv").drop(columns=["digit", "writer"]).to_csv(tmp_path / "fresh.csv", index=False)
    output = right("recalibrate", model, tmp_path / "fresh.csv")
    assert "their classes are not known" in output
    message = error_of("predict", model, folder / "new.csv", "--coverage", "0.9")
    assert "had no labels" in message


def test_prediction_sets_and_p_values_are_columns(folder, model, tmp_path):
    right("predict", model, folder / "new.csv", "--coverage", "0.9", "--fdr", "0.2", "-o", tmp_path / "d.csv", "-q")
    rows = rows_of(tmp_path / "d.csv")
    assert list(rows[0])[-2:] == ["prediction_set", "p_value"]
    clf, new = srosr.load(model), pd.read_csv(folder / "new.csv")
    X = new[[f"p{j}" for j in range(64)]]
    said, sets = clf.decide(X, fdr=0.2), clf.prediction_set(X, 0.9)
    assert [row["prediction_set"] for row in rows] == ["|".join(classes.tolist()) for classes in sets]
    assert [row["verdict"] == "rejected" for row in rows] == said.rejected.tolist()
    np.testing.assert_allclose([float(row["p_value"]) for row in rows], said.p_value)
    for suffix in ("jsonl", "parquet"):
        right("predict", model, folder / "new.csv", "--coverage", "0.9", "-o", tmp_path / f"d.{suffix}", "-q")
    table = pd.read_parquet(tmp_path / "d.parquet")
    assert table.prediction_set.tolist() == [row["prediction_set"] for row in rows]
    lines = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    assert [line["prediction_set"] for line in lines] == table.prediction_set.tolist()


def test_groups_are_remembered_and_left_out_of_the_features(folder, tmp_path):
    model = tmp_path / "m.srosr"
    output = right(
        "fit", folder / "train.csv", "--label", "digit", "--group", "writer", "--calibration", "split",
        "--target-rejection", "0.25", "-o", model, *QUICK,
    )  # fmt: skip
    assert "groups            16 (from 'writer')" in output
    clf = srosr.load(model)
    assert clf.feature_recipe_.group == "writer" and clf.n_features_in_ == 64
    assert clf.threshold_info_.kind == "conformal" and "groups" in clf.threshold_info_.detail
    right("predict", model, folder / "new.csv")
    right("update", model, folder / "more.csv")
    assert srosr.load(model)._group_names[-1] == "w19"
    assert "new group" in right("info", model)
    new = pd.read_csv(folder / "new.csv")
    new[new.digit == "six"].assign(digit="six").to_csv(tmp_path / "sixes.csv", index=False)
    right("add-class", model, tmp_path / "sixes.csv", "--name", "six")
    assert "six" in srosr.load(model).classes_
    new.drop(columns="writer").to_csv(tmp_path / "no.csv", index=False)
    for command in (("update",), ("add-class", "--name", "five")):
        message = error_of(command[0], model, tmp_path / "no.csv", *command[1:])
        assert "has no column 'writer' of groups" in message


def test_groups_need_their_column(folder, tmp_path):
    model = tmp_path / "m.srosr"
    message = error_of("fit", folder / "train.csv", "--label", "digit", "--group", "writter", "-o", model)
    assert "no column 'writter', which --group names (did you mean 'writer'?)" in message
    assert "column of its labels" in error_of("fit", folder / "train.csv", "--label", "digit", "--group", "digit")
    message = error_of("fit", folder / "train.csv", "--label", "digit", "--group", "writer", "--method", "knn")
    assert "knn has no groups" in message
    one = pd.read_csv(folder / "train.csv").assign(writer="me")
    one.to_csv(tmp_path / "one.csv", index=False)
    message = error_of("fit", tmp_path / "one.csv", "--label", "digit", "--group", "writer", "-o", model)
    assert "all samples are of one group, 'me'" in message
    assert not model.exists()


def test_bad_input_is_one_sentence_and_the_model_file_is_untouched(folder, model, tmp_path):
    table = pd.read_csv(folder / "more.csv")
    table.assign(digit=table.digit.replace("zero", "zerro")).to_csv(tmp_path / "typo.csv", index=False)
    table.head(10).to_csv(tmp_path / "ten.csv", index=False)
    table.drop(columns="p3").to_csv(tmp_path / "narrow.csv", index=False)
    before = model.read_bytes()
    cases = {
        ("update", model, tmp_path / "typo.csv"): "the class zerro, which the model does not know (did you mean 'zero'",
        ("update", model, tmp_path / "narrow.csv"): "p3",
        ("update", model, tmp_path / "none.csv"): "none.csv",
        ("update", model, folder / "more.csv", "--keep", "0"): "--keep",
        ("update", model, folder / "more.csv", "--group", "writer"): "fitted without groups",
        ("recalibrate", model, tmp_path / "ten.csv"): "takes 19: give more, or a target of at least 0.091",
        ("recalibrate", model, folder / "fresh.csv", "-o", tmp_path / "no" / "m"): "no folder",
        ("predict", model, folder / "new.csv", "--fdr", "2"): "--fdr",
        ("predict", model, folder / "new.csv", "--coverage", "0"): "--coverage",
    }
    for arguments, words in cases.items():
        assert words in error_of(*arguments), arguments
    assert model.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.srosr", "narrow.csv", "ten.csv", "typo.csv"]


def test_rivals_have_neither_sets_nor_updates(folder, tmp_path):
    model = tmp_path / "knn.srosr"
    right("fit", folder / "train.csv", "--label", "digit", "--ignore", "writer", "--method", "knn", "-o", model)
    assert "knn has no prediction sets" in error_of("predict", model, folder / "new.csv", "--coverage", "0.9")
    assert "update works only with calibrated" in error_of("update", model, folder / "more.csv")
    assert "p_value" in right("predict", model, folder / "new.csv", "--fdr", "0.2")
    assert run("info", model).exit_code == 0


GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "models-in-use.md"


@pytest.mark.slow
def test_the_day_in_the_guide_is_what_happens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(code, "models-in-use.md", "exec"), {})
    commands = []
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in block.split("$ ")[1:]:
            command, _, shown = part.partition("\n")
            printed = right(*shlex.split(command)[1:])
            assert re.fullmatch(as_pattern(shown), printed), f"{command} printed\n{printed}"
            commands.append(command.split()[1])
    assert commands == [
        "fit", "info", "monitor", "monitor", "discover", "add-class", "update", "recalibrate", "predict",
    ]  # fmt: skip
    # The first group is the sevens, as the page says.
    clf, evening = srosr.load("model.srosr"), pd.read_csv("evening.csv")
    sevens = evening[evening.digit == 7].drop(columns="digit")
    assert np.mean(clf.predict(sevens) == "7") > 0.5


def test_pictures_are_added_with_their_thumbnails(tmp_path):
    digits = load_digits()
    for part, rows in (("train", range(0, 150)), ("more", range(150, 200))):
        for row in rows:
            if digits.target[row] < 3:
                place = tmp_path / part / str(digits.target[row])
                place.mkdir(parents=True, exist_ok=True)
                Image.fromarray((digits.images[row] * 15).astype(np.uint8)).save(place / f"{row}.png")
    model = tmp_path / "m.srosr"
    right("fit", tmp_path / "train", "--features", "pixels", "-o", model, *QUICK)
    n = len(srosr.load(model).feature_recipe_.names)
    right("update", model, tmp_path / "more")
    recipe = srosr.load(model).feature_recipe_
    added = sorted(str(path.relative_to(tmp_path / "more")) for path in (tmp_path / "more").rglob("*.png"))
    assert sorted(recipe.names[n:].tolist()) == added and len(recipe.thumbnails) == n + len(added)
    assert "is for tables" in error_of("update", model, tmp_path / "more", "--group", "x")

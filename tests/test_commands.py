"""The commands on a user's own files: what they print, what they write, which errors they report and how."""

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_runs import QUICK, columns_of, error_of, right, run
from PIL import Image, ImageDraw
from same import check_same, check_same_model
from scale import slow_except
from sklearn.datasets import load_digits, load_iris

import srosr
from srosr.cli.app import COMMANDS


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder: tables of many and few digits 0 to 3, others of them and of 4 and 5 to predict, and a model."""
    folder = tmp_path_factory.mktemp("digits")
    X, y = load_digits(n_class=6, return_X_y=True)
    table = pd.DataFrame(X, columns=[f"p{j}" for j in range(64)])
    table["digit"] = [f"d{label}" for label in y]
    known = table[y < 4]
    known.iloc[:160].to_csv(folder / "train.csv", index=False)
    known.iloc[:48].to_csv(folder / "few.csv", index=False)
    pd.concat([known.iloc[160:220], table[y >= 4].iloc[:40]]).to_csv(folder / "test.csv", index=False)
    assert "Model:" in right("fit", folder / "train.csv", "-o", folder / "model.srosr", *QUICK)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return folder / "model.srosr"


# --- fit ---


def test_fit_shows_what_it_understood_and_how_held_out_samples_fared(folder, tmp_path):
    output = right("fit", folder / "train.csv", "-o", tmp_path / "m.srosr", *QUICK)
    for words in ("samples           160", "features          64", "4 (from 'digit'): d0", "missing values    none"):
        assert words in output
    assert "held-out samples    160: correct candidate" in output and "samples of classes left out in turn" in output
    assert output.index("samples") < output.index("held-out") < output.index(f"Model: {tmp_path / 'm.srosr'}")


def test_a_fitted_file_predicts_what_python_predicts(folder, model):
    table = pd.read_csv(folder / "train.csv")
    clf = srosr.SROSRClassifier(random_state=0).fit(table.drop(columns="digit"), table["digit"].to_numpy().astype(str))
    new = pd.read_csv(folder / "test.csv").drop(columns="digit")
    check_same_model(srosr.load(model), clf, new)


def test_fit_in_json_is_json_alone(folder, tmp_path):
    found = json.loads(right("fit", folder / "train.csv", "-o", tmp_path / "m.srosr", "--json", *QUICK))
    assert found["data"]["samples"] == 160 and found["method"] == "calibrated"
    assert found["held_out"]["samples"] == 160 and 0 <= found["held_out"]["rejected"] <= 0.06


@pytest.mark.parametrize("kernel", ["rbf", "poly", "chi2", "histogram_intersection"])
def test_every_kernel_predicts_from_a_file(kernel, folder, tmp_path):
    """A table is read into arrays that may be read-only."""
    right("fit", folder / "few.csv", "-o", tmp_path / "m.srosr", "--kernel", kernel, *QUICK)
    assert "unknown" in right("predict", tmp_path / "m.srosr", folder / "test.csv")


def test_quiet_says_nothing(folder, tmp_path):
    assert right("fit", folder / "train.csv", "-o", tmp_path / "m.srosr", "-q", "--method", "knn") == ""


@pytest.mark.parametrize("options", [
    ("--method", "w-svm", "--target-rejection", "0.1"),
    ("--alpha", "0.05"),
    ("--method", "matched", "--epsilon", "0.2"),
    ("--kernel", "rbf", "--gamma", "0.001"),
    ("--standardize",),
    ("--unknown-label", "other"),
])  # fmt: skip
def test_options_of_fit_reach_the_classifier(options, folder, tmp_path):
    right("fit", folder / "few.csv", "-o", tmp_path / "m.srosr", "-q", *options, *QUICK)
    clf = srosr.load(tmp_path / "m.srosr")
    given = dict(zip(options[::2], options[1::2], strict=False))
    if "--method" in given:
        from srosr.rivals.methods import method_name

        assert method_name(clf) == given["--method"]
    if "--target-rejection" in given:
        assert clf.target_rejection == 0.1
    if "--alpha" in given:
        assert clf.problem_ == srosr.Lasso(0.05)
    if "--epsilon" in given:
        assert clf.problem_ == srosr.BPDN(0.2)
    if "--kernel" in given:
        assert (clf.kernel, clf.gamma) == ("rbf", 0.001)
    if options[0] == "--standardize":
        X = pd.read_csv(folder / "few.csv").drop(columns="digit").to_numpy(np.float64)
        assert np.allclose(clf.feature_recipe_.center, X.mean(axis=0))
    if "--unknown-label" in given:
        assert clf.unknown_label_ == "other"


def test_standardized_models_scale_what_they_predict(folder, tmp_path):
    from sklearn.preprocessing import StandardScaler

    right("fit", folder / "few.csv", "-o", tmp_path / "m.srosr", "-q", "--standardize", *QUICK)
    right("predict", tmp_path / "m.srosr", folder / "test.csv", "-o", tmp_path / "out.csv")
    table, new = pd.read_csv(folder / "few.csv"), pd.read_csv(folder / "test.csv")
    scaler = StandardScaler().fit(table.drop(columns="digit"))
    clf = srosr.SROSRClassifier(random_state=0).fit(
        scaler.transform(table.drop(columns="digit")), table["digit"].to_numpy().astype(str)
    )
    scores = [float(row["unknown_score"]) for row in rows_of(tmp_path / "out.csv")]
    assert np.allclose(scores, clf.unknown_score(scaler.transform(new.drop(columns="digit"))), atol=1e-9)


@pytest.mark.parametrize("kind", ["parquet", "npz", "npy", "mat", "tsv"])
def test_the_same_samples_in_another_format_make_the_same_model(kind, folder, model, tmp_path):
    table = pd.read_csv(folder / "train.csv")
    X, y = table.drop(columns="digit").to_numpy(np.float64), table["digit"].to_numpy().astype(str)
    file, more = tmp_path / f"train.{kind}", ()
    if kind == "parquet":
        table.to_parquet(file)
    elif kind == "npz":
        np.savez(file, X=X, y=y)
    elif kind == "npy":
        np.save(file, X)
        (tmp_path / "y.txt").write_text("\n".join(y) + "\n")
        more = ("--labels", tmp_path / "y.txt")
    elif kind == "mat":
        from scipy.io import savemat

        savemat(file, {"X": X, "y": np.array([[int(label[1:])] for label in y], dtype=np.float64)})
    else:
        table.to_csv(file, sep="\t", index=False)
    right("fit", file, "-o", tmp_path / "m.srosr", "-q", *more, *QUICK)
    mine, other = srosr.load(tmp_path / "m.srosr"), srosr.load(model)
    check_same(mine.dictionary_.gram, other.dictionary_.gram)
    assert [str(label)[-1] for label in mine.classes_] == [str(label)[-1] for label in other.classes_]


@pytest.mark.slow
def test_a_model_is_written_even_if_standard_output_is_closed(folder, tmp_path):
    command = [sys.executable, "-m", "srosr", "fit", folder / "train.csv", "-o", tmp_path / "m", "--method", "knn"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(timeout=120) == 0
        assert b"Traceback" not in process.stderr.read()
    assert srosr.load(tmp_path / "m").classes_.tolist() == ["d0", "d1", "d2", "d3"]


def test_a_constant_column_that_is_not_a_round_number_does_not_explode_when_standardized(folder, tmp_path):
    table = pd.read_csv(folder / "few.csv").assign(same=0.1)
    table.to_csv(tmp_path / "in.csv", index=False)
    right("fit", tmp_path / "in.csv", "-o", tmp_path / "m", "-q", "--standardize", *QUICK)
    right("fit", folder / "few.csv", "-o", tmp_path / "without", "-q", "--standardize", *QUICK)
    new = pd.read_csv(folder / "test.csv").assign(same=0.1000001)
    new.to_csv(tmp_path / "new.csv", index=False)
    right("predict", tmp_path / "m", tmp_path / "new.csv", "-o", tmp_path / "with.csv")
    right("predict", tmp_path / "without", folder / "test.csv", "-o", tmp_path / "without.csv")
    scores = [pd.read_csv(tmp_path / f"{name}.csv")["unknown_score"] for name in ("with", "without")]
    assert np.allclose(*scores, atol=1e-4)


def test_numbers_too_large_to_standardize_are_an_error(folder, tmp_path):
    table = pd.read_csv(folder / "train.csv").assign(vast=lambda t: 1e200 * t["p20"])
    table.to_csv(tmp_path / "in.csv", index=False)
    assert "'vast'" in error_of("fit", tmp_path / "in.csv", "-o", tmp_path / "m", "--standardize")


def test_a_column_that_numbers_the_samples_is_remarked_on_and_is_no_column_of_classes(folder, tmp_path):
    table = pd.read_csv(folder / "train.csv")
    table.insert(0, "id", np.arange(len(table)))
    table.to_csv(tmp_path / "in.csv", index=False)
    output = right("fit", tmp_path / "in.csv", "-o", tmp_path / "m", "--method", "knn")
    assert "a different whole number in id" in output
    text = error_of("fit", tmp_path / "in.csv", "-o", tmp_path / "n", "--label", "id", "--ignore", "digit")
    assert "class of its own in 'id'" in text


def test_a_poor_model_says_so(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(90, 5)), columns=list("abcde")).assign(label=["x", "y", "z"] * 30)
    table.to_csv(tmp_path / "noise.csv", index=False)
    output = right("fit", tmp_path / "noise.csv", "-o", tmp_path / "m", *QUICK)
    assert "the wrong class for" in output and "srosr compare" in output
    table[table["label"] != "z"].to_csv(tmp_path / "two.csv", index=False)
    assert "With two classes" in right("fit", tmp_path / "two.csv", "-o", tmp_path / "m", *QUICK)


def test_missing_values_are_counted_before_rows_are_given_up(folder, tmp_path):
    table = pd.read_csv(folder / "train.csv")
    table.loc[[3, 50], "p7"] = np.nan
    table.loc[50, "p8"] = np.nan
    table.to_csv(tmp_path / "in.csv", index=False)
    text = error_of("fit", tmp_path / "in.csv", "-o", tmp_path / "m")
    assert "line 5, column 'p7' (in all 3 values are missing, in 2 of 160 rows)" in text


# --- predict ---


def test_predict_writes_label_score_candidate_and_verdict_of_every_row(folder, model, tmp_path):
    right("predict", model, folder / "test.csv", "-o", tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    assert list(rows[0]) == ["row", "label", "unknown_score", "candidate", "verdict"]
    decided = srosr.load(model).decide(pd.read_csv(folder / "test.csv").drop(columns="digit"))
    assert [int(row["row"]) for row in rows] == list(range(100))
    assert [row["label"] for row in rows] == decided.label.tolist()
    assert [row["candidate"] for row in rows] == decided.candidate.tolist()
    assert np.allclose([float(row["unknown_score"]) for row in rows], decided.unknown_score, atol=1e-12)
    assert [row["verdict"] == "rejected" for row in rows] == decided.rejected.tolist()
    assert sum(row["verdict"] == "rejected" for row in rows[60:]) > 30  # of unknown classes


def test_predict_reads_standard_input_and_writes_standard_output(folder, model, tmp_path):
    right("predict", model, folder / "test.csv", "-o", tmp_path / "out.csv")
    piped = run("predict", model, "-", given=(folder / "test.csv").read_bytes())
    assert piped.exit_code == 0
    check_same(columns_of(piped.output), columns_of((tmp_path / "out.csv").read_text()))


def test_decisions_in_parquet_and_json_lines_are_those_in_csv(folder, model, tmp_path):
    for ending in ("csv", "jsonl", "parquet"):
        right("predict", model, folder / "test.csv", "-o", tmp_path / f"out.{ending}", "--keep", "digit")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == pd.read_parquet(tmp_path / "out.parquet").to_dict("records")
    table = pd.read_csv(tmp_path / "out.csv", float_precision="round_trip").to_dict("records")
    assert table == lines and lines[0]["digit"].startswith("d")
    piped = right("predict", model, folder / "test.csv", "--json", "--keep", "digit").splitlines()
    assert [json.loads(line) for line in piped] == lines


def test_a_column_kept_under_a_name_of_ours_gets_another(folder, model, tmp_path):
    table = pd.read_csv(folder / "test.csv").rename(columns={"digit": "label"})
    table.to_csv(tmp_path / "in.csv", index=False)
    right("predict", model, tmp_path / "in.csv", "--keep", "label", "-o", tmp_path / "out.csv")
    assert [row["data_label"] for row in rows_of(tmp_path / "out.csv")] == table["label"].tolist()


def test_rows_with_missing_values_keep_their_numbers(folder, model, tmp_path):
    table = pd.read_csv(folder / "test.csv")
    table.loc[[3, 50], "p7"] = np.nan
    table.to_csv(tmp_path / "holes.csv", index=False)
    text = error_of("predict", model, tmp_path / "holes.csv", "-o", tmp_path / "out.csv")
    assert "line 5" in text and "'p7'" in text and "--drop-missing" in text
    assert not (tmp_path / "out.csv").exists()
    right("predict", model, tmp_path / "holes.csv", "-o", tmp_path / "out.csv", "--drop-missing")
    assert [int(row["row"]) for row in rows_of(tmp_path / "out.csv")] == [i for i in range(100) if i not in (3, 50)]


def test_columns_left_out_of_the_fit_may_be_there_again(folder, tmp_path):
    for name in ("train", "test"):
        table = pd.read_csv(folder / f"{name}.csv")
        table.insert(0, "id", [f"sample {i}" for i in range(len(table))])
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    right("fit", tmp_path / "train.csv", "--label", "digit", "--ignore", "id", "-o", tmp_path / "m.srosr", "-q", *QUICK)
    right("predict", tmp_path / "m.srosr", tmp_path / "test.csv", "--keep", "id", "-o", tmp_path / "out.csv")
    assert rows_of(tmp_path / "out.csv")[7]["id"] == "sample 7"


def test_features_in_another_order_are_an_error_and_found_by_name(folder, model, tmp_path):
    table = pd.read_csv(folder / "test.csv")
    table[list(table.columns[::-1])].to_csv(tmp_path / "turned.csv", index=False)
    text = error_of("predict", model, tmp_path / "turned.csv", "-o", tmp_path / "out.csv")
    assert "turned.csv" in text and "another order" in text and "--by-name" in text
    assert not (tmp_path / "out.csv").exists()
    right("predict", model, tmp_path / "turned.csv", "--by-name", "-o", tmp_path / "out.csv")
    right("predict", model, folder / "test.csv", "-o", tmp_path / "straight.csv")
    check_same(*(columns_of((tmp_path / name).read_text()) for name in ("out.csv", "straight.csv")))


@pytest.mark.slow
def test_an_error_far_down_a_file_leaves_no_output_and_an_old_one_as_it_was(folder, model, tmp_path):
    lines = (folder / "test.csv").read_text().splitlines()
    many = [lines[0], *(lines[1:] * 1000), "1,2,3"]
    (tmp_path / "long.csv").write_text("\n".join(many) + "\n")
    (tmp_path / "out.csv").write_text("old\n")
    text = error_of("predict", model, tmp_path / "long.csv", "-o", tmp_path / "out.csv")
    assert f"line {len(many)}" in text and "long.csv" in text
    assert (tmp_path / "out.csv").read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.csv", "out.csv"]


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(folder, model):
    lines = (folder / "test.csv").read_text().splitlines()
    command = [sys.executable, "-m", "srosr", "predict", str(model), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write("\n".join([lines[0], *(lines[1:] * 20)]).encode())
        process.stdin.close()
        assert process.wait(timeout=120) == 0
        assert b"Traceback" not in process.stderr.read()


# --- explain ---


def test_explain_says_why_in_words_figure_and_json(folder, model, tmp_path):
    output = right("explain", model, folder / "test.csv", "--row", "70", "--out", tmp_path / "why.png")
    x = pd.read_csv(folder / "test.csv").drop(columns="digit").iloc[[70]]
    explanation = srosr.load(model).explain(x)
    assert explanation.text in output and (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(right("explain", model, folder / "test.csv", "--row", "70", "--json", "--no-figure"))
    assert found["row"] == 70 and found["rejected"] == explanation.rejected and found["figure"] is None


def test_training_rows_are_numbered_as_in_their_file_and_gaps_elsewhere_do_not_matter(folder, tmp_path):
    table = pd.read_csv(folder / "train.csv")
    table.loc[range(0, 80, 2), "p7"] = np.nan
    table.to_csv(tmp_path / "train.csv", index=False)
    right("fit", tmp_path / "train.csv", "-o", tmp_path / "m", "-q", "--drop-missing", *QUICK)
    new = pd.read_csv(folder / "test.csv")
    new.loc[[0, 99], "p3"] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    found = json.loads(right("explain", tmp_path / "m", tmp_path / "new.csv", "--row", "5", "--json", "--no-figure"))
    assert found["atoms"] and all(table["digit"][atom["row"]] == atom["label"] for atom in found["atoms"])
    assert all(not pd.isna(table["p7"][atom["row"]]) for atom in found["atoms"])
    assert f"row {found['atoms'][0]['row']} (class" in found["text"]
    for row, words in ((0, "missing values"), (99, "missing values"), (100, "100 rows")):
        assert words in error_of("explain", tmp_path / "m", tmp_path / "new.csv", "--row", row, "--no-figure")


def test_a_rival_is_explained_by_scores(folder, tmp_path):
    right("fit", folder / "train.csv", "-o", tmp_path / "m.srosr", "-q", "--method", "osnn")
    output = right("explain", tmp_path / "m.srosr", folder / "test.csv", "--row", "70", "--out", tmp_path / "why.svg")
    clf = srosr.load(tmp_path / "m.srosr")
    score = clf.unknown_score(pd.read_csv(folder / "test.csv").drop(columns="digit").iloc[[70]])[0]
    assert f"unknown score {score:.3f}" in output and "<svg" in (tmp_path / "why.svg").read_text()


def test_a_row_that_is_not_there_is_an_error(folder, model, tmp_path):
    text = error_of("explain", model, folder / "test.csv", "--row", "100", "--out", tmp_path / "why.png")
    assert "100 rows, from 0 to 99" in text and not (tmp_path / "why.png").exists()


# --- models ---


def test_info_says_what_the_model_is(model):
    output = right("info", model)
    assert "calibrated (SROSRClassifier)" in output and "d0 " in output and "64: p0, p1" in output
    found = json.loads(right("info", model, "--json"))
    assert found["classes"] == ["d0", "d1", "d2", "d3"] and sum(found["class_sizes"].values()) == 160
    assert 0 < found["threshold_standard_error"] < 0.1
    assert f"standard error {found['threshold_standard_error']:.2g}" in output


def test_set_threshold_changes_the_file_and_nothing_else(model, tmp_path):
    right("set-threshold", model, "--target-rejection", "0.2", "-o", tmp_path / "m.srosr")
    old, new = srosr.load(model), srosr.load(tmp_path / "m.srosr")
    assert new.feature_recipe_.label == "digit" and new.threshold_ != old.threshold_
    check_same(new.threshold_, old.set_threshold(target_rejection=0.2).threshold_)
    check_same(new.dictionary_.gram, old.dictionary_.gram)


def test_classes_come_and_go(folder, model, tmp_path):
    right("remove-class", model, "d2", "-o", tmp_path / "three.srosr")
    assert srosr.load(tmp_path / "three.srosr").classes_.tolist() == ["d0", "d1", "d3"]
    right("add-class", tmp_path / "three.srosr", folder / "train.csv", "--label", "digit", "--name", "d2")
    clf = srosr.load(tmp_path / "three.srosr")
    assert clf.classes_.tolist() == ["d0", "d1", "d2", "d3"] and clf.feature_recipe_.label == "digit"
    new = pd.read_csv(folder / "test.csv")
    twos = new[new["digit"] == "d2"].drop(columns="digit")
    assert np.mean(clf.candidate(twos) == "d2") > 0.9


def test_a_class_is_added_from_its_own_rows_only(folder, model, tmp_path):
    right("remove-class", model, "d2", "-o", tmp_path / "three.srosr")
    right("add-class", tmp_path / "three.srosr", folder / "train.csv", "--name", "d2")
    sizes = json.loads(right("info", tmp_path / "three.srosr", "--json"))["class_sizes"]
    assert sizes["d2"] == (pd.read_csv(folder / "train.csv")["digit"] == "d2").sum()


def test_numbers_as_classes_have_one_spelling(folder, tmp_path):
    table = pd.read_csv(folder / "train.csv")
    X, y = table.drop(columns="digit").to_numpy(np.float64), table["digit"].str[1:].astype(float).to_numpy()
    srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(X, y).save(tmp_path / "m")
    np.save(tmp_path / "X.npy", X[:4])
    rows = rows_of_text(right("predict", tmp_path / "m", tmp_path / "X.npy"))
    assert [row["candidate"] for row in rows] == [f"{value:.0f}" for value in y[:4]]
    right("remove-class", tmp_path / "m", "3", "-o", tmp_path / "three")
    assert srosr.load(tmp_path / "three").classes_.tolist() == [0.0, 1.0, 2.0]
    assert "must be one" in error_of("add-class", tmp_path / "three", tmp_path / "X.npy", "--name", "three")


def test_thresholds_by_class_are_reported_as_such(folder, model, tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.evaluation.metric_table._RESAMPLES", 25)
    right("set-threshold", model, "--target-rejection", "0.3", "--per-class", "-o", tmp_path / "m")
    found = json.loads(right("info", tmp_path / "m", "--json"))
    assert found["threshold"] is None and len(set(found["thresholds"])) > 1
    assert found["held_out"]["simulated_unknowns_rejected"] is None
    assert "by class" in right("info", tmp_path / "m") and "by class" in right(
        "evaluate", tmp_path / "m", folder / "test.csv"
    )


def test_labels_are_found_where_a_later_file_has_them(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.evaluation.metric_table._RESAMPLES", 25)
    table = pd.read_csv(folder / "train.csv")
    X, y = table.drop(columns="digit").to_numpy(np.float64), table["digit"].to_numpy().astype(str)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    right("fit", tmp_path / "train.npz", "-o", tmp_path / "m", "-q", "--method", "knn")
    found = json.loads(right("evaluate", tmp_path / "m", folder / "test.csv", "--json"))
    assert found["labels"] == "digit"


@pytest.mark.parametrize("arguments, words", [
    (("set-threshold", "M"), "--target-rejection"),
    (("set-threshold", "M", "--threshold", "f", "--target-rejection", "0.1"), "give either"),
    (("set-threshold", "M", "--threshold", "2"), "2"),
    (("set-threshold", "M", "--threshold", "wild"), "wild"),
    (("set-threshold", "M", "--target-rejection", "1.5"), "--target-rejection"),
    (("remove-class", "M", "d9"), "its classes are d0, d1"),
    (("add-class", "M", "T", "--name", "d1", "--label", "digit"), "is a class already"),
    (("add-class", "M", "T", "--name", "d7", "--label", "digit"), "no sample of the class d7"),
])  # fmt: skip
def test_changes_that_make_no_sense_are_an_error(arguments, words, folder, model, tmp_path):
    before = model.read_bytes()
    names = {"M": model, "T": folder / "train.csv"}
    assert words in error_of(*(names.get(a, a) for a in arguments), "-o", tmp_path / "new.srosr")
    assert not (tmp_path / "new.srosr").exists() and model.read_bytes() == before


# --- pictures ---


def drawn(kind, rng):
    picture = Image.new("L", (48, 40), 255)
    draw = ImageDraw.Draw(picture)
    x, y = rng.integers(8, 16), rng.integers(6, 12)
    box = [int(x), int(y), int(x) + 20, int(y) + 20]
    if kind == "disc":
        draw.ellipse(box, fill=0)
    elif kind == "frame":
        draw.rectangle(box, outline=0, width=3)
    elif kind == "cross":
        draw.line(box, fill=0, width=4)
        draw.line([box[0], box[3], box[2], box[1]], fill=0, width=4)
    else:
        for offset in range(0, 20, 5):
            draw.line([box[0], box[1] + offset, box[2], box[1] + offset], fill=0, width=2)
    return picture


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for kind in ("disc", "frame", "cross"):
        (folder / "known" / kind).mkdir(parents=True)
        for i in range(12):
            drawn(kind, rng).save(folder / "known" / kind / f"{kind}{i}.png")
    (folder / "new").mkdir()
    for kind in ("disc", "stripes"):
        for i in range(3):
            drawn(kind, rng).save(folder / "new" / f"{kind}{i}.png")
    right("fit", folder / "known", "-o", folder / "m.srosr", "--features", "pixels", "--size", "20x24", *QUICK)
    return folder


def test_pictures_are_learned_and_predicted(pictures, tmp_path):
    right("predict", pictures / "m.srosr", pictures / "new", "-o", tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    assert [row["file"] for row in rows] == [f"{k}{i}.png" for k in ("disc", "stripes") for i in range(3)]
    assert all(row["candidate"] == "disc" for row in rows[:3])
    one = rows_of_text(right("predict", pictures / "m.srosr", pictures / "new" / "disc1.png"))
    assert float(one[0]["unknown_score"]) == pytest.approx(float(rows[1]["unknown_score"]), abs=1e-9)


def rows_of_text(text):
    return list(csv.DictReader(text.splitlines()))


def test_pixels_are_those_of_the_picture(pictures):
    clf = srosr.load(pictures / "m.srosr")
    path = pictures / "known" / "disc" / "disc0.png"
    picture = Image.open(path).convert("F").resize((24, 20), Image.Resampling.BILINEAR)
    assert np.allclose(clf.feature_recipe_.compute_features([path])[0], np.asarray(picture).ravel() / 255.0, atol=1e-6)


def test_pyramids_make_a_model_that_is_saved_and_used(pictures, tmp_path):
    output = right("fit", pictures / "known", "-o", tmp_path / "m.srosr", *QUICK)
    assert "4,200: spatial pyramids of 200 visual words" in output
    lines = right("predict", tmp_path / "m.srosr", pictures / "new").splitlines()
    assert len(lines) == 7 and lines[1].split(",")[1] == "disc0.png"


def test_a_picture_is_explained_by_those_that_rebuilt_it(pictures, tmp_path):
    out = tmp_path / "why.png"
    output = right("explain", pictures / "m.srosr", pictures / "new", "--file", "stripes0.png", "--out", out)
    assert "stripes0.png" in output and out.exists()
    named = [line for line in output.splitlines() if line.startswith("row ")]
    explanation = srosr.load(pictures / "m.srosr").explain(
        srosr.load(pictures / "m.srosr").feature_recipe_.compute_features([pictures / "new" / "stripes0.png"])
    )
    names = srosr.load(pictures / "m.srosr").feature_recipe_.names
    assert [line.split()[2] for line in named] == [names[atom.row] for atom in explanation.atoms[:6]]


def test_a_class_of_pictures_is_added(pictures, tmp_path):
    (tmp_path / "stripes").mkdir()
    rng = np.random.default_rng(5)
    for i in range(10):
        drawn("stripes", rng).save(tmp_path / "stripes" / f"s{i}.png")
    right("add-class", pictures / "m.srosr", tmp_path / "stripes", "--name", "stripes", "-o", tmp_path / "m.srosr")
    clf = srosr.load(tmp_path / "m.srosr")
    assert (
        len(clf.feature_recipe_.names) == len(clf.feature_recipe_.thumbnails) == 46
        and clf.feature_recipe_.names[-1] == "stripes/s9.png"
    )
    rows = rows_of_text(right("predict", tmp_path / "m.srosr", pictures / "new"))
    assert all(row["candidate"] == "stripes" for row in rows[3:])
    right("explain", tmp_path / "m.srosr", pictures / "new", "--file", "stripes0.png", "--out", tmp_path / "why.png")


def broken_copy(source, folder):
    """Return a copy of the pictures in which one is truncated."""
    for path in sorted(source.rglob("*.png")):
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    victim = sorted(folder.rglob("*.png"))[2]
    victim.write_bytes(victim.read_bytes()[:60])
    return victim


def test_a_broken_picture_is_named_or_left_out(pictures, tmp_path):
    victim = broken_copy(pictures / "known", tmp_path / "known")
    text = error_of("fit", tmp_path / "known", "-o", tmp_path / "m.srosr", "--features", "pixels")
    assert str(victim) in text and "--skip-broken" in text and not (tmp_path / "m.srosr").exists()
    output = right(
        "fit", tmp_path / "known", "-o", tmp_path / "m.srosr", "--features", "pixels", "--skip-broken", *QUICK
    )
    assert "1 picture left out" in output
    victim = broken_copy(pictures / "new", tmp_path / "new")
    text = error_of("predict", tmp_path / "m.srosr", tmp_path / "new", "-o", tmp_path / "out.csv")
    assert str(victim) in text and not (tmp_path / "out.csv").exists()
    right("predict", tmp_path / "m.srosr", tmp_path / "new", "-o", tmp_path / "out.csv", "--skip-broken")
    assert [row["row"] for row in rows_of(tmp_path / "out.csv")] == ["0", "1", "3", "4", "5"]


@pytest.mark.parametrize("option", [("--label", "x"), ("--ignore", "x"), ("--drop-missing",), ("--no-header",)])
def test_options_of_tables_are_an_error_for_pictures(option, pictures, tmp_path):
    assert "for tables" in error_of("fit", pictures / "known", "-o", tmp_path / "m", *option)


def test_a_class_added_in_python_has_no_pictures_and_does_no_harm(pictures, tmp_path):
    clf = srosr.load(pictures / "m.srosr")
    rng = np.random.default_rng(0)
    paths = []
    for i in range(10):
        paths.append(tmp_path / f"s{i}.png")
        drawn("stripes", rng).save(paths[-1])
    clf.add_class(clf.feature_recipe_.compute_features(paths), "stripes").save(tmp_path / "m")
    output = right("explain", tmp_path / "m", pictures / "new", "--file", "stripes0.png", "--out", tmp_path / "why.png")
    assert "class stripes" in output


def test_names_of_files_that_are_not_text_do_not_stop_the_rest(pictures, tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.png"
    try:
        with open(name, "wb") as file:
            file.write((pictures / "new" / "disc0.png").read_bytes())
    except OSError:
        pytest.skip("the file system wants names that are text")
    for kind in ("csv", "jsonl", "parquet"):
        right("predict", pictures / "m.srosr", tmp_path, "-o", tmp_path / f"out.{kind}")
    assert rows_of(tmp_path / "out.csv")[0]["file"] == "\\udcff.png"


def test_pictures_and_tables_are_not_mixed_up(folder, model, pictures, tmp_path):
    assert "fitted to a table" in error_of("predict", model, pictures / "new")
    assert "fitted to pictures" in error_of("predict", pictures / "m.srosr", folder / "test.csv")
    assert "for pictures" in error_of("fit", folder / "train.csv", "--features", "pixels", "-o", tmp_path / "m")
    assert "no pictures" in error_of("fit", tmp_path, "-o", tmp_path / "m")


# --- bad input: one sentence that names the file and what to do, and nothing written ---


BAD_TABLES = {
    "empty": (b"", "empty"),
    "blank": (b"\n\n", "bad.csv"),
    "header only": (b"a,b,label\n", "no"),
    "ragged": (b"a,b,label\n1,2,x\n1,2\n3,4,y\n", "line 3"),
    "text among numbers": (b"a,b,label\n1,2,x\n1,two,y\n", "'two'"),
    "missing": (b"a,b,label\n1,2,x\n,2,y\n", "line 3"),
    "infinite": (b"a,b,label\n1,2,x\ninf,2,y\n", "line 3"),
    "no label column": (b"a,b\n1,2\n3,4\n", "--label"),
    "one class": (b"a,b,label\n1,2,x\n3,4,x\n", "one class"),
    "measurements as classes": (b"a,b,label\n1,2,0.25\n3,4,0.5\n", "label"),
    "UTF-16": ("a,b,label\n1,2,x\n".encode("utf-16"), "UTF-8"),
    "not text": (bytes(range(256)) * 4, "bad.csv"),
    "twice the same name": (b"a,a,label\n1,2,x\n3,4,y\n", "'a'"),
    "no header": (b"5.1,3.5,x\n4.9,3.0,y\n", "--no-header"),
    "only labels": (b"label\nx\ny\n", "bad.csv"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_TABLES)
def test_a_bad_table_is_named_and_nothing_is_written(what, tmp_path):
    content, words = BAD_TABLES[what]
    (tmp_path / "bad.csv").write_bytes(content)
    text = error_of("fit", tmp_path / "bad.csv", "-o", tmp_path / "m.srosr")
    assert "bad.csv" in text and words in text
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize("arguments, words", [
    (("fit", "absent.csv"), "absent.csv"),
    (("fit", "T", "--label", "digits"), "did you mean 'digit'"),
    (("fit", "T", "--method", "wsvm"), "did you mean 'w-svm'"),
    (("fit", "T", "--alpha", "0.1", "--epsilon", "0.1"), "one of them"),
    (("fit", "T", "--alpha", "-1"), "--alpha"),
    (("fit", "T", "--method", "w-svm", "--alpha", "0.1"), "w-svm"),
    (("fit", "T", "--target-rejection", "2"), "--target-rejection"),
    (("fit", "T", "--size", "9x9"), "for pictures"),
    (("fit", "T", "--kernel", "chi2", "--standardize"), "X contains negative values"),
    (("fit", "T", "-o", "absent/m.srosr"), "no folder absent"),
    (("fit", "notes.docx"), "notes.docx"),
    (("predict", "T", "T"), "not a srosr model"),
    (("predict", "absent.srosr", "T"), "absent.srosr does not exist"),
    (("predict", "M", "absent.csv"), "absent.csv"),
    (("predict", "M", "absent/", "-o", "out"), "absent/ does not exist"),
    (("predict", "M", "short.csv"), "short.csv"),
    (("predict", "M", "T", "-o", "out.xlsx"), ".parquet"),
    (("predict", "M", "T", "--json", "-o", "out.csv"), "--json contradicts"),
    (("predict", "M", "T", "--keep", "digits"), "'digit'"),
    (("explain", "M", "T", "--out", "why.txt"), ".png"),
    (("explain", "M", "T", "--file", "a.png"), "give --row"),
    (("info", "T"), "not a srosr model"),
    (("info", "."), "is a folder"),
    (("datasets", "mnst"), "did you mean 'mnist'"),
])  # fmt: skip
def test_impossible_requests_get_a_one_sentence_error(arguments, words, folder, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.docx").write_bytes(b"PK\x03\x04")
    (tmp_path / "short.csv").write_text("p0,p1\n1,2\n")
    there = sorted(os.listdir())
    names = {"M": model, "T": folder / "train.csv"}
    assert words in error_of(*(names.get(argument, argument) for argument in arguments))
    assert sorted(os.listdir()) == there


def test_what_is_read_is_never_written_over(folder, model, pictures, tmp_path):
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "m").write_bytes(model.read_bytes())
    (tmp_path / "p.png").write_bytes((pictures / "new" / "disc0.png").read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    table, m = tmp_path / "train.csv", tmp_path / "m"
    for arguments in (
        ("fit", table, "-o", table),
        ("fit", table, "-o", tmp_path / "test.csv"),
        ("set-threshold", m, "--threshold", "0.5", "-o", table),
        ("add-class", m, table, "--name", "z", "--ignore", "digit", "-o", table),
        ("predict", m, table, "-o", table),
        ("explain", pictures / "m.srosr", tmp_path / "p.png", "--out", tmp_path / "p.png"),
        ("evaluate", pictures / "m.srosr", tmp_path / "p.png", "--figure", tmp_path / "p.png"),
    ):
        assert "cannot write" in error_of(*arguments)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_of_a_gram_matrix_is_for_python_alone(folder, tmp_path):
    X = pd.read_csv(folder / "train.csv").drop(columns="digit").to_numpy(np.float64)
    y = pd.read_csv(folder / "train.csv")["digit"].to_numpy().astype(str)
    srosr.SROSRClassifier(kernel="precomputed", n_repeats=2, random_state=0).fit(X @ X.T, y).save(tmp_path / "m")
    np.save(tmp_path / "X.npy", (X @ X.T)[:5])
    assert "Gram matrix" in error_of("predict", tmp_path / "m", tmp_path / "X.npy")


def test_names_that_look_like_formulas_are_drawn_as_they_are(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.evaluation.metric_table._RESAMPLES", 25)
    table = pd.read_csv(folder / "few.csv").replace({"digit": {"d0": r"$\frac{1}$"}})
    table.to_csv(tmp_path / "in.csv", index=False)
    right("fit", tmp_path / "in.csv", "-o", tmp_path / "m", "-q", *QUICK)
    right("explain", tmp_path / "m", tmp_path / "in.csv", "--row", "0", "--out", tmp_path / "why.png")
    right("evaluate", tmp_path / "m", tmp_path / "in.csv", "--figure", tmp_path / "how.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("why.png", "how.png"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", slow_except(["completion bash"], ["completion bash", "info M"]))
def test_a_full_disk_is_reported_in_one_sentence(command, model):
    arguments = [sys.executable, "-m", "srosr", *(str(model) if word == "M" else word for word in command.split())]
    with open("/dev/full", "w") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.strip() == "Error: standard output: No space left on device."


@pytest.mark.slow
def test_a_request_to_end_leaves_nothing_behind(folder, model, tmp_path):
    import signal

    lines = (folder / "test.csv").read_text().splitlines()
    command = [sys.executable, "-m", "srosr", "predict", str(model), "-", "-o", str(tmp_path / "out.csv")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write(("\n".join([lines[0], *(lines[1:] * 1000)]) + "\n").encode())
        process.stdin.flush()
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(".out.csv*")):  # it has begun to write, and waits for more rows
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == -signal.SIGTERM  # 143 to a shell
    assert not list(tmp_path.iterdir())


def test_a_link_stays_and_what_it_points_to_is_written(folder, model, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    right("predict", model, folder / "test.csv", "-o", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink() and len(rows_of(tmp_path / "real.csv")) == 100


# --- the whole command line ---


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_example(name):
    output = right(name, "--help")
    assert "Examples:" in output and f"srosr {name}" in output


def test_the_help_of_fit_names_every_method():
    from srosr.cli.fit import fit

    words = fit.help.replace(",", " ").replace(".", " ").split()
    assert not set(srosr.open_set_methods()) - set(words)


def test_the_commands_of_the_list_are_those_of_the_help():
    output = right("--help")
    for name in COMMANDS:
        assert f"\n  {name} " in output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_asks_srosr(shell):
    assert "_SROSR_COMPLETE" in right("completion", shell)


def test_a_shell_that_asks_gets_the_commands():
    environment = os.environ | {"_SROSR_COMPLETE": "bash_complete", "COMP_WORDS": "srosr pre", "COMP_CWORD": "1"}
    code = "from srosr.cli.app import main; main(prog_name='srosr')"
    answer = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert answer.stdout.split() == ["plain,predict"]


def test_datasets_lists_the_sets_and_describes_one(monkeypatch, tmp_path):
    monkeypatch.delenv("SROSR_DATA_DIR", raising=False)
    monkeypatch.setenv("SROSR_CACHE_DIR", str(tmp_path))
    found = {one["name"]: one for one in json.loads(right("datasets", "--json"))}
    assert found["digits"]["samples"] == 1797 and not found["yaleb"]["available"]
    assert "1,797, 64 features each" in right("datasets", "digits")
    assert "--fetch" in error_of("datasets", "yaleb")


def test_a_damaged_data_set_is_listed_as_such_and_not_advised_to_be_trusted(monkeypatch, tmp_path):
    (tmp_path / "letter.npz").write_bytes(b"rubbish")
    monkeypatch.setenv("SROSR_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SROSR_CACHE_DIR", str(tmp_path / "cache"))
    output = right("datasets")
    assert "damaged" in output and "it is not an npz file" in output and "pickle" not in output
    assert "--fetch" not in error_of("datasets", "letter")


def test_exported_tables_hold_every_sample_once_and_unknown_classes_only_among_the_new(tmp_path):
    right("datasets", "digits", "--export", tmp_path / "here")
    known, new = (pd.read_csv(tmp_path / "here" / f"{name}.csv") for name in ("known", "new"))
    assert sorted(known["label"].unique()) == list(range(6)) and sorted(new["label"].unique()) == list(range(10))
    digits = srosr.load_digits_bundled()
    whole = np.concatenate([known.to_numpy(), new.to_numpy()])
    there = np.column_stack([digits.X, digits.y])
    assert np.array_equal(whole[np.lexsort(whole.T)], there[np.lexsort(there.T)])


def test_a_table_with_named_labels_becomes_decisions_and_an_explanation(tmp_path):
    iris = load_iris(as_frame=True)
    table = iris.data.assign(species=iris.target_names[iris.target])
    table.to_csv(tmp_path / "iris.csv", index=False)
    right("fit", tmp_path / "iris.csv", "--label", "species", "-o", tmp_path / "model.srosr")
    right("predict", tmp_path / "model.srosr", tmp_path / "iris.csv", "-o", tmp_path / "decisions.csv")
    right("explain", tmp_path / "model.srosr", tmp_path / "iris.csv", "--row", "17", "--out", tmp_path / "why.png")
    assert len(rows_of(tmp_path / "decisions.csv")) == 150
    assert Path(tmp_path / "why.png").exists()

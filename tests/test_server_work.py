"""Work in child processes: the same results, files and words as the commands of the same names."""

import base64
import hashlib
import io
import json
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from itertools import product

import numpy as np
import pandas as pd
import pytest
from child_pools import PoolInThread
from command_runs import error_of, right
from same import check_same, check_same_model, check_same_text
from scale import slow_except
from sklearn.datasets import load_digits

import srosr
from srosr.inspection.model_summary import summarize_model
from srosr.server.gray_png import draw_ink, write_png
from srosr.server.process_pool import JobError

X, Y = load_digits(return_X_y=True)
NAMES = [f"p{i}" for i in range(64)]


def write_csv(path, rows, labels=None, groups=None):
    lines = [",".join([*NAMES, *(["digit"] if labels is not None else []), *(["hand"] if groups is not None else [])])]
    for i, row in enumerate(rows):
        cells = [f"{value:g}" for value in row]
        cells += [] if labels is None else [str(labels[i])]
        cells += [] if groups is None else [str(groups[i])]
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models fitted by the command, and tables of samples."""
    folder = tmp_path_factory.mktemp("work")
    known = np.flatnonzero(Y[:200] < 4)
    train = write_csv(folder / "train.csv", X[known], Y[known])
    quick = ("--label", "digit", "--seed", "0", "--jobs", "1", "--quiet")
    right("fit", train, "-o", folder / "model.srosr", *quick)
    right("fit", train, "-o", folder / "scaled.srosr", "--standardize", *quick)
    right("fit", train, "-o", folder / "rival.srosr", "--method", "osnn", *quick)
    write_csv(folder / "new.csv", X[400:520])
    write_csv(folder / "labeled.csv", X[400:520], Y[400:520])
    return folder


@pytest.fixture(scope="module")
def worker(folder):
    with PoolInThread("worker", 1, folder, seconds=120) as pool:
        yield pool


def describe(path, **more):
    version = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return {"model": str(path), "version": version, "name": path.stem, "jobs": 1, "data": "new.csv", **more}


def fail(worker, job, header, arrays=None, status=422):
    with pytest.raises(JobError) as caught:
        worker.run(job, header, arrays)
    assert caught.value.status == status, caught.value.message
    assert "\n" not in caught.value.message and "/" not in caught.value.message.replace("p/", "")
    return caught.value.message


def read_png(uri):
    assert uri.startswith("data:image/png;base64,")
    Image = pytest.importorskip("PIL.Image")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


# -- explain ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["model", "rival"])
def test_an_explanation_is_that_of_the_command(worker, folder, model):
    path = folder / f"{model}.srosr"
    said = json.loads(right("explain", path, folder / "new.csv", "--row", 17, "--json", "--no-figure"))
    found, _ = worker.run("explain", describe(path, row=17), {"X": X[400:520]})
    expected = {name: value for name, value in said.items() if name not in ("row", "figure")}
    check_same(found["explanation"], expected)
    check_same_text(found["text"], said["text"])
    assert found["row"] == 17
    right("predict", path, folder / "new.csv", "-o", folder / "decided.jsonl")
    decided = json.loads((folder / "decided.jsonl").read_text().splitlines()[17])
    check_same({name: found["decision"][name] for name in decided}, decided)


def test_the_training_samples_behind_a_decision_are_shown(worker, folder):
    path = folder / "model.srosr"
    found, _ = worker.run("explain", describe(path, row=3, picture_shape=[8, 8]), {"X": X[400:410]})
    train = np.flatnonzero(Y[:200] < 4)
    first = found["training_samples"][0]
    atoms = found["explanation"]["atoms"]
    assert [s["row"] for s in found["training_samples"]] == [atom["row"] for atom in atoms][:12]
    assert first["weight"] == atoms[0]["coefficient"] and first["label"] == str(Y[train[first["row"]]])
    assert np.abs(read_png(first["picture"]) - draw_ink(X[train[first["row"]]].reshape(8, 8)).astype(float)).max() <= 1
    assert (read_png(found["sample_picture"]) == draw_ink(X[403].reshape(8, 8))).all()


def test_pictures_of_a_model_that_scales_are_in_the_units_of_the_file(worker, folder):
    found, _ = worker.run("explain", describe(folder / "scaled.srosr", picture_shape=[8, 8]), {"X": X[400:401]})
    shown = read_png(found["sample_picture"]).astype(float)
    assert np.abs(shown - draw_ink(X[400].reshape(8, 8))).max() <= 1
    assert found["training_samples"][0]["picture"] is not None


def test_the_figure_is_an_svg_that_is_always_the_same(worker, folder):
    header = describe(folder / "model.srosr", row=5, picture_shape=[8, 8])
    figures = [worker.run("explain", header, {"X": X[400:410]})[0]["figure"] for _ in range(2)]
    assert figures[0] == figures[1]
    assert ET.fromstring(figures[0]).tag.endswith("svg") and "<script" not in figures[0] and "date" not in figures[0]
    without, _ = worker.run("explain", {**header, "figure": False}, {"X": X[400:410]})
    assert without["figure"] is None
    rival, _ = worker.run("explain", describe(folder / "rival.srosr", picture_shape=[8, 8]), {"X": X[400:410]})
    assert ET.fromstring(rival["figure"]).tag.endswith("svg") and rival["training_samples"] == []


def test_a_row_that_is_not_there_is_said(worker, folder):
    header = describe(folder / "model.srosr")
    numbers = np.array([0, 2], dtype=np.int64)
    message = fail(worker, "explain", {**header, "row": 7}, {"X": X[:2]})
    assert message == "new.csv has 2 rows, from 0 to 1: there is no row 7."
    message = fail(worker, "explain", {**header, "row": 1, "seen": 3}, {"X": X[:2], "numbers": numbers})
    assert message == "row 1 of new.csv has missing values, so it cannot be predicted."
    assert worker.run("explain", {**header, "row": 2, "figure": False}, {"X": X[:2], "numbers": numbers})[0]["row"] == 2


def test_a_sample_that_cannot_be_predicted_is_named(worker, folder):
    samples = X[400:403].copy()
    samples[1, 0] = np.inf
    for job in ("explain", "discover", "evaluate"):
        header = describe(folder / "model.srosr", row=1, labels=["1", "2", "3"])
        message = fail(worker, job, header, {"X": samples})
        assert message.startswith("new.csv has a sample in row 1 that cannot be predicted:")


# -- evaluate and discover ---------------------------------------------------------------------------------


def test_an_evaluation_is_that_of_the_command(worker, folder):
    labeled = folder / "labeled.csv"
    said = json.loads(right("evaluate", folder / "model.srosr", labeled, "--label", "digit", "--seed", 3, "--json"))
    header = describe(folder / "model.srosr", labels=[str(label) for label in Y[400:520]], seed=3, label="digit")
    found, _ = worker.run("evaluate", {**header, "data": str(labeled)}, {"X": X[400:520]})
    check_same(found, {name: value for name, value in said.items() if name not in ("model", "files")})


def test_labels_of_an_evaluation_are_checked_as_by_the_command(worker, folder):
    labels = [str(label) for label in Y[400:410]]
    header = describe(folder / "model.srosr", labels=labels, unknown=["7"])
    message = fail(worker, "evaluate", {**header, "data": "labeled.csv"}, {"X": X[400:410]})
    with_labels = write_csv(folder / "ten.csv", X[400:410], Y[400:410])
    said = error_of("evaluate", folder / "model.srosr", with_labels, "--label", "digit", "--unknown", "7")
    assert said == message.replace("labeled.csv", str(with_labels))
    assert "no labels" in fail(worker, "evaluate", {**header, "labels": None}, {"X": X[400:410]})


def test_a_discovery_is_that_of_the_command(worker, folder):
    said = json.loads(right("discover", folder / "model.srosr", folder / "new.csv", "--seed", 1, "--json"))
    header = describe(folder / "model.srosr", seed=1, feature_names=NAMES, picture_shape=[8, 8])
    progress = []
    arrays = {"X": X[400:520]}
    found, _ = worker.run("discover", {**header, "data": said["data"]}, arrays, on_progress=progress.append)
    assert [line["stage"] for line in progress] == ["Deciding", "Grouping"]
    for group, expected in zip(found["groups"], said["groups"], strict=True):
        check_same({**group, "nearest": expected["nearest"]}, {**expected, "distinctive": group["distinctive"]})
        assert [near["label"] for near in group["nearest"]] == [str(near["label"]) for near in expected["nearest"]]
        assert group["distinctive"][0]["feature"].startswith("p")
    rest = {name: value for name, value in said.items() if name not in ("groups", "files")}
    check_same({name: found[name] for name in rest}, rest)
    assert set(found["pictures"]) == {str(row) for group in said["groups"] for row in group["typical"]}
    message = fail(worker, "discover", describe(folder / "model.srosr"), {"X": X[:5]})
    assert message.startswith("new.csv has")


# -- changes -----------------------------------------------------------------------------------------------


@contextmanager
def commanded(folder, *arguments):
    """Run a command that writes a changed model; give that model."""
    path = folder / "commanded.srosr"
    right(*arguments, "-o", path)
    yield path
    path.unlink()


def check_same_file(path, expected):
    """Both files hold the same model."""
    one, other = srosr.load(path), srosr.load(expected)
    check_same_model(one, other, pd.DataFrame(X[900:1000], columns=NAMES))
    check_same(*(summarize_model(model).to_dict() for model in (one, other)))
    assert repr(one) == repr(other)


def change(worker, folder, job, model="model", arrays=None, **more):
    out = folder / "changed.srosr"
    out.unlink(missing_ok=True)
    found, _ = worker.run(job, describe(folder / f"{model}.srosr", out=str(out), **more), arrays)
    return out, found


@pytest.mark.parametrize("model", ["model", "rival"])
@pytest.mark.parametrize(
    ("options", "header"),
    [
        (["--target-rejection", "0.1"], {"target_rejection": 0.1}),
        (["--target-rejection", "0.1", "--per-class"], {"target_rejection": 0.1, "per_class": True}),
        (["--threshold", "0.5"], {"threshold": 0.5}),
        (["--threshold", "f"], {"threshold": "f"}),
        (["--threshold", "risk", "--risk-weight", "3"], {"threshold": "risk", "risk_weight": 3}),
    ],
)
def test_a_threshold_is_set_as_by_the_command(worker, folder, model, options, header):
    with commanded(folder, "set-threshold", folder / f"{model}.srosr", *options) as expected:
        out, found = change(worker, folder, "set_threshold", model, **header)
        check_same_file(out, expected)
        said = json.loads(right("info", expected, "--json"))
        check_same(found["summary"], {name: said[name] for name in found["summary"] if name in said})


@pytest.mark.parametrize(
    ("model", "recalibrate"),
    slow_except([("model", False), ("scaled", True)], product(["model", "scaled"], [False, True])),
)
def test_classes_are_added_and_removed_as_by_the_commands(worker, folder, model, recalibrate):
    eights = X[:520][Y[:520] == 8][:20]
    table = write_csv(folder / "eights.csv", eights)
    flags = ["--recalibrate"] if recalibrate else []
    path = folder / f"{model}.srosr"
    with commanded(folder, "add-class", path, table, "--name", "8", *flags) as expected:
        arrays = {"X": eights}
        out, found = change(worker, folder, "add_class", model, arrays, recalibrate=recalibrate, **{"class": "8"})
        check_same_file(out, expected)
        assert "8" in map(str, found["summary"]["classes"])
    with commanded(folder, "remove-class", path, "3", *flags) as expected:
        out, found = change(worker, folder, "remove_class", model, label="3", recalibrate=recalibrate)
        check_same_file(out, expected)


def test_labels_choose_the_samples_of_a_class_unless_they_were_chosen_before(worker, folder):
    eights = np.flatnonzero(Y[400:520] == 8)
    arrays = {"X": X[400:520]}
    labels = [str(label) for label in Y[400:520]]
    by_label, _ = change(worker, folder, "add_class", arrays=arrays, labels=labels, **{"class": "8"})
    first = by_label.rename(folder / "by_label.srosr")
    chosen = {"X": X[400:520][eights]}
    wrong = ["9"] * len(eights)
    for more in ({}, {"labels": wrong}):
        by_rows, _ = change(worker, folder, "add_class", arrays=chosen, chosen=True, **more, **{"class": "8"})
        check_same_file(by_rows, first)
    header = describe(folder / "model.srosr", out=str(folder / "x.srosr"))
    message = fail(worker, "add_class", {**header, "class": "11", "labels": labels}, arrays)
    assert message.startswith("new.csv has no sample of the class 11 (it has")
    assert not (folder / "x.srosr").exists()


@pytest.mark.parametrize("keep", [None, 5])
def test_samples_are_learned_as_by_the_command(worker, folder, keep):
    known = 400 + np.flatnonzero(Y[400:460] < 4)
    table = write_csv(folder / "more.csv", X[known], Y[known])
    flags = [] if keep is None else ["--keep", keep]
    with commanded(folder, "update", folder / "model.srosr", table, *flags) as expected:
        labels = [str(label) for label in Y[known]]
        out, _ = change(worker, folder, "update", arrays={"X": X[known]}, labels=labels, keep=keep)
        check_same_file(out, expected)
    header = describe(folder / "model.srosr", out=str(folder / "x.srosr"), data="more.csv")
    message = fail(worker, "update", {**header, "labels": ["9"] * len(known)}, {"X": X[known]})
    assert message.startswith("more.csv has the class 9, which the model does not know")


@pytest.mark.parametrize("kind", ["labels", "no labels"])
def test_a_model_is_recalibrated_as_by_the_command(worker, folder, kind):
    known = 400 + np.flatnonzero(Y[400:520] < 4)
    table = write_csv(folder / "fresh.csv", X[known], Y[known] if kind == "labels" else None)
    labels = [str(label) for label in Y[known]] if kind == "labels" else None
    with commanded(folder, "recalibrate", folder / "model.srosr", table) as expected:
        arrays = {"X": X[known]}
        out, found = change(worker, folder, "recalibrate", arrays=arrays, labels=labels)
        check_same_file(out, expected)
        assert all(note.endswith(".") for note in found["notes"])


def test_groups_are_those_of_the_model(worker, folder):
    known = np.flatnonzero(Y[:200] < 4)
    hands = [f"h{i % 20}" for i in range(len(known))]
    train = write_csv(folder / "grouped.csv", X[known], Y[known], hands)
    path = folder / "grouped.srosr"
    options = ("--label", "digit", "--group", "hand", "--seed", "0", "--jobs", "1", "--quiet")
    right("fit", train, "-o", path, *options)
    more = 400 + np.flatnonzero(Y[400:460] < 4)
    groups = [f"n{i % 5}" for i in range(len(more))]
    table = write_csv(folder / "more.csv", X[more], Y[more], groups)
    labels = [str(label) for label in Y[more]]
    with commanded(folder, "update", path, table) as expected:
        out, _ = change(worker, folder, "update", "grouped", {"X": X[more]}, labels=labels, groups=groups)
        check_same_file(out, expected)
    header = describe(path, out=str(folder / "x.srosr"), labels=labels)
    message = fail(worker, "update", header, {"X": X[more]})
    assert message == "new.csv has no column 'hand' of groups, and the model was fitted with groups: add the column."
    eights = {"X": X[400:520][Y[400:520] == 8]}
    assert fail(worker, "add_class", {**header, "labels": None, "class": "8"}, eights) == message
    _, found = change(worker, folder, "add_class", "grouped", eights, chosen=True, **{"class": "8"})
    assert "8" in map(str, found["summary"]["classes"])


def test_changes_are_refused_in_the_words_of_the_commands(worker, folder):
    header = describe(folder / "model.srosr", out=str(folder / "x.srosr"))
    path = folder / "model.srosr"
    cases = [
        ("set_threshold", {"threshold": "maximal"}, ("set-threshold", path, "--threshold", "maximal")),
        ("set_threshold", {"threshold": 7}, ("set-threshold", path, "--threshold", "7")),
        ("set_threshold", {}, ("set-threshold", path)),
        ("remove_class", {"label": "77"}, ("remove-class", path, "77")),
        ("add_class", {"class": "3"}, ("add-class", path, folder / "new.csv", "--name", "3")),
    ]
    for job, more, command in cases:
        message = fail(worker, job, header | more, {"X": X[400:520]})
        said = error_of(*command)
        assert said.replace(str(folder / "model.srosr"), "model").replace(str(folder / "new.csv"), "new.csv") == message
    header = describe(folder / "rival.srosr", out=str(folder / "x.srosr"), label="3")
    message = fail(worker, "remove_class", header, status=409)
    assert message == error_of("remove-class", folder / "rival.srosr", "3").replace(
        str(folder / "rival.srosr"), "rival"
    )
    assert not (folder / "x.srosr").exists()


def test_warnings_of_the_library_are_notes(worker, folder):
    train = np.flatnonzero(Y[:200] < 4)[:6]
    labels = [str(label) for label in Y[train]]
    _, found = change(worker, folder, "update", arrays={"X": X[train]}, labels=labels)
    assert any("are atoms of the model already" in note for note in found["notes"])


# -- models ------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_the_version_is_refused(worker, folder, tmp_path):
    path = tmp_path / "model.srosr"
    path.write_bytes((folder / "model.srosr").read_bytes())
    header = describe(path, out=str(tmp_path / "out.srosr"), label="3")
    path.write_bytes((folder / "rival.srosr").read_bytes())
    message = fail(worker, "remove_class", header, status=409)
    assert message == "The model was changed meanwhile: try again."
    path.unlink()
    assert "own copy of the model is missing" in fail(worker, "remove_class", header, status=503)


def test_a_file_that_cannot_be_written_is_a_sentence(worker, folder, tmp_path):
    header = describe(folder / "model.srosr", out=str(tmp_path / "no-such-folder/out.srosr"), label="3")
    message = fail(worker, "remove_class", header, status=503)
    assert message.startswith("The changed model cannot be written:")


def test_a_change_does_not_touch_the_model_that_is_kept(worker, folder):
    header = describe(folder / "model.srosr", figure=False)
    before, _ = worker.run("explain", header, {"X": X[400:401]})
    change(worker, folder, "remove_class", label="0")
    change(worker, folder, "set_threshold", threshold=0.1)
    check_same(worker.run("explain", header, {"X": X[400:401]})[0], before)


# -- pictures ----------------------------------------------------------------------------------------------


def test_pictures_join_the_model_with_their_thumbnails(worker, folder, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    generator = np.random.default_rng(0)

    def make(name, bright):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        gray = np.clip(generator.normal(bright, 30, (12, 12)) + 60 * np.eye(12), 0, 255).astype(np.uint8)
        Image.fromarray(gray).save(path)
        return path

    for i in range(12):
        make(f"train/dark/{i}.png", 40)
        make(f"train/bright/{i}.png", 180)
        make(f"new/{i}.png", 110)
    path = tmp_path / "pictures.srosr"
    right("fit", tmp_path / "train", "-o", path, "--features", "pixels", "--size", "8x8", "--seed", "0", "--quiet")
    clf = srosr.load(path)
    files = sorted((tmp_path / "new").iterdir())
    from srosr.features.gray_values import read_picture
    from srosr.tables.feature_recipe import make_thumbnail

    small = np.stack([make_thumbnail(read_picture(file, None)) for file in files])
    arrays = {"X": clf.feature_recipe_.compute_features(files), "thumbnails": small}
    header = describe(path, names=[file.name for file in files], data="12 files")
    found, _ = worker.run("explain", {**header, "row": 2}, arrays)
    assert found["decision"]["file"] == files[2].name
    assert (read_png(found["sample_picture"]) == small[2]).all()
    first = found["training_samples"][0]
    assert first["name"] == clf.feature_recipe_.names[first["row"]]
    assert (read_png(first["picture"]) == clf.feature_recipe_.thumbnails[first["row"]]).all()
    expected = tmp_path / "commanded.srosr"
    right("add-class", path, tmp_path / "new", "--name", "gray", "-o", expected)
    out = tmp_path / "out.srosr"
    worker.run("add_class", {**header, "class": "gray", "out": str(out)}, arrays)
    one, other = srosr.load(out), srosr.load(expected)
    assert one.feature_recipe_.names.tolist() == other.feature_recipe_.names.tolist()
    assert (one.feature_recipe_.thumbnails == other.feature_recipe_.thumbnails).all()
    check_same_model(one, other, arrays["X"])


def test_a_png_is_what_was_drawn():
    Image = pytest.importorskip("PIL.Image")
    picture = np.random.default_rng(0).integers(0, 256, (5, 9), dtype=np.uint8)
    image = Image.open(io.BytesIO(write_png(picture)))
    assert image.format == "PNG" and (np.asarray(image) == picture).all()
    assert (draw_ink(np.array([[0.0, 16.0]])) == [[255, 0]]).all() and (draw_ink(np.zeros((2, 2))) == 255).all()

"""Work in child processes: the same results, files and words as the commands; and what is in a history."""

import base64
import io
import json
import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_runs import error_of, right
from jobs_for_children import open_pool
from same import check_same, check_same_model, check_same_text
from sklearn.datasets import load_digits

import srosr
from srosr.features.gray_values import read_picture
from srosr.inspection.model_summary import summarize_model
from srosr.server import schemas
from srosr.server.history import commit_change, find_kept, find_version, list_versions
from srosr.server.samples import Samples
from srosr.server.service import Service
from srosr.server.settings import ServerSettings
from srosr.server.work import draw_ink
from srosr.tables.feature_recipe import make_thumbnail

X, Y = load_digits(return_X_y=True)
NAMES = [f"p{i}" for i in range(64)]
TRAIN, KNOWN = np.flatnonzero(Y[:200] < 4), 400 + np.flatnonzero(Y[400:460] < 4)
NEW, EIGHTS = np.arange(400, 520), np.flatnonzero(Y[:520] == 8)[:20]
QUICK = ("--label", "digit", "--seed", "0", "--jobs", "1", "--quiet")
#: Tables: the digits in them, whether they are labeled, and the number of groups.
TABLES = {
    "train": (TRAIN, True, 0), "trained": (TRAIN, True, 20), "new": (NEW, False, 0), "labeled": (NEW, True, 0),
    "eights": (EIGHTS, False, 0), "known": (KNOWN, True, 0), "unlabeled": (KNOWN, False, 0), "groups": (KNOWN, True, 5),
}  # fmt: skip


def get_samples(name, source=None):
    """Return the samples of a table, as those of an upload."""
    (rows, labels, groups), n = TABLES[name], len(TABLES[name][0])
    return Samples(
        X[rows], np.arange(n), source or f"{name}.csv", seen=n, feature_names=NAMES, label="digit" if labels else None,
        labels=[str(label) for label in Y[rows]] if labels else None,
        groups=[f"h{i % groups}" for i in range(n)] if groups else None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with tables, and models fitted by the command."""
    folder = tmp_path_factory.mktemp("work")
    for name in TABLES:
        samples = get_samples(name)
        more = {"digit": samples.labels, "hand": samples.groups}
        table = pd.DataFrame(samples.X, columns=NAMES).assign(**{name: more[name] for name in more if more[name]})
        table.to_csv(folder / f"{name}.csv", index=False)
    for name, *options in (["model"], ["scaled", "--standardize"], ["rival", "--method", "osnn"]):
        right("fit", folder / "train.csv", "-o", folder / f"{name}.srosr", *options, *QUICK)
    right("fit", folder / "trained.csv", "-o", folder / "grouped.srosr", "--group", "hand", *QUICK)
    return folder


@pytest.fixture(scope="module")
def work(folder):
    """Return what lets a child do a job as the server does; it returns the result, or status and sentence."""

    def do(job, model="model", samples=None, shape=None, tell=lambda said: None, version=None, **given):
        path = folder / f"{model}.srosr"
        served = SimpleNamespace(path=path, version=version or find_version(path), name=model, picture_shape=shape)
        more = {"out": str(given.pop("out", folder / "changed.srosr")), "class": given.get("name")}
        kind = getattr(schemas, f"{job.title().replace('_', '').removeprefix('Set')}Parameters")
        samples = get_samples(samples) if isinstance(samples, str) else samples
        try:
            return pool.call(lambda: Service.work(service, job, served, kind(**given), samples, tell, **more))
        except schemas.ApiError as error:
            assert "\n" not in error.message and "/" not in error.message
            return error.status, error.message

    with open_pool("worker", 1, folder) as pool:
        service = SimpleNamespace(settings=ServerSettings(jobs=1), workers=pool.pool)
        yield do


def refused(folder, *arguments):
    """Return the sentence of a command that must fail, with names in the place of paths and options."""
    said = error_of(*arguments).replace(f"{folder}/", "").replace(".srosr", "")
    return re.sub("--([a-z-]+)", lambda found: found[1].replace("-", "_"), said)


def read_png(uri):
    assert uri.startswith("data:image/png;base64,")
    Image = pytest.importorskip("PIL.Image")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


@pytest.mark.parametrize("model", ["model", "rival", "scaled"])
def test_an_explanation_is_that_of_the_command_and_shows_training_samples(work, folder, model):
    command = "explain", folder / f"{model}.srosr", folder / "new.csv", "--row", 17, "--json", "--no-figure"
    said = json.loads(right(*command))
    given = {"model": model, "samples": get_samples("new").take([17]), "row": 17, "shape": (8, 8)}
    found, again = work("explain", **given), work("explain", **given, figure=False)
    check_same(found["explanation"], {name: value for name, value in said.items() if name not in ("row", "figure")})
    check_same_text(found["text"], said["text"])
    assert work("explain", **given)["figure"] == found["figure"] and again["figure"] is None
    assert found["row"] == 17 and ET.fromstring(found["figure"]).tag.endswith("svg")
    assert np.abs(read_png(found["sample_picture"]) - 255 * (1 - X[417].reshape(8, 8) / X[417].max())).max() <= 1
    atoms, shown = found["explanation"].get("atoms", [])[:12], found["training_samples"]
    assert [(x["row"], x["weight"]) for x in shown] == [(atom["row"], atom["coefficient"]) for atom in atoms]
    for sample in shown:
        assert sample["label"] == str(Y[TRAIN[sample["row"]]])
        if model == "model":
            drawn = draw_ink(X[TRAIN[sample["row"]]].reshape(8, 8)).astype(float)
            assert np.abs(read_png(sample["picture"]) - drawn).max() <= 1


@pytest.mark.parametrize("job", ["explain", "evaluate", "discover"])
def test_a_sample_that_cannot_be_predicted_is_named(work, job):
    samples, given = get_samples("labeled").take([1] if job == "explain" else [0, 1, 2]), {"row": 1}
    samples.X[-2:] = np.inf
    status, message = work(job, samples=samples, **(given if job == "explain" else {}))
    assert status == 422 and message.startswith("labeled.csv has a sample in row 1 that cannot be predicted:")


def test_an_evaluation_is_that_of_the_command(work, folder):
    given = ("evaluate", folder / "model.srosr", path := folder / "labeled.csv", "--label", "digit")
    said = json.loads(right(*given, "--seed", 3, "--json"))
    found = work("evaluate", samples=get_samples("labeled", str(path)), seed=3)
    check_same(found, {name: said[name] for name in found} | {"labels": "digit"})
    assert found.keys() >= said.keys() - {"model", "files"}
    assert work("evaluate", samples="labeled", unknown=["77"]) == (422, refused(folder, *given, "--unknown", "77"))


def test_a_discovery_is_that_of_the_command(work, folder):
    command, progress = ("discover", folder / "model.srosr", folder / "new.csv", "--seed", 1, "--json"), []
    said = json.loads(right(*command))
    found = work("discover", samples=get_samples("new", said["data"]), shape=(8, 8), seed=1, tell=progress.append)
    assert [line["stage"] for line in progress] == ["Deciding", "Grouping"]
    for group, expected in zip(found["groups"], said["groups"], strict=True):
        assert group.pop("distinctive")[0]["feature"].startswith("p")
        for near in expected["nearest"]:
            near["label"] = str(near["label"])
    check_same({name: found[name] for name in said if name != "files"}, {x: said[x] for x in said if x != "files"})
    assert set(found["pictures"]) == {str(row) for group in said["groups"] for row in group["typical"]}


def check_same_file(path, expected):
    """Both files hold the same model."""
    one, other = srosr.load(path), srosr.load(expected)
    check_same_model(one, other, pd.DataFrame(X[900:1000], columns=NAMES))
    check_same(*(summarize_model(model).to_dict() for model in (one, other)))
    assert repr(one) == repr(other)


@pytest.mark.parametrize(("job", "model", "samples", "given", "options", "status"), [
    ("set_threshold", "model", None, {"target_rejection": 0.1}, "--target-rejection 0.1", 200),
    ("set_threshold", "rival", None, {"target_rejection": 0.1, "per_class": True},
     "--target-rejection 0.1 --per-class", 200),
    ("set_threshold", "rival", None, {"threshold": 0.5}, "--threshold 0.5", 200),
    ("set_threshold", "model", None, {"threshold": "risk", "risk_weight": 3}, "--threshold risk --risk-weight 3", 200),
    ("set_threshold", "model", None, {"threshold": "maximal"}, "--threshold maximal", 422),
    ("set_threshold", "model", None, {"threshold": 7}, "--threshold 7", 422),
    ("set_threshold", "model", None, {}, "", 422),
    ("add_class", "model", "eights", {"name": "8"}, "--name 8", 200),
    ("add_class", "scaled", "eights", {"name": "8", "recalibrate": True}, "--name 8 --recalibrate", 200),
    ("add_class", "model", "eights", {"name": "3"}, "--name 3", 422),
    ("add_class", "grouped", "eights", {"name": "8"}, "--name 8", 422),
    ("remove_class", "model", None, {"label": "3"}, "3", 200),
    ("remove_class", "scaled", None, {"label": "3", "recalibrate": True}, "3 --recalibrate", 200),
    ("remove_class", "model", None, {"label": "77"}, "77", 422),
    ("remove_class", "rival", None, {"label": "3"}, "3", 409),
    ("update", "model", "known", {}, "", 200), ("update", "model", "known", {"keep": 5}, "--keep 5", 200),
    ("update", "grouped", "groups", {}, "", 200), ("update", "grouped", "known", {}, "", 422),
    ("update", "model", "labeled", {}, "", 422),
    ("recalibrate", "model", "known", {}, "", 200), ("recalibrate", "model", "unlabeled", {}, "", 200),
])  # fmt: skip
def test_a_model_is_changed_as_by_the_command(work, folder, tmp_path, job, model, samples, given, options, status):
    out, expected, paths = (
        tmp_path / "out",
        tmp_path / "expected",
        [folder / f"{model}.srosr", folder / f"{samples}.csv"],
    )
    command = (job.replace("_", "-"), *paths[: 1 + (samples is not None)], *options.split(), "-o", expected)
    found = work(job, model, samples, out=out, **given)
    if status == 200:
        right(*command)
        check_same_file(out, expected)
        assert all(note.endswith(".") for note in found["notes"])
    else:
        assert found == (status, refused(folder, *command)) and not out.exists()


def test_labels_choose_the_samples_of_a_class_unless_rows_did(work, folder):
    labeled = get_samples("labeled")
    rows = [row for row, label in enumerate(labeled.labels) if label == "8"]
    work("add_class", samples=labeled, name="8", out=folder / "by_label.srosr")
    work("add_class", samples=labeled.take(rows), name="8", rows=rows)
    check_same_file(folder / "changed.srosr", folder / "by_label.srosr")
    assert "has no sample of the class 11 (it has" in work("add_class", samples=labeled, name="11")[1]
    work("add_class", "grouped", samples=labeled.take(rows), name="8", rows=rows)  # each is a group of its own
    assert "8" in srosr.load(folder / "changed.srosr").classes_


def test_a_change_does_not_touch_the_model_that_is_kept_and_warnings_are_notes(work):
    given = {"samples": get_samples("new").take([0]), "figure": False}
    before = work("explain", **given)
    work("remove_class", label="0")
    notes = work("update", samples=get_samples("train").take(range(6)))["notes"]
    assert any("are atoms of the model already" in note for note in notes)
    check_same(work("explain", **given), before)


def test_a_file_that_is_not_the_version_or_cannot_be_written_is_a_sentence(work, tmp_path):
    given = {"job": "remove_class", "label": "3"}
    assert work(**given, version="0" * 16) == (409, "The model was changed meanwhile: try again.")
    missing = "The server's own copy of the model is missing: start the server again."
    assert work(**given, model="none", version="0" * 16) == (503, missing)
    status, message = work(**given, out=tmp_path / "none" / "out.srosr")
    assert status == 503 and message.startswith("The changed model cannot be written:")


def test_pictures_join_the_model_with_their_thumbnails(work, folder):
    Image, generator = pytest.importorskip("PIL.Image"), np.random.default_rng(0)
    for place, bright in (("train/dark", 40), ("train/bright", 180), ("pictures", 110)):
        (folder / place).mkdir(parents=True)
        for i in range(12):
            gray = np.clip(generator.normal(bright, 30, (12, 12)) + 60 * np.eye(12), 0, 255).astype(np.uint8)
            Image.fromarray(gray).save(folder / place / f"{i}.png")
    right("fit", folder / "train", "-o", folder / "seen.srosr", "--features", "pixels", "--size", "8x8", *QUICK[2:])
    recipe, files = srosr.load(folder / "seen.srosr").feature_recipe_, sorted((folder / "pictures").iterdir())
    small, names = np.stack([make_thumbnail(read_picture(file, None)) for file in files]), [file.name for file in files]
    samples = Samples(recipe.compute_features(files), np.arange(12), "12 files", files=names, thumbnails=small, seen=12)
    found = work("explain", "seen", samples.take([2]), row=2)
    first = found["training_samples"][0]
    assert (read_png(found["sample_picture"]) == small[2]).all() and first["name"] == recipe.names[first["row"]]
    assert (read_png(first["picture"]) == recipe.thumbnails[first["row"]]).all()
    right("add-class", folder / "seen.srosr", folder / "pictures", "--name", "gray", "-o", folder / "commanded.srosr")
    work("add_class", "seen", samples, name="gray")
    one, other = srosr.load(folder / "changed.srosr"), srosr.load(folder / "commanded.srosr")
    check_same_model(one, other, samples.X)
    for name in ("names", "thumbnails"):
        assert np.array_equal(getattr(one.feature_recipe_, name), getattr(other.feature_recipe_, name))


@pytest.fixture
def commit(tmp_path):
    """Return a function that gives the file ``source`` of a model, which has the content "0", another content."""

    def change(content, before=None):
        (tmp_path / "new").write_bytes(content)
        before = before or find_version(change.source)
        return commit_change("model", change.source, tmp_path / "new", before=before, line=change.line)

    change.source, change.line = (
        tmp_path / "model.srosr",
        {"change": "update", "details": {"keep": 3}, "by": "127.0.0.1"},
    )
    change.source.write_bytes(b"0")
    return change


def test_a_change_replaces_the_file_keeps_the_old_one_and_says_so(commit):
    before, after = find_version(commit.source), commit(b"1")
    assert commit.source.read_bytes() == b"1" and find_kept(commit.source, before).read_bytes() == b"0"
    first, second = list_versions(commit.source)
    assert first.pop("time").endswith("Z") and second.pop("time") is None
    assert first == {"version": after, **commit.line, "kept": False, "current": True}
    assert second == {"version": before, **dict.fromkeys(commit.line), "kept": True, "current": False}
    commit.source.write_bytes(b"from elsewhere")
    with pytest.raises(schemas.ApiError, match="model was changed meanwhile"):
        commit(b"2", after)
    assert commit.source.read_bytes() == b"from elsewhere"
    first, *_ = list_versions(commit.source, after)  # what is served, if what is in the file is no model
    assert (first["version"], first["current"], first["kept"]) == (after, True, True)


def test_twenty_versions_are_kept_and_found_unless_damaged_whatever_lines_are_torn(commit):
    versions, link = [find_version(commit.source)], commit.source.with_name("link.srosr")
    for n, line in enumerate([b'{"after": "0', b"\xff\xfe", b'{"after": 3}', b"[" * 100_000] + [b""] * 18):
        versions.append(commit(b"%d" % (n + 1)))
        with open(commit.source.parent / "model.srosr.history/changes.jsonl", "ab") as file:
            file.write(b"\n" + line)
    assert [entry["version"] for entry in list_versions(commit.source)] == versions[::-1]
    assert [entry["kept"] for entry in list_versions(commit.source)] == [False] + [True] * 20 + [False] * 2
    find_kept(commit.source, versions[9]).write_bytes(b"something else")
    for wrong in (versions[0], versions[9], versions[-1], "../model", "*", "", "0" * 16):
        with pytest.raises(schemas.ApiError, match="There is no kept version"):
            find_kept(commit.source, wrong)
    link.symlink_to(commit.source)  # it stays one, and all names of a file have one history
    commit.source = link
    assert commit(b"new") == list_versions(link.resolve())[0]["version"] and link.is_symlink()

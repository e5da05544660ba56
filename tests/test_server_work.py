"""Work in child processes: the same results, files and words as the commands; and what is in a history."""

import base64
import io
import json
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_runs import right
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


@pytest.mark.parametrize(("job", "model", "samples", "given", "options"), [
    ("set_threshold", "model", None, {"target_rejection": 0.1}, "--target-rejection 0.1"),
    ("set_threshold", "rival", None, {"threshold": 0.5}, "--threshold 0.5"),
    ("set_threshold", "rival", None, {"target_rejection": 0.1, "per_class": True},
     "--target-rejection 0.1 --per-class"),
    ("set_threshold", "model", None, {"threshold": "risk", "risk_weight": 3}, "--threshold risk --risk-weight 3"),
    ("add_class", "model", "eights", {"name": "8"}, "--name 8"),
    ("add_class", "scaled", "eights", {"name": "8", "recalibrate": True}, "--name 8 --recalibrate"),
    ("remove_class", "model", None, {"label": "3"}, "3"),
    ("remove_class", "scaled", None, {"label": "3", "recalibrate": True}, "3 --recalibrate"),
    ("update", "model", "known", {}, ""), ("update", "model", "known", {"keep": 5}, "--keep 5"),
    ("update", "grouped", "groups", {}, ""),
    ("recalibrate", "model", "known", {}, ""), ("recalibrate", "model", "unlabeled", {}, ""),
])  # fmt: skip
def test_a_model_is_changed_as_by_the_command(work, folder, tmp_path, job, model, samples, given, options):
    paths, out, expected = [folder / f"{model}.srosr"], tmp_path / "out", tmp_path / "expected"
    if samples is not None:
        paths.append(folder / f"{samples}.csv")
    found = work(job, model, samples, out=out, **given)
    right(job.replace("_", "-"), *paths, *options.split(), "-o", expected)
    one, other = srosr.load(out), srosr.load(expected)
    check_same_model(one, other, pd.DataFrame(X[900:1000], columns=NAMES))
    check_same(*(summarize_model(model).to_dict() for model in (one, other)))
    assert repr(one) == repr(other) and all(note.endswith(".") for note in found["notes"])


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

    change.source = tmp_path / "model.srosr"
    change.line = {"change": "update", "details": {"keep": 3}, "by": "127.0.0.1"}
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

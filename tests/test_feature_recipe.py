"""The feature recipe travels with the model and is applied to all samples; a damaged one is an error."""

import copy
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from command_runs import error_of, right
from fitted import fit_once
from PIL import Image
from same import check_same, check_same_labels
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

import srosr
from srosr.discovery.discover_classes import discover
from srosr.exceptions import ModelFileError
from srosr.features.spatial_pyramid import SpatialPyramid
from srosr.model_files.file_format import ModelState, read_model, write_model
from srosr.monitor.stream_monitor import Monitor
from srosr.tables.feature_recipe import THUMBNAIL, FeatureRecipe, make_thumbnail, resize_picture


@pytest.fixture
def fitted():
    """Return a classifier of three easy classes with 48 features, which a test may change."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 48))
    y = np.repeat(["a", "b", "c"], 12)
    X = np.repeat(centers, 12, axis=0) + 0.1 * rng.normal(size=(36, 48))
    return fit_once(srosr.SROSRClassifier(n_repeats=2, random_state=0), X, y), X


def table_recipe():
    return FeatureRecipe("table", "species", ("id", "name"), np.arange(48.0), np.full(48, 2.0))


def pixel_recipe():
    names = np.array([f"a/{i}.png" for i in range(36)])
    return FeatureRecipe("pixels", shape=(6, 8), names=names, thumbnails=np.zeros((36, THUMBNAIL, THUMBNAIL), np.uint8))


def test_a_table_recipe_comes_back_as_it_was(fitted, tmp_path):
    clf, _ = fitted
    clf.feature_recipe_ = table_recipe()
    clf.save(tmp_path / "m")
    again = srosr.load(tmp_path / "m").feature_recipe_
    assert (again.kind, again.label, again.ignored) == ("table", "species", ("id", "name"))
    assert np.array_equal(again.center, clf.feature_recipe_.center) and np.array_equal(
        again.scale, clf.feature_recipe_.scale
    )
    assert np.array_equal(again.prepare_rows(np.ones((1, 48))), (np.ones((1, 48)) - np.arange(48.0)) / 2.0)


def test_a_picture_recipe_comes_back_as_it_was(fitted, tmp_path):
    clf, _ = fitted
    clf.feature_recipe_ = pixel_recipe()
    clf.save(tmp_path / "m")
    again = srosr.load(tmp_path / "m").feature_recipe_
    assert (again.kind, again.shape, again.of_pictures) == ("pixels", (6, 8), True)
    assert again.names.tolist() == clf.feature_recipe_.names.tolist()
    assert np.array_equal(again.thumbnails, clf.feature_recipe_.thumbnails)


def test_a_pyramid_makes_the_same_features_after_it_was_saved(tmp_path):
    rng = np.random.default_rng(1)
    paths = []
    for i in range(12):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(rng.integers(0, 256, (40, 40), dtype=np.uint8)).save(paths[-1])
    pyramid = SpatialPyramid(n_words=5, levels=2, random_state=0).fit(paths)
    small = np.stack([make_thumbnail(np.zeros((40, 40)))] * 12)
    recipe = FeatureRecipe("pyramid", pyramid=pyramid, names=np.array([p.name for p in paths]), thumbnails=small)
    X = recipe.compute_features(paths)
    clf = srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(X, np.repeat(["a", "b"], 6))
    clf.feature_recipe_ = recipe
    clf.save(tmp_path / "m")
    assert np.array_equal(srosr.load(tmp_path / "m").feature_recipe_.compute_features(paths), X)


def test_fitting_again_forgets_the_recipe_of_the_last_fit(fitted):
    clf, X = fitted
    clf.feature_recipe_ = table_recipe()
    clf.fit(X, np.repeat(["a", "b", "c"], 12))
    assert clf.feature_recipe_ is None


def test_a_rival_carries_its_recipe_too(fitted, tmp_path):
    _, X = fitted
    clf = srosr.KNNDistance().fit(X, np.repeat(["a", "b", "c"], 12))
    clf.feature_recipe_ = table_recipe()
    clf.save(tmp_path / "m")
    assert srosr.load(tmp_path / "m").feature_recipe_.label == "species"


# A model that was fitted to a file by the command


@pytest.fixture(scope="module")
def tables():
    """Two tables with columns in very different units, an id, a class and gaps."""
    data = load_breast_cancer(as_frame=True)
    frame = data.data.iloc[:, :12].copy()
    frame.columns = [name.replace(" ", "_") for name in frame.columns]
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.02)
    frame.insert(0, "id", np.arange(len(frame)))
    frame["kind"] = data.target_names[data.target]
    return frame[:150], frame[150:250]


@pytest.fixture(scope="module", params=["--standardize", "--impute median", "--standardize --impute knn", ""])
def from_table(request, tables, tmp_path_factory):
    """A model of a table, samples it can take, and what the command decides on them."""
    folder = tmp_path_factory.mktemp("table")
    train, new = tables if "--impute" in request.param else (part.dropna() for part in tables)
    train.to_csv(folder / "train.csv", index=False)
    new.to_csv(folder / "new.csv", index=False)
    given = ["--label", "kind", "--ignore", "id", *request.param.split(), "--seed", 0, "--jobs", 1, "--quiet"]
    right("fit", folder / "train.csv", "-o", folder / "m", *given)
    right("predict", folder / "m", folder / "new.csv", "-o", folder / "out.csv")
    return folder / "m", new, pd.read_csv(folder / "out.csv")


def check_decisions(clf, samples, expected):
    """Decisions of Python are those of the command, to the digits in its file."""
    decided = clf.decide(samples)
    check_same(decided.unknown_score, expected["unknown_score"].to_numpy())
    check_same_labels(decided.label, expected["label"], decided.unknown_score, clf.threshold_)


def test_python_decides_on_rows_of_a_file_as_the_command_does(from_table):
    path, new, expected = from_table
    clf = srosr.load(path)
    features = new.drop(columns=["id", "kind"])
    assert 0 < expected["label"].eq("unknown").mean() < 0.5
    for frame in (new, new.drop(columns="kind"), features):
        check_decisions(clf, frame, expected)
    with pytest.warns(UserWarning, match="valid feature names"):
        check_decisions(clf, features.to_numpy(), expected)
    row = clf.explain(new.iloc[3])
    assert (row.label, row.unknown_score) == (expected["label"][3], pytest.approx(expected["unknown_score"][3]))
    with pytest.raises(ValueError, match="feature names"):
        clf.decide(new.rename(columns={"mean_area": "area"}))


def test_a_frame_without_names_may_have_the_columns_of_the_file(tmp_path):
    rng, frames = np.random.default_rng(0), []
    for X in (rng.random((60, 5)), rng.random((20, 5))):
        frame = pd.DataFrame(X)
        frame.insert(2, "id", range(len(X)))
        frame["kind"] = np.resize(["a", "b", "c"], len(X))
        frames.append(frame.set_axis(range(7), axis=1))
    frames[0].to_csv(tmp_path / "t.csv", index=False, header=False)
    given = ["--no-header", "--label", "6", "--ignore", "2", "--standardize", "--method", "knn", "--quiet"]
    right("fit", tmp_path / "t.csv", "-o", tmp_path / "m", *given)
    clf = srosr.load(tmp_path / "m")
    for whole in (frames[1], pd.DataFrame(X)):
        check_same(clf.unknown_score(whole), clf.unknown_score(X))


ASK = {
    "decide": lambda clf, X, y: clf.decide(X).unknown_score,
    "predict": lambda clf, X, y: clf.predict(X),
    "unknown_score": lambda clf, X, y: clf.unknown_score(X),
    "candidate": lambda clf, X, y: clf.candidate(X),
    "score": lambda clf, X, y: clf.score(X, y),
    "evidence": lambda clf, X, y: clf.evidence(X).to_dict("list"),
    "log_p_value": lambda clf, X, y: clf.log_p_value(X),
    "p_value": lambda clf, X, y: clf.p_value(X),
    "class_scores": lambda clf, X, y: clf.class_scores(X),
    "encode": lambda clf, X, y: clf.encode(X).objective,
    "class_p_values": lambda clf, X, y: clf.class_p_values(X),
    "prediction_set": lambda clf, X, y: clf.prediction_set(X, 0.5).contains,
    "explain": lambda clf, X, y: clf.explain(X[3:4]).log_p_value,
    "discover": lambda clf, X, y: discover(clf, X, rejected_only=False).labels,
    "monitor": lambda clf, X, y: Monitor(clf).update(X).unknown_score,
    "add_class": lambda clf, X, y: clf.add_class(X[:20], "new").unknown_score(X),
    "update": lambda clf, X, y: clf.update(X[:50], y[:50]).unknown_score(X),
    "recalibrate": lambda clf, X, y: clf.recalibrate(X, y).threshold_,
    "recalibrate without labels": lambda clf, X, y: clf.recalibrate(X)._calibration_labels,
}


@pytest.mark.parametrize("name", ASK)
def test_every_method_treats_samples_as_the_file_and_once(tables, name):
    """As the same model does without a recipe, given rows that were treated already."""
    train, new = (part.dropna() for part in tables)
    X, X_new = (table.drop(columns=["id", "kind"]).to_numpy() for table in (train, new))
    labels = new["kind"].to_numpy()
    recipe = FeatureRecipe("table", "kind", ("id",), X.mean(axis=0), X.std(axis=0))
    small = srosr.SROSRClassifier(n_repeats=3, random_state=0)
    plain = fit_once(small, recipe.prepare_rows(X), train["kind"].to_numpy())
    clf = copy.deepcopy(plain)
    clf.feature_recipe_ = recipe
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = ASK[name](plain, recipe.prepare_rows(X_new), labels)
        check_same(ASK[name](clf, X_new, labels), expected)


def test_dask_decides_on_frames_of_a_file_as_python_does(from_table):
    dd = pytest.importorskip("dask.dataframe")
    from srosr.distributed.lazy_decisions import decide

    path, new, expected = from_table
    lazy = decide(srosr.load(path), dd.from_pandas(new, npartitions=2)).compute()
    check_same(lazy["unknown_score"].to_numpy(), expected["unknown_score"].to_numpy())


def test_columns_are_left_out_by_name_only_if_the_model_knows_names(fitted):
    clf, X = fitted
    clf = copy.deepcopy(clf)
    clf.feature_recipe_ = FeatureRecipe("table", "3", ())
    frame = pd.DataFrame(X, columns=[str(i) for i in range(48)])
    with pytest.warns(UserWarning, match="without feature names"):
        check_same(clf.unknown_score(frame), clf.unknown_score(X))


def test_python_changes_a_model_of_a_file_as_the_command_does(from_table, tmp_path):
    path, new, _ = from_table
    new.to_csv(tmp_path / "new.csv", index=False)
    right("update", path, tmp_path / "new.csv", "-o", tmp_path / "updated", "--json")
    clf = srosr.load(path).update(new, new["kind"].to_numpy())
    check_same(clf.unknown_score(new), srosr.load(tmp_path / "updated").unknown_score(new))


def test_rows_that_the_recipe_cannot_treat_raise(from_table):
    path, new, _ = from_table
    clf = srosr.load(path)
    values = new.drop(columns=["id", "kind"]).to_numpy()[:3].copy()
    values[1] = np.nan
    with pytest.warns(UserWarning), pytest.raises(ValueError, match=r"NaN|row 1 has no value"):
        clf.decide(values)
    if clf.feature_recipe_.center is not None:
        values[1] = np.finfo(float).max
        with pytest.warns(UserWarning), pytest.raises(ValueError, match="infinity"):
            clf.decide(values)


def test_python_takes_the_paths_of_pictures_as_the_command_does(tmp_path):
    rng = np.random.default_rng(0)
    for label, gray in (("dark", 40), ("bright", 180), ("new", 110)):
        (tmp_path / "train" / label).mkdir(parents=True)
        for i in range(12):
            picture = np.clip(rng.normal(gray, 30, (12, 12)) + 60 * np.eye(12), 0, 255).astype(np.uint8)
            Image.fromarray(picture).save(tmp_path / "train" / label / f"{i}.png")
    (tmp_path / "train" / "new").rename(tmp_path / "new")
    given = ["--features", "pixels", "--size", "8x8", "--seed", 0, "--jobs", 1, "--quiet"]
    right("fit", tmp_path / "train", "-o", tmp_path / "m", *given)
    right("predict", tmp_path / "m", tmp_path / "new", "-o", tmp_path / "out.csv")
    expected = pd.read_csv(tmp_path / "out.csv")
    clf = srosr.load(tmp_path / "m")
    paths = [tmp_path / "new" / name for name in expected["file"]]
    texts = [str(path) for path in paths]
    for given in (paths, texts, np.array(texts), pd.Series(texts)):
        check_decisions(clf, given, expected)
    check_decisions(clf, clf.feature_recipe_.compute_features(paths), expected)
    said = json.loads(right("explain", tmp_path / "m", paths[0], "--json", "--no-figure"))
    for given in (paths[0], str(paths[0]), paths[:1]):
        check_same(clf.explain(given).unknown_score, said["unknown_score"])
    assert len(clf.decide(paths[0])) == 1
    with pytest.raises(ValueError, match="paths of the pictures"):
        clf.decide(255 * np.ones((2, 64)))


# Labels that stand for rejected samples


@pytest.mark.parametrize("label", ["unknown", "-1"])
def test_a_table_with_the_label_of_rejected_samples_is_no_training_data(label, tables, tmp_path):
    frame = tables[0].dropna().assign(kind=lambda rows: rows["kind"].where(rows["id"] % 5 > 0, label))
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", tmp_path / "t.csv", "--label", "kind", "--seed", 0, "--jobs", 1, "--quiet", "-o", tmp_path / "m")
    said = error_of(*fit)
    assert repr(label) in said and "--unknown-label" in said and not (tmp_path / "m").exists()
    right(*fit, "--unknown-label", "none")
    clf = srosr.load(tmp_path / "m")
    assert label in clf.classes_.tolist() and clf.unknown_label_ == "none"


def test_a_comparison_does_not_take_the_label_of_rejected_samples(tables, tmp_path):
    tables[0].dropna().assign(kind="unknown", id=0).to_csv(tmp_path / "t.csv", index=False)
    said = error_of("compare", tmp_path / "t.csv", "--label", "kind", "--out", tmp_path / "out")
    assert "'unknown' stands for rejected samples" in said and not (tmp_path / "out").exists()


@pytest.mark.parametrize("label", ["unknown", "-1"])
def test_no_class_is_added_with_a_label_of_rejected_samples(fitted, label):
    clf, X = fitted
    with pytest.raises(ValueError, match=f"{label!r} stands for rejected samples.*unknown_label"):
        copy.deepcopy(clf).add_class(X[:5], label)
    with pytest.raises(ValueError, match=f"{label!r}, which the model does not know.*: leave its samples out"):
        copy.deepcopy(clf).update(X[:5], [label] * 5)


@pytest.mark.parametrize(
    ("classes", "label"), [(["a", "b", "unknown"], "unknown"), ([0, 1, -1], -1), ([0.0, -1.0], -1)]
)
@pytest.mark.parametrize(
    "method", [srosr.SROSRClassifier(n_repeats=2), srosr.KNNDistance()], ids=lambda m: type(m).__name__
)
def test_labels_of_rejected_samples_are_no_classes_by_mistake(method, classes, label):
    X = np.random.default_rng(0).random((30, 5))
    y = np.resize(np.array(classes), 30)
    with pytest.raises(ValueError, match=f"{label!r}.*unknown_label"):
        clone(method).fit(X, y)
    other = "nothing" if isinstance(label, str) else 99
    assert clone(method).set_params(unknown_label=other).fit(X, y).unknown_label_ == other


CORRUPTED = {
    "kind": (table_recipe, lambda s, a: s["intake"].update(kind="dream"), None),
    "scales of another length": (table_recipe, None, {"intake/scale": np.ones(47)}),
    "a scale of zero": (table_recipe, None, {"intake/scale": np.zeros(48)}),
    "a center that is not finite": (table_recipe, None, {"intake/centre": np.full(48, np.nan)}),
    "columns that are no list": (table_recipe, lambda s, a: s["intake"].update(ignored="id"), None),
    "a missing setting": (table_recipe, lambda s, a: s["intake"].pop("label"), None),
    "a shape of another size": (pixel_recipe, lambda s, a: s["intake"].update(shape=[7, 8]), None),
    "a shape of truth values": (pixel_recipe, lambda s, a: s["intake"].update(shape=[True, 48]), None),
    "fewer pictures than names": (pixel_recipe, None, {"intake/thumbnails": np.zeros((35, 64, 64), np.uint8)}),
    "pictures of numbers": (pixel_recipe, None, {"intake/thumbnails": np.zeros((36, 64, 64))}),
    "names that are numbers": (pixel_recipe, None, {"intake/names": np.arange(36)}),
    "a pyramid without words": (pixel_recipe, lambda s, a: s["intake"].update(kind="pyramid", pyramid={}), None),
}


@pytest.mark.parametrize("what", CORRUPTED)
def test_a_file_with_a_corrupted_recipe_raises_an_error(what, fitted, tmp_path):
    make, change, arrays = CORRUPTED[what]
    clf, _ = fitted
    clf.feature_recipe_ = make()
    clf.save(tmp_path / "m")
    state = read_model(tmp_path / "m")
    if change is not None:
        change(state.settings, state.arrays)
    write_model(tmp_path / "m", ModelState(state.kind, state.settings, state.arrays | (arrays or {})))
    with pytest.raises(ModelFileError, match="not a valid model file"):
        srosr.load(tmp_path / "m")


def test_pixels_are_the_means_of_those_they_replace():
    gray = np.kron(np.array([[0.0, 1.0], [0.25, 0.5]]), np.ones((4, 4)))
    assert np.allclose(resize_picture(gray, (8, 8)), gray)
    small = resize_picture(np.full((30, 50), 0.3), (5, 5))
    assert small.shape == (5, 5) and np.allclose(small, 0.3)


@pytest.mark.parametrize("shape", [(10, 10), (200, 50), (1, 300), (64, 64)])
def test_a_thumbnail_keeps_the_proportions_of_the_picture(shape):
    small = make_thumbnail(np.zeros(shape))
    assert small.shape == (THUMBNAIL, THUMBNAIL) and small.dtype == np.uint8
    dark = small < 128
    height, width = dark.any(axis=1).sum(), dark.any(axis=0).sum()
    assert max(height, width) == THUMBNAIL
    assert (
        abs(height / THUMBNAIL - shape[0] / max(shape)) < 0.02 and abs(width / THUMBNAIL - shape[1] / max(shape)) < 0.02
    )

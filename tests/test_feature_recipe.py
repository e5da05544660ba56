"""The feature recipe travels with the model, and a damaged one is an error."""

import numpy as np
import pytest
from PIL import Image

import srosr
from srosr.exceptions import ModelFileError
from srosr.features.spatial_pyramid import SpatialPyramid
from srosr.model_files.file_format import ModelState, read_model, write_model
from srosr.tables.feature_recipe import THUMBNAIL, FeatureRecipe, make_thumbnail, resize_picture


@pytest.fixture(scope="module")
def fitted():
    """Return a classifier of three easy classes with 48 features."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 48))
    y = np.repeat(["a", "b", "c"], 12)
    X = np.repeat(centers, 12, axis=0) + 0.1 * rng.normal(size=(36, 48))
    return srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(X, y), X


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
    assert np.array_equal(again.scale_columns(np.ones((1, 48))), (np.ones((1, 48)) - np.arange(48.0)) / 2.0)


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

"""Classifiers that earlier versions of srosr saved are read and predict what they predicted then.

The files in ``saved-classifiers`` are never written again: ``version-1-*`` are from before feature recipes existed,
``version-2-*`` from before the package was divided into rooms, ``version-3-*`` from before there were landmarks,
``version-4-*`` from before there were p-values of classes.
``expected.json`` holds what the code that wrote them predicted.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from same import check_same_labels
from sklearn.datasets import load_digits

import srosr
from srosr.model_files.file_format import FORMAT_VERSION, read_model
from srosr.rivals.evm import EVM
from srosr.rivals.openmax import OpenMax

SAVED = Path(__file__).parent / "saved-classifiers"
EXPECTED = json.loads((SAVED / "expected.json").read_text())
QUERIES = slice(1000, 1024)
KINDS = {
    "version-1-srosr": srosr.SROSRClassifier,
    "version-1-rival": EVM,
    "version-2-srosr": srosr.SROSRClassifier,
    "version-2-rival": OpenMax,
    "version-2-table": srosr.SROSRClassifier,
    "version-2-pictures": srosr.SROSRClassifier,
    "version-3-srosr": srosr.SROSRClassifier,
    "version-4-srosr": srosr.SROSRClassifier,
    "version-4-split": srosr.SROSRClassifier,
}


def queries_for(clf, folder):
    """Return some digits as the classifier takes them: pixels added up by fours, or pictures."""
    pixels = load_digits().data[QUERIES]
    recipe = clf.feature_recipe_
    if recipe is not None and recipe.of_pictures:
        paths = [folder / f"{i}.png" for i in range(len(pixels))]
        for path, picture in zip(paths, pixels, strict=True):
            Image.fromarray((picture.reshape(8, 8) * 15).astype(np.uint8)).save(path)
        return paths
    X = pixels.reshape(-1, 4, 2, 4, 2).sum(axis=(2, 4)).reshape(-1, 16)
    return X if recipe is None else pd.DataFrame(X, columns=clf.feature_names_in_)


@pytest.mark.parametrize("name", KINDS)
def test_a_classifier_saved_by_an_earlier_version_predicts_what_it_did(name, tmp_path):
    clf = srosr.load(SAVED / f"{name}.safetensors")
    assert type(clf) is KINDS[name]
    X, expected = queries_for(clf, tmp_path), EXPECTED[name]
    np.testing.assert_allclose(clf.unknown_score(X), expected["unknown_score"], rtol=1e-9, atol=1e-12)
    assert clf.threshold_ == expected["threshold"]
    check_same_labels(clf.predict(X).astype(str), expected["labels"], expected["unknown_score"], expected["threshold"])
    assert len(set(expected["labels"])) > 1, "a test of one label only would show little"


@pytest.mark.parametrize("name", KINDS)
def test_a_classifier_saved_by_an_earlier_version_is_saved_again_with_the_same_content(name, tmp_path):
    path = SAVED / f"{name}.safetensors"
    srosr.load(path).save(tmp_path / "again")
    old, new = read_model(path), read_model(tmp_path / "again")
    assert new.version == FORMAT_VERSION and new.kind == old.kind and set(new.arrays) == set(old.arrays)
    for key, array in old.arrays.items():
        assert new.arrays[key].dtype == array.dtype, key
        np.testing.assert_array_equal(new.arrays[key], array, err_msg=key)
    missing = {key for key in old.settings if key not in new.settings}
    assert not missing
    assert {key: new.settings[key] for key in old.settings if key != "parameters"} == {
        key: value for key, value in old.settings.items() if key != "parameters"
    }


def test_what_a_saved_model_remembers_of_its_files_is_read():
    table = srosr.load(SAVED / "version-2-table.safetensors").feature_recipe_
    assert (table.kind, table.label, table.ignored) == ("table", "digit", ("id",))
    pictures = srosr.load(SAVED / "version-2-pictures.safetensors").feature_recipe_
    assert pictures.shape == (8, 8) and pictures.names[0] == "one/1.png" and pictures.thumbnails.shape == (8, 64, 64)
    assert srosr.load(SAVED / "version-1-srosr.safetensors").feature_recipe_ is None


def test_every_saved_classifier_is_tested_and_small():
    files = sorted(SAVED.glob("*.safetensors"))
    assert [file.stem for file in files] == sorted(KINDS) == sorted(EXPECTED)
    assert all(file.stat().st_size < 60_000 for file in files)
    versions = {file.read_bytes().split(b'"format_version":"')[1][:1] for file in files}
    assert versions == {b"1", b"2", b"3", b"4"}

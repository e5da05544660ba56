"""Data sets: what a set promises, what each loader returns against published facts, and users' own data."""

from __future__ import annotations

import bz2
import csv
import dataclasses
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

import srosr
from srosr.datasets import caltech as caltech_module
from srosr.datasets import letter as letter_module
from srosr.datasets import uiuc as uiuc_module
from srosr.datasets import usps as usps_module
from srosr.datasets import yaleb_orl_coil20 as cai_module
from srosr.datasets.dataset import Dataset, DatasetError
from srosr.datasets.registry import DATASETS, load_dataset
from srosr.datasets.user_data import list_pictures, read_dataset
from srosr.tables.formats import open_rows


@pytest.fixture(autouse=True)
def no_data_and_an_empty_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("SROSR_DATA_DIR", raising=False)
    monkeypatch.setenv("SROSR_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def real(monkeypatch, data_dir):
    """Load a set from local data, without the network."""
    monkeypatch.setenv("SROSR_DATA_DIR", str(data_dir))
    return lambda name, **options: load_dataset(name, download=False, **options)


@pytest.fixture
def only(monkeypatch, tmp_path):
    """Load a set from a folder that holds nothing but the given files."""

    def load(name, folder, *files, **options):
        own = tmp_path / "own"
        shutil.rmtree(own, ignore_errors=True)
        (own / folder).mkdir(parents=True)
        for file in files:
            (own / folder / file.name).symlink_to(file)
        monkeypatch.setenv("SROSR_DATA_DIR", str(own))
        return load_dataset(name, download=False, **options)

    return load


def tiny(X=((1.0, 2.0), (3.0, 4.0)), y=(0, 1), class_names=("a", "b"), part=None):
    return Dataset("tiny", np.array(X), np.array(y), class_names, "made up", part)


def picture_folder(root, classes):
    for name, files in classes.items():
        (root / name).mkdir(parents=True)
        for file in files:
            (root / name / file).write_bytes(b"not opened")
    return root


# A data set


def test_a_data_set_has_int64_classes_tuple_names_and_text_parts():
    data = Dataset("d", np.eye(2, dtype=np.uint8), np.array([1, 0], np.int8), np.array(["a", "b"]), "", ["x", "y"])
    assert data.X.dtype == np.uint8
    assert data.y.dtype == np.int64
    assert data.class_names == ("a", "b") and all(type(name) is str for name in data.class_names)
    assert data.part.dtype.kind == "U"
    assert not data.pictures
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((3, 2))}, "y must have one class number for each of the 3 samples"),
        ({"X": np.zeros((2, 0))}, "no features"),
        ({"X": np.zeros((0, 2)), "y": np.zeros(0, int)}, "no samples"),
        ({"X": np.zeros(2)}, "rows of numbers"),
        ({"X": np.zeros((2, 2, 2))}, "rows of numbers"),
        ({"X": np.array([[0.0, 1.0], [np.nan, 0.0]])}, "nan in row 1, column 0"),
        ({"X": np.array([[0.0, np.inf], [0.0, 0.0]])}, "inf in row 0, column 1"),
        ({"X": np.zeros((2, 2), complex)}, "complex"),
        ({"X": np.array([["a", "b"], ["c", "d"]])}, "numbers"),
        ({"X": np.array(["a.png", ""])}, "empty path"),
        ({"X": np.array(["a.png", 3], dtype=object)}, "paths of pictures"),
        ({"y": np.array([0, 2])}, "y contains 2, but with 2 class_names it must be within 0..1"),
        ({"y": np.array([-1, 0])}, "y contains -1"),
        ({"y": np.array([0.0, 1.0])}, "whole numbers"),
        ({"y": np.array([[0], [1]])}, r"its shape is \(2, 1\)"),
        ({"class_names": ("a", "a")}, "'a' more than once"),
        ({"class_names": ("a", 1)}, "must be str"),
        ({"class_names": ("a", "")}, "empty"),
        ({"class_names": "ab"}, "not one str"),
        ({"part": np.array(["train"])}, "part must have one name for each of the 2 samples"),
        ({"part": np.array([1, 2])}, "names of parts"),
        ({"name": 3}, "name must be a str"),
    ],
)
def test_an_inconsistent_data_set_raises_an_error_with_the_reason(change, message):
    fields = {"name": "d", "X": np.eye(2), "y": np.array([0, 1]), "class_names": ("a", "b"), "source": "", "part": None}
    with pytest.raises(ValueError, match=message):
        Dataset(**(fields | change))


def test_the_fingerprint_is_the_one_that_was_written_down():
    """A changed fingerprint would make every results folder, and every check of a download, stale."""
    expected = hashlib.sha256(
        b"srosr dataset 1"
        b"\nX <f8 (2, 2) 32\n" + np.array([1.0, 2.0, 3.0, 4.0], "<f8").tobytes() + b"\ny 16\n"
        b"\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\nclass 1\na\nclass 1\nb\npart 2\nx1\npart 2\nx2"
    )
    assert tiny(part=np.array(["x1", "x2"])).fingerprint() == expected.hexdigest()


@pytest.mark.parametrize("dtype", ["u1", "i2", "f2", "f4", "f8", "?"])
def test_the_fingerprint_does_not_depend_on_memory_layout_or_byte_order(dtype):
    X = np.arange(12).reshape(3, 4).astype(dtype)
    y, names = np.array([0, 1, 1]), ("a", "b")
    wide = np.zeros((6, 8), dtype)
    wide[::2, ::2] = X
    layouts = [np.asfortranarray(X), wide[::2, ::2], X.astype(X.dtype.newbyteorder(">")), X[::-1].copy()[::-1]]
    expected = Dataset("a", X, y, names, "one source").fingerprint()
    for same in layouts:
        assert Dataset("b", same, y.astype(">i2"), list(names), "another").fingerprint() == expected


def test_the_fingerprint_changes_with_all_that_counts():
    base = tiny()
    others = [
        tiny(X=[[1.0, 2.0], [3.0, 4.5]]),
        tiny(X=np.array([[1, 2], [3, 4]], np.float32)),
        tiny(X=[[1.0], [2.0]]),
        tiny(y=[1, 0]),
        tiny(class_names=("a", "c")),
        tiny(class_names=("a", "b", "c")),
        tiny(part=["train", "test"]),
        tiny(part=["traint", "est"]),
    ]
    prints = [data.fingerprint() for data in (base, *others)]
    assert len(set(prints)) == len(prints)


def test_the_fingerprint_of_pictures_goes_with_the_folder_and_sees_names_and_sizes(tmp_path):
    first = picture_folder(tmp_path / "here" / "set", {"cat": ["1.png", "2.png"], "dog": ["1.png"]})
    second = tmp_path / "elsewhere" / "renamed"
    shutil.copytree(first, second)
    data = read_dataset(first)
    assert data.pictures and data.X.shape == (3,)
    assert read_dataset(second).fingerprint() == data.fingerprint()
    (second / "dog" / "1.png").write_bytes(b"more bytes than before")
    assert read_dataset(second).fingerprint() != data.fingerprint()
    (second / "dog" / "1.png").unlink()
    (second / "dog" / "9.png").write_bytes(b"not opened")
    assert read_dataset(second).fingerprint() != data.fingerprint()
    (first / "dog" / "1.png").unlink()
    with pytest.raises(DatasetError, match=r"1\.png cannot be read"):
        data.fingerprint()


def test_a_data_set_shows_what_it_is_in_a_line():
    assert repr(tiny(part=["train", "test"])) == "<Dataset tiny: 2 × 2 float64, 2 classes, parts train, test>"


# Folders of pictures


def test_pictures_are_listed_by_class_and_everything_else_is_passed_over(tmp_path):
    folder = picture_folder(
        tmp_path / "set",
        {
            "b": ["2.JPG", "10.jpeg", "notes.txt", ".hidden.png", "RENAME2"],
            "a": ["x.pgm"],
            "empty": [],
            "text": ["readme.txt"],
            ".git": ["y.png"],
        },
    )
    (folder / "stray.png").write_bytes(b"")
    (folder / "a" / "greg").mkdir()
    (folder / "a" / "greg" / "z.png").write_bytes(b"")
    (folder / "a" / "folder.png").mkdir()
    paths, y, names = list_pictures(folder)
    assert [str(path.relative_to(folder)) for path in paths] == ["a/x.pgm", "b/10.jpeg", "b/2.JPG"]
    assert y.tolist() == [0, 1, 1] and y.dtype == np.int64
    assert names == ("a", "b")


def test_a_folder_without_pictures_raises_an_error(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        list_pictures(tmp_path / "absent")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is not a folder"):
        list_pictures(tmp_path / "file")
    with pytest.raises(ValueError, match="has no pictures"):
        list_pictures(tmp_path)


# Loaders


def test_digits_come_with_scikit_learn():
    data = load_dataset("digits")
    assert data.X.shape == (1797, 64) and data.X.dtype == np.uint8 and data.X.max() == 16
    assert np.bincount(data.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert data.class_names == tuple("0123456789")


def test_mnist_is_the_published_one(real):
    data = real("mnist")
    assert data.X.shape == (70000, 784) and data.X.dtype == np.uint8
    train = data.part == "train"
    assert data.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.y[60000:60005].tolist() == [7, 2, 1, 0, 4]
    assert np.bincount(data.y[train]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.y[~train]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert round(float(data.X[:60000].mean() / 255), 4) == 0.1307  # the mean that is usually subtracted


def test_yaleb_is_the_file_of_the_papers_authors(real, data_dir):
    digest = hashlib.sha256((data_dir / "yaleb" / "yaleb3232.mat").read_bytes()).hexdigest()
    assert digest == "3fbbda4eb781b9bb28025189677b6727706e114eb0215bbfd718f1f4fcb54b99"
    data = real("yaleb")
    file = scipy.io.loadmat(data_dir / "yaleb" / "yaleb3232.mat")
    assert np.array_equal(data.X, file["fea"]) and data.X.dtype == np.uint8
    assert np.array_equal(data.y + 1, file["gnd"].ravel())
    counts = np.bincount(data.y)
    assert len(counts) == 38 and counts.min() == 59 and counts.max() == 64
    assert data.class_names[0] == "1" and data.class_names[37] == "38"


def test_uiuc_has_the_published_counts(real):
    data = real("uiuc")
    assert data.X.shape == (15339, 64) and set(np.unique(data.X)) == {0, 1}
    names, counts = np.unique(data.part, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "apascal_train": 6340,
        "apascal_test": 6355,
        "ayahoo_test": 2644,
    }
    assert np.count_nonzero(~data.X.any(axis=1)) == 989
    assert len(np.unique(data.X, axis=0)) == 4252
    assert [data.class_names[c] for c in data.y[:2]] == ["horse", "person"]
    assert set(data.y[data.part == "ayahoo_test"]) == set(range(20, 32))


def test_uiuc_is_the_same_from_text_archive_and_npz(only, data_dir, tmp_path):
    home = data_dir / "uiuc_attributes"
    text = [home / f"{part}.txt" for part in ("apascal_train", "apascal_test", "ayahoo_test")]
    archive = tmp_path / "attribute_data.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(home / "README", "attribute_data/README")
        for path in text:
            tar.add(path, f"attribute_data/{path.name}")
    sets = [
        only("uiuc", "uiuc_attributes", home / "uiuc_attributes.npz"),
        only("uiuc", "uiuc_attributes", *text),
        only("uiuc", "uiuc_attributes", archive),
    ]
    for data in sets[1:]:
        assert np.array_equal(data.X, sets[0].X) and np.array_equal(data.y, sets[0].y)
        assert np.array_equal(data.part, sets[0].part)
    with np.load(home / "uiuc_attributes.npz", allow_pickle=False) as file:
        assert sets[0].class_names == tuple(file["class_names"])


def test_uiuc_text_without_one_of_its_files_raises_an_error(only, data_dir):
    home = data_dir / "uiuc_attributes"
    with pytest.raises(DatasetError, match=r"uiuc: .*apascal_train\.txt cannot be used: .*apascal_test\.txt"):
        only("uiuc", "uiuc_attributes", home / "apascal_train.txt")


def test_letter_is_the_published_one_from_text_and_npz(only, data_dir):
    text = only("letter", "letter", data_dir / "letter" / "letter-recognition.data")
    npz = only("letter", "letter", data_dir / "letter" / "letter.npz")
    assert np.array_equal(text.X, npz.X) and np.array_equal(text.y, npz.y)
    assert text.X.shape == (20000, 16) and text.X.dtype == np.uint8
    assert text.class_names[text.y[0]] == "T"
    assert text.X[0].tolist() == [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8]
    # Class distribution of letter-recognition.names.
    assert np.bincount(text.y).tolist() == [
        789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792,
        783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734,
    ]  # fmt: skip


def test_the_usps_split_has_the_published_counts_and_pictures(real):
    data = real("usps")
    train = data.part == "train"
    assert data.X.shape == (9298, 256) and data.X.dtype == np.float32
    assert data.X.min() == 0 and data.X.max() == 1
    assert np.bincount(data.y[train]).tolist() == [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert np.bincount(data.y[~train]).tolist() == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    # The uppermost line of pixels of the first sample of zip.test, a nine, and of the third, a three.
    nine = [-1, -1, -1, -1, -1, -0.948, -0.561, 0.148, 0.384, 0.904, 0.29, -0.782, -1, -1, -1, -1]
    three = [-1, -1, -1, -0.593, 0.7, 1, 1, 1, 1, 0.853, 0.075, -0.925, -1, -1, -1, -1]
    for line, digit in ((nine, 9), (three, 3)):
        (row,) = np.flatnonzero(np.isclose(2 * data.X[:, :16] - 1, line, atol=1e-6).all(axis=1))
        assert data.y[row] == digit and data.part[row] == "test"


def test_the_usps_split_is_the_same_from_libsvm_files_whatever_their_order(real, only, data_dir, tmp_path, monkeypatch):
    """libsvm's files are not available here, so they are rewritten from local data, shuffled."""
    full = real("usps")
    some = slice(None, None, 10)
    expected = dataclasses.replace(full, X=full.X[some], y=full.y[some], part=full.part[some])
    rng = np.random.default_rng(0)
    values = np.round(2 * expected.X.astype(float) - 1, 3)
    paths = []
    for constant, part in (("TRAIN_FILE", "train"), ("TEST_FILE", "test")):
        file = getattr(usps_module, constant)
        lines = []
        for row in rng.permutation(np.flatnonzero(expected.part == part)):
            # A zero may be left out in this format.
            pixels = " ".join(f"{k}:{v:g}" for k, v in enumerate(values[row], 1) if v != 0)
            lines.append(f"{expected.y[row] + 1} {pixels}\n")
        path = tmp_path / file.name
        path.write_bytes(bz2.compress("".join(lines).encode(), 1))
        paths.append(path)
        checksum = f"md5:{hashlib.md5(path.read_bytes()).hexdigest()}"
        monkeypatch.setattr(usps_module, constant, dataclasses.replace(file, names={file.name: checksum}))
    found = only("usps", "usps", *paths)
    assert np.array_equal(found.X, expected.X)
    assert found.fingerprint() == expected.fingerprint()


def test_the_checksums_of_usps_are_those_torchvision_publishes():
    assert list(usps_module.TRAIN_FILE.names.values()) == ["md5:ec16c51db3855ca6c91edd34d0e9b197"]
    assert list(usps_module.TEST_FILE.names.values()) == ["md5:8ea070ee2aca1ac39742fdd1ef5ed118"]


def test_all_of_usps_has_1100_of_each_digit_from_matlab_and_npz(real, only, tmp_path):
    data = real("usps-all")
    assert data.X.shape == (11000, 256) and data.X.dtype == np.uint8
    assert (np.bincount(data.y) == 1100).all()
    # data(:, i, d) is sample i of digit d = 1, ..., 9, 0.
    cube = np.empty((256, 1100, 10), np.uint8)
    for place, digit in enumerate([1, 2, 3, 4, 5, 6, 7, 8, 9, 0]):
        cube[:, :, place] = data.X[data.y == digit].T
    scipy.io.savemat(tmp_path / "usps_all.mat", {"data": cube})
    again = only("usps-all", "usps", tmp_path / "usps_all.mat")
    assert np.array_equal(again.X, data.X) and np.array_equal(again.y, data.y)


@pytest.mark.parametrize(("name", "n_classes", "each"), [("coil20", 20, 72), ("orl", 40, 10)])
def test_coil_and_orl_are_the_same_from_matlab_and_npz(real, only, tmp_path, name, n_classes, each):
    data = real(name)
    assert data.X.shape == (n_classes * each, 1024)
    assert (np.bincount(data.y) == each).all() and len(data.class_names) == n_classes
    # D. Cai's files have floating point numbers, COIL-20 within 0..1 (16 pixels made one); classes from 1.
    exact = np.round(data.X.astype(float) * 4080) / 4080 if name == "coil20" else data.X.astype(float)
    path = tmp_path / getattr(cai_module, f"{name.upper()}_FILE").name
    scipy.io.savemat(path, {"fea": exact, "gnd": (data.y + 1.0)[:, None]})
    again = only(name, name, path)
    assert np.array_equal(again.X, data.X) and again.X.dtype == data.X.dtype
    assert np.array_equal(again.y, data.y)


def test_caltech101_pyramids_follow_the_formula(real, data_dir):
    data = real("caltech101")
    assert data.X.shape == (9144, 4200) and data.X.dtype == np.float32
    names = np.array(data.class_names)
    assert len(names) == 102
    counts = dict(zip(data.class_names, np.bincount(data.y).tolist(), strict=True))
    assert [counts[name] for name in ("Faces", "Motorbikes", "airplanes", "inline_skate")] == [435, 798, 800, 31]
    assert np.count_nonzero(data.y != data.class_names.index("BACKGROUND_Google")) == 8677
    with np.load(next((data_dir / "caltech101").glob("*.npz")), allow_pickle=False) as file:
        words = file["counts"]
    for row in (0, 1023, 1024, 9143):
        grid = words[row].reshape(4, 4, 200).astype(float)
        whole = [0.25 * grid.sum(axis=(0, 1))]
        quarters = [0.25 * grid[r : r + 2, c : c + 2].sum(axis=(0, 1)) for r in (0, 2) for c in (0, 2)]
        cells = [0.5 * grid[r, c] for r in range(4) for c in range(4)]
        pyramid = np.concatenate(whole + quarters + cells)
        assert np.allclose(data.X[row], np.sqrt(pyramid / pyramid.sum()), atol=1e-7)


def test_caltech256_embeddings_are_those_of_all_257_classes(real):
    data = real("caltech256-clip")
    assert data.X.shape == (7556, 512) and data.X.dtype == np.float32
    counts = np.bincount(data.y)
    assert len(counts) == len(data.class_names) == 257 and counts.min() == 20 and counts.max() == 206
    assert data.class_names[0] == "001.ak47" and data.class_names[256] == "257.clutter"
    assert set(data.part) == {"validation", "test"}


def test_caltech101_pictures_are_taken_from_a_folder_at_hand(real):
    data = real("caltech101-pictures")
    assert data.pictures and len(data.X) == 960 and len(data.class_names) == 24
    assert (np.bincount(data.y) == 40).all()
    assert all(name in path.split("/") for path, name in zip(data.X, np.array(data.class_names)[data.y], strict=True))


# Names


def test_every_name_has_a_loader_and_a_set_says_its_name(real):
    for name in DATASETS:
        if name not in ("digits", "caltech256"):
            assert real(name).name == name
    assert load_dataset("digits").name == "digits"


def test_every_loader_is_exported():
    for loader in DATASETS.values():
        function = getattr(loader, "func", loader)
        assert getattr(srosr, function.__name__) is function


def test_a_wrong_name_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"'mnits' \(did you mean 'mnist'\?\)"):
        load_dataset("mnits")
    with pytest.raises(ValueError, match=r"did you mean 'yaleb'\?"):
        load_dataset("YaleB")
    with pytest.raises(ValueError, match=r"there is no data set 'qqq'; choose digits"):
        load_dataset("qqq")


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="variant must be"):
        load_dataset("usps", variant="half")
    with pytest.raises(ValueError, match="features must be"):
        load_dataset("caltech256", features="sift")


# Users' own data


def write_npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_own_npz_is_read_with_and_without_class_names(tmp_path):
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    named = read_dataset(
        write_npz(tmp_path / "a.npz", X=X, y=[1, 0, 1], class_names=["no", "yes"], part=["train", "train", "test"])
    )
    assert named.name == "a" and named.class_names == ("no", "yes") and named.y.tolist() == [1, 0, 1]
    assert named.X.dtype == np.float32 and named.part.tolist() == ["train", "train", "test"]
    words = read_dataset(write_npz(tmp_path / "b.npz", X=X, y=["dog", "cat", "dog"]))
    assert words.class_names == ("cat", "dog") and words.y.tolist() == [1, 0, 1] and words.part is None
    numbers = read_dataset(write_npz(tmp_path / "c.npz", X=X, y=[10, -2, 9]))
    assert numbers.class_names == ("-2", "9", "10") and numbers.y.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(2)}, "no array y; its arrays: X"),
        ({"y": [0, 1]}, "no array X"),
        ({"X": np.eye(2), "y": [0.5, 1.5]}, "names or whole numbers"),
        ({"X": np.eye(2), "y": [0, 1, 1]}, "one class number for each of the 2 samples"),
        ({"X": np.eye(2) * np.nan, "y": [0, 1]}, "nan in row 0"),
        ({"X": np.eye(2), "y": [0, 5], "class_names": ["a", "b"]}, "y contains 5"),
        ({"X": np.array([[{}, {}]]), "y": [0]}, "pickled objects"),
    ],
)
def test_a_users_npz_file_of_another_form_raises_an_error_with_the_reason(tmp_path, arrays, message):
    path = write_npz(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DatasetError, match=rf"bad\.npz cannot be used: .*{message}"):
        read_dataset(path)


def test_own_csv_is_read_by_the_names_of_its_columns(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text('\ufeffw, Class,h,part\r\n1,"dog, big",2,train\r\n\r\n3,cat,1e-3,test\r\n', encoding="utf-8")
    data = read_dataset(path)
    assert data.name == "pets" and data.class_names == ("cat", "dog, big")
    assert data.X.tolist() == [[1.0, 2.0], [3.0, 0.001]] and data.y.tolist() == [1, 0]
    assert data.part.tolist() == ["train", "test"]


@pytest.mark.parametrize("name", ["label", "Labels", "class", "target", "y"])
def test_own_csv_has_its_classes_where_fit_finds_them(tmp_path, name):
    path = tmp_path / "mine.csv"
    path.write_text(f"{name},a,b\n3,1,2\n5,3,4\n3,5,6\n")
    by_fit = open_rows(path, labels="required").read()
    data = read_dataset(path)
    assert [data.class_names[k] for k in data.y] == [str(label) for label in by_fit.labels] == ["3", "5", "3"]
    np.testing.assert_array_equal(data.X, by_fit.X)


def test_the_last_column_of_own_csv_has_the_classes_where_none_is_named_so(tmp_path):
    path = tmp_path / "iris.csv"
    path.write_text("a,b,species\n1,2,10\n3,4,9\n")
    data = read_dataset(path)
    assert data.class_names == ("9", "10") and data.y.tolist() == [1, 0] and data.X.shape == (2, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("a,b\n", "a header, but no rows"),
        ("a;b;label\n1;two;x\n", "'two' in line 2, column 'b', which is not a number"),
        ("a\n1\n", "no column called label"),
        ("1,2,3\n4,5,6\n", "only numbers"),
        ("a,label\n1,x\n2\n", "1 value in line 3, but 2 names in its header"),
        ("a,b,label\n1,2,x\n1,two,x\n", "'two' in line 3, column 'b', .* the column 'label'"),
        (
            "a,kind,b\n1,cat,2\n2,dog,few\n",
            "'cat' in line 2, column 'kind', .*the classes were read from the column 'b'",
        ),
        ("a,b,label\n1,,x\n", "no value in line 2, column 'b'"),
        ("a,label\n1,\n", "sample 1 has no class in the column 'label'"),
        ("a,label,class\n1,x,y\n", "label and class may all be meant"),
        ("a,label\nnan,x\n", "no value in line 2, column 'a'"),
        ("a,label\ninf,x\n", "infinite value in line 2, column 'a'"),
        ("part,label\ntrain,x\n", "no columns of numbers"),
        ('a,label\n1,"x\n', "quote in line 2 that is never closed"),
    ],
)
def test_a_users_csv_file_of_another_form_raises_an_error_with_the_reason(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DatasetError, match=rf"(?s)bad\.csv cannot be used: .*{message}") as raised:
        read_dataset(path)
    assert "--" not in str(raised.value), "options of the command line are of no use here"


def read_csv_plainly(text):
    """Read user data as before tables had one reader: by Python's csv and float alone."""
    lines = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    header = [name.strip() for name in next(lines)]
    small = [name.lower() for name in header]
    part = small.index("part") if "part" in small else None
    places = [place for place, name in enumerate(small) if name in ("label", "labels", "class", "target", "y")]
    label = places[0] if places else max(place for place in range(len(header)) if place != part)
    rows = [cells for cells in lines if cells]
    features = [place for place in range(len(header)) if place not in (label, part)]
    X = [[float(cells[place]) for place in features] for cells in rows]
    labels = [cells[label].strip() for cells in rows]
    return X, labels, None if part is None else [cells[part].strip() for cells in rows]


NAMES = st.lists(
    st.sampled_from(["a", "b", "b ", "", "400", "1", "part", "weight", "x;y", "x|y", 'say "b"', "é", "Species", "a,b"]),
    min_size=2,
    max_size=5,
).filter(lambda names: names.count("part") <= 1 and sum(name != "part" for name in names) > 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(["1", " +2", "3. ", ".5", "1E3"])
LABELS = st.sampled_from(
    ["cat", "dog, big", "NA", "?", "1", "1.0", "2.5", "-3", "007", 'a "b"', "two\nlines", "é ", "字"]
)
LAYOUTS = [("\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_MINIMAL), ("\n", csv.QUOTE_ALL), ("\r", csv.QUOTE_ALL)]


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data(), names=NAMES, label=st.sampled_from([None, "label", "Labels", "Class", "target", "y"]))
def test_own_csv_that_was_readable_before_gives_the_same_samples_and_classes(tmp_path_factory, data, names, label):
    """Whatever the columns are called: blank, a number, twice the same; whatever the classes look like."""
    if label is not None:
        names = data.draw(st.permutations([*names, label]))
    target = names.index(label) if label is not None else max(i for i in range(len(names)) if names[i] != "part")
    cells = [LABELS if place == target or name == "part" else NUMBERS for place, name in enumerate(names)]
    rows = data.draw(st.lists(st.tuples(*cells), min_size=1, max_size=6))
    text = io.StringIO(data.draw(st.sampled_from(["", "\ufeff"])), newline="")
    text.seek(0, io.SEEK_END)
    end, quoting = data.draw(st.sampled_from(LAYOUTS))
    csv.writer(text, lineterminator=end, quoting=quoting).writerows([names, *rows])
    if all(name.strip().isdecimal() for name in names):
        return  # was no header
    X, labels, parts = read_csv_plainly(text.getvalue())
    path = tmp_path_factory.mktemp("own") / "own.csv"
    path.write_bytes(text.getvalue().encode())
    found = read_dataset(path)
    assert np.array_equal(found.X, np.array(X)) and found.X.dtype == np.float64
    assert [found.class_names[k] for k in found.y] == labels
    assert (None if found.part is None else found.part.tolist()) == parts
    assert found.class_names == tuple(sorted(set(labels), key=int if all(map(is_whole, labels)) else str))


def is_whole(text):
    return text.removeprefix("-").isdecimal()


TABLE = {"width": [1.5, 2.5, 3.0, 4.0], "species": ["cat", "dog", "cat", "eel"], "height": [2.0, 3.0, 4.0, 5.0]}


def write_table(path, table):
    frame = pd.DataFrame(table)
    small = path.name
    if small.endswith(".parquet"):
        frame.to_parquet(path)
    elif small.endswith(".npz"):
        np.savez(path, X=frame[["width", "height"]].to_numpy(), target=frame["species"].to_numpy(str))
    elif small.endswith(".mat"):
        codes = pd.factorize(frame["species"])[0] + 1.0
        scipy.io.savemat(path, {"X": frame[["width", "height"]].to_numpy(), "labels": codes})
    else:
        frame.to_csv(path, index=False, sep={"csv": ";", "tsv": "\t", "txt": "|"}[small.split(".")[1]])
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.csv.gz", "a.parquet", "a.npz", "a.mat"])
def test_own_data_in_every_format_that_fit_reads_are_read_with_the_same_samples(tmp_path, name):
    path = write_table(tmp_path / name, TABLE)
    found = read_dataset(path)
    rows = open_rows(path, labels="required").read()
    assert np.array_equal(found.X, rows.X) and found.X.tolist()[1] == [2.5, 3.0]
    assert [found.class_names[k] for k in found.y] == rows.labels.tolist()
    assert found.class_names == (("1", "2", "3") if name.endswith(".mat") else ("cat", "dog", "eel"))
    assert found.name == "a" and found.part is None
    assert found.source.startswith(f"read from {name}, classes from its ")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_the_parts_of_own_data_are_read_whatever_the_format(tmp_path, name):
    path = write_table(tmp_path / name, TABLE | {"part": ["train", "train", "test", "test"]})
    found = read_dataset(path)
    assert found.part.tolist() == ["train", "train", "test", "test"] and found.X.shape == (4, 2)
    assert found.class_names == ("cat", "dog", "eel")


def test_a_column_of_text_that_is_not_the_last_has_the_classes(tmp_path):
    (tmp_path / "a.csv").write_text("a,kind,b\n1,cat,2\n3,dog,4\n")
    found = read_dataset(tmp_path / "a.csv")
    assert found.class_names == ("cat", "dog") and found.X.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_own_csv_says_which_column_has_the_classes(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    assert read_dataset(path).source == "read from mine.csv, classes from its column 'b'"


def test_a_folder_of_pictures_is_own_data_and_other_files_are_not(tmp_path, monkeypatch):
    picture_folder(tmp_path / "zoo", {"cat": ["1.png"], "dog": ["1.png", "2.png"]})
    monkeypatch.chdir(tmp_path)
    data = read_dataset("zoo")
    assert data.name == "zoo" and data.class_names == ("cat", "dog") and data.y.tolist() == [0, 1, 1]
    assert data.X[0] == str(tmp_path / "zoo" / "cat" / "1.png")
    with pytest.raises(DatasetError, match="does not exist"):
        read_dataset(tmp_path / "absent.csv")
    (tmp_path / "data.xlsx").write_bytes(b"x")
    with pytest.raises(DatasetError, match="an unknown suffix"):
        read_dataset(tmp_path / "data.xlsx")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="has no pictures"):
        read_dataset(tmp_path / "empty")


def corrupt(content: bytes, cut: int, changes: list[tuple[int, int]]) -> bytes:
    """Return the content with some bytes changed, truncated."""
    raw = bytearray(content)
    for place, value in changes:
        raw[place % len(raw)] = value
    return bytes(raw[: len(raw) - cut % (len(raw) + 1)])


CHANGES = st.tuples(st.integers(0, 400), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6))


@settings(max_examples=examples(150), deadline=None)
@given(changes=CHANGES, kind=st.sampled_from(["npz", "csv"]))
def test_a_corrupted_users_file_is_read_or_raises_a_dataset_error(tmp_path_factory, changes, kind):
    stream = io.BytesIO()
    np.savez(stream, X=np.eye(3), y=np.arange(3))
    whole = stream.getvalue() if kind == "npz" else b"a,b,label\n1,2,x\n3.5,-4,y\n1e9,0,x\n"
    path = tmp_path_factory.mktemp("corrupted") / f"own.{kind}"
    path.write_bytes(corrupt(whole, *changes))
    try:
        assert len(read_dataset(path).X) >= 1
    except DatasetError as error:
        assert f"own.{kind}" in str(error)


@settings(max_examples=examples(100), deadline=None)
@given(content=st.binary(max_size=200) | st.text(max_size=80).map(lambda text: f"a,label\n{text}".encode()))
def test_garbage_is_never_own_data_by_accident(tmp_path_factory, content):
    for kind in ("npz", "csv"):
        path = tmp_path_factory.mktemp("garbage") / f"own.{kind}"
        path.write_bytes(content)
        try:
            data = read_dataset(path)
        except DatasetError as error:
            assert f"own.{kind}" in str(error)
        else:
            assert kind == "csv" and np.isfinite(data.X).all()


# The page


def test_the_page_has_two_lines_for_each_set_with_the_files_that_are_looked_for():
    text = (Path(__file__).resolve().parents[1] / "docs" / "datasets.md").read_text()
    for name in DATASETS:
        assert len(re.findall(rf"^\| `{name}` \|", text, re.MULTILINE)) == 2, name
    files = [
        cai_module.YALEB_FILE, cai_module.COIL20_FILE, cai_module.ORL_FILE, caltech_module.COUNTS_FILE,
        caltech_module.CLIP_FILE, caltech_module.PICTURES_101, caltech_module.PICTURES_256, letter_module.FILE,
        uiuc_module.FILE, usps_module.SPLIT_FILE, usps_module.TRAIN_FILE, usps_module.TEST_FILE, usps_module.ALL_FILE,
    ]  # fmt: skip
    for file in files:
        for name in file.names:
            assert f"{name}`" in text, name


@pytest.mark.slow
def test_the_python_of_the_page_runs_as_printed(tmp_path):
    text = (Path(__file__).resolve().parents[1] / "docs" / "datasets.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, timeout=300, check=True)

"""The command discover, and classes that add-class makes of its groups."""

from __future__ import annotations

import json
import re
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from command_runs import error_of as error_of_command
from command_runs import right
from PIL import Image
from same import check_same
from sklearn.datasets import load_digits

import srosr

UNKNOWN = (6, 7)

#: Every sentence ends with a period here.
error_of = partial(error_of_command, ends=".")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a model of four digits, new digits of them and two others, and held-back digits."""
    folder = tmp_path_factory.mktemp("digits")
    X, y = load_digits(return_X_y=True)
    table = pd.DataFrame(X, columns=[f"p{j}" for j in range(64)])
    table["digit"] = [f"d{label}" for label in y]
    rows = np.random.default_rng(0).permutation(len(y))
    known = rows[np.isin(y[rows], (0, 1, 2, 3))]
    other = rows[np.isin(y[rows], UNKNOWN)]
    table.iloc[known[:240]].to_csv(folder / "train.csv", index=False)
    table.iloc[np.concatenate([known[240:320], other[:220]])].to_csv(folder / "new.csv", index=False)
    table.iloc[other[220:]].to_csv(folder / "later.csv", index=False)
    right("fit", folder / "train.csv", "--label", "digit", "-o", folder / "model.srosr", "--jobs", 1, "-q")
    right("discover", folder / "model.srosr", folder / "new.csv", "-o", folder / "found.json", "--jobs", 1, "-q")
    return folder


class PageReader(HTMLParser):
    """Collects tags, ids and pictures, and checks that elements are closed in order."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.pictures = [], [], 0
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        assert tag != "script" and not found.get("src", "data:").startswith("http")
        self.pictures += tag == "img"
        self.ids += [found["id"]] if "id" in found else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_it_prints_a_line_for_each_group_and_writes_a_discovery(folder):
    found = srosr.Discovery.load(folder / "found.json")
    shown = right("discover", folder / "model.srosr", folder / "new.csv", "--jobs", 1)
    assert shown.splitlines()[0] == found.text.splitlines()[0]
    lines = [line.split() for line in shown.splitlines()[2:]]
    assert [(int(line[0]), int(line[1])) for line in lines] == [(g.number, g.size) for g in found.groups]
    truth = pd.read_csv(folder / "new.csv")["digit"]
    # Both unknown digits are found: each is most of some tight group.
    majorities = {truth[g.rows].mode()[0] for g in found.groups if g.is_tight}
    assert {f"d{digit}" for digit in UNKNOWN} <= majorities


def test_json_is_the_discovery(folder, tmp_path):
    arguments = ("discover", folder / "model.srosr", folder / "new.csv", "--jobs", 1, "--json")
    shown = json.loads(right(*arguments, "-o", tmp_path / "d.json"))
    assert shown.pop("files") == [str(tmp_path / "d.json")]
    check_same(shown, srosr.Discovery.load(folder / "found.json").to_dict())
    python = srosr.load(folder / "model.srosr").decide(pd.read_csv(folder / "new.csv").drop(columns="digit"))
    assert sum(len(g["rows"]) for g in shown["groups"]) + len(shown["noise"]) == python.rejected.sum()


def test_a_class_made_of_a_group_is_recognized_later(folder, tmp_path):
    found = srosr.Discovery.load(folder / "found.json")
    truth, later = (pd.read_csv(folder / f"{name}.csv")["digit"] for name in ("new", "later"))
    model = folder / "model.srosr"
    # One class after the other, from the same discovery; the model of the second knows the first.
    for digit in UNKNOWN:
        group = next(g for g in found.groups if truth[g.rows].mode()[0] == f"d{digit}")
        wrong = [row for row in group.rows.tolist() if truth[row] != f"d{digit}"]
        left_out = [word for row in wrong for word in ("--without", row)]
        shown = right(
            "add-class", model, folder / "new.csv", "--from-discovery", folder / "found.json", "--group", group.number,
            "--name", f"d{digit}", "-o", tmp_path / f"{digit}.srosr", *left_out,
        )  # fmt: skip
        assert f"d{digit} {group.size - len(wrong)}" in shown
        model = tmp_path / f"{digit}.srosr"
    answers = srosr.load(model).predict(pd.read_csv(folder / "later.csv").drop(columns="digit"))
    assert np.mean(answers == later) > 0.85
    before = srosr.load(folder / "model.srosr").predict(pd.read_csv(folder / "later.csv").drop(columns="digit"))
    assert np.mean(before == "unknown") > 0.9


def test_the_page_shows_pictures_of_pixel_rows(folder, tmp_path):
    arguments = ("discover", folder / "model.srosr", folder / "new.csv", "--jobs", 1, "--page", tmp_path / "p.html")
    right(*arguments, "--picture-shape", "8x8", "-o", tmp_path / "d.json")
    found = srosr.Discovery.load(tmp_path / "d.json")
    text = (tmp_path / "p.html").read_text()
    page = PageReader(text)
    assert page.pictures == sum(len(g.typical) for g in found.groups)
    assert [i for i in page.ids if i.startswith("group-")] == [f"group-{g.number}" for g in found.groups]
    assert f"--from-discovery {tmp_path / 'd.json'} --group 0 --name LABEL" in text


def test_the_page_shows_features_where_there_are_no_pictures(folder, tmp_path):
    right("discover", folder / "model.srosr", folder / "new.csv", "--jobs", 1, "--page", tmp_path / "p.html", "-q")
    text = (tmp_path / "p.html").read_text()
    assert PageReader(text).pictures == 0 and "add-class" not in text
    assert re.search(r"<span>p\d+</span>", text) and "Most typical rows:" in text


def test_features_on_the_page_have_the_units_of_the_file(folder, tmp_path):
    right("fit", folder / "train.csv", "--label", "digit", "--standardize", "-o", tmp_path / "m.srosr", "-q")
    right(
        "discover", tmp_path / "m.srosr", folder / "new.csv", "-o", tmp_path / "d.json", "--page", tmp_path / "p.html"
    )
    found, table = srosr.Discovery.load(tmp_path / "d.json"), pd.read_csv(folder / "new.csv")
    cells = re.search(r"<span>(p\d+)</span></th><td>([^<]*)</td>", (tmp_path / "p.html").read_text())
    expected = table[cells.group(1)][found.groups[0].rows].mean()
    assert float(cells.group(2).replace("−", "-")) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_rows_left_out_keep_the_numbers_of_the_others(folder, tmp_path):
    table = pd.read_csv(folder / "new.csv")
    gaps = pd.concat([table.iloc[:5].assign(p3=np.nan), table, table.iloc[:2].assign(p3=np.nan)])
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    common = (folder / "model.srosr", tmp_path / "gaps.csv", "--drop-missing")
    right("discover", *common, "-o", tmp_path / "d.json", "-q")
    whole, found = srosr.Discovery.load(folder / "found.json"), srosr.Discovery.load(tmp_path / "d.json")
    np.testing.assert_array_equal(found.labels, [-2] * 5 + whole.labels.tolist() + [-2] * 2)
    shown = right(
        "add-class", *common, "--from-discovery", tmp_path / "d.json", "--group", 0, "--name", "new", "-o",
        tmp_path / "m.srosr", "--json",
    )  # fmt: skip
    clf = srosr.load(tmp_path / "m.srosr")
    added = clf.dictionary_.rows[clf.dictionary_.labels == "new"]
    expected = table.drop(columns="digit").to_numpy(dtype=float)[whole.groups[0].rows]
    np.testing.assert_allclose(np.sort(added, axis=0), np.sort(expected / np.linalg.norm(expected, axis=1)[:, None], 0))
    assert "new" in json.loads(shown)["classes"]


def test_all_groups_accepted_rows_too(folder):
    arguments = ("discover", folder / "model.srosr", folder / "new.csv", "--jobs", 1, "--json", "--all")
    shown = json.loads(right(*arguments))
    assert sum(g["size"] for g in shown["groups"]) + len(shown["noise"]) == 300


def test_pictures_are_grouped_and_shown(tmp_path):
    X, y = load_digits(return_X_y=True)
    for name, digits, most in (("train", (0, 1, 3), 25), ("new", (6, 7), 40)):
        for digit in digits:
            (tmp_path / name / f"d{digit}").mkdir(parents=True)
            for i, row in enumerate(X[y == digit][:most]):
                picture = Image.fromarray(np.round(255 / 16 * row.reshape(8, 8)).astype(np.uint8))
                picture.save(tmp_path / name / f"d{digit}" / f"{i}.png")
    model = tmp_path / "m.srosr"
    right("fit", tmp_path / "train", "--features", "pixels", "-o", model, "-q")
    right("discover", model, tmp_path / "new", "-o", tmp_path / "d.json", "--page", tmp_path / "p.html", "-q")
    found = srosr.Discovery.load(tmp_path / "d.json")
    text = (tmp_path / "p.html").read_text()
    assert PageReader(text).pictures == sum(len(g.typical) for g in found.groups) > 0 and "d6/" in text
    right(
        "add-class", model, tmp_path / "new", "--from-discovery", tmp_path / "d.json", "--group", 0, "--name", "six",
        "-o", tmp_path / "larger.srosr",
    )  # fmt: skip
    recipe = srosr.load(tmp_path / "larger.srosr").feature_recipe_
    assert sum(name.startswith("six/d") for name in recipe.names) == found.groups[0].size


# Bad input


def test_too_few_rejected_rows_are_one_sentence(folder, tmp_path):
    table = pd.read_csv(folder / "later.csv")
    table.iloc[:3].to_csv(tmp_path / "three.csv", index=False)
    arguments = (tmp_path / "three.csv", "-o", tmp_path / "d.json", "--page", tmp_path / "p.html")
    text = error_of("discover", folder / "model.srosr", *arguments)
    assert "three.csv has 3 rejected samples; groups of at least 5 need 10" in text
    table.iloc[[0] * 30].to_csv(tmp_path / "same.csv", index=False)
    assert "1 of them different" in error_of("discover", folder / "model.srosr", tmp_path / "same.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["same.csv", "three.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--page", "{}/p.txt"), "must end in .html"),
        (("--page", "{}/no/p.html"), "there is no folder"),
        (("-o", "{}/new.csv"), "an input of this command"),
        (("--picture-shape", "8x8"), "give --page"),
        (("--page", "{}/p.html", "--picture-shape", "8x9"), "72 pixels, and the model has 64 features"),
        (("--page", "{}/p.html", "--picture-shape", "eight"), "as in 32x32"),
        (("--page", "{}/p.html", "-o", "{}/p.html"), "are the same file"),
        (("--min-size", "500"), "need 1000 different ones"),
        (("--device", "gpu"), "--device"),
    ],
)
def test_bad_options_are_named_and_nothing_is_written(folder, arguments, message):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    given = [text.format(folder) for text in arguments]
    assert message in error_of("discover", folder / "model.srosr", folder / "new.csv", *given)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        ("later.csv", ("--from-discovery", "{}/found.json", "--group", "0"), "does not have the samples"),
        ("new.csv", ("--from-discovery", "{}/found.json", "--group", "99"), "--group 99"),
        ("new.csv", ("--from-discovery", "{}/found.json"), "say with --group"),
        ("new.csv", ("--group", "0"), "--group needs --from-discovery"),
        ("new.csv", ("--without", "0"), "--without needs --from-discovery"),
        ("new.csv", ("--from-discovery", "{}/train.csv", "--group", "0"), "is not a discovery file"),
        ("new.csv", ("--from-discovery", "{}/none.json", "--group", "0"), "No such file"),
        ("new.csv", ("--from-discovery", "{}/found.json", "--group", "0", "--without", "0"), "does not have this row"),
        ("new.csv", ("--from-discovery", "{}/found.json", "--group", "0", "--label", "digit"), "exclude"),
        ("new.csv", ("--from-discovery", "{}/found.json", "--group", "0", "-o", "{}/found.json"), "an input"),
    ],
)
def test_a_group_that_cannot_become_a_class_is_one_sentence(folder, data, arguments, message):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    given = [text.format(folder) for text in arguments]
    assert message in error_of("add-class", folder / "model.srosr", folder / data, "--name", "d9", *given)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_discovery_of_another_model_is_named(folder, tmp_path):
    right("remove-class", folder / "model.srosr", "d0", "-o", tmp_path / "small.srosr")
    arguments = ("--from-discovery", folder / "found.json", "--group", 0, "--name", "d9")
    text = error_of("add-class", tmp_path / "small.srosr", folder / "new.csv", *arguments)
    assert "was made with another model: that one has the class d0" in text

"""Missing values are filled in as scikit-learn would, in training and in later files, and decisions say how many."""

import csv
import json
import re
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_runs import QUICK, columns_of, right, run
from command_runs import error_of as error_of_command
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as drawn_arrays
from PIL import Image
from same import check_same, check_same_labels
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer

import srosr
from srosr.exceptions import ModelFileError
from srosr.model_files.file_format import ModelState, read_model, write_model
from srosr.tables import imputation
from srosr.tables.feature_recipe import FeatureRecipe
from srosr.tables.formats import open_rows
from srosr.tables.imputation import KINDS, MOST_DONORS, Imputer, draw_rows
from srosr.tables.row_source import ReadError

#: Every sentence ends with a period here.
error_of = partial(error_of_command, ends=".")


def make_gaps(X, share, seed):
    """Return samples with gaps at random, none of them without any value."""
    X, rng = X.copy(), np.random.default_rng(seed)
    X[rng.random(X.shape) < share] = np.nan
    X[np.isnan(X).all(axis=1), 0] = 1.0
    return X


# -- the imputer -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def samples():
    X = np.random.default_rng(0).normal(size=(80, 6)) * [1.0, 1.0, 5.0, 1.0, 0.2, 1.0]
    return make_gaps(X, 0.2, seed=1), make_gaps(X + 0.3, 0.4, seed=2)


@pytest.mark.parametrize("kind, reference", [("median", SimpleImputer(strategy="median")), ("knn", KNNImputer())])
def test_gaps_are_filled_as_by_scikit_learn(kind, reference, samples):
    X, new = samples
    imputer = Imputer.fit(kind, X, np.arange(80) % 3)
    check_same(imputer.impute(X), reference.fit_transform(X))
    check_same(imputer.impute(new), reference.transform(new))


def fill_from_neighbors(X, donors, unit):
    """Return gaps filled with the mean of the five nearest donors, cell by cell and from the definition."""
    out = X.copy()
    for i, j in np.argwhere(np.isnan(X)):
        able = [d for d in donors if not np.isnan(d[j])]
        distances = []
        for donor in able:
            both = ~np.isnan(X[i]) & ~np.isnan(donor)
            squares = ((X[i][both] - donor[both]) / unit[both]) ** 2
            distances.append(np.sqrt(squares.sum() * X.shape[1] / both.sum()) if both.any() else np.inf)
        nearest = np.argsort(distances, kind="stable")[:5]
        out[i, j] = np.mean([able[place][j] for place in nearest])
    return out


@pytest.mark.parametrize("by_spread", [False, True])
def test_neighbors_are_found_in_the_units_that_the_classifier_sees(by_spread, samples):
    X, new = samples
    unit = np.nanstd(X, axis=0) if by_spread else np.ones(6)
    imputer = Imputer.fit("knn", X, by_spread=by_spread)
    assert np.allclose(imputer.impute(new), fill_from_neighbors(new, X, unit))
    other = Imputer.fit("knn", X, by_spread=not by_spread)
    assert not np.allclose(imputer.impute(new), other.impute(new))


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_there_stay_to_the_bit(kind, samples):
    X, new = samples
    filled = Imputer.fit(kind, X, by_spread=True).impute(new)
    assert np.array_equal(filled[~np.isnan(new)], new[~np.isnan(new)]) and np.isfinite(filled).all()
    whole = filled[:3]
    assert Imputer.fit(kind, X).impute(whole) is whole


def test_the_shares_of_missing_values_are_those_of_the_training_table(samples):
    X, _ = samples
    imputer = Imputer.fit("median", X)
    assert np.array_equal(imputer.missing_shares, [sum(np.isnan(x) for x in X[:, j]) / 80 for j in range(6)])
    assert imputer.share == pytest.approx(np.isnan(X).sum() / X.size)
    found = imputer.summarize(list("abcdef"))
    assert found["column"] == "abcdef"[int(np.argmax(np.isnan(X).sum(axis=0)))]
    assert found["column_share"] == np.isnan(X).mean(axis=0).max()
    assert Imputer.fit("knn", np.ones((3, 2))).summarize()["column"] is None


def test_a_column_without_gaps_in_training_may_have_them_later(samples):
    X, _ = samples
    X = np.where(np.arange(6) == 3, 7.0, X)
    for kind in KINDS:
        new = np.full((1, 6), 0.5)
        new[0, 3] = np.nan
        assert Imputer.fit(kind, X).impute(new)[0, 3] == 7.0


def test_a_column_without_values_among_the_kept_rows_gets_the_median(monkeypatch):
    monkeypatch.setattr(imputation, "MOST_DONORS", 4)
    X = np.random.default_rng(0).normal(size=(400, 3))
    X[5:, 2] = np.nan
    X[:5, 2] = [1.0, 2.0, 3.0, 4.0, 50.0]
    imputer = Imputer.fit("knn", X, np.zeros(400))
    assert len(imputer.donors) == 4 and np.isnan(imputer.donors[:, 2]).all()
    assert imputer.impute(np.array([[0.1, 0.2, np.nan]]))[0, 2] == 3.0


def test_numbers_too_large_to_be_squared_are_imputed_all_the_same():
    X = np.array([[1e300, 1.0], [-1e300, 2.0], [1e300, np.nan], [0.0, 4.0]])
    assert np.isfinite(Imputer.fit("knn", X).impute(X)).all()
    with pytest.raises(ValueError, match="feature 0 has numbers that are too large"):
        Imputer.fit("knn", X, by_spread=True)
    tiny = Imputer.fit("knn", np.array([[1e-300, 1.0], [3e-300, 2.0]]), by_spread=True)
    assert tiny.impute(np.array([[1e20, np.nan]]))[0, 1] == 1.5


def test_a_column_that_is_all_missing_is_named():
    X = np.array([[1.0, np.nan], [2.0, np.nan]])
    with pytest.raises(ValueError, match=r"^column 'b c' has no value in any row.*--ignore 'b c' leaves it out\.$"):
        Imputer.fit("median", X, names=["a", "b c"])
    with pytest.raises(ValueError, match=r"^feature 1 has no value in any row"):
        Imputer.fit("knn", X)
    with pytest.raises(ValueError, match='kind must be "median" or "knn"'):
        Imputer.fit("mean", X)


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=60), st.integers(1, 40), st.integers(0, 5))
def test_rows_are_drawn_evenly_over_the_classes(labels, most, seed):
    labels = np.array(labels)
    rows = draw_rows(labels, most, seed)
    assert len(rows) == min(most, len(labels)) and (np.diff(rows) > 0).all()
    drawn = {name: int((labels[rows] == name).sum()) for name in set(labels)}
    largest = max(drawn.values())
    # A class has fewer rows than another by more than one only if it has no more.
    assert all(n >= largest - 1 or n == (labels == name).sum() for name, n in drawn.items())
    assert np.array_equal(rows, draw_rows(labels, most, seed))


# -- in model files --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    """Return a small classifier of three classes with five features, and the gappy samples it was fitted to."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 10)
    X = make_gaps(np.repeat(rng.normal(size=(3, 5)), 10, axis=0) + 0.1 * rng.normal(size=(30, 5)), 0.1, seed=3)
    return srosr.KNNDistance().fit(Imputer.fit("median", X).impute(X), y), X, y


finite = st.floats(-1e6, 1e6, width=64)


@given(
    drawn_arrays(np.float64, (8, 5), elements=st.one_of(finite, st.just(np.nan))),
    drawn_arrays(np.float64, (4, 5), elements=st.one_of(finite, st.just(np.nan))),
    st.sampled_from(KINDS),
    st.booleans(),
)
def test_an_imputer_comes_back_from_a_file_as_it_was(tmp_path_factory, fitted, X, new, kind, by_spread):
    X[0] = np.where(np.isnan(X[0]), 1.0, X[0])
    new[np.isnan(new).all(axis=1), 0] = 0.0
    clf, path = fitted[0], tmp_path_factory.mktemp("m") / "m"
    before = Imputer.fit(kind, X, by_spread=by_spread)
    clf.feature_recipe_ = FeatureRecipe("table", "species", imputer=before)
    clf.save(path)
    after = srosr.load(path).feature_recipe_.imputer
    assert after.kind == kind and np.array_equal(after.missing_shares, before.missing_shares)
    check_same(after.impute(new), before.impute(new))


def test_a_recipe_without_an_imputer_is_written_as_before(fitted, tmp_path):
    clf, X, _ = fitted
    clf.feature_recipe_ = FeatureRecipe("table", "species")
    clf.save(tmp_path / "m")
    state = read_model(tmp_path / "m")
    assert "imputer" not in state.settings["intake"] and not [name for name in state.arrays if "medians" in name]
    recipe = srosr.load(tmp_path / "m").feature_recipe_
    assert recipe.imputer is None and recipe.prepare_rows(X) is X


def test_values_are_imputed_before_columns_are_scaled(fitted):
    _, X, _ = fitted
    imputer = Imputer.fit("median", X)
    recipe = FeatureRecipe("table", center=np.arange(5.0), scale=np.full(5, 2.0), imputer=imputer)
    medians = np.array([np.median([x for x in X[:, j] if not np.isnan(x)]) for j in range(5)])
    assert np.allclose(recipe.prepare_rows(X), (np.where(np.isnan(X), medians, X) - np.arange(5)) / 2)


def settings_of(**changes):
    return lambda settings: settings["intake"].update(**changes)


FORGED = {
    "an unknown kind": (settings_of(imputer={"kind": "mode"}), {}),
    "a kind that is a list": (settings_of(imputer={"kind": ["knn"]}), {}),
    "an imputer that is text": (settings_of(imputer="knn"), {}),
    "an imputer for pictures": (settings_of(kind="pixels", shape=[1, 5]), {}),
    "a median kind with rows": (settings_of(imputer={"kind": "median"}), {}),
    "medians of another length": (None, {"intake/medians": np.zeros(4)}),
    "medians that are not finite": (None, {"intake/medians": np.full(5, np.inf)}),
    "medians that are whole numbers": (None, {"intake/medians": np.zeros(5, np.int64)}),
    "shares above one": (None, {"intake/missing_shares": np.full(5, 1.5)}),
    "shares below zero": (None, {"intake/missing_shares": np.full(5, -0.1)}),
    "a share that is not a number": (None, {"intake/missing_shares": np.full(5, np.nan)}),
    "rows of another width": (None, {"intake/donors": np.zeros((3, 4))}),
    "no rows": (None, {"intake/donors": np.zeros((0, 5))}),
    "too many rows": (None, {"intake/donors": np.zeros((MOST_DONORS + 1, 5))}),
    "an infinite value in a row": (None, {"intake/donors": np.full((3, 5), -np.inf)}),
    "rows in one line": (None, {"intake/donors": np.zeros(5)}),
    "rows in single precision": (None, {"intake/donors": np.zeros((3, 5), np.float32)}),
    "a spread of zero": (None, {"intake/spread": np.zeros(5)}),
    "a spread of another length": (None, {"intake/spread": np.ones(6)}),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_imputer_is_an_error_of_one_sentence(what, fitted, tmp_path):
    change, arrays = FORGED[what]
    clf, X, y = fitted
    clf.feature_recipe_ = FeatureRecipe("table", imputer=Imputer.fit("knn", X, y, by_spread=True))
    clf.save(tmp_path / "m")
    state = read_model(tmp_path / "m")
    if change is not None:
        change(state.settings)
    write_model(tmp_path / "m", ModelState(state.kind, state.settings, state.arrays | arrays))
    with pytest.raises(ModelFileError, match="not a valid model file"):
        srosr.load(tmp_path / "m")


@pytest.mark.parametrize("name", ["medians", "missing_shares", "donors"])
def test_a_file_that_lacks_an_array_of_the_imputer_is_an_error(name, fitted, tmp_path):
    clf, X, _ = fitted
    clf.feature_recipe_ = FeatureRecipe("table", imputer=Imputer.fit("knn", X))
    clf.save(tmp_path / "m")
    state = read_model(tmp_path / "m")
    del state.arrays[f"intake/{name}"]
    write_model(tmp_path / "m", ModelState(state.kind, state.settings, state.arrays))
    with pytest.raises(ModelFileError, match="not a valid model file"):
        srosr.load(tmp_path / "m")


# -- readers ---------------------------------------------------------------------------------------------------


def write_table(folder, kind, X, labels):
    path = folder / f"t.{kind}"
    table = pd.DataFrame(X, columns=["a", "b"]).assign(label=labels)
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "parquet":
        table.to_parquet(path)
    else:
        np.savez(path, X=X, y=np.array(labels))
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_readers_yield_gaps_if_they_are_asked_to(kind, tmp_path):
    X = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, 4.0]])
    path = write_table(tmp_path, kind, X, ["x", "y", "z"])
    source = open_rows(path, labels="required", impute=True)
    rows = source.read()
    assert np.array_equal(rows.X, X, equal_nan=True) and rows.labels.tolist() == ["x", "y", "z"]
    assert source.dropped == 0 and rows.numbers.tolist() == [0, 1, 2]
    with pytest.raises(ReadError, match="--drop-missing leaves such rows out, and a model fitted with --impute"):
        open_rows(path, labels="required").read()


@pytest.mark.parametrize("kind, place", [("csv", "line 3"), ("parquet", "row 1"), ("npz", "row 1")])
def test_a_row_without_any_value_is_an_error_that_names_it(kind, place, tmp_path):
    path = write_table(tmp_path, kind, np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]]), ["x", "y", "z"])
    with pytest.raises(ReadError, match=f"no value at all in {place}, so that there is nothing to impute from"):
        open_rows(path, impute=True).read()
    rows = open_rows(path, impute=True, drop_missing=True).read()
    assert rows.numbers.tolist() == [0, 2] and np.isnan(rows.X[0, 1])


def test_missing_labels_and_infinite_values_stay_errors(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,label\n1,,x\n2,3,\n")
    with pytest.raises(ReadError, match="no label in line 3, column 'label'"):
        open_rows(tmp_path / "t.csv", labels="required", impute=True).read()
    (tmp_path / "t.csv").write_text("a,b,label\n1,,x\n2,inf,y\n")
    with pytest.raises(ReadError, match="infinite value in line 3, column 'b'"):
        open_rows(tmp_path / "t.csv", labels="required", impute=True).read()


# -- commands --------------------------------------------------------------------------------------------------

PIXELS = [f"p{j}" for j in range(64)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a table of digits 0 to 3 with gaps, other samples of them and of 4 and 5, and two models."""
    folder = tmp_path_factory.mktemp("gaps")
    X, y = load_digits(n_class=6, return_X_y=True)
    # Pixels at the edge are constant: without them a column has neighbors to be imputed from.
    X = X + np.random.default_rng(0).random(X.shape)
    X = make_gaps(X, 0.05, seed=0)
    X[::4, 20] = np.nan
    table = pd.DataFrame(X, columns=PIXELS).assign(digit=[f"d{label}" for label in y])
    known = table[y < 4]
    known[:160].to_csv(folder / "train.csv", index=False)
    pd.concat([known[160:200], table[y >= 4][:20]]).to_csv(folder / "new.csv", index=False)
    for kind in KINDS:
        fit = ("fit", folder / "train.csv", "-o", folder / f"{kind}.srosr", "-q", "--impute", kind, *QUICK)
        right(*fit, *(["--standardize"] if kind == "knn" else []), "--method", "knn")
    return folder


def read_features(path):
    return pd.read_csv(path)[PIXELS].to_numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_the_commands_decide_as_python_does_on_imputed_values(kind, folder):
    train, new = read_features(folder / "train.csv"), read_features(folder / "new.csv")
    if kind == "median":
        imputer = SimpleImputer(strategy="median").fit(train)
        X, X_new = imputer.transform(train), imputer.transform(new)
    else:
        spread = np.nanstd(train, axis=0)
        imputer = KNNImputer().fit(train / spread)
        X, X_new = imputer.transform(train / spread) * spread, imputer.transform(new / spread) * spread
        center, scale = X.mean(axis=0), X.std(axis=0)
        X, X_new = (X - center) / scale, (X_new - center) / scale
    clf = srosr.KNNDistance(random_state=0).fit(X, pd.read_csv(folder / "train.csv")["digit"])
    rows = list(csv.DictReader(right("predict", folder / f"{kind}.srosr", folder / "new.csv").splitlines()))
    decided = clf.decide(X_new)
    check_same_labels([row["label"] for row in rows], decided.label, decided.unknown_score, clf.threshold_)
    assert np.allclose([float(row["unknown_score"]) for row in rows], decided.unknown_score)
    assert np.allclose([float(row["imputed"]) for row in rows], np.isnan(new).mean(axis=1))


def test_the_share_imputed_is_in_every_format_of_the_decisions(folder, tmp_path):
    expected = np.isnan(read_features(folder / "new.csv")).mean(axis=1)
    model, data = folder / "median.srosr", folder / "new.csv"
    lines = right("predict", model, data, "--json", "--keep", "digit").splitlines()
    assert np.allclose([json.loads(line)["imputed"] for line in lines], expected)
    assert list(json.loads(lines[0]))[-2:] == ["verdict", "imputed"]
    right("predict", model, data, "-o", tmp_path / "out.parquet", "-q")
    assert np.allclose(pd.read_parquet(tmp_path / "out.parquet")["imputed"], expected)
    (tmp_path / "parts").mkdir()
    pd.read_csv(data)[:30].to_csv(tmp_path / "parts" / "one.csv", index=False)
    right("predict", model, tmp_path / "parts", "-o", tmp_path / "decisions", "-q")
    assert np.allclose(pd.read_parquet(tmp_path / "decisions" / "one.parquet")["imputed"], expected[:30])


def test_a_model_without_an_imputer_has_no_such_column_and_names_the_option(folder, tmp_path):
    table = pd.read_csv(folder / "train.csv").fillna(0.0)
    table.to_csv(tmp_path / "whole.csv", index=False)
    right("fit", tmp_path / "whole.csv", "-o", tmp_path / "m", "-q", "--method", "knn", *QUICK)
    output = right("predict", tmp_path / "m", tmp_path / "whole.csv")
    assert output.splitlines()[0] == "row,label,unknown_score,candidate,verdict"
    text = error_of("predict", tmp_path / "m", folder / "new.csv", "-o", tmp_path / "out.csv")
    assert "--drop-missing" in text and "--impute" in text and not (tmp_path / "out.csv").exists()
    assert "imputed" not in right("info", tmp_path / "m")
    assert json.loads(right("info", tmp_path / "m", "--json"))["imputed"] is None
    found = json.loads(right("explain", tmp_path / "m", tmp_path / "whole.csv", "--json", "--no-figure"))
    assert "imputed" not in found


def test_rows_with_gaps_are_left_out_if_the_user_asks_for_that(folder):
    new = read_features(folder / "new.csv")
    output = right("predict", folder / "median.srosr", folder / "new.csv", "--drop-missing")
    rows = [int(row["row"]) for row in csv.DictReader(output.splitlines())]
    assert rows == np.flatnonzero(~np.isnan(new).any(axis=1)).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_info_and_fit_tell_how_much_was_imputed(kind, folder, tmp_path):
    train = read_features(folder / "train.csv")
    share, worst = np.isnan(train).mean(), np.isnan(train).mean(axis=0)
    said = f"{kind}, {100 * share:.1f} % of training cells, most in column p20 ({100 * worst[20]:.1f} %)"
    assert int(np.argmax(worst)) == 20
    assert f"imputed{' ' * 13}{said}" in right("info", folder / f"{kind}.srosr")
    found = json.loads(right("info", folder / f"{kind}.srosr", "--json"))["imputed"]
    assert found == {
        "kind": kind, "share": pytest.approx(share), "column": "p20", "column_share": pytest.approx(worst[20])
    }  # fmt: skip
    fit = ("fit", folder / "train.csv", "-o", tmp_path / "m", "--impute", kind, "--method", "knn", *QUICK)
    assert f"missing values    {np.isnan(train).sum()}, imputed: {said}" in right(*fit)


def test_explain_names_the_features_that_were_imputed(folder, tmp_path):
    table = pd.read_csv(folder / "new.csv").fillna(1.0)
    table.loc[7, ["p3", "p40", "p9"]] = np.nan
    table.loc[8, "p5"] = np.nan
    table.loc[9, PIXELS] = np.nan
    table.to_csv(tmp_path / "new.csv", index=False)
    explain = ("explain", folder / "median.srosr", tmp_path / "new.csv", "--no-figure", "--row")
    assert right(*explain, 7).rstrip().endswith("3 of 64 features were missing and imputed (median): p3, p9, p40.")
    assert right(*explain, 8).rstrip().endswith("1 of 64 features was missing and imputed (median): p5.")
    assert "imputed" not in right(*explain, 6)
    assert json.loads(right(*explain, 7, "--json"))["imputed"] == ["p3", "p9", "p40"]
    assert json.loads(right(*explain, 6, "--json"))["imputed"] == []
    assert "row 9 of" in (text := error_of(*explain, 9)) and "no value at all" in text


def test_a_later_row_without_any_value_is_named_and_nothing_is_written(folder, tmp_path):
    table = pd.read_csv(folder / "new.csv")
    table.loc[4, PIXELS] = np.nan
    table.to_csv(tmp_path / "new.csv", index=False)
    for command in ("predict", "evaluate"):
        output = ("-o", tmp_path / "out.csv") if command == "predict" else ()
        assert "no value at all in line 6" in error_of(
            command, folder / "knn.srosr", tmp_path / "new.csv", *output, "-q"
        )
    assert not (tmp_path / "out.csv").exists()


def test_a_file_that_lacks_a_whole_column_stays_an_error(folder, tmp_path):
    pd.read_csv(folder / "new.csv").drop(columns="p9").to_csv(tmp_path / "new.csv", index=False)
    assert "lacks a feature of the model: 'p9'" in error_of("predict", folder / "median.srosr", tmp_path / "new.csv")


def test_an_added_class_is_imputed_by_the_imputer_of_the_model(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.evaluation.metric_table._RESAMPLES", 25)
    train = pd.read_csv(folder / "train.csv")
    train[train["digit"] != "d3"].to_csv(tmp_path / "three.csv", index=False)
    model = tmp_path / "m.srosr"
    right("fit", tmp_path / "three.csv", "-o", model, "-q", "--impute", "median", *QUICK)
    medians = srosr.load(model).feature_recipe_.imputer.medians
    right("add-class", model, folder / "train.csv", "--label", "digit", "--name", "d3", "--json")
    clf = srosr.load(model)
    own = train[train["digit"] == "d3"][PIXELS].to_numpy()
    filled = np.where(np.isnan(own), medians, own)
    added = clf.dictionary_.linear_atoms[clf.dictionary_.labels == "d3"]
    assert np.allclose(added, filled / np.linalg.norm(filled, axis=1, keepdims=True))
    assert np.array_equal(clf.feature_recipe_.imputer.medians, medians)
    assert len(json.loads(right("evaluate", model, folder / "new.csv", "--json"))["metrics"]) > 3


def test_fit_rejects_what_cannot_be_imputed(folder, tmp_path):
    fit = ("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--impute", "median", *QUICK)
    table = pd.read_csv(folder / "train.csv")
    table.assign(p7=np.nan).to_csv(tmp_path / "t.csv", index=False)
    for kind in KINDS:
        text = error_of(*fit, "--impute", kind)
        assert "t.csv: column 'p7' has no value in any row" in text and "--ignore p7 leaves it out" in text
    assert "exclude each other" in error_of(*fit, "--drop-missing")
    right(*fit, "--ignore", "p7", "--method", "knn", "-q")
    table.loc[3, "digit"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    assert "no label in line 5, column 'digit'" in error_of(*fit)
    for name in ("a", "b"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "pictures" / name / "1.png")
    assert "--impute is for tables" in error_of("fit", tmp_path / "pictures", "-o", tmp_path / "n", "--impute", "knn")
    assert not (tmp_path / "n").exists()


def test_a_table_from_standard_input_is_imputed_too(folder):
    given = (folder / "new.csv").read_text()
    streamed = right("predict", folder / "knn.srosr", "-", given=given)
    check_same(columns_of(streamed), columns_of(right("predict", folder / "knn.srosr", folder / "new.csv")))


# -- the guide -------------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "missing-values.md"


def as_pattern(shown):
    """Return a pattern in which … stands for the rest of a line, or on a line of its own for any lines."""
    lines = ["(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in shown.splitlines()]
    return "".join(lines)


@pytest.mark.slow
def test_the_guide_shows_what_the_commands_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for kind, block in re.findall(r"```(console|python)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        if kind == "python":
            exec(compile(block, PAGE.name, "exec"), names)
            continue
        for part in block.split("$ ")[1:]:
            command, _, shown = part.partition("\n")
            done = run(*shlex.split(command)[1:])
            assert done.exit_code == (2 if shown.startswith("Error") else 0), done.output
            assert re.fullmatch(as_pattern(shown), done.output), f"{command} printed\n{done.output}"
    truth = names["new"]["label"].to_numpy()
    assert (names["decisions"].rejected == (truth > 5)).mean() > 0.9

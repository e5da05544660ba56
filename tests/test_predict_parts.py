"""``srosr predict`` on a table in many files: the same decisions as on each of them alone, resumed part by part."""

import errno
import io
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from command_runs import right, run
from filelock import FileLock
from PIL import Image
from same import check_same, check_same_labels
from sklearn.datasets import load_digits
from test_runner import unix

import srosr
from srosr.cli import part_prediction
from srosr.cli.part_prediction import PartTask, compute_digest, make_origin, predict_part, write_part
from srosr.distributed.worker_task import UnfitWorkerError
from srosr.tables.decision_files import read_origin
from srosr.tables.formats import find_parts, name_outputs
from srosr.tables.read_options import ReadOptions
from srosr.tables.row_source import ReadError

SIZES = {"a.parquet": 40, "b.csv": 30, "c.csv.gz": 25, "d.tsv": 20, "e.pq": 10}
NAMES = ("a", "b", "c", "d", "e")


def error_of(*arguments, status=2):
    """Run a command that must fail with one sentence; return the sentence."""
    done = run(*arguments)
    assert done.exit_code == status and isinstance(done.exception, SystemExit), done.output
    errors = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1 and (status == 1 or len(done.output.splitlines()) == 1), done.output
    return errors[0].removeprefix("Error: ")


def listing(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def decisions_in(folder):
    return {path.name: pq.read_table(path).to_pydict() for path in Path(folder).iterdir()}


def write_table(table, path):
    name = str(path)
    if name.endswith((".parquet", ".pq")):
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")


@pytest.fixture(scope="module")
def table():
    X, y = load_digits(n_class=6, return_X_y=True)
    table = pd.DataFrame(X, columns=[f"p{j}" for j in range(64)])
    table["digit"] = [f"d{label}" for label in y]
    return table


@pytest.fixture(scope="module")
def original(table, tmp_path_factory):
    """Return a folder with a model of four digits, another one, and six digits in parts of all formats."""
    folder = tmp_path_factory.mktemp("original")
    known = table[table["digit"] < "d4"].iloc[:120]
    for name, rate in (("model.srosr", 0.05), ("other.srosr", 0.2)):
        clf = srosr.SROSRClassifier(n_repeats=3, target_rejection=rate, random_state=0)
        clf.fit(known.drop(columns="digit"), known["digit"].to_numpy().astype(str)).save(folder / name)
    (folder / "parts").mkdir()
    start = 300
    for name, size in SIZES.items():
        write_table(table.drop(columns="digit").iloc[start : start + size], folder / "parts" / name)
        start += size
    return folder


@pytest.fixture
def place(original, tmp_path, monkeypatch):
    """Return a copy of that folder, which is the working directory."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def expected(original, tmp_path_factory):
    """Return the decisions on every part alone."""
    out = tmp_path_factory.mktemp("alone")
    for name in SIZES:
        right("predict", original / "model.srosr", original / "parts" / name, "-o", out / f"{name[0]}.parquet")
    return {name: pq.read_table(out / f"{name}.parquet") for name in NAMES}


def assert_decided(folder, expected, names=NAMES):
    assert listing(folder) == [f"{name}.parquet" for name in names]
    for name in names:
        found = pq.read_table(Path(folder, f"{name}.parquet"))
        assert found.schema.equals(expected[name].schema), name
        check_same(found.to_pydict(), expected[name].to_pydict())


# --- what is written ---


def test_parts_are_decided_on_as_each_alone(place, expected):
    output = right("predict", "model.srosr", "parts", "-o", "out")
    rejected = sum(one["verdict"].to_pylist().count("rejected") for one in expected.values())
    assert output == f"5 parts, 125 rows: {125 - rejected} recognized, {rejected} rejected. Decisions: out\n"
    assert_decided("out", expected)
    assert right("predict", "model.srosr", "parts", "-o", "quiet", "-q", "--jobs", "1") == ""
    assert_decided("quiet", expected)


def test_decisions_are_those_of_python(place, expected, table):
    clf = srosr.load("model.srosr")
    decisions = clf.decide(table.drop(columns="digit").iloc[300:340])
    right("predict", "model.srosr", "parts", "-o", "out")
    found = pq.read_table("out/a.parquet")
    check_same_labels(found["label"].to_pylist(), decisions.label, decisions.unknown_score, clf.threshold_)
    check_same(found["unknown_score"].to_numpy(), decisions.unknown_score)


@pytest.mark.parametrize("pattern, names", [
    ("parts/*", NAMES),
    ("parts/[ab].*", ("a", "b")),
    ("*/?.csv*", ("b", "c")),
    ("**/*.tsv", ("d",)),
])  # fmt: skip
def test_a_pattern_stands_for_the_files_that_match_it(pattern, names, place, expected):
    right("predict", "model.srosr", pattern, "-o", "out")
    assert_decided("out", expected, names)


def test_files_of_a_folder_that_are_no_tables_are_left_alone(place, expected):
    for name in ("_SUCCESS", "_metadata.parquet", ".b.csv.crc", ".hidden.csv", "README.md", "labels.npy"):
        (place / "parts" / name).write_bytes(b"?")
    (place / "parts" / "sub.csv").mkdir()
    right("predict", "model.srosr", "parts", "-o", "out")
    assert_decided("out", expected)


def test_options_of_tables_hold_for_every_part(place, table):
    for name in ("x", "y"):
        part = table.iloc[300:310].assign(id=[f"{name}{i}" for i in range(10)])
        part.iloc[3, 5] = np.nan
        write_table(part[[*reversed(part.columns)]], place / f"{name}.csv")
    options = ("--by-name", "--keep", "id", "--drop-missing")
    assert "; 2 rows left out" in right("predict", "model.srosr", "?.csv", "-o", "out", *options)
    found = pq.read_table("out/y.parquet")
    assert found.column_names[:2] == ["row", "id"] and found["id"].to_pylist() == [f"y{i}" for i in range(10) if i != 3]


# --- again ---


def test_parts_that_are_done_are_not_done_again(place, expected):
    right("predict", "model.srosr", "parts", "-o", "out")
    before = {name: os.stat(f"out/{name}.parquet").st_mtime_ns for name in NAMES}
    assert right("predict", "model.srosr", "parts", "-o", "out") == "5 parts done before, none left. Decisions: out\n"
    os.unlink("out/c.parquet")
    assert "1 part, 25 rows: " in (output := right("predict", "model.srosr", "parts", "-o", "out"))
    assert "; 4 parts done before. Decisions: out" in output
    after = {name: os.stat(f"out/{name}.parquet").st_mtime_ns for name in NAMES}
    assert {name for name in NAMES if after[name] != before[name]} == {"c"}
    assert_decided("out", expected)


def change_part(place):
    with open(place / "parts" / "b.csv", "a") as file:
        file.write((place / "parts" / "b.csv").read_text().splitlines()[-1] + "\n")


def put_something_else(place):
    (place / "out" / "b.parquet").write_bytes((place / "parts" / "a.parquet").read_bytes())


def put_text(place):
    (place / "out" / "b.parquet").write_text("mine")


@pytest.mark.parametrize("change, arguments, why, n_more", [
    (change_part, (), "has decisions on another file, or parts/b.csv was changed since", 0),
    (put_something_else, (), "does not have decisions of this command", 0),
    (put_text, (), "does not have decisions of this command", 0),
    (None, ("--drop-missing",), "has decisions made with other options", 4),
    ("other.srosr", (), "has decisions of another model", 4),
])  # fmt: skip
def test_a_file_that_is_in_the_way_is_named_and_replaced_on_request(change, arguments, why, n_more, place):
    right("predict", "model.srosr", "parts", "-o", "out")
    model = change if isinstance(change, str) else "model.srosr"
    if callable(change):
        change(place)
    before = contents("out")
    command = ("predict", model, "parts", "-o", "out", *arguments)
    more = f" ({n_more} more files too)" if n_more else ""
    first = "out/a.parquet" if n_more else "out/b.parquet"
    assert error_of(*command) == (
        f"{first} is in the way{more}: it {why}; replace it with --overwrite, or choose another folder with -o."
    )
    assert contents("out") == before
    output = right(*command, "--overwrite")
    assert output.startswith("5 parts" if n_more else "1 part") and ("done before" in output) == (not n_more)
    assert "none left" in right(*command)


def test_decisions_in_a_folder_that_the_pattern_matches_too_are_no_parts(place, expected):
    command = ("predict", "model.srosr", "parts/**/*.[pct]*", "-o", "parts/out")
    right(*command)
    assert_decided("parts/out", expected)
    assert right(*command) == "5 parts done before, none left. Decisions: parts/out\n"
    os.unlink("parts/out/c.parquet")
    assert "; 4 parts done before. Decisions: parts/out" in right(*command)
    assert right(*command[:1], "other.srosr", *command[2:], "--overwrite").startswith("5 parts, 125 rows: ")
    right(*command, "--overwrite")
    assert_decided("parts/out", expected)


def test_other_files_in_the_folder_that_the_pattern_matches_too_are_an_error(place):
    right("predict", "model.srosr", "parts", "-o", "parts/out")
    for data in ("parts/out", "parts/out/*.parquet"):  # only decisions: these must be meant
        assert "parts/out/a.parquet is in this folder" in error_of("predict", "model.srosr", data, "-o", "parts/out")
    shutil.copy("parts/b.csv", "parts/out/z.csv")
    before = contents("parts/out")
    command = ("predict", "model.srosr", "parts/**/*.[pct]*", "-o", "parts/out", "--overwrite")
    assert error_of(*command) == (
        "cannot write decisions to parts/out: parts/out/z.csv is in this folder; choose another path with -o."
    )
    assert contents("parts/out") == before


@unix
@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("file", ["parts/b.csv", "parts/a.parquet", "model.srosr"])
@pytest.mark.parametrize("options", [(), ("--overwrite",)])
def test_an_input_that_is_linked_in_the_folder_is_never_replaced(link, file, options, place):
    (place / "out").mkdir()
    link(place / file, "out/b.parquet")
    before = contents("parts") | {"model": Path("model.srosr").read_bytes()}
    assert error_of("predict", "model.srosr", "parts", "-o", "out", *options) == (
        f"cannot write decisions to out/b.parquet: it is the same file as the input {file}; choose another path with "
        "-o."
    )
    assert contents("parts") | {"model": Path("model.srosr").read_bytes()} == before
    assert listing("out") == ["b.parquet"]


def test_decisions_of_another_version_are_in_the_way(place, monkeypatch):
    right("predict", "model.srosr", "parts", "-o", "out")
    monkeypatch.setattr(srosr, "__version__", "9.9")
    assert f"made by srosr {read_origin('out/a.parquet')['srosr']};" in error_of(
        "predict", "model.srosr", "parts", "-o", "out"
    )


def test_an_interruption_keeps_what_is_done(place, expected, monkeypatch):
    def interrupt_at_c(clf, task, on_rows):
        if task.part.endswith("c.csv.gz"):
            raise KeyboardInterrupt
        return write_part(clf, task, on_rows)

    monkeypatch.setattr("srosr.cli.predict_parts.write_part", interrupt_at_c)
    done = run("predict", "model.srosr", "parts", "-o", "out")
    assert done.exit_code == 130 and "Finished parts are kept in out; the same command continues" in done.output
    assert_decided("out", expected, ("a", "b"))
    monkeypatch.undo()
    os.chdir(place)
    assert "2 parts done before" in right("predict", "model.srosr", "parts", "-o", "out")
    assert_decided("out", expected)


# --- parts that cannot be used ---


def as_bytes(table, **options):
    file = io.BytesIO()
    table.to_parquet(file, index=False, **options)
    return file.getvalue()


def test_bad_parts_are_named_and_the_others_are_done(place, expected, table):
    samples = table.drop(columns="digit").iloc[:5]
    bad = {
        "columns.csv": (samples.rename(columns={"p3": "q3"}).to_csv(index=False).encode(), "'p3'"),
        "empty.csv": (b"", "is empty"),
        "header.csv": (samples.iloc[:0].to_csv(index=False).encode(), "but no rows"),
        "less.parquet": (as_bytes(samples.iloc[:, :9]), "less.parquet"),
        "none.parquet": (as_bytes(samples.iloc[:0]), "has no rows"),
        "text.parquet": (b"p0,p1\n1,2\n", "is damaged or not of the kind its suffix says"),
        "word.csv": (samples.astype(object).replace(0.0, "zero").to_csv(index=False).encode(), "'zero'"),
    }
    for name, (content, _) in bad.items():
        (place / "parts" / name).write_bytes(content)
    done = run("predict", "model.srosr", "parts", "-o", "out")
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    *errors, summary = done.output.splitlines()
    assert len(errors) == len(bad)
    for line, (name, (_, words)) in zip(errors, sorted(bad.items()), strict=True):
        assert line.startswith(f"Error: parts/{name} ") and words in line and line.endswith("."), line
    assert summary.startswith("5 parts, 125 rows: ") and summary.endswith("; 7 parts failed. Decisions: out")
    assert_decided("out", expected)
    (place / "parts" / "empty.csv").unlink()
    assert run("predict", "model.srosr", "parts", "-o", "out").exit_code == 1


@pytest.fixture
def too_large(place, table):
    """Return a folder with a model of a polynomial kernel and a part with a number that overflows in it."""
    known = table[table["digit"] < "d4"].iloc[:120]
    clf = srosr.SROSRClassifier(n_repeats=3, kernel="poly", random_state=0)
    clf.fit(known.drop(columns="digit"), known["digit"].to_numpy().astype(str)).save(place / "poly.srosr")
    part = table.iloc[330:360].astype({"p7": float})
    part.iloc[17, 7] = 1e308
    write_table(part.drop(columns="digit"), place / "parts" / "b.csv")
    write_table(part, place / "labeled.csv")
    return place


REASON = "has a sample in row 17 that cannot be predicted: a squared length is negative or not finite; scale the"


def test_a_part_with_numbers_that_overflow_is_named_and_the_others_are_done(too_large):
    done = run("predict", "poly.srosr", "parts", "-o", "out")
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit), done.output
    error, summary = done.output.splitlines()
    assert error.startswith(f"Error: parts/b.csv {REASON}") and error.endswith(".")
    assert summary.startswith("4 parts, 95 rows: ") and summary.endswith("; 1 part failed. Decisions: out")
    assert listing("out") == [f"{name}.parquet" for name in NAMES if name != "b"]
    task = make_task(too_large, model=os.path.abspath("poly.srosr"), digest=compute_digest("poly.srosr"))
    assert predict_part(task).error.startswith(f"{task.part} {REASON}")  # as a worker does
    assert not os.path.exists("out/b.parquet")


@pytest.mark.parametrize("arguments", [
    ("predict", "poly.srosr", "parts/b.csv", "-o", "new.csv"),
    ("predict", "poly.srosr", "parts/b.csv", "-o", "new.parquet", "--jobs", "1"),
    ("evaluate", "poly.srosr", "labeled.csv", "--out", "new"),
    ("explain", "poly.srosr", "parts/b.csv", "--row", "17", "--out", "new.png"),
])  # fmt: skip
def test_numbers_that_overflow_are_an_error_that_names_the_file_and_the_row(arguments, too_large):
    there = listing(too_large)
    assert error_of(*arguments).startswith(f"{arguments[2]} {REASON}")
    assert listing(too_large) == there


def test_the_row_is_found_in_any_batch_and_where_rows_are_left_out(too_large, monkeypatch):
    monkeypatch.setattr("srosr.operations.model_input.choose_batch_size", lambda clf: 7)
    table = pd.read_csv("parts/b.csv")
    table.iloc[[2, 15], 3] = np.nan
    write_table(table, too_large / "gaps.csv")
    for jobs in ("1", "2"):
        command = ("predict", "poly.srosr", "gaps.csv", "-o", "new.csv", "--drop-missing", "--jobs", jobs)
        assert error_of(*command).startswith(f"gaps.csv {REASON}")
    assert not os.path.exists("new.csv")


def test_of_many_bad_parts_a_few_are_named(place):
    for i in range(14):
        (place / f"bad{i:02d}.csv").write_text("x\n")
    done = run("predict", "model.srosr", "bad*.csv", "-o", "out", "-q")
    assert done.exit_code == 1 and done.output.count("Error: ") == 10
    assert done.output.endswith("… and 4 more parts with errors.\n")
    assert not os.path.exists("out")


def test_a_full_disk_stops_the_command_and_keeps_what_is_done(place, expected, monkeypatch):
    before = part_prediction.write_decisions

    def fill_at_b(clf, source, stream, *rest):
        answer = before(clf, source, stream, *rest)
        if source.name.endswith("b.csv"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return answer

    monkeypatch.setattr(part_prediction, "write_decisions", fill_at_b)
    assert error_of("predict", "model.srosr", "parts", "-o", "out") == (
        "out/b.parquet cannot be written: No space left on device. Finished parts are kept: run the same command again "
        "to resume."
    )
    assert_decided("out", expected, ("a",))
    monkeypatch.undo()
    os.chdir(place)
    right("predict", "model.srosr", "parts", "-o", "out")
    assert_decided("out", expected)


# --- requests that cannot be met ---


@pytest.mark.parametrize("arguments, words", [
    (("parts",), "parts is a table in 5 parts: give a folder for the decisions with -o."),
    (("parts", "-o", "model.srosr"), "cannot write decisions to model.srosr: parts is a table in parts, which need a"),
    (("parts", "-o", "out.csv"), "which need a folder, and .csv is for a file; choose another path with -o."),
    (("parts", "-o", "parts"), "parts/a.parquet is in this folder"),
    (("parts/*.csv", "-o", "parts"), "parts/b.csv is in this folder"),
    (("none/*.csv", "-o", "out"), "none/*.csv matches no file: check the pattern."),
    (("empty", "-o", "out"), "empty has no tables: give a folder with .parquet, .csv or .tsv files, or a pattern"),
    (("twins", "-o", "out"), "twins/a.csv and twins/a.parquet would both become a.parquet: rename one of them"),
    (("parts", "-o", "out", "--json"), "--json is for one file"),
    (("parts", "-o", "out", "--skip-broken"), "--skip-broken is for pictures"),
    (("parts", "-o", "out", "--cluster", "tcp:8786"), "--cluster: 'tcp:8786' is not a cluster: give the address"),
    (("parts", "-o", "out", "--cluster", "local:2", "--jobs", "2"), "--jobs and --cluster exclude each other"),
    (("parts/b.csv", "-o", "out.csv", "--cluster", "local:2"), "--cluster is for a table in parts"),
    (("parts/b.csv", "-o", "out.csv", "--overwrite"), "--overwrite is for a table in parts"),
])  # fmt: skip
def test_impossible_requests_get_a_one_sentence_error(arguments, words, place):
    (place / "empty").mkdir()
    (place / "twins").mkdir()
    for name in ("a.csv", "a.parquet"):
        (place / "twins" / name).write_bytes(b"?")
    there = listing(place)
    assert words in error_of("predict", "model.srosr", *arguments)
    assert listing(place) == there and listing(place / "parts") == sorted(SIZES)


@pytest.mark.parametrize("model, words", [
    ("absent.srosr", "absent.srosr does not exist"),
    ("parts", "parts is a folder: give a model"),
    ("parts/b.csv", "not a srosr model"),
])  # fmt: skip
def test_a_model_that_is_none_is_named(model, words, place):
    assert words in error_of("predict", model, "parts", "-o", "out")
    assert not os.path.exists("out")


def test_a_scheduler_that_cannot_be_reached_leaves_no_folder(place):
    pytest.importorskip("distributed")
    command = ("predict", "model.srosr", "parts", "-o", "out", "--cluster", "tcp://127.0.0.1:1")
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in error_of(*command)
    assert not os.path.exists("out")


def test_two_commands_do_not_write_to_one_folder(place):
    (place / "out").mkdir()
    with FileLock(place / "out" / ".lock"):
        assert "another command is writing to it" in error_of("predict", "model.srosr", "parts", "-o", "out")


def test_a_pattern_is_not_a_file_of_that_name(tmp_path):
    (tmp_path / "[1].csv").write_text("x\n")
    with pytest.raises(ReadError, match=r"1\]\.csvx matches no file"):
        find_parts(str(tmp_path / "[1].csvx"))
    assert name_outputs(["a/[1].csv", "b/x.y.tsv.gz", "c/z"], "out") == [
        os.path.join("out", name) for name in ("[1].parquet", "x.y.parquet", "z.parquet")
    ]


# --- tables and pictures ---


@pytest.fixture
def pictures(place):
    """Return a folder of pictures with a table beside them, and a model of pictures."""
    rng = np.random.default_rng(0)
    for kind in (0, 1):
        (place / "known" / str(kind)).mkdir(parents=True)
        for i in range(8):
            gray = np.clip(rng.normal(80 + 80 * kind, 40, (8, 8)) * np.tri(8, k=3 * kind), 0, 255)
            Image.fromarray(gray.astype(np.uint8)).save(place / "known" / str(kind) / f"{i}.png")
    right("fit", "known", "-o", "pictures.srosr", "--features", "pixels", "--method", "knn", "-q")
    shutil.copy("known/0/0.png", "parts/one.png")
    return place


def test_a_folder_of_pictures_is_one_whatever_tables_are_beside_them(pictures, expected):
    right("predict", "pictures.srosr", "known", "-o", "out.csv")
    assert len(pd.read_csv("out.csv")) == 16
    right("predict", "pictures.srosr", "parts", "-o", "one.csv")
    assert pd.read_csv("one.csv")["file"].tolist() == ["one.png"]
    right("predict", "model.srosr", "parts", "-o", "out")
    assert_decided("out", expected)
    assert "fitted to a table" in error_of("predict", "model.srosr", "known", "-o", "x.csv")
    assert "fitted to pictures" in error_of("predict", "pictures.srosr", "parts/*.csv", "-o", "x")
    os.unlink("parts/one.png")
    assert "fitted to pictures" in error_of("predict", "pictures.srosr", "parts", "-o", "x")


# --- workers ---


def make_task(place, **changes):
    options = ReadOptions()
    model, part = os.path.abspath("model.srosr"), os.path.abspath("parts/b.csv")
    (place / "out").mkdir(exist_ok=True)
    (place / "token").touch()
    given = {"part": part, "output": os.path.abspath("out/b.parquet"), "model": model, "digest": compute_digest(model)}
    given |= {"options": options, "token": os.path.abspath("token")} | changes
    return PartTask(origin=make_origin(part, given["digest"], options), **given)


def test_a_worker_decides_as_the_command_does(place, expected):
    result = predict_part(make_task(place))
    assert (result.rows, result.error) == (30, None)
    assert_decided("out", expected, ("b",))


@pytest.mark.parametrize("changes, words", [
    ({"part": "/absent/parts/b.csv"}, "/absent/parts does not exist there. All workers need the file system"),
    ({"output": "/absent/out/b.parquet"}, "/absent/out does not exist there"),
    ({"model": "/absent/model.srosr"}, "/absent/model.srosr does not exist there"),
    ({"token": "/absent/token"}, "is another one there"),
    ({"digest": "0" * 64}, "is not the model of the command, or was changed since"),
])  # fmt: skip
def test_a_worker_without_the_same_files_is_unfit(changes, words, place):
    with pytest.raises(UnfitWorkerError, match=re.escape(words)):
        predict_part(make_task(place, **changes))
    assert listing("out") == []


def test_a_part_that_changed_or_is_gone_is_at_fault(place):
    task = make_task(place)
    change_part(place)
    assert predict_part(task).error == f"{task.part} was changed since the command began: run it again."
    os.unlink(task.part)
    assert "b.csv does not exist" in predict_part(task).error
    assert listing("out") == []


# --- a cluster ---

cluster = pytest.mark.slow


@cluster
def test_a_cluster_of_this_machine_makes_the_same_decisions(place, expected):
    pytest.importorskip("distributed")
    (place / "parts" / "bad.csv").write_text("x\n1\n")
    done = run("predict", "model.srosr", "parts", "-o", "out")
    again = run("predict", "model.srosr", "parts", "-o", "cluster", "--cluster", "local:2")
    assert done.exit_code == again.exit_code == 1
    assert again.output == done.output.replace("Error: ", f"Error: {place}/").replace(": out", ": cluster")
    assert_decided("cluster", expected)


@pytest.fixture
def machines(tmp_path_factory):
    pytest.importorskip("distributed")
    from test_cluster import Machines

    made = []

    def start(**settings):
        made.append(Machines(tmp_path_factory.mktemp("machines"), settings))
        return made[-1]

    yield start
    for one in made:
        one.end()


@pytest.fixture
def many(place, table):
    """Make a folder with many parts, long enough to be interrupted, and return their decisions."""
    (place / "many").mkdir()
    samples = pd.concat([table.drop(columns="digit")] * 2)
    for i in range(12):
        write_table(samples, place / "many" / f"part-{i:02d}.parquet")
    right("predict", "model.srosr", "many", "-o", "whole", "-q")
    return decisions_in("whole")


def start_command(address):
    command = [sys.executable, "-m", "srosr", "predict", "model.srosr", "many", "-o", "out", "--cluster", address]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_parts(n, process):
    end = time.monotonic() + 120
    while len(list(Path("out").glob("*.parquet"))) < n:
        assert process.poll() is None and time.monotonic() < end, process.stdout.read()
        time.sleep(0.02)


@cluster
@unix
def test_a_killed_worker_costs_time_and_a_lost_scheduler_keeps_what_is_done(many, machines):
    cluster = machines()
    cluster.worker("--nthreads", "1", "--no-nanny")
    victim = cluster.worker("--nthreads", "1", "--no-nanny")
    cluster.wait_for(2)
    with start_command(cluster.address) as process:
        wait_for_parts(2, process)
        victim.kill()
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0 and output.startswith("12 parts, "), output
    check_same(decisions_in("out"), many)

    shutil.rmtree("out")
    with start_command(cluster.address) as process:
        wait_for_parts(2, process)
        cluster.scheduler.kill()
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 2
    assert re.fullmatch(
        r"Error: the scheduler at tcp://\S+ was lost\. Finished parts are kept: run the same command again to resume\.",
        output.strip(),
    )
    kept = decisions_in("out")
    assert len(kept) >= 2
    check_same(kept, {name: many[name] for name in kept})
    right("predict", "model.srosr", "many", "-o", "out")
    check_same(decisions_in("out"), many)


@cluster
@unix
def test_a_worker_without_the_package_is_named(place, machines):
    fake = place / "fake" / "srosr"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("raise ImportError('there is no srosr here')\n")
    cluster = machines(PYTHONPATH=os.pathsep.join([str(place / "fake"), *sys.path]))
    cluster.worker("--nthreads", "1", "--no-nanny")
    cluster.wait_for(1)
    message = error_of("predict", "model.srosr", "parts", "-o", "out", "--cluster", cluster.address)
    assert re.fullmatch(
        r"the worker tcp://\S+ cannot load srosr \(.*there is no srosr here.*\)\. "
        rf"Install srosr {re.escape(srosr.__version__)} there\.",
        message,
    )
    assert not os.path.exists("out")

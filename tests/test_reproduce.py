"""``srosr reproduce``: from a protocol to tables and a report, killed, resumed, distributed, and with clear errors."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_digits

from srosr.cli import reproduce as reproduce_command
from srosr.cli.app import main
from srosr.cli.trial_progress import trial_progress
from srosr.datasets.dataset import DatasetError, DatasetNotFound
from srosr.datasets.registry import load_dataset
from srosr.experiments import runner
from srosr.experiments.protocol import Protocol
from srosr.experiments.protocol_file import load_protocol
from srosr.experiments.result_tables import read_results
from srosr.reports import experiment_page as report_module
from srosr.reports import reproduction
from srosr.reports.reproduction import reproduce
from srosr.rivals.methods import open_set_methods

PROTOCOL = """
title = "Some digits"
methods = ["calibrated", "naive", "knn"]
trials = 4
[data]
file = "digits.npz"
[known]
classes = 4
train = 20
test = 10
[unknown]
classes = [1, 2]
test = 10
[method.calibrated]
n_repeats = 4
[method.naive]
problem = { name = "bpdn", epsilon = 0.3 }
"""
N_RECORDS = 4 * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("own")
    X, y = load_digits(n_class=7, return_X_y=True)
    np.savez(where / "digits.npz", X=X, y=y)
    (where / "some.toml").write_text(PROTOCOL)
    return where


def command(folder: Path, out: str, *options: str) -> list[str]:
    protocol, to = str(folder / "some.toml"), str(folder / out)
    return [sys.executable, "-m", "srosr", "reproduce", protocol, "--out", to, *options]


def run(folder: Path, out: str, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, out, *options), capture_output=True, text=True, timeout=300, **more)


# What a process runs as it starts, so that it draws no report.
NO_REPORT = """import sys, types
name = 'srosr.reports.experiment_page'
sys.modules[name] = types.ModuleType(name)
sys.modules[name].write_report = lambda path, **_: None
"""


@pytest.fixture(scope="module")
def without_report(tmp_path_factory):
    """Return an environment in which no report is drawn, which takes half of a run: for tests of tables."""
    where = tmp_path_factory.mktemp("stand-in")
    (where / "sitecustomize.py").write_text(NO_REPORT)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(where), os.environ.get("PYTHONPATH", "")])}


@pytest.fixture(scope="module")
def undisturbed(folder, without_report):
    done = run(folder, "undisturbed", "--jobs", "1", env=without_report)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 trials" in done.stderr
    return folder / "undisturbed" / "some"


class Here:
    """Does tasks at once, in this process."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def versions(self):
        return []

    def run(self, function, tasks):
        for number, task in enumerate(tasks):
            yield number, function(task)


def tables(where: Path) -> list[bytes]:
    return [(where / name).read_bytes() for name in ("results.parquet", "results.csv", "coverage.csv", "failures.csv")]


def test_a_run_ends_in_tables_and_a_report(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "make_executor", lambda *_: Here())
    done = CliRunner().invoke(main, ["reproduce", str(folder / "some.toml"), "--out", str(tmp_path), "--trials", "2"])
    assert done.exit_code == 0, done.output
    where = tmp_path / "some"
    results = read_results(where / "results.parquet")
    assert len(results) == 2 * 2 * 3 * 10
    assert set(results["method"]) == {"calibrated", "naive", "knn"}
    assert sorted(results["n_unknown"].unique()) == [1, 2]
    page = (where / "report.html").read_text()
    assert "Some digits" in page and page.count("<svg") >= 8
    pictures = sorted((where / "figures").glob("*.png"))
    assert len(pictures) == page.count("<svg")
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    assert "calibrated" in done.stdout and "report.html" in done.stdout
    assert "2 of 2 trials" in done.stderr


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_same_tables_to_the_bit(folder, undisturbed, without_report):
    where = folder / "killed" / "some"
    rng = np.random.default_rng(0)
    kills = 0
    for attempt in range(30):
        process = subprocess.Popen(
            command(folder, "killed", "--jobs", "2"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=without_report if kills != 1 else None,
        )
        before = len(list(where.glob("trials/*/*.json")))
        deadline = time.monotonic() + 120
        # The first is killed when something has been stored, the second wherever it is; then it may end.
        while process.poll() is None and time.monotonic() < deadline:
            stored = len(list(where.glob("trials/*/*.json")))
            if kills < 1 and stored > before and stored < N_RECORDS:
                time.sleep(rng.uniform(0, 0.3))
                break
            if kills == 1 and attempt == 1:
                time.sleep(rng.uniform(1, 6))
                break
            time.sleep(0.05)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        if process.wait() == 0:
            break
    assert kills >= 1
    assert process.returncode == 0
    assert tables(where) == tables(undisturbed)


@pytest.mark.slow
def test_two_processes_find_the_same_as_one_and_so_do_dask_workers(folder, undisturbed, without_report):
    pytest.importorskip("distributed", reason="the extra cluster is not installed")
    for out, options in (("two", ("--jobs", "2")), ("dask", ("--cluster", "local:2"))):
        done = run(folder, out, *options, env=without_report)
        assert done.returncode == 0, done.stderr
        assert tables(folder / out / "some") == tables(undisturbed)


@pytest.mark.slow
def test_more_trials_and_methods_go_into_the_same_folder(folder, undisturbed, without_report):
    few = run(folder, "grown", "--trials", "2", "--methods", "knn", "--jobs", "1")
    assert few.returncode == 0, few.stderr
    assert len(read_results(folder / "grown" / "some" / "results.parquet")) == 2 * 2 * 10
    assert ": means" in few.stdout and "95 %" not in few.stdout and "The folder has" not in few.stdout
    page = (folder / "grown" / "some" / "report.html").read_text()
    assert "threshold = rejects 5 % of known samples (default)" in page
    fewer = run(folder, "grown", "--trials", "1", "--methods", "knn", "--jobs", "1", env=without_report)
    assert fewer.returncode == 0, fewer.stderr
    assert "1 of 1 trials are done already" in fewer.stderr
    assert "The folder has 2 trials; all are reported." in fewer.stdout
    done = run(folder, "grown", "--jobs", "1", env=without_report)
    assert done.returncode == 0, done.stderr
    assert tables(folder / "grown" / "some") == tables(undisturbed)


@pytest.mark.slow
def test_a_method_may_join_the_protocol_but_none_may_change(folder, undisturbed, without_report, tmp_path):
    (tmp_path / "digits.npz").write_bytes((folder / "digits.npz").read_bytes())
    call = [sys.executable, "-m", "srosr", "reproduce", str(tmp_path / "some.toml"), "--out", str(tmp_path / "out")]
    text = PROTOCOL.replace("trials = 4", "trials = 1").replace(
        'file = "digits.npz"', f'file = "{folder / "digits.npz"}"'
    )
    (tmp_path / "some.toml").write_text(text)
    assert subprocess.run(call, capture_output=True, timeout=200, env=without_report).returncode == 0
    joined = text.replace('"knn"]', '"knn", "strict"]') + '[method.strict]\nmethod = "calibrated"\nn_repeats = 3\n'
    (tmp_path / "some.toml").write_text(joined)
    done = subprocess.run(call, capture_output=True, text=True, timeout=200, env=without_report)
    assert done.returncode == 0, done.stderr
    results = read_results(tmp_path / "out" / "some" / "results.parquet")
    assert set(results["method"]) == {"calibrated", "naive", "knn", "strict"}
    first = results[results["method"] != "strict"].reset_index(drop=True)
    before = read_results(undisturbed / "results.parquet").query("trial == 0").reset_index(drop=True)
    assert first.equals(before)
    (tmp_path / "some.toml").write_text(joined.replace("n_repeats = 3", "n_repeats = 2"))
    changed = subprocess.run(call, capture_output=True, text=True, timeout=200)
    assert changed.returncode == 2 and "strict" in changed.stderr and "n_repeats" in changed.stderr


@pytest.mark.slow
def test_a_changed_protocol_in_an_old_folder_is_an_error(folder, undisturbed):
    where, before = undisturbed, tables(undisturbed)
    changed = folder / "changed"
    changed.mkdir()
    (changed / "digits.npz").write_bytes((folder / "digits.npz").read_bytes())
    (changed / "some.toml").write_text(PROTOCOL.replace("train = 20", "train = 19"))
    out = str(folder / "undisturbed")
    done = subprocess.run(
        [sys.executable, "-m", "srosr", "reproduce", str(changed / "some.toml"), "--out", out],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 2
    assert "results of another run" in done.stderr and "train" in done.stderr
    assert tables(where) == before
    seeded = run(folder, "undisturbed", "--seed", "1")
    assert seeded.returncode == 2 and "seed" in seeded.stderr


@pytest.mark.slow
def test_a_failing_method_shows_in_status_and_report_and_is_tried_again_on_request(folder, tmp_path):
    text = PROTOCOL.replace('"knn"]', '"w-svm"]').replace("trials = 4", "trials = 1")
    (tmp_path / "bad.toml").write_text(text + "[method.w-svm]\nnu = 0.5\n")
    X, y = load_digits(n_class=7, return_X_y=True)
    np.savez(tmp_path / "digits.npz", X=X, y=y)
    helper = tmp_path / "sitecustomize.py"
    helper.write_text(
        "import os\n"
        "if os.environ.get('BREAK_WSVM'):\n"
        "    from srosr import WSVM\n"
        "    def fail(*_):\n"
        "        raise ValueError('no machine <today>')\n"
        "    WSVM._fit = fail\n"
        "if os.environ.get('NO_REPORT'):\n" + textwrap.indent(NO_REPORT, "    ")
    )
    call = [sys.executable, "-m", "srosr", "reproduce", str(tmp_path / "bad.toml"), "--out", str(tmp_path / "out")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    broken = subprocess.run(call, capture_output=True, text=True, timeout=200, env=environment | {"BREAK_WSVM": "1"})
    assert broken.returncode == 1, broken.stderr
    assert "FAILED trial 0 w-svm: ValueError: no machine <today>" in broken.stdout
    assert "no machine &lt;today&gt;" in (tmp_path / "out" / "bad" / "report.html").read_text()
    assert set(read_results(tmp_path / "out" / "bad" / "results.parquet")["method"]) == {"calibrated", "naive"}
    environment["NO_REPORT"] = "1"
    again = subprocess.run(call, capture_output=True, text=True, timeout=200, env=environment)
    assert again.returncode == 1
    mended = subprocess.run([*call, "--retry-failed"], capture_output=True, text=True, timeout=200, env=environment)
    assert mended.returncode == 0, mended.stderr
    assert "w-svm" in set(read_results(tmp_path / "out" / "bad" / "results.parquet")["method"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["yalb"], "did you mean 'yaleb'?"),
        (["digits", "--methods", "wsvm"], "did you mean 'w-svm'?"),
        (["digits", "--methods", ","], "--methods is empty"),
        (["digits", "--cluster", "here"], "is not a cluster"),
        (["digits", "--cluster", "local:2", "--jobs", "2"], "exclude each other"),
        (["nothing.toml"], "cannot read the protocol nothing.toml"),
        ([], "name an experiment"),
        (["digits", "--trials", "1000001"], "1000001 is not in the range 1<=x<=1000000"),
    ],
)
def test_impossible_requests_are_reported_at_once(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["reproduce", *arguments])
    assert done.exit_code == 2 and message in done.output
    assert list(tmp_path.iterdir()) == []


def test_an_impossible_protocol_says_which_count_is_wrong(folder, tmp_path):
    (tmp_path / "big.toml").write_text(
        PROTOCOL.replace('"digits.npz"', f'"{folder / "digits.npz"}"').replace("classes = 4", "classes = 40")
    )
    done = CliRunner().invoke(main, ["reproduce", str(tmp_path / "big.toml"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "asks for 40 classes" in done.output and "only 7 of the 7 classes" in done.output
    assert not (tmp_path / "out").exists()


def test_data_that_are_not_to_be_had_are_an_error_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("SROSR_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("SROSR_CACHE_DIR", str(tmp_path / "cache"))

    def offline(url, target, checksum=None):
        raise DatasetError(f"cannot download {url}: no network.")

    monkeypatch.setattr("srosr.datasets.fetch.download_file", offline)
    done = CliRunner().invoke(main, ["reproduce", "yaleb", "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "Error: yaleb: YaleB_32x32.mat " in done.output and "\nPut YaleB_32x32.mat" in done.output
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_to_is_reported_before_any_work(folder, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("a file")
    done = CliRunner().invoke(main, ["reproduce", str(folder / "some.toml"), "--out", str(taken)])
    assert done.exit_code == 2 and "taken" in done.output
    assert taken.read_text() == "a file"


@pytest.mark.parametrize(("out", "blamed"), [("taken/below", "taken"), ("folder", "folder/some")])
def test_the_folder_is_tried_before_the_data_are_loaded(folder, tmp_path, monkeypatch, out, blamed):
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "some").write_text("a file")

    def loaded(self):
        raise AssertionError("the data were loaded")

    monkeypatch.setattr(Protocol, "load_dataset", loaded)
    done = CliRunner().invoke(main, ["reproduce", str(folder / "some.toml"), "--out", str(tmp_path / out)])
    assert done.exit_code == 2, done.output
    why = f"{tmp_path / blamed} is a file, not a folder"
    assert f"could not write to {tmp_path / out / 'some'}: {why}." in done.output
    assert "Fix this, or give another --out." in done.output and "finished" not in done.output
    assert {path.name for path in tmp_path.iterdir()} == {"taken", "folder"}


def test_a_folder_that_was_there_stays_where_the_data_cannot_be_loaded(folder, tmp_path, monkeypatch):
    def damaged(self):
        raise DatasetError("damaged")

    monkeypatch.setattr(Protocol, "load_dataset", damaged)
    (tmp_path / "out").mkdir()
    done = CliRunner().invoke(main, ["reproduce", str(folder / "some.toml"), "--out", str(tmp_path / "out" / "new")])
    assert done.exit_code == 1 and list(tmp_path.iterdir()) == [tmp_path / "out"]
    assert list((tmp_path / "out").iterdir()) == []


def test_a_cluster_that_cannot_be_reached_leaves_nothing_in_a_new_folder(folder, tmp_path):
    pytest.importorskip("distributed", reason="the extra cluster is not installed")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        options = ["--cluster", f"tcp://127.0.0.1:{unused.getsockname()[1]}", "--out", str(tmp_path / "out")]
        done = CliRunner().invoke(main, ["reproduce", str(folder / "some.toml"), *options])
    assert done.exit_code == 2 and "no Dask scheduler answers" in done.output
    assert list(tmp_path.iterdir()) == []


# --- texts of users ---


@pytest.mark.slow
def test_brackets_in_titles_and_names_are_shown_as_they_are(folder, tmp_path):
    (tmp_path / "digits.npz").write_bytes((folder / "digits.npz").read_bytes())
    text = PROTOCOL.replace("Some digits", "Prices [/b] of [red]things :smile:").replace("trials = 4", "trials = 1")
    file = tmp_path / "mine [bold].toml"
    file.write_text(text)
    out = tmp_path / "out [" / "i] :smile:"
    options = ["--methods", "knn", "--jobs", "1", "--out", str(out)]
    done = CliRunner().invoke(main, ["reproduce", str(file), *options], env={"COLUMNS": "250"})
    assert done.exit_code == 0, done.output
    assert "Prices [/b] of [red]things :smile:" in done.output and "mine [bold]: 1 of 1 trials" in done.output
    assert f"Report: {out}" in done.output
    again = CliRunner().invoke(main, ["reproduce", str(file), *options, "--seed", "1"])
    assert again.exit_code == 2 and "out [/i] :smile:" in again.output


def test_brackets_do_not_disturb_the_bar_of_a_terminal():
    from rich.console import Console

    shown = io.StringIO()
    with trial_progress(Console(file=shown, force_terminal=True, width=150), "a [/b] name") as progress:
        progress(0, 4, 0.0)
        progress(1, 4, 60.0)
    assert "a [/b] name" in shown.getvalue() and "about 3 min left" in shown.getvalue()


def test_progress_counts_on_from_what_is_there_and_reckons_with_what_is_new():
    from rich.console import Console

    shown = io.StringIO()
    with trial_progress(Console(file=shown, width=150), "some") as progress:
        progress(4, 6, 0.0)
        progress(5, 6, 60.0)
        progress(6, 6, 120.0)
    assert shown.getvalue().splitlines() == [
        "some: 4 of 6 trials are done already",
        "some: 5 of 6 trials, 1 min, about 1 min left",
        "some: 6 of 6 trials, 2 min",
        "some: writing tables, figures and report",
    ]


# --- stand-ins for data that cannot be downloaded ---


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Of "all", only the stand-ins; the folder of data, which is empty."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("SROSR_DATA_DIR", str(data))
    monkeypatch.setenv("SROSR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(reproduce_command, "FOUR", ())
    return data


def test_stand_ins_that_are_nowhere_are_left_out_of_all(stand_ins, tmp_path):
    done = CliRunner().invoke(main, ["reproduce", "all", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    for name in ("caltech101", "caltech256-clip"):
        assert f"{name} is left out: its data are not available." in done.output
    assert not (tmp_path / "out").exists()


def test_a_stand_in_that_is_named_beside_all_is_not_left_out(stand_ins, tmp_path):
    done = CliRunner().invoke(main, ["reproduce", "all", "caltech101", "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "Error: caltech101: " in done.output and "caltech256-clip is left out" in done.output


@pytest.mark.parametrize("place", ["data", "cache"])
def test_a_stand_in_that_is_damaged_is_an_error(stand_ins, tmp_path, place):
    file = tmp_path / place / "caltech101" / "caltech101_dsift_spm_counts.npz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no archive")
    done = CliRunner().invoke(main, ["reproduce", "all", "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "Error: caltech101: " in done.output and "caltech101 is left out" not in done.output
    assert "caltech256-clip is left out" in done.output


def test_missing_and_damaged_files_are_distinguished(stand_ins):
    with pytest.raises(DatasetNotFound):
        load_dataset("caltech101")
    (stand_ins / "caltech101_dsift_spm_counts.npz").write_bytes(b"no archive")
    with pytest.raises(DatasetError) as caught:
        load_dataset("caltech101")
    assert not isinstance(caught.value, DatasetNotFound)


# --- what the report says of trials ---


LIMITED = PROTOCOL.replace("trials = 4", "trials = 3").replace('"calibrated", "naive", "knn"', '"knn", "svm", "osnn"')
LIMITED = LIMITED[: LIMITED.index("[method.calibrated]")] + "[method.svm]\ntrials = 2\n[method.osnn]\ntrials = 1\n"


@pytest.mark.slow
def test_the_report_counts_the_trials_of_each_method(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(report_module, "draw_sections", lambda *_, **__: [])
    (tmp_path / "limited.toml").write_text(LIMITED.replace("digits.npz", str(folder / "digits.npz")))
    protocol, out = load_protocol(tmp_path / "limited.toml"), tmp_path / "out"

    def page(**options):
        text = reproduce(protocol, out, Here(), **options).report.read_text()
        return " ".join(re.sub(r"<style>.*?</style>|<[^>]*>", " ", text, flags=re.DOTALL).split())

    first = page(trials=1, methods=["knn"])
    assert "trials 1 of 1" in first and "methods 1: knn" in first and "as set in the protocol" not in first
    # Others join, none of them was there: the time of the whole is not known all the same.
    joined = page(trials=1, methods=["svm"])
    assert "methods 2: knn, svm" in joined and "was resumed" in joined
    whole = page()
    assert "Incomplete" not in whole and "trials 3 of 3" in whole
    assert "svm: only 2 trials, as set in the protocol." in whole
    assert "osnn: only 1 trial, as set in the protocol." in whole
    assert "2 of 3 trials" in whole and "1 of 3 trials" in whole and "calibrated" not in whole
    fewer = page(trials=1, methods=["osnn"])
    assert "Incomplete" not in fewer and "trials 3 of 3" in fewer and "trials 3 seed" in fewer
    assert "svm: only 2 trials, as set in the protocol." in fewer and "methods 3: " in fewer


def test_the_settings_say_which_threshold_a_method_has_by_default(tmp_path):
    text = "[method.knn]\nthreshold = 0.5\n[method.paper]\nopenness = 'level'\n[method.svm]\ntarget_rejection = 0.01\n"
    (tmp_path / "some.toml").write_text(PROTOCOL[: PROTOCOL.index("[method.")].replace("methods =", "#") + text)
    protocol = load_protocol(tmp_path / "some.toml")
    said = {setting.name: reproduction._describe_method(setting) for setting in protocol.methods}
    default = "rejects 5 % of known samples (default)"
    assert said["paper"] == {"threshold": default, "openness": "of each level"}
    assert said["knn"] == {"threshold": 0.5} and said["svm"] == {"target_rejection": 0.01}
    others = [name for name in said if name not in ("paper", "knn", "svm")]
    assert others and all(said[name] == {"threshold": default} for name in others)
    assert all(clf.threshold is None for clf in open_set_methods().values())


def test_the_list_names_every_experiment():
    done = CliRunner().invoke(main, ["reproduce", "--list"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    for name in ("yaleb", "mnist", "uiuc", "caltech256", "digits", "24.94–29.29 %", "18.35–35.45 %"):
        assert name in done.output

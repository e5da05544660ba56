"""The folder of a run: whole records or none, one run at a time, and only the run that it belongs to."""

import errno
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples
from work_for_runner import METHODS, record, times

from srosr import __version__
from srosr._support import atomic_files as atomic_file
from srosr.experiments.results_folder import ResultsFolder, ResultsFolderError
from srosr.experiments.run_identity import DamagedFile, decode, encode

IDENTITY = {"experiment": "letters", "protocol": {"known": 10, "levels": [0, 2, 4], "method": {"C": 1.0}}, "seed": 7}

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
json_values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
contents = st.dictionaries(st.text(), json_values)


def same(a, b):
    """Return whether values are equal bit for bit, where NaN equals NaN and 0.0 does not equal -0.0."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


def stored(folder, trial=3, method="osnn", error=None):
    folder.write(record(trial, method, error), times(trial, method))
    return folder.path / "trials" / f"{trial:04d}" / f"{method}.json"


def all_files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


# --- files of records ---


def holds_the_mark_of_nan(value):
    if isinstance(value, dict):
        return set(value) == {"float"} or any(map(holds_the_mark_of_nan, value.values()))
    return isinstance(value, list) and any(map(holds_the_mark_of_nan, value))


@settings(deadline=None, max_examples=examples(60))
@given(contents)
def test_what_is_written_reads_back_to_the_bit(content):
    if holds_the_mark_of_nan(content):
        with pytest.raises(TypeError, match="float"):
            encode(content)
    else:
        assert same(decode(encode(content)), content)


@settings(deadline=None, max_examples=examples(60))
@given(contents.filter(lambda c: not holds_the_mark_of_nan(c)), st.data())
def test_a_file_cut_short_is_never_trusted(content, data):
    whole = encode(content).rstrip(b"\n")
    with pytest.raises(DamagedFile):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@settings(deadline=None, max_examples=examples(60))
@given(contents.filter(lambda c: not holds_the_mark_of_nan(c)), st.data())
def test_a_garbled_file_never_reads_as_something_else(content, data):
    garbled = bytearray(encode(content))
    garbled[data.draw(st.integers(0, len(garbled) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(bytes(garbled))
    except DamagedFile:
        return
    assert same(found, content)


@settings(deadline=None, max_examples=examples(60))
@given(st.binary(max_size=200))
def test_other_files_raise_an_error(data):
    with pytest.raises(DamagedFile):
        decode(data)


@pytest.mark.parametrize("text", ["[]", "{}", "[" * 100_000, '{"sha256": 1, "content": {}}', '{"content": {"a": NaN}}'])
def test_other_json_raises_an_error(text):
    with pytest.raises(DamagedFile):
        decode(text.encode())


def test_numpy_values_are_written_as_numbers():
    content = {"a": np.float64(0.1), "b": np.int64(3), "c": np.array([1.5, np.nan]), "d": (1, 2), "e": np.bool_(True)}
    assert same(decode(encode(content)), {"a": 0.1, "b": 3, "c": [1.5, math.nan], "d": [1, 2], "e": True})


@pytest.mark.parametrize("content", [{"a": object()}, {"a": {1: 2}}, {"a": {1, 2}}, {"a": b"bytes"}, {"a": 1j}])
def test_what_json_cannot_express_raises_an_error_that_names_it(content):
    with pytest.raises(TypeError, match="a record"):
        encode(content)


# --- records ---


def test_records_come_back_as_they_were_in_the_order_asked_for(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        for trial, method in ((12345, "osnn"), (0, "w-svm"), (2, "osnn"), (0, "calibrated")):
            stored(folder, trial, method)
        found = list(folder.records(METHODS))
        assert [(one["trial"], one["method"]) for one in found] == [
            (0, "calibrated"),
            (0, "w-svm"),
            (2, "osnn"),
            (12345, "osnn"),
        ]
        assert all(same(one, record(one["trial"], one["method"])) for one in found)
        assert [one["method"] for one in folder.records(["w-svm", "calibrated"], trials=[0, 2])] == [
            "w-svm",
            "calibrated",
        ]
        assert [(one["trial"], one["predict"]) for one in folder.times(METHODS, [2])] == [(2, 0.25)]
        assert folder.find_finished(0) == {"calibrated", "w-svm"}
        assert folder.find_finished(1) == set()
        assert folder.record(1, "osnn") is None
    assert (tmp_path / "trials/0002/osnn.json").is_file()
    assert (tmp_path / "times/0002/osnn.json").is_file()


def test_times_are_not_in_the_records_file(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        path = stored(folder)
        before = path.read_bytes()
        folder.write(record(3, "osnn"), times(3, "osnn") | {"fit": 99.0})
        assert path.read_bytes() == before


def halved(data):
    return data[: len(data) // 2]


def one_digit_changed(data):
    at = data.rindex(b"7")
    return data[:at] + b"8" + data[at + 1 :]


@pytest.mark.parametrize("damage", [halved, one_digit_changed, lambda data: b"", lambda data: bytes(len(data))])
def test_a_damaged_record_is_moved_away_and_counts_as_not_done(tmp_path, damage):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        path = stored(folder)
        good = path.read_bytes()
        path.write_bytes(damage(good))
        assert folder.find_finished(3) == set()
        assert not path.exists()
        assert path.with_name("osnn.json.bad").read_bytes() == damage(good)
        assert folder.record(3, "osnn") is None
        assert list(folder.records(METHODS)) == []
        stored(folder)
        assert path.read_bytes() == good


def test_a_record_in_the_place_of_another_is_not_trusted(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        path = stored(folder)
        shutil.copy(path, path.with_name("w-svm.json"))
        assert folder.find_finished(3) == {"osnn"}


def test_reading_without_entering_moves_and_locks_nothing(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        stored(folder, method="w-svm")
        path = stored(folder)
        path.write_bytes(b"{")
        before = all_files(tmp_path)
        reader = ResultsFolder.open_existing(tmp_path)
        assert reader.identity == IDENTITY
        assert [one["method"] for one in reader.records(METHODS)] == ["w-svm"]
        assert reader.versions() == folder.versions()
        assert all_files(tmp_path) == before
        with pytest.raises(RuntimeError, match="enter the folder"):
            reader.write(record(0, "osnn"), times(0, "osnn"))


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "-a", ".a", "a b", "ä", "a" * 101, "a\n", 3])
def test_a_method_that_is_no_safe_file_name_raises_an_error(tmp_path, name):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        with pytest.raises(ValueError, match="is not a valid method name"):
            folder.write({"trial": 0, "method": name, "error": None}, {"trial": 0, "method": name})
        with pytest.raises(ValueError, match="is not a valid method name"):
            folder.record(0, name)


@pytest.mark.parametrize("trial", [-1, 1.0, True, "0", 10**9])
def test_a_trial_that_is_no_number_raises_an_error(tmp_path, trial):
    with ResultsFolder(tmp_path, IDENTITY) as folder, pytest.raises(ValueError, match="trial"):
        folder.write({"trial": trial, "method": "a", "error": None}, {"trial": trial, "method": "a"})


def test_times_of_another_record_and_errors_that_are_no_text_raise_an_error(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        with pytest.raises(ValueError, match="times are of trial 4"):
            folder.write(record(3, "osnn"), times(4, "osnn"))
        with pytest.raises(ValueError, match="error must be"):
            folder.write(record(3, "osnn") | {"error": 5}, times(3, "osnn"))
        assert folder.find_finished(3) == set()


def test_failures_are_finished_unless_they_are_to_be_tried_again(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        stored(folder, 0, "osnn", "ValueError: no")
        stored(folder, 0, "w-svm")
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        assert folder.find_finished(0) == {"osnn", "w-svm"}
    with ResultsFolder(tmp_path, IDENTITY, retry_failed=True) as folder:
        assert folder.find_finished(0) == {"w-svm"}
        assert [one["method"] for one in folder.times(METHODS)] == ["w-svm"]


def test_leftovers_of_a_killed_run_are_removed_and_nothing_else_is(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        path = stored(folder)
    for place in (tmp_path, path.parent, tmp_path / "times/0003"):
        (place / ".osnn.json.0123456789abcdef.tmp").write_bytes(b"half")
        (place / "mine.tmp").write_bytes(b"mine")
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        assert folder.find_finished(3) == {"osnn"}
    left = {name for name in all_files(tmp_path) if name.endswith(".tmp")}
    assert left == {"mine.tmp", "trials/0003/mine.tmp", "times/0003/mine.tmp"}


# --- whose folder it is ---


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"seed": 8}, "seed was 7 and is 8 now"),
        ({"seed": True}, "seed was 7 and is true now"),
        ({"seed": "7"}, 'seed was 7 and is "7" now'),
        ({"protocol": {"known": 10, "levels": [0, 2, 5], "method": {"C": 1.0}}}, "protocol.levels[2] was 4 and is 5"),
        (
            {"protocol": {"known": 10, "levels": [0, 2], "method": {"C": 1.0}}},
            "levels was [0, 2, 4] and is [0, 2] now",
        ),
        ({"protocol": {"known": 10, "levels": [0, 2, 4], "method": {}}}, "protocol.method.C was 1.0 and is absent now"),
        ({"new": "x" * 500}, "new was absent and is"),
    ],
)
def test_another_run_raises_an_error_that_names_what_differs(tmp_path, change, expected):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        stored(folder)
    before = all_files(tmp_path)
    with pytest.raises(ResultsFolderError) as caught, ResultsFolder(tmp_path, IDENTITY | change):
        pass
    message = str(caught.value)
    assert expected in message
    assert "--out" in message
    assert str(tmp_path) in message
    assert len(message) < len(str(tmp_path)) + 250
    assert all_files(tmp_path) == before
    with ResultsFolder(tmp_path, IDENTITY) as folder:  # and the lock was let go
        assert folder.find_finished(3) == {"osnn"}


def test_many_differences_are_counted_not_listed(tmp_path):
    with ResultsFolder(tmp_path, {"a": list(range(20))}):
        pass
    with pytest.raises(ResultsFolderError, match="and 15 more"), ResultsFolder(tmp_path, {"a": list(range(1, 21))}):
        pass


def test_the_same_run_written_differently_is_the_same(tmp_path):
    with ResultsFolder(tmp_path, {"a": 1, "b": (2, 3), "c": {"x": math.inf, "y": math.nan}}):
        pass
    with ResultsFolder(tmp_path, {"c": {"y": math.nan, "x": math.inf}, "b": [2.0, np.int64(3)], "a": 1.0}):
        pass


def test_an_identity_that_json_cannot_express_raises_an_error(tmp_path):
    with pytest.raises(TypeError, match="identity"):
        ResultsFolder(tmp_path, {"a": object()})


def test_results_without_a_valid_run_json_raise_an_error(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        stored(folder)
    run = tmp_path / "run.json"
    run.write_bytes(run.read_bytes().replace(b'"seed":7', b'"seed":8'))
    with pytest.raises(ResultsFolderError, match="missing or damaged"), ResultsFolder(tmp_path, IDENTITY):
        pass
    with pytest.raises(ResultsFolderError, match="damaged"):
        ResultsFolder.open_existing(tmp_path)
    run.unlink()
    with pytest.raises(ResultsFolderError, match="missing or damaged"), ResultsFolder(tmp_path, IDENTITY):
        pass
    with pytest.raises(ResultsFolderError, match=r"run\.json"):
        ResultsFolder.open_existing(tmp_path)


def test_a_damaged_run_json_without_results_is_written_anew(tmp_path):
    (tmp_path / "run.json").write_bytes(b"{")
    with ResultsFolder(tmp_path, IDENTITY):
        assert ResultsFolder.open_existing(tmp_path).identity == IDENTITY


def test_versions_are_noted_once_and_are_no_part_of_the_identity(tmp_path):
    for _ in range(2):
        with ResultsFolder(tmp_path, IDENTITY) as folder:
            (versions,) = folder.versions()
    assert versions["srosr"] == __version__
    assert versions["numpy"] == np.__version__
    assert set(versions) == {"srosr", "numpy", "scipy", "scikit-learn", "numba", "python", "machine"}
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        folder.note_versions(versions | {"numpy": "0.1"})
        folder.note_versions(versions | {"numpy": "0.1"})
        assert [one["numpy"] for one in folder.versions()] == [np.__version__, "0.1"]
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        assert len(folder.versions()) == 2


# --- one run at a time ---

HOLD = """
import sys, time
from srosr.experiments.results_folder import ResultsFolder
with ResultsFolder(sys.argv[1], {"a": 1}):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_run_reports_who_uses_the_folder_until_that_run_is_killed(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        before = all_files(tmp_path)
        with pytest.raises(ResultsFolderError) as caught, ResultsFolder(tmp_path, {"a": 1}):
            pass
        assert f"another run is writing to {tmp_path} (process {holder.pid} on " in str(caught.value)
        assert "--out" in str(caught.value)
        assert all_files(tmp_path) == before
        holder.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        holder.wait(10)
        with ResultsFolder(tmp_path, {"a": 1}):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_two_folders_of_one_process_exclude_each_other_too(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY):
        with pytest.raises(ResultsFolderError, match=f"process {os.getpid()} "), ResultsFolder(tmp_path, IDENTITY):
            pass
        with pytest.raises(ResultsFolderError, match="another run"), ResultsFolder(tmp_path, IDENTITY):
            pass
    with ResultsFolder(tmp_path, IDENTITY):
        pass
    assert not (tmp_path / ".holder").exists()


# --- disks that are full, and folders that cannot be had ---


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_full_disk_is_a_clear_error_and_costs_nothing_that_is_finished(tmp_path, monkeypatch, call, code):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        stored(folder, 0)
        before = all_files(tmp_path)

        def full(*_):
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(atomic_file.os, call, full)
            with pytest.raises(ResultsFolderError) as caught:
                stored(folder, 1)
            with pytest.raises(ResultsFolderError):
                folder.write(record(0, "osnn", "other"), times(0, "osnn"))
        message = str(caught.value)
        assert os.strerror(code) in message
        assert str(tmp_path / "times" / "0001" / "osnn.json") in message
        assert "kept" in message and "same command" in message
        assert all_files(tmp_path) == before
        assert folder.find_finished(1) == set()
        stored(folder, 1)
        assert folder.find_finished(1) == {"osnn"}


@pytest.mark.parametrize("size", [100, 5_000])
def test_a_file_that_the_system_really_cuts_short_leaves_no_trace(tmp_path, size):
    resource = pytest.importorskip("resource")
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        stored(folder, 1)
        before = all_files(tmp_path)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # The portrait of trial 0 makes its record larger than this.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            with pytest.raises(ResultsFolderError, match=os.strerror(errno.EFBIG)):
                stored(folder, 0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert {name: data for name, data in all_files(tmp_path).items() if "times" not in name} == {
            name: data for name, data in before.items() if "times" not in name
        }
        assert folder.find_finished(0) == set()
        assert folder.find_finished(1) == {"osnn"}


def test_ctrl_c_while_writing_leaves_no_trace(tmp_path, monkeypatch):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        before = all_files(tmp_path)

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(atomic_file.os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stored(folder)
        assert all_files(tmp_path) == before


def test_a_run_that_cannot_start_takes_back_what_it_wrote_to_a_new_folder(tmp_path):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        folder.withdraw()
    assert all_files(tmp_path) == {}
    with ResultsFolder(tmp_path, IDENTITY):
        pass
    before = (tmp_path / "run.json").read_bytes()
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        folder.withdraw()
    assert (tmp_path / "run.json").read_bytes() == before


def test_a_file_in_place_of_the_folder_raises_an_error(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ResultsFolderError, match="is a file"), ResultsFolder(tmp_path / "out", IDENTITY):
        pass
    with pytest.raises(ResultsFolderError, match=r"could not make the folder .*or give another --out\.$"):
        ResultsFolder(tmp_path / "out" / "below", IDENTITY).__enter__()
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_without_permission_is_a_clear_error(tmp_path):
    tmp_path.chmod(0o500)
    try:
        for path in (tmp_path, tmp_path / "new"):
            with pytest.raises(ResultsFolderError, match=os.strerror(errno.EACCES)), ResultsFolder(path, IDENTITY):
                pass
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_cannot_be_written_to_is_a_clear_error(tmp_path, monkeypatch):
    def deny(path, *_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", deny)
        with pytest.raises(ResultsFolderError, match=os.strerror(errno.EACCES)), ResultsFolder(tmp_path, IDENTITY):
            pass


def test_a_record_that_cannot_be_read_is_left_where_it_is(tmp_path, monkeypatch):
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        path = stored(folder)

        def broken(self):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", broken)
            with pytest.raises(ResultsFolderError, match="could not read"):
                folder.find_finished(3)
        assert path.is_file()
        assert folder.find_finished(3) == {"osnn"}


def test_folders_above_are_made_and_the_files_are_plain_json():
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "a", "b", "c")
        with ResultsFolder(path, IDENTITY):
            assert json.loads((path / "run.json").read_text())["content"]["identity"] == IDENTITY

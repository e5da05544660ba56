"""Changes of a model file: the old or the new one, whatever happens, and a history that tells which."""

import json
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from filelock import FileLock
from sklearn.datasets import load_digits

import srosr
from srosr.server import model_changes
from srosr.server.model_changes import (
    CannotWrite,
    Change,
    ChangedMeanwhile,
    GivenUp,
    UnknownVersion,
    Wish,
    commit_change,
    compute_version,
    find_kept,
    list_versions,
    settle,
)

CHANGE = Change("digits", "set-threshold", {"threshold": 0.9}, "127.0.0.1")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "digits.srosr"
    path.write_bytes(b"the first version")
    return path


def make_new(source, content):
    path = source.parent / "changed"
    path.write_bytes(content)
    return path


def commit(source, content, before=None, change=CHANGE):
    return commit_change(source, make_new(source, content), before=before or compute_version(source), change=change)


def read_audit(source):
    path = source.parent / f"{source.name}.history/audit.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check_audit(source):
    """Every change that was begun has an end, and the last that was done is the one in the file."""
    lines = read_audit(source)
    begun = [line["number"] for line in lines if line["state"] == "begun"]
    ended = [line["number"] for line in lines if line["state"] != "begun"]
    assert sorted(begun) == sorted(ended) and len(set(begun)) == len(begun)
    done = [line for line in lines if line["state"] == "done"]
    assert all(one["after"] == other["before"] for one, other in pairwise(done))
    assert not done or done[-1]["after"] == compute_version(source)
    assert {line["state"] for line in lines} <= {"begun", "done", "undone"}


# -- what is kept ------------------------------------------------------------------------------------------


def test_a_change_replaces_the_file_keeps_the_old_one_and_says_so(source):
    before = compute_version(source)
    after = commit(source, b"the second version")
    assert source.read_bytes() == b"the second version" and after == compute_version(source)
    assert find_kept(source, before).read_bytes() == b"the first version"
    first, second = list_versions(source)
    assert first["version"] == after and first["current"] and not first["kept"] and first["change"] == "set-threshold"
    assert first["by"] == "127.0.0.1" and first["details"] == {"threshold": 0.9} and first["time"].endswith("Z")
    assert second == {
        "version": before, "time": None, "change": None, "by": None, "details": None, "kept": True, "current": False,
    }  # fmt: skip
    begun, done = read_audit(source)
    assert begun["state"] == "begun" and done["state"] == "done"
    assert begun["before"] == done["before"] == before and begun["after"] == done["after"] == after


def test_an_earlier_version_can_be_brought_back(source):
    versions = [compute_version(source), commit(source, b"two"), commit(source, b"three")]
    kept = find_kept(source, versions[0])
    commit_change(source, kept, before=versions[2], change=Change("digits", "restore", {"version": versions[0]}))
    assert source.read_bytes() == b"the first version"
    assert [entry["version"] for entry in list_versions(source)] == [versions[0], *versions[::-1]]
    assert [entry["current"] for entry in list_versions(source)] == [True, False, False, False]
    check_audit(source)


def test_twenty_versions_are_kept(source):
    versions = [compute_version(source)] + [commit(source, f"version {n}".encode()) for n in range(25)]
    kept = sorted(path.name for path in (source.parent / f"{source.name}.history").glob("*.srosr"))
    assert [name.partition("-")[2].removesuffix(".srosr") for name in kept] == versions[5:25]
    assert [entry["kept"] for entry in list_versions(source)] == [False] + 20 * [True] + 5 * [False]
    for version in versions[:5]:
        with pytest.raises(UnknownVersion):
            find_kept(source, version)


def test_only_kept_versions_are_found(source):
    commit(source, b"two")
    wrong = "0" * 16, "../../../etc/passwd", "", "x" * 1000, "*", "%2e%2e", compute_version(source)
    for version in wrong:
        with pytest.raises(UnknownVersion, match=r"There is no kept version '.{0,17}…?'") as caught:
            find_kept(source, version)
        assert str(source.parent) not in caught.value.message


def test_a_damaged_version_is_not_brought_back(source):
    before = compute_version(source)
    commit(source, b"two")
    path = find_kept(source, before)
    path.write_bytes(b"something else")
    with pytest.raises(UnknownVersion):
        find_kept(source, before)


def test_the_same_content_is_no_new_version(source):
    version = compute_version(source)
    assert commit(source, b"the first version") == version
    assert [line["state"] for line in read_audit(source)] == ["begun", "done"]
    assert not list((source.parent / f"{source.name}.history").glob("*.srosr"))


# -- the file ----------------------------------------------------------------------------------------------


def test_a_file_that_another_program_changed_is_left_alone(source):
    before = compute_version(source)
    source.write_bytes(b"by another program")
    with pytest.raises(ChangedMeanwhile, match="digits was changed meanwhile"):
        commit(source, b"two", before)
    assert source.read_bytes() == b"by another program" and not list(source.parent.glob("*.history/*.srosr"))
    commit(source, b"two")
    assert [entry["change"] for entry in list_versions(source)] == ["set-threshold", None]


def test_a_file_that_changes_in_the_last_moment_is_left_alone(source, monkeypatch):
    real = model_changes._append

    def interfere(history, line):
        real(history, line)
        if line["state"] == "begun":
            source.write_bytes(b"by another program")

    monkeypatch.setattr(model_changes, "_append", interfere)
    with pytest.raises(ChangedMeanwhile):
        commit(source, b"two")
    assert source.read_bytes() == b"by another program"
    assert [line["state"] for line in read_audit(source)] == ["begun", "replaced"]


def test_a_symbolic_link_stays_one_and_all_names_share_a_history(source):
    link = source.parent / "link.srosr"
    link.symlink_to(source)
    commit(link, b"two")
    assert link.is_symlink() and source.read_bytes() == b"two"
    commit(source, b"three")
    assert list_versions(link) == list_versions(source) and len(list_versions(source)) == 3
    assert not (source.parent / "link.srosr.history").exists()


def test_permissions_stay(source):
    source.chmod(0o640)
    commit(source, b"two")
    assert stat.S_IMODE(source.stat().st_mode) == 0o640


def test_a_kept_version_survives_when_the_model_file_is_written_in_place(source):
    before = compute_version(source)
    commit(source, b"two")
    second = compute_version(source)
    commit(source, b"three")
    with open(source, "r+b") as file:  # as cp does
        file.write(b"!!!")
    assert find_kept(source, before).read_bytes() == b"the first version"
    assert find_kept(source, second).read_bytes() == b"two"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not stop this user")
def test_a_read_only_folder_is_a_sentence(source):
    new = make_new(source, b"two")
    source.parent.chmod(0o555)
    try:
        with pytest.raises(CannotWrite, match=r"^digits cannot be changed .*: Permission denied\.$"):
            commit_change(source, new, before=compute_version(source), change=CHANGE)
        settle(source)
    finally:
        source.parent.chmod(0o755)
    assert source.read_bytes() == b"the first version"


@pytest.mark.parametrize("function", ["make_folder", "open_atomically"])
def test_errors_of_the_disk_are_a_sentence_without_a_path(source, monkeypatch, function):
    def refuse(path, *_):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(model_changes, function, refuse)
    with pytest.raises(CannotWrite) as caught:
        commit(source, b"two")
    assert caught.value.message == "digits cannot be changed on the disk of the server: No space left on device."
    assert source.read_bytes() == b"the first version"


def test_a_file_in_the_place_of_the_history_is_a_sentence(source):
    (source.parent / f"{source.name}.history").write_bytes(b"")
    with pytest.raises(CannotWrite, match="is a file, not a folder"):
        commit(source, b"two")
    assert list_versions(source)[0]["current"] and source.read_bytes() == b"the first version"


def test_a_history_that_others_wrote_into_is_read_as_far_as_it_goes(source):
    commit(source, b"two")
    audit = source.parent / f"{source.name}.history/audit.jsonl"
    audit.write_bytes(b'\xff\xfe\n[]\n{"number": "x"}\n' + audit.read_bytes() + b'{"number": 7, "sta')
    (audit.parent / "x-y.srosr").write_bytes(b"")
    assert len(list_versions(source)) == 2
    commit(source, b"three")
    assert [entry["change"] for entry in list_versions(source)] == ["set-threshold", "set-threshold", None]


@pytest.mark.parametrize("line", [
    {"number": 99, "state": "done"},
    {"number": 99, "state": "begun"},
    {"number": 99, "state": "begun", "change": "x", "details": {}, "before": 1, "after": []},
    {"number": 99, "state": ["begun"], "change": "x", "details": {}, "before": "a", "after": "b"},
    {"number": True, "state": "done", "change": None, "details": None, "before": None, "after": None},
])  # fmt: skip
def test_a_line_that_does_not_say_all_breaks_nothing(source, line):
    commit(source, b"two")
    audit = source.parent / f"{source.name}.history/audit.jsonl"
    with open(audit, "a") as file:
        file.write(json.dumps(line) + "\n" + 100_000 * "[" + "\n")
    settle(source)
    commit(source, b"three")
    assert [entry["change"] for entry in list_versions(source)] == ["set-threshold", "set-threshold", None]


def test_a_change_that_was_made_is_one_even_if_the_audit_cannot_be_completed(source, monkeypatch):
    real = model_changes._append

    def refuse(history, line):
        if line["state"] == "done":
            raise OSError(28, "No space left on device")
        real(history, line)

    monkeypatch.setattr(model_changes, "_append", refuse)
    after = commit(source, b"two")
    assert source.read_bytes() == b"two" and after == compute_version(source)
    assert [line["state"] for line in read_audit(source)] == ["begun"]
    monkeypatch.undo()
    settle(source)
    check_audit(source)
    assert list_versions(source)[0]["change"] == "set-threshold"


def test_a_change_that_was_made_is_one_even_if_its_folder_cannot_be_synced(source, monkeypatch):
    from srosr._support import atomic_files

    real = atomic_files.sync_folder

    def refuse(folder):
        if folder == source.parent and source.read_bytes() == b"two":
            raise OSError(5, "Input/output error")
        real(folder)

    monkeypatch.setattr(atomic_files, "sync_folder", refuse)
    assert commit(source, b"two") == compute_version(source) and source.read_bytes() == b"two"
    check_audit(source)


def test_what_is_served_takes_the_place_of_a_file_that_is_no_model(source):
    served = compute_version(source)
    for broken in (b"broken", None):
        if broken is None:
            source.unlink()
        else:
            source.write_bytes(broken)
        (first, *_) = list_versions(source, served)
        assert first["version"] == served and first["current"] and first["kept"]
        before = model_changes.find_version(source)
        new = make_new(source, b"the first version")
        restore = Change("digits", "restore", {"version": served})
        assert commit_change(source, new, before=before, change=restore) == served
        assert source.read_bytes() == b"the first version" and list_versions(source)[0]["current"]
    assert [line["before"] for line in read_audit(source) if line["state"] == "done"][-1] is None


def test_settling_waits_for_nobody_and_raises_nothing(source, monkeypatch):
    from filelock import FileLock

    commit(source, b"two")
    monkeypatch.setattr(model_changes, "_START_WAIT", 0.1)
    with FileLock(source.parent / f"{source.name}.history/.lock"):
        settle(source)


# -- together, and killed -----------------------------------------------------------------------------------


def test_a_line_without_a_number_keeps_nobody_from_a_change(source):
    commit(source, b"two")
    path = source.parent / f"{source.name}.history/audit.jsonl"
    line = {"state": "begun", "change": "update", "details": {}, "before": None, "after": "0" * 16}
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n" + json.dumps({**line, "number": None}) + "\n")
    settle(source)
    commit(source, b"three")
    assert list_versions(source)[0]["version"] == compute_version(source)


def test_settling_survives_what_nobody_foresaw(source, monkeypatch, caplog):
    commit(source, b"two")
    monkeypatch.setattr(model_changes, "_settle", lambda *_: 1 / 0)
    settle(source)
    assert "could not be completed: ZeroDivisionError" in caplog.text


def test_a_change_that_is_given_up_while_it_waits_is_not_made(source):
    before, content = compute_version(source), source.read_bytes()
    commit(source, b"two", before)
    after, wish = compute_version(source), Wish()
    with FileLock(source.parent / f"{source.name}.history/.lock"), ThreadPoolExecutor(1) as thread:
        new = make_new(source, b"three")
        waiting = thread.submit(commit_change, source, new, before=after, change=CHANGE, wish=wish)
        time.sleep(0.5)
        assert not waiting.done()
        wish.give_up()
        with pytest.raises(GivenUp):
            waiting.result(5)
    assert source.read_bytes() == b"two" != content and len(read_audit(source)) == 2
    # One that has begun is brought to its end.
    wish = Wish()
    wish.begin()
    wish.give_up()
    commit_change(source, new, before=after, change=CHANGE, wish=wish)
    assert source.read_bytes() == b"three"


def test_what_killed_processes_left_is_removed_and_what_others_write_is_not(source):
    history = source.parent / f"{source.name}.history"
    commit(source, b"two")
    token = "0123456789abcdef"
    old, young = source.parent / f".{source.name}.{token}.tmp", source.parent / f".{source.name}.{token[::-1]}.tmp"
    other, kept = source.parent / f".other.srosr.{token}.tmp", history / f".000009-{token}.srosr.{token}.tmp"
    for path in (old, young, other, kept):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (time.time() - 7200, time.time() - 7200))
    settle(source)
    assert [path.exists() for path in (old, young, other, kept)] == [False, True, True, False]
    old.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    commit(source, b"three")
    assert not old.exists() and young.exists()


def test_a_version_is_computed_again_when_the_file_has_changed(source, monkeypatch):
    commit(source, b"two")
    assert list_versions(source)[0]["version"] == compute_version(source)
    computed = []
    monkeypatch.setattr(model_changes, "find_version", lambda path: computed.append(path) or compute_version(path))
    list_versions(source)
    assert computed == []
    source.write_bytes(b"from elsewhere")
    assert list_versions(source)[0]["version"] == compute_version(source) and len(computed) == 1
    source.unlink()
    assert not any(entry["current"] for entry in list_versions(source))


def test_changes_at_the_same_time_are_made_one_after_the_other(source):
    before = compute_version(source)
    files = []
    for n in range(8):
        files.append(source.parent / f"new-{n}")
        files[-1].write_bytes(f"version {n}".encode())

    def change(path):
        try:
            return commit_change(source, path, before=before, change=CHANGE)
        except ChangedMeanwhile:
            return None

    with ThreadPoolExecutor(8) as pool:
        found = [version for version in pool.map(change, files) if version is not None]
    assert found == [compute_version(source)]
    check_audit(source)


def test_a_change_waits_for_another_process(source, monkeypatch):
    from filelock import FileLock

    commit(source, b"two")
    lock = FileLock(source.parent / f"{source.name}.history/.lock")
    with lock:
        monkeypatch.setattr(model_changes, "_LONGEST_WAIT", 0.1)
        with pytest.raises(CannotWrite, match="is being changed by another process"):
            commit(source, b"three")
        monkeypatch.setattr(model_changes, "_LONGEST_WAIT", 30)
        waiting = threading.Thread(target=commit, args=(source, b"three"))
        waiting.start()
        time.sleep(0.2)
        assert source.read_bytes() == b"two"
    waiting.join()
    assert source.read_bytes() == b"three"


_KILLED = """
import os, signal, sys
from pathlib import Path
from srosr.server import model_changes
from srosr.server.model_changes import Change, commit_change, compute_version, settle
import filelock

source = Path(sys.argv[1])
steps = ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.listdir")
watched = (str(source.parent),)
contents = [b"one", b"two"]
n = 0
finished = False
while not finished:
    n += 1
    new = source.parent / "changed"
    before = compute_version(source)
    new.write_bytes(contents[0] if source.read_bytes() == contents[1] else contents[1])
    after = compute_version(new)
    process = os.fork()
    if process == 0:
        left = n
        def count(event, arguments):
            global left
            if event in steps and str(arguments[0]).startswith(watched):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        commit_change(source, new, before=before, change=Change("digits", "update"))
        os._exit(0)
    status = os.waitpid(process, 0)[1]
    finished = status == 0
    found = compute_version(source)
    assert found in (before, after), found
    print(n, status, "new" if found == after else "old", flush=True)
    settle(source)
    model_changes.list_versions(source)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills processes")
def test_killed_at_any_step_the_file_is_the_old_or_the_new_one(source):
    source.write_bytes(b"one")
    done = subprocess.run([sys.executable, "-c", _KILLED, str(source)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    outcomes = [line.split() for line in done.stdout.splitlines()]
    assert len(outcomes) > 10 and {outcome for _, _, outcome in outcomes} == {"old", "new"}
    assert [status for _, status, _ in outcomes[:-1]] == [str(signal.SIGKILL.value)] * (len(outcomes) - 1)
    check_audit(source)
    states = [line["state"] for line in read_audit(source)]
    assert states.count("undone") >= 2 and states.count("done") >= 2


_COMMITS = """
import sys
from pathlib import Path
from srosr.server.model_changes import Change, commit_change, compute_version, settle

source, files = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
settle(source)
print("ready", flush=True)
while True:
    before = compute_version(source)
    new = next(path for path in files if compute_version(path) != before)
    commit_change(source, new, before=before, change=Change("digits", "update"))
"""


@pytest.mark.skipif(os.name != "posix", reason="kills processes")
@pytest.mark.slow
def test_killed_at_random_times_a_model_can_be_loaded(tmp_path):
    X, y = load_digits(n_class=3, return_X_y=True)
    clf = srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(X[:90], y[:90])
    files = [tmp_path / f"{number}.srosr" for number in range(2)]
    for number, path in enumerate(files):
        clf.set_threshold(0.5 + 0.1 * number)
        clf.save(path)
    source = tmp_path / "model.srosr"
    source.write_bytes(files[0].read_bytes())
    contents = [path.read_bytes() for path in files]
    generator = random.Random(60)
    for _ in range(30):
        process = subprocess.Popen([sys.executable, "-c", _COMMITS, source, *files], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(generator.uniform(0.0, 0.1))
        process.kill()
        process.wait()
        process.stdout.close()
        assert source.read_bytes() in contents
        srosr.load(source)
        settle(source)
        check_audit(source)

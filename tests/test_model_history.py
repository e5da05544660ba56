"""Changes of a model file: the old or the new one, whatever happens. What is in a history: test_server_work.py."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from filelock import FileLock
from server_runs import server_required

server_required()

from srosr.server import history  # noqa: E402
from srosr.server.history import commit_change, find_kept, find_version, list_versions  # noqa: E402
from srosr.server.schemas import ApiError  # noqa: E402

LINE = {"change": "set-threshold", "details": {"threshold": 0.9}, "by": "127.0.0.1"}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "digits.srosr"
    path.write_bytes(b"one")
    return path


def commit(source, content, before=None):
    new = source.parent / f"changed-{threading.get_ident()}"
    new.write_bytes(content)
    return commit_change("digits", source, new, before=before or find_version(source), line=LINE)


def test_an_earlier_version_can_be_brought_back(source):
    versions = [find_version(source), commit(source, b"two"), commit(source, b"three")]
    commit_change("digits", source, find_kept(source, versions[0]), before=versions[2], line=LINE)
    assert source.read_bytes() == b"one"
    assert [entry["version"] for entry in list_versions(source)] == [versions[0], *versions[::-1]]
    assert [entry["current"] for entry in list_versions(source)] == [True, False, False, False]


def test_permissions_stay_and_a_kept_version_survives_when_the_file_is_written_in_place(source):
    source.chmod(0o640)
    before = find_version(source)
    commit(source, b"two")
    assert stat.S_IMODE(source.stat().st_mode) == 0o640
    with open(source, "r+b") as file:
        file.write(b"XXX")
    assert find_kept(source, before).read_bytes() == b"one"


@pytest.mark.parametrize("function", ["make_folder", "open_atomically"])
def test_errors_of_the_disk_are_a_sentence_without_a_path(source, monkeypatch, function):
    def fail(*arguments):
        raise OSError(28, "No space left on device", str(source))

    monkeypatch.setattr(history, function, fail)
    with pytest.raises(ApiError) as error:
        commit(source, b"two")
    assert error.value.status == 503 and source.read_bytes() == b"one"
    assert error.value.message == "digits cannot be changed on the disk of the server: No space left on device."


def test_a_file_in_the_place_of_the_history_is_a_sentence(source):
    source.with_name("digits.srosr.history").write_text("")
    with pytest.raises(ApiError, match="cannot be changed on the disk"):
        commit(source, b"two")
    assert source.read_bytes() == b"one" and len(list_versions(source)) == 1


def test_of_changes_of_one_version_at_the_same_time_one_is_made(source):
    before = find_version(source)

    def change(number):
        try:
            return commit(source, b"%d" % number, before)
        except ApiError as error:
            return error.status

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(change, range(8)))
    assert sorted(map(str, found))[:7] == ["409"] * 7 and find_version(source) in found
    assert len(list_versions(source)) == 2


def test_a_change_waits_for_another_process(source, monkeypatch):
    commit(source, b"two")
    with FileLock(source.parent / "digits.srosr.history/.lock"):
        monkeypatch.setattr(history, "_LONGEST_WAIT", 0.1)
        with pytest.raises(ApiError, match="another process changes it"):
            commit(source, b"three")
        monkeypatch.setattr(history, "_LONGEST_WAIT", 30)
        waiting = threading.Thread(target=commit, args=(source, b"three"))
        waiting.start()
        time.sleep(0.2)
        assert source.read_bytes() == b"two"
    waiting.join()
    assert source.read_bytes() == b"three"


_KILLED = """
import os, signal, sys
from pathlib import Path
import filelock
from srosr.server.history import commit_change, find_version, list_versions

source = Path(sys.argv[1])
steps = ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.listdir")
contents, step, status = [b"one", b"two"], 0, -1
while status:
    step += 1
    new, before = source.parent / "changed", find_version(source)
    new.write_bytes(contents[source.read_bytes() == contents[0]])
    after = find_version(new)
    process = os.fork()
    if process == 0:
        left = step
        def count(event, arguments):
            global left
            if event in steps and str(arguments[0]).startswith(str(source.parent)):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        commit_change("digits", source, new, before=before, line={"change": "update"})
        os._exit(0)
    status = os.waitpid(process, 0)[1]
    found = find_version(source)
    assert found in (before, after), found
    assert list_versions(source)[0]["version"] == found
    print(status, "new" if found == after else "old", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills processes")
def test_killed_at_any_step_the_file_is_the_old_or_the_new_one(source):
    done = subprocess.run([sys.executable, "-c", _KILLED, str(source)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    outcomes = [line.split() for line in done.stdout.splitlines()]
    assert len(outcomes) > 8 and {outcome for _, outcome in outcomes} == {"old", "new"}
    assert [status for status, _ in outcomes[:-1]] == [str(signal.SIGKILL.value)] * (len(outcomes) - 1)

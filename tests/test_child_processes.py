"""Child processes: whatever a child of the server does, the server goes on."""

import os
import signal
import sys
from threading import Event

import numpy as np
import pytest
from jobs_for_children import is_gone, list_pids, open_pool, own_jobs, wait_until

from srosr._support.child_process import Child
from srosr.server import pool as pools
from srosr.server.schemas import ApiError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc")


def test_a_child_has_what_it_was_given_and_what_it_prints_is_no_frame(tmp_path, capfd):
    code = "print('printed', flush=True), os.write(1, b'written'), sys.stdin.read(), os.getcwd()"
    code += ", os.getenv('ONLY'), os.getenv('HOME')"
    child = Child("jobs_for_children", "send_back", (code,), environment={"ONLY": "é'"}, folder=tmp_path)
    assert child.receive().decode() == repr((None, 7, "", str(tmp_path), "é'", None))
    assert child.end() == "signal 9" and child.has_ended and capfd.readouterr().err == "printed\nwritten"
    with pytest.raises(OSError):
        child.send(b"more")
    child = Child("jobs_for_children", "send_back", ("os._exit(3)",), environment=os.environ)
    assert child.receive() is None and child.end(30) == "exit status 3"


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, own_jobs():
        patch.setenv("SROSR_TOKEN", "a secret of the server")
        with open_pool("reader", 1, tmp_path_factory.mktemp("folder"), memory=300 * 10**6) as pool:
            yield pool


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    with own_jobs(), open_pool("worker", 2, tmp_path_factory.mktemp("folder")) as pool:
        yield pool


def ask(pool, code="os.getpid()", **header):
    return pool.run("do", {"code": code, **header})[0]["value"]


def begin(pool, code, job="do", **header):
    """Begin a job; return its future as soon as a process is at it."""
    begun = Event()
    future = pool.begin(job, {"code": code, **header}, on_progress=lambda _: begun.set())
    assert begun.wait(60)
    return future


def fail(pool, code, arrays=None, most=None, **header):
    """Return status and sentence of a job that fails."""
    with pytest.raises(ApiError) as caught:
        pool.run("do", {"code": code, **header}, arrays, most=most)
    return caught.value.status, caught.value.message


def test_a_job_gets_its_header_and_arrays_says_how_far_it_is_and_answers(reader):
    X, seen = np.random.default_rng(0).normal(size=(300_000, 7)), []
    arrays, sent = {"X": X, "T": X.T, "none": np.zeros((0, 8), np.uint8)}, {"text": "é\n", "list": [1, None, 0.1]}
    header, found = reader.run("do", sent, arrays, on_progress=seen.append)
    assert header == {**sent, "value": None, "pid": ask(reader)}
    assert all(found[x].dtype == arrays[x].dtype and np.array_equal(found[x], arrays[x]) for x in arrays)
    assert seen == [{"kind": "progress", "stage": "Doing", "done": 0, "of": 1}]
    refuse = "(_ for _ in ()).throw(ApiError(409, 'There is a reason.'))"
    assert fail(reader, refuse) == (409, "There is a reason.") and ask(reader) == header["pid"]


@pytest.mark.parametrize("code", ["{}['a secret']", "{'a secret': object()}", "os.kill(os.getpid(), 11)"])
def test_a_bug_or_a_crash_costs_one_job_and_tells_the_client_nothing(reader, code):
    pid, restarts = ask(reader), reader.pool.restarts
    assert fail(reader, code) == (503, "The process that worked on this ended unexpectedly: try again.")
    assert is_gone(pid) and reader.pool.restarts == restarts + 1
    os.kill(pid := ask(reader), signal.SIGKILL)
    wait_until(lambda: reader.pool._idle[0].child.has_ended)
    assert ask(reader) != pid  # one that ends without a job costs none


def test_memory_and_the_size_of_results_are_limited(reader):
    message = "a.csv does not fit into the memory allowed for it: send fewer samples at a time."
    assert fail(reader, "bytearray(10**9)", reading={"names": ["a.csv"]}) == (413, message)
    assert ask(reader, "len(bytearray(10**8))") == 10**8
    assert fail(reader, "0", {"X": np.zeros(60_000_000)})[0] in (413, 503)
    X = {"X": np.zeros(125_000)}
    assert fail(reader, "0", X, most=10**6) == (413, "The samples take more than 1 MB of memory: send less.")
    assert len(reader.run("do", {}, X, most=10**6 + 1000)[1]["X"]) == 125_000


def test_a_reader_has_limits_no_files_and_no_secrets_and_a_worker_gives_way(reader, workers):
    names = "CORE", "FSIZE", "NOFILE", "AS"
    limits = ask(reader, f"[resource.getrlimit(getattr(resource, 'RLIMIT_' + name))[0] for name in {names}]")
    assert [0 <= x <= most for x, most in zip(limits, (0, 2**20, 256, 3 * 10**9), strict=True)] == [True] * 4
    listed = "[os.readlink(f'/proc/self/fd/{n}') for n in range(3, 256) if os.path.lexists(f'/proc/self/fd/{n}')]"
    assert all(path.startswith("pipe:") for path in ask(reader, listed))
    environment = ask(reader, "dict(os.environ)")
    assert "secret" not in str(environment) and environment["OMP_NUM_THREADS"] == "1"
    assert ask(workers, "os.nice(0)") >= 5


def test_a_job_that_is_cancelled_or_too_long_ends_its_process_signals_do_not(reader, monkeypatch):
    pid, job = ask(reader), begin(reader, "time.sleep(0.5)")
    reader.begin("do", {}).cancel()  # one that waits for the process
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    assert job.result(30)[0]["pid"] == pid == ask(reader)
    begin(reader, "time.sleep(600)").cancel()
    assert is_gone(pid)
    pid = ask(reader)
    monkeypatch.setattr(reader.pool, "_seconds", 0.3)
    message = "This took longer than the 0.3 seconds allowed: send less at a time."
    assert fail(reader, "time.sleep(600)") == (504, message) and is_gone(pid)


def test_a_process_is_left_to_jobs_that_are_not_long(workers, monkeypatch):
    monkeypatch.setattr(pools, "_LONG_JOBS", {"do long"})
    jobs = [begin(workers, "time.sleep(600)", "do long"), workers.begin("do long", {"code": "time.sleep(600)"})]
    assert [ask(workers, str(n)) for n in range(3)] == [0, 1, 2]
    assert all(not job.done() and job.cancel() for job in jobs)
    assert workers.run("do long", {})[0]["pid"] in list_pids(workers.pool)


def test_a_model_stays_with_its_process_and_answers_go_to_those_who_asked(workers):
    jobs = {version: begin(workers, "time.sleep(1)", version=version) for version in "ab"}
    held = {version: job.result(30)[0]["pid"] for version, job in jobs.items()}
    assert held["a"] != held["b"] and all(ask(workers, version=version) == held[version] for version in "abbaab")
    jobs = [workers.begin("do", {"n": n}, {"X": np.full(1000, float(n))}) for n in range(30)]
    for job in jobs[5::7]:
        job.cancel()
    for n, job in enumerate(jobs):
        if not job.cancelled():
            header, arrays = job.result(60)
            assert header["n"] == n and (arrays["X"] == n).all()


def test_a_child_is_replaced_after_many_jobs_and_closing_ends_those_in_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "_MOST_JOBS", 2)
    with own_jobs(), open_pool("worker", 1, tmp_path) as pool:
        pids = [ask(pool) for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]
        job = begin(pool, "time.sleep(600)")
        pids += list_pids(pool.pool)
    with pytest.raises(ApiError, match="try again"):
        job.result(10)
    assert len(pids) == 5 and all(map(is_gone, pids))

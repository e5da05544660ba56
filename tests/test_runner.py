"""Running trials: killed and started again it ends with the same tables; what fails is noted and stops nothing."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import work_for_runner
from work_for_runner import METHODS, METRICS, record, square, threads, times, unpicklable, work

from srosr.distributed.dask_cluster import DaskCluster
from srosr.distributed.worker_task import ExecutorError, LostTask, call_task
from srosr.experiments.local_processes import LocalProcesses
from srosr.experiments.result_tables import write_tables
from srosr.experiments.results_folder import ResultsFolder, ResultsFolderError
from srosr.experiments.runner import Failure, Summary, TrialTask, make_executor, run_trials

IDENTITY = {"experiment": "letters", "protocol": {"seed": 0}}
SAME = ("results.parquet", "results.csv", "coverage.csv", "failures.csv")

unix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


class InThisProcess:
    """An executor that does every task at once, in an order of its own."""

    def __init__(self, seed=0):
        self.order = random.Random(seed)
        self.seen = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def versions(self):
        return [{"srosr": "elsewhere"}]

    def run(self, function, tasks):
        order = list(range(len(tasks)))
        self.order.shuffle(order)
        for index in order:
            self.seen.append(tasks[index])
            yield index, call_task(function, tasks[index])


def tasks_of(n_trials, payload=None, methods=METHODS):
    return [TrialTask(trial, methods, payload) for trial in range(n_trials)]


def run(path, executor, tasks, function=work, progress=None, **options):
    with ResultsFolder(path, IDENTITY, **options) as folder, executor:
        return run_trials(folder, executor, function, tasks, progress)


def tables(path, methods=METHODS):
    """Return the bytes of the tables that have to be the same, written from the content of the folder."""
    folder = ResultsFolder.open_existing(path)
    write_tables(path, "letters", folder.records(methods), folder.times(methods), methods, METRICS)
    return {name: Path(path, name).read_bytes() for name in SAME}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the tables of 8 trials, run one after the other."""
    path = tmp_path_factory.mktemp("undisturbed")
    assert run(path, InThisProcess(), tasks_of(8)) == Summary(24, 0, ())
    return tables(path)


# --- the runner ---


def test_a_run_goes_on_where_it_was_and_does_nothing_twice(tmp_path, undisturbed):
    executor = InThisProcess(seed=1)
    assert run(tmp_path, executor, tasks_of(3, methods=("osnn",))) == Summary(3, 0, ())
    assert run(tmp_path, executor, tasks_of(5, methods=("w-svm", "osnn"))) == Summary(7, 3, ())
    executor.seen.clear()
    assert run(tmp_path, executor, tasks_of(8)) == Summary(14, 10, ())
    asked = {task.trial: task.methods for task in executor.seen}
    assert asked == dict.fromkeys(range(5), ("calibrated",)) | dict.fromkeys(range(5, 8), METHODS)
    executor.seen.clear()
    assert run(tmp_path, executor, tasks_of(8)) == Summary(0, 24, ())
    assert executor.seen == []
    assert tables(tmp_path) == undisturbed


def test_progress_counts_on_from_the_trials_that_are_there(tmp_path):
    run(tmp_path, InThisProcess(), tasks_of(2))
    seen = []
    run(tmp_path, InThisProcess(), tasks_of(5), progress=lambda *one: seen.append(one))
    assert [one[:2] for one in seen] == [(2, 5), (3, 5), (4, 5), (5, 5)]
    assert seen[0][2] == 0.0
    assert all(a[2] <= b[2] for a, b in pairwise(seen))


def test_versions_of_an_executor_are_noted(tmp_path):
    run(tmp_path, InThisProcess(), tasks_of(1))
    assert {"srosr": "elsewhere"} in ResultsFolder.open_existing(tmp_path).versions()


def test_a_trial_that_raises_fails_with_its_reason_and_is_not_tried_again(tmp_path, undisturbed):
    tasks = tasks_of(8, {"raise": [2], "exit": [5]})
    summary = run(tmp_path, InThisProcess(), tasks)
    reasons = {2: "ArithmeticError: trial 2 cannot be drawn", 5: "SystemExit: no more"}
    assert summary.n_done == 24
    assert set(summary.failures) == {
        Failure(trial, method, why) for trial, why in reasons.items() for method in METHODS
    }
    assert run(tmp_path, InThisProcess(), tasks) == Summary(0, 24, ())
    found = tables(tmp_path)["failures.csv"].decode().splitlines()
    assert found[1:4] == [f"letters,2,{method},{reasons[2]}" for method in METHODS]
    assert run(tmp_path, InThisProcess(), tasks_of(8), retry_failed=True) == Summary(6, 18, ())
    assert tables(tmp_path) == undisturbed


def asked_for_two(task):
    return work(task)[:2]


def one_twice(task):
    return [*work(task), work(task)[0]]


def of_another_trial(task):
    return [(record(task.trial + 1, method), times(task.trial + 1, method)) for method in task.methods]


def no_list(task):
    return None


def no_records(task):
    return [1, 2, 3]


@pytest.mark.parametrize("function", [asked_for_two, one_twice, of_another_trial, no_list, no_records])
def test_a_trial_that_returns_other_than_what_it_was_asked_for_fails(tmp_path, function):
    summary = run(tmp_path, InThisProcess(), tasks_of(2), function)
    assert [(one.trial, one.method) for one in summary.failures] == [(t, m) for t in (0, 1) for m in sorted(METHODS)]
    assert all("exactly one record for each method" in one.reason for one in summary.failures)


def one_cannot_be_stored(task):
    done = work(task)
    done[1][0]["portrait"] = object()
    return done


def test_a_record_that_cannot_be_stored_fails_alone(tmp_path):
    summary = run(tmp_path, InThisProcess(), tasks_of(2), one_cannot_be_stored)
    assert [(one.trial, one.method) for one in summary.failures] == [(0, METHODS[1]), (1, METHODS[1])]
    assert "a record has a object" in summary.failures[0].reason
    assert summary.n_done == 6


def test_records_of_an_earlier_version_which_count_warnings_are_read(tmp_path, undisturbed):
    def as_it_was(task):
        return [(one | {"warnings": {"CalibrationWarning": 2}}, took) for one, took in work(task)]

    run(tmp_path, InThisProcess(), tasks_of(3), as_it_was)
    assert run(tmp_path, InThisProcess(), tasks_of(8)) == Summary(15, 9, ())
    assert tables(tmp_path) == undisturbed


def test_a_trial_may_come_once_only(tmp_path):
    with pytest.raises(ValueError, match="twice"):
        run(tmp_path, InThisProcess(), [TrialTask(1, ("osnn",)), TrialTask(1, ("w-svm",))])


# --- processes on this machine ---


@pytest.mark.slow
def test_processes_survive_all_that_their_tasks_do(tmp_path, undisturbed):
    """One run, since processes take their time to start: what dies, dies alone, and the rest is as ever."""
    log = tmp_path / "log"
    log.mkdir()
    payload = {"log": str(log), "print": "to the screen", "die": [1], "die_once": [4], "raise": [2], "seconds": 0.05}
    summary = run(tmp_path, LocalProcesses(2), tasks_of(8, payload))
    reasons = {1: "its process died twice (signal 9)", 2: "ArithmeticError: trial 2 cannot be drawn"}
    if sys.platform != "win32":
        assert set(summary.failures) == {Failure(t, method, why) for t, why in reasons.items() for method in METHODS}
    runs = [path.name.split("-") for path in log.iterdir() if not path.name.startswith("died")]
    assert sorted(int(trial) for _, trial, _ in runs) == [0, 1, 1, 2, 3, 4, 4, 5, 6, 7]
    assert str(os.getpid()) not in {pid for pid, _, _ in runs}
    assert run(tmp_path, LocalProcesses(1), tasks_of(8), retry_failed=True) == Summary(6, 18, ())
    assert tables(tmp_path) == undisturbed


@pytest.mark.slow
def test_a_worker_that_lacks_what_all_need_ends_the_run_and_is_no_failure(tmp_path, undisturbed):
    message = "this machine cannot run the trials: the samples are missing. Bring them. Finished trials are kept"
    with pytest.raises(ExecutorError, match=re.escape(message)):
        run(tmp_path, LocalProcesses(1), tasks_of(8, {"not_here": [3, 4, 5, 6, 7]}))
    kept = [(one["trial"], one["error"]) for one in ResultsFolder.open_existing(tmp_path).records(METHODS)]
    assert sorted(kept) == [(trial, None) for trial in (0, 0, 0, 1, 1, 1, 2, 2, 2)]
    assert run(tmp_path, LocalProcesses(2), tasks_of(8)) == Summary(15, 9, ())
    assert tables(tmp_path) == undisturbed


@pytest.mark.slow
def test_results_come_as_soon_as_they_are_there_and_in_no_more_processes_than_asked_for(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    with LocalProcesses(2) as executor:
        assert sorted(executor.run(square, [])) == []
        results = executor.run(threads, [None] * 3)
        counts = [count for _, result in results for count in result]
        assert counts and set(counts) == {1}
        assert [value for _, value in executor.run(os.getenv, ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"])] == ["1", "1"]
        running = executor.run(square, list(range(50)))
        assert next(running)[1] in {n * n for n in range(50)}
        assert len(executor._workers) == 2
        running.close()
        assert executor._workers == []


def test_a_result_or_function_that_cannot_be_sent_is_reported(tmp_path):
    with LocalProcesses(1) as executor:
        ((index, lost),) = executor.run(unpicklable, [0])
        assert index == 0 and isinstance(lost, LostTask) and "could not send the result" in lost.reason
        with pytest.raises(ExecutorError, match="top level of an importable module"):
            list(executor.run(lambda task: task, [0]))
        square.__module__, before = "a_module_of_nobody", square.__module__
        sys.modules["a_module_of_nobody"] = work_for_runner
        try:
            with pytest.raises(ExecutorError, match=r"a_module_of_nobody.*top level of an importable module"):
                list(executor.run(square, [0]))
        finally:
            square.__module__ = before
            del sys.modules["a_module_of_nobody"]


def test_workers_that_cannot_start_are_an_error_not_a_wait(monkeypatch):
    with LocalProcesses(2) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", "/nowhere/python")
            with pytest.raises(ExecutorError, match="could not start a worker process"):
                list(executor.run(square, [1, 2]))
        monkeypatch.setattr("srosr.experiments.local_processes._MODULE", "srosr.no_such_module")
        with pytest.raises(ExecutorError, match="end before they are ready"):
            list(executor.run(square, [1, 2]))


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True, "2"])
def test_jobs_must_be_a_number(jobs):
    with pytest.raises(ValueError, match="jobs must be"):
        make_executor(jobs)


def test_a_cluster_is_asked_for_by_its_address():
    assert isinstance(make_executor(3), LocalProcesses)
    for address in ("local:2", "tcp://127.0.0.1:8786", "tls://node-1.example:1", "tcp://[::1]:8786"):
        assert isinstance(make_executor(3, address), DaskCluster)


@pytest.mark.parametrize("address", ["", "local", "local:0", "local:x", "127.0.0.1:8786", "tcp://host", "http://a:1"])
def test_other_addresses_raise_an_error_with_examples(address):
    with pytest.raises(ValueError, match=r"tcp://127\.0\.0\.1:8786.*local:2"):
        make_executor(1, address)


# --- whole runs, killed ---


class Run:
    """A run as a program of its own."""

    def __init__(self, out, *options, payload=None):
        code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        code += "import work_for_runner; work_for_runner.main()"
        payload = json.dumps(payload or {})
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(out), "--payload", payload, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
        )

    def wait_for(self, n_done):
        """Wait until at least so many trials are done; return False if the run ended before."""
        counts = (line.split()[0] for line in self.process.stdout if line.strip())
        return any(count.isdigit() and int(count) >= n_done for count in counts)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def alive(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
        return status.rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        pass
    if Path("/proc/self").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def all_gone(pids, seconds):
    end = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.slow
@unix
def test_a_run_killed_again_and_again_ends_with_the_tables_of_an_undisturbed_one(tmp_path, undisturbed):
    rng = random.Random(os.getpid())
    out, log = tmp_path / "out", tmp_path / "log"
    log.mkdir()
    payload = {"seconds": 0.15, "log": str(log)}
    # At the start, when the first results are stored, and later on.
    for n_done, wait in ((0, rng.uniform(0.0, 0.4)), (1, rng.uniform(0.0, 0.02)), (2, rng.uniform(0.0, 0.3))):
        with Run(out, "--trials", "8", payload=payload) as one:
            assert one.wait_for(n_done)
            time.sleep(wait)
            one.process.send_signal(signal.SIGKILL)
            assert one.process.wait(10) == -signal.SIGKILL
        # No orphans: the workers go with their run.
        assert all_gone({int(path.name.split("-")[0]) for path in log.iterdir()}, seconds=5)
        spoil(out, rng)
    with Run(out, "--trials", "8", payload=payload) as last:
        output, errors = last.process.communicate(timeout=300)
    assert "done" in output, errors
    assert {name: (out / name).read_bytes() for name in SAME} == undisturbed
    assert [path.name for path in out.rglob("*.tmp")] == []


def spoil(out, rng):
    """Write incomplete and garbled files, as a disk might have them after a power failure."""
    found = sorted(out.glob("trials/*/*.json"))
    for path in rng.sample(found, min(2, len(found))):
        data = bytearray(path.read_bytes())
        if rng.random() < 0.5:
            data = data[: rng.randrange(len(data) - 1)]
        else:
            data[data.index(b'"content"') + 12] ^= 1
        path.write_bytes(data)
    if found:
        (found[0].parent / ".calibrated.json.0123456789abcdef.tmp").write_bytes(b'{"sha256":')


@unix
def test_a_second_run_into_the_folder_is_an_error_and_ctrl_c_ends_the_first_at_once(tmp_path):
    payload = {"seconds": 0.5}
    with Run(tmp_path, "--trials", "80", payload=payload) as first:
        assert first.wait_for(0)
        with Run(tmp_path, "--trials", "80", payload=payload) as second:
            output, errors = second.process.communicate(timeout=300)
        assert second.process.returncode == 1
        assert output == ""
        assert f"Error: another run is writing to {tmp_path} (process {first.process.pid}" in errors
        assert "Traceback" not in errors
        assert first.wait_for(2)
        sent = time.monotonic()
        first.process.send_signal(signal.SIGINT)
        _, errors = first.process.communicate(timeout=30)
        assert time.monotonic() - sent < 4  # two seconds and a busy machine
        assert "KeyboardInterrupt" in errors
    with ResultsFolder(tmp_path, IDENTITY) as folder:
        assert len(list(folder.records(METHODS))) >= 6
    with pytest.raises(ResultsFolderError, match=r"protocol\.seed was 0 and is 1 now"):
        ResultsFolder(tmp_path, {"experiment": "letters", "protocol": {"seed": 1}}).__enter__()


def test_the_values_of_the_tables_are_those_of_the_trials(undisturbed):
    """The reference itself, against the numbers it was made from."""
    lines = undisturbed["results.csv"].decode().splitlines()[1:]
    assert len(lines) == 8 * 3 * len(METHODS) * len(METRICS)
    rng = np.random.default_rng([6, *b"w-svm"])
    drawn = rng.standard_normal(9)
    found = [float(line.split(",")[-1]) for line in lines if line.startswith("letters,6,") and ",w-svm," in line]
    assert found == drawn.tolist()

"""The same work on a Dask cluster: real schedulers and workers on the loopback, some of which are killed."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from same import check_same
from test_runner import IDENTITY, METHODS, InThisProcess, Run, all_gone, run, tables, tasks_of, unix
from work_for_runner import add_shared, count_shared, square, threads

from srosr import __version__
from srosr.distributed import dask_cluster
from srosr.distributed.dask_cluster import ClusterError, DaskCluster
from srosr.distributed.worker_task import ExecutorError
from srosr.experiments.local_processes import LocalProcesses
from srosr.experiments.protocol import Source
from srosr.experiments.protocol_file import parse_protocol
from srosr.experiments.results_folder import ResultsFolder
from srosr.experiments.runner import Failure, Summary, make_executor
from srosr.experiments.trial import RunSettings, run_trial
from srosr.reports.reproduction import run_trial_task

pytest.importorskip("distributed", reason='a cluster needs Dask: pip install "srosr[cluster]"')
pytestmark = [unix, pytest.mark.slow]

N_TRIALS = 10


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the tables of a run in processes on this machine."""
    path = tmp_path_factory.mktemp("undisturbed")
    run(path, LocalProcesses(2), tasks_of(N_TRIALS))
    return tables(path)


class Machines:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder, settings):
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        self.environment = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"} | settings
        self.folder, self.started = folder, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")

    def start(self, kind, *options, cwd=None):
        log = self.folder / f"{kind}-{len(self.started)}.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options],
                stdout=file,
                stderr=file,
                env=self.environment,
                cwd=cwd or self.folder,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def worker(self, *options, cwd=None):
        usual = ("--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(self.folder))
        return self.start("worker", self.address, *usual, *options, cwd=cwd)

    def wait_for(self, n_workers):
        """Wait until the scheduler listens and has so many workers."""
        log, end = self.folder / "scheduler-0.log", time.monotonic() + 60
        while "Scheduler at" not in log.read_text() or log.read_text().count("Register worker") < n_workers:
            assert time.monotonic() < end and self.scheduler.poll() is None, log.read_text()
            time.sleep(0.1)

    def end(self):
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def machines(tmp_path_factory):
    """Start machines; they are ended, whatever happens."""
    made = []

    def start(**settings):
        made.append(Machines(tmp_path_factory.mktemp("machines"), settings))
        return made[-1]

    yield start
    for one in made:
        one.end()


def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path, undisturbed, machines, capfd):
    cluster = machines()
    # One with a nanny and several threads, which must not run tasks at the same time; the other is killed.
    cluster.worker("--nthreads", "3")
    victim = cluster.worker("--nthreads", "1", "--no-nanny")
    cluster.wait_for(2)
    log = tmp_path / "log"
    log.mkdir()

    def kill_at_three(done, total, seconds):
        if done == 3:
            os.kill(victim.pid, signal.SIGKILL)

    executor = DaskCluster(cluster.address)
    payload = {"seconds": 0.3, "log": str(log), "meet": 2}
    assert run(tmp_path, executor, tasks_of(N_TRIALS, payload), progress=kill_at_three) == Summary(30, 0, ())
    assert victim.wait(5) == -signal.SIGKILL
    assert tables(tmp_path) == undisturbed
    starts = [tuple(map(int, path.name.split("-"))) for path in log.iterdir()]
    workers = {pid for pid, _, _ in starts}
    assert victim.pid in workers and len(workers) == 2
    for worker in workers:
        times = sorted(nanoseconds for pid, _, nanoseconds in starts if pid == worker)
        assert all(later - earlier >= 0.3e9 for earlier, later in pairwise(times))
    assert capfd.readouterr().err == ""

    # The scheduler goes: finished work stays, the reason is reported, and another executor continues.
    def kill_at_two(done, total, seconds):
        if done == 2:
            cluster.scheduler.kill()

    other = tmp_path / "other"
    with pytest.raises(ClusterError, match=r"scheduler at tcp://\S+ was lost\. Finished trials are kept"):
        run(other, make_executor(cluster=cluster.address), tasks_of(N_TRIALS, {"seconds": 0.1}), progress=kill_at_two)
    n_kept = len(list(ResultsFolder.open_existing(other).records(METHODS)))
    assert n_kept >= 6
    assert run(other, InThisProcess(), tasks_of(N_TRIALS)) == Summary(30 - n_kept, n_kept, ())
    assert tables(other) == undisturbed
    assert capfd.readouterr().err == ""


def test_a_task_that_kills_its_workers_is_lost_and_its_neighbors_are_not(tmp_path, machines):
    # The scheduler gives up on everything that a worker had when it died.
    cluster = machines(DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    cluster.worker("--nthreads", "4")
    cluster.wait_for(1)
    # The first has the worker's lock until it dies; the next ones wait for it in the same process.
    summary = run(tmp_path, DaskCluster(cluster.address), tasks_of(4, {"die": [0], "seconds": 0.3}))
    reason = "its workers died repeatedly"
    assert summary == Summary(12, 0, tuple(sorted(Failure(0, method, reason) for method in METHODS)))


SAMPLES = """
methods = ["knn", "osnn"]
[data]
set = "digits"
[known]
classes = 2
train = 10
test = 5
[unknown]
classes = [1]
test = 5
"""


def test_a_worker_with_other_data_is_named_and_leaves_no_failures(tmp_path, machines, monkeypatch):
    # Two machines, each with a file of that name in its own place: a worker that cannot work takes trial after trial.
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, seed in ((here, 0), (there, 1)):
        folder.mkdir()
        X = np.random.default_rng(seed).random((60, 4))
        np.savez(folder / "samples.npz", X=X, y=np.repeat(["a", "b", "c"], 20))
    monkeypatch.chdir(here)
    protocol = replace(parse_protocol(tomllib.loads(SAMPLES), "samples"), data=Source(file="samples.npz"))
    work = RunSettings(protocol, 0, protocol.load_dataset().fingerprint())
    tasks = tasks_of(12, work, ("knn", "osnn"))
    cluster = machines()
    cluster.worker("--nthreads", "1", "--no-nanny", cwd=here)
    cluster.wait_for(1)
    other = cluster.worker("--nthreads", "1", "--no-nanny", "--name", "other", cwd=there)
    cluster.wait_for(2)
    out = tmp_path / "out"
    message = (
        r"the worker (tcp://\S+) on \S+ cannot run the trials: the data set samples\.npz is not that of the run .*same"
    )
    with pytest.raises(ClusterError, match=message) as caught:
        run(out, make_executor(cluster=cluster.address), tasks, run_trial_task)
    address = re.search(message, str(caught.value))[1]
    log = (cluster.folder / "scheduler-0.log").read_text()
    assert re.search(rf"Register worker addr: {address} name: other\b", log)
    kept = list(ResultsFolder.open_existing(out).records(("knn", "osnn")))
    assert len(kept) < 24 and all(record["error"] is None for record in kept)

    other.kill()
    other.wait()
    assert run(out, DaskCluster(cluster.address), tasks, run_trial_task) == Summary(24 - len(kept), len(kept), ())
    expected = [record for trial in range(12) for record, _ in run_trial(work, trial, ("knn", "osnn"))]
    check_same(list(ResultsFolder.open_existing(out).records(("knn", "osnn"))), expected)


def test_workers_that_are_missing_unsuitable_or_gone_are_reported(tmp_path, machines, monkeypatch):
    cluster = machines()
    cluster.wait_for(0)
    monkeypatch.setattr(dask_cluster, "_FIRST_WORKER", 0.5)
    with pytest.raises(ClusterError, match=r"has no workers\. Start some: dask worker tcp://"):
        DaskCluster(cluster.address).__enter__()
    monkeypatch.undo()
    worker = cluster.worker("--nthreads", "1", "--no-nanny")
    cluster.wait_for(1)
    with monkeypatch.context() as patch:
        patch.setattr(dask_cluster, "__version__", "9.9")
        message = rf"the worker tcp://\S+ has srosr {re.escape(__version__)}, but this is srosr 9\.9\."
        with pytest.raises(ClusterError, match=message):
            DaskCluster(cluster.address).__enter__()
    levels = logging.getLogger("distributed.client").level
    with make_executor(cluster=cluster.address) as executor:
        # A worker that joins later and has another version.
        with monkeypatch.context() as patch:
            patch.setattr(dask_cluster, "__version__", "9.9")
            with pytest.raises(ClusterError, match=r"that joined later has srosr .* Install the same version there"):
                list(executor.run(square, [1]))
        with pytest.raises(ExecutorError, match="top level of an importable module"):
            list(executor.run(lambda task: task, [0]))
        assert logging.getLogger("distributed.client").level == logging.CRITICAL
        assert dict(executor.run(square, range(5))) == {n: n * n for n in range(5)}
        ((_, counts),) = executor.run(threads, [0])
        assert set(counts) == {1}
        monkeypatch.setattr(dask_cluster, "_NEXT_WORKER", 1.0)
        worker.kill()
        with pytest.raises(ClusterError, match=r"no worker of tcp://\S+ is left\. Finished trials are kept"):
            list(executor.run(square, [1]))
    assert logging.getLogger("distributed.client").level == levels


def test_workers_forget_what_tasks_share_when_the_run_ends():
    with DaskCluster("local:2") as cluster:
        answers = cluster.run(add_shared, range(6), shared=10)
        index, result = next(answers)
        assert result == index + 10 and max(cluster._client.run(count_shared).values()) == 1
        assert len(list(answers)) == 5
        assert set(cluster._client.run(count_shared).values()) == {0}


def test_a_cluster_of_this_machine_gives_the_same_tables_and_leaves_no_orphans(tmp_path, undisturbed):
    out, log = tmp_path / "out", tmp_path / "log"
    log.mkdir()
    payload = {"seconds": 0.2, "log": str(log), "meet": 2}
    options = ("--trials", str(N_TRIALS), "--cluster", "local:2")
    with Run(out, *options, payload=payload) as first:
        assert first.wait_for(3)
        first.process.kill()
        first.process.wait(10)
    pids = {int(path.name.split("-")[0]) for path in log.iterdir()}
    assert len(pids) == 2
    assert all_gone(pids, seconds=10)
    with Run(out, *options, payload=payload) as second:
        output, errors = second.process.communicate(timeout=300)
    assert "done" in output and errors == ""
    assert tables(out) == undisturbed
    assert ResultsFolder(out, IDENTITY).identity == ResultsFolder.open_existing(out).identity


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://no-such-host.invalid:8786", "tcp://127.0.0.1:99999"])
def test_a_scheduler_that_cannot_be_reached_is_an_error_within_seconds(address):
    started = time.monotonic()
    with pytest.raises(ClusterError, match=rf"no Dask scheduler answers at {address} .*dask scheduler"):
        DaskCluster(address).__enter__()
    assert time.monotonic() - started < 10


def test_something_else_that_listens_is_an_error_within_seconds():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started = time.monotonic()
        with pytest.raises(ClusterError, match="does not answer like a Dask scheduler"):
            DaskCluster(f"tcp://127.0.0.1:{silent.getsockname()[1]}").__enter__()
        assert time.monotonic() - started < 10


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match=re.escape('pip install "srosr[cluster]"')):
        DaskCluster("local:2").__enter__()

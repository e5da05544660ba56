"""Work for the tests of the runner: fast, the same in every process, and failing on request.

Run as a program of its own, in a folder: ``python -c "import work_for_runner; work_for_runner.main()" FOLDER ...``.
"""

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np

from srosr.distributed.worker_task import ExecutorError, UnfitWorkerError
from srosr.experiments.result_tables import write_tables
from srosr.experiments.results_folder import ResultsFolder, ResultsFolderError
from srosr.experiments.runner import TrialTask, make_executor, run_trials

METHODS = ("calibrated", "w-svm", "osnn")
METRICS = ("f", "accuracy", "auroc")


def work(task):
    """Return records of pseudo-random values that depend on trial and method alone.

    The payload may have: "seconds" to take, "print" (a text), "log" (a folder that gets the process number), "meet" (so
    many processes must have begun work before any goes on), "raise", "not_here", "exit", "die", "die_once" (trials that
    do). "meet" and "die_once" need "log".
    """
    payload = task.payload or {}
    if "print" in payload:
        print(payload["print"])
        sys.stdin.read()
    if "log" in payload:
        Path(payload["log"], f"{os.getpid()}-{task.trial}-{time.time_ns()}").touch()
    if "meet" in payload:
        meet(Path(payload["log"]), payload["meet"])
    time.sleep(payload.get("seconds", 0.0))
    if task.trial in payload.get("raise", ()):
        raise ArithmeticError(f"trial {task.trial}\ncannot be drawn")
    if task.trial in payload.get("not_here", ()):
        raise UnfitWorkerError("the samples\nare missing. Bring them.")
    if task.trial in payload.get("exit", ()):
        sys.exit("no more")
    if task.trial in payload.get("die", ()):
        os.kill(os.getpid(), 9)
    if task.trial in payload.get("die_once", ()):
        mark = Path(payload["log"], f"died-{task.trial}")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
    return [(record(task.trial, method), times(task.trial, method)) for method in task.methods]


def meet(log, n_processes):
    """Wait for others, however slow they are to start; a minute without them is an error."""
    end = time.monotonic() + 60
    while len({path.name.split("-")[0] for path in log.iterdir()}) < n_processes:
        if time.monotonic() > end:
            raise TimeoutError(f"there are not {n_processes} processes at work")
        time.sleep(0.02)


def record(trial, method, error=None):
    rng = np.random.default_rng([trial, *method.encode()])
    values = [[n, n / 7, metric, float(rng.standard_normal())] for n in (0, 1, 3) for metric in METRICS]
    if method == "osnn":
        values[0][3] = math.nan
    coverage = [[target, *rng.random(4).tolist()] for target in (0.01, 0.05)]
    return {
        "trial": trial,
        "method": method,
        "error": error,
        "values": [] if error else values,
        "coverage": [] if error else coverage,
        "portrait": {"score": rng.random(2000).tolist(), "threshold": math.inf} if trial == 0 else None,
    }


def times(trial, method):
    return {"trial": trial, "method": method, "fit": time.time() % 1, "predict": 0.25, "coding": None}


def square(number):
    """Return the square: not every task is a trial."""
    return number * number


def unpicklable(_):
    return lambda: None


def threads(_):
    """Return the numbers of threads that BLAS and OpenMP would use."""
    from threadpoolctl import threadpool_info

    return [library["num_threads"] for library in threadpool_info()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cluster")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--payload", type=json.loads, default={})
    options = parser.parse_args()
    methods = tuple(options.methods.split(","))
    tasks = [TrialTask(trial, methods, options.payload) for trial in range(options.trials)]
    identity = {"experiment": "letters", "protocol": {"seed": options.seed}}
    try:
        with ResultsFolder(options.out, identity) as folder, make_executor(options.jobs, options.cluster) as executor:
            summary = run_trials(folder, executor, work, tasks, lambda *progress: print(*progress, flush=True))
            write_tables(folder.path, "letters", folder.records(methods), folder.times(methods), methods, METRICS)
    except (ResultsFolderError, ExecutorError) as error:
        sys.exit(f"Error: {error}")
    print("done", summary.n_done, summary.n_skipped, len(summary.failures))


def add_shared(number, *, shared):
    return number + shared


def count_shared():
    """Return of how many runs this worker holds what their tasks share."""
    from srosr.distributed import dask_cluster

    return len(dask_cluster._SHARED)

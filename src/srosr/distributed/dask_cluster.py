"""An executor that runs tasks on a cluster of machines, through Dask distributed.

Workers need the same version of this library, and whatever files the tasks read. Other versions of the libraries below
it are accepted: they, and another kind of processor, may change the last bits of results.

If a worker dies, Dask gives its task to another one. After too many deaths Dask blames the task, though another task on
the same worker may be the cause; such a task is tried once more when everything else is done, with nothing beside it.
"""

from __future__ import annotations

import logging
import os
import pickle
import platform
import re
import signal
import socket
import threading
import time
import uuid
import warnings
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import metadata
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from .. import __version__
from .worker_task import ExecutorError, LostTask, UnfitWorker, call_task, describe_error, pickle_function

_LOCAL = re.compile(r"local:([1-9][0-9]{0,3})", re.ASCII)
_ADDRESS = re.compile(r"(tcp|tls)://[^\s/]+:[0-9]{1,5}", re.ASCII)

# Seconds to wait for a connection, for the first worker and, in the middle of a run, for another one.
_CONNECT = 5.0
_FIRST_WORKER = 30.0
_NEXT_WORKER = 60.0
_POLL = 0.5
# Seconds that workers on this machine have to end by themselves.
_GRACE = 0.7

# The index of a task, and its result or exception.
_Ended: TypeAlias = tuple[int, Any]

# Warning filters and BLAS threads belong to the whole process, so a worker runs one task at a time.
_ONE_AT_A_TIME = threading.Lock()
# What all tasks of the present run share, by the name of the run; in a worker.
_SHARED: dict[str, Any] = {}


class ClusterError(ExecutorError):
    """A cluster cannot be reached, has no workers or unfit ones, or was lost."""


class DaskCluster:
    """Run tasks on a Dask cluster.

    Parameters
    ----------
    address : str
        ``"tcp://HOST:PORT"`` of a running scheduler, or ``"local:N"`` for a scheduler and N worker processes on this
        machine, which run as long as this object is entered.
    work : str, optional
        What workers do, in messages about one that cannot.
    after_loss : str, optional
        A sentence at the end of the message if the cluster is lost: what is kept then, and what to do.

    Raises
    ------
    ValueError
        If the address is neither.
    ClusterError
        On entering, if there is no cluster with workers of this version of the library.
    """

    def __init__(self, address: str, *, work: str = "run the tasks", after_loss: str = "") -> None:
        self._local = _LOCAL.fullmatch(address)
        if not self._local and not _ADDRESS.fullmatch(address):
            raise ValueError(
                f"{address!r} is not a cluster: give the address of a Dask scheduler, such as tcp://127.0.0.1:8786, or "
                "local:2 for two worker processes on this machine."
            )
        self.address = address
        self._work, self._after_loss = work, after_loss
        self._client: Any = None
        self._cluster: Any = None
        self._versions: list[dict[str, str]] = []
        self._levels: dict[str, int] = {}

    def __enter__(self) -> DaskCluster:
        try:
            self._connect()
            self._check_workers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Finished results have been yielded already; a cluster that does not answer is abandoned.
        if self._client is not None:
            with suppress(Exception):
                self._client.close(timeout=2)
        if self._cluster is not None:
            _close_cluster(self._cluster)
        self._client = self._cluster = None
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)

    def versions(self) -> list[dict[str, str]]:
        """Return the library versions of the workers; where they differ, so may the last bits of results."""
        return list(self._versions)

    def _connect(self) -> None:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise ClusterError(
                'a cluster needs Dask distributed, which is not installed: pip install "srosr[cluster]".'
            ) from None
        self._levels = _silence_loggers()
        if self._local:
            try:
                self._cluster = LocalCluster(
                    n_workers=int(self._local[1]), threads_per_worker=1, processes=True, host="127.0.0.1",
                    dashboard_address=None, memory_limit=0, silence_logs=logging.CRITICAL,
                )  # fmt: skip
            except Exception as error:
                raise ClusterError(
                    f"could not start {self.address} ({describe_error(error)}). A script must start it under "
                    'if __name__ == "__main__":.'
                ) from error
        else:
            self._check_reachable()
        try:
            at = self._cluster or self.address
            self._client = _ask_within(_CONNECT + 1.0, lambda: Client(at, timeout=_CONNECT, set_as_default=False))
        except Exception as error:
            raise ClusterError(
                f"{self.address} does not answer like a Dask scheduler of a compatible version "
                f"({describe_error(error)})."
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=_FIRST_WORKER)
        except Exception as error:
            raise ClusterError(
                f"the scheduler at {self.address} has no workers. Start some: dask worker {self.address} --nthreads 1."
            ) from error

    def _check_reachable(self) -> None:
        """Check that something listens at the address; a Dask client would keep trying."""
        host, _, port = self.address.partition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {self.address} ({describe_error(error)}). Check that it is running "
                "(dask scheduler) and that this machine can reach it."
            ) from error

    def _check_workers(self) -> None:
        try:
            answers = self._client.run(get_library_versions, on_error="return")
        except Exception as error:
            raise ClusterError(f"the workers of {self.address} do not answer: {describe_error(error)}.") from error
        # A worker that has left meanwhile does not matter.
        answers = {worker: answer for worker, answer in answers.items() if not isinstance(answer, OSError)}
        if not answers:
            raise ClusterError(f"the workers of {self.address} do not answer. Look at their logs.")
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, BaseException):
                raise ClusterError(
                    f"the worker {worker} cannot load srosr ({describe_error(answer)}). Install srosr {__version__} "
                    "there."
                )
            if answer["srosr"] != __version__:
                raise ClusterError(_describe_version_mismatch(worker, answer["srosr"]))
            if answer not in self._versions:
                self._versions.append(answer)

    def run(
        self, function: Callable[..., Any], tasks: Sequence[Any], shared: Any = None
    ) -> Generator[tuple[int, Any], None, None]:
        """Run the tasks and yield the index and the result of each as soon as it arrives.

        The result of a task that raised, or that too many workers died of, is a `LostTask`.

        Parameters
        ----------
        function : callable
            Defined at the top level of a module that the workers can import; called with a task and, if something is
            shared, with the keyword ``shared``.
        tasks : sequence
            Pickled one by one as workers get them, so they should be small.
        shared : object, optional
            What all tasks need and none changes. Each worker gets it once, unpickles it once, and forgets it at the end
            of the run.

        Raises
        ------
        ClusterError
            If the scheduler or all workers are lost, or if a worker cannot load the function or lacks what all tasks
            need.
        """
        run_name = f"srosr-{uuid.uuid4().hex}"
        call = pickle_function(function)
        waiting, suspects = deque(range(len(tasks))), deque[int]()
        futures: dict[int, Any] = {}
        ended: SimpleQueue[_Ended] = SimpleQueue()
        alone = False
        common = None if shared is None else self._share(f"{run_name}-shared", shared)

        def submit(index: int) -> None:
            key = f"{run_name}-{index}-{'alone' if alone else 'first'}"
            task = pickle.dumps(tasks[index])
            future = self._client.submit(_run_on_worker, __version__, call, task, run_name, common, key=key, pure=False)
            futures[index] = future
            # In a thread, since a result that was lost is computed again, which can take long.
            future.add_done_callback(lambda _: _ask_in_thread(future.result, ended, index))

        try:
            while waiting or suspects or futures:
                if not waiting and not futures:
                    waiting, suspects, alone = suspects, deque(), True
                # A few more tasks than workers, so that no worker has to wait.
                while waiting and len(futures) < (1 if alone else self._count_workers() + 2):
                    submit(waiting.popleft())
                index, answer = self._wait_for_next(ended)
                del futures[index]
                result = self._unwrap_result(answer, function)
                if result is None and not alone:
                    suspects.append(index)
                elif result is None:
                    yield index, LostTask("its workers died repeatedly")
                else:
                    loaded = pickle.loads(result)
                    if isinstance(loaded, UnfitWorker):
                        raise self._loss(
                            f"the worker {loaded.worker} cannot {self._work}: {loaded.reason} Or stop that worker."
                        )
                    yield index, loaded
        finally:
            if futures:
                self._ask_to_end(lambda client: client.cancel(list(futures.values()), force=True))
            if shared is not None:
                self._ask_to_end(lambda client: client.run(_forget_shared, run_name, on_error="ignore"))

    def _ask_to_end(self, question: Callable[[Any], Any]) -> None:
        """Ask the cluster, if it is still there, for something at the end of a run; no answer is no error."""
        client = self._client
        if client is not None and client.status == "running":
            with suppress(Exception):
                _ask_within(2.0, lambda: question(client))

    def _share(self, key: str, shared: Any) -> Any:
        """Make an object a result of the cluster, which workers get from each other.

        It is a task and no scattered data, so that it is there again if all workers that hold it die.
        """
        data = pickle.dumps(shared)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self._client.submit(bytes, data, key=key, pure=False)

    def _loss(self, what: str) -> ClusterError:
        return ClusterError(f"{what} {self._after_loss}".rstrip())

    def _wait_for_next(self, ended: SimpleQueue[_Ended]) -> _Ended:
        seen = time.monotonic()
        while True:
            with suppress(Empty):
                return ended.get(timeout=_POLL)
            if self._count_workers() > 0:
                seen = time.monotonic()
            elif time.monotonic() - seen > _NEXT_WORKER:
                raise self._loss(f"no worker of {self.address} is left.")

    def _count_workers(self) -> int:
        answers: SimpleQueue[_Ended] = SimpleQueue()
        _ask_in_thread(self._client.nthreads, answers, 0)
        while self._client.status == "running":
            with suppress(Empty):
                _, threads = answers.get(timeout=_POLL)
                if isinstance(threads, dict):
                    return len(threads)
                break
        raise self._loss(f"the scheduler at {self.address} was lost.")

    def _unwrap_result(self, answer: Any, function: Callable[[Any], Any]) -> bytes | None:
        """Return the pickled result, or None if workers died of the task."""
        from distributed import KilledWorker

        if not isinstance(answer, BaseException):
            version, result = answer
            if version != __version__:
                raise ClusterError(_describe_version_mismatch("that joined later", version))
            return bytes(result)
        if isinstance(answer, KilledWorker):
            return None
        if self._client.status != "running" or isinstance(answer, OSError | CancelledError | FutureCancelled):
            raise self._loss(f"the scheduler at {self.address} was lost.") from answer
        raise ClusterError(
            f"a worker could not load {function!r} ({describe_error(answer)}). Install srosr {__version__} and its "
            "dependencies there."
        ) from answer


def _run_on_worker(version: str, call: bytes, task: bytes, run_name: str, shared: bytes | None) -> tuple[str, bytes]:
    """Run one task in a worker process and return the version and the pickled result.

    The result is pickled here, so that Dask does not interpret it.
    """
    if version != __version__:
        return __version__, b""
    function = pickle.loads(call)
    with _ONE_AT_A_TIME:
        if shared is not None:
            if run_name not in _SHARED:
                _SHARED.clear()
                _SHARED[run_name] = pickle.loads(shared)
            function = partial(function, shared=_SHARED[run_name])
        result = call_task(function, pickle.loads(task))
    if isinstance(result, UnfitWorker):
        from distributed import get_worker

        result = replace(result, worker=f"{get_worker().address} on {result.worker}")
    try:
        return __version__, pickle.dumps(result)
    except Exception as error:
        return __version__, pickle.dumps(LostTask(f"the worker could not send the result: {describe_error(error)}"))


def _forget_shared(run_name: str) -> None:
    """Forget in a worker what the tasks of a run shared: a worker may live long after it."""
    _SHARED.pop(run_name, None)


def _describe_version_mismatch(worker: str, version: str) -> str:
    return f"the worker {worker} has srosr {version}, but this is srosr {__version__}. Install the same version there."


def _ask_in_thread(question: Callable[[], Any], answers: SimpleQueue[_Ended], index: int) -> None:
    """Ask in a thread, which is abandoned if no answer comes; an exception is an answer too."""

    def ask() -> None:
        try:
            answers.put((index, question()))
        except BaseException as error:
            answers.put((index, error))

    threading.Thread(target=ask, daemon=True).start()


def _ask_within(seconds: float, question: Callable[[], Any]) -> Any:
    """Return the answer if it comes in time; a Dask client would wait forever for a silent listener."""
    answers: SimpleQueue[_Ended] = SimpleQueue()
    _ask_in_thread(question, answers, 0)
    try:
        _, answer = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:.0f} s") from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _close_cluster(cluster: Any) -> None:
    """Close a cluster on this machine without waiting long for its workers."""
    pids = []
    with suppress(Exception):
        pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]

    def kill() -> None:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    # A cluster that is closing does not replace workers that end.
    impatience = threading.Timer(_GRACE, kill)
    impatience.start()
    with suppress(Exception):
        cluster.close(timeout=10)
    impatience.cancel()


def _silence_loggers() -> dict[str, int]:
    """Silence Dask's own loggers, since our errors say what matters; return their previous levels."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return levels


def get_library_versions() -> dict[str, str]:
    """Return the versions of the libraries that compute the results, and the machine type."""
    libraries = {name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")}
    python = {"python": platform.python_version(), "machine": platform.machine()}
    return {"srosr": __version__} | libraries | python

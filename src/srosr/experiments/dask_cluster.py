"""An executor that runs tasks on a cluster of machines, through Dask distributed.

Workers need the same version of this library, and the data. If a worker dies, Dask gives its task to another one. After
too many deaths Dask blames the task, though another task on the same worker may be the cause; such a task is tried once
more when everything else is done, with nothing beside it.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import socket
import threading
import time
import uuid
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from .. import __version__
from .run_identity import get_library_versions
from .worker_task import RESUME_HINT, ExecutorError, LostTask, UnfitWorker, call_task, describe_error, pickle_function

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


class ClusterError(ExecutorError):
    """A cluster cannot be reached, has no workers or unfit ones, or was lost."""


class DaskCluster:
    """Run tasks on a Dask cluster.

    Parameters
    ----------
    address : str
        ``"tcp://HOST:PORT"`` of a running scheduler, or ``"local:N"`` for a scheduler and N worker processes on this
        machine, which run as long as this object is entered.

    Raises
    ------
    ValueError
        If the address is neither.
    ClusterError
        On entering, if there is no cluster with workers of this version of the library.
    """

    def __init__(self, address: str) -> None:
        self._local = _LOCAL.fullmatch(address)
        if not self._local and not _ADDRESS.fullmatch(address):
            raise ValueError(
                f"{address!r} is not a cluster: give the address of a Dask scheduler, such as tcp://127.0.0.1:8786, or "
                "local:2 for two worker processes on this machine."
            )
        self.address = address
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
        # Finished trials are stored already; a cluster that does not answer is abandoned.
        if self._client is not None:
            with suppress(Exception):
                self._client.close(timeout=2)
        if self._cluster is not None:
            _close_cluster(self._cluster)
        self._client = self._cluster = None
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)

    def versions(self) -> list[dict[str, str]]:
        """Return the library versions of the workers."""
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

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Run the tasks and yield each result as soon as it arrives, as :meth:`LocalProcesses.run` does.

        The workers must be able to import the function. A task that too many workers died of is a `LostTask`. Raises
        ClusterError if the scheduler or all workers are lost, or if a worker cannot load the function or lacks what all
        tasks need.
        """
        run_name = f"srosr-{uuid.uuid4().hex}"
        call = pickle_function(function)
        waiting, suspects = deque(range(len(tasks))), deque[int]()
        futures: dict[int, Any] = {}
        ended: SimpleQueue[_Ended] = SimpleQueue()
        alone = False

        def submit(index: int) -> None:
            key = f"{run_name}-{index}-{'alone' if alone else 'first'}"
            task = pickle.dumps(tasks[index])
            future = self._client.submit(_run_on_worker, __version__, call, task, key=key, pure=False)
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
                        raise ClusterError(
                            f"the worker {loaded.worker} cannot run the trials: {loaded.reason} Or stop that worker. "
                            f"{RESUME_HINT}"
                        )
                    yield index, loaded
        finally:
            if futures and self._client is not None and self._client.status == "running":
                with suppress(Exception):
                    _ask_within(2.0, lambda: self._client.cancel(list(futures.values()), force=True))

    def _wait_for_next(self, ended: SimpleQueue[_Ended]) -> _Ended:
        seen = time.monotonic()
        while True:
            with suppress(Empty):
                return ended.get(timeout=_POLL)
            if self._count_workers() > 0:
                seen = time.monotonic()
            elif time.monotonic() - seen > _NEXT_WORKER:
                raise ClusterError(f"no worker of {self.address} is left. {RESUME_HINT}")

    def _count_workers(self) -> int:
        answers: SimpleQueue[_Ended] = SimpleQueue()
        _ask_in_thread(self._client.nthreads, answers, 0)
        while self._client.status == "running":
            with suppress(Empty):
                _, threads = answers.get(timeout=_POLL)
                if isinstance(threads, dict):
                    return len(threads)
                break
        raise ClusterError(f"the scheduler at {self.address} was lost. {RESUME_HINT}")

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
            raise ClusterError(f"the scheduler at {self.address} was lost. {RESUME_HINT}") from answer
        raise ClusterError(
            f"a worker could not load {function!r} ({describe_error(answer)}). Install srosr {__version__} and its "
            "dependencies there."
        ) from answer


def _run_on_worker(version: str, call: bytes, task: bytes) -> tuple[str, bytes]:
    """Run one task in a worker process and return the version and the pickled result.

    The result is pickled here, so that Dask does not interpret it.
    """
    if version != __version__:
        return __version__, b""
    function = pickle.loads(call)
    with _ONE_AT_A_TIME:
        result = call_task(function, pickle.loads(task))
    if isinstance(result, UnfitWorker):
        from distributed import get_worker

        result = replace(result, worker=f"{get_worker().address} on {result.worker}")
    try:
        return __version__, pickle.dumps(result)
    except Exception as error:
        return __version__, pickle.dumps(LostTask(f"the worker could not send the result: {describe_error(error)}"))


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

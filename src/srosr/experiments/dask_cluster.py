"""Work on a cluster of machines, through Dask distributed.

Workers need this library in this version, and the data; nothing else. A worker that dies costs what it was working on.
Dask gives that to another one. After too many deaths it takes the task for the cause, though it may only have been near
it: such a task is tried once more when everything else is done and nothing can be near.
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
from .run_identity import library_versions
from .worker_task import GO_ON, ExecutorError, Lost, Unfit, attempt, pickled, reason_of

__all__ = ["ClusterError", "DaskCluster"]

_LOCAL = re.compile(r"local:([1-9][0-9]{0,3})", re.ASCII)
_ADDRESS = re.compile(r"(tcp|tls)://[^\s/]+:[0-9]{1,5}", re.ASCII)

# Seconds to wait for a connection, for the first worker and, in the middle of a run, for another one.
_CONNECT = 5.0
_FIRST_WORKER = 30.0
_NEXT_WORKER = 60.0
_LOOK = 0.5
# Seconds that workers of this machine have to end by themselves.
_GRACE = 0.7

# The number of a task, and what it came to or raised.
_Ended: TypeAlias = tuple[int, Any]

# Warning filters and BLAS threads belong to the whole process, so a worker does one task at a time.
_ONE_AT_A_TIME = threading.Lock()


class ClusterError(ExecutorError):
    """A cluster cannot be reached, has no workers, has unfit ones, or was lost."""


class DaskCluster:
    """Do tasks on a Dask cluster.

    Parameters
    ----------
    address : str
        ``"tcp://HOST:PORT"`` of a scheduler that runs, or ``"local:N"`` for a scheduler and N worker processes on this
        machine, for as long as this is entered.

    Raises
    ------
    ValueError
        If the address is neither.
    ClusterError
        On entering: Dask is not installed, the scheduler does not answer, there are no workers, or they have another
        version of this library.
    """

    def __init__(self, address: str) -> None:
        self._local = _LOCAL.fullmatch(address)
        if not self._local and not _ADDRESS.fullmatch(address):
            raise ValueError(
                f"{address!r} is no cluster: give the address of a Dask scheduler, such as tcp://127.0.0.1:8786, or "
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
        # What is finished is stored already; a cluster that does not answer is left.
        if self._client is not None:
            with suppress(Exception):
                self._client.close(timeout=2)
        if self._cluster is not None:
            _end(self._cluster)
        self._client = self._cluster = None
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)

    def versions(self) -> list[dict[str, str]]:
        """Versions of the libraries of the workers."""
        return list(self._versions)

    def _connect(self) -> None:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise ClusterError(
                'a cluster needs Dask distributed, which is not installed: pip install "srosr[cluster]".'
            ) from None
        self._levels = _quieten()
        if self._local:
            try:
                self._cluster = LocalCluster(
                    n_workers=int(self._local[1]),
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address=None,
                    memory_limit=0,
                    silence_logs=logging.CRITICAL,
                )
            except Exception as error:
                raise ClusterError(
                    f"could not start {self.address} ({reason_of(error)}). A script that asks for it must do so under "
                    'if __name__ == "__main__":.'
                ) from error
        else:
            self._knock()
        try:
            self._client = _within(
                _CONNECT + 1.0,
                lambda: Client(self._cluster or self.address, timeout=_CONNECT, set_as_default=False),
            )
        except Exception as error:
            raise ClusterError(
                f"what listens at {self.address} does not answer as a Dask scheduler of a like version does "
                f"({reason_of(error)})."
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=_FIRST_WORKER)
        except Exception as error:
            raise ClusterError(
                f"the scheduler at {self.address} has no workers. Start some: dask worker {self.address} --nthreads 1."
            ) from error

    def _knock(self) -> None:
        """See whether anything listens at the address: a client of Dask would go on trying."""
        host, _, port = self.address.partition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {self.address} ({reason_of(error)}). Is it running (dask scheduler), "
                "and can this machine reach it?"
            ) from error

    def _check_workers(self) -> None:
        try:
            answers = self._client.run(library_versions, on_error="return")
        except Exception as error:
            raise ClusterError(f"the workers of {self.address} do not answer: {reason_of(error)}.") from error
        # One that has gone meanwhile is no trouble.
        answers = {worker: answer for worker, answer in answers.items() if not isinstance(answer, OSError)}
        if not answers:
            raise ClusterError(f"the workers of {self.address} do not answer. Look at what they say.")
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, BaseException):
                raise ClusterError(
                    f"the worker {worker} cannot load srosr ({reason_of(answer)}). Install srosr {__version__} there."
                )
            if answer["srosr"] != __version__:
                raise ClusterError(_other_version(worker, answer["srosr"]))
            if answer not in self._versions:
                self._versions.append(answer)

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Do the tasks; results come as soon as they are there.

        Parameters
        ----------
        function : callable
            Of one task, defined at the top level of a module that the workers can import.
        tasks : sequence
            Whatever can be pickled.

        Yields
        ------
        index, result : int, object
            The number of the task in ``tasks``, and what the function returned; or a `Lost` where it raised, or where
            too many workers died of it.

        Raises
        ------
        ClusterError
            If the scheduler or all workers are gone, the workers cannot load the function, or one of them lacks what
            all tasks need.
        """
        run_name = f"srosr-{uuid.uuid4().hex}"
        call = pickled(function)
        waiting, suspects = deque(range(len(tasks))), deque[int]()
        futures: dict[int, Any] = {}
        ended: SimpleQueue[_Ended] = SimpleQueue()
        alone = False

        def submit(index: int) -> None:
            key = f"{run_name}-{index}-{'alone' if alone else 'first'}"
            future = self._client.submit(_on_worker, __version__, call, pickle.dumps(tasks[index]), key=key, pure=False)
            futures[index] = future
            # In a thread: a result that is lost on its way is made again, which may take its time.
            future.add_done_callback(lambda _: _ask(future.result, ended, index))

        try:
            while waiting or suspects or futures:
                if not waiting and not futures:
                    waiting, suspects, alone = suspects, deque(), True
                # A few more than there are workers, so that none has to wait.
                while waiting and len(futures) < (1 if alone else self._n_workers() + 2):
                    submit(waiting.popleft())
                index, answer = self._next(ended)
                del futures[index]
                result = self._result(answer, function)
                if result is None and not alone:
                    suspects.append(index)
                elif result is None:
                    yield index, Lost("the worker running it died, again and again")
                else:
                    loaded = pickle.loads(result)
                    if isinstance(loaded, Unfit):
                        told = f"the worker {loaded.worker} cannot do the work: {loaded.reason}"
                        raise ClusterError(f"{told} Or stop that worker. {GO_ON}")
                    yield index, loaded
        finally:
            if futures and self._client is not None and self._client.status == "running":
                with suppress(Exception):
                    _within(2.0, lambda: self._client.cancel(list(futures.values()), force=True))

    def _next(self, ended: SimpleQueue[_Ended]) -> _Ended:
        """The next task to end."""
        seen = time.monotonic()
        while True:
            with suppress(Empty):
                return ended.get(timeout=_LOOK)
            if self._n_workers() > 0:
                seen = time.monotonic()
            elif time.monotonic() - seen > _NEXT_WORKER:
                raise ClusterError(f"no worker of {self.address} is left. {GO_ON}")

    def _n_workers(self) -> int:
        answers: SimpleQueue[_Ended] = SimpleQueue()
        _ask(self._client.nthreads, answers, 0)
        while self._client.status == "running":
            with suppress(Empty):
                _, threads = answers.get(timeout=_LOOK)
                if isinstance(threads, dict):
                    return len(threads)
                break
        raise ClusterError(f"the scheduler at {self.address} was lost. {GO_ON}")

    def _result(self, answer: Any, function: Callable[[Any], Any]) -> bytes | None:
        """The pickled result; None where workers died of it."""
        from distributed import KilledWorker

        if not isinstance(answer, BaseException):
            version, result = answer
            if version != __version__:
                raise ClusterError(_other_version("that joined later", version))
            return bytes(result)
        if isinstance(answer, KilledWorker):
            return None
        if self._client.status != "running" or isinstance(answer, OSError | CancelledError | FutureCancelled):
            raise ClusterError(f"the scheduler at {self.address} was lost. {GO_ON}") from answer
        raise ClusterError(
            f"a worker could not start on {function!r} ({reason_of(answer)}). It must be importable there: is "
            f"srosr {__version__}, with all that it needs, installed?"
        ) from answer


def _on_worker(version: str, call: bytes, task: bytes) -> tuple[str, bytes]:
    """Do one task in a worker's process. What it returns is pickled here, since Dask may read what passes."""
    if version != __version__:
        return __version__, b""
    function = pickle.loads(call)
    with _ONE_AT_A_TIME:
        result = attempt(function, pickle.loads(task))
    if isinstance(result, Unfit):
        from distributed import get_worker

        result = replace(result, worker=f"{get_worker().address} on {result.worker}")
    try:
        return __version__, pickle.dumps(result)
    except Exception as error:
        return __version__, pickle.dumps(Lost(f"the worker could not send the result: {reason_of(error)}"))


def _other_version(worker: str, version: str) -> str:
    return f"the worker {worker} has srosr {version}, and this is srosr {__version__}. Install the same version there."


def _ask(question: Callable[[], Any], answers: SimpleQueue[_Ended], index: int) -> None:
    """Ask in a thread, which is left to itself if the answer never comes; what is raised is an answer too."""

    def ask() -> None:
        try:
            answers.put((index, question()))
        except BaseException as error:
            answers.put((index, error))

    threading.Thread(target=ask, daemon=True).start()


def _within(seconds: float, question: Callable[[], Any]) -> Any:
    """The answer, if it comes in time: a client waits for ever for what listens and says nothing."""
    answers: SimpleQueue[_Ended] = SimpleQueue()
    _ask(question, answers, 0)
    try:
        _, answer = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:.0f} s") from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _end(cluster: Any) -> None:
    """Close a cluster of this machine, without waiting long for what its workers are doing."""
    pids = []
    with suppress(Exception):
        pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]

    def kill() -> None:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    # Once it closes, it does not start workers in the place of those that end.
    impatience = threading.Timer(_GRACE, kill)
    impatience.start()
    with suppress(Exception):
        cluster.close(timeout=10)
    impatience.cancel()


def _quieten() -> dict[str, int]:
    """Keep Dask's own reports off the user's screen: what matters is said in our errors. The levels there were."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return levels

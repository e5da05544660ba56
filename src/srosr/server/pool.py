"""Child processes of the server: kept warm, one job at a time each, ended when a client no longer waits.

A child that is killed, crashes or has done many jobs is replaced. See :mod:`srosr.server.child` for the other side.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic_core import from_json, to_json
from safetensors import SafetensorError
from safetensors.numpy import load

from .._support.array_types import AnyArray
from .._support.child_process import Child, FrameTooLarge
from ..distributed.worker_task import ONE_THREAD
from .samples import pack_arrays
from .schemas import ApiError

#: A function that takes how far a piece of work is: its stage, and how many of how many are done.
OnProgress = Callable[[dict[str, Any]], None]

#: Jobs after which a child is replaced, and jobs that a pool is given at a time: some run, the others wait.
_MOST_JOBS, _MOST_GIVEN = 1000, 64
#: Seconds in which a process must take jobs.
_START = 120.0
#: Jobs that take long: they leave one process to the others, and wait for each other apart from them.
_LONG_JOBS = frozenset({"evaluate", "discover", "add_class", "remove_class", "update", "recalibrate"})
#: Bytes of the JSON of an answer.
_MOST_TEXT = 128 * 1024**2
_RETRY = {"Retry-After": "1"}
#: What a child gets of the environment: where things are, nothing that is secret.
_ENVIRONMENT = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "USERPROFILE",
    "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "LD_LIBRARY_PATH",
    "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "OPENBLAS_CORETYPE",
)  # fmt: skip
#: A reader has one thread: each thread of a library would reserve memory.
_ONE_THREAD = {**ONE_THREAD, "ARROW_DEFAULT_MEMORY_POOL": "system", "ARROW_IO_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def crash() -> ApiError:
    """Return the error for a job whose process has ended, or failed in a way that only the log should tell."""
    return ApiError(503, "The process that worked on this ended unexpectedly: try again.", _RETRY)


def _pack(job: str, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> list[bytes]:
    return [to_json({"job": job, "header": header}), pack_arrays(arrays)]


class _Worker:
    """A child that is starting, ready or at work."""

    def __init__(self, kind: str, folder: Path, memory: int | None) -> None:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment |= {"MPLBACKEND": "agg"} | (_ONE_THREAD if kind == "reader" else {})
        self.child = Child("srosr.server.child", "run_jobs", (kind, memory), environment=environment, folder=folder)
        self.n_jobs, self.is_ready, self.version = 0, False, ""

    def wait_until_ready(self) -> None:
        """Wait until the process takes jobs; for a thread."""
        if not self.is_ready and self.child.receive(_MOST_TEXT) is None:
            raise crash()
        self.is_ready = True

    def do(self, frames: list[bytes], tell: OnProgress, most: int | None) -> tuple[dict[str, Any], bytes | None]:
        """Send a job and return the answer, and the bytes of its arrays; for a thread."""
        try:
            for frame in frames:
                self.child.send(frame)
            while (text := self.child.receive(_MOST_TEXT)) is not None:
                said = from_json(text)
                if said["kind"] == "result":
                    return said, self.child.receive(most)
                if said["kind"] != "progress":
                    return said, None
                tell(said)
        except FrameTooLarge:
            raise ApiError(413, f"The samples take more than {(most or 0) / 1e6:g} MB of memory: send less.") from None
        except (OSError, KeyError, TypeError, ValueError):  # the connection broke, or what arrived is no answer
            pass
        raise crash()


class Pool:
    """Child processes of one kind, each for one job at a time.

    A process may use ``memory`` bytes beyond what it has after its start, and a job take ``seconds`` once it has one.
    """

    def __init__(
        self, kind: Literal["reader", "worker"], size: int, *, memory: int | None, seconds: float, folder: Path
    ) -> None:
        self._make = lambda: _Worker(kind, folder, memory)
        self._seconds, self._n_given, self._is_closed = seconds, 0, False
        self._turns, self._long_turns = asyncio.Semaphore(max(size, 1)), asyncio.Semaphore(max(size - 1, 1))
        # One more thread for each, so that none waits for that of a process that was ended.
        self._threads = ThreadPoolExecutor(2 * max(size, 1), f"srosr-{kind}")
        # They get ready while requests are served.
        self._idle = [self._make() for _ in range(size)]
        self._busy: set[_Worker] = set()
        #: Processes that were replaced.
        self.restarts = 0

    async def run(
        self,
        job: str,
        header: Mapping[str, Any],
        arrays: Mapping[str, AnyArray] | None = None,
        *,
        on_progress: OnProgress = lambda _: None,
        most: int | None = None,
    ) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Do a job in a process that is free; return the header and the arrays of its result.

        Cancelling the task ends the process. ``on_progress`` gets ``{"stage", "done", "of"}``; arrays of more than
        ``most`` bytes are an error, and not received.
        """
        if self._n_given >= _MOST_GIVEN:
            raise ApiError(429, "The server is busy with other requests: try again later.", _RETRY)
        self._n_given += 1
        try:
            async with self._long_turns if job in _LONG_JOBS else nullcontext(), self._turns:
                frames = await asyncio.to_thread(_pack, job, header, arrays or {})
                said, content = await self._run(str(header.get("version", "")), frames, on_progress, most)
        finally:
            self._n_given -= 1
        try:
            if said["kind"] == "error" and 400 <= said["status"] < 600:
                raise ApiError(said["status"], said["error"])
            return said["header"], load(content or b"")
        except (KeyError, TypeError, ValueError, SafetensorError):
            raise crash() from None

    async def _run(
        self, version: str, frames: list[bytes], on_progress: OnProgress, most: int | None
    ) -> tuple[dict[str, Any], bytes | None]:
        worker = self._take(version)
        self._busy.add(worker)
        loop, is_whole = asyncio.get_running_loop(), False

        def tell(progress: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(on_progress, progress)

        try:
            async with asyncio.timeout(_START):
                await loop.run_in_executor(self._threads, worker.wait_until_ready)
            async with asyncio.timeout(self._seconds):
                said, content = await loop.run_in_executor(self._threads, worker.do, frames, tell, most)
            worker.n_jobs, worker.version = worker.n_jobs + 1, version
            is_whole = not said.get("is_worn") and said["kind"] != "failure" and worker.n_jobs < _MOST_JOBS
            return said, content
        except TimeoutError:
            message = f"This took longer than the {self._seconds:g} seconds allowed: send less at a time."
            raise ApiError(504, message) from None
        finally:
            self._busy.discard(worker)
            if is_whole:
                self._idle.append(worker)
            else:
                worker.child.end()
                if not self._is_closed:
                    self.restarts += 1
                    with suppress(OSError):  # the next job tries again
                        self._idle.append(self._make())

    def _take(self, version: str) -> _Worker:
        """Return a process: one that has used this version of a model, or else the one that was used longest ago."""
        found = [worker for worker in self._idle if worker.version == version]
        worker = (found or self._idle[:1] or [self._make()])[-1]
        if worker in self._idle:
            self._idle.remove(worker)
        if worker.child.has_ended:  # while it had no job: no reason to refuse this one
            self.restarts += 1
            return self._make()
        return worker

    async def close(self) -> None:
        """End all processes, also those that have a job."""
        self._is_closed = True
        for worker in (*self._idle, *self._busy):
            worker.child.end()
        self._idle.clear()
        await asyncio.to_thread(self._threads.shutdown)

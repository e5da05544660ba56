"""Child processes of the server: kept warm, one job at a time each, ended when a client no longer waits.

A child that is killed, crashes or has done many jobs is replaced. See :mod:`srosr.server.child` for the other side.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
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

#: A child that has done so many jobs is replaced.
_MOST_JOBS = 1000
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


class _Worker:
    """A child that is starting, ready or at work."""

    def __init__(self, kind: str, folder: Path, memory: int | None) -> None:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment |= {"MPLBACKEND": "agg"} | (_ONE_THREAD if kind == "reader" else {})
        self.child = Child("srosr.server.child", "run_jobs", (kind, memory), environment=environment, folder=folder)
        self.n_jobs, self.is_ready, self.version = 0, False, ""

    def do(self, frames: list[bytes], tell: OnProgress, most: int | None) -> tuple[dict[str, Any], bytes | None]:
        """Send a job and return the answer, and the bytes of its arrays; for a thread."""
        try:
            if not self.is_ready:
                self.is_ready = self.child.receive(_MOST_TEXT) is not None
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
            raise ApiError(413, f"The samples take more than {(most or 0) / 1e6:,.0f} MB: send fewer.") from None
        except (OSError, ValueError):  # the connection broke, or what arrived is not JSON
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
        self._seconds, self._is_closed = seconds, False
        self._turns, self._long_turns = asyncio.Semaphore(max(size, 1)), asyncio.Semaphore(max(size - 1, 1))
        # One more thread for each, so that none waits for that of a process that was ended.
        self._threads = ThreadPoolExecutor(2 * max(size, 1), f"srosr-{kind}")
        # They get ready while requests are served.
        self._idle = [self._make() for _ in range(size)]
        self._busy: set[_Worker] = set()
        #: Processes that were replaced.
        self.restarts = 0

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [worker.child.pid for worker in (*self._idle, *self._busy)]

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
        frames = await asyncio.to_thread(lambda: [to_json({"job": job, "header": header}), pack_arrays(arrays or {})])
        async with self._long_turns if job in _LONG_JOBS else nullcontext(), self._turns:
            try:
                async with asyncio.timeout(self._seconds):
                    said, content = await self._run(str(header.get("version", "")), frames, on_progress, most)
            except TimeoutError:
                message = f"This took longer than the {self._seconds:g} seconds allowed: send less at a time."
                raise ApiError(504, message) from None
        if said["kind"] == "error":
            raise ApiError(said["status"], said["error"])
        if content is None:
            raise crash()
        try:
            return said["header"], load(content)
        except SafetensorError:
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
            said, content = await loop.run_in_executor(self._threads, worker.do, frames, tell, most)
            worker.n_jobs, worker.version = worker.n_jobs + 1, version
            is_whole = not said.get("is_worn") and said["kind"] != "failure" and worker.n_jobs < _MOST_JOBS
            return said, content
        finally:
            self._busy.discard(worker)
            if is_whole:
                self._idle.append(worker)
            else:
                worker.child.end()
                if not self._is_closed:
                    self.restarts += 1
                    self._idle.insert(0, self._make())

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

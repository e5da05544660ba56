"""Child processes of the server: kept warm, one job at a time each, ended when a client no longer waits.

A child that is killed, crashes or has done many jobs is replaced. See :mod:`srosr.server.child_process` for the other
side.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from .._support.array_types import AnyArray
from .frames import FrameError, Message, TooLargeError, pack_off_loop, receive_message, send_parts
from .jobs import MOST_MODELS

#: A function that takes how far a piece of work is.
OnProgress = Callable[[dict[str, Any]], None]

_MODULE = "srosr.server.child_process"
_log = logging.getLogger("srosr.server")
#: A child that has done so many jobs is replaced.
_MOST_JOBS = 1000
#: Seconds in which a child must be ready, and in which its last words must arrive.
_START, _END = 120.0, 2.0
_LONG_JOBS = ("evaluate", "discover", "add_class", "remove_class", "update", "recalibrate")
_LONGEST_LINE = 1000
#: What a child gets of the environment: where things are, nothing that is secret.
_ENVIRONMENT = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "USERPROFILE",
    "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "LD_LIBRARY_PATH",
    "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "OPENBLAS_CORETYPE",
)  # fmt: skip
#: A reader has one thread: each thread of a library would reserve memory.
_ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
} | {"ARROW_DEFAULT_MEMORY_POOL": "system", "ARROW_IO_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


class JobError(Exception):
    """A job could not be done, and a sentence says why; ``status`` is the HTTP status that goes with it."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.message, self.status = message, status


class ChildCrashed(JobError):
    """The process that did the job has ended, or failed in a way that only the log should tell."""

    def __init__(self) -> None:
        super().__init__("The process that worked on this ended unexpectedly: try again.", 503)


class JobTimeout(JobError):
    """The job took longer than allowed; its process was ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"This took longer than the {seconds:g} seconds allowed: send less at a time.", 504)


class PoolBusy(JobError):
    """Too many jobs wait already."""

    def __init__(self) -> None:
        super().__init__("The server is busy with other requests: try again later.", 429)


class ProcessPool:
    """Child processes of one kind.

    Parameters
    ----------
    kind : {"reader", "worker"}
    size : int
        Number of processes, and so of jobs at a time.
    memory : int or None
        Bytes that a process may use beyond what it has after its start; None does not limit them.
    seconds : float
        Longest time for a job, unless ``run`` is told another.
    folder : Path
        The server's private folder, where children work.
    waiting : int
        Most jobs that wait for a process.
    long_jobs : collection of str
        Jobs that take long: they leave one process to the others, and wait for each other apart from them.
    """

    def __init__(
        self,
        kind: Literal["reader", "worker"],
        size: int,
        *,
        memory: int | None,
        seconds: float,
        folder: Path,
        waiting: int = 64,
        long_jobs: Collection[str] = _LONG_JOBS,
    ) -> None:
        self._kind, self._size, self._memory = kind, size, memory
        self._seconds, self._folder = seconds, folder
        self._long_jobs = frozenset(long_jobs)
        self._turns, self._long_turns = _Turns(size, waiting), _Turns(max(size - 1, 1), waiting)
        #: Processes that were replaced.
        self.restarts = 0
        self._started = self._closed = False
        #: One for each process that has no job: it may still be starting.
        self._slots: list[asyncio.Task[_Child]] = []
        self._children: set[_Child] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start all processes and wait until they are ready."""
        self._begin_all()
        await asyncio.gather(*self._slots)

    def _begin_all(self) -> None:
        """Start all processes, unless that was done before."""
        if not self._started:
            self._started = True
            self._slots = [self._begin() for _ in range(self._size)]

    async def run(
        self,
        job: str,
        header: Mapping[str, Any],
        arrays: Mapping[str, AnyArray] | None = None,
        *,
        on_progress: OnProgress | None = None,
        expect: Callable[[int], None] | None = None,
        seconds: float | None = None,
    ) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Do a job in a process that is free; return the header and the arrays of its result.

        The time for the job begins now, also if it waits for a process. Cancelling the task ends the process.
        ``on_progress`` gets ``{"kind": "progress", "stage", "done", "of"}``, and ``expect`` the bytes of the arrays of
        the result before they are received. Raises :class:`JobError`, or one of its kinds, and what ``expect`` raises.
        """
        most = self._seconds if seconds is None else seconds
        begun, taken = time.monotonic(), None
        try:
            async with asyncio.timeout(most), self._take_turn(job):
                parts = await _pack_job(job, header, arrays)
                async with self._borrow(header.get("version")) as child:
                    taken = time.monotonic()
                    return await self._do(child, parts, on_progress, expect)
        except TimeoutError:
            # Who waited for most of the time has not sent too much.
            raise PoolBusy if taken is None or taken - begun > most / 2 else JobTimeout(most) from None

    async def _do(
        self,
        child: _Child,
        parts: list[bytes | memoryview],
        on_progress: OnProgress | None,
        expect: Callable[[int], None] | None,
    ) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Let a process do a job; return its result."""
        try:
            said = await child.do(parts, on_progress, expect)
        except (FrameError, MemoryError, OSError) as error:
            _log.warning("%s %d: %s", self._kind, child.pid, error)
            raise ChildCrashed from None
        if said is None:
            raise ChildCrashed
        child.is_whole = not said.head.get("worn", False)
        if said.head["kind"] == "error":
            raise JobError(said.head["error"], said.head["status"])
        if said.head["kind"] != "result":
            child.is_whole = False
            raise ChildCrashed
        return said.head["header"], said.arrays

    async def close(self) -> None:
        """End all processes, also those that have a job."""
        self._closed = True
        for slot in self._slots:
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)
        self._slots.clear()
        await asyncio.gather(*(child.end() for child in list(self._children)), *self._ending, return_exceptions=True)

    async def wait_for_ended(self) -> None:
        """Wait until processes that are being ended have ended: they write no more."""
        await asyncio.gather(*self._ending, return_exceptions=True)

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes that run."""
        return [child.pid for child in self._children]

    @asynccontextmanager
    async def _take_turn(self, job: str) -> AsyncIterator[None]:
        """Wait for a process to be free, if not too many do already."""
        async with AsyncExitStack() as held:
            if job in self._long_jobs:
                await held.enter_async_context(self._long_turns.take())
            await held.enter_async_context(self._turns.take())
            yield

    @asynccontextmanager
    async def _borrow(self, version: str | None) -> AsyncIterator[_Child]:
        """Give a process; whatever happens there is one in its place afterwards."""
        if self._closed:
            raise ChildCrashed
        self._begin_all()
        slot = min(self._slots, key=lambda task: _rank(task, version))
        self._slots.remove(slot)
        try:
            child = await asyncio.shield(slot)
            if child.has_ended:  # while it had no job: no reason to refuse this one
                self._discard(child)
                self.restarts += 1
                slot = self._begin()
                child = await asyncio.shield(slot)
        except BaseException as error:
            # A request that ends while its process starts leaves the process to the next one.
            failed = slot.done() and (slot.cancelled() or slot.exception() is not None)
            self._slots.append(self._begin() if failed and not self._closed else slot)
            if isinstance(error, Exception) and not isinstance(error, JobError):
                raise ChildCrashed from error
            raise
        child.is_whole = False
        try:
            yield child
        finally:
            child.note_job(version)
            if child.is_whole and not self._closed:
                self._slots.append(slot)
            else:
                self._discard(child)
                if not self._closed:
                    self.restarts += 1
                    self._slots.append(self._begin())

    def _discard(self, child: _Child) -> None:
        task = asyncio.create_task(child.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _begin(self) -> asyncio.Task[_Child]:
        task = asyncio.create_task(self._start_child())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen by the next request
        return task

    async def _start_child(self) -> _Child:
        child = await _Child.start(self._kind, self._folder, self._memory, self._seconds, self._children)
        try:
            async with asyncio.timeout(_START):
                ready = await receive_message(child.reader)
        except BaseException as error:
            await child.end()
            if isinstance(error, TimeoutError | FrameError):
                raise ChildCrashed from error
            raise
        if ready is None or ready.head.get("kind") != "ready":
            await child.end()
            raise ChildCrashed
        return child


async def _pack_job(
    job: str, header: Mapping[str, Any], arrays: Mapping[str, AnyArray] | None
) -> list[bytes | memoryview]:
    """Return the message that asks for a job, before a process is taken for it: what cannot be sent costs none."""
    try:
        return await pack_off_loop({"job": job, "header": header}, arrays)
    except TooLargeError:
        raise JobError("What was sent is too large to work on at once: send fewer samples at a time.", 413) from None
    except FrameError:
        raise
    except ValueError:  # JSON has no other numbers
        raise JobError("A number of the request is not finite.", 422) from None


class _Turns:
    """So many at a time; the others wait, in order, if not too many do already."""

    def __init__(self, size: int, most_waiting: int) -> None:
        self._free, self._most_waiting, self._n_waiting = asyncio.Semaphore(size), most_waiting, 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it inside the block."""
        if self._free.locked() and self._n_waiting >= self._most_waiting:
            raise PoolBusy
        self._n_waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._n_waiting -= 1
        try:
            yield
        finally:
            self._free.release()


def _rank(slot: asyncio.Task[_Child], version: str | None) -> tuple[bool, bool]:
    """Return what puts processes in order: those that hold the model first, then those that are ready."""
    if not slot.done() or slot.cancelled() or slot.exception() is not None:
        return True, True
    return version is None or version not in slot.result().versions, False


class _Child:
    """A process, and the two ends of the connection to it."""

    def __init__(self, process: asyncio.subprocess.Process, kind: str, alive: set[_Child]) -> None:
        assert process.stdout is not None and process.stdin is not None and process.stderr is not None
        self.reader, self.writer, self.pid = process.stdout, process.stdin, process.pid
        self._process, self._kind, self._alive = process, kind, alive
        self._logging = asyncio.create_task(self._log_errors(process.stderr))
        self._n_jobs = 0
        self.is_whole = True
        #: Versions of the models that it holds.
        self.versions: list[str] = []
        alive.add(self)

    @property
    def has_ended(self) -> bool:
        """Whether the process is known to have ended."""
        return self._process.returncode is not None

    @staticmethod
    async def start(kind: str, folder: Path, memory: int | None, seconds: float, alive: set[_Child]) -> _Child:
        """Start a process, which is not yet ready."""
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment |= {"PYTHONPATH": path, "MPLBACKEND": "agg"} | (_ONE_THREAD if kind == "reader" else {})
        arguments = [sys.executable, "-P", "-m", _MODULE, kind, "--parent", str(os.getpid())]
        arguments += ["--seconds", str(seconds)] if kind == "reader" else []
        arguments += [] if memory is None else ["--memory", str(memory)]
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env=environment,
            limit=2**20,
            start_new_session=True,
        )
        return _Child(process, kind, alive)

    async def do(
        self,
        parts: list[bytes | memoryview],
        on_progress: OnProgress | None,
        expect: Callable[[int], None] | None = None,
    ) -> Message | None:
        """Send a job and return the answer; None if the process ends."""
        # A process may answer before it has taken all that is sent.
        sending = asyncio.create_task(send_parts(self.writer, parts))
        receiving = asyncio.create_task(self._receive(on_progress, expect))
        try:
            await asyncio.wait([sending, receiving], return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                error = sending.exception()
                # A connection that broke is for the answer to explain; without a whole message there will be none.
                if error is not None and not isinstance(error, OSError):
                    raise error
            return await receiving
        finally:
            for task in (sending, receiving):
                task.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _receive(self, on_progress: OnProgress | None, expect: Callable[[int], None] | None) -> Message | None:
        """Return the answer to a job, after reports of progress."""
        while (said := await receive_message(self.reader, expect)) is not None:
            if said.head.get("kind") != "progress":
                return said
            if on_progress is not None:
                on_progress(said.head)
        return None

    def note_job(self, version: str | None) -> None:
        """Remember the model that was used, and that the process wears out."""
        self._n_jobs += 1
        self.is_whole = self.is_whole and self._n_jobs < _MOST_JOBS
        if version is not None:
            self.versions = [version, *(other for other in self.versions if other != version)][:MOST_MODELS]

    async def end(self) -> None:
        """End the process at once: without a job it has nothing to lose, and with one nobody waits for it."""
        with suppress(OSError, RuntimeError):
            self.writer.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._alive.discard(self)
        # What it said last is worth a moment; a process of its own could hold the pipe open.
        await asyncio.wait([self._logging], timeout=_END)
        self._logging.cancel()

    async def _log_errors(self, stream: asyncio.StreamReader) -> None:
        """Write to the log what the process says on its standard error."""
        rest = b""
        while piece := await stream.read(2**16):
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[:_LONGEST_LINE]
            for line in lines:
                self._write_line(line)
        if rest:
            self._write_line(rest)

    def _write_line(self, line: bytes) -> None:
        from ..operations.input_errors import escape_unprintable

        text = escape_unprintable(line[:_LONGEST_LINE].decode("utf-8", "backslashreplace"))
        _log.warning("%s %d: %s", self._kind, self.pid, text)

"""Children for tests: they do what they are told, in Python; and a pool for tests that are not asynchronous."""

import asyncio
import os
import resource
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from srosr._support.child_process import Child, send_frame, take_frames
from srosr.server import child
from srosr.server import pool as pools
from srosr.server.schemas import ApiError


def send_back(code):
    """Send the value of an expression, as text, and then all frames that come; what a child of tests runs."""
    frames, outbox = take_frames()
    send_frame(outbox, repr(eval(code)).encode())
    while True:
        send_frame(outbox, frames.get())


def do(job):
    """Say that the job has begun, and return the value of an expression, and what was sent."""
    job.report("Doing", 0, 1)
    return {**job.header, "value": eval(job.header.get("code", "None")), "pid": os.getpid()}, dict(job.arrays)


def refuse(status, message):
    raise ApiError(status, message)


def get_limits():
    return {
        name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in ("AS", "CORE", "FSIZE", "NOFILE")
    }


def get_files():
    """Return what the open descriptors are, but standard streams and that by which they are listed."""
    paths = [f"/proc/self/fd/{number}" for number in set(os.listdir("/proc/self/fd")) - set("012")]
    return [os.readlink(path) for path in paths if os.path.lexists(path)]


def run_jobs(kind, memory):
    """Run in the place of the child of the server."""
    child._find_jobs = lambda kind: {"do": do, "do long": do}
    child.run_jobs(kind, memory)


@contextmanager
def own_jobs():
    """Let the children of pools do the jobs of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "Child", lambda module, *more, **named: Child("jobs_for_children", *more, **named))
        yield


class PoolInThread:
    """A pool whose event loop runs in a thread."""

    def __init__(self, kind, size, folder, *, memory=None, seconds=60.0):
        self.loop = asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.pool = self.wait(self._make(kind, size, memory=memory, seconds=seconds, folder=folder))

    @staticmethod
    async def _make(kind, size, **settings):
        return pools.Pool(kind, size, **settings)

    def begin(self, *arguments, **keywords):
        return asyncio.run_coroutine_threadsafe(self.pool.run(*arguments, **keywords), self.loop)

    def run(self, *arguments, **keywords):
        return self.begin(*arguments, **keywords).result(120)

    def wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait(self.pool.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def is_gone(pid, seconds=10.0):
    """Return whether a process has ended, or does so soon."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False

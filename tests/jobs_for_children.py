"""Children for tests: they do what they are told, in Python; and a pool for tests that are not asynchronous."""

import os
import resource
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from server_runs import server_required, wait_until

server_required()

from anyio.from_thread import start_blocking_portal  # noqa: E402

from srosr._support.child_process import Child, send_frame, take_frames  # noqa: E402
from srosr.server import child  # noqa: E402
from srosr.server import pool as pools  # noqa: E402
from srosr.server.schemas import ApiError  # noqa: E402

#: What expressions may use.
KNOWN = {"os": os, "resource": resource, "sys": sys, "time": time, "ApiError": ApiError}


def send_back(code):
    """Send the value of an expression, as text, and then all frames that come; what a child of tests runs."""
    frames, outbox = take_frames()
    send_frame(outbox, repr(eval(code, KNOWN)).encode())
    while True:
        send_frame(outbox, frames.get())


def do(job):
    """Say that the job has begun; return the value of an expression, and what was sent."""
    job.report("Doing", 0, 1)
    return {**job.header, "value": eval(job.header.get("code", "None"), KNOWN), "pid": os.getpid()}, dict(job.arrays)


def run_jobs(kind, memory):
    """Run in the place of the child of the server."""
    child._find_jobs = lambda kind: {"do": do, "do long": do}
    child.run_jobs(kind, memory)


def own_jobs():
    """Let the children of pools do the jobs of this file."""
    return patch.object(pools, "Child", lambda module, *more, **named: Child("jobs_for_children", *more, **named))


@contextmanager
def open_pool(kind, size, folder, *, memory=None):
    """Give a pool in an event loop of its own: ``begin`` returns a future, ``run`` what a job returns."""
    with start_blocking_portal() as portal:
        pool = portal.call(partial(pools.Pool, kind, size, memory=memory, seconds=60.0, folder=folder))

        def begin(*arguments, **named):
            return portal.start_task_soon(partial(pool.run, *arguments, **named))

        try:
            yield SimpleNamespace(
                begin=begin, run=lambda *a, **named: begin(*a, **named).result(120), pool=pool, call=portal.call
            )
        finally:
            portal.call(pool.close)


def is_gone(pid):
    """Wait until a process has ended."""

    def has_ended():
        try:
            return ") Z " in Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return True

    return wait_until(has_ended, 20, 0.02)


def list_pids(pool):
    """Return the numbers of the processes of a pool."""
    return [worker.child.pid for worker in (*pool._idle, *pool._busy)]

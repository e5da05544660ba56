"""A child process of the server: it does one job after the other.

A *reader* turns an upload into rows. It trusts no byte of it: memory, files and descriptors are limited before anything
is read, the server limits the time, and a bug in a decoder costs one request. A *worker* explains, evaluates, discovers
and changes models; it runs for long, so that the server can end it. Both end when the server does.

A job is two frames, JSON and arrays; so is its answer, after frames of JSON that say how far it is.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from io import BytesIO
from typing import Any

from pydantic_core import from_json, to_json
from safetensors.numpy import load

from .._support.array_types import AnyArray
from .._support.child_process import send_frame, take_frames
from ..operations.input_errors import InputError
from ..tables.formats import open_rows
from ..tables.row_source import ReadError
from .samples import Expected, Job, Reading, Result, pack_arrays
from .schemas import ApiError
from .uploads import read_samples, restrict_formats

_MOST_FILES, _LARGEST_FILE = 256, 2**20


def _limit_resources(memory: int) -> None:
    """Limit what a reader may use from now on, where the system has such limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, _LARGEST_FILE), (resource.RLIMIT_NOFILE, _MOST_FILES)]
    try:
        with open("/proc/self/statm", "rb") as file:
            in_use = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limits.append((resource.RLIMIT_AS, in_use + memory))
    except OSError:
        print("memory is not limited: the system does not say how much is in use", file=sys.stderr)
    for number, most in limits:
        hard = resource.getrlimit(number)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(number, (most, most))


def _find_jobs(kind: str) -> dict[str, Callable[[Job], Result]]:
    """Import what jobs need, so that the first one does not wait for it; return them by name."""
    if kind == "worker":
        from .changing import CHANGES
        from .work import WORK

        return {**WORK, **CHANGES}
    import pyarrow.parquet  # noqa: F401

    open_rows("-", stdin=BytesIO(b"a,b\n1,2\n")).read()
    restrict_formats()
    return {"read": _read}


def _read(job: Job) -> Result:
    """Read the samples of a request."""
    reading, expected = Reading(**job.header["reading"]), Expected(**job.header["expected"])
    parameters, samples = read_samples(reading, expected, job.arrays, job.report)
    values, arrays = samples.pack()
    return {"parameters": parameters.model_dump(exclude_unset=True), "samples": values}, arrays


def _answer(run: Callable[[Job], Result], job: Job) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Run a job; return its result, or what went wrong."""
    try:
        result = run(job)
        header, arrays = result if isinstance(result, tuple) else (result, {})
        return {"kind": "result", "header": header}, arrays
    except ApiError as error:
        return {"kind": "error", "status": error.status, "error": error.message}, {}
    except MemoryError:
        return _describe_memory(job), {}
    except (InputError, ReadError) as error:
        if isinstance(error.__context__, MemoryError):
            return _describe_memory(job), {}
        return {"kind": "error", "status": 422, "error": str(error)}, {}
    except Exception:
        traceback.print_exc()
        return {"kind": "failure"}, {}


def _describe_memory(job: Job) -> dict[str, Any]:
    names = job.header.get("reading", {}).get("names", [])
    what = names[0] if len(names) == 1 else "what was sent"
    sentence = f"{what} does not fit into the memory allowed for it: send fewer samples at a time."
    return {"kind": "error", "status": 413, "error": sentence, "is_worn": True}


def run_jobs(kind: str, memory: int | None) -> None:
    """Do jobs until the server ends."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # these are for the server
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    frames, outbox = take_frames()
    jobs = _find_jobs(kind)
    if kind == "worker" and hasattr(os, "nice"):
        os.nice(5)
    if memory is not None:
        _limit_resources(memory)
    send_frame(outbox, to_json({"kind": "ready"}))
    while True:
        asked, arrays = from_json(frames.get()), load(frames.get())
        job = Job(asked["header"], arrays, outbox)
        said, found = _answer(jobs[asked["job"]], job)
        send_frame(outbox, to_json(said))
        if said["kind"] == "result":
            send_frame(outbox, pack_arrays(found))
        del asked, arrays, job, said, found  # an idle process holds no samples

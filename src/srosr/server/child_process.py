"""A child process of the server: it takes one job after the other from its standard input.

    python -m srosr.server.child_process reader|worker --parent PID [--memory BYTES] [--seconds SECONDS]

A *reader* turns an upload into rows. It trusts no byte of it: memory, processor time, files and descriptors are limited
before anything is read, and a bug in a decoder costs one request. A *worker* explains, evaluates, discovers and changes
models; it runs for long, so that the server can end it. Both end when the server does.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import math
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from .._support.array_types import AnyArray
from .frames import FrameError, Message, read_message, write_message
from .jobs import TOO_LARGE, UNPROCESSABLE, Answer, ChildJob, Refusal

#: Modules with the jobs of each kind, imported ahead; each has a dict ``JOBS`` of functions by name, and ``warm_up``.
_MODULES = {"reader": ("upload_reader",), "worker": ("explain_work", "work", "model_work")}
_MOST_FILES, _LARGEST_FILE = 256, 2**20
_PR_SET_PDEATHSIG = 1


# -- limits ----------------------------------------------------------------------------------------------


def end_with_parent(parent: int) -> None:
    """Have the system end this process when its parent ends, where it can; Ctrl-C and SIGTERM are for the parent."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def limit_resources(kind: str, memory: int | None) -> int | None:
    """Limit what this process may use from now on; return at how much memory it is worn out.

    Does nothing where the system has no such limits.
    """
    try:
        import resource
    except ImportError:
        return None
    limits = {"RLIMIT_CORE": 0}
    if kind == "reader":
        limits |= {"RLIMIT_FSIZE": _LARGEST_FILE, "RLIMIT_NOFILE": _MOST_FILES}
    in_use = _measure_memory()
    if memory is not None and in_use is not None:
        limits["RLIMIT_AS"] = in_use + memory
    elif memory is not None:
        print("memory is not limited: the system does not say how much is in use", file=sys.stderr)
    for name, most in limits.items():
        number = getattr(resource, name, None)
        if number is None:
            continue
        hard = resource.getrlimit(number)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(number, (most, most))
    return in_use + memory // 2 if memory is not None and in_use is not None else None


def _measure_memory() -> int | None:
    """Return the bytes of address space in use, None where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def allow_seconds(seconds: float) -> None:
    """Let this process use so much more processor time; then the system ends it."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    if hard == resource.RLIM_INFINITY or most <= hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


# -- the loop --------------------------------------------------------------------------------------------


def take_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return both ends of the connection, out of reach of what a job prints or reads."""
    inbox, outbox = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return inbox, outbox


def listen(inbox: IO[bytes], messages: SimpleQueue[Message | MemoryError]) -> None:
    """Receive what the server sends; end the process when the server has ended, even in the middle of a job."""
    with suppress(FrameError, OSError):
        while True:
            try:
                message = read_message(inbox)
            except MemoryError as error:  # the rest of the message is lost, and with it the connection
                messages.put(error)
                return
            if message is None:
                break
            messages.put(message)
    os._exit(0)


def answer(
    run: Callable[[ChildJob], Answer | Mapping[str, Any]], job: ChildJob
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Run a job; return the message with its result, or with what went wrong."""
    from ..operations.input_errors import InputError
    from ..tables.row_source import ReadError

    try:
        result = run(job)
    except Refusal as error:
        return {"kind": "error", "status": error.status, "error": error.message}, {}
    except (InputError, ReadError) as error:
        if isinstance(error.__context__, MemoryError):
            return _describe_memory(job), {}
        text = error.message if isinstance(error, InputError) else str(error)
        return {"kind": "error", "status": UNPROCESSABLE, "error": text}, {}
    except MemoryError:
        return _describe_memory(job), {}
    except Exception:
        traceback.print_exc()
        return {"kind": "failure"}, {}
    header, arrays = result if isinstance(result, Answer) else (dict(result), {})
    return {"kind": "result", "header": header}, arrays


def _describe_memory(job: ChildJob) -> dict[str, Any]:
    names = job.header.get("names") or []
    what = names[0] if len(names) == 1 else "what was sent"
    sentence = f"{what} does not fit into the memory allowed for it: send fewer samples at a time."
    return {"kind": "error", "status": TOO_LARGE, "error": sentence}


def _is_worn(limit: int | None) -> bool:
    """Return whether so much of the memory is lost to an earlier job that the server should take a new process."""
    in_use = _measure_memory()
    return limit is not None and in_use is not None and in_use > limit


def serve_jobs(kind: str, parent: int, memory: int | None, seconds: float | None) -> None:
    """Run jobs from standard input until it ends."""
    end_with_parent(parent)
    inbox, outbox = take_streams()
    jobs: dict[str, Callable[[ChildJob], Any]] = {}
    for name in _MODULES[kind]:
        module = importlib.import_module(f".{name}", __package__)
        module.warm_up()
        jobs |= module.JOBS
    if kind == "worker" and hasattr(os, "nice"):
        os.nice(5)
    worn = limit_resources(kind, memory)
    messages: SimpleQueue[Message | MemoryError] = SimpleQueue()
    Thread(target=listen, args=(inbox, messages), daemon=True).start()
    write_message(outbox, {"kind": "ready"})
    while True:
        message = messages.get()
        if isinstance(message, MemoryError):
            write_message(outbox, _describe_memory(ChildJob({}, {}, lambda report: None)) | {"worn": True})
            return
        if seconds is not None:
            allow_seconds(seconds)
        job = ChildJob(message.head["header"], message.arrays, lambda report: write_message(outbox, report))
        head, arrays = answer(jobs[message.head["job"]], job)
        try:
            write_message(outbox, head | {"worn": _is_worn(worn)}, arrays)
        except (FrameError, MemoryError):
            write_message(outbox, _describe_memory(job) | {"worn": True})
        except ValueError:  # a result that is not JSON is a bug
            traceback.print_exc()
            write_message(outbox, {"kind": "failure"})
        del message, job, head, arrays  # an idle process holds no samples


def main() -> None:
    """Read the arguments and serve jobs."""
    parser = argparse.ArgumentParser(prog="srosr.server.child_process")
    parser.add_argument("kind", choices=sorted(_MODULES))
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--memory", type=int)
    parser.add_argument("--seconds", type=float)
    given = parser.parse_args()
    serve_jobs(given.kind, given.parent, given.memory, given.seconds)


if __name__ == "__main__":
    main()

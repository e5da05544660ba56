"""Jobs of every temper for child processes of the server, and the program that such a process runs."""

import ctypes
import importlib
import os
import sys
import time

import numpy as np

from srosr.server import child_process
from srosr.server.jobs import Answer, Refusal


def warm_up():
    """Nothing to import."""


def echo(job):
    return Answer({**job.header, "pid": os.getpid()}, dict(job.arrays))


def sleep(job):
    job.report("Sleeping", 0, 1)
    time.sleep(job.header["seconds"])
    return {"pid": os.getpid()}


def burn(job):
    while True:
        np.linalg.norm(np.ones(1000))


def speak(job):
    print("to standard output", flush=True)
    os.write(1, b"to descriptor 1\n")
    sys.stderr.write("to standard error: line\x1b[31m\n")
    sys.stderr.flush()
    return {"read": sys.stdin.read() if sys.stdin else ""}


def refuse(job):
    raise Refusal("There is a reason.", 409)


def fail(job):
    raise KeyError("a secret of the server")


def tell_no_json(job):
    return {"number": float("nan")}


def take_memory(job):
    return {"size": len(bytearray(job.header["size"]))}


def die(job):
    if job.header["how"] == "exit":
        os._exit(3)
    ctypes.string_at(0)


def describe(job):
    import resource

    names = ("RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CPU")
    limits = {name: resource.getrlimit(getattr(resource, name))[0] for name in names}
    files = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    ]
    return {
        "limits": limits,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "files": files,
        "nice": os.nice(0),
    }


JOBS = {job.__name__: job for job in (echo, sleep, burn, speak, refuse, fail, tell_no_json, take_memory, die, describe)}

if __name__ == "__main__":
    sys.modules["srosr.server.jobs_for_children"] = importlib.import_module("jobs_for_children")
    for kind in list(child_process._MODULES):
        child_process._MODULES[kind] = ("jobs_for_children",)
    child_process.main()

"""A real `srosr serve` in a process of its own, and requests to it, for the benchmark of the server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3

#: Seconds until a server must be ready: the first start of an installation also compiles.
START = 180.0


class ServerProcess:
    """A server on loopback that runs inside a ``with`` block, and a pool of connections to it.

    Parameters
    ----------
    arguments : sequence of str
        Models and options of ``srosr serve``.
    connections : int, default=16
        Connections that are kept open.
    """

    def __init__(self, arguments: Sequence[str], connections: int = 16) -> None:
        self.port = find_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "srosr", "serve", *arguments, "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        self._pool = urllib3.PoolManager(
            maxsize=connections, block=False, retries=False, timeout=urllib3.Timeout(connect=10, read=120)
        )

    def __enter__(self) -> Self:
        deadline = time.monotonic() + START
        while True:
            try:
                if self.request("GET", "/readyz")[0] == 200:
                    return self
            except urllib3.exceptions.HTTPError:
                pass
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._log.seek(0)
                said = self._log.read().decode(errors="replace")
                self.__exit__(None, None, None)
                raise RuntimeError(f"the server did not start: {said}")
            time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.clear()
        self._process.terminate()
        try:
            self._process.wait(40)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def request(
        self, method: str, path: str, body: bytes | None = None, kind: str | None = None, accept: str | None = None
    ) -> tuple[int, bytes]:
        """Return the status and the body of the answer to one request."""
        headers = {name: value for name, value in (("Content-Type", kind), ("Accept", accept)) if value}
        answer = self._pool.request(method, self.address + path, body=body, headers=headers)
        return answer.status, answer.data

    def read_json(self, path: str) -> Any:
        """Return the content of a JSON answer."""
        return json.loads(self.request("GET", path)[1])

    def measure_memory(self) -> float:
        """Return the resident memory of the server and its children in megabytes, shared pages counted once."""
        return sum(_read_memory(process) for process in _list_family(self._process.pid)) / 1e6


def find_port() -> int:
    """Return a port of loopback that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _list_family(root: int) -> list[int]:
    family = [root]
    for process in family:
        try:
            lists = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")]
        except OSError:  # it has ended
            continue
        family += [int(child) for children in lists for child in children.split()]
    return family


def _read_memory(process: int) -> int:
    """Return the proportional resident size in bytes, or 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def replace_file(target: Path, content: bytes) -> None:
    """Replace a file at once, as a careful deployment does."""
    draft = target.with_name(f".{target.name}.new")
    draft.write_bytes(content)
    os.replace(draft, target)

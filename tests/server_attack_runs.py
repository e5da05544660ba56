"""A server to attack: a real process with chosen limits, raw connections, and files that harm careless readers."""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_iris

#: Short deadlines and small limits, so that exceeding them is quick.
LIMITS = {
    "body": 2_000_000, "rows": 1000, "columns": 2000, "pixels": 100_000, "files": 3, "work_seconds": 30.0,
    "head_seconds": 1.0, "body_seconds": 1.5, "answer_seconds": 2.0, "connections": 64,
}  # fmt: skip
MODEL = "/v1/models/flowers"
FLOWER = [5.1, 3.5, 1.4, 0.2]
TOKEN = "correct-horse-battery-staple-0123456789"


def make_models(folder: Path) -> Path:
    """Write models of flowers, two of them to be changed, and one of pictures; return their folder."""
    from command_runs import right

    iris = load_iris(as_frame=True)
    table = iris.data.set_axis(["sepal_length", "sepal_width", "petal_length", "petal_width"], axis=1)
    table.assign(species=iris.target_names[iris.target]).to_csv(folder / "iris.csv", index=False)
    right("fit", folder / "iris.csv", "--label", "species", "-o", folder / "flowers.srosr", "--seed", "0")
    for name in ("changed", "fuzzed"):
        (folder / f"{name}.srosr").write_bytes((folder / "flowers.srosr").read_bytes())
    X, y = load_digits(return_X_y=True)
    for digit in range(3):
        (folder / "photos" / str(digit)).mkdir(parents=True)
        for i, row in enumerate(np.flatnonzero(y == digit)[:12]):
            pixels = (X[row].reshape(8, 8) * 15.9).astype(np.uint8)
            (folder / "photos" / str(digit) / f"{i}.png").write_bytes(make_png(8, 8, pixels.tobytes()))
    right(
        "fit", folder / "photos", "--features", "pixels", "--size", "8x8", "-o", folder / "photos.srosr", "--seed", "0"
    )
    return folder


def make_png(width: int, height: int, pixels: bytes | None = None) -> bytes:
    """Return a gray PNG; without pixels one that is black, or too short for the size that it claims."""
    if pixels is None:
        pixels = bytes(min(width * height, 10_000))
    rows = b"".join(b"\0" + pixels[i : i + width] for i in range(0, len(pixels), width))

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def make_form(files: list[tuple[str, bytes]]) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a form with files; names are sent as they are."""
    parts = [
        f'--frontier\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
        + content
        + b"\r\n"
        for name, content in files
    ]
    return b"".join([*parts, b"--frontier--\r\n"]), {"Content-Type": "multipart/form-data; boundary=frontier"}


def list_children(pid: int) -> list[int]:
    """Return the children of a process."""
    lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for children in lists for child in children.split()]


def share_attacked(request: Any) -> Attacked:
    """Return the server that all attacks and random requests share; the latter change a model of their own."""
    from server_runs import make_once

    return make_once(request, "attacked", _serve_models)


@contextmanager
def _serve_models() -> Iterator[Attacked]:
    with tempfile.TemporaryDirectory() as folder, Attacked(make_models(Path(folder)), LIMITS) as server:
        yield server


class Attacked:
    """A server in a process of its own, inside a ``with`` block."""

    def __init__(
        self,
        folder: Path,
        limits: dict[str, Any] | None = None,
        *,
        names: tuple[str, ...] = ("flowers", "changed", "fuzzed", "photos"),
        **settings: Any,
    ) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        asked = {
            "models": [str(folder / f"{name}.srosr") for name in names],
            "limits": limits or {},
            "port": self.port,
            "settings": {"jobs": 1, "readers": 1, "workers": 1} | settings,
        }
        self._log = tempfile.NamedTemporaryFile(mode="ab", suffix=".log")  # noqa: SIM115
        command = [sys.executable, __file__, json.dumps(asked)]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        self.pid = self._process.pid

    def __enter__(self) -> Attacked:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if self.send("GET", "/readyz")[0] == 200:
                    return self
            except OSError:
                time.sleep(0.05)
        log = self.log
        self.__exit__()
        raise AssertionError(f"the server did not start: {log}")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    @property
    def log(self) -> str:
        """What the server has printed."""
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request whose path and headers are not checked or changed; return status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection._validate_path = lambda url: None  # type: ignore[method-assign]
            connection.putrequest(method, path, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            try:
                if body is not None:
                    connection.send(body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server answered without reading all
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """Return a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def exchange(self, raw: bytes, chunk: bytes = b"", times: int = 0) -> bytes:
        """Send bytes, then more of them as long as they are taken; return all that comes back."""
        with self.connect() as connection:
            answer = b""
            try:
                connection.sendall(raw)
                for _ in range(times):
                    connection.sendall(chunk)
            except ConnectionError:
                pass
            connection.settimeout(8)
            try:
                while part := connection.recv(65536):
                    answer += part
            except (TimeoutError, ConnectionError):
                pass
            return answer

    def count_sockets(self) -> int:
        """Return how many sockets the server has open."""
        return sum("socket" in os.readlink(entry) for entry in Path(f"/proc/{self.pid}/fd").iterdir())

    def read_audit(self, name: str) -> list[str]:
        """Return the lines of the audit of a model."""
        return (self.folder / f"{name}.srosr.history" / "audit.jsonl").read_text(encoding="utf-8").splitlines()


def run(asked: dict[str, Any]) -> None:
    """Run a server as it was asked for, in this process."""
    import logging

    from srosr.server.http_server import bind_socket, run_server
    from srosr.server.model_store import ModelStore, name_models
    from srosr.server.settings import Limits, ServerSettings

    logging.basicConfig(level=logging.INFO)
    settings = ServerSettings(**asked["settings"], limits=Limits(**asked["limits"]))
    bound = bind_socket(settings.host, asked["port"])
    with tempfile.TemporaryDirectory() as folder:
        store = ModelStore(name_models(asked["models"]), settings, Path(folder))
        store.load_all()
        run_server(settings, store, Path(folder), bound)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))

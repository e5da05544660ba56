"""Child processes: new interpreters that are sent frames on standard input and answer with frames on standard output.

A frame is eight bytes of length (big-endian) and as many bytes. A child whose input ends exits, even in the middle of
a task, as soon as the task lets another thread run. A script that starts children needs no ``if __name__ ==
"__main__"``, which those of :mod:`multiprocessing` need. The caller says what is in a frame: the server does not trust
the children in which it reads uploads, so that they send no pickle.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

_LENGTH = struct.Struct(">Q")


class FrameTooLarge(Exception):
    """A frame has more bytes than the receiver allows."""


class Child:
    """A new interpreter that runs a function of a module, which calls :func:`take_frames`.

    The child has this ``environment`` and the import path of this process. OSError says that none can be started.
    """

    def __init__(
        self,
        module: str,
        function: str,
        arguments: tuple[str | float | None, ...] = (),
        *,
        environment: Mapping[str, str],
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        # A process group of its own: Ctrl-C in the terminal is for the parent, which then ends its children.
        apart: dict[str, Any] = {"process_group": 0}
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        # -P keeps the import path that of this process.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {module} import {function} as run; run(*{arguments!r})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "PYTHONPATH": path},
            cwd=folder,
            **apart,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._outbox, self._inbox = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def send(self, frame: bytes) -> None:
        """Send a frame; OSError if the child has ended."""
        send_frame(self._outbox, frame)

    def receive(self, most: int | None = None) -> bytes | None:
        """Return the next frame, None if the child has ended; FrameTooLarge if it has more than ``most`` bytes."""
        return receive_frame(self._inbox, most)

    def close(self) -> None:
        """Close both ends of the connection, upon which the child exits; for the thread that uses them."""
        for stream in (self._outbox, self._inbox):
            with suppress(OSError):
                stream.close()

    def end(self, patience: float = 0.0) -> str:
        """End the process, at once or after ``patience`` seconds; return its exit status as text."""
        if patience:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
        self._process.kill()
        status = self._process.wait()
        return f"signal {-status}" if status < 0 else f"exit status {status}"


def send_frame(stream: IO[bytes], frame: bytes) -> None:
    """Write a frame and flush it."""
    stream.write(_LENGTH.pack(len(frame)))
    stream.write(frame)
    stream.flush()


def receive_frame(stream: IO[bytes], most: int | None = None) -> bytes | None:
    """Read a frame; return None at the end of the stream, also in the middle of a frame."""
    length = stream.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(length)
    if most is not None and size > most:
        raise FrameTooLarge
    frame = stream.read(size)
    return frame if len(frame) == size else None


def take_frames() -> tuple[SimpleQueue[bytes], IO[bytes]]:
    """Return, in a child, what its parent sends, and the stream for its answers, out of reach of what a task prints."""
    inbox, outbox = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    frames: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(inbox, frames), daemon=True).start()
    return frames, outbox


def _listen(inbox: IO[bytes], frames: SimpleQueue[bytes]) -> None:
    """Receive what the parent sends, and end the process when the parent has ended."""
    while (frame := receive_frame(inbox)) is not None:
        frames.put(frame)
    sys.stderr.flush()
    os._exit(0)

"""What a worker process of :class:`srosr.experiments.local_processes.LocalProcesses` runs.

It reads frames (eight bytes of length, then a pickle) from its standard input: a function first, then tasks. For each
it writes a frame to its standard output. Both ends are this library's own processes on one machine, and nothing of it
is ever stored. When its input ends, its parent has ended or wants no more, and the worker ends at once, in the middle
of a task if need be.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from queue import SimpleQueue
from threading import Thread
from typing import IO

__all__ = ["READY", "main", "receive", "send"]

#: The answer to a function that could be loaded; otherwise the answer is a `Lost`.
READY = "ready"

_LENGTH = struct.Struct(">Q")


def send(stream: IO[bytes], frame: bytes) -> None:
    """Write one frame."""
    stream.write(_LENGTH.pack(len(frame)))
    stream.write(frame)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one frame; None where the stream ends, also in the middle of one."""
    length = stream.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(length)
    frame = stream.read(size)
    return frame if len(frame) == size else None


def main() -> None:
    """Work until the input ends."""
    inbox, outbox = _streams()
    frames: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(inbox, frames), daemon=True).start()

    from .worker_task import Lost, attempt, reason_of

    try:
        function = pickle.loads(frames.get())
    except Exception as error:
        send(outbox, pickle.dumps(Lost(reason_of(error))))
        return
    send(outbox, pickle.dumps(READY))
    while True:
        frame = frames.get()
        try:
            task = pickle.loads(frame)
        except Exception as error:
            send(outbox, pickle.dumps(Lost(f"the worker could not read the task: {reason_of(error)}")))
            continue
        result = attempt(function, task)
        try:
            answer = pickle.dumps(result)
        except Exception as error:
            answer = pickle.dumps(Lost(f"the worker could not send the result: {reason_of(error)}"))
        send(outbox, answer)


def _streams() -> tuple[IO[bytes], IO[bytes]]:
    """The two ends of the talk, out of reach of whatever a task prints or reads."""
    inbox = os.fdopen(os.dup(0), "rb")
    outbox = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return inbox, outbox


def _listen(inbox: IO[bytes], frames: SimpleQueue[bytes]) -> None:
    """Take in what the parent sends, and end the process when it has ended."""
    while (frame := receive(inbox)) is not None:
        frames.put(frame)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

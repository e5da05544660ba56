"""What a server was asked to be: address, rights, limits."""

from __future__ import annotations

import ipaddress
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from ..operations.input_errors import InputError

#: Characters of a token at least.
SHORTEST_TOKEN = 16
_LARGEST_TOKEN_FILE = 4096
_MOST_CODERS = 16


@dataclass(frozen=True)
class Limits:
    """What a request may be, and how long it may take."""

    body: int = 64 * 10**6
    rows: int = 100_000
    columns: int = 100_000
    pixels: int = 40_000_000
    files: int = 1_000
    #: Bytes of the line and the headers of a request.
    head: int = 64 * 1024
    #: Seconds for the head and for the whole body.
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    #: Seconds over which an answer that waits to be read must be read at this many bytes a second at least.
    answer_seconds: float = 60.0
    answer_rate: int = 32_000
    #: Seconds for the work of a child that reads uploads, and of one that does other work.
    read_seconds: float = 60.0
    work_seconds: float = 600.0
    #: Seconds that requests in flight have when the server is asked to end.
    drain_seconds: float = 30.0
    connections: int = 512
    #: Decide requests that wait for one model.
    waiting: int = 256
    #: Bytes that a child which reads uploads may take beyond what it has when it starts.
    reader_memory: int = 2 * 10**9

    @property
    def bodies(self) -> int:
        """Bytes of all bodies, and of the samples in them, in memory at a time."""
        return 8 * self.body

    @property
    def samples(self) -> int:
        """Bytes of the samples of one request."""
        return 2 * self.body


@dataclass(frozen=True)
class ServerSettings:
    """The settings of one server."""

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    read_only: bool = False
    #: Names, beside the host and loopback, under which the server may be addressed.
    allowed_hosts: tuple[str, ...] = ()
    #: Height and width of the picture that each sample of a table is, for the page.
    picture_shape: tuple[int, int] | None = None
    #: Seconds that a sample waits at most for others that are arriving.
    longest_wait: float = 0.002
    #: Threads of a model that decides; None is one per core.
    jobs: int | None = None
    device: str = "cpu"
    log_requests: bool = False
    #: Children that read uploads, and that explain, evaluate and change models.
    readers: int = 2
    workers: int = 2
    limits: Limits = field(default_factory=Limits)

    def count_coders(self) -> int:
        """Return how many threads decide on samples of a model; on a device one does."""
        from joblib import effective_n_jobs

        from ..operations.device_choice import check_device_option

        on_device = check_device_option(self.device) is not None
        return 1 if on_device else min(int(effective_n_jobs(self.jobs or -1)), _MOST_CODERS)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host.

    Examples
    --------
    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> tuple[str, str | None]:
    """Return the token in a file, and a warning if others can read the file.

    The file has one line of at least 16 printable ASCII characters without spaces.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST_TOKEN_FILE + 1)
            mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise InputError(f"--token-file {path}: {error.strerror or error}.") from None
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        token = " "
    if not token.isprintable() or " " in token or not SHORTEST_TOKEN <= len(token) <= _LARGEST_TOKEN_FILE:
        raise InputError(
            f"--token-file {path} must have one line of at least {SHORTEST_TOKEN} letters, digits or signs without "
            "spaces; python -c 'import secrets; print(secrets.token_urlsafe())' prints one."
        )
    open_to_others = os.name == "posix" and bool(stat.S_IMODE(mode) & 0o077)
    return token, f"{path} can be read by others: chmod 600 keeps the token yours." if open_to_others else None

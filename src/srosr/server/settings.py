"""What a server was asked to be: address, rights, limits."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from dataclasses import dataclass, field

#: JSON of more bytes is read in a child, and bodies of more bytes wait for their turn.
SMALL_BODY = 256 * 1024
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
    #: Seconds in which the whole body must arrive.
    body_seconds: float = 30.0
    #: Seconds for the work of a child that reads uploads, and of one that does other work.
    read_seconds: float = 60.0
    work_seconds: float = 600.0
    #: Seconds that requests in flight have when the server is asked to end.
    drain_seconds: int = 30
    connections: int = 512
    #: Requests with large bodies that are served at a time; others wait.
    large_bodies: int = 8
    #: Decide requests that wait for one model.
    waiting: int = 256
    #: Bytes that a child which reads uploads may take beyond what it has when it starts.
    reader_memory: int = 2 * 10**9


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


def is_address(host: str) -> bool:
    """Return whether a host is an IP address."""
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    return host.lower() == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)

"""Where work is done: in processes on this machine, or on a Dask cluster. Results are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from .dask_cluster import ClusterError, DaskCluster
from .local_processes import LocalProcesses
from .worker_task import ExecutorError, Lost

__all__ = ["ClusterError", "DaskCluster", "Executor", "ExecutorError", "LocalProcesses", "Lost", "make_executor"]


class Executor(Protocol):
    """What does tasks, to be entered (``with``) before and left after; leaving ends what is still at work."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *_: object) -> None: ...

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Number and result, or `Lost`, of each task, as soon as it is there.

        An `ExecutorError` ends it where no task can be done, or a worker lacks what all of them need.
        """

    def versions(self) -> list[dict[str, str]]:
        """Versions of libraries at work beside those of this process."""


def make_executor(jobs: int = 1, cluster: str | None = None) -> Executor:
    """The executor that a command line asks for.

    Parameters
    ----------
    jobs : int, optional
        Processes on this machine; not looked at where there is a cluster.
    cluster : str, optional
        ``"tcp://HOST:PORT"`` of a Dask scheduler, or ``"local:N"`` for N Dask workers on this machine.

    Raises
    ------
    ValueError
        If there is no such executor.

    Examples
    --------
    >>> from srosr.experiments.executors import make_executor
    >>> make_executor(jobs=4).jobs
    4
    """
    return LocalProcesses(jobs) if cluster is None else DaskCluster(cluster)

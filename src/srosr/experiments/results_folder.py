"""The folder of a run: what is finished stays finished, whenever the run is stopped.

::

    run.json                      what the run is (its identity) and which versions took part
    trials/0007/calibrated.json   the record of one method on one trial
    times/0007/calibrated.json    and how long it took, apart, since no two runs take the same time
    .lock, .holder                one run at a time

A record is written at one stroke and carries its digest, see :mod:`srosr.experiments.record_file`. One that is cut
short or damaged is moved aside (``*.bad``) and its work done again. The lock goes when its process does, however that
ends.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._support.atomic_files import make_folder, remove_leftovers, write_atomically
from .protocol import METHOD_NAME
from .record_file import DamagedFile, decode, encode
from .run_identity import (
    DamagedRun,
    ResultsFolderError,
    blame_folder,
    checked_identity,
    differences,
    library_versions,
    read_run,
    with_entries_of,
)

__all__ = ["ResultsFolder", "ResultsFolderError"]

_TRIAL = re.compile(r"[0-9]{4,9}", re.ASCII)


class ResultsFolder:
    """The results of a run on the disk, to be entered (``with``) by the one run that writes to it.

    Records can be read without entering, by a report for example; then nothing is moved, removed or locked.

    Parameters
    ----------
    path : path
        Made if it is not there.
    identity : dict
        What makes it this run and no other: JSON values. A folder with another identity is refused. What
        may grow from one run to the next without changing what is there (the number of trials) is not part of it.
    retry_failed : bool, optional
        Entering drops the records of failures, so that they are tried again.
    growing : sequence of str, optional
        Path of keys to a dict in the identity that may get more entries from one run to the next (the methods); those
        that are there may not change.

    Raises
    ------
    ResultsFolderError
        On entering: the folder cannot be written to, is in use, or belongs to another run.

    Examples
    --------
    >>> import tempfile
    >>> from srosr.experiments.results_folder import ResultsFolder
    >>> with tempfile.TemporaryDirectory() as out, ResultsFolder(out, {"seed": 0}) as folder:
    ...     folder.write({"trial": 7, "method": "calibrated", "error": None}, {"trial": 7, "method": "calibrated"})
    ...     folder.finished(7)
    {'calibrated'}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: dict[str, Any],
        *,
        retry_failed: bool = False,
        growing: Sequence[str] = (),
    ) -> None:
        self.path = Path(path)
        self.growing = tuple(growing)
        self.identity = checked_identity(identity)
        self.retry_failed = retry_failed
        self._lock: Any = None
        self._new = False

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> ResultsFolder:
        """The folder of an earlier run, with the identity it has, to read from."""
        run = read_run(Path(path))
        if run is None:
            raise ResultsFolderError(f"{path} is not the folder of a run: there is no run.json in it.")
        return cls(path, run["identity"])

    # -- entering and leaving --------------------------------------------------------------------------------

    def __enter__(self) -> ResultsFolder:
        with blame_folder(self.path, "make the folder", started=os.path.exists(self.path / "run.json")):
            make_folder(self.path)
        self._lock = self._locked()
        try:
            self._tidy()
            self._settle_identity()
            self.note_versions(library_versions())
            if self.retry_failed:
                self._drop_failures()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            with suppress(OSError):
                os.unlink(self.path / ".holder")
            self._lock.release()
            self._lock = None

    def withdraw(self) -> None:
        """Take back what entering wrote to a folder that no run had before: a run that could not start leaves nothing.

        Leave the folder after it. One of an earlier run, and one with a record, stays as it is.
        """
        self._need_lock()
        if self._new and not self._trials("trials"):
            for name in ("run.json", ".lock"):
                with suppress(OSError):
                    os.unlink(self.path / name)

    def _locked(self) -> Any:
        """The lock, taken at once or not at all."""
        from filelock import FileLock, Timeout

        # Not a lock by a file that exists: the system's own, which goes with the process that holds it.
        lock = FileLock(self.path / ".lock", thread_local=False)
        try:
            with blame_folder(self.path / ".lock"):
                try:
                    lock.acquire(blocking=False)
                except Timeout:
                    raise ResultsFolderError(
                        f"another run is writing to {self.path}{self._holder()}. Wait until it ends, or give another "
                        "--out."
                    ) from None
                try:
                    holder = {"pid": os.getpid(), "host": socket.gethostname()}
                    write_atomically(self.path / ".holder", json.dumps(holder).encode("ascii"))
                except BaseException:
                    lock.release()
                    raise
        except NotImplementedError:
            raise ResultsFolderError(
                f"the file system of {self.path} has no locks, so two runs could not be kept apart. Give another --out."
            ) from None
        return lock

    def _holder(self) -> str:
        try:
            holder = json.loads((self.path / ".holder").read_bytes())
            return f" (process {int(holder['pid'])} on {str(holder['host'])[:80]})"
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _tidy(self) -> None:
        """Remove the temporary files of runs that were killed."""
        with blame_folder(self.path, "tidy up"):
            remove_leftovers(self.path)
            for kind in ("trials", "times"):
                for trial in self._trials(kind):
                    remove_leftovers(self._trial_folder(kind, trial))

    def _settle_identity(self) -> None:
        damaged = False
        try:
            run = read_run(self.path)
        except DamagedRun:
            run, damaged = None, True
        if run is None:
            if self._trials("trials"):
                raise ResultsFolderError(
                    f"{self.path} has results, but its run.json, which says of which run, is missing or damaged. Give "
                    "another --out."
                )
            self._new = not damaged
            self._write(self.path / "run.json", {"identity": self.identity, "versions": []})
            return
        old = with_entries_of(run["identity"], self.identity, self.growing)
        new = with_entries_of(self.identity, run["identity"], self.growing)
        if changes := differences(old, new):
            raise ResultsFolderError(
                f"{self.path} has results of another run: {'; '.join(changes)}. Give another --out, or the settings of "
                "that run."
            )
        self.identity = new
        if differences(run["identity"], new):
            self._write(self.path / "run.json", {"identity": new, "versions": run["versions"]})

    def _drop_failures(self) -> None:
        for trial in self._trials("trials"):
            for method in sorted(self.finished(trial)):
                record = self.record(trial, method)
                if record is not None and record.get("error") is not None:
                    for kind in ("trials", "times"):
                        path = self._file(kind, trial, method)
                        with blame_folder(path, "remove"), suppress(FileNotFoundError):
                            os.unlink(path)

    # -- what the run is -------------------------------------------------------------------------------------

    def versions(self) -> list[dict[str, str]]:
        """The versions of the libraries that took part so far, in the order in which they came."""
        run = read_run(self.path)
        return [] if run is None else run["versions"]

    def note_versions(self, versions: dict[str, str]) -> None:
        """Note versions that take part, unless they are known. They are no part of the identity."""
        known = self.versions()
        if versions not in known:
            self._write(self.path / "run.json", {"identity": self.identity, "versions": [*known, versions]})

    # -- records ---------------------------------------------------------------------------------------------

    def write(self, record: dict[str, Any], times: dict[str, Any]) -> None:
        """Write what one method came to on one trial, and how long it took.

        Parameters
        ----------
        record : dict
            Has "trial", "method" and "error" (None, or the reason of a failure).
        times : dict
            Has the same "trial" and "method".

        Raises
        ------
        ResultsFolderError
            If it cannot be written. Then this record is not there, and all others are.
        """
        self._need_lock()
        trial, method = record["trial"], record["method"]
        if (times["trial"], times["method"]) != (trial, method):
            raise ValueError(
                f"times are of trial {times['trial']!r}, method {times['method']!r}; the record is of {trial!r}, "
                f"{method!r}."
            )
        if record["error"] is not None and not isinstance(record["error"], str):
            raise ValueError(f"a record's error must be None or a str, not {record['error']!r}.")
        # The record comes last: where it is, all is.
        for kind, content in (("times", times), ("trials", record)):
            path = self._file(kind, trial, method)
            with blame_folder(path.parent, "make the folder"):
                make_folder(path.parent)
            self._write(path, content)

    def record(self, trial: int, method: str) -> dict[str, Any] | None:
        """The record of a method on a trial; None where there is none that can be trusted."""
        return self._read("trials", trial, method)

    def finished(self, trial: int) -> set[str]:
        """The methods that are done with a trial, failures among them."""
        return {method for method in self._methods("trials", trial) if self.record(trial, method) is not None}

    def records(self, methods: Sequence[str], trials: Iterable[int] | None = None) -> Iterator[dict[str, Any]]:
        """The records there are, trial by trial, methods in the order given.

        Parameters
        ----------
        methods : sequence of str
        trials : iterable of int, optional
            None takes all.
        """
        return self._all("trials", methods, trials)

    def times(self, methods: Sequence[str], trials: Iterable[int] | None = None) -> Iterator[dict[str, Any]]:
        """How long it took, in the order of :meth:`records`."""
        return self._all("times", methods, trials)

    def _all(self, kind: str, methods: Sequence[str], trials: Iterable[int] | None) -> Iterator[dict[str, Any]]:
        for trial in self._trials(kind) if trials is None else sorted(trials):
            for method in methods:
                content = self._read(kind, trial, method)
                if content is not None:
                    yield content

    def _read(self, kind: str, trial: int, method: str) -> dict[str, Any] | None:
        path = self._file(kind, trial, method)
        with blame_folder(path, "read"):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                return None
        try:
            content = decode(data)
            if (content.get("trial"), content.get("method")) != (trial, method):
                raise DamagedFile("it is of another trial or method")
        except DamagedFile:
            if self._lock is not None:
                with blame_folder(path, "move aside"):
                    os.replace(path, path.with_name(path.name + ".bad"))
            return None
        return content

    # -- files -----------------------------------------------------------------------------------------------

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        data = encode(content)
        with blame_folder(path):
            write_atomically(path, data)

    def _file(self, kind: str, trial: int, method: str) -> Path:
        if not isinstance(method, str) or not METHOD_NAME.fullmatch(method):
            raise ValueError(
                f"{method!r} cannot name a method: lower-case letters, digits, '.', '_' and '-', the first one a "
                "letter or a digit, at most 100."
            )
        return self._trial_folder(kind, trial) / f"{method}.json"

    def _trial_folder(self, kind: str, trial: int) -> Path:
        if isinstance(trial, bool) or not isinstance(trial, int) or not 0 <= trial < 10**9:
            raise ValueError(f"a trial must be a number from 0 on, not {trial!r}.")
        return self.path / kind / f"{trial:04d}"

    def _trials(self, kind: str) -> list[int]:
        names = [name for name in self._names(self.path / kind) if _TRIAL.fullmatch(name)]
        return sorted(int(name) for name in names if name == f"{int(name):04d}")

    def _methods(self, kind: str, trial: int) -> list[str]:
        names = self._names(self._trial_folder(kind, trial))
        return sorted(name[:-5] for name in names if name.endswith(".json") and METHOD_NAME.fullmatch(name[:-5]))

    def _names(self, folder: Path) -> list[str]:
        with blame_folder(folder, "read"):
            try:
                return os.listdir(folder)
            except FileNotFoundError:
                return []

    def _need_lock(self) -> None:
        if self._lock is None:
            raise RuntimeError("enter the folder before writing to it: with ResultsFolder(...) as folder.")

"""The folder of a run. Finished records survive whenever and however the run is stopped.

::

    run.json                      the identity of the run and the library versions that took part
    trials/0007/calibrated.json   the record of one method on one trial
    times/0007/calibrated.json    its times, in a separate file because they differ between runs
    .lock, .holder                one run at a time

A record is written atomically and carries its digest, see :mod:`srosr.experiments.run_identity`. A truncated or damaged
record is renamed to ``*.bad`` and computed again. The system releases the lock when its process ends.
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

from .._support.atomic_files import PathLike, make_folder, remove_leftovers, write_atomically
from ..distributed.dask_cluster import get_library_versions
from .protocol import METHOD_NAME
from .run_identity import (
    DamagedFile,
    DamagedRun,
    ResultsFolderError,
    decode,
    encode,
    find_differences,
    merge_entries,
    name_file_in_errors,
    normalize_identity,
    read_run,
)

_TRIAL = re.compile(r"[0-9]{4,9}", re.ASCII)


class ResultsFolder:
    """The results of a run on disk; the one run that writes to it enters it (``with``).

    Records can be read without entering; then nothing is moved, removed or locked.

    Parameters
    ----------
    path : path
        Created if missing.
    identity : dict
        What distinguishes this run from others, in JSON types. Entering a folder with another identity is an error.
        What may grow without changing earlier results, such as the number of trials, is not part of the identity.
    retry_failed : bool, optional
        Remove the records of failures on entering, so that they are tried again.
    growing : sequence of str, optional
        Path of keys to a dict in the identity that may gain entries from one run to the next (the methods); existing
        entries must not change.

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
    ...     folder.find_finished(7)
    {'calibrated'}
    """

    def __init__(
        self, path: PathLike, identity: dict[str, Any], *, retry_failed: bool = False, growing: Sequence[str] = ()
    ) -> None:
        self.path = Path(path)
        self.growing = tuple(growing)
        self.identity = normalize_identity(identity)
        self.retry_failed = retry_failed
        self._lock: Any = None
        self._new = False

    @classmethod
    def open_existing(cls, path: PathLike) -> ResultsFolder:
        """Return the folder of an earlier run, with its identity, for reading."""
        run = read_run(Path(path))
        if run is None:
            raise ResultsFolderError(f"{path} is not the folder of a run: it has no run.json.")
        return cls(path, run["identity"])

    # -- entering and leaving --------------------------------------------------------------------------------

    def __enter__(self) -> ResultsFolder:
        with name_file_in_errors(self.path, "make the folder", started=os.path.exists(self.path / "run.json")):
            make_folder(self.path)
        self._lock = self._acquire_lock()
        try:
            self._remove_leftovers()
            self._match_identity()
            self.note_versions(get_library_versions())
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
        """Remove what entering wrote to a new folder, for a run that could not start.

        Leave the folder afterwards. A folder of an earlier run, or with a record, is not changed.
        """
        self._check_entered()
        if self._new and not self._list_trials("trials"):
            for name in ("run.json", ".lock"):
                with suppress(OSError):
                    os.unlink(self.path / name)

    def _acquire_lock(self) -> Any:
        """Return the lock, acquired without waiting."""
        from filelock import FileLock, Timeout

        # A lock of the system, which ends with its process, not a file whose existence is the lock.
        lock = FileLock(self.path / ".lock", thread_local=False)
        try:
            with name_file_in_errors(self.path / ".lock"):
                try:
                    lock.acquire(blocking=False)
                except Timeout:
                    raise ResultsFolderError(
                        f"another run is writing to {self.path}{self._describe_holder()}. Wait until it ends, or give "
                        "another --out."
                    ) from None
                try:
                    holder = {"pid": os.getpid(), "host": socket.gethostname()}
                    write_atomically(self.path / ".holder", json.dumps(holder).encode("ascii"))
                except BaseException:
                    lock.release()
                    raise
        except NotImplementedError:
            raise ResultsFolderError(
                f"the file system of {self.path} has no locks, so two runs could write at once. Give another --out."
            ) from None
        return lock

    def _describe_holder(self) -> str:
        try:
            holder = json.loads((self.path / ".holder").read_bytes())
            return f" (process {int(holder['pid'])} on {str(holder['host'])[:80]})"
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _remove_leftovers(self) -> None:
        with name_file_in_errors(self.path, "tidy up"):
            remove_leftovers(self.path)
            for kind in ("trials", "times"):
                for trial in self._list_trials(kind):
                    remove_leftovers(self._get_trial_folder(kind, trial))

    def _match_identity(self) -> None:
        damaged = False
        try:
            run = read_run(self.path)
        except DamagedRun:
            run, damaged = None, True
        if run is None:
            if self._list_trials("trials"):
                raise ResultsFolderError(
                    f"{self.path} has results, but its run.json, which identifies the run, is missing or damaged. Give "
                    "another --out."
                )
            self._new = not damaged
            self._write(self.path / "run.json", {"identity": self.identity, "versions": []})
            return
        old = merge_entries(run["identity"], self.identity, self.growing)
        new = merge_entries(self.identity, run["identity"], self.growing)
        if changes := find_differences(old, new):
            raise ResultsFolderError(
                f"{self.path} has results of another run: {'; '.join(changes)}. Give another --out, or use the "
                "settings of that run."
            )
        self.identity = new
        if find_differences(run["identity"], new):
            self._write(self.path / "run.json", {"identity": new, "versions": run["versions"]})

    def _drop_failures(self) -> None:
        for trial in self._list_trials("trials"):
            for method in sorted(self.find_finished(trial)):
                record = self.record(trial, method)
                if record is not None and record.get("error") is not None:
                    for kind in ("trials", "times"):
                        path = self._get_path(kind, trial, method)
                        with name_file_in_errors(path, "remove"), suppress(FileNotFoundError):
                            os.unlink(path)

    # -- versions --------------------------------------------------------------------------------------------

    def versions(self) -> list[dict[str, str]]:
        """Return the library versions that took part so far, in order of appearance."""
        run = read_run(self.path)
        return [] if run is None else run["versions"]

    def note_versions(self, versions: dict[str, str]) -> None:
        """Add library versions to run.json, unless they are there. They are not part of the identity."""
        known = self.versions()
        if versions not in known:
            self._write(self.path / "run.json", {"identity": self.identity, "versions": [*known, versions]})

    # -- records ---------------------------------------------------------------------------------------------

    def write(self, record: dict[str, Any], times: dict[str, Any]) -> None:
        """Write the record and the times of one method on one trial.

        Both have "trial" and "method", the record also "error" (None, or the reason of a failure). Raises
        ResultsFolderError if they cannot be written; all other records are kept.
        """
        self._check_entered()
        trial, method = record["trial"], record["method"]
        if (times["trial"], times["method"]) != (trial, method):
            raise ValueError(
                f"times are of trial {times['trial']!r}, method {times['method']!r}, but the record is of trial "
                f"{trial!r}, method {method!r}."
            )
        if record["error"] is not None and not isinstance(record["error"], str):
            raise ValueError(f"a record's error must be None or a str, not {record['error']!r}.")
        # The record comes last, so that its times exist if it does.
        for kind, content in (("times", times), ("trials", record)):
            path = self._get_path(kind, trial, method)
            with name_file_in_errors(path.parent, "make the folder"):
                make_folder(path.parent)
            self._write(path, content)

    def record(self, trial: int, method: str) -> dict[str, Any] | None:
        """Return the record of a method on a trial, or None if there is no intact one."""
        return self._read("trials", trial, method)

    def find_finished(self, trial: int) -> set[str]:
        """Return the methods that have a record for a trial, including failures."""
        names = self._list_names(self._get_trial_folder("trials", trial))
        methods = [name[:-5] for name in names if name.endswith(".json") and METHOD_NAME.fullmatch(name[:-5])]
        return {method for method in sorted(methods) if self.record(trial, method) is not None}

    def records(self, methods: Sequence[str], trials: Iterable[int] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the records, trial by trial (None: of all trials), methods in the order given."""
        return self._read_all("trials", methods, trials)

    def times(self, methods: Sequence[str], trials: Iterable[int] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the times, in the order of :meth:`records`."""
        return self._read_all("times", methods, trials)

    def _read_all(self, kind: str, methods: Sequence[str], trials: Iterable[int] | None) -> Iterator[dict[str, Any]]:
        for trial in self._list_trials(kind) if trials is None else sorted(trials):
            for method in methods:
                content = self._read(kind, trial, method)
                if content is not None:
                    yield content

    def _read(self, kind: str, trial: int, method: str) -> dict[str, Any] | None:
        path = self._get_path(kind, trial, method)
        with name_file_in_errors(path, "read"):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                return None
        try:
            content = decode(data)
            if (content.get("trial"), content.get("method")) != (trial, method):
                raise DamagedFile("it belongs to another trial or method")
        except DamagedFile:
            if self._lock is not None:
                with name_file_in_errors(path, "rename"):
                    os.replace(path, path.with_name(path.name + ".bad"))
            return None
        return content

    # -- files -----------------------------------------------------------------------------------------------

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        data = encode(content)
        with name_file_in_errors(path):
            write_atomically(path, data)

    def _get_path(self, kind: str, trial: int, method: str) -> Path:
        if not isinstance(method, str) or not METHOD_NAME.fullmatch(method):
            raise ValueError(
                f"{method!r} is not a valid method name: use at most 100 lower-case letters, digits, '.', '_' and '-', "
                "beginning with a letter or a digit."
            )
        return self._get_trial_folder(kind, trial) / f"{method}.json"

    def _get_trial_folder(self, kind: str, trial: int) -> Path:
        if isinstance(trial, bool) or not isinstance(trial, int) or not 0 <= trial < 10**9:
            raise ValueError(f"a trial must be a whole number of at least 0, not {trial!r}.")
        return self.path / kind / f"{trial:04d}"

    def _list_trials(self, kind: str) -> list[int]:
        names = [name for name in self._list_names(self.path / kind) if _TRIAL.fullmatch(name)]
        return sorted(int(name) for name in names if name == f"{int(name):04d}")

    def _list_names(self, folder: Path) -> list[str]:
        with name_file_in_errors(folder, "read"):
            try:
                return os.listdir(folder)
            except FileNotFoundError:
                return []

    def _check_entered(self) -> None:
        if self._lock is None:
            raise RuntimeError("enter the folder before writing to it: with ResultsFolder(...) as folder.")

"""``srosr predict`` on a table in many files: one file of decisions for each, in this process or on a cluster.

A file of decisions says what it was made of, so that the same command, run again, only does what is missing.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._support.atomic_files import make_folder, remove_leftovers
from .._support.messages import count_of
from ..operations.device_choice import set_device, set_threads
from ..operations.input_errors import InputError, convert_errors, name_errors
from ..operations.model_input import check_options, check_takes_files, check_takes_tables
from .console import Progress, err, progress
from .models import load_model
from .output_paths import make_write_error
from .part_prediction import (
    PartResult,
    PartTask,
    check_unchanged,
    compute_digest,
    make_origin,
    predict_part,
    write_part,
)

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier
    from ..tables.read_options import ReadOptions

_RESUME = "Finished parts are kept: run the same command again to resume."
_MOST_ERRORS = 10


@dataclass(frozen=True)
class Plan:
    """The parts that are to be done, and how many are done already."""

    tasks: list[PartTask]
    done_before: int


@dataclass
class Tally:
    """What has been done so far, and what is wrong with the parts that have no decisions."""

    parts: int = 0
    rows: int = 0
    rejected: int = 0
    dropped: int = 0
    n_bytes: int = 0
    errors: tuple[str, ...] = ()

    def add(self, task: PartTask, result: PartResult) -> None:
        """Count a part."""
        self.n_bytes += task.origin["part"]["bytes"]
        if result.error is not None:
            self.errors += (result.error,)
            return
        self.parts += 1
        self.rows, self.rejected = self.rows + result.rows, self.rejected + result.rejected
        self.dropped += result.dropped


def predict_parts(
    model: Path,
    data: str,
    parts: list[str],
    output: Path | None,
    options: ReadOptions,
    *,
    jobs: int | None,
    device: str,
    cluster: str | None,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write the decisions on the parts of DATA to a folder; exit with status 1 if some parts are at fault."""
    from ..distributed.dask_cluster import DaskCluster
    from ..distributed.worker_task import ExecutorError, UnfitWorkerError

    folder = _check_folder(output, data, parts)
    parts = _leave_out_decisions(parts, folder)
    check_options(parts[0], options)
    executor = None
    if cluster is not None:
        with name_errors("--cluster"):
            executor = DaskCluster(cluster, work="decide on the parts", after_loss=_RESUME)
    tally = Tally()
    try:
        with convert_errors(ExecutorError):
            clf, digest = _load(model)
            set_device(clf, device)
            check_takes_files(clf, data)
            check_takes_tables(clf, data)
            plan = _plan(parts, folder, model, digest, options, overwrite)
            if plan.tasks:
                with _open_folder(folder), progress("Predicting", shown=not quiet) as update:
                    if executor is None:
                        set_threads(clf, jobs)
                        _run_here(clf, plan, tally, update)
                    else:
                        with executor:
                            _run_on_cluster(executor, plan, folder, tally, update)
    except UnfitWorkerError as error:
        raise InputError(f"{error} {_RESUME}") from None
    except KeyboardInterrupt:
        kept = f"Finished parts are kept in {folder}; the same command continues from there."
        err().print(f"\nStopped. {kept if folder.exists() else 'No part was finished.'}")
        raise click.exceptions.Exit(130) from None
    _report(tally, plan, folder, quiet)


def _report(tally: Tally, plan: Plan, folder: Path, quiet: bool) -> None:
    """Print the errors and a summary; exit with status 1 if there are errors."""
    for error in sorted(tally.errors)[:_MOST_ERRORS]:
        click.echo(f"Error: {InputError(error).message}", err=True)
    if len(tally.errors) > _MOST_ERRORS:
        click.echo(f"… and {count_of(len(tally.errors) - _MOST_ERRORS, 'more part')} with errors.", err=True)
    if not quiet and not plan.tasks:
        err().print(f"{count_of(plan.done_before, 'part')} done before, none left. Decisions: {folder}")
    elif not quiet:
        recognized = f"{tally.rows - tally.rejected:,} recognized, {tally.rejected:,} rejected"
        left_out = f"; {count_of(tally.dropped, 'row')} left out" if tally.dropped else ""
        before = f"; {count_of(plan.done_before, 'part')} done before" if plan.done_before else ""
        failed = f"; {count_of(len(tally.errors), 'part')} failed" if tally.errors else ""
        err().print(
            f"{count_of(tally.parts, 'part')}, {count_of(tally.rows, 'row')}: {recognized}{left_out}{before}{failed}."
            + (f" Decisions: {folder}" if folder.exists() else "")
        )
    if tally.errors:
        raise click.exceptions.Exit(1)


# -- what is to be done ----------------------------------------------------------------------------------------


def _load(model: Path) -> tuple[OpenSetClassifier, str]:
    """Return the model and the digest of its file."""
    if not model.is_file():
        load_model(model)  # says what is wrong
    with check_unchanged(os.fspath(model)):
        return load_model(model), compute_digest(os.fspath(model))


def _check_folder(output: Path | None, data: str, parts: list[str]) -> Path:
    """Return the folder of the decisions; raise if it cannot be one."""
    from ..tables.decision_files import find_format

    if output is None:
        n_parts = count_of(len(parts), "part")
        raise InputError(f"{data} is a table in {n_parts}: give a folder for the decisions with -o.")
    in_parts = f"{data} is a table in parts, which need a folder"
    if output.exists() and not output.is_dir():
        raise make_write_error("decisions", output, f"{in_parts}, not a file", "-o")
    if not output.exists() and find_format(output.suffix) is not None:
        raise make_write_error("decisions", output, f"{in_parts}, and {output.suffix} is for a file", "-o")
    return output


def _leave_out_decisions(parts: list[str], folder: Path) -> list[str]:
    """Return the parts without the decisions of an earlier run, which a pattern with ``**`` may match too.

    Any other part in the folder of the decisions is an error, as it may be replaced by the decisions on another one.
    """
    from ..tables.decision_files import read_origin

    if not folder.is_dir():
        return parts
    inside = [part for part in parts if os.path.samefile(os.path.dirname(part) or ".", folder)]
    for part in inside:
        if len(inside) == len(parts) or read_origin(part) is None:
            raise make_write_error("decisions", folder, f"{part} is in this folder", "-o")
    left_out = set(inside)
    return [part for part in parts if part not in left_out]


def _plan(parts: list[str], folder: Path, model: Path, digest: str, options: ReadOptions, overwrite: bool) -> Plan:
    """Return the parts without decisions; raise if a file that is in the way may not be replaced."""
    from ..tables.decision_files import read_origin
    from ..tables.formats import name_outputs

    outputs = name_outputs(parts, os.fspath(folder))
    _check_not_inputs(outputs, [os.fspath(model), *parts])
    tasks, in_the_way = [], []
    for part, output in zip(parts, outputs, strict=True):
        origin = make_origin(part, digest, options)
        task = PartTask(part, output, os.fspath(model), digest, options, origin)
        if not os.path.lexists(output):
            tasks.append(task)
        elif (found := read_origin(output)) != json.loads(json.dumps(origin)):
            tasks.append(task)
            in_the_way.append((output, _describe_other(found, origin, part)))
    if in_the_way and not overwrite:
        output, why = in_the_way[0]
        more = f" ({count_of(len(in_the_way) - 1, 'more file')} too)" if len(in_the_way) > 1 else ""
        raise InputError(
            f"{output} is in the way{more}: it {why}; replace it with --overwrite, or choose another folder with -o."
        )
    return Plan(tasks, len(parts) - len(tasks))


def _check_not_inputs(outputs: list[str], inputs: list[str]) -> None:
    """Raise if an output is a link to an input, which would be replaced."""
    files = {_identify_file(path): path for path in inputs}
    for output in outputs:
        if os.path.exists(output) and (path := files.get(_identify_file(output))) is not None:
            raise make_write_error("decisions", Path(output), f"it is the same file as the input {path}", "-o")


def _identify_file(path: str) -> tuple[int, int]:
    """Return what is the same for two paths of one file, and different for two files."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _describe_other(found: dict[str, Any] | None, origin: dict[str, Any], part: str) -> str:
    """Return in which way a file of decisions is not the one that the command would write."""
    if found is None:
        return "does not have decisions of this command"
    if found.get("model") != origin["model"]:
        return "has decisions of another model"
    if found.get("part") != origin["part"]:
        return f"has decisions on another file, or {part} was changed since"
    if found.get("options") != origin["options"]:
        return "has decisions made with other options"
    return f"has decisions made by srosr {found.get('srosr')}"


@contextmanager
def _open_folder(folder: Path) -> Iterator[None]:
    """Make the folder and keep other commands out; if nothing is written to a new folder, remove it."""
    from filelock import FileLock, Timeout

    new = not folder.exists()
    make_folder(folder)
    lock = FileLock(folder / ".lock", thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise make_write_error("decisions", folder, "another command is writing to it", "-o") from None
    except NotImplementedError:  # a file system without locks: two commands do the same work, and nothing worse
        yield
        return
    try:
        remove_leftovers(folder)
        yield
    finally:
        with suppress(OSError):
            remove_leftovers(folder)  # of workers that were killed
        lock.release()
        with suppress(OSError):
            os.unlink(folder / ".lock")
            if new:
                folder.rmdir()


# -- doing it --------------------------------------------------------------------------------------------------


def _run_here(clf: OpenSetClassifier, plan: Plan, tally: Tally, update: Progress) -> None:
    """Decide on one part after the other in this process."""
    total = sum(task.origin["part"]["bytes"] for task in plan.tasks)
    for task in plan.tasks:
        size = task.origin["part"]["bytes"]

        def on_rows(n: int, share: float | None, size: int = size) -> None:
            done = (tally.n_bytes + (share or 0.0) * size) / max(total, 1)
            update(tally.rows + n, done, _count_parts(tally, plan))

        tally.add(task, write_part(clf, task, on_rows))


def _run_on_cluster(executor: Any, plan: Plan, folder: Path, tally: Tally, update: Progress) -> None:
    """Have the workers of a cluster decide on the parts."""
    from ..distributed.worker_task import LostTask

    total = sum(task.origin["part"]["bytes"] for task in plan.tasks)
    token = folder.absolute() / f".shared.{secrets.token_hex(8)}.tmp"
    token.touch()
    try:
        tasks = [_make_absolute(task, os.fspath(token)) for task in plan.tasks]
        update(0, 0.0, _count_parts(tally, plan))
        for index, result in executor.run(predict_part, tasks):
            if isinstance(result, LostTask):
                result = PartResult(error=f"{plan.tasks[index].part}: {result.reason.rstrip('.')}.")
            tally.add(tasks[index], result)
            update(tally.rows, tally.n_bytes / max(total, 1), _count_parts(tally, plan))
    finally:
        with suppress(OSError):
            token.unlink()


def _make_absolute(task: PartTask, token: str) -> PartTask:
    """Return the task with paths that mean the same in any working directory."""
    part, output, model = (os.path.abspath(path) for path in (task.part, task.output, task.model))
    return replace(task, part=part, output=output, model=model, token=token)


def _count_parts(tally: Tally, plan: Plan) -> str:
    return f"{tally.parts + len(tally.errors):,} of {len(plan.tasks):,} parts, "

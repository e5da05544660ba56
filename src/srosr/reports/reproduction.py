"""An experiment from its protocol to its report: load, run what is missing, write tables, figures and page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._support.messages import count_of, list_names
from ..datasets import Dataset
from ..experiments import (
    METRICS,
    Executor,
    MethodSetting,
    Protocol,
    ProtocolError,
    Record,
    ResultsFolder,
    Summary,
    Task,
    Work,
    make,
    run_trial,
    run_trials,
    write_tables,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Outcome", "chosen_methods", "reproduce", "run_task"]

#: Of the records; a folder of another form is refused.
FORMAT = 1
#: Where in the identity the methods are: others may join, those that are there may not change.
METHODS = ("protocol", "methods")


@dataclass(frozen=True)
class Outcome:
    """What an experiment came to.

    Attributes
    ----------
    summary : Summary
        Of this run.
    tables : dict of str to DataFrame
        Of all that the folder holds: "results", "coverage", "times", "failures".
    folder, report : Path
    """

    summary: Summary
    tables: dict[str, pd.DataFrame]
    folder: Path
    report: Path


def run_task(task: Task) -> list[tuple[Record, Record]]:
    """One trial, wherever it runs."""
    return run_trial(task.payload, task.trial, task.methods)


def chosen_methods(protocol: Protocol, names: Sequence[str] | None) -> tuple[MethodSetting, ...]:
    """Methods of a protocol by name, in its order; None takes all."""
    if names is None:
        return protocol.methods
    wanted = {protocol.method(name).name for name in names}
    if not wanted:
        raise ProtocolError("no method is named.")
    return tuple(setting for setting in protocol.methods if setting.name in wanted)


def reproduce(
    protocol: Protocol,
    out: Path,
    executor: Executor,
    *,
    dataset: Dataset | None = None,
    trials: int | None = None,
    methods: Sequence[str] | None = None,
    seed: int = 0,
    retry_failed: bool = False,
    on_progress: Callable[[int, int, float], None] | None = None,
    advise: Callable[[dict[str, pd.DataFrame]], Sequence[str]] | None = None,
) -> Outcome:
    """Run an experiment, or what is missing of it, and write its tables, figures and report.

    Parameters
    ----------
    protocol : Protocol
    out : Path
        The folder of this experiment.
    executor : Executor
        Not entered yet.
    dataset : Dataset, optional
        None loads it.
    trials : int, optional
        None takes the protocol's.
    methods : sequence of str, optional
        Names of the protocol's methods; None takes all.
    seed : int
    retry_failed : bool
        Try again what failed in an earlier run.
    on_progress : callable, optional
        As for :func:`srosr.experiments.runner.run_trials`.
    advise : callable, optional
        From the tables to paragraphs that the report begins with.

    Returns
    -------
    outcome : Outcome

    Raises
    ------
    ProtocolError, DatasetError, ResultsFolderError, ExecutorError
    """
    settings = chosen_methods(protocol, methods)
    dataset = protocol.dataset() if dataset is None else dataset
    protocol.check(dataset)
    n_trials = protocol.trials if trials is None else trials
    work = Work(protocol, seed, dataset.fingerprint())
    asked = {s.name: n_trials if s.trials is None else min(n_trials, s.trials) for s in settings}
    tasks = [
        Task(number, tuple(name for name, n in asked.items() if number < n), work)
        for number in range(max(asked.values()))
    ]
    identity = {
        "format": FORMAT,
        "experiment": protocol.name,
        "seed": seed,
        "data": work.fingerprint,
        "protocol": protocol.identity(),
    }
    started, clock = datetime.now().astimezone(), time.monotonic()
    with ResultsFolder(out, identity, retry_failed=retry_failed, growing=METHODS) as folder, ExitStack() as at_work:
        try:
            at_work.enter_context(executor)
        except BaseException:
            folder.withdraw()
            raise
        summary = run_trials(folder, executor, run_task, tasks, on_progress)
        elapsed = time.monotonic() - clock
        order = [s.name for s in protocol.methods]
        records, times = list(folder.records(order)), list(folder.times(order))
        tables = write_tables(out, protocol.name, records, times, order, METRICS)
        page = _Page(protocol, dataset, seed, _held(asked, records), () if advise is None else advise(tables))
        report = page.write(out, tables, records, folder.versions(), started, elapsed, summary)
    return Outcome(summary, tables, out, report)


def _held(asked: dict[str, int], records: list[Record]) -> dict[str, int]:
    """How many trials of each method the folder holds or is to hold: earlier runs may have asked for more."""
    held = dict(asked)
    for record in records:
        held[record["method"]] = max(held.get(record["method"], 0), record["trial"] + 1)
    return held


@dataclass(frozen=True)
class _Page:
    """What a report says beside the numbers; ``asked`` has the number of trials of each method."""

    protocol: Protocol
    dataset: Dataset
    seed: int
    asked: dict[str, int]
    advice: Sequence[str] = ()

    @property
    def methods(self) -> list[MethodSetting]:
        """Those that were asked for, by this run or an earlier one."""
        return [s for s in self.protocol.methods if s.name in self.asked]

    @property
    def n_trials(self) -> int:
        return max(self.asked.values())

    def write(
        self,
        out: Path,
        tables: dict[str, pd.DataFrame],
        records: list[Record],
        versions: list[dict[str, str]],
        started: datetime,
        elapsed: float,
        summary: Summary,
    ) -> Path:
        from .experiment_page import write_report

        portraits = {r["method"]: r["portrait"] for r in records if r["portrait"] is not None}
        whole = summary.n_done == len(records)
        results, opening = self.protocol.reported(tables["results"])
        path = out / "report.html"
        write_report(
            path,
            title=self.protocol.title,
            about=self.protocol.about,
            source=self.dataset.source,
            settings=self._settings(),
            **(tables | {"results": results}),
            portraits=portraits,
            versions=versions,
            asked=self.asked,
            started=started if whole else None,
            finished=datetime.now().astimezone() if whole else None,
            elapsed=elapsed if whole else None,
            notes=self._notes(whole),
            advice=self.advice,
            opening=opening,
            figures=out / "figures",
            method_settings={s.name: self._setting(s) for s in self.methods},
        )
        return path

    def _settings(self) -> list[tuple[str, Any]]:
        data, features = self.dataset, self.protocol.features
        return [
            ("data set", f"{data.name}: {len(data.y):,} samples of {len(data.class_names)} classes"),
            *self.protocol.facts(),
            ("trials", str(self.n_trials)),
            ("seed", str(self.seed)),
            ("features", "as they are" if features is None else {"kind": "spatial pyramid"} | features),
        ]

    def _setting(self, setting: MethodSetting) -> dict[str, Any]:
        out = {} if setting.method == setting.name else {"method": setting.method}
        out |= {name: _written(value) for name, value in setting.parameters.items()}
        if not {"threshold", "target_rejection"} & set(setting.parameters):
            rate = make(setting, 0).target_rejection
            out["threshold"] = f"one that refuses {100 * rate:g} % of known samples (by default)"
        if setting.follows_openness:
            out["openness"] = "that of each level"
        if setting.trials is not None:
            out["trials"] = f"the first {setting.trials}"
        return out

    def _notes(self, whole: bool) -> list[str]:
        limits: dict[int, list[str]] = {}
        for setting in self.methods:
            if setting.trials is not None and setting.trials == self.asked[setting.name] < self.n_trials:
                limits.setdefault(setting.trials, []).append(setting.name)
        notes = [
            f"{list_names(names)}: {count_of(n, 'trial')} only, as the protocol has it."
            for n, names in sorted(limits.items())
        ]
        if not whole:
            notes.append("Resumed: some trials had been run before, so that the time of the whole is not known.")
        return notes


def _written(value: Any) -> Any:
    if isinstance(value, dict) and "name" in value:
        rest = ", ".join(f"{key} = {v}" for key, v in value.items() if key != "name")
        return f"{value['name']}({rest})"
    return value

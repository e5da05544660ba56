"""An experiment from its protocol to its report: load the data, run missing trials, write tables, figures and page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._support.messages import count_of, list_names
from ..datasets.dataset import Dataset
from ..experiments.protocol import MethodSetting, Protocol, ProtocolError
from ..experiments.result_tables import write_tables
from ..experiments.results_folder import ResultsFolder
from ..experiments.runner import Executor, Summary, TrialTask, run_trials
from ..experiments.trial import METRICS, Record, RunSettings, run_trial
from ..experiments.trial_methods import make_classifier

if TYPE_CHECKING:
    import pandas as pd

#: Version of the records; folders of another version cannot be resumed.
FORMAT = 2
#: Path of the methods in the identity: methods may be added, but not changed.
METHODS = ("protocol", "methods")


@dataclass(frozen=True)
class Reproduction:
    """The outcome of :func:`reproduce`.

    Attributes
    ----------
    summary : Summary
        Counts of this run.
    tables : dict of str to DataFrame
        "results", "coverage", "times" and "failures" of everything in the folder.
    folder, report : Path
    """

    summary: Summary
    tables: dict[str, pd.DataFrame]
    folder: Path
    report: Path


def run_trial_task(task: TrialTask) -> list[tuple[Record, Record]]:
    """Run one trial, in any process."""
    return run_trial(task.payload, task.trial, task.methods)


def choose_methods(protocol: Protocol, names: Sequence[str] | None) -> tuple[MethodSetting, ...]:
    """Return methods of a protocol by name, in its order; None takes all."""
    if names is None:
        return protocol.methods
    wanted = {protocol.find_method(name).name for name in names}
    if not wanted:
        raise ProtocolError("no method is given.")
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
) -> Reproduction:
    """Run the missing trials of an experiment and write its tables, figures and report.

    Parameters
    ----------
    protocol : Protocol
    out : Path
        The folder of this experiment.
    executor : Executor
        Not yet entered.
    dataset : Dataset, optional
        None loads the protocol's data set.
    trials : int, optional
        None takes the number in the protocol.
    methods : sequence of str, optional
        Names of methods of the protocol; None takes all.
    seed : int
    retry_failed : bool
        Repeat what failed in an earlier run.
    on_progress : callable, optional
        As for :func:`srosr.experiments.runner.run_trials`.
    advise : callable, optional
        Returns the first paragraphs of the report, given the tables.

    Returns
    -------
    reproduction : Reproduction

    Raises
    ------
    ProtocolError, DatasetError, ResultsFolderError, ExecutorError
    """
    from .experiment_page import write_report

    settings = choose_methods(protocol, methods)
    dataset = protocol.load_dataset() if dataset is None else dataset
    protocol.check(dataset)
    n_trials = protocol.trials if trials is None else trials
    work = RunSettings(protocol, seed, dataset.fingerprint())
    asked = {s.name: n_trials if s.trials is None else min(n_trials, s.trials) for s in settings}
    tasks = [
        TrialTask(number, tuple(name for name, n in asked.items() if number < n), work)
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
        summary = run_trials(folder, executor, run_trial_task, tasks, on_progress)
        elapsed = time.monotonic() - clock
        order = [s.name for s in protocol.methods]
        records, times = list(folder.records(order)), list(folder.times(order))
        tables = write_tables(out, protocol.name, records, times, order, METRICS)
        results, opening = protocol.merge_levels(tables["results"])
        held = _count_held_trials(asked, records)
        requested = [s for s in protocol.methods if s.name in held]
        whole = summary.n_done == len(records)
        write_report(
            out / "report.html",
            title=protocol.title,
            about=protocol.about,
            source=dataset.source,
            settings=_list_settings(protocol, dataset, max(held.values()), seed),
            **(tables | {"results": results}),
            portraits={r["method"]: r["portrait"] for r in records if r["portrait"] is not None},
            versions=folder.versions(),
            asked=held,
            started=started if whole else None,
            finished=datetime.now().astimezone() if whole else None,
            elapsed=elapsed if whole else None,
            notes=_list_notes(requested, held, whole),
            advice=() if advise is None else advise(tables),
            opening=opening,
            figures=out / "figures",
            method_settings={s.name: _describe_method(s) for s in requested},
        )
    return Reproduction(summary, tables, out, out / "report.html")


def _count_held_trials(asked: dict[str, int], records: list[Record]) -> dict[str, int]:
    """Return the number of trials of each method in the folder, counting those of earlier runs."""
    held = dict(asked)
    for record in records:
        held[record["method"]] = max(held.get(record["method"], 0), record["trial"] + 1)
    return held


def _list_settings(protocol: Protocol, dataset: Dataset, n_trials: int, seed: int) -> list[tuple[str, Any]]:
    features = protocol.features
    return [
        ("data set", f"{dataset.name}: {len(dataset.y):,} samples of {len(dataset.class_names)} classes"),
        *protocol.describe(),
        ("trials", str(n_trials)),
        ("seed", str(seed)),
        ("features", "unchanged" if features is None else {"kind": "spatial pyramid"} | features),
    ]


def _describe_method(setting: MethodSetting) -> dict[str, Any]:
    out = {} if setting.method == setting.name else {"method": setting.method}
    out |= {name: _format_parameter(value) for name, value in setting.parameters.items()}
    if not {"threshold", "target_rejection"} & set(setting.parameters):
        rate = make_classifier(setting, 0).target_rejection
        out["threshold"] = f"rejects {100 * rate:g} % of known samples (default)"
    if setting.follows_openness:
        out["openness"] = "of each level"
    if setting.trials is not None:
        out["trials"] = f"the first {setting.trials}"
    return out


def _list_notes(settings: Sequence[MethodSetting], held: dict[str, int], whole: bool) -> list[str]:
    limits: dict[int, list[str]] = {}
    for setting in settings:
        if setting.trials is not None and setting.trials == held[setting.name] < max(held.values()):
            limits.setdefault(setting.trials, []).append(setting.name)
    notes = [
        f"{list_names(names)}: only {count_of(n, 'trial')}, as set in the protocol."
        for n, names in sorted(limits.items())
    ]
    return notes if whole else [*notes, "This run was resumed, so its total time is not known."]


def _format_parameter(value: Any) -> Any:
    if isinstance(value, dict) and "name" in value:
        rest = ", ".join(f"{key} = {v}" for key, v in value.items() if key != "name")
        return f"{value['name']}({rest})"
    return value

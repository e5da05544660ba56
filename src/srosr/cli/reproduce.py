"""``srosr reproduce``: run an experiment and write its report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._support.messages import count_of, format_duration
from ..operations.input_errors import InputError, name_errors
from .console import PLAIN, jobs_option, json_option, print_json, seed_option
from .trial_progress import prepare_folder, stop, trial_progress

if TYPE_CHECKING:
    from rich.console import Console

    from ..experiments.protocol import Protocol
    from ..reports.experiment_text import Cell
    from ..reports.reproduction import Reproduction

#: The paper's experiments, and substitutes for the last if its pictures are not available.
FOUR = ("yaleb", "mnist", "uiuc", "caltech256")
SUBSTITUTES = ("caltech101", "caltech256-clip")
MOST_TRIALS = 1_000_000


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="List the experiments and exit.")
@click.option(
    "--trials", type=click.IntRange(1, MOST_TRIALS), help="Number of trials.  [as in the protocol: 50 for the paper's]"
)
@click.option("--methods", metavar="METHODS", help="Comma-separated methods of the protocol.  [all]")
@jobs_option("Trials to run in parallel, each in a process with one thread.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Run on a Dask cluster: tcp://HOST:PORT of its scheduler, or local:N for N workers on this machine.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("srosr-results"),
    show_default=True,
    help="Folder for the results, with a subfolder for each experiment.",
)
@seed_option("Seed of the trials and the methods.")
@click.option("--retry-failed", is_flag=True, help="Repeat what failed in an earlier run into the same folder.")
@json_option
def reproduce(
    names: tuple[str, ...],
    listing: bool,
    trials: int | None,
    methods: str | None,
    jobs: int | None,
    cluster: str | None,
    out: Path,
    seed: int,
    retry_failed: bool,
    as_json: bool,
) -> None:
    """Run experiments: the paper's by name, "all" of them, or your own from a TOML file.

    Every trial draws known and unknown classes, fits every method to the same samples and measures it at every
    openness. The folder of an experiment gets the results as one table (results.parquet and .csv), the times, and
    report.html with figures and tests. If the command is interrupted, the same command continues where it stopped and
    ends with the same table. Data sets are looked for in the folder SROSR_DATA_DIR, then in the cache, then downloaded.

    \b
    Examples:
      srosr reproduce digits                          a first look, no download
      srosr reproduce yaleb --jobs 2
      srosr reproduce yaleb --trials 5 --methods calibrated,paper,w-svm
      srosr reproduce all --cluster tcp://10.0.0.5:8786
      srosr reproduce mine.toml                       your own data, see docs/experiments.md
      srosr reproduce --list
    """
    from rich.console import Console

    from ..experiments.runner import make_executor

    console, err = Console(**PLAIN), Console(stderr=True, **PLAIN)
    if listing:
        _print_list(console, as_json)
        return
    if not names:
        raise InputError("name an experiment, such as yaleb, or all; srosr reproduce --list lists them.")
    wanted = None
    if methods is not None:
        wanted = [part.strip() for part in methods.split(",") if part.strip()]
        if not wanted:
            raise InputError("--methods is empty: give methods separated by commas, as in calibrated,paper.")
    protocols = _load_protocols(names, wanted)
    if cluster is not None and jobs is not None:
        raise InputError("--jobs and --cluster exclude each other: a cluster runs as many jobs as it has workers.")
    with name_errors("--cluster"):
        make_executor(1, cluster)
    failed, results = False, []
    for protocol in protocols:
        optional = "all" in names and protocol.name in SUBSTITUTES and protocol.name not in names
        failure, outcome = _run_experiment(protocol, None if as_json else console, err, out, optional, {
            "trials": trials, "methods": wanted, "seed": seed, "retry_failed": retry_failed
        }, jobs or os.cpu_count() or 1, cluster)  # fmt: skip
        failed |= failure
        if outcome is not None:
            results.append(_to_dict(protocol, outcome))
    if as_json:
        print_json(results)
    if failed:
        raise click.exceptions.Exit(1)


def _load_protocols(names: tuple[str, ...], methods: list[str] | None) -> list[Protocol]:
    """Return the protocols asked for, read and checked before anything runs."""
    from ..experiments.protocol import ProtocolError
    from ..experiments.protocol_file import load_protocol
    from ..reports.reproduction import choose_methods

    asked = [one for name in names for one in ((*FOUR, *SUBSTITUTES) if name == "all" else (name,))]
    try:
        protocols = [load_protocol(name) for name in dict.fromkeys(asked)]
        for protocol in protocols:
            choose_methods(protocol, methods)
    except ProtocolError as error:
        raise InputError(str(error)) from None
    twice = {p.name for p in protocols if [q.name for q in protocols].count(p.name) > 1}
    if twice:
        raise InputError(f"two of the experiments are called {twice.pop()}: their results would share a folder.")
    return protocols


def _run_experiment(
    protocol: Protocol,
    console: Console | None,
    err: Console,
    out: Path,
    optional: bool,
    options: dict[str, Any],
    jobs: int,
    cluster: str | None,
) -> tuple[bool, Reproduction | None]:
    """Run one experiment and print its results; return whether something failed, and the results."""
    from rich.text import Text

    from ..datasets.dataset import DatasetError, DatasetNotFound
    from ..distributed.worker_task import ExecutorError
    from ..experiments.protocol import ProtocolError
    from ..experiments.run_identity import ResultsFolderError
    from ..experiments.runner import make_executor
    from ..reports.reproduction import reproduce as run

    folder = out / protocol.name
    try:
        with prepare_folder(folder):
            with err.status(Text(f"{protocol.title}: loading the data …")):
                dataset = protocol.load_dataset()
                protocol.check(dataset)
            n_trials = options["trials"] or protocol.trials
            with trial_progress(err, protocol.name) as progress:
                executor = make_executor(min(jobs, n_trials), cluster)
                outcome = run(protocol, folder, executor, dataset=dataset, on_progress=progress, **options)
    except DatasetError as error:
        if optional and isinstance(error, DatasetNotFound):
            err.print(f"{protocol.name} is left out: its data are not available.", soft_wrap=True)
            return False, None
        # Most errors name the data set, which often has the name of the experiment.
        named = str(error).removeprefix(f"{protocol.name}: ")
        err.print(f"Error: {protocol.name}: {named}", soft_wrap=True)
        return True, None
    except (ProtocolError, ResultsFolderError, ExecutorError, OSError) as error:
        raise InputError(str(error)) from None
    except KeyboardInterrupt:
        raise stop(err, folder) from None
    if console is not None:
        _print_results(console, protocol, outcome)
        there = len({*outcome.tables["results"]["trial"], *outcome.tables["failures"]["trial"]})
        if there > n_trials:
            console.print(f"The folder has {there} trials; all are reported.")
    return not outcome.tables["failures"].empty, outcome


def _to_dict(protocol: Protocol, outcome: Reproduction) -> dict[str, Any]:
    """Return a JSON-serializable dict of the means over trials at every openness."""
    results, failures = outcome.tables["results"], outcome.tables["failures"]
    there = results[results["value"].notna()]
    means = there.groupby(["openness", "method", "metric"])["value"].agg(mean="mean", trials="count").reset_index()
    return {
        "name": protocol.name,
        "title": protocol.title,
        "report": str(outcome.report),
        "trials": int(results["trial"].nunique()),
        "means": means.to_dict("records"),
        "failures": failures[["trial", "method", "reason"]].to_dict("records"),
    }


def _print_results(console: Console, protocol: Protocol, outcome: Reproduction) -> None:
    """Print the table at the largest openness, failures, times, and the path of the report."""
    from ..reports.experiment_text import sum_times

    _print_table(console, protocol, outcome)
    failures = outcome.tables["failures"]
    for line in failures.head(10).itertuples():
        console.print(f"FAILED trial {line.trial} {line.method}: {line.reason}")
    if len(failures) > 10:
        console.print(f"… and {len(failures) - 10} more failures, see failures.csv")
    spent, coding = sum_times(outcome.tables["times"])
    if spent > 0:
        console.print(f"Computed {format_duration(spent)} in all, {1.0 - coding:.0%} of it outside sparse coding.")
    console.print(f"Report: {outcome.report}", soft_wrap=True)


def _print_table(console: Console, protocol: Protocol, outcome: Reproduction) -> None:
    from rich.table import Table

    from ..experiments.result_tables import METRIC_INFO
    from ..experiments.statistics import find_levels, values_at
    from ..reports.experiment_text import AHEAD, BEST, HEADLINE_METRICS, build_column, count_trials, order_by_f_measure
    from ..reports.method_styles import OURS

    results = outcome.tables["results"]
    steps = find_levels(results, "f")
    if not steps:
        return
    last, trials = steps[-1], count_trials(results)
    most = max(trials.values())
    columns = [build_column(values_at(results, m, last), m, METRIC_INFO[m].label, trials) for m in HEADLINE_METRICS]
    spread = any(cell.half_width for column in columns for cell in column.cells.values())
    shown = "mean ± half of the 95 % interval" if spread else "means" if most > 1 else "one trial"
    title = f"{protocol.title}, openness {100 * last.openness:.2f} %: {shown}"
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("method")
    for column in columns:
        table.add_column(column.label, justify="right")
    for name in order_by_f_measure(results, list(trials)):
        cells = [column.cells.get(name) for column in columns]
        fewer = f" ({trials[name]})" if trials[name] < most else ""
        row = ["" if c is None else _format_cell(c, {BEST: "*", AHEAD: "^"}.get(c.mark, " ")) for c in cells]
        table.add_row(name + fewer, *row, style="bold" if name == OURS else "")
    console.print(table)
    marks = {cell.mark for column in columns for cell in column.cells.values()}
    ahead = "; ^ better than it in the trials that both have" if AHEAD in marks else ""
    few = "; in parentheses, the number of trials where it is smaller" if min(trials.values()) < most else ""
    console.print(f"* best of its column{ahead}; {count_of(most, 'trial')}{few}", style="dim")


def _format_cell(cell: Cell, mark: str) -> str:
    spread = f"±{cell.half_width}" if cell.half_width else ""
    return f"{cell.mean}{spread}{mark}"


def _print_list(console: Console, as_json: bool) -> None:
    from rich.table import Table

    from ..experiments.protocol_file import list_protocols, load_protocol

    order = [*FOUR, *SUBSTITUTES]
    names = sorted(list_protocols(), key=lambda n: order.index(n) if n in order else len(order))
    found = [load_protocol(name) for name in names]
    if as_json:
        print_json([
            {"name": p.name, "title": p.title, "known": p.known.classes, "openness": p.levels, "trials": p.trials}
            for p in found
        ])  # fmt: skip
        return
    table = Table(header_style="bold")
    for heading in ("name", "what", "known", "unknown", "openness", "trials"):
        table.add_column(heading)
    for p in found:
        opening = list(p.levels.values())
        unknown = f"{p.unknown.classes[0]}–{p.unknown.classes[-1]}"
        openness = f"{100 * opening[0]:.2f}–{100 * opening[-1]:.2f} %"
        table.add_row(p.name, p.title, str(p.known.classes), unknown, openness, str(p.trials))
    console.print(table)
    console.print(f"all: {', '.join(FOUR)}, and {' and '.join(SUBSTITUTES)} if their files are available")

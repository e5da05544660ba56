"""``srosr monitor``: watch a stream of samples, with an alarm if it changes."""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._support.atomic_files import write_atomically
from .._support.messages import count_of
from ..operations.device_choice import set_device, set_threads
from ..operations.input_errors import InputError, convert_errors
from ..operations.model_input import format_notes, open_for_model, read_batches
from ..operations.sample_decisions import decide_rows
from .console import device_option, err, jobs_option, out, print_facts, progress, quiet_option
from .input_data import data_options
from .models import load_model
from .output_paths import check_figure_path, check_output_path

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier
    from ..monitor.stream_monitor import Monitor
    from ..tables.read_options import ReadOptions
    from ..tables.row_source import RowSource

#: Options that are part of a state, by the names that they have there.
_OPTIONS = {
    "false_alarm_rate": "--false-alarm-rate",
    "reference": "--against",
    "block": "--block",
    "horizon": "--horizon",
}


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("stream", metavar="STREAM")
@click.option(
    "--state", type=click.Path(path_type=Path), metavar="FILE",
    help="Go on from the state in this file, if it exists, and write the new state to it at the end.",
)  # fmt: skip
@click.option(
    "--false-alarm-rate", type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True), metavar="R",
    help="Largest probability of an alarm in a watch of a stream that does not change.  [0.01]",
)  # fmt: skip
@click.option(
    "--against", "reference", type=click.Choice(["stream", "calibration"]),
    help="Compare with earlier samples of the stream, or also with the model's calibration scores.  [stream]",
)  # fmt: skip
@click.option("--block", type=click.IntRange(1), metavar="N", help="Samples of a block of the history.  [500]")
@click.option("--horizon", type=click.IntRange(1), metavar="N", help="Samples of a watch.  [100000]")
@click.option("--restart", is_flag=True, help="Begin a new watch: forget earlier samples of the stream and the alarm.")
@click.option(
    "--figure", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the figure to this file; the suffix (.png, .pdf or .svg) chooses the format.",
)  # fmt: skip
@click.option("--fail-on-alarm", is_flag=True, help="End with exit status 1 if there is an alarm.")
@data_options(labels=False, model=True)
@jobs_option()
@device_option()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per complete block, and a last one of all.")
@quiet_option
def monitor(
    model: Path,
    stream: str,
    state: Path | None,
    restart: bool,
    figure: Path | None,
    fail_on_alarm: bool,
    options: ReadOptions,
    jobs: int | None,
    device: str,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Watch a stream of samples: how many are rejected, and whether the stream changes.

    STREAM is what predict takes: a table, arrays or a folder of pictures, in the order of time; "-" reads CSV from
    standard input. The command prints the rejection rate with its 95 % interval, the share of samples near the
    threshold, the mix of classes, and whether there was an alarm.

    The alarm is a test of exchangeability: it is raised when the unknown scores of later samples differ from those of
    earlier ones more than chance explains. In a watch of a stream that does not change, the probability of an alarm is
    at most --false-alarm-rate, however often you look. With --against calibration, samples are also compared with the
    known samples that the model was calibrated on, so that a stream that differs from the beginning raises it, too.

    With --state the command continues where it stopped: days that are read one after the other give the same numbers as
    all of them at once. Samples are counted from 0 over all calls.

    \b
    Examples:
      srosr monitor model.srosr stream.csv
      srosr monitor model.srosr monday.csv --state state.json --figure monitor.png
      srosr monitor model.srosr tuesday.csv --state state.json --fail-on-alarm || echo "look at it"
      srosr monitor model.srosr stream.csv --against calibration --false-alarm-rate 0.001
      zcat stream.csv.gz | srosr monitor model.srosr - --json | jq 'select(.kind == "summary").alarm'
    """
    given = {name: value for name, value in settings.items() if value is not None}
    _check_paths(model, stream, state, figure)
    clf = load_model(model)
    set_threads(clf, jobs)
    set_device(clf, device)
    watching = _open_monitor(clf, state, given)
    before = watching.samples
    if restart:
        watching.restart()
    with convert_errors():
        source = open_for_model(clf, stream, options)
        _watch(watching, clf, source, as_json, shown=not (as_json or quiet))
        picture = None if figure is None else _render_figure(watching, figure)
        if figure is not None and picture is not None:
            write_atomically(figure, picture)
        if state is not None:
            watching.save(state)
    _print_results(watching, source, state, figure, as_json=as_json, quiet=quiet)
    alarms = watching.summary.alarms
    if fail_on_alarm and (watching.alarm is not None or any(alarm.sample >= before for alarm in alarms)):
        raise click.exceptions.Exit(1)


def _check_paths(model: Path, stream: str, state: Path | None, figure: Path | None) -> None:
    if stream != "-" and not os.path.exists(stream):
        raise InputError(f"{stream} does not exist: check the name of the file or folder.")
    if state is not None:
        check_output_path(state, "the state", "--state", stream, model)
    if figure is not None:
        check_figure_path(figure, "--figure", stream, model, *([] if state is None else [state]))
        if state is not None and os.path.abspath(state) == os.path.abspath(figure):
            raise InputError(f"--state and --figure are both {figure}: give two different files.")


def _open_monitor(clf: OpenSetClassifier, state: Path | None, given: dict[str, Any]) -> Monitor:
    """Return a new monitor, or that of the state if there is one; options must agree with it."""
    from ..monitor.stream_monitor import Monitor

    with convert_errors(ValueError):
        if state is None or not state.exists():
            return Monitor(clf, **given)
        found = Monitor.load(state, clf)
    for name, value in given.items():
        if getattr(found, name) != value:
            raise InputError(
                f"{_OPTIONS[name]} {value} contradicts {state}, which has {getattr(found, name)}: leave the option "
                "out, or begin with a new file."
            )
    return found


def _watch(watching: Monitor, clf: OpenSetClassifier, source: RowSource, as_json: bool, shown: bool) -> None:
    """Decide batch by batch and record the decisions; print complete blocks with --json."""
    n = 0
    with progress("Monitoring", shown=shown) as update:
        for rows, X in read_batches(clf, source):
            decisions = decide_rows(clf, source.name, rows.numbers, X)
            for block in watching.record(decisions):
                if as_json:
                    _print_line({"kind": "block", **watching.describe_block(block)})
            n += len(decisions)
            update(n, source.fraction)


def _render_figure(watching: Monitor, path: Path) -> bytes | None:
    """Return the figure as a file, None if there is nothing to draw."""
    if watching.samples == 0:
        return None
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from ..monitor.monitor_display import FIGURE_SIZE

    content, kind = BytesIO(), path.suffix.lower().removeprefix(".")
    dates: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with rc_context({"text.parse_math": False, "svg.hashsalt": "monitor"}):  # a class may have dollars in its name
        figure = Figure(figsize=FIGURE_SIZE, layout="constrained", facecolor="white")
        watching.plot(figure)
        figure.savefig(content, format=kind, dpi=130, metadata=dates)
    return content.getvalue()


def _print_results(
    watching: Monitor, source: RowSource, state: Path | None, figure: Path | None, *, as_json: bool, quiet: bool
) -> None:
    report = watching.summary
    drawn = None if figure is None or report.samples == 0 else str(figure)
    if as_json:
        files = {"stream": source.name, "dropped": source.dropped, "figure": drawn}
        _print_line({
            "kind": "summary", **report.to_dict(), **files, "state": None if state is None else str(state)
        })  # fmt: skip
        return
    if quiet:
        return
    for note in format_notes(source):
        err().print(f"Note: {note}", style="yellow")
    if source.dropped:
        err().print(f"Note: {count_of(source.dropped, 'row')} of {source.name} left out.", style="yellow")
    print_facts(report.list_facts())
    for what, path in (("Figure", drawn), ("State", state)):
        if path is not None:
            out().print(f"{what}: {path}")


def _print_line(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))

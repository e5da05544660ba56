"""``srosr evaluate``: measure a model on labeled samples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._support.atomic_files import write_atomically
from .._support.messages import count_of, list_names
from ..operations.device_choice import set_device, set_threads
from ..operations.input_errors import convert_errors, name_errors
from ..operations.model_facts import describe_thresholds
from ..operations.model_input import open_for_model, read_batches
from ..operations.sample_decisions import decide_rows
from .console import (
    device_option,
    err,
    jobs_option,
    json_option,
    print_facts,
    print_json,
    progress,
    quiet_option,
    seed_option,
)
from .console import out as stdout
from .input_data import data_options
from .models import load_model
from .output_paths import check_figure_path, make_write_error
from .trial_progress import prepare_folder

if TYPE_CHECKING:
    from rich.console import Console

    from ..classifiers.base import OpenSetClassifier
    from ..evaluation.evaluation import Evaluation
    from ..tables.read_options import ReadOptions
    from ..tables.row_source import RowSource

#: Largest number of labels in a list, and of lines in a table; the report has all.
_MOST_NAMES, _MOST_LINES = 12, 20
_WIDE = 240


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option(
    "--unknown", "unknown", metavar="LABEL", multiple=True,
    help="A label of unknown samples; then any other label that is no class of the model is an error. Repeatable.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Write report.html, figure.png and evaluation.json into this folder.",
)  # fmt: skip
@click.option(
    "--figure", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the figure to this file; the suffix (.png, .pdf or .svg) chooses the format.",
)  # fmt: skip
@data_options(model=True)
@seed_option("Seed of the bootstrap intervals.")
@jobs_option()
@device_option()
@json_option
@quiet_option
def evaluate(
    model: Path,
    data: str,
    unknown: tuple[str, ...],
    out: Path | None,
    figure: Path | None,
    options: ReadOptions,
    seed: int,
    jobs: int | None,
    device: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure a model on labeled samples: how many are recognized, rejected and confused.

    DATA has the features of the model and a label for every sample. Samples whose label is a class of the model are
    known and should get that class; all others are unknown and should be rejected. With --unknown, any label that is
    neither a class nor given there is an error, which finds misspelled classes.

    The command prints all metrics with 95 % intervals and a line for each class. With --out it also writes a page with
    the scores, the OSCR curve, the effect of other thresholds, the confusions and the worst mistakes by row. Use
    samples that the model was not fitted to.

    \b
    Examples:
      srosr evaluate model.srosr test.csv
      srosr evaluate model.srosr test.csv --out report/
      srosr evaluate model.srosr test.csv --unknown weed --unknown soil
      srosr evaluate model.srosr photos/ --figure scores.pdf
      srosr evaluate model.srosr test.npz --json | jq .metrics.auroc.value
    """
    from ..experiments.run_identity import ResultsFolderError
    from ..reports.evaluation_text import find_remarks

    if figure is not None:
        check_figure_path(figure, "--figure", data, model)
    with ExitStack() as stack:
        stack.enter_context(convert_errors(ResultsFolderError))
        if out is not None:
            stack.enter_context(prepare_folder(out))
        clf = load_model(model)
        set_threads(clf, jobs)
        set_device(clf, device)
        source = open_for_model(clf, data, options, labels="required")
        found = _evaluate(clf, source, unknown or None, seed, shown=not (quiet or as_json))
        notes = [*source.notes, *find_remarks(found, unknown or None, source.name)]
        if source.dropped:
            notes.append(f"{count_of(source.dropped, 'row')} of {source.name} left out.")
        whole = _describe(clf, model, source) | {"notes": notes} | found.as_dict()
        files = _render_files(found, whole, out, figure)
        _write_files(files)
    if as_json:
        print_json(whole | {"files": [str(path) for path in files]})
    elif not quiet:
        _print_results(found, notes, whole)
        kinds = {"report.html": "Report", "evaluation.json": "Numbers"}
        for path in files:
            stdout().print(f"{kinds.get(path.name, 'Figure')}: {path}")


def _evaluate(
    clf: OpenSetClassifier, source: RowSource, unknown: tuple[str, ...] | None, seed: int, shown: bool
) -> Evaluation:
    """Predict batch by batch, keeping four numbers per row."""
    from ..evaluation.evaluation import EvaluationCollector, UnexpectedLabel

    with name_errors("--unknown", UnexpectedLabel):
        collector = EvaluationCollector(clf.classes_, unknown)
    n = 0
    with progress("Evaluating", shown=shown) as update:
        for rows, X in read_batches(clf, source):
            assert rows.labels is not None
            # Labels are checked first, so that a misspelled one is reported before its batch is predicted.
            with name_errors(source.name, UnexpectedLabel):
                collector.check(rows.labels, rows.numbers)
            collector.add(
                rows.labels, decide_rows(clf, source.name, rows.numbers, X), rows.numbers, rows.kept.get("file")
            )
            n += len(rows.labels)
            update(n, source.fraction)
    return collector.evaluate(thresholds=clf.thresholds_, score_range=clf.score_range, seed=seed)


def _describe(clf: OpenSetClassifier, model: Path, source: RowSource) -> dict[str, Any]:
    from ..rivals.methods import method_name

    return {
        "model": str(model),
        "data": source.name,
        "method": method_name(clf),
        "labels": source.label,
        **describe_thresholds(clf),
    }


# -- files -------------------------------------------------------------------------------------------------


def _render_files(
    found: Evaluation, whole: Mapping[str, Any], out: Path | None, figure: Path | None
) -> dict[Path, bytes]:
    """Return the content of all files, before any is written."""
    if out is None and figure is None:
        return {}
    from ..reports.evaluation_figures import draw_evaluation

    names = [Path(whole[key]).name.encode("utf-8", "backslashreplace").decode() for key in ("model", "data")]
    files = {}
    if figure is not None:
        kind = figure.suffix.lower().removeprefix(".")
        files[figure] = draw_evaluation(found, file_format=kind, title=" on ".join(names))
    if out is not None:
        from ..reports.evaluation_page import render_evaluation

        facts = [
            *((name, whole[name]) for name in ("model", "method", "data")),
            *_describe_samples(found),
            ("threshold", _describe_threshold(whole)),
            ("classes", f"{len(found.names):,}: {list_names(found.names, _MOST_NAMES)}"),
        ]
        text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        files[out / "evaluation.json"] = text.encode("utf-8", "backslashreplace")
        files[out / "figure.png"] = draw_evaluation(found, title=" on ".join(names))
        title = "How well {} does on {}".format(*names)
        facts = [(name, text) for name, text in facts if text]
        files[out / "report.html"] = render_evaluation(found, title=title, facts=facts, notes=whole["notes"])
    return files


def _write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files; after an error remove those that are new."""
    new = [path for path in files if not path.exists()]
    for path, content in files.items():
        try:
            write_atomically(path, content)
        except BaseException as error:
            for other in new:
                other.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise make_write_error("the report", path, error.strerror or str(error), "--out or --figure") from None
            raise


def _describe_threshold(whole: Mapping[str, Any]) -> str:
    from ..inspection.model_summary import format_threshold
    from ..reports.evaluation_text import format_score

    values = whole["class_thresholds"]
    text = format_threshold([v for v in values if v is not None]) if values else format_score(whole["threshold"])
    return f"{text} on the unknown score: {whole['threshold_from']}"


def _describe_samples(found: Evaluation) -> list[tuple[str, str]]:
    """Return the numbers of known and unknown samples, and the unknown labels."""
    n_classes = sum(line.samples > 0 for line in found.class_counts if line.known)
    of = f" of {count_of(n_classes, 'class', 'classes')}" if n_classes else ""
    labels = f": {list_names(found.unknown_labels, _MOST_NAMES)}" if found.unknown_labels else ""
    return [("known", f"{found.n_known:,} samples" + of), ("unknown", f"{found.n_unknown:,} samples{labels}")]


# -- output -----------------------------------------------------------------------------------------------


def _wide_console() -> Console:
    """Return standard output as a console, so wide that no line of a table is folded in a file or a pipe."""
    console = stdout()
    if not console.is_terminal:
        console.width = max(console.width, _WIDE)
    return console


def _print_results(found: Evaluation, notes: list[str], whole: Mapping[str, Any]) -> None:
    from rich.table import Table

    from ..reports.evaluation_text import describe_results, format_interval, format_value

    console = _wide_console()
    for note in notes:
        err().print(f"Note: {note}", style="yellow")
    print_facts([*_describe_samples(found), ("method", whole["method"]), ("threshold", _describe_threshold(whole))])
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("meaning", style="dim", overflow="fold")
    for measure in found.measures.values():
        meaning = measure.remark or measure.kind.meaning
        table.add_row(measure.kind.label, format_value(measure), format_interval(measure), meaning)
    console.print(table)
    console.print()
    _print_classes(found)
    for sentence in describe_results(found):
        console.print(sentence)


def _print_classes(found: Evaluation) -> None:
    """Print a table of known classes and one of unknown labels; of many, those with the most mistakes."""
    from rich.table import Table

    console = _wide_console()
    for known in (True, False):
        lines = [line for line in found.class_counts if line.known is known and line.samples]
        shown = lines
        if len(lines) > _MOST_LINES:
            shown = sorted(lines, key=lambda line: line.right - line.samples)[:_MOST_LINES]
        if not lines:
            continue
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("known class" if known else "unknown label", overflow="fold")
        for heading in ("samples", "correct", "rejected", "wrong") if known else ("samples", "rejected", "accepted"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("most often predicted as", overflow="fold")
        for line in shown:
            counts = (line.samples, *([line.right] if known else []), line.rejected, line.wrong)
            mistaken = f"{line.mistaken_for} ({line.mistaken:,})" if line.mistaken else ""
            table.add_row(line.label, *(f"{n:,}" for n in counts), mistaken)
        console.print(table)
        if len(lines) > len(shown):
            console.print(f"… and {len(lines) - len(shown):,} with fewer mistakes; --json has all", style="dim")
        console.print()

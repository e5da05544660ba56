"""``srosr evaluate``: how well a model does on labelled samples."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .bad_input import BadInput
from .console import LARGEST_SEED, json_option, quiet_option
from .input_data import DataOptions, data_options

if TYPE_CHECKING:
    from rich.console import Console

    from ..classifiers import OpenSetClassifier
    from ..evaluation import Evaluation
    from ..tables import RowSource

__all__ = ["evaluate"]

#: Labels that a list names.
MOST_NAMES = 12
#: Lines of a table on the screen; the report has all.
_LINES = 20
_WIDE = 240


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option(
    "--unknown", "unknown", metavar="LABEL", multiple=True,
    help="A label of unknown samples; then any other that the model does not know is an error. Repeatable.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Write report.html, figure.png and evaluation.json into this folder.",
)  # fmt: skip
@click.option(
    "--figure", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the figure; the ending (.png, .pdf or .svg) chooses the format.",
)  # fmt: skip
@data_options(model=True)
@click.option(
    "--seed", type=click.IntRange(0, LARGEST_SEED), default=0, show_default=True,
    help="Of the resamples that intervals come from.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), help="Threads.  [one a core]")
@json_option
@quiet_option
def evaluate(
    model: Path,
    data: str,
    unknown: tuple[str, ...],
    out: Path | None,
    figure: Path | None,
    options: DataOptions,
    seed: int,
    jobs: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure a model on labelled samples: how many are recognised, refused, mistaken.

    DATA has the features of the model and a label for every sample. A label that is a class of the model makes a sample
    known: to name its class is right. Every other label makes it unknown: to refuse it is right. Give labels with
    --unknown to be strict: then a label that is neither is an error, as a misspelt class would be.

    Prints all metrics with 95 % intervals and a line for each class. With --out it also writes a page to read and send
    on: scores, OSCR curve, what other thresholds would do, who was mistaken for whom, and the worst mistakes by row.
    Use samples that the model was not fitted to: of others it knows too much.

    \b
    Examples:
      srosr evaluate model.srosr test.csv
      srosr evaluate model.srosr test.csv --out report/
      srosr evaluate model.srosr test.csv --unknown weed --unknown soil
      srosr evaluate model.srosr photos/ --figure scores.pdf
      srosr evaluate model.srosr test.npz --json | jq .metrics.auroc.value
    """
    from ..experiments import ResultsFolderError
    from ..reports import remarks
    from .bad_input import refusing
    from .console import print_json
    from .input_data import load_model, open_for
    from .output_files import check_figure_path
    from .trial_progress import writable

    if figure is not None:
        check_figure_path(figure, "--figure", data, model)
    with ExitStack() as stack:
        stack.enter_context(refusing(ResultsFolderError))
        if out is not None:
            stack.enter_context(writable(out))
        clf = load_model(model)
        if hasattr(clf, "n_jobs"):
            clf.n_jobs = jobs or -1
        source = open_for(clf, data, options, labels="required")
        found = _judged(clf, source, unknown or None, seed, shown=not (quiet or as_json))
        notes = [*source.notes, *remarks(found, unknown or None, source.name)]
        if source.dropped:
            notes.append(f"{source.dropped:,} rows of {source.name} were left out.")
        about = _about(clf, model, source)
        whole = about | {"notes": notes} | found.as_dict()
        files = _files(found, whole, clf, out, figure)
        _write(files)
    if as_json:
        print_json(whole | {"files": [str(path) for path in files]})
    elif not quiet:
        _show(found, notes, whole)
        _show_files(files)


def _judged(
    clf: OpenSetClassifier, source: RowSource, unknown: tuple[str, ...] | None, seed: int, shown: bool
) -> Evaluation:
    """Decide batch by batch, keeping four numbers a row."""
    from ..evaluation import Gathering, UnexpectedLabel
    from .console import progress
    from .input_data import batch_size, scaled_batches

    try:
        gathering = Gathering(clf.classes_, unknown)
    except UnexpectedLabel as error:
        raise BadInput(f"--unknown: {error}") from None
    n = 0
    with progress("Judging", shown=shown) as update:
        for rows, X in scaled_batches(clf, source, batch_size(clf)):
            assert rows.labels is not None
            # Labels first: a misspelt one is said before the work on its batch.
            try:
                gathering.check(rows.labels, rows.numbers)
            except UnexpectedLabel as error:
                raise BadInput(f"{source.name}: {error}") from None
            gathering.add(rows.labels, clf.decide(X), rows.numbers, rows.kept.get("file"))
            n += len(rows.labels)
            update(n, source.fraction)
    return gathering.evaluation(thresholds=clf.thresholds_, score_range=clf.score_range, seed=seed)


def _about(clf: OpenSetClassifier, model: Path, source: RowSource) -> dict[str, Any]:
    import math

    from ..rivals import method_name

    values = clf.thresholds_.tolist()
    one = len(set(values)) == 1
    return {
        "model": str(model),
        "data": source.name,
        "method": method_name(clf),
        "labels": source.label,
        "threshold": values[0] if one and math.isfinite(values[0]) else None,
        "class_thresholds": None if one else [value if math.isfinite(value) else None for value in values],
        "threshold_from": clf.threshold_info_.detail,
    }


# -- files -------------------------------------------------------------------------------------------------


def _files(
    found: Evaluation, whole: Mapping[str, Any], clf: OpenSetClassifier, out: Path | None, figure: Path | None
) -> dict[Path, bytes]:
    """All files that are wanted, complete, before one is written."""
    import json

    if out is None and figure is None:
        return {}
    from ..reports import evaluation_figure

    paths = (Path(whole["model"]), Path(whole["data"]))
    names = [path.name.encode("utf-8", "backslashreplace").decode() for path in paths]
    files = {}
    if figure is not None:
        files[figure] = evaluation_figure(
            found, file_format=figure.suffix.lower().removeprefix("."), title=" on ".join(names)
        )
    if out is not None:
        from ..reports import render_evaluation

        text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        files[out / "evaluation.json"] = text.encode("utf-8", "backslashreplace")
        files[out / "figure.png"] = evaluation_figure(found, title=" on ".join(names))
        files[out / "report.html"] = render_evaluation(
            found, title="How well {} does on {}".format(*names), facts=_facts(found, whole, clf), notes=whole["notes"]
        )
    return files


def _write(files: Mapping[Path, bytes]) -> None:
    """Write all files, or leave none that was not there."""
    from .._support.atomic_files import write_atomically
    from .output_files import unwritable

    new = [path for path in files if not path.exists()]
    for path, content in files.items():
        try:
            write_atomically(path, content)
        except BaseException as error:
            for other in new:
                other.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise unwritable("the report", path, error.strerror or str(error), "--out or --figure") from None
            raise


def _facts(found: Evaluation, whole: Mapping[str, Any], clf: OpenSetClassifier) -> list[tuple[str, str]]:
    from .._support.messages import list_names

    facts = [
        ("model", whole["model"]),
        ("method", whole["method"]),
        ("data", whole["data"]),
        *_samples(found),
        ("threshold", _threshold(whole)),
        ("classes", f"{len(found.names):,}: {list_names(found.names, MOST_NAMES)}"),
    ]
    return [(name, text) for name, text in facts if text]


def _threshold(whole: Mapping[str, Any]) -> str:
    from ..inspection import threshold_text

    if whole["class_thresholds"] is not None:
        known = [value for value in whole["class_thresholds"] if value is not None]
        return f"{threshold_text(known)} on the unknown score: {whole['threshold_from']}"
    from ..reports import score_text

    return f"{score_text(whole['threshold'])} on the unknown score: {whole['threshold_from']}"


def _samples(found: Evaluation) -> list[tuple[str, str]]:
    """How many samples there were of either kind, and which labels were taken as unknown."""
    from .._support.messages import list_names

    met = sum(line.samples > 0 for line in found.lines if line.known)
    of = f" of {met:,} classes" if met != 1 else " of 1 class"
    strange = f": {list_names(found.strangers, MOST_NAMES)}" if found.strangers else ""
    return [
        ("known", f"{found.n_known:,} samples" + (of if met else "")),
        ("unknown", f"{found.n_unknown:,} samples{strange}"),
    ]


# -- the screen --------------------------------------------------------------------------------------------


def _console() -> Console:
    """Standard output, wide enough that no line of a table is folded in a file or a pipe."""
    from .console import out

    console = out()
    if not console.is_terminal:
        console.width = max(console.width, _WIDE)
    return console


def _show(found: Evaluation, notes: list[str], whole: Mapping[str, Any]) -> None:
    from rich.table import Table

    from ..reports import between_text, sentences, value_text
    from .console import err, show_facts

    console, said = _console(), err()
    for note in notes:
        said.print(f"Note: {note}", style="yellow")
    show_facts([*_samples(found), ("method", whole["method"]), ("threshold", _threshold(whole))])
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("meaning", style="dim", overflow="fold")
    for measure in found.measures.values():
        told = measure.remark or measure.kind.meaning
        table.add_row(measure.kind.label, value_text(measure), between_text(measure), told)
    console.print(table)
    console.print()
    _show_classes(found)
    for sentence in sentences(found):
        console.print(sentence)


def _show_classes(found: Evaluation) -> None:
    """Known classes, then unknown labels; of many those with the most mistakes."""
    from rich.table import Table

    console = _console()
    for known in (True, False):
        lines = [line for line in found.lines if line.known is known and line.samples]
        shown = sorted(lines, key=lambda line: line.right - line.samples)[:_LINES] if len(lines) > _LINES else lines
        if not lines:
            continue
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("known class" if known else "unknown label", overflow="fold")
        for heading in ("samples", "right", "refused", "wrong") if known else ("samples", "refused", "accepted"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("most often taken for", overflow="fold")
        for line in shown:
            counts = (
                (line.samples, line.right, line.refused, line.wrong)
                if known
                else (line.samples, line.refused, line.wrong)
            )
            mistaken = f"{line.mistaken_for} ({line.mistaken:,})" if line.mistaken else ""
            table.add_row(line.label, *(f"{n:,}" for n in counts), mistaken)
        console.print(table)
        if len(lines) > len(shown):
            console.print(f"… and {len(lines) - len(shown):,} with fewer mistakes; --json has all", style="dim")
        console.print()


def _show_files(files: Mapping[Path, bytes]) -> None:
    from .console import out

    kinds = {"report.html": "Report", "evaluation.json": "Numbers"}
    for path in files:
        out().print(f"{kinds.get(path.name, 'Figure')}: {path}")

"""``srosr predict``: decide on every row of a file of any length."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from .._support.atomic_files import open_atomically
from .._support.messages import count_of
from .console import err, jobs_option, progress, quiet_option
from .errors import InputError, convert_errors
from .input_data import data_options, open_for_model, read_batches
from .models import load_model
from .output_paths import check_output_path

if TYPE_CHECKING:
    from ..classifiers import OpenSetClassifier
    from ..tables import ReadOptions, RowSource


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file.  [standard output, as CSV]")
@data_options(labels=False, model=True, keep=True)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object per row instead of CSV.")
@jobs_option()
@quiet_option
def predict(
    model: Path, data: str, output: Path | None, options: ReadOptions, as_json: bool, jobs: int | None, quiet: bool
) -> None:
    """Predict the class of every row of DATA, or "unknown".

    DATA has the features of the model's training data, in the same order: a table, arrays, a folder of pictures or one
    picture; "-" reads CSV from standard input. The column of the classes, and columns ignored when the model was
    fitted, may be present and are ignored. Files are read and written in parts and may be larger than memory.

    Columns of the output: row (from 0), label (a class, or "unknown"), unknown_score (the larger, the less like a known
    class), candidate (the best class, even if it is rejected) and verdict (recognized or rejected). The suffix of -o
    chooses the format: .csv, .jsonl or .parquet. A file is written completely or not at all.

    \b
    Examples:
      srosr predict model.srosr new.csv                          print the decisions
      srosr predict model.srosr new.parquet -o decisions.parquet
      srosr predict model.srosr new.csv --keep id -o decisions.csv
      zcat big.csv.gz | srosr predict model.srosr - | grep rejected
      srosr predict model.srosr photos/ --json
    """
    from ..tables import find_format

    kind = "jsonl" if as_json else "csv"
    if output is not None:
        found = find_format(output.suffix)
        if found is None and not as_json:
            raise InputError(f"cannot write decisions to {output}: its name must end in .csv, .jsonl or .parquet.")
        if as_json and found not in (None, "jsonl"):
            raise InputError(f"--json contradicts {output}: leave out --json, or choose a name that ends in .jsonl.")
        kind = found or kind
        check_output_path(output, "decisions", "-o", data, model)
    clf = load_model(model)
    if hasattr(clf, "n_jobs"):
        clf.n_jobs = jobs or -1
    with convert_errors():
        source = open_for_model(clf, data, options)
        with _open_output(output) as stream:
            n, rejected = _write_decisions(clf, source, stream, kind, shown=not quiet)
    if output is not None and not quiet:
        left_out = f"; {count_of(source.dropped, 'row')} left out" if source.dropped else ""
        err().print(
            f"{count_of(n, 'row')}: {n - rejected:,} recognized, {rejected:,} rejected{left_out}. Decisions: {output}"
        )


@contextmanager
def _open_output(output: Path | None) -> Iterator[BinaryIO]:
    if output is None:
        if sys.stdout is None:
            raise InputError("standard output is closed: give a file for the decisions with -o.")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with open_atomically(output) as file:
            yield file


def _write_decisions(
    clf: OpenSetClassifier, source: RowSource, stream: BinaryIO, kind: str, shown: bool
) -> tuple[int, int]:
    """Write decisions batch by batch; return the numbers of rows and of rejected rows."""
    from ..tables import DecisionWriter

    writer = None
    n = rejected = 0
    # On a terminal the decisions themselves show the progress.
    with progress("Predicting", shown=shown and not (sys.stdout is not None and stream is sys.stdout.buffer)) as update:
        for rows, X in read_batches(clf, source):
            decisions = clf.decide(X)
            if writer is None:
                writer = DecisionWriter(stream, kind, list(rows.kept))
            writer.write(rows.numbers, decisions, rows.kept)
            n, rejected = n + len(decisions), rejected + int(decisions.rejected.sum())
            update(n, source.fraction)
        if writer is not None:
            writer.close()
    return n, rejected

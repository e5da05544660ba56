"""``srosr predict``: a decision for every row of a file of any length."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from .bad_input import BadInput
from .console import quiet_option
from .input_data import DataOptions, data_options

if TYPE_CHECKING:
    from ..classifiers import OpenSetClassifier
    from ..tables import RowSource

__all__ = ["predict"]


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where decisions go.  [standard output, as CSV]")
@data_options(labels=False, model=True, keep=True)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object a row instead of CSV.")
@click.option("--jobs", type=click.IntRange(1), help="Threads.  [one a core]")
@quiet_option
def predict(
    model: Path, data: str, output: Path | None, options: DataOptions, as_json: bool, jobs: int | None, quiet: bool
) -> None:
    """Say for every row of DATA which known class it is, or that it is none.

    DATA has the features of the model's training data, in the same order: a table, arrays, a folder of pictures or one
    picture; "-" reads CSV from standard input. A column that held the classes, and columns left out when the model was
    fitted, may be there and are passed over. Files are read and written in parts: they may be larger than memory.

    Columns of the output: row (from 0), label (a class, or "unknown"), unknown_score (larger is stranger), candidate
    (the best class, also where it is refused) and verdict (recognised or refused). The ending of -o chooses the format:
    .csv, .jsonl or .parquet. A file is written whole or not at all.

    \b
    Examples:
      srosr predict model.srosr new.csv                          decisions on the screen
      srosr predict model.srosr new.parquet -o decisions.parquet
      srosr predict model.srosr new.csv --keep id -o decisions.csv
      zcat big.csv.gz | srosr predict model.srosr - | grep refused
      srosr predict model.srosr photos/ --json
    """
    from ..tables import format_of
    from .bad_input import refusing
    from .input_data import load_model, open_for
    from .output_files import check_output_path

    kind = "jsonl" if as_json else "csv"
    if output is not None:
        found = format_of(output.suffix)
        if found is None and not as_json:
            raise BadInput(f"cannot write decisions to {output}: its name must end in .csv, .jsonl or .parquet.")
        if as_json and found not in (None, "jsonl"):
            raise BadInput(f"--json and {output} do not agree: leave --json out, or let the name end in .jsonl.")
        kind = found or kind
        check_output_path(output, "decisions", "-o", data, model)
    clf = load_model(model)
    if hasattr(clf, "n_jobs"):
        clf.n_jobs = jobs or -1
    with refusing():
        source = open_for(clf, data, options)
        with _opened(output) as stream:
            n, refused = _decide(clf, source, stream, kind, shown=not quiet)
    if output is not None and not quiet:
        from .._support.messages import count_of
        from .console import err

        left_out = f"; {count_of(source.dropped, 'row')} left out" if source.dropped else ""
        err().print(
            f"{count_of(n, 'row')}: {n - refused:,} recognised, {refused:,} refused{left_out}. Decisions: {output}"
        )


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    from .._support.atomic_files import open_atomically

    if output is None:
        if sys.stdout is None:
            raise BadInput("standard output is closed: say with -o where decisions go.")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with open_atomically(output) as file:
            yield file


def _decide(clf: OpenSetClassifier, source: RowSource, stream: BinaryIO, kind: str, shown: bool) -> tuple[int, int]:
    """Decide batch by batch; how many rows there were, and how many were refused."""
    from ..tables import DecisionWriter
    from .console import progress
    from .input_data import batch_size, scaled_batches

    writer = None
    n = refused = 0
    # On a terminal the decisions themselves show that there is progress.
    with progress("Deciding", shown=shown and not (sys.stdout is not None and stream is sys.stdout.buffer)) as update:
        for rows, X in scaled_batches(clf, source, batch_size(clf)):
            decisions = clf.decide(X)
            if writer is None:
                writer = DecisionWriter(stream, kind, list(rows.kept))
            writer.write(rows.numbers, decisions, rows.kept)
            n, refused = n + len(decisions), refused + int(decisions.rejected.sum())
            update(n, source.fraction)
        if writer is not None:
            writer.close()
    return n, refused

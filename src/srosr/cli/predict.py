"""``srosr predict``: decide on every row of a file of any length, or of many files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from .._support.atomic_files import open_atomically
from .._support.messages import count_of
from ..operations.device_choice import set_device, set_threads
from ..operations.input_errors import InputError, convert_errors, name_errors
from ..operations.model_input import name_features, open_for_model
from ..operations.sample_decisions import describe_fdr
from .console import device_option, err, jobs_option, progress, quiet_option, show_warnings
from .decision_output import write_decisions
from .input_data import data_options
from .models import load_model
from .output_paths import check_output_path

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier
    from ..tables.read_options import ReadOptions

SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Output file, or folder for a table in parts.  [standard output, as CSV]",
)
@data_options(labels=False, model=True, keep=True)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object per row instead of CSV.")
@jobs_option()
@device_option()
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Decide on the parts of a table on a Dask cluster: tcp://HOST:PORT of its scheduler, or local:N for N workers "
    "on this machine. Workers read the parts and the model and write the decisions themselves, so they must see the "
    "same files under the same paths.",
)
@click.option(
    "--coverage",
    type=SHARE,
    metavar="SHARE",
    help="Add a column with all classes that cannot be excluded; this share of known samples has its class there.",
)
@click.option(
    "--fdr", type=SHARE, metavar="SHARE",
    help="Decide on all rows together: at most this share of the rejected rows is known, on average. Adds p-values.",
)  # fmt: skip
@click.option(
    "--overwrite", is_flag=True, help="Replace files in the folder that are not the decisions of this command."
)
@quiet_option
def predict(
    model: Path,
    data: str,
    output: Path | None,
    options: ReadOptions,
    as_json: bool,
    jobs: int | None,
    device: str,
    cluster: str | None,
    coverage: float | None,
    fdr: float | None,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Predict the class of every row of DATA, or "unknown".

    DATA has the features of the model's training data, in the same order: a table, arrays, a folder of pictures or one
    picture; "-" reads CSV from standard input. The column of the classes, and columns ignored when the model was
    fitted, may be present and are ignored. Files are read and written in parts and may be larger than memory.

    Columns of the output: row (from 0), label (a class, or "unknown"), unknown_score (the larger, the less like a known
    class), candidate (the best class, even if it is rejected) and verdict (recognized or rejected); imputed (the share
    of missing values, which were filled in) if the model was fitted with --impute; with --coverage prediction_set, the
    classes that cannot be excluded, with a bar (|) between them (made class by class and not by the threshold, so that
    the label may be missing in it); with --fdr p_value. The suffix of -o chooses the format: .csv, .jsonl or .parquet.
    A file is written completely or not at all.

    A table may be in parts: DATA is then a folder of .parquet, .csv or .tsv files (also with .gz), or a pattern in
    quotes, and -o a folder that gets a Parquet file for each part. If the command is interrupted, the same command
    continues with the parts that are missing. A part that cannot be used is reported, the others are done, and the exit
    status is 1.

    \b
    Examples:
      srosr predict model.srosr new.csv                          print the decisions
      srosr predict model.srosr new.parquet -o decisions.parquet
      srosr predict model.srosr new.csv --keep id -o decisions.csv
      zcat big.csv.gz | srosr predict model.srosr - | grep rejected
      srosr predict model.srosr photos/ --json
      srosr predict model.srosr new.csv --coverage 0.95          all classes that cannot be excluded
      srosr predict model.srosr new.csv --fdr 0.1                of the rejected rows at most a tenth is known
      srosr predict model.srosr big.parquet -o decisions.parquet --device cuda
      srosr predict model.srosr days/ -o decisions/              a folder of tables
      srosr predict model.srosr 'days/2026-*.csv.gz' -o decisions/ --cluster tcp://10.0.0.5:8786
    """
    from ..tables.decision_files import find_format

    parts = _find_parts(data, model)
    if parts:
        if as_json:
            raise InputError("--json is for one file: the decisions on a table in parts are Parquet files.")
        if fdr is not None or coverage is not None:
            option = "--coverage" if fdr is None else "--fdr"
            raise InputError(f"{option} is for one file, and {data} is a table in parts.")
        if cluster is not None and jobs is not None:
            raise InputError("--jobs and --cluster exclude each other: a cluster runs as many jobs as it has workers.")
        if cluster is not None and device != "cpu":
            raise InputError("--device and --cluster exclude each other: workers of a cluster code on the CPU.")
        from .predict_parts import predict_parts

        predict_parts(
            model, data, parts, output, options, jobs=jobs, device=device, cluster=cluster, overwrite=overwrite,
            quiet=quiet,
        )  # fmt: skip
        return
    if cluster is not None or overwrite:
        option = "--overwrite" if cluster is None else "--cluster"
        raise InputError(f"{option} is for a table in parts, a folder or a pattern, and {data} is not.")
    if data != "-" and not os.path.exists(data):
        raise InputError(f"{data} does not exist: check the name of the file or folder.")
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
    set_threads(clf, jobs)
    set_device(clf, device)
    if coverage is not None:
        _check_coverage(clf, model, coverage, quiet)
    if fdr is not None and not quiet:
        err().print(describe_fdr(clf, fdr))
    with convert_errors(), nullcontext() if fdr is None else show_warnings(not quiet):
        source = open_for_model(clf, data, options)
        # On a terminal the decisions themselves show the progress.
        with _open_output(output) as stream, progress("Predicting", shown=output is not None and not quiet) as update:
            n, rejected = write_decisions(clf, source, stream, kind, update, fdr=fdr, coverage=coverage)
    if output is not None and not quiet:
        left_out = f"; {count_of(source.dropped, 'row')} left out" if source.dropped else ""
        err().print(
            f"{count_of(n, 'row')}: {n - rejected:,} recognized, {rejected:,} rejected{left_out}. Decisions: {output}"
        )


def _check_coverage(clf: OpenSetClassifier, model: Path, coverage: float, quiet: bool) -> None:
    """Raise if a model has no prediction sets; say on standard error what they promise."""
    import numpy as np

    from ..classifiers.srosr_classifier import SROSRClassifier
    from ..rivals.methods import method_name

    if not isinstance(clf, SROSRClassifier):
        raise InputError(f"--coverage: {method_name(clf)} has no prediction sets; use calibrated, paper or matched.")
    if any("|" in str(label) for label in clf.classes_.tolist()):
        raise InputError(
            f"--coverage: a class of {model} has a bar in its name, which stands between the classes of a set."
        )
    with name_errors("--coverage"):
        nothing = name_features(clf, np.zeros((1, clf.n_features_in_)))
        sets = clf.prediction_set(nothing, coverage)
    if not quiet:
        err().print(f"Prediction sets: coverage {coverage:g} {sets.guarantee}.")


def _find_parts(data: str, model: Path) -> list[str]:
    """Return the parts of a table in a folder or behind a pattern; none if DATA is one file, or pictures."""
    from ..tables.formats import find_parts, is_pattern
    from ..tables.picture_rows import holds_pictures

    with convert_errors():
        if data == "-" or not (os.path.isdir(data) or is_pattern(data)):
            return []
        parts = find_parts(data)
        if is_pattern(data) or bool(parts) != holds_pictures(data):
            return parts
    # A folder with both tables and pictures, or neither: the model says which of them are meant.
    recipe = load_model(model).feature_recipe_
    if recipe is not None and recipe.of_pictures:
        return []
    if not parts:
        raise InputError(
            f"{data} has no tables: give a folder with .parquet, .csv or .tsv files, or a pattern in quotes."
        )
    return parts


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

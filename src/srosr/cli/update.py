"""``srosr update``: more samples of the classes of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..operations import changes
from ..operations.device_choice import set_device
from ..operations.input_errors import convert_errors
from ..operations.more_samples import find_group_column, read_more_rows
from .console import device_option, json_option, show_warnings
from .input_data import data_options
from .models import load_srosr_classifier, output_option, save_changed_model
from .output_paths import check_model_path

if TYPE_CHECKING:
    from ..tables.read_options import ReadOptions


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option(
    "--keep", type=click.IntRange(1), metavar="N",
    help="Keep the newest N samples of each class in DATA; older ones are forgotten.  [all]",
)  # fmt: skip
@click.option("--group", metavar="COLUMN", help="The column of the groups.  [the one that the model was fitted with]")
@data_options(model=True)
@output_option
@device_option()
@json_option
def update(
    model: Path, data: str, keep: int | None, group: str | None, options: ReadOptions, output: Path | None,
    device: str, as_json: bool,
) -> None:  # fmt: skip
    """Teach a model more samples of its classes without fitting it again.

    DATA is like the training data, with a class for every sample. The samples join the dictionary and, each scored
    while it is held out, the calibration; the threshold is chosen anew. A class that the model does not know is an
    error: srosr add-class adds it.

    \b
    Examples:
      srosr update model.srosr more.csv
      srosr update model.srosr today.csv --keep 500          forget the oldest samples of these classes
      srosr update model.srosr more.parquet -o larger.srosr
    """
    if output is not None:
        check_model_path(output, data)
    clf = load_srosr_classifier(model, "update")
    set_device(clf, device)
    with convert_errors():
        rows = read_more_rows(clf, data, options, "required", find_group_column(clf, group))
    with show_warnings():
        changes.update(clf, data, rows, keep=keep)
    save_changed_model(clf, model, output, as_json)

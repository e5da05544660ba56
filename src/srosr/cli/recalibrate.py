"""``srosr recalibrate``: set the threshold of a model by fresh samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..operations.device_choice import set_device
from ..operations.input_errors import convert_errors, name_errors
from ..operations.model_facts import compare_rejections
from ..operations.more_samples import read_fresh_rows
from .console import device_option, json_option, out, show_warnings
from .input_data import data_options
from .models import load_srosr_classifier, output_option, save_changed_model
from .output_paths import check_model_path

if TYPE_CHECKING:
    from ..tables.read_options import ReadOptions


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option(
    "--group", metavar="COLUMN",
    help="The column of the groups of DATA.  [the one that the model was fitted with, if DATA has it]",
)  # fmt: skip
@data_options(model=True)
@output_option
@device_option()
@json_option
def recalibrate(
    model: Path, data: str, group: str | None, options: ReadOptions, output: Path | None, device: str, as_json: bool,
) -> None:  # fmt: skip
    """Set the threshold of a model anew by fresh samples of known classes, after a change of domain.

    DATA has known samples as they come now, from another camera for example; about a hundred are enough for the usual
    target. The dictionary stays. The unknown score becomes the share of these samples that score lower, and the target
    is guaranteed for samples like them. Classes in DATA are used where it has them: prediction sets need them.

    \b
    Examples:
      srosr recalibrate model.srosr fresh.csv
      srosr recalibrate model.srosr fresh.csv -o new-camera.srosr
    """
    from ..inspection.model_summary import summarize_model

    if output is not None:
        check_model_path(output, data)
    clf = load_srosr_classifier(model, "recalibrate")
    set_device(clf, device)
    with convert_errors():
        rows = read_fresh_rows(clf, data, options, group)
    before = summarize_model(clf).held_out.simulated_unknowns_rejected
    with show_warnings(), name_errors(data):
        clf.recalibrate(rows.X, rows.labels, groups=rows.groups)
    note = compare_rejections(before, summarize_model(clf).held_out.simulated_unknowns_rejected, len(rows.X))
    if note is not None and not as_json:
        out().print(f"Note: {note}", style="yellow")
    save_changed_model(clf, model, output, as_json)

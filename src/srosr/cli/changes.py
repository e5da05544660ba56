"""Small changes of a model: ``srosr set-threshold``, ``update``, ``recalibrate`` and ``remove-class``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..operations import changes
from ..operations.device_choice import set_device
from ..operations.input_errors import convert_errors
from ..operations.more_samples import find_group_column, read_fresh_rows, read_more_rows
from .console import device_option, json_option, out, show_warnings
from .input_data import data_options
from .models import load_model, load_srosr_classifier, output_option, save_changed_model
from .output_paths import check_model_path

if TYPE_CHECKING:
    from ..tables.read_options import ReadOptions


@click.command("set-threshold")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--target-rejection",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Reject about this share of known samples.",
)
@click.option("--threshold", metavar="VALUE", help="A value of the unknown score, or risk, f, youden or original.")
@click.option("--per-class", is_flag=True, help="With --target-rejection: a threshold for each class.")
@click.option(
    "--risk-weight", type=float, metavar="W", help="With --threshold risk: the weight of errors on known samples."
)
@output_option
@json_option
def set_threshold(
    model: Path,
    target_rejection: float | None,
    threshold: str | None,
    per_class: bool,
    risk_weight: float | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Change the threshold of a model without fitting it again. No unknown sample is needed.

    --target-rejection says how many known samples may be rejected. "f" and "youden" optimize these measures on
    simulated unknowns, known classes that were left out in turn; "risk" weighs accepted unknowns against errors on
    known samples; "original" is the threshold that the method was published with.

    \b
    Examples:
      srosr set-threshold model.srosr --target-rejection 0.01
      srosr set-threshold model.srosr --threshold f -o strict.srosr
      srosr set-threshold model.srosr --threshold 0.98
      srosr set-threshold model.srosr --threshold risk --risk-weight 5
    """
    if output is not None:
        check_model_path(output)
    clf = load_model(model)
    with show_warnings():
        changes.set_threshold(
            clf, model, threshold=threshold, target_rejection=target_rejection, per_class=per_class,
            risk_weight=risk_weight,
        )  # fmt: skip
    save_changed_model(clf, model, output, as_json)


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
    if output is not None:
        check_model_path(output, data)
    clf = load_srosr_classifier(model, "recalibrate")
    set_device(clf, device)
    with convert_errors():
        rows = read_fresh_rows(clf, data, options, group)
    with show_warnings():
        note = changes.recalibrate(clf, data, rows)
    if note is not None and not as_json:
        out().print(f"Note: {note}", style="yellow")
    save_changed_model(clf, model, output, as_json)


@click.command("remove-class")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("label")
@click.option("--recalibrate", is_flag=True, help="Code held-out samples again, as fitting without the class would.")
@output_option
@json_option
def remove_class(model: Path, label: str, recalibrate: bool, output: Path | None, as_json: bool) -> None:
    """Remove a class from a model without fitting it again. At least two classes must remain.

    \b
    Examples:
      srosr remove-class model.srosr setosa
      srosr remove-class model.srosr setosa -o without.srosr
    """
    if output is not None:
        check_model_path(output)
    clf = load_srosr_classifier(model, "remove-class")
    with show_warnings():
        changes.remove_class(clf, model, label, recalibrate=recalibrate)
    save_changed_model(clf, model, output, as_json)

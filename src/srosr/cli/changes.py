"""Small changes of a model: ``srosr set-threshold``, ``update``, ``recalibrate`` and ``remove-class``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..operations.change_checks import check_threshold, find_class
from ..operations.device_choice import set_device
from ..operations.input_errors import InputError, convert_errors, name_errors
from ..operations.model_facts import compare_rejections
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
    if (threshold is None) == (target_rejection is None):
        raise InputError("give either --target-rejection SHARE or --threshold VALUE.")
    if output is not None:
        check_model_path(output)
    value: float | str | None = threshold
    if threshold is not None:
        with suppress(ValueError):
            value = float(threshold)
    clf = load_model(model)
    if threshold is not None:
        check_threshold(value, clf, model)
    with show_warnings(), name_errors(model):
        clf.set_threshold(
            value, target_rejection=target_rejection, per_class=per_class or None, risk_weight=risk_weight
        )
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
    recipe = clf.feature_recipe_
    with show_warnings(), name_errors(data):
        clf.update(rows.X, rows.labels, groups=rows.groups, keep=keep)
    if recipe is not None and rows.pictures is not None:
        clf.feature_recipe_ = recipe.add_pictures(*rows.pictures)
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
    found = find_class(clf, label, model)
    with show_warnings(), name_errors(model):
        clf.remove_class(found, recalibrate="all" if recalibrate else "none")
    save_changed_model(clf, model, output, as_json)

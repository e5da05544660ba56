"""``srosr remove-class``: remove a class from a model."""

from __future__ import annotations

from pathlib import Path

import click

from ..operations import changes
from .console import json_option, show_warnings
from .models import load_srosr_classifier, output_option, save_changed_model
from .output_paths import check_model_path


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

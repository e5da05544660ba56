"""``srosr remove-class``: a model that forgets a class."""

from __future__ import annotations

from pathlib import Path

import click

from .bad_input import BadInput
from .changed_model import output_option
from .console import json_option

__all__ = ["remove_class"]


@click.command("remove-class")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("label")
@click.option("--recalibrate", is_flag=True, help="Code held-out samples again, as a fit without the class would.")
@output_option
@json_option
def remove_class(model: Path, label: str, recalibrate: bool, output: Path | None, as_json: bool) -> None:
    """Take a class out of a model, without fitting again. Two classes must be left.

    \b
    Examples:
      srosr remove-class model.srosr setosa
      srosr remove-class model.srosr setosa -o without.srosr
    """
    from .._support.messages import did_you_mean, join_names
    from .._support.unknown_label import format_label
    from .changed_model import recogniser, save_changed
    from .console import warnings_shown
    from .output_files import check_model_path

    if output is not None:
        check_model_path(output)
    clf = recogniser(model, "remove-class")
    classes = {format_label(name): name for name in clf.classes_.tolist()}
    if label not in classes:
        guess = did_you_mean(label, classes)
        raise BadInput(f"{model} has no class {label}{guess}; it knows {join_names(classes, 20)}.")
    with warnings_shown():
        try:
            clf.remove_class(classes[label], recalibrate="all" if recalibrate else "none")  # type: ignore[attr-defined]
        except ValueError as error:
            raise BadInput(f"{model}: {error}") from None
    save_changed(clf, model, output, as_json)

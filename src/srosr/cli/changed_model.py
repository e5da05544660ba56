"""What the commands that change a model have in common: where the changed model goes, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..classifiers import OpenSetClassifier

__all__ = ["output_option", "recogniser", "save_changed"]

output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Where the changed model goes.  [the model file itself]"
)


def recogniser(model: Path, what: str) -> OpenSetClassifier:
    """The model of a file, when its classes can come and go."""
    from ..classifiers import SROSRClassifier
    from ..rivals import method_name
    from .bad_input import BadInput
    from .input_data import load_model

    clf = load_model(model)
    if not isinstance(clf, SROSRClassifier):
        raise BadInput(
            f"{model} holds {method_name(clf)}, and {what} is for calibrated, paper and matched: fit it again with the "
            "classes you want."
        )
    return clf


def save_changed(clf: OpenSetClassifier, model: Path, output: Path | None, as_json: bool) -> None:
    """Write a changed model and show it."""
    from ..inspection import summary_of
    from .bad_input import refusing
    from .console import out, print_json, show_facts
    from .info import classes_fact, held_out_facts

    target = model if output is None else output
    with refusing():
        clf.save(target)
    summary = summary_of(clf)
    if as_json:
        print_json({"model": str(target), **summary.to_dict()})
        return
    show_facts([classes_fact(summary), *held_out_facts(summary)])
    out().print(f"Model: {target}")

"""Load a model file; save a model that a command changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .errors import InputError

if TYPE_CHECKING:
    from ..classifiers import OpenSetClassifier, SROSRClassifier

__all__ = ["load_model", "load_srosr_classifier", "output_option", "save_changed_model"]

output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Where to write the changed model.  [the model file itself]"
)


def load_model(path: Path) -> OpenSetClassifier:
    """Load the model in a file."""
    from ..model_files import load
    from .errors import convert_errors

    with convert_errors():
        if not path.exists():
            raise InputError(f"{path} does not exist: give a model that srosr fit wrote.")
        if path.is_dir():
            raise InputError(f"{path} is a folder: give a model that srosr fit wrote.")
        return load(path)


def load_srosr_classifier(path: Path, command: str) -> SROSRClassifier:
    """Load the model in a file, which must be one whose classes can be added and removed."""
    from ..classifiers import SROSRClassifier
    from ..rivals import method_name

    clf = load_model(path)
    if not isinstance(clf, SROSRClassifier):
        raise InputError(
            f"{path} holds {method_name(clf)}, but {command} works only with calibrated, paper and matched: fit it "
            "again with the classes you want."
        )
    return clf


def save_changed_model(clf: OpenSetClassifier, model: Path, output: Path | None, as_json: bool) -> None:
    """Save a changed model, over the old one without ``output``, and print its facts."""
    from ..inspection import summary_of
    from .console import out, print_facts, print_json
    from .errors import convert_errors
    from .info import classes_fact, held_out_facts

    target = model if output is None else output
    with convert_errors():
        clf.save(target)
    summary = summary_of(clf)
    if as_json:
        print_json({"model": str(target), **summary.to_dict()})
        return
    print_facts([classes_fact(summary), *held_out_facts(summary)])
    out().print(f"Model: {target}")

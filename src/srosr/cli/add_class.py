"""``srosr add-class``: a model that learns one more class."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .bad_input import BadInput
from .changed_model import output_option
from .console import json_option
from .input_data import DataOptions, data_options

if TYPE_CHECKING:
    from ..classifiers import OpenSetClassifier

__all__ = ["add_class"]


@click.command("add-class")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option("--name", required=True, metavar="LABEL", help="The new class.")
@click.option("--recalibrate", is_flag=True, help="Code all held-out samples again, as a fit with the class would.")
@data_options(model=True)
@output_option
@json_option
def add_class(
    model: Path, data: str, name: str, recalibrate: bool, options: DataOptions, output: Path | None, as_json: bool
) -> None:
    """Teach a model one more class, without fitting again.

    DATA has samples of the new class, with the features of the model's training data: a table, arrays, or a folder of
    pictures. Where it says of which class each sample is (a column of classes, or sub-folders), those of LABEL are
    taken; otherwise all are.

    \b
    Examples:
      srosr add-class model.srosr tulips.csv --name tulip
      srosr add-class model.srosr flowers.csv --label species --name tulip -o larger.srosr
      srosr add-class model.srosr photos/tulips --name tulip
    """
    from .bad_input import refusing
    from .changed_model import recogniser, save_changed
    from .console import warnings_shown
    from .output_files import check_model_path

    if output is not None:
        check_model_path(output, data)
    clf = recogniser(model, "add-class")
    with refusing():
        X, files = _samples(clf, data, name, options)
    label = _like_the_classes(name, clf, model)
    intake = clf.feature_recipe_
    with warnings_shown():
        try:
            clf.add_class(X, label, recalibrate="all" if recalibrate else "new")  # type: ignore[attr-defined]
        except ValueError as error:
            raise BadInput(f"{data}: {error}") from None
    if intake is not None and files is not None:
        clf.feature_recipe_ = intake.with_pictures(*files)
    save_changed(clf, model, output, as_json)


def _like_the_classes(name: str, clf: OpenSetClassifier, model: Path) -> Any:
    """The new label in the type of the others."""
    from .._support.unknown_label import is_text

    kind = clf.classes_.dtype.kind
    if is_text(clf.classes_):
        return name
    whole = re.fullmatch(r"-?[0-9]{1,18}", name, re.ASCII) is not None
    if kind in "iu" and not whole:
        raise BadInput(f"--name {name}: the classes of {model} are whole numbers, so the new one must be one.")
    if kind == "b":
        raise BadInput(f"--name {name}: the classes of {model} are true and false, and there is no third.")
    try:
        return int(name) if whole and kind != "f" else float(name)
    except ValueError:
        raise BadInput(f"--name {name}: the classes of {model} are numbers, so the new one must be one.") from None


def _samples(clf: OpenSetClassifier, data: str, name: str, options: DataOptions) -> tuple[Any, Any]:
    """The samples of the new class, and names and small copies of pictures."""
    import numpy as np

    from .input_data import as_in_training, is_picture_data, open_for

    chosen = options.label is not None or options.labels_file is not None
    source = open_for(clf, data, options, "required" if chosen else "optional")
    rows = source.read()
    own = np.arange(len(rows.X))
    if rows.labels is not None:
        own = np.flatnonzero(rows.labels == name)
        if not len(own):
            some = ", ".join(dict.fromkeys(rows.labels[:1000].tolist()).keys())[:100]
            where = "give the folder of its own" if is_picture_data(data) else f"--ignore {source.label} takes all rows"
            raise BadInput(f"{data} has no sample of the class {name} (it has {some}); {where}.")
    X = as_in_training(clf, rows.X[own])
    if not is_picture_data(data):
        return X, None
    from ..tables import PictureSource, read_all, thumbnail_of

    assert isinstance(source, PictureSource)
    _, small, _ = read_all([source.paths[i] for i in rows.numbers[own]], thumbnail_of, skip_broken=False)
    return X, ([f"{name}/{source.names[i]}" for i in rows.numbers[own]], np.stack(small))

"""``srosr add-class``: add a class to a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._support.messages import join_names
from .console import device_option, json_option, show_warnings
from .decision_output import set_device
from .errors import InputError, convert_errors, name_errors
from .input_data import data_options, is_picture_data, open_for_model, prepare_features
from .models import load_srosr_classifier, output_option, save_changed_model
from .output_paths import check_model_path

if TYPE_CHECKING:
    from ..classifiers import OpenSetClassifier
    from ..tables import ReadOptions


@click.command("add-class")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option("--name", required=True, metavar="LABEL", help="Label of the new class.")
@click.option("--recalibrate", is_flag=True, help="Code all held-out samples again, as fitting with the class would.")
@data_options(model=True)
@output_option
@device_option()
@json_option
def add_class(
    model: Path, data: str, name: str, recalibrate: bool, options: ReadOptions, output: Path | None, device: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Add a class to a model without fitting it again.

    DATA has samples of the new class, with the features of the model's training data: a table, arrays, or a folder of
    pictures. If it has classes (in a column, or as subfolders), only the samples of LABEL are used; otherwise all are.

    \b
    Examples:
      srosr add-class model.srosr tulips.csv --name tulip
      srosr add-class model.srosr flowers.csv --label species --name tulip -o larger.srosr
      srosr add-class model.srosr photos/tulips --name tulip
    """
    if output is not None:
        check_model_path(output, data)
    clf = load_srosr_classifier(model, "add-class")
    set_device(clf, device)
    with convert_errors():
        X, files = _read_samples(clf, data, name, options)
    label = _convert_label(name, clf, model)
    recipe = clf.feature_recipe_
    with show_warnings(), name_errors(data):
        clf.add_class(X, label, recalibrate="all" if recalibrate else "new")
    if recipe is not None and files is not None:
        clf.feature_recipe_ = recipe.add_pictures(*files)
    save_changed_model(clf, model, output, as_json)


def _convert_label(name: str, clf: OpenSetClassifier, model: Path) -> Any:
    """Return the new label in the type of the others."""
    from .._support.unknown_label import is_text

    kind = clf.classes_.dtype.kind
    if is_text(clf.classes_):
        return name
    whole = re.fullmatch(r"-?[0-9]{1,18}", name, re.ASCII) is not None
    if kind in "iu" and not whole:
        raise InputError(f"--name {name}: the classes of {model} are whole numbers, so the new one must be one.")
    if kind == "b":
        raise InputError(f"--name {name}: the classes of {model} are true and false; there is no third.")
    try:
        return int(name) if whole and kind != "f" else float(name)
    except ValueError:
        raise InputError(f"--name {name}: the classes of {model} are numbers, so the new one must be one.") from None


def _read_samples(clf: OpenSetClassifier, data: str, name: str, options: ReadOptions) -> tuple[Any, Any]:
    """Return the samples of the new class, and names and thumbnails of pictures."""
    import numpy as np

    chosen = options.label is not None or options.labels_file is not None
    source = open_for_model(clf, data, options, "required" if chosen else "optional")
    rows = source.read()
    own = np.arange(len(rows.X))
    if rows.labels is not None:
        own = np.flatnonzero(rows.labels == name)
        if not len(own):
            some = join_names(dict.fromkeys(rows.labels.tolist()), 6)
            hint = "give the folder of the class" if is_picture_data(data) else f"--ignore {source.label} uses all rows"
            raise InputError(f"{data} has no sample of the class {name} (it has {some}); {hint}.")
    X = prepare_features(clf, rows.X[own])
    if not is_picture_data(data):
        return X, None
    from ..tables import PictureSource, make_thumbnail, read_pictures

    assert isinstance(source, PictureSource)
    _, small, _ = read_pictures([source.paths[i] for i in rows.numbers[own]], make_thumbnail, skip_broken=False)
    return X, ([f"{name}/{source.names[i]}" for i in rows.numbers[own]], np.stack(small))

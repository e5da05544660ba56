"""``srosr explain``: explain why a row is recognized or rejected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._support.atomic_files import write_atomically
from .._support.messages import did_you_mean
from ..operations.device_choice import set_device
from ..operations.explanations import gather_pictures, number_as_in_file, render_explanation
from ..operations.input_errors import InputError, convert_errors
from ..operations.model_facts import describe_missing
from ..operations.model_input import get_imputer, is_picture_data, open_for_model, read_batches
from ..operations.sample_decisions import make_row_error, make_sample_error
from .console import device_option, json_option, print_facts, print_json
from .console import out as stdout
from .input_data import data_options
from .models import load_model
from .output_paths import check_figure_path, make_write_error

if TYPE_CHECKING:
    from ..classifiers.base import OpenSetClassifier
    from ..inspection.explanation import Explanation
    from ..tables.read_options import ReadOptions
    from ..tables.row_source import RowSource

#: Largest number of training pictures that are named.
_MOST_PICTURES = 6


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option("--row", type=click.IntRange(0), help="The row to explain, from 0, as in the output of predict.  [0]")
@click.option(
    "--file", "name", metavar="NAME", help="The picture to explain, by its name in the folder, instead of --row."
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("srosr-explanation.png"), show_default=True,
    help="Where to write the figure; the suffix (.png, .pdf or .svg) chooses the format.",
)  # fmt: skip
@click.option("--no-figure", is_flag=True, help="Print the explanation only.")
@data_options(labels=False, model=True)
@device_option()
@json_option
def explain(
    model: Path,
    data: str,
    row: int | None,
    name: str | None,
    out: Path,
    no_figure: bool,
    options: ReadOptions,
    device: str,
    as_json: bool,
) -> None:
    """Explain, in words and in a figure, why a row is recognized or rejected.

    For methods with sparse codes: which class comes closest and how large its error is, from which training samples the
    sample is reconstructed, what indicates an unknown class, and what would change the decision. For pictures the
    figure shows the picture next to those training pictures. Other methods have no such parts: the explanation gives
    the scores of the classes, and where the unknown score lies among those of held-out samples.

    \b
    Examples:
      srosr explain model.srosr new.csv --row 17
      srosr explain model.srosr photos/ --file unknown.jpg --out why.pdf
      srosr explain model.srosr photo.jpg
      srosr explain model.srosr new.csv --row 17 --json --no-figure
    """
    if row is not None and name is not None:
        raise InputError("--row and --file exclude each other: give one of them.")
    if not no_figure:
        check_figure_path(out, "--out", data, model)
    clf = load_model(model)
    set_device(clf, device)
    with convert_errors():
        # A value missing in another row must not prevent the explanation of this one.
        if not is_picture_data(data):
            options = replace(options, drop_missing=True, impute=True)
        source = open_for_model(clf, data, options)
        number, X, missing = _find_row(clf, source, row, name)
    from ..classifiers.srosr_classifier import SROSRClassifier

    explanation: Any
    try:
        if isinstance(clf, SROSRClassifier):
            explanation = number_as_in_file(clf.explain(X), clf)
        else:
            from ..inspection.rival_explanation import explain_rival

            explanation = explain_rival(clf, X)
    except ValueError as error:
        raise make_sample_error(source.name, number, error) from None
    pictures = _find_pictures(clf, source, number, explanation)
    if not no_figure:
        content = render_explanation(explanation, pictures, out.suffix.lower().removeprefix("."))
        try:
            write_atomically(out, content)
        except OSError as error:
            raise make_write_error("the figure", out, error.strerror or str(error), "--out") from None
    names = getattr(source, "names", None)
    if as_json:
        where = {"row": number} | ({} if names is None else {"file": names[number]})
        imputed = {} if get_imputer(clf) is None else {"imputed": missing}
        print_json(where | explanation.to_dict() | imputed | {"figure": None if no_figure else str(out)})
        return
    console = stdout()
    title = f"Row {number} of {data}" if names is None else data if len(names) == 1 else f"{names[number]} in {data}"
    console.print(title, style="bold")
    for line in explanation.text.split("\n"):
        console.print(line)
    if missing:
        console.print(describe_missing(clf, missing))
    if clf.feature_recipe_ is not None and clf.feature_recipe_.names is not None and isinstance(clf, SROSRClassifier):
        _print_picture_names(clf.feature_recipe_.names, explanation)
    if not no_figure:
        console.print(f"Figure: {out}")


def _find_row(
    clf: OpenSetClassifier, source: RowSource, row: int | None, name: str | None
) -> tuple[int, Any, list[str]]:
    """Return the number of the row asked for, its features as the classifier takes them, and which were missing."""
    import numpy as np

    from ..tables.picture_rows import PictureSource

    if name is not None:
        if not isinstance(source, PictureSource):
            raise InputError(f"--file is for pictures, and {source.name} is a table: give --row.")
        if name not in source.names:
            raise InputError(f"{source.name} has no picture {name}{did_you_mean(name, source.names)}.")
        row = source.names.index(name)
    wanted = 0 if row is None else row
    if source.n_rows is not None and wanted >= source.n_rows:
        raise InputError(
            f"{source.name} has {source.n_rows} rows, from 0 to {source.n_rows - 1}: there is no row {wanted}."
        )
    if isinstance(source, PictureSource):
        return wanted, source.select(wanted).read().X, []
    for rows, X in read_batches(clf, source):
        place = (rows.numbers == wanted).nonzero()[0]
        if len(place):
            start = int(place[0])
            names = source.feature_names or [str(feature) for feature in range(source.n_features)]
            missing = [names[feature] for feature in np.flatnonzero(np.isnan(rows.X[start]))]
            return wanted, X[start : start + 1], missing
        if int(rows.numbers[-1]) > wanted:
            break
    raise make_row_error(clf, source.name, wanted, source.seen)


def _find_pictures(clf: OpenSetClassifier, source: RowSource, number: int, explanation: Any) -> Any:
    """Return the picture and those of the training samples it is reconstructed from; None if there are none."""
    from ..tables.picture_rows import PictureSource

    recipe = clf.feature_recipe_
    if recipe is None or recipe.thumbnails is None or not isinstance(source, PictureSource):
        return None
    from ..features.gray_values import read_picture
    from ..tables.feature_recipe import make_thumbnail

    return gather_pictures(clf, explanation, make_thumbnail(read_picture(source.paths[number], None)))


def _print_picture_names(names: Any, explanation: Explanation) -> None:
    if explanation.atoms:
        stdout().print("Training pictures it is reconstructed from:")
        print_facts([
            (f"row {atom.row}", f"{names[atom.row]}  {atom.coefficient:+.2f}".replace("-", "−"))
            for atom in explanation.atoms[:_MOST_PICTURES]
        ])  # fmt: skip

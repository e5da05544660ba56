"""``srosr explain``: why a row was recognised, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .bad_input import BadInput
from .console import json_option
from .input_data import DataOptions, data_options

if TYPE_CHECKING:
    from ..classifiers import OpenSetClassifier
    from ..inspection import Explanation
    from ..tables import RowSource

__all__ = ["explain"]

#: Training pictures that are named.
_NAMED = 6


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option("--row", type=click.IntRange(0), help="The row to explain, from 0, as in the output of predict.  [0]")
@click.option("--file", "name", metavar="NAME", help="Instead, a picture by its name in the folder.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("srosr-explanation.png"), show_default=True,
    help="Where the figure goes; the ending (.png, .pdf or .svg) chooses the format.",
)  # fmt: skip
@click.option("--no-figure", is_flag=True, help="Words only.")
@data_options(labels=False, model=True)
@json_option
def explain(
    model: Path,
    data: str,
    row: int | None,
    name: str | None,
    out: Path,
    no_figure: bool,
    options: DataOptions,
    as_json: bool,
) -> None:
    """Say in words, and show in a figure, why a row is recognised or refused.

    For methods on sparse codes: which class comes closest and how much it leaves unexplained, which training samples it
    was rebuilt from, what speaks for a stranger, and what would have had to be different. For pictures the figure
    shows the picture next to the training pictures that rebuilt it. Rivals have no such parts; of them it shows the
    scores of the classes, and where the unknown score lies among those of held-out samples.

    \b
    Examples:
      srosr explain model.srosr new.csv --row 17
      srosr explain model.srosr photos/ --file stranger.jpg --out why.pdf
      srosr explain model.srosr photo.jpg
      srosr explain model.srosr new.csv --row 17 --json --no-figure
    """
    from .bad_input import refusing
    from .console import out as stdout
    from .console import print_json
    from .input_data import is_picture_data, load_model, open_for
    from .output_files import check_figure_path, unwritable

    if row is not None and name is not None:
        raise BadInput("--row and --file both say which one to explain: give one of them.")
    if not no_figure:
        check_figure_path(out, "--out", data, model)
    clf = load_model(model)
    with refusing():
        # A value that is missing elsewhere is no reason not to explain this row.
        source = open_for(clf, data, options if is_picture_data(data) else replace(options, drop_missing=True))
        number, X = _found(clf, source, row, name)
    from ..classifiers import SROSRClassifier

    told: Any
    if isinstance(clf, SROSRClassifier):
        told = _with_rows_of_file(clf.explain(X), clf)
    else:
        from ..inspection import verdict_of

        told = verdict_of(clf, X)
    pictures = _pictures(clf, source, number, told)
    if not no_figure:
        from io import BytesIO

        from matplotlib import rc_context, use

        from .._support.atomic_files import write_atomically

        use("agg")
        content = BytesIO()
        with rc_context({"text.parse_math": False}):  # a class may have dollars in its name
            drawn = told.plot(pictures=pictures)
            figure = getattr(drawn, "figure_", drawn)
            figure.savefig(content, format=out.suffix.lower().removeprefix("."), dpi=150, bbox_inches="tight")
        try:
            write_atomically(out, content.getvalue())
        except OSError as error:
            raise unwritable("the figure", out, error.strerror or str(error), "--out") from None
    names = getattr(source, "names", None)
    if as_json:
        where = {"row": number} | ({} if names is None else {"file": names[number]})
        print_json(where | told.to_dict() | {"figure": None if no_figure else str(out)})
        return
    console = stdout()
    title = f"Row {number} of {data}" if names is None else data if len(names) == 1 else f"{names[number]} in {data}"
    console.print(title, style="bold")
    for line in told.text.split("\n"):
        console.print(line)
    if clf.feature_recipe_ is not None and clf.feature_recipe_.names is not None and isinstance(clf, SROSRClassifier):
        _name_pictures(clf.feature_recipe_.names, told)
    if not no_figure:
        console.print(f"Figure: {out}")


def _with_rows_of_file(told: Explanation, clf: OpenSetClassifier) -> Explanation:
    """The explanation with training samples numbered as in their file, where rows of it were left out."""
    if clf.feature_recipe_ is None or clf.feature_recipe_.rows is None:
        return told
    rows = clf.feature_recipe_.rows.tolist()
    return replace(told, atoms=tuple(replace(atom, row=rows[atom.row]) for atom in told.atoms))


def _found(clf: OpenSetClassifier, source: RowSource, row: int | None, name: str | None) -> tuple[int, Any]:
    """The number of the row asked for, and its features as the classifier takes them."""
    from .._support.messages import did_you_mean
    from ..tables import PictureSource
    from .input_data import scaled_batches

    if name is not None:
        if not isinstance(source, PictureSource):
            raise BadInput(f"--file is for pictures, and {source.name} is a table: give --row.")
        if name not in source.names:
            raise BadInput(f"{source.name} has no picture {name}{did_you_mean(name, source.names)}.")
        row = source.names.index(name)
    wanted = 0 if row is None else row
    if source.n_rows is not None and wanted >= source.n_rows:
        raise BadInput(
            f"{source.name} has {source.n_rows} rows, from 0 to {source.n_rows - 1}: there is no row {wanted}."
        )
    if isinstance(source, PictureSource):
        return wanted, source.only(wanted).read().X
    for rows, X in scaled_batches(clf, source, 4096):
        place = (rows.numbers == wanted).nonzero()[0]
        if len(place):
            start = int(place[0])
            return wanted, X[start : start + 1]
        if int(rows.numbers[-1]) > wanted:
            break
    if wanted < source.seen:
        raise BadInput(f"row {wanted} of {source.name} has missing values, so that it cannot be judged.")
    raise BadInput(f"{source.name} has {source.seen} rows, from 0 to {source.seen - 1}: there is no row {wanted}.")


def _pictures(clf: OpenSetClassifier, source: RowSource, number: int, told: Any) -> Any:
    """The picture, and those of the training samples that rebuilt it; None where there are none."""
    from ..tables import PictureSource

    intake = clf.feature_recipe_
    if intake is None or intake.thumbnails is None or not isinstance(source, PictureSource):
        return None
    from ..features import read_picture
    from ..tables import thumbnail_of

    sample = thumbnail_of(read_picture(source.paths[number], None)) / 255.0
    atoms = [intake.thumbnails[atom.row] / 255.0 for atom in getattr(told, "atoms", ())[:_NAMED]]
    return sample, atoms


def _name_pictures(names: Any, told: Explanation) -> None:
    from .console import out as stdout
    from .console import show_facts

    facts: list[tuple[str, str]] = []
    for atom in told.atoms[:_NAMED]:
        facts.append((f"row {atom.row}", f"{names[atom.row]}  {atom.coefficient:+.2f}".replace("-", "−")))
    console = stdout()
    if told.atoms:
        console.print("Training pictures it was rebuilt from:")
        show_facts(facts)

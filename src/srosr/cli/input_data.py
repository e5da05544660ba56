"""From DATA, as a command is told of it, to batches of samples: tables, arrays and pictures by one way."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from .bad_input import BadInput

if TYPE_CHECKING:
    from .._support.array_types import Array
    from ..classifiers import OpenSetClassifier
    from ..tables import Rows, RowSource

__all__ = [
    "DataOptions",
    "as_in_training",
    "batch_size",
    "check_kind_of_options",
    "column_scale",
    "data_options",
    "is_picture_data",
    "load_model",
    "named",
    "notes_of",
    "open_for",
    "open_labelled",
    "scaled_batches",
]

Labels = Literal["required", "optional", "no"]


@dataclass(frozen=True)
class DataOptions:
    """What the user said about DATA."""

    label: str | None = None
    labels_file: Path | None = None
    array: str | None = None
    ignore: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    header: bool = True
    drop_missing: bool = False
    by_name: bool = False
    skip_broken: bool = False


_LABELS = (
    click.option("--label", metavar="COLUMN", help="The column, or array, with the classes."),
    click.option(
        "--labels",
        "labels_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A file with the classes, one a row of DATA: .npy, or text with one a line.",
    ),
)
_TABLE = (
    click.option("--ignore", metavar="COLUMN", multiple=True, help="Leave a column out. Can be given several times."),
    click.option("--array", metavar="NAME", help="The array with the samples in an .npz or .mat file.  [X]"),
    click.option("--no-header", "header", flag_value=False, default=True, help="The table's first line is a sample."),
    click.option("--drop-missing", is_flag=True, help="Leave out rows with missing values instead of refusing them."),
    click.option(
        "--skip-broken", is_flag=True, help="Leave out pictures that cannot be read instead of refusing them."
    ),
)
_OF_MODEL = (
    click.option(
        "--by-name", is_flag=True, help="Find the model's features by name, in whatever order; ignore others."
    ),
)
_KEEP = (
    click.option("--keep", metavar="COLUMN", multiple=True, help="Copy a column to the output, as an id. Repeatable."),
)


def data_options(*, labels: bool = True, model: bool = False, keep: bool = False) -> Callable[[Any], Any]:
    """The options that say what is in DATA, handed to the command as one argument ``options``.

    Parameters
    ----------
    labels : bool
        Whether classes are read.
    model : bool
        Whether there is a model whose features must be found.
    keep : bool
        Whether columns can be copied to the output.
    """
    wanted = (*(_LABELS if labels else ()), *_TABLE, *(_OF_MODEL if model else ()), *(_KEEP if keep else ()))

    def decorate(command: Any) -> Any:
        @functools.wraps(command)
        def gathered(**given: Any) -> Any:
            names = [name for name in DataOptions.__dataclass_fields__ if name in given]
            return command(options=DataOptions(**{name: given.pop(name) for name in names}), **given)

        for option in reversed(wanted):
            gathered = option(gathered)
        return gathered

    return decorate


def load_model(path: Path) -> OpenSetClassifier:
    """The model of a file, or :class:`BadInput`."""
    from ..model_files import load
    from .bad_input import refusing

    with refusing():
        if not path.exists():
            raise BadInput(f"{path} does not exist: give a model that srosr fit wrote.")
        if path.is_dir():
            raise BadInput(f"{path} is a folder: give a model that srosr fit wrote.")
        return load(path)


def is_picture_data(data: str) -> bool:
    """Whether DATA is a folder, or a picture, rather than a table."""
    from ..features import is_picture

    return data != "-" and (os.path.isdir(data) or is_picture(os.path.basename(data)))


def check_kind_of_options(data: str, options: DataOptions) -> None:
    """Refuse options for tables where DATA holds pictures, and the other way round."""
    if not is_picture_data(data):
        if options.skip_broken:
            raise BadInput(f"--skip-broken is for pictures, and {data} is a table; --drop-missing is for tables.")
        return
    given = {
        "--label": options.label is not None,
        "--labels": options.labels_file is not None,
        "--array": options.array is not None,
        "--ignore": bool(options.ignore),
        "--keep": bool(options.keep),
        "--no-header": not options.header,
        "--drop-missing": options.drop_missing,
        "--by-name": options.by_name,
    }
    for option, is_given in given.items():
        if is_given:
            raise BadInput(f"{option} is for tables, and {data} holds pictures: leave it out.")


def open_labelled(data: str, options: DataOptions) -> RowSource:
    """A table, or arrays, with a class for every sample."""
    from ..tables import open_rows

    return open_rows(
        data,
        labels="required",
        label=options.label,
        labels_file=options.labels_file,
        ignore=options.ignore,
        drop_missing=options.drop_missing,
        header=options.header,
        array=options.array,
    )


def notes_of(source: RowSource) -> list[str]:
    """What the reader remarked on, as sentences."""
    return [note[:1].upper() + note[1:].rstrip(".") + "." for note in source.notes]


def column_scale(X: Array, source: RowSource) -> tuple[Array, Array]:
    """Mean and standard deviation of every column, or :class:`BadInput` that names one whose numbers are too large."""
    from ..tables import standard_scale

    try:
        return standard_scale(X)
    except OverflowError as error:
        place, names = error.args[0], source.feature_names
        column = place if names is None else repr(names[place])
        raise BadInput(f"{source.name}: the numbers in column {column} are too large to be standardised.") from None


def open_for(clf: OpenSetClassifier, data: str, options: DataOptions, labels: Labels = "no") -> RowSource:
    """Samples with the features that a model was fitted to, not yet scaled (see :func:`scaled_batches`).

    Parameters
    ----------
    clf : OpenSetClassifier
        As it was loaded.
    data : str
        A table, ``-`` for standard input, a folder of pictures, or one picture.
    options : DataOptions
    labels : {"no", "optional", "required"}
        Whether classes are wanted. Where the user names no column it is the one that the model learnt from.
    """
    from ..tables import open_pictures, open_rows

    intake = clf.feature_recipe_
    check_kind_of_options(data, options)
    if getattr(clf, "kernel", None) == "precomputed":
        raise BadInput(
            f"{data} cannot be judged: the model was fitted to a Gram matrix, which only Python can give it."
        )
    if is_picture_data(data):
        if intake is None or not intake.of_pictures:
            raise BadInput(
                f"{data} holds pictures, but the model was fitted to a table of {clf.n_features_in_} features."
            )
        return open_pictures(
            data, intake.features_of, clf.n_features_in_, labels=labels, skip_broken=options.skip_broken
        )
    if intake is not None and intake.of_pictures:
        raise BadInput(
            f"{data} is no folder of pictures, and the model was fitted to pictures: give a folder or a picture."
        )
    names = getattr(clf, "feature_names_in_", None)
    usual = () if intake is None else (*intake.ignored, *(() if intake.label is None else (intake.label,)))
    return open_rows(
        data,
        labels=labels,
        label=options.label,
        usual_label=None if intake is None else intake.label,
        labels_file=options.labels_file,
        features=clf.n_features_in_ if names is None else names.tolist(),
        by_name=options.by_name,
        ignore=options.ignore,
        keep=options.keep,
        passed_over=usual,
        drop_missing=options.drop_missing,
        header=options.header,
        array=options.array,
    )


def batch_size(clf: OpenSetClassifier) -> int:
    """Rows to judge at a time: many, but so few that what is computed for them stays within some 100 MB."""
    from ..rivals import PairwiseSVM

    dictionary = getattr(clf, "dictionary_", None)
    related = getattr(clf, "samples_", None)
    pairs = len(clf.classes_) ** 2 // 2 if isinstance(clf, PairwiseSVM) else 0
    n_related = max(0 if held is None else len(held) for held in (getattr(dictionary, "labels", None), related))
    columns = max(clf.n_features_in_, n_related, pairs)
    return int(min(max(2**22 // columns, 64), 16384))


def scaled_batches(clf: OpenSetClassifier, source: RowSource, size: int) -> Iterator[tuple[Rows, Any]]:
    """Batches, and their samples as the classifier takes them."""
    for rows in source.batches(size):
        yield rows, as_in_training(clf, rows.X)


def as_in_training(clf: OpenSetClassifier, X: Array) -> Any:
    """Samples scaled as in training, and under the names that the classifier knows."""
    scaled = X if clf.feature_recipe_ is None else clf.feature_recipe_.scaled(X)
    return named(scaled, getattr(clf, "feature_names_in_", None))


def named(X: Array, names: Any) -> Any:
    """Samples with names of their columns, where there are any."""
    if names is None:
        return X
    from pandas import DataFrame

    return DataFrame(X, columns=list(names), copy=False)

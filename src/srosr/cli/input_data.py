"""From DATA and its options to batches of samples: tables, arrays and pictures alike."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from .console import format_percent
from .errors import InputError

if TYPE_CHECKING:
    from .._support.array_types import Array
    from ..classifiers import OpenSetClassifier
    from ..tables import Imputer, ReadOptions, Rows, RowSource

#: Pictures of at most so many pixels keep their size if all have the same; others are scaled to the second.
SMALL_PICTURE, USUAL_SHAPE = 64 * 64, (32, 32)
_LARGEST_SIDE = 512


# -- the options -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeatureOptions:
    """How samples become features: ``features`` and ``size`` of pictures, ``standardize`` of tables."""

    features: Literal["pixels", "pyramid"] | None = None
    size: str | None = None
    standardize: bool = False

    def check(self, data: str) -> None:
        """Raise if an option does not apply to DATA, or the size is invalid."""
        if not is_picture_data(data):
            if self.features is not None or self.size is not None:
                raise InputError(f"--features and --size are for pictures, and {data} is a table.")
        elif self.standardize:
            raise InputError("--standardize is for tables: the features of pictures have a common scale.")
        else:
            self.shape  # noqa: B018

    @property
    def kind(self) -> str:
        """What pictures become: "pixels" or "pyramid"."""
        return self.features or ("pixels" if self.size is not None else "pyramid")

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width that the user gave."""
        if self.size is None:
            return None
        if self.kind == "pyramid":
            raise InputError("--size is for --features pixels: pyramids take pictures of any size.")
        sides = self.size.lower().split("x")
        if len(sides) != 2 or not all(s.isascii() and s.isdigit() and 1 <= int(s) <= _LARGEST_SIDE for s in sides):
            raise InputError(
                f"--size {self.size}: write height and width in pixels, as in 32x32, each at most {_LARGEST_SIDE}."
            )
        return int(sides[0]), int(sides[1])


_LABELS = (
    click.option("--label", metavar="COLUMN", help="The column, or array, with the classes."),
    click.option(
        "--labels",
        "labels_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A file with the classes, one for each row of DATA: .npy, or text with one per line.",
    ),
)
_TABLE = (
    click.option("--ignore", metavar="COLUMN", multiple=True, help="Leave out a column. Repeatable."),
    click.option("--array", metavar="NAME", help="The array with the samples in an .npz or .mat file.  [X]"),
    click.option("--no-header", "header", flag_value=False, default=True, help="The first line of DATA is a sample."),
    click.option("--drop-missing", is_flag=True, help="Leave out rows with missing values instead of stopping."),
    click.option("--skip-broken", is_flag=True, help="Leave out pictures that cannot be read instead of stopping."),
)
_OF_MODEL = (
    click.option("--by-name", is_flag=True, help="Find the model's features by name, in any order; ignore others."),
)
_KEEP = (
    click.option(
        "--keep", metavar="COLUMN", multiple=True, help="Copy a column, such as an id, to the output. Repeatable."
    ),
)
_FEATURES = (
    click.option(
        "--features",
        type=click.Choice(["pixels", "pyramid"]),
        help="Features of pictures: gray values at one size, or spatial pyramids of visual words.  [pyramid]",
    ),
    click.option(
        "--size", metavar="HxW", help="Size of pictures for --features pixels.  [their own if small, else 32x32]"
    ),
    click.option(
        "--standardize", is_flag=True, help="Shift and scale every column to mean 0 and standard deviation 1."
    ),
)


def data_options(*, labels: bool = True, model: bool = False, keep: bool = False) -> Callable[[Any], Any]:
    """Add the options that describe DATA; the command gets them as one :class:`ReadOptions`, ``options``.

    They differ by whether classes are read, features of a model must be found, and columns can be kept.
    """

    def build(given: dict[str, Any]) -> ReadOptions:
        from ..tables import ReadOptions

        return ReadOptions(**given)

    chosen = (*(_LABELS if labels else ()), *_TABLE, *(_OF_MODEL if model else ()), *(_KEEP if keep else ()))
    return _gather_options(chosen, "options", build)


def feature_options(command: Any) -> Any:
    """Add the options for features; the command gets them as one :class:`FeatureOptions`, ``features``."""
    return _gather_options(_FEATURES, "features", lambda given: FeatureOptions(**given))(command)


def _gather_options(
    options: Sequence[Callable[[Any], Any]], argument: str, build: Callable[[dict[str, Any]], Any]
) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command and hands it one object built from them."""

    def decorate(command: Any) -> Any:
        @functools.wraps(command)
        def call(**given: Any) -> Any:
            return command(**{argument: build({name: given.pop(name) for name in names})}, **given)

        before = {parameter.name for parameter in getattr(command, "__click_params__", ())}
        for option in reversed(options):
            call = option(call)
        names = [p.name for p in getattr(call, "__click_params__", ()) if p.name not in before]
        return call

    return decorate


def is_picture_data(data: str) -> bool:
    """Return whether DATA is a folder, or a picture, rather than a table."""
    from ..features import is_picture

    return data != "-" and (os.path.isdir(data) or is_picture(os.path.basename(data)))


def check_options(data: str, options: ReadOptions) -> None:
    """Raise if options for tables are given and DATA holds pictures, or the other way round."""
    if not is_picture_data(data):
        if options.skip_broken:
            raise InputError(f"--skip-broken is for pictures, and {data} is a table; --drop-missing is for tables.")
        return
    given = {
        "--label": options.label is not None,
        "--labels": options.labels_file is not None,
        "--array": options.array is not None,
        "--ignore": bool(options.ignore),
        "--keep": bool(options.keep),
        "--group": options.group is not None,
        "--no-header": not options.header,
        "--drop-missing": options.drop_missing,
        "--by-name": options.by_name,
    }
    for option, is_given in given.items():
        if is_given:
            raise InputError(f"{option} is for tables, and {data} holds pictures: leave it out.")


def choose_shape(shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the height and width to scale pictures to: their own if all have the same and it is small."""
    same = len(set(shapes)) == 1 and shapes[0][0] * shapes[0][1] <= SMALL_PICTURE
    return shapes[0] if same else USUAL_SHAPE


# -- the samples -------------------------------------------------------------------------------------------


def open_for_model(
    clf: OpenSetClassifier, data: str, options: ReadOptions, labels: Literal["required", "optional", "no"] = "no"
) -> RowSource:
    """Open samples with the features that a model was fitted to, not yet imputed and scaled (see :func:`read_batches`).

    Unless the user names a column, labels are read from the one that the model was fitted to.
    """
    from ..tables import PictureSource, open_rows

    recipe = clf.feature_recipe_
    check_options(data, options)
    check_takes_files(clf, data)
    if is_picture_data(data):
        if recipe is None or not recipe.of_pictures:
            raise InputError(
                f"{data} holds pictures, but the model was fitted to a table of {clf.n_features_in_} features."
            )
        return PictureSource(data, recipe.compute_features, clf.n_features_in_, replace(options, labels=labels))
    check_takes_tables(clf, data)
    names = getattr(clf, "feature_names_in_", None)
    label, ignored = (None, ()) if recipe is None else (recipe.label, recipe.ignored)
    features = clf.n_features_in_ if names is None else names.tolist()
    ignored = ignored if label is None else (*ignored, label)
    ignored = ignored if recipe is None or recipe.group is None else (*ignored, recipe.group)
    # Who asks to leave out rows with missing values gets that; explain alone asks for both.
    impute = get_imputer(clf) is not None and (options.impute or not options.drop_missing)
    return open_rows(
        data, options, labels=labels, usual_label=label, features=features, ignore_if_present=ignored, impute=impute
    )


def get_imputer(clf: OpenSetClassifier) -> Imputer | None:
    """Return what fills in missing values of the samples of a model, if it was fitted with --impute."""
    return None if clf.feature_recipe_ is None else clf.feature_recipe_.imputer


def check_takes_files(clf: OpenSetClassifier, data: str) -> None:
    """Raise if the samples of a model cannot come from files."""
    if getattr(clf, "kernel", None) == "precomputed":
        raise InputError(f"{data} cannot be used: the model was fitted to a Gram matrix, which only Python can pass.")


def check_takes_tables(clf: OpenSetClassifier, data: str) -> None:
    """Raise if a model was fitted to pictures."""
    if clf.feature_recipe_ is not None and clf.feature_recipe_.of_pictures:
        raise InputError(
            f"{data} is not a folder of pictures, and the model was fitted to pictures: give a folder or a picture."
        )


def describe_imputation(summary: dict[str, Any]) -> str:
    """Return in words what :meth:`srosr.tables.Imputer.summarize` says."""
    if summary["column"] is None:
        return f"{summary['kind']}, no training cells"
    share, most = format_percent(summary["share"]), format_percent(summary["column_share"])
    return f"{summary['kind']}, {share} of training cells, most in column {summary['column']} ({most})"


def format_notes(source: RowSource) -> list[str]:
    """Return the remarks of the reader as sentences."""
    return [note[:1].upper() + note[1:].rstrip(".") + "." for note in source.notes]


def compute_column_scale(X: Array, source: RowSource) -> tuple[Array, Array]:
    """Return mean and standard deviation of every column; raise if the numbers of one are too large."""
    from ..tables import compute_scale

    try:
        return compute_scale(X)
    except OverflowError as error:
        place, names = error.args[0], source.feature_names
        column = place if names is None else repr(names[place])
        raise InputError(f"{source.name}: the numbers in column {column} are too large to standardize.") from None


def choose_batch_size(clf: OpenSetClassifier) -> int:
    """Return how many rows to predict at a time, so that what is computed for them stays within some 50 MB.

    It is a multiple of the rows that BLAS multiplies at a time, on which last bits depend. A device takes more of them,
    and what is computed stays there.
    """
    from .._support.devices import find_device
    from ..rivals import PairwiseSVM

    if find_device(getattr(clf, "device", "cpu")) is not None:
        return int(min(max(2**25 // clf.n_features_in_ // 64 * 64, 64), 65536))

    dictionary = getattr(clf, "dictionary_", None)
    related = getattr(clf, "samples_", None)
    pairs = len(clf.classes_) ** 2 // 2 if isinstance(clf, PairwiseSVM) else 0
    n_related = max(0 if held is None else len(held) for held in (getattr(dictionary, "labels", None), related))
    columns = max(clf.n_features_in_, n_related, pairs)
    return int(min(max(2**21 // columns // 64 * 64, 64), 16384))


def read_batches(clf: OpenSetClassifier, source: RowSource) -> Iterator[tuple[Rows, Any]]:
    """Yield batches of rows, and their samples as the classifier takes them."""
    for rows in source.batches(choose_batch_size(clf)):
        yield rows, prepare_features(clf, rows.X)


def prepare_features(clf: OpenSetClassifier, X: Array) -> Any:
    """Return samples imputed and scaled as in training, with the column names that the classifier knows."""
    prepared = X if clf.feature_recipe_ is None else clf.feature_recipe_.prepare_rows(X)
    return name_columns(prepared, getattr(clf, "feature_names_in_", None))


def name_columns(X: Array, names: Any) -> Any:
    """Return samples with names of their columns, if there are any."""
    if names is None:
        return X
    from pandas import DataFrame

    return DataFrame(X, columns=list(names), copy=False)

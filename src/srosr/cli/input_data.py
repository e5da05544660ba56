"""The options that describe DATA, and how samples become features: tables, arrays and pictures alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..operations.input_errors import InputError
from ..operations.model_input import is_picture_data
from .console import format_percent

if TYPE_CHECKING:
    from .._support.array_types import Array
    from ..tables.read_options import ReadOptions
    from ..tables.row_source import RowSource

#: Pictures of at most so many pixels keep their size if all have the same; others are scaled to the second.
SMALL_PICTURE, USUAL_SHAPE = 64 * 64, (32, 32)
_LARGEST_SIDE = 512


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
        return parse_shape("--size", self.size, _LARGEST_SIDE)


def parse_shape(option: str, text: str, most: int = 4096) -> tuple[int, int]:
    """Return the height and width that an option gives, as in ``28x28``."""
    sides = [
        int(side) if side.isascii() and side.isdigit() and len(side) < 5 else 0 for side in text.lower().split("x")
    ]
    if len(sides) != 2 or not all(1 <= side <= most for side in sides):
        raise InputError(f"{option} {text}: write height and width in pixels, as in 32x32, each at most {most}.")
    return sides[0], sides[1]


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
        from ..tables.read_options import ReadOptions

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


def choose_shape(shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the height and width to scale pictures to: their own if all have the same and it is small."""
    same = len(set(shapes)) == 1 and shapes[0][0] * shapes[0][1] <= SMALL_PICTURE
    return shapes[0] if same else USUAL_SHAPE


def compute_column_scale(X: Array, source: RowSource) -> tuple[Array, Array]:
    """Return mean and standard deviation of every column; raise if the numbers of one are too large."""
    from ..tables.feature_recipe import compute_scale

    try:
        return compute_scale(X)
    except OverflowError as error:
        place, names = error.args[0], source.feature_names
        column = place if names is None else repr(names[place])
        raise InputError(f"{source.name}: the numbers in column {column} are too large to standardize.") from None


def describe_imputation(summary: dict[str, Any]) -> str:
    """Return in words what :meth:`srosr.tables.imputation.Imputer.summarize` says."""
    if summary["column"] is None:
        return f"{summary['kind']}, no training cells"
    share, most = format_percent(summary["share"]), format_percent(summary["column_share"])
    return f"{summary['kind']}, {share} of training cells, most in column {summary['column']} ({most})"

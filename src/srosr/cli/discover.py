"""``srosr discover``: group rejected rows that may be new classes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .._support.atomic_files import write_atomically
from .._support.messages import list_names
from ..operations.device_choice import set_device, set_threads
from ..operations.input_errors import InputError, convert_errors, end_sentence
from ..operations.model_facts import undo_scaling
from ..operations.model_input import format_notes, is_picture_data, open_for_model, read_batches
from ..operations.sample_decisions import decide_rows
from .console import (
    device_option,
    err,
    jobs_option,
    json_option,
    print_json,
    progress,
    quiet_option,
    seed_option,
    show_warnings,
)
from .console import out as stdout
from .input_data import data_options, parse_shape
from .models import load_model
from .output_paths import check_output_path, make_write_error

if TYPE_CHECKING:
    from .._support.array_types import AnyArray, Array
    from ..classifiers.base import OpenSetClassifier
    from ..discovery.discover_classes import DiscoveryCollector
    from ..discovery.discovery import Discovery
    from ..reports.discovery_page import PageContent
    from ..tables.read_options import ReadOptions
    from ..tables.row_source import RowSource

_WIDE = 240
# Typical samples of each group, in the file and on the page.
_TYPICAL = 12


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the groups to this file (JSON), for add-class --from-discovery.",
)  # fmt: skip
@click.option(
    "--page", type=click.Path(path_type=Path), metavar="FILE",
    help="Write a page (HTML) with the typical samples of each group: pictures, or their distinctive features.",
)  # fmt: skip
@click.option(
    "--min-size", type=click.IntRange(2), metavar="N", help="Smallest number of samples in a group.  [from 5]"
)
@click.option("--all", "every", is_flag=True, help="Group all rows, not only those that the model rejects.")
@click.option(
    "--picture-shape", metavar="HxW",
    help="The features of a table are the gray values of pictures of this height and width: show them on the page.",
)  # fmt: skip
@data_options(labels=False, model=True)
@seed_option("Seed of the random choices.")
@jobs_option()
@device_option()
@json_option
@quiet_option
def discover(
    model: Path,
    data: str,
    output: Path | None,
    page: Path | None,
    min_size: int | None,
    every: bool,
    picture_shape: str | None,
    options: ReadOptions,
    seed: int,
    jobs: int | None,
    device: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Group the rows that a model rejects: candidates for new classes.

    The model decides on every row of DATA, and the rejected rows are grouped by what they have in common. For each
    group the command prints its size, how tight it is, the known classes that it comes closest to, and its most typical
    rows. Tight groups are likely to be one class, loose ones are often mixtures. Rows of no group are noise.

    Look at the typical rows, best on the page that --page writes. If a group is a class, give it a name with
    add-class --from-discovery.

    \b
    Examples:
      srosr discover model.srosr new.csv
      srosr discover model.srosr new.csv -o discovery.json --page discovery.html
      srosr discover model.srosr photos/ --page discovery.html
      srosr discover model.srosr digits.csv --page discovery.html --picture-shape 28x28
      srosr add-class model.srosr new.csv --from-discovery discovery.json --group 2 --name tulip
    """
    _check_outputs(output, page, picture_shape, data, model)
    clf = load_model(model)
    shape = _parse_shape(picture_shape, clf, data)
    set_threads(clf, jobs)
    set_device(clf, device)
    with convert_errors():
        source = open_for_model(clf, data, options)
        collector = _collect(clf, source, rejected_only=not every, shown=not (quiet or as_json))
        with show_warnings(not (quiet or as_json)):
            try:
                found = collector.discover(
                    min_size=min_size, n_typical=_TYPICAL, random_state=seed, name=source.name, n_rows=source.seen
                )
            except ValueError as error:
                raise InputError(end_sentence(error)) from None
    html = b""
    if page is not None:
        from ..reports.discovery_page import render_discovery

        with convert_errors():
            content = _gather_content(clf, source, found, collector, shape)
        if output is not None and data != "-" and hasattr(clf, "add_class"):
            commands = {g.number: _make_command(model, data, output, g.number, options) for g in found.groups}
            content = replace(content, commands=commands)
        content = replace(content, facts=_list_facts(found, model))
        names = [_make_printable(Path(text).name) for text in (str(model), data)]
        html = render_discovery(found, title="New classes for {} in {}".format(*names), content=content)
    _write_files(found, output, page, html)
    if as_json:
        print_json(found.to_dict() | {"files": [str(path) for path in (output, page) if path is not None]})
    elif not quiet:
        for note in format_notes(source):
            err().print(f"Note: {note}", style="yellow")
        _print_groups(found)
        for kind, path in (("Discovery", output), ("Page", page)):
            if path is not None:
                stdout().print(f"{kind}: {path}")


def _check_outputs(output: Path | None, page: Path | None, shape: str | None, data: str, model: Path) -> None:
    """Raise if a file cannot be written, before any work is done."""
    if output is not None:
        check_output_path(output, "the discovery", "-o", data, model)
    if page is not None:
        if page.suffix.lower() not in (".html", ".htm"):
            raise make_write_error("the page", page, "the name must end in .html", "--page")
        check_output_path(page, "the page", "--page", data, model)
        if output is not None and page.resolve() == output.resolve():
            raise InputError(f"-o and --page are the same file, {page}: give two.")
    elif shape is not None:
        raise InputError("--picture-shape is for the page: give --page, too.")


def _parse_shape(text: str | None, clf: OpenSetClassifier, data: str) -> tuple[int, int] | None:
    """Return height and width of the pictures that the rows of a table are, if the user gave them."""
    if text is None:
        return None
    if is_picture_data(data):
        raise InputError(f"--picture-shape is for tables, and {data} holds pictures: leave it out.")
    shape = parse_shape("--picture-shape", text)
    if shape[0] * shape[1] != clf.n_features_in_:
        raise InputError(
            f"--picture-shape {text} has {shape[0] * shape[1]:,} pixels, and the model has {clf.n_features_in_:,} "
            "features."
        )
    return shape


def _collect(clf: OpenSetClassifier, source: RowSource, *, rejected_only: bool, shown: bool) -> DiscoveryCollector:
    """Decide batch by batch and keep the rows to be grouped."""
    from ..discovery.discover_classes import DiscoveryCollector

    collector = DiscoveryCollector(clf, rejected_only=rejected_only)
    n = 0
    with progress("Deciding", shown=shown) as update:
        for rows, X in read_batches(clf, source):
            collector.add(X, decide_rows(clf, source.name, rows.numbers, X), rows.numbers)
            n += len(rows.numbers)
            update(n, source.fraction)
    return collector


# -- the page ----------------------------------------------------------------------------------------------


def _gather_content(
    clf: OpenSetClassifier, source: RowSource, found: Discovery, collector: DiscoveryCollector,
    shape: tuple[int, int] | None,
) -> PageContent:  # fmt: skip
    """Return pictures of the typical samples, or the features in which groups differ."""
    from ..discovery.distinctive_features import find_distinctive_features
    from ..reports.discovery_page import PageContent
    from ..tables.feature_recipe import make_thumbnail
    from ..tables.picture_rows import PictureSource, read_pictures

    typical = sorted({row for group in found.groups for row in group.typical})
    if isinstance(source, PictureSource):
        small = read_pictures([source.paths[row] for row in typical], make_thumbnail, skip_broken=False)[1]
        names = {row: _make_printable(source.names[row]) for row in typical}
        return PageContent(pictures=dict(zip(typical, small, strict=True)), names=names)
    X = undo_scaling(clf, collector.samples)
    if shape is not None:
        places = dict(zip(collector.rows.tolist(), range(len(X)), strict=True))
        pictures = _make_pictures(X[[places[row] for row in typical]], shape)
        return PageContent(pictures=dict(zip(typical, pictures, strict=True)))
    labels = found.labels[collector.rows]
    features = {group.number: find_distinctive_features(X, labels == group.number) for group in found.groups}
    columns = getattr(clf, "feature_names_in_", None)
    return PageContent(features=features, feature_names=None if columns is None else columns.tolist())


def _make_pictures(X: Array, shape: tuple[int, int]) -> list[AnyArray]:
    """Return rows of gray values as pictures; the smallest value of all is black, the largest white."""
    import numpy as np

    if not len(X):
        return []
    low, high = X.min(), X.max()
    gray = (X - low) / (high - low) if high > low else np.zeros(X.shape)
    return [np.round(255 * row).astype(np.uint8).reshape(shape) for row in gray]


def _make_command(model: Path, data: str, output: Path, number: int, options: ReadOptions) -> str:
    """Return the command that makes a class of a group, with the options that DATA was read with."""
    flags = {
        "--no-header": not options.header,
        "--drop-missing": options.drop_missing,
        "--skip-broken": options.skip_broken,
        "--by-name": options.by_name,
    }
    words = ["srosr", "add-class", str(model), data, "--from-discovery", str(output), "--group", str(number)]
    words += [flag for flag, given in flags.items() if given]
    words += [word for column in options.ignore for word in ("--ignore", column)]
    words += [] if options.array is None else ["--array", options.array]
    return _make_printable(shlex.join([*words, "--name", "LABEL"]))


def _list_facts(found: Discovery, model: Path) -> list[tuple[str, str]]:
    return [
        ("model", _make_printable(str(model))),
        ("data", _make_printable(found.name)),
        ("known classes", f"{len(found.classes):,}: {list_names(found.classes, 12)}"),
        ("smallest group", f"{found.min_size} samples"),
    ]


def _make_printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


# -- output -----------------------------------------------------------------------------------------------


def _write_files(found: Discovery, output: Path | None, page: Path | None, html: bytes) -> None:
    """Write both files; after an error remove the first if it is new."""
    is_new = output is not None and not output.exists()
    path, option = output, "-o"
    try:
        if output is not None:
            found.save(output)
        if page is not None:
            path, option = page, "--page"
            write_atomically(page, html)
    except BaseException as error:
        if is_new and output is not None:
            output.unlink(missing_ok=True)
        if isinstance(error, OSError) and path is not None:
            what = "the discovery" if option == "-o" else "the page"
            raise make_write_error(what, path, error.strerror or str(error), option) from None
        raise


def _print_groups(found: Discovery) -> None:
    from rich.table import Table

    console = stdout()
    if not console.is_terminal:
        console.width = max(console.width, _WIDE)
    console.print(found.text.split("\n")[0])
    if not found.groups:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(found.columns()):
        table.add_column(heading, justify="right" if place < 2 else "left", no_wrap=place < 3, overflow="fold")
    for group in found.groups:
        table.add_row(*found.describe_row(group))
    console.print(table)

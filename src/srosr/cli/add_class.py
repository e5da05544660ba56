"""``srosr add-class``: add a class to a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from .._support.messages import join_names
from ..operations import changes
from ..operations.device_choice import set_device
from ..operations.input_errors import InputError, convert_errors
from ..operations.model_input import is_picture_data, name_features, read_batches
from ..operations.more_samples import MissingGroups, MoreRows, find_group_column, open_with_groups, read_thumbnails
from .console import device_option, json_option, show_warnings
from .input_data import data_options
from .models import load_srosr_classifier, output_option, save_changed_model
from .output_paths import check_model_path

if TYPE_CHECKING:
    from .._support.array_types import AnyArray
    from ..classifiers.base import OpenSetClassifier
    from ..discovery.discovery import Discovery
    from ..tables.read_options import ReadOptions


@click.command("add-class")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA")
@click.option("--name", required=True, metavar="LABEL", help="Label of the new class.")
@click.option(
    "--from-discovery", "discovery", type=click.Path(path_type=Path), metavar="FILE",
    help="Use the samples of a group that srosr discover found in DATA and wrote to this file.",
)  # fmt: skip
@click.option(
    "--group", "groups", type=click.IntRange(0), metavar="N", multiple=True,
    help="The number of that group. Repeatable: several groups become one class.",
)  # fmt: skip
@click.option(
    "--without", type=click.IntRange(0), metavar="ROW", multiple=True,
    help="Leave out a row of that group, by its number in DATA, from 0. Repeatable.",
)  # fmt: skip
@click.option("--recalibrate", is_flag=True, help="Code all held-out samples again, as fitting with the class would.")
@data_options(model=True)
@output_option
@device_option()
@json_option
def add_class(
    model: Path,
    data: str,
    name: str,
    discovery: Path | None,
    groups: tuple[int, ...],
    without: tuple[int, ...],
    recalibrate: bool,
    options: ReadOptions,
    output: Path | None,
    device: str,
    as_json: bool,
) -> None:
    """Add a class to a model without fitting it again.

    DATA has samples of the new class, with the features of the model's training data: a table, arrays, or a folder of
    pictures. If it has classes (in a column, or as subfolders), only the samples of LABEL are used; otherwise all are.
    With --from-discovery, they are the samples of a group of rejected samples: DATA is the file that srosr discover was
    given.

    \b
    Examples:
      srosr add-class model.srosr tulips.csv --name tulip
      srosr add-class model.srosr flowers.csv --label species --name tulip -o larger.srosr
      srosr add-class model.srosr photos/tulips --name tulip
      srosr add-class model.srosr new.csv --from-discovery discovery.json --group 2 --name tulip
      srosr add-class model.srosr new.csv --from-discovery discovery.json --group 2 --group 5 --name tulip
    """
    _check_group_options(discovery, groups, without, options)
    if output is not None:
        check_model_path(output, data, *([] if discovery is None else [discovery]))
    clf = load_srosr_classifier(model, "add-class")
    set_device(clf, device)
    with convert_errors():
        if discovery is None:
            new = _read_samples(clf, data, name, options)
        else:
            new = _read_group(clf, data, name, options, DiscoveredRows(discovery, groups, without))
    with show_warnings():
        changes.add_class(clf, model, data, new, name, recalibrate=recalibrate)
    save_changed_model(clf, model, output, as_json)


def _read_samples(clf: OpenSetClassifier, data: str, name: str, options: ReadOptions) -> MoreRows:
    """Return the samples of the new class."""
    import numpy as np

    chosen, column = options.label is not None or options.labels_file is not None, find_group_column(clf, None)
    source = open_with_groups(clf, data, options, "required" if chosen else "optional", column)
    rows = source.read()
    own = np.arange(len(rows.X))
    if rows.labels is not None:
        own = np.flatnonzero(rows.labels == name)
        if not len(own):
            some = join_names(dict.fromkeys(rows.labels.tolist()), 6)
            hint = "give the folder of the class" if is_picture_data(data) else f"--ignore {source.label} uses all rows"
            raise InputError(f"{data} has no sample of the class {name} (it has {some}); {hint}.")
    groups = None if column is None else [rows.kept[column][i] for i in own]
    pictures = read_thumbnails(source, rows.numbers[own].tolist(), f"{name}/")
    return MoreRows(name_features(clf, rows.X[own]), None, groups, pictures)


# -- from a discovery -------------------------------------------------------------------------------------


class DiscoveredRows(NamedTuple):
    """Groups in a discovery file, and rows of them to leave out."""

    path: Path
    groups: tuple[int, ...]
    without: tuple[int, ...]


def _check_group_options(
    discovery: Path | None, groups: tuple[int, ...], without: tuple[int, ...], options: ReadOptions
) -> None:
    """Raise if options of a discovery are incomplete, or exclude others."""
    if discovery is None:
        if groups or without:
            raise InputError(f"{'--group' if groups else '--without'} needs --from-discovery.")
    elif not groups:
        raise InputError(f"--from-discovery {discovery}: say with --group which of its groups becomes the class.")
    elif options.label is not None or options.labels_file is not None:
        raise InputError("--label and --labels exclude --from-discovery: the samples are those of the group.")


def _read_group(clf: OpenSetClassifier, data: str, name: str, options: ReadOptions, chosen: DiscoveredRows) -> MoreRows:
    """Return the samples of groups of a discovery."""
    import numpy as np

    from ..discovery.discovered_group import DiscoveryFileError, SampleHasher
    from ..discovery.discovery import Discovery

    with convert_errors(DiscoveryFileError):
        found = Discovery.load(chosen.path)
    wanted = _find_rows(found, clf, chosen)
    column = find_group_column(clf, None)
    try:
        source = open_with_groups(clf, data, options, "no", column)
    except MissingGroups:
        source, column = open_with_groups(clf, data, options, "no", None), None  # each sample is a group of its own
    hasher = SampleHasher(clf.n_features_in_)
    samples, numbers, groups = [], [], []
    for rows, X in read_batches(clf, source):
        hasher.add(clf._check_queries(X))
        own = np.isin(rows.numbers, wanted)
        samples.append(rows.X[own])
        numbers += rows.numbers[own].tolist()
        if column is not None:
            groups += [rows.kept[column][i] for i in np.flatnonzero(own)]
    if hasher.fingerprint != found.fingerprint:
        raise InputError(
            f"{data} does not have the samples that {chosen.path} was made from ({found.name}): give that file, read "
            "with the same options, or run srosr discover again."
        )
    X = name_features(clf, np.concatenate(samples))
    if column is None and find_group_column(clf, None) is not None:
        groups = [f"row {number} of {found.name}" for number in numbers]
    return MoreRows(X, None, groups or None, read_thumbnails(source, numbers, f"{name}/"))


def _find_rows(found: Discovery, clf: OpenSetClassifier, chosen: DiscoveredRows) -> AnyArray:
    """Return the rows to be used, or raise if they are not those of a group for this model."""
    import numpy as np

    from .._support.unknown_label import format_label

    known = {format_label(label) for label in clf.classes_.tolist()}
    missing = [label for label in found.classes if label not in known]
    if missing or found.fingerprint.n_features != clf.n_features_in_:
        what = f"the class {missing[0]}" if missing else f"{found.fingerprint.n_features:,} features"
        raise InputError(f"{chosen.path} was made with another model: that one has {what}, and this one has not.")
    for group in chosen.groups:
        if group >= len(found.groups):
            there = f"groups 0 to {len(found.groups) - 1}" if found.groups else "no groups"
            raise InputError(f"--group {group}: {chosen.path} has {there}.")
    rows = np.unique(np.concatenate([found.groups[group].rows for group in chosen.groups]))
    named = f"group{'s' if len(chosen.groups) > 1 else ''} {join_names(chosen.groups)}"
    for row in chosen.without:
        if row not in rows:
            raise InputError(f"--without {row}: {named} of {chosen.path} does not have this row.")
    left = np.setdiff1d(rows, np.array(chosen.without, dtype=np.int64))
    if not len(left):
        raise InputError(f"--without leaves no row of {named} of {chosen.path}.")
    return left

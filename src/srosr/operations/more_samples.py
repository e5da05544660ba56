"""Samples with which a model is changed: their features, classes, groups and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .change_checks import match_classes
from .input_errors import InputError
from .model_input import name_features, open_for_model

if TYPE_CHECKING:
    from .._support.array_types import AnyArray
    from ..classifiers.base import OpenSetClassifier
    from ..tables.read_options import ReadOptions
    from ..tables.row_source import RowSource


class MissingGroups(InputError):
    """DATA lacks the column of the groups that the model was fitted with."""


class MoreRows(NamedTuple):
    """Samples as a model takes them.

    ``labels`` are classes of the model, None if DATA has none; ``pictures`` names and thumbnails where samples are
    pictures.
    """

    X: Any
    labels: AnyArray | None
    groups: list[str] | None
    pictures: tuple[list[str], AnyArray] | None


def read_more_rows(
    clf: OpenSetClassifier, data: str, options: ReadOptions, labels: Literal["required", "optional", "no"],
    group: str | None,
) -> MoreRows:  # fmt: skip
    """Read all samples of DATA; raise for a class that the model does not know."""
    source = open_with_groups(clf, data, options, labels, group)
    rows = source.read()
    found = None if rows.labels is None or labels == "no" else match_classes(clf, rows.labels, source.name)
    pictures = None if found is None else read_thumbnails(source, rows.numbers.tolist())
    return MoreRows(name_features(clf, rows.X), found, None if group is None else rows.kept[group], pictures)


def read_fresh_rows(clf: OpenSetClassifier, data: str, options: ReadOptions, group: str | None) -> MoreRows:
    """Read samples to recalibrate with; the groups that the model was fitted with are used if DATA has their column."""
    usual = find_group_column(clf, None)
    if group is None and usual is not None:
        with suppress(MissingGroups):
            return read_more_rows(clf, data, options, "optional", usual)
    return read_more_rows(clf, data, options, "optional", group)


def open_with_groups(
    clf: OpenSetClassifier, data: str, options: ReadOptions, labels: Literal["required", "optional", "no"],
    group: str | None,
) -> RowSource:  # fmt: skip
    """Open samples with the column of their groups, if there is one."""
    from ..tables.row_source import MissingColumn

    try:
        return open_for_model(clf, data, replace(options, group=group), labels)
    except MissingColumn as error:
        if group is not None and error.column == group == find_group_column(clf, None):
            raise MissingGroups(
                f"{data} has no column {group!r} of groups, and the model was fitted with groups: add the column."
            ) from None
        raise


def find_group_column(clf: OpenSetClassifier, group: str | None) -> str | None:
    """Return the column of the groups: the one that is given, or else the one that the model was fitted with."""
    recipe = clf.feature_recipe_
    return group if group is not None or recipe is None else recipe.group


def read_thumbnails(source: RowSource, rows: Sequence[int], folder: str = "") -> tuple[list[str], AnyArray] | None:
    """Return names, within a folder, and thumbnails of pictures; None for rows of a table."""
    import numpy as np

    from ..tables.feature_recipe import make_thumbnail
    from ..tables.picture_rows import PictureSource, read_pictures

    if not isinstance(source, PictureSource):
        return None
    _, small, _ = read_pictures([source.paths[i] for i in rows], make_thumbnail, skip_broken=False)
    return [f"{folder}{source.names[i]}" for i in rows], np.stack(small)

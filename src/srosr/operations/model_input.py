"""From DATA to batches of samples as a model takes them: tables, arrays and pictures alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from .input_errors import InputError

if TYPE_CHECKING:
    from .._support.array_types import Array
    from ..classifiers.base import OpenSetClassifier
    from ..tables.imputation import Imputer
    from ..tables.read_options import ReadOptions
    from ..tables.row_source import Rows, RowSource


def is_picture_data(data: str) -> bool:
    """Return whether DATA is a folder, or a picture, rather than a table."""
    from ..features.picture_folder import is_picture

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


def open_for_model(
    clf: OpenSetClassifier, data: str, options: ReadOptions, labels: Literal["required", "optional", "no"] = "no"
) -> RowSource:
    """Open samples with the features that a model was fitted to, not yet imputed and scaled: the model does that.

    Unless the user names a column, labels are read from the one that the model was fitted to.
    """
    from ..tables.formats import open_rows
    from ..tables.picture_rows import PictureSource

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
    # Rows with missing values are left out where that was asked for; explain alone asks for both.
    impute = get_imputer(clf) is not None and (options.impute or not options.drop_missing)
    return open_rows(data, options, labels=labels, impute=impute, **find_columns(clf))


def find_columns(clf: OpenSetClassifier) -> dict[str, Any]:
    """Return what a model expects of the columns of a table, as attributes of ``ReadOptions``."""
    recipe, names = clf.feature_recipe_, getattr(clf, "feature_names_in_", None)
    others = () if recipe is None else (*recipe.ignored, recipe.label, recipe.group)
    return {
        "features": clf.n_features_in_ if names is None else [str(name) for name in names],
        "usual_label": None if recipe is None else recipe.label,
        "ignore_if_present": [name for name in others if name is not None],
    }


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


def format_notes(source: RowSource) -> list[str]:
    """Return the remarks of the reader as sentences."""
    return [note[:1].upper() + note[1:].rstrip(".") + "." for note in source.notes]


def choose_batch_size(clf: OpenSetClassifier) -> int:
    """Return how many rows to predict at a time, so that what is computed for them stays within some 50 MB.

    It is a multiple of the rows that BLAS multiplies at a time, on which last bits depend. A device takes more of them,
    and what is computed stays there.
    """
    from .._support.devices import find_device
    from ..rivals.pairwise_svm import PairwiseSVM

    if find_device(getattr(clf, "device", "cpu")) is not None:
        return int(min(max(2**25 // clf.n_features_in_ // 64 * 64, 64), 65536))

    dictionary = getattr(clf, "dictionary_", None)
    related = getattr(clf, "samples_", None)
    pairs = len(clf.classes_) ** 2 // 2 if isinstance(clf, PairwiseSVM) else 0
    n_related = max(0 if held is None else len(held) for held in (getattr(dictionary, "labels", None), related))
    columns = max(clf.n_features_in_, n_related, pairs)
    return int(min(max(2**21 // columns // 64 * 64, 64), 16384))


def read_batches(clf: OpenSetClassifier, source: RowSource) -> Iterator[tuple[Rows, Any]]:
    """Yield batches of rows, and their samples with the names of their columns."""
    for rows in source.batches(choose_batch_size(clf)):
        yield rows, name_features(clf, rows.X)


def name_features(clf: OpenSetClassifier, X: Array) -> Any:
    """Return samples with the names of columns that the classifier knows, if it knows any."""
    if not hasattr(clf, "feature_names_in_"):
        return X
    from pandas import DataFrame

    return DataFrame(X, columns=clf.feature_names_in_.tolist(), copy=False)

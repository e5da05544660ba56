"""What a child must know of a model to read an upload for it: see :mod:`srosr.server.upload_reader`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .._support.array_types import AnyArray
    from ..classifiers.base import OpenSetClassifier

PICTURES = "pictures"
_LONGEST_NAME = 100


def clean_name(name: str | None, usual: str = "upload") -> str:
    """Return a file name from a client for messages: without folders and control characters, and not too long.

    Examples
    --------
    >>> clean_name("C:\\\\photos\\\\a\\n.png"), clean_name("../../etc/passwd"), clean_name(None)
    ('a\\\\n.png', 'passwd', 'upload')
    """
    from ..operations.input_errors import escape_unprintable

    last = re.split(r"[/\\]", name or "")[-1]
    found = escape_unprintable(last).strip()
    return (found if len(found) <= _LONGEST_NAME else found[: _LONGEST_NAME - 1] + "…") or usual


def describe_reading(
    clf: OpenSetClassifier,
    *,
    files: Sequence[str | os.PathLike[str]],
    names: Sequence[str],
    format: str,
    limits: Mapping[str, int],
    options: Mapping[str, Any] | None = None,
    labels: Literal["required", "optional", "no"] = "no",
    groups: Literal["required", "optional", "no"] = "no",
    one_row: bool = False,
) -> dict[str, Any]:
    """Return the header of the job "read" for a model; raise InputError if it does not take such files.

    Parameters
    ----------
    clf : OpenSetClassifier
    files, names : sequences
        Private paths, and the names in messages.
    format : {"csv", "npy", "npz", "parquet", "pictures"}
    limits : mapping
        Most ``rows``, ``columns``, ``pixels`` of a picture and ``files``.
    options : mapping, optional
        Attributes of ``ReadOptions`` that the client gave: label, ignore, header, array, by_name,
        drop_missing, skip_broken, group.
    labels : {"required", "optional", "no"}
    groups : {"required", "optional", "no"}
        Whether the column of the groups that the model was fitted with must be there.
    one_row : bool
        Only one of the rows matters, so that a missing value in another must not be an error.
    """
    from ..operations.input_errors import InputError
    from ..operations.model_input import check_takes_files, check_takes_tables, get_imputer
    from ..operations.more_samples import find_group_column

    given = dict(options or {})
    shown = [clean_name(name) for name in names]
    what = shown[0] if len(shown) == 1 else f"{len(shown):,} files"
    recipe = clf.feature_recipe_
    check_takes_files(clf, what)
    of_pictures = recipe is not None and recipe.of_pictures
    if format == PICTURES and not of_pictures:
        raise InputError(
            f"{what} holds pictures, but the model was fitted to a table of {clf.n_features_in_} features."
        )
    if format != PICTURES:
        check_takes_tables(clf, what)
    if one_row:
        given |= {"skip_broken": True} if of_pictures else {"drop_missing": True}
    own = find_group_column(clf, None) if groups != "no" else None
    if given.get("group") is None and own is not None:
        given["group"] = own
    column_names = getattr(clf, "feature_names_in_", None)
    label, ignored, group = (None, (), None) if recipe is None else (recipe.label, recipe.ignored, recipe.group)
    imputes = get_imputer(clf) is not None and (one_row or not given.get("drop_missing", False))
    return {
        "files": [os.fspath(file) for file in files],
        "names": shown,
        "format": format,
        "options": given,
        "labels": labels,
        "groups": groups,
        "group_of_model": own,
        "features": clf.n_features_in_ if column_names is None else column_names.tolist(),
        "usual_label": label,
        "ignore_if_present": [*ignored, *(name for name in (label, group) if name is not None)],
        "impute": imputes,
        "recipe": recipe.get_settings() if recipe is not None and of_pictures else None,
        "limits": dict(limits),
    }


def get_recipe_arrays(clf: OpenSetClassifier) -> dict[str, AnyArray]:
    """Return the arrays that go with :func:`describe_reading`: the visual words of a model of pictures."""
    recipe = clf.feature_recipe_
    if recipe is None or recipe.pyramid is None:
        return {}
    return {"intake/vocabulary": recipe.pyramid.vocabulary_}

"""Save fitted open set classifiers to model files, and load them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ..classifiers.base import OpenSetClassifier
from ..classifiers.srosr_classifier import SROSRClassifier
from ..exceptions import ModelFileError
from ..tables.feature_recipe import FeatureRecipe
from . import rival_state, srosr_state
from .file_format import raise_as_model_file_error, read_model, write_model


def save(clf: OpenSetClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to a model file."""
    state = srosr_state.get_state(clf) if type(clf) is SROSRClassifier else rival_state.get_state(clf)
    if clf.feature_recipe_ is not None:
        recipe = clf.feature_recipe_.pad(clf._n_rows) if hasattr(clf, "_n_rows") else clf.feature_recipe_
        settings = state.settings | {"intake": recipe.get_settings()}
        state = replace(state, settings=settings, arrays=state.arrays | recipe.get_arrays())
    write_model(path, state)


def load(path: str | os.PathLike[str], *, mmap_mode: str | None = None) -> Any:
    """Read a fitted open set classifier from a model file.

    Parameters
    ----------
    path : path-like
        Written by the method ``save`` of any open set classifier of srosr.
    mmap_mode : {None, "r"}, default None
        With "r" the atoms stay in the file and are read as they are needed; several processes share one copy. The file
        may be replaced meanwhile, by ``save`` or another program that renames a new one over it, but not overwritten in
        place.

    Returns
    -------
    SROSRClassifier or one of :mod:`srosr.rivals`
        It predicts what the saved one did. A model that ``srosr fit`` made from a file takes rows as they are in such a
        file: a frame, in which the columns of the classes and those left out may be, or an array of the features.
        Missing values are imputed and columns scaled as the training file's were. One that was fitted to pictures takes
        their paths.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or is too new. Nothing in a file is ever executed.

    Examples
    --------
    >>> import tempfile, os
    >>> from sklearn.datasets import load_digits
    >>> import srosr
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> clf = srosr.SROSRClassifier(n_repeats=2, random_state=0).fit(X[:90], y[:90])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(os.path.join(folder, "digits.srosr"))
    ...     again = srosr.load(os.path.join(folder, "digits.srosr"))
    >>> bool((again.predict(X[90:120]) == clf.predict(X[90:120])).all())
    True
    """
    if mmap_mode not in (None, "r"):
        raise ValueError(f'mmap_mode must be None or "r", got {mmap_mode!r}.')
    state = read_model(path, mapped=mmap_mode == "r")
    settings, arrays = state.settings, state.arrays
    with raise_as_model_file_error(path):
        clf: OpenSetClassifier
        if state.kind == srosr_state.KIND:
            clf = srosr_state.restore(settings, arrays)
        elif state.kind in rival_state.KINDS:
            clf = rival_state.restore(state.kind, settings, arrays)
        else:
            raise ModelFileError(
                f"{os.fspath(path)} holds a {state.kind}, which this version of srosr does not know: upgrade srosr."
            )
        if settings.get("intake") is not None:
            n_rows = getattr(clf, "_n_rows", None)
            clf.feature_recipe_ = FeatureRecipe.restore(settings["intake"], arrays, clf.n_features_in_, n_rows)
        return clf

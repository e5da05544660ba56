"""How a file becomes features, stored with a model so that later files are treated like the training file.

The command line fits models to tables and to folders of pictures. A :class:`FeatureRecipe` records which column had the
classes, which columns were left out, how missing values are imputed and how columns are scaled; for pictures, their
size in pixels or the visual words, and small copies of the training pictures, which explanations show. The classifier
carries it as ``feature_recipe_``, and the model file holds it under the keys ``intake`` and ``intake/…``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite

from .._support.array_types import AnyArray, Array, IntArray
from ..features.gray_values import read_picture, resize_picture
from ..features.spatial_pyramid import SpatialPyramid
from .imputation import Imputer

#: Side of the small copies of training pictures.
THUMBNAIL = 64
KINDS = ("table", "pixels", "pyramid")
# Length of a SIFT descriptor; most levels of a pyramid, and most pixels of a patch or picture side, in a valid file.
_DESCRIPTOR, _MOST_LEVELS, _MOST_PIXELS = 128, 8, 4096
# Rounding of the gray values of a picture that was scaled.
_GRAY_ROUNDING = 1e-6
_PYRAMID_PARAMETERS = ("n_words", "levels", "step", "patch", "max_side", "square_root")


@dataclass(frozen=True, eq=False)
class FeatureRecipe:
    """How rows of a table, or pictures, become features.

    Attributes
    ----------
    kind : {"table", "pixels", "pyramid"}
    label : str or None
        The column, or array, of the classes in a table.
    ignored : tuple of str
        Columns left out.
    center, scale : ndarray (n_features,) or None
        What is subtracted from the columns of a table, and what they are divided by afterwards.
    shape : (height, width) or None
        Size of pictures whose features are pixels.
    pyramid : SpatialPyramid or None
        The fitted pyramid, for pictures whose features are counts of visual words.
    rows : ndarray of int (n_rows,) or None
        Rows of the table that became training samples, if some were left out.
    names : ndarray of str (n_rows,) or None
        Names of the training pictures, relative to their folder.
    thumbnails : ndarray of uint8 (n_rows, 64, 64) or None
        Small copies of the training pictures.
    imputer : Imputer or None
        What fills in missing values of a table, before its columns are scaled.
    group : str or None
        The column of the groups in a table.
    """

    kind: str
    label: str | None = None
    ignored: tuple[str, ...] = ()
    center: Array | None = None
    scale: Array | None = None
    shape: tuple[int, int] | None = None
    pyramid: SpatialPyramid | None = None
    names: AnyArray | None = None
    thumbnails: AnyArray | None = None
    rows: IntArray | None = None
    imputer: Imputer | None = None
    group: str | None = None

    @property
    def of_pictures(self) -> bool:
        """Whether features are computed from pictures."""
        return self.kind != "table"

    def select_features(self, X: Any, n_features: int) -> Any:
        """Return the feature columns of a frame that has others, too, or the features of pictures given by path.

        Anything else is returned as it is.
        """
        if not self.of_pictures:
            names = list(getattr(X, "columns", ()))
            if len(names) in (0, n_features) or not all(isinstance(name, str | int) for name in names):
                return X
            left_out = {self.label, self.group, *self.ignored}
            return X[[name for name in names if str(name) not in left_out]]
        if isinstance(X, np.ndarray) and X.dtype.kind not in "OU":
            return X
        paths = np.ravel(np.asarray(X, dtype=object))
        are_paths = len(paths) > 0 and isinstance(paths[0], str | os.PathLike)
        return self.compute_features([Path(path) for path in paths]) if are_paths else X

    def prepare_rows(self, X: Array) -> Array:
        """Return rows of the file as the classifier takes them: missing values imputed, then columns scaled.

        Raises
        ------
        ValueError
            For a row without any value, for numbers that are too large to scale, and for pixels that are no gray values
            from 0 to 1.
        """
        if self.shape is not None and not (X.min() >= -_GRAY_ROUNDING and X.max() <= 1 + _GRAY_ROUNDING):
            raise ValueError(
                "the model was fitted to gray values of pictures, from 0 (black) to 1 (white), and there are others: "
                "pass the paths of the pictures, and they are read as in training."
            )
        if self.imputer is not None:
            empty = np.flatnonzero(np.isnan(X).all(axis=1))
            if len(empty):
                raise ValueError(f"row {empty[0]} has no value at all.")
            X = self.imputer.impute(X)
        if self.center is None or self.scale is None:
            return X
        with np.errstate(over="ignore"):
            X = (X - self.center) / self.scale
        assert_all_finite(X, input_name="X")
        return X

    def compute_features(self, paths: Sequence[Path]) -> Array:
        """Read pictures and return their features; the error for an unreadable one names it."""
        if self.pyramid is not None:
            return self.pyramid.transform(list(paths))
        assert self.shape is not None
        return np.stack([resize_picture(read_picture(path, None), self.shape).ravel() for path in paths])

    def add_pictures(self, names: Sequence[str], thumbnails: AnyArray) -> FeatureRecipe:
        """Return the recipe with further training pictures."""
        assert self.names is not None and self.thumbnails is not None
        joined = np.concatenate([self.thumbnails, thumbnails])
        return replace(self, names=np.array([*self.names.tolist(), *names]), thumbnails=joined)

    def pad(self, n_rows: int) -> FeatureRecipe:
        """Return the recipe for ``n_rows`` training samples; samples added later get the next row numbers.

        Those added without a picture get a white one without a name.
        """
        if self.rows is not None:
            return replace(self, rows=np.concatenate([self.rows, np.arange(len(self.rows), n_rows, dtype=np.int64)]))
        if self.names is None or len(self.names) >= n_rows:
            return self
        more = n_rows - len(self.names)
        return self.add_pictures([""] * more, np.full((more, THUMBNAIL, THUMBNAIL), 255, np.uint8))

    # -- files -------------------------------------------------------------------------------------------

    def get_settings(self) -> dict[str, Any]:
        """Return everything but the arrays as a JSON-serializable dict, for a model file."""
        pyramid = self.pyramid
        settings = {
            "kind": self.kind,
            "label": self.label,
            "ignored": list(self.ignored),
            "shape": None if self.shape is None else list(self.shape),
            "pyramid": None if pyramid is None else {name: getattr(pyramid, name) for name in _PYRAMID_PARAMETERS},
        }
        if self.group is not None:
            settings["group"] = self.group
        return settings if self.imputer is None else settings | {"imputer": self.imputer.get_settings()}

    def get_arrays(self) -> dict[str, AnyArray]:
        """Return the arrays by the names they have in a model file."""
        words = None if self.pyramid is None else self.pyramid.vocabulary_
        parts = {
            "centre": self.center,  # the key in files
            "scale": self.scale,
            "vocabulary": words,
            "names": self.names,
            "thumbnails": self.thumbnails,
            "rows": self.rows,
        } | ({} if self.imputer is None else self.imputer.get_arrays())
        return {f"intake/{name}": array for name, array in parts.items() if array is not None}

    @classmethod
    def restore(
        cls, settings: dict[str, Any], arrays: dict[str, AnyArray], n_features: int, n_rows: int | None = None
    ) -> FeatureRecipe:
        """Rebuild the recipe that :meth:`get_settings` and :meth:`get_arrays` were called on.

        ``n_features`` and ``n_rows`` (if it is recorded) are those of the classifier; a ValueError or KeyError says
        that something does not fit.
        """
        kind, label, ignored, shape = (settings[name] for name in ("kind", "label", "ignored", "shape"))
        found = {name: arrays.get(f"intake/{name}") for name in ("centre", "scale", "names", "thumbnails", "rows")}
        _check(kind in KINDS and (label is None or isinstance(label, str)), "kind")
        group = settings.get("group")
        _check(group is None or (isinstance(group, str) and kind == "table"), "groups")
        _check(isinstance(ignored, list) and all(isinstance(name, str) for name in ignored), "columns")
        _check((found["centre"] is None) == (found["scale"] is None), "scales")
        for array in (found["centre"], found["scale"]):
            if array is not None:
                fine = array.shape == (n_features,) and array.dtype == np.float64 and bool(np.isfinite(array).all())
                _check(kind == "table" and fine, "scales")
        if found["scale"] is not None:
            _check(bool((found["scale"] > 0).all()), "scales")
        pyramid = _restore_pyramid(settings["pyramid"], arrays, n_features) if kind == "pyramid" else None
        if kind == "pixels":
            _check(isinstance(shape, list) and len(shape) == 2 and all(type(side) is int for side in shape), "shape")
            _check(min(shape) >= 1 and shape[0] * shape[1] == n_features, "shape")
        rows = found["rows"]
        if rows is not None:
            right = kind == "table" and rows.dtype == np.int64 and rows.shape == (n_rows,)
            _check(right and bool((rows >= 0).all()), "rows")
        imputer = None
        if settings.get("imputer") is not None:
            _check(kind == "table", "imputer")
            imputer = Imputer.restore(settings["imputer"], arrays, n_features)
        names, small = found["names"], found["thumbnails"]
        if kind != "table":
            _check(names is not None and names.ndim == 1 and names.dtype.kind == "U", "names")
            _check(n_rows is None or len(names) == n_rows, "names")  # type: ignore[arg-type]
            right = small is not None and small.dtype == np.uint8 and names is not None
            _check(right and small.shape == (len(names), THUMBNAIL, THUMBNAIL), "pictures")  # type: ignore[union-attr,arg-type]
        return cls(
            kind, label, tuple(ignored), found["centre"], found["scale"],
            tuple(shape) if kind == "pixels" else None, pyramid, names, small, rows, imputer, group,
        )  # fmt: skip


def _restore_pyramid(settings: Any, arrays: dict[str, AnyArray], n_features: int) -> SpatialPyramid:
    _check(isinstance(settings, dict) and set(settings) == set(_PYRAMID_PARAMETERS), "pyramid")
    pyramid = SpatialPyramid(**settings)
    pyramid._check_parameters()
    sizes = (pyramid.patch, pyramid.step, pyramid.max_side or 1)
    _check(all(size <= _MOST_PIXELS for size in sizes), "pyramid")
    words = arrays["intake/vocabulary"]
    right = words.ndim == 2 and words.shape[1] == _DESCRIPTOR and words.dtype == np.float64
    _check(right and bool(np.isfinite(words).all()) and pyramid.levels <= _MOST_LEVELS, "visual words")
    _check(len(words) == pyramid.n_words, "visual words")
    _check(words.shape[0] * sum(4**level for level in range(pyramid.levels)) == n_features, "visual words")
    pyramid.vocabulary_ = words
    return pyramid


def _check(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"invalid {what} in the feature recipe.")


# -- tables ----------------------------------------------------------------------------------------------


def compute_scale(X: Array) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of every column, 1 for columns that are constant but for rounding.

    The argument of an `OverflowError` is the place of a column whose numbers are too large.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        center, scale = X.mean(axis=0), X.std(axis=0)
    bad = ~(np.isfinite(center) & np.isfinite(scale))
    if bad.any():
        raise OverflowError(int(np.argmax(bad)))
    # A sum rounds once per row, so that a deviation this small relative to the numbers is rounding error.
    scale[scale <= len(X) * np.finfo(np.float64).eps * np.abs(X).max(axis=0)] = 1.0
    return center, scale


# -- pictures --------------------------------------------------------------------------------------------


def make_thumbnail(gray: Array) -> AnyArray:
    """Return a small copy of a picture in the middle of a white square, (64, 64) of uint8."""
    height, width = gray.shape
    factor = THUMBNAIL / max(height, width)
    shape = (max(1, round(factor * height)), max(1, round(factor * width)))
    out: AnyArray = np.full((THUMBNAIL, THUMBNAIL), 255, np.uint8)
    top, left = (THUMBNAIL - shape[0]) // 2, (THUMBNAIL - shape[1]) // 2
    out[top : top + shape[0], left : left + shape[1]] = np.round(255 * resize_picture(gray, shape))
    return out

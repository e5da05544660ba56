"""How files became features: what a model has to remember so that a later file is treated like the first.

The command line fits to tables and to folders of pictures. Which column had the classes, which columns were left out,
how they were scaled; to which size pictures were brought, or which visual words they are counted in; small copies of
the training pictures, to be shown where a new picture was rebuilt from them: a :class:`FeatureRecipe` holds it all, the
classifier carries it (``feature_recipe_``), the model file keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from ..features import SpatialPyramid, read_picture

__all__ = ["THUMBNAIL", "FeatureRecipe", "pixels_of", "standard_scale", "thumbnail_of"]

#: Side of the small copies of training pictures.
THUMBNAIL = 64
KINDS = ("table", "pixels", "pyramid")
# Numbers of a SIFT descriptor; a pyramid of more levels, patches or pictures larger than this are none of ours.
_DESCRIPTOR, _MOST_LEVELS, _MOST_PIXELS = 128, 8, 4096
_OF_PYRAMID = ("n_words", "levels", "step", "patch", "max_side", "square_root")


@dataclass(frozen=True, eq=False)
class FeatureRecipe:
    """How rows of a table, or pictures, become features.

    Attributes
    ----------
    kind : {"table", "pixels", "pyramid"}
    label : str or None
        Where the classes of a table were: a column, or an array.
    ignored : tuple of str
        Columns that were left out.
    centre, scale : ndarray (n_features,) or None
        What is taken from the columns of a table, and what they are divided by afterwards.
    shape : (height, width) or None
        Of pictures whose features are pixels.
    pyramid : SpatialPyramid or None
        Fitted, for pictures whose features are counts of visual words.
    rows : ndarray of int (n_rows,) or None
        Rows of the table that became training samples, where some were left out.
    names : ndarray of str (n_rows,) or None
        Of training pictures, relative to their folder.
    thumbnails : ndarray of uint8 (n_rows, 64, 64) or None
        Small copies of them, row by row of the training samples.
    """

    kind: str
    label: str | None = None
    ignored: tuple[str, ...] = ()
    centre: Array | None = None
    scale: Array | None = None
    shape: tuple[int, int] | None = None
    pyramid: SpatialPyramid | None = None
    names: AnyArray | None = None
    thumbnails: AnyArray | None = None
    rows: IntArray | None = None

    @property
    def of_pictures(self) -> bool:
        """Whether features are made from pictures."""
        return self.kind != "table"

    def scaled(self, X: Array) -> Array:
        """The numbers of a table as the classifier takes them."""
        if self.centre is None or self.scale is None:
            return X
        return (X - self.centre) / self.scale

    def features_of(self, paths: Sequence[Path]) -> Array:
        """The features of pictures.

        Raises
        ------
        ValueError
            If one of them cannot be read; it is named.
        """
        if self.pyramid is not None:
            return self.pyramid.transform(list(paths))
        assert self.shape is not None
        return np.stack([pixels_of(read_picture(path, None), self.shape).ravel() for path in paths])

    def with_pictures(self, names: Sequence[str], thumbnails: AnyArray) -> FeatureRecipe:
        """The same with further training pictures."""
        assert self.names is not None and self.thumbnails is not None
        joined = np.concatenate([self.thumbnails, thumbnails])
        return replace(self, names=np.array([*self.names.tolist(), *names]), thumbnails=joined)

    def padded(self, n_rows: int) -> FeatureRecipe:
        """The same for so many training samples, those that came later numbered on.

        Those that came without a picture have a white one without a name.
        """
        if self.rows is not None:
            return replace(self, rows=np.concatenate([self.rows, np.arange(len(self.rows), n_rows, dtype=np.int64)]))
        if self.names is None or len(self.names) >= n_rows:
            return self
        more = n_rows - len(self.names)
        return self.with_pictures([""] * more, np.full((more, THUMBNAIL, THUMBNAIL), 255, np.uint8))

    # -- files -------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """What is not an array, for a model file."""
        pyramid = self.pyramid
        return {
            "kind": self.kind,
            "label": self.label,
            "ignored": list(self.ignored),
            "shape": None if self.shape is None else list(self.shape),
            "pyramid": None if pyramid is None else {name: getattr(pyramid, name) for name in _OF_PYRAMID},
        }

    def arrays(self) -> dict[str, AnyArray]:
        """The arrays, for a model file."""
        words = None if self.pyramid is None else self.pyramid.vocabulary_
        parts = {
            "centre": self.centre,
            "scale": self.scale,
            "vocabulary": words,
            "names": self.names,
            "thumbnails": self.thumbnails,
            "rows": self.rows,
        }
        return {f"intake/{name}": array for name, array in parts.items() if array is not None}

    @classmethod
    def restored(
        cls, settings: dict[str, Any], arrays: dict[str, AnyArray], n_features: int, n_rows: int | None = None
    ) -> FeatureRecipe:
        """What :meth:`settings` and :meth:`arrays` were taken from.

        Parameters
        ----------
        settings, arrays : dict
        n_features : int
            Of the classifier.
        n_rows : int, optional
            Training samples of the classifier, where it numbers them.

        Raises
        ------
        ValueError or KeyError
            If they do not fit together.
        """
        kind, label, ignored, shape = (settings[name] for name in ("kind", "label", "ignored", "shape"))
        found = {name: arrays.get(f"intake/{name}") for name in ("centre", "scale", "names", "thumbnails", "rows")}
        _expect(kind in KINDS and (label is None or isinstance(label, str)), "kind")
        _expect(isinstance(ignored, list) and all(isinstance(name, str) for name in ignored), "columns")
        _expect((found["centre"] is None) == (found["scale"] is None), "scales")
        for array in (found["centre"], found["scale"]):
            if array is not None:
                fine = array.shape == (n_features,) and array.dtype == np.float64 and bool(np.isfinite(array).all())
                _expect(kind == "table" and fine, "scales")
        if found["scale"] is not None:
            _expect(bool((found["scale"] > 0).all()), "scales")
        pyramid = _restored_pyramid(settings["pyramid"], arrays, n_features) if kind == "pyramid" else None
        if kind == "pixels":
            _expect(isinstance(shape, list) and len(shape) == 2 and all(type(side) is int for side in shape), "shape")
            _expect(min(shape) >= 1 and shape[0] * shape[1] == n_features, "shape")
        rows = found["rows"]
        if rows is not None:
            right = kind == "table" and rows.dtype == np.int64 and rows.shape == (n_rows,)
            _expect(right and bool((rows >= 0).all()), "rows")
        names, small = found["names"], found["thumbnails"]
        if kind != "table":
            _expect(names is not None and names.ndim == 1 and names.dtype.kind == "U", "names")
            _expect(n_rows is None or len(names) == n_rows, "names")  # type: ignore[arg-type]
            right = small is not None and small.dtype == np.uint8 and names is not None
            _expect(right and small.shape == (len(names), THUMBNAIL, THUMBNAIL), "pictures")  # type: ignore[union-attr,arg-type]
        return cls(
            kind, label, tuple(ignored), found["centre"], found["scale"],
            tuple(shape) if kind == "pixels" else None, pyramid, names, small, rows,
        )  # fmt: skip


def _restored_pyramid(settings: Any, arrays: dict[str, AnyArray], n_features: int) -> SpatialPyramid:
    _expect(isinstance(settings, dict) and set(settings) == set(_OF_PYRAMID), "pyramid")
    pyramid = SpatialPyramid(**settings)
    pyramid._check_parameters()
    sizes = (pyramid.patch, pyramid.step, pyramid.max_side or 1)
    _expect(all(size <= _MOST_PIXELS for size in sizes), "pyramid")
    words = arrays["intake/vocabulary"]
    right = words.ndim == 2 and words.shape[1] == _DESCRIPTOR and words.dtype == np.float64
    _expect(right and bool(np.isfinite(words).all()) and pyramid.levels <= _MOST_LEVELS, "visual words")
    _expect(len(words) == pyramid.n_words, "visual words")
    _expect(words.shape[0] * sum(4**level for level in range(pyramid.levels)) == n_features, "visual words")
    pyramid.vocabulary_ = words
    return pyramid


def _expect(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"the {what} of its intake make no sense.")


# -- tables ----------------------------------------------------------------------------------------------


def standard_scale(X: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of every column; one for the deviation of columns that are constant but for rounding.

    Raises
    ------
    OverflowError
        If a column's numbers are too large for it: its argument is the number of the column.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        centre, scale = X.mean(axis=0), X.std(axis=0)
    bad = ~(np.isfinite(centre) & np.isfinite(scale))
    if bad.any():
        raise OverflowError(int(np.argmax(bad)))
    # Sums over rows round once a row; a deviation that small beside the numbers themselves is rounding.
    scale[scale <= len(X) * np.finfo(np.float64).eps * np.abs(X).max(axis=0)] = 1.0
    return centre, scale


# -- pictures --------------------------------------------------------------------------------------------


def pixels_of(grey: Array, shape: tuple[int, int]) -> Array:
    """A picture of grey values at another size, each new pixel a weighted mean of the old ones around it."""
    if grey.shape == shape:
        return grey
    from PIL import Image

    scaled = Image.fromarray(grey.astype(np.float32)).resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
    return np.clip(np.asarray(scaled, dtype=np.float64), 0.0, 1.0)


def thumbnail_of(grey: Array) -> AnyArray:
    """A small copy of a picture in the middle of a white square, (64, 64) of uint8."""
    height, width = grey.shape
    factor = THUMBNAIL / max(height, width)
    shape = (max(1, round(factor * height)), max(1, round(factor * width)))
    out: AnyArray = np.full((THUMBNAIL, THUMBNAIL), 255, np.uint8)
    top, left = (THUMBNAIL - shape[0]) // 2, (THUMBNAIL - shape[1]) // 2
    out[top : top + shape[0], left : left + shape[1]] = np.round(255 * pixels_of(grey, shape))
    return out

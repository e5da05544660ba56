"""From DATA to the samples of a comparison: at most so many of each class, and what must be said about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bad_input import BadInput
from .input_data import DataOptions, check_kind_of_options, column_scale, is_picture_data, notes_of, open_labelled
from .picture_options import SMALL_PICTURE, USUAL_SHAPE, chosen_features, usual_shape

if TYPE_CHECKING:
    from ..datasets import Dataset

__all__ = ["ComparisonData", "read_comparison_data"]

#: Samples of a class, and of all classes together, that a comparison of all methods ends with in minutes.
USUAL_OF_A_CLASS, USUAL_OF_ALL = 200, 4000
#: Of a class, however many classes there are.
USUAL_LEAST = 10
_BATCH = 4096


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """Samples, and what the user must know of them.

    Attributes
    ----------
    dataset : Dataset
        Rows of numbers, or paths of pictures whose features are learnt in each trial.
    n_seen : int
        Samples there were.
    label : str or None
        The column, or array, that the classes came from.
    notes : list of str
        A sentence each.
    """

    dataset: Dataset
    n_seen: int
    label: str | None = None
    notes: list[str] = field(default_factory=list)


def read_comparison_data(
    data: str,
    options: DataOptions,
    *,
    features: str | None,
    size: str | None,
    standardise: bool,
    most: int | None,
    seed: int,
    shown: bool = True,
) -> ComparisonData:
    """Read DATA.

    Parameters
    ----------
    data : str
        A table, ``-`` for standard input, or a folder of pictures.
    options : DataOptions
    features : {"pixels", "pyramid"} or None
    size : str or None
        Of pictures, as in ``32x32``.
    standardise : bool
        Whether columns are going to be scaled.
    most : int or None
        Samples of a class; None: 200, fewer where there are many classes.
    seed : int
        Of the choice among more.
    shown : bool
        Whether progress may be shown on a terminal.
    """
    check_kind_of_options(data, options)
    if is_picture_data(data):
        if standardise:
            raise BadInput("--standardise is for tables: the features of pictures have a common scale.")
        return _of_pictures(data, options, features, size, most, seed, shown)
    if features is not None or size is not None:
        raise BadInput(f"--features and --size are for pictures, and {data} is a table.")
    return _of_table(data, options, standardise, most, seed, shown)


def _of_table(
    data: str, options: DataOptions, standardise: bool, most: int | None, seed: int, shown: bool
) -> ComparisonData:
    from ..datasets import Dataset
    from ..tables import SampledClasses, numbered, overview_of
    from .console import progress

    source = open_labelled(data, options)
    drawn = SampledClasses(USUAL_OF_A_CLASS if most is None else most, seed)
    with progress("Reading", shown=shown) as update:
        for rows in source.batches(_BATCH):
            assert rows.labels is not None
            drawn.add(rows.X, rows.labels)
            update(sum(drawn.n_seen.values()), source.fraction)
    n_each = _of_each(drawn.n_seen, most)
    X, labels = drawn.taken(n_each)
    if standardise:
        column_scale(X, source)  # that it can be done; each trial does it with its own training samples
    y, names = numbered(labels.tolist())
    notes = notes_of(source)
    if source.dropped:
        notes.append(f"{source.dropped:,} rows with missing values are left out.")
    notes += _sampled(drawn.n_seen, n_each)
    notes += overview_of(X, labels, source.feature_names).remarks(scaled=standardise)
    name = "standard input" if data == "-" else Path(data).stem
    read = f"read from {source.name}, classes from {source.label!r}"
    return ComparisonData(Dataset(name, X, y, names, read), sum(drawn.n_seen.values()), source.label, notes)


def _of_pictures(
    data: str, options: DataOptions, features: str | None, size: str | None, most: int | None, seed: int, shown: bool
) -> ComparisonData:
    import numpy as np

    from ..datasets import Dataset
    from ..tables import ReadError, SampledClasses, labelled_pictures, numbered, pixels_of, read_all
    from .console import progress

    kind, shape = chosen_features(features, size)
    if not Path(data).is_dir():
        raise BadInput(f"{data} is one picture: give a folder with a sub-folder of pictures for each class.")
    paths, classes, _ = labelled_pictures(data)
    drawn = SampledClasses(USUAL_OF_A_CLASS if most is None else most, seed)
    drawn.add(np.array([str(path.absolute()) for path in paths]), np.array(classes))
    n_each = _of_each(drawn.n_seen, most)
    X, labels = drawn.taken(n_each)
    notes = _sampled(drawn.n_seen, n_each)

    def look(grey: Any) -> Any:
        """What is kept of a picture: itself where it is small, and a copy of the size that is wanted or usual."""
        if kind != "pixels":
            return None
        whole = grey if shape is None and grey.size <= SMALL_PICTURE else None
        return whole, pixels_of(grey, shape or USUAL_SHAPE)

    with progress("Reading pictures", unit="pictures", shown=shown) as update:
        shapes, greys, kept = read_all([Path(path) for path in X.tolist()], look, options.skip_broken, update)
    if not kept:
        raise ReadError(f"{data} has no picture that can be read.")
    if len(kept) < len(X):
        notes.append(f"{len(X) - len(kept):,} pictures that cannot be read are left out.")
    X, labels = X[kept], labels[kept]
    made = "spatial pyramids of visual words, learnt on the training pictures of each trial"
    if kind == "pixels":
        shape = shape or usual_shape(shapes)
        X = np.stack(
            [(whole if whole is not None and whole.shape == shape else small).ravel() for whole, small in greys]
        )
        made = f"grey values at {shape[0]} × {shape[1]} pixels"
    y, names = numbered(labels.tolist())
    name = Path(data).resolve().name
    return ComparisonData(Dataset(name, X, y, names, f"pictures in {name}: {made}"), len(paths), None, notes)


def _of_each(n_seen: dict[str, int], most: int | None) -> int:
    """Samples of each class that take part."""
    if most is not None:
        return most
    return min(USUAL_OF_A_CLASS, max(USUAL_OF_ALL // len(n_seen), USUAL_LEAST))


def _sampled(n_seen: dict[str, int], n_each: int) -> list[str]:
    """Which classes are not met in full."""
    cut = sum(n > n_each for n in n_seen.values())
    if not cut:
        return []
    whole, taken = sum(n_seen.values()), sum(min(n, n_each) for n in n_seen.values())
    return [
        f"{taken:,} of {whole:,} samples take part, drawn by chance: {cut} of {len(n_seen)} classes have more than "
        f"{n_each}, the most of a class (--max-samples)."
    ]

"""From DATA to the samples of a comparison: a limited number of each class, with notes for the user."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._support.messages import count_of
from ..operations.input_errors import InputError
from ..operations.model_input import check_options, format_notes, is_picture_data
from .console import progress
from .input_data import SMALL_PICTURE, USUAL_SHAPE, FeatureOptions, choose_shape, compute_column_scale

if TYPE_CHECKING:
    from ..datasets.dataset import Dataset
    from ..tables.read_options import ReadOptions

#: Default numbers of samples per class and in all; with these a comparison of all methods takes minutes.
PER_CLASS, IN_ALL = 200, 4000
#: Default least number of samples per class, however many classes there are.
LEAST_PER_CLASS = 10
_BATCH = 4096


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """Samples (numbers, or paths of pictures), their number in DATA, where the classes came from, and notes."""

    dataset: Dataset
    n_seen: int
    label: str | None
    notes: list[str]


def read_comparison_data(
    data: str, options: ReadOptions, features: FeatureOptions, *, most: int | None, seed: int, shown: bool
) -> ComparisonData:
    """Read a table, standard input or a folder of pictures; at most ``most`` samples of a class, drawn by the seed."""
    check_options(data, options)
    features.check(data)
    if is_picture_data(data):
        return _read_pictures(data, options, features, most, seed, shown)
    return _read_table(data, options, features.standardize, most, seed, shown)


def _read_table(
    data: str, options: ReadOptions, standardize: bool, most: int | None, seed: int, shown: bool
) -> ComparisonData:
    from ..datasets.dataset import Dataset
    from ..tables.data_overview import ClassSampler, make_overview, number_classes
    from ..tables.formats import open_rows

    source = open_rows(data, options, labels="required")
    drawn = ClassSampler(PER_CLASS if most is None else most, seed)
    with progress("Reading", shown=shown) as update:
        for rows in source.batches(_BATCH):
            assert rows.labels is not None
            drawn.add(rows.X, rows.labels)
            update(sum(drawn.n_seen.values()), source.fraction)
    n_each = _choose_number(drawn.n_seen, most)
    X, labels = drawn.take(n_each)
    if standardize:
        compute_column_scale(X, source)  # a check only: each trial scales by its own training samples
    y, names = number_classes(labels.tolist())
    _check_names(data, names)
    notes = format_notes(source)
    if source.dropped:
        notes.append(f"{count_of(source.dropped, 'row')} with missing values left out.")
    notes += _note_sampling(drawn.n_seen, n_each)
    notes += make_overview(X, labels, source.feature_names).get_remarks(scaled=standardize)
    name = "standard input" if data == "-" else Path(data).stem
    read = f"read from {source.name}, classes from {source.label!r}"
    return ComparisonData(Dataset(name, X, y, names, read), sum(drawn.n_seen.values()), source.label, notes)


def _read_pictures(
    data: str, options: ReadOptions, features: FeatureOptions, most: int | None, seed: int, shown: bool
) -> ComparisonData:
    import numpy as np

    from ..datasets.dataset import Dataset
    from ..features.gray_values import resize_picture
    from ..tables.data_overview import ClassSampler, number_classes
    from ..tables.picture_rows import list_labeled_pictures, read_pictures
    from ..tables.row_source import ReadError

    kind, shape = features.kind, features.shape
    if not Path(data).is_dir():
        raise InputError(f"{data} is one picture: give a folder with a subfolder of pictures for each class.")
    paths, classes, _ = list_labeled_pictures(data)
    drawn = ClassSampler(PER_CLASS if most is None else most, seed)
    drawn.add(np.array([str(path.absolute()) for path in paths]), np.array(classes))
    n_each = _choose_number(drawn.n_seen, most)
    X, labels = drawn.take(n_each)
    notes = _note_sampling(drawn.n_seen, n_each)

    def look(gray: Any) -> Any:
        """Return the picture itself if it is small, and a copy of the size that is asked for or usual."""
        if kind != "pixels":
            return None
        whole = gray if shape is None and gray.size <= SMALL_PICTURE else None
        return whole, resize_picture(gray, shape or USUAL_SHAPE)

    with progress("Reading pictures", unit="pictures", shown=shown) as update:
        shapes, grays, kept = read_pictures([Path(path) for path in X.tolist()], look, options.skip_broken, update)
    if not kept:
        raise ReadError(f"{data} has no picture that can be read.")
    if len(kept) < len(X):
        notes.append(f"{count_of(len(X) - len(kept), 'unreadable picture')} left out.")
    X, labels = X[kept], labels[kept]
    made = "spatial pyramids of visual words, learned on the training pictures of each trial"
    if kind == "pixels":
        shape = shape or choose_shape(shapes)
        X = np.stack(
            [(whole if whole is not None and whole.shape == shape else small).ravel() for whole, small in grays]
        )
        made = f"gray values at {shape[0]} × {shape[1]} pixels"
    y, names = number_classes(labels.tolist())
    _check_names(data, names)
    name = Path(data).resolve().name
    return ComparisonData(Dataset(name, X, y, names, f"pictures in {name}: {made}"), len(paths), None, notes)


def _check_names(data: str, names: Iterable[str]) -> None:
    """Raise if a class cannot be fitted: each method would do so later."""
    from .._support.unknown_label import describe_reserved, find_reserved

    reserved = find_reserved(None, names)
    if reserved is not None:
        raise InputError(f"{data}: {describe_reserved(reserved, 'give it another name')}")


def _choose_number(n_seen: dict[str, int], most: int | None) -> int:
    """Return the largest number of samples per class."""
    return min(PER_CLASS, max(IN_ALL // len(n_seen), LEAST_PER_CLASS)) if most is None else most


def _note_sampling(n_seen: dict[str, int], n_each: int) -> list[str]:
    """Return a note on the classes of which only some samples are used."""
    cut = sum(n > n_each for n in n_seen.values())
    if not cut:
        return []
    whole, taken = sum(n_seen.values()), sum(min(n, n_each) for n in n_seen.values())
    return [
        f"{taken:,} of {whole:,} samples are used, drawn at random: {cut} of {len(n_seen)} classes have more than "
        f"{n_each}, the largest number per class (--max-samples)."
    ]

"""Tables, arrays and pictures that were uploaded become rows; what is too large is noticed early."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from traceback import print_exception
from warnings import simplefilter

import numpy as np

from .._support.array_types import AnyArray
from ..features.gray_values import read_picture
from ..operations.input_errors import InputError, escape_unprintable
from ..tables.feature_recipe import FeatureRecipe, make_thumbnail
from ..tables.formats import open_rows
from ..tables.row_source import MissingColumn, ReadError
from . import schemas
from .samples import PICTURES, Expected, Reading, Samples, add_beside, choose_rows, parse_json, read_json, take_rows
from .schemas import ApiError, SampleParameters, check_parameters

_SIDES = make_thumbnail(np.ones((1, 1))).shape
#: Picture formats that Pillow may decode. Others run programs, or are little used and tested.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")


def read_samples(
    reading: Reading, expected: Expected, words: Mapping[str, AnyArray], report: Callable[..., None]
) -> tuple[SampleParameters, Samples]:
    """Read the files of a request; return its parameters and samples."""
    kind: type[SampleParameters] = getattr(schemas, reading.kind)
    report("Reading")
    if reading.format == "json":
        return read_json(Path(reading.files[0]).read_bytes(), kind, reading.given, expected)
    parameters = check_parameters(kind, reading.given)
    try:
        if reading.format == PICTURES:
            samples = _read_pictures(reading, parameters, expected, words, report)
        else:
            samples = _read_table(reading, parameters, expected)
        return parameters, samples
    except (InputError, ReadError) as error:
        if isinstance(error.__context__, MemoryError):
            raise MemoryError from None
        raise InputError(_rename(str(error), reading)) from None
    except OSError as error:
        raise InputError(f"{reading.names[0]} cannot be read: {error.strerror or 'it is damaged'}.") from None
    except (ApiError, MemoryError):
        raise
    except Exception as error:
        # Readers turn what libraries raise into sentences. Should one be missing, the client still gets one.
        print_exception(error)
        raise InputError(
            f"{reading.names[0]} cannot be read: it is damaged or not of the kind it is said to be."
        ) from None


def _rename(text: str, reading: Reading) -> str:
    """Put the names that a client knows in the place of private paths."""
    for path, name in zip(reading.files[::-1], reading.names[::-1], strict=True):  # .../10 before .../1
        text = text.replace(path, name)
    return escape_unprintable(text)


def _read_table(reading: Reading, parameters: SampleParameters, expected: Expected) -> Samples:
    """Read a table or an array."""
    path, name = reading.files[0], reading.names[0]
    if expected.recipe is not None:
        raise InputError(
            f"{name} is not a folder of pictures, and the model was fitted to pictures: give a folder or a picture."
        )
    if reading.format == "csv":
        with open(path, "rb") as file:
            line = file.readline()
        if max(map(line.count, (b",", b";", b"\t", b"|"))) >= expected.most_columns:
            raise ApiError(413, f"{name} has more than {expected.most_columns:,} columns: send a table with fewer.")
    beside = {what: parse_json(text.encode(), what) for what, text in reading.beside.items()}
    group = getattr(parameters, "group", None)
    if group is None and parameters.groups and "groups" not in beside:
        group = expected.group
    labels = "optional" if "labels" in beside else parameters.own_labels
    options = expected.make_options(parameters, labels=labels, group=group)
    try:
        source = open_rows(path, options)
    except MissingColumn as error:
        if error.column != group or group != expected.group:
            raise
        if parameters.labels == "required":
            raise InputError(
                f"{path} has no column {group!r} of groups, and the model was fitted with groups: add the column."
            ) from None
        source, group = open_rows(path, replace(options, group=None)), None
    source.name = name
    return take_rows(source, parameters, expected, group=group, beside=beside)


def restrict_formats() -> None:
    """Leave Pillow only the decoders of common pictures; more pixels than allowed are an error."""
    from PIL import Image, ImageOps  # noqa: F401

    Image.init()
    Image.ID[:] = [name for name in Image.ID if name in _FORMATS]
    simplefilter("error", Image.DecompressionBombWarning)


def _read_pictures(
    reading: Reading,
    parameters: SampleParameters,
    expected: Expected,
    words: Mapping[str, AnyArray],
    report: Callable[..., None],
) -> Samples:
    """Read pictures as the model sees them, and small copies of them."""
    names, paths = reading.names, [Path(file) for file in reading.files]
    what = names[0] if len(names) == 1 else f"{len(names):,} files"
    if expected.recipe is None:
        fitted = f"the model was fitted to a table of {expected.n_features} features"
        raise InputError(f"{what} hold{'s' if len(names) == 1 else ''} pictures, but {fitted}.")
    for path, name in zip(paths, names, strict=True):
        _check_pixels(path, name, expected.most_pixels)
    # How the model sees pictures, without its training pictures.
    nothing = {"intake/names": np.array([], dtype="U1"), "intake/thumbnails": np.empty((0, *_SIDES), np.uint8)}
    recipe = FeatureRecipe.restore(expected.recipe, {**words, **nothing}, expected.n_features)
    rows, small, whole = [], [], []
    for place, path in enumerate(paths):
        report("Reading", place, len(paths))
        try:
            thumbnail, features = make_thumbnail(read_picture(path, None)), recipe.compute_features([path])
        except ValueError as error:
            if parameters.skip_broken or parameters.one_row:
                continue
            hint = "replace or remove it, or leave such pictures out with --skip-broken."
            raise ReadError(f"{str(error).rstrip('.')}; {hint}") from None
        rows.append(features)
        small.append(thumbnail)
        whole.append(place)
    if not whole:
        raise ReadError(f"{names[0]} cannot be read as a picture." if len(paths) == 1 else "No picture can be read.")
    samples = Samples(
        np.concatenate(rows),
        np.array(whole, dtype=np.int64),
        what,
        files=[names[place] for place in whole],
        thumbnails=np.stack(small),
        dropped=len(paths) - len(whole),
        seen=len(paths),
    )
    beside = {what: parse_json(text.encode(), what) for what, text in reading.beside.items()}
    return choose_rows(add_beside(samples, beside), parameters)


def _check_pixels(path: Path, name: str, most: int) -> None:
    """Raise if a picture is too large, from what its first bytes say."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = most
    try:
        Image.open(path).close()
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise ApiError(413, f"{name} has more than the {most:,} pixels that are allowed: send it smaller.") from None
    except Exception:  # read_picture says what is wrong
        pass

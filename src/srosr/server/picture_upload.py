"""Pictures that were uploaded become rows of features, in a child process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from warnings import simplefilter

import numpy as np

from .._support.array_types import AnyArray
from ..features.gray_values import read_picture
from ..tables.feature_recipe import FeatureRecipe, make_thumbnail
from ..tables.row_source import ReadError
from .jobs import CONFLICT, TOO_LARGE, Answer, ChildJob, Refusal

#: Formats that are decoded, as Pillow calls them. Others run programs, or are rarely used and little tested.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")


def restrict_formats() -> None:
    """Leave Pillow, if it is there, only the decoders of common pictures; more pixels than allowed are an error."""
    with suppress(ImportError):
        from PIL import Image, ImageOps  # noqa: F401

        Image.init()
        Image.ID[:] = [name for name in Image.ID if name in _FORMATS]
        simplefilter("error", Image.DecompressionBombWarning)


def read_pictures(job: ChildJob) -> Answer:
    header, limits = job.header, job.header["limits"]
    paths, names = [Path(file) for file in header["files"]], header["names"]
    if len(paths) > limits["files"]:
        raise Refusal(f"{len(paths):,} pictures were sent, and {limits['files']:,} are allowed at a time.", TOO_LARGE)
    recipe = _restore_recipe(header, job.arrays)
    skips = bool(header["options"].get("skip_broken"))
    rows, small, whole = [], [], []
    try:
        for path, name in zip(paths, names, strict=True):
            _check_pixels(path, name, limits["pixels"])
        for place, path in enumerate(paths):
            job.report("Reading", place, len(paths))
            try:
                thumbnail, features = make_thumbnail(read_picture(path, None)), recipe.compute_features([path])
            except ValueError as error:
                if skips:
                    continue
                hint = "replace or remove it, or leave such pictures out with --skip-broken."
                raise ReadError(f"{str(error).rstrip('.')}; {hint}") from None
            rows.append(features)
            small.append(thumbnail)
            whole.append(place)
    except ImportError as error:  # without Pillow
        raise Refusal(str(error), CONFLICT) from None
    if not whole:
        raise ReadError(f"{paths[0]} cannot be read as a picture." if len(paths) == 1 else "No picture can be read.")
    found: dict[str, Any] = {
        "labels": None,
        "label": None,
        "groups": None,
        "kept": {"file": [names[place] for place in whole]},
        "notes": [],
        "dropped": len(paths) - len(whole),
        "seen": len(paths),
        "feature_names": None,
    }
    numbers = np.array(whole, dtype=np.int64)
    return Answer(found, {"X": np.concatenate(rows), "numbers": numbers, "thumbnails": np.stack(small)})


def _restore_recipe(header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> FeatureRecipe:
    """Rebuild how a model sees pictures, without its training pictures."""
    side = make_thumbnail(np.ones((1, 1))).shape
    nothing = {"intake/names": np.array([], dtype="U1"), "intake/thumbnails": np.empty((0, *side), np.uint8)}
    return FeatureRecipe.restore(header["recipe"], {**arrays, **nothing}, header["features"])


def _check_pixels(path: Path, name: str, most: int) -> None:
    """Raise if a picture is too large, from what its first bytes say."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    width = height = 0
    with suppress(Exception), open(path, "rb") as file, Image.open(file) as image:  # read_picture says what is wrong
        width, height = image.size
    Image.MAX_IMAGE_PIXELS = most
    if width * height > most:
        raise Refusal(
            f"{name} has {width:,} × {height:,} pixels, and {most:,} are allowed: send it smaller.", TOO_LARGE
        )

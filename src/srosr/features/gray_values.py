"""Gray values of pictures: read from a file, or given as an array."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from .._support.array_types import AnyArray, Array
from .._support.parameter_checks import check_count

if TYPE_CHECKING:
    from PIL import Image

# The value of white in modes of more than eight bits. Pillow before version 11 opens 16-bit PNG files as "I".
_WHITE = {"I": 65535.0, "I;16": 65535.0, "I;16B": 65535.0, "I;16L": 65535.0, "I;16N": 65535.0, "F": 1.0}
_NO_PILLOW = 'Reading pictures needs Pillow: install it with pip install "srosr[images]".'


def read_picture(path: str | os.PathLike[str], max_side: int | None = 300) -> Array:
    r"""Read a picture as gray values.

    Gray is :math:`0.299 R + 0.587 G + 0.114 B` (ITU-R 601). The picture is rotated as its EXIF orientation says,
    transparent parts are put on white, and only the first frame of an animation is read. It is scaled down, each new
    pixel a weighted mean of the old ones around it, so that its longer side is at most ``max_side``, and never up.

    Parameters
    ----------
    path : path
        A file in any format Pillow reads: gray, color, with palette, transparent, CMYK, 16 bits.
    max_side : int, optional
        Largest length of the longer side in pixels; the default is about what Lazebnik et al. use. None keeps the size.

    Returns
    -------
    picture : ndarray (height, width)
        From 0, black, to 1, white.

    Raises
    ------
    ImportError
        Without Pillow, which the extra ``images`` installs.
    OSError
        If there is no such file (`FileNotFoundError`), or it may not be read.
    ValueError
        If it is not a picture, is broken or empty, has more pixels than Pillow considers safe
        (``PIL.Image.MAX_IMAGE_PIXELS``), or has values outside the range from black to white.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from srosr import read_picture
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "white.png"
    ...     Image.new("RGB", (600, 400), "white").save(path)
    ...     picture = read_picture(path)
    >>> picture.shape, float(picture.min())
    ((200, 300), 1.0)
    """
    if max_side is not None:
        max_side = check_count("max_side", max_side)
    name = os.fspath(path)
    try:
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise ImportError(_NO_PILLOW) from error
    if os.path.isdir(name):
        raise ValueError(f"{name} is a folder, not a picture; list_pictures lists the pictures in its subfolders.")
    with open(name, "rb") as file:
        try:
            return _read_gray(file, max_side)
        except MemoryError:
            raise
        except Exception as error:  # decoders raise OSError, SyntaxError, struct.error and more on broken files
            if os.fstat(file.fileno()).st_size == 0:
                raise ValueError(f"{name} is empty, not a picture.") from None
            # Pillow's own words name a Python object.
            reason = "its format is unknown" if type(error).__name__ == "UnidentifiedImageError" else error
            raise ValueError(f"{name} cannot be read as a picture: {reason}") from error


def to_gray(picture: Any, name: str = "picture") -> Array:
    """Check a gray picture given as an array and scale it to [0, 1], from black to white; errors call it ``name``.

    It holds numbers from 0 to 1, bool, or unsigned integers of 8 or 16 bits, whose largest value is white.
    """
    try:
        values: AnyArray = np.asarray(picture)
    except ValueError:
        raise ValueError(f"{name} must be a 2-D array of gray values; its rows differ in length.") from None
    if values.ndim != 2 or 0 in values.shape:
        hint = " Average the colors first, or pass the path of the file." if values.ndim == 3 else ""
        raise ValueError(f"{name} must be a 2-D array of gray values, got an array of shape {values.shape}.{hint}")
    if values.dtype in (np.uint8, np.uint16):
        return values / float(np.iinfo(values.dtype).max)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers, got one of {values.dtype}.")
    gray = values.astype(np.float64)
    if not np.isfinite(gray).all():
        raise ValueError(f"{name} has NaN or infinite values; gray values lie between 0 and 1.")
    if gray.min() < 0.0 or gray.max() > 1.0:
        raise ValueError(
            f"{name} has values from {gray.min():g} to {gray.max():g}; gray values lie between 0, black, and 1, white. "
            "Divide by the value of white, or pass integers of type uint8 or uint16."
        )
    return gray


def _read_gray(file: BinaryIO, max_side: int | None) -> Array:
    """Read the gray values of an open file."""
    from PIL import Image, ImageOps

    with Image.open(file) as image:
        # Image.open itself raises only for twice as many pixels, and warns before.
        most = Image.MAX_IMAGE_PIXELS
        if most is not None and image.width * image.height > most:
            raise ValueError(
                f"{image.width}×{image.height} pixels are more than the {most} that PIL.Image.MAX_IMAGE_PIXELS allows."
            )
        gray = _convert_to_gray(ImageOps.exif_transpose(image))
    height, width = gray.shape
    if max_side is not None and max(height, width) > max_side:
        scale = max_side / max(height, width)
        gray = resize_picture(gray, (max(1, math.floor(scale * height + 0.5)), max(1, math.floor(scale * width + 0.5))))
    return gray


def resize_picture(gray: Array, shape: tuple[int, int]) -> Array:
    """Return a picture of gray values at another size, each new pixel a weighted mean of the old ones around it."""
    if gray.shape == shape:
        return gray
    from PIL import Image

    scaled = Image.fromarray(gray.astype(np.float32)).resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
    return np.clip(np.asarray(scaled, dtype=np.float64), 0.0, 1.0)


def _convert_to_gray(image: Image.Image) -> Array:
    """Return the gray values of a picture of any mode, at its own size."""
    from PIL import Image

    if image.mode in _WHITE:
        values, white = np.asarray(image, dtype=np.float64), _WHITE[image.mode]
        if not (values.min() >= 0.0 and values.max() <= white):
            raise ValueError(f"its values go from {values.min():g} to {values.max():g}, not from 0 to {white:g}.")
        return values / white
    if image.has_transparency_data:
        above = image.convert("RGBA")
        image = Image.new("RGBA", above.size, "white")
        image.alpha_composite(above)
    if image.mode not in ("1", "L"):
        image = image.convert("RGB")
    return np.asarray(image.convert("F"), dtype=np.float64) / 255.0

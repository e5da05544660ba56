"""What to make of pictures, as a command is told."""

from __future__ import annotations

from collections.abc import Sequence

import click

from .bad_input import BadInput

__all__ = ["SMALL_PICTURE", "USUAL_SHAPE", "chosen_features", "features_option", "size_option", "usual_shape"]

#: Pictures of at most so many pixels are left at their size where all have the same; others are brought to the second.
SMALL_PICTURE, USUAL_SHAPE = 64 * 64, (32, 32)
_LARGEST_SIDE = 512

features_option = click.option(
    "--features",
    type=click.Choice(["pixels", "pyramid"]),
    help="What to make of pictures: grey values at one size, or spatial pyramids of visual words.  [pyramid]",
)
size_option = click.option(
    "--size", metavar="HxW", help="Size of pictures for --features pixels.  [their own if small, else 32x32]"
)


def chosen_features(features: str | None, size: str | None) -> tuple[str, tuple[int, int] | None]:
    """Pixels or pyramid, and height and width where the user gave them."""
    kind = features or ("pixels" if size is not None else "pyramid")
    if size is None:
        return kind, None
    if kind == "pyramid":
        raise BadInput("--size is for --features pixels: pyramids take pictures of any size.")
    sides = size.lower().split("x")
    if len(sides) != 2 or not all(s.isascii() and s.isdigit() and 1 <= int(s) <= _LARGEST_SIDE for s in sides):
        raise BadInput(f"--size {size}: write height and width in pixels, as in 32x32, each at most {_LARGEST_SIDE}.")
    return kind, (int(sides[0]), int(sides[1]))


def usual_shape(shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Height and width to bring pictures to: their own where all have the same and it is small."""
    same = len(set(shapes)) == 1 and shapes[0][0] * shapes[0][1] <= SMALL_PICTURE
    return shapes[0] if same else USUAL_SHAPE

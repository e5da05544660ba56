"""A figure as SVG to be put into a page: the same bytes each time, letters as outlines, and ids of its own."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["inline_svg"]

_SPACES = re.compile(r"\{[^}]*\}")
_LOCAL = re.compile(r"(url\(|^)#")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """The ``<svg>`` element of a figure.

    Parameters
    ----------
    figure : Figure
    name : str
        Begins every id, so that figures in one page do not use each other's parts: letters, digits and hyphens.
    label : str
        What the figure shows, for readers that cannot see it.

    Returns
    -------
    svg : str
        Without width and height: it fills the place it is put in and keeps the proportions of the figure.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"name must be lower-case letters, digits and hyphens, beginning with a letter; got {name!r}.")
    from matplotlib import rc_context

    written = io.BytesIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "path", "svg.image_inline": True}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(written.getvalue())
    for element in list(root.iter()):
        for child in list(element):
            # What the page says for all figures at once, and notes about the file.
            if _SPACES.sub("", child.tag) in ("metadata", "style"):
                element.remove(child)
    for element in root.iter():
        element.tag = _SPACES.sub("", element.tag)
        element.tail = None
        element.text = None
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.set(_SPACES.sub("", key), _own(_SPACES.sub("", key), value, name))
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-label": label, "class": "figure"}
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _own(key: str, value: str, name: str) -> str:
    """An attribute with local names made the figure's own, and coordinates to a hundredth of a point."""
    if key == "id":
        return f"{name}-{value}"
    if key in ("d", "points", "x", "y"):
        return _NUMBER.sub(
            lambda number: f"{float(number.group()):.2f}".rstrip("0").rstrip("."), " ".join(value.split())
        )
    return _LOCAL.sub(rf"\1#{name}-", value)

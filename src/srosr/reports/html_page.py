"""What the pages of evaluations and experiments share: figures as inline SVG, their look, and the HTML templates.

A page is one file that loads nothing: no script, no font, no external picture. The same content gives the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from .. import __version__
from .._support.plotting import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMESPACE = re.compile(r"\{[^}]*\}")
_LOCAL = re.compile(r"(url\(|^)#")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")


@dataclass(frozen=True)
class Drawing:
    """A figure of a page: its id, the ``<svg>`` element, its caption, its width in inches, and a PNG."""

    name: str
    svg: str
    caption: str
    width: float
    wide: bool = False
    png: bytes = b""


def render_page(template: str, content: dict[str, Any]) -> bytes:
    """Return the page that a template of this package makes of its content, in UTF-8."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    folder = resources.files(__package__)
    env = Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The only content that is not escaped; it is made here and escapes its own text.
    env.filters["as_svg"] = Markup
    page = env.get_template(template).render(content | {"version": __version__})
    return page.encode("utf-8", "backslashreplace")


@contextmanager
def use_page_style(**settings: Any) -> Iterator[None]:
    """Draw figures in the same style on every machine, whatever the user's settings; Matplotlib brings the font."""
    from matplotlib import style

    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    look: dict[str, Any] = dict.fromkeys(inked, INK)
    look |= {"font.family": "DejaVu Sans", "axes.linewidth": 0.8} | settings
    with style.context(["default", look], after_reset=True):
        yield


def render_inline_svg(figure: Figure, name: str, label: str) -> str:
    """Return the ``<svg>`` element of a figure, always the same bytes, with text as outlines and ids of its own.

    The name is the prefix of every id, so that figures of one page do not refer to each other's parts; the label
    describes the figure for screen readers. Without width and height, the element fills its container and keeps its
    proportions.
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
            # The page has one style for all figures.
            if _NAMESPACE.sub("", child.tag) in ("metadata", "style"):
                element.remove(child)
    for element in root.iter():
        element.tag = _NAMESPACE.sub("", element.tag)
        element.tail = None
        element.text = None
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.set(_NAMESPACE.sub("", key), _localize_attribute(_NAMESPACE.sub("", key), value, name))
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-label": label, "class": "figure"}
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _localize_attribute(key: str, value: str, name: str) -> str:
    """Return an attribute with ids prefixed and coordinates rounded to a hundredth of a point."""
    if key == "id":
        return f"{name}-{value}"
    if key in ("d", "points", "x", "y"):
        return _NUMBER.sub(
            lambda number: f"{float(number.group()):.2f}".rstrip("0").rstrip("."), " ".join(value.split())
        )
    return _LOCAL.sub(rf"\1#{name}-", value)

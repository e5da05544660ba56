"""The page of a discovery: every group with its size, its nearest known classes and its most typical samples."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from .._support.array_types import AnyArray
from .._support.messages import count_of, format_number
from .._support.unknown_label import format_label
from ..discovery.discovered_group import Group
from ..discovery.discovery import Discovery
from ..discovery.distinctive_features import DistinctiveFeature
from .html_page import render_page

#: Most known classes of a group, and most groups of which samples are shown.
MOST_CLASSES, MOST_GROUPS = 5, 200
_ABOUT = (
    "Samples of a group reconstruct each other in sparse codes and are neighbors. A group of rejected samples, which "
    "the model takes for none of its classes, may be a class that it does not know. Look at the typical samples, "
    "decide whether they are one, and give it a name.",
    "Tightness is 1 for a group whose samples have no affinity to others, and 0 for a group put together at random. "
    "Tight groups are likely to be one class; loose ones are often mixtures or noise.",
)


@dataclass(frozen=True)
class PageContent:
    """What a page shows besides the discovery itself.

    Attributes
    ----------
    facts : sequence of (name, text)
        About model and data.
    pictures : mapping of row to ndarray of uint8 (height, width)
        Of the typical samples, where samples are pictures.
    names : mapping of row to str
        Names of the pictures.
    features : mapping of group number to list of DistinctiveFeature
        Shown for groups without pictures.
    feature_names : sequence of str, or None
        Names of the columns.
    commands : mapping of group number to str
        The command that makes a class of the group.
    """

    facts: Sequence[tuple[str, str]] = ()
    pictures: Mapping[int, AnyArray] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)
    features: Mapping[int, Sequence[DistinctiveFeature]] = field(default_factory=dict)
    feature_names: Sequence[str] | None = None
    commands: Mapping[int, str] = field(default_factory=dict)


def render_discovery(discovery: Discovery, *, title: str, content: PageContent) -> bytes:
    """Return the page of a discovery as HTML, complete in one file."""
    groups = [_describe_group(group, content) for group in discovery.groups[:MOST_GROUPS]]
    left_out = len(discovery.groups) - len(groups)
    more = f"{count_of(left_out, 'more group')} not shown; the discovery file has all." if left_out else ""
    page: dict[str, Any] = {
        "title": title,
        "about": _ABOUT,
        "facts": list(content.facts),
        "summary": discovery.text.split("\n")[0],
        "groups": groups,
        "more": more,
        "noise": len(discovery.noise),
    }
    return render_page("discovery_page.html.j2", page)


def _describe_group(group: Group, content: PageContent) -> dict[str, Any]:
    return {
        "number": group.number,
        "size": f"{group.size:,}",
        "samples": count_of(group.size, "sample"),
        "tight": group.is_tight,
        "tightness": format_number(group.tightness, 2),
        "nearest": [(format_label(label), f"{100 * share:.0f} %") for label, share in group.nearest[:MOST_CLASSES]],
        "typical": [_describe_sample(row, content) for row in group.typical],
        "features": [_describe_feature(one, content.feature_names) for one in content.features.get(group.number, ())],
        "command": content.commands.get(group.number, ""),
    }


def _describe_sample(row: int, content: PageContent) -> dict[str, Any]:
    picture = content.pictures.get(row)
    source = "" if picture is None else make_data_uri(picture)
    return {"row": row, "name": content.names.get(row, ""), "source": source}


def _describe_feature(feature: DistinctiveFeature, names: Sequence[str] | None) -> dict[str, str]:
    return {
        "name": f"column {feature.place}" if names is None else names[feature.place],
        "mean": f"{feature.mean:.4g}".replace("-", "−"),
        "other_mean": f"{feature.other_mean:.4g}".replace("-", "−"),
        "difference": format_number(feature.difference, 2, signed=True),
    }


def make_data_uri(gray: AnyArray) -> str:
    """Return gray values, (height, width) of uint8, as the address of an image."""
    from PIL import Image

    content = BytesIO()
    Image.fromarray(gray).save(content, "PNG")
    return f"data:image/png;base64,{b64encode(content.getvalue()).decode()}"

"""How methods look and are called in the figures of experiments: the same in all, and told apart without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .._support.plotting import INK, KNOWN_COLOR

__all__ = [
    "OURS",
    "OURS_COLOUR",
    "PAPER_METHODS",
    "Stroke",
    "featured",
    "in_order",
    "is_ours",
    "named",
    "plain",
    "shortened",
    "strokes",
]

#: The method that is this library's own proposal.
OURS = "calibrated"
OURS_COLOUR = "#c1272d"
#: Ours, the paper's rule with its matched half, and what the paper compares itself with.
PAPER_METHODS = (OURS, "paper", "matched", "w-svm", "sci", "ratio", "naive")


@dataclass(frozen=True)
class Stroke:
    """Colour, dashes and marker of a curve."""

    colour: str
    dashes: Any
    marker: str
    filled: bool = True
    width: float = 1.6

    def line(self) -> dict[str, Any]:
        """For Matplotlib's ``plot``."""
        return {
            "color": self.colour,
            "linestyle": self.dashes,
            "linewidth": self.width,
            "marker": self.marker,
            "markersize": 6.5 if self.width > 2 else 5.5,
            "markerfacecolor": self.colour if self.filled else "white",
            "markeredgecolor": self.colour,
            "markeredgewidth": 1.1,
        }


_OURS = Stroke(OURS_COLOUR, "-", "o", width=2.6)
_OURS_VARIANT = Stroke(OURS_COLOUR, (0, (4, 1.5)), "o", filled=False, width=2.0)
#: So many curves can be told apart, and their legend has room.
_MOST_CURVES = 9
_STROKES = (
    Stroke("#e07b39", (0, (7, 2)), "s"),
    Stroke("#a8841a", (0, (3, 1.5)), "s", filled=False),
    Stroke(INK, (0, (1, 1.2)), "^"),
    Stroke(KNOWN_COLOR, (0, (7, 2, 1.5, 2)), "v", filled=False),
    Stroke("#8a6fb0", (0, (9, 2, 1.5, 2, 1.5, 2)), "D", filled=False),
    Stroke("#5b8c5a", (0, (4, 1.5, 1, 1.5)), "X"),
    Stroke("#7a7f8f", (0, (12, 3)), "P"),
    Stroke("#3c5a99", (0, (2, 2)), "*", filled=False),
)


def in_order(methods: Iterable[str], ours: str = OURS) -> list[str]:
    """Methods in the order of all figures: ours, those of the paper, then the others by name."""
    first = [ours, *PAPER_METHODS]
    return sorted(set(methods), key=lambda name: (first.index(name) if name in first else len(first), name))


def featured(methods: Iterable[str], ours: str = OURS) -> list[str]:
    """The methods that a figure with all curves in full can hold: all where they are few, else ours and the paper's.

    Of variants of ours the first is there too. Where a variant such as "w-svm-original" is there and its method is not,
    it takes its place. Where none of the paper's methods is there the first nine stand in.
    """
    there = in_order(methods, ours)
    if len(there) <= _MOST_CURVES:
        return there
    chosen = []
    for name in dict.fromkeys((ours, *PAPER_METHODS)):
        variants = [other for other in there if other.startswith(f"{name}-")]
        itself = [name] if name in there else []
        chosen += itself if itself and name != ours else [*itself, *variants[:1]]
    return chosen if any(not is_ours(name, ours) for name in chosen) else there[:_MOST_CURVES]


def is_ours(name: str, ours: str = OURS) -> bool:
    """Whether a method is ours or a variant of it, such as "calibrated-f"."""
    return name == ours or name.startswith(f"{ours}-")


def strokes(methods: Sequence[str], ours: str = OURS) -> dict[str, Stroke]:
    """A stroke for each method; those of the paper always have their own."""
    own = dict(zip((name for name in PAPER_METHODS if name != OURS), _STROKES, strict=False))
    drawn = {
        name: own[base] for name in methods if (base := _base(name, own)) and (base == name or base not in methods)
    }
    drawn[ours] = _OURS
    drawn |= {name: _OURS_VARIANT for name in [n for n in methods if n != ours and is_ours(n, ours)][:1]}
    free = [stroke for stroke in _STROKES if stroke not in drawn.values()] or list(_STROKES)
    others = [name for name in methods if name not in drawn]
    drawn |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return {name: drawn[name] for name in methods}


def _base(name: str, own: dict[str, Stroke]) -> str | None:
    return next((base for base in own if name == base or name.startswith(f"{base}-")), None)


def named(name: str, ours: str, n: int, most: int) -> str:
    """What a legend calls a method: whether it is ours, and whether it has fewer trials than others."""
    return name + (" (ours)" if is_ours(name, ours) else "") + (f" ({n} of {most} trials)" if n < most else "")


def plain(name: object) -> str:
    """A name that Matplotlib shows as it is: neither mathematics between dollars nor a label left out of legends."""
    text = "".join(sign if sign.isprintable() else "?" for sign in " ".join(str(name).split())).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def shortened(names: Sequence[str], longest: int = 14) -> list[str]:
    """Names cut in the middle to a length, and still different where they were.

    Examples
    --------
    >>> from srosr.reports.method_styles import shortened
    >>> shortened(["crab", "hand-painted-porcelain"], longest=12)
    ['crab', 'hand-p…elain']
    """
    cut = [" ".join(str(name).split()) for name in names]
    cut = [_cut(name, longest) for name in cut]
    seen: dict[str, int] = {}
    for name in cut:
        seen[name] = seen.get(name, 0) + 1
    counts: dict[str, int] = {}
    for i, name in enumerate(cut):
        if seen[name] > 1 and names.count(names[i]) == 1:
            counts[name] = counts.get(name, 0) + 1
            mark = f"·{counts[name]}"
            cut[i] = name[: longest - len(mark)] + mark
    return cut


def _cut(name: str, longest: int) -> str:
    if len(name) <= longest:
        return name
    tail = (longest - 1) // 2
    return f"{name[: longest - 1 - tail]}…{name[-tail:]}"

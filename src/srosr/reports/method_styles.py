"""The order, strokes and labels of methods in the figures of experiments, distinguishable without color."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .._support.plotting import INK, KNOWN_COLOR

#: The method proposed by this library.
OURS = "calibrated"
OURS_COLOR = "#c1272d"
#: Our method, the paper's rule and its matched half, and the methods that the paper compares with.
PAPER_METHODS = (OURS, "paper", "matched", "w-svm", "sci", "ratio", "naive")


@dataclass(frozen=True)
class MethodStroke:
    """Color, dashes and marker of a curve."""

    color: str
    dashes: Any
    marker: str
    filled: bool = True
    width: float = 1.6

    def line(self) -> dict[str, Any]:
        """Return keyword arguments for Matplotlib's ``plot``."""
        return {
            "color": self.color,
            "linestyle": self.dashes,
            "linewidth": self.width,
            "marker": self.marker,
            "markersize": 6.5 if self.width > 2 else 5.5,
            "markerfacecolor": self.color if self.filled else "white",
            "markeredgecolor": self.color,
            "markeredgewidth": 1.1,
        }


_OURS = MethodStroke(OURS_COLOR, "-", "o", width=2.6)
_OURS_VARIANT = MethodStroke(OURS_COLOR, (0, (4, 1.5)), "o", filled=False, width=2.0)
#: The largest number of curves that are distinguishable and fit in a legend.
_MOST_CURVES = 9
_STROKES = (
    MethodStroke("#e07b39", (0, (7, 2)), "s"),
    MethodStroke("#a8841a", (0, (3, 1.5)), "s", filled=False),
    MethodStroke(INK, (0, (1, 1.2)), "^"),
    MethodStroke(KNOWN_COLOR, (0, (7, 2, 1.5, 2)), "v", filled=False),
    MethodStroke("#8a6fb0", (0, (9, 2, 1.5, 2, 1.5, 2)), "D", filled=False),
    MethodStroke("#5b8c5a", (0, (4, 1.5, 1, 1.5)), "X"),
    MethodStroke("#7a7f8f", (0, (12, 3)), "P"),
    MethodStroke("#3c5a99", (0, (2, 2)), "*", filled=False),
)


def order_methods(methods: Iterable[str], ours: str = OURS) -> list[str]:
    """Return methods in the order of all figures: ours, those of the paper, then the others by name."""
    first = [ours, *PAPER_METHODS]
    return sorted(set(methods), key=lambda name: (first.index(name) if name in first else len(first), name))


def choose_featured(methods: Iterable[str], ours: str = OURS) -> list[str]:
    """Return the methods for a figure with all curves: all if they are few, otherwise ours and the paper's.

    The first variant of ours is included. A variant such as "w-svm-original" replaces its method if that is missing. If
    none of the paper's methods is there, the first nine are returned.
    """
    there = order_methods(methods, ours)
    if len(there) <= _MOST_CURVES:
        return there
    chosen = []
    for name in dict.fromkeys((ours, *PAPER_METHODS)):
        variants = [other for other in there if other.startswith(f"{name}-")]
        itself = [name] if name in there else []
        chosen += itself if itself and name != ours else [*itself, *variants[:1]]
    return chosen if any(not is_ours(name, ours) for name in chosen) else there[:_MOST_CURVES]


def is_ours(name: str, ours: str = OURS) -> bool:
    """Return whether a method is ours or a variant of it, such as "calibrated-f"."""
    return name == ours or name.startswith(f"{ours}-")


def assign_strokes(methods: Sequence[str]) -> dict[str, MethodStroke]:
    """Return a stroke for each method; those of the paper always have the same."""
    own = dict(zip((name for name in PAPER_METHODS if name != OURS), _STROKES, strict=False))
    drawn = {
        name: own[base] for name in methods if (base := _find_base(name, own)) and (base == name or base not in methods)
    }
    drawn[OURS] = _OURS
    drawn |= {name: _OURS_VARIANT for name in [n for n in methods if n != OURS and is_ours(n)][:1]}
    free = [stroke for stroke in _STROKES if stroke not in drawn.values()] or list(_STROKES)
    others = [name for name in methods if name not in drawn]
    drawn |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return {name: drawn[name] for name in methods}


def _find_base(name: str, own: dict[str, MethodStroke]) -> str | None:
    return next((base for base in own if name == base or name.startswith(f"{base}-")), None)


def label_method(name: str, n: int, most: int) -> str:
    """Return the label of a method in a legend, which marks ours and methods with fewer trials."""
    return name + (" (ours)" if is_ours(name) else "") + (f" ({n} of {most} trials)" if n < most else "")


def escape_label(name: object) -> str:
    """Return a name that Matplotlib shows unchanged, neither as mathematics nor left out of legends."""
    text = "".join(sign if sign.isprintable() else "?" for sign in " ".join(str(name).split())).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def shorten_names(names: Sequence[str], longest: int = 14) -> list[str]:
    """Return names shortened in the middle, and still distinct.

    Examples
    --------
    >>> from srosr.reports.method_styles import shorten_names
    >>> shorten_names(["crab", "hand-painted-porcelain"], longest=12)
    ['crab', 'hand-p…elain']
    """
    cut = [_cut_middle(" ".join(str(name).split()), longest) for name in names]
    seen = Counter(cut)
    counts: Counter[str] = Counter()
    for i, name in enumerate(cut):
        if seen[name] > 1 and names.count(names[i]) == 1:
            counts[name] += 1
            mark = f"·{counts[name]}"
            cut[i] = name[: longest - len(mark)] + mark
    return cut


def _cut_middle(name: str, longest: int) -> str:
    if len(name) <= longest:
        return name
    tail = (longest - 1) // 2
    return f"{name[: longest - 1 - tail]}…{name[-tail:]}"

"""One look for all figures: colours that colour-blind readers can tell apart, and axes without clutter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .array_types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["INK", "KNOWN_COLOUR", "PALE", "SHADE", "UNKNOWN_COLOUR", "histogram", "panels", "tidy"]

KNOWN_COLOUR = "#1f6f8b"
UNKNOWN_COLOUR = "#d1603d"
INK = "#2b2d42"
PALE = "#b8bcc8"
SHADE = "#f1f2f5"


def panels(ax: Any, n: int, figsize: tuple[float, float], ratios: Sequence[float]) -> tuple[Axes, ...]:
    """Axes for a display of n panels side by side.

    Parameters
    ----------
    ax : None, Axes or sequence of n Axes
        None makes a new figure with pyplot, as scikit-learn's displays do. One Axes gives up its place to the panels
        (for n = 1 it is the panel).
    n : int
    figsize : tuple of float
        Of a new figure, in inches.
    ratios : sequence of float
        Widths of the panels.
    """
    if ax is None:
        from matplotlib import pyplot as plt

        figure, made = plt.subplots(
            1, n, figsize=figsize, width_ratios=list(ratios), squeeze=False, layout="constrained"
        )
        figure.get_layout_engine().set(wspace=0.06, w_pad=0.06)  # type: ignore[call-arg, union-attr]
        return tuple(made[0])
    if not hasattr(ax, "plot"):
        given = tuple(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) != n or not all(hasattr(one, "plot") for one in given):
            raise ValueError(f"ax must be None, one Axes, or {n} of them, one a panel; got {len(given)}.")
        return given
    if n == 1:
        return (ax,)
    ax.set_axis_off()
    gap = 0.3 / n
    widths = np.asarray(ratios, dtype=np.float64) / np.sum(ratios) * (1 - gap * (n - 1))
    starts = np.concatenate([[0.0], np.cumsum(widths + gap)[:-1]])
    return tuple(ax.inset_axes([float(a), 0.0, float(w), 1.0]) for a, w in zip(starts, widths, strict=True))


def tidy(ax: Axes) -> None:
    """Take away the lines that hold no numbers."""
    ax.spines[["top", "right"]].set_visible(False)


def histogram(ax: Axes, values: Array, bins: Any, colour: str, label: str, *, edge: str | None = None) -> None:
    """A translucent histogram with a firm outline, in per cent of the values."""
    weights = np.full(len(values), 100.0 / max(len(values), 1))
    edges = np.asarray(bins).tolist()
    ax.hist(values, edges, weights=weights, color=colour, alpha=0.5, histtype="stepfilled", label=label)
    ax.hist(values, edges, weights=weights, color=edge or colour, histtype="step", linewidth=1.2)


def shared_bins(n_bins: int, *samples: Array) -> Array:
    """Edges of equal bins over all the values of several samples."""
    values = np.concatenate(samples)
    low, high = float(values.min()), float(values.max())
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, n_bins + 1)

"""What all figures share: colors that color-blind readers can tell apart, panels, and axes without clutter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .array_types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KNOWN_COLOR = "#1f6f8b"
UNKNOWN_COLOR = "#d1603d"
INK = "#2b2d42"
PALE = "#b8bcc8"
SHADE = "#f1f2f5"


class Display:
    """Base of figures in the manner of scikit-learn's displays: an object holds numbers, ``plot`` draws them.

    Attributes
    ----------
    axes_ : tuple of Axes
        The panels, after ``plot``.
    ax_ : Axes
        The first of them.
    figure_ : Figure
    """

    axes_: tuple[Axes, ...]
    ax_: Axes
    figure_: Figure

    def _keep_axes(self, *axes: Axes) -> Self:
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure  # type: ignore[assignment]
        return self


def make_panels(ax: Any, n: int, figsize: tuple[float, float], ratios: Sequence[float]) -> tuple[Axes, ...]:
    """Return the Axes of n panels side by side, with these ratios of their widths.

    Without ``ax`` they are in a new figure made with pyplot, as scikit-learn's displays do. One Axes is replaced by the
    panels (for n = 1 it is the panel), n Axes are the panels.
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
            raise ValueError(f"ax must be None, one Axes, or {n} of them, one per panel; got {len(given)}.")
        return given
    if n == 1:
        return (ax,)
    ax.set_axis_off()
    gap = 0.3 / n
    widths = np.asarray(ratios, dtype=np.float64) / np.sum(ratios) * (1 - gap * (n - 1))
    starts = np.concatenate([[0.0], np.cumsum(widths + gap)[:-1]])
    return tuple(ax.inset_axes([float(a), 0.0, float(w), 1.0]) for a, w in zip(starts, widths, strict=True))


def remove_spines(ax: Axes) -> None:
    """Remove the lines at the top and right, which have no numbers."""
    ax.spines[["top", "right"]].set_visible(False)


def draw_grid(ax: Axes, *, axis: Any = "both", width: float = 0.8) -> None:
    """Draw a pale grid behind the data, and no lines at the top and right."""
    remove_spines(ax)
    ax.grid(axis=axis, color=SHADE, linewidth=width)
    ax.set_axisbelow(True)


def draw_histogram(ax: Axes, values: Array, bins: Any, color: str, label: str, *, edge: str | None = None) -> None:
    """Draw a translucent histogram with a solid outline, in percent of the values."""
    weights = np.full(len(values), 100.0 / max(len(values), 1))
    edges = np.asarray(bins).tolist()
    ax.hist(values, edges, weights=weights, color=color, alpha=0.5, histtype="stepfilled", label=label)
    ax.hist(values, edges, weights=weights, color=edge or color, histtype="step", linewidth=1.2)


def find_bins(n_bins: int, *samples: Array) -> Array:
    """Return the edges of equal bins over all values of several samples."""
    values = np.concatenate(samples)
    low, high = float(values.min()), float(values.max())
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, n_bins + 1)

"""Figures with one panel per method (small multiples)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.plotting import INK, KNOWN_COLOR, PALE, UNKNOWN_COLOR
from ..experiments import METRIC_INFO, Curve, compute_curves
from .method_styles import OURS, OURS_COLOR, escape_label, order_methods, shorten_names
from .openness_figures import compute_value_limits, draw_grid

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_COLUMNS = 4
_GRID_WIDTH = 7.6
#: The metrics of :func:`draw_trade`, with label, color, dashes and width of their curves.
_TRADE: dict[str, tuple[str, str, Any, float]] = {
    "recognition_accuracy": ("recognition: known samples accepted as their class", KNOWN_COLOR, "-", 2.0),
    "rejection_accuracy": ("rejection: unknown samples rejected", UNKNOWN_COLOR, (0, (5, 1.5)), 2.0),
    "accuracy": ("accuracy", INK, (0, (1, 1)), 1.4),
}


def draw_method_grid(
    figure: Any, curves: Mapping[str, Curve], metric: str, *, methods: Sequence[str], ours: str = OURS
) -> tuple[Axes, ...]:
    """Draw a metric against openness, one panel per method: its curve in color over all others in gray.

    A method without a curve has an empty panel.
    """
    axes = _make_panels(figure, len(methods))
    most = max(c.n_trials for c in curves.values())
    for ax, name, title in zip(axes, methods, shorten_names(methods, 18), strict=True):
        for other, curve in curves.items():
            if other != name and name in curves:
                ax.plot(100 * curve.openness, curve.mean, color=PALE, linewidth=0.7, **_mark_single_point(curve, 2.0))
        if name in curves:
            _highlight(ax, curves[name], OURS_COLOR if name == ours else KNOWN_COLOR)
        _title_panel(ax, name, title, curves.get(name), ours, most)
    _share_axes(axes, curves.values())
    figure.supxlabel("openness in %", fontsize="medium")
    figure.supylabel(METRIC_INFO[metric].label, fontsize="medium")
    return axes


def compute_trade_curves(results: pd.DataFrame, ours: str = OURS) -> tuple[dict[str, dict[str, Curve]], list[str]]:
    """Return the curves of :func:`draw_trade` by metric, and the methods with recognition or rejection accuracy."""
    curves = {metric: compute_curves(results, metric) for metric in _TRADE}
    methods = order_methods({*curves["recognition_accuracy"], *curves["rejection_accuracy"]}, ours)
    if not methods:
        raise ValueError("results has neither recognition_accuracy nor rejection_accuracy.")
    return curves, methods


def draw_trade(
    figure: Any, curves: Mapping[str, Mapping[str, Curve]], *, methods: Sequence[str], ours: str = OURS
) -> tuple[Axes, ...]:
    """Draw recognition, rejection and accuracy against openness, one panel per method.

    Recognition accuracy is the share of known samples that are accepted as their class, rejection accuracy the share of
    unknown samples that are rejected. The higher the openness, the more samples are unknown, and the closer accuracy
    comes to rejection accuracy.
    """
    from matplotlib.lines import Line2D

    axes = _make_panels(figure, len(methods))
    recognition, rejection = curves["recognition_accuracy"], curves["rejection_accuracy"]
    most = max(c.n_trials for c in (*recognition.values(), *rejection.values()))
    for ax, name, title in zip(axes, methods, shorten_names(methods, 18), strict=True):
        for metric, (_, color, dashes, width) in _TRADE.items():
            if name in curves[metric]:
                _highlight(ax, curves[metric][name], color, dashes, width)
        _title_panel(ax, name, title, recognition.get(name) or rejection.get(name), ours, most)
    _share_axes(axes, [c for found in curves.values() for name, c in found.items() if name in methods])
    figure.supxlabel("openness in %", fontsize="medium")
    figure.supylabel("share of samples", fontsize="medium")
    handles = [Line2D([], [], color=c, linestyle=d, linewidth=w, label=text) for text, c, d, w in _TRADE.values()]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False, fontsize="small")
    return axes


# -- what the figures share -----------------------------------------------------------------------------------


def compute_grid_size(n_panels: int, above: float = 0.0) -> tuple[float, float]:
    """Return the size in inches of a figure with so many panels."""
    return _GRID_WIDTH, 0.6 + above + 1.5 * -(-n_panels // _COLUMNS)


def _make_panels(figure: Any, n: int) -> tuple[Axes, ...]:
    """Return n panels in rows of four."""
    columns = min(n, _COLUMNS)
    made = np.ravel(figure.subplots(-(-n // columns), columns, squeeze=False, sharex=True, sharey=True))
    for ax in made[n:]:
        ax.set_visible(False)
    for ax in made[max(n - columns, 0) : n]:
        ax.tick_params(labelbottom=True)
    return tuple(made[:n])


def _share_axes(axes: Sequence[Axes], drawn: Iterable[Curve]) -> None:
    """Set the same limits, grid and ticks in all panels."""
    from matplotlib.ticker import MaxNLocator

    drawn = list(drawn)
    limits, single = compute_value_limits(drawn), all(len(c.openness) == 1 for c in drawn)
    for ax in axes:
        draw_grid(ax, width=0.7)
        ax.set_ylim(*limits)
        ax.tick_params(labelsize="small", length=2.5)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_locator(MaxNLocator(5))
        if single:
            ax.set_xticks([100 * c.openness[0] for c in drawn][:1])
            ax.margins(x=0.5)


def _mark_single_point(curve: Curve, size: float) -> dict[str, Any]:
    """Return a marker style if a curve is a single point."""
    return {"marker": "o", "markersize": size} if np.sum(np.isfinite(curve.mean)) == 1 else {}


def _highlight(ax: Axes, curve: Curve, color: str, dashes: Any = "-", width: float = 2.0) -> None:
    x = 100 * curve.openness
    ax.plot(x, curve.mean, color=color, linestyle=dashes, linewidth=width, zorder=4, **_mark_single_point(curve, 4.5))
    ax.fill_between(x, curve.low, curve.high, color=color, alpha=0.22, linewidth=0, zorder=3)


def _title_panel(ax: Axes, name: str, title: str, curve: Curve | None, ours: str, most: int) -> None:
    text = escape_label(title + (" (ours)" if name == ours else ""))
    if curve is None:
        ax.text(0.5, 0.5, "no result", transform=ax.transAxes, ha="center", va="center", fontsize="small")
    elif curve.n_trials < most:
        text += f"\n{curve.n_trials} of {most} trials"
    ax.set_title(text, fontsize="small", fontweight="bold" if name == ours else "normal", loc="left", pad=3)

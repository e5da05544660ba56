"""Figures of metrics against openness, in one panel or one per method, and rankings at the largest openness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import INK, KNOWN_COLOR, PALE, UNKNOWN_COLOR, draw_grid
from ..experiments.result_tables import METRIC_INFO
from ..experiments.statistics import Curve, Level, compute_curves, find_levels, summarize, values_at
from .method_styles import (
    OURS,
    OURS_COLOR,
    assign_strokes,
    choose_featured,
    escape_label,
    label_method,
    order_methods,
    shorten_names,
)

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


def draw_openness(ax: Axes, curves: Mapping[str, Curve], metric: str, *, methods: Sequence[str] | None = None) -> None:
    """Draw a metric against openness, one curve per method: means over trials with their 95 % intervals.

    Our method is drawn in bold over the others; without `methods`, all are drawn or, if they are many, ours and those
    of the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from srosr.reports.openness_figures import draw_openness
    >>> from srosr.experiments.statistics import Curve
    >>> ax = Figure().add_subplot()
    >>> draw_openness(ax, {"calibrated": Curve(np.array([0.1, 0.2]), np.array([0.9, 0.8]), np.zeros(2), 10)}, "f")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('openness in %', 'F-measure')
    """
    most = max(c.n_trials for c in curves.values())
    chosen = choose_featured(curves) if methods is None else methods
    drawn = {name: curves[name] for name in chosen if name in curves}
    looks = assign_strokes(list(drawn))
    single = all(len(c.openness) == 1 for c in drawn.values())
    for position, (name, curve) in enumerate(drawn.items()):
        stroke, front = looks[name], 4 if name == OURS else 3
        # At a single openness, points are shifted sideways so that they do not overlap.
        x = 100 * curve.openness + (0.5 * (position - (len(drawn) - 1) / 2) if single else 0.0)
        line: dict[str, Any] = stroke.line() | {"zorder": front}
        line["label"] = escape_label(label_method(name, curve.n_trials, most))
        if single:
            ax.errorbar(x, curve.mean, _compute_whiskers(curve.mean, curve.half_width), **line)
        else:
            ax.plot(x, curve.mean, **line)
            ax.fill_between(x, curve.low, curve.high, color=stroke.color, alpha=0.13, linewidth=0, zorder=2)
    draw_grid(ax)
    ax.set_ylim(*compute_value_limits(drawn.values()))
    if single:
        ax.set_xticks([100 * c.openness[0] for c in drawn.values()][:1])
        ax.margins(x=0.2)
    ax.set_xlabel("openness in %")
    ax.set_ylabel(METRIC_INFO[metric].label)
    place_legend_above(ax)


def draw_method_grid(
    figure: Any, curves: Mapping[str, Curve], metric: str, *, methods: Sequence[str]
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
            _highlight(ax, curves[name], OURS_COLOR if name == OURS else KNOWN_COLOR)
        _title_panel(ax, name, title, curves.get(name), most)
    _share_axes(axes, curves.values())
    figure.supxlabel("openness in %", fontsize="medium")
    figure.supylabel(METRIC_INFO[metric].label, fontsize="medium")
    return axes


def compute_trade_curves(results: pd.DataFrame) -> tuple[dict[str, dict[str, Curve]], list[str]]:
    """Return the curves of :func:`draw_trade` by metric, and the methods with recognition or rejection accuracy."""
    curves = {metric: compute_curves(results, metric) for metric in _TRADE}
    methods = order_methods({*curves["recognition_accuracy"], *curves["rejection_accuracy"]})
    if not methods:
        raise ValueError("results has neither recognition_accuracy nor rejection_accuracy.")
    return curves, methods


def draw_trade(figure: Any, curves: Mapping[str, Mapping[str, Curve]], *, methods: Sequence[str]) -> tuple[Axes, ...]:
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
        _title_panel(ax, name, title, recognition.get(name) or rejection.get(name), most)
    _share_axes(axes, [c for found in curves.values() for name, c in found.items() if name in methods])
    figure.supxlabel("openness in %", fontsize="medium")
    figure.supylabel("share of samples", fontsize="medium")
    handles = [Line2D([], [], color=c, linestyle=d, linewidth=w, label=text) for text, c, d, w in _TRADE.values()]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False, fontsize="small")
    return axes


def compute_ranking(results: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, Level]:
    """Return the summary of the methods at the largest openness, best first, and that openness."""
    steps = find_levels(results, metric)
    if not steps:
        raise ValueError(f"results has no value of the metric {metric!r}.")
    return sort_summary(summarize(values_at(results, metric, steps[-1])), metric), steps[-1]


def sort_summary(summary: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a table of :func:`summarize` with the best method first, equal ones by name."""
    return summary.sort_index().sort_values("mean", ascending=METRIC_INFO[metric].better < 0, kind="stable")


def draw_ranking(ax: Axes, summary: pd.DataFrame, metric: str, openness: float) -> None:
    """Draw bars of a metric at one openness, from the top, with 95 % intervals; our method is highlighted."""
    methods = [str(name) for name in summary.index]
    mean, half_width, counts = (summary[name].to_numpy() for name in ("mean", "half_width", "n"))
    # Random scores have an AUROC of one half.
    start = 0.5 if metric == "auroc" else 0.0
    places = np.arange(len(methods))
    is_ours = np.array([name == OURS for name in methods])
    ax.barh(places, mean - start, left=start, color=np.where(is_ours, OURS_COLOR, PALE).tolist(), height=0.68, zorder=2)
    whiskers = _compute_whiskers(mean, half_width)
    known = np.isfinite(half_width)
    ax.errorbar(
        mean[known], places[known], xerr=whiskers[:, known], fmt="none", ecolor=INK, elinewidth=1.1, capsize=2.5,
        zorder=3,
    )  # fmt: skip
    for place, value, half in zip(places, mean, whiskers[1], strict=True):
        ax.annotate(
            f"{value:.3f}", (max(value + half, start), place), xytext=(5, 0), textcoords="offset points", va="center",
            fontsize="small", color=INK,
        )  # fmt: skip
    labels = [
        escape_label(label_method(name, int(n), int(counts.max())))
        for name, n in zip(shorten_names(methods, 22), counts, strict=True)
    ]
    ax.set_yticks(places, labels)
    for label, bold in zip(ax.get_yticklabels(), is_ours, strict=True):
        label.set_fontweight("bold" if bold else "normal")
    ax.set_ylim(len(places) - 0.4, -0.6)
    # Room for the numbers beside the bars.
    low = min(start, float(np.min(mean - whiskers[0])))
    high = max(start, float(np.max(mean + whiskers[1])))
    ax.set_xlim(low, low + max(high - low, 0.1) * 1.16)
    ax.set_xticks([tick for tick in ax.get_xticks() if low <= tick <= min(ax.get_xlim()[1], 1.0)])
    draw_grid(ax, axis="x")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.axvline(start, color=INK, linewidth=0.8, zorder=4)
    ax.set_xlabel(f"{METRIC_INFO[metric].label} at openness {100 * openness:.2f} %")


# -- what the figures share -----------------------------------------------------------------------------------


def require_curves(results: pd.DataFrame, metric: str) -> dict[str, Curve]:
    """Return the curves of a metric; raise ValueError if there are none."""
    found = compute_curves(results, metric)
    if not found:
        raise ValueError(f"results has no value of the metric {metric!r}.")
    return found


def compute_value_limits(drawn: Iterable[Curve]) -> tuple[float, float]:
    """Return the limits of an axis for all curves with their intervals, within the range of a share."""
    ends = [c.mean + sign * np.nan_to_num(c.half_width) for c in drawn for sign in (-1.0, 1.0)]
    values = np.concatenate(ends) if ends else np.empty(0)
    values = np.clip(values[np.isfinite(values)], 0.0, 1.0)
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = max(0.04 * (high - low), 0.01)
    # A margin keeps markers at the edge whole.
    return max(low - room, -0.02), min(high + room, 1.02)


def compute_ranking_size(n_methods: int) -> tuple[float, float]:
    """Return the size in inches of a figure with so many bars."""
    return 5.6, 0.8 + 0.25 * max(n_methods, 3)


def _compute_whiskers(mean: Array, half_width: Array) -> Array:
    """Return the lengths of whiskers, down and up, within the range of a share; zero without an interval."""
    half = np.nan_to_num(half_width)
    return np.stack([np.clip(mean, 0.0, half), np.clip(1.0 - mean, 0.0, half)])


def place_legend_above(ax: Axes) -> None:
    """Place the legend above the axes, in as many columns as fit."""
    handles, labels = ax.get_legend_handles_labels()
    # Single axes get most of the width once the layout is done.
    share = 0.88 if len(ax.figure.axes) == 1 else ax.get_position().width
    room = share * float(ax.figure.get_figwidth())  # type: ignore[union-attr]
    columns = next(n for n in range(4, 0, -1) if n == 1 or _estimate_legend_width(labels, n) < room)
    ax.legend(
        handles, labels, frameon=False, ncols=columns, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2,
        borderpad=0.1, fontsize="small", handlelength=3.2, columnspacing=1.2, labelspacing=0.35,
    )  # fmt: skip


def _estimate_legend_width(labels: Sequence[str], columns: int) -> float:
    """Return the approximate width of a legend in inches: handle, gap and longest label of each column."""
    rows = -(-len(labels) // columns)
    longest = [max(map(len, labels[first : first + rows])) for first in range(0, len(labels), rows)]
    return sum(0.58 + 0.067 * n for n in longest)


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


def _title_panel(ax: Axes, name: str, title: str, curve: Curve | None, most: int) -> None:
    text = escape_label(title + (" (ours)" if name == OURS else ""))
    if curve is None:
        ax.text(0.5, 0.5, "no result", transform=ax.transAxes, ha="center", va="center", fontsize="small")
    elif curve.n_trials < most:
        text += f"\n{curve.n_trials} of {most} trials"
    ax.set_title(text, fontsize="small", fontweight="bold" if name == OURS else "normal", loc="left", pad=3)

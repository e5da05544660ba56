"""Figures of metrics against openness, and rankings at the largest openness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import INK, PALE, SHADE, remove_spines
from ..experiments import METRIC_INFO, Curve, Level, compute_curves, find_levels, summarize, values_at
from .method_styles import OURS, OURS_COLOR, assign_strokes, choose_featured, escape_label, label_method, shorten_names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def draw_openness(
    ax: Axes, curves: Mapping[str, Curve], metric: str, *, methods: Sequence[str] | None = None, ours: str = OURS
) -> None:
    """Draw a metric against openness, one curve per method: means over trials with their 95 % intervals.

    Our method is drawn in bold over the others; without `methods`, all are drawn or, if they are many, ours and those
    of the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from srosr.reports.openness_figures import draw_openness
    >>> from srosr.experiments import Curve
    >>> ax = Figure().add_subplot()
    >>> draw_openness(ax, {"calibrated": Curve(np.array([0.1, 0.2]), np.array([0.9, 0.8]), np.zeros(2), 10)}, "f")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('openness in %', 'F-measure')
    """
    most = max(c.n_trials for c in curves.values())
    chosen = choose_featured(curves, ours) if methods is None else methods
    drawn = {name: curves[name] for name in chosen if name in curves}
    looks = assign_strokes(list(drawn), ours)
    single = all(len(c.openness) == 1 for c in drawn.values())
    for position, (name, curve) in enumerate(drawn.items()):
        stroke, front = looks[name], 4 if name == ours else 3
        # At a single openness, points are shifted sideways so that they do not overlap.
        x = 100 * curve.openness + (0.5 * (position - (len(drawn) - 1) / 2) if single else 0.0)
        line: dict[str, Any] = stroke.line() | {"zorder": front}
        line["label"] = escape_label(label_method(name, ours, curve.n_trials, most))
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


def compute_ranking(results: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, Level]:
    """Return the summary of the methods at the largest openness, best first, and that openness."""
    steps = find_levels(results, metric)
    if not steps:
        raise ValueError(f"results has no value of the metric {metric!r}.")
    return sort_summary(summarize(values_at(results, metric, steps[-1])), metric), steps[-1]


def sort_summary(summary: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a table of :func:`summarize` with the best method first, equal ones by name."""
    return summary.sort_index().sort_values("mean", ascending=METRIC_INFO[metric].better < 0, kind="stable")


def draw_ranking(ax: Axes, summary: pd.DataFrame, metric: str, openness: float, *, ours: str = OURS) -> None:
    """Draw bars of a metric at one openness, from the top, with 95 % intervals; our method is highlighted."""
    methods = [str(name) for name in summary.index]
    mean, half_width, counts = (summary[name].to_numpy() for name in ("mean", "half_width", "n"))
    # Random scores have an AUROC of one half.
    start = 0.5 if metric == "auroc" else 0.0
    places = np.arange(len(methods))
    is_ours = np.array([name == ours for name in methods])
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
        escape_label(label_method(name, ours, int(n), int(counts.max())))
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


def draw_grid(ax: Axes, *, axis: Any = "both", width: float = 0.8) -> None:
    """Draw a pale grid behind the data, and no lines at the top and right."""
    remove_spines(ax)
    ax.grid(axis=axis, color=SHADE, linewidth=width)
    ax.set_axisbelow(True)


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

"""Figures of details: errors and confusion of one trial, and thresholds for target rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import INK, KNOWN_COLOR, PALE, UNKNOWN_COLOR, draw_grid, find_bins, remove_spines
from ..experiments.statistics import Curve, mean_interval
from ..inspection.metric_displays import OpenSetConfusionDisplay
from .method_styles import OURS, OURS_COLOR, escape_label, label_method, order_methods, shorten_names
from .openness_figures import compute_value_limits, place_legend_above

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: The largest number of gray curves that are distinguishable.
MAX_PALE = 6
_PALE_STROKES: tuple[tuple[Any, str], ...] = (
    ("-", "s"), ((0, (6, 2)), "^"), ((0, (1, 1.2)), "v"), ((0, (6, 2, 1.5, 2)), "D"), ((0, (3, 1.5)), "X"),
    ((0, (9, 2, 1.5, 2, 1.5, 2)), "P"),
)  # fmt: skip
_FAINT = "#8d92a1"
_BINS = 50
_GROUPS: tuple[tuple[str, str, Any], ...] = (
    ("held-out training", INK, (0, (1, 1))),
    ("test, known", KNOWN_COLOR, "-"),
    ("test, unknown", UNKNOWN_COLOR, (0, (5, 1.5))),
)
#: The columns of :func:`draw_target`, with label, color, dashes and marker of their curves.
_TARGET: dict[str, tuple[str, str, Any, str]] = {
    "f": ("F-measure", KNOWN_COLOR, "-", "o"),
    "accuracy": ("accuracy", INK, (0, (6, 2)), "s"),
    "unknown_rejected": ("unknown samples rejected", UNKNOWN_COLOR, (0, (2, 1.2)), "^"),
}


def draw_errors(figure: Any, portrait: Mapping[str, Any], *, method: str = "") -> tuple[Axes, Axes]:
    """Draw histograms of matched and of non-matched errors of one trial, on one scale.

    The matched error of a sample is the residual of its class (for test samples, of the best class); the non-matched
    error is the mean residual of all other classes.
    """
    from matplotlib.lines import Line2D

    parts = (portrait["held_out"], portrait["test"]["known"], portrait["test"]["unknown"])
    errors = {kind: [_keep_finite(part[kind]) for part in parts] for kind in ("matched", "nonmatched")}
    everything = [values for three in errors.values() for values in three if len(values)]
    edges = find_bins(_BINS, *everything) if everything else np.linspace(0.0, 1.0, _BINS + 1)
    upper, lower = figure.subplots(2, 1, sharex=True)
    whose = f"{escape_label(method)}: " if method else ""
    for ax, three, name in zip((upper, lower), errors.values(), ("matched error", "non-matched error"), strict=True):
        for values, (_, color, dashes) in zip(three, _GROUPS, strict=True):
            weights = np.full(len(values), 100.0 / max(len(values), 1))
            steps = {"x": values, "bins": edges.tolist(), "weights": weights, "color": color}
            ax.hist(**steps, alpha=0.14, histtype="stepfilled")
            ax.hist(**steps, histtype="step", linewidth=1.4, linestyle=dashes)
        remove_spines(ax)
        ax.set_ylabel("% of samples")
        ax.set_title(whose + name, fontsize="medium", loc="left", pad=4)
    lower.set_xlim(edges[0], edges[-1])
    lower.set_xlabel("reconstruction error")
    handles = []
    for values, (label, color, dashes) in zip(errors["matched"], _GROUPS, strict=True):
        count = f"{len(values):,}"
        handles.append(Line2D([], [], color=color, linestyle=dashes, linewidth=1.6, label=f"{label} ({count})"))
    figure.legend(
        handles=handles, loc="outside upper left", ncols=3, frameon=False, fontsize="small", columnspacing=1.2,
        handlelength=2.2,
    )  # fmt: skip
    return upper, lower


def make_confusion_display(portrait: Mapping[str, Any]) -> OpenSetConfusionDisplay:
    """Return the confusion matrix of a portrait, with long class names shortened."""
    names = [*map(escape_label, shorten_names(list(portrait["class_names"]))), "unknown"]
    matrix = np.asarray(portrait["confusion"], dtype=np.int64)
    if matrix.shape != (len(names), len(names)):
        raise ValueError(
            f"the confusion matrix of a portrait with {len(names) - 1} classes must be {len(names)} by {len(names)}, "
            f"not {matrix.shape}."
        )
    return OpenSetConfusionDisplay(np.array(names, dtype=object), matrix)


def draw_confusion(ax: Axes, portrait: Mapping[str, Any], method: str) -> None:
    """Draw the confusion matrix of a method as vectors, so that cells are sharp at any size."""
    make_confusion_display(portrait).plot(ax)
    ax.set_xlabel(f"answer of {escape_label(method)}")
    for image in ax.images:
        image.set_interpolation("none")


def compute_target_curves(coverage: pd.DataFrame, method: str = OURS) -> dict[str, Curve]:
    """Return the curves of :func:`draw_target` by column of the coverage table."""
    found = {column: compute_coverage_curves(coverage, column) for column in _TARGET}
    if any(method not in curves for curves in found.values()):
        raise ValueError(f"coverage has no rows of the method {method!r}.")
    return {column: curves[method] for column, curves in found.items()}


def draw_target(ax: Axes, curves: Mapping[str, Curve], method: str = OURS) -> None:
    """Draw metrics of a method against the target rate of its threshold, at the largest openness."""
    for column, (label, color, dashes, marker) in _TARGET.items():
        line: dict[str, Any] = {"linestyle": dashes, "marker": marker, "markersize": 5.5, "linewidth": 1.8}
        ax.plot(curves[column].openness, curves[column].mean, **line, color=color, label=label, zorder=3)
        _draw_band(ax, curves[column], color)
    targets = curves["f"].openness
    _scale_target_axis(ax, "x", targets)
    ax.set_xlim(0.85 * targets[0], 1.15 * targets[-1])
    draw_grid(ax)
    ax.set_ylim(*compute_value_limits(curves.values()))
    ax.set_xlabel("target share of known samples rejected, in %")
    ax.set_ylabel(escape_label(method) + (", mean over trials" if curves["f"].n_trials > 1 else ", one trial"))
    place_legend_above(ax)


def choose_coverage_methods(curves: Mapping[str, Curve]) -> tuple[list[str], list[str]]:
    """Return the methods that :func:`draw_coverage` draws, and those for which it has no room."""
    if not curves:
        raise ValueError("coverage has no rows of these methods.")
    order = order_methods(curves)
    n_drawn = MAX_PALE + (OURS in curves)
    return order[:n_drawn], order[n_drawn:]


def draw_coverage(ax: Axes, curves: Mapping[str, Curve], methods: Sequence[str]) -> None:
    """Draw the share of known test samples rejected against the target rate, all methods but ours in gray.

    A method that keeps its target is on the diagonal; above it, more samples are rejected. `curves` are those of all
    methods, of which `methods` are drawn.
    """
    most = max(c.n_trials for c in curves.values())
    drawn = {name: curves[name] for name in methods}
    ends = np.concatenate([c.openness for c in drawn.values()])
    low, high = float(ends.min()), float(ends.max())
    ax.plot([0.0, high], [0.0, high], color=INK, linewidth=1.0, linestyle=(0, (1, 2)), label="target", zorder=1)
    pale = iter(_PALE_STROKES)
    stroke: dict[str, Any]
    for name, curve in drawn.items():
        if name == OURS:
            stroke = {"color": OURS_COLOR, "linewidth": 2.6, "marker": "o", "markersize": 6.5, "zorder": 4}
            _draw_band(ax, curve, OURS_COLOR)
        else:
            dashes, marker = next(pale)
            stroke = {"color": _FAINT, "linestyle": dashes, "linewidth": 1.1, "marker": marker, "markersize": 4.5}
            stroke |= {"zorder": 3, "markerfacecolor": PALE}
        label = escape_label(label_method(name, curve.n_trials, most))
        ax.plot(curve.openness, curve.mean, **stroke, label=label)
    _scale_target_axis(ax, "x", ends)
    _scale_target_axis(ax, "y", ends)
    top = max([high, *(float(np.nanmax(np.fmax(c.mean, c.high))) for c in drawn.values())])
    ax.set_xlim(0.85 * low, 1.1 * high)
    ax.set_ylim(0.0, min(1.1 * top, 1.0))
    draw_grid(ax)
    ax.set_xlabel("target share of known samples rejected, in %")
    ax.set_ylabel("known test samples rejected, in %")
    place_legend_above(ax)


def compute_coverage_curves(coverage: pd.DataFrame, column: str) -> dict[str, Curve]:
    """Return mean and interval of a column of the coverage table by method, with the target in place of openness."""
    drawn = {}
    for method, rows in coverage[coverage[column].notna()].groupby("method"):
        by_target = {float(target): mean_interval(one[column]) for target, one in rows.groupby("target")}
        mean, half = (np.array([getattr(one, name) for one in by_target.values()]) for name in ("mean", "half_width"))
        drawn[str(method)] = Curve(np.array(list(by_target)), mean, half, int(rows["trial"].nunique()))
    return drawn


def _scale_target_axis(ax: Axes, which: str, targets: Array) -> None:
    """Set a logarithmic scale that begins at zero."""
    smallest = float(targets[targets > 0].min()) if (targets > 0).any() else 0.01
    axis, rescale = (ax.xaxis, ax.set_xscale) if which == "x" else (ax.yaxis, ax.set_yscale)
    rescale("symlog", linthresh=smallest, linscale=0.35)
    ticks = [t for t in (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if t == 0 or t >= smallest]
    axis.set_ticks(ticks, labels=[f"{100 * t:g}" for t in ticks])
    axis.set_ticks([], minor=True)


def _draw_band(ax: Axes, curve: Curve, color: str) -> None:
    ax.fill_between(curve.openness, curve.low, curve.high, color=color, alpha=0.16, linewidth=0, zorder=2)


def _keep_finite(values: Any) -> Array:
    kept = np.asarray(values, dtype=np.float64)
    return kept[np.isfinite(kept)]
